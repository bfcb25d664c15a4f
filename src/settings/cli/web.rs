//! `dblock web`: the page. dblock hands the whole command line on to `dblock-web`, which reads it by this file.

use std::ffi::OsString;

use clap::Command;

use super::setting::{Files, SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Argument, CommandLine, Definition, Number, Subcommand, connection};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Web,
    name: NAME,
    about: "Show locks, the crontab, queues and the history in a browser",
    // Its own --password-file hides that of the connection.
    settings: &[SETTINGS, connection::SETTINGS],
    common: &[],
    arguments: &[Argument::new(
        "option",
        "OPTION",
        Number::Last,
        "Further options of each dblock that it runs, such as --password-file FILE: the password of the server's account",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

/// How it is typed.
pub const NAME: &str = "web";

/// The fields that these rows share: an option file has none of them.
const OF_THE_PAGE: Setting = Setting {
    files: Files::No,
    ..SETTING
};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "listen",
        takes: Takes::Value("ADDR:PORT|unix:PATH"),
        default: Some("127.0.0.1:8080"),
        help: "Where to listen. Port 0 is any that is free. unix: a socket that only this user can connect to. Any address but this \
               host's own 127.0.0.1 and ::1 needs --password-file, and TLS or --behind-proxy",
        ..OF_THE_PAGE
    },
    Setting {
        name: "allow-actions",
        help: "Let those who look also pause, resume, trigger, retry, cancel and kill. Without it nothing can be changed",
        ..OF_THE_PAGE
    },
    Setting {
        name: "show-data",
        help: "Also show the keys and errors of a queue's jobs, and the errors and output of runs",
        ..OF_THE_PAGE
    },
    Setting {
        name: "password-file",
        takes: Takes::Value("FILE"),
        help: "A file whose first line is the password of the page. Only its user and its group may be able to read it",
        ..OF_THE_PAGE
    },
    Setting {
        name: "tls-cert",
        takes: Takes::Value("FILE"),
        help: "A PEM file with the certificate of the page, followed by the intermediate ones",
        conflicts: &["behind-proxy"],
        ..OF_THE_PAGE
    },
    Setting {
        name: "tls-key",
        takes: Takes::Value("FILE"),
        help: "A PEM file with the private key of that certificate",
        conflicts: &["behind-proxy"],
        ..OF_THE_PAGE
    },
    Setting {
        name: "behind-proxy",
        help: "A proxy in front of it does the TLS. Needs --password-file",
        ..OF_THE_PAGE
    },
    Setting {
        name: "host-name",
        takes: Takes::List("NAME"),
        help: "A name under which the page is opened, besides localhost, this host's name and addresses; several separated by \
               commas. A proxy hands on the name that was typed",
        ..OF_THE_PAGE
    },
    Setting {
        name: "refresh",
        takes: Takes::Value("DURATION"),
        default: Some("5s"),
        help: "How often the server is asked while somebody looks: 1s to 1h",
        ..OF_THE_PAGE
    },
    Setting {
        name: "dblock",
        takes: Takes::Value("PATH"),
        help: "The dblock to run, instead of the one beside dblock-web or else in PATH",
        ..OF_THE_PAGE
    },
];

const HELP: &str = "\
It is a program of its own, in the Debian package dblock-web. The first line that it prints is the URL to open, with a token. It
speaks to no database: while somebody looks, it runs dblock status, cron list, queue status and history, with the connection
options above. docs/web.md has a systemd unit, nginx in front, and ssh -L.

Exit codes: 0 ended by SIGTERM or SIGINT; 78 a password file, certificate or connection setting that cannot be used; 71 it
cannot listen there; 64 bad usage; 70 internal error; 126 dblock-web cannot be executed; 127 it or dblock is not installed.

Examples:
  dblock web --url mysql://watcher@db1,db2/
  dblock web --listen unix:/run/user/1000/dblock.sock
  dblock web --listen 0.0.0.0:8443 --password-file pw --tls-cert cert.pem --tls-key key.pem --allow-actions";

/// Reads the command line behind `dblock web`.
///
/// # Errors
/// clap's error, which is also the help or the version if the command line asks for it.
#[allow(dead_code, reason = "crates/web needs it")]
pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<CommandLine, clap::Error> {
    let command = Command::new("dblock web")
        .version(env!("CARGO_PKG_VERSION"))
        .about(DEFINITION.about);
    let command = DEFINITION.define(command);
    let name = OsString::from("dblock web");
    let mut matches = command.try_get_matches_from([name].into_iter().chain(arguments))?;
    Ok(DEFINITION.read(&mut matches))
}
