//! Takes ticks that have a row: they are retried, have waited, or belonged to a dead host.

use std::time::Duration;

use super::super::message::{Attempt, EndedAttempt, FromScheduler};
use super::super::program;
use super::view::shown;
use super::{LOOK_AGAIN, Scheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{
    AttemptEnd, Further, NextAttempt, Now, Rescue, RunState, Settlement, TickRow, ask_run, further,
    may_rescue, rescue,
};
use crate::history::DIED;
use crate::lock::new_id;

/// A step for a job.
pub(super) struct Wanted {
    /// The job, by its index in the file.
    pub at: usize,
    pub settlement: Settlement,
    /// The step's id.
    pub id: String,
}

/// The death of a host, which this daemon may have been the first to record.
pub(super) struct UnreportedDeath {
    /// The attempt that has ended by it, of this job.
    attempt: Attempt,
    name: String,
    will_retry: bool,
    /// The run that is recorded with the death; `None`: nothing but the end of the attempt is.
    next_run: Option<String>,
}

/// The history's message for an attempt that its host cannot start any more.
const WITHOUT_JOB: &str = "its host has read a crontab that does not have it";

impl Scheduler<'_> {
    /// Starts the first attempt of a taken tick, and notes the tick until the next look reads it.
    pub(super) fn start_taken(&mut self, wanted: &Wanted, tick: i64) {
        let taken = TickRow {
            name: self.view.jobs[wanted.at].definition.name.clone(),
            tick,
            run: wanted.id.clone(),
            attempt: 1,
            failures: 0,
            daemon: Some(self.facts.id.clone()),
            start_at: None,
            started_at: None,
            unstarted_at: None,
            is_orphan: false,
        };
        self.begin(wanted.at, &taken, true);
        self.view.ticks.push(taken);
    }

    /// Takes ticks that have a row and no daemon. Returns when the next may be taken.
    pub(super) fn take_again(&mut self) -> Result<Option<Moment>, Failure> {
        let mut wake: Option<i64> = None;
        let seen = self.view.ticks.clone();
        for tick in &seen {
            let until = self.go_on_with(tick, &seen)?;
            wake = wake.into_iter().chain(until).min();
            // Each may have waited for a locked row.
            self.renew_if_due()?;
        }
        Ok(wake.map(|at| self.view.moment_of(at)))
    }

    /// Takes a tick, one of `all` with a row, if no daemon has it. Returns when it may be taken; `None`: not before something else happens.
    fn go_on_with(&mut self, tick: &TickRow, all: &[TickRow]) -> Result<Option<i64>, Failure> {
        let is_mine = tick.daemon.as_ref() == Some(&self.facts.id);
        let Some(&at) = self.view.by_name.get(&tick.name) else {
            if is_mine {
                self.return_tick(tick)?;
            }
            return Ok(None);
        };
        if is_mine {
            // It was taken without an answer.
            if !self.own.knows(&tick.run) {
                self.begin(at, tick, false);
            }
            return Ok(None);
        }
        // Ticks under way continue, even while the job is paused.
        if !self.view.jobs[at].agrees() {
            return Ok(None);
        }
        let has_room = self.own.busy() < self.facts.slots as usize;
        let here = self.here(&tick.name, tick.tick, has_room);
        if tick.daemon.is_some() {
            if tick.is_orphan {
                let since = self.view.orphans.entry(tick.run.clone());
                let since = *since.or_insert_with(Moment::now);
                let may_rescue = may_rescue(here.is_preferred, since.elapsed());
                if self.outage.is_gone(since) && may_rescue {
                    self.rescue(at, tick)?;
                }
            }
            return Ok(None);
        }
        let here = Now {
            could_not_start: tick.unstarted_at.is_some() && self.own.knows(&tick.run),
            ..here
        };
        let all = all.iter().filter(|other| other.name == tick.name);
        let all = all.map(|other| (other.tick, other.is_waiting()));
        let options = &self.view.jobs[at].job.options;
        match further(options, &tick.facts(), all, here) {
            Further::Rest(until) => return Ok(until),
            Further::Take => {
                self.retake(at, tick, tick.failures, (new_id()?.as_str(), None))?;
            }
            Further::Abandon => {
                self.abandon(at, tick, (new_id()?.as_str(), None))?;
            }
        }
        Ok(None)
    }

    /// Abandons a tick whose next attempt, with this run's id, is too late, and records why the one before has failed. Returns whether that
    /// succeeded; `None`: that is unknown.
    fn abandon(
        &mut self,
        at: usize,
        tick: &TickRow,
        (run, why): (&str, Option<&str>),
    ) -> Result<Option<bool>, Failure> {
        let job = &self.view.jobs[at].job;
        let next = NextAttempt {
            tables: self.tables,
            daemon: self.facts,
            seen: tick,
            run,
            program: &program(job),
            why,
        };
        let abandon = next.abandon(&shown(job, tick.tick));
        let abandoned = self.ask(|session| session.run_batch(&abandon))?;
        if abandoned.is_none() {
            self.timetable.look_again();
        }
        self.view.ticks.retain(|other| other.run != tick.run);
        Ok(abandoned)
    }

    /// Returns a tick that this daemon has taken without knowing it. Between taking and starting, it has read a file without the job.
    fn return_tick(&mut self, tick: &TickRow) -> Result<(), Failure> {
        if self.own.knows(&tick.run) {
            return Ok(());
        }
        let why = format!("{}: {WITHOUT_JOB}", tick.name);
        let next = (Some(Duration::ZERO), tick.failures);
        let ended = end_of(tick, AttemptEnd::Returned, next, Some(why));
        if self.finish(&ended)? {
            self.view.ticks.retain(|other| other != tick);
        }
        Ok(())
    }

    /// Takes a tick for another attempt, with this run's id, and records why the one before has failed. Returns whether that succeeded;
    /// `None`: that is unknown.
    fn retake(
        &mut self,
        at: usize,
        tick: &TickRow,
        failures: u32,
        (run, why): (&str, Option<&str>),
    ) -> Result<Option<bool>, Failure> {
        let facts = self.facts;
        let next = NextAttempt {
            tables: self.tables,
            daemon: facts,
            seen: tick,
            run,
            program: &program(&self.view.jobs[at].job),
            why,
        };
        let retake = next.take(failures, self.view.jobs[at].job.options.ttl);
        let taken = self.ask(|session| session.run_batch(&retake))?;
        // Whoever has the tick now, its row has changed.
        self.view.ticks.retain(|other| other.run != tick.run);
        match taken {
            Some(true) => {
                if tick.attempt > 0 {
                    let line = format!(
                        "{}: attempt {} of the tick {}",
                        tick.name,
                        tick.attempt + 1,
                        shown(&self.view.jobs[at].job, tick.tick)
                    );
                    self.coordinator.note(Level::Info, &line);
                }
                let taken = TickRow {
                    run: run.to_owned(),
                    attempt: tick.attempt + 1,
                    failures,
                    daemon: Some(facts.id.clone()),
                    start_at: None,
                    started_at: None,
                    // As the server has it now.
                    unstarted_at: tick.facts().unstarted_since(),
                    is_orphan: false,
                    ..tick.clone()
                };
                self.begin(at, &taken, true);
                self.view.ticks.push(taken);
            }
            // Another daemon has the tick, or it is over. No tick that waits for it is free before the next look.
            Some(false) => self.view.ticks.push(TickRow {
                daemon: Some(String::new()),
                is_orphan: false,
                ..tick.clone()
            }),
            None => self.timetable.look_again(),
        }
        Ok(taken)
    }

    /// Checks on a tick whose daemon is silent.
    fn rescue(&mut self, at: usize, tick: &TickRow) -> Result<(), Failure> {
        let ask = ask_run(self.tables, &tick.name, &tick.run);
        // The next look shows the result.
        for other in &mut self.view.ticks {
            other.is_orphan &= other.run != tick.run;
        }
        let Some(state) = self.ask(|session| session.run(&ask))? else {
            return Ok(());
        };
        let died = match state {
            RunState::Alive => false,
            RunState::Unstarted | RunState::Gone => true,
            RunState::Ended(end) => matches!(end, AttemptEnd::Lost | AttemptEnd::Returned),
        };
        let why = died.then(|| format!("{}: {DIED}", tick.name));
        let has_room = self.own.busy() < self.facts.slots as usize;
        let here = self.here(&tick.name, tick.tick, has_room);
        let options = &self.view.jobs[at].job.options;
        let run = new_id()?;
        let next = (&*run, why.as_deref());
        let (is_done, will_retry, has_next_run) = match rescue(options, &tick.facts(), state, here)
        {
            Rescue::Leave => return Ok(()),
            Rescue::Take { failures } => (self.retake(at, tick, failures, next)?, true, true),
            Rescue::Abandon => (self.abandon(at, tick, next)?, false, true),
            Rescue::Finish {
                end,
                delay,
                failures,
            } => {
                let ended = end_of(tick, end, (delay, failures), why.clone());
                let finish = self.finish_statements(&ended);
                let is_done = self.finish_unheld(finish)?;
                self.view.ticks.retain(|other| other.run != tick.run);
                self.timetable.look_at = self.timetable.look_at.min(Moment::now() + LOOK_AGAIN);
                (is_done, delay.is_some(), false)
            }
        };
        // What its host has recorded, its host has reported.
        if state == RunState::Gone && is_done != Some(false) {
            let died = UnreportedDeath {
                attempt: self.attempt(at, tick),
                name: tick.name.clone(),
                will_retry,
                next_run: has_next_run.then_some(run),
            };
            if is_done.is_some() {
                self.report_death(died);
            } else if !self.locked_rows.was_met {
                // A conflict has done nothing.
                let is_same = |other: &UnreportedDeath| {
                    other.attempt.run == died.attempt.run && other.next_run == died.next_run
                };
                if !self.unreported.iter().any(is_same) {
                    self.unreported.push(died);
                }
            }
        }
        Ok(())
    }

    /// This daemon was the first to record the death of a host: it has that reported.
    fn report_death(&mut self, died: UnreportedDeath) {
        let died = FromScheduler::Died(died.attempt, died.will_retry);
        self.coordinator.say(died);
    }

    /// After a look: reports the deaths that this daemon has recorded without an answer.
    pub(super) fn report_recorded_deaths(&mut self) -> Result<(), Failure> {
        for died in std::mem::take(&mut self.unreported) {
            let run = died.next_run.as_ref().unwrap_or(&died.attempt.run);
            self.renew_if_due()?;
            let ask = ask_run(self.tables, &died.name, run);
            let state = self.ask(|session| session.run(&ask))?;
            let is_recorded = match (&died.next_run, state) {
                (Some(_), Some(state)) => state != RunState::Gone,
                (None, state) => state == Some(RunState::Ended(AttemptEnd::Lost)),
                (Some(_), None) => false,
            };
            let is_of_it = |tick: &TickRow| tick.run == died.attempt.run;
            let is_open = state.is_none() || self.view.ticks.iter().any(is_of_it);
            if is_recorded {
                self.report_death(died);
            } else if is_open {
                // An older session may still record it.
                self.unreported.push(died);
            }
        }
        Ok(())
    }
}

/// The end of an attempt of another daemon, or of one that was not started. `retry` and `failures` are for the next attempt.
fn end_of(
    tick: &TickRow,
    end: AttemptEnd,
    (retry, failures): (Option<Duration>, u32),
    why: Option<String>,
) -> EndedAttempt {
    EndedAttempt {
        name: tick.name.clone(),
        tick: tick.tick,
        run: tick.run.clone(),
        retry,
        end,
        failures,
        why,
        run_end: None,
        at: Moment::now(),
    }
}
