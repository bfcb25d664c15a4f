//! What processes look like from outside, odd ways to start dblock, and commands that tell of their signals.

use std::fs::{self, File};
use std::io::Write;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Running, SOON, children_of, eventually};

/// A Perl script: a process and its child, in one group, that count each signal named as an argument and print, say,
/// `parent HUP 1` and `child HUP 1`. SIGWINCH to the parent ends both with code 7.
/// They sleep in short pieces: Perl would not wake from a long one for a signal that comes just before it.
pub const PAIR: &str = r#"
    $| = 1;
    my $child = fork;
    my $who = $child ? "parent" : "child";
    for my $name (@ARGV) {
        my $times = 0;
        $SIG{$name} = sub { $times++; print "$who $name $times\n" };
    }
    $SIG{WINCH} = sub { kill KILL => $child; exit 7 } if $child;
    print "$who ready $$\n";
    select undef, undef, undef, 0.02 while 1;
"#;

/// A shell that runs the tests in the background has them ignore INT and QUIT, and everything that they start with them.
#[used]
#[unsafe(link_section = ".init_array")]
static HEED_SIGNALS: extern "C" fn() = heed_signals;

extern "C" fn heed_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: sets a default disposition, before `main` and its threads.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

impl Running {
    /// Waits until the command has printed `word PID`; that number.
    #[track_caller]
    pub fn wait_pid(&mut self, word: &str) -> i32 {
        let line = self.wait_line(&format!("{word} "), SOON);
        let pid = line.rsplit(' ').next().and_then(|pid| pid.parse().ok());
        pid.unwrap_or_else(|| panic!("no process id at the end of {line:?}"))
    }

    /// The keeper: dblock's child that is not the command, if there is a command.
    #[track_caller]
    pub fn keeper(&self, command: Option<i32>) -> i32 {
        let others: Vec<i32> = self
            .children()
            .into_iter()
            .filter(|&pid| Some(pid) != command)
            .collect();
        assert_eq!(
            others.len(),
            1,
            "one keeper and the command {command:?} are all: {:?}",
            self.children()
        );
        others[0]
    }
}

/// Sends a signal to a process that must be there.
#[track_caller]
pub fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).expect("the process is there");
}

/// Kills both, and the one that is left has no time to notice it: as when their host loses its power.
#[track_caller]
pub fn kill_both(first: i32, then: i32) {
    send(then, Signal::SIGSTOP);
    for pid in [first, then] {
        send(pid, Signal::SIGKILL);
    }
}

/// Has the system refuse each descriptor from this number on to a process, which can then wait for no more than that many events.
#[track_caller]
pub fn allow_files(pid: i32, most: u32) {
    let limit = format!("--nofile={most}: --pid {pid}");
    let limited = Command::new("prlimit").args(limit.split(' ')).status();
    assert!(limited.unwrap().success());
}

/// Whether a process runs: it is there, and no zombie.
pub fn runs(pid: i32) -> bool {
    !matches!(stat_field(pid, 0).as_deref(), None | Some("Z" | "X"))
}

/// Whether this process waits for events, not for the answer of a server or for a processor.
pub fn polls(pid: i32) -> bool {
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    place.contains("poll")
}

/// A field of `/proc/PID/stat` behind the program's name: 0 is the state, 2 the process group, 3 the session, 13 and 14 the
/// hundredths of a second of processor that its ended children took.
pub fn stat_field(pid: i32, place: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(place).map(str::to_owned)
}

/// Whether a process is stopped, as by Ctrl-Z.
pub fn is_stopped(pid: i32) -> bool {
    stat_field(pid, 0).as_deref() == Some("T")
}

/// The process group of a process.
pub fn group_of(pid: i32) -> Option<i32> {
    stat_field(pid, 2)?.parse().ok()
}

/// Makes a program of these bytes. Another process does the writing: while this one writes, the children of other tests
/// have the file open, too, and a program that is open for writing cannot be run.
#[track_caller]
pub fn write_program(program: &Path, bytes: &[u8]) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(program)
        .stdin(Stdio::piped())
        .spawn()
        .expect("install(1) starts");
    let mut stdin = install.stdin.take().expect("a pipe was asked for");
    stdin.write_all(bytes).expect("it reads");
    drop(stdin);
    assert!(install.wait().expect("it ends").success());
}

/// Makes a copy of a program, by another process as [`write_program`] does.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let mut install = Command::new("install");
    let install = install.args(["-m", "755"]).arg(from.as_ref()).arg(to);
    assert!(install.status().expect("install(1) starts").success());
}

/// Gives a program that everybody may run another name, where that can be on the same disk; else makes a copy that everybody may run.
#[track_caller]
pub fn link_program(from: impl AsRef<Path>, to: &Path) {
    let mode = fs::metadata(from.as_ref())
        .expect("a program")
        .permissions()
        .mode();
    if mode & 0o5 != 0o5 || fs::hard_link(from.as_ref(), to).is_err() {
        copy_program(from, to);
    }
}

/// Whoever opens this file, as to execute it, waits until the value is dropped.
pub struct Hangs(File);

impl Hangs {
    /// Until it is dropped.
    pub fn new(program: &Path) -> Self {
        let file = File::options()
            .read(true)
            .write(true)
            .open(program)
            .unwrap();
        let number = file.as_raw_fd();
        // SAFETY: these calls take numbers. The signal to this process is one that does nothing.
        let leased = unsafe {
            libc::fcntl(number, 10 /* F_SETSIG */, libc::SIGURG);
            libc::fcntl(number, libc::F_SETLEASE, libc::F_WRLCK)
        };
        assert_eq!(leased, 0, "{}", std::io::Error::last_os_error());
        Self(file)
    }

    /// Whether somebody waits to read it.
    pub fn is_waited_for(&self) -> bool {
        // SAFETY: takes numbers.
        let becomes = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_GETLEASE) };
        becomes == libc::F_RDLCK
    }
}

/// Waits until a dblock, which holds its lock, has a process that is to become the command, and has not become it; its number.
#[track_caller]
pub fn eventually_forked(dblock: i32) -> i32 {
    let mut forked = None;
    eventually("the command is about to start", SOON, || {
        forked = children_of(dblock)
            .into_iter()
            .find(|&pid| has_begun(pid) == Some(false));
        forked.is_some()
    });
    forked.expect("it was just seen")
}

/// Whether the process that a dblock has for its command runs the command's program already; `None`: it is gone.
pub fn has_begun(pid: i32) -> Option<bool> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name != "dblock\n")
}

/// A path as a word of a shell script.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// A process that is stopped until this is dropped.
#[derive(Debug)]
pub struct Frozen(Pid);

impl Frozen {
    #[track_caller]
    pub fn new(pid: i32) -> Self {
        send(pid, Signal::SIGSTOP);
        let frozen = Self(Pid::from_raw(pid));
        eventually("it is stopped", SOON, || is_stopped(pid) || !runs(pid));
        frozen
    }

    /// Of one that may have ended meanwhile.
    pub fn of(pid: i32) -> Option<Self> {
        let pid = Pid::from_raw(pid);
        kill(pid, Signal::SIGSTOP).is_ok().then_some(Self(pid))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// A process that hangs until this is dropped, and is not stopped: it does not see what happens, and nothing shows that but its state, `t`.
/// Meanwhile nobody may ask whether it has ended.
#[derive(Debug)]
pub struct Hung {
    pid: i32,
    /// Only the thread that holds it can let it go.
    _of_thread: PhantomData<*const ()>,
}

impl Hung {
    #[track_caller]
    pub fn new(pid: i32) -> Self {
        assert!(
            trace(libc::PTRACE_SEIZE, pid) && trace(libc::PTRACE_INTERRUPT, pid),
            "{}",
            std::io::Error::last_os_error()
        );
        // It is told as an end would be, once.
        let mut status = 0;
        eventually("it hangs", SOON, || {
            // SAFETY: writes a number.
            let told = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::__WALL) };
            told == pid
        });
        assert!(libc::WIFSTOPPED(status), "{status}");
        let hung = Self {
            pid,
            _of_thread: PhantomData,
        };
        assert!(hung.hangs());
        hung
    }

    /// Whether it hangs all the while.
    pub fn hangs(&self) -> bool {
        stat_field(self.pid, 0).as_deref() == Some("t")
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        trace(libc::PTRACE_DETACH, self.pid);
    }
}

/// Whether the system has done that for this thread.
fn trace(request: libc::c_uint, pid: i32) -> bool {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests touch no memory.
    unsafe { libc::ptrace(request, pid, nothing, nothing) == 0 }
}
