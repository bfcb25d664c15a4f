//! Who holds a lock, and how a message says it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::text::in_seconds;
use crate::db::Client;

/// How many holders a message names.
pub const MOST_NAMED: u32 = 3;

/// The holders of a lock, as far as the server says. Displayed, it continues "the lock is".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holders {
    /// The holders of the first few slots.
    pub named: Vec<Holder>,
    /// How many slots there are.
    pub slots: u32,
}

/// The holder of a slot, as far as the server says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Holder {
    /// This session.
    Session(Box<Client>),
    /// Nobody held it when the server was asked.
    Nobody,
    /// Nobody. This client kills the last holder, whose command may still run, or is that holder and ends its command.
    Killer(Box<Client>),
    /// The server did not say.
    Unknown,
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let sessions = self.named.iter().filter_map(|holder| match holder {
            Holder::Session(client) => Some(AsHolder(client).to_string()),
            _ => None,
        });
        let sessions = sessions.collect::<Vec<_>>().join("; ");
        match (&*sessions, &self.named[..]) {
            ("", [Holder::Nobody]) if self.slots == 1 => {
                return write!(f, "taken, and was freed this moment");
            }
            ("", [Holder::Nobody]) => return write!(f, "taken, or others wait ahead for it"),
            ("", [Holder::Killer(client), ..]) => {
                return write!(f, "taken: its last holder is being ended by {client}");
            }
            ("", _) => return write!(f, "taken"),
            (sessions, _) => write!(f, "held by {sessions}")?,
        }
        match self.slots.saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
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
        // A daemon's session has the locks of all its ticks: since when it is there says nothing of this one.
        let is_of_one_lock = claims.lock.is_some() || claims.key.is_some();
        let Some(started) = claims.started.filter(|_| is_of_one_lock) else {
            return Ok(());
        };
        // If that host's clock is ahead of this one's, the span is zero.
        let span = in_seconds(started.elapsed().unwrap_or_default());
        if claims.waits {
            write!(f, ", which asked for it {span} ago")
        } else {
            write!(f, ", for {span}")
        }
    }
}
