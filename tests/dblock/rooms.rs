//! The order of the source folders: a room imports what is below it, never what is above it, SQL is written in few of them, and the client
//! library of MySQL is known to one. And what the page is made with is in no wrapper.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::harness::pages::ROOT;

/// From the ground up.
const ROOMS: [&str; 16] = [
    "base",
    "db",
    "schema",
    "lock",
    "history",
    "queue",
    "cron",
    "isolated",
    "keeper",
    "supervise",
    "run",
    "work",
    "crond",
    "settings",
    "commands",
    "main",
];

/// Those of the page.
const ROOMS_OF_THE_PAGE: [&str; 12] = [
    "base", "cli", "cron", "options", "fleet", "charts", "assets", "pages", "access", "actions",
    "serve", "main",
];

/// Where rooms are, and which.
const HOUSES: [(&str, &[&str]); 2] = [("src", &ROOMS), ("crates/web/src", &ROOMS_OF_THE_PAGE)];

/// The rooms that write SQL.
const WITH_SQL: [&str; 6] = ["db", "schema", "lock", "history", "queue", "cron"];

/// What begins a statement, or is a part of many.
const SQL: [&str; 12] = [
    "SELECT ",
    "INSERT INTO",
    "UPDATE ",
    "DELETE FROM",
    "SHOW ",
    "SET SESSION",
    "KILL {",
    "KILL QUERY",
    "GET_LOCK",
    "RELEASE_LOCK",
    "IS_USED_LOCK",
    "information_schema.",
];

/// Each source file of a house, as its path there and its text without tests and comments.
fn sources(house: &str) -> Vec<(String, String)> {
    fn walk(house: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(house, &path, files);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(house).unwrap();
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let is_code = |line: &&str| !line.trim_start().starts_with("//");
                let code: Vec<_> = code.lines().filter(is_code).collect();
                files.push((
                    name.display().to_string(),
                    code.join(
                        "
",
                    ),
                ));
            }
        }
    }
    let mut files = Vec::new();
    let house = Path::new(ROOT).join(house);
    walk(&house, &house, &mut files);
    assert!(files.len() > 30, "where are the sources?");
    files
}

/// The room of a file.
fn room(file: &str) -> &str {
    let first = file.split('/').next().unwrap();
    first.strip_suffix(".rs").unwrap_or(first)
}

fn floor(rooms: &[&str], room: &str) -> usize {
    let floor = rooms.iter().position(|known| *known == room);
    floor.unwrap_or_else(|| {
        panic!("the room {room} has no floor: add it to the others, in its place")
    })
}

/// The rooms that a text names as `crate::ROOM` and in `use crate::{ROOM, …}`.
fn named(code: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for part in code.split("crate::").skip(1) {
        let end = |text: &str| {
            text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap()
                .to_owned()
        };
        match part.strip_prefix('{') {
            None => rooms.push(end(part)),
            Some(list) => {
                let (mut depth, mut starts) = (0, true);
                for (at, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => starts = true,
                        c if starts && c.is_ascii_alphabetic() => {
                            rooms.push(end(&list[at..]));
                            starts = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    rooms
}

#[test]
fn no_room_imports_what_is_above_it() {
    let mut wrong = Vec::new();
    for (house, rooms) in HOUSES {
        for (file, code) in sources(house) {
            let own = floor(rooms, room(&file));
            for other in named(&code) {
                if rooms.contains(&&*other) && floor(rooms, &other) > own {
                    wrong.push(format!("{house}/{file} imports {other}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "a use runs upwards:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn sql_is_written_in_its_rooms_only() {
    let mut wrong = Vec::new();
    for (file, code) in sources("src") {
        if WITH_SQL.contains(&room(&file)) {
            continue;
        }
        for line in code.lines().filter(|line| line.contains('"')) {
            if SQL.iter().any(|word| line.contains(word)) {
                wrong.push(format!("src/{file}: {}", line.trim()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "SQL outside of its rooms:\n{}",
        wrong.join("\n")
    );
}

/// The modules that are compiled for tests alone and are files, or folders, of their own: each as a path without its end.
fn for_tests(sources: &[(String, String)]) -> Vec<String> {
    let mut modules = Vec::new();
    for (file, code) in sources {
        let folder = match file.strip_suffix("mod.rs") {
            Some(folder) => folder.to_owned(),
            None => file.replace(".rs", "/"),
        };
        let declared = code.split("#[cfg(test)]\n").skip(1);
        let declared = declared.filter_map(|rest| {
            let line = rest.lines().next()?.trim_start_matches("pub ");
            line.strip_prefix("mod ")?.strip_suffix(';')
        });
        modules.extend(declared.map(|name| format!("{folder}{name}")));
    }
    modules
}

/// Whether a text names the crate `mysql`, and not only a module of that name that it has or imports.
fn names_the_crate(code: &str) -> bool {
    fn is_of_word(c: char) -> bool {
        c.is_ascii_alphanumeric() || c == '_'
    }
    let places = code
        .match_indices("mysql")
        .map(|(at, word)| (&code[..at], &code[at + word.len()..]))
        .filter(|(before, after)| !before.ends_with(is_of_word) && !after.starts_with(is_of_word));
    let (mut has_module, mut is_bare, mut is_absolute) = (false, false, false);
    for (before, after) in places {
        let statement = before.rsplit(';').next().unwrap_or_default().trim_start();
        let statement = statement.trim_start_matches("pub ");
        let imports = ["use super::", "use crate::", "use self::"];
        let imports = imports.iter().any(|start| statement.starts_with(start));
        match before.strip_suffix("::") {
            Some(path) => is_absolute |= !path.ends_with(|c: char| is_of_word(c) || c == '>'),
            None if before.ends_with("mod ") => has_module = true,
            None if after.starts_with("::") => is_bare |= !imports,
            None if before.ends_with("use ") || before.ends_with("extern crate ") => is_bare = true,
            None => has_module |= imports,
        }
    }
    is_absolute || is_bare && !has_module
}

#[test]
fn the_crate_of_mysql_is_named_in_its_room_only() {
    let sources = sources("src");
    let for_tests = for_tests(&sources);
    let is_for_tests = |file: &str| {
        let mut rests = for_tests
            .iter()
            .filter_map(|path| file.strip_prefix(&**path));
        rests.any(|rest| rest == ".rs" || rest.starts_with('/'))
    };
    let naming = sources.iter().filter(|(_, code)| names_the_crate(code));
    let naming = naming.map(|(file, _)| &**file);
    let (own, others): (Vec<&str>, Vec<&str>) = naming
        .filter(|file| !is_for_tests(file))
        .partition(|file| file.starts_with("db/mysql/"));
    assert!(own.contains(&"db/mysql/wire.rs"), "{own:?}");
    assert!(others.is_empty(), "the mysql crate is named in {others:?}");
}

#[test]
fn the_crate_of_mysql_is_told_from_a_module_of_that_name() {
    for code in [
        "use mysql::{Conn, Opts};",
        "pub use mysql::Conn;",
        "let row: Vec<mysql::Row> = Vec::new();",
        "use mysql as driver;",
        "mod mysql;\nuse ::mysql::Conn;",
    ] {
        assert!(names_the_crate(code), "{code}");
    }
    for code in [
        "mod mysql;\nuse mysql::MySqlStatements;",
        "use super::wire::Open;\nuse super::{mysql, postgres};\nmysql::NO_TABLE.len();",
        "use crate::db::mysql::Account;",
        "use super::{mysql::Account, postgres};",
        "let scheme = b\"mysql://\"; mysql_common::parse(scheme);",
    ] {
        assert!(!names_the_crate(code), "{code}");
    }
}

#[test]
fn an_import_is_read_in_every_way_in_which_it_is_written() {
    assert_eq!(named("use crate::db::Session;"), ["db"]);
    assert_eq!(
        named("use crate::{base::{clock, exit}, lock};\ncrate::keeper::run()"),
        ["base", "lock", "keeper"]
    );
}

/// The packages of the lock file, each with those that it depends on, those of its tests included.
fn packages() -> BTreeMap<String, Vec<String>> {
    let file = fs::read_to_string(Path::new(ROOT).join("Cargo.lock")).unwrap();
    let mut packages = BTreeMap::new();
    for package in file.split("[[package]]").skip(1) {
        let (_, name) = package.split_once("name = \"").unwrap();
        let name = name.split('"').next().unwrap();
        let (_, list) = package.split_once("dependencies = [").unwrap_or_default();
        let list = list.split(']').next().unwrap();
        // Of two releases of a package each has its number behind its name.
        let names = list.split('"').skip(1).step_by(2);
        let names = names.map(|words| words.split(' ').next().unwrap().to_owned());
        let known: &mut Vec<String> = packages.entry(name.to_owned()).or_default();
        known.extend(names);
    }
    packages
}

#[test]
fn no_wrapper_has_a_runtime_or_a_web_server_in_it() {
    let packages = packages();
    let all_of = |name: &str| {
        let (mut found, mut rest) = (BTreeSet::new(), vec![name.to_owned()]);
        while let Some(name) = rest.pop() {
            if found.insert(name.clone()) {
                rest.extend_from_slice(&packages[&name]);
            }
        }
        found
    };
    let (wrapper, page) = (all_of("dblock"), all_of("dblock-web"));
    assert!(wrapper.contains("mysql"), "{wrapper:?}");
    for name in ["tokio", "axum", "hyper", "maud"] {
        assert!(page.contains(name), "{name} is in the page: {page:?}");
        assert!(!wrapper.contains(name), "{name}: {wrapper:?}");
    }
}
