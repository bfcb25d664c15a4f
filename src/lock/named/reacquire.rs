//! Reacquiring a lost slot, and acknowledging a kill (`dblock kill`).

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::acknowledging::{self, Acknowledging, Answer as Told};
use super::fitness::{advance, follow};
use super::request::{
    LONGEST_END, LOOK_AGAIN, LOOK_AGAIN_AT_KILLER, Request, carry_out, may_end, named_client,
    unnamed,
};
use super::retaking::{Answer, Ask, Look, Outcome, Retaking};
use super::statements::{ack_kill, ack_kill_of_waiter, ask_owners, kill_session, take_lock_now};
use crate::base::clock::{Moment, is_over};
use crate::base::log::Level;
use crate::db::{self, Client, Fault, Session};
use crate::lock::{Grant, Holders, Lease, kill_request_lock};

/// A session that holds the slot for longer than `LINGERS` belongs to another holder. Before that it may be this dblock's own older
/// session, which is ending. The last one that held the slot may take up to `RELEASES` for that, as a server frees the locks of a session
/// one after another. After the announcement of the reacquire it may be a waiter that is about to release the slot, also within `RELEASES`.
const LINGERS: Duration = Duration::from_millis(20);
const RELEASES: Duration = Duration::from_millis(500);

/// How long an acknowledgement stays when the killer has read it. Another killer may wait for the same end, and looks again and again.
const FOR_OTHERS: Duration = Duration::from_millis(200);

/// The result of an attempt to reacquire a slot.
pub enum Retake {
    /// It is held again.
    Held(Grant, Lease),
    /// This client kills the holder.
    Killed(Client),
    /// Another session holds it.
    Taken(Holders),
}

/// Kills an older session of this dblock that the server still keeps, and that holds this lock.
///
/// # Errors
/// [`Fault::Gone`].
pub fn end_ghost(ghost: u64, lock: &str, session: &mut Session) -> Result<(), Fault> {
    // Any other fault may mean that the session has ended by now.
    if let Err(fault @ Fault::Gone(_)) = session.run(&kill_session(session.kind(), ghost, lock)) {
        return Err(fault);
    }
    let line = format!("ended the session {ghost}, which was our own");
    session.tell(Level::Info, &line);
    Ok(())
}

/// Carries out an acknowledgement. `marker` asks who holds the killer's marker. Returns the killer.
fn carry_out_ack(
    mut acknowledging: Acknowledging,
    marker: &db::Ask<Option<u64>>,
    session: &mut Session,
    mut ack: impl FnMut(u64, &mut Session) -> Result<(), Fault>,
) -> Result<Option<u64>, Fault> {
    let mut since = Moment::now();
    loop {
        let asked = acknowledging.asked();
        let answer = match asked {
            acknowledging::Ask::Ack(killer) => {
                ack(killer, session)?;
                since = Moment::now();
                Told::Done
            }
            acknowledging::Ask::Killer | acknowledging::Ask::Await(_) => {
                let is_late = since.elapsed() >= LONGEST_END;
                match session.run(marker) {
                    Ok(owner) => Told::Killer(owner),
                    Err(fault) if is_late && asked == acknowledging::Ask::Killer => {
                        return Err(fault);
                    }
                    Err(Fault::Interrupted(_) | Fault::Conflict(_)) => Told::Unclear,
                    Err(fault) => return Err(fault),
                }
            }
            acknowledging::Ask::Over(killer) => return Ok(killer),
        };
        let next = acknowledging.next(answer, since.elapsed() >= LONGEST_END);
        match next {
            _ if next == asked => sleep(LOOK_AGAIN_AT_KILLER),
            acknowledging::Ask::Over(Some(_)) => sleep(FOR_OTHERS),
            _ => {}
        }
    }
}

fn no_answer() -> Fault {
    Fault::Interrupted("no answer to GET_LOCK".to_owned())
}

/// Another session that holds the slot, and since when.
type Stranger = Option<(u64, Instant)>;

impl Request {
    /// Reacquires a `lost` slot on a new session, until this moment at the latest. If the server still keeps an older session of this dblock,
    /// kills that first; a waiter may acquire the slot then. With `announced`, the session has announced before that it takes the slot
    /// again; once it holds the slot, that is withdrawn.
    ///
    /// # Errors
    /// As [`Request::open`]. After any fault the session must be dropped, as it may hold the slot.
    pub fn retake(
        &mut self,
        lost: Grant,
        announced: bool,
        until: Option<Moment>,
        session: &mut Session,
    ) -> Result<Retake, Fault> {
        let retaking = Retaking::begin(announced);
        let retaken = self.carry_out_retaking(retaking, lost, until, session)?;
        retaken.ok_or_else(no_answer)
    }

    /// Who kills the holder of a `lost` slot, as far as that is found out until this moment. For a new session whose server takes writes.
    ///
    /// # Errors
    /// As [`Request::open`].
    pub fn find_killer(
        &mut self,
        lost: Grant,
        until: Option<Moment>,
        session: &mut Session,
    ) -> Result<Option<Client>, Fault> {
        let search = Retaking::search_for_killer();
        match self.carry_out_retaking(search, lost, until, session)? {
            Some(Retake::Killed(killer)) => Ok(Some(killer)),
            _ => Ok(None),
        }
    }

    /// Carries out what `retaking` asks; `None`: nobody kills the holder, and the slot was not asked for.
    fn carry_out_retaking(
        &mut self,
        mut retaking: Retaking,
        lost: Grant,
        until: Option<Moment>,
        session: &mut Session,
    ) -> Result<Option<Retake>, Fault> {
        let (slot, mut begun) = (lost.slot, Moment::now());
        let (mut is_open, mut ended) = (false, None);
        let mut stranger = None;
        let mut held = None;
        loop {
            let asked = retaking.asked();
            let answer = match asked {
                Ask::Open => {
                    follow(self.timeline, session)?;
                    self.prepare(session)?;
                    Answer::Done
                }
                Ask::Look => {
                    let (look, retaken) = self.look(slot, &mut is_open, session)?;
                    held = retaken;
                    let patience_over = is_patience_over(look, retaking, lost, &mut stranger);
                    Answer::Look {
                        look,
                        patience_over,
                    }
                }
                Ask::Killer => match self.killer(lost, session) {
                    Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => {
                        continue;
                    }
                    killer => Answer::Killer(killer?),
                },
                Ask::AnnounceTermination(_) => match self.announce_termination(slot, session) {
                    // The killer may have read it before the session was lost, and have left. So the command is ended all the same.
                    Ok(_) | Err(Fault::Gone(_)) => Answer::Done,
                    Err(fault) => return Err(fault),
                },
                Ask::AnnounceReacquire(_) => {
                    self.announce_reacquire(slot, session)?;
                    Answer::Done
                }
                Ask::EndGhost(ghost) => {
                    end_ghost(ghost, &self.run_id, session)?;
                    // It has its time from now on, however long the looks before took.
                    if ended.replace(ghost) != Some(ghost) {
                        begun = Moment::now();
                    }
                    Answer::Done
                }
                Ask::FinishReacquire => {
                    self.finish_reacquire(slot, session)?;
                    Answer::Done
                }
                Ask::Over(Outcome::Held) => return Ok(held),
                Ask::Over(Outcome::Taken) => {
                    return Ok(Some(Retake::Taken(self.holders(session)?)));
                }
                Ask::Over(Outcome::Killed(killer)) => {
                    let killer = named_client(killer, session).unwrap_or_else(|_| unnamed(killer));
                    return Ok(Some(Retake::Killed(killer)));
                }
                Ask::Over(Outcome::NotRequested) => return Ok(None),
            };
            if retaking.next(answer) == Ask::Look {
                if is_over(until) {
                    return Err(no_answer());
                }
                let waited = may_end(begun);
                waited.map_err(|fault| {
                    if asked == Ask::Killer {
                        no_answer()
                    } else {
                        fault
                    }
                })?;
                sleep(LOOK_AGAIN);
            }
        }
    }

    /// Prepares the session, the first time in one packet with the attempt to acquire the slot. If that succeeds, the slot is held.
    fn look(
        &mut self,
        slot: u32,
        is_open: &mut bool,
        session: &mut Session,
    ) -> Result<(Look, Option<Retake>), Fault> {
        self.refuse(session)?;
        let login = session.handshake_id();
        let open = self.statements.open_session(self.ttl, login);
        loop {
            let proved = Moment::now();
            let statement = self.statements.reacquire(slot, login);
            let reply = if std::mem::replace(is_open, true) {
                carry_out(session, &open)?;
                session.run(&statement)
            } else {
                session.run_both(&open, &statement)
            };
            let mut reply = match reply {
                // As for the first grant.
                Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => continue,
                reply => reply?.ok_or_else(no_answer)?,
            };
            let answer = reply.opened.asked.answer.ok_or_else(no_answer)?;
            let (owner, read_only) = (reply.opened.run_id_owner, reply.opened.asked.is_read_only);
            let connection_id = answer.connection_id;
            let look = Look {
                own: connection_id,
                acquired: answer.slot.is_some(),
                killed: answer.killed,
                run_id_owner: owner,
                holder: reply.holder,
            };
            if !look.acquired {
                self.check_writes(read_only, session)?;
                // Who holds it on a server from before a fail-over takes it from nobody.
                advance(self.timeline, reply.opened.traits.timeline)?;
                return Ok((look, None));
            }
            let fitness = self.judge(
                &mut reply.opened.traits,
                (answer, owner, read_only),
                session,
            )?;
            let ttl = fitness.idle_limit.min(self.ttl);
            let grant = Grant {
                slot,
                connection_id,
                fence: None,
            };
            return Ok((look, Some(Retake::Held(grant, Lease { ttl, proved }))));
        }
    }

    /// Has a session acquire a lock that only the sessions of this process take, by its name on the server. If the server still keeps an
    /// older one with it, kills that: it may hold other locks, too.
    ///
    /// # Errors
    /// Any fault of a statement; [`Fault::Interrupted`] if the older session does not end in time.
    pub fn take_over(lock: &str, session: &mut Session) -> Result<(), Fault> {
        let (begun, mut ended) = (Moment::now(), None);
        while session.run(&take_lock_now(session.kind(), lock))? != Some(true) {
            let owner = session.run(&ask_owners(session.kind(), &[lock.to_owned()]))?[0];
            if let Some(ghost) = owner.filter(|ghost| ended.replace(*ghost) != Some(*ghost)) {
                end_ghost(ghost, lock, session)?;
            }
            may_end(begun)?;
            sleep(LOOK_AGAIN_AT_KILLER);
        }
        Ok(())
    }

    /// The session that kills the holder of a `lost` slot. A killer of a later holder does not count.
    ///
    /// # Errors
    /// Any fault of a statement, and [`Fault::ReadOnly`].
    fn killer(&self, lost: Grant, session: &mut Session) -> Result<Option<u64>, Fault> {
        let marker = self
            .statements
            .kill_marker(lost.slot, Some(lost.connection_id));
        let Some(killing) = session.run(&marker)? else {
            return Ok(None);
        };
        self.check_writes(killing.is_read_only, session)?;
        Ok(killing.killer)
    }

    /// Asks who killed this session of the same server, which was lost before it held the lock. Notes the `killer`, tells it that there is no
    /// command, and waits until it knows.
    ///
    /// # Errors
    /// Any fault of a statement: the killer may not know.
    pub(super) fn ack_kill_of_waiter(
        lost: u64,
        killer: &mut Option<Client>,
        session: &mut Session,
    ) -> Result<(), Fault> {
        let request =
            ask_owners(session.kind(), &[kill_request_lock(lost)]).map(|owners| owners[0]);
        let ack = |id, session: &mut Session| {
            // Whatever follows, no command may start.
            let noted = killer.insert(unnamed(id));
            *noted = named_client(id, session)?;
            carry_out(session, &ack_kill_of_waiter(session.kind(), id)).map(drop)
        };
        carry_out_ack(Acknowledging::of_waiter(), &request, session, ack).map(drop)
    }

    /// Tells the killer of this holder, the session `killer`, that the command has ended. Waits until the killer knows, up to a limit.
    ///
    /// # Errors
    /// Any fault of a statement: the killer may not know.
    pub fn ack_kill(&self, slot: u32, killer: u64, session: &mut Session) -> Result<(), Fault> {
        let marker = self.statements.kill_marker(slot, None);
        let marker = marker.map(|marker| marker.and_then(|marker| marker.killer));
        let ack = |killer, session: &mut Session| {
            let ending = self.name.termination_on_server(slot);
            carry_out(session, &ack_kill(session.kind(), &ending, killer))
        };
        carry_out_ack(Acknowledging::of_holder(killer), &marker, session, ack).map(drop)
    }
}

/// Whether the [`Look::stranger`] holds the slot for too long.
fn is_patience_over(look: Look, retaking: Retaking, lost: Grant, stranger: &mut Stranger) -> bool {
    if let Some(holder) = look.stranger()
        && stranger.is_none_or(|(same, _)| same != holder)
    {
        *stranger = Some((holder, Instant::now()));
    }
    let is_ending = look.stranger() == Some(lost.connection_id);
    let patience = if retaking.has_announced() || is_ending {
        RELEASES
    } else {
        LINGERS
    };
    stranger.is_some_and(|(_, since)| since.elapsed() > patience)
}
