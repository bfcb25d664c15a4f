//! The jobs of a worker: which commands start, and the outcome of each job.

use super::super::Until;
use super::super::ahead::STALLED;
use super::super::command::{JobCommand, Task, Unstarted, failed, hooks_for_the_dead, start};
use super::super::message::ToClaimer;
use super::Coordinator;
use crate::base::clock::{Moment, is_over};
use crate::base::exit::{Failure, Reason};
use crate::base::text::{counted, shown};
use crate::history::{KEPT, KeptOutput};
use crate::lock::Lease;
use crate::queue::{JobEnd, Queue, Rescued};
use crate::supervise::{Cause, OutputRound};
use std::time::Duration;

impl Coordinator<'_> {
    /// Notes the outcomes of a command's jobs, and reaps it.
    pub(super) fn end_command(&mut self, mut command: JobCommand, round: OutputRound) {
        if let Some(error) = command.running.child.late_failure() {
            let tasks = std::mem::take(&mut command.tasks);
            self.end_unstarted(tasks, Unstarted::of(self.spec, error));
        }
        let is_stopping = self.runner.shutdown.has_begun();
        let took = command.running.started.elapsed();
        let outputs = &mut self.runner.outputs;
        command.output.finish(&mut outputs.outlets, round);
        let kept = command.output.take_kept();
        let was_lost = matches!(
            command.running.cause(),
            Some(Cause::LeaseOver | Cause::LockLost)
        );
        // If the worker was lost, others have the jobs, and the outcomes no longer count.
        let mut ending = None;
        if let Some((queue, worker)) = self.registered.clone() {
            let (outcomes, ended) = command.outcome(self.spec, &queue, is_stopping);
            ending = Some(ended);
            let hooks = command.hooks(self.spec, &outcomes, ended);
            let (signals, log) = (&self.runner.poller.signals, self.runner.log);
            self.runner.asides.add(hooks, signals, log);
            if let Some((task, outcome)) = outcomes.first() {
                self.send_output(worker, task, outcome, kept);
            }
            for (task, outcome) in outcomes {
                self.say_outcome(&task, &outcome, took);
                self.claims.note_outcome(&task, outcome);
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
        self.runner.outputs.linger(command.output, ());
        command.running.reap();
    }

    /// Sends what is to be kept of a command's output, as that of its first job. `None`: nothing was written.
    fn send_output(
        &mut self,
        worker: u64,
        task: &Task,
        outcome: &JobEnd,
        kept: Option<KeptOutput>,
    ) {
        let has_failed = match outcome {
            JobEnd::Done => false,
            JobEnd::Retry(..) | JobEnd::Dead(_) => true,
            JobEnd::Later(_) | JobEnd::Returned | JobEnd::Running => return,
        };
        // Of a block the jobs that are done are recorded together, and there may be a thousand.
        let is_recorded = has_failed || self.claims.is_single(task);
        if !self.spec.keep_output.keeps(has_failed) || !is_recorded {
            return;
        }
        // Nothing takes the place of what an earlier attempt has written.
        let nothing = || (task.fence > 1).then(|| KeptOutput::new(KEPT));
        for part in kept.or_else(nothing).iter().flat_map(KeptOutput::parts) {
            let output = ToClaimer::Output(worker, task.id, part);
            self.runner.peer.send(output);
        }
    }

    /// A worker has died. This one starts what is to be run then, as it has returned the jobs.
    pub(super) fn on_rescued(&mut self, rescued: &Rescued) {
        let (signals, log) = (&self.runner.poller.signals, self.runner.log);
        let hooks = hooks_for_the_dead(self.spec, rescued);
        self.runner.asides.add(hooks, signals, log);
    }

    pub(super) fn say_outcome(&self, task: &Task, outcome: &JobEnd, took: Duration) {
        let (id, span) = (task.id, shown(took));
        let first_line = |error: &str| error.lines().next().unwrap_or_default().to_owned();
        match outcome {
            JobEnd::Done => self
                .runner
                .log
                .info(format_args!("job {id} is done after {span}")),
            JobEnd::Later(delay) => self.runner.log.info(format_args!(
                "job {id} wants to be started again; in {}",
                shown(*delay)
            )),
            JobEnd::Running => {}
            JobEnd::Returned => self.runner.log.info(format_args!("job {id} is returned")),
            JobEnd::Retry(delay, error) => self.runner.log.info(format_args!(
                "job {id} failed, attempt {}: {}; again in {}",
                task.attempt,
                first_line(error),
                shown(*delay)
            )),
            // A repeating job never becomes dead.
            JobEnd::Dead(error) if self.claims.repeats(task) => {
                self.runner.log.warning(format_args!(
                    "job {id} failed, attempt {}: {}; it is due again at its next time",
                    task.attempt,
                    first_line(error)
                ));
            }
            JobEnd::Dead(error) => self.runner.log.warning(format_args!(
                "job {id} is dead, attempt {}: {}",
                task.attempt,
                first_line(error)
            )),
        }
    }

    /// Whether another command may start: the lease must last long enough.
    pub(super) fn may_start(&self) -> bool {
        let good = |lease: Lease| !is_over(Some(lease.end_command(self.spec.kill_after)));
        !self.runner.shutdown.has_begun()
            // Nobody renews the lease while the claimer is being replaced.
            && self.runner.peer.restarts.next().is_none()
            && self.lease.is_some_and(good)
            && !(self.spec.until == Until::Once && self.started_any)
    }

    /// Whether a command is to start now.
    fn is_to_start(&self) -> bool {
        let most = self.jobs_of_command() as usize;
        self.runner.commands.len() < self.spec.jobs as usize
            // What is run at the end of commands may be slower than these.
            && !self.runner.asides.are_full()
            && !self.claims.buffer.is_empty()
            && (self.claims.buffer.len() >= most || self.turns.nothing_due)
            && self.may_start()
    }

    /// Whether another command is to start at once, only after what has happened meanwhile: one has started late.
    pub(super) fn starts_late(&self) -> bool {
        let is_late = |command: &JobCommand| command.running.child.started_late();
        self.runner.commands.iter().any(is_late) && self.is_to_start()
    }

    /// How many jobs a command is likely to get. Many in a row may be tried again alone.
    fn jobs_of_command(&self) -> u32 {
        if self.tries_again {
            1
        } else {
            self.spec.jobs_of_command()
        }
    }

    /// How many of the jobs that wait the next command gets. One that was tried before gets a command of its own: it may have been why
    /// others failed with it.
    fn jobs_of_next(&self) -> usize {
        let most = self.spec.jobs_of_command() as usize;
        let next = self.claims.buffer.iter().take(most);
        match next.clone().position(|task| task.attempt > 1) {
            Some(before) => before.max(1),
            None => next.len(),
        }
    }

    pub(super) fn start_commands(&mut self) {
        while self.is_to_start() {
            let count = self.jobs_of_next();
            let tasks: Vec<Task> = self.claims.buffer.drain(..count).collect();
            self.tries_again = tasks[0].attempt > 1;
            let tasks = self.leave_out_unreadable(tasks);
            if tasks.is_empty() {
                continue;
            }
            let worker = self.registered.as_ref().map_or(0, |(_, worker)| *worker);
            let Some(place) = self.runner.board.take(worker) else {
                self.claims.buffer.extend(tasks);
                return;
            };
            match start(self.spec, tasks.clone(), &self.runner.poller.signals, place) {
                Ok(command) => {
                    self.started_any = true;
                    let is_late = command.running.child.started_late();
                    self.runner.commands.push(command);
                    if is_late {
                        return;
                    }
                }
                Err(why) => self.end_unstarted(tasks, why),
            }
        }
    }

    /// Buries these jobs, or, if the worker cannot start any command, returns them, and ends it.
    fn end_unstarted(&mut self, tasks: Vec<Task>, why: Unstarted) {
        let failure = match why {
            Unstarted::Job(why) => return self.bury(tasks, &why),
            Unstarted::Worker(failure) => failure,
        };
        for task in tasks {
            self.claims.note_outcome(&task, JobEnd::Returned);
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
            self.claims.note_outcome(&task, outcome);
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

    /// When the running commands, or what is run at their ends, count as slower than earlier ones; `None`: there is a free slot.
    pub(super) fn stalled_at(&self) -> Option<Moment> {
        let has_room = self.runner.commands.len() < self.spec.jobs as usize;
        let started = self.runner.commands.iter();
        let latest = started.map(|command| command.running.started).max();
        let latest = latest.filter(|_| !has_room);
        let full_since = self.runner.asides.full_since();
        let since = latest.into_iter().chain(full_since).min();
        since.map(|since| since + STALLED)
    }

    /// Returns waiting jobs that others could start sooner.
    pub(super) fn return_ahead(&mut self) {
        if !self.claims.has_singles_ahead() {
            return;
        }
        let singles = self.claims.take_singles();
        let jobs = counted(singles.len(), "job");
        let slow = if self.runner.asides.are_full() {
            "the commands of --on-failure and --on-end"
        } else {
            "the commands"
        };
        self.runner.log.info(format_args!(
            "{slow} take long: returning {jobs} that nothing was started for"
        ));
        for task in singles {
            self.claims.note_outcome(&task, JobEnd::Returned);
        }
    }

    /// How many claimed jobs have not ended.
    pub(super) fn in_hand(&self) -> u32 {
        let commands = self.runner.commands.iter();
        let running: usize = commands.map(|command| command.tasks.len()).sum();
        u32::try_from(self.claims.buffer.len() + running).unwrap_or(u32::MAX)
    }

    /// How many more jobs to claim.
    pub(super) fn want(&self) -> u32 {
        if self.runner.shutdown.has_begun()
            || self.spec.until == Until::Once && self.started_any
            // They would be returned at once.
            || is_over(self.stalled_at())
            // None would start, and other workers may have room.
            || self.runner.asides.are_full()
        {
            return 0;
        }
        let jobs = self.jobs_of_command();
        let is_once = self.spec.until == Until::Once;
        let slots = if is_once { 1 } else { self.spec.jobs };
        let ahead = self.ahead(slots, jobs);
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        // However many jobs a command has, it takes one slot.
        let free = slots.saturating_sub(count(self.runner.commands.len()));
        let waiting = count(self.claims.buffer.len());
        let want = free
            .saturating_mul(jobs)
            .saturating_add(ahead)
            .saturating_sub(waiting);
        // When claiming ahead, do not claim jobs one by one.
        let wants_jobs = free > 0 && waiting < jobs;
        if wants_jobs || want >= ahead / 2 {
            want
        } else {
            0
        }
    }
}
