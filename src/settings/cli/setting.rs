//! A row of the table of settings: everything about a setting but what its value means.

use clap::{Arg, ArgAction, value_parser};

/// A row of the table of settings.
#[derive(Debug)]
pub struct Setting {
    /// Its name: the long option, and the key in an option file.
    pub name: &'static str,
    /// Its one letter on the command line, if it has one.
    pub short: Option<char>,
    /// What follows its name.
    pub takes: Takes,
    /// The variable of the environment that can give it.
    pub variable: Option<&'static str>,
    /// The groups of option files that can give it.
    pub files: Files,
    /// Its default: what `--help` shows, and what is read if no source gives the setting. In words if it is computed.
    pub default: Option<&'static str>,
    /// The help, without its variable and its default.
    pub help: &'static str,
    /// Its heading in the help; `None` for the first one.
    pub heading: Option<&'static str>,
    /// The settings that the same command line cannot have.
    pub conflicts: &'static [&'static str],
}

/// What follows a setting's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A value, and the name of that in the help.
    Value(&'static str),
    /// Values, and the name of one in the help: several with commas between them, or in several options.
    List(&'static str),
    /// A value that no command line has, for a command line is public.
    Secret,
    /// Nothing: it is on or off.
    Switch,
    /// Nothing: it counts how often it is given.
    Count,
}

/// The groups of option files in which a setting is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// None.
    No,
    /// `[dblock]`.
    Own,
    /// `[dblock]`, and the groups of other clients, `[client]` and its like.
    All,
}

/// What a row does not say.
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

/// The names of values that may begin with a minus, so that the value is refused and not an unknown option.
const NUMBERS: [&str; 5] = ["CODE", "DURATION", "DURATION|TIME", "N", "PORT"];

impl Setting {
    /// The option of the command line; `None` for what no command line has.
    pub fn arg(&self) -> Option<Arg> {
        let arg = Arg::new(self.name).long(self.name).help(self.whole_help());
        let arg = match self.takes {
            Takes::Secret => return None,
            Takes::Value(name) => arg
                .value_name(name)
                .value_parser(value_parser!(std::ffi::OsString))
                .allow_negative_numbers(NUMBERS.contains(&name)),
            Takes::List(name) => arg
                .value_name(name)
                .value_parser(value_parser!(std::ffi::OsString))
                .action(ArgAction::Append)
                .allow_negative_numbers(NUMBERS.contains(&name)),
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
