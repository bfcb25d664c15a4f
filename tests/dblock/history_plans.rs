//! However long the history is, each option of `dblock history`, and the crontab's list, have the server read a few runs: by the key that is meant for it, and in the
//! order in which they are shown.

use mysql::prelude::Queryable;
use mysql::{Conn, Row};

use crate::harness::{Packet, Proxy, Tables, both_servers};

/// Runs of the history, a second apart.
const RUNS: u32 = 50_000;

/// Rows that a page of 20 runs, or a list of 50 jobs, may take to read, with what is looked up for each of them.
const READ: u64 = 1000;

/// Fills the history. What is rare is old: whoever went by the time alone would read all.
fn fill(tables: &Tables) {
    let digits = "(SELECT 0 n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 \
                  UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    tables.sql(&format!(
        "INSERT INTO dblock_runs (run, name, host, requested_at, acquired_at, ended_at, outcome, exit_code) SELECT LPAD(HEX(n), 32, '0'), \
         IF(n > {RUNS} - 100, 'rare', CONCAT('job', n % 50)), IF(n > {RUNS} - 100, 'rare', CONCAT('web', n % 5)), \
         UTC_TIMESTAMP(6) - INTERVAL n SECOND, UTC_TIMESTAMP(6) - INTERVAL n SECOND, UTC_TIMESTAMP(6) - INTERVAL n SECOND, IF(n > {RUNS} - 100, 'timed_out', 'ran'), 0 \
         FROM (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n AS n FROM {digits} a, {digits} b, {digits} c, {digits} d, {digits} e) numbers \
         WHERE n < {RUNS}"
    ));
    tables.sql(&format!("UPDATE dblock_runs SET outcome = NULL, ended_at = NULL WHERE run >= LPAD(HEX({RUNS} - 10), 32, '0')"));
    let _: Vec<Row> = tables.admin().query("ANALYZE TABLE dblock_runs").unwrap();
}

/// By which key a statement reads the runs, and how: what the server says beside it.
fn plan(admin: &mut Conn, sql: &str) -> (String, String) {
    let rows: Vec<Row> = admin.query(format!("EXPLAIN {sql}")).unwrap();
    let text = |row: &Row, name: &str| {
        row.get::<Option<String>, _>(name)
            .flatten()
            .unwrap_or_default()
    };
    let of_runs = rows.iter().find(|row| text(row, "table") == "r");
    let of_runs = of_runs.unwrap_or_else(|| panic!("it reads no runs: {sql}"));
    (text(of_runs, "key"), text(of_runs, "Extra"))
}

/// How many rows a statement has the server read.
fn read(admin: &mut Conn, sql: &str) -> u64 {
    admin.query_drop("FLUSH STATUS").unwrap();
    let _: Vec<Row> = admin.query(sql).unwrap();
    let counts: Vec<(String, u64)> = admin
        .query("SHOW SESSION STATUS LIKE 'Handler_read%'")
        .unwrap();
    counts.iter().map(|(_, count)| count).sum()
}

both_servers! {
    fn each_option_is_answered_by_its_key(server) {
        let tables = Tables::new(server);
        fill(&tables);
        let proxy = Proxy::to(server);
        let mut admin = tables.admin();
        // MySQL 9 has another format by default.
        let _ = admin.query_drop("SET SESSION explain_format = 'TRADITIONAL'");
        let until = format!("{}s", RUNS - 200);
        for (options, key, found) in [
            (&[][..], "by_time", 20),
            (&["rare"], "by_name", 20),
            (&["--on", "rare"], "by_host", 20),
            (&["--on", "rare", "--result", "timed_out"], "by_host", 20),
            (&["--on", "web1", "--since", "1000s"], "by_host", 20),
            (&["--result", "timed_out"], "by_outcome", 20),
            (&["--result", "timed_out", "--until", &until], "by_outcome", 20),
            (&["--result", "skipped"], "by_outcome", 0),
            (&["--result", "lost"], "by_outcome", 10),
            (&["--failed", "--result", "timed_out"], "by_outcome", 20),
            (&["--run", "000000000000000000000000000000FF"], "PRIMARY", 1),
            (&["--until", &until], "by_time", 20),
            (&["--after", "1-00000000000000000000000000000000"], "by_time", 0),
        ] {
            let sent = proxy.packets().len();
            let history = tables.at("history").args(options).arg("--json").env("DBLOCK_URL", proxy.url());
            let output = history.output();
            let runs = output.expect_code(0).json()["runs"].as_array().unwrap().len();
            assert_eq!(runs, found, "{options:?}");
            let packets = proxy.packets();
            let statements = packets[sent..].iter().filter_map(Packet::statements);
            let statements: Vec<String> = statements.filter(|sql| sql.contains("ORDER BY r.requested_at")).collect();
            assert!(!statements.is_empty(), "{options:?}");
            for sql in &statements {
                let (by, how) = plan(&mut admin, sql);
                assert_eq!(by, key, "{options:?}: {how}: {sql}");
                // What has ended as lost, and what has not ended, are two places of the key.
                assert!(!how.contains("filesort") || options.contains(&"lost"), "{options:?}: {how}: {sql}");
                let rows = read(&mut admin, sql);
                assert!(rows <= READ, "{options:?}: {rows} rows: {sql}");
            }
        }
    }

    fn failures_are_found_in_the_key_without_the_runs_that_succeeded(server) {
        let tables = Tables::new(server);
        fill(&tables);
        let proxy = Proxy::to(server);
        let history = tables.at("history").args(["--failed", "-n", "0", "--json"]).env("DBLOCK_URL", proxy.url());
        let json = history.output().expect_code(0).json();
        assert_eq!(json["runs"].as_array().unwrap().len(), 99);
        let mut admin = tables.admin();
        let _ = admin.query_drop("SET SESSION explain_format = 'TRADITIONAL'");
        let packets = proxy.packets();
        let sql = packets.iter().filter_map(Packet::statements).find(|sql| sql.contains("ORDER BY r.requested_at"));
        let rows: Vec<Row> = admin.query(format!("EXPLAIN {}", sql.unwrap())).unwrap();
        let text = |row: &Row, name: &str| row.get::<Option<String>, _>(name).flatten().unwrap_or_default();
        let of_runs: Vec<_> = rows.iter().filter(|row| text(row, "table") == "r").collect();
        assert_eq!(of_runs.len(), 6, "five kinds of failures, and what is shown of each");
        for row in of_runs {
            let (key, how) = (text(row, "key"), text(row, "Extra"));
            let is_shown = key == "PRIMARY" && text(row, "type") == "eq_ref";
            assert!(is_shown || key == "by_outcome" && how.contains("Using index") && !how.contains("filesort"), "{key}: {how}");
        }
    }

    fn the_last_run_of_each_job_of_the_crontab_is_found_by_its_key(server) {
        let tables = Tables::new(server);
        fill(&tables);
        tables.sql(
            "INSERT INTO dblock_cron_jobs (name, schedule, zone, definition, changed_at, seen_at) \
             SELECT DISTINCT name, '0 0 1 1 *', 'UTC', '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) FROM dblock_runs WHERE name LIKE 'job%'",
        );
        let proxy = Proxy::to(server);
        let list = tables.at("cron").args(["list", "--json"]).env("DBLOCK_URL", proxy.url());
        let json = list.output().expect_code(0).json();
        let jobs = json["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 50);
        assert!(jobs.iter().all(|job| job["last"]["exit_code"] == 0), "{jobs:?}");
        let packets = proxy.packets();
        let sql = packets.iter().filter_map(Packet::statements).find(|sql| sql.contains("AS last_run"));
        let rows = read(&mut tables.admin(), &sql.unwrap());
        assert!(rows <= READ, "{rows} rows");
    }

    fn tables_without_these_keys_answer_too(server) {
        let tables = Tables::new(server);
        tables.sql("ALTER TABLE dblock_runs DROP KEY by_host, DROP KEY by_outcome");
        tables.sql("UPDATE dblock_meta SET version = 4");
        for options in [&["--on", "web1"][..], &["--result", "ran"], &["--failed"]] {
            tables.at("history").args(options).output().expect_code(0).expect_silence();
        }
    }
}
