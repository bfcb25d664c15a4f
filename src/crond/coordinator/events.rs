//! The events of a coordinator: signals, its scheduler, the output of commands, the clock.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::super::message::{FromScheduler, ToScheduler};
use super::super::scheduler::Publishes;
use super::{Coordinator, LATE, LONGEST_HANG, NO_LIMIT, PAUSE};
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure};
use crate::base::log::Level;
use crate::base::text::{counted, in_words, shown};
use crate::supervise::{Outlet, Received, Round};

impl Coordinator<'_> {
    /// Waits for an event, and handles it.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        for outlet in &mut self.outlets {
            outlet.flush();
        }
        if let Some(error) = self.outlets[0].lost() {
            self.log.error(format_args!(
                "cannot write to stdout: {}; what commands write there is lost",
                in_words(&error)
            ));
        }
        let is_writable = self.outlets.each_ref().map(Outlet::is_writable);
        let has_room = self.outlets.each_ref().map(Outlet::has_room);
        // A terminal may have room, but not for a whole line.
        let is_stuck = (0..2).any(|at| is_writable[at] && !self.outlets[at].is_empty());
        let look_again = is_stuck.then(|| Moment::now() + PAUSE);
        let deadline = self.deadline().into_iter().chain(look_again).min();
        self.alarm.set(deadline)?;
        let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
        let mut descriptors: Vec<PollFd> =
            vec![readable(self.signals.as_fd()), readable(self.alarm.as_fd())];
        descriptors.extend(self.scheduler.wanted());
        let running = self.running.iter().map(|command| &command.written);
        let all = || running.clone().chain(&self.lingering);
        let first_stream = descriptors.len();
        descriptors.extend(all().flat_map(|one| one.output.wanted(has_room)));
        let behind_streams = descriptors.len();
        let (stdout, stderr) = (io::stdout(), io::stderr());
        for (at, outlet) in [stdout.as_fd(), stderr.as_fd()].into_iter().enumerate() {
            let is_wanted = !self.outlets[at].is_empty() || all().next().is_some();
            if is_wanted && !is_writable[at] {
                descriptors.push(PollFd::new(outlet, PollFlags::POLLOUT));
            }
        }
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| descriptors.get(at).is_some_and(|fd| fd.any() == Some(true));
        let writes = (first_stream..behind_streams).any(is_ready);
        if writes {
            let (round, outlets) = (Round::begin(), &mut self.outlets);
            round.give_turns(&mut self.running, |one| {
                one.written.output.pass_on(outlets, round);
            });
            round.give_turns(&mut self.lingering, |one| {
                one.output.pass_on(outlets, round);
            });
            self.end_lingering(false);
        }
        while let Some(received) = self.signals.next()? {
            self.on_signal(received);
        }
        self.scheduler.send_rest();
        self.on_scheduler();
        Ok(())
    }

    fn on_signal(&mut self, received: Received) {
        match received.signal {
            Signal::SIGHUP if !self.shutdown.has_begun() => {
                // Otherwise the manager is notified when the daemon is ready.
                let is_ready = self.begun.is_none();
                if is_ready {
                    self.manager.tell("RELOADING=1");
                }
                self.reload();
                if is_ready {
                    self.manager.tell("READY=1");
                }
            }
            Signal::SIGTSTP => self.signals.stop(),
            signal if signal != Signal::SIGHUP && self.signals.asks_to_end(signal) => {
                let again = std::mem::replace(&mut self.was_asked, true);
                let grace = if again {
                    Duration::ZERO
                } else {
                    self.spec.grace
                };
                if again {
                    self.is_hurried = true;
                    for command in &mut self.running {
                        command.running.kill_now();
                    }
                } else {
                    self.manager.tell("STOPPING=1");
                    let running = counted(self.running.len(), "command");
                    self.log.info(format_args!(
                        "{signal}: taking no more ticks; {running} may run on for {}",
                        shown(grace)
                    ));
                }
                self.stop(grace, Ok(Ending::Code(0)));
            }
            _ => {}
        }
    }

    fn on_scheduler(&mut self) {
        while self.scheduler.is_readable() {
            let Some((message, descriptor)) = self.scheduler.receive() else {
                self.read_last_messages();
                let end = self.scheduler.how_it_ended();
                return self.on_scheduler_gone(&end);
            };
            if let FromScheduler::Session = message {
                self.scheduler.session = descriptor;
            }
            self.on_message(message);
        }
    }

    /// Kills the scheduler, and handles all that it has sent. Its session stays open until another one has one.
    pub(super) fn read_last_messages(&mut self) {
        self.scheduler.reap();
        while let Some(message) = self.scheduler.left_behind() {
            self.on_message(message);
        }
    }

    fn on_message(&mut self, message: FromScheduler) {
        match message {
            FromScheduler::Seeking => {
                // The refusal from before the server was gone may be over, so its time starts again.
                self.scheduler.restarts.date_fault_anew();
            }
            FromScheduler::Note(level, text) => {
                self.log.say(level, &text);
                if level == Level::Info {
                    self.last_note = text;
                }
            }
            FromScheduler::Ready => self.on_ready(),
            FromScheduler::Answered => {
                self.on_answer();
                self.scheduler.send(ToScheduler::Alive);
            }
            FromScheduler::Working => self.on_answer(),
            // The descriptor is kept.
            FromScheduler::Session => {}
            FromScheduler::Start(attempt, grant, lease) => self.start(attempt, grant, lease),
            FromScheduler::Confirmed(run, sent) => self.on_confirmed(&run, sent),
            FromScheduler::Lost(run, cause) => {
                self.end_for_lock(&run, |command| command.lose(&cause));
            }
            FromScheduler::Killed(run, who) => {
                self.end_for_lock(&run, |command| command.be_killed(&who));
            }
            FromScheduler::Recorded(run) => self.on_recorded(&run),
            FromScheduler::Failed(failure) => self.on_failure(failure),
            FromScheduler::Left => {
                self.scheduler.end();
            }
        }
    }

    fn on_answer(&mut self) {
        self.answered = Some(Moment::now());
        if std::mem::take(&mut self.is_silent) {
            self.log.warning("the server answers again");
        }
    }

    fn on_ready(&mut self) {
        self.begun = None;
        self.publishes = Publishes::Nothing;
        self.answered = Some(Moment::now());
        if self.scheduler.restarts.end_fault() {
            self.log.warning("ticks are taken again");
        }
        let count = counted(self.jobs.len(), "job");
        self.log.info(format_args!("ready: {count}"));
        self.manager.tell("READY=1");
    }

    /// No scheduler can work. If one could before, that may be over soon, and commands run on meanwhile.
    fn on_failure(&mut self, failure: Failure) {
        if self.begun.is_some() {
            return self.stop(NO_LIMIT, Err(failure.into()));
        }
        if self.scheduler.restarts.note_fault(&failure) && !self.shutdown.has_begun() {
            self.log.error(format_args!(
                "{failure}; no ticks are taken until that is over"
            ));
        }
        self.last_note = failure.line;
    }

    /// Replaces a silent scheduler.
    pub(super) fn check_scheduler(&mut self) {
        let silent_for = self.scheduler.heard_at.elapsed();
        if !self.scheduler.is_there() || silent_for <= LONGEST_HANG {
            return;
        }
        if silent_for > LONGEST_HANG + LATE {
            // This process was stopped, or the machine slept, and maybe the scheduler, too.
            self.scheduler.heard_at = Moment::now();
        }
        // It may have sent something that was not read.
        self.on_scheduler();
        if self.scheduler.is_there() && self.scheduler.heard_at.elapsed() > LONGEST_HANG {
            self.read_last_messages();
            self.on_scheduler_gone(&format!(
                "the scheduler has hung for {}",
                shown(LONGEST_HANG)
            ));
        }
    }

    /// The scheduler has ended. Another one takes over, unless it reported that none can.
    fn on_scheduler_gone(&mut self, end: &str) {
        if self.shutdown.has_failed() || self.leaves_since.is_some() {
            return;
        }
        if let Err(failure) = self.scheduler.restarts.replace(end, self.log) {
            self.stop(NO_LIMIT, Err(failure.into()));
        }
    }
}
