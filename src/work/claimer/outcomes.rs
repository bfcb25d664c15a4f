//! What the next turn records.

use crate::base::clock::Moment;
use crate::queue::EndedUnit;

pub(super) struct Outcomes {
    pub ended: Vec<EndedUnit>,
    /// Jobs done and attempts failed since the counts were last recorded.
    pub counts: (u64, u64),
    /// When they were.
    pub counted: Moment,
}

impl Outcomes {
    /// There are none.
    pub fn new() -> Self {
        Self {
            ended: Vec::new(),
            counts: (0, 0),
            counted: Moment::now(),
        }
    }

    /// Adds outcomes to those that the next turn records.
    pub fn take_in(&mut self, ended: Vec<EndedUnit>) {
        for mut one in ended {
            match self.ended.last_mut() {
                Some(last) if last.unit == one.unit => {
                    // The block may have ended since its first message.
                    last.outcome = one.outcome;
                    last.others.append(&mut one.others);
                }
                _ => self.ended.push(one),
            }
        }
    }
}
