//! An argument without an option.

use clap::{Arg, ArgAction, value_parser};

/// An argument without an option.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    /// clap's name of it.
    pub id: &'static str,
    /// Its name in the help.
    shown: &'static str,
    number: Number,
    help: &'static str,
}

/// How often an argument may stand on a command line.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// Once.
    One,
    /// Once, or not at all.
    AtMostOne,
    /// Any number of times, also 0.
    Any,
    /// Any number of times, but behind `--` alone.
    Last,
    /// At least once.
    OneOrMore,
    /// At least once, unless this option is given.
    OneOrMoreUnless(&'static str),
    /// At least once: all that follows is a command with its arguments.
    Command,
    /// As `Command`, but it may be missing.
    CommandIfAny,
}

impl Argument {
    /// An argument.
    pub const fn new(
        id: &'static str,
        shown: &'static str,
        number: Number,
        help: &'static str,
    ) -> Self {
        Self {
            id,
            shown,
            number,
            help,
        }
    }

    /// The same for clap.
    pub fn arg(&self) -> Arg {
        let one = Arg::new(self.id)
            .value_name(self.shown)
            .value_parser(value_parser!(std::ffi::OsString))
            .help(self.help);
        let many = |arg: Arg| arg.num_args(0..).action(ArgAction::Append);
        let some = |arg: Arg| many(arg).num_args(1..).required(true);
        match self.number {
            Number::One => one.required(true),
            Number::AtMostOne => one.num_args(0..=1),
            Number::Any => many(one),
            Number::Last => many(one).last(true),
            Number::OneOrMore => some(one),
            Number::OneOrMoreUnless(option) => many(one).required_unless_present(option),
            Number::Command => some(one).trailing_var_arg(true),
            Number::CommandIfAny => many(one).trailing_var_arg(true),
        }
    }
}
