//! A question to a server, asked by a process of its own: the `mysql` crate may block, break or abort there, and this one
//! keeps the time.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use mysql::Row;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::exit::{Failure, Reason};
use crate::keeper::message::{Link, cut};
use crate::keeper::{detach, fork_apart, keep_to_itself};
use crate::lock::literal;
use crate::report::{Level, Report, shown};
use crate::server::{Connector, Fault, Introduction, Listener, READ_ONLY, Session, cell};
use crate::settings::{Connection, DEFAULT_TTL};

/// From an answer that told nothing to the same question again.
const PAUSE: Duration = Duration::from_millis(100);

/// From the process that asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum Word<T> {
    /// What is being done or has just failed.
    Note(Level, String),
    /// There is a session with this server.
    Reached(String),
    /// One of the things that were asked for.
    Item(T),
    /// There are no more.
    Done,
    /// It came to nothing.
    Failed(Failure),
}

/// How long a question may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until there is a session.
    pub connect: Duration,
    /// For all of it; `None` without limit.
    pub whole: Option<Duration>,
}

/// Has `work` done by a process of its own, and passes on what it tells, within the limits. What is an item is called in
/// words by `label`, should it be the last one; the whole is called `what`. The server's name.
///
/// # Errors
/// What kept it from being done; [`Reason::Unreachable`] when its time was over.
pub fn ask<T: Serialize + DeserializeOwned>(
    what: &str,
    work: impl FnOnce(&Link, Pid) -> Result<(), Failure>,
    limits: Limits,
    report: Report,
    mut on_item: impl FnMut(T),
    label: impl Fn(&T) -> String,
) -> Result<String, Failure> {
    let (pid, link) = fork_apart(work, Word::<T>::Failed)?;
    let heard = hear(&link, limits, report, &mut on_item, &label);
    let ended = end(pid);
    match heard? {
        Told::All(server) => Ok(server),
        Told::Gone(last) => {
            let told = format!("{what} {ended} while this was under way: {last}");
            Err(Failure::new(Reason::Internal, told))
        }
    }
}

/// What was told until the end.
enum Told {
    /// Everything; the server's name.
    All(String),
    /// Not the last word; what was under way.
    Gone(String),
}

fn hear<T: DeserializeOwned>(
    link: &Link,
    limits: Limits,
    report: Report,
    on_item: &mut impl FnMut(T),
    label: &impl Fn(&T) -> String,
) -> Result<Told, Failure> {
    let begun = Moment::now();
    let mut reached: Option<String> = None;
    let mut last_note = "connecting".to_owned();
    loop {
        let limit = if reached.is_some() {
            limits.whole
        } else {
            Some(limits.connect)
        };
        match next(link, limit.map(|limit| begun + limit)) {
            Next::Message(Word::Note(level, text)) => {
                report.say(level, &text);
                if level == Level::Info {
                    last_note = text;
                }
            }
            Next::Message(Word::Reached(server)) => reached = Some(server),
            Next::Message(Word::Item(item)) => {
                last_note = format!("what comes after {}", label(&item));
                on_item(item);
            }
            Next::Message(Word::Failed(failure)) => return Err(failure),
            Next::Message(Word::Done) => {
                return Ok(reached.map_or(Told::Gone(last_note), Told::All));
            }
            Next::Gone => return Ok(Told::Gone(last_note)),
            Next::Late => {
                let what = match reached {
                    Some(server) => format!("{server} did not answer"),
                    None => "no server could be reached".to_owned(),
                };
                let limit = shown(limit.unwrap_or_default());
                let told = format!("{what} within {limit}: {last_note}");
                return Err(Failure::new(Reason::Unreachable, told));
            }
        }
    }
}

/// What came over a link.
pub enum Next<M> {
    /// A message.
    Message(M),
    /// The other end is closed.
    Gone,
    /// Nothing came in time.
    Late,
}

/// The next message, until the deadline; `None` waits for ever. One that is there already is not late.
pub fn next<M: DeserializeOwned>(link: &Link, deadline: Option<Moment>) -> Next<M> {
    loop {
        let left = deadline.map(|deadline| deadline.since(Moment::now()));
        // In pieces, for poll(2) stands still while the machine sleeps.
        let piece = left.map_or(1000, |left| left.as_micros().div_ceil(1000).min(1000));
        let millis = u16::try_from(piece).unwrap_or_default();
        let mut descriptors = [PollFd::new(link.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, PollTimeout::from(millis)) {
            Ok(0) if left == Some(Duration::ZERO) => return Next::Late,
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
pub fn end(pid: Pid) -> String {
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

/// What the process that asks has: a session, and somebody who listens.
pub struct Asker<'a> {
    /// With the server that was reached.
    pub session: Session,
    /// Told of each step and statement.
    pub listener: &'a Listener<'a>,
    link: &'a Link,
}

impl Asker<'_> {
    /// A statement's first row, however often it is interrupted.
    ///
    /// # Errors
    /// Any other fault of a statement.
    pub fn ask(&mut self, statement: &str) -> Result<Option<Row>, Fault> {
        loop {
            match self.session.ask(statement, self.listener) {
                Err(Fault::Unclear(_)) => sleep(PAUSE),
                answer => return answer,
            }
        }
    }

    /// Who has a lock, by its name on the server.
    ///
    /// # Errors
    /// As [`Asker::ask`].
    pub fn owner(&mut self, on_server: &str) -> Result<Option<u64>, Fault> {
        let row = self.ask(&format!("SELECT IS_USED_LOCK({})", literal(on_server)))?;
        Ok(row.and_then(|row| cell(&row, 0)))
    }

    /// Tells one of the things that were asked for.
    pub fn tell<T: Serialize>(&self, item: T) {
        let _ = self.link.send(&Word::Item(item));
    }
}

/// The life of a process that asks: it keeps its secrets to itself, reaches the server that takes writes, if there is one,
/// asks, and says good-bye to the server before its last word. It bears this `name`, of at most 15 bytes.
///
/// # Errors
/// What it failed of.
pub fn ask_server<T: Serialize>(
    (command, name): (&str, &CStr),
    connection: &Connection,
    shown: Level,
    (link, parent): (&Link, Pid),
    work: impl FnOnce(&mut Asker) -> Result<(), Fault>,
) -> Result<(), Failure> {
    let listener = |level: Level, text: &str| {
        if level < Level::Statement || shown == Level::Statement {
            let _ = link.send(&Word::<T>::Note(level, cut(text)));
        }
    };
    keep_to_itself(parent)?;
    // Before the descriptors are let go, for a password's file may be named by a descriptor that dblock inherited.
    let introduction = Introduction::of_command(command, parent, DEFAULT_TTL);
    let connector = Connector::new(connection, &introduction, &listener)?;
    detach(link, name)?;
    let patience = connection.connect_timeout.mul_f64(0.8);
    let session = reach(&connector, &listener, patience)?;
    let server = session.to_string();
    let _ = link.send(&Word::<T>::Reached(cut(&server)));
    let mut asker = Asker {
        session,
        listener: &listener,
        link,
    };
    work(&mut asker).map_err(|fault| lost(&server, fault))?;
    drop(asker);
    let _ = link.send(&Word::<T>::Done);
    Ok(())
}

/// That the session with a server is lost.
pub fn lost(server: &str, fault: Fault) -> Failure {
    match fault {
        Fault::Final(failure) => failure,
        fault => {
            let told = format!("lost the session with {server}: {fault}");
            Failure::new(Reason::Unreachable, told)
        }
    }
}

/// Reaches a server that takes writes, for that is where the locks are, however long that lasts; one that does not, with a
/// warning, where there was no other for as long as the `patience`.
fn reach(
    connector: &Connector,
    listener: &Listener,
    patience: Duration,
) -> Result<Session, Failure> {
    let begun = Moment::now();
    let mut accepts = false;
    loop {
        let reached = connector.connect(listener, |session| {
            let doubt = doubt(session, listener)?;
            match doubt {
                Some(READ_ONLY) if !accepts => Err(Fault::ReadOnly(READ_ONLY.to_owned())),
                doubt => Ok(doubt),
            }
        });
        match reached {
            Ok((session, doubt)) => {
                if let Some(doubt) = doubt {
                    listener(Level::Warning, &format!("{session} {doubt}"));
                }
                return Ok(session);
            }
            Err(Fault::ReadOnly(_)) if begun.elapsed() > patience => accepts = true,
            Err(Fault::Final(failure)) => return Err(failure),
            Err(_) => sleep(connector.pause()),
        }
    }
}

/// Why a lock on a server may not be the one that others meet.
fn doubt(session: &mut Session, listener: &Listener) -> Result<Option<&'static str>, Fault> {
    // Not every server has each of them, and to ask for one that is not there is an error.
    let variables = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'innodb_read_only', 'wsrep_on')";
    let rows = session
        .inquire_all(variables, listener)?
        .unwrap_or_default();
    let is_on = |row: &&Row| {
        let value: Option<String> = cell(row, 1);
        value.is_some_and(|value| matches!(&*value.to_ascii_uppercase(), "ON" | "1"))
    };
    let on = rows.iter().filter(is_on);
    let on: Vec<String> = on.filter_map(|row| cell(row, 0)).collect();
    Ok(if on.iter().any(|name| name.ends_with("read_only")) {
        Some(READ_ONLY)
    } else if on.is_empty() {
        None
    } else {
        Some("is a Galera node: it has named locks of its own, and another node has others")
    })
}
