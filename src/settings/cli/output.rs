//! The settings of what dblock prints.

use super::setting::{Files, SETTING, Setting, Takes};

/// For the subcommands that print a table.
pub const JSON: &[Setting] = &[Setting {
    name: "json",
    help: "Print JSON instead of the table",
    ..SETTING
}];

/// For those whose table can be followed.
pub const WATCH: Setting = Setting {
    name: "watch",
    takes: Takes::ValueOr("DURATION", "2s"),
    files: Files::No,
    help: "Show the table again and again on the terminal, every DURATION: 100ms to 1d, 2s if none is given. q or Ctrl-C ends it",
    conflicts: &["json"],
    ..SETTING
};

/// For those whose table has results.
pub const COLOR: &[Setting] = &[Setting {
    name: "color",
    takes: Takes::Value("auto|always|never"),
    default: Some("auto"),
    help: "Show results in colors: auto does on a terminal, unless NO_COLOR is set. The words say the same",
    ..SETTING
}];

/// How much is logged on stderr.
pub const VERBOSITY: &[Setting] = &[
    Setting {
        name: "quiet",
        short: Some('q'),
        help: "Log errors only",
        conflicts: &["verbose"],
        ..SETTING
    },
    Setting {
        name: "verbose",
        short: Some('v'),
        takes: Takes::Count,
        help: "Log each step and how long it took; given twice, log every statement, but never a password",
        ..SETTING
    },
];
