//! The statements on the table of durable locks. If a write reports that it has changed its row, that is proof. If it reports no change,
//! that proves nothing, as a node of a cluster may lag: a look at the rows decides, in the same packet or later. Rows are found only by
//! their primary key.

use std::ops::Range;
use std::time::Duration;

use super::change::Change;
use super::state::{COLUMNS, HOLDER, SlotState};
use super::step::Written;
use crate::db::cluster::{HAS_NOT_JOINED, IS_MULTI_PRIMARY, NOT_JOINED};
use crate::db::server_facts::READ_ONLY;
use crate::db::sql::{after_seconds, optional_text};
use crate::db::{
    Ask, Batch, Fault, Reply, Row, ask, ask_value, command, named, no_answer, text_literal,
};
use crate::lock::named::{First, FirstAnswer};
use crate::lock::{HolderKind, MOST_SLOTS, Name};
use crate::schema::{
    CATCH_UP_IN_GROUP, LONGEST_LOCK_WAIT, Node, OLDER_FENCE, Tables, Version, prepare_sql,
};

/// The statements of one owner of one lock.
pub struct Statements {
    tables: Tables,
    /// SQL literals.
    name: String,
    owner: String,
    slots: u32,
}

/// The terms of a grant, for a write.
pub struct Terms<'a> {
    /// The kind of the holder.
    pub kind: HolderKind,
    /// The run whose command is under a script's grant, for [`HolderKind::TokenRun`].
    pub command_run: Option<&'a str>,
    /// The `acquire --owner`: a caller with the same one takes the lock over.
    pub owner_name: Option<&'a str>,
    /// For how long it is held from now on. `None` for a renewal: as long as its row says; for a grant: not at all.
    pub ttl: Option<Duration>,
    /// Other statements in the same transaction.
    pub also: &'a [String],
    /// A statement in front, which sets the variable `@dblock` to whether the grant may be made.
    pub proof: Option<&'a str>,
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

impl Statements {
    /// The statements for the first `slots` slots of the lock, and this owner, 32 hex digits.
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

    fn look_at(&self, what: &str, slots: &str) -> Ask<'static, Vec<SlotState>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM {} l LEFT JOIN {} r ON {HOLDER} WHERE l.name = {} AND {slots}",
            self.tables.locks(),
            self.tables.runs(),
            self.name
        );
        let states = ask(what, sql, |rows| rows.all(SlotState::read));
        states.up_to(MOST_SLOTS as usize)
    }

    /// Reads one slot.
    pub fn look_at_slot(&self, slot: u32) -> Ask<'static, Vec<SlotState>> {
        self.look_at("look at row", &format!("l.slot = {slot}"))
    }

    /// Reads all slots.
    pub fn look(&self) -> Ask<'static, Vec<SlotState>> {
        self.look_at("look at rows", &format!("l.slot < {}", self.slots))
    }

    /// A write, and a look at the result: at the row of a grant, or at all slots if a grant is sought.
    pub fn write(&self, change: Change, write_id: u64, terms: &Terms) -> Write {
        match change {
            Change::Create { slot } => Write::of_one(self.create(slot)).before_look(&self.look()),
            Change::Take { slot } => self.take(slot, "owner IS NULL", write_id, terms),
            Change::TakeOver { slot, fence } => {
                self.take(slot, &format!("fence = {fence}"), write_id, terms)
            }
            Change::TakeExpired { slot, fence } => {
                let has_expired = format!(
                    "fence = {fence} AND IFNULL(expires_at, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)"
                );
                self.take(slot, &has_expired, write_id, terms)
            }
            Change::Renew { slot, fence } => {
                let update = self.renewal(change, slot, fence, write_id, terms);
                let update = named("renew row", update);
                Write::of_one(update).before_look(&self.look_at_slot(slot))
            }
            Change::HandBack { slot, fence } => {
                let update = self.renewal(change, slot, fence, write_id, terms);
                Self::transaction("hand back row", terms, &update)
            }
            Change::Release { slot, fence } => {
                let free = self.freeing(write_id);
                let update = format!("{free} WHERE {}", self.is_own(slot, fence));
                Self::transaction("release row", terms, &update)
            }
            Change::ReleaseAny => {
                let free = format!(
                    "{} WHERE name = {} AND owner = {}",
                    self.freeing(write_id),
                    self.name,
                    self.owner
                );
                // The look comes before the commit, and shows the rows as they are then.
                Self::transaction("release rows", terms, &free).look_before_commit(&self.look())
            }
        }
    }

    /// Renews the row unless it has another owner or its holder is being killed. In nearly all cases this one statement is enough.
    pub fn quick_renewal(
        &self,
        slot: u32,
        fence: u64,
        write_id: u64,
        terms: &Terms,
    ) -> Ask<'static, ()> {
        let renew = Change::Renew { slot, fence };
        let update = self.renewal(renew, slot, fence, write_id, terms);
        let update = format!("{update} AND kill_requested_by IS NULL");
        command("renew row", update)
    }

    /// Whether somebody ends the holder of a row for which one of these conditions holds.
    pub fn ask_kills(tables: &Tables, held: &[String]) -> Ask<'static, bool> {
        let any = any_of(held);
        let sql = format!(
            "SELECT COUNT(*) FROM {} WHERE kill_requested_by IS NOT NULL AND ({any})",
            tables.locks()
        );
        ask("look for kills", sql, |rows| {
            Ok(rows.value::<u64>()?.is_some_and(|kills| kills > 0))
        })
    }

    /// Renews the rows for which one of these conditions holds, each for as long as before, unless its holder is being killed.
    pub fn renew_all(tables: &Tables, held: &[String]) -> Ask<'static, ()> {
        let any = any_of(held);
        let update = format!(
            "UPDATE {} SET write_id = write_id + 1, {} WHERE kill_requested_by IS NULL AND ({any})",
            tables.locks(),
            lasting("ttl_seconds")
        );
        command("renew rows", update)
    }

    /// A slot may have had a row that was deleted, and its fences must not be used again: the new row begins at the floor. Whoever
    /// deletes a row first raises the floor in the same transaction. So a statement that reads the floor under a lock and creates the row
    /// knows of each deleted row. In a cluster no node waits for another node's lock, but the deleted row and the new one have the same
    /// key: a node that still has the deleted row creates nothing, and of two conflicting writes on two nodes one fails.
    fn create(&self, slot: u32) -> String {
        let (locks, name) = (self.tables.locks(), &self.name);
        let create = named("create row", format!("INSERT IGNORE INTO {locks}"));
        if !self.tables.has_floor() {
            return format!("{create} (name, slot) VALUES ({name}, {slot})");
        }
        format!(
            "{create} (name, slot, renewed_at, fence) VALUES ({name}, {slot}, UTC_TIMESTAMP(6), \
             (SELECT COALESCE(MAX(fence_floor), {OLDER_FENCE}) FROM {} WHERE id = 1 LOCK IN SHARE MODE))",
            self.tables.meta()
        )
    }

    fn take(&self, slot: u32, condition: &str, write_id: u64, terms: &Terms) -> Write {
        let owner_name = optional_text(terms.owner_name);
        let ttl = terms.ttl.unwrap_or_default().as_secs().to_string();
        let condition = match terms.proof {
            Some(_) => format!("{condition} AND @dblock"),
            None => condition.to_owned(),
        };
        // LAST_INSERT_ID makes the fence part of the answer.
        let update = format!(
            "UPDATE {} SET fence = LAST_INSERT_ID(fence + 1), owner = {}, write_id = {write_id}, kind = '{}', owner_name = {owner_name}, \
             acquired_at = UTC_TIMESTAMP(6), {}, command_run = NULL, command_until = NULL, kill_requested_at = NULL, \
             kill_requested_by = NULL WHERE {} AND {condition}",
            self.tables.locks(),
            self.owner,
            terms.kind.name(),
            lasting(&ttl),
            self.place(slot),
        );
        let update = named("take row", update);
        let write = if terms.also.is_empty() {
            Write::of_one(update)
        } else {
            let all = std::iter::once(update).chain(terms.also.iter().cloned());
            Write::in_transaction("take row", all.collect(), 0)
        };
        write.after(terms.proof).before_look(&self.look())
    }

    /// A command that runs under a token relies on the TTL that it was given, so nobody shortens that. MariaDB may assign simultaneously:
    /// expressions on old values come first.
    fn renewal(
        &self,
        change: Change,
        slot: u32,
        fence: u64,
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

    /// Without a look, as another caller may be granted the slot right after the commit. A script's other statements come first, because
    /// they read the row while the script has it. A run's come later, because the next waiter for the named lock needs the row first.
    fn transaction(what: &str, terms: &Terms, update: &str) -> Write {
        let update_at = if terms.kind == HolderKind::Run {
            0
        } else {
            terms.also.len()
        };
        let mut all = terms.also.to_vec();
        all.insert(update_at, named(what, update));
        Write::in_transaction(what, all, update_at)
    }

    /// Asks the owner of a slot with this fence to end. Keeps the time of the first request, as the owner may have known since then.
    pub fn request_kill(&self, slot: u32, fence: u64, killer: &str) -> Write {
        let request = format!(
            "UPDATE {} SET kill_requested_at = IFNULL(kill_requested_at, UTC_TIMESTAMP(6)), kill_requested_by = {} WHERE {}",
            self.tables.locks(),
            text_literal(killer),
            self.is_own(slot, fence)
        );
        let request = named("request kill", request);
        Write::of_one(request).before_look(&self.look_at_slot(slot))
    }

    /// Takes a slot with this fence from its owner without asking, if this condition still holds. Runs the statement to `record` that in
    /// the history, if there is one.
    pub fn free(
        &self,
        slot: u32,
        fence: u64,
        write_id: u64,
        only: Only,
        record: Option<String>,
    ) -> Write {
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
        let free = format!(
            "{} WHERE {}{condition}",
            self.freeing(write_id),
            self.is_own(slot, fence)
        );
        let free = named("free row", free);
        let is_freed = format!("owner IS NULL AND fence = {fence} AND write_id = {write_id}");
        let write = match record {
            None => Write::of_one(free),
            Some(record) => {
                let record = self.if_row(&record, slot, &is_freed);
                Write::in_transaction("free row", vec![free, record], 0)
            }
        };
        write.before_look(&self.look_at_slot(slot))
    }

    /// Adds a condition to a statement that ends with one: that this holds for the row of a slot.
    fn if_row(&self, statement: &str, slot: u32, condition: &str) -> String {
        format!(
            "{statement} AND EXISTS (SELECT 1 FROM {} WHERE {} AND {condition})",
            self.tables.locks(),
            self.place(slot)
        )
    }

    /// Adds the condition that the row belongs to this owner, by the grant with this fence.
    pub fn if_own(&self, statement: &str, slot: u32, fence: u64) -> String {
        let is_own = format!("owner = {} AND fence = {fence}", self.owner);
        self.if_row(statement, slot, &is_own)
    }

    /// The release counts as the last use of the row.
    fn freeing(&self, write_id: u64) -> String {
        format!(
            "UPDATE {} SET owner = NULL, owner_name = NULL, write_id = {write_id}, renewed_at = UTC_TIMESTAMP(6), expires_at = NULL, \
             command_run = NULL, command_until = NULL, kill_requested_at = NULL, kill_requested_by = NULL",
            self.tables.locks()
        )
    }

    /// The condition that the row of a slot belongs to this owner, by the grant with this fence.
    pub fn is_own(&self, slot: u32, fence: u64) -> String {
        let place = self.place(slot);
        format!("{place} AND owner = {} AND fence = {fence}", self.owner)
    }
}

fn any_of(conditions: &[String]) -> String {
    let each = conditions.iter().map(|one| format!("({one})"));
    each.collect::<Vec<_>>().join(" OR ")
}

/// The assignments that extend a grant to this many seconds from now.
fn lasting(ttl: &str) -> String {
    let expires = after_seconds(ttl);
    format!("renewed_at = UTC_TIMESTAMP(6), expires_at = {expires}, ttl_seconds = {ttl}")
}

/// A write, and a look at the result.
pub struct Write {
    statements: Vec<String>,
    /// Which of them are in its transaction, without those that begin and end it.
    in_transaction: Range<usize>,
    /// The index of the one that changes the row.
    update: usize,
    /// The index of the look, if there is one.
    look: Option<usize>,
    /// The index of the one that releases a named lock, if there is one.
    release: Option<usize>,
}

impl Write {
    fn of_one(statement: String) -> Self {
        Self {
            statements: vec![statement],
            in_transaction: 0..1,
            update: 0,
            look: None,
            release: None,
        }
    }

    /// These statements in one transaction with this name. That with the index `update` changes the row.
    fn in_transaction(what: &str, mut statements: Vec<String>, update: usize) -> Self {
        statements.insert(0, named(what, "START TRANSACTION"));
        let in_transaction = 1..statements.len();
        statements.push(named(what, "COMMIT"));
        Self {
            in_transaction,
            update: update + 1,
            statements,
            look: None,
            release: None,
        }
    }

    /// Adds a statement in front.
    fn after(mut self, first: Option<&str>) -> Self {
        if let Some(first) = first {
            self.statements.insert(0, first.to_owned());
            self.update += 1;
            self.in_transaction = self.in_transaction.start + 1..self.in_transaction.end + 1;
        }
        self
    }

    fn before_look(mut self, look: &Ask<Vec<SlotState>>) -> Self {
        self.look = Some(self.statements.len());
        self.statements.push(look.sql().to_owned());
        self
    }

    /// Adds a look inside the transaction, before the commit.
    fn look_before_commit(mut self, look: &Ask<Vec<SlotState>>) -> Self {
        let commit = self.in_transaction.end;
        self.statements.insert(commit, look.sql().to_owned());
        self.in_transaction.end += 1;
        self.look = Some(commit);
        self
    }

    /// Removes the look, for callers that only look if no row was changed.
    pub fn without_look(mut self) -> Self {
        if let Some(look) = self.look.take() {
            self.statements.remove(look);
        }
        self
    }

    /// Adds a statement that releases a named lock. In a transaction it comes right after the update, which has locked the row: whoever
    /// acquires the named lock waits for the row until the commit, and no longer. If the commit fails, the row is still held, and the
    /// next owner of the named lock sees that.
    pub fn and_release(mut self, release: Option<String>) -> Self {
        let Some(release) = release else { return self };
        let at = match self.look {
            None => {
                self.in_transaction.end += 1;
                self.update + 1
            }
            Some(_) => self.statements.len(),
        };
        self.statements.insert(at, release);
        self.release = Some(at);
        self
    }

    /// How many statements must succeed.
    fn needed(&self) -> usize {
        let all = self.statements.len();
        // A release of the named lock after the write does not affect the row.
        all - usize::from(self.release == Some(all - 1))
    }

    /// The statements, and the reader of their answers.
    pub fn batch(&self) -> Batch<'_, Written> {
        let statements = Batch::written(self.statements.clone());
        statements.read(|replies, fault| {
            if replies.len() < self.needed() {
                return Err(fault.unwrap_or_else(no_answer));
            }
            let reply = |at: Option<usize>| at.and_then(|at| replies.get(at));
            Written::read(&replies[self.update], reply(self.look), reply(self.release))
        })
    }

    /// Several writes without looks in one transaction, and the reader of the answers to all of them. The named locks are released last:
    /// before that the server may refuse any of the writes, and roll back all.
    pub fn together(writes: &[Self]) -> Batch<'_, Vec<Written>> {
        let of_write = |write: &Self| {
            let own = write.in_transaction.clone();
            let own = own.filter(|at| Some(*at) != write.release);
            own.map(|at| write.statements[at].clone())
                .collect::<Vec<_>>()
        };
        let release_of = |write: &Self| write.release.map(|at| write.statements[at].clone());
        let all = writes.iter().flat_map(of_write);
        let all = all.chain(writes.iter().filter_map(release_of));
        let all = Self::in_transaction("write rows", all.collect(), 0);
        let first = all.in_transaction.start;
        Batch::written(all.statements).read_all(move |replies| {
            let mut own = first;
            let mut release = replies.len() - 1 - writes.iter().filter_map(release_of).count();
            let written = writes.iter().map(|write| {
                let released = write.release.map(|_| &replies[release]);
                release += usize::from(released.is_some());
                let update = &replies[own + write.update - write.in_transaction.start];
                own += write.in_transaction.len() - usize::from(released.is_some());
                Written::read(update, None, released)
            });
            written.collect()
        })
    }
}

impl Written {
    /// Reads the answers to a write, to the look after it, and to the release of the named lock.
    fn read(update: &Reply, look: Option<&Reply>, released: Option<&Reply>) -> Result<Self, Fault> {
        let has_changed = update.changed > 0;
        let rows = look.map(|look| look.rows().all(SlotState::read));
        let queue_head = released.map(|released| released.rows().optional(|row| row.at(1)));
        Ok(Self {
            rows: rows.transpose()?.unwrap_or_default(),
            has_changed,
            fence: update.insert_id.filter(|_| has_changed),
            queue_head: queue_head.transpose()?.flatten().flatten(),
        })
    }
}

/// Prepares a session for the tables.
pub struct Prepare<'a> {
    /// The tables.
    pub tables: &'a Tables,
    /// As with [`prepare_sql`].
    pub catches_up: bool,
    /// How long the server may take for an answer to a later statement.
    pub limit: Duration,
}

/// What must be known of a server with the tables.
#[derive(Debug, Clone, Copy)]
pub struct Prepared {
    /// The version of the tables.
    pub version: Option<Version>,
    /// The server's time, in microseconds since 1970.
    pub clock: i64,
    /// Why to pass it over; `None`: it takes writes, and for all servers.
    pub refusal: Option<&'static str>,
    /// Whether several servers take writes, each with its own named locks.
    pub is_cluster: bool,
    /// Its role in a Galera cluster.
    pub node: Node,
}

impl Prepare<'_> {
    /// The statements that every server answers.
    fn of_all(&self) -> [String; 2] {
        let version = format!(
            "SELECT version, usable_from, {CLOCK}, @@global.read_only OR @@global.innodb_read_only, \
             @@global.version_comment FROM {} WHERE id = 1",
            self.tables.meta()
        );
        let prepare = prepare_sql(self.catches_up) + &self.limit_lock_waits();
        [prepare, named("version", version)]
    }

    /// A server that only waits for a locked table must say so before dblock gives up on its answer. Otherwise it looks like one that is
    /// out of reach.
    fn limit_lock_waits(&self) -> String {
        let seconds = (self.limit / 2).as_secs().max(1);
        if seconds < LONGEST_LOCK_WAIT {
            format!(", SESSION lock_wait_timeout={seconds}")
        } else {
            String::new()
        }
    }

    /// The statements for members of a cluster. A server that cannot be a member does not know the variables. A member that is cut off
    /// from the others does not answer the second one.
    fn of_clusters(&self) -> [String; 3] {
        let group = format!(
            "SELECT 0 /*M!100100 + @@global.wsrep_on */, 0 /*!80014 + ({IS_MULTI_PRIMARY}) FROM {} WHERE id = 1 */",
            self.tables.meta()
        );
        let joined = format!("SELECT 0 /*!80014 + {HAS_NOT_JOINED} */");
        [
            CATCH_UP_IN_GROUP.to_owned(),
            named("group", group),
            named("group", joined),
        ]
    }

    /// The statements, and the reader of their answers.
    pub fn batch(&self) -> Batch<'static, Prepared> {
        let all = self.of_all().into_iter().chain(self.of_clusters());
        Batch::written(all.collect()).read(|replies, fault| match replies {
            [_, all, of_clusters @ ..] => Prepared::read(all, of_clusters, fault),
            _ => Err(fault.unwrap_or_else(no_answer)),
        })
    }

    /// As [`Prepare::batch`], with the first statements for the named lock in the same packet. Returns the answers of both, or the fault of
    /// the named lock's statements: the session is prepared only if they were answered.
    pub fn batch_with<'a>(&self, first: &'a First) -> Batch<'a, PreparedAndOpened> {
        let all = self.of_all().into_iter().chain(first.statements());
        let all = all.chain(self.of_clusters());
        Batch::written(all.collect()).read(|replies, fault| match (replies, fault) {
            ([_, _] | [_, _, _], Some(fault)) => Ok(Err(fault)),
            ([_, all, _, opened, of_clusters @ ..], fault) => {
                let prepared = Prepared::read(all, of_clusters, fault)?;
                Ok(Ok((prepared, first.read(opened.rows())?)))
            }
            (_, fault) => Err(fault.unwrap_or_else(no_answer)),
        })
    }
}

/// The answers to [`Prepare::batch_with`].
pub type PreparedAndOpened = Result<(Prepared, FirstAnswer), Fault>;

impl Prepared {
    /// Reads the answer to the second statement of [`Prepare::of_all`], and those to [`Prepare::of_clusters`], with the fault that ended
    /// the packet.
    fn read(of_all: &Reply, of_clusters: &[Reply], fault: Option<Fault>) -> Result<Self, Fault> {
        match fault {
            // The server cannot be a member of a cluster.
            Some(Fault::NoSuchVariable(_)) => {}
            // After two answers it does not matter whether it has joined.
            Some(fault) if of_clusters.len() < 2 || matches!(fault, Fault::Gone(_)) => {
                return Err(fault);
            }
            _ => {}
        }
        let version = of_all.rows().optional(Version::read)?;
        let (clock, is_read_only, comment): (Option<i64>, Option<i64>, Option<String>) =
            match of_all.rows().first() {
                Some(row) => (row.at(2)?, row.at(3)?, row.at(4)?),
                // The version says that there is no row.
                None => (None, None, None),
            };
        let group = of_clusters
            .get(1)
            .map(|reply| reply.rows().optional(Row::columns));
        let (wsrep_on, is_multi_primary): (Option<i64>, Option<i64>) =
            group.transpose()?.flatten().unwrap_or_default();
        let joined = of_clusters.get(2).map(|reply| reply.rows().value::<i64>());
        let has_not_joined = joined.transpose()?.flatten();
        let node = Node::of(comment.as_deref(), wsrep_on == Some(1));
        let refusal = match (is_read_only, has_not_joined) {
            (Some(1), _) => Some(READ_ONLY),
            (_, Some(1)) => Some(NOT_JOINED),
            _ => None,
        };
        Ok(Self {
            version,
            clock: clock.unwrap_or_default(),
            refusal,
            is_cluster: node != Node::Single || is_multi_primary == Some(1),
            node,
        })
    }
}

/// Reads the server's time, in microseconds since 1970; `None`: it does not answer with its time.
pub fn ask_clock() -> Ask<'static, Option<i64>> {
    ask_value("clock", format!("SELECT {CLOCK}"))
}

/// The server's time, in microseconds since 1970.
const CLOCK: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
