//! How far a worker has claimed the jobs of each shard. As long as a backup or another long snapshot may read deleted rows, they slow down
//! claims. So claims start above the mark. Now and then they look below it, because jobs can appear there: from transactions that commit
//! late, from retries, and from dead workers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Moment;

/// Claims that look below the mark may take one part in this many of the time.
const PART_OF_TIME: u32 = 20;

/// The longest pause between two looks below the mark.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// The same, if the last claim found nothing.
const LONGEST_IDLE_REST: Duration = Duration::from_secs(1);

/// For how many priorities of a shard marks are kept at most.
const MOST_PRIORITIES: usize = 16;

/// The marks of a queue's shards.
#[derive(Debug, Default)]
pub struct Marks(BTreeMap<u16, Mark>);

#[derive(Debug)]
struct Mark {
    /// The last claimed job of each priority.
    claimed: BTreeMap<i32, u64>,
    /// Until then, claims start above the mark.
    rests_until: Moment,
    /// The same, if the last claim found nothing.
    rests_idle_until: Moment,
    /// Whether the last claim found nothing.
    is_exhausted: bool,
}

impl Marks {
    /// Where the next claim in a shard starts: above these jobs, by priority. Empty: at the very start. If the last claim found nothing,
    /// the next look below the mark comes sooner; at once if the worker ends when nothing is due (`is_last`).
    pub fn begin(&self, shard: u16, is_last: bool) -> Vec<(i32, u64)> {
        let Some(mark) = self.0.get(&shard) else {
            return Vec::new();
        };
        let rests_until = match mark.is_exhausted {
            true if is_last => return Vec::new(),
            true => mark.rests_idle_until,
            false => mark.rests_until,
        };
        if rests_until <= Moment::now() {
            return Vec::new();
        }
        let claimed = mark.claimed.iter();
        claimed.map(|(priority, job)| (*priority, *job)).collect()
    }

    /// Notes a claim: where it began, what it claimed (priority and job), and how long it took.
    pub fn note(
        &mut self,
        shard: u16,
        began: &[(i32, u64)],
        claimed: impl Iterator<Item = (i32, u64)>,
        took: Duration,
    ) {
        let mark = self.0.entry(shard).or_insert(Mark {
            claimed: BTreeMap::new(),
            rests_until: Moment::START,
            rests_idle_until: Moment::START,
            is_exhausted: false,
        });
        let mut last: BTreeMap<i32, u64> = BTreeMap::new();
        for (priority, job) in claimed {
            let last = last.entry(priority).or_default();
            *last = job.max(*last);
        }
        mark.is_exhausted = last.is_empty();
        // If the jobs came from below the mark, more may follow them, so the mark moves back.
        mark.claimed.extend(last);
        while mark.claimed.len() > MOST_PRIORITIES {
            mark.claimed.pop_first();
        }
        if began.is_empty() {
            let rest = (took * PART_OF_TIME).min(LONGEST_REST);
            mark.rests_until = Moment::now() + rest;
            mark.rests_idle_until = Moment::now() + rest.min(LONGEST_IDLE_REST);
        }
    }

    /// Drops all marks, because jobs may have appeared below them.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// The condition on rows `d` for a claim above these jobs.
pub(super) fn above(marks: &[(i32, u64)]) -> String {
    let mut ranges = Vec::new();
    let mut before = None;
    for (priority, job) in marks {
        let from = before.map_or(String::new(), |before| {
            format!("d.priority > {before} AND ")
        });
        ranges.push(format!("{from}d.priority < {priority}"));
        ranges.push(format!("d.priority = {priority} AND d.job > {job}"));
        before = Some(*priority);
    }
    match before {
        Some(last) => format!(" AND ({} OR d.priority > {last})", ranges.join(" OR ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_claim_begins_above_what_was_claimed() {
        let mut marks = Marks::default();
        assert_eq!(marks.begin(0, false), []);
        marks.note(0, &[], [(-1, 7), (0, 3), (0, 5)].into_iter(), LONG);
        let began = marks.begin(0, false);
        assert_eq!(began, [(-1, 7), (0, 5)]);
        assert_eq!(
            above(&began),
            " AND (d.priority < -1 OR d.priority = -1 AND d.job > 7 OR d.priority > -1 AND d.priority < 0 OR d.priority = 0 AND d.job > 5 \
             OR d.priority > 0)"
        );
        assert_eq!(marks.begin(1, false), []);
        marks.forget();
        assert_eq!(marks.begin(0, false), []);
    }

    #[test]
    fn a_claim_begins_below_the_mark_when_it_has_rested() {
        let mut marks = Marks::default();
        marks.note(0, &[], [(0, 5)].into_iter(), Duration::ZERO);
        assert_eq!(marks.begin(0, false), []);
    }

    #[test]
    fn a_claim_begins_below_the_mark_where_there_is_nothing_above_it_and_the_worker_is_to_end() {
        let mut marks = Marks::default();
        marks.note(0, &[], [(0, 5)].into_iter(), LONG);
        let began = marks.begin(0, true);
        assert_eq!(began, [(0, 5)]);
        marks.note(0, &began, [].into_iter(), LONG);
        assert_eq!(marks.begin(0, false), [(0, 5)]);
        assert_eq!(marks.begin(0, true), []);
    }

    #[test]
    fn what_is_found_below_the_mark_is_claimed_to_its_end() {
        let mut marks = Marks::default();
        marks.note(0, &[], [(0, 500)].into_iter(), LONG);
        marks.note(0, &[], [(0, 20)].into_iter(), LONG);
        assert_eq!(marks.begin(0, false), [(0, 20)]);
    }
}
