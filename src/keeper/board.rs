//! The running commands, in memory that this process shares with the one that has the session. This one ends commands when a lease is over.
//! If it is stopped or dead, or hangs, the other one kills them. That finds them here, because a stopped process sends no messages.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};

use nix::unistd::Pid;

use crate::base::exit::Failure;
use crate::base::processes::Processes;
use crate::base::shared_memory::share;
use crate::db::LatestTimeline;
use crate::isolated::process::open_process;

/// The place of one command.
#[derive(Debug, Default)]
struct Entry {
    /// The number of the lease that it runs under; 0: the place is free.
    lease: AtomicU64,
    /// Its process, as for `kill(2)`: negative if it leads a group; 0: it has not started.
    target: AtomicI32,
    /// The process, written likewise, that the process with the session has killed.
    killed: AtomicI32,
}

/// All places, and what a process that replaces the other one must know. The memory lives as long as either process.
#[derive(Debug, Clone, Copy)]
pub struct Board {
    entries: &'static [Entry],
    /// The latest timeline of a PostgreSQL that the process with the session has seen.
    pub timeline: LatestTimeline,
}

impl Board {
    /// A board with this many places, at least one.
    ///
    /// # Errors
    /// The system refused.
    pub fn new(places: u32) -> Result<Self, Failure> {
        let refused = |error: io::Error| Failure::refused("share memory", &error);
        // SAFETY: an entry is all atomics, and zero is a free one.
        let entries = unsafe { share(places.max(1) as usize) };
        Ok(Self {
            entries: entries.map_err(refused)?,
            timeline: LatestTimeline::shared().map_err(refused)?,
        })
    }

    /// Takes a place for a command under the lease with this number, which is not 0. `None`: all are taken.
    pub fn take(self, lease: u64) -> Option<Place> {
        let entry = self.entries.iter().find(|entry| entry.is_free())?;
        entry.killed.store(0, SeqCst);
        entry.target.store(0, SeqCst);
        entry.lease.store(lease, SeqCst);
        Some(Place(entry))
    }

    /// Whether a command runs under such a lease.
    pub fn has(self, is_meant: impl Fn(u64) -> bool) -> bool {
        self.under(is_meant).next().is_some()
    }

    /// Whether any process of a command under such a lease runs, or is about to.
    pub fn is_alive(self, is_meant: impl Fn(u64) -> bool) -> bool {
        self.under(is_meant).any(|entry| {
            let processes = entry.processes();
            processes.is_none_or(Processes::alive)
        })
    }

    /// Whether any command runs, or is about to, that the process with the session has not killed.
    pub fn has_living(self) -> bool {
        let mut all = self.under(|_| true);
        all.any(|entry| !entry.was_killed())
    }

    /// Whether there are commands, and the process with the session has killed them all.
    pub fn were_all_killed(self) -> bool {
        self.has(|_| true) && !self.has_living()
    }

    /// Whether there are commands under such leases, the process with the session has killed them, and none of their processes is left.
    pub fn are_killed_and_gone(self, is_meant: impl Fn(u64) -> bool) -> bool {
        let mut any = false;
        let mut all = self.under(is_meant);
        let all_gone = all.all(|entry| {
            any = true;
            entry.was_killed() && !entry.processes().is_some_and(Processes::alive)
        });
        any && all_gone
    }

    /// Whether all commands are stopped, as by Ctrl-Z.
    pub fn are_stopped(self) -> bool {
        let mut all = self.under(|_| true).filter_map(Entry::processes);
        all.all(Processes::is_stopped)
    }

    /// Kills the commands under such leases. The process that reaps them may run. Returns whether there are any.
    pub fn kill(self, is_meant: impl Fn(u64) -> bool) -> bool {
        let mut any = false;
        for entry in self.under(&is_meant) {
            any = true;
            let target = entry.target.load(SeqCst);
            let Some(processes) = processes(target) else {
                continue;
            };
            // A command leaves its place before it is reaped. So if it is still there, what was opened is its own process.
            let opened = open_process(Pid::from_raw(processes.pid));
            let is_there = !entry.is_free()
                && is_meant(entry.lease.load(SeqCst))
                && entry.target.load(SeqCst) == target;
            if is_there {
                entry.killed.store(target, SeqCst);
                if let Some(opened) = opened {
                    processes.kill_opened(opened.as_fd());
                } else {
                    processes.signal(libc::SIGKILL);
                }
            }
        }
        any
    }

    /// Kills all commands, and returns whether any of them still runs. Only call this once the process that reaps them is dead.
    pub fn kill_all(self) -> bool {
        let mut any = false;
        for entry in self.under(|_| true) {
            let processes = entry.processes();
            if let Some(processes) = processes {
                processes.signal(libc::SIGKILL);
            }
            if processes.is_some_and(Processes::alive) {
                any = true;
            } else {
                // Another process may get its pid.
                drop(Place(entry));
            }
        }
        any
    }

    fn under(self, is_meant: impl Fn(u64) -> bool) -> impl Iterator<Item = &'static Entry> {
        let leases = self.entries.iter();
        leases
            .filter(|entry| !entry.is_free())
            .filter(move |entry| is_meant(entry.lease.load(SeqCst)))
    }
}

impl Entry {
    fn is_free(&self) -> bool {
        self.lease.load(SeqCst) == 0
    }

    /// `None`: it has not started.
    fn processes(&self) -> Option<Processes> {
        processes(self.target.load(SeqCst))
    }

    /// Whether the process with the session has killed it.
    fn was_killed(&self) -> bool {
        let target = self.target.load(SeqCst);
        target != 0 && self.killed.load(SeqCst) == target
    }
}

/// The processes of a target. `None`: it has not started.
fn processes(target: i32) -> Option<Processes> {
    (target != 0).then_some(Processes {
        pid: target.abs(),
        own_group: target < 0,
    })
}

/// The place of one command, from before its start until just before it is reaped. Until then no other process has its pid.
#[derive(Debug)]
pub struct Place(&'static Entry);

impl Place {
    /// A callback for the new process, with its pid and whether it leads a group.
    pub fn announce(&self) -> impl Fn(i32, bool) -> io::Result<()> + Send + Sync + use<> {
        let entry = self.0;
        move |pid, own_group| {
            let target = if own_group { -pid } else { pid };
            entry.target.store(target, SeqCst);
            Ok(())
        }
    }

    /// Whether the process with the session has killed the command.
    pub fn was_killed(&self) -> bool {
        self.0.was_killed()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.target.store(0, SeqCst);
        self.0.lease.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_commands_that_are_meant_are_killed_and_a_place_is_free_again() {
        let board = Board::new(2).unwrap();
        let sleep = || {
            std::process::Command::new("sleep")
                .arg("60")
                .spawn()
                .unwrap()
        };
        let mut children = [sleep(), sleep()];
        let places = [7, 8].map(|lease| board.take(lease).unwrap());
        assert!(board.take(9).is_none());
        for (child, place) in children.iter().zip(&places) {
            place.announce()(child.id().cast_signed(), false).unwrap();
        }
        assert!(board.has(|lease| lease == 7) && !board.has(|lease| lease == 9));
        board.kill(|lease| lease != 8);
        children[0].wait().unwrap();
        assert_eq!([true, false], [0, 1].map(|at| places[at].was_killed()));
        let are_gone = [7, 8, 9].map(|number| board.are_killed_and_gone(|lease| lease == number));
        assert_eq!([true, false, false], are_gone);
        assert!(children[1].try_wait().unwrap().is_none());
        children[1].kill().unwrap();
        children[1].wait().unwrap();
        drop(places);
        assert!(!board.has(|_| true) && board.take(9).is_some());
    }

    #[test]
    fn the_whole_group_of_a_command_is_killed() {
        use std::io::{BufRead, BufReader};
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};

        let board = Board::new(1).unwrap();
        let place = board.take(7).unwrap();
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        place.announce()(shell.id().cast_signed(), true).unwrap();
        let mut other = String::new();
        let stdout = shell.stdout.take().unwrap();
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut other).unwrap();
        board.kill(|lease| lease == 7);
        shell.wait().unwrap();
        // Its end closes the pipe.
        assert_eq!(stdout.read_line(&mut other).unwrap(), 0);
        assert!(place.was_killed());
    }
}
