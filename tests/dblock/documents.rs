//! What the README and the pages of docs/ say: every command in them is run as it stands, every link leads somewhere, every
//! line that dblock can say is explained.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::host::{CHOSEN, HOME, Host, make_account, needs};
use crate::harness::pages::{Block, Page, ROOT};
use crate::harness::{Kind, Output, SOON, both_servers, children_of, eventually};

/// Commands that no test can run, by the beginning of their line, and why.
const NOT_RUN: [(&str, &str); 9] = [
    (
        "script/demo ",
        "it builds dblock; continuous integration runs it",
    ),
    ("script/test ", "it is what runs this"),
    ("script/failover ", "it takes a minute and 1 GB"),
    (
        "script/bench",
        "it measures for twenty minutes; continuous integration runs it small",
    ),
    ("script/package", "the tests of the package run it"),
    (
        "cargo install ",
        "it builds dblock for a minute; the tests run what cargo has built",
    ),
    ("crontab -l ", "the user of the tests has no crontab"),
    (
        "dblock web ",
        "it serves until it is ended; its own tests do that",
    ),
    ("ssh -o ", "there is no other host"),
];

/// Sections that another test does, for want of what they need, and which.
const DONE_ELSEWHERE: [(&str, &str); 1] = [(
    "A server on the same host, by its socket",
    "setups: the server must know the user app as one of its machine's",
)];

/// Pages whose reader has the queues of the sections before, with the jobs in them.
const READ_IN_ONE_GO: [&str; 2] = ["README.md", "docs/queue.md"];

/// The members of a line that `--report` writes.
const REPORTED: [&str; 27] = [
    "attempt",
    "will_retry",
    "jobs",
    "name",
    "slot",
    "slot_name",
    "fence",
    "tick",
    "host",
    "pid",
    "user",
    "program",
    "server",
    "connection",
    "requested",
    "acquired",
    "started",
    "ended",
    "waited_seconds",
    "ran_seconds",
    "outcome",
    "exit_code",
    "signal",
    "lock_events",
    "lock_events_omitted",
    "message",
    "dblock_version",
];

/// Where the documents have the reports go.
const RECORD: &str = "/var/log/dblock/runs.jsonl";

type Env = Vec<(String, String)>;

/// One page being read and done by a user.
struct Reader {
    host: Host,
    kind: Kind,
    /// The documents' files that were put in place.
    files: BTreeSet<String>,
    /// What is wrong, with the place.
    wrong: String,
}

/// Does everything that a page says, in its order, but for the files, which come first in each section.
fn reads(page: &str, kind: Kind) {
    needs("chronic", "moreutils");
    needs("logger", "bsdutils");
    needs("jq", "jq");
    needs("ps", "procps");
    needs("systemd-analyze", "systemd");
    needs("shellcheck", "shellcheck");
    needs("mariadb", "mariadb-client-core");
    let host = Host::new(kind);
    host.write(RECORD, report(&[]).as_bytes(), 0o644);
    host.write("/etc/dblock.password", CHOSEN.as_bytes(), 0o600);
    host.write(&format!("{HOME}/.dblock"), CHOSEN.as_bytes(), 0o600);
    let mut reader = Reader {
        host,
        kind,
        files: BTreeSet::new(),
        wrong: String::new(),
    };
    let blocks = Page::read(page).blocks();
    let mut has_tables = false;
    for section in blocks.chunk_by(|one, other| one.heading == other.heading) {
        let heading = &section[0].heading;
        if DONE_ELSEWHERE.iter().any(|(done, _)| done == heading) {
            continue;
        }
        let has = |words: &str| section.iter().any(|block| block.text.contains(words));
        if !has_tables || has("CREATE USER") || !READ_IN_ONE_GO.contains(&page) {
            make_account(reader.host.server);
            has_tables = false;
        }
        for block in section {
            reader.put_in_place(block);
        }
        if needs_tables(section) {
            if !has_tables {
                reader.host.server.make_tables();
            }
            reader.has_what_is_taken_for_granted(section);
        }
        has_tables |= needs_tables(section) || has("dblock init");
        for block in section.iter().filter(|block| block.text.starts_with("#!")) {
            reader.jobs(&block.text);
        }
        for block in section {
            let names_the_server = ["DBLOCK_URL=", "--url", "--defaults-file"]
                .iter()
                .any(|way| block.text.contains(way));
            reader.host.name_the_server(!names_the_server);
            reader.does(block);
        }
    }
    assert!(reader.wrong.is_empty(), "{}", reader.wrong);
}

/// Whether a section uses tables of dblock's that it does not create.
fn needs_tables(section: &[Block]) -> bool {
    let says = |words: &[&str]| {
        let mut texts = section.iter().map(|block| &block.text);
        texts.any(|text| words.iter().any(|word| text.contains(word)))
    };
    says(&[
        "durable",
        "--once-",
        "--record",
        "dblock acquire",
        "dblock queue ",
        "dblock cron run",
        "dblock cron list",
        "dblock cron pause",
        "dblock history",
        "dblock.dblock_",
    ]) && !says(&["dblock init"])
}

/// A block without a fence, by what it looks like.
fn language_of(block: &Block) -> &str {
    match &block.language {
        Some(language) => language,
        None if block.text.starts_with("$ ") => "console",
        None if block.text.starts_with('[') => "ini",
        None if block.text.starts_with("CREATE USER") => "sql",
        None if block.text.lines().any(is_crontab_entry) => "crontab",
        None => "sh",
    }
}

impl Reader {
    fn is_wrong(&mut self, block: &Block, what: &str) {
        let (place, text) = (&block.place, &block.text);
        let _ = writeln!(self.wrong, "{place} ({:?}): {what}\n{text}", self.kind);
    }

    /// Notes a run that did not end with this code.
    fn expect(&mut self, block: &Block, what: &str, output: &Output, code: i32) {
        if output.code != Some(code) {
            self.is_wrong(block, &format!("{what}: not {code}: {output:#?}"));
        }
    }

    /// Creates the queues that a section works with, each with a job, and has a daemon read the crontab whose jobs it lists or
    /// pauses: whoever reads that section has them.
    fn has_what_is_taken_for_granted(&self, section: &[Block]) {
        let lines = || section.iter().flat_map(|block| block.text.lines());
        let queues = |commands: &[&str]| -> BTreeSet<&str> {
            let named = lines().flat_map(|line| line.split("dblock queue ").skip(1));
            let words = named.map(|rest| rest.split_whitespace().collect::<Vec<_>>());
            words
                .filter(|words| words.len() > 1 && commands.contains(&words[0]))
                .map(|words| words[1])
                .filter(|queue| queue.starts_with(char::is_alphanumeric))
                .collect()
        };
        self.host.name_the_server(true);
        let does = |line: &str| {
            let output = self.host.sh(line, &Vec::new()).output();
            output.expect_code(0);
        };
        let used = queues(&[
            "put", "work", "status", "list", "show", "retry", "cancel", "pause", "resume",
        ]);
        for queue in used.difference(&queues(&["create"])) {
            does(&format!("dblock queue create {queue}"));
            if queues(&["show"]).contains(queue) {
                does(&format!("dblock queue put {queue} job"));
            }
        }
        let has = |command: &str| lines().any(|line| line.contains(command));
        if (has("dblock cron list") || has("dblock cron pause")) && !has("dblock cron run") {
            let crontab = block_of("docs/cron.md", "/etc/dblock.crontab");
            self.put(&crontab);
            let mut run = self
                .host
                .sh("dblock cron run /etc/dblock.crontab", &Vec::new())
                .spawn();
            self.ends_once_its_jobs_are_listed("");
            run.wait_within(SOON).expect_code(0);
        }
    }

    /// Stops the daemon that runs as soon as its jobs are listed, by a `dblock cron list` with these options.
    fn ends_once_its_jobs_are_listed(&self, options: &str) {
        eventually("the daemon is ready", SOON, || {
            let list = format!("dblock cron list {options}");
            let list = self.host.sh(&list, &Vec::new()).output();
            list.code == Some(0) && list.stdout.contains("NEXT")
        });
        self.host.signal_dblock(Signal::SIGTERM);
    }

    /// Whether no dblock of the host has a process but its own.
    fn nothing_runs(&self) -> bool {
        let name = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let dblocks = self.host.processes().into_iter();
        let dblocks = dblocks.filter(|&pid| name(pid) == "dblock\n");
        let mut theirs = dblocks.flat_map(children_of);
        theirs.all(|pid| name(pid).starts_with("dblock"))
    }

    /// A block that is a file of the host.
    fn put_in_place(&mut self, block: &Block) {
        if let Some(path) = block.file() {
            self.put(block);
            self.files.insert(path.to_owned());
        }
    }

    fn put(&self, block: &Block) {
        let mode = match () {
            () if block.text.starts_with("#!") => 0o755,
            () if block.text.contains("password") => 0o600,
            () => 0o644,
        };
        let path = block.file().expect("a file");
        self.host.write(path, block.text.as_bytes(), mode);
    }

    fn does(&mut self, block: &Block) {
        match language_of(block) {
            "crontab" => self.crontab(block),
            "sh" if block.file().is_some() => {
                let script = self.host.path(block.file().unwrap_or_default());
                let check = Command::new("shellcheck").arg(script).output();
                let check = check.expect("shellcheck starts");
                if !check.status.success() {
                    let told = String::from_utf8_lossy(&check.stdout).into_owned();
                    self.is_wrong(block, &told);
                }
            }
            "sh" => self.shell(block),
            "console" => self.console(block),
            "sql" => self.sql(block),
            "ini" => self.ini(block),
            "json" => self.json(block),
            "dockerfile" => self.dockerfile(block),
            "yaml" => self.pod(block),
            // What dblock says, or a drawing.
            "text" => {
                if block.text.lines().any(|line| line.starts_with("dblock ")) {
                    self.is_wrong(block, "a command in a block that nobody runs");
                }
            }
            _ => self.is_wrong(block, "nobody runs this block"),
        }
    }

    /// Every line as cron runs it, one after the other.
    fn crontab(&mut self, block: &Block) {
        // As Debian's cron has it: the block itself says where dblock is.
        let mut env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        for line in block.text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
            } else if is_crontab_entry(line) {
                let command = after_fields(line, 5);
                if command.replace("\\%", "").contains('%') {
                    self.is_wrong(block, "cron ends a command at a %");
                }
                let command = command.replace("\\%", "%");
                self.entry(block, &command, &env);
            } else if let Some((name, value)) = line.split_once('=') {
                env.push((name.trim().to_owned(), value.trim().to_owned()));
            } else {
                self.is_wrong(block, &format!("no line of a crontab: {line}"));
            }
        }
    }

    fn entry(&mut self, block: &Block, command: &str, env: &Env) {
        let jobs = self.jobs(command);
        let before = self.host.calls();
        let works_on = command.split("dblock queue work ").nth(1);
        let works_on = works_on.and_then(|rest| rest.split(' ').next());
        let file = command.split_once("--defaults-file ");
        let file = file.and_then(|(_, rest)| rest.split(' ').next());
        let options = file.map(|file| format!("--defaults-file {file}"));
        let options = options.unwrap_or_default();
        if let Some(queue) = works_on {
            let put = format!("dblock queue put {options} {queue} job");
            let output = self.host.sh(&put, &Vec::new()).output();
            self.expect(block, &put, &output, 0);
        }
        let is_of_app = block.text.contains("user app");
        let mut run = if is_of_app {
            self.host.sh_as_app(command, env).spawn()
        } else {
            self.host.sh(command, env).spawn()
        };
        let is_daemon = command.contains("dblock cron run ");
        let goes_on = works_on.is_some() && !command.contains("--drain");
        if is_daemon {
            self.ends_once_its_jobs_are_listed(&options);
        }
        if command.contains("--hold-at-least") || goes_on {
            // One that still runs would get the signal, too.
            eventually("the job has run", SOON, || {
                self.host.calls().len() > before.len() && self.nothing_runs()
            });
            self.host.signal_dblock(Signal::SIGTERM);
        }
        let output = run.wait_within(SOON);
        self.expect(block, command, &output, 0);
        if !output.stderr.is_empty() {
            self.is_wrong(block, &format!("{command}: is not silent: {output:#?}"));
        }
        let calls = self.host.calls();
        let new = &calls[before.len()..];
        for job in jobs {
            let times = new
                .iter()
                .filter(|call| call.starts_with(&format!("{job}[")))
                .count();
            if times != usize::from(!command.contains("dblock config")) {
                self.is_wrong(
                    block,
                    &format!("{command}: {job} ran {times} times: {new:?}"),
                );
            }
        }
    }

    /// Makes a stub of each program that is named by its path and is no file of the documents; their names.
    fn jobs(&self, command: &str) -> Vec<String> {
        let words = command.split([' ', '\'', '"', ';', ')', '\n']);
        let programs = words.filter(|word| word.starts_with("/usr/local/bin/"));
        let programs =
            programs.filter(|word| !self.files.contains(*word) && !word.ends_with("/dblock"));
        programs
            .map(|program| {
                self.host.stub(program);
                program.rsplit('/').next().unwrap_or_default().to_owned()
            })
            .collect()
    }

    /// Every command as a user types it. While one is in the background, the next ones find its lock taken.
    fn shell(&mut self, block: &Block) {
        let not_run = |line: &str| NOT_RUN.iter().any(|(start, _)| line.starts_with(start));
        let lines: Vec<&str> = block.text.lines().filter(|line| !not_run(line)).collect();
        for line in block.text.lines().filter(|line| not_run(line)) {
            let script = line.split(' ').next().unwrap_or_default();
            if script.contains('/') && !Path::new(ROOT).join(script).exists() {
                self.is_wrong(block, "there is no such script");
            }
        }
        let text = lines.join("\n");
        self.jobs(&text);
        if text.contains("~/.cargo/bin/dblock") {
            let program = fs::read(self.host.path("/usr/local/bin/dblock")).expect("a program");
            self.host
                .write(&format!("{HOME}/.cargo/bin/dblock"), &program, 0o755);
        }
        if text.contains("ps -o") {
            return self.with_a_run(block, &text);
        }
        let mut run = self.host.reading_sh(&Vec::new()).spawn();
        let mut stdin = run.take_stdin();
        let mut in_background = None;
        let mut say = |line: &str| {
            std::io::Write::write_all(&mut stdin, format!("{line}\n").as_bytes()).is_ok()
        };
        for line in lines {
            say(line);
            if line.trim_end().ends_with('&') {
                let name = line
                    .split("--name ")
                    .nth(1)
                    .and_then(|rest| rest.split(' ').next());
                let name = name.expect("a lock").to_owned();
                eventually("it has the lock", SOON, || {
                    self.host.server.holder(&name).is_some()
                });
                in_background = Some(name);
            }
        }
        drop(stdin);
        let output = run.wait_within(SOON);
        if text.contains("dblock queue work ") {
            let query = "SELECT last_error FROM dblock.dblock_jobs WHERE last_error IS NOT NULL";
            let errors: Vec<String> = self.host.server.admin().query(query).expect("tables");
            if !errors.is_empty() {
                self.is_wrong(block, &format!("jobs have failed: {errors:?}"));
            }
        }
        if let Some(name) = &in_background {
            self.expect(block, "the last command", &output, 75);
            if !output
                .stderr
                .starts_with(&format!("dblock: {name} is held by"))
            {
                self.is_wrong(block, &format!("who has it is not told: {output:#?}"));
            }
            self.host.signal_dblock(Signal::SIGTERM);
            eventually("its lock is free", SOON, || {
                self.host.server.holder(name).is_none()
            });
        } else {
            self.expect(block, "the last command", &output, 0);
        }
    }

    /// While a job runs.
    fn with_a_run(&mut self, block: &Block, text: &str) {
        let mut run = self
            .host
            .sh(
                "dblock run --name looked-at -- sh -c 'echo runs; exec sleep 60'",
                &Vec::new(),
            )
            .spawn();
        run.wait_line("runs", SOON);
        let output = self.host.sh(text, &Vec::new()).output();
        self.expect(block, text, &output, 0);
        if !output.stdout.contains("--name looked-at") {
            self.is_wrong(block, &format!("dblock is not among them: {output:#?}"));
        }
        self.host.signal_dblock(Signal::SIGTERM);
    }

    /// What follows the prompt, and of the lines that are shown below it each header, and every other one's first cell.
    fn console(&mut self, block: &Block) {
        let (mut command, mut shown) = (String::new(), Vec::new());
        for line in block.text.lines() {
            match line.strip_prefix("$ ") {
                Some(line) if command.is_empty() => line.clone_into(&mut command),
                Some(_) => self.is_wrong(block, "two commands in one block"),
                None => shown.push(line),
            }
        }
        // A queue's workers are shown only if there are some.
        let mut worker = shown
            .iter()
            .any(|line| line.contains("  HOST  ") && line.contains("  RENEWED"))
            .then(|| {
                let queue = command.rsplit(' ').next().unwrap_or_default();
                let work = format!("dblock queue work {queue} -- true");
                self.host.sh(&work, &Vec::new()).spawn()
            });
        let mut output = self.host.sh(&command, &Vec::new()).output();
        if worker.is_some() {
            eventually("the worker is there", SOON, || {
                output = self.host.sh(&command, &Vec::new()).output();
                output.stdout.contains("  alive  ")
            });
        }
        if command.starts_with("dblock check ") {
            // It does not wait long for a second session that does not run.
            eventually("the lock is handed over in time", SOON, || {
                let is_shown = output.stdout.contains("hand over");
                if !is_shown {
                    output = self.host.sh(&command, &Vec::new()).output();
                }
                is_shown
            });
        }
        self.expect(block, &command, &output, 0);
        for line in shown {
            if is_header(line)
                && !output
                    .stdout
                    .lines()
                    .any(|other| words(other) == words(line))
            {
                self.is_wrong(
                    block,
                    &format!("{line:?} is not a header: {}", output.stdout),
                );
            }
            let label = line.strip_prefix("ok ").unwrap_or(line).trim_start();
            let label = label.split("  ").next().unwrap_or_default();
            let is_a_line_of_its_own = !line.starts_with("  ") && line.contains("  ");
            // Both hosts are one server here, and it may have no tables.
            let may_be_missing = ["passed over", "clocks", "durable lock"].contains(&label);
            if is_a_line_of_its_own && !may_be_missing && !output.stdout.contains(label) {
                self.is_wrong(block, &format!("{label:?} is not shown: {}", output.stdout));
            }
        }
        if let Some(worker) = &mut worker {
            self.host.signal_dblock(Signal::SIGTERM);
            worker.wait_within(SOON).expect_code(0);
        }
    }

    /// On the server, by somebody who may.
    fn sql(&mut self, block: &Block) {
        let mut admin = self.host.server.admin();
        admin.query_drop("USE app").expect("the database");
        let _ = admin.query_drop("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'");
        let other = match self.kind {
            Kind::MariaDb => "-- MySQL",
            Kind::Postgres => unreachable!("a test of MySQL"),
            Kind::MySql => "-- MariaDB",
        };
        let lines = block.text.lines().filter(|line| !line.contains(other));
        let lines = lines.map(|line| line.split("   -- ").next().unwrap_or(line));
        let text = lines.collect::<Vec<_>>().join("\n");
        for statement in text.split(';') {
            let statement = statement.split(" -- ").next().unwrap_or(statement).trim();
            if statement.is_empty() || statement.starts_with("--") {
                continue;
            }
            if let Some(account) = statement.strip_prefix("CREATE USER ") {
                let account = account.split(' ').next().unwrap_or_default();
                admin
                    .query_drop(format!("DROP USER IF EXISTS {account}"))
                    .expect("none is left");
            }
            match admin.query_drop(statement) {
                // There need be no session of that number.
                Err(mysql::Error::MySqlError(error)) if error.code == 1094 => {}
                Err(error) => self.is_wrong(block, &format!("{statement}: {error}")),
                Ok(()) => {}
            }
        }
    }

    /// A unit of systemd's, or an option file.
    fn ini(&mut self, block: &Block) {
        let Some(path) = block.file().filter(|path| path.contains("/systemd/")) else {
            let path = block
                .file()
                .map_or_else(|| format!("{HOME}/options.cnf"), str::to_owned);
            self.host.write(&path, block.text.as_bytes(), 0o600);
            let command = format!("dblock config --name x --defaults-file {path}");
            let output = self.host.sh(&command, &Vec::new()).output();
            self.expect(block, &command, &output, 0);
            return;
        };
        let exec = block
            .text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        if let Some(exec) = exec {
            self.jobs(exec);
        }
        let verify = self
            .host
            .sh(&format!("systemd-analyze verify {path}"), &Vec::new())
            .output();
        self.expect(block, path, &verify, 0);
        if !verify.stderr.is_empty() {
            self.is_wrong(block, &format!("systemd: {}", verify.stderr));
        }
        if let Some(exec) = exec {
            // systemd has rules of its own for these.
            if exec.contains(['%', '$', '"', '\'', '\\']) {
                self.is_wrong(block, "ExecStart= is not words alone");
            }
            self.entry(block, exec, &Vec::new());
        }
    }

    /// A line of the record.
    fn json(&mut self, block: &Block) {
        let line: Result<Value, _> = serde_json::from_str(&block.text);
        let members = line.ok().and_then(|line| line.as_object().cloned());
        let members = members.unwrap_or_default();
        let names: BTreeSet<&str> = members.keys().map(String::as_str).collect();
        if names != REPORTED.into_iter().collect() {
            self.is_wrong(block, "not the members of a report");
        }
    }

    /// What an image runs, by a docker that is a stub.
    fn dockerfile(&mut self, block: &Block) {
        let words = |instruction: &str| -> Vec<String> {
            let line = block
                .text
                .lines()
                .find_map(|line| line.strip_prefix(instruction));
            serde_json::from_str(line.unwrap_or_default()).expect("an array")
        };
        let mut all = words("ENTRYPOINT ");
        all.extend(words("CMD "));
        let quoted: Vec<String> = all.iter().map(|word| format!("'{word}'")).collect();
        let copied = block
            .text
            .lines()
            .find_map(|line| line.strip_prefix("COPY "));
        let (files, folder) = copied
            .and_then(|line| line.rsplit_once(' '))
            .expect("files");
        for file in files.split(' ') {
            self.host.stub(&format!("{folder}{file}"));
        }
        let docker = format!(
            "#!/bin/sh\nset -e\n[ \"$1\" = run ] || exit 0\nshift\nwhile :; do\ncase $1 in\n\
             --rm) ;;\n-e) export \"$2\"; shift ;;\n\
             -v) from=${{2%%:*}} to=${{2#*:}}; mkdir -p \"$(dirname \"${{to%:ro}}\")\"; cp -p \"$from\" \"${{to%:ro}}\"; shift ;;\n\
             *) break ;;\nesac\nshift\ndone\n[ $# = 1 ]\nrm -f ~/.my.cnf\nexec {}\n",
            quoted.join(" ")
        );
        self.host
            .write("/usr/local/bin/docker", docker.as_bytes(), 0o755);
    }

    /// What the container of a Pod runs.
    fn pod(&mut self, block: &Block) {
        let value = |key: &str| {
            let mut lines = block.text.lines().rev();
            let value = lines.find_map(|line| {
                let line = line.trim_start().trim_start_matches("- ");
                line.strip_prefix(key)?.strip_prefix(": ")
            });
            value.unwrap_or_default().to_owned()
        };
        let mut all = Vec::new();
        for key in ["command", "args"] {
            let words: Vec<String> = serde_json::from_str(&value(key)).expect("an array");
            all.extend(words);
        }
        let folder = value("mountPath");
        self.host
            .write(&format!("{folder}/password"), CHOSEN.as_bytes(), 0o440);
        self.host
            .stub(&format!("/usr/local/bin/{}", all.last().expect("a job")));
        self.host.name_the_server(false);
        let before = self.host.calls().len();
        let env = vec![("DBLOCK_URL".to_owned(), value("value"))];
        let quoted: Vec<String> = all.iter().map(|word| format!("'{word}'")).collect();
        let output = self.host.sh(&quoted.join(" "), &env).output();
        self.expect(block, "the container", &output, 0);
        if self.host.calls().len() != before + 1 || !output.stderr.is_empty() {
            self.is_wrong(
                block,
                &format!("the job did not run, or not silently: {output:#?}"),
            );
        }
    }
}

/// Whether a line that is shown names the columns below it.
fn is_header(line: &str) -> bool {
    line.contains("  ") && line.contains(char::is_uppercase) && !line.contains(char::is_lowercase)
}

/// The words of a line, whatever the width of its columns.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Whether a line has five fields of time, and then a command.
fn is_crontab_entry(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let is_time = |word: &str| {
        word.chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '*' | '/' | ',' | '-'))
    };
    words.by_ref().take(5).filter(|word| is_time(word)).count() == 5 && words.next().is_some()
}

/// A line without its first fields.
fn after_fields(line: &str, fields: usize) -> &str {
    (0..fields).fold(line.trim_start(), |rest, _| {
        let (_, rest) = rest.split_once(char::is_whitespace).unwrap_or_default();
        rest.trim_start()
    })
}

/// Makes a test of each page: on both servers of those that have SQL or the servers' own settings, on one of the others, whose commands
/// other tests give to both. That no page is missing is tested, too.
macro_rules! pages {
    (
        { $($both:ident: $page:literal;)* }
        { $($one:ident: $other:literal;)* }
    ) => {
        const PAGES: &[&str] = &[$($page,)* $($other,)*];

        both_servers! {$(
            fn $both(server) {
                reads($page, server.kind);
            }
        )*}

        $(
            #[test]
            fn $one() {
                reads($other, Kind::MariaDb);
            }
        )*
    };
}

pages! {
    {
        every_command_of_the_readme_works: "README.md";
        every_command_of_check_works: "docs/check.md";
        every_command_of_connection_works: "docs/connection.md";
        every_command_of_dba_works: "docs/dba.md";
        every_command_of_durable_works: "docs/durable.md";
        every_command_of_limits_works: "docs/limits.md";
        every_command_of_metrics_works: "docs/metrics.md";
        every_command_of_recipes_works: "docs/recipes.md";
        every_command_of_tls_works: "docs/tls.md";
    }
    {
        every_command_of_architecture_works: "docs/architecture.md";
        every_command_of_comparison_works: "docs/comparison.md";
        every_command_of_cron_works: "docs/cron.md";
        every_command_of_exit_codes_works: "docs/exit-codes.md";
        every_command_of_how_it_works_works: "docs/how-it-works.md";
        every_command_of_options_works: "docs/options.md";
        every_command_of_queue_works: "docs/queue.md";
        every_command_of_speed_works: "docs/speed.md";
        every_command_of_troubleshooting_works: "docs/troubleshooting.md";
        every_command_of_web_works: "docs/web.md";
    }
}

#[test]
fn the_readme_is_short() {
    let lines = Page::read("README.md").text.lines().count();
    assert!(lines <= 140, "{lines} lines: a page of docs/ has room");
}

#[test]
fn each_variable_of_a_session_with_tables_is_named_for_the_administrator() {
    let source = Path::new(ROOT).join("src/schema/statements.rs");
    let source = fs::read_to_string(source).expect("a source");
    let page = Page::read("docs/dba.md").text;
    let names: BTreeSet<&str> = source
        .split("SESSION ")
        .skip(1)
        .filter_map(|rest| rest.split_once('='))
        .map(|(name, _)| name.trim())
        .filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    assert!(names.len() > 9, "only {names:?} were found");
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "docs/dba.md does not name {missing:?}");
}

#[test]
fn the_pages_have_the_figures_that_were_measured() {
    for (page, figures) in [("README.md", "figures.md"), ("docs/speed.md", "table.md")] {
        let measured = Page::read(&format!("docs/speed/{figures}")).text;
        assert!(Page::read(page).text.contains(measured.trim()), "{page}");
    }
}

#[test]
fn no_page_is_without_a_test() {
    let names: Vec<String> = Page::all().into_iter().map(|page| page.name).collect();
    let mut tested = PAGES.to_vec();
    // That one has tests of its own: it needs another server.
    tested.push("docs/postgres.md");
    tested.sort_unstable();
    assert_eq!(names, tested);
}

#[test]
fn no_exception_is_left_over() {
    let blocks: Vec<Block> = Page::all().iter().flat_map(Page::blocks).collect();
    for (start, why) in NOT_RUN {
        let mut lines = blocks.iter().flat_map(|block| block.text.lines());
        assert!(lines.any(|line| line.starts_with(start)), "{start}: {why}");
    }
    for (heading, why) in DONE_ELSEWHERE {
        let is_there = blocks.iter().any(|block| block.heading == heading);
        assert!(is_there, "{heading}: {why}");
    }
}

/// The lines of all code blocks, each with the place of its block.
fn lines_of_blocks() -> Vec<(String, String)> {
    let pages = Page::all();
    let blocks = pages.iter().flat_map(Page::blocks);
    blocks
        .flat_map(|Block { place, text, .. }| {
            let lines = text.lines().map(|line| (place.clone(), line.to_owned()));
            lines.collect::<Vec<_>>()
        })
        .collect()
}

/// A test ends by itself what runs on: a page shows what its reader types.
#[test]
fn no_command_is_shown_under_a_timeout_of_the_shell() {
    let lines = lines_of_blocks().into_iter();
    let scaffolds = lines.filter(|(_, line)| {
        let mut words = line.split_whitespace();
        words.any(|word| word == "timeout") && words.any(|word| word.ends_with("dblock"))
    });
    let scaffolds: Vec<_> = scaffolds.collect();
    assert!(scaffolds.is_empty(), "{scaffolds:#?}");
}

/// Else one that begins with a minus would be an option of the program, and one alone would be the program.
#[test]
fn every_payload_in_a_command_stands_behind_two_dashes() {
    let mut count = 0;
    for (place, line) in lines_of_blocks() {
        let Some((_, work)) = line.split_once("dblock queue work ") else {
            continue;
        };
        let command = work.split_once(" -- ").map_or("", |(_, command)| command);
        let payloads = work.matches("{}").count();
        let protected = command.matches(" -- {}").count();
        assert_eq!(payloads, protected, "{place}: {line}");
        count += payloads;
    }
    assert!(count > 1, "only {count} were found");
}

#[test]
fn every_link_leads_to_a_page_and_a_heading_that_are_there() {
    let mut broken = Vec::new();
    let others = ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(Page::read);
    for page in Page::all().into_iter().chain(others) {
        for link in page.links() {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = page.path().with_file_name(file);
            let path = if file.is_empty() { page.path() } else { path };
            let target = Path::new(&path);
            let leads = target.exists()
                && (anchor.is_empty() || {
                    let text = fs::read_to_string(target).unwrap_or_default();
                    let name = page.name.clone();
                    Page { name, text }
                        .anchors()
                        .iter()
                        .any(|found| found == anchor)
                });
            if !leads {
                broken.push(format!("{}: {link}", page.name));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// What `dblock SUBCOMMAND --help` says.
fn help(subcommand: &[&str]) -> String {
    let output = crate::harness::Dblock::bare()
        .args(subcommand.iter().chain(&["--help"]))
        .output();
    output.expect_code(0).stdout.clone()
}

#[test]
fn every_option_in_the_text_exists() {
    let mut unknown = Vec::new();
    for page in Page::all() {
        let prose = page.prose();
        // Every other piece between backticks is code.
        for code in prose.split('`').skip(1).step_by(2) {
            let Some(rest) = code.strip_prefix("dblock ") else {
                continue;
            };
            let subcommand = rest.split(' ').next().unwrap_or_default();
            if ![
                "run", "status", "kill", "check", "config", "init", "history", "acquire", "renew",
                "release", "cron", "queue", "audit",
            ]
            .contains(&subcommand)
            {
                continue;
            }
            let help = match rest.split(' ').nth(1) {
                Some(command) if ["cron", "queue"].contains(&subcommand) => {
                    help(&[subcommand, command])
                }
                _ => help(&[subcommand]),
            };
            let ours = rest.split(" -- ").next().unwrap_or_default();
            for option in ours
                .split([' ', '='])
                .filter(|word| word.starts_with("--") && word.len() > 2)
            {
                if !help.contains(option) {
                    unknown.push(format!("{}: {code}", page.name));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

/// The options that the help of a subcommand lists.
fn options_of(subcommand: &[&str]) -> Vec<String> {
    let help = help(subcommand);
    let lines = help.lines().map(str::trim_start);
    let names = lines.filter(|line| line.starts_with('-'));
    let names = names.filter_map(|line| line.split("  ").next());
    names
        .flat_map(str::split_whitespace)
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(|word| word.trim_end_matches([',', '.']))
        .map(|word| word.split('[').next().unwrap_or(word).to_owned())
        .collect()
}

#[test]
fn every_option_is_explained() {
    let page = Page::read("docs/options.md").text;
    let section = |heading: &str| {
        let (_, rest) = page
            .split_once(&format!("\n## {heading}\n"))
            .expect("a heading");
        rest.split("\n## ").next().unwrap_or_default()
    };
    // Those that all of them have.
    let general = format!("{}--verbose --quiet --help", section("The connection"));
    let mut missing = Vec::new();
    for (heading, subcommands) in [
        ("dblock run", &["run"][..]),
        (
            "The other commands",
            &[
                "status",
                "kill",
                "check",
                "cron check",
                "cron run",
                "cron list",
                "cron pause",
                "cron resume",
                "cron trigger",
                "audit",
                "metrics",
                "output",
                "web",
            ],
        ),
        ("A lock for a script", &["acquire", "renew", "release"]),
        (
            "A queue of jobs",
            &[
                "queue create",
                "queue put",
                "queue work",
                "queue status",
                "queue list",
                "queue show",
                "queue retry",
                "queue cancel",
                "queue pause",
                "queue resume",
                "queue delete",
            ],
        ),
        ("The tables", &["init"]),
        ("The history", &["history"]),
    ] {
        let text = format!("{}{general}", section(heading));
        for subcommand in subcommands {
            let words: Vec<&str> = subcommand.split(' ').collect();
            let options = options_of(&words);
            assert!(!options.is_empty(), "dblock {subcommand} lists none");
            for option in options {
                // A longer one may begin alike.
                let is_there = text
                    .split(&*option)
                    .skip(1)
                    .any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'));
                if !is_there {
                    missing.push(format!("dblock {subcommand} {option}"));
                }
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/options.md does not explain {missing:#?}"
    );
}

/// The texts in a file of Rust that a user may see: literals of three words and more, without what fills them in.
fn texts(source: &str) -> Vec<String> {
    let source = source
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or(source);
    let mut texts = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '\'', '/', '#']) {
        let (before, found) = rest.split_at(at);
        if found.starts_with("//") || found.starts_with("#[expect") {
            rest = found.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(character) = found.strip_prefix('\'') {
            // A character, or the name of a lifetime.
            let length = match character.strip_prefix('\\') {
                Some(escaped) => escaped[1..].find('\'').map(|end| end + 3),
                None => character.char_indices().nth(1).map(|(end, _)| end + 1),
            };
            let length = length.filter(|&length| character[..length].ends_with('\''));
            rest = &found[1 + length.unwrap_or_default()..];
        } else if let Some(literal) = found.strip_prefix('"') {
            let mut escaped = false;
            let end = literal.char_indices().find(|&(_, c)| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let (end, _) = end.expect("a literal ends");
            let is_for_panics =
                before.trim_end().ends_with(".expect(") || before.trim_end().ends_with("reason =");
            let text = literal[..end].replace("\\\n", "");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if !is_for_panics && text.split(' ').count() >= 3 {
                texts.push(text.replace("\\\"", "\""));
            }
            rest = &literal[end + 1..];
        } else {
            rest = &found[1..];
        }
    }
    texts
}

/// The longest piece of a text that stands in it whatever fills it in, if that has two words.
fn fixed_piece(text: &str) -> Option<String> {
    let mut pieces = vec![String::new()];
    let mut depth = 0;
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                pieces.push(String::new());
            }
            c if depth == 0 => pieces.last_mut().expect("one is there").push(c),
            _ => {}
        }
    }
    let pieces = pieces.into_iter().map(|piece| piece.trim().to_owned());
    pieces
        .max_by_key(String::len)
        .filter(|piece| piece.split(' ').count() >= 2)
}

/// Files whose texts are help, statements, for who builds dblock, or findings with their own advice.
const OTHER_TEXTS: [&str; 47] = [
    "lock/rows/statements/mod.rs",
    "lock/rows/statements/text.rs",
    "db/words.rs",
    "db/postgres/sql.rs",
    "db/postgres/sessions.rs",
    "cron/cronie.rs",
    "cron/crontab/tests.rs",
    "cron/crontab/year.rs",
    "cron/rules/tests.rs",
    "cron/store/attempts.rs",
    "cron/store/daemons.rs",
    "cron/store/list.rs",
    "cron/store/look.rs",
    "cron/store/settle.rs",
    "crond/mail.rs",
    "cron/golden.rs",
    "schema/statements.rs",
    "schema/tables.rs",
    "history/journal.rs",
    "queue/change.rs",
    "queue/delete.rs",
    "queue/entries.rs",
    "queue/list.rs",
    "queue/manage.rs",
    "queue/marks.rs",
    "queue/prune.rs",
    "queue/put.rs",
    "queue/put/transaction.rs",
    "queue/show.rs",
    "queue/status.rs",
    "queue/due.rs",
    "queue/idle.rs",
    "queue/narrow.rs",
    "queue/payloads.rs",
    "history/audit.rs",
    "history/kept.rs",
    "history/output.rs",
    "history/page.rs",
    "history/prune.rs",
    "history/unused.rs",
    "queue/rescue.rs",
    "queue/turn.rs",
    "queue/turn/deletions.rs",
    "queue/turn/complete.rs",
    "queue/turn/moves.rs",
    "queue/worker.rs",
    "base/static_glibc.rs",
];

/// Texts that are no lines of dblock's, by their beginning.
const NO_LINES: [&str; 46] = [
    // Of other programs and libraries, which are looked for.
    "For more information",
    "BEGIN ENCRYPTED PRIVATE KEY",
    "bytes remaining on stream",
    "failed to lookup address information",
    // Statements.
    "/* dblock ",
    "SELECT ",
    "KILL QUERY",
    "SHOW GLOBAL",
    "SHOW CREATE USER",
    "SET SESSION",
    "TIMESTAMPDIFF(",
    "{NOW} ",
    "AND PROCESSLIST_ID",
    "l.name ",
    "l.owner ",
    "CREATE {what}",
    "ALTER TABLE",
    "INSERT INTO",
    "UPDATE {",
    "usable_from = ",
    "DELETE FROM",
    "({run}.ended_at",
    "IFNULL(@@",
    "(IFNULL(@@",
    "r.",
    "(r.",
    "COALESCE(",
    "CASE WHEN pg_is_in_recovery()",
    "(SELECT min(extname)",
    "l.slot, ",
    ", SESSION lock_wait_timeout",
    "classid = ",
    "{create};\\n{tables}",
    // The names of statements.
    "stand in line",
    "queue is deleting",
    "check account ",
    // How far a put is, at a terminal.
    "\\r{} put",
    // What @daily and its like stand for.
    "0 * * * *",
    "0 0 ",
    // Columns of tables.
    "the OS user's name",
    "host, port, socket",
    "time-zone of once-at",
    // What a process is called.
    "dblock queue ",
    "dblock cron ",
    "time-zone, or the host",
    "(with a password)",
];

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            let name = path
                .strip_prefix(Path::new(ROOT).join("src"))
                .expect("below it");
            let name = name.display().to_string();
            let folders = [
                "lock/explorer.rs",
                "lock/named/model",
                "lock/named/line/model.rs",
                "lock/named/statements",
                "cron/store/statements",
                "schema/postgres",
                "lock/rows/model",
                "history/tests.rs",
                "schema/fixture.rs",
                "schema/versions.rs",
                "queue/model",
                "cron/simulation",
                "commands/check",
                // docs/metrics.md explains these, as the tests of the metrics see.
                "commands/metrics/families.rs",
                "settings/cli",
            ];
            let is_other = OTHER_TEXTS.contains(&&*name)
                || folders.iter().any(|folder| name.starts_with(folder));
            if !is_other {
                found.push((name, fs::read_to_string(&path).expect("a source")));
            }
        }
    }
}

#[test]
fn every_line_that_dblock_can_say_is_explained() {
    let page = Page::read("docs/troubleshooting.md").text;
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    sources(&Path::new(ROOT).join("src"), &mut found);
    let mut missing = Vec::new();
    let mut count = 0;
    for (name, source) in found {
        for text in texts(&source) {
            let Some(piece) = fixed_piece(&text) else {
                continue;
            };
            if NO_LINES.iter().any(|start| text.starts_with(start)) {
                continue;
            }
            count += 1;
            if !page.contains(&piece) {
                missing.push(format!("{name}: {text}"));
            }
        }
    }
    assert!(count > 150, "only {count} texts were found");
    assert!(
        missing.is_empty(),
        "docs/troubleshooting.md does not explain: {missing:#?}"
    );
}

#[test]
fn every_line_that_is_explained_is_one_that_dblock_can_say() {
    let mut found = Vec::new();
    sources(&Path::new(ROOT).join("src"), &mut found);
    for name in [
        "commands/check/examiner.rs",
        "commands/check/words.rs",
        "commands/check.rs",
        "crond/mail.rs",
        "history/audit.rs",
        "history/output.rs",
        "queue/worker.rs",
        "../crates/web/src/options.rs",
        "../crates/web/src/access/hosts.rs",
        "../crates/web/src/access/login.rs",
        "../crates/web/src/access/mod.rs",
        "../crates/web/src/access/secret.rs",
        "../crates/web/src/fleet/dblock.rs",
        "../crates/web/src/serve/listen.rs",
        "../crates/web/src/serve/mod.rs",
        "../crates/web/src/serve/tls.rs",
    ] {
        let text = fs::read_to_string(Path::new(ROOT).join("src").join(name));
        found.push((name.to_owned(), text.expect("a source")));
    }
    // A comment is not said.
    let code = |source: &str| {
        let lines = source.lines();
        let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let all: Vec<String> = found
        .into_iter()
        .map(|(_, source)| code(&source))
        .map(|source| source.replace("\\\n", "").replace("\\\"", "\""))
        .map(|source| source.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let all = all.join("\n");
    // One text may end where another begins.
    let is_said = |line: &str| {
        let mut cuts = line.char_indices().map(|(at, _)| line.split_at(at));
        cuts.any(|(one, other)| all.contains(one.trim()) && all.contains(other.trim()))
    };
    let page = Page::read("docs/troubleshooting.md").text;
    let (_, explained) = page.split_once("## What dblock says").expect("a heading");
    let mut unknown = Vec::new();
    for row in explained.lines().filter(|line| line.starts_with("| `")) {
        let cell = row
            .trim_start_matches("| ")
            .split(" | ")
            .next()
            .unwrap_or_default();
        if cell.contains("``") {
            continue;
        }
        for line in cell.split('`').skip(1).step_by(2) {
            let pieces = line
                .split('…')
                .flat_map(|piece| piece.split("; "))
                .map(|piece| piece.trim_matches([' ', ':', ';', ',', '(', ')', '\'', '.', '?']));
            for piece in pieces.filter(|piece| piece.split(' ').count() >= 3) {
                if !is_said(piece) {
                    unknown.push(piece.to_owned());
                }
            }
        }
    }
    assert!(unknown.is_empty(), "dblock does not say: {unknown:#?}");
}

/// Lines of a record: each with these members in place of those of a run that went well.
fn report(runs: &[Value]) -> String {
    let whole = serde_json::json!({
        "name": "report", "slot": 0, "slot_name": null, "host": "web2", "pid": 4711, "user": "app", "program": "report",
        "server": "db.example.com:3306", "connection": 812, "requested": "2025-11-21T02:00:00.104Z",
        "acquired": "2025-11-21T02:00:00.109Z", "started": "2025-11-21T02:00:00.110Z", "ended": "2025-11-21T02:03:12.417Z",
        "waited_seconds": 0.005, "ran_seconds": 192.307, "outcome": "ran", "exit_code": 0, "signal": null, "lock_events": [],
        "message": null, "dblock_version": "0.1.0",
    });
    let mut lines = String::new();
    for run in runs.iter().chain([&Value::Null]) {
        let mut line = whole.clone();
        for (key, value) in run.as_object().into_iter().flatten() {
            line[key] = value.clone();
        }
        let _ = writeln!(lines, "{line}");
    }
    lines
}

/// The block of a page that is this file.
pub fn block_of(page: &str, file: &str) -> Block {
    let blocks = Page::read(page).blocks();
    let mut found = blocks
        .into_iter()
        .filter(|block| block.file() == Some(file));
    found.next().expect("the file is in the page")
}

#[test]
fn the_answer_to_a_web_hook_says_whether_it_is_called_again() {
    let script = block_of("docs/queue.md", "/usr/local/bin/call-hook").text;
    let script = format!("curl() {{ cat >/dev/null; echo \"$ANSWER\"; }}\n{script}");
    let call = "printf 'https://hooks.example.com/paid\\n{}' | sh -c \"$1\"";
    for (answers, code) in [
        (&["200", "204"][..], 0),
        (&["429", "503"], 75),
        (&["408", "425", "500", "504"], 1),
        (&["400", "404", "410"], 4),
    ] {
        for answer in answers {
            let output = Command::new("sh")
                .args(["-c", call, "sh", &script])
                .env("ANSWER", answer)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(code), "{answer}: {output:?}");
        }
    }
}

#[test]
fn the_metrics_are_those_of_the_record() {
    needs("jq", "jq");
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("runs.jsonl");
    let odd = "a \"name\" with \\";
    let lines = report(&[
        serde_json::json!({"outcome": "skipped", "exit_code": 75, "started": null, "ran_seconds": null,
            "ended": "2025-11-21T03:00:00.000Z", "slot": null}),
        serde_json::json!({"outcome": "lost", "exit_code": 74, "ran_seconds": 1.5, "ended": "2025-11-21T02:30:00.250Z",
            "lock_events": [{"at": "2025-11-21T02:29:59.000Z", "event": "lost", "detail": "the server ended the session"},
                {"at": "2025-11-21T02:30:00.000Z", "event": "abandoned", "detail": "is held by connection 9"}]}),
        serde_json::json!({"name": odd, "outcome": "skipped", "exit_code": 75, "started": null, "ran_seconds": null}),
    ]);
    fs::write(&record, lines).unwrap();
    let script = block_of("docs/recipes.md", "/usr/local/bin/dblock-metrics").text;
    let script = script
        .replace(RECORD, &record.display().to_string())
        .replace(
            "/var/lib/prometheus/node-exporter",
            &folder.path().display().to_string(),
        );
    let status = Command::new("sh").args(["-c", &script]).status();
    assert!(status.unwrap().success());
    let metrics = fs::read_to_string(folder.path().join("dblock-runs.prom")).unwrap();
    let samples: Vec<&str> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(
        samples,
        [
            r#"dblock_runs_total{name="a \"name\" with \\",outcome="skipped"} 1"#,
            r#"dblock_runs_total{name="report",outcome="lost"} 1"#,
            r#"dblock_runs_total{name="report",outcome="ran"} 1"#,
            r#"dblock_runs_total{name="report",outcome="skipped"} 1"#,
            r#"dblock_lock_lost_total{name="a \"name\" with \\"} 0"#,
            r#"dblock_lock_lost_total{name="report"} 1"#,
            r#"dblock_last_run_timestamp_seconds{name="report"} 1763692200.25"#,
            r#"dblock_last_run_duration_seconds{name="report"} 1.5"#,
            r#"dblock_last_run_exit_code{name="report"} 74"#,
            r#"dblock_last_success_timestamp_seconds{name="report"} 1763690592.417"#,
        ]
    );
    // As the format has it: each metric once, with its help and type before it.
    for name in samples.iter().filter_map(|sample| sample.split('{').next()) {
        assert_eq!(
            metrics.matches(&format!("# TYPE {name} ")).count(),
            1,
            "{metrics}"
        );
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "no half file is left: {left:?}");
}

both_servers! {
    fn a_second_deployment_waits_for_the_first(server on mysql) {
        let host = Host::new(server.kind);
        let script = block_of("docs/recipes.md", "/usr/local/bin/deploy").text;
        host.write("/usr/local/bin/deploy", script.as_bytes(), 0o755);
        let git = "#!/bin/sh\necho git >>/run/calls\nuntil [ -e /run/enough ]; do sleep 0.02; done\n";
        host.write("/usr/local/bin/git", git.as_bytes(), 0o755);
        let mut runs = [1, 2].map(|_| {
            let run = host.sh("deploy", &Vec::new()).spawn();
            eventually("the first one deploys", SOON, || host.calls() == ["git"]);
            run
        });
        eventually("the second one waits", SOON, || host.server.waiters("deploy").len() == 1);
        assert_eq!(host.calls(), ["git"]);
        host.write("/run/enough", b"", 0o644);
        for run in &mut runs {
            run.wait_within(SOON).expect_code(0).expect_silence();
        }
        assert_eq!(host.calls().len(), 4, "both have deployed: {:?}", host.calls());
    }

    fn a_web_hook_and_a_mail_have_the_line_of_the_run_that_failed(server on mysql) {
        needs("jq", "jq");
        let host = Host::new(server.kind);
        // They write down what they were given, and send nothing.
        for program in ["curl", "sendmail"] {
            let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >/run/{program}.arguments\ncat >/run/{program}.given\n");
            host.write(&format!("/usr/local/bin/{program}"), script.as_bytes(), 0o755);
        }
        for hook in ["/usr/local/bin/tell-us", "/usr/local/bin/mail-us"] {
            let script = block_of("docs/recipes.md", hook).text;
            // That folder is the machine's.
            let script = script.replace("/usr/sbin/sendmail ", "/usr/local/bin/sendmail ");
            host.write(hook, script.as_bytes(), 0o755);
        }
        let run = "dblock run --name 'nightly %s' --on-failure tell-us --on-end mail-us --report /run/report -- sh -c 'exit 3'";
        host.sh(run, &Vec::new()).output().expect_code(3).expect_silence();
        let written = |file: &str| fs::read_to_string(host.path(&format!("/run/{file}"))).expect(file);
        let line = written("report");
        let report: Value = serde_json::from_str(&line).expect("one line");
        assert_eq!((&report["name"], &report["exit_code"]), (&"nightly %s".into(), &3.into()));
        // As it is, with its end.
        assert_eq!(written("curl.given"), line);
        let hook = written("curl.arguments");
        for argument in ["Content-Type: application/json", "--data-binary", "@-", "https://hooks.example.com/dblock"] {
            assert!(hook.lines().any(|one| one == argument), "{argument}: {hook}");
        }
        assert_eq!(written("sendmail.arguments"), "-t\n");
        let mail = written("sendmail.given");
        let (head, body) = mail.split_once("\n\n").expect("a head");
        assert_eq!(head, "To: ops@example.com\nSubject: nightly %s: ran");
        let in_lines = Command::new("jq").arg(".").arg(host.path("/run/report")).output().expect("jq starts");
        assert_eq!(body, String::from_utf8_lossy(&in_lines.stdout));
    }

    fn a_guarded_job_writes_nothing_once_a_later_run_has_begun(server on mariadb) {
        let host = Host::new(server.kind);
        let mut admin = host.server.admin();
        admin.query_drop("USE app").unwrap();
        for block in Page::read("docs/limits.md").blocks().iter().filter(|block| block.text.contains("CREATE TABLE")) {
            for statement in block.text.split_terminator(";\n") {
                admin.query_drop(statement).unwrap();
            }
        }
        let script = block_of("docs/limits.md", "/usr/local/bin/guarded-report").text;
        host.write("/usr/local/bin/guarded-report", script.as_bytes(), 0o755);
        host.write("/usr/local/bin/figures", b"#!/bin/sh\necho 42\n", 0o755);
        let run = || host.sh("dblock run --name report -- guarded-report", &Vec::new()).output();
        run().expect_code(0);
        let figures = b"#!/bin/sh\nmysql --execute \"UPDATE job SET run = run + 1\"\necho 43\n";
        host.write("/usr/local/bin/figures", figures, 0o755);
        run().expect_code(1).expect_said(["a later run has begun"]);
        let written: Vec<String> = admin.query("SELECT figures FROM report").unwrap();
        assert_eq!(written, ["42"]);
    }

    fn chronic_shows_what_a_job_said_only_if_it_failed(server on mysql) {
        needs("chronic", "moreutils");
        let host = Host::new(server.kind);
        let page = Page::read("docs/recipes.md");
        let line = page.text.lines().find(|line| line.contains("-- chronic")).unwrap();
        let run = |job: &str| {
            host.write("/usr/local/bin/rebuild", format!("#!/bin/sh\necho word\n{job}\n").as_bytes(), 0o755);
            host.sh(after_fields(line, 5), &Vec::new()).output()
        };
        run("exit 0").expect_code(0).expect_stdout("").expect_silence();
        run("exit 3").expect_code(3).expect_stdout("word\n");
        // A skip is as silent as it was asked to be.
        let _held = {
            let mut holder = host.server.admin();
            holder.query_drop("DO GET_LOCK('rebuild', 0)").unwrap();
            holder
        };
        run("exit 0").expect_code(0).expect_stdout("").expect_silence();
    }

    fn the_log_has_what_a_job_said_and_a_ping_is_sent_only_when_it_ran(server on mariadb) {
        needs("logger", "bsdutils");
        let host = Host::new(server.kind);
        let page = Page::read("docs/recipes.md");
        let line = |part: &str| after_fields(page.text.lines().find(|line| line.contains(part)).unwrap(), 5);
        host.write("/usr/local/bin/vacuum", b"#!/bin/sh\necho cleaned\n", 0o755);
        host.sh(line("logger -t vacuum"), &Vec::new()).output().expect_code(0).expect_stdout("");
        eventually("it is in the log", SOON, || {
            let logged = host.logged();
            logged.contains("vacuum") && logged.contains("cleaned")
        });
        let ping = line("https://ping.example.com");
        host.stub("/usr/local/bin/invoice");
        host.sh(ping, &Vec::new()).output().expect_code(0).expect_silence();
        let pings = || host.calls().iter().filter(|call| call.starts_with("curl[")).count();
        assert_eq!(pings(), 1, "{:?}", host.calls());
        let mut holder = host.server.admin();
        holder.query_drop("DO GET_LOCK('invoice', 0)").unwrap();
        host.sh(ping, &Vec::new()).output().expect_code(75).expect_silence();
        assert_eq!(pings(), 1, "a skip pings nobody");
    }
}

#[test]
fn a_block_that_nobody_runs_is_told() {
    let page = Page {
        name: "some.md".to_owned(),
        text: "# One\n\n    indented --line\n\n## Two\n\n```perl\nexit\n```\n\n1. x\n\n   ```sh\n   true\n   ```\n".to_owned(),
    };
    let blocks = page.blocks();
    let found: Vec<_> = blocks
        .iter()
        .map(|block| (&*block.heading, language_of(block), &*block.text))
        .collect();
    assert_eq!(
        found,
        [
            ("One", "sh", "indented --line\n"),
            ("Two", "perl", "exit\n"),
            ("Two", "sh", "true\n")
        ]
    );
    let told = thread::spawn(move || {
        let mut reader = Reader {
            host: Host::new(Kind::MariaDb),
            kind: Kind::MariaDb,
            files: BTreeSet::new(),
            wrong: String::new(),
        };
        for block in &blocks {
            reader.does(block);
        }
        reader.wrong
    });
    let told = told.join().unwrap();
    assert!(
        told.contains("some.md:3") && told.contains("nobody runs this block"),
        "{told}"
    );
    assert!(
        !told.contains("some.md:13"),
        "what works is not told: {told}"
    );
}
