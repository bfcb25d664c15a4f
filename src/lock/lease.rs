//! The deadlines of a lock that expires. After a TTL without a statement the server ends the session, and with it the lock. Each answered
//! renewal starts that time again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;

/// The longest time between two renewals.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// A server may take this part of the TTL for an answer, within these bounds.
const ANSWERS_IN_TTL: u32 = 8;
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);
const LONGEST_LIMIT: Duration = Duration::from_secs(10);

/// The shortest limit on an answer.
const SHORTEST_CAP: Duration = Duration::from_millis(50);

/// How long a lock is held, as far as that is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// How long the server keeps a session without a statement.
    pub ttl: Duration,
    /// When the last statement was sent whose answer proved that the lock is held. The server counts from a later moment.
    pub proved: Moment,
}

impl Lease {
    /// The time between two renewals at this TTL.
    pub fn interval(ttl: Duration) -> Duration {
        (ttl / 4).min(LONGEST_INTERVAL)
    }

    /// How long a server may take for one answer at this TTL, so that another one can be tried in time.
    pub fn answer_limit(ttl: Duration) -> Duration {
        (ttl / ANSWERS_IN_TTL).clamp(SHORTEST_LIMIT, LONGEST_LIMIT)
    }

    /// When the next renewal is due.
    pub fn next_renewal(self) -> Moment {
        self.proved + Self::interval(self.ttl)
    }

    /// By when the command must have ended: a tenth of the TTL before the lock expires.
    pub fn over(self) -> Moment {
        self.proved + self.ttl * 9 / 10
    }

    /// Until when a server may answer while a command runs. Just after the command must have ended: a supervisor that runs has ended it by
    /// then, and for one that is stopped the keeper ends it.
    pub fn last_answer(over: Moment, ttl: Duration) -> Moment {
        over + ttl / 40
    }

    /// The limit on a socket for an answer that must arrive by then. Zero would be no limit. The kernel counts long times in large steps,
    /// and rounds up: it may wait for an eighth longer than it was asked to (see the test).
    pub fn time_until(until: Moment) -> Duration {
        (until.since(Moment::now()) * 7 / 8).max(SHORTEST_CAP)
    }

    /// When dblock must begin to end the command, so that `kill_after` fits in.
    pub fn end_command(self, kill_after: Duration) -> Moment {
        self.over() - self.kill_after(kill_after)
    }

    /// The time between SIGTERM and SIGKILL: as requested, or less where the server keeps the session for too short a time.
    pub fn kill_after(self, asked: Duration) -> Duration {
        asked.min(self.ttl / 3)
    }

    /// When SIGKILL follows for a command that is ended now, so that it is gone in time.
    pub fn kill_at(self, asked: Duration) -> Moment {
        (Moment::now() + self.kill_after(asked)).min(self.over())
    }

    /// A supervisor that wakes after the end of the lease waits this long for a renewal that was confirmed meanwhile.
    pub fn grace(self) -> Duration {
        Self::grace_of(self.ttl)
    }

    /// The same at this TTL.
    pub fn grace_of(ttl: Duration) -> Duration {
        (ttl / 8).min(Duration::from_secs(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_takes_all_its_time_to_end_is_gone_before_the_lock() {
        let proved = Moment::now();
        for seconds in [4, 5, 60, 300, 86400] {
            let ttl = Duration::from_secs(seconds);
            let lease = Lease { ttl, proved };
            for asked in [Duration::ZERO, ttl / 4, ttl / 3, ttl] {
                let killed = lease.end_command(asked) + lease.kill_after(asked);
                assert!(killed <= lease.over() && lease.over() < proved + ttl);
                // Two renewals may fail before the command is ended.
                assert!(lease.next_renewal() + ttl / 4 < lease.end_command(asked));
            }
        }
    }

    /// When the kernel ends a wait on a socket that begins at `now` and is limited to so many ticks: `__calc_index` of its
    /// `kernel/time/timer.c`. From 63 ticks on it counts in steps of 8, from 504 on in steps of 64, and so on.
    fn end_of_wait(now: u128, ticks: u128) -> u128 {
        let mut step = 1;
        while ticks >= 63 * step {
            step *= 8;
        }
        (now + ticks) / step * step + step
    }

    #[test]
    fn a_wait_for_an_answer_is_over_in_time_whatever_the_kernel_rounds() {
        for ticks_a_second in [100, 250, 300, 1000] {
            let tick = Duration::from_secs(1) / ticks_a_second;
            for seconds in [2, 3, 5, 14, 16, 17, 40, 130, 200, 1000, 3600] {
                let left = Duration::from_secs(seconds);
                let limit = Lease::time_until(Moment::now() + left);
                let in_ticks = |span: Duration| span.as_nanos().div_ceil(tick.as_nanos());
                for begun in (0..100_000).step_by(77) {
                    let waited = end_of_wait(begun, in_ticks(limit)) - begun;
                    assert!(
                        waited <= in_ticks(left),
                        "{seconds} s at {ticks_a_second} Hz"
                    );
                }
            }
        }
    }
}
