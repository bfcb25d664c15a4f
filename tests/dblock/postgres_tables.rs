//! What needs dblock's tables, on PostgreSQL: each in a schema of its own.

use crate::harness::schema::follows;
use crate::harness::{
    Dblock, Kind, Running, SOON, Server, Watcher, eventually, send, unique, works,
};
use nix::sys::signal::Signal;

/// A schema that dblock's account owns.
struct Schema {
    server: &'static Server,
    name: String,
}

impl Schema {
    /// With the tables.
    #[track_caller]
    fn new() -> Self {
        let schema = Self::empty();
        schema.at("init").output().expect_code(0);
        schema
    }

    fn empty() -> Self {
        let server = Server::shared(Kind::Postgres);
        let name = unique("schema");
        let create = format!("CREATE SCHEMA \"{name}\" AUTHORIZATION dblock");
        server.postgres().run(&create);
        Self { server, name }
    }

    fn at(&self, command: &str) -> Dblock {
        Dblock::at(self.server, command).env("DBLOCK_SCHEMA", &self.name)
    }

    fn run(&self, name: &str) -> Dblock {
        Dblock::run(self.server, name).env("DBLOCK_SCHEMA", &self.name)
    }

    fn number(&self, sql: &str) -> Option<i64> {
        let sql = sql.replace("dblock_", &format!("\"{}\".dblock_", self.name));
        self.server.postgres().value(&sql)
    }

    #[track_caller]
    fn holder(&self, name: &str, options: &[&str]) -> Running {
        let run = self.run(name).arg("--durable").args(options);
        let mut run = run.sh("echo here; sleep 60").spawn();
        run.wait_line("here", SOON);
        run
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let drop = format!("DROP SCHEMA \"{}\" CASCADE", self.name);
        self.server.postgres().run(&drop);
    }
}

#[test]
fn init_is_needed_may_run_many_times_at_once_and_refuses_newer_tables() {
    let schema = Schema::empty();
    schema
        .at("init")
        .arg("--check")
        .output()
        .expect_code(78)
        .expect_one_line("run dblock init");
    let run = schema.run(&unique("none")).arg("--durable");
    run.sh("true")
        .output()
        .expect_code(78)
        .expect_one_line("create them with dblock init");
    let inits: Vec<_> = (0..4).map(|_| schema.at("init").spawn()).collect();
    for init in inits {
        init.wait().expect_code(0);
    }
    schema.at("init").arg("--check").output().expect_code(0);
    schema.number("UPDATE dblock_meta SET version = 99, usable_from = 99 RETURNING 1");
    let run = schema.run(&unique("newer")).arg("--record");
    run.sh("true")
        .output()
        .expect_code(78)
        .expect_one_line("of a newer dblock");
}

#[test]
fn what_does_not_work_there_yet_is_refused_in_one_line() {
    let schema = Schema::empty();
    let queue = schema.at("queue").arg("status").output();
    queue
        .expect_code(78)
        .expect_one_line("dblock queue works on MySQL and MariaDB, and not yet on PostgreSQL");
}

#[test]
fn a_durable_lock_has_a_fence_outlives_its_session_and_excludes() {
    let (schema, name) = (Schema::new(), unique("it's \\ durable"));
    for fence in ["1\n", "2\n"] {
        let run = schema.run(&name).arg("--durable");
        run.sh("echo $DBLOCK_FENCE")
            .output()
            .expect_code(0)
            .expect_stdout(fence);
    }
    let mut holder = schema.holder(&name, &[]);
    let session = schema.server.holder(&name).expect("it is held");
    schema.server.watcher().end_session(session);
    eventually("another session holds it", SOON, || {
        schema.server.holder(&name).is_some_and(|id| id != session)
    });
    assert!(holder.is_running());
    schema
        .run(&name)
        .arg("--durable")
        .sh("true")
        .output()
        .expect_code(75);
    schema.at("kill").arg(&name).output().expect_code(0);
    holder.wait().expect_code(74);
    let seen = schema
        .at("history")
        .args(["--failed", "--json", &name])
        .output();
    assert_eq!(seen.json()["runs"][0]["outcome"], "lost");
}

#[test]
fn the_row_of_a_killed_host_stays_until_its_ttl_or_kill_force() {
    let (schema, name) = (Schema::new(), unique("forced"));
    let holder = schema.holder(&name, &["--ttl", "1d"]);
    // Nobody tells the server that the lock is free.
    for pid in holder.children() {
        send(pid, Signal::SIGKILL);
    }
    send(holder.pid(), Signal::SIGKILL);
    schema
        .run(&name)
        .arg("--durable")
        .sh("true")
        .output()
        .expect_code(75);
    schema
        .at("kill")
        .args(["--force", &name])
        .output()
        .expect_code(0);
    works(schema.run(&name).arg("--durable"));
    let fence = format!("SELECT fence FROM dblock_locks WHERE name = '{name}'");
    assert_eq!(schema.number(&fence), Some(2));
}

#[test]
fn a_token_holds_is_renewed_and_is_void_after_its_release() {
    let (schema, name) = (Schema::new(), unique("token"));
    let acquired = schema.at("acquire").args(["--name", &name]).output();
    let token = acquired.expect_code(0).stdout.trim().to_owned();
    schema
        .at("acquire")
        .args(["--name", &name])
        .output()
        .expect_code(75);
    schema
        .at("renew")
        .args(["--ttl", "1h", &token])
        .output()
        .expect_code(0);
    let run = schema.at("run").args(["--token", &token]);
    run.sh("echo $DBLOCK_FENCE")
        .output()
        .expect_code(0)
        .expect_stdout("1\n");
    schema.at("release").arg(&token).output().expect_code(0);
    schema.at("release").arg(&token).output().expect_code(74);
}

#[test]
fn a_run_is_once_per_tick_and_time() {
    let (schema, name) = (Schema::new(), unique("once"));
    for (failing, code) in [(true, 1), (false, 0), (false, 75)] {
        let script = if failing { "exit 1" } else { "true" };
        let run = schema.run(&name).args(["--once-per", "1h"]);
        run.sh(script).output().expect_code(code);
    }
    let runs = schema.at("history").args(["--json", &name]).output().json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_locked_row_is_waited_for() {
    let (schema, name) = (Schema::new(), unique("locked"));
    works(schema.run(&name).arg("--durable"));
    let mut other = schema.server.postgres();
    other.run("BEGIN");
    let locks = format!("\"{}\".dblock_locks", schema.name);
    other.query(&format!(
        "SELECT 1 FROM {locks} WHERE name = '{name}' FOR UPDATE"
    ));
    let waiter = schema
        .run(&name)
        .args(["--durable", "--wait", "30"])
        .sh("true")
        .spawn();
    let own = other
        .value::<u32>("SELECT pg_backend_pid()")
        .expect("a session");
    let mut watcher = schema.server.postgres();
    let waits = format!(
        "EXISTS (SELECT 1 FROM pg_stat_activity WHERE {own} = ANY (pg_blocking_pids(pid)))"
    );
    // Its first wait comes to an end, and it waits again.
    for does_wait in [true, false, true] {
        eventually("it waits, gives up, waits again", SOON, || {
            watcher.is(&waits) == does_wait
        });
    }
    other.run("COMMIT");
    waiter.wait().expect_code(0);
}

#[test]
fn unused_rows_are_pruned_and_their_fences_never_used_again() {
    let (schema, name) = (Schema::new(), unique("pruned"));
    schema
        .at("init")
        .args(["--keep", "1s,1"])
        .output()
        .expect_code(0);
    let row = format!(
        "INSERT INTO dblock_locks (name, slot, fence, renewed_at) VALUES ('{name}', 0, 7, now() - interval '1 day') RETURNING 1"
    );
    schema.number(&row);
    let gone = format!("SELECT count(*) FROM dblock_locks WHERE name = '{name}'");
    for _ in 0..500 {
        works(schema.run("busy").arg("--record"));
        if schema.number(&gone) == Some(0) {
            break;
        }
    }
    assert_eq!(schema.number(&gone), Some(0));
    let run = schema.run(&name).arg("--durable");
    run.sh("echo $DBLOCK_FENCE")
        .output()
        .expect_code(0)
        .expect_stdout("8\n");
}

#[test]
fn check_looks_at_the_tables_and_takes_a_durable_lock() {
    let schema = Schema::empty();
    let found = |check: &str| {
        let output = schema.at("check").arg("--json").output();
        follows(&output.expect_code(0).stdout, "check");
        let findings = output.json()["findings"].take();
        let findings: Vec<serde_json::Value> = serde_json::from_value(findings).expect("a list");
        findings.into_iter().find(|one| one["check"] == check)
    };
    let none = found("tables").expect("a finding");
    assert_eq!(none["value"], format!("none in \"{}\"", schema.name));
    assert_eq!(found("excludes").expect("a finding")["durable"], false);
    schema.at("init").output().expect_code(0);
    let tables = found("tables").expect("a finding");
    assert_eq!(
        (&tables["schema"], &tables["verdict"]),
        (&schema.name.as_str().into(), &"ok".into())
    );
    assert!(tables["tables_version"].as_u64() >= Some(4));
    assert_eq!(found("excludes").expect("a finding")["durable"], true);
    assert!(found("durable_lock").expect("a finding")["seconds"].is_number());
    assert_eq!(schema.number("SELECT count(*) FROM dblock_locks"), Some(0));
    let revoke = "REVOKE DELETE ON dblock_locks FROM dblock";
    schema.number(revoke);
    let tables = found("tables").expect("a finding");
    let advice = tables["advice"].as_str().expect("an advice");
    assert!(
        advice.contains("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA"),
        "{advice}"
    );
}

#[test]
fn the_history_is_read_by_its_keys_and_from_page_to_page() {
    let schema = Schema::new();
    let mut admin = schema.server.postgres();
    // A second apart; what is rare is old.
    admin.run(&format!(
        "INSERT INTO \"{0}\".dblock_runs (run, name, host, requested_at, ended_at, outcome, exit_code) SELECT lpad(to_hex(n), 32, '0'), \
         'job' || n % 50, CASE WHEN n > 29900 THEN 'rare' ELSE 'web1' END, now() - n * interval '1 s', now(), \
         CASE WHEN n > 29900 THEN 'timed_out' ELSE 'ran' END, 0 FROM generate_series(1, 30000) n; ANALYZE \"{0}\".dblock_runs",
        schema.name
    ));
    let (mut found, mut after) = (Vec::new(), None);
    for (options, key) in [
        (&["--on", "rare"][..], "by_host"),
        (&["--result", "timed_out"], "by_outcome"),
        (&["--on", "rare", "--result", "timed_out"], "by_"),
        (&["--until", "29900s"], "by_time"),
    ] {
        let history = schema
            .at("history")
            .args(options)
            .args(["-n", "8", "-vv", "--json"]);
        let output = history.output();
        let json = output.expect_code(0).json();
        assert_eq!(json["runs"].as_array().unwrap().len(), 8, "{options:?}");
        let mut said = output.stderr.lines();
        let sql = said.find_map(|line| line.strip_prefix("dblock: /* dblock history */ "));
        let sql = sql.unwrap_or_else(|| panic!("{}", output.stderr));
        let plan = admin.column::<String>(&format!("EXPLAIN {sql}")).join("\n");
        assert!(
            plan.contains(&format!("dblock_runs_{key}")),
            "{options:?}: {plan}"
        );
        assert!(
            !plan.contains("Seq Scan on dblock_runs"),
            "{options:?}: {plan}"
        );
    }
    for _ in 0..20 {
        let history = schema
            .at("history")
            .args(["--on", "rare", "-n", "7", "--json"]);
        let json = history
            .args(after.iter().flat_map(|next: &String| ["--after", next]))
            .output()
            .json();
        let runs = json["runs"].as_array().unwrap().iter();
        found.extend(
            runs.rev()
                .map(|run| run["run"].as_str().unwrap().to_owned()),
        );
        after = json["cursor"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
        admin.run(&format!(
            "INSERT INTO \"{}\".dblock_runs (run, name, host, requested_at) VALUES (md5(random()::text), 'job', 'rare', now())",
            schema.name
        ));
    }
    let all: Vec<String> = (29_901..=30_000)
        .map(|number| format!("{number:032x}"))
        .collect();
    assert_eq!(found, all);
}
