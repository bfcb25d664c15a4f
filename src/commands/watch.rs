//! `--watch`: asks again and again, and draws each answer over the one before. One process has the session and keeps it; this one has the
//! terminal, and never waits for a server.

mod frame;
mod screen;

use std::env;
use std::fmt::Write;
use std::io;
use std::mem::replace;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::question::{Asker, Question, ToAsker, limits};
use super::table::to_the_second;
use crate::base::children::{End, reap_within};
use crate::base::clock::{Moment, is_over};
use crate::base::exit::{Ending, Failure};
use crate::base::text::{in_seconds, printable, shown};
use crate::db::Fault;
use crate::isolated::link::{Link, Packet, next};
use crate::isolated::process::{end, fork_isolated};
use crate::isolated::query::{Event, Finished, Message, Progress};
use crate::settings::Color;
use crate::supervise::{Poller, Received, Signals, Source};
use frame::Frame;
use screen::{Key, Screen};

/// A session that would be idle for longer is not kept.
const LONGEST_IDLE: Duration = Duration::from_secs(30);

/// How long a session is kept: a server that has lost its part in a fail-over may keep it for ever.
const LONGEST_SESSION: Duration = Duration::from_secs(60);

/// How long a process may take to log out: one that is idle, and one that may wait for a server.
const LOGOUT: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(100)];

/// How soon after a failure to connect again, at the earliest.
const PAUSE: Duration = Duration::from_secs(1);

/// How old an answer is before its age is shown, besides the time between two.
const FRESH: Duration = Duration::from_secs(1);

/// An answer that can be shown again and again.
pub trait Watched: Default + 'static {
    /// What it consists of.
    type Item: Serialize + DeserializeOwned;

    /// Whether its last lines matter most.
    const NEWEST_LAST: bool = false;

    /// Adds what has come next.
    fn add(&mut self, item: Self::Item);

    /// The answer for people.
    fn as_table(&self, color: Color) -> String;
}

/// A watched answer, whatever it consists of.
trait Answer {
    /// Adds what has come next; `None`: it is no part of the answer.
    fn receive(&mut self, item: &Packet) -> Option<()>;

    /// The answer for people.
    fn table(&self, color: Color) -> String;
}

impl<A: Watched> Answer for A {
    fn receive(&mut self, item: &Packet) -> Option<()> {
        self.add(item.message()?);
        Some(())
    }

    fn table(&self, color: Color) -> String {
        self.as_table(color)
    }
}

/// Has `work` ask the server `every` so often, and shows each answer, until the user ends it. Whatever is wrong before the first answer
/// ends it, too; after that it is shown, and tried again.
///
/// # Errors
/// There is no terminal, or no first answer.
pub fn watch<A: Watched>(
    question: &Question,
    every: Duration,
    mut work: impl FnMut(&mut Asker<A::Item>) -> Result<(), Fault>,
) -> Result<Ending, Failure> {
    let no_answer = || -> Box<dyn Answer> { Box::new(A::default()) };
    let mut work = |link: Rc<Link>, parent: Pid| question.work_again(&mut work, &link, parent);
    run(question, every, &mut work, no_answer, A::NEWEST_LAST)
}

/// The main function of a process that asks.
type Work<'a> = dyn FnMut(Rc<Link>, Pid) -> Result<(), Failure> + 'a;

fn run(
    question: &Question,
    every: Duration,
    work: &mut Work,
    no_answer: fn() -> Box<dyn Answer>,
    newest_last: bool,
) -> Result<Ending, Failure> {
    let refused = |error| Failure::refused("collect signals", &error);
    // Before the terminal is taken: a signal that ends this has it given back.
    let poller = Poller::new(Signals::collect_with_size().map_err(refused)?)?;
    let screen = Screen::enter(poller.signals.inherited())?;
    let title = format!("Every {}: {}", shown(every), command_line(question.command));
    let mut watch = Watch {
        question,
        work,
        no_answer,
        newest_last,
        every,
        title,
        poller,
        screen,
        process: None,
        coming: Coming::new(no_answer()),
        last: None,
        trouble: None,
        next_question: Moment::now(),
        next_draw: Some(Moment::now()),
    };
    watch.run()
}

/// The command line, without what may be a URL with a password.
fn command_line(command: &str) -> String {
    let is_secret = |word: &str| {
        ["@", "://", "password"]
            .iter()
            .any(|part| word.contains(part))
    };
    let arguments = env::args_os().skip(1 + command.split(' ').skip(1).count());
    let mut words = command.to_owned();
    for argument in arguments {
        let argument = argument.to_string_lossy();
        words.push(' ');
        words += if is_secret(&argument) {
            "…"
        } else {
            &argument
        };
    }
    printable(&words)
}

/// The process that asks.
struct Process {
    pid: Pid,
    link: Link,
    begun: Moment,
    /// How far the question is.
    progress: Progress,
    /// Whether it waits to be told to ask again.
    is_idle: bool,
}

/// An answer that is not complete.
struct Coming {
    answer: Box<dyn Answer>,
    notes: Vec<String>,
    asked: Moment,
}

impl Coming {
    fn new(answer: Box<dyn Answer>) -> Self {
        Self {
            answer,
            notes: Vec::new(),
            asked: Moment::now(),
        }
    }
}

struct Watch<'a> {
    question: &'a Question<'a>,
    work: &'a mut Work<'a>,
    no_answer: fn() -> Box<dyn Answer>,
    newest_last: bool,
    every: Duration,
    title: String,
    poller: Poller,
    screen: Screen,
    process: Option<Process>,
    coming: Coming,
    /// The last complete answer, and when it was there.
    last: Option<(Coming, Moment)>,
    /// What is wrong since.
    trouble: Option<String>,
    next_question: Moment,
    /// `None`: not before something happens.
    next_draw: Option<Moment>,
}

impl Watch<'_> {
    fn run(&mut self) -> Result<Ending, Failure> {
        let ended = self.until_the_end();
        self.screen.leave();
        self.end_process();
        ended
    }

    fn until_the_end(&mut self) -> Result<Ending, Failure> {
        loop {
            if !self.is_asking() && is_over(Some(self.next_question)) {
                self.ask()?;
            }
            if is_over(self.next_draw) {
                self.draw();
            }
            let ready = self.wait()?;
            if ready.contains(&Source::Signals) {
                while let Some(received) = self
                    .poller
                    .signals
                    .next()
                    .map_err(|error| cannot_wait(&error))?
                {
                    if let Some(ending) = self.on_signal(received)? {
                        return Ok(ending);
                    }
                }
            }
            if ready.contains(&Source::Keys) {
                match Screen::key() {
                    Key::Quit => return Ok(Ending::Code(0)),
                    Key::Gone => return Ok(Ending::Signal(Signal::SIGHUP as i32)),
                    Key::Other => {}
                }
            }
            if self.screen.has_unwritten() {
                self.screen.write()?;
            }
            self.read_messages()?;
        }
    }

    /// Waits until there is something to do. Returns what is ready.
    fn wait(&self) -> Result<Vec<Source>, Failure> {
        let asking = self.process.as_ref().filter(|process| !process.is_idle);
        let deadline = match asking {
            Some(asking) => asking.progress.deadline(),
            None => Some(self.next_question),
        };
        let deadline = [deadline, self.next_draw].into_iter().flatten().min();
        let stdin = io::stdin();
        let stdout = io::stdout();
        let reads = PollFlags::POLLIN;
        let mut others = vec![(Source::Keys, PollFd::new(stdin.as_fd(), reads))];
        if let Some(process) = &self.process {
            others.push((Source::Peer, PollFd::new(process.link.as_fd(), reads)));
        }
        if self.screen.has_unwritten() {
            let terminal = PollFd::new(stdout.as_fd(), PollFlags::POLLOUT);
            others.push((Source::Outlet, terminal));
        }
        self.poller
            .wait(deadline, others)
            .map_err(|error| cannot_wait(&error))
    }

    /// Acts on a signal; the ending, if it ends this. SIGTERM and the like end it as any program, Ctrl-C as `watch(1)` and `top(1)`.
    fn on_signal(&mut self, received: Received) -> Result<Option<Ending>, Failure> {
        let (signal, signals) = (received.signal, &mut self.poller.signals);
        match signal {
            Signal::SIGWINCH => {}
            Signal::SIGTSTP => {
                self.screen.leave();
                signals.act_on(signal);
                self.screen.enter_again()?;
            }
            // Somebody has sent SIGSTOP, and the shell has had the terminal since.
            Signal::SIGCONT if !received.ends_stop => self.screen.retake()?,
            Signal::SIGINT if signals.act_on(signal) => return Ok(Some(Ending::Code(0))),
            _ if signals.act_on(signal) => return Ok(Some(Ending::Signal(signal as i32))),
            _ => return Ok(None),
        }
        self.next_draw = Some(Moment::now());
        Ok(None)
    }

    fn is_asking(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| !process.is_idle)
    }

    /// Asks, in the session of the last time if there is one.
    fn ask(&mut self) -> Result<(), Failure> {
        self.coming = Coming::new((self.no_answer)());
        self.next_draw
            .get_or_insert(Moment::now() + self.every.max(FRESH));
        if let Some(process) = &mut self.process {
            process.is_idle = false;
            process.progress.begin_again();
            // If it is gone, the link says so.
            let _ = process.link.send(&ToAsker::AskAgain);
            return Ok(());
        }
        let (pid, link) = fork_isolated(&mut *self.work, Message::Failed)?;
        let mut limits = limits(&self.question.common.connection);
        limits.whole = self.question.whole;
        self.process = Some(Process {
            pid,
            link,
            begun: Moment::now(),
            progress: Progress::new(limits),
            is_idle: false,
        });
        Ok(())
    }

    /// Reads what the process that asks has sent, and whether it takes too long.
    fn read_messages(&mut self) -> Result<(), Failure> {
        while let Some(process) = &mut self.process {
            let deadline = process.progress.deadline().filter(|_| !process.is_idle);
            if !process.link.is_readable() && !is_over(deadline) {
                return Ok(());
            }
            let event = process
                .progress
                .on(next(&process.link, Some(Moment::START)));
            match event {
                // Between two questions the session's end is no news.
                Event::Finished(_) | Event::Failed(_) if process.is_idle => self.end_process(),
                Event::Item(item) => {
                    if self.coming.answer.receive(&item).is_none() {
                        let gone = process.progress.gone();
                        self.finished(gone)?;
                    }
                }
                Event::Note(level, text) if level <= self.question.common.log.shown => {
                    self.coming.notes.push(text);
                }
                Event::Note(..) | Event::MustFinish(_) | Event::Nothing => {}
                Event::Failed(failure) => {
                    self.end_process();
                    self.failed(failure)?;
                }
                Event::Finished(finished) => self.finished(finished)?,
            }
        }
        Ok(())
    }

    fn finished(&mut self, finished: Finished) -> Result<(), Failure> {
        if matches!(finished, Finished::All(_)) {
            self.answered();
            return Ok(());
        }
        let ended = self.process.take().map(|process| end(process.pid));
        let gone = finished.server(self.question.called, &ended.unwrap_or_default());
        gone.map_or_else(|failure| self.failed(failure), |_| Ok(()))
    }

    fn answered(&mut self) {
        let now = Moment::now();
        let answer = replace(&mut self.coming, Coming::new((self.no_answer)()));
        self.next_question = (answer.asked + self.every).max(now);
        self.last = Some((answer, now));
        self.trouble = None;
        self.next_draw = Some(now);
        let Some(process) = &mut self.process else {
            return;
        };
        process.is_idle = true;
        if self.every > LONGEST_IDLE || process.begun.elapsed() > LONGEST_SESSION {
            self.end_process();
        }
    }

    /// Shows what is wrong, and tries again later.
    ///
    /// # Errors
    /// There was no answer before.
    fn failed(&mut self, failure: Failure) -> Result<(), Failure> {
        if self.last.is_none() {
            return Err(failure);
        }
        let now = Moment::now();
        self.next_question = (self.coming.asked + self.every).max(now + PAUSE);
        self.trouble = Some(failure.line);
        self.next_draw = Some(now);
        Ok(())
    }

    /// Ends the process that asks. It logs out, unless it waits for a server: otherwise the server notes that the client was lost.
    fn end_process(&mut self) {
        if let Some(process) = self.process.take() {
            process.link.close_for_sending();
            let [idle, asking] = LOGOUT;
            let limit = if process.is_idle { idle } else { asking };
            if reap_within(process.pid.as_raw(), limit) == End::Pending {
                end(process.pid);
            }
        }
    }

    fn draw(&mut self) {
        let frame = self.frame();
        let size = Screen::size();
        let is_drawn = self.screen.draw(&frame.fitted(size), size);
        let goes_on = !is_drawn || self.is_asking() || self.trouble.is_some();
        self.next_draw = goes_on.then(|| Moment::now() + FRESH);
    }

    fn frame(&self) -> Frame {
        let time = to_the_second(SystemTime::now());
        let mut frame = Frame {
            title: [self.title.clone(), format!("{time} UTC")],
            newest_last: self.newest_last,
            ..Frame::default()
        };
        let step = || match &self.process {
            Some(process) if !process.is_idle => {
                format!("no answer yet: {}", process.progress.last_note)
            }
            _ => "no answer yet".to_owned(),
        };
        let Some((last, at)) = &self.last else {
            frame.trouble = printable(&step());
            return frame;
        };
        let age = at.elapsed();
        if self.trouble.is_some() || age > self.every + FRESH {
            let why = self.trouble.clone().unwrap_or_else(step);
            frame.trouble = printable(&format!("from {} ago; {why}", in_seconds(age)));
        }
        frame.body = last.answer.table(self.question.common.color);
        for note in &last.notes {
            let _ = writeln!(frame.body, "dblock: {}", printable(note));
        }
        frame
    }
}

fn cannot_wait(error: &io::Error) -> Failure {
    Failure::refused("wait", error)
}
