//! `dblock run`: take the lock, run the command, give the lock back, end as the command ended.

use crate::cli::RunArgs;
use crate::exit::{Ending, Failure, Reason};
use crate::keeper::{self, Task, Work};
use crate::lock;
use crate::report::Level;
use crate::settings::{self, IfUnreachable};
use crate::supervise::{Asked, Signals, Supervisor};

/// Runs it, and returns how dblock is to end.
///
/// # Errors
/// Everything that has an exit code of its own, and a line.
pub fn run(args: RunArgs) -> anyhow::Result<Ending> {
    let (run, report) = settings::run(args)?;
    let refused = |error| {
        Failure::new(
            Reason::OsRefused,
            format!("cannot collect signals: {error}"),
        )
    };
    let signals = Signals::collect().map_err(refused)?;

    let mark = lock::mark()?;
    let (keeper, link) = keeper::fork_off(Work::Acquire(Task::new(&run, &mark, report.shown)))?;
    let mut supervisor = Supervisor::new(&run, &mark, report, signals, keeper, link)?;
    match supervisor.wait_for_lock()? {
        Asked::Held(grant, lease) => supervisor.run_command(Some((grant, lease))),
        Asked::Taken(holder) => {
            let level = if run.conflict_exit_code == 0 {
                Level::Info
            } else {
                Level::Warning
            };
            report.say(level, format_args!("{} is {holder}; not run", run.name));
            Ok(Ending::Code(run.conflict_exit_code))
        }
        Asked::Unreachable(failure) if run.if_unreachable == IfUnreachable::Run => {
            report.error(format_args!("{failure}; running without the lock"));
            let (keeper, link) = keeper::fork_off(Work::GuardOnly)?;
            supervisor.set_keeper(keeper, link);
            supervisor.run_command(None)
        }
        Asked::Unreachable(failure) => Err(failure.into()),
        Asked::Ended(signal) => Ok(Ending::Signal(signal as i32)),
    }
}
