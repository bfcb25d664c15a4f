//! However many jobs a queue has, what a worker asks of the server touches a few: each of its statements goes by the key that it is
//! meant to go by, sorts nothing, and reads no more rows than it is about.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::Stdio;

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::harness::{Dblock, Kind, OF_QUEUES, SOON, Server, Tables, eventually, slack};

/// Jobs that are due, and as many that are delayed, dead, done, and claimed by others: a multiple of 10,000 up to
/// 100,000, of which the numbers are made.
const MANY: u64 = 50_000;

/// Rows that a statement may read: promoted are 500 at once, and each of them is read in two tables.
const READ: u64 = 5000;

/// Jobs of a state that are counted for whoever polls a queue.
const POLLED: u64 = 10_000;

/// What does not serve a job is not to keep a worker for longer.
const HOUSEKEEPING: f64 = 0.1;

/// Shards of the queue.
const SHARDS: u64 = 4;

#[test]
fn a_worker_reads_a_few_of_many_jobs_mariadb() {
    check(
        Kind::MariaDb,
        &[
            "--innodb-buffer-pool-size=512M",
            "--innodb-log-file-size=128M",
        ],
    );
}

#[test]
fn a_worker_reads_a_few_of_many_jobs_mysql() {
    check(
        Kind::MySql,
        &[
            "--innodb-buffer-pool-size=512M",
            "--innodb-redo-log-capacity=128M",
        ],
    );
}

fn check(kind: Kind, options: &[&str]) {
    let server = Server::private_with(kind, options);
    let tables = Tables::new(&server);
    let shards = SHARDS.to_string();
    for (queue, options) in [
        ("many", &["--shards", &*shards, "--ttl", "4s"][..]),
        ("special", &[]),
        ("kept", &["--keep", "1h"]),
        ("blocks", &["--claim", "blocks"]),
        ("idle", &["--ttl", "4s"]),
    ] {
        let create = tables.at("queue").args(["create", queue]).args(options);
        create.output().expect_code(0);
    }
    let mut admin = tables.admin();
    fill(&mut admin);
    for statement in [
        "SET GLOBAL log_output = 'TABLE'",
        "SET GLOBAL long_query_time = 0",
        "SET GLOBAL slow_query_log = 1",
    ] {
        admin.query_drop(statement).unwrap();
    }
    work_off_each_kind(&tables, &mut admin);
    idle_and_housekeeping(&tables, &mut admin);
    admin.query_drop("SET GLOBAL slow_query_log = 0").unwrap();
    judge(&mut admin);
    poll(&tables, &mut admin);
}

/// Who looks at a queue again and again has the server read a part of it, unless the numbers are to be exact.
fn poll(tables: &Tables, admin: &mut Conn) {
    let look = |args: &[&str]| {
        let status = tables.at("queue").args(["status", "many", "--json"]);
        let output = status.args(args).output();
        output.expect_code(0).json()["queues"][0].clone()
    };
    let queue = id_of(admin, "many");
    // Of the jobs that are due, the last one is older than the first one, and both are older than all others.
    for (hours, direction) in [(2, "ASC"), (4, "DESC")] {
        let is_old = format!(
            "UPDATE dblock_due SET due_at = UTC_TIMESTAMP(6) - INTERVAL {hours} HOUR WHERE queue = {queue} \
             ORDER BY shard {direction}, priority {direction}, job {direction} LIMIT 1"
        );
        admin.query_drop(is_old).unwrap();
    }
    let hours_due = |found: &Value| {
        let seconds = found["oldest_due_seconds"].as_f64();
        seconds.map(|seconds| (seconds / 3600.0).floor())
    };
    admin.query_drop("TRUNCATE mysql.slow_log").unwrap();
    admin.query_drop("SET GLOBAL slow_query_log = 1").unwrap();
    let found = look(&[]);
    admin.query_drop("SET GLOBAL slow_query_log = 0").unwrap();
    assert_eq!(found["incomplete"], json!(["due", "delayed", "dead"]));
    assert_eq!(
        (&found["due"], &found["dead"]),
        (&json!(POLLED), &json!(POLLED))
    );
    assert_eq!(hours_due(&found), Some(2.0), "{found:#}");
    let read: Option<u64> = admin
        .query_first("SELECT MAX(rows_examined) FROM mysql.slow_log WHERE user_host LIKE 'dblock%'")
        .unwrap();
    // Each row that is counted is read once. One more says that there are more.
    assert!(read.is_some_and(|rows| rows <= POLLED + 10), "{read:?}");
    // Each second another one of the delayed jobs is due.
    let due = format!(
        "SELECT (SELECT COUNT(*) FROM dblock_due WHERE queue = {queue}) \
         + (SELECT COUNT(*) FROM dblock_delayed WHERE queue = {queue} AND due_at <= UTC_TIMESTAMP(6))"
    );
    let mut due = || admin.query_first::<u64, _>(&due).unwrap();
    let before = due();
    let exact = look(&["--exact"]);
    let after = due();
    assert_eq!(hours_due(&exact), Some(4.0), "{exact:#}");
    assert!(
        (before..=after).contains(&exact["due"].as_u64()),
        "{before:?} {after:?} {exact:#}"
    );
    assert_eq!(exact["incomplete"], json!([]));
    let table = tables.at("queue").args(["status", "many"]).output().stdout;
    assert!(table.contains(&format!("  {POLLED}+  ")), "{table}");
}

fn id_of(admin: &mut Conn, queue: &str) -> u32 {
    admin
        .exec_first("SELECT id FROM dblock_queues WHERE name = ?", (queue,))
        .unwrap()
        .expect("the queue is there")
}

/// Puts as many jobs into each state as are in a queue that nobody has looked after. Each is moved in the order of its key.
fn fill(admin: &mut Conn) {
    let (many, kept) = (id_of(admin, "many"), id_of(admin, "kept"));
    let digits = "(SELECT 0 AS i UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 \
                  UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let run = |admin: &mut Conn, statement: &str| {
        let done = admin.query_drop(statement);
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    };
    run(admin, "CREATE TABLE numbers (n INT NOT NULL PRIMARY KEY)");
    let each = format!(
        "INSERT INTO numbers SELECT a.i * 10000 + b.i * 1000 + c.i * 100 + d.i * 10 + e.i FROM {digits} a STRAIGHT_JOIN {digits} b \
         STRAIGHT_JOIN {digits} c STRAIGHT_JOIN {digits} d STRAIGHT_JOIN {digits} e WHERE a.i < {}",
        MANY / 10_000
    );
    run(admin, &each);
    let of_shard = MANY / SHARDS;
    let narrow = "queue, shard, priority, job, due_at";
    // What is delayed for long, and what is dead, nobody looks at: its rows in the wide table would only take time. The fourth kind is done.
    for (kind, queue, most) in [
        (0, many, MANY),
        (1, many, 2000),
        (2, many, 2000),
        (3, kept, MANY),
    ] {
        run(
            admin,
            &format!(
                "INSERT INTO dblock_jobs (id, queue, shard, priority, block, payload, put_at) SELECT {kind} * {MANY} + n + 1, {queue}, \
                 n DIV {of_shard}, 0, 0, 'payload', UTC_TIMESTAMP(6) FROM numbers WHERE n < {most} ORDER BY n"
            ),
        );
    }
    run(
        admin,
        &format!(
            "INSERT INTO dblock_due ({narrow}) SELECT {many}, n DIV {of_shard}, 0, n + 1, UTC_TIMESTAMP(6) FROM numbers ORDER BY n"
        ),
    );
    // A thousand of them are due by now.
    run(
        admin,
        &format!(
            "INSERT INTO dblock_delayed ({narrow}) SELECT {many}, n DIV {of_shard}, 0, {MANY} + n + 1, UTC_TIMESTAMP(6) \
             + INTERVAL IF(n < 1000, -1000 + n, n) SECOND FROM numbers ORDER BY n"
        ),
    );
    run(
        admin,
        &format!(
            "INSERT INTO dblock_dead ({narrow}, died_at) SELECT {many}, n DIV {of_shard}, 0, 2 * {MANY} + n + 1, UTC_TIMESTAMP(6), \
             UTC_TIMESTAMP(6) FROM numbers ORDER BY n"
        ),
    );
    // A thousand of them have been kept for long enough.
    run(
        admin,
        &format!(
            "INSERT INTO dblock_done ({narrow}, done_at) SELECT {kept}, 0, 0, 3 * {MANY} + n + 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) \
             - INTERVAL IF(n < 1000, 7200, 0) SECOND FROM numbers ORDER BY n"
        ),
    );
    // Workers and counts of many days, all of them gone.
    run(
        admin,
        &format!(
            "INSERT INTO dblock_workers (run, queue, slots, ttl_seconds, started_at, renewed_at, gone_at) SELECT '-', {many}, 1, 60, \
             UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL IF(n < 100, 2, 0) DAY FROM numbers WHERE n < 1000"
        ),
    );
    // What other workers have claimed.
    run(
        admin,
        &format!(
            "INSERT INTO dblock_running ({narrow}, worker, turn, claimed_at) SELECT {many}, 0, 0, 9 * {MANY} + n, UTC_TIMESTAMP(6), \
             100000 + n DIV 200, 1, UTC_TIMESTAMP(6) FROM numbers ORDER BY n"
        ),
    );
    run(
        admin,
        &format!(
            "INSERT INTO dblock_job_parts (job, part, data) SELECT 9 * {MANY} + n, 0, 'x' FROM numbers WHERE n < 10000 ORDER BY n"
        ),
    );
    run(
        admin,
        &format!(
            "INSERT INTO dblock_job_keys (queue, job_key, job) SELECT {many}, CONCAT('key ', n), 9 * {MANY} + n FROM numbers \
             WHERE n < 10000 ORDER BY n"
        ),
    );
    for table in OF_QUEUES {
        let analyze = format!("ANALYZE TABLE dblock_{table}");
        let _: Vec<mysql::Row> = admin.query(analyze).unwrap();
    }
}

fn work(tables: &Tables, queue: &str, args: &[&str]) -> Dblock {
    tables.at("queue").args(["work", queue]).args(args)
}

fn put(tables: &Tables, queue: &str, args: &[&str], stdin: &[u8]) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(stdin).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let put = tables.at("queue").args(["put", queue]).args(args);
    put.stdin(file).output().expect_code(0);
}

/// Claims jobs, and has them end in every way that there is.
fn work_off_each_kind(tables: &Tables, admin: &mut Conn) {
    let once = |queue: &str, command: &[&str]| {
        let args = [
            &["--once", "--batch", "200", "--bury-on", "3", "--"],
            command,
        ]
        .concat();
        work(tables, queue, &args).output();
    };
    for code in ["0", "1", "3", "75"] {
        once("many", &["sh", "-c", &format!("exit {code}")]);
    }
    // With a key, and a payload that is in parts; one that repeats.
    put(tables, "special", &["--key", "k"], b"with a key");
    once("special", &["true"]);
    put(tables, "special", &[], &vec![b'x'; 700_000]);
    once("special", &["true"]);
    for code in ["0", "1", "75"] {
        put(tables, "special", &["--every", "1h"], b"again and again");
        once("special", &["sh", "-c", &format!("exit {code}")]);
    }
    // Given back.
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let command = format!("touch {}; exec sleep 100", started.display());
    let mut worker = work(
        tables,
        "many",
        &[
            "-j", "2", "--grace", "0s", "-k", "0s", "--", "sh", "-c", &command,
        ],
    )
    .spawn();
    eventually("a command starts", SOON, || started.exists());
    worker.signal(Signal::SIGTERM);
    worker.wait_within(SOON).expect_code(0);
    // Kept.
    put(tables, "kept", &["--lines"], b"1\n2\n3\n");
    work(tables, "kept", &["--drain", "--", "true"])
        .output()
        .expect_code(0);
    // Blocks: as a whole, split, and again and again.
    let lines = "a line\n".repeat(1000);
    put(tables, "blocks", &["--lines"], lines.as_bytes());
    once("blocks", &["true"]);
    work(
        tables,
        "blocks",
        &["--drain", "--batch", "1000", "--", "true"],
    )
    .output()
    .expect_code(0);
    put(tables, "blocks", &["--lines"], b"1\n2\n3\n4\n5\n");
    let command = "read line; case $line in 2) exit 1;; 3) exit 75;; 4) exit 3;; esac";
    work(
        tables,
        "blocks",
        &["--drain", "--bury-on", "3", "--", "sh", "-c", command],
    )
    .output()
    .expect_code(0);
    put(
        tables,
        "blocks",
        &["--lines", "--every", "1h"],
        b"1\n2\n3\n",
    );
    work(tables, "blocks", &["--drain", "--", "sh", "-c", command])
        .output()
        .expect_code(0);
    // One that dies with jobs, whose lease is over at once, and the next one, which works for long enough to look after others.
    fs::remove_file(&started).unwrap();
    let command = format!("touch {}; exec sleep 100", started.display());
    let mut worker = work(tables, "many", &["-j", "20", "--", "sh", "-c", &command])
        .stderr(Stdio::null())
        .spawn();
    eventually("a command starts", SOON, || started.exists());
    worker.signal(Signal::SIGKILL);
    worker.wait_within(SOON);
    let expired =
        "UPDATE dblock_workers SET expires_at = UTC_TIMESTAMP(6) WHERE expires_at IS NOT NULL";
    admin.query_drop(expired).unwrap();
}

/// Has a worker work, and another one be idle, for as long as it takes that all is done that is due from time to time.
fn idle_and_housekeeping(tables: &Tables, admin: &mut Conn) {
    let many = id_of(admin, "many");
    let mut busy = work(tables, "many", &["--batch", "50", "--", "sleep", "0.1"]).spawn();
    let mut kept = work(tables, "kept", &["--", "true"]).spawn();
    let mut idle = work(tables, "idle", &["--", "true"]).spawn();
    let mut second = work(tables, "idle", &["--", "true"]).spawn();
    // And perhaps those of one that could not deregister in time.
    let rescued = format!(
        "SELECT COUNT(*) >= 1 AND NOT EXISTS (SELECT 1 FROM dblock_workers WHERE queue = {many} AND expires_at <= UTC_TIMESTAMP(6)) \
         FROM dblock_workers WHERE queue = {many} AND died = 1"
    );
    let promoted =
        "SELECT COUNT(*) FROM dblock_delayed WHERE due_at <= UTC_TIMESTAMP(6) - INTERVAL 30 SECOND";
    let left =
        "SELECT COUNT(*) FROM dblock_done WHERE done_at < UTC_TIMESTAMP(6) - INTERVAL 1 HOUR";
    let old = format!(
        "SELECT COUNT(*) FROM dblock_workers WHERE queue = {many} AND gone_at < UTC_TIMESTAMP(6) - INTERVAL 1 DAY"
    );
    let is = |admin: &mut Conn, query: &str, expected: u64| {
        admin.query_first::<u64, _>(query).unwrap() == Some(expected)
    };
    eventually("the dead worker's jobs are given to others", SOON, || {
        is(admin, &rescued, 1)
    });
    eventually("what was delayed is due", SOON, || is(admin, promoted, 0));
    eventually("what is too old is deleted", 2 * SOON, || {
        is(admin, left, 0) && is(admin, &old, 0)
    });
    // A turn renews it, too, but an idle worker takes none for long.
    let renewed = format!(
        "SELECT COUNT(*) >= 2 FROM dblock_workers WHERE queue = {} AND renewed_at > started_at + INTERVAL 1 SECOND",
        id_of(admin, "idle")
    );
    eventually("leases are renewed", SOON, || is(admin, &renewed, 1));
    put(tables, "idle", &["x"], b"");
    for worker in [&mut busy, &mut kept, &mut idle, &mut second] {
        worker.signal(Signal::SIGTERM);
        worker.wait_within(SOON).expect_code(0);
    }
}

/// One kind of statement: an example of it, the most rows that one has read, and how long the quickest took.
struct Shape {
    example: String,
    rows: u64,
    quickest: f64,
}

fn judge(admin: &mut Conn) {
    let logged: Vec<(String, u64, f64)> = admin
        .query(
            "SELECT CAST(sql_text AS CHAR), rows_examined, TIME_TO_SEC(query_time) + MICROSECOND(query_time) / 1e6 FROM mysql.slow_log \
             WHERE user_host LIKE 'dblock%' ORDER BY start_time",
        )
        .unwrap();
    let mut shapes: BTreeMap<String, Shape> = BTreeMap::new();
    for (statement, rows, took) in logged {
        let shape = shapes.entry(shape_of(&statement)).or_insert_with(|| Shape {
            example: statement.clone(),
            rows,
            quickest: took,
        });
        shape.rows = shape.rows.max(rows);
        shape.quickest = shape.quickest.min(took);
    }
    let mut wrong = Vec::new();
    for (shape, found) in &shapes {
        let Shape {
            example,
            rows,
            quickest,
            ..
        } = found;
        let sleeps = shape.contains("SLEEP(")
            || shape.contains("GET_LOCK(")
            || shape.contains("LAST_INSERT_ID");
        if *rows > READ {
            wrong.push(format!("{rows} rows were read: {shape}"));
        }
        if *quickest > HOUSEKEEPING * slack().as_secs_f64() && !sleeps {
            wrong.push(format!("it took {quickest} s: {shape}"));
        }
        let statement = without_comment(example);
        let is_explained = ["SELECT", "INSERT", "UPDATE", "DELETE"]
            .iter()
            .any(|word| statement.starts_with(word) && statement.contains("dblock_"));
        if !is_explained {
            continue;
        }
        wrong.extend(
            explain(admin, statement)
                .into_iter()
                .map(|what| format!("{what}: {shape}")),
        );
        // For servers that cannot skip what is locked.
        if shape.contains("FOR UPDATE SKIP LOCKED") && statement.starts_with("INSERT") {
            let second = MANY / SHARDS + 1;
            let among = format!(
                " AND (d.priority = 0 AND d.job IN (1,2,3,{second},{})) ORDER BY",
                second + 1
            );
            let claim = statement
                .replace(" SKIP LOCKED", "")
                .replace(" ORDER BY", &among);
            wrong.extend(
                explain(admin, &claim)
                    .into_iter()
                    .map(|what| format!("{what}: {claim}")),
            );
        }
    }
    let queue = id_of(admin, "many");
    let candidates = format!(
        "SELECT priority, job FROM dblock_due WHERE queue = {queue} AND shard = 1 ORDER BY priority, job LIMIT 800"
    );
    wrong.extend(
        explain(admin, &candidates)
            .into_iter()
            .map(|what| format!("{what}: {candidates}")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // What was to be judged was there.
    for part in [
        "INTO ?.dblock_running",
        "INTO ?.dblock_delayed",
        "INTO ?.dblock_dead",
        "INTO ?.dblock_done",
        "INTO ?.dblock_due",
        "INTO ?.dblock_queue_minutes",
        "DELETE k FROM",
        "DELETE p FROM",
        "DELETE j FROM",
        "DELETE d FROM",
        "DELETE x FROM",
        "died = #",
        "dblock queue idle",
        "dblock queue renew",
        "dblock queue prune",
        "dblock queue await head",
    ] {
        let is_there = shapes
            .keys()
            .any(|shape| shape.replace("`tables-#-#`", "?").contains(part));
        assert!(is_there, "nothing of this kind was sent: {part}");
    }
}

/// What is wrong with how the server carries out a statement.
fn explain(admin: &mut Conn, statement: &str) -> Vec<String> {
    // MySQL 9 has another format by default.
    admin
        .query_drop("SET SESSION /*!80032 explain_format = 'TRADITIONAL', */ @explained = 1")
        .or_else(|_| admin.query_drop("DO 1"))
        .unwrap();
    let plan: Vec<mysql::Row> = match admin.query(format!("EXPLAIN {statement}")) {
        Ok(plan) => plan,
        Err(error) => return vec![error.to_string()],
    };
    let mut wrong = Vec::new();
    assert!(!plan.is_empty());
    for row in plan {
        assert!(
            row.columns_ref()
                .iter()
                .any(|column| column.name_str() == "Extra")
        );
        let text = |column: &str| {
            let value: Option<Option<String>> = row.get(column);
            value.flatten().unwrap_or_default()
        };
        let (table, kind, key, extra) = (text("table"), text("type"), text("key"), text("Extra"));
        if !table.starts_with('<') && (extra.contains("filesort") || extra.contains("temporary")) {
            wrong.push(format!("{table}: {extra}"));
        }
        // What a row is inserted into is not read; a table that has no such row is not looked at.
        let is_target = text("select_type") == "INSERT";
        let is_read = !table.is_empty() && !table.starts_with('<') && !is_target;
        if is_read
            && !extra.contains("No tables used")
            && (key.is_empty() || kind == "ALL" || kind == "index")
        {
            wrong.push(format!("{table} is read by {kind} {key}, {extra}"));
        }
    }
    wrong
}

fn without_comment(statement: &str) -> &str {
    let statement = statement.trim();
    match statement
        .strip_prefix("/*")
        .and_then(|rest| rest.split_once("*/"))
    {
        Some((_, rest)) => rest.trim(),
        None => statement,
    }
}

/// A statement without its numbers and texts.
fn shape_of(statement: &str) -> String {
    let mut shape = String::new();
    let mut text = false;
    for c in statement.chars() {
        match c {
            '\'' => {
                text = !text;
                shape.push(if text { '?' } else { ' ' });
            }
            _ if text => {}
            '0'..='9' if shape.ends_with('#') => {}
            '0'..='9' => shape.push('#'),
            c => shape.push(c),
        }
    }
    while shape.contains("#,#") {
        shape = shape.replace("#,#", "#");
    }
    while shape.contains(" WHEN # THEN # WHEN # THEN #") {
        shape = shape.replace(" WHEN # THEN # WHEN # THEN #", " WHEN # THEN #");
    }
    while shape.contains(" WHEN # THEN ?  WHEN # THEN ? ") {
        shape = shape.replace(" WHEN # THEN ?  WHEN # THEN ? ", " WHEN # THEN ? ");
    }
    shape
}
