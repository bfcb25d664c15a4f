//! How often the fleet is asked: as often as is said, but for no more than about two statements a second in all, in the long run. Most of
//! these are for what all pages show, and some for what single pages show.

use std::time::Duration;

use tokio::time::Instant;

/// The most statements a second for what all pages show.
const MOST: f64 = 1.5;

/// And for what single pages show; how many of these may be saved up; and how many a dblock needs for one answer.
const OF_PAGES: f64 = 0.4;
const SAVED: f64 = 40.0;
const OF_AN_ANSWER: f64 = 13.0;

/// What is asked for by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    Locks,
    Cron,
    Queues,
    Runs,
}

impl Topic {
    /// In the order in which they are asked for at first: every server answers the first one.
    pub const ALL: [Self; 4] = [Self::Locks, Self::Cron, Self::Queues, Self::Runs];

    /// How many statements a dblock needs for it, with the end of its session: on MySQL, which gets a few more than `MariaDB`.
    fn statements(self, queues: usize) -> f64 {
        let queues = u32::try_from(queues).unwrap_or(u32::MAX);
        match self {
            Self::Locks => 14.0,
            Self::Cron => 9.0,
            Self::Queues => 6.0 + 6.0 * f64::from(queues),
            // What is new, and further back.
            Self::Runs => 17.0,
        }
    }

    /// How much less often it is asked for than the crontab, which says what is wrong.
    fn rarity(self) -> f64 {
        match self {
            Self::Cron => 1.0,
            Self::Locks | Self::Queues => 2.0,
            Self::Runs => 4.0,
        }
    }
}

/// When each of them is due.
#[derive(Debug)]
pub struct Pace {
    refresh: Duration,
    queues: usize,
    due: [Instant; 4],
}

impl Pace {
    /// All are due now.
    pub fn new(refresh: Duration) -> Self {
        Self {
            refresh,
            queues: 0,
            due: [Instant::now(); 4],
        }
    }

    /// What is due first, and when.
    pub fn next(&self) -> (Topic, Instant) {
        let all = Topic::ALL.into_iter().zip(self.due);
        all.min_by_key(|&(_, due)| due).expect("there are four")
    }

    /// It was asked for, then; the fleet has so many queues.
    pub fn is_asked(&mut self, topic: Topic, then: Instant, queues: usize) {
        self.queues = queues;
        let pause = self.pause(topic);
        self.due[topic as usize] = then + pause;
    }

    /// None is asked for before that.
    pub fn postpone(&mut self, until: Instant) {
        self.due = self.due.map(|due| due.max(until));
    }

    /// All are due now.
    pub fn hurry(&mut self) {
        self.due = [Instant::now(); 4];
    }

    /// The longest time in which everything is asked for.
    pub fn longest(&self) -> Duration {
        Topic::ALL
            .map(|topic| self.pause(topic))
            .into_iter()
            .max()
            .unwrap_or_default()
    }

    fn pause(&self, topic: Topic) -> Duration {
        let a_refresh: f64 = Topic::ALL
            .map(|topic| topic.statements(self.queues) / topic.rarity())
            .iter()
            .sum();
        let pause = self.refresh.as_secs_f64().max(a_refresh / MOST) * topic.rarity();
        Duration::from_secs_f64(pause.min(3600.0))
    }
}

/// What single pages may ask for again. What they do not know yet they ask for at once: somebody waits for it.
#[derive(Debug)]
pub struct Allowance {
    saved: f64,
    since: Instant,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            saved: SAVED,
            since: Instant::now(),
        }
    }
}

impl Allowance {
    /// Whether one answer may be asked for again.
    pub fn allows_one(&mut self) -> bool {
        let earned = self.since.elapsed().as_secs_f64() * OF_PAGES;
        self.since = Instant::now();
        self.saved = (self.saved + earned).min(SAVED);
        self.saved >= OF_AN_ANSWER
    }

    /// One was asked for.
    pub fn take(&mut self) {
        self.saved = (self.saved - OF_AN_ANSWER).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_pages_ask_for_little_in_the_long_run() {
        let mut allowance = Allowance::default();
        let mut asked = 0.0;
        // An hour, in which somebody looks each second.
        for _ in 0..3600 {
            allowance.since = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
            if allowance.allows_one() {
                allowance.take();
                asked += OF_AN_ANSWER;
            }
        }
        assert!(asked <= SAVED + 3600.0 * OF_PAGES * 1.01, "{asked}");
        assert!(asked >= 3600.0 * OF_PAGES * 0.99, "{asked}");
    }

    fn statements_a_second(refresh: Duration, queues: usize) -> f64 {
        let mut pace = Pace::new(refresh);
        pace.is_asked(Topic::Queues, Instant::now(), queues);
        let each =
            Topic::ALL.map(|topic| topic.statements(queues) / pace.pause(topic).as_secs_f64());
        each.iter().sum()
    }

    #[test]
    fn there_are_few_statements_however_many_queues_there_are() {
        for queues in [0, 1, 5, 100] {
            assert!(
                statements_a_second(Duration::from_secs(1), queues) < MOST + 0.01,
                "{queues}"
            );
        }
    }

    #[test]
    fn a_long_refresh_is_kept() {
        let pace = Pace::new(Duration::from_secs(60));
        assert_eq!(pace.pause(Topic::Cron), Duration::from_secs(60));
    }
}
