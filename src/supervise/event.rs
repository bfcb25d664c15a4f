//! The events of a supervisor.

use std::io;

use super::Supervisor;
use super::poller::Source;
use super::signals::Received;
use crate::base::clock::Moment;
use crate::keeper::message::FromKeeper;

/// Something to act on.
pub enum Event {
    /// A signal for dblock, or SIGCHLD.
    Signal(Received),
    /// A message from the keeper.
    Message(FromKeeper),
    /// The keeper has closed its end of the link.
    KeeperGone,
    /// The deadline has passed without another event.
    Deadline,
}

impl Supervisor<'_> {
    /// The next event, signals first; `None` waits without a deadline.
    ///
    /// # Errors
    /// As [`Poller::wait`](super::Poller::wait) and `read(2)`.
    pub(super) fn next_event(&mut self, deadline: Option<Moment>) -> io::Result<Event> {
        loop {
            if let Some(received) = self.poller.signals.next()? {
                return Ok(Event::Signal(received));
            }
            // The event repeats until the keeper is reaped.
            if self.keeper.is_unreaped() {
                return Ok(Event::KeeperGone);
            }
            self.keeper.send_rest();
            let keeper = self.keeper.wanted().map(|link| (Source::Peer, link));
            let ready = self.poller.wait(deadline, keeper)?;
            // There may only be room for what is unsent.
            let keeper_sent = self.keeper.is_readable();
            if ready.contains(&Source::Signals) {
                continue;
            }
            if keeper_sent {
                return Ok(match self.receive() {
                    Some(message) => Event::Message(message),
                    None => Event::KeeperGone,
                });
            }
            if ready.contains(&Source::Alarm) {
                return Ok(Event::Deadline);
            }
        }
    }

    /// A message from the keeper that has already arrived. The end of the link is not a message; it comes as an event.
    pub(super) fn pending_message(&mut self) -> Option<FromKeeper> {
        if self.keeper.is_readable() {
            self.receive()
        } else {
            None
        }
    }

    fn receive(&mut self) -> Option<FromKeeper> {
        let message = self.keeper.receive()?;
        self.record.on_message(&message);
        Some(message)
    }
}

/// Whether a deadline has passed; `None` never does.
pub fn is_over(deadline: Option<Moment>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Moment::now())
}
