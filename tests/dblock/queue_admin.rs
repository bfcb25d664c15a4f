//! `dblock queue status`, `list`, `show`, `retry` and `cancel`: what is in a queue is shown as it is, and changed as a person says, also
//! while workers have claimed some of it. What runs is claimed here as a worker claims it.

use std::time::Duration;

use mysql::prelude::Queryable;
use serde_json::Value;

use crate::harness::{
    Dblock, Kind, Output, Proxy, Running, SOON, Server, Tables, Watcher, both_servers, eventually,
    numbered_lines,
};

/// The columns that all narrow tables have.
const NARROW: &str =
    "queue, shard, priority, job, last_job, block, jobs, attempt, fence, every_us, due_at";

fn with_queue<'a>(server: &'a crate::harness::Server, options: &[&str]) -> Tables<'a> {
    let tables = Tables::new(server);
    let create = tables.at("queue").args(["create", "q"]).args(options);
    create.output().expect_code(0).expect_silence();
    tables
}

/// `dblock queue COMMAND q ARGS`.
fn queue(tables: &Tables, command: &str, args: &[&str]) -> Dblock {
    tables.at("queue").args([command, "q"]).args(args)
}

#[track_caller]
fn does(tables: &Tables, command: &str, args: &[&str]) -> Output {
    let output = queue(tables, command, args).output();
    output.expect_code(0).expect_silence();
    output
}

/// Puts jobs; their ids.
#[track_caller]
pub fn put(tables: &Tables, args: &[&str]) -> Vec<u64> {
    let output = does(tables, "put", args);
    output
        .stdout
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

/// Puts a block of the numbers from 1; their ids.
fn put_block(tables: &Tables, jobs: u32) -> Vec<u64> {
    let lines = numbered_lines(jobs);
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, lines.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let output = queue(tables, "put", &["--lines"]).stdin(file).output();
    output.expect_code(0).expect_silence();
    output
        .stdout
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

/// A worker whose lease lasts for so many seconds.
fn worker(tables: &Tables, lease: i32) -> u64 {
    let mut admin = tables.admin();
    admin.query_drop(format!(
        "INSERT INTO dblock_workers (run, queue, host, pid, user, program, slots, ttl_seconds, started_at, renewed_at, expires_at) \
         SELECT '{:032x}', id, 'web1', 4711, 'app', 'send-mail', 4, 60, UTC_TIMESTAMP(6) - INTERVAL 90 SECOND, \
         UTC_TIMESTAMP(6) - INTERVAL 5 SECOND, UTC_TIMESTAMP(6) + INTERVAL {lease} SECOND FROM dblock_queues WHERE name = 'q'",
        fastrand::u128(..)
    )).unwrap();
    admin.last_insert_id()
}

/// Has a worker claim what is due of a job.
fn claim(tables: &Tables, worker: u64, job: u64) {
    tables.sql(&format!(
        "INSERT INTO dblock_running ({NARROW}, worker, turn, claimed_at) SELECT {NARROW}, {worker}, 1, UTC_TIMESTAMP(6) FROM dblock_due WHERE job = {job}"
    ));
    tables.sql(&format!(
        "UPDATE dblock_running SET attempt = attempt + 1, fence = fence + 1 WHERE job = {job}"
    ));
    tables.sql(&format!("DELETE FROM dblock_due WHERE job = {job}"));
}

/// Has a job be dead, with an error.
pub fn bury(tables: &Tables, job: u64) {
    tables.sql(&format!("INSERT INTO dblock_dead ({NARROW}, died_at) SELECT {NARROW}, UTC_TIMESTAMP(6) FROM dblock_due WHERE job = {job}"));
    tables.sql(&format!(
        "UPDATE dblock_dead SET attempt = 20 WHERE job = {job}"
    ));
    tables.sql(&format!("UPDATE dblock_jobs SET failed_at = UTC_TIMESTAMP(6), last_error = 'no route to host' WHERE id = {job}"));
    tables.sql(&format!("DELETE FROM dblock_due WHERE job = {job}"));
}

/// Has a job be done, so many seconds ago, and kept.
fn finish(tables: &Tables, job: u64, ago: u32) {
    tables.sql(&format!(
        "INSERT INTO dblock_done ({NARROW}, done_at) SELECT {NARROW}, UTC_TIMESTAMP(6) - INTERVAL {ago} SECOND FROM dblock_due WHERE job = {job}"
    ));
    tables.sql(&format!("DELETE FROM dblock_due WHERE job = {job}"));
}

fn count(tables: &Tables, what: &str) -> u64 {
    tables
        .admin()
        .query_first(format!("SELECT COUNT(*) FROM {what}"))
        .unwrap()
        .unwrap()
}

/// What was printed.
#[track_caller]
fn json(output: &Output) -> Value {
    output.expect_code(0).expect_silence().json()
}

/// The ids of a list.
#[track_caller]
fn listed(tables: &Tables, args: &[&str]) -> Vec<u64> {
    let whole = json(&queue(tables, "list", args).arg("--json").output());
    let jobs = whole["jobs"].as_array().unwrap();
    jobs.iter().map(|job| job["id"].as_u64().unwrap()).collect()
}

/// Hosts that vanish just as their dblocks have locked one of these rows in a transaction: the server soon ends their sessions, and the
/// rows are free.
#[track_caller]
pub fn vanish_in_transactions(tables: &Tables, rows: &str, actions: Vec<Dblock>) {
    let (server, proxy) = (tables.server, Proxy::to(tables.server));
    let waits = match server.kind {
        Kind::MariaDb | Kind::MySql => {
            "SELECT id FROM information_schema.processlist WHERE info LIKE '/* dblock %UPDATE%'"
        }
        Kind::Postgres => "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    };
    let mut watcher = server.watcher();
    let mut waiting = || {
        let mut waiting: Vec<u64> = watcher.query(waits).expect("a list of sessions");
        // Not those of another test.
        let is_ours = |port: u16| proxy.comes_from(port).is_some();
        let ours: Vec<u64> = watcher
            .sessions()
            .into_iter()
            .filter_map(|(session, port)| port.is_some_and(is_ours).then_some(session))
            .collect();
        waiting.retain(|session| ours.contains(session));
        waiting.sort_unstable();
        waiting
    };
    let mut holder = tables.lock(rows);
    let number = actions.len();
    let through_proxy = |action: Dblock| {
        let action = action.env("DBLOCK_URL", proxy.url());
        // None of them ends by itself meanwhile.
        action.env("DBLOCK_CONNECT_TIMEOUT", "60s").spawn()
    };
    let acting: Vec<Running> = actions.into_iter().map(through_proxy).collect();
    let mut sessions = Vec::new();
    eventually("they wait for the rows, and hear no more", SOON, || {
        proxy.thaw();
        sessions = waiting();
        // Not between two tries.
        sessions.len() == number && {
            proxy.freeze();
            waiting() == sessions
        }
    });
    holder.query_drop("COMMIT").unwrap();
    eventually("the server ends the sessions", SOON, || {
        sessions.iter().all(|&session| !server.has_session(session))
    });
    holder.lock(rows);
    drop(acting);
}

/// Text without the blanks between columns.
fn words(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(words).collect()
}

both_servers! {
    fn the_rows_of_a_host_that_vanishes_in_a_transaction_are_soon_free(server) {
        let tables = with_queue(server, &[]);
        let id = put(&tables, &["x"])[0].to_string();
        let proxy = Proxy::to(server);
        let mut admin = tables.admin();
        let lock = "SELECT job FROM dblock_due FOR UPDATE";
        admin.query_drop("BEGIN").unwrap();
        admin.query_drop(lock).unwrap();
        let canceling = queue(&tables, "cancel", &[&id]).env("DBLOCK_URL", proxy.url());
        // It does not end by itself meanwhile.
        let canceling = canceling.env("DBLOCK_CONNECT_TIMEOUT", "60s").spawn();
        // Not one of another test.
        let waits = format!("dblock queue %{}%FOR UPDATE", tables.quoted());
        let waits = format!("SELECT ID FROM information_schema.processlist WHERE INFO LIKE '/* {waits}%'");
        let mut other = tables.admin();
        let mut waiting = || other.query_first::<u64, _>(&waits).unwrap();
        let mut session = None;
        eventually("it waits for the row, and hears no more", SOON, || {
            proxy.thaw();
            session = waiting();
            // Not between two tries.
            session.is_some() && {
                proxy.freeze();
                waiting() == session
            }
        });
        admin.query_drop("COMMIT").unwrap();
        eventually("the server ends the session", SOON, || !server.has_session(session.unwrap()));
        admin.query_drop(lock).unwrap();
        drop(canceling);
    }

    fn the_rows_of_hosts_that_vanish_while_they_retry_jobs_or_pause_the_queue_are_soon_free(server) {
        let tables = with_queue(server, &[]);
        let delayed = put(&tables, &["x", "--delay", "1h"])[0].to_string();
        bury(&tables, put(&tables, &["y"])[0]);
        let actions = [("retry", &*delayed), ("retry", "--dead"), ("pause", "--quiet")];
        let actions = actions.map(|(command, arg)| queue(&tables, command, &[arg]));
        vanish_in_transactions(&tables, "dblock_delayed, dblock_dead, dblock_queues", actions.into());
    }

    fn no_transaction_stays_open_of_a_host_that_vanishes_while_it_puts_a_long_job(shared) {
        // The job comes in many packets.
        let server = Server::private_with(shared.kind, &["--max-allowed-packet=256K"]);
        let tables = with_queue(&server, &[]);
        let proxy = Proxy::to(&server);
        proxy.delay(Duration::from_millis(20));
        let payload = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(payload.path(), vec![b'x'; 15_000_000]).unwrap();
        let put = queue(&tables, "put", &["--file"]).arg(payload.path());
        let putting = put.env("DBLOCK_URL", proxy.url()).spawn();
        let open = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_rows_modified > 0 LIMIT 1";
        let mut admin = tables.admin();
        let mut session = None;
        eventually("its transaction is open", SOON, || {
            // The server reads this anew only for who asks less often than ten times a second.
            std::thread::sleep(Duration::from_millis(150));
            session = admin.query_first::<u64, _>(open).unwrap();
            session.is_some()
        });
        proxy.freeze();
        eventually("the server ends the session", SOON, || !server.has_session(session.unwrap()));
        drop(putting);
    }

    fn status_counts_the_jobs_of_each_state(server) {
        let tables = with_queue(server, &["--shards", "2"]);
        assert_eq!(words(&tables.at("queue").arg("status").output().stdout)[1], "q open 0 0 0 0 - 0/min 0/min 0");
        let ids = put(&tables, &["a", "b", "c", "d", "e"]);
        put(&tables, &["f", "--delay", "1h"]);
        let (live, gone) = (worker(&tables, 60), worker(&tables, -1));
        claim(&tables, live, ids[0]);
        claim(&tables, live, ids[1]);
        bury(&tables, ids[2]);
        tables.sql("UPDATE dblock_due SET due_at = UTC_TIMESTAMP(6) - INTERVAL 125 SECOND LIMIT 1");
        // Of the last five whole minutes, and of others.
        tables.sql("INSERT INTO dblock_queue_minutes SELECT id, CAST(DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00') AS DATETIME) - INTERVAL 3 MINUTE, 1, 61, 7 FROM dblock_queues");
        tables.sql("INSERT INTO dblock_queue_minutes SELECT id, CAST(DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00') AS DATETIME) - INTERVAL 30 MINUTE, 1, 1000, 1000 FROM dblock_queues");
        tables.sql("INSERT INTO dblock_queue_minutes SELECT id, CAST(DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00') AS DATETIME) + INTERVAL 2 MINUTE, 1, 1000, 1000 FROM dblock_queues");
        let whole = json(&queue(&tables, "status", &["--json"]).output());
        let found = &whole["queues"][0];
        for (name, value) in [("due", 2), ("delayed", 1), ("running", 2), ("dead", 1)] {
            assert_eq!(found[name], value, "{name}: {found:#}");
        }
        assert_eq!((&found["done_per_minute"], &found["failed_per_minute"]), (&Value::from(12.2), &Value::from(1.4)));
        let oldest = found["oldest_due_seconds"].as_f64().unwrap();
        assert!((125.0..150.0).contains(&oldest), "{oldest}");
        assert_eq!((&found["paused_since"], &found["incomplete"]), (&Value::Null, &Value::Array(Vec::new())));
        let workers = found["workers"].as_array().unwrap();
        assert_eq!(workers.len(), 2);
        assert_eq!((&workers[0]["id"], &workers[0]["alive"], &workers[0]["running"]), (&live.into(), &true.into(), &2.into()));
        assert_eq!((&workers[1]["id"], &workers[1]["alive"]), (&gone.into(), &false.into()));
        assert_eq!((&workers[0]["host"], &workers[0]["pid"], &workers[0]["program"], &workers[0]["max_commands"]), (&"web1".into(), &4711.into(), &"send-mail".into(), &4.into()));
        let lines = words(&does(&tables, "status", &[]).stdout);
        assert!(lines[1].starts_with("q open 2 1 2 1 2m") && lines[1].ends_with("12.2/min 1.4/min 1"), "{lines:?}");
        assert!(lines[3].starts_with("QUEUE STATE HOST PID "), "{lines:?}");
        assert!(lines[4].starts_with("q alive web1 4711 send-mail 4 2 1m "), "{lines:?}");
        assert!(lines[5].starts_with("q gone web1"), "{lines:?}");
        does(&tables, "pause", &[]);
        assert!(words(&does(&tables, "status", &[]).stdout)[1].starts_with("q paused"));
    }

    fn a_delayed_job_whose_time_has_come_counts_as_due_without_a_worker(server) {
        let tables = with_queue(server, &[]);
        let first = put(&tables, &["a"])[0];
        let later = put(&tables, &["b", "--delay", "1h"])[0];
        let late = put(&tables, &["c", "d", "--delay", "1h"]);
        for (job, ago) in late.iter().zip([125, 20]) {
            tables.sql(&format!("UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6) - INTERVAL {ago} SECOND WHERE job = {job}"));
        }
        for args in [&["--json"][..], &["--json", "--exact"]] {
            let whole = json(&queue(&tables, "status", args).output());
            let found = &whole["queues"][0];
            assert_eq!((&found["due"], &found["delayed"]), (&3.into(), &1.into()), "{found:#}");
            let oldest = found["oldest_due_seconds"].as_f64().unwrap();
            assert!((125.0..150.0).contains(&oldest), "{oldest}");
        }
        // The list says the same, behind the others that are due.
        let late = [late[0], late[1]];
        let whole = json(&queue(&tables, "list", &["--json"]).output());
        let states: Vec<_> = whole["jobs"].as_array().unwrap().iter().map(|job| &job["state"]).collect();
        assert_eq!(states, ["due", "due", "due", "delayed"]);
        assert_eq!(listed(&tables, &[]), [first, late[0], late[1], later]);
        assert_eq!(listed(&tables, &["--state", "due"]), [first, late[0], late[1]]);
        assert_eq!(listed(&tables, &["--state", "delayed"]), [later]);
        for id in late {
            let show = json(&queue(&tables, "show", &[&id.to_string(), "--json"]).output());
            assert_eq!(show["state"], "due", "{show:#}");
            assert!(show["state_since"].is_string() && show["state_since"] == show["due_at"], "{show:#}");
        }
        let metrics = tables.at("metrics").output();
        let metrics = &metrics.expect_code(0).stdout;
        let oldest = metrics.lines().find_map(|line| line.strip_prefix("dblock_queue_oldest_due_seconds{name=\"q\"} "));
        let oldest: f64 = oldest.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap();
        assert!((125.0..150.0).contains(&oldest), "{oldest}");
    }

    fn status_shows_who_died_in_the_last_day_and_nobody_who_ended_well(server on mysql) {
        let tables = with_queue(server, &[]);
        for (died, ago) in [(1, 23), (1, 25), (0, 1)] {
            let worker = worker(&tables, 0);
            tables.sql(&format!("UPDATE dblock_workers SET expires_at = NULL, gone_at = UTC_TIMESTAMP(6) - INTERVAL {ago} HOUR, died = {died} WHERE worker = {worker}"));
        }
        let whole = json(&queue(&tables, "status", &["--json"]).output());
        assert_eq!(whole["queues"][0]["workers"].as_array().unwrap().len(), 1);
    }

    fn status_of_some_queues_shows_them_alone(server on mariadb) {
        let tables = with_queue(server, &[]);
        for name in ["a", "b"] {
            tables.at("queue").args(["create", name]).output().expect_code(0);
        }
        let names = |args: &[&str]| {
            let whole = json(&tables.at("queue").args(["status", "--json"]).args(args).output());
            whole["queues"].as_array().unwrap().iter().map(|queue| queue["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["a", "b", "q"]);
        assert_eq!(names(&["q", "a", "q"]), ["a", "q"]);
        // What is there is shown all the same.
        let some = tables.at("queue").args(["status", "b", "nope"]).output();
        some.expect_code(78).expect_one_line("there is no queue nope");
        assert!(some.stdout.contains("b "), "{}", some.stdout);
        assert_eq!(Tables::new(server).at("queue").arg("status").output().stdout, "there is no queue\n");
    }

    fn the_jobs_of_a_block_are_counted_one_by_one(server on mysql) {
        let tables = with_queue(server, &["--claim", "blocks"]);
        let ids = put_block(&tables, 300);
        assert_eq!(ids.len(), 300);
        assert_eq!(json(&queue(&tables, "status", &["--json"]).output())["queues"][0]["due"], 300);
        assert_eq!(listed(&tables, &["-n", "0"]), ids);
        assert_eq!(listed(&tables, &["-n", "5"]), ids[..5]);
    }

    fn a_list_has_those_first_that_come_first(server) {
        let tables = with_queue(server, &["--shards", "3"]);
        let low = put(&tables, &["--priority", "5", "a", "b", "c", "d"]);
        let high = put(&tables, &["--priority", "-5", "e", "f", "g", "h", "i"]);
        let later = put(&tables, &["--delay", "2h", "j"]);
        let sooner = put(&tables, &["--delay", "1h", "k"]);
        let worker = worker(&tables, 60);
        claim(&tables, worker, high[0]);
        for job in &low[..2] {
            bury(&tables, *job);
        }
        finish(&tables, high[1], 30);
        finish(&tables, high[2], 10);
        let order = [&high[..1], &high[3..], &low[2..], &sooner, &later, &[low[1], low[0]]].concat();
        assert_eq!(listed(&tables, &[]), order);
        assert_eq!(listed(&tables, &["-n", "4"]), order[..4]);
        for (state, ids) in [("running", &high[..1]), ("due", &[&high[3..], &low[2..]].concat()), ("delayed", &[sooner[0], later[0]]), ("dead", &[low[1], low[0]]), ("done", &[high[2], high[1]])] {
            assert_eq!(listed(&tables, &["--state", state]), ids, "{state}");
        }
        let lines = words(&does(&tables, "list", &["--state", "dead", "-n", "1"]).stdout);
        assert!(lines[1].starts_with(&format!("{} dead 5 ", low[1])) && lines[1].ends_with(" 20 - - no route to host"), "{lines:?}");
        let lines = words(&does(&tables, "list", &["--state", "running"]).stdout);
        assert!(lines[1].ends_with(" 1 - web1:4711 -"), "{lines:?}");
        does(&tables, "list", &["--state", "due", "-n", "0"]);
        let other = with_queue(server, &[]);
        does(&other, "list", &[]).expect_stdout("there is no such job\n");
    }

    fn a_long_list_is_whole_and_in_order(server) {
        let tables = with_queue(server, &["--shards", "5"]);
        let many: Vec<String> = (0..700).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let due = put(&tables, &many);
        assert_eq!(listed(&tables, &["-n", "0"]), due);
        assert_eq!(listed(&tables, &["-n", "650"]), due[..650]);
        // All of one moment.
        tables.sql(&format!("INSERT INTO dblock_delayed ({NARROW}) SELECT {} FROM dblock_due", NARROW.replace("due_at", "'2031-01-01'")));
        tables.sql(&format!("INSERT INTO dblock_done ({NARROW}, done_at) SELECT {NARROW}, '2021-01-01' FROM dblock_due"));
        tables.sql(&format!("INSERT INTO dblock_dead ({NARROW}, died_at) SELECT {NARROW}, '2021-01-01' FROM dblock_due"));
        let backwards: Vec<u64> = due.iter().rev().copied().collect();
        assert_eq!(listed(&tables, &["-n", "0", "--state", "delayed"]), due);
        assert_eq!(listed(&tables, &["-n", "0", "--state", "done"]), backwards);
        assert_eq!(listed(&tables, &["-n", "0", "--state", "dead"]), backwards);
    }

    fn a_job_is_shown_with_its_payload(server on mariadb) {
        let tables = with_queue(server, &[]);
        let plain = put(&tables, &["--key", "k", "--priority", "3", "--every", "90s", "line\n\x1b[2Jé"])[0].to_string();
        let shown = words(&does(&tables, "show", &[&plain]).stdout);
        for line in [&*format!("id {plain}"), "queue q", "state due", "priority 3", "every 1m 30s", "attempt 0", "fence 0", "key k", "bytes 11"] {
            assert!(shown.contains(&line.to_owned()), "{line}: {shown:?}");
        }
        assert!(shown.contains(&"payload line \\u{1b}[2Jé".to_owned()), "{shown:?}");
        let whole = json(&queue(&tables, "show", &[&plain, "--json"]).output());
        assert_eq!((&whole["payload"], &whole["every_seconds"], &whole["key"], &whole["state"]), (&"line\n\u{1b}[2Jé".into(), &90.0.into(), &"k".into(), &"due".into()));
        does(&tables, "show", &[&plain, "--payload"]).expect_stdout("line\n\x1b[2Jé");
        let closed = queue(&tables, "show", &[&plain, "--payload"]).under(["sh", "-c", "exec \"$@\" >&-", "sh"]);
        closed.output().expect_code(70).expect_one_line("cannot write to stdout: Bad file descriptor");
        // Bytes that are no text, and more than one statement holds.
        let bytes: Vec<u8> = (0..600_000_u32).map(|number| u8::try_from(number % 253).unwrap()).collect();
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, &bytes).unwrap();
        let long = put(&tables, &["--file", from.to_str().unwrap()])[0].to_string();
        queue(&tables, "show", &[&long, "--payload"]).stdout(std::fs::File::create(&to).unwrap()).output().expect_code(0).expect_silence();
        assert_eq!(std::fs::read(&to).unwrap(), bytes);
        let whole = json(&queue(&tables, "show", &[&long, "--json"]).output());
        assert_eq!((whole.get("payload"), &whole["payload_bytes"]), (None, &600_000.into()));
        assert!(whole["payload_hex"].as_str().unwrap().starts_with("000102"));
        assert!(words(&does(&tables, "show", &[&long]).stdout).last().unwrap().ends_with('…'));
    }

    fn show_knows_each_state(server on mysql) {
        let tables = with_queue(server, &["--claim", "blocks"]);
        let state = |id: u64| json(&queue(&tables, "show", &[&id.to_string(), "--json"]).output())["state"].as_str().unwrap().to_owned();
        let ids: Vec<Vec<u64>> = (0..5).map(|_| put_block(&tables, 3)).collect();
        let worker = worker(&tables, 60);
        claim(&tables, worker, ids[0][0]);
        bury(&tables, ids[1][0]);
        finish(&tables, ids[2][0], 1);
        let later = NARROW.replace("due_at", "'2031-01-01'");
        tables.sql(&format!("INSERT INTO dblock_delayed ({NARROW}) SELECT {later} FROM dblock_due WHERE job = {}", ids[3][0]));
        tables.sql(&format!("DELETE FROM dblock_due WHERE job = {}", ids[3][0]));
        for (ids, expected) in ids.iter().zip(["running", "dead", "done", "delayed", "due"]) {
            for &id in ids {
                assert_eq!(state(id), expected, "{id}");
            }
        }
        let show = |id: u64| json(&queue(&tables, "show", &[&id.to_string(), "--json"]).output());
        let whole = show(ids[0][1]);
        assert_eq!((&whole["block_jobs"], &whole["attempt"]), (&3.into(), &1.into()));
        // It is its worker's.
        let status = json(&queue(&tables, "status", &["--json"]).output());
        let worker = &status["queues"][0]["workers"][0];
        assert_eq!((&whole["host"], &whole["pid"]), (&worker["host"], &worker["pid"]));
        assert_eq!((&whole["host"], &whole["pid"]), (&"web1".into(), &4711.into()));
        // That a block is done is known of each of its jobs.
        let done = show(ids[2][2]);
        assert_eq!(done["block_jobs"], 3, "{done:#}");
        assert!(done["due_at"].is_string() && done["state_since"].is_string(), "{done:#}");
        // A delayed job will be due.
        let (due, delayed) = (show(ids[4][0]), show(ids[3][0]));
        assert!(due["state_since"].is_string() && due["state_since"] == due["due_at"], "{due:#}");
        assert!(delayed["state_since"].is_null() && delayed["due_at"].is_string(), "{delayed:#}");
        assert!(whole["state_since"].as_str() > whole["due_at"].as_str(), "{whole:#}");
        queue(&tables, "show", &["999999"]).output().expect_code(78).expect_stdout("").expect_one_line("q has no job 999999");
        // Of another queue.
        tables.at("queue").args(["create", "other"]).output().expect_code(0);
        tables.at("queue").args(["show", "other", &ids[0][0].to_string()]).output().expect_code(78).expect_one_line("other has no job");
    }

    fn a_job_that_is_done_and_kept_is_shown_as_it_is_listed(server) {
        let tables = with_queue(server, &["--keep", "1h"]);
        let ids = put(&tables, &["a", "b", "c"]);
        queue(&tables, "work", &["--drain", "--", "true"]).output().expect_code(0);
        let list = json(&queue(&tables, "list", &["--state", "done", "--json"]).output());
        let jobs = list["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), ids.len());
        for job in jobs {
            let show = json(&queue(&tables, "show", &[&job["id"].to_string(), "--json"]).output());
            assert_eq!((&show["state"], &show["attempt"], &show["fence"]), (&"done".into(), &1.into(), &1.into()), "{show:#}");
            assert!(show["state_since"].is_string() && show["due_at"].is_string(), "{show:#}");
            for (name, value) in job.as_object().unwrap() {
                assert_eq!(&show[name], value, "{name}");
            }
        }
    }

    fn a_dead_or_delayed_job_is_retried(server) {
        let tables = with_queue(server, &["--shards", "2"]);
        let ids = put(&tables, &["a", "b", "c", "d"]);
        let delayed = put(&tables, &["--delay", "1h", "e"])[0];
        bury(&tables, ids[0]);
        finish(&tables, ids[3], 1);
        let worker = worker(&tables, 60);
        claim(&tables, worker, ids[1]);
        let text = |id: u64| id.to_string();
        queue(&tables, "retry", &[&text(ids[0]), &text(delayed), "-v"]).output().expect_code(0).expect_stdout("2 jobs due again\n");
        assert_eq!(count(&tables, &format!("dblock_due WHERE job = {} AND attempt = 0", ids[0])), 1);
        assert_eq!(count(&tables, &format!("dblock_due WHERE job = {delayed} AND due_at <= UTC_TIMESTAMP(6)")), 1);
        assert_eq!((count(&tables, "dblock_dead"), count(&tables, "dblock_delayed")), (0, 0));
        // It is due, and stays so.
        does(&tables, "retry", &[&text(ids[2])]);
        queue(&tables, "retry", &[&text(ids[1])]).output().expect_code(75).expect_one_line("is running; it is left alone");
        queue(&tables, "retry", &[&text(ids[3])]).output().expect_code(78).expect_one_line("is done");
        queue(&tables, "retry", &["999999"]).output().expect_code(78).expect_one_line("q has no job 999999");
        // The others are retried all the same.
        bury(&tables, ids[0]);
        let output = queue(&tables, "retry", &["999999", &text(ids[1]), &text(ids[0])]).output();
        output.expect_code(78).expect_said(["has no job 999999", "is running"]);
        assert_eq!(count(&tables, "dblock_dead"), 0);
    }

    fn all_that_are_dead_are_retried(server on mariadb) {
        let tables = with_queue(server, &["--shards", "3"]);
        let many: Vec<String> = (0..450).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        put(&tables, &many);
        tables.sql(&format!("INSERT INTO dblock_dead ({NARROW}, died_at) SELECT {NARROW}, UTC_TIMESTAMP(6) FROM dblock_due"));
        tables.sql("DELETE FROM dblock_due");
        tables.sql("UPDATE dblock_dead SET attempt = 20, fence = 9");
        queue(&tables, "retry", &["--dead", "-v"]).output().expect_code(0).expect_stdout("450 jobs due again\n");
        assert_eq!(count(&tables, "dblock_due d JOIN dblock_jobs j ON j.id = d.job AND j.shard = d.shard WHERE d.attempt = 0 AND d.fence = 9"), 450);
        assert_eq!(count(&tables, "dblock_dead"), 0);
        does(&tables, "retry", &["--dead"]);
    }

    fn all_that_are_dead_are_retried_though_the_clock_was_set_back(server) {
        let tables = with_queue(server, &[]);
        for id in put(&tables, &["a", "b"]) {
            bury(&tables, id);
        }
        tables.sql("UPDATE dblock_dead SET died_at = died_at + INTERVAL 1 HOUR LIMIT 1");
        queue(&tables, "retry", &["--dead", "-v"]).output().expect_code(0).expect_stdout("2 jobs due again\n");
        assert_eq!((count(&tables, "dblock_due WHERE due_at <= UTC_TIMESTAMP(6)"), count(&tables, "dblock_dead")), (2, 0));
    }

    fn a_job_that_never_rests_is_not_taken_for_one_that_is_done(server) {
        let tables = with_queue(server, &[]);
        let job = put(&tables, &["a"])[0].to_string();
        let (proxy, mut admin) = (Proxy::to(server), tables.admin());
        let mut moves = |from: &str, to: &str| {
            let insert = format!("INSERT INTO dblock_{to} ({NARROW}) SELECT {NARROW} FROM dblock_{from}");
            for statement in ["BEGIN", &insert, &format!("DELETE FROM dblock_{from}"), "COMMIT"] {
                admin.query_drop(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
            }
        };
        let freeze_at_look_in = |table: &str| proxy.freeze_at(format!("AS is_due FROM {}.dblock_{table} n", tables.quoted()));
        freeze_at_look_in("due");
        let cancel = queue(&tables, "cancel", &[&job]).env("DBLOCK_URL", proxy.url());
        // It does not end by itself meanwhile.
        let mut canceling = cancel.env("DBLOCK_CONNECT_TIMEOUT", "60s").spawn();
        // Just before it is looked for in one state it moves to the other one, where it was just looked for.
        for _ in 0..3 {
            for (from, to) in [("due", "delayed"), ("delayed", "due")] {
                eventually(&format!("it is looked for among the jobs that are {from}"), SOON, || proxy.is_frozen());
                moves(from, to);
                freeze_at_look_in(to);
                proxy.thaw();
            }
        }
        eventually("it is looked for once more", SOON, || proxy.is_frozen());
        proxy.thaw();
        canceling.wait_within(SOON).expect_code(0).expect_silence();
        assert_eq!((count(&tables, "dblock_due"), count(&tables, "dblock_jobs")), (0, 0));
    }

    fn a_job_that_waits_is_canceled(server on mysql) {
        let tables = with_queue(server, &[]);
        let due = put(&tables, &["--key", "k", "a"])[0];
        let delayed = put(&tables, &["--delay", "1h", "b"])[0];
        let dead = put(&tables, &["c"])[0];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, vec![7; 100_000]).unwrap();
        let long = put(&tables, &["--file", file.to_str().unwrap()])[0];
        let left = put(&tables, &["--key", "other", "d"])[0];
        bury(&tables, dead);
        let ids = [due, delayed, dead, long].map(|id| id.to_string());
        let ids = ids.each_ref().map(String::as_str);
        queue(&tables, "cancel", &[&ids[..], &["-v"]].concat()).output().expect_code(0).expect_stdout("deleted 4 jobs\n");
        assert_eq!(listed(&tables, &["-n", "0"]), [left]);
        for (table, rows) in [("jobs", 1), ("job_parts", 0), ("job_keys", 1), ("due", 1), ("delayed", 0), ("dead", 0)] {
            assert_eq!(count(&tables, &format!("dblock_{table}")), rows, "{table}");
        }
        // Its key is free.
        assert!(put(&tables, &["--key", "k", "e"])[0] > left);
        queue(&tables, "cancel", &[ids[0]]).output().expect_code(78).expect_one_line("q has no job");
        // What failed is said all the same.
        for action in ["cancel", "retry"] {
            let output = queue(&tables, action, &["-q", "99999"]).output();
            output.expect_code(78).expect_stdout("").expect_one_line("q has no job 99999");
        }
    }

    fn one_that_runs_goes_on_and_is_not_run_again(server on mariadb) {
        let tables = with_queue(server, &[]);
        let job = put(&tables, &["--every", "1h", "a"])[0];
        let worker = worker(&tables, 60);
        claim(&tables, worker, job);
        let line = format!("dblock: job {job} of q is running: its command goes on to its end, but is not run again\n");
        for (args, said) in [(&[][..], &*line), (&[], &line), (&["-q"], "")] {
            if said.is_empty() {
                tables.sql("UPDATE dblock_jobs SET canceled_at = NULL");
            }
            let canceled = queue(&tables, "cancel", &[&[&*job.to_string()], args].concat()).output();
            canceled.expect_code(0).expect_stdout("");
            assert_eq!(canceled.stderr, said);
            assert_eq!(count(&tables, "dblock_jobs WHERE canceled_at IS NOT NULL"), 1);
        }
        assert_eq!(count(&tables, "dblock_running"), 1);
        assert!(words(&does(&tables, "list", &[]).stdout)[1].contains("running, canceled"));
        finish(&tables, put(&tables, &["b"])[0], 1);
        let done = listed(&tables, &["--state", "done"])[0].to_string();
        queue(&tables, "cancel", &[&done]).output().expect_code(78).expect_one_line("is done");
    }

    fn a_job_is_taken_out_of_its_block(server on mysql) {
        let tables = with_queue(server, &["--claim", "blocks"]);
        let ids = put_block(&tables, 4);
        for (number, job) in [(3, ids[0]), (2, ids[2]), (1, ids[3])] {
            does(&tables, "cancel", &[&job.to_string()]);
            assert_eq!(count(&tables, &format!("dblock_due WHERE jobs = {number} AND job = {} AND last_job = {}", ids[0], ids[3])), 1);
        }
        assert_eq!(listed(&tables, &[]), [ids[1]]);
        does(&tables, "cancel", &[&ids[1].to_string()]);
        assert_eq!((count(&tables, "dblock_due"), count(&tables, "dblock_jobs")), (0, 0));
        // A dead block comes as a whole.
        let ids = put_block(&tables, 3);
        bury(&tables, ids[0]);
        queue(&tables, "retry", &[&ids[1].to_string(), "-v"]).output().expect_code(0);
        assert_eq!(count(&tables, &format!("dblock_due WHERE job = {} AND jobs = 3 AND attempt = 0", ids[0])), 1);
    }

    fn a_job_of_a_block_is_found_whatever_the_step_from_one_id_to_the_next_is_by_now(shared) {
        let server = Server::private(shared.kind);
        let tables = with_queue(&server, &["--claim", "blocks"]);
        let go_by = |step: u32| {
            let set = format!("SET GLOBAL auto_increment_increment = {step}");
            server.admin().query_drop(set).unwrap();
        };
        // As on a cluster that had ten nodes.
        go_by(10);
        let ids = put_block(&tables, 300);
        go_by(1);
        let last = ids[299];
        assert!(last - ids[0] > 2000, "{ids:?}");
        let shown = json(&queue(&tables, "show", &[&last.to_string(), "--json"]).output());
        assert_eq!((&shown["state"], &shown["block_jobs"]), (&"due".into(), &300.into()));
        does(&tables, "cancel", &[&last.to_string()]);
        assert_eq!((count(&tables, "dblock_jobs"), count(&tables, "dblock_due WHERE jobs = 299")), (299, 1));
        let worker = worker(&tables, 60);
        claim(&tables, worker, ids[0]);
        queue(&tables, "retry", &[&ids[298].to_string()]).output().expect_code(75).expect_one_line("is running; it is left alone");
    }

    fn blocks_of_several_nodes_may_lie_between_one_another(server on mariadb) {
        let tables = with_queue(server, &["--claim", "blocks"]);
        let ids = put_block(&tables, 6);
        // As from two nodes that take turns with the ids.
        tables.sql("UPDATE dblock_jobs SET block = 7 WHERE id % 2 = 0");
        tables.sql("UPDATE dblock_jobs SET block = 8 WHERE id % 2 = 1");
        let (first, second) = (ids[0], ids[1]);
        tables.sql(&format!("UPDATE dblock_due SET block = 7 + {first} % 2, last_job = {}, jobs = 3", ids[4]));
        tables.sql(&format!("INSERT INTO dblock_delayed ({NARROW}) SELECT queue, shard, priority, {second}, {}, 15 - block, 3, 0, 0, NULL, '2031-01-01' FROM dblock_due", ids[5]));
        let state = |id: u64| json(&queue(&tables, "show", &[&id.to_string(), "--json"]).output())["state"].as_str().unwrap().to_owned();
        for (number, &id) in ids.iter().enumerate() {
            assert_eq!(state(id), if number % 2 == 0 { "due" } else { "delayed" }, "{number}");
        }
        assert_eq!(listed(&tables, &["--state", "due"]), [ids[0], ids[2], ids[4]]);
    }

    fn what_is_no_job_is_refused(server on mariadb) {
        let tables = with_queue(server, &[]);
        for (command, args, said) in [
            ("show", &["x"][..], "ID"), ("show", &["0"], "ID"), ("show", &["1.5"], "ID"), ("show", &["1", "2"], "2"), ("show", &[], "ID"),
            ("show", &["1", "--json", "--payload"], "--payload"), ("retry", &[], "ID"), ("retry", &["1", "--dead"], "--dead"),
            ("retry", &["-1"], "-1"), ("cancel", &[], "ID"), ("cancel", &["18446744073709551616"], "ID"), ("list", &["--state", "gone"], "--state"),
            ("list", &["-n", "-1"], "--limit"), ("list", &["1"], "1"), ("pause", &["1"], "1"), ("delete", &["--force"], "--force"),
        ] {
            queue(&tables, command, args).output().expect_code(64).expect_stdout("").expect_one_line(said);
        }
    }

    fn what_only_reads_needs_no_more_than_select(server) {
        let tables = with_queue(server, &[]);
        let id = put(&tables, &["a"])[0].to_string();
        let account = server.account();
        tables.grant("SELECT", &account);
        for args in [&["status"][..], &["list", "q"], &["show", "q", &id]] {
            tables.at("queue").args(args).user(&account).output().expect_code(0).expect_silence();
        }
        for args in [&["put", "q", "x"][..], &["create", "other"], &["pause", "q"], &["cancel", "q", &id], &["delete", "q"]] {
            tables.at("queue").args(args).user(&account).output().expect_code(77).expect_one_line("dblock needs SELECT, INSERT, UPDATE and DELETE on");
        }
    }
}
