//! The records of a run: its grant, its end, or why it did not run. Each statement may be sent again if its answer was lost: the second
//! time it changes nothing.
//!
//! MySQL assigns one column after the other, and PostgreSQL all at once. So what a change depends on comes last, and a column of the row
//! that is there has the table's name in front.

use super::{DIED, Journal, Outcome, RunEnd, recorder_of_token_ends};
use crate::db::Kind;
use crate::db::sql::optional_number;
use crate::lock::rows::RecordTokenEnd;
use crate::schema::RUNS;

impl Journal {
    /// The statement that records the grant of this slot on this session. With an `owner` it records the grant only if the slot's row
    /// belongs to that owner: it belongs in the transaction of the grant, after the statement that takes the row. If a run is granted the
    /// lock again after a lost answer, the latest grant counts.
    pub fn start(&self, slot: u32, connection: u64, owner: Option<&str>) -> String {
        let (kind, runs) = (self.kind(), self.tables.runs());
        let facts = self.facts(Some(slot), Some(connection));
        let now = kind.now();
        // The fence identifies a row's grant; the session identifies any other.
        let (source, identity) = match owner {
            Some(owner) => (
                format!(
                    "SELECT {facts}, {now}, l.fence FROM {} l WHERE l.name = {} AND l.slot = {slot} AND l.owner = {}",
                    self.tables.locks(),
                    kind.literal(&self.facts.name),
                    kind.literal(owner)
                ),
                ["slot", "fence"],
            ),
            None => (
                format!("VALUES ({facts}, {now}, NULL)"),
                ["slot", "connection"],
            ),
        };
        let is_same = identity.map(|column| {
            let before = format!("{runs}.{column}");
            kind.is_same(&before, &kind.inserted(column))
        });
        let is_same = is_same.join(" AND ");
        let again = ["slot_name", "connection", "acquired_at", "fence"]
            .into_iter()
            .filter(|column| !identity.contains(column))
            .map(|column| (column, kind.inserted(column)));
        let again = again.chain(
            ["started_at", "ended_at", "outcome", "message"]
                .map(|column| (column, "NULL".to_owned())),
        );
        // MySQL would take these for columns of the locks.
        let table = match kind {
            Kind::MySql => format!("{runs}."),
            Kind::Postgres => String::new(),
        };
        let again = again.map(|(column, value)| {
            format!("{table}{column} = CASE WHEN {is_same} THEN {runs}.{column} ELSE {value} END")
        });
        let last = identity.map(|column| format!("{table}{column} = {}", kind.inserted(column)));
        let again = again.chain(last).collect::<Vec<_>>().join(", ");
        format!(
            "/* dblock record start */ INSERT INTO {runs} ({}, acquired_at, fence) {source} {} {again}",
            self.columns(),
            kind.if_there("run")
        )
    }

    /// The statement that removes the record of a run that never started. It belongs in the transaction that frees the row.
    pub fn withdrawal(&self) -> String {
        format!(
            "/* dblock forget start */ DELETE FROM {} WHERE run = {} AND ended_at IS NULL",
            self.tables.runs(),
            self.kind().literal(&self.facts.run)
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
        let kind = self.kind();
        let ended = kind.ago(end.ended_ago);
        let started = end
            .ran
            .map(|ran| kind.ago(end.ended_ago.saturating_add(ran)));
        // The clocks of host and server may run at different speeds; the start is never shown before the grant.
        let shown_start = started
            .as_ref()
            .map(|started| format!("COALESCE(GREATEST({started}, acquired_at), {started})"));
        let name = &self.facts.name;
        // If a host was only stopped, its own record replaces that of whoever took it for dead.
        let is_open = format!(
            "(ended_at IS NULL OR message = {})",
            self.text("message", Some(&format!("{name}: {DIED}")))
        );
        let update = format!(
            "/* dblock record end */ UPDATE {} SET outcome = {}, exit_code = {}, signal_name = {}, message = {}, \
             tick = {}, started_at = {}, ended_at = {ended} WHERE run = {} AND {is_open}",
            self.tables.runs(),
            kind.literal(end.outcome.word()),
            optional_number(end.exit_code),
            self.text("signal_name", end.signal.as_deref()),
            self.text("message", end.message.as_deref()),
            kind.optional_moment(self.facts.tick),
            shown_start.as_deref().unwrap_or("NULL"),
            kind.literal(&self.facts.run)
        );
        let success = end
            .succeeded
            .then(|| self.success(&started.unwrap_or_else(|| ended.clone()), &ended));
        std::iter::once(update).chain(success).collect()
    }

    /// The statement that records the release of this slot by a script, if the row still belongs to the script. It belongs in the
    /// transaction that frees the row, before the statement that does.
    pub fn released(&self, slot: u32) -> String {
        let kind = self.kind();
        let run = kind.literal(&self.facts.run);
        format!(
            "/* dblock record release */ UPDATE {} SET outcome = {}, ended_at = {} WHERE run = {run} \
             AND ended_at IS NULL AND EXISTS (SELECT 1 FROM {} WHERE name = {} AND slot = {slot} AND owner = {run})",
            self.tables.runs(),
            kind.literal(Outcome::Released.word()),
            kind.now(),
            self.tables.locks(),
            kind.literal(&self.facts.name)
        )
    }

    /// The statement that records a run that did not start, and why. It may have been granted the lock before, on a lost session.
    pub fn skip(&self, message: &str, outcome: Outcome) -> String {
        let (kind, runs) = (self.kind(), self.tables.runs());
        let null = |column| (column, "NULL".to_owned());
        let inserted = |column| (column, kind.inserted(column));
        let again = [
            null("slot"),
            null("slot_name"),
            null("fence"),
            null("connection"),
            null("acquired_at"),
            inserted("outcome"),
            inserted("message"),
            inserted("ended_at"),
        ]
        .map(|(column, value)| {
            format!(
                "{column} = CASE WHEN {runs}.ended_at IS NULL THEN {value} ELSE {runs}.{column} END"
            )
        });
        format!(
            "/* dblock record skip */ INSERT INTO {runs} ({}, ended_at, outcome, message) VALUES ({}, {}, {}, {}) {} {}",
            self.columns(),
            self.facts(self.facts.slot, self.facts.connection),
            kind.now(),
            kind.literal(outcome.word()),
            self.text("message", Some(message)),
            kind.if_there("run"),
            again.join(", ")
        )
    }

    /// The statement that makes this the last success of its name, if it began later than the recorded one. The recorded tick never goes
    /// back, although a run for an earlier tick may end later.
    ///
    /// Where one column is assigned after the other, `run` comes last, and the conditions give the same result with the old `started_at`
    /// and the new one, which is no later than this start.
    fn success(&self, started: &str, ended: &str) -> String {
        let (kind, successes, facts) = (self.kind(), self.tables.successes(), &self.facts);
        let inserted = |column| kind.inserted(column);
        let starts_later = format!("{successes}.started_at <= {}", inserted("started_at"));
        let is_same = kind.is_same(&format!("{successes}.run"), &inserted("run"));
        let later = format!("NOT ({is_same}) AND {starts_later}");
        let set = ["host", "pid", "program", "ended_at", "started_at", "run"].map(|column| {
            let later = if column == "run" {
                &starts_later
            } else {
                &later
            };
            let new = inserted(column);
            format!("{column} = CASE WHEN {later} THEN {new} ELSE {successes}.{column} END")
        });
        let [column, value, longer] = match self.needed {
            Some(needed) if self.tables.has_floor() => {
                let needed = needed.as_secs().min(u32::MAX.into());
                let longer =
                    format!("needed_seconds = GREATEST({successes}.needed_seconds, {needed}), ");
                [", needed_seconds".to_owned(), format!(", {needed}"), longer]
            }
            _ => [const { String::new() }; 3],
        };
        let (old_tick, tick) = (format!("{successes}.tick"), inserted("tick"));
        format!(
            "/* dblock record success */ INSERT INTO {successes} (name, tick, run, host, pid, program, started_at, ended_at{column}) \
             VALUES ({}, {}, {}, {}, {}, {}, {started}, {ended}{value}) {} \
             tick = COALESCE(GREATEST({old_tick}, {tick}), {old_tick}, {tick}), {longer}{}",
            self.text("name", Some(&facts.name)),
            kind.optional_moment(facts.tick),
            kind.literal(&facts.run),
            self.text("host", Some(&facts.host)),
            facts.pid,
            self.text("program", Some(&facts.program)),
            kind.if_there("name"),
            set.join(", ")
        )
    }

    /// The columns of a run's facts.
    fn columns(&self) -> String {
        format!(
            "run, name, slot, slot_name, tick, attempt, host, pid, {}, program, connection, requested_at",
            self.kind().user()
        )
    }

    /// The values of these columns.
    fn facts(&self, slot: Option<u32>, connection: Option<u64>) -> String {
        let (kind, facts) = (self.kind(), &self.facts);
        [
            kind.literal(&facts.run),
            self.text("name", Some(&facts.name)),
            optional_number(slot),
            self.text("slot_name", facts.slot_name.as_deref()),
            kind.optional_moment(facts.tick),
            facts.attempt.to_string(),
            self.text("host", Some(&facts.host)),
            facts.pid.to_string(),
            self.text("user", Some(&facts.user)),
            self.text("program", Some(&facts.program)),
            optional_number(connection),
            kind.ago(self.requested.elapsed()),
        ]
        .join(", ")
    }

    fn kind(&self) -> Kind {
        self.tables.kind()
    }

    fn text(&self, column: &str, value: Option<&str>) -> String {
        RUNS.literal(self.kind(), column, value)
    }
}
