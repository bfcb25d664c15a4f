//! `dblock cron run` when something is wrong: with what its commands write, with its own processes, with the server's tables and rows.
//! None of it stops the daemon, or loses a tick.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::crontab::{commands_of, end, job, questions, scheduler_of};
use crate::harness::{
    Crontab, Dblock, Frozen, Kind, PASSWORD, Pair, Proxy, Running, SOON, Server, all_servers,
    both_servers, eventually, eventually_gone, polls, quoted, send, stat_field, unique, url_of,
    within, write_program,
};
use crate::queue_admin::vanish_in_transactions;

/// A job whose ticks are far away.
const JOB: &str = "#: job\n0 0 1 1 * echo job $DBLOCK_ATTEMPT >>{}";

/// A command that goes on until there is a file.
const UNTIL_TOLD: &str = "echo begin >>{}; until test -e {}.go; do sleep 0.1; done; echo end >>{}";

/// A server that is not there. A port that was free just now may be another test's by now.
const NOBODY: &str = "mysql://dblock@127.0.0.1:1/dblock";

/// A daemon with an account of its own, whose password is `first`, and its name.
#[track_caller]
fn start_with_account(server: &Server, crontab: &Crontab) -> (String, Running) {
    let account = unique("cron_account");
    let create = format!("CREATE USER '{account}'@'%' IDENTIFIED BY 'first'");
    server.admin().query_drop(create).unwrap();
    crontab
        .tables
        .grant("SELECT, INSERT, UPDATE, DELETE", &account);
    let daemon = crontab.daemon(&[]).user(&account);
    let mut host = daemon.env("DBLOCK_PASSWORD", "first").spawn();
    host.wait_stderr("dblock: ready: ", SOON);
    (account, host)
}

fn set_password(server: &Server, account: &str, word: &str) {
    let alter = format!("ALTER USER '{account}'@'%' IDENTIFIED BY '{word}'");
    server.admin().query_drop(alter).unwrap();
}

/// Ends all sessions of an account.
fn end_sessions(server: &Server, account: &str) {
    let sessions =
        format!("SELECT id FROM information_schema.processlist WHERE user = '{account}'");
    for session in server.admin().query::<u64, _>(sessions).unwrap() {
        // It may have ended by itself.
        let _ = server.admin().query_drop(format!("KILL {session}"));
    }
}

both_servers! {
    fn a_command_that_writes_for_ever_keeps_the_daemon_from_nothing(server on mysql) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * echo run >>{}\n#: chatty\n0 0 1 1 * yes\nMAILTO=ops@example.org\n#: mailed\n0 0 1 1 * yes");
        let sendmail = crontab.sendmail("exec cat >/dev/null");
        let mut host = crontab.daemon(&["--grace", "1s"]).env("DBLOCK_SENDMAIL", &sendmail).stdout(Stdio::null()).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        for (number, name) in ["chatty", "mailed"].into_iter().enumerate() {
            crontab.due(name);
            eventually("it runs", SOON, || crontab.count("dblock_cron_ticks WHERE started_at IS NOT NULL") > number as u64);
        }
        crontab.due("job");
        crontab.eventually_lines(1);
        end(host);
    }

    fn nobody_reads_what_commands_write_and_the_daemon_goes_on(server on mariadb) {
        let lines = "#: loud\n0 0 1 1 * yes | head -c 300000; echo loud >>{}\n#: job\n0 0 1 1 * echo job; echo job >>{}";
        let crontab = Crontab::new(server, lines);
        let (unread, stdout) = nix::unistd::pipe().unwrap();
        let mut host = crontab.daemon(&["--grace", "1s"]).stdout(stdout).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("loud");
        crontab.eventually_row("dblock_cron_ticks WHERE started_at IS NOT NULL");
        for round in 1..=2 {
            crontab.due("job");
            assert_eq!(crontab.eventually_lines(round), vec!["job"; round]);
            eventually("it is over", SOON, || crontab.count("dblock_cron_ticks") == 1);
        }
        end(host);
        drop(unread);
    }

    fn it_is_said_once_that_what_commands_write_cannot_be_written(server on mysql) {
        let crontab = Crontab::new(server, &job("", "seq 3000; echo run >>{}"));
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut host = crontab.daemon(&[]).stdout(full).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        for round in 1..=2 {
            crontab.due("job");
            crontab.eventually_lines(round);
            crontab.eventually_idle();
        }
        host.signal(Signal::SIGTERM);
        let output = host.wait_within(SOON);
        let line = "dblock: cannot write to stdout: no space left on device; what commands write there is lost";
        let said = output.stderr.lines().filter(|said| said.to_lowercase() == line.to_lowercase());
        assert_eq!(said.count(), 1, "{}", output.stderr);
    }

    fn what_commands_write_is_whole_when_its_reader_was_slow(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "seq -f '\\%050.0f' 1 5000; printf 'the end'; echo run >>{}"));
        // No program of another test gets an end of it, and keeps it open.
        let (reader, stdout) = std::io::pipe().unwrap();
        let mut host = crontab.daemon(&[]).stdout(stdout).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        crontab.eventually_row("dblock_cron_ticks WHERE started_at IS NOT NULL");
        // It waits until there is room: 300 KB are more than two pipes hold.
        crontab.lines_stay(0);
        let reader = std::thread::spawn(move || std::io::read_to_string(reader).unwrap());
        crontab.eventually_lines(1);
        crontab.eventually_idle();
        end(host);
        let text = reader.join().unwrap();
        let name = crontab.name("job");
        let numbers = (1..=5000).map(|number| format!("{name}: {number:050}\n"));
        assert!(text == numbers.collect::<String>() + &format!("{name}: the end\n"), "{} bytes", text.len());
    }

    fn a_daemon_that_hangs_loses_its_ticks_like_one_that_is_gone(server on mysql) {
        let crontab = Crontab::new(server, &job("--ttl 4s", "echo run >>{}"));
        let mut first = crontab.start(&[]);
        let stopped = Frozen::new(first.pid());
        crontab.due("job");
        crontab.eventually_row("dblock_cron_ticks");
        // Its scheduler lives.
        let second = crontab.start(&[]);
        crontab.eventually_lines(1);
        crontab.eventually_idle();
        drop(stopped);
        eventually("it is alive again", SOON, || {
            crontab.count("dblock_cron_daemons WHERE expires_at > UTC_TIMESTAMP(6)") == 2
        });
        // It does not start what was another's meanwhile, and goes on.
        drop(second);
        crontab.due("job");
        crontab.eventually_lines(2);
        crontab.eventually_idle();
        assert_eq!(crontab.lines().len(), 2);
        assert!(first.is_running());
    }

    fn a_scheduler_that_hangs_keeps_the_daemon_from_nothing(server on mariadb) {
        let lines: Vec<String> = (0..20).map(|number| format!("#: job{number}\n0 0 1 1 * echo >>{{}}; while ! test -e {{}}.go; do sleep 0.1; done\n")).collect();
        let crontab = Crontab::new(server, &lines.concat());
        let host = crontab.start(&[]);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)");
        crontab.eventually_lines(20);
        let _frozen = Frozen::new(scheduler_of(host.pid()).unwrap());
        fs::write(crontab.path("record.go"), "").unwrap();
        // All of these ends are to be told, and nobody listens.
        eventually("all have ended", SOON, || commands_of(host.pid()).is_empty());
        end(host);
    }

    fn a_scheduler_that_hangs_is_replaced(server on mysql) {
        let crontab = Crontab::new(server, JOB);
        let mut host = crontab.start(&[]);
        let _frozen = Frozen::new(scheduler_of(host.pid()).unwrap());
        host.wait_stderr("dblock: the scheduler has hung for 2m; another one goes on", SOON + Duration::from_secs(120));
        crontab.due("job");
        crontab.eventually_lines(1);
        end(host);
    }

    fn what_was_taken_before_a_file_is_read_again_is_started(server on mariadb) {
        let crontab = Crontab::new(server, JOB);
        let host = crontab.start(&[]);
        let stopped = Frozen::new(host.pid());
        crontab.due("job");
        crontab.eventually_row("dblock_cron_ticks");
        // It does not poll again before it has told the daemon of the tick.
        let scheduler = scheduler_of(host.pid()).unwrap();
        eventually("the daemon was told", SOON, || polls(scheduler));
        crontab.write("#: other\n0 0 1 1 * true");
        host.signal(Signal::SIGHUP);
        drop(stopped);
        assert_eq!(crontab.eventually_lines(1), ["job 1"]);
        crontab.eventually_idle();
    }

    fn what_a_host_has_taken_and_no_longer_has_in_its_file_is_another_s(server on mysql) {
        let crontab = Crontab::new(server, JOB);
        let _first = crontab.start(&[]);
        crontab.write_to("without", "#: other\n0 0 1 1 * true\n#: third\n0 0 1 1 * true");
        let mut second = crontab.daemon_of("without", &[]).spawn();
        second.wait_stderr("dblock: ready: ", SOON);
        crontab.tables.sql(&format!(
            "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, daemon, ttl_seconds) \
             SELECT '{}', UTC_TIMESTAMP(6), REPEAT('a', 32), 1, daemon, 300 FROM dblock_cron_daemons WHERE jobs = 2", crontab.name("job")));
        assert_eq!(crontab.eventually_lines(1), ["job 2"]);
        crontab.eventually_idle();
        assert!(second.is_running());
    }
}

all_servers! {
    fn the_output_of_a_command_is_kept_also_where_the_scheduler_that_has_it_is_killed(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "echo begun >>{}; echo kept; until test -e {}.go; do sleep 0.1; done; exit 3"));
        let mut daemon = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let scheduler = scheduler_of(daemon.pid()).unwrap();
        let stopped = Frozen::new(scheduler);
        fs::write(crontab.path("record.go"), "").unwrap();
        daemon.wait_stderr(": exit 3", SOON);
        send(scheduler, Signal::SIGKILL);
        crontab.eventually_idle();
        let of_job = format!("dblock_outputs WHERE name = '{}'", crontab.name("job"));
        eventually("its output is kept", SOON, || crontab.count(&of_job) == 1);
        let output = crontab.tables.at("output").arg(crontab.name("job")).output();
        output.expect_code(0).expect_stdout("kept\n");
        end(daemon);
        drop(stopped);
    }

    fn commands_run_on_while_the_tables_are_missing_and_then_the_daemon_goes_on(server on mariadb) {
        let crontab = Crontab::new(server, &job("", UNTIL_TOLD));
        let go = crontab.path("record.go");
        let mut host = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.tables.sql("ALTER TABLE dblock_cron_jobs RENAME TO elsewhere");
        host.wait_stderr("; no ticks are taken until that is over", SOON);
        fs::write(&go, "").unwrap();
        eventually("the command has ended", SOON, || crontab.lines() == ["begin", "end"]);
        crontab.tables.sql("ALTER TABLE elsewhere RENAME TO dblock_cron_jobs");
        host.wait_stderr("dblock: ticks are taken again", SOON);
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 1);
        fs::remove_file(&go).unwrap();
        crontab.due("job");
        crontab.eventually_lines(3);
        fs::write(&go, "").unwrap();
        end(host);
    }

    fn callers_without_rows_stay_out_while_the_tables_are_missing_and_a_command_runs(server on mysql) {
        let other = "#: other --ttl 8s\n0 0 1 1 * true";
        let crontab = Crontab::new(server, &format!("{}\n{other}", job("--ttl 2m", "echo >>{}; exec sleep 600")));
        let mut host = crontab.start(&["--grace", "0s"]);
        crontab.due("job");
        crontab.eventually_lines(1);
        let session = crontab.holder("job");
        assert!(session.is_some());
        crontab.tables.sql("ALTER TABLE dblock_locks RENAME TO elsewhere");
        host.wait_stderr("; no ticks are taken until that is over", SOON);
        // The server keeps a silent session for no longer than the shortest TTL.
        let is_free = within(Duration::from_secs(12), || crontab.holder("job") != session);
        assert!(!is_free, "{}", host.stderr());
        crontab.tables.at("run").args(["--name", &crontab.name("job")]).command(["true"]).output().expect_code(75);
        crontab.tables.sql("ALTER TABLE elsewhere RENAME TO dblock_locks");
        host.wait_stderr("dblock: ticks are taken again", SOON);
        assert_eq!((crontab.holder("job"), crontab.lines().len()), (session, 1));
        end(host);
    }
}

both_servers! {
    fn a_daemon_that_may_write_to_a_read_only_server_leaves_it_all_the_same(shared) {
        let server = Server::private(shared.kind);
        let crontab = Crontab::alone(&server, JOB);
        let account = server.account_above_read_only();
        crontab.tables.grant("SELECT, INSERT, UPDATE, DELETE", &account);
        let mut host = crontab.daemon(&[]).user(&account).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        server.set_read_only(true);
        host.wait_stderr(" is read-only, ", SOON);
        server.set_read_only(false);
        crontab.due("job");
        crontab.eventually_lines(1);
        end(host);
    }

    fn a_tick_runs_once_though_its_server_becomes_read_only_and_the_account_may_write_there(shared) {
        // What the daemon is about to send then: it takes the tick, acquires the lock, or records the end.
        for asked in ["cron take", "take row", "release row"] {
            let pair = Pair::private(shared.kind);
            let crontab = Crontab::alone(&pair.primary, JOB);
            pair.primary.let_write_above_read_only("dblock");
            let proxy = Proxy::to(&pair.primary);
            let url = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:{}/", proxy.port, pair.replica.port);
            let mut host = crontab.daemon(&[]).env("DBLOCK_URL", &url).spawn();
            host.wait_stderr("dblock: ready: ", SOON);
            proxy.freeze_at_named(asked);
            crontab.due("job");
            eventually("it asks", SOON, || proxy.is_frozen());
            pair.part();
            proxy.thaw();
            let on_replica = |what: &str| -> Option<u64> {
                let sql = format!("SELECT COUNT(*) FROM {}.{what}", crontab.tables.quoted());
                pair.replica.admin().query_first(sql).unwrap()
            };
            eventually(&format!("{asked}: the run is recorded there"), SOON, || {
                on_replica("dblock_runs WHERE outcome = 'ran' AND exit_code = 0") == Some(1)
            });
            assert_eq!(on_replica("dblock_cron_ticks"), Some(0), "{asked}");
            assert_eq!(on_replica("dblock_locks WHERE owner IS NULL AND fence = 1"), Some(1), "{asked}");
            crontab.lines_stay(1);
            end(host);
        }
    }

    fn commands_run_on_while_the_password_is_another_and_then_the_daemon_goes_on(server on mysql) {
        let crontab = Crontab::new(server, &job("", UNTIL_TOLD));
        let go = crontab.path("record.go");
        let (account, mut host) = start_with_account(server, &crontab);
        let password = |word: &str| set_password(server, &account, word);
        crontab.due("job");
        crontab.eventually_lines(1);
        password("second");
        send(scheduler_of(host.pid()).unwrap(), Signal::SIGKILL);
        host.wait_stderr("; no ticks are taken until that is over", SOON);
        fs::write(&go, "").unwrap();
        eventually("the command has ended", SOON, || crontab.lines() == ["begin", "end"]);
        password("first");
        host.wait_stderr("dblock: ticks are taken again", SOON);
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 1);
        fs::remove_file(&go).unwrap();
        crontab.due("job");
        crontab.eventually_lines(3);
        fs::write(&go, "").unwrap();
        end(host);
    }

    fn a_scheduler_that_cannot_go_on_ends_the_commands_of_a_daemon_that_is_stopped(server on mariadb) {
        let crontab = Crontab::new(server, &job("--ttl 6s --kill-after 0.2s", "echo $$ >>{}; exec sleep 600"));
        let (account, host) = start_with_account(server, &crontab);
        crontab.due("job");
        let command: i32 = crontab.eventually_lines(1)[0].parse().unwrap();
        let stopped = Frozen::new(host.pid());
        set_password(server, &account, "second");
        eventually("the command is ended", SOON, || {
            // One that was just logging in is seen later.
            end_sessions(server, &account);
            stat_field(command, 0).is_none_or(|state| state == "Z")
        });
        set_password(server, &account, "first");
        drop(stopped);
        end(host);
    }

    fn what_ends_while_the_account_is_refused_is_released_and_recorded_later(server on mysql) {
        let crontab = Crontab::new(server, &job("--ttl 30s", "echo begin >>{}; while ! test -e {}.go; do sleep 0.1; done; echo end >>{}"));
        let (account, mut host) = start_with_account(server, &crontab);
        crontab.due("job");
        crontab.eventually_lines(1);
        set_password(server, &account, "second");
        end_sessions(server, &account);
        host.wait_stderr("; no ticks are taken until that is over", SOON);
        fs::write(crontab.path("record.go"), "").unwrap();
        eventually("the command has ended", SOON, || crontab.lines() == ["begin", "end"] && commands_of(host.pid()).is_empty());
        // A daemon that has nothing to record would give up after a minute.
        let since = Instant::now();
        eventually("the daemon has had time to give up", SOON * 5, || {
            assert!(host.is_running());
            since.elapsed() > Duration::from_secs(62)
        });
        set_password(server, &account, "first");
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_runs WHERE outcome = 'ran' AND exit_code = 0"), 1);
        // The time of its end is that of the command, and not that of the record.
        assert_eq!(crontab.count("dblock_runs WHERE TIMESTAMPDIFF(SECOND, ended_at, UTC_TIMESTAMP(6)) >= 60"), 1);
        assert_eq!(crontab.lines(), ["begin", "end"], "it ran once");
        end(host);
    }

    fn commands_run_on_when_the_schedulers_die_again_and_again(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "echo begin >>{}; sleep 8; echo end >>{}"));
        let mut host = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        // That each is ready for a moment changes nothing.
        eventually("the daemon gives up", SOON * 6, || {
            let ready = host.stderr().matches("dblock: ready: ").count();
            let killed = host.stderr().matches("another one goes on").count();
            if ready > killed
                && let Some(scheduler) = scheduler_of(host.pid()) {
                send(scheduler, Signal::SIGKILL);
                within(SOON, || scheduler_of(host.pid()) != Some(scheduler));
            }
            // The next one is not let live for a second: then its death would be the first one.
            !host.is_running() || host.stderr().contains("again and again")
        });
        let end = host.wait_within(SOON);
        end.expect_code(70);
        assert_eq!(crontab.lines(), ["begin", "end"]);
    }

    fn sendmail_gets_nothing_of_the_server_and_may_be_signalled(server on mysql) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * echo out");
        let said = quoted(&crontab.path("said"));
        let sendmail = crontab.sendmail(&format!("(env; grep SigBlk /proc/self/status) >{said}.part; mv {said}.part {said}"));
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).env("MYSQL_PWD", "secret-too").spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        eventually("a mail is sent", SOON, || crontab.path("said").exists());
        let said = fs::read_to_string(crontab.path("said")).unwrap();
        for wrong in [PASSWORD, "secret-too", "DBLOCK_URL", "DBLOCK_PASSWORD"] {
            assert!(!said.contains(wrong), "{wrong}: {said}");
        }
        assert!(said.contains("PATH=") && said.contains("SigBlk:\t0000000000000000"), "{said}");
    }

    fn a_daemon_that_ends_has_its_mails_sent(server on mariadb) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * echo out");
        let [begun, go, sent] = ["begun", "go", "sent"].map(|name| crontab.path(name));
        let until_told = format!("while ! test -e {}; do sleep 0.1; done", quoted(&go));
        let sendmail = crontab.sendmail(&format!(">{}; {until_told}; sleep 3; >{}", quoted(&begun), quoted(&sent)));
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        eventually("sendmail runs", SOON, || begun.exists());
        crontab.eventually_idle();
        assert!(!sent.exists());
        fs::write(go, "").unwrap();
        end(host);
        assert!(sent.exists());
    }

    fn a_sendmail_that_fails_is_told(server on mysql) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * echo out");
        let sendmail = crontab.sendmail("exit 75");
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        host.wait_stderr("job: its output may not be sent: sendmail ended with 75", SOON);
        end(host);
    }

    fn that_a_run_is_ended_is_said_once_on_stderr_and_in_its_mail(server on mariadb) {
        let crontab = Crontab::new(
            server,
            "#: plain\n0 0 1 1 * echo run >>{}; exec sleep 600\nMAILTO=ops@example.org\n#: mailed\n0 0 1 1 * echo run >>{}; exec sleep 600",
        );
        let sendmail = crontab.sendmail(&format!("cat >{0}.part; mv {0}.part {0}", quoted(&crontab.path("mail"))));
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        let line = |name: &str| format!("{} was ended by ", crontab.name(name));
        for (round, name) in (1..).zip(["plain", "mailed"]) {
            crontab.due(name);
            crontab.eventually_lines(round);
            crontab.tables.at("kill").arg(crontab.name(name)).output().expect_code(0);
            crontab.eventually_idle();
            let said = host.stderr();
            assert_eq!(said.matches(&line(name)).count(), 1, "{said}");
        }
        eventually("a mail is sent", SOON, || crontab.path("mail").exists());
        let mail = fs::read_to_string(crontab.path("mail")).unwrap();
        assert!(mail.contains(&line("mailed")), "{mail}");
        end(host);
    }

    fn a_host_that_comes_back_with_its_file_of_before_does_not_put_it_in_force(server) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * echo old >>{}");
        end(crontab.start(&[]));
        // The others have another one meanwhile.
        crontab.tables.sql("UPDATE dblock_cron_daemons SET host = 'of-before'");
        crontab.write_to("newer", "#: job\n0 0 2 2 * echo new >>{}");
        let mut other = crontab.daemon_of("newer", &[]).spawn();
        other.wait_stderr("dblock: ready: ", SOON);
        crontab.tables.sql("UPDATE dblock_cron_daemons SET host = CONCAT('now-', host) WHERE host <> 'of-before'");
        crontab.tables.sql("UPDATE dblock_cron_daemons SET host = (SELECT * FROM (SELECT SUBSTRING(host, 5) FROM dblock_cron_daemons WHERE host LIKE 'now-%') x) WHERE host = 'of-before'");
        let in_force = || crontab.rows::<String>("SELECT schedule FROM dblock_cron_jobs");
        let mut stale = crontab.start(&[]);
        stale.wait_stderr("job: another schedule is in force, and this host had its file before; SIGHUP puts this one in force", SOON);
        assert_eq!(in_force(), ["0 0 2 2 *"]);
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(1), ["new"]);
        crontab.eventually_idle();
        stale.signal(Signal::SIGHUP);
        eventually("it is in force", SOON, || in_force() == ["0 0 1 1 *"]);
        end(stale);
        // With a file that it did not have before it is as ever.
        crontab.write("#: job\n0 0 3 3 * echo third >>{}");
        let third = crontab.start(&[]);
        assert_eq!(in_force(), ["0 0 3 3 *"]);
        end(third);
        end(other);
    }
}

all_servers! {
    fn a_row_that_somebody_has_locked_holds_up_no_other_job(server) {
        assert!((0..3).any(|_| a_row_is_locked(server, 1, "20s")), "it has lost the session each time");
    }

    fn the_rows_of_hosts_that_vanish_while_they_change_jobs_are_soon_free(server) {
        let crontab = Crontab::new(server, "#: one\n0 0 1 1 * true\n#: two\n0 0 1 1 * true\n#: three\n0 0 1 1 * true");
        end(crontab.start(&[]));
        let actions = [("trigger", "one"), ("pause", "two"), ("resume", "three")];
        let actions = actions.map(|(command, job)| crontab.tables.at("cron").args([command, &crontab.name(job)]));
        vanish_in_transactions(&crontab.tables, "dblock_cron_jobs", actions.into());
    }

    fn a_row_that_somebody_has_locked_keeps_no_other_schedule_from_being_put_in_force(server) {
        let lines = |day: u32| {
            let line = |name: &str, day: u32| format!("#: {name}\n0 0 {day} 1 * echo {name} >>{{}}\n");
            line("locked", day) + &line("other", day) + &line("third", 1)
        };
        let crontab = Crontab::new(server, &lines(1));
        let mut host = crontab.start(&[]);
        let row = |name: &str| format!("dblock_cron_jobs WHERE name = '{}'", crontab.name(name));
        let holder = crontab.tables.lock(&row("locked"));
        crontab.write(&lines(2));
        host.signal(Signal::SIGHUP);
        host.wait_stderr("locked: another session keeps the row locked; ", SOON);
        let is_new = |name: &str| crontab.count(&format!("{} AND schedule = '0 0 2 1 *'", row(name))) == 1;
        assert!(is_new("other") && !is_new("locked"));
        crontab.due("third");
        assert_eq!(crontab.eventually_lines(1), ["third"]);
        drop(holder);
        eventually("it is in force", SOON, || is_new("locked"));
        crontab.eventually_idle();
        end(host);
    }
}

both_servers! {
    fn a_row_that_somebody_has_locked_holds_up_no_other_job_also_with_a_short_connect_timeout(server) {
        // Two seconds for each, of which there are several so that there is time to find one.
        // A server that stands still for three more is given up.
        assert!((0..3).any(|_| a_row_is_locked(server, 4, "8s")), "it has lost the session each time");
    }

    fn a_job_has_streams_also_where_the_daemon_was_started_without(server on mariadb) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * read it; echo out && echo err >&2 && echo fine $it >>{}; echo over >>{}%in");
        let closed = || {
            for descriptor in 0..3 {
                // SAFETY: nothing of this process uses it again.
                unsafe { libc::close(descriptor) };
            }
            Ok(())
        };
        let _host = crontab.daemon(&[]).pre_exec(closed).spawn();
        crontab.eventually_row("dblock_cron_jobs");
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(2), ["fine in", "over"]);
    }

    fn a_daemon_does_not_wait_for_a_scheduler_that_has_nothing_to_say(server on mysql) {
        let crontab = Crontab::new(server, JOB);
        let mut host = crontab.start(&[]);
        let frozen = Frozen::new(scheduler_of(host.pid()).unwrap());
        // What the scheduler asks next is not answered.
        let mut holder = crontab.tables.admin();
        holder.query_drop("LOCK TABLES dblock_cron_jobs WRITE, dblock_cron_ticks WRITE, dblock_cron_daemons WRITE").unwrap();
        // It is told of each signal: more than there is room for, while nobody listens.
        let until = Instant::now() + Duration::from_secs(2);
        for _ in 0..600 {
            host.signal(Signal::SIGTERM);
            while has_pending(host.pid()) && Instant::now() < until {}
        }
        drop(frozen);
        // It has heard all of that by then.
        let asks = "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table%' AND info LIKE CONCAT('%', DATABASE(), '%')";
        within(Duration::from_secs(2), || !crontab.rows::<u64>(asks).is_empty());
        let _frozen = scheduler_of(host.pid()).and_then(Frozen::of);
        host.wait_within(SOON).expect_code(0);
    }

    fn a_limit_on_the_size_of_files_does_not_end_the_daemon(server on mariadb) {
        let crontab = Crontab::new(server, "#: loud\n0 0 1 1 * seq 100000; echo loud >>{}\nMAILTO=ops@example.org\n#: mailed\n0 0 1 1 * seq 100000; echo mailed >>{}");
        let sendmail = crontab.sendmail("tail -n 1 >>{}");
        let limited = ["sh", "-c", "ulimit -f 200; exec \"$@\"", "sh"];
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).under(limited).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("loud");
        assert_eq!(crontab.eventually_lines(1), ["loud"]);
        crontab.eventually_idle();
        crontab.due("mailed");
        assert_eq!(crontab.eventually_lines(3)[1], "mailed");
        host.wait_stderr("mailed: its mail does not have all of its output: File too large", SOON);
        end(host);
    }

    fn a_daemon_whose_server_is_slow_puts_its_file_in_force(server on mysql) {
        assert!((0..3).any(|_| a_slow_server_has_the_file(server)), "it has lost the session each time");
    }

    fn a_daemon_that_was_stopped_for_long_keeps_its_scheduler(server on mariadb) {
        let crontab = Crontab::new(server, JOB);
        let hosts = [crontab.start(&[]), crontab.start(&[])];
        let schedulers = hosts.each_ref().map(|host| scheduler_of(host.pid()).unwrap());
        // Of one the machine sleeps.
        let asleep = Frozen::new(schedulers[0]);
        let stopped = hosts.each_ref().map(|host| Frozen::new(host.pid()));
        within(Duration::from_secs(130), || false);
        drop(stopped);
        eventually("they go on", SOON, || hosts.iter().all(|host| stat_field(host.pid(), 0).is_some_and(|state| state == "S")));
        drop(asleep);
        crontab.due("job");
        crontab.eventually_lines(1);
        for (host, scheduler) in hosts.into_iter().zip(schedulers) {
            assert_eq!(scheduler_of(host.pid()), Some(scheduler), "{}", host.stderr());
            assert!(!host.stderr().contains("no server has answered"), "{}", host.stderr());
            end(host);
        }
    }

    fn a_sendmail_that_is_gone_at_the_end_is_told(server on mysql) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * echo out; rm {}.sendmail");
        let sendmail = crontab.sendmail("exec cat >/dev/null");
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        host.wait_stderr("job: its output may not be sent: sendmail ended with 127", SOON);
        assert!(host.stderr().contains(&format!("job: cannot start {}: ", sendmail.display())), "{}", host.stderr());
        end(host);
    }

    fn output_is_sent_also_where_the_host_has_another_name_meanwhile(server on mariadb) {
        let name = "a-name-that-is-so-long-that-the-headers-are-longer-than-before";
        let crontab = Crontab::new(server, &format!("MAILTO=ops@example.org\n#: job\n0 0 1 1 * echo out; hostname {name}"));
        let sendmail = crontab.sendmail("tail -n 1 >>{}");
        let own_name = ["unshare", "--uts", "sh", "-c", "hostname short; exec \"$@\"", "sh"];
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).under(own_name).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(1), ["out"]);
        end(host);
    }

    fn a_mail_that_is_cut_says_so(server on mysql) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * yes | head -c 11000000");
        let sendmail = crontab.sendmail("tail -n 1 >>{}");
        let mut host = crontab.daemon(&[]).env("DBLOCK_SENDMAIL", &sendmail).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(1), ["[dblock: the output is longer than 10 MiB; the rest is left out]"]);
        end(host);
    }

    fn sendmail_has_the_limit_of_files_that_dblock_was_given(server on mariadb) {
        let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * echo out");
        let sendmail = crontab.sendmail("ulimit -Sn >>{}");
        let limited = ["sh", "-c", "ulimit -Sn 256; exec \"$@\"", "sh"];
        let mut host = crontab.daemon(&["-j", "100"]).env("DBLOCK_SENDMAIL", &sendmail).under(limited).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        assert_eq!(crontab.eventually_lines(1), ["256"]);
        end(host);
    }

    fn a_daemon_that_seeks_a_server_is_not_ready_after_sighup(server on mysql) {
        let crontab = Crontab::new(server, JOB);
        let path = crontab.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        let mut host = crontab.daemon(&[]).env("DBLOCK_URL", NOBODY).env("NOTIFY_SOCKET", &path).spawn();
        eventually("it seeks", SOON, || scheduler_of(host.pid()).is_some());
        host.signal(Signal::SIGHUP);
        host.wait_stderr(" again: 1 job", SOON);
        host.signal(Signal::SIGTERM);
        host.wait_within(SOON).expect_code(0);
        let mut bytes = [0; 100];
        let length = socket.recv(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes[..length]), "STOPPING=1");
    }

    fn a_home_that_is_no_text_is_the_commands_too(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "pwd >>{}; echo \"$HOME\" >>{}; echo >>{}.done"));
        let home = crontab.path("").join(OsStr::from_bytes(b"h\xf6me"));
        fs::create_dir(&home).unwrap();
        let mut host = crontab.daemon(&[]).env("HOME", &home).spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        eventually("it has run", SOON, || crontab.path("record.done").exists());
        let line = [home.as_os_str().as_bytes(), b"\n"].concat();
        assert_eq!(fs::read(crontab.record()).unwrap(), line.repeat(2));
        end(host);
    }
}

/// Somebody has locked the row of one job out of eight. Whether the daemon has kept its session: a row that is locked is no reason to connect
/// again.
fn a_row_is_locked(server: &Server, times: usize, connect_timeout: &str) -> bool {
    let lines = (0..8).fold(String::new(), |lines, number| {
        lines + &format!("#: job{number}\n0 0 1 1 * echo {number} >>{{}}\n")
    });
    let crontab = Crontab::new(server, &lines);
    let mut host = crontab
        .daemon(&[])
        .env("DBLOCK_URL", url_of(vec![server; times]))
        .env("DBLOCK_CONNECT_TIMEOUT", connect_timeout)
        .spawn();
    host.wait_stderr("dblock: ready: ", SOON);
    // It takes none before the row is locked.
    let frozen = Frozen::new(scheduler_of(host.pid()).unwrap());
    crontab.tables.sql(
        "UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6), changed_at = UTC_TIMESTAMP(6)",
    );
    let holder = crontab.tables.lock(&format!(
        "dblock_cron_jobs WHERE name = '{}'",
        crontab.name("job3")
    ));
    drop(frozen);
    let mut lines = crontab.eventually_lines(7);
    lines.sort();
    assert_eq!(lines, ["0", "1", "2", "4", "5", "6", "7"]);
    // Nor the next time.
    for round in 8..=9 {
        crontab.eventually_idle();
        crontab.due("job4");
        crontab.eventually_lines(round);
    }
    let has_kept_it = !host.stderr().contains("lost the session");
    drop(holder);
    assert_eq!(crontab.eventually_lines(10)[9], "3");
    has_kept_it
}

/// A daemon puts a long file in force on a slow server. Whether it has kept its session: a server that stands still besides is left.
fn a_slow_server_has_the_file(server: &Server) -> bool {
    let lines = (0..4500).map(|number| format!("#: job{number}\n0 0 1 1 * true\n"));
    let crontab = Crontab::new(server, JOB);
    end(crontab.start(&[]));
    crontab.write(&lines.collect::<String>());
    // Longer than it takes for a scheduler to hang, and than a server may take to be found.
    crontab
        .tables
        .sql("CREATE TRIGGER slow BEFORE INSERT ON dblock_cron_jobs FOR EACH ROW DO SLEEP(0.03)");
    let daemon = crontab.daemon(&[]);
    let mut host = daemon.env("DBLOCK_CONNECT_TIMEOUT", "5s").spawn();
    host.wait_stderr("dblock: ready: 4500 jobs", Duration::from_secs(240));
    let said = host.stderr();
    end(host);
    assert!(!said.contains("has hung"), "{said}");
    !said.contains("lost the session")
}

/// On a server of its own, where each statement is one of a daemon's.
#[test]
fn what_is_another_s_or_to_come_is_asked_for_once_a_second() {
    let server = Server::private(Kind::MariaDb);
    let names: Vec<String> = (0..20).map(|number| format!("job{number}")).collect();
    let lines: Vec<String> = names
        .iter()
        .map(|name| format!("#: {name}\n0 0 1 1 * echo {name} >>{{}}; sleep 60\n"))
        .collect();
    let crontab = Crontab::alone(&server, &lines.concat());
    let hosts = [crontab.start(&[]), crontab.start(&[])];
    let asked = |limit: u64| {
        within(Duration::from_secs(2), || false);
        let (since, before) = (Instant::now(), questions(&server));
        within(Duration::from_secs(5), || false);
        let (asked, millis) = (questions(&server) - before, since.elapsed().as_millis());
        // A test that was stopped meanwhile has counted for longer.
        assert!(
            u128::from(asked) * 5000 <= u128::from(limit) * millis,
            "{asked} statements in {millis} ms"
        );
    };
    // Ticks of a daemon that is gone, whose runs hold their locks.
    let mut admin = crontab.tables.admin();
    for (number, name) in names.iter().enumerate() {
        let run = format!("{number:032x}");
        for statement in [
            format!(
                "INSERT INTO dblock_locks (name, slot, owner, expires_at) \
                 VALUES ('{name}', 0, '{run}', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)"
            ),
            format!(
                "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, daemon, ttl_seconds, started_at) \
                 VALUES ('{name}', UTC_TIMESTAMP(6), '{run}', 1, REPEAT('f', 32), 300, UTC_TIMESTAMP(6))"
            ),
        ] {
            admin.query_drop(statement).unwrap();
        }
    }
    asked(30);
    for table in ["dblock_cron_ticks", "dblock_locks"] {
        admin.query_drop(format!("DELETE FROM {table}")).unwrap();
    }
    // A trigger whose time is to come, by a server whose clock was set back, while the job runs.
    crontab.due("job7");
    crontab.eventually_lines(1);
    admin
        .query_drop(
            "UPDATE dblock_cron_jobs SET triggered_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, changed_at = UTC_TIMESTAMP(6) \
             WHERE name = 'job7'",
        )
        .unwrap();
    asked(40);
    drop(hosts);
}

#[test]
fn renewals_that_find_no_room_are_tried_again_once_a_second() {
    let server = Server::private(Kind::MariaDb);
    // That TTL has it renew once a second.
    let crontab = Crontab::alone(&server, &job("--ttl 4s", "echo run >>{}"));
    let mut host = crontab.start(&[]);
    crontab.tables.sql(
        "CREATE TRIGGER no_room BEFORE UPDATE ON dblock_cron_daemons FOR EACH ROW SIGNAL SQLSTATE 'HY000' \
         SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'",
    );
    host.wait_stderr("The table is full (error 1114)", SOON);
    let (since, before) = (Instant::now(), questions(&server));
    within(Duration::from_secs(3), || false);
    let (asked, millis) = (questions(&server) - before, since.elapsed().as_millis());
    // A test that was stopped meanwhile has counted for longer.
    assert!(
        u128::from(asked) * 3000 <= 25 * millis,
        "{asked} statements in {millis} ms"
    );
    crontab.eventually_row("dblock_cron_daemons WHERE expires_at < UTC_TIMESTAMP(6)");
    crontab.tables.sql("DROP TRIGGER no_room");
    crontab.eventually_row("dblock_cron_daemons WHERE expires_at > UTC_TIMESTAMP(6)");
    crontab.due("job");
    crontab.eventually_lines(1);
    end(host);
}

/// Processor time of a process until now, in hundredths of a second.
fn processor_time(pid: i32) -> u64 {
    [11, 12]
        .map(|place| stat_field(pid, place).unwrap().parse::<u64>().unwrap())
        .iter()
        .sum()
}

#[test]
fn a_daemon_that_seeks_a_server_for_long_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("crontab");
    fs::write(&file, "* * * * * true\n").unwrap();
    let mut host = Dblock::bare()
        .args(["cron", "run"])
        .arg(&file)
        .env("DBLOCK_URL", NOBODY)
        .env("DBLOCK_CONNECT_TIMEOUT", "44s")
        .without_terminal()
        .spawn();
    // What is said of a server that falls silent comes after 30 seconds.
    within(Duration::from_secs(31), || false);
    let before = processor_time(host.pid());
    within(Duration::from_secs(2), || false);
    let used = processor_time(host.pid()) - before;
    assert!(used < 50, "{used} hundredths of a second in two seconds");
    host.wait_within(SOON)
        .expect_code(69)
        .expect_one_line("no server could be reached within 44s: ");
}

#[test]
fn a_daemon_that_cannot_go_on_ends_with_the_reason() {
    let server = Server::shared(Kind::MariaDb);
    let crontab = Crontab::new(server, JOB);
    let mut host = crontab.start(&[]);
    crontab.tables.sql("DROP TABLE dblock_cron_jobs");
    host.wait_stderr("; no ticks are taken until that is over", SOON);
    // A scheduler that has just been forked looks like a command.
    eventually("nothing runs", SOON, || commands_of(host.pid()).is_empty());
    host.wait_within(Duration::from_secs(60) + SOON)
        .expect_code(78);
}

/// Whether a signal waits to be seen by this process.
fn has_pending(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("ShdPnd:"));
    line.is_some_and(|line| !line.ends_with("0000000000000000"))
}

#[test]
fn a_daemon_reads_no_crontab_from_stdin() {
    let output = Dblock::bare().args(["cron", "run", "-"]).output();
    output
        .expect_code(64)
        .expect_one_line("reads its crontab again upon SIGHUP, which stdin cannot be; name a file");
}

#[test]
fn a_sendmail_that_takes_too_long_is_ended_with_its_children() {
    let server = Server::shared(Kind::MariaDb);
    let crontab = Crontab::new(server, "MAILTO=ops@example.org\n#: job\n0 0 1 1 * echo out");
    let sendmail = crontab.path("sendmail");
    write_program(
        &sendmail,
        format!(
            "#!/bin/sh\nsleep 1000 &\necho $! >>{}\nwait\n",
            quoted(&crontab.record())
        )
        .as_bytes(),
    );
    let mut host = crontab
        .daemon(&[])
        .env("DBLOCK_SENDMAIL", &sendmail)
        .spawn();
    host.wait_stderr("dblock: ready: ", SOON);
    crontab.due("job");
    let child: i32 = crontab.eventually_lines(1)[0].parse().unwrap();
    host.wait_stderr(
        "job: its output may not be sent: sendmail took too long",
        Duration::from_secs(300) + SOON,
    );
    eventually_gone(child, SOON);
    end(host);
}

all_servers! {
    fn on_servers_that_are_all_read_only_nothing_is_changed_and_one_is_named(shared) {
        let server = Server::private(shared.kind);
        let crontab = Crontab::alone(&server, JOB);
        server.set_read_only(true);
        let url = url_of([&server, &server]);
        let on_both = |dblock: Dblock| dblock.args(["--connect-timeout", "12"]).env("DBLOCK_URL", &url).spawn();
        let of_job = |command| on_both(crontab.tables.at("cron").args([command, "job"]));
        for refused in [of_job("pause"), of_job("resume"), of_job("trigger"), on_both(crontab.daemon(&[]))] {
            refused.wait().expect_code(78).expect_stdout("").expect_said([" is read-only, "]);
        }
        // It becomes a primary in time.
        let mut waiting = crontab.daemon(&["--connect-timeout", "50"]).env("DBLOCK_URL", &url).spawn();
        waiting.wait_stderr("is read-only", SOON);
        server.set_read_only(false);
        waiting.wait_stderr("dblock: ready: ", SOON);
    }
}
