//! `dblock queue put`: puts jobs into a queue. A separate process reads the payloads and has the session; this one prints the ids.

mod feeder;
mod printer;
mod tally;

use std::io;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::records::check_files;
use crate::base::exit::{Ending, Failure, Reason};
use crate::commands::output::cannot_write;
use crate::isolated::process::{end, fork_isolated};
use crate::isolated::query::Message;
use crate::queue::Put;
use crate::settings;
use crate::settings::cli::CommandLine;
use crate::settings::queue::Source;
use crate::supervise::{Signals, was_closed};
use feeder::feed;
use printer::{Finished, Printer};

/// The result for some payloads, or a change of the session.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Fed {
    /// The jobs are put.
    Put(Put),
    /// Nothing was put: this job has the key.
    HasKey(u64),
    /// The server has lost commits, so it is unknown which jobs are put.
    Forgotten,
    /// It is unknown whether this many jobs are put.
    InDoubt(u64),
    /// A try has failed: the time limit for further tries begins.
    Seeking,
    /// A further try succeeded.
    Found,
    /// There are no more payloads.
    All,
}

/// Puts the jobs, prints their ids, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn put(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (put, common) = settings::queue::put(command_line)?;
    if put.source.reads_stdin() && was_closed(libc::STDIN_FILENO) {
        let line = "cannot read stdin: it is closed";
        return Err(Failure::new(Reason::Usage, line).into());
    }
    if let Source::Files(files) = &put.source {
        check_files(files)?;
    }
    if was_closed(libc::STDOUT_FILENO) {
        let failure = cannot_write(&Errno::EBADF.into());
        return Err(
            Failure::new(failure.reason, format!("{}; nothing is put", failure.line)).into(),
        );
    }
    let refused = |error: io::Error| {
        Failure::new(
            Reason::OsRefused,
            format!("cannot wait for signals: {error}"),
        )
    };
    let signals = Signals::collect().map_err(refused)?;
    let (pid, link) = fork_isolated(
        |link, parent| feed(&put, &common, &link, parent),
        Message::Failed,
    )?;
    let mut printer = Printer::new(&put, &common, link, signals);
    let outcome = printer.run().map_err(refused);
    end(pid);
    printer.hear_the_rest();
    match outcome? {
        Finished::All => Ok(Ending::Code(0)),
        Finished::Signal(signal) => {
            // Without a session nothing has begun, so there is nothing to report.
            if printer.has_session {
                let put = printer.tally.what_is_put_if_any();
                common.log.error(format_args!("stopped by a signal{put}"));
            }
            Ok(Ending::Signal(signal))
        }
        Finished::Failed(failure) => {
            let whole = format!("{}{}", failure.line, printer.tally.what_is_put());
            Err(Failure::new(failure.reason, whole).into())
        }
        Finished::Unwritten(failure) => {
            let whole = format!("{}{}", failure.line, printer.tally.what_is_put_if_any());
            Err(Failure::new(failure.reason, whole).into())
        }
    }
}

impl Source {
    fn reads_stdin(&self) -> bool {
        match self {
            Self::Arguments(_) => false,
            Self::Files(files) => files.iter().any(|file| file.as_os_str() == "-"),
            Self::Stdin | Self::Records(_) => true,
        }
    }
}
