//! The program under test: a builder of its command line and environment, and what came of the run.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{PASSWORD, Server, eventually, in_time, schema};

/// No run of any test takes longer.
const DEADLINE: Duration = Duration::from_secs(60);

type Hook = Box<dyn FnMut() -> io::Result<()> + Send + Sync>;

/// A call of dblock that is being put together. The environment has none of dblock's variables but those set here.
pub struct Dblock {
    program: OsString,
    has_own_session: bool,
    wrapper: Vec<OsString>,
    args: Vec<OsString>,
    command: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    stdio: [Option<Stdio>; 3],
    hooks: Vec<Hook>,
}

impl Dblock {
    /// `dblock run --name NAME`, with URL and password of `server` in the environment, and `--durable` where that is meant.
    pub fn run(server: &Server, name: &str) -> Self {
        let run = Self::run_at(&server.url(), name);
        if server.durable {
            run.arg("--durable")
        } else {
            run
        }
    }

    /// `dblock COMMAND`, with URL and password of `server` in the environment.
    pub fn at(server: &Server, command: &str) -> Self {
        Self::bare()
            .arg(command)
            .env("DBLOCK_URL", server.url())
            .env("DBLOCK_PASSWORD", PASSWORD)
    }

    /// As another account, which has the usual password.
    pub fn user(self, account: &str) -> Self {
        self.env("DBLOCK_USER", account)
    }

    /// `dblock run --name NAME`, with this URL and the usual password in the environment.
    pub fn run_at(url: &str, name: &str) -> Self {
        Self::bare()
            .args(["run", "--name", name])
            .env("DBLOCK_URL", url)
            .env("DBLOCK_PASSWORD", PASSWORD)
    }

    /// `dblock`, with no argument, and no option file of this user's; and with one variable: no TLS, whatever the server has,
    /// so that a proxy sees what is said and each session is one connection.
    pub fn bare() -> Self {
        let ours = |name: &OsString| {
            let name = name.to_string_lossy();
            let prefixes = ["DBLOCK_", "MYSQL_", "MARIADB_", "PG"];
            name == "HOME" || prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        let env = std::env::vars_os()
            .map(|(name, _)| name)
            .filter(ours)
            .map(|name| (name, None))
            .chain([("DBLOCK_SSL_MODE".into(), Some("disabled".into()))])
            .collect();
        Self {
            program: env!("CARGO_BIN_EXE_dblock").into(),
            has_own_session: false,
            wrapper: Vec::new(),
            args: Vec::new(),
            command: Vec::new(),
            env,
            stdio: [const { None }; 3],
            hooks: Vec::new(),
        }
    }

    /// Appends an argument, before the command.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().into());
        self
    }

    /// Appends arguments, before the command.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().into()));
        self
    }

    /// Sets a variable of dblock's environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().into(), Some(value.as_ref().into())));
        self
    }

    /// Takes a variable out of dblock's environment.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().into(), None));
        self
    }

    /// The command and its arguments, after `--`.
    pub fn command<A: AsRef<OsStr>>(mut self, command: impl IntoIterator<Item = A>) -> Self {
        self.command = command
            .into_iter()
            .map(|word| word.as_ref().into())
            .collect();
        self
    }

    /// `sh -c SCRIPT` as the command.
    pub fn sh(self, script: &str) -> Self {
        self.command(["sh", "-c", script])
    }

    /// Another dblock than the one that was built with the tests.
    pub fn program(mut self, program: impl AsRef<OsStr>) -> Self {
        self.program = program.as_ref().into();
        self
    }

    /// Puts a program and its arguments in front of dblock, say `unshare --pid --fork`.
    pub fn under<A: AsRef<OsStr>>(mut self, wrapper: impl IntoIterator<Item = A>) -> Self {
        self.wrapper = wrapper
            .into_iter()
            .map(|word| word.as_ref().into())
            .collect();
        self
    }

    /// Standard input; /dev/null without this.
    pub fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdio[0] = Some(stdin.into());
        self
    }

    /// Standard output; recorded without this.
    pub fn stdout(mut self, stdout: impl Into<Stdio>) -> Self {
        self.stdio[1] = Some(stdout.into());
        self
    }

    /// Standard error; recorded without this.
    pub fn stderr(mut self, stderr: impl Into<Stdio>) -> Self {
        self.stdio[2] = Some(stderr.into());
        self
    }

    /// Starts dblock in a session of its own, as cron does: no terminal controls it, also where one controls the tests.
    pub fn without_terminal(mut self) -> Self {
        self.has_own_session = true;
        self
    }

    /// Runs `hook` in the new process just before dblock. It may only call what is safe after a fork.
    pub fn pre_exec(
        mut self,
        hook: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn output(self) -> Output {
        self.spawn().wait()
    }

    /// The name of the schema that `docs` have for what it prints, if that is JSON.
    fn schema(&self) -> Option<String> {
        let is_ours = self.program == env!("CARGO_BIN_EXE_dblock");
        if !is_ours || !self.args.iter().any(|arg| arg == "--json") {
            return None;
        }
        let words: Vec<&str> = self.args.iter().filter_map(|arg| arg.to_str()).collect();
        let length = if ["cron", "queue"].contains(&words[0]) {
            2
        } else {
            1
        };
        Some(words[..length].join("-"))
    }

    /// Starts it.
    pub fn spawn(self) -> Running {
        let schema = self.schema();
        let program = [self.program];
        // A hook would have the whole process of the tests copied for it, with all of their threads and memory.
        let session = self.has_own_session.then(|| "/usr/bin/setsid".into());
        let mut words = session
            .into_iter()
            .chain(self.wrapper)
            .chain(program)
            .chain(self.args);
        let mut command = Command::new(words.next().expect("at least the program"));
        command.args(words);
        if !self.command.is_empty() {
            command.arg("--").args(self.command);
        }
        for (name, value) in self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        for hook in self.hooks {
            // SAFETY: the tests' hooks make only calls that are safe between fork and exec.
            unsafe { command.pre_exec(hook) };
        }
        // Files, not pipes: what was written by the end can be read at the end, whoever else still holds them open.
        let files = [(); 2].map(|()| tempfile::tempfile().expect("a scratch file"));
        let own = |file: &File| Stdio::from(file.try_clone().expect("one more descriptor"));
        let [stdin, stdout, stderr] = self.stdio;
        command.stdin(stdin.unwrap_or_else(Stdio::null));
        command.stdout(stdout.unwrap_or_else(|| own(&files[0])));
        command.stderr(stderr.unwrap_or_else(|| own(&files[1])));
        let started = Instant::now();
        let child = command.spawn().expect("dblock starts");
        let [stdout, stderr] = files;
        Running {
            child,
            stdout,
            stderr,
            started,
            ended: None,
            schema,
        }
    }
}

/// dblock while it runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
    started: Instant,
    ended: Option<(ExitStatus, Duration)>,
    schema: Option<String>,
}

impl Running {
    /// The process id of dblock, or of what was put in front of it.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The children of dblock: the keeper, and the command once it has started.
    pub fn children(&self) -> Vec<i32> {
        children_of(self.pid())
    }

    /// The writing end of stdin, where that is a pipe.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("stdin is a pipe")
    }

    /// What stdout has so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What stderr has so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Waits until a line of stdout contains `text`; the line.
    #[track_caller]
    pub fn wait_line(&mut self, text: &str, deadline: Duration) -> String {
        let find = |stdout: String| {
            let whole = stdout.rfind('\n').map_or(0, |end| end + 1);
            stdout[..whole]
                .lines()
                .find(|line| line.contains(text))
                .map(str::to_owned)
        };
        let mut found = None;
        let came = in_time(deadline, || {
            let over = self.try_wait().is_some();
            found = find(self.stdout());
            found.is_some() || over
        });
        assert!(
            came && found.is_some(),
            "no {text:?} on stdout within {deadline:?}: {}",
            self.seen()
        );
        found.unwrap_or_default()
    }

    /// Waits until stderr contains `text`.
    #[track_caller]
    pub fn wait_stderr(&mut self, text: &str, deadline: Duration) {
        let came = in_time(deadline, || {
            self.stderr().contains(text) || self.try_wait().is_some()
        });
        assert!(
            came && self.stderr().contains(text),
            "no {text:?} on stderr: {}",
            self.seen()
        );
    }

    /// Sends a signal to dblock.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("dblock is there to be signalled");
    }

    /// Whether dblock is still there.
    pub fn is_running(&mut self) -> bool {
        self.try_wait().is_none()
    }

    /// Waits for the end.
    #[track_caller]
    pub fn wait(mut self) -> Output {
        self.wait_within(DEADLINE)
    }

    /// Waits for the end, so long. What it printed with `--json` is as its schema says.
    #[track_caller]
    pub fn wait_within(&mut self, deadline: Duration) -> Output {
        assert!(
            in_time(deadline, || self.try_wait().is_some()),
            "still runs after {deadline:?}: {}",
            self.seen()
        );
        let (status, took) = self.ended.expect("it has just ended");
        let stdout = self.stdout();
        if let Some(name) = self.schema.as_ref().filter(|_| !stdout.is_empty()) {
            schema::follows(&stdout, name);
        }
        Output {
            status,
            code: status.code(),
            signal: status.signal(),
            stdout,
            stderr: self.stderr(),
            took,
        }
    }

    fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            let status = self.child.try_wait().expect("dblock is our child");
            self.ended = status.map(|status| (status, self.started.elapsed()));
        }
        self.ended.map(|(status, _)| status)
    }

    fn seen(&self) -> String {
        let ended = self.ended.map(|(status, _)| status);
        format!(
            "\nended: {ended:?}\nstdout: {}\nstderr: {}",
            self.stdout(),
            self.stderr()
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.try_wait().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A copy of dblock whose command does nothing but hold the lock, until this is dropped.
#[derive(Debug)]
pub struct Held {
    _dblock: Running,
    /// The connection that has the lock.
    pub connection: u64,
}

/// Holds the lock `name` with dblock.
#[track_caller]
pub fn dblock_holds(server: &Server, name: &str) -> Held {
    let mut dblock = Dblock::run(server, name)
        .sh("echo held $DBLOCK_CONNECTION_ID; exec sleep 600")
        .spawn();
    let line = dblock.wait_line("held ", super::SOON);
    let connection = line["held ".len()..].parse().expect("a connection id");
    Held {
        _dblock: dblock,
        connection,
    }
}

/// The processes that have `argument` on their command line, be it dblock's, its keeper's or a command's.
pub fn processes_with(argument: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("a /proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0)
            .any(|word| word == argument.as_bytes())
    };
    pids.filter(has).collect()
}

/// The child processes of a process that has one thread.
pub fn children_of(pid: i32) -> Vec<i32> {
    let list =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Everything a file has, without moving the offset that its writers share.
fn read(file: &File) -> String {
    let length =
        usize::try_from(file.metadata().expect("an open file").len()).expect("a small file");
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)
        .expect("a file that only grows");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How a run ended.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

impl Output {
    /// It exited with `code`.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// It died of `signal`.
    #[track_caller]
    pub fn expect_signal(&self, signal: Signal) -> &Self {
        assert_eq!(self.signal, Some(signal as i32), "{self:#?}");
        self
    }

    /// A line of stderr begins with `start`.
    #[track_caller]
    pub fn expect_line(&self, start: &str) -> &Self {
        assert!(
            self.stderr.lines().any(|line| line.starts_with(start)),
            "no line {start:?}: {self:#?}"
        );
        self
    }

    /// stderr is one line of dblock's, and it contains `part`.
    #[track_caller]
    pub fn expect_one_line(&self, part: &str) -> &Self {
        let one = self.stderr.lines().count() == 1 && self.stderr.ends_with('\n');
        assert!(
            one && self.stderr.starts_with("dblock: "),
            "not one line of dblock's: {self:#?}"
        );
        assert!(
            self.stderr.contains(part),
            "{part:?} is not said: {self:#?}"
        );
        self
    }

    /// stderr has every one of `parts`.
    #[track_caller]
    pub fn expect_said<P: AsRef<str> + Debug>(&self, parts: impl IntoIterator<Item = P>) -> &Self {
        for part in parts {
            assert!(
                self.stderr.contains(part.as_ref()),
                "{part:?} is not said: {self:#?}"
            );
        }
        self
    }

    /// Nothing on stderr.
    #[track_caller]
    pub fn expect_silence(&self) -> &Self {
        assert_eq!(self.stderr, "", "{self:#?}");
        self
    }

    /// What it printed with `--json`.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// What the command wrote.
    #[track_caller]
    pub fn expect_stdout(&self, stdout: &str) -> &Self {
        assert_eq!(self.stdout, stdout, "{self:#?}");
        self
    }

    /// It took at least and at most so long.
    #[track_caller]
    pub fn expect_took(&self, least: Duration, most: Duration) -> &Self {
        assert!(
            least <= self.took && self.took <= most,
            "not within {least:?} to {most:?}: {self:#?}"
        );
        self
    }
}

/// Waits until no process of this id is there (a zombie of ours counts as gone).
#[track_caller]
pub fn eventually_gone(pid: i32, deadline: Duration) {
    eventually(&format!("process {pid} is gone"), deadline, || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.is_empty() || status.contains("State:\tZ")
    });
}

/// It runs a command and ends well, and without a word.
#[track_caller]
pub fn works(dblock: Dblock) {
    dblock
        .sh("echo ran")
        .output()
        .expect_code(0)
        .expect_stdout("ran\n")
        .expect_silence();
}
