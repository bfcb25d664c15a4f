//! Acquiring a lost slot again, and hearing of whoever ends its holder (`dblock kill`).

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::request::{
    LONGEST_END, LOOK_AGAIN, LOOK_AGAIN_AT_KILLER, Request, carry_out, may_end, named_client,
};
use super::retaking::{Action, Look, Retaking};
use super::statements::{KillSession, Owners, ack_kill_of_waiter};
use crate::base::clock::Moment;
use crate::base::log::Level;
use crate::db::{Client, Fault, Session, Statement};
use crate::lock::{Grant, Holders, Lease, kill_request_lock};

/// How long the session that has a slot may be one of our own on its way out; and how long, when we announced that we reacquire it,
/// a waiter's that is about to release it. Beyond that it is a stranger's.
const LINGERS: Duration = Duration::from_millis(20);
const RELEASES: Duration = Duration::from_millis(500);

/// What became of the attempt to take a slot again.
pub enum Retake {
    /// It is ours.
    Held(Grant, Lease),
    /// Somebody ends its holder, which is us: it is not for us any more.
    Killed(Client),
    /// Another session has it.
    Taken(Holders),
}

/// Ends an older session of this dblock, which the server has not missed yet.
///
/// # Errors
/// [`Fault::Gone`].
pub fn end_ghost(ghost: u64, session: &mut Session) -> Result<(), Fault> {
    // Any other fault may be that it is gone by now.
    if let Err(fault @ Fault::Gone(_)) = session.run(&KillSession(ghost)) {
        return Err(fault);
    }
    let line = format!("ended the session {ghost}, which was our own");
    session.tell(Level::Info, &line);
    Ok(())
}

/// Waits until a killer has released what `owner` asks for, so that it knows the answer, or does not seem to listen.
fn await_killer<S: Statement>(
    owner: &S,
    id_of: impl Fn(S::Answer) -> Option<u64>,
    killer: u64,
    session: &mut Session,
) -> Result<(), Fault> {
    let begun = Instant::now();
    while begun.elapsed() < LONGEST_END {
        match session.run(owner) {
            Ok(answer) => {
                if id_of(answer) != Some(killer) {
                    break;
                }
            }
            Err(Fault::Interrupted(_) | Fault::Conflict(_)) => {}
            Err(fault) => return Err(fault),
        }
        sleep(LOOK_AGAIN_AT_KILLER);
    }
    // Another who waits for the same end may look for the answer, too.
    sleep(2 * LOOK_AGAIN_AT_KILLER);
    Ok(())
}

impl Request {
    /// Takes a `lost` slot once more, on a new session. Where it finds an older session of this dblock, which the server
    /// has not missed yet, it ends that first; a caller that waits may be quicker then.
    ///
    /// # Errors
    /// As [`Request::open`]. After any fault the session must be dropped: it may have the slot all the same.
    pub fn retake(&mut self, lost: Grant, session: &mut Session) -> Result<Retake, Fault> {
        let slot = lost.slot;
        let open = self.statements.open_session(self.ttl);
        let begun = Moment::now();
        let mut opened = false;
        let mut retaking = Retaking::default();
        let mut stranger: Option<(u64, Instant)> = None;
        let no_answer = || Fault::Interrupted("no answer to GET_LOCK".to_owned());
        loop {
            let proved = Moment::now();
            let statement = self.statements.reacquire(slot);
            let told = if opened {
                carry_out(session, &open)?;
                session.run(&statement)
            } else {
                session.run_both(&open, &statement)
            };
            let told = match told {
                Err(Fault::NoSuchVariable(name)) if self.statements.do_without(&name) => {
                    opened = true;
                    continue;
                }
                told => told?.ok_or_else(no_answer)?,
            };
            let answer = told.opened.asked.answer.ok_or_else(no_answer)?;
            let (owner, read_only) = (told.opened.run_id_owner, told.opened.asked.is_read_only);
            opened = true;
            let look = Look {
                own: answer.connection_id,
                acquired: answer.slot.is_some(),
                killed: answer.killed,
                run_id_owner: owner,
                holder: told.holder,
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
                    let traits = &told.opened.traits;
                    let fitness = self.judge(traits, (answer, owner, read_only), session)?;
                    let ttl = fitness.idle_limit.min(self.ttl);
                    if announced {
                        carry_out(session, &self.statements.finish_reacquire(slot))?;
                    }
                    let connection_id = answer.connection_id;
                    let grant = Grant {
                        slot,
                        connection_id,
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

    /// Who is ending the holder of a `lost` slot, if somebody is. One who ends a later holder of it is not meant.
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
        // From here on nobody has the slot, also when the killer goes away.
        carry_out(session, &self.statements.announce_termination(lost.slot))?;
        Ok(Some(named_client(id, session)?))
    }

    /// Who ended the session of this number, which was lost while the lock was asked for. The killer is told that there is no command,
    /// and hears it.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn killer_of_waiter(lost: u64, session: &mut Session) -> Result<Option<Client>, Fault> {
        let request = Owners(vec![kill_request_lock(lost)]);
        let Some(id) = session.run(&request)?[0] else {
            return Ok(None);
        };
        let client = named_client(id, session)?;
        carry_out(session, &ack_kill_of_waiter(id))?;
        await_killer(&request, |owners| owners[0], id, session)?;
        Ok(Some(client))
    }

    /// Who is ending the holder of a `lost` slot, on a new session whose server takes writes.
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

    /// Tells the session `killer`, which ends this holder, that the holder's command is gone, and returns when it has heard of it, or
    /// does not seem to listen.
    ///
    /// # Errors
    /// Any fault of a statement: it does not know.
    pub fn ack_kill(&self, slot: u32, killer: u64, session: &mut Session) -> Result<(), Fault> {
        carry_out(session, &self.statements.ack_kill(slot, killer))?;
        let marker = self.statements.kill_marker(slot, None);
        await_killer(
            &marker,
            |told| told.and_then(|told| told.killer),
            killer,
            session,
        )
    }
}
