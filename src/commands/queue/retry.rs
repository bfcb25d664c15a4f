//! `dblock queue retry`: makes dead and delayed jobs due now.

use super::{Question, Worst, again, find, jobs};
use crate::base::exit::Ending;
use crate::commands::print_done;
use crate::queue::{Changed, For, State, retry as retry_job, retry_dead};
use crate::settings;
use crate::settings::cli::CommandLine;
use crate::settings::queue::Jobs;

/// Retries the jobs, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn retry(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_jobs, log) = settings::queue::of_jobs(command_line)?;
    let name = &of_jobs.queue;
    let question = Question {
        names: ("dblock queue retry", c"dblock-retry"),
        what_for: For::Writing,
        connection: &of_jobs.connection,
        is_long: true,
        log,
    };
    let mut retried = 0;
    let mut due = Vec::new();
    let worst = Worst::new();
    match &of_jobs.jobs {
        Jobs::Dead => {
            question.ask(
                |asker, tables| {
                    let queue = find(name, tables, &mut asker.inspector.session)?;
                    let mut count = 0;
                    again(&mut asker.inspector.session, |session| {
                        retry_dead(&queue, tables, session, |jobs| count += jobs)
                    })?;
                    asker.report(count);
                    Ok(())
                },
                |jobs: u64| retried += jobs,
            )?;
        }
        Jobs::Ids(ids) => {
            question.ask(
                |asker, tables| {
                    let queue = find(name, tables, &mut asker.inspector.session)?;
                    for &id in ids {
                        let changed = again(&mut asker.inspector.session, |session| {
                            retry_job(id, &queue, tables, session)
                        })?;
                        asker.report((id, changed));
                    }
                    Ok(())
                },
                |(id, changed): (u64, Changed)| match changed {
                    Changed::Retried(_) => retried += 1,
                    Changed::Not(State::Due) => {
                        due.push(id);
                    }
                    Changed::Not(State::Running) => {
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
