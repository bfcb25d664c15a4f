//! The texts of the statements on the table of durable locks, without their names. On PostgreSQL a write that waits for another one of the
//! same row decides by what that has left, as the session has READ COMMITTED.

use super::Terms;
use crate::db::Kind;
use crate::lock::HolderKind;
use crate::lock::rows::change::Change;
use crate::schema::{OLDER_FENCE, Tables};

/// Reads the rows `l` for which this condition holds, with their runs `r` in the history: the columns that
/// [`SlotState::read`](crate::lock::rows::state::SlotState::read) reads, and these `more`.
///
/// On MySQL the time is that when the statement began. One that had to wait may read a row that was written since, so the age counts the
/// wait, too: SYSDATE is the time when the row is read, unless the server was started with `--sysdate-is-now`. On PostgreSQL the time is
/// read once: an expression that may change from row to row would keep the server from finding the run by its key.
pub fn rows(tables: &Tables, more: &str, condition: &str) -> String {
    let kind = tables.kind();
    let (now, time) = match kind {
        Kind::MySql => (kind.now(), String::new()),
        Kind::Postgres => (
            "t.now",
            format!("(SELECT {} AS now) t CROSS JOIN ", kind.now()),
        ),
    };
    let expires_in = kind.micros_between(now, "l.expires_at");
    let [age, held_for] = ["l.renewed_at", "l.acquired_at"].map(|at| kind.micros_between(at, now));
    let wait = kind.only_mysql(" + GREATEST(0, TIMESTAMPDIFF(MICROSECOND, NOW(6), SYSDATE(6)))");
    format!(
        "SELECT l.slot, l.fence, l.owner, l.write_id, {expires_in} AS expires_in, {age}{wait} AS age, {held_for} AS held_for, \
         l.kill_requested_by, r.host, r.pid, r.program, r.connection, r.user, l.ttl_seconds, l.owner_name, l.kind, \
         CASE WHEN l.command_until > {now} THEN l.command_run END AS command_run{more} FROM {time}{} l LEFT JOIN {} r \
         ON r.run = CASE WHEN l.command_until > {now} THEN l.command_run ELSE l.owner END WHERE {condition}",
        tables.locks(),
        tables.runs(),
    )
}

/// The assignments that extend a grant to this many seconds from now.
pub fn lasting(kind: Kind, ttl: &str) -> String {
    let (now, expires) = (kind.now(), kind.after_seconds(ttl));
    format!("renewed_at = {now}, expires_at = {expires}, ttl_seconds = {ttl}")
}

/// The condition on the row of a slot for its grant.
#[derive(Debug, Clone, Copy)]
pub enum From {
    /// Nobody holds it.
    Nobody,
    /// It still has this fence.
    Fence(u64),
    /// It still has this fence, and has expired.
    Expired(u64),
}

/// The condition for taking a row from its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// It has expired.
    Expired,
    /// A script holds it, without a command under it.
    Token,
    /// None.
    Always,
}

/// One owner of the first slots of one lock, as SQL names them.
pub struct OwnRows {
    tables: Tables,
    kind: Kind,
    /// SQL literals.
    name: String,
    owner: String,
    slots: u32,
}

impl OwnRows {
    /// For these tables; the owner is 32 hex digits.
    pub fn new(tables: &Tables, name: &str, slots: u32, owner: &str) -> Self {
        let kind = tables.kind();
        Self {
            tables: tables.clone(),
            kind,
            name: kind.literal(name),
            owner: kind.literal(owner),
            slots,
        }
    }

    /// The condition that a row is that of a slot.
    fn place(&self, slot: u32) -> String {
        format!("name = {} AND slot = {slot}", self.name)
    }

    /// The condition that the row of a slot belongs to this owner, by the grant with this fence.
    pub fn is_own(&self, slot: u32, fence: u64) -> String {
        format!("{} AND {}", self.place(slot), self.is_owners(fence))
    }

    /// The condition that a row, which is known to be in a slot, belongs to this owner, by the grant with this fence.
    pub fn is_owners(&self, fence: u64) -> String {
        format!("owner = {} AND fence = {fence}", self.owner)
    }

    /// The condition that a moment is over, or that there is none.
    fn is_over(&self, moment: &str) -> String {
        let now = self.kind.now();
        format!("COALESCE({moment}, {now}) <= {now}")
    }

    /// Adds a condition to a statement that ends with one: that this holds for the row of a slot.
    pub fn if_row(&self, statement: &str, slot: u32, condition: &str) -> String {
        format!(
            "{statement} AND EXISTS (SELECT 1 FROM {} WHERE {} AND {condition})",
            self.tables.locks(),
            self.place(slot)
        )
    }

    /// Reads one slot, or all that the lock has.
    pub fn look(&self, slot: Option<u32>) -> String {
        let slots = match slot {
            Some(slot) => format!("l.slot = {slot}"),
            None => format!("l.slot < {}", self.slots),
        };
        let condition = format!("l.name = {} AND {slots}", self.name);
        rows(&self.tables, "", &condition)
    }

    /// A slot may have had a row that was deleted, and its fences must not be used again: the new row begins at the floor. Whoever
    /// deletes a row first raises the floor in the same transaction. So a statement that reads the floor under a lock and creates the row
    /// knows of each deleted row. In a cluster no node waits for another node's lock, but the deleted row and the new one have the same
    /// key: a node that still has the deleted row creates nothing, and of two conflicting writes on two nodes one fails.
    pub fn create(&self, slot: u32) -> String {
        let (locks, meta, name) = (self.tables.locks(), self.tables.meta(), &self.name);
        let now = self.kind.now();
        match self.kind {
            Kind::MySql if !self.tables.has_floor() => {
                format!("INSERT IGNORE INTO {locks} (name, slot) VALUES ({name}, {slot})")
            }
            Kind::MySql => format!(
                "INSERT IGNORE INTO {locks} (name, slot, renewed_at, fence) VALUES ({name}, {slot}, {now}, \
                 (SELECT COALESCE(MAX(fence_floor), {OLDER_FENCE}) FROM {meta} WHERE id = 1 LOCK IN SHARE MODE))"
            ),
            // Whoever raises the floor waits for this statement, or this one for that. Then it reads the new floor.
            Kind::Postgres => format!(
                "INSERT INTO {locks} (name, slot, renewed_at, fence) \
                 SELECT {name}, {slot}, {now}, coalesce(m.fence_floor, {OLDER_FENCE}) FROM {meta} m WHERE m.id = 1 FOR SHARE \
                 ON CONFLICT (name, slot) DO NOTHING"
            ),
        }
    }

    /// Grants a slot under a condition on its row. The answer has the fence.
    pub fn take(&self, slot: u32, from: From, write_id: u64, terms: &Terms) -> String {
        let condition = match from {
            From::Nobody => "owner IS NULL".to_owned(),
            From::Fence(fence) => format!("fence = {fence}"),
            From::Expired(fence) => format!("fence = {fence} AND {}", self.is_over("expires_at")),
        };
        let proof = terms.proof.map_or("", |_| " AND @dblock");
        let (fence, answer) = match self.kind {
            Kind::MySql => ("LAST_INSERT_ID(fence + 1)", ""),
            Kind::Postgres => ("fence + 1", " RETURNING fence"),
        };
        let ttl = terms.ttl.unwrap_or_default().as_secs().to_string();
        format!(
            "UPDATE {} SET fence = {fence}, owner = {}, write_id = {write_id}, kind = '{}', owner_name = {}, \
             acquired_at = {}, {}, command_run = NULL, command_until = NULL, kill_requested_at = NULL, \
             kill_requested_by = NULL WHERE {} AND {condition}{proof}{answer}",
            self.tables.locks(),
            self.owner,
            terms.kind.name(),
            self.kind.optional_literal(terms.owner_name),
            self.kind.now(),
            lasting(self.kind, &ttl),
            self.place(slot),
        )
    }

    /// Renews the row, and with it the command of these terms, or hands it back to the script. A command that runs under a token relies
    /// on the TTL that it was given, so nobody shortens that. MariaDB may assign simultaneously: expressions on old values come first.
    pub fn renewal(
        &self,
        change: Change,
        (slot, fence): (u32, u64),
        write_id: u64,
        terms: &Terms,
    ) -> String {
        let (kept, now) = ("COALESCE(ttl_seconds, 0)", self.kind.now());
        let ttl = match terms.ttl.map(|ttl| ttl.as_secs()) {
            None => kept.to_owned(),
            Some(ttl) if terms.kind == HolderKind::Run => ttl.to_string(),
            Some(ttl) => format!(
                "CASE WHEN command_until > {now} THEN GREATEST({kept}, {ttl}) ELSE {ttl} END"
            ),
        };
        let run = terms.command_run.map(|run| self.kind.literal(run));
        let (command, is_own_command) = match (change, run) {
            (_, None) if terms.kind == HolderKind::Run => (String::new(), String::new()),
            // To a killer a renewal says that whoever runs the command knows of the kill.
            (_, None) => (
                String::new(),
                format!(
                    " AND (kill_requested_by IS NULL OR {})",
                    self.is_over("command_until")
                ),
            ),
            (Change::HandBack { .. }, Some(run)) => (
                format!(
                    ", kind = '{}', command_run = NULL, command_until = NULL",
                    HolderKind::Token.name()
                ),
                format!(" AND COALESCE(command_run, {run}) = {run}"),
            ),
            // One command at a time. When `command_until` is over, a dead host's command has been ended.
            (_, Some(run)) => (
                format!(
                    ", kind = '{}', command_run = {run}, command_until = {}",
                    HolderKind::TokenRun.name(),
                    self.kind.after_seconds(&ttl)
                ),
                format!(" AND (COALESCE(command_run, {run}) = {run} OR command_until <= {now})"),
            ),
        };
        let takes_writes = if terms.unless_read_only {
            self.kind.and_takes_writes()
        } else {
            String::new()
        };
        format!(
            "UPDATE {} SET write_id = {write_id}, {}{command} WHERE {}{is_own_command}{takes_writes}",
            self.tables.locks(),
            lasting(self.kind, &ttl),
            self.is_own(slot, fence)
        )
    }

    /// Asks the owner of a slot with this fence to end. Keeps the time of the first request, as the owner may have known since then.
    pub fn request_kill(&self, slot: u32, fence: u64, killer: &str) -> String {
        format!(
            "UPDATE {} SET kill_requested_at = COALESCE(kill_requested_at, {}), kill_requested_by = {} WHERE {}",
            self.tables.locks(),
            self.kind.now(),
            self.kind.literal(killer),
            self.is_own(slot, fence)
        )
    }

    /// Frees rows; the condition is to follow. The release counts as the last use of the row.
    fn freeing(&self, write_id: u64) -> String {
        format!(
            "UPDATE {} SET owner = NULL, owner_name = NULL, write_id = {write_id}, renewed_at = {}, expires_at = NULL, \
             command_run = NULL, command_until = NULL, kill_requested_at = NULL, kill_requested_by = NULL",
            self.tables.locks(),
            self.kind.now()
        )
    }

    /// Frees the row of a slot with this fence, if this condition still holds.
    pub fn free(&self, slot: u32, fence: u64, write_id: u64, only: Only) -> String {
        let condition = match only {
            Only::Expired => format!(" AND {}", self.is_over("expires_at")),
            Only::Token => format!(
                " AND kind <> '{}' AND {}",
                HolderKind::Run.name(),
                self.is_over("command_until")
            ),
            Only::Always => String::new(),
        };
        let is_own = self.is_own(slot, fence);
        format!("{} WHERE {is_own}{condition}", self.freeing(write_id))
    }

    /// Frees all rows of the owner.
    pub fn free_any(&self, write_id: u64) -> String {
        let freeing = self.freeing(write_id);
        format!(
            "{freeing} WHERE name = {} AND owner = {}",
            self.name, self.owner
        )
    }
}
