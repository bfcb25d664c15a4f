//! The process that cron sees: waits for the lock, runs the command, keeps every deadline, and never waits for a server.

mod child;
mod inherited;
mod signals;

use std::env;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getsid};

pub use signals::Signals;

use crate::exit::{Ending, Failure, Reason};
use crate::keeper::message::{FromKeeper, Link, ToKeeper};
use crate::report::{Level, Report, shown};
use crate::settings::{Run, Wait};
use child::Child;
use signals::Received;

/// From SIGTERM to SIGKILL when dblock itself ends the command.
const KILL_AFTER: Duration = Duration::from_secs(10);

/// From one look at a group that is ending to the next: the first, and at most.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(1);

/// How much longer the server's answer is waited for when a signal asks dblock to end.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// What became of the request for the lock.
pub enum Asked {
    /// It was had, on the session of this number.
    Held(u64),
    /// It was not had in time; the text says who has it.
    Taken(String),
    /// No server could be reached in time.
    Unreachable(Failure),
    /// A signal ended the waiting.
    Ended(Signal),
}

/// Watches over one keeper and one command.
pub struct Supervisor<'a> {
    run: &'a Run,
    report: Report,
    signals: Signals,
    keeper: Keeper,
}

/// The keeper as the supervisor knows it.
struct Keeper {
    /// Its process until it is reaped.
    pid: Option<Pid>,
    /// Shared with the command's process, which sends its own number before it becomes the command.
    link: Arc<Link>,
    /// Whether it has closed its end. Then it has ended, or is about to.
    gone: bool,
    /// Whether it has the lock, as far as it has said.
    holds: bool,
}

impl Keeper {
    fn new(pid: Pid, link: Link) -> Self {
        Self {
            pid: Some(pid),
            link: Arc::new(link),
            gone: false,
            holds: false,
        }
    }
}

/// Something to act on.
enum Event {
    Signal(Received),
    Message(FromKeeper),
    KeeperGone,
    Deadline,
}

impl<'a> Supervisor<'a> {
    /// Takes over the signals and a keeper that was forked off.
    pub fn new(run: &'a Run, report: Report, signals: Signals, keeper: Pid, link: Link) -> Self {
        Self {
            run,
            report,
            signals,
            keeper: Keeper::new(keeper, link),
        }
    }

    /// Replaces the keeper, which has been ended.
    pub fn set_keeper(&mut self, keeper: Pid, link: Link) {
        self.keeper = Keeper::new(keeper, link);
    }

    /// Waits until the keeper has the lock, or the time is over. Unless the lock is held, the keeper has been ended.
    ///
    /// # Errors
    /// What the keeper failed of.
    pub fn wait_for_lock(&mut self) -> anyhow::Result<Asked> {
        let asked = self.ask();
        if !matches!(asked, Ok(Asked::Held(_))) {
            self.end_keeper();
        }
        asked
    }

    fn ask(&mut self) -> anyhow::Result<Asked> {
        let limit = self.run.connection.connect_timeout;
        let begun = Instant::now();
        let mut deadline = begun.checked_add(limit);
        let mut waiting = false;
        let mut last_note = "connecting".to_owned();
        loop {
            match self.next(deadline)? {
                Event::Message(FromKeeper::Held { connection_id }) => {
                    self.keeper.holds = true;
                    let (name, span) = (&self.run.name, shown(begun.elapsed()));
                    self.report.info(format_args!(
                        "had {name} after {span}, on connection {connection_id}"
                    ));
                    return Ok(Asked::Held(connection_id));
                }
                Event::Message(FromKeeper::Taken(holder)) => return Ok(Asked::Taken(holder)),
                Event::Message(FromKeeper::Failed(failure)) => return Err(failure.into()),
                Event::Message(FromKeeper::Waiting(holder)) => {
                    let name = &self.run.name;
                    self.report
                        .info(format_args!("{name} is {holder}; waiting"));
                    last_note = format!("{name} was last {holder}");
                    // Once: on a new session the keeper goes on with the same wait. It ends the wait to the millisecond
                    // itself; the deadline is for a server that has fallen silent by then.
                    if !waiting {
                        waiting = true;
                        deadline = match self.run.wait {
                            Wait::For(wait) => begun.checked_add(wait + limit),
                            Wait::Forever => None,
                        };
                    }
                }
                Event::Message(FromKeeper::Note(level, text)) => {
                    self.report.say(level, &text);
                    if level == Level::Info {
                        last_note = text;
                    }
                }
                Event::Message(FromKeeper::Lost(_) | FromKeeper::Released) => {}
                Event::Signal(received) => {
                    self.reap_orphans(None);
                    if self.signals.act_on(received.signal) {
                        return Ok(Asked::Ended(received.signal));
                    }
                }
                Event::KeeperGone => {
                    let end = self.end_keeper().map_or_else(String::new, told);
                    let line = format!("the keeper {end} while this was under way: {last_note}");
                    return Err(Failure::new(Reason::Internal, line).into());
                }
                Event::Deadline => {
                    let line = if waiting {
                        format!("the server did not answer when the wait was over: {last_note}")
                    } else {
                        format!(
                            "no server could be reached within {}: {last_note}",
                            shown(limit)
                        )
                    };
                    return Ok(Asked::Unreachable(Failure::new(Reason::Unreachable, line)));
                }
            }
        }
    }

    /// Runs the command and returns how dblock is to end. Afterwards the lock is free and the keeper gone.
    ///
    /// # Errors
    /// The command could not be started, or was ended because the lock was lost.
    pub fn run_command(&mut self, connection_id: Option<u64>) -> anyhow::Result<Ending> {
        self.tell_the_command(connection_id);
        self.signals.collect_all()?;
        let begun = Instant::now();
        let child = match Child::spawn(&self.run.command, &self.signals, &self.keeper.link) {
            Ok(child) => child,
            Err(failure) => {
                self.release(None)?;
                return Err(failure.into());
            }
        };
        let watched = self.watch(&child);
        let ending = child.ended();
        match ending {
            Some(ending) => self.report.info(format_args!(
                "the command {} after {}",
                told(ending),
                shown(begun.elapsed())
            )),
            // Only after an error of the system's, which `watched` tells: no command runs on behind dblock's back.
            None => {
                child.processes.signal(libc::SIGKILL);
            }
        }
        self.release(Some(child))?;
        watched?;
        ending
            .ok_or_else(|| Failure::new(Reason::Internal, "the command's end was not seen").into())
    }

    /// The command's environment is dblock's own, and these variables.
    fn tell_the_command(&self, connection_id: Option<u64>) {
        let lock = connection_id.map(|id| ("0".to_owned(), id.to_string()));
        let (slot, id) = lock.unzip();
        // Set in this process, for that leaves the order, and what is no `name=value`, as they were.
        for (variable, value) in [
            ("DBLOCK_NAME", Some(self.run.name.to_string())),
            ("DBLOCK_SLOT", slot),
            ("DBLOCK_CONNECTION_ID", id),
        ] {
            match value {
                // SAFETY: no thread reads the environment meanwhile, for there is none.
                Some(value) => unsafe { env::set_var(variable, value) },
                // SAFETY: as above. A dblock around this one may have set it.
                None => unsafe { env::remove_var(variable) },
            }
        }
    }

    /// Waits for the command's end and passes signals on.
    fn watch(&mut self, child: &Child) -> anyhow::Result<()> {
        // Whether dblock was stopped by the terminal, together with the command.
        let mut stopped = false;
        loop {
            if child.ended().is_some() {
                return Ok(());
            }
            match self.next(None)? {
                Event::Signal(Received {
                    signal: Signal::SIGCHLD,
                    ..
                }) => self.reap_orphans(Some(child)),
                Event::Signal(received) => self.pass_on(received, child, &mut stopped),
                Event::Message(FromKeeper::Lost(cause)) => {
                    self.keeper.holds = false;
                    self.report.error(format_args!(
                        "{} was lost while the command runs: {cause}",
                        self.run.name
                    ));
                }
                Event::Message(FromKeeper::Note(level, text)) => self.report.say(level, text),
                Event::Message(_) | Event::Deadline => {}
                // Without a lock there is nothing to lose, and what ended with the keeper's death is told afterwards.
                Event::KeeperGone if !self.keeper.holds || child.ended().is_some() => {}
                Event::KeeperGone => return Err(self.end_command(child)?.into()),
            }
        }
    }

    /// Passes a signal on to the command, once.
    fn pass_on(&self, received: Received, child: &Child, stopped: &mut bool) {
        let Received {
            signal,
            from_terminal,
        } = received;
        match signal {
            // A terminal that hangs up tells the leader of the session alone.
            Signal::SIGHUP if getsid(None) == Ok(getpid()) => {}
            // Otherwise it signals the whole foreground group, and the command is in it.
            Signal::SIGTSTP if from_terminal => {
                *stopped = true;
                return signals::stop();
            }
            _ if from_terminal && !child.processes.own_group => return,
            // The shell continues the whole group, too; only if somebody continued dblock alone the command still stands.
            Signal::SIGCONT if std::mem::take(stopped) && !child.processes.is_stopped() => return,
            _ => {}
        }
        if !child.processes.signal(signal as i32) {
            self.report.warning(format_args!(
                "cannot pass {signal} on to the command: it runs as another user"
            ));
        }
    }

    /// Ends the command because the lock is lost: SIGTERM, then SIGKILL. All of its group must be gone before dblock says
    /// so. The failure is what dblock is to end with.
    fn end_command(&mut self, child: &Child) -> anyhow::Result<Failure> {
        self.keeper.holds = false;
        let name = &self.run.name;
        self.report.info(format_args!(
            "{name} was lost: the keeper is gone; ending the command"
        ));
        // A stopped process takes SIGTERM only when it is continued.
        child.processes.signal(libc::SIGTERM);
        child.processes.signal(libc::SIGCONT);
        let kill_at = Instant::now() + KILL_AFTER;
        let mut pause = LOOK_AGAIN;
        let mut stopped = false;
        while child.ended().is_none() || child.processes.alive() {
            let now = Instant::now();
            if now >= kill_at {
                child.processes.signal(libc::SIGKILL);
            }
            // The ends of the command's own children are not announced to us.
            let look_again = if child.ended().is_some() || now >= kill_at {
                pause = (2 * pause).min(LOOK_AGAIN_AT_MOST);
                now + pause
            } else {
                kill_at
            };
            if let Event::Signal(received) = self.next(Some(look_again))? {
                match received.signal {
                    Signal::SIGCHLD => self.reap_orphans(Some(child)),
                    _ => self.pass_on(received, child, &mut stopped),
                }
            }
        }
        let line = format!(
            "{} was lost, and the command was ended for it",
            self.run.name
        );
        Ok(Failure::new(Reason::LockLost, line))
    }

    /// Has the keeper give the lock back, reaps the command, and ends the keeper. The server's answer is waited for as
    /// long as for a connection at most.
    fn release(&mut self, child: Option<Child>) -> anyhow::Result<()> {
        // The keeper learns of the end before the command's number is free for another process: it never kills a stranger.
        if self.keeper.link.send(&ToKeeper::Release).is_err() {
            self.keeper.gone = true;
        }
        if let Some(child) = child {
            child.reap();
        }
        let name = &self.run.name;
        let limit = self.run.connection.connect_timeout;
        let mut deadline = Instant::now() + limit;
        while self.keeper.holds {
            let event = if self.keeper.gone {
                Event::KeeperGone
            } else {
                self.next(Some(deadline))?
            };
            let lost = match event {
                Event::Message(FromKeeper::Released) => {
                    self.report.info(format_args!("{name} is free"));
                    break;
                }
                Event::Message(FromKeeper::Lost(cause)) => cause,
                Event::KeeperGone => "the keeper is gone".to_owned(),
                Event::Deadline => {
                    self.report.warning(format_args!(
                        "the server did not answer; it frees {name} when it sees that dblock is gone"
                    ));
                    break;
                }
                Event::Message(FromKeeper::Note(level, text)) => {
                    self.report.say(level, text);
                    continue;
                }
                // The command has ended; who wants dblock to end now does not want to wait for a slow server.
                Event::Signal(received) => {
                    if self.signals.act_on(received.signal) {
                        deadline = deadline.min(Instant::now() + LAST_CHANCE);
                    }
                    continue;
                }
                Event::Message(_) => continue,
            };
            self.report.error(format_args!(
                "{name} was lost while the command ran: {lost}"
            ));
            break;
        }
        self.end_keeper();
        Ok(())
    }

    /// Ends the keeper, and with it its session; how it ended. Nothing is waited for but the kernel.
    fn end_keeper(&mut self) -> Option<Ending> {
        let pid = self.keeper.pid.take()?;
        let _ = kill(pid, Signal::SIGKILL);
        self.keeper.gone = true;
        child::reap(pid.as_raw())
    }

    /// Reaps orphans, which process 1 of a container inherits.
    fn reap_orphans(&self, command: Option<&Child>) {
        let own = [
            self.keeper.pid.map(Pid::as_raw),
            command.map(|command| command.processes.pid),
        ];
        while child::reap_orphan(&own) {}
    }

    /// The next event, signals first.
    fn next(&mut self, deadline: Option<Instant>) -> io::Result<Event> {
        loop {
            if let Some(received) = self.signals.next()? {
                return Ok(Event::Signal(received));
            }
            let mut descriptors = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            if !self.keeper.gone {
                descriptors.push(PollFd::new(self.keeper.link.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut descriptors, time_until(deadline)) {
                Ok(0) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                    return Ok(Event::Deadline);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let signal_came = descriptors[0].any() == Some(true);
            let keeper_spoke = descriptors
                .get(1)
                .is_some_and(|link| link.any() == Some(true));
            if keeper_spoke && !signal_came {
                // What is no message is no keeper of ours any more.
                let message = self.keeper.link.receive().unwrap_or_default();
                self.keeper.gone = message.is_none();
                return Ok(message.map_or(Event::KeeperGone, Event::Message));
            }
        }
    }
}

/// The time until a deadline for poll(2), rounded up so that it does not wake too early.
fn time_until(deadline: Option<Instant>) -> PollTimeout {
    let Some(deadline) = deadline else {
        return PollTimeout::NONE;
    };
    let millis = deadline
        .saturating_duration_since(Instant::now())
        .as_micros()
        .div_ceil(1000);
    PollTimeout::from(u16::try_from(millis).unwrap_or(u16::MAX))
}

fn told(ending: Ending) -> String {
    match ending {
        Ending::Code(code) => format!("ended with {code}"),
        Ending::Signal(signal) => format!("died of signal {signal}"),
    }
}
