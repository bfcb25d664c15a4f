//! Holding a slot: renewing and releasing it.

use std::thread::sleep;

use super::releasing::{Answer, Ask, Releasing};
use super::request::{PAUSE, Request};
use super::statements::{keep_lock, wake};
use crate::db::server_facts::is_read_only;
use crate::db::{Fault, Kind, Session, no_answer};

impl Request {
    /// Whether this session still holds the slot, on a server that takes writes.
    ///
    /// # Errors
    /// The server has not answered, or refuses to. The session must be dropped unless it [survives](Session::survives) that.
    pub fn renew(&self, slot: u32, session: &mut Session) -> Result<bool, Fault> {
        loop {
            match session.run(&self.statements.renew(slot)) {
                Ok(asked) => {
                    let asked = asked.ok_or_else(no_answer)?;
                    if self.wants_fit() {
                        self.check_writes(asked.is_read_only, session)?;
                    }
                    return Ok(asked.answer.is_some_and(|answer| answer.holds(slot)));
                }
                Err(Fault::Interrupted(_) | Fault::Conflict(_)) => sleep(PAUSE),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// The same of a holder that is killed: whether this session announces that it ends its command, on a server that takes writes. It does
    /// so anew once an older session of the holder, which the server still had, does not any more.
    ///
    /// # Errors
    /// As [`Request::renew`].
    pub fn renew_announcement(&self, slot: u32, session: &mut Session) -> Result<bool, Fault> {
        let ending = self.name.termination_on_server(slot);
        let announces = session.run(&keep_lock(session.kind(), "renew announcement", &ending))?;
        if self.wants_fit() {
            let is_read_only = is_read_only(session)?;
            self.check_writes(is_read_only, session)?;
        }
        Ok(announces == Some(true))
    }

    /// Releases a slot, and wakes the head of the queue if there is one. `false`: this session no longer held the slot.
    ///
    /// # Errors
    /// [`Fault::Gone`]: the session ended, and with it the lock, at an unknown time.
    pub fn release(&self, slot: u32, session: &mut Session) -> Result<bool, Fault> {
        self.release_with(slot, None, session)
    }

    /// As [`Request::release`], with the `mark` of [`Request::try_slot`].
    ///
    /// # Errors
    /// As there.
    pub fn release_with(
        &self,
        slot: u32,
        mark: Option<&str>,
        session: &mut Session,
    ) -> Result<bool, Fault> {
        let (mut releasing, mut ask) = (Releasing::default(), Ask::Release);
        let mut was_refused = false;
        loop {
            let answer = match ask {
                Ask::Release => match session.run(&self.statements.release(slot, mark)) {
                    Ok(released) => released,
                    Err(Fault::Interrupted(_) | Fault::Conflict(_)) => {
                        sleep(PAUSE);
                        Answer::Interrupted
                    }
                    // PostgreSQL may release the slot and then refuse to notify others. Only who has released it just now notifies.
                    Err(Fault::Final(_) | Fault::NoRoom(_))
                        if session.kind() == Kind::Postgres
                            && !std::mem::replace(&mut was_refused, true) =>
                    {
                        Answer::Interrupted
                    }
                    Err(fault) => return Err(fault),
                },
                Ask::Wake => {
                    let _ = self.wake(session);
                    Answer::Woken
                }
                Ask::Over(was_held) => return Ok(was_held),
            };
            ask = releasing.next(answer);
        }
    }

    /// The statement that releases a slot, and a mark that came with it, for callers that send it after a commit. The second column of its
    /// answer is the head of the queue, which the caller must wake.
    pub fn release_statement(&self, slot: u32, mark: Option<&str>) -> String {
        self.statements.release(slot, mark).sql().to_owned()
    }

    /// Wakes the head of the queue.
    ///
    /// # Errors
    /// Any fault of a statement, also that there is no head any more.
    pub fn wake(&self, session: &mut Session) -> Result<(), Fault> {
        session.run(&wake(&self.name.queue_head_on_server()))
    }
}
