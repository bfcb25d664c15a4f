//! What `dblock queue` asks is answered by the keys that are meant for it: the statements are taken from the wire, and explained by a
//! server whose tables are full of what other queues have. And many workers wait for one another in no circle.

use std::fs;

use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use crate::harness::jobs::lines;
use crate::harness::{
    Dblock, Jobs, Kind, OF_QUEUES, Packet, Proxy, Records, Running, SOON, Server, Tables,
    both_servers, eventually, quoted,
};

const NARROW: &str =
    "queue, shard, priority, job, last_job, block, jobs, attempt, fence, every_us, due_at";

/// Numbers below 3000.
const NUMBERS: &str = "(SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n AS n FROM \
    (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) a, \
    (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) b, \
    (SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9) c, \
    (SELECT 0 n UNION SELECT 1 UNION SELECT 2) d) numbers";

/// Fills the tables with jobs of three queues, `q` among them, in each state.
fn fill(tables: &Tables) {
    for name in ["other", "q", "third"] {
        let create = tables.at("queue").args(["create", name, "--shards", "3"]);
        create.output().expect_code(0);
    }
    let at = "UTC_TIMESTAMP(6) - INTERVAL n SECOND";
    tables.sql(&format!(
        "INSERT INTO dblock_workers (run, queue, slots, ttl_seconds, started_at, renewed_at, expires_at, gone_at) \
         SELECT LPAD(HEX(n), 32, '0'), 1 + n % 3, 1, 60, {at}, {at}, IF(n % 50, NULL, UTC_TIMESTAMP(6) + INTERVAL 1 HOUR), {at} FROM {NUMBERS}"
    ));
    for (state, more, values) in [
        ("due", "", String::new()),
        ("delayed", "", String::new()),
        ("dead", ", died_at", format!(", {at}")),
        ("done", ", done_at", format!(", {at}")),
        (
            "running",
            ", worker, turn, claimed_at",
            format!(", 1 + (n DIV 150) * 50, 1, {at}"),
        ),
    ] {
        let first: u64 = tables
            .admin()
            .query_first("SELECT COALESCE(MAX(id), 0) + 1 FROM dblock_jobs")
            .unwrap()
            .unwrap();
        tables.sql(&format!(
            "INSERT INTO dblock_jobs (id, queue, shard, priority, block, payload, put_at) SELECT {first} + n, 1 + n % 3, n % 7 % 3, n % 5, n, 'x', {at} FROM {NUMBERS}"
        ));
        tables.sql(&format!(
            "INSERT INTO dblock_{state} ({NARROW}{more}) SELECT 1 + n % 3, n % 7 % 3, n % 5, {first} + n, 0, 0, 1, 0, 0, NULL, {at}{values} FROM {NUMBERS}"
        ));
    }
    tables.sql(&format!(
        "INSERT INTO dblock_job_keys SELECT 1 + n % 3, CONCAT('k', n), n FROM {NUMBERS}"
    ));
    tables.sql(&format!("INSERT INTO dblock_queue_minutes SELECT 1 + n % 3, UTC_TIMESTAMP() - INTERVAL n MINUTE, 1, 1, 1 FROM {NUMBERS}"));
    tables.sql(&format!(
        "INSERT INTO dblock_puts SELECT LPAD(HEX(n), 32, '0'), 1, 1, 1, 1, {at} FROM {NUMBERS}"
    ));
    tables.sql(&format!(
        "INSERT INTO dblock_job_parts SELECT 1 + n, 0, 'x' FROM {NUMBERS}"
    ));
    for table in OF_QUEUES {
        let _: Vec<Row> = tables
            .admin()
            .query(format!("ANALYZE TABLE dblock_{table}"))
            .unwrap();
    }
}

/// A client that explains statements, to which those of a transaction belong that is under way.
fn explainer(tables: &Tables) -> Conn {
    let mut admin = tables.admin();
    // MySQL 9 has another format by default.
    let _ = admin.query_drop("SET SESSION explain_format = 'TRADITIONAL'");
    let variables = "SET @dblock_turn = 1, @dblock_open = 1, @dblock_rescued = 1, @first = LAST_INSERT_ID(1), @step = 1";
    admin.query_drop(variables).unwrap();
    admin
}

/// Has the server believe that each of the tables has so many rows.
fn believe(tables: &Tables, rows: u64) {
    let of_database = format!("database_name = '{}'", tables.database);
    let pages = rows / 100 + 1;
    let mut admin = tables.admin();
    // MySQL shows those that it has noted before.
    let _ = admin.query_drop("SET SESSION information_schema_stats_expiry = 0");
    let believed = "SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'dblock_running'";
    eventually("the server believes that", SOON, || {
        tables.sql(&format!(
            "UPDATE mysql.innodb_table_stats SET n_rows = {rows}, clustered_index_size = {pages} WHERE {of_database}"
        ));
        tables.sql(&format!(
            "UPDATE mysql.innodb_index_stats SET stat_value = {rows} WHERE {of_database} AND stat_name LIKE 'n_diff%'"
        ));
        for table in OF_QUEUES {
            tables.sql(&format!("FLUSH TABLES dblock_{table}"));
        }
        admin.query_first(believed).unwrap() == Some(rows)
    });
}

/// What is wrong with the plan of a statement.
fn wrong(admin: &mut Conn, sql: &str) -> Vec<String> {
    let rows: Vec<Row> = admin
        .query(format!("EXPLAIN {sql}"))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut wrong = Vec::new();
    for row in rows {
        let text = |name: &str| {
            row.get::<Option<String>, _>(name)
                .flatten()
                .unwrap_or_default()
        };
        let (table, kind, key, extra) = (text("table"), text("type"), text("key"), text("Extra"));
        // All queues are listed; what is counted was read by a key before; a part of the statement may need no table.
        let is_whole = kind.is_empty()
            || table.starts_with('<')
            || table.starts_with("some")
            || sql.starts_with("SELECT id, name, ")
            || (sql.starts_with("INSERT") && text("select_type") == "INSERT")
            || extra.contains("Impossible WHERE")
            || extra.contains("no matching row in const table");
        let by_key =
            !key.is_empty() && ["const", "eq_ref", "ref", "range", "system"].contains(&&*kind);
        if !is_whole && !by_key {
            wrong.push(format!("{table}: {kind} by {key:?}, {extra}"));
        }
        // By the primary key a worker would read all rows that it ever had, as long as a backup may read them.
        if table == "r" && sql.contains("r.turn = ") && key != "by_turn" {
            wrong.push(format!("{table}: by {key:?}, and not by the turn"));
        }
        let sorts = extra.contains("filesort") || extra.contains("Using temporary");
        if sorts && !table.starts_with('<') {
            wrong.push(format!("{table}: {extra}"));
        }
    }
    wrong
}

/// The statements of a packet that read or change rows, without the comments that name them.
fn statements(packet: &Packet) -> Vec<String> {
    let sent = packet.statements().unwrap_or_default();
    let starts = ["SELECT ", "UPDATE ", "DELETE ", "INSERT "];
    let all = sent.split("; ").map(str::to_owned);
    all.filter(|sql| starts.iter().any(|start| sql.starts_with(start)) && sql.contains("dblock_"))
        .collect()
}

/// It is MySQL that scans a table which it believes to be empty, and waits there for the rows of others.
#[test]
fn each_statement_of_a_worker_is_answered_by_its_key_whatever_mysql_believes() {
    let server = Server::shared(Kind::MySql);
    let tables = Tables::new(server);
    fill(&tables);
    for (name, options) in [
        ("kept", &["--keep", "1s"][..]),
        ("blocks", &["--claim", "blocks"]),
    ] {
        let create = tables.at("queue").args(["create", name]).args(options);
        create.output().expect_code(0);
    }
    let proxy = Proxy::to(server);
    let queue = |command: &str, queue: &str, args: &[&str]| {
        let queue = tables.at("queue").args([command, queue]).args(args);
        queue.env("DBLOCK_URL", proxy.url()).output()
    };
    let once = |name: &str, code: &str| {
        let command = format!("exit {code}");
        queue(
            "work",
            name,
            &[
                "--once",
                "--batch",
                "200",
                "--bury-on",
                "3",
                "--",
                "sh",
                "-c",
                &command,
            ],
        );
    };
    for code in ["0", "1", "3", "75"] {
        once("q", code);
        once("kept", code);
    }
    queue("put", "kept", &["--key", "k", "a"]);
    once("kept", "0");
    queue("put", "kept", &["--every", "1h", "a"]);
    once("kept", "0");
    queue("put", "blocks", &["a", "b", "c", "d"]);
    let split = "read line; case $line in b) exit 1;; c) exit 75;; d) exit 3;; esac";
    queue(
        "work",
        "blocks",
        &["--drain", "--bury-on", "3", "--", "sh", "-c", split],
    );
    queue("put", "blocks", &["a", "b"]);
    once("blocks", "0");
    // What is too old is looked for when a worker has done something, and then again.
    tables.sql("UPDATE dblock_done SET done_at = done_at - INTERVAL 1 DAY");
    queue("put", "kept", &["a"]);
    queue("work", "kept", &["--drain", "--", "true"]);
    let all: Vec<_> = proxy.packets().iter().flat_map(statements).collect();
    for part in [
        "INTO @first, @step",
        "DELETE n FROM",
        "DELETE r, j",
        "DELETE d",
        "DELETE r FROM",
        "DELETE k",
        "DELETE j",
        "dblock_dead",
        "dblock_delayed",
        "dblock_done",
    ] {
        assert!(
            all.iter().any(|sql| sql.contains(part)),
            "nothing of this kind was sent: {part}"
        );
    }
    for rows in [0, 1_000_000] {
        believe(&tables, rows);
        let mut admin = explainer(&tables);
        let mut found = Vec::new();
        // What only reads, or skips what is locked, waits for nobody, and may scan what is small; a block is a range of jobs.
        let may_scan = |sql: &str| {
            let locks = sql.contains(" FOR UPDATE") && !sql.contains(" SKIP LOCKED");
            rows == 0 && (sql.starts_with("SELECT") && !locks || sql.contains(" BETWEEN "))
        };
        for sql in all.iter().filter(|sql| !may_scan(sql)) {
            let wrong = wrong(&mut admin, sql);
            if !wrong.is_empty() {
                found.push(format!("{sql}\n    {}", wrong.join("\n    ")));
            }
        }
        assert!(
            found.is_empty(),
            "where the server believes that there are {rows} rows:\n{}",
            found.join("\n")
        );
    }
}

/// Whoever waits for the rows of others sooner or later does so in a circle.
#[test]
fn many_workers_meet_in_no_deadlock_whatever_mysql_believes() {
    // The count of deadlocks is the server's.
    let server = Server::private(Kind::MySql);
    let (jobs, records) = (Jobs::new(&server, &[]), Records::new());
    jobs.number(6000);
    for table in OF_QUEUES {
        // Else the server soon counts the rows, and believes what is so.
        let keeps = format!("ALTER TABLE dblock_{table} STATS_AUTO_RECALC = 0");
        jobs.tables.sql(&keeps);
    }
    believe(&jobs.tables, 0);
    let mut admin = jobs.tables.admin();
    let mut deadlocks = || -> u64 {
        let counter = "SELECT count FROM information_schema.INNODB_METRICS \
                       WHERE name = 'lock_deadlocks' AND status = 'enabled'";
        let count = admin.query_first(counter).unwrap();
        count.expect("the server counts them")
    };
    let before = deadlocks();
    // All of them have jobs before the first one goes on.
    let [log, go] = ["log", "go"].map(|name| records.path().join(name));
    let command = format!(
        "echo $PPID >>{}; until test -e {}; do sleep 0.1; done",
        quoted(&log),
        quoted(&go)
    );
    let work = || jobs.work(&["--drain", "--batch", "20"]).sh(&command);
    let workers: Vec<Running> = (0..8).map(|_| work().spawn()).collect();
    eventually("all work", SOON, || lines(&log).len() == workers.len());
    fs::write(&go, "").unwrap();
    for worker in workers {
        worker.wait().expect_code(0);
    }
    jobs.assert_empty();
    assert_eq!(deadlocks(), before);
}

both_servers! {
    fn each_statement_is_answered_by_its_key(server) {
        let tables = Tables::new(server);
        fill(&tables);
        let proxy = Proxy::to(server);
        let queue = |args: &[&str]| tables.at("queue").args(args).env("DBLOCK_URL", proxy.url());
        let id = |state: &str| -> String {
            let query = format!("SELECT job FROM dblock_{state} WHERE queue = 2 ORDER BY job LIMIT 1");
            tables.admin().query_first::<u64, _>(query).unwrap().unwrap().to_string()
        };
        let done = |dblock: Dblock| {
            let output = dblock.output();
            assert!([Some(0), Some(75), Some(78)].contains(&output.code), "{output:#?}");
        };
        done(queue(&["create", "q", "--shards", "3"]));
        done(queue(&["put", "q", "a", "b"]));
        done(queue(&["put", "q", "--key", "new", "a"]));
        done(queue(&["put", "q", "--key", "new", "a"]));
        done(queue(&["put", "q", "--delay", "1h", "a"]));
        done(queue(&["status"]));
        done(queue(&["status", "q"]));
        done(queue(&["status", "--exact"]));
        for state in ["due", "delayed", "running", "dead", "done"] {
            // Several pages of each. All that are delayed are due by now.
            done(queue(&["list", "q", "--state", state, "-n", "0"]));
            done(queue(&["show", "q", &id(state)]));
        }
        for state in ["dead", "delayed", "due", "running", "done"] {
            done(queue(&["retry", "q", &id(state)]));
            done(queue(&["cancel", "q", &id(state)]));
        }
        done(queue(&["retry", "q", "--dead"]));
        done(queue(&["pause", "q"]));
        done(queue(&["resume", "q"]));
        let before = proxy.packets();
        // The tables are explained as they are now.
        let mut admin = explainer(&tables);
        let mut seen = 0;
        let mut all = Vec::new();
        for sql in before.iter().flat_map(statements) {
            seen += 1;
            let found = wrong(&mut admin, &sql);
            if !found.is_empty() {
                all.push(format!("{sql}\n    {}", found.join("\n    ")));
            }
        }
        assert!(all.is_empty(), "{}", all.join("\n"));
        assert!(seen > 100, "only {seen} statements were seen");
    }

    fn a_queue_is_deleted_by_keys(server) {
        deleted_by_keys(server);
    }
}

/// The statements that delete a queue are explained while it is still full.
fn deleted_by_keys(server: &'static Server) {
    let tables = Tables::new(server);
    fill(&tables);
    let proxy = Proxy::to(server);
    let delete = tables
        .at("queue")
        .args(["delete", "third"])
        .env("DBLOCK_URL", proxy.url());
    delete.output().expect_code(0).expect_silence();
    let mut admin = explainer(&tables);
    let mut all = Vec::new();
    for sql in proxy.packets().iter().flat_map(statements) {
        // Those of another queue, which is as full as this one was.
        let sql = sql.replace("queue = 3", "queue = 2");
        let found = wrong(&mut admin, &sql);
        if !found.is_empty() {
            all.push(format!(
                "{}\n    {}",
                &sql[..sql.len().min(300)],
                found.join("\n    ")
            ));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}
