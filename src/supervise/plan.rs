//! The event loop of the process that runs commands. A plan says what is special to a run, a worker or a daemon.

use std::io;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::output::{Output, OutputRound};
use super::poller::Source;
use super::runner::Runner;
use super::signals::Received;
use super::started::Started;
use crate::base::children::reap_orphans;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::text::in_words;

/// The most signals that are handled before a look at the clock: somebody may send them without end.
const MOST_SIGNALS: u32 = 32;

/// The pause between two looks for messages where the system does not let this process wait for events.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

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

    /// How the process ends.
    type Conclusion;

    /// What all plans have.
    fn runner(&mut self) -> &mut RunnerOf<Self>;

    /// Does what is due. Returns how the process ends, if it does.
    fn advance(&mut self) -> Option<anyhow::Result<Self::Conclusion>>;

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
    fn on_over(&mut self, command: Started<Self::Purpose>, round: OutputRound);

    /// This output of an ended command is over.
    fn on_output_over(&mut self, _output: Output, _rest: Self::Rest) {}

    /// The system does not let this process wait for events, so that all commands were killed and are gone. Returns how the process ends,
    /// if that is at once; otherwise this is called again until it is.
    fn on_system_error(&mut self, failure: Failure) -> Option<anyhow::Result<Self::Conclusion>> {
        Some(Err(failure.into()))
    }

    /// Runs commands until [`Self::advance`] returns how the process ends.
    ///
    /// # Errors
    /// Why it could not continue.
    fn run(mut self) -> anyhow::Result<Self::Conclusion> {
        loop {
            self.reap();
            self.reap_peer();
            self.replace_due_peer();
            let mut conclusion = self.advance();
            if conclusion.is_none()
                && let Err(error) = self.wait()
            {
                // What has ended meanwhile has ended by itself.
                self.reap();
                let commands = &self.runner().commands;
                for command in commands {
                    command.running.child.signal(libc::SIGKILL);
                }
                for command in commands {
                    command.running.child.kill_and_wait();
                }
                conclusion = self.on_system_error(Failure::refused("wait", &error));
                if conclusion.is_none() {
                    sleep(LOOK_AGAIN);
                    self.runner().peer.send_rest();
                    // Whatever cannot be read now is missing until the deadline.
                    let _ = self.receive();
                }
            }
            if let Some(conclusion) = conclusion {
                let runner = self.runner();
                runner.peer.end();
                let asides = std::mem::take(&mut runner.asides);
                if let Err(error) =
                    asides.finish(&mut runner.poller, &mut runner.outputs, runner.log)
                {
                    runner
                        .log
                        .warning(format_args!("cannot wait: {}", in_words(&error)));
                }
                return conclusion;
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
        let all = running.chain(&runner.asides.outputs);
        let (wanted, look_again) = runner.outputs.wanted(all);
        let deadline = own.into_iter().chain(runner.deadline()).chain(look_again);
        let peer = runner.peer.wanted().map(|link| (Source::Peer, link));
        let others = wanted.into_iter().chain(peer);
        let ready = runner.poller.wait(deadline.min(), others)?;
        if ready.contains(&Source::Output) {
            runner.outputs.pass_on(&mut runner.commands);
            runner.outputs.pass_on_beside(&mut runner.asides.outputs);
            for (output, rest) in runner.outputs.take_over(|_| false) {
                self.on_output_over(output, rest);
            }
        }
        self.runner().peer.send_rest();
        self.receive()
    }

    /// Handles the signals that have arrived, and the ends of commands.
    ///
    /// # Errors
    /// As `read(2)`.
    fn take_signals(&mut self) -> io::Result<()> {
        let mut has_ended = false;
        for _ in 0..MOST_SIGNALS {
            let Some(received) = self.runner().poller.signals.next()? else {
                break;
            };
            has_ended |= received.signal == Signal::SIGCHLD;
            self.on_signal(received);
        }
        if has_ended {
            self.reap();
        }
        Ok(())
    }

    /// Handles all signals and messages that have arrived, and the end of the process that sends these. Signals come first: what is heard
    /// after the end of a command did not end it.
    ///
    /// # Errors
    /// As [`Self::take_signals`].
    fn receive(&mut self) -> io::Result<()> {
        self.runner().looked = Moment::now();
        loop {
            self.take_signals()?;
            // A signal may have replaced the process.
            if !self.runner().peer.is_readable() {
                break;
            }
            if let Some((message, descriptor)) = self.runner().peer.receive() {
                self.on_message(message, descriptor);
            }
        }
        self.reap_peer();
        Ok(())
    }

    /// Handles the messages that have arrived.
    fn hear(&mut self) {
        while self.runner().peer.is_readable() {
            if let Some((message, descriptor)) = self.runner().peer.receive() {
                self.on_message(message, descriptor);
            }
        }
    }

    /// Reaps the process with the session, if it has ended.
    fn reap_peer(&mut self) {
        if self.runner().peer.is_unreaped() {
            self.read_last_messages();
            let end = self.runner().peer.how_it_ended();
            self.on_peer_gone(&end);
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

    /// Handles commands and other programs that have ended, and reaps orphans.
    fn reap(&mut self) {
        let mut commands = self.runner().commands.iter();
        if commands.any(|command| command.running.was_killed_aside()) {
            // Why, that process has said before.
            self.hear();
        }
        let (mut at, round) = (0, OutputRound::begin());
        while let Some(command) = self.runner().take_ended(&mut at) {
            self.on_over(command, round);
        }
        let runner = self.runner();
        let log = runner.log;
        runner.asides.tend(&runner.poller.signals, log);
        let asides = runner.asides.pids().map(Some);
        let commands = runner.commands.iter();
        let own: Vec<Option<i32>> = commands
            .map(|command| Some(command.running.child.processes.pid))
            .chain([runner.peer.pid()])
            .chain(asides)
            .collect();
        reap_orphans(&own);
    }
}
