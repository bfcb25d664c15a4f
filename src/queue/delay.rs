//! When a failed job is tried again.

use std::time::Duration;

use crate::base::clock::doubled;

/// Delays double up to this limit, or up to the queue's own delay if that is longer.
const LONGEST_DELAY: Duration = Duration::from_secs(3600);

/// How long a job waits after this attempt, counted from 1, has failed. The queue's delay doubles with each attempt. `chance`, from 0 to 1,
/// decides the upper half, so that jobs that failed together do not all return together.
pub fn retry_delay(first: Duration, attempt: u32, chance: f64) -> Duration {
    let most = doubled(first, attempt.saturating_sub(1)).min(LONGEST_DELAY.max(first));
    most.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_an_hour_and_half_of_it_is_by_chance() {
        let seconds =
            |attempt, chance| retry_delay(Duration::from_secs(10), attempt, chance).as_secs();
        assert_eq!([seconds(1, 0.0), seconds(1, 1.0)], [5, 10]);
        assert_eq!(
            [seconds(2, 1.0), seconds(3, 1.0), seconds(4, 0.0)],
            [20, 40, 40]
        );
        assert_eq!([seconds(20, 1.0), seconds(u32::MAX, 0.0)], [3600, 1800]);
        let day = Duration::from_secs(86400);
        assert_eq!(retry_delay(day, 5, 1.0), day);
    }
}
