//! After an outage: from when on missed ticks are started, and over which time; and from when on another daemon counts as gone.

use std::time::Duration;

use super::view::{Known, micros};
use crate::base::clock::Moment;
use crate::cron::{FRESH, LONGEST_SPREAD, fraction};

/// A server that was silent for this long had an outage.
const OUTAGE: Duration = Duration::from_secs(5);

/// A server that was silent for this long may have been so for other daemons too, and for as long as the shortest TTL. It is longer than a
/// look's interval, and than a server waits for a locked row.
const SILENCE: Duration = Duration::from_secs(3);

/// After that, the others have this time to say that they are alive, and how what they run has ended meanwhile: longer than it takes to
/// connect again.
const RETURN: Duration = Duration::from_secs(10);

/// But a daemon that seems to be gone for this long since the last outage is, also where this one is held up again and again.
const LONGEST_RETURN: Duration = Duration::from_secs(30);

/// After an outage, few missed ticks are started within less than the longest spread: this much for each.
const SPREAD_OF_EACH: Duration = Duration::from_millis(200);

#[derive(Default)]
pub(super) struct Outage {
    /// When the server last answered; `None`: it has not yet.
    last_seen: Option<Moment>,
    /// When the server last said anything, also that it could not carry out a statement; `None`: it has not yet.
    last_heard: Option<Moment>,
    /// Since when it was heard without a [`SILENCE`].
    heard_since: Moment,
    /// When the last outage ended.
    ended: Moment,
    /// Whether the server has answered after an outage, and nothing is made up for it yet.
    has_ended: bool,
    /// Since when, by the server's clock, missed ticks are being started.
    pub made_up_since: i64,
    /// The time over which those starts are spread; `None`: not decided yet.
    spread: Option<Duration>,
}

impl Outage {
    /// The server has answered.
    pub fn note_answer(&mut self) {
        if self.lasts() {
            (self.has_ended, self.ended) = (true, Moment::now());
        }
        self.last_seen = Some(Moment::now());
        self.note_heard();
    }

    /// The server has said something.
    pub fn note_heard(&mut self) {
        if self
            .last_heard
            .is_none_or(|heard| heard.elapsed() > SILENCE)
        {
            self.heard_since = Moment::now();
        }
        self.last_heard = Some(Moment::now());
    }

    /// Whether a daemon is gone that has seemed to be since this moment. It is if the server was there to hear from it.
    pub fn is_gone(&self, since: Moment) -> bool {
        self.heard_since.elapsed() > RETURN || since.max(self.ended).elapsed() > LONGEST_RETURN
    }

    /// Whether the server has been silent for so long that ticks may have been missed.
    fn lasts(&self) -> bool {
        self.last_seen.is_none_or(|seen| seen.elapsed() > OUTAGE)
    }

    /// Whether one has ended since this was asked last.
    pub fn take_end(&mut self) -> bool {
        std::mem::take(&mut self.has_ended)
    }

    /// From this time on, by the server's clock, what was missed is started.
    pub fn make_up_since(&mut self, now: i64) {
        (self.made_up_since, self.spread) = (now, None);
    }

    /// Decides over which time the starts are spread. That is fixed until all missed ticks are started.
    pub fn decide_spread(&mut self, jobs: &[Known], now: i64) {
        self.spread.get_or_insert_with(|| {
            let is_missed = |next: &i64| now - *next > micros(FRESH);
            let rows = jobs.iter().filter_map(|known| known.row.as_ref()?.next);
            let missed = u32::try_from(rows.filter(is_missed).count()).unwrap_or(u32::MAX);
            SPREAD_OF_EACH.saturating_mul(missed).min(LONGEST_SPREAD)
        });
    }

    /// When the missed tick of this job is started.
    pub fn made_up_from(&self, name: &str) -> i64 {
        let spread = self.spread.unwrap_or_default();
        self.made_up_since + micros(spread.mul_f64(fraction(&["spread", name])))
    }
}
