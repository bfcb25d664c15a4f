//! `dblock run`: take the lock, run the command, give the lock back, end as the command ended.

mod record;

use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Log;
use crate::base::text::in_words;
use crate::keeper::{self, Work};
use crate::lock;
use crate::settings::cli::CommandLine;
use crate::settings::{self, IfUnreachable, ReportTo, Run};
use crate::supervise::{Asked, History, Outcome, Signals, Supervisor};

/// Runs it, reports on it where that is asked for, and returns how dblock is to end.
///
/// # Errors
/// Everything that has an exit code of its own, and a line.
pub fn run(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (run, log) = settings::run(command_line)?;
    let mut history = History::begin();
    if run.report == Some(ReportTo::Stdout) {
        history.kept = record::own_stdout();
    }
    let ended = run_under_lock(&run, log, &mut history);
    if let Some(to) = &run.report
        && let Err(error) = record::append(to, &run, &history, &ended)
    {
        log.warning(format_args!(
            "cannot write the report to {to}: {}",
            in_words(&error)
        ));
    }
    ended
}

fn run_under_lock(run: &Run, log: Log, history: &mut History) -> anyhow::Result<Ending> {
    let refused = |error| {
        Failure::new(
            Reason::OsRefused,
            format!("cannot collect signals: {error}"),
        )
    };
    let signals = Signals::collect().map_err(refused)?;

    let mark = lock::mark()?;
    let tells_of_skip = run.tells_of_skip(log.shown);
    let (keeper, link) =
        keeper::fork_off(Work::Acquire(run.job.task(&mark, tells_of_skip, log.shown)))?;
    let mut supervisor = Supervisor::new(&run.job, &mark, history, log, signals, keeper, link)?;
    match supervisor.wait_for_lock()? {
        Asked::Held(grant, lease) => supervisor.run_command(Some((grant, lease))),
        Asked::Taken(holder) => {
            let told = format!("{} is {holder}; not run", run.job.lock.name);
            log.say(run.level_of_skip(), &told);
            history.outcome = Outcome::Skipped;
            history.message = Some(told);
            Ok(Ending::Code(run.conflict_exit_code))
        }
        Asked::Unreachable(failure) if run.if_unreachable == IfUnreachable::Run => {
            let told = format!("{failure}; running without the lock");
            log.error(&told);
            supervisor.history.message = Some(told);
            let (keeper, link) = keeper::fork_off(Work::GuardOnly)?;
            supervisor.set_keeper(keeper, link);
            supervisor.run_command(None)
        }
        Asked::Unreachable(failure) => Err(failure.into()),
        Asked::Ended(signal) => {
            history.outcome = Outcome::Stopped;
            Ok(Ending::Signal(signal as i32))
        }
    }
}
