//! The statements on the table of durable locks on PostgreSQL. A write that waits for another one of the same row decides by what that has
//! left, as the session has READ COMMITTED.

use super::{From, OwnRows, RowsText, Terms};
use crate::db::postgres_sql::{
    NOW, after_seconds, micros, micros_between, optional_text, text_literal,
};
use crate::lock::HolderKind;
use crate::lock::rows::change::Change;
use crate::schema::{OLDER_FENCE, Tables};

/// The server's time, in microseconds since 1970.
pub fn clock() -> String {
    micros(NOW)
}

/// The columns that [`SlotState::read`](crate::lock::rows::state::SlotState::read) reads, of the row `l`, its run `r` in the history, and the
/// time `t.now`.
fn columns() -> String {
    format!(
        "l.slot, l.fence, l.owner, l.write_id, {} AS expires_in, {} AS age, {} AS held_for, \
         l.kill_requested_by, r.host, r.pid, r.program, r.connection, r.\"user\", l.ttl_seconds, l.owner_name, l.kind, \
         CASE WHEN l.command_until > t.now THEN l.command_run END AS command_run",
        micros_between("t.now", "l.expires_at"),
        micros_between("l.renewed_at", "t.now"),
        micros_between("l.acquired_at", "t.now"),
    )
}

/// The rows, their runs, and the time, which is read once: an expression that may change from row to row would keep the server from finding
/// the run by its key.
fn source(tables: &Tables) -> String {
    format!(
        "(SELECT {NOW} AS now) t CROSS JOIN {} l LEFT JOIN {} r \
         ON r.run = CASE WHEN l.command_until > t.now THEN l.command_run ELSE l.owner END",
        tables.locks(),
        tables.runs()
    )
}

/// Reads the rows `l` for which this condition holds, whoever holds them.
pub fn rows(tables: &Tables, which: &str) -> String {
    format!(
        "SELECT {}, l.name, (r.run IS NOT NULL)::int AS in_history, (l.renewed_at >= l.kill_requested_at)::int AS knows_killer \
         FROM {} WHERE {which} ORDER BY l.name, l.slot",
        columns(),
        source(tables)
    )
}

/// The assignments that extend a grant to this many seconds from now.
pub fn lasting(ttl: &str) -> String {
    let expires = after_seconds(ttl);
    format!("renewed_at = {NOW}, expires_at = {expires}, ttl_seconds = {ttl}")
}

/// Writes the statements of one owner of one lock.
pub struct PostgresRows(pub(super) OwnRows);

impl RowsText for PostgresRows {
    fn look(&self, slot: Option<u32>) -> String {
        let slots = match slot {
            Some(slot) => format!("l.slot = {slot}"),
            None => format!("l.slot < {}", self.0.slots),
        };
        format!(
            "SELECT {} FROM {} WHERE l.name = {} AND {slots}",
            columns(),
            source(&self.0.tables),
            self.0.name
        )
    }

    /// Whoever raises the floor waits for this statement, or this one for that. Then it reads the new floor.
    fn create(&self, slot: u32) -> String {
        format!(
            "INSERT INTO {} (name, slot, renewed_at, fence) \
             SELECT {}, {slot}, {NOW}, coalesce(m.fence_floor, {OLDER_FENCE}) FROM {} m WHERE m.id = 1 FOR SHARE \
             ON CONFLICT (name, slot) DO NOTHING",
            self.0.tables.locks(),
            self.0.name,
            self.0.tables.meta()
        )
    }

    fn take(&self, slot: u32, from: From, write_id: u64, terms: &Terms) -> String {
        let condition = match from {
            From::Nobody => "owner IS NULL".to_owned(),
            From::Fence(fence) => format!("fence = {fence}"),
            From::Expired(fence) => format!("fence = {fence} AND {}", self.is_over("expires_at")),
        };
        let ttl = terms.ttl.unwrap_or_default().as_secs().to_string();
        format!(
            "UPDATE {} SET fence = fence + 1, owner = {}, write_id = {write_id}, kind = '{}', owner_name = {}, \
             acquired_at = {NOW}, {}, command_run = NULL, command_until = NULL, kill_requested_at = NULL, \
             kill_requested_by = NULL WHERE {} AND {condition} RETURNING fence",
            self.0.tables.locks(),
            self.0.owner,
            terms.kind.name(),
            optional_text(terms.owner_name),
            lasting(&ttl),
            self.0.place(slot),
        )
    }

    fn renewal(
        &self,
        change: Change,
        (slot, fence): (u32, u64),
        write_id: u64,
        terms: &Terms,
    ) -> String {
        let kept = "coalesce(ttl_seconds, 0)";
        let ttl = match terms.ttl.map(|ttl| ttl.as_secs()) {
            None => kept.to_owned(),
            Some(ttl) if terms.kind == HolderKind::Run => ttl.to_string(),
            Some(ttl) => format!(
                "CASE WHEN command_until > {NOW} THEN greatest({kept}, {ttl}) ELSE {ttl} END"
            ),
        };
        let (command, is_own_command) = match (change, terms.command_run.map(text_literal)) {
            (_, None) => (String::new(), String::new()),
            (Change::HandBack { .. }, Some(run)) => (
                format!(
                    ", kind = '{}', command_run = NULL, command_until = NULL",
                    HolderKind::Token.name()
                ),
                format!(" AND coalesce(command_run, {run}) = {run}"),
            ),
            // One command at a time. When `command_until` is over, a dead host's command has been ended.
            (_, Some(run)) => (
                format!(
                    ", kind = '{}', command_run = {run}, command_until = {}",
                    HolderKind::TokenRun.name(),
                    after_seconds(&ttl)
                ),
                format!(" AND (coalesce(command_run, {run}) = {run} OR command_until <= {NOW})"),
            ),
        };
        format!(
            "UPDATE {} SET write_id = {write_id}, {}{command} WHERE {}{is_own_command}",
            self.0.tables.locks(),
            lasting(&ttl),
            self.0.is_own(slot, fence)
        )
    }

    fn request_kill(&self, slot: u32, fence: u64, killer: &str) -> String {
        format!(
            "UPDATE {} SET kill_requested_at = coalesce(kill_requested_at, {NOW}), kill_requested_by = {} WHERE {}",
            self.0.tables.locks(),
            text_literal(killer),
            self.0.is_own(slot, fence)
        )
    }

    fn own(&self) -> &OwnRows {
        &self.0
    }

    fn now(&self) -> &'static str {
        NOW
    }

    fn is_over(&self, moment: &str) -> String {
        format!("coalesce({moment} <= {NOW}, true)")
    }
}
