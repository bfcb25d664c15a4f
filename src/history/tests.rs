//! What is written to the history and read from it, on real servers.

use mysql::prelude::Queryable;

use super::*;
use crate::base::clock::Moment;
use crate::db::{Ask, Fault, ask};
use crate::schema::Fixture;

/// Longer than a busy server takes for an answer.
const AMPLE: Duration = Duration::from_secs(60);

/// How many rows a session has read.
fn ask_reads() -> Ask<'static, u64> {
    let sql = "SHOW SESSION STATUS LIKE 'Handler_read%'";
    let reads = ask("reads", sql, |rows| {
        let reads: Vec<String> = rows.all(|row| row.at(1))?;
        Ok(reads
            .iter()
            .filter_map(|reads| reads.parse::<u64>().ok())
            .sum())
    });
    reads.up_to(100)
}

impl Fixture {
    fn journal(&self, run: u32, name: &str) -> Journal {
        Journal {
            tables: self.tables.clone(),
            facts: RunFacts {
                run: format!("{run:032x}"),
                name: name.to_owned(),
                slot: None,
                slot_name: None,
                attempt: 1,
                tick: None,
                host: "web1".to_owned(),
                pid: run,
                user: "app".to_owned(),
                program: "report".to_owned(),
                connection: None,
            },
            requested: Moment::now() - Duration::from_secs(100),
            needed: Some(Duration::ZERO),
        }
    }

    #[track_caller]
    fn run(&mut self, sql: impl Into<String>) {
        self.session.run(&Ask::written(sql)).unwrap();
    }

    /// Sent twice, as if the first answer was lost.
    #[track_caller]
    fn end(&mut self, journal: &Journal, end: &RunEnd) {
        for _ in 0..2 {
            for statement in journal.end(end) {
                self.run(statement);
            }
        }
    }

    /// The rows of a query, each as a line.
    #[track_caller]
    fn lines(&mut self, columns: &str, rest: &str) -> Vec<String> {
        let query = format!("SELECT CONCAT_WS(' ', {columns}) FROM {rest}");
        self.client.query(query).unwrap()
    }

    fn successes(&mut self, name: &str) -> Successes {
        let tables = self.tables.clone();
        self.session.run(&ask_last_success(&tables, name)).unwrap()
    }
}

fn success(ran: u64, ended_ago: u64) -> RunEnd {
    RunEnd {
        outcome: Outcome::Ran,
        exit_code: Some(0),
        signal: None,
        ran: Some(Duration::from_secs(ran)),
        ended_ago: Duration::from_secs(ended_ago),
        message: None,
        succeeded: true,
    }
}

/// The id of a run that was requested so many minutes ago.
fn run_id(minutes: u64, number: u64) -> String {
    let ago = Duration::from_secs(60 * minutes);
    let requested = std::time::SystemTime::now() - ago;
    let since_1970 = requested.duration_since(std::time::SystemTime::UNIX_EPOCH);
    format!("{:012x}7{number:019x}", since_1970.unwrap().as_millis())
}

/// Whole tens of seconds: what a slow machine adds does not show.
fn tens(span: Duration) -> u64 {
    (span + Duration::from_millis(500)).as_secs() / 10 * 10
}

/// Makes two tests of each function, `name::mariadb` and `name::mysql`.
macro_rules! on_both_servers {
    ($(fn $name:ident($fixture:ident) $body:block)*) => {$(
        mod $name {
            use super::*;

            fn check($fixture: &mut Fixture) $body

            #[test]
            fn mariadb() {
                check(&mut Fixture::new("mariadb", stringify!($name)));
            }

            #[test]
            fn mysql() {
                check(&mut Fixture::new("mysql", stringify!($name)));
            }
        }
    )*};
}

on_both_servers! {
    fn a_run_is_recorded_once_however_often_it_is_sent(fixture) {
        let mut journal = fixture.journal(1, "it's");
        journal.facts.tick = Some(1_795_336_200_123_456);
        for _ in 0..2 {
            fixture.run(journal.start(3, 77, None));
        }
        let row = "run, name, slot, IFNULL(fence, '-'), tick, attempt, host, pid, user, program, connection, \
                   TIMESTAMPDIFF(SECOND, requested_at, acquired_at), IFNULL(ended_at, '-'), IFNULL(outcome, '-')";
        assert_eq!(
            fixture.lines(row, "dblock_runs"),
            ["00000000000000000000000000000001 it's 3 - 2026-11-22 08:30:00.123456 1 web1 1 app report 77 100 - -"]
        );
        let end = RunEnd { signal: Some("SIGTERM".to_owned()), outcome: Outcome::TimedOut, exit_code: Some(124), succeeded: false, message: Some("too long".to_owned()), ..success(5, 2) };
        fixture.end(&journal, &end);
        // The command has not run before its lock was granted, whatever the host's clock says.
        let row = "TIMESTAMPDIFF(MICROSECOND, acquired_at, started_at), TIMESTAMPDIFF(SECOND, ended_at, UTC_TIMESTAMP(6)), outcome, exit_code, signal_name, message";
        assert_eq!(fixture.lines(row, "dblock_runs"), ["0 2 timed_out 124 SIGTERM too long"]);
        // A later record does not change how the run ended.
        fixture.end(&journal, &success(1, 0));
        assert_eq!(fixture.lines("outcome", "dblock_runs"), ["timed_out"]);
        let plan: Vec<mysql::Row> = fixture.client.query(format!("EXPLAIN FORMAT=TRADITIONAL {}", journal.end(&end)[0]).replace("FORMAT=TRADITIONAL", if fixture.client.server_version().0 < 10 { "FORMAT=TRADITIONAL" } else { "" })).unwrap();
        assert_eq!(plan[0].get::<String, _>("key").as_deref(), Some("PRIMARY"), "{plan:?}");
    }

    fn a_durable_run_is_recorded_only_if_the_row_is_its_own(fixture) {
        let journal = fixture.journal(0xabc, "job");
        let owner = |fence: u32, run: &str| format!("REPLACE INTO dblock_locks (name, slot, fence, owner) VALUES ('job', 1, {fence}, '{run}')");
        fixture.run(journal.start(1, 5, Some(&journal.facts.run)));
        for (fence, run) in [(7, "00000000000000000000000000000def"), (8, "")] {
            fixture.client.query_drop(owner(fence, run)).unwrap();
            fixture.run(journal.start(1, 5, Some(&journal.facts.run)));
            assert_eq!(fixture.lines("run", "dblock_runs"), [""; 0]);
        }
        fixture.client.query_drop(owner(9, &journal.facts.run)).unwrap();
        fixture.run(journal.start(0, 5, Some(&journal.facts.run)));
        assert_eq!(fixture.lines("run", "dblock_runs"), [""; 0]);
        for _ in 0..2 {
            fixture.run(journal.start(1, 5, Some(&journal.facts.run)));
        }
        assert_eq!(fixture.lines("slot, fence, connection", "dblock_runs"), ["1 9 5"]);
    }

    fn of_a_run_that_was_granted_twice_the_latest_grant_counts(fixture) {
        // The session may assign all columns at once, on servers that support that.
        for mode in ["STRICT_ALL_TABLES", "STRICT_ALL_TABLES,SIMULTANEOUS_ASSIGNMENT"] {
            if fixture.session.run(&Ask::written(format!("SET SESSION sql_mode='{mode}'"))).is_err() {
                continue;
            }
            let grant = |fence: u32, slot: u32| format!("REPLACE INTO dblock_locks (name, slot, fence, owner) VALUES ('job', {slot}, {fence}, '{:032x}')", 0xabc);
            let mut journal = fixture.journal(0xabc, "job");
            let row = "slot, fence, connection, slot_name, IFNULL(outcome, '-'), IFNULL(message, '-'), acquired_at";
            fixture.client.query_drop(grant(7, 1)).unwrap();
            journal.facts.slot_name = Some("one".to_owned());
            fixture.run(journal.start(1, 5, Some(&journal.facts.run)));
            let first = fixture.lines(row, "dblock_runs").remove(0);
            assert!(first.starts_with("1 7 5 one - - "), "{first}");
            // The same grant again, from another session.
            fixture.run(journal.start(1, 6, Some(&journal.facts.run)));
            assert_eq!(fixture.lines(row, "dblock_runs"), [&*first]);
            // Meanwhile somebody has taken the expired row.
            fixture.client.query_drop("UPDATE dblock_runs SET ended_at = UTC_TIMESTAMP(6), outcome = 'lost', message = 'expired'").unwrap();
            fixture.client.query_drop(grant(9, 2)).unwrap();
            journal.facts.slot_name = Some("two".to_owned());
            fixture.run(journal.start(2, 6, Some(&journal.facts.run)));
            let second = fixture.lines(row, "dblock_runs").remove(0);
            assert!(second.starts_with("2 9 6 two - - "), "{second}");
            assert_ne!(first.rsplit(' ').next(), second.rsplit(' ').next());
            // The recorded end stays.
            fixture.end(&journal, &success(1, 0));
            fixture.run(journal.start(2, 6, Some(&journal.facts.run)));
            assert_eq!(fixture.lines("outcome", "dblock_runs"), ["ran"]);
            fixture.client.query_drop("DELETE FROM dblock_runs").unwrap();
            // Without a row.
            fixture.run(journal.start(3, 5, None));
            fixture.run(journal.start(4, 8, None));
            assert_eq!(fixture.lines("slot, IFNULL(fence, '-'), connection", "dblock_runs"), ["4 - 8"]);
            fixture.run(journal.skip("job is held by web2", Outcome::Skipped));
            assert_eq!(fixture.lines("outcome, IFNULL(slot, '-'), IFNULL(connection, '-'), IFNULL(acquired_at, '-')", "dblock_runs"), ["skipped - - -"]);
            fixture.client.query_drop("DELETE FROM dblock_runs").unwrap();
            fixture.client.query_drop("DELETE FROM dblock_locks").unwrap();
        }
    }

    fn a_run_that_never_started_is_forgotten(fixture) {
        let journal = fixture.journal(1, "job");
        fixture.run(journal.start(0, 1, None));
        fixture.run(journal.withdrawal());
        assert_eq!(fixture.lines("run", "dblock_runs"), [""; 0]);
        fixture.run(journal.start(0, 1, None));
        fixture.end(&journal, &success(1, 0));
        fixture.run(journal.withdrawal());
        assert_eq!(fixture.lines("outcome", "dblock_runs"), ["ran"]);
    }

    fn a_run_that_did_not_run_is_recorded_with_the_reason(fixture) {
        let mut journal = fixture.journal(2, "job");
        journal.facts.connection = Some(4);
        for _ in 0..2 {
            fixture.run(journal.skip("job is held by web2", Outcome::Skipped));
        }
        let row = "outcome, message, connection, TIMESTAMPDIFF(SECOND, requested_at, ended_at), IFNULL(acquired_at, '-'), IFNULL(started_at, '-'), IFNULL(slot, '-')";
        assert_eq!(fixture.lines(row, "dblock_runs"), ["skipped job is held by web2 4 100 - - -"]);
    }

    fn a_command_that_was_not_started_has_no_start(fixture) {
        let journal = fixture.journal(2, "job");
        fixture.run(journal.start(0, 1, None));
        let end = RunEnd { outcome: Outcome::Failed, exit_code: Some(127), ran: None, succeeded: false, ..success(0, 0) };
        fixture.end(&journal, &end);
        assert_eq!(fixture.lines("outcome, exit_code, IFNULL(started_at, '-')", "dblock_runs"), ["failed 127 -"]);
    }

    fn a_text_is_cut_to_what_its_column_takes(fixture) {
        let mut journal = fixture.journal(3, &"é".repeat(100));
        let facts = &mut journal.facts;
        for text in [&mut facts.host, &mut facts.user, &mut facts.program] {
            *text = "日\u{1f600}'".repeat(400);
        }
        facts.slot_name = Some("x".repeat(500));
        fixture.run(journal.start(0, 1, None));
        let end = RunEnd { signal: Some("S".repeat(50)), message: Some("\u{1f600}".repeat(2000)), ..success(1, 0) };
        fixture.end(&journal, &end);
        let widths = "CHAR_LENGTH(host), CHAR_LENGTH(user), CHAR_LENGTH(program), CHAR_LENGTH(slot_name), CHAR_LENGTH(signal_name), CHAR_LENGTH(message)";
        assert_eq!(fixture.lines(widths, "dblock_runs"), ["64 32 100 200 16 400"]);
        assert_eq!(fixture.lines("CHAR_LENGTH(host), CHAR_LENGTH(program)", "dblock_successes"), ["64 100"]);
    }

    fn the_last_success_is_the_one_that_began_last(fixture) {
        // The session may assign all columns at once, on servers that support that.
        for mode in ["STRICT_ALL_TABLES", "STRICT_ALL_TABLES,SIMULTANEOUS_ASSIGNMENT"] {
            if fixture.session.run(&Ask::written(format!("SET SESSION sql_mode='{mode}'"))).is_err() {
                continue;
            }
            let name = format!("job {mode}");
            assert_eq!(fixture.successes(&name).last, None);
            let first = fixture.journal(10, &name);
            fixture.end(&first, &success(20, 50));
            let found = fixture.successes(&name);
            let last = found.last.unwrap();
            assert_eq!((tens(last.started_ago), tens(last.ended_ago), last.pid, last.tick), (70, 50, Some(10), None));
            assert_eq!((last.host.as_deref(), last.program.as_deref()), (Some("web1"), Some("report")));
            // It ended later, and began earlier.
            let earlier = fixture.journal(11, &name);
            fixture.end(&earlier, &success(60, 40));
            let last = fixture.successes(&name).last.unwrap();
            assert_eq!((tens(last.started_ago), tens(last.ended_ago), last.pid), (70, 50, Some(10)));
            let of = format!("dblock_successes WHERE name = '{name}'");
            assert_eq!(fixture.lines("run", &of), [first.facts.run]);
            let later = fixture.journal(12, &name);
            fixture.end(&later, &success(10, 30));
            let last = fixture.successes(&name).last.unwrap();
            assert_eq!((tens(last.started_ago), tens(last.ended_ago), last.pid), (40, 30, Some(12)));
            assert_eq!(fixture.lines("run", &of), [later.facts.run]);
            // A failure is no success.
            let failed = fixture.journal(13, &name);
            fixture.end(&failed, &RunEnd { succeeded: false, ..success(1, 0) });
            assert_eq!(fixture.successes(&name).last.unwrap().pid, Some(12));
        }
    }

    fn a_tick_never_goes_back(fixture) {
        let mut number = 0;
        let mut after = |tick: Option<i64>, began: u64| {
            number += 1;
            let mut journal = fixture.journal(number, "job");
            journal.facts.tick = tick;
            fixture.end(&journal, &success(0, began));
            let last = fixture.successes("job").last.unwrap();
            (last.tick, tens(last.started_ago))
        };
        assert_eq!(after(None, 90), (None, 90));
        assert_eq!(after(Some(5_000_000), 70), (Some(5_000_000), 70));
        // The tick of a run that began earlier counts if the tick is later.
        assert_eq!(after(Some(9_000_001), 80), (Some(9_000_001), 70));
        assert_eq!(after(Some(7_000_000), 60), (Some(9_000_001), 60));
        assert_eq!(after(None, 50), (Some(9_000_001), 50));
    }

    fn the_servers_time_comes_with_the_last_success(fixture) {
        let host = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
        fixture.run("SET time_zone='+05:00'");
        let now = Duration::from_micros(u64::try_from(fixture.successes("none").now).unwrap());
        assert!(now.abs_diff(host) < Duration::from_secs(60), "{now:?} {host:?}");
    }

    fn old_runs_are_deleted_a_few_at_a_time_but_not_the_newest(fixture) {
        fixture.client.query_drop("UPDATE dblock_meta SET keep_seconds = 3600, keep_runs = 5").unwrap();
        let mut insert = |name: &str, number: u32, age: &str, ended: bool| {
            let ended = if ended { "UTC_TIMESTAMP(6)" } else { "NULL" };
            let row = format!("INSERT INTO dblock_runs (run, name, requested_at, ended_at) VALUES ('{number:032x}', '{name}', UTC_TIMESTAMP(6) - INTERVAL {age}, {ended})");
            fixture.client.query_drop(row).unwrap();
        };
        for number in 0..70 {
            insert("job", number, &format!("{} MINUTE", 61 + number), true);
        }
        // Without an end: less and more than a day old. Of another name.
        insert("job", 100, "23 HOUR", false);
        insert("job", 101, "25 HOUR", false);
        insert("other", 102, "99 DAY", true);
        let journal = fixture.journal(1000, "job");
        let mut left = Vec::new();
        for _ in 0..3 {
            journal.prune(&mut fixture.session, AMPLE).unwrap();
            left.push(fixture.lines("COUNT(*)", "dblock_runs WHERE name = 'job'").remove(0));
        }
        // Five are kept in any case, and the one that may still run.
        assert_eq!(left, ["22", "6", "6"]);
        let newest = fixture.lines("CONV(run, 16, 10)", "dblock_runs WHERE name = 'job' ORDER BY requested_at DESC");
        assert_eq!(newest, ["0", "1", "2", "3", "4", "100"]);
        assert_eq!(fixture.lines("COUNT(*)", "dblock_runs WHERE name = 'other'"), ["1"]);
        // If `keep_seconds` is missing, nothing is deleted.
        fixture.client.query_drop("DELETE FROM dblock_meta").unwrap();
        journal.prune(&mut fixture.session, AMPLE).unwrap();
    }

    fn names_that_never_run_again_are_pruned_too_and_each_time_a_little(fixture) {
        fixture.client.query_drop("UPDATE dblock_meta SET keep_seconds = 3600, keep_runs = 20").unwrap();
        // 20 names, 200 runs each, one a minute; one of them runs. And 2000 names of two runs and a row each, a day ago.
        let digits = "(SELECT 0 n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 \
                      UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
        let numbers = format!("(SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n AS number FROM {digits} a, {digits} b, {digits} c, {digits} d) numbers");
        let number = "LEFT(SHA2(number, 256), 32)";
        for insert in [
            format!("INSERT INTO dblock_runs (run, name, requested_at, ended_at, outcome) SELECT {number}, IF(number < 4000, \
                     CONCAT('job', number MOD 20), CONCAT('build-', number MOD 2000)), UTC_TIMESTAMP(6) - INTERVAL IF(number < 4000, \
                     1 + number DIV 20, 1440) MINUTE, UTC_TIMESTAMP(6) - INTERVAL IF(number < 4000, 0, 1440) MINUTE, 'skipped' FROM {numbers} WHERE number < 8000"),
            format!("INSERT INTO dblock_locks (name, slot, fence, renewed_at) SELECT CONCAT('build-', number), 0, number, \
                     UTC_TIMESTAMP(6) - INTERVAL 1 DAY FROM {numbers} WHERE number < 2000"),
            format!("INSERT INTO dblock_successes (name, started_at, ended_at, needed_seconds) SELECT CONCAT('build-', number), \
                     UTC_TIMESTAMP(6) - INTERVAL 1 DAY, UTC_TIMESTAMP(6) - INTERVAL 1 DAY, 0 FROM {numbers} WHERE number < 2000"),
        ] {
            fixture.client.query_drop(insert).unwrap();
        }
        // As the statistics of a busy server: late, they still say that the tables are small.
        for table in ["dblock_runs", "dblock_locks", "dblock_successes"] {
            let of_table = format!("database_name = '{}' AND table_name = '{table}'", fixture.tables.name());
            for sql in [
                format!("ALTER TABLE {table} STATS_AUTO_RECALC = 0"),
                format!("ANALYZE TABLE {table}"),
                format!("UPDATE mysql.innodb_table_stats SET n_rows = 1, clustered_index_size = 1 WHERE {of_table}"),
                format!("UPDATE mysql.innodb_index_stats SET stat_value = 1 WHERE {of_table} AND stat_name LIKE 'n_diff%'"),
                format!("FLUSH TABLES {table}"),
            ] {
                fixture.client.query_drop(sql).unwrap();
            }
        }
        let journal = fixture.journal(9, "job7");
        let mut count = |table: &str| -> usize {
            let sql = format!("SELECT COUNT(*) FROM {table}");
            fixture.client.query_first(sql).unwrap().unwrap()
        };
        let tables = ["dblock_runs", "dblock_locks", "dblock_successes"];
        let old = "dblock_runs WHERE requested_at < UTC_TIMESTAMP(6) - INTERVAL 65 MINUTE";
        let mut left = tables.map(&mut count);
        assert_eq!((left, count(old) > 6_000), ([8000, 2000, 2000], true));
        let mut rounds = 0;
        while count(old) > 0 || left[1] + left[2] > 0 {
            // The limits on reading and deleting hold, however many rows there are.
            let looked = fixture.session.run(&ask_reads()).unwrap();
            journal.prune(&mut fixture.session, AMPLE).unwrap();
            let looked = fixture.session.run(&ask_reads()).unwrap() - looked;
            assert!(looked < 4_000, "{looked} in round {rounds}");
            let now = tables.map(&mut count);
            for (at, most) in [150, 50, 50].into_iter().enumerate() {
                assert!(left[at] - now[at] <= most, "{left:?} {now:?}");
            }
            left = now;
            rounds += 1;
            assert!(rounds < 2_000, "{left:?} are left after {rounds}");
        }
        // An hour of each, which is more than the last 20.
        assert!((20 * 58..=20 * 66).contains(&left[0]), "{left:?}");
        assert_eq!(count("dblock_meta WHERE fence_floor = 1999"), 1);
    }

    fn what_nobody_has_used_goes_with_all_its_rows(fixture) {
        fixture.client.query_drop("UPDATE dblock_meta SET keep_seconds = 3600, keep_runs = 100").unwrap();
        // The runs: when they were requested and have ended, in minutes.
        let mut number = 0;
        let mut run = |name: &str, requested: u32, ended: Option<u32>| {
            number += 1;
            let ended = ended.map_or("NULL".to_owned(), |ended| format!("UTC_TIMESTAMP(6) - INTERVAL {ended} MINUTE"));
            fixture.client.query_drop(format!("INSERT INTO dblock_runs (run, name, slot, requested_at, ended_at) \
                VALUES (LEFT(SHA2({number}, 256), 32), '{name}', 0, UTC_TIMESTAMP(6) - INTERVAL {requested} MINUTE, {ended})")).unwrap();
            let id: String = fixture.client.query_first(format!("SELECT LEFT(SHA2({number}, 256), 32)")).unwrap().unwrap();
            id
        };
        for ago in [120, 180, 240] {
            run("unused", ago, Some(ago));
            run("used", ago, Some(ago));
        }
        run("used", 5, Some(5));
        run("lasting", 3000, Some(5));
        run("died", 3000, None);
        run("needed", 120, Some(120));
        for ago in [3000, 4000] {
            run("in the crontab", ago, Some(ago));
        }
        let holds = run("holds a row", 3000, None);
        let session = run("has a session", 3000, None);
        fixture.client.query_drop(format!("SELECT GET_LOCK('#{session}', 0)")).unwrap();
        fixture.client.query_drop("INSERT INTO dblock_cron_jobs (name, schedule, zone, definition, changed_at, seen_at) \
            VALUES ('in the crontab', '@yearly', 'UTC', '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))").unwrap();
        for name in ["unused", "needed"] {
            let needed = if name == "needed" { 86_400 } else { 60 };
            fixture.client.query_drop(format!("INSERT INTO dblock_successes (name, started_at, ended_at, needed_seconds) \
                VALUES ('{name}', UTC_TIMESTAMP(6) - INTERVAL 121 MINUTE, UTC_TIMESTAMP(6) - INTERVAL 120 MINUTE, {needed})")).unwrap();
        }
        // What an older dblock has recorded.
        fixture.client.query_drop("INSERT INTO dblock_successes (name, started_at, ended_at) VALUES ('unused of an older', UTC_TIMESTAMP(6) - INTERVAL 300 DAY, UTC_TIMESTAMP(6) - INTERVAL 300 DAY)").unwrap();
        let mut row = |name: &str, slot: u32, more: &str| fixture.client.query_drop(format!("INSERT INTO dblock_locks SET name = '{name}', \
            slot = {slot}, fence = 41 + slot{more}")).unwrap();
        row("unused", 0, ", renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR");
        row("unused", 3, ", renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR");
        row("used", 7, ", renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR");
        row("used", 8, ", renewed_at = UTC_TIMESTAMP(6)");
        row("expired", 0, ", renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR, owner = 'x', expires_at = UTC_TIMESTAMP(6) - INTERVAL 61 MINUTE");
        row("has just expired", 0, ", renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR, owner = 'x', expires_at = UTC_TIMESTAMP(6) - INTERVAL 59 MINUTE");
        row("holds a row", 0, &format!(", renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR, owner = '{holds}', expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 DAY"));
        row("is asked", 0, ", renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR, owner = 'x', expires_at = UTC_TIMESTAMP(6) - INTERVAL 61 MINUTE, kill_requested_at = UTC_TIMESTAMP(6)");
        row("has a command", 0, ", renewed_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR, owner = 'x', expires_at = UTC_TIMESTAMP(6) - INTERVAL 61 MINUTE, command_until = UTC_TIMESTAMP(6) + INTERVAL 1 DAY");
        fixture.client.query_drop("INSERT INTO dblock_locks (name, slot) VALUES ('of an older', 0)").unwrap();
        assert_eq!(fixture.lines("fence", "dblock_locks WHERE name = 'of an older'"), [crate::schema::OLDER_FENCE.to_string()]);
        let journal = fixture.journal(9, "another");
        let stay = [
            ("DISTINCT name", "dblock_runs ORDER BY name", &["has a session", "holds a row", "in the crontab", "lasting", "needed", "used"][..]),
            ("name, slot", "dblock_locks ORDER BY name, slot", &["has a command 0", "has just expired 0", "holds a row 0", "is asked 0", "of an older 0", "used 8"]),
            ("name", "dblock_successes ORDER BY name", &["needed", "unused of an older"]),
        ];
        let found = |fixture: &mut Fixture| stay.map(|(columns, rest, _)| {
            let query = format!("SELECT {} FROM {rest}", columns.replace("name, slot", "CONCAT_WS(' ', name, slot)"));
            fixture.client.query::<String, _>(query).unwrap()
        });
        let mut rounds = 0;
        let wanted = stay.map(|(_, _, names)| names.to_vec());
        while found(fixture) != wanted {
            rounds += 1;
            assert!(rounds < 500, "{:?}", found(fixture));
            journal.prune(&mut fixture.session, AMPLE).unwrap();
        }
        for _ in 0..20 {
            journal.prune(&mut fixture.session, AMPLE).unwrap();
        }
        assert_eq!(found(fixture), wanted);
        assert_eq!(fixture.lines("COUNT(*)", "dblock_runs WHERE name = 'used'"), ["4"]);
        assert_eq!(fixture.lines("COUNT(*)", "dblock_runs WHERE name = 'in the crontab'"), ["2"]);
        assert_eq!(fixture.lines("fence_floor", "dblock_meta"), ["48"]);
    }

    fn names_that_nobody_uses_are_found_behind_many_rows_that_stay(fixture) {
        fixture.client.query_drop("UPDATE dblock_meta SET keep_seconds = 3600, keep_runs = 100").unwrap();
        // The last hundred of names that are used stay, and are more than are looked at together.
        let kept = (0..297).map(|number| (format!("kept{}", number % 3), 3000 - 6 * number));
        let used = (0..3).map(|number| (format!("kept{number}"), 0));
        let unused = (0..30).map(|number| (format!("unused{number}"), 150 - number));
        let runs: Vec<String> = kept.chain(used).chain(unused).zip(0..).map(|((name, minutes), number)| {
            let at = format!("UTC_TIMESTAMP(6) - INTERVAL {minutes} MINUTE");
            format!("('{}', '{name}', {at}, {at})", run_id(minutes, number))
        }).collect();
        fixture.client.query_drop(format!("INSERT INTO dblock_runs (run, name, requested_at, ended_at) VALUES {}", runs.join(", "))).unwrap();
        let used = (0..300).map(|number| format!("('a{number}', 0, 1, UTC_TIMESTAMP(6))"));
        let unused = (0..30).map(|number| format!("('unused{number}', 0, 1, UTC_TIMESTAMP(6) - INTERVAL 1 DAY)"));
        let rows: Vec<String> = used.chain(unused).collect();
        fixture.client.query_drop(format!("INSERT INTO dblock_locks (name, slot, fence, renewed_at) VALUES {}", rows.join(", "))).unwrap();
        let journal = fixture.journal(9, "kept0");
        let mut tries = 0;
        while fixture.lines("COUNT(*)", "dblock_runs WHERE name LIKE 'unused%'") != ["0"] {
            journal.prune(&mut fixture.session, AMPLE).unwrap();
            tries += 1;
            assert!(tries < 1000, "they are never found");
        }
        assert_eq!(fixture.lines("COUNT(*)", "dblock_runs"), ["300"]);
        assert_eq!(fixture.lines("COUNT(*)", "dblock_locks"), ["300"]);
    }

    fn a_row_that_somebody_uses_meanwhile_is_not_deleted(fixture) {
        fixture.client.query_drop("UPDATE dblock_meta SET keep_seconds = 3600").unwrap();
        for name in ["free", "taken"] {
            fixture.client.query_drop(format!("INSERT INTO dblock_locks (name, slot, fence, renewed_at) VALUES ('{name}', 0, 3, UTC_TIMESTAMP(6) - INTERVAL 1 DAY)")).unwrap();
        }
        fixture.client.query_drop("BEGIN").unwrap();
        fixture.client.query_drop("UPDATE dblock_locks SET owner = 'x', fence = 4, renewed_at = UTC_TIMESTAMP(6) WHERE name = 'taken'").unwrap();
        let journal = fixture.journal(9, "job");
        // By then it has raised the floor, and the rollback undoes that at once.
        assert!(matches!(journal.prune(&mut fixture.session, AMPLE), Err(Fault::Conflict(_))));
        fixture.client.query_drop("UPDATE dblock_meta SET keep_runs = 7").unwrap();
        fixture.client.query_drop("COMMIT").unwrap();
        journal.prune(&mut fixture.session, AMPLE).unwrap();
        assert_eq!(fixture.lines("name, fence", "dblock_locks"), ["taken 4"]);
    }

    fn outputs_of_deleted_jobs_are_found_behind_many_others(fixture) {
        fixture.tables.check(&mut fixture.session).unwrap();
        for job in 1000..1220 {
            if job < 1200 {
                fixture.client.query_drop(format!("INSERT INTO dblock_jobs (id, queue, shard, priority, block, put_at) VALUES ({job}, 1, 0, 0, 0, NOW(6))")).unwrap();
            }
            fixture.client.query_drop(format!("INSERT INTO dblock_outputs VALUES ('{job}', 'q', {job}, NOW(6), 'x', 0, '')")).unwrap();
        }
        let mut tries = 0;
        while fixture.lines("COUNT(*)", "dblock_outputs") != ["200"] {
            prune_outputs(&fixture.tables, &mut fixture.session).unwrap();
            tries += 1;
            assert!(tries < 2000, "they are never found");
        }
    }

    fn outputs_of_deleted_runs_are_found_behind_many_others(fixture) {
        fixture.tables.check(&mut fixture.session).unwrap();
        let ids: Vec<String> = (0..600).map(|number| run_id(600 - number, number)).collect();
        let runs: Vec<String> = ids[..400].iter().chain(&ids[420..]).map(|id| format!("('{id}', 'job', UTC_TIMESTAMP(6))")).collect();
        fixture.client.query_drop(format!("INSERT INTO dblock_runs (run, name, requested_at) VALUES {}", runs.join(", "))).unwrap();
        let outputs: Vec<String> = ids.iter().map(|id| format!("('{id}', 'job', NULL, NOW(6), 'x', 0, '')")).collect();
        fixture.client.query_drop(format!("INSERT INTO dblock_outputs VALUES {}", outputs.join(", "))).unwrap();
        let mut tries = 0;
        while fixture.lines("COUNT(*)", "dblock_outputs") != ["580"] {
            prune_outputs(&fixture.tables, &mut fixture.session).unwrap();
            tries += 1;
            assert!(tries < 2000, "they are never found");
        }
    }

    fn pruning_does_not_wait_for_a_row_that_somebody_has_locked(fixture) {
        fixture.client.query_drop("UPDATE dblock_meta SET keep_seconds = 1, keep_runs = 1").unwrap();
        for (number, age) in [(1, 9), (2, 0)] {
            fixture.client.query_drop(format!("INSERT INTO dblock_runs (run, name, requested_at, ended_at) VALUES ('{number:032x}', 'job', UTC_TIMESTAMP(6) - INTERVAL {age} MINUTE, UTC_TIMESTAMP(6))")).unwrap();
        }
        fixture.client.query_drop("BEGIN").unwrap();
        fixture.client.query_drop(format!("UPDATE dblock_runs SET host = 'x' WHERE run = '{:032x}'", 1)).unwrap();
        // By itself the server would wait for so long; dblock's own limit is half a second.
        fixture.run("SET SESSION innodb_lock_wait_timeout=50");
        let begun = Moment::now();
        assert!(fixture.journal(9, "job").prune(&mut fixture.session, PRUNING_LIMIT).is_err());
        assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
        fixture.client.query_drop("COMMIT").unwrap();
    }

    fn pruning_waits_for_no_run_that_is_kept(fixture) {
        fixture.client.query_drop("UPDATE dblock_meta SET keep_seconds = 1, keep_runs = 1").unwrap();
        for (number, age) in [(1, 9), (2, 8), (3, 0)] {
            fixture.client.query_drop(format!("INSERT INTO dblock_runs (run, name, requested_at, ended_at) VALUES ('{number:032x}', 'job', UTC_TIMESTAMP(6) - INTERVAL {age} MINUTE, UTC_TIMESTAMP(6))")).unwrap();
        }
        fixture.client.query_drop("BEGIN").unwrap();
        fixture.client.query_drop(format!("UPDATE dblock_runs SET host = 'x' WHERE run = '{:032x}'", 3)).unwrap();
        // Had it waited for that row, it would have failed.
        fixture.journal(9, "job").prune(&mut fixture.session, AMPLE).unwrap();
        fixture.client.query_drop("COMMIT").unwrap();
        assert_eq!(fixture.lines("CONV(run, 16, 10)", "dblock_runs"), ["3"]);
    }
}

#[test]
fn how_a_run_ended_crosses_a_process_boundary() {
    let end = RunEnd {
        signal: Some("SIGKILL".to_owned()),
        ..success(3, 1)
    };
    let sent = postcard::to_allocvec(&end).unwrap();
    assert_eq!(postcard::from_bytes::<RunEnd>(&sent).unwrap(), end);
}
