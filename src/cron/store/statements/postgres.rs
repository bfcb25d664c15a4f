//! The statements on the crontab's tables on PostgreSQL, at READ COMMITTED.
//!
//! A write that waits for another one of the same row decides again by what that has left in the row, and still by its own snapshot of all
//! other rows. So a write whose condition is about other rows follows a statement that locks its row: then its snapshot is as new as the
//! lock. Of several rows the locks are taken in the order of their keys, so that no two sessions wait for each other.

use std::time::Duration;

use super::{CronText, Names};
use crate::cron::rules::LARGEST_LAG;
use crate::cron::store::entry::{
    CLOCK, DAEMON, DaemonFacts, Definition, FORGOTTEN_AFTER, JOB, Look, NewJob, Publish, TICK,
    UNRECORDED, settled_until,
};
use crate::db::postgres_sql::{ASKED, NOW, micros, moment, seconds_ago, text_literal};

/// The condition that the daemon `d` of the tick `t` is not gone, and not silent: as for MySQL.
fn is_alive(now: &str) -> String {
    format!(
        "d.gone_at IS NULL AND d.renewed_at + t.ttl_seconds * interval '1 second' >= {now} \
         AND d.renewed_at <= {now} + interval '{} seconds'",
        LARGEST_LAG.as_secs()
    )
}

/// The NULL of a column of a look: the rows of a UNION have the same types.
fn null(column: &str) -> &'static str {
    match column {
        "name" | "schedule" | "zone" | "definition" | "run" | "daemon" => "NULL::text",
        _ => "NULL::bigint",
    }
}

/// The beginning of a SELECT of rows of one kind.
fn select(kind: u8, columns: &[(&str, String)]) -> String {
    super::select(kind, columns, null)
}

/// Writes the statements.
pub struct PostgresCron(pub(super) Names);

impl CronText for PostgresCron {
    fn unless_there(&self) -> String {
        "ON CONFLICT (name, tick) DO NOTHING".to_owned()
    }

    /// Of two daemons one may settle a trigger and the other a tick, which change different columns: only with the row locked does the
    /// second see the tick of the first.
    fn before_alone(&self, job: &str) -> Option<String> {
        let (jobs, name) = (&self.0.jobs, text_literal(job));
        Some(format!(
            "SELECT 1 FROM {jobs} WHERE name = {name} FOR UPDATE"
        ))
    }

    /// What the claim decides by, besides the tick's row: a run that was about to start has its lock, and had noted that in the tick's row.
    /// One that acquires its lock later finds its tick gone, and does not start.
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
            "j.seen_at < {before} AND EXISTS (SELECT 1 FROM {daemons} own WHERE own.daemon = {mine} AND own.alive_since < {before} AND own.expires_at > {NOW})"
        );
        let is_set = "(j.next_at IS NOT NULL OR j.triggered_at IS NOT NULL)";
        let is_of_old =
            format!("EXISTS (SELECT 1 FROM {jobs} j WHERE j.name = t.name AND {is_old})");
        let statements = vec![
            format!(
                "SELECT 1 FROM {jobs} j WHERE {is_old} AND ({is_set} OR EXISTS (SELECT 1 FROM {ticks} t WHERE t.name = j.name)) \
                 ORDER BY j.name FOR UPDATE OF j"
            ),
            format!(
                "UPDATE {jobs} j SET next_at = NULL, triggered_at = NULL, changed_at = {NOW} WHERE {is_set} AND {is_old}"
            ),
            format!(
                "SELECT 1 FROM {ticks} t WHERE {is_of_old} ORDER BY t.name, t.tick FOR UPDATE OF t"
            ),
            format!(
                "UPDATE {ticks} t SET daemon = {mine}, start_at = t.tick WHERE {is_of_old} \
                 AND NOT EXISTS (SELECT 1 FROM {locks} l WHERE l.name = t.name AND l.owner = t.run AND l.expires_at > {NOW}) \
                 AND NOT EXISTS (SELECT 1 FROM {daemons} d WHERE d.daemon = t.daemon AND {})",
                is_alive(NOW)
            ),
        ];
        let run = "left(encode(sha256(convert_to(t.run || ' given up', 'UTF8')), 'hex'), 32)";
        let tick = "to_char(t.tick AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
        let given_up = self.0.give_up(daemon, run, tick);
        statements.into_iter().chain(given_up).collect()
    }

    /// A row that somebody else has locked is left for the next time.
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
                "DELETE FROM {daemons} WHERE daemon IN (SELECT o.daemon FROM {daemons} o WHERE o.expires_at < {ASKED} - interval '1 day' \
                 AND (o.expires_at < {ASKED} - interval '7 days' OR EXISTS (SELECT 1 FROM {daemons} n WHERE {succeeded})) \
                 FOR UPDATE OF o SKIP LOCKED)"
            ),
            format!(
                "DELETE FROM {jobs} WHERE name IN (SELECT name FROM {jobs} WHERE seen_at < {ASKED} - interval '{FORGOTTEN_AFTER} days' \
                 FOR UPDATE SKIP LOCKED)"
            ),
            format!(
                "DELETE FROM {ticks} WHERE (name, tick) IN (SELECT t.name, t.tick FROM {ticks} t \
                 WHERE NOT EXISTS (SELECT 1 FROM {jobs} j WHERE j.name = t.name) FOR UPDATE OF t SKIP LOCKED)"
            ),
        ]
    }

    /// What belongs to a tick is found by its key, whatever the server supposes of tables that grow and shrink.
    fn look(&self, look: &Look) -> String {
        let Names {
            jobs,
            ticks,
            daemons,
            runs,
            locks,
            ..
        } = &self.0;
        let job = format!("{} FROM {jobs}", select(JOB, &self.0.job_values()));
        let which = match look.since {
            None => job,
            Some(since) => format!(
                "{job} WHERE next_at <= {ASKED} UNION ALL {job} WHERE changed_at >= {}",
                moment(since)
            ),
        };
        let own_rows = format!(
            "(SELECT count(*) FROM {daemons} WHERE daemon = {})",
            text_literal(look.daemon)
        );
        let now = select(
            CLOCK,
            &[("now", micros(ASKED)), ("is_registered", own_rows)],
        );
        // A daemon that hangs may have renewed the lock for long after its own lease. `greatest` leaves out NULL.
        let start_at = "CASE WHEN t.daemon IS NULL THEN t.start_at ELSE greatest(coalesce(r.ended_at, d.gone_at, \
                        d.renewed_at + t.ttl_seconds * interval '1 second', t.started_at, t.tick), l.held_until) END";
        let is_orphan = format!(
            "(t.daemon IS NOT NULL AND (NOT coalesce({}, false) OR coalesce(r.ended_at < {ASKED} - interval '{UNRECORDED} seconds', false)) \
             AND NOT coalesce(l.held_until > {ASKED}, false))::int",
            is_alive(ASKED),
        );
        let tick = select(TICK, &self.0.tick_values(start_at, is_orphan));
        let daemon = select(DAEMON, &[("daemon", "daemon".to_owned())]);
        format!(
            "{which} UNION ALL {now} UNION ALL {tick} FROM {ticks} t \
             LEFT JOIN LATERAL (SELECT renewed_at, gone_at FROM {daemons} WHERE daemon = t.daemon LIMIT 1) d ON true \
             LEFT JOIN LATERAL (SELECT ended_at FROM {runs} WHERE run = t.run LIMIT 1) r ON true \
             LEFT JOIN LATERAL (SELECT max(expires_at) AS held_until FROM {locks} WHERE name = t.name AND owner = t.run) l ON true \
             UNION ALL {daemon} FROM {daemons} \
             WHERE expires_at > {ASKED} AND expires_at < {ASKED} + interval '{} seconds' AND leaving_at IS NULL",
            LARGEST_LAG.as_secs(),
        )
    }

    fn publish(&self, publish: &Publish, (job, [next, latest]): &NewJob) -> String {
        let [name, schedule, zone, hash, host] =
            [&job.name, &job.schedule, &job.zone, &job.hash, publish.host].map(text_literal);
        let until = moment(settled_until(publish.now));
        let is_plausible = latest.map_or_else(
            || "true".to_owned(),
            |latest| {
                let latest = moment(latest);
                format!(
                    "(j.next_at <= {latest} OR j.seen_at <= {until} AND coalesce(j.settled_at <= {until}, true))"
                )
            },
        );
        let is_kept = format!(
            "j.schedule = excluded.schedule AND j.zone = excluded.zone AND j.next_at IS NOT NULL AND {is_plausible}"
        );
        let is_overtaken = format!(
            "NOT ({is_kept}) AND coalesce(j.settled_at >= excluded.next_at AND j.settled_at <= {until}, false)"
        );
        let is_whole = format!("{is_kept} AND j.definition = excluded.definition");
        let unless = |condition: &str, columns: &[&str]| {
            let each = columns.iter().map(|column| {
                format!(
                    "{column} = CASE WHEN {condition} THEN j.{column} ELSE excluded.{column} END"
                )
            });
            each.collect::<Vec<_>>().join(", ")
        };
        let changed = unless(
            &format!("{is_overtaken} OR {is_whole}"),
            &["changed_at", "changed_by"],
        );
        let next_at = unless(&format!("{is_overtaken} OR {is_kept}"), &["next_at"]);
        let others = ["jitter_seconds", "definition", "schedule", "zone"];
        let others = unless(&is_overtaken, &others);
        format!(
            "INSERT INTO {} AS j (name, schedule, zone, definition, jitter_seconds, next_at, changed_at, changed_by, seen_at) \
             VALUES ({name}, {schedule}, {zone}, {hash}, {}, {}, {NOW}, {host}, {NOW}) ON CONFLICT (name) DO UPDATE SET \
             {changed}, {next_at}, {others}, seen_at = excluded.seen_at",
            self.0.jobs,
            job.jitter,
            self.0.words.optional_moment(*next),
        )
    }

    fn touch(&self, jobs: &[&Definition], since: Duration, until: Option<i64>) -> String {
        format!(
            "UPDATE {0} j SET seen_at = {NOW} FROM (SELECT name FROM {0} WHERE {1} ORDER BY name FOR UPDATE) due WHERE j.name = due.name",
            self.0.jobs,
            self.0.is_to_be_noted(jobs, since, until)
        )
    }

    /// With `x.name = j.name` the server may go through the runs of all names in the order of their times, as that of the names is the
    /// same.
    fn listed_jobs(&self) -> String {
        let Names { jobs, runs, .. } = &self.0;
        format!(
            "SELECT {} FROM {jobs} j LEFT JOIN LATERAL (SELECT * FROM {runs} x WHERE x.name BETWEEN j.name AND j.name \
             AND x.acquired_at IS NOT NULL ORDER BY x.name DESC, x.requested_at DESC LIMIT 1) r ON true ORDER BY j.name",
            self.0.listed_columns()
        )
    }
}
