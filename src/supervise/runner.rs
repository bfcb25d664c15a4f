//! What a process that runs commands has, whatever its plan.

use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::asides::Asides;
use super::command::Cause;
use super::output::Outlet;
use super::outputs::Outputs;
use super::poller::Poller;
use super::shutdown::Shutdown;
use super::started::Started;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::{Level, Log};
use crate::base::text::{counted, shown};
use crate::isolated::link::Link;
use crate::isolated::peer::Peer;
use crate::keeper::Board;
use crate::lock::{Grace, Lease};

/// The commands, and all that watches them. A command is started for a `Purpose`; the `Rest` matters when its output is over; the process
/// with the session gets what is `Sent`, and what it says is `Received`.
pub struct Runner<Purpose, Rest, Sent, Received> {
    pub log: Log,
    /// The signals and the alarm.
    pub poller: Poller,
    /// The running commands, for the process with the session.
    pub board: Board,
    /// The process with the session.
    pub peer: Peer<Sent, Received>,
    /// The running commands.
    pub commands: Vec<Started<Purpose>>,
    /// Their output, and that of those that have ended.
    pub outputs: Outputs<Rest>,
    /// Programs beside the commands, which are started when one has ended.
    pub asides: Asides,
    /// Once it has begun, no more commands start.
    pub shutdown: Shutdown,
    /// After a sleep of this process.
    pub grace: Grace,
    /// Since when the first server is looked for; `None`: the work has begun.
    pub begun: Option<Moment>,
    /// When this process last looked for signals and messages. All that had arrived by then is handled.
    pub(super) looked: Moment,
    /// Whether it was logged that no server answers.
    pub is_silent: bool,
    /// The last step that was logged.
    pub last_note: String,
}

impl<Purpose, Rest, Sent, Received> Runner<Purpose, Rest, Sent, Received>
where
    Sent: Serialize,
    Received: DeserializeOwned + From<Failure>,
{
    /// Begins with a process that was just forked, which people call `name`.
    pub fn new(
        log: Log,
        poller: Poller,
        board: Board,
        name: &'static str,
        peer: (Pid, Link),
    ) -> Self {
        Self {
            log,
            poller,
            board,
            peer: Peer::new(name, peer),
            commands: Vec::new(),
            outputs: Outputs::new(),
            asides: Asides::default(),
            shutdown: Shutdown::default(),
            grace: Grace::default(),
            begun: Some(Moment::now()),
            looked: Moment::now(),
            is_silent: false,
            last_note: "connecting".to_owned(),
        }
    }

    /// Logs a step or a failure of the process with the session.
    pub fn note(&mut self, level: Level, text: String) {
        self.log.say(level, &text);
        if level.is_step() {
            self.last_note = text;
        }
    }

    /// Whether this moment had passed when the process last looked for signals and messages. One that was stopped has not looked yet, and
    /// what came meanwhile may be the very answer that it waits for.
    pub fn has_passed(&self, deadline: Option<Moment>) -> bool {
        deadline.is_some_and(|deadline| deadline <= self.looked)
    }

    /// Takes out the next command that is over, from this place on. If dblock has ended it, its whole group is gone.
    pub(super) fn take_ended(&mut self, at: &mut usize) -> Option<Started<Purpose>> {
        while let Some(command) = self.commands.get_mut(*at) {
            if command.running.is_over() {
                return Some(self.commands.swap_remove(*at));
            }
            *at += 1;
        }
        None
    }

    /// Ends the commands that have reached their timeouts, which `say` reports, and all when the process ends. All are ended before
    /// anything is said, as a file system can keep this process in a write for ever.
    pub fn end_late(&mut self, say: impl Fn(&mut Started<Purpose>, &mut [Outlet; 2])) {
        let is_ending = self.shutdown.ends_commands();
        let mut late = Vec::new();
        for (at, command) in self.commands.iter_mut().enumerate() {
            if command.running.is_late() {
                command.running.end(Cause::TimedOut, None);
                late.push(at);
            }
            if is_ending {
                command.running.end(Cause::Stopped, None);
            }
        }
        for at in late {
            say(&mut self.commands[at], &mut self.outputs.outlets);
        }
    }

    /// Logs what follows from a signal that asks the process to end: no more `tasks` are taken.
    pub fn say_end(&self, signal: Signal, tasks: &str, grace: Duration) {
        let running = self.may_run_on(grace);
        self.log
            .info(format_args!("{signal}: taking no more {tasks}{running}"));
    }

    /// How long commands may still run, behind a semicolon; empty: none runs.
    pub fn may_run_on(&self, grace: Duration) -> String {
        if self.commands.is_empty() {
            return String::new();
        }
        let running = counted(self.commands.len(), "command");
        format!("; {running} may run on for {}", shown(grace))
    }

    /// SIGKILL follows at once for the commands that dblock ends.
    pub fn kill_ending(&mut self) {
        for command in &mut self.commands {
            command.running.kill_now();
        }
    }

    /// Whether dblock ends all commands that run.
    pub fn are_all_ending(&self) -> bool {
        let mut commands = self.commands.iter();
        commands.all(|command| command.running.is_ending())
    }

    /// Whether dblock ends all commands so that they are gone before others may get what is held under this lease.
    pub fn are_all_gone_by(&self, lease: Option<Lease>) -> bool {
        let mut commands = self.commands.iter();
        commands.all(|command| lease.is_none_or(|lease| command.running.is_gone_by(lease.over())))
    }

    /// When to check the commands, the grace of the end, or a due restart, unless something happens before.
    pub fn deadline(&self) -> Option<Moment> {
        let commands = self.commands.iter();
        let commands = commands.filter_map(|command| command.running.deadline());
        let end = self.shutdown.until.filter(|_| !self.are_all_ending());
        commands
            .chain(end)
            .chain(self.asides.deadline())
            .chain(self.peer.restarts.next())
            .min()
    }
}
