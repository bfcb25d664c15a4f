//! A caller without a command that somebody kills (`dblock kill`): it ends, and its killer learns that there is no command.

use super::acknowledging::LostSessions;
use super::acquire::Opening;
use super::request::Request;
use crate::base::exit::{Failure, Reason};
use crate::db::{Client, Fault, Session};
use crate::lock::Name;

/// The killers of a caller whose command has not begun.
#[derive(Debug, Default)]
pub struct OwnKillers {
    lost: LostSessions,
    /// The latest that was found. From then on no command starts.
    killer: Option<Client>,
}

impl OwnKillers {
    /// Looks on a new session for the killer of each session that was lost on the same server, and tells it that there is no command.
    ///
    /// # Errors
    /// [`Reason::LockLost`] if there was a killer. [`Fault::Gone`]: look again on another session.
    pub fn ack_kills(
        &mut self,
        name: &Name,
        opening: &Opening,
        session: &mut Session,
    ) -> Result<(), Fault> {
        let (server, own) = (session.to_string(), opening.connection_id());
        self.lost.add(&server, own);
        while let Some(lost) = self.lost.next(&server, own) {
            match Request::ack_kill_of_waiter(lost, &mut self.killer, session) {
                Err(fault) if self.killer.is_none() || matches!(fault, Fault::Gone(_)) => {
                    return Err(fault);
                }
                // A killer that was not told says so itself, in time.
                _ => self.lost.settle(&server, lost),
            }
        }
        let Some(killer) = &self.killer else {
            return Ok(());
        };
        let line = format!("{name} was ended by {killer}");
        Err(Fault::Final(Failure::new(Reason::LockLost, line)))
    }
}
