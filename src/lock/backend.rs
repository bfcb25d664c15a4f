//! What a keeper needs of a lock, whatever keeps it.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Grant, Holders, Lease};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::db::{Client, Fault, Session};

/// A caller's lock: it is acquired, renewed, lost, reacquired, released. Each call blocks for as long as the server takes; a caller that
/// must not block uses the lock in a process of its own.
pub trait Backend {
    /// One attempt to acquire the lock. It may wait for as long as the caller asked for.
    ///
    /// # Errors
    /// No further attempt will help.
    fn try_acquire(&mut self, caller: &dyn Caller) -> Result<Attempt, Failure>;

    /// Does on the server what can wait until the grant is reported, for the command to start at once.
    fn after_grant(&mut self) {}

    /// Proves that the lock is held, on a server that takes writes, and extends it. `until`: when to stop waiting for an answer at the
    /// latest.
    fn renew(&mut self, until: Option<Moment>) -> Renewal;

    /// As [`Backend::renew`], of a holder that is killed: keeps others out until its command has ended.
    fn renew_killed(&mut self, until: Option<Moment>) -> Renewal {
        self.renew(until)
    }

    /// Whether the lock outlives its session.
    fn outlives_session(&self) -> bool;

    /// Handles the end of the session. Returns the cause of a loss; `None`: the lock outlives the session, or its holder is killed, and it
    /// must be renewed.
    fn on_session_end(&mut self) -> Option<String>;

    /// Makes one attempt to reacquire the lost slot. Without `take` it only looks for a killer (`dblock kill`), which overrides any
    /// policy. `until`: when to stop waiting for an answer at the latest.
    fn try_reacquire(&mut self, take: bool, until: Option<Moment>) -> Reattempt;

    /// The killer that was found before, if the session is still there on which it waits for the command's end.
    fn known_killer(&self) -> Option<Client> {
        None
    }

    /// The killer, if the lock was lost because of one. `until`: when to stop waiting for an answer at the latest.
    fn find_kill(&mut self, until: Option<Moment>) -> Option<Client>;

    /// Tells the killer that the command has ended. `false`: the answer did not arrive. `until`: as in [`Backend::find_kill`].
    fn ack_kill(&mut self, until: Option<Moment>) -> bool;

    /// Runs the statements of others, and releases the lock, in one step if possible. `also` makes the statements anew for each attempt,
    /// as they may contain an elapsed time. If a server refuses them, they are retried for as long as `patience`, and the lock is held
    /// meanwhile if possible. If no server can be reached, the attempts continue until the caller ends them.
    fn release(&mut self, also: &dyn Fn() -> Vec<String>, patience: Duration) -> Release;

    /// As [`Backend::release`], for a supervisor that has died. Does not retry for long, and leaves it to the end of the session where
    /// that releases the lock.
    fn release_for_the_dead(&mut self, also: &[String]);

    /// Writes on a new session, after the release. Each server is tried once.
    ///
    /// # Errors
    /// It is not written, or nobody knows.
    fn write_anew(
        &mut self,
        write: &dyn Fn(&mut Session) -> Result<(), Fault>,
    ) -> Result<(), Fault>;

    /// The session on which the lock is held, or on which others were found to hold it, if it is still open.
    fn session(&mut self) -> Option<&mut Session>;

    /// As [`Backend::session`], only to look at it.
    fn current_session(&self) -> Option<&Session>;

    /// Drops the session that holds the lock, without a release, because the caller cannot use it.
    fn drop_held(&mut self);

    /// A descriptor that becomes readable when the lock is lost, or what keeps others out while the command of a holder that is killed
    /// ends. While any copy of it is open, that stays held. `None`: nothing is held, or the lock is of a kind without one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.current_session().map(AsFd::as_fd)
    }

    /// The server that keeps the lock.
    fn server(&self) -> String {
        let session = self.current_session();
        session.map(Session::to_string).unwrap_or_default()
    }

    /// Waits no longer than this for an answer from now on, and no longer than an eighth of it for a connection.
    ///
    /// # Errors
    /// The system refused.
    fn answer_within(&mut self, limit: Duration) -> Result<(), Fault>;

    /// How long to wait before the next attempt.
    fn pause(&self) -> Duration;

    /// Whether the servers have refused the latest renewal together with its session: each further attempt costs a login.
    fn is_refused(&self) -> bool {
        false
    }
}

/// The process that asks for a lock. It is notified, and asked whether it is still alive. One that says nothing of these waits for nothing,
/// and is always there.
pub trait Caller {
    /// The lock is asked for on this server.
    fn on_server(&self, _server: &str) {}
    /// Every server is read-only, as the latest attempt showed; the text names one. `None`: that is over.
    fn on_read_only(&self, _server: Option<&str>) {}
    /// Whether another session keeps the lock's row or its table locked, as the latest attempt showed: the server answers, but not yet
    /// who holds the lock.
    fn on_row_locked(&self, _is_locked: bool) {}
    /// Others hold the lock; who they are is still looked up.
    fn on_taken(&self, _holders: &Holders) {}
    /// These hold the lock, and the wait begins.
    fn on_wait(&self, _holders: &Holders) {}
    /// Whether the server may grant the lock at any moment without the caller's knowledge. A caller that gives up then must have it
    /// released. `false`: nobody is left to use the lock.
    fn on_claim(&self, _may_be_held: bool) -> bool {
        true
    }
    /// Asks whether the caller is alive.
    fn ask_alive(&self) {}
    /// Waits for the answer to [`Caller::ask_alive`].
    fn await_alive(&self) {}
}

/// A caller that is told nothing.
pub struct Nobody;

impl Caller for Nobody {}

/// The result of an attempt to acquire a lock.
pub enum Attempt {
    /// It is held.
    Acquired(Grant, Lease),
    /// Others hold it, and the wait is over.
    Taken(Holders),
    /// Undecided: try again after this time.
    Retry(Duration),
}

/// The result of a renewal.
pub enum Renewal {
    /// The lock was held when the renewal was sent, at this moment.
    Confirmed(Moment),
    /// No answer, or a refusal that says nothing about the lock. It may still be held, as far as its lease says. The text is the cause.
    Unanswered(String),
    /// It is no longer held. The text is the cause.
    Lost(String),
    /// This client kills the holder.
    Killed(Box<Client>),
}

/// The result of a release.
pub struct Release {
    /// Whether the statements of others were run. If not, the reason was reported before.
    pub also_done: bool,
    /// Whether the lock was held until then. An error is the cause of a loss at an unknown time; the lock is free. `None`: it was lost
    /// before.
    pub was_held: Result<bool, Option<String>>,
}

/// The result of an attempt to reacquire a lock.
pub enum Reattempt {
    /// It is held again.
    Acquired(Grant, Lease),
    /// This client kills the holder: the lock is not reacquired.
    Killed(Client),
    /// Nobody kills the holder, and the caller did not ask to reacquire the lock.
    NotRequested,
    /// It cannot be reacquired.
    Refused(Refusal),
    /// Undecided; another attempt may succeed.
    Failed,
}

/// Why a lost lock cannot be reacquired. Displayed, it ends a sentence about the lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Refusal {
    /// Others hold it.
    Taken(Holders),
    /// No further attempt will help.
    Failed(Failure),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Taken(holders) => write!(f, "is {holders}"),
            Self::Failed(failure) => write!(f, "cannot be reacquired: {failure}"),
        }
    }
}
