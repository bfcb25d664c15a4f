//! `dblock run`: take the lock, run the command, give the lock back, end as the command ended.

mod record;

use crate::cli::RunArgs;
use crate::exit::{Ending, Failure, Reason};
use crate::keeper::{self, Task, Work};
use crate::lock;
use crate::report::{Report, in_words};
use crate::settings::{self, IfUnreachable, ReportTo, Run};
use crate::supervise::{Asked, History, Outcome, Signals, Supervisor};

/// Runs it, reports on it where that is asked for, and returns how dblock is to end.
///
/// # Errors
/// Everything that has an exit code of its own, and a line.
pub fn run(args: RunArgs) -> anyhow::Result<Ending> {
    let (run, report) = settings::run(args)?;
    let mut history = History::begin();
    if run.report == Some(ReportTo::Stdout) {
        history.kept = record::own_stdout();
    }
    let ended = run_under_lock(&run, report, &mut history);
    if let Some(to) = &run.report
        && let Err(error) = record::append(to, &run, &history, &ended)
    {
        report.warning(format_args!(
            "cannot write the report to {to}: {}",
            in_words(&error)
        ));
    }
    ended
}

fn run_under_lock(run: &Run, report: Report, history: &mut History) -> anyhow::Result<Ending> {
    let refused = |error| {
        Failure::new(
            Reason::OsRefused,
            format!("cannot collect signals: {error}"),
        )
    };
    let signals = Signals::collect().map_err(refused)?;

    let mark = lock::mark()?;
    let (keeper, link) = keeper::fork_off(Work::Acquire(Task::new(run, &mark, report.shown)))?;
    let mut supervisor = Supervisor::new(run, &mark, history, report, signals, keeper, link)?;
    match supervisor.wait_for_lock()? {
        Asked::Held(grant, lease) => supervisor.run_command(Some((grant, lease))),
        Asked::Taken(holder) => {
            let told = format!("{} is {holder}; not run", run.name);
            report.say(run.level_of_skip(), &told);
            history.outcome = Outcome::Skipped;
            history.message = Some(told);
            Ok(Ending::Code(run.conflict_exit_code))
        }
        Asked::Unreachable(failure) if run.if_unreachable == IfUnreachable::Run => {
            let told = format!("{failure}; running without the lock");
            report.error(&told);
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
