//! A scripted server: it shakes hands like a real one, and a closure decides the answer to every statement.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::{Kind, url_of_port, within};

/// What the server answers to one statement.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Done, nothing to show.
    Ok,
    /// An error packet. What follows in the same packet of statements is not looked at, as on a real server.
    Error(u16, String),
    /// One row with these values; `None` is NULL.
    Row(Vec<Option<String>>),
    /// A result with so many columns and no row.
    NoRow(usize),
    /// These bytes, as they are.
    Raw(Vec<u8>),
    /// Whatever this says, until the client has gone.
    Talk(fn(&mut TcpStream)),
    /// Nothing, for ever.
    Silence,
    /// The connection is closed.
    Close,
}

impl Answer {
    /// An error packet.
    pub fn error(code: u16, text: &str) -> Self {
        Self::Error(code, text.to_owned())
    }
}

/// A running scripted server. Any account may connect, with any password.
#[derive(Debug)]
pub struct Fake {
    pub port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

type Script = Mutex<Box<dyn FnMut(&str) -> Answer + Send>>;

impl Fake {
    /// A server that calls itself one of this kind and answers each statement with what `script` says.
    pub fn start(kind: Kind, script: impl FnMut(&str) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let script: Arc<Script> = Arc::new(Mutex::new(Box::new(script)));
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let notes = Arc::clone(&seen);
        thread::spawn(move || {
            for (id, client) in (1..).zip(listener.incoming().flatten()) {
                let (script, notes) = (Arc::clone(&script), Arc::clone(&notes));
                thread::spawn(move || serve(client, kind, id, &script, &notes));
            }
        });
        Self { port, seen }
    }

    /// What a user gives as `--url`.
    pub fn url(&self) -> String {
        url_of_port(self.port)
    }

    /// Every statement that came, in order.
    pub fn statements(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn serve(
    client: TcpStream,
    kind: Kind,
    id: u32,
    script: &Script,
    seen: &Mutex<Vec<String>>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut wire = Wire {
        stream: client,
        sequence: 0,
    };
    wire.send(&greeting(kind, id))?;
    wire.receive()?;
    wire.send(OK)?;
    loop {
        let packet = wire.receive()?;
        match packet.split_first() {
            Some((1, _)) => return Ok(()),
            Some((3, text)) => {
                let text = String::from_utf8_lossy(text).into_owned();
                let statements: Vec<&str> = text
                    .split(';')
                    .map(|one| unnamed(one.trim()))
                    .filter(|one| !one.is_empty())
                    .collect();
                for (place, statement) in statements.iter().enumerate() {
                    let more = place + 1 < statements.len();
                    seen.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((*statement).to_owned());
                    let answer = script.lock().unwrap_or_else(PoisonError::into_inner)(statement);
                    if !wire.answer(answer, more)? {
                        break;
                    }
                }
            }
            _ => wire.send(OK)?,
        }
    }
}

/// A statement without the comment that names it.
fn unnamed(statement: &str) -> &str {
    let named = statement.strip_prefix("/* dblock ");
    let rest = named.and_then(|named| named.split_once("*/"));
    rest.map_or(statement, |(_, rest)| rest.trim_start())
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// The status flag "one more result follows".
const MORE_RESULTS: u8 = 8;

/// The status flag "autocommit", which a real server always sets.
const AUTOCOMMIT: u8 = 2;

/// The first packet of a server that calls itself one of this kind.
pub fn greeting(kind: Kind, id: u32) -> Vec<u8> {
    let version = match kind {
        Kind::MariaDb => "5.5.5-10.11.19-MariaDB",
        Kind::Postgres => unreachable!("a test of MySQL"),
        Kind::MySql => "9.7.4",
    };
    // Long password, found rows, long flag, connect with a database, protocol 4.1, transactions, secure connection.
    let low = 0x0001u16 | 0x0002 | 0x0004 | 0x0008 | 0x0200 | 0x2000 | 0x8000;
    // Several statements, several results, results of prepared ones, authentication plugins, connection attributes.
    let high = 0x0001u16 | 0x0002 | 0x0004 | 0x0008 | 0x0010;
    let mut packet = vec![10];
    packet.extend(version.as_bytes());
    packet.push(0);
    packet.extend(id.to_le_bytes());
    packet.extend(b"saltsalt\0");
    packet.extend(low.to_le_bytes());
    packet.push(45);
    packet.extend(u16::from(AUTOCOMMIT).to_le_bytes());
    packet.extend(high.to_le_bytes());
    packet.push(21);
    packet.extend([0; 10]);
    packet.extend(b"moresaltsalt\0");
    packet.extend(b"mysql_native_password\0");
    packet
}

/// The payload of an error packet.
pub fn error(code: u16, text: &str) -> Vec<u8> {
    let mut packet = vec![0xff];
    packet.extend(code.to_le_bytes());
    packet.extend(b"#HY000");
    packet.extend(text.as_bytes());
    packet
}

/// Reads on until the other side is gone.
pub fn until_closed(stream: &mut TcpStream) {
    while let Ok(1..) = stream.read(&mut [0; 4096]) {}
}

/// Sends these bytes one by one, a long pause before each, until the other side is gone.
pub fn trickle(stream: &mut TcpStream, bytes: &[u8]) {
    for byte in bytes {
        // A pause, unless the other side is gone.
        let gone = within(Duration::from_millis(300), || {
            stream.set_nonblocking(true).is_err() || matches!(stream.peek(&mut [0]), Ok(0))
        });
        let _ = stream.set_nonblocking(false);
        if gone || stream.write_all(&[*byte]).is_err() {
            return;
        }
    }
}

/// A payload with its header in front.
pub fn framed(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .expect("a small packet")
        .to_le_bytes();
    let mut bytes = vec![length[0], length[1], length[2], sequence];
    bytes.extend(payload);
    bytes
}

struct Wire {
    stream: TcpStream,
    sequence: u8,
}

impl Wire {
    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut header = [0; 4];
        self.stream.read_exact(&mut header)?;
        self.sequence = header[3].wrapping_add(1);
        let mut payload =
            vec![0; u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }

    fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&framed(self.sequence, payload))?;
        self.sequence = self.sequence.wrapping_add(1);
        Ok(())
    }

    /// Sends an answer. Whether the next statement's may follow.
    fn answer(&mut self, answer: Answer, more: bool) -> io::Result<bool> {
        let status = AUTOCOMMIT | if more { MORE_RESULTS } else { 0 };
        match answer {
            Answer::Ok => self.send(&[0, 0, 0, status, 0, 0, 0])?,
            Answer::Error(code, text) => {
                self.send(&error(code, &text))?;
                return Ok(false);
            }
            Answer::Row(values) => self.rows(values.len(), Some(&values), status)?,
            Answer::NoRow(columns) => self.rows(columns, None, status)?,
            Answer::Raw(bytes) => self.stream.write_all(&bytes)?,
            Answer::Talk(talk) => {
                talk(&mut self.stream);
                until_closed(&mut self.stream);
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Answer::Silence => {
                until_closed(&mut self.stream);
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Answer::Close => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
        Ok(true)
    }

    fn rows(
        &mut self,
        columns: usize,
        row: Option<&[Option<String>]>,
        status: u8,
    ) -> io::Result<()> {
        let end = [0xfe, 0, 0, status, 0];
        self.send(&[u8::try_from(columns).expect("few columns")])?;
        for _ in 0..columns {
            // catalog, database, table, original table, name, original name; then the fixed part of a text column.
            let mut definition = b"\x03def\0\0\0\x01c\0\x0c".to_vec();
            definition.extend([45, 0, 255, 0, 0, 0, 253, 0, 0, 0, 0, 0]);
            self.send(&definition)?;
        }
        self.send(&end)?;
        if let Some(row) = row {
            let mut payload = Vec::new();
            for value in row {
                match value {
                    None => payload.push(0xfb),
                    Some(text) => {
                        payload.push(
                            u8::try_from(text.len())
                                .ok()
                                .filter(|&n| n < 0xfb)
                                .expect("a short value"),
                        );
                        payload.extend(text.as_bytes());
                    }
                }
            }
            self.send(&payload)?;
        }
        self.send(&end)
    }
}
