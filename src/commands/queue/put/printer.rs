//! The process that the user sees. It prints the ids, and reports what is put when something ends it early.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Fed;
use super::tally::Tally;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Log;
use crate::base::progress::ProgressLine;
use crate::commands::output::cannot_write;
use crate::commands::queue;
use crate::isolated::link::Link;
use crate::isolated::query::Message;
use crate::settings::Common;
use crate::settings::queue::{QueuePut, Source};
use crate::supervise::Signals;

/// How much longer to wait for the other process than it may look for a server.
const BESIDES: Duration = Duration::from_secs(2);

/// A pipe that is writable takes this many bytes.
const PIECE: usize = 4096;

/// How the command ended.
pub(super) enum Finished {
    All,
    Signal(i32),
    Failed(Failure),
    /// The ids could not be printed.
    Unwritten(Failure),
}

/// What ends the process after the current transaction.
#[derive(Default)]
struct EarlyEnd {
    /// A signal.
    signal: Option<i32>,
    /// Why ids could not be printed.
    unwritten: Option<Failure>,
}

impl EarlyEnd {
    /// Whether there is anything.
    fn has_come(&self) -> bool {
        self.signal.is_some() || self.unwritten.is_some()
    }

    /// How the command ended: in this way, unless something has ended it early.
    fn or(&self, finished: Finished) -> Finished {
        match (self.signal, &self.unwritten) {
            (Some(signal), _) => Finished::Signal(signal),
            (None, Some(failure)) => Finished::Unwritten(failure.clone()),
            (None, None) => finished,
        }
    }
}

/// The process that the user sees.
pub(super) struct Printer<'a> {
    put: &'a QueuePut,
    log: Log,
    connect_timeout: Duration,
    link: Link,
    signals: Signals,
    /// The text that is still to be printed.
    text: Vec<u8>,
    pub tally: Tally<'a>,
    /// When a server must have been found.
    deadline: Option<Moment>,
    pub has_session: bool,
    /// The last step.
    last_note: String,
    early_end: EarlyEnd,
    progress: ProgressLine,
}

impl<'a> Printer<'a> {
    pub fn new(put: &'a QueuePut, common: &Common, link: Link, signals: Signals) -> Self {
        let (connect_timeout, log) = (common.connection.connect_timeout, common.log);
        Self {
            put,
            log,
            connect_timeout,
            link,
            signals,
            text: Vec::new(),
            tally: Tally::new(put),
            deadline: Some(Moment::now() + connect_timeout),
            has_session: false,
            last_note: "connecting".to_owned(),
            early_end: EarlyEnd::default(),
            progress: ProgressLine::new(!matches!(put.source, Source::Stdin), log),
        }
    }

    pub fn run(&mut self) -> io::Result<Finished> {
        let mut finished = None;
        loop {
            if self.text.is_empty()
                && let Some(finished) = finished.take()
            {
                return Ok(finished);
            }
            let stdout = io::stdout();
            let prints = !self.text.is_empty();
            let mut ready = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            ready.push(if prints {
                PollFd::new(stdout.as_fd(), PollFlags::POLLOUT)
            } else {
                PollFd::new(self.link.as_fd(), PollFlags::POLLIN)
            });
            // Wait in short steps, because poll(2) does not count the time while the machine sleeps.
            match poll(&mut ready, PollTimeout::from(500u16)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready = ready[1].any().unwrap_or(true);
            while let Some(received) = self.signals.next()? {
                if self.signals.act_on(received.signal) {
                    let signal = received.signal as i32;
                    // The message about the session may still be unread.
                    while !self.has_session && finished.is_none() && self.link.is_readable() {
                        finished = self.receive();
                    }
                    // Nothing was put yet, or a second signal has come.
                    if !self.has_session || self.early_end.signal.is_some() {
                        return Ok(Finished::Signal(signal));
                    }
                    self.early_end.signal = Some(signal);
                    self.stop();
                }
            }
            match (is_ready, prints) {
                (true, true) => self.print(),
                (true, false) => finished = self.receive(),
                (false, _) => {}
            }
            // Messages that have already arrived are not late.
            if self
                .deadline
                .is_some_and(|deadline| deadline <= Moment::now())
                && !prints
                && !self.link.is_readable()
            {
                return Ok(self.is_late());
            }
            self.progress
                .show(|| format!("{} put", queue::jobs(self.tally.jobs)));
        }
    }

    fn is_gone(&self) -> Finished {
        if self.tally.is_whole() {
            return self.early_end.or(Finished::All);
        }
        let line = "the process that puts the jobs has ended";
        let failure = Failure::new(Reason::Internal, line);
        self.early_end.or(Finished::Failed(failure))
    }

    fn is_late(&self) -> Finished {
        let failure = Failure::unreachable(self.connect_timeout, &self.last_note);
        self.early_end.or(Finished::Failed(failure))
    }

    /// Stops after the current transaction.
    fn stop(&mut self) {
        self.link.close_for_sending();
        self.deadline = Some(Moment::now() + self.connect_timeout);
    }

    /// Prints a piece. A reader that stops early, such as `head`, is no error, and the jobs are put all the same. Any other error stops it,
    /// so that no more ids are lost.
    fn print(&mut self) {
        ProgressLine::clear();
        let piece = self.text.len().min(PIECE);
        let written = nix::unistd::write(io::stdout(), &self.text[..piece]);
        match written {
            Ok(length) => {
                self.text.drain(..length);
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(Errno::EPIPE) => self.text.clear(),
            Err(error) => {
                self.text.clear();
                if self.early_end.unwritten.is_none() {
                    self.early_end.unwritten = Some(cannot_write(&error.into()));
                    self.stop();
                }
            }
        }
    }

    fn receive(&mut self) -> Option<Finished> {
        let Ok(Some((message, _))) = self.link.receive::<Message>() else {
            return Some(self.is_gone());
        };
        match message {
            Message::Note(level, line) => {
                self.log.say(level, &line);
                if level.is_step() {
                    self.last_note = line;
                }
            }
            Message::Reached(_) => (self.has_session, self.deadline) = (true, None),
            Message::Item(item) => match item.message() {
                Some(fed) => self.take(fed),
                None => return Some(self.is_gone()),
            },
            Message::OnlyReadOnly(_) | Message::MustFinish(_) => {}
            Message::Done => return Some(self.early_end.or(Finished::All)),
            Message::Failed(failure) => return Some(self.early_end.or(Finished::Failed(failure))),
        }
        None
    }

    fn take(&mut self, fed: Fed) {
        match fed {
            Fed::Put(put) => {
                for id in put.ids() {
                    let _ = writeln!(self.text, "{id}");
                }
                self.tally.add(u64::from(put.jobs));
            }
            Fed::HasKey(job) => {
                // There is one payload at most.
                (self.tally.in_doubt, self.tally.is_complete) = (0, true);
                let _ = writeln!(self.text, "{job}");
                let queue = &self.put.queue;
                let key = self.put.traits.key.as_deref().unwrap_or_default();
                self.log.info(format_args!(
                    "job {job} of {queue} has the key {key}, and is not done: nothing is put"
                ));
            }
            Fed::Forgotten => self.tally.is_forgotten = true,
            Fed::InDoubt(jobs) => self.tally.in_doubt = jobs,
            Fed::All => self.tally.is_complete = true,
            Fed::Seeking => {
                let limit = self.connect_timeout + BESIDES;
                self.deadline = Some(Moment::now() + limit);
            }
            Fed::Found => {
                let is_stopped = self.early_end.has_come();
                self.deadline = self.deadline.filter(|_| is_stopped);
            }
        }
    }

    /// Reads the last messages of the other process, for the number of jobs that are put.
    pub fn hear_the_rest(&mut self) {
        while self.link.is_readable() && self.receive().is_none() {}
    }
}
