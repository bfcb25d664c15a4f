//! Whether what dblock prints for programs is as the schemas in `docs` say.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::{Value, json};

use super::missing;

/// Answers each line, which has the path of a schema and a text, with what is wrong with the text: "" if nothing is.
const PROGRAM: &str = r#"
import json, sys
from jsonschema.validators import validator_for
validators = {}
for line in sys.stdin:
    path, text = json.loads(line)
    if path not in validators:
        schema = json.load(open(path))
        kind = validator_for(schema)
        kind.check_schema(schema)
        validators[path] = kind(schema)
    try:
        wrong = "\n".join(str(error) for error in validators[path].iter_errors(json.loads(text)))
    except ValueError as error:
        wrong = str(error)
    print(json.dumps(wrong), flush=True)
"#;

/// Python's jsonschema, in one process for all tests, as its start takes longer than most of them print for.
struct Validator {
    _process: Child,
    texts: ChildStdin,
    answers: BufReader<ChildStdout>,
}

static VALIDATOR: LazyLock<Mutex<Validator>> = LazyLock::new(|| {
    let process = Command::new("/usr/bin/python3")
        .args(["-c", PROGRAM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut process = process.unwrap_or_else(|error| missing("python3-jsonschema", &error));
    Mutex::new(Validator {
        texts: process.stdin.take().expect("a pipe"),
        answers: BufReader::new(process.stdout.take().expect("a pipe")),
        _process: process,
    })
});

/// The file of the schema for `name`, which is a subcommand with `-` between its words, or `report`.
pub fn schema_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(format!("{name}.schema.json"))
}

/// The text is JSON as the schema for `name` says.
#[track_caller]
pub fn follows(text: &str, name: &str) {
    let schema = schema_of(name);
    assert!(schema.is_file(), "{} is missing", schema.display());
    let mut validator = VALIDATOR.lock().unwrap_or_else(PoisonError::into_inner);
    let mut answer = String::new();
    let asked = writeln!(validator.texts, "{}", json!([schema, text]));
    let answered = asked.and_then(|()| validator.answers.read_line(&mut answer));
    drop(validator);
    if let Ok(0) | Err(_) = answered {
        let why = answered.err();
        let why = why.unwrap_or_else(|| io::Error::other("it has ended; see its words above"));
        missing("python3-jsonschema", &why);
    }
    let wrong: Value = serde_json::from_str(&answer).expect("a text");
    assert_eq!(wrong, "", "not as {} says: {text}", schema.display());
}
