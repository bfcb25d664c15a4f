//! Holding a slot: proving that it is still held, and giving it back.

use std::thread::sleep;

use super::request::{PAUSE, Request};
use super::statements::wake;
use crate::db::{Fault, Session};

impl Request {
    /// Whether the slot is still ours, on a server that takes writes.
    ///
    /// # Errors
    /// The session must be dropped: nobody knows.
    pub fn renew(&self, slot: u32, session: &mut Session) -> Result<bool, Fault> {
        loop {
            match session.run(&self.statements.renew(slot)) {
                Ok(told) => {
                    let told = told.ok_or_else(|| Fault::Gone("no answer".to_owned()))?;
                    if self.wants_fit() {
                        self.check_writes(told.is_read_only)?;
                    }
                    return Ok(told.answer.is_some_and(|answer| answer.slot == Some(slot)));
                }
                Err(Fault::Interrupted(_) | Fault::Conflict(_)) => sleep(PAUSE),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Gives a slot back and wakes the head of the queue, if there is one. `false`: it was no longer ours.
    ///
    /// # Errors
    /// [`Fault::Gone`]: the session ended, and with it the lock, nobody knows when.
    pub fn release(&self, slot: u32, session: &mut Session) -> Result<bool, Fault> {
        let mut interrupted = false;
        loop {
            match session.run(&self.statements.release(slot)) {
                Ok(released) => {
                    if let Some(head) = released.queue_head {
                        // One that may not be woken looks again by itself.
                        let _ = session.run(&wake(head));
                    }
                    return Ok(interrupted || released.was_held);
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
}
