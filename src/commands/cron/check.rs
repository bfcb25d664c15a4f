//! `dblock cron check`: reads a crontab, and shows its mistakes, or when its jobs are due.

use std::fmt::Write;
use std::iter::successors;

use jiff::Timestamp;

use crate::base::exit::{Ending, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::printable;
use crate::commands::output::print;
use crate::cron::{Job, load};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Prints the result, and returns dblock's exit.
///
/// # Errors
/// What is wrong with the crontab.
pub fn check(command_line: CommandLine) -> anyhow::Result<Ending> {
    let check = settings::cron::check(command_line)?;
    let crontab = match load(&check.file) {
        Ok(crontab) => crontab,
        Err(lines) => {
            let log = Log {
                shown: Level::Error,
            };
            for line in lines {
                log.error(line);
            }
            return Ok(Ending::Code(Reason::Configuration.code()));
        }
    };
    let now = Timestamp::now();
    for job in &crontab.jobs {
        print(&shown(job, now, check.times))?;
    }
    Ok(Ending::Code(0))
}

/// The job and its next ticks, one in each line.
fn shown(job: &Job, now: Timestamp, times: usize) -> String {
    let (name, fields) = (job.name.to_string(), &job.fields);
    let mut text = printable(&format!("{name} (line {}): {fields}", job.line));
    text.push('\n');
    let zone = job.schedule.zone().name();
    let next = |after| job.schedule.next_after(after);
    let first = (times > 0).then(|| next(now));
    if first == Some(None) {
        text.push_str("  never\n");
    }
    let ticks = successors(first.flatten(), |tick| next(tick.at()));
    for tick in ticks.take(times) {
        let _ = writeln!(text, "  {tick} {zone}");
    }
    text
}
