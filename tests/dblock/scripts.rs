//! The scripts that people and continuous integration run: where they look, what they say, and what they leave behind.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::harness::pages::ROOT;
use crate::harness::write_program;

/// Programs that stand in for those of this machine: each is its name, and what a shell does in its place.
fn stubs<const N: usize>(programs: [(&str, &str); N]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in programs {
        let script = format!("#!/bin/bash\n{script}\n");
        write_program(&folder.path().join(name), script.as_bytes());
    }
    folder
}

/// A program of the house that finds these before those of this machine.
fn with(stubs: &TempDir, program: &str) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new(program);
    command
        .current_dir(ROOT)
        .env("PATH", format!("{}:{path}", stubs.path().display()));
    command
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
    let stubs = stubs([
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
