//! The statements on the table of durable locks. If a write reports that it has changed its row, that is proof. If it reports no change,
//! that proves nothing, as a node of a cluster may lag: a look at the rows decides, in the same packet or later. Rows are found only by
//! their primary key.
//!
//! What is sent together, and how the answers are read, is the same for all servers. The text of each statement differs by their kind.

mod mysql;
mod postgres;
mod prepare;

use std::ops::Range;
use std::time::Duration;

use super::change::Change;
use super::state::SlotState;
use super::step::{NamedRelease, Written};
use crate::db::{
    Ask, Batch, Fault, Kind, LIST, Reply, Row, ask, ask_value, command, named, no_answer,
    postgres_sql, text_literal,
};
use crate::lock::{HolderKind, MOST_SLOTS, Name};
use crate::schema::Tables;
use mysql::MySqlRows;
use postgres::PostgresRows;
pub use prepare::{Prepare, Prepared};

/// The texts of the statements of one owner of one lock, without their names.
trait RowsText {
    /// Reads one slot, or all that the lock has.
    fn look(&self, slot: Option<u32>) -> String;

    /// A slot may have had a row that was deleted, and its fences must not be used again: the new row begins at the floor. Whoever
    /// deletes a row first raises the floor in the same transaction. So a statement that reads the floor under a lock and creates the row
    /// knows of each deleted row. In a cluster no node waits for another node's lock, but the deleted row and the new one have the same
    /// key: a node that still has the deleted row creates nothing, and of two conflicting writes on two nodes one fails.
    fn create(&self, slot: u32) -> String;

    /// Grants a slot under a condition on its row. The answer has the fence.
    fn take(&self, slot: u32, from: From, write_id: u64, terms: &Terms) -> String;

    /// Renews the row, and with it the command of these terms, or hands it back to the script. A command that runs under a token relies
    /// on the TTL that it was given, so nobody shortens that.
    fn renewal(&self, change: Change, at: (u32, u64), write_id: u64, terms: &Terms) -> String;

    /// Asks the owner of a slot with this fence to end. Keeps the time of the first request, as the owner may have known since then.
    fn request_kill(&self, slot: u32, fence: u64, killer: &str) -> String;

    /// The owner and its lock.
    fn own(&self) -> &OwnRows;

    /// The server's time.
    fn now(&self) -> &'static str;

    /// The condition that a moment is over, or that there is none.
    fn is_over(&self, moment: &str) -> String;

    /// Frees rows; the condition is to follow. The release counts as the last use of the row.
    fn freeing(&self, write_id: u64) -> String {
        format!(
            "UPDATE {} SET owner = NULL, owner_name = NULL, write_id = {write_id}, renewed_at = {}, expires_at = NULL, \
             command_run = NULL, command_until = NULL, kill_requested_at = NULL, kill_requested_by = NULL",
            self.own().tables.locks(),
            self.now()
        )
    }

    /// Frees the row of a slot with this fence, if this condition still holds.
    fn free(&self, slot: u32, fence: u64, write_id: u64, only: Only) -> String {
        let condition = match only {
            Only::Expired => format!(" AND {}", self.is_over("expires_at")),
            Only::Token => format!(
                " AND kind <> '{}' AND {}",
                HolderKind::Run.name(),
                self.is_over("command_until")
            ),
            Only::Always => String::new(),
        };
        let is_own = self.own().is_own(slot, fence);
        format!("{} WHERE {is_own}{condition}", self.freeing(write_id))
    }

    /// Frees all rows of the owner.
    fn free_any(&self, write_id: u64) -> String {
        let OwnRows { name, owner, .. } = self.own();
        let freeing = self.freeing(write_id);
        format!("{freeing} WHERE name = {name} AND owner = {owner}")
    }
}

/// One owner of the first slots of one lock, as SQL names them.
struct OwnRows {
    tables: Tables,
    /// SQL literals.
    name: String,
    owner: String,
    slots: u32,
}

impl OwnRows {
    /// The condition that a row is that of a slot.
    fn place(&self, slot: u32) -> String {
        format!("name = {} AND slot = {slot}", self.name)
    }

    /// The condition that the row of a slot belongs to this owner, by the grant with this fence.
    fn is_own(&self, slot: u32, fence: u64) -> String {
        format!("{} AND {}", self.place(slot), self.is_owners(fence))
    }

    /// The condition that a row, which is known to be in a slot, belongs to this owner, by the grant with this fence.
    fn is_owners(&self, fence: u64) -> String {
        format!("owner = {} AND fence = {fence}", self.owner)
    }

    /// Adds a condition to a statement that ends with one: that this holds for the row of a slot.
    fn if_row(&self, statement: &str, slot: u32, condition: &str) -> String {
        format!(
            "{statement} AND EXISTS (SELECT 1 FROM {} WHERE {} AND {condition})",
            self.tables.locks(),
            self.place(slot)
        )
    }
}

/// The condition on the row of a slot for its grant.
#[derive(Debug, Clone, Copy)]
enum From {
    /// Nobody holds it.
    Nobody,
    /// It still has this fence.
    Fence(u64),
    /// It still has this fence, and has expired.
    Expired(u64),
}

/// The statements of one owner of one lock.
pub struct Statements {
    text: Box<dyn RowsText>,
}

/// Which rows to read, whoever holds them.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Those with an owner: of these locks, or all if none is named.
    Held(&'a [Name]),
    /// That of one slot.
    Slot(&'a Name, u32),
}

/// Reads rows, with the columns of [`SlotState::read`] and `name`, `in_history` and `knows_killer`.
pub fn ask_rows<T>(
    tables: &Tables,
    which: Which,
    read: impl Fn(&Row) -> Result<T, Fault> + 'static,
) -> Ask<'static, Vec<T>> {
    let literal = literal_of(tables.kind());
    let literal = |name: &Name| literal(&name.to_string());
    let which = match which {
        Which::Held([]) => "l.owner IS NOT NULL".to_owned(),
        Which::Held(names) => {
            let names = names.iter().map(literal).collect::<Vec<_>>();
            format!("l.name IN ({}) AND l.owner IS NOT NULL", names.join(", "))
        }
        Which::Slot(name, slot) => format!("l.name = {} AND l.slot = {slot}", literal(name)),
    };
    let sql = match tables.kind() {
        Kind::MySql => mysql::rows(tables, &which),
        Kind::Postgres => postgres::rows(tables, &which),
    };
    ask("held rows", sql, move |rows| rows.all(&read)).up_to(LIST)
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
        let literal = literal_of(tables.kind());
        let own = OwnRows {
            tables: tables.clone(),
            name: literal(&name.to_string()),
            owner: literal(owner),
            slots,
        };
        let text: Box<dyn RowsText> = match tables.kind() {
            Kind::MySql => Box::new(MySqlRows(own)),
            Kind::Postgres => Box::new(PostgresRows(own)),
        };
        Self { text }
    }

    fn look_at(&self, what: &str, slot: Option<u32>) -> Ask<'static, Vec<SlotState>> {
        let states = ask(what, self.text.look(slot), |rows| rows.all(SlotState::read));
        states.up_to(MOST_SLOTS as usize)
    }

    /// Reads one slot.
    pub fn look_at_slot(&self, slot: u32) -> Ask<'static, Vec<SlotState>> {
        self.look_at("look at row", Some(slot))
    }

    /// Reads all slots.
    pub fn look(&self) -> Ask<'static, Vec<SlotState>> {
        self.look_at("look at rows", None)
    }

    /// A write, and a look at the result: at the row of a grant, or at all slots if a grant is sought.
    pub fn write(&self, change: Change, write_id: u64, terms: &Terms) -> Write {
        match change {
            Change::Create { slot } => {
                let create = named("create row", self.text.create(slot));
                Write::of_one(create).before_look(&self.look())
            }
            Change::Take { slot } => self.take(slot, From::Nobody, write_id, terms),
            Change::TakeOver { slot, fence } => {
                self.take(slot, From::Fence(fence), write_id, terms)
            }
            Change::TakeExpired { slot, fence } => {
                self.take(slot, From::Expired(fence), write_id, terms)
            }
            Change::Renew { slot, fence } => {
                let update = self.text.renewal(change, (slot, fence), write_id, terms);
                let update = named("renew row", update);
                Write::of_one(update).before_look(&self.look_at_slot(slot))
            }
            Change::HandBack { slot, fence } => {
                let update = self.text.renewal(change, (slot, fence), write_id, terms);
                Self::transaction("hand back row", terms, &update)
            }
            Change::Release { slot, fence } => {
                let update = self.text.free(slot, fence, write_id, Only::Always);
                Self::transaction("release row", terms, &update)
            }
            Change::ReleaseAny => {
                let free = self.text.free_any(write_id);
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
        let update = self.text.renewal(renew, (slot, fence), write_id, terms);
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
        let lasting = match tables.kind() {
            Kind::MySql => mysql::lasting("ttl_seconds"),
            Kind::Postgres => postgres::lasting("ttl_seconds"),
        };
        let update = format!(
            "UPDATE {} SET write_id = write_id + 1, {lasting} WHERE kill_requested_by IS NULL AND ({any})",
            tables.locks()
        );
        command("renew rows", update)
    }

    fn take(&self, slot: u32, from: From, write_id: u64, terms: &Terms) -> Write {
        let update = named("take row", self.text.take(slot, from, write_id, terms));
        let write = if terms.also.is_empty() {
            Write::of_one(update)
        } else {
            let all = std::iter::once(update).chain(terms.also.iter().cloned());
            Write::in_transaction("take row", all.collect(), 0)
        };
        write.after(terms.proof).before_look(&self.look())
    }

    /// Without a look, as another caller may be granted the slot right after the commit. A script's other statements come first, because
    /// they read the row while the script has it. A run's come later: so it locks the rows in the same order as `dblock kill`.
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

    /// Asks the owner of a slot with this fence to end.
    pub fn request_kill(&self, slot: u32, fence: u64, killer: &str) -> Write {
        let request = named("request kill", self.text.request_kill(slot, fence, killer));
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
        let free = named("free row", self.text.free(slot, fence, write_id, only));
        let is_freed = format!("owner IS NULL AND fence = {fence} AND write_id = {write_id}");
        let write = match record {
            None => Write::of_one(free),
            Some(record) => {
                let record = self.text.own().if_row(&record, slot, &is_freed);
                Write::in_transaction("free row", vec![free, record], 0)
            }
        };
        write.before_look(&self.look_at_slot(slot))
    }

    /// Adds the condition that the row belongs to this owner, by the grant with this fence.
    pub fn if_own(&self, statement: &str, slot: u32, fence: u64) -> String {
        let own = self.text.own();
        own.if_row(statement, slot, &own.is_owners(fence))
    }

    /// The condition that the row of a slot belongs to this owner, by the grant with this fence.
    pub fn is_own(&self, slot: u32, fence: u64) -> String {
        self.text.own().is_own(slot, fence)
    }
}

/// How a text is written for servers of this kind.
fn literal_of(kind: Kind) -> fn(&str) -> String {
    match kind {
        Kind::MySql => text_literal,
        Kind::Postgres => postgres_sql::text_literal,
    }
}

fn any_of(conditions: &[String]) -> String {
    let each = conditions.iter().map(|one| format!("({one})"));
    each.collect::<Vec<_>>().join(" OR ")
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

    /// Adds a statement that releases a named lock, after the commit: whoever acquires the named lock finds the row free, and reads what this
    /// transaction has recorded. If the commit fails, the rest of the packet is not carried out.
    pub fn and_release(mut self, release: Option<String>) -> Self {
        if let Some(release) = release {
            self.release = Some(self.statements.len());
            self.statements.push(release);
        }
        self
    }

    /// How many statements must succeed.
    fn needed(&self) -> usize {
        // The release of the named lock comes after the commit.
        self.statements.len() - usize::from(self.release.is_some())
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

    /// Several writes without looks in one transaction, and the reader of the answers to all of them. The named locks are released after the
    /// commit: before that the server may refuse any of the writes, and roll back all.
    pub fn together(writes: &[Self]) -> Batch<'_, Vec<Written>> {
        let of_write = |write: &Self| write.statements[write.in_transaction.clone()].to_vec();
        let release_of = |write: &Self| write.release.map(|at| write.statements[at].clone());
        let all = writes.iter().flat_map(of_write);
        let mut all = Self::in_transaction("write rows", all.collect(), 0);
        let first = all.in_transaction.start;
        all.statements.extend(writes.iter().filter_map(release_of));
        Batch::written(all.statements).read_all(move |replies| {
            let mut own = first;
            let mut release = replies.len() - writes.iter().filter_map(release_of).count();
            let written = writes.iter().map(|write| {
                let released = write.release.map(|_| &replies[release]);
                release += usize::from(released.is_some());
                let update = &replies[own + write.update - write.in_transaction.start];
                own += write.in_transaction.len();
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
        // PostgreSQL answers to the write itself; others set the `LAST_INSERT_ID`.
        let fence = match update.insert_id {
            None => update.rows().value()?,
            fence => fence,
        };
        let rows = look.map(|look| look.rows().all(SlotState::read));
        let released = released.map(|released| {
            let queue_head = released.rows().optional(|row| row.at(1))?.flatten();
            Ok::<_, Fault>(NamedRelease { queue_head })
        });
        Ok(Self {
            rows: rows.transpose()?.unwrap_or_default(),
            has_changed,
            fence: fence.filter(|_| has_changed),
            released: released.transpose()?,
        })
    }
}

/// Reads the time of a server of this kind, in microseconds since 1970; `None`: it does not answer with its time.
pub fn ask_clock(kind: Kind) -> Ask<'static, Option<i64>> {
    let clock = match kind {
        Kind::MySql => mysql::CLOCK.to_owned(),
        Kind::Postgres => postgres::clock(),
    };
    ask_value("clock", format!("SELECT {clock}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_lock_is_released_after_the_commit() {
        let write = |update: &str, release: &str| {
            let write = Write::in_transaction("release row", vec![update.to_owned()], 0);
            write.and_release(Some(release.to_owned()))
        };
        let one = write("update 1", "release 1");
        assert!(one.statements[2].ends_with("COMMIT"));
        assert_eq!(one.statements[3..], ["release 1"]);
        assert_eq!(one.needed(), 3);
        let both = [one, write("update 2", "release 2")];
        let both = Write::together(&both);
        let statements = both.statements();
        assert_eq!(statements[1..3], ["update 1", "update 2"]);
        assert!(statements[3].ends_with("COMMIT"));
        assert_eq!(statements[4..], ["release 1", "release 2"]);
    }
}
