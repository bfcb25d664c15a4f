//! Drives the built program as a user does, against real MariaDB and MySQL servers and against scripted ones.

#![allow(
    unreachable_pub,
    reason = "a test binary exports nothing: pub is what the harness offers to the tests"
)]

mod harness;

mod authentication;
mod connection;
mod cron;
mod exclusion;
mod exit_codes;
mod hostile;
mod inherited;
mod lock_answers;
mod messages;
mod names;
mod process_one;
mod sigkill;
mod signals;
mod terminal;
mod usage;
mod waiting;
