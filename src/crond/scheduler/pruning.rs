//! Deletes old history from time to time, as whoever records runs does. Pruning uses the session that renews the leases, so it waits until
//! nothing is urgent.

use super::Scheduler;
use crate::base::clock::Moment;
use crate::history::{PRUNING_LIMIT, prune_beside, prunes_now};

impl Scheduler<'_> {
    /// A run of this name was recorded: one in so many has old history pruned.
    pub(super) fn prune_now_and_then(&mut self, name: &str) {
        if prunes_now() {
            self.timetable.prune_history_of = Some(name.to_owned());
        }
    }

    /// Prunes, if that is due and nothing else is until this moment. The leases are renewed before and after it. No part of it begins half
    /// a second after the first; each is one to some hundred short statements.
    pub(super) fn prune_if_quiet(&mut self, until: Moment) {
        let now = Moment::now();
        let is_quiet = now < until && now + PRUNING_LIMIT < self.timetable.renew_at;
        if !is_quiet || self.stopping.has_begun() {
            return;
        }
        let Some(name) = self.timetable.prune_history_of.take() else {
            return;
        };
        self.prepare_to_ask();
        let (tables, limit) = (self.tables, self.answer_limit());
        let pruned = self
            .connection
            .lend_until_fault(|session| prune_beside(tables, &name, limit, session));
        if pruned.is_some() {
            self.outage.note_heard();
        }
    }
}
