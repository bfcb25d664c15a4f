//! The jobs that a worker has: which are started, and what became of each.

use super::super::Until;
use super::super::ahead::STALLED;
use super::super::command::{Cause, Command, Task, Unstarted, failed};
use super::super::message::Claimed;
use super::super::payload::Payload;
use super::super::stderr::Round;
use super::{Coordinator, Mode};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::text::{counted, shown};
use crate::lock::Lease;
use crate::queue::{Ended, JobEnd, Queue, Unit};
use crate::supervise::{is_over, reap_orphans};
use std::collections::VecDeque;
use std::fs::File;
use std::rc::Rc;
use std::time::Duration;

/// What was claimed as a whole.
pub(super) struct OpenUnit {
    pub(super) unit: Unit,
    /// How many jobs it has, and how many of them have ended.
    jobs: u32,
    ended: u32,
    /// Those that are not simply done, or where the rest is given back, all that have ended.
    others: Vec<(u64, JobEnd)>,
    /// Those of them that were handed in already.
    handed: Vec<(u64, JobEnd)>,
    done: Vec<u64>,
    /// Whether a job of it was given back.
    is_given_back: bool,
}

/// So many jobs of a block that ended otherwise than the rest are handed in before the block has ended.
const MOST_OTHERS: usize = 16;

/// So many streams of processes that commands have left behind are passed on; the oldest are closed.
const MOST_LINGERING: usize = 64;

impl OpenUnit {
    /// Has what was handed in so far be handed in again: the server may have lost that.
    pub(super) fn hand_in_again(&mut self) {
        self.others.append(&mut self.handed);
    }
}

impl Coordinator<'_> {
    /// Hands in what became of a job.
    pub(super) fn note_outcome(&mut self, task: &Task, outcome: JobEnd) {
        let Some(open) = self.units.get_mut(&task.unit) else {
            return;
        };
        open.ended += 1;
        match &outcome {
            JobEnd::Done => self.counts.0 += 1,
            JobEnd::Retry(..) | JobEnd::Dead(_) => self.counts.1 += 1,
            JobEnd::Later(_) | JobEnd::GivenBack | JobEnd::Running => {}
        }
        let is_single = open.unit.block == 0;
        if is_single {
            let ended = Ended {
                unit: open.unit.clone(),
                outcome,
                others: Vec::new(),
            };
            self.units.remove(&task.unit);
            self.ended.push(ended);
            return;
        }
        match outcome {
            JobEnd::Done => open.done.push(task.id),
            JobEnd::GivenBack => open.is_given_back = true,
            outcome => open.others.push((task.id, outcome)),
        }
        // Not all at once in the end; but the block goes by the number of its first job, which nothing else may have meanwhile.
        if open.others.len() >= MOST_OTHERS && open.ended < open.jobs {
            let first = open.unit.job;
            let others = std::mem::take(&mut open.others);
            let (kept, others): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|(job, _)| *job == first);
            open.others = kept;
            open.handed.extend(others.iter().cloned());
            self.ended.push(Ended {
                unit: open.unit.clone(),
                outcome: JobEnd::Running,
                others,
            });
        }
        if open.ended == open.jobs
            && let Some(mut open) = self.units.remove(&task.unit)
        {
            let mut outcome = JobEnd::Done;
            if open.is_given_back {
                outcome = JobEnd::GivenBack;
                let done = open.done.into_iter().map(|job| (job, JobEnd::Done));
                open.others.extend(done);
            }
            self.ended.push(Ended {
                unit: open.unit,
                outcome,
                others: open.others,
            });
        }
    }

    /// What has ended, and whose group is gone where it was ended.
    pub(super) fn reap(&mut self) {
        let (mut at, round) = (0, Round::begin());
        while at < self.commands.len() {
            if !self.commands[at].is_over() {
                at += 1;
                continue;
            }
            let mut command = self.commands.swap_remove(at);
            let is_stopping = self.mode != Mode::Working;
            let took = command.started.elapsed();
            let was_lost = matches!(command.termination, Some((Cause::LeaseOver, _)));
            // Where the worker is lost, others have the jobs.
            let mut ending = None;
            if let Some((queue, _)) = self.registered.clone() {
                let (outcomes, ended) = command.outcome(self.spec, &queue, is_stopping, round);
                ending = Some(ended);
                for (task, outcome) in outcomes {
                    self.say_outcome(&task, &outcome, took);
                    self.note_outcome(&task, outcome);
                }
            }
            self.pace.note(took);
            if self.spec.until == Until::Once {
                let conclusion = match ending {
                    Some(ending) if !was_lost => Ok(ending),
                    _ => Err(Failure::new(Reason::LockLost, "the lease was lost").into()),
                };
                self.stop(self.spec.grace, conclusion);
            }
            self.lingering.extend(command.stderr.take());
            let excess = self.lingering.len().saturating_sub(MOST_LINGERING);
            self.lingering.drain(..excess);
            command.child.reap();
        }
        let own: Vec<Option<i32>> = self
            .commands
            .iter()
            .map(|command| Some(command.child.processes.pid))
            .chain([self.claimer.as_ref().map(|(pid, _)| pid.as_raw())])
            .collect();
        reap_orphans(&own);
    }

    pub(super) fn say_outcome(&self, task: &Task, outcome: &JobEnd, took: Duration) {
        let (id, span) = (task.id, shown(took));
        let first_line = |error: &str| error.lines().next().unwrap_or_default().to_owned();
        match outcome {
            JobEnd::Done => self.log.info(format_args!("job {id} is done after {span}")),
            JobEnd::Later(delay) => self.log.info(format_args!(
                "job {id} wants to be started again; in {}",
                shown(*delay)
            )),
            JobEnd::Running => {}
            JobEnd::GivenBack => self.log.info(format_args!("job {id} is given back")),
            JobEnd::Retry(delay, error) => self.log.info(format_args!(
                "job {id} failed, attempt {}: {}; again in {}",
                task.attempt,
                first_line(error),
                shown(*delay)
            )),
            // Such a job is never dead.
            JobEnd::Dead(error) if self.repeats(task) => self.log.warning(format_args!(
                "job {id} failed, attempt {}: {}; it is due again at its next time",
                task.attempt,
                first_line(error)
            )),
            JobEnd::Dead(error) => self.log.warning(format_args!(
                "job {id} is dead, attempt {}: {}",
                task.attempt,
                first_line(error)
            )),
        }
    }

    fn repeats(&self, task: &Task) -> bool {
        let open = self.units.get(&task.unit);
        open.is_some_and(|open| open.unit.repeats)
    }

    /// Whether the lease is good for another command.
    pub(super) fn may_start(&self) -> bool {
        let good = |lease: Lease| !is_over(Some(lease.end_command(self.spec.kill_after)));
        self.mode == Mode::Working
            // Not while nobody renews it.
            && self.restart_at.is_none()
            && self.lease.is_some_and(good)
            && !(self.spec.until == Until::Once && self.started_any)
    }

    pub(super) fn start_commands(&mut self) {
        let most = self.spec.jobs_of_command() as usize;
        while self.commands.len() < self.spec.jobs as usize
            && !self.buffer.is_empty()
            && (self.buffer.len() >= most || self.nothing_due)
            && self.may_start()
        {
            let count = most.min(self.buffer.len());
            let tasks: Vec<Task> = self.buffer.drain(..count).collect();
            let tasks = self.leave_out_unreadable(tasks);
            if tasks.is_empty() {
                continue;
            }
            match Command::start(self.spec, tasks.clone(), &self.signals) {
                Ok(command) => {
                    self.started_any = true;
                    self.commands.push(command);
                }
                Err(Unstarted::Job(why)) => self.bury(tasks, &why),
                Err(Unstarted::Worker(failure)) => {
                    for task in tasks {
                        self.note_outcome(&task, JobEnd::GivenBack);
                    }
                    self.stop(self.spec.grace, Err(failure.into()));
                }
            }
        }
    }

    /// Jobs whose payload would be several, to a command that gets several jobs, are dead; the others.
    fn leave_out_unreadable(&mut self, tasks: Vec<Task>) -> Vec<Task> {
        let Some(batch) = self.spec.batch else {
            return tasks;
        };
        let is_several = |task: &Task| task.payload.contains(batch.separator).unwrap_or_default();
        let (several, single): (Vec<Task>, Vec<Task>) = tasks.into_iter().partition(is_several);
        let why = match batch.separator {
            0 => "its payload has a NUL byte, which ends a payload of --batch --null",
            _ => "its payload has a line break, which ends a payload of --batch; --null has none",
        };
        self.bury(several, why);
        single
    }

    /// Jobs that no command can be started for.
    fn bury(&mut self, tasks: Vec<Task>, why: &str) {
        let Some((queue, _)) = self.registered.clone() else {
            return;
        };
        for task in tasks {
            let outcome = failed(&task, &queue, why, "", true);
            self.say_outcome(&task, &outcome, Duration::ZERO);
            self.note_outcome(&task, outcome);
        }
    }

    /// How many jobs to have ready, beside those that are running.
    fn ahead(&self, slots: u32, jobs: u32) -> u32 {
        // What is claimed counts an attempt if this worker dies: a job that has only one would be dead without having been started.
        let is_only = |(queue, _): &(Queue, u64)| queue.max_attempts == 1;
        if self.spec.until == Until::Once || self.registered.as_ref().is_some_and(is_only) {
            return 0;
        }
        self.pace.ahead(slots, jobs)
    }

    /// When it is clear that the commands which run take longer than those before; `None`: another one may be started.
    pub(super) fn stalled_at(&self) -> Option<Moment> {
        let has_room = self.commands.len() < self.spec.jobs as usize;
        let latest = self.commands.iter().map(|command| command.started).max();
        latest.filter(|_| !has_room).map(|latest| latest + STALLED)
    }

    /// Whether there are jobs of their own that no command was started for.
    pub(super) fn has_singles_ahead(&self) -> bool {
        self.buffer.iter().any(|task| self.is_single(task))
    }

    fn is_single(&self, task: &Task) -> bool {
        let open = self.units.get(&task.unit);
        open.is_some_and(|open| open.unit.block == 0)
    }

    /// Gives back what others could start sooner. What is left of a block goes back with the block alone.
    pub(super) fn give_back_ahead(&mut self) {
        if !self.has_singles_ahead() {
            return;
        }
        let buffer = std::mem::take(&mut self.buffer);
        let (singles, rest): (VecDeque<Task>, VecDeque<Task>) =
            buffer.into_iter().partition(|task| self.is_single(task));
        self.buffer = rest;
        let jobs = counted(singles.len(), "job");
        self.log.info(format_args!(
            "the commands take long: giving back {jobs} that nothing was started for"
        ));
        for task in singles {
            self.note_outcome(&task, JobEnd::GivenBack);
        }
    }

    /// How many more jobs are wanted.
    pub(super) fn want(&self) -> u32 {
        if self.mode != Mode::Working
            || self.spec.until == Until::Once && self.started_any
            // What would be claimed goes back at once.
            || is_over(self.stalled_at())
        {
            return 0;
        }
        let jobs = self.spec.jobs_of_command();
        let slots = if self.spec.until == Until::Once {
            1
        } else {
            self.spec.jobs
        };
        let ahead = self.ahead(slots, jobs);
        let running: usize = self
            .commands
            .iter()
            .map(|command| command.tasks.len())
            .sum();
        let in_hand = u32::try_from(self.buffer.len() + running).unwrap_or(u32::MAX);
        let want = slots
            .saturating_mul(jobs)
            .saturating_add(ahead)
            .saturating_sub(in_hand);
        // Not one by one where many are claimed ahead.
        let wants_jobs =
            self.commands.len() < self.spec.jobs as usize && self.buffer.len() < jobs as usize;
        if wants_jobs || want >= ahead / 2 {
            want
        } else {
            0
        }
    }

    pub(super) fn take_in(&mut self, claimed: Vec<Claimed>, file: File) {
        let file = Rc::new(file);
        for Claimed { unit, of, jobs } in claimed {
            for job in &jobs {
                self.buffer.push_back(Task {
                    unit: unit.job,
                    id: job.id,
                    attempt: unit.attempt,
                    fence: unit.fence,
                    payload: Payload {
                        file: Rc::clone(&file),
                        offset: job.offset,
                        length: job.length,
                    },
                });
            }
            self.units.entry(unit.job).or_insert_with(|| OpenUnit {
                unit,
                jobs: of,
                ended: 0,
                others: Vec::new(),
                handed: Vec::new(),
                done: Vec::new(),
                is_given_back: false,
            });
        }
    }
}
