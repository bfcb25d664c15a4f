//! Deletes the rows of locks and successes that nobody has used for as long as the history is kept. Without this there would be a row for
//! each name that was ever used.

use super::kept::{BATCH, Kept, WINDOW, limit_of_age};
use crate::db::{Batch, Fault, Plain, Reply, Row, Session, Statement, text_literal};
use crate::schema::{OLDER_FENCE, Tables};

/// Deletes some of the unused rows from this name on, in the order of names.
///
/// # Errors
/// Those of a statement. Nothing is lost by them.
pub(super) fn prune(
    tables: &Tables,
    start: &str,
    keep: Kept,
    session: &mut Session,
) -> Result<(), Fault> {
    let rows = session.run(&AskRows {
        tables,
        start,
        keep,
    })?;
    if !rows.is_empty() {
        let delete = DeleteRows {
            tables,
            rows: &rows,
            keep,
        };
        match session.run_batch(&delete) {
            // Do not leave the rest of the transaction open, as others would wait for it.
            Err(fault) if !matches!(fault, Fault::Gone(_)) => {
                session.run(&Plain("/* dblock prune */ ROLLBACK".to_owned()))?;
                return Err(fault);
            }
            done => done?,
        }
    }
    let names = session.run(&AskSuccesses {
        tables,
        start,
        keep,
    })?;
    if names.is_empty() {
        return Ok(());
    }
    session.run_batch(&DeleteSuccesses {
        tables,
        names: &names,
        keep,
    })
}

/// A slot's row, with its fence.
struct Unused {
    name: String,
    slot: u32,
    fence: u64,
}

/// The condition that a slot's row has no owner, or one that died long ago, and that nobody has used it or asked to kill its holder
/// since. A row from an older dblock is kept: if it were deleted, that dblock would begin its fences there again.
fn is_unused(keep: Kept) -> String {
    let age = limit_of_age(keep);
    let moments = [
        "renewed_at",
        "expires_at",
        "command_until",
        "kill_requested_at",
    ];
    let are_old = moments.map(|moment| format!("IFNULL({moment} < {age}, TRUE)"));
    format!("fence < {OLDER_FENCE} AND {}", are_old.join(" AND "))
}

/// Reads the unused rows. It locks none of them, as a searching `DELETE` would.
struct AskRows<'a> {
    tables: &'a Tables,
    start: &'a str,
    keep: Kept,
}

impl Statement for AskRows<'_> {
    type Answer = Vec<Unused>;

    const MOST_ROWS: usize = BATCH;

    fn sql(&self) -> String {
        format!(
            "/* dblock unused rows */ SELECT name, slot, fence FROM (SELECT name, slot, fence, renewed_at, expires_at, command_until, \
             kill_requested_at FROM {} WHERE name >= {} ORDER BY name, slot LIMIT {WINDOW}) l WHERE {} LIMIT {BATCH}",
            self.tables.locks(),
            text_literal(self.start),
            is_unused(self.keep)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let unused = |row: &Row| {
            Ok(Unused {
                name: row.text(0)?.unwrap_or_default(),
                slot: row.get(1)?.unwrap_or_default(),
                fence: row.get(2)?.unwrap_or_default(),
            })
        };
        rows.iter().map(unused).collect()
    }
}

/// Deletes the rows that are unchanged since they were read, each by its primary key. The floor is raised first: whoever creates such a
/// row again waits for that, and begins above the floor.
struct DeleteRows<'a> {
    tables: &'a Tables,
    rows: &'a [Unused],
    keep: Kept,
}

impl Batch for DeleteRows<'_> {
    type Answer = ();

    fn statements(&self) -> Vec<String> {
        let highest = self.rows.iter().map(|row| row.fence).max();
        let raise = format!(
            "UPDATE {} SET fence_floor = GREATEST(fence_floor, {}) WHERE id = 1",
            self.tables.meta(),
            highest.unwrap_or_default()
        );
        let (locks, is_unused) = (self.tables.locks(), is_unused(self.keep));
        let delete = self.rows.iter().map(|row| {
            let Unused { name, slot, fence } = row;
            let name = text_literal(name);
            format!(
                "DELETE FROM {locks} WHERE name = {name} AND slot = {slot} AND fence = {fence} AND {is_unused}"
            )
        });
        let all = ["START TRANSACTION".to_owned(), raise].into_iter();
        let all = all.chain(delete).chain(["COMMIT".to_owned()]);
        all.map(|sql| format!("/* dblock prune */ {sql}")).collect()
    }

    fn decode(&self, _: &[Reply], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}

/// The condition that nobody needs a success any more.
fn is_unneeded(keep: Kept) -> String {
    format!(
        "ended_at < {} AND started_at + INTERVAL needed_seconds SECOND < UTC_TIMESTAMP(6)",
        limit_of_age(keep)
    )
}

/// Reads the names with such a success.
struct AskSuccesses<'a> {
    tables: &'a Tables,
    start: &'a str,
    keep: Kept,
}

impl Statement for AskSuccesses<'_> {
    type Answer = Vec<String>;

    const MOST_ROWS: usize = BATCH;

    fn sql(&self) -> String {
        format!(
            "/* dblock unneeded successes */ SELECT name FROM (SELECT name, started_at, ended_at, needed_seconds FROM {} \
             WHERE name >= {} ORDER BY name LIMIT {WINDOW}) s WHERE {} LIMIT {BATCH}",
            self.tables.successes(),
            text_literal(self.start),
            is_unneeded(self.keep)
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let names = rows.iter().map(|row| row.text(0));
        names.filter_map(Result::transpose).collect()
    }
}

/// Deletes these successes, each by its primary key, unless a newer one was recorded.
struct DeleteSuccesses<'a> {
    tables: &'a Tables,
    names: &'a [String],
    keep: Kept,
}

impl Batch for DeleteSuccesses<'_> {
    type Answer = ();

    fn statements(&self) -> Vec<String> {
        let (successes, is_unneeded) = (self.tables.successes(), is_unneeded(self.keep));
        let delete = self.names.iter().map(|name| {
            let name = text_literal(name);
            format!(
                "/* dblock prune */ DELETE FROM {successes} WHERE name = {name} AND {is_unneeded}"
            )
        });
        delete.collect()
    }

    fn decode(&self, _: &[Reply], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}
