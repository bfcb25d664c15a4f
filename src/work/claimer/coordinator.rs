//! What the claimer says to the coordinator. A link that is full keeps no lease from being renewed.

use std::os::fd::BorrowedFd;
use std::thread::sleep;

use super::super::message::{FromClaimer, Trouble};
use super::{Claimer, LONGEST_WAIT, Stop};
use crate::base::clock::Moment;
use crate::isolated::link::cut;
use crate::keeper::SHORTEST_PAUSE;

impl Claimer<'_> {
    /// There is another session.
    pub(super) fn say_session(&mut self) {
        // If the link is full, this is sent later.
        let link = self.coordinator.link;
        self.connection.pass_on(link, &FromClaimer::Session);
        self.fault = None;
    }

    /// Says why there is no session, unless the coordinator knows.
    pub(super) fn say_fault(&mut self, line: &str) {
        self.set_fault(Some(Trouble {
            line: cut(line),
            answers: false,
        }));
    }

    /// Says why nothing is recorded, or that recording works again, unless the coordinator knows.
    pub(super) fn set_fault(&mut self, fault: Option<Trouble>) {
        if self.fault != fault {
            self.coordinator
                .say_if_heard(&FromClaimer::Fault(fault.clone()));
            self.fault = fault;
        }
    }

    /// Sends a message behind all others. While the link is full it renews the lease, so that a worker with a stopped coordinator keeps its
    /// jobs.
    pub(super) fn send_in_time(
        &mut self,
        message: &FromClaimer,
        descriptor: Option<BorrowedFd>,
    ) -> Result<(), Stop> {
        let mut has_waited = false;
        let link = self.coordinator.link;
        // If the coordinator is gone, receiving the next message shows that.
        while !(self.coordinator.send_rest() && link.try_send(message, descriptor).unwrap_or(true))
        {
            has_waited = true;
            let due = self.workers.renewal_due();
            let left = due.map_or(LONGEST_WAIT, |due| due.since(Moment::now()));
            link.await_room(left.max(SHORTEST_PAUSE));
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
        if let Some(lease) = self.workers.lease() {
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
        let is_over = match self.asks_until {
            Some(until) => until <= Moment::now(),
            None => self.coordinator.process.is_dead(),
        };
        if is_over { Err(Stop::Orphaned) } else { Ok(()) }
    }
}
