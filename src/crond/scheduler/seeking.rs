//! Acquires the locks of this daemon's ticks, each as soon as it is free, and has the coordinator start the commands.

use std::time::Duration;

use super::super::message::FromScheduler;
use super::own::{OwnTick, Search, TickLock};
use super::{LOCKS_AT_ONCE, LOOK, Scheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::base::text::shown;
use crate::cron::{AttemptEnd, Overlap, confirm};
use crate::db::{Ask, Fault};
use crate::history::Outcome;
use crate::isolated::link::cut;
use crate::lock::rows::{Tried, acquire_together};
use crate::lock::{Grant, Lease};

impl Scheduler<'_> {
    /// Seeks the locks that are sought. Returns when that is due again.
    pub(super) fn seek_locks(&mut self) -> Result<Option<Moment>, Failure> {
        let sought = self.own.by_run.iter().filter_map(|(run, mine)| {
            let search = mine.search()?;
            Some((search.next, mine.attempt.tick, run.clone()))
        });
        let mut sought: Vec<_> = sought.collect();
        // First come, first served.
        sought.sort();
        let now = Moment::now();
        let due = sought.into_iter().filter(|(next, ..)| *next <= now);
        let due: Vec<String> = due.map(|(.., run)| run).collect();
        if self.stopping.has_begun() {
            for run in &due {
                self.return_sought(run);
            }
        } else {
            for part in due.chunks(LOCKS_AT_ONCE) {
                self.seek_all(part)?;
            }
        }
        // Nothing is sought for a coordinator that does not answer.
        if self.awaits_acknowledgement() && !self.stopping.has_begun() {
            return Ok(None);
        }
        let searches = self.own.by_run.values().filter_map(OwnTick::search);
        let nexts = searches.map(|search| search.next);
        Ok(nexts.min().map(|next| next.max(Moment::now())))
    }

    /// Returns a tick whose lock is sought.
    fn return_sought(&mut self, run: &str) {
        if let Some(mine) = self.own.by_run.get_mut(run) {
            let ended = mine.ended(AttemptEnd::Returned, "its host takes no more ticks", None);
            mine.suppose_held();
            self.take_in(ended);
        }
    }

    /// Makes one attempt to acquire each of these locks, for as long as the coordinator answers.
    fn seek_all(&mut self, runs: &[String]) -> Result<(), Failure> {
        if self.awaits_acknowledgement() {
            return Ok(());
        }
        self.seek_together(runs)?;
        for run in runs {
            if self.awaits_acknowledgement() {
                break;
            }
            self.seek(run)?;
            self.renew_if_due()?;
        }
        Ok(())
    }

    /// Acquires those of these locks that nobody else holds, all in one transaction, and has the coordinator start the commands. What was
    /// tried before, or has several slots, is sought by itself.
    fn seek_together(&mut self, runs: &[String]) -> Result<(), Failure> {
        let goes_together = |mine: &OwnTick| {
            let is_first = mine.search().is_some_and(Search::is_first);
            is_first && mine.job.options.overlap != Overlap::Allow
        };
        let together = runs.iter().filter(|run| {
            let mine = self.own.by_run.get(*run);
            mine.is_some_and(goes_together)
        });
        let together: Vec<String> = together.cloned().collect();
        if together.is_empty() {
            return Ok(());
        }
        let acquired = self.on_locks(&together, acquire_together);
        for (run, acquired) in together.iter().zip(acquired.into_iter().flatten()) {
            if let Some((grant, lease)) = acquired {
                self.note_answer();
                self.use_lock(run, grant, lease)?;
            }
            self.renew_if_due()?;
        }
        Ok(())
    }

    /// Makes one attempt to acquire a lock, if it is still to be sought, and has the coordinator start the command.
    fn seek(&mut self, run: &str) -> Result<(), Failure> {
        let search = self.own.by_run.get(run).and_then(OwnTick::search);
        let Some(search) = search.filter(|search| search.next <= Moment::now()) else {
            return Ok(());
        };
        let ends = search.is_over();
        let Some(tried) = self.on_lock(run, |lock| lock.try_at_once(ends)) else {
            self.seek_later(run, None);
            return Ok(());
        };
        match tried {
            Ok(None) => self.seek_later(run, None),
            Ok(Some(Tried::Held(grant, lease))) => {
                self.note_answer();
                self.use_lock(run, grant, lease)?;
            }
            Ok(Some(Tried::Taken(holders))) => {
                self.note_answer();
                let Some(mine) = self.own.by_run.get_mut(run) else {
                    return Ok(());
                };
                if !ends {
                    self.seek_later(run, None);
                    return Ok(());
                }
                mine.state = TickLock::Released;
                let line = format!("{} is {holders}; not run", mine.job.name);
                let run_end = (Outcome::Skipped, cut(&line));
                let ended = mine.ended(AttemptEnd::Over, &format!("is {holders}"), Some(run_end));
                self.coordinator.note(Level::Warning, &line);
                self.take_in(ended);
            }
            Err(Fault::Final(failure)) => self.end_search(run, &failure.line),
            Err(fault) => {
                self.coordinator.note(Level::Info, &fault.to_string());
                self.seek_later(run, Some(&fault.to_string()));
            }
        }
        Ok(())
    }

    /// The lock is granted: has the coordinator start the command, if the tick is still this daemon's.
    fn use_lock(&mut self, run: &str, grant: Grant, lease: Lease) -> Result<(), Failure> {
        let confirmed = self.is_still_mine(run, lease.ttl)?;
        let Some(mine) = self.own.by_run.get_mut(run) else {
            return Ok(());
        };
        match confirmed {
            None => self.seek_later(run, None),
            Some(false) => {
                mine.state = TickLock::Held(lease);
                let shown = &mine.attempt.shown;
                let why = format!("was given to another host for {shown}, or has succeeded there");
                let line = format!("{} {why}; not run", mine.job.name);
                let run_end = (Outcome::Skipped, line);
                let ended = mine.ended(AttemptEnd::Over, &why, Some(run_end));
                self.take_in(ended);
            }
            Some(true) => {
                (mine.state, mine.started) = (TickLock::Held(lease), Some(Moment::now()));
                let attempt = mine.attempt.clone();
                self.timetable.renew_at = self.timetable.renew_at.min(lease.next_renewal());
                self.coordinator
                    .say(FromScheduler::Start(attempt, grant, lease));
            }
        }
        Ok(())
    }

    /// Whether a tick was still this daemon's to run when its lock was granted; `None`: that is not known.
    fn is_still_mine(&mut self, run: &str, ttl: Duration) -> Result<Option<bool>, Failure> {
        let Some(mine) = self.own.by_run.get(run) else {
            return Ok(None);
        };
        let is_recent = mine.search().is_some_and(|search| search.is_recent(ttl));
        if is_recent && self.registration.renewed.elapsed() < ttl / 2 {
            return Ok(Some(true));
        }
        let (name, attempt) = (mine.job.name.to_string(), &mine.attempt);
        let confirm = confirm(self.tables, &name, attempt.tick, run, attempt.number);
        let confirmed = self.ask(|session| session.change(&Ask::written(&confirm)))?;
        Ok(confirmed.map(|changed| changed > 0))
    }

    /// The next attempt follows after a pause. After a `fault` not for ever: another host may have more luck.
    fn seek_later(&mut self, run: &str, fault: Option<&str>) {
        let limit = self.spec.connection.connect_timeout;
        let Some(TickLock::Sought(search)) =
            self.own.by_run.get_mut(run).map(|mine| &mut mine.state)
        else {
            return;
        };
        search.next = Moment::now() + search.pause;
        search.pause = (search.pause * 2).min(LOOK);
        if let Some(fault) = fault.filter(|_| search.begun.elapsed() > limit) {
            self.end_search(run, fault);
        }
    }

    /// Gives up a search: the attempt is not started.
    fn end_search(&mut self, run: &str, why: &str) {
        if let Some(mine) = self.own.by_run.get_mut(run) {
            let ended = mine.ended(AttemptEnd::Unstarted, why, None);
            mine.suppose_held();
            let again = ended
                .retry
                .map_or_else(String::new, |delay| format!("; again in {}", shown(delay)));
            let line = format!(
                "{}: the tick {}, attempt {}, is not started: {why}{again}",
                mine.job.name, mine.attempt.shown, mine.attempt.number
            );
            self.coordinator.note(Level::Warning, &line);
            self.take_in(ended);
        }
    }
}
