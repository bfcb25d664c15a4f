//! What `dblock queue` asks is answered by the keys that are meant for it: the statements are taken from the wire, and explained by a
//! server whose tables are full of what other queues have.

use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use crate::harness::{Dblock, OF_QUEUES, Packet, Proxy, Server, Tables, both_servers};

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
        if extra.contains("filesort") || extra.contains("Using temporary") {
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
        for state in ["due", "delayed", "running", "dead", "done"] {
            // More than a page of each.
            done(queue(&["list", "q", "--state", state, "-n", "500"]));
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
        let mut admin = tables.admin();
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
    let mut admin = tables.admin();
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
