//! What people do to a job of the crontab: pause it, resume it, or trigger it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::rules::{self, Count};
use super::super::{Schedule, Zone};
use super::entry::{DaemonFacts, JobRow, is_unseen};
use super::publish::read_job;
use super::reasons::ticks;
use super::statements::Names;
use crate::base::exit::{Failure, Reason};
use crate::db::server_facts::{is_read_only, why_read_only};
use crate::db::{Ask, Connector, Fault, Session, ask, command, no_answer};
use crate::history::Deed;
use crate::schema::{self, CRON_DAEMONS, CRON_JOBS, Tables};

/// Reaches a server with the crontab's tables, however long that takes. With `writes` the server must take writes.
/// `on_read_only` is told of each round without one: the line about a server if all are read-only, and otherwise `None`.
///
/// # Errors
/// A failure that another attempt would not solve; or no server has the tables.
pub fn reach(
    connector: &Connector,
    tables: &Tables,
    writes: bool,
    on_read_only: &dyn Fn(Option<&str>),
) -> Result<Session, Failure> {
    let open = |session: &mut Session| {
        schema::prepare_for_transactions(session)?;
        tables.check_cron(session).map_err(Fault::of_tables)?;
        if writes && is_read_only(session)? {
            return Err(Fault::ReadOnly(why_read_only(session).to_owned()));
        }
        Ok(())
    };
    let (session, ()) = connector.reach_unless(open, |fault| {
        on_read_only(fault.read_only());
        Ok(connector.pause())
    })?;
    Ok(session)
}

/// Pauses a job: it does not run at its ticks.
///
/// # Errors
/// [`Fault::Final`] if there is no such job; any other fault of a statement.
pub fn pause(name: &str, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    in_transaction("pause", session, |session| {
        let (_, job) = find_job(name, tables, session)?;
        if job.is_paused {
            return Ok(());
        }
        let pause = set_to_now(tables, "paused_at", name);
        session.run(&command("cron pause", pause))?;
        Deed::to(name, "cron pause", None).record_with(tables, session)
    })
}

/// The daemons that could run a job.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Runners {
    /// How many daemons are alive.
    pub daemons: u64,
    /// Whether no daemon has had the job in its file for a while.
    pub is_in_no_file: bool,
    /// Whether the job was triggered before, and has not started since.
    pub was_triggered: bool,
}

/// Triggers a job. Returns who could run it. After a temporary fault nothing was changed, and it can be repeated.
///
/// # Errors
/// As [`pause`].
pub fn trigger(name: &str, tables: &Tables, session: &mut Session) -> Result<Runners, Fault> {
    in_transaction("trigger", session, |session| {
        let (now, job) = find_job(name, tables, session)?;
        let trigger = set_to_now(tables, "triggered_at", name);
        session.run(&command("cron trigger", trigger))?;
        if job.triggered.is_none() {
            Deed::to(name, "cron trigger", None).record_with(tables, session)?;
        }
        Ok(Runners {
            daemons: session.run(&ask_runners(tables))?,
            is_in_no_file: is_unseen(job.seen, now),
            was_triggered: job.triggered.is_some(),
        })
    })
}

/// Sets this column of a job to now, unless it is set.
fn set_to_now(tables: &Tables, column: &str, name: &str) -> String {
    format!(
        "UPDATE {} SET {column} = COALESCE({column}, {now}), changed_at = {now} WHERE name = {}",
        tables.of(&CRON_JOBS),
        tables.kind().literal(name),
        now = tables.kind().now()
    )
}

/// Runs `work` in a transaction. After a temporary fault nothing was changed. If that is uncertain, the fault is [`Fault::Gone`].
fn in_transaction<T>(
    what: &str,
    session: &mut Session,
    work: impl FnOnce(&mut Session) -> Result<T, Fault>,
) -> Result<T, Fault> {
    session.run(&command(format!("cron {what}"), "BEGIN"))?;
    let done = work(session);
    let end = if done.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = session.run(&command(format!("cron {what}"), end));
    match (done, ended) {
        // It may be committed, and a daemon may act on it already. A repetition could run the job twice.
        (Ok(_), Err(Fault::Interrupted(cause) | Fault::Conflict(cause))) => Err(Fault::Gone(cause)),
        (done, ended) => ended.and(done),
    }
}

/// How many daemons are alive and take ticks.
fn ask_runners(tables: &Tables) -> Ask<'static, u64> {
    let sql = format!(
        "SELECT COUNT(*) FROM {} WHERE expires_at > {} AND leaving_at IS NULL",
        tables.of(&CRON_DAEMONS),
        tables.kind().now()
    );
    ask("cron count", sql, |rows| {
        rows.value()?.ok_or_else(no_answer)
    })
}

/// The server's time, and a job's row, which is then locked.
fn find_job(name: &str, tables: &Tables, session: &mut Session) -> Result<(i64, JobRow), Fault> {
    let names = Names::of(tables);
    let words = names.words;
    let sql = format!(
        "SELECT {} AS server_time, {} FROM {} WHERE name = {} FOR UPDATE",
        words.micros(words.now()),
        names.job_columns(),
        names.jobs,
        words.literal(name)
    );
    let job = ask("cron job", sql, |rows| {
        rows.optional(|row| Ok((row.get("server_time")?, read_job(row)?.1)))
    });
    session.run(&job)?.ok_or_else(|| {
        let line = format!(
            "there is no job {name}; a daemon adds those of its file (dblock cron run), and dblock cron list shows them"
        );
        Fault::Final(Failure::new(Reason::Configuration, line))
    })
}

/// Resumes a job. The ticks since its pause are skipped, with one row in the history, which gets this process's facts and this id. Returns
/// the number of skipped ticks; `None`: the job is not paused.
///
/// # Errors
/// As [`pause`].
pub fn resume(
    name: &str,
    by: &DaemonFacts,
    id: &str,
    tables: &Tables,
    session: &mut Session,
) -> Result<Option<Count>, Fault> {
    in_transaction("resume", session, |session| {
        let (now, job) = find_job(name, tables, session)?;
        if !job.is_paused {
            return Ok(None);
        }
        let wrong = |why: String| {
            Fault::Final(Failure::new(
                Reason::Internal,
                format!("the schedule of {name}: {why}"),
            ))
        };
        let zone = Zone::parse(&job.zone).map_err(wrong)?;
        let schedule = Schedule::parse(&job.schedule, zone, name).map_err(wrong)?;
        let (due, next) = rules::resume(&schedule, job.next, now);
        let last = due.map(|(_, last)| last);
        let names = Names::of(tables);
        let words = names.words;
        let resume = format!(
            "UPDATE {} SET paused_at = NULL, changed_at = {}, next_at = {}, settled_at = COALESCE({}, settled_at) WHERE name = {}",
            names.jobs,
            words.now(),
            words.optional_moment(next),
            words.optional_moment(last),
            words.literal(name)
        );
        session.run(&command("cron resume", resume))?;
        Deed::to(name, "cron resume", None).record_with(tables, session)?;
        let Some((first, last)) = due else {
            return Ok(Some(Count::NONE));
        };
        let count = Count::of(&schedule, (first, last));
        let shown = |tick| {
            let at = Timestamp::from_microsecond(tick).unwrap_or(Timestamp::MIN);
            schedule.tick(at).to_string()
        };
        let what = ticks(count, (first, last), &shown);
        let record = format!(
            "INSERT INTO {} ({}, ended_at, outcome, message) VALUES ({}, {})",
            names.runs,
            names.run_columns(),
            names.run(id, (name, last), "1", by, "dblock"),
            names.skipped(&format!("{name}: paused; {what} skipped"))
        );
        session.run(&command("cron resume", record))?;
        Ok(Some(count))
    })
}
