//! Reacquiring a lost slot, and acknowledging a kill (`dblock kill`).

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::request::{
    LONGEST_END, LOOK_AGAIN, LOOK_AGAIN_AT_KILLER, Request, carry_out, may_end, named_client,
};
use super::retaking::{Action, Look, Retaking};
use super::statements::{ack_kill_of_waiter, ask_owners, kill_session, take_lock_now};
use crate::base::clock::Moment;
use crate::base::log::Level;
use crate::db::{Ask, Client, Fault, Session};
use crate::lock::{Grant, Holders, Lease, kill_request_lock};

/// A session that holds the slot for longer than `LINGERS` belongs to another holder. Before that it may be this dblock's own older
/// session, which is ending. After the announcement of the reacquire it may be a waiter that is about to release the slot, within
/// `RELEASES`.
const LINGERS: Duration = Duration::from_millis(20);
const RELEASES: Duration = Duration::from_millis(500);

/// The result of an attempt to reacquire a slot.
pub enum Retake {
    /// It is held again.
    Held(Grant, Lease),
    /// This client kills the holder.
    Killed(Client),
    /// Another session holds it.
    Taken(Holders),
}

/// Kills an older session of this dblock that the server still keeps.
///
/// # Errors
/// [`Fault::Gone`].
pub fn end_ghost(ghost: u64, session: &mut Session) -> Result<(), Fault> {
    // Any other fault may mean that the session has ended by now.
    if let Err(fault @ Fault::Gone(_)) = session.run(&kill_session(ghost)) {
        return Err(fault);
    }
    let line = format!("ended the session {ghost}, which was our own");
    session.tell(Level::Info, &line);
    Ok(())
}

/// Waits until the killer has read the acknowledgement: it releases the lock that `owner` asks about then. Gives up after a limit.
fn await_killer(owner: &Ask<Option<u64>>, killer: u64, session: &mut Session) -> Result<(), Fault> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST_END {
        match session.run(owner) {
            Ok(answer) if answer != Some(killer) => break,
            Ok(_) | Err(Fault::Interrupted(_) | Fault::Conflict(_)) => {}
            Err(fault) => return Err(fault),
        }
        sleep(LOOK_AGAIN_AT_KILLER);
    }
    // Another killer may wait for the same end, and needs time to see the acknowledgement.
    sleep(2 * LOOK_AGAIN_AT_KILLER);
    Ok(())
}

impl Request {
    /// Reacquires a `lost` slot on a new session. If the server still keeps an older session of this dblock, kills that first; a waiter
    /// may acquire the slot then. With `announced`, the session has announced before that it takes the slot again; once it holds the slot,
    /// that is withdrawn.
    ///
    /// # Errors
    /// As [`Request::open`]. After any fault the session must be dropped, as it may hold the slot.
    pub fn retake(
        &mut self,
        lost: Grant,
        announced: bool,
        session: &mut Session,
    ) -> Result<Retake, Fault> {
        let slot = lost.slot;
        let open = self.statements.open_session(self.ttl);
        let begun = Moment::now();
        let mut opened = false;
        let mut retaking = Retaking::begin(announced);
        let mut stranger: Option<(u64, Instant)> = None;
        let no_answer = || Fault::Interrupted("no answer to GET_LOCK".to_owned());
        loop {
            let proved = Moment::now();
            let statement = self.statements.reacquire(slot);
            let reply = if opened {
                carry_out(session, &open)?;
                session.run(&statement)
            } else {
                session.run_both(&open, &statement)
            };
            let reply = match reply {
                Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => {
                    opened = true;
                    continue;
                }
                reply => reply?.ok_or_else(no_answer)?,
            };
            let answer = reply.opened.asked.answer.ok_or_else(no_answer)?;
            let (owner, read_only) = (reply.opened.run_id_owner, reply.opened.asked.is_read_only);
            opened = true;
            let look = Look {
                own: answer.connection_id,
                acquired: answer.slot.is_some(),
                killed: answer.killed,
                run_id_owner: owner,
                holder: reply.holder,
            };
            if let Some(holder) = look.stranger()
                && stranger.is_none_or(|(same, _)| same != holder)
            {
                stranger = Some((holder, Instant::now()));
            }
            let patience = if retaking.has_announced() {
                RELEASES
            } else {
                LINGERS
            };
            let patience_over = stranger.is_some_and(|(_, since)| since.elapsed() > patience);
            let action = retaking.next(look, patience_over);
            if !look.acquired {
                self.check_writes(read_only)?;
            }
            match action {
                Action::Held { announced } => {
                    let traits = &reply.opened.traits;
                    let fitness = self.judge(traits, (answer, owner, read_only), session)?;
                    let ttl = fitness.idle_limit.min(self.ttl);
                    if announced {
                        carry_out(session, &self.statements.finish_reacquire(slot))?;
                    }
                    let connection_id = answer.connection_id;
                    let grant = Grant {
                        slot,
                        connection_id,
                        fence: None,
                    };
                    return Ok(Retake::Held(grant, Lease { ttl, proved }));
                }
                Action::Taken => return Ok(Retake::Taken(self.holders(session)?)),
                Action::AskKiller => {
                    if let Some(killer) = self.killer(lost, session)? {
                        return Ok(Retake::Killed(killer));
                    }
                    if begun.elapsed() > LONGEST_END {
                        return Err(no_answer());
                    }
                    sleep(LOOK_AGAIN);
                    continue;
                }
                Action::EndGhost { ghost, announce } => {
                    if announce {
                        carry_out(session, &self.statements.announce_reacquire(slot))?;
                    }
                    end_ghost(ghost, session)?;
                }
                Action::LookAgain => {}
            }
            may_end(begun)?;
            sleep(LOOK_AGAIN);
        }
    }

    /// Has a session acquire a lock that only the sessions of this process take, by its name on the server. If the server still keeps an
    /// older one with it, kills that: it may hold other locks, too.
    ///
    /// # Errors
    /// Any fault of a statement; [`Fault::Interrupted`] if the older session does not end in time.
    pub fn take_over(lock: &str, session: &mut Session) -> Result<(), Fault> {
        let (begun, mut ended) = (Moment::now(), None);
        while session.run(&take_lock_now(lock))? != Some(true) {
            let owner = session.run(&ask_owners(&[lock.to_owned()]))?[0];
            if let Some(ghost) = owner.filter(|ghost| ended.replace(*ghost) != Some(*ghost)) {
                end_ghost(ghost, session)?;
            }
            may_end(begun)?;
            sleep(LOOK_AGAIN_AT_KILLER);
        }
        Ok(())
    }

    /// Who kills the holder of a `lost` slot. A killer of a later holder does not count.
    ///
    /// # Errors
    /// Any fault of a statement, and [`Fault::ReadOnly`].
    fn killer(&self, lost: Grant, session: &mut Session) -> Result<Option<Client>, Fault> {
        let marker = self
            .statements
            .kill_marker(lost.slot, Some(lost.connection_id));
        let Some(killing) = session.run(&marker)? else {
            return Ok(None);
        };
        self.check_writes(killing.is_read_only)?;
        let Some(id) = killing.killer else {
            return Ok(None);
        };
        // From here on no dblock acquires the slot, even if the killer dies.
        carry_out(session, &self.statements.announce_termination(lost.slot))?;
        Ok(Some(named_client(id, session)?))
    }

    /// Who killed this session, which was lost before it held the lock. Tells the killer that there is no command, and waits until it
    /// knows.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn killer_of_waiter(lost: u64, session: &mut Session) -> Result<Option<Client>, Fault> {
        let request = ask_owners(&[kill_request_lock(lost)]).map(|owners| owners[0]);
        let Some(id) = session.run(&request)? else {
            return Ok(None);
        };
        let client = named_client(id, session)?;
        carry_out(session, &ack_kill_of_waiter(id))?;
        await_killer(&request, id, session)?;
        Ok(Some(client))
    }

    /// Who kills the holder of a `lost` slot. For a new session whose server takes writes.
    ///
    /// # Errors
    /// As [`Request::open`].
    pub fn find_killer(
        &mut self,
        lost: Grant,
        session: &mut Session,
    ) -> Result<Option<Client>, Fault> {
        carry_out(session, &self.statements.open_session(self.ttl))?;
        loop {
            match self.killer(lost, session) {
                Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => {}
                found => return found,
            }
        }
    }

    /// Tells the killer of this holder, the session `killer`, that the command has ended. Waits until the killer knows, up to a limit.
    ///
    /// # Errors
    /// Any fault of a statement: the killer may not know.
    pub fn ack_kill(&self, slot: u32, killer: u64, session: &mut Session) -> Result<(), Fault> {
        carry_out(session, &self.statements.ack_kill(slot, killer))?;
        let marker = self.statements.kill_marker(slot, None);
        let killer_now = marker.map(|marker| marker.and_then(|marker| marker.killer));
        await_killer(&killer_now, killer, session)
    }
}
