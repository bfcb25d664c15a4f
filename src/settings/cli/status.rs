//! `dblock status`: who holds a lock.

use super::run::KEY;
use super::{ASKS_A_SERVER, Argument, Definition, Number, Subcommand, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Status,
    name: "status",
    about: "Show who holds a lock, who waits for it, and for how long",
    settings: &[&[KEY], output::JSON, &[output::WATCH], output::COLOR],
    arguments: &[Argument::new(
        "names",
        "NAME",
        Number::Any,
        "The locks to show; all that this account can see if not given",
    )],
    help: HELP,
    ..ASKS_A_SERVER
};

const HELP: &str = "\
It acquires no lock. It says what the server hides from this account, and which privilege or setting would show it.

Exit codes: 0, also if nobody holds the lock; 69 no server in time; 77 the account was refused; 78 bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";
