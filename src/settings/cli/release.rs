//! `dblock release`: release a lock of dblock acquire.

use super::{Definition, Subcommand, TOKEN, connection, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Release,
    name: "release",
    about: "Release a lock that dblock acquire acquired",
    settings: &[output::VERBOSITY, connection::SETTINGS],
    usage: Some("dblock release [OPTIONS] [TOKEN]"),
    arguments: &[TOKEN],
    help: HELP,
};

const HELP: &str = "\
Exit codes: 0 released; 74 the token no longer holds the lock; 69 no server in time; 77 the account was refused; 78 no
tables, or bad configuration; 64 bad usage; 70 internal error; 71 the system refused.";
