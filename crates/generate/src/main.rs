//! Writes the manual pages and the shells' completions, made of dblock's command line and of the texts beside this source.
//! Its tests compare what is committed with what is made.

#[cfg(test)]
mod checks;
#[expect(
    dead_code,
    unused_imports,
    reason = "only what describes the command line is used here"
)]
#[path = "../../../src/settings/cli/mod.rs"]
mod cli;
mod completions;
mod page;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Command;

/// The folders that have what is made, and nothing else.
const FOLDERS: [&str; 2] = ["man", "completions"];

fn main() {
    let committed = committed();
    let made = made(&committed);
    for path in committed.keys().filter(|path| !made.contains_key(*path)) {
        fs::remove_file(at(path)).expect("a file that can be removed");
    }
    for folder in FOLDERS {
        fs::create_dir_all(at(folder)).expect("a folder that can be made");
    }
    for (path, text) in &made {
        fs::write(at(path), text).expect("a file that can be written");
    }
}

/// dblock with all of its subcommands defined.
fn command_line() -> Command {
    cli::dblock(cli::Defined::Now)
}

/// The same as clap knows it when it runs. dblock's own `help` has no page, for there is `man`.
fn dblock() -> Command {
    let dblock = command_line().disable_help_subcommand(true);
    let mut dblock = dblock.mut_subcommands(|command| command.disable_help_subcommand(true));
    dblock.build();
    dblock
}

/// The commands of a command, at every depth, each by its words behind `dblock`: `run`, `queue`, `queue put`.
fn with_subcommands(command: &Command) -> Vec<(String, Command)> {
    let mut all = Vec::new();
    for subcommand in command.get_subcommands() {
        let name = subcommand.get_name();
        all.push((name.to_owned(), subcommand.clone()));
        let below = with_subcommands(subcommand).into_iter();
        all.extend(below.map(|(words, command)| (format!("{name} {words}"), command)));
    }
    all
}

/// A path in the checkout.
fn at(path: impl AsRef<Path>) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// What is committed.
fn committed() -> BTreeMap<PathBuf, String> {
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        for file in fs::read_dir(at(folder)).into_iter().flatten().flatten() {
            let text = fs::read_to_string(file.path()).expect("a text");
            files.insert(Path::new(folder).join(file.file_name()), text);
        }
    }
    files
}

/// What is made now. A page that is as it was keeps its date.
fn made(committed: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    let mut files: BTreeMap<_, _> = completions::all().into_iter().collect();
    for page in page::all() {
        let path = Path::new("man").join(page.file_name());
        let same = committed.get(&path).filter(|text| page.is_same(text));
        let text = same.cloned().unwrap_or_else(|| page.text(&page::today()));
        files.insert(path, text);
    }
    files
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_committed_files_are_those_of_the_command_line() {
        let committed = committed();
        let made = made(&committed);
        let paths: BTreeSet<_> = made.keys().chain(committed.keys()).collect();
        let stale = paths
            .into_iter()
            .filter(|path| made.get(*path) != committed.get(*path));
        let stale: Vec<_> = stale.map(|path| path.display().to_string()).collect();
        assert!(
            stale.is_empty(),
            "not as src/settings/cli and crates/generate say: {}; run script/generate and commit what it writes",
            stale.join(", ")
        );
    }
}
