//! Deletes the rows of locks and successes that nobody has used for as long as the history is kept. Without this there would be a row for
//! each name that was ever used.

use super::kept::{BATCH, BY_KEY, Kept, WINDOW, delete_rows, limit_of_age};
use crate::db::{Ask, Fault, Kind, Row, Session, ask, ask_values, named};
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
    let rows = session.run(&ask_rows(tables, start, keep))?;
    delete_rows(statements_for_rows(tables, &rows, keep), session)?;
    let names = session.run(&ask_successes(tables, start, keep))?;
    delete_rows(statements_for_successes(tables, &names, keep), session)
}

/// A slot's row, with its fence.
struct Unused {
    name: String,
    slot: u32,
    fence: u64,
}

/// The condition that a slot's row has no owner, or one that died long ago, and that nobody has used it or asked to kill its holder
/// since. A row from an older dblock is kept: if it were deleted, that dblock would begin its fences there again.
fn is_unused(kind: Kind, keep: Kept) -> String {
    let age = limit_of_age(kind, keep);
    let moments = [
        "renewed_at",
        "expires_at",
        "command_until",
        "kill_requested_at",
    ];
    let are_old = moments.map(|moment| format!("COALESCE({moment} < {age}, TRUE)"));
    format!("fence < {OLDER_FENCE} AND {}", are_old.join(" AND "))
}

/// Reads the unused rows. It locks none of them, as a searching `DELETE` would.
fn ask_rows(tables: &Tables, start: &str, keep: Kept) -> Ask<'static, Vec<Unused>> {
    let kind = tables.kind();
    let sql = format!(
        "SELECT name, slot, fence FROM (SELECT name, slot, fence, renewed_at, expires_at, command_until, \
         kill_requested_at FROM {} {} WHERE name >= {} ORDER BY name, slot LIMIT {WINDOW}) l WHERE {} LIMIT {BATCH}",
        tables.locks(),
        kind.only_mysql(BY_KEY),
        kind.literal(start),
        is_unused(kind, keep)
    );
    let unused = |row: &Row| {
        Ok(Unused {
            name: row.get("name")?,
            slot: row.get("slot")?,
            fence: row.get("fence")?,
        })
    };
    ask("unused rows", sql, move |rows| rows.all(unused)).up_to(BATCH)
}

/// Deletes the rows that are unchanged since they were read. The floor is raised first: whoever creates such a row again waits for that,
/// and begins above the floor.
fn statements_for_rows(tables: &Tables, rows: &[Unused], keep: Kept) -> Vec<String> {
    let Some(highest) = rows.iter().map(|row| row.fence).max() else {
        return Vec::new();
    };
    let raise = format!(
        "UPDATE {} SET fence_floor = GREATEST(fence_floor, {highest}) WHERE id = 1",
        tables.meta()
    );
    let kind = tables.kind();
    let (locks, is_unused) = (tables.locks(), is_unused(kind, keep));
    let delete = rows.iter().map(|row| {
        let Unused { name, slot, fence } = row;
        let name = kind.literal(name);
        format!(
            "DELETE FROM {locks} WHERE name = {name} AND slot = {slot} AND fence = {fence} AND {is_unused}"
        )
    });
    let all = std::iter::once(raise).chain(delete);
    all.map(|sql| named("prune", sql)).collect()
}

/// The condition that nobody needs a success any more.
fn is_unneeded(kind: Kind, keep: Kept) -> String {
    let needed_until = match kind {
        Kind::MySql => "started_at + INTERVAL needed_seconds SECOND",
        Kind::Postgres => "started_at + needed_seconds * interval '1 second'",
    };
    format!(
        "ended_at < {} AND {needed_until} < {}",
        limit_of_age(kind, keep),
        kind.now()
    )
}

/// Reads the names with such a success.
fn ask_successes(tables: &Tables, start: &str, keep: Kept) -> Ask<'static, Vec<String>> {
    let kind = tables.kind();
    let sql = format!(
        "SELECT name FROM (SELECT name, started_at, ended_at, needed_seconds FROM {} {} \
         WHERE name >= {} ORDER BY name LIMIT {WINDOW}) s WHERE {} LIMIT {BATCH}",
        tables.successes(),
        kind.only_mysql(BY_KEY),
        kind.literal(start),
        is_unneeded(kind, keep)
    );
    ask_values("unneeded successes", sql).up_to(BATCH)
}

/// Deletes these successes, unless a newer one was recorded.
fn statements_for_successes(tables: &Tables, names: &[String], keep: Kept) -> Vec<String> {
    let kind = tables.kind();
    let (successes, is_unneeded) = (tables.successes(), is_unneeded(kind, keep));
    let delete = names.iter().map(|name| {
        let name = kind.literal(name);
        let delete = format!("DELETE FROM {successes} WHERE name = {name} AND {is_unneeded}");
        named("prune", delete)
    });
    delete.collect()
}
