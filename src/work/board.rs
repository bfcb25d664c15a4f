//! The running commands, in memory that both processes of a worker share. The coordinator ends commands when the lease is over. If the
//! coordinator is stopped or dead, the claimer kills them. It finds them here, because a stopped process sends no messages.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};

use crate::base::processes::Processes;

/// The place of one command.
#[derive(Debug, Default)]
struct Entry {
    /// The worker that holds its jobs; 0: the place is free.
    worker: AtomicU64,
    /// Its process, as for `kill(2)`: negative if it leads a group; 0: it has not started.
    target: AtomicI32,
    /// Whether the claimer has killed it.
    was_killed: AtomicBool,
}

/// All places. The memory lives as long as either process.
#[derive(Debug, Clone, Copy)]
pub struct Board(&'static [Entry]);

impl Board {
    /// A board with this many places, at least one.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub fn new(places: u32) -> io::Result<Self> {
        let places = places.max(1) as usize;
        // SAFETY: new pages, at no particular address.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                places * size_of::<Entry>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the memory has this size, is page-aligned, is never unmapped, and is all zero, which is a valid entry. It is only changed
        // through atomics.
        Ok(Self(unsafe {
            std::slice::from_raw_parts(memory.cast::<Entry>(), places)
        }))
    }

    /// Takes a place for a command of this worker. `None`: all are taken.
    pub fn take(self, worker: u64) -> Option<Place> {
        let entry = self.0.iter().find(|entry| entry.is_free())?;
        entry.was_killed.store(false, SeqCst);
        entry.target.store(0, SeqCst);
        entry.worker.store(worker, SeqCst);
        Some(Place(entry))
    }

    /// Whether a command of any worker but this one runs.
    pub fn has_others_than(self, worker: Option<u64>) -> bool {
        self.others_than(worker).next().is_some()
    }

    /// Kills the commands of all workers but this one. Only call this while the process that reaps them is stopped.
    pub fn kill_others_than(self, worker: Option<u64>) {
        for entry in self.others_than(worker) {
            let target = entry.target.load(SeqCst);
            if target != 0 {
                entry.was_killed.store(true, SeqCst);
                let processes = Processes {
                    pid: target.abs(),
                    own_group: target < 0,
                };
                processes.signal(libc::SIGKILL);
            }
        }
    }

    /// Kills all commands, and returns whether any of them still runs. Only call this once the process that reaps them is dead.
    pub fn kill_all(self) -> bool {
        let mut any = false;
        for entry in self.others_than(None) {
            let target = entry.target.load(SeqCst);
            let processes = Processes {
                pid: target.abs(),
                own_group: target < 0,
            };
            if target != 0 {
                processes.signal(libc::SIGKILL);
            }
            if target != 0 && processes.alive() {
                any = true;
            } else {
                // Another process may get its pid.
                drop(Place(entry));
            }
        }
        any
    }

    fn others_than(self, worker: Option<u64>) -> impl Iterator<Item = &'static Entry> {
        let is_other = move |entry: &&Entry| Some(entry.worker.load(SeqCst)) != worker;
        self.0
            .iter()
            .filter(|entry| !entry.is_free())
            .filter(is_other)
    }
}

impl Entry {
    fn is_free(&self) -> bool {
        self.worker.load(SeqCst) == 0
    }
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

    /// Whether the claimer has killed the command.
    pub fn was_killed(&self) -> bool {
        self.0.was_killed.load(SeqCst)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.target.store(0, SeqCst);
        self.0.worker.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_commands_of_other_workers_are_killed_and_a_place_is_free_again() {
        let board = Board::new(2).unwrap();
        let sleep = || {
            std::process::Command::new("sleep")
                .arg("60")
                .spawn()
                .unwrap()
        };
        let mut children = [sleep(), sleep()];
        let places = [7, 8].map(|worker| board.take(worker).unwrap());
        assert!(board.take(9).is_none());
        for (child, place) in children.iter().zip(&places) {
            place.announce()(child.id().cast_signed(), false).unwrap();
        }
        assert!(board.has_others_than(Some(8)) && board.has_others_than(None));
        board.kill_others_than(Some(8));
        children[0].wait().unwrap();
        assert_eq!([true, false], [0, 1].map(|at| places[at].was_killed()));
        assert!(children[1].try_wait().unwrap().is_none());
        children[1].kill().unwrap();
        children[1].wait().unwrap();
        drop(places);
        assert!(!board.has_others_than(None) && board.take(9).is_some());
    }
}
