//! What programs may rely on: each `--json` has a schema in `docs`. That each output is as its schema says is looked at wherever a test
//! ends a dblock (`harness::schema`).

use std::collections::BTreeSet;
use std::fs;

use crate::harness::schema::schema_of;
use crate::harness::{Crontab, Dblock, Kind, Server, unique};
use crate::queue_admin::put;

/// The subcommands below these words that have `--json`, as their help says.
fn with_json(words: &[&str]) -> BTreeSet<String> {
    let help = Dblock::bare().args(words).arg("--help").output();
    let help = &help.expect_code(0).expect_silence().stdout;
    let Some((_, below)) = help.split_once("\nCommands:\n") else {
        let mut options = help.lines().map(str::trim_start);
        let has_json = options.any(|line| line.starts_with("--json"));
        return has_json.then(|| words.join(" ")).into_iter().collect();
    };
    let (below, _) = below.split_once("\n\n").expect("options");
    let names = below
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .flat_map(|name| with_json(&[words, &[name]].concat()))
        .collect()
}

#[test]
fn every_subcommand_with_json_has_a_schema_and_prints_what_it_says() {
    let server = Server::shared(Kind::MariaDb);
    let crontab = Crontab::new(server, "#: job\n0 0 1 1 * true");
    let _host = crontab.start(&[]);
    let (tables, name) = (&crontab.tables, unique("json"));
    let create = tables.at("queue").args(["create", "q"]).output();
    create.expect_code(0).expect_silence();
    let id = put(tables, &["a"])[0].to_string();
    let found = with_json(&[]);
    assert!(
        found.contains("queue list") && found.contains("acquire"),
        "{found:?}"
    );
    for words in &found {
        let arguments = match &**words {
            "queue list" => &["q"][..],
            "queue show" => &["q", &id],
            "acquire" => &["--name", &name],
            _ => &[],
        };
        let mut subcommand = words.split(' ');
        let dblock = tables
            .at(subcommand.next().expect("a word"))
            .args(subcommand);
        let output = dblock.args(arguments).arg("--json").output();
        let json = output.expect_code(0).json();
        assert!(json.is_object(), "{words}: {json}");
    }
    // Nothing else has one but the line of --report.
    let names = found.iter().map(|words| words.replace(' ', "-"));
    let expected: BTreeSet<_> = names
        .chain(["report".to_owned()])
        .map(|name| schema_of(&name))
        .collect();
    let docs = schema_of("report");
    let files = fs::read_dir(docs.parent().expect("a folder"))
        .expect("docs")
        .flatten();
    let files = files.map(|file| file.path());
    let schemas: BTreeSet<_> = files
        .filter(|path| path.to_string_lossy().ends_with(".schema.json"))
        .collect();
    assert_eq!(schemas, expected);
}
