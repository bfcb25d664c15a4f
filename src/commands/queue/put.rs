//! `dblock queue put`: puts jobs into a queue. A process of its own reads the payloads and has the session; this one prints the ids.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::records::{Next, Records, check_files};
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::{Level, Log, write_at_once};
use crate::base::text::shown;
use crate::commands::cannot_write;
use crate::commands::inquiry::listener_of;
use crate::db::{Connector, Fault, Session};
use crate::isolated::link::{Link, cut};
use crate::isolated::process::{detach_with_descriptors, end, fork_isolated, harden};
use crate::isolated::query::Message;
use crate::lock::{DEFAULT_TTL, Introduction};
use crate::queue::{FindQueue, For, Outcome, Put, Putter, missing_queue, no_such_queue, open};
use crate::schema::Tables;
use crate::settings;
use crate::settings::cli::CommandLine;
use crate::settings::queue::{QueuePut, Source};
use crate::supervise::{Signals, was_closed};

/// From one try to the next after another transaction was in the way.
const PAUSE: Duration = Duration::from_millis(20);

/// The same where the server has no room.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(500);

/// How long after a look for a server the end of it is waited for.
const BESIDES: Duration = Duration::from_secs(2);

/// How often the progress is shown.
const PROGRESS: Duration = Duration::from_secs(1);

/// Bytes that go into a pipe that can be written to.
const PIECE: usize = 4096;

/// What became of some payloads.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Fed {
    /// They are put.
    Put(Put),
    /// Nothing is put: this job has the key.
    HasKey(u64),
    /// The server has lost what it had committed: nobody knows what is put.
    Forgotten,
    /// It is not known whether so many are put.
    InDoubt(u64),
    /// The server is lost, and sought again.
    Seeking,
    /// It is found.
    Found,
}

/// To the process that has the session: no more payloads are to be put.
#[derive(Serialize, Deserialize)]
struct Stop;

/// Puts the jobs, prints their ids, and returns how dblock is to end.
///
/// # Errors
/// What kept it from that.
pub fn put(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (put, log) = settings::queue::put(command_line)?;
    if put.source.reads_stdin() && was_closed(libc::STDIN_FILENO) {
        let line = "cannot read stdin: it is closed";
        return Err(Failure::new(Reason::Usage, line).into());
    }
    if let Source::Files(files) = &put.source {
        check_files(files)?;
    }
    if was_closed(libc::STDOUT_FILENO) {
        let failure = cannot_write(&Errno::EBADF.into());
        return Err(
            Failure::new(failure.reason, format!("{}; nothing is put", failure.line)).into(),
        );
    }
    let refused = |error: io::Error| {
        Failure::new(
            Reason::OsRefused,
            format!("cannot wait for signals: {error}"),
        )
    };
    let signals = Signals::collect().map_err(refused)?;
    let (pid, link) = fork_isolated(
        |link, parent| feed(&put, log.shown, &link, parent),
        Message::<Fed>::Failed,
    )?;
    let mut printer = Printer {
        put: &put,
        log,
        link,
        signals,
        text: Vec::new(),
        jobs: 0,
        in_doubt: 0,
        is_forgotten: false,
        deadline: Some(Moment::now() + put.connection.connect_timeout),
        has_session: false,
        last_note: "connecting".to_owned(),
        signal: None,
        unwritten: None,
        progress: Progress::new(&put, log),
    };
    let outcome = printer.run().map_err(refused);
    end(pid);
    printer.progress.remove();
    match outcome? {
        Finished::All => Ok(Ending::Code(0)),
        Finished::Signal(signal) => {
            // Where nothing has begun there is nothing to say.
            if printer.has_session {
                let put = printer.what_is_put_if_any();
                log.error(format_args!("stopped by a signal{put}"));
            }
            Ok(Ending::Signal(signal))
        }
        Finished::Failed(failure) => {
            let whole = format!("{}{}", failure.line, printer.what_is_put());
            Err(Failure::new(failure.reason, whole).into())
        }
        Finished::Unwritten(failure) => {
            let whole = format!("{}{}", failure.line, printer.what_is_put_if_any());
            Err(Failure::new(failure.reason, whole).into())
        }
    }
}

impl Source {
    fn reads_stdin(&self) -> bool {
        match self {
            Self::Arguments(_) => false,
            Self::Files(files) => files.iter().any(|file| file.as_os_str() == "-"),
            Self::Stdin | Self::Records(_) => true,
        }
    }
}

/// How it came to an end.
enum Finished {
    All,
    Signal(i32),
    Failed(Failure),
    /// Ids could not be printed.
    Unwritten(Failure),
}

/// The process that a person sees.
struct Printer<'a> {
    put: &'a QueuePut,
    log: Log,
    link: Link,
    signals: Signals,
    /// What is still to be printed.
    text: Vec<u8>,
    /// How many jobs are put, and of how many more that is not known.
    jobs: u64,
    in_doubt: u64,
    /// Whether the server has lost what was put.
    is_forgotten: bool,
    /// When a server must have been found.
    deadline: Option<Moment>,
    has_session: bool,
    /// What was done last.
    last_note: String,
    /// The signal that ends it, once the transaction under way is over.
    signal: Option<i32>,
    /// Why ids could not be printed: that ends it likewise.
    unwritten: Option<Failure>,
    progress: Progress,
}

impl Printer<'_> {
    fn run(&mut self) -> io::Result<Finished> {
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
            // In pieces, for poll(2) stands still while the machine sleeps.
            match poll(&mut ready, PollTimeout::from(500u16)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready = ready[1].any().unwrap_or(true);
            while let Some(received) = self.signals.next()? {
                if self.signals.act_on(received.signal) {
                    let signal = received.signal as i32;
                    // Nothing was put yet, or nobody wants to wait.
                    if !self.has_session || self.signal.is_some() {
                        return Ok(Finished::Signal(signal));
                    }
                    self.signal = Some(signal);
                    self.stop();
                }
            }
            match (is_ready, prints) {
                (true, true) => self.print(),
                (true, false) => finished = self.receive(),
                (false, _) => {}
            }
            if self
                .deadline
                .is_some_and(|deadline| deadline <= Moment::now())
                && !prints
            {
                return Ok(self.is_late());
            }
            self.progress.show(self.jobs);
        }
    }

    fn is_late(&self) -> Finished {
        let limit = self.put.connection.connect_timeout;
        self.ended(Finished::Failed(unreachable(limit, &self.last_note)))
    }

    /// No more payloads are to be put than those of the transaction that is under way.
    fn stop(&mut self) {
        let _ = self.link.send(&Stop);
        self.deadline = Some(Moment::now() + self.put.connection.connect_timeout);
    }

    /// Prints a piece. A reader that has seen enough, as `head`, is no error: the jobs are put all the same. Any other error ends it:
    /// whoever wants the ids is not to lose more of them.
    fn print(&mut self) {
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
                if self.unwritten.is_none() {
                    self.unwritten = Some(cannot_write(&error.into()));
                    self.stop();
                }
            }
        }
    }

    fn receive(&mut self) -> Option<Finished> {
        let Ok(Some((message, _))) = self.link.receive::<Message<Fed>>() else {
            let line = "the process that puts the jobs has ended";
            let failure = Failure::new(Reason::Internal, line);
            return Some(self.ended(Finished::Failed(failure)));
        };
        match message {
            Message::Note(level, line) => {
                self.progress.remove();
                self.log.say(level, &line);
                if level == Level::Info {
                    self.last_note = line;
                }
            }
            Message::Reached(_) => (self.has_session, self.deadline) = (true, None),
            Message::Item(Fed::Put(put)) => {
                for id in put.ids() {
                    let _ = writeln!(self.text, "{id}");
                }
                self.jobs += u64::from(put.jobs);
                self.in_doubt = 0;
            }
            Message::Item(Fed::HasKey(job)) => {
                let _ = writeln!(self.text, "{job}");
                let queue = &self.put.queue;
                let key = self.put.traits.key.as_deref().unwrap_or_default();
                self.log.info(format_args!(
                    "job {job} of {queue} has the key {key}, and is not done: nothing is put"
                ));
            }
            Message::Item(Fed::Forgotten) => self.is_forgotten = true,
            Message::Item(Fed::InDoubt(jobs)) => self.in_doubt = jobs,
            Message::Item(Fed::Seeking) => {
                let limit = self.put.connection.connect_timeout + BESIDES;
                self.deadline = Some(Moment::now() + limit);
            }
            Message::Item(Fed::Found) => {
                let is_stopped = self.signal.is_some() || self.unwritten.is_some();
                self.deadline = self.deadline.filter(|_| is_stopped);
            }
            Message::MustFinish(_) => {}
            Message::Done => return Some(self.ended(Finished::All)),
            Message::Failed(failure) => return Some(self.ended(Finished::Failed(failure))),
        }
        None
    }

    fn ended(&self, finished: Finished) -> Finished {
        match (self.signal, &self.unwritten) {
            (Some(signal), _) => Finished::Signal(signal),
            (None, Some(failure)) => Finished::Unwritten(failure.clone()),
            (None, None) => finished,
        }
    }

    /// As [`Printer::what_is_put`], also when that is nothing.
    fn what_is_put_if_any(&self) -> String {
        let put = self.what_is_put();
        if put.is_empty() {
            "; nothing is put".to_owned()
        } else {
            put
        }
    }

    /// Whether all payloads are put, as far as that is known beforehand.
    fn is_all(&self) -> bool {
        let payloads = match &self.put.source {
            Source::Arguments(payloads) => payloads.len(),
            Source::Files(files) => files.len(),
            Source::Stdin => 1,
            Source::Records(_) => return false,
        };
        self.jobs == payloads as u64
    }

    /// How many jobs are put, and how to put the others without putting any twice.
    fn what_is_put(&self) -> String {
        if self.is_forgotten {
            return String::new();
        }
        let (jobs, in_doubt) = (self.jobs, self.in_doubt);
        let queue = &self.put.queue;
        let mut text = match jobs {
            0 => String::new(),
            1 => "; 1 job is put".to_owned(),
            number => format!("; {} are put", super::jobs(number)),
        };
        if in_doubt > 0 {
            let _ = write!(
                text,
                "; it is not known whether the {} of {in_doubt} is put: see dblock queue status {queue}",
                if jobs == 0 {
                    "first batch"
                } else {
                    "next batch"
                }
            );
            return text;
        }
        if jobs > 0 && !self.is_all() {
            let next = jobs + 1;
            let _ = match self.put.source {
                Source::Records(b'\n') => write!(text, "; go on with tail -n +{next}"),
                Source::Records(_) => write!(text, "; go on with tail -z -n +{next}"),
                Source::Arguments(_) | Source::Files(_) => {
                    write!(text, "; go on with PAYLOAD number {next}")
                }
                Source::Stdin => Ok(()),
            };
        }
        text
    }
}

/// A line on a terminal that says how many jobs are put.
struct Progress {
    is_shown: bool,
    is_there: bool,
    next: Moment,
}

impl Progress {
    fn new(put: &QueuePut, log: Log) -> Self {
        let is_terminal = io::stderr().is_terminal() && log.shown > Level::Error;
        Self {
            is_shown: is_terminal && !matches!(put.source, Source::Stdin),
            is_there: false,
            next: Moment::now() + PROGRESS,
        }
    }

    fn show(&mut self, jobs: u64) {
        if self.is_shown && self.next <= Moment::now() {
            self.next = Moment::now() + PROGRESS;
            self.is_there = true;
            let line = format!("\r{} put\x1b[K", super::jobs(jobs));
            let _ = write_at_once(io::stderr().as_fd(), line.as_bytes());
        }
    }

    fn remove(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = write_at_once(io::stderr().as_fd(), b"\r\x1b[K");
        }
    }
}

fn unreachable(limit: Duration, cause: &str) -> Failure {
    let line = format!(
        "no server could be reached within {}: {cause}",
        shown(limit)
    );
    Failure::new(Reason::Unreachable, line)
}

/// The life of the process that has the session.
fn feed(put: &QueuePut, level: Level, link: &Rc<Link>, parent: Pid) -> Result<(), Failure> {
    harden(parent)?;
    let command = "dblock queue put";
    let attributes = Introduction::of_command(command, parent, DEFAULT_TTL).attributes();
    let listener = listener_of::<Fed>(link, level);
    let connector = Connector::new(&put.connection, attributes, DEFAULT_TTL, listener)?;
    // The files that are to be put may be named by descriptors, as /dev/fd/63.
    detach_with_descriptors(c"dblock-put")?;
    let tables = Tables::new(&put.connection.database);
    let mut feeder = Feeder {
        put,
        connector,
        tables: &tables,
        session: None,
        link,
        limit: put.connection.connect_timeout,
    };
    let begun = Moment::now();
    let (queue, server) = loop {
        let session = feeder.session(begun)?;
        let server = session.to_string();
        match session.run(&FindQueue {
            tables: &tables,
            name: &put.queue,
        }) {
            Ok(Some(queue)) => break (queue, server),
            Ok(None) => return Err(feeder.missing_queue()),
            Err(fault) => feeder.failed(fault, begun)?,
        }
    };
    let _ = link.send(&Message::<Fed>::Reached(cut(&server)));
    let mut putter = Putter::new(&tables, queue, &put.traits)?;
    feeder.feed(&mut putter)?;
    drop(feeder);
    let _ = link.send(&Message::<Fed>::Done);
    Ok(())
}

/// Has the session, and puts what is read.
struct Feeder<'a> {
    put: &'a QueuePut,
    connector: Connector,
    tables: &'a Tables,
    session: Option<Session>,
    link: &'a Rc<Link>,
    /// How long a server that is lost is sought.
    limit: Duration,
}

impl Feeder<'_> {
    fn feed(&mut self, putter: &mut Putter) -> Result<(), Failure> {
        let mut records = Records::of(&self.put.source);
        while let Next::Some = records.advance(self.link)? {
            let payloads = records.payloads();
            let outcome = match self.put_all(putter, &payloads)? {
                Some(Outcome::Put(put)) => Fed::Put(put),
                Some(Outcome::HasKey(job)) => Fed::HasKey(job),
                Some(Outcome::NoQueue) => return Err(self.missing_queue()),
                Some(Outcome::Forgotten) => {
                    self.tell(Fed::Forgotten);
                    let queue = &self.put.queue;
                    let line = format!(
                        "the server has lost what it had committed: jobs that were put may be missing; see dblock queue list {queue}"
                    );
                    return Err(Failure::new(Reason::LockLost, line));
                }
                None => return Ok(()),
            };
            let _ = self.link.send(&Message::Item(outcome));
        }
        Ok(())
    }

    /// Puts these payloads, however often it takes within the limit; `None` when nobody wants them any more.
    fn put_all(
        &mut self,
        putter: &mut Putter,
        payloads: &[&[u8]],
    ) -> Result<Option<Outcome>, Failure> {
        let mut begun = None;
        let mut in_doubt = false;
        loop {
            let since = begun.unwrap_or_else(Moment::now);
            let tried = match self.session(since) {
                Ok(session) => try_put(putter, session, payloads, &mut in_doubt),
                Err(failure) => {
                    self.tell_doubt(in_doubt, payloads);
                    return Err(failure);
                }
            };
            let fault = match tried {
                Ok(outcome) => {
                    if begun.is_some() {
                        self.tell(Fed::Found);
                    }
                    return Ok(Some(outcome));
                }
                Err(fault) => fault,
            };
            if begun.is_none() {
                begun = Some(Moment::now());
                self.tell(Fed::Seeking);
            }
            if let Err(failure) = self.failed(fault, since) {
                self.tell_doubt(in_doubt, payloads);
                return Err(failure);
            }
            if self.link.is_readable() {
                self.tell_doubt(in_doubt, payloads);
                return Ok(None);
            }
        }
    }

    /// Why there is no such queue, as the server says that had none.
    fn missing_queue(&mut self) -> Failure {
        let name = &self.put.queue;
        let asked = self
            .session
            .as_mut()
            .map(|session| missing_queue(name, self.tables, session));
        match asked {
            Some(Ok(failure)) => failure,
            _ => no_such_queue(name),
        }
    }

    fn tell(&self, fed: Fed) {
        let _ = self.link.send(&Message::Item(fed));
    }

    fn tell_doubt(&self, in_doubt: bool, payloads: &[&[u8]]) {
        if in_doubt {
            self.tell(Fed::InDoubt(payloads.len() as u64));
        }
    }

    /// The session, which is opened where there is none.
    fn session(&mut self, since: Moment) -> Result<&mut Session, Failure> {
        if self.session.is_none() {
            self.session = Some(self.connect(since)?);
        }
        Ok(self.session.as_mut().expect("it is there"))
    }

    fn connect(&self, since: Moment) -> Result<Session, Failure> {
        let servers = self.connector.targets().len();
        loop {
            let opened = self.connector.connect(|session| {
                open(session, self.tables, For::Writing, servers)?;
                // Nothing waits for a lock for longer than two seconds.
                session
                    .answer_within(self.limit.max(Duration::from_secs(5)))
                    .map_err(|error| Fault::Gone(error.to_string()))
            });
            match opened {
                Ok((session, ())) => return Ok(session),
                Err(Fault::Final(failure)) => return Err(failure),
                Err(fault) if since.elapsed() >= self.limit.mul_f64(0.9) => {
                    let servers = self.connector.passed_over();
                    let cause = servers.last().map(|server| server.line.clone());
                    return Err(unreachable(self.limit, &cause.unwrap_or(fault.to_string())));
                }
                Err(_) => sleep(self.connector.pause()),
            }
        }
    }

    /// After a fault: what is done before the next try.
    ///
    /// # Errors
    /// That there is to be none.
    fn failed(&mut self, fault: Fault, since: Moment) -> Result<(), Failure> {
        let server = self.session.as_ref().map(ToString::to_string);
        let server = server.unwrap_or_default();
        let is_late = since.elapsed() >= self.limit.mul_f64(0.9);
        match self.tables.explain(fault) {
            fault @ (Fault::Conflict(_) | Fault::Interrupted(_)) if !is_late => {
                let line = format!("{fault}; trying again");
                (listener_of::<Fed>(self.link, Level::Info))(Level::Info, &line);
                sleep(PAUSE);
                Ok(())
            }
            Fault::NoRoom(cause) if !is_late => {
                let line = format!("{server} has no room: {cause}; trying again");
                (listener_of::<Fed>(self.link, Level::Info))(Level::Info, &line);
                sleep(NO_ROOM_PAUSE);
                Ok(())
            }
            fault @ (Fault::Gone(_) | Fault::Full(_) | Fault::ReadOnly(_)) if !is_late => {
                let line = format!("lost {server}: {fault}");
                if let Some(session) = self.session.take() {
                    session.tell(Level::Info, &line);
                    self.connector.try_last(&session);
                }
                sleep(self.connector.pause());
                Ok(())
            }
            Fault::ReadOnly(cause) => {
                let line = format!("{server} {cause}; name the server that takes writes");
                Err(Failure::new(Reason::Configuration, line))
            }
            fault @ (Fault::Conflict(_) | Fault::Interrupted(_)) => {
                let line = format!(
                    "{server} did not answer within {}: {fault}",
                    shown(self.limit)
                );
                Err(Failure::new(Reason::Unreachable, line))
            }
            fault => Err(fault.into_failure(&server)),
        }
    }
}

/// Tries to put the payloads, after it has looked up whether they are put already where that is in doubt.
fn try_put(
    putter: &mut Putter,
    session: &mut Session,
    payloads: &[&[u8]],
    in_doubt: &mut bool,
) -> Result<Outcome, Fault> {
    if *in_doubt && let Some(put) = putter.look_up(session, payloads)? {
        return Ok(Outcome::Put(put));
    }
    *in_doubt = false;
    if let Some(job) = putter.job_with_key(session)? {
        return Ok(Outcome::HasKey(job));
    }
    let tried = putter.try_put(session, payloads);
    *in_doubt = matches!(
        tried,
        Err(Fault::Gone(_) | Fault::Interrupted(_) | Fault::Full(_))
    );
    tried
}
