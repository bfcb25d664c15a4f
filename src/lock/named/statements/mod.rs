//! The statements of a named lock, which differ by the kind of server. `answers` has the types of their answers, which do not.

mod answers;
mod mysql;
mod postgres;

use std::time::Duration;

use super::queue::Step;
use super::releasing::Answer as ReleaseAnswer;
use crate::db::{Ask, Code, Fault, Kind, Row, ask, ask_value, command};
use crate::lock::{KILL_ACK, Key, LockSpec, kill_ack_lock};
pub use answers::Opened;
use answers::{Asked, KillMarker, ReacquireAnswer};
use mysql::MySqlStatements;
pub use mysql::{wait_for_lock, wake};
use postgres::PostgresStatements;
pub use postgres::{Line, ask_blocked, ask_is_one_of_several, held_keys as postgres_held_keys};

/// How long the head of those that wait lets pass before it tries all slots again: a holder that died wakes nobody. MySQL waits for whole
/// seconds.
pub const RECHECK: Duration = Duration::from_secs(1);

/// The idle timeout of a waiter. A dead waiter that is granted a lock blocks the others for that long. A statement that waits is not idle.
const WAITER_IDLE_LIMIT: Duration = Duration::from_secs(3);

/// Writes the statements of one lock.
pub trait Statements {
    /// Whether a slot is passed over if its holder is being killed.
    fn checks_kills(&self) -> bool {
        true
    }

    /// From now on passes over slots whose holder is being killed.
    fn check_kills(&mut self) {}

    /// Notes that the server has no such variable. `false`: that was known, or no statement uses the variable.
    fn do_without(&mut self, variable: &str) -> bool;

    /// Prepares a new session to hold a lock: without limits on its statements, and with the TTL as its idle timeout. Acquires the run id
    /// lock and the [`session_marker_lock`](crate::lock::session_marker_lock). `login` is the session's id from the login.
    fn open_session(&self, ttl: Duration, login: u64) -> Ask<'static, ()>;

    /// The statement of the first step of a session, which also says what kind of server this is. `left` is the rest of the wait, `None`
    /// without limit.
    fn first(&self, step: Step, left: Option<Duration>, login: u64)
    -> Ask<'static, Option<Opened>>;

    /// The statement of any step except the proof. `own`: the session that it is for, `None`: whichever has it.
    fn step(
        &self,
        step: Step,
        left: Option<Duration>,
        own: Option<u64>,
    ) -> Ask<'static, Option<Asked>>;

    /// The proof that this slot is held. It also releases the lock of the queue's head.
    fn prove(&self, slot: u32) -> Ask<'static, Option<Asked>> {
        self.renew(slot)
    }

    /// Prepares a session to hold this slot after a wait, and proves that as [`Step::Confirm`] does. Sets the variable `@dblock` to 1 if
    /// the slot is proved; otherwise ask in steps. `None`: on servers of this kind nothing is granted that is not proved.
    fn hold_and_prove(&self, _slot: u32, _ttl: Duration) -> Option<String> {
        None
    }

    /// The killer of a slot's holder. With `lost` only the killer of that session, as others may have held the slot since.
    fn kill_marker(&self, slot: u32, lost: Option<u64>) -> Ask<'static, Option<KillMarker>>;

    /// Takes one slot if it is free and nobody kills its holder, and then this `mark`, another lock. The value is 1 if that succeeded.
    fn taking_slot(&self, slot: u32, mark: Option<&str>) -> String;

    /// Acquires one slot without waiting, unless an older session holds the run id lock. The second column is who holds the slot
    /// afterwards. [`answers::KILLED`] in the first column: somebody kills the slot's holder.
    fn reacquire(&self, slot: u32, login: u64) -> Ask<'static, Option<ReacquireAnswer>>;

    /// The renewal: asks whether the slot is held, as [`Step::Confirm`] does, but releases nothing.
    fn renew(&self, slot: u32) -> Ask<'static, Option<Asked>>;

    /// Releases a slot, and the `mark` that came with it. Asks who is the head of the queue, where the caller has to wake it. It never
    /// stands in a transaction with writes, whose commit would wait for nothing on PostgreSQL.
    fn release(&self, slot: u32, mark: Option<&str>) -> Ask<'static, ReleaseAnswer>;

    /// The connection id of a slot's holder, and its address as `user@host:port`, as far as this account may see them.
    fn holder(&self, slot: u32) -> Ask<'static, (Option<u64>, Option<String>)>;

    /// How to wait in line for it; `None`: the server has a queue of its own.
    fn line(&self) -> Option<Line> {
        None
    }
}

/// The statements for a lock on servers of this kind. `run_id` is the name of the run id lock on the server.
pub fn statements(kind: Kind, lock: &LockSpec, run_id: &str) -> Box<dyn Statements> {
    let (name, slots) = (&lock.name, lock.slots);
    match kind {
        Kind::MySql => Box::new(MySqlStatements::new(name, slots, run_id)),
        Kind::Postgres => Box::new(PostgresStatements::new(name, slots, run_id, lock.ttl)),
    }
}

/// A statement whose answer is read from one row, and depends on the number of slots; `None`: no row.
fn ask_row<S, T>(
    slots: &[S],
    name: &str,
    sql: String,
    read: impl Fn(&Row, u32) -> Result<T, Fault> + 'static,
) -> Ask<'static, Option<T>> {
    let slots = u32::try_from(slots.len()).unwrap_or(u32::MAX);
    ask(name, sql, move |rows| rows.optional(|row| read(row, slots)))
}

/// A column that acquires a lock by its name on the server, if it is free: 1 if that succeeded, else 0; NULL: unclear.
fn taking(kind: Kind, lock: &str) -> String {
    match kind {
        Kind::MySql => format!("GET_LOCK({}, 0)", kind.literal(lock)),
        Kind::Postgres => format!("pg_try_advisory_lock({})::int", Key::of(lock).arguments()),
    }
}

/// A column that releases a lock once, by its name on the server.
fn releasing(kind: Kind, lock: &str) -> String {
    match kind {
        Kind::MySql => format!("RELEASE_LOCK({})", kind.literal(lock)),
        Kind::Postgres => format!("pg_advisory_unlock({})", Key::of(lock).arguments()),
    }
}

/// Acquires a lock by its name on the server, without waiting. Whether it was acquired; `None`: unclear. The statement has this name.
pub fn take_lock(kind: Kind, named: &str, lock: &str) -> Ask<'static, Option<bool>> {
    ask_value(named, format!("SELECT {}", taking(kind, lock)))
}

/// As [`take_lock`], unless this session has the lock. Whether it has it now.
pub fn keep_lock(kind: Kind, named: &str, lock: &str) -> Ask<'static, Option<bool>> {
    let is_held = match kind {
        Kind::MySql => mysql::is_held(&kind.literal(lock)),
        Kind::Postgres => postgres::held(Key::of(lock)),
    };
    let take = taking(kind, lock);
    ask_value(
        named,
        format!("SELECT CASE WHEN {is_held} THEN 1 ELSE {take} END"),
    )
}

/// As [`take_lock`].
pub fn take_lock_now(kind: Kind, lock: &str) -> Ask<'static, Option<bool>> {
    take_lock(kind, "acquire lock", lock)
}

/// Takes slots, each by [its expression](Statements::taking_slot). Returns which of them were taken.
pub fn try_slots(slots: &[String]) -> Ask<'static, Vec<bool>> {
    let number = slots.len();
    let sql = format!("SELECT {}", slots.join(", "));
    ask("try slot", sql, move |rows| {
        let row = rows.one()?;
        let taken = (0..number).map(|column| Ok(row.at::<Option<i64>>(column)? == Some(1)));
        taken.collect()
    })
}

/// Acquires locks that only this process asks for, by their names on the server.
pub fn take_locks_now(kind: Kind, locks: &[String]) -> Ask<'static, ()> {
    let locks = locks.iter().map(|lock| taking(kind, lock));
    let locks = locks.collect::<Vec<_>>().join(", ");
    command("announce reacquire", format!("SELECT {locks}"))
}

/// Releases a lock once, by its name on the server. The statement has this name.
pub fn release_once(kind: Kind, named: &str, lock: &str) -> Ask<'static, ()> {
    command(named, format!("SELECT {}", releasing(kind, lock)))
}

/// Tells the killer, the session with this id, and others who wait for the same end, that the command of a killed holder has ended. Then
/// withdraws the announcement that it ends its command: who misses that finds this. `ending` is the name of that announcement on the
/// server.
pub fn ack_kill(kind: Kind, ending: &str, killer: u64) -> Ask<'static, ()> {
    let ack = taking(kind, &kill_ack_lock(killer));
    let own = match kind {
        Kind::MySql => format!("GET_LOCK(CONCAT('{KILL_ACK}', CONNECTION_ID()), 0)"),
        Kind::Postgres => postgres::taking_numbered(KILL_ACK),
    };
    command(
        "ack kill",
        format!("SELECT {ack}, {own}, {}", releasing(kind, ending)),
    )
}

/// The sessions that hold these locks, by the locks' names on the server.
pub fn ask_owners(kind: Kind, locks: &[String]) -> Ask<'static, Vec<Option<u64>>> {
    match kind {
        Kind::MySql => mysql::ask_owners(locks),
        Kind::Postgres => postgres::ask_owners(locks),
    }
}

/// Kills the session with this connection id, which was found to hold this lock; `false`: it does not hold it any more. MySQL says that by
/// an error, [`NO_SUCH_SESSION`].
pub fn kill_session(kind: Kind, id: u64, lock: &str) -> Ask<'static, bool> {
    match kind {
        Kind::MySql => mysql::kill_session(id, lock),
        Kind::Postgres => postgres::kill_session(id, lock),
    }
}

/// Gives the session of a waiter a short idle timeout.
pub fn shorten_idle_timeout(kind: Kind) -> Ask<'static, ()> {
    match kind {
        Kind::MySql => mysql::shorten_idle_timeout(),
        Kind::Postgres => postgres::set_idle_timeout("wait", WAITER_IDLE_LIMIT),
    }
}

/// Gives a session the idle timeout of a holder.
pub fn set_idle_timeout(kind: Kind, ttl: Duration) -> Ask<'static, ()> {
    match kind {
        Kind::MySql => mysql::set_idle_timeout(ttl),
        Kind::Postgres => postgres::set_idle_timeout("hold", ttl),
    }
}

/// Tells the killer of a waiter, the session with this id, that there is no command.
pub fn ack_kill_of_waiter(kind: Kind, killer: u64) -> Ask<'static, Option<bool>> {
    take_lock(kind, "ack kill", &kill_ack_lock(killer))
}

/// The error of [`kill_session`] if there is no such session, or it does not hold the lock.
pub const NO_SUCH_SESSION: Code = Code::Number(1094);
/// The errors of [`kill_session`] if the session belongs to another account.
pub const NOT_YOURS: [Code; 3] = [
    Code::Number(1095),
    Code::Number(1227),
    Code::State(*b"42501"),
];
