//! A name means one lock: on every host, for dblock and for any program that calls `GET_LOCK`.

use sha2::{Digest, Sha256};

use crate::harness::{Dblock, Kind, Server, all_locks, both_locks, dblock_holds, unique};

/// What a name is called on the server, by the words of the manual.
pub fn on_server(name: &str) -> String {
    if name.len() <= 56 {
        return name.to_owned();
    }
    let end = (0..=31)
        .rfind(|&end| name.is_char_boundary(end))
        .expect("0 is a boundary");
    let digits = format!("{:x}", Sha256::digest(name));
    format!("{}~{}", &name[..end], &digits[..24])
}

/// dblock's lock `name` and the server's lock `there` are one.
#[track_caller]
fn assert_meets(server: &Server, name: &str, there: &str) {
    let held = dblock_holds(server, name);
    assert_eq!(
        server.holder(there),
        Some(held.connection),
        "{name:?} is not {there:?} on the server"
    );
    Dblock::run(server, name)
        .command(["true"])
        .output()
        .expect_code(75)
        .expect_one_line(name);
}

/// A name of its own that fills up to `length` bytes with `filler`.
fn filled(length: usize, filler: &str) -> String {
    let mut name = unique("n");
    while name.len() + filler.len() <= length {
        name.push_str(filler);
    }
    format!("{name:-<0$}", name.chars().count() + length - name.len())
}

all_locks! {
    fn a_name_of_56_bytes_is_the_servers_own(server) {
        for filler in ["n", "é", "€"] {
            let name = filled(56, filler);
            assert_meets(server, &name, &name);
        }
    }

    fn a_longer_name_is_cut_and_hashed(server) {
        for length in [57, 64, 65, 199, 200] {
            let name = filled(length, "n");
            assert_eq!(name.len(), length);
            assert_meets(server, &name, &on_server(&name));
        }
    }

    fn letter_case_tells_names_apart_but_on_mysql(server, durable_mysql) {
        let name = unique("case");
        let _held = dblock_holds(server, &name);
        let output = Dblock::run(server, &name.to_uppercase()).command(["true"]).output();
        output.expect_code(match server.kind {
            Kind::MariaDb | Kind::Postgres => 0,
            Kind::MySql => 75,
        });
    }

    fn any_character_may_be_in_a_name(server) {
        for odd in ["it's", "\"", "`", "\\", "\\'", "%s", "a b", "; --", "*/", "?", "${x}", "名前", "x'41'", "\u{301}"] {
            let name = format!("{odd}{}", unique("odd"));
            assert_meets(server, &name, &name);
        }
    }

    fn a_character_of_four_bytes_stands_but_on_mysql(server, durable_mysql) {
        // Behind the cut it is a part of the hash alone.
        let long = format!("{}{}", filled(31, "n"), "🔒".repeat(20));
        assert_meets(server, &long, &on_server(&long));
        let longer = format!("{}{}", filled(24, "n"), "🔒".repeat(20));
        for name in [format!("🔒{}", unique("odd")), longer] {
            match server.kind {
                Kind::MariaDb | Kind::Postgres => assert_meets(server, &name, &on_server(&name)),
                // No program can have such a lock: MySQL keeps the names of locks in its old three bytes.
                Kind::MySql => {
                    let output = Dblock::run(server, &name).sh("echo ran").output();
                    output.expect_code(64).expect_stdout("").expect_one_line("name");
                }
            }
        }
    }
}

both_locks! {
    fn a_longer_name_is_cut_at_a_character(server) {
        // Each begins a character of 2 or 3 bytes before byte 31 and ends it after.
        for (filler, head) in [("é", 30), ("é", 29), ("€", 29), ("€", 30)] {
            let name = format!("{}{}", filled(head, "n"), filler.repeat(20));
            assert_meets(server, &name, &on_server(&name));
        }
        let longest = filled(200, "€");
        assert_eq!(longest.len(), 200);
        assert_meets(server, &longest, &on_server(&longest));
    }

    fn two_long_names_with_one_beginning_are_two_locks(server) {
        let name = filled(150, "n");
        let _held = dblock_holds(server, &format!("{name}a"));
        Dblock::run(server, &format!("{name}b")).command(["true"]).output().expect_code(0);
    }

    fn a_name_may_begin_with_a_dash(server) {
        let name = unique("-x");
        let _client = server.hold(&name);
        for dblock in [Dblock::bare().args(["run", &format!("--name={name}")]), Dblock::bare().args(["run", &format!("-n{name}")])]
        {
            let dblock = dblock.env("DBLOCK_URL", server.url()).env("DBLOCK_PASSWORD", crate::harness::PASSWORD);
            dblock.command(["true"]).output().expect_code(75).expect_one_line(&name);
        }
    }

    fn the_name_is_told_to_the_command(server) {
        let name = filled(200, "é");
        let dblock = Dblock::run(server, &name).sh("echo $DBLOCK_NAME $DBLOCK_SLOT");
        dblock.output().expect_code(0).expect_stdout(&format!("{name} 0\n"));
    }
}
