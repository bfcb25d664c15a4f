//! Settles ticks: moves the job's row forward, and records which tick runs, waits or is skipped, all in one transaction.

use super::super::rules::{Fate, Settlement};
use super::JobRow;
use super::daemons::{DaemonFacts, RUN};
use super::publish::{Definition, job_columns, read_job};
use crate::base::text::printable;
use crate::db::sql::{moment, now_micros, optional_moment, text_literals};
use crate::db::{Batch, batch, text_literal};
use crate::history::Outcome;
use crate::schema::{CRON_JOBS, CRON_TICKS, RUNS, Tables};

/// The settlement of one job's ticks.
pub struct SettleStep<'a> {
    /// The job.
    pub job: &'a Definition,
    /// Shows a tick as text, in the job's zone.
    pub shown: Box<dyn Fn(i64) -> String + 'a>,
    /// The settlement.
    pub settlement: &'a Settlement,
    /// A new id, which is also that of the run, if a tick runs.
    pub id: &'a str,
    /// The program that will start.
    pub program: String,
    /// How long a daemon must be silent before another one takes over, in seconds.
    pub ttl: u64,
}

/// Settles the ticks of several jobs in one transaction.
pub struct Settle<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon that settles them.
    pub daemon: &'a DaemonFacts,
    /// The settlements, in the order of the jobs' names.
    pub steps: Vec<SettleStep<'a>>,
}

/// The result of a step.
#[derive(Debug)]
pub struct Settled {
    /// The job.
    pub name: String,
    /// The job's row afterwards.
    pub row: JobRow,
    /// The id of the step that changed it last.
    pub changed_by: Option<String>,
}

/// The values for the columns [`RUN`].
pub(super) fn run(
    id: &str,
    name: &str,
    tick: i64,
    attempt: &str,
    daemon: &DaemonFacts,
    program: &str,
) -> String {
    [
        text_literal(id),
        text_literal(name),
        moment(tick),
        attempt.to_owned(),
        RUNS.literal("host", &daemon.host),
        daemon.pid.to_string(),
        RUNS.literal("user", &daemon.user),
        RUNS.literal("program", &printable(program)),
        "UTC_TIMESTAMP(6)".to_owned(),
    ]
    .join(", ")
}

impl Settle<'_> {
    fn of_step(&self, step: &SettleStep) -> Vec<String> {
        let [jobs, ticks, runs] = [CRON_JOBS, CRON_TICKS, RUNS].map(|table| self.tables.of(&table));
        let SettleStep {
            settlement, job, ..
        } = step;
        let [name, id, schedule, zone] =
            [&job.name, step.id, &job.schedule, &job.zone].map(text_literal);
        let (change, condition) = if settlement.is_trigger {
            (
                "triggered_at = NULL, changed_at = UTC_TIMESTAMP(6)".to_owned(),
                format!("triggered_at = {}", moment(settlement.from)),
            )
        } else {
            (
                format!(
                    "settled_at = {}, next_at = {}",
                    moment(settlement.settled),
                    optional_moment(settlement.next)
                ),
                format!(
                    "next_at = {} AND next_at <= UTC_TIMESTAMP(6) AND paused_at IS NULL",
                    moment(settlement.from)
                ),
            )
        };
        let alone = if settlement.is_alone {
            format!(" AND NOT EXISTS (SELECT 1 FROM {ticks} t WHERE t.name = {name})")
        } else {
            String::new()
        };
        let mut statements = vec![format!(
            "UPDATE {jobs} SET change_id = {id}, {change} WHERE name = {name} AND {condition} AND schedule = {schedule} \
             AND zone = {zone}{alone}"
        )];
        let if_done = format!("FROM {jobs} WHERE name = {name} AND change_id = {id}");
        for (number, skip) in settlement.skips.iter().enumerate() {
            let of_skip = format!("{:.30}{number:02x}", step.id);
            let message = skip.why.words(skip, &*step.shown);
            statements.push(format!(
                "INSERT INTO {runs} ({RUN}, ended_at, outcome, message) SELECT {}, UTC_TIMESTAMP(6), {}, {} {if_done}",
                run(&of_skip, &job.name, skip.ticks.1, "1", self.daemon, &step.program),
                text_literal(Outcome::Skipped.word()),
                RUNS.literal("message", &format!("{}: {message}", job.name)),
            ));
        }
        let insert = |tick: i64, attempt: u8, daemon: &str| {
            format!(
                "INSERT INTO {ticks} (name, tick, run, attempt, daemon, ttl_seconds) SELECT name, {}, {id}, {attempt}, {daemon}, {} {if_done} \
                 ON DUPLICATE KEY UPDATE attempt = {ticks}.attempt",
                moment(tick),
                step.ttl
            )
        };
        match settlement.fate {
            None => {}
            Some(Fate::Wait(tick)) => statements.push(insert(tick, 0, "NULL")),
            Some(Fate::Run(tick)) => {
                statements.push(insert(tick, 1, &text_literal(&self.daemon.id)));
                statements.push(format!(
                    "INSERT INTO {runs} ({RUN}) SELECT {} {if_done}",
                    run(step.id, &job.name, tick, "1", self.daemon, &step.program)
                ));
            }
        }
        statements
    }
}

impl Settle<'_> {
    /// The server's time, and the results of the steps.
    pub fn batch(&self) -> Batch<'static, (i64, Vec<Settled>)> {
        let mut statements = vec!["BEGIN".to_owned()];
        for step in &self.steps {
            statements.extend(self.of_step(step));
        }
        statements.push("COMMIT".to_owned());
        let names = text_literals(self.steps.iter().map(|step| &step.job.name));
        statements.push(format!(
            "SELECT {} AS server_time, change_id, {} FROM {} WHERE name IN ({})",
            now_micros(),
            job_columns(),
            self.tables.of(&CRON_JOBS),
            names
        ));
        batch("cron take", statements).read_last(|rows| {
            let mut now = 0;
            let settled = rows.all(|row| {
                now = row.get("server_time")?;
                let changed_by = row.get("change_id")?;
                let (name, row) = read_job(row)?;
                Ok(Settled {
                    name,
                    row,
                    changed_by,
                })
            })?;
            Ok((now, settled))
        })
    }
}
