//! `dblock release`: release a lock of dblock acquire.

use super::{ASKS_A_SERVER, Definition, Subcommand, TOKEN};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Release,
    name: "release",
    about: "Release a lock that dblock acquire acquired",
    usage: Some("dblock release [OPTIONS] [TOKEN]"),
    arguments: &[TOKEN],
    help: HELP,
    ..ASKS_A_SERVER
};

const HELP: &str = "\
Exit codes: 0 released; 74 the token no longer holds the lock; 69 no server in time; 77 the account was refused; 78 no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";
