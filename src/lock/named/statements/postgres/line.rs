//! The statements of those that wait in line. Each holds an advisory lock of two numbers: the one of the line, and its own. Such keys are
//! apart from those of names.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::plain::{locks, own_locks, select_own};
use crate::db::postgres_sql::idle_timeout;
use crate::db::{Ask, LIST, ask, ask_values, command};
use crate::lock::named::line::Answer;
use crate::lock::{Key, Name};

/// The bits of a caller's own number. Above them is the number of slots that it may use.
const BITS: u32 = 21;

/// The columns of a statement that notifies: its commit waits for no disk and no standby, and not long for others that notify, of whom the
/// server commits one at a time, also where that one waits for a standby that is away. A notification that is lost costs the next one in
/// line a moment, as it looks by itself. They hold for the whole transaction, so they are for those that write nothing.
pub const AT_ONCE: &str =
    "set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '250', true)";

/// How many callers that come at once get a number in one statement each.
const MOST_AT_ONCE: u32 = 100;

/// The line of those that wait for a lock and may use as many slots. Others wait in another one: they may wait for longer.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    lock: i32,
    slots: u32,
}

impl Line {
    /// The largest number. Who comes later than its holder tries again until that has left.
    const LARGEST: u32 = (1 << BITS) - 1;

    /// The line of this lock, for callers that may use so many slots. All lines of a lock have one number: the first 32 bits of the SHA-256
    /// of the name that stands for the head of the queue.
    pub fn of(name: &Name, slots: u32) -> Self {
        let hash = Sha256::digest(name.queue_head_on_server());
        let first = hash.first_chunk().copied().unwrap_or_default();
        Self {
            lock: i32::from_be_bytes(first),
            slots,
        }
    }

    /// Of those that wait for the lock, in any line.
    fn of_lock(self) -> String {
        let (class, _, sub) = Key::Two(self.lock, 0).columns();
        format!("classid = {class}::oid AND objsubid = {sub}")
    }

    /// Of those in this line.
    fn condition(self) -> String {
        format!(
            "{} AND objid::bigint >> {BITS} = {}",
            self.of_lock(),
            self.slots
        )
    }

    /// The head of each line of the lock, of these that wait.
    fn heads(waiters: &str) -> String {
        format!(
            "(SELECT DISTINCT ON (objid::bigint >> {BITS}) pid FROM {waiters} AS waiters ORDER BY objid::bigint >> {BITS}, objid)"
        )
    }

    /// The locks of those that wait, as a subquery.
    pub fn locks(self) -> String {
        own_locks(&self.condition())
    }

    /// Notifies the head of each line of the lock; NULL where there is none.
    pub fn wake(self) -> String {
        let heads = Self::heads(&select_own("pid, objid", &self.of_lock()));
        format!(
            "(SELECT string_agg(pg_notify('dblock_' || head.pid, '')::text, '') FROM {heads} AS head)"
        )
    }

    /// Notifies the head of each line of a lock, from a session that need not hold a lock.
    pub fn wake_heads(name: &Name) -> Ask<'static, ()> {
        let heads = Self::heads(&locks("pid, objid", &Self::of(name, 1).of_lock()));
        let sql =
            format!("SELECT {AT_ONCE}, pg_notify('dblock_' || head.pid, '') FROM {heads} AS head");
        command("wake", sql)
    }

    /// Has what others send to this session notified. `session` is its id on the server.
    pub fn listen(session: u64) -> Ask<'static, ()> {
        command("listen", format!("LISTEN dblock_{session}"))
    }

    /// Has this session notified no more.
    pub fn unlisten() -> Ask<'static, ()> {
        command("unlisten", "UNLISTEN *")
    }

    /// Where the caller with this number stands; zero: it has none. Its session may then be idle for so long: `near` if at most `few` are
    /// ahead, else `far`.
    pub fn stand(self, number: u32, few: u64, [near, far]: [Duration; 2]) -> Ask<'static, Answer> {
        let ahead = format!("count(*) FILTER (WHERE number < {number})");
        let [near, far] = [near, far].map(idle_timeout);
        let sql = format!(
            "SELECT max(number), {ahead}, CASE WHEN {ahead} <= {few} THEN {near} ELSE {far} END FROM {} AS line",
            select_own(
                &format!("objid::bigint & {} AS number", Self::LARGEST),
                &self.condition()
            )
        );
        ask("stand in line", sql, |rows| {
            let row = rows.one()?;
            Ok(Answer::Standing {
                largest: row.at(0)?,
                ahead: row.at(1)?,
            })
        })
    }

    /// Has this session, and no other, take the first number after this one that nobody has: which session answers, and that number. Only a
    /// few are tried: many callers may come at once.
    pub fn take(self, largest: u32, own: u64) -> Ask<'static, (u64, Option<u32>)> {
        let [first, last] = [1, MOST_AT_ONCE].map(|more| self.object(largest.saturating_add(more)));
        let sql = format!(
            "SELECT pg_backend_pid(), (SELECT number & {} FROM generate_series({first}, {last}) AS number \
             WHERE CASE WHEN pg_backend_pid() = {own} THEN pg_try_advisory_lock(({})::int, number) END LIMIT 1)",
            Self::LARGEST,
            self.lock
        );
        ask("take number", sql, |rows| {
            let row = rows.one()?;
            Ok((row.at(0)?, row.at(1)?))
        })
    }

    /// Releases a number. The session may then be idle for so long. [`Line::wake_after`] is to follow.
    pub fn leave(self, number: u32, ttl: Duration) -> Ask<'static, ()> {
        let key = self.key(number).arguments();
        let sql = format!("SELECT {}, pg_advisory_unlock({key})", idle_timeout(ttl));
        command("leave line", sql)
    }

    /// Notifies the head of each line of the lock, from a session that has left one.
    pub fn wake_after(self) -> Ask<'static, ()> {
        let sql = format!("SELECT {}, {AT_ONCE}; UNLISTEN *", self.wake());
        command("wake next", sql)
    }

    /// The sessions that wait for a lock, in their order, one line after the other.
    pub fn ask_waiters(name: &Name) -> Ask<'static, Vec<u64>> {
        let of_lock = Self::of(name, 1).of_lock();
        let waiters = locks("pid", &format!("{of_lock} ORDER BY objid"));
        ask_values("line", format!("SELECT pid FROM {waiters} AS waiters")).up_to(LIST)
    }

    fn key(self, number: u32) -> Key {
        Key::Two(self.lock, self.object(number))
    }

    /// The second half of the key of this number, or of the largest one.
    fn object(self, number: u32) -> i32 {
        ((self.slots << BITS) | number.min(Self::LARGEST)).cast_signed()
    }
}
