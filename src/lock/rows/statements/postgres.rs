//! The statements on the table of durable locks on PostgreSQL. A write that waits for another one of the same row decides by what that has
//! left, as the session has READ COMMITTED.

use super::{From, Only, RowsText, Terms, Which};
use crate::db::postgres_sql::{
    NOW, after_seconds, micros, micros_between, optional_text, text_literal, text_literals,
};
use crate::lock::rows::change::Change;
use crate::lock::{HolderKind, Name};
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
pub struct PostgresRows {
    tables: Tables,
    /// SQL literals.
    name: String,
    owner: String,
    slots: u32,
}

impl PostgresRows {
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
            "UPDATE {} SET owner = NULL, owner_name = NULL, write_id = {write_id}, renewed_at = {NOW}, expires_at = NULL, \
             command_run = NULL, command_until = NULL, kill_requested_at = NULL, kill_requested_by = NULL",
            self.tables.locks()
        )
    }
}

/// The condition that a moment is over, or that there is none.
fn is_over(moment: &str) -> String {
    format!("coalesce({moment} <= {NOW}, true)")
}

impl RowsText for PostgresRows {
    fn look(&self, slot: Option<u32>) -> String {
        let slots = match slot {
            Some(slot) => format!("l.slot = {slot}"),
            None => format!("l.slot < {}", self.slots),
        };
        format!(
            "SELECT {} FROM {} WHERE l.name = {} AND {slots}",
            columns(),
            source(&self.tables),
            self.name
        )
    }

    /// Whoever raises the floor waits for this statement, or this one for that. Then it reads the new floor.
    fn create(&self, slot: u32) -> String {
        format!(
            "INSERT INTO {} (name, slot, renewed_at, fence) \
             SELECT {}, {slot}, {NOW}, coalesce(m.fence_floor, {OLDER_FENCE}) FROM {} m WHERE m.id = 1 FOR SHARE \
             ON CONFLICT (name, slot) DO NOTHING",
            self.tables.locks(),
            self.name,
            self.tables.meta()
        )
    }

    fn take(&self, slot: u32, from: From, write_id: u64, terms: &Terms) -> String {
        let condition = match from {
            From::Nobody => "owner IS NULL".to_owned(),
            From::Fence(fence) => format!("fence = {fence}"),
            From::Expired(fence) => format!("fence = {fence} AND {}", is_over("expires_at")),
        };
        let ttl = terms.ttl.unwrap_or_default().as_secs().to_string();
        format!(
            "UPDATE {} SET fence = fence + 1, owner = {}, write_id = {write_id}, kind = '{}', owner_name = {}, \
             acquired_at = {NOW}, {}, command_run = NULL, command_until = NULL, kill_requested_at = NULL, \
             kill_requested_by = NULL WHERE {} AND {condition} RETURNING fence",
            self.tables.locks(),
            self.owner,
            terms.kind.name(),
            optional_text(terms.owner_name),
            lasting(&ttl),
            self.place(slot),
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
            self.tables.locks(),
            lasting(&ttl),
            self.is_own(slot, fence)
        )
    }

    fn free(&self, slot: u32, fence: u64, write_id: u64, only: Only) -> String {
        let condition = match only {
            Only::Expired => format!(" AND {}", is_over("expires_at")),
            Only::Token => format!(
                " AND kind <> '{}' AND {}",
                HolderKind::Run.name(),
                is_over("command_until")
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
            "UPDATE {} SET kill_requested_at = coalesce(kill_requested_at, {NOW}), kill_requested_by = {} WHERE {}",
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
