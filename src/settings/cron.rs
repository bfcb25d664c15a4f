//! The meaning of `dblock cron`'s options.

use std::path::PathBuf;

use super::cli::CommandLine;
use super::cli::cron as options;
use super::sources::{Given, Origin};
use super::{
    Common, argument, connection, own, password, read_sources, run as of_run, value, with_common,
};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Log;
use crate::crond::Spec;
use crate::history::KeepOutput;

/// The most times that are shown for a job.
const MOST_TIMES: usize = 1000;

/// The settings of `dblock cron check`.
#[derive(Debug)]
pub struct CronCheck {
    /// The crontab; `-` is stdin.
    pub file: PathBuf,
    /// How many times to show for each job.
    pub times: usize,
}

/// Reads the settings of `dblock cron run`, and what is logged.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn run(mut line: CommandLine) -> Result<(Spec, Log), Failure> {
    let file = PathBuf::from(line.arguments.pop().unwrap_or_default());
    if file.as_os_str() == "-" {
        let line = "dblock cron run reads its crontab again upon SIGHUP, which stdin cannot be; name a file";
        return Err(Failure::new(Reason::Usage, line));
    }
    let (mut sources, log) = read_sources(line.settings)?;
    let slots = own(&sources, &options::run::JOBS, value::commands)?;
    let grace = own(&sources, &options::run::GRACE, value::duration)?;
    let keep_output = own(&sources, &options::run::KEEP_OUTPUT, KeepOutput::parse)?;
    let variables = of_run::variables_of_the_server(&sources);
    let scrubbed = of_run::scrubbed(&mut sources);
    let hooks = of_run::hooks(&mut sources)?;
    let connection = connection(&mut sources, log)?;
    password::check_that_it_stays(&connection.password, "dblock cron run", "for each run")?;
    let spec = Spec {
        file,
        slots,
        grace,
        keep_output,
        hooks,
        variables,
        scrubbed,
        connection,
    };
    Ok((spec, log))
}

/// Reads the job of `dblock cron pause`, `resume` and `trigger`.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn of_job(mut line: CommandLine) -> Result<(String, Common), Failure> {
    let name = argument("NAME", line.arguments.pop(), super::lock_name)?;
    with_common(line.settings, |_| Ok(name.to_string()))
}

/// Reads the settings of `dblock cron check`.
///
/// # Errors
/// [`Reason::Usage`](crate::base::exit::Reason::Usage) names the option with a malformed value.
pub fn check(mut line: CommandLine) -> Result<CronCheck, Failure> {
    // This command reads no option files.
    let default = options::check::NEXT.default.unwrap_or_default();
    let next = line.settings.pop().map_or(default.into(), |(_, next)| next);
    Ok(CronCheck {
        times: Given::new("next", next, Origin::Flag)
            .read(|text| value::number(text, 0, MOST_TIMES))?,
        file: line.arguments.pop().unwrap_or_default().into(),
    })
}
