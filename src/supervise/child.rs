//! The command's process: spawned with the keeper's knowledge, signalled, and reaped as the very last thing.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access, getpid, getppid};

use super::environment::{self, Change};
use super::inherited;
use super::leash::Leash;
use super::signals::Signals;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::processes::{Processes, children_of};
use crate::base::text::in_words;

/// The command, running or ended but not yet reaped: as long as this value lives its number is nobody else's.
pub struct Child {
    /// Whom signals go to.
    pub processes: Processes,
    _leash: Arc<Leash>,
}

/// What a command has in the place of dblock's own; `None`: it shares that.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// What it reads.
    pub stdin: Option<OwnedFd>,
    /// Where it says what is wrong.
    pub stderr: Option<OwnedFd>,
    /// The folder where it starts.
    pub folder: Option<PathBuf>,
}

impl Child {
    /// Starts the command, with these `changes` to the environment. Before its first instruction the new process calls `announce`
    /// with its number, and whether it leads a group.
    ///
    /// # Errors
    /// [`Reason::NotFound`], [`Reason::NotExecutable`], [`Reason::OsRefused`].
    pub fn spawn(
        command: &[OsString],
        changes: Vec<Change>,
        signals: &Signals,
        surroundings: Surroundings,
        announce: impl Fn(i32, bool) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let [program, arguments @ ..] = command else {
            return Err(Failure::new(Reason::Usage, "no command is given"));
        };
        let own_group = !has_terminal();
        let leash = Leash::new().map(Arc::new).map_err(|error| {
            let message = format!(
                "cannot run the command: {}",
                in_words(&io::Error::from(error))
            );
            Failure::new(Reason::OsRefused, message)
        })?;
        let mask = signals.inherited();
        let tied = Arc::clone(&leash);
        let supervisor = getpid();
        let mut process = Command::new(program);
        process.args(arguments);
        if own_group {
            process.process_group(0);
        }
        let has_streams = surroundings.stdin.is_some();
        if let Some(stdin) = surroundings.stdin {
            process.stdin(stdin);
        }
        if let Some(stderr) = surroundings.stderr {
            process.stderr(stderr);
        }
        if let Some(folder) = surroundings.folder {
            process.current_dir(folder);
        }
        let prepare = move || -> io::Result<()> {
            let pid = getpid().as_raw();
            announce(pid, own_group)?;
            // Should the keeper be killed together with the supervisor, the kernel ends the command.
            tied.tie(if own_group { -pid } else { pid })?;
            environment::apply(&changes)?;
            inherited::restore(has_streams);
            Signals::restore_mask(&mask)
        };
        let last_steps = move || {
            let prepared = prepare();
            if getppid() != supervisor {
                // Nobody is left to report an error to, and the standard library would complain of that.
                // SAFETY: ends this process, and nothing else.
                unsafe { libc::_exit(Reason::OsRefused.code().into()) };
            }
            prepared
        };
        // SAFETY: this process has no threads, so what runs between fork and exec may do anything.
        unsafe { process.pre_exec(last_steps) };
        match process.spawn() {
            Ok(child) => {
                let pid = i32::try_from(child.id()).expect("process numbers are positive and fit");
                Ok(Self {
                    processes: Processes { pid, own_group },
                    _leash: leash,
                })
            }
            Err(error) => Err(cannot_run(program, &error)),
        }
    }

    /// How the command ended, if it has. It stays a zombie: its number is still its own.
    pub fn ended(&self) -> Option<Ending> {
        peek(libc::P_PID, self.processes.pid).map(|(_, ending)| ending)
    }

    /// Reaps the ended command.
    pub fn reap(self) {
        reap(self.processes.pid);
    }
}

/// Reaps the ended children that are none of dblock's `own`. As process 1 of a container dblock inherits every orphan.
pub fn reap_orphans(own: &[Option<i32>]) {
    while let Some((pid, _)) = peek(libc::P_ALL, 0) {
        if own.contains(&Some(pid)) {
            // It hides those behind it, and may do so for as long as the rest of its group lives.
            let mut others = children_of(getpid().as_raw());
            others.retain(|pid| !own.contains(&Some(*pid)) && peek(libc::P_PID, *pid).is_some());
            for pid in others {
                reap(pid);
            }
            return;
        }
        reap(pid);
    }
}

/// Waits for the end of a child, which must be near, and reaps it; how it ended.
pub fn reap(pid: i32) -> Option<Ending> {
    wait(libc::P_PID, pid, libc::WEXITED).map(|(_, ending)| ending)
}

/// An ended child among those meant, and how it ended; it is not reaped.
fn peek(kind: libc::idtype_t, id: i32) -> Option<(i32, Ending)> {
    wait(kind, id, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)
}

/// waitid(2). Raw numbers, for a command may die of a real-time signal, which has no name.
fn wait(kind: libc::idtype_t, id: i32, options: i32) -> Option<(i32, Ending)> {
    let id = libc::id_t::try_from(id).ok()?;
    // SAFETY: all-zero bytes are a valid siginfo_t, and waitid fills it for a child's end.
    let (pid, code, status) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        while libc::waitid(kind, id, &raw mut info, options) != 0 {
            if Errno::last() != Errno::EINTR {
                return None;
            }
        }
        (info.si_pid(), info.si_code, info.si_status())
    };
    if pid == 0 {
        return None;
    }
    let ending = match code {
        libc::CLD_EXITED => Ending::Code(u8::try_from(status & 0xff).expect("eight bits")),
        _ => Ending::Signal(status),
    };
    Some((pid, ending))
}

/// Whether there is a controlling terminal. Without one the command gets a process group of its own; with one it must
/// stay in dblock's, as with `timeout --foreground`, for the terminal to read and for job control.
fn has_terminal() -> bool {
    open(
        "/dev/tty",
        OFlag::O_RDONLY | OFlag::O_NOCTTY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .is_ok()
}

/// Checks that a program can be executed, before there is a reason to do so.
///
/// # Errors
/// [`Reason::NotFound`], [`Reason::NotExecutable`].
pub fn check_program(program: &OsStr) -> Result<(), Failure> {
    find(program).map_err(|error| cannot_run(program, &error.into()))
}

/// Looks for a program where exec(3) would.
fn find(program: &OsStr) -> Result<(), Errno> {
    if program.is_empty() {
        return Err(Errno::ENOENT);
    }
    if program.as_bytes().contains(&b'/') {
        access(program, AccessFlags::X_OK)?;
        let is_folder = Path::new(program).is_dir();
        return if is_folder {
            Err(Errno::EACCES)
        } else {
            Ok(())
        };
    }
    // Without one, where some C library looks.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/bin:/usr/bin".into());
    let mut why = Errno::ENOENT;
    for folder in std::env::split_paths(&path) {
        let file = folder.join(program);
        match access(&file, AccessFlags::X_OK) {
            Ok(()) if !file.is_dir() => return Ok(()),
            Ok(()) | Err(Errno::EACCES) => why = Errno::EACCES,
            Err(_) => {}
        }
    }
    Err(why)
}

fn cannot_run(program: &OsStr, error: &io::Error) -> Failure {
    let reason = reason_of(error);
    let name = match program.to_string_lossy() {
        name if name.is_empty() => "''".into(),
        name => name,
    };
    let message = match reason {
        Reason::LockLost => "the keeper died before the command was started".to_owned(),
        Reason::NotFound if find(program).is_ok() => {
            format!("cannot run {name}: the interpreter that it names is not there")
        }
        _ => format!("cannot run {name}: {}", in_words(error)),
    };
    Failure::new(reason, message)
}

/// As a shell and `timeout(1)` tell them apart; what the system refuses for want of means is its own reason.
fn reason_of(error: &io::Error) -> Reason {
    match error.raw_os_error() {
        // From the message to the keeper; executing a file has no pipe to break.
        Some(libc::EPIPE | libc::ECONNRESET) => Reason::LockLost,
        Some(libc::ENOENT) => Reason::NotFound,
        Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => Reason::OsRefused,
        _ => Reason::NotExecutable,
    }
}
