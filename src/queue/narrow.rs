//! The columns of the narrow tables, and the start of each statement that moves a job between them.

use crate::schema::{RUNNING, Table, Tables};

/// How many rows a statement names at most. From 200 on (`eq_range_index_dive_limit`) a server does not estimate by looking into the index,
/// but relies on statistics.
pub(super) const NAMED: usize = 190;

/// The columns that a move carries over unchanged. `attempt`, `every_us` and `due_at` follow.
pub(super) const CARRIED: &str = "queue, shard, priority, job, last_job, block, jobs, fence";

/// These columns of the table with this alias. The last one is the fence.
pub(super) fn carried(alias: &str) -> String {
    format!("{alias}.{}", CARRIED.replace(", ", &format!(", {alias}.")))
}

/// A table with this alias, read by its primary key. While its statistics say that it is empty, MySQL would scan it, and wait for rows that
/// other workers have locked.
pub(super) fn by_key(tables: &Tables, table: &Table, alias: &str) -> String {
    format!("{} {alias} FORCE INDEX (PRIMARY)", tables.of(table))
}

/// The running jobs as `r`.
pub(super) fn running(tables: &Tables) -> String {
    by_key(tables, &RUNNING, "r")
}

/// The running jobs as `r`, read by the turn of their claim. Reading by the primary key would visit all rows that the worker ever had, as
/// long as a backup may read them.
pub(super) fn running_by_turn(tables: &Tables) -> String {
    if tables.has_turns() {
        format!("{} r FORCE INDEX (by_turn)", tables.of(&RUNNING))
    } else {
        running(tables)
    }
}

/// The start of an INSERT into a narrow table, up to its FROM: the carried columns, the values for `attempt`, `every_us` and `due_at`, and
/// `besides`, which are further columns with their values.
pub(super) fn insert_into(
    table: &str,
    carried: &str,
    values: [&str; 3],
    besides: Option<(&str, &str)>,
) -> String {
    let [attempt, every, due] = values;
    let (columns, more) = besides.map_or((String::new(), String::new()), |(columns, values)| {
        (format!(", {columns}"), format!(", {values}"))
    });
    format!(
        "INSERT INTO {table} ({CARRIED}, attempt, every_us, due_at{columns}) SELECT {carried}, {attempt}, {every}, {due}{more}"
    )
}

/// These rows as the table `old`. Where a statement names them in its condition instead, a server scans a small table, and waits for the
/// rows of others.
pub(super) fn rows(first: String, others: impl Iterator<Item = String>) -> String {
    let all: Vec<_> = std::iter::once(first).chain(others).collect();
    format!("(SELECT {}) old", all.join(" UNION ALL SELECT "))
}
