//! `dblock queue create`, `pause`, `resume` and `delete`: a queue is made once, whoever makes it, and is gone with all that was in it.

use mysql::prelude::Queryable;

use crate::harness::{
    Dblock, Kind, OF_QUEUES, SOON, Server, Tables, both_servers, eventually, numbered_lines, slack,
    unique,
};

/// `dblock queue ARGS`.
fn queue(tables: &Tables, args: &[&str]) -> Dblock {
    tables.at("queue").args(args)
}

/// It does what is asked, without a word.
#[track_caller]
fn does(tables: &Tables, args: &[&str]) -> String {
    let output = queue(tables, args).output();
    output.expect_code(0).expect_silence();
    output.stdout
}

/// How many rows each table of the queues has, apart from those of puts.
fn rows(tables: &Tables) -> u64 {
    let count = |name: &&str| {
        let query = format!("SELECT COUNT(*) FROM dblock_{name}");
        tables
            .admin()
            .query_first::<u64, _>(query)
            .unwrap()
            .unwrap()
    };
    let of = OF_QUEUES.iter().filter(|name| **name != "puts");
    of.map(count).sum()
}

both_servers! {
    fn a_queue_is_created_once(server) {
        let tables = Tables::new(server);
        assert_eq!(does(&tables, &["create", "mails"]), "created the queue mails\n");
        assert_eq!(does(&tables, &["create", "mails"]), "the queue mails is there already\n");
        assert_eq!(does(&tables, &["create", "mails", "-q"]), "");
        let row: Vec<(String, String, u32, u32, u64, u32, u64)> = tables.admin().query(
            "SELECT name, claim, shards, max_attempts, retry_delay_us, ttl_seconds, keep_seconds FROM dblock_queues").unwrap();
        assert_eq!(row, [("mails".to_owned(), "rows".to_owned(), 1, 20, 10_000_000, 60, 0)]);
    }

    fn all_properties_are_kept_and_a_difference_is_named(server on mysql) {
        let tables = Tables::new(server);
        let all = ["create", "q", "--claim", "blocks", "--shards", "1024", "--max-attempts", "3", "--retry-delay", "0.5", "--ttl", "1d", "--keep", "2h"];
        does(&tables, &all);
        does(&tables, &all);
        let run = queue(&tables, &["create", "q", "--claim", "blocks", "--shards", "8", "--max-attempts", "3", "--retry-delay", "0.5", "--ttl", "1d"]).output();
        run.expect_code(78).expect_stdout("").expect_one_line("the queue q is there already, but with --shards 1024, not 8; --keep 2h, not 0s");
    }

    fn several_at_once_create_one_queue(server) {
        let tables = Tables::new(server);
        let runs: Vec<_> = (0..8).map(|_| queue(&tables, &["create", "q", "--shards", "4"]).spawn()).collect();
        for run in runs {
            run.wait().expect_code(0).expect_silence();
        }
        assert_eq!(rows(&tables), 1);
    }

    fn names_differ_by_their_bytes(server) {
        let tables = Tables::new(server);
        let names = ["a", "A", "ä", "a b", "it's", "\u{1f600}", &"n".repeat(200)];
        for name in names {
            does(&tables, &["create", name]);
            // Its workers are woken by a lock that the server takes.
            does(&tables, &["put", name, "x"]);
            does(&tables, &["resume", name]);
        }
        assert_eq!(rows(&tables), 3 * names.len() as u64);
    }

    fn what_a_server_did_not_answer_is_told(server) {
        let tables = Tables::new(server);
        let mut holder = tables.admin();
        holder.query_drop("LOCK TABLES dblock_queues READ").unwrap();
        // Its time is over before the server gives up on the table, which is after 5 s.
        let create = || queue(&tables, &["create", "q", "--connect-timeout", "1.5"]).output();
        // A busy machine may not get as far as the table in time.
        let told = (0..3).map(|_| create()).find(|told| !told.stderr.contains("no server could be reached"));
        let told = told.expect("it has connected in time");
        told.expect_code(69).expect_stdout("").expect_one_line(": waiting for an answer from 127.0.0.1:");
        holder.query_drop("UNLOCK TABLES").unwrap();
    }

    fn what_is_no_property_is_refused(server on mysql) {
        let tables = Tables::new(server);
        for (args, said) in [
            (&["--shards", "0"][..], "--shards"), (&["--shards", "1025"], "--shards"), (&["--shards", "-1"], "--shards"),
            (&["--claim", "jobs"], "--claim"), (&["--max-attempts", "0"], "--max-attempts"), (&["--ttl", "3"], "--ttl"),
            (&["--ttl", "2d"], "--ttl"), (&["--ttl", "4.5"], "--ttl"), (&["--keep", "0.5"], "--keep"),
            (&["--retry-delay", "soon"], "--retry-delay"), (&["more"], "more"),
        ] {
            queue(&tables, &[&["create", "q"], args].concat()).output().expect_code(64).expect_one_line(said);
        }
        for name in ["", "a#b", " a", "a\n", &"n".repeat(201)] {
            queue(&tables, &["create", name]).output().expect_code(64).expect_one_line("QUEUE");
        }
        assert_eq!(rows(&tables), 0);
    }

    fn without_the_tables_of_queues_it_is_said_what_to_do(server) {
        let tables = Tables::missing(server);
        for command in ["create", "put", "status", "list", "pause", "resume", "delete"] {
            let args: &[&str] = if command == "status" { &["status"] } else { &[command, "q"] };
            queue(&tables, args).output().expect_code(78).expect_stdout("").expect_one_line("has no tables of dblock's; create them with dblock init");
        }
        let older = Tables::new(server);
        older.sql("UPDATE dblock_meta SET version = 1");
        for args in [&["create", "q"][..], &["put", "q", "x"], &["status"], &["cancel", "q", "1"]] {
            queue(&older, args).output().expect_code(78).expect_one_line("are of an older dblock; upgrade them with dblock init");
        }
        // All else goes on.
        older.at("history").output().expect_code(0);
    }

    fn a_queue_that_is_not_there_is_told(server on mariadb) {
        let tables = Tables::new(server);
        does(&tables, &["create", "other"]);
        for args in [
            &["put", "mails", "x"][..], &["status", "mails"], &["list", "mails"], &["show", "mails", "1"], &["retry", "mails", "1"],
            &["retry", "mails", "--dead"], &["cancel", "mails", "1"], &["pause", "mails"], &["resume", "mails"],
        ] {
            queue(&tables, args).output().expect_code(78).expect_stdout("")
                .expect_one_line("there is no queue mails; create it with dblock queue create mails\n");
        }
        // What is hinted at can be pasted.
        for (name, shown) in [("it's", r"'it'\''s'"), ("-q r", "-- '-q r'")] {
            queue(&tables, &["pause", "--", name]).output().expect_code(78)
                .expect_one_line(&format!("there is no queue {name}; create it with dblock queue create {shown}\n"));
        }
        queue(&tables, &["delete", "mails"]).output().expect_code(78).expect_stdout("")
            .expect_one_line(&format!("there is no queue mails in the database {}\n", tables.database));
    }

    fn it_is_paused_and_resumed(server on mysql) {
        let tables = Tables::new(server);
        does(&tables, &["create", "q"]);
        let paused = || tables.admin().query_first::<Option<String>, _>("SELECT paused_at FROM dblock_queues").unwrap().unwrap();
        assert_eq!(paused(), None);
        does(&tables, &["pause", "q"]);
        let since = paused();
        assert!(since.is_some());
        does(&tables, &["pause", "q"]);
        assert_eq!(paused(), since);
        // It takes jobs all the same.
        does(&tables, &["put", "q", "x"]);
        for _ in 0..2 {
            does(&tables, &["resume", "q"]);
            assert_eq!(paused(), None);
        }
    }

    fn a_queue_is_deleted_with_all_that_it_has(server) {
        let tables = Tables::new(server);
        for claim in ["rows", "blocks"] {
            does(&tables, &["create", "q", "--claim", claim, "--shards", "3", "--keep", "1h"]);
            let long = "x".repeat(40_000);
            let numbers = numbered_lines(1200);
            let put = |more: &[&str], text: &str| {
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("stdin");
                std::fs::write(&file, text).unwrap();
                let put = queue(&tables, &[&["put", "q"], more].concat()).stdin(std::fs::File::open(file).unwrap());
                put.output().expect_code(0).expect_silence();
            };
            put(&["--lines"], &numbers);
            put(&["--lines", "--delay", "1h"], &numbers);
            put(&["--key", "k"], &long);
            let queue_id: u32 = tables.admin().query_first("SELECT id FROM dblock_queues").unwrap().unwrap();
            tables.sql(&format!("INSERT INTO dblock_workers (run, queue, slots, ttl_seconds, started_at, renewed_at, expires_at) \
                VALUES ('{:032x}', {queue_id}, 1, 60, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 1 SECOND)", fastrand::u128(..)));
            // Some of what is delayed is in another state.
            let columns = "queue, shard, priority, job, last_job, block, jobs, attempt, fence, every_us, due_at";
            for (table, more, value) in [
                ("dead", "died_at", "UTC_TIMESTAMP(6)"), ("done", "done_at", "UTC_TIMESTAMP(6)"),
                ("running", "worker, turn, claimed_at", "(SELECT MAX(worker) FROM dblock_workers), 1, UTC_TIMESTAMP(6)"),
            ] {
                tables.sql(&format!("INSERT INTO dblock_{table} ({columns}, {more}) SELECT {columns}, {value} FROM dblock_delayed ORDER BY job LIMIT 1"));
                tables.sql(&format!("DELETE FROM dblock_delayed WHERE job IN (SELECT job FROM dblock_{table})"));
            }
            tables.sql(&format!("INSERT INTO dblock_queue_minutes (queue, minute, worker) VALUES ({queue_id}, UTC_TIMESTAMP(), 1)"));
            let run = queue(&tables, &["delete", "q", "-v"]).output();
            run.expect_code(0).expect_stdout("deleted the queue q with 2401 jobs\n");
            assert_eq!(rows(&tables), 0, "{claim}");
        }
        queue(&tables, &["delete", "q"]).output().expect_code(78);
    }

    fn a_deletion_that_was_interrupted_is_done_again(server) {
        let tables = Tables::new(server);
        does(&tables, &["create", "q"]);
        does(&tables, &["put", "q", "a", "b"]);
        tables.sql("UPDATE dblock_queues SET deleted_at = UTC_TIMESTAMP(6)");
        for args in [&["create", "q"][..], &["put", "q", "c"], &["list", "q"], &["pause", "q"], &["retry", "q", "--dead"], &["work", "q", "--", "true"]] {
            queue(&tables, args).output().expect_code(78).expect_one_line("the queue q is being deleted; dblock queue delete q goes on with that\n");
        }
        assert!(does(&tables, &["status"]).contains("being deleted"));
        does(&tables, &["delete", "q"]);
        assert_eq!(rows(&tables), 0);
        does(&tables, &["create", "q"]);
    }

    fn a_deletion_that_is_interrupted_at_its_end_has_deleted_the_queue(server on mariadb) {
        let tables = Tables::new(server);
        does(&tables, &["create", "q"]);
        does(&tables, &["put", "q", "a", "b"]);
        // What is deleted last is what a worker has left whose queue is gone.
        tables.sql(&format!("INSERT INTO dblock_workers (run, queue, slots, ttl_seconds, started_at, renewed_at, expires_at) \
            SELECT '{:032x}', id + 1, 1, 60, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) - INTERVAL 1 SECOND FROM dblock_queues", fastrand::u128(..)));
        tables.sql("CREATE TRIGGER interrupt BEFORE DELETE ON dblock_workers FOR EACH ROW IF @interrupted IS NULL THEN SET @interrupted = 1; \
            SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317, MESSAGE_TEXT = 'Query execution was interrupted'; END IF");
        let run = queue(&tables, &["delete", "q", "-v"]).output();
        run.expect_code(0).expect_said(["interrupted"]).expect_stdout("deleted the queue q with 2 jobs\n");
        queue(&tables, &["delete", "q"]).output().expect_code(78);
    }

    fn a_claim_that_is_under_way_while_its_queue_is_deleted_leaves_nothing(server) {
        let tables = Tables::new(server);
        does(&tables, &["create", "q"]);
        does(&tables, &["put", "q", "a", "b"]);
        let worker = |lease: i32| {
            let mut admin = tables.admin();
            admin.query_drop(format!("INSERT INTO dblock_workers (run, queue, slots, ttl_seconds, started_at, renewed_at, expires_at) \
                SELECT '{:032x}', id, 1, 60, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL {lease} SECOND FROM dblock_queues", fastrand::u128(..))).unwrap();
            admin.last_insert_id()
        };
        let number = worker(60);
        let mut claim = tables.admin();
        claim.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").unwrap();
        claim.query_drop("BEGIN").unwrap();
        claim.query_drop(format!("UPDATE dblock_workers SET turn = turn + 1, expires_at = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE worker = {number}")).unwrap();
        let columns = "queue, shard, priority, job, last_job, block, jobs, attempt, fence, every_us, due_at";
        claim.query_drop(format!("INSERT INTO dblock_running ({columns}, worker, turn, claimed_at) SELECT {columns}, {number}, 1, UTC_TIMESTAMP(6) FROM dblock_due")).unwrap();
        claim.query_drop("DELETE FROM dblock_due").unwrap();
        let delete = queue(&tables, &["delete", "q"]).spawn();
        let count = |what: &str| tables.admin().query_first::<u64, _>(format!("SELECT COUNT(*) FROM {what}")).unwrap().unwrap();
        eventually("its deletion has begun", SOON, || count("dblock_queues WHERE deleted_at IS NOT NULL") == 1);
        // Not one of another test.
        let waits = format!("information_schema.processlist WHERE info LIKE '/* dblock queue await turns%{}%'", tables.database);
        eventually("it waits for the claim", SOON, || count(&waits) > 0);
        claim.query_drop("COMMIT").unwrap();
        delete.wait().expect_code(0).expect_silence();
        // The worker has still to learn it.
        assert_eq!((rows(&tables), count("dblock_workers")), (1, 1));
        // It dies before, with what it has claimed where it meets nobody's locks: the next deletion finds that.
        does(&tables, &["create", "q"]);
        does(&tables, &["put", "q", "c"]);
        tables.sql("UPDATE dblock_due SET queue = queue - 1");
        tables.sql(&format!("INSERT INTO dblock_running ({columns}, worker, turn, claimed_at) SELECT {columns}, {number}, 1, UTC_TIMESTAMP(6) FROM dblock_due"));
        tables.sql("DELETE FROM dblock_due");
        tables.sql("UPDATE dblock_workers SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND");
        does(&tables, &["delete", "q"]);
        assert_eq!(rows(&tables), 0);
    }

    fn a_queue_is_not_half_deleted_by_an_account_that_may_not_delete_all_of_it(server) {
        let tables = Tables::new(server);
        does(&tables, &["create", "q"]);
        does(&tables, &["put", "q", "a", "b"]);
        let names: Vec<String> = tables.admin().query("SHOW TABLES").unwrap();
        let before = rows(&tables);
        for refused in ["dblock_queues", "dblock_jobs", "dblock_job_parts", "dblock_due", "dblock_delayed", "dblock_running", "dblock_dead", "dblock_done",
            "dblock_job_keys", "dblock_workers", "dblock_queue_minutes"] {
            let account = format!("u{:08x}", fastrand::u32(..));
            let mut admin = tables.admin();
            admin.query_drop(format!("CREATE USER '{account}'@'%' IDENTIFIED BY 'dblock-secret'")).unwrap();
            for name in &names {
                let privileges = if name == refused { "SELECT, INSERT, UPDATE" } else { "SELECT, INSERT, UPDATE, DELETE" };
                admin.query_drop(format!("GRANT {privileges} ON {}.{name} TO '{account}'@'%'", tables.quoted())).unwrap();
            }
            queue(&tables, &["delete", "q"]).user(&account).output().expect_code(77).expect_one_line(refused)
                .expect_one_line("dblock needs SELECT, INSERT, UPDATE and DELETE on ");
            admin.query_drop(format!("DROP USER '{account}'@'%'")).unwrap();
            assert_eq!(rows(&tables), before, "{refused}");
        }
        does(&tables, &["put", "q", "c"]);
    }

    fn a_put_that_is_under_way_ends_before_its_queue_is_deleted(server) {
        let tables = Tables::new(server);
        does(&tables, &["create", "q"]);
        let mut put = queue(&tables, &["put", "q", "--lines"]).stdin(std::process::Stdio::piped()).spawn();
        let mut stdin = put.take_stdin();
        std::io::Write::write_all(&mut stdin, b"a\n").unwrap();
        put.wait_line("1", SOON);
        does(&tables, &["delete", "q"]);
        std::io::Write::write_all(&mut stdin, b"b\n").unwrap();
        drop(stdin);
        let output = put.wait();
        output.expect_code(78).expect_one_line("there is no queue q; create it with dblock queue create q; 1 job is put; go on with tail -n +2");
        assert_eq!(rows(&tables), 0);
    }

    fn an_idle_worker_is_woken_by_resume(server on mariadb) {
        woken(server, &["resume", "q"]);
    }

    fn an_idle_worker_is_woken_by_put(server on mysql) {
        woken(server, &["put", "q", "x"]);
    }
}

/// Somebody who waits with the lock of an idle worker held is interrupted.
fn woken(server: &'static Server, args: &[&str]) {
    let tables = Tables::new(server);
    does(&tables, &["create", "q"]);
    let digits = sha256(&tables.database);
    let lock = format!("q#idle~{}", &digits[..8]);
    let blocker = unique("blocker");
    let mut other = server.admin();
    other
        .query_drop(format!("SELECT GET_LOCK('{blocker}', 0)"))
        .unwrap();
    let mut idle = server.client();
    let held: Option<u8> = idle
        .query_first(format!("SELECT GET_LOCK('{lock}', 0)"))
        .unwrap();
    assert_eq!(held, Some(1));
    let waiting = blocker.clone();
    let waiter = std::thread::spawn(move || {
        let begun = std::time::Instant::now();
        let answer = idle.query_first::<Option<u8>, _>(format!("SELECT GET_LOCK('{waiting}', 30)"));
        (begun.elapsed(), answer)
    });
    eventually("it waits", SOON, || !server.waiters(&blocker).is_empty());
    let began = std::time::Instant::now();
    does(&tables, args);
    let (took, answer) = waiter.join().unwrap();
    assert!(took < SOON && began.elapsed() < SOON + slack(), "{took:?}");
    assert!(!matches!(answer, Ok(Some(Some(1)))), "{answer:?}");
}

/// The SHA-256 of a text, in hex digits.
fn sha256(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    std::fs::write(&file, text).unwrap();
    let output = std::process::Command::new("sha256sum")
        .arg(file)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_server_that_logs_statements_is_refused_and_it_is_told_what_to_set() {
    let log = ["--log-bin=binlog", "--server-id=1"];
    let server = Server::private_with(Kind::MariaDb, &log);
    let tables = Tables::new(&server);
    does(&tables, &["create", "before"]);
    tables.sql("SET GLOBAL binlog_format = 'STATEMENT'");
    for args in [["create", "after"], ["put", "before"], ["pause", "before"]] {
        let payload = std::fs::File::open("/proc/self/comm").unwrap();
        let told = queue(&tables, &args).stdin(payload).output();
        told.expect_code(78).expect_one_line(
            "with which neither a queue nor a crontab works; set it to ROW or MIXED",
        );
    }
}
