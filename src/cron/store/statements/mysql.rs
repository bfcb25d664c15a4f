//! The statements on the crontab's tables on MySQL and MariaDB. An assignment may see what those before it have written: expressions on old
//! values come first.

use std::time::Duration;

use super::{CronText, Names, OVER};
use crate::base::text::printable;
use crate::cron::rules::{AttemptEnd, Fate, LARGEST_LAG};
use crate::cron::store::attempts::{Abandon, Finish, Retake};
use crate::cron::store::daemons::{DaemonFacts, FORGOTTEN_AFTER, Register};
use crate::cron::store::look::{DAEMON, JOB, Look, NOW, TICK, UNRECORDED, select};
use crate::cron::store::manage::Skipped;
use crate::cron::store::publish::{Definition, NewJob, Publish, settled_until};
use crate::cron::store::reasons::IN_NO_FILE;
use crate::cron::store::settle::SettleStep;
use crate::cron::store::{TickRow, UNSEEN};
use crate::db::sql::{
    after, after_seconds, micros, moment, now_micros, optional_moment, optional_text, seconds_ago,
    text_literal, text_literals,
};
use crate::history::{DIED, KILLED, Outcome};
use crate::schema::{CRON_DAEMONS, RUNS};

/// The columns of a run that a daemon requests, for the history.
const RUN: &str = "run, name, tick, attempt, host, pid, user, program, requested_at";

/// Sets the start of the daemon's current life, which begins anew after its lease has run out. Must come before the new lease.
const ALIVE_SINCE: &str =
    "alive_since = IF(expires_at < UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), alive_since)";

/// Whether the daemon `n` started after `o`, of the same host and user, was gone.
const SUCCEEDED: &str =
    "n.host = o.host AND n.user = o.user AND n.started_at > COALESCE(o.gone_at, o.renewed_at)";

/// The assignment for an attempt that is over: since when no command of the tick could be started stays as it is, unless this one was about
/// to be. It comes before `started_at` is assigned.
const UNSTARTED_SINCE: &str = "unstarted_at = IF(started_at IS NULL, unstarted_at, NULL)";

/// Otherwise nothing is said for an empty list.
fn list(names: &str) -> String {
    optional_text(Some(names).filter(|names| !names.is_empty()))
}

/// SQL for: the daemon `d` of the tick `t` is gone, or has been silent for the tick's TTL. A living daemon renews its lease every few
/// seconds, so a renewal far ahead of now is that of a daemon that fell silent while the server's clock was ahead.
fn is_silent() -> String {
    format!(
        "(d.daemon IS NULL OR d.gone_at IS NOT NULL OR d.renewed_at + INTERVAL t.ttl_seconds SECOND < UTC_TIMESTAMP(6) \
         OR d.renewed_at > {})",
        after_seconds(LARGEST_LAG.as_secs())
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
        "{} AND daemon <=> {} AND started_at <=> {}",
        key(&seen.name, seen.tick, &seen.run),
        optional_text(seen.daemon.as_deref()),
        optional_moment(seen.started_at)
    )
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
        RUNS.literal("host", &daemon.host),
        daemon.pid.to_string(),
        RUNS.literal("user", &daemon.user),
        RUNS.literal("program", &printable(program)),
        "UTC_TIMESTAMP(6)".to_owned(),
    ]
    .join(", ")
}

/// The values for the end of a skipped run.
fn skipped(message: &str) -> String {
    format!(
        "UTC_TIMESTAMP(6), {}, {}",
        text_literal(Outcome::Skipped.word()),
        RUNS.literal("message", message)
    )
}

/// The columns of a job's row, each with its expression.
fn job_values() -> [(&'static str, String); 9] {
    [
        ("name", "name".to_owned()),
        ("next", micros("next_at")),
        ("settled", micros("settled_at")),
        ("triggered", micros("triggered_at")),
        ("is_paused", "paused_at IS NOT NULL".to_owned()),
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

/// Writes the statements.
pub struct MySqlCron(pub(super) Names);

impl MySqlCron {
    /// Records how a run ended, if its own processes have not, and under another condition.
    fn end_run(&self, run: &str, outcome: Outcome, why: &str, condition: &str) -> String {
        format!(
            "UPDATE {} SET ended_at = UTC_TIMESTAMP(6), outcome = {}, message = {} WHERE run = {} AND ended_at IS NULL{condition}",
            self.0.runs,
            text_literal(outcome.word()),
            RUNS.literal("message", why),
            text_literal(run)
        )
    }
}

impl CronText for MySqlCron {
    fn now(&self) -> String {
        format!("SELECT {}", now_micros())
    }

    fn register(&self, register: &Register) -> String {
        let facts = register.facts;
        let (count, definition) = (register.jobs.0, text_literal(register.jobs.1));
        let [disagrees, differs] = [register.disagrees, register.differs].map(list);
        let expires = after_seconds(register.lease);
        format!(
            "INSERT INTO {} (daemon, host, pid, user, slots, jobs, definition, disagrees, differs, started_at, renewed_at, expires_at, alive_since) \
             VALUES ({}, {}, {}, {}, {}, {count}, {definition}, {disagrees}, {differs}, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), {expires}, UTC_TIMESTAMP(6)) \
             ON DUPLICATE KEY UPDATE {ALIVE_SINCE}, jobs = {count}, definition = {definition}, disagrees = {disagrees}, differs = {differs}, renewed_at = UTC_TIMESTAMP(6), \
             expires_at = {expires}",
            self.0.daemons,
            text_literal(&facts.id),
            CRON_DAEMONS.literal("host", &facts.host),
            facts.pid,
            CRON_DAEMONS.literal("user", &facts.user),
            facts.slots,
        )
    }

    fn file_before(&self, facts: &DaemonFacts, definition: &str) -> String {
        let (daemons, id) = (&self.0.daemons, text_literal(&facts.id));
        format!(
            "SELECT COUNT(*) FROM {daemons} o WHERE o.daemon <> {id} AND o.host = {} AND o.user = {} \
             AND o.definition = {} AND NOT EXISTS (SELECT 1 FROM {daemons} n WHERE {SUCCEEDED} AND n.daemon <> {id} \
             AND NOT (n.gone_at IS NULL AND n.expires_at > UTC_TIMESTAMP(6) AND n.started_at > UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE))",
            text_literal(&facts.host),
            text_literal(&facts.user),
            text_literal(definition),
        )
    }

    fn renew(&self, daemon: &str, lease: u64) -> String {
        format!(
            "UPDATE {} SET {ALIVE_SINCE}, renewed_at = UTC_TIMESTAMP(6), expires_at = {} WHERE daemon = {}",
            self.0.daemons,
            after_seconds(lease),
            text_literal(daemon)
        )
    }

    fn stop_taking(&self, daemon: &str) -> String {
        format!(
            "UPDATE {} SET leaving_at = COALESCE(leaving_at, UTC_TIMESTAMP(6)) WHERE daemon = {}",
            self.0.daemons,
            text_literal(daemon)
        )
    }

    fn leave(&self, daemon: &str) -> String {
        format!(
            "UPDATE {} SET leaving_at = COALESCE(leaving_at, UTC_TIMESTAMP(6)), gone_at = UTC_TIMESTAMP(6), \
             expires_at = UTC_TIMESTAMP(6) WHERE daemon = {}",
            self.0.daemons,
            text_literal(daemon)
        )
    }

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
            "seen_at < {before} AND EXISTS (SELECT 1 FROM {daemons} own WHERE own.daemon = {mine} AND own.alive_since < {before} AND own.expires_at > UTC_TIMESTAMP(6))"
        );
        let of_mine = format!("FROM {ticks} t WHERE t.daemon = {mine} AND t.start_at = t.tick");
        let number = "LEFT(SHA2(CONCAT(t.run, ' given up'), 256), 32)";
        let message = format!(
            "LEFT(CONCAT(t.name, ': {IN_NO_FILE}; the tick ', DATE_FORMAT(t.tick, '%Y-%m-%dT%H:%i:%sZ'), ' is abandoned'), {})",
            RUNS.width("message")
        );
        vec![
            format!(
                "UPDATE {jobs} SET next_at = NULL, triggered_at = NULL, changed_at = UTC_TIMESTAMP(6) \
                 WHERE (next_at IS NOT NULL OR triggered_at IS NOT NULL) AND {is_old}"
            ),
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
        ]
    }

    fn prune(&self) -> [String; 3] {
        let Names {
            jobs,
            ticks,
            daemons,
            ..
        } = &self.0;
        [
            format!(
                "DELETE o FROM {daemons} o LEFT JOIN {daemons} n ON {SUCCEEDED} \
                 WHERE o.expires_at < UTC_TIMESTAMP(6) - INTERVAL 7 DAY \
                 OR o.expires_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY AND n.daemon IS NOT NULL"
            ),
            format!(
                "DELETE FROM {jobs} WHERE seen_at < UTC_TIMESTAMP(6) - INTERVAL {FORGOTTEN_AFTER} DAY"
            ),
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
        } = &self.0;
        let select = |kind, columns: &[(&str, String)]| select(kind, columns, |_| "NULL");
        let job = format!("{} FROM {jobs}", select(JOB, &job_values()));
        let which = match look.since {
            None => job,
            Some(since) => format!(
                "{job} WHERE next_at <= UTC_TIMESTAMP(6) UNION ALL {job} WHERE changed_at >= {}",
                moment(since)
            ),
        };
        let own_rows = format!(
            "(SELECT COUNT(*) FROM {daemons} WHERE daemon = {})",
            text_literal(look.daemon)
        );
        let now = select(NOW, &[("now", now_micros()), ("is_registered", own_rows)]);
        let start_at = "IF(t.daemon IS NULL, t.start_at, COALESCE(r.ended_at, d.gone_at, d.renewed_at + INTERVAL t.ttl_seconds SECOND, \
                        t.started_at, t.tick))";
        let is_orphan = format!(
            "t.daemon IS NOT NULL AND ({} OR COALESCE(r.ended_at < {}, FALSE)) \
             AND NOT EXISTS (SELECT 1 FROM {locks} l WHERE l.name = t.name AND l.owner = t.run AND l.expires_at > UTC_TIMESTAMP(6))",
            is_silent(),
            seconds_ago(UNRECORDED),
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
            "{which} UNION ALL {now} \
             UNION ALL {tick} FROM {ticks} t LEFT JOIN {daemons} d ON d.daemon = t.daemon LEFT JOIN {runs} r ON r.run = t.run \
             UNION ALL {daemon} FROM {daemons} \
             WHERE expires_at > UTC_TIMESTAMP(6) AND expires_at < {} AND leaving_at IS NULL",
            after_seconds(LARGEST_LAG.as_secs()),
        )
    }

    fn jobs(&self) -> String {
        format!("SELECT {} FROM {}", job_columns(), self.0.jobs)
    }

    fn publish(&self, publish: &Publish, (job, [next, latest]): &NewJob) -> String {
        let [name, schedule, zone, hash] =
            [&job.name, &job.schedule, &job.zone, &job.hash].map(|text| text_literal(text));
        let (host, next, jitter) = (
            text_literal(publish.host),
            optional_moment(*next),
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
            unless_overtaken(
                "changed_at",
                &format!("IF({is_whole}, changed_at, UTC_TIMESTAMP(6))"),
            ),
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
             VALUES ({name}, {schedule}, {zone}, {hash}, {jitter}, {next}, UTC_TIMESTAMP(6), {host}, UTC_TIMESTAMP(6)) \
             ON DUPLICATE KEY UPDATE {changed_at}, {changed_by}, {next_at}, {others}, seen_at = UTC_TIMESTAMP(6)",
            self.0.jobs
        )
    }

    fn touch(&self, jobs: &[&Definition], since: Duration) -> String {
        let each = jobs.iter().map(|job| {
            let [name, schedule, zone] =
                [&job.name, &job.schedule, &job.zone].map(|text| text_literal(text));
            format!("({name}, {schedule}, {zone})")
        });
        format!(
            "UPDATE {} SET seen_at = UTC_TIMESTAMP(6) WHERE seen_at < {} AND (name, schedule, zone) IN ({})",
            self.0.jobs,
            seconds_ago(since.as_secs()),
            each.collect::<Vec<_>>().join(", ")
        )
    }

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
                "triggered_at = NULL, changed_at = UTC_TIMESTAMP(6)".to_owned(),
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
                    "next_at = {} AND next_at <= UTC_TIMESTAMP(6) AND paused_at IS NULL",
                    moment(settlement.from)
                ),
            )
        };
        let alone = if settlement.is_alone {
            format!(" AND NOT EXISTS (SELECT 1 FROM {ticks} t WHERE t.name = {name})")
        } else {
            String::new()
        };
        let mut statements = vec![format!(
            "UPDATE {jobs} SET change_id = {id}, {change} WHERE name = {name} AND {condition} AND schedule = {schedule} \
             AND zone = {zone}{alone}"
        )];
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
                 ON DUPLICATE KEY UPDATE attempt = {ticks}.attempt",
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
            now_micros(),
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
                        "unstarted_at = COALESCE(unstarted_at, UTC_TIMESTAMP(6))",
                    _ => UNSTARTED_SINCE,
                },
                finish.failures,
                after(delay)
            ),
        };
        ends.into_iter().chain([tick]).collect()
    }

    fn start(&self, name: &str, tick: i64, run: &str) -> String {
        format!(
            "UPDATE {} SET started_at = UTC_TIMESTAMP(6) WHERE {}",
            self.0.ticks,
            key(name, tick, run)
        )
    }

    fn count_tick(&self, name: &str, tick: i64, run: &str) -> String {
        format!(
            "SELECT COUNT(*) FROM {} WHERE {}",
            self.0.ticks,
            key(name, tick, run)
        )
    }

    fn run_state(&self, name: &str, run: &str) -> String {
        let (name, run) = (text_literal(name), text_literal(run));
        format!(
            "SELECT (SELECT COUNT(*) FROM {} WHERE name = {name} AND owner = {run} AND expires_at > UTC_TIMESTAMP(6)) AS held, \
             (SELECT IF(COALESCE(message LIKE '{KILLED}%', FALSE), '{OVER}', CONCAT(outcome, ' ', COALESCE(exit_code, ''))) \
             FROM {} WHERE run = {run} AND ended_at IS NOT NULL) AS ended, \
             (SELECT COUNT(*) FROM {} WHERE name = {name} AND run = {run} AND started_at IS NULL) AS unstarted",
            self.0.locks, self.0.runs, self.0.ticks
        )
    }

    fn pause(&self, name: &str) -> String {
        format!(
            "UPDATE {} SET paused_at = COALESCE(paused_at, UTC_TIMESTAMP(6)), changed_at = UTC_TIMESTAMP(6) WHERE name = {}",
            self.0.jobs,
            text_literal(name)
        )
    }

    fn trigger(&self, name: &str) -> String {
        format!(
            "UPDATE {} SET triggered_at = COALESCE(triggered_at, UTC_TIMESTAMP(6)), changed_at = UTC_TIMESTAMP(6) WHERE name = {}",
            self.0.jobs,
            text_literal(name)
        )
    }

    fn runners(&self, name: &str) -> String {
        format!(
            "SELECT (SELECT COUNT(*) FROM {} WHERE expires_at > UTC_TIMESTAMP(6) AND leaving_at IS NULL) AS daemons, \
             (SELECT COUNT(*) FROM {} WHERE name = {} AND seen_at < {}) AS unseen",
            self.0.daemons,
            self.0.jobs,
            text_literal(name),
            seconds_ago(UNSEEN.as_secs())
        )
    }

    fn lock_job(&self, name: &str) -> String {
        format!(
            "SELECT {} AS server_time, {} FROM {} WHERE name = {} FOR UPDATE",
            now_micros(),
            job_columns(),
            self.0.jobs,
            text_literal(name)
        )
    }

    fn resume(&self, name: &str, next: Option<i64>, settled: Option<i64>) -> String {
        format!(
            "UPDATE {} SET paused_at = NULL, changed_at = UTC_TIMESTAMP(6), next_at = {}, \
             settled_at = COALESCE({}, settled_at) WHERE name = {}",
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

    fn listed_jobs(&self) -> String {
        let runs = &self.0.runs;
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
             r.exit_code, r.signal_name, j.jitter_seconds FROM {} j LEFT JOIN {runs} r ON r.run = (SELECT x.run FROM {runs} x WHERE x.name = j.name \
             AND x.acquired_at IS NOT NULL ORDER BY x.requested_at DESC LIMIT 1) ORDER BY j.name",
            self.0.jobs
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
            "SELECT host, pid, slots, jobs, definition, {} AS started, {} AS renewed, expires_at > UTC_TIMESTAMP(6) AS is_alive, \
             leaving_at IS NOT NULL AS is_leaving, disagrees, differs FROM {} WHERE gone_at IS NULL \
             AND expires_at > UTC_TIMESTAMP(6) - INTERVAL 1 DAY ORDER BY host, pid",
            micros("started_at"),
            micros("renewed_at"),
            self.0.daemons
        )
    }
}
