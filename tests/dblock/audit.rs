//! What people did is recorded with it, by a command or by the page, and shown by `dblock audit`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    Crontab, Dblock, Jobs, Kind, Packet, Proxy, SOON, Server, Tables, all_servers, eventually,
    unique,
};

/// What `dblock audit` shows, without the times.
#[track_caller]
fn deeds(tables: &Tables) -> Vec<[Value; 5]> {
    let output = tables.at("audit").arg("--json").output();
    output.expect_code(0).expect_silence();
    let shown = output.json();
    let actions = shown["actions"].as_array().unwrap().iter();
    let actions = actions.map(|action| {
        ["action", "object", "detail", "by", "via"].map(|member| action[member].clone())
    });
    actions.collect()
}

/// Who this is.
fn me() -> Value {
    let by = std::process::Command::new("sh")
        .args(["-c", "echo $(id -un)@$(uname -n)"])
        .output();
    json!(String::from_utf8(by.unwrap().stdout).unwrap().trim())
}

all_servers! {
    fn what_somebody_does_to_a_job_of_the_crontab_is_recorded_once(server) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * true");
        crate::harness::crontab::end(crontab.start(&[]));
        let name = crontab.name("job");
        let does = |command: &str, via: &str| {
            let done = crontab.tables.at("cron").args([command, &name]).env("DBLOCK_VIA", via).output();
            done.expect_code(0);
        };
        does("pause", "");
        does("pause", "web");
        does("resume", "web");
        does("resume", "");
        does("trigger", "somebody");
        // It was triggered before.
        does("trigger", "");
        crontab.tables.at("cron").args(["pause", "nosuch"]).output().expect_code(78);
        let deed = |action: &str, via: Value| [json!(action), json!(name), json!(null), me(), via];
        let expected = [
            deed("cron pause", json!(null)),
            deed("cron resume", json!("web")),
            deed("cron trigger", json!(null)),
        ];
        assert_eq!(deeds(&crontab.tables), expected);
        let table = crontab.tables.at("audit").args(["-n", "1"]).output();
        let row = table.stdout.lines().nth(1).unwrap_or_default();
        assert!(table.stdout.starts_with("TIME (UTC)") && row.contains("cron trigger  "), "{table:#?}");
        assert_eq!(table.stdout.lines().count(), 2, "{table:#?}");
    }

    fn who_was_killed_is_recorded_and_what_is_older_than_the_history_is_not_kept(server) {
        let tables = Tables::new(server);
        tables.at("init").args(["--keep", "1h"]).output().expect_code(0);
        let ago = match server.kind {
            Kind::Postgres => "now() - interval '2 hours'",
            _ => "UTC_TIMESTAMP(6) - INTERVAL 2 HOUR",
        };
        let old = format!("INSERT INTO dblock_audit (at, action, object) VALUES ({ago}, 'kill', 'old')");
        tables.sql(&old);
        let name = unique("audit");
        // Nobody holds it, and nobody is ended.
        tables.at("kill").arg(&name).output().expect_code(0);
        assert_eq!(deeds(&tables).len(), 1);
        let (mut kills, mut recorded) = (0, 0);
        for durable in [false, true] {
            // A busy server that takes half a second for the record is not waited for.
            let is_recorded = (0..10).any(|_| {
                let run = tables.at("run").args(["--name", &name]);
                let run = if durable { run.arg("--durable") } else { run };
                let mut run = run.sh("echo runs; exec sleep 60").spawn();
                run.wait_line("runs", SOON);
                tables.at("kill").args(["--dry-run", &name]).output().expect_code(0);
                let killed = tables.at("kill").arg(&name).output();
                killed.expect_code(0);
                run.wait_within(SOON).expect_code(74);
                kills += 1;
                let (before, seen) = (recorded, deeds(&tables));
                let is_old = |deed: &&[Value; 5]| deed[1] == json!("old");
                let old = seen.iter().filter(is_old).count();
                recorded = seen.len() - old;
                let is_late = killed.took >= Duration::from_millis(500);
                assert!(recorded > before || is_late, "{killed:#?}");
                recorded > before && old == 0
            });
            assert!(is_recorded, "{durable}");
        }
        let seen = deeds(&tables);
        assert!(seen.len() >= 2 && seen.len() <= kills, "{kills}: {seen:?}");
        for [action, object, detail, by, via] in seen {
            assert_eq!([action, object, by, via], [json!("kill"), json!(name), me(), json!(null)]);
            assert!(detail.as_str().unwrap().contains("connection "), "{detail}");
        }
    }
}

all_servers! {
    fn all_that_was_done_is_shown_however_much_that_is(server) {
        let tables = Tables::new(server);
        let now = match server.kind {
            Kind::Postgres => "now()",
            _ => "UTC_TIMESTAMP(6)",
        };
        tables.sql(&format!("INSERT INTO dblock_audit (at, action, object) VALUES ({now}, 'kill', 'x')"));
        for _ in 0..11 {
            tables.sql("INSERT INTO dblock_audit (at, action, object) SELECT at, action, object FROM dblock_audit");
        }
        for (limit, expected) in [("0", 2048), ("1200", 1200), ("3000", 2048)] {
            let output = tables.at("audit").args(["-n", limit, "--json"]).output();
            output.expect_code(0).expect_silence();
            assert_eq!(output.json()["actions"].as_array().unwrap().len(), expected, "{limit}");
        }
    }
}

all_servers! {
    fn a_record_that_is_refused_keeps_nobody_from_what_is_done(server) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * true");
        crate::harness::crontab::end(crontab.start(&[]));
        let (tables, name) = (&crontab.tables, crontab.name("job"));
        let account = server.account();
        // As before an upgrade that brought the table.
        let others = format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}' AND table_name <> 'dblock_audit'",
            tables.database
        );
        for table in tables.rows::<String>(&others) {
            server.grant("SELECT, INSERT, UPDATE, DELETE", &tables.database, &table, &account);
        }
        let line = "dblock audit will not show this, as it cannot be recorded: ";
        for command in ["pause", "resume", "trigger"] {
            let done = tables.at("cron").args([command, &name]).user(&account).output();
            done.expect_code(0);
            assert!(done.stderr.contains(line), "{done:#?}");
        }
        let jobs = tables.rows::<u64>("SELECT COUNT(*) FROM dblock_cron_jobs WHERE paused_at IS NULL AND triggered_at IS NOT NULL");
        assert_eq!(jobs, [1]);
        let lock = unique("refused");
        // A server that takes half a second for the refusal is not waited for.
        let is_told = (0..10).any(|_| {
            let run = tables.at("run").user(&account).args(["--name", &lock]);
            let mut run = run.sh("echo runs; exec sleep 60").spawn();
            run.wait_line("runs", SOON);
            let killed = tables.at("kill").arg(&lock).user(&account).output();
            killed.expect_code(0);
            run.wait_within(SOON).expect_code(74);
            if killed.stderr.is_empty() {
                assert!(killed.took >= Duration::from_millis(500), "{killed:#?}");
                return false;
            }
            killed.expect_one_line(line);
            true
        });
        assert!(is_told);
        assert!(deeds(tables).is_empty());
    }
}

#[test]
fn a_record_that_hangs_makes_no_failure_of_what_is_done() {
    let server = Server::shared(Kind::MariaDb);
    let jobs = Jobs::new(server, &[]);
    jobs.tables.sql("INSERT INTO dblock_audit (at, action, object) VALUES (UTC_TIMESTAMP(6) - INTERVAL 999 DAY, 'kill', 'old')");
    // It is to be deleted next, and cannot be.
    let _locked = jobs.tables.lock("dblock_audit WHERE id = 1");
    let paused = jobs
        .queue("pause", &[])
        .env("DBLOCK_CONNECT_TIMEOUT", "15s");
    paused.output().expect_code(0).expect_silence();
    assert_eq!(deeds(&jobs.tables).len(), 2);
}

#[test]
fn what_somebody_does_to_a_queue_and_its_jobs_is_recorded() {
    let server = Server::shared(Kind::MariaDb);
    let jobs = Jobs::new(server, &["--max-attempts", "1"]);
    let ids = jobs.put(&["a", "b", "c"]);
    // Twice, and done once.
    for command in ["pause", "pause", "resume", "resume"] {
        jobs.does(command, &[]);
    }
    jobs.does("cancel", &[&ids[2].to_string()]);
    jobs.work(&["--drain"]).command(["false"]).output();
    eventually("they are dead", SOON, || jobs.states()[3] == 2);
    jobs.does("retry", &[&ids[0].to_string()]);
    // More than are moved at once.
    jobs.tables.sql(
        "INSERT INTO dblock_dead (queue, shard, priority, job, due_at, died_at) \
         SELECT id, 0, 0, 100000 + seq, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) FROM dblock_queues JOIN seq_1_to_400",
    );
    jobs.does("retry", &["--dead"]);
    jobs.does("retry", &["--dead"]);
    let deed = |action: &str, detail: Value| [json!(action), json!("q"), detail, me(), json!(null)];
    let expected = [
        deed("queue pause", json!(null)),
        deed("queue resume", json!(null)),
        deed("queue cancel", json!(format!("job {}", ids[2]))),
        deed("queue retry", json!(format!("job {}", ids[0]))),
        deed("queue retry", json!("401 dead jobs")),
    ];
    assert_eq!(deeds(&jobs.tables), expected);
}

#[test]
fn tables_of_an_older_version_have_no_place_for_it() {
    let server = Server::shared(Kind::MariaDb);
    let jobs = Jobs::new(server, &[]);
    let tables = &jobs.tables;
    tables.sql("DROP TABLE dblock_audit");
    tables.sql("UPDATE dblock_meta SET version = 5");
    for command in ["pause", "resume"] {
        jobs.does(command, &[]);
    }
    let name = unique("older");
    let mut run = tables
        .at("run")
        .args(["--name", &name])
        .sh("echo runs; exec sleep 60")
        .spawn();
    run.wait_line("runs", SOON);
    tables
        .at("kill")
        .arg(&name)
        .output()
        .expect_code(0)
        .expect_silence();
    run.wait_within(SOON).expect_code(74);
    let refused = tables.at("audit").output();
    refused
        .expect_code(78)
        .expect_stdout("")
        .expect_one_line("upgrade them with dblock init");
    // Nor has a server without tables.
    let mut run = Dblock::run(server, &name)
        .sh("echo runs; exec sleep 60")
        .spawn();
    run.wait_line("runs", SOON);
    Dblock::at(server, "kill")
        .arg(&name)
        .output()
        .expect_code(0)
        .expect_silence();
    run.wait_within(SOON).expect_code(74);
}

#[test]
fn old_deeds_are_found_by_their_key_on_postgresql() {
    let server = Server::shared(Kind::Postgres);
    let crontab = Crontab::new(server, "#: job\n0 0 1 1 * true");
    crate::harness::crontab::end(crontab.start(&[]));
    let (tables, name, proxy) = (&crontab.tables, crontab.name("job"), Proxy::to(server));
    let mut admin = tables.postgres();
    admin.run(&format!(
        "INSERT INTO \"{0}\".dblock_audit (at, action, object) SELECT now() - n * interval '1 s', 'kill', 'x' \
         FROM generate_series(1, 30000) n; ANALYZE \"{0}\".dblock_audit",
        tables.database
    ));
    let asks = |sql: &String| sql.contains(" WHERE at < ");
    // A busy server is not waited for.
    let mut rounds = ["pause", "resume"].into_iter().cycle().take(10);
    let asked = rounds.find_map(|does| {
        let done = tables.at("cron").args([does, &name]);
        let done = done.env("DBLOCK_URL", proxy.url()).output();
        done.expect_code(0);
        let packets = proxy.packets();
        packets.iter().filter_map(Packet::statements).find(asks)
    });
    let sql = asked.expect("it asks for old ones");
    let plan = admin.column::<String>(&format!("EXPLAIN {sql}"));
    assert!(
        plan.iter().any(|line| line.contains("Index Cond: ")),
        "{plan:#?}"
    );
}
