//! The report of a run: one line of JSON, for `--report` and for the commands that are run at its end. `docs/report.schema.json` describes
//! it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::unistd::{gethostname, getpid};
use serde::Serialize;
use serde_json::Value;

use super::environment::{Change, change};
use super::record::{LockEvent, RunRecord};
use crate::base::text::{json_printable, moment, seconds};
use crate::base::user::local_user;
use crate::cron::tick_in_micros;
use crate::history::{Outcome, RunEnd};

/// Longest line in bytes, without its end, so that a pipe takes it at once: `PIPE_BUF`.
const LONGEST_LINE: usize = 4095;

/// Longest text in characters. It is halved until the line is short enough.
const LONGEST_TEXT: usize = 400;

/// A run that is reported.
pub struct ReportedRun<'a> {
    /// The lock, or the queue.
    pub name: String,
    /// The names of the slots, in their order; empty where they have none.
    pub slot_names: &'a [String],
    /// The command's program, without folder and arguments.
    pub program: String,
    /// When the lock was requested, by this host's clock.
    pub requested: SystemTime,
    pub record: &'a RunRecord,
    /// How it ended.
    pub end: RunEnd,
    /// The number of the attempt, from 1, of a tick or a job of a queue; `None`: it is neither.
    pub attempt: Option<u32>,
    /// The jobs of the queue that the command was for; none where it was for no queue.
    pub jobs: Vec<u64>,
}

/// What is reported of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    name: String,
    slot: Option<u32>,
    slot_name: Option<String>,
    fence: Option<u64>,
    tick: Option<String>,
    attempt: Option<u32>,
    /// Whether another attempt follows, of the tick or the job.
    pub will_retry: bool,
    jobs: Vec<u64>,
    host: String,
    pid: i32,
    user: String,
    program: String,
    server: Option<String>,
    connection: Option<u64>,
    requested: String,
    acquired: Option<String>,
    started: Option<String>,
    ended: Option<String>,
    waited_seconds: f64,
    ran_seconds: Option<f64>,
    outcome: &'static str,
    exit_code: Option<u8>,
    signal: Option<String>,
    lock_events: Vec<LockEvent>,
    lock_events_omitted: u32,
    message: Option<String>,
    dblock_version: &'static str,
}

impl Report {
    /// The report of this run. No attempt follows, as far as it says.
    pub fn of(run: ReportedRun) -> Self {
        let host = gethostname().unwrap_or_default();
        let record = run.record;
        let slot = record.grant.map(|grant| grant.slot);
        let slot_name = slot.and_then(|slot| run.slot_names.get(slot as usize));
        let end = run.end;
        Self {
            name: run.name,
            slot,
            slot_name: slot_name.cloned(),
            fence: record.grant.and_then(|grant| grant.fence),
            tick: record.tick.as_deref().and_then(tick_moment),
            attempt: run.attempt,
            will_retry: false,
            jobs: run.jobs,
            host: host.to_string_lossy().into_owned(),
            pid: getpid().as_raw(),
            user: local_user(),
            program: run.program,
            server: record.server.clone(),
            connection: record.grant.map(|grant| grant.connection_id),
            requested: moment(run.requested),
            acquired: record.acquired.map(moment),
            started: record.started.map(moment),
            ended: record.command_end.map(|end| moment(end.at)),
            waited_seconds: seconds(record.waited),
            ran_seconds: record.command_end.map(|end| seconds(end.ran)),
            outcome: end.outcome.word(),
            exit_code: end.exit_code,
            signal: end.signal,
            lock_events: record.lock.events.clone(),
            lock_events_omitted: record.lock.omitted,
            message: end.message,
            dblock_version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// The lock, or the queue.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The line, with its end. Its texts are as long as they fit.
    pub fn line(&self) -> String {
        let whole = serde_json::to_value(self).unwrap_or_default();
        let mut longest = LONGEST_TEXT;
        loop {
            let mut cut = whole.clone();
            shorten(&mut cut, longest);
            let line = json_printable(&cut.to_string());
            if line.len() <= LONGEST_LINE || longest == 0 {
                return line + "\n";
            }
            longest /= 2;
        }
    }

    /// Whether the run failed, was lost or timed out; `None`: it did not take place.
    pub fn has_failed(&self) -> Option<bool> {
        let of = |outcome: Outcome| self.outcome == outcome.word();
        if of(Outcome::Skipped) || of(Outcome::Interrupted) || of(Outcome::Released) {
            return None;
        }
        Some(!of(Outcome::Ran) || self.exit_code != Some(0))
    }

    /// The variables that say how the run ended.
    pub fn variables(&self) -> Vec<Change> {
        let exit_code = self.exit_code.map(|code| code.to_string());
        let retries = self
            .attempt
            .is_some()
            .then_some(if self.will_retry { "yes" } else { "no" });
        [
            ("DBLOCK_NAME", Some(&*self.name)),
            ("DBLOCK_RESULT", Some(self.outcome)),
            ("DBLOCK_EXIT_CODE", exit_code.as_deref()),
            ("DBLOCK_SIGNAL", self.signal.as_deref()),
            ("DBLOCK_WILL_RETRY", retries),
        ]
        .map(|(name, value)| change(name, value))
        .to_vec()
    }
}

/// Cuts the long texts to so many characters.
fn shorten(report: &mut Value, longest: usize) {
    let cut = |text: &mut Value| {
        if let Value::String(text) = text {
            *text = text.chars().take(longest).collect();
        }
    };
    for name in ["program", "server", "message"] {
        cut(&mut report[name]);
    }
    for event in report["lock_events"].as_array_mut().into_iter().flatten() {
        cut(&mut event["detail"]);
    }
}

/// A tick, as a moment in the report.
fn tick_moment(tick: &str) -> Option<String> {
    let micros = u64::try_from(tick_in_micros(tick)?).ok()?;
    Some(moment(UNIX_EPOCH + Duration::from_micros(micros)))
}
