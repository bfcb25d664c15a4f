//! The command line: one file a subcommand, and one table row a setting. Values stay bytes here. A subcommand is defined only if
//! it is the one that runs: to define all of them took a quarter of a start. `crates/generate` compiles this folder, too, so it
//! imports clap and std alone.

pub mod acquire;
mod check;
mod config;
pub mod connection;
pub mod cron;
mod history;
mod init;
pub mod kill;
mod output;
pub mod queue;
mod release;
pub mod renew;
mod run;
mod setting;
mod status;

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

pub use setting::{Files, Setting, Takes};

/// What dblock can be asked to do.
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
    /// `dblock cron`, and what is to be done there.
    Cron(Cron),
    /// `dblock queue`, and what is to be done there.
    Queue(Queue),
}

/// What `dblock cron` can be asked to do.
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

/// What `dblock queue` can be asked to do.
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
    /// Adds its arguments and its help.
    define: fn(Command) -> Command,
    settings: &'static [&'static [Setting]],
    /// What clap calls the arguments without an option, in their order.
    arguments: &'static [&'static str],
}

/// A subcommand that has subcommands.
pub struct Group {
    name: &'static str,
    about: &'static str,
    /// In the order of the help.
    subcommands: &'static [Definition],
    help: &'static str,
    /// Adds its subcommands, each of which is defined when it is the one that runs.
    define: fn(Command) -> Command,
    /// Adds its subcommands, all of them defined.
    define_all: fn(Command) -> Command,
}

impl Group {
    fn add_to(&self, command: Command, defined: Defined) -> Command {
        command
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(defined.all(self.subcommands))
            .after_help(self.help)
    }
}

/// When what only its own use and help need is added to a subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defined {
    /// At once.
    Now,
    /// When it is the one that runs ([`Command::defer`]).
    WhenItRuns,
}

impl Defined {
    fn add(self, command: Command, define: fn(Command) -> Command) -> Command {
        match self {
            Self::Now => define(command),
            Self::WhenItRuns => command.defer(define),
        }
    }

    /// These subcommands of a command.
    fn all(self, definitions: &'static [Definition]) -> impl Iterator<Item = Command> {
        let subcommand = move |definition: &Definition| {
            let command = Command::new(definition.name).about(definition.about);
            self.add(command, definition.define)
        };
        definitions.iter().map(subcommand)
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
];

/// In the order of the help, behind the others.
const GROUPS: &[Group] = &[cron::GROUP, queue::GROUP];

/// Settings by their names, each with its value. That of a switch is 1.
pub type Values = Vec<(&'static str, OsString)>;

/// What a command line gives.
#[derive(Debug)]
pub struct CommandLine {
    /// The settings that are given by an option.
    pub settings: Values,
    /// The arguments without an option.
    pub arguments: Vec<OsString>,
}

impl CommandLine {
    /// Takes the value of a setting out of it, or else the default.
    pub fn take(&mut self, setting: &Setting) -> OsString {
        let given = self.take_given(setting);
        given.unwrap_or_else(|| setting.default.unwrap_or_default().into())
    }

    /// Takes the value of a setting out of it, if it is given.
    pub fn take_given(&mut self, setting: &Setting) -> Option<OsString> {
        let mut given = self.settings.iter();
        let place = given.position(|(name, _)| *name == setting.name)?;
        Some(self.settings.remove(place).1)
    }

    /// Whether the command line gives this setting.
    pub fn gives(&self, setting: &str) -> bool {
        self.settings.iter().any(|(name, _)| *name == setting)
    }
}

/// Reads the command line of this process.
///
/// # Errors
/// clap's error, which is also the help or the version if the command line asks for it.
pub fn parse() -> Result<(Subcommand, CommandLine), clap::Error> {
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
    let mut all = definitions.iter();
    let definition = all
        .find(|definition| definition.name == name)
        .expect("clap knows no other");
    let settings = definition.settings.iter().copied().flatten();
    let given = settings.filter_map(|setting| Some((setting.name, value(setting, &mut matches)?)));
    let settings = given.collect();
    let arguments = definition.arguments.iter();
    let arguments = arguments
        .filter_map(|id| matches.remove_many::<OsString>(id))
        .flatten();
    let command_line = CommandLine {
        settings,
        arguments: arguments.collect(),
    };
    Ok((definition.subcommand, command_line))
}

/// The whole command line.
pub fn dblock(defined: Defined) -> Command {
    let groups = GROUPS.iter().map(|group| {
        let command = Command::new(group.name).about(group.about);
        let define = match defined {
            Defined::Now => group.define_all,
            Defined::WhenItRuns => group.define,
        };
        defined.add(command, define)
    });
    Command::new("dblock")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "flock(1) for a fleet: run a command under a lock that excludes on every host with the same MySQL or MariaDB \
             server",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(defined.all(SUBCOMMANDS))
        .subcommands(groups)
}

/// The settings of all subcommands. Of two with one name the first is the one that an option file can give.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    [
        run::WHICH_LOCK,
        run::SETTINGS,
        output::JSON,
        output::VERBOSITY,
        connection::SETTINGS,
        kill::SETTINGS,
        init::SETTINGS,
        acquire::SETTINGS,
        renew::SETTINGS,
        history::SETTINGS,
    ]
    .into_iter()
    .flatten()
}

/// The setting of this name.
pub fn setting(name: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.name == name)
}

/// The default of a setting that has one.
pub fn default_of(name: &str) -> &'static str {
    let default = setting(name).and_then(|setting| setting.default);
    default.unwrap_or_else(|| panic!("{name} has no default in its row"))
}

/// The settings that a variable of the environment can give, and that variable.
pub fn variables() -> impl Iterator<Item = (&'static str, &'static str)> {
    settings().filter_map(|setting| Some((setting.name, setting.variable?)))
}

fn args(settings: &[&'static [Setting]]) -> impl Iterator<Item = Arg> {
    settings.iter().copied().flatten().filter_map(Setting::arg)
}

/// The arguments without an option, any number of them.
fn arguments(id: &'static str, name: &'static str) -> Arg {
    Arg::new(id)
        .value_name(name)
        .value_parser(value_parser!(OsString))
        .num_args(0..)
        .action(ArgAction::Append)
}

/// The value of a setting, if it is given.
fn value(setting: &Setting, matches: &mut ArgMatches) -> Option<OsString> {
    match setting.takes {
        Takes::Secret => None,
        Takes::Value(_) => matches.remove_one(setting.name),
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
