//! The statements of a named lock: the text of each; `answers` has what their answers mean. MySQL and MariaDB take the same text;
//! version comments cover the differences.

mod answers;
mod plain;

use std::fmt::Write;
use std::time::Duration;

use super::queue::{FEW, Step};
use crate::lock::{Name, kill_ack_lock, kill_request_lock};
pub use answers::Command;
use answers::{Ask, KILLED, KillMarker, Open, Prove, Reacquire, Release, SlotHolder};
pub use plain::{KillSession, Owners, Take, release_once};

/// Seconds that the server keeps the session of a waiter between two statements: one that is gone when it is granted
/// something costs the others that much. While a statement waits, this limit does not count.
const WAITER_IDLE_LIMIT: u32 = 3;

/// The longest wait in one statement: MySQL takes its statement time limit in milliseconds, 32 bits of them.
const LONGEST_STATEMENT: Duration = Duration::from_secs(40 * 24 * 3600);

/// How long the head waits for the last slot before it looks at all of them again: a holder that died wakes nobody. MySQL
/// waits for whole seconds.
pub const RECHECK: Duration = Duration::from_secs(1);

/// Writes the statements of one lock. Names are literals that no `sql_mode` and no character set changes.
pub struct Statements {
    /// Of each slot.
    slots: Vec<String>,
    /// Of the lock that the head of the queue holds.
    queue_head: String,
    /// Of the lock that tells this dblock's sessions from all others.
    run_id: String,
    name: Name,
    /// Whether each slot is asked for together with the marker of whoever ends its holder.
    checks_kills: bool,
    /// Variables that the server does not have.
    unknown: Vec<String>,
}

/// Interrupts the statement of a session.
pub fn wake(connection: u64) -> Command {
    Command(format!("/* dblock wake */ KILL QUERY {connection}"))
}

impl Statements {
    /// For the first so many slots of the lock `name`, and the server's name of a lock that only this dblock has.
    pub fn new(name: &Name, slots: u32, run_id: &str) -> Self {
        Self {
            slots: (0..slots)
                .map(|slot| literal(&name.slot_on_server(slot)))
                .collect(),
            queue_head: literal(&name.queue_head_on_server()),
            run_id: literal(run_id),
            name: name.clone(),
            checks_kills: slots <= FEW,
            unknown: Vec::new(),
        }
    }

    /// Whether no slot is taken whose holder somebody is ending.
    pub fn checks_kills(&self) -> bool {
        self.checks_kills
    }

    /// From now on that is so.
    pub fn check_kills(&mut self) {
        self.checks_kills = true;
    }

    /// Notes that the server has no such variable. `false`: that was known, or is none that is asked for.
    pub fn do_without(&mut self, variable: &str) -> bool {
        let known = self.unknown.iter().any(|unknown| unknown == variable);
        let asked_for = ASKED_FOR.contains(&variable);
        if asked_for && !known {
            self.unknown.push(variable.to_owned());
        }
        asked_for && !known
    }

    fn variable(&self, name: &str) -> String {
        if self.unknown.iter().any(|unknown| unknown == name) {
            "NULL".to_owned()
        } else {
            format!("@@global.{name}")
        }
    }

    /// Whether the server takes writes: two columns.
    fn writes(&self) -> String {
        format!(
            "{}, {}",
            self.variable("read_only"),
            self.variable("innodb_read_only")
        )
    }

    /// What is asked besides, once in a session: who holds the lock of the run's id, and what [`Fitness`](super::fitness::Fitness) reads.
    fn traits(&self) -> String {
        format!(
            "IS_USED_LOCK({}), @@session.wait_timeout, {} /*M!100000 , {} */",
            self.run_id,
            self.variable("version_comment"),
            self.variable("wsrep_on"),
        )
    }

    /// Makes a new session fit to hold a lock, as [`keep_session`] does, and takes the lock of the run's id and the
    /// [`session_marker_lock`](crate::lock::session_marker_lock).
    pub fn open_session(&self, ttl: Duration) -> Command {
        Command(format!(
            "/* dblock open */ {}, @dblock = GET_LOCK({}, 0), @dblock = GET_LOCK(CONCAT('#', CONNECTION_ID()), 0)",
            keep_session(ttl),
            self.run_id
        ))
    }

    /// As [`Statements::of`], for the first step of a session: three columns more for what kind of server this is, and a
    /// fourth on MariaDB.
    pub fn first(&self, step: Step, left: Option<Duration>) -> Open {
        let sql = self.of(step, left) + ", " + &self.traits();
        Open(self.ask(sql))
    }

    /// The statement of a step, the proof apart.
    pub fn step(&self, step: Step, left: Option<Duration>) -> Ask {
        self.ask(self.of(step, left))
    }

    /// The proof that this slot is held.
    pub fn prove(&self, slot: u32) -> Prove {
        Prove(self.ask(self.of(Step::Confirm(slot), None)))
    }

    fn ask(&self, sql: String) -> Ask {
        let slots = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        Ask { sql, slots }
    }

    /// The statement of a step; `left` is the time left to wait, `None` without limit. The row in answer: the number of
    /// the slot that was had or is held, -1 for none, NULL if that is not known; whether the place is held, or 2; the session's
    /// own number; two that tell whether the server is read-only; with a proof, who comes again for the slot, and who is ending
    /// its holder.
    ///
    /// What a session asks first makes it fit to keep a lock in the same packet. Later packets have one statement only: a
    /// `KILL QUERY` that comes during the first of two makes both servers pass over the second without a word, and the
    /// client waits for ever.
    fn of(&self, step: Step, left: Option<Duration>) -> String {
        let left = left.unwrap_or(LONGEST_STATEMENT).min(LONGEST_STATEMENT);
        let alone = self.slots.len() == 1;
        let (limit, slot, place) = match step {
            Step::Try => (None, self.any("0"), "0".to_owned()),
            // Whoever waits stands behind one that has the place.
            Step::TryUnlessQueued => (
                None,
                format!(
                    "CASE WHEN IS_FREE_LOCK({}) THEN {} ELSE -1 END",
                    self.queue_head,
                    self.any("0")
                ),
                "0".to_owned(),
            ),
            Step::Queue if alone => (Some(left), self.any(&seconds(left)), "0".to_owned()),
            Step::Queue => (
                Some(left),
                format!(
                    "CASE GET_LOCK({}, {}) WHEN 0 THEN -1 END",
                    self.queue_head,
                    seconds(left)
                ),
                is_held(&self.queue_head),
            ),
            // Asked again after an interruption, it must not take a second slot. A whole second both servers can wait.
            Step::Head => {
                let (limit, timeout) = if left < RECHECK {
                    (Some(left), seconds(left))
                } else {
                    (None, RECHECK.as_secs().to_string())
                };
                let slot = self.held_slot_or(&self.any(&timeout));
                (limit, slot, is_held(&self.queue_head))
            }
            Step::Settle => (None, self.held_slot_or("NULL"), is_held(&self.queue_head)),
            Step::Confirm(slot) => {
                let held = is_held(&self.slots[slot as usize]);
                // AND goes on after NULL, but not after 0.
                let place = format!(
                    "{} AND NOT ({held} AND RELEASE_LOCK({}))",
                    is_held(&self.queue_head),
                    self.queue_head
                );
                (None, format!("CASE WHEN {held} THEN {slot} END"), place)
            }
        };
        let back = match step {
            Step::Confirm(slot) => {
                format!(
                    ", IS_USED_LOCK({}), IFNULL(IS_USED_LOCK({}), IS_USED_LOCK({}))",
                    self.back(slot),
                    self.kill(slot),
                    self.end(slot)
                )
            }
            _ => String::new(),
        };
        let place = match step {
            _ if alone => "0",
            // After a slot was taken, for that is when it counts.
            Step::Try | Step::TryUnlessQueued if !self.checks_kills => &self.kills(),
            _ => &place,
        };
        let limit = limit.map_or_else(String::new, statement_limit);
        let name = match step {
            Step::Try | Step::TryUnlessQueued => "acquire",
            Step::Queue => "queue",
            Step::Head => "queue head",
            Step::Settle => "settle",
            Step::Confirm(_) => "prove",
        };
        format!(
            "/* dblock {name} */ SELECT {limit}{slot}, {place}, CONNECTION_ID(), {}{back}",
            self.writes()
        )
    }

    fn back(&self, slot: u32) -> String {
        literal(&self.name.reacquire_on_server(slot))
    }

    fn kill(&self, slot: u32) -> String {
        literal(&self.name.kill_on_server(slot))
    }

    fn end(&self, slot: u32) -> String {
        literal(&self.name.termination_on_server(slot))
    }

    /// Tells that the holder of a slot, which somebody ends, is ending its command: until then the slot is for nobody.
    pub fn announce_termination(&self, slot: u32) -> Command {
        let kill = take_kill_beacon(&self.name);
        Command(format!(
            "/* dblock announce termination */ SELECT GET_LOCK({}, 0), {kill}",
            self.end(slot)
        ))
    }

    /// Whether the holder of some slot is being ended, in the place of a place: 2, or 0.
    fn kills(&self) -> String {
        let kills = self.name.kill_beacons_on_server();
        let kills = kills.map(|kill| format!("IS_USED_LOCK({})", literal(&kill)));
        format!("CASE WHEN COALESCE({}) THEN 2 ELSE 0 END", kills.join(", "))
    }

    /// Takes that back, and tells whoever ends the holder, the session of this number, that the command is gone.
    pub fn ack_kill(&self, slot: u32, killer: u64) -> Command {
        Command(format!(
            "/* dblock ack kill */ SELECT RELEASE_LOCK({}), GET_LOCK({}, 0)",
            self.end(slot),
            literal(&kill_ack_lock(killer))
        ))
    }

    /// Who is ending the holder of a slot; of a holder whose session was `lost`, only if that session is meant, for others may have
    /// had the slot since.
    pub fn kill_marker(&self, slot: u32, lost: Option<u64>) -> KillMarker {
        let killer = format!("IS_USED_LOCK({})", self.kill(slot));
        let killer = match lost {
            Some(lost) => {
                let request = literal(&kill_request_lock(lost));
                format!("CASE WHEN IS_USED_LOCK({request}) = {killer} THEN {killer} END")
            }
            None => killer,
        };
        KillMarker(format!(
            "/* dblock kill marker */ SELECT {killer}, {}",
            self.writes()
        ))
    }

    /// Tells those who wait for a slot that its holder is reacquiring it: whoever is granted it meanwhile lets it go.
    pub fn announce_reacquire(&self, slot: u32) -> Command {
        let take = take(&self.name.reacquire_on_server(slot), Duration::ZERO);
        Command(format!("/* dblock announce reacquire */ {take}"))
    }

    /// Takes that back.
    pub fn finish_reacquire(&self, slot: u32) -> Command {
        Command(format!(
            "/* dblock finish reacquire */ SELECT RELEASE_LOCK({})",
            self.back(slot)
        ))
    }

    /// Takes one slot without waiting, as [`Statements::first`] takes any; but not while an older session holds the lock of the run's id. The
    /// second column is who has the slot then. [`KILLED`] in the first one: somebody is ending its holder.
    pub fn reacquire(&self, slot: u32) -> Reacquire {
        let (slot, writes, traits) = (slot as usize, self.writes(), self.traits());
        let name = &self.slots[slot];
        let had = self.one(slot, "0");
        let marked = is_held(&self.run_id);
        let kill = self.kill(u32::try_from(slot).unwrap_or(u32::MAX));
        let sql = format!(
            "/* dblock reacquire */ SELECT CASE WHEN IS_USED_LOCK({kill}) THEN {KILLED} WHEN {marked} THEN {had} ELSE -1 END, \
             IS_USED_LOCK({name}), CONNECTION_ID(), {writes}, {traits}"
        );
        Reacquire(Open(self.ask(sql)))
    }

    /// The renewal: whether the slot is held, as [`Step::Confirm`] asks, with nothing given up.
    pub fn renew(&self, slot: u32) -> Ask {
        let held = is_held(&self.slots[slot as usize]);
        self.ask(format!(
            "/* dblock renew */ SELECT CASE WHEN {held} THEN {slot} ELSE -1 END, 0, CONNECTION_ID(), {}",
            self.writes()
        ))
    }

    /// Gives a slot back, and asks who is at the head of the queue.
    pub fn release(&self, slot: u32) -> Release {
        Release(format!(
            "/* dblock release */ SELECT RELEASE_LOCK({}), IS_USED_LOCK({})",
            self.slots[slot as usize], self.queue_head
        ))
    }

    /// Who has a slot. `IS_USED_LOCK` tells every account the number; the process list tells an account about its own
    /// sessions, and about all with the PROCESS privilege.
    pub fn holder(&self, slot: u32) -> SlotHolder {
        SlotHolder(format!(
            "/* dblock holder */ SELECT holder.id, CONCAT(client.user, '@', client.host) \
             FROM (SELECT IS_USED_LOCK({}) AS id) holder \
             LEFT JOIN information_schema.processlist client ON client.id = holder.id",
            self.slots[slot as usize],
        ))
    }

    /// The first free slot, the last of them with this time-out. Of CASE both servers promise that it goes no further than
    /// the first that is true (of `1 IN (…)` MySQL evaluates everything).
    fn any(&self, timeout: &str) -> String {
        let last = self.slots.len() - 1;
        let mut case = "CASE".to_owned();
        for slot in 0..last {
            let _ = write!(case, " WHEN {} THEN {slot}", self.had(slot, "0"));
        }
        let last = self.one(last, timeout);
        if case == "CASE" {
            return last;
        }
        case + " ELSE " + &last + " END"
    }

    /// One slot. Its number, -1 if another has it; NULL stays NULL.
    fn one(&self, slot: usize, timeout: &str) -> String {
        format!(
            "CASE {} WHEN 1 THEN {slot} WHEN 0 THEN -1 END",
            self.had(slot, timeout)
        )
    }

    /// Whether a slot is had. One whose holder somebody is ending is let go at once: its command may still run. That is asked
    /// after it was taken, for the marker was there before the holder lost it. What was waited for is proved by a statement of
    /// its own, and one of very many where some holder is being ended.
    fn had(&self, slot: usize, timeout: &str) -> String {
        let name = &self.slots[slot];
        let had = format!("GET_LOCK({name}, {timeout})");
        if timeout != "0" || !self.checks_kills {
            return had;
        }
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let (kill, end) = (self.kill(slot), self.end(slot));
        // RELEASE_LOCK is never below zero.
        format!(
            "{had} AND (IS_FREE_LOCK({kill}) AND IS_FREE_LOCK({end}) OR RELEASE_LOCK({name}) < 0)"
        )
    }

    /// The slot that is held, `otherwise` if none is.
    fn held_slot_or(&self, otherwise: &str) -> String {
        let mut case = "CASE CONNECTION_ID()".to_owned();
        for (slot, name) in self.slots.iter().enumerate() {
            let _ = write!(case, " WHEN IS_USED_LOCK({name}) THEN {slot}");
        }
        case + " ELSE " + otherwise + " END"
    }
}

/// 1 if this session has it, otherwise 0.
fn is_held(name: &str) -> String {
    format!("IFNULL(IS_USED_LOCK({name}) = CONNECTION_ID(), 0)")
}

/// Takes one of the signs that a holder of a lock is being ended, if one is free: 1, else NULL.
pub fn take_kill_beacon(name: &Name) -> String {
    let kills = name.kill_beacons_on_server();
    let kills = kills.map(|kill| format!("WHEN GET_LOCK({}, 0) THEN 1", literal(&kill)));
    format!("CASE {} END", kills.join(" "))
}

/// Acquires the lock of this name on the server, and waits for it so many whole seconds.
fn take(name: &str, wait: Duration) -> String {
    format!("SELECT GET_LOCK({}, {})", literal(name), wait.as_secs())
}

/// A name as an SQL literal.
pub fn literal(name: &str) -> String {
    let mut literal = "_utf8mb4 x'".to_owned();
    for byte in name.bytes() {
        let _ = write!(literal, "{byte:02x}");
    }
    literal.push('\'');
    literal
}

/// Variables of [`Statements`] that not every build of a server has.
const ASKED_FOR: [&str; 4] = [
    "read_only",
    "innodb_read_only",
    "version_comment",
    "wsrep_on",
];

/// Makes a session fit to keep a lock: no time limit on statements, and the server keeps it for the TTL, in whole seconds,
/// after its last statement. Which limit a server has is left to its version: MariaDB reads `/*M!`, MySQL `/*!50708`.
fn keep_session(ttl: Duration) -> String {
    let idle_limit = ttl.as_secs();
    format!(
        "SET SESSION wait_timeout={idle_limit} \
         /*M!100102 , max_statement_time=0 */ /*!50708 , max_execution_time=0 */"
    )
}

/// Gives a session that waits a short life between two statements.
pub fn shorten_idle_timeout() -> Command {
    Command(format!(
        "/* dblock wait */ SET SESSION wait_timeout={WAITER_IDLE_LIMIT}"
    ))
}

/// Gives a session the idle timeout of a holder.
pub fn set_idle_timeout(ttl: Duration) -> Command {
    Command(format!("/* dblock hold */ {}", keep_session(ttl)))
}

/// Tells whoever ends this session's holder, the session of this number, that there is no command.
pub fn ack_kill_of_waiter(killer: u64) -> Command {
    Command(format!(
        "/* dblock ack kill */ {}",
        take(&kill_ack_lock(killer), Duration::ZERO)
    ))
}

/// A limit on one statement, for MySQL, which rounds the time-out of `GET_LOCK` to whole seconds. To MariaDB it is a
/// comment, or as good as the time-out. Zero would be no limit, and is not needed.
fn statement_limit(left: Duration) -> String {
    match millis(left) {
        0 => String::new(),
        millis => format!("/*+ MAX_EXECUTION_TIME({millis}) */ "),
    }
}

/// A time-out of `GET_LOCK`. MariaDB takes fractions of a second, and at its versions passes over comments of this form.
/// On MySQL it lies behind the limit on the statement.
fn seconds(left: Duration) -> String {
    match millis(left) {
        0 => "0".to_owned(),
        millis => format!("{}.{:03} /*!50708 + 2 */", millis / 1000, millis % 1000),
    }
}

/// Rounded up: a wait that ends too early asks again.
fn millis(span: Duration) -> u128 {
    span.as_micros().div_ceil(1000)
}
