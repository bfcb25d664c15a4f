//! The arithmetic of a lock that the server keeps for a time only. The server drops a session, and with it the lock, when it
//! has heard no statement for the TTL; each answered renewal begins that time anew.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::clock::Moment;

/// Between two renewals at most.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// For how long a lock is ours, as far as is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// How long the server keeps a session that says nothing.
    pub ttl: Duration,
    /// When the last statement was sent whose answer proved possession. The server counts from a later moment.
    pub proved: Moment,
}

impl Lease {
    /// When the next renewal is due.
    pub fn next_renewal(self) -> Moment {
        self.proved + (self.ttl / 4).min(LONGEST_INTERVAL)
    }

    /// By when the command must be gone: with a tenth of the TTL to spare before the server gives the lock away.
    pub fn over(self) -> Moment {
        self.proved + self.ttl * 9 / 10
    }

    /// When the end of the command must begin, if it may take so long.
    pub fn end_command(self, kill_after: Duration) -> Moment {
        self.over() - self.kill_after(kill_after)
    }

    /// From SIGTERM to SIGKILL: as asked for, but where the server keeps the session for less than was asked for.
    pub fn kill_after(self, asked: Duration) -> Duration {
        asked.min(self.ttl / 3)
    }

    /// How long a supervisor that finds the lease over on waking waits for a proof that it is not.
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
