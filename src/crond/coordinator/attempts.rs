//! Attempts: their commands are started, ended and reaped, and what they mean is handed to the scheduler.

use std::rc::Rc;
use std::time::Duration;

use super::super::command::{
    Cause, Concluded, Streams, TickCommand, Written, end_of, said_timeout,
};
use super::super::mail;
use super::super::message::{Attempt, ToScheduler};
use super::{Coordinator, Unrecorded};
use crate::base::children::{End, reap_orphans, reap_within};
use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::base::text::{in_words, shown};
use crate::cron::{AttemptEnd, Job, retry};
use crate::lock::{Grant, Lease};
use crate::supervise::{MOST_LINGERING, Round, Sink, is_over};

/// If the end of a lease is noticed this late, this process was stopped, or the machine slept.
const OVERSLEPT: Duration = Duration::from_millis(500);

impl Coordinator<'_> {
    /// Starts an attempt, unless it runs already.
    pub(super) fn start(&mut self, attempt: Attempt, grant: Grant, lease: Lease) {
        let mut all = self.running.iter();
        let is_known = all.any(|one| one.attempt.run == attempt.run);
        if is_known || self.ended.contains_key(&attempt.run) {
            return;
        }
        let Some(job) = self.jobs.get(attempt.job).cloned() else {
            return;
        };
        let name = job.name.to_string();
        let returned = |why: &str| Concluded {
            end: AttemptEnd::Returned,
            words: why.to_owned(),
            run_end: None,
        };
        // It was taken before the scheduler knew that the daemon is ending.
        if self.shutdown.has_begun() {
            let why = returned("its host takes no more ticks");
            return self.note_end(&job, attempt, grant, why);
        }
        // This process was stopped just now, or the machine slept.
        if lease.proved.elapsed() > lease.ttl / 2 {
            let why = returned("its host was stopped");
            return self.note_end(&job, attempt, grant, why);
        }
        let (place, streams) = match (self.board.take(attempt.lease_number()), Streams::new(&job)) {
            (Some(place), Ok(streams)) => (place, streams),
            (_, refused) => {
                let why = refused.err().map_or_else(
                    || "too many commands run".to_owned(),
                    |error| format!("cannot start a process: {}", in_words(&error)),
                );
                self.log.error(format_args!("{name}: {why}"));
                let why = Concluded {
                    end: AttemptEnd::Unstarted,
                    ..returned(&why)
                };
                return self.note_end(&job, attempt, grant, why);
            }
        };
        self.log.info(format_args!(
            "{name}: starting the tick {}, attempt {}",
            attempt.shown, attempt.number
        ));
        let started = TickCommand::start(
            Rc::clone(&job),
            (attempt.clone(), grant, lease),
            streams,
            &mut self.outlets,
            &self.spec.scrubbed,
            (place, &self.signals),
        );
        match started {
            Ok(command) => self.running.push(command),
            Err((failure, written)) => {
                let why = Concluded {
                    end: end_of(&failure, false),
                    words: failure.to_string(),
                    run_end: None,
                };
                self.say_end(&job, &attempt, Duration::ZERO, &why);
                self.note_end(&job, attempt, grant, why);
                self.finish_output(written);
            }
        }
    }

    /// Notes how an attempt ended, until that is recorded.
    fn note_end(&mut self, job: &Rc<Job>, attempt: Attempt, grant: Grant, concluded: Concluded) {
        let Concluded {
            end,
            words,
            run_end,
        } = concluded;
        let why = if end == AttemptEnd::Over { "" } else { &words };
        let ended = attempt.ended(job, end, why, run_end);
        self.scheduler.send(ToScheduler::Ended(ended.clone()));
        let run = attempt.run.clone();
        let job = Rc::clone(job);
        self.ended.insert(
            run,
            Unrecorded {
                job,
                attempt,
                grant,
                ended,
            },
        );
    }

    /// Ends commands that are too late, or whose leases are over.
    pub(super) fn check_commands(&mut self) {
        let (log, outlets) = (self.log, &mut self.outlets);
        for command in &mut self.running {
            if command.running.is_late() {
                let line = said_timeout(command.job.options.timeout);
                if !command.written.is_mail() {
                    log.info(format_args!("{}: {line}", command.job.name));
                }
                command.say(outlets, &line);
                command.end(Cause::TimedOut);
            }
        }
        if self.shutdown.ends_commands() {
            for command in &mut self.running {
                command.end(Cause::Stopped);
            }
        }
        self.check_leases();
    }

    /// Ends the commands whose leases are over. After a sleep of this process the scheduler gets a moment to prove their locks.
    fn check_leases(&mut self) {
        let over = |command: &TickCommand| command.lease_over().filter(|at| is_over(Some(*at)));
        let Some(first) = self.running.iter().filter_map(over).min() else {
            self.grace = None;
            return;
        };
        if first.elapsed() > OVERSLEPT && self.grace.is_none() {
            self.scheduler.send(ToScheduler::Check);
            let leases = self.running.iter().filter_map(|command| command.lease);
            let grace = leases.map(Lease::grace).min().unwrap_or_default();
            self.grace = Some(Moment::now() + grace);
        }
        if self.grace.is_some_and(|grace| grace > Moment::now()) {
            return;
        }
        for command in &mut self.running {
            if over(command).is_some()
                && let Some(lease) = command.lease
            {
                let line = command.abandon(lease);
                self.log.error(&line);
                command.say(&mut self.outlets, &line);
            }
        }
    }

    /// When [`Self::check_commands`] must run next, for all that it does.
    pub(super) fn commands_deadline(&self) -> Option<Moment> {
        let running = || self.running.iter();
        let commands = running().filter_map(|command| command.running.deadline());
        let leases = running().filter_map(TickCommand::lease_over).min();
        let leases = leases.map(|over| self.grace.unwrap_or(over));
        let ends = self.shutdown.until;
        let ends = ends.filter(|_| running().any(|command| !command.running.is_ending()));
        commands.chain(leases).chain(ends).min()
    }

    /// A renewal of this run's lock that was sent at this moment has succeeded.
    pub(super) fn on_confirmed(&mut self, run: &str, sent: Moment) {
        for command in &mut self.running {
            if run == command.attempt.run
                && let Some(lease) = &mut command.lease
            {
                lease.proved = lease.proved.max(sent);
            }
        }
    }

    /// The lock of this run is lost, or somebody ends the run, as `end` says to its command.
    pub(super) fn end_for_lock(&mut self, run: &str, end: impl FnOnce(&mut TickCommand) -> String) {
        let mut running = self.running.iter_mut();
        if let Some(command) = running.find(|command| command.attempt.run == run) {
            let line = end(command);
            self.log.error(&line);
            command.say(&mut self.outlets, &line);
        }
    }

    /// Handles commands that have ended.
    pub(super) fn reap(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            if !self.running[at].running.is_over() {
                at += 1;
                continue;
            }
            let mut command = self.running.swap_remove(at);
            command
                .written
                .output
                .finish(&mut self.outlets, Round::begin());
            let concluded = command.conclude();
            let TickCommand {
                job,
                attempt,
                grant,
                running,
                place,
                written,
                ..
            } = command;
            self.say_end(&job, &attempt, running.started.elapsed(), &concluded);
            // Before its pid may be another process's.
            drop(place);
            running.child.reap();
            self.note_end(&job, attempt, grant, concluded);
            self.finish_output(written);
        }
        self.reap_mails();
        let running = self.running.iter();
        let own: Vec<Option<i32>> = running
            .map(|command| Some(command.running.child.processes.pid))
            .chain([self.scheduler.pid()])
            .chain(self.mails.iter().map(|mail| Some(mail.pid.as_raw())))
            .collect();
        reap_orphans(&own);
    }

    fn reap_mails(&mut self) {
        let log = self.log;
        self.mails.retain(|mail| {
            let how = match reap_within(mail.pid.as_raw(), Duration::ZERO) {
                End::Pending => return true,
                End::Ended(Ending::Code(0)) | End::Unknown => return false,
                End::Ended(Ending::Signal(_)) if mail.is_killed => "took too long".to_owned(),
                end @ End::Ended(_) => end.to_string(),
            };
            log.error(format_args!(
                "{}: its output may not be sent: sendmail {how}",
                mail.job
            ));
            false
        });
    }

    fn say_end(&self, job: &Job, attempt: &Attempt, ran: Duration, concluded: &Concluded) {
        let (name, took, tick) = (&job.name, shown(ran), &attempt.shown);
        let (end, words) = (concluded.end, &concluded.words);
        let again = match retry(&job.options, end, attempt.failures, attempt.unstarted_for) {
            (Some(Duration::ZERO), _) => "; again at once".to_owned(),
            (Some(delay), _) => format!("; again in {}", shown(delay)),
            (None, _) => String::new(),
        };
        let number = attempt.number;
        let line =
            format!("{name}: the tick {tick}, attempt {number}, after {took}: {words}{again}");
        if end == AttemptEnd::Over {
            self.log.info(line);
        } else {
            self.log.warning(line);
        }
    }

    /// Lets the remaining processes write on, up to a limit.
    fn finish_output(&mut self, written: Written) {
        self.lingering.push(written);
        while self.lingering.len() > MOST_LINGERING {
            let first = self.lingering.remove(0);
            self.send_mail(first);
        }
        self.end_lingering(false);
    }

    /// Forgets ended attempts that nothing can write for any more, and sends their mails. At the daemon's end: all attempts with a mail.
    pub(super) fn end_lingering(&mut self, is_last: bool) {
        let is_left = |one: &Written| one.output.is_open() && !(is_last && one.is_mail());
        let all = std::mem::take(&mut self.lingering).into_iter();
        let (left, over): (_, Vec<Written>) = all.partition(is_left);
        self.lingering = left;
        for one in over {
            self.send_mail(one);
        }
    }

    /// Sends the output, if it goes by mail.
    fn send_mail(&mut self, mut written: Written) {
        let (Some(mail), Sink::File(text)) = (&written.mail, &mut written.output.sink) else {
            return;
        };
        let (has_output, fault) = mail.end(text);
        if !has_output {
            return;
        }
        let (job, variables) = (written.name, &self.spec.variables);
        if let Some(error) = fault {
            let why = in_words(&error);
            self.log.error(format_args!(
                "{job}: its mail does not have all of its output: {why}"
            ));
        }
        match mail::send(mail, text, job.clone(), variables, &self.signals, self.log) {
            Ok(sending) => self.mails.push(sending),
            Err(error) => self.log.error(format_args!(
                "{job}: cannot send its output to {} with {}: {}",
                mail.to,
                mail.sendmail.display(),
                in_words(&error)
            )),
        }
    }
}
