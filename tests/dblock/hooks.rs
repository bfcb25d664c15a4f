//! `--on-failure` and `--on-end`: what is run when a run has ended, once, with its report; and it changes no exit code.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::crontab::{end, job, scheduler_of};
use crate::harness::jobs::claimer_of;
use crate::harness::schema::follows;
use crate::harness::{
    Crontab, Dblock, Jobs, Kind, Running, SOON, Server, Watcher, all_servers, both_servers,
    eventually, eventually_gone, kill_both, quoted, unique,
};

/// Where a hook writes what it was told.
struct Told(TempDir);

impl Told {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("told")
    }

    /// A hook that writes this word, how the run ended, and the report, in one piece.
    fn hook(&self, word: &str) -> String {
        let file = quoted(&self.file());
        format!(
            "line=$(cat); echo \"{word} $DBLOCK_NAME $DBLOCK_RESULT ${{DBLOCK_EXIT_CODE-none}} ${{DBLOCK_WILL_RETRY-}}|$line\" >>{file}"
        )
    }

    /// The words of each call, and its report, which is as its schema says.
    fn calls(&self) -> Vec<(String, Value)> {
        let text = fs::read_to_string(self.file()).unwrap_or_default();
        let call = |line: &str| {
            let (words, report) = line.split_once('|').expect("a report");
            follows(report, "report");
            (
                words.trim_end().to_owned(),
                serde_json::from_str(report).unwrap(),
            )
        };
        text.lines().map(call).collect()
    }

    fn words(&self) -> Vec<String> {
        self.calls().into_iter().map(|(words, _)| words).collect()
    }

    #[track_caller]
    fn eventually(&self, calls: usize) -> Vec<(String, Value)> {
        eventually(&format!("{calls} are told"), SOON, || {
            self.calls().len() >= calls
        });
        self.calls()
    }
}

fn server() -> &'static Server {
    Server::shared(Kind::MariaDb)
}

fn run(server: &Server, name: &str, told: &Told) -> Dblock {
    let (failure, end) = (told.hook("failure"), told.hook("end"));
    Dblock::run(server, name).args(["--on-failure", &failure, "--on-end", &end])
}

all_servers! {
    fn a_failed_run_tells_both_and_a_success_only_one(server on mariadb) {
        let (name, told) = (unique("hooks"), Told::new());
        run(server, &name, &told)
            .sh("exit 3")
            .output()
            .expect_code(3)
            .expect_silence();
        let mut calls = told.calls();
        calls.sort_by(|(one, _), (other, _)| one.cmp(other));
        let words: Vec<&str> = calls.iter().map(|(words, _)| &**words).collect();
        assert_eq!(
            words,
            [format!("end {name} ran 3"), format!("failure {name} ran 3")]
        );
        for (_, report) in &calls {
            assert_eq!(
                (&report["program"], &report["exit_code"]),
                (&"sh".into(), &3.into())
            );
        }
        run(server, &name, &told)
            .command(["true"])
            .output()
            .expect_code(0)
            .expect_silence();
        assert_eq!(told.words().last().unwrap(), &format!("end {name} ran 0"));
        assert_eq!(told.calls().len(), 3);
    }

    fn each_attempt_of_a_tick_tells_and_says_whether_another_one_follows(server on mariadb) {
        let told = Told::new();
        let options = "--retries 1 --retry-delay 0s --on-end ''";
        let crontab = Crontab::new(server, &job(options, "echo $DBLOCK_TICK >>{}; exit 4"));
        let (failure, other) = (told.hook("failure"), told.hook("end"));
        let host = crontab.start(&["--on-failure", &failure, "--on-end", &other]);
        crontab.due("job");
        let mut calls = told.eventually(2);
        // The second attempt does not wait for what the first one has started.
        calls.sort_by_key(|(_, report)| report["attempt"].as_u64());
        let name = crontab.name("job");
        let words: Vec<&str> = calls.iter().map(|(words, _)| &**words).collect();
        assert_eq!(
            words,
            [
                format!("failure {name} ran 4 yes"),
                format!("failure {name} ran 4 no")
            ]
        );
        let attempts: Vec<&Value> = calls.iter().map(|(_, report)| &report["attempt"]).collect();
        assert_eq!(attempts, [1, 2]);
        assert!(
            calls.iter().all(|(_, report)| report["tick"].is_string()),
            "{calls:?}"
        );
        end(host);
    }
}

#[test]
fn what_timed_out_or_could_not_start_has_failed() {
    let (name, told) = (unique("hooks"), Told::new());
    let run = || Dblock::run(server(), &name).args(["--on-failure", &told.hook("failure")]);
    run()
        .args(["--timeout", "0.1"])
        .command(["sleep", "60"])
        .output()
        .expect_code(124);
    run()
        .command(["/no/such/program"])
        .output()
        .expect_code(127);
    run()
        .args(["--port", "1", "--connect-timeout", "1"])
        .command(["true"])
        .output()
        .expect_code(69);
    let expected = ["timed_out 124", "failed 127", "failed 69"];
    assert_eq!(
        told.words(),
        expected.map(|end| format!("failure {name} {end}"))
    );
}

all_servers! {
    fn a_run_whose_lock_was_lost_has_failed(server) {
        let (name, told) = (unique("hooks"), Told::new());
        let run = Dblock::run(server, &name).args(["--on-lock-lost", "terminate", "--on-failure", &told.hook("failure")]);
        let mut run = run.sh("echo runs; exec sleep 60").spawn();
        run.wait_line("runs", SOON);
        let session = server.holder(&name).expect("it is held");
        server.watcher().end_session(session);
        run.wait_within(SOON).expect_code(74);
        assert_eq!(told.words(), [format!("failure {name} lost 74")]);
    }
}

#[test]
fn an_option_file_names_the_hooks_of_all_runs() {
    let (name, told) = (unique("hooks"), Told::new());
    let options = told.0.path().join("dblock.cnf");
    let line = format!("[dblock]\non-failure = {}\n", told.hook("failure"));
    fs::write(&options, line).unwrap();
    let run = Dblock::run(server(), &name).arg("--defaults-file");
    let output = run.arg(&options).sh("exit 3").output();
    output.expect_code(3).expect_silence();
    assert_eq!(told.words(), [format!("failure {name} ran 3")]);
}

#[test]
fn a_skip_and_a_wait_that_was_ended_tell_nobody() {
    let (name, told) = (unique("hooks"), Told::new());
    let held = server().hold(&name);
    run(server(), &name, &told)
        .command(["true"])
        .output()
        .expect_code(75);
    let waiting = run(server(), &name, &told)
        .args(["--wait", "60"])
        .command(["true"])
        .spawn();
    eventually("it waits", SOON, || server().waiters(&name).len() == 1);
    waiting.signal(Signal::SIGTERM);
    waiting.wait().expect_signal(Signal::SIGTERM);
    drop(held);
    assert!(!told.file().exists(), "{:?}", told.words());
}

#[test]
fn the_lock_is_free_when_it_begins_and_its_output_goes_to_stderr() {
    let name = unique("hooks");
    let hook = "\"$PROGRAM\" run --name \"$DBLOCK_NAME\" -- echo inner";
    let outer = Dblock::run(server(), &name).env("PROGRAM", env!("CARGO_BIN_EXE_dblock"));
    let output = outer.args(["--on-end", hook]).sh("echo outer").output();
    output.expect_code(0);
    assert_eq!((&*output.stdout, &*output.stderr), ("outer\n", "inner\n"));
}

#[test]
fn a_hook_that_fails_is_one_warning_and_no_exit_code() {
    let name = unique("hooks");
    let output = Dblock::run(server(), &name)
        .args(["--on-end", "exit 9"])
        .sh("exit 3")
        .output();
    output.expect_code(3);
    assert_eq!(
        output.stderr,
        format!("dblock: {name}: the command of --on-end ended with 9\n")
    );
    // An empty one is none.
    Dblock::run(server(), &name)
        .args(["--on-end", ""])
        .command(["true"])
        .output()
        .expect_code(0)
        .expect_silence();
}

#[test]
fn a_hook_has_thirty_seconds() {
    let name = unique("hooks");
    let begun = Instant::now();
    let run = Dblock::run(server(), &name)
        .args(["--on-failure", "sleep 300 & echo $!; wait"])
        .sh("exit 3");
    let output = run.output();
    output.expect_code(3);
    assert!(begun.elapsed() >= Duration::from_secs(30));
    let (child, line) = output.stderr.split_once('\n').unwrap();
    assert_eq!(
        line,
        format!("dblock: {name}: the command of --on-failure took too long\n")
    );
    // What it has started is gone, too.
    eventually_gone(child.parse().unwrap(), SOON);
}

#[test]
fn a_signal_ends_a_hook_and_the_exit_code_stays() {
    let (name, told) = (unique("hooks"), Told::new());
    let hook = format!("echo >{}; exec sleep 300", quoted(&told.file()));
    let mut run = Dblock::run(server(), &name)
        .args(["--on-end", &hook])
        .sh("exit 3")
        .spawn();
    eventually("the hook runs", SOON, || told.file().exists());
    run.signal(Signal::SIGTERM);
    run.wait_within(SOON).expect_code(3);
}

#[test]
fn a_job_of_a_crontab_names_a_hook_of_its_own() {
    let hook = r#"--on-failure "echo hook $DBLOCK_RESULT $DBLOCK_EXIT_CODE >>{}""#;
    let crontab = Crontab::new(server(), &job(hook, "exit 4"));
    let host = crontab.start(&[]);
    crontab.due("job");
    assert_eq!(crontab.eventually_lines(1), ["hook ran 4"]);
    crontab.eventually_idle();
    end(host);
}

all_servers! {
    fn the_daemon_that_takes_over_a_tick_tells_of_the_dead_one(server) {
        let told = Told::new();
        let command = "echo $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 2 || exec sleep 600";
        let crontab = Crontab::new(
            server,
            &job(
                "--ttl 10s --kill-after 0.2s --retries 1 --retry-delay 0s",
                command,
            ),
        );
        let hook = told.hook("failure");
        let first = crontab.start(&["--on-failure", &hook]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let second = crontab.start(&["--on-failure", &hook]);
        let scheduler = scheduler_of(first.pid()).unwrap();
        // Nobody is left to record anything, or to start another scheduler.
        kill_both(scheduler, first.pid());
        crontab.eventually_lines(2);
        let calls = told.eventually(1);
        assert_eq!(calls.len(), 1, "{calls:?}");
        let (words, report) = &calls[0];
        assert_eq!(
            *words,
            format!("failure {} failed none yes", crontab.name("job"))
        );
        let message = report["message"].as_str().unwrap();
        assert!(
            message.ends_with("its host gave no sign of life for the TTL"),
            "{message}"
        );
        crontab.eventually_idle();
        end(second);
    }
}

#[test]
fn each_failed_job_of_a_queue_tells_and_a_drain_waits_for_that() {
    let (jobs, told) = (
        Jobs::new(server(), &["--max-attempts", "2", "--retry-delay", "0s"]),
        Told::new(),
    );
    let ids = jobs.put(&["x"]);
    let work = || {
        jobs.work(&["--drain", "--on-failure", &told.hook("failure")])
            .sh("exit 5")
            .output()
    };
    work().expect_code(0);
    if told.calls().len() == 1 {
        // It was delayed for a moment.
        eventually("it is due", SOON, || {
            jobs.count("dblock_delayed") == 0 || {
                work().expect_code(0);
                false
            }
        });
    }
    let mut calls = told.calls();
    // The second attempt does not wait for what the first one has started.
    calls.sort_by_key(|(_, report)| report["attempt"].as_u64());
    let words: Vec<&str> = calls.iter().map(|(words, _)| &**words).collect();
    assert_eq!(words, ["failure q ran 5 yes", "failure q ran 5 no"]);
    for (_, report) in &calls {
        assert_eq!(report["jobs"], serde_json::json!(ids));
    }
}

both_servers! {
    fn the_worker_that_takes_over_tells_of_a_dead_one_with_its_jobs(server) {
        let (jobs, told) = (Jobs::new(server, &["--ttl", "8s"]), Told::new());
        let ids = jobs.put(&["x"]);
        let script = "test $DBLOCK_ATTEMPT = 2 || exec sleep 600";
        // A machine that stands still for some seconds has it end no command.
        let first = jobs
            .work(&["--kill-after", "0", "--on-failure", &told.hook("failure")])
            .sh(script)
            .spawn();
        eventually("it runs", SOON, || jobs.count("dblock_running") == 1);
        let claimer = claimer_of(first.pid()).unwrap();
        // Nobody starts another claimer.
        kill_both(claimer, first.pid());
        let mut second = jobs
            .work(&["--on-failure", &told.hook("failure")])
            .sh(script)
            .spawn();
        let calls = told.eventually(1);
        let (words, report) = &calls[0];
        assert_eq!(words, "failure q failed none yes");
        assert_eq!(
            (&report["jobs"], &report["attempt"]),
            (&serde_json::json!(ids), &1.into())
        );
        eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
        second.signal(Signal::SIGTERM);
        second.wait_within(SOON).expect_code(0);
        assert_eq!(told.calls().len(), 1);
    }
}

#[test]
fn the_worker_that_takes_over_tells_of_a_dead_one_with_all_jobs_of_its_block() {
    let options = ["--claim", "blocks", "--ttl", "8s", "--max-attempts", "1"];
    let (jobs, told) = (Jobs::new(server(), &options), Told::new());
    let ids = jobs.number(3);
    let work = || {
        jobs.work(&["--kill-after", "0", "--on-failure", &told.hook("failure")])
            .sh("exec sleep 600")
            .spawn()
    };
    let first = work();
    eventually("it runs", SOON, || jobs.count("dblock_running") == 1);
    let claimer = claimer_of(first.pid()).unwrap();
    // Nobody starts another claimer.
    kill_both(claimer, first.pid());
    let mut second = work();
    let calls = told.eventually(1);
    let (words, report) = &calls[0];
    assert_eq!(words, "failure q failed none no");
    assert_eq!(report["jobs"], serde_json::json!(ids));
    second.signal(Signal::SIGTERM);
    second.wait_within(SOON).expect_code(0);
}

/// So long a hook has, and then the next one begins.
const OF_A_HOOK: Duration = Duration::from_secs(30);

#[test]
fn a_worker_whose_hooks_are_slow_claims_nothing_that_it_cannot_start() {
    assert!((0..5).any(|_| claims_nothing_that_it_cannot_start()));
}

/// `false`: a hook had been ended for its time before others were to have the jobs.
fn claims_nothing_that_it_cannot_start() -> bool {
    let jobs = Jobs::new(server(), &["--max-attempts", "1"]);
    jobs.number(40);
    let begun = Instant::now();
    let slow = jobs
        .work(&["--on-failure", "exec sleep 600"])
        .sh("exit 5")
        .spawn();
    // At most 32 hooks run at once. One more waits for them, and so do all further jobs.
    eventually("no more start", SOON, || jobs.states()[3] >= 33);
    let other = jobs.work(&["--drain"]).sh("true").output();
    other.expect_code(0);
    let (states, is_in_time) = (jobs.states(), begun.elapsed() < OF_A_HOOK);
    end_beside_hooks(&jobs, slow);
    assert!(!is_in_time || states == [0, 0, 0, 33], "{states:?}");
    is_in_time
}

/// Ends a worker whose hooks hang.
fn end_beside_hooks(jobs: &Jobs, mut worker: Running) {
    worker.signal(Signal::SIGTERM);
    eventually("it waits for its hooks", SOON, || jobs.workers() == 0);
    worker.signal(Signal::SIGTERM);
    worker.wait_within(SOON).expect_code(0);
}

#[test]
fn a_worker_whose_hooks_are_slow_returns_what_it_has_claimed_ahead() {
    assert!((0..5).any(|_| returns_what_it_has_claimed_ahead()));
}

/// `false`: a hook had been ended for its time before others were to have the jobs.
fn returns_what_it_has_claimed_ahead() -> bool {
    let jobs = Jobs::new(server(), &["--retry-delay", "1h"]);
    jobs.number(120);
    let begun = Instant::now();
    // So many at once that more are claimed ahead.
    let slow = jobs
        .work(&["-v", "-j", "16", "--on-failure", "exec sleep 600"])
        .sh("exit 5")
        .spawn();
    let line = "the commands of --on-failure and --on-end take long: returning ";
    eventually("what it cannot start is due again", SOON, || {
        slow.stderr().contains(line) && jobs.states()[2] == 0
    });
    assert_eq!(jobs.count("dblock_due WHERE attempt > 0"), 0);
    let [due, delayed, ..] = jobs.states();
    let other = jobs.work(&["--drain", "-j", "4"]).sh("true").output();
    other.expect_code(0);
    let (states, is_in_time) = (jobs.states(), begun.elapsed() < OF_A_HOOK);
    end_beside_hooks(&jobs, slow);
    if is_in_time {
        assert!(due > 60 && delayed >= 33, "{due} due, {delayed} delayed");
        assert_eq!(states, [0, delayed, 0, 0]);
    }
    is_in_time
}
