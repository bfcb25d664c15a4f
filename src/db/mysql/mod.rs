//! MySQL and MariaDB, by the `mysql` crate, which nothing else of dblock knows.

mod account;
mod fault;
mod login;
mod wire;

pub use account::Account;
pub use fault::{NO_PRIVILEGE, NO_TABLE};
