//! A statement: its text, and the meaning of its answer, in one type.

use std::fmt::Write;

use mysql::prelude::FromValue;

use super::fault::Fault;
use crate::base::exit::{Failure, Reason};

/// A statement. Its text begins with a comment that names it, such as `/* dblock renew */`, for readers of the server's process list.
pub trait Statement {
    /// The answer.
    type Answer;

    /// The most rows of the answer that are read; the others are dropped.
    const MOST_ROWS: usize = 1;

    /// The text.
    fn sql(&self) -> String;

    /// Reads the rows of the answer.
    ///
    /// # Errors
    /// [`Fault::Final`] for a value of an unexpected type: it is never read as NULL.
    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault>;
}

/// Several statements in one packet, or for a node of Galera [one by one](super::Session::send_one_by_one). The server runs each only if
/// the one before succeeded.
pub trait Batch {
    /// The answer.
    type Answer;

    /// The texts. The first begins with a comment that names all of them.
    fn statements(&self) -> Vec<String>;

    /// Reads the answer of each statement that succeeded, in order.
    ///
    /// # Errors
    /// As [`Statement::decode`]. Also the `fault` of the next statement, unless the answer does not need that one.
    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<Self::Answer, Fault>;
}

/// The server's answer to one of several statements.
#[derive(Debug)]
pub struct Reply {
    /// Its rows.
    pub rows: Vec<Row>,
    /// How many rows it has changed.
    pub changed: u64,
    /// The `LAST_INSERT_ID` that it set; `None`: none.
    pub insert_id: Option<u64>,
}

/// The most rows of a list: ten for each of more sessions than a server has.
pub const LIST: usize = 200_000;

/// A row of an answer.
#[derive(Debug)]
pub struct Row(pub(super) mysql::Row);

impl Row {
    /// The value of a column, from 0; `None` for NULL, and for a missing column, such as one in a version comment that the server
    /// ignores.
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

    /// As [`Row::get`], for a text that others wrote: invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn text(&self, column: usize) -> Result<Option<String>, Fault> {
        let bytes: Option<Vec<u8>> = self.get(column)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// The first value of an answer; `None` for NULL, and if there is no row.
///
/// # Errors
/// As [`Row::get`].
pub fn first_value<T: FromValue>(rows: &[Row]) -> Result<Option<T>, Fault> {
    rows.first().map_or(Ok(None), |row| row.get(0))
}

/// A statement that the caller wrote, without an answer.
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
        // It may not be the server that answers: a value of any other type is just not the number.
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
