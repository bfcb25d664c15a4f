//! `--keep-output` and `dblock output`: what a command writes reaches its reader whole and in order, and its first and last bytes are kept
//! as long as its run or its job.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;

use crate::harness::crontab::end;
use crate::harness::pty::Shell;
use crate::harness::{
    BY_CHANCE, Crontab, Dblock, Jobs, Kind, Proxy, SOON, Server, Tables, all_servers, eventually,
    quoted, unique, within,
};

/// `dblock run --keep-output` with these tables.
fn keeping(tables: &Tables, name: &str) -> Dblock {
    tables.at("run").args(["--name", name]).arg("--keep-output")
}

/// The bytes that `dblock output` prints, and what it says on stderr.
#[track_caller]
fn kept(tables: &Tables, whose: &str) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    let file = File::create(&path).unwrap();
    let run = tables.at("output").arg(whose).stdout(file).output();
    run.expect_code(0);
    (std::fs::read(path).unwrap(), run.stderr)
}

/// There is no such output.
#[track_caller]
fn expect_none(tables: &Tables, whose: &str) {
    let line = format!("no output of {whose} is kept");
    let run = tables.at("output").arg(whose).output();
    run.expect_code(75).expect_stdout("").expect_one_line(&line);
}

/// The latest run of a name, as the history has it.
fn run_of(tables: &Tables, name: &str) -> serde_json::Value {
    let history = tables.at("history").args(["--json", name]).output();
    history.expect_code(0).json()["runs"]
        .as_array()
        .and_then(|runs| runs.last().cloned())
        .expect("a run")
}

/// A pipe whose reader has not begun.
fn pipe() -> (File, OwnedFd) {
    let (read, write) = std::io::pipe().unwrap();
    (OwnedFd::from(read).into(), write.into())
}

all_servers! {
    fn what_a_run_writes_is_kept_and_reaches_its_readers(server) {
        let tables = Tables::new(server);
        let name = unique("kept");
        // Bytes that are no text, on both streams, which are one file: then nothing changes their order.
        let both = "for n in 1 2 3; do printf \"out$n\\0\"; printf \"err$n\\377\\n\" >&2; done; exit 3";
        let (mut reader, writer) = pipe();
        let run = keeping(&tables, &name).stdout(writer.try_clone().unwrap()).stderr(writer).sh(both).spawn();
        run.wait().expect_code(3);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        let expected = b"out1\0err1\xff\nout2\0err2\xff\nout3\0err3\xff\n";
        assert_eq!(read, expected);
        assert_eq!(kept(&tables, &name), (expected.to_vec(), String::new()));
        let first = run_of(&tables, &name);
        assert_eq!(first["has_output"], true, "{first:#}");
        let like_a_run = "0123456789abcdef0123456789ABCDEF";
        let none = tables.at("output").arg(like_a_run).output();
        none.expect_code(75).expect_one_line("no output of the run or the name 0123456789abcdef");
        keeping(&tables, like_a_run).sh("echo named").output().expect_code(0);
        assert_eq!(kept(&tables, like_a_run).0, b"named\n");
        // The first and the last bytes of one that is longer. The latest run of a name counts, and any by its number.
        let numbers = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); echo $i; done";
        let long = keeping(&tables, &name).arg("--durable").sh(numbers).output();
        let all: Vec<String> = (1..=40_000).map(|number| number.to_string()).collect();
        let all = all.join("\n") + "\n";
        long.expect_code(0).expect_silence().expect_stdout(&all);
        let all = all.as_bytes();
        let (bytes, said) = kept(&tables, &name);
        assert_eq!(bytes.len(), 64 * 1024);
        assert!(bytes[..4096] == all[..4096] && all.ends_with(&bytes[4096..]));
        assert_eq!(said, format!("dblock: {} bytes left out here\n", all.len() - 64 * 1024));
        assert_eq!(kept(&tables, first["run"].as_str().unwrap()).0, expected);
        // The most that anybody can ask for passes every limit of a statement.
        let most = tables.at("run").args(["--name", &name, "--keep-output=480k"]).stdout(Stdio::null());
        most.sh("head -c 700000 /dev/zero").output().expect_code(0).expect_silence();
        assert_eq!(kept(&tables, &name).0.len(), 480 * 1024);
        // Where nothing is written, or nothing is to be kept, there is nothing.
        let name = unique("silent");
        keeping(&tables, &name).command(["true"]).output().expect_code(0).expect_silence();
        tables.at("run").args(["--record", "--name", &name]).sh("echo x").output().expect_code(0).expect_stdout("x\n");
        expect_none(&tables, &name);
        assert_eq!(run_of(&tables, &name)["has_output"], false);
        // What goes with its run.
        tables.sql("UPDATE dblock_meta SET keep_seconds = 1, keep_runs = 1");
        tables.sql("DELETE FROM dblock_runs");
        eventually("the outputs are gone, too", BY_CHANCE, || {
            let run = tables.at("run").args(["--record", "--name", &unique("pruner")]).command(["true"]);
            run.output().expect_code(0);
            tables.rows::<u64>("SELECT COUNT(*) FROM dblock_outputs") == [0]
        });
    }

    fn a_server_that_is_gone_at_the_end_keeps_nobody_waiting_and_changes_no_exit_code(server) {
        let tables = Tables::new(server);
        let proxy = Proxy::to(server);
        let (name, folder) = (unique("gone"), tempfile::tempdir().unwrap());
        let go = folder.path().join("go");
        let script = format!("echo before; while ! [ -e {} ]; do sleep 0.1; done; echo after; exit 4", quoted(&go));
        let mut run = keeping(&tables, &name).env("DBLOCK_URL", proxy.url()).env("DBLOCK_CONNECT_TIMEOUT", "12s").sh(&script).spawn();
        run.wait_line("before", SOON);
        proxy.freeze();
        std::fs::write(go, "").unwrap();
        run.wait_line("after", SOON);
        let ended = run.wait();
        ended.expect_code(4).expect_stdout("before\nafter\n");
        assert!(ended.stderr.contains("did not answer"), "{ended:#?}");
        proxy.thaw();
    }

    fn the_output_of_a_run_that_ends_while_the_server_is_away_is_kept_with_its_end(shared) {
        let server = Server::private_that_keeps(shared.kind);
        let tables = Tables::new(&server);
        let (name, folder) = (unique("away"), tempfile::tempdir().unwrap());
        let go = folder.path().join("go");
        let script = format!("echo before; while ! [ -e {} ]; do sleep 0.1; done; echo after; exit 3", quoted(&go));
        let run = keeping(&tables, &name).env("DBLOCK_CONNECT_TIMEOUT", "2m").arg("-v");
        let mut run = run.sh(&script).spawn();
        run.wait_line("before", SOON);
        server.kill();
        run.wait_stderr("was lost while the command runs", SOON);
        std::fs::write(go, "").unwrap();
        run.wait_stderr("the command ended with 3", SOON);
        server.start();
        let ended = run.wait_within(Duration::from_secs(120));
        ended.expect_code(3).expect_stdout("before\nafter\n");
        assert!(!ended.stderr.contains("the output"), "{ended:#?}");
        let record = run_of(&tables, &name);
        assert_eq!(record["exit_code"], 3, "{record:#}");
        assert_eq!(kept(&tables, &name), (b"before\nafter\n".to_vec(), String::new()));
    }

    fn without_rights_on_the_outputs_all_else_goes_on(server) {
        let tables = Tables::new(server);
        // As after an upgrade: who may use the older tables may not use this one.
        let mut account = "dblock".to_owned();
        if server.kind == Kind::Postgres {
            tables.sql("REVOKE ALL ON dblock_outputs FROM dblock");
        } else {
            account = server.account();
            for table in ["meta", "runs", "locks", "successes", "cron_jobs"] {
                tables.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON dblock_{table} TO '{account}'@'%'"));
            }
        }
        let at = |command: &str| tables.at(command).user(&account);
        let name = unique("no-rights");
        let run = at("run").args(["--keep-output", "--name", &name]).sh("echo x; exit 3").output();
        run.expect_code(3).expect_stdout("x\n").expect_one_line("the output is not kept: ");
        let history = at("history").args(["--json", &name]).output();
        let run = history.expect_code(0).json()["runs"][0].clone();
        assert_eq!(run["has_output"], false, "{run:#}");
        tables.sql("UPDATE dblock_meta SET keep_seconds = 1, keep_runs = 1");
        let first = format!("SELECT COUNT(*) FROM dblock_runs WHERE run = '{}'", run["run"].as_str().unwrap());
        eventually("the run is pruned", BY_CHANCE, || {
            at("run").args(["--record", "--name", &name]).command(["true"]).output().expect_code(0).expect_silence();
            tables.rows::<u64>(&first) == [0]
        });
    }

    fn whoever_may_only_read_the_tables_reads_an_output(server) {
        let tables = Tables::new(server);
        let name = unique("read");
        keeping(&tables, &name).sh("echo kept").output().expect_code(0);
        let account = server.account();
        tables.grant("SELECT", &account);
        let output = tables.at("output").arg(&name).user(&account).output();
        output.expect_code(0).expect_silence().expect_stdout("kept\n");
    }

    fn a_later_run_without_output_is_passed_over(server) {
        let tables = Tables::new(server);
        let name = unique("passed");
        keeping(&tables, &name).sh("echo earlier").output().expect_code(0);
        keeping(&tables, &name).command(["true"]).output().expect_code(0);
        assert_eq!(run_of(&tables, &name)["has_output"], false);
        assert_eq!(kept(&tables, &name).0, b"earlier\n");
    }

    fn the_output_of_jobs_of_the_crontab_is_kept_if_they_fail_or_as_they_say(server) {
        let lines = "#: fails\n0 0 1 1 * echo out; echo err >&2; false\n\
                     #: works\n0 0 1 1 * echo fine\n\
                     #: always --keep-output all\n0 0 1 1 * echo whole\n\
                     #: never --keep-output none\n0 0 1 1 * echo lost; false\n";
        let crontab = Crontab::new(server, lines);
        let daemon = crontab.start(&[]);
        for job in ["fails", "works", "always", "never"] {
            crontab.does_to("trigger", job);
        }
        eventually("all have run", SOON, || {
            crontab.count("dblock_runs WHERE ended_at IS NOT NULL") == 4
        });
        end(daemon);
        let tables = &crontab.tables;
        let (mut fails, _) = kept(tables, &crontab.name("fails"));
        fails.sort_unstable();
        let mut both = b"out\nerr\n".to_vec();
        both.sort_unstable();
        assert_eq!(fails, both);
        assert_eq!(kept(tables, &crontab.name("always")).0, b"whole\n");
        expect_none(tables, &crontab.name("works"));
        expect_none(tables, &crontab.name("never"));
        let daemon = crontab.start(&["--keep-output", "all"]);
        crontab.does_to("trigger", "works");
        let of_works = format!("dblock_outputs WHERE name = '{}'", crontab.name("works"));
        eventually("it is kept", SOON, || crontab.count(&of_works) == 1);
        end(daemon);
    }
}

#[test]
fn the_output_of_jobs_of_a_queue_is_kept_as_long_as_the_job() {
    let jobs = Jobs::new(
        Server::shared(Kind::MySql),
        &["--max-attempts", "1", "--keep", "1h"],
    );
    let ids = jobs.number(2);
    let script = "read n; echo out $n; echo err $n >&2; [ $n = 1 ]";
    let (mut reader, writer) = pipe();
    let work = jobs.work(&["--drain"]).stdout(writer).sh(script).spawn();
    work.wait().expect_code(0);
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    assert_eq!(read, "out 1\nout 2\n", "stdout goes on as it is");
    let tables = &jobs.tables;
    let failed = format!("q#{}", ids[1]);
    let (bytes, _) = kept(tables, &failed);
    let text = String::from_utf8(bytes.clone()).unwrap();
    assert!(
        text.contains("out 2\n") && text.contains("err 2\n"),
        "{text}"
    );
    assert_eq!(kept(tables, "q").0, bytes);
    expect_none(tables, &format!("q#{}", ids[0]));
    let error: Vec<String> =
        jobs.rows("SELECT last_error FROM dblock_jobs WHERE last_error IS NOT NULL");
    assert_eq!(error, ["exit 1: err 2"], "only stderr");
    jobs.does("cancel", &[&ids[1].to_string()]);
    jobs.number(1);
    jobs.work(&["--drain", "--keep-output", "all"])
        .sh("echo fine")
        .output()
        .expect_code(0);
    assert_eq!(kept(tables, "q").0, b"fine\n");
    jobs.number(1);
    jobs.work(&["--drain", "--keep-output", "none"])
        .sh("echo lost; false")
        .output()
        .expect_code(0);
    assert_eq!(kept(tables, "q").0, b"fine\n");
    // It goes with its job, when a worker deletes what is old.
    eventually("the output of a deleted job is gone", BY_CHANCE, || {
        jobs.work(&["--drain"])
            .command(["true"])
            .output()
            .expect_code(0);
        jobs.count(&format!("dblock_outputs WHERE job = {}", ids[1])) == 0
    });
}

#[test]
fn of_a_block_only_the_output_of_failed_jobs_is_kept() {
    let jobs = Jobs::new(
        Server::shared(Kind::MariaDb),
        &["--claim", "blocks", "--keep", "1h"],
    );
    let ids = jobs.number(3);
    jobs.work(&["--drain", "--keep-output", "all"])
        .sh("read n; echo out $n; [ $n != 2 ]")
        .output()
        .expect_code(0);
    let whose = |job: u64| format!("q#{job}");
    assert_eq!(kept(&jobs.tables, &whose(ids[1])).0, b"out 2\n");
    for done in [ids[0], ids[2]] {
        expect_none(&jobs.tables, &whose(done));
    }
}

#[test]
fn an_attempt_that_writes_nothing_leaves_no_output_of_an_earlier_one() {
    let jobs = Jobs::new(Server::shared(Kind::MySql), &[]);
    let whose = format!("q#{}", jobs.number(1)[0]);
    let work = |script: &str| {
        let output = jobs.work(&["--drain"]).sh(script).output();
        output.expect_code(0);
    };
    work("echo first; exit 1");
    assert_eq!(kept(&jobs.tables, &whose).0, b"first\n");
    let again = "UPDATE dblock_delayed SET due_at = UTC_TIMESTAMP(6)";
    jobs.tables.sql(again);
    work("exit 1");
    expect_none(&jobs.tables, &whose);
}

/// Writes many lines of a hundred bytes, one at a time, into a pipe that has room for all of them.
const MANY_LINES: &str = r#"
import fcntl, os, sys, time
number = sys.stdin.readline().strip()
fcntl.fcntl(1, 1031, 1 << 20)
os.chdir(sys.argv[1])
open("begun-" + number, "w")
for _ in range(6000):
    if os.path.exists("go"):
        break
    time.sleep(0.02)
else:
    sys.exit("nobody said go")
for _ in range(3000):
    os.write(1, number.encode().rjust(99, b".") + b"\n")
os.write(1, b"unended-" + number.encode())
open("written-" + number, "w")
"#;

#[test]
fn lines_of_jobs_that_run_at_once_do_not_mix() {
    let jobs = Jobs::new(Server::shared(Kind::MySql), &[]);
    jobs.number(2);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let both = |what: &str| {
        [1, 2]
            .iter()
            .all(|n| path.join(format!("{what}-{n}")).exists())
    };
    let (mut reader, writer) = pipe();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(1 << 20)).unwrap();
    let python = ["/usr/bin/python3", "-c", MANY_LINES, path.to_str().unwrap()];
    let run = jobs.work(&["--drain", "-j", "2"]).stdout(writer);
    let run = run.command(python).spawn();
    eventually("both run", SOON, || both("begun"));
    // Each has more to say than is passed on in a turn.
    run.signal(Signal::SIGSTOP);
    std::fs::write(path.join("go"), "").unwrap();
    eventually("both have written", SOON, || both("written"));
    run.signal(Signal::SIGCONT);
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    run.wait().expect_code(0);
    let whole = |n| {
        let line = format!("{n:.>99}");
        read.lines().filter(|one| one.ends_with(&line)).count()
    };
    assert_eq!((whole(1), whole(2)), (3000, 3000));
    assert!(read.contains("unended-1") && read.contains("unended-2"));
}

/// Everything that a reader gets.
fn all_of(mut reader: File) -> Vec<u8> {
    let mut all = Vec::new();
    reader.read_to_end(&mut all).unwrap();
    all
}

/// A command that writes this many bytes to stdout, and half of them to stderr.
fn writes(bytes: usize) -> String {
    format!(
        "head -c {bytes} /dev/zero | tr '\\0' x; head -c {} /dev/zero | tr '\\0' y >&2",
        bytes / 2
    )
}

#[test]
fn a_slow_reader_is_waited_for_and_gets_all_and_so_is_one_that_is_stopped() {
    let tables = Tables::new(Server::shared(Kind::MariaDb));
    let name = unique("slow");
    let ([out, err], [out_end, err_end]) = {
        let (one, other) = (pipe(), pipe());
        ([one.0, other.0], [one.1, other.1])
    };
    let run = keeping(&tables, &name).stdout(out_end).stderr(err_end);
    let mut run = run.sh(&writes(1_000_000)).spawn();
    // More than the pipes hold: command and dblock wait for the readers.
    assert!(!within(Duration::from_millis(500), || !run.is_running()));
    run.signal(Signal::SIGSTOP);
    run.signal(Signal::SIGCONT);
    let err = std::thread::spawn(|| all_of(err));
    assert_eq!(all_of(out).len(), 1_000_000);
    assert_eq!(err.join().unwrap().len(), 500_000);
    run.wait().expect_code(0);
    let (bytes, said) = kept(&tables, &name);
    assert!(bytes.len() == 64 * 1024 && bytes[..4096].iter().all(|byte| *byte == b'x'));
    assert!(
        said.contains(&format!("{} bytes left out", 1_500_000 - 64 * 1024)),
        "{said}"
    );
    // The reader has gone: the command gets SIGPIPE, as without dblock.
    let (reader, writer) = pipe();
    let run = keeping(&tables, &name).stdout(writer);
    let run = run
        .sh("sleep 0.2; while :; do echo x || exit 7; done")
        .spawn();
    drop(reader);
    let ended = run.wait();
    assert!(
        ended.signal == Some(Signal::SIGPIPE as i32) || ended.code == Some(7),
        "{ended:#?}"
    );
    // A signal does not wait for a reader that does not read.
    let (reader, writer) = pipe();
    let run = keeping(&tables, &name)
        .stdout(writer)
        .sh("echo here >&2; exec head -c 100000 /dev/zero");
    let mut run = run.spawn();
    run.wait_stderr("here", SOON);
    eventually("only dblock is there to wait", SOON, || {
        run.signal(Signal::SIGTERM);
        !run.is_running()
    });
    drop(reader);
}

#[test]
fn a_hold_keeps_the_output_once_and_ends_at_a_signal_though_nobody_reads() {
    let tables = Tables::new(Server::shared(Kind::MySql));
    let name = unique("hold");
    let run = keeping(&tables, &name).args(["--hold-at-least", "1"]);
    run.sh("echo once").output().expect_code(0);
    assert_eq!(kept(&tables, &name).0, b"once\n");
    let (reader, writer) = pipe();
    let run = keeping(&tables, &name).args(["--hold-at-least", "50", "-v"]);
    let run = run.stdout(writer).sh("exec head -c 100000 /dev/zero");
    let mut run = run.spawn();
    run.wait_stderr("holding", SOON);
    run.signal(Signal::SIGTERM);
    eventually("nobody waits for a reader", SOON, || !run.is_running());
    drop(reader);
}

#[test]
fn a_file_that_is_appended_to_a_closed_stream_and_a_program_that_is_not_there() {
    let tables = Tables::new(Server::shared(Kind::MySql));
    let (name, folder) = (unique("file"), tempfile::tempdir().unwrap());
    let log = folder.path().join("log");
    let append = || {
        File::options()
            .append(true)
            .create(true)
            .open(&log)
            .unwrap()
    };
    for _ in 0..2 {
        let run = keeping(&tables, &name)
            .stdout(append())
            .sh("head -c 300000 /dev/zero");
        run.output().expect_code(0);
    }
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 600_000);
    assert_eq!(kept(&tables, &name).0.len(), 64 * 1024);
    let run = keeping(&tables, &name).arg("--keep-output=8k");
    run.sh("true").output().expect_code(64);
    let sized = tables.at("run").args(["--name", &name, "--keep-output=8k"]);
    sized
        .sh("head -c 300000 /dev/zero")
        .stdout(Stdio::null())
        .output()
        .expect_code(0);
    assert_eq!(kept(&tables, &name).0.len(), 8192);
    keeping(&tables, &name)
        .command(["/no/such/program"])
        .output()
        .expect_code(127);
    for wrong in ["1k", "1", ""] {
        let option = format!("--keep-output={wrong}");
        let run = tables.at("run").args(["--name", &name, &option]).sh("true");
        run.output()
            .expect_code(64)
            .expect_one_line("is not a size from 8k to 480k");
    }
    // Without stdout the command has none either.
    let script = format!(
        "exec {} run --name {name} --keep-output -- sh -c 'echo lost; echo $? >&2' >&-",
        env!("CARGO_BIN_EXE_dblock")
    );
    let closed = tables
        .at("run")
        .args(["--name", &unique("outer")])
        .sh(&script)
        .output();
    closed.expect_code(0);
    assert!(
        closed.stderr.contains("\n1\n") || closed.stderr.ends_with("1\n"),
        "{closed:#?}"
    );
}

#[test]
fn a_command_whose_output_cannot_be_written_runs_on_and_all_of_it_is_kept() {
    let tables = Tables::new(Server::shared(Kind::MariaDb));
    let (name, folder) = (unique("full"), tempfile::tempdir().unwrap());
    let go = folder.path().join("go");
    let script = format!(
        "echo before; while ! [ -e {} ]; do sleep 0.1; done; echo after && exit 4",
        quoted(&go)
    );
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut run = keeping(&tables, &name).stdout(full).sh(&script).spawn();
    let line = "cannot write to stdout: No space left on device; what commands write there is lost";
    run.wait_stderr(line, SOON);
    std::fs::write(go, "").unwrap();
    run.wait().expect_code(4).expect_one_line(line);
    assert_eq!(kept(&tables, &name).0, b"before\nafter\n");
}

#[test]
fn runs_that_share_a_file_write_over_nothing_of_each_other() {
    let tables = Tables::new(Server::shared(Kind::MySql));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let write_at_once = |_| {
        let log = File::create(&path).unwrap();
        let (reader, go) = pipe();
        let mut runs = ["a", "b"].map(|letter| {
            let script = format!("echo ready >&2; read -r line; yes {letter} | head -n 5000000");
            let run = keeping(&tables, &unique("shared")).stdin(reader.try_clone().unwrap());
            run.stdout(log.try_clone().unwrap()).sh(&script).spawn()
        });
        for run in &mut runs {
            run.wait_stderr("ready", SOON);
        }
        drop(go);
        for run in runs {
            run.wait().expect_code(0);
        }
        let all = std::fs::read(&path).unwrap();
        assert_eq!(all.len(), 20_000_000);
        let first = |letter: u8| all.iter().position(|byte| *byte == letter);
        let last = |letter: u8| all.iter().rposition(|byte| *byte == letter);
        first(b'a') < last(b'b') && first(b'b') < last(b'a')
    };
    assert!(
        (0..10).any(write_at_once),
        "they never write at the same time"
    );
}

/// Whether a process has this pipe open.
fn has_open(pid: i32, pipe: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut targets = files.flatten().map(|file| std::fs::read_link(file.path()));
    targets.any(|target| target.is_ok_and(|target| target == Path::new(pipe)))
}

#[test]
fn the_end_of_the_output_is_seen_also_where_the_kept_part_has_filled_a_pipe() {
    let tables = Tables::new(Server::shared(Kind::MySql));
    // Each piece that is passed on alone takes a page of a pipe, which has 16 or 64 of these.
    let script = "readlink /proc/self/fd/1; while read -r line; do echo \"$line\"; done; \
                  exec >/dev/null 2>&1; exec sleep 60";
    let run = keeping(&tables, &unique("end")).without_terminal();
    let mut run = run.stdin(Stdio::piped()).sh(script).spawn();
    let mut stdin = run.take_stdin();
    let pipe = run.wait_line("pipe:", SOON);
    assert!(has_open(run.pid(), &pipe));
    for number in 2..=64 {
        let line = format!("line {number}.");
        writeln!(stdin, "{line}").unwrap();
        run.wait_line(&line, SOON);
    }
    drop(stdin);
    // Otherwise the end wakes it again and again, and it is busy until the command ends.
    eventually("dblock closes the pipe, too", SOON, || {
        !has_open(run.pid(), &pipe)
    });
    run.signal(Signal::SIGTERM);
    run.wait().expect_signal(Signal::SIGTERM);
}

#[test]
fn what_others_wrote_steers_no_terminal() {
    let server = Server::shared(Kind::MariaDb);
    let jobs = Jobs::new(server, &[]);
    let name = unique("shown");
    let script = r"printf '\033[31mred\033[2J\033]0;title\007\tend\377\302\233\n'";
    let run = keeping(&jobs.tables, &name).stdout(Stdio::null());
    run.sh(script).output().expect_code(0);
    let written = b"\x1b[31mred\x1b[2J\x1b]0;title\x07\tend\xff\xc2\x9b\n";
    assert_eq!(kept(&jobs.tables, &name).0, written);
    let job = jobs.put(&["line\n\x1b[2J"])[0];
    let mut shell = Shell::start(server);
    let database = &jobs.tables.database;
    shell.enter(&format!("export DBLOCK_DATABASE={database}"));
    let output = format!("output {name}");
    let payload = format!("queue show q {job} --payload");
    let colored = "\x1b[31mred\\u{1b}[2J\\u{1b}]0;title\\u{7}\tend\\xff\\u{9b}\n\x1b[0m";
    let plain = "line\n\\u{1b}[2J";
    for (command, shown) in [(output, colored), (payload, plain)] {
        let start = shell.all().len();
        shell.enter(&format!("dblock {command}"));
        shell.expect_code(0);
        let seen = &shell.all()[start..];
        assert!(seen.contains(shown), "{command}: {seen:?}");
        assert!(!seen.contains("\x1b[2J"), "{command}: {seen:?}");
    }
}

#[test]
fn a_terminal_is_refused_and_older_tables_keep_nothing() {
    let server = Server::shared(Kind::MySql);
    let mut shell = Shell::start(server);
    shell.dblock("--keep-output -- true");
    shell.wait_for("is a terminal");
    shell.expect_code(64);
    let tables = Tables::missing(server);
    keeping(&tables, &unique("none"))
        .command(["true"])
        .output()
        .expect_code(78)
        .expect_one_line("create them with dblock init");
    tables.init().output().expect_code(0);
    tables.sql("DROP TABLE dblock_outputs");
    tables.sql("UPDATE dblock_meta SET version = 5");
    let check = tables.at("check").output();
    assert!(
        check.stdout.contains("dblock init upgrades them"),
        "{check:#?}"
    );
    let name = unique("older");
    let line = "the output is not kept: the tables in the database";
    keeping(&tables, &name)
        .sh("echo x; exit 5")
        .output()
        .expect_code(5)
        .expect_stdout("x\n")
        .expect_one_line(line);
    assert_eq!(run_of(&tables, &name)["has_output"], false);
    tables
        .at("output")
        .arg(&name)
        .output()
        .expect_code(78)
        .expect_one_line("upgrade them with dblock init");
}
