//! The base of every other room: clocks, exit codes, the log, texts, values, lists, files and processes. Imports no other room.

pub mod children;
pub mod clock;
pub mod descriptors;
pub mod exit;
pub mod file;
pub mod hooks;
pub mod list;
pub mod log;
pub mod poll;
pub mod processes;
pub mod progress;
pub mod random;
pub mod shared_memory;
pub mod static_glibc;
pub mod terminal;
pub mod text;
pub mod user;
pub mod value;
