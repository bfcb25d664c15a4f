//! `dblock queue work` when something breaks: processes of a worker that are killed or stopped, sessions and servers that end. No two
//! commands have one job at the same time, none is lost, and one that is over is not started again.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::jobs::{claimer_of, commands_of, lines};
use crate::harness::{
    Dblock, Frozen, Hung, Jobs, Kind, Packet, Proxy, Records, Running, SOON, Server, Setup,
    allow_files, both_servers, eventually, eventually_gone, group_of, kill_both, quoted, runs,
    send, slack, stat_field, unique, within,
};
use crate::sigkill::{VIEWS, for_another_user, view_of};

/// A lease that is soon over, and that a worker keeps on a machine that stands still for three seconds.
const TTL: Duration = Duration::from_secs(6);
const SHORT: [&str; 2] = ["--ttl", "6s"];

/// A lease of which a tenth is longer than a busy machine stands still. By so much a command may be ended late.
const LONG_TTL: Duration = Duration::from_secs(24);

/// A worker that has all of the lease for its commands.
const TO_THE_END: [&str; 2] = ["--kill-after", "0"];

/// Whether a worker has renewed its lease for longer than the first one lasted.
const RENEWED: &str = "dblock_workers WHERE renewed_at > started_at + INTERVAL 7 SECOND";

/// A queue with a short lease.
#[track_caller]
fn short<'a>(server: &'a Server, options: &[&str]) -> Jobs<'a> {
    Jobs::new(server, &[&SHORT[..], options].concat())
}

/// The same with a long one.
#[track_caller]
fn long<'a>(server: &'a Server, options: &[&str]) -> Jobs<'a> {
    Jobs::new(server, &[&["--ttl", "24s"][..], options].concat())
}

/// A worker with one job, whose command goes on until it is ended: its queue, the folder of its records, itself, and the command.
fn at_work(server: &Server) -> (Jobs<'_>, Records, Running, i32) {
    let (jobs, records) = (short(server, &[]), Records::new());
    let (log, go) = (records.path().join("log"), records.path().join("go"));
    jobs.put(&["x"]);
    let worker = jobs.work(&TO_THE_END);
    let worker = worker.sh(&script(&log, &until(&go))).spawn();
    let command = eventually_started(&log, 1, SOON);
    (jobs, records, worker, command)
}

/// A script that says who started it, does something, and says that it has ended.
fn script(records: &Path, between: &str) -> String {
    format!(
        "note() {{ echo $1 $DBLOCK_ATTEMPT $DBLOCK_FENCE $$ >>{}; }}; note start; {between}; note end",
        quoted(records)
    )
}

/// The same, which says before whether any that has started still runs.
fn script_alone(records: &Path, between: &str) -> String {
    let log = quoted(records);
    let script = script(records, between);
    format!(
        "for other in $(cut -d' ' -f4 {log}); do read -r _ _ state _ </proc/$other/stat || continue; \
         case $state in [ZX]) ;; *) echo overlap >>{log} ;; esac; done 2>/dev/null; {script}"
    )
}

/// A script that ends when there is a file.
fn until(go: &Path) -> String {
    format!("while ! test -e {}; do sleep 0.1; done", quoted(go))
}

/// What was recorded, without the process.
fn recorded(records: &Path) -> Vec<String> {
    let line = |line: &String| line.split(' ').take(3).collect::<Vec<_>>().join(" ");
    lines(records).iter().map(line).collect()
}

/// Waits until so many commands have started; the process of the last.
#[track_caller]
fn eventually_started(records: &Path, starts: usize, deadline: Duration) -> i32 {
    let mut found = Vec::new();
    eventually(&format!("{starts} have started"), deadline, || {
        found = lines(records);
        found.retain(|line| line.starts_with("start"));
        found.len() >= starts
    });
    let words: Vec<&str> = found[starts - 1].split(' ').collect();
    words[3].parse().expect("a process")
}

#[track_caller]
fn end(worker: Running) {
    worker.signal(Signal::SIGTERM);
    worker.wait().expect_code(0);
}

/// A server that can lose what it has confirmed: with nothing to do it would write what it need not write yet.
fn lazy(kind: Kind) -> Server {
    let option = match kind {
        Kind::MariaDb => "--innodb-max-dirty-pages-pct-lwm=50",
        Kind::Postgres => unreachable!("a test of MySQL"),
        Kind::MySql => "--innodb-idle-flush-pct=0",
    };
    let setup = Setup {
        options: vec![option.to_owned()],
        is_on_disk: true,
        ..Setup::default()
    };
    Server::private_as(kind, setup)
}

/// A worker claims a job, and its server forgets that. `false`: the server has not forgotten it, and nothing was tried.
fn is_ended_where_the_server_loses_its_claim(kind: Kind) -> bool {
    let server = lazy(kind);
    let set = |what: &str, value: u32| {
        let set = format!("SET GLOBAL innodb_flush_log_at_{what} = {value}");
        let done = server.admin().query_drop(set);
        done.expect("the admin may do that");
    };
    set("trx_commit", 1);
    let (jobs, records, proxy) = (Jobs::new(&server, &[]), Records::new(), Proxy::to(&server));
    let (log, go) = (records.path().join("log"), records.path().join("go"));
    let work = jobs.work(&["-j", "2"]).env("DBLOCK_URL", proxy.url());
    let worker = work.sh(&script(&log, &until(&go))).spawn();
    jobs.eventually_idle(1);
    jobs.put(&["--delay", "1s", "x"]);
    set("timeout", 2700);
    set("trx_commit", 0);
    let first = eventually_started(&log, 1, SOON);
    proxy.refuse(true);
    server.kill();
    server.start();
    if jobs.count("dblock_running") != 0 {
        return false;
    }
    proxy.refuse(false);
    eventually_gone(first, SOON);
    // It is due as it was, and is claimed at once.
    eventually_started(&log, 2, SOON);
    std::fs::write(&go, "").expect("it takes that");
    eventually("it is done", SOON, || jobs.states() == [0; 4]);
    worker.signal(Signal::SIGTERM);
    worker.wait().expect_code(0).expect_said([
        "the server has lost what it had confirmed",
        "the server has lost that job 1 is this worker's; ending its command",
    ]);
    assert_eq!(recorded(&log), ["start 1 1", "start 1 1", "end 1 1"]);
    true
}

/// A worker whose one command has started, and goes on until there is a file: the worker, what its commands record, and that file.
fn busy_until_told(jobs: &Jobs, records: &Records) -> (Running, PathBuf, PathBuf) {
    keep_busy(jobs, jobs.work(&TO_THE_END), records)
}

/// The same of a worker that is put together.
fn keep_busy(jobs: &Jobs, worker: Dblock, records: &Records) -> (Running, PathBuf, PathBuf) {
    let (log, go) = (records.path().join("log"), records.path().join("go"));
    jobs.put(&["x"]);
    let worker = worker.sh(&script(&log, &until(&go))).spawn();
    eventually_started(&log, 1, SOON);
    (worker, log, go)
}

/// So many jobs end while their claimer hears nothing, and so much each of them writes, all of which is kept.
const UNHEARD: usize = 20;
const WRITTEN: usize = 64 * 1024;

/// A worker all of whose jobs have ended while its claimer waits for a server that is silent. What that is told of them does not fit into
/// the link. Its queue, created with these options, the folder with the `log` of its starts, its way to the server, and itself.
fn with_full_link<'a>(server: &'a Server, options: &[&str]) -> (Jobs<'a>, Records, Proxy, Running) {
    let jobs = Jobs::new(server, &[&["--ttl", "5m"][..], options].concat());
    let (records, proxy) = (Records::new(), Proxy::to(server));
    let [log, go, first] = ["log", "go", "go.1"].map(|name| records.path().join(name));
    jobs.number(UNHEARD);
    let script = format!(
        "read -r number; echo start >>{}; while ! test -e {go} && ! test -e {go}.$number; do sleep 0.1; done; \
         head -c {WRITTEN} /dev/zero | tr '\\0' x",
        quoted(&log),
        go = quoted(&go)
    );
    let work = jobs.work(&["-v", "-j", "20", "--keep-output", "all"]);
    let work = work.args(["--connect-timeout", "5"]);
    let worker = work.env("DBLOCK_URL", proxy.url()).sh(&script).spawn();
    eventually("all have started", SOON, || lines(&log).len() == UNHEARD);
    proxy.freeze();
    let done = || worker.stderr().matches(" is done after ").count();
    std::fs::write(first, "").unwrap();
    eventually("the claimer waits for the server", SOON, || {
        done() == 1 && !proxy.is_answered(0)
    });
    std::fs::write(go, "").unwrap();
    eventually("all have ended", SOON, || done() == UNHEARD);
    // What the claimer is told of the others does not fit into the link.
    let room = std::fs::read_to_string("/proc/sys/net/core/wmem_default").unwrap();
    let room: usize = room.trim().parse().unwrap();
    assert!((UNHEARD - 1) * WRITTEN > room, "{room}");
    (jobs, records, proxy, worker)
}

#[test]
fn a_worker_whose_account_is_refused_for_a_moment_goes_on_with_its_command() {
    let server = Server::shared(Kind::MariaDb);
    let (jobs, records) = (Jobs::new(server, &["--ttl", "60s"]), Records::new());
    let (log, go) = (records.path().join("log"), records.path().join("go"));
    let (proxy, account) = (Proxy::to(server), unique("queue_account"));
    let mut admin = server.admin();
    let mut sql = |statement: String| admin.query_drop(statement).unwrap();
    sql(format!("CREATE USER '{account}'@'%' IDENTIFIED BY 'first'"));
    jobs.tables
        .grant("SELECT, INSERT, UPDATE, DELETE", &account);
    jobs.put(&["x"]);
    let worker = jobs.work(&[]).user(&account);
    let worker = worker.env("DBLOCK_URL", proxy.url());
    let worker = worker.env("DBLOCK_PASSWORD", "first");
    let mut worker = worker.sh(&script(&log, &until(&go))).spawn();
    let command = eventually_started(&log, 1, SOON);
    sql(format!("ALTER USER '{account}'@'%' IDENTIFIED BY 'second'"));
    let before = proxy.connections();
    proxy.cut();
    // Each attempt logs in twice.
    eventually("it is refused", SOON, || proxy.connections() > before + 2);
    assert!(worker.is_running() && runs(command), "{}", worker.stderr());
    sql(format!("ALTER USER '{account}'@'%' IDENTIFIED BY 'first'"));
    std::fs::write(&go, "").unwrap();
    eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
    end(worker);
    assert_eq!(recorded(&log), ["start 1 1", "end 1 1"]);
    sql(format!("DROP USER '{account}'@'%'"));
}

#[test]
fn a_command_that_cannot_be_killed_keeps_its_job_for_longer_than_the_lease() {
    let (jobs, records) = (short(Server::shared(Kind::MariaDb), &[]), Records::new());
    let (log, go) = (records.path().join("log"), records.path().join("go"));
    let folder = tempfile::tempdir().unwrap();
    let [dblock, become_root] = for_another_user(folder.path());
    jobs.put(&["x"]);
    let script = script(&log, &until(&go));
    let under = ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c"];
    let exec = format!("exec {} \"$@\"", quoted(&dblock));
    let work = jobs.work(&[]).under(under.into_iter().chain([&*exec]));
    let become_root = become_root.to_str().unwrap();
    let work = work.command([become_root, "--reuid=0", "sh", "-c", &script]);
    let mut first = work.spawn();
    let command = eventually_started(&log, 1, SOON);
    let claimer = first.claimer();
    first.signal(Signal::SIGKILL);
    first.wait_within(SOON).expect_signal(Signal::SIGKILL);
    let second = jobs.work(&[]).command(["true"]).spawn();
    let held = format!("{RENEWED} AND NOT died");
    eventually("the lease is renewed", TTL + SOON, || jobs.count(&held) > 0);
    assert!(runs(command) && jobs.states() == [0, 0, 1, 0]);
    send(command, Signal::SIGKILL);
    eventually_gone(claimer, SOON);
    eventually("it is done", TTL + SOON, || jobs.count("dblock_jobs") == 0);
    end(second);
}

#[test]
fn a_process_that_proc_does_not_show_keeps_its_job_until_it_ends() {
    // All at once: they do nothing but wait.
    std::thread::scope(|scope| {
        for view in VIEWS {
            scope.spawn(move || keeps_its_job_behind(view));
        }
    });
}

/// A job whose time is over, and whose command has a process that this view hides.
fn keeps_its_job_behind(view: &str) {
    let jobs = short(Server::shared(Kind::MariaDb), &["--max-attempts", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let (under, script) = view_of(folder.path(), view);
    jobs.put(&["x"]);
    // The process has time to begin.
    let work = jobs.work(&["--timeout", "8", "--kill-after", "0.2"]);
    let mut worker = work.under(under).sh(&script).spawn();
    let hidden = worker.wait_pid("hidden");
    let group = group_of(hidden).unwrap();
    eventually("the command has ended", SOON, || !runs(group));
    let renewed = format!("{RENEWED} AND expires_at > UTC_TIMESTAMP(6)");
    eventually("the lease is renewed", TTL + SOON, || {
        jobs.count(&renewed) > 0
    });
    assert!(
        runs(hidden) && jobs.states() == [0, 0, 1, 0],
        "with {view}: {}",
        worker.stderr()
    );
    send(hidden, Signal::SIGKILL);
    eventually("the job is dead", SOON, || jobs.states() == [0, 0, 0, 1]);
    end(worker);
}

/// Eight canceled blocks become due just before an idle worker takes a turn. `false`: they came too late for that.
fn canceled_blocks_are_claimed_by_a_waiting_turn(server: &Server) -> bool {
    const DELAY: Duration = Duration::from_millis(700);
    let (jobs, records) = (Jobs::new(server, &["--claim", "blocks"]), Records::new());
    let (log, go) = (records.path().join("log"), records.path().join("go"));
    let proxy = Proxy::to(server);
    jobs.put(&["x"]);
    for _ in 0..8 {
        jobs.put(&["--delay", "1h", "canceled"]);
    }
    jobs.tables
        .sql("UPDATE dblock_jobs SET canceled_at = UTC_TIMESTAMP(6) WHERE id > 1");
    let work = jobs.work(&[]).env("DBLOCK_URL", proxy.url());
    let worker = work.sh(&script(&log, &until(&go))).spawn();
    eventually_started(&log, 1, SOON);
    let claims = || {
        let packets = proxy.packets();
        let claims = packets.iter().filter(|packet| {
            let sql = packet.statements();
            sql.is_some_and(|sql| sql.contains("SKIP LOCKED") && sql.contains("COMMIT"))
        });
        claims.map(|packet| packet.at).collect::<Vec<_>>()
    };
    proxy.delay(DELAY);
    // A turn records the end, and the next one waits.
    let waiting = claims().len() + 1;
    std::fs::write(&go, "").unwrap();
    eventually("it waits", SOON, || claims().len() > waiting);
    let columns = "queue, shard, priority, job, last_job, block, jobs, due_at";
    jobs.tables.sql(&format!(
        "INSERT INTO dblock_due ({columns}) SELECT {columns} FROM dblock_delayed"
    ));
    jobs.tables.sql("DELETE FROM dblock_delayed");
    let is_in_time = claims()[waiting].elapsed() < DELAY;
    proxy.delay(Duration::ZERO);
    eventually("they are gone", SOON, || jobs.count("dblock_jobs") == 0);
    end(worker);
    jobs.assert_empty();
    is_in_time
}

#[test]
fn canceled_blocks_are_recorded_although_nothing_else_is_due() {
    let server = Server::shared(Kind::MariaDb);
    assert!((0..10).any(|_| canceled_blocks_are_claimed_by_a_waiting_turn(server)));
}

#[test]
fn numbers_that_an_application_has_written_end_no_worker() {
    let (jobs, records) = (Jobs::new(Server::shared(Kind::MySql), &[]), Records::new());
    let log = records.path().join("log");
    jobs.put(&["--every", "1h", "a"]);
    jobs.put(&["--every", "1h", "b"]);
    jobs.put(&["c"]);
    let most = "UPDATE dblock_due SET attempt = 4294967295, fence = 18446744073709551615";
    jobs.tables.sql(most);
    jobs.tables
        .sql("UPDATE dblock_due SET every_us = 0 WHERE job = 1");
    jobs.tables
        .sql("UPDATE dblock_due SET every_us = 18446744073709551615 WHERE job = 2");
    let worker = jobs
        .work(&[])
        .sh(&format!("cat >>{}; echo >>{0}", quoted(&log)));
    let worker = worker.spawn();
    eventually("the last one is done", SOON, || {
        jobs.count("dblock_jobs") == 2
    });
    // The first is due again at once.
    eventually("it runs again", SOON, || {
        lines(&log).iter().filter(|line| *line == "a").count() > 2
    });
    let far = "dblock_delayed WHERE job = 2 AND due_at > UTC_TIMESTAMP(6) + INTERVAL 99 YEAR";
    assert_eq!(jobs.count(far), 1);
    worker.signal(Signal::SIGTERM);
    worker.wait().expect_code(0).expect_silence();
}

#[test]
fn rows_of_an_application_that_name_wrong_jobs_do_no_harm() {
    let jobs = Jobs::new(Server::shared(Kind::MySql), &["--keep", "60s"]);
    let ids = jobs.put(&["a", "b", "c", "d"]);
    for wrong in [
        "UPDATE dblock_due SET jobs = 0, last_job = 18446744073709551615".to_owned(),
        format!("UPDATE dblock_due SET block = 7 WHERE job = {}", ids[1]),
        format!(
            "UPDATE dblock_due SET block = 7, last_job = 1 WHERE job = {}",
            ids[2]
        ),
        "UPDATE dblock_queues SET shards = 0".to_owned(),
    ] {
        jobs.tables.sql(&wrong);
    }
    let status = jobs.does("status", &["--json"]).json();
    assert_eq!(status["queues"][0]["due"], 4, "{status:#}");
    let drain = || {
        jobs.work(&["--drain", "--keep-output", "all"])
            .sh("cat")
            .output()
    };
    drain().expect_code(0).expect_stdout("abcd");
    assert_eq!(jobs.count("dblock_outputs"), 4);
    // They were kept for long enough. A worker that ends looks for such jobs once it has claimed one.
    jobs.tables
        .sql("UPDATE dblock_done SET done_at = done_at - INTERVAL 1 HOUR");
    let last = jobs.put(&["e"])[0];
    drain().expect_code(0).expect_stdout("e");
    for table in ["done", "jobs", "outputs"] {
        assert_eq!(jobs.count(&format!("dblock_{table}")), 1, "{table}");
    }
    jobs.tables
        .sql("UPDATE dblock_jobs SET payload = NULL, parts = 4294967295");
    jobs.does("show", &["--payload", &last.to_string()])
        .expect_stdout("");
}

#[test]
fn a_block_of_more_jobs_than_a_block_has_is_dead() {
    let jobs = Jobs::new(Server::shared(Kind::MariaDb), &["--claim", "blocks"]);
    let ids = jobs.number(1001);
    let (first, last) = (ids[0], ids[1000]);
    jobs.tables.sql("UPDATE dblock_jobs SET block = 7");
    jobs.tables
        .sql(&format!("DELETE FROM dblock_due WHERE job <> {first}"));
    jobs.tables.sql(&format!(
        "UPDATE dblock_due SET block = 7, jobs = 1001, last_job = {last}"
    ));
    jobs.put(&["x"]);
    let why = "it is the first of a block of more than 1000 jobs";
    let output = jobs.work(&["--drain"]).sh("cat").output();
    output
        .expect_code(0)
        .expect_stdout("x")
        .expect_said([&*format!("job {first} is dead, attempt 1: {why}")]);
    assert_eq!(
        (jobs.states(), jobs.count("dblock_jobs")),
        ([0, 0, 0, 1], 1001)
    );
    let dead =
        jobs.rows::<String>("SELECT last_error FROM dblock_jobs WHERE last_error IS NOT NULL");
    assert_eq!(dead, [why]);
}

#[test]
fn rows_of_an_application_with_no_moment_or_twice_hold_up_no_others() {
    let jobs = Jobs::new(Server::shared(Kind::MySql), &[]);
    jobs.put(&["--every", "1h", "a"]);
    jobs.put(&["--every", "1h", "b"]);
    jobs.put(&["c", "d"]);
    let columns = "INTO dblock_due (queue, shard, priority, job, due_at) SELECT queue,";
    for wrong in [
        "UPDATE dblock_due SET due_at = '9999-12-31 23:59:59' WHERE job = 1".to_owned(),
        "UPDATE IGNORE dblock_due SET due_at = '0000-00-00' WHERE job = 2".to_owned(),
        format!("INSERT {columns} shard, 5, job, due_at FROM dblock_due WHERE job = 3"),
        format!("INSERT {columns} 9, priority, job, due_at FROM dblock_due WHERE job = 4"),
    ] {
        jobs.tables.sql(&wrong);
    }
    let worker = jobs.work(&["--drain", "-j", "4"]).arg("true").output();
    worker
        .expect_code(0)
        .expect_said(["job 3 is dead, attempt 1: its payload is not in the tables as a whole"]);
    assert_eq!(jobs.states(), [1, 2, 0, 1]);
    let soon = "UTC_TIMESTAMP(6) AND UTC_TIMESTAMP(6) + INTERVAL 1 HOUR";
    assert_eq!(
        jobs.count(&format!("dblock_delayed WHERE due_at BETWEEN {soon}")),
        2
    );
    jobs.tables
        .sql("UPDATE IGNORE dblock_delayed SET due_at = '0000-00-00' WHERE job = 1");
    jobs.queue("cancel", &["1"]).output().expect_code(0);
    assert_eq!(jobs.states(), [1, 1, 0, 1]);
    jobs.tables
        .sql("UPDATE IGNORE dblock_delayed SET due_at = '0000-00-00'");
    jobs.queue("delete", &[]).output().expect_code(0);
    jobs.assert_empty();
}

/// From here on the server refuses this, with an error that dblock does not know: `INSERT ON dblock_running`, say.
#[track_caller]
fn refuse(jobs: &Jobs, what: &str) {
    jobs.tables.sql(&format!(
        "CREATE TRIGGER refusing BEFORE {what} FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not now'"
    ));
}

#[test]
fn a_refusal_that_passes_ends_no_command() {
    let server = Server::shared(Kind::MariaDb);
    let (jobs, records) = (Jobs::new(server, &["--ttl", "60s"]), Records::new());
    let (log, go) = (records.path().join("log"), records.path().join("go"));
    jobs.put(&["x"]);
    let script = script(&log, &until(&go));
    let mut worker = jobs.work(&["-j", "2"]).sh(&script).spawn();
    let command = eventually_started(&log, 1, SOON);
    refuse(&jobs, "UPDATE ON dblock_workers");
    jobs.put(&["y"]);
    let refused = "refused a statement: not now (error 1644); trying again";
    worker.wait_stderr(refused, SOON);
    jobs.tables.sql("DROP TRIGGER refusing");
    eventually_started(&log, 2, SOON);
    assert!(worker.is_running() && runs(command), "{}", worker.stderr());
    std::fs::write(&go, "").unwrap();
    eventually("both are done", SOON, || jobs.count("dblock_jobs") == 0);
    worker.signal(Signal::SIGTERM);
    let said = worker.wait().stderr;
    assert_eq!(said.matches("refused").count(), 1, "{said}");
    assert_eq!(recorded(&log).len(), 4);
}

#[test]
fn a_refusal_that_lasts_for_longer_than_the_lease_ends_the_worker() {
    let jobs = short(Server::shared(Kind::MariaDb), &[]);
    jobs.put(&["x"]);
    let mut worker = jobs.work(&[]).command(["true"]).spawn();
    eventually("it works", SOON, || jobs.count("dblock_jobs") == 0);
    // Renewals, and looks at what became of a turn, are answered all the time.
    refuse(&jobs, "INSERT ON dblock_running");
    let begun = Instant::now();
    jobs.put(&["y"]);
    let output = worker.wait_within(TTL + SOON);
    output.expect_code(70);
    assert!(begun.elapsed() >= TTL, "{:?}", begun.elapsed());
    output.expect_said(["(error 1644); trying again", "(error 1644)\n"]);
}

/// `false`: the server stood still for so long that the worker has left it for that.
fn leaves_a_read_only_server(kind: Kind, may_write: bool) -> bool {
    let server = Server::private(kind);
    let (jobs, records) = (short(&server, &[]), Records::new());
    let mut worker = jobs.work(&TO_THE_END);
    if may_write {
        let account = server.account_above_read_only();
        jobs.tables
            .grant("SELECT, INSERT, UPDATE, DELETE", &account);
        worker = worker.user(&account);
    }
    let (mut worker, _, go) = keep_busy(&jobs, worker, &records);
    server.set_read_only(true);
    worker.wait_stderr("; ending the commands", SOON);
    let said = worker.stderr();
    let line = said.lines().find(|line| line.contains("ending")).unwrap();
    if line.contains("the server has not answered for ") {
        return false;
    }
    assert!(
        line.contains("the lease could not be renewed for ") && line.contains(" is read-only; "),
        "{said}"
    );
    server.set_read_only(false);
    // Or the server answers again: there was half a second left of its lease, and it may have another one.
    worker.wait_stderr(" again", SOON);
    std::fs::write(&go, "").unwrap();
    eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
    end(worker);
    true
}

both_servers! {
    fn a_command_goes_on_while_its_claimer_is_replaced(server) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let (jobs, records) = (short(server, options), Records::new());
            let (log, go) = (records.path().join("log"), records.path().join("go"));
            let id = jobs.put(&["x"])[0];
            let worker = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
            let command = eventually_started(&log, 1, SOON);
            for _ in 0..2 {
                let claimer = worker.claimer();
                send(claimer, Signal::SIGKILL);
                eventually_gone(claimer, SOON);
                eventually("there is another", SOON, || worker.claimer() != claimer);
            }
            // Longer than the lease: the other one renews it.
            eventually("the lease is renewed", SOON, || jobs.count(RENEWED) == 1);
            assert!(runs(command));
            std::fs::write(&go, "").unwrap();
            eventually("it is done", SOON, || jobs.count(&format!("dblock_jobs WHERE id = {id}")) == 0);
            end(worker);
            assert_eq!(recorded(&log), ["start 1 1", "end 1 1"]);
            jobs.assert_empty();
        }
    }

    fn a_command_goes_on_while_its_claimer_cannot_be_replaced(server on mysql) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        let id = jobs.put(&["x"])[0];
        let mut worker = jobs.work(&[]).sh(&script(&log, &until(&go))).spawn();
        let command = eventually_started(&log, 1, SOON);
        let claimer = worker.claimer();
        // Enough for what it waits for, and not for another process.
        allow_files(worker.pid(), 6);
        send(claimer, Signal::SIGKILL);
        worker.wait_stderr("; trying again\n", SOON);
        assert!(runs(command) && claimer_of(worker.pid()).is_none());
        allow_files(worker.pid(), 1000);
        worker.claimer();
        std::fs::write(&go, "").unwrap();
        eventually("it is done", SOON, || jobs.count(&format!("dblock_jobs WHERE id = {id}")) == 0);
        end(worker);
        assert_eq!(recorded(&log), ["start 1 1", "end 1 1"]);
        jobs.assert_empty();
    }

    fn a_claimer_that_dies_loses_no_job_however_often(server) {
        let (jobs, records) = (Jobs::new(server, &["--shards", "2"]), Records::new());
        let log = records.path().join("log");
        let worker = jobs.work(&["-j", "3"]).sh(&script(&log, ":")).spawn();
        let mut handed_in = 0;
        for put in (1..=8).map(|round| round * 40) {
            jobs.number(40);
            // Each claimer has handed something in: five that die without that, one after the other, are the end of the worker.
            eventually("some are handed in", SOON, || put - jobs.count("dblock_jobs") >= handed_in + 10);
            send(worker.claimer(), Signal::SIGKILL);
            handed_in = put - jobs.count("dblock_jobs");
        }
        eventually("all are done", SOON * 3, || jobs.count("dblock_jobs") == 0);
        end(worker);
        // What was claimed and not passed on was returned: another fence, the same attempt.
        let ends = recorded(&log).iter().filter(|line| line.starts_with("end 1 ")).count();
        assert_eq!(ends, 320);
        jobs.assert_empty();
    }

    fn what_is_handed_in_again_leaves_a_newer_claim_of_the_same_job_alone(server) {
        for options in [&[][..], &["--claim", "blocks"]] {
            // Longer than the delays below take together: a claimer whose lease ends meanwhile begins anew.
            let (jobs, records) = (Jobs::new(server, &[&["--ttl", "20s"], options].concat()), Records::new());
            let (log, go) = (records.path().join("log"), records.path().join("go"));
            let proxy = Proxy::to(server);
            jobs.put(&["a"]);
            jobs.feed(&["--delay", "1h", "--lines"], "b\n".repeat(85).as_bytes());
            jobs.feed(&["--delay", "1h"], &vec![b'x'; 300_000]);
            let script = format!("test \"$(cat)\" = a || exit 0; {}", script(&log, &until(&go)));
            let worker = jobs.work(&["-j", "90", "--kill-after", "1"]).env("DBLOCK_URL", proxy.url()).sh(&script).spawn();
            let command = eventually_started(&log, 1, SOON);
            let claimer = worker.claimer();
            let frozen = Frozen::new(claimer);
            let turn = || jobs.rows::<u64>("SELECT turn FROM dblock_workers")[0];
            let before = turn();
            // The lease ends, and with it the command. The claimer has a turn before it that knows nothing of that.
            eventually_gone(command, SOON * 2);
            proxy.delay(Duration::from_millis(500));
            drop(frozen);
            eventually("it has taken the turn", SOON * 3, || turn() > before);
            // In the next one the job is returned and claimed again. It is passed on before the last of these.
            let columns = "queue, shard, priority, job, last_job, block, jobs, due_at";
            jobs.tables.sql(&format!("INSERT INTO dblock_due ({columns}) SELECT {columns} FROM dblock_delayed"));
            jobs.tables.sql("DELETE FROM dblock_delayed");
            let again = eventually_started(&log, 2, SOON * 3);
            send(claimer, Signal::SIGKILL);
            eventually_gone(claimer, SOON);
            proxy.delay(Duration::ZERO);
            eventually("all others are done", SOON, || jobs.count("dblock_jobs") == 1);
            assert!(runs(again));
            std::fs::write(&go, "").unwrap();
            eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
            end(worker);
            assert_eq!(recorded(&log), ["start 1 1", "start 1 2", "end 1 2"]);
            jobs.assert_empty();
        }
    }

    fn the_command_dies_with_its_worker_and_the_job_is_anothers_when_the_lease_is_over(server on mariadb) {
        for options in [&[][..], &["--claim", "blocks"]] {
            for with_claimer in [false, true] {
                let (jobs, records) = (short(server, options), Records::new());
                let (log, go) = (records.path().join("log"), records.path().join("go"));
                jobs.put(&["x"]);
                let mut first = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
                let command = eventually_started(&log, 1, SOON);
                let second = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
                jobs.eventually_idle(1);
                let claimer = first.claimer();
                let killed = Instant::now();
                if with_claimer {
                    kill_both(first.pid(), claimer);
                } else {
                    first.signal(Signal::SIGKILL);
                }
                eventually_gone(command, Duration::from_millis(300) + slack());
                eventually_gone(claimer, slack());
                first.wait_within(SOON).expect_signal(Signal::SIGKILL);
                eventually_started(&log, 2, TTL + SOON);
                let took = killed.elapsed();
                assert!(took < TTL + Duration::from_secs(1) + slack(), "{took:?}");
                assert_eq!(jobs.count("dblock_workers WHERE died"), 1);
                let errors: Vec<Option<String>> = jobs.rows("SELECT last_error FROM dblock_jobs");
                assert_eq!(errors, [Some("its worker died, or lost the server".to_owned())]);
                std::fs::write(&go, "").unwrap();
                eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
                end(second);
                assert_eq!(recorded(&log), ["start 1 1", "start 2 2", "end 2 2"]);
                jobs.assert_empty();
            }
        }
    }

    fn nothing_is_left_of_a_job_that_is_canceled_when_its_worker_has_died(server on mysql) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        let id = jobs.feed(&[], &vec![b'x'; 300_000])[0];
        let mut first = jobs.work(&[]).sh(&script(&log, &until(&go))).spawn();
        eventually_started(&log, 1, SOON);
        jobs.queue("cancel", &[&id.to_string()]).output();
        first.signal(Signal::SIGKILL);
        first.wait_within(SOON).expect_signal(Signal::SIGKILL);
        let second = jobs.work(&[]).sh("echo never").spawn();
        eventually("it is gone", TTL + SOON, || jobs.count("dblock_jobs") == 0);
        end(second);
        jobs.assert_empty();
    }

    fn a_job_that_takes_down_its_worker_too_often_is_dead(server on mariadb) {
        let jobs = short(server, &["--max-attempts", "1"]);
        jobs.put(&["x"]);
        let mut first = jobs.work(&[]).sh("kill -KILL $PPID; sleep 100").spawn();
        first.wait_within(SOON).expect_signal(Signal::SIGKILL);
        let second = jobs.work(&[]).sh("echo never").spawn();
        eventually("it is dead", TTL + SOON, || jobs.states() == [0, 0, 0, 1]);
        assert_eq!(second.stdout(), "");
        end(second);
    }

    fn each_job_of_a_block_that_takes_down_its_worker_says_why_it_is_dead(server) {
        let jobs = short(server, &["--claim", "blocks", "--max-attempts", "1"]);
        let ids = jobs.number(3);
        let mut first = jobs.work(&[]).sh("kill -KILL $PPID; sleep 100").spawn();
        first.wait_within(SOON).expect_signal(Signal::SIGKILL);
        let second = jobs.work(&[]).sh("echo never").spawn();
        eventually("the block is dead", TTL + SOON, || jobs.states() == [0, 0, 0, 1]);
        end(second);
        let errors: Vec<(u64, Option<String>)> = jobs.rows("SELECT id, last_error FROM dblock_jobs WHERE failed_at IS NOT NULL ORDER BY id");
        let why = Some("its worker died, or lost the server".to_owned());
        assert_eq!(errors, ids.into_iter().map(|id| (id, why.clone())).collect::<Vec<_>>());
    }

    fn a_repeating_job_that_takes_down_its_worker_too_often_waits_for_its_next_time(server on mysql) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let jobs = short(server, &[options, &["--max-attempts", "1"]].concat());
            jobs.put(&["--every", "1h", "x"]);
            let mut first = jobs.work(&[]).sh("kill -KILL $PPID; sleep 100").spawn();
            first.wait_within(SOON).expect_signal(Signal::SIGKILL);
            let second = jobs.work(&[]).sh("echo never").spawn();
            eventually("it is delayed", TTL + SOON, || jobs.states() == [0, 1, 0, 0]);
            assert_eq!(jobs.count("dblock_delayed WHERE attempt = 0 AND due_at > UTC_TIMESTAMP(6) + INTERVAL 59 MINUTE"), 1);
            assert_eq!(second.stdout(), "");
            end(second);
        }
    }

    fn a_job_that_may_be_started_once_is_not_claimed_ahead_of_its_start(server on mysql) {
        let jobs = short(server, &["--max-attempts", "1"]);
        jobs.number(300);
        // Of commands that are quick, more would be claimed ahead.
        let mut first = jobs.work(&[]).sh("[ $(cat) -lt 200 ] || { kill -KILL $PPID; sleep 100; }").spawn();
        first.wait_within(SOON * 2).expect_signal(Signal::SIGKILL);
        assert_eq!(jobs.states(), [100, 0, 1, 0]);
        let second = jobs.work(&["-j", "2"]).sh(":").spawn();
        eventually("all others are done", TTL + SOON, || jobs.states() == [0, 0, 0, 1]);
        end(second);
    }

    fn of_jobs_that_may_be_started_once_a_batch_is_claimed_for_each_free_slot(server on mariadb) {
        let (jobs, records) = (Jobs::new(server, &["--max-attempts", "1"]), Records::new());
        let go = records.path().join("go");
        jobs.put(&["x"]);
        let script = format!("cat >/dev/null; {}", until(&go));
        let worker = jobs.work(&["-j", "2", "--batch", "100"]).sh(&script).spawn();
        // It has fewer jobs than it might have.
        eventually("one runs", SOON, || commands_of(worker.pid()).len() == 1);
        jobs.number(300);
        eventually("another runs", SOON, || commands_of(worker.pid()).len() == 2);
        let claimed = jobs.count("dblock_running");
        assert!(claimed <= 101, "{claimed}");
        std::fs::write(&go, "").unwrap();
        eventually("all are done", SOON, || jobs.states() == [0; 4]);
        end(worker);
        jobs.assert_empty();
    }

    fn a_slot_beside_a_large_batch_is_used_after_a_job_that_was_tried_before(server on mysql) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let [log, go] = ["log", "go"].map(|name| records.path().join(name));
        jobs.number(20);
        // It takes so long that fewer are claimed ahead than the batch has.
        let script = format!(
            "read -r word; cat >/dev/null; echo $word >>{}; case $word in 1) {};; again) sleep 0.1;; esac",
            quoted(&log),
            until(&go)
        );
        let worker = jobs.work(&["-j", "2", "--batch", "20"]).sh(&script).spawn();
        eventually("the batch runs", SOON, || lines(&log) == ["1"]);
        jobs.put(&["--delay", "1h", "again"]);
        jobs.tables.sql("UPDATE dblock_delayed SET attempt = 1, due_at = UTC_TIMESTAMP(6)");
        eventually("one that was tried before is done", SOON, || jobs.count("dblock_jobs") == 20);
        jobs.put(&["new"]);
        eventually("a new one starts", SOON, || lines(&log) == ["1", "again", "new"]);
        std::fs::write(&go, "").unwrap();
        eventually("all are done", SOON, || jobs.states() == [0; 4]);
        end(worker);
        jobs.assert_empty();
    }

    fn what_is_claimed_ahead_goes_back_when_a_command_takes_long(server on mariadb) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let go = records.path().join("go");
        jobs.number(300);
        // So many quick ones that more are claimed ahead, and so many at once that a few that take seconds do not count.
        let slow = format!("[ $(cat) -lt 150 ] || while ! test -e {}; do sleep 0.1; done", quoted(&go));
        let first = jobs.work(&["-v", "-j", "16"]).sh(&slow).spawn();
        eventually("the others are due again", SOON, || {
            first.stderr().contains("the commands take long: returning ") && jobs.states() == [135, 0, 16, 0]
        });
        let said = first.stderr();
        assert!(!said.contains("job 166 "), "{said}");
        assert_eq!(jobs.count("dblock_due WHERE attempt > 0"), 0);
        let second = jobs.work(&["-j", "2"]).sh(":").spawn();
        eventually("they are done", SOON, || jobs.states() == [0, 0, 16, 0]);
        std::fs::write(&go, "").unwrap();
        eventually("all are", SOON, || jobs.states() == [0; 4]);
        end(first);
        end(second);
        jobs.assert_empty();
    }

    fn what_there_is_no_room_for_is_not_claimed_again_and_again(server on mysql) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let [log, go] = ["log", "go"].map(|name| records.path().join(name));
        jobs.number(3);
        // The command has fewer jobs than it might have.
        let worker = jobs.work(&["--batch", "10"]).sh(&format!("cat >/dev/null; {}", script(&log, &until(&go)))).spawn();
        eventually_started(&log, 1, SOON);
        jobs.number(4);
        let turns = || jobs.rows::<u64>("SELECT turn FROM dblock_workers")[0];
        let (before, since) = (turns(), Instant::now());
        // One each second, and whatever comes at once.
        let takes_too_many = || turns() > before + 5 + since.elapsed().as_secs();
        assert!(!within(Duration::from_secs(3), takes_too_many), "it takes turns all the time");
        std::fs::write(&go, "").unwrap();
        eventually("all are done", SOON, || jobs.states() == [0; 4]);
        end(worker);
    }

    fn a_worker_goes_on_when_its_server_has_lost_what_it_confirmed(shared) {
        let server = lazy(shared.kind);
        let set = |what: &str, value: u32| {
            let set = format!("SET GLOBAL innodb_flush_log_at_{what} = {value}");
            server.admin().query_drop(set).unwrap();
        };
        let jobs = Jobs::new(&server, &[]);
        let worker = jobs.work(&["-j", "2"]).command(["true"]).spawn();
        eventually("it is registered", SOON, || jobs.workers() == 1);
        // A server that is killed may have written all the same what it need not have written yet; or all were done before that.
        let was_lost = (0..12).any(|_| {
            set("trx_commit", 1);
            jobs.number(400);
            let are_done = |what: &str, done: u64| {
                let left = jobs.count("dblock_jobs");
                eventually(what, SOON, || jobs.count("dblock_jobs") <= left.saturating_sub(done));
            };
            are_done("some are done", 1);
            set("timeout", 2700);
            set("trx_commit", 0);
            are_done("some more are done", 50);
            server.kill();
            server.start();
            within(SOON / 10, || worker.stderr().contains("the server has lost what it had confirmed"))
        });
        assert!(was_lost, "the server has kept everything: {}", worker.stderr());
        eventually("all are done, while it lives", SOON * 6, || jobs.states() == [0; 4]);
        end(worker);
        jobs.assert_empty();
    }

    fn a_command_is_ended_whose_claim_the_server_has_lost(shared) {
        // A server that is killed may have written all the same what it need not have written yet.
        let was_lost = (0..10).any(|_| is_ended_where_the_server_loses_its_claim(shared.kind));
        assert!(was_lost, "the server has kept each claim");
    }

    fn a_command_goes_on_when_the_session_is_killed(server) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        jobs.put(&["x"]);
        let worker = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
        eventually_started(&log, 1, SOON);
        let sessions = |jobs: &Jobs| jobs.rows::<u64>(&format!("SELECT id FROM information_schema.processlist WHERE db = '{}' AND user = 'dblock'", jobs.tables.database));
        for _ in 0..3 {
            let mut found = Vec::new();
            eventually("there is a session", SOON, || {
                found = sessions(&jobs);
                found.len() == 1
            });
            server.admin().query_drop(format!("KILL {}", found[0])).unwrap();
            eventually("there is another", SOON, || !sessions(&jobs).contains(&found[0]));
        }
        eventually("it renews", SOON, || jobs.count(RENEWED) == 1);
        std::fs::write(&go, "").unwrap();
        eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
        end(worker);
        assert_eq!(recorded(&log), ["start 1 1", "end 1 1"]);
    }

    fn the_jobs_of_a_worker_that_is_killed_are_another_s_at_once_and_its_commands_are_gone(server) {
        for options in [&["--ttl", "1h"][..], &["--ttl", "1h", "--claim", "blocks"]] {
            let (jobs, records) = (Jobs::new(server, options), Records::new());
            let (log, go) = (records.path().join("log"), records.path().join("go"));
            jobs.put(&["x"]);
            let first = jobs.work(&[]).sh(&script(&log, &until(&go))).spawn();
            let command = eventually_started(&log, 1, SOON);
            let second = jobs.work(&[]).sh(&script_alone(&log, &until(&go))).spawn();
            jobs.eventually_idle(1);
            let micros = |moment: &str| jobs.rows::<i64>(&format!("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {moment}"))[0];
            let killed = micros("UTC_TIMESTAMP(6))");
            first.signal(Signal::SIGKILL);
            eventually("the command is ended", SOON, || !runs(command));
            eventually_started(&log, 2, SOON);
            // The worker's lease is not waited for: an idle worker looks once a second. What it claims renews its own lease.
            let claimed = micros("renewed_at) FROM dblock_workers WHERE gone_at IS NULL");
            let took = Duration::from_micros((claimed - killed).try_into().expect("claimed since"));
            assert!(took < Duration::from_secs(1) + slack(), "{took:?}");
            std::fs::write(&go, "").unwrap();
            eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
            assert_eq!(recorded(&log), ["start 1 1", "start 2 2", "end 2 2"]);
            end(second);
        }
    }

    fn the_jobs_of_a_worker_that_is_killed_during_a_turn_are_given_back_at_once(server) {
        let (jobs, records) = (Jobs::new(server, &["--ttl", "1h"]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        jobs.put(&["x"]);
        let mut worker = jobs.work(&["-j", "2"]).sh(&script(&log, &until(&go))).spawn();
        let command = eventually_started(&log, 1, SOON);
        let mut admin = jobs.tables.admin();
        admin.query_drop("LOCK TABLES dblock_workers READ").unwrap();
        let waits = format!("information_schema.processlist WHERE db = '{}' AND state LIKE 'Waiting for table%'", jobs.tables.database);
        eventually("a turn waits", SOON, || server.admin().query_first::<u64, _>(format!("SELECT COUNT(*) FROM {waits}")).unwrap() == Some(1));
        worker.signal(Signal::SIGKILL);
        worker.wait_within(SOON).expect_signal(Signal::SIGKILL);
        admin.query_drop("UNLOCK TABLES").unwrap();
        eventually("its jobs are another's to take", SOON, || jobs.workers() == 0);
        eventually_gone(command, SOON);
    }

    fn a_command_is_ended_before_another_starts_when_its_claimer_is_stopped(server on mariadb) {
        let is_ended_in_time = |options: &[&str]| {
            let (jobs, records) = (long(server, options), Records::new());
            let (log, go) = (records.path().join("log"), records.path().join("go"));
            jobs.put(&["x"]);
            // It heeds no SIGTERM.
            let stubborn = format!("trap '' TERM; {}", until(&go));
            let first = jobs.work(&["--kill-after", "1"]).sh(&script(&log, &stubborn)).spawn();
            let command = eventually_started(&log, 1, SOON);
            let second = jobs.work(&TO_THE_END).sh(&script_alone(&log, &until(&go))).spawn();
            jobs.eventually_idle(1);
            let frozen = Frozen::new(first.claimer());
            let stopped = Instant::now();
            eventually("the command is ended", LONG_TTL + SOON, || !runs(command));
            let took = stopped.elapsed();
            assert!(took < LONG_TTL * 9 / 10 + slack(), "{took:?}");
            eventually_started(&log, 2, LONG_TTL + SOON);
            drop(frozen);
            eventually("it knows", SOON, || first.stderr().contains("the worker was lost"));
            // It goes on as a new one.
            jobs.put(&["y"]);
            eventually_started(&log, 3, SOON);
            std::fs::write(&go, "").unwrap();
            eventually("both are done", SOON, || jobs.count("dblock_jobs") == 0);
            end(first);
            end(second);
            let mut all = recorded(&log);
            all.sort();
            assert_eq!(all, ["end 1 1", "end 2 2", "start 1 1", "start 1 1", "start 2 2"]);
            jobs.assert_empty();
        };
        // Both at once: they do nothing but wait.
        let queues: [&[&str]; 2] = [&[], &["--claim", "blocks"]];
        std::thread::scope(|scope| {
            for options in queues {
                scope.spawn(move || is_ended_in_time(options));
            }
        });
    }

    fn a_claimer_that_cannot_go_on_ends_the_command_of_a_worker_that_is_stopped(server on mysql) {
        let (jobs, _records, worker, command) = at_work(server);
        let stopped = Instant::now();
        let frozen = Frozen::new(worker.pid());
        jobs.tables.sql("RENAME TABLE dblock_workers TO dblock_workers_away");
        eventually("the command is ended", SOON, || !runs(command));
        let took = stopped.elapsed();
        assert!(took < TTL * 9 / 10 + slack(), "{took:?}");
        jobs.tables.sql("RENAME TABLE dblock_workers_away TO dblock_workers");
        drop(frozen);
        worker.wait().expect_code(78);
    }

    fn a_claimer_that_cannot_go_on_ends_the_command_of_a_worker_that_hangs(server on mariadb) {
        let (jobs, _records, worker, command) = at_work(server);
        let hung = Hung::new(worker.pid());
        jobs.tables.sql("RENAME TABLE dblock_workers TO dblock_workers_away");
        eventually("the command is ended", SOON, || !runs(command));
        assert!(hung.hangs());
        jobs.tables.sql("RENAME TABLE dblock_workers_away TO dblock_workers");
        drop(hung);
        worker.wait().expect_code(78);
    }

    fn a_command_is_ended_when_its_worker_hangs_and_was_lost(server on mysql) {
        let (jobs, _records, worker, command) = at_work(server);
        let hung = Hung::new(worker.pid());
        // As if another had given its job to others.
        jobs.tables.sql("UPDATE dblock_workers SET expires_at = NULL");
        jobs.tables.sql("DELETE FROM dblock_running");
        eventually("the command is ended", SOON, || !runs(command));
        assert!(hung.hangs());
        drop(hung);
        eventually("it knows", SOON, || worker.stderr().contains("the worker was lost"));
        end(worker);
    }

    fn a_command_that_may_take_long_to_end_is_gone_before_another_starts_if_its_server_is_lost(server on mariadb) {
        let jobs = short(server, &[]);
        let proxy = Proxy::to(server);
        jobs.put(&["x"]);
        let stubborn = "trap 'echo told' TERM; echo shell $$; while :; do sleep 0.1; done";
        // It has time to set its trap.
        let options = ["--timeout", "8", "--kill-after", "60"];
        let mut worker = jobs.work(&options).env("DBLOCK_URL", proxy.url()).sh(stubborn).spawn();
        let command = worker.wait_pid("shell");
        worker.wait_line("told", SOON);
        proxy.freeze();
        let lost = Instant::now();
        eventually("the command is ended", SOON, || !runs(command));
        let took = lost.elapsed();
        assert!(took < TTL * 9 / 10 + slack(), "{took:?}");
        // In hundredths of a second, of user and system.
        let used = [11, 12].map(|at| stat_field(worker.pid(), at).unwrap().parse::<u32>().unwrap());
        assert!(used.iter().sum::<u32>() < 50, "{used:?}: it waits for nothing");
        proxy.thaw();
        worker.signal(Signal::SIGTERM);
        worker.wait_within(SOON);
    }

    fn a_command_is_ended_before_another_starts_when_its_worker_is_stopped_and_its_claimer_has_no_server(server on mysql) {
        let is_ended_in_time = |with_other: bool| {
            let (jobs, records) = (long(server, &[]), Records::new());
            let (log, go) = (records.path().join("log"), records.path().join("go"));
            let proxy = Proxy::to(server);
            jobs.put(&["x"]);
            let first = jobs.work(&["--kill-after", "1"]).env("DBLOCK_URL", proxy.url()).sh(&script(&log, &until(&go))).spawn();
            let command = eventually_started(&log, 1, SOON);
            let second = with_other.then(|| jobs.work(&TO_THE_END).sh(&script_alone(&log, &until(&go))).spawn());
            if with_other {
                jobs.eventually_idle(1);
            }
            let frozen = Frozen::new(first.pid());
            proxy.freeze();
            let stopped = Instant::now();
            eventually("the command is ended", LONG_TTL + SOON, || !runs(command));
            let took = stopped.elapsed();
            assert!(took < LONG_TTL * 9 / 10 + slack(), "{took:?}");
            if with_other {
                eventually_started(&log, 2, LONG_TTL + SOON);
            }
            proxy.thaw();
            drop(frozen);
            if !with_other {
                eventually_started(&log, 2, SOON);
            }
            std::fs::write(&go, "").unwrap();
            eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
            // Where nobody else has taken the job, it was returned.
            let again = if with_other { "2 2" } else { "1 2" };
            assert_eq!(recorded(&log), ["start 1 1".to_owned(), format!("start {again}"), format!("end {again}")]);
            end(first);
            if let Some(second) = second {
                end(second);
            }
            jobs.assert_empty();
        };
        // Both at once: they do nothing but wait.
        std::thread::scope(|scope| {
            for with_other in [true, false] {
                scope.spawn(move || is_ended_in_time(with_other));
            }
        });
    }

    fn a_command_is_ended_when_its_worker_hangs_and_its_claimer_has_no_server(server on mariadb) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        let proxy = Proxy::to(server);
        jobs.put(&["x"]);
        let worker = jobs.work(&TO_THE_END).env("DBLOCK_URL", proxy.url()).sh(&script(&log, &until(&go))).spawn();
        let command = eventually_started(&log, 1, SOON);
        let hung = Hung::new(worker.pid());
        proxy.freeze();
        eventually("the command is ended", SOON, || !runs(command));
        assert!(hung.hangs());
        proxy.thaw();
        drop(hung);
        // Nobody else has taken the job.
        eventually_started(&log, 2, SOON);
        std::fs::write(&go, "").unwrap();
        eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
        end(worker);
        jobs.assert_empty();
    }

    fn a_completion_that_comes_too_late_changes_nothing_and_is_told(server) {
        for options in [&[][..], &["--claim", "blocks"]] {
            let (jobs, records) = (short(server, options), Records::new());
            let (log, go, go_too) = (records.path().join("log"), records.path().join("go"), records.path().join("go-too"));
            jobs.put(&["x"]);
            let first = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
            eventually_started(&log, 1, SOON);
            let frozen = Frozen::new(first.claimer());
            std::fs::write(&go, "").unwrap();
            eventually("it has ended well", SOON, || recorded(&log).len() == 2);
            let second = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go_too))).spawn();
            eventually_started(&log, 2, TTL + SOON);
            drop(frozen);
            eventually("it knows", SOON, || first.stderr().contains("the worker was lost"));
            end(first);
            assert_eq!(jobs.states(), [0, 0, 1, 0]);
            assert_eq!(jobs.count("dblock_running WHERE attempt = 2 AND fence = 2"), 1);
            std::fs::write(&go_too, "").unwrap();
            eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
            end(second);
            assert_eq!(recorded(&log), ["start 1 1", "end 1 1", "start 2 2", "end 2 2"]);
        }
    }

    fn a_worker_that_registers_anew_takes_no_turn_of_the_one_before(server) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let [log, go, go_too] = ["log", "go", "go-too"].map(|name| records.path().join(name));
        let proxy = Proxy::to(server);
        jobs.put(&["a"]);
        let script = format!("test \"$(cat)\" = a && go={} || go={}; {}", quoted(&go), quoted(&go_too), script(&log, "while ! test -e $go; do sleep 0.1; done"));
        let worker = jobs.work(&TO_THE_END).env("DBLOCK_URL", proxy.url()).sh(&script).spawn();
        eventually_started(&log, 1, SOON);
        jobs.put(&["b", "c"]);
        let renewals = || proxy.packets().iter().filter(|packet| packet.sent().is_some_and(|sent| sent.contains("queue renew"))).count();
        proxy.delay(Duration::from_millis(500));
        // As if another had given its jobs to others.
        jobs.tables.sql("UPDATE dblock_workers SET expires_at = NULL");
        jobs.tables.sql("DELETE FROM dblock_running");
        let before = renewals();
        eventually("it renews", SOON, || renewals() > before);
        // The turn that hands this in is asked for before the worker knows that it was lost.
        std::fs::write(&go, "").unwrap();
        eventually_started(&log, 2, SOON);
        proxy.delay(Duration::ZERO);
        // Whatever was asked of the one before is over by then.
        let before = renewals();
        eventually("the new one has renewed twice", SOON, || renewals() > before + 1);
        assert_eq!(jobs.states(), [1, 0, 1, 0]);
        std::fs::write(&go_too, "").unwrap();
        eventually("both are done", SOON, || jobs.count("dblock_jobs") == 1);
        end(worker);
    }

    fn a_worker_whose_number_another_has_got_meanwhile_ends_its_command(server) {
        let (jobs, records) = (Jobs::new(server, &["--ttl", "20s"]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        jobs.put(&["x"]);
        let first = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
        let command = eventually_started(&log, 1, SOON);
        let frozen = Frozen::new(first.claimer());
        let number = || jobs.rows::<u64>("SELECT worker FROM dblock_workers")[0];
        let before = number();
        // As if the server had lost what it committed since the worker came.
        let columns = "queue, shard, priority, job, last_job, block, jobs, due_at";
        for lost in [
            format!("INSERT INTO dblock_due ({columns}) SELECT {columns} FROM dblock_running"),
            "DELETE FROM dblock_running".to_owned(),
            "DELETE FROM dblock_workers".to_owned(),
            format!("ALTER TABLE dblock_workers AUTO_INCREMENT = {before}"),
        ] {
            jobs.tables.sql(&lost);
        }
        let second = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
        let again = eventually_started(&log, 2, SOON);
        assert_eq!(number(), before);
        drop(frozen);
        eventually_gone(command, SOON);
        eventually("it knows", SOON, || first.stderr().contains("the worker was lost"));
        assert!(runs(again));
        std::fs::write(&go, "").unwrap();
        eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
        end(first);
        end(second);
        assert_eq!(recorded(&log), ["start 1 1", "start 1 1", "end 1 1"]);
        jobs.assert_empty();
    }

    fn a_worker_that_is_stopped_and_has_its_claimer_keeps_its_job(server on mariadb) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        jobs.put(&["x"]);
        let first = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
        let command = eventually_started(&log, 1, SOON);
        let second = jobs.work(&[]).sh(&script(&log, ":")).spawn();
        jobs.eventually_idle(1);
        let frozen = Frozen::new(first.pid());
        let stopped = Instant::now();
        eventually("the lease would be over", SOON, || stopped.elapsed() > TTL + Duration::from_secs(2));
        assert!(runs(command));
        drop(frozen);
        assert_eq!(jobs.workers(), 2);
        std::fs::write(&go, "").unwrap();
        eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
        end(first);
        end(second);
        assert_eq!(recorded(&log), ["start 1 1", "end 1 1"]);
    }

    fn a_worker_that_is_stopped_while_its_claimer_claims_much_keeps_its_jobs(server on mysql) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let log = records.path().join("log");
        jobs.number(15_000);
        // The first command stops the worker, to which less than half of what is wanted was passed on.
        let stop = format!("test -e {0} || {{ echo >{0}; kill -STOP $PPID; }}", quoted(&records.path().join("stopped")));
        let script = format!("{stop}; cat >>{}", quoted(&log));
        let worker = jobs.work(&["-j", "3", "--batch", "5000", "--kill-after", "0"]).sh(&script).spawn();
        eventually("a command has started", SOON, || records.path().join("stopped").exists());
        let stopped = Instant::now();
        let frozen = Frozen::new(worker.pid());
        let other = jobs.work(&[]).sh("echo never; sleep 1").spawn();
        eventually("the lease would be over", SOON, || stopped.elapsed() > TTL + Duration::from_secs(2));
        assert_eq!(jobs.count("dblock_workers WHERE died OR expires_at < UTC_TIMESTAMP(6)"), 0);
        end(other);
        drop(frozen);
        eventually("all are done", SOON * 4, || jobs.count("dblock_jobs") == 0);
        assert!(!worker.stderr().contains("lost"), "{}", worker.stderr());
        end(worker);
        let mut numbers = lines(&log);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), lines(&log).len());
    }

    fn commands_are_ended_in_time_although_nobody_reads_what_they_say(server on mariadb) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let [log, go] = ["log", "go"].map(|name| records.path().join(name));
        jobs.number(60);
        let proxy = Proxy::to(server);
        let (unread, stderr) = nix::unistd::pipe().unwrap();
        let script = script(&log, &format!("{}; exec yes >&2", until(&go)));
        let worker = jobs.work(&["-j", "60", "--kill-after", "0"]).env("DBLOCK_URL", proxy.url()).sh(&script).stderr(stderr).spawn();
        eventually_started(&log, 60, SOON);
        let commands = commands_of(worker.pid());
        assert_eq!(commands.len(), 60);
        std::fs::write(&go, "").unwrap();
        let stopped = Instant::now();
        proxy.freeze();
        eventually("they are ended", SOON, || !commands.iter().any(|&command| runs(command)));
        let took = stopped.elapsed();
        assert!(took < TTL * 9 / 10 + slack(), "{took:?}");
        drop((worker, unread));
    }

    fn once_says_that_the_lease_was_lost(server on mysql) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let log = records.path().join("log");
        jobs.put(&["x"]);
        let mut worker = jobs.work(&["--once", "--kill-after", "0"]).sh(&script(&log, "exec sleep 100")).spawn();
        eventually_started(&log, 1, SOON);
        let frozen = Frozen::new(worker.claimer());
        eventually("the command is ended", SOON, || worker.stderr().contains("ending the commands"));
        eventually("the lease is over", SOON, || jobs.workers() == 0);
        drop(frozen);
        worker.wait_within(SOON).expect_code(74).expect_line("dblock: ");
    }

    fn storms_of_interrupted_statements_harm_nobody(server) {
        let jobs = Jobs::new(server, &["--shards", "2"]);
        let ids = jobs.number(120);
        let work = || jobs.work(&["-j", "2", "--connect-timeout", "60"]).sh("echo $DBLOCK_JOB_ID $DBLOCK_ATTEMPT; sleep 0.1");
        let workers: Vec<Running> = (0..3).map(|_| work().spawn()).collect();
        let mut admin = server.admin();
        let find = format!("SELECT id FROM information_schema.processlist WHERE db = '{}' AND user = 'dblock'", jobs.tables.database);
        let mut rounds = 0;
        eventually("all are done", SOON * 3, || {
            rounds += 1;
            // A pause in which a statement may come through, of 5 ms on a machine with nothing else to do.
            within(slack() / 200, || false);
            for id in admin.query::<u64, _>(&find).unwrap() {
                let what = if rounds % 20 == 0 { "CONNECTION" } else { "QUERY" };
                let _ = admin.query_drop(format!("KILL {what} {id}"));
            }
            jobs.count("dblock_jobs") == 0
        });
        let mut said: Vec<String> = workers.iter().flat_map(|worker| worker.stdout().lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        said.sort();
        let mut expected: Vec<String> = ids.iter().map(|id| format!("{id} 1")).collect();
        expected.sort();
        assert_eq!(said, expected);
        for worker in workers {
            end(worker);
        }
        jobs.assert_empty();
    }

    fn a_turn_that_reaches_the_server_late_changes_nothing(server) {
        let (jobs, records) = (Jobs::new(server, &["--retry-delay", "10ms"]), Records::new());
        let [log, go, go_too] = ["log", "go", "go-too"].map(|name| records.path().join(name));
        let proxy = Proxy::to(server);
        jobs.put(&["x"]);
        let between = format!("if test $DBLOCK_FENCE = 1; then {}; exit 75; fi; {}", until(&go), until(&go_too));
        let url = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:{}/", proxy.port, server.port);
        let worker = jobs.work(&["--connect-timeout", "12"]).env("DBLOCK_URL", url).sh(&script(&log, &between)).spawn();
        eventually_started(&log, 1, SOON);
        // The turn that records the first command is held back; another in its place does.
        proxy.freeze();
        std::fs::write(&go, "").unwrap();
        eventually_started(&log, 2, SOON);
        assert_eq!(jobs.states(), [0, 0, 1, 0]);
        proxy.thaw();
        let query = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}' AND user = 'dblock'", jobs.tables.database);
        eventually("its session is over", SOON, || jobs.rows::<u64>(&query) == [1]);
        assert_eq!(jobs.states(), [0, 0, 1, 0]);
        std::fs::write(&go_too, "").unwrap();
        eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
        end(worker);
        assert_eq!(recorded(&log), ["start 1 1", "start 1 2", "end 1 2"]);
        jobs.assert_empty();
    }

    fn a_restart_of_the_server_starts_no_job_twice(shared) {
        let server = Server::private_with(shared.kind, &["--innodb-flush-log-at-trx-commit=1"]);
        let (jobs, records) = (Jobs::new(&server, &["--ttl", "30s"]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        jobs.put(&["x"]);
        let busy = jobs.work(&[]).sh(&script(&log, &until(&go))).spawn();
        eventually_started(&log, 1, SOON);
        let idle = jobs.work(&[]).sh(&script(&log, ":")).spawn();
        jobs.eventually_idle(1);
        server.kill();
        // It ends while there is no server.
        std::fs::write(&go, "").unwrap();
        eventually("it has ended", SOON, || recorded(&log).len() == 2);
        server.start();
        eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
        jobs.put(&["y"]);
        eventually("it is done, too", SOON, || jobs.count("dblock_jobs") == 0);
        end(busy);
        end(idle);
        assert_eq!(recorded(&log), ["start 1 1", "end 1 1", "start 1 1", "end 1 1"]);
        jobs.assert_empty();
    }

    fn a_worker_that_is_asked_to_end_does_not_wait_for_a_server_for_ever(shared on mysql) {
        let server = Server::private(shared.kind);
        let (jobs, records) = (Jobs::new(&server, &[]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        jobs.put(&["x"]);
        let mut busy = jobs.work(&["--connect-timeout", "10"]).sh(&script(&log, &until(&go))).spawn();
        eventually_started(&log, 1, SOON);
        let mut idle = jobs.work(&[]).sh("true").spawn();
        jobs.eventually_idle(1);
        server.stop();
        let asked = Instant::now();
        idle.signal(Signal::SIGTERM);
        idle.wait_within(SOON).expect_code(0);
        assert!(asked.elapsed() < Duration::from_secs(1) + slack(), "{:?}", asked.elapsed());
        std::fs::write(&go, "").unwrap();
        eventually("it has ended", SOON, || recorded(&log).len() == 2);
        busy.signal(Signal::SIGTERM);
        let output = busy.wait_within(SOON);
        output.expect_code(69).expect_said(["how 1 job has ended is not recorded: cannot connect to "]);
        server.start();
    }

    fn a_worker_whose_claimer_hears_nothing_and_has_no_room_for_messages_ends_when_asked(server on mariadb) {
        let (_jobs, _records, _proxy, mut worker) = with_full_link(server, &[]);
        worker.signal(Signal::SIGTERM);
        worker.wait_stderr("taking no more jobs", SOON);
        let output = worker.wait_within(SOON);
        output.expect_code(69).expect_said([format!("how {UNHEARD} jobs have ended is not recorded")]);
    }

    fn what_had_no_room_while_the_claimer_heard_nothing_is_recorded_once_the_server_answers(server on mysql) {
        let (jobs, records, proxy, worker) = with_full_link(server, &["--keep", "1h"]);
        proxy.thaw();
        eventually("all are done", SOON, || jobs.states() == [0; 4]);
        let kept = "SELECT CAST(COALESCE(SUM(LENGTH(head) + LENGTH(tail)), 0) AS UNSIGNED) FROM dblock_outputs";
        eventually("their outputs are kept as a whole", SOON, || jobs.rows::<usize>(kept) == [UNHEARD * WRITTEN]);
        end(worker);
        assert_eq!(lines(&records.path().join("log")).len(), UNHEARD, "each has run once");
    }

    fn a_command_is_ended_at_its_timeout_while_the_claimer_hears_nothing_and_has_no_room_for_messages(server on mysql) {
        const JOBS: usize = 48;
        // So many failures of a block are recorded before its end.
        const RECORDED: usize = 16;
        // What each job but the last writes, all of which is kept.
        const OUTPUT: usize = 64 * 1024;
        let (jobs, records) = (Jobs::new(server, &["--ttl", "5m", "--claim", "blocks"]), Records::new());
        let log = records.path().join("log");
        let ids = jobs.number(JOBS);
        let proxy = Proxy::to(server);
        // The turn that is the first to record failures has no answer, for which the claimer waits.
        proxy.freeze_at("j.failed_at".to_owned());
        let script = format!(
            "read -r number; [ $number != {JOBS} ] || {{ echo $$ >>{}; exec sleep 600; }}; head -c {OUTPUT} /dev/zero | tr '\\0' x; exit 1",
            quoted(&log)
        );
        let work = jobs.work(&["-v", "--timeout", "4", "--keep-output", "failed", "--connect-timeout", "5"]);
        let mut worker = work.env("DBLOCK_URL", proxy.url()).sh(&script).spawn();
        // One after the other.
        eventually("the last one has started", SOON, || !lines(&log).is_empty());
        let command = lines(&log)[0].parse().expect("a process");
        eventually("the claimer waits for the server", SOON, || proxy.is_frozen());
        // What the claimer is told of those that have failed since then does not fit into the link, even if it was not at once.
        let room = std::fs::read_to_string("/proc/sys/net/core/wmem_default").unwrap();
        let room: usize = room.trim().parse().unwrap();
        assert!(worker.stdout().len() > 2 * RECORDED * OUTPUT + room, "{room}: {}", worker.stderr());
        worker.wait_stderr(&format!("job {} has run for 4s; ending it\n", ids[JOBS - 1]), SOON);
        eventually_gone(command, SOON);
        worker.signal(Signal::SIGTERM);
        worker.wait_stderr("taking no more jobs", SOON);
        // A block is as many jobs as it has.
        let output = worker.wait_within(SOON);
        output.expect_code(69).expect_said([format!("how {JOBS} jobs have ended is not recorded")]);
    }

    fn of_a_server_that_falls_silent_it_is_not_said_that_it_was_connected(server on mariadb) {
        let jobs = short(server, &[]);
        let proxy = Proxy::to(server);
        let url = format!("mysql://dblock@127.0.0.1:{}/", proxy.port);
        let mut worker = jobs.work(&[]).env("DBLOCK_URL", url).sh("echo never").spawn();
        jobs.eventually_idle(1);
        proxy.freeze();
        worker.wait_stderr("trying again", SOON);
        let silence = worker.stderr();
        assert!(silence.contains("no server has answered for ") && !silence.contains("connected"), "{silence}");
        worker.signal(Signal::SIGTERM);
        worker.wait_within(SOON).expect_code(0);
    }

    fn claimers_that_are_killed_now_and_then_are_replaced_for_ever(server on mariadb) {
        let (jobs, records) = (short(server, &[]), Records::new());
        let (log, go) = (records.path().join("log"), records.path().join("go"));
        jobs.put(&["x"]);
        let mut worker = jobs.work(&TO_THE_END).sh(&script(&log, &until(&go))).spawn();
        eventually_started(&log, 1, SOON);
        let renewed = || jobs.rows::<String>("SELECT CAST(renewed_at AS CHAR) FROM dblock_workers").remove(0);
        // No turn is over meanwhile: there is nothing to record.
        for _ in 0..7 {
            let since = Instant::now();
            eventually("it has lived for a while", SOON, || since.elapsed() > Duration::from_millis(1300));
            let claimer = claimer_of(worker.pid()).expect("it has a claimer");
            let before = renewed();
            send(claimer, Signal::SIGKILL);
            eventually("it has another", SOON, || claimer_of(worker.pid()).is_some_and(|pid| pid != claimer));
            eventually("that one renews", SOON, || renewed() != before);
        }
        std::fs::write(&go, "").unwrap();
        eventually("the job is done", SOON, || jobs.count("dblock_jobs") == 0);
        worker.signal(Signal::SIGTERM);
        worker.wait_within(SOON).expect_code(0);
        assert_eq!(lines(&log).iter().filter(|line| line.starts_with("start")).count(), 1);
    }

    fn a_worker_keeps_its_lease_while_it_rescues_the_jobs_of_many(server) {
        // Each rescue takes two answers, so all of them take longer than the lease.
        let jobs = Jobs::new(server, &["--ttl", "20s"]);
        let proxy = Proxy::to(server);
        let worker = jobs.work(&[]).env("DBLOCK_URL", proxy.url()).sh("true").spawn();
        jobs.eventually_idle(1);
        proxy.delay(Duration::from_millis(150));
        let dead = "INSERT INTO dblock_workers (run, queue, host, slots, ttl_seconds, started_at, renewed_at, expires_at) \
            SELECT REPLACE(UUID(), '-', ''), queue, 'dead', 1, 4, started_at, started_at, '2020-01-01' FROM dblock_workers WHERE host <> 'dead'";
        for _ in 0..45 {
            jobs.tables.sql(dead);
        }
        eventually("all of them are found", SOON * 3, || {
            assert_eq!(jobs.workers(), 1, "it has lost its lease");
            jobs.count("dblock_workers WHERE expires_at IS NOT NULL") == 1
        });
        proxy.delay(Duration::ZERO);
        end(worker);
    }

    fn what_fails_while_a_worker_ends_is_told(server on mysql) {
        for sql in ["UPDATE dblock_queues SET deleted_at = UTC_TIMESTAMP(6)", "DROP TABLE dblock_running"] {
            let (jobs, records) = (Jobs::new(server, &[]), Records::new());
            let (log, go) = (records.path().join("log"), records.path().join("go"));
            jobs.put(&["x"]);
            let mut worker = jobs.work(&[]).sh(&script(&log, &until(&go))).spawn();
            eventually_started(&log, 1, SOON);
            worker.signal(Signal::SIGTERM);
            jobs.tables.sql(sql);
            std::fs::write(&go, "").unwrap();
            let line = if sql.starts_with("UPDATE") { "the queue q was deleted" } else { "dblock init" };
            worker.wait_within(SOON).expect_code(78).expect_one_line(line);
        }
    }

    fn a_worker_keeps_its_session_and_asks_less_often_while_the_server_has_no_room(server) {
        let jobs = Jobs::new(server, &[]);
        jobs.put(&["x"]);
        jobs.tables.sql("CREATE TRIGGER no_room BEFORE INSERT ON dblock_running FOR EACH ROW SIGNAL SQLSTATE 'HY000' \
            SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'");
        let proxy = Proxy::to(server);
        let mut worker = jobs.work(&["-v", "--once"]).env("DBLOCK_URL", proxy.url()).sh("true").spawn();
        let said = "has no room: The table is full (error 1114); trying again";
        worker.wait_stderr(said, SOON);
        eventually("it has tried four times", SOON, || worker.stderr().matches(said).count() > 3);
        // Pauses of 0.2 s and twice as long each time.
        let packets = proxy.packets();
        let is_turn = |packet: &&Packet| packet.sent().is_some_and(|sent| sent.contains("queue turn"));
        let turns: Vec<Instant> = packets.iter().filter(is_turn).map(|packet| packet.at).collect();
        assert!(turns[3] - turns[0] > Duration::from_secs(1), "{packets:?}");
        jobs.tables.sql("DROP TRIGGER no_room");
        worker.wait_within(SOON).expect_code(0);
        assert_eq!(proxy.connections(), 1);
        jobs.assert_empty();
    }

    fn a_worker_that_ends_deregisters_however_long_its_last_turn_took(server on mariadb) {
        let (jobs, records) = (Jobs::new(server, &[]), Records::new());
        let [log, go] = ["log", "go"].map(|name| records.path().join(name));
        jobs.tables.sql("CREATE TRIGGER slow BEFORE DELETE ON dblock_jobs FOR EACH ROW SET @slept = SLEEP(1.5)");
        jobs.tables.sql("CREATE TRIGGER slower BEFORE UPDATE ON dblock_workers FOR EACH ROW SET @slept = IF(NEW.gone_at IS NULL, 0, SLEEP(1.5))");
        jobs.put(&["x"]);
        let mut worker = jobs.work(&[]).sh(&script(&log, &until(&go))).spawn();
        eventually_started(&log, 1, SOON);
        worker.signal(Signal::SIGTERM);
        let ended = Instant::now();
        std::fs::write(&go, "").unwrap();
        worker.wait_within(SOON).expect_code(0);
        let took = ended.elapsed();
        assert!(took > Duration::from_secs(3), "{took:?}");
        assert_eq!((jobs.workers(), jobs.count("dblock_jobs")), (0, 0));
    }

    fn what_an_idle_worker_claims_while_it_is_asked_to_end_is_given_back(server on mysql) {
        let jobs = Jobs::new(server, &[]);
        let mut worker = jobs.work(&["-v"]).sh("echo never").spawn();
        jobs.eventually_idle(1);
        // The claim waits for a lock that is not free until the worker is ending.
        let lock = format!("{}.slow", jobs.tables.database);
        let mut holder = server.admin();
        holder.query_drop(format!("SELECT GET_LOCK('{lock}', 0)")).unwrap();
        jobs.tables.sql(&format!("CREATE TRIGGER slow BEFORE INSERT ON dblock_running FOR EACH ROW SET @slept = GET_LOCK('{lock}', 8)"));
        jobs.put(&["x"]);
        let claims = format!("information_schema.processlist WHERE db = '{}' AND state = 'User lock'", jobs.tables.database);
        eventually("it claims", SOON, || jobs.count(&claims) == 1);
        worker.signal(Signal::SIGTERM);
        worker.wait_stderr("taking no more jobs", SOON);
        drop(holder);
        worker.wait_within(SOON).expect_code(0).expect_stdout("");
        assert_eq!((jobs.states(), jobs.count("dblock_due WHERE attempt = 0"), jobs.workers()), ([1, 0, 0, 0], 1, 0));
    }

    fn that_a_server_without_room_cannot_be_reached_is_not_said(server on mariadb) {
        // The answer to a renewal, which is due after a quarter of that, comes before the worker says that there is none.
        let jobs = Jobs::new(server, &["--ttl", "20s"]);
        let full = |name: &str, event: &str| jobs.tables.sql(&format!(
            "CREATE TRIGGER {name} BEFORE {event} FOR EACH ROW SIGNAL SQLSTATE 'HY000' \
             SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'"
        ));
        let cause = "has no room: The table is full (error 1114)";
        // The completion finds no room, and is asked for again and again.
        let records = Records::new();
        let [log, go] = ["log", "go"].map(|name| records.path().join(name));
        jobs.put(&["x"]);
        let mut busy = jobs.work(&["--connect-timeout", "5", "--kill-after", "0"]).sh(&script(&log, &until(&go))).spawn();
        eventually_started(&log, 1, SOON);
        full("no_room", "DELETE ON dblock_jobs");
        std::fs::write(&go, "").unwrap();
        eventually("it has ended", SOON, || recorded(&log).len() == 2);
        busy.signal(Signal::SIGTERM);
        let output = busy.wait_within(SOON);
        output.expect_code(69).expect_one_line(cause).expect_line("dblock: how 1 job has ended could not be recorded within 5s: ");
        jobs.tables.sql("DROP TRIGGER no_room");
        // No lease is renewed.
        let mut idle = jobs.work(&[]).sh("echo never").spawn();
        jobs.eventually_idle(1);
        full("no_room_either", "UPDATE ON dblock_workers");
        idle.wait_stderr("the lease could not be renewed for ", SOON);
        let said = idle.stderr();
        assert!(said.contains(cause) && said.contains("trying again"), "{said}");
        jobs.tables.sql("DROP TRIGGER no_room_either");
        idle.wait_stderr("the lease is renewed again", SOON);
        idle.signal(Signal::SIGTERM);
        idle.wait_within(SOON).expect_code(0);
        // Nobody is registered.
        full("no_room_at_all", "INSERT ON dblock_workers");
        let output = jobs.work(&["--connect-timeout", "5"]).sh("echo never").output();
        output.expect_code(69).expect_one_line(cause).expect_line("dblock: nothing could be recorded within 5s: ");
        jobs.tables.sql("DROP TRIGGER no_room_at_all");
    }

    fn a_server_that_answers_late_answers_again_once(shared on mariadb) {
        let server = Server::private(shared.kind);
        let (jobs, records) = (short(&server, &[]), Records::new());
        let (mut worker, log, go) = busy_until_told(&jobs, &records);
        let stopped = Instant::now();
        let frozen = server.freeze();
        worker.wait_stderr("the server has not answered for ", SOON);
        // A renewal is under way: when it is answered, the lease that it has renewed is over.
        eventually("the lease is over", SOON, || stopped.elapsed() > TTL * 3 / 2);
        drop(frozen);
        worker.wait_stderr("the server answers again", SOON);
        eventually_started(&log, 2, SOON);
        std::fs::write(&go, "").unwrap();
        eventually("it is done", SOON, || jobs.count("dblock_jobs") == 0);
        worker.signal(Signal::SIGTERM);
        let output = worker.wait_within(SOON);
        output.expect_code(0);
        let said: Vec<&str> = output.stderr.lines().filter(|line| line.contains("answer")).collect();
        assert_eq!(said.len(), 2, "{said:?}");
    }

    fn a_busy_worker_says_that_its_server_has_become_read_only(shared on mariadb) {
        let leaves = (0..3).any(|_| leaves_a_read_only_server(shared.kind, false));
        assert!(leaves, "the server stood still each time");
    }

    fn a_worker_that_may_write_to_a_read_only_server_leaves_it_all_the_same(shared) {
        let leaves = (0..3).any(|_| leaves_a_read_only_server(shared.kind, true));
        assert!(leaves, "the server stood still each time");
    }

    fn a_worker_without_a_server_that_takes_writes_ends_in_time(shared on mysql) {
        let server = Server::private(shared.kind);
        server.set_read_only(true);
        let work = Dblock::at(&server, "queue").args(["work", "q", "--connect-timeout", "12"]).sh("echo never").output();
        work.expect_code(78).expect_one_line("is read-only; name the server that takes writes").expect_stdout("");
    }
}

#[test]
fn what_is_done_of_a_block_that_goes_back_fits_into_a_packet_where_it_is_kept() {
    let server = Server::private_with(Kind::MariaDb, &["--max-allowed-packet=64K"]);
    let jobs = Jobs::new(&server, &["--claim", "blocks", "--keep", "1h"]);
    let records = Records::new();
    let go = records.path().join("go");
    jobs.number(200);
    let script = format!(
        "read number; test $number != 150 || {{ echo waits; {}; }}",
        until(&go)
    );
    let mut worker = jobs.work(&["--grace", "0"]).sh(&script).spawn();
    worker.wait_line("waits", SOON * 2);
    worker.signal(Signal::SIGTERM);
    worker.wait_within(SOON).expect_code(0);
    assert_eq!(jobs.count("dblock_done"), 149);
    assert_eq!(jobs.count("dblock_due WHERE jobs = 51 AND attempt = 0"), 1);
    assert_eq!(
        (jobs.states(), jobs.count("dblock_jobs")),
        ([1, 0, 0, 0], 200)
    );
}

#[test]
fn what_a_block_has_handed_in_fits_into_packets_when_it_is_handed_in_again() {
    let server = Server::private_with(Kind::MariaDb, &["--max-allowed-packet=256K"]);
    let (jobs, records) = (short(&server, &["--claim", "blocks"]), Records::new());
    let go = records.path().join("go");
    jobs.number(600);
    // Each has a long error; the last of them waits.
    let script = format!(
        "read number; printf %01000d 0 >&2; test $number != 600 || {{ {}; }}; exit 9",
        until(&go)
    );
    let work = jobs.work(&["-j", "8", "--bury-on", "9"]).sh(&script);
    let worker = work.spawn();
    let dead = || {
        let dead: Vec<Option<u64>> = jobs.rows("SELECT SUM(jobs) FROM dblock_dead");
        dead[0].unwrap_or_default()
    };
    eventually("most are recorded", SOON * 4, || dead() > 500);
    let claimer = worker.claimer();
    send(claimer, Signal::SIGKILL);
    eventually_gone(claimer, SOON);
    std::fs::write(&go, "").unwrap();
    eventually("all are dead", SOON, || dead() == 600);
    worker.signal(Signal::SIGTERM);
    worker.wait().expect_code(0);
}
