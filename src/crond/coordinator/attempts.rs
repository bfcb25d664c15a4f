//! Attempts: started, ended, reaped.

use std::rc::Rc;
use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::super::attempt;
use super::super::mail::{self, Mail};
use super::super::message::{Conclusion, Ended, Start, ToScheduler};
use super::Coordinator;
use crate::base::children::{End, reap_orphans, reap_within};
use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::base::log::{Level, Log};
use crate::base::text::{in_words, shown};
use crate::cron::{AttemptEnd, Job, retry};
use crate::history::RunEnd;
use crate::isolated::link::Link;
use crate::supervise::{MOST_LINGERING, Output, Round, Sink, is_over};

/// An attempt's process.
pub(super) struct Running {
    pub(super) job: Rc<Job>,
    pub(super) start: Start,
    pid: Pid,
    link: Link,
    pub(super) output: Output,
    /// Where the output goes when all of it is there; `None`: it is passed on.
    pub(super) mail: Option<Mail>,
    begun: Moment,
    conclusion: Option<Conclusion>,
    /// Since when it is being stopped.
    pub(super) stopped: Option<Moment>,
    is_killed: bool,
}

impl Running {
    /// Whether its process has ended. Then it is reaped, and the report of its end is read.
    fn has_ended(&mut self) -> bool {
        if reap_within(self.pid.as_raw(), Duration::ZERO) == End::Pending {
            return false;
        }
        if self.link.is_readable() {
            let report = self.link.receive().ok().flatten();
            self.conclusion = report.map(|(message, _)| message);
        }
        true
    }

    pub(super) fn signal(&self, signal: i32) {
        let signal = nix::sys::signal::Signal::try_from(signal).ok();
        let _ = kill(self.pid, signal);
    }

    /// Begins to stop it, unless that has begun.
    pub(super) fn stop(&mut self) {
        if self.stopped.is_none() {
            self.stopped = Some(Moment::now());
            self.signal(libc::SIGTERM);
        }
    }

    /// When to kill it, if it is being stopped. Its keeper then kills the command.
    pub(super) fn kill_at(&self) -> Option<Moment> {
        let stopped = self.stopped.filter(|_| !self.is_killed)?;
        Some(stopped + self.job.options.kill_after)
    }

    pub(super) fn kill_if_due(&mut self) {
        if is_over(self.kill_at()) {
            self.is_killed = true;
            self.signal(libc::SIGKILL);
        }
    }

    /// Kills it at once if it is being stopped. Its keeper then kills the command.
    pub(super) fn hurry(&mut self) {
        if self.stopped.is_some() && !self.is_killed {
            self.is_killed = true;
            self.signal(libc::SIGKILL);
        }
    }
}

/// The details of an attempt's end.
struct AttemptReport {
    /// Whether its process could report how it ended.
    is_known: bool,
    /// As in [`Ended`].
    why: Option<String>,
    unrecorded: Option<Box<RunEnd>>,
}

impl AttemptReport {
    /// For an attempt whose process was not started.
    fn unstarted(why: String) -> Self {
        Self {
            is_known: true,
            why: Some(why),
            unrecorded: None,
        }
    }
}

impl Coordinator<'_> {
    /// Starts an attempt, unless it runs already.
    pub(super) fn start(&mut self, start: Start) {
        let is_known = self.running.iter().any(|one| one.start.run == start.run);
        if is_known || self.ended.contains_key(&start.run) {
            return;
        }
        let Some(job) = self.jobs.get(start.job).cloned() else {
            return;
        };
        let name = job.name.to_string();
        // It was taken before the scheduler knew that the daemon is ending.
        if self.shutdown.has_begun() {
            let why = format!("{name}: its host takes no more ticks");
            return self.note_end(
                &job,
                &start,
                AttemptEnd::Returned,
                AttemptReport::unstarted(why),
            );
        }
        let mail = Mail::begin(&job);
        let forked = mail.and_then(|mail| {
            // A mail should only contain what went wrong.
            let shown = match mail {
                Some(_) => self.log.shown.min(Level::Warning),
                None => self.log.shown,
            };
            let log = Log { shown };
            let forked = attempt::fork_off(self.spec, &job, &start, &self.signals, log)?;
            Ok((mail.unzip(), forked))
        });
        let ((mail, text), forked) = match forked {
            Ok(forked) => forked,
            Err(error) => {
                let why = format!("cannot start a process: {}", in_words(&error));
                self.log.error(format_args!("{name}: {why}"));
                return self.note_end(
                    &job,
                    &start,
                    AttemptEnd::Unstarted,
                    AttemptReport::unstarted(why),
                );
            }
        };
        self.log.info(format_args!(
            "{name}: starting the tick {}, attempt {}",
            start.shown, start.attempt
        ));
        let sink = text.map_or(Sink::Lines(name), Sink::File);
        self.running.push(Running {
            job,
            start,
            pid: forked.pid,
            link: forked.link,
            output: Output::of_both(forked.streams, sink),
            mail,
            begun: Moment::now(),
            conclusion: None,
            stopped: None,
            is_killed: false,
        });
    }

    /// Notes how an attempt ended, until that is recorded.
    fn note_end(&mut self, job: &Job, start: &Start, end: AttemptEnd, report: AttemptReport) {
        let (delay, failures) = retry(&job.options, end, start.failures, start.unstarted_for);
        let ended = Ended {
            name: job.name.to_string(),
            tick: start.tick,
            run: start.run.clone(),
            retry: delay,
            end,
            unstarted_for: start.unstarted_for,
            failures,
            why: report.why,
            unrecorded: report.unrecorded,
            at: Moment::now(),
            failures_before: (!report.is_known).then_some(start.failures),
        };
        self.scheduler.send(ToScheduler::Ended(ended.clone()));
        self.ended.insert(ended.run.clone(), ended);
    }

    /// Handles attempts that have ended.
    pub(super) fn reap(&mut self) {
        let mut at = 0;
        while at < self.running.len() {
            if !self.running[at].has_ended() {
                at += 1;
                continue;
            }
            let mut running = self.running.swap_remove(at);
            running.output.finish(&mut self.outlets, Round::begin());
            let (end, words) = match &running.conclusion {
                Some(Conclusion {
                    end: AttemptEnd::Over,
                    words,
                    ..
                }) => (AttemptEnd::Over, words.clone()),
                // It was stopped, so this was not its own end.
                _ if running.stopped.is_some() => (AttemptEnd::Returned, "stopped".to_owned()),
                Some(conclusion) => (conclusion.end, conclusion.words.clone()),
                None => (AttemptEnd::Lost, "its process was killed".to_owned()),
            };
            self.say_end(&running, end, &words);
            let (job, start) = (Rc::clone(&running.job), running.start.clone());
            let is_known = running.conclusion.is_some();
            // This changes nothing if the attempt's own processes have recorded the end; they may have died before that.
            let may_be_open = end != AttemptEnd::Over;
            let report = AttemptReport {
                is_known,
                why: may_be_open.then(|| format!("{}: {words}", job.name)),
                unrecorded: running
                    .conclusion
                    .take()
                    .and_then(|conclusion| conclusion.unrecorded),
            };
            self.note_end(&job, &start, end, report);
            self.finish_output(running);
        }
        self.reap_mails();
        let own: Vec<Option<i32>> = self
            .running
            .iter()
            .map(|running| Some(running.pid.as_raw()))
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

    fn say_end(&self, running: &Running, end: AttemptEnd, words: &str) {
        let (name, took) = (&running.job.name, shown(running.begun.elapsed()));
        let tick = &running.start.shown;
        let (options, start) = (&running.job.options, &running.start);
        let again = match retry(options, end, start.failures, start.unstarted_for) {
            (Some(Duration::ZERO), _) => "; again at once".to_owned(),
            (Some(delay), _) => format!("; again in {}", shown(delay)),
            (None, _) => String::new(),
        };
        let line = format!(
            "{name}: the tick {tick}, attempt {}, after {took}: {words}{again}",
            running.start.attempt
        );
        if end == AttemptEnd::Over {
            self.log.info(line);
        } else {
            self.log.warning(line);
        }
    }

    /// Lets the remaining processes write on, up to a limit.
    fn finish_output(&mut self, running: Running) {
        self.lingering.push(running);
        while self.lingering.len() > MOST_LINGERING {
            let first = self.lingering.remove(0);
            self.send_mail(first);
        }
        self.end_lingering(false);
    }

    /// Forgets ended attempts that nothing can write for any more, and sends their mails. At the daemon's end: all attempts with a mail.
    pub(super) fn end_lingering(&mut self, is_last: bool) {
        let is_left = |one: &Running| one.output.is_open() && !(is_last && one.mail.is_some());
        let all = std::mem::take(&mut self.lingering).into_iter();
        let (left, over): (_, Vec<Running>) = all.partition(is_left);
        self.lingering = left;
        for one in over {
            self.send_mail(one);
        }
    }

    /// Sends the output, if it goes by mail.
    fn send_mail(&mut self, mut running: Running) {
        let (Some(mail), Sink::File(text)) = (&running.mail, &mut running.output.sink) else {
            return;
        };
        let (has_output, fault) = mail.end(text);
        if !has_output {
            return;
        }
        let (job, variables) = (running.job.name.to_string(), &self.spec.variables);
        if let Some(error) = fault {
            let why = in_words(&error);
            self.log.error(format_args!(
                "{job}: its mail does not have all of its output: {why}"
            ));
        }
        match mail::send(mail, text, job, variables, &self.signals, self.log) {
            Ok(sending) => self.mails.push(sending),
            Err(error) => self.log.error(format_args!(
                "{}: cannot send its output to {} with {}: {}",
                running.job.name,
                mail.to,
                mail.sendmail.display(),
                in_words(&error)
            )),
        }
    }
}
