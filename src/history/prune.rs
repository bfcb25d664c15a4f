//! Pruning: now and then a run takes a few old ones along, of its own name and of another one, which may never run again. So the
//! history stays as long as `dblock init --keep` says, and nobody ever has to delete much at once.

use std::time::Duration;

use super::Journal;
use crate::db::{Fault, Row, Session, Statement, text_literal};
use crate::schema::Tables;

/// Rows of a name that are deleted at most. With two names, and one run in so many, that is more than are added meanwhile.
const BATCH: usize = 50;

/// How long the server may take for each answer: no run waits for long because of those before it.
pub(super) const LIMIT: Duration = Duration::from_millis(500);

/// One in so many runs removes what is too old.
const PRUNES_ONE_IN: u32 = 16;

impl Journal {
    /// Removes what is too old from the history, now and then.
    pub fn prune_now_and_then(&self, session: &mut Session) {
        let is_chosen = getrandom::u32().is_ok_and(|chance| chance % PRUNES_ONE_IN == 0);
        if is_chosen {
            let _ = self.prune(session, LIMIT);
        }
    }

    /// Deletes some runs of this name and of another that are older than the history is kept, but none of the newest that are kept in
    /// any case, and none that has not ended and is not a day old. It waits for nobody's lock but that of a row which it deletes, and
    /// no longer than the `limit` for any answer: the session may be of no use afterwards.
    ///
    /// # Errors
    /// Those of a statement. Nothing is lost by them: the next run deletes the same.
    pub fn prune(&self, session: &mut Session, limit: Duration) -> Result<(), Fault> {
        let limited = session.answer_within(limit);
        limited.map_err(|error| Fault::Gone(error.to_string()))?;
        let Some(keep) = session.run(&AskKeep(&self.tables))? else {
            return Ok(());
        };
        self.prune_name(&self.facts.name, keep, session)?;
        let another = session.run(&AskAnyName(&self.tables))?;
        match another.filter(|name| *name != self.facts.name) {
            Some(name) => self.prune_name(&name, keep, session),
            None => Ok(()),
        }
    }

    fn prune_name(&self, name: &str, keep: Kept, session: &mut Session) -> Result<(), Fault> {
        let tables = &self.tables;
        let old = session.run(&AskOld { tables, name, keep })?;
        if old.is_empty() {
            return Ok(());
        }
        let runs = &old;
        session.run(&Delete { tables, runs })
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

/// Asks for the name of one run by chance: one that has many comes often, and the names that never run again come too.
struct AskAnyName<'a>(&'a Tables);

impl Statement for AskAnyName<'_> {
    type Answer = Option<String>;

    fn sql(&self) -> String {
        // A run's number is one by chance.
        let chance = getrandom::u64().unwrap_or_default();
        format!(
            "/* dblock any name */ SELECT name FROM {} WHERE run >= '{chance:016x}' ORDER BY run LIMIT 1",
            self.0.runs()
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.first().map_or(Ok(None), |row| row.text(0))
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
