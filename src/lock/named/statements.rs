//! The SQL of each step. Both servers take the same text; version comments serve where they differ.

use std::fmt::Write;
use std::time::Duration;

use super::queue::{FEW, Step};
use crate::lock::{Name, gone};

/// Seconds that the server keeps the session of a waiter between two statements: one that is gone when it is granted
/// something costs the others that much. While a statement waits, this limit does not count.
const WAITER_IDLE_LIMIT: u32 = 3;

/// The longest wait in one statement: MySQL takes its statement time limit in milliseconds, 32 bits of them.
const LONGEST_STATEMENT: Duration = Duration::from_secs(40 * 24 * 3600);

/// How long the head waits for the last slot before it looks at all of them again: a holder that died wakes nobody. MySQL
/// waits for whole seconds.
pub const RECHECK: Duration = Duration::from_secs(1);

/// In the place of a slot's number: somebody is ending its holder.
pub const KILLED: i64 = -2;

/// Writes the statements for one lock. Names are literals that no `sql_mode` and no character set changes.
pub struct Statements {
    /// Of each slot.
    slots: Vec<String>,
    /// Of the place at the head of the queue.
    place: String,
    /// Of the lock that tells this dblock's sessions from all others.
    mark: String,
    name: Name,
    /// Whether each slot is asked for together with the marker of whoever ends its holder.
    is_careful: bool,
    /// Variables that the server has not.
    unknown: Vec<String>,
}

impl Statements {
    /// For the first so many slots of the lock `name`, and the server's name of a lock that only this dblock has.
    pub fn new(name: &Name, slots: u32, mark: &str) -> Self {
        Self {
            slots: (0..slots)
                .map(|slot| literal(&name.slot_on_server(slot)))
                .collect(),
            place: literal(&name.place_on_server()),
            mark: literal(mark),
            name: name.clone(),
            is_careful: slots <= FEW,
            unknown: Vec::new(),
        }
    }

    /// From now on no slot is taken whose holder somebody is ending. `false`: that was so before.
    pub fn be_careful(&mut self) -> bool {
        !std::mem::replace(&mut self.is_careful, true)
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

    /// The server's own words on whether it takes writes: two columns.
    fn writes(&self) -> String {
        format!(
            "{}, {}",
            self.variable("read_only"),
            self.variable("innodb_read_only")
        )
    }

    /// What is asked besides, once in a session: who has the mark, and what [`Fitness`](crate::db::Fitness) reads.
    fn traits(&self) -> String {
        format!(
            "IS_USED_LOCK({}), @@session.wait_timeout, {} /*M!100000 , {} */",
            self.mark,
            self.variable("version_comment"),
            self.variable("wsrep_on"),
        )
    }

    /// Makes a new session fit to hold a lock, as [`keep_session`] does, and takes the mark, and the [`sign`](crate::lock::sign)
    /// that it is a dblock's.
    pub fn open_session(&self, ttl: Duration) -> String {
        format!(
            "{}, @dblock = GET_LOCK({}, 0), @dblock = GET_LOCK(CONCAT('#', CONNECTION_ID()), 0)",
            keep_session(ttl),
            self.mark
        )
    }

    /// As [`Statements::of`], for the first step of a session: three columns more for what kind of server this is, and a
    /// fourth on MariaDB.
    pub fn first(&self, step: Step, left: Option<Duration>) -> String {
        self.of(step, left) + ", " + &self.traits()
    }

    /// The statement of a step; `left` is the time left to wait, `None` without limit. The row in answer: the number of
    /// the slot that was had or is held, -1 for none, NULL if that is not known; whether the place is held, or 2; the session's
    /// own number; two that tell whether the server is read-only; with a proof, who comes again for the slot, and who is ending
    /// its holder.
    ///
    /// What a session asks first makes it fit to keep a lock in the same packet. Later packets have one statement only: a
    /// `KILL QUERY` that comes during the first of two makes both servers pass over the second without a word, and the
    /// client waits for ever.
    pub fn of(&self, step: Step, left: Option<Duration>) -> String {
        let left = left.unwrap_or(LONGEST_STATEMENT).min(LONGEST_STATEMENT);
        let alone = self.slots.len() == 1;
        let (limit, slot, place) = match step {
            Step::Try => (None, self.any("0"), "0".to_owned()),
            // Whoever waits stands behind one that has the place.
            Step::TryUnlessQueued => (
                None,
                format!(
                    "CASE WHEN IS_FREE_LOCK({}) THEN {} ELSE -1 END",
                    self.place,
                    self.any("0")
                ),
                "0".to_owned(),
            ),
            Step::Queue if alone => (Some(left), self.any(&seconds(left)), "0".to_owned()),
            Step::Queue => (
                Some(left),
                format!(
                    "CASE GET_LOCK({}, {}) WHEN 0 THEN -1 END",
                    self.place,
                    seconds(left)
                ),
                is_held(&self.place),
            ),
            // Asked again after an interruption, it must not take a second slot. A whole second both servers can wait.
            Step::Head => {
                let (limit, timeout) = if left < RECHECK {
                    (Some(left), seconds(left))
                } else {
                    (None, RECHECK.as_secs().to_string())
                };
                let slot = self.held_slot_or(&self.any(&timeout));
                (limit, slot, is_held(&self.place))
            }
            Step::Settle => (None, self.held_slot_or("NULL"), is_held(&self.place)),
            Step::Confirm(slot) => {
                let held = is_held(&self.slots[slot as usize]);
                // AND goes on after NULL, but not after 0.
                let place = format!(
                    "{} AND NOT ({held} AND RELEASE_LOCK({}))",
                    is_held(&self.place),
                    self.place
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
            Step::Try | Step::TryUnlessQueued if !self.is_careful => &self.kills(),
            _ => &place,
        };
        let limit = limit.map_or_else(String::new, statement_limit);
        format!(
            "SELECT {limit}{slot}, {place}, CONNECTION_ID(), {}{back}",
            self.writes()
        )
    }

    fn back(&self, slot: u32) -> String {
        literal(&self.name.back_on_server(slot))
    }

    fn kill(&self, slot: u32) -> String {
        literal(&self.name.kill_on_server(slot))
    }

    fn end(&self, slot: u32) -> String {
        literal(&self.name.end_on_server(slot))
    }

    /// Tells that the holder of a slot, which somebody ends, is ending its command: until then the slot is for nobody.
    pub fn begin_end(&self, slot: u32) -> String {
        let kill = take_a_kill(&self.name);
        format!("SELECT GET_LOCK({}, 0), {kill}", self.end(slot))
    }

    /// Whether the holder of some slot is being ended, in the place of a place: 2, or 0.
    fn kills(&self) -> String {
        let kills = self.name.kills_on_server();
        let kills = kills.map(|kill| format!("IS_USED_LOCK({})", literal(&kill)));
        format!("CASE WHEN COALESCE({}) THEN 2 ELSE 0 END", kills.join(", "))
    }

    /// Takes that back, and tells whoever ends the holder, the session of this number, that the command is gone.
    pub fn tell_end(&self, slot: u32, killer: u64) -> String {
        format!(
            "SELECT RELEASE_LOCK({}), GET_LOCK({}, 0)",
            self.end(slot),
            literal(&gone(killer))
        )
    }

    /// Who is ending the holder of a slot, and as the fourth and fifth column whether the server is read-only.
    pub fn killer(&self, slot: u32) -> String {
        format!(
            "SELECT IS_USED_LOCK({}), 0, 0, {}",
            self.kill(slot),
            self.writes()
        )
    }

    /// Tells those who wait for a slot that its holder comes again: whoever is granted it meanwhile lets it go.
    pub fn come_back(&self, slot: u32) -> String {
        take(&self.name.back_on_server(slot))
    }

    /// Takes that back.
    pub fn be_back(&self, slot: u32) -> String {
        format!("SELECT RELEASE_LOCK({})", self.back(slot))
    }

    /// Takes one slot without waiting, as [`Statements::first`] takes any; but not while an older session has the mark. The
    /// second column is who has the slot then. [`KILLED`] in the first one: somebody is ending its holder.
    pub fn again(&self, slot: u32) -> String {
        let (slot, writes, traits) = (slot as usize, self.writes(), self.traits());
        let name = &self.slots[slot];
        let had = self.one(slot, "0");
        let marked = is_held(&self.mark);
        let kill = self.kill(u32::try_from(slot).unwrap_or(u32::MAX));
        format!(
            "SELECT CASE WHEN IS_USED_LOCK({kill}) THEN {KILLED} WHEN {marked} THEN {had} ELSE -1 END, \
             IS_USED_LOCK({name}), CONNECTION_ID(), {writes}, {traits}"
        )
    }

    /// The heartbeat: whether the slot is held, as [`Step::Confirm`] asks, with nothing given up.
    pub fn heartbeat(&self, slot: u32) -> String {
        let held = is_held(&self.slots[slot as usize]);
        format!(
            "SELECT CASE WHEN {held} THEN {slot} ELSE -1 END, 0, CONNECTION_ID(), {}",
            self.writes()
        )
    }

    /// Gives a slot back, and asks who is at the head of the queue.
    pub fn release(&self, slot: u32) -> String {
        format!(
            "SELECT RELEASE_LOCK({}), IS_USED_LOCK({})",
            self.slots[slot as usize], self.place
        )
    }

    /// Who has a slot. `IS_USED_LOCK` tells every account the number; the process list tells an account about its own
    /// sessions, and about all with the PROCESS privilege.
    pub fn holder(&self, slot: u32) -> String {
        format!(
            "SELECT holder.id, CONCAT(client.user, '@', client.host) \
             FROM (SELECT IS_USED_LOCK({}) AS id) holder \
             LEFT JOIN information_schema.processlist client ON client.id = holder.id",
            self.slots[slot as usize],
        )
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
        if timeout != "0" || !self.is_careful {
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
pub fn take_a_kill(name: &Name) -> String {
    let kills = name.kills_on_server();
    let kills = kills.map(|kill| format!("WHEN GET_LOCK({}, 0) THEN 1", literal(&kill)));
    format!("CASE {} END", kills.join(" "))
}

/// Takes a lock of this name on the server, if nobody has it.
pub fn take(name: &str) -> String {
    format!("SELECT GET_LOCK({}, 0)", literal(name))
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
pub fn keep_session(ttl: Duration) -> String {
    let idle_limit = ttl.as_secs();
    format!(
        "SET SESSION wait_timeout={idle_limit} \
         /*M!100102 , max_statement_time=0 */ /*!50708 , max_execution_time=0 */"
    )
}

/// Gives a session that waits a short life between two statements.
pub fn expect_little() -> String {
    format!("SET SESSION wait_timeout={WAITER_IDLE_LIMIT}")
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
