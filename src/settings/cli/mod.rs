//! The command line: one file a subcommand, and one table row a setting. Values stay bytes here. A subcommand is defined only if
//! it is the one that runs: to define all of them took a quarter of a start. `crates/generate` compiles this folder, too, so it
//! imports clap and std alone.

pub mod acquire;
mod check;
mod config;
pub mod connection;
mod history;
mod init;
pub mod kill;
mod output;
mod release;
pub mod renew;
mod run;
mod setting;
mod status;

use std::ffi::OsString;

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
}

/// A subcommand.
pub struct Definition {
    subcommand: Subcommand,
    name: &'static str,
    about: &'static str,
    /// Adds its arguments and its help.
    define: fn(Command) -> Command,
    settings: &'static [&'static [Setting]],
    /// What clap calls the arguments without an option, where it takes some.
    arguments: Option<&'static str>,
}

/// In the order of the help.
const SUBCOMMANDS: [Definition; 10] = [
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
        let place = self
            .settings
            .iter()
            .position(|(name, _)| *name == setting.name);
        let given = place.map(|place| self.settings.remove(place).1);
        given.unwrap_or_else(|| setting.default.unwrap_or_default().into())
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
    let mut matches = dblock(Command::defer).try_get_matches()?;
    let (name, mut matches) = matches.remove_subcommand().expect("clap requires one");
    let mut all = SUBCOMMANDS.into_iter();
    let definition = all
        .find(|definition| definition.name == name)
        .expect("clap knows no other");
    let settings = definition.settings.iter().copied().flatten();
    let given = settings.filter_map(|setting| Some((setting.name, value(setting, &mut matches)?)));
    let settings = given.collect();
    let arguments = definition.arguments.and_then(|id| matches.remove_many(id));
    let arguments = arguments.map(Iterator::collect).unwrap_or_default();
    let command_line = CommandLine {
        settings,
        arguments,
    };
    Ok((definition.subcommand, command_line))
}

/// The whole command line. `define` adds to a subcommand what only its own use and help need: at once, or when it is the one
/// that runs ([`Command::defer`]).
pub fn dblock(define: fn(Command, fn(Command) -> Command) -> Command) -> Command {
    let subcommands = SUBCOMMANDS.into_iter().map(|definition| {
        let command = Command::new(definition.name).about(definition.about);
        define(command, definition.define)
    });
    Command::new("dblock")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "flock(1) for a fleet: run a command under a lock that excludes on every host with the same MySQL or MariaDB \
             server",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(subcommands)
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
        Takes::Switch => matches.get_flag(setting.name).then(|| "1".into()),
        Takes::Count => match matches.get_count(setting.name) {
            0 => None,
            count => Some(count.to_string().into()),
        },
    }
}
