//! The command line: one file for each subcommand, and one table row for each setting and argument. Values stay bytes here. Only the
//! subcommand that runs is defined: to define all of them took a quarter of the start-up time. `crates/generate` compiles this folder, too,
//! so it imports only clap and std.

pub mod acquire;
mod argument;
pub mod audit;
mod check;
mod config;
pub mod connection;
pub mod cron;
mod history;
mod init;
mod kept_output;
pub mod kill;
pub mod metrics;
pub mod output;
pub mod queue;
mod release;
pub mod renew;
mod run;
mod setting;
mod status;
pub mod web;

use std::env;
use std::ffi::{OsStr, OsString};

use clap::{ArgMatches, Command};

use argument::{Argument, Number};
pub use setting::{Files, Setting, Takes};

/// The subcommands of dblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subcommand {
    /// `dblock run`
    Run,
    /// `dblock status`
    Status,
    /// `dblock kill`
    Kill,
    /// `dblock check`
    Check,
    /// `dblock config`
    Config,
    /// `dblock init`
    Init,
    /// `dblock acquire`
    Acquire,
    /// `dblock renew`
    Renew,
    /// `dblock release`
    Release,
    /// `dblock history`
    History,
    /// `dblock audit`
    Audit,
    /// `dblock output`
    Output,
    /// `dblock metrics`
    Metrics,
    /// `dblock web`
    Web,
    /// `dblock cron`, and its subcommand.
    Cron(Cron),
    /// `dblock queue`, and its subcommand.
    Queue(Queue),
}

/// The subcommands of `dblock cron`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cron {
    /// `dblock cron run`
    Run,
    /// `dblock cron check`
    Check,
    /// `dblock cron list`
    List,
    /// `dblock cron pause`
    Pause,
    /// `dblock cron resume`
    Resume,
    /// `dblock cron trigger`
    Trigger,
}

/// The subcommands of `dblock queue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// `dblock queue create`
    Create,
    /// `dblock queue put`
    Put,
    /// `dblock queue work`
    Work,
    /// `dblock queue status`
    Status,
    /// `dblock queue list`
    List,
    /// `dblock queue show`
    Show,
    /// `dblock queue retry`
    Retry,
    /// `dblock queue cancel`
    Cancel,
    /// `dblock queue pause`
    Pause,
    /// `dblock queue resume`
    Resume,
    /// `dblock queue delete`
    Delete,
}

/// A subcommand.
pub struct Definition {
    subcommand: Subcommand,
    name: &'static str,
    about: &'static str,
    /// Those of its settings that not all have.
    settings: &'static [&'static [Setting]],
    /// Those behind them.
    common: &'static [&'static [Setting]],
    /// How it is typed; `None`: as clap would say.
    usage: Option<&'static str>,
    /// The arguments without an option, in order.
    arguments: &'static [Argument],
    /// What its help says below the options.
    help: &'static str,
}

/// The fields of a subcommand that asks a server, and has nothing but its name and its help.
const ASKS_A_SERVER: Definition = Definition {
    subcommand: Subcommand::Run,
    name: "",
    about: "",
    settings: &[],
    common: &[output::VERBOSITY, connection::SETTINGS],
    usage: None,
    arguments: &[],
    help: "",
};

impl Definition {
    /// Adds all but its name and what it is about.
    fn define(&self, command: Command) -> Command {
        let command = match self.usage {
            Some(usage) => command.override_usage(usage),
            None => command,
        };
        command
            .args(self.settings().filter_map(Setting::arg))
            .args(self.arguments.iter().map(Argument::arg))
            .after_help(self.help)
    }

    /// Its settings, also those that are hidden.
    fn rows(&self) -> impl Iterator<Item = &'static Setting> + Clone + use<> {
        let all = self.settings.iter().chain(self.common);
        all.copied().flatten()
    }

    /// Its settings. One hides those of the same name behind it.
    fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        let all = self.rows();
        all.clone().enumerate().filter_map(move |(at, setting)| {
            let is_hidden = all
                .clone()
                .take(at)
                .any(|before| before.name == setting.name);
            (!is_hidden).then_some(setting)
        })
    }

    /// What a command line gives of it.
    fn read(&self, matches: &mut ArgMatches) -> CommandLine {
        let settings = self.settings();
        let given = settings.filter_map(|setting| Some((setting.name, value(setting, matches)?)));
        let settings = given.collect();
        let arguments = self.arguments.iter();
        let arguments = arguments
            .filter_map(|argument| matches.remove_many::<OsString>(argument.id))
            .flatten();
        CommandLine {
            settings,
            arguments: arguments.collect(),
        }
    }

    /// The one with this name.
    fn find(all: &'static [Self], name: &str) -> &'static Self {
        let mut all = all.iter();
        all.find(|definition| definition.name == name)
            .expect("clap knows no other")
    }
}

/// A subcommand that has subcommands.
pub struct Group {
    name: &'static str,
    about: &'static str,
    /// In the order of the help.
    subcommands: &'static [Definition],
    help: &'static str,
    /// Defines it, but none of its subcommands.
    define: fn(Command) -> Command,
    /// Defines the one of its subcommands that the command is named after.
    define_one: fn(Command) -> Command,
}

impl Group {
    /// Adds all but its name and what it is about.
    fn define(&self, command: Command, defined: Defined) -> Command {
        command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(defined.all(self.subcommands, self.define_one))
            .after_help(self.help)
    }
}

/// When to define what a subcommand only needs for its own use and help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    /// Now.
    #[allow(dead_code, reason = "crates/generate needs it")]
    Now,
    /// When the subcommand runs ([`Command::defer`]).
    WhenItRuns,
}

impl Defined {
    /// These subcommands of a command, of which `define` defines the one that its argument is named after.
    fn all(
        self,
        definitions: &'static [Definition],
        define: fn(Command) -> Command,
    ) -> impl Iterator<Item = Command> {
        definitions.iter().map(move |definition| {
            let command = Command::new(definition.name).about(definition.about);
            match self {
                Self::Now => definition.define(command),
                Self::WhenItRuns => command.defer(define),
            }
        })
    }
}

/// In the order of the help.
const SUBCOMMANDS: &[Definition] = &[
    run::DEFINITION,
    status::DEFINITION,
    kill::DEFINITION,
    check::DEFINITION,
    config::DEFINITION,
    init::DEFINITION,
    acquire::DEFINITION,
    renew::DEFINITION,
    release::DEFINITION,
    history::DEFINITION,
    audit::DEFINITION,
    kept_output::DEFINITION,
    metrics::DEFINITION,
    web::DEFINITION,
];

/// In the order of the help, after the other subcommands.
const GROUPS: &[Group] = &[cron::GROUP, queue::GROUP];

/// The token of `dblock renew` and `dblock release`.
const TOKEN: Argument = Argument::new(
    "token",
    "TOKEN",
    Number::AtMostOne,
    "The token that dblock acquire printed; - reads it from stdin. Without one, DBLOCK_TOKEN gives it",
);

/// Settings by name, with their values. A switch has the value 1.
pub type Values = Vec<(&'static str, OsString)>;

/// The contents of a command line.
#[derive(Debug)]
pub struct CommandLine {
    /// The settings that options give.
    pub settings: Values,
    /// The arguments without an option.
    pub arguments: Vec<OsString>,
}

/// Reads the command line of this process.
///
/// # Errors
/// clap's error, which is also the help or the version if the command line asks for it.
pub fn parse() -> Result<(Subcommand, CommandLine), clap::Error> {
    // All of it is dblock-web's, also --help.
    if env::args_os().nth(1).is_some_and(|name| name == web::NAME) {
        let command_line = CommandLine {
            settings: Values::new(),
            arguments: env::args_os().skip(2).collect(),
        };
        return Ok((Subcommand::Web, command_line));
    }
    let mut matches = dblock(Defined::WhenItRuns).try_get_matches()?;
    let (name, mut matches) = matches.remove_subcommand().expect("clap requires one");
    let mut groups = GROUPS.iter();
    let (definitions, name, mut matches) = match groups.find(|group| group.name == name) {
        Some(group) => {
            let (name, matches) = matches.remove_subcommand().expect("clap requires one");
            (group.subcommands, name, matches)
        }
        None => (SUBCOMMANDS, name, matches),
    };
    let definition = Definition::find(definitions, &name);
    Ok((definition.subcommand, definition.read(&mut matches)))
}

/// The whole command line.
pub fn dblock(defined: Defined) -> Command {
    let groups = GROUPS.iter().map(|group| {
        let command = Command::new(group.name).about(group.about);
        match defined {
            Defined::Now => group.define(command, defined),
            Defined::WhenItRuns => command.defer(group.define),
        }
    });
    let define =
        |command: Command| Definition::find(SUBCOMMANDS, command.get_name()).define(command);
    Command::new("dblock")
        // Whatever the file is called: all that tells of dblock calls it so.
        .bin_name("dblock")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "flock(1) for a fleet: run a command under a lock that excludes on all hosts that use the same MySQL, MariaDB \
             or PostgreSQL server",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(defined.all(SUBCOMMANDS, define))
        .subcommands(groups)
}

/// All subcommands, and those of groups.
fn definitions() -> impl Iterator<Item = &'static Definition> {
    let in_groups = GROUPS.iter().flat_map(|group| group.subcommands);
    SUBCOMMANDS.iter().chain(in_groups)
}

/// The settings of all subcommands. Some occur several times; `setting` finds the first one with a name.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    definitions().flat_map(Definition::rows)
}

/// The setting of this name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.name == name)
}

/// The default of a setting, which must have one.
pub fn default_of(name: &str) -> &'static str {
    let default = setting(name).and_then(|setting| setting.default);
    default.unwrap_or_else(|| panic!("{name} has no default in its row"))
}

/// The settings that an environment variable can give, with the variable. `dblock run` has all of them.
pub fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    run::DEFINITION
        .rows()
        .filter_map(|setting| Some((setting.name, setting.variable?)))
}

/// The value of a setting, if it is given.
fn value(setting: &Setting, matches: &mut ArgMatches) -> Option<OsString> {
    match setting.takes {
        Takes::Secret => None,
        Takes::Value(_) | Takes::ValueOr(..) | Takes::Optional(..) => {
            matches.remove_one(setting.name)
        }
        Takes::List(_) => {
            let values: Vec<OsString> = matches.remove_many(setting.name)?.collect();
            Some(values.join(OsStr::new(",")))
        }
        Takes::Switch => matches.get_flag(setting.name).then(|| "1".into()),
        Takes::Count => match matches.get_count(setting.name) {
            0 => None,
            count => Some(count.to_string().into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::definitions;

    #[test]
    fn each_definition_is_that_of_the_subcommand_with_its_name() {
        for definition in definitions() {
            let subcommand = format!("{:?}", definition.subcommand).to_lowercase();
            let word = subcommand.trim_end_matches(')').rsplit('(').next();
            assert_eq!(word, Some(definition.name));
        }
    }
}
