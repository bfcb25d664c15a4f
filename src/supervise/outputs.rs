//! The outputs of many commands: of those that run, and of those that have ended but left processes behind that may still write.

use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};

use super::output::{Outlet, Output, OutputRound};
use super::poller::Source;
use super::started::Started;
use crate::base::clock::Moment;
use crate::base::log::Log;
use crate::base::text::in_words;

/// The output of at most this many ended commands stays open. The oldest are closed.
const MOST_LINGERING: usize = 64;

/// The pause before the next look at a terminal that has room, but not for a whole line.
const PAUSE: Duration = Duration::from_millis(100);

/// The pause between two checks for room at the end.
const LAST_PAUSE: Duration = Duration::from_millis(5);

/// dblock's stdout and stderr, and the outputs of ended commands, each with what matters when it is over.
pub struct Outputs<R> {
    /// stdout and stderr.
    pub outlets: [Outlet; 2],
    lingering: Vec<(Output, R)>,
}

impl<R> Outputs<R> {
    /// No command has ended yet.
    pub fn new() -> Self {
        Self {
            outlets: Outlet::both(),
            lingering: Vec::new(),
        }
    }

    /// Writes what stdout and stderr have room for.
    pub fn flush(&mut self, log: Log) {
        for outlet in &mut self.outlets {
            outlet.flush();
        }
        if let Some(error) = self.outlets[0].lost() {
            log.error(format_args!(
                "cannot write to stdout: {}; what commands write there is lost",
                in_words(&error)
            ));
        }
    }

    /// What to wait for: output that there is room for, and room for more. Also when to look again at the latest.
    pub fn wanted<'a>(
        &'a self,
        running: impl Iterator<Item = &'a Output>,
    ) -> (Vec<(Source, PollFd<'a>)>, Option<Moment>) {
        let lingering = self.lingering.iter().map(|(output, _)| output);
        let all: Vec<&Output> = running.chain(lingering).collect();
        let some_wait = all.iter().any(|one| one.waits());
        let mut has_room = [true; 2];
        let (mut wanted, mut look_again) = (Vec::new(), None);
        for (has_room, outlet) in has_room.iter_mut().zip(&self.outlets) {
            if outlet.is_empty() && !some_wait {
                continue;
            }
            let is_writable = outlet.is_writable();
            *has_room = is_writable && outlet.is_empty();
            if !is_writable {
                let room = PollFd::new(outlet.descriptor(), PollFlags::POLLOUT);
                wanted.push((Source::Outlet, room));
            } else if !outlet.is_empty() {
                look_again = Some(Moment::now() + PAUSE);
            }
        }
        let outputs = all.into_iter().flat_map(|one| one.wanted(has_room));
        wanted.extend(outputs.map(|output| (Source::Output, output)));
        (wanted, look_again)
    }

    /// Passes on what there is room for.
    pub fn pass_on<T>(&mut self, running: &mut [Started<T>]) {
        let (round, outlets) = (OutputRound::begin(), &mut self.outlets);
        round.give_turns(running, |one| one.output.pass_on(outlets, round));
        let all = &mut self.lingering;
        round.give_turns(all, |(output, _)| output.pass_on(outlets, round));
    }

    /// Passes on what programs beside the commands print, and drops the outputs that nobody has open any more.
    pub fn pass_on_beside(&mut self, beside: &mut Vec<Output>) {
        let (round, outlets) = (OutputRound::begin(), &mut self.outlets);
        round.give_turns(beside, |output| output.pass_on(outlets, round));
        beside.retain(Output::is_open);
    }

    /// Whether all is passed on that the commands have written that have ended.
    pub fn are_passed_on(&self) -> bool {
        let mut lingering = self.lingering.iter();
        self.outlets.iter().all(Outlet::is_empty) && !lingering.any(|(output, _)| output.has_rest())
    }

    /// Closes what the processes may write on that ended commands have left behind.
    pub fn close(&mut self) {
        self.lingering.clear();
    }

    /// Lets the processes that an ended command has left behind write on. Returns the outputs that are over: nobody has them open any
    /// more, or there are too many.
    pub fn linger(&mut self, output: Output, rest: R) -> Vec<(Output, R)> {
        self.lingering.push((output, rest));
        let excess = self.lingering.len().saturating_sub(MOST_LINGERING);
        let mut over: Vec<_> = self.lingering.drain(..excess).collect();
        over.extend(self.take_over(|_| false));
        over
    }

    /// Takes out the outputs that nobody has open any more, and those whose `rest` says that they are not waited for.
    pub fn take_over(&mut self, is_last: impl Fn(&R) -> bool) -> Vec<(Output, R)> {
        let is_over = |(output, rest): &mut (Output, R)| !output.is_open() || is_last(rest);
        self.lingering.extract_if(.., is_over).collect()
    }

    /// Passes on the last output, also of the programs beside the commands.
    pub fn end(&mut self, beside: &mut Vec<Output>) {
        let round = OutputRound::begin();
        while !round.is_over() {
            for (output, _) in &mut self.lingering {
                output.pass_on(&mut self.outlets, round);
            }
            self.lingering.retain(|(output, _)| output.is_open());
            self.pass_on_beside(beside);
            for outlet in &mut self.outlets {
                outlet.flush();
            }
            let is_over = self.lingering.is_empty() && beside.is_empty();
            if is_over && self.outlets.iter().all(Outlet::is_empty) {
                return;
            }
            sleep(LAST_PAUSE);
        }
    }
}
