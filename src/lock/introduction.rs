//! The connection attributes that dblock sends to a server, so that others can see who holds a lock.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use nix::unistd::{Pid, gethostname};

use super::Name;
use crate::base::text::{cut_to_bytes, printable};
use crate::base::user::local_user;
use crate::db::PROGRAM;

/// The most bytes of all attributes, with a byte or two for the length of each name and value. By default a server keeps 512
/// (`performance_schema_session_connect_attrs_size`), and drops the rest. The `mysql` crate uses 150.
const ROOM: usize = 512 - 150;

/// The most bytes of a host's, a user's and a program's name.
const LONGEST_HOST: usize = 64;
const LONGEST_USER: usize = 32;
const LONGEST_COMMAND: usize = 48;

/// What the connection attributes say.
#[derive(Debug, Clone)]
pub struct Introduction {
    /// The process that a user sees. Another process connects.
    pub pid: Pid,
    /// The lock to acquire; `None` for a command that acquires none.
    pub lock: Option<Name>,
    /// The program to run, without folder and arguments, or the name of dblock's own subcommand.
    pub command: String,
    /// When dblock was started.
    pub started: SystemTime,
    /// Whether it may wait for the lock. Then it acquires the lock later than it started.
    pub waits: bool,
    /// How many slots of the lock it may use.
    pub slots: u32,
    /// How long the server keeps the session without a statement.
    pub ttl: Duration,
}

impl Introduction {
    /// For one of dblock's own subcommands that acquires no lock, running in this process.
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

    /// The attributes. Unprintable characters are escaped, and long values cut. A lock's name that is too long is replaced by its name on
    /// the server.
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
            attributes.extend(lock.key().map(|key| ("key", key.to_string())));
        }
        attributes
    }
}

/// The name of this host, as others see it.
pub fn own_host() -> String {
    let host = gethostname().unwrap_or_default();
    safe(&host.to_string_lossy(), LONGEST_HOST)
}

/// The text with unprintable characters escaped, cut at a character.
fn safe(text: &str, longest: usize) -> String {
    cut_to_bytes(&printable(text), longest).to_owned()
}
