//! How many jobs a worker claims before it can start them. No other worker can start a claimed job, so it claims only what it will start
//! soon, and nothing while it does not know how long a command takes. It returns the jobs that it does not get to.

use std::time::Duration;

/// Jobs that are claimed ahead should start within this time, if commands keep their pace.
const SOON: Duration = Duration::from_millis(250);

/// Most jobs to claim ahead. Each of them counts an attempt if this worker dies.
const MOST_AHEAD: u32 = 500;

/// If no command has started for this long while all slots are busy, or so much is run at the ends of commands that none may start, the
/// worker returns what it has claimed ahead. Not at once: most such programs are quick.
pub const STALLED: Duration = Duration::from_secs(1);

/// The average duration of commands, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    average: Option<Duration>,
}

impl Pace {
    /// Notes the duration of a command.
    pub fn note(&mut self, took: Duration) {
        self.average = Some(match self.average {
            // The average follows slowly, but a slow command counts in full: it may be the first of many.
            Some(average) if took < average => average.mul_f64(0.9) + took.mul_f64(0.1),
            _ => took,
        });
    }

    /// How many jobs to have ready besides the running ones, with `slots` commands at once and `jobs` jobs for each command.
    pub fn ahead(self, slots: u32, jobs: u32) -> u32 {
        let Some(average) = self.average else {
            return 0;
        };
        let rounds = SOON.as_secs_f64() / average.as_secs_f64().max(1e-6);
        let ahead = (rounds * f64::from(slots) * f64::from(jobs)).min(f64::from(MOST_AHEAD));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to MOST_AHEAD"
        )]
        let ahead = ahead as u32;
        if ahead < jobs { 0 } else { ahead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_claimed_ahead_of_commands_that_take_long_or_of_which_nothing_is_known() {
        let mut pace = Pace::default();
        assert_eq!(pace.ahead(4, 1), 0);
        pace.note(Duration::from_millis(1));
        assert_eq!(pace.ahead(1, 1), 250);
        assert_eq!(pace.ahead(1000, 10), MOST_AHEAD);
        pace.note(Duration::from_secs(3));
        assert_eq!(pace.ahead(4, 1), 0);
        for _ in 0..200 {
            pace.note(Duration::from_millis(1));
        }
        assert!(pace.ahead(1, 1) > 200);
    }
}
