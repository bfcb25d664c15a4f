//! The completions of each shell. What may be typed for a value follows from the value's name; what clap's own scripts do not know,
//! above all the command that is run, is written by hand in `texts`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

use super::{at, command_line, with_subcommands};

/// The shells of Linux that have completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// The file of each shell.
pub fn all() -> Vec<(PathBuf, String)> {
    let folder = Path::new("completions");
    let made = |shell: &Shell| {
        let (name, text) = match shell {
            Shell::Bash => ("dblock.bash", bash()),
            Shell::Zsh => ("_dblock", zsh()),
            Shell::Fish => ("dblock.fish", fish()),
            other => panic!("which file completes in {other}?"),
        };
        // Some of what clap makes has spaces at the ends of lines.
        let lines = text.lines().map(|line| format!("{}\n", line.trim_end()));
        (folder.join(name), lines.collect())
    };
    SHELLS.iter().map(made).collect()
}

/// What can be typed as a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Takes {
    File,
    Host,
    /// A command and its arguments.
    Command,
    /// One of these.
    Words(Vec<String>),
    /// What nobody can guess.
    Anything,
}

impl Takes {
    /// What is taken by `argument`, by the name of its value: the parser takes any bytes.
    fn of(argument: &Arg) -> Self {
        let name = &*argument.get_value_names().expect("a value has a name")[0];
        match name {
            "ADDR:PORT|unix:PATH" | "FILE" | "FILE|-" | "PATH" => Self::File,
            "HOST" => Self::Host,
            "COMMAND" if argument.is_positional() => Self::Command,
            "A,B,C" | "CODE" | "COMMAND" | "CRON" | "CURSOR" | "DURATION" | "DURATION[,N]"
            | "DURATION|TIME" | "ID" | "KEY" | "N" | "N|A,B" | "NAME" | "NAME[#SLOT]"
            | "OPTION" | "PAYLOAD" | "PORT" | "QUEUE" | "RUN" | "RUN|NAME|QUEUE#ID" | "SIZE"
            | "TEXT" | "TIME" | "TOKEN" | "URL" | "USER" | "ZONE" => Self::Anything,
            words if words.contains('|') && !words.contains(char::is_uppercase) => {
                Self::Words(words.split('|').map(str::to_owned).collect())
            }
            _ => panic!("what completes a {name}? Say it in crates/generate/src/completions.rs"),
        }
    }
}

/// dblock, whose arguments know what can be typed.
fn dblock() -> Command {
    let with_values = |argument: Arg| {
        if !argument.is_positional() && !argument.get_action().takes_values() {
            return argument;
        }
        let hint = match Takes::of(&argument) {
            Takes::Words(words) => {
                // What clap may keep of a text that is made has to stay.
                let words = words.into_iter().map(|word| &*word.leak());
                return argument.value_parser(PossibleValuesParser::new(words));
            }
            Takes::File => ValueHint::FilePath,
            Takes::Host => ValueHint::Hostname,
            Takes::Command => ValueHint::CommandWithArguments,
            Takes::Anything => ValueHint::Other,
        };
        argument.value_hint(hint)
    };
    command_line().mut_subcommands(|command| {
        let command = command.mut_args(with_values);
        command.mut_subcommands(|command| command.mut_args(with_values))
    })
}

fn by_clap(shell: Shell) -> String {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut dblock(), "dblock", &mut bytes);
    String::from_utf8(bytes).expect("a script is text")
}

/// A file of `texts`, with its `@TABLE@`s replaced.
fn by_hand(file: &str, tables: &[(&str, String)]) -> String {
    let path = at("crates/generate/texts").join(file);
    let mut text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    for (name, table) in tables {
        let place = format!("@{name}@");
        assert!(text.contains(&place), "{file} has no {place}");
        text = text.replace(&place, table);
    }
    text
}

/// `-n` and `--name`.
fn spellings(option: &Arg) -> impl Iterator<Item = String> {
    let short = option.get_short().map(|short| format!("-{short}"));
    let long = option.get_long().map(|long| format!("--{long}"));
    short.into_iter().chain(long)
}

/// What is taken by the options that take something, by their spellings: the same in all commands.
fn values() -> BTreeMap<String, Takes> {
    let mut values = BTreeMap::new();
    for (_, command) in with_subcommands(&super::dblock()) {
        // A value that stands behind `=` alone is no word.
        let options = command.get_opts();
        for option in options.filter(|option| !option.is_require_equals_set()) {
            for spelling in spellings(option) {
                let takes = Takes::of(option);
                let other = values.insert(spelling.clone(), takes.clone());
                assert!(
                    other.is_none_or(|other| other == takes),
                    "{spelling} is two things"
                );
            }
        }
    }
    values
}

/// The options whose values stand behind `=` alone, each with its command: another command may have one of this name with a word.
fn behind_equals() -> Vec<String> {
    let mut all = Vec::new();
    for (words, command) in with_subcommands(&super::dblock()) {
        let options = command.get_opts();
        for option in options.filter(|option| option.is_require_equals_set()) {
            all.extend(spellings(option).map(|spelling| format!("{words} {spelling}")));
        }
    }
    all
}

/// Each on a line of its own.
fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

/// The commands, and the one that is clap's.
fn commands(command: &Command) -> String {
    let names = command.get_subcommands().map(Command::get_name);
    names.chain(["help"]).collect::<Vec<_>>().join(" ")
}

/// The commands that have commands.
fn groups() -> Vec<(String, Command)> {
    let mut all = with_subcommands(&super::dblock());
    all.retain(|(_, command)| command.has_subcommands());
    all
}

/// The commands that run another one, each with how many arguments come before that.
fn runners() -> Vec<(String, usize)> {
    let runs = |(words, command): (String, Command)| {
        let mut positionals = command.get_positionals();
        let before = positionals.position(|argument| Takes::of(argument) == Takes::Command)?;
        Some((words, before))
    };
    let all = with_subcommands(&super::dblock());
    all.into_iter().filter_map(runs).collect()
}

/// The commands whose argument is a file.
fn of_files() -> Vec<String> {
    let mut all = with_subcommands(&super::dblock());
    all.retain(|(_, command)| {
        let mut positionals = command.get_positionals();
        positionals.any(|argument| Takes::of(argument) == Takes::File)
    });
    all.into_iter().map(|(words, _)| words).collect()
}

/// Texts in quotes, as each shell reads them.
fn quoted<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    texts.map(|text| format!("'{text}'")).collect()
}

/// By hand, with tables: clap's knows no command to run, and takes a URL, which bash makes several words of, for arguments.
fn bash() -> String {
    let dblock = super::dblock();
    let options = |command: &Command| {
        let options = command.get_arguments().flat_map(spellings);
        options.collect::<Vec<_>>().join(" ")
    };
    let all = with_subcommands(&dblock);
    let of_commands = all.iter().map(|(words, command)| {
        let options = options(command);
        if command.has_subcommands() {
            let commands = commands(command);
            return format!(
                "        '{words}') if [[ $word == -* ]]; then options='{options}'; else options='{commands}'; fi ;;"
            );
        }
        format!("        '{words}') options='{options}' ;;")
    });
    let groups = groups();
    let runners = runners();
    let before = runners
        .iter()
        .map(|(words, before)| format!("        '{words}') before={before} ;;"));
    let mut by_value: BTreeMap<Takes, Vec<String>> = BTreeMap::new();
    for (option, takes) in values() {
        by_value.entry(takes).or_default().push(option);
    }
    let of_values = by_value.into_iter().map(|(takes, options)| {
        let takes = match takes {
            Takes::File => "file".to_owned(),
            Takes::Host => "host".to_owned(),
            Takes::Words(words) => words.join(" "),
            Takes::Anything => "anything".to_owned(),
            Takes::Command => panic!("no option takes a command"),
        };
        format!("        {}) takes='{takes}' ;;", options.join(" | "))
    });
    by_hand(
        "dblock.bash",
        &[
            ("COMMANDS", commands(&dblock)),
            (
                "GROUPS",
                quoted(groups.iter().map(|(words, _)| words)).join(" | "),
            ),
            ("BEFORE", lines(before)),
            ("OPTIONS", options(&dblock)),
            ("OPTIONS_OF_COMMANDS", lines(of_commands)),
            ("BEHIND_EQUALS", quoted(behind_equals().iter()).join(" | ")),
            ("VALUES", lines(of_values)),
            ("OF_FILES", quoted(of_files().iter()).join(" | ")),
        ],
    )
}

/// clap's, but that options are offered in the place of a name that nobody can guess, and behind it. For such a name clap says
/// nothing, and zsh then offers nothing at all. And of a command that is run, only its own words are its own: three colons. Where that
/// stands behind other arguments, zsh offers no options in its place: there its program is an argument like those, and what follows is
/// completed as the program's.
fn zsh() -> String {
    let lines = by_clap(Shell::Zsh);
    let mut before = 0;
    let lines = lines.lines().map(|line| {
        let before = match line {
            _ if line.starts_with("':") => {
                before += 1;
                before
            }
            _ => std::mem::take(&mut before),
        };
        if before > 0
            && let Some(command) = line.strip_prefix("'*::")
            && let Some(command) = command.strip_suffix(":_cmdambivalent' \\")
        {
            return format!(
                "':{command}: _command_names -e' \\\n'*:::arguments:->behind-{before}' \\\n"
            );
        }
        // A value that stands behind = alone. clap lets it be the next word, too.
        if let Some((option, rest)) = line.split_once("=[")
            && line.contains("]::")
        {
            return format!("{option}=-[{rest}\n");
        }
        if let Some(command) = line.strip_prefix("'*::")
            && line.ends_with(":_cmdambivalent' \\")
        {
            return format!("'*:::{command}\n");
        }
        let positional = line.strip_prefix("'*::").map(|rest| ("'*:", rest));
        let positional = positional.or_else(|| Some(("':", line.strip_prefix("':")?)));
        match positional.and_then(|(start, rest)| Some((start, rest.strip_suffix(":' \\")?))) {
            Some((start, rest)) => format!("{start}{rest}:( )' \\\n"),
            None => format!("{line}\n"),
        }
    });
    let mut text: String = lines.collect();
    for (words, before) in runners().into_iter().filter(|(_, before)| *before > 0) {
        let table = format!("'*:::arguments:->behind-{before}' \\\n&& ret=0\n");
        assert!(text.contains(&table), "{words}: clap's table has changed");
        let place = before + 1;
        // Right behind -- zsh takes the program for one of its arguments.
        let of_program = format!(
            "if [[ $state == behind-{before} ]]; then\n    \
             if (( $#line > {place} )); then\n        \
             words=(\"$line[{place}]\" \"${{words[@]}}\")\n        (( CURRENT += 1 ))\n        _normal && ret=0\n    \
             else\n        _command_names -e && ret=0\n    fi\nfi\n"
        );
        text = text.replace(&table, &format!("{table}{of_program}"));
    }
    text
}

/// clap's table of options, and by hand the conditions that its lines ask.
fn fish() -> String {
    let clap = by_clap(Shell::Fish);
    let table = clap.find("complete -c").expect("lines that complete");
    let mut table = clap[table..].trim_end().to_owned();
    let groups = groups();
    for (words, command) in &groups {
        // clap asks for the words wherever they stand, also among those of a command that is run.
        let using = format!("__fish_dblock_using_subcommand {words}; and");
        let names = commands(command);
        table = table.replace(
            &format!("\"{using} not __fish_seen_subcommand_from {names}\""),
            &format!("\"__fish_dblock_using_subcommand {words}\""),
        );
        for name in names.split(' ') {
            table = table.replace(
                &format!("\"{using} __fish_seen_subcommand_from {name}\""),
                &format!("\"__fish_dblock_using_subcommand '{words} {name}'\""),
            );
        }
        assert!(
            !table.contains(&using),
            "clap asks in another way than {using}"
        );
    }
    for option in behind_equals() {
        // Without a value of its own what is behind it is the next word, which clap takes for the value.
        let (words, name) = option.split_once(" --").expect("a long option");
        let start = format!("__fish_dblock_using_subcommand {words}\" -l {name} ");
        let at = table.find(&start).expect("clap has it in its table");
        let line = table[at..].lines().next().expect("it begins there");
        let of_value = line.strip_suffix(" -r -f").expect("it takes a value");
        let of_value = at + of_value.len();
        table.replace_range(of_value..of_value + " -r".len(), "");
    }
    let runners = runners();
    let before = runners
        .iter()
        .map(|(words, before)| format!("        case '{words}'\n            echo {before}"));
    let of_files = of_files().into_iter().map(|words| {
        format!("complete -c dblock -n \"__fish_dblock_using_subcommand '{words}'\" -F")
    });
    by_hand(
        "dblock.fish",
        &[
            ("COMMANDS", commands(&super::dblock())),
            (
                "GROUPS",
                quoted(groups.iter().map(|(words, _)| words)).join(" "),
            ),
            ("BEFORE", lines(before)),
            ("BEHIND_EQUALS", quoted(behind_equals().iter()).join(" ")),
            ("VALUES", values().into_keys().collect::<Vec<_>>().join(" ")),
            ("TABLE", table),
            ("OF_FILES", lines(of_files)),
        ],
    )
}
