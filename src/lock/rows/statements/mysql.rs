//! The statements on the table of durable locks on MySQL and MariaDB.

use super::{From, Only, RowsText, Terms, Which};
use crate::db::sql::{after_seconds, optional_text, text_literals};
use crate::db::text_literal;
use crate::lock::rows::change::Change;
use crate::lock::{HolderKind, Name};
use crate::schema::{OLDER_FENCE, Tables};

/// The server's time, in microseconds since 1970.
pub const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// The columns that [`SlotState::read`](crate::lock::rows::state::SlotState::read) reads, of the row `l` and its run `r` in the history.
const COLUMNS: &str = "l.slot, l.fence, l.owner, l.write_id, \
     TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), l.expires_at) AS expires_in, \
     TIMESTAMPDIFF(MICROSECOND, l.renewed_at, UTC_TIMESTAMP(6)) AS age, \
     TIMESTAMPDIFF(MICROSECOND, l.acquired_at, UTC_TIMESTAMP(6)) AS held_for, \
     l.kill_requested_by, r.host, r.pid, r.program, r.connection, r.user, l.ttl_seconds, l.owner_name, l.kind, \
     IF(l.command_until > UTC_TIMESTAMP(6), l.command_run, NULL) AS command_run";

/// The condition that run `r` of the history is the holder of row `l`: the run of a command, if there is one.
const HOLDER: &str = "r.run = IF(l.command_until > UTC_TIMESTAMP(6), l.command_run, l.owner)";

/// Reads rows, whoever holds them.
pub fn rows(tables: &Tables, which: Which) -> String {
    let which = match which {
        Which::Held([]) => "l.owner IS NOT NULL".to_owned(),
        Which::Held(names) => {
            let names = text_literals(names.iter().map(Name::to_string));
            format!("l.name IN ({names}) AND l.owner IS NOT NULL")
        }
        Which::Slot(name, slot) => {
            let name = text_literal(&name.to_string());
            format!("l.name = {name} AND l.slot = {slot}")
        }
    };
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
pub struct MySqlRows {
    tables: Tables,
    /// SQL literals.
    name: String,
    owner: String,
    slots: u32,
}

impl MySqlRows {
    /// For the first `slots` slots of the lock.
    pub fn new(tables: &Tables, name: &Name, slots: u32, owner: &str) -> Self {
        Self {
            tables: tables.clone(),
            name: text_literal(&name.to_string()),
            owner: text_literal(owner),
            slots,
        }
    }

    fn place(&self, slot: u32) -> String {
        format!("name = {} AND slot = {slot}", self.name)
    }

    /// The release counts as the last use of the row.
    fn freeing(&self, write_id: u64) -> String {
        format!(
            "UPDATE {} SET owner = NULL, owner_name = NULL, write_id = {write_id}, renewed_at = UTC_TIMESTAMP(6), expires_at = NULL, \
             command_run = NULL, command_until = NULL, kill_requested_at = NULL, kill_requested_by = NULL",
            self.tables.locks()
        )
    }
}

impl RowsText for MySqlRows {
    fn look(&self, slot: Option<u32>) -> String {
        let slots = match slot {
            Some(slot) => format!("l.slot = {slot}"),
            None => format!("l.slot < {}", self.slots),
        };
        format!(
            "SELECT {COLUMNS} FROM {} l LEFT JOIN {} r ON {HOLDER} WHERE l.name = {} AND {slots}",
            self.tables.locks(),
            self.tables.runs(),
            self.name
        )
    }

    fn create(&self, slot: u32) -> String {
        let (locks, name) = (self.tables.locks(), &self.name);
        let create = format!("INSERT IGNORE INTO {locks}");
        if !self.tables.has_floor() {
            return format!("{create} (name, slot) VALUES ({name}, {slot})");
        }
        format!(
            "{create} (name, slot, renewed_at, fence) VALUES ({name}, {slot}, UTC_TIMESTAMP(6), \
             (SELECT COALESCE(MAX(fence_floor), {OLDER_FENCE}) FROM {} WHERE id = 1 LOCK IN SHARE MODE))",
            self.tables.meta()
        )
    }

    fn take(&self, slot: u32, from: From, write_id: u64, terms: &Terms) -> String {
        let condition = match from {
            From::Nobody => "owner IS NULL".to_owned(),
            From::Fence(fence) => format!("fence = {fence}"),
            From::Expired(fence) => format!(
                "fence = {fence} AND IFNULL(expires_at, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)"
            ),
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
            self.tables.locks(),
            self.owner,
            terms.kind.name(),
            lasting(&ttl),
            self.place(slot),
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
            self.tables.locks(),
            lasting(&ttl),
            self.is_own(slot, fence)
        )
    }

    fn free(&self, slot: u32, fence: u64, write_id: u64, only: Only) -> String {
        let condition = match only {
            Only::Expired => {
                " AND IFNULL(expires_at, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)".to_owned()
            }
            Only::Token => format!(
                " AND kind <> '{}' AND IFNULL(command_until, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)",
                HolderKind::Run.name()
            ),
            Only::Always => String::new(),
        };
        format!(
            "{} WHERE {}{condition}",
            self.freeing(write_id),
            self.is_own(slot, fence)
        )
    }

    fn free_any(&self, write_id: u64) -> String {
        format!(
            "{} WHERE name = {} AND owner = {}",
            self.freeing(write_id),
            self.name,
            self.owner
        )
    }

    fn request_kill(&self, slot: u32, fence: u64, killer: &str) -> String {
        format!(
            "UPDATE {} SET kill_requested_at = IFNULL(kill_requested_at, UTC_TIMESTAMP(6)), kill_requested_by = {} WHERE {}",
            self.tables.locks(),
            text_literal(killer),
            self.is_own(slot, fence)
        )
    }

    fn if_row(&self, statement: &str, slot: u32, condition: &str) -> String {
        format!(
            "{statement} AND EXISTS (SELECT 1 FROM {} WHERE {} AND {condition})",
            self.tables.locks(),
            self.place(slot)
        )
    }

    fn is_own(&self, slot: u32, fence: u64) -> String {
        let place = self.place(slot);
        format!("{place} AND owner = {} AND fence = {fence}", self.owner)
    }

    fn is_owners(&self, fence: u64) -> String {
        format!("owner = {} AND fence = {fence}", self.owner)
    }
}
