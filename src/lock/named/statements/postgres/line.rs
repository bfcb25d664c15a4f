//! The statements of those that wait in line. Each holds an advisory lock of two numbers: the one of the line, and its own. Such keys are
//! apart from those of names.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::plain::{idle_timeout, locks, own_locks, select_own};
use crate::db::{Ask, LIST, ask, ask_values, command};
use crate::lock::Key;
use crate::lock::Name;

/// The line of a lock.
#[derive(Debug, Clone, Copy)]
pub struct Line(i32);

/// Where a caller stands in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The largest number; `None`: nobody has one.
    pub largest: Option<u32>,
    /// How many have smaller numbers.
    pub ahead: u64,
}

impl Line {
    /// The line of this lock: the first 32 bits of the SHA-256 of the name that stands for the head of the queue.
    pub fn of(name: &Name) -> Self {
        let hash = Sha256::digest(name.queue_head_on_server());
        let first = hash.first_chunk().copied().unwrap_or_default();
        Self(i32::from_be_bytes(first))
    }

    fn condition(self) -> String {
        let (class, _, sub) = Key::Two(self.0, 0).columns();
        format!("classid = {class}::oid AND objsubid = {sub}")
    }

    /// The locks of those that wait, as a subquery.
    pub fn locks(self) -> String {
        own_locks(&self.condition())
    }

    /// Notifies the head of the line, if there is one; NULL if not.
    pub fn wake(self) -> String {
        let head = own_locks(&format!("{} ORDER BY objid LIMIT 1", self.condition()));
        format!("(SELECT pg_notify('dblock_' || head.pid, '')::text FROM {head} AS head)")
    }

    /// Notifies the head of the line, from a session that need not hold a lock.
    pub fn wake_head(self) -> Ask<'static, ()> {
        let head = locks(&format!("{} ORDER BY objid LIMIT 1", self.condition()));
        command(
            "wake",
            format!("SELECT pg_notify('dblock_' || head.pid, '') FROM {head} AS head"),
        )
    }

    /// Has what others send to this session notified. `session` is its id on the server.
    pub fn listen(session: u64) -> Ask<'static, ()> {
        command("listen", format!("LISTEN dblock_{session}"))
    }

    /// Where the caller with this number stands; zero: it has none. Its session may then be idle for so long: `near` if at most `few` are
    /// ahead, else `far`.
    pub fn stand(
        self,
        number: u32,
        few: u64,
        [near, far]: [Duration; 2],
    ) -> Ask<'static, Standing> {
        let ahead = format!("count(*) FILTER (WHERE number < {number})");
        let [near, far] = [near, far].map(idle_timeout);
        let sql = format!(
            "SELECT max(number), {ahead}, CASE WHEN {ahead} <= {few} THEN {near} ELSE {far} END FROM {} AS line",
            select_own("objid::bigint AS number", &self.condition())
        );
        ask("stand in line", sql, |rows| {
            let row = rows.one()?;
            Ok(Standing {
                largest: row.at(0)?,
                ahead: row.at(1)?,
            })
        })
    }

    /// Takes a number, if nobody has it: whether that succeeded.
    pub fn take(self, number: u32) -> Ask<'static, bool> {
        let key = self.key(number).arguments();
        ask(
            "take number",
            format!("SELECT pg_try_advisory_lock({key})::int"),
            |rows| Ok(rows.value::<u8>()? == Some(1)),
        )
    }

    /// Gives back a number, and notifies the head of the line. The session may then be idle for so long.
    pub fn leave(self, number: u32, ttl: Duration) -> Ask<'static, ()> {
        let sql = format!(
            "SELECT {}, CASE WHEN pg_advisory_unlock({}) THEN {} END; UNLISTEN *",
            idle_timeout(ttl),
            self.key(number).arguments(),
            self.wake()
        );
        command("leave line", sql)
    }

    /// The sessions that wait, in their order.
    pub fn ask_waiters(self) -> Ask<'static, Vec<u64>> {
        let waiters = locks(&format!("{} ORDER BY objid", self.condition()));
        ask_values("line", format!("SELECT pid FROM {waiters} AS waiters")).up_to(LIST)
    }

    fn key(self, number: u32) -> Key {
        Key::Two(self.0, i32::try_from(number).unwrap_or(i32::MAX))
    }
}
