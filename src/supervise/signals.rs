//! Signals as events: blocked from the start and read from a descriptor, so that none is lost and none interrupts.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::getppid;

use super::inherited;

/// What goes on to the command.
const FORWARDED: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

/// The signals of this process.
pub struct Signals {
    descriptor: SignalFd,
    /// The mask that dblock was started with, and the command gets.
    inherited: SigSet,
    ignored: SigSet,
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Which.
    pub signal: Signal,
    /// Whether the kernel sent it, as a terminal's driver makes it do, to the whole foreground group at once.
    pub from_terminal: bool,
    /// Whether dblock's parent process sent it.
    pub from_parent: bool,
}

impl Signals {
    /// Blocks what dblock handles and begins to collect it. What was blocked already stays out until a command runs: a
    /// program that blocks a signal does not die of it either.
    ///
    /// # Errors
    /// As `signalfd(2)`.
    pub fn collect() -> io::Result<Self> {
        inherited::make_children_waitable();
        let mut handled: SigSet = FORWARDED.into_iter().collect();
        handled.add(Signal::SIGCHLD);
        let mut inherited = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&handled), Some(&mut inherited))?;
        let ignored = FORWARDED
            .into_iter()
            .filter(|&signal| inherited::is_ignored(signal as i32))
            .collect();

        let mut wanted: SigSet = FORWARDED
            .into_iter()
            .filter(|&signal| !inherited.contains(signal))
            .collect();
        wanted.add(Signal::SIGCHLD);
        let descriptor =
            SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self {
            descriptor,
            inherited,
            ignored,
        })
    }

    /// From here on everything that is forwarded is collected, also what was blocked from the start.
    ///
    /// # Errors
    /// As `signalfd(2)`.
    pub fn collect_all(&self) -> io::Result<()> {
        let mut wanted: SigSet = FORWARDED.into_iter().collect();
        wanted.add(Signal::SIGCHLD);
        Ok(self.descriptor.set_mask(&wanted)?)
    }

    /// The next signal that arrived, `None` if there is none.
    ///
    /// # Errors
    /// As `read(2)`.
    pub fn next(&self) -> io::Result<Option<Received>> {
        let Some(info) = self.descriptor.read_signal()? else {
            return Ok(None);
        };
        let number = i32::try_from(info.ssi_signo).unwrap_or_default();
        let signal = Signal::try_from(number)?;
        Ok(Some(Received {
            signal,
            from_terminal: info.ssi_code == libc::SI_KERNEL,
            from_parent: i32::try_from(info.ssi_pid) == Ok(getppid().as_raw()),
        }))
    }

    /// Has a signal do to dblock itself, while no command runs, what it does to any program: TSTP stops it here. `true`:
    /// dblock is to die of it.
    pub fn act_on(&self, signal: Signal) -> bool {
        match signal {
            _ if self.ignored.contains(signal) => false,
            Signal::SIGCHLD | Signal::SIGCONT => false,
            Signal::SIGTSTP => {
                stop();
                false
            }
            _ => true,
        }
    }

    /// Whether this signal asks a program to end, and is not ignored, as by nohup(1).
    pub fn asks_to_end(&self, signal: Signal) -> bool {
        let asks = [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGTERM,
        ];
        asks.contains(&signal) && !self.ignored.contains(signal)
    }

    /// In the command's process, between fork and exec: the mask as dblock got it.
    ///
    /// # Errors
    /// As `sigprocmask(2)`.
    pub fn restore_mask(inherited: &SigSet) -> io::Result<()> {
        Ok(sigprocmask(SigmaskHow::SIG_SETMASK, Some(inherited), None)?)
    }

    /// The mask that dblock was started with.
    pub fn inherited(&self) -> SigSet {
        self.inherited
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Stops this process as Ctrl-Z does, so that the shell sees it, and returns when it has been continued.
pub fn stop() {
    let only: SigSet = [Signal::SIGTSTP].into_iter().collect();
    let _ = raise(Signal::SIGTSTP);
    let _ = only.thread_unblock();
    let _ = only.thread_block();
}
