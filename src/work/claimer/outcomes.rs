//! What the next turn records, and what is kept with it.

use super::LOOK_INTERVAL;
use crate::base::clock::Moment;
use crate::history::PendingOutputs;
use crate::queue::EndedUnit;

pub(super) struct Outcomes {
    pub ended: Vec<EndedUnit>,
    /// What is to be kept of the outputs of jobs whose ends are not recorded yet.
    pub outputs: PendingOutputs<u64>,
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
            outputs: PendingOutputs::new(),
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

    /// Adds to the counts: jobs done, and attempts failed.
    pub fn count(&mut self, (done, failed): (u64, u64)) {
        self.counts.0 += done;
        self.counts.1 += failed;
    }

    /// The counts that the next turn records. Not each turn does.
    pub fn due_counts(&self) -> (u64, u64) {
        if self.counted.elapsed() > LOOK_INTERVAL {
            self.counts
        } else {
            (0, 0)
        }
    }

    /// A turn has recorded these counts, if there are any.
    pub fn note_counted(&mut self, counts: (u64, u64)) {
        if counts != (0, 0) {
            self.counts = (self.counts.0 - counts.0, self.counts.1 - counts.1);
            self.counted = Moment::now();
        }
    }

    /// The jobs are others': nothing more is recorded of them.
    pub fn forget_jobs(&mut self) {
        self.ended.clear();
        self.outputs.clear();
    }
}
