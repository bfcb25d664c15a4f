//! The statements on the table of durable locks. If a write reports that it has changed its row, that is proof. If it reports no change,
//! that proves nothing, as a node of a cluster may lag: a look at the rows decides, in the same packet or later. Rows are found only by
//! their primary key.
//!
//! This file says what is sent together, and how the answers are read; `text` has the text of each statement.

mod prepare;
mod text;

use std::ops::Range;
use std::time::Duration;

use super::change::Change;
use super::state::SlotState;
use super::step::{NamedRelease, Written};
use crate::db::{
    Ask, Batch, Fault, Kind, LIST, Reply, Row, ask, ask_value, batch, command, named, no_answer,
};
use crate::lock::{HolderKind, MOST_SLOTS, Name};
use crate::schema::Tables;
pub use prepare::{BINLOG_FORMAT, Prepare, Prepared};
pub use text::Only;
use text::{From, OwnRows, lasting, rows};

/// The statements of one owner of one lock.
pub struct Statements {
    text: OwnRows,
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
    let literal = |name: &Name| tables.kind().literal(&name.to_string());
    let which = match which {
        Which::Held([]) => "l.owner IS NOT NULL".to_owned(),
        Which::Held(names) => {
            let names = names.iter().map(literal).collect::<Vec<_>>();
            format!("l.name IN ({}) AND l.owner IS NOT NULL", names.join(", "))
        }
        Which::Slot(name, slot) => format!("l.name = {} AND l.slot = {slot}", literal(name)),
    };
    let more = ", l.name, CASE WHEN r.run IS NULL THEN 0 ELSE 1 END AS in_history, \
                CASE WHEN l.renewed_at >= l.kill_requested_at THEN 1 ELSE 0 END AS knows_killer";
    let sql = rows(tables, more, &format!("{which} ORDER BY l.name, l.slot"));
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
    /// Whether a renewal changes nothing on a server that takes no writes, although this account may write there. Otherwise the server is
    /// asked behind it.
    pub unless_read_only: bool,
}

impl Statements {
    /// The statements for the first `slots` slots of the lock, and this owner, 32 hex digits.
    pub fn new(tables: &Tables, name: &Name, slots: u32, owner: &str) -> Self {
        Self {
            text: OwnRows::new(tables, &name.to_string(), slots, owner),
        }
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
    /// Whether it has changed the row.
    pub fn quick_renewal(
        &self,
        slot: u32,
        fence: u64,
        write_id: u64,
        terms: &Terms,
    ) -> Batch<'static, bool> {
        let renew = Change::Renew { slot, fence };
        let update = self.text.renewal(renew, (slot, fence), write_id, terms);
        let update = format!("{update} AND kill_requested_by IS NULL");
        batch("renew row", vec![update]).read_all(|replies| Ok(replies[0].changed == 1))
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

    /// Renews the rows for which one of these conditions holds, each for as long as before, unless its holder is being killed, or the
    /// server takes no writes. Its binary log must not have statements, see [`Prepared::logs_statements`].
    pub fn renew_all(tables: &Tables, held: &[String]) -> Ask<'static, ()> {
        let any = any_of(held);
        let lasting = lasting(tables.kind(), "ttl_seconds");
        let takes_writes = tables.kind().and_takes_writes();
        let update = format!(
            "UPDATE {} SET write_id = write_id + 1, {lasting} WHERE kill_requested_by IS NULL AND ({any}){takes_writes}",
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
                let record = self.text.if_row(&record, slot, &is_freed);
                Write::in_transaction("free row", vec![free, record], 0)
            }
        };
        write.before_look(&self.look_at_slot(slot))
    }

    /// Adds the condition that the row belongs to this owner, by the grant with this fence.
    pub fn if_own(&self, statement: &str, slot: u32, fence: u64) -> String {
        let is_owners = self.text.is_owners(fence);
        self.text.if_row(statement, slot, &is_owners)
    }

    /// The condition that the row of a slot belongs to this owner, by the grant with this fence.
    pub fn is_own(&self, slot: u32, fence: u64) -> String {
        self.text.is_own(slot, fence)
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

    /// Adds a statement that releases a named lock, after the commit: whoever acquires the named lock finds the row free, and reads what
    /// this transaction has recorded. If the commit fails, the rest of the packet is not carried out.
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

    /// Several writes without looks in one transaction, and the reader of the answers to all of them. The named locks are released after
    /// the commit: before that the server may refuse any of the writes, and roll back all.
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
    ask_value("clock", format!("SELECT {}", kind.micros(kind.now())))
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
