//! The statements on the crontab's tables on MySQL and MariaDB. An assignment may see what those before it have written: expressions on old
//! values come first.

use std::time::Duration;

use super::{CronText, Names, select};
use crate::cron::rules::LARGEST_LAG;
use crate::cron::store::entry::{
    CLOCK, DAEMON, DaemonFacts, Definition, FORGOTTEN_AFTER, JOB, Look, NewJob, Publish, TICK,
    UNRECORDED, settled_until,
};
use crate::db::sql::{NOW, after_seconds, is_read_only, micros, moment, seconds_ago, text_literal};

/// SQL for: the daemon `d` of the tick `t` is gone, or has been silent for the tick's TTL. A living daemon renews its lease every few
/// seconds, so a renewal far ahead of now is that of a daemon that fell silent while the server's clock was ahead.
fn is_silent() -> String {
    format!(
        "(d.daemon IS NULL OR d.gone_at IS NOT NULL OR d.renewed_at + INTERVAL t.ttl_seconds SECOND < {NOW} \
         OR d.renewed_at > {})",
        after_seconds(LARGEST_LAG.as_secs())
    )
}

/// Writes the statements.
pub struct MySqlCron(pub(super) Names);

impl CronText for MySqlCron {
    fn unless_there(&self) -> String {
        format!("ON DUPLICATE KEY UPDATE attempt = {}.attempt", self.0.ticks)
    }

    fn before_alone(&self, _: &str) -> Option<String> {
        None
    }

    fn retire(&self, daemon: &DaemonFacts, after: u64) -> Vec<String> {
        let Names {
            jobs,
            ticks,
            daemons,
            locks,
            ..
        } = &self.0;
        let (mine, before) = (text_literal(&daemon.id), seconds_ago(after));
        let is_old = format!(
            "seen_at < {before} AND EXISTS (SELECT 1 FROM {daemons} own WHERE own.daemon = {mine} AND own.alive_since < {before} AND own.expires_at > {NOW})"
        );
        let statements = vec![
            format!(
                "UPDATE {jobs} SET next_at = NULL, triggered_at = NULL, changed_at = {NOW} \
                 WHERE (next_at IS NOT NULL OR triggered_at IS NOT NULL) AND {is_old}"
            ),
            format!(
                "UPDATE {ticks} t JOIN {jobs} j ON j.name = t.name LEFT JOIN {daemons} d ON d.daemon = t.daemon \
                 LEFT JOIN {locks} l ON l.name = t.name AND l.owner = t.run AND l.expires_at > {NOW} \
                 SET t.daemon = {mine}, t.start_at = t.tick WHERE j.{is_old} AND l.owner IS NULL AND {}",
                is_silent()
            ),
        ];
        let run = "LEFT(SHA2(CONCAT(t.run, ' given up'), 256), 32)";
        let tick = "DATE_FORMAT(t.tick, '%Y-%m-%dT%H:%i:%sZ')";
        let given_up = self.0.give_up(daemon, run, tick);
        statements.into_iter().chain(given_up).collect()
    }

    fn prune(&self) -> [String; 3] {
        let Names {
            jobs,
            ticks,
            daemons,
            ..
        } = &self.0;
        let succeeded = self.0.has_succeeded();
        [
            format!(
                "DELETE o FROM {daemons} o LEFT JOIN {daemons} n ON {succeeded} \
                 WHERE o.expires_at < {NOW} - INTERVAL 7 DAY \
                 OR o.expires_at < {NOW} - INTERVAL 1 DAY AND n.daemon IS NOT NULL"
            ),
            format!("DELETE FROM {jobs} WHERE seen_at < {NOW} - INTERVAL {FORGOTTEN_AFTER} DAY"),
            format!(
                "DELETE FROM {ticks} WHERE NOT EXISTS (SELECT 1 FROM {jobs} j WHERE j.name = {ticks}.name)"
            ),
        ]
    }

    fn look(&self, look: &Look) -> String {
        let Names {
            jobs,
            ticks,
            daemons,
            runs,
            locks,
            ..
        } = &self.0;
        let select = |kind, columns: &[(&str, String)]| select(kind, columns, |_| "NULL");
        let job = format!("{} FROM {jobs}", select(JOB, &self.0.job_values()));
        let which = match look.since {
            None => job,
            Some(since) => format!(
                "{job} WHERE next_at <= {NOW} UNION ALL {job} WHERE changed_at >= {}",
                moment(since)
            ),
        };
        let own_rows = format!(
            "(SELECT COUNT(*) FROM {daemons} WHERE daemon = {})",
            text_literal(look.daemon)
        );
        let now = select(
            CLOCK,
            &[
                ("now", micros(NOW)),
                ("is_registered", own_rows),
                ("is_read_only", is_read_only()),
            ],
        );
        let silent_since = "COALESCE(r.ended_at, d.gone_at, d.renewed_at + INTERVAL t.ttl_seconds SECOND, t.started_at, t.tick)";
        // A daemon that hangs may have renewed the lock for long after its own lease.
        let held_until = format!(
            "(SELECT MAX(h.expires_at) FROM {locks} h WHERE h.name = t.name AND h.owner = t.run)"
        );
        let start_at = format!(
            "IF(t.daemon IS NULL, t.start_at, COALESCE(GREATEST({silent_since}, {held_until}), {silent_since}))"
        );
        let is_orphan = format!(
            "t.daemon IS NOT NULL AND ({} OR COALESCE(r.ended_at < {}, FALSE)) \
             AND NOT EXISTS (SELECT 1 FROM {locks} l WHERE l.name = t.name AND l.owner = t.run AND l.expires_at > {NOW})",
            is_silent(),
            seconds_ago(UNRECORDED),
        );
        let tick = select(TICK, &self.0.tick_values(&start_at, is_orphan));
        let daemon = select(DAEMON, &[("daemon", "daemon".to_owned())]);
        format!(
            "{which} UNION ALL {now} \
             UNION ALL {tick} FROM {ticks} t LEFT JOIN {daemons} d ON d.daemon = t.daemon LEFT JOIN {runs} r ON r.run = t.run \
             UNION ALL {daemon} FROM {daemons} \
             WHERE expires_at > {NOW} AND expires_at < {} AND leaving_at IS NULL",
            after_seconds(LARGEST_LAG.as_secs()),
        )
    }

    fn publish(&self, publish: &Publish, (job, [next, latest]): &NewJob) -> String {
        let [name, schedule, zone, hash] =
            [&job.name, &job.schedule, &job.zone, &job.hash].map(|text| text_literal(text));
        let (host, next, jitter) = (
            text_literal(publish.host),
            self.0.words.optional_moment(*next),
            job.jitter,
        );
        let is_same = format!("schedule = {schedule} AND zone = {zone}");
        let until = moment(settled_until(publish.now));
        let is_right = latest.map_or_else(
            || "next_at IS NOT NULL".to_owned(),
            |latest| {
                let latest = moment(latest);
                format!("next_at IS NOT NULL AND (next_at <= {latest} OR seen_at <= {until} AND COALESCE(settled_at <= {until}, TRUE))")
            },
        );
        let is_kept = format!("{is_same} AND {is_right}");
        let is_whole = format!("{is_kept} AND definition = {hash}");
        let is_overtaken = format!(
            "NOT ({is_kept}) AND COALESCE(settled_at >= {next} AND settled_at <= {until}, FALSE)"
        );
        let unless_overtaken =
            |column: &str, value: &str| format!("{column} = IF({is_overtaken}, {column}, {value})");
        let (changed_at, changed_by) = (
            unless_overtaken("changed_at", &format!("IF({is_whole}, changed_at, {NOW})")),
            unless_overtaken("changed_by", &format!("IF({is_whole}, changed_by, {host})")),
        );
        let next_at = unless_overtaken("next_at", &format!("IF({is_kept}, next_at, {next})"));
        let others = [
            ("jitter_seconds", &*jitter.to_string()),
            ("definition", &*hash),
            ("schedule", &*schedule),
            ("zone", &*zone),
        ]
        .map(|(column, value)| unless_overtaken(column, value))
        .join(", ");
        format!(
            "INSERT INTO {} (name, schedule, zone, definition, jitter_seconds, next_at, changed_at, changed_by, seen_at) \
             VALUES ({name}, {schedule}, {zone}, {hash}, {jitter}, {next}, {NOW}, {host}, {NOW}) \
             ON DUPLICATE KEY UPDATE {changed_at}, {changed_by}, {next_at}, {others}, seen_at = {NOW}",
            self.0.jobs
        )
    }

    fn touch(&self, jobs: &[&Definition], since: Duration, until: Option<i64>) -> String {
        format!(
            "UPDATE {} SET seen_at = {NOW} WHERE {}",
            self.0.jobs,
            self.0.is_to_be_noted(jobs, since, until)
        )
    }

    fn listed_jobs(&self) -> String {
        let Names { jobs, runs, .. } = &self.0;
        // In the order of the whole key, or MySQL sorts all runs of the name; and by itself, or it looks for the run several times.
        format!(
            "SELECT {} FROM (SELECT listed.*, (SELECT x.run FROM {runs} x WHERE x.name = listed.name AND x.acquired_at IS NOT NULL \
             ORDER BY x.name DESC, x.requested_at DESC LIMIT 1) AS last_run FROM {jobs} listed) j \
             LEFT JOIN {runs} r ON r.run = j.last_run ORDER BY j.name",
            self.0.listed_columns()
        )
    }
}
