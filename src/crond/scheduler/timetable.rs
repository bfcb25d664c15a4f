//! When a scheduler does what is due again and again.

use std::time::Duration;

use super::{LOOK, LOOK_AGAIN};
use crate::base::clock::{Moment, doubled};

/// As it begins, all is due but the history.
#[derive(Default)]
pub(super) struct Timetable {
    pub look_at: Moment,
    /// When it last looked, or tried to.
    pub last_look: Moment,
    pub renew_at: Moment,
    /// When the file is put in force, as far as that is requested.
    pub publish_at: Moment,
    pub maintain_at: Moment,
    pub prune_at: Moment,
    pub retire_at: Moment,
    /// The name of the run after which old history is to be pruned; `None`: it is not.
    pub prune_history_of: Option<String>,
    /// How many steps in a row had no effect.
    pub fruitless: u32,
}

impl Timetable {
    /// The pause between a step without effect and the next look.
    pub fn pause(&self) -> Duration {
        doubled(LOOK_AGAIN, self.fruitless).min(LOOK)
    }

    /// Schedules a look soon after a step without effect; later if there were many.
    pub fn look_again(&mut self) {
        self.look_at = Moment::now() + self.pause();
        self.fruitless += 1;
    }
}
