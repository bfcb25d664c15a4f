//! What programs may rely on: each `--json` has a schema in `docs`. That each output is as its schema says is looked at wherever a test
//! ends a dblock (`harness::schema`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

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
    assert_eq!(schemas(), expected);
}

/// The files of all schemas.
fn schemas() -> BTreeSet<PathBuf> {
    let docs = schema_of("report");
    let files = fs::read_dir(docs.parent().expect("a folder"))
        .expect("docs")
        .flatten();
    let files = files.map(|file| file.path());
    files
        .filter(|path| path.to_string_lossy().ends_with(".schema.json"))
        .collect()
}

/// What a value is by its schema, apart from null: the names of types, and `moment`.
fn kinds(schema: &Value, whole: &Value) -> BTreeSet<String> {
    if let Some(name) = schema["$ref"]
        .as_str()
        .and_then(|name| name.rsplit('/').next())
    {
        return match name {
            "moment" => BTreeSet::from([name.to_owned()]),
            _ => kinds(&whole["definitions"][name], whole),
        };
    }
    let list = |key: &str| schema[key].as_array().into_iter().flatten();
    let of_choices = list("oneOf").flat_map(|choice| kinds(choice, whole));
    let of_words = list("enum")
        .filter(|word| word.is_string())
        .map(|_| "string".to_owned());
    let types = list("type")
        .chain([&schema["type"]])
        .filter_map(|name| Some(name.as_str()?.to_owned()));
    of_choices
        .chain(of_words)
        .chain(types)
        .filter(|name| name != "null")
        .collect()
}

/// The names in all outputs, each with what its values are.
type Names = BTreeMap<String, BTreeSet<BTreeSet<String>>>;

/// Adds the properties of a schema and of what is in it.
fn add_properties(schema: &Value, whole: &Value, names: &mut Names) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        names
            .entry(name.clone())
            .or_default()
            .insert(kinds(property, whole));
        let choices = property["oneOf"].as_array().into_iter().flatten();
        for inner in choices.chain([property, &property["items"]]) {
            add_properties(inner, whole, names);
        }
    }
}

#[test]
fn a_name_is_of_one_type_wherever_it_is_printed() {
    let mut names = Names::new();
    for file in schemas() {
        let schema = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        add_properties(&schema, &schema, &mut names);
    }
    let moment = BTreeSet::from([BTreeSet::from(["moment".to_owned()])]);
    assert!(
        names.len() > 100 && names["started"] == moment,
        "{names:#?}"
    );
    names.retain(|_, kinds| kinds.len() > 1);
    assert!(names.is_empty(), "{names:#?}");
}
