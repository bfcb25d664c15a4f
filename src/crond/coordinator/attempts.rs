//! Attempts: their commands are started, ended and reaped, and what they mean is handed to the scheduler.

use std::rc::Rc;
use std::time::Duration;

use super::super::command::{
    Concluded, Streams, Tick, TickCommand, report_of_the_dead, said_timeout, start, unstarted,
};
use super::super::environment::changes;
use super::super::mail::{self, Mail};
use super::super::message::{Attempt, ToScheduler};
use super::super::scheduler::Kept;
use super::Coordinator;
use crate::base::clock::{Moment, is_over};
use crate::base::text::{in_words, shown};
use crate::cron::{AttemptEnd, Job, retry};
use crate::history::KeepOutput;
use crate::isolated::link::cut;
use crate::lock::{Grant, Lease};
use crate::supervise::{Hook, Output, OutputRound, Report, Sink, Started, of_grant, wanted};

impl Coordinator<'_> {
    /// Starts an attempt, unless it runs already.
    pub(super) fn start(&mut self, attempt: Attempt, grant: Grant, lease: Lease) {
        let mut all = self.runner.commands.iter();
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
            report: None,
        };
        // It was taken before the scheduler knew that the daemon is ending.
        if self.runner.shutdown.has_begun() {
            let why = returned("its host takes no more ticks");
            return self.note_end(&job, attempt, grant, why);
        }
        // This process was stopped just now, or the machine slept.
        if lease.proved.elapsed() > lease.ttl / 2 {
            let why = returned("its host was stopped");
            return self.note_end(&job, attempt, grant, why);
        }
        let (place, streams) = match (
            self.runner.board.take(attempt.lease_number()),
            Streams::new(&job, self.keeps(&job)),
        ) {
            (Some(place), Ok(streams)) => (place, streams),
            (_, refused) => {
                let why = refused.err().map_or_else(
                    || "too many commands run".to_owned(),
                    |error| format!("cannot start a process: {}", in_words(&error)),
                );
                self.runner.log.error(format_args!("{name}: {why}"));
                let why = Concluded {
                    end: AttemptEnd::Unstarted,
                    ..returned(&why)
                };
                return self.note_end(&job, attempt, grant, why);
            }
        };
        self.runner.log.info(format_args!(
            "{name}: starting the tick {}, attempt {}",
            attempt.shown, attempt.number
        ));
        let mut others = self.runner.commands.iter();
        let others_hang = others.any(|other| other.running.child.hangs_at_start());
        let started = start(
            Rc::clone(&job),
            (attempt.clone(), grant, lease),
            streams,
            &mut self.runner.outputs.outlets,
            &self.spec.scrubbed,
            (place, &self.runner.poller.signals, others_hang),
        );
        match started {
            Ok(command) => self.runner.commands.push(command),
            Err(rest) => {
                let (failure, output, mail) = *rest;
                let why = unstarted(&job, &attempt, failure);
                self.say_end(&job, &attempt, Duration::ZERO, &why);
                self.note_end(&job, attempt, grant, why);
                self.finish_output(output, name, mail);
            }
        }
    }

    /// Notes how an attempt ended, until that is recorded.
    fn note_end(&mut self, job: &Rc<Job>, attempt: Attempt, grant: Grant, concluded: Concluded) {
        let Concluded {
            end,
            words,
            run_end,
            report,
        } = concluded;
        let why = if end == AttemptEnd::Over { "" } else { &*words };
        let ended = attempt.ended(job, end, &cut(why), run_end);
        // One that could not be started here is no failure of the job's.
        if let Some(mut report) = report.filter(|_| end != AttemptEnd::Unstarted) {
            report.will_retry = ended.retry.is_some();
            self.start_hooks(job, &attempt, Some(grant), &report);
        }
        self.runner.peer.send(ToScheduler::Ended(ended.clone()));
        let kept = Kept {
            job: Rc::clone(job),
            attempt,
            grant,
            lease: None,
            started: None,
            ended: Some(ended.clone()),
        };
        self.ended.insert(ended.run, kept);
    }

    /// Starts what is to be run at the end of an attempt.
    fn start_hooks(&mut self, job: &Job, attempt: &Attempt, grant: Option<Grant>, report: &Report) {
        let mut environment = changes(job, &self.spec.scrubbed, attempt.number);
        let tick = Some(&*attempt.shown);
        environment.extend(of_grant(&job.name, &[], grant, tick));
        let hooks = job.options.hooks.or(&self.spec.hooks);
        let (signals, log) = (&self.runner.poller.signals, self.runner.log);
        let hooks = wanted(&hooks, report, &environment).into_iter();
        let hooks = hooks.map(Hook::named).collect();
        self.runner.asides.add(hooks, signals, log);
    }

    /// The host of an attempt has died. This one starts what is to be run then, as it was the first to record it.
    pub(super) fn on_died(&mut self, attempt: &Attempt, will_retry: bool) {
        if let Some(job) = self.jobs.get(attempt.job).cloned() {
            let report = report_of_the_dead(&job, attempt, will_retry);
            self.start_hooks(&job, attempt, None, &report);
        }
    }

    /// Ends commands that are too late, or whose leases are over.
    pub(super) fn check_commands(&mut self) {
        let log = self.runner.log;
        self.runner.end_late(|command, outlets| {
            let line = said_timeout(command.job.options.timeout);
            if command.mail.is_none() {
                log.info(format_args!("{}: {line}", command.job.name));
            }
            command.say(outlets, &line);
        });
        self.check_leases();
    }

    /// Ends the commands whose leases are over. After a sleep of this process the scheduler gets a moment to prove their locks.
    fn check_leases(&mut self) {
        let over = |command: &TickCommand| command.lease_over().filter(|at| is_over(Some(*at)));
        let commands = &self.runner.commands;
        let first = commands.iter().filter_map(over).min();
        let peer = &mut self.runner.peer;
        let is_due = self.runner.grace.is_over(first, || {
            peer.send(ToScheduler::Check);
            let leases = commands.iter().filter_map(|command| command.lease);
            leases.map(Lease::grace).min().unwrap_or_default()
        });
        if !is_due {
            return;
        }
        // All are ended before anything is said, as a file system can keep this process in a write for ever.
        let mut lines = Vec::new();
        for (at, command) in self.runner.commands.iter_mut().enumerate() {
            if over(command).is_some()
                && let Some(lease) = command.lease
            {
                lines.push((at, command.abandon(lease)));
            }
        }
        for (at, line) in lines {
            self.runner.log.error(&line);
            self.runner.commands[at].say_by_mail(&mut self.runner.outputs.outlets, &line);
        }
    }

    /// When [`Self::check_leases`] must run next.
    pub(super) fn leases_deadline(&self) -> Option<Moment> {
        let commands = self.runner.commands.iter();
        let first = commands.filter_map(TickCommand::lease_over).min();
        first.map(|over| self.runner.grace.deadline(over))
    }

    /// A renewal of this run's lock that was sent at this moment has succeeded.
    pub(super) fn on_confirmed(&mut self, run: &str, sent: Moment) {
        for command in &mut self.runner.commands {
            if run == command.attempt.run
                && let Some(lease) = &mut command.lease
            {
                lease.proved = lease.proved.max(sent);
            }
        }
    }

    /// The lock of this run is lost, or somebody ends the run, as `end` says to its command.
    pub(super) fn end_for_lock(&mut self, run: &str, end: impl FnOnce(&mut TickCommand) -> String) {
        let mut running = self.runner.commands.iter_mut();
        if let Some(command) = running.find(|command| command.attempt.run == run) {
            let line = end(command);
            self.runner.log.error(&line);
            command.say_by_mail(&mut self.runner.outputs.outlets, &line);
        }
    }

    /// Reaps a command, and notes what its end means.
    pub(super) fn end_command(&mut self, mut command: TickCommand) {
        let outlets = &mut self.runner.outputs.outlets;
        command.output.finish(outlets, OutputRound::begin());
        let concluded = command.conclude();
        let kept = command.output.take_kept();
        let Started {
            running,
            output,
            purpose:
                Tick {
                    job,
                    attempt,
                    grant,
                    mail,
                    ..
                },
        } = command;
        self.say_end(&job, &attempt, running.started.elapsed(), &concluded);
        running.reap();
        let name = job.name.to_string();
        // All of it comes before the end.
        if let (Some(kept), Some(run_end)) = (kept, &concluded.run_end)
            && self.keeps(&job).keeps(!run_end.succeeded)
        {
            for part in kept.parts() {
                self.outputs.take_in(attempt.run.clone(), &part);
                let output = ToScheduler::Output(attempt.run.clone(), part);
                self.runner.peer.send(output);
            }
        }
        self.note_end(&job, attempt, grant, concluded);
        self.finish_output(output, name, mail);
    }

    /// Of which attempts of a job the output is kept.
    fn keeps(&self, job: &Job) -> KeepOutput {
        job.options.keep_output.unwrap_or(self.spec.keep_output)
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
            self.runner.log.info(line);
        } else {
            self.runner.log.warning(line);
        }
    }

    /// Lets the remaining processes write on, up to a limit.
    fn finish_output(&mut self, output: Output, job: String, mail: Option<Mail>) {
        for (output, rest) in self.runner.outputs.linger(output, (job, mail)) {
            self.send_mail(output, rest);
        }
    }

    /// Sends all mails at the daemon's end, although processes may still write.
    pub(super) fn send_last_mails(&mut self) {
        let all = self.runner.outputs.take_over(|(_, mail)| mail.is_some());
        for (output, rest) in all {
            self.send_mail(output, rest);
        }
    }

    /// Sends the output, if it goes by mail.
    pub(super) fn send_mail(&mut self, mut output: Output, (job, mail): (String, Option<Mail>)) {
        let (Some(mail), Sink::File(text)) = (&mail, &mut output.sink) else {
            return;
        };
        let (has_output, fault) = mail.end(text);
        if !has_output {
            return;
        }
        let variables = &self.spec.variables;
        if let Some(error) = fault {
            let why = in_words(&error);
            self.runner.log.error(format_args!(
                "{job}: its mail does not have all of its output: {why}"
            ));
        }
        let complaint = format!("{job}: its output may not be sent: sendmail");
        match mail::send(
            mail,
            text,
            (&job, complaint),
            variables,
            &self.runner.poller.signals,
            self.runner.log,
        ) {
            Ok(sending) => self.runner.asides.push(sending),
            Err(error) => self.runner.log.error(format_args!(
                "{job}: cannot send its output to {} with {}: {}",
                mail.to,
                mail.sendmail.display(),
                in_words(&error)
            )),
        }
    }
}
