//! `dblock audit`: what people did.

use super::setting::{Files, SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Definition, Subcommand, output};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Audit,
    name: "audit",
    about: "Show who paused, resumed, triggered, retried, canceled or killed what",
    settings: &[&[LIMIT], output::JSON],
    help: HELP,
    ..ASKS_A_SERVER
};

/// How many are shown. An option file's `limit` is for the history, and does not count here.
pub const LIMIT: Setting = Setting {
    name: "limit",
    short: Some('n'),
    takes: Takes::Value("N"),
    files: Files::No,
    default: Some("20"),
    help: "Only the latest N; 0 shows all",
    ..SETTING
};

const HELP: &str = "\
The latest comes last. All times are in UTC, by the server's clock. BY is the user of the operating system and the host. What is
older than the history is kept (dblock init --keep) is deleted when something is added. It needs dblock's tables of version 6
(dblock init). SELECT on them is enough, and a replica works, too.

Exit codes: 0, also if there is nothing; 69 no server in time; 77 the account was refused; 78 no tables, or bad configuration;
64 bad usage; 70 internal error; 71 the system refused.";
