//! The programs beside the commands of this process: those that run, and what is to be run at the end of runs when there is room.

use std::collections::VecDeque;
use std::io;

use nix::sys::signal::Signal;

use super::aside::Aside;
use super::hook::Hook;
use super::output::Output;
use super::outputs::Outputs;
use super::poller::Poller;
use super::signals::Signals;
use crate::base::clock::Moment;
use crate::base::log::Log;

/// How many of them run at once. Many runs may end at once, and what is run at their ends may hang.
const AT_ONCE: usize = 32;

/// The outputs of at most this many are passed on. What they have started may go on after their ends; the oldest are closed.
const MOST_OUTPUTS: usize = 2 * AT_ONCE;

/// The programs beside the commands.
#[derive(Default)]
pub struct Asides {
    running: Vec<Aside>,
    /// What is passed on of what they print, also after their ends.
    pub outputs: Vec<Output>,
    waiting: VecDeque<Hook>,
    /// Since when some wait for others; `None`: none does.
    full_since: Option<Moment>,
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
            let (running, output) = hook.start(signals, log).unzip();
            self.running.extend(running);
            self.outputs.extend(output.filter(Output::is_open));
            let excess = self.outputs.len().saturating_sub(MOST_OUTPUTS);
            self.outputs.drain(..excess);
        }
        if self.waiting.is_empty() {
            self.full_since = None;
        } else {
            self.full_since.get_or_insert_with(Moment::now);
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
        self.full_since.is_some()
    }

    /// Since when that is so.
    pub fn full_since(&self) -> Option<Moment> {
        self.full_since
    }

    /// dblock is to end at once: those that wait do not start, and those that run are killed, unless they may go on.
    pub fn end(&mut self) {
        self.waiting.clear();
        self.full_since = None;
        self.running.iter_mut().for_each(Aside::end);
    }

    /// Waits for the ends of all, and passes on what they print. A signal that asks dblock to end ends them.
    ///
    /// # Errors
    /// As [`Poller::wait`].
    pub fn finish<R>(
        mut self,
        poller: &mut Poller,
        outputs: &mut Outputs<R>,
        log: Log,
    ) -> io::Result<()> {
        loop {
            self.tend(&poller.signals, log);
            // One that was killed and does not die is left behind.
            let Some(deadline) = self.deadline() else {
                outputs.end(&mut self.outputs);
                return Ok(());
            };
            outputs.flush(log);
            let (wanted, look_again) = outputs.wanted(self.outputs.iter());
            let deadline = look_again.into_iter().chain([deadline]).min();
            poller.wait(deadline, wanted)?;
            outputs.pass_on_beside(&mut self.outputs);
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
