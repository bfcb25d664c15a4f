//! How long the history and the rows of unused names are kept, and how and how much one pruning run deletes.

use crate::db::{Batch, Fault, Kind, Session, command, named};

/// How long the history is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) seconds: u64,
    /// At least this many runs of each name are kept.
    pub(super) runs: u64,
}

/// The most rows of each kind that are deleted by one pruning run: more than are added between two prunings.
pub(super) const BATCH: usize = 50;

/// The number of consecutive rows, from a random one on, that are checked for unused names. If about every tenth row is unused, as many
/// are deleted as are added.
pub(super) const WINDOW: usize = 200;

/// Goes behind the table that rows are read from by their primary key on. Otherwise MySQL reads all rows before them if its statistics
/// say that the table is small; a busy server's statistics are late.
pub(super) const BY_KEY: &str = "FORCE INDEX (PRIMARY)";

/// The start of the time that is kept: rows that were not used since then are deleted.
pub(super) fn limit_of_age(kind: Kind, keep: Kept) -> String {
    kind.seconds_ago(keep.seconds)
}

/// Runs statements that delete a row each, by its primary key, in one transaction. One statement with all these keys would read and lock
/// the whole table if the server's statistics said that it was small.
///
/// # Errors
/// Those of a statement. Then no row is deleted.
pub(super) fn delete_rows(statements: Vec<String>, session: &mut Session) -> Result<(), Fault> {
    if statements.is_empty() {
        return Ok(());
    }
    let begin = std::iter::once(named("prune", "START TRANSACTION"));
    let all = begin.chain(statements).chain([named("prune", "COMMIT")]);
    match session.run_batch(&Batch::written(all.collect())) {
        // Do not leave the rest of the transaction open, as others would wait for it.
        Err(fault) if !matches!(fault, Fault::Gone(_)) => {
            session.run(&command("prune", "ROLLBACK"))?;
            Err(fault)
        }
        done => done,
    }
}
