//! Settles ticks: moves the job's row forward, and records which tick runs, waits or is skipped, all in one transaction.

use super::super::rules::Fate;
use super::entry::{DaemonFacts, JobRow, SettleStep};
use super::publish::read_job;
use super::statements::{Names, text};
use crate::db::{Batch, batch};
use crate::schema::Tables;

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

impl Settle<'_> {
    /// The server's time, and the results of the steps.
    pub fn batch(&self) -> Batch<'static, (i64, Vec<Settled>)> {
        let names = Names::of(self.tables);
        let words = names.words;
        let mut statements = vec!["BEGIN".to_owned()];
        for step in &self.steps {
            statements.extend(self.settle(step, &names));
        }
        statements.push("COMMIT".to_owned());
        statements.push(format!(
            "SELECT {} AS server_time, change_id, {} FROM {} WHERE name IN ({})",
            words.micros(words.now()),
            names.job_columns(),
            names.jobs,
            words.literals(self.steps.iter().map(|step| &step.job.name))
        ));
        let settle = batch("cron take", statements).read_last(|rows| {
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
        });
        settle.if_it_takes_writes(words)
    }

    /// Settles ticks of one job: its row gets the step's id if that was done, and what follows is done only then. With
    /// [`is_alone`](crate::cron::Settlement::is_alone) no tick of the job may have a row.
    fn settle(&self, step: &SettleStep, names: &Names) -> Vec<String> {
        let Names {
            words,
            jobs,
            ticks,
            runs,
            ..
        } = names;
        let (text, daemon) = (text(self.tables), self.daemon);
        let (settlement, job, now) = (step.settlement, step.job, words.now());
        let [name, id, schedule, zone] =
            [&job.name, step.id, &job.schedule, &job.zone].map(|text| words.literal(text));
        let from = words.moment(settlement.from);
        let (change, condition) = if settlement.is_trigger {
            (
                format!("triggered_at = NULL, changed_at = {now}"),
                format!("triggered_at = {from}"),
            )
        } else {
            (
                format!(
                    "settled_at = {}, next_at = {}",
                    words.moment(settlement.settled),
                    words.optional_moment(settlement.next)
                ),
                format!("next_at = {from} AND next_at <= {now} AND paused_at IS NULL"),
            )
        };
        let (mut statements, mut alone) = (Vec::new(), String::new());
        if settlement.is_alone {
            statements.extend(text.before_alone(&job.name));
            alone = format!(" AND NOT EXISTS (SELECT 1 FROM {ticks} t WHERE t.name = {name})");
        }
        statements.push(format!(
            "UPDATE {jobs} SET change_id = {id}, {change} WHERE name = {name} AND {condition} AND schedule = {schedule} \
             AND zone = {zone}{alone}"
        ));
        let if_done = format!("FROM {jobs} WHERE name = {name} AND change_id = {id}");
        for (id, tick, message) in step.skips() {
            statements.push(format!(
                "INSERT INTO {runs} ({}, ended_at, outcome, message) SELECT {}, {} {if_done}",
                names.run_columns(),
                names.run(&id, (&job.name, tick), "1", daemon, &step.program),
                names.skipped(&message)
            ));
        }
        let insert = |tick: i64, attempt: u8, daemon: &str| {
            format!(
                "INSERT INTO {ticks} (name, tick, run, attempt, daemon, ttl_seconds) SELECT name, {}, {id}, {attempt}, {daemon}, {} {if_done} {}",
                words.moment(tick),
                step.ttl,
                text.unless_there()
            )
        };
        match settlement.fate {
            None => {}
            Some(Fate::Wait(tick)) => statements.push(insert(tick, 0, "NULL")),
            Some(Fate::Run(tick)) => {
                statements.push(insert(tick, 1, &words.literal(&daemon.id)));
                statements.push(format!(
                    "INSERT INTO {runs} ({}) SELECT {} {if_done}",
                    names.run_columns(),
                    names.run(step.id, (&job.name, tick), "1", daemon, &step.program)
                ));
            }
        }
        statements
    }
}
