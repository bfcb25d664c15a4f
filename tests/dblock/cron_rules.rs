//! `dblock cron run`: what becomes of a job that is paused, renamed or taken out of the file, of attempts that nobody made in time, and
//! what the tables say of it.

use std::fs;
use std::time::Duration;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::crontab::{end, job, scheduler_of, stays};
use crate::harness::{
    Crontab, Dblock, Frozen, Kind, SOON, Server, all_servers, both_servers, eventually, kill_both,
    send, slack, within,
};

/// A tick of the job whose host has died in it so long ago.
fn orphan(crontab: &Crontab, ago: &str) {
    crontab.tables.sql(&format!(
        "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, daemon, ttl_seconds, started_at) VALUES ('{}', \
         UTC_TIMESTAMP(6) - INTERVAL {ago}, REPEAT('0', 32), 1, REPEAT('1', 32), 4, UTC_TIMESTAMP(6) - INTERVAL {ago})",
        crontab.name("job")
    ));
}

both_servers! {
    fn the_history_has_the_first_word_and_not_what_is_set_in_it(server on mysql) {
        let crontab = Crontab::new(server, &job("", "TOKEN='secret one' KEY=secret /bin/true --password=secret && echo >>{}"));
        let _host = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.eventually_idle();
        let programs: Vec<String> = crontab.rows("SELECT program FROM dblock_runs");
        assert_eq!(programs, ["TOKEN"]);
    }

    fn the_longest_fields_that_check_takes_run(server on mariadb) {
        // A schedule, a name, a variable, a command, and a stdin.
        let (minutes, long) = ("0,".repeat(495) + "0", "x".repeat(60_000));
        let name = "n".repeat(150);
        let lines = format!("LONG={long}\n#: {name}\n{minutes} 0 1 1 * : {long}; wc -c >>{{}}%{long}");
        let crontab = Crontab::new(server, &lines);
        assert!(minutes.len() + " 0 1 1 *".len() > 990);
        let file = crontab.path("crontab");
        Dblock::bare().args(["cron", "check"]).arg(&file).output().expect_code(0);
        let mut host = crontab.start(&[]);
        crontab.due(&name);
        assert_eq!(crontab.eventually_lines(1), ["60001"]);
        crontab.eventually_idle();
        // What is longer is refused, by both.
        crontab.write(&format!("#: job\n{minutes}{minutes} 0 1 1 * true"));
        let line = format!("{}:3: the schedule has more than 1000 characters", file.display());
        Dblock::bare().args(["cron", "check"]).arg(&file).output().expect_code(78).expect_one_line(&line);
        host.signal(Signal::SIGHUP);
        host.wait_stderr("the schedule has more than 1000 characters", SOON);
        host.wait_stderr("what was read before stays in force", SOON);
    }

    fn a_daemon_without_a_home_starts_its_commands_in_that_of_its_user(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "(pwd; echo $HOME) >>{}"));
        let mut host = crontab.daemon(&[]).env_remove("HOME").spawn();
        host.wait_stderr("dblock: ready: ", SOON);
        crontab.due("job");
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
        let user = nix::unistd::geteuid().to_string();
        let line = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|line| line[2] == user).unwrap();
        assert_eq!(crontab.eventually_lines(2), [line[5]; 2]);
    }

    fn what_is_under_way_goes_on_while_its_job_is_paused(server on mysql) {
        let options = "--retries 1 --retry-delay 1h";
        let crontab = Crontab::new(server, &job(options, "echo $DBLOCK_ATTEMPT >>{}; test $DBLOCK_ATTEMPT = 2"));
        let _host = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.eventually_row("dblock_cron_ticks WHERE daemon IS NULL");
        crontab.does_to("pause", "job");
        crontab.tables.sql("UPDATE dblock_cron_ticks SET start_at = UTC_TIMESTAMP(6)");
        assert_eq!(crontab.eventually_lines(2), ["1", "2"]);
        crontab.eventually_idle();
        // So does a tick whose host has died.
        orphan(&crontab, "1 SECOND");
        assert_eq!(crontab.eventually_lines(3)[2], "2");
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_cron_jobs WHERE paused_at IS NOT NULL"), 1);
    }
}

all_servers! {
    fn an_attempt_that_nobody_made_within_the_deadline_is_given_up(server on mariadb) {
        let options = "--retries 1 --retry-delay 2h --deadline 30m";
        let crontab = Crontab::new(server, &job(options, "echo $DBLOCK_ATTEMPT >>{}; false"));
        let _host = crontab.start(&[]);
        crontab.due("job");
        crontab.eventually_lines(1);
        crontab.eventually_row("dblock_cron_ticks WHERE daemon IS NULL");
        crontab.tables.sql("UPDATE dblock_cron_ticks SET start_at = UTC_TIMESTAMP(6) - INTERVAL 31 MINUTE");
        crontab.eventually_idle();
        orphan(&crontab, "31 MINUTE");
        crontab.eventually_idle();
        let runs: Vec<(u32, String, Option<String>)> = crontab.rows("SELECT attempt, outcome, message FROM dblock_runs ORDER BY requested_at");
        let given_up = |run: &(u32, String, Option<String>)| {
            let message = run.2.clone().unwrap_or_default();
            let is_said = message.contains("job: missed attempt 2 of the tick 20") && message.ends_with("Z: no host made it in time; abandoned");
            run.0 == 2 && run.1 == "skipped" && is_said
        };
        assert!(runs.len() == 3 && runs[0].1 == "ran" && given_up(&runs[1]) && given_up(&runs[2]), "{runs:#?}");
        // One that is in time is made.
        orphan(&crontab, "29 MINUTE");
        assert_eq!(crontab.eventually_lines(2), ["1", "2"]);
    }

    fn a_tick_that_was_settled_is_not_the_next_one_of_another_schedule(server) {
        let crontab = Crontab::new(server, &job("", "true"));
        let host = crontab.start(&[]);
        let settle = |moment: &str, schedule: &str| {
            crontab.tables.sql(&format!("UPDATE dblock_cron_jobs SET settled_at = {moment}, changed_at = UTC_TIMESTAMP(6)"));
            crontab.write(&job("", "true").replace("0 0 1 1 *", schedule));
            host.signal(Signal::SIGHUP);
            crontab.eventually_row(&format!("dblock_cron_jobs WHERE schedule = '{schedule}'"));
        };
        // As by another server, whose clock was a little ahead.
        settle(&crontab.minutes_ago(-2), "* * * * *");
        assert_eq!(crontab.count("dblock_cron_jobs WHERE next_at = settled_at + INTERVAL 1 MINUTE"), 1);
        // That clock was wrong.
        settle("UTC_TIMESTAMP(6) + INTERVAL 2 DAY", "*/1 * * * *");
        assert_eq!(crontab.count("dblock_cron_jobs WHERE next_at < UTC_TIMESTAMP(6) + INTERVAL 61 SECOND"), 1);
    }
}

both_servers! {
    fn a_tick_that_is_settled_while_another_schedule_is_put_in_force_is_not_taken_again(server) {
        let crontab = Crontab::new(server, &job("", "true"));
        let host = crontab.start(&[]);
        let mut admin = crontab.tables.admin();
        let (mut other, mut met) = (crontab.tables.admin(), false);
        for schedule in ["* * * * *", "*/1 * * * *", "0-59 * * * *"] {
            other.query_drop("BEGIN").unwrap();
            other.query_drop("SELECT * FROM dblock_cron_jobs FOR UPDATE").unwrap();
            crontab.write(&job("", "true").replace("0 0 1 1 *", schedule));
            host.signal(Signal::SIGHUP);
            // It knows the row as it was, and waits to change it.
            let waiting = format!(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'INSERT INTO `{}`.dblock_cron_jobs%'",
                crontab.tables.database);
            met |= within(SOON, || admin.query_first::<u64, _>(&waiting).unwrap() == Some(1));
            other.query_drop(
                "UPDATE dblock_cron_jobs SET settled_at = DATE_FORMAT(UTC_TIMESTAMP() + INTERVAL 2 MINUTE, '%Y-%m-%d %H:%i:00'), \
                 next_at = settled_at + INTERVAL 5 MINUTE").unwrap();
            other.query_drop("COMMIT").unwrap();
            crontab.eventually_row(&format!("dblock_cron_jobs WHERE schedule = '{schedule}'"));
            assert_eq!(crontab.count("dblock_cron_jobs WHERE next_at = settled_at + INTERVAL 1 MINUTE"), 1, "{schedule}");
        }
        assert!(met, "the daemon was in front of it each time");
        // It was put in force.
        assert!(!host.stderr().contains("another schedule is in force"), "{}", host.stderr());
    }

    fn of_very_many_missed_ticks_the_last_is_named_and_their_number_is_the_least(server on mysql) {
        let crontab = Crontab::new(server, "#: job --deadline 300d\n* * * * * echo $DBLOCK_TICK >>{}");
        let host = crontab.start(&[]);
        crontab.does_to("pause", "job");
        crontab.due_since("job", "TIMESTAMP(DATE_FORMAT(UTC_TIMESTAMP() - INTERVAL 200 DAY, '%Y-%m-%d %H:%i:00'))");
        let resumed = crontab.tables.at("cron").arg("resume").arg(crontab.name("job")).output();
        let said = format!("resumed {}; at least 100000 ticks were skipped\n", crontab.name("job"));
        resumed.expect_code(0).expect_silence().expect_stdout(&said);
        let skipped = |what: &str| {
            let message = "message LIKE '%at least 100000 ticks, % to %' AND message LIKE CONCAT('% to ', DATE_FORMAT(tick, '%Y-%m-%dT%H:%i:%sZ'), '%')";
            crontab.eventually_row(&format!(
                "dblock_runs WHERE outcome = 'skipped' AND {message} AND message LIKE '%{what}%' AND tick > UTC_TIMESTAMP(6) - INTERVAL 3 MINUTE"));
        };
        skipped("paused;");
        assert_eq!(crontab.count("dblock_cron_jobs WHERE next_at > UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE"), 1);
        // The same by a daemon, which makes up for the last.
        crontab.due_since("job", "TIMESTAMP(DATE_FORMAT(UTC_TIMESTAMP() - INTERVAL 200 DAY, '%Y-%m-%d %H:%i:00'))");
        skipped("not run");
        crontab.eventually_idle();
        assert_eq!(crontab.count("dblock_cron_jobs WHERE next_at > UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE"), 1);
        let old = "dblock_runs WHERE outcome = 'ran' AND tick <= UTC_TIMESTAMP(6) - INTERVAL 2 MINUTE";
        assert!(crontab.count("dblock_runs WHERE outcome = 'ran'") > 0 && crontab.count(old) == 0);
        end(host);
    }
}

all_servers! {
    fn each_of_two_daemons_of_a_host_has_its_own_file_of_before(server on mariadb) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * true");
        crontab.write_to("other", "#: other\n0 0 1 1 * true");
        let in_force = || crontab.rows::<String>(&format!("SELECT schedule FROM dblock_cron_jobs WHERE name = '{}'", crontab.name("job")));
        let replace = || crontab.tables.sql(&format!(
            "UPDATE dblock_cron_jobs SET schedule = '0 0 9 9 *', changed_at = UTC_TIMESTAMP(6) WHERE name = '{}'", crontab.name("job")));
        let known = "job: another schedule is in force, and this host had its file before";
        let first = crontab.start(&[]);
        let mut other = crontab.daemon_of("other", &[]).spawn();
        other.wait_stderr("dblock: ready: ", SOON);
        end(first);
        // Other hosts have replaced it since.
        replace();
        let mut again = crontab.start(&[]);
        again.wait_stderr(known, SOON);
        assert_eq!(in_force(), ["0 0 9 9 *"]);
        // The machine boots: both begin again.
        end(again);
        end(other);
        let mut other = crontab.daemon_of("other", &[]).spawn();
        other.wait_stderr("dblock: ready: ", SOON);
        let mut again = crontab.start(&[]);
        again.wait_stderr(known, SOON);
        assert_eq!(in_force(), ["0 0 9 9 *"]);
        end(again);
        // A file that was replaced on this host itself is put in force when it is back.
        for schedule in ["0 0 2 2 *", "0 0 1 1 *"] {
            crontab.write(&format!("#: job\n{schedule} true"));
            let host = crontab.start(&[]);
            assert_eq!(in_force(), [schedule]);
            end(host);
        }
        end(other);
    }

    fn the_last_file_of_each_daemon_of_a_host_is_kept_for_a_week(server on mysql) {
        let crontab = Crontab::new(server, &job("", "true"));
        end(crontab.start(&[]));
        crontab.tables.sql("DELETE FROM dblock_cron_daemons");
        let gone = |daemon: u32, began: u32, ended: u32| crontab.tables.sql(&format!(
            "INSERT INTO dblock_cron_daemons (daemon, host, pid, user, slots, jobs, definition, started_at, renewed_at, expires_at, alive_since) \
             SELECT REPEAT('{daemon}', 32), 'web1', 1, 'app', 1, 1, '', UTC_TIMESTAMP(6) - INTERVAL {began} DAY, e, e, e FROM \
             (SELECT UTC_TIMESTAMP(6) - INTERVAL {ended} DAY AS e) x"));
        // Two that ran side by side, the one that the first of them has succeeded, and one of long ago.
        for (daemon, began, ended) in [(1, 6, 4), (2, 5, 3), (3, 7, 6), (4, 9, 8)] {
            gone(daemon, began, ended);
        }
        let _host = crontab.start(&[]);
        eventually("what is too old is deleted", SOON, || crontab.count("dblock_cron_daemons WHERE host = 'web1'") == 2);
        let left: Vec<String> = crontab.rows("SELECT LEFT(daemon, 1) FROM dblock_cron_daemons WHERE host = 'web1' ORDER BY daemon");
        assert_eq!(left, ["1", "2"]);
    }
}

both_servers! {
    fn a_trigger_that_is_interrupted_is_done_once(server) {
        let crontab = Crontab::new(server, &job("", "true"));
        end(crontab.start(&[]));
        let (mut holder, mut admin) = (crontab.tables.admin(), crontab.tables.admin());
        holder.query_drop("LOCK TABLES dblock_cron_daemons WRITE").unwrap();
        let triggering = crontab.tables.at("cron").args(["trigger", "-v"]).arg(crontab.name("job"));
        // It does not end by itself meanwhile.
        let triggering = triggering.env("DBLOCK_CONNECT_TIMEOUT", "60s").spawn();
        let waiting = format!(
            "SELECT id FROM information_schema.processlist WHERE info LIKE '/* dblock cron count */%{}%'", crontab.tables.database);
        for interrupted in 0..3 {
            let mut waits: Option<u64> = None;
            eventually("it asks who could run the job", SOON, || {
                // In this order: what waits is not the statement that was interrupted last.
                let asks_anew = triggering.stderr().matches("trying again").count() >= interrupted;
                waits = admin.query_first(&waiting).unwrap();
                asks_anew && waits.is_some()
            });
            // No daemon could have taken it, to be told of it once more.
            assert_eq!(crontab.count("dblock_cron_jobs WHERE triggered_at IS NOT NULL"), 0);
            admin.query_drop(format!("KILL QUERY {}", waits.unwrap())).unwrap();
        }
        holder.query_drop("UNLOCK TABLES").unwrap();
        let mut triggering = triggering;
        let name = crontab.name("job");
        triggering.wait_within(SOON).expect_code(0).expect_stdout(&format!("triggered {name}\n"));
        assert_eq!(crontab.count("dblock_cron_jobs WHERE triggered_at IS NOT NULL"), 1);
        // No daemon is there to start it.
        let again = crontab.tables.at("cron").args(["trigger", &name]).output();
        again.expect_code(0).expect_stdout(&format!("{name} was triggered before, and has not started since\n"));
    }

    fn a_host_with_another_command_is_named(server on mysql) {
        let crontab = Crontab::new(server, &job("", "echo old >>{}"));
        let mut first = crontab.start(&[]);
        assert!(!crontab.does("list", &[]).stdout.contains("another"));
        crontab.write_to("newer", &job("", "echo new >>{}"));
        let second = crontab.daemon_of("newer", &[]).spawn();
        crontab.eventually_row("dblock_cron_daemons WHERE differs LIKE '%-job'");
        let list = crontab.does("list", &[]).stdout;
        let line = format!(
            ", pid {}, has another command, other options or variables for {}, and runs them by its own file\n",
            first.pid(), crontab.name("job"));
        assert!(list.contains(&line) && list.matches("another").count() == 1, "{list}");
        let json = crontab.does("list", &["--json"]).json();
        let daemons = json["daemons"].as_array().unwrap();
        let old = daemons.iter().find(|daemon| daemon["pid"] == first.pid()).unwrap();
        assert_eq!(old["differs"], serde_json::json!([crontab.name("job")]));
        // When it has read the same it is not named any more.
        crontab.write(&job("", "echo new >>{}"));
        first.signal(Signal::SIGHUP);
        first.wait_stderr("read ", SOON);
        eventually("nobody differs", SOON, || crontab.count("dblock_cron_daemons WHERE differs IS NOT NULL") == 0);
        // Nor when it is dead, whatever it had said last.
        let scheduler = scheduler_of(first.pid()).expect("a scheduler");
        kill_both(first.pid(), scheduler);
        // The server may still carry out its last statement.
        eventually("it is dead, and has said so", SOON, || {
            crontab.tables.sql(&format!(
                "UPDATE dblock_cron_daemons SET differs = '{}', expires_at = renewed_at WHERE pid = {}",
                crontab.name("job"), first.pid()));
            let json = crontab.does("list", &["--json"]).json();
            let daemons = json["daemons"].as_array().unwrap().clone();
            let dead = daemons.iter().find(|daemon| daemon["pid"] == first.pid());
            dead.is_some_and(|daemon| daemon["alive"] == false && daemon["differs"] == serde_json::json!([crontab.name("job")]))
        });
        let list = crontab.does("list", &[]).stdout;
        assert!(!list.contains("another"), "{list}");
        drop(second);
    }
}

all_servers! {
    fn a_job_that_is_in_no_file_any_more_is_not_late_and_makes_up_for_nothing_when_it_is_back(server on mysql) {
        let both = "#: job --missed all\n0 0 1 1 * echo job >>{}\n#: other\n0 0 1 1 * echo other >>{}";
        let crontab = Crontab::new(server, both);
        let mut host = crontab.start(&[]);
        crontab.write("#: other\n0 0 1 1 * echo other >>{}");
        host.signal(Signal::SIGHUP);
        host.wait_stderr("again: 1 job", SOON);
        eventually("the new scheduler is ready", SOON, || host.stderr().matches("ready: ").count() == 2);
        let name = crontab.name("job");
        crontab.tables.sql(&format!(
            "UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6) - INTERVAL 10 YEAR, seen_at = UTC_TIMESTAMP(6) - INTERVAL 1 WEEK, \
             triggered_at = UTC_TIMESTAMP(6) WHERE name = '{name}'"));
        // One tick was its host's that has died, another one is to be tried again.
        orphan(&crontab, "1 MINUTE");
        crontab.tables.sql(&format!(
            "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, ttl_seconds, start_at) VALUES ('{name}', \
             UTC_TIMESTAMP(6), REPEAT('2', 32), 1, 4, UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)"));
        let list = crontab.does("list", &[]).stdout;
        assert!(list.contains("in no file") && !list.contains("late by"), "{list}");
        let json = crontab.does("list", &["--json"]).json();
        assert_eq!((&json["jobs"][0]["in_no_file"], &json["jobs"][1]["in_no_file"]), (&true.into(), &false.into()));
        assert!(json["jobs"][0]["late_seconds"].is_null());
        // This daemon has just come: others may not have had the time to say what they have.
        stays("no job is retired", || crontab.count("dblock_cron_jobs WHERE next_at IS NULL") == 0);
        crontab.tables.sql("UPDATE dblock_cron_daemons SET alive_since = UTC_TIMESTAMP(6) - INTERVAL 1 WEEK");
        crontab.eventually_row("dblock_cron_jobs WHERE next_at IS NULL AND triggered_at IS NULL");
        crontab.eventually_idle();
        let given_up: Vec<String> = crontab.rows("SELECT message FROM dblock_runs WHERE outcome = 'skipped'");
        let is_said = |message: &String| message.contains("job: in no file any more; the tick 20") && message.ends_with("Z is abandoned");
        assert!(given_up.len() == 2 && given_up.iter().all(is_said), "{given_up:?}");
        let triggered = crontab.tables.at("cron").args(["trigger", &name]).output();
        triggered.expect_code(0).expect_one_line("no dblock cron run has ").expect_stdout(&format!("triggered {name}\n"));
        // It is back.
        let runs = || crontab.lines().iter().filter(|line| *line == "job").count();
        assert_eq!(runs(), 0);
        crontab.write(both);
        host.signal(Signal::SIGHUP);
        crontab.eventually_row(&format!("dblock_cron_jobs WHERE name = '{name}' AND next_at > UTC_TIMESTAMP(6)"));
        crontab.due("other");
        eventually("the other one runs", SOON, || crontab.lines().contains(&"other".to_owned()));
        // As it was triggered.
        assert!(runs() <= 1, "{:?}", crontab.lines());
        assert_eq!(crontab.count("dblock_runs WHERE message LIKE '%missed%'"), 0);
        let list = crontab.does("list", &[]).stdout;
        assert!(!list.contains("in no file"), "{list}");
    }
}

all_servers! {
    fn of_two_ticks_that_wait_the_earlier_one_runs_first(server) {
        let crontab = Crontab::new(server, &job("--overlap wait", "echo $DBLOCK_TICK >>{}"));
        // As a tick and a trigger that two daemons settle at once, while an earlier one runs.
        for minute in 1..=2 {
            crontab.tables.sql(&format!(
                "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, ttl_seconds) VALUES ('{}', '2026-11-01 00:0{minute}:00', \
                 REPEAT('{minute}', 32), 0, 300)",
                crontab.name("job")
            ));
        }
        let host = crontab.start(&[]);
        let lines = crontab.eventually_lines(2);
        assert!(lines.is_sorted() && lines[0] != lines[1], "{lines:?}");
        crontab.eventually_idle();
        end(host);
    }

    fn a_job_that_was_noted_by_a_clock_that_was_ahead_is_in_a_file(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "true"));
        let host = crontab.start(&[]);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET seen_at = UTC_TIMESTAMP(6) + INTERVAL 1 DAY");
        let json = crontab.does("list", &["--json"]).json();
        assert_eq!(json["jobs"][0]["in_no_file"], false);
        crontab.does_to("trigger", "job");
        // It looks after that once a minute, and a new scheduler does at once.
        send(scheduler_of(host.pid()).unwrap(), Signal::SIGKILL);
        crontab.eventually_row("dblock_cron_jobs WHERE seen_at <= UTC_TIMESTAMP(6)");
        end(host);
    }

    fn the_list_has_the_right_next_tick_again_after_a_clock_that_was_ahead(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "true"));
        let host = crontab.start(&[]);
        let next = || {
            let list = crontab.does("list", &["--json"]).json();
            ["next", "late_seconds", "in_no_file"].map(|fact| list["jobs"][0][fact].clone())
        };
        let right = next();
        assert!(right[0].as_str().is_some_and(|next| next.ends_with("-01-01T00:00:00.000Z")), "{right:?}");
        // It is set right by a new scheduler, not by this one before the list was looked at.
        let scheduler = scheduler_of(host.pid()).unwrap();
        let frozen = Frozen::new(scheduler);
        crontab.tables.sql(
            "UPDATE dblock_cron_jobs SET next_at = next_at + INTERVAL 1 YEAR, settled_at = UTC_TIMESTAMP(6) + INTERVAL 1 YEAR, \
             seen_at = UTC_TIMESTAMP(6) + INTERVAL 1 YEAR, changed_at = UTC_TIMESTAMP(6)");
        assert_ne!(next(), right);
        send(scheduler, Signal::SIGKILL);
        drop(frozen);
        eventually("the right one is listed", SOON, || next() == right);
        end(host);
    }
}

both_servers! {
    fn a_host_whose_clock_is_wrong_goes_by_that_of_the_server(server on mariadb) {
        for ahead in [-450, 450] {
            let server = Server::private_with_clock(server.kind, ahead);
            let crontab = Crontab::new(&server, "#: each\n* * * * * echo $DBLOCK_TICK >>{}\n#: set\n0 0 1 1 * echo set >>{}");
            let _host = crontab.start(&[]);
            // The next minute is the server's.
            let is_next = "dblock_cron_jobs WHERE schedule = '* * * * *' AND next_at > UTC_TIMESTAMP(6) - INTERVAL 20 SECOND \
                           AND next_at <= UTC_TIMESTAMP(6) + INTERVAL 60 SECOND";
            assert_eq!(crontab.count(is_next), 1, "{ahead}");
            // What is due by its clock runs at once, and is not late.
            let due = "SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%sZ')";
            let due: Vec<String> = crontab.rows(due);
            crontab.due("set");
            eventually("it ran", SOON, || crontab.lines().contains(&"set".to_owned()));
            crontab.eventually_idle();
            let prompt = format!(
                "dblock_runs WHERE name = '{}' AND tick >= '{}' AND started_at BETWEEN tick AND tick + INTERVAL 20 SECOND \
                 AND ended_at < UTC_TIMESTAMP(6)",
                crontab.name("set"),
                due[0].trim_end_matches('Z'),
            );
            assert_eq!(crontab.count(&prompt), 1, "{ahead}");
        }
    }

    fn no_job_is_retired_when_the_clock_of_the_server_jumps_ahead(server on mysql) {
        let crontab = Crontab::new(server, "#: job\n0 0 1 1 * echo job >>{}\n#: other\n0 0 1 1 * echo other >>{}");
        let _host = crontab.start(&[]);
        // It has said which jobs are in its file: it would retire others from now on.
        crontab.due("other");
        crontab.eventually_lines(1);
        crontab.eventually_idle();
        let mut admin = crontab.tables.admin();
        for statement in [
            "BEGIN".to_owned(),
            "UPDATE dblock_cron_jobs SET seen_at = seen_at - INTERVAL 10 MINUTE, changed_at = UTC_TIMESTAMP(6)".to_owned(),
            format!("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6) WHERE name = '{}'", crontab.name("job")),
            "UPDATE dblock_cron_daemons SET renewed_at = renewed_at - INTERVAL 10 MINUTE, expires_at = expires_at - INTERVAL 10 MINUTE, \
             alive_since = alive_since - INTERVAL 10 MINUTE".to_owned(),
            "COMMIT".to_owned(),
        ] {
            admin.query_drop(statement).unwrap();
        }
        let retired = || crontab.count("dblock_cron_jobs WHERE next_at IS NULL");
        eventually("the daemon is alive again", SOON, || {
            assert_eq!(retired(), 0);
            crontab.count("dblock_cron_daemons WHERE expires_at > UTC_TIMESTAMP(6)") == 1
        });
        assert_eq!(crontab.eventually_lines(2), ["other", "job"]);
        stays("no job is retired", || retired() == 0);
    }

    fn a_job_that_was_taken_out_of_the_file_is_not_late(server on mariadb) {
        let crontab = Crontab::new(server, &job("", "true"));
        let _host = crontab.start(&[]);
        let late = |seen: &str| {
            // Its row says that a daemon has another schedule, as one that nobody runs any more.
            crontab.tables.sql(&format!(
                "UPDATE dblock_cron_jobs SET schedule = '1 1 1 1 *', next_at = UTC_TIMESTAMP(6) - INTERVAL 2 MINUTE, seen_at = {seen}, \
                 changed_at = UTC_TIMESTAMP(6) WHERE name = '{}'",
                crontab.name("job")
            ));
            let json = crontab.does("list", &["--json"]).json();
            !json["jobs"][0]["late_seconds"].is_null()
        };
        assert!(late("UTC_TIMESTAMP(6) - INTERVAL 30 SECOND"));
        assert!(!late("UTC_TIMESTAMP(6) - INTERVAL 150 SECOND"));
    }

    fn a_tick_that_is_put_off_is_late_only_after_that(server on mariadb) {
        let crontab = Crontab::new(server, &job("--jitter 10m", "true"));
        end(crontab.start(&[]));
        let list = |minutes: u32| {
            // No daemon is alive: nobody can say that it is in no file.
            crontab.due_since("job", &format!("UTC_TIMESTAMP(6) - INTERVAL {minutes} MINUTE"));
            let json = crontab.does("list", &["--json"]).json();
            (crontab.does("list", &[]).stdout.contains("late by "), json["jobs"][0]["late_seconds"].clone())
        };
        assert_eq!(list(3), (false, serde_json::Value::Null));
        let (is_said, seconds) = list(12);
        assert!(is_said && seconds.as_f64().is_some_and(|late| (720.0..780.0).contains(&late)), "{seconds}");
    }

    fn a_daemon_gives_jobs_that_others_forgot_their_next_tick_again(server) {
        let crontab = Crontab::new(server, &job("", "echo run >>{}"));
        let host = crontab.start(&[]);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET next_at = NULL, changed_at = UTC_TIMESTAMP(6)");
        // It looks after that once a minute, and a new scheduler does at once.
        send(scheduler_of(host.pid()).unwrap(), Signal::SIGKILL);
        eventually("it has a next tick", SOON, || crontab.count("dblock_cron_jobs WHERE next_at > UTC_TIMESTAMP(6)") == 1);
    }

    fn after_an_outage_starts_are_spread_until_the_last(server on mysql) {
        let lines = (0..50).fold(String::new(), |lines, n| lines + &format!("#: job{n}\n0 0 1 1 * echo run >>{{}}\n"));
        let crontab = Crontab::new(server, &lines);
        let mut before = crontab.start(&[]);
        before.signal(Signal::SIGTERM);
        before.wait_within(SOON).expect_code(0);
        crontab.tables.sql("UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6) - INTERVAL 30 MINUTE");
        let _host = crontab.start(&[]);
        eventually("all are made up for", SOON * 2, || crontab.lines().len() == 50);
        // A fifth of a second for each.
        let took: Vec<u64> = crontab.rows("SELECT TIMESTAMPDIFF(MICROSECOND, MIN(requested_at), MAX(requested_at)) FROM dblock_runs");
        let took = Duration::from_micros(took[0]);
        assert!((Duration::from_secs(6)..Duration::from_secs(19) + slack()).contains(&took), "{took:?}");
    }

    fn a_job_that_is_renamed_is_a_new_one_and_what_runs_goes_on(server on mariadb) {
        let command = "echo begin >>{}; until test -e {}.go; do sleep 0.1; done; echo end >>{}";
        let crontab = Crontab::new(server, &format!("#: before --retries 1\n* * * * * {command}"));
        let mut host = crontab.start(&[]);
        crontab.until_minute_is_young();
        crontab.due_since("before", "DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%d %H:%i:00')");
        eventually("it runs", SOON, || crontab.lines().first().is_some_and(|line| line == "begin"));
        crontab.write("#: after\n0 0 1 1 * echo after >>{}");
        host.signal(Signal::SIGHUP);
        host.wait_stderr("read ", SOON);
        crontab.eventually_row("dblock_cron_jobs WHERE name LIKE '%-after' AND next_at > UTC_TIMESTAMP(6)");
        fs::write(crontab.path("record.go"), "").unwrap();
        eventually("the run has ended", SOON, || crontab.lines().last().is_some_and(|line| line == "end"));
        crontab.eventually_idle();
        // The old name has its history, and no more ticks; the new one makes up for nothing.
        let before = crontab.name("before");
        let runs: Vec<(String, Option<String>, Option<u32>)> = crontab.rows("SELECT name, outcome, exit_code FROM dblock_runs WHERE outcome = 'ran'");
        assert_eq!(runs, [(before.clone(), Some("ran".to_owned()), Some(0))]);
        crontab.due("before");
        crontab.due("after");
        eventually("the new one runs", SOON, || crontab.lines().contains(&"after".to_owned()));
        crontab.lines_stay(3);
        assert_eq!(crontab.lines(), ["begin", "end", "after"]);
        let list = crontab.does("list", &[]).stdout;
        assert!(list.contains(&before) && list.contains(&crontab.name("after")), "{list}");
    }
}

/// To count what many jobs have missed for months takes long. Between the turns the daemon shows that it is alive.
#[test]
fn what_was_missed_for_months_is_settled_in_turns() {
    let server = Server::private(Kind::MariaDb);
    // No job is due now, so nothing runs, and no transaction is about anything else.
    let hour: Option<u32> = server
        .admin()
        .query_first("SELECT HOUR(UTC_TIMESTAMP())")
        .unwrap();
    let hours: Vec<String> = (2..22)
        .map(|after| ((hour.unwrap() + after) % 24).to_string())
        .collect();
    // All of them fit into one transaction.
    let lines = (0..16).fold(String::new(), |lines, n| {
        lines
            + &format!(
                "#: job{n} --missed skip\n* {} * * * true\n",
                hours.join(",")
            )
    });
    let crontab = Crontab::new(&server, &lines);
    let _host = crontab.start(&[]);
    let transactions = || crontab.rows::<(String, u64)>("SHOW GLOBAL STATUS LIKE 'Com_begin'")[0].1;
    let before = transactions();
    crontab.tables.sql(
        "UPDATE dblock_cron_jobs SET next_at = UTC_TIMESTAMP(6) - INTERVAL 200 DAY, changed_at = UTC_TIMESTAMP(6)",
    );
    let missed = "dblock_runs WHERE message LIKE '%missed at least 100000 ticks%'";
    eventually("all are settled", SOON * 2, || crontab.count(missed) == 16);
    let turns = transactions() - before;
    assert!(turns >= 2, "ten jobs, and six");
}

/// As a fail-over within seconds to a server with another clock: the new sessions have that of the machine.
#[test]
fn a_next_tick_of_a_clock_that_was_ahead_is_found_again_and_runs() {
    let server = Server::private(Kind::MariaDb);
    // No tick of its own comes meanwhile.
    let minute: Option<u32> = server
        .admin()
        .query_first("SELECT MINUTE(UTC_TIMESTAMP())")
        .unwrap();
    let far = (minute.unwrap() + 30) % 60;
    let crontab = Crontab::new(&server, &format!("#: job\n{far} * * * * echo run >>{{}}"));
    let new_sessions = |does: &str| {
        let set = format!("SET GLOBAL init_connect = '{does}'");
        server.admin().query_drop(set).unwrap();
    };
    new_sessions("SET timestamp = UNIX_TIMESTAMP() + 86400");
    let host = crontab.start(&[]);
    let scheduler = scheduler_of(host.pid()).unwrap();
    crontab.eventually_row("dblock_cron_jobs WHERE next_at > UTC_TIMESTAMP(6) + INTERVAL 22 HOUR");
    new_sessions("");
    let sessions: Vec<u64> =
        crontab.rows("SELECT id FROM information_schema.PROCESSLIST WHERE user = 'dblock'");
    for id in sessions {
        server.admin().query_drop(format!("KILL {id}")).unwrap();
    }
    eventually("it has another session", SOON, || {
        host.stderr().matches("connected to ").count() >= 2
    });
    crontab.eventually_row("dblock_cron_jobs WHERE next_at <= UTC_TIMESTAMP(6) + INTERVAL 1 HOUR");
    let right = "SELECT DATE_FORMAT(next_at, '%Y-%m-%dT%H:%i:%s.000Z') FROM dblock_cron_jobs";
    let right: Vec<String> = crontab.rows(right);
    let list = crontab.does("list", &["--json"]).json();
    assert_eq!(list["jobs"][0]["next"], right[0], "{list:#}");
    crontab.due("job");
    crontab.eventually_lines(1);
    assert_eq!(crontab.count("dblock_runs WHERE outcome = 'skipped'"), 0);
    assert_eq!(scheduler_of(host.pid()), Some(scheduler));
}

/// What has a row of the time when the server's clock was a day ahead: an attempt that was put off, and a tick of a host that has died.
#[test]
fn ticks_of_a_clock_that_was_ahead_are_tried_again_soon() {
    let crontab = Crontab::new(
        Server::shared(Kind::MariaDb),
        "#: delayed --retries 1\n0 0 1 1 * echo run >>{}\n#: job\n0 0 1 1 * echo run >>{}",
    );
    crontab.tables.sql(&format!(
        "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, failures, ttl_seconds, start_at) VALUES ('{}', \
         UTC_TIMESTAMP(6), REPEAT('2', 32), 1, 1, 4, UTC_TIMESTAMP(6) + INTERVAL 1 DAY)",
        crontab.name("delayed")
    ));
    orphan(&crontab, "1 MINUTE");
    crontab.tables.sql(
        "INSERT INTO dblock_cron_daemons (daemon, host, pid, user, slots, jobs, definition, started_at, renewed_at, expires_at, alive_since) \
         VALUES (REPEAT('1', 32), 'dead', 1, 'dead', 1, 2, '', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 DAY, \
         UTC_TIMESTAMP(6) + INTERVAL 1 DAY, UTC_TIMESTAMP(6))",
    );
    let _host = crontab.start(&[]);
    crontab.eventually_lines(2);
    crontab.eventually_idle();
}

/// While the hosts have different rules for a time zone, after a change of the law, each tick is that of the daemon that found it.
#[test]
fn a_next_tick_by_other_rules_of_the_time_zone_stays() {
    let crontab = Crontab::new(Server::shared(Kind::MariaDb), &job("", "echo one >>{}"));
    let _one = crontab.start(&[]);
    crontab.tables.sql("UPDATE dblock_cron_jobs SET next_at = next_at + INTERVAL 1 HOUR, changed_at = UTC_TIMESTAMP(6)");
    let facts = || {
        crontab.rows::<(String, String)>(
            "SELECT CAST(next_at AS CHAR), definition FROM dblock_cron_jobs",
        )
    };
    let before = facts();
    crontab.write_to("other", &job("", "echo other >>{}"));
    let mut other = crontab.daemon_of("other", &[]).spawn();
    other.wait_stderr("dblock: ready: ", SOON);
    let after = facts();
    assert_ne!(before[0].1, after[0].1, "it has put its file in force");
    assert_eq!(before[0].0, after[0].0);
}

/// A server whose binary log has statements refuses those of a daemon.
fn a_log_of_statements_is_refused(kind: Kind) {
    let server = Server::private_with(
        kind,
        &[
            "--log-bin=binlog",
            "--server-id=1",
            "--binlog-format=STATEMENT",
        ],
    );
    let crontab = Crontab::new(&server, &job("", "true"));
    let refused = crontab
        .tables
        .at("cron")
        .arg("run")
        .arg(crontab.path("crontab"))
        .output();
    refused.expect_code(78).expect_one_line(
        "has binlog_format=STATEMENT, with which no crontab runs; set it to ROW or MIXED",
    );
    // Whoever only looks is not refused.
    crontab.does("list", &[]);
    server
        .admin()
        .query_drop("SET GLOBAL binlog_format = 'MIXED'")
        .unwrap();
    let mut host = crontab.start(&[]);
    host.signal(Signal::SIGTERM);
    host.wait_within(SOON).expect_code(0);
}

#[test]
fn a_log_of_statements_is_refused_mariadb() {
    a_log_of_statements_is_refused(Kind::MariaDb);
}

#[test]
fn a_log_of_statements_is_refused_mysql() {
    a_log_of_statements_is_refused(Kind::MySql);
}

/// Where each host is a container with a name of its own, many rows of those that are gone are there for a while.
fn a_look_does_not_read_the_daemons_that_are_gone(kind: Kind) {
    let server = Server::private(kind);
    let crontab = Crontab::new(&server, &job("", "true"));
    let mut admin = crontab.tables.admin();
    let gone: Vec<String> = (0..3000)
        .map(|number| {
            let moments = ["UTC_TIMESTAMP(6) - INTERVAL 1 HOUR"; 4].join(", ");
            format!("(LPAD('{number}', 32, '0'), 'host{number}', 1, 'user', 1, 1, '', {moments})")
        })
        .collect();
    for statement in [
        &*format!(
            "INSERT INTO dblock_cron_daemons (daemon, host, pid, user, slots, jobs, definition, started_at, renewed_at, expires_at, \
             alive_since) VALUES {}",
            gone.join(", ")
        ),
        "ANALYZE TABLE dblock_cron_daemons",
        "SET GLOBAL log_output = 'TABLE'",
        "SET GLOBAL general_log = 1",
    ] {
        admin.query_drop(statement).unwrap();
    }
    let _host = crontab.start(&[]);
    let logged = "FROM mysql.general_log WHERE argument LIKE '/* dblock cron look */%changed_at%'";
    let mut look = None;
    eventually("it looks", SOON, || {
        let found = admin.query_first(format!("SELECT CONVERT(argument USING utf8mb4) {logged}"));
        look = found.unwrap();
        look.is_some()
    });
    let look: String = look.unwrap();
    let explain = match kind {
        Kind::MariaDb => "EXPLAIN",
        Kind::Postgres => unreachable!("a test of MySQL"),
        Kind::MySql => "EXPLAIN FORMAT=TRADITIONAL",
    };
    let plan: Vec<mysql::Row> = admin.query(format!("{explain} {look}")).unwrap();
    let text = |row: &mysql::Row, column| row.get::<Option<String>, _>(column).flatten();
    let keys: Vec<Option<String>> = plan
        .iter()
        .filter(|row| text(row, "table").is_some_and(|table| table == "dblock_cron_daemons"))
        .map(|row| text(row, "key"))
        .collect();
    assert_eq!(keys.last(), Some(&Some("by_expiry".to_owned())), "{plan:?}");
    assert!(keys.iter().all(Option::is_some), "{plan:?}");
}

#[test]
fn a_look_does_not_read_the_daemons_that_are_gone_mariadb() {
    a_look_does_not_read_the_daemons_that_are_gone(Kind::MariaDb);
}

#[test]
fn a_look_does_not_read_the_daemons_that_are_gone_mysql() {
    a_look_does_not_read_the_daemons_that_are_gone(Kind::MySql);
}

#[test]
fn a_look_finds_what_it_needs_by_keys_postgres() {
    let server = Server::private_with(Kind::Postgres, &["-c", "log_statement=all"]);
    let crontab = Crontab::new(&server, &job("", "true"));
    let mut admin = crontab.tables.postgres();
    let ago = "now() - interval '2 days'";
    for (table, columns, values) in [
        (
            "cron_jobs",
            "name, schedule, zone, definition, next_at, changed_at, seen_at",
            format!("'other' || n, '', '', '', now() + interval '1 day', {ago}, now()"),
        ),
        (
            "cron_daemons",
            "daemon, slots, jobs, definition, started_at, renewed_at, expires_at, alive_since",
            format!(
                "lpad(n::text, 32, '0'), 1, 1, '', {ago}, {ago}, now() - interval '1 hour', {ago}"
            ),
        ),
        (
            "runs",
            "run, name, requested_at, acquired_at",
            format!("lpad(n::text, 32, '0'), 'other' || n % 30, {ago}, {ago}"),
        ),
        ("locks", "name, slot", "'other' || n, 0".to_owned()),
    ] {
        admin.run(&format!(
            "INSERT INTO dblock_{table} ({columns}) SELECT {values} FROM generate_series(1, 3000) n"
        ));
        admin.run(&format!("ANALYZE dblock_{table}"));
    }
    // The server knows nothing of this one.
    admin.run("ALTER TABLE dblock_cron_ticks SET (autovacuum_enabled = off)");
    let host = crontab.start(&[]);
    crontab.does("list", &[]);
    for (what, part) in [
        ("cron look", "changed_at >= "),
        ("cron list", "LATERAL"),
        ("cron prune", "'7 days'"),
    ] {
        let mark = format!("/* dblock {what}; ");
        let mut statement = None;
        eventually(what, SOON, || {
            let said = fs::read_to_string(server.dir.join("error.log")).unwrap_or_default();
            let whole = said.rfind('\n').unwrap_or_default();
            let mut lines = said[..whole]
                .lines()
                .filter_map(|line| Some(&line[line.find(&mark)?..]));
            statement = lines.find(|line| line.contains(part)).map(str::to_owned);
            statement.is_some()
        });
        let statement = statement.unwrap_or_default();
        let plan = admin.column::<String>(&format!("EXPLAIN {statement}"));
        let is_slow = |line: &String| {
            let reads_all = line.contains("Seq Scan on dblock_") && !line.contains("_ticks");
            // The list has all jobs.
            let is_needed = what == "cron list" && line.contains("_cron_jobs");
            reads_all && !is_needed || line.contains("by_time")
        };
        assert!(!plan.iter().any(is_slow), "{what}: {plan:#?}");
    }
    end(host);
}

#[test]
fn a_trigger_does_not_run_beside_a_tick_that_another_daemon_takes_at_that_moment_postgres() {
    let crontab = Crontab::new(
        Server::shared(Kind::Postgres),
        &job("--retries 1 --retry-delay 1h", "echo run >>{}"),
    );
    let host = crontab.start(&[]);
    let scheduler = scheduler_of(host.pid()).unwrap();
    // So that it finds the job's row locked when it first sees the trigger.
    let stopped = Frozen::new(scheduler);
    crontab.tables.sql(
        "UPDATE dblock_cron_jobs SET triggered_at = UTC_TIMESTAMP(6) + INTERVAL 2 SECOND, changed_at = UTC_TIMESTAMP(6)",
    );
    // As another daemon does, whose tick is to be tried again later.
    let mut other = crontab.tables.postgres();
    other.run("BEGIN");
    other.run("SELECT 1 FROM dblock_cron_jobs FOR UPDATE");
    other.run(
        "INSERT INTO dblock_cron_ticks (name, tick, run, attempt, ttl_seconds, start_at) \
         SELECT name, now(), repeat('2', 32), 1, 300, now() + interval '1 hour' FROM dblock_cron_jobs",
    );
    let waits = format!(
        "EXISTS (SELECT 1 FROM pg_stat_activity WHERE {} = ANY (pg_blocking_pids(pid)))",
        other.pid
    );
    drop(stopped);
    let mut watcher = crontab.tables.postgres();
    eventually("the daemon waits", SOON, || watcher.is(&waits));
    other.run("COMMIT");
    crontab.eventually_row("dblock_runs WHERE message LIKE '%an earlier tick is under way%'");
    crontab.lines_stay(0);
    end(host);
}
