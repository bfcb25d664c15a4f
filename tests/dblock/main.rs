//! Drives the built program as a user does, against real MariaDB and MySQL servers and against scripted ones.

#![allow(
    unreachable_pub,
    reason = "a test binary exports nothing: pub is what the harness offers to the tests"
)]

mod harness;

// Tests start in the order of their names, and these take longest.
#[path = "soak.rs"]
mod a_soak;

#[path = "cron_soak.rs"]
mod a_cron_soak;

#[path = "queue_soak.rs"]
mod a_queue_soak;

mod audit;
mod authentication;
mod check;
mod clusters;
mod completions;
mod connection;
mod cron;
mod cron_attempts;
mod cron_check;
mod cron_clusters;
mod cron_faults;
mod cron_grammar;
mod cron_leases;
mod cron_memory;
mod cron_rules;
mod cron_run;
mod cron_service;
mod cron_together;
mod documents;
mod documents_hostile;
mod done;
mod durable;
mod durable_clusters;
mod durable_kill;
mod durable_status;
mod exclusion;
mod exit_codes;
mod history;
mod history_plans;
mod holding;
mod hooks;
mod hostile;
mod hostile_bounds;
mod inherited;
mod init;
mod json;
mod kept_output;
mod kill;
mod lease;
mod lease_faults;
mod lease_network;
mod libpq_settings;
mod lock_answers;
mod messages;
mod metrics;
mod names;
mod once;
mod option_files;
mod package;
mod pools;
mod postgres_failover;
mod postgres_hostile;
mod postgres_keys;
mod postgres_login;
mod postgres_loss;
mod postgres_page;
mod postgres_roles;
mod postgres_servers;
mod postgres_tables;
mod postgres_versions;
mod postgres_waiting;
mod process_one;
mod progress;
mod queue_admin;
mod queue_clusters;
mod queue_create;
mod queue_faults;
mod queue_growth;
mod queue_plans;
mod queue_put;
mod queue_work;
mod report;
mod rooms;
mod scripts;
mod secrets;
mod semaphore;
mod setups;
mod sigkill;
mod signals;
mod status;
mod terminal;
mod time_limits;
mod tls;
mod tokens;
mod usage;
mod waiting;
mod watch;
mod web;
