//! When a process that has ended is replaced: at once after a long life, after a pause if it died soon or a fault lasts, and not for ever.
//! Each fault is reported once.

use std::time::Duration;

use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Log;

/// The most deaths in a row, each within this time of the start.
const MOST_DEATHS: u32 = 5;
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// Each pause after a short life is this much longer than the one before.
const PAUSE: Duration = Duration::from_millis(100);

/// The pause after a process that reported a fault: this fraction of the fault's duration so far, within these bounds.
const PART_OF_FAULT: u32 = 4;
const FAULT_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Whether a process that has ended is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// Soon.
    Soon,
    /// After a pause: a known fault explains the end, and was reported.
    AfterFault,
    /// Not at all: too many have died.
    Never,
}

/// Why no process can do its task.
#[derive(Debug, Clone)]
pub struct LastingFault {
    /// Since when.
    pub since: Moment,
    /// The latest cause.
    pub failure: Failure,
}

/// The restarts of one kind of process, of which one should always run.
#[derive(Debug)]
pub struct Restarts {
    /// When the latest one was started.
    started: Moment,
    /// The deaths in a row, each soon after the start.
    deaths: u32,
    /// When the next one is started; `None`: one runs, or no other is wanted.
    next: Option<Moment>,
    /// `None`: the latest one works, or has not reported a fault.
    fault: Option<LastingFault>,
}

impl Restarts {
    /// Begins with a process that is started now.
    pub fn begin() -> Self {
        Self {
            started: Moment::now(),
            deaths: 0,
            next: None,
            fault: None,
        }
    }

    /// When the next one is started; `None`: no start is pending.
    pub fn next(&self) -> Option<Moment> {
        self.next
    }

    /// Whether the next start is due. Then it is not pending any more.
    pub fn take_due(&mut self) -> bool {
        let due = self.next.take_if(|next| *next <= Moment::now());
        due.is_some()
    }

    /// Notes that another one is started now.
    pub fn restart(&mut self) {
        self.started = Moment::now();
        self.next = None;
    }

    /// Cancels a pending start.
    pub fn cancel(&mut self) {
        self.next = None;
    }

    /// The next one is started at once.
    pub fn start_now(&mut self) {
        self.next = Some(Moment::now());
    }

    /// The latest one has done its task, so the count of deaths begins again.
    pub fn on_success(&mut self) {
        self.deaths = 0;
    }

    /// The latest one has ended. Schedules another one.
    pub fn schedule(&mut self) -> Replacement {
        if let Some(fault) = &self.fault {
            let [shortest, longest] = FAULT_PAUSES;
            let pause = (fault.since.elapsed() / PART_OF_FAULT).clamp(shortest, longest);
            self.next = Some(Moment::now() + pause);
            Replacement::AfterFault
        } else if self.on_death() {
            Replacement::Soon
        } else {
            Replacement::Never
        }
    }

    /// As [`Restarts::schedule`], after this `end`. Logs that another one goes on.
    ///
    /// # Errors
    /// There is no other.
    pub fn replace(&mut self, end: &str, log: Log) -> Result<(), Failure> {
        match self.schedule() {
            Replacement::Soon => log.info(format_args!("{end}; another one goes on")),
            Replacement::AfterFault => {}
            Replacement::Never => {
                let line = format!("{end}, again and again");
                return Err(Failure::new(Reason::Internal, line));
            }
        }
        Ok(())
    }

    /// As [`Restarts::schedule`] for one that has died without a reason. `false`: too many have died, and no other is started.
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

    /// Notes why the task cannot be done. `false`: that was noted before.
    pub fn note_fault(&mut self, failure: &Failure) -> bool {
        let before = self.fault.take();
        let is_known = |fault: &LastingFault| fault.failure.line == failure.line;
        let is_new = !before.as_ref().is_some_and(is_known);
        self.fault = Some(LastingFault {
            since: before.map_or_else(Moment::now, |fault| fault.since),
            failure: failure.clone(),
        });
        is_new
    }

    /// Why the task cannot be done; `None`: nothing is known against it.
    pub fn fault(&self) -> Option<&LastingFault> {
        self.fault.as_ref()
    }

    /// What was known of a fault may be over: if it lasts, its time counts from now.
    pub fn date_fault_anew(&mut self) {
        if let Some(fault) = &mut self.fault {
            fault.since = Moment::now();
        }
    }

    /// The task is done again. Returns whether a fault is over with that.
    pub fn end_fault(&mut self) -> bool {
        self.fault.take().is_some()
    }
}
