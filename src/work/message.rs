//! What crosses between the claimer and the coordinator of a worker.

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::lock::Lease;
use crate::queue::{Ended, Queue, Unit};

/// From the claimer to the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromClaimer {
    /// What is being done or has just failed.
    Note(Level, String),
    /// Why nothing is recorded, when that is new; `None`: something was. It was noted already.
    Fault(Option<Trouble>),
    /// A session is open. Its descriptor comes with the message: who shuts it down interrupts what is asked on it.
    Session,
    /// The worker is registered under this number, as of this lease. It has nothing.
    Registered(Box<Queue>, u64, Lease),
    /// A renewal that was sent then was answered: all that the worker has is still its own.
    Confirmed(Moment),
    /// These claims, each by its first job and its fence, are not in the tables any more: they were handed in, or the server has lost
    /// them.
    Gone(Vec<(u64, u64)>),
    /// Jobs were claimed. Their payloads come with the message, in a file, one behind the other.
    Claimed(Vec<Claimed>),
    /// The turn is over.
    TurnOver {
        /// Whether there was less than was wanted.
        nothing_due: bool,
    },
    /// Every server is read-only, as the latest round of all of them has shown, and why; or no longer.
    OnlyReadOnly(Option<String>),
    /// The worker's lease was over, and others have its jobs. The text is the cause. It registers again.
    Lost(String),
    /// The queue was deleted, with all that the worker has. The claimer fails of that.
    QueueDeleted,
    /// The payloads of what was claimed cannot be kept: it goes back, and nothing more is claimed.
    Stuck(Failure),
    /// The claimer cannot go on.
    Failed(Failure),
    /// The worker is deregistered.
    Deregistered,
}

/// Why nothing is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The line that says it.
    pub line: String,
    /// Whether a server answers, and has no room; else there is no session.
    pub answers: bool,
}

/// Jobs of one unit.
#[derive(Debug, Serialize, Deserialize)]
pub struct Claimed {
    /// What they were claimed as.
    pub unit: Unit,
    /// How many jobs that has.
    pub of: u32,
    /// These of them.
    pub jobs: Vec<ClaimedJob>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedJob {
    /// Its number.
    pub id: u64,
    /// Where its payload begins in the file.
    pub offset: u64,
    /// Bytes of its payload.
    pub length: u64,
}

/// To the claimer. What is meant for one worker is nothing to the one that it has registered since: each but [`Self::Stop`] names it.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToClaimer {
    /// These have ended; they are handed in with the next turn. One whose unit is that of the one before goes on with it.
    Ended(u64, Vec<Ended>),
    /// Take a turn.
    Turn {
        /// The worker's number.
        worker: u64,
        /// So many jobs are wanted.
        want: u32,
        /// Whether to wait until there is one: nothing runs, so that nothing can end meanwhile.
        waits: bool,
        /// How many jobs are done, and how many attempts have failed, since the last turn.
        counts: (u64, u64),
    },
    /// Wait no longer for something to be due.
    Stop,
    /// Hand in what has ended, and deregister the worker: nothing runs any more.
    Deregister {
        /// The worker's number.
        worker: u64,
        /// As with a turn.
        counts: (u64, u64),
    },
}

impl ToClaimer {
    /// Whether it is meant for this worker, and not for one that was lost before.
    pub fn is_for(&self, number: u64) -> bool {
        match self {
            Self::Ended(worker, _)
            | Self::Turn { worker, .. }
            | Self::Deregister { worker, .. } => *worker == number,
            Self::Stop => true,
        }
    }
}
