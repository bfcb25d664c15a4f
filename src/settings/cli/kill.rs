//! `dblock kill`: kills the holder of a lock.

use std::time::Duration;

use super::run::KEY;
use super::setting::{Files, SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Argument, Definition, Number, Subcommand};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Kill,
    name: "kill",
    about: "End the holder of a lock, and its command",
    settings: &[SETTINGS],
    usage: Some("dblock kill [OPTIONS] <NAME>[#<SLOT>]"),
    arguments: &[Argument::new(
        "holder",
        "NAME[#SLOT]",
        Number::One,
        "The lock, and the slot if several are held: backup#2",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

/// How long to wait for the end of the command. An option file's `wait` is for runs, and does not count here.
pub const WAIT: Setting = Setting {
    name: "wait",
    short: Some('w'),
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("30s"),
    help: "How long to wait for the holder's command to end: 0 does not wait; forever has no limit, except for a holder without \
           a durable lock that does not answer: its TTL. The holder must answer within the connect timeout",
    ..SETTING
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[
    WAIT,
    KEY,
    Setting {
        name: "force",
        help: "Take a durable lock from its holder at once, without asking it. Use it only if you know that the host is dead",
        ..SETTING
    },
    Setting {
        name: "dry-run",
        help: "Show which holder would be ended, and end none",
        ..SETTING
    },
];

/// Time for everything but connecting and waiting for the command's end. It includes waiting for another killer's marker.
const BESIDES: Duration = Duration::from_secs(20);

/// The longest that it takes, with these limits for connecting and for the command's end. `dblock web` gives it longer than that.
pub fn longest(connect_timeout: Duration, wait: Duration) -> Duration {
    let connecting = connect_timeout.saturating_mul(2);
    connecting.saturating_add(wait).saturating_add(BESIDES)
}

const HELP: &str = "\
The holder's dblock ends its command with SIGTERM, then SIGKILL, and exits with 74. It does not reacquire the lock, whatever
its --on-lock-lost. Nobody can acquire the slot until the command has ended. A holder that is another program only loses its
session. A lock of dblock acquire, and a durable lock that has expired, are freed at once.

Exit codes: 0, also if nobody holds the lock; 75 the command was not known to have ended in time; 77 this account may not
end that session; 69 no server in time; 78 bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";
