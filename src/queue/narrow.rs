//! The columns of the narrow tables, and the start of each statement that moves a job between them.

use super::jobs::MOST_JOBS;
use crate::db::sql::{NOW, micros_since};
use crate::db::{Fault, Row};
use crate::schema::{RUNNING, Table, Tables};

/// How many rows a statement names at most. From 200 on (`eq_range_index_dive_limit`) a server does not estimate by looking into the index,
/// but relies on statistics.
pub(super) const NAMED: usize = 190;

/// The columns that a move carries over unchanged. `attempt`, `every_us` and `due_at` follow.
pub(super) const CARRIED: &str = "queue, shard, priority, job, last_job, block, jobs, fence";

/// The ids of a block's jobs are no further apart: the largest block, by the longest step from one id to the next that a server knows.
pub(super) const LONGEST_BLOCK: u64 = 65_535 * MOST_JOBS as u64;

/// The last job and the number of the block that a row is for; zeros: it is for a single job. An application may have written any numbers.
pub(super) fn block_of(row: &Row) -> Result<(u64, u64), Fault> {
    let (job, last, block): (u64, _, _) =
        (row.get("job")?, row.get("last_job")?, row.get("block")?);
    let may_be_last = job..job.saturating_add(LONGEST_BLOCK);
    let is_block = block > 0 && may_be_last.contains(&last);
    Ok(if is_block { (last, block) } else { (0, 0) })
}

/// The SQL for how many jobs the row with this alias is for. An application may have written none.
pub(super) fn jobs_of(alias: &str) -> String {
    format!("GREATEST({alias}.jobs, 1)")
}

/// As [`jobs_of`], of a row that was read.
pub(super) fn jobs_in(row: &Row) -> Result<u32, Fault> {
    Ok(row.get::<u32>("jobs")?.max(1))
}

/// The condition, besides others, on rows `n` of delayed jobs whose time has come. They are due: a worker would move them first. Without
/// workers nobody does, and just then somebody must see them.
pub(super) const TIME_HAS_COME: &str = " AND n.due_at <= UTC_TIMESTAMP(6)";

/// The same of the other delayed jobs.
pub(super) const TIME_WILL_COME: &str = " AND n.due_at > UTC_TIMESTAMP(6)";

/// The column that only the rows of finished jobs have, with its value for one that has just finished.
pub(super) const DONE_NOW: Option<(&str, &str)> = Some(("done_at", NOW));

/// The same of dead jobs.
pub(super) const DIED_NOW: Option<(&str, &str)> = Some(("died_at", NOW));

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

/// When a repeating job is due next, by its row `r` of the running jobs. Missed periods collapse into one run. An application may have
/// written any period: it counts as one from a microsecond to a hundred years. One that has written no date, or one in more than a hundred
/// years, means now.
pub(super) fn next_due() -> String {
    let every = "LEAST(GREATEST(r.every_us, 1), 3155760000000000)";
    let due = format!("IF(TIMESTAMPDIFF(SECOND, r.due_at, {NOW}) > -3155760000, r.due_at, {NOW})");
    let late = micros_since(&due);
    format!("{due} + INTERVAL ({every} * GREATEST(1, GREATEST(0, {late}) DIV {every})) MICROSECOND")
}
