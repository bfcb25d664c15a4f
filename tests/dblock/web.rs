//! `dblock web`: it is dblock-web that serves, with what the real commands say. The rest is in the tests of crates/web.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::harness::pages::ROOT;
use crate::harness::schema::follows;
use crate::harness::{Dblock, Running, SOON, Tables, both_servers, eventually};

/// The page's program, beside dblock.
fn beside() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_dblock")).with_file_name("dblock-web");
    assert!(
        path.exists(),
        "{} is missing: cargo build --package dblock-web",
        path.display()
    );
    path
}

/// What a browser would see, by curl: it keeps the cookie in this file.
fn curl(jar: &Path, args: &[&str]) -> String {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--fail",
        "--location",
        "--noproxy",
        "*",
        "--cookie",
    ])
    .arg(jar)
    .arg("--cookie-jar")
    .arg(jar);
    let output = curl
        .args(args)
        .output()
        .expect("curl starts; script/bootstrap test installs it");
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A page that is open, with its URL without the token.
fn open(tables: &Tables, jar: &Path) -> (Running, String) {
    beside();
    let mut web = tables
        .at("web")
        .args([
            "--listen",
            "127.0.0.1:0",
            "--allow-actions",
            "--refresh",
            "1s",
        ])
        .spawn();
    let url = web.wait_line("http://127.0.0.1:", SOON);
    curl(jar, &[&url]);
    (
        web,
        url.split('?')
            .next()
            .unwrap()
            .trim_end_matches('/')
            .to_owned(),
    )
}

both_servers! {
    fn the_page_shows_what_the_commands_say_and_does_what_they_do(server) {
        let tables = Tables::new(server);
        let folder = tempfile::tempdir().unwrap();
        let jar = folder.path().join("jar");
        tables.at("queue").args(["create", "mail <b>ü</b>"]).output().expect_code(0);
        tables.at("queue").args(["put", "mail <b>ü</b>", "secret payload"]).output().expect_code(0);
        let failed = tables.at("run").args(["--durable", "--name", "nightly/1"]).sh("exit 3");
        failed.output().expect_code(3);

        let (mut web, url) = open(&tables, &jar);
        let queue = "mail%20%3Cb%3E%C3%BC%3C%2Fb%3E";
        eventually("the queue is shown", SOON, || curl(&jar, &[&url]).contains("mail &lt;b&gt;ü&lt;/b&gt;"));
        let page = curl(&jar, &[&format!("{url}/queues/{queue}")]);
        assert!(!page.contains("<b>ü") && !page.contains("secret payload"), "{page}");
        let history = curl(&jar, &[&format!("{url}/history?name=nightly%2F1")]);
        assert!(history.contains("exit 3"), "{history}");
        let run = history.split("href=\"/runs/").nth(1).expect("a link to the run").split('"').next().unwrap();
        let run = curl(&jar, &[&format!("{url}/runs/{run}")]);
        assert!(run.contains("nightly/1") && run.contains("exit 3"), "{run}");
        assert!(curl(&jar, &[&format!("{url}/jobs/nightly%2F1")]).contains("exit 3"));

        let done = curl(&jar, &["--header", &format!("Origin: {url}"), "--data", &format!("queue={queue}"), &format!("{url}/actions/pause")]);
        assert!(done.contains("exit code 0"), "{done}");
        let status = tables.at("queue").args(["status", "--json"]).output().json();
        assert!(!status["queues"][0]["paused_since"].is_null(), "{status}");
        eventually("it is shown", SOON, || curl(&jar, &[&format!("{url}/queues/{queue}")]).to_lowercase().contains("paused"));
        web.signal(Signal::SIGTERM);
        web.wait_within(SOON).expect_code(0);
    }
}

/// What the pages are made from in the tests of crates/web is what dblock may say.
#[test]
fn the_fixtures_of_its_own_tests_are_as_the_schemas_say() {
    let folder = Path::new(ROOT).join("crates/web/tests/fixtures");
    let files = fs::read_dir(folder).unwrap().flatten();
    let files: Vec<PathBuf> = files.map(|file| file.path()).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        follows(&fs::read_to_string(&file).unwrap(), name);
    }
}

/// A program in a shell's language.
fn script(path: &Path, lines: &str) {
    let text = path.with_extension("text");
    fs::write(&text, format!("#!/bin/sh\n{lines}\n")).unwrap();
    install(&text, path);
}

/// Copies a program. Another process does it: what this one has open for writing, a program that another test starts may have, too, and
/// then it cannot be run.
fn install(from: &Path, to: &Path) {
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).args([from, to]).status();
    assert!(status.unwrap().success());
}

/// A dblock that is alone in a folder, and in whose `PATH` is nothing, either.
struct Alone(TempDir);

impl Alone {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("dblock");
        install(Path::new(env!("CARGO_BIN_EXE_dblock")), &own);
        fs::create_dir(folder.path().join("path")).unwrap();
        Self(folder)
    }

    /// Where a page's program would be beside it.
    fn beside(&self) -> PathBuf {
        self.0.path().join("dblock-web")
    }

    /// Where it would be in `PATH`.
    fn in_path(&self) -> PathBuf {
        self.0.path().join("path/dblock-web")
    }

    /// `dblock web` with these arguments.
    fn web(&self, args: &[&str]) -> Dblock {
        Dblock::bare()
            .program(self.0.path().join("dblock"))
            .env("PATH", self.0.path().join("path"))
            .arg("web")
            .args(args)
    }
}

#[test]
fn the_arguments_are_handed_on_as_they_were_typed_to_the_one_beside_or_in_path() {
    let dblock = Alone::new();
    let without = dblock.web(&["--help"]).output();
    without
        .expect_code(127)
        .expect_one_line("the Debian package dblock-web has it");
    let args = ["--help", "--unknown", "-x", "a b", "", "--", "ü"];
    let expected = "--help\n--unknown\n-x\na b\n\n--\nü\n";
    for place in [dblock.in_path(), dblock.beside()] {
        script(&place, r#"printf '%s\n' "$@""#);
        let output = dblock.web(&args).output();
        output.expect_code(0).expect_stdout(expected);
        fs::remove_file(place).unwrap();
    }
}

#[test]
fn the_one_beside_is_started_and_not_another_one_in_path() {
    let dblock = Alone::new();
    script(&dblock.in_path(), "echo in PATH");
    script(&dblock.beside(), "echo beside");
    let output = dblock.web(&[]).output();
    output.expect_code(0).expect_stdout("beside\n");
}
