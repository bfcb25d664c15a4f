//! An isolated process as the one that has forked it sees it: its pid, the link to it, and when it is replaced. Nothing here waits for it.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use nix::poll::{PollFd, PollFlags};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::link::{Link, refusal};
use super::process::{how_it_ended, kill_and_reap};
use super::restarts::Restarts;
use crate::base::children::End;
use crate::base::clock::Moment;
use crate::base::exit::Failure;

/// A process, or the latest of several that have replaced one another. It gets messages `S`, and sends messages `R`.
pub struct Peer<S, R> {
    /// What people call it.
    name: &'static str,
    /// The process, until it is reaped.
    pid: Option<Pid>,
    /// How the latest one that was reaped has ended.
    end: End,
    link: Link,
    /// Whether the process has closed its end. Then it has ended, or is about to.
    is_closed: bool,
    /// Messages that the link has no room for: a process without a server reads none.
    unsent: VecDeque<S>,
    /// When it last sent something, or was started.
    pub heard_at: Moment,
    /// A copy of its session's descriptor, which is never read or written. It keeps the session alive on the server if the process dies;
    /// and shutting it down interrupts the current statement.
    pub session: Option<OwnedFd>,
    /// When it is replaced.
    pub restarts: Restarts,
    receives: PhantomData<fn() -> R>,
}

impl<S: Serialize, R: DeserializeOwned + From<Failure>> Peer<S, R> {
    /// A process that was just forked, which people call `name`.
    pub fn new(name: &'static str, (pid, link): (Pid, Link)) -> Self {
        Self {
            name,
            pid: Some(pid),
            end: End::Pending,
            link,
            is_closed: false,
            unsent: VecDeque::new(),
            heard_at: Moment::now(),
            session: None,
            restarts: Restarts::begin(),
            receives: PhantomData,
        }
    }

    /// Another process takes over from one that was reaped. The old session stays open until the new process has one.
    pub fn replace(&mut self, (pid, link): (Pid, Link)) {
        self.pid = Some(pid);
        self.link = link;
        self.is_closed = false;
        self.unsent.clear();
        self.heard_at = Moment::now();
        self.restarts.restart();
    }

    /// The pid, until it is reaped.
    pub fn pid(&self) -> Option<i32> {
        self.pid.map(Pid::as_raw)
    }

    /// Whether it is not reaped yet.
    pub fn is_there(&self) -> bool {
        self.pid.is_some()
    }

    /// Whether it has closed its end.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Whether it has closed its end, and is not reaped yet.
    pub fn is_unreaped(&self) -> bool {
        self.is_closed && self.is_there()
    }

    /// Whether one runs, or will be started.
    pub fn is_expected(&self) -> bool {
        self.is_there() || self.restarts.next().is_some()
    }

    /// The descriptors that keep it and its session alive.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let session = self.session.as_ref().map(AsRawFd::as_raw_fd);
        [self.link.as_fd().as_raw_fd()].into_iter().chain(session)
    }

    /// What to wait for: a message, the end of the link, or room for what is unsent. `None`: it has closed its end.
    pub fn wanted(&self) -> Option<PollFd<'_>> {
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, !self.unsent.is_empty());
        (!self.is_closed).then(|| PollFd::new(self.link.as_fd(), events))
    }

    /// Sends a message, now or when the link has room. If the process is gone, the end of the link shows that.
    pub fn send(&mut self, message: S) {
        if !self.is_closed {
            self.unsent.push_back(message);
            self.send_rest();
        }
    }

    /// Sends what the link has room for now.
    pub fn send_rest(&mut self) {
        while let Some(message) = self.unsent.front()
            && self.link.try_send(message, None).unwrap_or(true)
        {
            self.unsent.pop_front();
        }
    }

    /// Whether a message, or the end of the link, has arrived.
    pub fn is_readable(&self) -> bool {
        !self.is_closed && self.link.is_readable()
    }

    /// The next message, and the descriptor that may come with it. `None`: the process is gone. One that sends an invalid message counts as
    /// gone, too.
    pub fn receive(&mut self) -> Option<(R, Option<OwnedFd>)> {
        self.heard_at = Moment::now();
        match self.link.receive() {
            Ok(Some(received)) => return Some(received),
            Ok(None) => {}
            Err(error) => {
                if let Some(failure) = refusal(&error) {
                    return Some((failure.into(), None));
                }
            }
        }
        self.is_closed = true;
        None
    }

    /// A message that the process sent before it was reaped, and that was not read yet.
    pub fn left_behind(&self) -> Option<R> {
        if self.is_there() || !self.link.is_readable() {
            return None;
        }
        let (message, _) = self.link.receive().unwrap_or_default()?;
        Some(message)
    }

    /// Kills and reaps the process, but keeps its session open. One that has ended must not stay a zombie.
    pub fn reap(&mut self) -> End {
        if let Some(pid) = self.pid.take() {
            self.end = kill_and_reap(pid);
        }
        self.is_closed = true;
        self.unsent.clear();
        self.end
    }

    /// Kills and reaps the process, and closes its session.
    pub fn end(&mut self) -> End {
        self.session = None;
        self.reap()
    }

    /// How the latest process that was reaped has ended, as a sentence about it.
    pub fn how_it_ended(&self) -> String {
        format!("{} {}", self.name, how_it_ended(self.end))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use serde::Deserialize;

    use super::*;
    use crate::base::exit::{Ending, Reason};
    use crate::isolated::restarts::Replacement;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Word(String);

    impl From<Failure> for Word {
        fn from(failure: Failure) -> Self {
            Self(failure.line)
        }
    }

    /// A process that sends nothing itself, and the other end of its link.
    #[expect(clippy::zombie_processes, reason = "the peer reaps it")]
    fn peer() -> (Peer<u32, Word>, Link) {
        let (ours, theirs) = Link::pair().unwrap();
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        (Peer::new("the sleeper", (pid, ours)), theirs)
    }

    #[test]
    fn nothing_is_lost_and_nobody_waits_when_the_link_is_full() {
        let (mut peer, other) = peer();
        for number in 0..10_000 {
            peer.send(number);
        }
        assert!(!peer.unsent.is_empty());
        for number in 0..10_000 {
            assert_eq!(other.receive::<u32>().unwrap().unwrap().0, number);
            peer.send_rest();
        }
        assert!(peer.unsent.is_empty());
        peer.end();
    }

    #[test]
    fn an_invalid_message_counts_as_the_end_and_what_was_sent_before_is_read() {
        let (mut peer, other) = peer();
        other.send(&Word("first".to_owned())).unwrap();
        let (first, _) = peer.receive().unwrap();
        assert_eq!(first, Word("first".to_owned()));
        other.send(&7).unwrap();
        other.send(&Word("last".to_owned())).unwrap();
        assert!(peer.receive().is_none() && peer.is_closed() && peer.wanted().is_none());
        assert!(peer.left_behind().is_none(), "it is not reaped");
        let killed = End::Ended(Ending::Signal(libc::SIGKILL));
        assert_eq!([peer.end(), peer.reap()], [killed, killed]);
        assert_eq!(peer.left_behind(), Some(Word("last".to_owned())));
        assert_eq!(peer.left_behind(), None);
        assert_eq!(peer.how_it_ended(), "the sleeper died of signal 9");
    }

    #[test]
    fn each_fault_is_noted_once_and_deaths_have_a_limit() {
        let (mut peer, _other) = peer();
        peer.end();
        let [one, other] = ["one", "other"].map(|line| Failure::new(Reason::Internal, line));
        let restarts = &mut peer.restarts;
        let news = [&one, &one, &other, &other].map(|failure| restarts.note_fault(failure));
        assert_eq!(news, [true, false, true, false]);
        for _ in 0..20 {
            assert_eq!(restarts.schedule(), Replacement::AfterFault);
        }
        assert!(!restarts.take_due() && restarts.next().is_some());
        assert!(restarts.end_fault() && !restarts.end_fault());
        let deaths = [(); 6].map(|()| restarts.schedule());
        assert_eq!(deaths[..5], [Replacement::Soon; 5]);
        assert_eq!(deaths[5], Replacement::Never);
        assert!(restarts.next().is_none());
    }
}
