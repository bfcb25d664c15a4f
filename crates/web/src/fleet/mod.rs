//! What is known of the fleet.

pub mod data;
mod seen;

pub use seen::{Part, Seen};

#[cfg(test)]
pub mod fixture;
