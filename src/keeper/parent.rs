//! The process that has started this one, and that ends the commands. This one watches it: while commands run it outlives that process, and
//! it kills them where that process cannot.

use std::collections::VecDeque;
use std::time::Duration;

use nix::sys::prctl;
use nix::unistd::{Pid, getppid};
use serde::Serialize;

use super::board::Board;
use super::pause::{SHORTEST_PAUSE, sleep_longer};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::base::processes::Processes;
use crate::isolated::link::{Link, cut};
use crate::isolated::process::die_with;

/// How long a process may take to die once it has closed its descriptors.
const LONGEST_DEATH: Duration = Duration::from_secs(60);

/// The process that has started this one, what it is told, and what runs there. It may be stopped and read nothing, and nothing waits for it.
pub struct Parent<'a, Message> {
    /// The link to it.
    pub link: &'a Link,
    /// Its process.
    pub process: ParentProcess,
    /// The commands that it runs.
    pub board: Board,
    /// Messages that the link has no room for.
    outbox: VecDeque<Message>,
    /// A line for its log, as a message.
    note: fn(Level, String) -> Message,
}

impl<'a, Message: Serialize> Parent<'a, Message> {
    /// The process with this pid.
    pub fn new(link: &'a Link, pid: Pid, board: Board, note: fn(Level, String) -> Message) -> Self {
        Self {
            link,
            process: ParentProcess::new(pid),
            board,
            outbox: VecDeque::new(),
            note,
        }
    }

    /// Sends a message that must arrive, as soon as there is room.
    pub fn say(&mut self, message: Message) {
        self.outbox.push_back(message);
        self.send_rest();
    }

    /// Sends what there was no room for. Returns whether nothing is left.
    pub fn send_rest(&mut self) -> bool {
        while let Some(message) = self.outbox.front() {
            if !self.link.try_send(message, None).unwrap_or(true) {
                return false;
            }
            self.outbox.pop_front();
        }
        true
    }

    /// Sends what is left before this process ends, and waits for room.
    pub fn send_all(&mut self) {
        for message in self.outbox.drain(..) {
            let _ = self.link.send(&message);
        }
    }

    /// Sends a message that may be dropped where it is not read.
    pub fn say_if_heard(&self, message: &Message) {
        if self.outbox.is_empty() {
            self.link.send_if_heard(message);
        }
    }

    /// Logs a line. One that only informs may be dropped where it is not read.
    pub fn note(&mut self, level: Level, line: &str) {
        let note = (self.note)(level, cut(line));
        if level == Level::Info {
            self.say_if_heard(&note);
        } else {
            self.say(note);
        }
    }
}

/// The process itself.
#[derive(Debug, Clone, Copy)]
pub struct ParentProcess(Pid);

impl ParentProcess {
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

    /// This process ends. A parent that is stopped does not see that: while it is, `end_late` ends the commands that must be gone.
    pub fn guard_while_stopped(self, board: Board, mut end_late: impl FnMut()) {
        let mut pause = SHORTEST_PAUSE;
        while board.has(|_| true) && self.is_stopped() {
            end_late();
            pause = sleep_longer(pause);
        }
        if self.is_dead() {
            let _ = self.kill_all(board, || Ok::<_, Failure>(()));
        }
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
        let begun = Moment::now();
        // A dying process closes its descriptors first. One that lives on has closed the link, and will replace this process.
        while !self.is_dead() && begun.elapsed() < LONGEST_DEATH
            || self.is_dead() && board.kill_all()
        {
            pause = sleep_longer(pause);
            hold_on()?;
        }
        Ok(())
    }
}
