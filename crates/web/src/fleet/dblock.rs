//! Runs a dblock: its arguments as they are, never through a shell, and never for longer than its limit.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::base::exit::{Failure, Reason};
use crate::base::text::{for_shell, in_words};
use crate::base::{locked, say};
use crate::cli;

/// The longest that a dblock may take to answer. It gives up by itself earlier, unless it is told to connect for longer.
pub const LIMIT: Duration = Duration::from_secs(15);

/// How long the end of one that was killed is waited for. The kernel may not end it, as while a disk hangs.
const OF_A_KILL: Duration = Duration::from_secs(1);

/// How many there are at once, with those that have not ended though they were killed: several times as many as are ever asked at once.
const AT_ONCE: usize = 16;

/// The longest answer that is read: some ten thousand runs.
const LARGEST: u64 = 8 * 1024 * 1024;

/// The most of stderr that is kept, and of a line of it that is shown.
const LARGEST_ERROR: usize = 64 * 1024;
const LONGEST_LINE: usize = 500;

/// How many different warnings are remembered.
const WARNINGS: usize = 100;

const CONNECT_TIMEOUT: &str = "connect-timeout";

/// `EX_USAGE`: what is asked for cannot be.
const USAGE: i32 = 64;

/// `EX_UNAVAILABLE`: no server in time.
const UNREACHABLE: i32 = 69;

/// What is asked of a dblock, or done by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Words {
    /// The subcommand and its options.
    pub options: Vec<String>,
    /// What it is about: names, which may look like options.
    pub names: Vec<String>,
}

impl Words {
    /// These options, and no name.
    pub fn of<const N: usize>(options: [&str; N]) -> Self {
        Self {
            options: options.map(str::to_owned).into(),
            names: Vec::new(),
        }
    }

    /// The same about this one, too.
    pub fn about(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// The same with an option and its value.
    pub fn with(mut self, option: &str, value: &str) -> Self {
        self.options.push(format!("{option}={value}"));
        self
    }

    /// As a person would type it, without the options of the connection.
    pub fn line(&self) -> String {
        let behind = if self.names.is_empty() {
            &[][..]
        } else {
            &["--".to_owned()]
        };
        let words = self.options.iter().chain(behind).chain(&self.names);
        words.fold("dblock".to_owned(), |line, word| {
            format!("{line} {}", for_shell(word))
        })
    }
}

/// How a dblock ended.
#[derive(Debug)]
pub struct Ended {
    /// When, by this host's clock.
    pub at: Timestamp,
    /// When it was started: what it answers may be as old.
    pub asked: Timestamp,
    /// None: it was ended by a signal, or could not be started.
    pub code: Option<i32>,
    /// Whether it was killed at its limit, or not started because too many that were have not ended.
    pub is_late: bool,
    /// Whether it answered more than is read.
    pub is_too_long: bool,
    /// Whether no server answers: it is of no use to ask the next thing now.
    pub is_away: bool,
    /// What it wrote to stdout.
    pub answer: Vec<u8>,
    /// The last line of stderr, without `dblock: `, or all lines of one that was to do something; without one, what became of it if it
    /// failed, and else nothing.
    pub line: String,
}

impl Ended {
    /// Whether it was done.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Whether it says that this argument cannot be: nothing has such a name or number.
    pub fn refuses(&self, argument: &str) -> bool {
        let rest = self.line.strip_prefix(argument);
        self.code == Some(USAGE) && rest.is_some_and(|rest| rest.starts_with(": "))
    }

    /// What it answered.
    ///
    /// # Errors
    /// The line of one that failed, or that its answer is none.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        if !self.is_success() {
            return Err(self.line.clone());
        }
        serde_json::from_slice(&self.answer)
            .map_err(|error| format!("dblock's answer is not understood: {error}"))
    }

    /// As if one had ended so.
    #[cfg(test)]
    pub fn of_test(code: i32, answer: &str) -> Self {
        Self {
            code: Some(code),
            is_away: code == UNREACHABLE,
            answer: answer.into(),
            ..Self::failed(String::new())
        }
    }

    fn failed(line: String) -> Self {
        let at = Timestamp::now();
        Self {
            at,
            asked: at,
            code: None,
            is_late: false,
            is_too_long: false,
            is_away: false,
            answer: Vec::new(),
            line,
        }
    }
}

/// The program, and how it reaches the server.
#[derive(Debug)]
pub struct Dblock {
    program: PathBuf,
    handed_on: Vec<OsString>,
    /// How long it may take to connect.
    pub connect_timeout: Duration,
    warnings: Warnings,
    turns: Arc<Semaphore>,
}

impl Dblock {
    /// The one that is named, else the one beside this program, else that in `PATH`.
    ///
    /// # Errors
    /// It cannot be run, or does not understand the options that are handed on.
    pub async fn find(named: Option<PathBuf>, handed_on: Vec<OsString>) -> Result<Self, Failure> {
        let beside = env::current_exe().map(|own| own.with_file_name("dblock"));
        let beside = beside.ok().filter(|path| path.exists());
        let program = named.or(beside).unwrap_or_else(|| "dblock".into());
        let mut dblock = Self {
            program,
            handed_on,
            connect_timeout: Duration::ZERO,
            warnings: Warnings::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        };
        let words = Words::of(["config", "--json"]);
        let mut check = dblock.command(&words, None);
        match check.output().await {
            Err(error) => {
                let line = if error.kind() == io::ErrorKind::NotFound {
                    let program = dblock.program.display();
                    format!("there is no {program} to run: --dblock names it")
                } else {
                    dblock.cannot_run(&error)
                };
                Err(Failure::new(Reason::NotFound, line))
            }
            Ok(output) if output.status.success() => {
                dblock.connect_timeout = connect_timeout(&output.stdout);
                dblock.pass_on(&words, &output.stderr);
                Ok(dblock)
            }
            Ok(output) => {
                let code = output
                    .status
                    .code()
                    .and_then(|code| u8::try_from(code).ok());
                let line = last_line(&output.stderr).unwrap_or_else(|| shown(output.status));
                let line = match output.status.code() {
                    Some(USAGE) => about_handed_on(&line),
                    _ => line,
                };
                Err(Failure::new(code.map_or(Reason::Internal, reason_of), line))
            }
        }
    }

    /// Asks it for something, for at most `limit`: it ends with this program.
    pub async fn ask(&self, words: &Words, limit: Duration) -> Ended {
        self.run(words, None, limit).await
    }

    /// Has it do something, for at most `limit`, and say that it is done by way of `via`. It goes on when this program ends.
    pub async fn act(&self, words: &Words, via: &str, limit: Duration) -> Ended {
        self.run(words, Some(via), limit).await
    }

    async fn run(&self, words: &Words, via: Option<&str>, limit: Duration) -> Ended {
        let mut all = words.options.iter().chain(&words.names);
        if all.any(|word| word.contains('\0')) {
            return Ended::failed("nothing has a NUL character in its name".to_owned());
        }
        let Ok(turn) = self.turns.clone().try_acquire_owned() else {
            let line = "too many dblocks were killed, and have not ended: no more are started";
            return Ended {
                is_late: true,
                ..Ended::failed(line.to_owned())
            };
        };
        let asked = Timestamp::now();
        let mut command = self.command(words, via);
        let mut child = match command.process_group(0).spawn() {
            Ok(child) => child,
            Err(error) => return Ended::failed(self.cannot_run(&error)),
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut started = Started {
            running: Some((child, turn)),
            is_left_alone: via.is_some(),
        };
        let whole = async {
            let read = tokio::join!(all_of(stdout, LARGEST), last_of(stderr, LARGEST_ERROR));
            (read, started.end().await)
        };
        let ended = timeout(limit, whole).await;
        let Ok(((answer, said), status)) = ended else {
            started.is_left_alone = false;
            if let Some(end) = started.kill() {
                let _ = timeout(OF_A_KILL, end).await;
            }
            let limit = humantime::format_duration(limit);
            let line = format!("{} took longer than {limit}, and was killed", words.line());
            return Ended {
                is_late: true,
                ..Ended::failed(line)
            };
        };
        let Ok(status) = status else {
            return Ended::failed("its end is not known".to_owned());
        };
        if status.success() {
            self.pass_on(words, &said);
        }
        // Of several jobs each may have a line.
        let line = if via.is_some() {
            all_lines(&said)
        } else {
            last_line(&said)
        };
        let line = match line {
            Some(line) => line,
            None if status.success() => String::new(),
            None => shown(status),
        };
        match answer {
            Ok(answer) => Ended {
                at: Timestamp::now(),
                asked,
                code: status.code(),
                is_late: false,
                is_too_long: false,
                is_away: status.code() == Some(UNREACHABLE),
                answer,
                line,
            },
            Err(error) => {
                let why = in_words(&error);
                let line = format!("cannot read the answer of {}: {why}", words.line());
                Ended {
                    is_too_long: error.kind() == io::ErrorKind::FileTooLarge,
                    ..Ended::failed(line)
                }
            }
        }
    }

    /// Says what one that was done has warned of: no page does but that of an action. It may say the same each few seconds, which is said
    /// once.
    fn pass_on(&self, words: &Words, said: &[u8]) {
        let options = words.options.iter().map(String::as_str);
        let command: Vec<_> = options.take_while(|word| !word.starts_with('-')).collect();
        for line in self.warnings.new_of(said) {
            say(&format!("dblock {} says: {line}", command.join(" ")));
        }
    }

    fn cannot_run(&self, error: &io::Error) -> String {
        format!("cannot run {}: {}", self.program.display(), in_words(error))
    }

    fn command(&self, words: &Words, via: Option<&str>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&words.options).args(&self.handed_on);
        if !words.names.is_empty() {
            command.arg("--").args(&words.names);
        }
        command
            .env_remove("DBLOCK_VIA")
            .envs(via.map(|via| ("DBLOCK_VIA", via)));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// The lines that were passed on, the latest last.
#[derive(Debug, Default)]
struct Warnings(Mutex<VecDeque<String>>);

impl Warnings {
    /// Those of these lines that were not among them; they are from now on.
    fn new_of(&self, said: &[u8]) -> Vec<String> {
        let said = String::from_utf8_lossy(said);
        let mut known = locked(&self.0);
        let mut new = Vec::new();
        for line in lines(&said) {
            if known.contains(&line) {
                continue;
            }
            known.push_back(line.clone());
            new.push(line);
            if known.len() > WARNINGS {
                known.pop_front();
            }
        }
        new
    }
}

/// The line about options that are handed on. dblock's own names the command that found it out, which nobody has typed.
fn about_handed_on(line: &str) -> String {
    let why = line.split("; see dblock").next().unwrap_or_default();
    format!("the options of each dblock that it runs: {why}; see dblock web --help")
}

/// The reason that has this exit code.
fn reason_of(code: u8) -> Reason {
    let of_settings = [Reason::Usage, Reason::Configuration, Reason::OsRefused];
    of_settings
        .into_iter()
        .find(|reason| reason.code() == code)
        .unwrap_or(Reason::Internal)
}

async fn all_of(stream: Option<impl AsyncRead + Unpin>, largest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(largest + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > largest {
        let line = format!("it is larger than {largest} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, line));
    }
    Ok(bytes)
}

/// The last of what is written, `most` bytes of whole lines. All of it is read: whoever writes can go on to the end.
async fn last_of(stream: Option<impl AsyncRead + Unpin>, most: usize) -> Vec<u8> {
    let mut last = Vec::new();
    let Some(mut stream) = stream else {
        return last;
    };
    let mut is_cut = false;
    while let Ok(1..) = stream.read_buf(&mut last).await {
        if last.len() > most {
            is_cut = true;
            last.drain(..last.len() - most);
        }
    }
    // Of the first line only the end is left. If nothing comes behind it, that is shown.
    let end = last.iter().position(|&byte| byte == b'\n');
    if is_cut && let Some(end) = end.filter(|end| end + 1 < last.len()) {
        last.drain(..=end);
    }
    last
}

/// A dblock that was started. It is killed with its process group when nobody waits for it any more, and counts as one until it has ended.
struct Started {
    /// None: it has ended, and what it left behind goes on, as its own children do.
    running: Option<(Child, OwnedSemaphorePermit)>,
    /// It is not killed.
    is_left_alone: bool,
}

impl Started {
    /// How it ended, when it has.
    async fn end(&mut self) -> io::Result<ExitStatus> {
        let (child, _) = self.running.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let status = child.wait().await;
        self.running = None;
        status
    }

    /// Kills it, unless it is left alone or has ended; what is returned waits for its end.
    fn kill(&mut self) -> Option<JoinHandle<()>> {
        let (mut child, turn) = self.running.take()?;
        let leader = child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(leader) = leader.filter(|_| !self.is_left_alone) {
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
        // Without the runtime this program ends.
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            let _ = child.wait().await;
            drop(turn);
        }))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The connect timeout in what `dblock config --json` says, or else the default.
fn connect_timeout(config: &[u8]) -> Duration {
    let config: Value = serde_json::from_slice(config).unwrap_or_default();
    let mut settings = config["settings"].as_array().into_iter().flatten();
    let own = settings.find(|row| row["setting"] == CONNECT_TIMEOUT);
    let default = cli::setting(CONNECT_TIMEOUT).and_then(|setting| setting.default);
    let parse = |text: &str| {
        let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
        seconds.map_or_else(|| humantime::parse_duration(text).ok(), Result::ok)
    };
    let own = own.and_then(|row| parse(row["value"].as_str()?));
    own.or_else(|| parse(default?)).unwrap_or_default()
}

/// The lines of stderr, without `dblock: `.
fn lines(said: &str) -> impl DoubleEndedIterator<Item = String> {
    let lines = said.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).map(|line| {
        let line = line.strip_prefix("dblock: ").unwrap_or(line);
        line.chars().take(LONGEST_LINE).collect::<String>()
    })
}

fn last_line(said: &[u8]) -> Option<String> {
    lines(&String::from_utf8_lossy(said)).next_back()
}

fn all_lines(said: &[u8]) -> Option<String> {
    let said = String::from_utf8_lossy(said);
    let all: Vec<String> = lines(&said).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

fn shown(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it ended with {code}"),
        None => "it was ended by a signal".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::kill;
    use tokio::runtime::{self, Runtime};
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn of_many_warnings_each_is_new_once_and_the_oldest_are_forgotten() {
        let warnings = Warnings::default();
        let new = |said: &str| warnings.new_of(said.as_bytes());
        assert_eq!(new("dblock: a\n\ndblock: b\ndblock: a\n"), ["a", "b"]);
        assert_eq!(new("dblock: b\nc\n"), ["c"]);
        for number in 0..1000 {
            assert_eq!(new(&format!("warning {number}\n")).len(), 1);
        }
        assert_eq!(locked(&warnings.0).len(), WARNINGS);
        assert_eq!(new("a\nwarning 999\n"), ["a"]);
    }

    /// This program in the place of dblock, of which there is one at once, and what asks it.
    fn program(name: &str) -> (Dblock, Runtime) {
        let dblock = Dblock {
            program: name.into(),
            handed_on: Vec::new(),
            connect_timeout: Duration::ZERO,
            warnings: Warnings::default(),
            turns: Arc::new(Semaphore::new(1)),
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        (dblock, runtime.unwrap())
    }

    #[test]
    fn one_that_nobody_waits_for_counts_until_it_has_ended() {
        let (dblock, runtime) = program("sh");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("echo $$ >'{}'; exec sleep 60", file.display());
        runtime.block_on(async {
            let words = Words::of(["-c", &script]);
            let begun = async {
                loop {
                    let text = std::fs::read_to_string(&file).unwrap_or_default();
                    if let Some(pid) = text.strip_suffix('\n') {
                        return Pid::from_raw(pid.parse().unwrap());
                    }
                    sleep(Duration::from_millis(10)).await;
                }
            };
            let pid = tokio::select! {
                ended = dblock.ask(&words, LIMIT) => panic!("{ended:?}"),
                pid = begun => pid,
            };
            assert_eq!(dblock.turns.available_permits(), 0);
            let next = timeout(LIMIT, dblock.turns.acquire()).await;
            assert!(next.is_ok(), "it was killed");
            assert!(kill(pid, None).is_err(), "it is reaped");
        });
    }

    #[test]
    fn a_long_stderr_is_read_to_its_end_and_its_last_lines_are_kept() {
        let (dblock, runtime) = program("sh");
        let line = |script: &str| {
            let words = Words::of(["-c", script]);
            let ended = runtime.block_on(dblock.act(&words, "test", LIMIT));
            assert_eq!(ended.code, Some(9));
            ended.line
        };
        let many = line("yes | head -c 300000 >&2; echo last >&2; exit 9");
        assert!(many.ends_with("y\nlast"), "{}", many.len());
        assert!((LARGEST_ERROR - 10..LARGEST_ERROR).contains(&many.len()));
        let one = line("yes | head -c 300000 | tr -d '\\n' >&2; echo >&2; exit 9");
        assert_eq!(one, "y".repeat(LONGEST_LINE));
    }

    #[test]
    fn while_too_many_have_not_ended_no_more_are_started() {
        let (dblock, runtime) = program("true");
        let ask = || runtime.block_on(dblock.ask(&Words::of(["status"]), LIMIT));
        for _ in 0..2 {
            let ended = ask();
            assert!(ended.is_success(), "{ended:?}");
        }
        let _turn = dblock.turns.clone().try_acquire_owned().unwrap();
        let ended = ask();
        assert!(ended.is_late && ended.line.contains("have not ended"));
    }

    #[test]
    fn the_connect_timeout_is_that_of_the_configuration() {
        let of = |value: &str| {
            let config = format!(
                r#"{{"settings":[{{"setting":"host","value":"x"}},{{"setting":"connect-timeout","value":{value}}}]}}"#
            );
            connect_timeout(config.as_bytes()).as_millis()
        };
        assert_eq!(
            [of("\"1m 30s\""), of("\"2.5\""), of("null")],
            [90_000, 2_500, 10_000]
        );
        assert_eq!(connect_timeout(b"").as_secs(), 10);
    }
}
