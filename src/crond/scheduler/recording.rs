//! Records the ends of attempts, and releases their locks.

use super::super::message::{EndedAttempt, FromScheduler};
use super::own::{OwnTick, TickLock};
use super::{LOCKS_AT_ONCE, Scheduler};
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{AttemptEnd, Finish, RunState, ask_run, in_transaction};
use crate::db::{Ask, Fault};
use crate::history::RunEnd;
use crate::lock::rows::release_together;

impl Scheduler<'_> {
    /// Records the ends of attempts, and releases their locks. What cannot be recorded now is retried soon.
    pub(super) fn record_ends(&mut self) -> Result<(), Failure> {
        let (tried, new) = self.own.take_ended();
        let recorded = self.record_all(&tried, &new);
        let all = tried.into_iter().chain(new);
        let later = all.filter(|ended| !self.own.is_over(&ended.run)).collect();
        self.own.record_later(later);
        recorded
    }

    /// Records those that were tried before, each alone, and the new ones together, as far as that is possible now. One that is refused
    /// keeps no other from being recorded.
    fn record_all(&mut self, tried: &[EndedAttempt], new: &[EndedAttempt]) -> Result<(), Failure> {
        let mut recorded = Ok(());
        let alone = tried.chunks(1).map(|part| (part, false));
        let together = new.chunks(LOCKS_AT_ONCE).map(|part| (part, true));
        for (part, is_together) in alone.chain(together) {
            let mut done = Vec::new();
            if is_together {
                done = self.finish_together(part);
                self.renew_if_due()?;
            }
            for ended in part {
                let is_done = done.contains(&ended.run);
                recorded = recorded.and(self.record(ended, is_done));
                self.renew_if_due()?;
            }
        }
        recorded
    }

    /// Records the end of an attempt, unless that `is_done`, and keeps its output.
    fn record(&mut self, ended: &EndedAttempt, is_done: bool) -> Result<(), Failure> {
        let mut ended = ended.clone();
        if is_done || self.find_end(&mut ended)? && self.finish(&ended)? {
            self.view.ticks.retain(|tick| tick.run != ended.run);
            self.own.forget(&ended.run);
            let run = ended.run.clone();
            let kept = self.keep_output(&run);
            // The coordinator has the output, too, until then: another scheduler may have to keep it.
            self.coordinator.say(FromScheduler::Recorded(ended.run));
            kept?;
            self.prune_now_and_then(&ended.name);
        }
        Ok(())
    }

    /// Keeps the output of a run whose end is recorded, if it was to be kept. One that cannot be is lost.
    fn keep_output(&mut self, run: &str) -> Result<(), Failure> {
        let Some(output) = self.own.outputs.take(run) else {
            return Ok(());
        };
        let why = if self.tables.has_outputs() {
            let statement = Ask::written(output.of_run(self.tables, run));
            match self.ask(|session| session.try_run(&statement))? {
                Some(Ok(())) => self.own.outputs.why_dropped(),
                Some(Err(code)) => Some(format!("the server refuses it with error {code}")),
                None => Some("the server did not answer".to_owned()),
            }
        } else {
            Some(self.tables.no_outputs())
        };
        if let Some(why) = why
            && self.own.outputs.says_why()
        {
            let line = format!("the output of runs is not kept: {why}");
            self.coordinator.note(Level::Warning, &line);
        }
        Ok(())
    }

    /// Records the ends of attempts that have their locks, and releases these, all in one transaction. Returns the runs for which that is
    /// done.
    fn finish_together(&mut self, all: &[EndedAttempt]) -> Vec<String> {
        let has_row = |ended: &&EndedAttempt| {
            let mine = self.own.by_run.get(&ended.run);
            ended.end != AttemptEnd::Lost && mine.is_some_and(OwnTick::has_row)
        };
        let mut all: Vec<&EndedAttempt> = all.iter().filter(has_row).collect();
        // All daemons write in the same order, so that they do not wait for one another in a circle.
        all.sort_by(|one, other| (&one.name, &one.run).cmp(&(&other.name, &other.run)));
        all.dedup_by(|one, other| one.run == other.run);
        if all.is_empty() {
            return Vec::new();
        }
        let also: Vec<Vec<String>> = all
            .iter()
            .map(|ended| self.finish_statements(ended))
            .collect();
        let runs: Vec<String> = all.iter().map(|ended| ended.run.clone()).collect();
        let released = self.on_locks(&runs, |locks, server, session| {
            release_together(locks, &also, server, session)
        });
        let released = released.into_iter().flatten();
        let done: Vec<String> = runs
            .into_iter()
            .zip(released)
            .filter_map(|(run, is_released)| is_released.then_some(run))
            .collect();
        if !done.is_empty() {
            self.note_answer();
        }
        done
    }

    /// Finds out whether somebody has ended by force an attempt that only knows that its lock was lost. `false`: that is unknown.
    fn find_end(&mut self, ended: &mut EndedAttempt) -> Result<bool, Failure> {
        if ended.end != AttemptEnd::Lost {
            return Ok(true);
        }
        let ask = ask_run(self.tables, &ended.name, &ended.run);
        let state = self.ask(|session| session.run(&ask))?;
        if state == Some(RunState::Ended(AttemptEnd::Over)) {
            (ended.end, ended.retry) = (AttemptEnd::Over, None);
        }
        Ok(state.is_some())
    }

    /// Records an end, and releases the lock of the attempt in the same transaction. Returns whether that is done.
    pub(super) fn finish(&mut self, ended: &EndedAttempt) -> Result<bool, Failure> {
        let all = self.finish_statements(ended);
        let has_lock = self
            .own
            .by_run
            .get(&ended.run)
            .is_some_and(OwnTick::may_have_row);
        if !has_lock {
            return Ok(self.finish_unheld(all)?.is_some());
        }
        match self.release(&ended.run, &all) {
            None | Some(Err(Fault::Gone(_) | Fault::ReadOnly(_))) => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(Fault::Final(failure))) => {
                self.release_only(&ended.run, &[]);
                Err(failure)
            }
            // To free the lock matters more than to record what happens to the tick.
            Some(Err(fault)) => {
                self.locked_rows.was_met = matches!(fault, Fault::Conflict(_));
                self.coordinator.note(Level::Info, &fault.to_string());
                self.release_only(&ended.run, &self.records(ended));
                Ok(false)
            }
        }
    }

    /// Records the end of a run whose lock is not held here. Whether this has changed the tick's row; `None`: the server has not answered.
    pub(super) fn finish_unheld(
        &mut self,
        statements: Vec<String>,
    ) -> Result<Option<bool>, Failure> {
        let batch = in_transaction(self.tables.kind(), "cron finish", statements);
        self.ask(|session| session.run_batch(&batch))
    }

    /// Releases the lock of a run whose end cannot be recorded now, with these statements.
    fn release_only(&mut self, run: &str, also: &[String]) {
        let is_released = self.release(run, also).is_some_and(|done| done.is_ok());
        if is_released && let Some(mine) = self.own.by_run.get_mut(run) {
            mine.state = TickLock::Released;
        }
    }

    /// Releases the lock of a run, in one transaction with these statements. `None`: there is no session.
    fn release(&mut self, run: &str, also: &[String]) -> Option<Result<bool, Fault>> {
        let released = self.on_lock(run, |lock| lock.release_with(also))?;
        if released.is_ok() {
            self.note_answer();
        }
        Some(released)
    }

    /// The statements that end an attempt.
    pub(super) fn finish_statements(&self, ended: &EndedAttempt) -> Vec<String> {
        let finish = Finish {
            tables: self.tables,
            name: &ended.name,
            tick: ended.tick,
            run: &ended.run,
            retry: ended.retry,
            end: ended.end,
            failures: ended.failures,
            why: ended.why.as_deref(),
            records: &self.records(ended),
        };
        finish.statements()
    }

    /// The statements that record in the history how a run ended.
    fn records(&self, ended: &EndedAttempt) -> Vec<String> {
        let (Some(run_end), Some(mine)) = (&ended.run_end, self.own.by_run.get(&ended.run)) else {
            return Vec::new();
        };
        let mut run_end = RunEnd::clone(run_end);
        run_end.ended_ago += ended.at.elapsed();
        mine.journal.end(&run_end)
    }
}
