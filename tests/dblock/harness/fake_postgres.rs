//! A scripted PostgreSQL: it lets everybody in, and a closure decides the answer to every statement. And the messages that it and
//! servers that are none are made of.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::{Kind, url_of_kind};

/// What a client asks for before it says who it is: TLS, or GSSAPI's encryption.
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// A message: its type, its length, and what follows.
pub fn message(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 4).expect("a small message");
    [&[kind], &length.to_be_bytes()[..], payload].concat()
}

/// A request to log in in some way, or (0) the answer that the login is good.
pub fn authentication(way: u32, more: &[u8]) -> Vec<u8> {
    message(b'R', &[&way.to_be_bytes(), more].concat())
}

/// The request to log in by SCRAM.
pub fn scram() -> Vec<u8> {
    authentication(10, b"SCRAM-SHA-256\0\0")
}

/// What a server says of a setting.
pub fn parameter(name: &str, value: &str) -> Vec<u8> {
    message(b'S', format!("{name}\0{value}\0").as_bytes())
}

/// The server's process.
pub fn key_data(pid: u32) -> Vec<u8> {
    message(b'K', &[pid.to_be_bytes(), [0, 0, 0, 7]].concat())
}

/// The server waits for a statement.
pub fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

/// The server refuses something, and ends the session if it is `FATAL`.
pub fn error(severity: &str, state: &str, text: &[u8]) -> Vec<u8> {
    let head = format!("S{severity}\0V{severity}\0C{state}\0M");
    message(b'E', &[head.as_bytes(), text, b"\0\0"].concat())
}

/// One row, with columns of these names; `None` is NULL.
pub fn row(columns: &[(&str, Option<&str>)]) -> Vec<u8> {
    let count = u16::try_from(columns.len())
        .expect("few columns")
        .to_be_bytes();
    let mut description = count.to_vec();
    let mut data = count.to_vec();
    for (name, value) in columns {
        description.extend(name.as_bytes());
        // No table's; text, of any length, as text.
        description.extend([
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0,
        ]);
        match value {
            None => data.extend((-1i32).to_be_bytes()),
            Some(value) => {
                data.extend(u32::try_from(value.len()).expect("short").to_be_bytes());
                data.extend(value.as_bytes());
            }
        }
    }
    [
        message(b'T', &description),
        message(b'D', &data),
        complete("SELECT 1"),
    ]
    .concat()
}

/// The end of a statement.
pub fn complete(tag: &str) -> Vec<u8> {
    message(b'C', format!("{tag}\0").as_bytes())
}

/// What a PostgreSQL of this version says of itself after a good login.
pub fn welcome(pid: u32, version: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        ("server_version", version),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("in_hot_standby", "off"),
        ("default_transaction_read_only", "off"),
        ("standard_conforming_strings", "on"),
    ];
    let parameters = usual.iter().chain(more);
    [
        authentication(0, b""),
        parameters
            .flat_map(|(name, value)| parameter(name, value))
            .collect(),
        key_data(pid),
        ready(),
    ]
    .concat()
}

/// Reads what a client begins with, and has it go on without TLS.
pub fn read_startup(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length).saturating_sub(4) as usize;
        let mut payload = vec![0; length.min(64 * 1024)];
        stream.read_exact(&mut payload)?;
        let asks = payload
            .first_chunk()
            .is_some_and(|code| [SSL_REQUEST, GSS_REQUEST].contains(&u32::from_be_bytes(*code)));
        if !asks {
            return Ok(payload);
        }
        stream.write_all(b"N")?;
    }
}

/// Reads a client's message: its type, and what follows its length.
pub fn read_message(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; 5];
    stream.read_exact(&mut header)?;
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
    let mut payload = vec![0; (length.saturating_sub(4) as usize).min(64 * 1024)];
    stream.read_exact(&mut payload)?;
    Ok((header[0], payload))
}

/// A running scripted server.
#[derive(Debug)]
pub struct FakePostgres {
    pub port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl FakePostgres {
    /// It says this after each login (see [`welcome`]), and answers each query with what `script` says; the end of the answer follows
    /// by itself.
    pub fn start(welcome: Vec<u8>, script: impl FnMut(&str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let script = Arc::new(Mutex::new(script));
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let notes = Arc::clone(&seen);
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let (script, notes, welcome) =
                    (Arc::clone(&script), Arc::clone(&notes), welcome.clone());
                thread::spawn(move || -> io::Result<()> {
                    client.set_nodelay(true)?;
                    read_startup(&mut client)?;
                    client.write_all(&welcome)?;
                    while let (b'Q', text) = read_message(&mut client)? {
                        let text = String::from_utf8_lossy(&text)
                            .trim_end_matches('\0')
                            .to_owned();
                        let mut answer =
                            script.lock().unwrap_or_else(PoisonError::into_inner)(&text);
                        notes
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(text);
                        answer.extend(ready());
                        client.write_all(&answer)?;
                    }
                    Ok(())
                });
            }
        });
        Self { port, seen }
    }

    /// What a user gives as `--url`.
    pub fn url(&self) -> String {
        url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), self.port)
    }

    /// Every query that came, in order.
    pub fn statements(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
