//! How long the history and the rows of unused names are kept, and how and how much one pruning run deletes.

use crate::base::clock::chance_below;
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

/// The number of consecutive rows, from a random time or key on, that are checked for unused names. If about every tenth row is unused, as
/// many are deleted as are added.
pub(super) const WINDOW: usize = 200;

/// Goes behind the table that rows are read from by their primary key on. Otherwise MySQL reads all rows before them if its statistics
/// say that the table is small; a busy server's statistics are late.
pub(super) const BY_KEY: &str = "FORCE INDEX (PRIMARY)";

/// The start of the time that is kept: rows that were not used since then are deleted.
pub(super) fn limit_of_age(kind: Kind, keep: Kept) -> String {
    kind.seconds_ago(keep.seconds)
}

/// A random time from the oldest one to the last one, in whole units. Half of the time it is anywhere between them, and otherwise nearer to
/// the last one, at any scale: a row that is far older than all others does not hide these.
pub(super) fn some_time(oldest: i64, last: i64) -> i64 {
    let span = u64::try_from(last.saturating_sub(oldest)).unwrap_or_default();
    let scale = chance_below(2) * chance_below(16);
    let most = span >> scale;
    let back = getrandom::u64().unwrap_or_default() % (most + 1);
    last.saturating_sub_unsigned(back)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_time_is_anywhere_also_where_one_row_is_far_older() {
        let (oldest, last) = (1_000_000, 2_000_000);
        let times: Vec<i64> = (0..2000).map(|_| some_time(oldest, last)).collect();
        assert!(times.iter().all(|time| (oldest..=last).contains(time)));
        for part in [
            oldest..oldest + 200_000,
            oldest + 400_000..oldest + 600_000,
            last - 1000..last,
        ] {
            assert!(times.iter().any(|time| part.contains(time)), "{part:?}");
        }
        assert_eq!(some_time(last, last), last);
        // The clock was set back.
        assert_eq!(some_time(last, oldest), oldest);
    }
}
