//! After an outage: from when on missed ticks are started, and over which time; and from when on another daemon counts as gone.

use super::view::Known;
use crate::base::clock::Moment;
use crate::cron::{OUTAGE, SILENCE, is_gone, is_missed, made_up_from};

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
    /// How many jobs have missed ticks, over which those starts are spread; `None`: not counted yet.
    missed: Option<usize>,
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

    /// Whether a daemon is gone that has seemed to be since this moment.
    pub fn is_gone(&self, since: Moment) -> bool {
        is_gone(self.heard_since.elapsed(), since.max(self.ended).elapsed())
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
        (self.made_up_since, self.missed) = (now, None);
    }

    /// Counts the jobs that have missed ticks. That is fixed until all of these are started.
    pub fn count_missed(&mut self, jobs: &[Known], now: i64) {
        self.missed.get_or_insert_with(|| {
            let rows = jobs.iter().filter_map(|known| known.row.as_ref()?.next);
            rows.filter(|next| is_missed(*next, now)).count()
        });
    }

    /// When the missed tick of this job is started.
    pub fn made_up_from(&self, name: &str) -> i64 {
        let missed = self.missed.unwrap_or_default();
        made_up_from(name, self.made_up_since, missed)
    }
}
