//! `dblock cron run`: each tick runs on one host, or is skipped for a reason that the history has; whatever becomes of hosts, sessions
//! and servers.

use std::fs;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::crontab::{job, scheduler_of};
use crate::harness::{
    Crontab, Kind, Proxy, SOON, Server, Watcher, all_servers, both_servers, eventually,
    eventually_gone, quoted, send, slack,
};

/// A job whose ticks are far away.
const JOB: &str = "#: job\n0 0 1 1 * echo job $DBLOCK_ATTEMPT >>{}";

/// A command that runs until [`let_go`].
const HELD: &str = "echo run >>{}; until test -e {}.go; do sleep 0.1; done";

fn let_go(crontab: &Crontab) {
    fs::write(crontab.path("record.go"), "").unwrap();
}

all_servers! {
    fn a_tick_runs_on_one_of_two_hosts(server) {
        let crontab = Crontab::new(server, JOB);
        let hosts = [crontab.start(&[]), crontab.start(&[])];
        for round in 1..=4 {
            crontab.due("job");
            crontab.eventually_lines(round);
            crontab.eventually_idle();
        }
        crontab.lines_stay(4);
        assert_eq!(crontab.lines(), ["job 1"; 4]);
        let runs: Vec<(String, u32, u32, bool, u64)> = crontab.rows(
            "SELECT outcome, exit_code, attempt, started_at >= tick, fence FROM dblock_runs ORDER BY fence");
        assert_eq!(runs, [1, 2, 3, 4].map(|fence| ("ran".to_owned(), 0, 1, true, fence)));
        // The next tick is that of the schedule.
        let next: Vec<String> = crontab.rows(&format!("SELECT {} FROM dblock_cron_jobs", crontab.date("next_at")));
        assert_eq!(next, ["01-01"]);
        for mut host in hosts {
            host.signal(Signal::SIGTERM);
            host.wait_within(SOON).expect_code(0);
        }
        assert_eq!(crontab.count("dblock_cron_daemons WHERE gone_at IS NOT NULL"), 2);
    }
}

both_servers! {
    fn ticks_are_taken_at_their_time_and_moments_later_the_command_runs(server on mysql) {
        let crontab = Crontab::new(server, JOB);
        let _host = crontab.start(&[]);
        let is_prompt = |round: usize| {
            crontab.due_since("job", "UTC_TIMESTAMP(6) + INTERVAL 4 SECOND");
            crontab.eventually_lines(round);
            crontab.eventually_idle();
            let late: Vec<(i64, i64)> = crontab.rows(
                "SELECT TIMESTAMPDIFF(MICROSECOND, tick, requested_at), TIMESTAMPDIFF(MICROSECOND, tick, started_at) \
                 FROM dblock_runs ORDER BY requested_at");
            let (taken, started) = late[round - 1];
            // On a busy machine, so many times that.
            let slack = i64::try_from(slack().as_micros()).unwrap();
            assert!(taken >= 0 && late.len() == round, "{late:?}");
            taken < slack * 7 / 10 && started < 2 * slack
        };
        // It may stand still just then.
        assert!((1..=3).any(is_prompt), "late each time");
    }

    fn the_command_gets_the_environment_and_stdin_of_the_file(server on mariadb) {
        let lines = "MINE=of the file\nSHELL=/bin/bash\nHOME=/tmp\n#: job\n0 0 1 1 * (pwd; echo \"$MINE $SHELL $DBLOCK_NAME $DBLOCK_TICK $DBLOCK_FENCE ${NOTIFY_SOCKET-none}\"; cat) >>{}%one%two";
        let crontab = Crontab::new(server, lines);
        let _host = crontab.daemon(&[]).env("NOTIFY_SOCKET", "/nowhere").spawn();
        crontab.eventually_row("dblock_cron_jobs");
        crontab.due_since("job", "DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00')");
        let lines = crontab.eventually_lines(4);
        let tick: Vec<String> = crontab.rows("SELECT DATE_FORMAT(tick, '%Y-%m-%dT%H:%i:%sZ') FROM dblock_runs");
        let line = format!("of the file /bin/bash {} {} 1 none", crontab.name("job"), tick[0]);
        assert_eq!(lines, ["/tmp", &line, "one", "two"]);
    }

    fn output_has_the_name_of_its_job_in_front(server on mysql) {
        let crontab = Crontab::new(server, &job("", "echo out; echo err >&2; printf 'no end'"));
        let mut host = crontab.start(&[]);
        crontab.due("job");
        host.wait_line("job: no end", SOON);
        host.wait_stderr("job: err\n", SOON);
        assert!(host.stdout().contains("job: out\n"));
    }

    fn output_goes_by_mail_where_the_file_says_so(server on mariadb) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\nMAILFROM=cron@example.org\n#: job\n0 0 1 1 * echo out; echo err >&2\n#: quiet\n0 0 1 1 * echo quiet >>{}");
        let sendmail = crontab.sendmail(&format!("(echo \"$@\"; cat) >{0}.part; mv {0}.part {0}", quoted(&crontab.path("mail"))));
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("quiet");
        crontab.eventually_lines(1);
        crontab.eventually_idle();
        assert!(!crontab.path("mail").exists(), "there is no output");
        crontab.due("job");
        eventually("a mail is sent", SOON, || crontab.path("mail").exists());
        let mail = fs::read_to_string(crontab.path("mail")).unwrap();
        let (headers, body) = mail.split_once("\n\n").unwrap();
        assert_eq!(body, "out\nerr\n");
        assert!(headers.starts_with("-FCronDaemon -i -odi -oem -oi -t\nFrom: \"(Cron Daemon)\" <cron@example.org>\nTo: ops@example.org\nSubject: Cron <"), "{headers}");
        assert!(headers.contains("> echo out; echo err >&2\n"), "{headers}");
        for header in ["Content-Type: text/plain; charset=UTF-8", "Auto-Submitted: auto-generated", "X-Cron-Env: <MAILTO=ops@example.org>"] {
            assert!(headers.lines().any(|line| line == header), "{header}: {headers}");
        }
        // Nothing of it elsewhere.
        assert!(!host.stdout().contains("out"));
        assert!(!host.stderr().contains("sendmail"), "{}", host.stderr());
    }

    fn a_host_that_cannot_send_the_mails_of_its_file_says_so_and_shows_the_output(server on mysql) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * echo out");
        // Where this machine has one, the daemon does not see it.
        let hidden = ["unshare", "--mount", "sh", "-ec", "mount -t tmpfs tmpfs /usr/sbin; exec \"$@\"", "sh"];
        let mut host = crontab.daemon(&[]).under(hidden).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        host.wait_line("job: out", SOON);
        let told = "dblock: MAILTO is set, and this host has no sendmail: output goes to stdout and stderr instead; DBLOCK_SENDMAIL names a sendmail\n";
        assert_eq!(host.stderr().matches(told).count(), 1, "{}", host.stderr());
    }
}

all_servers! {
    fn a_tick_during_a_run_is_skipped_and_the_history_says_so(server on mariadb) {
        let crontab = Crontab::new(server, &job("", HELD));
        let _hosts = [crontab.start(&[]), crontab.start(&[])];
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.due("job");
        crontab.eventually_row("dblock_runs WHERE outcome = 'skipped'");
        let message: Vec<String> = crontab.rows("SELECT message FROM dblock_runs WHERE outcome = 'skipped'");
        assert!(message[0].contains("job: an earlier tick is under way; the tick "), "{message:?}");
        let_go(&crontab);
        crontab.eventually_idle();
        crontab.lines_stay(1);
    }

    fn a_tick_waits_for_a_run_and_another_one_does_not(server on mysql) {
        let crontab = Crontab::new(server, &job("--overlap wait", HELD));
        let _hosts = [crontab.start(&[]), crontab.start(&[])];
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.due("job");
        crontab.eventually_row("dblock_cron_ticks WHERE daemon IS NULL");
        crontab.due("job");
        crontab.eventually_row("dblock_runs WHERE message LIKE '%job: a tick waits already; %'");
        let_go(&crontab);
        crontab.eventually_lines(2);
        crontab.eventually_idle();
        crontab.lines_stay(2);
    }

    fn ticks_that_may_overlap_do(server on mysql) {
        let crontab = Crontab::new(server, &job("--overlap allow", "echo run >>{}; exec sleep 60"));
        let _host = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.due("job");
        crontab.eventually_lines(2);
        assert_eq!(crontab.count("dblock_cron_ticks WHERE started_at IS NOT NULL"), 2);
    }

    fn a_run_that_fails_is_tried_again(server on mariadb) {
        let options = "--retries 2 --retry-delay 100ms";
        let crontab = Crontab::new(server, &job(options, "echo $DBLOCK_ATTEMPT >>{}; exit 3"));
        let _hosts = [crontab.start(&[]), crontab.start(&[])];
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(3), ["1", "2", "3"]);
        crontab.eventually_idle();
        crontab.lines_stay(3);
        let attempts: Vec<(u32, String, u32)> = crontab.rows("SELECT attempt, outcome, exit_code FROM dblock_runs ORDER BY attempt");
        assert_eq!(attempts, [1, 2, 3].map(|attempt| (attempt, "ran".to_owned(), 3)));
    }

    fn the_latest_missed_tick_is_made_up_for_and_the_others_are_one_row(server) {
        let crontab = Crontab::new(server, "#: job\n* * * * * echo $DBLOCK_TICK >>{}");
        crontab.until_minute_is_young();
        let mut before = crontab.start(&[]);
        before.signal(Signal::SIGTERM);
        before.wait_within(SOON).expect_code(0);
        crontab.until_minute_is_young();
        crontab.due_since("job", &crontab.minutes_ago(30));
        let _hosts = [crontab.start(&[]), crontab.start(&[])];
        crontab.eventually_row("dblock_runs WHERE outcome = 'ran'");
        let skips: Vec<String> = crontab.rows("SELECT message FROM dblock_runs WHERE outcome = 'skipped'");
        assert!(skips.len() == 1 && skips[0].contains("job: missed 30 ticks, "), "{skips:?}");
    }

    fn a_new_job_makes_up_for_nothing_and_neither_does_one_with_another_schedule(server on mariadb) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * echo first >>{}");
        let host = crontab.start(&[]);
        crontab.due_since("job", "UTC_TIMESTAMP(6) + INTERVAL 1 DAY");
        crontab.write("#: job\n0 0 2 2 * echo second >>{}\n#: other\n0 0 3 3 * echo other >>{}");
        host.signal(Signal::SIGHUP);
        crontab.eventually_row("dblock_cron_jobs WHERE name LIKE '%-other'");
        let next: Vec<(String, String)> = crontab.rows(&format!("SELECT name, {} FROM dblock_cron_jobs ORDER BY name", crontab.date("next_at")));
        assert_eq!(next, [(crontab.name("job"), "02-02".to_owned()), (crontab.name("other"), "03-03".to_owned())]);
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(1), ["second"]);
    }
}

both_servers! {
    fn a_file_with_errors_changes_nothing(server on mysql) {
        let crontab = Crontab::new(server, JOB);
        let mut host = crontab.start(&[]);
        crontab.write("#: job\n0 0 1 1 echo no");
        host.signal(Signal::SIGHUP);
        host.wait_stderr("crontab is wrong; what was read before stays in force", SOON);
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.daemon(&[]).output().expect_code(78);
    }
}

all_servers! {
    fn another_host_takes_over_a_tick_whose_host_has_died(server) {
        let options = "--ttl 12s";
        let command = "echo $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 2 || sleep 60";
        let crontab = Crontab::new(server, &job(options, command));
        let first = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let _second = crontab.start(&[]);
        first.signal(Signal::SIGKILL);
        assert_eq!(crontab.eventually_lines(2), ["1", "2"]);
        crontab.eventually_idle();
        crontab.lines_stay(2);
        let ends: Vec<(u32, String)> = crontab.rows("SELECT attempt, outcome FROM dblock_runs ORDER BY attempt");
        assert_eq!(ends, [(1, "failed".to_owned()), (2, "ran".to_owned())]);
    }
}

both_servers! {
    fn another_host_takes_over_at_once_where_the_keeper_of_a_daemon_that_died_has_ended_the_command(server on mariadb) {
        let command = "echo $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 2 || sleep 60";
        let crontab = Crontab::new(server, &job("", command));
        let first = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let _second = crontab.start(&[]);
        first.signal(Signal::SIGKILL);
        // The TTL is five minutes.
        assert_eq!(crontab.eventually_lines(2), ["1", "2"]);
        crontab.eventually_idle();
    }
}

all_servers! {
    fn a_host_whose_tick_was_given_to_another_one_starts_nothing(server) {
        let crontab = Crontab::new(server, &job("--overlap wait", "echo $DBLOCK_ATTEMPT >>{}"));
        let proxy = Proxy::to(server);
        let _host = crontab.start_through(&proxy, &[]);
        let mut other = crontab.tables.at("run").args(["--durable", "--name", &crontab.name("job")]).sh("echo here; sleep 60").spawn();
        other.wait_line("here", SOON);
        crontab.due("job");
        // It waits for the lock, and meanwhile the tick is another's, which dies. When it tries for the first time it has just taken the tick.
        // A round of tries is two packets at first.
        let tries = || proxy.packets().iter().filter(|packet| packet.sent().is_some_and(|sent| sent.contains("/* dblock try slot"))).count();
        eventually("it has tried twice", SOON, || tries() > 2);
        crontab.tables.sql("UPDATE dblock_cron_ticks SET run = REPEAT('0', 32), daemon = REPEAT('1', 32)");
        other.signal(Signal::SIGTERM);
        crontab.eventually_row("dblock_runs WHERE outcome = 'skipped' AND message LIKE '%job was given to another host for %'");
        assert_eq!(crontab.eventually_lines(1), ["2"]);
        crontab.eventually_idle();
    }

    fn a_host_that_is_stopped_lets_its_commands_end_or_gives_them_to_another(server on mysql) {
        let command = "echo $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 2 || sleep 60";
        let crontab = Crontab::new(server, &job("", command));
        let mut first = crontab.start(&["--grace", "1s"]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let second = crontab.start(&[]);
        first.signal(Signal::SIGTERM);
        first.wait_within(SOON).expect_code(0);
        assert_eq!(crontab.eventually_lines(2), ["1", "2"]);
        crontab.eventually_idle();
        // What ends in time is not tried again.
        crontab.write(&job("", "echo start >>{}; sleep 6; echo end >>{}"));
        let mut third = crontab.start(&[]);
        crontab.eventually_row("dblock_cron_daemons WHERE gone_at IS NULL AND jobs = 1");
        drop(second);
        crontab.due("job");
        crontab.eventually_lines(3);
        third.signal(Signal::SIGTERM);
        third.wait_within(SOON).expect_code(0);
        assert_eq!(crontab.lines()[2..], ["start", "end"]);
        crontab.eventually_idle();
    }

    fn sessions_and_schedulers_that_are_killed_are_replaced(server) {
        let crontab = Crontab::new(server, JOB);
        let mut host = crontab.start(&[]);
        for round in 1..=3 {
            crontab.due("job");
            crontab.eventually_lines(round);
            let mut watcher = server.watcher();
            for own in crontab.sessions() {
                watcher.end_session(own);
            }
            if round > 1 && let Some(scheduler) = scheduler_of(host.pid()) {
                send(scheduler, Signal::SIGKILL);
                eventually_gone(scheduler, SOON);
            }
            crontab.eventually_idle();
        }
        assert!(host.is_running());
        assert_eq!(crontab.count("dblock_cron_daemons"), 1);
    }

    fn a_paused_job_rests_until_it_is_resumed(server on mariadb) {
        let crontab = Crontab::new(server, "#: job\n* * * * * echo run >>{}");
        let _host = crontab.start(&[]);
        crontab.does_to("pause", "job");
        crontab.until_minute_is_young();
        // A minute may have begun before it was paused.
        crontab.eventually_idle();
        let lines = crontab.lines().len();
        crontab.due_since("job", &crontab.minutes_ago(10));
        crontab.lines_stay(lines);
        assert!(crontab.does("list", &[]).stdout.contains("paused"));
        // Its tick has passed, and is not the next one.
        let jobs = crontab.does("list", &["--json"]).json();
        assert_eq!(jobs["jobs"][0]["next"], serde_json::Value::Null, "{jobs:#}");
        crontab.does_to("resume", "job");
        let again = crontab.tables.at("cron").arg("resume").arg(crontab.name("job")).output();
        again.expect_code(0).expect_silence().expect_stdout(&format!("{} is not paused\n", crontab.name("job")));
        let skips: Vec<String> = crontab.rows("SELECT message FROM dblock_runs WHERE outcome = 'skipped'");
        assert!(skips.len() == 1 && skips[0].contains("job: paused; 11 ticks, "), "{skips:?}");
        assert_eq!(crontab.count("dblock_cron_jobs WHERE paused_at IS NULL AND next_at > UTC_TIMESTAMP(6)"), 1);
        crontab.tables.at("cron").args(["pause", "other"]).output().expect_code(78).expect_one_line("there is no job other; ");
    }

    fn a_trigger_runs_a_job_once_also_while_it_is_paused(server on mysql) {
        let crontab = Crontab::new(server, JOB);
        let _hosts = [crontab.start(&[]), crontab.start(&[])];
        crontab.does_to("pause", "job");
        crontab.does_to("trigger", "job");
        crontab.eventually_lines(1);
        crontab.lines_stay(1);
        assert_eq!(crontab.count("dblock_cron_jobs WHERE triggered_at IS NULL AND paused_at IS NOT NULL"), 1);
    }

    fn a_host_with_another_schedule_does_not_run_a_job_and_is_named(server on mysql) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * echo old >>{}");
        let _first = crontab.start(&[]);
        crontab.write_to("newer", "#: job\n0 0 2 2 * echo new >>{}");
        let _second = crontab.daemon_of("newer", &[]).spawn();
        crontab.eventually_row("dblock_cron_daemons WHERE disagrees LIKE '%-job'");
        for round in 1..=3 {
            crontab.due("job");
            assert_eq!(crontab.eventually_lines(round), vec!["new"; round]);
            crontab.eventually_idle();
        }
        let list = crontab.does("list", &[]).stdout;
        assert!(list.contains("job, and does not run them"), "{list}");
    }
}

both_servers! {
    fn no_more_commands_run_at_once_than_may(server on mariadb) {
        let lines = [0, 1, 2, 3, 4, 5].map(|n| format!("#: job{n}\n0 0 1 1 * echo run >>{{}}; sleep 3\n")).concat();
        let crontab = Crontab::new(server, &lines);
        let _host = crontab.start(&["--jobs", "2"]);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)");
        let mut most = 0;
        eventually("all have run", SOON * 2, || {
            most = most.max(crontab.count("dblock_cron_ticks"));
            crontab.lines().len() == 6
        });
        assert!(most <= 2, "{most} at once");
        // What one host has no room for another one takes.
        crontab.eventually_idle();
    }
}

all_servers! {
    fn run_of_the_same_name_excludes_a_tick(server) {
        let crontab = Crontab::new(server, JOB);
        let _host = crontab.start(&[]);
        let mut other = crontab.tables.at("run").args(["--durable", "--name", &crontab.name("job")]).sh("echo here; sleep 60").spawn();
        other.wait_line("here", SOON);
        crontab.due("job");
        crontab.eventually_row("dblock_runs WHERE outcome = 'skipped' AND message LIKE '%job is held by %'");
        crontab.eventually_idle();
        assert!(crontab.lines().is_empty());
        other.signal(Signal::SIGTERM);
    }

    fn who_is_kept_out_by_a_tick_is_not_told_the_age_of_its_daemon(server) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * echo run >>{}; exec sleep 600");
        let _host = crontab.start(&["--grace", "0s"]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let other = crontab.tables.at("run").args(["--name", &crontab.name("job")]).sh("echo ran").spawn().wait();
        other.expect_code(75).expect_stdout("").expect_said(["; not run"]);
        assert!(!other.stderr.contains(", for "), "{}", other.stderr);
    }
}

/// The tests of a server of their own.
fn a_server_that_restarts(kind: Kind) {
    let server = Server::private(kind);
    let crontab = Crontab::new(
        &server,
        "#: long\n0 0 1 1 * echo long >>{}; sleep 5; echo done >>{}",
    );
    let mut host = crontab.start(&[]);
    if kind != Kind::Postgres {
        // What it has committed it knows after its death, as every server does that is not for tests alone.
        let durable = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
        server.admin().query_drop(durable).unwrap();
    }
    crontab.due("long");
    crontab.eventually_lines(1);
    server.kill();
    server.start();
    eventually("the command has ended", SOON, || {
        crontab.lines().contains(&"done".to_owned())
    });
    crontab.eventually_idle();
    crontab.due("long");
    eventually("it runs again", SOON, || {
        crontab
            .lines()
            .iter()
            .filter(|line| *line == "long")
            .count()
            == 2
    });
    assert!(host.is_running());
}

#[test]
fn a_daemon_outlives_its_server_mariadb() {
    a_server_that_restarts(Kind::MariaDb);
}

#[test]
fn a_daemon_outlives_its_server_mysql() {
    a_server_that_restarts(Kind::MySql);
}

#[test]
fn a_daemon_outlives_its_server_postgres() {
    a_server_that_restarts(Kind::Postgres);
}
