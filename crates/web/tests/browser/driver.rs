//! A browser, driven as W3C `WebDriver` says: a few JSON messages over HTTP to the chromedriver that comes with chromium.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What it says of a request that was under way when the machine's network changed, as other tests change it. A page that refreshes itself
/// asks again.
const NETWORK_CHANGED: &str = "net::ERR_NETWORK_CHANGED";

/// The keys that have no letter.
pub const TAB: char = '\u{e004}';
/// Enter.
pub const ENTER: char = '\u{e007}';

/// A browser with one window. It ends with this.
pub struct Browser {
    chromedriver: Child,
    port: u16,
    session: String,
    /// It ends when nobody can read what it says.
    _stdout: BufReader<ChildStdout>,
    /// Its profile.
    folder: tempfile::TempDir,
}

/// Starts chromedriver. Its port is in what it says; `None`: it has ended without that.
fn start(home: &Path) -> Option<(Child, BufReader<ChildStdout>, u16)> {
    let mut command = Command::new("chromedriver");
    command
        .arg("--port=0")
        .env("HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut chromedriver = command
        .spawn()
        .expect("chromedriver: script/bootstrap installs it");
    let mut stdout = BufReader::new(chromedriver.stdout.take().unwrap());
    let port = stdout.by_ref().lines().find_map(|line| {
        line.unwrap()
            .split("successfully on port ")
            .nth(1)?
            .trim_end_matches('.')
            .parse()
            .ok()
    });
    if port.is_none() {
        chromedriver.wait().unwrap();
    }
    Some((chromedriver, stdout, port?))
}

impl Browser {
    /// Starts one, without a screen.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // It asks the system for a port of IPv4, and ends if somebody has that of IPv6.
        let started = (0..5).find_map(|_| start(folder.path()));
        let (chromedriver, stdout, port) = started.expect("chromedriver names its port");
        let mut browser = Self {
            chromedriver,
            port,
            session: String::new(),
            _stdout: stdout,
            folder,
        };
        let profile = format!(
            "--user-data-dir={}",
            browser.folder.path().join("profile").display()
        );
        // It runs as root in a container, where it cannot have its sandbox.
        let args = [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            &profile,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "timeouts": { "script": PATIENCE.as_secs() * 1000 },
            "goog:chromeOptions": {
                "binary": concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/headless-shell"),
                "args": args,
            },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let session = browser.exchange("POST", "/session", &wanted);
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        browser.resize(1280, 900);
        browser
    }

    /// Opens a page, again if the network has changed meanwhile, and waits until it is loaded.
    pub fn open(&self, url: &str) {
        let path = format!("{}/url", self.session);
        let body = json!({ "url": url });
        while let Err(message) = self.try_exchange("POST", &path, &body) {
            assert!(message.contains(NETWORK_CHANGED), "{url}: {message}");
        }
        // On a busy machine chromedriver now and then says so while the end of the page has yet to come.
        self.until(
            "the page is whole",
            "return document.readyState === 'complete'",
        );
    }

    /// What a function's body returns in the page.
    pub fn run(&self, body: &str) -> Value {
        self.command("execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// What a function's body gives to `done` in the page, at once or later.
    pub fn run_until_done(&self, body: &str) -> Value {
        let body = format!("const done = arguments[0]; {body}");
        self.command("execute/async", &json!({ "script": body, "args": [] }))
    }

    /// A text that a function's body returns in the page.
    pub fn text(&self, body: &str) -> String {
        self.run(body).as_str().unwrap_or_default().to_owned()
    }

    /// Presses and releases a key.
    pub fn press(&self, key: char) {
        let actions =
            ["keyDown", "keyUp"].map(|action| json!({ "type": action, "value": key.to_string() }));
        self.command(
            "actions",
            &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }),
        );
    }

    /// Waits until a function's body returns true in the page.
    #[track_caller]
    pub fn until(&self, what: &str, body: &str) {
        let start = Instant::now();
        while self.run(body) != Value::Bool(true) {
            assert!(
                start.elapsed() < PATIENCE,
                "never: {what}: {}",
                self.text("return document.body.innerText")
            );
            // Each look costs a few milliseconds of a processor that other tests wait for.
            sleep(Duration::from_millis(100));
        }
    }

    /// What it has written to its console since this was asked last: errors, warnings, and what a policy forbids.
    pub fn console(&self) -> Vec<String> {
        let lines = self.command("se/log", &json!({ "type": "browser" }));
        let lines = lines.as_array().cloned().unwrap_or_default();
        lines
            .iter()
            .map(|line| format!("{}: {}", line["level"], line["message"]))
            .filter(|line| !line.contains(NETWORK_CHANGED))
            .collect()
    }

    /// Makes its window so wide and high, as on a telephone or a desk.
    pub fn resize(&self, width: u32, height: u32) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
    }

    /// `dark` or `light`.
    pub fn prefer(&self, scheme: &str) {
        let features = [json!({ "name": "prefers-color-scheme", "value": scheme })];
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({ "features": features }),
        );
    }

    /// Whether pages may run scripts.
    pub fn allow_scripts(&self, may: bool) {
        self.devtools(
            "Emulation.setScriptExecutionDisabled",
            &json!({ "value": !may }),
        );
    }

    /// A PNG of the window, in base64.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command(
            "goog/cdp/execute",
            &json!({ "cmd": command, "params": parameters }),
        )
    }

    fn command(&self, command: &str, body: &Value) -> Value {
        self.exchange("POST", &format!("{}/{command}", self.session), body)
    }

    fn exchange(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.try_exchange(method, path, body);
        answer.unwrap_or_else(|message| panic!("{path}: {message}"))
    }

    /// The answer, or the message of the error.
    fn try_exchange(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        // It keeps the connection: its answer has a length.
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{path}: {head}");
        }
        let mut fields = head.lines().filter_map(|line| line.split_once(':'));
        let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let mut answer = vec![0; length.unwrap().1.trim().parse().unwrap()];
        stream.read_exact(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        if head.starts_with("HTTP/1.1 200") {
            Ok(answer["value"].clone())
        } else {
            Err(answer["value"]["message"].to_string())
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends the browser before itself; a panic here would hide the one that led here.
        let head = format!(
            "DELETE {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n",
            self.session, self.port
        );
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.read(&mut [0; 1]);
        }
        let _ = self.chromedriver.kill();
        let _ = self.chromedriver.wait();
    }
}
