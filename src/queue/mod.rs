//! The queue: jobs in tables, claimed by workers. This module has the rules, which are pure, and the SQL. It knows nothing of processes.
//!
//! A job has a row in the wide table of jobs, and one in the narrow table of its state: due, delayed, running, dead or done. Jobs that were
//! put together may share their narrow row: a block, which is claimed and returned as a whole.

mod change;
mod delay;
mod delete;
mod due;
mod entries;
mod exchange;
mod idle;
mod jobs;
mod list;
mod manage;
mod marks;
#[cfg(test)]
mod model;
mod narrow;
mod opening;
mod payloads;
mod prune;
mod put;
mod queues;
mod reach;
mod rescue;
mod show;
mod status;
mod turn;
mod wake;
mod worker;

pub use change::{Changed, cancel, retry, retry_dead};
pub use delay::retry_delay;
pub use delete::{delete, delete_worker};
pub use due::{ask_candidates, ask_shards, promote};
pub use exchange::{Exchange, TurnAsk, Verdict};
pub use idle::{Idle, await_head, leave_head, look_or_sleep};
pub use jobs::{Due, JobState, LONGEST_PAYLOAD, MOST_JOBS, Traits, WORKER_DIED};
pub use list::{Listed, list};
pub use manage::{Created, create, pause};
pub use marks::Marks;
pub use opening::{Opened, open_for_work};
pub use payloads::{Stored, read_block, read_piece};
pub use prune::{Pruned, prune, prune_records};
pub use put::{MOST_BYTES, Outcome, Put, Putter, ask_packet};
pub use queues::{Claim, Properties, Queue, find_queue};
pub use reach::{For, being_deleted, missing_queue, no_such_queue, open, reach};
pub use rescue::{Rescued, rescue};
pub use show::{Details, show};
pub use status::{
    Count, ListedWorker, MINUTES, Scope, StatusItem, Summary, Worker, ask_due, status,
};
pub use turn::{EndedUnit, JobEnd, LONGEST_ERROR, Turn, TurnAnswer, Unit, Want, ask_running};
pub use wake::wake_lock;
pub use worker::{WorkerFacts, deregister, find_registration, register, renew};
