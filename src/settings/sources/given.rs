//! A value, and where it was given.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use zeroize::Zeroizing;

use crate::base::exit::{Failure, Reason};
use crate::settings::option_file::{Place, error_at, expanded};

/// A value, and where it was given.
#[derive(Debug, Clone)]
pub struct Given {
    /// The setting that gave it; for a part of a URL that is `url`.
    pub name: String,
    /// The text. It may be or contain a password; empty for a password in an option file.
    pub value: Zeroizing<Vec<u8>>,
    /// Where it was given.
    pub origin: Origin,
}

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// On the command line, by an option.
    Flag,
    /// On the command line, without an option.
    Argument,
    /// In a variable of the environment.
    Variable(&'static str),
    /// In an option file.
    File(Place),
    /// In a service file of libpq's.
    ServiceFile(Place),
}

impl Given {
    /// A value of the setting `name`.
    pub fn new(name: &str, value: OsString, origin: Origin) -> Self {
        Self {
            name: name.to_owned(),
            value: Zeroizing::new(value.into_vec()),
            origin,
        }
    }

    /// The value of a variable. An empty one counts as not set, as crontabs and unit files cannot unset variables.
    pub fn from_variable(name: &str, variable: &'static str) -> Option<Self> {
        let value = env::var_os(variable).filter(|value| !value.is_empty())?;
        Some(Self::new(name, value, Origin::Variable(variable)))
    }

    /// The place, for an error or a table.
    pub fn place(&self) -> String {
        match &self.origin {
            Origin::Flag => format!("--{}", self.name),
            Origin::Argument => self.name.clone(),
            Origin::Variable(variable) => (*variable).to_owned(),
            Origin::File(place) | Origin::ServiceFile(place) => place.to_string(),
        }
    }

    /// The error for a wrong value: a usage error, or a configuration error in a file.
    pub fn wrong(&self, why: &str) -> Failure {
        match &self.origin {
            Origin::File(place) | Origin::ServiceFile(place) => {
                error_at(place, &format!("{}: {why}", self.name))
            }
            _ => Failure::new(Reason::Usage, format!("{}: {why}", self.place())),
        }
    }

    /// The value as text.
    ///
    /// # Errors
    /// As [`Given::wrong`] if it is not UTF-8.
    pub fn text(&self) -> Result<&str, Failure> {
        str::from_utf8(&self.value).map_err(|_| self.wrong("the value is not UTF-8"))
    }

    /// The value as a path.
    pub fn path(&self) -> PathBuf {
        expanded(OsString::from_vec(self.value.to_vec()))
    }

    /// Another value from the same place.
    pub fn with(&self, value: &[u8]) -> Self {
        Self {
            value: Zeroizing::new(value.to_vec()),
            ..self.clone()
        }
    }

    /// The value, parsed by `reader`.
    ///
    /// # Errors
    /// As [`Given::wrong`], with the reader's error, or if it is not UTF-8.
    pub fn read<T>(&self, reader: impl FnOnce(&str) -> Result<T, String>) -> Result<T, Failure> {
        reader(self.text()?).map_err(|why| self.wrong(&why))
    }
}
