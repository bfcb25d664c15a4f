//! TCP keep-alive. A session that is gone, or that a load balancer has forgotten, becomes an error within a minute, or a quarter of the TTL
//! if that is less, so there is time to find another server. It also keeps a NAT's entry alive.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};

/// The longest and the shortest time without an acknowledgement.
const USER_TIMEOUT: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(60)];

/// How many probes are sent. Idle time and interval are a third of the time without an acknowledgement.
pub const PROBES: u32 = 2;

/// The times of TCP keep-alive.
#[derive(Debug, Clone, Copy)]
pub struct KeepAlive {
    /// After this time without a byte the first probe is sent, and the next after the same time.
    pub idle: Duration,
    /// After this time without an acknowledgement the connection has ended.
    pub user_timeout: Duration,
}

impl KeepAlive {
    /// For a session that the server keeps so long without a statement.
    pub fn new(idle_limit: Duration) -> Self {
        let [shortest, longest] = USER_TIMEOUT;
        let user_timeout = (idle_limit / 4).clamp(shortest, longest);
        Self {
            idle: user_timeout / 3,
            user_timeout,
        }
    }

    /// Sets them for a TCP socket.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn set(self, socket: &impl AsFd) -> io::Result<()> {
        let seconds = u32::try_from(self.idle.as_secs()).unwrap_or(u32::MAX);
        let millis = u32::try_from(self.user_timeout.as_millis()).unwrap_or(u32::MAX);
        setsockopt(socket, sockopt::KeepAlive, &true)?;
        setsockopt(socket, sockopt::TcpKeepIdle, &seconds)?;
        setsockopt(socket, sockopt::TcpKeepInterval, &seconds)?;
        setsockopt(socket, sockopt::TcpKeepCount, &PROBES)?;
        setsockopt(socket, sockopt::TcpUserTimeout, &millis)?;
        Ok(())
    }
}
