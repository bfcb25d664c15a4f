//! A row of the table of durable locks, as it was read.

use std::time::{Duration, SystemTime};

use crate::db::sql::span;
use crate::db::{Claims, Client, Fault, PROGRAM, Row};
use crate::lock::HolderKind;
use crate::schema::{LOCKS, RUNS};

/// A slot's row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotState {
    /// Which slot, from 0.
    pub slot: u32,
    /// How many times it was granted.
    pub fence: u64,
    /// The run or the token that holds it; `None`: nobody.
    pub owner: Option<String>,
    /// The owner's `acquire --owner`.
    pub owner_name: Option<String>,
    /// What it is.
    pub kind: HolderKind,
    /// The run whose command is under a script's grant, unless that has died without a renewal.
    pub command_run: Option<String>,
    /// The number of the owner's latest write. Each owner chooses its own.
    pub write_id: u64,
    /// The time until it expires, in microseconds by the server's clock. Negative after that.
    pub expires_in: i64,
    /// The time since its last renewal, in microseconds. Negative if the clock of the server that answers is behind that of the one that
    /// wrote the row.
    pub age: i64,
    /// For how long each renewal extends it.
    pub ttl: Duration,
    /// The client that kills the holder.
    pub kill_requested_by: Option<String>,
    /// The holder, as far as the history says.
    pub client: Client,
}

impl SlotState {
    /// Reads a row.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn read(row: &Row) -> Result<Self, Fault> {
        let held_for: Option<i64> = row.get("held_for")?;
        let command_run: Option<String> = row.get("command_run")?;
        let kind: Option<String> = row.get("kind")?;
        // A command without renewals is dead, and the script has the grant again.
        let kind = match HolderKind::of_name(kind.as_deref()) {
            HolderKind::TokenRun if command_run.is_none() => HolderKind::Token,
            kind => kind,
        };
        let (host, pid): (_, Option<u64>) = (RUNS.text("host", row)?, row.get("pid")?);
        Ok(Self {
            slot: row.get("slot")?,
            fence: row.get("fence")?,
            owner: row.get("owner")?,
            owner_name: LOCKS.text("owner_name", row)?,
            kind,
            command_run,
            write_id: row.get("write_id")?,
            // If somebody deleted the time by hand, the row has expired.
            expires_in: row.get_or_default("expires_in")?,
            age: row.get_or_default("age")?,
            ttl: Duration::from_secs(row.get_or_default("ttl_seconds")?),
            kill_requested_by: LOCKS.text("kill_requested_by", row)?,
            client: Client {
                connection: row.get_or_default("connection")?,
                address: None,
                claims: Some(Claims {
                    program: Some(PROGRAM.to_owned()),
                    host: Some(host.unwrap_or("an unknown host".to_owned())),
                    pid: pid.map(|pid| pid.to_string()),
                    command: RUNS.text("program", row)?,
                    os_user: RUNS.text("user", row)?,
                    started: held_for.and_then(|held| SystemTime::now().checked_sub(span(held))),
                    ..Claims::default()
                }),
            },
        })
    }

    /// Whether it has an owner, even an expired one.
    pub fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// Whether it has expired, by the server's clock, and was not released.
    pub fn has_expired(&self) -> bool {
        self.is_owned() && self.expires_in <= 0
    }

    /// The client that kills the holder.
    pub fn killer(&self) -> Option<Client> {
        let who = self.kill_requested_by.as_ref()?;
        let (host, pid) = match who.rsplit_once(", pid ") {
            Some((host, pid)) => (host, Some(pid.to_owned())),
            None => (&**who, None),
        };
        Some(Client {
            claims: Some(Claims {
                program: Some(PROGRAM.to_owned()),
                host: Some(host.to_owned()),
                pid,
                // As its session says, where that is asked.
                command: Some("dblock kill".to_owned()),
                ..Claims::default()
            }),
            ..Client::default()
        })
    }
}
