//! A lock on a session, with one slot or several: asked for, waited for, proved, freed. NULL, an error or a lost connection
//! is never read as "taken" and never as "mine".

#[cfg(test)]
mod explorer;
mod name;
mod slots;
mod statements;

use std::fmt;
use std::mem;
use std::thread::sleep;
use std::time::{Duration, Instant};

use mysql::Row;
use serde::{Deserialize, Serialize};

pub use name::Name;
pub use slots::MOST_SLOTS;

use crate::exit::{Failure, Reason};
use crate::server::{Fault, Listener, Session, cell};
use crate::settings::Wait;
use slots::{Answer, Next, Step, Way};
use statements::{RECHECK, Statements};

/// After an answer that tells nothing, before the next question.
const PAUSE: Duration = Duration::from_millis(100);

/// How many of them in a row are followed by a question at once: they may be holders that wake us, and then a slot is free.
const QUICK: u32 = 4;

/// How many answers that tell nothing are taken when no time is left to wait.
const MOST_UNCLEAR: u32 = 3;

/// How many holders a message names.
const MOST_NAMED: u32 = 3;

/// A lock and how long to wait for it.
pub struct Request {
    statements: Statements,
    slots: u32,
    wait: Wait,
    /// When the lock was first asked for; `None` before that. The wait goes on over a lost session.
    since: Option<Instant>,
}

/// A slot of a lock, had on a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Which slot, from 0.
    pub slot: u32,
    /// The server's number of the session. Behind a proxy it is not that of the handshake.
    pub connection_id: u64,
}

/// What became of a request.
pub enum Outcome {
    /// The session has a slot.
    Held(Grant),
    /// Others have them all, and the time is over.
    Taken(Holders),
}

/// Who has a lock, as far as the server tells.
pub struct Holders {
    /// Of the first few slots.
    named: Vec<Holder>,
    /// How many slots there are.
    slots: u32,
}

/// Who has a slot, as far as the server tells.
#[derive(PartialEq)]
enum Holder {
    /// The session of this number; and `user@host:port` if this account may see it.
    Session(u64, Option<String>),
    /// Nobody, when the server was asked.
    Nobody,
    /// The server did not tell.
    Unknown,
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut sessions = self.named.iter().filter_map(|holder| match holder {
            Holder::Session(id, client) => Some((id, client)),
            _ => None,
        });
        match (sessions.next(), &self.named[..]) {
            (None, [Holder::Nobody]) if self.slots == 1 => {
                return write!(f, "taken, and was freed this moment");
            }
            (None, [Holder::Nobody]) => return write!(f, "taken, or others wait ahead for it"),
            (None, _) => return write!(f, "taken"),
            (Some((id, client)), _) => {
                write!(f, "held by ")?;
                connection(f, *id, client.as_deref())?;
            }
        }
        for (id, client) in sessions {
            write!(f, ", ")?;
            connection(f, *id, client.as_deref())?;
        }
        match self.slots.saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

fn connection(f: &mut fmt::Formatter, id: u64, client: Option<&str>) -> fmt::Result {
    write!(f, "connection {id}")?;
    client.map_or(Ok(()), |client| write!(f, " ({client})"))
}

/// How often the server told nothing.
#[derive(Default)]
struct Doubts {
    in_a_row: u32,
    late: u32,
}

impl Doubts {
    /// One more: waits a little, so that the server is not asked in a rush, or gives up when it is too `late` to wait.
    fn add(&mut self, late: bool) -> Result<(), Fault> {
        self.in_a_row += 1;
        self.late += u32::from(late);
        if self.late >= MOST_UNCLEAR {
            let line = "the server gives no clear answer to GET_LOCK";
            return Err(Fault::Final(Failure::new(Reason::Internal, line)));
        }
        if self.in_a_row > QUICK {
            sleep(PAUSE);
        }
        Ok(())
    }
}

/// Carries out a statement that changes the session, however often it is interrupted.
fn set(session: &mut Session, statement: &str, listener: &Listener) -> Result<(), Fault> {
    while let Err(fault) = session.ask(statement, listener) {
        match fault {
            Fault::Unclear(_) => sleep(PAUSE),
            fault => return Err(fault),
        }
    }
    Ok(())
}

impl Request {
    /// A request for one of the first so many `slots` of the lock `name`.
    pub fn new(name: &Name, slots: u32, wait: Wait) -> Self {
        Self {
            statements: Statements::new(name, slots),
            slots,
            wait,
            since: None,
        }
    }

    /// Takes a slot on `session`, in one round trip if one is free; otherwise waits for one. `on_wait` is told who has the
    /// lock when the waiting on this session begins. Before a grant that was waited for is believed, `ask` asks whether
    /// somebody is there to use it, and `hear` waits for the answer.
    ///
    /// # Errors
    /// [`Fault::Gone`]: on a new session the request goes on waiting within its time.
    pub fn take(
        &mut self,
        session: &mut Session,
        listener: &Listener,
        on_wait: impl Fn(&Holders),
        ask: impl Fn(),
        hear: impl Fn(),
    ) -> Result<Outcome, Fault> {
        self.since.get_or_insert_with(Instant::now);
        let way = Way::new(self.slots, self.wait != Wait::For(Duration::ZERO));
        let (mut step, mut doubts) = (way.first(), Doubts::default());
        let (mut first, mut kept, mut waits) = (true, false, false);
        loop {
            let asked = Instant::now();
            let proves = matches!(step, Step::Confirm(_));
            if proves {
                ask();
            }
            let statement = self.statements.of(step, self.left());
            let row = if mem::take(&mut first) {
                let row = session.ask_both(&statements::keep_session(), &statement, listener);
                // If the second was answered, the first has been carried out.
                kept = row.is_ok();
                row
            } else {
                session.ask(&statement, listener)
            };
            let answer = match row {
                Ok(row) => row.and_then(|row| self.answer(&row)),
                Err(Fault::Unclear(_)) => None,
                Err(fault) => return Err(fault),
            };
            if proves {
                hear();
            }
            let late = self.left() == Some(Duration::ZERO);
            let refused = answer.is_some_and(|answer| answer.refused);
            let next = match way.next(step, answer, late) {
                Next::Held(grant) => {
                    // That this is carried out shows also that the session, and so the proof, was not over by then.
                    if !kept {
                        set(session, &statements::keep_session(), listener)?;
                    }
                    return Ok(Outcome::Held(grant));
                }
                Next::Taken => return Ok(Outcome::Taken(self.holders(session, listener)?)),
                Next::Doubt(next) => {
                    doubts.add(late)?;
                    next
                }
                Next::Ask(next) => {
                    if refused {
                        doubts = Doubts::default();
                    }
                    next
                }
            };
            if next == Step::Queue && !waits {
                on_wait(&self.holders(session, listener)?);
                set(session, &statements::expect_little(), listener)?;
                (kept, waits) = (false, true);
            } else if refused
                && matches!(step, Step::Queue | Step::Head)
                && asked.elapsed() < RECHECK / 2
            {
                // The server ended the wait too early.
                sleep(self.left().unwrap_or(PAUSE).min(PAUSE));
            }
            step = next;
        }
    }

    /// Takes the same slot once more, on a new session. `None`: another session has it.
    ///
    /// # Errors
    /// After any fault the session must be dropped: it may have the slot all the same.
    pub fn take_again(
        &self,
        slot: u32,
        session: &mut Session,
        listener: &Listener,
    ) -> Result<Option<Grant>, Fault> {
        let statement = self.statements.of_one(slot);
        let row = session.ask_both(&statements::keep_session(), &statement, listener)?;
        match row.and_then(|row| self.answer(&row)) {
            Some(Answer {
                slot: Some(slot),
                connection_id,
                ..
            }) => Ok(Some(Grant {
                slot,
                connection_id,
            })),
            Some(Answer { refused: true, .. }) => Ok(None),
            _ => Err(Fault::Unclear("no answer to GET_LOCK".to_owned())),
        }
    }

    /// Gives a slot back and wakes the head of the queue, if there is one. `false`: it was no longer ours.
    ///
    /// # Errors
    /// [`Fault::Gone`]: the session ended, and with it the lock, nobody knows when.
    pub fn release(
        &self,
        slot: u32,
        session: &mut Session,
        listener: &Listener,
    ) -> Result<bool, Fault> {
        let mut interrupted = false;
        loop {
            match session.ask(&self.statements.release(slot), listener) {
                Ok(row) => {
                    let released = row.as_ref().and_then(|row| cell::<u8>(row, 0)) == Some(1);
                    if let Some(head) = row.as_ref().and_then(|row| cell::<u64>(row, 1)) {
                        // One that may not be woken looks again by itself.
                        let _ = session.ask(&format!("KILL QUERY {head}"), listener);
                    }
                    return Ok(interrupted || released);
                }
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

    /// A row of [`Statements::of`]; `None` if the session's number is missing. What is no slot's number is none.
    fn answer(&self, row: &Row) -> Option<Answer> {
        let slot: Option<i64> = cell(row, 0);
        Some(Answer {
            refused: slot == Some(-1),
            slot: slot
                .and_then(|slot| u32::try_from(slot).ok())
                .filter(|&slot| slot < self.slots),
            place: cell(row, 1) == Some(1u8),
            connection_id: cell(row, 2)?,
        })
    }

    /// Asks who has the lock.
    fn holders(&self, session: &mut Session, listener: &Listener) -> Result<Holders, Fault> {
        let mut holders = Holders {
            named: Vec::new(),
            slots: self.slots,
        };
        for slot in 0..self.slots.min(MOST_NAMED) {
            let holder = match session.ask(&self.statements.holder(slot), listener) {
                Ok(Some(row)) => match cell(&row, 0) {
                    Some(id) => Holder::Session(id, cell(&row, 1)),
                    None => Holder::Nobody,
                },
                Err(fault @ Fault::Gone(_)) => return Err(fault),
                // Who it is matters less than that it is taken.
                Ok(None) | Err(Fault::Unclear(_) | Fault::Final(_)) => Holder::Unknown,
            };
            // A plain client may have several.
            if !holders.named.contains(&holder) {
                holders.named.push(holder);
            }
        }
        Ok(holders)
    }
}
