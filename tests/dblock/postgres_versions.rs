//! The newest PostgreSQL at hand: what the other tests show of an older one holds there, too, and its own limits end no lock.

use std::process::Stdio;

use crate::harness::{
    Dblock, Records, Running, SOON, Server, Watcher, eventually, unique, within, works,
};

/// A holder, until its stdin ends.
#[track_caller]
fn holder(run: Dblock) -> Running {
    let run = run.without_terminal().stdin(Stdio::piped());
    let mut run = run.sh("echo runs $DBLOCK_FENCE; read x; exit 3").spawn();
    run.wait_line("runs", SOON);
    run
}

#[test]
fn a_lock_is_held_waited_for_reacquired_and_ended_and_a_row_with_it() {
    let server = Server::newer_postgres();
    assert!(
        server
            .postgres()
            .is("current_setting('server_version_num')::int >= 170000")
    );
    Dblock::at(server, "check").output().expect_code(0);
    for options in [&[][..], &["--durable"]] {
        let (name, records) = (unique("newest"), Records::new());
        let run = || Dblock::run(server, &name).args(options);
        let mut first = holder(run());
        run()
            .sh("echo ran")
            .output()
            .expect_code(75)
            .expect_stdout("");
        let waiting = [0, 1].map(|id| {
            let waits = run().args(["--wait", "5m"]).command(records.command(id));
            let waits = waits.spawn();
            eventually("it waits", SOON, || server.waiters(&name).len() == id + 1);
            waits
        });
        let session = server.holder(&name).expect("it is held");
        server.watcher().end_session(session);
        eventually("another session holds it", SOON, || {
            server.holder(&name).is_some_and(|id| id != session)
        });
        drop(first.take_stdin());
        first.wait().expect_code(3);
        for dblock in waiting {
            dblock.wait().expect_code(0).expect_silence();
        }
        assert_eq!(records.assert_no_overlap().order(), [0, 1]);

        let mut second = holder(run());
        let status = Dblock::at(server, "status")
            .args(["--json", &name])
            .output();
        let seen = &status.json()["locks"][0]["holders"][0];
        assert_eq!(seen["pid"], second.pid(), "{seen}");
        assert_eq!(seen["durable"], !options.is_empty(), "{seen}");
        Dblock::at(server, "kill")
            .arg(&name)
            .output()
            .expect_code(0);
        second.wait_within(SOON).expect_code(74);
    }
}

#[test]
fn a_limit_of_transactions_ends_neither_a_holder_nor_those_that_wait() {
    let server = Server::newer_postgres();
    let account = server.account();
    let mut admin = server.postgres();
    admin.run(&format!(
        "ALTER ROLE \"{account}\" SET transaction_timeout = '1s'"
    ));
    admin.run(&format!("GRANT dblock TO \"{account}\""));
    let name = unique("limited");
    let run = |options: &[&str]| Dblock::run(server, &name).user(&account).args(options);
    let first = holder(run(&[]));
    let waits = run(&["--wait", "5m"]).sh("echo ran").spawn();
    eventually("it waits", SOON, || server.waiters(&name).len() == 1);
    let sessions = || (server.holder(&name), server.waiters(&name));
    // A statement of a second is one that the server ends; a busy machine may have such.
    let are_left_alone = || {
        let before = sessions();
        !within(std::time::Duration::from_secs(2), || sessions() != before)
    };
    assert!((0..3).any(|_| are_left_alone()));
    drop(first);
    waits
        .wait()
        .expect_code(0)
        .expect_stdout("ran\n")
        .expect_silence();

    // A row that somebody locks for longer than that: the server ends the session that waits for it, and it comes back.
    works(run(&["--durable"]));
    admin.run("BEGIN");
    admin.run(&format!(
        "SELECT 1 FROM dblock.dblock_locks WHERE name = '{name}' FOR UPDATE"
    ));
    // A busy machine may have had it end one before.
    let ended = || server.log().matches("due to transaction timeout").count();
    let before = ended();
    let waits = run(&["--durable", "--wait", "5m"])
        .sh("echo $DBLOCK_FENCE")
        .spawn();
    eventually("a session is ended", SOON, || ended() > before);
    admin.run("COMMIT");
    waits.wait().expect_code(0).expect_stdout("2\n");
}
