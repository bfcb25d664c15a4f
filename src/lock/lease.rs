//! The deadlines of a lock that expires. The server ends a session, and with it the lock, after a TTL without a statement; each
//! answered renewal starts that time again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;

/// The longest time between two renewals.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// For how long a lock is held, as far as that is proved.
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

    /// When the next renewal is due.
    pub fn next_renewal(self) -> Moment {
        self.proved + Self::interval(self.ttl)
    }

    /// By when the command must have ended: a tenth of the TTL before the lock expires.
    pub fn over(self) -> Moment {
        self.proved + self.ttl * 9 / 10
    }

    /// When the end of the command must begin, if it may take so long.
    pub fn end_command(self, kill_after: Duration) -> Moment {
        self.over() - self.kill_after(kill_after)
    }

    /// From SIGTERM to SIGKILL: as asked for, and less where the server keeps the session for too short a time.
    pub fn kill_after(self, asked: Duration) -> Duration {
        asked.min(self.ttl / 3)
    }

    /// How long a supervisor that wakes after the end of the lease waits for a renewal that was confirmed meanwhile.
    pub fn grace(self) -> Duration {
        (self.ttl / 8).min(Duration::from_secs(2))
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
}
