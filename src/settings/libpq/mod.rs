//! The settings of PostgreSQL, as libpq's users have them: variables, service files, password files. `psql` is the measure; where
//! dblock differs, the place says so.

mod connection;
mod files;
mod hosts;
mod password_file;
pub mod service;
mod tls;

pub use connection::read;
