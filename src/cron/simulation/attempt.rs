//! An attempt of a tick, as its daemon in the simulation has it.

use std::time::Duration;

use super::super::rules::AttemptEnd;

/// An attempt of a tick.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) job: usize,
    pub(super) tick: i64,
    pub(super) run: u64,
    pub(super) number: u32,
    pub(super) failures: u32,
    pub(super) unstarted_for: Duration,
    pub(super) state: AttemptState,
}

/// What has become of an attempt so far.
#[derive(Clone)]
pub(super) enum AttemptState {
    /// Its lock is sought since then. The tick may have been taken just before.
    Sought { since: i64, is_just_taken: bool },
    /// Its lock was confirmed last then, and the coordinator has not read that it was granted.
    Granted { confirmed: i64 },
    /// Its command runs, and will end then in this way.
    Runs {
        confirmed: i64,
        until: i64,
        end: AttemptEnd,
    },
    /// Its scheduler has killed its command, and its coordinator is stopped: nobody has said yet how it has ended.
    Killed,
    /// It has ended, and that is not recorded.
    Ended(AttemptEnd),
}

impl Attempt {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, AttemptState::Ended(_))
    }

    pub(super) fn is_sought(&self) -> bool {
        matches!(self.state, AttemptState::Sought { .. })
    }
}
