//! Runs commands to their end, one or many: the event loop of the process that people see, with all that watches a command. It never waits
//! for a server. It changes nothing in its process that another supervisor in the same process tree could notice: a command's environment is
//! made in the command's process.

mod child;
mod command;
mod environment;
mod grace;
mod inherited;
mod leash;
mod output;
mod outputs;
mod plan;
mod poller;
mod record;
mod runner;
mod shutdown;
mod signals;
mod started;
mod termination;

pub use child::{Child, Surroundings, check_program, program_of};
pub use command::{Cause, Command};
pub use environment::{Change, change, of_grant};
pub use inherited::{restore_limit_and_dispositions, was_closed};
pub use output::{Kept, Outlet, Output, Round, Sink, Tail, pipe};
pub use plan::{Plan, RunnerOf};
pub use poller::Poller;
pub use record::{LockEvent, LockEventKind, RunOutcome, RunRecord, Summary};
pub use runner::Runner;
pub use signals::{Received, Signals};
pub use started::Started;
