//! The statements of a lock on PostgreSQL, which is held by an advisory lock. None of them waits: a statement that waits for a lock holds a
//! snapshot, so VACUUM removes nothing meanwhile, and CREATE INDEX CONCURRENTLY waits for its end.

mod line;
mod plain;

use std::fmt::Write;
use std::time::Duration;

use super::answers::{Asked, KILLED, KillMarker, Opened, ReacquireAnswer};
use super::{Statements, ask_row};
use crate::db::{Ask, TIMELINE, ask, command, postgres_sql};
use crate::lock::named::queue::Step;
use crate::lock::named::releasing::Answer as ReleaseAnswer;
use crate::lock::{Key, Name, kill_request_lock, session_marker_lock};
use line::AT_ONCE;
pub use line::Line;
pub use plain::{ask_blocked, ask_owners, held, held_keys, kill_session, set_idle_timeout};
use plain::{keep_session, own_locks, owner, select_own, unlock};

/// Two columns that say whether the server takes writes.
const WRITES: &str = "pg_is_in_recovery()::int, current_setting('default_transaction_read_only')";

/// What makes a server one node of several that take writes: an extension, and a setting that its library has.
const NODES: [(&str, &str); 4] = [
    ("citus", "citus.shard_count"),
    ("spock", "spock.conflict_resolution"),
    ("bdr", "bdr.ddl_locking"),
    ("pgactive", "pgactive.skip_ddl_replication"),
];

/// Whether this database has an extension that makes its server one node of several.
pub fn ask_is_one_of_several() -> Ask<'static, bool> {
    let names = NODES.map(|(name, _)| format!("'{name}'")).join(", ");
    let sql = format!("SELECT count(*) FROM pg_extension WHERE extname IN ({names})");
    ask("extensions", sql, |rows| {
        Ok(rows.value::<u64>()?.is_some_and(|found| found > 0))
    })
}

/// The key of the lock of this name and the number of the session, whichever it is.
fn numbered(name: &str) -> String {
    let hash = format!("encode(sha256(convert_to('{name}' || pg_backend_pid(), 'UTF8')), 'hex')");
    format!("('x' || left({hash}, 16))::bit(64)::bigint")
}

/// Takes the lock of this name and the number of the session.
pub fn taking_numbered(name: &str) -> String {
    format!("pg_try_advisory_lock({})", numbered(name))
}

/// The key of the [`session_marker_lock`] of the session of this login; zero: of whichever it is.
fn session_marker(login: u64) -> String {
    if login == 0 {
        numbered("#")
    } else {
        Key::of(&session_marker_lock(login)).arguments()
    }
}

/// Writes the statements of one lock.
pub struct PostgresStatements {
    name: Name,
    slots: Vec<Key>,
    run_id: Key,
    line: Line,
    ttl: Duration,
    /// Whether the server tells its timeline.
    tells_timeline: bool,
}

impl PostgresStatements {
    /// The statements for the first `slots` slots of a lock with this TTL. `run_id` is the name of the run id lock on the server.
    pub fn new(name: &Name, slots: u32, run_id: &str, ttl: Duration) -> Self {
        let keys = (0..slots).map(|slot| Key::of(&name.slot_on_server(slot)));
        Self {
            name: name.clone(),
            slots: keys.collect(),
            run_id: Key::of(run_id),
            line: Line::of(name, slots),
            ttl,
            tells_timeline: true,
        }
    }

    /// A value for the session of this login alone, which has the run id lock; -1 in another one.
    fn guarded(&self, login: u64, value: &str) -> String {
        let is_own = is_own(login, || held(self.run_id));
        format!("CASE WHEN {is_own} THEN {value} ELSE -1 END")
    }

    /// Columns that are read once for each session: who holds the run id lock, how many seconds the session may be idle (zero: another
    /// time than was set), what the server says that it is, whether it has
    /// loaded what can make it one node of several, and its timeline, which comes from [`Self::server`]. A new session reads most tables
    /// slowly, so it reads none.
    fn traits(&self) -> String {
        let settings = NODES.map(|(_, setting)| format!("current_setting('{setting}', true)"));
        format!(
            "{}, CASE current_setting('idle_session_timeout') WHEN '{}' THEN {} ELSE 0 END, version(), (coalesce({}) IS NOT NULL)::int, \
             server.timeline",
            owner(self.run_id),
            plain::as_shown(self.ttl),
            self.ttl.as_secs(),
            settings.join(", ")
        )
    }

    /// What a statement reads before its columns, and so before it takes a slot: the timeline, which not every server tells. The error of
    /// such a server takes back the idle timeout that was set in the same packet, and no lock: if the host vanished then, a slot would
    /// stay held.
    fn server(&self) -> String {
        let timeline = if self.tells_timeline {
            postgres_sql::TIMELINE
        } else {
            "NULL"
        };
        format!("(SELECT {timeline} AS timeline OFFSET 0) AS server")
    }

    /// Takes a slot: whether that succeeded. Unlocks it at once if its last holder is being ended, or is taking it again. That is checked
    /// after the slot was taken: whoever ends a holder announces that before the holder loses the slot. With `mark` another lock follows.
    fn take(&self, slot: u32, again: bool, mark: Option<&str>) -> String {
        let key = self.slots[slot as usize];
        let mut markers = vec![
            self.name.kill_on_server(slot),
            self.name.termination_on_server(slot),
        ];
        if !again {
            markers.push(self.name.reacquire_on_server(slot));
        }
        let markers = markers.iter().map(|marker| Key::of(marker).condition());
        let markers = markers.collect::<Vec<_>>().join(" OR ");
        let mark = mark.map_or_else(
            || "true".to_owned(),
            |mark| {
                let mark = Key::of(mark).arguments();
                // With OR true it would not be evaluated.
                format!("CASE WHEN pg_try_advisory_lock({mark}) THEN true ELSE true END")
            },
        );
        format!(
            "CASE WHEN pg_try_advisory_lock({arguments}) THEN CASE WHEN EXISTS {locks} \
             THEN NOT {unlock} ELSE {mark} END ELSE false END",
            arguments = key.arguments(),
            locks = own_locks(&format!("({markers})")),
            unlock = unlock(key),
        )
    }

    /// Takes the first free slot: its number; -1: others hold all of them.
    fn take_any(&self) -> String {
        if self.slots.len() > 1 {
            return self.take_any_of_many();
        }
        format!("CASE WHEN {} THEN 0 ELSE -1 END", self.take(0, false, None))
    }

    /// Takes the first free slot of several whose holders nobody ends and that nobody is taking again, as far as one look shows; and unlocks
    /// it if a second look, after that, shows otherwise. So a look is never older than the slot that it is about.
    fn take_any_of_many(&self) -> String {
        let mut rows = String::new();
        for (slot, key) in (0..).zip(&self.slots) {
            let keys = [
                *key,
                Key::of(&self.name.kill_on_server(slot)),
                Key::of(&self.name.termination_on_server(slot)),
                Key::of(&self.name.reacquire_on_server(slot)),
            ];
            let comma = if slot == 0 { "" } else { ", " };
            let keys = keys.map(Key::arguments).join(", ");
            let _ = write!(rows, "{comma}({slot}, {keys})");
        }
        let held = select_own("(classid::bigint << 32) | objid::bigint", "objsubid = 1");
        format!(
            "coalesce((WITH one AS MATERIALIZED (SELECT * FROM (VALUES {rows}) AS one (slot, key, killed, ending, back) \
             WHERE CASE WHEN ARRAY[one.killed, one.ending, one.back] && ARRAY{held} THEN false \
             ELSE pg_try_advisory_lock(one.key) END LIMIT 1) \
             SELECT CASE WHEN NOT ARRAY[one.killed, one.ending, one.back] && ARRAY{held} THEN one.slot \
             WHEN pg_advisory_unlock(one.key) THEN -1 ELSE -1 END FROM one), -1)"
        )
    }

    /// Unlocks each slot that this session holds: how many.
    fn unlock_slots(&self) -> String {
        let all = self.slots.iter().map(|key| {
            format!(
                "CASE WHEN {} THEN {}::int ELSE 0 END",
                held(*key),
                unlock(*key)
            )
        });
        all.collect::<Vec<_>>().join(" + ")
    }

    /// The slot that the session holds after this step; -1: none.
    fn slot(&self, step: Step) -> String {
        match step {
            // After an unclear answer it may have taken one, without a look at who ends its holder.
            Step::Settle => format!(
                "CASE WHEN {freed} >= 0 AND EXISTS {line} THEN -1 ELSE {take} END",
                freed = self.unlock_slots(),
                line = self.line.locks(),
                take = self.take_any()
            ),
            Step::Head => self.take_any(),
            Step::Confirm(slot) => {
                let key = self.slots[slot as usize];
                format!("CASE WHEN {} THEN {slot} ELSE -1 END", held(key))
            }
            // Whoever waits was here before.
            Step::Try | Step::TryUnlessQueued | Step::Queue => format!(
                "CASE WHEN EXISTS {line} THEN -1 ELSE {take} END",
                line = self.line.locks(),
                take = self.take_any()
            ),
        }
    }
}

/// The columns of an answer to a step, or to a renewal, by the expression of the slot.
fn asked(slot: &str) -> String {
    format!("{slot}, 0, pg_backend_pid(), {WRITES}")
}

/// The condition of a statement for the session of this login alone: behind a pooler that shares sessions it would reach another one.
/// `own`: where the login's session is unknown, zero, for the pooler is said to keep one for each client.
fn is_own(login: u64, own: impl FnOnce() -> String) -> String {
    if login == 0 {
        own()
    } else {
        format!("pg_backend_pid() = {login}")
    }
}

impl Statements for PostgresStatements {
    fn do_without(&mut self, variable: &str) -> bool {
        variable == TIMELINE && std::mem::replace(&mut self.tells_timeline, false)
    }

    fn open_session(&self, ttl: Duration, login: u64) -> Ask<'static, ()> {
        // A session that has locks of others is shared with them: it would get theirs once more.
        let is_unused = || {
            let locks = plain::locks("pid", "pid = pg_backend_pid()");
            format!("({} OR NOT EXISTS {locks})", held(self.run_id))
        };
        let sql = format!(
            "SELECT {}, pg_try_advisory_lock({}), pg_try_advisory_lock({}) WHERE {}",
            keep_session(ttl),
            self.run_id.arguments(),
            session_marker(login),
            is_own(login, is_unused)
        );
        command("open", sql)
    }

    fn first(
        &self,
        step: Step,
        _left: Option<Duration>,
        login: u64,
    ) -> Ask<'static, Option<Opened>> {
        let slot = self.guarded(login, &self.slot(step));
        let sql = format!(
            "SELECT {}, {} FROM {}",
            asked(&slot),
            self.traits(),
            self.server()
        );
        ask_row(&self.slots, "acquire", sql, Opened::read)
    }

    fn step(
        &self,
        step: Step,
        _left: Option<Duration>,
        own: Option<u64>,
    ) -> Ask<'static, Option<Asked>> {
        let slot = self.slot(step);
        let slot = own.map_or_else(|| slot.clone(), |own| self.guarded(own, &slot));
        let sql = format!("SELECT {}", asked(&slot));
        ask_row(&self.slots, "acquire", sql, Asked::read)
    }

    fn kill_marker(&self, slot: u32, lost: Option<u64>) -> Ask<'static, Option<KillMarker>> {
        let killer = owner(Key::of(&self.name.kill_on_server(slot)));
        let killer = match lost {
            Some(lost) => {
                let request = owner(Key::of(&kill_request_lock(lost)));
                format!("CASE WHEN {request} = {killer} THEN {killer} END")
            }
            None => killer,
        };
        let sql = format!("SELECT {killer}, {WRITES}");
        ask("kill marker", sql, |rows| rows.optional(KillMarker::read))
    }

    fn taking_slot(&self, slot: u32, mark: Option<&str>) -> String {
        format!("({})::int", self.take(slot, false, mark))
    }

    fn reacquire(&self, slot: u32, login: u64) -> Ask<'static, Option<ReacquireAnswer>> {
        let key = self.slots[slot as usize];
        let killed = owner(Key::of(&self.name.kill_on_server(slot)));
        let slot = format!(
            "CASE WHEN {killed} IS NOT NULL THEN {KILLED} WHEN {marked} THEN CASE WHEN {take} THEN {slot} ELSE -1 END \
             ELSE -1 END",
            marked = held(self.run_id),
            take = self.take(slot, true, None)
        );
        let sql = format!(
            "SELECT {}, {}, pg_backend_pid(), {WRITES}, {} FROM {}",
            self.guarded(login, &slot),
            owner(key),
            self.traits(),
            self.server()
        );
        ask_row(&self.slots, "reacquire", sql, ReacquireAnswer::read)
    }

    fn renew(&self, slot: u32) -> Ask<'static, Option<Asked>> {
        let held = held(self.slots[slot as usize]);
        let slot = format!("CASE WHEN {held} THEN {slot} ELSE -1 END");
        let sql = format!("SELECT {}", asked(&slot));
        ask_row(&self.slots, "renew", sql, Asked::read)
    }

    fn release(&self, slot: u32, mark: Option<&str>) -> Ask<'static, ReleaseAnswer> {
        let unlocked = unlock(self.slots[slot as usize]);
        let mark = mark.map_or_else(String::new, |mark| format!(", {}", unlock(Key::of(mark))));
        // In this order: who is woken finds the slot free.
        let wake = self.line.wake();
        let sql = format!(
            "SELECT CASE WHEN {unlocked} THEN CASE WHEN {wake} IS NULL THEN 1 ELSE 1 END ELSE 0 END, NULL{mark}, {AT_ONCE}"
        );
        ask("release", sql, |rows| {
            let was_held = rows.optional(|row| row.at::<u8>(0))?;
            Ok(ReleaseAnswer::Released {
                was_held: was_held == Some(1),
                queue_head: None,
            })
        })
    }

    fn holder(&self, slot: u32) -> Ask<'static, (Option<u64>, Option<String>)> {
        let sql = format!("SELECT {}", owner(self.slots[slot as usize]));
        ask("holder", sql, |rows| Ok((rows.value()?, None)))
    }

    fn line(&self) -> Option<Line> {
        Some(self.line)
    }
}
