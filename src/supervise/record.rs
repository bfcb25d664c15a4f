//! What happened to a run and its lock, for the report.

use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use serde::Serialize;

use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::text::{moment, shown};
use crate::history::{Outcome, RunEnd};
use crate::isolated::link::cut;
use crate::lock::Grant;

/// The number of events that are kept. A server that restarts all night causes more.
const MOST_EVENTS: usize = 10;

/// How a run ended, if not with an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunOutcome {
    /// The command ended by itself.
    #[default]
    Ran,
    /// The `--timeout` was over, and dblock ended the command.
    TimedOut,
    /// The lock was not acquired in time.
    Skipped,
    /// A signal ended the wait for the lock.
    Interrupted,
}

/// What happened to the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LockEventKind {
    /// The session was lost, and with it the lock.
    Lost,
    /// It was reacquired.
    Reacquired,
    /// It was not, or cannot be, reacquired.
    Abandoned,
    /// Somebody killed the holder (`dblock kill`).
    Killed,
}

/// Something that happened to the lock, as the report has it.
#[derive(Debug, Clone, Serialize)]
pub struct LockEvent {
    /// When, by this host's clock.
    at: String,
    #[serde(rename = "event")]
    pub kind: LockEventKind,
    /// Why, by whom, or after how long.
    detail: String,
}

/// The signal's name, or its number: a real-time signal has no name.
fn name_of(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| signal.to_string(), |signal| signal.to_string())
}

/// What happened to the lock of a run.
#[derive(Debug, Default)]
pub struct LockHistory {
    pub events: Vec<LockEvent>,
    /// The number of events that were not kept.
    pub omitted: u32,
    lost: Option<Moment>,
    /// Whether somebody kills the holder, which has not reacquired it since.
    is_killed: bool,
    /// Whether anybody killed it at all.
    was_killed: bool,
    /// Why the lock is lost, or may be; `None`: it is not lost.
    loss: Option<String>,
}

/// The end of a command.
#[derive(Debug, Clone, Copy)]
pub struct CommandEnd {
    /// When, by this host's clock.
    pub at: SystemTime,
    moment: Moment,
    ending: Ending,
    /// How long it ran.
    pub ran: Duration,
}

/// What happened so far.
#[derive(Debug)]
pub struct RunRecord {
    /// When the lock was requested.
    pub requested: Moment,
    /// The server that was reached last.
    pub server: Option<String>,
    /// The slot that was acquired, and the first session that held it.
    pub grant: Option<Grant>,
    /// When it was acquired.
    pub acquired: Option<SystemTime>,
    /// How long it took to acquire the lock, or until the request failed.
    pub waited: Duration,
    /// When the command was started.
    pub started: Option<SystemTime>,
    /// How the command ended; its processes in the background may run on.
    pub command_end: Option<CommandEnd>,
    pub outcome: RunOutcome,
    /// The line of a skip.
    pub message: Option<String>,
    /// What happened to the lock.
    pub lock: LockHistory,
    /// The report's destination if it must stay open when stdout is closed; `None` for a file.
    pub report_output: Option<OwnedFd>,
    /// The tick that the run is for, as text.
    pub tick: Option<String>,
    /// Whether dblock ends the command because it ends itself. Then a failure does not count as the command's own.
    pub is_interrupted: bool,
}

impl RunRecord {
    /// The record of a run that begins now.
    pub fn begin() -> Self {
        Self {
            requested: Moment::now(),
            server: None,
            grant: None,
            acquired: None,
            waited: Duration::ZERO,
            started: None,
            command_end: None,
            outcome: RunOutcome::default(),
            message: None,
            lock: LockHistory::default(),
            report_output: None,
            is_interrupted: false,
            tick: None,
        }
    }

    /// The wait for the lock is over.
    pub fn end_wait(&mut self) {
        self.waited = self.requested.elapsed();
    }

    /// The command, which was `started` at this moment, has ended. Returns how long it ran.
    pub fn end_command(&mut self, started: Moment, ending: Ending) -> Duration {
        let ran = started.elapsed();
        self.command_end = Some(CommandEnd {
            at: SystemTime::now(),
            moment: Moment::now(),
            ending,
            ran,
        });
        ran
    }

    /// The lock is acquired, or reacquired.
    pub fn hold(&mut self, grant: Grant) {
        if self.grant.is_none() {
            self.grant = Some(grant);
            self.acquired = Some(SystemTime::now());
            return;
        }
        let lost = self.lock.lost.take();
        let span = lost.map(Moment::elapsed).unwrap_or_default();
        let connection = grant.connection_id;
        let detail = format!("after {}, on connection {connection}", shown(span));
        self.add(LockEventKind::Reacquired, &detail);
    }

    /// The end of a run that ended with this `exit` of dblock's own. The signal is that of which the command died, or which ended dblock's
    /// wait, and the message the line of a skip or an error.
    pub fn summary(&self, exit: Result<Ending, &anyhow::Error>) -> RunEnd {
        let reason = exit.err().map(|error| {
            let failure = error.downcast_ref::<Failure>();
            failure.map_or(Reason::Internal, |failure| failure.reason)
        });
        let exit_code = match (exit, reason) {
            (Ok(Ending::Code(code)), _) => code,
            (Ok(Ending::Signal(signal)), _) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
            (Err(_), reason) => reason.unwrap_or(Reason::Internal).code(),
        };
        let outcome = match (reason, self.outcome) {
            (Some(Reason::LockLost), _) => Outcome::Lost,
            (Some(_), _) => Outcome::Failed,
            (None, RunOutcome::Ran | RunOutcome::TimedOut)
                if self.is_interrupted && exit_code != 0 =>
            {
                Outcome::Interrupted
            }
            (None, RunOutcome::Ran) => Outcome::Ran,
            (None, RunOutcome::TimedOut) => Outcome::TimedOut,
            (None, RunOutcome::Skipped) => Outcome::Skipped,
            (None, RunOutcome::Interrupted) => Outcome::Interrupted,
        };
        let signal = match (self.command_end.map(|end| end.ending), exit) {
            (Some(Ending::Signal(signal)), _) | (None, Ok(Ending::Signal(signal))) => {
                Some(name_of(signal))
            }
            _ => None,
        };
        let message = exit.err().map(|error| format!("{error:#}"));
        let ended_ago = self.command_end.map(|end| end.moment.elapsed());
        RunEnd {
            succeeded: outcome == Outcome::Ran && exit_code == 0,
            outcome,
            exit_code: Some(exit_code),
            signal,
            ran: self.command_end.map(|end| end.ran),
            ended_ago: ended_ago.unwrap_or_default(),
            message: message.or_else(|| self.message.clone()),
        }
    }

    /// As [`RunRecord::summary`], with why the lock was lost: what the history records.
    pub fn run_end(&self, exit: Result<Ending, &anyhow::Error>) -> RunEnd {
        let end = self.summary(exit);
        let message = self.with_loss(end.outcome, end.message);
        RunEnd {
            message: message.map(|message| cut(&message)),
            ..end
        }
    }

    /// The last message, together with the reason for the loss, even if the command ran on without the lock.
    fn with_loss(&self, outcome: Outcome, message: Option<String>) -> Option<String> {
        let Some(loss) = &self.lock.loss else {
            return message;
        };
        Some(match (outcome, message) {
            (Outcome::Lost, Some(line)) => format!("{line}: {loss}"),
            (_, Some(line)) => format!("{line}; the lock was lost while the command ran: {loss}"),
            (_, None) => format!("the lock was lost while the command ran: {loss}"),
        })
    }

    /// Notes why the lock is lost: the first cause or the killer, and why it was not reacquired where that was tried.
    fn note_loss(&mut self, kind: LockEventKind, detail: &str) {
        let is_durable = self.grant.is_some_and(|grant| grant.fence.is_some());
        let lock = &mut self.lock;
        lock.loss = match (kind, lock.loss.take()) {
            // Whoever is killed ends all the same.
            (LockEventKind::Reacquired, loss) => loss.filter(|_| lock.was_killed),
            (LockEventKind::Killed, _) => Some(format!("ended {detail}")),
            (LockEventKind::Abandoned, Some(cause)) if !is_durable => {
                Some(format!("{cause}; {detail}"))
            }
            (_, Some(cause)) => Some(cause),
            (_, None) => Some(detail.to_owned()),
        };
    }

    /// The lock was lost.
    pub fn lose(&mut self, cause: &str) {
        self.lock.lost.get_or_insert_with(Moment::now);
        self.add(LockEventKind::Lost, cause);
    }

    /// Records something that happened to the lock. If a session is lost while the command of a killed holder ends, the kill is found again
    /// on the next one: that is no other event.
    pub fn add(&mut self, kind: LockEventKind, detail: &str) {
        self.note_loss(kind, detail);
        let is_known = self.lock.is_killed;
        match kind {
            LockEventKind::Killed => (self.lock.is_killed, self.lock.was_killed) = (true, true),
            LockEventKind::Reacquired => self.lock.is_killed = false,
            LockEventKind::Lost | LockEventKind::Abandoned => {}
        }
        if is_known && kind == LockEventKind::Killed {
            return;
        }
        if self.lock.events.len() == MOST_EVENTS {
            self.lock.omitted += 1;
            return;
        }
        self.lock.events.push(LockEvent {
            at: moment(SystemTime::now()),
            kind,
            detail: detail.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_was_ended_by_its_killer_also_if_its_lock_is_reacquired_meanwhile() {
        let mut record = RunRecord::begin();
        record.add(LockEventKind::Killed, "by a@b");
        for _ in 0..2 {
            record.lose("the server is read-only");
            record.add(LockEventKind::Reacquired, "after 1s");
        }
        assert_eq!(record.lock.loss.as_deref(), Some("ended by a@b"));
    }

    #[test]
    fn a_lock_that_is_reacquired_is_not_lost() {
        let mut record = RunRecord::begin();
        record.lose("the server has gone away");
        record.add(LockEventKind::Reacquired, "after 1s");
        assert_eq!(record.lock.loss, None);
    }
}
