//! What script/package makes: a Debian package that installs, works and goes without a trace, and a static binary beside it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use mysql::prelude::Queryable;
use nix::sys::signal::Signal;

use crate::harness::{
    Dblock, PASSWORD, SOON, Server, both_servers, eventually, unique, works, write_program,
};

const SOURCE: &str = env!("CARGO_MANIFEST_DIR");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The end of a command; its stdout and stderr in one if it failed, its stdout if not.
fn ended(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap_or_else(|error| {
        let program = command.get_program().display();
        panic!("cannot run {program}: {error}; script/bootstrap test installs it")
    });
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&[output.stdout, output.stderr].concat()))
    }
}

#[track_caller]
fn told(command: &mut Command) -> String {
    ended(command).unwrap_or_else(|said| panic!("{command:?} failed: {said}"))
}

/// Runs script/package into this folder, as from a shell: what cargo tells a test is not for another cargo, which would
/// compile some crates anew for it.
fn make(folder: &Path) -> String {
    let mut command = Command::new(format!("{SOURCE}/script/package"));
    command.arg(folder);
    for (name, _) in std::env::vars_os() {
        let of_cargo = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "OUT_DIR",
            "DEB",
        ];
        let name = name.to_string_lossy();
        if of_cargo.iter().any(|start| name.starts_with(start)) {
            command.env_remove(&*name);
        }
    }
    told(command.env_remove("LD_LIBRARY_PATH"))
}

/// Two folders, in each of which all was made, and what the script said. script/test has them made before the tests that count time.
fn made() -> &'static ([PathBuf; 2], String) {
    static MADE: LazyLock<([PathBuf; 2], String)> = LazyLock::new(|| {
        if let Some(folder) = std::env::var_os("MADE_PACKAGES") {
            let folder = PathBuf::from(folder);
            return (
                ["first", "again"].map(|name| folder.join(name)),
                String::new(),
            );
        }
        let folders =
            ["first", "again"].map(|name| Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let said = folders.each_ref().map(|folder| {
            let _ = fs::remove_dir_all(folder);
            make(folder)
        });
        (folders, said.concat())
    });
    &MADE
}

/// The file that was made with this end of its name.
#[track_caller]
fn file(end: &str) -> PathBuf {
    let ([folder, _], said) = made();
    let mut files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let found = files.find(|path| path.to_str().unwrap().ends_with(end));
    found.unwrap_or_else(|| panic!("no {end} was made: {said}"))
}

/// dblock's own package.
fn package() -> PathBuf {
    let web = web_package();
    let name = web.file_name().unwrap().to_str().unwrap();
    web.with_file_name(name.replace("dblock-web_", "dblock_"))
}

/// That of its page.
fn web_package() -> PathBuf {
    let ([folder, _], said) = made();
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut packages = files.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    let found = packages.find(|path| path.to_str().unwrap().contains("dblock-web_"));
    found.unwrap_or_else(|| panic!("no package of the page was made: {said}"))
}

fn static_binary() -> PathBuf {
    file("-linux-static")
}

/// A system of its own, as dpkg sees it, that has the packages of this machine by name and none of their files.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let state = root.path().join("var/lib/dpkg");
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(state.join(folder)).unwrap();
        }
        fs::copy("/var/lib/dpkg/status", state.join("status")).unwrap();
        Self(root)
    }

    /// The package is there, with all that it depends on, and set up.
    fn with_the_package() -> Self {
        let root = Self::new();
        // A machine may be told to leave out documentation.
        root.dpkg(&[
            "--path-include=/usr/*",
            "--install",
            package().to_str().unwrap(),
        ]);
        root
    }

    #[track_caller]
    fn dpkg(&self, args: &[&str]) {
        let mut command = Command::new("dpkg");
        // There is no shell in it for the package's scripts.
        command.arg("--force-script-chrootless");
        command.arg("--root").arg(self.0.path());
        told(command.arg("--log=/dev/null").args(args));
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Every file and folder, but for dpkg's own notes.
    fn files(&self) -> String {
        told(
            Command::new("find")
                .arg(self.0.path())
                .args(["-path", "*/var", "-prune", "-o", "-printf", "%P\n"]),
        )
    }
}

/// It does what dblock does.
fn does_its_work(program: &Path, server: &Server) {
    // MySQL encrypts the password of an account's first login, for which random bits are needed.
    let account = unique("packaged");
    server
        .admin()
        .query_drop(format!(
            "CREATE USER '{account}'@'%' IDENTIFIED BY '{PASSWORD}'"
        ))
        .unwrap();
    let url = server.url().replace("dblock@", &format!("{account}@"));
    works(Dblock::run_at(&url, &unique("packaged")).program(program));
    let name = unique("packaged");
    let run = || Dblock::run(server, &name).program(program);
    works(run());
    run().sh("exit 7").output().expect_code(7);
    run()
        .sh("kill -TERM $$")
        .output()
        .expect_signal(Signal::SIGTERM);
    run().command(["/nowhere"]).output().expect_code(127);
    let held = server.hold(&name);
    run()
        .command(["true"])
        .output()
        .expect_code(75)
        .expect_one_line(&name);
    drop(held);
    eventually("it is free", SOON, || server.holder(&name).is_none());
    run()
        .args(["--ttl", "never"])
        .command(["true"])
        .output()
        .expect_code(64);
    Dblock::run_at("mysql://dblock@127.0.0.1:1/", &name)
        .program(program)
        .args(["--connect-timeout", "0.2"])
        .command(["true"])
        .output()
        .expect_code(69);
    works(run());
}

both_servers! {
    fn the_package_is_installed_works_and_is_removed_without_a_trace(server on mysql) {
        let root = Root::with_the_package();
        does_its_work(&root.path("usr/bin/dblock"), server);
        root.dpkg(&["--purge", "dblock"]);
        assert_eq!(root.files(), "\n", "nothing but the root itself");
    }

    fn the_static_binary_works(server) {
        does_its_work(&static_binary(), server);
    }

    fn the_static_binary_asks_no_module_of_the_system_who_hosts_and_users_are(server on mariadb) {
        let folder = tempfile::tempdir().unwrap();
        // Whoever loads this module ends there.
        let module = "#include <unistd.h>\n__attribute__((constructor)) static void loaded(void) { _exit(99); }\n";
        fs::write(folder.path().join("module.c"), module).unwrap();
        told(Command::new("cc")
            .args(["-shared", "-fPIC", "-o", "libnss_trap.so.2", "module.c"])
            .current_dir(&folder));
        fs::write(folder.path().join("nsswitch.conf"), "passwd: trap files\nhosts: trap files dns\n").unwrap();
        let script = r#"mount --bind "$1/nsswitch.conf" /etc/nsswitch.conf; export LD_LIBRARY_PATH="$1"; shift; exec "$@""#;
        let within = |dblock: Dblock, program: &Path| {
            let folder = folder.path().to_str().unwrap();
            dblock.program(program).under(["unshare", "--mount", "sh", "-ec", script, "sh", folder])
        };
        let url = server.url().replace("127.0.0.1", "localhost");
        let run = || Dblock::run_at(&url, &unique("trap")).args(["--protocol", "tcp"]);
        let who = || Dblock::bare().args(["config", "--no-defaults", "--url", "mysql://db.example.com/"]);
        let usual = Path::new(env!("CARGO_BIN_EXE_dblock"));
        within(who(), usual).output().expect_code(99);
        within(run(), usual).command(["true"]).output().expect_code(70);
        let user = within(who(), &static_binary()).output();
        let line = user.expect_code(0).stdout.lines().find(|line| line.starts_with("user "));
        assert!(line.is_some_and(|line| line.contains(" root ")), "{user:#?}");
        works(within(run(), &static_binary()));
    }
}

#[test]
fn lintian_finds_no_error_and_nothing_to_warn_of() {
    told(
        Command::new("lintian")
            .args(["--allow-root", "--fail-on", "error,warning"])
            .args([package(), web_package()]),
    );
}

#[test]
fn the_package_of_the_page_has_the_page_and_needs_dblock() {
    let root = Root::with_the_package();
    root.dpkg(&[
        "--path-include=/usr/*",
        "--install",
        web_package().to_str().unwrap(),
    ]);
    for file in [
        "bin/dblock-web",
        "share/man/man1/dblock-web.1.gz",
        "share/doc/dblock-web/copyright",
        "share/doc/dblock-web/crates-licences.gz",
        "share/doc/dblock-web/examples/dblock-web.service",
    ] {
        assert!(root.path("usr").join(file).exists(), "{file}");
    }
    // dblock finds it beside itself.
    let version = told(Command::new(root.path("usr/bin/dblock")).args(["web", "--version"]));
    assert_eq!(version, format!("dblock web {VERSION}\n"));
    let mut depends = Command::new("dpkg-deb");
    let depends = told(depends.arg("--field").arg(web_package()).arg("Depends"));
    assert!(
        depends.contains(&format!("dblock (>= {VERSION})")),
        "{depends}"
    );
}

#[test]
fn the_package_has_these_files_which_only_root_can_change() {
    let listing = told(Command::new("dpkg-deb").arg("--contents").arg(package()));
    let mut files = BTreeSet::new();
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let path = words[5].trim_start_matches("./");
        let mode = match path {
            folder if folder.is_empty() || folder.ends_with('/') => "drwxr-xr-x",
            "usr/bin/dblock" => "-rwxr-xr-x",
            _ => "-rw-r--r--",
        };
        assert_eq!(words[..2], [mode, "root/root"], "{line}");
        if mode.starts_with('-') {
            files.insert(path.to_owned());
        }
    }
    let mut expected = BTreeSet::from(
        [
            "bin/dblock",
            "share/bash-completion/completions/dblock",
            "share/doc/dblock/changelog.gz",
            "share/doc/dblock/copyright",
            "share/doc/dblock/crates-licences.gz",
            "share/doc/dblock/examples/crontab",
            "share/fish/vendor_completions.d/dblock.fish",
            "lib/systemd/system/dblock-cron.service",
            "share/zsh/vendor-completions/_dblock",
        ]
        .map(|path| format!("usr/{path}")),
    );
    for page in fs::read_dir(format!("{SOURCE}/man")).unwrap() {
        let page = page.unwrap().file_name();
        if page == "dblock-web.1" {
            continue;
        }
        expected.insert(format!("usr/share/man/man1/{}.gz", page.display()));
    }
    assert_eq!(files, expected);
}

#[test]
fn the_unit_in_the_package_is_that_of_the_page_and_starts_the_program_in_the_package() {
    let root = Root::with_the_package();
    let unit = fs::read_to_string(root.path("usr/lib/systemd/system/dblock-cron.service")).unwrap();
    let page = fs::read_to_string(format!("{SOURCE}/docs/cron.md")).unwrap();
    let (_, of_page) = page
        .split_once("# /etc/systemd/system/crontab.service\n")
        .unwrap();
    let (of_page, _) = of_page.split_once("```").unwrap();
    let settings = |text: &str| -> BTreeSet<String> {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty());
        lines
            .map(|line| line.replace("/usr/local/bin/", "/usr/bin/"))
            .collect()
    };
    let (unit_has, page_has) = (settings(&unit), settings(of_page));
    let missing: Vec<_> = page_has
        .difference(&unit_has)
        .filter(|line| !line.starts_with("Description="))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    for line in [
        "Documentation=man:dblock-cron-run(1)",
        "ConditionPathExists=/etc/dblock.crontab",
        "ConditionPathExists=/etc/dblock.cnf",
    ] {
        assert!(unit_has.contains(line), "{line}");
    }
    let program = root.path("usr/bin/dblock");
    expect_fit("dblock-cron.service", &unit, &program, "/etc/dblock.cnf");
}

#[test]
fn the_unit_of_the_page_in_its_package_starts_the_program_in_the_package() {
    let root = Root::with_the_package();
    let web = web_package();
    root.dpkg(&["--path-include=/usr/*", "--install", web.to_str().unwrap()]);
    let example = root.path("usr/share/doc/dblock-web/examples/dblock-web.service");
    let unit = fs::read_to_string(example).unwrap();
    let line = "ConditionPathExists=/etc/dblock-web.cnf";
    assert!(unit.lines().any(|known| known == line), "{unit}");
    let program = root.path("usr/bin/dblock");
    let options = "/etc/dblock-web.cnf";
    expect_fit("dblock-web.service", &unit, &program, options);
}

/// Where this program is, systemd finds nothing wrong in a unit, and its options are those of the program: it finds no option file.
#[track_caller]
fn expect_fit(name: &str, unit: &str, program: &Path, option_file: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    let installed = unit.replace("/usr/bin/dblock", &program.display().to_string());
    fs::write(&file, installed).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let verify = verify.args(["verify", "--man=no"]).arg(&file).output();
    let verify = verify.expect("systemd-analyze starts");
    let said = String::from_utf8_lossy(&verify.stderr).into_owned();
    assert!(verify.status.success() && said.is_empty(), "{said}");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let mut words = start.unwrap().split(' ');
    assert_eq!(words.next(), Some("/usr/bin/dblock"));
    let mut start = Command::new(program);
    start
        .args(words)
        .env("DBLOCK_URL", "mysql://dblock@127.0.0.1:1/");
    let end = ended(start.env("DBLOCK_CONNECT_TIMEOUT", "1ms")).unwrap_err();
    let line = format!("dblock: cannot read the option file {option_file}: no such file");
    assert_eq!(end.lines().collect::<Vec<_>>(), [line]);
}

#[test]
fn the_service_is_stopped_when_the_package_is_removed_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut scripts = Command::new("dpkg-deb");
    scripts.arg("--control").arg(package());
    told(scripts.arg(path("control")));
    fs::create_dir(path("bin")).unwrap();
    for helper in ["systemctl", "deb-systemd-helper", "deb-systemd-invoke"] {
        let stub = b"#!/bin/sh\necho \"${0##*/} $*\" >>\"$CALLS\"\n";
        write_program(&path("bin").join(helper), stub);
    }
    // What a script calls where systemd runs.
    let calls = |action: &str, root: &str| {
        let with_systemd = r#"mount -t tmpfs none /run; mkdir -p /run/systemd/system; exec "$@""#;
        fs::write(path("calls"), "").unwrap();
        let mut words = action.split(' ');
        let mut script = Command::new("unshare");
        script
            .args(["--mount", "sh", "-ec", with_systemd, "sh"])
            .arg(path("control").join(words.next().unwrap()))
            .args(words)
            .env("PATH", format!("{}:/usr/bin:/bin", path("bin").display()))
            .env("CALLS", path("calls"))
            .env("DPKG_ROOT", root);
        told(&mut script);
        fs::read_to_string(path("calls")).unwrap()
    };
    let reload = "systemctl --system daemon-reload\n";
    let update = "deb-systemd-helper update-state dblock-cron.service\n";
    for (action, called) in [
        ("postinst configure", &*format!("{update}{reload}")),
        ("prerm upgrade 2.0", ""),
        ("postrm upgrade 2.0", ""),
        (
            "prerm remove",
            "deb-systemd-invoke stop dblock-cron.service\n",
        ),
        ("postrm remove", reload),
        (
            "postrm purge",
            "deb-systemd-helper purge dblock-cron.service\n",
        ),
    ] {
        assert_eq!(calls(action, ""), called, "{action}");
    }
    for action in ["prerm remove", "postrm remove"] {
        let called = calls(action, "/elsewhere");
        assert_eq!(called, "", "{action}: the service here is another one");
    }
}

#[test]
fn a_purge_forgets_that_the_service_was_enabled() {
    let root = Root::with_the_package();
    let link = root.path("etc/systemd/system/multi-user.target.wants/dblock-cron.service");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink("/usr/lib/systemd/system/dblock-cron.service", &link).unwrap();
    root.dpkg(&["--remove", "dblock"]);
    assert!(link.is_symlink(), "the package may come back");
    root.dpkg(&["--purge", "dblock"]);
    assert!(!link.is_symlink());
}

#[test]
fn the_package_says_what_it_is_and_what_it_needs() {
    let field = |name: &str| {
        let value = told(
            Command::new("dpkg-deb")
                .arg("--field")
                .arg(package())
                .arg(name),
        );
        value.trim().to_owned()
    };
    assert_eq!(field("Package"), "dblock");
    assert_eq!(field("Version"), VERSION.replacen('-', "~", 1));
    let depends = field("Depends");
    let needs: Vec<&str> = depends
        .split(", ")
        .map(|need| need.split(' ').next().unwrap())
        .collect();
    assert_eq!(needs, ["libc6"], "as the README says");
}

#[test]
fn every_crate_that_is_linked_in_has_its_licence_in_the_package() {
    let root = Root::with_the_package();
    let licences =
        told(Command::new("zcat").arg(root.path("usr/share/doc/dblock/crates-licences.gz")));
    let manifest = fs::read_to_string(format!("{SOURCE}/Cargo.toml")).unwrap();
    let (_, dependencies) = manifest.split_once("[dependencies]\n").unwrap();
    let names = dependencies
        .lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .filter(|name| !["native-tls", "regex"].contains(name)); // which are dblock's own
    // And some that these bring.
    for name in names.chain(["ring", "curve25519-dalek", "serde_core"]) {
        let is_named = |line: &str| line.trim_start().starts_with(&format!("{name} "));
        let of_text = |line: &str| is_named(line) && line.contains(": ") && !line.starts_with(' ');
        assert!(licences.lines().any(is_named), "{name} is in the list");
        assert!(licences.lines().any(of_text), "{name} has a text");
    }
    for what in [
        ": LICENSE-BoringSSL",
        "Unicode, Inc",
        "Rust's standard library",
        "Isis Agora Lovecruft",
    ] {
        assert!(licences.contains(what), "{what}");
    }
    let beside = fs::read_to_string(file("-linux-static.licences")).unwrap();
    assert!(beside.contains(&licences), "the static binary has the same");
    let own = fs::read_to_string(format!("{SOURCE}/LICENSE-MIT")).unwrap();
    assert!(
        beside.starts_with(&own) && beside.contains("The C library in it is "),
        "and more"
    );
}

#[test]
fn the_static_binary_needs_nothing_and_both_are_the_same_version() {
    let headers = told(Command::new("readelf").arg("-ldW").arg(static_binary()));
    assert!(
        !headers.contains("INTERP") && !headers.contains("(NEEDED)"),
        "{headers}"
    );
    let root = Root::with_the_package();
    let kind = |program: &Path| {
        let header = told(Command::new("readelf").arg("-hW").arg(program));
        let line = header.lines().find(|line| line.contains("Type:"));
        line.unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(kind(&static_binary()), "EXEC", "at fixed addresses");
    assert_eq!(
        kind(&root.path("usr/bin/dblock")),
        "DYN",
        "as Debian has it"
    );
    for program in [root.path("usr/bin/dblock"), static_binary()] {
        assert_eq!(
            told(Command::new(program).arg("--version")),
            format!("dblock {VERSION}\n")
        );
    }
}

#[test]
fn the_sums_are_those_of_the_files_and_come_out_the_same_again() {
    let ([folder, again], _) = made();
    let check = || {
        Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(folder)
            .output()
    };
    assert!(check().unwrap().status.success());
    let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    let named: BTreeSet<&str> = sums
        .lines()
        .map(|line| line.split_once("  ").unwrap().1)
        .collect();
    let there: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    assert_eq!(
        there.len(),
        named.len() + 1,
        "all but the sums themselves: {there:?}"
    );
    assert_eq!(fs::read_to_string(again.join("SHA256SUMS")).unwrap(), sums);
}

#[test]
fn the_example_crontab_is_the_one_of_the_readme() {
    let readme = fs::read_to_string(format!("{SOURCE}/README.md")).unwrap();
    let readme: BTreeSet<&str> = readme.lines().map(str::trim).collect();
    let example = fs::read_to_string(format!("{SOURCE}/docs/examples/crontab")).unwrap();
    let lines: Vec<&str> = example
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert_eq!(lines.len(), 6, "a setting and five jobs");
    for line in lines {
        assert!(readme.contains(line), "{line}");
    }
}

#[test]
fn a_source_without_its_manual_makes_no_package() {
    let source = tempfile::tempdir().unwrap();
    told(
        Command::new("cp")
            .arg("-r")
            .arg(format!("{SOURCE}/script"))
            .arg(source.path()),
    );
    let output = source.path().join("output");
    let said = ended(Command::new(source.path().join("script/package")).arg(&output));
    assert!(said.is_err_and(|said| said.contains("man/dblock.1 is missing")));
    assert!(!output.exists());
}
