//! The statements of a named lock on MySQL and MariaDB, which get the same text: version comments cover the differences.

mod plain;
mod time_limits;

use std::fmt::Write;
use std::time::Duration;

use super::answers::{Asked, KILLED, KillMarker, Opened, ReacquireAnswer};
use super::{RECHECK, Statements, ask_row};
use crate::db::sql::any_is_on;
use crate::db::{Ask, Row, ask, command, named, short_address, text_literal};
use crate::lock::named::queue::{FEW, Step};
use crate::lock::named::releasing::Answer as ReleaseAnswer;
use crate::lock::{Name, kill_request_lock};
pub use plain::{ask_owners, kill_session, wait_for_lock};
use time_limits::{keep_session, seconds, statement_limit};
pub use time_limits::{set_idle_timeout, shorten_idle_timeout};

/// The longest wait in one statement: MySQL has 32 bits for its statement time limit in milliseconds.
const LONGEST_STATEMENT: Duration = Duration::from_secs(40 * 24 * 3600);

/// Writes the statements of one lock. Names are literals that no `sql_mode` and no character set changes.
pub struct MySqlStatements {
    /// The names of the slots.
    slots: Vec<String>,
    /// The name of the lock that the queue's head holds.
    queue_head: String,
    /// The name of the run id lock.
    run_id: String,
    name: Name,
    /// Whether a slot is acquired together with a check of its kill lock.
    checks_kills: bool,
    /// Variables that this server does not have.
    unknown: Vec<String>,
}

/// Interrupts the statement of the session that holds this lock of the queue's head. Whoever was the head a moment ago may hold a slot by
/// now, and its statements are not to be interrupted.
pub fn wake(queue_head: &str) -> Ask<'static, ()> {
    let head = text_literal(queue_head);
    command("wake", format!("KILL QUERY IS_USED_LOCK({head})"))
}

impl MySqlStatements {
    /// The statements for the first `slots` slots of a lock. `run_id` is the name of the run id lock on the server.
    pub fn new(name: &Name, slots: u32, run_id: &str) -> Self {
        Self {
            slots: (0..slots)
                .map(|slot| text_literal(&name.slot_on_server(slot)))
                .collect(),
            queue_head: text_literal(&name.queue_head_on_server()),
            run_id: text_literal(run_id),
            name: name.clone(),
            checks_kills: slots <= FEW,
            unknown: Vec::new(),
        }
    }

    fn variable(&self, name: &str) -> String {
        if self.unknown.iter().any(|unknown| unknown == name) {
            "NULL".to_owned()
        } else {
            format!("@@global.{name}")
        }
    }

    /// Two columns that say whether the server takes writes.
    fn writes(&self) -> String {
        format!(
            "{}, {}",
            self.variable("read_only"),
            self.variable("innodb_read_only")
        )
    }

    /// Columns that are read once for each session: who holds the run id lock, and what [`Fitness`](super::fitness::Fitness) reads.
    fn traits(&self) -> String {
        format!(
            "IS_USED_LOCK({}), @@session.wait_timeout, {} /*M!100000 , {} */",
            self.run_id,
            self.variable("version_comment"),
            self.variable("wsrep_on"),
        )
    }

    /// The name and the text of a step's statement. `left` is the rest of the wait, `None` without limit. The columns of the answer:
    ///
    /// - the number of the held slot, -1 for none, NULL if that is not known;
    /// - whether the session is the head of the queue;
    /// - the session's connection id;
    /// - two that show whether the server is read-only;
    /// - with a proof, who reacquires the slot, and who kills its holder.
    ///
    /// The first packet of a session also prepares it to hold a lock. Later packets have one statement only: a `KILL QUERY` during
    /// the first of two makes both servers skip the second without an answer, and the client waits for ever.
    fn of(&self, step: Step, left: Option<Duration>) -> (&'static str, String) {
        let left = left.unwrap_or(LONGEST_STATEMENT).min(LONGEST_STATEMENT);
        let alone = self.slots.len() == 1;
        let (limit, slot, is_head) = match step {
            Step::Try => (None, self.acquire_any("0"), "0".to_owned()),
            // If somebody waits, the queue has a head.
            Step::TryUnlessQueued => (
                None,
                format!(
                    "CASE WHEN IS_FREE_LOCK({}) THEN {} ELSE -1 END",
                    self.queue_head,
                    self.acquire_any("0")
                ),
                "0".to_owned(),
            ),
            Step::Queue if alone => (Some(left), self.acquire_any(&seconds(left)), "0".to_owned()),
            Step::Queue => (
                Some(left),
                format!(
                    "CASE GET_LOCK({}, {}) WHEN 0 THEN -1 END",
                    self.queue_head,
                    seconds(left)
                ),
                is_held(&self.queue_head),
            ),
            // After an interruption it must not acquire a second slot. Both servers can wait for one whole second.
            Step::Head => {
                let (limit, timeout) = if left < RECHECK {
                    (Some(left), seconds(left))
                } else {
                    (None, RECHECK.as_secs().to_string())
                };
                let slot = self.held_slot_or(&self.acquire_any(&timeout));
                (limit, slot, is_held(&self.queue_head))
            }
            Step::Settle => (None, self.held_slot_or("NULL"), is_held(&self.queue_head)),
            Step::Confirm(slot) => {
                let held = is_held(&self.slots[slot as usize]);
                // AND continues after NULL, but not after 0.
                let is_head = format!(
                    "{} AND NOT ({held} AND RELEASE_LOCK({}))",
                    is_held(&self.queue_head),
                    self.queue_head
                );
                (None, format!("CASE WHEN {held} THEN {slot} END"), is_head)
            }
        };
        let proof = match step {
            Step::Confirm(slot) => {
                format!(
                    ", IS_USED_LOCK({}), IFNULL(IS_USED_LOCK({}), IS_USED_LOCK({}))",
                    self.reacquire_lock(slot),
                    self.kill_lock(slot),
                    self.termination_lock(slot)
                )
            }
            _ => String::new(),
        };
        let is_head = match step {
            _ if alone => "0",
            _ => &is_head,
        };
        let limit = limit.map_or_else(String::new, statement_limit);
        let name = match step {
            Step::Try | Step::TryUnlessQueued => "acquire",
            Step::Queue => "queue",
            Step::Head => "queue head",
            Step::Settle => "settle",
            Step::Confirm(_) => "prove",
        };
        let writes = self.writes();
        let sql = format!("SELECT {limit}{slot}, {is_head}, CONNECTION_ID(), {writes}{proof}");
        (name, sql)
    }

    fn reacquire_lock(&self, slot: u32) -> String {
        text_literal(&self.name.reacquire_on_server(slot))
    }

    fn kill_lock(&self, slot: u32) -> String {
        text_literal(&self.name.kill_on_server(slot))
    }

    fn termination_lock(&self, slot: u32) -> String {
        text_literal(&self.name.termination_on_server(slot))
    }

    /// Acquires the first free slot, and waits for the last one up to `timeout`. In a CASE both servers evaluate nothing after the first
    /// true condition; in `1 IN (…)` MySQL evaluates everything.
    fn acquire_any(&self, timeout: &str) -> String {
        let last = self.slots.len() - 1;
        let mut case = "CASE".to_owned();
        for slot in 0..last {
            let _ = write!(case, " WHEN {} THEN {slot}", self.acquire(slot, "0", false));
        }
        let last = self.acquire_one(last, timeout, false);
        if case == "CASE" {
            return last;
        }
        case + " ELSE " + &last + " END"
    }

    /// Acquires one slot: its number, or -1 if another session holds it. NULL stays NULL.
    fn acquire_one(&self, slot: usize, timeout: &str, again: bool) -> String {
        format!(
            "CASE {} WHEN 1 THEN {slot} WHEN 0 THEN -1 END",
            self.acquire(slot, timeout, again)
        )
    }

    /// Acquires a slot: whether that succeeded. Releases it at once if its last holder is being killed, as the command may still run, or if
    /// that holder is reacquiring it; `again`: the caller is that holder. Checks this after the slot: it was announced before the holder
    /// lost the slot. After a wait, and with very many slots, the proof checks it instead.
    fn acquire(&self, slot: usize, timeout: &str, again: bool) -> String {
        let name = &self.slots[slot];
        let acquire = format!("GET_LOCK({name}, {timeout})");
        if timeout != "0" || !self.checks_kills {
            return acquire;
        }
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let mut announced = vec![self.kill_lock(slot), self.termination_lock(slot)];
        if !again {
            announced.push(self.reacquire_lock(slot));
        }
        let none = announced.iter().map(|name| format!("IS_FREE_LOCK({name})"));
        let none = none.collect::<Vec<_>>().join(" AND ");
        // RELEASE_LOCK is never below zero.
        format!("{acquire} AND ({none} OR RELEASE_LOCK({name}) < 0)")
    }

    /// The slot that is held, or `otherwise` if none is.
    fn held_slot_or(&self, otherwise: &str) -> String {
        let mut case = "CASE CONNECTION_ID()".to_owned();
        for (slot, name) in self.slots.iter().enumerate() {
            let _ = write!(case, " WHEN IS_USED_LOCK({name}) THEN {slot}");
        }
        case + " ELSE " + otherwise + " END"
    }
}

impl Statements for MySqlStatements {
    fn checks_kills(&self) -> bool {
        self.checks_kills
    }

    fn check_kills(&mut self) {
        self.checks_kills = true;
    }

    fn do_without(&mut self, variable: &str) -> bool {
        let known = self.unknown.iter().any(|unknown| unknown == variable);
        let asked_for = ASKED_FOR.contains(&variable);
        if asked_for && !known {
            self.unknown.push(variable.to_owned());
        }
        asked_for && !known
    }

    fn open_session(&self, ttl: Duration, _login: u64) -> Ask<'static, ()> {
        let sql = format!(
            "{}, @dblock = GET_LOCK({}, 0), @dblock = GET_LOCK(CONCAT('#', CONNECTION_ID()), 0)",
            keep_session(ttl),
            self.run_id
        );
        command("open", sql)
    }

    fn first(
        &self,
        step: Step,
        left: Option<Duration>,
        _login: u64,
    ) -> Ask<'static, Option<Opened>> {
        let (name, sql) = self.of(step, left);
        ask_row(&self.slots, name, sql + ", " + &self.traits(), Opened::read)
    }

    fn step(
        &self,
        step: Step,
        left: Option<Duration>,
        _own: Option<u64>,
    ) -> Ask<'static, Option<Asked>> {
        let (name, sql) = self.of(step, left);
        ask_row(&self.slots, name, sql, Asked::read)
    }

    fn prove(&self, slot: u32) -> Ask<'static, Option<Asked>> {
        let (name, sql) = self.of(Step::Confirm(slot), None);
        ask_row(&self.slots, name, sql, Asked::read_proof)
    }

    fn hold_and_prove(&self, slot: u32, ttl: Duration) -> Option<String> {
        let held = is_held(&self.slots[slot as usize]);
        let others = [
            self.reacquire_lock(slot),
            self.kill_lock(slot),
            self.termination_lock(slot),
        ];
        let free = others
            .map(|name| format!("IS_FREE_LOCK({name})"))
            .join(" AND ");
        let [one, other] = ["read_only", "innodb_read_only"].map(|name| self.variable(name));
        let is_read_only = any_is_on([&one, &other]);
        let keep = keep_session(ttl);
        let sql = format!("{keep}, @dblock = {held} AND {free} AND NOT {is_read_only}");
        Some(named("hold", sql))
    }

    fn kill_marker(&self, slot: u32, lost: Option<u64>) -> Ask<'static, Option<KillMarker>> {
        let killer = format!("IS_USED_LOCK({})", self.kill_lock(slot));
        let killer = match lost {
            Some(lost) => {
                let request = text_literal(&kill_request_lock(lost));
                format!("CASE WHEN IS_USED_LOCK({request}) = {killer} THEN {killer} END")
            }
            None => killer,
        };
        let sql = format!("SELECT {killer}, {}", self.writes());
        ask("kill marker", sql, |rows| rows.optional(KillMarker::read))
    }

    fn taking_slot(&self, slot: u32, mark: Option<&str>) -> String {
        let acquire = self.acquire(slot as usize, "0", false);
        match mark.map(text_literal) {
            Some(mark) => format!("{acquire} AND (GET_LOCK({mark}, 0) OR 1)"),
            None => acquire,
        }
    }

    fn reacquire(&self, slot: u32, _login: u64) -> Ask<'static, Option<ReacquireAnswer>> {
        let (slot, writes, traits) = (slot as usize, self.writes(), self.traits());
        let name = &self.slots[slot];
        let acquire = self.acquire_one(slot, "0", true);
        let marked = is_held(&self.run_id);
        let kill = self.kill_lock(u32::try_from(slot).unwrap_or(u32::MAX));
        let sql = format!(
            "SELECT CASE WHEN IS_USED_LOCK({kill}) THEN {KILLED} WHEN {marked} THEN {acquire} ELSE -1 END, \
             IS_USED_LOCK({name}), CONNECTION_ID(), {writes}, {traits}"
        );
        ask_row(&self.slots, "reacquire", sql, ReacquireAnswer::read)
    }

    fn renew(&self, slot: u32) -> Ask<'static, Option<Asked>> {
        let held = is_held(&self.slots[slot as usize]);
        let sql = format!(
            "SELECT CASE WHEN {held} THEN {slot} ELSE -1 END, 0, CONNECTION_ID(), {}",
            self.writes()
        );
        ask_row(&self.slots, "renew", sql, Asked::read)
    }

    fn release(&self, slot: u32, mark: Option<&str>) -> Ask<'static, ReleaseAnswer> {
        let mark = mark.map_or_else(String::new, |mark| {
            format!(", RELEASE_LOCK({})", text_literal(mark))
        });
        let sql = format!(
            "SELECT RELEASE_LOCK({}), IS_USED_LOCK({}){mark}",
            self.slots[slot as usize], self.queue_head
        );
        ask("release", sql, |rows| {
            let columns: Option<(Option<u8>, Option<u64>)> = rows.optional(Row::columns)?;
            let (released, queue_head) = columns.unwrap_or_default();
            Ok(ReleaseAnswer::Released {
                was_held: released == Some(1),
                queue_head,
            })
        })
    }

    fn holder(&self, slot: u32) -> Ask<'static, (Option<u64>, Option<String>)> {
        let sql = format!(
            "SELECT holder.id, CONCAT(client.user, '@', client.host) \
             FROM (SELECT IS_USED_LOCK({}) AS id) holder \
             LEFT JOIN information_schema.processlist client ON client.id = holder.id",
            self.slots[slot as usize],
        );
        ask("holder", sql, |rows| {
            let holder: Option<(Option<u64>, Option<String>)> = rows.optional(Row::columns)?;
            let (id, address) = holder.unwrap_or_default();
            Ok((id, address.map(short_address)))
        })
    }
}

/// 1 if this session holds it, else 0.
pub fn is_held(name: &str) -> String {
    format!("IFNULL(IS_USED_LOCK({name}) = CONNECTION_ID(), 0)")
}

/// The variables in [`Statements`] that some builds of a server do not have.
const ASKED_FOR: [&str; 4] = [
    "read_only",
    "innodb_read_only",
    "version_comment",
    "wsrep_on",
];
