//! dblock ends as its command ended, and says in an exit code of its own why a command did not run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::harness::{
    Dblock, Hangs, Kind, SOON, Server, copy_program, each_lock, eventually, unique, within,
    write_program,
};

/// Deadly signals by number: the last real-time signal and the first that programs may use have no name.
const DEADLY: [i32; 18] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGKILL,
    libc::SIGUSR1,
    libc::SIGSEGV,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    34,
    64,
];

each_lock! {
    fn every_exit_code_passes_through(server) {
        let name = unique("codes");
        // What becomes of a command's code does not ask what kind of lock it has run under.
        let step = if server.durable { 15 } else { 1 };
        for code in (0..=255).step_by(step) {
            let run = Dblock::run(server, &name).sh(&format!("exit {code}")).output();
            run.expect_code(code).expect_silence();
        }
    }

    fn dblock_dies_of_the_signal_that_its_command_died_of(server) {
        let name = unique("deadly");
        for signal in DEADLY {
            let run = Dblock::run(server, &name).sh(&format!("kill -{signal} $$")).output();
            assert_eq!(run.signal, Some(signal), "{run:#?}");
            run.expect_silence();
        }
    }

    fn a_command_that_cannot_be_run_is_126_and_frees_the_lock(server) {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        fs::write(&text, "#!/bin/sh\n").unwrap();
        let name = unique("not-executable");
        for program in [&text, folder.path(), Path::new("/dev/null")] {
            let run = Dblock::run(server, &name).command([program]).output();
            run.expect_code(126).expect_one_line(&program.to_string_lossy());
        }
        Dblock::run(server, &name).sh("exit 3").output().expect_code(3);
    }

    fn a_command_that_does_not_exist_is_127_and_frees_the_lock(server) {
        let name = unique("not-found");
        for program in ["/no/such/program", "no-such-program", ""] {
            let run = Dblock::run(server, &name).command([program]).output();
            run.expect_code(127).expect_one_line(program);
        }
        Dblock::run(server, &name).sh("exit 3").output().expect_code(3);
    }

    fn a_taken_lock_is_75_or_what_the_user_says(server) {
        let name = unique("taken");
        let _holder = server.hold(&name);
        let run = || Dblock::run(server, &name).command(["echo", "must not run"]);
        run().output().expect_code(75).expect_stdout("");
        for code in [0, 1, 7, 255] {
            run().args(["-E", &code.to_string()]).output().expect_code(code).expect_stdout("");
        }
        run().args(["--conflict-exit-code", "9"]).output().expect_code(9);
    }

    fn a_fork_that_is_refused_is_71_and_leaves_the_lock_free(server) {
        let folder = tempfile::tempdir().unwrap();
        let name = unique("no-fork");
        // One process: no keeper. Two: no command.
        for processes in [1, 2] {
            let run = Dblock::run(server, &name)
                .under(with_so_many_processes(&folder, processes))
                .command(["echo", "must not run"])
                .output();
            run.expect_code(71).expect_stdout("").expect_one_line("");
            eventually("the lock is free", SOON, || server.holder(&name).is_none());
        }
        // The limit is what stopped it, not the other account. A keeper of that one may still be ending.
        let folder = tempfile::tempdir().unwrap();
        let run = Dblock::run(server, &name).under(with_so_many_processes(&folder, 3)).command(["echo", "ran"]);
        run.output().expect_code(0).expect_stdout("ran\n");
    }

    fn background_processes_keep_neither_dblock_nor_the_lock(server) {
        let name = unique("background");
        let run = Dblock::run(server, &name).sh("sleep 30 & exit 7").output();
        run.expect_code(7).expect_took(Duration::ZERO, SOON);
        Dblock::run(server, &name).command(["true"]).output().expect_code(0);
    }
}

/// What goes in front of dblock so that it runs as an account of its own that may have only so many processes. root has no
/// such limit. The account may not be able to read the build folder, so dblock is copied.
fn with_so_many_processes(folder: &TempDir, processes: u32) -> [String; 8] {
    let copy = folder.path().join("dblock");
    if !copy.exists() {
        copy_program(env!("CARGO_BIN_EXE_dblock"), &copy);
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // A number that no other test uses at the same time.
    let account = folder
        .path()
        .to_string_lossy()
        .bytes()
        .fold(std::process::id(), |sum, byte| {
            (sum.wrapping_mul(31).wrapping_add(byte.into())) % 1_000_000_000
        });
    [
        "setpriv".to_owned(),
        format!("--reuid={}", 100_000 + account),
        "--clear-groups".to_owned(),
        "prlimit".to_owned(),
        format!("--nproc={processes}"),
        "sh".to_owned(),
        "-c".to_owned(),
        format!("exec '{}' \"$@\"", copy.display()),
    ]
}

/// Whether it has too few descriptors, with so many, and says that; otherwise it succeeds.
#[track_caller]
fn has_too_few(dblock: Dblock, descriptors: u64) -> bool {
    let few = move || {
        Ok(setrlimit(
            Resource::RLIMIT_NOFILE,
            descriptors,
            descriptors,
        )?)
    };
    let run = dblock.pre_exec(few).output();
    if run.code == Some(0) {
        return false;
    }
    run.expect_code(71).expect_said(["Too many open files"]);
    true
}

#[test]
fn too_few_descriptors_for_whatever_are_71_and_leave_the_lock_free() {
    let server = Server::durable(Kind::MariaDb);
    for option in [None, Some("--durable")] {
        let name = unique("few-descriptors");
        let run = || {
            Dblock::run_at(&server.url(), &name)
                .args(option)
                .command(["true"])
        };
        let mut few = 4;
        while has_too_few(run(), few) {
            run().args(["--wait", "10"]).output().expect_code(0);
            few += 1;
        }
        assert!(few > 8, "{few} are enough for {option:?}");
    }
}

#[test]
fn too_few_descriptors_for_a_worker_are_71() {
    let server = Server::durable(Kind::MariaDb);
    let queue = unique("few-descriptors");
    let at = |what: &str| Dblock::at(server, "queue").args([what, &queue]);
    at("create").output().expect_code(0);
    let mut few = 4;
    while has_too_few(at("work").arg("--drain").command(["true"]), few) {
        few += 1;
    }
    assert!(few > 6, "{few} are enough");
}

#[test]
fn a_program_that_hangs_before_its_first_instruction_does_not_stop_the_clock() {
    let server = Server::shared(Kind::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    copy_program("/bin/true", &program);
    let _hangs = Hangs::new(&program);
    let run = Dblock::run(server, &unique("hangs")).args(["--timeout", "2"]);
    let run = run.without_terminal().command([&program]).output();
    run.expect_code(124)
        .expect_took(Duration::from_secs(2), SOON);
}

#[test]
fn a_program_that_cannot_be_run_is_told_however_late_that_is_known() {
    let server = Server::shared(Kind::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    write_program(&program, b"#!/no/interpreter\n");
    let hangs = Hangs::new(&program);
    let name = unique("late");
    let mut run = Dblock::run(server, &name)
        .args(["--hold-at-least", "60"])
        .command([&program])
        .spawn();
    assert!(
        !within(Duration::from_secs(2), || !run.is_running()),
        "{}",
        run.stderr()
    );
    drop(hangs);
    run.wait_within(SOON)
        .expect_code(127)
        .expect_one_line("the interpreter that it names is not there");
    assert_eq!(server.holder(&name), None);
}

#[test]
fn only_the_command_dumps_a_core() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_owned();
    let with_cores = move || {
        let (_, most) = getrlimit(Resource::RLIMIT_CORE)?;
        setrlimit(Resource::RLIMIT_CORE, most, most)?;
        Ok(nix::unistd::chdir(&here)?)
    };
    let name = unique("core");
    for signal in [Signal::SIGSEGV, Signal::SIGQUIT, Signal::SIGABRT] {
        // The command dumps its core elsewhere.
        let script = format!("mkdir -p sub && cd sub && kill -{} $$", signal as i32);
        let run = Dblock::run(Server::shared(Kind::MariaDb), &name)
            .pre_exec(with_cores.clone())
            .sh(&script)
            .output();
        run.expect_signal(signal);
        assert!(
            !run.status.core_dumped(),
            "a core of dblock's own: {run:#?}"
        );
        let left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .map(|file| file.file_name())
            .collect();
        assert_eq!(left, ["sub"], "a core of dblock's own");
    }
}

#[test]
fn a_script_without_an_interpreter_line_runs_as_under_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    write_program(&script, b"echo \"$1\"\nexit 5\n");
    let word = "a word".as_ref();
    let run = Dblock::run(Server::shared(Kind::MariaDb), &unique("no-interpreter"))
        .command([script.as_os_str(), word])
        .output();
    run.expect_code(5).expect_stdout("a word\n");
    let plain = Command::new("timeout")
        .arg("9")
        .arg(&script)
        .arg(word)
        .output()
        .unwrap();
    assert_eq!(plain.status.code(), run.code, "timeout(1) does the same");
}
