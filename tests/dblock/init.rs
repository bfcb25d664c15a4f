//! `dblock init` creates dblock's tables and brings them up to date, whatever is there already; and what it says is missing, or
//! must be granted, is what helps.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;

use crate::harness::{
    Answer, Cluster, Dblock, Fake, Kind, OF_CRON, OF_QUEUES, PASSWORD, Pair, Replication, SOON,
    Server, Tables, both_servers, eventually, unique, url_of,
};

/// What the tables look like: each column with its type, each index with its columns.
pub fn shape(tables: &Tables) -> BTreeMap<String, String> {
    let queries = match tables.kind() {
        Kind::MariaDb | Kind::MySql => [
            "SELECT CONCAT(TABLE_NAME, '.', COLUMN_NAME), CONCAT_WS(' ', COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, COLLATION_NAME)
             FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()",
            "SELECT CONCAT(TABLE_NAME, ' key ', INDEX_NAME), GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX)
             FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() GROUP BY TABLE_NAME, INDEX_NAME",
        ],
        Kind::Postgres => [
            "SELECT concat(table_name, '.', column_name),
             concat_ws(' ', data_type, character_maximum_length, is_nullable, column_default, collation_name, is_identity)
             FROM information_schema.columns WHERE table_schema = current_schema()",
            "SELECT indexname, replace(indexdef, concat(quote_ident(current_schema()), '.'), '')
             FROM pg_indexes WHERE schemaname = current_schema()",
        ],
    };
    let mut shape = BTreeMap::new();
    for query in queries {
        shape.extend(tables.rows::<(String, String)>(query));
    }
    assert!(!shape.is_empty(), "there are no tables");
    shape
}

/// What the tables say of themselves.
pub fn meta(tables: &Tables) -> (u32, u32, u64, u32) {
    let query = "SELECT version, usable_from, keep_seconds, keep_runs FROM dblock_meta";
    let rows: Vec<(u32, u32, u64, u32)> = tables.rows(query);
    assert_eq!(rows.len(), 1, "one row");
    rows[0]
}

/// The tables that versions 2 and 3 brought, as `dblock init` lists what is new.
fn new_tables() -> String {
    let names = OF_QUEUES
        .iter()
        .chain(&OF_CRON)
        .chain(&["outputs", "audit"]);
    let lines: Vec<String> = names.map(|name| format!("table dblock_{name}")).collect();
    lines.join(", ")
}

/// What each version of dblock did to its tables: the version and the statements of each step, in order.
fn steps_of_versions() -> impl Iterator<Item = (u32, Vec<&'static str>)> {
    let record = include_str!("../../src/schema/versions.sql");
    record.split("-- version ").skip(1).map(|step| {
        let (title, statements) = step.split_once('\n').unwrap();
        let statements = statements.split(';').map(str::trim);
        let statements = statements.filter(|statement| !statement.is_empty());
        (title[..1].parse().unwrap(), statements.collect())
    })
}

/// The tables that come of these statements, and say that they are of this version.
fn tables_of<'a>(server: &'a Server, version: u32, statements: &[&str]) -> Tables<'a> {
    let tables = Tables::missing(server);
    let create = format!("CREATE DATABASE {}", tables.quoted());
    server.admin().query_drop(create).unwrap();
    let mut admin = tables.admin();
    for statement in statements {
        let done = admin.query_drop(statement);
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let row = "INSERT INTO dblock_meta (id, version, usable_from, created_at) VALUES (1, ?, 1, UTC_TIMESTAMP(6))";
    admin.exec_drop(row, (version,)).unwrap();
    tables
}

/// The tables of version 1.
fn tables_of_version_1(server: &Server) -> Tables<'_> {
    let steps = steps_of_versions().filter(|(version, _)| *version == 1);
    let statements: Vec<_> = steps.flat_map(|(_, statements)| statements).collect();
    tables_of(server, 1, &statements)
}

/// `dblock init --check`.
pub fn init_check(tables: &Tables) -> Dblock {
    tables.at("init").arg("--check")
}

/// Only who has the privileges can see whether there are the tables.
pub fn is_current(tables: &Tables) {
    let run = init_check(tables).output();
    run.expect_code(0).expect_silence();
    assert!(
        run.stdout.contains("are current (version 6)"),
        "{}",
        run.stdout
    );
    assert!(!run.stdout.contains("new:"), "{}", run.stdout);
}

both_servers! {
    fn it_creates_the_tables_once(server) {
        let tables = Tables::missing(server);
        let run = tables.init().output();
        run.expect_code(0).expect_silence();
        let place = format!("the tables in the database {} of 127.0.0.1:{} are current (version 6)", tables.database, server.port);
        let new = format!("; new: database {}, table dblock_locks, table dblock_runs, table dblock_successes, {}, table dblock_meta, version 6\n", tables.database, new_tables());
        let grant = format!("for each other account that uses them: GRANT SELECT, INSERT, UPDATE, DELETE ON `{}`.* TO ...\n", tables.database);
        run.expect_stdout(&format!("{place}{new}{grant}"));
        let made = shape(&tables);
        assert_eq!(meta(&tables), (6, 1, 2_592_000, 100));
        tables.sql("INSERT INTO dblock_locks (name, slot) VALUES ('kept', 0)");
        tables.init().output().expect_code(0).expect_silence().expect_stdout(&format!("{place}\n"));
        assert_eq!(shape(&tables), made);
        let kept: Option<String> = tables.admin().query_first("SELECT name FROM dblock_locks").unwrap();
        assert_eq!(kept.as_deref(), Some("kept"));
        is_current(&tables);
    }

    fn check_does_not_mind_how_long_an_option_file_has_the_history_kept(server on mariadb) {
        let tables = Tables::new(server);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[dblock]\nkeep = 1d\n").unwrap();
        let init = || tables.init().arg("--defaults-file").arg(file.path());
        init().output().expect_code(0).expect_silence();
        assert_eq!(meta(&tables), (6, 1, 86_400, 100));
        for more in [&["--check"][..], &["--check", "--quiet"]] {
            init().args(more).output().expect_code(0).expect_silence();
        }
        assert_eq!(meta(&tables), (6, 1, 86_400, 100));
    }

    fn quiet_is_quiet(server on mariadb) {
        let tables = Tables::missing(server);
        tables.init().arg("--quiet").output().expect_code(0).expect_stdout("").expect_silence();
        is_current(&tables);
        init_check(&tables).arg("-q").output().expect_code(0).expect_stdout("").expect_silence();
    }

    fn several_at_once_make_the_same_tables(server) {
        for _ in 0..3 {
            let tables = Tables::missing(server);
            let runs: Vec<_> = (0..8).map(|_| tables.init().spawn()).collect();
            let mut made = 0;
            for run in runs {
                let output = run.wait();
                output.expect_code(0).expect_silence();
                made += usize::from(output.stdout.contains("new:"));
            }
            assert_eq!(made, 1, "one has made them, and the others have waited for it");
            assert_eq!(meta(&tables), (6, 1, 2_592_000, 100));
            is_current(&tables);
        }
    }

    fn who_finds_nothing_missing_waits_for_no_other_init(server) {
        let tables = Tables::new(server);
        let mut other = server.admin();
        other.exec_drop("DO GET_LOCK(CONCAT('dblock-init ', ?), 0)", (&tables.database,)).unwrap();
        tables.init().output().expect_code(0).expect_silence();
    }

    fn who_waits_for_another_init_is_done_when_the_tables_are_there(server on mysql) {
        let tables = Tables::missing(server);
        let turn = format!("dblock-init {}", tables.database);
        let mut other = server.admin();
        other.exec_drop("DO GET_LOCK(?, 0)", (&turn,)).unwrap();
        let mut waits = tables.init().spawn();
        eventually("it waits", SOON, || server.waiters(&turn).len() == 1);
        let script = Dblock::bare().args(["init", "--print", "--database", &tables.database]).output();
        for statement in script.stdout.split(";\n").filter(|statement| !statement.starts_with("\n--") && !statement.trim().is_empty()) {
            other.query_drop(statement).unwrap();
        }
        let done = waits.wait_within(SOON);
        done.expect_code(0).expect_silence();
        assert!(!done.stdout.contains("new:"), "{done:#?}");
        assert_eq!(server.holder(&turn), Some(u64::from(other.connection_id())));
    }

    fn check_says_what_is_missing_and_changes_nothing(server) {
        let tables = Tables::missing(server);
        let missing = format!("are not current: no database {}; run dblock init", tables.database);
        for _ in 0..2 {
            init_check(&tables).output().expect_code(78).expect_stdout("").expect_one_line(&missing);
        }
        tables.init().output().expect_code(0);
        let made = shape(&tables);
        let damages = [
            ("ALTER TABLE dblock_runs DROP COLUMN message, DROP COLUMN tick", "column dblock_runs.tick, column dblock_runs.message"),
            ("ALTER TABLE dblock_runs DROP KEY by_time", "key dblock_runs.by_time"),
            ("ALTER TABLE dblock_locks DROP COLUMN write_id", "column dblock_locks.write_id"),
            ("DROP TABLE dblock_successes", "table dblock_successes"),
            ("ALTER TABLE dblock_meta DROP COLUMN keep_runs", "column dblock_meta.keep_runs"),
            ("ALTER TABLE dblock_locks ALTER COLUMN fence SET DEFAULT 0", "default of dblock_locks.fence"),
            ("DELETE FROM dblock_meta", "version 6"),
            ("DROP TABLE dblock_meta", "table dblock_meta, version 6"),
        ];
        for (damage, missing) in damages {
            tables.sql(damage);
            let line = format!("are not current: no {missing}; run dblock init\n");
            for _ in 0..2 {
                init_check(&tables).output().expect_code(78).expect_stdout("").expect_one_line(&line);
            }
            let run = tables.init().output();
            run.expect_code(0).expect_silence();
            let (line, grant) = run.stdout.split_once('\n').unwrap();
            assert!(line.ends_with(&format!("; new: {missing}")), "{damage}: {line}");
            let grants = grant.starts_with("for each other account that uses them: GRANT ");
            assert_eq!(grants, missing.contains("table "), "{damage}: {grant}");
            assert_eq!(shape(&tables), made, "{damage}");
            is_current(&tables);
        }
    }

    fn an_older_version_is_brought_up_to_date(server) {
        let tables = Tables::new(server);
        tables.sql("UPDATE dblock_meta SET version = 0, usable_from = 0");
        init_check(&tables).output().expect_code(78).expect_one_line("no version 6; run dblock init");
        let line = "are of an older dblock; upgrade them with dblock init";
        tables.at("history").output().expect_code(78).expect_one_line(line);
        tables.init().output().expect_code(0).expect_silence();
        assert_eq!(meta(&tables), (6, 1, 2_592_000, 100));
        tables.at("history").output().expect_code(0);
    }

    fn version_1_is_upgraded_in_place(server) {
        let made = shape(&Tables::new(server));
        let tables = tables_of_version_1(server);
        tables.sql("INSERT INTO dblock_locks (name, slot, fence) VALUES ('kept', 0, 7)");
        tables.sql("UPDATE dblock_meta SET keep_runs = 9");
        // It can be used all the same.
        let older = tables.at("run").args(["--durable", "--once-per", "1h", "--name", "older"]).sh("echo $DBLOCK_FENCE").output();
        older.expect_code(0).expect_silence().expect_stdout("1\n");
        let missing = format!(
            "default of dblock_locks.fence, key dblock_runs.by_host, key dblock_runs.by_outcome, column dblock_successes.needed_seconds, {}, column dblock_meta.fence_floor, version 6",
            new_tables()
        );
        init_check(&tables).output().expect_code(78).expect_one_line(&format!("are not current: no {missing}; run dblock init"));
        // What it has can be used all the same.
        tables.at("history").output().expect_code(0).expect_silence();
        tables.at("queue").arg("status").output().expect_code(78).expect_one_line("are of an older dblock; upgrade them with dblock init");
        // An older dblock may be at work.
        let mut older = tables.admin();
        older.query_drop("BEGIN").unwrap();
        older.query_drop("UPDATE dblock_locks SET fence = 8 WHERE name = 'kept'").unwrap();
        let run = tables.init().spawn();
        let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE STATE = 'Waiting for table metadata lock' \
                     AND INFO LIKE '%dblock_locks ALTER COLUMN fence%'";
        let mut admin = tables.admin();
        eventually("it waits for that", SOON, || admin.query_first::<u32, _>(waits).unwrap() > Some(0));
        older.query_drop("COMMIT").unwrap();
        let run = run.wait();
        run.expect_code(0).expect_silence();
        let (line, grant) = run.stdout.split_once('\n').unwrap();
        assert!(line.ends_with(&format!("; new: {missing}")), "{line}");
        assert!(grant.starts_with("for each other account that uses them: GRANT "), "{grant}");
        assert_eq!(shape(&tables), made);
        assert_eq!(meta(&tables), (6, 1, 2_592_000, 9));
        let kept: Option<u64> = tables.admin().query_first("SELECT fence FROM dblock_locks WHERE name = 'kept'").unwrap();
        assert_eq!(kept, Some(8));
        tables.at("queue").args(["create", "q"]).output().expect_code(0).expect_silence();
    }

    fn tables_of_each_older_version_become_those_of_today_however_far_an_upgrade_came(server) {
        let made = shape(&Tables::new(server));
        let upgrade = |version: u32, statements: &[&str]| {
            let tables = tables_of(server, version, statements);
            let last = statements.last().unwrap();
            if version < 6 {
                init_check(&tables).output().expect_code(78).expect_one_line("version 6; run dblock init");
            }
            tables.init().output().expect_code(0).expect_silence();
            assert_eq!(shape(&tables), made, "of version {version}, and after {last}");
            assert_eq!(meta(&tables), (6, 1, 2_592_000, 100));
            is_current(&tables);
        };
        let mut done = Vec::new();
        let mut version = 0;
        for (next, statements) in steps_of_versions() {
            for statement in statements {
                done.push(statement);
                // Each table may be there without the next one, too: what is half made is finished.
                if statement.starts_with("ALTER") {
                    upgrade(version, &done);
                }
            }
            version = next;
            upgrade(version, &done);
        }
        assert_eq!(version, 6);
    }

    fn the_version_is_raised_when_all_else_is_there(server on mariadb) {
        let tables = tables_of_version_1(server);
        let account = server.account();
        tables.grant("SELECT, INSERT, UPDATE, DELETE, CREATE", &account);
        let init = || tables.at("init").user(&account);
        init().output().expect_code(77).expect_one_line("ALTER command denied");
        assert_eq!(meta(&tables), (1, 1, 2_592_000, 100));
        tables.grant("ALTER", &account);
        init().output().expect_code(0).expect_silence();
        assert_eq!(meta(&tables), (6, 1, 2_592_000, 100));
        is_current(&tables);
    }

    fn tables_that_only_a_newer_dblock_can_use_are_refused(server on mysql) {
        let tables = Tables::new(server);
        tables.sql("UPDATE dblock_meta SET version = 99, usable_from = 99");
        let line = format!("the tables in the database {} of 127.0.0.1:{} are of a newer dblock (version 99); this one knows version 6", tables.database, server.port);
        for run in [tables.init(), init_check(&tables), tables.init().args(["--keep", "1d"]), tables.at("history")] {
            run.output().expect_code(78).expect_stdout("").expect_one_line(&line);
        }
        assert_eq!(meta(&tables), (99, 99, 2_592_000, 100));
    }

    fn tables_of_a_newer_dblock_that_this_one_can_use_are_used_and_left_alone(server on mariadb) {
        let tables = Tables::new(server);
        tables.sql("UPDATE dblock_meta SET version = 99, usable_from = 1");
        // It has a key less, too.
        tables.sql("ALTER TABLE dblock_runs ADD COLUMN more INT NULL, DROP KEY by_time");
        let made = shape(&tables);
        tables.at("history").output().expect_code(0).expect_silence();
        for run in [tables.init(), init_check(&tables)] {
            let run = run.output();
            run.expect_code(0).expect_silence();
            assert!(run.stdout.contains("are current (version 99)"), "{}", run.stdout);
        }
        tables.init().args(["--keep", "2d,7"]).output().expect_code(0);
        assert_eq!(meta(&tables), (99, 1, 172_800, 7));
        assert_eq!(shape(&tables), made);
    }

    fn tables_of_another_program_are_refused(server) {
        let tables = Tables::missing(server);
        server.admin().query_drop(format!("CREATE DATABASE {}", tables.quoted())).unwrap();
        tables.sql("CREATE TABLE dblock_runs (id INT PRIMARY KEY)");
        let line = "the table dblock_runs in the database";
        for run in [tables.init(), init_check(&tables)] {
            run.output().expect_code(78).expect_stdout("").expect_one_line(line)
                .expect_one_line("is not dblock's: it has no column run; use another --database");
        }
        let columns: Vec<String> = tables.admin().query("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()").unwrap();
        assert_eq!(columns, ["id"], "nothing was changed, and nothing was made");
    }

    fn an_account_that_may_not_is_told_the_grant_that_helps(server) {
        let tables = Tables::missing(server);
        let account = server.account();
        let init = || tables.at("init").user(&account);
        let run = init().output();
        run.expect_code(77).expect_one_line("; an administrator can GRANT ");
        assert_eq!(run.stdout, "");
        let (_, grant) = run.stderr.split_once("can ").unwrap();
        let (grant, _) = grant.split_once(", or run what dblock init --print prints").unwrap();
        assert!(grant.ends_with(&format!(" TO '{account}'@'%'")), "{grant}");
        server.admin().query_drop(grant).unwrap();
        init().output().expect_code(0).expect_silence();
        init().arg("--check").output().expect_code(0).expect_silence();
        // Upgrading needs no more.
        tables.sql("ALTER TABLE dblock_runs DROP COLUMN message, DROP KEY by_time");
        init().output().expect_code(0).expect_silence();
        tables.at("history").user(&account).output().expect_code(0).expect_silence();
    }

    fn an_account_that_makes_tables_and_may_not_use_them_is_told_so_at_once(server) {
        let tables = Tables::missing(server);
        let account = server.account();
        // It may grant what it has, and nothing else.
        tables.grant("GRANT OPTION, CREATE, ALTER", &account);
        let refused = |lacks: &str| {
            for _ in 0..2 {
                let run = tables.at("init").user(&account).output();
                run.expect_code(77).expect_stdout("").expect_one_line(&format!("{lacks} command denied"));
                run.expect_one_line(&format!(" ON `{}`.* TO '{account}'@'%'", tables.database));
            }
        };
        tables.grant("SELECT, INSERT, UPDATE", &account);
        refused("DELETE");
        // The rights on some tables are not enough.
        for table in ["runs", "locks", "meta"] {
            let grant = format!("GRANT DELETE ON {}.dblock_{table} TO '{account}'@'%'", tables.quoted());
            server.admin().query_drop(grant).unwrap();
        }
        refused("DELETE");
        for (lacks, has) in [("INSERT", "UPDATE"), ("UPDATE", "INSERT")] {
            tables.grant("DELETE", &account);
            tables.grant(has, &account);
            let revoke = format!("REVOKE {lacks} ON {}.* FROM '{account}'@'%'", tables.quoted());
            server.admin().query_drop(revoke).unwrap();
            for table in ["runs", "meta"] {
                let grant = format!("GRANT {lacks} ON {}.dblock_{table} TO '{account}'@'%'", tables.quoted());
                server.admin().query_drop(grant).unwrap();
            }
            refused(lacks);
            tables.grant(lacks, &account);
        }
        tables.at("init").user(&account).output().expect_code(0).expect_silence();
    }

    fn an_account_that_may_only_use_the_tables_is_told_to_whom_to_turn(server) {
        let tables = Tables::new(server);
        // It sees that they are current.
        tables.at("init").output().expect_code(0).expect_silence();
        tables.sql("ALTER TABLE dblock_runs DROP KEY by_time");
        tables.at("init").output().expect_code(77).expect_one_line("can GRANT").expect_one_line("CREATE, ALTER ON");
        let account = server.account();
        let run = tables.at("history").user(&account).output();
        run.expect_code(77).expect_one_line(&format!("; dblock needs SELECT, INSERT, UPDATE and DELETE on `{}`.*", tables.database));
    }

    /// Servers do not tell such an account whether there is a database.
    fn check_does_not_say_to_an_account_without_privileges_that_tables_are_missing(server) {
        let tables = Tables::new(server);
        let account = server.account();
        let check = init_check(&tables).user(&account).output();
        let needs = format!("; dblock needs SELECT, INSERT, UPDATE and DELETE on `{}`.*", tables.database);
        check.expect_code(77).expect_stdout("").expect_one_line(&needs);
    }

    /// Servers show such an account only the tables that it may use.
    fn check_does_not_say_to_an_account_of_some_tables_that_the_others_are_missing(server) {
        let tables = Tables::new(server);
        let account = server.account();
        for table in ["meta", "locks"] {
            let grant = format!("GRANT SELECT ON {}.dblock_{table} TO '{account}'@'%'", tables.quoted());
            server.admin().query_drop(grant).unwrap();
        }
        let check = || init_check(&tables).user(&account).output();
        let needs = format!("; dblock needs SELECT, INSERT, UPDATE and DELETE on `{}`.*", tables.database);
        check().expect_code(77).expect_stdout("").expect_one_line(&needs);
        // It sees that tables are of an older version.
        tables.sql("UPDATE dblock_meta SET version = 5");
        check().expect_code(78).expect_stdout("").expect_one_line("version 6; run dblock init");
    }

    fn the_script_that_is_printed_makes_the_same_tables(server) {
        let made = shape(&Tables::with(server, &["--keep", "1h,3"]));
        let tables = Tables::missing(server);
        let account = server.account();
        let run = Dblock::bare().args(["init", "--print", "--keep", "1h,3", "--database", &tables.database, "--user", &account]).output();
        run.expect_code(0).expect_silence();
        let script = run.stdout.replace("-- GRANT", "GRANT");
        let statements = script.split(";\n").map(|statement| {
            let lines = statement.lines().filter(|line| !line.starts_with("--"));
            lines.collect::<Vec<_>>().join("\n")
        });
        let mut admin = server.admin();
        for statement in statements.filter(|statement| !statement.trim().is_empty()) {
            admin.query_drop(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        assert_eq!(shape(&tables), made);
        assert_eq!(meta(&tables), (6, 1, 3600, 3));
        is_current(&tables);
        for command in ["init", "history"] {
            tables.at(command).user(&account).output().expect_code(0).expect_silence();
        }
        // Once more it changes nothing, nor how long the history is kept.
        let again = Dblock::bare().args(["init", "--print", "--database", &tables.database]).output();
        let (insert, _) = again.stdout.split_once("\n\n--").unwrap();
        for statement in insert.split(";\n").filter(|statement| !statement.trim().is_empty()) {
            admin.query_drop(statement.trim_end_matches(';')).unwrap();
        }
        assert_eq!(meta(&tables), (6, 1, 3600, 3));
        // It does not call tables of an older dblock current, which it cannot upgrade.
        tables.sql("UPDATE dblock_meta SET version = 3");
        for statement in insert.split(";\n").filter(|statement| !statement.trim().is_empty()) {
            admin.query_drop(statement.trim_end_matches(';')).unwrap();
        }
        assert_eq!(meta(&tables), (3, 1, 3600, 3));
    }

    fn tables_without_transactions_are_converted(server) {
        let tables = Tables::new(server);
        tables.sql("ALTER TABLE dblock_runs ROW_FORMAT=DEFAULT, ENGINE=MyISAM");
        tables.at("init").arg("--check").output().expect_code(78).expect_one_line("are not current: no engine InnoDB of dblock_runs;");
        let run = tables.init().output();
        run.expect_code(0).expect_silence();
        assert!(run.stdout.ends_with("; new: engine InnoDB of dblock_runs\n"), "{}", run.stdout);
        is_current(&tables);
    }

    fn an_account_without_any_privilege_is_told_that_the_tables_may_be_elsewhere(server) {
        let account = server.account();
        for (command, args) in [("history", &[][..]), ("run", &["--durable", "--name", "x", "--", "true"]), ("acquire", &["--name", "x"])] {
            let refused = Dblock::at(server, command).user(&account).env("DBLOCK_DATABASE", unique("none")).args(args).output();
            refused.expect_code(77).expect_stdout("").expect_one_line("where dblock init makes its tables; if they are elsewhere, name their database with --database");
        }
    }

    fn how_long_the_history_is_kept_is_set_and_stays(server on mysql) {
        let tables = Tables::with(server, &["--keep", "2h 30m, 7"]);
        assert_eq!(meta(&tables), (6, 1, 9000, 7));
        tables.init().output().expect_code(0);
        assert_eq!(meta(&tables), (6, 1, 9000, 7));
        let run = tables.init().args(["--keep", "90d"]).output();
        run.expect_code(0).expect_silence();
        assert!(run.stdout.ends_with("; new: how long the history is kept\n"), "{}", run.stdout);
        assert_eq!(meta(&tables), (6, 1, 7_776_000, 100));
    }

    fn a_database_may_have_any_name(server) {
        for name in ["back`tick and space", "per%cent_and_line", "naïve 'quoted\"", "a.b"] {
            let tables = Tables::named(server, &format!("{name} {}", unique("x")));
            let run = tables.init().output();
            run.expect_code(0).expect_silence();
            assert!(run.stdout.contains(&tables.database), "{}", run.stdout);
            is_current(&tables);
            tables.at("history").output().expect_code(0).expect_silence();
            let account = server.account();
            let refused = tables.at("init").user(&account);
            tables.sql("DROP TABLE dblock_meta");
            let refused = refused.output();
            refused.expect_code(77);
            let (_, grant) = refused.stderr.split_once("can GRANT").unwrap();
            let (grant, _) = grant.split_once(", or run").unwrap();
            server.admin().query_drop(format!("GRANT {grant}")).unwrap();
            tables.at("init").user(&account).output().expect_code(0).expect_silence();
        }
    }

    fn the_path_of_the_url_names_the_database(server on mysql) {
        let tables = Tables::missing(server);
        let url = format!("{}{}", server.url(), tables.database);
        let at = |command: &str| Dblock::bare().args([command, "--url", &url]).env("DBLOCK_PASSWORD", PASSWORD);
        at("history").output().expect_code(78).expect_one_line(&format!("the database {} of ", tables.database))
            .expect_one_line("has no tables of dblock's; create them with dblock init, or name their database with --database");
        at("init").args(["--user", "admin"]).env("DBLOCK_PASSWORD", "admin-secret").output().expect_code(0);
        at("history").output().expect_code(0).expect_silence();
    }

    fn a_read_only_server_is_not_written_to(_server on mysql) {
        let server = Server::private(_server.kind);
        let tables = Tables::new(&server);
        tables.sql("ALTER TABLE dblock_runs DROP KEY by_time");
        server.admin().query_drop("SET GLOBAL read_only = 1").unwrap();
        // It waits for most of this time, and has the rest of it to say so.
        let init = || tables.init().args(["--connect-timeout", "20s"]);
        init().output().expect_code(78).expect_one_line("is read-only, as a replica is; name the server that takes writes");
        // To look is no harm.
        init_check(&tables).output().expect_code(78).expect_one_line("no key dblock_runs.by_time");
        server.admin().query_drop("SET GLOBAL read_only = 0").unwrap();
        init().output().expect_code(0).expect_silence();
        server.admin().query_drop("SET GLOBAL read_only = 1").unwrap();
        init_check(&tables).output().expect_code(0).expect_silence();
    }

    fn of_several_servers_the_one_that_takes_writes_gets_the_tables(server on mariadb) {
        let pair = Pair::private(server.kind);
        let url = format!("mysql://admin@127.0.0.1:{},127.0.0.1:{}/", pair.replica.port, pair.primary.port);
        let init = Dblock::bare().args(["init", "--url", &url]).env("DBLOCK_PASSWORD", "admin-secret").output();
        init.expect_code(0).expect_silence();
        assert!(init.stdout.contains(&format!("127.0.0.1:{} are current", pair.primary.port)), "{}", init.stdout);
    }

    fn what_is_half_made_is_finished(server) {
        let whole = Tables::new(server);
        let made = shape(&whole);
        // Broken off after each statement of the script; on MySQL, where a table takes four times as long, after some.
        let step = if server.kind == Kind::MySql { 8 } else { 1 };
        for steps in (1..=17).step_by(step).chain([18]) {
            let tables = Tables::missing(server);
            let script = Dblock::bare().args(["init", "--print", "--database", &tables.database]).output();
            for statement in script.stdout.split(";\n").take(steps).filter(|statement| !statement.starts_with("\n--")) {
                server.admin().query_drop(statement).unwrap();
            }
            if steps < 18 {
                init_check(&tables).output().expect_code(78);
                tables.at("history").output().expect_code(78);
            }
            tables.init().output().expect_code(0).expect_silence();
            assert_eq!(shape(&tables), made);
            is_current(&tables);
        }
    }
}

#[test]
fn nodes_of_a_galera_cluster_may_make_the_tables_at_the_same_time() {
    let nodes = &Cluster::shared_galera().nodes;
    for _ in 0..3 {
        let tables = Tables::missing(&nodes[0]);
        let init = |node: &Server| {
            let init = tables.init().env("DBLOCK_URL", node.url());
            init.spawn()
        };
        let runs: Vec<_> = nodes.iter().chain(nodes).map(init).collect();
        for run in runs {
            run.wait().expect_code(0).expect_silence();
        }
        for node in nodes {
            let check = init_check(&tables).env("DBLOCK_URL", node.url());
            check.output().expect_code(0).expect_silence();
        }
        assert_eq!(meta(&tables), (6, 1, 2_592_000, 100));
    }
}

#[test]
fn a_table_that_another_init_makes_while_the_server_answers_is_dblocks() {
    let row = |values: &[&str]| {
        let values = values.iter().map(|value| Some((*value).to_owned()));
        Answer::Row(values.collect())
    };
    let fake = Fake::start(Kind::MariaDb, move |statement| match statement {
        // The columns were asked for before the table was there, the keys after it.
        ask if ask.contains("information_schema.STATISTICS") => {
            row(&["dblock_dead", "key primary"])
        }
        ask if ask.contains("SCHEMATA") || ask.contains("GET_LOCK") => row(&["1"]),
        ask if ask.starts_with("SELECT version") => Answer::error(1146, "no such table"),
        make if make.starts_with("CREATE TABLE") && make.contains("dblock_dead") => {
            Answer::error(1050, "Table 'dblock_dead' already exists")
        }
        ask if ask.starts_with("SELECT") || ask.starts_with("SHOW") => Answer::NoRow(2),
        _ => Answer::Ok,
    });
    let init = Dblock::bare().arg("init").env("DBLOCK_URL", fake.url());
    init.output().expect_code(0).expect_silence();
    let statements = fake.statements();
    let makes = |one: &String| one.starts_with("CREATE TABLE") && one.contains("dblock_dead");
    assert!(statements.iter().any(makes), "{statements:#?}");
    // If its host vanishes, the server soon ends the session with its turn.
    let place = |what: &str| statements.iter().position(|one| one.contains(what));
    let (limit, turn) = (place("SESSION wait_timeout = 60"), place("GET_LOCK"));
    assert!(limit.is_some() && limit < turn, "{statements:#?}");
}

#[test]
fn in_a_multi_primary_group_the_tables_are_made_through_one_member_only() {
    let group = Cluster::private(Replication::AllPrimaries);
    let mut members = group.nodes.each_ref();
    let uuid = |member: &Server| -> String {
        let found = member.admin().query_first("SELECT @@server_uuid").unwrap();
        found.unwrap()
    };
    members.sort_by_key(|member| uuid(member));
    let [first, other, _] = members;
    let first_at = format!("{}:{}", first.address, first.port);
    let tables = Tables::missing(first);
    let init = |member: &Server| tables.init().env("DBLOCK_URL", member.url());
    // It waits for most of this time, and has the rest of it to say so.
    init(other)
        .args(["--connect-timeout", "20s"])
        .output()
        .expect_code(78)
        .expect_one_line(
            "is in a multi-primary group, where the tables are to be made through one member only",
        )
        .expect_one_line(&format!("; run dblock init on {first_at}\n"));
    // Whichever host it is done on, where all members are named.
    let both = url_of([other, first]).replace("dblock@", "admin@");
    let runs: Vec<_> = (0..4)
        .map(|_| tables.init().env("DBLOCK_URL", &both).spawn())
        .collect();
    for run in runs {
        let output = run.wait();
        output.expect_code(0).expect_silence();
        let place = format!("of {first_at} are current");
        assert!(output.stdout.contains(&place), "{}", output.stdout);
    }
    eventually("the other member has them", SOON, || {
        let check = init_check(&tables).env("DBLOCK_URL", other.url());
        check.output().code == Some(0)
    });
    // Who may not see the members is told so, and nothing is changed.
    let account = first.account();
    let grants = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER";
    tables.grant(grants, &account);
    tables
        .at("init")
        .user(&account)
        .output()
        .expect_code(77)
        .expect_one_line("SELECT ON performance_schema.replication_group_members besides");
    let history = tables.at("history").env("DBLOCK_URL", other.url());
    history.output().expect_code(0).expect_silence();
}

#[test]
fn a_server_that_is_not_there_is_told() {
    for arguments in [&[] as &[&str], &["--check"], &["--keep", "1d"]] {
        Dblock::bare()
            .args([
                "init",
                "--url",
                "mysql://u@127.0.0.1:1/",
                "--connect-timeout",
                "0.3",
            ])
            .args(arguments)
            .output()
            .expect_code(69)
            .expect_one_line("no server could be reached within 300ms");
    }
    Dblock::bare()
        .arg("init")
        .output()
        .expect_code(78)
        .expect_one_line("no server is named");
}

#[test]
fn the_script_needs_no_server() {
    Dblock::bare()
        .args([
            "init",
            "--print",
            "--url",
            "mysql://u@127.0.0.1:1/here",
            "--quiet",
        ])
        .output()
        .expect_code(0)
        .expect_silence();
}

#[test]
fn the_script_is_for_the_database_that_is_named() {
    let script = |args: &[&str], variable: &str| {
        let run = Dblock::bare()
            .args(["init", "--print"])
            .args(args)
            .env("DBLOCK_DATABASE", variable);
        run.output().expect_code(0).stdout.clone()
    };
    assert!(script(&[], "").starts_with("CREATE DATABASE IF NOT EXISTS `dblock`;\n"));
    assert!(script(&[], "a`b").contains("ON `a``b`.* TO 'dblock'@'%';\n"));
    let grants = script(&["--url", "mysql://o'x@h/"], "");
    for privileges in ["SELECT, INSERT, UPDATE, DELETE", "-- GRANT CREATE, ALTER"] {
        assert!(grants.contains(&format!("{privileges} ON `dblock`.* TO 'o''x'@'%';\n")));
    }
    assert!(script(&["--database", "x"], "y").contains("TABLE IF NOT EXISTS `x`.dblock_runs"));
    assert!(
        script(&["--url", "mysql://u@h/a%20b"], "").contains("`a b`.dblock_runs"),
        "as the path of the URL"
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |arguments: &[&str], part: &str| {
        let run = Dblock::bare().args(["init", "--url", "mysql://u@127.0.0.1:1/"]);
        let run = run.args(arguments).output();
        run.expect_code(64).expect_stdout("").expect_one_line(part);
    };
    refused(&["--print", "--check"], "cannot be used with");
    refused(&["--check", "--keep", "1d"], "cannot be used with");
    refused(&["--keep", "0"], "kept for a second at least");
    refused(&["--keep", "0.2,5"], "kept for a second at least");
    refused(
        &["--keep", "forever"],
        "--keep: \"forever\" is not a duration",
    );
    refused(&["--keep", "1d,0"], "1 to 1000000, not \"0\"");
    refused(&["--keep", "1d,"], "1 to 1000000, not \"\"");
    refused(&["--keep", "1d,1000001"], "not \"1000001\"");
    refused(&["--keep", ",5"], "is not a duration");
    refused(&["--database", ""], "--database");
    refused(&["--database", &"x".repeat(65)], "1 to 64 characters");
    refused(&["word"], "unexpected argument");
    refused(&["--json"], "unexpected argument");
}

#[test]
fn both_kinds_make_the_same_tables() {
    let shapes = [Kind::MariaDb, Kind::MySql].map(|kind| {
        let tables = Tables::new(Server::shared(kind));
        let names = shape(&tables).into_keys();
        names.collect::<Vec<_>>()
    });
    assert_eq!(shapes[0], shapes[1]);
}

#[test]
fn limits_against_statements_of_people_do_not_stop_dblock() {
    let server = Server::private(Kind::MariaDb);
    let tables = Tables::missing(&server);
    for limit in [
        "sql_safe_updates = 1",
        "sql_select_limit = 1",
        "max_join_size = 1",
    ] {
        let set = format!("SET GLOBAL {limit}");
        server.admin().query_drop(set).unwrap();
    }
    tables.init().output().expect_code(0);
    let at = |command: &str, args: &[&str]| {
        let output = tables.at(command).args(args).output();
        output.expect_code(0);
        output.stdout
    };
    at("run", &["--name", "job", "--record", "true"]);
    at("run", &["--name", "job", "--record", "--durable", "true"]);
    let history = at("history", &["job"]);
    assert_eq!(history.lines().count(), 3, "{history}");
    at("queue", &["create", "q"]);
    tables
        .at("queue")
        .args(["put", "q", "--lines"])
        .stdin(std::fs::File::open("/proc/self/maps").unwrap())
        .output()
        .expect_code(0);
    at("queue", &["work", "q", "--drain", "true"]);
    assert!(at("queue", &["list", "q"]).lines().count() <= 1);
}

#[test]
fn a_server_that_begins_a_transaction_after_each_commit_does_so_for_others() {
    let server = Server::private(Kind::MariaDb);
    let tables = Tables::new(&server);
    server
        .admin()
        .query_drop("SET GLOBAL completion_type = 'CHAIN'")
        .unwrap();
    for args in [
        &["create", "q"][..],
        &["put", "q", "x"],
        &["work", "q", "--drain", "true"],
    ] {
        tables.at("queue").args(args).output().expect_code(0);
    }
    let left = "SELECT COUNT(*) FROM dblock_workers WHERE expires_at IS NOT NULL";
    assert_eq!(tables.rows::<u64>(left), [0], "it has logged off");
    let workers = tables.rows::<u64>("SELECT COUNT(*) FROM dblock_workers");
    assert_eq!(workers, [1]);
}
