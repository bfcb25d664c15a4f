//! A slot of a durable lock as others see it: what its row says of the holder.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Name;
use crate::db::Client;

/// How many writes of an owner may be between two looks at its row.
const MOST_WRITES: u64 = 1 << 12;

/// What holds a durable lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HolderKind {
    /// A command under `dblock run --durable`.
    #[default]
    Run,
    /// A script, by the token that `dblock acquire` printed. No process of dblock's is there.
    Token,
    /// A command under `dblock run --token`.
    TokenRun,
}

impl HolderKind {
    /// What the row calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Token => "token",
            Self::TokenRun => "token_run",
        }
    }

    /// The kind that a row calls so. A row without one is that of a run.
    pub fn of_name(name: Option<&str>) -> Self {
        let all = [Self::Token, Self::TokenRun];
        let found = all.into_iter().find(|kind| name == Some(kind.name()));
        found.unwrap_or_default()
    }
}

/// What a row says of a lock that is held, for whoever is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Durable {
    /// How often the slot was granted.
    pub fence: u64,
    /// What holds it.
    pub kind: HolderKind,
    /// What `acquire --owner` said.
    pub owner_name: Option<String>,
    /// The time until it expires, by the server's clock; `None`: that is over, and nobody has released it.
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
    /// The number that the owner's latest write has chosen.
    pub write_id: u64,
    /// What others may be told.
    pub durable: Durable,
    /// Who it is, as the history says; `None` if that has no such run.
    pub client: Option<Client>,
    /// The session of its run on the server that was asked.
    pub session: Option<u64>,
    /// For how long it is held.
    pub held_for: Duration,
    /// Until its next renewal is due; zero after that.
    pub renewal_in: Duration,
    /// Who wants it to end.
    pub killer: Option<Client>,
    /// Whether it was renewed since then: each renewal finds that out.
    pub knows_killer: bool,
}

impl HeldRow {
    /// Whether it is of this lock.
    pub fn is_of(&self, name: &Name) -> bool {
        self.name == name.to_string()
    }

    /// Whether its time is over.
    pub fn has_expired(&self) -> bool {
        self.durable.expires_in.is_none()
    }

    /// Whether this is still the same grant.
    pub fn is_same_grant(&self, other: &Self) -> bool {
        self.slot == other.slot
            && self.owner == other.owner
            && self.durable.fence == other.durable.fence
    }

    /// Whether the slot, seen `later`, was released by this owner since, and by nobody else in its name: only its own writes have
    /// numbers that follow one another.
    pub fn was_released(&self, later: &Self) -> bool {
        later.owner.is_empty()
            && later.durable.fence == self.durable.fence
            && later
                .write_id
                .checked_sub(self.write_id)
                .is_some_and(|writes| writes <= MOST_WRITES)
    }

    /// Whether only a release can have made room for the one that was granted the slot within this time: its own had not expired, and
    /// nobody may take it over by a name.
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
