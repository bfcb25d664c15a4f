//! The command gets exactly what dblock got: signals, descriptors, environment, arguments, limits; and a stderr that
//! takes nothing stops nobody.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, execve};

use crate::harness::{
    Dblock, Kind, PASSWORD, SOON, Server, Watcher, each_lock, each_way, eventually, quoted, unique,
};

/// What happens to the new process before it becomes dblock, or the command itself.
type Start = fn() -> io::Result<()>;

#[expect(
    clippy::unnecessary_wraps,
    reason = "what happens before the start of a program may fail"
)]
fn ignore(signals: impl IntoIterator<Item = i32>) -> io::Result<()> {
    for signal in signals {
        // SAFETY: sets a disposition that has no handler. Some signals refuse it.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    Ok(())
}

fn block(signals: &[Signal]) -> io::Result<()> {
    Ok(signals
        .iter()
        .copied()
        .collect::<SigSet>()
        .thread_set_mask()?)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "what happens before the start of a program may fail"
)]
fn close(descriptors: &[i32]) -> io::Result<()> {
    for &descriptor in descriptors {
        // SAFETY: the process becomes another program next; nothing here uses the descriptor again.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Odd signals to be started with.
const SIGNAL_STARTS: [(&str, Start); 12] = [
    ("nothing odd", || Ok(())),
    ("SIGCHLD ignored", || ignore([libc::SIGCHLD])),
    ("SIGPIPE ignored", || ignore([libc::SIGPIPE])),
    ("SIGHUP ignored", || ignore([libc::SIGHUP])),
    ("SIGTERM and SIGTSTP ignored", || {
        ignore([libc::SIGTERM, libc::SIGTSTP])
    }),
    ("everything ignored", || ignore(1..=64)),
    ("SIGTERM blocked", || block(&[Signal::SIGTERM])),
    ("SIGUSR1 blocked", || block(&[Signal::SIGUSR1])),
    ("SIGCHLD blocked", || block(&[Signal::SIGCHLD])),
    ("SIGPIPE blocked", || block(&[Signal::SIGPIPE])),
    (
        "everything blocked",
        || Ok(SigSet::all().thread_set_mask()?),
    ),
    ("everything ignored and blocked", || {
        ignore(1..=64)?;
        Ok(SigSet::all().thread_set_mask()?)
    }),
];

/// Odd descriptors to be started with.
const DESCRIPTOR_STARTS: [(&str, Start); 7] = [
    ("0, 1 and 2 open", || Ok(())),
    ("0 closed", || close(&[0])),
    ("1 closed", || close(&[1])),
    ("2 closed", || close(&[2])),
    ("0 and 2 closed", || close(&[0, 2])),
    ("0, 1 and 2 closed", || close(&[0, 1, 2])),
    ("more open", || {
        // Far from those that the test process has open itself.
        for descriptor in [903, 907, 919] {
            // SAFETY: makes copies of an open descriptor; they stay open in the next program.
            unsafe { libc::dup2(0, descriptor) };
        }
        Ok(())
    }),
];

/// Runs a command after `start`, without dblock.
fn plainly(start: Start, command: &[&str], output: &File) -> i32 {
    let mut plain = Command::new(command[0]);
    plain.args(&command[1..]).stdin(Stdio::null());
    plain
        .stdout(output.try_clone().unwrap())
        .stderr(output.try_clone().unwrap());
    // SAFETY: the starts of these tests make only calls that are safe between fork and exec.
    unsafe { plain.pre_exec(start) };
    plain.status().expect("it runs").code().expect("it exits")
}

/// Runs a command after `start`, under dblock.
fn under_dblock(server: &Server, start: Start, command: &[&str], output: &File) -> i32 {
    let run = Dblock::run(server, &unique("inherited"))
        .stdout(output.try_clone().unwrap())
        .stderr(output.try_clone().unwrap())
        .pre_exec(start)
        .command(command)
        .output();
    run.code.unwrap_or_else(|| panic!("it exits: {run:#?}"))
}

/// The command sees the same with and without dblock. It writes what it sees to `seen`.
#[track_caller]
fn assert_same(
    server: &Server,
    what: &str,
    start: Start,
    command: &[&str],
    seen: &std::path::Path,
) {
    let output = File::options()
        .read(true)
        .append(true)
        .create(true)
        .open(seen.with_extension("output"))
        .unwrap();
    let mut both = [false, true].map(|with_dblock| {
        let _ = fs::remove_file(seen);
        let code = if with_dblock {
            under_dblock(server, start, command, &output)
        } else {
            plainly(start, command, &output)
        };
        (code, fs::read_to_string(seen).unwrap_or_default())
    });
    let [plain, wrapped] = &mut both;
    assert!(
        !plain.1.is_empty(),
        "{what}: the command wrote what it sees"
    );
    assert_eq!(plain, wrapped, "{what}: without dblock, and with it");
}

each_way! {
    fn a_lost_session_that_cannot_be_told_stops_nobody(server) {
        for stderr in ODD_STDERRS {
            let dblock = Dblock::run(server, &unique("stderr"))
                .arg("-vv")
                .stdin(Stdio::piped())
                .sh("echo on $DBLOCK_CONNECTION_ID; read x; exit 5");
            let (mut run, _reader) = with_stderr(dblock, stderr);
            let id = run.wait_pid("on");
            server.watcher().end_session(id.try_into().unwrap());
            eventually("the session is gone", SOON, || !server.has_session(id.try_into().unwrap()));
            drop(run.take_stdin());
            let end = run.wait_within(SOON);
            assert_eq!(end.code, Some(5), "{}: {end:#?}", stderr.0);
        }
    }
}

each_lock! {
    fn signal_mask_and_dispositions_are_those_that_dblock_got(server) {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        // sed looks at itself: a shell or Perl would change some first. Its own end counts, too: dblock must see it.
        let status = format!("/^(Sig[PBIC]|ShdPnd)/w {}", seen.display());
        let command = ["sed", "-nE", "-e", &status, "-e", "$q7", "/proc/self/status"];
        for (what, start) in SIGNAL_STARTS {
            assert_same(server, what, start, &command, &seen);
        }
    }

    fn open_descriptors_are_those_that_dblock_got(server) {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        // The shell's own, looked at from outside of it; the status flags, such as O_NONBLOCK, are shared by all copies.
        let script = format!(
            "find /proc/$$/fd -mindepth 1 -printf '%f %l\\n' >{0}; grep -rh flags /proc/$$/fdinfo >>{0}; exit 7",
            quoted(&seen)
        );
        for (what, start) in DESCRIPTOR_STARTS {
            assert_same(server, what, start, &["sh", "-c", &script], &seen);
        }
    }

    fn folder_umask_limits_and_priority_are_those_that_dblock_got(server) {
        let folder = tempfile::tempdir().unwrap();
        let seen = folder.path().join("seen");
        let script = format!(
            "exec >{}; pwd; umask; nice; cd /proc/self; cat limits oom_score_adj coredump_filter cgroup;
             grep -E '^(Umask|Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Cpus|THP|Speculation)' status",
            quoted(&seen)
        );
        let start = || {
            umask(Mode::from_bits_truncate(0o027));
            chdir("/usr")?;
            setrlimit(Resource::RLIMIT_NOFILE, 200, 300)?;
            setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
            // SAFETY: setpriority(2) touches no memory.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
            Ok(())
        };
        assert_same(server, "an odd start", start, &["sh", "-c", &script], &seen);
    }

    fn the_environment_keeps_order_and_duplicates_and_gains_three_variables(server) {
        let name = unique("environment");
        let url = format!("DBLOCK_URL={}", server.url());
        let password = format!("DBLOCK_PASSWORD={PASSWORD}");
        let environment: [&[u8]; 12] = [
            b"Z=1", b"A=1", b"A=2", b"no equals sign", b"=no name", b"EMPTY=", url.as_bytes(), b"BYTES=\xff\xfe",
            password.as_bytes(), b"A=1", b"LINES=a\nb", b"PATH=/usr/bin:/bin",
        ];
        let c_strings = |words: &[&[u8]]| words.iter().map(|&word| CString::new(word).unwrap()).collect::<Vec<_>>();
        let program = CString::new(env!("CARGO_BIN_EXE_dblock")).unwrap();
        let words: [&[u8]; 7] =
            [b"dblock", b"run", b"--name", name.as_bytes(), b"--", b"cat", b"/proc/self/environ"];
        let (words, variables) = (c_strings(&words), c_strings(&environment));
        let output = tempfile::NamedTempFile::new().unwrap();
        // No other way starts a program with such an environment.
        let run = Dblock::bare()
            .stdout(output.reopen().unwrap())
            .pre_exec(move || Err(execve(&program, &words, &variables).unwrap_err().into()))
            .output();
        run.expect_code(0).expect_silence();
        let seen = fs::read(output.path()).unwrap();
        let seen: Vec<&[u8]> = seen.split_inclusive(|&byte| byte == 0).map(|one| &one[..one.len() - 1]).collect();
        let ours = |variable: &&[u8]| {
            [&b"DBLOCK_NAME="[..], b"DBLOCK_SLOT=", b"DBLOCK_CONNECTION_ID="].iter().any(|&own| variable.starts_with(own))
        };
        let (gained, kept): (Vec<&[u8]>, Vec<&[u8]>) = seen.into_iter().partition(ours);
        assert_eq!(kept, environment, "kept as they were");
        assert_eq!(gained.len(), 3, "gained: {gained:?}");
    }

    fn the_three_variables_tell_name_slot_and_connection(server) {
        let name = unique("variables");
        let mut run = Dblock::run(server, &name)
            // As of a dblock around this one.
            .env("DBLOCK_NAME", "outer")
            .env("DBLOCK_SLOT", "7")
            .env("DBLOCK_CONNECTION_ID", "1")
            .stdin(Stdio::piped())
            .sh("env | grep -E '^DBLOCK_(NAME|SLOT|CONN)' | sort; echo end; read x")
            .spawn();
        run.wait_line("end", SOON);
        let holder = server.holder(&name).expect("the lock is held");
        drop(run.take_stdin());
        let end = run.wait();
        let expected = format!("DBLOCK_CONNECTION_ID={holder}\nDBLOCK_NAME={name}\nDBLOCK_SLOT=0\nend\n");
        end.expect_stdout(&expected);
    }

    fn arguments_are_bytes(server) {
        let arguments: [&[u8]; 12] = [
            b"\xff\xfe", b"", b" ", b"a b", b"a\nb", b"'\"\\", b"--name", b"-v", b"--", b"-", b"\x01\x1b[2J", b"\xc3\xa9",
        ];
        let output = tempfile::NamedTempFile::new().unwrap();
        let first: [&[u8]; 2] = [b"printf", b"%s|"];
        Dblock::run(server, &unique("arguments"))
            .stdout(output.reopen().unwrap())
            .command(first.iter().chain(&arguments).map(|word| OsStr::from_bytes(word)))
            .output()
            .expect_code(0);
        let expected: Vec<u8> = arguments.iter().flat_map(|&word| [word, b"|"].concat()).collect();
        assert_eq!(fs::read(output.path()).unwrap(), expected);
    }

    fn options_behind_the_command_are_the_commands(server) {
        let name = unique("behind");
        let run = Dblock::bare()
            .env("DBLOCK_URL", server.url())
            .env("DBLOCK_PASSWORD", PASSWORD)
            .args(["run", "--name", &name, "echo", "-v", "--name", "other", "--wait", "x", "--", "--help"])
            .output();
        run.expect_code(0).expect_stdout("-v --name other --wait x -- --help\n").expect_silence();
    }

    fn stdin_stdout_and_stderr_are_the_commands(server) {
        let mut run = Dblock::run(server, &unique("stdio"))
            .stdin(Stdio::piped())
            .sh("cat; echo heard >&2")
            .spawn();
        let mut stdin = run.take_stdin();
        stdin.write_all(b"one\ntwo").unwrap();
        drop(stdin);
        let end = run.wait();
        end.expect_code(0).expect_stdout("one\ntwo");
        assert_eq!(end.stderr, "heard\n");
    }

    fn the_keeper_holds_nothing_that_is_the_commands(server) {
        let folder = tempfile::tempdir().unwrap();
        let more = File::create(folder.path().join("more")).unwrap();
        let number = more.as_raw_fd();
        let start = move || {
            for least in [907, 919] {
                // SAFETY: makes copies of an open descriptor; they stay open in the next program.
                unsafe { libc::fcntl(number, libc::F_DUPFD, least) };
            }
            Ok(())
        };
        let mut run = Dblock::run(server, &unique("keeper")).pre_exec(start).sh("echo shell $$; exec sleep 60").spawn();
        let command = run.wait_pid("shell");
        let open = |pid: i32| -> Vec<String> {
            let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
            let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
            targets.map(|target| target.to_string_lossy().into_owned()).collect()
        };
        let of_command = open(command);
        assert_eq!(of_command.iter().filter(|file| file.ends_with("/more")).count(), 2, "{of_command:?}");
        let of_keeper = open(run.keeper(Some(command)));
        // The timer, and its parent's process, which a newer system calls otherwise.
        let own = ["/dev/null", "anon_inode:[timerfd]", "anon_inode:[pidfd]", "pidfd:", "socket:"];
        let own = |file: &String| own.iter().any(|own| file.starts_with(own));
        assert!(of_keeper.iter().all(own), "{of_keeper:?}");
        drop(more);
    }

    fn a_reader_of_stdout_sees_its_end_with_the_command(server) {
        // As in `dblock run … | cat`: nobody else holds the pipe open.
        let (mut reader, writer) = io::pipe().unwrap();
        let mut run = Dblock::run(server, &unique("pipe"))
            .stdout(writer)
            .sh("echo word; exec >&-; read x; exit 3")
            .stdin(Stdio::piped())
            .spawn();
        // dblock itself still has it, so only its end is the pipe's end; the keeper must not outlast it.
        drop(run.take_stdin());
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "word\n");
        run.wait().expect_code(3);
    }

    fn a_stderr_that_takes_nothing_stops_nobody(server) {
        for stderr in ODD_STDERRS {
            let (what, _) = stderr;
            let free = || Dblock::run(server, &unique("stderr"));
            let quick = |code: i32, dblock: Dblock| {
                let (mut run, _reader) = with_stderr(dblock, stderr);
                let end = run.wait_within(SOON);
                assert_eq!(end.code, Some(code), "{what}: {end:#?}");
            };
            quick(6, free().sh("exit 6"));
            quick(6, free().arg("-vv").sh("exit 6"));
            quick(127, free().command(["/no/such/program"]));
            let taken = unique("stderr");
            let _holder = server.hold(&taken);
            quick(75, Dblock::run(server, &taken).command(["true"]));
            quick(75, Dblock::run(server, &taken).args(["-vv", "--wait", "0.5"]).command(["true"]));
            quick(64, Dblock::run(server, "").command(["true"]));
        }
    }
}

/// A stderr that takes nothing: what it is, and how it is made; its other end, and dblock's.
type OddStderr = (&'static str, fn() -> (Option<OwnedFd>, Stdio));

const ODD_STDERRS: [OddStderr; 5] = [
    ("a full pipe", || {
        let (reader, writer) = io::pipe().unwrap();
        let flags = |flags: i32| {
            // SAFETY: sets the status flags of an open pipe.
            let set = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) };
            assert_eq!(set, 0);
        };
        flags(libc::O_NONBLOCK);
        let mut pipe = writer.try_clone().unwrap();
        fill(|bytes| pipe.write(bytes));
        flags(0);
        (Some(reader.into()), writer.into())
    }),
    ("a full socket", || {
        let (other, mut ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        fill(|bytes| ours.write(bytes));
        ours.set_nonblocking(false).unwrap();
        (Some(other.into()), Stdio::from(OwnedFd::from(ours)))
    }),
    ("a pipe without a reader", || {
        let (_, writer) = io::pipe().unwrap();
        (None, writer.into())
    }),
    ("a full disk", || {
        (
            None,
            File::options()
                .write(true)
                .open("/dev/full")
                .unwrap()
                .into(),
        )
    }),
    ("open for reading only", || {
        (None, File::open("/dev/zero").unwrap().into())
    }),
];

/// Writes until nothing goes in any more, to the last byte.
fn fill(mut write: impl FnMut(&[u8]) -> io::Result<usize>) {
    for size in [4096, 1] {
        loop {
            match write(&vec![b'x'; size]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("cannot fill it: {error}"),
            }
        }
    }
}

/// Starts dblock with an odd stderr; the other end is kept open by whoever has the second value.
fn with_stderr(dblock: Dblock, (_, make): OddStderr) -> (crate::harness::Running, Option<OwnedFd>) {
    let (reader, stderr) = make();
    (dblock.stderr(stderr).spawn(), reader)
}

each_lock! {
    fn a_closed_stderr_spoils_no_other_file(server) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let taken = unique("closed");
        let _holder = server.hold(&taken);
        for (name, code, expected) in [(taken, 75, ""), (unique("closed"), 0, "word\n")] {
            let run = Dblock::run(server, &name)
                .args(["-vv"])
                .pre_exec(|| close(&[2]))
                .stdout(File::create(&file).unwrap())
                .command(["echo", "word"])
                .output();
            run.expect_code(code);
            assert_eq!(fs::read_to_string(&file).unwrap(), expected, "only the command writes");
        }
    }
}

#[test]
fn ignored_signals_stay_ignored_while_the_command_runs() {
    let server = Server::shared(crate::harness::Kind::MariaDb);
    let mut run = Dblock::run(server, &unique("nohup"))
        .without_terminal()
        .pre_exec(|| ignore([libc::SIGHUP]))
        .stdin(Stdio::piped())
        .sh("echo ready; read x; exit 4")
        .spawn();
    run.wait_line("ready", SOON);
    run.signal(Signal::SIGHUP);
    assert!(
        !crate::harness::within(Duration::from_millis(300), || !run.is_running()),
        "as under nohup"
    );
    drop(run.take_stdin());
    run.wait().expect_code(4);
}

#[test]
fn a_log_as_long_as_a_file_may_be_changes_no_exit_code() {
    let server = Server::shared(Kind::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // Whatever anybody writes there is too much.
    let limited = ["sh", "-c", "ulimit -f 0; exec \"$@\" 2>>\"$LOG\"", "sh"];
    let code = |dblock: Dblock| dblock.env("LOG", &log).under(limited).output().code;
    let name = unique("limited");
    let _holder = server.hold(&name);
    assert_eq!(code(Dblock::run(server, &name).command(["true"])), Some(75));
    assert_eq!(code(Dblock::bare().args(["run", "--no-such"])), Some(64));
    assert_eq!(fs::read(&log).unwrap(), b"");
}
