//! The client of a session: what it claims when it connects (connection attributes), and what the server saw. The server does not check
//! the claims.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::ask::{Ask, LIST, ask};
use super::fault::Fault;
use super::postgres::ask_sessions;
use super::session::Session;
use super::target::Kind;
use super::wire::Code;
use crate::base::text::cut_to_bytes;

/// dblock's name in a client's attributes.
pub const PROGRAM: &str = "dblock";

/// The attributes that are read.
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

/// The most bytes of an attribute, and of the lock's name: all of them go to another process in one packet.
const LONGEST_CLAIM: usize = 100;
const LONGEST_NAME: usize = 200;
/// The most bytes of an account and its address: several of them go to another process in one packet.
const LONGEST_ADDRESS: usize = 400;

/// What a client claims about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// What kind of program it is: `dblock`, `mysql`, …
    pub program: Option<String>,
    /// The lock that it was started for. Only the server knows whether the client holds it.
    pub lock: Option<String>,
    /// The key of that lock, if the name does not say it.
    pub key: Option<String>,
    /// Its host's name.
    pub host: Option<String>,
    /// The process on that host.
    pub pid: Option<String>,
    /// The OS user that it runs as.
    pub os_user: Option<String>,
    /// The program that it runs under the lock.
    pub command: Option<String>,
    /// When it was started, by its own clock.
    pub started: Option<SystemTime>,
    /// Whether it may have waited for the lock since then.
    pub waits: bool,
    /// How many slots of the lock it may use.
    pub slots: Option<u32>,
    /// How long the server keeps its idle session.
    pub ttl: Option<Duration>,
}

impl Claims {
    /// Whether it claims to be dblock.
    pub fn is_dblock(&self) -> bool {
        self.program.as_deref() == Some(PROGRAM)
    }

    /// What these attributes say, the later ones more strongly.
    pub fn of<'a>(attributes: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut claims = Self::default();
        for (name, value) in attributes {
            claims.note(name, value);
        }
        claims
    }

    fn note(&mut self, name: &str, whole: &str) {
        let value = cut_to_bytes(whole, LONGEST_CLAIM).to_owned();
        match name {
            "program_name" => {
                // Some programs send their path.
                let name = value.rsplit('/').next().unwrap_or_default();
                self.program = Some(name.to_owned());
            }
            // Never cut, as it is compared with other names.
            "lock" if whole.len() <= LONGEST_NAME => self.lock = Some(whole.to_owned()),
            "key" => self.key = Some(value),
            "host" => self.host = Some(value),
            "pid" => self.pid = Some(value),
            // The pid of the connecting process, if the client sends no other.
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

/// A session and its client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The connection id.
    pub connection: u64,
    /// The account and the address, as `user@host:port`; `None` if this account may not see that.
    pub address: Option<String>,
    /// What it claims; `None`: that cannot be seen, or there is nothing.
    pub claims: Option<Claims>,
}

impl Client {
    /// The host and the claims, if it claims to be dblock on some host.
    pub fn dblock(&self) -> Option<(&str, &Claims)> {
        let claims = self.claims.as_ref().filter(|claims| claims.is_dblock())?;
        Some((claims.host.as_deref()?, claims))
    }
}

impl fmt::Display for Client {
    /// The client: `web2, pid 4711 (report)` for dblock, else `connection 12 (app@10.0.0.7:51234; mysql, pid 99)`.
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
            .address
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

/// The table that shows every account the attributes of its own sessions.
pub const OWN_ATTRIBUTES: &str = "session_account_connect_attrs";
/// The table with the attributes of all sessions, for accounts that may read it.
pub const ALL_ATTRIBUTES: &str = "session_connect_attrs";

/// The claims of sessions, by connection id, as far as this account may see them. `only`: those of one session.
fn ask_claims(table: &'static str, only: Option<u64>) -> Ask<'static, HashMap<u64, Claims>> {
    let which = only.map_or_else(String::new, |id| format!(" AND PROCESSLIST_ID = {id}"));
    let names = KNOWN.map(|name| format!("'{name}'")).join(", ");
    let sql = format!(
        "SELECT PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE \
         FROM performance_schema.{table} WHERE ATTR_NAME IN ({names}){which}"
    );
    let attributes = ask("client attributes", sql, |rows| {
        let mut attributes: Vec<(u64, String, String)> = Vec::new();
        for row in rows.iter() {
            if let (Some(id), Some(name), Some(value)) = row.columns()? {
                attributes.push((id, name, value));
            }
        }
        // The general attributes last: dblock's own override them.
        attributes.sort_by_key(|(_, name, _)| name.starts_with('_'));
        let mut all: HashMap<u64, Claims> = HashMap::new();
        for (id, name, value) in attributes {
            all.entry(id).or_default().note(&name, &value);
        }
        Ok(all)
    });
    attributes.up_to(LIST)
}

/// The account and the address of a session, as `user@host:port`.
fn ask_address(id: u64) -> Ask<'static, Option<String>> {
    let sql = format!(
        "SELECT CONCAT(USER, '@', HOST) FROM information_schema.processlist WHERE ID = {id}"
    );
    ask("client address", sql, |rows| {
        Ok(rows.value()?.map(short_address))
    })
}

/// The account and the address of a session, cut to a limit that real ones do not reach.
pub fn short_address(mut address: String) -> String {
    address.truncate(cut_to_bytes(&address, LONGEST_ADDRESS).len());
    address
}

/// The claims of sessions, by connection id, as far as this account may see them in one of the tables [`ALL_ATTRIBUTES`] and
/// [`OWN_ATTRIBUTES`]. `only`: those of one session. `Err`: the error of a server that refuses it.
///
/// # Errors
/// [`Fault::Gone`].
pub fn claims(
    session: &mut Session,
    table: &'static str,
    only: Option<u64>,
) -> Result<Result<HashMap<u64, Claims>, Code>, Fault> {
    session.try_run(&ask_claims(table, only))
}

/// The client of a session, in one to three round trips.
///
/// # Errors
/// [`Fault::Gone`].
pub fn client(id: u64, session: &mut Session) -> Result<Client, Fault> {
    if session.kind() == Kind::Postgres {
        let seen = session
            .try_run(&ask_sessions(Some(id)))?
            .unwrap_or_default();
        let client = seen.into_iter().next().map(|seen| seen.client);
        return Ok(client.unwrap_or(Client {
            connection: id,
            ..Client::default()
        }));
    }
    let address = session.try_run(&ask_address(id))?.ok().flatten();
    let claims = match claims(session, ALL_ATTRIBUTES, Some(id))? {
        Ok(all) => Ok(all),
        Err(_) => claims(session, OWN_ATTRIBUTES, Some(id))?,
    };
    Ok(Client {
        connection: id,
        address,
        claims: claims.ok().and_then(|mut claims| claims.remove(&id)),
    })
}
