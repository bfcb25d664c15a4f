//! The programs beside the commands of this process: those that run, and what is to be run at the end of runs when there is room.

use std::collections::VecDeque;
use std::io;

use nix::sys::signal::Signal;

use super::aside::Aside;
use super::hook::Hook;
use super::poller::Poller;
use super::signals::Signals;
use crate::base::clock::Moment;
use crate::base::log::Log;

/// How many of them run at once. Many runs may end at once, and what is run at their ends may hang.
const AT_ONCE: usize = 32;

/// The programs beside the commands.
#[derive(Default)]
pub struct Asides {
    running: Vec<Aside>,
    waiting: VecDeque<Hook>,
}

impl Asides {
    /// Adds one that runs.
    pub fn push(&mut self, aside: Aside) {
        self.running.push(aside);
    }

    /// Has these run as soon as there is room.
    pub fn add(&mut self, hooks: Vec<Hook>, signals: &Signals, log: Log) {
        self.waiting.extend(hooks);
        self.start(signals, log);
    }

    fn start(&mut self, signals: &Signals, log: Log) {
        while self.running.len() < AT_ONCE
            && let Some(hook) = self.waiting.pop_front()
        {
            self.running.extend(hook.start(signals, log));
        }
    }

    /// Reaps those that have ended, and kills those that take too long. Then others may start.
    pub fn tend(&mut self, signals: &Signals, log: Log) {
        self.running.retain_mut(|aside| !aside.has_ended(log));
        self.start(signals, log);
    }

    /// The processes of those that run.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.running.iter().map(Aside::pid)
    }

    /// When [`Asides::tend`] must be called next, unless one ends before.
    pub fn deadline(&self) -> Option<Moment> {
        self.running.iter().filter_map(Aside::deadline).min()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.running.len() + self.waiting.len()
    }

    /// Whether some wait for others.
    pub fn are_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// dblock is to end at once: those that wait do not start, and those that run are killed, unless they may go on.
    pub fn end(&mut self) {
        self.waiting.clear();
        self.running.iter_mut().for_each(Aside::end);
    }

    /// Waits for the ends of all. A signal that asks dblock to end ends them.
    ///
    /// # Errors
    /// As [`Poller::wait`].
    pub fn finish(mut self, poller: &mut Poller, log: Log) -> io::Result<()> {
        loop {
            self.tend(&poller.signals, log);
            // One that was killed and does not die is left behind.
            let Some(deadline) = self.deadline() else {
                return Ok(());
            };
            poller.wait(Some(deadline), [])?;
            while let Some(received) = poller.signals.next()? {
                if received.signal == Signal::SIGTSTP {
                    poller.signals.stop();
                } else if poller.signals.asks_to_end(received.signal) {
                    self.end();
                }
            }
        }
    }
}
