//! `dblock cron run` as a service: what it tells its manager, as process 1 of a container, what it costs the server while nothing is due,
//! and what becomes of what is in no file any more.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::{
    BY_CHANCE, Crontab, Kind, SOON, Server, all_servers, both_servers, children_of, eventually,
    send, slack, unique, within,
};

const JOB: &str = "#: job\n0 0 1 1 * echo run >>{}";

both_servers! {
    fn it_tells_its_manager_that_it_is_ready_alive_reading_and_ending(server on mariadb) {
        let crontab = Crontab::new(server, JOB);
        let path = crontab.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        let told = |wanted: &str| {
            let mut bytes = [0; 100];
            loop {
                let length = socket.recv(&mut bytes).unwrap_or_else(|error| panic!("{wanted}: {error}"));
                if &bytes[..length] == wanted.as_bytes() {
                    return;
                }
            }
        };
        let mut host = crontab.daemon(&[]).env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1500000").spawn();
        for wanted in ["READY=1", "WATCHDOG=1", "WATCHDOG=1"] {
            told(wanted);
        }
        host.signal(Signal::SIGHUP);
        for wanted in ["RELOADING=1", "READY=1", "WATCHDOG=1"] {
            told(wanted);
        }
        host.signal(Signal::SIGTERM);
        told("STOPPING=1");
        host.wait_within(SOON).expect_code(0);
    }

    fn as_process_one_it_reaps_orphans_and_ends_when_it_is_told(server on mysql) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * (sleep 0.2 &) ; (sleep 0.3 &) ; echo $PPID >>{}");
        let unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
        let mut host = crontab.daemon(&[]).under(unshare).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(1)[0].trim(), "1");
        crontab.eventually_idle();
        let one = children_of(host.pid())[0];
        eventually("only the scheduler is left", SOON, || children_of(one).len() == 1);
        send(one, Signal::SIGTERM);
        host.wait_within(SOON).expect_code(0);
    }

    fn variables_of_the_server_can_be_kept_from_the_commands(server on mariadb) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * echo ${DBLOCK_URL+url} ${DBLOCK_PASSWORD+password} ${MINE} >>{}");
        for (args, said) in [(&[][..], "url password kept"), (&["--scrub-env"], "kept")] {
            let mut host = crontab.daemon(args).env("MINE", "kept").spawn();
            host.wait_stderr("dblock: ready: ", SOON);
            crontab.due("job");
            eventually("it has run", SOON, || crontab.lines().last().is_some_and(|line| line == said));
            crontab.eventually_idle();
            host.signal(Signal::SIGTERM);
            host.wait_within(SOON).expect_code(0);
        }
    }

    fn a_run_goes_on_whose_job_is_no_longer_in_the_file(server) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * echo begin >>{}; until test -e {}.go; do sleep 0.1; done; echo end >>{}");
        let host = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.write("#: other\n0 0 1 1 * true");
        host.signal(Signal::SIGHUP);
        crontab.eventually_row("dblock_cron_jobs WHERE name LIKE '%-other'");
        std::fs::write(crontab.path("record.go"), "").unwrap();
        crontab.eventually_lines(2);
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 1);
        // It is known for 30 days.
        crontab.due("job");
        crontab.lines_stay(2);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 31 DAY WHERE name LIKE '%-job'");
        let _another = crontab.start(&[]);
        eventually("it is forgotten", SOON, || crontab.count("dblock_cron_jobs WHERE name LIKE '%-job'") == 0);
    }

    fn all_rows_of_a_job_without_a_name_go_some_time_after_its_line_was_edited(server on mysql) {
        let crontab = Crontab::new(server, "0 0 1 1 * echo old >>{}");
        let tables = &crontab.tables;
        tables.init().args(["--keep", "1h,100"]).output().expect_code(0);
        let host = crontab.start(&[]);
        let old = crontab.rows::<String>("SELECT name FROM dblock_cron_jobs").remove(0);
        assert!(old.starts_with("echo-"), "{old}");
        tables.sql("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)");
        crontab.eventually_lines(1);
        crontab.eventually_idle();
        crontab.eventually_row(&format!("dblock_locks WHERE name = '{old}' AND owner IS NULL"));
        crontab.write("0 0 1 1 * echo new >>{}");
        host.signal(Signal::SIGHUP);
        crontab.eventually_row(&format!("dblock_cron_jobs WHERE name <> '{old}'"));
        let left = || ["cron_jobs", "runs", "locks", "successes"].map(|table| crontab.count(&format!("dblock_{table} WHERE name = '{old}'")));
        assert_eq!(left(), [1; 4]);
        let [ago, long_ago] = [3, 31].map(|days| format!("UTC_TIMESTAMP(6) - INTERVAL {days} DAY"));
        tables.sql(&format!("UPDATE dblock_runs SET requested_at = {ago}, ended_at = {ago} WHERE name = '{old}'"));
        tables.sql(&format!("UPDATE dblock_locks SET renewed_at = {ago} WHERE name = '{old}'"));
        tables.sql(&format!("UPDATE dblock_successes SET started_at = {ago}, ended_at = {ago} WHERE name = '{old}'"));
        // A job is known for 30 days, and until then its name counts as used.
        tables.sql(&format!("UPDATE dblock_cron_jobs SET seen_at = {long_ago} WHERE name = '{old}'"));
        let _another = crontab.start(&[]);
        // It stands before the other one, so that each look at old locks comes by that.
        let used = unique("another");
        eventually("other runs have deleted all of it", BY_CHANCE, || {
            tables.at("run").args(["--record", "--name", &used, "true"]).output().expect_code(0);
            left() == [0; 4]
        });
        assert_eq!(crontab.count("dblock_cron_jobs"), 1);
    }
}

all_servers! {
    fn list_is_a_table_or_json(server on mysql) {
        let lines = "#: job\n0 0 1 1 * exit 3\n#: other\n@daily true\n#: retried --retries 1 --retry-delay 1h\n@yearly false\n#: running\n@yearly sleep 60";
        let crontab = Crontab::new(server, lines);
        crontab.does("list", &[]).expect_stdout("no dblock cron run has been here\n");
        let host = crontab.start(&["--jobs", "7"]);
        crontab.due("job");
        crontab.eventually_row("dblock_runs WHERE ended_at IS NOT NULL");
        crontab.eventually_idle();
        let list = crontab.does("list", &[]).stdout;
        let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..3], ["NAME", "SCHEDULE", "ZONE"]);
        assert!(rows[1].starts_with(&[&*crontab.name("job"), "0", "0", "1", "1", "*", "UTC"]) && list.contains("exit 3"), "{list}");
        assert!(rows[2].starts_with(&[&*crontab.name("other"), "@daily", "UTC"]), "{list}");
        let json = crontab.does("list", &["--json"]).json();
        let job = &json["jobs"][0];
        assert_eq!((&job["name"], &job["last"]["exit_code"], &job["last"]["attempt"]), (&crontab.name("job").into(), &3.into(), &1.into()));
        assert!(job["late_seconds"].is_null() && job["paused_since"].is_null(), "{job}");
        assert_eq!((&json["daemons"][0]["alive"], &json["daemons"][0]["job_count"], &json["daemons"][0]["max_commands"]), (&true.into(), &4.into(), &7.into()));
        for name in ["retried", "running"] {
            crontab.due(name);
        }
        crontab.does_to("pause", "other");
        crontab.eventually_row(&format!("dblock_cron_ticks WHERE name = '{}' AND daemon IS NULL", crontab.name("retried")));
        crontab.eventually_row(&format!("dblock_cron_ticks WHERE name = '{}' AND started_at IS NOT NULL", crontab.name("running")));
        let json = crontab.does("list", &["--json"]).json();
        let under_way = |at: usize| json["jobs"][at]["under_way"][0].clone();
        assert!(under_way(2)["retry"].is_string() && under_way(2)["host"].is_null(), "{json}");
        assert!(under_way(3)["host"].is_string() && json["jobs"][1]["paused_since"].is_string(), "{json}");
        // It is told as in the history: what has not ended has no start and no time that it took.
        let run_of = |json: &serde_json::Value, at: usize| json["jobs"][at]["last"].clone();
        let (done, running) = (run_of(&json, 0), run_of(&json, 3));
        assert!(done["acquired"].is_string() && done["started"].is_string() && done["ran_seconds"].is_number(), "{done}");
        assert!(running["acquired"].is_string() && running["outcome"] == "running", "{running}");
        assert!(["started", "ended", "ran_seconds", "exit_code"].iter().all(|key| running[key].is_null()), "{running}");
        let list = crontab.does("list", &[]).stdout;
        let row = list.lines().find(|line| line.starts_with(&crontab.name("running"))).unwrap();
        assert!(row.contains(" running ") && row.contains("s so far "), "{list}");
        let history = crontab.tables.at("history").args([&crontab.name("running"), "--json"]).output().json();
        for key in ["run", "tick", "attempt", "host", "acquired", "started", "ended", "ran_seconds", "outcome"] {
            assert_eq!(running[key], history["runs"][0][key], "{key}");
        }
        // As of a host that has lost its power: nobody has recorded an end, and its lease is over.
        drop(host);
        crontab.eventually_row(&format!("dblock_runs WHERE name = '{}' AND ended_at IS NOT NULL", crontab.name("running")));
        crontab.tables.sql("UPDATE dblock_runs SET ended_at = NULL, outcome = NULL");
        crontab.tables.sql("UPDATE dblock_cron_daemons SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND");
        let json = crontab.does("list", &["--json"]).json();
        assert_eq!(run_of(&json, 3)["outcome"], "unknown");
    }
}

/// Questions that a server of its own gets from an idle daemon.
fn an_idle_daemon_asks_little(kind: Kind) {
    let server = Server::private(kind);
    let crontab = Crontab::new(&server, JOB);
    let _host = crontab.start(&[]);
    let mut admin = server.admin();
    let mut questions = || {
        let row: Option<(String, u64)> = admin
            .query_first("SHOW GLOBAL STATUS LIKE 'Questions'")
            .unwrap();
        row.unwrap().1
    };
    eventually("what it does as it begins is over", SOON, || {
        let before = questions();
        within(Duration::from_secs(2), || false);
        // Looks, a renewal, and this question.
        questions() - before <= 5
    });
    let (begun, before) = (Instant::now(), questions());
    within(Duration::from_secs(10), || false);
    let asked = questions() - before - 1;
    // One look a second, and now and then a renewal. A machine that is held up has fewer looks, or this test more seconds.
    let (seconds, held_up) = (begun.elapsed().as_secs(), slack().as_secs());
    assert!(
        (9_u64.saturating_sub(held_up)..=seconds + 4).contains(&asked),
        "{asked} statements in {seconds} seconds"
    );
}

#[test]
fn an_idle_daemon_asks_once_a_second_mariadb() {
    an_idle_daemon_asks_little(Kind::MariaDb);
}

#[test]
fn an_idle_daemon_asks_once_a_second_mysql() {
    an_idle_daemon_asks_little(Kind::MySql);
}
