//! `dblock check`: is a server fit to lock on, and how fast is it? What talks to the server is a process of its own; this
//! one keeps the time, and prints.

mod examiner;
mod finding;

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;

use super::print;
use crate::cli::CheckArgs;
use crate::clock::Moment;
use crate::exit::{Ending, Failure, Reason};
use crate::keeper::fork_apart;
use crate::keeper::message::Link;
use crate::report::{Level, Report, shown};
use crate::settings;
use examiner::{FromExaminer, examine};
use finding::{Findings, State};

/// All of it takes at most so many connect time-outs.
const WHOLE: u32 = 3;

/// Examines a server, prints what was found, and returns how dblock is to end.
///
/// # Errors
/// What kept the server from being examined.
pub fn check(args: CheckArgs) -> anyhow::Result<Ending> {
    let (check, report) = settings::check(args)?;
    let (pid, link) = fork_apart(
        |link, parent| examine(&check.connection, report.shown, link, parent),
        FromExaminer::Failed,
    )?;
    let heard = hear(&link, check.connection.connect_timeout, report);
    let ended = end(pid);
    let findings = match heard {
        Ok(Heard::Findings(findings)) => findings,
        Ok(Heard::Gone(last)) => {
            let told = format!("the check {ended} while this was under way: {last}");
            return Err(Failure::new(Reason::Internal, told).into());
        }
        Err(failure) => return Err(failure.into()),
    };
    print(&if check.json {
        findings.json()
    } else {
        findings.table()
    })?;
    Ok(Ending::Code(match findings.verdict() {
        State::Unfit => Reason::Configuration.code(),
        State::Ok | State::Warning => 0,
    }))
}

/// What came of the examination.
enum Heard {
    Findings(Findings),
    /// The examiner has ended without its last word; what was under way.
    Gone(String),
}

/// Hears the examiner out, within the time for connecting and the time for all of it.
fn hear(link: &Link, limit: Duration, report: Report) -> Result<Heard, Failure> {
    let begun = Moment::now();
    let mut findings: Option<Findings> = None;
    let mut last_note = "connecting".to_owned();
    loop {
        let limit = if findings.is_some() {
            limit.saturating_mul(WHOLE)
        } else {
            limit
        };
        match next::<FromExaminer>(link, begun + limit) {
            Next::Message(FromExaminer::Note(level, text)) => {
                report.say(level, &text);
                if level == Level::Info {
                    last_note = text;
                }
            }
            Next::Message(FromExaminer::Reached(server)) => findings = Some(Findings::of(server)),
            Next::Message(FromExaminer::Found(finding)) => {
                last_note = format!("what comes after {}", finding.label());
                if let Some(findings) = &mut findings {
                    findings.add(finding);
                }
            }
            Next::Message(FromExaminer::Failed(failure)) => return Err(failure),
            Next::Message(FromExaminer::Done) => {
                return Ok(findings.map_or(Heard::Gone(last_note), Heard::Findings));
            }
            Next::Gone => return Ok(Heard::Gone(last_note)),
            Next::Late => {
                let what = match findings {
                    Some(findings) => format!("{} did not answer", findings.server),
                    None => "no server could be reached".to_owned(),
                };
                let told = format!("{what} within {}: {last_note}", shown(limit));
                return Err(Failure::new(Reason::Unreachable, told));
            }
        }
    }
}

/// What came over a link.
enum Next<M> {
    Message(M),
    /// The other end is closed.
    Gone,
    /// Nothing came in time.
    Late,
}

/// The next message, until the deadline. One that is there already is not late.
fn next<M: DeserializeOwned>(link: &Link, deadline: Moment) -> Next<M> {
    loop {
        let left = deadline.since(Moment::now());
        // In pieces, for poll(2) stands still while the machine sleeps.
        let millis = u16::try_from(left.as_micros().div_ceil(1000).min(1000)).unwrap_or_default();
        let mut descriptors = [PollFd::new(link.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, PollTimeout::from(millis)) {
            Ok(0) if left.is_zero() => return Next::Late,
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => {
                return match link.receive() {
                    Ok(Some((message, _))) => Next::Message(message),
                    Ok(None) | Err(_) => Next::Gone,
                };
            }
            Err(_) => return Next::Gone,
        }
    }
}

/// Ends a process that was forked off; how it ended.
fn end(pid: Pid) -> String {
    let _ = kill(pid, Signal::SIGKILL);
    loop {
        match waitpid(pid, None) {
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::Exited(_, code)) => return format!("ended with {code}"),
            // It has a limit on its memory, and hits it by an abort.
            Ok(WaitStatus::Signaled(_, Signal::SIGABRT, _)) => {
                return "gave up (it may have no more than 64 MB of memory)".to_owned();
            }
            Ok(WaitStatus::Signaled(_, signal, _)) => return format!("died of {signal}"),
            // Who inherited SIGCHLD as ignored learns no more.
            _ => return "ended".to_owned(),
        }
    }
}
