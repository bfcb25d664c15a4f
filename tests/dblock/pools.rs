//! `--slots`: a pool has as many holders as names, and each command is told which one it has.

use std::process::Stdio;
use std::time::Duration;

use mysql::prelude::Queryable;

use crate::harness::{
    Dblock, Kind, Running, SOON, Server, both_servers, each_lock, eventually, slack, unique,
};
use crate::names::on_server;

/// Prints what the command is told of its slot.
const TELL: &str = "echo has ${DBLOCK_SLOT-none} ${DBLOCK_SLOT_NAME-none} $DBLOCK_CONNECTION_ID";

/// A command that holds a slot until its stdin ends, and what it was told: the slot's number and its name.
struct Holder {
    run: Running,
    slot: u32,
    slot_name: String,
    connection: u64,
}

impl Holder {
    /// How a line names it: as it says itself, where the server keeps that.
    fn named(&self, server: &Server) -> String {
        match server.kind {
            Kind::MariaDb => format!("connection {} ", self.connection),
            Kind::MySql | Kind::Postgres => format!("pid {} ", self.run.pid()),
        }
    }

    /// Starts it, and waits until it has a slot.
    #[track_caller]
    fn start(dblock: Dblock) -> Self {
        let dblock = dblock.stdin(Stdio::piped());
        Self::of(dblock.sh(&format!("{TELL}; read x")).spawn())
    }

    #[track_caller]
    fn of(mut run: Running) -> Self {
        let line = run.wait_line("has ", SOON);
        let words: Vec<&str> = line.split(' ').collect();
        let [_, slot, slot_name, connection] = words[..] else {
            panic!("four words: {line:?}")
        };
        Self {
            slot: slot.parse().expect("a slot's number"),
            slot_name: slot_name.to_owned(),
            connection: connection.parse().expect("a connection's number"),
            run,
        }
    }

    fn end(mut self) {
        drop(self.run.take_stdin());
        self.run.wait().expect_silence();
    }
}

fn pool(server: &Server, name: &str, slots: &str) -> Dblock {
    Dblock::run(server, name).args(["--slots", slots])
}

/// What the server calls a slot.
pub fn slot_on_server(name: &str, slot: u32) -> String {
    match slot {
        0 => on_server(name),
        _ => format!("{}#{slot}", on_server(name)),
    }
}

each_lock! {
    fn one_that_waits_is_told_the_name_of_the_slot_that_is_freed(server) {
        let name = unique("waits");
        let two = || pool(server, &name, "left,right");
        let mut holders = [(); 2].map(|()| Holder::start(two()));
        holders.sort_by_key(|holder| holder.slot);
        let [left, right] = holders;
        let mut waits = two().args(["-v", "--wait", "50"]).stdin(Stdio::piped()).sh(&format!("{TELL}; read x")).spawn();
        waits.wait_stderr("; waiting", SOON);
        right.end();
        let waited = Holder::of(waits);
        assert_eq!((waited.slot, waited.slot_name.as_str()), (1, "right"));
        assert_eq!(server.holder(&name), Some(left.connection));
    }

    fn the_names_are_told_as_they_stand(server) {
        for name_of_slot in ["-", "a b", "é名🔒", "$(x)'\"\\", "a=b", "#1", &"n".repeat(200)] {
            let run = pool(server, &unique("odd"), name_of_slot).sh("printf %s \"$DBLOCK_SLOT_NAME\"").output();
            run.expect_code(0).expect_stdout(name_of_slot).expect_silence();
        }
    }

    fn a_pool_may_have_a_thousand_names(server) {
        let names: Vec<String> = (0..1000).map(|number| format!("slot-{number}")).collect();
        let run = pool(server, &unique("thousand"), &names.join(",")).sh("echo $DBLOCK_SLOT $DBLOCK_SLOT_NAME").output();
        run.expect_code(0).expect_stdout("0 slot-0\n").expect_silence();
    }

    fn without_a_pool_no_slot_has_a_name(server) {
        for args in [&[][..], &["-m", "1"], &["-m", "3"]] {
            let run = Dblock::run(server, &unique("plain")).args(args)
                // As of a dblock around this one.
                .env("DBLOCK_SLOT_NAME", "outer")
                .sh("echo $DBLOCK_SLOT ${DBLOCK_SLOT_NAME-none}");
            run.output().expect_code(0).expect_stdout("0 none\n");
        }
    }

    fn a_dblock_inside_tells_its_own_slot(server) {
        let dblock = env!("CARGO_BIN_EXE_dblock");
        for (inner, told) in [("--slots in0,in1", "0 in0\n"), ("-m 2", "0 none\n"), ("", "0 none\n")] {
            let (outside, inside) = (unique("outer"), unique("inner"));
            // The outer one has the second name.
            let first = Holder::start(pool(server, &outside, "out0,out1"));
            let tell = "echo $DBLOCK_SLOT ${DBLOCK_SLOT_NAME-none}";
            let script = format!("'{dblock}' run --name {inside} {inner} -- sh -c '{tell}'; {tell}");
            let run = pool(server, &outside, "out0,out1").sh(&script).output();
            run.expect_code(0).expect_stdout(&format!("{told}1 out1\n")).expect_silence();
            first.end();
        }
    }

    fn a_pool_of_one_name_is_the_lock_itself(server) {
        let name = unique("one");
        let holder = Holder::start(pool(server, &name, "only"));
        assert_eq!((holder.slot, holder.slot_name.as_str()), (0, "only"));
        assert_eq!(server.holder(&name), Some(holder.connection));
        Dblock::run(server, &name).command(["true"]).output().expect_code(75);
        holder.end();
        let client = server.hold(&name);
        let said = format!("connection {}", client.connection_id());
        pool(server, &name, "only").command(["true"]).output().expect_code(75).expect_one_line(&said);
    }

    fn the_slots_of_a_long_name_are_numbered_too(server) {
        for length in [56, 57, 200] {
            let name = format!("{:n<length$}", unique("long"));
            let holders = [(); 2].map(|()| Holder::start(pool(server, &name, "a,b")));
            for holder in holders {
                let lock = slot_on_server(&name, holder.slot);
                assert!(lock.len() <= 64, "{lock}");
                assert_eq!(server.holder(&lock), Some(holder.connection), "{lock}");
            }
        }
    }

    fn without_a_lock_there_is_no_slot(server) {
        let run = pool(server, &unique("no-lock"), "a,b")
            .args(["--port", "1", "--connect-timeout", "0.2", "--if-unreachable", "run"])
            .env("DBLOCK_SLOT_NAME", "outer")
            .sh("echo ${DBLOCK_SLOT-none} ${DBLOCK_SLOT_NAME-none}");
        run.output().expect_code(0).expect_stdout("none none\n");
    }

    fn a_slot_that_is_lost_in_a_hold_is_the_one_that_is_taken_again(server) {
        let name = unique("again");
        let first = Holder::start(pool(server, &name, "a,b,c"));
        let second = pool(server, &name, "a,b,c").without_terminal().args(["-v", "--hold-at-least", "50"]);
        let mut second = Holder::of(second.sh(TELL).spawn());
        assert_eq!((first.slot, second.slot), (0, 1));
        second.run.wait_stderr("dblock: holding ", SOON);
        // Slot 0 is free, and is not what it wants.
        first.end();
        server.admin().query_drop(format!("KILL {}", second.connection)).unwrap();
        let lock = format!("{name}#1");
        eventually("it is taken again", SOON, || server.holder(&lock).is_some_and(|id| id != second.connection));
        assert_eq!(server.holder(&name), None);
        second.run.signal(nix::sys::signal::Signal::SIGTERM);
        second.run.wait_within(SOON).expect_code(0);
        // It waits a second for the server, which frees it then by itself.
        eventually("it is free", SOON, || server.holder(&lock).is_none());
    }

    fn one_pool_serves_many_and_no_name_twice_at_a_time(server) {
        let name = unique("many");
        let folder = tempfile::tempdir().unwrap();
        // A folder that is there already is a name that two have at once.
        let script = format!(
            "cd {}; mkdir $DBLOCK_SLOT_NAME || exit 9; sleep 0.05; rmdir $DBLOCK_SLOT_NAME",
            crate::harness::quoted(folder.path())
        );
        let start = |_| pool(server, &name, "x,y,z").args(["--wait", "50"]).sh(&script).spawn();
        let crowd: Vec<_> = (0..15).map(start).collect();
        for run in crowd {
            run.wait().expect_code(0).expect_silence().expect_took(Duration::ZERO, SOON + slack());
        }
    }
}

// What happens to a named lock, which ends with its session.
both_servers! {
    fn a_plain_client_takes_a_slot_out_of_the_pool(server) {
        let name = unique("plain");
        let client = server.hold(&format!("{name}#1"));
        let three = || pool(server, &name, "a,b,c");
        let holders = [(); 2].map(|()| Holder::start(three()));
        let mut names: Vec<_> = holders.iter().map(|holder| holder.slot_name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "c"]);
        let said = format!("connection {}", client.connection_id());
        three().command(["true"]).output().expect_code(75).expect_one_line(&said);
        drop(client);
        eventually("the client is gone", SOON, || server.holder(&format!("{name}#1")).is_none());
        assert_eq!(Holder::start(three()).slot_name, "b");
    }

    fn a_pool_has_as_many_holders_as_names(server) {
        let name = unique("pool");
        let three = || pool(server, &name, "gpu0,gpu1,gpu2");
        let holders = [(); 3].map(|()| Holder::start(three()));
        let mut told: Vec<_> = holders.iter().map(|holder| (holder.slot, holder.slot_name.as_str())).collect();
        told.sort_unstable();
        assert_eq!(told, [(0, "gpu0"), (1, "gpu1"), (2, "gpu2")]);
        for holder in &holders {
            let lock = slot_on_server(&name, holder.slot);
            assert_eq!(server.holder(&lock), Some(holder.connection), "{lock}");
        }
        let fourth = three().sh("echo ran").output();
        fourth.expect_code(75).expect_stdout("").expect_one_line(&name);
        fourth.expect_said(holders.iter().map(|holder| holder.named(server)));
        assert!(!fourth.stderr.contains("more"), "{fourth:#?}");
        let [first, second, third] = holders;
        second.end();
        let again = Holder::start(three());
        assert_eq!((again.slot, again.slot_name.as_str()), (1, "gpu1"), "the one that is free");
        for holder in [first, third, again] {
            holder.end();
        }
        for slot in 0..3 {
            assert_eq!(server.holder(&slot_on_server(&name, slot)), None);
        }
    }

    fn the_line_of_a_larger_pool_names_three_and_counts_the_rest(server) {
        let name = unique("larger");
        let five = || pool(server, &name, "a,b,c,d,e");
        let mut holders = [(); 5].map(|()| Holder::start(five()));
        holders.sort_by_key(|holder| holder.slot);
        let names: Vec<_> = holders.iter().map(|holder| holder.named(server)).collect();
        let sixth = five().command(["true"]).output();
        sixth.expect_code(75).expect_one_line(" and 2 more; not run");
        for (slot, holder) in names.iter().enumerate() {
            assert_eq!(sixth.stderr.contains(holder), slot < 3, "slot {slot}, {holder}: {sixth:#?}");
        }
    }
}
