//! A plain client of PostgreSQL, which asks one question at a time.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{ErrorResponseBody, Message};
use postgres_protocol::message::frontend;

use super::ADMIN;

/// The database that the tests lock in.
pub const DATABASE: &str = "app";

/// What a server refuses something with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The SQLSTATE; empty where the connection has ended.
    pub state: String,
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}", self.state, self.message)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self {
            state: String::new(),
            message: error.to_string(),
        }
    }
}

/// The rows of an answer, each value as text; `None` is NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// The admin's sessions that nothing uses now. To log in takes a server ten times as long as to answer.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// More are not kept, of all servers.
const MOST_IDLE: usize = 8;

/// How long it may take to log in. A server that has just been frozen does not answer.
const LOGIN: Duration = Duration::from_secs(60);

/// How long a server may take to make a session as new. A frozen one does not answer.
const CLEARED: Duration = Duration::from_secs(1);

struct Idle {
    server: (Ipv4Addr, u16),
    stream: TcpStream,
    pid: u64,
}

fn idle() -> MutexGuard<'static, Vec<Idle>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends those on a server.
pub fn end_idle(server: (Ipv4Addr, u16)) {
    idle().retain(|session| session.server != server);
}

/// A session. When this is dropped nothing is left of it: it ends, or it is as new for the next.
#[derive(Debug)]
pub struct Postgres {
    stream: TcpStream,
    input: BytesMut,
    /// The server's process.
    pub pid: u64,
    notifications: VecDeque<String>,
    /// Whether an answer is to come.
    is_asked: bool,
    is_in_transaction: bool,
    /// The server, where it is the admin's session and may be used again.
    server: Option<(Ipv4Addr, u16)>,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let Some(server) = self.server else { return };
        if std::thread::panicking() || self.clear().is_err() {
            return;
        }
        let Ok(stream) = self.stream.try_clone() else {
            return;
        };
        let mut idle = idle();
        if idle.len() >= MOST_IDLE {
            // Of some the server may have ended.
            idle.retain(|session| is_silent(&session.stream));
        }
        if idle.len() < MOST_IDLE {
            let pid = self.pid;
            idle.push(Idle {
                server,
                stream,
                pid,
            });
        }
    }
}

impl Postgres {
    /// The admin's: one that is there, or a new one.
    pub fn of_admin(server: (Ipv4Addr, u16)) -> Result<Self, Refused> {
        let known = || {
            let mut idle = idle();
            let at = idle.iter().position(|session| session.server == server)?;
            Some(idle.swap_remove(at))
        };
        let known = std::iter::from_fn(known).find(|session| is_silent(&session.stream));
        let session = known.map(|Idle { stream, pid, .. }| Self::over(stream, pid));
        let session = session.map_or_else(|| Self::connect(server, ADMIN, DATABASE), Ok);
        session.map(|mut session| {
            session.server = Some(server);
            session
        })
    }

    fn over(stream: TcpStream, pid: u64) -> Self {
        Self {
            stream,
            pid,
            input: BytesMut::new(),
            notifications: VecDeque::new(),
            is_asked: false,
            is_in_transaction: false,
            server: None,
        }
    }

    /// Makes it as new: no lock, no setting, no transaction. What a login reads of a role or a database is not read again.
    fn clear(&mut self) -> Result<(), Refused> {
        if self.is_asked || !self.input.is_empty() || !is_silent(&self.stream) {
            return Err(io::Error::other("there is more to read").into());
        }
        self.stream.set_read_timeout(Some(CLEARED))?;
        if self.is_in_transaction {
            self.try_query("ROLLBACK")?;
        }
        self.try_query("DISCARD ALL")?;
        Ok(self.stream.set_read_timeout(None)?)
    }

    /// Logs in by TCP, without TLS.
    pub fn connect(
        address: impl std::net::ToSocketAddrs,
        account: (&str, &str),
        database: &str,
    ) -> Result<Self, Refused> {
        Self::connect_with(address, account, database, &[])
    }

    /// The same, with more settings of the login.
    pub fn connect_with(
        address: impl std::net::ToSocketAddrs,
        (user, password): (&str, &str),
        database: &str,
        more: &[(&str, &str)],
    ) -> Result<Self, Refused> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOGIN))?;
        let mut session = Self::over(stream, 0);
        session.write(|out| {
            let settings = [("user", user), ("database", database), ("TimeZone", "UTC")];
            let settings = settings.into_iter().chain(more.iter().copied());
            frontend::startup_message(settings, out)
        })?;
        let mut scram = None;
        loop {
            match session.receive()? {
                Message::AuthenticationSasl(_) => {
                    let new = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
                    session.write(|out| {
                        frontend::sasl_initial_response(SCRAM_SHA_256, new.message(), out)
                    })?;
                    scram = Some(new);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let scram = scram.as_mut().expect("it has begun");
                    scram.update(body.data())?;
                    session.write(|out| frontend::sasl_response(scram.message(), out))?;
                }
                Message::BackendKeyData(body) => {
                    session.pid = u64::from(body.process_id().cast_unsigned());
                }
                Message::ErrorResponse(body) => return Err(refused(&body)),
                Message::ReadyForQuery(_) => {
                    session.stream.set_read_timeout(None)?;
                    return Ok(session);
                }
                _ => {}
            }
        }
    }

    fn write(&mut self, message: impl FnOnce(&mut BytesMut) -> io::Result<()>) -> io::Result<()> {
        let mut out = BytesMut::new();
        message(&mut out)?;
        self.stream.write_all(&out)
    }

    fn receive(&mut self) -> io::Result<Message> {
        loop {
            match Message::parse(&mut self.input)? {
                Some(Message::NotificationResponse(body)) => {
                    self.notifications.push_back(body.channel()?.to_owned());
                }
                Some(message) => return Ok(message),
                None => {
                    let mut part = [0; 8192];
                    let read = self.stream.read(&mut part)?;
                    if read == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.input.extend_from_slice(&part[..read]);
                }
            }
        }
    }

    /// From now on an answer that takes longer is an error.
    pub fn answers_within(&self, limit: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(limit))
    }

    /// Asks without waiting for an answer.
    pub fn begin(&mut self, sql: &str) -> Result<(), Refused> {
        self.is_asked = true;
        Ok(self.write(|out| frontend::query(sql, out))?)
    }

    /// Waits for the answer.
    pub fn end(&mut self) -> Result<Rows, Refused> {
        let (mut rows, mut outcome) = (Rows::new(), Ok(()));
        loop {
            match self.receive()? {
                Message::DataRow(body) => {
                    let buffer = body.buffer();
                    let text = |range: Option<std::ops::Range<usize>>| {
                        Ok(range.map(|range| String::from_utf8_lossy(&buffer[range]).into_owned()))
                    };
                    rows.push(body.ranges().map(text).collect()?);
                }
                Message::ErrorResponse(body) => outcome = Err(refused(&body)),
                Message::ReadyForQuery(body) => {
                    self.is_asked = false;
                    self.is_in_transaction = body.status() != b'I';
                    return outcome.map(|()| rows);
                }
                _ => {}
            }
        }
    }

    /// The rows of an answer.
    pub fn try_query(&mut self, sql: &str) -> Result<Rows, Refused> {
        self.begin(sql)?;
        self.end()
    }

    /// The rows of an answer.
    #[track_caller]
    pub fn query(&mut self, sql: &str) -> Rows {
        self.try_query(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The first column of each row.
    #[track_caller]
    pub fn column<T: FromStr>(&mut self, sql: &str) -> Vec<T> {
        let rows = self.query(sql);
        let first = |mut row: Vec<Option<String>>| row.swap_remove(0)?.parse().ok();
        rows.into_iter().filter_map(first).collect()
    }

    /// The first column of the first row, if there is one that is not NULL.
    #[track_caller]
    pub fn value<T: FromStr>(&mut self, sql: &str) -> Option<T> {
        self.column(sql).into_iter().next()
    }

    /// Does this, and needs no answer.
    #[track_caller]
    pub fn run(&mut self, sql: &str) {
        self.query(sql);
    }

    /// Whether this says yes.
    #[track_caller]
    pub fn is(&mut self, condition: &str) -> bool {
        self.value::<String>(&format!("SELECT {condition}"))
            .as_deref()
            == Some("t")
    }
}

/// Whether the server has said nothing, not even that the session has ended.
fn is_silent(stream: &TcpStream) -> bool {
    let is_silent = stream.set_nonblocking(true).is_ok()
        && stream
            .peek(&mut [0])
            .is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    is_silent && stream.set_nonblocking(false).is_ok()
}

fn refused(body: &ErrorResponseBody) -> Refused {
    let mut refused = Refused {
        state: String::new(),
        message: String::new(),
    };
    let mut fields = body.fields();
    while let Ok(Some(field)) = fields.next() {
        let text = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => refused.state = text,
            b'M' => refused.message = text,
            _ => {}
        }
    }
    refused
}

/// A simple statement of MySQL's in PostgreSQL's words: its time, spans, and the column `user`.
pub fn in_its_words(sql: &str) -> String {
    let sql = sql.replace("UTC_TIMESTAMP(6)", "clock_timestamp()");
    let sql = sql.replace(" user,", " \"user\",");
    let sql = sql
        .replace("DATE_FORMAT(", "to_char(")
        .replace("'%m-%d %H:%i'", "'MM-DD HH24:MI'");
    let mut parts = sql.split("INTERVAL ");
    let first = parts.next().unwrap_or_default().to_owned();
    let spans = parts.map(|part| {
        let (number, rest) = part.split_once(' ').expect("a number and a unit");
        let end = rest.find(|c: char| !c.is_ascii_uppercase());
        let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
        format!("interval '{number} {unit}'{rest}")
    });
    let sql = first + &spans.collect::<String>();
    // Two moments without a comma in them.
    let mut parts = sql.split("TIMESTAMPDIFF(MICROSECOND, ");
    let first = parts.next().unwrap_or_default().to_owned();
    let differences = parts.map(|part| {
        let (from, part) = part.split_once(", ").expect("a moment");
        let (to, rest) = part.split_once(')').expect("another one");
        format!("(1000000 * extract(epoch FROM {to} - {from}))::bigint{rest}")
    });
    first + &differences.collect::<String>()
}

/// A string as SQL has it.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The key of a lock (its name on a MySQL server), as the documents have it in SQL.
pub fn key(name: &str) -> String {
    format!(
        "('x'||left(encode(sha256(convert_to({},'UTF8')),'hex'),16))::bit(64)::bigint",
        literal(name)
    )
}

/// The advisory locks of this database that are held.
const HELD: &str = "pg_locks WHERE locktype = 'advisory' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Who holds the lock of this name.
pub fn holders(name: &str) -> String {
    format!(
        "SELECT pid FROM {HELD} AND objsubid = 1 AND (classid::bigint << 32) | objid::bigint = {}",
        key(name)
    )
}

/// Who waits for a slot of the lock of this name, in order. They hold keys of two numbers: that of the line, and their own.
pub fn waiters(name: &str) -> String {
    format!(
        "SELECT pid FROM {HELD} AND {} ORDER BY objid",
        in_line(name)
    )
}

/// Whether a row of `pg_locks` is of somebody in the line for the lock of this name.
pub fn in_line(name: &str) -> String {
    format!(
        "objsubid = 2 AND classid::bigint = ({} >> 32) & 4294967295",
        key(&format!("{name}#wait"))
    )
}
