//! Waiting for the answers of an isolated process that questions a server, for `status`, `kill` and `check`: it keeps the time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::link::{Link, Next, next};
use super::process::{end, fork_isolated};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::shown;

/// From the process that asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message<T> {
    /// What is being done or has just failed.
    Note(Level, String),
    /// There is a session with this server.
    Reached(String),
    /// Why no server of a round would do: each is read-only, as this line says of one. `None`: that is over.
    OnlyReadOnly(Option<String>),
    /// Whether it must not be ended from now on: it ends by itself when nobody listens any more.
    MustFinish(bool),
    /// One of the things that were asked for.
    Item(T),
    /// There are no more.
    Done,
    /// It came to nothing.
    Failed(Failure),
}

/// How long the end of a process is waited for that must not be ended.
const LAST_CHANCE: Duration = Duration::from_secs(5);

/// How long a question may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until there is a session.
    pub connect: Duration,
    /// For all of it; `None` without limit.
    pub whole: Option<Duration>,
}

/// Has `work` done by a process of its own, and passes on its messages, within the limits. What is an item is called in
/// words by `label`, should it be the last one; the whole is called `what`. The server's name.
///
/// # Errors
/// What kept it from being done. When its time was over: [`Reason::Configuration`] if every server was read-only in the latest
/// round, else [`Reason::Unreachable`].
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

/// As [`ask`], where an item may be answered, over the link to the process that asks.
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
            // One that takes longer goes on alone.
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

/// Whether a process that must not be ended ends by itself before long.
fn finishes<T: DeserializeOwned>(link: &Link) -> bool {
    link.close_for_sending();
    let deadline = Moment::now() + LAST_CHANCE;
    loop {
        match next::<Message<T>>(link, Some(deadline)) {
            Next::Message(_) => {}
            Next::Gone => return true,
            Next::Late => return false,
        }
    }
}

/// How a process that asks has finished.
enum Finished {
    /// Everything; the server's name.
    All(String),
    /// It ended before its last message; what was under way.
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
            Next::Message(Message::Note(level, text)) => {
                log.say(level, &text);
                if level == Level::Info {
                    last_note = text;
                }
            }
            Next::Message(Message::Reached(server)) => {
                reached = Some(server);
                only_read_only = None;
            }
            Next::Message(Message::OnlyReadOnly(server)) => only_read_only = server,
            Next::Message(Message::MustFinish(must)) => must_finish.set(must),
            Next::Message(Message::Item(item)) => {
                last_note = format!("what comes after {}", label(&item));
                on_item(item, link);
            }
            Next::Message(Message::Failed(failure)) => return Err(failure),
            Next::Message(Message::Done) => {
                return Ok(reached.map_or(Finished::Gone(last_note), Finished::All));
            }
            Next::Gone => return Ok(Finished::Gone(last_note)),
            Next::Late => {
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
