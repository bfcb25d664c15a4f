//! What every process with a session shares, whatever it keeps there: its loop, the process that has started it and runs the commands, the
//! board of those commands, and a connection.

mod board;
mod connection;
mod duty;
mod lateness;
mod parent;
mod pause;

pub use board::{Board, Place};
pub use connection::{Connection, NoAnswer, capped, has_ended};
pub use duty::{Duty, Lost, Over};
pub use lateness::{Lateness, Vigil};
pub use parent::Parent;
pub use pause::{LONGEST_PAUSE, SHORTEST_PAUSE, sleep_longer};
