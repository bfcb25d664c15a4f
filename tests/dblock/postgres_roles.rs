//! Jobs that log in to PostgreSQL with several roles: what one sees of another's lock, and whether it may end its holder.

use std::process::Stdio;

use crate::harness::crontab::{end, job};
use crate::harness::postgres::Postgres;
use crate::harness::{
    Crontab, Dblock, Kind, PASSWORD, PgBouncer, Running, SOON, Server, eventually, unique,
};

/// A holder that logs in with this account.
#[track_caller]
fn holder(server: &Server, name: &str, (account, password): (&str, &str)) -> Running {
    let run = Dblock::run(server, name).user(account);
    let run = run.env("DBLOCK_PASSWORD", password).without_terminal();
    let mut run = run
        .stdin(Stdio::piped())
        .sh("echo runs; read x; exit 0")
        .spawn();
    run.wait_line("runs", SOON);
    run
}

#[test]
fn a_holder_of_another_role_is_seen_and_ended_with_the_grant_that_is_named() {
    let server = Server::shared(Kind::Postgres);
    let (name, account) = (unique("role"), server.account());
    let at = |command| Dblock::at(server, command).user(&account);
    let mut held = holder(server, &name, ("dblock", "dblock-secret"));
    let session = server.holder(&name).expect("it is held");

    let seen = at("status").args(["--json", &name]).output().json();
    let holder = &seen["locks"][0]["holders"][0];
    assert_eq!(holder["connection"], session, "{seen}");
    assert_eq!(holder["dblock"], true, "{seen}");
    assert_eq!(holder["pid"], held.pid(), "{seen}");
    assert_eq!(holder["program"], "sh", "{seen}");
    let grant = format!("GRANT pg_read_all_stats TO \"{account}\"");
    let unseen = seen["not_visible"][0].as_str().unwrap_or_default();
    assert!(unseen.contains(&grant), "{seen}");
    server.postgres().run(&grant);
    let seen = at("status").args(["--json", &name]).output().json();
    assert_eq!(
        seen["not_visible"].as_array().map(Vec::len),
        Some(0),
        "{seen}"
    );

    let told = at("kill").args(["--dry-run", &name]).output();
    let right = format!("with its command, if {account} may end sessions of others\n");
    assert!(told.stdout.ends_with(&right), "{told:#?}");
    let grant = format!("GRANT pg_signal_backend TO \"{account}\"");
    let refused = at("kill").arg(&name).output();
    refused.expect_code(77).expect_one_line(&grant);
    assert_eq!(
        server.holder(&name),
        Some(session),
        "nothing has happened to it"
    );
    server.postgres().run(&grant);
    at("kill").arg(&name).output().expect_code(0);
    held.wait_within(SOON).expect_code(74);
}

#[test]
fn the_holder_of_a_superuser_is_ended_by_a_superuser_alone() {
    let server = Server::shared(Kind::Postgres);
    let (name, account) = (unique("superuser"), server.account());
    let mut held = holder(server, &name, ("admin", "admin-secret"));
    server
        .postgres()
        .run(&format!("GRANT pg_signal_backend TO \"{account}\""));
    let kill = || Dblock::at(server, "kill").arg(&name);
    let refused = kill().user(&account).output();
    refused
        .expect_code(77)
        .expect_one_line("only a superuser may end");
    assert!(!refused.stderr.contains("GRANT"), "{refused:#?}");
    let admin = kill().user("admin").env("DBLOCK_PASSWORD", "admin-secret");
    admin.output().expect_code(0);
    held.wait_within(SOON).expect_code(74);
}

#[test]
fn init_names_the_grant_that_its_role_lacks() {
    let server = Server::shared(Kind::Postgres);
    let (schema, account) = (unique("lacks"), server.account());
    let init = || {
        let init = Dblock::at(server, "init").user(&account);
        init.env("DBLOCK_SCHEMA", &schema).output()
    };
    let advised = |advice: &str| {
        let grant = format!("an administrator can {advice}");
        init().expect_code(77).expect_one_line(&grant);
        server.postgres().run(advice);
        init().expect_code(0);
        server
            .postgres()
            .run(&format!("DROP SCHEMA \"{schema}\" CASCADE"));
    };
    advised(&format!(
        "CREATE SCHEMA \"{schema}\" AUTHORIZATION \"{account}\""
    ));
    server
        .postgres()
        .run(&format!("CREATE SCHEMA \"{schema}\""));
    advised(&format!(
        "GRANT USAGE, CREATE ON SCHEMA \"{schema}\" TO \"{account}\""
    ));
    // The tables of another role are not its to change.
    server
        .postgres()
        .run(&format!("CREATE SCHEMA \"{schema}\" AUTHORIZATION dblock"));
    let owner = Dblock::at(server, "init").env("DBLOCK_SCHEMA", &schema);
    owner.output().expect_code(0);
    let granted = |what: &str| {
        let grant = format!("GRANT {what} SCHEMA \"{schema}\" TO \"{account}\"");
        server.postgres().run(&grant);
    };
    granted("USAGE, CREATE ON");
    init()
        .expect_code(77)
        .expect_one_line("its tables are another role's");
    // It sees now that they are whole.
    granted("SELECT, INSERT, DELETE ON ALL TABLES IN");
    let refused = init();
    let stderr = refused.stderr.clone();
    refused
        .expect_code(77)
        .expect_one_line("; their owner can GRANT USAGE ON SCHEMA");
    let (_, grants) = stderr.split_once("; their owner can ").expect("advice");
    server.postgres().run(grants.trim_end());
    init().expect_code(0);
}

#[test]
fn an_end_that_came_by_itself_is_not_that_of_a_kill_that_reached_nobody() {
    let server = Server::durable(Kind::Postgres);
    let (name, account) = (unique("itself"), server.account());
    let mut admin = server.postgres();
    admin.run(&format!("GRANT USAGE ON SCHEMA dblock TO \"{account}\""));
    admin.run(&format!(
        "GRANT ALL ON ALL TABLES IN SCHEMA dblock TO \"{account}\""
    ));
    // It renews the lock, and so learns of the request, after more than a minute.
    let mut held = holder(server, &name, ("dblock", "dblock-secret"));
    let kill = Dblock::at(server, "kill").user(&account).arg(&name);
    let kill = kill.args(["--wait", "60"]).spawn();
    eventually("it is asked to end", SOON, || {
        admin.is(&format!(
            "EXISTS (SELECT FROM dblock.dblock_locks WHERE name = '{name}' AND kill_requested_by IS NOT NULL)"
        ))
    });
    drop(held.take_stdin());
    held.wait_within(SOON).expect_code(0);
    let told = kill.wait();
    told.expect_code(0).expect_silence();
    assert!(
        told.stdout.contains(" was released meanwhile by "),
        "{told:#?}"
    );
}

#[test]
fn what_another_session_sends_in_no_encoding_hides_no_holder() {
    let server = Server::private(Kind::Postgres);
    server
        .postgres()
        .run("CREATE DATABASE raw OWNER dblock ENCODING SQL_ASCII LOCALE 'C' TEMPLATE template0");
    let session = || {
        let address = (server.address, server.port);
        Postgres::connect(address, ("dblock", PASSWORD), "raw").unwrap()
    };
    // What is shown of a statement ends after 1023 bytes, in the middle of a letter.
    let (mut other, mut looks) = (session(), session());
    other.run(&format!("SELECT '{}'", "é".repeat(1000)));
    looks.run("SET client_encoding = 'UTF8'");
    let pid = other.pid;
    let query = format!("SELECT query FROM pg_stat_activity WHERE pid = {pid}");
    assert_eq!(looks.try_query(&query).unwrap_err().state, "22021");
    let (url, name) = (server.url().replace("/app", "/raw"), unique("raw"));
    let run = Dblock::run_at(&url, &name).stdin(Stdio::piped());
    let mut run = run.sh("echo runs; read x; exit 0").spawn();
    run.wait_line("runs", SOON);
    let status = Dblock::at(&server, "status").env("DBLOCK_URL", &url);
    let seen = status.args(["--json", &name]).output();
    let seen = seen.expect_code(0).json();
    // It says so in its own statements alone.
    let started = &seen["locks"][0]["holders"][0]["started"];
    assert!(started.is_string(), "{seen}");
    drop(run.take_stdin());
    run.wait().expect_code(0);
}

/// Makes operators of another role that fit better than those of PostgreSQL itself, wherever dblock would leave the choice.
fn set_traps(server: &Server) {
    let mut admin = server.postgres();
    for (operator, left, right) in [
        ("||", "bigint", "bigint"),
        ("||", "text", "int"),
        ("&", "bigint", "int"),
        ("*", "int", "interval"),
        ("*", "numeric", "int"),
        ("=", "varchar", "varchar"),
    ] {
        let trap = unique("trap").replace('-', "_");
        admin.run(&format!(
            "CREATE FUNCTION public.{trap}({left}, {right}) RETURNS text LANGUAGE plpgsql AS \
             $$ BEGIN RAISE 'trapped'; END $$"
        ));
        admin.run(&format!(
            "CREATE OPERATOR public.{operator} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.{trap})"
        ));
    }
    assert!(admin.try_query("SELECT 1::bigint || '/'").is_err());
}

/// `dblock check` finds nothing against a server at this URL.
fn is_checked(url: &str) {
    let check = Dblock::bare().arg("check").env("DBLOCK_URL", url);
    let check = check.env("DBLOCK_PASSWORD", crate::harness::PASSWORD);
    check.output().expect_code(0);
}

#[test]
fn an_operator_that_another_role_has_made_is_not_called() {
    let server = &Server::private(Kind::Postgres);
    server.make_tables();
    set_traps(server);
    for options in [&[][..], &["--durable"], &["--record"]] {
        let name = unique("trapped");
        let run = || Dblock::run(server, &name).args(options);
        let mut first = run()
            .stdin(Stdio::piped())
            .sh("echo held; read x; exit 3")
            .spawn();
        first.wait_line("held", SOON);
        let second = run().args(["--wait", "1m"]).command(["true"]).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        drop(first.take_stdin());
        first.wait().expect_code(3).expect_silence();
        second.wait().expect_code(0).expect_silence();
    }
    is_checked(&server.url());
}

#[test]
fn behind_a_pooler_no_operator_of_another_role_is_called_and_nothing_stays_for_its_next_client() {
    let server = &Server::private(Kind::Postgres);
    server.make_tables();
    let crontab = Crontab::alone(server, &job("", "echo ran >>{}"));
    set_traps(server);
    let url = |pooler: &PgBouncer| format!("{}?pooler=session", pooler.url());
    let mut admin = server.postgres();
    for (mode, lines) in [("session", 1), ("transaction", 2)] {
        for options in [&[][..], &["--durable"], &["--record"]] {
            // In transaction mode the server's session keeps the locks of who is gone, and nobody else is let in.
            let pooler = PgBouncer::start(server, mode);
            let run = Dblock::run_at(&url(&pooler), &unique("trapped")).args(options);
            let run = run.command(["true"]).output();
            run.expect_code(0).expect_silence();
            // The server may take a moment to end the sessions of the pooler before.
            eventually("one session is left", SOON, || {
                admin.is("(SELECT count(*) FROM pg_stat_activity WHERE usename = 'dblock') <= 1")
            });
            let address = ("127.0.0.1", pooler.port);
            let account = ("dblock", crate::harness::PASSWORD);
            let mut next = Postgres::connect(address, account, "app").unwrap();
            assert!(
                next.is("(SELECT count(*) FROM pg_stat_activity WHERE usename = 'dblock') = 1")
            );
            let path: Option<String> = next.value("SHOW search_path");
            assert_eq!(path.as_deref(), Some("\"$user\", public"), "{mode}");
        }
        let pooler = PgBouncer::start(server, mode);
        let mut daemon = crontab.daemon(&[]).env("DBLOCK_URL", url(&pooler)).spawn();
        daemon.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        crontab.eventually_lines(lines);
        crontab.eventually_idle();
        end(daemon);
    }
    is_checked(&url(&PgBouncer::start(server, "session")));
    // One that drops the setting of the login, and is not said to be there, is found out before.
    let pooler = PgBouncer::start_with(server, "transaction", "search_path");
    let run = Dblock::run_at(&pooler.url(), &unique("trapped")).command(["true"]);
    let output = run.output();
    output
        .expect_code(78)
        .expect_one_line("a pooler is in between");
}
