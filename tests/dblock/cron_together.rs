//! `dblock cron run`: the locks of ticks that are due at one second are acquired, and released, several in one transaction; and one that
//! cannot be written holds up none of the others.

use crate::harness::crontab::end;
use crate::harness::{Crontab, Running, SOON, Server, all_servers, both_servers, eventually};

/// So many jobs that leave a line each, with these options. They have run once, so that their locks have rows.
fn with_rows<'a>(
    server: &'a Server,
    number: usize,
    options: &str,
    args: &[&str],
) -> (Crontab<'a>, Running) {
    let lines =
        (0..number).map(|job| format!("#: job{job} {options}\n0 0 1 1 * echo job{job} >>{{}}\n"));
    let crontab = Crontab::new(server, &lines.collect::<Vec<_>>().concat());
    let host = crontab.start(args);
    all_due(&crontab);
    crontab.eventually_lines(number);
    crontab.eventually_idle();
    std::fs::write(crontab.record(), "").unwrap();
    (crontab, host)
}

/// All jobs are due at one moment. PostgreSQL would ask its clock for each of them, and a daemon that looks just then might find only some
/// of them due.
fn all_due(crontab: &Crontab) {
    crontab.tables.sql(
        "UPDATE dblock_cron_jobs SET next_at = (SELECT UTC_TIMESTAMP(6)), changed_at = UTC_TIMESTAMP(6)",
    );
}

/// The locks of twelve ticks are acquired. `false`: the machine stood still for so long that the daemon has lost its session, and asked
/// again.
fn twelve_are_acquired_in_three(server: &Server) -> bool {
    let (crontab, host) = with_rows(server, 12, "", &["-vv"]);
    let packets = || {
        let said = host.stderr();
        let takes = |line: &&str| line.contains("/* dblock take row */");
        said.lines().filter(takes).count()
    };
    let before = packets();
    all_due(&crontab);
    crontab.eventually_lines(12);
    let packets = packets() - before;
    if host.stderr().contains("lost the session") {
        return false;
    }
    assert_eq!(packets, 3);
    crontab.eventually_idle();
    let free = "dblock_locks WHERE owner IS NULL AND fence = 2";
    assert_eq!(crontab.count(free), 12);
    let ran = "dblock_runs WHERE outcome = 'ran' AND exit_code = 0";
    assert_eq!(crontab.count(ran), 24);
    end(host);
    true
}

all_servers! {
    fn the_locks_of_twelve_ticks_are_acquired_in_three_transactions(server) {
        assert!((0..3).any(|_| twelve_are_acquired_in_three(server)), "it has lost the session each time");
    }
}

both_servers! {
    fn a_row_that_is_another_s_is_left_alone_and_the_others_of_its_transaction_run(server) {
        let (crontab, host) = with_rows(server, 4, "", &[]);
        // As of a host that has lost its session, and with it the named lock.
        crontab.tables.sql(&format!(
            "UPDATE dblock_locks SET owner = REPEAT('a', 32), expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE name = '{}'",
            crontab.name("job1")
        ));
        all_due(&crontab);
        let mut lines = crontab.eventually_lines(3);
        lines.sort();
        assert_eq!(lines, ["job0", "job2", "job3"]);
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'skipped' AND message LIKE '%not run'"), 1);
        assert_eq!(crontab.count("dblock_locks WHERE owner = REPEAT('a', 32) AND fence = 1"), 1);
        // The named lock that was taken first is free again.
        eventually("it is free", SOON, || crontab.holder("job1").is_none());
        end(host);
    }
}

all_servers! {
    fn a_row_that_somebody_has_locked_keeps_no_other_tick_from_running(server) {
        let (crontab, host) = with_rows(server, 4, "", &[]);
        let locker = crontab.tables.lock(&format!("dblock_locks WHERE name = '{}'", crontab.name("job1")));
        all_due(&crontab);
        let mut lines = crontab.eventually_lines(3);
        lines.sort();
        assert_eq!(lines, ["job0", "job2", "job3"]);
        drop(locker);
        crontab.eventually_lines(4);
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 8);
        end(host);
    }
}

both_servers! {
    fn an_end_that_cannot_be_recorded_keeps_no_other_from_being_recorded(server) {
        let (crontab, host) = with_rows(server, 4, "", &[]);
        crontab.tables.sql(&format!(
            "CREATE TRIGGER no_room BEFORE DELETE ON dblock_cron_ticks FOR EACH ROW IF OLD.name = '{}' THEN \
             SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'; END IF",
            crontab.name("job1")
        ));
        all_due(&crontab);
        crontab.eventually_lines(4);
        eventually("the others are recorded", SOON, || crontab.count("dblock_cron_ticks") == 1);
        // Its lock is free all the same.
        eventually("all locks are free", SOON, || crontab.count("dblock_locks WHERE owner IS NOT NULL") == 0);
        crontab.tables.sql("DROP TRIGGER no_room");
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 8);
        end(host);
    }
}
