//! The answers of dblock's commands, as their schemas in docs/ have them. A field that no page shows is not here.

mod cron_list;
mod ending;
mod history;
mod output;
mod queue_list;
mod queue_status;
mod status;

pub use cron_list::{CronList, Daemon, Job, LastRun};
pub use ending::{Ending, Kind};
pub use history::{Ended, History, Run};
pub use output::Output;
pub use queue_list::{DeadJob, QueueList};
pub use queue_status::{Queue, QueueStatus};
pub use status::{Holder, Lock, Process, Status};
