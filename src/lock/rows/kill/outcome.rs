//! What became of the holder of a row that was to end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::db::Client;
use crate::lock::Durable;
use crate::lock::named::Killed;

/// What became of an attempt to end a holder.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ended {
    /// No row was meant.
    Named(Killed),
    /// The row of this slot was.
    Row {
        /// Which, from 0.
        slot: u32,
        /// What became of its holder.
        outcome: Box<RowOutcome>,
    },
}

/// Who holds a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RowVictim {
    /// Who it is; `None` if neither the history nor a session says so. Its session's number is 0 where that is not on this server.
    pub client: Option<Client>,
    /// What its row says.
    pub durable: Durable,
}

/// Why a row was taken from its owner, who was not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Freed {
    /// Its time was over.
    Expired,
    /// A script holds it: there is no command to wait for.
    Token,
    /// With `--force`.
    Forced,
}

/// What became of the holder of a row. `now` is who holds the slot afterwards; `None`: nobody.
#[derive(Debug, Serialize, Deserialize)]
pub enum RowOutcome {
    /// With a dry run: it is held.
    Held(RowVictim),
    /// With a dry run: it is held, and this one has asked for its end before.
    BeingEnded { killer: Client },
    /// It was released before it could be ended.
    ReleasedMeanwhile {
        holder: RowVictim,
        now: Option<Client>,
    },
    /// It was taken from its owner meanwhile: its time was over, or by somebody else.
    TakenMeanwhile {
        holder: RowVictim,
        now: Option<Client>,
    },
    /// The row was taken from its owner.
    Freed {
        holder: RowVictim,
        why: Freed,
        /// Until its dblock looks at the row, if that lives and reaches the server.
        renewal_in: Duration,
        /// Whether its session is there, and this account may not end it: that has the named lock on.
        keeps_session: bool,
        now: Option<Client>,
    },
    /// Its command has ended.
    CommandEnded {
        holder: RowVictim,
        after: Duration,
        now: Option<Client>,
    },
    /// Its dblock ends its command, which did not end in time.
    CommandEnding { holder: RowVictim, after: Duration },
    /// Its dblock did not look at its row in time.
    Unanswered {
        /// What its row says by now.
        holder: RowVictim,
        after: Duration,
        /// Until it is to look at it.
        renewal_in: Duration,
    },
}
