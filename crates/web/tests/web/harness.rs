//! A dblock-web, a dblock that it runs, and a client that sends exactly what it is told.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// How long anything may take, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a browser says of a form.
pub const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// Answers by files, and writes down what it is asked: a line for each call, with a unit separator behind each argument. It is written in
/// one piece, as several may be at it at once. One that hangs does so until the folder is gone.
const DBLOCK: &str = r#"#!/bin/sh
folder=$(dirname "$0")
printf '%s\n' "$(printf '%s\037' "VIA=$DBLOCK_VIA" "$@")" >>"$folder/calls"
if [ -e "$folder/warn" ]; then cat "$folder/warn" >&2; fi
if [ "$1" = config ] && [ -e "$folder/misused" ]; then cat "$folder/misused" >&2; exit 64; fi
if [ "$1" = config ]; then if [ -e "$folder/unfit" ]; then cat "$folder/unfit" >&2; exit 78; fi; exit 0; fi
hang() { while [ -e "$0" ]; do sleep 0.1; done; exit 1; }
if [ -e "$folder/hang" ]; then echo $$ >>"$folder/hanging"; hang; fi
if [ -e "$folder/hang-$1" ]; then hang; fi
if [ -e "$folder/away" ]; then cat "$folder/away" >&2; exit 69; fi
case $1 in
status) answer=status ;;
history) answer=history; [ "$5" != -- ] && [ "$4" != -- ] || [ ! -e "$folder/history-of-a-name.json" ] || answer=history-of-a-name
case $* in *' --run='*) [ ! -e "$folder/history-of-a-run.json" ] || answer=history-of-a-run ;; esac
[ "$3" != --failed ] || [ ! -e "$folder/history-failed.json" ] || answer=history-failed
[ ! -e "$folder/wrong" ] || case $* in *' -- '* | *--run=*) cat "$folder/wrong" >&2; exit 64 ;; esac ;;
output) cat "$folder/output" && exit 0; echo 'dblock: no output is kept' >&2; exit 75 ;;
*) answer=$1-$2 ;;
esac
if [ -e "$folder/$answer.json" ]; then cat "$folder/$answer.json"; exit 0; fi
if [ -e "$folder/refuse" ]; then cat "$folder/refuse" >&2; exit 78; fi
if [ -e "$folder/slow" ]; then echo begin >>"$folder/slow"; sleep 0.2; while [ -e "$folder/hold" ]; do sleep 0.05; done; echo end >>"$folder/slow"; fi
echo "done: $1 $2"
"#;

const EMPTY: [(&str, &str); 4] = [
    (
        "status",
        r#"{"server":"db1:3306","locks":[],"not_visible":[]}"#,
    ),
    (
        "cron-list",
        r#"{"server":"db1:3306","now":"2026-11-26T12:00:00.000Z","jobs":[],"daemons":[]}"#,
    ),
    ("queue-status", r#"{"server":"db1:3306","queues":[]}"#),
    (
        "history",
        r#"{"server":"db1:3306","cursor":null,"runs":[]}"#,
    ),
];

/// A folder with a dblock that answers that there is nothing.
pub struct Fleet(TempDir);

/// What starts the tests may have them ignore SIGHUP, as nohup does, and everything that they start with them.
#[used]
#[unsafe(link_section = ".init_array")]
static HEED_HANGUP: extern "C" fn() = heed_hangup;

extern "C" fn heed_hangup() {
    // SAFETY: sets the default disposition, before `main` and its threads.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
}

impl Fleet {
    /// A new one.
    pub fn new() -> Self {
        let fleet = Self(tempfile::tempdir().unwrap());
        // By another process: what this one is writing would be open in a process that another test is just starting, and the kernel
        // executes no such file.
        fs::write(fleet.path("new"), DBLOCK).unwrap();
        let install = Command::new("install")
            .args(["-m", "755"])
            .args(["new", "dblock"].map(|name| fleet.path(name)))
            .status();
        assert!(install.unwrap().success());
        for (question, answer) in EMPTY {
            fleet.answers(question, answer);
        }
        fleet
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What it answers to `status`, `cron-list`, `queue-status`, `queue-list` or `history` from now on: all of it at once.
    pub fn answers(&self, question: &str, answer: &str) {
        self.write(&format!("{question}.json"), answer);
    }

    /// Writes a file in the folder, in one step.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path(name)).unwrap();
    }

    /// Removes one.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// What it was asked so far: the arguments of each call, the first of which is `VIA=` and the variable.
    pub fn calls(&self) -> Vec<Vec<String>> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let words = |line: &str| line.split_terminator('\u{1f}').map(str::to_owned).collect();
        // What is being written is no line yet.
        let whole = calls.rfind('\n').map_or(0, |end| end + 1);
        calls[..whole].lines().map(words).collect()
    }

    /// How often it was asked something that begins so.
    pub fn asked(&self, words: &[&str]) -> usize {
        let calls = self.calls().into_iter();
        let begins = |call: &Vec<String>| {
            call.get(1..=words.len())
                .is_some_and(|first| first == words)
        };
        calls.filter(begins).count()
    }

    /// A dblock-web for it, with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program(&["--dblock"]);
        command.arg(self.path("dblock")).args(args);
        command
    }

    /// Starts it on a free port.
    pub fn serve(&self, args: &[&str]) -> Web {
        self.start(&[&["--listen", "127.0.0.1:0"], args].concat())
    }

    /// Starts it.
    pub fn start(&self, args: &[&str]) -> Web {
        Web::start(&mut self.command(args))
    }
}

impl Web {
    /// Starts this command of [`Fleet::command`].
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(
            !line.is_empty(),
            "{command:?}: {}",
            rest_of_stderr(&mut child)
        );
        Self {
            child,
            url: line.trim().to_owned(),
            cookie: String::new(),
        }
    }
}

/// A dblock-web with these arguments.
pub fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dblock-web"));
    command
        .args(args)
        .env_remove("DBLOCK_VIA")
        .stdin(Stdio::null());
    command
}

/// A dblock-web that runs; killed at the end.
pub struct Web {
    child: Child,
    /// Its first line.
    pub url: String,
    /// What is sent with each request.
    pub cookie: String,
}

impl Web {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.url_parts().0.parse().unwrap()
    }

    /// What is behind the host in its URL.
    pub fn first_path(&self) -> &str {
        self.url_parts().1
    }

    fn url_parts(&self) -> (&str, &str) {
        let (_, behind) = self.url.split_once("//").unwrap();
        behind.split_at(behind.find('/').unwrap())
    }

    /// Opens the URL as a browser does, and keeps the cookie.
    pub fn enter(mut self) -> Self {
        let first = self.get(self.first_path());
        self.keep_cookie(first);
        self
    }

    /// Keeps the cookie of an answer that lets in; returns where that leads.
    pub fn keep_cookie(&mut self, answer: Response) -> String {
        let answer = answer.expect(303);
        let cookie = answer.header("set-cookie").expect("a cookie");
        cookie
            .split(';')
            .next()
            .unwrap()
            .clone_into(&mut self.cookie);
        answer.header("location").unwrap().to_owned()
    }

    /// Its end by this signal: the exit code, and what it said on stderr.
    pub fn end(mut self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        until("its end", || self.child.try_wait().unwrap().is_some());
        let said = rest_of_stderr(&mut self.child);
        (self.child.wait().unwrap().code(), said)
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Reads no more of what it says on stderr.
    pub fn close_stderr(&mut self) {
        drop(self.child.stderr.take());
    }

    /// The next line that it says on stderr.
    pub fn says(&mut self) -> String {
        let stderr = self.child.stderr.as_mut().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while stderr.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.extend(byte);
        }
        String::from_utf8(line).unwrap()
    }

    /// A connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends exactly this, and reads until it closes.
    pub fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // It may have answered and closed before it has read everything.
        let _ = stream.write_all(bytes);
        read_all(&mut stream)
    }

    /// `GET`, with the cookie.
    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], "")
    }

    /// Waits until a page has this, or has it no more.
    #[track_caller]
    pub fn until_shows(&self, path: &str, text: &str, is_shown: bool) {
        until(text, || {
            self.get(path).expect(200).body.contains(text) == is_shown
        });
    }

    /// Waits until the fleet has answered all that it is asked at first: a page waits for that for a second only.
    #[track_caller]
    pub fn until_all_is_known(&self) {
        until("all is known", || self.get("/queues/none").status == 404);
    }

    /// A form of one of its own pages.
    pub fn post(&self, path: &str, form: &str) -> Response {
        Response::of(&self.raw(self.form(path, form).as_bytes()))
    }

    /// The text of such a request.
    pub fn form(&self, path: &str, form: &str) -> String {
        let origin = format!("http://{}", self.address());
        self.request("POST", path, &[("Origin", &*origin), FORM], form)
    }

    /// One request of a client that knows what it does. A header that is given replaces the one of this name.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let text = self.request(method, path, headers, body);
        Response::of(&self.raw(text.as_bytes()))
    }

    /// The text of it.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let host = self.address().to_string();
        let length = body.len().to_string();
        let own = [
            ("Host", &*host),
            ("Cookie", &*self.cookie),
            ("Connection", "close"),
            ("Content-Length", &*length),
        ];
        let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in own
            .iter()
            .filter(|(name, _)| !is_given(name))
            .chain(headers)
        {
            if !value.is_empty() {
                let _ = write!(text, "{name}: {value}\r\n");
            }
        }
        text + "\r\n" + body
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn rest_of_stderr(child: &mut Child) -> String {
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    said
}

/// Reads until the other side closes.
pub fn read_all(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return bytes,
            Ok(read) => bytes.extend(&part[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return bytes,
            // The tests were stopped for a moment.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&bytes)),
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    /// What was received; status 0: nothing.
    pub fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok())
            .unwrap_or_default();
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status,
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect(),
            body: body.to_owned(),
        }
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Fails unless it is this.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Fails unless the body has this.
    #[track_caller]
    pub fn has(self, text: &str) -> Self {
        assert!(self.body.contains(text), "no {text:?} in {self:?}");
        self
    }

    /// Fails if the body has this.
    #[track_caller]
    pub fn lacks(self, text: &str) -> Self {
        assert!(!self.body.contains(text), "{text:?} is in {self:?}");
        self
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Runs a command to its end.
pub fn output(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Writes a file that only this user can read.
pub fn private(path: &Path, text: &str) -> String {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}
