//! The messages between a worker's claimer and its coordinator.

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::history::OutputPart;
use crate::lock::Lease;
use crate::queue::{Count, EndedUnit, Queue, Rescued, Unit};

/// From the claimer to the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromClaimer {
    /// For the log: a step, or a failure.
    Note(Level, String),
    /// Why nothing is recorded, when that changes; `None`: recording works again. It has been logged.
    Fault(Option<Trouble>),
    /// A session is open. Its descriptor comes with the message: shutting it down interrupts the current statement.
    Session,
    /// The worker is registered under this number, with this lease. It has no jobs yet.
    Registered(Box<Queue>, u64, Lease),
    /// The server has answered a renewal that was sent at this moment: the worker still has all of its jobs.
    Confirmed(Moment),
    /// These claims, each by its first job and its fence, are not in the tables: their outcomes were recorded, or the server has lost them.
    Gone(Vec<(u64, u64)>),
    /// Jobs were claimed. Their payloads come with the message, one after the other in a file.
    Claimed(Vec<Claimed>),
    /// How many jobs are due. Only where the progress is shown.
    Left(Count),
    /// The turn is over.
    TurnEnded {
        /// Whether it claimed less than requested.
        nothing_due: bool,
    },
    /// Why every server was unfit in the latest round, if all were read-only; `None`: they were not.
    OnlyReadOnly(Option<String>),
    /// The lease was over, and others have the jobs; with the cause. The worker registers again.
    Lost(String),
    /// What a dead worker had was returned. Only where something is run at the end of jobs.
    Rescued(Rescued),
    /// The queue was deleted, with the worker's claims. The claimer then fails.
    QueueDeleted,
    /// There is no room for the payloads. The claimer returns the jobs, and claims no more.
    Stuck(Failure),
    /// The claimer cannot continue.
    Failed(Failure),
    /// The worker is deregistered.
    Deregistered,
}

impl From<Failure> for FromClaimer {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Why nothing is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// A line for people.
    pub line: String,
    /// Whether a server answers, but cannot record; otherwise there is no session.
    pub answers: bool,
}

/// The jobs of one unit.
#[derive(Debug, Serialize, Deserialize)]
pub struct Claimed {
    /// The unit.
    pub unit: Unit,
    /// Its jobs.
    pub jobs: Vec<ClaimedJob>,
}

/// A claimed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedJob {
    /// Its id.
    pub id: u64,
    /// Where its payload begins in the file.
    pub offset: u64,
    /// Bytes of its payload.
    pub length: u64,
    /// Whether the payload is complete; otherwise a part is missing in the tables.
    pub is_whole: bool,
}

/// To the claimer. All but [`Self::Stop`] name their worker, because the claimer may have registered a new one since.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToClaimer {
    /// A part of the output of this worker's job that is to be kept. All parts come before its outcome.
    Output(u64, u64, OutputPart),
    /// Outcomes for the next turn. If an outcome has the same unit as the last one, it continues that.
    Ended(u64, Vec<EndedUnit>),
    /// Take a turn.
    Turn {
        /// The worker's number.
        worker: u64,
        /// How many jobs it should claim.
        want: u32,
        /// Whether to wait until something is due. Only if nothing runs, so that there is no outcome to record meanwhile.
        waits: bool,
        /// Whether nothing runs, and no outcome is left for another turn.
        is_last: bool,
        /// Jobs done and attempts failed since the last turn.
        counts: (u64, u64),
    },
    /// Stop waiting for something to be due, and deleting what is too old.
    Stop,
    /// Record the last outcomes, and deregister the worker. Nothing runs any more.
    Deregister {
        /// The worker's number.
        worker: u64,
        /// As in [`Self::Turn`].
        counts: (u64, u64),
    },
}

impl ToClaimer {
    /// Whether the worker is to end soon.
    pub fn is_about_the_end(&self) -> bool {
        matches!(self, Self::Stop | Self::Deregister { .. })
    }

    /// Whether the message is for this worker, and not for an earlier one that was lost.
    pub fn is_for(&self, number: u64) -> bool {
        match self {
            Self::Output(worker, ..)
            | Self::Ended(worker, _)
            | Self::Turn { worker, .. }
            | Self::Deregister { worker, .. } => *worker == number,
            Self::Stop => true,
        }
    }
}
