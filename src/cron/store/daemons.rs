//! A daemon's row: whether it is alive, how many commands it runs at once, and which of its jobs differ from those in force.

use super::reasons::IN_NO_FILE;
use crate::cron::rules::LARGEST_LAG;
use crate::db::sql::{after_seconds, now_micros, seconds_ago};
use crate::db::{Ask, Batch, ask, batch, command, named, no_answer, text_literal};
use crate::history::{DIED, Outcome};
use crate::schema::{CRON_DAEMONS, CRON_JOBS, CRON_TICKS, RUNS, Tables};

/// A job that is in no file is deleted after this many days.
pub const FORGOTTEN_AFTER: u32 = 30;

/// The facts that a daemon registers.
#[derive(Debug, Clone)]
pub struct DaemonFacts {
    /// An id of 32 hex digits, which no other daemon has.
    pub id: String,
    /// Its host.
    pub host: String,
    /// Its process there.
    pub pid: i32,
    /// The user of the operating system.
    pub user: String,
    /// How many commands it runs at once.
    pub slots: u32,
}

/// The columns of a run that a daemon requests, for the history.
pub(super) const RUN: &str = "run, name, tick, attempt, host, pid, user, program, requested_at";

/// Sets the start of the daemon's current life, which begins anew after its lease has run out. Must come before the new lease.
const ALIVE_SINCE: &str =
    "alive_since = IF(expires_at < UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), alive_since)";

/// SQL for: the daemon `d` of the tick `t` is gone, or has been silent for the tick's TTL. A living daemon renews its lease every few
/// seconds, so a renewal far ahead of now is that of a daemon that fell silent while the server's clock was ahead.
pub(super) fn is_silent() -> String {
    format!(
        "(d.daemon IS NULL OR d.gone_at IS NOT NULL OR d.renewed_at + INTERVAL t.ttl_seconds SECOND < UTC_TIMESTAMP(6) \
         OR d.renewed_at > {})",
        after_seconds(LARGEST_LAG.as_secs())
    )
}

/// Registers a daemon, or updates its row. Returns the server's time.
pub struct Register<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon.
    pub facts: &'a DaemonFacts,
    /// The number of jobs in its file, and a hash of them.
    pub jobs: (usize, &'a str),
    /// The jobs with another schedule than the one in force, and those with other differences. One name in each line.
    pub disagrees: &'a str,
    pub differs: &'a str,
    /// How long it counts as alive, in seconds.
    pub lease: u64,
}

impl Register<'_> {
    /// The server's time.
    pub fn batch(&self) -> Batch<'static, i64> {
        let facts = self.facts;
        let (count, definition) = (self.jobs.0, text_literal(self.jobs.1));
        let [disagrees, differs] = [self.disagrees, self.differs].map(|list| match list {
            "" => "NULL".to_owned(),
            list => text_literal(list),
        });
        let expires = after_seconds(self.lease);
        let statements = vec![
            format!(
                "INSERT INTO {} (daemon, host, pid, user, slots, jobs, definition, disagrees, differs, started_at, renewed_at, expires_at, alive_since) \
                 VALUES ({}, {}, {}, {}, {}, {count}, {definition}, {disagrees}, {differs}, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), {expires}, UTC_TIMESTAMP(6)) \
                 ON DUPLICATE KEY UPDATE {ALIVE_SINCE}, jobs = {count}, definition = {definition}, disagrees = {disagrees}, differs = {differs}, renewed_at = UTC_TIMESTAMP(6), \
                 expires_at = {expires}",
                self.tables.of(&CRON_DAEMONS),
                text_literal(&facts.id),
                CRON_DAEMONS.literal("host", &facts.host),
                facts.pid,
                CRON_DAEMONS.literal("user", &facts.user),
                facts.slots,
            ),
            format!("SELECT {}", now_micros()),
        ];
        batch("cron register", statements).read_last(|rows| rows.value()?.ok_or_else(no_answer))
    }
}

/// Whether the daemon `n` started after `o`, of the same host and user, was gone.
const SUCCEEDED: &str =
    "n.host = o.host AND n.user = o.user AND n.started_at > COALESCE(o.gone_at, o.renewed_at)";

/// Asks whether an earlier daemon of this host and user had the same file, by the hash of its jobs. Several daemons may run there, each with
/// its own file, so the last file of each counts. A daemon's file is the last one unless a later daemon has started after it was gone.
pub fn ask_file_before(
    tables: &Tables,
    facts: &DaemonFacts,
    definition: &str,
) -> Ask<'static, bool> {
    let daemons = tables.of(&CRON_DAEMONS);
    let id = text_literal(&facts.id);
    // A living daemon that has just started does not count as a successor: it started together with this one, as at a boot.
    let sql = format!(
        "SELECT COUNT(*) FROM {daemons} o WHERE o.daemon <> {id} AND o.host = {} AND o.user = {} \
         AND o.definition = {} AND NOT EXISTS (SELECT 1 FROM {daemons} n WHERE {SUCCEEDED} AND n.daemon <> {id} \
         AND NOT (n.gone_at IS NULL AND n.expires_at > UTC_TIMESTAMP(6) AND n.started_at > UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE))",
        text_literal(&facts.host),
        text_literal(&facts.user),
        text_literal(definition),
    );
    ask("cron before", sql, |rows| {
        Ok(rows.value::<u64>()?.is_some_and(|count| count > 0))
    })
}

/// Renews a daemon's lease, for this many seconds.
pub fn renew(tables: &Tables, id: &str, lease: u64) -> Ask<'static, ()> {
    command(
        "cron renew",
        format!(
            "UPDATE {} SET {ALIVE_SINCE}, renewed_at = UTC_TIMESTAMP(6), expires_at = {} \
         WHERE daemon = {}",
            tables.of(&CRON_DAEMONS),
            after_seconds(lease),
            text_literal(id)
        ),
    )
}

/// Notes that a daemon takes no more ticks. Other daemons take them.
pub fn stop_taking(tables: &Tables, id: &str) -> Ask<'static, ()> {
    command(
        "cron stop",
        format!(
            "UPDATE {} SET leaving_at = COALESCE(leaving_at, UTC_TIMESTAMP(6)) WHERE daemon = {}",
            tables.of(&CRON_DAEMONS),
            text_literal(id)
        ),
    )
}

/// Notes that a daemon is gone, and runs nothing any more.
pub fn leave(tables: &Tables, id: &str) -> Ask<'static, ()> {
    command(
        "cron leave",
        format!(
            "UPDATE {} SET leaving_at = COALESCE(leaving_at, UTC_TIMESTAMP(6)), gone_at = UTC_TIMESTAMP(6), \
         expires_at = UTC_TIMESTAMP(6) WHERE daemon = {}",
            tables.of(&CRON_DAEMONS),
            text_literal(id)
        ),
    )
}

/// Deletes the next tick of jobs that have been in no file for a while, in seconds. Gives up their ticks in progress that no daemon or only
/// a silent one has. If such a job is in a file again, it starts as a new one. The daemon that does it must have been alive for the same
/// time. So after an outage all daemons have time to note their jobs.
pub fn retire(tables: &Tables, daemon: &DaemonFacts, after: u64) -> Batch<'static, ()> {
    let [jobs, ticks, daemons, runs] =
        [CRON_JOBS, CRON_TICKS, CRON_DAEMONS, RUNS].map(|table| tables.of(&table));
    let locks = tables.locks();
    let mine = text_literal(&daemon.id);
    let before = seconds_ago(after);
    let is_old = format!(
        "seen_at < {before} AND EXISTS (SELECT 1 FROM {daemons} own WHERE own.daemon = {mine} AND own.alive_since < {before} AND own.expires_at > UTC_TIMESTAMP(6))"
    );
    let of_mine = format!("FROM {ticks} t WHERE t.daemon = {mine} AND t.start_at = t.tick");
    let number = "LEFT(SHA2(CONCAT(t.run, ' given up'), 256), 32)";
    let message = format!(
        "LEFT(CONCAT(t.name, ': {IN_NO_FILE}; the tick ', DATE_FORMAT(t.tick, '%Y-%m-%dT%H:%i:%sZ'), ' is abandoned'), {})",
        RUNS.width("message")
    );
    let statements = [
            "BEGIN".to_owned(),
            format!(
                "UPDATE {jobs} SET next_at = NULL, triggered_at = NULL, changed_at = UTC_TIMESTAMP(6) \
                 WHERE (next_at IS NOT NULL OR triggered_at IS NOT NULL) AND {is_old}"
            ),
            // Claims their ticks; `start_at = tick` marks them for deletion below. Of two daemons only one gets each tick.
            format!(
                "UPDATE {ticks} t JOIN {jobs} j ON j.name = t.name LEFT JOIN {daemons} d ON d.daemon = t.daemon \
                 LEFT JOIN {locks} l ON l.name = t.name AND l.owner = t.run AND l.expires_at > UTC_TIMESTAMP(6) \
                 SET t.daemon = {mine}, t.start_at = t.tick WHERE j.{is_old} AND l.owner IS NULL AND {}",
                is_silent()
            ),
            format!(
                "INSERT INTO {runs} ({RUN}, ended_at, outcome, message) SELECT {number}, t.name, t.tick, t.attempt + 1, {}, {}, {}, 'dblock', \
                 UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), {}, {message} {of_mine}",
                RUNS.literal("host", &daemon.host),
                daemon.pid,
                RUNS.literal("user", &daemon.user),
                text_literal(Outcome::Skipped.word()),
            ),
            format!(
                "UPDATE {runs} SET ended_at = UTC_TIMESTAMP(6), outcome = {}, message = LEFT(CONCAT(name, ': {DIED}'), {}) \
                 WHERE ended_at IS NULL AND run IN (SELECT t.run {of_mine})",
                text_literal(Outcome::Failed.word()),
                RUNS.width("message"),
            ),
            format!("DELETE FROM {ticks} WHERE daemon = {mine} AND start_at = tick"),
            "COMMIT".to_owned(),
        ]
        .map(|sql| named("cron retire", sql));
    Batch::written(statements.to_vec())
}

/// Deletes old rows: daemons that are gone, and jobs that were in no file for [`FORGOTTEN_AFTER`] days, with their ticks. A daemon without
/// a successor on its host and for its user is kept for a week, for [`ask_file_before`].
pub fn prune(tables: &Tables) -> [Ask<'static, ()>; 3] {
    let [jobs, ticks, daemons] =
        [CRON_JOBS, CRON_TICKS, CRON_DAEMONS].map(|table| tables.of(&table));
    [
        format!(
            "DELETE o FROM {daemons} o LEFT JOIN {daemons} n ON {SUCCEEDED} \
             WHERE o.expires_at < UTC_TIMESTAMP(6) - INTERVAL 7 DAY \
             OR o.expires_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY AND n.daemon IS NOT NULL"
        ),
        format!("DELETE FROM {jobs} WHERE seen_at < UTC_TIMESTAMP(6) - INTERVAL {FORGOTTEN_AFTER} DAY"),
        format!(
            "DELETE FROM {ticks} WHERE NOT EXISTS (SELECT 1 FROM {jobs} j WHERE j.name = {ticks}.name)"
        ),
    ]
    .map(|sql| command("cron prune", sql))
}
