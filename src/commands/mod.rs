//! One file for each subcommand. A subcommand that asks a server is a [`question`], and prints its answer by [`output`] and [`table`].

pub mod acquire;
pub mod audit;
pub mod check;
pub mod config;
pub mod cron;
pub mod history;
pub mod init;
pub mod kept_output;
pub mod kill;
pub mod metrics;
mod of_token;
pub mod output;
mod question;
pub mod queue;
pub mod release;
pub mod renew;
pub mod run;
pub mod status;
mod table;
mod watch;
pub mod web;
