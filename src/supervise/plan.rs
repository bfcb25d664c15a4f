//! The event loop of a process that runs many commands. A plan says what is special to a worker or a daemon.

use std::io;
use std::os::fd::OwnedFd;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::output::{Output, Round};
use super::poller::Source;
use super::runner::Runner;
use super::signals::Received;
use super::started::Started;
use crate::base::children::reap_orphans;
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure};

/// What a process with this plan has.
pub type RunnerOf<P> =
    Runner<<P as Plan>::Purpose, <P as Plan>::Rest, <P as Plan>::Sent, <P as Plan>::Received>;

/// Which commands run, and what their ends mean. The first methods are special to each plan; the others are the loop.
pub trait Plan: Sized {
    /// What a command is started for.
    type Purpose;
    /// What matters of an ended command when its output is over.
    type Rest;
    /// A message to the process with the session.
    type Sent: Serialize;
    /// A message from the process with the session.
    type Received: DeserializeOwned + From<Failure>;

    /// What all plans have.
    fn runner(&mut self) -> &mut RunnerOf<Self>;

    /// Does what is due. Returns how dblock ends, if it does.
    fn advance(&mut self) -> Option<anyhow::Result<Ending>>;

    /// When [`Self::advance`] must be called next, unless an event comes first.
    fn deadline(&mut self) -> Option<Moment>;

    /// A signal has arrived.
    fn on_signal(&mut self, received: Received);

    /// The process with the session has sent a message, and maybe a descriptor with it.
    fn on_message(&mut self, message: Self::Received, descriptor: Option<OwnedFd>);

    /// The process with the session is reaped, and `end` says how it ended.
    fn on_peer_gone(&mut self, end: &str);

    /// Forks another process with a session, which takes over.
    ///
    /// # Errors
    /// The system refused.
    fn replace_peer(&mut self) -> Result<(), Failure>;

    /// This command is over, and must be reaped.
    fn on_over(&mut self, command: Started<Self::Purpose>, round: Round);

    /// This output of an ended command is over.
    fn on_output_over(&mut self, _output: Output, _rest: Self::Rest) {}

    /// Other children, which the plan reaps itself.
    fn other_children(&self) -> Vec<i32> {
        Vec::new()
    }

    /// Runs commands until [`Self::advance`] returns how dblock ends.
    ///
    /// # Errors
    /// Why the process could not continue.
    fn run(mut self) -> anyhow::Result<Ending> {
        loop {
            self.reap();
            self.replace_due_peer();
            let conclusion = self.advance();
            if let Some(conclusion) = conclusion {
                self.runner().peer.end();
                return conclusion;
            }
            if let Err(error) = self.wait() {
                let runner = self.runner();
                for command in &runner.commands {
                    command.running.child.signal(libc::SIGKILL);
                }
                runner.peer.end();
                return Err(error.into());
            }
        }
    }

    /// Waits for an event, and handles it.
    ///
    /// # Errors
    /// As `poll(2)` and `read(2)`.
    fn wait(&mut self) -> io::Result<()> {
        let own = self.deadline();
        let runner = self.runner();
        runner.outputs.flush(runner.log);
        let running = runner.commands.iter().map(|command| &command.output);
        let (wanted, look_again) = runner.outputs.wanted(running);
        let deadline = own.into_iter().chain(runner.deadline()).chain(look_again);
        let peer = runner.peer.wanted().map(|link| (Source::Peer, link));
        let others = wanted.into_iter().chain(peer);
        let ready = runner.poller.wait(deadline.min(), others)?;
        if ready.contains(&Source::Output) {
            runner.outputs.pass_on(&mut runner.commands);
            for (output, rest) in runner.outputs.take_over(|_| false) {
                self.on_output_over(output, rest);
            }
        }
        while let Some(received) = self.runner().poller.signals.next()? {
            self.on_signal(received);
        }
        self.runner().peer.send_rest();
        self.receive();
        Ok(())
    }

    /// Handles all messages that have arrived, and the end of the process that sends them.
    fn receive(&mut self) {
        while self.runner().peer.is_readable() {
            let Some((message, descriptor)) = self.runner().peer.receive() else {
                self.read_last_messages();
                let end = self.runner().peer.how_it_ended();
                return self.on_peer_gone(&end);
            };
            self.on_message(message, descriptor);
        }
    }

    /// Kills the process with the session, and handles all that it has sent. Its session stays open until another one has one.
    fn read_last_messages(&mut self) {
        self.runner().peer.reap();
        while let Some(message) = self.runner().peer.left_behind() {
            self.on_message(message, None);
        }
    }

    /// Starts another process with a session, if one has ended and the restart is due. If that fails, it is tried again.
    fn replace_due_peer(&mut self) {
        if self.runner().peer.restarts.take_due()
            && let Err(failure) = self.replace_peer()
        {
            let runner = self.runner();
            if runner.peer.restarts.note_fault(&failure) {
                runner.log.error(format_args!("{failure}; trying again"));
            }
            runner.last_note = failure.line;
            runner.peer.restarts.schedule();
        }
    }

    /// Handles commands that have ended, and reaps orphans.
    fn reap(&mut self) {
        let (mut at, round) = (0, Round::begin());
        while let Some(command) = self.runner().take_ended(&mut at) {
            self.on_over(command, round);
        }
        let others = self.other_children().into_iter().map(Some);
        let runner = self.runner();
        let commands = runner.commands.iter();
        let own: Vec<Option<i32>> = commands
            .map(|command| Some(command.running.child.processes.pid))
            .chain([runner.peer.pid()])
            .chain(others)
            .collect();
        reap_orphans(&own);
    }
}
