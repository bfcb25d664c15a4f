//! Reads what has changed in the tables.

use std::time::Duration;

use super::super::message::FromScheduler;
use super::view::Known;
use super::{LOOK, RETIRED_AFTER, Scheduler};
use crate::base::clock::{Moment, micros};
use crate::base::exit::Failure;
use crate::cron::{JobRow, LARGEST_LAG, Look, unsettled};

/// Rows that changed this long before the last look are read again: their transactions may have been under way.
const LOOK_BACK: Duration = Duration::from_secs(5);

impl Scheduler<'_> {
    /// Reads what has changed.
    pub(super) fn look(&mut self) -> Result<(), Failure> {
        let look = Look {
            tables: self.tables,
            daemon: &self.facts.id,
            since: self.view.looked.map(|looked| looked - micros(LOOK_BACK)),
        };
        let is_whole = look.since.is_none();
        self.timetable.last_look = Moment::now();
        let Some(seen) = self.ask(|session| session.run(&look.ask()))? else {
            self.timetable.look_again();
            return Ok(());
        };
        // That all tables exist is known now.
        if !std::mem::replace(&mut self.registration.is_ready, true) {
            self.coordinator.say(FromScheduler::Ready);
        }
        self.set_clock(seen.now);
        self.view.looked = Some(seen.now);
        self.timetable.look_at = Moment::now() + LOOK;
        if is_whole {
            for known in &mut self.view.jobs {
                known.row = None;
            }
        }
        let is_retired = |(name, row): (&String, &JobRow)| {
            let is_old = seen.now - row.seen > micros(RETIRED_AFTER);
            let has_tick = || seen.ticks.iter().any(|tick| tick.name == *name);
            is_old && (row.next.or(row.triggered).is_some() || has_tick())
        };
        self.registration.has_retired |= seen.jobs.iter().any(is_retired);
        for (name, row) in seen.jobs {
            if let Some(&at) = self.view.by_name.get(&name) {
                self.view.jobs[at].row = Some(row);
            }
        }
        for known in &mut self.view.jobs {
            known.stale = false;
            // A tick that this daemon computes as due, but the look does not show, was settled by another daemon.
            let agrees = known.agrees();
            if let Some(row) = known.row.as_mut().filter(|_| agrees && !is_whole)
                && !seen.due.contains(&known.definition.name)
            {
                row.next = unsettled(&known.job.schedule, row.next, seen.now);
            }
        }
        self.view.set_ticks(seen.ticks, seen.now);
        let is_orphan = |run: &String| {
            let mut ticks = self.view.ticks.iter();
            ticks.any(|tick| tick.is_orphan && tick.run == *run)
        };
        self.view.orphans.retain(|run, _| is_orphan(run));
        self.view.daemons = seen.daemons;
        self.lose_given_ticks();
        self.look_for_kills()?;
        self.report_recorded_deaths()?;
        let disagrees = self.view.list_of(Known::disagrees);
        let differs = self.view.list_of(Known::differs);
        let is_told = self.registration.disagrees.as_ref() == Some(&disagrees)
            && self.registration.differs == differs;
        if !seen.is_registered || !is_told {
            self.register(&disagrees, &differs)?;
        }
        Ok(())
    }

    /// Notes the server's time.
    pub(super) fn set_clock(&mut self, now: i64) {
        // The clock was ahead: others must not take this daemon's lease for one of that clock, and jobs need their right next ticks.
        if self.view.now().saturating_sub(now) > micros(LARGEST_LAG) {
            (self.timetable.renew_at, self.timetable.maintain_at) = (Moment::START, Moment::START);
        }
        if now < self.outage.made_up_since {
            self.outage.make_up_since(now);
        }
        self.view.clock = Some((now, Moment::now()));
    }
}
