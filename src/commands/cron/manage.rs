//! `dblock cron pause`, `resume` and `trigger`: what people do to a job.

use nix::unistd::getpid;

use super::question;
use crate::base::exit::Ending;
use crate::base::user::local_user;
use crate::commands::output::print_done;
use crate::cron::{self, DaemonFacts};
use crate::lock::{new_id, own_host};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Pauses a job, and returns dblock's exit.
///
/// # Errors
/// Why it could not be paused.
pub fn pause(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (name, common) = settings::cron::of_job(command_line)?;
    question("dblock cron pause", true, &common)
        .ask_one(|asker| asker.act(|tables, session| cron::pause(&name, tables, session)))?;
    print_done(common.log, format_args!("paused {name}"));
    Ok(Ending::Code(0))
}

/// Resumes a job, and returns dblock's exit.
///
/// # Errors
/// Why it could not be resumed.
pub fn resume(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (name, common) = settings::cron::of_job(command_line)?;
    let id = new_id()?;
    let facts = DaemonFacts {
        id: id.clone(),
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        slots: 0,
    };
    let skipped = question("dblock cron resume", true, &common).ask_one(|asker| {
        asker.act(|tables, session| cron::resume(&name, &facts, &id, tables, session))
    })?;
    let Some(skipped) = skipped else {
        print_done(common.log, format_args!("{name} is not paused"));
        return Ok(Ending::Code(0));
    };
    let ticks = match &*skipped.to_string() {
        "1" => "1 tick was skipped".to_owned(),
        many => format!("{many} ticks were skipped"),
    };
    print_done(common.log, format_args!("resumed {name}; {ticks}"));
    Ok(Ending::Code(0))
}

/// Has a job run once more, and returns dblock's exit.
///
/// # Errors
/// Why it could not be triggered.
pub fn trigger(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (name, common) = settings::cron::of_job(command_line)?;
    let runners = question("dblock cron trigger", true, &common)
        .ask_one(|asker| asker.act(|tables, session| cron::trigger(&name, tables, session)))?;
    let log = common.log;
    if runners.daemons == 0 {
        log.warning(format_args!(
            "no dblock cron run is alive; {name} runs when one is"
        ));
    } else if runners.is_in_no_file {
        log.warning(format_args!(
            "no dblock cron run has {name} in its file any more; it does not run"
        ));
    }
    if runners.was_triggered {
        print_done(
            log,
            format_args!("{name} was triggered before, and has not started since"),
        );
    } else {
        print_done(log, format_args!("triggered {name}"));
    }
    Ok(Ending::Code(0))
}
