//! A statement: its text, and the meaning of its answer, in one type. Replaced by [`Ask`].

use super::ask::{self, Ask};
use super::fault::Fault;
use super::row::{Row, Rows, Value};

pub use super::ask::Reply;

/// A statement. Its text begins with a comment that names it, such as `/* dblock renew */`, for readers of the server's process list.
pub trait Statement {
    /// The answer.
    type Answer;

    /// The most rows of the answer that are read; the others are dropped.
    const MOST_ROWS: usize = 1;

    /// The same.
    fn most_rows(&self) -> usize {
        Self::MOST_ROWS
    }

    /// The text.
    fn sql(&self) -> String;

    /// Reads the rows of the answer.
    ///
    /// # Errors
    /// [`Fault::Final`] for a value of an unexpected type: it is never read as NULL.
    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault>;
}

impl<T> Statement for Ask<'_, T> {
    type Answer = T;

    fn most_rows(&self) -> usize {
        self.most_rows()
    }

    fn sql(&self) -> String {
        self.sql().to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<T, Fault> {
        self.read(Rows(rows))
    }
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

impl<T> Batch for ask::Batch<'_, T> {
    type Answer = T;

    fn statements(&self) -> Vec<String> {
        self.statements().to_vec()
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<T, Fault> {
        self.answer(replies, fault)
    }
}

impl Row {
    /// The value of a column, from 0; `None` for NULL, and for a missing column.
    ///
    /// # Errors
    /// [`Fault::Final`] for a value of another type.
    pub fn old<T: Value>(&self, column: usize) -> Result<Option<T>, Fault> {
        self.at(column)
    }

    /// As [`Row::old`], for a text.
    ///
    /// # Errors
    /// As [`Row::old`].
    pub fn text(&self, column: usize) -> Result<Option<String>, Fault> {
        self.at(column)
    }
}

/// The first value of an answer; `None` for NULL, and if there is no row.
///
/// # Errors
/// As [`Row::get`].
pub fn first_value<T: Value>(rows: &[Row]) -> Result<Option<T>, Fault> {
    rows.first().map_or(Ok(None), |row| row.at(0))
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
