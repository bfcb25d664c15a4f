//! `dblock cron pause`, `resume` and `trigger`.

use std::ffi::CStr;
use std::thread::sleep;
use std::time::Duration;

use nix::unistd::getpid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::exit::{Ending, Failure};
use crate::base::log::{Level, Log};
use crate::base::user::local_user;
use crate::commands::inquiry::ask_server_reached_by;
use crate::commands::print_done;
use crate::cron::{self, DaemonFacts};
use crate::db::{Fault, Session};
use crate::isolated::query::{self, Limits};
use crate::lock::{new_id, own_host};
use crate::schema::Tables;
use crate::settings;
use crate::settings::cli::CommandLine;
use crate::settings::cron::OfCronJob;

/// Limit for everything, as a multiple of the connect timeout.
const WHOLE: u32 = 3;

/// Pause before another try after a conflict with another transaction.
const CONFLICT_PAUSE: Duration = Duration::from_millis(20);

/// Pauses a job, and returns dblock's exit.
///
/// # Errors
/// Why it could not be paused.
pub fn pause(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_job, log) = settings::cron::of_job(command_line)?;
    let name = &of_job.name;
    change(
        ("dblock cron pause", c"dblock-pause"),
        &of_job,
        log,
        |tables, session| cron::pause(name, tables, session),
    )?;
    print_done(log, format_args!("paused {name}"));
    Ok(Ending::Code(0))
}

/// Resumes a job, and returns dblock's exit.
///
/// # Errors
/// Why it could not be resumed.
pub fn resume(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_job, log) = settings::cron::of_job(command_line)?;
    let (name, id) = (&of_job.name, new_id()?);
    let facts = DaemonFacts {
        id: id.clone(),
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        slots: 0,
    };
    let skipped = change(
        ("dblock cron resume", c"dblock-resume"),
        &of_job,
        log,
        |tables, session| cron::resume(name, &facts, &id, tables, session),
    )?;
    let ticks = match &*skipped.to_string() {
        "1" => "1 tick was skipped".to_owned(),
        many => format!("{many} ticks were skipped"),
    };
    print_done(log, format_args!("resumed {name}; {ticks}"));
    Ok(Ending::Code(0))
}

/// Has a job run once more, and returns dblock's exit.
///
/// # Errors
/// Why it could not be triggered.
pub fn trigger(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (of_job, log) = settings::cron::of_job(command_line)?;
    let name = &of_job.name;
    let runners = change(
        ("dblock cron trigger", c"dblock-trigger"),
        &of_job,
        log,
        |tables, session| cron::trigger(name, tables, session),
    )?;
    if runners.daemons == 0 {
        log.warning(format_args!(
            "no dblock cron run is alive; {name} runs when one is"
        ));
    } else if runners.is_in_no_file {
        log.warning(format_args!(
            "no dblock cron run has {name} in its file any more; it does not run"
        ));
    }
    print_done(log, format_args!("triggered {name}"));
    Ok(Ending::Code(0))
}

/// Runs `work`, again after each temporary fault, and returns its answer. After such a fault `work` must have changed nothing, or be
/// repeatable.
fn change<T: Serialize + DeserializeOwned>(
    names: (&'static str, &'static CStr),
    of_job: &OfCronJob,
    log: Log,
    work: impl Fn(&Tables, &mut Session) -> Result<T, Fault>,
) -> Result<T, Failure> {
    let connect = of_job.connection.connect_timeout;
    let tables = Tables::new(&of_job.connection.database);
    let mut answer = None;
    query::ask(
        names.0,
        |link, parent| {
            ask_server_reached_by::<T>(
                names,
                &of_job.connection,
                log.shown,
                (link, parent),
                |connector, _| cron::reach(connector, &tables, true).map(Into::into),
                |asker| {
                    let done = loop {
                        let session = &mut asker.inspector.session;
                        match work(&tables, session) {
                            Err(fault @ (Fault::Conflict(_) | Fault::Interrupted(_))) => {
                                session.tell(Level::Info, &format!("{fault}; trying again"));
                                sleep(CONFLICT_PAUSE);
                            }
                            done => break done,
                        }
                    };
                    asker.report(done.map_err(|fault| tables.explain(fault))?);
                    Ok(())
                },
            )
        },
        Limits {
            connect,
            whole: Some(connect.saturating_mul(WHOLE)),
        },
        log,
        |item| answer = Some(item),
        |_| "what was found last".to_owned(),
    )?;
    let no_answer = || {
        Failure::new(
            crate::base::exit::Reason::Internal,
            "the server gave no answer",
        )
    };
    answer.ok_or_else(no_answer)
}
