//! `dblock queue cancel`: deletes jobs that are waiting or dead. Running jobs will not run again.

use super::{change_each, jobs, long_question};
use crate::base::exit::Ending;
use crate::commands::output::print_done;
use crate::queue::{Changed, For, cancel as cancel_job};
use crate::settings;
use crate::settings::cli::CommandLine;
use crate::settings::queue::Jobs;

/// Cancels the jobs, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn cancel(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_jobs, common) = settings::queue::of_jobs(command_line)?;
    let (name, log) = (&of_jobs.queue, common.log);
    let ids = match &of_jobs.jobs {
        Jobs::Ids(ids) => &ids[..],
        Jobs::Dead => &[],
    };
    let mut deleted = 0;
    let question = long_question("dblock queue cancel", For::Writing, &common);
    let ending = change_each(&question, (name, ids), cancel_job, log, |id, changed| {
        match changed {
            Changed::Deleted(_) => deleted += 1,
            Changed::Canceled => log.warning(format_args!(
                "job {id} of {name} is running: its command goes on to its end, but is not run again"
            )),
            _ => return false,
        }
        true
    })?;
    if deleted > 0 {
        print_done(log, format_args!("deleted {}", jobs(deleted)));
    }
    Ok(ending)
}
