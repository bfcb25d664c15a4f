//! The result of a kill for the holder of a row.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::db::Client;
use crate::lock::Durable;
use crate::lock::named::Killed;

/// The result of an attempt to kill a holder.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ended {
    /// The holder has no row.
    Named(Killed),
    /// The holder has the row of this slot.
    Row {
        /// Which, from 0.
        slot: u32,
        /// The result for its holder.
        outcome: Box<RowOutcome>,
    },
}

/// The holder of a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RowVictim {
    /// The client; `None`: neither the history nor a session shows it. The connection id is 0 if the session is not on this server.
    pub client: Option<Client>,
    /// What its row says.
    pub durable: Durable,
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

/// The result for the holder of a row. `now` is who holds the slot afterwards; `None`: nobody.
#[derive(Debug, Serialize, Deserialize)]
pub enum RowOutcome {
    /// A dry run: the row is held.
    Held(RowVictim),
    /// A dry run: the row is held, and this client already kills the holder.
    BeingEnded { killer: Client },
    /// The holder released it before it could be killed.
    ReleasedMeanwhile {
        holder: RowVictim,
        now: Option<Client>,
    },
    /// It was taken from its owner meanwhile, because it had expired, or by another client.
    TakenMeanwhile {
        holder: RowVictim,
        now: Option<Client>,
    },
    /// The row was taken from its owner.
    Freed {
        holder: RowVictim,
        why: Freed,
        /// The time until the owner's dblock reads the row, if it is alive and reaches the server.
        renewal_in: Duration,
        /// Whether this account could not kill the owner's session, which keeps the named lock.
        keeps_session: bool,
        now: Option<Client>,
    },
    /// Its command has ended.
    CommandEnded {
        holder: RowVictim,
        after: Duration,
        now: Option<Client>,
    },
    /// The holder is ending its command, which did not end in time.
    CommandEnding { holder: RowVictim, after: Duration },
    /// The holder's dblock did not read its row in time.
    Unanswered {
        /// With the latest state of its row.
        holder: RowVictim,
        after: Duration,
        /// The time until it is due to read the row.
        renewal_in: Duration,
    },
}
