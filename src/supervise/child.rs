//! The command's process: announced to the keeper before it runs, signalled, and reaped last of all.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::PollFlags;
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, ForkResult, access, fork, getpid, getppid, setpgid, setsid};

use super::environment::{self, Change};
use super::folder::Folder;
use super::inherited;
use super::leash::Leash;
use super::signals::Signals;
use crate::base::children::{ended, reap, reap_within};
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::poll::is_ready_within;
use crate::base::processes::{Processes, sees_everybody};
use crate::base::text::in_words;

/// How long dblock waits to learn whether the process could become the command. A file server may hang, or Ctrl-Z may have stopped the
/// process.
const START_LIMIT: Duration = Duration::from_secs(1);

/// The same while another process hangs there: many may, and are started one after the other.
const SHORT_START_LIMIT: Duration = Duration::from_millis(50);

/// The command, running or ended. Until it is reaped no other process gets its pid.
pub struct Child {
    /// The processes that signals go to until the command is reaped.
    pub processes: Processes,
    reaped: Cell<Option<Reaped>>,
    /// Says why the command could not be executed, if that was not known within the limit.
    starting: Option<(OsString, PipeReader)>,
    _leash: Arc<Leash>,
}

/// A command that was reaped so that only the rest of its group is left to be found.
#[derive(Clone, Copy)]
struct Reaped {
    ending: Ending,
    /// Whether this user was allowed to signal it.
    was_ours: bool,
}

/// What the command has instead of dblock's own; `None`: it shares dblock's.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Standard input.
    pub stdin: Option<OwnedFd>,
    /// Standard output.
    pub stdout: Option<OwnedFd>,
    /// Standard error.
    pub stderr: Option<OwnedFd>,
    /// The working directory. A command that cannot be started there says so on its stderr, and starts in the root directory.
    pub folder: Option<PathBuf>,
    /// Whether it has a session of its own, and with that no terminal.
    pub own_session: bool,
    /// Whether another command hangs at its start, and so may this one.
    pub others_hang: bool,
}

/// Why a command could not be started.
#[derive(Debug)]
pub struct CannotRun {
    /// The exit code, and what to say.
    pub failure: Failure,
    /// Whether its arguments and its environment are longer than the system takes.
    pub is_too_long: bool,
}

impl From<Failure> for CannotRun {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            is_too_long: false,
        }
    }
}

impl Child {
    /// Starts the command with these `changes` to the environment. Before its first instruction the new process calls `announce` with its
    /// pid, and whether it leads a group.
    ///
    /// # Errors
    /// [`Reason::NotFound`], [`Reason::NotExecutable`], [`Reason::OsRefused`].
    pub fn spawn(
        command: &[OsString],
        changes: Vec<Change>,
        signals: &Signals,
        surroundings: Surroundings,
        announce: impl Fn(i32, bool) -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<Self, CannotRun> {
        let [program, arguments @ ..] = command else {
            return Err(Failure::new(Reason::Usage, "no command is given").into());
        };
        let own_session = surroundings.own_session;
        let own_group = own_session || !has_terminal();
        let leash = Leash::new().map(Arc::new);
        let leash = leash.map_err(|error| Failure::refused("run the command", &error.into()))?;
        let inherited = signals.inherited();
        let tied = Arc::clone(&leash);
        let supervisor = getpid();
        let mut process = Command::new(program);
        process.args(arguments);
        // The leader of a group could begin no session.
        if own_group && !own_session {
            process.process_group(0);
        }
        let streams = [
            surroundings.stdin.is_some(),
            surroundings.stdout.is_some(),
            surroundings.stderr.is_some(),
        ];
        if let Some(stdin) = surroundings.stdin {
            process.stdin(stdin);
        }
        if let Some(stdout) = surroundings.stdout {
            process.stdout(stdout);
        }
        if let Some(stderr) = surroundings.stderr {
            process.stderr(stderr);
        }
        let folder = surroundings.folder.map(Folder::new);
        let prepare = move || -> io::Result<()> {
            let pid = getpid().as_raw();
            if own_session {
                setsid()?;
            }
            announce(pid, own_group)?;
            // If keeper and supervisor are killed together, the kernel kills the command.
            tied.tie(if own_group { -pid } else { pid })?;
            environment::apply(&changes)?;
            inherited::restore(streams);
            inherited.restore_mask()?;
            // A file server that hangs has this wait for ever. By now signals end the process.
            folder.as_ref().map_or(Ok(()), Folder::enter)
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
        let limit = if surroundings.others_hang {
            SHORT_START_LIMIT
        } else {
            START_LIMIT
        };
        let started = start(process, own_group && !own_session).and_then(|(pid, pipe)| {
            if is_readable_within(&pipe, limit) {
                match start_error(&pipe) {
                    Some(error) => {
                        reap_within(pid, START_LIMIT);
                        return Err(error);
                    }
                    None => return Ok((pid, None)),
                }
            }
            Ok((pid, Some(pipe)))
        });
        let (pid, starting) = started.map_err(|error| cannot_run(program, &error))?;
        Ok(Self {
            processes: Processes { pid, own_group },
            reaped: Cell::new(None),
            starting: starting.map(|pipe| (program.clone(), pipe)),
            _leash: leash,
        })
    }

    /// Whether it was not known within the limit that the command could be executed.
    pub fn started_late(&self) -> bool {
        self.starting.is_some()
    }

    /// Whether it is still not known.
    pub fn hangs_at_start(&self) -> bool {
        let starting = self.starting.as_ref();
        starting.is_some_and(|(_, pipe)| !is_readable_within(pipe, Duration::ZERO))
    }

    /// Why the command could not be executed, if that was not known within the limit. Only after its process has ended.
    pub fn late_failure(&self) -> Option<CannotRun> {
        let (program, pipe) = self.starting.as_ref()?;
        if self.ended().is_none() || !is_readable_within(pipe, Duration::ZERO) {
            return None;
        }
        start_error(pipe).map(|error| cannot_run(program, &error))
    }

    /// How the command ended, if it has. It stays a zombie, so its pid is not reused.
    pub fn ended(&self) -> Option<Ending> {
        if let Some(reaped) = self.reaped.get() {
            return Some(reaped.ending);
        }
        ended(self.processes.pid)
    }

    /// Whether the command and all of its group are gone.
    pub fn is_gone(&self) -> bool {
        let Some(ending) = self.ended() else {
            return false;
        };
        if self.processes.is_seen() {
            return false;
        }
        if !self.processes.own_group || sees_everybody() {
            return true;
        }
        // /proc may hide processes. kill(2) finds them, but also finds the zombie: reap it first.
        if self.reaped.get().is_none() {
            let was_ours = self.processes.signal(0);
            self.reaped.set(Some(Reaped { ending, was_ours }));
            reap(self.processes.pid);
        }
        !self.processes.group_lives_on()
    }

    /// Kills the command and its group, and returns when all are gone. It waits even for one that this user may not signal.
    pub fn kill_and_wait(&self) {
        let mut pause = Duration::from_millis(1);
        loop {
            self.signal(libc::SIGKILL);
            if self.is_gone() {
                return;
            }
            sleep(pause);
            pause = (2 * pause).min(Duration::from_secs(1));
        }
    }

    /// Sends a signal. `false` if this user may not signal any of them.
    pub fn signal(&self, signal: i32) -> bool {
        match self.reaped.get() {
            None => self.processes.signal(signal),
            Some(reaped) => {
                if self.processes.group_lives_on() {
                    self.processes.signal(signal);
                }
                reaped.was_ours
            }
        }
    }

    /// Reaps the ended command.
    pub fn reap(self) {
        if self.reaped.get().is_none() {
            reap(self.processes.pid);
        }
    }
}

/// Forks the process that becomes the command. Returns its pid, and a pipe that tells why it could not: an empty end means that it did.
/// `groups`: whether this makes it the leader of a group.
fn start(mut process: Command, groups: bool) -> io::Result<(i32, PipeReader)> {
    let (read, mut write) = io::pipe()?;
    // SAFETY: this process has no threads, so the child may do whatever it may.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            if groups {
                // The child does this itself, but a signal for its group may be sent before that.
                let _ = setpgid(child, child);
            }
            Ok((child.as_raw(), read))
        }
        ForkResult::Child => {
            drop(read);
            let error = process.exec();
            let code = error.raw_os_error().unwrap_or(libc::EINVAL);
            let _ = write.write_all(&code.to_ne_bytes());
            // SAFETY: ends this process, and nothing else: what it owns is the supervisor's.
            unsafe { libc::_exit(reason_of(&error).code().into()) }
        }
    }
}

/// Whether the pipe has data, or has ended, within this time.
fn is_readable_within(pipe: &PipeReader, limit: Duration) -> bool {
    is_ready_within(pipe.as_fd(), PollFlags::POLLIN, limit)
}

/// Why the process could not become the command; `None`: it did.
fn start_error(mut pipe: &PipeReader) -> Option<io::Error> {
    let mut code = [0; 4];
    let read = pipe.read_exact(&mut code);
    read.ok()
        .map(|()| io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
}

/// Whether there is a controlling terminal. Without one the command gets its own process group. With one it stays in dblock's group, as
/// with `timeout --foreground`, so that it can read the terminal and job control works.
fn has_terminal() -> bool {
    open(
        "/dev/tty",
        OFlag::O_RDONLY | OFlag::O_NOCTTY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
    .is_ok()
}

/// The name of a command's program, without its folder.
pub fn program_of(command: &[OsString]) -> String {
    let program = command.first().map(Path::new);
    let name = program.and_then(|path| path.file_name().or(Some(path.as_os_str())));
    name.unwrap_or_default().to_string_lossy().into_owned()
}

/// Checks early that a program can be executed.
///
/// # Errors
/// [`Reason::NotFound`], [`Reason::NotExecutable`].
pub fn check_program(program: &OsStr) -> Result<(), Failure> {
    find(program).map_err(|error| cannot_run(program, &error.into()).failure)
}

/// Looks for a program as exec(3) does.
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
    // The path that some C libraries use without this variable.
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

fn cannot_run(program: &OsStr, error: &io::Error) -> CannotRun {
    let reason = reason_of(error);
    let name = match program.to_string_lossy() {
        name if name.is_empty() => "''".into(),
        name => name,
    };
    let message = match reason {
        Reason::NotFound if find(program).is_ok() => {
            format!("cannot run {name}: the interpreter that it names is not there")
        }
        _ => format!("cannot run {name}: {}", in_words(error)),
    };
    CannotRun {
        failure: Failure::new(reason, message),
        is_too_long: error.raw_os_error() == Some(libc::E2BIG),
    }
}

/// The reasons that a shell and `timeout(1)` distinguish, and one for a system that is out of resources.
fn reason_of(error: &io::Error) -> Reason {
    match error.raw_os_error() {
        Some(libc::ENOENT) => Reason::NotFound,
        Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => Reason::OsRefused,
        _ => Reason::NotExecutable,
    }
}
