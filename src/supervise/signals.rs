//! Signals as events: blocked from the start and read from a descriptor. None is lost, and none interrupts a system call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpid, getsid};

use super::inherited;
use crate::base::processes::Processes;

/// The signals that dblock forwards to the command.
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

/// Those that ask a program to end.
const ENDING: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
];

/// What dblock was started with.
#[derive(Debug, Clone, Copy)]
pub struct Inherited {
    /// The mask; the command gets it, too.
    mask: SigSet,
    ignored: SigSet,
}

/// The signals of this process.
pub struct Signals {
    descriptor: SignalFd,
    inherited: Inherited,
    /// Whether this process was stopped, and SIGCONT has not been read since.
    stopped: bool,
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// The signal.
    pub signal: Signal,
    /// Whether the kernel sent it. The driver of a terminal has it do so, for the whole foreground group at once.
    pub from_terminal: bool,
    /// Whether it continues dblock after a [stop](Signals::stop).
    pub ends_stop: bool,
}

impl Received {
    /// Whether dblock must forward this to the command. A command in dblock's group gets some signals without dblock.
    pub fn is_for(self, command: Processes) -> bool {
        match self.signal {
            _ if command.own_group => true,
            // A terminal that hangs up signals the leader of the session alone.
            Signal::SIGHUP if getsid(None) == Ok(getpid()) => true,
            // The shell continues the whole group. Only if somebody continued dblock alone is the command still stopped. Do not forward
            // while our own SIGTSTP is pending: Ctrl-Z has stopped the command again, and is about to stop dblock.
            Signal::SIGCONT => {
                (!self.ends_stop || command.is_stopped()) && !is_pending(Signal::SIGTSTP)
            }
            // A terminal signals the whole foreground group.
            _ => !self.from_terminal,
        }
    }
}

impl Signals {
    /// Blocks the signals that dblock handles, and begins to collect them. A signal that was blocked before is not collected until a
    /// command runs: a program does not die of a signal that it blocks.
    ///
    /// # Errors
    /// As `signalfd(2)`.
    pub fn collect() -> io::Result<Self> {
        Self::collect_and(SigSet::empty())
    }

    /// As [`Signals::collect`], and besides that the terminal has another size.
    ///
    /// # Errors
    /// As `signalfd(2)`.
    pub fn collect_with_size() -> io::Result<Self> {
        Self::collect_and([Signal::SIGWINCH].into_iter().collect())
    }

    fn collect_and(besides: SigSet) -> io::Result<Self> {
        inherited::make_children_waitable();
        let mut mask = SigSet::empty();
        let handled: SigSet = all().into_iter().chain(&besides).collect();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&handled), Some(&mut mask))?;
        let ignored = FORWARDED
            .into_iter()
            .filter(|&signal| inherited::is_ignored(signal as i32))
            .collect();

        let mut wanted: SigSet = FORWARDED
            .into_iter()
            .filter(|&signal| !mask.contains(signal))
            .collect();
        wanted.add(Signal::SIGCHLD);
        wanted.extend(&besides);
        Self::of(wanted, Inherited { mask, ignored })
    }

    fn of(wanted: SigSet, inherited: Inherited) -> io::Result<Self> {
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        Ok(Self {
            descriptor: SignalFd::with_flags(&wanted, flags)?,
            inherited,
            stopped: false,
        })
    }

    /// Collects every forwarded signal once more, in a process whose signals were collected before.
    ///
    /// # Errors
    /// As `signalfd(2)`.
    pub fn collect_again(inherited: Inherited) -> io::Result<Self> {
        Self::of(all(), inherited)
    }

    /// Collects every forwarded signal from here on, including those that were blocked from the start.
    ///
    /// # Errors
    /// As `signalfd(2)`.
    pub fn collect_all(&self) -> io::Result<()> {
        Ok(self.descriptor.set_mask(&all())?)
    }

    /// The next signal that arrived, `None` if there is none.
    ///
    /// # Errors
    /// As `read(2)`.
    pub fn next(&mut self) -> io::Result<Option<Received>> {
        let Some(info) = self.descriptor.read_signal()? else {
            return Ok(None);
        };
        let number = i32::try_from(info.ssi_signo).unwrap_or_default();
        let signal = Signal::try_from(number)?;
        Ok(Some(Received {
            signal,
            from_terminal: info.ssi_code == libc::SI_KERNEL,
            ends_stop: signal == Signal::SIGCONT && std::mem::take(&mut self.stopped),
        }))
    }

    /// Does to dblock what this signal does to any program, while no command runs: TSTP stops it here. `true`: dblock must die of it.
    pub fn act_on(&mut self, signal: Signal) -> bool {
        match signal {
            _ if self.inherited.ignored.contains(signal) => false,
            Signal::SIGCHLD | Signal::SIGCONT => false,
            Signal::SIGTSTP => {
                self.stop();
                false
            }
            _ => true,
        }
    }

    /// Stops this process as Ctrl-Z does, so that the shell sees it, and returns when it has been continued.
    pub fn stop(&mut self) {
        self.stopped = true;
        let only: SigSet = [Signal::SIGTSTP].into_iter().collect();
        let _ = raise(Signal::SIGTSTP);
        let _ = only.thread_unblock();
        let _ = only.thread_block();
    }

    /// Whether this signal asks a program to end, and is not ignored. nohup(1), for one, ignores SIGHUP.
    pub fn asks_to_end(&self, signal: Signal) -> bool {
        ENDING.contains(&signal) && !self.inherited.ignored.contains(signal)
    }

    /// What dblock was started with.
    pub fn inherited(&self) -> Inherited {
        self.inherited
    }
}

impl Inherited {
    /// Restores the mask. For the command's process, between fork and exec.
    ///
    /// # Errors
    /// As `sigprocmask(2)`.
    pub fn restore_mask(&self) -> io::Result<()> {
        Ok(sigprocmask(
            SigmaskHow::SIG_SETMASK,
            Some(&self.mask),
            None,
        )?)
    }

    /// Does what may stop this process. Meanwhile a signal that asks a program to end ends this one, as any program, though nobody reads
    /// it. One that was blocked or ignored before does not.
    pub fn may_end_during<T>(&self, act: impl FnOnce() -> T) -> T {
        let ending: SigSet = ENDING
            .into_iter()
            .filter(|&signal| !self.mask.contains(signal))
            .collect();
        let _ = ending.thread_unblock();
        let done = act();
        let _ = ending.thread_block();
        done
    }
}

/// All signals that dblock handles.
fn all() -> SigSet {
    let mut all: SigSet = FORWARDED.into_iter().collect();
    all.add(Signal::SIGCHLD);
    all
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether this signal was sent and not read yet.
fn is_pending(signal: Signal) -> bool {
    let mut pending = SigSet::empty().as_ref().to_owned();
    // SAFETY: `pending` is a set of signals, which is written to and then read.
    unsafe {
        libc::sigpending(&raw mut pending) == 0
            && libc::sigismember(&raw const pending, signal as i32) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_continued_that_ctrl_z_has_stopped_once_more() {
        let stop: SigSet = [Signal::SIGTSTP].into_iter().collect();
        stop.thread_block().unwrap();
        let [alone, group] = [false, true].map(|own_group| Processes {
            pid: getpid().as_raw(),
            own_group,
        });
        let received = Received {
            signal: Signal::SIGCONT,
            from_terminal: false,
            ends_stop: false,
        };
        let is_for = || (received.is_for(alone), received.is_for(group));
        assert_eq!(is_for(), (true, true));
        raise(Signal::SIGTSTP).unwrap();
        assert_eq!(is_for(), (false, true));
        assert_eq!(stop.wait(), Ok(Signal::SIGTSTP));
        assert_eq!(is_for(), (true, true));
    }
}
