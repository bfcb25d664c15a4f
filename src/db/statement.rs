//! A statement of dblock's: its text, and what its answer means, in one type.

use std::fmt::Write;

use mysql::prelude::FromValue;

use super::fault::Fault;
use crate::base::exit::{Failure, Reason};

/// A statement. Its text begins with a comment that names it, as `/* dblock renew */`, so that whoever reads the server's process
/// list knows it.
pub trait Statement {
    /// What the server's answer says.
    type Answer;

    /// How many rows of the answer are read at most; the others are dropped.
    const MOST_ROWS: usize = 1;

    /// The text.
    fn sql(&self) -> String;

    /// Reads the rows of the answer.
    ///
    /// # Errors
    /// [`Fault::Final`] for a value of a type that is not expected: it is never read as NULL.
    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault>;
}

/// Several statements that go out in one packet, or to a node of Galera [one by one](super::Session::send_one_by_one). Each after
/// the first is carried out only where the one before succeeded.
pub trait Batch {
    /// What the server's answers say.
    type Answer;

    /// The texts. The first begins with a comment that names all of them.
    fn statements(&self) -> Vec<String>;

    /// Reads the answer of each statement that succeeded, in order.
    ///
    /// # Errors
    /// As [`Statement::decode`]; and the `fault` of the one after them, unless the answer does not need it.
    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<Self::Answer, Fault>;
}

/// What the server answers to one of several statements.
#[derive(Debug)]
pub struct Reply {
    /// Its rows.
    pub rows: Vec<Row>,
    /// How many rows it has changed.
    pub changed: u64,
    /// What it gave to `LAST_INSERT_ID`; `None`: nothing.
    pub insert_id: Option<u64>,
}

/// Rows of a list at most, ten for each of more sessions than a server has.
pub const LIST: usize = 200_000;

/// A row of an answer.
#[derive(Debug)]
pub struct Row(pub(super) mysql::Row);

impl Row {
    /// The value of a column, from 0; `None` for NULL, and for a column that is not there, as where a server leaves out what
    /// stands in a version comment.
    ///
    /// # Errors
    /// [`Fault::Final`] for a value of another type.
    pub fn get<T: FromValue>(&self, column: usize) -> Result<Option<T>, Fault> {
        match self.0.get_opt::<Option<T>, usize>(column) {
            None => Ok(None),
            Some(Ok(value)) => Ok(value),
            Some(Err(_)) => {
                let line = "the server's answer has a value of an unexpected type";
                Err(Fault::Final(Failure::new(Reason::Internal, line)))
            }
        }
    }

    /// As [`Row::get`], for a text that others wrote: bytes that are no UTF-8 are replaced.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn text(&self, column: usize) -> Result<Option<String>, Fault> {
        let bytes: Option<Vec<u8>> = self.get(column)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// The first value of an answer; `None` for NULL and where there is no row.
///
/// # Errors
/// As [`Row::get`].
pub fn first_value<T: FromValue>(rows: &[Row]) -> Result<Option<T>, Fault> {
    rows.first().map_or(Ok(None), |row| row.get(0))
}

/// A statement that somebody else wrote, of which nothing is read.
pub struct Plain(pub String);

impl Statement for Plain {
    type Answer = ();

    fn sql(&self) -> String {
        self.0.clone()
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

/// Has the server repeat a number.
pub(super) struct Echo(pub u64);

impl Statement for Echo {
    type Answer = Option<u64>;

    fn sql(&self) -> String {
        format!("/* dblock echo */ SELECT {}", self.0)
    }

    fn decode(&self, rows: &[Row]) -> Result<Option<u64>, Fault> {
        // Whoever answers may not be the server: another value of any type is just not the number.
        Ok(first_value(rows).unwrap_or_default())
    }
}

/// A text as an SQL literal that no `sql_mode` and no character set changes.
pub fn text_literal(text: &str) -> String {
    let mut literal = "_utf8mb4 x'".to_owned();
    for byte in text.bytes() {
        let _ = write!(literal, "{byte:02x}");
    }
    literal.push('\'');
    literal
}

/// The name of a database, quoted.
pub fn quoted_identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
