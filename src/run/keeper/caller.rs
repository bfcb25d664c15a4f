//! The supervisor as a lock's backend sees it: who asks for the lock, and whether that process is still there.

use nix::sys::signal::{Signal, raise};

use super::super::message::{Answer, FromKeeper, ToKeeper};
use crate::isolated::link::cut;
use crate::keeper::Parent;
use crate::lock::{Caller, Holders};

impl Caller for Parent<'_, FromKeeper, ToKeeper> {
    fn on_server(&self, server: &str) {
        let _ = self.link.send(&FromKeeper::Reached(cut(server)));
    }

    fn on_read_only(&self, server: Option<&str>) {
        let _ = self.link.send(&FromKeeper::OnlyReadOnly(server.map(cut)));
    }

    fn on_row_locked(&self, is_locked: bool) {
        let _ = self.link.send(&FromKeeper::RowLocked(is_locked));
    }

    fn on_taken(&self, holders: &Holders) {
        let taken = Answer::Taken(holders.clone());
        let _ = self.link.send(&FromKeeper::Answered(taken));
    }

    fn on_wait(&self, holders: &Holders) {
        let _ = self.link.send(&FromKeeper::Waiting(holders.clone()));
    }

    /// While the lock may be held without an answer, the keeper outlives its supervisor, so that it can release the lock. Once the
    /// supervisor has answered, it does not kill the keeper either.
    fn on_claim(&self, may_be_held: bool) -> bool {
        if may_be_held {
            self.process.outlive();
        } else if self.process.die_with().is_err() {
            let _ = raise(Signal::SIGKILL);
        }
        let sent = self.link.send(&FromKeeper::Claiming(may_be_held));
        let goes_on = sent.is_ok() && (!may_be_held || is_answered(self));
        if !goes_on {
            // So that a supervisor that has given up does not wait for a release.
            let _ = self.link.send(&FromKeeper::Claiming(false));
        }
        goes_on
    }

    fn ask_alive(&self) {
        let _ = self.link.send(&FromKeeper::AreYouThere);
    }

    /// Blocks while the supervisor is stopped: it could not start the command, and the other waiters would wait for nothing. The server
    /// ends the session of a waiter that does not answer, and the next waiter moves up.
    fn await_alive(&self) {
        is_answered(self);
    }
}

/// Waits for [`ToKeeper::Here`]; `false`: the supervisor no longer wants the lock. What it has said instead is still to be done: whoever is
/// granted the lock all the same must release it.
fn is_answered(supervisor: &Parent<'_, FromKeeper, ToKeeper>) -> bool {
    supervisor.await_answer(
        |message| matches!(message, ToKeeper::Here),
        |message| matches!(message, ToKeeper::Release(_)),
    )
}

#[cfg(test)]
mod tests {
    use nix::unistd::getppid;

    use super::*;
    use crate::isolated::link::Link;
    use crate::keeper::Board;

    #[test]
    fn a_claim_that_nobody_wants_any_more_is_withdrawn() {
        let (keeper, supervisor) = Link::pair().unwrap();
        supervisor.send(&ToKeeper::Release(None)).unwrap();
        let board = Board::new(1).unwrap();
        let mut parent = Parent::new(&keeper, getppid(), board, FromKeeper::Note).unwrap();
        assert!(!parent.on_claim(true));
        // Nor does the next attempt wait for an answer; and what was said is not forgotten.
        parent.await_alive();
        assert!(!parent.on_claim(true) && parent.has_message());
        assert!(parent.has_said(|message| matches!(message, ToKeeper::Release(None))));
        drop(keeper);
        let mut claims = Vec::new();
        while let Some((FromKeeper::Claiming(may_be_held), _)) = supervisor.receive().unwrap() {
            claims.push(may_be_held);
        }
        assert_eq!(claims, [true, false, true, false]);
    }
}
