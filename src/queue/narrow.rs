//! The columns of the narrow tables, and the beginning of each statement that moves a job from one to the next.

/// The columns that go with a job from one narrow table to the next; `attempt`, `every_us` and `due_at` besides.
pub(super) const CARRIED: &str = "queue, shard, priority, job, last_job, block, jobs, fence";

/// The same of the table with this alias. The last is the fence.
pub(super) fn carried(alias: &str) -> String {
    format!("{alias}.{}", CARRIED.replace(", ", &format!(", {alias}.")))
}

/// Inserts rows into a narrow table up to where they come from: what is carried, and these values for `attempt`, `every_us` and `due_at`;
/// where columns are named besides, their values, too.
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
