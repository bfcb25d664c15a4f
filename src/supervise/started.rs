//! A command, its output, and what it was started for.

use std::ops::{Deref, DerefMut};

use super::command::Command;
use super::output::Output;

/// A command that was started for `T`.
pub struct Started<T> {
    /// The command itself.
    pub running: Command,
    /// What it writes.
    pub output: Output,
    /// What it was started for.
    pub purpose: T,
}

impl<T> Deref for Started<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.purpose
    }
}

impl<T> DerefMut for Started<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.purpose
    }
}
