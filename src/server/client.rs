//! Who has a session: what it says of itself when it connects (connection attributes), and what the server saw of it.
//! Nobody vouches for what a client says.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use mysql::Row;
use nix::unistd::{Pid, gethostname};
use serde::{Deserialize, Serialize};

use super::{Fault, Listener, Session, cell};
use crate::lock::Name;
use crate::report::{in_seconds, printable};
use crate::settings::local_user;

/// What dblock is called among the programs of a server's clients.
const PROGRAM: &str = "dblock";

/// Bytes of all attributes at most, with a byte or two for the length of each name and value: a server keeps 512 where it is
/// not told otherwise (`performance_schema_session_connect_attrs_size`), and drops what is beyond. 150 are the crate's own.
const ROOM: usize = 512 - 150;

/// Bytes of a host's, a user's and a program's name at most.
const LONGEST_HOST: usize = 64;
const LONGEST_USER: usize = 32;
const LONGEST_COMMAND: usize = 48;

/// The attributes that are read of others.
const KNOWN: [&str; 11] = [
    "program_name",
    "lock",
    "host",
    "pid",
    "_pid",
    "os_user",
    "command",
    "started",
    "waits",
    "slots",
    "ttl",
];

/// Bytes of what another says at most, and of the lock's name: all of it crosses to another process in one packet.
const LONGEST_CLAIM: usize = 100;
const LONGEST_NAME: usize = 200;

/// What dblock says of itself to a server.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// The process that a person sees, which is not the one that connects.
    pub pid: Pid,
    /// The lock that is asked for; `None` for a command that asks for none.
    pub lock: Option<Name>,
    /// The program that is to be run, without folder and arguments, or dblock's own command.
    pub command: String,
    /// When dblock was started.
    pub started: SystemTime,
    /// Whether it may wait for the lock, so that it has had it since later.
    pub waits: bool,
    /// How many slots of the lock it is content with.
    pub slots: u32,
    /// How long the server keeps the session without a word.
    pub ttl: Duration,
}

impl Introduction {
    /// For a command of dblock's own that asks for no lock, of the process with this number.
    pub fn of_command(command: &str, pid: Pid, ttl: Duration) -> Self {
        Self {
            pid,
            lock: None,
            command: command.to_owned(),
            started: SystemTime::now(),
            waits: false,
            slots: 1,
            ttl,
        }
    }

    /// The attributes. Odd characters are made visible, long values cut. Should a lock's name be too long, its name on the
    /// server stands for it.
    pub fn attributes(&self) -> HashMap<&'static str, String> {
        let host = gethostname().unwrap_or_default();
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH);
        let mut attributes = HashMap::from([
            ("program_name", PROGRAM.to_owned()),
            ("program_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("host", safe(&host.to_string_lossy(), LONGEST_HOST)),
            ("pid", self.pid.to_string()),
            ("os_user", safe(&local_user(), LONGEST_USER)),
            ("command", safe(&self.command, LONGEST_COMMAND)),
            (
                "started",
                started.unwrap_or_default().as_millis().to_string(),
            ),
            ("waits", u8::from(self.waits).to_string()),
            ("slots", self.slots.to_string()),
            ("ttl", self.ttl.as_secs().to_string()),
        ]);
        if let Some(lock) = &self.lock {
            let size = |(name, value): (&&str, &String)| name.len() + value.len() + 2;
            let left =
                ROOM.saturating_sub(attributes.iter().map(size).sum::<usize>() + "lock".len() + 4);
            let whole = lock.to_string();
            let name = if whole.len() <= left {
                whole
            } else {
                lock.on_server()
            };
            attributes.insert("lock", name);
        }
        attributes
    }
}

/// A text without odd characters, cut at one.
fn safe(text: &str, longest: usize) -> String {
    cut(&printable(text), longest).to_owned()
}

/// The beginning of a text, cut at a character.
fn cut(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rfind(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or_default()]
}

/// What a client says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// What kind of program it is: `dblock`, `mysql`, …
    pub program: Option<String>,
    /// The lock that it was started for. Whether it has it, the server knows.
    pub lock: Option<String>,
    /// Its host's name.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<String>,
    /// The OS user that it runs as.
    pub os_user: Option<String>,
    /// The program that it runs under the lock.
    pub command: Option<String>,
    /// When it was started, by its own clock.
    pub started: Option<SystemTime>,
    /// Whether it may have waited for the lock since then.
    pub waits: bool,
    /// How many slots of the lock it is content with.
    pub slots: Option<u32>,
    /// How long the server keeps its session without a word.
    pub ttl: Option<Duration>,
}

impl Claims {
    /// Whether it says that it is a dblock.
    pub fn is_dblock(&self) -> bool {
        self.program.as_deref() == Some(PROGRAM)
    }

    fn note(&mut self, name: &str, whole: &str) {
        let value = cut(whole, LONGEST_CLAIM).to_owned();
        match name {
            "program_name" => {
                // Some programs give their path.
                let name = value.rsplit('/').next().unwrap_or_default();
                self.program = Some(name.to_owned());
            }
            // Compared with others, so not changed.
            "lock" if whole.len() <= LONGEST_NAME => self.lock = Some(whole.to_owned()),
            "host" => self.host = Some(value),
            "pid" => self.pid = Some(value),
            // That of the connecting process, for clients that say no other.
            "_pid" => {
                self.pid.get_or_insert(value);
            }
            "os_user" => self.os_user = Some(value),
            "command" => self.command = Some(value),
            "started" => {
                let since_epoch = value.parse().map(Duration::from_millis);
                self.started = since_epoch
                    .ok()
                    .and_then(|span| SystemTime::UNIX_EPOCH.checked_add(span));
            }
            "ttl" => self.ttl = value.parse().ok().map(Duration::from_secs),
            "slots" => self.slots = value.parse().ok(),
            "waits" => self.waits = value != "0",
            _ => {}
        }
    }
}

/// A session of somebody's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The server's number of the session.
    pub connection: u64,
    /// The account and the address, as `user@host:port`; `None` if this account may not see that.
    pub seen: Option<String>,
    /// What it says of itself; `None` if that cannot be seen, or it says nothing.
    pub claims: Option<Claims>,
}

impl Client {
    /// What it says of itself, if it says that it is a dblock on some host.
    pub fn dblock(&self) -> Option<(&str, &Claims)> {
        let claims = self.claims.as_ref().filter(|claims| claims.is_dblock())?;
        Some((claims.host.as_deref()?, claims))
    }
}

impl fmt::Display for Client {
    /// Who it is: `web2, pid 4711 (report)` of a dblock, else `connection 12 (app@10.0.0.7:51234; mysql, pid 99)`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Some((host, claims)) = self.dblock() {
            write!(f, "{host}")?;
            if let Some(pid) = &claims.pid {
                write!(f, ", pid {pid}")?;
            }
            return claims
                .command
                .as_ref()
                .map_or(Ok(()), |command| write!(f, " ({command})"));
        }
        write!(f, "connection {}", self.connection)?;
        let claims = self.claims.as_ref();
        let program = claims.and_then(|claims| claims.program.clone());
        let pid = claims.and_then(|claims| Some(format!("pid {}", claims.pid.as_ref()?)));
        let said = program
            .into_iter()
            .chain(pid)
            .collect::<Vec<_>>()
            .join(", ");
        let known = self
            .seen
            .iter()
            .cloned()
            .chain(Some(said).filter(|said| !said.is_empty()));
        let known = known.collect::<Vec<_>>().join("; ");
        if known.is_empty() {
            return Ok(());
        }
        write!(f, " ({known})")
    }
}

/// A client as the holder of a lock: who, and since when.
pub struct AsHolder<'a>(pub &'a Client);

impl fmt::Display for AsHolder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let Some((_, claims)) = self.0.dblock() else {
            return Ok(());
        };
        let Some(started) = claims.started else {
            return Ok(());
        };
        // A clock that is ahead of ours says nothing.
        let span = in_seconds(started.elapsed().unwrap_or_default());
        if claims.waits {
            write!(f, ", which asked for it {span} ago")
        } else {
            write!(f, ", for {span}")
        }
    }
}

/// What sessions say of themselves, by the sessions' numbers, as far as this account may see it. `only` one of them, or all.
///
/// # Errors
/// [`Fault::Gone`].
pub fn claims(
    session: &mut Session,
    table: &str,
    only: Option<u64>,
    listener: &Listener,
) -> Result<Result<HashMap<u64, Claims>, u16>, Fault> {
    let which = only.map_or_else(String::new, |id| format!(" AND PROCESSLIST_ID = {id}"));
    let names = KNOWN.map(|name| format!("'{name}'")).join(", ");
    let statement = format!(
        "SELECT PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE FROM performance_schema.{table} WHERE ATTR_NAME IN ({names}){which}"
    );
    let rows = match session.inquire_all(&statement, listener)? {
        Ok(rows) => rows,
        Err(refused) => return Ok(Err(refused)),
    };
    let mut all: HashMap<u64, Claims> = HashMap::new();
    // The general ones first, for what dblock says counts more.
    let (general, own): (Vec<_>, Vec<_>) = rows
        .iter()
        .filter_map(attribute)
        .partition(|(_, name, _)| name.starts_with('_'));
    for (id, name, value) in own.into_iter().chain(general) {
        all.entry(id).or_default().note(&name, &value);
    }
    Ok(Ok(all))
}

fn attribute(row: &Row) -> Option<(u64, String, String)> {
    Some((cell(row, 0)?, cell(row, 1)?, cell(row, 2)?))
}

/// The table that shows every account what its own sessions say of themselves.
pub const OWN_ATTRIBUTES: &str = "session_account_connect_attrs";
/// The table with those of all, for accounts that may read it.
pub const ALL_ATTRIBUTES: &str = "session_connect_attrs";

/// Who has a session: two round trips, or three.
///
/// # Errors
/// [`Fault::Gone`].
pub fn client(id: u64, session: &mut Session, listener: &Listener) -> Result<Client, Fault> {
    let seen = format!(
        "SELECT CONCAT(USER, '@', HOST) FROM information_schema.processlist WHERE ID = {id}"
    );
    let seen = session.inquire(&seen, listener)?.ok().flatten();
    let all = claims(session, ALL_ATTRIBUTES, Some(id), listener)?;
    let claims = match all {
        Ok(all) => Ok(all),
        Err(_) => claims(session, OWN_ATTRIBUTES, Some(id), listener)?,
    };
    Ok(Client {
        connection: id,
        seen: seen.and_then(|row| cell(&row, 0)),
        claims: claims.ok().and_then(|mut claims| claims.remove(&id)),
    })
}
