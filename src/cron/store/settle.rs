//! Settles ticks: moves the job's row forward, and records which tick runs, waits or is skipped, all in one transaction.

use super::entry::{DaemonFacts, JobRow, SettleStep};
use super::publish::read_job;
use super::statements::text;
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
        let text = text(self.tables);
        let mut statements = vec!["BEGIN".to_owned()];
        for step in &self.steps {
            statements.extend(text.settle(step, self.daemon));
        }
        statements.push("COMMIT".to_owned());
        let names: Vec<&str> = self.steps.iter().map(|step| &*step.job.name).collect();
        statements.push(text.settled(&names));
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
        settle.if_it_takes_writes(self.tables.kind())
    }
}
