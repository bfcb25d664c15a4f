//! What a keeper needs of a lock, whatever holds it.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Grant, Holders, Lease};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::db::{Client, Session};

/// A lock of one caller: acquired, renewed, lost, reacquired, released. Each call blocks for as long as the server takes; a caller
/// that must not wait so long uses it in a process of its own.
pub trait Backend {
    /// One attempt to acquire the lock. It may wait for as long as the caller asked for.
    ///
    /// # Errors
    /// No further attempt will help.
    fn try_acquire(&mut self, caller: &dyn Caller) -> Result<Attempt, Failure>;

    /// Proves that the lock is held, on a server that takes writes, and has it expire later.
    fn renew(&mut self) -> Renewal;

    /// Whether the lock lives on without its session.
    fn outlives_session(&self) -> bool;

    /// The server has ended the session. The cause of a loss; `None` where the lock lives on, and is to be renewed.
    fn on_session_end(&mut self) -> Option<String>;

    /// One attempt to reacquire the lost slot. Without `take` it only asks whether somebody ends the holder (`dblock kill`), for that
    /// overrides any policy.
    fn try_reacquire(&mut self, take: bool) -> Reattempt;

    /// Who ends the holder, if the lock was lost because of that.
    fn find_kill(&mut self) -> Option<Client>;

    /// Answers whoever ends the holder that the command has ended. `false`: the answer did not arrive.
    fn ack_kill(&mut self) -> bool;

    /// Carries out statements of others, and gives the lock back, at once if it can; `also` says them anew for each attempt, for they may
    /// say how long ago something was. `false`: it was not held any more.
    ///
    /// # Errors
    /// The cause of a loss: the lock is free, nobody knows since when. `None` where it was lost before.
    fn release(&mut self, also: &dyn Fn() -> Vec<String>) -> Result<bool, Option<String>>;

    /// As [`Backend::release`], for a supervisor that has died: not for long, and not where the end of the session does it.
    fn release_for_the_dead(&mut self, also: &[String]);

    /// The session on which the lock is held, or was asked for in vain, if it is there.
    fn session(&mut self) -> Option<&mut Session>;

    /// Drops the session that holds the lock, for the caller cannot use it. The server gets no release.
    fn drop_held(&mut self);

    /// A descriptor that turns readable when the lock is lost, and that keeps the lock held as long as it is open anywhere; `None`
    /// while the lock is not held, and for a lock without one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Which server has the lock.
    fn server(&self) -> String;

    /// From now on wait no longer than this for an answer, and no longer than an eighth of it for a server to connect.
    ///
    /// # Errors
    /// The system refused.
    fn answer_within(&mut self, limit: Duration) -> std::io::Result<()>;

    /// How long to wait before the next attempt.
    fn pause(&self) -> Duration;
}

/// Whoever asks for a lock: it is notified, and asked whether it is still there.
pub trait Caller {
    /// The lock is asked for on this server.
    fn on_server(&self, server: &str);
    /// Every server is read-only, as the latest attempt showed; the text names one. `None`: no longer.
    fn on_read_only(&self, server: Option<&str>);
    /// These hold the lock, and the wait begins.
    fn on_wait(&self, holders: &Holders);
    /// Whether the lock may be held from now on without anybody's knowing: whoever gives up then must see to its release. `false`:
    /// nobody is there any more to use it.
    fn on_claim(&self, may_be_held: bool) -> bool;
    /// Asks whether somebody is there to use the lock.
    fn ask_alive(&self);
    /// Waits for the answer to [`Caller::ask_alive`].
    fn await_alive(&self);
}

/// What became of an attempt to acquire a lock.
pub enum Attempt {
    /// It is held.
    Acquired(Grant, Lease),
    /// Others hold it, and the time to wait is over.
    Taken(Holders),
    /// Nothing is decided; another attempt may follow after this time.
    Retry(Duration),
}

/// What became of a renewal.
pub enum Renewal {
    /// The lock is held, as it was when the renewal was sent.
    Confirmed(Moment),
    /// No answer came. The lock may live on: its lease says until when. The text is the cause.
    Unanswered(String),
    /// It is not held any more. The text is the cause.
    Lost(String),
    /// This one wants its holder to end.
    Killed(Box<Client>),
}

/// What became of an attempt to reacquire a lock.
pub enum Reattempt {
    /// It is held again.
    Acquired(Grant, Lease),
    /// This one ends the holder: the lock is not reacquired.
    Killed(Client),
    /// Nobody ends the holder, and the lock was not to be reacquired.
    NotRequested,
    /// It cannot be reacquired.
    Refused(Refusal),
    /// Nothing is decided; another attempt may succeed.
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
