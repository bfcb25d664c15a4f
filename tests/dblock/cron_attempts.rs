//! `dblock cron run`: where attempts of ticks start, what they need for that, and what counts of those that do not end by themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::chdir;

use crate::harness::crontab::{commands_of, end, job, lose_power, scheduler_of, stays};
use crate::harness::{
    Crontab, Frozen, Hangs, Kind, PASSWORD, Proxy, Running, SOON, Server, Unkillable, all_servers,
    allow_files, both_servers, copy_program, eventually, eventually_gone, eventually_unkillable,
    group_of, in_time, quoted, runs, send, within,
};
use crate::sigkill::{VIEWS, view_of};

both_servers! {
    fn a_password_in_a_relative_file_is_found_whatever_home_the_crontab_has(server on mysql) {
        let crontab = Crontab::new(server, "");
        let [here, home] = ["here", "home"].map(|name| crontab.path(name));
        for folder in [&here, &home] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(here.join("password"), PASSWORD).unwrap();
        crontab.write(&format!("HOME={}\nMINE=of the file\n{}", home.display(), job("", "(pwd; echo $HOME $MINE) >>{}")));
        let daemon = crontab.daemon(&["--password-file", "password"]).env_remove("DBLOCK_PASSWORD");
        let mut host = daemon.pre_exec(move || Ok(chdir(&here)?)).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        let home = home.display();
        assert_eq!(crontab.eventually_lines(2), [home.to_string(), format!("{home} of the file")]);
        crontab.eventually_idle();
        end(host);
    }

    fn a_command_whose_home_is_not_there_starts_in_the_root_and_says_so(server on mysql) {
        let crontab = Crontab::new(server, &format!("HOME=/no/such/folder\n{}", job("", "pwd >>{}")));
        let mut host = crontab.start(&[]);
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(1), ["/"]);
        let why = "dblock: cannot change to the folder /no/such/folder: No such file or directory; starting in /";
        host.wait_stderr(&format!("{}: {why}\n", crontab.name("job")), SOON);
        crontab.eventually_idle();
        end(host);
    }

    fn no_attempt_counts_whose_host_was_stopped_however_its_command_was_ended(server on mariadb) {
        let command = "trap '' TERM; echo $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 3 || sleep 60";
        let crontab = Crontab::new(server, &job("--kill-after 1s --retries 0", command));
        let mut host = crontab.start(&["--grace", "1s"]);
        crontab.due("job");
        for round in 1..=2 {
            crontab.eventually_lines(round);
            let next = crontab.start(&["--grace", "1s"]);
            end(std::mem::replace(&mut host, next));
        }
        assert_eq!(crontab.eventually_lines(3), ["1", "2", "3"]);
        crontab.eventually_idle();
        let runs: Vec<(u32, String)> = crontab.rows("SELECT attempt, outcome FROM dblock_runs ORDER BY attempt");
        assert_eq!(runs[2], (3, "ran".to_owned()), "{runs:?}");
        end(host);
    }

    fn a_tick_that_was_taken_when_its_host_was_asked_to_end_is_another_s_at_once(server on mysql) {
        // The host may have been stopped on its way to what its scheduler says, and then starts the tick before it sees the signal.
        assert!((0..10).any(|_| is_another_s_at_once(server)), "its host starts the tick each time");
    }

    fn a_mail_has_what_is_written_in_the_background_after_the_command_has_ended(server on mariadb) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * (sleep 1; echo late) & echo first");
        let sendmail = crontab.sendmail(&format!("cat >{0}.part; mv {0}.part {0}", quoted(&crontab.path("mail"))));
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        eventually("a mail is sent", SOON, || crontab.path("mail").exists());
        let mail = fs::read_to_string(crontab.path("mail")).unwrap();
        assert!(mail.ends_with("\n\nfirst\nlate\n"), "{mail}");
        end(host);
    }

    fn a_retry_of_a_job_whose_ticks_wait_waits_for_whoever_holds_the_lock(server on mariadb) {
        let options = "--overlap wait --retries 1 --retry-delay 6s --ttl 6s --kill-after 0s";
        let command = "echo $DBLOCK_ATTEMPT >>{}; while ! test -e {}.go; do sleep 0.1; done; test $DBLOCK_ATTEMPT = 2";
        let crontab = Crontab::new(server, &job(options, command));
        let host = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        // By hand, for longer than the TTL and a margin.
        let record = quoted(&crontab.record());
        let by_hand = crontab.tables.at("run").args(["-v", "--durable", "--wait", "30s", "--name", &crontab.name("job")]);
        let mut by_hand = by_hand.sh(&format!("echo hand >>{record}; sleep 19; echo done >>{record}")).spawn();
        by_hand.wait_stderr("waiting", SOON);
        fs::write(crontab.path("record.go"), "").unwrap();
        crontab.eventually_lines(2);
        by_hand.wait_within(SOON * 2).expect_code(0);
        assert_eq!(crontab.eventually_lines(4), ["1", "hand", "done", "2"]);
        crontab.eventually_idle();
        end(host);
    }

    fn a_tick_that_somebody_has_ended_is_over_also_where_its_daemon_is_stopped(server on mariadb) {
        over_where_it_is_stopped(server, Running::pid, &[], After::Killed);
    }

    fn a_tick_that_somebody_has_ended_by_force_is_over_also_where_its_scheduler_is_stopped(server) {
        over_where_it_is_stopped(server, |daemon| scheduler_of(daemon.pid()).unwrap(), &["--force"], After::Killed);
    }

    fn a_tick_that_somebody_has_ended_is_over_while_its_daemon_stays_stopped(server on mysql) {
        over_where_it_is_stopped(server, Running::pid, &[], After::Stopped);
    }

    fn a_tick_that_somebody_has_ended_is_over_also_where_its_scheduler_is_stopped(server on mariadb) {
        over_where_it_is_stopped(server, |daemon| scheduler_of(daemon.pid()).unwrap(), &["--wait", "forever"], After::Stopped);
    }

    fn a_tick_that_somebody_has_ended_by_force_is_over_where_all_of_its_host_are_dead(server on mysql) {
        let crontab = Crontab::new(server, &job("--ttl 8s --kill-after 0.2s --retries 3", "echo run >>{}; exec sleep 600"));
        let first = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let second = crontab.start(&["--grace", "0s"]);
        lose_power(first);
        crontab.tables.at("kill").args(["--force", &crontab.name("job")]).output().expect_code(0);
        crontab.eventually_idle();
        stays("nothing runs again", || crontab.lines().len() == 1);
        end(second);
    }

    fn a_tick_that_somebody_has_ended_by_force_is_over_where_nobody_could_be_asked(server) {
        let crontab = Crontab::new(server, &job("--ttl 20s --retries 3", "echo run >>{}; exec sleep 600"));
        let first = crontab.start(&["--grace", "0s"]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let second = crontab.start(&["--grace", "0s"]);
        let all = commands_of(first.pid()).into_iter().chain(scheduler_of(first.pid()));
        let stopped: Vec<Frozen> = all.chain([first.pid()]).map(Frozen::new).collect();
        crontab.tables.at("kill").args(["--force", &crontab.name("job")]).output().expect_code(0);
        crontab.eventually_idle();
        assert_eq!(crontab.lines().len(), 1);
        let ends: Vec<(String, String)> = crontab.rows("SELECT outcome, message FROM dblock_runs");
        assert!(matches!(&ends[..], [(outcome, why)] if outcome == "lost" && why.starts_with("ended by dblock kill on ")), "{ends:?}");
        end(second);
        drop(stopped);
    }

    fn a_run_that_was_taken_for_dead_has_its_own_end_in_the_history(server on mysql) {
        let command = "echo $DBLOCK_SLOT $DBLOCK_FENCE >>{}; until test -e {}.go; do sleep 0.1; done";
        let crontab = Crontab::new(server, &job("--overlap allow", command));
        let host = crontab.start(&[]);
        for round in 1..=2 {
            crontab.due("job");
            crontab.eventually_lines(round);
        }
        // Fences grow in each slot by itself.
        assert_eq!(crontab.lines(), ["0 1", "1 1"]);
        // As another host does for one that was stopped beyond its TTL.
        crontab.tables.sql(
            "UPDATE dblock_runs SET ended_at = UTC_TIMESTAMP(6), outcome = 'failed', \
             message = CONCAT(name, ': its host gave no sign of life for the TTL')",
        );
        fs::write(crontab.path("record.go"), "").unwrap();
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0 AND message IS NULL AND started_at IS NOT NULL"), 2);
        // Both slots are free again, and each fence goes on from where it was.
        fs::remove_file(crontab.path("record.go")).unwrap();
        for round in 3..=4 {
            crontab.due("job");
            crontab.eventually_lines(round);
        }
        assert_eq!(crontab.lines()[2..], ["0 2", "1 2"]);
        fs::write(crontab.path("record.go"), "").unwrap();
        crontab.eventually_idle();
        end(host);
    }

    fn a_command_that_its_host_cannot_start_is_tried_less_and_less_often(server on mysql) {
        let crontab = Crontab::new(server, &job("--deadline 1h", "echo run >>{}"));
        let host = crontab.start(&["--grace", "0s"]);
        // The system refuses the pipes for another command.
        let is_free = |number: &u32| fs::read_link(format!("/proc/{}/fd/{number}", host.pid())).is_err();
        allow_files(host.pid(), (0..1000).find(is_free).unwrap() + 1);
        crontab.due("job");
        crontab.eventually_row("dblock_cron_ticks WHERE daemon IS NULL AND attempt = 1");
        // As if that had gone on for longer.
        crontab.tables.sql(
            "UPDATE dblock_cron_ticks SET unstarted_at = unstarted_at - INTERVAL 2 MINUTE, start_at = UTC_TIMESTAMP(6)",
        );
        crontab.eventually_row(
            "dblock_cron_ticks WHERE daemon IS NULL AND attempt = 2 AND unstarted_at < UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE \
             AND start_at > UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE",
        );
        allow_files(host.pid(), 1000);
        crontab.tables.sql("UPDATE dblock_cron_ticks SET start_at = UTC_TIMESTAMP(6)");
        assert_eq!(crontab.eventually_lines(1), ["run"]);
        crontab.eventually_idle();
        end(host);
    }

    fn that_no_host_could_start_a_tick_does_not_count_any_more_once_one_could(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "echo run >>{}"));
        let host = crontab.start(&["--grace", "0s"]);
        // The system refuses the pipes for another command.
        let is_free = |number: &u32| fs::read_link(format!("/proc/{}/fd/{number}", host.pid())).is_err();
        allow_files(host.pid(), (0..1000).find(is_free).unwrap() + 1);
        // No host could start it for nine minutes. Then one did, and has died.
        crontab.tables.sql(&format!(
            "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, daemon, ttl_seconds, unstarted_at, started_at) VALUES ('{}', \
             UTC_TIMESTAMP(6) - INTERVAL 10 MINUTE, REPEAT('0', 32), 1, REPEAT('1', 32), 4, \
             UTC_TIMESTAMP(6) - INTERVAL 10 MINUTE, UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE)",
            crontab.name("job")
        ));
        // It is taken once the server was heard for ten seconds.
        eventually("it is taken", SOON * 2, || crontab.count("dblock_cron_ticks WHERE attempt > 1") == 1);
        crontab.eventually_row("dblock_cron_ticks WHERE daemon IS NULL AND unstarted_at > UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE");
        // After ten minutes it would be left for five.
        let soon = "dblock_cron_ticks WHERE start_at < UTC_TIMESTAMP(6) + INTERVAL 1 MINUTE";
        assert_eq!(crontab.count(&format!("{soon} OR daemon IS NOT NULL")), 1);
        allow_files(host.pid(), 1000);
        crontab.tables.sql("UPDATE dblock_cron_ticks SET start_at = UTC_TIMESTAMP(6) WHERE daemon IS NULL");
        assert_eq!(crontab.eventually_lines(1), ["run"]);
        crontab.eventually_idle();
        end(host);
    }

    fn no_more_commands_run_at_once_than_there_are_open_files_for(server on mariadb) {
        let lines = (0..5).map(|number| format!("#: job{number}\n0 0 1 1 * echo >>{{}}; exec sleep 600\n"));
        let crontab = Crontab::new(server, &lines.collect::<String>());
        // 300 are for the daemon, and six for each command.
        let few = || Ok(setrlimit(Resource::RLIMIT_NOFILE, 310, 320)?);
        let mut host = crontab.daemon(&["-j", "100", "--grace", "0s"]).pre_exec(few).spawn();
        host.wait_stderr("-j 100 needs 900 open files, and 320 are allowed (ulimit -n): running 3 at once", SOON);
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)");
        crontab.eventually_lines(3);
        crontab.lines_stay(3);
        end(host);
    }

    fn a_tick_is_tried_again_whose_host_could_tell_nobody_that_it_ended_the_command(server on mariadb) {
        ends_are_not_recorded(server);
    }

    fn all_that_a_host_has_ended_is_another_s_at_once_however_slow_the_server_is(server on mysql) {
        ends_are_handed_in_slowly(server);
    }
}

all_servers! {
    fn a_tick_that_somebody_has_ended_is_over_also_where_its_stopped_scheduler_is_killed(server on mysql) {
        over_where_it_is_stopped(server, |daemon| scheduler_of(daemon.pid()).unwrap(), &["--wait", "forever"], After::Killed);
    }

    fn a_run_that_ended_while_its_host_was_stopped_beyond_its_ttl_has_its_own_end_in_the_history(server on mariadb) {
        let command = "echo $$ $DBLOCK_ATTEMPT >>{}; until test -e {}.go; do sleep 0.1; done";
        let crontab = Crontab::new(server, &job("--overlap allow --ttl 6s --kill-after 0s", command));
        let first = crontab.start(&["--grace", "1s"]);
        crontab.due("job");
        let line = crontab.eventually_lines(1).remove(0);
        let pid: i32 = line.strip_suffix(" 1").unwrap().parse().unwrap();
        let second = crontab.start(&["--grace", "1s"]);
        let both = [scheduler_of(first.pid()).unwrap(), first.pid()];
        let stopped = both.map(Frozen::new);
        // Another host takes it for dead.
        crontab.eventually_row("dblock_runs WHERE attempt = 1 AND ended_at IS NOT NULL AND outcome <> 'ran'");
        assert!(runs(pid));
        fs::write(crontab.path("record.go"), "").unwrap();
        eventually_gone(pid, SOON);
        drop(stopped);
        crontab.eventually_row("dblock_runs WHERE attempt = 1 AND outcome = 'ran' AND exit_code = 0");
        crontab.eventually_idle();
        end(first);
        end(second);
    }

    fn a_tick_that_somebody_has_ended_by_force_is_over_for_its_daemon_too(server on mysql) {
        let crontab = Crontab::new(server, &job("--ttl 8s --kill-after 1s --retries 3", "echo run >>{}; exec sleep 600"));
        let hook = format!("echo hook $DBLOCK_RESULT ${{DBLOCK_WILL_RETRY-}} >>{}", quoted(&crontab.record()));
        let daemon = crontab.start(&["--on-failure", &hook]);
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.tables.at("kill").args(["--force", &crontab.name("job")]).output().expect_code(0);
        assert_eq!(crontab.eventually_lines(2)[1], "hook lost no");
        assert!(!daemon.stderr().contains("; again "), "{}", daemon.stderr());
        crontab.eventually_idle();
        end(daemon);
    }

    fn the_death_of_a_host_is_told_also_where_the_answer_to_its_record_is_lost(server) {
        // The server may give up its wait for the row before the proxy holds the answer back.
        assert!((0..3).any(|_| a_death_is_told_without_an_answer(server)), "each answer has arrived");
    }

    fn a_tick_of_a_host_that_was_only_suspended_does_not_run_again_after_its_success(server) {
        let crontab = Crontab::new(server, &job("--overlap wait", "echo $DBLOCK_ATTEMPT >>{}; until test -e {}.go; do sleep 0.1; done"));
        let first = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let second = crontab.start(&[]);
        // It takes the tick of a host that seems to be gone, which then renews its lock.
        let run = "5".repeat(32);
        crontab.tables.sql(&format!(
            "INSERT INTO dblock_runs (run, name, tick, attempt, requested_at) SELECT '{run}', name, tick, 2, requested_at FROM dblock_runs"
        ));
        crontab.tables.sql(&format!(
            "UPDATE dblock_cron_ticks SET run = '{run}', attempt = 2, started_at = NULL, \
             daemon = (SELECT d.daemon FROM dblock_cron_daemons d WHERE d.pid = {})", second.pid()
        ));
        fs::write(crontab.path("record.go"), "").unwrap();
        crontab.eventually_idle();
        assert_eq!(crontab.lines(), ["1"]);
        crontab.eventually_row("dblock_runs WHERE attempt = 2 AND outcome = 'skipped' AND message LIKE '%, or has succeeded there; not run'");
        end(first);
        end(second);
    }
}

#[test]
fn a_process_that_proc_does_not_show_keeps_its_tick_until_it_ends() {
    // All at once: they do nothing but wait.
    std::thread::scope(|scope| {
        for view in VIEWS {
            scope.spawn(move || keeps_its_tick_behind(view));
        }
    });
}

#[test]
fn no_command_outlives_a_daemon_that_was_killed_while_another_command_hangs_at_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let shell = folder.path().join("shell");
    copy_program("/bin/sh", &shell);
    let lines = format!(
        "#: first\n0 0 1 1 * echo $$ >>{{}}; exec sleep 600\nSHELL={}\n#: second\n0 0 1 1 * true",
        shell.display()
    );
    let crontab = Crontab::new(Server::shared(Kind::MariaDb), &lines);
    let mut daemon = crontab.start(&[]);
    crontab.due("first");
    let first: i32 = crontab.eventually_lines(1)[0].parse().unwrap();
    let hangs = Hangs::new(&shell);
    crontab.due("second");
    eventually("it hangs", SOON, || commands_of(daemon.pid()).len() == 2);
    daemon.signal(Signal::SIGKILL);
    daemon.wait_within(SOON).expect_signal(Signal::SIGKILL);
    eventually_gone(first, SOON);
    drop(hangs);
}

#[test]
fn a_command_that_waits_for_a_disk_for_ever_keeps_its_tick_for_longer_than_the_ttl() {
    let mut disk = Unkillable::new();
    let command = format!("echo $$ >>{{}}; read x <{}", quoted(&disk.file()));
    let lines = job("--ttl 6s --kill-after 0.2", &command);
    let crontab = Crontab::new(Server::shared(Kind::MariaDb), &lines);
    let mut first = crontab.start(&[]);
    let scheduler = scheduler_of(first.pid()).unwrap();
    crontab.due("job");
    let command: i32 = crontab.eventually_lines(1)[0].parse().unwrap();
    disk.eventually_opened();
    first.signal(Signal::SIGKILL);
    first.wait_within(SOON).expect_signal(Signal::SIGKILL);
    eventually_unkillable(command);
    let second = crontab.start(&[]);
    crontab.eventually_row(&format!(
        "dblock_locks WHERE name = '{}' AND renewed_at > acquired_at + INTERVAL 10 SECOND",
        crontab.name("job")
    ));
    assert_eq!(crontab.lines().len(), 1, "{}", second.stderr());
    assert!(runs(command));
    drop(disk);
    eventually_gone(scheduler, SOON);
    end(second);
}

#[test]
fn a_home_on_a_disk_that_hangs_holds_up_only_the_command_that_starts_there() {
    let mut disk = Unkillable::new();
    let lines = format!(
        "#: other\n0 0 1 1 * echo other >>{{}}\nHOME={}\n#: held\n0 0 1 1 * pwd >>{{}}",
        disk.file().display()
    );
    let crontab = Crontab::new(Server::shared(Kind::MariaDb), &lines);
    let mut daemon = crontab.start(&[]);
    crontab.due("held");
    disk.eventually_opened();
    crontab.due("other");
    let goes_on = in_time(SOON, || !crontab.lines().is_empty());
    // Whatever waits for it cannot be ended before.
    drop(disk);
    assert!(goes_on, "{}", daemon.stderr());
    assert_eq!(crontab.eventually_lines(2), ["other", "/"]);
    daemon.wait_stderr("; starting in /\n", SOON);
    crontab.eventually_idle();
    end(daemon);
}

/// A tick whose time is over, and whose command has a process that this view hides.
fn keeps_its_tick_behind(view: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (under, script) = view_of(folder.path(), view);
    // The process has time to begin.
    let options = "--timeout 8s --kill-after 0.2s";
    let command = format!("exec >>{{}}; {script}");
    let crontab = Crontab::new(Server::shared(Kind::MariaDb), &job(options, &command));
    // Another user reads the one and writes the other.
    fs::write(crontab.record(), "").unwrap();
    for (path, mode) in [(crontab.path("."), 0o755), (crontab.record(), 0o666)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut daemon = crontab.daemon(&[]).under(under).spawn();
    daemon.wait_stderr("dblock: ready: ", SOON);
    crontab.due("job");
    let line = crontab.eventually_lines(1).remove(0);
    let hidden: i32 = line.strip_prefix("hidden ").unwrap().parse().unwrap();
    let group = group_of(hidden).unwrap();
    eventually("the command has ended", SOON, || !runs(group));
    let by_hand = || {
        let run = crontab
            .tables
            .at("run")
            .args(["--durable", "--name", &crontab.name("job")]);
        run.args(["--wait", "0.5"]).command(["true"]).output()
    };
    by_hand().expect_code(75);
    let is_under_way = crontab.count("dblock_cron_ticks") == 1;
    assert!(
        runs(hidden) && is_under_way,
        "with {view}: {}",
        daemon.stderr()
    );
    send(hidden, Signal::SIGKILL);
    crontab.eventually_idle();
    by_hand().expect_code(0);
    end(daemon);
}

/// No end can be recorded when a daemon ends: another one finds in the history that it was the daemon that ended the commands.
fn ends_are_not_recorded(server: &Server) {
    let mild = "echo mild $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 2 || sleep 60";
    let stubborn =
        "trap '' TERM; echo stubborn $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 2 || sleep 60";
    let options = "--retries 0 --kill-after 1s";
    let crontab = Crontab::new(
        server,
        &format!(
            "#: mild {options}\n0 0 1 1 * {mild}\n#: stubborn {options}\n0 0 1 1 * {stubborn}"
        ),
    );
    // One more failure and the ticks are over.
    let mut first = crontab.start(&["--grace", "0s"]);
    for (number, name) in ["mild", "stubborn"].into_iter().enumerate() {
        crontab.due(name);
        crontab.eventually_lines(number + 1);
    }
    crontab
        .tables
        .sql("UPDATE dblock_cron_ticks SET failures = 1");
    crontab.tables.sql(
        "CREATE TRIGGER no_room BEFORE UPDATE ON dblock_cron_ticks FOR EACH ROW IF NEW.daemon IS NULL THEN \
         SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'; END IF",
    );
    first.signal(Signal::SIGTERM);
    first.wait_stderr("of the end of 2 runs", SOON);
    first.wait_within(SOON).expect_code(0);
    assert_eq!(crontab.count("dblock_cron_ticks WHERE daemon IS NULL"), 0);
    crontab.tables.sql("DROP TRIGGER no_room");
    let next = crontab.start(&[]);
    let mut lines = crontab.eventually_lines(4);
    lines.sort();
    assert_eq!(lines, ["mild 1", "mild 2", "stubborn 1", "stubborn 2"]);
    crontab.eventually_idle();
    let ended: Vec<String> = crontab.rows("SELECT outcome FROM dblock_runs WHERE attempt = 1");
    assert_eq!(ended, ["interrupted", "interrupted"]);
    end(next);
}

/// A server that takes its time for each end.
fn ends_are_handed_in_slowly(server: &Server) {
    let names: Vec<String> = (0..20).map(|number| format!("job{number}")).collect();
    let lines: Vec<String> = names
        .iter()
        .map(|name| format!("#: {name}\n0 0 1 1 * echo {name} >>{{}}; exec sleep 60\n"))
        .collect();
    let crontab = Crontab::new(server, &lines.concat());
    let mut host = crontab.start(&["--grace", "0s", "--jobs", "20"]);
    crontab.tables.sql(
        "UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)",
    );
    crontab.eventually_lines(20);
    // All together take longer than the daemon waits for the next few.
    crontab.tables.sql(
        "CREATE TRIGGER slow BEFORE UPDATE ON dblock_cron_ticks FOR EACH ROW \
         SET @slept = IF(NEW.daemon IS NULL, SLEEP(0.2), 0)",
    );
    host.signal(Signal::SIGTERM);
    host.wait_within(SOON).expect_code(0);
    assert_eq!(crontab.count("dblock_cron_ticks WHERE daemon IS NULL"), 20);
}

#[test]
fn what_ends_while_the_server_is_away_is_released_and_recorded_later() {
    let server = Server::private(Kind::MariaDb);
    // The servers of tests may lose the last second.
    let keep = "SET GLOBAL innodb_flush_log_at_trx_commit = 1";
    server.admin().query_drop(keep).unwrap();
    let command = "echo begin >>{}; while ! test -e {}.go; do sleep 0.1; done; echo end >>{}";
    let lines = format!(
        "#: long --ttl 60s\n0 0 1 1 * {command}\n#: short --ttl 10s --kill-after 0s\n0 0 1 1 * {command}"
    );
    let crontab = Crontab::alone(&server, &lines);
    let host = start_seeking(&crontab, "5s");
    for (number, name) in ["long", "short"].into_iter().enumerate() {
        crontab.due(name);
        crontab.eventually_lines(number + 1);
    }
    eventually("both starts are recorded", SOON, || {
        crontab.count("dblock_cron_ticks WHERE started_at IS NOT NULL") == 2
    });
    server.kill();
    fs::write(crontab.path("record.go"), "").unwrap();
    crontab.eventually_lines(4);
    // For longer than the connect timeout and the shorter TTL.
    within(Duration::from_secs(12), || false);
    server.start();
    crontab.eventually_idle();
    let ends = |count: usize| {
        let runs: Vec<(String, Option<String>, Option<u32>)> =
            crontab.rows("SELECT name, outcome, exit_code FROM dblock_runs ORDER BY name");
        let long = std::iter::repeat_n("long", count);
        let wanted: Vec<_> = long
            .chain(["short"])
            .map(|name| (name.to_owned(), Some("ran".to_owned()), Some(0)))
            .collect();
        assert_eq!(runs, wanted, "{:?}", crontab.lines());
    };
    ends(1);
    assert_eq!(
        crontab.count("dblock_locks WHERE name = 'long' AND expires_at > UTC_TIMESTAMP(6)"),
        0
    );
    crontab.due("long");
    crontab.eventually_lines(6);
    crontab.eventually_idle();
    ends(2);
    end(host);
}

#[test]
fn as_many_commands_run_at_once_as_may_whatever_the_soft_limit_of_open_files() {
    let server = Server::private(Kind::MariaDb);
    let lines = (0..50).fold(String::new(), |lines, number| {
        lines + &format!("#: job{number}\n0 0 1 1 * echo run >>{{}}; exec sleep 600\n")
    });
    let crontab = Crontab::alone(&server, &lines);
    let limited = || {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        Ok(setrlimit(Resource::RLIMIT_NOFILE, 128, hard)?)
    };
    let daemon = crontab.daemon(&["--jobs", "60", "--grace", "0s"]);
    let mut host = daemon.pre_exec(limited).spawn();
    host.wait_stderr("dblock: ready: ", SOON);
    crontab
        .tables
        .admin()
        .query_drop(
            "UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)",
        )
        .unwrap();
    crontab.eventually_lines(50);
    assert_eq!(
        crontab.count("dblock_cron_ticks WHERE started_at IS NOT NULL"),
        50
    );
    end(host);
}

/// No lock can be acquired, for want of room, or it can be again.
fn locks_can_be_acquired(crontab: &Crontab, can: bool) {
    crontab.tables.sql(if can {
        "DROP TRIGGER no_room"
    } else {
        "CREATE TRIGGER no_room BEFORE UPDATE ON dblock_locks FOR EACH ROW IF NEW.owner IS NOT NULL THEN \
         SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'; END IF"
    });
}

/// Starts a daemon that seeks a lock for so long.
fn start_seeking(crontab: &Crontab, seeks: &str) -> Running {
    let start = || {
        let daemon = crontab.daemon(&["--grace", "0s"]);
        daemon.env("DBLOCK_CONNECT_TIMEOUT", seeks).spawn()
    };
    let mut host = start();
    // A server may not answer in so short a time.
    eventually("it is ready", SOON, || {
        if !host.is_running() {
            host = start();
        }
        host.stderr().contains("dblock: ready: ")
    });
    host
}

#[test]
fn a_tick_that_can_be_started_nowhere_is_tried_less_and_less_often_and_given_up_in_the_end() {
    let server = Server::private(Kind::MariaDb);
    let crontab = Crontab::alone(&server, &job("--deadline 1h", "echo run >>{}"));
    locks_can_be_acquired(&crontab, false);
    let mut host = start_seeking(&crontab, "3s");
    crontab.due("job");
    // As if that had gone on for longer.
    let later = |attempt: u32, minutes: u32| {
        crontab.eventually_row(&format!(
            "dblock_cron_ticks WHERE daemon IS NULL AND attempt = {attempt}"
        ));
        crontab.tables.sql(&format!(
            "UPDATE dblock_cron_ticks SET unstarted_at = unstarted_at - INTERVAL {minutes} MINUTE, start_at = UTC_TIMESTAMP(6) \
             WHERE daemon IS NULL"
        ));
    };
    host.wait_stderr(", attempt 1, is not started: ", SOON);
    assert!(
        host.stderr().contains("; again in 10s"),
        "{}",
        host.stderr()
    );
    later(1, 2);
    host.wait_stderr("; again in 2m", SOON);
    later(2, 10);
    host.wait_stderr("; again in 5m", SOON);
    // No deadline is put off.
    later(3, 60);
    crontab.eventually_idle();
    let query = "SELECT message FROM dblock_runs WHERE outcome = 'skipped'";
    let given_up: Vec<String> = crontab.rows(query);
    assert!(
        given_up.len() == 1 && given_up[0].starts_with("job: missed attempt 4 of the tick "),
        "{given_up:?}"
    );
    locks_can_be_acquired(&crontab, true);
    crontab.due("job");
    assert_eq!(crontab.eventually_lines(1), ["run"]);
    crontab.eventually_idle();
    end(host);
}

/// Nobody goes on seeking the lock of a tick: its scheduler dies, or its daemon is asked to end.
fn a_search_ends(kind: Kind, is_asked: bool) {
    let server = Server::private(kind);
    let crontab = Crontab::alone(&server, &job("", "echo $DBLOCK_ATTEMPT >>{}"));
    locks_can_be_acquired(&crontab, false);
    let mut host = start_seeking(&crontab, "60s");
    crontab.due("job");
    host.wait_stderr("The table is full", SOON);
    if is_asked {
        end(host);
        let ended: Vec<(Option<String>, Option<String>)> =
            crontab.rows("SELECT outcome, message FROM dblock_runs");
        let wanted = ["interrupted", "job: its host takes no more ticks"];
        assert_eq!(ended, [wanted.map(|word| Some(word.to_owned())).into()]);
        host = start_seeking(&crontab, "60s");
    } else {
        send(scheduler_of(host.pid()).unwrap(), Signal::SIGKILL);
    }
    locks_can_be_acquired(&crontab, true);
    let attempt = if is_asked { "2" } else { "1" };
    assert_eq!(crontab.eventually_lines(1), [attempt]);
    crontab.eventually_idle();
    assert_eq!(crontab.count("dblock_runs WHERE ended_at IS NULL"), 0);
    end(host);
}

#[test]
fn a_tick_whose_lock_is_sought_is_not_lost_with_the_scheduler_mariadb() {
    a_search_ends(Kind::MariaDb, false);
}

#[test]
fn a_tick_whose_lock_is_sought_is_not_lost_with_the_scheduler_mysql() {
    a_search_ends(Kind::MySql, false);
}

#[test]
fn a_tick_whose_lock_is_sought_by_a_daemon_that_ends_is_another_s_mariadb() {
    a_search_ends(Kind::MariaDb, true);
}

/// What becomes of the stopped process when the tick was ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Killed,
    Stopped,
}

/// A process of the daemon that runs the tick is stopped, somebody ends the tick, and then the process is killed, or stays as it is.
#[track_caller]
fn over_where_it_is_stopped(
    server: &'static Server,
    process: fn(&Running) -> i32,
    how: &[&str],
    after: After,
) {
    let command = "echo run >>{}; exec sleep 600";
    // A machine that stands still for some seconds ends no command.
    let options = "--ttl 8s --kill-after 0.2s --retries 3";
    let crontab = Crontab::new(server, &job(options, command));
    let first = crontab.start(&[]);
    crontab.due("job");
    crontab.eventually_lines(1);
    let second = crontab.start(&["--grace", "0s"]);
    let pid = process(&first);
    let stopped = Frozen::new(pid);
    let kill = crontab.tables.at("kill").args(how);
    kill.arg(crontab.name("job")).output().expect_code(0);
    if after == After::Killed {
        send(pid, Signal::SIGKILL);
    }
    // Another host would look after it some seconds later.
    crontab.eventually_idle();
    stays("nothing runs again", || crontab.lines().len() == 1);
    end(second);
    drop(stopped);
}

/// A host dies, and another one records that and takes its tick. Whether the answer to that was lost; it tells of the death either way.
fn a_death_is_told_without_an_answer(server: &'static Server) -> bool {
    let command = "echo $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 2 || exec sleep 600";
    let crontab = Crontab::new(server, &job("--ttl 6s --kill-after 0.2", command));
    let first = crontab.start(&[]);
    crontab.due("job");
    crontab.eventually_lines(1);
    let (told, proxy) = (crontab.path("told"), Proxy::to(server));
    let hook = format!("echo $DBLOCK_RESULT $DBLOCK_WILL_RETRY >>{}", quoted(&told));
    let second = crontab.start_through(&proxy, &["--on-failure", &hook]);
    let run = || -> Vec<String> { crontab.rows("SELECT run FROM dblock_cron_ticks") };
    let (before, locked) = (run(), crontab.tables.lock("dblock_cron_ticks"));
    lose_power(first);
    let takes = format!("UPDATE {}.dblock_cron_ticks", crontab.tables.quoted());
    eventually("it takes the tick", SOON * 3, || {
        server.answering(&takes) > 0
    });
    proxy.freeze();
    drop(locked);
    // The server takes it before it gives up waiting for the row. No answer comes through any more.
    let is_lost = within(Duration::from_secs(5), || run() != before);
    proxy.cut();
    proxy.thaw();
    assert_eq!(crontab.eventually_lines(2), ["1", "2"]);
    eventually("the death is told", SOON, || told.exists());
    crontab.eventually_idle();
    end(second);
    assert_eq!(fs::read_to_string(told).unwrap(), "failed yes\n");
    is_lost
}

/// A tick is taken by a host that is stopped, and asked to end before it goes on. `false`: that host has started it all the same.
fn is_another_s_at_once(server: &'static Server) -> bool {
    let crontab = Crontab::new(server, &job("", "echo $DBLOCK_ATTEMPT >>{}"));
    let first = crontab.start(&[]);
    let stopped = Frozen::new(first.pid());
    crontab.due("job");
    crontab.eventually_row("dblock_cron_ticks WHERE daemon IS NOT NULL");
    let second = crontab.start(&[]);
    first.signal(Signal::SIGTERM);
    drop(stopped);
    // The TTL is five minutes.
    let is_another_s = crontab.eventually_lines(1) == ["2"];
    crontab.eventually_idle();
    end(first);
    let taken: Vec<Option<String>> =
        crontab.rows("SELECT message FROM dblock_runs WHERE attempt = 1");
    if is_another_s {
        let why = taken[0].as_deref().unwrap_or_default();
        let is_said = why.ends_with("job: its host takes no more ticks");
        assert!(taken.len() == 1 && is_said, "{taken:?}");
    }
    end(second);
    is_another_s
}

#[test]
fn a_tick_that_was_ended_while_its_daemon_was_stopped_is_over_for_the_daemon_too() {
    let server = Server::shared(Kind::MariaDb);
    let command = "echo run >>{}; exec sleep 600";
    let crontab = Crontab::new(server, &job("--kill-after 1s --retries 3", command));
    let hook = format!(
        "echo hook $DBLOCK_RESULT ${{DBLOCK_WILL_RETRY-}} >>{}; echo out; echo err >&2",
        quoted(&crontab.record())
    );
    let daemon = crontab.start(&["--on-failure", &hook]);
    crontab.due("job");
    crontab.eventually_lines(1);
    let stopped = Frozen::new(daemon.pid());
    let kill = crontab.tables.at("kill").arg(crontab.name("job"));
    kill.output().expect_code(0);
    drop(stopped);
    assert_eq!(crontab.eventually_lines(2)[1], "hook lost no");
    let said = daemon.stderr();
    assert!(
        said.contains("was ended by ") && !said.contains("; again "),
        "{said}"
    );
    // What it prints has the job's name in front, as the output of the job.
    let lines = ["out", "err"].map(|line| format!("\n{}: {line}\n", crontab.name("job")));
    eventually("both lines are there", SOON, || {
        let said = daemon.stderr();
        lines.iter().all(|line| said.contains(line))
    });
    crontab.eventually_idle();
    end(daemon);
}
