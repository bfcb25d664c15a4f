//! Waits within a time limit for the answers of an isolated process that asks a server, for `status`, `kill` and `check`.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::link::{Arrival, Link, Packet, next};
use super::process::{end, fork_isolated};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::shown;

/// From the process that asks the server.
#[derive(Debug, Serialize, Deserialize)]
pub enum Message {
    /// What it does now, or what has just failed.
    Note(Level, String),
    /// It is connected to this server.
    Reached(String),
    /// All servers of a round are read-only; the text names one. `None`: that is over.
    OnlyReadOnly(Option<String>),
    /// Whether it must not be killed from now on. It ends by itself when nobody listens any more.
    MustFinish(bool),
    /// One item of the answer.
    Item(Packet),
    /// There are no more.
    Done,
    /// The query failed.
    Failed(Failure),
}

/// Sends one item of the answer.
///
/// # Errors
/// As [`Link::send`].
pub fn send_item(link: &Link, item: impl Serialize) -> io::Result<()> {
    link.send(&Message::Item(Packet::of(&item)?))
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
pub fn ask<T: DeserializeOwned>(
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
pub fn ask_and_answer<T: DeserializeOwned>(
    what: &str,
    work: impl FnOnce(Rc<Link>, Pid) -> Result<(), Failure>,
    limits: Limits,
    log: Log,
    mut on_item: impl FnMut(T, &Link),
    label: impl Fn(&T) -> String,
) -> Result<String, Failure> {
    let forked = fork_isolated(work, Message::Failed)?;
    await_answer(what, forked, limits, log, &mut |packet, link| {
        let item: T = packet.message()?;
        let label = label(&item);
        on_item(item, link);
        Some(label)
    })
}

/// Takes an item of the answer. Returns its label; `None`: it is no item.
type OnItem<'a> = dyn FnMut(&Packet, &Link) -> Option<String> + 'a;

fn await_answer(
    what: &str,
    (pid, link): (Pid, Link),
    limits: Limits,
    log: Log,
    on_item: &mut OnItem,
) -> Result<String, Failure> {
    let must_finish = Cell::new(false);
    let finished = match receive(&link, limits, log, on_item, &must_finish) {
        Ok(finished) => finished,
        Err(failure) => {
            // A process that takes longer than that continues alone.
            if !must_finish.get() || finishes(&link) {
                end(pid);
            }
            return Err(failure);
        }
    };
    let ended = end(pid);
    finished.server(what, &ended)
}

/// Whether a process that must not be killed ends by itself soon.
fn finishes(link: &Link) -> bool {
    link.close_for_sending();
    let deadline = Moment::now() + LAST_CHANCE;
    loop {
        match next::<Message>(link, Some(deadline)) {
            Arrival::Message(_) => {}
            Arrival::Gone => return true,
            Arrival::Late => return false,
        }
    }
}

/// How the process has finished.
pub enum Finished {
    /// It sent all; the server's name.
    All(String),
    /// It ended before its last message; what it was doing.
    Gone(String),
}

impl Finished {
    /// The server's name. `what` names the query, and `ended` how its process ended.
    ///
    /// # Errors
    /// It ended before its last message.
    pub fn server(self, what: &str, ended: &str) -> Result<String, Failure> {
        match self {
            Self::All(server) => Ok(server),
            Self::Gone(last) => {
                let cause = format!("{what} {ended} while this was under way: {last}");
                Err(Failure::new(Reason::Internal, cause))
            }
        }
    }
}

fn receive(
    link: &Link,
    limits: Limits,
    log: Log,
    on_item: &mut OnItem,
    must_finish: &Cell<bool>,
) -> Result<Finished, Failure> {
    let mut progress = Progress::new(limits);
    loop {
        match progress.on(next(link, progress.deadline())) {
            Event::Nothing => {}
            Event::Note(level, text) => log.say(level, &text),
            Event::MustFinish(must) => must_finish.set(must),
            Event::Item(item) => match on_item(&item, link) {
                Some(label) => progress.last_note = format!("what comes after {label}"),
                None => return Ok(progress.gone()),
            },
            Event::Finished(finished) => return Ok(finished),
            Event::Failed(failure) => return Err(failure),
        }
    }
}

/// What has arrived from the process that asks.
pub enum Event {
    /// Nothing to act on.
    Nothing,
    /// What it does now, or what has just failed.
    Note(Level, String),
    /// Whether it must not be killed from now on.
    MustFinish(bool),
    /// One item of the answer.
    Item(Packet),
    /// The answer is complete, or never will be.
    Finished(Finished),
    /// The query failed, or took too long.
    Failed(Failure),
}

/// How far a query is.
pub struct Progress {
    limits: Limits,
    begun: Moment,
    /// The server's name, once there is a connection.
    reached: Option<String>,
    /// The name of a read-only server, if the latest round found no other.
    only_read_only: Option<String>,
    /// The step that it is at.
    pub last_note: String,
}

impl Progress {
    /// A query that begins now, and first of all connects.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            begun: Moment::now(),
            reached: None,
            only_read_only: None,
            last_note: "connecting".to_owned(),
        }
    }

    /// Another query begins, over the connection of the last one.
    pub fn begin_again(&mut self) {
        self.begun = Moment::now();
        "asking".clone_into(&mut self.last_note);
    }

    /// When it has taken too long; `None`: never.
    pub fn deadline(&self) -> Option<Moment> {
        self.limit().map(|limit| self.begun + limit)
    }

    fn limit(&self) -> Option<Duration> {
        if self.reached.is_some() {
            self.limits.whole
        } else {
            Some(self.limits.connect)
        }
    }

    /// Takes notice of what arrived until its deadline.
    pub fn on(&mut self, arrival: Arrival<Message>) -> Event {
        match arrival {
            Arrival::Message(Message::Note(level, text)) => {
                if level.is_step() {
                    self.last_note.clone_from(&text);
                }
                return Event::Note(level, text);
            }
            Arrival::Message(Message::Reached(server)) => {
                self.reached = Some(server);
                self.only_read_only = None;
            }
            Arrival::Message(Message::OnlyReadOnly(server)) => self.only_read_only = server,
            Arrival::Message(Message::MustFinish(must)) => return Event::MustFinish(must),
            Arrival::Message(Message::Item(item)) => return Event::Item(item),
            Arrival::Message(Message::Failed(failure)) => return Event::Failed(failure),
            Arrival::Message(Message::Done) => {
                let server = self.reached.clone();
                return Event::Finished(server.map_or_else(|| self.gone(), Finished::All));
            }
            Arrival::Gone => return Event::Finished(self.gone()),
            Arrival::Late => return Event::Failed(self.late()),
        }
        Event::Nothing
    }

    /// It has ended, or sent what is no part of an answer.
    pub fn gone(&self) -> Finished {
        Finished::Gone(self.last_note.clone())
    }

    /// Why there is no answer in time.
    fn late(&self) -> Failure {
        if let Some(read_only) = &self.only_read_only {
            return Failure::new(Reason::Configuration, read_only);
        }
        let what = match &self.reached {
            Some(server) => format!("{server} did not answer"),
            None => "no server could be reached".to_owned(),
        };
        let limit = shown(self.limit().unwrap_or_default());
        let cause = format!("{what} within {limit}: {}", self.last_note);
        Failure::new(Reason::Unreachable, cause)
    }
}
