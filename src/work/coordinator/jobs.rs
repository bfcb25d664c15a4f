//! The jobs of a worker: which commands start, and the outcome of each job.

use super::super::Until;
use super::super::ahead::STALLED;
use super::super::command::{Cause, JobCommand, Task, Unstarted, failed};
use super::super::message::Claimed;
use super::super::payload::{Gathered, Payload};
use super::Coordinator;
use crate::base::children::reap_orphans;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::text::{counted, shown};
use crate::lock::Lease;
use crate::queue::{Ended, JobEnd, Queue, Unit};
use crate::supervise::{MOST_LINGERING, Round, is_over};
use std::collections::VecDeque;
use std::fs::File;
use std::rc::Rc;
use std::time::Duration;

/// A claimed job or block.
pub(super) struct OpenUnit {
    pub(super) unit: Unit,
    /// How many jobs it has, and how many of them have ended.
    jobs: u32,
    ended: u32,
    /// The jobs with an outcome of their own, neither done nor returned. Once the block ends and is returned, also those that are done.
    others: Vec<(u64, JobEnd)>,
    /// Those that were already sent for recording.
    handed: Vec<(u64, JobEnd)>,
    done: Vec<u64>,
    /// Whether any job of it was returned.
    is_returned: bool,
}

/// Once this many jobs of a running block have another outcome than the rest, they are recorded.
const MOST_OTHERS: usize = 16;

impl OpenUnit {
    /// The outcomes sent so far, for another time: the server may have lost them. There may be a thousand, so they come in pieces.
    pub(super) fn outcomes_to_repeat(&self) -> impl Iterator<Item = Ended> {
        self.handed.chunks(MOST_OTHERS).map(|others| Ended {
            unit: self.unit.clone(),
            outcome: JobEnd::Running,
            others: others.to_vec(),
        })
    }
}

impl Coordinator<'_> {
    /// Notes the outcome of a job, to be recorded with the next turn.
    pub(super) fn note_outcome(&mut self, task: &Task, outcome: JobEnd) {
        let Some(open) = self.units.get_mut(&task.unit) else {
            return;
        };
        open.ended += 1;
        match &outcome {
            JobEnd::Done => self.counts.0 += 1,
            JobEnd::Retry(..) | JobEnd::Dead(_) => self.counts.1 += 1,
            JobEnd::Later(_) | JobEnd::Returned | JobEnd::Running => {}
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
            JobEnd::Returned => open.is_returned = true,
            outcome => open.others.push((task.id, outcome)),
        }
        // Spread the work over several turns. But a block is known by its first job, which must stay in it until its end.
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
            if open.is_returned {
                outcome = JobEnd::Returned;
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

    /// Handles commands that have ended. If dblock ended one, its whole group must be gone.
    pub(super) fn reap(&mut self) {
        let (mut at, round) = (0, Round::begin());
        while at < self.commands.len() {
            if !self.commands[at].running.is_over() {
                at += 1;
                continue;
            }
            let mut command = self.commands.swap_remove(at);
            if let Some(failure) = command.running.child.late_failure() {
                self.return_unstarted(std::mem::take(&mut command.tasks), failure);
            }
            let is_stopping = self.shutdown.has_begun();
            let took = command.running.started.elapsed();
            command.output.finish(&mut self.outlets, round);
            let was_lost = command.cause() == Some(Cause::LeaseOver);
            // If the worker was lost, others have the jobs, and the outcomes no longer count.
            let mut ending = None;
            if let Some((queue, _)) = self.registered.clone() {
                let (outcomes, ended) = command.outcome(self.spec, &queue, is_stopping);
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
            if command.output.is_open() {
                self.lingering.push(command.output);
            }
            let excess = self.lingering.len().saturating_sub(MOST_LINGERING);
            self.lingering.drain(..excess);
            // Once it is reaped, another process may get its pid.
            drop(command.place);
            command.running.child.reap();
        }
        let own: Vec<Option<i32>> = self
            .commands
            .iter()
            .map(|command| Some(command.running.child.processes.pid))
            .chain([self.claimer.pid()])
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
            JobEnd::Returned => self.log.info(format_args!("job {id} is returned")),
            JobEnd::Retry(delay, error) => self.log.info(format_args!(
                "job {id} failed, attempt {}: {}; again in {}",
                task.attempt,
                first_line(error),
                shown(*delay)
            )),
            // A repeating job never becomes dead.
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

    /// Whether another command may start: the lease must last long enough.
    pub(super) fn may_start(&self) -> bool {
        let good = |lease: Lease| !is_over(Some(lease.end_command(self.spec.kill_after)));
        !self.shutdown.has_begun()
            // Nobody renews the lease while the claimer is being replaced.
            && self.claimer.restarts.next().is_none()
            && self.lease.is_some_and(good)
            && !(self.spec.until == Until::Once && self.started_any)
    }

    /// Whether a command is to start now.
    fn is_to_start(&self) -> bool {
        let most = self.spec.jobs_of_command() as usize;
        self.commands.len() < self.spec.jobs as usize
            && !self.buffer.is_empty()
            && (self.buffer.len() >= most || self.nothing_due)
            && self.may_start()
    }

    /// Whether another command is to start at once, only after what has happened meanwhile: one has started late.
    pub(super) fn starts_late(&self) -> bool {
        let is_late = |command: &JobCommand| command.running.child.started_late();
        self.commands.iter().any(is_late) && self.is_to_start()
    }

    pub(super) fn start_commands(&mut self) {
        let most = self.spec.jobs_of_command() as usize;
        while self.is_to_start() {
            let count = most.min(self.buffer.len());
            let tasks: Vec<Task> = self.buffer.drain(..count).collect();
            let tasks = self.leave_out_unreadable(tasks);
            if tasks.is_empty() {
                continue;
            }
            let worker = self.registered.as_ref().map_or(0, |(_, worker)| *worker);
            let Some(place) = self.board.take(worker) else {
                self.buffer.extend(tasks);
                return;
            };
            match JobCommand::start(self.spec, tasks.clone(), &self.signals, place) {
                Ok(command) => {
                    self.started_any = true;
                    let is_late = command.running.child.started_late();
                    self.commands.push(command);
                    if is_late {
                        return;
                    }
                }
                Err(Unstarted::Job(why)) => self.bury(tasks, &why),
                Err(Unstarted::Worker(failure)) => self.return_unstarted(tasks, failure),
            }
        }
    }

    /// Returns these jobs, and ends the worker, for it cannot start any command.
    fn return_unstarted(&mut self, tasks: Vec<Task>, failure: Failure) {
        for task in tasks {
            self.note_outcome(&task, JobEnd::Returned);
        }
        self.stop(self.spec.grace, Err(failure.into()));
    }

    /// Returns the jobs that can be run, and buries the others: those with an incomplete payload, and with `--batch` those with the
    /// separator in it.
    fn leave_out_unreadable(&mut self, tasks: Vec<Task>) -> Vec<Task> {
        let (tasks, torn): (Vec<Task>, Vec<Task>) =
            tasks.into_iter().partition(|task| task.is_whole);
        self.bury(torn, "its payload is not in the tables as a whole");
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

    /// Marks jobs as dead, for which no command can be started.
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

    /// How many jobs to have ready besides the running ones.
    fn ahead(&self, slots: u32, jobs: u32) -> u32 {
        // If this worker dies, each claimed job counts an attempt. A job with a single attempt would be dead without having been started.
        let is_only = |(queue, _): &(Queue, u64)| queue.max_attempts == 1;
        if self.spec.until == Until::Once || self.registered.as_ref().is_some_and(is_only) {
            return 0;
        }
        self.pace.ahead(slots, jobs)
    }

    /// When the running commands count as slower than earlier ones; `None`: there is a free slot.
    pub(super) fn stalled_at(&self) -> Option<Moment> {
        let has_room = self.commands.len() < self.spec.jobs as usize;
        let latest = self
            .commands
            .iter()
            .map(|command| command.running.started)
            .max();
        latest.filter(|_| !has_room).map(|latest| latest + STALLED)
    }

    /// Whether single jobs wait for a command.
    pub(super) fn has_singles_ahead(&self) -> bool {
        self.buffer.iter().any(|task| self.is_single(task))
    }

    fn is_single(&self, task: &Task) -> bool {
        let open = self.units.get(&task.unit);
        open.is_some_and(|open| open.unit.block == 0)
    }

    /// Returns waiting jobs that others could start sooner. The rest of a block can only be returned with the whole block.
    pub(super) fn return_ahead(&mut self) {
        if !self.has_singles_ahead() {
            return;
        }
        let buffer = std::mem::take(&mut self.buffer);
        let (singles, rest): (VecDeque<Task>, VecDeque<Task>) =
            buffer.into_iter().partition(|task| self.is_single(task));
        self.buffer = rest;
        let jobs = counted(singles.len(), "job");
        self.log.info(format_args!(
            "the commands take long: returning {jobs} that nothing was started for"
        ));
        for task in singles {
            self.note_outcome(&task, JobEnd::Returned);
        }
    }

    /// How many more jobs to claim.
    pub(super) fn want(&self) -> u32 {
        if self.shutdown.has_begun()
            || self.spec.until == Until::Once && self.started_any
            // They would be returned at once.
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
        // When claiming ahead, do not claim jobs one by one.
        let wants_jobs =
            self.commands.len() < self.spec.jobs as usize && self.buffer.len() < jobs as usize;
        if wants_jobs || want >= ahead / 2 {
            want
        } else {
            0
        }
    }

    pub(super) fn take_in(&mut self, mut claimed: Vec<Claimed>, file: File) {
        let mut file = Rc::new(file);
        if self.buffer.is_empty() {
            self.gathered = None;
        } else {
            file = self.gather(&mut claimed, file);
        }
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
                    is_whole: job.is_whole,
                });
            }
            self.units.entry(unit.job).or_insert_with(|| OpenUnit {
                unit,
                jobs: of,
                ended: 0,
                others: Vec::new(),
                handed: Vec::new(),
                done: Vec::new(),
                is_returned: false,
            });
        }
    }

    /// Copies payloads into the shared file of waiting jobs, as blocks of one job would otherwise have an open file each. Returns their
    /// file.
    fn gather(&mut self, claimed: &mut [Claimed], file: Rc<File>) -> Rc<File> {
        let jobs = || claimed.iter().flat_map(|unit| &unit.jobs);
        let first = jobs().map(|job| job.offset).min().unwrap_or_default();
        let end = jobs().map(|job| job.offset + job.length).max();
        let all = Payload {
            file: Rc::clone(&file),
            offset: first,
            length: end.unwrap_or_default().saturating_sub(first),
        };
        let Some(gathered) = Gathered::add(&mut self.gathered, &all) else {
            return file;
        };
        for job in claimed.iter_mut().flat_map(|unit| &mut unit.jobs) {
            job.offset = job.offset - first + gathered.offset;
        }
        gathered.file
    }
}
