//! The report of a run (`--report`): one line of JSON, written whole, which never changes how dblock ends.
//! `docs/report.schema.json` describes it.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread::sleep;
use std::time::{Duration, UNIX_EPOCH};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::{gethostname, getpid};
use serde::Serialize;

use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::base::log::write_at_once;
use crate::base::text::{json_printable, moment, seconds};
use crate::base::user::local_user;
use crate::commands::output::json_value;
use crate::cron::tick_in_micros;
use crate::settings::{ReportTo, Run};
use crate::supervise::{LockEvent, LockEventKind, RunRecord, Summary, was_closed};

/// Longest line in bytes, without its end, so that a pipe takes it at once: `PIPE_BUF`.
const LONGEST_LINE: usize = 4095;

/// How long to wait for others that write to the same file, and the pause between tries.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(1);

/// Longest text in characters. It is halved until the line is short enough.
const LONGEST_TEXT: usize = 400;

/// Appends the line of a run that has `ended`.
///
/// # Errors
/// As `open(2)` and `write(2)`, or that only a part was written.
pub fn append(
    to: &ReportTo,
    run: &Run,
    record: &RunRecord,
    ended: &anyhow::Result<Ending>,
) -> io::Result<()> {
    let line = whole_line(run, record, ended);
    match (to, &record.report_output) {
        (ReportTo::File(path), _) => {
            let open = |reads: bool| {
                // Do not wait for a pipe's reader.
                let mut options = File::options();
                options.read(reads).append(true).create(true);
                options
                    .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                    .open(path)
            };
            // A full disk may have left an incomplete line, which must not spoil this one.
            let is_regular = path.metadata().is_ok_and(|file| file.is_file());
            let file = open(is_regular).or_else(|_| open(false))?;
            if !is_regular {
                return write_whole(file.as_fd(), &line);
            }
            let file = alone(file);
            let line = if is_torn(&file) {
                format!("\n{line}")
            } else {
                line
            };
            write_whole(file.as_fd(), &line)
        }
        (ReportTo::Stdout, Some(stdout)) => {
            let written = write_whole(stdout.as_fd(), &line);
            // A reader that stops early, such as `head`, is no error.
            written.or_else(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(error),
            })
        }
        (ReportTo::Stdout, None) => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// dblock's stdout, on a separate descriptor that no program inherits. `None`: it is closed.
pub fn own_stdout() -> Option<OwnedFd> {
    if was_closed(libc::STDOUT_FILENO) {
        return None;
    }
    io::stdout().as_fd().try_clone_to_owned().ok()
}

/// Locks the file against other dblocks, if that is possible soon. Otherwise a line that another one is still writing could look like the
/// rest of a line from a full disk.
fn alone(file: File) -> Alone {
    let deadline = Moment::now() + PATIENCE;
    let mut file = file;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(alone) => return Alone::Locked(alone),
            Err((shared, Errno::EWOULDBLOCK | Errno::EINTR)) if Moment::now() < deadline => {
                file = shared;
                sleep(PAUSE);
            }
            // Some file systems have no such locks.
            Err((shared, _)) => return Alone::Shared(shared),
        }
    }
}

enum Alone {
    Locked(Flock<File>),
    Shared(File),
}

impl Deref for Alone {
    type Target = File;

    fn deref(&self) -> &File {
        match self {
            Self::Locked(file) => file,
            Self::Shared(file) => file,
        }
    }
}

/// Whether the last line of the file is incomplete.
fn is_torn(file: &File) -> bool {
    let length = file.metadata().map_or(0, |file| file.len());
    let mut last = [b'\n'];
    length > 0 && file.read_exact_at(&mut last, length - 1).is_ok() && last != [b'\n']
}

/// Writes all with one write(2), so that lines of others come before or after it.
fn write_whole(descriptor: BorrowedFd, line: &str) -> io::Result<()> {
    // The file size limit (`ulimit -f`) must be an error.
    // SAFETY: this sets a disposition without a handler. The command already has its own.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    if write_at_once(descriptor, line.as_bytes())? < line.len() {
        return Err(io::Error::other("only a part of it could be written"));
    }
    Ok(())
}

/// The line of a run, with texts as long as they fit.
fn whole_line(run: &Run, record: &RunRecord, ended: &anyhow::Result<Ending>) -> String {
    let mut longest = LONGEST_TEXT;
    loop {
        let line = json_printable(&json_value(&line(run, record, ended, longest)).to_string());
        if line.len() <= LONGEST_LINE || longest == 0 {
            return line + "\n";
        }
        longest /= 2;
    }
}

/// The line, as `docs/report.schema.json` says.
#[derive(Serialize)]
struct ReportJson<'a> {
    name: String,
    slot: Option<u32>,
    slot_name: Option<&'a str>,
    fence: Option<u64>,
    tick: Option<String>,
    host: String,
    pid: i32,
    user: String,
    program: String,
    server: Option<String>,
    connection: Option<u64>,
    requested: String,
    acquired: Option<String>,
    started: Option<String>,
    ended: Option<String>,
    waited_seconds: f64,
    ran_seconds: Option<f64>,
    outcome: &'static str,
    exit_code: u8,
    signal: Option<String>,
    lock_events: Vec<LockEventJson>,
    lock_events_omitted: u32,
    message: Option<String>,
    dblock_version: &'static str,
}

/// A change of the lock, for programs.
#[derive(Serialize)]
struct LockEventJson {
    at: String,
    event: &'static str,
    detail: String,
}

fn line<'a>(
    run: &'a Run,
    record: &RunRecord,
    ended: &anyhow::Result<Ending>,
    longest: usize,
) -> ReportJson<'a> {
    let host = gethostname().unwrap_or_default();
    let slot = record.grant.map(|grant| grant.slot);
    let slot_name = slot.and_then(|slot| run.job.slot_names.get(slot as usize));
    let Summary {
        outcome,
        exit_code,
        signal,
        message,
    } = record.summary(ended.as_ref().copied());
    let events = record.lock.events.iter();
    let events = events.map(|event| lock_event(event, longest));
    ReportJson {
        name: run.job.lock.name.to_string(),
        slot,
        slot_name: slot_name.map(String::as_str),
        fence: record.grant.and_then(|grant| grant.fence),
        tick: record.tick.as_deref().and_then(tick_moment),
        host: host.to_string_lossy().into_owned(),
        pid: getpid().as_raw(),
        user: local_user(),
        program: short(&run.job.program(), longest),
        server: record
            .server
            .as_deref()
            .map(|server| short(server, longest)),
        connection: record.grant.map(|grant| grant.connection_id),
        requested: moment(run.job.started),
        acquired: record.acquired.map(moment),
        started: record.started.map(moment),
        ended: record.ended.map(|end| moment(end.at)),
        waited_seconds: seconds(record.waited),
        ran_seconds: record.ended.map(|end| seconds(end.ran)),
        outcome: outcome.word(),
        exit_code,
        signal,
        lock_events: events.collect(),
        lock_events_omitted: record.lock.omitted,
        message: message.map(|message| short(&message, longest)),
        dblock_version: env!("CARGO_PKG_VERSION"),
    }
}

/// A tick, as a moment in the report.
fn tick_moment(tick: &str) -> Option<String> {
    let micros = u64::try_from(tick_in_micros(tick)?).ok()?;
    Some(moment(UNIX_EPOCH + Duration::from_micros(micros)))
}

fn lock_event(event: &LockEvent, longest: usize) -> LockEventJson {
    let kind = match event.kind {
        LockEventKind::Lost => "lost",
        LockEventKind::Reacquired => "reacquired",
        LockEventKind::Abandoned => "abandoned",
        LockEventKind::Killed => "killed",
    };
    LockEventJson {
        at: moment(event.at),
        event: kind,
        detail: short(&event.detail, longest),
    }
}

fn short(text: &str, longest: usize) -> String {
    text.chars().take(longest).collect()
}
