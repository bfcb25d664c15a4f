//! A row of the table of settings: everything about a setting except the meaning of its value.

use clap::{Arg, ArgAction, value_parser};

/// A row of the table of settings.
#[derive(Debug)]
pub struct Setting {
    /// Its name: the long option, and the key in an option file.
    pub name: &'static str,
    /// Its short option, if it has one.
    pub short: Option<char>,
    /// What follows its name on the command line.
    pub takes: Takes,
    /// The environment variable that can set it.
    pub variable: Option<&'static str>,
    /// The groups of option files that can set it.
    pub files: Files,
    /// The default: `--help` shows it, and it is used if no source gives the setting. A computed default is described in words.
    pub default: Option<&'static str>,
    /// The help, without its variable and its default.
    pub help: &'static str,
    /// Its heading in the help; `None` for the first one.
    pub heading: Option<&'static str>,
    /// The settings that cannot stand on the same command line.
    pub conflicts: &'static [&'static str],
}

/// What follows a setting's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A value, with its name in the help.
    Value(&'static str),
    /// A value, with its name in the help, or nothing, which means this value.
    ValueOr(&'static str, &'static str),
    /// A value behind `=`, with its name in the help, or nothing, which means this value.
    Optional(&'static str, &'static str),
    /// Values, with the name of one in the help: separated by commas, or in several options.
    List(&'static str),
    /// A value that is never given on the command line, because everybody can read that.
    Secret,
    /// Nothing: a switch.
    Switch,
    /// Nothing: the option may be repeated, and is counted.
    Count,
}

/// The groups of option files in which a setting is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// None. The setting says which files are read, so it is an error in one.
    Never,
    /// None. A file may still have an option of this name: it belongs to another subcommand, or is meaningless beyond one call.
    No,
    /// `[dblock]`.
    Own,
    /// `[dblock]`, and the groups of other clients, such as `[client]`.
    All,
}

/// The defaults of a row's fields.
pub const SETTING: Setting = Setting {
    name: "",
    short: None,
    takes: Takes::Switch,
    variable: None,
    files: Files::Own,
    default: None,
    help: "",
    heading: None,
    conflicts: &[],
};

/// The names of values that may begin with a minus. Then the value is refused, and not taken for an unknown option.
const NUMBERS: [&str; 6] = ["CODE", "DURATION", "DURATION|TIME", "N", "N|A,B", "PORT"];

impl Setting {
    /// The command line's option; `None` if it has none.
    pub fn arg(&self) -> Option<Arg> {
        let arg = Arg::new(self.name).long(self.name).help(self.whole_help());
        let with_value = |arg: Arg, name| {
            arg.value_name(name)
                .value_parser(value_parser!(std::ffi::OsString))
                .allow_negative_numbers(NUMBERS.contains(&name))
        };
        let arg = match self.takes {
            Takes::Secret => return None,
            Takes::Value(name) => with_value(arg, name),
            Takes::ValueOr(name, default) => with_value(arg, name)
                .num_args(0..=1)
                .default_missing_value(default),
            Takes::Optional(name, missing) => with_value(arg, name)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(missing),
            Takes::List(name) => with_value(arg, name).action(ArgAction::Append),
            Takes::Switch => arg.action(ArgAction::SetTrue),
            Takes::Count => arg.action(ArgAction::Count),
        };
        let arg = arg.help_heading(self.heading).short(self.short);
        Some(arg.conflicts_with_all(self.conflicts))
    }

    fn whole_help(&self) -> String {
        let mut help = self.help.to_owned();
        for (what, text) in [("env", self.variable), ("default", self.default)] {
            if let Some(text) = text {
                help.extend([" [", what, ": ", text, "]"]);
            }
        }
        help
    }
}
