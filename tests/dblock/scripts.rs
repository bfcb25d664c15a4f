//! The scripts that people and continuous integration run: where they look, what they say, and what they leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::harness::pages::ROOT;
use crate::harness::{SOON, eventually, in_time, link_program, write_program};

/// Programs that stand in for those of this machine: each is its name, and what a shell does in its place.
fn stubs(programs: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in programs {
        let script = format!("#!/bin/bash\n{script}\n");
        write_program(&folder.path().join(name), script.as_bytes());
    }
    folder
}

/// A program that finds these before those of this machine, in the checkout.
fn with(stubs: &TempDir, program: &str) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(program);
    command
        .current_dir(ROOT)
        .env("PATH", format!("{}:{path}", stubs.path().display()));
    command
}

/// The command lines of the processes that have this folder as their `TMPDIR`.
fn processes_in(folder: &Path) -> Vec<String> {
    let variable = format!("TMPDIR={}", folder.display());
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let read = |path: &Path, name: &str| fs::read(path.join(name)).unwrap_or_default();
    let ours = processes.map(|process| process.path()).filter(|path| {
        let environment = read(path, "environ");
        let mut words = environment.split(|&byte| byte == 0);
        words.any(|word| word == variable.as_bytes())
    });
    ours.map(|path| String::from_utf8_lossy(&read(&path, "cmdline")).replace('\0', " "))
        .collect()
}

#[test]
fn what_cargo_builds_is_found_where_variables_and_settings_have_it() {
    let home = tempfile::tempdir().unwrap();
    let settings = "[build]\ntarget-dir = \"/of/the/settings\"\n";
    fs::write(home.path().join("config.toml"), settings).unwrap();
    let found = |variable: &str, value: &str| {
        let output = Command::new("bash")
            .args(["-c", ". script/lib/servers.sh; find_builds"])
            .current_dir(ROOT)
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("CARGO_BUILD_TARGET_DIR")
            .env(variable, value)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    for variable in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"] {
        assert_eq!(found(variable, "/elsewhere"), "/elsewhere\n", "{variable}");
    }
    let home = home.path().to_str().unwrap();
    assert_eq!(found("CARGO_HOME", home), "/of/the/settings\n");
}

#[test]
fn where_no_namespaces_can_be_made_the_tests_say_so_and_do_not_begin() {
    let stubs = stubs(&[
        (
            "unshare",
            "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1",
        ),
        ("cargo", "echo 'the tests begin'; exit 1"),
    ]);
    let output = with(&stubs, "script/test").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    for words in ["unshare failed: Operation not permitted", "--privileged"] {
        assert!(said.contains(words), "{said}");
    }
}

/// What a script builds is the dblock of these tests.
const CARGO: (&str, &str) = (
    "cargo",
    r#"case $1 in
        --version) echo 'cargo 99.0.0' ;;
        metadata) printf '{"target_directory": "%s"}' "$BUILDS" ;;
    esac"#,
);

/// What runs a script that shows dblock at work, with these programs. Its `TMPDIR` is `scratch` in this folder. With the option file that
/// this machine has then, no dblock would run.
fn on_stage(folder: &Path, stubs: &TempDir) -> Command {
    let [builds, scratch, options] = ["builds", "scratch", "my.cnf"].map(|name| folder.join(name));
    fs::create_dir_all(builds.join("release")).unwrap();
    fs::create_dir(&scratch).unwrap();
    link_program(env!("CARGO_BIN_EXE_dblock"), &builds.join("release/dblock"));
    fs::write(&options, "[dblock]\nno-such-option = 1\n").unwrap();
    let machine = r#"mount -t tmpfs none /etc/mysql; cp "$1" /etc/mysql/my.cnf; shift; exec "$@""#;
    let mut command = with(stubs, "unshare");
    command
        .args(["--mount", "sh", "-ec", machine, "sh"])
        .arg(&options)
        .args(["env", "--default-signal=HUP,INT,TERM"])
        .env("BUILDS", &builds)
        .env("TMPDIR", &scratch)
        .stdin(Stdio::null());
    command
}

/// Ends the demo by Ctrl-C, which reaches all that the terminal has in front, or by another signal to it alone: while its first job runs,
/// on host A, or while dblock looks on host B.
fn the_demo_ends_by(signal: Signal, host: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [scratch, go] = ["scratch", "go"].map(|name| folder.path().join(name));
    let stubs = stubs(&[CARGO]);
    let mut demo = on_stage(folder.path(), &stubs);
    if host == "B" {
        let program = folder.path().join("builds/release/dblock");
        fs::remove_file(&program).unwrap();
        let looks = format!(
            "#!/bin/bash\nif [[ ${{HOST:-}} == B ]]; then echo 'report: begins on host B'; until [[ -e {} ]]; do sleep 0.05; done; fi\n\
             exec {} \"$@\"\n",
            go.display(),
            env!("CARGO_BIN_EXE_dblock")
        );
        write_program(&program, looks.as_bytes());
    }
    let mut demo = demo
        .arg("script/demo")
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let begins = format!("report: begins on host {host}");
    assert!(lines.any(|line| line.unwrap() == begins));
    let pid = Pid::from_raw(i32::try_from(demo.id()).unwrap());
    if signal == Signal::SIGINT {
        killpg(pid, signal).unwrap();
    } else {
        kill(pid, signal).unwrap();
    }
    fs::write(&go, "").unwrap();
    let mut code = None;
    // A shell that gets a signal alone goes on when its command in front has ended; then the jobs end, the server, and the folder.
    eventually("the demo ends", SOON * 3, || {
        code = demo.try_wait().unwrap().map(|status| status.code());
        code.is_some()
    });
    assert_eq!(code, Some(Some(128 + signal as i32)));
    eventually("nothing runs any more", SOON, || {
        processes_in(&scratch).is_empty()
    });
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}

#[test]
fn a_demo_that_is_interrupted_leaves_no_process_and_no_file() {
    thread::scope(|scope| {
        let ends = [
            (Signal::SIGINT, "A"),
            (Signal::SIGTERM, "A"),
            (Signal::SIGTERM, "B"),
            (Signal::SIGHUP, "A"),
        ];
        for (signal, host) in ends {
            scope.spawn(move || the_demo_ends_by(signal, host));
        }
    });
}

#[test]
fn a_picture_that_cannot_be_drawn_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).unwrap();
    let picture = pictures.join("terminal.svg");
    fs::write(&picture, "the old one").unwrap();
    let stubs = stubs(&[CARGO, ("fold", "echo half a line; exit 1")]);
    let output = on_stage(folder.path(), &stubs)
        .arg("script/terminal-picture")
        .arg(&picture)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(fs::read(&picture).unwrap(), b"the old one", "{said}");
    assert_eq!(fs::read_dir(&pictures).unwrap().count(), 1);
    assert_eq!(
        fs::read_dir(folder.path().join("scratch")).unwrap().count(),
        0
    );
}

#[test]
fn a_server_that_is_interrupted_as_it_makes_its_folder_leaves_none() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let scratch = tempfile::tempdir().unwrap();
        let interrupt = format!("command -p mktemp \"$@\"; kill -{} 0", signal as i32);
        let stubs = stubs(&[("mktemp", interrupt.as_str())]);
        let output = with(&stubs, "env")
            .args(["--default-signal=HUP,INT,TERM", "script/server", "mariadb"])
            .env("TMPDIR", scratch.path())
            .process_group(0)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(128 + signal as i32),
            "{output:?}"
        );
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "{signal}");
    }
}

#[test]
fn postgresql_is_installed_without_a_server_of_its_own_and_the_settings_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let stubs = stubs(&[
        CARGO,
        (
            "tell",
            r#"settings=/etc/postgresql-common/createcluster.conf
            echo "$1: $(pg_conftool $settings show -bs create_main_cluster || echo unset)" >>"$RECORD""#,
        ),
        (
            "apt-get",
            r#"tell "$WHEN"
            if [[ $WHEN == killed ]]; then kill -KILL "$PPID" && exit; fi
            mkdir -p /usr/lib/postgresql/15/bin
            cd /usr/lib/postgresql/15/bin
            printf '%s\n' '#!/bin/sh' 'echo "postgres (PostgreSQL) 15.0"' | tee postgres >initdb
            chmod +x postgres initdb"#,
        ),
    ]);
    let machine = "
        for folder in /usr/lib/postgresql /etc/postgresql-common; do mount -t tmpfs none $folder; done
        cp /usr/share/postgresql-common/createcluster.conf /etc/postgresql-common
        WHEN=killed script/bootstrap postgres || tell 'after that'
        WHEN=again script/bootstrap postgres
        tell 'in the end'
        cmp /usr/share/postgresql-common/createcluster.conf /etc/postgresql-common/createcluster.conf";
    let output = with(&stubs, "unshare")
        .args(["--mount", "bash", "-ec", machine])
        .env("RECORD", &record)
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:#?}");
    assert_eq!(
        fs::read_to_string(&record).unwrap(),
        "killed: off\nafter that: off\nagain: off\nin the end: unset\n"
    );
}

/// What is built is `true(1)`, and has one crate in it.
const CARGO_OF_A_COPY: (&str, &str) = (
    "cargo",
    r#"case $1 in
        --version) echo 'cargo 99.0.0' ;;
        metadata)
            printf '{"target_directory": "%s/target", "packages": [{"name": "tiny", "version": "1.0.0", "license": "MIT",
                "manifest_path": "%s/tiny/Cargo.toml"}]}' "$PWD" "$PWD"
            ;;
        tree) echo 'tiny v1.0.0' ;;
        build)
            if [[ ${DIES_WITH_A_CACHE-} ]]; then
                sleep 600 </dev/null >/dev/null 2>&1 &
                echo $! >target/cache
                kill -KILL $PPID
                exit
            fi
            mkdir target/busy || echo 'two at once' >>target/mixed
            sleep 0.3
            rmdir target/busy || true
            mkdir -p target/release
            cp "$(type -P true)" target/release/dblock
            cp "$(type -P true)" target/release/dblock-web
            ;;
    esac
    if [[ $1 == "${FAILS:-}" ]]; then exit 101; fi"#,
);

/// A Rust that can make no static binary.
const RUSTC_OF_A_COPY: (&str, &str) = (
    "rustc",
    r#"case $* in
        -vV) echo 'host: x86_64-unknown-linux-gnu' ;;
        '--print sysroot') echo "$PWD/sysroot" ;;
        *) exit 1 ;;
    esac"#,
);

/// A copy of the checkout, in which script/package has little to do.
struct Checkout {
    folder: TempDir,
    stubs: TempDir,
}

impl Checkout {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let copied = Command::new("cp")
            .args(["-r", "--parents", "script", "man", "completions"])
            .args(["docs/examples", "LICENSE-MIT", "Cargo.toml"])
            .arg(folder.path())
            .current_dir(ROOT)
            .status();
        assert!(copied.unwrap().success());
        fs::write(path("CHANGELOG.md"), "## Unreleased\n\n- All of it.\n").unwrap();
        fs::create_dir_all(path("tiny")).unwrap();
        fs::write(path("tiny/LICENSE"), "As you like.\n").unwrap();
        fs::create_dir_all(path("sysroot/share/doc/rust")).unwrap();
        let notices = path("sysroot/share/doc/rust/COPYRIGHT-library.html");
        fs::write(notices, "<p>As you like.</p>\n").unwrap();
        let stubs = stubs(&[CARGO_OF_A_COPY, RUSTC_OF_A_COPY]);
        Self { folder, stubs }
    }

    /// What runs script/package there, for the folder dist.
    fn package(&self) -> Command {
        let program = self.folder.path().join("script/package");
        with(&self.stubs, program.to_str().unwrap())
    }

    /// The names of the files in dist.
    fn made(&self) -> BTreeSet<String> {
        let files = fs::read_dir(self.folder.path().join("dist")).unwrap();
        files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

#[test]
fn no_package_is_made_of_which_cargo_does_not_say_all_that_is_linked_in() {
    let checkout = Checkout::new();
    let output = checkout.package().env("FAILS", "tree").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let reason = "package: cargo does not say which crates are linked into dblock\n";
    assert!(said.ends_with(reason), "{said}");
    assert_eq!(checkout.made(), BTreeSet::new());
}

#[test]
fn packages_do_not_have_the_setgid_bit_of_the_folder_that_they_are_made_in() {
    let checkout = Checkout::new();
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(&scratch, fs::Permissions::from_mode(0o2700)).unwrap();
    let mut package = checkout.package();
    let output = package.env("TMPDIR", scratch.path()).output().unwrap();
    assert!(output.status.success(), "{output:#?}");
    let dist = checkout.folder.path().join("dist");
    let made = checkout.made();
    for package in made.iter().filter(|name| name.starts_with("dblock")) {
        let mut listing = Command::new("dpkg-deb");
        let listing = listing.arg("--contents").arg(dist.join(package)).output();
        let listing = String::from_utf8(listing.unwrap().stdout).unwrap();
        assert!(listing.starts_with("drwxr-xr-x "), "{listing}");
        assert!(
            !listing.lines().any(|line| line.starts_with("drwxr-s")),
            "{listing}"
        );
    }
}

#[test]
fn packages_that_are_made_at_once_do_not_mix_what_is_built() {
    let checkout = Checkout::new();
    let both = [(); 2].map(|()| checkout.package().stdout(Stdio::null()).spawn().unwrap());
    for mut package in both {
        assert!(package.wait().unwrap().success());
    }
    assert!(!checkout.folder.path().join("target/mixed").exists());
}

#[test]
fn a_compiler_cache_of_a_package_that_was_killed_holds_up_no_other() {
    let checkout = Checkout::new();
    let killed = checkout
        .package()
        .env("DIES_WITH_A_CACHE", "yes")
        .env("TMPDIR", checkout.folder.path())
        .output()
        .unwrap();
    assert_eq!(killed.status.signal(), Some(libc::SIGKILL), "{killed:#?}");
    let builds = checkout.folder.path().join("target");
    let cache = fs::read_to_string(builds.join("cache")).unwrap();
    let cache = Pid::from_raw(cache.trim().parse().unwrap());
    let mut next = checkout.package().spawn().unwrap();
    let is_done = in_time(SOON, || next.try_wait().unwrap().is_some());
    kill(cache, Signal::SIGKILL).unwrap();
    assert!(is_done && next.wait().unwrap().success());
}

#[test]
fn packages_of_other_versions_go_from_dist() {
    let checkout = Checkout::new();
    let package = |arguments: &[&str]| {
        let output = checkout.package().args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:#?}");
    };
    package(&[]);
    let made = checkout.made();
    let dist = checkout.folder.path().join("dist");
    let own = made.iter().find(|name| name.starts_with("dblock_"));
    let old = own.unwrap().replace(env!("CARGO_PKG_VERSION"), "0.0.9");
    let old_static = "dblock-0.0.9-x86_64-linux-static";
    for name in [&*old, old_static, "notes"] {
        fs::write(dist.join(name), "").unwrap();
    }
    // A folder that somebody names may be an archive.
    package(&[dist.to_str().unwrap()]);
    assert!(checkout.made().contains(&old));
    package(&[]);
    let mut expected = made;
    expected.insert("notes".to_owned());
    assert_eq!(checkout.made(), expected);
}
