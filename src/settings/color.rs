//! When there are colors.

use std::env;
use std::io::{self, IsTerminal};

use super::value::one_of;
use crate::base::terminal::is_plain;

/// When a table has colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    Always,
    Never,
}

impl Color {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        one_of(
            &[
                ("auto", Self::Auto),
                ("always", Self::Always),
                ("never", Self::Never),
            ],
            text,
        )
    }

    /// Whether stdout gets some.
    pub fn is_shown(self) -> bool {
        // As no-color.org has it: any value but an empty one.
        let is_unwanted = || env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Self::Auto => io::stdout().is_terminal() && !is_unwanted() && !is_plain(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}
