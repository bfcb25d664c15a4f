//! The coordinator as the claimer sees it: its messages, what it knows, and what runs there. Where it cannot end its commands, the claimer
//! kills them.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::sleep;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use super::super::message::{FromClaimer, ToClaimer, Trouble};
use super::{Claimer, LONGEST_WAIT, Stop};
use crate::base::clock::Moment;
use crate::base::log::Level;
use crate::isolated::link::{Link, Next, cut, next};
use crate::keeper::{Board, Connection, Parent, SHORTEST_PAUSE};

/// Most messages that are read before they are acted on.
const MOST_PENDING: usize = 64;

pub(super) struct Coordinator<'a> {
    parent: Parent<'a, FromClaimer>,
    /// Messages that were read, but not acted on yet.
    pending: VecDeque<Next<ToClaimer>>,
    /// Why nothing was recorded, as it knows it.
    fault: Option<Trouble>,
    /// After its death: until when the server may be told of that; `None`: it is not known to have died.
    until: Option<Moment>,
}

impl<'a> Coordinator<'a> {
    pub fn new(link: &'a Link, pid: Pid, board: Board) -> Self {
        Self {
            parent: Parent::new(link, pid, board, FromClaimer::Note),
            pending: VecDeque::new(),
            fault: None,
            until: None,
        }
    }

    /// Sends a message, and maybe a descriptor with it, behind all others. Returns whether there was room.
    fn try_say(&mut self, message: &FromClaimer, descriptor: Option<BorrowedFd>) -> bool {
        // If it is gone, receiving the next message shows that.
        self.send_rest() && self.link.try_send(message, descriptor).unwrap_or(true)
    }

    /// It has died, and the server may be told of that until this moment.
    pub fn may_ask_until(&mut self, until: Moment) {
        self.until = Some(until);
    }

    /// There is another session.
    pub fn on_session(&mut self, connection: &Connection) {
        // If the link is full, this is sent later.
        connection.pass_on(self.link, &FromClaimer::Session);
        self.fault = None;
    }

    /// Tells it why there is no session, unless it knows.
    pub fn say_fault(&mut self, line: &str) {
        self.set_fault(Some(Trouble {
            line: cut(line),
            answers: false,
        }));
    }

    /// Tells it why nothing is recorded, or that recording works again, unless it knows.
    pub fn set_fault(&mut self, fault: Option<Trouble>) {
        if self.fault != fault {
            self.say_if_heard(&FromClaimer::Fault(fault.clone()));
            self.fault = fault;
        }
    }

    /// Whether there is a message to act on.
    pub fn has_message(&self) -> bool {
        !self.pending.is_empty() || self.link.is_readable()
    }

    /// Whether the worker is to end, so that something that can be left undone must not delay that.
    pub fn is_to_end(&mut self) -> bool {
        while self.pending.len() < MOST_PENDING && self.link.is_readable() {
            let next = next(self.link, Some(Moment::now()));
            let is_gone = matches!(next, Next::Gone);
            self.pending.push_back(next);
            if is_gone {
                break;
            }
        }
        let mut pending = self.pending.iter();
        pending.any(|next| match next {
            Next::Message(message) => message.is_about_the_end(),
            Next::Gone => true,
            Next::Late => false,
        })
    }
}

impl Claimer<'_> {
    /// The next message. `Late`: a renewal is due, or the server has ended the session.
    pub(super) fn next(&mut self) -> Next<ToClaimer> {
        if let Some(next) = self.coordinator.pending.pop_front() {
            return next;
        }
        let due = self.renewal_due();
        while let Some(session) = self.connection.session() {
            let left = due.map_or(LONGEST_WAIT, |due| due.since(Moment::now()));
            let millis = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
            let link = self.coordinator.link;
            let wanted = if self.coordinator.send_rest() {
                PollFlags::POLLIN
            } else {
                PollFlags::POLLIN | PollFlags::POLLOUT
            };
            let mut descriptors = [
                PollFd::new(link.as_fd(), wanted),
                PollFd::new(session.as_fd(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut descriptors, PollTimeout::from(millis));
            if link.is_readable() || due.is_some_and(|due| due <= Moment::now()) {
                break;
            }
            if self.connection.has_ended() {
                let fault = format!("{session} has ended the session");
                session.tell(Level::Info, &fault);
                self.connection.close();
                self.coordinator.say_fault(&fault);
                return Next::Late;
            }
        }
        next(self.coordinator.link, due)
    }

    /// Sends a message. While the link is full it renews the lease, so that a worker with a stopped coordinator keeps its jobs.
    pub(super) fn send_in_time(
        &mut self,
        message: &FromClaimer,
        descriptor: Option<BorrowedFd>,
    ) -> Result<(), Stop> {
        let mut has_waited = false;
        while !self.coordinator.try_say(message, descriptor) {
            has_waited = true;
            let due = self.renewal_due();
            let left = due.map_or(LONGEST_WAIT, |due| due.since(Moment::now()));
            self.coordinator.link.await_room(left.max(SHORTEST_PAUSE));
            // There may be room in the link, and none in the system.
            sleep(SHORTEST_PAUSE);
            self.keep_lease()?;
        }
        if has_waited {
            self.resend();
        }
        Ok(())
    }

    /// Sends again what the full link may have dropped.
    fn resend(&mut self) {
        if let Some(lease) = self.worker.as_ref().and_then(|worker| worker.lease) {
            self.coordinator
                .say_if_heard(&FromClaimer::Confirmed(lease.proved));
        }
        let link = self.coordinator.link;
        self.connection.pass_on(link, &FromClaimer::Session);
    }

    /// Whether the coordinator lives; after its death, whether the server may still be told of that.
    ///
    /// # Errors
    /// [`Stop::Orphaned`].
    pub(super) fn check_coordinator(&self) -> Result<(), Stop> {
        let is_over = match self.coordinator.until {
            Some(until) => until <= Moment::now(),
            None => self.coordinator.process.is_dead(),
        };
        if is_over { Err(Stop::Orphaned) } else { Ok(()) }
    }
}

impl<'a> Deref for Coordinator<'a> {
    type Target = Parent<'a, FromClaimer>;

    fn deref(&self) -> &Self::Target {
        &self.parent
    }
}

impl DerefMut for Coordinator<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.parent
    }
}
