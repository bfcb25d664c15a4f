//! The events of a supervisor: this is the one place that turns its descriptors into events.

use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Supervisor;
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
    /// As `poll(2)`, `timerfd_settime(2)` and `read(2)`.
    pub(super) fn next_event(&mut self, deadline: Option<Moment>) -> io::Result<Event> {
        self.alarm.set(deadline)?;
        loop {
            if let Some(received) = self.signals.next()? {
                return Ok(Event::Signal(received));
            }
            // The event repeats until the keeper is reaped.
            if self.keeper.is_unreaped() {
                return Ok(Event::KeeperGone);
            }
            self.keeper.send_rest();
            let mut descriptors = vec![
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN),
            ];
            descriptors.extend(self.keeper.wanted());
            match poll(&mut descriptors, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [signal_came, time_is_over] =
                [0, 1].map(|at: usize| descriptors[at].any() == Some(true));
            // There may only be room for what is unsent.
            let keeper_sent = self.keeper.is_readable();
            if signal_came {
                continue;
            }
            if keeper_sent {
                return Ok(match self.receive() {
                    Some(message) => Event::Message(message),
                    None => Event::KeeperGone,
                });
            }
            if time_is_over {
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
