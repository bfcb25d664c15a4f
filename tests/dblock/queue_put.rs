//! `dblock queue put`: what is put is in the queue once, whatever its bytes, whatever becomes of the session; and its ids are printed.

use std::fs::{self, File};
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::pty::Shell;
use crate::harness::{
    Dblock, Kind, Output, Proxy, SOON, Server, Tables, both_servers, children_of, eventually,
    numbered_lines, quoted, runs, send, unique,
};

/// Tables with the queue `q`.
fn with_queue<'a>(server: &'a Server, options: &[&str]) -> Tables<'a> {
    let tables = Tables::new(server);
    let create = tables.at("queue").args(["create", "q"]).args(options);
    create.output().expect_code(0).expect_silence();
    tables
}

fn put(tables: &Tables, args: &[&str]) -> Dblock {
    tables.at("queue").args(["put", "q"]).args(args)
}

/// With this on stdin.
fn fed(dblock: Dblock, stdin: &[u8]) -> Output {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(stdin).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    dblock.stdin(file).output()
}

/// The ids that were printed.
#[track_caller]
fn ids(output: &Output) -> Vec<u64> {
    output
        .stdout
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

/// The payloads in the order of their ids.
fn payloads(tables: &Tables) -> Vec<Vec<u8>> {
    let query = "SELECT COALESCE(j.payload, (SELECT GROUP_CONCAT(p.data ORDER BY p.part SEPARATOR '') FROM dblock_job_parts p WHERE p.job = j.id)) \
                 FROM dblock_jobs j ORDER BY j.id";
    let mut admin = tables.admin();
    admin
        .query_drop("SET SESSION group_concat_max_len = 33554432")
        .unwrap();
    admin.query(query).unwrap()
}

/// Has the server refuse what is put into a table as with a full disk.
fn no_room(tables: &Tables, table: &str) {
    tables.sql(&format!(
        "CREATE TRIGGER no_room BEFORE INSERT ON {table} FOR EACH ROW SIGNAL SQLSTATE 'HY000' \
         SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'"
    ));
}

fn texts(tables: &Tables) -> Vec<String> {
    payloads(tables)
        .into_iter()
        .map(|payload| String::from_utf8(payload).unwrap())
        .collect()
}

fn count(tables: &Tables, what: &str) -> u64 {
    tables
        .admin()
        .query_first(format!("SELECT COUNT(*) FROM {what}"))
        .unwrap()
        .unwrap()
}

/// It is MySQL that ends an idle session there.
#[test]
fn a_pipe_with_long_gaps_costs_no_session_that_the_server_has_ended() {
    let tables = with_queue(Server::shared(Kind::MySql), &[]);
    let (mut admin, account) = (tables.admin(), unique("gaps"));
    tables.sql(&format!("CREATE USER '{account}'@'%' IDENTIFIED BY 'gaps'"));
    tables.grant("SELECT, INSERT, UPDATE, DELETE", &account);
    let put = put(&tables, &["--lines", "-v"]).user(&account);
    let put = put.env("DBLOCK_PASSWORD", "gaps").stdin(Stdio::piped());
    let mut run = put.spawn();
    let mut stdin = run.take_stdin();
    writeln!(stdin, "a").unwrap();
    run.wait_line("1", SOON);
    let sessions =
        format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{account}'");
    let mut count = || admin.query_first::<u32, _>(&sessions).unwrap();
    assert_eq!(count(), Some(1));
    eventually("the session is ended", SOON, || count() == Some(0));
    writeln!(stdin, "b").unwrap();
    run.wait_line("2", SOON);
    drop(stdin);
    let output = run.wait_within(SOON);
    output.expect_code(0);
    assert!(!output.stderr.contains("lost "), "{}", output.stderr);
    tables.sql(&format!("DROP USER '{account}'@'%'"));
}

both_servers! {
    fn each_argument_is_a_job(server on mariadb) {
        let tables = with_queue(server, &[]);
        let output = put(&tables, &["one", "", "naïve \u{1f600}", "--", "-v"]).output();
        output.expect_code(0).expect_silence();
        assert_eq!(texts(&tables), ["one", "", "naïve \u{1f600}", "-v"]);
        let all: Vec<u64> = tables.admin().query("SELECT job FROM dblock_due ORDER BY shard, priority, job").unwrap();
        assert_eq!(ids(&output), all);
        assert_eq!(count(&tables, "dblock_due WHERE attempt = 0 AND fence = 0 AND jobs = 1 AND block = 0 AND last_job = 0"), 4);
    }

    fn without_arguments_all_of_stdin_is_one(server on mysql) {
        let tables = with_queue(server, &[]);
        let bytes: Vec<u8> = (0..=255).cycle().take(3000).collect();
        for stdin in [&b""[..], b"a\nb\n", &bytes] {
            let output = fed(put(&tables, &[]), stdin);
            output.expect_code(0).expect_silence();
            assert_eq!(ids(&output).len(), 1);
        }
        assert_eq!(payloads(&tables), [&b""[..], b"a\nb\n", &bytes]);
    }

    fn each_line_is_a_job(server on mariadb) {
        let tables = with_queue(server, &[]);
        let output = fed(put(&tables, &["--lines"]), b"a\n\nb\r\nlast");
        output.expect_code(0).expect_silence();
        assert_eq!(texts(&tables), ["a", "", "b\r", "last"]);
        assert_eq!(ids(&output).len(), 4);
        fed(put(&tables, &["--lines"]), b"").expect_code(0).expect_silence().expect_stdout("");
        fed(put(&tables, &["--lines"]), b"\n").expect_code(0);
        assert_eq!(texts(&tables).len(), 5);
    }

    fn each_record_that_ends_in_nul_is_a_job(server on mysql) {
        let tables = with_queue(server, &[]);
        fed(put(&tables, &["--null"]), b"a\nb\0\0c\0").expect_code(0).expect_silence();
        assert_eq!(texts(&tables), ["a\nb", "", "c"]);
    }

    fn each_file_is_a_job(server on mariadb) {
        let tables = with_queue(server, &[]);
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| folder.path().join(name).display().to_string();
        fs::write(name("small"), "small").unwrap();
        // Longer than a row and than a part.
        let long: Vec<u8> = (0..700_000_u32).map(|number| u8::try_from(number % 251).unwrap()).collect();
        fs::write(name("long"), &long).unwrap();
        let output = fed(put(&tables, &["--file", &name("small"), &name("long"), "-", &name("small")]), b"stdin");
        output.expect_code(0).expect_silence();
        assert_eq!(payloads(&tables), [&b"small"[..], &long, b"stdin", b"small"]);
        assert_eq!(count(&tables, "dblock_job_parts"), 3);
        // As from a shell's <(command).
        let shell = format!("exec \"$0\" queue put q --file <(echo piped) {}", name("small"));
        let dblock = tables.at("-c").args([&shell, env!("CARGO_BIN_EXE_dblock")]).program("bash");
        dblock.output().expect_code(0).expect_silence();
        assert_eq!(payloads(&tables)[4], b"piped\n");
    }

    fn a_file_that_cannot_be_read_puts_nothing(server on mysql) {
        let tables = with_queue(server, &[]);
        let folder = tempfile::tempdir().unwrap();
        let good = folder.path().join("good");
        fs::write(&good, "x").unwrap();
        for (wrong, said) in [("/no/such/file", "cannot read /no/such/file: No such file or directory"), ("/tmp", "it is a directory")] {
            put(&tables, &["--file", good.to_str().unwrap(), wrong]).output().expect_code(64).expect_stdout("").expect_one_line(said);
        }
        assert_eq!(count(&tables, "dblock_jobs"), 0);
    }

    fn the_longest_payload_has_16_mb_and_a_longer_one_puts_nothing(server) {
        let tables = with_queue(server, &[]);
        let mut bytes = vec![0xa5; 16 * 1024 * 1024];
        fed(put(&tables, &[]), &bytes).expect_code(0).expect_silence();
        assert_eq!(count(&tables, "dblock_job_parts WHERE data = REPEAT(x'a5', 262144)"), 64);
        bytes.push(0);
        let line = "is longer than 16 MB, which is the longest payload";
        for args in [&[][..], &["--null"]] {
            bytes[16 * 1024 * 1024] = u8::from(args.is_empty());
            if !args.is_empty() {
                bytes.insert(0, 1);
            }
            fed(put(&tables, args), &bytes).expect_code(64).expect_stdout("").expect_one_line(line);
        }
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| folder.path().join(name).display().to_string();
        fs::write(name("long"), &bytes).unwrap();
        fs::write(name("short"), "x").unwrap();
        put(&tables, &["--file", &name("short"), &name("long")]).output().expect_code(64).expect_stdout("").expect_one_line(line);
        assert_eq!(count(&tables, "dblock_jobs"), 1);
        // What comes before a line that is too long is put.
        let mut lines = b"a\nb\n".to_vec();
        lines.extend(vec![b'x'; 17 * 1024 * 1024]);
        let output = fed(put(&tables, &["--lines"]), &lines);
        output.expect_code(64).expect_one_line("line 3 is longer than 16 MB, which is the longest payload; 2 jobs are put; go on with tail -n +3");
        assert_eq!(ids(&output).len(), 2);
    }

    fn many_lines_are_put_in_their_order(server on mysql) {
        let tables = with_queue(server, &["--shards", "7"]);
        let lines = numbered_lines(5432);
        let output = fed(put(&tables, &["--lines", "--priority", "-3"]), lines.as_bytes());
        output.expect_code(0).expect_silence();
        let numbers: Vec<String> = (1..=5432).map(|number| number.to_string()).collect();
        assert_eq!(texts(&tables), numbers);
        let all: Vec<u64> = tables.admin().query("SELECT id FROM dblock_jobs ORDER BY id").unwrap();
        assert_eq!(ids(&output), all);
        // One after the other over the shards, and the narrow row in the shard of its job.
        let shards: Vec<u64> = tables.admin().query("SELECT COUNT(*) FROM dblock_due d JOIN dblock_jobs j ON j.id = d.job AND j.shard = d.shard \
            AND j.priority = d.priority WHERE d.priority = -3 GROUP BY d.shard").unwrap();
        assert_eq!((shards.iter().sum::<u64>(), shards.len()), (5432, 7));
        assert!(shards.iter().all(|jobs| [776, 777].contains(jobs)), "{shards:?}");
    }

    fn what_is_put_together_is_a_block(server on mariadb) {
        let tables = with_queue(server, &["--claim", "blocks", "--shards", "4"]);
        let lines = numbered_lines(1500);
        fed(put(&tables, &["--lines", "--every", "1h"]), lines.as_bytes()).expect_code(0).expect_silence();
        let blocks: Vec<(u64, u64, u64, u32, u64)> = tables.admin().query("SELECT job, last_job, block, jobs, every_us FROM dblock_due ORDER BY job").unwrap();
        assert!((2..10).contains(&blocks.len()), "{blocks:?}");
        assert_eq!(blocks.iter().map(|block| block.3).sum::<u32>(), 1500);
        for (first, last, block, jobs, every) in blocks {
            assert_eq!((count(&tables, &format!("dblock_jobs j WHERE id BETWEEN {first} AND {last} AND block = {block} AND shard = \
                (SELECT shard FROM dblock_due WHERE job = {first})")), every), (u64::from(jobs), 3_600_000_000));
        }
    }

    fn ids_go_by_the_step_of_the_server(server) {
        // As on a node of a cluster.
        let server = Server::private_with(server.kind, &["--auto-increment-increment=5", "--auto-increment-offset=3"]);
        for claim in ["rows", "blocks"] {
            let tables = with_queue(&server, &["--shards", "2", "--claim", claim]);
            let long = "x".repeat(20_000);
            let output = put(&tables, &["a", "b", &long, "d"]).output();
            output.expect_code(0).expect_silence();
            let all: Vec<u64> = tables.admin().query("SELECT id FROM dblock_jobs ORDER BY id").unwrap();
            assert_eq!(ids(&output), all);
            assert!(all.windows(2).all(|pair| pair[1] - pair[0] == 5), "{all:?}");
            assert_eq!(texts(&tables), ["a", "b", &long, "d"]);
            let (first, last): (u64, u64) = tables.admin().query_first("SELECT MIN(job), MAX(GREATEST(job, last_job)) FROM dblock_due").unwrap().unwrap();
            assert_eq!((first, last), (all[0], all[3]));
        }
    }

    fn no_job_is_lost_if_the_step_changes_as_soon_as_they_are_inserted(server) {
        for claim in ["rows", "blocks"] {
            let tables = with_queue(server, &["--claim", claim]);
            // As on a node of a cluster that another one leaves.
            for (name, when, step) in [("larger", "BEFORE", 3), ("smaller", "AFTER", 1)] {
                tables.sql(&format!(
                    "CREATE TRIGGER {name} {when} INSERT ON dblock_jobs FOR EACH ROW SET SESSION auto_increment_increment = {step}"
                ));
            }
            tables.sql("CREATE TABLE seen (step INT NOT NULL)");
            tables.sql("CREATE TRIGGER sees BEFORE INSERT ON dblock_puts FOR EACH ROW INSERT INTO seen VALUES (@@SESSION.auto_increment_increment)");
            let long = "x".repeat(20_000);
            let output = put(&tables, &["a", "b", &long, "d"]).output();
            output.expect_code(0).expect_silence();
            let all: Vec<u64> = tables.admin().query("SELECT id FROM dblock_jobs ORDER BY id").unwrap();
            assert!(all.windows(2).all(|pair| pair[1] - pair[0] == 3), "{all:?}");
            assert_eq!(tables.admin().query::<u32, _>("SELECT step FROM seen").unwrap(), [1]);
            assert_eq!(ids(&output), all);
            assert_eq!(texts(&tables), ["a", "b", &long, "d"]);
            let work = tables.at("queue").args(["work", "q", "--drain", "--", "true"]);
            work.without_terminal().output().expect_code(0);
            assert_eq!((count(&tables, "dblock_jobs"), count(&tables, "dblock_job_parts")), (0, 0));
        }
    }

    fn a_server_that_takes_no_writes_is_passed_over_or_told(server) {
        let tables = with_queue(server, &[]);
        let replica = Server::private(server.kind);
        let also_there = Tables::named(&replica, &tables.database);
        also_there.init().output().expect_code(0);
        also_there.at("queue").args(["create", "q"]).output().expect_code(0);
        replica.admin().query_drop("SET GLOBAL read_only = 1").unwrap();
        put(&also_there, &["x", "--connect-timeout", "12"]).output().expect_code(78).expect_stdout("").expect_one_line("name the server that takes writes");
        also_there.at("queue").args(["pause", "q"]).output().expect_code(78).expect_one_line("name the server that takes writes");
        also_there.at("queue").args(["status", "q"]).output().expect_code(0).expect_silence();
        let only_replicas = format!("mysql://dblock@127.0.0.1:{0},127.0.0.1:{0}/", replica.port);
        let refused: Vec<_> = [&["put", "q", "x"][..], &["pause", "q"], &["resume", "q"], &["create", "r"], &["retry", "q", "1"], &["cancel", "q", "1"], &["delete", "q"]]
            .into_iter()
            .map(|args| {
                // It has the last tenth of the time to tell why; the others have told it before.
                let limit = if args[0] == "put" { "20" } else { "12" };
                also_there.at("queue").args(args).args(["--connect-timeout", limit]).env("DBLOCK_URL", &only_replicas).spawn()
            })
            .collect();
        for refused in refused {
            refused.wait().expect_code(78).expect_stdout("").expect_one_line(&format!("127.0.0.1:{} is read-only, ", replica.port));
        }
        let both = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:{}/", replica.port, server.port);
        put(&tables, &["x"]).env("DBLOCK_URL", both).output().expect_code(0).expect_silence();
        assert_eq!((count(&tables, "dblock_jobs"), count(&also_there, "dblock_jobs")), (1, 0));
    }

    fn a_delayed_job_is_due_by_the_clock_of_the_server(server on mysql) {
        let tables = with_queue(server, &[]);
        put(&tables, &["--delay", "1h", "a"]).output().expect_code(0);
        put(&tables, &["--at", "2031-01-02 03:04:05", "b"]).output().expect_code(0);
        put(&tables, &["--at", "2031-01-02T03:04:05.25+01:00", "c"]).output().expect_code(0);
        put(&tables, &["--delay", "0", "d"]).output().expect_code(0);
        let due: Vec<String> = tables.admin().query("SELECT CONCAT(due_at) FROM dblock_delayed WHERE due_at > UTC_TIMESTAMP(6) + INTERVAL 1 DAY ORDER BY due_at").unwrap();
        assert_eq!(due, ["2031-01-02 02:04:05.250000", "2031-01-02 03:04:05.000000"]);
        assert_eq!(count(&tables, "dblock_delayed WHERE due_at BETWEEN UTC_TIMESTAMP(6) + INTERVAL 58 MINUTE AND UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"), 1);
        assert_eq!(count(&tables, "dblock_due"), 1);
    }

    fn there_is_one_job_of_a_key(server) {
        let tables = with_queue(server, &[]);
        let first = put(&tables, &["--key", "k", "a"]).output();
        first.expect_code(0).expect_silence();
        let again = put(&tables, &["--key", "k", "b"]).output();
        again.expect_code(0).expect_silence().expect_stdout(&first.stdout);
        let said = put(&tables, &["--key", "k", "b", "-v"]).output();
        said.expect_code(0).expect_stdout(&first.stdout).expect_line(&format!("dblock: job {} of q has the key k, and is not done: nothing is put", first.stdout.trim()));
        // Others are other keys.
        for other in ["K", "kk", "naïve"] {
            put(&tables, &["--key", other, "c"]).output().expect_code(0);
        }
        assert_eq!(texts(&tables), ["a", "c", "c", "c"]);
        // When it is done its key is gone.
        tables.sql("DELETE FROM dblock_job_keys WHERE job_key = 'k'");
        let next = put(&tables, &["--key", "k", "d"]).output();
        assert_ne!(next.stdout, first.stdout);
        // It may come from stdin.
        fed(put(&tables, &["--key", "stdin"]), b"e").expect_code(0).expect_silence();
    }

    fn of_many_with_one_key_one_is_put(server) {
        let tables = with_queue(server, &["--shards", "4"]);
        let runs: Vec<_> = (0..12).map(|number| put(&tables, &["--key", "k", &number.to_string()]).spawn()).collect();
        let mut printed: Vec<String> = runs.into_iter().map(|run| {
            let output = run.wait();
            output.expect_code(0).expect_silence();
            output.stdout
        }).collect();
        printed.dedup();
        assert_eq!(printed.len(), 1, "{printed:?}");
        assert_eq!((count(&tables, "dblock_jobs"), count(&tables, "dblock_due")), (1, 1));
    }

    fn a_slow_pipe_gets_its_lines_in_at_once(server on mariadb) {
        let tables = with_queue(server, &[]);
        let mut run = put(&tables, &["--lines"]).stdin(Stdio::piped()).spawn();
        let mut stdin = run.take_stdin();
        for number in 1..=3 {
            stdin.write_all(format!("{number}\n").as_bytes()).unwrap();
            eventually("it is put", SOON, || count(&tables, "dblock_due") == number);
            eventually("its id is printed", SOON, || run.stdout().lines().count() as u64 == number);
        }
        stdin.write_all(b"last").unwrap();
        drop(stdin);
        run.wait().expect_code(0).expect_silence();
        assert_eq!(texts(&tables), ["1", "2", "3", "last"]);
    }

    fn two_signals_while_nobody_reads_the_ids_say_how_many_jobs_are_put(server on mysql) {
        let tables = with_queue(server, &[]);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(numbered_lines(50_000).as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let (_reader, writer) = std::io::pipe().unwrap();
        let run = put(&tables, &["--lines"]).stdin(file).stdout(writer).spawn();
        eventually("all are put", SOON * 4, || count(&tables, "dblock_jobs") == 50_000);
        // The process that has the session has said so, and ends.
        eventually("it has said so", SOON, || children_of(run.pid()).iter().all(|pid| !runs(*pid)));
        run.signal(Signal::SIGINT);
        run.signal(Signal::SIGTERM);
        let output = run.wait();
        output.expect_signal(Signal::SIGTERM).expect_one_line("stopped by a signal; 50000 jobs are put; go on with tail -n +50001");
    }

    fn a_signal_before_dblock_has_heard_of_its_server_ends_it_after_the_batch(server on mariadb) {
        let tables = with_queue(server, &[]);
        let mut run = put(&tables, &["--lines"]).stdin(Stdio::piped()).spawn();
        let mut stdin = run.take_stdin();
        eventually("there is another process", SOON, || !children_of(run.pid()).is_empty());
        run.signal(Signal::SIGSTOP);
        stdin.write_all(b"a\nb\n").unwrap();
        eventually("both are put", SOON, || count(&tables, "dblock_due") == 2);
        run.signal(Signal::SIGTERM);
        run.signal(Signal::SIGCONT);
        let output = run.wait();
        output.expect_signal(Signal::SIGTERM).expect_one_line("stopped by a signal; 2 jobs are put; go on with tail -n +3");
        assert_eq!(output.stdout.lines().count(), 2, "{output:?}");
    }

    fn a_signal_ends_it_after_the_batch_and_says_how_to_go_on(server on mysql) {
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            let tables = with_queue(server, &[]);
            let mut run = put(&tables, &["--lines"]).stdin(Stdio::piped()).spawn();
            let mut stdin = run.take_stdin();
            stdin.write_all(b"a\nb\n").unwrap();
            eventually("both are put", SOON, || run.stdout().lines().count() == 2);
            run.signal(signal);
            let output = run.wait();
            output.expect_signal(signal).expect_one_line("stopped by a signal; 2 jobs are put; go on with tail -n +3");
            assert_eq!(count(&tables, "dblock_jobs"), 2);
        }
    }

    fn a_signal_ends_it_while_it_waits_for_a_fifo(server on mariadb) {
        let tables = with_queue(server, &[]);
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let path = fifo.to_str().unwrap();
        let reads = |pid: &i32| {
            let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files.map(|file| std::fs::read_link(file.path())).any(|file| file.is_ok_and(|file| file == fifo))
        };
        for has_writer in [false, true] {
            let _writer = has_writer.then(|| std::fs::File::options().read(true).write(true).open(&fifo).unwrap());
            let mut run = put(&tables, &["--file", path]).spawn();
            eventually("it reads", SOON, || children_of(run.pid()).iter().any(reads));
            run.signal(Signal::SIGTERM);
            run.wait_within(SOON).expect_signal(Signal::SIGTERM);
        }
        // A new one: a process that another test is starting may still have the first one open, and the text would be lost in that.
        let other = folder.path().join("other");
        nix::unistd::mkfifo(&other, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let run = put(&tables, &["--file", other.to_str().unwrap()]).spawn();
        std::fs::write(&other, "what the writer has to say").unwrap();
        run.wait().expect_code(0).expect_silence();
        assert_eq!(texts(&tables), ["what the writer has to say"]);
    }

    fn a_reader_that_has_seen_enough_is_no_error(server on mariadb) {
        let tables = with_queue(server, &[]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let lines = numbered_lines(3000);
        fed(put(&tables, &["--lines"]).stdout(writer), lines.as_bytes()).expect_code(0).expect_silence();
        assert_eq!(count(&tables, "dblock_due"), 3000);
    }

    fn ids_that_cannot_be_printed_are_an_error_that_says_what_is_put(server on mysql) {
        let tables = with_queue(server, &[]);
        let full = || File::options().write(true).open("/dev/full").unwrap();
        put(&tables, &["x"]).stdout(full()).output().expect_code(70).expect_one_line("cannot write to stdout: No space left on device; 1 job is put\n");
        put(&tables, &["y", "z"]).stdout(full()).output().expect_code(70).expect_one_line("device; 2 jobs are put\n");
        put(&tables, &["--key", "k", "k"]).output().expect_code(0);
        put(&tables, &["--key", "k", "k"]).stdout(full()).output().expect_code(70).expect_one_line("device; nothing is put\n");
        assert_eq!(texts(&tables), ["x", "y", "z", "k"]);
        // Nothing more is put than what was under way.
        let mut run = put(&tables, &["--lines"]).stdin(Stdio::piped()).stdout(full()).spawn();
        let mut stdin = run.take_stdin();
        stdin.write_all(b"a\nb\n").unwrap();
        run.wait().expect_code(70).expect_one_line("device; 2 jobs are put; go on with tail -n +3\n");
        let closed = put(&tables, &["c"]).under(["sh", "-c", "exec \"$@\" >&-", "sh"]);
        closed.output().expect_code(70).expect_one_line("cannot write to stdout: Bad file descriptor; nothing is put\n");
        assert_eq!(texts(&tables), ["x", "y", "z", "k", "a", "b"]);
    }

    fn no_packet_is_longer_than_the_server_takes(shared) {
        let server = Server::private(shared.kind);
        for packet in [16, 64, 300] {
            let set = format!("SET GLOBAL max_allowed_packet = {packet} * 1024");
            server.admin().query_drop(set).unwrap();
            let tables = with_queue(&server, &[]);
            let lines: Vec<String> = (1..=3000).map(|number| format!("line {number}")).collect();
            let output = fed(put(&tables, &["--lines"]), lines.join("\n").as_bytes());
            output.expect_code(0).expect_silence();
            assert_eq!(ids(&output).len(), 3000);
            assert_eq!(texts(&tables), lines);
            if packet >= 64 {
                let work = tables.at("queue").args(["work", "q", "--drain", "--batch", "500"]).command(["cat"]).output();
                work.expect_code(0).expect_stdout(&(lines.join("\n") + "\n"));
                assert_eq!(count(&tables, "dblock_jobs"), 0);
            }
            let long: Vec<String> = [4000, 10_000, 16_000, 17_000, 40_000, 1_000_000].iter().map(|&length| "x".repeat(length)).collect();
            let long: Vec<&str> = long.iter().map(String::as_str).collect();
            let longest = fed(put(&tables, &[]), long[5].as_bytes());
            longest.expect_code(0).expect_silence();
            let output = put(&tables, &long[..5]).output();
            output.expect_code(0).expect_silence();
            for (id, payload) in ids(&output).into_iter().zip(&long).chain([(ids(&longest)[0], &long[5])]) {
                let shown = tables.at("queue").args(["show", "q", &id.to_string(), "--payload"]).output();
                shown.expect_code(0).expect_stdout(payload);
            }
        }
    }

    fn a_payload_for_which_there_is_no_memory_is_an_error_like_another(server on mariadb) {
        let tables = with_queue(server, &[]);
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(16_000_000).unwrap();
        let path = file.path().to_str().unwrap();
        for (args, what) in [(&[][..], "stdin"), (&["--file", path], path)] {
            let little = || Ok(setrlimit(Resource::RLIMIT_DATA, 20_000_000, 20_000_000)?);
            let output = put(&tables, args).stdin(std::fs::File::open(path).unwrap()).pre_exec(little).output();
            output.expect_code(64).expect_one_line(&format!("cannot read {what}: out of memory"));
        }
        assert_eq!(count(&tables, "dblock_jobs"), 0);
    }

    fn an_answer_that_was_lost_puts_nothing_twice(server) {
        let tables = with_queue(server, &[]);
        let long = "x".repeat(60_000);
        let mut admin = tables.admin();
        for kind in 0..3 {
            // Whether it is lost is chance: the connection is cut between the commit and its answer, which comes later with each attempt.
            let loses_an_answer = |attempt: u32| {
                let key = attempt.to_string();
                let args = match kind {
                    0 => vec!["one"],
                    1 => vec!["--key", &key, "two"],
                    _ => vec![long.as_str()],
                };
                let before = count(&tables, "dblock_jobs");
                let proxy = Proxy::to(server);
                let run = put(&tables, &args).env("DBLOCK_URL", proxy.url()).args(["--connect-timeout", "60"]);
                proxy.delay(Duration::from_millis(150) + attempt * Duration::from_millis(50));
                let run = run.spawn();
                let mut jobs = || admin.query_first::<u64, _>("SELECT COUNT(*) FROM dblock_jobs").unwrap();
                eventually("it is committed", SOON, || jobs() > Some(before));
                proxy.abandon();
                let output = run.wait();
                output.expect_code(0).expect_silence();
                let last: u64 = tables.admin().query_first("SELECT MAX(id) FROM dblock_jobs").unwrap().unwrap();
                assert_eq!((ids(&output), count(&tables, "dblock_jobs")), (vec![last], before + 1));
                proxy.connections() >= 2
            };
            assert!((0..10).any(loses_an_answer), "it was never cut off");
        }
    }

    fn a_stream_that_is_cut_again_and_again_is_put_once(server) {
        let tables = with_queue(server, &["--shards", "3"]);
        let proxy = Proxy::to(server);
        let lines = numbered_lines(20_000);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let run = put(&tables, &["--lines", "--connect-timeout", "30"]).env("DBLOCK_URL", proxy.url()).stdin(file).spawn();
        for part in 1..=6 {
            eventually("it goes on", SOON, || count(&tables, "dblock_jobs") >= 2500 * part);
            if part % 2 == 0 { proxy.abandon() } else { proxy.cut() }
        }
        let output = run.wait();
        output.expect_code(0).expect_silence();
        let numbers: Vec<String> = (1..=20_000).map(|number| number.to_string()).collect();
        assert_eq!(texts(&tables), numbers);
        let all: Vec<u64> = tables.admin().query("SELECT job FROM dblock_due ORDER BY job").unwrap();
        assert_eq!(ids(&output), all);
    }

    fn a_server_that_stays_away_is_told_with_what_is_put(server on mysql) {
        let tables = with_queue(server, &[]);
        let proxy = Proxy::to(server);
        let mut run = put(&tables, &["--lines", "--connect-timeout", "12"]).env("DBLOCK_URL", proxy.url()).stdin(Stdio::piped()).spawn();
        let mut stdin = run.take_stdin();
        stdin.write_all(b"a\nb\nc\n").unwrap();
        eventually("they are put", SOON, || run.stdout().lines().count() == 3);
        proxy.refuse(true);
        proxy.cut();
        stdin.write_all(b"d\n").unwrap();
        let output = run.wait();
        output.expect_code(69).expect_one_line("; 3 jobs are put; ").expect_one_line("it is not known whether the next batch of 1 is put: see dblock queue status q");
        // A server that is never reached.
        put(&tables, &["x", "--connect-timeout", "5"]).env("DBLOCK_URL", "mysql://dblock@127.0.0.1:1/").output().expect_code(69).expect_one_line("127.0.0.1:1");
    }

    fn what_was_cut_off_stays_in_doubt_while_each_further_try_is_refused(server on mariadb) {
        let tables = with_queue(server, &[]);
        let proxy = Proxy::to(server);
        let mut run = put(&tables, &["--lines", "--connect-timeout", "12"]).env("DBLOCK_URL", proxy.url()).stdin(Stdio::piped()).spawn();
        let mut stdin = run.take_stdin();
        stdin.write_all(b"a\nb\n").unwrap();
        eventually("they are put", SOON, || run.stdout().lines().count() == 2);
        let tries = || proxy.packets().iter().filter(|packet| packet.sent().is_some_and(|sent| sent.contains("LOCK IN SHARE MODE"))).count();
        let before = tries();
        let mut other = tables.admin();
        other.query_drop("BEGIN").unwrap();
        other.query_drop("SELECT * FROM dblock_queues FOR UPDATE").unwrap();
        stdin.write_all(b"c\n").unwrap();
        eventually("it is tried", SOON, || tries() > before);
        // The server may still commit it.
        proxy.abandon();
        let output = run.wait();
        output.expect_code(69).expect_one_line("; 2 jobs are put; it is not known whether the next batch of 1 is put: see dblock queue status q; \
            if it is not, go on with tail -n +3, else with tail -n +4\n");
        assert!(tries() > before + 1);
    }

    fn what_is_put_is_put_though_the_process_that_has_put_it_is_killed(server on mariadb) {
        let (tables, mut random) = (with_queue(server, &[]), fastrand::Rng::with_seed(11));
        for _ in 0..50 {
            let proxy = Proxy::to(server);
            proxy.freeze_at_named("queue put");
            let run = put(&tables, &["x"]).env("DBLOCK_URL", proxy.url()).spawn();
            eventually("it is about to put", SOON, || proxy.is_frozen());
            let feeder = children_of(run.pid())[0];
            send(feeder, Signal::SIGSTOP);
            proxy.thaw();
            eventually("the answer is there", SOON, || proxy.is_answered(0));
            send(feeder, Signal::SIGCONT);
            // Now it reads the answer, says so, logs out and ends: it is killed anywhere there, or has ended.
            let (continued, delay) = (Instant::now(), Duration::from_micros(random.u64(0..500)));
            while continued.elapsed() < delay {
                std::hint::spin_loop();
            }
            let _ = kill(Pid::from_raw(feeder), Signal::SIGKILL);
            let output = run.wait();
            if output.code == Some(0) {
                output.expect_silence();
                assert_eq!(ids(&output).len(), 1);
            } else {
                output.expect_code(70).expect_stdout("");
                output.expect_one_line("has ended; it is not known whether the first batch of 1 is put: see dblock queue status q\n");
            }
        }
        // The server carries out what it was sent before it sees that nobody waits for it.
        eventually("all are put", SOON, || count(&tables, "dblock_due") == 50);
        assert_eq!(count(&tables, "dblock_jobs"), 50);
    }

    fn of_lines_those_that_are_put_count_when_the_process_that_puts_is_killed(server on mysql) {
        let tables = with_queue(server, &[]);
        let mut run = put(&tables, &["--lines"]).stdin(Stdio::piped()).spawn();
        let mut stdin = run.take_stdin();
        stdin.write_all(b"a\nb\n").unwrap();
        eventually("both are put", SOON, || run.stdout().lines().count() == 2);
        send(children_of(run.pid())[0], Signal::SIGKILL);
        run.wait().expect_code(70).expect_one_line("the process that puts the jobs has ended; 2 jobs are put; go on with tail -n +3\n");
    }

    fn a_server_without_room_is_told_and_nothing_is_in_doubt(server) {
        let tables = with_queue(server, &[]);
        no_room(&tables, "dblock_due");
        put(&tables, &["x", "--connect-timeout", "12"]).output().expect_code(69).expect_one_line(" has no room: The table is full (error 1114)\n");
        let mut run = put(&tables, &["y", "-v", "--connect-timeout", "60"]).spawn();
        run.wait_stderr("has no room: The table is full (error 1114); trying again", SOON);
        tables.sql("DROP TRIGGER no_room");
        assert_eq!(ids(run.wait().expect_code(0)).len(), 1);
        assert_eq!(texts(&tables), ["y"]);
    }

    fn a_server_that_has_lost_what_it_had_committed_is_told(server) {
        for lost in ["DELETE FROM dblock_puts", "UPDATE dblock_puts SET turn = turn - 1"] {
            let tables = with_queue(server, &[]);
            let mut run = put(&tables, &["--lines"]).stdin(Stdio::piped()).spawn();
            let mut stdin = run.take_stdin();
            for number in 1..=2 {
                stdin.write_all(b"x\n").unwrap();
                eventually("it is put", SOON, || run.stdout().lines().count() == number);
            }
            tables.sql(lost);
            stdin.write_all(b"y\n").unwrap();
            drop(stdin);
            run.wait().expect_code(74).expect_one_line("the server has lost what it had committed: jobs that were put may be missing; see dblock queue list q\n");
            assert_eq!(count(&tables, "dblock_jobs WHERE payload = 'y'"), 0);
        }
    }

    fn a_row_that_others_have_locked_is_waited_for(server) {
        let tables = with_queue(server, &[]);
        let mut other = tables.admin();
        other.query_drop("BEGIN").unwrap();
        other.query_drop("SELECT * FROM dblock_queues FOR UPDATE").unwrap();
        let mut run = put(&tables, &["x", "-v"]).spawn();
        run.wait_stderr("trying again", SOON);
        other.query_drop("COMMIT").unwrap();
        assert_eq!(ids(run.wait().expect_code(0)).len(), 1);
        assert_eq!(count(&tables, "dblock_jobs"), 1);
    }

    fn two_streams_at_once_are_both_put(server on mariadb) {
        let tables = with_queue(server, &["--shards", "2"]);
        let lines = numbered_lines(6000);
        let runs: Vec<_> = (0..3).map(|_| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(lines.as_bytes()).unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            put(&tables, &["--lines"]).stdin(file).spawn()
        }).collect();
        let mut printed: Vec<u64> = runs.into_iter().flat_map(|run| ids(run.wait().expect_code(0).expect_silence())).collect();
        printed.sort_unstable();
        let all: Vec<u64> = tables.admin().query("SELECT job FROM dblock_due ORDER BY job").unwrap();
        assert_eq!((printed.len(), printed), (18_000, all));
    }

    fn what_cannot_be_put_is_refused(server on mysql) {
        let tables = with_queue(server, &[]);
        for (args, said) in [
            (&["--lines", "x"][..], "--lines reads the payloads from stdin"), (&["--null", "x"], "--null reads the payloads from stdin"),
            (&["--lines", "--null"], "--null"), (&["--lines", "--file"], "--file"), (&["--file"], "--file needs the name of a file"),
            (&["--delay", "-1", "x"], "--delay"), (&["--delay", "1h", "--at", "2031-01-01", "x"], "--at"), (&["--at", "tomorrow", "x"], "--at: \"tomorrow\" is not a time, as 2026-11-22, 2026-11-22 08:30 or 2026-11-22T08:30:00+01:00\n"),
            (&["--at", "2h", "x"], "--at: \"2h\" is a duration, which --delay takes; a time is as 2026-11-22, "), (&["--at", "08:30", "x"], "is not a time"),
            (&["--priority", "2147483648", "x"], "--priority"), (&["--priority", "low", "x"], "--priority"), (&["--every", "0", "x"], "--every"),
            (&["--key", "", "x"], "--key"), (&["--key", &"k".repeat(201), "x"], "--key"), (&["--key", "k", "x", "y"], "--key takes one payload"),
            (&["--key", "k", "--lines"], "--key"), (&["-x"], "-x"),
        ] {
            put(&tables, args).output().expect_code(64).expect_stdout("").expect_one_line(said);
        }
        let closed = put(&tables, &[]).under(["sh", "-c", "exec \"$@\" <&-", "sh"]);
        closed.output().expect_code(64).expect_one_line("cannot read stdin: it is closed");
        let folder = File::open("/tmp").unwrap();
        put(&tables, &[]).stdin(folder).output().expect_code(64).expect_one_line("cannot read stdin: Is a directory");
        assert_eq!(count(&tables, "dblock_jobs"), 0);
    }

    fn no_statement_on_the_tables_is_without_a_name(server on mariadb) {
        let tables = with_queue(server, &[]);
        let proxy = Proxy::to(server);
        let at = |args: &[&str]| tables.at("queue").args(args).env("DBLOCK_URL", proxy.url());
        at(&["put", "q", "x"]).output().expect_code(0);
        at(&["put", "q", "x", "--key", "k"]).output().expect_code(0);
        at(&["status"]).output().expect_code(0);
        at(&["list", "q"]).output().expect_code(0);
        at(&["delete", "q"]).output().expect_code(0);
        let statements: Vec<String> = proxy.packets().iter().filter_map(crate::harness::Packet::sent).collect();
        assert!(statements.iter().any(|sql| sql.contains("dblock_jobs")), "{statements:?}");
        for sql in statements.iter().filter(|sql| sql.contains("dblock_")) {
            assert!(sql.starts_with("/* dblock "), "{sql}");
        }
    }

    fn a_terminal_shows_how_far_it_is(server on mariadb) {
        let tables = with_queue(server, &[]);
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        let mut shell = Shell::start(server);
        shell.enter(&format!("export TERM=xterm DBLOCK_DATABASE='{}'", tables.database));
        let lines = format!("(echo a; until test -e {}; do sleep 0.1; done; echo b)", quoted(&go));
        shell.enter(&format!("{lines} | dblock queue put q --lines >/dev/null; echo code=$?"));
        eventually("it shows how far it is", SOON, || shell.all().contains("1 job put"));
        fs::write(go, "").unwrap();
        shell.wait_for("code=0");
    }
}
