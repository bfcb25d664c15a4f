//! Acquiring a slot: the first step on a session, and the steps from the server's answer to a slot or to the end of the wait.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::fitness::Fitness;
use super::queue::{Acquiring, Answer, Ask as Next, Outcome, Pace, Step};
use super::reacquire::end_ghost;
use super::request::{LOOK_AGAIN, PAUSE, Request, carry_out, may_end};
use super::starting::{self, Reply, Starting};
use super::statements::{Line, Opened, RECHECK, set_idle_timeout, shorten_idle_timeout};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::db::{Ask, Fault, Rows, Session};
use crate::lock::{Caller, Grant, Holders, Lease};

/// The most unclear answers in a row that are each followed by a question at once. They may be wake-ups by holders that released a slot.
const QUICK: u32 = 4;

/// After this many unclear answers with no time left to wait, the request fails.
const MOST_UNCLEAR: u32 = 3;

/// The first answer on a session that may hold the lock.
#[derive(Debug, Clone)]
pub struct Opening {
    step: Step,
    answer: Answer,
    asked: Moment,
    /// How long the server keeps the session.
    pub(super) ttl: Duration,
    /// Whether a lock on this server excludes others.
    pub fitness: Fitness,
    /// Whether the server takes no writes.
    pub read_only: bool,
    /// Whether the session has the idle timeout of a waiter.
    waits: bool,
}

impl Opening {
    /// The slot that was acquired.
    pub fn slot(&self) -> Option<u32> {
        self.answer.slot
    }

    /// Whether a slot was acquired.
    pub fn has_slot(&self) -> bool {
        self.answer.slot.is_some()
    }

    /// The session's connection id on the server.
    pub fn connection_id(&self) -> u64 {
        self.answer.connection_id
    }
}

/// The first statements on a session, for callers that send them together with others.
pub struct First {
    open: Ask<'static, ()>,
    acquire: Ask<'static, Option<Opened>>,
    starting: Starting,
    begun: Moment,
}

impl First {
    /// The texts of the statements.
    pub fn statements(&self) -> [String; 2] {
        [self.open.sql(), self.acquire.sql()].map(str::to_owned)
    }

    /// Reads the rows of the last statement.
    ///
    /// # Errors
    /// As [`Ask::read`].
    pub fn read(&self, rows: Rows) -> Result<FirstAnswer, Fault> {
        self.acquire.read(rows).map(FirstAnswer)
    }
}

/// What the server answers to [`First`].
pub struct FirstAnswer(Option<Opened>);

/// The state of a request on one session.
pub enum Waited {
    /// The request is decided.
    Over(Decision),
    /// After a wait the session was granted this slot, but that is not proved yet.
    Unproved(u32, Opening),
}

/// The result of a request on one session.
pub enum Decision {
    /// The session holds a slot.
    Held(Grant, Lease),
    /// Others hold all slots, and the time to wait is over.
    Taken(Holders),
}

/// For a caller that does something between waits, and so must not wait long in one statement. After each wait it loses its place in the
/// queue.
pub struct Turns<'a> {
    /// The longest wait in one statement.
    pub longest: Duration,
    /// What the caller does on the session after each wait.
    pub after: &'a mut dyn FnMut(&mut Session) -> Result<(), Fault>,
}

/// Counts unclear answers.
#[derive(Default)]
struct Doubts {
    in_a_row: u32,
    late: u32,
}

impl Doubts {
    /// Counts one more. Pauses after several in a row, so that the server is not asked too often. Fails after several with no time left
    /// (`late`).
    fn add(&mut self, late: bool) -> Result<(), Fault> {
        self.in_a_row += 1;
        self.late += u32::from(late);
        if self.late >= MOST_UNCLEAR {
            let line = "the server gives no clear answer about the lock";
            return Err(Fault::Final(Failure::new(Reason::Internal, line)));
        }
        if self.in_a_row > QUICK {
            sleep(PAUSE);
        }
        Ok(())
    }
}

impl Request {
    /// The first round trip on a session: prepares it to hold a lock, acquires a slot if one is free, and asks whether a lock
    /// there would exclude.
    ///
    /// # Errors
    /// [`Fault::ReadOnly`], and [`Reason::Configuration`] for any other server that is unfit. The session must be dropped.
    pub fn open(&mut self, session: &mut Session) -> Result<Opening, Fault> {
        self.refuse(session)?;
        let first = self.first(session.handshake_id());
        let opened = session.run_both(&first.open, &first.acquire);
        self.open_after(first, opened.map(FirstAnswer), session)
    }

    /// The first statements on a session with this id from the login. Pass their answer to [`Request::open_after`].
    pub fn first(&mut self, login: u64) -> First {
        self.since.get_or_insert_with(Instant::now);
        self.waking = None;
        let step = self.plan().first();
        First {
            open: self.statements.open_session(self.ttl, login),
            acquire: self.statements.first(step, self.left(), login),
            starting: Starting::new(step, std::mem::replace(&mut self.may_have_ghost, true)),
            begun: Moment::now(),
        }
    }

    /// As [`Request::open`], but the first statements were sent already.
    ///
    /// # Errors
    /// As [`Request::open`].
    pub fn open_after(
        &mut self,
        first: First,
        answer: Result<FirstAnswer, Fault>,
        session: &mut Session,
    ) -> Result<Opening, Fault> {
        let opened = self.open_from(first, answer.map(|FirstAnswer(opened)| opened), session);
        match opened {
            Err(Fault::NoNamedLocks(failure)) if !self.is_queue() => Err(Fault::Final(failure)),
            opened => opened,
        }
    }

    fn open_from(
        &mut self,
        first: First,
        answer: Result<Option<Opened>, Fault>,
        session: &mut Session,
    ) -> Result<Opening, Fault> {
        let First {
            open,
            mut starting,
            begun,
            ..
        } = first;
        let mut doubts = Doubts::default();
        let mut answered = Some((begun, answer));
        loop {
            let (asked, opened) = if let Some(answered) = answered.take() {
                answered
            } else {
                carry_out(session, &open)?;
                let login = session.handshake_id();
                let first = self.statements.first(starting.step(), self.left(), login);
                (Moment::now(), session.run(&first))
            };
            let opened = match opened {
                Ok(opened) => opened,
                Err(Fault::Interrupted(_) | Fault::Conflict(_)) => None,
                // The server says so before it takes anything.
                Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => continue,
                Err(fault) => return Err(fault),
            };
            let clear = opened.and_then(|opened| Some((opened.asked.answer?, opened)));
            let Some((answer, mut opened)) = clear else {
                starting.next(Reply::Unclear);
                doubts.add(self.is_late())?;
                continue;
            };
            let (owner, read_only) = (opened.run_id_owner, opened.asked.is_read_only);
            match starting.next(Reply::First(answer, owner)) {
                starting::Ask::Over(step, answer) => {
                    let fitness =
                        self.judge(&mut opened.traits, (answer, owner, read_only), session)?;
                    return Ok(Opening {
                        step,
                        answer,
                        asked,
                        ttl: fitness.idle_limit.min(self.ttl),
                        fitness,
                        read_only,
                        waits: false,
                    });
                }
                starting::Ask::EndGhost(ghost) => {
                    end_ghost(ghost, &self.run_id, session)?;
                    starting.next(Reply::Killed);
                }
                starting::Ask::First => {}
            }
            may_end(begun)?;
            sleep(LOOK_AGAIN);
        }
    }

    /// Continues from the first answer on a session until it holds a slot, or the time to wait is over. Without `turns` it keeps its
    /// place in the server's queue.
    ///
    /// # Errors
    /// [`Fault::Gone`] and [`Fault::ReadOnly`]: the request may continue on a new session, within the same time.
    pub fn take(
        &mut self,
        session: &mut Session,
        opening: &Opening,
        caller: &dyn Caller,
        turns: Option<Turns>,
    ) -> Result<Decision, Fault> {
        let decision = self.take_first(session, opening, caller, turns)?;
        self.wake_next(session)?;
        Ok(decision)
    }

    /// As [`Request::take`], but the next one in line may not be notified yet. [`Request::wake_next`] is to follow soon: meanwhile the
    /// command can be started.
    ///
    /// # Errors
    /// As [`Request::take`].
    pub fn take_first(
        &mut self,
        session: &mut Session,
        opening: &Opening,
        caller: &dyn Caller,
        turns: Option<Turns>,
    ) -> Result<Decision, Fault> {
        match self.advance(session, opening, caller, turns, false)? {
            Waited::Over(decision) => Ok(decision),
            // Only `take_unproved` leaves the proof to its caller. Whatever is not proved is proved here.
            Waited::Unproved(_, granted) => self.take_first(session, &granted, caller, None),
        }
    }

    /// As [`Request::take`], for a caller of one slot that proves the slot itself, with the statement of [`Request::proof`] or another
    /// call of `take`.
    ///
    /// # Errors
    /// As [`Request::take`].
    pub fn take_unproved(
        &mut self,
        session: &mut Session,
        opening: &Opening,
        caller: &dyn Caller,
    ) -> Result<Waited, Fault> {
        let waited = self.advance(session, opening, caller, None, self.slots == 1)?;
        self.wake_next(session)?;
        Ok(waited)
    }

    /// The statement that prepares a session to hold this slot after a wait, and sets the variable `@dblock` to whether it holds the
    /// slot.
    pub fn proof(&self, slot: u32, opening: &Opening) -> Option<String> {
        self.statements.hold_and_prove(slot, opening.ttl)
    }

    fn advance(
        &mut self,
        session: &mut Session,
        opening: &Opening,
        caller: &dyn Caller,
        mut turns: Option<Turns>,
        leaves_proof: bool,
    ) -> Result<Waited, Fault> {
        self.since.get_or_insert_with(Instant::now);
        if let Some(line) = self.statements.line() {
            return self.advance_in_line(line, session, opening, caller, turns);
        }
        let mut turn_begun = Moment::now();
        let (mut doubts, mut said) = (Doubts::default(), false);
        let Opening {
            mut step,
            answer,
            mut asked,
            ttl,
            waits,
            ..
        } = *opening;
        let mut acquiring = Acquiring::after(step, self.plan(), waits, leaves_proof);
        let mut answer = Some(answer);
        loop {
            let late = self.is_late();
            let refused = answer.is_some_and(|answer| answer.refused);
            match acquiring.next(answer, late) {
                Next::Step(next, pace) => {
                    match pace {
                        Pace::Now if refused => doubts = Doubts::default(),
                        Pace::Now => {}
                        Pace::Doubt => doubts.add(late)?,
                        Pace::Pause => {
                            if !std::mem::replace(&mut said, true) {
                                let line = "the holder before is being ended; waiting for that";
                                session.tell(Level::Info, line);
                            }
                            sleep(self.left().unwrap_or(PAUSE).min(PAUSE));
                        }
                    }
                    let was_wait = matches!(step, Step::Queue | Step::Head);
                    if refused && was_wait && asked.elapsed() < RECHECK / 2 {
                        // The server ended the wait too early: do not ask again at once.
                        sleep(self.left().unwrap_or(PAUSE).min(PAUSE));
                    }
                    step = next;
                    let mut left = self.left();
                    if let Some(turns) = &mut turns {
                        if turn_begun.elapsed() >= turns.longest {
                            (turns.after)(session)?;
                            turn_begun = Moment::now();
                        }
                        left = Some(left.unwrap_or(turns.longest).min(turns.longest));
                    }
                    asked = Moment::now();
                    answer = self.ask(step, left, session, caller)?;
                }
                Next::BeginWait => {
                    let wanted = self.verbosity.when_waiting;
                    caller.on_wait(&self.tell_and_name_holders(wanted, session, caller)?);
                    carry_out(session, &shorten_idle_timeout(session.kind()))?;
                    self.has_waited = true;
                }
                Next::EndWait(_) => carry_out(session, &set_idle_timeout(session.kind(), ttl))?,
                Next::Release(slot, Some(_)) => {
                    self.release(slot, session)?;
                    self.statements.check_kills();
                }
                Next::Release(slot, None) => {
                    caller.on_taken(&self.unnamed_holders());
                    self.release(slot, session)?;
                }
                Next::Over(Outcome::Unproved(slot)) => {
                    let granted = Opening {
                        step,
                        answer: answer.unwrap_or(opening.answer),
                        asked,
                        waits: acquiring.is_waiting(),
                        ..opening.clone()
                    };
                    return Ok(Waited::Unproved(slot, granted));
                }
                Next::Over(Outcome::Held(grant)) => {
                    let lease = Lease { ttl, proved: asked };
                    return Ok(Waited::Over(Decision::Held(grant, lease)));
                }
                Next::Over(Outcome::Taken) => {
                    let holders = self.taken(session, caller)?;
                    return Ok(Waited::Over(Decision::Taken(holders)));
                }
                Next::Over(Outcome::GiveWay) => {
                    let cause = "its holder was cut off, and is reacquiring it";
                    return Err(Fault::Gone(cause.to_owned()));
                }
            }
        }
    }

    /// As [`Request::take`], on a server where those that wait are in line.
    fn advance_in_line(
        &mut self,
        line: Line,
        session: &mut Session,
        opening: &Opening,
        caller: &dyn Caller,
        turns: Option<Turns>,
    ) -> Result<Waited, Fault> {
        let decision = match opening.answer.slot {
            Some(slot) => {
                let (connection_id, ttl) = (opening.connection_id(), opening.ttl);
                let grant = Grant {
                    slot,
                    connection_id,
                    fence: None,
                };
                let proved = opening.asked;
                Decision::Held(grant, Lease { ttl, proved })
            }
            None if self.is_late() => Decision::Taken(self.taken(session, caller)?),
            None => self.wait_in_line(line, session, opening, caller, turns)?,
        };
        Ok(Waited::Over(decision))
    }

    /// Runs the statement of a step; `None`: no clear answer.
    fn ask(
        &self,
        step: Step,
        left: Option<Duration>,
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Option<Answer>, Fault> {
        let reply = match step {
            Step::Confirm(slot) => {
                caller.ask_alive();
                let proof = session.run(&self.statements.prove(slot));
                caller.await_alive();
                proof
            }
            _ => session.run(&self.statements.step(step, left, None)),
        };
        match reply {
            Ok(Some(asked)) => {
                self.check_writes(asked.is_read_only, session)?;
                Ok(asked.answer)
            }
            Ok(None) | Err(Fault::Interrupted(_) | Fault::Conflict(_)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}
