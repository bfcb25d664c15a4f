//! A lock on a session, with one slot or several: asked for, waited for, proved, freed. NULL, an error or a lost connection
//! is never read as "taken" and never as "mine".

use std::thread::sleep;
use std::time::{Duration, Instant};

use mysql::Row;

use super::fitness::{Fitness, READ_ONLY, Unfit, is_read_only};
use super::queue::{Answer, Next, Step, Way};
use super::statements::{self, RECHECK, Statements, keep_session, literal};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::shown;
use crate::db::{Client, Fault, OWN_ATTRIBUTES, Session, cell, claims, client};
use crate::lock::{Grant, Holder, Holders, Lease, MOST_NAMED, Name, Wait, gone, kill};

/// After an answer that tells nothing, before the next question.
const PAUSE: Duration = Duration::from_millis(100);

/// How many of them in a row are followed by a question at once: they may be holders that wake us, and then a slot is free.
const QUICK: u32 = 4;

/// How many answers that tell nothing are taken when no time is left to wait.
const MOST_UNCLEAR: u32 = 3;

/// The columns that tell whether the server is read-only, and the first of those that tell what it is.
const READ_ONLY_COLUMNS: [usize; 2] = [3, 4];
const FIRST_TRAIT: usize = 5;

/// The columns of a proof that tell who comes again for the slot, and who is ending its holder.
const BACK: usize = 5;
const KILLER: usize = 6;

/// How long the session that has a slot may be one of our own on its way out; and how long, when we come back, a waiter's
/// that is about to let it go. Beyond that it is a stranger's.
const LINGERS: Duration = Duration::from_millis(20);
const LETS_GO: Duration = Duration::from_millis(500);

/// How long a session that was killed may take to end, and from one look at it to the next.
const LONGEST_END: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// From one look at who ends the holder of a slot to the next.
pub const LOOK_AGAIN_AT_KILLER: Duration = Duration::from_millis(20);

/// Where somebody wants to know who has the lock.
#[derive(Debug, Clone, Copy)]
pub struct Tells {
    /// When the waiting begins.
    pub when_waiting: bool,
    /// When it was not had in time.
    pub when_taken: bool,
}

/// A lock and how long to wait for it.
pub struct Request {
    statements: Statements,
    slots: u32,
    wait: Wait,
    /// How long the server is asked to keep a session that says nothing.
    ttl: Duration,
    accepts: Accepts,
    /// When the lock was first asked for; `None` before that. The wait goes on over a lost session.
    since: Option<Instant>,
    /// Whether it was taken, and others may wait for it.
    waited: bool,
    /// Whether an earlier session may have the mark.
    marked: bool,
    tells: Tells,
}

/// Which servers will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepts {
    /// Those on which a lock excludes.
    Fit,
    /// Any that takes writes.
    Unfit,
    /// Any: there is none that takes writes.
    ReadOnly,
}

/// The first answer on a session that a lock may live on.
#[derive(Debug, Clone)]
pub struct Opening {
    step: Step,
    answer: Answer,
    asked: Moment,
    /// How long the server keeps the session.
    ttl: Duration,
    /// What was read of the server.
    pub fitness: Fitness,
    /// Whether the server takes no writes.
    pub read_only: bool,
}

impl Opening {
    /// Whether a slot was had.
    pub fn is_had(&self) -> bool {
        self.answer.slot.is_some()
    }

    /// The server's own number of the session.
    pub fn connection_id(&self) -> u64 {
        self.answer.connection_id
    }
}

/// What became of the attempt to take a slot again.
pub enum Again {
    /// It is ours.
    Had(Grant, Lease),
    /// Somebody ends its holder, which is us: it is not for us any more.
    Killed(Killer),
    /// It was not asked for.
    NotForUs,
    /// Another session has it.
    Taken(Holders),
}

/// Who ends the holder of a slot (`dblock kill`).
pub struct Killer {
    /// The session that has the marker.
    pub client: Client,
}

/// What became of a request.
pub enum Outcome {
    /// The session has a slot.
    Held(Grant, Lease),
    /// Others have them all, and the time is over.
    Taken(Holders),
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

/// Ends an older session of this dblock, which the server has not missed yet.
fn end_older(older: u64, session: &mut Session) -> Result<(), Fault> {
    // Any other fault may be that it is gone by now.
    if let Err(fault @ Fault::Gone(_)) = session.ask(&format!("KILL {older}")) {
        return Err(fault);
    }
    let line = format!("ended the session {older}, which was our own");
    session.tell(Level::Info, &line);
    Ok(())
}

/// Waits until a killer has let go of what `owner` asks for, so that he has heard the answer, or does not seem to listen.
fn heard(owner: &str, killer: u64, session: &mut Session) -> Result<(), Fault> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST_END {
        match session.ask(owner) {
            Ok(row) if row.as_ref().and_then(|row| cell(row, 0)) != Some(killer) => break,
            Ok(_) | Err(Fault::Interrupted(_) | Fault::Conflict(_)) => sleep(LOOK_AGAIN_AT_KILLER),
            Err(fault) => return Err(fault),
        }
    }
    // Another who waits for the same end may look for the answer, too.
    sleep(2 * LOOK_AGAIN_AT_KILLER);
    Ok(())
}

/// Carries out a statement that changes the session, however often it is interrupted.
fn set(session: &mut Session, statement: &str) -> Result<(), Fault> {
    while let Err(fault) = session.ask(statement) {
        match fault {
            Fault::Interrupted(_) | Fault::Conflict(_) => sleep(PAUSE),
            fault => return Err(fault),
        }
    }
    Ok(())
}

impl Request {
    /// A request for one of the first so many `slots` of the lock `name`, on sessions that all have this `mark`.
    pub fn new(name: &Name, slots: u32, mark: &str, wait: Wait, ttl: Duration) -> Self {
        Self {
            statements: Statements::new(name, slots, mark),
            slots,
            wait,
            ttl,
            accepts: Accepts::Fit,
            since: None,
            waited: false,
            marked: false,
            tells: Tells {
                when_waiting: true,
                when_taken: true,
            },
        }
    }

    /// Has it ask who has the lock only where somebody wants to know.
    pub fn tell_who(self, tells: Tells) -> Self {
        Self { tells, ..self }
    }

    /// Has it lock also where the lock may not exclude, with a warning.
    pub fn allow_unfit(self, allow: bool) -> Self {
        let accepts = if allow { Accepts::Unfit } else { Accepts::Fit };
        Self { accepts, ..self }
    }

    /// Whether it is one that waits, and not for the first time now.
    pub fn has_waited(&self) -> bool {
        self.waited
    }

    /// Whether it may lock on a server that is read-only, should there be no other.
    pub fn accepts_read_only(&self) -> bool {
        self.accepts != Accepts::Fit
    }

    /// From now on it does: there is no other.
    pub fn accept_read_only(&mut self) {
        self.accepts = Accepts::ReadOnly;
    }

    fn way(&self) -> Way {
        Way::new(self.slots, self.wait != Wait::For(Duration::ZERO))
    }

    /// The first round trip on a session: makes it fit to keep a lock, takes a slot if one is free, and asks whether a lock
    /// there would exclude.
    ///
    /// # Errors
    /// [`Fault::ReadOnly`], and [`Reason::Configuration`] for any other server that is unfit. The session must be dropped.
    pub fn open(&mut self, session: &mut Session) -> Result<Opening, Fault> {
        self.since.get_or_insert_with(Instant::now);
        let (mut step, mut doubts) = (self.way().first(), Doubts::default());
        let open = self.statements.open_session(self.ttl);
        let may_be_marked = std::mem::replace(&mut self.marked, true);
        let begun = Instant::now();
        let mut first = true;
        loop {
            let asked = Moment::now();
            let statement = self.statements.first(step, self.left());
            let row = if std::mem::take(&mut first) {
                session.ask_both(&open, &statement)
            } else {
                session.ask(&statement)
            };
            match row {
                Ok(Some(row)) => {
                    let owner: Option<u64> = cell(&row, FIRST_TRAIT);
                    if let Some(answer) = self.answer(&row)
                        && may_be_marked
                        && owner != Some(answer.connection_id)
                        && (owner.is_some() || answer.slot.is_none())
                    {
                        // A session that was lost is still there, or on its way out, perhaps with the lock.
                        if let Some(older) = owner {
                            end_older(older, session)?;
                        }
                        if begun.elapsed() > LONGEST_END {
                            return Err(Fault::Interrupted(
                                "an older session does not end".to_owned(),
                            ));
                        }
                        sleep(LOOK_AGAIN);
                        set(session, &open)?;
                        step = Step::Settle;
                        continue;
                    } else if let Some(answer) = self.answer(&row) {
                        let fitness = self.judge(&row, answer, session)?;
                        return Ok(Opening {
                            step,
                            answer,
                            asked,
                            ttl: fitness.idle_limit.min(self.ttl),
                            fitness,
                            read_only: is_read_only(&row, READ_ONLY_COLUMNS),
                        });
                    }
                }
                Ok(None) | Err(Fault::Interrupted(_) | Fault::Conflict(_)) => {}
                Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => {
                    set(session, &open)?;
                    continue;
                }
                Err(fault) => return Err(fault),
            }
            // Interrupted: either may have been carried out.
            doubts.add(self.is_late())?;
            set(session, &open)?;
            step = Step::Settle;
        }
    }

    /// Decides about a server by its first answer.
    fn judge(&self, row: &Row, answer: Answer, session: &mut Session) -> Result<Fitness, Fault> {
        self.check_writes(row)?;
        let mut fitness = Fitness::read(row, FIRST_TRAIT, answer.connection_id, self.ttl);
        // Behind a proxy one statement more tells whether the session is still the same.
        if let (true, Some(slot), true) = (
            fitness.unfit.is_empty(),
            answer.slot,
            session.handshake_id() != answer.connection_id,
        ) && !self.prove(slot, session)?
        {
            fitness.unfit.push(Unfit::SessionsShared);
        }
        let idle_limit = fitness.idle_limit;
        match fitness.unfit.first() {
            Some(why) if self.accepts == Accepts::Fit => {
                let line = format!("{session} {why}, or say --allow-unfit-server");
                Err(Fault::Final(Failure::new(Reason::Configuration, line)))
            }
            Some(why) => {
                session.tell(
                    Level::Warning,
                    &format!("{session} {why}; locking there all the same"),
                );
                Ok(fitness)
            }
            None => {
                if is_read_only(row, READ_ONLY_COLUMNS) {
                    let line = format!("{session} {READ_ONLY}; locking there all the same");
                    session.tell(Level::Warning, &line);
                }
                if idle_limit < self.ttl {
                    let [short, asked] = [idle_limit, self.ttl].map(shown);
                    let line = format!(
                        "{session} keeps a session for {short} without a statement, not for {asked}: that is the TTL there"
                    );
                    session.tell(Level::Warning, &line);
                }
                Ok(fitness)
            }
        }
    }

    fn check_writes(&self, row: &Row) -> Result<(), Fault> {
        if is_read_only(row, READ_ONLY_COLUMNS) && self.accepts != Accepts::ReadOnly {
            return Err(Fault::ReadOnly(READ_ONLY.to_owned()));
        }
        Ok(())
    }

    /// Goes on from the first answer on a session until a slot is had, or the time to wait for one is over. `on_wait` is
    /// told who has the lock when the waiting on this session begins. Before a grant that was waited for is believed, `ask`
    /// asks whether somebody is there to use it, and `hear` waits for the answer.
    ///
    /// # Errors
    /// [`Fault::Gone`] and [`Fault::ReadOnly`]: on a new session the request goes on waiting within its time.
    pub fn take(
        &mut self,
        session: &mut Session,
        opening: &Opening,
        on_wait: impl Fn(&Holders),
        ask: impl Fn(),
        hear: impl Fn(),
    ) -> Result<Outcome, Fault> {
        let (way, mut doubts) = (self.way(), Doubts::default());
        let Opening {
            mut step,
            answer,
            mut asked,
            ttl,
            ..
        } = *opening;
        let mut answer = Some(answer);
        let (mut kept, mut waits) = (true, false);
        // A step that is to be taken once more, and whether that was said.
        let (mut again, mut said) = (None, false);
        loop {
            let late = self.is_late();
            let refused = answer.is_some_and(|answer| answer.refused);
            let next = match again
                .take()
                .map_or_else(|| way.next(step, answer, late), Next::Ask)
            {
                Next::Held(grant) => {
                    // That this is carried out shows also that the session, and so the proof, was not over by then.
                    if !kept {
                        set(session, &keep_session(ttl))?;
                    }
                    let proved = asked;
                    return Ok(Outcome::Held(grant, Lease { ttl, proved }));
                }
                Next::Taken => return Ok(Outcome::Taken(self.taken_by(session)?)),
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
                on_wait(&if self.tells.when_waiting {
                    self.holders(session)?
                } else {
                    self.nobody_named()
                });
                set(session, &statements::expect_little())?;
                (kept, waits) = (false, true);
                self.waited = true;
            } else if refused
                && matches!(step, Step::Queue | Step::Head)
                && asked.elapsed() < RECHECK / 2
            {
                // The server ended the wait too early.
                sleep(self.left().unwrap_or(PAUSE).min(PAUSE));
            }
            step = next;
            asked = Moment::now();
            let proves = matches!(step, Step::Confirm(_));
            if proves {
                ask();
            }
            let row = session.ask(&self.statements.of(step, self.left()));
            if proves {
                hear();
            }
            answer = match row {
                Ok(Some(row)) => {
                    self.check_writes(&row)?;
                    let answer = self.answer(&row);
                    let is_used = |column| proves && cell::<u64>(&row, column).is_some();
                    if is_used(BACK) {
                        let back = "its holder was cut off, and comes again";
                        return Err(Fault::Gone(back.to_owned()));
                    }
                    if let (true, Some(slot)) = (is_used(KILLER), answer.and_then(|had| had.slot)) {
                        if self.statements.be_careful() {
                            // Another of the slots may be free.
                            self.release(slot, session)?;
                            again = Some(way.first());
                            continue;
                        }
                        // Ours next, when the command of the one before is gone.
                        if self.is_late() {
                            self.release(slot, session)?;
                            return Ok(Outcome::Taken(self.taken_by(session)?));
                        }
                        if !said {
                            said = true;
                            session.tell(
                                Level::Info,
                                "the holder before is being ended; waiting for that",
                            );
                        }
                        sleep(self.left().unwrap_or(PAUSE).min(PAUSE));
                        again = Some(step);
                    }
                    answer
                }
                Ok(None) | Err(Fault::Interrupted(_) | Fault::Conflict(_)) => None,
                Err(fault) => return Err(fault),
            };
        }
    }

    /// The heartbeat: whether the slot is still ours, on a server that takes writes.
    ///
    /// # Errors
    /// The session must be dropped: nobody knows.
    pub fn prove(&self, slot: u32, session: &mut Session) -> Result<bool, Fault> {
        loop {
            match session.ask(&self.statements.heartbeat(slot)) {
                Ok(row) => {
                    let row = row.ok_or_else(|| Fault::Gone("no answer".to_owned()))?;
                    if self.accepts == Accepts::Fit {
                        self.check_writes(&row)?;
                    }
                    return Ok(self
                        .answer(&row)
                        .is_some_and(|answer| answer.slot == Some(slot)));
                }
                Err(Fault::Interrupted(_) | Fault::Conflict(_)) => sleep(PAUSE),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Takes the same slot once more, on a new session. Where it finds an older session of this dblock, which the server
    /// has not missed yet, it ends that first; a caller that waits may be quicker then.
    ///
    /// # Errors
    /// As [`Request::open`]. After any fault the session must be dropped: it may have the slot all the same.
    pub fn take_again(&mut self, slot: u32, session: &mut Session) -> Result<Again, Fault> {
        let open = self.statements.open_session(self.ttl);
        let begun = Instant::now();
        let mut opened = false;
        let mut came_back = false;
        let mut stranger: Option<(u64, Instant)> = None;
        loop {
            let proved = Moment::now();
            let again = self.statements.again(slot);
            let row = if opened {
                set(session, &open)?;
                session.ask(&again)
            } else {
                session.ask_both(&open, &again)
            };
            let row = match row {
                Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => {
                    opened = true;
                    continue;
                }
                row => row?,
            };
            let no_answer = || Fault::Interrupted("no answer to GET_LOCK".to_owned());
            let row = row.ok_or_else(no_answer)?;
            let answer = self.answer(&row).ok_or_else(no_answer)?;
            let (holder, owner): (Option<u64>, Option<u64>) =
                (cell(&row, 1), cell(&row, FIRST_TRAIT));
            if let Some(slot) = answer.slot {
                let fitness = self.judge(&row, answer, session)?;
                let ttl = fitness.idle_limit.min(self.ttl);
                if came_back {
                    set(session, &self.statements.be_back(slot))?;
                }
                let connection_id = answer.connection_id;
                let grant = Grant {
                    slot,
                    connection_id,
                };
                return Ok(Again::Had(grant, Lease { ttl, proved }));
            }
            self.check_writes(&row)?;
            if cell(&row, 0) == Some(statements::KILLED) {
                // Should he be gone by now, the slot may be taken again.
                if let Some(killer) = self.killer(slot, session)? {
                    return Ok(Again::Killed(killer));
                }
                if begun.elapsed() > LONGEST_END {
                    return Err(Fault::Interrupted("no answer to GET_LOCK".to_owned()));
                }
                opened = true;
                sleep(LOOK_AGAIN);
                continue;
            }
            // A session of our own may be on its way out, and a waiter that sees us come back lets the slot go.
            if let (true, Some(holder)) = (owner == Some(answer.connection_id), holder) {
                let since = match stranger {
                    Some((same, since)) if same == holder => since,
                    _ => Instant::now(),
                };
                stranger = Some((holder, since));
                let patience = if came_back { LETS_GO } else { LINGERS };
                if since.elapsed() > patience {
                    return Ok(Again::Taken(self.holders(session)?));
                }
            }
            // The older session has the slot, or the mark, or is about to lose them.
            if let Some(older) = owner.filter(|&owner| owner != answer.connection_id) {
                if !came_back {
                    set(session, &self.statements.come_back(slot))?;
                    came_back = true;
                }
                end_older(older, session)?;
            }
            opened = true;
            if begun.elapsed() > LONGEST_END {
                return Err(Fault::Interrupted(
                    "an older session does not end".to_owned(),
                ));
            }
            sleep(LOOK_AGAIN);
        }
    }

    /// Who is ending the holder of a slot, if somebody is.
    ///
    /// # Errors
    /// Any fault of a statement, and [`Fault::ReadOnly`].
    fn killer(&self, slot: u32, session: &mut Session) -> Result<Option<Killer>, Fault> {
        let Some(row) = session.ask(&self.statements.killer(slot))? else {
            return Ok(None);
        };
        self.check_writes(&row)?;
        let Some(id) = cell(&row, 0) else {
            return Ok(None);
        };
        // From here on nobody has the slot, also when he goes away.
        set(session, &self.statements.begin_end(slot))?;
        let client = client(id, session)?;
        Ok(Some(Killer { client }))
    }

    /// Who ended the session of this number, which was lost while the lock was asked for. He is told that there is no command,
    /// and hears it.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn killed_while_asking(lost: u64, session: &mut Session) -> Result<Option<Killer>, Fault> {
        let sign = literal(&kill(lost));
        let owner = format!("SELECT IS_USED_LOCK({sign})");
        let Some(id) = session.ask(&owner)?.and_then(|row| cell(&row, 0)) else {
            return Ok(None);
        };
        let client = client(id, session)?;
        set(session, &statements::take(&gone(id)))?;
        heard(&owner, id, session)?;
        Ok(Some(Killer { client }))
    }

    /// Who is ending the holder of a slot, on a new session whose server takes writes.
    ///
    /// # Errors
    /// As [`Request::open`].
    pub fn look_for_killer(
        &mut self,
        slot: u32,
        session: &mut Session,
    ) -> Result<Option<Killer>, Fault> {
        set(session, &self.statements.open_session(self.ttl))?;
        loop {
            match self.killer(slot, session) {
                Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => {}
                found => return found,
            }
        }
    }

    /// Tells the one who ends this holder that the holder's command is gone, and returns when he has heard of it, or does not
    /// seem to listen.
    ///
    /// # Errors
    /// Any fault of a statement: he is not told.
    pub fn answer_killer(
        &self,
        slot: u32,
        killer: &Killer,
        session: &mut Session,
    ) -> Result<(), Fault> {
        let killer = killer.client.connection;
        set(session, &self.statements.tell_end(slot, killer))?;
        heard(&self.statements.killer(slot), killer, session)
    }

    /// Gives a slot back and wakes the head of the queue, if there is one. `false`: it was no longer ours.
    ///
    /// # Errors
    /// [`Fault::Gone`]: the session ended, and with it the lock, nobody knows when.
    pub fn release(&self, slot: u32, session: &mut Session) -> Result<bool, Fault> {
        let mut interrupted = false;
        loop {
            match session.ask(&self.statements.release(slot)) {
                Ok(row) => {
                    let released = row.as_ref().and_then(|row| cell::<u8>(row, 0)) == Some(1);
                    if let Some(head) = row.as_ref().and_then(|row| cell::<u64>(row, 1)) {
                        // One that may not be woken looks again by itself.
                        let _ = session.ask(&format!("KILL QUERY {head}"));
                    }
                    return Ok(interrupted || released);
                }
                // It may have been released before it was interrupted; the second answer then says 0 or NULL.
                Err(Fault::Interrupted(_) | Fault::Conflict(_)) => {
                    interrupted = true;
                    sleep(PAUSE);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Whether no time is left to wait.
    fn is_late(&self) -> bool {
        self.left() == Some(Duration::ZERO)
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
            kills: cell(row, 1) == Some(2u8),
            connection_id: cell(row, 2)?,
        })
    }

    /// Who has the marker of somebody who ends the holder of a slot.
    fn marked_by(&self, slot: u32, session: &mut Session) -> Result<Option<Client>, Fault> {
        let row = session.inquire(&self.statements.killer(slot))?;
        match row.ok().flatten().and_then(|row| cell(&row, 0)) {
            Some(id) => client(id, session).map(Some),
            None => Ok(None),
        }
    }

    /// Who has the lock that was not to be had.
    fn taken_by(&self, session: &mut Session) -> Result<Holders, Fault> {
        if self.tells.when_taken {
            self.holders(session)
        } else {
            Ok(self.nobody_named())
        }
    }

    fn nobody_named(&self) -> Holders {
        Holders {
            named: Vec::new(),
            slots: self.slots,
        }
    }

    /// Asks who has the lock. The server goes through all its sessions for that.
    fn holders(&self, session: &mut Session) -> Result<Holders, Fault> {
        let mut holders = Holders {
            named: Vec::new(),
            slots: self.slots,
        };
        for slot in 0..self.slots.min(MOST_NAMED) {
            let holder = match session.ask(&self.statements.holder(slot)) {
                Ok(Some(row)) => match cell(&row, 0) {
                    Some(connection) => {
                        let claims = claims(session, OWN_ATTRIBUTES, Some(connection))?;
                        Holder::Session(Box::new(Client {
                            connection,
                            address: cell(&row, 1),
                            claims: claims.ok().and_then(|mut all| all.remove(&connection)),
                        }))
                    }
                    None => match self.marked_by(slot, session)? {
                        Some(client) => Holder::Killer(Box::new(client)),
                        None => Holder::Nobody,
                    },
                },
                Err(fault @ Fault::Gone(_)) => return Err(fault),
                // Who it is matters less than that it is taken.
                Ok(None) | Err(_) => Holder::Unknown,
            };
            // A plain client may have several.
            if !holders.named.contains(&holder) {
                holders.named.push(holder);
            }
        }
        Ok(holders)
    }
}
