//! `dblock queue retry`: makes dead and delayed jobs due now.

use super::{change_each, find, jobs, long_question};
use crate::base::exit::Ending;
use crate::commands::output::print_done;
use crate::queue::{Changed, For, JobState, retry as retry_job, retry_dead};
use crate::settings;
use crate::settings::cli::CommandLine;
use crate::settings::queue::Jobs;

/// Retries the jobs, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn retry(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_jobs, common) = settings::queue::of_jobs(command_line)?;
    let (name, log) = (&of_jobs.queue, common.log);
    let question = long_question("dblock queue retry", For::Writing, &common);
    let mut retried = 0;
    let mut due = Vec::new();
    let ending = match &of_jobs.jobs {
        Jobs::Dead => {
            retried = question.ask_one(|asker| {
                let queue = find(name, asker)?;
                let mut count = 0;
                asker.act(|tables, session| {
                    retry_dead(&queue, tables, session, |jobs| count += jobs)
                })?;
                Ok(count)
            })?;
            Ending::Code(0)
        }
        Jobs::Ids(ids) => change_each(&question, (name, ids), retry_job, log, |id, changed| {
            match changed {
                Changed::Retried(_) => retried += 1,
                Changed::Not(JobState::Due) => due.push(id),
                _ => return false,
            }
            true
        })?,
    };
    for id in due {
        print_done(log, format_args!("job {id} of {name} is due already"));
    }
    if retried > 0 || of_jobs.jobs == Jobs::Dead {
        print_done(log, format_args!("{} due again", jobs(retried)));
    }
    Ok(ending)
}
