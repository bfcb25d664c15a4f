//! The connection attributes that dblock sends to a server, so that others can see who holds a lock.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use nix::unistd::{Pid, gethostname};

use super::Name;
use crate::base::text::{cut_to_bytes, printable};
use crate::base::user::local_user;
use crate::db::PROGRAM;

/// Bytes of all attributes at most, with a byte or two for the length of each name and value: a server keeps 512 where it is
/// not configured otherwise (`performance_schema_session_connect_attrs_size`), and drops what is beyond. 150 are the crate's own.
const ROOM: usize = 512 - 150;

/// Bytes of a host's, a user's and a program's name at most.
const LONGEST_HOST: usize = 64;
const LONGEST_USER: usize = 32;
const LONGEST_COMMAND: usize = 48;

/// What the connection attributes say.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// The process that a user sees; another one connects.
    pub pid: Pid,
    /// The lock that is asked for; `None` for a command that asks for none.
    pub lock: Option<Name>,
    /// The program to run, without folder and arguments, or the name of dblock's own subcommand.
    pub command: String,
    /// When dblock was started.
    pub started: SystemTime,
    /// Whether it may wait for the lock, so that it acquires it later than it started.
    pub waits: bool,
    /// How many slots of the lock it may use.
    pub slots: u32,
    /// How long the server keeps the session without a statement.
    pub ttl: Duration,
}

impl Introduction {
    /// For one of dblock's own subcommands that acquires no lock, in the process of this number.
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

    /// The attributes. Odd characters are made visible, and long values cut. Instead of a lock's name that is too long they have its
    /// name on the server.
    pub fn attributes(&self) -> HashMap<&'static str, String> {
        let started = self.started.duration_since(SystemTime::UNIX_EPOCH);
        let mut attributes = HashMap::from([
            ("program_name", PROGRAM.to_owned()),
            ("program_version", env!("CARGO_PKG_VERSION").to_owned()),
            ("host", own_host()),
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

/// The name of this host, as others are told.
pub fn own_host() -> String {
    let host = gethostname().unwrap_or_default();
    safe(&host.to_string_lossy(), LONGEST_HOST)
}

/// A text with odd characters made visible, cut between two characters.
fn safe(text: &str, longest: usize) -> String {
    cut_to_bytes(&printable(text), longest).to_owned()
}
