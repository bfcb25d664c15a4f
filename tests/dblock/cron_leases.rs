//! `dblock cron run`: a daemon holds the locks of all that it runs on one session, and what becomes of them with its processes and the
//! network.

use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;
use nix::unistd::gethostname;
use serde_json::json;

use crate::harness::crontab::{commands_of, end, job, lose_power, scheduler_of};
use crate::harness::{
    Crontab, Frozen, Hung, Proxy, Running, SOON, Server, Tables, Watcher, all_servers, allow_files,
    both_servers, children_of, eventually, send, stat_field, within,
};

/// It stays until it is ended.
const STAYS: &str = "echo $$ >>{}; exec sleep 600";

/// It stays until it is let go, and succeeds.
const WAITS_TO_SUCCEED: &str = "echo >>{}; while [ ! -e {}.over ]; do sleep 0.1; done";

/// `dblock run` of the name of a job, which does not wait: its exit code.
fn run_by_hand(crontab: &Crontab, job: &str) -> Option<i32> {
    let run = crontab
        .tables
        .at("run")
        .args(["-q", "--name", &crontab.name(job)]);
    run.sh("true").output().code
}

/// A daemon with a long grace, whose command has succeeded since its server was gone.
#[track_caller]
fn ended_in_an_outage(crontab: &Crontab, proxy: &Proxy) -> Running {
    let daemon = crontab.start_through(proxy, &["--grace", "1h"]);
    crontab.due("job");
    crontab.eventually_lines(1);
    proxy.refuse(true);
    proxy.cut();
    std::fs::write(crontab.path("record.over"), "").unwrap();
    eventually("the command has ended", SOON, || {
        commands_of(daemon.pid()).is_empty()
    });
    daemon
}

all_servers! {
    fn a_daemon_has_one_session_and_two_processes_however_many_commands_run(server on mysql) {
        let lines = (0..20).map(|number| format!("#: job{number}\n0 0 1 1 * {STAYS}\n"));
        let lines = lines.collect::<Vec<_>>().concat();
        let crontab = Crontab::new(server, &lines);
        let host = crontab.start(&["--grace", "0s", "--jobs", "20"]);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)");
        crontab.eventually_lines(20);
        assert_eq!(children_of(host.pid()).len(), 21, "the scheduler and the commands");
        assert_eq!(crontab.sessions().len(), 1);
        assert_eq!(crontab.count("dblock_locks WHERE owner IS NOT NULL AND fence > 0"), 20);
        end(host);
        assert_eq!(crontab.count("dblock_locks WHERE owner IS NOT NULL"), 0);
    }

    fn the_ticks_of_a_daemon_that_is_killed_are_another_s_at_once_and_their_commands_are_gone(server on mariadb) {
        let crontab = Crontab::new(server, &job("--ttl 1h", STAYS));
        let first = crontab.start(&[]);
        crontab.due("job");
        let command: i32 = crontab.eventually_lines(1)[0].parse().unwrap();
        let second = crontab.start(&["--grace", "0s"]);
        first.signal(Signal::SIGKILL);
        let killed = Instant::now();
        eventually("it runs elsewhere", SOON, || {
            let has_run = crontab.lines().len() == 2;
            assert!(!has_run || !runs(command), "both run");
            has_run
        });
        // Neither the lease of the daemon is waited for, of which 20 seconds are left at least, nor that of the tick.
        assert!(killed.elapsed() < Duration::from_secs(19), "{:?}", killed.elapsed());
        let ends: Vec<(u32, Option<String>, bool)> = crontab.rows("SELECT attempt, outcome, started_at IS NOT NULL FROM dblock_runs ORDER BY attempt");
        assert_eq!(ends, [(1, Some("failed".to_owned()), true), (2, None, false)]);
        end(second);
    }

    fn a_row_that_somebody_has_locked_keeps_no_other_from_being_renewed(server) {
        let lines = format!("#: one --ttl 24s\n0 0 1 1 * {STAYS}\n#: other --ttl 24s\n0 0 1 1 * {STAYS}\n");
        let crontab = Crontab::new(server, &lines);
        let host = crontab.start(&["--grace", "0s"]);
        crontab.due("one");
        crontab.due("other");
        crontab.eventually_lines(2);
        let row = |name| format!("dblock_locks WHERE name = '{}'", crontab.name(name));
        let locker = crontab.tables.lock(&row("one"));
        let owner = &crontab.rows::<String>(&format!("SELECT owner FROM {}", row("other")))[0];
        // Not of a later attempt.
        let query = format!("SELECT renewed_at FROM {} AND owner = '{owner}'", row("other"));
        let renewed = || crontab.rows::<Option<String>>(&query);
        let (before, session) = (renewed(), crontab.sessions());
        eventually("the other one is renewed", SOON, || renewed() > before);
        assert_eq!(crontab.sessions(), session, "not only on another session");
        drop(locker);
        end(host);
    }

    fn ticks_whose_rows_are_locked_keep_no_lock_from_being_renewed(server on mysql) {
        let lines = format!("#: one --ttl 12s --kill-after 0s\n0 0 1 1 * {STAYS}\n#: other\n0 0 1 1 * true\n");
        let crontab = Crontab::new(server, &lines);
        let host = crontab.start(&["--grace", "0s"]);
        crontab.due("one");
        let command: i32 = crontab.eventually_lines(1)[0].parse().unwrap();
        let other = crontab.name("other");
        // It takes none of them before they are locked.
        let frozen = Frozen::new(scheduler_of(host.pid()).unwrap());
        for number in 1..=6 {
            crontab.tables.sql(&format!(
                "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, ttl_seconds, start_at) VALUES ('{other}', \
                 UTC_TIMESTAMP(6) - INTERVAL {number} MINUTE, REPEAT('{number}', 32), 1, 300, UTC_TIMESTAMP(6))"
            ));
        }
        let ticks = format!("dblock_cron_ticks WHERE name = '{other}' AND daemon IS NULL");
        let locker = crontab.tables.lock(&ticks);
        drop(frozen);
        // The server waits two seconds for each.
        let is_ended = within(Duration::from_secs(16), || !runs(command));
        assert!(!is_ended, "the command is ended: {}", host.stderr());
        assert_eq!(crontab.count(&ticks), 6);
        drop(locker);
        end(host);
    }

    fn a_tick_that_is_taken_again_has_the_ttl_of_whoever_takes_it(server on mariadb) {
        let crontab = Crontab::new(server, &job("--ttl 8s", STAYS));
        let first = crontab.start(&[]);
        // As a host has left it whose file has another TTL.
        crontab.tables.sql(&format!(
            "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, ttl_seconds, start_at) VALUES ('{}', UTC_TIMESTAMP(6), \
             REPEAT('2', 32), 1, 86400, UTC_TIMESTAMP(6))",
            crontab.name("job")
        ));
        crontab.eventually_lines(1);
        let second = crontab.start(&["--grace", "0s"]);
        lose_power(first);
        crontab.eventually_lines(2);
        end(second);
    }

    fn status_shows_each_tick_of_a_daemon_as_held_by_it(server on mysql) {
        let crontab = Crontab::new(server, &format!("#: one\n0 0 1 1 * {STAYS}\n#: other\n0 0 1 1 * {STAYS}"));
        let daemon = crontab.start(&["--grace", "0s"]);
        for (number, name) in ["one", "other"].into_iter().enumerate() {
            crontab.due(name);
            crontab.eventually_lines(number + 1);
        }
        let host = gethostname().unwrap().into_string().unwrap();
        let expected = json!({
            "slot": 0, "durable": true, "kind": "run", "fence": 1, "owner": null, "expired": false, "dblock": true, "client": "dblock",
            "host": host, "pid": daemon.pid(), "program": "echo", "connection": crontab.sessions()[0],
        });
        let status = |args: &[&str]| {
            let output = crontab.tables.at("status").args(args).output();
            output.expect_code(0).expect_silence();
            output
        };
        let names = ["one", "other"].map(|name| crontab.name(name));
        // Of the two that are named, and among all.
        for args in [&["--json", &*names[0], &*names[1]][..], &["--json"]] {
            let all = status(args).json();
            for name in &names {
                let lock = all["locks"].as_array().unwrap().iter().find(|lock| lock["name"] == name.as_str());
                let lock = lock.unwrap_or_else(|| panic!("no {name}: {all:#}"));
                let [held] = &lock["holders"].as_array().unwrap()[..] else { panic!("one holder: {all:#}") };
                for (member, value) in expected.as_object().unwrap() {
                    assert_eq!(&held[member], value, "{member}: {all:#}");
                }
                assert_eq!((&lock["waiters"], &lock["killed_by"]), (&json!([]), &json!([])), "{all:#}");
            }
        }
        let table = status(&[&*names[0]]).stdout;
        let line = table.lines().find(|line| line.starts_with(&*names[0])).expect("a line");
        for part in [" held ", &*host, &*daemon.pid().to_string(), " echo ", " run "] {
            assert!(line.contains(part), "{part:?}: {table}");
        }
        end(daemon);
        let all = status(&["--json", &*names[0]]).json();
        assert_eq!(all["locks"][0]["holders"], json!([]), "{all:#}");
    }

    fn a_tick_that_is_ended_leaves_the_others_their_locks(server) {
        let crontab = Crontab::new(server, &format!("#: one --kill-after 1s\n0 0 1 1 * {STAYS}\n#: other\n0 0 1 1 * {STAYS}"));
        let host = crontab.start(&["--grace", "0s"]);
        for (number, name) in ["one", "other"].into_iter().enumerate() {
            crontab.due(name);
            crontab.eventually_lines(number + 1);
        }
        let session = crontab.holder("other");
        assert!(session.is_some() && session == crontab.holder("one"));
        // Whoever does not see its row does not end the session, which has the locks of others.
        let account = server.account();
        server.may_end_sessions(&account);
        let kill = |tables: &Tables| tables.at("kill").arg(crontab.name("one"));
        kill(&crontab.tables).user(&account).output().expect_code(77).expect_stdout("");
        let refused = kill(&Tables::missing(server)).output();
        refused.expect_code(78).expect_stdout("").expect_one_line("has no tables of dblock's");
        let refused = kill(&Tables::new(server)).output();
        refused.expect_code(78).expect_stdout("").expect_one_line("it can only be ended by its row");
        assert_eq!([crontab.holder("one"), crontab.holder("other")], [session; 2]);
        crontab.tables.at("kill").arg(crontab.name("one")).output().expect_code(0);
        assert_eq!([crontab.holder("one"), crontab.holder("other")], [None, session]);
        assert_eq!(run_by_hand(&crontab, "one"), Some(0));
        assert_eq!(run_by_hand(&crontab, "other"), Some(75));
        end(host);
    }
}

both_servers! {
    fn what_its_host_cannot_start_runs_on_another(server on mysql) {
        let lines = (0..6).map(|number| format!("#: job{number}\n0 0 1 1 * echo {number} >>{{}}\n"));
        let crontab = Crontab::new(server, &lines.collect::<String>());
        let first = crontab.start(&["--grace", "0s"]);
        // The system refuses the pipes for another command.
        let is_free = |number: &u32| std::fs::read_link(format!("/proc/{}/fd/{number}", first.pid())).is_err();
        allow_files(first.pid(), (0..1000).find(is_free).unwrap() + 1);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)");
        let unstarted = "dblock_cron_ticks WHERE daemon IS NULL AND unstarted_at IS NOT NULL";
        eventually("none is started", SOON, || crontab.count(unstarted) == 6);
        let second = crontab.start(&["--grace", "0s"]);
        // Some of them are for the first one.
        crontab.tables.sql("UPDATE dblock_cron_ticks SET start_at = UTC_TIMESTAMP(6) WHERE daemon IS NULL");
        let mut lines = crontab.eventually_lines(6);
        lines.sort();
        assert_eq!(lines, ["0", "1", "2", "3", "4", "5"]);
        crontab.eventually_idle();
        allow_files(first.pid(), 1000);
        end(first);
        end(second);
    }

    fn a_lock_that_was_granted_before_its_tick_could_be_proved_is_free_in_the_end(server) {
        let crontab = Crontab::new(server, &job("", "echo run >>{}"));
        crontab.tables.sql(
            "CREATE TRIGGER no_room BEFORE UPDATE ON dblock_cron_ticks FOR EACH ROW IF NEW.started_at IS NOT NULL THEN \
             SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'; END IF",
        );
        let mut host = crontab.start(&[]);
        crontab.due("job");
        host.wait_stderr("The table is full", SOON);
        crontab.tables.sql("DROP TRIGGER no_room");
        crontab.eventually_lines(1);
        crontab.eventually_idle();
        // It is free a moment after that is recorded.
        eventually("it is free", SOON, || crontab.holder("job").is_none());
        assert_eq!(run_by_hand(&crontab, "job"), Some(0));
        end(host);
    }
}

all_servers! {
    fn a_session_that_is_ended_takes_no_lock_with_it(server) {
        its_locks_are_held_again(server, |_, crontab| {
            crontab.tables.server.watcher().end_session(crontab.sessions()[0]);
        });
    }

    fn a_scheduler_that_is_killed_takes_no_lock_with_it(server on mysql) {
        its_locks_are_held_again(server, |host, _| send(scheduler_of(host.pid()).unwrap(), Signal::SIGKILL));
    }
}

both_servers! {
    fn a_scheduler_that_cannot_be_replaced_at_once_takes_no_lock_with_it(server on mariadb) {
        its_locks_are_held_again(server, |host, _| {
            // Enough for what it waits for, and not for another process.
            allow_files(host.pid(), 6);
            send(scheduler_of(host.pid()).unwrap(), Signal::SIGKILL);
            eventually("it cannot be replaced", SOON, || host.stderr().contains("; trying again\n"));
            allow_files(host.pid(), 1000);
        });
    }
}

all_servers! {
    fn a_command_is_ended_before_another_starts_when_its_daemon_is_stopped_and_its_scheduler_has_no_server(server on mysql) {
        let stubborn = "trap '' TERM; echo $$ >>{}; while :; do sleep 0.1; done";
        // The end of its command may be late by a tenth of it, as on a machine that stands still.
        let crontab = Crontab::new(server, &job("--ttl 24s --kill-after 1s", stubborn));
        let proxy = Proxy::to(server);
        let first = crontab.start_through(&proxy, &["--grace", "0s"]);
        crontab.due("job");
        let command: i32 = crontab.eventually_lines(1)[0].parse().unwrap();
        let second = crontab.start(&["--grace", "0s"]);
        let frozen = Frozen::new(first.pid());
        proxy.freeze();
        eventually("another one runs", 2 * SOON, || {
            let has_run = crontab.lines().len() == 2;
            assert!(!has_run || !runs(command), "both run");
            has_run
        });
        proxy.thaw();
        drop(frozen);
        end(second);
        end(first);
    }

    fn a_tick_whose_command_was_killed_is_another_s_however_long_its_daemon_hung_before(server on mysql) {
        let (crontab, proxy, daemon, command) = runs_through_a_proxy(server);
        let hung = Hung::new(daemon.pid());
        // Its scheduler goes on renewing the lock every three seconds, and not its row.
        crontab.eventually_row("dblock_cron_daemons WHERE renewed_at < UTC_TIMESTAMP(6) - INTERVAL 6 SECOND");
        assert!(runs(command), "{}", daemon.stderr());
        proxy.freeze();
        eventually("the command is ended", SOON, || !runs(command));
        // As if that had lasted for longer than the deadline, which is an hour.
        crontab.tables.sql("UPDATE dblock_cron_daemons SET started_at = started_at - INTERVAL 2 HOUR, renewed_at = renewed_at - INTERVAL 2 HOUR");
        proxy.thaw();
        let second = crontab.start(&["--grace", "0s"]);
        eventually("it runs there", SOON * 3, || crontab.lines().len() == 2);
        assert!(hung.hangs());
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'skipped'"), 0);
        drop(hung);
        end(second);
        end(daemon);
    }
}

both_servers! {
    fn a_command_is_ended_when_its_daemon_hangs_and_its_scheduler_has_no_server(server on mysql) {
        let (_crontab, proxy, daemon, command) = runs_through_a_proxy(server);
        let hung = Hung::new(daemon.pid());
        proxy.freeze();
        eventually("the command is ended", SOON, || !runs(command));
        assert!(hung.hangs());
        proxy.thaw();
        drop(hung);
        end(daemon);
    }

    fn a_tick_whose_command_was_killed_while_its_daemon_hangs_is_another_s_also_if_the_server_is_back(server on mariadb) {
        let (crontab, proxy, daemon, command) = runs_through_a_proxy(server);
        let hung = Hung::new(daemon.pid());
        proxy.freeze();
        eventually("the command is ended", SOON, || !runs(command));
        // Nobody has taken the lock yet, and its scheduler could renew it.
        proxy.thaw();
        let second = crontab.start(&["--grace", "0s"]);
        eventually("it runs there", SOON * 3, || crontab.lines().len() == 2);
        assert!(hung.hangs());
        drop(hung);
        end(second);
        end(daemon);
    }

    fn a_daemon_that_loses_one_lock_waits_for_a_locked_row_as_long_as_before(server on mariadb) {
        // The one that is not renewed meanwhile has time enough, and the shortest TTL says how often all are renewed.
        let line = |(name, ttl): (&str, &str)| format!("#: {name} --ttl {ttl}\n0 0 1 1 * {STAYS}\n");
        let crontab = Crontab::new(server, &[("lost", "1m"), ("locked", "1m"), ("other", "20s")].map(line).concat());
        // So the limit on its answers is always the same.
        let daemon = crontab.start(&["--grace", "0s", "--connect-timeout", "5s"]);
        for (number, name) in ["lost", "locked", "other"].into_iter().enumerate() {
            crontab.due(name);
            crontab.eventually_lines(number + 1);
        }
        let named = |name: &str| format!("name = '{}'", crontab.name(name));
        let locker = crontab.tables.lock(&format!("dblock_locks WHERE {}", named("locked")));
        let renewed = || crontab.rows::<Option<String>>(&format!("SELECT renewed_at FROM dblock_locks WHERE {}", named("other")));
        let (before, session) = (renewed(), crontab.sessions());
        // From now on the locked row is renewed last.
        eventually("the other one is renewed", SOON, || renewed() > before);
        crontab.tables.sql(&format!("UPDATE dblock_locks SET owner = NULL WHERE {}", named("lost")));
        eventually("one is lost", SOON, || daemon.stderr().contains("was lost while the command runs"));
        // The server has it wait for the locked row for two seconds, and counts whole ones.
        let is_given_up = within(Duration::from_secs(4), || crontab.sessions() != session);
        assert!(!is_given_up, "{}", daemon.stderr());
        drop(locker);
        end(daemon);
    }
}

/// A daemon with six locks, for each of which a run waits, gets another session. Whether it has all of them again, and no run has run.
fn nobody_gets_a_lock(server: &Server) -> bool {
    let lines = (0..6).map(|number| format!("#: job{number} --ttl 20s\n0 0 1 1 * {STAYS}\n"));
    let crontab = Crontab::new(server, &lines.collect::<Vec<_>>().concat());
    let proxy = Proxy::to(server);
    let daemon = crontab.start_through(&proxy, &["--grace", "0s"]);
    crontab.tables.sql(
        "UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)",
    );
    crontab.eventually_lines(6);
    let wait = |number: usize| {
        crontab
            .tables
            .at("run")
            .args([
                "--wait",
                "10m",
                "--name",
                &crontab.name(&format!("job{number}")),
            ])
            .sh("echo ran")
            .spawn()
    };
    let waiting: Vec<Running> = (0..6).map(wait).collect();
    let wait = format!(
        "information_schema.processlist WHERE state = 'User lock' AND info LIKE CONCAT('%', LOWER(HEX('{}')), '%')",
        crontab.name("job")
    );
    eventually("all of them wait", SOON, || crontab.count(&wait) == 6);
    let before = crontab.sessions();
    proxy.abandon();
    let mut one_has_run = false;
    eventually("another session holds all locks", SOON, || {
        one_has_run |= waiting.iter().any(|run| !run.stdout().is_empty());
        let mut holders = (0..6).map(|number| crontab.holder(&format!("job{number}")));
        one_has_run
            || holders.all(|now| {
                now.is_some_and(|now| !before.contains(&now) && crontab.sessions().contains(&now))
            })
    });
    drop(waiting);
    end(daemon);
    !one_has_run
}

/// A daemon that reaches its server by a proxy, and the command of a tick that it has started.
fn runs_through_a_proxy(server: &Server) -> (Crontab<'_>, Proxy, Running, i32) {
    let crontab = Crontab::new(server, &job("--ttl 12s --kill-after 1s", STAYS));
    let proxy = Proxy::to(server);
    let daemon = crontab.start_through(&proxy, &["--grace", "0s"]);
    crontab.due("job");
    let command = crontab.eventually_lines(1)[0].parse().unwrap();
    (crontab, proxy, daemon, command)
}

/// A host falls asleep under a command. Returns its daemon, the command, and what is to be dropped for it to wake.
fn falls_asleep(crontab: &Crontab) -> (Running, i32, [Frozen; 3]) {
    let daemon = crontab.start(&["--grace", "0s"]);
    crontab.due("job");
    let command = crontab.eventually_lines(1)[0].parse().unwrap();
    let scheduler = scheduler_of(daemon.pid()).expect("it has one");
    // The daemon wakes first: its scheduler would kill the command of one that is stopped.
    let asleep = [daemon.pid(), scheduler, command].map(Frozen::new);
    (daemon, command, asleep)
}

all_servers! {
    fn a_host_that_wakes_after_another_has_its_tick_in_another_slot_ends_its_command(server) {
        let crontab = Crontab::new(server, &job("--ttl 10s --kill-after 1s --overlap allow", STAYS));
        let (first, command, asleep) = falls_asleep(&crontab);
        // The slot that it had is somebody else's by then.
        let name = crontab.name("job");
        server.watcher().end_session(server.holder(&name).expect("the daemon"));
        let mut other = server.plain();
        eventually("it is taken", SOON, || other.try_lock(&name));
        let second = crontab.start(&["--grace", "0s"]);
        let next: i32 = crontab.eventually_lines(2)[1].parse().unwrap();
        let slots: Vec<u32> = crontab.rows("SELECT slot FROM dblock_locks WHERE owner IS NOT NULL ORDER BY slot");
        assert_eq!(slots, [0, 1]);
        drop(asleep);
        eventually("the first command is ended", SOON, || !runs(command));
        assert!(runs(next));
        end(second);
        end(first);
    }
}

both_servers! {
    fn a_host_that_wakes_after_another_has_its_tick_ends_its_command_also_where_runs_may_overlap(server on mariadb) {
        let crontab = Crontab::new(server, &job("--ttl 10s --kill-after 1s --overlap allow", STAYS));
        let (first, command, asleep) = falls_asleep(&crontab);
        let second = crontab.start(&["--grace", "0s"]);
        let other: i32 = crontab.eventually_lines(2)[1].parse().unwrap();
        drop(asleep);
        eventually("the first command is ended", SOON, || !runs(command));
        assert!(runs(other));
        end(second);
        end(first);
    }

    fn a_tick_that_waits_for_a_lock_does_not_ask_who_holds_it(server) {
        let crontab = Crontab::new(server, &job("--overlap wait", "echo >>{}"));
        let proxy = Proxy::to(server);
        let daemon = crontab.start_through(&proxy, &[]);
        let mut other = server.admin();
        let take = format!("SELECT GET_LOCK('{}', 0)", crontab.name("job"));
        assert_eq!(other.query_first::<u8, _>(take).unwrap(), Some(1));
        crontab.due("job");
        let sent = |what: &str| proxy.packets().iter().filter(|packet| packet.sent().is_some_and(|sent| sent.contains(what))).count();
        eventually("it has tried some times", SOON, || sent("/* dblock try slot */") > 3);
        assert_eq!(sent("/* dblock holder */"), 0);
        drop(other);
        crontab.eventually_lines(1);
        crontab.eventually_idle();
        end(daemon);
    }

    fn no_run_that_waits_gets_a_named_lock_when_a_daemon_has_another_session(server) {
        // A run that is granted one gives it back, and has half a second for that.
        assert!((0..6).any(|_| nobody_gets_a_lock(server)), "one has run each time");
    }

    fn a_named_lock_that_another_program_got_from_a_lost_session_is_taken_again_once_it_is_free(server) {
        let crontab = Crontab::new(server, &job("--ttl 12s", STAYS));
        let proxy = Proxy::to(server);
        let daemon = crontab.start_through(&proxy, &["--grace", "0s"]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let name = crontab.name("job");
        let (mut other, take) = (server.admin(), format!("SELECT GET_LOCK('{name}', 60)"));
        let waits = other.connection_id();
        let taken = std::thread::spawn(move || {
            assert_eq!(other.query_first::<u8, _>(take).unwrap(), Some(1));
            other
        });
        eventually("another program waits", SOON, || {
            crontab.count(&format!("information_schema.processlist WHERE id = {waits} AND state = 'User lock'")) == 1
        });
        // The server keeps the session until the daemon's next one ends it.
        proxy.abandon();
        let other = taken.join().unwrap();
        assert_eq!(crontab.holder("job"), Some(waits.into()));
        // It has tried to take the lock again before the next renewal.
        for _ in 0..2 {
            let renewed = || crontab.rows::<String>("SELECT expires_at FROM dblock_locks WHERE owner IS NOT NULL");
            let before = renewed();
            eventually("its row is renewed", SOON, || renewed() != before);
        }
        assert_eq!(crontab.holder("job"), Some(waits.into()));
        drop(other);
        eventually("the daemon holds it", SOON, || {
            let now = crontab.holder("job");
            now.is_some() && crontab.sessions().iter().map(|id| Some(*id)).eq([now])
        });
        for kind in ["back", "end"] {
            let announced = || -> Vec<Option<u64>> { crontab.rows(&format!("SELECT IS_USED_LOCK('{name}#{kind}0')")) };
            eventually(&format!("nothing is announced: {kind}"), SOON, || announced() == [None]);
        }
        assert_eq!(run_by_hand(&crontab, "job"), Some(75));
        end(daemon);
    }
}

all_servers! {
    fn an_older_session_of_a_daemon_is_ended_also_if_it_runs_nothing(server) {
        let crontab = Crontab::new(server, &job("", STAYS));
        let proxy = Proxy::to(server);
        let daemon = crontab.start_through(&proxy, &["--grace", "0s"]);
        let before = crontab.sessions();
        proxy.abandon();
        // The server itself would end it after a minute.
        let is_ended = within(Duration::from_secs(40), || {
            let now = crontab.sessions();
            now.len() == 1 && now != before
        });
        assert!(is_ended, "{before:?} {:?}", crontab.sessions());
        end(daemon);
    }
}

both_servers! {
    fn a_daemon_that_is_told_to_end_in_an_outage_records_its_results_when_that_is_over(server on mysql) {
        let (crontab, proxy) = (Crontab::new(server, &job("--ttl 1h", WAITS_TO_SUCCEED)), Proxy::to(server));
        let mut daemon = ended_in_an_outage(&crontab, &proxy);
        daemon.signal(Signal::SIGTERM);
        // Without results it would be gone by now.
        assert!(!within(Duration::from_secs(5), || !daemon.is_running()), "it has ended");
        assert_eq!(crontab.count("dblock_cron_ticks"), 1);
        proxy.refuse(false);
        daemon.wait_within(SOON).expect_code(0);
        assert_eq!(crontab.count("dblock_cron_ticks"), 0);
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 1);
    }

    fn a_second_signal_ends_a_daemon_with_results_that_no_server_takes(server on mariadb) {
        let (crontab, proxy) = (Crontab::new(server, &job("--ttl 1h", WAITS_TO_SUCCEED)), Proxy::to(server));
        let mut daemon = ended_in_an_outage(&crontab, &proxy);
        daemon.signal(Signal::SIGTERM);
        daemon.signal(Signal::SIGINT);
        let output = daemon.wait_within(SOON);
        assert!(output.stderr.contains("ends before a server has taken note of the end of 1 run: "), "{}", output.stderr);
    }

    fn a_success_during_an_outage_counts_also_if_its_daemon_comes_back_last(server on mysql) {
        let crontab = Crontab::new(server, &job("--ttl 16s", &format!("{WAITS_TO_SUCCEED}; echo >>{{}}.done")));
        let proxies = [Proxy::to(server), Proxy::to(server)];
        let daemons = proxies.each_ref().map(|proxy| {
            crontab.start_through(proxy, &["--grace", "0s"])
        });
        crontab.due("job");
        crontab.eventually_lines(1);
        let ran_on_first = commands_of(daemons[0].pid()).len() == 1;
        let (its, others) = if ran_on_first { (0, 1) } else { (1, 0) };
        for proxy in &proxies {
            proxy.refuse(true);
            proxy.cut();
        }
        std::fs::write(crontab.path("record.over"), "").unwrap();
        eventually("the command has ended", SOON, || commands_of(daemons[its].pid()).is_empty());
        assert!(crontab.path("record.done").exists(), "it was ended");
        eventually("its lock has expired", SOON * 2, || crontab.count("dblock_locks WHERE expires_at > UTC_TIMESTAMP(6)") == 0);
        eventually("the daemons seem to be gone", SOON * 2, || {
            crontab.count("dblock_cron_daemons WHERE renewed_at > UTC_TIMESTAMP(6) - INTERVAL 16 SECOND") == 0
        });
        proxies[others].refuse(false);
        eventually("the other is back", SOON, || {
            crontab.count("dblock_cron_daemons WHERE expires_at > UTC_TIMESTAMP(6)") == 1
        });
        crontab.lines_stay(1);
        proxies[its].refuse(false);
        crontab.eventually_idle();
        assert_eq!(crontab.lines().len(), 1);
        for daemon in daemons {
            end(daemon);
        }
    }
}

/// Whether a process runs, and is no zombie.
fn runs(pid: i32) -> bool {
    stat_field(pid, 0).is_some_and(|state| state != "Z")
}

/// A daemon loses its session, and goes on with what it runs.
fn its_locks_are_held_again(server: &Server, lose: fn(&Running, &Crontab)) {
    let crontab = Crontab::new(server, &job("", STAYS));
    let host = crontab.start(&["--grace", "0s"]);
    crontab.due("job");
    crontab.eventually_lines(1);
    let before = crontab.holder("job");
    lose(&host, &crontab);
    eventually("another session holds it", SOON, || {
        let now = crontab.holder("job");
        now.is_some() && now != before
    });
    assert_eq!(run_by_hand(&crontab, "job"), Some(75));
    assert!(!within(Duration::from_secs(3), || crontab.lines().len() > 1));
    end(host);
    assert_eq!(crontab.count("dblock_locks WHERE owner IS NOT NULL"), 0);
}
