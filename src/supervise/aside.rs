//! Programs beside the commands: one that sends a mail, or one that is told how a run ended. Each has a group of its own, reads a file, and
//! has a limit. What becomes of it is at most a line of the log.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{ForkResult, Pid, fork, setpgid};

use super::inherited::restore_limit_and_dispositions;
use super::signals::Signals;
use crate::base::children::{End, reap_within};
use crate::base::clock::{Moment, is_over};
use crate::base::exit::{Ending, Reason};
use crate::base::log::{Level, Log};
use crate::base::text::in_words;

/// How long one that was killed may take to end.
const END: Duration = Duration::from_secs(1);

/// A program that was started.
pub struct Aside {
    pid: Pid,
    /// The beginning of the line that is logged if it fails, at this level.
    complaint: String,
    level: Level,
    /// When it is killed; afterwards, when it must be gone.
    until: Moment,
    /// Why it was killed.
    killed: Option<&'static str>,
    goes_on: bool,
}

impl Aside {
    /// Starts a program for a run, which reads this file. It may run for so long; then, and at dblock's own end unless it `goes_on`, it is
    /// killed. If it fails, a line with `complaint` before the reason is logged.
    ///
    /// # Errors
    /// The system refused a process.
    pub fn start(
        mut command: Command,
        input: File,
        (limit, goes_on): (Duration, bool),
        (run, level, complaint): (&str, Level, String),
        signals: &Signals,
        log: Log,
    ) -> io::Result<Self> {
        command.stdin(input);
        let prepare = || {
            restore_limit_and_dispositions();
            Ok(())
        };
        // SAFETY: it runs in the child below, which has one thread. By then std has already changed SIGPIPE.
        unsafe { command.pre_exec(prepare) };
        // SAFETY: no thread was started, so the child may do whatever the parent may.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                // Parent and child both do this, as either may be first.
                let _ = setpgid(child, child);
                Ok(Self {
                    pid: child,
                    complaint,
                    level,
                    until: Moment::now() + limit,
                    killed: None,
                    goes_on,
                })
            }
            // Unlike `spawn`, the parent does not wait until the program is found.
            ForkResult::Child => {
                // In its own group it gets no Ctrl-C that is meant for dblock, and can be killed together with its children.
                let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
                if !goes_on {
                    // What it has started itself goes on then: only its own process is sure to be known.
                    let _ = set_pdeathsig(Signal::SIGKILL);
                }
                let error = match signals.inherited().restore_mask() {
                    Ok(()) => command.exec(),
                    Err(error) => error,
                };
                let program = command.get_program().display();
                log.say(
                    level,
                    format_args!("{run}: cannot start {program}: {}", in_words(&error)),
                );
                Ending::Code(Reason::NotFound.code()).exit()
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// When to kill it; afterwards, when it must be gone. `None`: that is over, too.
    pub fn deadline(&self) -> Option<Moment> {
        let is_over = is_over(Some(self.until));
        (self.killed.is_none() || !is_over).then_some(self.until)
    }

    /// Kills it, with its children, when its time is over. Whether it has ended: then it is reaped, and logged if it failed.
    pub fn has_ended(&mut self, log: Log) -> bool {
        if self.killed.is_none() && is_over(Some(self.until)) {
            self.kill("took too long");
        }
        let how = match reap_within(self.pid(), Duration::ZERO) {
            End::Pending => return false,
            End::Ended(Ending::Code(0)) | End::Unknown => return true,
            end @ End::Ended(_) => match self.killed {
                Some(why) => why.to_owned(),
                None => end.to_string(),
            },
        };
        log.say(self.level, format_args!("{} {how}", self.complaint));
        true
    }

    /// dblock is to end at once: kills it, unless it may go on.
    pub(super) fn end(&mut self) {
        if !self.goes_on {
            self.kill("was ended with dblock");
        }
    }

    /// Kills it, with its children.
    fn kill(&mut self, why: &'static str) {
        if self.killed.is_none() {
            self.until = Moment::now() + END;
        }
        self.killed.get_or_insert(why);
        let _ = killpg(self.pid, Signal::SIGKILL);
    }
}
