//! The coordinator as the claimer sees it: its messages, what it knows, and what runs there. Where it cannot end its commands, the claimer
//! kills them.

use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::thread::sleep;

use nix::unistd::Pid;

use super::super::message::{FromClaimer, ToClaimer, Trouble};
use super::{Claimer, LONGEST_WAIT, Stop};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::isolated::link::{Link, cut};
use crate::keeper::{Board, Connection, Parent, SHORTEST_PAUSE};

pub(super) struct Coordinator<'a> {
    parent: Parent<'a, FromClaimer, ToClaimer>,
    /// Why nothing was recorded, as it knows it.
    fault: Option<Trouble>,
    /// After its death: until when the server may be told of that; `None`: it is not known to have died.
    until: Option<Moment>,
}

impl<'a> Coordinator<'a> {
    pub fn new(link: &'a Link, pid: Pid, board: Board) -> Result<Self, Failure> {
        Ok(Self {
            parent: Parent::new(link, pid, board, FromClaimer::Note)?,
            fault: None,
            until: None,
        })
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

    /// Whether the worker is to end, so that something that can be left undone must not delay that.
    pub fn is_to_end(&mut self) -> bool {
        self.has_said(ToClaimer::is_about_the_end)
    }
}

impl Claimer<'_> {
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
    type Target = Parent<'a, FromClaimer, ToClaimer>;

    fn deref(&self) -> &Self::Target {
        &self.parent
    }
}

impl DerefMut for Coordinator<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.parent
    }
}
