//! What docs/postgres.md tells people to do, done.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::tempdir;

use crate::harness::pages::Page;
use crate::harness::postgres::{DATABASE, literal};
use crate::harness::{Dblock, Kind, PASSWORD, Server, unique};

/// The only code of this language under a heading.
fn code(heading: &str, language: &str) -> String {
    let blocks = Page::read("docs/postgres.md").blocks().into_iter();
    let mut found = blocks
        .filter(|block| block.heading == heading && block.language.as_deref() == Some(language));
    let block = found.next().expect(heading);
    assert!(found.next().is_none(), "{heading} has two");
    block.text
}

/// Runs a script of the page where dblock is found; what it prints.
fn typed(script: &str, home: &Path, variables: &[(&str, &str)]) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_dblock"))
        .parent()
        .expect("a folder");
    let output = Command::new("sh")
        .args(["-euc", script])
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("HOME", home)
        .envs(variables.iter().copied())
        .output()
        .expect("sh");
    assert!(output.status.success(), "{script}: {output:#?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_new_role_gets_a_job_done() {
    let server = Server::shared(Kind::Postgres);
    let role = unique("role").replace('-', "_");
    let home = tempdir().expect("a folder");
    let sql = code("Begin", "sql").replace("dblock", &role);
    server.postgres().run(&sql);
    let entry = format!("127.0.0.1:{}:{DATABASE}:{role}:", server.port);
    let steps = code("Begin", "sh").replace("db.example.com:5432:app:dblock:", &entry);
    typed(&steps, home.path(), &[]);
    let crontab = code("Begin", "crontab");
    let [_, variable, line] = crontab.lines().collect::<Vec<_>>()[..] else {
        panic!("where dblock is, where the server is, and the job: {crontab}");
    };
    let url = variable
        .replace(
            "dblock@db.example.com/app",
            &format!("{role}@127.0.0.1:{}/{DATABASE}", server.port),
        )
        .replace("sslmode=verify-full", "sslmode=disable");
    let (_, url) = url.split_once('=').expect("a variable");
    let command = line.trim_start_matches(['*', '/', '5', ' ']);
    let command = command.replace("/usr/local/bin/report", "echo reported");
    assert_eq!(
        typed(&command, home.path(), &[("DBLOCK_URL", url)]),
        "reported\n"
    );
}

#[test]
fn the_key_of_a_name_is_what_the_expression_says() {
    let server = Server::shared(Kind::Postgres);
    let name = unique("key");
    let sql = code("Other programs' locks", "sql").replace("'report'", &literal(&name));
    let mut other = server.postgres();
    let sql = sql
        .trim()
        .trim_start_matches("SELECT")
        .trim_end_matches(';');
    assert!(other.is(sql), "nobody has it");
    let output = Dblock::run(server, &name).sh("echo ran").output();
    output.expect_code(75).expect_stdout("");
}

#[test]
fn a_migration_and_one_with_a_key_of_its_own_run() {
    let server = Server::shared(Kind::Postgres);
    let home = tempdir().expect("a folder");
    fs::write(home.path().join("migrate"), "#!/bin/sh\necho migrated\n").expect("a program");
    let url = format!("postgres://dblock@127.0.0.1:{}/{DATABASE}", server.port);
    for (heading, program) in [
        (
            "Migrations: a wait that harms nobody",
            "/usr/local/bin/migrate",
        ),
        ("Other programs' locks", "/usr/local/bin/import"),
    ] {
        let program_here = format!("sh {}/migrate", home.path().display());
        let script = code(heading, "sh").replace(program, &program_here);
        let variables = [("DBLOCK_URL", &*url), ("DBLOCK_PASSWORD", PASSWORD)];
        assert_eq!(typed(&script, home.path(), &variables), "migrated\n");
    }
}
