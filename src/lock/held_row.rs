//! A held slot of a durable lock as others see it, from its row.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Name;
use crate::db::{Claims, Client};

/// The most writes of an owner between two reads of its row.
const MOST_WRITES: u64 = 1 << 12;

/// What holds a durable lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HolderKind {
    /// A command under `dblock run --durable`.
    #[default]
    Run,
    /// A script, with the token that `dblock acquire` printed. No dblock process runs.
    Token,
    /// A command under `dblock run --token`.
    TokenRun,
}

impl HolderKind {
    /// The kind's name in the row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Token => "token",
            Self::TokenRun => "token_run",
        }
    }

    /// The kind with this name in a row. A row without one belongs to a run.
    pub fn of_name(name: Option<&str>) -> Self {
        let all = [Self::Token, Self::TokenRun];
        let found = all.into_iter().find(|kind| name == Some(kind.name()));
        found.unwrap_or_default()
    }
}

/// What a row says of a held lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durable {
    /// How many times the slot was granted.
    pub fence: u64,
    /// What holds it.
    pub kind: HolderKind,
    /// The value of `acquire --owner`.
    pub owner_name: Option<String>,
    /// The time until it expires, by the server's clock; `None`: it has expired, and was not released.
    pub expires_in: Option<Duration>,
}

/// A slot's row that somebody owns.
#[derive(Debug, Clone)]
pub struct HeldRow {
    /// The lock's name.
    pub name: String,
    /// Which slot, from 0.
    pub slot: u32,
    /// The run or the token that holds it: 32 hex digits.
    pub owner: String,
    /// The number of the owner's latest write. Each owner chooses its own.
    pub write_id: u64,
    /// What others may see.
    pub durable: Durable,
    /// The client, from the history; `None`: the history has no such run.
    pub client: Option<Client>,
    /// The connection id of its run on the server that was asked.
    pub session: Option<u64>,
    /// How long it has been held.
    pub held_for: Duration,
    /// The time until its next renewal is due; zero if that is overdue.
    pub renewal_in: Duration,
    /// The client that kills the holder.
    pub killer: Option<Client>,
    /// Whether the holder was renewed since the kill began. Each renewal discovers the kill.
    pub knows_killer: bool,
}

impl HeldRow {
    /// Whether the row belongs to this lock. A row has no key: that of a run is what its session has `said`. `None`: the session is not
    /// visible, and then the row may belong to a lock that is known by a key. A script's never does.
    pub fn is_of(&self, name: &Name, said: Option<&Claims>) -> bool {
        let has_key = match (name.key(), said) {
            (None, _) => true,
            (Some(key), Some(said)) => said.key == Some(key.to_string()),
            (Some(_), None) => self.durable.kind == HolderKind::Run,
        };
        self.name == name.to_string() && has_key
    }

    /// Whether it has expired.
    pub fn has_expired(&self) -> bool {
        self.durable.expires_in.is_none()
    }

    /// Whether this is still the same grant.
    pub fn is_same_grant(&self, other: &Self) -> bool {
        self.slot == other.slot
            && self.owner == other.owner
            && self.durable.fence == other.durable.fence
    }

    /// Whether the slot's row, read `later`, shows that this owner released it, and that nobody else released it for the owner. Only the
    /// owner's own writes have consecutive numbers.
    pub fn was_released(&self, later: &Self) -> bool {
        later.owner.is_empty()
            && later.durable.fence == self.durable.fence
            && later
                .write_id
                .checked_sub(self.write_id)
                .is_some_and(|writes| writes <= MOST_WRITES)
    }

    /// Whether the slot's row, read `later`, shows that the owner has released it without a renewal in between.
    pub fn is_released_next(&self, later: &Self) -> bool {
        self.was_released(later) && later.write_id == self.write_id + 1
    }

    /// Whether only a release can explain that another caller was granted the slot after this time: the lock had not expired by then, and
    /// has no owner name by which it could be taken over.
    pub fn was_released_within(&self, elapsed: Duration) -> bool {
        self.durable.owner_name.is_none()
            && self.durable.expires_in.is_some_and(|left| left > elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(owner: &str, fence: u64, write_id: u64) -> HeldRow {
        HeldRow {
            name: "x".to_owned(),
            slot: 0,
            owner: owner.to_owned(),
            write_id,
            durable: Durable {
                fence,
                kind: HolderKind::Run,
                owner_name: None,
                expires_in: Some(Duration::from_secs(1)),
            },
            client: None,
            session: None,
            held_for: Duration::ZERO,
            renewal_in: Duration::ZERO,
            killer: None,
            knows_killer: false,
        }
    }

    #[test]
    fn a_release_by_its_owner_is_told_from_one_by_somebody_else() {
        let held = row("a", 7, 5 << 16);
        assert!(held.was_released(&row("", 7, (5 << 16) + 3)));
        for other in [
            // Somebody with a number of his own, as with --force.
            row("", 7, 1234),
            row("", 7, (9 << 16) + 1),
            // Granted again since.
            row("", 8, (5 << 16) + 3),
            row("b", 8, (5 << 16) + 3),
            held.clone(),
        ] {
            assert!(!held.was_released(&other), "{other:?}");
        }
    }

    #[test]
    fn who_has_a_slot_that_may_have_expired_says_nothing_of_the_one_before() {
        let mut held = row("a", 7, 1);
        assert!(held.was_released_within(Duration::from_millis(900)));
        assert!(!held.was_released_within(Duration::from_secs(1)));
        held.durable.owner_name = Some("deploy".to_owned());
        assert!(!held.was_released_within(Duration::ZERO));
    }
}
