//! `dblock run`: acquires the lock, runs the command, releases the lock, and exits as the command did.

mod report;

use std::io::{self, IsTerminal};

use crate::base::exit::{Ending, Failure, Reason};
use crate::base::hooks::Hooks;
use crate::base::log::Log;
use crate::base::text::in_words;
use crate::lock;
use crate::run::{Conclusion, Fallback, supervise};
use crate::settings::cli::CommandLine;
use crate::settings::{self, IfUnreachable, ReportTo, Run};
use crate::supervise::{
    Asides, Inherited, Outputs, Poller, Report, ReportedRun, RunOutcome, RunRecord, Signals,
    change, of_grant, wanted,
};

/// Runs the command, reports on it if requested, and returns dblock's exit.
///
/// # Errors
/// Any failure with an exit code and an error line of its own.
pub fn run(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (run, log) = settings::run(command_line)?;
    if run.job.keep_output.is_some() {
        refuse_terminals()?;
    }
    let mut run_record = RunRecord::begin();
    if run.report == Some(ReportTo::Stdout) {
        run_record.report_output = report::own_stdout();
    }
    let signals = Signals::collect().map_err(|error| {
        let line = format!("cannot collect signals: {error}");
        Failure::new(Reason::OsRefused, line)
    })?;
    let inherited = signals.inherited();
    let exit = run_under_lock(&run, log, signals, &mut run_record);
    if run.report.is_some() || run.hooks != Hooks::default() {
        report_on(&run, log, inherited, &run_record, &exit);
    }
    exit
}

/// A command that writes to a terminal would see that dblock reads it first.
fn refuse_terminals() -> Result<(), Failure> {
    let terminals = [
        ("stdout", io::stdout().is_terminal()),
        ("stderr", io::stderr().is_terminal()),
    ];
    match terminals.iter().find(|(_, is_terminal)| *is_terminal) {
        None => Ok(()),
        Some((name, _)) => {
            let line = format!(
                "--keep-output: {name} is a terminal; redirect it to a file, or let another program read it"
            );
            Err(Failure::new(Reason::Usage, line))
        }
    }
}

/// Writes the report, and runs what is to be run at the end. None of that changes how dblock ends.
fn report_on(
    run: &Run,
    log: Log,
    inherited: Inherited,
    record: &RunRecord,
    exit: &anyhow::Result<Ending>,
) {
    let job = &run.job;
    let report = Report::of(ReportedRun {
        name: job.lock.name.to_string(),
        slot_names: &job.slot_names,
        program: job.program(),
        requested: job.started,
        record,
        end: record.summary(exit.as_ref().copied()),
        attempt: None,
        jobs: Vec::new(),
    });
    if let Some(to) = &run.report
        && let Err(error) = report::append(to, &report, record.report_output.as_ref())
    {
        let why = in_words(&error);
        log.warning(format_args!("cannot write the report to {to}: {why}"));
    }
    if run.hooks == Hooks::default() {
        return;
    }
    let tick = record.tick.as_deref();
    let mut environment = of_grant(&job.lock.name, &job.slot_names, record.grant, tick);
    environment.extend(job.scrubbed.iter().map(|&name| change(name, None)));
    let waited = Signals::collect_again(inherited).map_err(anyhow::Error::from);
    let waited = waited.and_then(|signals| {
        let mut asides = Asides::default();
        asides.add(wanted(&run.hooks, &report, &environment), &signals, log);
        Ok(asides.finish(&mut Poller::new(signals)?, &mut Outputs::<()>::new(), log)?)
    });
    if let Err(error) = waited {
        log.warning(format_args!("cannot wait: {error:#}"));
    }
}

fn run_under_lock(
    run: &Run,
    log: Log,
    signals: Signals,
    record: &mut RunRecord,
) -> anyhow::Result<Ending> {
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
