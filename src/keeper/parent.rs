//! The process that has started this one, and that ends the commands. This one watches it: while commands run it outlives that process, and
//! it kills them where that process cannot.

use nix::sys::prctl;
use nix::unistd::{Pid, getppid};

use super::board::Board;
use super::pause::{SHORTEST_PAUSE, sleep_longer};
use crate::base::exit::Failure;
use crate::base::processes::Processes;
use crate::isolated::process::die_with;

/// The process that has started this one.
#[derive(Debug, Clone, Copy)]
pub struct Parent(Pid);

impl Parent {
    /// The process with this pid.
    pub fn new(pid: Pid) -> Self {
        Self(pid)
    }

    /// From here on commands may run. If the parent dies, this process must hold their locks until they are gone.
    #[expect(clippy::unused_self, reason = "there is one parent only")]
    pub fn outlive(self) {
        let _ = prctl::set_pdeathsig(None);
    }

    /// No command runs: the kernel ends this process with its parent.
    ///
    /// # Errors
    /// The parent is already dead.
    pub fn die_with(self) -> Result<(), Failure> {
        die_with(self.0)
    }

    /// Whether it is dead.
    pub fn is_dead(self) -> bool {
        getppid() != self.0
    }

    /// Whether it is stopped, as by Ctrl-Z.
    pub fn is_stopped(self) -> bool {
        let process = Processes {
            pid: self.0.as_raw(),
            own_group: false,
        };
        process.is_stopped()
    }

    /// Kills the commands under such leases if the parent is stopped, and returns whether it did. A parent that runs ends them itself, and
    /// may reap them at any moment.
    pub fn kill_if_stopped(self, board: Board, is_over: impl Fn(u64) -> bool) -> bool {
        let kills = board.has(&is_over) && self.is_stopped();
        if kills {
            board.kill(is_over);
        }
        kills
    }

    /// The parent has died: kills its commands until they are gone. A command of another user may not be killed, so `hold_on` keeps what they
    /// hold meanwhile.
    ///
    /// # Errors
    /// Those of `hold_on`.
    pub fn kill_all<E>(
        self,
        board: Board,
        mut hold_on: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut pause = SHORTEST_PAUSE;
        // A dying process closes its descriptors first.
        while !self.is_dead() || board.kill_all() {
            pause = sleep_longer(pause);
            hold_on()?;
        }
        Ok(())
    }
}
