//! The process that has started this one, and that ends the commands. This one watches it: while commands run it outlives that process, and
//! it kills them where that process cannot.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::unistd::{Pid, getppid};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::board::Board;
use super::lateness::Lateness;
use super::pause::{SHORTEST_PAUSE, sleep_longer};
use crate::base::clock::{Alarm, Moment};
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::base::processes::Processes;
use crate::isolated::link::{Link, cut};
use crate::isolated::process::{die_with, open_process};

/// How long a process may take to die once it has closed its descriptors.
const LONGEST_DEATH: Duration = Duration::from_secs(60);

/// Most messages that are read before they are acted on.
const MOST_WAITING: usize = 64;

/// The process that has started this one, what it is told, what it says, and what runs there. It may be stopped and read nothing, and
/// nothing waits for it.
pub struct Parent<'a, Sent, Received> {
    /// The link to it.
    pub link: &'a Link,
    /// Its process.
    pub process: ParentProcess,
    /// The commands that it runs.
    pub board: Board,
    alarm: Alarm,
    /// Messages that the link has no room for, and whether the session goes with them.
    outbox: VecDeque<(Sent, bool)>,
    /// Becomes readable when the process is dead. Its end of the link may be open then: a child that hangs before its first instruction
    /// has a copy. `None`: the system has no such descriptor.
    death: Option<OwnedFd>,
    /// Messages that were read, but not acted on yet; the last one is `None` if it is gone.
    inbox: RefCell<VecDeque<Option<Received>>>,
    /// A line for its log, as a message.
    note: fn(Level, String) -> Sent,
}

/// What a process with a session waits for.
pub enum Event<Received> {
    /// The other process has sent this.
    Message(Received),
    /// The other process is gone.
    Orphaned,
    /// The server has ended the session.
    SessionEnded,
    /// The time has come.
    Due,
}

impl<'a, Sent: Serialize, Received: DeserializeOwned> Parent<'a, Sent, Received> {
    /// The process with this pid, which runs the commands on this board.
    ///
    /// # Errors
    /// The system refused.
    pub fn new(
        link: &'a Link,
        pid: Pid,
        board: Board,
        note: fn(Level, String) -> Sent,
    ) -> Result<Self, Failure> {
        let alarm = Alarm::new().map_err(|error| Failure::refused("make a timer", &error))?;
        Ok(Self {
            link,
            process: ParentProcess::new(pid),
            board,
            alarm,
            outbox: VecDeque::new(),
            death: open_process(pid),
            inbox: RefCell::default(),
            note,
        })
    }

    /// Sends a message that must arrive, as soon as there is room.
    pub fn say(&mut self, message: Sent) {
        self.outbox.push_back((message, false));
        self.send_rest();
    }

    /// The same with the session: the next [`Parent::wait`], which is given that, sends it.
    pub fn say_with_session(&mut self, message: Sent) {
        self.outbox.push_back((message, true));
    }

    /// Sends what there was no room for, up to what the session goes with. Returns whether nothing is left.
    pub fn send_rest(&mut self) -> bool {
        while let Some((message, false)) = self.outbox.front() {
            if !self.link.try_send(message, None).unwrap_or(true) {
                return false;
            }
            self.outbox.pop_front();
        }
        self.outbox.is_empty()
    }

    /// The same, also with what the session goes with, if there still is one.
    fn send_rest_with(&mut self, session: Option<BorrowedFd>) -> bool {
        while !self.send_rest() {
            let Some((message, true)) = self.outbox.front() else {
                return false;
            };
            if !self.link.try_send(message, session).unwrap_or(true) {
                return false;
            }
            self.outbox.pop_front();
        }
        true
    }

    /// Sends what there was no room for, and waits for room.
    pub fn send_all(&mut self) {
        for (message, _) in self.outbox.drain(..) {
            let _ = self.link.send(&message);
        }
    }

    /// This process ends: sends what is left, without the session, and behind that closes the link. Waits for nothing; returns whether all
    /// is done.
    pub fn send_last(&mut self) -> bool {
        let is_sent = self.send_rest_with(None);
        if is_sent {
            self.link.close_for_sending();
        }
        is_sent
    }

    /// Sends a message that may be dropped where it is not read.
    pub fn say_if_heard(&self, message: &Sent) {
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

    /// Waits for a message, the end of the session, or this moment; `None`: for as long as that takes. A message that is already there
    /// comes before all else.
    ///
    /// # Errors
    /// As `poll(2)` and `timerfd_settime(2)`.
    pub fn wait(
        &mut self,
        session: Option<BorrowedFd>,
        until: Option<Moment>,
    ) -> io::Result<Event<Received>> {
        loop {
            let is_due = until.is_some_and(|until| until <= Moment::now());
            let has_read = !self.inbox.get_mut().is_empty();
            let mut has_message = has_read || is_due && self.link.is_readable();
            let (mut session_ended, mut has_died) = (false, false);
            let has_room = self.send_rest_with(session);
            if !has_message && !is_due {
                let mut wanted = PollFlags::POLLIN;
                wanted.set(PollFlags::POLLOUT, !has_room);
                self.alarm.set(until)?;
                let readable = |descriptor| PollFd::new(descriptor, PollFlags::POLLIN);
                let mut descriptors = vec![
                    PollFd::new(self.link.as_fd(), wanted),
                    readable(self.alarm.as_fd()),
                ];
                let death = self.death.as_ref().map(AsFd::as_fd);
                descriptors.extend(death.map(readable));
                let at_session = descriptors.len();
                descriptors.extend(session.map(readable));
                match poll(&mut descriptors, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
                let events = |at: usize| descriptors.get(at).and_then(PollFd::revents);
                let of_link = events(0).unwrap_or(PollFlags::empty());
                has_message = of_link.intersects(!PollFlags::POLLOUT);
                session_ended = events(at_session).is_some_and(|events| !events.is_empty());
                has_died = !has_message && self.process.is_dead();
            }
            if has_message {
                let message = self.receive();
                return Ok(message.map_or(Event::Orphaned, Event::Message));
            }
            if has_died {
                return Ok(Event::Orphaned);
            }
            if session_ended {
                return Ok(Event::SessionEnded);
            }
            if is_due {
                return Ok(Event::Due);
            }
            if !has_room && !self.send_rest_with(session) {
                // There may be room in the link, and none in the system.
                sleep(SHORTEST_PAUSE);
            }
        }
    }

    /// Whether there is a message to act on, or the process is gone.
    pub fn has_message(&self) -> bool {
        !self.inbox.borrow().is_empty() || self.link.is_readable()
    }

    /// The next message; waits for it. `None`: the process is gone.
    fn receive(&mut self) -> Option<Received> {
        let read_before = self.inbox.get_mut().pop_front();
        match read_before {
            Some(message) => message,
            None => self.read(),
        }
    }

    fn read(&self) -> Option<Received> {
        let received = self.link.receive().ok().flatten();
        received.map(|(message, _)| message)
    }

    /// Whether a message of this kind is there, or the process is gone. All messages are acted on later.
    pub fn has_said(&mut self, is_meant: impl Fn(&Received) -> bool) -> bool {
        while self.inbox.get_mut().len() < MOST_WAITING && self.link.is_readable() {
            let message = self.read();
            let is_gone = message.is_none();
            self.inbox.get_mut().push_back(message);
            if is_gone {
                break;
            }
        }
        let mut inbox = self.inbox.get_mut().iter();
        inbox.any(|message| message.as_ref().is_none_or(&is_meant))
    }

    /// Waits for an answer, and passes over what says something else. `false`: it has said that all is over, which is acted on later, or it
    /// is gone.
    pub fn await_answer(
        &self,
        is_answer: impl Fn(&Received) -> bool,
        is_over: impl Fn(&Received) -> bool,
    ) -> bool {
        let mut inbox = self.inbox.borrow_mut();
        while inbox.is_empty() {
            match self.read() {
                None => return false,
                Some(message) if is_answer(&message) => return true,
                Some(message) if is_over(&message) => inbox.push_back(Some(message)),
                Some(_) => {}
            }
        }
        false
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

    /// Kills the commands under leases that are over where the parent does not: at once if that is stopped, and a little later in any case,
    /// as it may hang. Returns how late those were at least that had to be killed; `None`: there was none.
    pub fn kill_late(self, board: Board, lateness: impl Fn(u64) -> Lateness) -> Option<Lateness> {
        if !board.has(|lease| lateness(lease) >= Lateness::Over) {
            return None;
        }
        let least = if self.is_stopped() {
            Lateness::Over
        } else {
            Lateness::LongOver
        };
        let kills = board.kill(|lease| lateness(lease) >= least);
        kills.then_some(least)
    }

    /// The parent has died: kills its commands until they are gone. A command of another user may not be killed, so `hold_on` keeps what
    /// they hold meanwhile.
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
