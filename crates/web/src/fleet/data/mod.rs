//! The answers of dblock's commands, as their schemas in docs/ have them. A field that no page shows is not here.

mod cron_list;
mod history;
mod queue_list;
mod queue_status;
mod status;

pub use cron_list::CronList;
pub use history::{Ended, History, Run};
pub use queue_list::QueueList;
pub use queue_status::QueueStatus;
pub use status::Status;
