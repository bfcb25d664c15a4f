//! `dblock cron run`: the daemon of the fleet's crontab. Its coordinator has the file and the commands. Its scheduler, a separate
//! process, has the session: it decides which ticks are due, and for which host, and holds the locks of all that run. The coordinator
//! knows no SQL and never waits for a server.

mod command;
mod coordinator;
mod environment;
mod mail;
mod message;
mod notify;
mod scheduler;

use std::path::PathBuf;
use std::time::Duration;

pub use coordinator::run;
pub use mail::SENDMAIL_VARIABLE;

use crate::base::hooks::Hooks;
use crate::cron::{Definition, Job, hash};
use crate::db::ConnectOptions;
use crate::history::KeepOutput;

/// The settings of a daemon.
#[derive(Debug)]
pub struct Spec {
    /// The crontab.
    pub file: PathBuf,
    /// The most commands that run at once, at least 1.
    pub slots: u32,
    /// How long commands may run on after the first signal that asks the daemon to end.
    pub grace: Duration,
    /// Of which attempts the output is kept, unless the job says otherwise.
    pub keep_output: KeepOutput,
    /// What to run at the end of each attempt, unless the job says otherwise.
    pub hooks: Hooks,
    /// Variables about the server, which sendmail never gets.
    pub variables: Vec<&'static str>,
    /// Variables that the commands must not see.
    pub scrubbed: Vec<&'static str>,
    /// The servers, and the login.
    pub connection: ConnectOptions,
}

/// A job as other hosts see it; without its command.
fn definition(job: &Job) -> Definition {
    let (name, options) = (job.name.to_string(), job.options.described());
    let zone = job.schedule.zone().name();
    let mut texts = vec![
        &*name,
        &*job.fields,
        zone,
        &*job.command,
        &*job.input,
        &*options,
    ];
    for (variable, value) in job.variables.iter() {
        texts.extend([&**variable, &**value]);
    }
    Definition {
        schedule: job.fields.clone(),
        zone: zone.to_owned(),
        hash: hash(&texts),
        jitter: job
            .options
            .jitter
            .as_millis()
            .div_ceil(1000)
            .try_into()
            .unwrap_or(u64::MAX),
        name,
    }
}

/// The program for the history, without its folder: the shell, if the command's is unknown.
fn program(job: &Job) -> String {
    crate::cron::program(&job.command).unwrap_or_else(|| {
        let shell = environment::shell(job);
        shell.rsplit('/').next().unwrap_or_default().to_owned()
    })
}
