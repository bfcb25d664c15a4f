//! The keeper as the supervisor sees it: its process, the link to it, and a copy of its session's descriptor.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::child;
use crate::base::exit::Ending;
use crate::isolated::link::{Link, refusal};
use crate::keeper::message::{FromKeeper, ToKeeper};

/// How long a keeper that was killed may take to end.
const REAP_LIMIT: Duration = Duration::from_secs(1);

/// A keeper, or the latest of several.
pub struct KeeperLink {
    /// The process, until it is reaped.
    pid: Option<Pid>,
    /// Shared with the command's process, which sends its own pid before it becomes the command.
    link: Arc<Link>,
    /// Whether the keeper has closed its end. Then it has ended, or is about to.
    closed: bool,
    /// A copy of the session's descriptor, which is never read or written. If the keeper dies, it keeps the session alive on the server,
    /// so nobody gets the lock before the command is gone.
    session: Option<OwnedFd>,
    /// Whether the keeper may hold the lock without having reported that.
    claims: bool,
}

impl KeeperLink {
    /// The link to a keeper that was just forked.
    pub fn new((pid, link): (Pid, Link)) -> Self {
        Self {
            pid: Some(pid),
            link: Arc::new(link),
            closed: false,
            session: None,
            claims: false,
        }
    }

    /// Another keeper requests the lock. The one before may have been granted it.
    pub fn ask_again(&mut self, keeper: (Pid, Link)) {
        let claims = self.claims;
        *self = Self {
            claims,
            ..Self::new(keeper)
        };
    }

    /// Another keeper takes over from one that was reaped. The old session stays open until the new keeper has the lock.
    pub fn replace(&mut self, keeper: (Pid, Link)) {
        let session = self.session.take();
        *self = Self {
            session,
            ..Self::new(keeper)
        };
    }

    /// The link, for the command's process.
    pub fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// The keeper's pid, until it is reaped.
    pub fn pid(&self) -> Option<i32> {
        self.pid.map(Pid::as_raw)
    }

    /// Whether the keeper may hold the lock without having reported that. Then it must not be killed before it has released the lock.
    pub fn claims(&self) -> bool {
        self.claims && !self.closed
    }

    /// Whether the keeper, when it ended, may have held the lock without having reported that.
    pub fn has_claimed(&self) -> bool {
        self.claims
    }

    /// Whether the keeper has closed its end.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the keeper has closed its end and must still be reaped.
    pub fn is_unreaped(&self) -> bool {
        self.closed && self.pid.is_some()
    }

    /// The descriptors that keep the keeper and its session alive.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let session = self.session.as_ref().map(AsRawFd::as_raw_fd);
        [self.link.as_fd().as_raw_fd()].into_iter().chain(session)
    }

    /// Sends a message. If the keeper is gone, the end of the link shows that.
    pub fn send(&self, message: &ToKeeper) {
        let _ = self.link.send(message);
    }

    /// Whether a message, or the end of the link, has arrived.
    pub fn is_readable(&self) -> bool {
        let mut link = [PollFd::new(self.link.as_fd(), PollFlags::POLLIN)];
        !self.closed && matches!(poll(&mut link, PollTimeout::ZERO), Ok(1))
    }

    /// The next message; `None`: the keeper is gone. One that sends an invalid message counts as gone, too.
    pub fn receive(&mut self) -> Option<FromKeeper> {
        let (message, descriptor) = match self.link.receive() {
            Ok(Some(received)) => received,
            Ok(None) => {
                self.closed = true;
                return None;
            }
            Err(error) => {
                let refused = refusal(&error).map(FromKeeper::Failed);
                self.closed = refused.is_none();
                return refused;
            }
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

    /// A message that the keeper sent before it was killed, and that was not read yet.
    pub fn left_behind(&self) -> Option<FromKeeper> {
        if !self.link.is_readable() {
            return None;
        }
        let (message, _) = self.link.receive().unwrap_or_default()?;
        Some(message)
    }

    /// Reads and drops all messages. Whether the keeper has ended; then it is reaped.
    pub fn has_gone(&mut self) -> bool {
        while self.is_readable() {
            self.receive();
        }
        if self.closed {
            self.end();
        }
        self.closed
    }

    /// Kills the keeper, and closes its session. Returns how the keeper ended. It waits only for the kernel, and not for long.
    pub fn end(&mut self) -> Option<Ending> {
        let ending = self.reap();
        self.session = None;
        ending
    }

    /// Kills and reaps the keeper, but keeps its session open. A keeper that has ended must not stay a zombie.
    pub fn reap(&mut self) -> Option<Ending> {
        let pid = self.pid.take()?;
        let _ = kill(pid, Signal::SIGKILL);
        self.closed = true;
        child::reap_within(pid.as_raw(), REAP_LIMIT)
    }
}

/// How a keeper ended that has sent no reason.
pub fn unexplained_end(ending: Option<Ending>) -> String {
    match ending {
        // The keeper has a memory limit, and aborts when it hits it.
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
