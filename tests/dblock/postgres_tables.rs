//! What is PostgreSQL's alone where dblock's tables are: `init` and `check` there, a locked row, and keys. What holds on every server stands
//! in `durable`, `tokens`, `once`, `history` and beside them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::crontab::scheduler_of;
use crate::harness::schema::follows;
use crate::harness::{
    Client, Crontab, Dblock, Frozen, Kind, PASSWORD, SOON, Server, Tables, eventually, unique,
    works,
};
use crate::init::{init_check, is_current, meta, shape};

#[test]
fn init_is_needed_may_run_many_times_at_once_and_refuses_newer_tables() {
    let tables = Tables::missing(Server::shared(Kind::Postgres));
    tables
        .at("init")
        .arg("--check")
        .output()
        .expect_code(78)
        .expect_one_line("run dblock init");
    let run = tables
        .at("run")
        .args(["--name", &unique("none"), "--durable"]);
    run.sh("true")
        .output()
        .expect_code(78)
        .expect_one_line("create them with dblock init");
    let inits: Vec<_> = (0..4).map(|_| tables.at("init").spawn()).collect();
    for init in inits {
        init.wait().expect_code(0);
    }
    tables.at("init").arg("--check").output().expect_code(0);
    tables.sql("UPDATE dblock_meta SET version = 99, usable_from = 99");
    let run = tables
        .at("run")
        .args(["--name", &unique("newer"), "--record"]);
    run.sh("true")
        .output()
        .expect_code(78)
        .expect_one_line("of a newer dblock");
}

#[test]
fn the_script_that_is_printed_makes_the_schema_and_current_tables_for_the_role() {
    let server = Server::shared(Kind::Postgres);
    let (tables, role) = (Tables::missing(server), server.account());
    let mut admin = server.postgres();
    admin.run(&format!("DROP SCHEMA {}", tables.quoted()));
    let printed = tables.at("init").user(&role).arg("--print").output();
    printed.expect_code(0).expect_silence();
    // Once more it changes nothing.
    for _ in 0..2 {
        admin.run(&printed.stdout);
        let check = tables.at("init").user(&role).arg("--check").output();
        check.expect_code(0).expect_silence();
        assert!(check.stdout.contains("are current (version "), "{check:?}");
    }
    let run = tables.at("run").user(&role);
    works(run.args(["--name", &unique("printed"), "--durable"]));
}

#[test]
fn check_says_that_there_is_no_schema_and_makes_none() {
    let schema = unique("none");
    for _ in 0..2 {
        let check = Dblock::at(Server::shared(Kind::Postgres), "init").arg("--check");
        let check = check.env("DBLOCK_SCHEMA", &schema).output();
        check.expect_code(78).expect_stdout("");
        check.expect_one_line(&format!(
            "are not current: no schema {schema}; run dblock init\n"
        ));
    }
}

#[test]
fn what_the_tables_lack_is_named_by_check_and_made_by_init() {
    let tables = Tables::new(Server::shared(Kind::Postgres));
    let made = shape(&tables);
    for (damage, missing) in [
        (
            "ALTER TABLE dblock_runs DROP COLUMN message, DROP COLUMN tick",
            "column dblock_runs.tick, column dblock_runs.message",
        ),
        // A word of the language, and the index of it.
        (
            "ALTER TABLE dblock_cron_daemons DROP COLUMN \"user\"",
            "column dblock_cron_daemons.user, key dblock_cron_daemons.by_host",
        ),
        ("DROP INDEX dblock_runs_by_time", "key dblock_runs.by_time"),
        (
            "ALTER TABLE dblock_locks DROP COLUMN write_id",
            "column dblock_locks.write_id",
        ),
        (
            "ALTER TABLE dblock_locks ALTER COLUMN fence SET DEFAULT 0",
            "default of dblock_locks.fence",
        ),
        ("DROP TABLE dblock_successes", "table dblock_successes"),
        ("DELETE FROM dblock_meta", "version 6"),
        ("DROP TABLE dblock_meta", "table dblock_meta, version 6"),
    ] {
        tables.sql(damage);
        let line = format!("are not current: no {missing}; run dblock init\n");
        for _ in 0..2 {
            let check = init_check(&tables).output();
            check.expect_code(78).expect_stdout("");
            check.expect_one_line(&line);
        }
        let run = tables.init().output();
        run.expect_code(0).expect_silence();
        let (line, grant) = run.stdout.split_once('\n').unwrap();
        assert!(line.ends_with(&format!("; new: {missing}")), "{line}");
        let grants = grant.starts_with("for each other account that uses them: GRANT ");
        assert_eq!(grants, missing.contains("table "), "{damage}: {grant}");
        assert_eq!(shape(&tables), made, "{damage}");
        is_current(&tables);
    }
}

/// What version 5 and version 6 brought, taken back, the latest first; and the version that is left then. Version 4 was the first there.
const TAKEN_BACK: [(&str, u32); 4] = [
    ("DROP TABLE dblock_audit", 5),
    ("DROP TABLE dblock_outputs", 5),
    ("DROP INDEX dblock_runs_by_outcome", 4),
    ("DROP INDEX dblock_runs_by_host", 4),
];

/// Tables from which so much was taken back.
fn older_tables(server: &Server, taken_back: usize) -> Tables<'_> {
    let tables = Tables::new(server);
    for (statement, version) in &TAKEN_BACK[..taken_back] {
        tables.sql(statement);
        tables.sql(&format!("UPDATE dblock_meta SET version = {version}"));
    }
    tables
}

#[test]
fn version_4_is_upgraded_in_place_beside_an_older_dblock() {
    let server = Server::shared(Kind::Postgres);
    let made = shape(&Tables::new(server));
    let tables = older_tables(server, TAKEN_BACK.len());
    // What it has can be used all the same.
    let run = tables.at("run").args(["--durable", "--once-per", "1h"]);
    works(run.args(["--name", &unique("older")]));
    let history = tables.at("history").output();
    history.expect_code(0).expect_silence();
    let audit = tables.at("audit").output();
    audit
        .expect_code(78)
        .expect_one_line("are of an older dblock; upgrade them with dblock init");
    let mut older = tables.postgres();
    older.run("BEGIN");
    older.run("INSERT INTO dblock_runs (run, name, requested_at) VALUES ('kept', 'kept', now())");
    let run = tables.init().spawn();
    let waits = format!(
        "EXISTS (SELECT FROM pg_stat_activity WHERE {} = ANY (pg_blocking_pids(pid)))",
        older.pid
    );
    let mut admin = tables.postgres();
    eventually("it waits for that", SOON, || admin.is(&waits));
    older.run("COMMIT");
    let run = run.wait();
    run.expect_code(0).expect_silence();
    let new = "; new: key dblock_runs.by_host, key dblock_runs.by_outcome, table dblock_outputs, table dblock_audit, version 6";
    let (line, grant) = run.stdout.split_once('\n').unwrap();
    assert!(line.ends_with(new), "{line}");
    assert!(
        grant.starts_with("for each other account that uses them: GRANT "),
        "{grant}"
    );
    assert_eq!(shape(&tables), made);
    assert_eq!(meta(&tables), (6, 1, 2_592_000, 100));
    let kept = tables.rows::<String>("SELECT name FROM dblock_runs WHERE run = 'kept'");
    assert_eq!(kept, ["kept"]);
    let audit = tables.at("audit").output();
    audit.expect_code(0).expect_silence();
}

#[test]
fn older_tables_become_those_of_today_however_far_an_upgrade_came() {
    let server = Server::shared(Kind::Postgres);
    let made = shape(&Tables::new(server));
    for taken_back in 1..=TAKEN_BACK.len() {
        let tables = older_tables(server, taken_back);
        let check = init_check(&tables).output();
        check
            .expect_code(78)
            .expect_one_line("version 6; run dblock init");
        tables.init().output().expect_code(0).expect_silence();
        assert_eq!(shape(&tables), made, "{taken_back}");
        assert_eq!(meta(&tables), (6, 1, 2_592_000, 100));
        is_current(&tables);
    }
}

#[test]
fn what_is_half_made_is_finished() {
    let server = Server::shared(Kind::Postgres);
    let made = shape(&Tables::new(server));
    // The one that makes them when nothing breaks off.
    let mut owner = server.postgres_as("dblock", PASSWORD).unwrap();
    for fifths in 1..=5 {
        let tables = Tables::missing(server);
        let script = tables.at("init").arg("--print").output();
        let (script, _) = script.stdout.split_once("\n\n--").unwrap();
        // The schema is there.
        let statements: Vec<&str> = script.split(";\n").skip(1).collect();
        for statement in &statements[..statements.len() * fifths / 5] {
            owner.run(statement);
        }
        let code = if fifths < 5 { 78 } else { 0 };
        init_check(&tables).output().expect_code(code);
        tables.init().output().expect_code(0).expect_silence();
        assert_eq!(shape(&tables), made);
        is_current(&tables);
    }
}

#[test]
fn tables_of_another_program_are_refused_and_left_as_they_are() {
    let tables = Tables::missing(Server::shared(Kind::Postgres));
    tables.sql("CREATE TABLE dblock_runs (id int PRIMARY KEY)");
    let before = shape(&tables);
    let line = format!(
        "the table dblock_runs in the schema {} of ",
        tables.database
    );
    for run in [tables.init(), init_check(&tables)] {
        let output = run.output();
        output.expect_code(78).expect_stdout("");
        output
            .expect_one_line(&line)
            .expect_one_line("is not dblock's: it has no column run; use another --schema");
    }
    assert_eq!(shape(&tables), before);
}

#[test]
fn tables_of_a_newer_dblock_that_this_one_can_use_are_left_alone() {
    let tables = Tables::new(Server::shared(Kind::Postgres));
    tables.sql("UPDATE dblock_meta SET version = 99");
    // They have an index less, too.
    tables.sql("ALTER TABLE dblock_runs ADD COLUMN more int NULL");
    tables.sql("DROP INDEX dblock_runs_by_time");
    let before = shape(&tables);
    tables
        .at("history")
        .output()
        .expect_code(0)
        .expect_silence();
    for run in [tables.init(), init_check(&tables)] {
        let output = run.output();
        output.expect_code(0).expect_silence();
        assert!(
            output.stdout.contains("are current (version 99)"),
            "{output:#?}"
        );
    }
    tables
        .init()
        .args(["--keep", "2d,7"])
        .output()
        .expect_code(0);
    assert_eq!(meta(&tables), (99, 1, 172_800, 7));
    assert_eq!(shape(&tables), before);
}

#[test]
fn what_does_not_work_there_yet_is_refused_in_one_line() {
    let tables = Tables::missing(Server::shared(Kind::Postgres));
    let queue = tables.at("queue").arg("status").output();
    queue
        .expect_code(78)
        .expect_one_line("dblock queue works on MySQL and MariaDB, and not yet on PostgreSQL");
}

#[test]
fn a_locked_row_is_waited_for() {
    let (tables, name) = (
        Tables::new(Server::shared(Kind::Postgres)),
        unique("locked"),
    );
    let run = || tables.at("run").args(["--name", &name, "--durable"]);
    works(run());
    let mut locker = tables.lock(&format!("dblock_locks WHERE name = '{name}'"));
    let waiter = run().args(["--wait", "30"]).sh("true").spawn();
    waits_twice(&tables, &mut locker);
    locker.query_drop("COMMIT").unwrap();
    waiter.wait().expect_code(0);
}

#[test]
fn kill_waits_for_a_locked_row() {
    let (tables, name) = (
        Tables::new(Server::shared(Kind::Postgres)),
        unique("killed"),
    );
    let acquire = tables.at("acquire").args(["--name", &name, "--ttl", "5m"]);
    acquire.output().expect_code(0);
    let mut locker = tables.lock(&format!("dblock_locks WHERE name = '{name}'"));
    let kill = tables.at("kill").arg(&name).spawn();
    waits_twice(&tables, &mut locker);
    locker.query_drop("COMMIT").unwrap();
    kill.wait().expect_code(0);
}

#[test]
fn tables_that_cannot_be_read_for_a_moment_are_not_taken_for_none() {
    let server = Server::shared(Kind::Postgres);
    let (tables, name) = (Tables::new(server), unique("moment"));
    let acquire = tables.at("acquire").args(["--name", &name, "--ttl", "5m"]);
    acquire.output().expect_code(0);
    let mut locker = tables.client();
    locker.query_drop("BEGIN; LOCK TABLE dblock_meta").unwrap();
    let url = server.url() + "?options=-c%20lock_timeout%3D300ms";
    let status = tables.at("status").env("DBLOCK_URL", url);
    let status = status.args(["--json", "--connect-timeout", "60", &name]);
    let status = status.spawn();
    waits_twice(&tables, &mut locker);
    locker.query_drop("COMMIT").unwrap();
    let seen = status.wait();
    let seen = seen.expect_code(0).json();
    assert_eq!(seen["locks"][0]["holders"][0]["durable"], true, "{seen}");
}

/// Waits until somebody waits for what this session has locked, gives up, and waits again.
#[track_caller]
fn waits_twice(tables: &Tables, locker: &mut Client) {
    let mut watcher = tables.postgres();
    // Between two of its statements there are milliseconds, which nobody may see.
    let statement = format!(
        "SELECT pid || ' ' || query_start FROM pg_stat_activity WHERE {} = ANY (pg_blocking_pids(pid))",
        locker.connection_id()
    );
    let mut first: Option<String> = None;
    eventually("it waits", SOON, || {
        first = watcher.value(&statement);
        first.is_some()
    });
    eventually("it gives up, and waits again", SOON, || {
        let now: Option<String> = watcher.value(&statement);
        now.is_some() && now != first
    });
}

#[test]
fn a_database_that_cannot_keep_every_name_has_no_tables() {
    let server = Server::private(Kind::Postgres);
    server
        .postgres()
        .run("CREATE DATABASE latin OWNER dblock ENCODING LATIN1 LOCALE 'C' TEMPLATE template0");
    let url = server.url().replace("/app", "/latin");
    let init = Dblock::bare().arg("init").env("DBLOCK_URL", &url);
    let init = init.env("DBLOCK_PASSWORD", PASSWORD).output();
    init.expect_code(78).expect_one_line("encoding");
    init.expect_said(["LATIN1", "ENCODING 'UTF8'"]);
    let name = unique("latin");
    works(Dblock::run_at(&url, &name));
    let durable = Dblock::run_at(&url, &name)
        .arg("--durable")
        .command(["true"]);
    durable.output().expect_code(78).expect_one_line("LATIN1");
    let check = Dblock::bare().arg("check").env("DBLOCK_URL", &url);
    let check = check.env("DBLOCK_PASSWORD", PASSWORD).output();
    check.expect_code(0);
    assert!(check.stdout.contains("LATIN1"), "{check:?}");
}

#[test]
fn check_looks_at_the_tables_and_takes_a_durable_lock() {
    let tables = Tables::missing(Server::shared(Kind::Postgres));
    let found = |check: &str| {
        let output = tables.at("check").arg("--json").output();
        follows(&output.expect_code(0).stdout, "check");
        let findings = output.json()["findings"].take();
        let findings: Vec<serde_json::Value> = serde_json::from_value(findings).expect("a list");
        findings.into_iter().find(|one| one["check"] == check)
    };
    let none = found("tables").expect("a finding");
    assert_eq!(none["value"], format!("none in \"{}\"", tables.database));
    let advice = none["advice"].as_str().expect("an advice");
    assert!(advice.contains("by an account that may CREATE"), "{advice}");
    assert_eq!(found("excludes").expect("a finding")["durable"], false);
    tables.at("init").output().expect_code(0);
    let shown = found("tables").expect("a finding");
    assert_eq!(
        (&shown["schema"], &shown["verdict"]),
        (&tables.database.as_str().into(), &"ok".into())
    );
    assert!(shown["tables_version"].as_u64() >= Some(4));
    assert_eq!(found("excludes").expect("a finding")["durable"], true);
    assert!(found("durable_lock").expect("a finding")["seconds"].is_number());
    assert_eq!(tables.rows::<u32>("SELECT count(*) FROM dblock_locks"), [0]);
    tables.sql("REVOKE DELETE ON dblock_locks FROM dblock");
    let shown = found("tables").expect("a finding");
    let advice = shown["advice"].as_str().expect("an advice");
    for part in [
        "; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ",
        "; ALTER DEFAULT PRIVILEGES IN SCHEMA ",
    ] {
        assert!(advice.contains(part), "{advice}");
    }
}

#[test]
fn the_history_is_read_by_its_keys() {
    let tables = Tables::new(Server::shared(Kind::Postgres));
    let mut admin = tables.postgres();
    // A second apart; what is rare is old.
    admin.run(&format!(
        "INSERT INTO \"{0}\".dblock_runs (run, name, host, requested_at, ended_at, outcome, exit_code) SELECT lpad(to_hex(n), 32, '0'), \
         'job' || n % 50, CASE WHEN n > 29900 THEN 'rare' ELSE 'web1' END, now() - n * interval '1 s', now(), \
         CASE WHEN n > 29900 THEN 'timed_out' ELSE 'ran' END, 0 FROM generate_series(1, 30000) n; ANALYZE \"{0}\".dblock_runs",
        tables.database
    ));
    for (options, key) in [
        (&["--on", "rare"][..], "by_host"),
        (&["--result", "timed_out"], "by_outcome"),
        (&["--on", "rare", "--result", "timed_out"], "by_"),
        (&["--until", "29900s"], "by_time"),
        (&["--since", "1000s"], "by_time"),
    ] {
        let history = tables
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
        // Otherwise it would read all runs that are newer or older.
        let by_key = |line: &str| line.contains("Index Cond: ") && line.contains("requested_at");
        assert!(
            key != "by_time" || plan.lines().any(by_key),
            "{options:?}: {plan}"
        );
    }
}

/// A server that keeps what it has committed when it is killed, and nothing else.
fn careful() -> Server {
    let options = ["-c", "synchronous_commit=on"];
    let server = Server::private_with(Kind::Postgres, &options);
    server.postgres().run("CREATE TABLE kept (number int)");
    stop_writer(&server);
    server
}

/// Stops the process that soon writes what nobody waits for.
#[track_caller]
fn stop_writer(server: &Server) {
    let query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
    let mut admin = server.postgres();
    eventually("there is one", SOON, || {
        let pid = admin.value(query).map(Pid::from_raw);
        pid.is_some_and(|pid| kill(pid, Signal::SIGSTOP).is_ok())
    });
}

/// Kills the server, and starts it again. Whether it has lost what was written after all that dblock did, and was not to be kept: it may
/// have had time to write it.
#[track_caller]
fn crash(server: &Server) -> bool {
    let mut admin = server.postgres();
    admin.run("SET synchronous_commit = off");
    admin.run("INSERT INTO kept VALUES (1)");
    server.kill();
    server.start();
    let mut admin = server.postgres();
    let is_lost = admin.is("NOT EXISTS (SELECT FROM kept)");
    admin.run("DELETE FROM kept");
    stop_writer(server);
    is_lost
}

#[test]
fn the_end_of_a_run_outlives_the_server() {
    let server = careful();
    server.make_tables();
    for lock in [&[][..], &["--durable"]] {
        let outlives = |_| {
            let name = unique("kept");
            let run = || {
                let run = Dblock::run(&server, &name).args(lock);
                run.args(["--once-per", "1h"]).command(["true"])
            };
            run().output().expect_code(0);
            let is_lost = crash(&server);
            run()
                .output()
                .expect_code(75)
                .expect_one_line("and runs once per 1h");
            is_lost
        };
        assert!((0..5).any(outlives), "it had time to write all each time");
    }
}

#[test]
fn the_end_of_a_tick_outlives_the_server() {
    let outlives = (0..3).any(|_| the_end_of_a_tick_is_there());
    assert!(outlives, "it had time to write all each time");
}

/// A tick has ended, and the server is killed. Whether it had no time to write what it need not keep.
fn the_end_of_a_tick_is_there() -> bool {
    let server = careful();
    let crontab = Crontab::alone(&server, "#: job\n0 0 1 1 * true");
    let daemon = crontab.start(&[]);
    crontab.due("job");
    crontab.eventually_row("dblock_runs WHERE ended_at IS NOT NULL");
    // What it renewed meanwhile would take with it to the disk what is to be lost.
    let _stopped = Frozen::new(scheduler_of(daemon.pid()).expect("a scheduler"));
    let is_lost = crash(&server);
    assert_eq!(
        crontab.count("dblock_runs WHERE name = 'job' AND exit_code = 0"),
        1
    );
    assert_eq!(crontab.count("dblock_cron_ticks"), 0);
    is_lost
}
