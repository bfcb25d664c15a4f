//! A daemon's row: whether it is alive, how many commands it runs at once, and which of its jobs differ from those in force.

use super::reasons::IN_NO_FILE;
use super::{micros, of_history};
use crate::cron::rules::LARGEST_LAG;
use crate::db::{Fault, OldBatch, Plain, Reply, Row, Statement, first_value, text_literal};
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
         OR d.renewed_at > UTC_TIMESTAMP(6) + INTERVAL {} SECOND)",
        LARGEST_LAG.as_secs()
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

impl OldBatch for Register<'_> {
    type Answer = i64;

    fn statements(&self) -> Vec<String> {
        let facts = self.facts;
        let (count, definition) = (self.jobs.0, text_literal(self.jobs.1));
        let [disagrees, differs] = [self.disagrees, self.differs].map(|list| match list {
            "" => "NULL".to_owned(),
            list => text_literal(list),
        });
        let of_column = |column: &str, text: &str| {
            let cut: String = text.chars().take(CRON_DAEMONS.width(column)).collect();
            text_literal(&cut)
        };
        let expires = format!("UTC_TIMESTAMP(6) + INTERVAL {} SECOND", self.lease);
        vec![
            format!(
                "/* dblock cron register */ INSERT INTO {} (daemon, host, pid, user, slots, jobs, definition, disagrees, differs, started_at, renewed_at, expires_at, alive_since) \
                 VALUES ({}, {}, {}, {}, {}, {count}, {definition}, {disagrees}, {differs}, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), {expires}, UTC_TIMESTAMP(6)) \
                 ON DUPLICATE KEY UPDATE {ALIVE_SINCE}, jobs = {count}, definition = {definition}, disagrees = {disagrees}, differs = {differs}, renewed_at = UTC_TIMESTAMP(6), \
                 expires_at = {expires}",
                self.tables.of(&CRON_DAEMONS),
                text_literal(&facts.id),
                of_column("host", &facts.host),
                facts.pid,
                of_column("user", &facts.user),
                facts.slots,
            ),
            format!("SELECT {}", micros("UTC_TIMESTAMP(6)")),
        ]
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<i64, Fault> {
        if let Some(fault) = fault {
            return Err(fault);
        }
        let now = replies
            .last()
            .map_or(Ok(None), |reply| first_value(&reply.rows))?;
        now.ok_or_else(|| Fault::Gone("no answer".to_owned()))
    }
}

/// Asks whether an earlier daemon of this host and user had the same file. Several daemons may run there, each with its own file, so the
/// last file of each counts. A daemon's file is the last one unless a later daemon has started after it was gone.
pub struct AskFileBefore<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon that asks.
    pub facts: &'a DaemonFacts,
    /// The hash of the jobs in its file.
    pub definition: &'a str,
}

/// Whether the daemon `n` started after `o`, of the same host and user, was gone.
const SUCCEEDED: &str =
    "n.host = o.host AND n.user = o.user AND n.started_at > COALESCE(o.gone_at, o.renewed_at)";

impl Statement for AskFileBefore<'_> {
    type Answer = bool;

    fn sql(&self) -> String {
        let daemons = self.tables.of(&CRON_DAEMONS);
        let id = text_literal(&self.facts.id);
        // A living daemon that has just started does not count as a successor: it started together with this one, as at a boot.
        format!(
            "/* dblock cron before */ SELECT COUNT(*) FROM {daemons} o WHERE o.daemon <> {id} AND o.host = {} AND o.user = {} \
             AND o.definition = {} AND NOT EXISTS (SELECT 1 FROM {daemons} n WHERE {SUCCEEDED} AND n.daemon <> {id} \
             AND NOT (n.gone_at IS NULL AND n.expires_at > UTC_TIMESTAMP(6) AND n.started_at > UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE))",
            text_literal(&self.facts.host),
            text_literal(&self.facts.user),
            text_literal(self.definition),
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<bool, Fault> {
        Ok(first_value::<u64>(rows)?.is_some_and(|count| count > 0))
    }
}

/// Renews a daemon's lease, for this many seconds.
pub fn renew(tables: &Tables, id: &str, lease: u64) -> Plain {
    Plain(format!(
        "/* dblock cron renew */ UPDATE {} SET {ALIVE_SINCE}, renewed_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL {lease} SECOND \
         WHERE daemon = {}",
        tables.of(&CRON_DAEMONS),
        text_literal(id)
    ))
}

/// Notes that a daemon takes no more ticks. Other daemons take them.
pub fn stop_taking(tables: &Tables, id: &str) -> Plain {
    Plain(format!(
        "/* dblock cron stop */ UPDATE {} SET leaving_at = COALESCE(leaving_at, UTC_TIMESTAMP(6)) WHERE daemon = {}",
        tables.of(&CRON_DAEMONS),
        text_literal(id)
    ))
}

/// Notes that a daemon is gone, and runs nothing any more.
pub fn leave(tables: &Tables, id: &str) -> Plain {
    Plain(format!(
        "/* dblock cron leave */ UPDATE {} SET leaving_at = COALESCE(leaving_at, UTC_TIMESTAMP(6)), gone_at = UTC_TIMESTAMP(6), \
         expires_at = UTC_TIMESTAMP(6) WHERE daemon = {}",
        tables.of(&CRON_DAEMONS),
        text_literal(id)
    ))
}

/// Deletes the next tick of jobs that have been in no file for a while. Gives up their ticks in progress that no daemon or only a silent
/// one has. If such a job is in a file again, it starts as a new one.
pub struct Retire<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon that does it. It must have been alive for the same time. So after an outage all daemons have time to note their jobs.
    pub daemon: &'a DaemonFacts,
    /// How long the jobs must have been in no file, in seconds.
    pub after: u64,
}

impl OldBatch for Retire<'_> {
    type Answer = ();

    fn statements(&self) -> Vec<String> {
        let [jobs, ticks, daemons, runs] =
            [CRON_JOBS, CRON_TICKS, CRON_DAEMONS, RUNS].map(|table| self.tables.of(&table));
        let locks = self.tables.locks();
        let mine = text_literal(&self.daemon.id);
        let before = format!("UTC_TIMESTAMP(6) - INTERVAL {} SECOND", self.after);
        let is_old = format!(
            "seen_at < {before} AND EXISTS (SELECT 1 FROM {daemons} own WHERE own.daemon = {mine} AND own.alive_since < {before} AND own.expires_at > UTC_TIMESTAMP(6))"
        );
        let of_mine = format!("FROM {ticks} t WHERE t.daemon = {mine} AND t.start_at = t.tick");
        let number = "LEFT(SHA2(CONCAT(t.run, ' given up'), 256), 32)";
        let message = format!(
            "LEFT(CONCAT(t.name, ': {IN_NO_FILE}; the tick ', DATE_FORMAT(t.tick, '%Y-%m-%dT%H:%i:%sZ'), ' is abandoned'), {})",
            RUNS.width("message")
        );
        [
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
                of_history("host", &self.daemon.host),
                self.daemon.pid,
                of_history("user", &self.daemon.user),
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
        .map(|sql| format!("/* dblock cron retire */ {sql}"))
        .to_vec()
    }

    fn decode(&self, _: &[Reply], fault: Option<Fault>) -> Result<(), Fault> {
        fault.map_or(Ok(()), Err)
    }
}

/// Deletes old rows: daemons that are gone, and jobs that were in no file for [`FORGOTTEN_AFTER`] days, with their ticks. A daemon without
/// a successor on its host and for its user is kept for a week, for [`AskFileBefore`].
pub fn prune(tables: &Tables) -> [Plain; 3] {
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
    .map(|sql| Plain(format!("/* dblock cron prune */ {sql}")))
}
