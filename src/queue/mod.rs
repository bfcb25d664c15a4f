//! The queue: jobs in tables, claimed by workers. Its rules, which are pure, and its SQL; it knows no process.
//!
//! A job has a row in the wide table of jobs, and one in the narrow table of its state: due, delayed, running, dead or done. Jobs that
//! were put together may share the latter: a block, which is claimed and given back as a whole.

mod delay;
mod opening;
mod queues;
mod turn;
mod wake;
mod worker;

pub use delay::retry_delay;
pub use opening::{Opened, no_queue, open};
pub use queues::{Claim, FindQueue, Queue};
pub use turn::{AskRunning, AskTurn, Ended, LONGEST_ERROR, Outcome, Standing, Turn, TurnOver, Unit, Want};
pub use wake::wake_lock;
pub use worker::{
    AskCandidates, AskShards, AwaitHead, BlockJob, Idle, LookOrSleep, ReadBlock, ReadPart,
    Register, Renew, WorkerFacts, leave, promote, rescue,
};
