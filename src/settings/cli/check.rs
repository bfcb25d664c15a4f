//! `dblock check`: whether a server is fit to lock on.

use super::{ASKS_A_SERVER, Definition, Subcommand, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Check,
    name: "check",
    about: "Check whether a server is fit to lock on, and how fast it is",
    settings: &[output::JSON],
    help: HELP,
    ..ASKS_A_SERVER
};

const HELP: &str = "\
It acquires and releases a test lock over two connections. Where dblock's tables exist it does the same with a durable lock.
It leaves nothing behind. For each server that you name it says which locks exclude there. Each finding is ok, warning or unfit.

Exit codes: 0 fit, also with warnings, and also if only durable locks exclude; 78 unfit, or bad configuration; 69 no server in
time; 77 the account was refused; 64 bad usage; 70 internal error; 71 the system refused.";
