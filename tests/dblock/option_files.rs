//! MySQL option files: read as the servers' own programs read them, and what dblock makes of what stands in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{User, geteuid, mkfifo};
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::schema::follows;
use crate::harness::{
    Dblock, Kind, Output, PASSWORD, Running, SOON, Server, both_servers, copy_program,
    my_print_defaults, send, slack, unique, works,
};

const USAGE: i32 = 64;
const UNREACHABLE: i32 = 69;
const CONFIGURATION: i32 = 78;

/// A scratch folder with these files, which only their owner can read.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("in the folder")).unwrap();
        fs::write(
            &path,
            text.replace("FOLDER", &folder.path().display().to_string()),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    folder
}

/// A folder with one file, `my.cnf`, and that file.
fn file(text: &str) -> (TempDir, PathBuf) {
    let folder = folder(&[("my.cnf", text)]);
    let path = folder.path().join("my.cnf");
    (folder, path)
}

/// `dblock`, which uses TLS as it does without a word from anybody.
fn bare() -> Dblock {
    Dblock::bare().env_remove("DBLOCK_SSL_MODE")
}

/// `dblock config --json`
fn config() -> Dblock {
    bare().args(["config", "--json"])
}

/// `dblock config --json` with only this file.
fn config_of(path: &Path) -> Dblock {
    config().arg("--defaults-file").arg(path)
}

/// The value of a setting and where it comes from, as dblock tells it, whether or not all else is well.
#[track_caller]
fn setting(dblock: Dblock, option: &str) -> (Option<String>, String) {
    setting_in(&dblock.output(), option)
}

/// The same in what it has printed.
#[track_caller]
fn setting_in(output: &Output, option: &str) -> (Option<String>, String) {
    let told = output.json();
    let settings = told["settings"].as_array().expect("settings");
    let setting = settings.iter().find(|setting| setting["setting"] == option);
    let setting = setting.unwrap_or_else(|| panic!("no {option}: {output:#?}"));
    let text = |what: &str| setting[what].as_str().map(str::to_owned);
    (text("value"), text("from").expect("a place"))
}

/// The value of a setting.
#[track_caller]
fn value(dblock: Dblock, option: &str) -> Option<String> {
    setting(dblock, option).0
}

/// The value that a server's own program finds for an option in `[client]`, with control characters as dblock shows them;
/// `Err` when it finds something wrong with the file.
fn found_by(kind: Kind, args: &[&str], option: &str) -> Result<Option<String>, String> {
    let output = my_print_defaults(kind)
        .args(args)
        .args(["client", "client-server", "client-mariadb"])
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut found = None;
    // A value may have line breaks, so an option begins where a line begins with its name.
    let mut rest = text.as_str();
    while let Some(start) = rest.strip_prefix("--") {
        let end = start.find("\n--").map_or(start.len(), |end| end + 1);
        let (entry, after) = start.split_at(end);
        rest = after;
        let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
        // MariaDB's clients take names in capitals as well; to MySQL's they are an error.
        if name.eq_ignore_ascii_case(option) {
            found = Some(value.strip_suffix('\n').unwrap_or(value).to_owned());
        }
    }
    // As a variable that is set to nothing.
    Ok(found
        .filter(|value| !value.is_empty())
        .map(|value| shown(&value)))
}

/// Whom dblock logs in as where nothing says it.
fn os_user() -> String {
    let user = User::from_uid(geteuid()).unwrap();
    user.expect("the tests' user has a name").name
}

/// Control characters made visible, as dblock does.
fn shown(value: &str) -> String {
    let mut shown = String::new();
    for character in value.chars() {
        match character {
            '\n' => shown.push(' '),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown
}

/// Both servers' programs and dblock find the same in this file.
#[track_caller]
fn all_find_the_same(text: &str) {
    let (_folder, path) = file(text);
    let only = format!("--defaults-file={}", path.display());
    let ours = config_of(&path).output();
    for kind in [Kind::MariaDb, Kind::MySql] {
        match found_by(kind, &[&only], "user") {
            Ok(theirs) => {
                let (ours, _) = setting_in(&ours, "user");
                let theirs = theirs.or_else(|| Some(os_user()));
                assert_eq!(ours, theirs, "{kind:?}: {text}");
            }
            Err(theirs) => {
                assert_eq!(
                    ours.code,
                    Some(CONFIGURATION),
                    "{kind:?} says {theirs} of {text}"
                );
                ours.expect_code(CONFIGURATION)
                    .expect_one_line(&path.display().to_string());
            }
        }
    }
}

#[test]
fn a_value_means_what_it_means_to_the_mysql_client() {
    for spelling in [
        "joe",
        "  joe  ",
        "\"joe\"",
        "'joe'",
        "\"jo#e\" # comment",
        "'jo#e'",
        "jo#e",
        "jo # e",
        "\"jo\"e",
        "\"joe",
        "joe\"",
        "'jo\"e'",
        "\"jo'e\"",
        "jo\\te",
        "jo\\ne",
        "jo\\re",
        "jo\\be",
        "jo\\se",
        "jo\\\\e",
        "jo\\qe",
        "joe\\",
        "\"joe\\\"",
        "\"jo\\\"e\"",
        "'jo\\'e' # c",
        "jo;e",
        "jo ; e",
        "\"  joe  \"",
        "",
        "\"\"",
        "''",
        "=joe",
        "jo=e",
        "jo e",
        "\\#joe",
        "\\\"joe\\\"",
        "\"#\" \"#\" # x",
        "jo\\#e",
        "'#'x",
        "é",
        "\"a\\\\\" # \"b\"",
        "\t joe\t",
        "a\\\"b#c\"d",
    ] {
        all_find_the_same(&format!("[client]\nuser={spelling}\n"));
        all_find_the_same(&format!("[client]\n  user  =  {spelling}  \r\n"));
    }
}

#[test]
fn a_line_means_what_it_means_to_the_mysql_client() {
    for text in [
        "",
        "\n\n",
        "user=joe\n[client]\n",
        "# user=joe\n; user=jim\n[client]\nuser=jack\n#user=x\n ;user=y\n",
        "[client]\nuser=joe\nuser=jim\n",
        "[client]\nuser=joe\n[mysqld]\nuser=jim\n[client]\n",
        "[client] # comment\nuser=joe\n",
        "[client]user=jim\nuser=joe\n",
        "[ client]\nuser=joe\n",
        "[client ]\nuser=joe\n",
        "[Client]\nuser=joe\n",
        "[client\nuser=joe\n",
        "  [client]\n  user=joe",
        "[client-server]\nuser=joe\n[client]\nuser=jim\n",
        "[client]\nuser=joe\n[client-mariadb]\nuser=jim\n[client5]\nuser=x\n",
        "[client]\nloose_nonsense\nuser=joe\nssl\n",
        "[client]\n!nonsense x\nuser=joe\n",
        "[client]\n!include\nuser=joe\n",
        "[client]\r\nuser=joe\r\n",
        "\u{feff}[client]\nuser=joe\n",
        "[client]\nUSER=joe\n",
    ] {
        all_find_the_same(text);
    }
}

/// Lines of pieces that mean something somewhere, in any order.
#[test]
fn a_random_file_means_what_it_means_to_the_mysql_client() {
    let pieces = [
        "[client]",
        "[client-server]",
        "[other]",
        "[",
        "]",
        "user",
        "user=",
        "user = ",
        "=",
        "\"",
        "'",
        "#",
        ";",
        "\\",
        "\\\\",
        "\\\"",
        "\\n",
        "\\s",
        " ",
        "\t",
        "a",
        "bc",
        "_",
        "-",
        "!",
        "é",
        "\r",
    ];
    let cases =
        std::env::var("DBLOCK_RANDOM_FILES").map_or(60, |cases| cases.parse().expect("a number"));
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..cases {
        let mut text = "[client]\n".to_owned();
        for _ in 0..random.usize(1..6) {
            if random.bool() {
                text.push_str("user=");
            }
            for _ in 0..random.usize(0..8) {
                text.push_str(pieces[random.usize(..pieces.len())]);
            }
            text.push('\n');
        }
        // Their reader makes an option without a name of these, or is confused by one quote alone. And it is the client
        // that says that an option lacks its value.
        let confuses = |line: &str| match line.split_once('=') {
            Some((option, value)) => {
                let value = value.trim();
                option.trim().is_empty() || matches!(value.split('#').next(), Some("\"" | "'"))
            }
            None => line.trim_start().starts_with("user"),
        };
        if !text.lines().any(confuses) {
            all_find_the_same(&text);
        }
    }
}

#[test]
fn included_files_are_read_where_they_are_included() {
    let folder = folder(&[
        (
            "my.cnf",
            "[client]\nuser=first\n!include FOLDER/one.cnf # comment\n! includedir FOLDER/many\nhost=h\n",
        ),
        ("one.cnf", "[client]\nuser=one\n[other]\nuser=none\n"),
        ("many/20.cnf", "[client]\nuser=twenty\n"),
        ("many/10.cnf", "[client]\nuser=ten\n"),
        ("many/30.txt", "[client]\nuser=thirty\n"),
        ("many/.hidden.cnf", "[client]\nuser=hidden\n"),
        ("many/a.cnf/x.cnf", "[client]\nuser=deep\n"),
    ]);
    let path = folder.path().join("my.cnf");
    let only = format!("--defaults-file={}", path.display());
    for kind in [Kind::MariaDb, Kind::MySql] {
        assert_eq!(
            found_by(kind, &[&only], "user"),
            Ok(Some("twenty".to_owned())),
            "{kind:?}"
        );
    }
    let place = folder.path().join("many/20.cnf");
    let expected = (Some("twenty".to_owned()), format!("{}:2", place.display()));
    assert_eq!(setting(config_of(&path), "user"), expected);
    // The group is that of before.
    assert_eq!(value(config_of(&path), "host").as_deref(), Some("h"));
}

#[test]
fn the_files_are_those_of_the_mysql_client_in_its_order() {
    let say = |name: &str| format!("[client]\nuser={name}\n");
    let folder = folder(&[
        ("etc/my.cnf", &say("global")),
        ("etc/mysql/my.cnf", &say("distribution")),
        ("mysql-home/my.cnf", &say("mysql-home")),
        ("mariadb-home/my.cnf", &say("mariadb-home")),
        ("home/.my.cnf", &say("home")),
        ("extra.cnf", &say("extra")),
        ("only.cnf", &say("only")),
    ]);
    let at = |name: &str| folder.path().join(name);
    let named =
        |option: &str, name: &str| format!("--defaults-{option}file={}", at(name).display());
    // Each file beats those before it, so they are taken away one by one.
    let inside = r#"mount --bind "$0/etc" /etc && exec "$@""#;
    let found = |program: &[String], variables: &[(&str, &str)]| {
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "sh", "-c", inside])
            .arg(folder.path())
            .args(program);
        for name in ["HOME", "MYSQL_HOME", "MARIADB_HOME"] {
            command.env_remove(name);
        }
        for (name, value) in variables {
            command.env(name, at(value));
        }
        // Whoever tests may have a server of their own.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("DBLOCK_") {
                command.env_remove(name);
            }
        }
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let ours = |args: &[String], variables: &[(&str, &str)]| {
        let program = [env!("CARGO_BIN_EXE_dblock"), "config", "--json"].map(str::to_owned);
        let told = found(&[&program[..], args].concat(), variables);
        follows(&told, "config");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let settings = told["settings"].as_array().expect("settings").clone();
        // Without a host the rest is told all the same.
        let user = settings.iter().find(|setting| setting["setting"] == "user");
        user.and_then(|user| user["value"].as_str())
            .map(str::to_owned)
    };
    let theirs = |args: &[String], variables: &[(&str, &str)]| {
        let program = [
            vec!["my_print_defaults".to_owned()],
            args.to_vec(),
            vec!["client".to_owned()],
        ]
        .concat();
        let told = found(&program, variables);
        told.lines()
            .filter_map(|line| line.strip_prefix("--user="))
            .next_back()
            .map(str::to_owned)
    };
    let homes = [
        ("HOME", "home"),
        ("MYSQL_HOME", "mysql-home"),
        ("MARIADB_HOME", "mariadb-home"),
    ];
    let none: &[(&str, &str)] = &[];
    let cases = [
        (vec![], &homes[..], Some("home")),
        (
            vec![named("extra-", "extra.cnf")],
            &homes[1..],
            Some("extra"),
        ),
        (vec![], &homes[1..], Some("mariadb-home")),
        (vec![], &homes[1..2], Some("mysql-home")),
        (vec![], none, Some("distribution")),
        (vec![named("", "only.cnf")], &homes, Some("only")),
        (
            vec![named("", "only.cnf"), named("extra-", "extra.cnf")],
            &homes,
            Some("only"),
        ),
        (vec!["--no-defaults".to_owned()], &homes, None),
    ];
    for (args, variables, expected) in cases {
        // That /etc knows no users, so there is no default.
        assert_eq!(
            theirs(&args, variables).as_deref(),
            expected,
            "{args:?} {variables:?}"
        );
        let host = ["--host".to_owned(), "h".to_owned()];
        let ours = ours(&[&args[..], &host].concat(), variables);
        assert_eq!(ours.as_deref(), expected, "{args:?} {variables:?}");
    }
    fs::remove_file(at("etc/mysql/my.cnf")).unwrap();
    assert_eq!(
        ours(&["--host".to_owned(), "h".to_owned()], &[]).as_deref(),
        Some("global")
    );
}

#[test]
fn a_suffix_names_more_groups() {
    let text = "[client]\nuser=plain\n[client_night]\nuser=night\n[dblock]\nttl=10\n[dblock_night]\nttl=20\n";
    let (_folder, path) = file(text);
    for dblock in [
        config_of(&path).args(["--defaults-group-suffix", "_night"]),
        config_of(&path).env("MYSQL_GROUP_SUFFIX", "_Night"),
    ] {
        assert_eq!(value(dblock, "user").as_deref(), Some("night"));
    }
    let dblock = config_of(&path).args(["--defaults-group-suffix=_night", "--host=h"]);
    assert_eq!(value(dblock, "ttl").as_deref(), Some("20"));
    assert_eq!(value(config_of(&path), "user").as_deref(), Some("plain"));
    // MySQL's program, unlike its clients, does not take both options.
    let only = format!("--defaults-file={}", path.display());
    let theirs = found_by(
        Kind::MariaDb,
        &[&only, "--defaults-group-suffix=_night"],
        "user",
    );
    assert_eq!(theirs, Ok(Some("night".to_owned())));
}

#[test]
fn a_flag_beats_a_variable_beats_our_group_beats_that_of_all_clients() {
    let (_folder, path) = file(
        "[dblock]\nuser=own\n[client]\nuser=client\nport=3\nssl-mode=REQUIRED\n[dblock]\nport=2\n",
    );
    let place = |line: u32| format!("{}:{line}", path.display());
    let with = |value: &str, from: &str| (Some(value.to_owned()), from.to_owned());
    let dblock = || config_of(&path);
    assert_eq!(
        setting(
            dblock().args(["--user", "flag"]).env("DBLOCK_USER", "env"),
            "user"
        ),
        with("flag", "--user")
    );
    assert_eq!(
        setting(dblock().env("DBLOCK_USER", "env"), "user"),
        with("env", "DBLOCK_USER")
    );
    assert_eq!(
        setting(dblock().env("DBLOCK_URL", "mysql://url@"), "user"),
        with("url", "DBLOCK_URL")
    );
    assert_eq!(setting(dblock(), "user"), with("own", &place(2)));
    assert_eq!(setting(dblock(), "port"), with("2", &place(8)));
    // The port in force is not one that is given for another host.
    for (url, arguments, port, from) in [
        ("mysql://h", &[][..], "3306", "default"),
        ("mysql://a:7,b:7", &[], "7", "DBLOCK_URL"),
        ("mysql://a:7,b", &[], "7,3306", "DBLOCK_URL"),
        ("mysql://h:7", &["--port", "9"], "9", "--port"),
    ] {
        let dblock = dblock().env("DBLOCK_URL", url).args(arguments);
        assert_eq!(setting(dblock, "port"), with(port, from), "{url}");
    }
    assert_eq!(
        setting(dblock().args(["--host", "h"]), "ssl-mode"),
        with("REQUIRED", &place(6))
    );
    assert_eq!(
        setting(dblock().args(["--host", "h"]), "ttl"),
        with("5m", "default")
    );
}

#[test]
fn every_long_option_can_stand_in_our_group() {
    let text = "[dblock]\nname=x\nwait = 30s\nttl = 20s\non_lock_lost = terminate\nmax-concurrency=3\ntimeout=5m\nkill-after=2\n\
        conflict-exit-code=0\nhold-at-least=1\nif-unreachable=run\nallow-unfit-server\nscrub-env=ON\nskip-quiet\n\
        host=db\nport=7\nuser=u\nssl-mode=verify_ca\nssl-ca=/ca\nssl-cert=/cert\nssl-key=/key\nconnect-timeout=3\nprotocol=TCP\n\
        password-file=/pw\nloose-wait=31s\nserver-public-key-path=/pub\njson\n";
    let (_folder, path) = file(text);
    let dblock = || bare().args(["config", "--defaults-file"]).arg(&path);
    for (option, expected) in [
        ("name", "x"),
        ("wait", "31s"),
        ("ttl", "20s"),
        ("on-lock-lost", "terminate"),
        ("max-concurrency", "3"),
        ("timeout", "5m"),
        ("kill-after", "2"),
        ("conflict-exit-code", "0"),
        ("hold-at-least", "1"),
        ("if-unreachable", "run"),
        ("allow-unfit-server", "on"),
        ("scrub-env", "on"),
        ("servers", "db:7"),
        ("user", "u"),
        ("ssl-mode", "verify_ca"),
        ("ssl-ca", "/ca"),
        ("ssl-cert", "/cert"),
        ("ssl-key", "/key"),
        ("connect-timeout", "3"),
        ("protocol", "TCP"),
        ("password-file", "/pw"),
        ("server-public-key-path", "/pub"),
    ] {
        assert_eq!(
            value(dblock(), option).as_deref(),
            Some(expected),
            "{option}"
        );
    }
    let (_folder, path) =
        file("[dblock]\nurl='mysql://u:p%23w@a,b:7/?ssl-mode=disabled'\nslots=k1,k2\nverbose=2\n");
    for (option, expected) in [
        ("servers", "a:3306, b:7"),
        ("slots", "k1,k2"),
        ("verbose", "2"),
        ("password", "***"),
        ("ssl-mode", "disabled"),
    ] {
        assert_eq!(
            value(config_of(&path), option).as_deref(),
            Some(expected),
            "{option}"
        );
    }
}

/// The long options of all commands, each with what its value is called.
fn options_of_all_commands() -> BTreeMap<String, Option<String>> {
    let all = "run status kill check config init acquire renew release history audit output metrics web cron.run cron.check \
        cron.list cron.pause cron.resume cron.trigger queue.create queue.put queue.work queue.status queue.list queue.show queue.retry queue.cancel queue.pause \
        queue.resume queue.delete";
    let mut options = BTreeMap::new();
    for command in all.split(' ') {
        let help = bare().args(command.split('.')).arg("--help").output();
        for line in help.expect_code(0).stdout.lines().map(str::trim_start) {
            let option = line
                .strip_prefix("--")
                .or_else(|| line.get(4..)?.strip_prefix("--"));
            if let Some(option) = option.filter(|_| line.starts_with('-')) {
                let mut words = option.split(' ').filter(|word| !word.is_empty());
                let name = words.next().expect("its name").trim_end_matches("...");
                let name = name.split('[').next().unwrap_or(name);
                let value = words.next().and_then(|word| word.strip_prefix('<'));
                let value = value.map(|word| word.trim_end_matches(['.', '>']).to_owned());
                options.insert(name.to_owned(), value);
            }
        }
    }
    options
}

/// Each command that reads option files, and the arguments of one that does something there, or would with a server.
const COMMANDS: [(&str, &str); 29] = [
    ("run", "-- true"),
    ("status", ""),
    ("kill", "lock"),
    ("check", ""),
    ("config", ""),
    ("init", ""),
    ("acquire", ""),
    ("renew", "lock.0.1.0123456789abcdef0123456789abcdef"),
    ("release", "lock.0.1.0123456789abcdef0123456789abcdef"),
    ("history", ""),
    ("audit", ""),
    ("output", "lock"),
    ("metrics", ""),
    ("cron run", "FOLDER/crontab"),
    ("cron list", ""),
    ("cron pause", "job"),
    ("cron resume", "job"),
    ("cron trigger", "job"),
    ("queue create", "q"),
    ("queue put", "q FOLDER/payload"),
    ("queue work", "q -- true"),
    ("queue status", "q"),
    ("queue list", "q"),
    ("queue show", "q 1"),
    ("queue retry", "q 1"),
    ("queue cancel", "q 1"),
    ("queue pause", "q"),
    ("queue resume", "q"),
    ("queue delete", "q"),
];

/// What is taken for a public key, as far as dblock looks at it: it names RSA.
const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\nBgkqhkiG9w0BAQE=\n-----END PUBLIC KEY-----\n";

#[test]
fn each_command_takes_the_options_of_all_others_in_our_group() {
    let options = options_of_all_commands();
    for known in ["grace", "jobs", "max-attempts", "payload", "owner", "next"] {
        assert!(options.contains_key(known), "{known}: {options:?}");
    }
    let mut text = "[dblock]\n".to_owned();
    for (option, value) in &options {
        // Some say which files are read, two are no setting, and of those that exclude each other the other one is there.
        if option.contains("defaults")
            || ["help", "version", "slots", "once-per"].contains(&&**option)
        {
            continue;
        }
        let value = match (option.as_str(), value.as_deref()) {
            ("url", _) => "mysql://user@host",
            ("once-at", _) => "0 3 * * *",
            ("time-zone", _) => "UTC",
            ("at", _) => "2030-01-01",
            ("after", _) => "1-0123456789abcdef0123456789abcdef",
            ("keep", _) => "1d,100",
            ("on-failure" | "on-end", _) => "true",
            ("report", _) => "FOLDER/report",
            ("server-public-key-path", _) => "FOLDER/key",
            ("kill-after", _) | (_, Some("N" | "CODE" | "PORT")) => "7",
            (_, None) => "1",
            (_, Some("DURATION" | "DURATION|TIME")) => "1m",
            (_, Some("FILE")) => "FOLDER/password",
            (_, Some(words)) => words.split('|').next().expect("a word"),
        };
        text.extend([option, " = ", value, "\n"]);
    }
    let folder = folder(&[
        ("my.cnf", &text),
        ("typo.cnf", &format!("{text}nonsense = 1\n")),
        ("password", "x\n"),
        ("key", PUBLIC_KEY),
        ("payload", "x\n"),
        ("crontab", "CRON_TZ=UTC\n#: job\n0 0 1 1 * true\n"),
    ]);
    let begin = |(command, arguments): &(&str, &str), file: &str| {
        let place = folder.path().display().to_string();
        let arguments = arguments.replace("FOLDER", &place);
        let dblock = bare().args(command.split(' '));
        let dblock = dblock.args(["--defaults-file", &format!("{place}/{file}")]);
        let nobody = "--host 127.0.0.1 --port 1 --connect-timeout 1";
        let dblock = dblock.args(nobody.split(' '));
        dblock.args(arguments.split_whitespace()).spawn()
    };
    let all = COMMANDS.iter().map(|command| begin(command, "my.cnf"));
    let all: Vec<Running> = all.collect();
    for (command, mut dblock) in COMMANDS.iter().zip(all) {
        let output = dblock.wait_within(SOON);
        // config and init print, which takes no server.
        let expected = match command.0 {
            "config" | "init" => 0,
            _ => UNREACHABLE,
        };
        assert_eq!(output.code, Some(expected), "{command:?}: {output:#?}");
    }
    for command in &COMMANDS {
        let output = begin(command, "typo.cnf").wait();
        output.expect_code(CONFIGURATION).expect_said(["nonsense"]);
    }
}

#[test]
fn json_is_as_its_schema_says_whatever_is_wrong() {
    let (_folder, path) = file("[client]\nhost=h\npassword=secret\n[dblock]\nttl=9\n");
    config_of(&path).output().expect_code(0).json();
    config().arg("--no-defaults").output().json();
    let (_folder, path) = file("[dblock]\nttl=nonsense\n");
    config_of(&path).output().expect_code(CONFIGURATION).json();
}

#[test]
fn an_option_of_another_command_is_read_by_that_one_alone() {
    let (_folder, path) = file("[dblock]\nhost = 192.0.2.1\ngrace = soon\ntimeout = never\n");
    config_of(&path)
        .output()
        .expect_code(CONFIGURATION)
        .expect_said([":4: timeout"]);
    let work = bare().args(["queue", "work", "--defaults-file"]).arg(&path);
    let output = work.args(["q", "--", "true"]).output();
    // Its --timeout is not that of a run.
    output
        .expect_code(CONFIGURATION)
        .expect_one_line(&format!("{}:3: grace: ", path.display()));
    let (_folder, path) = file("[dblock]\nhost = h\nkeep = 1d,100\ngrace = soon\nskip-durable\n");
    config_of(&path).output().expect_code(0);
    let init = bare()
        .args(["init", "--print", "--defaults-file"])
        .arg(&path)
        .output();
    init.expect_code(0).expect_silence();
    assert!(init.stdout.contains("86400"), "{init:#?}");
}

#[test]
fn a_variable_of_cron_run_is_known() {
    let config = || {
        config()
            .arg("--no-defaults")
            .args(["--host", "h"])
            .env("DBLOCK_SENDMAIL", "/opt/sendmail")
    };
    let sendmail = setting(config(), "DBLOCK_SENDMAIL");
    assert_eq!(
        sendmail,
        (Some("/opt/sendmail".to_owned()), "environment".to_owned())
    );
}

#[test]
fn a_typo_in_our_group_is_told_with_what_is_meant() {
    for (wrong, meant) in [
        ("grac = 1m", "grace"),
        ("max_atempts = 3", "max-attempts"),
        ("wiat=3", "wait"),
    ] {
        let (_folder, path) = file(&format!("[dblock]\n{wrong}\n"));
        let output = config_of(&path).output();
        let said = format!("did you mean {meant}?");
        output
            .expect_code(CONFIGURATION)
            .expect_said([":2: ", &said]);
    }
}

#[test]
fn what_is_wrong_in_our_group_is_told_with_file_and_line() {
    for (line, said) in [
        ("nonsense=1", "nonsense"),
        ("nonsense", "nonsense"),
        ("ttl=1", "4s"),
        ("ttl", "needs a value"),
        ("wait=soon", "soon"),
        ("quiet=perhaps", "quiet"),
        ("skip-ttl", "skip-ttl"),
        ("defaults-file=/x", "option file"),
        ("no-defaults", "option file"),
        ("help", "help"),
        ("command=x", "command"),
        ("password", "cannot ask"),
        ("ssl-mode=maybe", "maybe"),
        ("port=0", "port"),
        ("host=a b", "host"),
        ("url=pg://h", "mysql://"),
        ("ssl-cipher=X", "ssl-cipher"),
        ("=x", "="),
        ("max-concurrency=2\nslots=a,b", "slots"),
    ] {
        let (_folder, path) = file(&format!("# first\n[dblock]\nhost=h\n{line}\n"));
        let place = format!("{}:{}", path.display(), 3 + line.lines().count());
        let run = bare()
            .args(["run", "--name", "x", "--defaults-file"])
            .arg(&path);
        for dblock in [run, config_of(&path)] {
            let output = dblock.command(["true"]).output();
            output
                .expect_code(CONFIGURATION)
                .expect_one_line(&place)
                .expect_said([said]);
        }
    }
    // The line may be for a newer dblock.
    let (_folder, path) = file("[dblock]\nhost=h\nloose-nonsense=1\n");
    let output = config_of(&path).output();
    output
        .expect_code(0)
        .expect_one_line(&format!("{}:3", path.display()));
}

#[test]
fn options_of_other_clients_are_passed_over() {
    let text = "[client]\nhost=h\ndefault-character-set=utf8mb4\nno-auto-rehash\nprompt=x\nwait=nonsense\nttl=1\ndatabase=d\nloose-x\n\
        [mysql]\nport=nonsense\n[mysqld]\nssl-crl=/x\n[client-server]\nplugin-dir=/x\n[dblock]\nttl=9\n";
    let (_folder, path) = file(text);
    let output = config_of(&path).output();
    output.expect_code(0).expect_silence();
    assert_eq!(value(config_of(&path), "wait").as_deref(), Some("0"));
    assert_eq!(value(config_of(&path), "ttl").as_deref(), Some("9"));
}

#[test]
fn a_socket_that_only_all_clients_are_given_names_no_server() {
    for group in ["client", "client-server", "client-mariadb"] {
        let (_folder, path) = file(&format!("[{group}]\nsocket=/run/x.sock\n"));
        let output = config_of(&path).output();
        output
            .expect_code(CONFIGURATION)
            .expect_one_line("no server is named");
        output.expect_said([format!("{}:2", path.display())]);
        let local = config_of(&path).args(["--host", "localhost"]);
        assert_eq!(value(local, "servers").as_deref(), Some("/run/x.sock"));
        let other = config_of(&path).args(["--host", "db"]);
        assert_eq!(value(other, "servers").as_deref(), Some("db:3306"));
        let tcp = config_of(&path).args(["--host", "localhost", "--protocol", "tcp"]);
        assert_eq!(value(tcp, "servers").as_deref(), Some("localhost:3306"));
    }
    for text in [
        "[client]\nsocket=/run/x.sock\nhost=localhost\n",
        "[dblock]\nsocket=/run/x.sock\n",
    ] {
        let (_folder, path) = file(text);
        assert_eq!(
            value(config_of(&path), "servers").as_deref(),
            Some("/run/x.sock")
        );
    }
}

#[test]
fn a_protocol_is_kept() {
    let (_folder, path) =
        file("[client]\nhost=localhost\nport=33\nprotocol=TCP\nsocket=/run/x.sock\n");
    assert_eq!(
        value(config_of(&path), "servers").as_deref(),
        Some("localhost:33")
    );
    let (_folder, path) = file("[client]\nhost=db\nprotocol=socket\n");
    config_of(&path)
        .output()
        .expect_code(CONFIGURATION)
        .expect_one_line("localhost");
    let (_folder, path) = file("[client]\nhost=db\nprotocol=memory\n");
    config_of(&path)
        .output()
        .expect_code(CONFIGURATION)
        .expect_one_line("memory");
    let dblock = bare().args(["config", "--no-defaults", "--socket=/s", "--protocol=tcp"]);
    dblock
        .output()
        .expect_code(CONFIGURATION)
        .expect_one_line("no server is named");
}

#[test]
fn mariadbs_switches_of_tls_are_understood_and_nothing_becomes_weaker() {
    for (text, mode) in [
        ("ssl\n", "preferred"),
        ("ssl=0\n", "disabled"),
        ("skip-ssl\n", "disabled"),
        ("disable-ssl\n", "disabled"),
        ("ssl-verify-server-cert\n", "verify-identity"),
        ("ssl-verify-server-cert=OFF\n", "preferred"),
        ("ssl-ca=/etc/passwd\n", "verify-ca"),
        (
            "ssl-ca=/etc/passwd\nssl-verify-server-cert\n",
            "verify-identity",
        ),
        ("ssl-ca=/etc/passwd\nskip-ssl\n", "disabled"),
        ("skip-ssl\nssl-ca=/etc/passwd\n", "verify-ca"),
        ("SSL-VERIFY-SERVER-CERT\n", "verify-identity"),
        ("ssl-mode=VERIFY_CA\nskip-ssl\n", "VERIFY_CA"),
        ("tls-version=TLSv1.2,TLSv1.3\n", "preferred"),
        ("ssl-ca=/etc/passwd\nssl-capath=/cas\n", "verify-ca"),
        ("ssl-fips-mode=OFF\n", "preferred"),
        ("ssl-cipher=\n", "preferred"),
        ("ssl-cipher=X\nskip-ssl\n", "disabled"),
        ("skip-ssl\nssl=\n", "preferred"),
        ("skip-ssl=0\n", "preferred"),
        ("enable-ssl=0\n", "disabled"),
        ("disable-ssl-verify-server-cert=0\n", "verify-identity"),
        (
            "loose-ssl-mode=PREFERRED\nssl-verify-server-cert\n",
            "verify-identity",
        ),
        ("loose_ssl_verify_server_cert\n", "verify-identity"),
        ("tls-sni-servername=x\nssl-session-data=/x\n", "preferred"),
    ] {
        let (_folder, path) = file(&format!("[client]\nhost=h\n{text}"));
        let output = config_of(&path).output();
        output.expect_code(0).expect_silence();
        assert_eq!(
            value(config_of(&path), "ssl-mode").as_deref(),
            Some(mode),
            "{text}"
        );
    }
    for option in [
        "ssl-crl",
        "ssl-crlpath",
        "ssl-cipher",
        "tls-ciphersuites",
        "ssl-capath",
        "ssl-fp",
        "ssl-fplist",
        "ssl-fips-mode",
        "tls-version",
        // Not known to anybody yet, and the beginnings of names, which MariaDB's clients understand.
        "ssl-something",
        "tls-something",
        "ssl-verify",
        "ssl-verify-serv",
    ] {
        let (_folder, path) = file(&format!("[client]\nhost=h\n{option}=x\n"));
        let output = config_of(&path).output();
        output
            .expect_code(CONFIGURATION)
            .expect_one_line(&format!("{}:3: {option}", path.display()));
    }
}

#[test]
fn an_option_file_that_is_none_is_told_at_once() {
    let folder = folder(&[
        ("loop/a.cnf", "[client]\nuser=u\n"),
        ("nul.cnf", "[client]\nuser=a\0b\n"),
    ]);
    let at = |name: &str| folder.path().join(name);
    mkfifo(&at("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
    symlink("cycle", at("cycle")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    let long = format!("[client]\nuser={}\n", "x".repeat(10 * 1024 * 1024));
    fs::write(at("long"), long).unwrap();
    for (name, said) in [
        ("fifo", "regular"),
        ("folder", "regular"),
        ("/dev/zero", "regular"),
        ("/dev/tty", "regular"),
        ("/proc/self/mem", "cannot read"),
        ("cycle", "symbolic links"),
        ("nothing", "no such file"),
        ("loop/a.cnf/b", "no such file"),
        ("long", "larger than 1 MiB"),
        ("nul.cnf", "nul.cnf:2"),
        ("", "no such file"),
    ] {
        let path = if name.is_empty() {
            PathBuf::new()
        } else {
            at(name)
        };
        for option in ["--defaults-file", "--defaults-extra-file"] {
            for command in [&["run", "--name", "x"][..], &["check"], &["config"]] {
                let dblock = bare()
                    .args(command)
                    .arg(option)
                    .arg(&path)
                    .args(["--host", "h"]);
                let dblock = if command[0] == "check" {
                    dblock
                } else {
                    dblock.command(["true"])
                };
                let output = dblock.output();
                output.expect_code(CONFIGURATION).expect_one_line(said);
                assert!(output.took < slack(), "{output:#?}");
            }
            // It is told in which files it was.
            let dblock = bare()
                .arg("config")
                .arg(option)
                .arg(&path)
                .args(["--host", "h"]);
            let output = dblock.output();
            assert!(output.stdout.contains("OPTION FILES"), "{output:#?}");
        }
        // Where it is not asked for it is no other: a weaker file would decide in its place.
        if matches!(name, "fifo" | "folder" | "cycle" | "long") {
            let home = tempfile::tempdir().unwrap();
            symlink(&path, home.path().join(".my.cnf")).unwrap();
            let dblock = bare()
                .args(["run", "--name", "x", "--host", "h"])
                .env("HOME", home.path());
            let output = dblock.command(["true"]).output();
            output.expect_code(CONFIGURATION).expect_one_line(said);
            assert!(output.took < slack(), "{output:#?}");
        }
    }
}

#[test]
fn what_cannot_be_included_is_told() {
    let folder = folder(&[
        (
            "missing.cnf",
            "[client]\nhost=h\n!include FOLDER/nothing\nuser=u\n",
        ),
        (
            "fifo.cnf",
            "[client]\nhost=h\n!include FOLDER/fifo\nuser=u\n",
        ),
        (
            "cycle.cnf",
            "[client]\nhost=h\n!include FOLDER/cycle\nuser=u\n",
        ),
        (
            "itself.cnf",
            "[client]\nhost=h\n!include FOLDER/itself.cnf\nuser=u\n",
        ),
        (
            "twice.cnf",
            "[client]\n!include FOLDER/twice.cnf\n!include FOLDER/twice.cnf\n",
        ),
        (
            "folder.cnf",
            "[client]\nhost=h\n!includedir FOLDER/nothing\n",
        ),
        ("nameless.cnf", "[client]\nhost=h\n!include \n"),
        ("many/a.cnf", "[client]\nhost=h\n!includedir FOLDER/many\n"),
    ]);
    let at = |name: &str| folder.path().join(name);
    mkfifo(&at("fifo"), Mode::from_bits_truncate(0o600)).unwrap();
    symlink("cycle", at("cycle")).unwrap();
    for (name, code, line, said) in [
        ("missing.cnf", 0, 3, "no such file"),
        ("fifo.cnf", CONFIGURATION, 3, "regular"),
        ("cycle.cnf", CONFIGURATION, 3, "symbolic links"),
        ("itself.cnf", 0, 3, "10 deep"),
        ("many/a.cnf", 0, 3, "10 deep"),
        ("folder.cnf", CONFIGURATION, 3, "nothing"),
        ("nameless.cnf", CONFIGURATION, 3, "include"),
    ] {
        let output = config_of(&at(name)).output();
        output
            .expect_code(code)
            .expect_one_line(&format!("{}:{line}", at(name).display()))
            .expect_said([said]);
        assert!(output.took < slack(), "{output:#?}");
        if code == 0 && name != "many/a.cnf" {
            assert_eq!(
                value(config_of(&at(name)), "user").as_deref(),
                Some("u"),
                "what follows is read"
            );
        }
    }
    let dblock = bare()
        .args(["run", "--name", "x", "--defaults-file"])
        .arg(at("twice.cnf"));
    let output = dblock.command(["true"]).output();
    output.expect_code(CONFIGURATION).expect_one_line("500");
    assert!(output.took < slack(), "{output:#?}");
}

#[test]
fn a_file_that_this_user_cannot_read_is_passed_over() {
    let folder = folder(&[("home/.my.cnf", "[client]\nuser=secret\n")]);
    for part in [folder.path(), &folder.path().join("home")] {
        fs::set_permissions(part, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let nobody = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
    ];
    // The built program may lie where only its owner comes.
    let program = folder.path().join("dblock");
    copy_program(env!("CARGO_BIN_EXE_dblock"), &program);
    let run = |args: &[&str]| {
        let mut command = Command::new(nobody[0]);
        command
            .args(&nobody[1..])
            .arg(&program)
            .args(["config", "--json", "--host", "h"])
            .args(args);
        command
            .env("HOME", folder.path().join("home"))
            .output()
            .unwrap()
    };
    let output = run(&[]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && output.stderr.is_empty() && told.contains("ermission denied"),
        "{output:?}"
    );
    let path = folder.path().join("home/.my.cnf");
    let output = run(&["--defaults-file", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(CONFIGURATION), "{output:?}");
}

#[test]
fn a_file_that_every_user_can_write_is_ignored() {
    let home = folder(&[(".my.cnf", "[client]\nuser=intruder\n")]);
    let path = home.path().join(".my.cnf");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let dblock = || config().env("HOME", home.path()).args(["--host", "h"]);
    let output = dblock().output();
    output
        .expect_code(0)
        .expect_one_line(&path.display().to_string())
        .expect_said(["ignored"]);
    assert_eq!(value(dblock(), "user"), Some(os_user()));
    config_of(&path).output().expect_code(CONFIGURATION);
    // That is why there is no server, and told before.
    let dblock = bare().args(["run", "--name", "x"]).env("HOME", home.path());
    let output = dblock.command(["true"]).output();
    output
        .expect_code(CONFIGURATION)
        .expect_said(["every user can write", "no server is named"]);
}

/// What the memory of a process holds.
fn memory_of(pid: i32) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| {
        line.split_whitespace()
            .nth(1)
            .is_some_and(|mode| mode.starts_with("rw"))
    }) {
        let (start, end) = line
            .split_whitespace()
            .next()
            .and_then(|span| span.split_once('-'))
            .unwrap();
        let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        let mut part = vec![0; usize::try_from(end - start).unwrap()];
        if memory.read_exact_at(&mut part, start).is_ok() {
            all.extend(part);
        }
    }
    all
}

both_servers! {
    fn a_server_and_a_password_from_an_option_file(server on mysql) {
        let (port, name) = (server.port, unique("file"));
        for text in [
            format!("[client]\nhost=127.0.0.1\nport={port}\nuser=dblock\npassword={PASSWORD}\n"),
            format!("[client]\npassword=wrong\n[dblock]\nurl=mysql://dblock:{PASSWORD}@127.0.0.1:{port}/\nname={name}\n"),
            format!("[client]\nuser=nobody\n[dblock]\nsocket={}\nuser=dblock\npassword=\"{PASSWORD}\" # ours\n", server.socket.display()),
        ] {
            let (_folder, path) = file(&text);
            works(bare().args(["run", "--name", &name, "--defaults-file"]).arg(&path));
            // The later one of two ways counts.
            let (_folder, path) = file(&format!("[dblock]\npassword-file=/nothing\npassword={PASSWORD}\n{}", text.replace("password=wrong\n", "")));
            works(bare().args(["run", "--name", &name, "--defaults-file"]).arg(&path));
            let (_folder, path) = file(&format!("{text}[dblock]\npassword-file=/nothing\n"));
            let dblock = bare().args(["run", "--name", &name, "--defaults-file"]).arg(&path);
            dblock.command(["true"]).output().expect_code(CONFIGURATION).expect_one_line("/nothing");
        }
    }

    fn a_password_in_a_file_that_others_can_read_is_warned_of_once(server on mariadb) {
        let (_folder, path) = file(&format!(
            "[client]\nhost=127.0.0.1\nport={}\nuser=dblock\npassword=x\npassword={PASSWORD}\n", server.port));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let dblock = bare().args(["run", "--name", &unique("public"), "--defaults-file"]).arg(&path);
        let output = dblock.sh("echo ran").output();
        output.expect_code(0).expect_stdout("ran\n").expect_one_line(&path.display().to_string());
        output.expect_said(["chmod 600"]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        works(bare().args(["run", "--name", &unique("group"), "--defaults-file"]).arg(&path));
    }

    fn only_the_keeper_knows_a_password_that_stands_in_a_file(server on mysql) {
        let knows = |dblock: Dblock| {
            let mut running = dblock.sh("echo started; exec sleep 60").spawn();
            running.wait_line("started", SOON);
            memory_of(running.pid()).windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes())
        };
        assert!(knows(Dblock::run(server, &unique("memory"))), "it is in the environment");
        let account = format!("[client]\nhost=127.0.0.1\nport={}\nuser=dblock\n", server.port);
        let (folder, path) = file(&format!("{account}password={PASSWORD}\n"));
        let password_file = folder.path().join("password");
        fs::write(&password_file, PASSWORD).unwrap();
        fs::set_permissions(&password_file, fs::Permissions::from_mode(0o600)).unwrap();
        let with_file = format!("{account}password-file={}\n", password_file.display()).replace("[client]", "[dblock]");
        let with_url = format!("[dblock]\nurl=mysql://dblock:{PASSWORD}@127.0.0.1:{}/\n", server.port);
        for text in [fs::read_to_string(&path).unwrap(), with_file, with_url] {
            let (_folder, path) = file(&text);
            let dblock = bare().args(["run", "--name", &unique("memory"), "--defaults-file"]).arg(&path);
            assert!(!knows(dblock), "the supervisor knows it from {text}");
        }
    }
}

#[test]
fn a_scrubbed_environment_tells_nothing_of_the_server() {
    let server = Server::shared(Kind::MariaDb);
    let variables = [
        ("DBLOCK_USER", "dblock"),
        ("DBLOCK_SSL_MODE", "disabled"),
        ("DBLOCK_CONNECT_TIMEOUT", "9"),
        ("MYSQL_PWD", "x"),
        ("OTHER", "stays"),
    ];
    let run = |args: &[&str]| {
        let mut dblock = Dblock::run(server, &unique("scrub")).args(args);
        for (name, value) in variables {
            dblock = dblock.env(name, value);
        }
        let output = dblock
            .sh("env | grep -E '^(DBLOCK|MYSQL|OTHER)' | sed 's/=.*//' | sort")
            .output();
        output.expect_code(0);
        output.stdout
    };
    assert_eq!(
        run(&["--scrub-env"]),
        "DBLOCK_CONNECTION_ID\nDBLOCK_NAME\nDBLOCK_SLOT\nOTHER\n"
    );
    assert_eq!(run(&[]).lines().count(), 10);
}

#[test]
fn a_scrubbed_environment_has_no_password_of_postgresql_where_that_is_the_server() {
    let [postgres, mariadb] = [Kind::Postgres, Kind::MariaDb].map(Server::shared);
    let run = |server: &Server, args: &[&str]| {
        let dblock = Dblock::run(server, &unique("scrub")).args(args);
        let dblock = dblock.env("PGPASSWORD", PASSWORD).env("PGUSER", "dblock");
        let output = dblock.sh("echo ${PGPASSWORD+password} ${PGUSER+user} ${DBLOCK_PASSWORD+own}");
        output
            .output()
            .expect_code(0)
            .expect_silence()
            .stdout
            .clone()
    };
    assert_eq!(run(postgres, &[]), "password user own\n");
    assert_eq!(run(postgres, &["--scrub-env"]), "user\n");
    // It means nothing to MySQL, so there the command keeps it.
    assert_eq!(run(mariadb, &["--scrub-env"]), "password user\n");
}

#[test]
fn a_malformed_option_on_the_command_line_is_usage_and_in_a_file_configuration() {
    let (_folder, path) = file("[client]\nhost=h\nport=none\n");
    config_of(&path)
        .output()
        .expect_code(CONFIGURATION)
        .expect_one_line("my.cnf:3: port");
    let dblock = bare().args(["config", "--no-defaults", "--host", "h", "--port", "none"]);
    dblock.output().expect_code(USAGE).expect_one_line("--port");
}

#[test]
fn the_table_shows_value_and_place_and_no_password() {
    let (_folder, path) = file("[client]\nhost=h\npassword='hush hush'\n[dblock]\nwait=5m\n");
    let dblock = bare()
        .args(["config", "--defaults-file"])
        .arg(&path)
        .env("DBLOCK_USER", "me");
    let output = dblock.command(["job", "--with", "args"]).output();
    output.expect_code(0).expect_silence();
    let has = |words: &[&str]| {
        output
            .stdout
            .lines()
            .any(|line| line.split_whitespace().eq(words.iter().copied()))
    };
    let place = |line: u32| format!("{}:{line}", path.display());
    assert!(has(&["SETTING", "VALUE", "FROM"]), "{output:#?}");
    assert!(has(&["wait", "5m", &place(5)]), "{output:#?}");
    assert!(has(&["password", "***", &place(3)]), "{output:#?}");
    assert!(has(&["user", "me", "DBLOCK_USER"]), "{output:#?}");
    assert!(has(&["timeout", "-", "default"]), "{output:#?}");
    assert!(has(&[&path.display().to_string(), "read"]), "{output:#?}");
    assert!(!output.stdout.contains("hush"), "{output:#?}");
    for (variable, secret) in [
        ("DBLOCK_PASSWORD", "pa5s"),
        ("MYSQL_PWD", "pa5s"),
        ("DBLOCK_URL", "mysql://u:pa5s@h/"),
    ] {
        for args in [
            &["config", "--no-defaults", "--host=h"][..],
            &["config", "--json", "--no-defaults", "--host=h"],
        ] {
            let output = bare().args(args).env(variable, secret).output();
            output.expect_code(0).expect_silence();
            assert!(
                !output.stdout.contains("pa5s") && output.stdout.contains("***"),
                "{output:#?}"
            );
        }
    }
}

#[test]
fn a_ca_beats_the_mode_of_a_weaker_source() {
    let mode = |text: &str, args: &[&str]| {
        let (_folder, path) = file(&format!("[client]\nhost=h\n{text}"));
        value(config_of(&path).args(args), "ssl-mode").unwrap()
    };
    for weak in ["skip-ssl", "ssl-mode=DISABLED", "ssl-mode=REQUIRED"] {
        assert_eq!(mode(weak, &["--ssl-ca=/ca"]), "verify-ca", "{weak}");
        let both = mode(weak, &["--ssl-ca=/ca", "--ssl-mode=required"]);
        assert_eq!(both, "required", "what one source says of both counts");
    }
    for strong in ["ssl-mode=VERIFY_IDENTITY", "ssl-verify-server-cert"] {
        let mode = mode(strong, &["--ssl-ca=/ca"])
            .to_ascii_lowercase()
            .replace('_', "-");
        assert_eq!(mode, "verify-identity", "{strong}");
    }
    assert_eq!(mode("ssl-mode=REQUIRED\nssl-ca=/ca", &[]), "REQUIRED");
    assert_eq!(mode("ssl-ca=/ca", &["--ssl-mode=preferred"]), "preferred");
}

#[test]
fn what_secures_only_tls_is_of_no_matter_to_the_local_socket() {
    let (_folder, path) = file("[client]\nhost=localhost\nssl-crl=/x\n");
    config_of(&path).output().expect_code(0).expect_silence();
}

#[test]
fn what_is_zero_to_the_clients_is_their_default() {
    let (_folder, path) = file("[client]\nhost=h\nport=0\nconnect_timeout=0\n");
    assert_eq!(
        value(config_of(&path), "servers").as_deref(),
        Some("h:3306")
    );
    assert_eq!(
        value(config_of(&path), "connect-timeout").as_deref(),
        Some("10s")
    );
}

#[test]
fn files_include_one_another_as_deep_as_for_the_mysql_client() {
    let files: Vec<_> = (0..14)
        .map(|depth| {
            let text = format!(
                "[client]\nuser=u{depth}\n!include FOLDER/{}.cnf\n",
                depth + 1
            );
            (format!("{depth}.cnf"), text)
        })
        .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let folder = folder(&files);
    let path = folder.path().join("0.cnf");
    let only = format!("--defaults-file={}", path.display());
    let ours = value(config_of(&path), "user");
    for kind in [Kind::MariaDb, Kind::MySql] {
        assert_eq!(
            found_by(kind, &[&only], "user"),
            Ok(ours.clone()),
            "{kind:?}"
        );
    }
}

#[test]
fn all_files_together_are_of_bounded_length() {
    let long = format!("#{}\n", "x".repeat(900_000));
    let files = ["a", "b", "c", "d", "e"].map(|name| (format!("many/{name}.cnf"), long.clone()));
    let mut all = vec![("my.cnf", "[client]\nuser=u\n!includedir FOLDER/many\n")];
    all.extend(
        files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str())),
    );
    let folder = folder(&all);
    let path = folder.path().join("my.cnf");
    config_of(&path)
        .output()
        .expect_code(CONFIGURATION)
        .expect_one_line("4 MiB");
}

#[test]
fn of_two_ways_to_say_a_thing_the_stronger_source_counts() {
    let (_folder, path) = file("[dblock]\nslots=a,b\nquiet\n");
    let dblock = || config_of(&path).args(["--host", "h"]);
    assert_eq!(value(dblock(), "slots").as_deref(), Some("a,b"));
    assert_eq!(
        value(dblock().args(["-m", "5"]), "max-concurrency").as_deref(),
        Some("5")
    );
    assert_eq!(value(dblock(), "quiet").as_deref(), Some("on"));
    assert_eq!(value(dblock().arg("-v"), "verbose").as_deref(), Some("1"));
    let (_folder, path) = file("[dblock]\nverbose\nmax-concurrency=3\n");
    let dblock = || config_of(&path).args(["--host", "h"]);
    assert_eq!(value(dblock().arg("-q"), "quiet").as_deref(), Some("on"));
    assert_eq!(
        value(dblock().args(["--slots", "x"]), "slots").as_deref(),
        Some("x")
    );
    // A port by itself beats one in a URL, but not in a stronger one.
    let (_folder, path) = file("[dblock]\nurl=mysql://h:1/\nport=2\n");
    assert_eq!(value(config_of(&path), "servers").as_deref(), Some("h:2"));
    let stronger = config_of(&path).env("DBLOCK_URL", "mysql://g:3/");
    assert_eq!(value(stronger, "servers").as_deref(), Some("g:3"));
}

both_servers! {
    fn a_password_may_be_loose(server on mariadb) {
        for text in [
            format!("[client]\nhost=127.0.0.1\nport={}\nuser=dblock\nloose-password={PASSWORD}\n", server.port),
            format!("[dblock]\nloose_url=mysql://dblock:{PASSWORD}@127.0.0.1:{}/\n", server.port),
        ] {
            let (_folder, path) = file(&text);
            works(bare().args(["run", "--name", &unique("loose"), "--defaults-file"]).arg(&path));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            config_of(&path).output().expect_code(0).expect_one_line("can be read by others");
        }
        let (_folder, path) = file(&format!("[dblock]\nurl=mysql://dblock@127.0.0.1:{}/\n", server.port));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        config_of(&path).output().expect_code(0).expect_silence();
        // It may stand at the end of a URL, too.
        let (_folder, path) = file("[dblock]\nurl=postgres://u@h/d?password=x\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        config_of(&path).output().expect_code(0).expect_one_line("can be read by others");
    }
}

#[test]
fn config_tells_all_that_it_can_and_the_first_thing_that_is_wrong() {
    let folder = folder(&[(
        "my.cnf",
        "[client]\nhost=h\nuser=u\nport=33x\n[dblock]\nttl=9\nwait=soon\nnonsense\n",
    )]);
    let path = folder.path().join("my.cnf");
    let place = |line: u32| format!("{}:{line}", path.display());
    let dblock = || {
        config_of(&path)
            .args(["--name", "a#b"])
            .env("DBLOCK_CONNECT_TIMEOUT", "abc")
    };
    dblock()
        .output()
        .expect_code(CONFIGURATION)
        .expect_one_line(&place(8));
    let with = |value: &str, from: String| (Some(value.to_owned()), from);
    for (option, expected) in [
        ("name", with("(malformed)", "--name".into())),
        ("wait", with("(malformed)", place(7))),
        ("ttl", with("9", place(6))),
        ("port", with("(malformed)", place(4))),
        (
            "connect-timeout",
            with("(malformed)", "DBLOCK_CONNECT_TIMEOUT".into()),
        ),
        ("user", with("u", place(3))),
        ("servers", with("h:3306", "host, port, socket".into())),
    ] {
        assert_eq!(setting(dblock(), option), expected, "{option}");
    }
    // What run would refuse for its files is refused here as well.
    let good = || config().args(["--no-defaults", "--host", "h"]);
    good().output().expect_code(0).expect_silence();
    for (args, said) in [
        (&["--password-file", "/nothing"][..], "--password-file"),
        (&["--ssl-ca", "/nothing"], "--ssl-ca"),
        (&["--ssl-ca", "/dev/zero"], "regular"),
        (&["--ssl-cert", "/etc/passwd"], "--ssl-key"),
        (&["--ssl-key", "/etc/passwd"], "--ssl-cert"),
        (
            &["--ssl-key", "/nothing", "--ssl-cert", "/etc/passwd"],
            "--ssl-key",
        ),
        (
            &["--server-public-key-path", "/nothing"],
            "--server-public-key-path",
        ),
    ] {
        good()
            .args(args)
            .output()
            .expect_code(CONFIGURATION)
            .expect_one_line(said);
    }
    let output = config()
        .args(["--no-defaults", "--socket=/x", "--ssl-mode=required"])
        .output();
    output
        .expect_code(CONFIGURATION)
        .expect_one_line("local socket");
    assert_eq!(setting_in(&output, "servers").0.as_deref(), Some("/x"));
    // Files of TLS are of no matter to the local socket.
    let output = config()
        .args([
            "--no-defaults",
            "--socket=/x",
            "--ssl-key=/nope",
            "--ssl-cert=/nope",
        ])
        .output();
    output.expect_code(0).expect_silence();
    // What is wrong with the run does not keep it from telling of the server.
    for args in [["--time-zone", "UTC"], ["--report", ""]] {
        let output = good().args(args).output();
        output.expect_code(USAGE).expect_one_line(args[0]);
        assert_eq!(setting_in(&output, "servers").0.as_deref(), Some("h:3306"));
    }
    // A URL that landed in the wrong place is not shown.
    for option in [
        "--user",
        "--name",
        "--socket",
        "--ssl-ca",
        "--ssl-key",
        "--password-file",
    ] {
        let output = good().args([option, "mysql://u:s3cret@h/"]).output();
        assert!(
            !output.stdout.contains("s3cret") && !output.stderr.contains("s3cret"),
            "{output:#?}"
        );
    }
    // A variable that dblock does not have is not passed over without a word.
    let unknown = setting(good().env("DBLOCK_SSLMODE", "s3cret"), "DBLOCK_SSLMODE");
    assert!(
        unknown.0.is_none() && unknown.1.contains("no such variable"),
        "{unknown:?}"
    );
}

#[test]
fn config_tells_where_a_token_comes_from_and_not_the_token() {
    let token = "deploy.0.17.9f86d081884c7d659a2feaa0c55ad015";
    let good = || config().args(["--no-defaults", "--host", "h"]);
    for (dblock, from) in [
        (good().args(["--token", token]), "--token"),
        (good().env("DBLOCK_TOKEN", token), "DBLOCK_TOKEN"),
    ] {
        let output = dblock.output();
        output.expect_code(0).expect_silence();
        for (option, shown) in [("token", "***"), ("name", "deploy")] {
            let expected = (Some(shown.to_owned()), from.to_owned());
            assert_eq!(setting_in(&output, option), expected);
        }
        assert!(!output.stdout.contains("9f86d081"), "{output:#?}");
    }
    // One on stdin is left to the run.
    let on_stdin = good().args(["--token", "-"]).output();
    on_stdin.expect_code(0).expect_silence();
    assert_eq!(setting_in(&on_stdin, "token").0.as_deref(), Some("***"));
    // The variable is of no matter where a lock is named.
    let named = good().args(["--name", "x"]).env("DBLOCK_TOKEN", "wrong");
    named.output().expect_code(0).expect_silence();
    for (args, said, is_shown) in [
        (
            &["--token", "wrong"][..],
            "--token: the token",
            "(malformed)",
        ),
        (
            &["--token", token, "--name", "x"],
            "of another lock than x",
            "***",
        ),
    ] {
        let output = good().args(args).output();
        output.expect_code(USAGE).expect_one_line(said);
        let shown = setting_in(&output, "token").0;
        assert_eq!(shown.as_deref(), Some(is_shown));
        assert!(!output.stderr.contains("9f86d081"), "{output:#?}");
    }
}

#[test]
fn the_port_of_a_url_is_the_same_on_every_host() {
    let (_folder, path) = file("[client]\nport=3333\n");
    let servers = |dblock: Dblock| value(dblock, "servers").unwrap();
    assert_eq!(
        servers(config_of(&path).env("DBLOCK_URL", "mysql://h/")),
        "h:3306"
    );
    assert_eq!(
        servers(config_of(&path).args(["--url", "mysql://h/", "--port", "5"])),
        "h:5"
    );
    // One by one as with the mysql client.
    assert_eq!(servers(config_of(&path).args(["--host", "h"])), "h:3333");
}

#[test]
fn what_distributions_put_into_client_is_no_reason_for_a_warning() {
    for text in [
        "[client-server]\nsocket=/run/x.sock\n[client]\nhost=db\n",
        "[client]\nhost=localhost\nport=3306\nsocket=/run/x.sock\n",
    ] {
        let (_folder, path) = file(text);
        config_of(&path).output().expect_code(0).expect_silence();
    }
    let (_folder, path) = file("[dblock]\nhost=db\nsocket=/run/x.sock\n");
    config_of(&path)
        .output()
        .expect_code(0)
        .expect_one_line("socket");
}

#[test]
fn a_home_folder_is_found_where_the_mysql_client_finds_it() {
    let home = folder(&[
        ("my.cnf", "[client]\n!include ~/other.cnf\n"),
        ("other.cnf", "[client]\nuser=home\n"),
    ]);
    let path = home.path().join("my.cnf");
    let only = format!("--defaults-file={}", path.display());
    for kind in [Kind::MariaDb, Kind::MySql] {
        let mut theirs = my_print_defaults(kind);
        theirs.args([&only, "client"]).env("HOME", home.path());
        let told = theirs.output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&told), "--user=home\n", "{kind:?}");
    }
    assert_eq!(
        value(config_of(&path).env("HOME", home.path()), "user").as_deref(),
        Some("home")
    );
    let dblock = bare()
        .args([
            "config",
            "--json",
            "--defaults-file=~/my.cnf",
            "--ssl-key=~/k",
        ])
        .env("HOME", home.path());
    assert_eq!(
        value(dblock, "ssl-key"),
        Some(home.path().join("k").display().to_string())
    );
}

both_servers! {
    fn a_password_is_found_again_where_its_file_was_changed(server on mysql) {
        let (_folder, path) = file(&format!(
            "[client]\nhost=127.0.0.1\nport={}\nuser=dblock\npassword=old\npassword={PASSWORD}\n", server.port));
        let name = unique("moved");
        let mut run = bare().args(["run", "--ttl", "30", "--name", &name, "--defaults-file"]).arg(&path).sh("echo began; read line; exit 5").stdin(std::process::Stdio::piped()).spawn();
        run.wait_line("began", SOON);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("# A comment.\n{text}\n")).unwrap();
        let holder = server.holder(&name).expect("it is held");
        let keeper = run.children().into_iter().find(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.contains("keeper")));
        send(keeper.expect("a keeper"), Signal::SIGKILL);
        run.wait_stderr("reacquired after", SOON);
        assert_ne!(server.holder(&name), Some(holder));
        drop(run.take_stdin());
        run.wait_within(SOON).expect_code(5);
    }
}
