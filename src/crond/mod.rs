//! `dblock cron run`: the daemon of the fleet's crontab. Its coordinator has the file and the commands; its scheduler, a process of its
//! own, has the session, and finds out which ticks are due and whose they are. The coordinator knows no SQL and never waits for a server.

mod attempt;
mod coordinator;
mod environment;
mod mail;
mod message;
mod notify;
mod output;
mod scheduler;

use std::path::PathBuf;
use std::time::Duration;

pub use coordinator::run;

use crate::cron::{Definition, Job, hash};
use crate::db::ConnectOptions;

/// What a daemon is asked to do.
#[derive(Debug)]
pub struct Spec {
    /// The crontab.
    pub file: PathBuf,
    /// How many commands run at once, from 1 on.
    pub slots: u32,
    /// How long after the first signal that asks it to end its commands may go on.
    pub grace: Duration,
    /// Variables that tell of the server, which a sendmail never gets.
    pub variables: Vec<&'static str>,
    /// Those of them that the commands do not get.
    pub scrubbed: Vec<&'static str>,
    /// The server.
    pub connection: ConnectOptions,
}

/// What others are told of a job; its command is not.
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

/// The program that the history names, without its folder: the shell's, where no other can be told.
fn program(job: &Job) -> String {
    crate::cron::program(&job.command).unwrap_or_else(|| {
        let shell = environment::shell(job);
        shell.rsplit('/').next().unwrap_or_default().to_owned()
    })
}
