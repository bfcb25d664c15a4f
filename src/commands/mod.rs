//! One file for each subcommand.

pub mod check;
pub mod run;
