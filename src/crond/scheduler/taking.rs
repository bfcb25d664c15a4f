//! Ticks that have a row: what has ended is handed in, and what is to be tried again, waits, or was a dead host's, is taken again.

use super::super::message::{Ended, FromScheduler};
use super::super::program;
use super::{Done, LOOK, LOOK_AGAIN, Scheduler};
use crate::base::clock::Moment;
use crate::base::log::Level;
use crate::cron::{
    AskRun, AttemptEnd, DIED, Finish, GiveUp, HEAD_START, Retake, RunState, Settlement, TickRow,
    is_attempt_too_late, pause_of_unstarted, reckoned, retry,
};
use crate::history::{Journal, RunEnd, RunFacts};
use crate::lock::random_id;
use std::time::Duration;

/// A step that is to be taken.
pub(super) struct Wanted {
    /// The job, by its place in the file.
    pub at: usize,
    pub settlement: Settlement,
    /// Its number.
    pub id: String,
}

/// What the history says of an attempt that its host has not started, and can no longer.
const WITHOUT_JOB: &str = "its host has read a crontab that does not have it";

impl Scheduler<'_> {
    /// Records the ends of attempts. What cannot be recorded now is tried again soon.
    pub(super) fn hand_in(&mut self) -> Done<()> {
        let mut later = Vec::new();
        for mut ended in std::mem::take(&mut self.ended) {
            if self.find_end(&mut ended)? && self.finish(&ended)? {
                self.ticks.retain(|tick| tick.run != ended.run);
                self.say(&FromScheduler::Recorded(ended.run));
            } else {
                later.push(ended);
            }
        }
        if later.is_empty() {
            self.hand_in_pause = LOOK_AGAIN;
        } else {
            self.hand_in_at = Moment::now() + self.hand_in_pause;
            self.hand_in_pause = (self.hand_in_pause * 2).min(LOOK);
        }
        later.append(&mut self.ended);
        self.ended = later;
        Ok(())
    }

    /// Looks up how an attempt ended whose process could not say so; whether that is known now.
    fn find_end(&mut self, ended: &mut Ended) -> Done<bool> {
        let Some(failures) = ended.failures_before else {
            return Ok(true);
        };
        let tables = self.tables.clone();
        let ask = AskRun {
            tables: &tables,
            name: &ended.name,
            run: &ended.run,
        };
        let end = match self.ask(|session| session.run(&ask))? {
            // Its keeper is about to end its command.
            None | Some(RunState::Alive) => return Ok(false),
            // As the daemon has it: it may have killed it itself.
            Some(RunState::Gone | RunState::Ended(AttemptEnd::Lost)) => return Ok(true),
            // As the daemon has it, too: it was asked to stop.
            Some(RunState::Unstarted) if ended.end == AttemptEnd::GivenBack => return Ok(true),
            // What has not started is not lost: it counts as no attempt. What has killed it may kill the next one.
            Some(RunState::Unstarted) => AttemptEnd::Unstarted,
            Some(RunState::Ended(end)) => end,
        };
        ended.end = end;
        if end == AttemptEnd::Unstarted {
            ended.retry = Some(pause_of_unstarted(ended.unstarted_for));
            ended.failures = failures;
            return Ok(true);
        }
        if let Some(&at) = self.by_name.get(&ended.name) {
            let options = &self.jobs[at].job.options;
            (ended.retry, ended.failures) = retry(options, end, failures, ended.unstarted_for);
        }
        Ok(true)
    }

    fn finish(&mut self, ended: &Ended) -> Done<bool> {
        let tables = self.tables.clone();
        let records = ended
            .unrecorded
            .as_ref()
            .map(|end| self.records(ended, RunEnd::clone(end)));
        let finish = Finish {
            tables: &tables,
            name: &ended.name,
            tick: ended.tick,
            run: &ended.run,
            retry: ended.retry,
            end: ended.end,
            failures: ended.failures,
            why: ended.why.as_deref(),
            records: records.as_deref().unwrap_or_default(),
        };
        Ok(self.ask(|session| session.run_batch(&finish))?.is_some())
    }

    /// The statements that write into the history how a run ended.
    fn records(&self, ended: &Ended, mut end: RunEnd) -> Vec<String> {
        end.ended_ago += ended.at.elapsed();
        let job = self.by_name.get(&ended.name).map(|at| &self.jobs[*at].job);
        let journal = Journal {
            tables: self.tables.clone(),
            facts: RunFacts {
                run: ended.run.clone(),
                name: ended.name.clone(),
                slot: None,
                slot_name: None,
                tick: Some(ended.tick),
                attempt: 1,
                host: self.facts.host.clone(),
                pid: self.facts.pid.unsigned_abs(),
                user: self.facts.user.clone(),
                program: job.map(|job| program(job)).unwrap_or_default(),
                connection: None,
            },
            requested: ended.at,
        };
        journal.end(&end)
    }

    /// Starts the first attempt of a tick that was taken, and notes it until the next look finds it.
    pub(super) fn start_taken(&mut self, wanted: &Wanted, tick: i64) {
        let taken = TickRow {
            name: self.jobs[wanted.at].definition.name.clone(),
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
        self.start(wanted.at, &taken);
        self.ticks.push(taken);
    }

    /// Takes ticks that have a row and nobody; when the next may be taken.
    pub(super) fn take_again(&mut self) -> Done<Option<Moment>> {
        let mut wake: Option<i64> = None;
        let now = Moment::now();
        for tick in self.ticks.clone() {
            let is_mine = tick.daemon.as_ref() == Some(&self.facts.id);
            let Some(&at) = self.by_name.get(&tick.name) else {
                if is_mine {
                    self.give_back(&tick)?;
                }
                continue;
            };
            if is_mine {
                self.start_own(at, &tick);
                continue;
            }
            // What is under way goes on, also while the job is paused.
            if !self.jobs[at].agrees() {
                continue;
            }
            if tick.daemon.is_some() {
                if tick.is_orphan {
                    let since = *self.orphans.entry(tick.run.clone()).or_insert(now);
                    if self.is_for_me(&tick.name, tick.tick) || since + HEAD_START <= now {
                        self.rescue(at, &tick)?;
                    }
                }
                continue;
            }
            let is_free = if let Some(start) = tick.start_at {
                let from = start + self.patience(&tick.name, tick.tick);
                if from > self.now() {
                    wake = wake.into_iter().chain([from]).min();
                }
                from <= self.now()
            } else {
                // It waits for the others.
                let others = self.ticks.iter().filter(|other| other.name == tick.name);
                others.count() == 1
            };
            if is_free && self.is_too_late(at, &tick) {
                self.give_up(at, &tick, None)?;
            } else if is_free {
                self.retake(at, &tick, tick.failures, None)?;
            }
        }
        Ok(wake.map(|at| self.moment_of(at)))
    }

    /// Whether the next attempt of a tick comes too late: nobody was there for it.
    fn is_too_late(&self, at: usize, tick: &TickRow) -> bool {
        let now = reckoned(self.now(), self.made_up_since);
        let options = &self.jobs[at].job.options;
        tick.unstarted_at
            .or(tick.start_at)
            .is_some_and(|since| is_attempt_too_late(options, since, now))
    }

    /// Gives up a tick whose next attempt comes too late.
    fn give_up(&mut self, at: usize, tick: &TickRow, why: Option<&str>) -> Done<()> {
        let (tables, job) = (self.tables.clone(), &self.jobs[at].job);
        let (shown, program, id) = (super::shown(job, tick.tick), program(job), random_id()?);
        let give_up = GiveUp {
            tables: &tables,
            daemon: self.facts,
            seen: tick,
            shown: &shown,
            id: &id,
            program: &program,
            why,
        };
        if self.ask(|session| session.run_batch(&give_up))?.is_none() {
            self.look_again();
        }
        self.ticks.retain(|other| other.run != tick.run);
        Ok(())
    }

    /// A tick that is this daemon's own, and that it does not know of: the answer was lost.
    fn start_own(&mut self, at: usize, tick: &TickRow) {
        if !self.knows(&tick.run) {
            self.start(at, tick);
        }
    }

    /// Gives a tick of this daemon, of which it does not know, to others: a file without the job was read between its taking and its
    /// start.
    fn give_back(&mut self, tick: &TickRow) -> Done<()> {
        if self.knows(&tick.run) {
            return Ok(());
        }
        let ended = Ended {
            name: tick.name.clone(),
            tick: tick.tick,
            run: tick.run.clone(),
            retry: Some(Duration::ZERO),
            end: AttemptEnd::GivenBack,
            unstarted_for: Duration::ZERO,
            failures: tick.failures,
            why: Some(format!("{}: {WITHOUT_JOB}", tick.name)),
            unrecorded: None,
            at: Moment::now(),
            failures_before: None,
        };
        if self.finish(&ended)? {
            self.ticks.retain(|other| other != tick);
        }
        Ok(())
    }

    /// Takes a tick for another attempt.
    fn retake(&mut self, at: usize, tick: &TickRow, failures: u32, why: Option<&str>) -> Done<()> {
        if self.mine.len() >= self.facts.slots as usize {
            return Ok(());
        }
        let (tables, facts, run) = (self.tables.clone(), self.facts, random_id()?);
        let program = program(&self.jobs[at].job);
        let retake = Retake {
            tables: &tables,
            daemon: facts,
            seen: tick,
            failures,
            run: &run,
            program: &program,
            why,
        };
        let taken = self.ask(|session| session.run_batch(&retake))?;
        // Whoever has it now, it is not what was seen.
        self.ticks.retain(|other| other.run != tick.run);
        match taken {
            Some(true) => {
                if tick.attempt > 0 {
                    let line = format!(
                        "{}: attempt {} of the tick {}",
                        tick.name,
                        tick.attempt + 1,
                        super::shown(&self.jobs[at].job, tick.tick)
                    );
                    self.note(Level::Info, &line);
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
                self.start(at, &taken);
                self.ticks.push(taken);
            }
            Some(false) => {}
            None => self.look_again(),
        }
        Ok(())
    }

    /// Looks after a tick whose daemon is silent.
    fn rescue(&mut self, at: usize, tick: &TickRow) -> Done<()> {
        let tables = self.tables.clone();
        let ask = AskRun {
            tables: &tables,
            name: &tick.name,
            run: &tick.run,
        };
        // What comes of it the next look says.
        for other in &mut self.ticks {
            other.is_orphan &= other.run != tick.run;
        }
        let end = match self.ask(|session| session.run(&ask))? {
            None | Some(RunState::Alive) => return Ok(()),
            Some(RunState::Ended(end)) => end,
            Some(RunState::Unstarted) => AttemptEnd::GivenBack,
            Some(RunState::Gone) => AttemptEnd::Lost,
        };
        let why = matches!(end, AttemptEnd::Lost | AttemptEnd::GivenBack)
            .then(|| format!("{}: {DIED}", tick.name));
        let (options, unstarted_for) = (&self.jobs[at].job.options, self.unstarted_for(tick));
        let (delay, failures) = retry(options, end, tick.failures, unstarted_for);
        if delay.is_some() && self.is_too_late(at, tick) {
            return self.give_up(at, tick, why.as_deref());
        }
        if delay == Some(Duration::ZERO) {
            return self.retake(at, tick, failures, why.as_deref());
        }
        let ended = Ended {
            name: tick.name.clone(),
            tick: tick.tick,
            run: tick.run.clone(),
            retry: delay,
            end,
            unstarted_for,
            failures,
            why,
            unrecorded: None,
            at: Moment::now(),
            failures_before: None,
        };
        self.finish(&ended)?;
        self.ticks.retain(|other| other.run != tick.run);
        self.look_at = self.look_at.min(Moment::now() + LOOK_AGAIN);
        Ok(())
    }
}
