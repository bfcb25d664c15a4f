//! `dblock renew`: extends a lock of dblock acquire.

use super::setting::{Files, SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Definition, Subcommand, TOKEN};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Renew,
    name: "renew",
    about: "Renew a lock that dblock acquire acquired",
    settings: &[SETTINGS],
    usage: Some("dblock renew [OPTIONS] [TOKEN]"),
    arguments: &[TOKEN],
    help: HELP,
    ..ASKS_A_SERVER
};

/// The new TTL. An option file's `ttl` is for runs, and does not count here.
pub const TTL: Setting = Setting {
    name: "ttl",
    takes: Takes::Value("DURATION"),
    files: Files::No,
    help: "How long to hold the lock from now on: whole seconds, 4s to 30d; the TTL of dblock acquire if not given",
    ..SETTING
};

/// The settings of this subcommand alone.
pub const SETTINGS: &[Setting] = &[TTL];

const HELP: &str = "\
The lock is held for its TTL from now on, or for the --ttl given here. A lock that has expired can still be renewed if nobody
else has acquired it since.

Exit codes: 0 renewed; 74 the token no longer holds the lock; 69 no server in time; 77 the account was refused; 78 no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";
