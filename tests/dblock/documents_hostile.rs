//! What the documents' recipes make of payloads, names and output that somebody chose to do harm, and of files that are there already.
//! What `dblock` itself makes of them does not differ between servers, so one is enough.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mysql::prelude::Queryable;

use crate::documents::block_of;
use crate::harness::Kind;
use crate::harness::host::{HOME, Host, needs};
use crate::harness::pages::{Page, ROOT};
use crate::harness::schema::follows;

/// Writes down each of its arguments in a line, and what it reads.
const RECORDS: &str = "#!/bin/sh\nprintf '%s: %s\\n' \"${0##*/}\" \"$#\" >>/run/calls\n\
                       for word; do printf '<%s>\\n' \"$word\" >>/run/calls; done\ncat >>/run/read\n";

/// A host with dblock's tables and a queue of this name.
fn with_queue(queue: &str) -> Host {
    let host = Host::new(Kind::MariaDb);
    host.server.make_tables();
    does(&host, &format!("dblock queue create {queue}"));
    host
}

/// A line of shell, which must end with 0; what it prints.
#[track_caller]
fn does(host: &Host, line: &str) -> String {
    let output = host.sh(line, &Vec::new()).output();
    output.expect_code(0).stdout.clone()
}

/// Puts a job of these bytes.
#[track_caller]
fn put(host: &Host, queue: &str, payload: &[u8]) {
    host.write("/run/payload", payload, 0o644);
    does(
        host,
        &format!("dblock queue put {queue} --file /run/payload"),
    );
}

/// A file of a page, in its place.
fn install(host: &Host, page: &str, file: &str) {
    let text = block_of(page, file).text;
    host.write(file, text.as_bytes(), 0o755);
}

/// The line of a page with these words in it, without its time if it is one of a crontab.
fn line_of(page: &str, words: &str) -> String {
    let text = Page::read(page).text;
    let line = text.lines().find(|line| line.contains(words));
    let line = line.unwrap_or_else(|| panic!("{page}: {words}"));
    line[line.find("dblock").unwrap_or_default()..].to_owned()
}

/// How many jobs of a queue are in this state.
fn count(host: &Host, queue: &str, state: &str) -> u64 {
    let json = does(host, &format!("dblock queue status {queue} --json"));
    follows(&json, "queue-status");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    json["queues"][0][state].as_u64().expect("a number")
}

#[test]
fn a_mail_goes_to_one_address_whatever_the_payload_is() {
    let host = with_queue("welcome");
    install(&host, "docs/queue.md", "/usr/local/bin/send-mail");
    host.write("/usr/local/bin/sendmail", RECORDS.as_bytes(), 0o755);
    let hostile: [&[u8]; 9] = [
        b"jane@example.org\nBcc: everybody@example.org",
        b"jane@example.org\r\nSubject: another",
        b"jane@example.org, joe@example.org",
        b"jane@example.org joe@example.org",
        b"|/bin/sh",
        b"/etc/passwd",
        b"$(id)@example.org",
        b"nobody",
        b"",
    ];
    for payload in hostile {
        put(&host, "welcome", payload);
    }
    put(&host, "welcome", b"-t@example.org");
    put(&host, "welcome", b"jane+shop@example.org");
    does(
        &host,
        &line_of("docs/queue.md", "--bury-on 65,67 -- /usr").replace("-j 4", "-j 1"),
    );
    assert_eq!(
        host.calls(),
        [
            "sendmail: 4",
            "<-f>",
            "<shop@example.com>",
            "<-->",
            "<-t@example.org>",
            "sendmail: 4",
            "<-f>",
            "<shop@example.com>",
            "<-->",
            "<jane+shop@example.org>"
        ]
    );
    let mails = fs::read_to_string(host.path("/run/read")).unwrap();
    assert_eq!(mails.matches("To: ").count(), 2, "{mails}");
    assert_eq!(mails.matches("\nSubject: ").count(), 2, "{mails}");
    assert_eq!(count(&host, "welcome", "dead"), hostile.len() as u64);
}

#[test]
fn a_web_hook_sends_no_file_and_calls_nothing_but_https() {
    let host = with_queue("hooks");
    install(&host, "docs/queue.md", "/usr/local/bin/call-hook");
    let stub = format!("{RECORDS}printf 200\n");
    host.write("/usr/local/bin/curl", stub.as_bytes(), 0o755);
    let hostile: [&[u8]; 7] = [
        b"file:///etc/passwd\nbody",
        b"-K/etc/passwd\nbody",
        b"--config\nbody",
        b"http://169.254.169.254/latest\nbody",
        b"https://hooks.example.com/ --output /tmp/x\nbody",
        b"https://hooks.example.com/\tx\nbody",
        b"\nbody",
    ];
    for payload in hostile {
        put(&host, "hooks", payload);
    }
    put(
        &host,
        "hooks",
        b"https://hooks.example.com/[1-9]\n@/etc/passwd\nand \"more\" \0 bytes",
    );
    does(
        &host,
        &line_of("docs/queue.md", "--bury-on 4 ").replace("-j 20", "-j 1"),
    );
    assert_eq!(count(&host, "hooks", "dead"), hostile.len() as u64);
    let calls = host.calls();
    let called: Vec<&String> = calls
        .iter()
        .filter(|line| line.starts_with("curl: "))
        .collect();
    assert_eq!(called.len(), 1, "{calls:?}");
    assert!(
        !calls.iter().any(|word| word.contains("passwd")),
        "no part of the body is an argument: {calls:?}"
    );
    assert_eq!(
        calls[calls.len() - 4..],
        [
            "<--data-binary>",
            "<@->",
            "<-->",
            "<https://hooks.example.com/[1-9]>"
        ]
    );
    for word in ["<--globoff>", "<=https>"] {
        assert!(calls.iter().any(|call| call == word), "{word}: {calls:?}");
    }
    let body = fs::read(host.path("/run/read")).unwrap();
    assert_eq!(body, b"@/etc/passwd\nand \"more\" \0 bytes");
}

#[test]
fn a_feed_is_fetched_from_https_alone() {
    needs("curl", "curl");
    let host = with_queue("feeds");
    // The program itself: what it takes for an option is its own affair.
    fs::remove_file(host.path("/usr/local/bin/curl")).unwrap();
    for payload in [
        "file:///etc/passwd",
        "-Kfile",
        "--url=file:///etc/passwd",
        "http://127.0.0.1:3306/",
        "127.0.0.1:3306",
    ] {
        put(&host, "feeds", payload.as_bytes());
    }
    // A file of options that would be read, if it were one.
    host.write(
        &format!("{HOME}/file"),
        b"url = file:///etc/passwd\nproto = =file\n",
        0o644,
    );
    does(
        &host,
        &line_of("docs/queue.md", "--output /srv/app/feed.xml"),
    );
    assert!(!host.path("/srv/app/feed.xml").exists());
    assert_eq!(count(&host, "feeds", "delayed"), 5, "each has failed");
    let json = does(&host, "dblock queue list feeds -n 0 --json");
    assert_eq!(json.matches("\"exit 1\"").count(), 4, "{json}");
}

#[test]
fn a_payload_is_no_option_of_the_program() {
    let host = with_queue("import");
    does(&host, "dblock queue create thumbs --claim blocks");
    for program in ["import", "make-thumbs"] {
        host.write(
            &format!("/usr/local/bin/{program}"),
            RECORDS.as_bytes(),
            0o755,
        );
    }
    put(&host, "import", b"--help");
    does(&host, &line_of("docs/queue.md", "-- /usr/local/bin/import"));
    put(&host, "thumbs", b"--delete");
    does(
        &host,
        &line_of("docs/queue.md", "/usr/local/bin/make-thumbs"),
    );
    assert_eq!(
        host.calls(),
        [
            "import: 2",
            "<-->",
            "<--help>",
            "make-thumbs: 2",
            "<-->",
            "<--delete>"
        ]
    );
}

#[test]
fn a_name_of_a_file_is_put_as_it_is() {
    let host = with_queue("import");
    install(&host, "docs/queue.md", "/usr/local/bin/put-imports");
    let odd = ["-n", "a\nb", "$(id)", "'; rm -rf x", "#", "\u{1b}[31m"];
    for name in odd {
        host.write(&format!("/srv/in/{name}"), b"", 0o644);
    }
    host.write("/usr/local/bin/import", RECORDS.as_bytes(), 0o755);
    for _ in 0..2 {
        does(&host, "put-imports");
    }
    assert_eq!(count(&host, "import", "due"), odd.len() as u64);
    does(
        &host,
        &line_of("docs/queue.md", "-- /usr/local/bin/import").replace("-j 4", "-j 1"),
    );
    let calls = host.calls().join("\n");
    for name in odd {
        assert!(
            calls.contains(&format!("<-->\n</srv/in/{name}>")),
            "{name}: {calls}"
        );
    }
}

#[test]
fn a_payload_and_what_a_command_prints_are_no_sql() {
    let host = with_queue("payments");
    let mut admin = host.server.admin();
    admin.query_drop("USE app").unwrap();
    for (page, has) in [
        ("docs/queue.md", "TABLE payments"),
        ("docs/limits.md", "TABLE job"),
    ] {
        let blocks = Page::read(page).blocks();
        let block = blocks
            .iter()
            .find(|block| block.text.contains(has))
            .unwrap();
        for statement in block.text.split_terminator(";\n") {
            admin.query_drop(statement).unwrap();
        }
    }
    let hostile = "x'); DROP TABLE payments; -- \\' \"\n é";
    install(&host, "docs/queue.md", "/usr/local/bin/book-payment");
    put(&host, "payments", hostile.as_bytes());
    does(
        &host,
        &line_of("docs/queue.md", "-- /usr/local/bin/book-payment"),
    );
    let booked: Vec<String> = admin.query("SELECT customer FROM payments").unwrap();
    assert_eq!(booked, [hostile]);

    let hostile = "42' FROM DUAL; DROP TABLE report; -- \\' é";
    install(&host, "docs/limits.md", "/usr/local/bin/guarded-report");
    let figures = format!("#!/bin/sh\ncat <<'END'\n{hostile}\nEND\n");
    host.write("/usr/local/bin/figures", figures.as_bytes(), 0o755);
    does(
        &host,
        &line_of("docs/limits.md", "/usr/local/bin/guarded-report").replace("# /usr", "/usr"),
    );
    let written: Vec<String> = admin.query("SELECT figures FROM report").unwrap();
    assert_eq!(written, [hostile]);
}

#[test]
fn the_quick_start_keeps_what_is_in_the_option_file_and_lets_nobody_else_read_it() {
    let blocks = Page::read("README.md").blocks();
    let mut writes = blocks
        .iter()
        .filter(|block| block.text.contains("~/.my.cnf"));
    let block = writes.next().expect("the quick start");
    let host = Host::new(Kind::MariaDb);
    let path = format!("{HOME}/.my.cnf");
    let file = host.path(&path);
    let before = "[mysql]\nprompt = mine\n[client]\nuser = somebody";
    for before in [None, Some(before)] {
        fs::remove_file(&file).unwrap_or_default();
        if let Some(before) = before {
            host.write(&path, before.as_bytes(), 0o644);
        }
        does(&host, &format!("umask 0\n{}", block.text));
        let after = fs::read_to_string(&file).unwrap();
        assert!(after.starts_with(before.unwrap_or_default()), "{after}");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let settings = does(&host, "dblock config --name x -- true");
        for (setting, value) in [("host", "db.example.com"), ("user", "dblock")] {
            let line = settings.lines().find(|line| line.starts_with(setting));
            assert!(line.is_some_and(|line| line.contains(value)), "{settings}");
        }
        does(&host, "dblock run --name x -- true");
    }
}

#[test]
fn nobody_else_can_read_the_option_file_of_the_daemon() {
    let blocks = Page::read("docs/cron.md").blocks();
    let mut makes = blocks
        .iter()
        .filter(|block| block.text.contains("touch /etc/dblock.cnf"));
    let block = makes.next().expect("the daemon's option file");
    let host = Host::new(Kind::MariaDb);
    let file = host.path("/etc/dblock.cnf");
    for before in [None, Some("[dblock]\n")] {
        fs::remove_file(&file).unwrap_or_default();
        if let Some(before) = before {
            host.write("/etc/dblock.cnf", before.as_bytes(), 0o644);
        }
        does(&host, &format!("umask 0\n{}", block.text));
        let after = fs::read_to_string(&file).unwrap();
        assert_eq!(after, before.unwrap_or_default());
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[test]
fn no_unit_has_its_password_where_every_user_can_read_it() {
    let unit =
        fs::read_to_string(Path::new(ROOT).join("docs/examples/dblock-cron.service")).unwrap();
    let blocks = Page::all()
        .iter()
        .flat_map(Page::blocks)
        .collect::<Vec<_>>();
    let units = blocks
        .iter()
        .map(|block| &block.text)
        .filter(|text| text.contains("[Service]"));
    let units: Vec<&String> = units.chain([&unit]).collect();
    assert!(units.len() > 3, "the units of the pages are there");
    for unit in units {
        // The environment of a unit, and what is in /etc/default.
        let mut lines = unit.lines().filter(|line| !line.starts_with('#'));
        assert!(!lines.any(|line| line.starts_with("Environment")), "{unit}");
    }
    let file = "--defaults-file /etc/dblock.cnf ";
    assert!(
        unit.contains(file) && unit.contains("ConditionPathExists=/etc/dblock.cnf\n"),
        "{unit}"
    );
}
