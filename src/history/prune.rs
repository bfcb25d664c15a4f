//! Pruning: each run takes a few old ones of its name along, so that the history stays as long as `dblock init --keep` says, and nobody
//! ever has to delete much at once.

use super::Journal;
use crate::db::{Fault, Row, Session, Statement, text_literal};
use crate::schema::Tables;

/// Rows that are deleted at most.
const BATCH: usize = 50;

impl Journal {
    /// Deletes some runs of this name that are older than the history is kept, but none of the newest that are kept in any case, and
    /// none that has not ended and is not a day old. It waits for nobody's lock but that of a row which it deletes.
    ///
    /// # Errors
    /// Those of a statement. Nothing is lost by them: the next run deletes the same.
    pub fn prune(&self, session: &mut Session) -> Result<(), Fault> {
        let Some(keep) = session.run(&AskKeep(&self.tables))? else {
            return Ok(());
        };
        let old = session.run(&AskOld {
            tables: &self.tables,
            name: &self.facts.name,
            keep,
        })?;
        if old.is_empty() {
            return Ok(());
        }
        session.run(&Delete {
            tables: &self.tables,
            runs: &old,
        })
    }
}

/// How long the history is kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    seconds: u64,
    /// But at least so many of each name.
    runs: u64,
}

/// Asks for it.
struct AskKeep<'a>(&'a Tables);

impl Statement for AskKeep<'_> {
    type Answer = Option<Kept>;

    fn sql(&self) -> String {
        format!(
            "/* dblock keep */ SELECT keep_seconds, keep_runs FROM {} WHERE id = 1",
            self.0.meta()
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        Ok(row
            .get(0)?
            .zip(row.get(1)?)
            .map(|(seconds, runs)| Kept { seconds, runs }))
    }
}

/// The numbers of the oldest runs that need not be kept. It locks none of them, as a `DELETE` that looks for them would.
struct AskOld<'a> {
    tables: &'a Tables,
    name: &'a str,
    keep: Kept,
}

impl Statement for AskOld<'_> {
    type Answer = Vec<String>;

    const MOST_ROWS: usize = BATCH;

    fn sql(&self) -> String {
        let (runs, name) = (self.tables.runs(), text_literal(self.name));
        let Kept {
            seconds,
            runs: least,
        } = self.keep;
        format!(
            "/* dblock old runs */ SELECT run FROM {runs} WHERE name = {name} \
             AND requested_at < UTC_TIMESTAMP(6) - INTERVAL {seconds} SECOND \
             AND requested_at < (SELECT requested_at FROM {runs} WHERE name = {name} ORDER BY requested_at DESC LIMIT 1 OFFSET {}) \
             AND (ended_at IS NOT NULL OR requested_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY) ORDER BY requested_at LIMIT {BATCH}",
            least.saturating_sub(1)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let mut runs = Vec::new();
        for row in rows {
            runs.extend(row.text(0)?);
        }
        Ok(runs)
    }
}

/// Deletes runs, by their primary key alone.
struct Delete<'a> {
    tables: &'a Tables,
    runs: &'a [String],
}

impl Statement for Delete<'_> {
    type Answer = ();

    fn sql(&self) -> String {
        let runs = self.runs.iter().map(|run| text_literal(run));
        let runs = runs.collect::<Vec<_>>().join(", ");
        format!(
            "/* dblock prune */ DELETE FROM {} WHERE run IN ({runs})",
            self.tables.runs()
        )
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}
