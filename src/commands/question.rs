//! A command that asks a server. A process of its own has the session and asks; this one waits within a limit, and gets the answers. A
//! subcommand says by which rule the server is chosen, what is asked, and what is done with an answer.

use std::ffi::CString;
use std::marker::PhantomData;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Listener};
use crate::db::{ConnectOptions, Connector, Fault, Session, none_takes_writes};
use crate::history::{self, Deed, prune_deeds};
use crate::isolated::client;
use crate::isolated::link::{Arrival, Link, cut, next};
use crate::isolated::query::{self, Limits, Message, send_item};
use crate::lock::named::{self, Inspector};
use crate::lock::{DEFAULT_TTL, Introduction};
use crate::schema::Tables;
use crate::settings::Common;

/// Limit for a whole command, as a multiple of the connect timeout.
const WHOLE: u32 = 3;

/// After this fraction of the connect timeout it reports that every server is read-only, which leaves time to print that.
const PATIENCE: f64 = 0.8;

/// Pause before another try after a conflict with another transaction.
pub const CONFLICT_PAUSE: Duration = Duration::from_millis(20);

/// How long each answer of a server may take once that of the command is there.
const RECORD_LIMIT: Duration = Duration::from_millis(500);

/// Connects to a server that can answer.
type Reach<'a> = Box<dyn Fn(&Connector, &Tables, Reaching) -> Result<Inspector, Failure> + 'a>;

/// What a subcommand does about servers that are read-only.
#[derive(Clone, Copy)]
pub struct Reaching<'a> {
    /// After this time it accepts one, or says why it does not.
    pub patience: Duration,
    /// Is told of each round without a server, by questions that only a server that takes writes can answer: the line about one if all are
    /// read-only, and otherwise `None`.
    pub on_read_only: &'a dyn Fn(Option<&str>),
}

/// What a subcommand asks a server.
pub struct Question<'a> {
    /// The subcommand, as it is typed. The process that asks is named after its last word.
    pub command: &'static str,
    /// What a message calls the whole, if the process that asks has ended.
    pub called: &'static str,
    /// What a message calls the last answer, if nothing came after it.
    pub last: &'static str,
    /// The server, and what is logged.
    pub common: &'a Common,
    /// How long it may take in total; `None`: no limit.
    pub whole: Option<Duration>,
    /// How to connect to a server that can answer.
    pub reach: Reach<'a>,
    /// Adds to a fault what to do about it.
    pub explain: fn(Fault, &Tables, &Session) -> Fault,
}

impl<'a> Question<'a> {
    /// A question of this `command`, to the server that `reach` connects to.
    pub fn new<S: Into<Inspector>>(
        command: &'static str,
        common: &'a Common,
        reach: impl Fn(&Connector, &Tables, Reaching) -> Result<S, Failure> + 'a,
    ) -> Self {
        Self {
            command,
            called: command,
            last: "what was found last",
            common,
            whole: limits(&common.connection).whole,
            reach: Box::new(move |connector, tables, reaching| {
                reach(connector, tables, reaching).map(Into::into)
            }),
            explain: |fault, _, _| fault,
        }
    }

    /// As [`Question::new`], to a server with dblock's tables, which a fault is explained by.
    pub fn of_tables(
        command: &'static str,
        common: &'a Common,
        reach: impl Fn(&Connector, &Tables, Reaching) -> Result<Session, Failure> + 'a,
    ) -> Self {
        Self {
            explain: |fault, tables, session| match tables.explain(fault) {
                Fault::ReadOnly(cause) => {
                    Fault::Final(none_takes_writes(format!("{session} {cause}")))
                }
                fault => fault,
            },
            ..Self::new(command, common, reach)
        }
    }

    /// A question about locks, which a message calls `called`: to a server that takes writes, or to another one if there is none.
    pub fn about_locks(command: &'static str, called: &'static str, common: &'a Common) -> Self {
        let reach =
            |connector: &_, _: &_, reaching: Reaching| named::reach(connector, reaching.patience);
        Self {
            called,
            ..Self::new(command, common, reach)
        }
    }

    /// A question to a server with the tables, of which a replica will do.
    pub fn about_history(command: &'static str, called: &'static str, common: &'a Common) -> Self {
        let reach = |connector: &_, tables: &_, _: Reaching| history::reach(connector, tables);
        Self {
            called,
            ..Self::new(command, common, reach)
        }
    }

    /// Has `work` ask the server, and passes on each answer. Returns the server's name.
    ///
    /// # Errors
    /// Why there is no whole answer.
    pub fn ask<T: Serialize + DeserializeOwned>(
        &self,
        work: impl FnOnce(&mut Asker<T>) -> Result<(), Fault>,
        on_answer: impl FnMut(T),
    ) -> Result<String, Failure> {
        query::ask(
            self.called,
            |link, parent| self.work(work, &link, parent),
            Limits {
                connect: self.common.connection.connect_timeout,
                whole: self.whole,
            },
            self.common.log,
            on_answer,
            |_| self.last.to_owned(),
        )
    }

    /// As [`Question::ask`], for a single answer.
    ///
    /// # Errors
    /// As [`Question::ask`].
    pub fn ask_one<T: Serialize + DeserializeOwned>(
        &self,
        work: impl FnOnce(&mut Asker<T>) -> Result<T, Fault>,
    ) -> Result<T, Failure> {
        let mut answer = None;
        let asked = self.ask(
            |asker| {
                let one = work(asker)?;
                asker.answers.send(one);
                Ok(())
            },
            |one| answer = Some(one),
        );
        // What is done is done, whatever went wrong after it.
        answer.ok_or_else(|| unanswered(asked))
    }

    /// The main function of the process that asks. It ends its session before its last message.
    fn work<T: Serialize>(
        &self,
        work: impl FnOnce(&mut Asker<T>) -> Result<(), Fault>,
        link: &Rc<Link>,
        parent: Pid,
    ) -> Result<(), Failure> {
        let mut asker = self.connect(link, parent)?;
        self.explained(work(&mut asker), &asker)?;
        asker.keep_records();
        drop(asker);
        let _ = link.send(&Message::Done);
        Ok(())
    }

    /// The main function of a process that asks at once, and again whenever it is told to, in one session.
    ///
    /// # Errors
    /// Why it cannot be asked any more.
    pub fn work_again<T: Serialize>(
        &self,
        mut work: impl FnMut(&mut Asker<T>) -> Result<(), Fault>,
        link: &Rc<Link>,
        parent: Pid,
    ) -> Result<(), Failure> {
        let mut asker = self.connect(link, parent)?;
        loop {
            self.explained(work(&mut asker), &asker)?;
            let _ = link.send(&Message::Done);
            let Arrival::Message(ToAsker::AskAgain) = next(link, None) else {
                return Ok(());
            };
        }
    }

    fn connect<T>(&self, link: &Rc<Link>, parent: Pid) -> Result<Asker<T>, Failure> {
        let (inspector, tables) = self.reach_server(link, parent)?;
        Ok(Asker {
            inspector,
            tables,
            answers: Answers(Rc::clone(link), PhantomData),
            deeds: 0,
            unrecorded: None,
        })
    }

    /// Connects, and says to which server.
    fn reach_server(&self, link: &Rc<Link>, parent: Pid) -> Result<(Inspector, Tables), Failure> {
        let connection = &self.common.connection;
        let introduction = Introduction::of_command(self.command, parent, DEFAULT_TTL);
        let listener = listener_of(link, self.common.log.shown);
        let connector = begin(&introduction, connection, listener, link)?;
        let tables = Tables::of_connection(connection);
        let reaching = Reaching {
            patience: connection.connect_timeout.mul_f64(PATIENCE),
            on_read_only: &|line| {
                let _ = link.send(&Message::OnlyReadOnly(line.map(cut)));
            },
        };
        let inspector = (self.reach)(&connector, &tables, reaching)?;
        let server = inspector.session.to_string();
        let _ = link.send(&Message::Reached(cut(&server)));
        Ok((inspector, tables))
    }

    /// A fault of what was asked, with what to do about it.
    fn explained<T>(&self, outcome: Result<(), Fault>, asker: &Asker<T>) -> Result<(), Failure> {
        outcome.map_err(|fault| {
            let session = &asker.inspector.session;
            let fault = (self.explain)(fault, &asker.tables, session);
            fault.into_failure(&session.to_string())
        })
    }
}

/// To the process that asks.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToAsker {
    /// Ask once more.
    AskAgain,
}

/// The limits of a command that waits for nothing but answers.
pub fn limits(connection: &ConnectOptions) -> Limits {
    let connect = connection.connect_timeout;
    Limits {
        connect,
        whole: Some(connect.saturating_mul(WHOLE)),
    }
}

/// What the process that asks works with.
pub struct Asker<T> {
    /// The session.
    pub inspector: Inspector,
    /// dblock's tables there.
    pub tables: Tables,
    /// Where the answers go.
    pub answers: Answers<T>,
    /// How many things somebody may have done.
    deeds: usize,
    /// What somebody did and is not recorded yet.
    unrecorded: Option<Deed>,
}

impl<T> Asker<T> {
    /// As [`Asker::again`], for what somebody does, which is recorded.
    ///
    /// # Errors
    /// As [`Asker::again`].
    pub fn act<R>(
        &mut self,
        work: impl FnMut(&Tables, &mut Session) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        self.deeds += 1;
        self.again(work)
    }

    /// Has it recorded what somebody has done, once the answer is sent. If that fails, it is done all the same.
    pub fn record_later(&mut self, deed: Deed) {
        self.deeds += 1;
        self.unrecorded = Some(deed);
    }

    /// Records what is not recorded yet, and deletes old records. Nobody waits long for that: the answer is sent.
    fn keep_records(&mut self) {
        let (tables, session) = (&self.tables, &mut self.inspector.session);
        if self.deeds == 0 || session.answer_within(RECORD_LIMIT).is_err() {
            return;
        }
        if let Some(deed) = self.unrecorded.take() {
            let _ = deed.record(tables, session);
        }
        let _ = prune_deeds(tables, session, self.deeds);
    }

    /// Does something to the tables, again after each temporary fault. After such a fault it must have changed nothing, or be repeatable.
    ///
    /// # Errors
    /// Any other fault.
    pub fn again<R>(
        &mut self,
        mut work: impl FnMut(&Tables, &mut Session) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let session = &mut self.inspector.session;
        loop {
            match work(&self.tables, session) {
                Err(fault @ (Fault::Conflict(_) | Fault::Interrupted(_))) => {
                    session.tell(Level::Info, &format!("{fault}; trying again"));
                    sleep(CONFLICT_PAUSE);
                }
                done => return done,
            }
        }
    }
}

/// Sends answers to the process that prints.
pub struct Answers<T>(Rc<Link>, PhantomData<T>);

impl<T: Serialize> Answers<T> {
    /// Sends one.
    pub fn send(&self, answer: T) {
        let _ = send_item(&self.0, answer);
    }
}

/// Why there is no answer, after all was asked.
pub fn unanswered(asked: Result<String, Failure>) -> Failure {
    let nothing = || Failure::new(Reason::Internal, "the server gave no answer");
    asked.err().unwrap_or_else(nothing)
}

/// Begins a process that asks. Its name is the last word of the introduction's command.
///
/// # Errors
/// As [`client::begin`].
pub fn begin(
    introduction: &Introduction,
    connection: &ConnectOptions,
    listener: Listener,
    link: &Link,
) -> Result<Connector, Failure> {
    let word = introduction.command.rsplit(' ').next().unwrap_or_default();
    let name = CString::new(format!("dblock-{word}")).unwrap_or_default();
    client::begin(introduction, connection, listener, &name, link)
}

/// Sends each step to the process that prints, and statements too if they are shown.
pub fn listener_of(link: &Rc<Link>, shown: Level) -> Listener {
    client::notes(link, shown, |link, level, text| {
        let _ = link.send(&Message::Note(level, text));
    })
}
