//! Notifies a service manager: `sd_notify(3)`, a datagram to the socket in `NOTIFY_SOCKET`.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::base::clock::Moment;

/// The variables that the manager sets only for the daemon.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The service manager, if there is one.
pub struct Manager {
    socket: Option<OsString>,
    /// The interval of the watchdog messages; `None`: none are wanted.
    interval: Option<Duration>,
    next: Moment,
}

impl Manager {
    /// The manager of this process.
    pub fn of_process() -> Self {
        let own =
            std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let limit = std::env::var("WATCHDOG_USEC")
            .ok()
            .and_then(|span| span.parse().ok());
        Self {
            socket: std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty()),
            interval: limit
                .filter(|_| own)
                .map(|limit| Duration::from_micros(limit) / 3),
            next: Moment::START,
        }
    }

    /// Sends a state, such as `READY=1`. One that cannot be sent is dropped.
    pub fn tell(&self, what: &str) {
        let Some(socket) = &self.socket else { return };
        let bytes = socket.as_bytes();
        let address = match bytes.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(socket),
        };
        if let (Ok(address), Ok(own)) = (address, UnixDatagram::unbound()) {
            let _ = own.set_nonblocking(true);
            let _ = own.send_to_addr(what.as_bytes(), &address);
        }
    }

    /// Sends the watchdog message if it is due. Returns when the next one is.
    pub fn live(&mut self) -> Option<Moment> {
        let interval = self.interval?;
        if self.next <= Moment::now() {
            self.tell("WATCHDOG=1");
            self.next = Moment::now() + interval;
        }
        Some(self.next)
    }
}
