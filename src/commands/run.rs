//! `dblock run`: acquires the lock, runs the command, releases the lock, and exits as the command did.

mod report;

use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Log;
use crate::base::text::in_words;
use crate::lock;
use crate::run::{Conclusion, Fallback, supervise};
use crate::settings::cli::CommandLine;
use crate::settings::{self, IfUnreachable, ReportTo, Run};
use crate::supervise::{RunOutcome, RunRecord, Signals};

/// Runs the command, reports on it if requested, and returns dblock's exit.
///
/// # Errors
/// Any failure with an exit code and an error line of its own.
pub fn run(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (run, log) = settings::run(command_line)?;
    let mut run_record = RunRecord::begin();
    if run.report == Some(ReportTo::Stdout) {
        run_record.report_output = report::own_stdout();
    }
    let ended = run_under_lock(&run, log, &mut run_record);
    if let Some(to) = &run.report
        && let Err(error) = report::append(to, &run, &run_record, &ended)
    {
        log.warning(format_args!(
            "cannot write the report to {to}: {}",
            in_words(&error)
        ));
    }
    ended
}

fn run_under_lock(run: &Run, log: Log, record: &mut RunRecord) -> anyhow::Result<Ending> {
    let signals = Signals::collect().map_err(|error| {
        let line = format!("cannot collect signals: {error}");
        Failure::new(Reason::OsRefused, line)
    })?;
    let run_id = lock::run_id_lock()?;
    let fallback = Fallback {
        names_holders: run.reports_skip(log.shown),
        run_if_unreachable: run.if_unreachable == IfUnreachable::Run,
    };
    let conclusion = supervise(&run.job, &run_id, record, log, signals, fallback)?;
    match conclusion {
        Conclusion::Ran(ending) => Ok(ending),
        Conclusion::Taken(holder) => Ok(skip(run, log, record, &format!("is {holder}"))),
        Conclusion::AlreadyRan(already) => Ok(skip(run, log, record, &already.to_string())),
        Conclusion::Interrupted(signal) => Ok(Ending::Signal(signal as i32)),
    }
}

/// Logs why the command was not run.
fn skip(run: &Run, log: Log, record: &mut RunRecord, why: &str) -> Ending {
    let line = format!("{} {why}; not run", run.job.lock.name);
    log.say(run.level_of_skip(), &line);
    record.outcome = RunOutcome::Skipped;
    record.message = Some(line);
    Ending::Code(run.conflict_exit_code)
}
