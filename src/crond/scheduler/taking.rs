//! Takes ticks that have a row: they are retried, have waited, or belonged to a dead host.

use std::time::Duration;

use super::super::message::EndedAttempt;
use super::super::program;
use super::view::shown;
use super::{LOOK_AGAIN, Scheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{
    Abandon, AttemptEnd, HEAD_START, Retake, RunState, Settlement, TickRow, age_reference, ask_run,
    has_waited, is_attempt_too_late, may_start, retry,
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
        let now = Moment::now();
        let seen = self.view.ticks.clone();
        for tick in &seen {
            let is_mine = tick.daemon.as_ref() == Some(&self.facts.id);
            let Some(&at) = self.view.by_name.get(&tick.name) else {
                if is_mine {
                    self.return_tick(tick)?;
                }
                continue;
            };
            if is_mine {
                // It was taken without an answer.
                if !self.own.knows(&tick.run) {
                    self.begin(at, tick, false);
                }
                continue;
            }
            // Ticks under way continue, even while the job is paused.
            if !self.view.jobs[at].agrees() {
                continue;
            }
            if tick.daemon.is_some() {
                if tick.is_orphan {
                    let since = *self.view.orphans.entry(tick.run.clone()).or_insert(now);
                    let is_for_me = self.is_for_me(&tick.name, tick.tick);
                    if self.outage.is_gone(since) && (is_for_me || since + HEAD_START <= now) {
                        self.rescue(at, tick)?;
                    }
                }
                continue;
            }
            let is_free = if let Some(start) = tick.start_at {
                let from = start + self.patience(&tick.name, tick.tick);
                let options = &self.view.jobs[at].job.options;
                let is_free = may_start(options, tick.failures, from, self.view.now());
                if !is_free {
                    wake = wake.into_iter().chain([from]).min();
                }
                is_free
            } else {
                let all = seen.iter().filter(|other| other.name == tick.name);
                has_waited(tick.tick, all.map(|other| (other.tick, other.is_waiting())))
            };
            if is_free && self.is_too_late(at, tick) {
                self.abandon(at, tick, None)?;
            } else if is_free {
                self.retake(at, tick, tick.failures, None)?;
            }
        }
        Ok(wake.map(|at| self.view.moment_of(at)))
    }

    /// Whether the next attempt of a tick is too late, because no host was there for it.
    fn is_too_late(&self, at: usize, tick: &TickRow) -> bool {
        let now = age_reference(self.view.now(), self.outage.made_up_since);
        let options = &self.view.jobs[at].job.options;
        tick.unstarted_at
            .or(tick.start_at)
            .is_some_and(|since| is_attempt_too_late(options, since, now))
    }

    /// Abandons a tick whose next attempt is too late.
    fn abandon(&mut self, at: usize, tick: &TickRow, why: Option<&str>) -> Result<(), Failure> {
        let job = &self.view.jobs[at].job;
        let abandon = Abandon {
            tables: self.tables,
            daemon: self.facts,
            seen: tick,
            shown: &shown(job, tick.tick),
            id: &new_id()?,
            program: &program(job),
            why,
        }
        .batch();
        if self.ask(|session| session.run_batch(&abandon))?.is_none() {
            self.timetable.look_again();
        }
        self.view.ticks.retain(|other| other.run != tick.run);
        Ok(())
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

    /// Takes a tick for another attempt.
    fn retake(
        &mut self,
        at: usize,
        tick: &TickRow,
        failures: u32,
        why: Option<&str>,
    ) -> Result<(), Failure> {
        if self.own.busy() >= self.facts.slots as usize {
            return Ok(());
        }
        let (facts, run) = (self.facts, new_id()?);
        let retake = Retake {
            tables: self.tables,
            daemon: facts,
            seen: tick,
            failures,
            run: &run,
            program: &program(&self.view.jobs[at].job),
            why,
        }
        .batch();
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
                    run,
                    attempt: tick.attempt + 1,
                    failures,
                    daemon: Some(facts.id.clone()),
                    start_at: None,
                    started_at: None,
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
        Ok(())
    }

    /// Checks on a tick whose daemon is silent.
    fn rescue(&mut self, at: usize, tick: &TickRow) -> Result<(), Failure> {
        let ask = ask_run(self.tables, &tick.name, &tick.run);
        // The next look shows the result.
        for other in &mut self.view.ticks {
            other.is_orphan &= other.run != tick.run;
        }
        let end = match self.ask(|session| session.run(&ask))? {
            None | Some(RunState::Alive) => return Ok(()),
            Some(RunState::Ended(end)) => end,
            Some(RunState::Unstarted) => AttemptEnd::Returned,
            Some(RunState::Gone) => AttemptEnd::Lost,
        };
        let why = matches!(end, AttemptEnd::Lost | AttemptEnd::Returned)
            .then(|| format!("{}: {DIED}", tick.name));
        let (options, unstarted_for) = (
            &self.view.jobs[at].job.options,
            self.view.unstarted_for(tick),
        );
        let (delay, failures) = retry(options, end, tick.failures, unstarted_for);
        if delay.is_some() && self.is_too_late(at, tick) {
            return self.abandon(at, tick, why.as_deref());
        }
        if delay == Some(Duration::ZERO) {
            return self.retake(at, tick, failures, why.as_deref());
        }
        self.finish(&end_of(tick, end, (delay, failures), why))?;
        self.view.ticks.retain(|other| other.run != tick.run);
        self.timetable.look_at = self.timetable.look_at.min(Moment::now() + LOOK_AGAIN);
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
