//! `dblock metrics`: what Prometheus and its like collect.

use super::setting::{Files, SETTING, Setting, Takes};
use super::{ASKS_A_SERVER, Definition, Subcommand};

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Metrics,
    name: "metrics",
    about: "Print what Prometheus collects: locks, jobs of the crontab, queues, and the server",
    settings: &[SETTINGS],
    help: HELP,
    ..ASKS_A_SERVER
};

/// The most locks, jobs and queues. An option file's `limit` is for the history, and does not count here.
pub const LIMIT: Setting = Setting {
    name: "limit",
    takes: Takes::Value("N"),
    files: Files::No,
    default: Some("1000"),
    help: "At most N locks, N jobs of the crontab and N queues, by name; 0 is no limit. dblock_omitted counts the others",
    ..SETTING
};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "output",
        short: Some('o'),
        takes: Takes::Value("FILE"),
        files: Files::No,
        help: "Write to FILE, which is replaced in one step, as the textfile collector of Prometheus' node_exporter needs it; - is \
               stdout",
        ..SETTING
    },
    LIMIT,
];

const HELP: &str = "\
The format is OpenMetrics, and also Prometheus' own text format. All times are by the server's clock. What the server lacks is
left out: the crontab and the queues need dblock's tables (dblock init). SELECT on them is enough. Of a queue's jobs in each state
no more than 10000 are counted. If no server answers, FILE says dblock_up 0 and nothing else but dblock_build_info, and stdout
gets nothing.

Exit codes: 0; 69 no server in time; 77 the account was refused; 78 bad configuration; 64 bad usage; 70 internal error; 71 the
system refused, or FILE cannot be written.";
