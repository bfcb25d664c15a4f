//! `dblock run`: one command under one lock. The supervisor, which people see, runs the command. Its keeper, a separate process, has the
//! session and keeps the lock. The supervisor knows no SQL and never waits for a server.

mod job;
mod keeper;
mod message;
mod supervisor;
mod task;

pub use job::{Job, TableUse};
pub use supervisor::{Conclusion, Fallback, supervise};
