//! The statements of the history on PostgreSQL. What they do is said where those for MySQL are written.

use std::time::Duration;

use super::kept::{BATCH, Kept, WINDOW};
use super::{DIED, Journal, Outcome, RunEnd};
use crate::db::postgres_sql::{
    NOW, ago, bytes_literal, micros, micros_between, optional_moment, optional_text, seconds_ago,
    text_literal,
};
use crate::db::sql::optional_number;
use crate::lock::HolderKind;
use crate::lock::named::postgres_held_keys;
use crate::schema::{CRON_JOBS, OLDER_FENCE, OUTPUTS, RUNS, Tables};

/// The columns of a run's facts.
const FACTS: &str = "run, name, slot, slot_name, tick, attempt, host, pid, \"user\", program, connection, requested_at";

/// A text for a column of the history, cut to the column's width.
fn cut(column: &str, value: Option<&str>) -> String {
    optional_text(value.map(|value| RUNS.cut(column, value)).as_deref())
}

/// The values of [`FACTS`].
fn facts(journal: &Journal, slot: Option<u32>, connection: Option<u64>) -> String {
    let facts = &journal.facts;
    [
        text_literal(&facts.run),
        cut("name", Some(&facts.name)),
        optional_number(slot),
        cut("slot_name", facts.slot_name.as_deref()),
        optional_moment(facts.tick),
        facts.attempt.to_string(),
        cut("host", Some(&facts.host)),
        facts.pid.to_string(),
        cut("user", Some(&facts.user)),
        cut("program", Some(&facts.program)),
        optional_number(connection),
        ago(journal.requested.elapsed()),
    ]
    .join(", ")
}

/// As [`Journal::start`].
pub fn start(journal: &Journal, slot: u32, connection: u64, owner: Option<&str>) -> String {
    let (tables, facts) = (
        &journal.tables,
        facts(journal, Some(slot), Some(connection)),
    );
    // The fence identifies a row's grant; the session identifies any other.
    let (source, identity) = match owner {
        Some(owner) => (
            format!(
                "SELECT {facts}, {NOW}, l.fence FROM {} l WHERE l.name = {} AND l.slot = {slot} AND l.owner = {}",
                tables.locks(),
                text_literal(&journal.facts.name),
                text_literal(owner)
            ),
            "fence",
        ),
        None => (
            format!("VALUES ({facts}, {NOW}, NULL::bigint)"),
            "connection",
        ),
    };
    format!(
        "/* dblock record start */ INSERT INTO {} AS r ({FACTS}, acquired_at, fence) {source} ON CONFLICT (run) DO UPDATE \
         SET slot = excluded.slot, slot_name = excluded.slot_name, connection = excluded.connection, \
         acquired_at = excluded.acquired_at, fence = excluded.fence, started_at = NULL, ended_at = NULL, outcome = NULL, \
         message = NULL WHERE (r.slot, r.{identity}) IS DISTINCT FROM (excluded.slot, excluded.{identity})",
        tables.runs()
    )
}

/// As [`Journal::end`].
pub fn end(journal: &Journal, end: &RunEnd) -> Vec<String> {
    let run = text_literal(&journal.facts.run);
    let ended = ago(end.ended_ago);
    let started = end.ran.map(|ran| ago(end.ended_ago.saturating_add(ran)));
    // The clocks of host and server may run at different speeds; the start is never shown before the grant.
    let shown_start = started
        .as_ref()
        .map(|started| format!("greatest({started}, acquired_at)"));
    let died = format!("{}: {DIED}", journal.facts.name);
    let update = format!(
        "/* dblock record end */ UPDATE {} SET outcome = {}, exit_code = {}, signal_name = {}, message = {}, \
         tick = {}, started_at = {}, ended_at = {ended} WHERE run = {run} AND (ended_at IS NULL OR message = {})",
        journal.tables.runs(),
        text_literal(end.outcome.word()),
        optional_number(end.exit_code),
        cut("signal_name", end.signal.as_deref()),
        cut("message", end.message.as_deref()),
        optional_moment(journal.facts.tick),
        shown_start.as_deref().unwrap_or("NULL"),
        cut("message", Some(&died)),
    );
    let success = end
        .succeeded
        .then(|| success(journal, &started.unwrap_or_else(|| ended.clone()), &ended));
    std::iter::once(update).chain(success).collect()
}

/// Makes this the last success of its name, if it began later than the recorded one. The recorded tick never goes back.
fn success(journal: &Journal, started: &str, ended: &str) -> String {
    let facts = &journal.facts;
    let needed = journal.needed.map_or_else(
        || "DEFAULT".to_owned(),
        |needed| needed.as_secs().min(u32::MAX.into()).to_string(),
    );
    // What is not known takes nothing from what is: an older run may be needed for longer.
    let longer = if journal.needed.is_some() {
        "needed_seconds = greatest(s.needed_seconds, excluded.needed_seconds), "
    } else {
        ""
    };
    let later = "s.run IS DISTINCT FROM excluded.run AND s.started_at <= excluded.started_at";
    let set = ["run", "host", "pid", "program", "started_at", "ended_at"].map(|column| {
        format!("{column} = CASE WHEN {later} THEN excluded.{column} ELSE s.{column} END")
    });
    format!(
        "/* dblock record success */ INSERT INTO {} AS s (name, tick, run, host, pid, program, started_at, ended_at, needed_seconds) \
         VALUES ({}, {}, {}, {}, {}, {}, {started}, {ended}, {needed}) ON CONFLICT (name) DO UPDATE SET \
         tick = greatest(s.tick, excluded.tick), {longer}{}",
        journal.tables.successes(),
        cut("name", Some(&facts.name)),
        optional_moment(facts.tick),
        text_literal(&facts.run),
        cut("host", Some(&facts.host)),
        facts.pid,
        cut("program", Some(&facts.program)),
        set.join(", ")
    )
}

/// As [`Journal::released`].
pub fn released(journal: &Journal, slot: u32) -> String {
    let run = text_literal(&journal.facts.run);
    format!(
        "/* dblock record release */ UPDATE {} SET outcome = {}, ended_at = {NOW} WHERE run = {run} \
         AND ended_at IS NULL AND EXISTS (SELECT 1 FROM {} WHERE name = {} AND slot = {slot} AND owner = {run})",
        journal.tables.runs(),
        text_literal(Outcome::Released.word()),
        journal.tables.locks(),
        text_literal(&journal.facts.name)
    )
}

/// As [`Journal::skip`].
pub fn skip(journal: &Journal, message: &str, outcome: Outcome) -> String {
    format!(
        "/* dblock record skip */ INSERT INTO {} AS r ({FACTS}, ended_at, outcome, message) VALUES ({}, {NOW}, {}, {}) \
         ON CONFLICT (run) DO UPDATE SET slot = NULL, slot_name = NULL, fence = NULL, connection = NULL, acquired_at = NULL, \
         outcome = excluded.outcome, message = excluded.message, ended_at = excluded.ended_at WHERE r.ended_at IS NULL",
        journal.tables.runs(),
        facts(journal, journal.facts.slot, journal.facts.connection),
        text_literal(outcome.word()),
        cut("message", Some(message)),
    )
}

/// As [`super::KeptOutput::of_run`], of the first bytes, the number of those that are left out, and the last ones.
pub fn keep_output(
    tables: &Tables,
    run: &str,
    (head, omitted, tail): (&[u8], u64, &[u8]),
) -> String {
    format!(
        "/* dblock record output */ INSERT INTO {} (run, name, kept_at, head, omitted, tail) \
         SELECT r.run, r.name, {NOW}, {}, {omitted}, {} FROM {} r WHERE r.run = {} ON CONFLICT (run) DO UPDATE \
         SET kept_at = excluded.kept_at, head = excluded.head, omitted = excluded.omitted, tail = excluded.tail",
        tables.of(&OUTPUTS),
        bytes_literal(head),
        bytes_literal(tail),
        tables.runs(),
        text_literal(run)
    )
}

/// Records that somebody else has ended this run, with this message. The statement ends with a condition.
pub fn token_end(tables: &Tables, run: &str, message: &str) -> String {
    format!(
        "/* dblock record token end */ UPDATE {} SET outcome = {}, message = {}, ended_at = {NOW} WHERE run = {} AND ended_at IS NULL",
        tables.runs(),
        text_literal(Outcome::Lost.word()),
        cut("message", Some(message)),
        text_literal(run)
    )
}

/// Reads the last success of a name, and the server's time.
pub fn last_success(tables: &Tables, name: &str) -> String {
    format!(
        "SELECT {} AS server_time, {} AS started_ago, {} AS ended_ago, {} AS tick, host, pid, program \
         FROM (SELECT {NOW} AS now) t LEFT JOIN {} last ON last.name = {}",
        micros("t.now"),
        micros_between("started_at", "t.now"),
        micros_between("ended_at", "t.now"),
        micros("tick"),
        tables.successes(),
        text_literal(name)
    )
}

/// The condition that the run in the row with this alias has no end, and still has its session on this server, or its row.
fn is_running(run: &str, tables: &Tables) -> String {
    format!(
        "({run}.ended_at IS NULL AND (('x' || left(encode(sha256(convert_to('#' || {run}.run, 'UTF8')), 'hex'), 16))::bit(64)::bigint \
         IN ({}) OR EXISTS (SELECT 1 FROM {} l \
         WHERE l.name = {run}.name AND l.slot = {run}.slot AND (l.owner = {run}.run AND l.expires_at > {NOW} \
         OR l.command_run = {run}.run AND l.command_until > {NOW}))))",
        postgres_held_keys(),
        tables.locks()
    )
}

/// A page of runs, the newest first, under these conditions on `r`. Whether one has output is this value.
pub fn page(tables: &Tables, conditions: &str, has_output: &str, limit: usize) -> String {
    let [tick, requested, acquired, started, ended, now] = [
        "r.tick",
        "r.requested_at",
        "r.acquired_at",
        "r.started_at",
        "r.ended_at",
        NOW,
    ]
    .map(micros);
    format!(
        "SELECT {requested} AS requested, {now} AS server_time, r.run, r.name, r.slot, r.slot_name, r.fence, {tick} AS tick, r.attempt, \
         r.host, r.pid, r.\"user\", r.program, r.connection, {acquired} AS acquired, {started} AS started, {ended} AS ended, r.outcome, \
         r.exit_code, r.signal_name, r.message, {has_output} AS has_output, {}::int AS is_running, \
         (r.ended_at IS NULL AND EXISTS (SELECT 1 FROM {} l WHERE l.name = r.name AND l.slot = r.slot AND l.owner = r.run \
         AND l.kind <> '{}' AND l.expires_at <= {NOW}))::int AS has_expired FROM {} r {conditions}ORDER BY r.requested_at DESC, r.run DESC LIMIT {limit}",
        is_running("r", tables),
        tables.locks(),
        HolderKind::Run.name(),
        tables.runs(),
    )
}

/// The start of the time that is kept.
fn limit_of_age(keep: Kept) -> String {
    seconds_ago(keep.seconds)
}

/// The condition that the run in the row with this alias has ended, or died without a record.
fn is_over(run: &str, tables: &Tables) -> String {
    format!(
        "({run}.ended_at IS NOT NULL OR {run}.requested_at < {} AND NOT {})",
        ago(Duration::from_secs(24 * 3600)),
        is_running(run, tables)
    )
}

/// The name of a random run.
pub fn any_name(tables: &Tables, chance: u64) -> String {
    format!(
        "SELECT name FROM {} WHERE run >= '{chance:016x}' ORDER BY run LIMIT 1",
        tables.runs()
    )
}

/// The ids of the oldest runs of a name that need not be kept.
pub fn old(tables: &Tables, name: &str, keep: Kept) -> String {
    let (runs, name) = (tables.runs(), text_literal(name));
    let age = format!("(SELECT {})", limit_of_age(keep));
    format!(
        "SELECT r.run FROM {runs} r WHERE r.name = {name} AND r.requested_at < {age} \
         AND r.requested_at < (SELECT requested_at FROM {runs} WHERE name = {name} ORDER BY requested_at DESC LIMIT 1 OFFSET {}) \
         AND {} ORDER BY r.requested_at LIMIT {BATCH}",
        keep.runs.saturating_sub(1),
        is_over("r", tables)
    )
}

/// The ids of runs of unused names.
pub fn idle(tables: &Tables, chance: u64, keep: Kept) -> String {
    let (runs, age) = (tables.runs(), format!("(SELECT {})", limit_of_age(keep)));
    // With `n.name = r.name` the server may go through the runs of all names in the order of their times.
    let of_newest = |what: &str| {
        format!(
            "(SELECT {what} FROM {runs} n WHERE n.name BETWEEN r.name AND r.name ORDER BY n.name DESC, n.requested_at DESC LIMIT 1)"
        )
    };
    let is_unused = format!(
        "n.requested_at < {age} AND coalesce(n.ended_at < {age}, NOT {})",
        is_running("n", tables)
    );
    let has_none =
        |table: &str| format!("NOT EXISTS (SELECT 1 FROM {table} o WHERE o.name = r.name)");
    format!(
        "SELECT r.run FROM (SELECT run, name, slot, requested_at, ended_at FROM {runs} \
         WHERE run >= '{chance:016x}' ORDER BY run LIMIT {WINDOW}) r WHERE r.requested_at < {age} AND {} AND {} \
         AND {} AND ({} OR {} AND {}) LIMIT {BATCH}",
        is_over("r", tables),
        of_newest(&is_unused),
        has_none(&tables.of(&CRON_JOBS)),
        of_newest("n.requested_at > r.requested_at"),
        has_none(&tables.locks()),
        has_none(&tables.successes()),
    )
}

/// Deletes a run.
pub fn delete_run(tables: &Tables, run: &str) -> String {
    format!(
        "DELETE FROM {} WHERE run = {}",
        tables.runs(),
        text_literal(run)
    )
}

/// The condition that a slot's row is unused.
fn is_unused(keep: Kept) -> String {
    let age = limit_of_age(keep);
    let moments = [
        "renewed_at",
        "expires_at",
        "command_until",
        "kill_requested_at",
    ];
    let are_old = moments.map(|moment| format!("coalesce({moment} < {age}, true)"));
    format!("fence < {OLDER_FENCE} AND {}", are_old.join(" AND "))
}

/// Reads unused rows from this name on.
pub fn unused_rows(tables: &Tables, start: &str, keep: Kept) -> String {
    format!(
        "SELECT name, slot, fence FROM (SELECT name, slot, fence, renewed_at, expires_at, command_until, \
         kill_requested_at FROM {} WHERE name >= {} ORDER BY name, slot LIMIT {WINDOW}) l WHERE {} LIMIT {BATCH}",
        tables.locks(),
        text_literal(start),
        is_unused(keep)
    )
}

/// Deletes a row that is still unused.
pub fn delete_unused_row(
    tables: &Tables,
    (name, slot, fence): (&str, u32, u64),
    keep: Kept,
) -> String {
    format!(
        "DELETE FROM {} WHERE name = {} AND slot = {slot} AND fence = {fence} AND {}",
        tables.locks(),
        text_literal(name),
        is_unused(keep)
    )
}

/// The condition that nobody needs a success any more.
fn is_unneeded(keep: Kept) -> String {
    format!(
        "ended_at < {} AND started_at + needed_seconds * interval '1 second' < {NOW}",
        limit_of_age(keep)
    )
}

/// The names of successes that nobody needs, from this name on.
pub fn unneeded_successes(tables: &Tables, start: &str, keep: Kept) -> String {
    format!(
        "SELECT name FROM (SELECT name, started_at, ended_at, needed_seconds FROM {} \
         WHERE name >= {} ORDER BY name LIMIT {WINDOW}) s WHERE {} LIMIT {BATCH}",
        tables.successes(),
        text_literal(start),
        is_unneeded(keep)
    )
}

/// Deletes a success that still nobody needs.
pub fn delete_success(tables: &Tables, name: &str, keep: Kept) -> String {
    format!(
        "DELETE FROM {} WHERE name = {} AND {}",
        tables.successes(),
        text_literal(name),
        is_unneeded(keep)
    )
}
