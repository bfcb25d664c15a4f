//! The statements on the table of durable locks on MySQL and MariaDB.

use super::{From, OwnRows, RowsText, Terms};
use crate::db::sql::{after_seconds, optional_text};
use crate::db::text_literal;
use crate::lock::HolderKind;
use crate::lock::rows::change::Change;
use crate::schema::{OLDER_FENCE, Tables};

/// The server's time.
const NOW: &str = "UTC_TIMESTAMP(6)";

/// The server's time, in microseconds since 1970.
pub const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The columns that [`SlotState::read`](crate::lock::rows::state::SlotState::read) reads, of the row `l` and its run `r` in the history. The
/// time is that when the statement began. One that had to wait may read a row that was written since, so the age counts the wait, too:
/// SYSDATE is the time when the row is read, unless the server was started with `--sysdate-is-now`.
const COLUMNS: &str = "l.slot, l.fence, l.owner, l.write_id, \
     TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), l.expires_at) AS expires_in, \
     TIMESTAMPDIFF(MICROSECOND, l.renewed_at, UTC_TIMESTAMP(6)) + GREATEST(0, TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6))) AS age, \
     TIMESTAMPDIFF(MICROSECOND, l.acquired_at, UTC_TIMESTAMP(6)) AS held_for, \
     l.kill_requested_by, r.host, r.pid, r.program, r.connection, r.user, l.ttl_seconds, l.owner_name, l.kind, \
     IF(l.command_until > UTC_TIMESTAMP(6), l.command_run, NULL) AS command_run";

/// The condition that run `r` of the history is the holder of row `l`: the run of a command, if there is one.
const HOLDER: &str = "r.run = IF(l.command_until > UTC_TIMESTAMP(6), l.command_run, l.owner)";

/// Reads the rows `l` for which this condition holds, whoever holds them.
pub fn rows(tables: &Tables, which: &str) -> String {
    format!(
        "SELECT {COLUMNS}, l.name, r.run IS NOT NULL AS in_history, l.renewed_at >= l.kill_requested_at AS knows_killer FROM {} l \
         LEFT JOIN {} r ON {HOLDER} WHERE {which} ORDER BY l.name, l.slot",
        tables.locks(),
        tables.runs(),
    )
}

/// The assignments that extend a grant to this many seconds from now.
pub fn lasting(ttl: &str) -> String {
    let expires = after_seconds(ttl);
    format!("renewed_at = UTC_TIMESTAMP(6), expires_at = {expires}, ttl_seconds = {ttl}")
}

/// Writes the statements of one owner of one lock.
pub struct MySqlRows(pub(super) OwnRows);

impl RowsText for MySqlRows {
    fn look(&self, slot: Option<u32>) -> String {
        let slots = match slot {
            Some(slot) => format!("l.slot = {slot}"),
            None => format!("l.slot < {}", self.0.slots),
        };
        format!(
            "SELECT {COLUMNS} FROM {} l LEFT JOIN {} r ON {HOLDER} WHERE l.name = {} AND {slots}",
            self.0.tables.locks(),
            self.0.tables.runs(),
            self.0.name
        )
    }

    fn create(&self, slot: u32) -> String {
        let (locks, name) = (self.0.tables.locks(), &self.0.name);
        let create = format!("INSERT IGNORE INTO {locks}");
        if !self.0.tables.has_floor() {
            return format!("{create} (name, slot) VALUES ({name}, {slot})");
        }
        format!(
            "{create} (name, slot, renewed_at, fence) VALUES ({name}, {slot}, UTC_TIMESTAMP(6), \
             (SELECT COALESCE(MAX(fence_floor), {OLDER_FENCE}) FROM {} WHERE id = 1 LOCK IN SHARE MODE))",
            self.0.tables.meta()
        )
    }

    fn take(&self, slot: u32, from: From, write_id: u64, terms: &Terms) -> String {
        let condition = match from {
            From::Nobody => "owner IS NULL".to_owned(),
            From::Fence(fence) => format!("fence = {fence}"),
            From::Expired(fence) => format!("fence = {fence} AND {}", self.is_over("expires_at")),
        };
        let owner_name = optional_text(terms.owner_name);
        let ttl = terms.ttl.unwrap_or_default().as_secs().to_string();
        let condition = match terms.proof {
            Some(_) => format!("{condition} AND @dblock"),
            None => condition,
        };
        // LAST_INSERT_ID makes the fence part of the answer.
        format!(
            "UPDATE {} SET fence = LAST_INSERT_ID(fence + 1), owner = {}, write_id = {write_id}, kind = '{}', owner_name = {owner_name}, \
             acquired_at = UTC_TIMESTAMP(6), {}, command_run = NULL, command_until = NULL, kill_requested_at = NULL, \
             kill_requested_by = NULL WHERE {} AND {condition}",
            self.0.tables.locks(),
            self.0.owner,
            terms.kind.name(),
            lasting(&ttl),
            self.0.place(slot),
        )
    }

    /// MariaDB may assign simultaneously: expressions on old values come first.
    fn renewal(
        &self,
        change: Change,
        (slot, fence): (u32, u64),
        write_id: u64,
        terms: &Terms,
    ) -> String {
        let kept = "IFNULL(ttl_seconds, 0)";
        let ttl = match terms.ttl.map(|ttl| ttl.as_secs()) {
            None => kept.to_owned(),
            Some(ttl) if terms.kind == HolderKind::Run => ttl.to_string(),
            Some(ttl) => {
                format!("IF(command_until > UTC_TIMESTAMP(6), GREATEST({kept}, {ttl}), {ttl})")
            }
        };
        let (command, is_own_command) = match (change, terms.command_run.map(text_literal)) {
            (_, None) => (String::new(), String::new()),
            (Change::HandBack { .. }, Some(run)) => (
                format!(
                    ", kind = '{}', command_run = NULL, command_until = NULL",
                    HolderKind::Token.name()
                ),
                format!(" AND IFNULL(command_run, {run}) = {run}"),
            ),
            // One command at a time. When `command_until` is over, a dead host's command has been ended.
            (_, Some(run)) => (
                format!(
                    ", kind = '{}', command_run = {run}, command_until = {}",
                    HolderKind::TokenRun.name(),
                    after_seconds(&ttl)
                ),
                format!(
                    " AND (IFNULL(command_run, {run}) = {run} OR command_until <= UTC_TIMESTAMP(6))"
                ),
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
            "UPDATE {} SET kill_requested_at = IFNULL(kill_requested_at, UTC_TIMESTAMP(6)), kill_requested_by = {} WHERE {}",
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
        format!("IFNULL({moment}, {NOW}) <= {NOW}")
    }
}
