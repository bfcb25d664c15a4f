//! A named lock on a session: asked for, waited for, proved, freed. NULL, an error or a lost connection is never read as
//! "taken" and never as "mine".

mod name;

use std::fmt::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mysql::Row;

pub use name::Name;

use crate::exit::{Failure, Reason};
use crate::server::{Fault, Listener, Session, number, text};
use crate::settings::Wait;

/// Seconds that the server keeps the session of a holder that says nothing: the most it takes. The default, eight hours,
/// would end the lock of a longer command.
const HOLDER_IDLE_LIMIT: u32 = 31_536_000;

/// Seconds that the server keeps the session of a waiter after it has got the lock: a waiter that is gone by then costs
/// the others that much. While a statement waits, this limit does not count.
const WAITER_IDLE_LIMIT: u32 = 3;

/// The longest wait in one statement: MySQL takes its statement time limit in milliseconds, 32 bits of them.
const LONGEST_STATEMENT: Duration = Duration::from_secs(40 * 24 * 3600);

/// After an answer that tells nothing, before the next question.
const PAUSE: Duration = Duration::from_millis(100);

/// How many answers that tell nothing are taken when no time is left to wait.
const MOST_UNCLEAR: u32 = 3;

/// A lock and how long to wait for it.
pub struct Request {
    /// The lock's name on the server, as an SQL literal that no `sql_mode` and no character set changes.
    literal: String,
    wait: Wait,
    /// When the lock was first asked for; `None` before that. The wait goes on over a lost session.
    since: Option<Instant>,
}

/// What became of a request.
pub enum Outcome {
    /// The session has the lock.
    Held {
        /// The server's number of the session. Behind a proxy it is not that of the handshake.
        connection_id: u64,
    },
    /// Somebody else has it, and the time is over.
    Taken(Holder),
}

/// Who has a lock, as far as the server tells.
pub enum Holder {
    /// The session of this number; and `user@host:port` if this account may see it.
    Session(u64, Option<String>),
    /// Nobody, when the server was asked.
    Nobody,
    /// The server did not tell.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Session(id, Some(client)) => write!(f, "held by connection {id} ({client})"),
            Self::Session(id, None) => write!(f, "held by connection {id}"),
            Self::Nobody => write!(f, "taken, and was freed this moment"),
            Self::Unknown => write!(f, "taken"),
        }
    }
}

/// How often the server told nothing.
#[derive(Default)]
struct Doubts(u32);

impl Doubts {
    /// One more: waits a little, so that the server is not asked in a rush, or gives up when no time is `left` to wait.
    fn add(&mut self, left: Option<Duration>) -> Result<(), Fault> {
        self.0 += 1;
        if self.0 >= MOST_UNCLEAR && left == Some(Duration::ZERO) {
            let line = "the server gives no clear answer to GET_LOCK";
            return Err(Fault::Final(Failure::new(Reason::Internal, line)));
        }
        sleep(PAUSE);
        Ok(())
    }
}

/// The session's answer to "is it mine?".
enum Possession {
    Mine(u64),
    Other,
    Nobody,
}

impl Request {
    /// A request for the lock `name`.
    pub fn new(name: &Name, wait: Wait) -> Self {
        let mut literal = "_utf8mb4 x'".to_owned();
        for byte in name.on_server().bytes() {
            let _ = write!(literal, "{byte:02x}");
        }
        literal.push('\'');
        Self {
            literal,
            wait,
            since: None,
        }
    }

    /// Takes the lock on `session`, in one round trip if it is free; otherwise waits for it. `on_wait` is told who has the
    /// lock when the waiting on this session begins.
    ///
    /// # Errors
    /// [`Fault::Gone`]: on a new session the request goes on waiting within its time.
    pub fn take(
        &mut self,
        session: &mut Session,
        listener: &Listener,
        on_wait: impl Fn(&Holder),
    ) -> Result<Outcome, Fault> {
        self.since.get_or_insert_with(Instant::now);
        let mut doubts = Doubts::default();
        // Even a caller that may wait asks once without waiting: a free lock is had in one round trip.
        let mut tried = false;
        loop {
            let waits = tried && self.left() != Some(Duration::ZERO);
            let answer = if waits {
                self.wait(session, listener)
            } else {
                self.try_once(session, listener)
            };
            let possession = match answer {
                // Only an answer that nobody waited for can be trusted by itself. One that was waited for may have come
                // late, when the server had long given up this session and its lock.
                Ok(Some((1, id))) if !waits => Possession::Mine(id),
                Ok(Some((0, _))) => Possession::Other,
                // A statement that was interrupted may have taken the lock all the same.
                Ok(_) | Err(Fault::Unclear(_)) => self.settle(session, listener, &mut doubts)?,
                Err(fault) => return Err(fault),
            };
            match possession {
                Possession::Mine(connection_id) => return Ok(Outcome::Held { connection_id }),
                Possession::Nobody => doubts.add(self.left())?,
                Possession::Other if self.left() == Some(Duration::ZERO) => {
                    return Ok(Outcome::Taken(self.holder(session, listener)?));
                }
                Possession::Other if !tried => {
                    on_wait(&self.holder(session, listener)?);
                    tried = true;
                }
                // The server ended the wait too early.
                Possession::Other => sleep(self.left().unwrap_or(PAUSE).min(PAUSE)),
            }
        }
    }

    /// Asks whose the lock is until the server says it. `GET_LOCK` is not asked again before that: locks count, and one that
    /// was taken twice is not free when it is released once.
    fn settle(
        &self,
        session: &mut Session,
        listener: &Listener,
        doubts: &mut Doubts,
    ) -> Result<Possession, Fault> {
        loop {
            match self.possession(session, listener) {
                Err(Fault::Unclear(_)) => doubts.add(self.left())?,
                answer => return answer,
            }
        }
    }

    /// Gives the lock back. `false`: it was no longer ours.
    ///
    /// # Errors
    /// [`Fault::Gone`]: the session ended, and with it the lock, nobody knows when.
    pub fn release(&self, session: &mut Session, listener: &Listener) -> Result<bool, Fault> {
        let mut interrupted = false;
        loop {
            let statement = format!("SELECT RELEASE_LOCK({})", self.literal);
            match session.ask(&statement, listener) {
                Ok(row) => return Ok(interrupted || row.and_then(|row| number(&row, 0)) == Some(1)),
                // It may have been released before it was interrupted; the second answer then says 0 or NULL.
                Err(Fault::Unclear(_)) => {
                    interrupted = true;
                    sleep(PAUSE);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// The time that is left to wait; `None` without limit.
    fn left(&self) -> Option<Duration> {
        let Wait::For(limit) = self.wait else {
            return None;
        };
        let gone = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        Some(limit.saturating_sub(gone))
    }

    /// Asks for the lock without waiting, and makes the session fit to keep it: one packet, one round trip.
    fn try_once(
        &self,
        session: &mut Session,
        listener: &Listener,
    ) -> Result<Option<(u64, u64)>, Fault> {
        let statement = format!(
            "{}; SELECT GET_LOCK({}, 0), CONNECTION_ID()",
            keep_session(),
            self.literal
        );
        Ok(pair(session.ask(&statement, listener)?.as_ref()))
    }

    /// Waits for the lock on the server, as long as is left.
    fn wait(
        &self,
        session: &mut Session,
        listener: &Listener,
    ) -> Result<Option<(u64, u64)>, Fault> {
        let limit = self
            .left()
            .unwrap_or(LONGEST_STATEMENT)
            .min(LONGEST_STATEMENT);
        // Rounded up: a wait that ends too early asks again.
        let millis = limit.as_micros().div_ceil(1000);
        // MariaDB takes fractions of a second, and at its versions passes over comments of this form. MySQL rounds the
        // time-out to whole seconds; there the statement time limit is what counts, and the time-out lies behind it.
        let statement = format!(
            "SET SESSION wait_timeout={WAITER_IDLE_LIMIT} /*!50708 , max_execution_time={millis} */; \
             SELECT GET_LOCK({}, {}.{:03} /*!50708 + 2 */), CONNECTION_ID()",
            self.literal,
            millis / 1000,
            millis % 1000,
        );
        Ok(pair(session.ask(&statement, listener)?.as_ref()))
    }

    /// Asks the server whose the lock is, and makes the session fit to keep it.
    fn possession(&self, session: &mut Session, listener: &Listener) -> Result<Possession, Fault> {
        let statement = format!(
            "{}; SELECT IS_USED_LOCK({}), CONNECTION_ID()",
            keep_session(),
            self.literal
        );
        let row = session.ask(&statement, listener)?;
        let cells = row.map(|row| (number(&row, 0), number(&row, 1)));
        match cells {
            Some((Some(holder), Some(own))) if holder == own => Ok(Possession::Mine(own)),
            Some((Some(_), Some(_))) => Ok(Possession::Other),
            Some((None, Some(_))) => Ok(Possession::Nobody),
            _ => Err(Fault::Unclear("no answer to IS_USED_LOCK".to_owned())),
        }
    }

    /// Asks who has the lock. `IS_USED_LOCK` tells every account the number; the process list tells an account about its
    /// own sessions, and about all with the PROCESS privilege.
    fn holder(&self, session: &mut Session, listener: &Listener) -> Result<Holder, Fault> {
        let statement = format!(
            "SELECT holder.id, CONCAT(client.user, '@', client.host) \
             FROM (SELECT IS_USED_LOCK({}) AS id) holder \
             LEFT JOIN information_schema.processlist client ON client.id = holder.id",
            self.literal,
        );
        match session.ask(&statement, listener) {
            Ok(Some(row)) => Ok(match number(&row, 0) {
                Some(id) => Holder::Session(id, text(&row, 1)),
                None => Holder::Nobody,
            }),
            Err(fault @ Fault::Gone(_)) => Err(fault),
            // Who it is matters less than that it is taken.
            Ok(None) | Err(Fault::Unclear(_) | Fault::Final(_)) => Ok(Holder::Unknown),
        }
    }
}

/// No time limit on statements, and no early end for a session that is silent while its command runs. Which limit a
/// server has is left to its version: MariaDB reads `/*M!`, MySQL `/*!50708`.
fn keep_session() -> String {
    format!(
        "SET SESSION wait_timeout={HOLDER_IDLE_LIMIT} \
         /*M!100102 , max_statement_time=0 */ /*!50708 , max_execution_time=0 */"
    )
}

/// The answer of `GET_LOCK` and the session's number; `None` for NULL and for an empty reply.
fn pair(row: Option<&Row>) -> Option<(u64, u64)> {
    Some((number(row?, 0)?, number(row?, 1)?))
}
