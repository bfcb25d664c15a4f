//! The completions in the shells that they are for: what is offered to a user who has installed the files, typed the beginning
//! of a line, and asks for more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

use crate::harness::pty::{Shell, path_with_dblock};
use crate::harness::{Dblock, missing};

/// What a shell offers for the last word of a line, which may be empty.
type Offered = fn(&str) -> Vec<String>;

/// In the place of dblock: tells its arguments.
const TELL: &str = r#"dblock() { printf offered; printf ' <%s>' "$@"; printf '\n'; }"#;

/// Types all that is offered, one word after another.
const CTRL_O: &str = "\x0f";

/// Makes three tests of each function: `name::bash`, `name::fish` and `name::zsh`.
macro_rules! in_each_shell {
    ($(fn $name:ident($offered:ident) $body:block)*) => {$(
        mod $name {
            use super::*;

            fn check($offered: Offered) $body

            #[test]
            fn bash() {
                check(super::bash);
            }

            #[test]
            fn fish() {
                check(super::fish);
            }

            #[test]
            fn zsh() {
                check(super::zsh);
            }
        }
    )*};
}

fn completions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("completions")
}

/// A home with nothing but a user's settings, and the files `secret-1` and `secret-2`.
fn home(settings: &str, text: &str) -> TempDir {
    let home = TempDir::new().expect("a home");
    let settings = home.path().join(settings);
    fs::create_dir_all(settings.parent().expect("it lies in a folder")).expect("a folder");
    fs::write(settings, text).expect("the user's settings");
    for file in ["secret-1", "secret-2"] {
        fs::write(home.path().join(file), "").expect("a file");
    }
    home
}

fn bash(line: &str) -> Vec<String> {
    let script = completions().join("dblock.bash");
    let settings = format!(
        "source {}\nbind '\"\\C-o\": insert-completions'\n{TELL}\n",
        script.display()
    );
    let home = home("settings", &settings);
    let mut bash = Command::new("bash");
    bash.args(["--norc", "--noprofile", "-i"]);
    typed(bash, &home, &[". ./settings"], line)
}

fn zsh(line: &str) -> Vec<String> {
    static KNOWN: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let (zsh, home) = new_zsh();
        typed(zsh, &home, &[], "dblock st");
        fs::read(home.path().join(KNOWN_FILE)).expect("compinit writes it")
    });
    let (zsh, home) = new_zsh();
    fs::write(home.path().join(KNOWN_FILE), &*KNOWN).expect("a file");
    typed(zsh, &home, &[], line)
}

/// What zsh has found in the folders of completions. It looks there for itself where there is no such file, which takes long.
const KNOWN_FILE: &str = ".zcompdump";

fn new_zsh() -> (Command, TempDir) {
    let settings = format!(
        "fpath=({} $fpath)
        autoload -Uz compinit && compinit -u
        zstyle ':completion:all:*' completer _all_matches _complete
        zstyle ':completion:all:*' insert true
        zle -C all complete-word _generic
        bindkey '^O' all
        {TELL}\n",
        completions().display()
    );
    let home = home(".zshrc", &settings);
    let mut zsh = Command::new("zsh");
    zsh.args(["--no-global-rcs", "-i"])
        .env("ZDOTDIR", home.path());
    (zsh, home)
}

/// Types the line behind some others, and takes all that is offered.
fn typed(mut shell: Command, home: &TempDir, others: &[&str], line: &str) -> Vec<String> {
    shell.current_dir(home.path()).env("HOME", home.path());
    let mut shell = Shell::of(shell, String::new());
    for other in others {
        shell.enter(other);
        shell.wait_for("> ");
    }
    shell.enter(&format!("{line}{CTRL_O}"));
    let told = shell.wait_for("offered <");
    let told = told.trim_end().strip_suffix('>').expect("a whole line");
    let (before, word) = line.rsplit_once(' ').expect("dblock and more");
    let words = told.split("> <").skip(before.split(' ').count() - 1);
    // Where nothing is offered the word stays as it was typed.
    words
        .filter(|offer| *offer != word)
        .map(str::to_owned)
        .collect()
}

fn fish(line: &str) -> Vec<String> {
    let script = completions().join("dblock.fish");
    let script = fs::read_to_string(script).expect("script/generate writes it");
    let home = home("fish/completions/dblock.fish", &script);
    let mut fish = Command::new("fish");
    fish.args(["-c", "complete -C \"$argv\"", line])
        .current_dir(home.path())
        .env("PATH", path_with_dblock())
        .env("XDG_CONFIG_HOME", home.path())
        .env("HOME", home.path());
    let output = fish
        .output()
        .unwrap_or_else(|error| missing("fish", &error));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{line}: {told}");
    let offers = String::from_utf8(output.stdout).expect("UTF-8");
    // Behind a tab stands what it is.
    let offers = offers.lines().filter_map(|line| line.split('\t').next());
    offers.map(str::to_owned).collect()
}

/// The long options that `dblock COMMAND --help` tells of.
fn long_options(command: &str) -> Vec<String> {
    let help = Dblock::bare().args([command, "--help"]).output();
    let lines = help.stdout.lines().map(str::trim_start);
    let options = lines.filter(|line| line.starts_with('-'));
    let long = options.filter_map(|line| {
        line.split([' ', '.', '['])
            .find(|word| word.starts_with("--"))
    });
    long.map(str::to_owned).collect()
}

#[track_caller]
fn has(offered: &[String], expected: &[&str]) {
    for word in expected {
        assert!(
            offered.iter().any(|offer| offer == word),
            "no {word} in {offered:?}"
        );
    }
}

in_each_shell! {
    fn the_commands_are_offered(offered) {
        has(&offered("dblock "), &["run", "status", "kill", "check", "config"]);
        assert_eq!(offered("dblock st"), ["status"]);
        has(&offered("dblock help "), &["run", "status"]);
    }

    fn each_long_option_is_offered(offered) {
        for command in ["run", "kill"] {
            let options = long_options(command);
            assert!(options.iter().any(|option| option == "--wait"), "{options:?}");
            let options: Vec<_> = options.iter().map(String::as_str).collect();
            has(&offered(&format!("dblock {command} --")), &options);
        }
        assert_eq!(offered("dblock status report --js"), ["--json"]);
        // Of each command only its own.
        assert!(offered("dblock check --dry").is_empty());
    }

    fn the_words_are_offered_that_an_option_takes(offered) {
        let mut words = offered("dblock run --on-lock-lost ");
        words.sort();
        assert_eq!(words, ["ignore", "reacquire", "terminate"]);
        assert_eq!(offered("dblock run --on-lock-lost=t"), ["--on-lock-lost=terminate"]);
        assert_eq!(offered("dblock check --ssl-mode verify-i"), ["verify-identity"]);
    }

    fn files_are_offered_where_a_file_is_meant_and_nowhere_else(offered) {
        assert_eq!(offered("dblock run --password-file sec"), ["secret-1", "secret-2"]);
        for line in ["run --wait sec", "run --name sec", "status sec", "kill sec", "check sec"] {
            assert!(offered(&format!("dblock {line}")).is_empty(), "{line}");
        }
    }

    fn the_command_to_run_is_completed_as_if_it_stood_alone(offered) {
        for line in ["run --name x -- ec", "run --name x ec", "config -n x -w 5 -q ec", "run --name x --keep-output ec"] {
            has(&offered(&format!("dblock {line}")), &["echo"]);
        }
        assert_eq!(offered("dblock run --name x -- cat sec"), ["secret-1", "secret-2"]);
        assert_eq!(offered("dblock run --name x cat secret-1 sec"), ["secret-1", "secret-2"]);
        // An option that only may have a value does not take the command for one.
        assert_eq!(offered("dblock run --name x --keep-output cat sec"), ["secret-1", "secret-2"]);
    }

    fn behind_the_command_to_run_no_option_of_dblock_is_offered(offered) {
        assert_eq!(offered("dblock run -n x --scr"), ["--scrub-env"]);
        assert!(offered("dblock run -n x true --scr").is_empty());
        assert!(offered("dblock run -n x -- true --scr").is_empty());
    }

    fn the_commands_of_the_queue_are_offered_and_their_options(offered) {
        has(&offered("dblock queue "), &["create", "put", "work", "status"]);
        assert_eq!(offered("dblock queue st"), ["status"]);
        assert_eq!(offered("dblock queue create mails --cl"), ["--claim"]);
        has(&offered("dblock queue create mails --claim "), &["rows", "blocks"]);
        assert_eq!(offered("dblock queue list --st"), ["--state"]);
        assert!(offered("dblock queue pause --st").is_empty());
    }

    fn the_crontab_to_check_is_a_file(offered) {
        has(&offered("dblock cron "), &["check"]);
        assert_eq!(offered("dblock cron check --ne"), ["--next"]);
        assert_eq!(offered("dblock cron check sec"), ["secret-1", "secret-2"]);
    }

    fn the_command_of_a_worker_comes_behind_its_queue(offered) {
        assert_eq!(offered("dblock queue work --dr"), ["--drain"]);
        assert_eq!(offered("dblock queue work mails --dr"), ["--drain"]);
        assert_eq!(offered("dblock queue work mails -j 4 --dr"), ["--drain"]);
        assert_eq!(offered("dblock queue work mails -j 4 cat sec"), ["secret-1", "secret-2"]);
        assert!(offered("dblock queue work mails -- true --dr").is_empty());
        for line in ["work mails -- ec", "work -j 4 mails ec", "work mails --grace 5 ec"] {
            has(&offered(&format!("dblock queue {line}")), &["echo"]);
        }
        assert_eq!(offered("dblock queue work mails -- cat sec"), ["secret-1", "secret-2"]);
        assert!(offered("dblock queue work mails true --dr").is_empty());
        assert!(offered("dblock queue work sec").is_empty());
    }

    fn a_value_may_look_like_anything(offered) {
        for value in ["--url mysql://u@h:3306/", "--url=mysql://u@h:3306/", "--name run", "--name=--", "-w 5"] {
            let line = format!("dblock run {value} --scr");
            assert_eq!(offered(&line), ["--scrub-env"], "{line}");
        }
    }
}
