//! The supervisor as a lock's backend knows it: who asks for the lock, and whether it is still there.

use nix::sys::prctl;
use nix::sys::signal::{Signal, raise};
use nix::unistd::Pid;

use super::message::{FromKeeper, ToKeeper};
use crate::isolated::link::{Link, cut};
use crate::isolated::process::die_with;
use crate::lock::{Caller, Holders};

/// The link to it, and its process.
pub struct Supervisor<'a>(pub &'a Link, pub Pid);

impl Caller for Supervisor<'_> {
    fn on_server(&self, server: &str) {
        let _ = self.0.send(&FromKeeper::Reached(cut(server)));
    }

    fn on_read_only(&self, server: Option<&str>) {
        let server = server.map(str::to_owned);
        let _ = self.0.send(&FromKeeper::OnlyReadOnly(server));
    }

    fn on_wait(&self, holders: &Holders) {
        let _ = self.0.send(&FromKeeper::Waiting(holders.clone()));
    }

    /// Until it is known whether the lock is held, the end of the supervisor is not that of the keeper; and the supervisor does not
    /// end the keeper once it has answered.
    fn on_claim(&self, may_be_held: bool) -> bool {
        if may_be_held {
            let _ = prctl::set_pdeathsig(None);
        } else if die_with(self.1).is_err() {
            let _ = raise(Signal::SIGKILL);
        }
        let sent = self.0.send(&FromKeeper::Claiming(may_be_held));
        let goes_on = sent.is_ok() && (!may_be_held || self.is_answered());
        if !goes_on {
            // Who has given up waits for nothing then.
            let _ = self.0.send(&FromKeeper::Claiming(false));
        }
        goes_on
    }

    fn ask_alive(&self) {
        let _ = self.0.send(&FromKeeper::AreYouThere);
    }

    /// Goes no further while the supervisor is stopped: it could start no command, and the others would wait for nothing.
    /// The server ends the session of a waiter that keeps silent, and gives its place to the next.
    fn await_alive(&self) {
        self.is_answered();
    }
}

impl Supervisor<'_> {
    /// Waits for [`ToKeeper::Here`]; `false`: the supervisor wants nothing of the lock any more.
    fn is_answered(&self) -> bool {
        while let Ok(Some((message, _))) = self.0.receive() {
            match message {
                ToKeeper::Here => return true,
                ToKeeper::Release(_) => return false,
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::getppid;

    use super::*;

    #[test]
    fn a_claim_that_nobody_wants_any_more_is_withdrawn() {
        let (keeper, supervisor) = Link::pair().unwrap();
        supervisor.send(&ToKeeper::Release(None)).unwrap();
        assert!(!Supervisor(&keeper, getppid()).on_claim(true));
        drop(keeper);
        let mut claims = Vec::new();
        while let Some((FromKeeper::Claiming(may_be_held), _)) = supervisor.receive().unwrap() {
            claims.push(may_be_held);
        }
        assert_eq!(claims, [true, false]);
    }
}
