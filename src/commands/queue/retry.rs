//! `dblock queue retry`: makes dead and delayed jobs due now.

use super::{Worst, find, jobs, long_question};
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
    let worst = Worst::new();
    match &of_jobs.jobs {
        Jobs::Dead => {
            retried = question.ask_one(|asker| {
                let queue = find(name, asker)?;
                let mut count = 0;
                asker.act(|tables, session| {
                    retry_dead(&queue, tables, session, |jobs| count += jobs)
                })?;
                Ok(count)
            })?;
        }
        Jobs::Ids(ids) => {
            question.ask(
                |asker| {
                    let queue = find(name, asker)?;
                    for &id in ids {
                        let changed =
                            asker.act(|tables, session| retry_job(id, &queue, tables, session))?;
                        asker.answers.send((id, changed));
                    }
                    Ok(())
                },
                |(id, changed): (u64, Changed)| match changed {
                    Changed::Retried(_) => retried += 1,
                    Changed::Not(JobState::Due) => {
                        due.push(id);
                    }
                    Changed::Not(JobState::Running) => {
                        log.warning(format_args!(
                            "job {id} of {name} is running; it is left alone"
                        ));
                        worst.later();
                    }
                    Changed::Not(state) => {
                        log.error(format_args!("job {id} of {name} is {}", state.word()));
                        worst.missing();
                    }
                    Changed::Unknown | Changed::Deleted(_) | Changed::Canceled => {
                        log.error(format_args!("{name} has no job {id}"));
                        worst.missing();
                    }
                },
            )?;
        }
    }
    for id in due {
        print_done(log, format_args!("job {id} of {name} is due already"));
    }
    if retried > 0 || of_jobs.jobs == Jobs::Dead {
        print_done(log, format_args!("{} due again", jobs(retried)));
    }
    Ok(worst.ending())
}
