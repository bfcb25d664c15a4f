//! `dblock acquire`: a lock that spans several commands of a script.

use super::setting::{Files, SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Definition, Subcommand, output, run};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Acquire,
    name: "acquire",
    about: "Acquire a lock that spans several commands of a script, and print its token",
    settings: &[run::WHICH_LOCK, SETTINGS, output::JSON],
    usage: Some("dblock acquire [OPTIONS] --name <NAME>"),
    help: HELP,
    ..ASKS_A_SERVER
};

/// The TTL of the lock. An option file's `ttl` and `wait` are for runs, and do not count here.
pub const TTL: Setting = Setting {
    name: "ttl",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("10m"),
    help: "How long the lock is held unless it is renewed: whole seconds, 4s to 30d",
    ..SETTING
};

/// How long to wait for the lock.
pub const WAIT: Setting = Setting {
    name: "wait",
    short: Some('w'),
    takes: Takes::Value("DURATION"),
    files: Files::No,
    default: Some("0"),
    help: "How long to wait for the lock: 0 does not wait, forever has no limit",
    ..SETTING
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[
    WAIT,
    TTL,
    Setting {
        name: "owner",
        takes: Takes::Value("ID"),
        help: "Take over at once a lock that was acquired with the same ID. It gets a new token, and the old one becomes \
               invalid. For a script that may be restarted, for example by a CI server",
        ..SETTING
    },
];

const HELP: &str = "\
It needs dblock's tables (dblock init). The lock is held until dblock release TOKEN, or until its TTL expires. dblock renew
TOKEN extends it once; dblock run --token TOKEN -- COMMAND renews it while COMMAND runs. It excludes dblock acquire and dblock
run --durable on every host. It waits for a dblock run without --durable, but does not exclude one. A token is one word, and
needs no quotes in a shell.

Exit codes: 0 acquired, with the token on stdout; 75 the lock is taken; 74 it was lost before the token was printed; 69 no server
in time; 77 the account was refused; 78 no tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system
refused.

Example:
  token=$(dblock acquire --name deploy --wait 10m --ttl 30m) || exit
  trap 'dblock release \"$token\"' EXIT
  dblock run --token \"$token\" -- ./migrate
  ./restart-services";
