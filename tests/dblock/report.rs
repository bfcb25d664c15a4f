//! `--report`: one whole line of JSON for each run, whatever came of it, and never another exit code for it.

use std::fs;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{gethostname, mkfifo};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::schema::follows;
use crate::harness::{
    Dblock, Kind, PASSWORD, SOON, Server, both_servers, each_lock, eventually, send, slack, unique,
    url_of_port,
};

/// A folder for a report.
struct Reports(TempDir);

impl Reports {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> String {
        self.0.path().join("report.jsonl").display().to_string()
    }

    /// All lines, each of which is as `docs/report.schema.json` says.
    #[track_caller]
    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.file()).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect();
        for line in text.lines() {
            follows(line, "report");
        }
        lines
    }

    #[track_caller]
    fn only(&self) -> Value {
        let lines = self.lines();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        lines[0].clone()
    }
}

fn run(server: &Server, name: &str, reports: &Reports) -> Dblock {
    Dblock::run(server, name).args(["--report", &reports.file()])
}

each_lock! {
    fn a_run_is_reported(server) {
        let (name, reports) = (unique("ran"), Reports::new());
        run(server, &name, &reports).sh("exit 3 # secret-argument").output().expect_code(3).expect_silence();
        let line = reports.only();
        assert_eq!(line["name"], name);
        assert_eq!((&line["slot"], &line["slot_name"]), (&0.into(), &Value::Null));
        assert_eq!(line["host"], gethostname().unwrap().to_str().unwrap());
        assert_eq!(line["program"], "sh");
        assert_eq!(line["server"], format!("127.0.0.1:{}", server.port));
        assert_eq!((&line["outcome"], &line["exit_code"]), (&"ran".into(), &3.into()));
        assert!(line["connection"].is_u64() && line["lock_events"] == serde_json::json!([]), "{line:#}");
        let moments: Vec<&str> = ["requested", "acquired", "started", "ended"].iter().map(|at| line[at].as_str().unwrap()).collect();
        assert!(moments.is_sorted(), "{line:#}");
        assert!(!line.to_string().contains("secret-argument"));
    }

    fn each_end_has_its_outcome(server) {
        let (name, reports) = (unique("ends"), Reports::new());
        let run = || run(server, &name, &reports);
        run().sh("kill -KILL $$").output().expect_signal(Signal::SIGKILL);
        run().args(["--timeout", "0.2"]).command(["sleep", "60"]).output().expect_code(124);
        run().command(["/no/such/program"]).output().expect_code(127);
        run().args(["--slots", "a,b"]).command(["true"]).output().expect_code(0);
        let held = server.hold(&name);
        run().command(["true"]).output().expect_code(75);
        run().args(["-E", "0", "--wait", "0.3"]).command(["true"]).output().expect_code(0).expect_silence();
        let waiting = run().args(["--wait", "60"]).command(["true"]).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        waiting.signal(Signal::SIGTERM);
        waiting.wait().expect_signal(Signal::SIGTERM);
        drop(held);
        run().env("DBLOCK_PASSWORD", "wrong").command(["true"]).output().expect_code(77);
        let nobody = || run().env("DBLOCK_URL", url_of_port(1)).args(["--connect-timeout", "0.3"]).command(["true"]);
        nobody().output().expect_code(69);
        nobody().args(["--if-unreachable", "run"]).output().expect_code(0);
        let told: Vec<_> = reports.lines().iter().map(|line| {
            let text = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
            (text("outcome"), line["exit_code"].as_i64().unwrap(), text("signal"), line["acquired"].is_string(), line["started"].is_string())
        }).collect();
        let expected = [
            ("ran", 137, "SIGKILL", true, true),
            ("timed_out", 124, "SIGTERM", true, true),
            ("failed", 127, "-", true, false),
            ("ran", 0, "-", true, true),
            ("skipped", 75, "-", false, false),
            ("skipped", 0, "-", false, false),
            ("interrupted", 143, "SIGTERM", false, false),
            ("failed", 77, "-", false, false),
            ("failed", 69, "-", false, false),
            ("ran", 0, "-", false, true),
        ].map(|(outcome, code, signal, had, started)| (outcome.to_owned(), code, signal.to_owned(), had, started));
        assert_eq!(told, expected);
        let lines = reports.lines();
        assert_eq!(lines[3]["slot_name"], "a");
        assert!(lines[4]["message"].as_str().unwrap().contains("is held by"), "{:#}", lines[4]);
        assert!(lines[5]["waited_seconds"].as_f64().unwrap() >= 0.3, "{:#}", lines[5]);
        assert!(lines[9]["message"].as_str().unwrap().contains("running without the lock"), "{:#}", lines[9]);
    }

    fn lines_of_many_at_once_are_whole(server) {
        let (name, reports) = (unique("many"), Reports::new());
        let all: Vec<_> = (0..20).map(|_| run(server, &name, &reports).args(["-m", "5"]).command(["true"]).spawn()).collect();
        for one in all {
            one.wait();
        }
        assert_eq!(reports.lines().len(), 20);
    }

    fn a_report_that_cannot_be_written_is_a_warning_and_nothing_else(server) {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        mkfifo(&*folder.path().join("pipe"), Mode::S_IRWXU).unwrap();
        let cases = [
            (path("no/such/folder"), "No such file or directory"),
            (folder.path().display().to_string(), "Is a directory"),
            ("/dev/full".to_owned(), "No space left on device"),
            (path("pipe"), "No such device or address"),
        ];
        for (file, why) in cases {
            let name = unique("unwritten");
            let run = || Dblock::run(server, &name).args(["--report", &file]);
            let told = run().sh("exit 5").output();
            told.expect_code(5).expect_one_line(&format!("cannot write the report to {file}: {why}"));
            told.expect_took(Duration::ZERO, 5 * slack());
            run().arg("-q").sh("kill -TERM $$").output().expect_signal(Signal::SIGTERM).expect_silence();
            let _held = server.hold(&name);
            run().command(["true"]).output().expect_code(75).expect_said(["not run", "cannot write the report"]);
        }
    }

    fn a_report_on_stdout_comes_behind_what_the_command_wrote(server) {
        for args in [&[][..], &["--hold-at-least", "0.3"]] {
            let run = Dblock::run(server, &unique("stdout")).args(["--report", "-"]).args(args).command(["echo", "word"]).output();
            run.expect_code(0).expect_silence();
            let (word, line) = run.stdout.split_once('\n').unwrap();
            assert_eq!(word, "word");
            let line: Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["outcome"], "ran");
        }
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let run = Dblock::run(server, &unique("stdout")).args(["--report", "-"]).stdout(Stdio::from(writer)).sh("exit 4").output();
        run.expect_code(4).expect_silence();
    }

    fn a_closed_stdout_is_told(server) {
        let run = Dblock::run(server, &unique("closed")).args(["--report", "-"]).pre_exec(|| Ok(nix::unistd::close(1)?));
        let run = run.sh("exit 7").output();
        run.expect_code(7).expect_one_line("cannot write the report to stdout: Bad file descriptor");
    }

    fn a_full_pipe_is_not_waited_for(server) {
        use nix::fcntl::{FcntlArg, fcntl};
        let (reader, mut writer) = io::pipe().unwrap();
        let room = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
        io::Write::write_all(&mut writer, &vec![b'x'; usize::try_from(room).unwrap() - 10]).unwrap();
        let run = Dblock::run(server, &unique("full")).args(["--report", "-"]).stdout(Stdio::from(writer)).sh("exit 6").output();
        run.expect_code(6).expect_one_line("cannot write the report to stdout").expect_took(Duration::ZERO, 5 * slack());
        drop(reader);
    }

    fn a_line_is_one_that_a_pipe_takes_at_once(server) {
        let (name, reports) = ("\u{fffd}".repeat(66), Reports::new());
        let program = "p\u{1}".repeat(100);
        let _held = server.hold(&crate::names::on_server(&name));
        run(server, &name, &reports).command([program]).output().expect_code(75);
        let text = fs::read_to_string(reports.file()).unwrap();
        assert!(text.len() <= 4096, "{} bytes: {text}", text.len());
        reports.only();
    }

    fn a_torn_line_spoils_no_other(server) {
        let (name, reports) = (unique("torn"), Reports::new());
        fs::write(reports.file(), "{\"torn").unwrap();
        run(server, &name, &reports).command(["true"]).output().expect_code(0).expect_silence();
        let text = fs::read_to_string(reports.file()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 2 && lines[0] == "{\"torn" && lines[1].starts_with('{'), "{text}");
    }

    fn a_limit_on_the_size_of_files_is_an_error_like_another(server) {
        let (name, reports) = (unique("limit"), Reports::new());
        fs::write(reports.file(), "x".repeat(2048) + "\n").unwrap();
        let limited = ["sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"];
        let run = run(server, &name, &reports).under(limited).sh("exit 3").output();
        run.expect_code(3);
    }

    fn what_is_no_file_is_refused_before_anything_runs(server) {
        let run = Dblock::run(server, &unique("empty")).args(["--report", ""]).command(["echo", "ran"]).output();
        run.expect_code(64).expect_stdout("").expect_one_line("--report");
    }

    fn a_file_that_is_there_is_appended_to(server) {
        let (name, reports) = (unique("append"), Reports::new());
        fs::write(reports.file(), "{\"before\": 1}\n").unwrap();
        run(server, &name, &reports).command(["true"]).output().expect_code(0);
        let text = fs::read_to_string(reports.file()).unwrap();
        assert!(text.starts_with("{\"before\": 1}\n{") && text.lines().count() == 2, "{text}");
    }
}

#[test]
fn a_report_can_be_asked_for_in_an_option_file() {
    let server = Server::shared(Kind::MariaDb);
    let (name, reports) = (unique("file"), Reports::new());
    let options = reports.0.path().join("dblock.cnf");
    fs::write(&options, format!("[dblock]\nreport = {}\n", reports.file())).unwrap();
    let run = Dblock::run(server, &name)
        .arg("--defaults-file")
        .arg(&options);
    run.command(["true"])
        .output()
        .expect_code(0)
        .expect_silence();
    assert_eq!(reports.only()["name"], name);
}

/// A job hangs, the next ones are skipped, somebody looks and ends it, the next one runs, and the report tells the story.
fn an_incident(server: &Server) {
    let (name, reports) = (unique("nightly"), Reports::new());
    let mut hung = run(server, &name, &reports)
        .without_terminal()
        .sh("echo hangs $$; exec sleep 600")
        .spawn();
    let command = hung.wait_pid("hangs");
    for _ in 0..2 {
        let skipped = run(server, &name, &reports).command(["true"]).output();
        skipped
            .expect_code(75)
            .expect_one_line(&format!("dblock: {name} is held by "));
        if server.kind == Kind::MySql {
            skipped.expect_said([format!(", pid {} (sh), for ", hung.pid())]);
        }
    }
    let status = Dblock::at(server, "status")
        .args(["--json", &name])
        .output();
    let status = status.expect_code(0).json();
    let holder = &status["locks"][0]["holders"][0];
    let row = format!("{}", holder["connection"]);
    assert_eq!(server.holder(&name).unwrap().to_string(), row, "{status:#}");
    let killed = Dblock::at(server, "kill").arg(&name).output();
    killed.expect_code(0).expect_silence();
    assert!(
        killed.stdout.contains("its command has ended") && !crate::harness::runs(command),
        "{killed:#?}"
    );
    hung.wait_within(SOON)
        .expect_code(74)
        .expect_said(["was ended by"]);
    run(server, &name, &reports)
        .command(["true"])
        .output()
        .expect_code(0)
        .expect_silence();
    let lines = reports.lines();
    let story: Vec<_> = lines
        .iter()
        .map(|line| {
            (
                line["outcome"].as_str().unwrap(),
                line["exit_code"].as_i64().unwrap(),
            )
        })
        .collect();
    // Of the two that end at about the same moment either may write first.
    assert_eq!(story[..2], [("skipped", 75), ("skipped", 75)]);
    assert!(
        story[2..].contains(&("lost", 74)) && story[2..].contains(&("ran", 0)),
        "{story:?}"
    );
    let lost = lines.iter().find(|line| line["outcome"] == "lost").unwrap();
    let events: Vec<_> = lost["lock_events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(events, ["lost", "killed"], "{lost:#}");
    assert!(
        !fs::read_to_string(reports.file())
            .unwrap()
            .contains(PASSWORD)
    );
}

// What happens to a named lock, which ends with its session.
both_servers! {
    fn an_incident_is_seen_ended_and_told(server) {
        an_incident(server);
    }

    fn a_kill_that_is_found_again_on_another_session_is_reported_once(server on mysql) {
        let (name, reports) = (unique("again"), Reports::new());
        let run = run(server, &name, &reports).without_terminal().args(["--kill-after", "60"]);
        let mut dblock = run.sh("trap '' TERM; echo shell $$; exec sleep 600").spawn();
        let command = dblock.wait_pid("shell");
        let killing = Dblock::at(server, "kill").args([&*name, "--wait", "forever"]).spawn();
        let ending = format!("{name}#end0");
        let before = server.eventually_held(&ending);
        server.admin().query_drop(format!("KILL {before}")).unwrap();
        eventually("it is announced again", SOON, || server.holder(&ending).is_some_and(|id| id != before));
        send(command, Signal::SIGKILL);
        killing.wait().expect_code(0);
        dblock.wait_within(SOON).expect_code(74);
        let line = reports.only();
        let events: Vec<_> = line["lock_events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["lost", "killed"], "{line:#}");
    }

    fn each_loss_of_the_lock_is_reported_and_each_reacquisition(server) {
        let (name, reports) = (unique("lost"), Reports::new());
        let mut dblock = run(server, &name, &reports).stdin(Stdio::piped()).sh("echo runs; read x").spawn();
        dblock.wait_line("runs", SOON);
        for times in 1..=2 {
            let id = server.holder(&name).unwrap();
            server.admin().query_drop(format!("KILL {id}")).unwrap();
            eventually("it is shown", SOON, || dblock.stderr().matches("reacquired after").count() == times);
        }
        drop(dblock.take_stdin());
        dblock.wait();
        let line = reports.only();
        let events: Vec<_> = line["lock_events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["lost", "reacquired", "lost", "reacquired"], "{line:#}");
        assert_eq!(line["outcome"], "ran");
    }
}
