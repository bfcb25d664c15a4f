//! PostgreSQL, by the messages of the crate `postgres-protocol`.

mod account;
mod end_point;
mod facts;
mod fault;
mod introduction;
mod login;
mod scram;
mod sessions;
pub mod sql;
mod stream;
mod timeline;
mod wire;

pub use account::Account;
pub use facts::{Facts, ask_facts};
pub use fault::{NO_PRIVILEGE, NO_TABLE, TIMELINE};
pub use sessions::ask_sessions;
pub use timeline::{LatestTimeline, Timeline, ask_timeline};
