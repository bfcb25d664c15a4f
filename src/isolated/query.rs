//! Waits within a time limit for the answers of an isolated process that asks a server, for `status`, `kill` and `check`.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::link::{Arrival, Link, next};
use super::process::{end, fork_isolated};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::shown;

/// From the process that asks the server.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message<T> {
    /// What it does now, or what has just failed.
    Note(Level, String),
    /// It is connected to this server.
    Reached(String),
    /// All servers of a round are read-only; the text names one. `None`: that is over.
    OnlyReadOnly(Option<String>),
    /// Whether it must not be killed from now on. It ends by itself when nobody listens any more.
    MustFinish(bool),
    /// One item of the answer.
    Item(T),
    /// There are no more.
    Done,
    /// The query failed.
    Failed(Failure),
}

/// How long to wait for the end of a process that must not be killed.
const LAST_CHANCE: Duration = Duration::from_secs(5);

/// How long a query may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until the connection.
    pub connect: Duration,
    /// In total; `None`: no limit.
    pub whole: Option<Duration>,
}

/// Has `work` done in a process of its own, and passes on its messages, within the limits. `label` names an item for the message that
/// says what came last; `what` names the whole query. Returns the server's name.
///
/// # Errors
/// The query failed. At a timeout: [`Reason::Configuration`] if the latest round found only read-only servers, else
/// [`Reason::Unreachable`].
pub fn ask<T: Serialize + DeserializeOwned>(
    what: &str,
    work: impl FnOnce(Rc<Link>, Pid) -> Result<(), Failure>,
    limits: Limits,
    log: Log,
    mut on_item: impl FnMut(T),
    label: impl Fn(&T) -> String,
) -> Result<String, Failure> {
    ask_and_answer(what, work, limits, log, |item, _| on_item(item), label)
}

/// As [`ask`], but `on_item` may answer over the link to the process.
///
/// # Errors
/// As [`ask`].
pub fn ask_and_answer<T: Serialize + DeserializeOwned>(
    what: &str,
    work: impl FnOnce(Rc<Link>, Pid) -> Result<(), Failure>,
    limits: Limits,
    log: Log,
    mut on_item: impl FnMut(T, &Link),
    label: impl Fn(&T) -> String,
) -> Result<String, Failure> {
    let (pid, link) = fork_isolated(work, Message::<T>::Failed)?;
    let must_finish = Cell::new(false);
    let finished = match receive(&link, limits, log, &mut on_item, &label, &must_finish) {
        Ok(finished) => finished,
        Err(failure) => {
            // A process that takes longer than that continues alone.
            if !must_finish.get() || finishes::<T>(&link) {
                end(pid);
            }
            return Err(failure);
        }
    };
    let ended = end(pid);
    match finished {
        Finished::All(server) => Ok(server),
        Finished::Gone(last) => {
            let cause = format!("{what} {ended} while this was under way: {last}");
            Err(Failure::new(Reason::Internal, cause))
        }
    }
}

/// Whether a process that must not be killed ends by itself soon.
fn finishes<T: DeserializeOwned>(link: &Link) -> bool {
    link.close_for_sending();
    let deadline = Moment::now() + LAST_CHANCE;
    loop {
        match next::<Message<T>>(link, Some(deadline)) {
            Arrival::Message(_) => {}
            Arrival::Gone => return true,
            Arrival::Late => return false,
        }
    }
}

/// How the process has finished.
enum Finished {
    /// It sent all; the server's name.
    All(String),
    /// It ended before its last message; what it was doing.
    Gone(String),
}

fn receive<T: DeserializeOwned>(
    link: &Link,
    limits: Limits,
    log: Log,
    on_item: &mut impl FnMut(T, &Link),
    label: &impl Fn(&T) -> String,
    must_finish: &Cell<bool>,
) -> Result<Finished, Failure> {
    let begun = Moment::now();
    let mut reached: Option<String> = None;
    let mut only_read_only = None;
    let mut last_note = "connecting".to_owned();
    loop {
        let limit = if reached.is_some() {
            limits.whole
        } else {
            Some(limits.connect)
        };
        match next(link, limit.map(|limit| begun + limit)) {
            Arrival::Message(Message::Note(level, text)) => {
                log.say(level, &text);
                if level == Level::Info {
                    last_note = text;
                }
            }
            Arrival::Message(Message::Reached(server)) => {
                reached = Some(server);
                only_read_only = None;
            }
            Arrival::Message(Message::OnlyReadOnly(server)) => only_read_only = server,
            Arrival::Message(Message::MustFinish(must)) => must_finish.set(must),
            Arrival::Message(Message::Item(item)) => {
                last_note = format!("what comes after {}", label(&item));
                on_item(item, link);
            }
            Arrival::Message(Message::Failed(failure)) => return Err(failure),
            Arrival::Message(Message::Done) => {
                return Ok(reached.map_or(Finished::Gone(last_note), Finished::All));
            }
            Arrival::Gone => return Ok(Finished::Gone(last_note)),
            Arrival::Late => {
                if let Some(read_only) = only_read_only {
                    return Err(Failure::new(Reason::Configuration, read_only));
                }
                let what = match reached {
                    Some(server) => format!("{server} did not answer"),
                    None => "no server could be reached".to_owned(),
                };
                let limit = shown(limit.unwrap_or_default());
                let cause = format!("{what} within {limit}: {last_note}");
                return Err(Failure::new(Reason::Unreachable, cause));
            }
        }
    }
}
