//! `dblock queue cancel`: deletes jobs that are waiting or dead. Running jobs will not run again.

use super::{Worst, find, jobs, long_question};
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
    let worst = Worst::new();
    long_question("dblock queue cancel", For::Writing, &common).ask(
        |asker| {
            let queue = find(name, asker)?;
            for &id in ids {
                let changed =
                    asker.act(|tables, session| cancel_job(id, &queue, tables, session))?;
                asker.answers.send((id, changed));
            }
            Ok(())
        },
        |(id, changed): (u64, Changed)| match changed {
            Changed::Deleted(_) => deleted += 1,
            Changed::Canceled => log.warning(format_args!(
                "job {id} of {name} is running: its command goes on to its end, but is not run again"
            )),
            Changed::Not(state) => {
                log.error(format_args!("job {id} of {name} is {}", state.word()));
                worst.missing();
            }
            Changed::Unknown | Changed::Retried(_) => {
                log.error(format_args!("{name} has no job {id}"));
                worst.missing();
            }
        },
    )?;
    if deleted > 0 {
        print_done(log, format_args!("deleted {}", jobs(deleted)));
    }
    Ok(worst.ending())
}
