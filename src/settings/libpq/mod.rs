//! The settings of PostgreSQL, as libpq's users have them: URLs, variables, service files, password files. `psql` is the measure; where
//! dblock differs, the place says so.

mod connection;
mod files;
mod hosts;
mod parameters;
mod password_file;
pub mod service;
mod tls;
pub mod url;

pub use connection::read;
