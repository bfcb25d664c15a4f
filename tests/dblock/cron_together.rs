//! `dblock cron run`: the locks of ticks that are due at one second are acquired, and released, several in one transaction; and one that
//! cannot be written holds up none of the others.

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::crontab::end;
use crate::harness::{Crontab, Running, SOON, Server, both_servers, eventually};

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

/// All jobs are due at one moment.
fn all_due(crontab: &Crontab) {
    crontab.tables.sql(
        "UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)",
    );
}

both_servers! {
    fn the_locks_of_twelve_ticks_are_acquired_in_three_transactions(server) {
        let (crontab, host) = with_rows(server, 12, "", &["-vv"]);
        let packets = || {
            let said = host.stderr();
            said.lines().filter(|line| line.contains("/* dblock take row */")).count()
        };
        let before = packets();
        all_due(&crontab);
        crontab.eventually_lines(12);
        assert_eq!(packets() - before, 3);
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_locks WHERE owner IS NULL AND fence = 2"), 12);
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 24);
        end(host);
    }

    fn a_lock_that_another_holds_keeps_no_tick_of_its_transaction_waiting(server) {
        let (crontab, host) = with_rows(server, 4, "", &[]);
        let held = crontab.tables.at("run").args(["--durable", "--name", &crontab.name("job1")]);
        let held = held.command(["sleep", "600"]).spawn();
        crontab.eventually_row("dblock_locks WHERE owner IS NOT NULL AND fence = 2");
        all_due(&crontab);
        let mut lines = crontab.eventually_lines(3);
        lines.sort();
        assert_eq!(lines, ["job0", "job2", "job3"]);
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'skipped' AND message LIKE '%not run'"), 1);
        // Nobody has touched it.
        assert_eq!(crontab.count("dblock_locks WHERE owner IS NOT NULL AND fence = 2"), 1);
        held.signal(Signal::SIGTERM);
        held.wait();
        end(host);
    }

    fn a_row_that_somebody_has_locked_keeps_only_its_own_tick_waiting(server) {
        let (crontab, host) = with_rows(server, 4, "", &[]);
        let mut locker = crontab.tables.admin();
        locker.query_drop("START TRANSACTION").unwrap();
        locker.query_drop(format!("SELECT * FROM dblock_locks WHERE name = '{}' FOR UPDATE", crontab.name("job1"))).unwrap();
        all_due(&crontab);
        let mut lines = crontab.eventually_lines(3);
        lines.sort();
        assert_eq!(lines, ["job0", "job2", "job3"]);
        locker.query_drop("ROLLBACK").unwrap();
        crontab.eventually_lines(4);
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 8);
        end(host);
    }

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
