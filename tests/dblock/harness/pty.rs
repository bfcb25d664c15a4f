//! An interactive shell with job control, on a new pseudo-terminal.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::{Pid, setsid};

use super::{PASSWORD, SOON, Server, in_time, missing, stat_field, unique, within};

/// Ctrl-C.
pub const INTERRUPT: &str = "\x03";
/// Ctrl-\.
pub const QUIT: &str = "\x1c";
/// Ctrl-S.
pub const STOP: &str = "\x13";
/// Ctrl-Z.
pub const SUSPEND: &str = "\x1a";

/// A shell. Its user types without seeing it: the terminal echoes nothing, so all that is read was written by a program.
#[derive(Debug)]
pub struct Shell {
    terminal: File,
    child: Child,
    read: String,
    /// How much of what was read has been looked for and found.
    found: usize,
    /// The lock of this shell: `$name` in what is typed.
    pub name: String,
}

/// PATH, with the program under test in front.
pub fn path_with_dblock() -> OsString {
    let folder = Path::new(env!("CARGO_BIN_EXE_dblock")).parent();
    let mut path = folder.expect("it lies in a folder").as_os_str().to_owned();
    let rest = std::env::var_os("PATH");
    path.push(":");
    path.push(rest.as_deref().unwrap_or(OsStr::new("/usr/bin:/bin")));
    path
}

impl Shell {
    /// Starts `bash -i`, in which `dblock` is the program under test, `$name` a lock name, and the server named.
    pub fn start(server: &Server) -> Self {
        let name = unique("terminal");
        let mut bash = Command::new("bash");
        bash.args(["--norc", "--noprofile", "--noediting", "-i"])
            .env("name", &name)
            .envs([
                ("DBLOCK_URL", server.url().as_str()),
                ("DBLOCK_PASSWORD", PASSWORD),
            ]);
        Self::of(bash, name)
    }

    /// Starts this shell, in which `dblock` is the program under test.
    pub fn of(mut shell: Command, name: String) -> Self {
        // Nobody else may inherit an end: the terminal would not hang up when this one is closed.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).expect("a pseudo-terminal");
        grantpt(&master)
            .and_then(|()| unlockpt(&master))
            .expect("it can be used");
        let path = ptsname_r(&master).expect("it has a name");
        let slave = open(path.as_str(), flags, Mode::empty()).expect("it can be opened");
        let mut mode = tcgetattr(&slave).expect("a terminal has a mode");
        mode.local_flags
            .remove(LocalFlags::ECHO | LocalFlags::ECHOCTL);
        // Ctrl-C must not throw away what a quick command has already answered to it.
        mode.local_flags.insert(LocalFlags::NOFLSH);
        tcsetattr(&slave, SetArg::TCSANOW, &mode).expect("a terminal takes a mode");
        shell
            .envs([
                ("PS1", "> "),
                ("TERM", "dumb"),
                ("LC_ALL", "C"),
                ("HISTFILE", ""),
            ])
            .env("PATH", path_with_dblock())
            .stdin(slave.try_clone().expect("one more descriptor"))
            .stdout(slave.try_clone().expect("one more descriptor"))
            .stderr(slave);
        let control = || {
            setsid()?;
            // SAFETY: makes the terminal on stdin the controlling one of the new session.
            match unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: only system calls are made between fork and exec.
        unsafe { shell.pre_exec(control) };
        let program = shell.get_program().to_owned();
        let child = shell.spawn();
        let child = child.unwrap_or_else(|error| missing(&program.to_string_lossy(), &error));
        fcntl(&master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .expect("a terminal can be non-blocking");
        let mut started = Self {
            terminal: OwnedFd::from(master).into(),
            child,
            read: String::new(),
            found: 0,
            name,
        };
        started.wait_for("> ");
        started
    }

    /// Types a line, or a key if it is one of the constants above.
    #[track_caller]
    pub fn enter(&mut self, line: &str) {
        let end = if line.starts_with(|first: char| first.is_control()) {
            ""
        } else {
            "\n"
        };
        self.terminal
            .write_all(format!("{line}{end}").as_bytes())
            .expect("the terminal takes what is typed");
    }

    /// Types the line `dblock run --name "$name" …`.
    #[track_caller]
    pub fn dblock(&mut self, rest: &str) {
        self.enter(&format!("dblock run --name \"$name\" {rest}"));
    }

    /// Waits until `text` is on the terminal, after what was found before; the rest of its line.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let came = in_time(SOON, || {
            let found = self.found;
            let new = &self.all()[found..];
            new.find(text)
                .is_some_and(|at| new[at..].contains('\n') || text == "> ")
        });
        assert!(
            came,
            "no {text:?} after byte {} of what the terminal showed:\n{}",
            self.found, self.read
        );
        let start =
            self.found + self.read[self.found..].find(text).unwrap_or_default() + text.len();
        let rest = self.read[start..]
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        self.found = start;
        rest
    }

    /// Waits for `word PID`; that number.
    #[track_caller]
    pub fn wait_pid(&mut self, word: &str) -> i32 {
        let rest = self.wait_for(&format!("{word} "));
        rest.trim()
            .parse()
            .unwrap_or_else(|_| panic!("no process id after {word:?}:\n{}", self.read))
    }

    /// Waits until the job in the foreground has ended, with this code as the shell sees it.
    #[track_caller]
    pub fn expect_code(&mut self, code: i32) {
        self.enter("echo \"code $?.\"");
        let seen = self.wait_for("code ");
        assert_eq!(
            seen.trim(),
            format!("{code}."),
            "the terminal showed:\n{}",
            self.read
        );
    }

    /// Everything that the terminal has shown.
    pub fn all(&mut self) -> &str {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = self.terminal.read(&mut bytes) {
            self.read
                .push_str(&String::from_utf8_lossy(&bytes[..length]).replace('\r', ""));
        }
        &self.read
    }

    /// Gives the terminal another size, as a window that is resized does.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = libc::winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: this request reads such a structure.
        let set =
            unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(set, 0, "a terminal takes a size");
    }

    /// Closes the terminal, and signals nobody: that is the kernel's part.
    pub fn hang_up(&mut self) {
        self.terminal = File::open("/dev/null").expect("it is always there");
    }

    /// The shell's own process.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The shell passes this on to its jobs, stopped ones too.
        let session = self.pid();
        let _ = kill(Pid::from_raw(session), Signal::SIGHUP);
        within(Duration::from_secs(2), || {
            !matches!(self.child.try_wait(), Ok(None))
        });
        let _ = (self.child.kill(), self.child.wait());
        // What took no notice of it.
        let processes = std::fs::read_dir("/proc")
            .expect("/proc is mounted")
            .flatten();
        for pid in processes.filter_map(|process| process.file_name().to_str()?.parse().ok()) {
            if stat_field(pid, 3).is_some_and(|of| of == session.to_string()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}
