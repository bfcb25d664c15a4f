//! When a process that has died is replaced: at once after a long life, after a pause if it died soon, and not for ever.

use std::time::Duration;

use crate::base::clock::Moment;

/// The most deaths in a row, each within this time of the start.
const MOST_DEATHS: u32 = 5;
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// Each pause after a short life is this much longer than the one before.
const PAUSE: Duration = Duration::from_millis(100);

/// The pause after a process that reported a fault: this fraction of the fault's duration so far, within these bounds.
const PART_OF_FAULT: u32 = 4;
const FAULT_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// The restarts of one kind of process, of which one should always run.
#[derive(Debug)]
pub struct Restarts {
    /// When the latest one was started.
    started: Moment,
    /// The deaths in a row, each soon after the start.
    deaths: u32,
    /// When the next one is started; `None`: one runs, or no other is wanted.
    pub next: Option<Moment>,
}

impl Restarts {
    /// Begins with a process that is started now.
    pub fn begin() -> Self {
        Self {
            started: Moment::now(),
            deaths: 0,
            next: None,
        }
    }

    /// Notes that another one is started now.
    pub fn restart(&mut self) {
        self.started = Moment::now();
        self.next = None;
    }

    /// The latest one has done its task, so the count of deaths begins again.
    pub fn on_success(&mut self) {
        self.deaths = 0;
    }

    /// The latest one has died without a reason. `false`: too many have died, and no other is started.
    pub fn on_death(&mut self) -> bool {
        let died_soon = self.started.elapsed() <= SHORT_LIFE;
        if !died_soon {
            self.deaths = 0;
        }
        let goes_on = self.deaths < MOST_DEATHS;
        self.deaths += 1;
        let pause = if died_soon {
            PAUSE * self.deaths
        } else {
            Duration::ZERO
        };
        self.next = goes_on.then(|| Moment::now() + pause);
        goes_on
    }

    /// The latest one has ended because of a fault, which has kept all from their task since then.
    pub fn on_fault(&mut self, since: Moment) {
        let [shortest, longest] = FAULT_PAUSES;
        let pause = (since.elapsed() / PART_OF_FAULT).clamp(shortest, longest);
        self.next = Some(Moment::now() + pause);
    }

    /// Whether the next start is due.
    pub fn is_due(&self) -> bool {
        self.next.is_some_and(|next| next <= Moment::now())
    }
}
