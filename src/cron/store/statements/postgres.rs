//! The statements on the crontab's tables on PostgreSQL, at READ COMMITTED.
//!
//! A write that waits for another one of the same row decides again by what that has left in the row, and still by its own snapshot of all
//! other rows. So a write whose condition is about other rows follows a statement that locks its row: then its snapshot is as new as the
//! lock. Of several rows the locks are taken in the order of their keys, so that no two sessions wait for each other.

use std::time::Duration;

use super::{CronText, Names, OVER};
use crate::base::text::printable;
use crate::cron::rules::{AttemptEnd, Fate, LARGEST_LAG};
use crate::cron::store::attempts::{Abandon, Finish, Retake};
use crate::cron::store::daemons::{DaemonFacts, FORGOTTEN_AFTER, Register};
use crate::cron::store::look::{self, DAEMON, JOB, Look, TICK, UNRECORDED};
use crate::cron::store::manage::Skipped;
use crate::cron::store::publish::{Definition, NewJob, Publish, settled_until};
use crate::cron::store::reasons::IN_NO_FILE;
use crate::cron::store::settle::SettleStep;
use crate::cron::store::{TickRow, UNSEEN};
use crate::db::postgres_sql::{
    ASKED, NOW, after, after_seconds, micros, moment, optional_moment, optional_text, seconds_ago,
    text_literal, text_literals,
};
use crate::history::{DIED, KILLED, Outcome};
use crate::schema::{CRON_DAEMONS, RUNS};

/// The columns of a run that a daemon requests, for the history.
const RUN: &str = "run, name, tick, attempt, host, pid, \"user\", program, requested_at";

/// Whether the daemon `n` started after `o`, of the same host and user, was gone.
const SUCCEEDED: &str = "n.host = o.host AND n.\"user\" = o.\"user\" AND n.started_at > coalesce(o.gone_at, o.renewed_at)";

/// The assignment for an attempt that is over: since when no command of the tick could be started stays as it is, unless this one was about
/// to be.
const UNSTARTED_SINCE: &str = "unstarted_at = CASE WHEN started_at IS NULL THEN unstarted_at END";

/// The condition that the daemon `d` of the tick `t` is not gone, and not silent: as for MySQL.
fn is_alive(now: &str) -> String {
    format!(
        "d.gone_at IS NULL AND d.renewed_at + t.ttl_seconds * interval '1 second' >= {now} \
         AND d.renewed_at <= {now} + interval '{} seconds'",
        LARGEST_LAG.as_secs()
    )
}

/// The condition on the key of a tick's row.
fn key(name: &str, tick: i64, run: &str) -> String {
    format!(
        "name = {} AND tick = {} AND run = {}",
        text_literal(name),
        moment(tick),
        text_literal(run)
    )
}

/// The condition that a tick's row is as it was read.
fn is_as_seen(seen: &TickRow) -> String {
    format!(
        "{} AND daemon IS NOT DISTINCT FROM {} AND started_at IS NOT DISTINCT FROM {}",
        key(&seen.name, seen.tick, &seen.run),
        optional_text(seen.daemon.as_deref()),
        optional_moment(seen.started_at)
    )
}

/// A text for a column of the history, cut to its width.
fn cut(column: &str, text: &str) -> String {
    text_literal(&RUNS.cut(column, text))
}

/// The values for the columns [`RUN`].
fn run(
    id: &str,
    (name, tick): (&str, i64),
    attempt: &str,
    daemon: &DaemonFacts,
    program: &str,
) -> String {
    [
        text_literal(id),
        text_literal(name),
        moment(tick),
        attempt.to_owned(),
        cut("host", &daemon.host),
        daemon.pid.to_string(),
        cut("user", &daemon.user),
        cut("program", &printable(program)),
        NOW.to_owned(),
    ]
    .join(", ")
}

/// The values for the end of a skipped run.
fn skipped(message: &str) -> String {
    format!(
        "{NOW}, {}, {}",
        text_literal(Outcome::Skipped.word()),
        cut("message", message)
    )
}

/// The columns of a job's row, each with its expression.
fn job_values() -> [(&'static str, String); 9] {
    [
        ("name", "name".to_owned()),
        ("next", micros("next_at")),
        ("settled", micros("settled_at")),
        ("triggered", micros("triggered_at")),
        ("is_paused", "(paused_at IS NOT NULL)::int".to_owned()),
        ("schedule", "schedule".to_owned()),
        ("zone", "zone".to_owned()),
        ("definition", "definition".to_owned()),
        ("seen", micros("seen_at")),
    ]
}

/// The same as a list for a SELECT.
fn job_columns() -> String {
    job_values()
        .map(|(column, value)| format!("{value} AS {column}"))
        .join(", ")
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
    look::select(kind, columns, null)
}

/// Writes the statements.
pub struct PostgresCron(pub(super) Names);

impl PostgresCron {
    /// Records how a run ended, if its own processes have not, and under another condition.
    fn end_run(&self, run: &str, outcome: Outcome, why: &str, condition: &str) -> String {
        format!(
            "UPDATE {} SET ended_at = {NOW}, outcome = {}, message = {} WHERE run = {} AND ended_at IS NULL{condition}",
            self.0.runs,
            text_literal(outcome.word()),
            cut("message", why),
            text_literal(run)
        )
    }
}

impl CronText for PostgresCron {
    fn now(&self) -> String {
        format!("SELECT {}", micros(NOW))
    }

    fn register(&self, register: &Register) -> String {
        let facts = register.facts;
        let list = |names: &str| optional_text(Some(names).filter(|names| !names.is_empty()));
        let lasting = [
            "jobs",
            "definition",
            "disagrees",
            "differs",
            "renewed_at",
            "expires_at",
        ];
        let lasting = lasting.map(|column| format!("{column} = excluded.{column}"));
        format!(
            "INSERT INTO {} AS d (daemon, host, pid, \"user\", slots, jobs, definition, disagrees, differs, started_at, renewed_at, expires_at, \
             alive_since) VALUES ({}, {}, {}, {}, {}, {}, {}, {}, {}, {NOW}, {NOW}, {}, {NOW}) ON CONFLICT (daemon) DO UPDATE SET \
             alive_since = CASE WHEN d.expires_at < {NOW} THEN {NOW} ELSE d.alive_since END, {}",
            self.0.daemons,
            text_literal(&facts.id),
            text_literal(&CRON_DAEMONS.cut("host", &facts.host)),
            facts.pid,
            text_literal(&CRON_DAEMONS.cut("user", &facts.user)),
            facts.slots,
            register.jobs.0,
            text_literal(register.jobs.1),
            list(register.disagrees),
            list(register.differs),
            after_seconds(register.lease),
            lasting.join(", ")
        )
    }

    fn file_before(&self, facts: &DaemonFacts, definition: &str) -> String {
        let (daemons, id) = (&self.0.daemons, text_literal(&facts.id));
        format!(
            "SELECT count(*) FROM {daemons} o WHERE o.daemon <> {id} AND o.host = {} AND o.\"user\" = {} \
             AND o.definition = {} AND NOT EXISTS (SELECT 1 FROM {daemons} n WHERE {SUCCEEDED} AND n.daemon <> {id} \
             AND NOT (n.gone_at IS NULL AND n.expires_at > {NOW} AND n.started_at > {NOW} - interval '1 minute'))",
            text_literal(&facts.host),
            text_literal(&facts.user),
            text_literal(definition),
        )
    }

    fn renew(&self, daemon: &str, lease: u64) -> String {
        format!(
            "UPDATE {} SET alive_since = CASE WHEN expires_at < {NOW} THEN {NOW} ELSE alive_since END, renewed_at = {NOW}, \
             expires_at = {} WHERE daemon = {}",
            self.0.daemons,
            after_seconds(lease),
            text_literal(daemon)
        )
    }

    fn stop_taking(&self, daemon: &str) -> String {
        format!(
            "UPDATE {} SET leaving_at = coalesce(leaving_at, {NOW}) WHERE daemon = {}",
            self.0.daemons,
            text_literal(daemon)
        )
    }

    fn leave(&self, daemon: &str) -> String {
        format!(
            "UPDATE {} SET leaving_at = coalesce(leaving_at, {NOW}), gone_at = {NOW}, expires_at = {NOW} WHERE daemon = {}",
            self.0.daemons,
            text_literal(daemon)
        )
    }

    /// What the claim decides by, besides the tick's row: a run that was about to start has its lock, and had noted that in the tick's row. One
    /// that acquires its lock later finds its tick gone, and does not start.
    fn retire(&self, daemon: &DaemonFacts, after: u64) -> Vec<String> {
        let Names {
            jobs,
            ticks,
            daemons,
            runs,
            locks,
        } = &self.0;
        let mine = text_literal(&daemon.id);
        let before = seconds_ago(after);
        let is_old = format!(
            "j.seen_at < {before} AND EXISTS (SELECT 1 FROM {daemons} own WHERE own.daemon = {mine} AND own.alive_since < {before} AND own.expires_at > {NOW})"
        );
        let is_set = "(j.next_at IS NOT NULL OR j.triggered_at IS NOT NULL)";
        let is_of_old =
            format!("EXISTS (SELECT 1 FROM {jobs} j WHERE j.name = t.name AND {is_old})");
        let of_mine = format!("FROM {ticks} t WHERE t.daemon = {mine} AND t.start_at = t.tick");
        let number = "left(encode(sha256(convert_to(t.run || ' given up', 'UTF8')), 'hex'), 32)";
        let tick = "to_char(t.tick AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
        let width = RUNS.width("message");
        vec![
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
            format!(
                "INSERT INTO {runs} ({RUN}, ended_at, outcome, message) SELECT {number}, t.name, t.tick, t.attempt + 1, {}, {}, {}, 'dblock', \
                 {NOW}, {NOW}, {}, left(t.name || ': {IN_NO_FILE}; the tick ' || {tick} || ' is abandoned', {width}) {of_mine}",
                cut("host", &daemon.host),
                daemon.pid,
                cut("user", &daemon.user),
                text_literal(Outcome::Skipped.word()),
            ),
            format!(
                "UPDATE {runs} SET ended_at = {NOW}, outcome = {}, message = left(name || ': {DIED}', {width}) \
                 WHERE ended_at IS NULL AND run IN (SELECT t.run {of_mine})",
                text_literal(Outcome::Failed.word()),
            ),
            format!("DELETE FROM {ticks} WHERE daemon = {mine} AND start_at = tick"),
        ]
    }

    /// A row that somebody else has locked is left for the next time.
    fn prune(&self) -> [String; 3] {
        let Names {
            jobs,
            ticks,
            daemons,
            ..
        } = &self.0;
        [
            format!(
                "DELETE FROM {daemons} WHERE daemon IN (SELECT o.daemon FROM {daemons} o WHERE o.expires_at < {ASKED} - interval '1 day' \
                 AND (o.expires_at < {ASKED} - interval '7 days' OR EXISTS (SELECT 1 FROM {daemons} n WHERE {SUCCEEDED})) \
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
        } = &self.0;
        let job = format!("{} FROM {jobs}", select(JOB, &job_values()));
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
            look::NOW,
            &[("now", micros(ASKED)), ("is_registered", own_rows)],
        );
        let start_at = "CASE WHEN t.daemon IS NULL THEN t.start_at ELSE coalesce(r.ended_at, d.gone_at, \
                        d.renewed_at + t.ttl_seconds * interval '1 second', t.started_at, t.tick) END";
        let is_orphan = format!(
            "(t.daemon IS NOT NULL AND (NOT coalesce({}, false) OR coalesce(r.ended_at < {ASKED} - interval '{UNRECORDED} seconds', false)) \
             AND l.owner IS NULL)::int",
            is_alive(ASKED),
        );
        let [name, run, attempt, failures, daemon] =
            ["name", "run", "attempt", "failures", "daemon"]
                .map(|column| (column, format!("t.{column}")));
        let tick = select(
            TICK,
            &[
                name,
                run,
                attempt,
                failures,
                daemon,
                ("tick", micros("t.tick")),
                ("start_at", micros(start_at)),
                ("started_at", micros("t.started_at")),
                ("unstarted_at", micros("t.unstarted_at")),
                ("is_orphan", is_orphan),
            ],
        );
        let daemon = select(DAEMON, &[("daemon", "daemon".to_owned())]);
        format!(
            "{which} UNION ALL {now} UNION ALL {tick} FROM {ticks} t \
             LEFT JOIN LATERAL (SELECT renewed_at, gone_at FROM {daemons} WHERE daemon = t.daemon LIMIT 1) d ON true \
             LEFT JOIN LATERAL (SELECT ended_at FROM {runs} WHERE run = t.run LIMIT 1) r ON true \
             LEFT JOIN LATERAL (SELECT owner FROM {locks} WHERE name = t.name AND owner = t.run AND expires_at > {ASKED} LIMIT 1) l ON true \
             UNION ALL {daemon} FROM {daemons} \
             WHERE expires_at > {ASKED} AND expires_at < {ASKED} + interval '{} seconds' AND leaving_at IS NULL",
            LARGEST_LAG.as_secs(),
        )
    }

    fn jobs(&self) -> String {
        format!("SELECT {} FROM {}", job_columns(), self.0.jobs)
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
            optional_moment(*next),
        )
    }

    fn touch(&self, jobs: &[&Definition], since: Duration) -> String {
        let each = jobs.iter().map(|job| {
            let texts = text_literals([&job.name, &job.schedule, &job.zone]);
            format!("({texts})")
        });
        format!(
            "UPDATE {0} j SET seen_at = {NOW} FROM (SELECT name FROM {0} WHERE seen_at < {1} AND (name, schedule, zone) IN ({2}) \
             ORDER BY name FOR UPDATE) due WHERE j.name = due.name",
            self.0.jobs,
            seconds_ago(since.as_secs()),
            each.collect::<Vec<_>>().join(", ")
        )
    }

    /// Of two daemons one may settle a trigger and the other a tick, which change different columns: only with the row locked does the second
    /// see the tick of the first.
    fn settle(&self, step: &SettleStep, daemon: &DaemonFacts) -> Vec<String> {
        let Names {
            jobs, ticks, runs, ..
        } = &self.0;
        let SettleStep {
            settlement, job, ..
        } = step;
        let [name, id, schedule, zone] =
            [&job.name, step.id, &job.schedule, &job.zone].map(text_literal);
        let (change, condition) = if settlement.is_trigger {
            (
                format!("triggered_at = NULL, changed_at = {NOW}"),
                format!("triggered_at = {}", moment(settlement.from)),
            )
        } else {
            (
                format!(
                    "settled_at = {}, next_at = {}",
                    moment(settlement.settled),
                    optional_moment(settlement.next)
                ),
                format!(
                    "next_at = {} AND next_at <= {NOW} AND paused_at IS NULL",
                    moment(settlement.from)
                ),
            )
        };
        let mut statements = Vec::new();
        let mut alone = String::new();
        if settlement.is_alone {
            statements.push(format!(
                "SELECT 1 FROM {jobs} WHERE name = {name} FOR UPDATE"
            ));
            alone = format!(" AND NOT EXISTS (SELECT 1 FROM {ticks} t WHERE t.name = {name})");
        }
        statements.push(format!(
            "UPDATE {jobs} SET change_id = {id}, {change} WHERE name = {name} AND {condition} AND schedule = {schedule} \
             AND zone = {zone}{alone}"
        ));
        let if_done = format!("FROM {jobs} WHERE name = {name} AND change_id = {id}");
        for (id, tick, message) in step.skips() {
            statements.push(format!(
                "INSERT INTO {runs} ({RUN}, ended_at, outcome, message) SELECT {}, {} {if_done}",
                run(&id, (&job.name, tick), "1", daemon, &step.program),
                skipped(&message)
            ));
        }
        let insert = |tick: i64, attempt: u8, daemon: &str| {
            format!(
                "INSERT INTO {ticks} (name, tick, run, attempt, daemon, ttl_seconds) SELECT name, {}, {id}, {attempt}, {daemon}, {} {if_done} \
                 ON CONFLICT (name, tick) DO NOTHING",
                moment(tick),
                step.ttl
            )
        };
        match settlement.fate {
            None => {}
            Some(Fate::Wait(tick)) => statements.push(insert(tick, 0, "NULL")),
            Some(Fate::Run(tick)) => {
                statements.push(insert(tick, 1, &text_literal(&daemon.id)));
                statements.push(format!(
                    "INSERT INTO {runs} ({RUN}) SELECT {} {if_done}",
                    run(step.id, (&job.name, tick), "1", daemon, &step.program)
                ));
            }
        }
        statements
    }

    fn settled(&self, names: &[&str]) -> String {
        format!(
            "SELECT {} AS server_time, change_id, {} FROM {} WHERE name IN ({})",
            micros(NOW),
            job_columns(),
            self.0.jobs,
            text_literals(names)
        )
    }

    fn retake(&self, retake: &Retake) -> Vec<String> {
        let (ticks, seen) = (&self.0.ticks, retake.seen);
        let taken = key(&seen.name, seen.tick, retake.run);
        let take = format!(
            "UPDATE {ticks} SET run = {}, daemon = {}, attempt = attempt + 1, failures = {}, start_at = NULL, \
             {UNSTARTED_SINCE}, started_at = NULL WHERE {}",
            text_literal(retake.run),
            text_literal(&retake.daemon.id),
            retake.failures,
            is_as_seen(seen)
        );
        let record = format!(
            "INSERT INTO {} ({RUN}) SELECT {} FROM {ticks} WHERE {taken}",
            self.0.runs,
            run(
                retake.run,
                (&seen.name, seen.tick),
                "attempt",
                retake.daemon,
                retake.program
            )
        );
        let exists = format!(" AND EXISTS (SELECT 1 FROM {ticks} WHERE {taken})");
        let ends = retake
            .why
            .map(|why| self.end_run(&seen.run, Outcome::Failed, why, &exists));
        [take, record].into_iter().chain(ends).collect()
    }

    fn abandon(&self, abandon: &Abandon) -> Vec<String> {
        let (ticks, seen) = (&self.0.ticks, abandon.seen);
        let taken = key(&seen.name, seen.tick, abandon.id);
        let take = format!(
            "UPDATE {ticks} SET run = {} WHERE {}",
            text_literal(abandon.id),
            is_as_seen(seen)
        );
        let record = format!(
            "INSERT INTO {} ({RUN}, ended_at, outcome, message) SELECT {}, {} FROM {ticks} WHERE {taken}",
            self.0.runs,
            run(
                abandon.id,
                (&seen.name, seen.tick),
                &(seen.attempt + 1).to_string(),
                abandon.daemon,
                abandon.program
            ),
            skipped(&abandon.message())
        );
        let exists = format!(" AND EXISTS (SELECT 1 FROM {ticks} WHERE {taken})");
        let ends = abandon
            .why
            .map(|why| self.end_run(&seen.run, Outcome::Failed, why, &exists));
        let delete = format!("DELETE FROM {ticks} WHERE {taken}");
        let all = [take, record].into_iter().chain(ends);
        all.chain([delete]).collect()
    }

    fn finish(&self, finish: &Finish) -> Vec<String> {
        let ticks = &self.0.ticks;
        let key = key(finish.name, finish.tick, finish.run);
        let ends = finish
            .why
            .map(|why| self.end_run(finish.run, finish.outcome(), why, ""));
        let tick = match finish.retry {
            None => format!("DELETE FROM {ticks} WHERE {key}"),
            Some(delay) => format!(
                "UPDATE {ticks} SET {}, daemon = NULL, started_at = NULL, failures = {}, \
                 start_at = {} WHERE {key} AND daemon IS NOT NULL",
                match finish.end {
                    AttemptEnd::Unstarted =>
                        format!("unstarted_at = coalesce(unstarted_at, {NOW})"),
                    _ => UNSTARTED_SINCE.to_owned(),
                },
                finish.failures,
                after(delay)
            ),
        };
        ends.into_iter().chain([tick]).collect()
    }

    fn start(&self, name: &str, tick: i64, run: &str) -> String {
        format!(
            "UPDATE {} SET started_at = {NOW} WHERE {}",
            self.0.ticks,
            key(name, tick, run)
        )
    }

    fn count_tick(&self, name: &str, tick: i64, run: &str) -> String {
        format!(
            "SELECT count(*) FROM {} WHERE {}",
            self.0.ticks,
            key(name, tick, run)
        )
    }

    fn run_state(&self, name: &str, run: &str) -> String {
        let (name, run) = (text_literal(name), text_literal(run));
        format!(
            "SELECT (SELECT count(*) FROM {} WHERE name = {name} AND owner = {run} AND expires_at > {NOW}) AS held, \
             (SELECT CASE WHEN coalesce(message LIKE '{KILLED}%', false) THEN '{OVER}' ELSE outcome || ' ' || coalesce(exit_code::text, '') END \
             FROM {} WHERE run = {run} AND ended_at IS NOT NULL) AS ended, \
             (SELECT count(*) FROM {} WHERE name = {name} AND run = {run} AND started_at IS NULL) AS unstarted",
            self.0.locks, self.0.runs, self.0.ticks
        )
    }

    fn pause(&self, name: &str) -> String {
        format!(
            "UPDATE {} SET paused_at = coalesce(paused_at, {NOW}), changed_at = {NOW} WHERE name = {}",
            self.0.jobs,
            text_literal(name)
        )
    }

    fn trigger(&self, name: &str) -> String {
        format!(
            "UPDATE {} SET triggered_at = coalesce(triggered_at, {NOW}), changed_at = {NOW} WHERE name = {}",
            self.0.jobs,
            text_literal(name)
        )
    }

    fn runners(&self, name: &str) -> String {
        format!(
            "SELECT (SELECT count(*) FROM {} WHERE expires_at > {NOW} AND leaving_at IS NULL) AS daemons, \
             (SELECT count(*) FROM {} WHERE name = {} AND seen_at < {}) AS unseen",
            self.0.daemons,
            self.0.jobs,
            text_literal(name),
            seconds_ago(UNSEEN.as_secs())
        )
    }

    fn lock_job(&self, name: &str) -> String {
        format!(
            "SELECT {} AS server_time, {} FROM {} WHERE name = {} FOR UPDATE",
            micros(NOW),
            job_columns(),
            self.0.jobs,
            text_literal(name)
        )
    }

    fn resume(&self, name: &str, next: Option<i64>, settled: Option<i64>) -> String {
        format!(
            "UPDATE {} SET paused_at = NULL, changed_at = {NOW}, next_at = {}, settled_at = coalesce({}, settled_at) WHERE name = {}",
            self.0.jobs,
            optional_moment(next),
            optional_moment(settled),
            text_literal(name)
        )
    }

    fn record_skip(&self, skip: &Skipped) -> String {
        format!(
            "INSERT INTO {} ({RUN}, ended_at, outcome, message) VALUES ({}, {})",
            self.0.runs,
            run(skip.id, (skip.name, skip.tick), "1", skip.by, "dblock"),
            skipped(&skip.message)
        )
    }

    /// With `x.name = j.name` the server may go through the runs of all names in the order of their times, as that of the names is the same.
    fn listed_jobs(&self) -> String {
        let moments = [
            ("j.next_at", "next"),
            ("j.paused_at", "paused"),
            ("j.triggered_at", "triggered"),
            ("j.seen_at", "seen"),
            ("r.tick", "tick"),
            ("r.acquired_at", "acquired"),
            ("r.started_at", "started"),
            ("r.ended_at", "ended"),
        ]
        .map(|(moment, name)| format!("{} AS {name}", micros(moment)))
        .join(", ");
        format!(
            "SELECT j.name, j.schedule, j.zone, j.changed_by, {moments}, r.run, r.attempt, r.host, r.outcome, \
             r.exit_code, r.signal_name, j.jitter_seconds FROM {} j LEFT JOIN LATERAL (SELECT * FROM {} x WHERE x.name BETWEEN j.name AND j.name \
             AND x.acquired_at IS NOT NULL ORDER BY x.name DESC, x.requested_at DESC LIMIT 1) r ON true ORDER BY j.name",
            self.0.jobs, self.0.runs
        )
    }

    fn listed_ticks(&self) -> String {
        format!(
            "SELECT t.name, {} AS tick_at, t.attempt, d.host, {} AS retry FROM {} t LEFT JOIN {} d ON d.daemon = t.daemon \
             ORDER BY t.name, t.tick",
            micros("t.tick"),
            micros("t.start_at"),
            self.0.ticks,
            self.0.daemons
        )
    }

    fn listed_daemons(&self) -> String {
        format!(
            "SELECT host, pid, slots, jobs, definition, {} AS started, {} AS renewed, (expires_at > {NOW})::int AS is_alive, \
             (leaving_at IS NOT NULL)::int AS is_leaving, disagrees, differs FROM {} WHERE gone_at IS NULL \
             AND expires_at > {NOW} - interval '1 day' ORDER BY host, pid",
            micros("started_at"),
            micros("renewed_at"),
            self.0.daemons
        )
    }
}
