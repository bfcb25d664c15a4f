//! What a supervising process waits for: signals, the clock, and other descriptors. This is the one place that finds out which are ready.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::signals::Signals;
use crate::base::clock::{Alarm, Moment};
use crate::base::exit::Failure;

/// What a descriptor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A signal has arrived.
    Signals,
    /// The deadline has passed.
    Alarm,
    /// The process with the session has sent something, has ended, or has room for a message.
    Peer,
    /// A command has written something.
    Output,
    /// dblock's stdout or stderr has room.
    Outlet,
    /// A key was pressed, or the terminal is gone.
    Keys,
}

/// The signals and the alarm of this process.
pub struct Poller {
    /// The signals.
    pub signals: Signals,
    alarm: Alarm,
}

impl Poller {
    /// Waits for these signals, and for deadlines.
    ///
    /// # Errors
    /// [`crate::base::exit::Reason::OsRefused`].
    pub fn new(signals: Signals) -> Result<Self, Failure> {
        let alarm = Alarm::new().map_err(|error| Failure::refused("make a timer", &error))?;
        Ok(Self { signals, alarm })
    }

    /// Collects the signals of a process that runs many commands, as [`Signals::collect`].
    ///
    /// # Errors
    /// [`crate::base::exit::Reason::OsRefused`].
    pub fn for_many() -> Result<Self, Failure> {
        let refused = |error: io::Error| Failure::refused("collect signals", &error);
        let signals = Signals::collect().map_err(refused)?;
        Self::new(signals)
    }

    /// Waits for the deadline, if there is one, a signal, or one of the `others`. Returns what is ready.
    ///
    /// # Errors
    /// As `poll(2)` and `timerfd_settime(2)`.
    pub fn wait<'a>(
        &'a self,
        deadline: Option<Moment>,
        others: impl IntoIterator<Item = (Source, PollFd<'a>)>,
    ) -> io::Result<Vec<Source>> {
        self.alarm.set(deadline)?;
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let own = [
            (Source::Signals, readable(self.signals.as_fd())),
            (Source::Alarm, readable(self.alarm.as_fd())),
        ];
        let (sources, mut descriptors): (Vec<_>, Vec<_>) = own.into_iter().chain(others).unzip();
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let all = sources.into_iter().zip(&descriptors);
        let ready = all.filter(|(_, descriptor)| descriptor.any() == Some(true));
        Ok(ready.map(|(source, _)| source).collect())
    }

    /// Its descriptors.
    pub fn descriptors(&self) -> [RawFd; 2] {
        [self.signals.as_fd(), self.alarm.as_fd()].map(|descriptor| descriptor.as_raw_fd())
    }
}
