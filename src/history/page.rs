//! A page of the history: which runs a statement selects, by which key, and how a row is read.

use super::entry::{
    Entry, FAILURES, Filter, ListedRun, PAGE, RUNNING, TimeBound, UNKNOWN, UNSEEN, VANISHED,
};
use super::output::has_output;
use super::{EXPIRED, Outcome, RunCursor};
use crate::base::text::{ServerTime, Span};
use crate::db::{Ask, Fault, Kind, Row, ask};
use crate::lock::named::postgres_held_keys;
use crate::lock::{HolderKind, Name};
use crate::schema::{RUNS, Tables};

/// A page of the selected runs, the newest first.
pub(super) struct Page<'a> {
    pub(super) tables: &'a Tables,
    pub(super) filter: &'a Filter,
    /// The last run of the page before.
    pub(super) before: Option<RunCursor>,
    pub(super) limit: usize,
    pub(super) sees_sessions: bool,
    /// Whether to say which runs have output: the tables have that, and the account may read it.
    pub(super) sees_outputs: bool,
}

impl Page<'_> {
    /// What all runs that are meant have in common.
    fn conditions(&self) -> Vec<String> {
        let mut all = Vec::new();
        let names: Vec<String> = self.filter.names.iter().map(Name::to_string).collect();
        if !names.is_empty() {
            all.push(format!("r.name IN ({})", self.literals(&names)));
        }
        for (bound, compared) in [(self.filter.since, ">="), (self.filter.until, "<")] {
            let at = match bound {
                Some(TimeBound::Ago(span)) => self.kind().once(self.kind().ago(span)),
                Some(TimeBound::At(at)) => self.kind().moment(at),
                None => continue,
            };
            all.push(format!("r.requested_at {compared} {at}"));
        }
        if let Some(host) = &self.filter.host {
            all.push(format!("r.host = {}", self.literals(&[host])));
        }
        if let Some(result) = self.filter.result {
            let word = self.literals(&[result]);
            all.push(match result {
                RUNNING | UNKNOWN => "r.outcome IS NULL".to_owned(),
                _ if result == Outcome::Lost.word() => {
                    format!("(r.outcome = {word} OR r.outcome IS NULL)")
                }
                _ => format!("r.outcome = {word}"),
            });
        }
        if let Some(run) = &self.filter.run {
            all.push(format!("r.run = {}", self.literals(&[run])));
        }
        if let Some(RunCursor { requested, run }) = &self.before {
            let at = self.kind().moment(*requested);
            all.push(format!(
                "r.requested_at <= {at} AND (r.requested_at < {at} OR r.run < {})",
                self.literals(&[run])
            ));
        }
        all
    }

    /// Each way in which a run may have failed, as a condition.
    fn failures(&self) -> Vec<String> {
        let of = |outcome: Outcome| format!("r.outcome = {}", self.literals(&[outcome.word()]));
        let ran = of(Outcome::Ran);
        let unsuccessful = format!(
            "{ran} AND (r.exit_code IS NULL OR r.exit_code <> 0 OR r.signal_name IS NOT NULL)"
        );
        let others = ["r.outcome IS NULL".to_owned(), unsuccessful];
        FAILURES.into_iter().map(of).chain(others).collect()
    }

    /// The runs that are meant, and possibly others: the end of a statement.
    fn selected(&self) -> String {
        let mut all = self.conditions();
        if self.filter.only_failed {
            all.push(format!("({})", self.failures().join(" OR ")));
        }
        where_all(&all)
    }

    fn literals<T: AsRef<str>>(&self, texts: &[T]) -> String {
        self.kind().literals(texts)
    }

    fn kind(&self) -> Kind {
        self.tables.kind()
    }
}

/// Has MySQL read runs by their outcome.
const BY_OUTCOME: &str = "FORCE INDEX (by_outcome) ";

const NEWEST_FIRST: &str = "ORDER BY r.requested_at DESC, r.run DESC";

/// A WHERE clause of these conditions, if there are any, and a space.
fn where_all(conditions: &[String]) -> String {
    if conditions.is_empty() {
        return String::new();
    }
    format!("WHERE {} ", conditions.join(" AND "))
}

impl Page<'_> {
    /// Asks for its runs.
    pub(super) fn ask(&self) -> Ask<'_, Vec<ListedRun>> {
        let sql = self.sql();
        ask("history", sql, move |rows| rows.all(|row| self.entry(row))).up_to(PAGE)
    }

    fn sql(&self) -> String {
        let kind = self.kind();
        let [tick, requested, acquired, started, ended, now] = [
            "r.tick",
            "r.requested_at",
            "r.acquired_at",
            "r.started_at",
            "r.ended_at",
            kind.now(),
        ]
        .map(|moment| kind.micros(moment));
        let has_expired = format!(
            "r.ended_at IS NULL AND EXISTS (SELECT 1 FROM {} l WHERE l.name = r.name AND l.slot = r.slot AND l.owner = r.run \
             AND l.kind <> '{}' AND l.expires_at <= {})",
            self.tables.locks(),
            HolderKind::Run.name(),
            kind.now()
        );
        let has_output = self.sees_outputs.then(|| has_output(self.tables));
        let [has_output, is_running, has_expired] = [
            has_output.as_deref().unwrap_or("FALSE"),
            &is_running("r", self.tables),
            &has_expired,
        ]
        .map(|condition| format!("CASE WHEN {condition} THEN 1 ELSE 0 END"));
        format!(
            "SELECT {requested} AS requested, {now} AS server_time, r.run, r.name, r.slot, r.slot_name, r.fence, {tick} AS tick, r.attempt, r.host, \
             r.pid, r.{}, r.program, r.connection, {acquired} AS acquired, {started} AS started, {ended} AS ended, r.outcome, r.exit_code, r.signal_name, \
             r.message, {has_output} AS has_output, {is_running} AS is_running, {has_expired} AS has_expired FROM {} {NEWEST_FIRST} LIMIT {}",
            kind.user(),
            self.source(),
            self.limit
        )
    }

    /// Where the runs come from, with the condition.
    fn source(&self) -> String {
        let (filter, runs) = (self.filter, self.tables.runs());
        let has_other = filter.run.is_some()
            || !filter.names.is_empty()
            || filter.host.is_some()
            || filter.result.is_some();
        if !filter.only_failed || has_other || !self.has_keys() {
            return format!("{runs} r {}{}", self.key(), self.selected());
        }
        // Most runs succeed: the failures are read by the key of the outcomes, which has all that tells them, each kind for itself.
        let of_each = self.failures().into_iter().enumerate().map(|(number, failure)| {
            let mut all = self.conditions();
            all.push(failure);
            format!(
                "SELECT run, requested_at FROM (SELECT r.run, r.requested_at FROM {runs} r {BY_OUTCOME}{}{NEWEST_FIRST} LIMIT {}) kind{number}",
                where_all(&all),
                self.limit
            )
        });
        format!(
            "(SELECT run FROM ({}) failed ORDER BY requested_at DESC, run DESC LIMIT {}) page STRAIGHT_JOIN {runs} r ON r.run = page.run",
            of_each.collect::<Vec<_>>().join(" UNION ALL "),
            self.limit
        )
    }

    /// The key that is meant for the conditions. By itself MySQL may read all runs in the order of their time, down to the first that fit.
    fn key(&self) -> &'static str {
        let filter = self.filter;
        if filter.run.is_some() || !filter.names.is_empty() || !self.has_keys() {
            return "";
        }
        match (&filter.host, filter.result) {
            (Some(_), _) => "FORCE INDEX (by_host) ",
            (None, Some(_)) => BY_OUTCOME,
            (None, None) => "",
        }
    }

    /// Whether there are keys to be named: PostgreSQL chooses them itself.
    fn has_keys(&self) -> bool {
        self.kind() == Kind::MySql && self.tables.has_run_keys()
    }

    fn entry(&self, row: &Row) -> Result<ListedRun, Fault> {
        let at = |column| row.get::<Option<ServerTime>>(column);
        let text = |column| RUNS.text(column, row);
        let requested = row.get_or_default("requested")?;
        let now = row.get("server_time")?;
        let [acquired, started, ended] = [at("acquired")?, at("started")?, at("ended")?];
        let [is_running, has_expired] = [row.get("is_running")?, row.get("has_expired")?];
        let message = text("message")?;
        let lost = |why: &str| (Outcome::Lost.word().to_owned(), Some(why.to_owned()));
        let mut so_far = None;
        let (outcome, message) = match ended {
            Some(_) => (text("outcome")?.unwrap_or_default(), message),
            None if is_running => {
                so_far = ServerTime::between(started.or(acquired), Some(now));
                (RUNNING.to_owned(), message)
            }
            None if has_expired => lost(EXPIRED),
            None if self.sees_sessions => lost(VANISHED),
            None => (UNKNOWN.to_owned(), Some(UNSEEN.to_owned())),
        };
        let run = Entry {
            run: text("run")?.unwrap_or_default(),
            name: text("name")?.unwrap_or_default(),
            slot: row.get("slot")?,
            slot_name: text("slot_name")?,
            fence: row.get("fence")?,
            tick: at("tick")?,
            attempt: row.get("attempt")?,
            host: text("host")?,
            pid: row.get("pid")?,
            user: text("user")?,
            program: text("program")?,
            connection: row.get("connection")?,
            requested,
            acquired,
            started,
            ended,
            waited: ServerTime::between(Some(requested), acquired.or(ended)).map(Span),
            ran: ServerTime::between(started, ended).map(Span),
            outcome,
            exit_code: row.get("exit_code")?,
            signal: text("signal_name")?,
            message,
            has_output: row.get("has_output")?,
        };
        Ok((run, so_far))
    }
}

/// The condition that the run in the row with this alias has no end, and still has its session on this server, or its row.
pub(super) fn is_running(run: &str, tables: &Tables) -> String {
    let (kind, now) = (tables.kind(), tables.kind().now());
    let has_session = match kind {
        Kind::MySql => format!("IS_USED_LOCK(CONCAT('#', {run}.run)) IS NOT NULL"),
        Kind::Postgres => format!(
            "('x' || left(encode(sha256(convert_to('#' || {run}.run, 'UTF8')), 'hex'), 16))::bit(64)::bigint IN ({})",
            postgres_held_keys()
        ),
    };
    format!(
        "({run}.ended_at IS NULL AND ({has_session} OR EXISTS (SELECT 1 FROM {} l \
         WHERE l.name = {run}.name AND l.slot = {run}.slot AND (l.owner = {run}.run AND l.expires_at > {now} \
         OR l.command_run = {run}.run AND l.command_until > {now}))))",
        tables.locks()
    )
}
