//! Drives the built dblock-web, with a dblock that the tests make: what it answers stands in files, and what it was asked in another.

mod access;
mod actions;
mod fleet;
mod harness;
mod hostile;
mod listening;
mod usage;
