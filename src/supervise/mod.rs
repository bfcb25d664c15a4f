//! Runs commands to their end, one or many: the event loop of the process that people see, with all that watches a command. It never waits
//! for a server. It changes nothing in its process that another supervisor in the same process tree could notice: a command's environment
//! is made in the command's process.

mod aside;
mod asides;
mod child;
mod command;
mod copies;
mod environment;
mod folder;
mod hook;
mod inherited;
mod leash;
mod output;
mod outputs;
mod plan;
mod poller;
mod record;
mod report;
mod runner;
mod shutdown;
mod signals;
mod started;
mod termination;

pub use aside::Aside;
pub use asides::Asides;
pub use child::{CannotRun, Child, Surroundings, check_program, program_of};
pub use command::{Cause, Command};
pub use environment::{Change, change, of_grant};
pub use hook::{Hook, wanted};
pub use inherited::was_closed;
pub use output::{Kept, Outlet, Output, OutputRound, Sink, Tail, pipe};
pub use outputs::Outputs;
pub use plan::{Plan, RunnerOf};
pub use poller::{Poller, Source};
pub use record::{LockEventKind, RunOutcome, RunRecord};
pub use report::{Report, ReportedRun};
pub use runner::Runner;
pub use signals::{Inherited, Received, Signals};
pub use started::Started;
