//! Forks a process for work that may hang, panic or abort, with a link to it and limits on it. It holds no locks.

pub mod client;
pub mod link;
pub mod peer;
pub mod process;
pub mod query;
pub mod restarts;
