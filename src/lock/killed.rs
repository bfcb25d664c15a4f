//! The result of a kill (`dblock kill`), for a lock with a row or without one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Durable;
use crate::db::{Client, Code};

/// The result of an attempt to kill a holder.
#[derive(Debug, Serialize, Deserialize)]
pub enum Killed {
    /// The caller named no slot, and these slots are held.
    SeveralHolders(Vec<u32>),
    /// The result for one slot.
    Slot {
        /// Which, from 0.
        slot: u32,
        /// The result for its holder.
        outcome: Box<KillOutcome>,
    },
}

/// The holder to kill.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Victim {
    /// The client; `None`: neither the history nor a session shows it. The connection id is 0 if the session is not on this server.
    pub client: Option<Client>,
    /// Whether the holder is a dblock. Its sessions hold their session marker lock.
    pub is_dblock: bool,
    /// What its row says; `None`: it has none.
    pub durable: Option<Durable>,
}

/// Why a row was taken from its owner without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Freed {
    /// It had expired.
    Expired,
    /// A script holds it: there is no command to wait for.
    Token,
    /// With `--force`.
    Forced,
}

/// The result for the holder of a slot. `now` is who holds the slot afterwards; `None`: nobody.
#[derive(Debug, Serialize, Deserialize)]
pub enum KillOutcome {
    /// Nobody holds the slot. If the server started this recently, an earlier holder may reacquire the slot.
    Free {
        /// `None`: longer ago, or unknown.
        server_started: Option<Duration>,
    },
    /// A dry run: the slot is held.
    Held {
        holder: Victim,
        /// The account that asks, if the holder's session would be ended and is not known to be its own.
        needs_right: Option<String>,
    },
    /// Its session holds other locks, too, so it can only be ended by its row, which was not found. Nothing was done.
    OfRow(Victim),
    /// The holder released the slot before it could be killed.
    ReleasedMeanwhile { holder: Victim, now: Option<Client> },
    /// The row was taken from its owner meanwhile, because it had expired, or by another client.
    TakenMeanwhile { holder: Victim, now: Option<Client> },
    /// The server does not let this account kill sessions of another account.
    NotAllowed {
        holder: Victim,
        /// The statement that would let it; `None`: the session is a superuser's, and none would.
        grant: Option<String>,
    },
    /// The server refused to kill the session, with this error.
    Refused { holder: Victim, code: Code },
    /// The row was taken from its owner.
    Freed {
        holder: Victim,
        why: Freed,
        /// The time until the owner's dblock reads the row, if it is alive and reaches the server.
        renewal_in: Duration,
        /// Whether this account could not kill the owner's session, which keeps the named lock.
        keeps_session: bool,
        now: Option<Client>,
    },
    /// The holder's command has ended.
    CommandEnded {
        holder: Victim,
        after: Duration,
        now: Option<Client>,
    },
    /// The session of a holder that is not dblock has ended. Whether its program still runs is unknown.
    SessionEnded { holder: Victim, now: Option<Client> },
    /// The holder is ending its command, which did not end in time.
    CommandEnding { holder: Victim, after: Duration },
    /// The session was killed, and its dblock reported nothing in time.
    NoReport {
        holder: Victim,
        after: Duration,
        now: Option<Client>,
    },
    /// The holder's dblock did not read its row in time.
    Unanswered {
        /// With the latest state of its row.
        holder: Victim,
        after: Duration,
        /// The time until it is due to read the row.
        renewal_in: Duration,
    },
    /// Another client killed the holder.
    EndedByAnother {
        killer: Client,
        /// Whether it is known that the holder's command has ended.
        is_known: bool,
        now: Option<Client>,
    },
    /// Another client is killing the holder, and did not finish in time.
    BeingEnded {
        killer: Client,
        /// Whether this was a dry run.
        dry_run: bool,
    },
}

impl KillOutcome {
    /// The holder that was ended, or asked to end; `None`: nobody was.
    pub fn ended(&self) -> Option<&Victim> {
        match self {
            Self::Freed { holder, .. }
            | Self::CommandEnded { holder, .. }
            | Self::SessionEnded { holder, .. }
            | Self::CommandEnding { holder, .. }
            | Self::NoReport { holder, .. }
            | Self::Unanswered { holder, .. } => Some(holder),
            _ => None,
        }
    }
}
