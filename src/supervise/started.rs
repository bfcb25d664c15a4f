//! A command of a process that runs many.

use std::ops::{Deref, DerefMut};

use super::command::Command;
use super::output::Output;

/// Why dblock ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It has reached its timeout.
    TimedOut,
    /// The process is ending.
    Stopped,
    /// Its lock was lost, or somebody ends it with `dblock kill`.
    LockLost,
    /// The server has not confirmed its lease in time, or the lease was lost.
    LeaseOver,
}

/// A command that was started for `T`.
pub struct Started<T> {
    /// The command itself.
    pub running: Command<Cause>,
    /// What it writes.
    pub output: Output,
    /// What it was started for.
    pub purpose: T,
}

impl<T> Started<T> {
    /// Why dblock ends or has ended it; `None`: it does not.
    pub fn cause(&self) -> Option<Cause> {
        if self.running.was_killed() {
            return Some(Cause::LeaseOver);
        }
        self.running.cause()
    }
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
