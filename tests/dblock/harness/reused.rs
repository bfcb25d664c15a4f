//! Private servers that are used again. To start one takes as much processor as several tests.
//!
//! When a test has left a server, what tests make as a rule is removed: databases, schemas, accounts. If the server is then as it was when
//! it had started, the next test that wants such a one has it. Otherwise it ends.

use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use nix::sys::signal::Signal;

use super::spares::in_no_environment;
use super::{ADMIN, Kind, Server, children_of, is_stopped, postgres, runs, send, texts, within};

/// More with the same options are not kept.
const fn most(kind: Kind) -> usize {
    match kind {
        // Each takes much memory.
        Kind::MySql => 1,
        Kind::MariaDb | Kind::Postgres => 2,
    }
}

/// How long the sessions of a test may take to end.
const LAST_SESSIONS: Duration = Duration::from_secs(1);

/// How long a server may take to answer. One that has just been frozen does not.
const ANSWER: Duration = Duration::from_secs(20);

/// Those that no test uses now.
static IDLE: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// What a server was like when it had started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct New {
    options: Vec<String>,
    /// What it said of itself.
    state: Vec<String>,
}

impl New {
    /// What it is like now; `None`: that cannot be told.
    pub fn of(server: &Server, options: Vec<String>) -> Option<Self> {
        let state = state(server)?;
        Some(Self { options, state })
    }
}

fn idle() -> MutexGuard<'static, Vec<Server>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One that has these options and is as new, if there is one.
pub fn take(kind: Kind, options: &[String]) -> Option<Server> {
    let fits = |server: &Server| {
        server.kind == kind
            && server
                .new
                .as_ref()
                .is_some_and(|new| new.options == options)
    };
    let mut idle = idle();
    let at = idle.iter().position(fits)?;
    let server = idle.remove(at);
    if kind == Kind::MySql {
        send(server.pid(), Signal::SIGCONT);
    }
    Some(server)
}

/// Whether another test may have it: there is room for it, and without what tests make as a rule it is as it was.
pub fn is_as_new(server: &Server) -> bool {
    let Some(new) = &server.new else {
        return false;
    };
    let same = |other: &&Server| {
        other.kind == server.kind
            && other
                .new
                .as_ref()
                .is_some_and(|other| other.options == new.options)
    };
    idle().iter().filter(same).count() < most(server.kind) && is_clean(server)
}

/// Whether it is as it was, without what tests make as a rule, and nobody is left who could come back to it.
fn is_clean(server: &Server) -> bool {
    let port = server.port;
    // The server's own arguments have it in another form.
    let ways = vec![
        format!(":{port}"),
        format!("PORT={port}"),
        format!("--port\0{port}"),
    ];
    in_no_environment(ways).len() == 3
        && remove_all(server).is_some()
        && state(server).as_ref() == server.new.as_ref().map(|new| &new.state)
}

/// Keeps one that is as new for another test. Its log begins anew; zeros stand for what was in it. An idle MySQL would look a hundred times
/// a second for something to do, so it is stopped until a test takes it.
pub fn keep(server: Server) {
    let log = File::options()
        .write(true)
        .open(server.dir.join("error.log"));
    log.and_then(|log| log.set_len(0))
        .expect("the server has a log");
    if server.kind == Kind::MySql {
        send(server.pid(), Signal::SIGSTOP);
    }
    idle().push(server);
}

/// Removes what tests make; `None`: that is not possible.
fn remove_all(server: &Server) -> Option<()> {
    let pid = server.pid();
    // Somebody else's may have the port of one that has ended.
    if !runs(pid) || is_stopped(pid) || children_of(pid).into_iter().any(is_stopped) {
        return None;
    }
    if server.kind == Kind::Postgres {
        postgres::end_idle((server.address, server.port));
        let mut admin = server.new_admin().ok()?;
        admin.answers_within(ANSWER).ok()?;
        admin
            .try_query("SET lock_timeout = '1s'; SET synchronous_commit = off")
            .ok()?;
        let mut all = |query: &str| -> Option<Vec<String>> {
            let rows = admin.try_query(query).ok()?;
            Some(rows.into_iter().flatten().flatten().collect())
        };
        let others = "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('client backend', 'walsender') AND pid <> pg_backend_pid()";
        if !within(LAST_SESSIONS, || {
            all(others).is_some_and(|pids| pids.is_empty())
        }) {
            return None;
        }
        let schemas = "SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$|public$)'";
        let roles = "SELECT format('DROP OWNED BY %1$I; DROP ROLE %1$I', rolname) FROM pg_roles WHERE rolname !~ '^pg_' AND rolname NOT IN ('admin', 'dblock')";
        for query in [schemas, roles] {
            for drop in all(query)? {
                all(&drop)?;
            }
        }
        return Some(());
    }
    let mut admin = admin(server)?;
    let others = "SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND command <> 'Daemon'";
    let mut is_alone = || admin.query_first(others).ok().flatten() == Some(0);
    if !within(LAST_SESSIONS, &mut is_alone) {
        return None;
    }
    admin
        .query_drop("SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1")
        .ok()?;
    let databases = "SELECT CONCAT('DROP DATABASE `', REPLACE(schema_name, '`', '``'), '`') FROM information_schema.schemata \
                     WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";
    let accounts = "SELECT CONCAT('DROP USER ', QUOTE(user), '@', QUOTE(host)) FROM mysql.user \
                    WHERE user NOT IN ('admin', 'dblock', 'root') AND user NOT LIKE 'mysql.%' AND user NOT LIKE 'mariadb.%'";
    for query in [databases, accounts] {
        for drop in admin.query::<String, _>(query).ok()? {
            admin.query_drop(drop).ok()?;
        }
    }
    for table in ["db", "tables_priv", "columns_priv"] {
        let privileges = format!("DELETE FROM mysql.{table} WHERE user = 'dblock'");
        admin.query_drop(privileges).ok()?;
    }
    // It forgets, besides, whose password it has seen.
    admin.query_drop("FLUSH PRIVILEGES").ok()?;
    Some(())
}

/// A session of the admin of MariaDB or MySQL.
fn admin(server: &Server) -> Option<Conn> {
    let account = server.as_account(ADMIN.0, ADMIN.1);
    Conn::new(account.read_timeout(Some(ANSWER))).ok()
}

/// What a test could find in a server: settings, databases, accounts, privileges, plugins, where it replicates from.
fn state(server: &Server) -> Option<Vec<String>> {
    let dir = server.dir.to_str()?;
    let mut state = Vec::new();
    let mut note = |line: String| state.push(line.replace(dir, "DIR"));
    if server.kind == Kind::Postgres {
        let mut admin = server.new_admin().ok()?;
        admin.answers_within(ANSWER).ok()?;
        for query in [
            "SELECT name, setting FROM pg_settings WHERE name <> 'port' ORDER BY name",
            "SELECT datname, datallowconn, datconnlimit, datacl FROM pg_database ORDER BY datname",
            "SELECT * FROM pg_authid ORDER BY oid",
            "SELECT * FROM pg_auth_members ORDER BY roleid, member",
            "SELECT * FROM pg_db_role_setting ORDER BY setdatabase, setrole",
            "SELECT nspname, nspacl FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_' ORDER BY nspname",
            "SELECT oid, relacl FROM pg_class WHERE oid >= 16384 OR relacl IS NOT NULL ORDER BY oid",
            "SELECT oid, proacl FROM pg_proc WHERE oid >= 16384 OR proacl IS NOT NULL ORDER BY oid",
            "SELECT oid FROM pg_type WHERE oid >= 16384",
            "SELECT oid FROM pg_default_acl",
            "SELECT oid FROM pg_publication",
            "SELECT oid FROM pg_event_trigger",
            "SELECT extname FROM pg_extension ORDER BY extname",
            "SELECT slot_name FROM pg_replication_slots",
            "SELECT COUNT(*) FROM pg_prepared_xacts",
            "SELECT pg_is_in_recovery()",
        ] {
            for row in admin.try_query(query).ok()? {
                note(format!("{query}: {row:?}"));
            }
        }
        return Some(state);
    }
    let mut admin = admin(server)?;
    let mut queries = vec![
        "SHOW GLOBAL VARIABLES WHERE variable_name NOT IN ('port', 'server_uuid')",
        "SHOW DATABASES",
        "SHOW PLUGINS",
        "SELECT * FROM mysql.db ORDER BY host, db, user",
        "SELECT * FROM mysql.tables_priv",
        "SELECT * FROM mysql.columns_priv",
        "SELECT * FROM mysql.procs_priv",
        "SELECT * FROM mysql.func",
        "SELECT COUNT(*) FROM mysql.time_zone_name",
    ];
    queries.extend(match server.kind {
        Kind::MySql => &[
            "SELECT * FROM mysql.user ORDER BY user, host",
            "SELECT * FROM mysql.global_grants ORDER BY user, host, priv",
            "SELECT * FROM mysql.role_edges",
            "SELECT * FROM mysql.component",
            "SELECT channel_name FROM performance_schema.replication_connection_configuration WHERE host <> ''",
            "SELECT SUM(CRC32(CONCAT(name, enabled))) FROM performance_schema.setup_instruments",
            "SELECT * FROM performance_schema.setup_consumers ORDER BY name",
            "SELECT * FROM performance_schema.persisted_variables",
        ][..],
        _ => &["SELECT * FROM mysql.global_priv ORDER BY user, host", "SHOW ALL SLAVES STATUS"],
    });
    for query in queries {
        for row in admin.query::<Row, _>(query).ok()? {
            note(format!("{query}: {:?}", texts::of_mysql(row)));
        }
    }
    Some(state)
}

super::all_servers! {
    fn a_server_that_a_test_has_changed_is_not_used_again(shared) {
        use crate::harness::{SOON, eventually};
        let spoils = match shared.kind {
            Kind::Postgres => [
                ("ALTER ROLE dblock SET work_mem = '1MB'", "ALTER ROLE dblock RESET work_mem"),
                ("CREATE TABLE public.more (one int)", "DROP TABLE public.more"),
                // That leaves a list of who may, however it is undone.
                ("REVOKE EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) FROM PUBLIC", ""),
            ],
            _ => [
                ("SET GLOBAL lock_wait_timeout = 77", "SET GLOBAL lock_wait_timeout = DEFAULT"),
                ("SET GLOBAL time_zone = '+09:00'", "SET GLOBAL time_zone = 'SYSTEM'"),
                ("GRANT PROCESS ON *.* TO dblock", ""),
            ],
        };
        let server = Server::private(shared.kind);
        // On a busy machine the sessions before may last longer than is waited for them.
        let becomes_clean = || eventually("it is as it was", SOON, || is_clean(&server));
        server.make_tables();
        server.account();
        becomes_clean();
        let other = server.watcher();
        assert!(!is_clean(&server), "a session is left");
        drop(other);
        let frozen = server.freeze();
        eventually("it is stopped", SOON, || is_stopped(server.pid()));
        assert!(!is_clean(&server), "it is stopped");
        drop(frozen);
        becomes_clean();
        server.stop();
        assert!(!is_clean(&server), "it has ended");
        server.start();
        becomes_clean();
        for (spoil, mends) in spoils {
            server.watcher().query_drop(spoil).unwrap();
            assert!(!is_clean(&server), "{spoil}");
            if !mends.is_empty() {
                server.watcher().query_drop(mends).unwrap();
                becomes_clean();
            }
        }
    }
}
