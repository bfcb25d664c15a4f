//! A session with PostgreSQL, by the simple query protocol: statements go out as texts, and values come back as texts.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{
    DataRowBody, Header, Message, NoticeResponseBody, RowDescriptionBody,
};
use postgres_protocol::message::frontend;

use super::fault::Refusal;
use super::introduction::commented;
use super::sql::TRUSTED;
use super::stream::Stream;
use crate::base::exit::{Failure, Reason};
use crate::db::ask::{LIST, Reply};
use crate::db::fault::{Fault, NO_ANSWER, broken_off};
use crate::db::row::Row;
use crate::db::wire::{Failed, Wire, limit_reading, reading_limit};

/// The longest message that is read. The statements of dblock have far shorter answers; a longer one is no PostgreSQL's. The crate makes
/// room for a message as soon as it has begun, and [this process](crate::isolated::process) has little.
const LONGEST_MESSAGE: i32 = 16 * 1024 * 1024;

/// The most settings that a server reports, which has some fifteen, and their longest value that is kept.
const MOST_PARAMETERS: usize = 100;
const LONGEST_PARAMETER: usize = 1024;

/// The most answers to what is sent at once, and the most messages that nobody has asked for before one.
pub(super) const MOST_REPLIES: usize = 10_000;

/// The most messages of one answer of which nothing is kept: rows beyond those that were asked for, names of columns, errors.
const MOST_DROPPED: usize = LIST;

/// What is said of a server that sends more than that.
pub(super) const ENDLESS: &str = "answers without an end";

/// The server's function that waits until a synchronous standby has a commit. It warns if somebody cancels that wait, and the statement
/// succeeds all the same. The warning is in any language; this name, which comes with it, is not.
const WAITS_FOR_STANDBY: &[u8] = b"SyncRepWaitForLSN";

/// What is said of a server that has committed something without it.
const GAVE_UP_STANDBY: &str = "the server gave up waiting for its synchronous standby";

/// How long to wait for the rest of a message that has begun.
const REST_OF_A_MESSAGE: Duration = Duration::from_millis(100);

/// How long a server may go on to say something that nobody asked for.
const LONGEST_LAST_WORDS: Duration = Duration::from_secs(1);

/// A server's word for a session that is in no transaction.
const OUTSIDE: u8 = b'I';

/// How much is read at once.
const PART: usize = 8 * 1024;

/// Why no message came unasked.
enum Unasked {
    /// There was none in time.
    Nothing,
    /// The session has ended.
    End(Fault),
}

/// The notifications that a session was sent.
#[derive(Default)]
struct Notifications {
    /// Whether one has come that nobody has asked for yet.
    have_come: bool,
    /// Whether they were waited for: then every role of the database may send some, as often as it likes.
    are_awaited: bool,
}

/// A session after the login.
pub struct PostgresWire {
    pub(super) stream: Stream,
    /// What was read, and belongs to later messages.
    pub(super) input: BytesMut,
    /// The server's process, as it named itself at the login.
    pub(super) pid: u32,
    /// The settings that the server reports by itself, such as `in_hot_standby`.
    pub(super) parameters: HashMap<String, String>,
    notifications: Notifications,
    /// Whether what was asked last may be lost at a fail-over.
    gave_up_standby: bool,
    /// The server, for the lines of its faults.
    server: String,
    /// What a comment in each statement says of the session.
    comment: String,
    /// Whether a pooler may give each transaction another session of the server's. Then each transaction sets [`TRUSTED`] for itself: in
    /// the session it would stay for the pooler's next client, and not be there in dblock's next transaction.
    pub(super) may_be_pooled: bool,
    /// Whether the next statement begins a transaction.
    is_outside: bool,
    pub(super) encryption: Option<String>,
    /// Why the server has ended TLS: with TLS 1.3 it judges the certificate that it was shown only after the handshake.
    pub(super) alert: Option<rustls::Error>,
}

impl PostgresWire {
    /// Over a stream that is connected to `server`, before the login.
    pub(super) fn new(
        stream: Stream,
        encryption: Option<String>,
        server: &str,
        comment: String,
    ) -> Self {
        Self {
            stream,
            server: server.to_owned(),
            input: BytesMut::new(),
            pid: 0,
            parameters: HashMap::new(),
            notifications: Notifications::default(),
            gave_up_standby: false,
            comment,
            may_be_pooled: false,
            is_outside: true,
            encryption,
            alert: None,
        }
    }

    /// What came is not PostgreSQL's protocol.
    pub(super) fn garbled(&self, what: &dyn Display) -> Fault {
        garbled(&self.server, what)
    }

    /// Sends messages.
    pub(super) fn write(&mut self, messages: &[u8]) -> Result<(), Fault> {
        let written = self.stream.write_all(messages);
        written
            .and_then(|()| self.stream.flush())
            .map_err(|error| self.broke_off(&error))
    }

    /// As [`of_transport`], and keeps the alert of a server that has ended TLS.
    fn broke_off(&mut self, error: &io::Error) -> Fault {
        let cause = error.get_ref();
        if let Some(alert @ rustls::Error::AlertReceived(_)) =
            cause.and_then(|cause| cause.downcast_ref())
        {
            self.alert = Some(alert.clone());
        }
        of_transport(error)
    }

    /// Reads one message that the server sends unasked.
    fn receive_unasked(&mut self) -> Result<(), Unasked> {
        let message = match self.receive_any() {
            Ok(message) => message,
            Err(Fault::Gone(cause)) if cause == NO_ANSWER => return Err(Unasked::Nothing),
            Err(fault) => return Err(Unasked::End(fault)),
        };
        match self.keep(message) {
            None => Ok(()),
            Some(Message::ErrorResponse(body)) => {
                let cause = Refusal::read(&body).to_string();
                Err(Unasked::End(Fault::Gone(cause)))
            }
            Some(_) => Err(Unasked::End(
                self.garbled(&"an answer that nobody asked for"),
            )),
        }
    }

    /// Keeps what a server sends unasked, and returns any other message.
    fn keep(&mut self, message: Message) -> Option<Message> {
        match message {
            Message::ParameterStatus(body) => {
                if let (Ok(name), Ok(value)) = (body.name(), body.value())
                    && name.len() + value.len() <= LONGEST_PARAMETER
                    && (self.parameters.len() < MOST_PARAMETERS
                        || self.parameters.contains_key(name))
                {
                    self.parameters.insert(name.to_owned(), value.to_owned());
                }
                None
            }
            Message::NotificationResponse(_) => {
                self.notifications.have_come = true;
                None
            }
            Message::NoticeResponse(body) => {
                self.gave_up_standby |= is_of_standby(&body);
                None
            }
            other => Some(other),
        }
    }

    /// Waits for the next message that is an answer. Keeps what a server sends unasked.
    pub(super) fn receive(&mut self) -> Result<Message, Fault> {
        let mut unasked = 0;
        while unasked < MOST_REPLIES {
            let message = self.receive_any()?;
            let is_of_others = self.notifications.are_awaited
                && matches!(message, Message::NotificationResponse(_));
            if let Some(answer) = self.keep(message) {
                return Ok(answer);
            }
            unasked += usize::from(!is_of_others);
        }
        Err(self.garbled(&ENDLESS))
    }

    fn receive_any(&mut self) -> Result<Message, Fault> {
        loop {
            let header = Header::parse(&self.input).map_err(|error| self.garbled(&error))?;
            if header.is_some_and(|header| header.len() > LONGEST_MESSAGE) {
                return Err(self.garbled(&"a message of more than 16 MB"));
            }
            let message = Message::parse(&mut self.input).map_err(|error| self.garbled(&error))?;
            if let Some(message) = message {
                return Ok(message);
            }
            let before = self.input.len();
            self.input.resize(before + PART, 0);
            let read = self.stream.read(&mut self.input[before..]);
            self.input.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(Fault::Gone("the server closed the connection".to_owned())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broke_off(&error)),
            }
        }
    }

    /// The text of statements that are sent at once, and how often it sets [`TRUSTED`]. Those after a COMMIT are another transaction.
    fn text(&self, statements: &[&str]) -> (String, usize) {
        let (mut text, mut settings) = (String::new(), 0);
        let mut begins = self.is_outside;
        for statement in statements {
            let setting = if self.may_be_pooled && begins {
                settings += 1;
                TRUSTED
            } else {
                ""
            };
            if text.is_empty() {
                text = commented(statement, &self.comment, setting);
            } else {
                text += "; ";
                text += setting;
                text += statement;
            }
            begins = statement.ends_with("COMMIT");
        }
        (text, settings)
    }

    /// Sends statements, and adds the answer to each, as [`Wire::send`]. If the server no longer waits for its standby, none of them is
    /// believed: whoever asks must find out on another session what became of them, and a write there waits for the standby again.
    fn run(
        &mut self,
        statements: &[&str],
        most_rows: usize,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Failed> {
        self.gave_up_standby = false;
        let before = replies.len();
        let answered = self.send_and_read(statements, most_rows, replies);
        if self.gave_up_standby {
            replies.truncate(before);
            return Err(gone(Fault::Gone(GAVE_UP_STANDBY.to_owned())));
        }
        answered
    }

    fn send_and_read(
        &mut self,
        statements: &[&str],
        most_rows: usize,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Failed> {
        let mut query = BytesMut::new();
        let (statements, mut settings) = self.text(statements);
        frontend::query(&statements, &mut query).map_err(|error| gone(self.garbled(&error)))?;
        self.write(&query).map_err(gone)?;
        let (mut columns, mut rows): (Rc<[String]>, Vec<Row>) = (Rc::new([]), Vec::new());
        let mut refusal: Option<Refusal> = None;
        let mut dropped = 0;
        while dropped < MOST_DROPPED {
            match self.receive().map_err(gone)? {
                Message::RowDescription(body) => {
                    columns = names(&body).map_err(|error| gone(self.garbled(&error)))?;
                    dropped += 1;
                }
                Message::DataRow(body) if rows.len() < most_rows => {
                    let row = row(&columns, &body);
                    rows.push(row.map_err(|error| gone(self.garbled(&error)))?);
                }
                Message::DataRow(_) => dropped += 1,
                Message::CommandComplete(_) | Message::EmptyQueryResponse
                    if replies.len() >= MOST_REPLIES =>
                {
                    return Err(gone(self.garbled(&ENDLESS)));
                }
                Message::CommandComplete(body) => {
                    let tag = body.tag().map_err(|error| gone(self.garbled(&error)))?;
                    if tag == "SET" && settings > 0 {
                        settings -= 1;
                        continue;
                    }
                    replies.push(Reply {
                        rows: std::mem::take(&mut rows),
                        changed: changed(tag),
                        insert_id: None,
                    });
                }
                Message::EmptyQueryResponse => replies.push(Reply::default()),
                Message::ErrorResponse(body) => {
                    let refused = Refusal::read(&body);
                    if refused.is_fatal {
                        return Err(gone(refused.of_statement(&self.server)));
                    }
                    refusal = Some(refused);
                    dropped += 1;
                }
                Message::ReadyForQuery(body) => {
                    self.is_outside = body.status() == OUTSIDE;
                    return refusal.map_or(Ok(()), |refusal| {
                        Err(Failed {
                            fault: refusal.of_statement(&self.server),
                            code: Some(refusal.code()),
                        })
                    });
                }
                _ => return Err(gone(self.garbled(&"an answer to another question"))),
            }
        }
        Err(gone(self.garbled(&ENDLESS)))
    }
}

impl Wire for PostgresWire {
    fn send(
        &mut self,
        statements: &[&str],
        most_rows: usize,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Failed> {
        self.run(statements, most_rows, replies)
    }

    fn send_both(&mut self, statements: &str) -> Result<Option<Row>, Failed> {
        let mut replies = Vec::new();
        self.run(&[statements], 1, &mut replies)?;
        Ok(replies.pop().and_then(|mut reply| reply.rows.pop()))
    }

    fn await_notification(&mut self, limit: Duration) -> Result<bool, Fault> {
        self.notifications.are_awaited = true;
        let until = Instant::now() + limit;
        let before = reading_limit(self.as_fd());
        while !self.notifications.have_come {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let limited = limit_reading(self.as_fd(), left);
            limited.map_err(|error| of_transport(&error))?;
            match self.receive_unasked() {
                Ok(()) => {}
                Err(Unasked::Nothing) => break,
                Err(Unasked::End(fault)) => return Err(fault),
            }
        }
        before
            .and_then(|before| limit_reading(self.as_fd(), before))
            .map_err(|error| of_transport(&error))?;
        Ok(std::mem::take(&mut self.notifications.have_come))
    }

    fn last_words(&mut self) -> Option<String> {
        // It may say much before its end, and not for ever.
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_LAST_WORDS {
            // It is readable, so this waits for nothing but the rest of a message.
            if limit_reading(self.as_fd(), REST_OF_A_MESSAGE).is_err() {
                return Some("the server ended the session".to_owned());
            }
            match self.receive_unasked() {
                Ok(()) => {}
                Err(Unasked::Nothing) => return None,
                Err(Unasked::End(fault)) => return Some(fault.to_string()),
            }
        }
        Some(self.garbled(&ENDLESS).to_string())
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    fn id(&self) -> u64 {
        u64::from(self.pid)
    }

    fn encryption(&self) -> Option<&str> {
        self.encryption.as_deref()
    }
}

impl AsFd for PostgresWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Drop for PostgresWire {
    /// Logs out: otherwise the server notes that the client was lost.
    fn drop(&mut self) {
        let mut bye = BytesMut::new();
        frontend::terminate(&mut bye);
        let _ = self.write(&bye);
    }
}

/// A statement was not carried out, and the session has ended.
fn gone(fault: Fault) -> Failed {
    Failed { fault, code: None }
}

/// Whether a notice says that a commit no longer waits for the standby.
fn is_of_standby(notice: &NoticeResponseBody) -> bool {
    let mut fields = notice.fields();
    while let Ok(Some(field)) = fields.next() {
        if field.type_() == b'R' {
            return field.value_bytes() == WAITS_FOR_STANDBY;
        }
    }
    false
}

/// How many rows a statement has changed, from the tag of its end: `UPDATE 1`, `INSERT 0 1`, `SELECT 3`.
fn changed(tag: &str) -> u64 {
    let (what, number) = tag.rsplit_once(' ').unwrap_or((tag, ""));
    let is_write =
        ["INSERT", "UPDATE", "DELETE", "MERGE"].contains(&what.split(' ').next().unwrap_or(what));
    number.parse().ok().filter(|_| is_write).unwrap_or_default()
}

fn names(body: &RowDescriptionBody) -> io::Result<Rc<[String]>> {
    let names = body.fields().map(|field| Ok(field.name().to_owned()));
    Ok(names.collect::<Vec<_>>()?.into())
}

fn row(columns: &Rc<[String]>, body: &DataRowBody) -> io::Result<Row> {
    let values = body.ranges().map(|range| {
        let value = range.and_then(|range| body.buffer().get(range));
        Ok(value.map(<[u8]>::to_vec))
    });
    Ok(Row {
        columns: Rc::clone(columns),
        values: values.collect()?,
    })
}

/// The connection broke, or an answer did not come in time.
pub(super) fn of_transport(error: &io::Error) -> Fault {
    let tls = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match (tls, broken_off(error)) {
        (Some(error), _) => Fault::Gone(format!("TLS broke off: {error}")),
        (None, Some(cause)) => Fault::Gone(cause),
        (None, None) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Fault::Gone("the server closed the connection".to_owned())
        }
        (None, None) => Fault::Gone(format!("{NO_ANSWER}: {error}")),
    }
}

/// What came from `server` is not PostgreSQL's protocol.
pub(super) fn garbled(server: &str, what: &dyn Display) -> Fault {
    let line =
        format!("{server} does not speak the PostgreSQL protocol as dblock knows it: {what}");
    Fault::Final(Failure::new(Reason::Internal, line))
}
