//! `dblock queue put`: puts jobs into a queue.

use super::super::setting::{SETTING, Setting, Takes};
use super::super::{ASKS_A_SERVER, Argument, Definition, Number, Queue, Subcommand};
use super::QUEUE;

/// The subcommand.
pub const DEFINITION: Definition = Definition {
    subcommand: Subcommand::Queue(Queue::Put),
    name: "put",
    about: "Put jobs into a queue, and print their ids",
    settings: &[SETTINGS],
    arguments: &[
        QUEUE,
        Argument::new(
            "payloads",
            "PAYLOAD",
            Number::Any,
            "What the command gets on stdin; each is a job. If none is given, all of stdin is one job. Write -- before a payload that begins with a dash",
        ),
    ],
    help: HELP,
    ..ASKS_A_SERVER
};

/// Each line of stdin is a job.
pub const LINES: Setting = Setting {
    name: "lines",
    help: "Each line of stdin is a job",
    conflicts: &["null", "file"],
    ..SETTING
};

/// Each record of stdin is a job.
pub const NULL: Setting = Setting {
    name: "null",
    help: "Each record of stdin that ends in NUL is a job",
    conflicts: &["file"],
    ..SETTING
};

/// Each payload is the name of a file.
pub const FILE: Setting = Setting {
    name: "file",
    help: "Each PAYLOAD is the name of a file whose content is the payload; - is stdin",
    ..SETTING
};

/// Due after this delay.
pub const DELAY: Setting = Setting {
    name: "delay",
    takes: Takes::Value("DURATION"),
    help: "Due after this time from now, by the server's clock",
    conflicts: &["at"],
    ..SETTING
};

/// Due at this time.
pub const AT: Setting = Setting {
    name: "at",
    takes: Takes::Value("TIME"),
    help: "Due at this time, by the server's clock: a time in UTC (2026-11-22 or '2026-11-22 08:30'), or one with its offset \
           (2026-11-22T08:30:00+01:00)",
    ..SETTING
};

/// Jobs with a lower number come first.
pub const PRIORITY: Setting = Setting {
    name: "priority",
    takes: Takes::Value("N"),
    default: Some("0"),
    help: "Jobs with a lower number run first, -2147483648 to 2147483647",
    ..SETTING
};

/// At most one unfinished job with this key.
pub const KEY: Setting = Setting {
    name: "key",
    takes: Takes::Value("KEY"),
    help: "Allow one job with this key at a time: if one exists that is not done, nothing is put, and its id is printed. 1 to 200 \
           bytes",
    conflicts: &["lines", "null"],
    ..SETTING
};

/// Due again after this period.
pub const EVERY: Setting = Setting {
    name: "every",
    takes: Takes::Value("DURATION"),
    help: "Repeat: the job is due again this long after it was due, until it is canceled",
    ..SETTING
};

const SETTINGS: &[Setting] = &[LINES, NULL, FILE, DELAY, AT, PRIORITY, KEY, EVERY];

const HELP: &str = "\
A payload has up to 16 MB of any bytes. Lines are put as they arrive, some hundred in one commit. The id of a job is printed
after its commit. If the server is away for longer than --connect-timeout, or at a signal, a line on stderr says how many jobs
were put and how to continue after them. put wakes an idle worker.

Exit codes: 0 all are put, or there is a job with that key; 69 no server in time; 77 the account was refused; 78 there is no such
queue, no tables, or bad configuration; 74 the server has lost what it had committed; 64 bad usage, or a payload that is too
long; 70 internal error, or the ids cannot be printed; 71 the system refused.

Examples:
  dblock queue put mails jane@example.org joe@example.org
  mysql -N -e 'SELECT id FROM shop.orders' | dblock queue put orders --lines --priority 10
  dblock queue put feeds --every 5m --key example.org https://example.org/feed.xml";
