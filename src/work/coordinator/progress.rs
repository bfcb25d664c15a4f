//! How far a worker is that drains its queue, as a line on its terminal.

use std::time::Duration;

use super::Coordinator;
use crate::base::clock::Moment;
use crate::base::progress::ProgressLine;
use crate::base::text::in_seconds;
use crate::queue::Count;

/// The rate is that of the last so many seconds at least.
const WINDOW: Duration = Duration::from_secs(10);

/// The line, and what it says.
pub(super) struct Progress {
    pub line: ProgressLine,
    /// How many jobs were left when the claimer looked last, and how many had been done or had failed by then; `None`: it has not.
    left: Option<(Count, u64)>,
    pace: [(Moment, u64); 2],
}

impl Progress {
    pub fn new(line: ProgressLine) -> Self {
        Self {
            line,
            left: None,
            pace: [(Moment::now(), 0); 2],
        }
    }
}

/// How many jobs are left of those that were `left` at the last look, if so many have `ended` since, and as many are `in_hand`.
fn still_left(left: Count, ended: u64, in_hand: u32) -> Count {
    if left.more {
        return left;
    }
    let jobs = left.jobs.saturating_sub(ended).max(in_hand.into());
    Count { jobs, ..left }
}

/// The text of the line: jobs done and attempts failed, and how many jobs are left.
fn text(counts: (u64, u64), left: Option<Count>, rate: f64) -> String {
    let (done, failed) = counts;
    let text = format!("{done} done, {failed} failed");
    let Some(left) = left else {
        return text;
    };
    let more = if left.more { "+" } else { "" };
    let text = format!("{text}, {}{more} left, {rate:.1} jobs a second", left.jobs);
    #[expect(clippy::cast_precision_loss, reason = "it is an estimate")]
    let seconds = (left.jobs as f64 / rate).ceil();
    match Duration::try_from_secs_f64(seconds) {
        Ok(span) if !left.more => format!("{text}, {} to go", in_seconds(span)),
        _ => text,
    }
}

impl Coordinator<'_> {
    /// The claimer has looked: so many are due. Those in hand are left, too.
    pub(super) fn note_due(&mut self, due: Count) {
        let (done, failed) = self.claims.totals();
        let jobs = due.jobs + u64::from(self.in_hand());
        self.progress.left = Some((Count { jobs, ..due }, done + failed));
    }

    /// Draws the line, if that is due.
    pub(super) fn show_progress(&mut self) {
        let (counts, in_hand) = (self.claims.totals(), self.in_hand());
        let Progress { line, left, pace } = &mut self.progress;
        line.show(|| {
            let ended = counts.0 + counts.1;
            let left = left.map(|(left, before)| still_left(left, ended - before, in_hand));
            text(counts, left, rate(pace, ended))
        });
    }
}

/// How many jobs end in a second: over the last one to two [windows](WINDOW), of which each entry of `pace` says when it began, and how
/// many had ended by then.
fn rate(pace: &mut [(Moment, u64); 2], ended: u64) -> f64 {
    let now = Moment::now();
    if now.since(pace[1].0) >= WINDOW {
        *pace = [pace[1], (now, ended)];
    }
    let (from, before) = pace[0];
    #[expect(clippy::cast_precision_loss, reason = "no worker is that fast")]
    let ended = (ended - before) as f64;
    ended / now.since(from).as_secs_f64().max(0.001)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_said() {
        let count = |jobs, more| Some(Count { jobs, more });
        assert_eq!(text((3, 1), None, 2.0), "3 done, 1 failed");
        let line = text((3, 1), count(125, false), 2.0);
        assert_eq!(
            line,
            "3 done, 1 failed, 125 left, 2.0 jobs a second, 1m 3s to go"
        );
        let line = text((0, 0), count(10_000, true), 2.0);
        assert_eq!(line, "0 done, 0 failed, 10000+ left, 2.0 jobs a second");
        let line = text((0, 0), count(9, false), 0.0);
        assert_eq!(line, "0 done, 0 failed, 9 left, 0.0 jobs a second");
    }

    #[test]
    fn what_has_ended_since_the_last_look_is_not_left() {
        let left = |jobs, more, ended, in_hand| {
            let left = still_left(Count { jobs, more }, ended, in_hand);
            (left.jobs, left.more)
        };
        assert_eq!(left(300, false, 0, 7), (300, false));
        assert_eq!(left(300, false, 60, 7), (240, false));
        // Others have put more.
        assert_eq!(left(300, false, 299, 7), (7, false));
        assert_eq!(left(300, false, 400, 0), (0, false));
        assert_eq!(left(10_000, true, 400, 7), (10_000, true));
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        let ago = |seconds| Moment::now() - Duration::from_secs(seconds);
        let mut pace = [(ago(12), 100), (ago(2), 110)];
        assert!((rate(&mut pace, 124) - 2.0).abs() < 0.1);
        let mut pace = [(ago(40), 0), (ago(10), 100)];
        assert!((rate(&mut pace, 120) - 2.0).abs() < 0.1);
    }
}
