//! `dblock queue work`: what a command gets, what its end means for its jobs, in which order and how many at once jobs are started, and
//! when a worker ends by itself or by a signal.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;

use crate::harness::jobs::{commands_of, lines};
use crate::harness::pty::{SUSPEND, Shell};
use crate::harness::{
    Dblock, Hangs, Jobs, Kind, Output, Proxy, Records, Running, SOON, Server, Tables, both_servers,
    children_of, copy_program, eventually, is_stopped, quoted, runs, send, slack, stat_field,
    within, write_program,
};

/// Every byte there is, some times.
fn bytes(length: usize) -> Vec<u8> {
    (0..=255).cycle().take(length).collect()
}

/// Works off what is due with `sh -c SCRIPT`.
#[track_caller]
fn drain(jobs: &Jobs, args: &[&str], script: &str) -> Output {
    let output = jobs.work(args).arg("--drain").sh(script).output();
    output.expect_code(0);
    output
}

/// Puts a job by SQL, as the documentation has it, with this payload and so many parts of it; its id.
#[track_caller]
fn application_puts(jobs: &Jobs, payload: &str, parts: u32) -> u64 {
    let mut application = jobs.tables.admin();
    let mut transaction = application
        .start_transaction(mysql::TxOpts::default())
        .unwrap();
    let job = format!(
        "INSERT INTO dblock_jobs (queue, shard, priority, block, payload, parts, put_at) \
         SELECT id, 0, 0, 0, {payload}, {parts}, UTC_TIMESTAMP(6) FROM dblock_queues LOCK IN SHARE MODE"
    );
    transaction.query_drop(job).unwrap();
    let id: Option<u64> = transaction.query_first("SELECT LAST_INSERT_ID()").unwrap();
    let due = "INSERT INTO dblock_due (queue, shard, priority, job, due_at) \
               SELECT queue, shard, priority, id, put_at FROM dblock_jobs WHERE id = LAST_INSERT_ID()";
    transaction.query_drop(due).unwrap();
    transaction.commit().unwrap();
    id.expect("an id")
}

/// Numbers from 0 to below this, at most 20,000, as `a.n + …` of these tables.
fn numbers_below(limit: u32) -> [String; 2] {
    let digits = "(SELECT 0 n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 \
                  UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let number = "a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n";
    let tables = format!(
        "{digits} a, {digits} b, {digits} c, {digits} d, (SELECT 0 n UNION ALL SELECT 1) e WHERE {number} < {limit}"
    );
    [number.to_owned(), tables]
}

/// A moment that is long over.
const OLD: &str = "UTC_TIMESTAMP(6) - INTERVAL 2 DAY";

/// So many jobs that were done long ago, from number 100,000.
#[track_caller]
fn keep_old(jobs: &Jobs, count: u32) {
    let [number, numbers] = numbers_below(count);
    jobs.tables.sql(&format!(
        "INSERT INTO dblock_jobs (id, queue, shard, priority, block, payload, put_at) SELECT 100000 + {number}, 1, 0, 0, 0, 'x', {OLD} FROM {numbers}"
    ));
    jobs.tables.sql(&format!(
        "INSERT INTO dblock_done (queue, shard, priority, job, due_at, done_at) SELECT 1, 0, 0, 100000 + {number}, {OLD}, {OLD} FROM {numbers}"
    ));
}

/// The notes of so many puts, long ago.
#[track_caller]
fn note_old_puts(jobs: &Jobs, count: u32) {
    let [number, numbers] = numbers_below(count);
    jobs.tables.sql(&format!(
        "INSERT INTO dblock_puts SELECT LPAD({number}, 32, '0'), 1, 1, 1, 1, {OLD} FROM {numbers}"
    ));
}

fn is_deregistered(jobs: &Jobs) -> bool {
    jobs.count("dblock_workers WHERE expires_at IS NOT NULL") == 0
}

#[test]
fn what_is_still_to_be_deleted_does_not_delay_the_end_of_a_worker() {
    let server = Server::shared(Kind::MariaDb);
    let jobs = Jobs::new(server, &["--keep", "1h"]);
    let proxy = Proxy::to(server);
    note_old_puts(&jobs, 20_000);
    jobs.number(50);
    proxy.delay(Duration::from_millis(50));
    let work = jobs
        .work(&["--drain", "--batch", "50"])
        .env("DBLOCK_URL", proxy.url());
    work.command(["true"]).output().expect_code(0);
    assert!(jobs.count("dblock_puts") > 1000 && is_deregistered(&jobs));
    // A signal may come too late to be before all of that.
    assert!((0..10).any(|_| deleting_ends_with_the_worker(server)));
}

/// A worker has drained its queue, deletes what is still to be deleted, and is asked to end. `false`: it has deleted all of that.
fn deleting_ends_with_the_worker(server: &Server) -> bool {
    let (jobs, proxy) = (Jobs::new(server, &["--keep", "1h"]), Proxy::to(server));
    // As many as are recorded in one turn, which is the last.
    jobs.number(200);
    keep_old(&jobs, 5000);
    // It deletes one portion at first, and would delete three before it ends.
    proxy.delay(Duration::from_millis(150));
    // Its login alone takes seconds there.
    let work = jobs
        .work(&["--drain", "--batch", "200", "--connect-timeout", "60"])
        .env("DBLOCK_URL", proxy.url());
    let mut worker = work.sh("cat >/dev/null").spawn();
    eventually("all are done", SOON, || {
        jobs.count("dblock_done WHERE job < 100000") == 200
    });
    worker.signal(Signal::SIGTERM);
    proxy.delay(Duration::ZERO);
    worker.wait_within(SOON).expect_code(0);
    assert!(is_deregistered(&jobs));
    jobs.count("dblock_done WHERE job >= 100000") > 5000 - 2 * 200
}

#[test]
fn no_transaction_is_larger_than_a_cluster_takes() {
    // A group takes no larger transaction than 143 MB, this server none larger than 32 MB.
    let limits = [
        "--log-bin=binlog",
        "--binlog-format=ROW",
        "--max-binlog-cache-size=33554432",
    ];
    let server = Server::private_with(Kind::MariaDb, &limits);
    let jobs = Jobs::new(&server, &[]);
    // As an application puts them.
    let put = |first: u32, jobs_put: u32, bytes: u32| {
        for id in first..first + jobs_put {
            jobs.tables.sql(&format!(
                "INSERT INTO dblock_jobs (id, queue, shard, priority, block, payload, put_at) VALUES ({id}, 1, 0, 0, 0, REPEAT('x', {bytes}), {OLD})"
            ));
        }
    };
    let narrow = |table: &str, besides: &str, from: u32| {
        jobs.tables.sql(&format!(
            "INSERT INTO dblock_{table} (queue, shard, priority, job, due_at{besides}) SELECT 1, 0, 0, id, {OLD}{} FROM dblock_jobs WHERE id >= {from}",
            besides.replace("done_at", OLD)
        ));
    };
    put(101, 40, 1_000_000);
    narrow("done", ", done_at", 101);
    let whole = jobs.tables.admin().query_drop("DELETE FROM dblock_jobs");
    assert!(
        whole
            .unwrap_err()
            .to_string()
            .contains("max_binlog_cache_size")
    );
    put(201, 24, 2_000_000);
    narrow("due", "", 201);
    let work = jobs.work(&["--drain", "--batch", "24"]);
    let output = work.sh("cat >/dev/null").output();
    output.expect_code(0).expect_silence();
    jobs.assert_empty();
    assert_eq!(jobs.count("dblock_done"), 0);
    put(301, 40, 1_000_000);
    narrow("due", "", 301);
    jobs.does("delete", &[]);
    jobs.assert_empty();
}

both_servers! {
    fn the_payload_is_on_stdin_whatever_its_bytes(server on mariadb) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().display();
            let payloads = [bytes(0), bytes(3000), bytes(300_000), bytes(16_000_000)];
            let ids: Vec<u64> = payloads.iter().map(|payload| jobs.feed(&[], payload)[0]).collect();
            let output = drain(&jobs, &[], &format!("cat >{out}/$DBLOCK_JOB_ID; cat | wc -c"));
            output.expect_stdout(&"0\n".repeat(4)).expect_silence();
            for (id, payload) in ids.iter().zip(&payloads) {
                let got = fs::read(folder.path().join(id.to_string())).unwrap();
                assert!(got == *payload, "job {id}: {} bytes of {}", got.len(), payload.len());
            }
            jobs.assert_empty();
        }
    }

    fn an_argument_that_is_exactly_braces_is_the_payload_and_no_shell_sees_it(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["$(echo no) 'x' {} *"]);
        jobs.put(&[""]);
        let work = jobs.work(&["--drain"]).command(["printf", "%s|", "{}", "a{}", "{} ", "{}"]);
        work.output().expect_code(0).expect_silence().expect_stdout("$(echo no) 'x' {} *|a{}|{} |$(echo no) 'x' {} *||a{}|{} ||");
        jobs.assert_empty();
    }

    fn a_payload_that_no_argument_can_be_is_dead_at_once(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        jobs.feed(&[], b"a\0b");
        jobs.feed(&[], &b"x".repeat(131_072));
        jobs.feed(&[], &b"x".repeat(131_071));
        let output = jobs.work(&["--drain"]).command(["sh", "-c", "printf '%s' \"$1\" | wc -c", "sh", "{}"]).output();
        output.expect_code(0).expect_stdout("131071\n");
        assert_eq!(jobs.states(), [0, 0, 0, 2]);
        let errors: Vec<String> = jobs.rows("SELECT last_error FROM dblock_jobs ORDER BY id");
        assert_eq!(errors, ["its payload has a NUL byte, which no argument can have", "its payload is longer than an argument may be"]);
    }

    fn a_payload_with_which_all_arguments_are_too_long_is_dead_and_the_others_go_on(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        jobs.feed(&[], &b"x".repeat(131_000));
        jobs.put(&["y"]);
        // Linux takes 6 MB at most, whatever the limits are.
        let command = ["sh", "-c", "echo $#", "sh"].into_iter().chain(["{}"; 50]);
        let output = jobs.work(&["--drain"]).command(command).output();
        output.expect_code(0).expect_stdout("50\n");
        assert_eq!(jobs.states(), [0, 0, 0, 1]);
        let errors: Vec<String> = jobs.rows("SELECT last_error FROM dblock_jobs");
        assert_eq!(errors, ["its payload and the environment are longer than the system takes"]);
    }

    fn the_command_learns_which_job_it_has(server on mariadb) {
        let jobs = Jobs::new(server, &["--retry-delay", "1ms"]);
        let id = jobs.put(&["x"])[0];
        let script = "echo $DBLOCK_QUEUE $DBLOCK_JOB_ID $DBLOCK_ATTEMPT $DBLOCK_FENCE; test $DBLOCK_ATTEMPT = 2";
        let first = jobs.work(&["--once"]).sh(script).output();
        first.expect_code(1).expect_stdout(&format!("q {id} 1 1\n"));
        jobs.tables.sql("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6)");
        let second = jobs.work(&["--once"]).sh(script).output();
        second.expect_code(0).expect_stdout(&format!("q {id} 2 2\n"));
        jobs.assert_empty();
    }

    fn the_environment_is_the_workers_and_can_be_scrubbed(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        let script = "echo ${DBLOCK_URL+url} ${DBLOCK_PASSWORD+password} ${DBLOCK_DATABASE+database} ${MYSQL_PWD+pwd} $MINE $DBLOCK_QUEUE";
        for (args, said) in [(&[][..], "url password database pwd kept q\n"), (&["--scrub-env"], "kept q\n")] {
            jobs.put(&["x"]);
            let work = jobs.work(args).arg("--drain").env("MYSQL_PWD", "x").env("MINE", "kept").sh(script);
            work.output().expect_code(0).expect_stdout(said);
        }
    }

    fn what_the_command_writes_goes_where_dblock_writes(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["x"]);
        let output = drain(&jobs, &[], "echo out; echo err >&2; printf 'no end' >&2");
        output.expect_stdout("out\n");
        assert_eq!(output.stderr, "err\nno end");
        // Also more than a pipe holds.
        jobs.put(&["x"]);
        let output = drain(&jobs, &[], "head -c 1000000 /dev/zero | tr '\\0' e >&2");
        assert_eq!(output.stderr, "e".repeat(1_000_000));
    }

    fn a_command_that_wants_to_be_started_again_counts_no_attempt(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.put(&["x"]);
            for fence in 1..=3 {
                jobs.work(&["--once"]).sh("exit 75").output().expect_code(75);
                assert_eq!(jobs.states(), [0, 1, 0, 0]);
                assert_eq!(jobs.count(&format!("dblock_delayed WHERE attempt = 0 AND fence = {fence}")), 1);
                let errors: Vec<Option<String>> = jobs.rows("SELECT last_error FROM dblock_jobs");
                assert_eq!(errors, [None]);
                jobs.tables.sql("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6)");
            }
        }
    }

    fn a_job_that_fails_is_tried_again_after_a_delay_that_doubles_and_then_is_dead(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, &[options, &["--retry-delay", "100", "--max-attempts", "4"]].concat());
            jobs.put(&["x"]);
            for attempt in 1..=3 {
                jobs.work(&["--once"]).sh("echo wrong >&2; exit 7").output().expect_code(7);
                let delays: Vec<(u32, f64)> = jobs.rows(
                    "SELECT attempt, TIMESTAMPDIFF(MICROSECOND, failed_at, due_at) / 1000000 FROM dblock_delayed d JOIN dblock_jobs j ON j.id = d.job");
                let longest = 100.0 * f64::from(1 << (attempt - 1));
                assert!(matches!(delays[..], [(found, delay)] if found == attempt && delay > longest * 0.5 - 1.0 && delay < longest + 1.0), "{attempt}: {delays:?}");
                jobs.tables.sql("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6)");
            }
            let long = "for n in $(seq 1 2000); do echo line $n >&2; done; exit 7";
            let last = jobs.work(&["--once"]).sh(long).output();
            last.expect_code(7).expect_said(["is dead, attempt 4: exit 7: "]);
            assert_eq!(jobs.states(), [0, 0, 0, 1]);
            let errors: Vec<String> = jobs.rows("SELECT last_error FROM dblock_jobs JOIN dblock_dead ON id = job WHERE attempt = 4");
            assert!(errors[0].starts_with("exit 7: ") && errors[0].contains("line 1990\nline 1991"), "{errors:?}");
        }
    }

    fn the_error_that_is_kept_is_the_end_of_what_the_command_said(server on mariadb) {
        let jobs = Jobs::new(server, &["--max-attempts", "1"]);
        jobs.put(&["x"]);
        drain(&jobs, &[], "for n in $(seq 1 2000); do echo line $n >&2; done; exit 7");
        let errors: Vec<String> = jobs.rows("SELECT last_error FROM dblock_jobs");
        assert!(errors[0].starts_with("exit 7: ") && errors[0].ends_with("line 1999\nline 2000"), "{errors:?}");
    }

    fn a_command_that_dies_of_a_signal_has_failed(server on mysql) {
        let jobs = Jobs::new(server, &["--max-attempts", "1"]);
        jobs.put(&["x"]);
        drain(&jobs, &[], "kill -SEGV $$");
        let errors: Vec<String> = jobs.rows("SELECT last_error FROM dblock_jobs JOIN dblock_dead ON id = job");
        assert_eq!(errors, ["died of signal 11"]);
    }

    fn an_exit_code_that_buries_makes_the_job_dead_at_once(server on mariadb) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.put(&["3", "4", "5", "0"]);
            drain(&jobs, &["--bury-on", "3,4"], "read code || :; exit $code");
            assert_eq!(jobs.states(), [0, 1, 0, 2]);
            assert_eq!(jobs.count("dblock_dead WHERE attempt = 1"), 2);
            assert_eq!(jobs.count("dblock_jobs"), 3);
            let dead: Vec<String> = jobs.rows("SELECT CONVERT(payload USING utf8mb4) FROM dblock_jobs JOIN dblock_dead ON id = job ORDER BY id");
            assert_eq!(dead, ["3", "4"]);
        }
    }

    fn a_command_that_runs_too_long_is_ended_and_its_job_has_failed(server on mysql) {
        let jobs = Jobs::new(server, &["--max-attempts", "1"]);
        jobs.put(&["heeds"]);
        // A shell may take long to come to its trap.
        let heeds = jobs.work(&["--drain", "--timeout", "10"]).sh("trap 'echo TERM; exit 0' TERM; sleep 60 & wait").output();
        heeds.expect_code(0).expect_stdout("TERM\n").expect_took(Duration::from_secs(10), SOON + slack());
        jobs.put(&["heeds not"]);
        let not = jobs.work(&["--drain", "--timeout", "9", "--kill-after", "0.4"]).sh("trap '' TERM; while :; do sleep 0.1; done").output();
        not.expect_code(0).expect_took(Duration::from_millis(9400), SOON + slack());
        let errors: Vec<(u32, String)> = jobs.rows("SELECT attempt, last_error FROM dblock_jobs JOIN dblock_dead ON id = job");
        assert_eq!(errors, [(1, "timed out after 10s".to_owned()), (1, "timed out after 9s".to_owned())]);
    }

    fn as_many_commands_run_at_once_as_may_and_never_more(server on mariadb) {
        for options in [&[][..], &["--claim", "blocks"], &["--shards", "4"]] {
            let jobs = Jobs::new(server, options);
            jobs.number(30);
            let records = Records::new();
            let here = records.path().join("here");
            // The first three wait for one another.
            let meet = format!("echo x >>{here}; while test $(wc -l <{here}) -lt 3; do sleep 0.01; done", here = quoted(&here));
            let command = records.command_around(0, &meet)[2].replace(" 0 $(date", " $DBLOCK_JOB_ID $(date");
            drain(&jobs, &["-j", "3"], &command);
            records.assert_at_most(3);
            assert_eq!(records.intervals().len(), 30);
            jobs.assert_empty();
        }
    }

    fn jobs_start_by_priority_and_then_first_come_first_served(server) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["--priority", "5", "e", "f"]);
        jobs.put(&["c", "d"]);
        jobs.put(&["--priority", "-5", "a", "b"]);
        drain(&jobs, &[], "cat; exit 0").expect_stdout("abcdef");
        // Also those that come while others run, and as many as are claimed ahead.
        jobs.number(60);
        let worker = drain(&jobs, &[], "cat; echo");
        let expected: String = (1..=60).map(|number: u32| number.to_string() + "\n").collect();
        worker.expect_stdout(&expected);
    }

    fn all_shards_are_worked_off(server on mariadb) {
        for options in [&["--shards", "16"][..], &["--shards", "4", "--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.number(40);
            for number in 41..=60 {
                jobs.put(&[&number.to_string()]);
            }
            assert!(jobs.rows::<u16>("SELECT DISTINCT shard FROM dblock_due").len() > 1);
            let output = drain(&jobs, &["-j", "2"], "read n; echo $n");
            let seen: BTreeSet<u32> = output.stdout.lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!((seen.len(), output.stdout.lines().count()), (60, 60));
            jobs.assert_empty();
        }
    }

    fn a_batch_has_up_to_so_many_jobs_on_lines(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            let ids = jobs.number(7);
            let output = drain(&jobs, &["--batch", "3"], "echo $DBLOCK_JOB_ID, $DBLOCK_ATTEMPT, $DBLOCK_FENCE; cat; echo end");
            let id = |at: usize| ids[at].to_string();
            let of = |from: usize, to: usize| {
                let jobs: Vec<String> = (from..to).map(id).collect();
                let ones = vec!["1"; to - from].join(" ");
                let lines: String = (from..to).map(|at| (at + 1).to_string() + "\n").collect();
                format!("{}, {ones}, {ones}\n{lines}end\n", jobs.join(" "))
            };
            output.expect_stdout(&[of(0, 3), of(3, 6), of(6, 7)].concat()).expect_silence();
            jobs.assert_empty();
        }
    }

    fn a_batch_may_end_each_payload_with_nul(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["a\nb", "", "c"]);
        drain(&jobs, &["--batch", "9", "--null"], "tr '\\0' ';'").expect_stdout("a\nb;;c;");
    }

    fn the_jobs_of_a_batch_are_all_done_or_none(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.number(6);
            // The second batch fails.
            drain(&jobs, &["--batch", "3"], "read first; test $first = 1");
            assert_eq!(jobs.states(), [0, 3, 0, 0]);
            assert_eq!(jobs.count("dblock_delayed WHERE attempt = 1 AND jobs = 1"), 3);
            let left: Vec<String> = jobs.rows("SELECT CONVERT(payload USING utf8mb4) FROM dblock_jobs ORDER BY id");
            assert_eq!(left, ["4", "5", "6"]);
        }
    }

    fn a_job_that_fails_with_others_is_tried_again_alone(server) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let options = [options, &["--max-attempts", "2", "--retry-delay", "0.1s"]].concat();
            let (jobs, records) = (Jobs::new(server, &options), Records::new());
            jobs.number(9);
            let log = records.path().join("log");
            let script = format!("all=$(cat); echo $all >>{}; ! echo \"$all\" | grep -q 5", quoted(&log));
            eventually("each was tried twice", SOON, || {
                drain(&jobs, &["--batch", "20"], &script);
                jobs.states()[..3] == [0, 0, 0]
            });
            // The one that fails is dead, and the others are done.
            assert_eq!((jobs.states()[3], jobs.count("dblock_jobs WHERE payload = '5'")), (1, 1));
            let mut seen = lines(&log);
            assert_eq!(seen.remove(0), "1 2 3 4 5 6 7 8 9");
            seen.sort();
            assert_eq!(seen, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        }
    }

    fn a_worker_that_drains_ends_when_nothing_is_due(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        drain(&jobs, &[], "echo never").expect_stdout("").expect_silence();
        jobs.number(3);
        jobs.put(&["--delay", "1h", "later"]);
        drain(&jobs, &["-j", "2"], "cat >/dev/null");
        assert_eq!(jobs.states(), [0, 1, 0, 0]);
        assert_eq!(jobs.workers(), 0);
        assert_eq!(jobs.count("dblock_workers WHERE died"), 0);
    }

    fn a_worker_that_drains_takes_along_what_becomes_due_meanwhile(server on mysql) {
        let (jobs, records) = (Jobs::new(server, &["--retry-delay", "20ms"]), Records::new());
        let again = quoted(&records.path().join("again"));
        jobs.number(4);
        // The first one fails, and the last one is over when that has run again.
        let first = format!("test $DBLOCK_ATTEMPT = 2 || exit 1; echo >{again}");
        let script = format!("read n; case $n in 1) {first} ;; 4) until test -e {again}; do sleep 0.1; done ;; esac");
        drain(&jobs, &["-j", "2"], &script);
        jobs.assert_empty();
    }

    fn once_runs_one_command_and_ends_as_it_did(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.work(&["--once"]).sh("exit 0").output().expect_code(75).expect_stdout("").expect_silence();
            jobs.number(4);
            jobs.work(&["--once", "-j", "3"]).sh("cat; echo").output().expect_code(0).expect_stdout("1\n");
            jobs.work(&["--once"]).sh("cat; exit 9").output().expect_code(9).expect_stdout("2");
            jobs.work(&["--once"]).sh("kill -KILL $$").output().expect_signal(Signal::SIGKILL);
            let left: u64 = jobs.rows("SELECT SUM(jobs) FROM (SELECT jobs FROM dblock_due UNION ALL SELECT jobs FROM dblock_delayed) x")[0];
            assert_eq!((left, jobs.count("dblock_jobs"), jobs.count("dblock_running"), jobs.workers()), (3, 3, 0, 0));
            assert_eq!(jobs.count("dblock_due WHERE attempt > 0"), 0);
        }
    }

    fn a_key_is_free_again_when_its_job_is_done_or_dead_by_a_person(server) {
        let jobs = Jobs::new(server, &[]);
        let first = jobs.put(&["--key", "k", "one"])[0];
        let taken = jobs.queue("put", &["--key", "k", "two"]).output();
        assert!(taken.stdout.contains(&first.to_string()) || taken.stderr.contains(&first.to_string()), "{taken:?}");
        // Not as long as it may be tried again.
        drain(&jobs, &[], "exit 1");
        assert_eq!(jobs.count("dblock_job_keys"), 1);
        jobs.tables.sql("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6)");
        drain(&jobs, &[], "cat").expect_stdout("one");
        jobs.assert_empty();
        assert!(jobs.put(&["--key", "k", "two"])[0] > first);
        drain(&jobs, &[], "cat").expect_stdout("two");
    }

    fn a_repeating_job_is_due_again_in_its_rhythm_until_it_is_canceled(server) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            let id = jobs.put(&["--every", "1h", "x"])[0];
            let moments = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', due_at) FROM";
            let due = |state: &str| -> Vec<i64> { jobs.rows(&format!("{moments} dblock_{state}")) };
            let first = due("due")[0];
            for round in 1..=3 {
                let output = jobs.work(&["--once"]).sh("echo $DBLOCK_ATTEMPT $DBLOCK_FENCE").output();
                output.expect_code(0).expect_stdout(&format!("1 {round}\n"));
                assert_eq!(due("delayed WHERE attempt = 0 AND every_us IS NOT NULL"), [first + 3_600_000_000]);
                jobs.tables.sql("UPDATE dblock_delayed SET due_at = due_at - INTERVAL 1 HOUR");
            }
            jobs.does("cancel", &[&id.to_string()]);
            jobs.assert_empty();
        }
    }

    fn a_repeating_job_that_fails_is_tried_again_and_never_dead(server on mariadb) {
        for options in [&["--max-attempts", "2"][..], &["--max-attempts", "2", "--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.put(&["--every", "1h", "x"]);
            drain(&jobs, &[], "exit 1");
            assert_eq!((jobs.states(), jobs.count("dblock_delayed WHERE attempt = 1 AND due_at < UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE")), ([0, 1, 0, 0], 1));
            jobs.tables.sql("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6)");
            let last = drain(&jobs, &[], "exit 1");
            last.expect_one_line(" failed, attempt 2: exit 1; it is due again at its next time");
            let waits = "dblock_delayed WHERE attempt = 0 AND due_at > UTC_TIMESTAMP(6) + INTERVAL 59 MINUTE";
            assert_eq!((jobs.states(), jobs.count(waits)), ([0, 1, 0, 0], 1));
            jobs.tables.sql("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6)");
            drain(&jobs, &["--bury-on", "4"], "exit 4").expect_one_line(" failed, attempt 1: exit 4; it is due again at its next time");
            assert_eq!((jobs.states(), jobs.count(waits)), ([0, 1, 0, 0], 1));
        }
    }

    fn a_job_of_a_repeating_block_that_fails_is_tried_again_and_repeats_by_itself(server) {
        let jobs = Jobs::new(server, &["--claim", "blocks", "--retry-delay", "10m"]);
        let ids = jobs.feed(&["--lines", "--every", "2h"], b"1\n2\n3\n4\n");
        drain(&jobs, &["--bury-on", "3"], "read n; case $n in 2) exit 1;; 3) exit 75;; 4) exit 3;; esac");
        let soon = "due_at < UTC_TIMESTAMP(6) + INTERVAL 30 MINUTE";
        let waiting = |which: &str| -> Vec<(u64, u32, u32)> {
            jobs.rows(&format!("SELECT job, attempt, jobs FROM dblock_delayed WHERE every_us IS NOT NULL AND {which} ORDER BY job"))
        };
        assert_eq!(waiting(soon), [(ids[1], 1, 1), (ids[2], 0, 1)]);
        assert_eq!(waiting(&format!("NOT {soon}")), [(ids[0], 0, 1), (ids[3], 0, 1)]);
        assert_eq!((jobs.states(), jobs.count("dblock_jobs WHERE last_error LIKE 'exit _'")), ([0, 4, 0, 0], 2));
        jobs.tables.sql("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6) WHERE attempt = 1");
        drain(&jobs, &[], "read n; echo $n $DBLOCK_ATTEMPT").expect_stdout("2 2\n");
        assert_eq!((waiting(soon), jobs.states()), (vec![(ids[2], 0, 1)], [0, 4, 0, 0]));
    }

    fn a_job_of_a_block_that_is_canceled_while_it_runs_is_not_started_again(server) {
        let jobs = Jobs::new(server, &["--claim", "blocks"]);
        let ids = jobs.number(5);
        let mut worker = jobs.work(&["--grace", "0"]).sh("read n; echo $n; test $n != 2 || sleep 100").spawn();
        worker.wait_line("2", SOON);
        jobs.queue("cancel", &[&ids[3].to_string()]).output();
        worker.signal(Signal::SIGTERM);
        worker.wait_within(SOON).expect_code(0);
        drain(&jobs, &[], "read n; echo $n").expect_stdout("2\n3\n5\n");
        jobs.assert_empty();
    }

    fn a_repeating_job_keeps_its_rhythm(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            let id = jobs.put(&["--every", "400ms", "x"])[0];
            let due = || -> Vec<i64> {
                let tables = ["due", "delayed", "running"].map(|table| format!("SELECT due_at FROM dblock_{table}"));
                let tables = tables.join(" UNION ALL ");
                jobs.rows(&format!("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', due_at) FROM ({tables}) due"))
            };
            let first = due();
            let worker = jobs.work(&[]).sh("echo ran").spawn();
            eventually("it has run some times", SOON, || worker.stdout().lines().count() >= 8);
            // Delays do not add up: however late each run was, the job is due in whole periods from its first time.
            let later = due()[0] - first[0];
            assert!(later >= 7 * 400_000 && later % 400_000 == 0, "{later} microseconds");
            // Canceled while it runs, which on a busy machine it may do again, it is gone when it ends.
            jobs.queue("cancel", &[&id.to_string()]).output();
            eventually("it is gone", SOON, || jobs.count("dblock_jobs") == 0);
            worker.signal(Signal::SIGTERM);
            worker.wait().expect_code(0);
            jobs.assert_empty();
        }
    }

    fn a_repeating_job_that_is_canceled_while_it_runs_is_not_started_again(server) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            let id = jobs.put(&["--every", "10ms", "x"])[0];
            let folder = tempfile::tempdir().unwrap();
            let go = folder.path().join("go");
            let script = format!("echo started; while ! test -e {go}; do sleep 0.1; done", go = quoted(&go));
            let mut worker = jobs.work(&[]).sh(&script).spawn();
            worker.wait_line("started", SOON);
            jobs.queue("cancel", &[&id.to_string()]).output();
            fs::write(&go, "").unwrap();
            eventually("it is gone", SOON, || jobs.count("dblock_jobs") == 0);
            jobs.assert_empty();
            worker.signal(Signal::SIGTERM);
            worker.wait().expect_code(0).expect_stdout("started\n");
        }
    }

    fn what_a_worker_has_done_counts_however_briefly_it_works(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        for _ in 0..3 {
            jobs.put(&["x"]);
        }
        drain(&jobs, &[], "exit 0");
        let done: Vec<u64> = jobs.rows("SELECT CAST(SUM(done) AS UNSIGNED) FROM dblock_queue_minutes");
        assert_eq!(done, [3]);
    }

    fn a_delayed_job_starts_on_time_with_an_idle_worker(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        let mut worker = jobs.work(&[]).sh("echo at $(date +%s%N)").spawn();
        jobs.eventually_idle(1);
        let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let late: Vec<f64> = (0..5).map(|round| {
            let begun = now();
            jobs.put(&["--delay", "700ms", "x"]);
            let put = now();
            eventually("it has run", SOON, || worker.stdout().lines().count() > round);
            let at = worker.stdout().lines().last().unwrap()[3..].parse::<f64>().unwrap() / 1e9;
            assert!(at >= begun + 0.7, "{} s too early", begun + 0.7 - at);
            at - put - 0.7
        }).collect();
        // Most of them at once also on a machine that is busy.
        let busy = slack().as_secs_f64();
        assert!(late.iter().all(|late| *late < 2.0 + busy), "{late:?}");
        assert!(late.iter().filter(|late| **late < 0.3 * busy).count() >= 3, "{late:?}");
        worker.signal(Signal::SIGTERM);
        worker.wait_within(SOON).expect_code(0);
    }

    fn one_put_wakes_an_idle_worker_at_once(server) {
        let jobs = Jobs::new(server, &[]);
        let workers: Vec<Running> = (0..4).map(|_| jobs.work(&[]).sh("date +%s%N").spawn()).collect();
        jobs.eventually_idle(4);
        let said = || workers.iter().map(Running::stdout).collect::<String>();
        let took: Vec<f64> = (0..10).map(|round| {
            jobs.eventually_idle(4);
            let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
            jobs.put(&["x"]);
            eventually("it has run", SOON, || said().lines().count() > round);
            let at = said().lines().map(|line| line.parse::<u128>().unwrap()).max().unwrap();
            #[expect(clippy::cast_precision_loss, reason = "milliseconds are enough")]
            let at = at as f64 / 1e9;
            at - begun
        }).collect();
        // The start of the process that puts is in it. Without a wake-up it would be half a second at best.
        let soon = slack().as_secs_f64() / 5.0;
        let quick = took.iter().filter(|took| **took < soon).count();
        assert!(quick >= 6, "{took:?}");
        for worker in workers {
            worker.signal(Signal::SIGTERM);
            worker.wait().expect_code(0);
        }
    }

    fn nothing_is_started_while_the_queue_is_paused(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        let mut worker = jobs.work(&[]).sh("cat; echo").spawn();
        jobs.put(&["before"]);
        worker.wait_line("before", SOON);
        jobs.does("pause", &[]);
        jobs.put(&["meanwhile"]);
        // Neither one that waits, nor one that comes, nor one that is to drain.
        drain(&jobs, &[], "cat").expect_stdout("");
        jobs.work(&["--once"]).sh("cat").output().expect_code(75).expect_stdout("");
        jobs.eventually_idle(1);
        assert_eq!((worker.stdout(), jobs.states()), ("before\n".to_owned(), [1, 0, 0, 0]));
        let begun = Instant::now();
        jobs.does("resume", &[]);
        worker.wait_line("meanwhile", SOON);
        assert!(begun.elapsed() < Duration::from_secs(1) + slack(), "{:?}", begun.elapsed());
        worker.signal(Signal::SIGTERM);
        worker.wait().expect_code(0);
    }

    fn a_delayed_job_that_somebody_has_locked_does_not_keep_a_paused_worker_busy(server) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["--delay", "1ms", "x"]);
        jobs.does("pause", &[]);
        let mut locker = jobs.tables.admin();
        locker.query_drop("BEGIN").unwrap();
        locker.query_drop("SELECT job FROM dblock_delayed FOR UPDATE").unwrap();
        let proxy = Proxy::to(server);
        let worker = jobs.work(&[]).env("DBLOCK_URL", proxy.url()).sh("echo never").spawn();
        eventually("it looks", SOON, || proxy.packets().iter().any(|packet| packet.sent().is_some_and(|sent| sent.contains("queue idle"))));
        let looks = || proxy.packets().iter().filter(|packet| packet.sent().is_some_and(|sent| sent.contains("queue idle"))).count();
        let (since, before) = (Instant::now(), looks());
        eventually("it has looked five times more", SOON, || looks() >= before + 5);
        assert!(since.elapsed() > Duration::from_secs(1), "{:?}", since.elapsed());
        assert_eq!(worker.stdout(), "");
    }

    fn a_worker_that_is_busy_stops_where_its_queue_is_paused(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        // More than are done by then, however long that takes.
        jobs.number(500);
        let mut worker = jobs.work(&["-j", "2"]).sh("cat; echo; sleep 0.1").spawn();
        worker.wait_line("5", SOON);
        jobs.does("pause", &[]);
        eventually("nothing runs", SOON, || jobs.count("dblock_running") == 0);
        let due = jobs.count("dblock_due");
        jobs.eventually_idle(1);
        assert!(due > 50 && jobs.count("dblock_due") == due, "{due}");
        worker.signal(Signal::SIGTERM);
        worker.wait().expect_code(0);
    }

    fn a_worker_whose_queue_is_deleted_ends(server on mysql) {
        for busy in [false, true] {
            let jobs = Jobs::new(server, &["--ttl", "12s"]);
            if busy {
                jobs.put(&["x"]);
            }
            let mut worker = jobs.work(&["--grace", "1", "--kill-after", "1"]).sh("echo started; sleep 60").spawn();
            if busy {
                worker.wait_line("started", SOON);
            } else {
                jobs.eventually_idle(1);
            }
            let deletion = jobs.queue("delete", &[]).spawn();
            let output = worker.wait_within(SOON);
            output.expect_code(78).expect_one_line("the queue q was deleted");
            drop(deletion);
        }
    }

    fn no_command_gets_a_part_of_a_payload_that_is_deleted_while_it_is_read(server) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let (jobs, records) = (Jobs::new(server, options), Records::new());
            let log = records.path().join("log");
            for _ in 0..4 {
                jobs.feed(&[], &vec![b'x'; 300_000]);
            }
            let proxy = Proxy::to(server);
            proxy.delay(Duration::from_millis(200));
            let script = format!("wc -c >>{}", quoted(&log));
            // Its login alone takes seconds there.
            let work = jobs.work(&["-j", "4", "--connect-timeout", "60"]).env("DBLOCK_URL", proxy.url());
            let mut worker = work.sh(&script).spawn();
            eventually("a job is claimed", SOON, || jobs.states()[2] > 0);
            jobs.queue("delete", &[]).output().expect_code(0);
            worker.wait_within(SOON).expect_code(78).expect_one_line("the queue q was deleted");
            let sizes = lines(&log);
            assert!(sizes.iter().all(|size| size == "300000"), "{sizes:?}");
            jobs.assert_empty();
        }
    }

    fn what_an_application_has_put_runs_however_long_it_is(server) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["before"]);
        // One is longer than any packet that dblock takes, one is as long as may be. The others are longer together than its memory.
        let mut ids = vec![application_puts(&jobs, "REPEAT('0123456789a', 240000)", 0)];
        ids.push(application_puts(&jobs, "REPEAT('0123456789a', 1525200)", 0));
        let size: u64 = jobs.rows("SELECT MAX(LENGTH(payload)) FROM dblock_jobs")[0];
        assert_eq!(size, 16_777_200);
        let sum = |id: &u64| jobs.rows::<String>(&format!("SELECT CONCAT('{id} ', SHA2(payload, 256)) FROM dblock_jobs WHERE id = {id}")).remove(0);
        let expected: Vec<String> = ids.iter().map(sum).collect();
        jobs.put(&["behind"]);
        for id in &ids {
            let shown = jobs.does("show", &["--payload", &id.to_string()]);
            assert!(shown.stdout.len() > 2_500_000 && shown.stdout.starts_with("0123456789a0123456789a"), "{}", shown.stdout.len());
        }
        let output = drain(&jobs, &[], "echo $DBLOCK_JOB_ID $(sha256sum | cut -c 1-64)");
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert!(expected.iter().all(|line| lines.contains(&line.as_str())) && lines.len() == 4, "{lines:?}");
        for _ in 0..80 {
            application_puts(&jobs, "REPEAT('y', 900000)", 0);
        }
        drain(&jobs, &["--batch", "80"], "wc -c").expect_stdout("72000080\n");
        jobs.assert_empty();
    }

    fn a_job_whose_payload_is_not_whole_is_dead_and_the_others_go_on(server) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let log = records.path().join("log");
        let worker = jobs.work(&[]).sh(&format!("echo $(cat) >>{}", quoted(&log))).spawn();
        jobs.eventually_idle(1);
        // Nothing else is due that an idle worker would take a turn for.
        application_puts(&jobs, "'torn'", 1);
        eventually("it is dead", SOON, || jobs.states() == [0, 0, 0, 1]);
        jobs.eventually_idle(1);
        jobs.tables.sql("INSERT INTO dblock_due (queue, shard, priority, job, due_at) SELECT id, 0, 0, 999999, UTC_TIMESTAMP(6) FROM dblock_queues");
        eventually("that of no job is, too", SOON, || jobs.states() == [0, 0, 0, 2]);
        jobs.put(&["x"]);
        eventually("the next is done", SOON, || lines(&log) == ["x"]);
        assert_eq!(jobs.rows::<Option<String>>("SELECT last_error FROM dblock_jobs WHERE id = 1"), [Some("its payload is not in the tables as a whole".to_owned())]);
        worker.signal(Signal::SIGTERM);
        let output = worker.wait();
        output.expect_code(0).expect_said(["job 1 is dead, attempt 1: its payload is not in the tables as a whole"]);
        jobs.does("list", &["--state", "dead"]);

        // One job of a block keeps back no other of it.
        let jobs = Jobs::new(server, &["--claim", "blocks"]);
        jobs.number(3);
        jobs.tables.sql("UPDATE dblock_jobs SET parts = 2 WHERE payload = '1'");
        drain(&jobs, &[], "cat; echo").expect_stdout("2\n3\n").expect_said(["is dead, attempt 1: its payload is not in the tables as a whole"]);
        assert_eq!((jobs.states(), jobs.count("dblock_jobs")), ([0, 0, 0, 1], 1));
    }

    fn an_idle_worker_hands_in_at_once_what_it_starts_nothing_for(server on mariadb) {
        let jobs = Jobs::new(server, &["--claim", "blocks"]);
        // As many as it claims before it records what came of them.
        for _ in 0..8 {
            jobs.put(&["--delay", "1h", "x"]);
        }
        jobs.tables.sql("UPDATE dblock_jobs SET canceled_at = UTC_TIMESTAMP(6)");
        let worker = jobs.work(&[]).sh("echo never").spawn();
        jobs.eventually_idle(1);
        let columns = "queue, shard, priority, job, last_job, block, jobs, due_at";
        jobs.tables.sql(&format!("INSERT INTO dblock_due ({columns}) SELECT {columns} FROM dblock_delayed"));
        jobs.tables.sql("DELETE FROM dblock_delayed");
        eventually("nothing is left of them", SOON, || jobs.states() == [0; 4]);
        assert_eq!(worker.stdout(), "");
        worker.signal(Signal::SIGTERM);
        worker.wait().expect_code(0);
        jobs.assert_empty();
    }

    fn a_command_whose_queue_is_deleted_has_the_grace(server on mariadb) {
        let jobs = Jobs::new(server, &["--ttl", "6s"]);
        jobs.put(&["x"]);
        // Longer than the lease, which ends with the queue.
        let mut worker = jobs.work(&["--kill-after", "0"]).sh("echo started; sleep 9; echo ended").spawn();
        worker.wait_line("started", SOON);
        let deletion = jobs.queue("delete", &[]).spawn();
        let output = worker.wait_within(SOON);
        output.expect_code(78).expect_one_line("the queue q was deleted").expect_stdout("started\nended\n");
        drop(deletion);
    }

    fn a_command_that_cannot_be_started_costs_no_attempt(server on mysql) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("not-executable");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.number(3);
            for (program, code) in [("/no/such/program", 127), (file.to_str().unwrap(), 126)] {
                let output = jobs.work(&["-j", "2"]).command([program]).output();
                output.expect_code(code).expect_one_line(program);
                let due: u64 = jobs.rows("SELECT SUM(jobs) FROM dblock_due WHERE attempt = 0")[0];
                assert_eq!((due, jobs.count("dblock_running"), jobs.workers()), (3, 0, 0));
            }
            // One that is gone when the worker has begun.
            let gone = folder.path().join("gone");
            write_program(&gone, b"#!/bin/sh\nrm \"$0\"\n");
            let output = jobs.work(&[]).command([&gone]).output();
            output.expect_code(127).expect_one_line("gone: No such file or directory");
            let due: u64 = jobs.rows("SELECT SUM(jobs) FROM dblock_due WHERE attempt = 0")[0];
            assert_eq!((due, jobs.count("dblock_running"), jobs.workers()), (2, 0, 0));
        }
    }

    fn a_program_that_is_known_late_not_to_run_costs_no_attempt(server on mariadb) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        write_program(&program, b"#!/no/interpreter\n");
        let hangs = Hangs::new(&program);
        let jobs = Jobs::new(server, &[]);
        jobs.number(1);
        let mut work = jobs.work(&[]).command([&program]).spawn();
        eventually("the job is claimed", SOON, || jobs.count("dblock_running") == 1);
        assert!(!within(Duration::from_secs(2), || !work.is_running()), "{}", work.stderr());
        drop(hangs);
        work.wait_within(SOON).expect_code(127).expect_one_line("the interpreter that it names is not there");
        let due: u64 = jobs.rows("SELECT SUM(jobs) FROM dblock_due WHERE attempt = 0")[0];
        assert_eq!((due, jobs.count("dblock_running"), jobs.workers()), (1, 0, 0));
    }

    fn programs_that_hang_at_their_start_delay_no_signal(server on mysql) {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        copy_program("/bin/true", &program);
        let _hangs = Hangs::new(&program);
        let jobs = Jobs::new(server, &[]);
        jobs.number(100);
        let mut work = jobs.work(&["-j", "100", "--grace", "0", "--kill-after", "1"]).command([&program]).spawn();
        eventually("two have begun to start", SOON, || work.children().len() > 2);
        send(work.pid(), Signal::SIGTERM);
        // One after the other, they would take a hundred seconds.
        work.wait_within(Duration::from_secs(30)).expect_code(0);
        assert_eq!((jobs.count("dblock_running"), jobs.workers()), (0, 0));
    }

    fn a_worker_without_its_command_says_so_before_there_is_a_job(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().to_str().unwrap();
        for (program, code, why) in [("no-such-program", 127, "No such file or directory"), (folder, 126, "Permission denied")] {
            let output = jobs.work(&[]).command([program]).output();
            output.expect_code(code).expect_one_line(&format!("cannot run {program}: {why}"));
        }
        let output = jobs.work(&["--drain"]).env("PATH", "/no/such/folder").command(["true"]).output();
        output.expect_code(127).expect_one_line("cannot run true: No such file or directory");
        let output = jobs.work(&["--drain"]).command([""]).output();
        output.expect_code(127).expect_one_line("cannot run '': No such file or directory");
        assert_eq!(jobs.count("dblock_workers"), 0);
    }

    fn jobs_whose_payloads_cannot_be_kept_go_back(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let (jobs, records) = (Jobs::new(server, options), Records::new());
            let go = records.path().join("go");
            jobs.put(&["x"]);
            let limited = ["sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"];
            let script = format!("echo started; while ! test -e {}; do sleep 0.1; done", quoted(&go));
            let mut worker = jobs.work(&["-j", "2"]).under(limited).sh(&script).spawn();
            worker.wait_line("started", SOON);
            let long = "y".repeat(3000);
            jobs.put(&[&long, "z"]);
            let given_back = "dblock_due WHERE attempt = 0 AND fence > 0";
            eventually("they are returned", SOON, || jobs.count(given_back) > 0 && jobs.count("dblock_running") == 1);
            fs::write(&go, "").unwrap();
            let output = worker.wait_within(SOON);
            output.expect_code(71).expect_one_line("cannot keep a payload: File too large");
            let due: u64 = jobs.rows("SELECT SUM(jobs) FROM dblock_due WHERE attempt = 0")[0];
            assert_eq!((due, jobs.count("dblock_jobs"), jobs.count("dblock_running"), jobs.workers()), (2, 2, 0, 0));
        }
    }

    fn payloads_that_are_too_long_together_are_given_back(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        let half = "y".repeat(400);
        jobs.put(&[&half]);
        jobs.put(&[&half]);
        // A limit on the size of files is that of each: the two are claimed one by one, and stand in one file for the command.
        let limited = ["sh", "-c", "ulimit -f 1; exec \"$@\"", "sh"];
        let output = jobs.work(&["--drain", "--batch", "2"]).under(limited).sh("cat").output();
        output.expect_code(71).expect_stdout("").expect_one_line("File too large");
        assert_eq!((jobs.count("dblock_due WHERE attempt = 0"), jobs.workers()), (2, 0));
    }

    fn no_more_commands_run_at_once_than_there_are_descriptors_for(server on mariadb) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let go = records.path().join("go");
        jobs.number(60);
        let few = || Ok(setrlimit(Resource::RLIMIT_NOFILE, 150, 200)?);
        let script = format!("echo started; while ! test -e {}; do sleep 0.1; done", quoted(&go));
        let mut worker = jobs.work(&["-j", "100", "--drain"]).pre_exec(few).sh(&script).spawn();
        worker.wait_stderr("-j 100 needs 628 open files, and 200 are allowed (ulimit -n): running 14 at once", SOON);
        eventually("as many run as may", SOON, || worker.stdout().lines().count() == 14);
        assert_eq!(commands_of(worker.pid()).len(), 14);
        fs::write(&go, "").unwrap();
        let output = worker.wait_within(SOON);
        output.expect_code(0).expect_stdout(&"started\n".repeat(60));
        jobs.assert_empty();
    }

    fn many_blocks_of_one_job_wait_in_few_open_files(server on mysql) {
        let jobs = Jobs::new(server, &["--claim", "blocks"]);
        jobs.number(300);
        // As if each had been put by itself.
        jobs.tables.sql("UPDATE dblock_jobs SET block = id");
        let columns = "queue, shard, priority, job, last_job, block, jobs, due_at";
        jobs.tables.sql("DELETE FROM dblock_due");
        let values = "queue, shard, priority, id, id, id, 1, put_at";
        jobs.tables.sql(&format!("INSERT INTO dblock_due ({columns}) SELECT {values} FROM dblock_jobs"));
        let few = || Ok(setrlimit(Resource::RLIMIT_NOFILE, 140, 140)?);
        let mut worker = jobs.work(&["--drain", "--batch", "300"]).pre_exec(few).sh("wc -l").spawn();
        worker.wait_within(SOON).expect_code(0).expect_silence().expect_stdout("300\n");
        jobs.assert_empty();
    }

    fn commands_have_the_limit_of_open_files_that_dblock_was_given(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        jobs.number(1);
        let few = || Ok(setrlimit(Resource::RLIMIT_NOFILE, 150, 1000)?);
        let output = jobs.work(&["-j", "100", "--drain"]).pre_exec(few).sh("ulimit -Sn; ulimit -Hn").output();
        output.expect_code(0).expect_silence().expect_stdout("150\n1000\n");
    }

    fn a_worker_that_ends_by_itself_deletes_what_is_too_old(server) {
        let jobs = Jobs::new(server, &["--keep", "1h"]);
        let ages = || {
            jobs.tables.sql("UPDATE dblock_done SET done_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR");
            jobs.tables.sql("UPDATE dblock_workers SET gone_at = UTC_TIMESTAMP(6) - INTERVAL 2 DAY WHERE expires_at IS NULL");
            jobs.tables.sql("UPDATE dblock_queue_minutes SET minute = UTC_TIMESTAMP() - INTERVAL 2 DAY");
            jobs.tables.sql("UPDATE dblock_puts SET put_at = UTC_TIMESTAMP(6) - INTERVAL 2 DAY");
        };
        let left = || ["done", "jobs", "workers", "queue_minutes", "puts"].map(|table| jobs.count(&format!("dblock_{table}")));
        jobs.number(3);
        // By one command: what it has done is counted in one minute.
        drain(&jobs, &["--batch", "3"], "true");
        assert_eq!(left(), [3, 3, 1, 1, 1]);
        ages();
        // One that had something to do.
        jobs.put(&["x"]);
        drain(&jobs, &[], "true");
        assert_eq!(left(), [1, 1, 1, 1, 1]);
        // And some of those that have nothing to do.
        for (option, code) in [("--drain", 0), ("--once", 75)] {
            ages();
            eventually("one of them has deleted it", 5 * SOON, || {
                jobs.work(&[option]).sh("true").output().expect_code(code);
                jobs.count("dblock_workers WHERE gone_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY") == 0
            });
            assert_eq!(left()[..2], [0, 0]);
        }
    }

    fn a_worker_that_ends_when_nothing_is_due_says_that_its_queue_is_paused(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        jobs.number(2);
        jobs.does("pause", &[]);
        for (option, code) in [("--drain", 0), ("--once", 75)] {
            let output = jobs.work(&[option]).sh("echo ran").output();
            output.expect_code(code).expect_stdout("").expect_one_line("the queue q is paused");
        }
        assert_eq!(jobs.states(), [2, 0, 0, 0]);
    }

    fn a_worker_that_is_asked_to_end_lets_its_commands_end(server on mariadb) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let go = records.path().join("go");
        jobs.number(5);
        let script = format!("read n; echo started; while ! test -e {}; do sleep 0.1; done; echo $n", quoted(&go));
        let mut worker = jobs.work(&["-v", "-j", "2"]).sh(&script).spawn();
        eventually("two run", SOON, || worker.stdout().lines().count() == 2);
        worker.signal(Signal::SIGTERM);
        worker.wait_stderr("taking no more jobs", SOON);
        fs::write(&go, "").unwrap();
        let output = worker.wait_within(SOON);
        output.expect_code(0);
        let mut said: Vec<&str> = output.stdout.lines().collect();
        said.sort_unstable();
        assert_eq!(said, ["1", "2", "started", "started"]);
        assert_eq!((jobs.states(), jobs.count("dblock_due WHERE attempt = 0"), jobs.workers()), ([3, 0, 0, 0], 3, 0));
    }

    fn commands_that_take_too_long_to_end_are_ended_and_their_jobs_given_back(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.number(5);
            let script = "trap '' TERM; echo started; while :; do sleep 0.1; done";
            let mut worker = jobs.work(&["-j", "2", "--grace", "0.5", "--kill-after", "0.5"]).sh(script).spawn();
            eventually("two run", SOON, || worker.stdout().lines().count() == 2);
            let begun = Instant::now();
            worker.signal(Signal::SIGTERM);
            let output = worker.wait_within(SOON);
            output.expect_code(0).expect_stdout("started\nstarted\n");
            assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
            let due: u64 = jobs.rows("SELECT SUM(jobs) FROM dblock_due WHERE attempt = 0")[0];
            assert_eq!((due, jobs.count("dblock_running"), jobs.count("dblock_jobs"), jobs.workers()), (5, 0, 5, 0));
            // Not counted, but no fence is given twice.
            let next = jobs.work(&["--once"]).sh("echo $DBLOCK_ATTEMPT $DBLOCK_FENCE").output();
            next.expect_stdout("1 2\n");
        }
    }

    fn a_second_signal_ends_the_commands_now(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["x"]);
        let mut worker = jobs.work(&["-v", "--grace", "1h"]).sh("echo started $$; sleep 100").spawn();
        worker.wait_line("started", SOON);
        worker.signal(Signal::SIGTERM);
        worker.wait_stderr("taking no more jobs", SOON);
        worker.signal(Signal::SIGTERM);
        worker.signal(Signal::SIGINT);
        worker.wait_within(SOON).expect_code(0);
        assert_eq!((jobs.states(), jobs.count("dblock_due WHERE attempt = 0")), ([1, 0, 0, 0], 1));
    }

    fn an_idle_worker_ends_at_once_when_asked(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        let workers: Vec<_> = (0..3).map(|_| jobs.work(&[]).sh("true").spawn()).collect();
        jobs.eventually_idle(3);
        let begun = Instant::now();
        for worker in &workers {
            worker.signal(Signal::SIGTERM);
        }
        for worker in workers {
            worker.wait().expect_code(0).expect_silence();
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(1) + slack(), "{took:?}");
        assert_eq!(jobs.count("dblock_workers WHERE died"), 0);
        assert_eq!(jobs.workers(), 0);
    }

    fn ctrl_c_reaches_worker_and_command_once_and_gives_the_job_back(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["x"]);
        let mut shell = Shell::start(server);
        shell.enter(&format!("export DBLOCK_DATABASE={}", jobs.tables.database));
        shell.enter("dblock queue work q -- sh -c 'echo started $$; exec sleep 100'");
        shell.wait_pid("started");
        shell.enter("\u{3}");
        shell.expect_code(0);
        assert_eq!((jobs.states(), jobs.count("dblock_due WHERE attempt = 0"), jobs.workers()), ([1, 0, 0, 0], 1, 0));
    }

    fn ctrl_z_stops_worker_and_commands_and_fg_continues_them(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        jobs.number(2);
        let mut shell = Shell::start(server);
        shell.enter(&format!("export DBLOCK_DATABASE={}", jobs.tables.database));
        shell.enter("dblock queue work q -j 2 --drain -- perl -e '$| = 1; $SIG{USR1} = sub { exit }; print \"perl $$\\n\"; select undef, undef, undef, 0.02 while 1'");
        let commands = [shell.wait_pid("perl"), shell.wait_pid("perl")];
        for _ in 0..100 {
            shell.enter(SUSPEND);
            shell.wait_for("Stopped");
            eventually("the commands are stopped, too", SOON, || commands.into_iter().all(is_stopped));
            shell.enter("fg");
            eventually("the commands go on", SOON, || !commands.into_iter().any(is_stopped));
        }
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        shell.wait_for("> ");
        eventually("the commands are stopped, too", SOON, || commands.into_iter().all(is_stopped));
        let worker = stat_field(commands[0], 1).and_then(|parent| parent.parse().ok());
        send(worker.expect("it runs"), Signal::SIGCONT);
        eventually("the commands go on where the worker alone is told to", SOON, || !commands.into_iter().any(is_stopped));
        shell.enter("fg");
        // It is the shell's job in the foreground before it ends.
        shell.wait_for("dblock queue work");
        for command in commands {
            send(command, Signal::SIGUSR1);
        }
        shell.expect_code(0);
        jobs.assert_empty();
    }

    fn a_command_that_takes_no_notice_of_ctrl_z_keeps_its_job(server on mysql) {
        const TTL: Duration = Duration::from_secs(6);
        let jobs = Jobs::new(server, &["--ttl", "6s"]);
        jobs.put(&["x"]);
        let mut shell = Shell::start(server);
        shell.enter(&format!("export DBLOCK_DATABASE={}", jobs.tables.database));
        let script = "trap \"\" TSTP; trap \"exit 0\" USR1; echo attempt $DBLOCK_ATTEMPT; echo shell $$; while :; do sleep 0.1; done";
        shell.enter(&format!("dblock queue work q --drain --kill-after 0.2 -- sh -c '{script}'"));
        let command = shell.wait_pid("shell");
        let other = jobs.work(&[]).sh("echo never").spawn();
        jobs.eventually_idle(1);
        shell.enter(SUSPEND);
        shell.wait_for("Stopped");
        shell.wait_for("> ");
        assert!(!is_stopped(command));
        let stopped = Instant::now();
        eventually("the lease would be over", SOON, || stopped.elapsed() > TTL + Duration::from_secs(2));
        assert!(runs(command) && !is_stopped(command));
        assert_eq!((jobs.states(), jobs.workers()), ([0, 0, 1, 0], 2));
        shell.enter("fg");
        // It is the shell's job in the foreground before it ends.
        shell.wait_for("dblock queue work");
        send(command, Signal::SIGUSR1);
        shell.expect_code(0);
        assert!(shell.all().contains("attempt 1\n") && !shell.all().contains("lost"), "{}", shell.all());
        jobs.assert_empty();
        other.signal(Signal::SIGTERM);
        other.wait().expect_code(0).expect_stdout("");
    }

    fn a_worker_that_is_process_one_reaps_orphans_and_ends_when_asked(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        jobs.number(3);
        let script = "for n in 1 2 3 4; do (sh -c 'sleep 0.05' &) ; done; echo ran";
        let mut worker = jobs.work(&[]).under(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]).sh(script).spawn();
        eventually("all have run", SOON, || worker.stdout() == "ran\nran\nran\n");
        let one = children_of(worker.pid())[0];
        eventually("only the claimer is left", SOON, || children_of(one).len() == 1);
        send(one, Signal::SIGTERM);
        worker.wait_within(SOON).expect_code(0);
        jobs.assert_empty();
    }

    fn a_worker_that_is_process_one_reaps_orphans_while_it_ends_a_command(server on mariadb) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["stubborn"]);
        let script = "[ $(cat) = quick ] || { sh -c \"trap '' TERM; sleep 60\" & wait; }; for n in 1 2 3 4; do (sh -c 'sleep 0.05' &) ; done; echo ran";
        // Each has time to begin.
        let options = ["--timeout", "10", "--kill-after", "60", "-j", "2"];
        let worker = jobs.work(&options).under(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]).sh(script).spawn();
        eventually("there is a worker", SOON, || !children_of(worker.pid()).is_empty());
        let one = children_of(worker.pid())[0];
        let zombies = || children_of(one).into_iter().filter(|&pid| stat_field(pid, 0).as_deref() == Some("Z")).count();
        eventually("the stubborn one is being ended", SOON, || zombies() == 1);
        jobs.put(&["quick", "quick", "quick"]);
        eventually("all others have run", SOON, || worker.stdout() == "ran\nran\nran\n");
        eventually("what is left is the claimer, the stubborn command, and what that has started", SOON, || children_of(one).len() == 3);
        assert_eq!(zombies(), 1);
        worker.signal(Signal::SIGKILL);
        worker.wait().expect_signal(Signal::SIGKILL);
    }

    fn without_tables_or_queue_nothing_is_started(server) {
        let work = |tables: &Tables, args: &[&str]| tables.at("queue").args(["work"]).args(args).sh("echo never").output();
        let missing = Tables::missing(server);
        work(&missing, &["q"]).expect_code(78).expect_one_line("dblock init").expect_stdout("");
        let jobs = Jobs::new(server, &[]);
        work(&jobs.tables, &["other"]).expect_code(78).expect_one_line("other").expect_stdout("");
        jobs.put(&["x"]);
        jobs.tables.sql("UPDATE dblock_meta SET version = 1");
        work(&jobs.tables, &["q"]).expect_code(78).expect_one_line("dblock init").expect_stdout("");
        jobs.tables.sql("UPDATE dblock_meta SET version = 2");
        let account = server.account();
        jobs.tables.grant("SELECT, INSERT, UPDATE", &account);
        let refused = jobs.work(&["--drain"]).user(&account).sh("exit 0").output();
        refused.expect_code(77).expect_one_line("DELETE");
        assert_eq!(jobs.count("dblock_jobs"), 1);
    }

    fn without_a_server_a_worker_ends_in_time(_server on mariadb) {
        let dead = Dblock::bare().env("DBLOCK_URL", "mysql://dblock@127.0.0.1:1/").env("DBLOCK_PASSWORD", "x");
        let output = dead.args(["queue", "work", "q", "--connect-timeout", "1"]).sh("echo never").output();
        output.expect_code(69).expect_one_line("no server could be reached within 1s").expect_stdout("");
        output.expect_took(Duration::from_secs(1), Duration::from_secs(2) + slack());
    }

    fn idle_workers_ask_the_server_little(shared) {
        let server = Server::private(shared.kind);
        let jobs = Jobs::new(&server, &[]);
        let workers: Vec<_> = (0..10).map(|_| jobs.work(&[]).sh("true").spawn()).collect();
        jobs.eventually_idle(10);
        let mut admin = jobs.tables.admin();
        let mut count = |what: &str| {
            let row: Option<(String, f64)> = admin.query_first(format!("SHOW GLOBAL STATUS LIKE '{what}'")).unwrap();
            row.unwrap().1
        };
        let mut seen = Vec::new();
        // On a machine that stands still for seconds the server ends sessions that are silent, and to begin new ones takes statements, too.
        let is_little = (0..5).any(|_| {
            let (before, begun) = (count("Questions"), Instant::now());
            // Each renews its lease in that time, and what is too old is deleted twice.
            eventually("some seconds are over", Duration::from_secs(60), || begun.elapsed() > Duration::from_secs(24));
            let each_second = (count("Questions") - before) / begun.elapsed().as_secs_f64();
            seen.push(each_second);
            // Less than one each; with a round of deletions by each of them it would be more.
            each_second <= 7.5
        });
        assert!(is_little, "a second: {seen:?}");
        drop(workers);
    }

    fn the_failed_jobs_of_a_block_become_jobs_of_their_own(server) {
        let jobs = Jobs::new(server, &["--claim", "blocks", "--max-attempts", "3"]);
        let ids = jobs.number(50);
        assert_eq!(jobs.states(), [1, 0, 0, 0]);
        let script = "read n; case $n in 7) echo seven >&2; exit 1;; 9) exit 75;; 11) exit 3;; esac";
        drain(&jobs, &["-j", "4", "--bury-on", "3"], script);
        let delayed: Vec<(u64, u32, u64, u64, u32)> = jobs.rows("SELECT job, attempt, fence, block, jobs FROM dblock_delayed ORDER BY job");
        assert_eq!(delayed, [(ids[6], 1, 1, 0, 1), (ids[8], 0, 1, 0, 1)]);
        let dead: Vec<(u64, u32)> = jobs.rows("SELECT job, attempt FROM dblock_dead");
        assert_eq!(dead, [(ids[10], 1)]);
        assert_eq!((jobs.states(), jobs.count("dblock_jobs")), ([0, 2, 0, 1], 3));
        let errors: Vec<Option<String>> = jobs.rows("SELECT last_error FROM dblock_jobs ORDER BY id");
        assert_eq!(errors, [Some("exit 1: seven".to_owned()), None, Some("exit 3".to_owned())]);
        jobs.tables.sql("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6)");
        drain(&jobs, &[], "echo $DBLOCK_ATTEMPT $DBLOCK_FENCE; cat >/dev/null").expect_stdout("2 2\n1 2\n");
        assert_eq!((jobs.states(), jobs.count("dblock_jobs")), ([0, 0, 0, 1], 1));
    }

    fn jobs_of_a_block_that_failed_early_are_started_again_beside_it(server) {
        let (jobs, records) = (Jobs::new(server, &["--claim", "blocks", "--retry-delay", "50ms"]), Records::new());
        let go = records.path().join("go");
        jobs.number(40);
        // The first twenty fail. The others of the block end when one of those is started again.
        let script = format!(
            "read n; cat >/dev/null; case $DBLOCK_ATTEMPT in 2*) >{go}; exit 0;; esac
            case $n in 1) exit 1;; 21) until [ -e {go} ]; do sleep 0.1; done;; esac",
            go = quoted(&go)
        );
        let mut worker = jobs.work(&["-j", "2", "--batch", "20"]).sh(&script).spawn();
        eventually("all jobs are done", SOON, || jobs.count("dblock_jobs") == 0);
        worker.signal(Signal::SIGTERM);
        worker.wait_within(SOON).expect_code(0).expect_silence();
    }

    fn jobs_that_have_left_a_running_block_are_counted_once(server) {
        let (jobs, records) = (Jobs::new(server, &["--claim", "blocks", "--retry-delay", "1h"]), Records::new());
        let go = records.path().join("go");
        jobs.number(40);
        // The first twenty fail. Fifteen leave the block at once: the first sixteen but for the block's first job.
        let script = format!("read n; cat >/dev/null; test $n = 21 || exit 1; until [ -e {} ]; do sleep 0.1; done", quoted(&go));
        let mut worker = jobs.work(&["--drain", "-j", "2", "--batch", "20"]).sh(&script).spawn();
        eventually("they have left the block", SOON, || jobs.count("dblock_delayed") == 15);
        let status = jobs.does("status", &["--json"]).json();
        let found = &status["queues"][0];
        let counts = (&found["delayed"], &found["running"], &found["workers"][0]["running"]);
        assert_eq!(counts, (&15.into(), &25.into(), &25.into()), "{found:#}");
        fs::write(&go, "").unwrap();
        worker.wait_within(SOON).expect_code(0);
        assert_eq!((jobs.states(), jobs.count("dblock_jobs")), ([0, 20, 0, 0], 20));
    }

    fn the_key_of_a_block_of_one_job_is_free_again_when_it_is_done(server on mysql) {
        let jobs = Jobs::new(server, &["--claim", "blocks"]);
        let one = jobs.put(&["--key", "k", "one"]);
        drain(&jobs, &[], "cat >/dev/null");
        assert_ne!(jobs.put(&["--key", "k", "two"]), one);
        assert_eq!((jobs.states(), jobs.count("dblock_job_keys")), ([1, 0, 0, 0], 1));
    }

    fn the_key_of_a_job_that_is_canceled_while_it_runs_is_free_at_once(server) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let go = records.path().join("go");
        let one = jobs.put(&["--key", "k", "one"]);
        let script = format!("echo waits; while ! test -e {}; do sleep 0.1; done; exit 5", quoted(&go));
        let mut worker = jobs.work(&["--once"]).sh(&script).spawn();
        worker.wait_line("waits", SOON);
        jobs.queue("cancel", &[&one[0].to_string()]).output().expect_code(0);
        assert_ne!(jobs.put(&["--key", "k", "two"]), one);
        fs::write(&go, "").unwrap();
        worker.wait_within(SOON).expect_code(5);
        assert_eq!((jobs.states(), jobs.count("dblock_jobs"), jobs.count("dblock_job_keys")), ([1, 0, 0, 0], 1, 1));
    }

    fn many_long_errors_are_kept_each(server on mysql) {
        for claim in ["rows", "blocks"] {
            let jobs = Jobs::new(server, &["--claim", claim, "--max-attempts", "1"]);
            jobs.number(900);
            let output = jobs.work(&["--drain", "--batch", "300"]).sh("cat >/dev/null; head -c 3000 /dev/zero | tr '\\0' x >&2; exit 1").output();
            output.expect_code(0);
            assert_eq!((jobs.states(), jobs.count("dblock_jobs WHERE LENGTH(last_error) = 1000")), ([0, 0, 0, 900], 900), "{claim}");
        }
    }

    fn the_jobs_of_a_block_that_are_done_are_not_started_again_when_many_others_fail_at_once(server) {
        let (jobs, records) = (Jobs::new(server, &["--claim", "blocks", "--max-attempts", "1"]), Records::new());
        jobs.number(80);
        let log = records.path().join("log");
        let script = format!("cat >>{0}; [ $(wc -l <{0}) = 40 ]", quoted(&log));
        drain(&jobs, &["--batch", "40"], &script);
        assert_eq!((jobs.states(), jobs.count("dblock_jobs"), lines(&log).len()), ([0, 0, 0, 40], 40, 80));
        jobs.number(100);
        drain(&jobs, &["--batch", "100"], "exit 1");
        assert_eq!((jobs.states(), jobs.count("dblock_jobs")), ([0, 0, 0, 140], 140));
    }

    fn a_canceled_job_of_a_block_that_fails_leaves_nothing(server) {
        let (jobs, records) = (Jobs::new(server, &["--claim", "blocks"]), Records::new());
        let go = records.path().join("go");
        let ids = jobs.number(3);
        let until = format!("while ! test -e {}; do sleep 0.1; done", quoted(&go));
        let mut worker = jobs.work(&["--drain"]).sh(&format!("read n; test $n != 2 || {{ echo waits; {until}; exit 1; }}")).spawn();
        worker.wait_line("waits", SOON);
        jobs.queue("cancel", &[&ids[1].to_string()]).output().expect_code(0);
        fs::write(&go, "").unwrap();
        worker.wait_within(SOON).expect_code(0);
        assert_eq!((jobs.states(), jobs.count("dblock_jobs")), ([0, 0, 0, 0], 0));
    }

    fn a_job_of_a_block_that_is_canceled_while_its_failure_is_recorded_leaves_nothing(server) {
        let (jobs, records) = (Jobs::new(server, &["--claim", "blocks"]), Records::new());
        let go = records.path().join("go");
        let ids = jobs.number(2);
        let until = format!("while ! test -e {}; do sleep 0.1; done", quoted(&go));
        let mut worker = jobs.work(&["--drain"]).sh(&format!("read n; test $n != 2 || {{ echo waits; {until}; exit 1; }}")).spawn();
        worker.wait_line("waits", SOON);
        // As `dblock queue cancel`, which locks the row that the worker needs next.
        let mut canceling = jobs.tables.lock("dblock_running");
        fs::write(&go, "").unwrap();
        let waits = format!("{}.dblock_running r ", jobs.tables.quoted());
        eventually("the worker waits for the row", SOON, || server.answering(&waits) > 0);
        canceling.query_drop(format!("UPDATE dblock_jobs SET canceled_at = UTC_TIMESTAMP(6) WHERE id = {}", ids[1])).unwrap();
        canceling.query_drop("COMMIT").unwrap();
        worker.wait_within(SOON).expect_code(0);
        jobs.assert_empty();
    }

    fn a_payload_that_a_batch_would_take_for_several_is_dead(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["one\ntwo", "three"]);
        let output = jobs.work(&["--drain", "--batch", "5"]).sh("cat").output();
        output.expect_code(0).expect_stdout("three\n");
        assert_eq!((jobs.states(), jobs.count("dblock_jobs WHERE last_error LIKE '%line break%'")), ([0, 0, 0, 1], 1));
        jobs.queue("retry", &["--dead"]).output().expect_code(0);
        drain(&jobs, &["--batch", "5", "--null"], "cat").expect_stdout("one\ntwo\0");
        let both = jobs.work(&["--batch", "5"]).args(["--", "echo", "{}"]).output();
        both.expect_code(64).expect_one_line("--batch passes the payloads on stdin");
    }

    fn a_block_that_is_stopped_in_the_middle_gives_the_rest_back_uncounted(server on mariadb) {
        // The one that fails is due again after all that follows.
        let (jobs, records) = (Jobs::new(server, &["--claim", "blocks", "--retry-delay", "1h"]), Records::new());
        let go = records.path().join("go");
        jobs.number(40);
        let until = format!("while ! test -e {}; do sleep 0.1; done", quoted(&go));
        let script = format!("read n; test $n != 3 || exit 1; echo $n; test $n -lt 6 || {{ echo waits; {until}; }}");
        let mut worker = jobs.work(&["-v"]).sh(&script).spawn();
        worker.wait_line("waits", SOON);
        worker.signal(Signal::SIGTERM);
        worker.wait_stderr("taking no more jobs", SOON);
        fs::write(&go, "").unwrap();
        worker.wait_within(SOON).expect_code(0);
        assert_eq!((jobs.states(), jobs.count("dblock_jobs"), jobs.workers()), ([1, 1, 0, 0], 35, 0));
        assert_eq!(jobs.count("dblock_due WHERE attempt = 0 AND jobs = 34 AND fence = 1"), 1);
        assert_eq!(jobs.count("dblock_delayed WHERE attempt = 1 AND jobs = 1 AND fence = 1"), 1);
        let rest: String = (7..=40).map(|number: u32| number.to_string() + " 1 2\n").collect();
        drain(&jobs, &[], "read n; echo $n $DBLOCK_ATTEMPT $DBLOCK_FENCE").expect_stdout(&rest);
    }

    fn a_repeating_block_is_due_again_as_a_whole(server on mysql) {
        let jobs = Jobs::new(server, &["--claim", "blocks"]);
        let ids = jobs.feed(&["--lines", "--every", "1h"], b"1\n2\n3\n");
        for round in 1..=2 {
            let output = drain(&jobs, &[], "read n; echo $n $DBLOCK_ATTEMPT $DBLOCK_FENCE");
            output.expect_stdout(&format!("1 1 {round}\n2 1 {round}\n3 1 {round}\n"));
            assert_eq!((jobs.states(), jobs.count("dblock_jobs")), ([0, 1, 0, 0], 3));
            assert_eq!(jobs.count("dblock_delayed WHERE jobs = 3 AND attempt = 0 AND due_at > UTC_TIMESTAMP(6) + INTERVAL 3500 SECOND"), 1);
            jobs.tables.sql("UPDATE dblock_delayed SET due_at = due_at - INTERVAL 1 HOUR");
        }
        jobs.does("cancel", &[&ids[0].to_string(), &ids[2].to_string()]);
        drain(&jobs, &[], "cat").expect_stdout("2");
    }

    fn jobs_that_are_canceled_in_a_block_are_not_started(server on mariadb) {
        let jobs = Jobs::new(server, &["--claim", "blocks"]);
        let ids = jobs.number(3);
        jobs.does("cancel", &[&ids[1].to_string()]);
        drain(&jobs, &[], "cat; echo").expect_stdout("1\n3\n");
        jobs.assert_empty();
    }

    fn what_is_done_is_kept_where_the_queue_keeps_it(server on mariadb) {
        for options in [&["--keep", "1h"][..], &["--keep", "1h", "--claim", "blocks"]] {
            let jobs = Jobs::new(server, options);
            jobs.number(3);
            drain(&jobs, &[], "read n; test $n != 2");
            let done: u64 = jobs.rows("SELECT CAST(COALESCE(SUM(jobs), 0) AS UNSIGNED) FROM dblock_done")[0];
            assert_eq!((jobs.states(), jobs.count("dblock_jobs"), done), ([0, 1, 0, 0], 3, 2), "{options:?}");
            let listed = jobs.does("list", &["--state", "done", "--json"]);
            assert_eq!(listed.stdout.matches("\"id\"").count(), 2, "{listed:?}");
        }
    }

    fn what_was_kept_goes_as_fast_as_jobs_are_done(server) {
        let jobs = Jobs::new(server, &["--keep", "1h"]);
        jobs.number(9000);
        // As other workers have left it: more than one deletes by the way.
        keep_old(&jobs, 16000);
        note_old_puts(&jobs, 16000);
        let mut workers = [0, 1].map(|_| jobs.work(&["--drain", "-v", "--batch", "500"]).command(["true"]).spawn());
        for worker in &mut workers {
            let output = worker.wait_within(3 * SOON);
            output.expect_code(0);
            // They do not delete the same rows.
            let conflicts: Vec<&str> = output.stderr.lines().filter(|line| line.contains("; trying again")).collect();
            assert_eq!(conflicts, [""; 0]);
        }
        // Two for each that was done.
        assert_eq!((jobs.count("dblock_done"), jobs.count("dblock_jobs"), jobs.count("dblock_puts")), (9000, 9000, 1));
    }

    fn what_is_kept_for_a_second_goes_while_workers_go_on(server) {
        let jobs = Jobs::new(server, &["--keep", "1s"]);
        jobs.number(20_000);
        let workers = [0, 1].map(|_| jobs.work(&["--batch", "500"]).command(["true"]).spawn());
        eventually("all are done", 3 * SOON, || jobs.states()[..3] == [0; 3]);
        eventually("none is left", SOON, || jobs.count("dblock_jobs") == 0);
        for worker in workers {
            worker.signal(Signal::SIGTERM);
            worker.wait().expect_code(0);
        }
        jobs.assert_empty();
    }

    fn what_comes_below_the_mark_beside_a_long_snapshot_is_claimed(server) {
        let (jobs, records) = (Jobs::new(server, &["--retry-delay", "1s"]), Records::new());
        let [log, failed] = ["log", "failed"].map(|name| records.path().join(name));
        let mut backup = jobs.tables.admin();
        backup.query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT").unwrap();
        // One that has its number before the others, and is committed when they are claimed.
        let mut late = jobs.tables.admin();
        late.query_drop("START TRANSACTION").unwrap();
        late.query_drop("INSERT INTO dblock_jobs (queue, shard, priority, block, payload, put_at) VALUES (1, 0, 0, 0, 'late', UTC_TIMESTAMP(6))").unwrap();
        late.query_drop("INSERT INTO dblock_due (queue, shard, priority, job, due_at) VALUES (1, 0, 0, LAST_INSERT_ID(), UTC_TIMESTAMP(6))").unwrap();
        let proxy = Proxy::to(server);
        jobs.number(3000);
        // The first command fails, and so do its jobs, which are the first ones.
        let command = format!(
            "jobs=$(sed 's/^/job /'); echo \"$jobs\" >>{}; test -e {failed} || {{ echo \"$jobs\" >{failed}; exit 1; }}",
            quoted(&log),
            failed = quoted(&failed)
        );
        let mut worker = jobs.work(&["--batch", "100"]).env("DBLOCK_URL", proxy.url()).sh(&command).spawn();
        eventually("those that are there are done", SOON, || jobs.count("dblock_due WHERE job > 1") == 0);
        // Claims began above what was claimed before.
        let claims: Vec<String> = proxy.packets().iter().filter_map(crate::harness::Packet::statements).filter(|sql| sql.contains("SKIP LOCKED")).collect();
        assert!(claims.iter().any(|sql| sql.contains("d.priority = 0 AND d.job > ")), "{claims:?}");
        let again = lines(&failed);
        assert!(again.contains(&"job 1".to_owned()), "{again:?}");
        eventually("what has failed runs once more", SOON, || {
            lines(&log).iter().filter(|line| again.contains(line)).count() == 2 * again.len()
        });
        late.query_drop("COMMIT").unwrap();
        eventually("the late one is done", SOON, || lines(&log).contains(&"job late".to_owned()));
        // A higher priority comes first at any time.
        jobs.put(&["--priority", "-5", "urgent"]);
        eventually("it is done", SOON, || lines(&log).contains(&"job urgent".to_owned()));
        worker.signal(Signal::SIGTERM);
        worker.wait_within(SOON).expect_code(0);
        assert_eq!(lines(&log).len(), 3002 + again.len());
        jobs.assert_empty();
        backup.query_drop("COMMIT").unwrap();
    }

    fn a_process_that_a_command_leaves_behind_runs_on_beyond_its_job(server on mariadb) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        jobs.put(&["x"]);
        let behind = format!("(while ! test -e {go}; do sleep 0.1; done; echo ended >>{log}) >/dev/null 2>&1 &", go = quoted(&go), log = quoted(&log));
        jobs.work(&["--drain"]).sh(&behind).output().expect_code(0).expect_silence();
        jobs.assert_empty();
        std::fs::write(&go, "").unwrap();
        eventually("it has ended by itself", SOON, || lines(&log) == ["ended"]);
    }

    fn a_worker_leaves_no_process_behind(server on mysql) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let go = records.path().join("go");
        jobs.put(&["x"]);
        let until = format!("while ! test -e {}; do sleep 0.1; done", quoted(&go));
        let mut worker = jobs.work(&["--once"]).sh(&until).spawn();
        let claimer = worker.claimer();
        std::fs::write(&go, "").unwrap();
        worker.wait_within(SOON).expect_code(0);
        assert!(!runs(claimer));
    }
}
