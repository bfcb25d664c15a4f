//! The keeper as the supervisor knows it: its process, the link to it, and a copy of its session's descriptor.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::child;
use crate::base::exit::Ending;
use crate::isolated::link::Link;
use crate::keeper::message::{FromKeeper, ToKeeper};

/// A keeper, or the latest of several.
pub struct KeeperLink {
    /// Its process until it is reaped.
    pid: Option<Pid>,
    /// Shared with the command's process, which sends its own number before it becomes the command.
    link: Arc<Link>,
    /// Whether it has closed its end. Then it has ended, or is about to.
    closed: bool,
    /// The session's descriptor, which nothing is done with: should the keeper die, the server sees the session live, and
    /// gives the lock to nobody before the command is gone.
    session: Option<OwnedFd>,
    /// Whether it may hold the lock without having said so.
    claims: bool,
}

impl KeeperLink {
    /// That of a keeper which was just forked.
    pub fn new((pid, link): (Pid, Link)) -> Self {
        Self {
            pid: Some(pid),
            link: Arc::new(link),
            closed: false,
            session: None,
            claims: false,
        }
    }

    /// Another keeper takes over from one that was reaped. The session of the one before stays open until the new one has
    /// the lock.
    pub fn replace(&mut self, keeper: (Pid, Link)) {
        let session = self.session.take();
        *self = Self {
            session,
            ..Self::new(keeper)
        };
    }

    /// The link itself, for the command's process.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// The number of its process until it is reaped.
    pub fn pid(&self) -> Option<i32> {
        self.pid.map(Pid::as_raw)
    }

    /// Whether it may hold the lock without having said so: then it is not to be ended before it has released it.
    pub fn claims(&self) -> bool {
        self.claims && !self.closed
    }

    /// Whether it may have held the lock, without having said so, when it ended.
    pub fn has_claimed(&self) -> bool {
        self.claims
    }

    /// Whether it has closed its end.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it has closed its end and is still to be reaped.
    pub fn is_unreaped(&self) -> bool {
        self.closed && self.pid.is_some()
    }

    /// The descriptors without which the keeper or its session is lost.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let session = self.session.as_ref().map(AsRawFd::as_raw_fd);
        [self.link.as_fd().as_raw_fd()].into_iter().chain(session)
    }

    /// Sends a message. Whether the keeper is gone is noticed by the end of the link.
    pub fn send(&self, message: &ToKeeper) {
        let _ = self.link.send(message);
    }

    /// Whether a message, or the end of the link, is there already.
    pub fn is_readable(&self) -> bool {
        let mut link = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
        !self.closed && matches!(poll(&mut link, PollTimeout::ZERO), Ok(1))
    }

    /// The next message; `None` when the keeper is gone. One that sends what is no message counts as gone, too.
    pub fn receive(&mut self) -> Option<FromKeeper> {
        let Some((message, descriptor)) = self.link.receive().unwrap_or_default() else {
            self.closed = true;
            return None;
        };
        match message {
            FromKeeper::Held(..) => {
                self.session = descriptor;
                self.claims = false;
            }
            FromKeeper::Lost(_) => self.session = None,
            FromKeeper::Claiming(may_be_held) => self.claims = may_be_held,
            _ => {}
        }
        Some(message)
    }

    /// A message of a keeper that was ended, sent before that and not received yet.
    pub fn left_behind(&self) -> Option<FromKeeper> {
        if !self.link.is_readable() {
            return None;
        }
        let (message, _) = self.link.receive().unwrap_or_default()?;
        Some(message)
    }

    /// Whether the keeper has ended, whatever it has said before; then it is reaped.
    pub fn has_gone(&mut self) -> bool {
        while self.is_readable() {
            self.receive();
        }
        if self.closed {
            self.end();
        }
        self.closed
    }

    /// Ends the keeper, and with it its session; how it ended. Nothing is waited for but the kernel.
    pub fn end(&mut self) -> Option<Ending> {
        let ending = self.reap();
        self.session = None;
        ending
    }

    /// Ends the keeper, but not the session that it had. One that has ended must not stay a zombie.
    pub fn reap(&mut self) -> Option<Ending> {
        let pid = self.pid.take()?;
        let _ = kill(pid, Signal::SIGKILL);
        self.closed = true;
        child::reap(pid.as_raw())
    }
}

/// How a keeper ended that sent no reason.
pub fn unexplained_end(ending: Option<Ending>) -> String {
    match ending {
        // It has a limit on its memory, and hits it by an abort.
        Some(Ending::Signal(libc::SIGABRT)) => {
            "the keeper aborted: it may use no more than 64 MB of memory".to_owned()
        }
        Some(ending) => format!("the keeper {}", describe(ending)),
        None => "the keeper is gone".to_owned(),
    }
}

/// How a process ended, as the end of a sentence about it.
pub fn describe(ending: Ending) -> String {
    match ending {
        Ending::Code(code) => format!("ended with {code}"),
        Ending::Signal(signal) => format!("died of signal {signal}"),
    }
}
