//! The records of a run: its grant, its end, or why it did not run. Each statement may be sent again if its answer was lost: the second
//! time it changes nothing.

use super::{DIED, Journal, Outcome, RunEnd, postgres, recorder_of_token_ends};
use crate::db::sql::{ago, optional_moment, optional_number};
use crate::db::{Kind, postgres_sql, text_literal};
use crate::lock::rows::RecordTokenEnd;
use crate::schema::RUNS;

/// The columns of a run's facts.
const FACTS: &str =
    "run, name, slot, slot_name, tick, attempt, host, pid, user, program, connection, requested_at";

impl Journal {
    /// The statement that records the grant of this slot on this session. With an `owner` it records the grant only if the slot's row
    /// belongs to that owner: it belongs in the transaction of the grant, after the statement that takes the row. If a run is granted the
    /// lock again after a lost answer, the latest grant counts.
    pub fn start(&self, slot: u32, connection: u64, owner: Option<&str>) -> String {
        if self.tables.kind() == Kind::Postgres {
            return postgres::start(self, slot, connection, owner);
        }
        let facts = self.facts(Some(slot), Some(connection));
        let runs = self.tables.runs();
        let insert =
            format!("/* dblock record start */ INSERT INTO {runs} ({FACTS}, acquired_at, fence)");
        // The fence identifies a row's grant; the session identifies any other.
        let (source, grant) = match owner {
            Some(owner) => (
                format!(
                    "SELECT {facts}, UTC_TIMESTAMP(6), l.fence FROM {} l WHERE l.name = {} AND l.slot = {slot} AND l.owner = {}",
                    self.tables.locks(),
                    text_literal(&self.facts.name),
                    text_literal(owner)
                ),
                [("slot", slot.to_string()), ("fence", "l.fence".to_owned())],
            ),
            None => (
                format!("VALUES ({facts}, UTC_TIMESTAMP(6), NULL)"),
                [
                    ("slot", slot.to_string()),
                    ("connection", connection.to_string()),
                ],
            ),
        };
        let is_same = grant
            .iter()
            .map(|(column, value)| format!("{runs}.{column} <=> {value}"));
        let is_same = is_same.collect::<Vec<_>>().join(" AND ");
        let slot_name = text("slot_name", self.facts.slot_name.as_deref());
        let connection = connection.to_string();
        let again = [
            ("slot_name", &*slot_name),
            ("connection", &connection),
            ("acquired_at", "UTC_TIMESTAMP(6)"),
            ("started_at", "NULL"),
            ("ended_at", "NULL"),
            ("outcome", "NULL"),
            ("message", "NULL"),
        ]
        .into_iter()
        .filter(|(column, _)| grant.iter().all(|(of_grant, _)| of_grant != column))
        .map(|(column, value)| {
            format!("{runs}.{column} = IF({is_same}, {runs}.{column}, {value})")
        });
        // The columns that identify the grant come last, as the server may assign one column after the other.
        let last = grant
            .iter()
            .map(|(column, value)| format!("{runs}.{column} = {value}"));
        let again = again.chain(last).collect::<Vec<_>>().join(", ");
        format!("{insert} {source} ON DUPLICATE KEY UPDATE {again}")
    }

    /// The statement that removes the record of a run that never started. It belongs in the transaction that frees the row.
    pub fn withdrawal(&self) -> String {
        format!(
            "/* dblock forget start */ DELETE FROM {} WHERE run = {} AND ended_at IS NULL",
            self.tables.runs(),
            id_text(self.tables.kind(), &self.facts.run)
        )
    }

    /// Records that a script has lost its lock to this run.
    pub fn on_token_end(&self) -> RecordTokenEnd {
        let by = format!("{}, pid {}", self.facts.host, self.facts.pid);
        recorder_of_token_ends(&self.tables, by)
    }

    /// The statements in the transaction of a grant: [`Journal::start`] for the slot and the connection id, for a row with this `owner`.
    /// Slots may have names.
    pub fn on_grant(
        &self,
        owner: &str,
        slot_names: &[String],
    ) -> impl Fn(u32, u64) -> Vec<String> + use<> {
        let (journal, owner, names) = (self.clone(), owner.to_owned(), slot_names.to_vec());
        move |slot, connection| {
            let mut journal = journal.clone();
            journal.facts.slot_name = names.get(slot as usize).cloned();
            vec![journal.start(slot, connection, Some(&owner))]
        }
    }

    /// The statements that record how the run ended. They may be sent one by one, in this order.
    pub fn end(&self, end: &RunEnd) -> Vec<String> {
        if self.tables.kind() == Kind::Postgres {
            return postgres::end(self, end);
        }
        let run = text_literal(&self.facts.run);
        let ended = ago(end.ended_ago);
        let started = end.ran.map(|ran| ago(end.ended_ago.saturating_add(ran)));
        // The clocks of host and server may run at different speeds; the start is never shown before the grant.
        let shown_start = started
            .as_ref()
            .map(|started| format!("COALESCE(GREATEST({started}, acquired_at), {started})"));
        let name = &self.facts.name;
        // If a host was only stopped, its own record replaces that of whoever took it for dead.
        let is_open = format!(
            "(ended_at IS NULL OR message = {})",
            text("message", Some(&format!("{name}: {DIED}")))
        );
        let update = format!(
            "/* dblock record end */ UPDATE {} SET outcome = {}, exit_code = {}, signal_name = {}, message = {}, \
             tick = {}, started_at = {}, ended_at = {ended} WHERE run = {run} AND {is_open}",
            self.tables.runs(),
            text_literal(end.outcome.word()),
            optional_number(end.exit_code),
            text("signal_name", end.signal.as_deref()),
            text("message", end.message.as_deref()),
            optional_moment(self.facts.tick),
            shown_start.as_deref().unwrap_or("NULL"),
        );
        let success = end
            .succeeded
            .then(|| self.success(&started.unwrap_or_else(|| ended.clone()), &ended));
        std::iter::once(update).chain(success).collect()
    }

    /// The statement that records the release of this slot by a script, if the row still belongs to the script. It belongs in the
    /// transaction that frees the row, before the statement that does.
    pub fn released(&self, slot: u32) -> String {
        if self.tables.kind() == Kind::Postgres {
            return postgres::released(self, slot);
        }
        let run = text_literal(&self.facts.run);
        format!(
            "/* dblock record release */ UPDATE {} SET outcome = {}, ended_at = UTC_TIMESTAMP(6) WHERE run = {run} \
             AND ended_at IS NULL AND EXISTS (SELECT 1 FROM {} WHERE name = {} AND slot = {slot} AND owner = {run})",
            self.tables.runs(),
            text_literal(Outcome::Released.word()),
            self.tables.locks(),
            text_literal(&self.facts.name)
        )
    }

    /// The statement that records a run that did not start, and why. It may have been granted the lock before, on a lost session.
    pub fn skip(&self, message: &str, outcome: Outcome) -> String {
        if self.tables.kind() == Kind::Postgres {
            return postgres::skip(self, message, outcome);
        }
        let (outcome, message) = (text_literal(outcome.word()), text("message", Some(message)));
        let again = [
            ("slot", "NULL"),
            ("slot_name", "NULL"),
            ("fence", "NULL"),
            ("connection", "NULL"),
            ("acquired_at", "NULL"),
            ("outcome", &*outcome),
            ("message", &*message),
            // Last, as the server may assign one column after the other.
            ("ended_at", "UTC_TIMESTAMP(6)"),
        ]
        .map(|(column, value)| format!("{column} = IF(ended_at IS NULL, {value}, {column})"));
        format!(
            "/* dblock record skip */ INSERT INTO {} ({FACTS}, ended_at, outcome, message) \
             VALUES ({}, UTC_TIMESTAMP(6), {outcome}, {message}) ON DUPLICATE KEY UPDATE {}",
            self.tables.runs(),
            self.facts(self.facts.slot, self.facts.connection),
            again.join(", ")
        )
    }

    /// The statement that makes this the last success of its name, if it began later than the recorded one. The recorded tick never goes
    /// back, although a run for an earlier tick may end later.
    ///
    /// It works whether the server assigns one column after the other or all at once: `run` comes last, and the conditions give the same
    /// result with the old `started_at` and the new one, which is no later than this start.
    fn success(&self, started: &str, ended: &str) -> String {
        let facts = &self.facts;
        let run = text_literal(&facts.run);
        let tick = optional_moment(facts.tick);
        let (host, program) = (
            text("host", Some(&facts.host)),
            text("program", Some(&facts.program)),
        );
        let pid = facts.pid;
        let later = format!("NOT (run <=> {run}) AND started_at <= {started}");
        let set = |column: &str, value: &str| format!("{column} = IF({later}, {value}, {column})");
        let [column, value, longer] = match self.needed {
            Some(needed) if self.tables.has_floor() => {
                let needed = needed.as_secs().min(u32::MAX.into());
                let longer = format!("needed_seconds = GREATEST(needed_seconds, {needed}), ");
                [", needed_seconds".to_owned(), format!(", {needed}"), longer]
            }
            _ => [const { String::new() }; 3],
        };
        format!(
            "/* dblock record success */ INSERT INTO {} (name, tick, run, host, pid, program, started_at, ended_at{column}) \
             VALUES ({}, {tick}, {run}, {host}, {pid}, {program}, {started}, {ended}{value}) ON DUPLICATE KEY UPDATE \
             tick = COALESCE(GREATEST(tick, {tick}), tick, {tick}), {longer}{}, {}, {}, {}, {}, \
             run = IF(started_at <= {started}, {run}, run)",
            self.tables.successes(),
            text("name", Some(&facts.name)),
            set("host", &host),
            set("pid", &pid.to_string()),
            set("program", &program),
            set("ended_at", ended),
            set("started_at", started),
        )
    }

    /// The values of [`FACTS`].
    fn facts(&self, slot: Option<u32>, connection: Option<u64>) -> String {
        let facts = &self.facts;
        [
            text_literal(&facts.run),
            text("name", Some(&facts.name)),
            optional_number(slot),
            text("slot_name", facts.slot_name.as_deref()),
            optional_moment(facts.tick),
            facts.attempt.to_string(),
            text("host", Some(&facts.host)),
            facts.pid.to_string(),
            text("user", Some(&facts.user)),
            text("program", Some(&facts.program)),
            optional_number(connection),
            ago(self.requested.elapsed()),
        ]
        .join(", ")
    }
}

/// The id of a run, as a literal for servers of this kind.
fn id_text(kind: Kind, run: &str) -> String {
    match kind {
        Kind::MySql => text_literal(run),
        Kind::Postgres => postgres_sql::text_literal(run),
    }
}

/// A text for a column of the history, cut to the column's width.
pub(super) fn text(column: &str, text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), |text| RUNS.literal(column, text))
}
