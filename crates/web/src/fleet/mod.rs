//! What is known of the fleet.

mod answers;
pub mod data;
pub mod dblock;
mod pace;
mod poller;
pub mod questions;
mod runs;
mod seen;

pub use poller::Fleet;
pub use seen::{FRESH, Part, Seen};

#[cfg(test)]
pub mod fixture;
