//! Forking a process for work that may hang, break or abort; the link to it, and its limits. It knows no lock.

pub mod link;
pub mod process;
pub mod query;
