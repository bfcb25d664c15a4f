//! A statement of dblock's: its text, and what its answer means, in one type.

use mysql::prelude::FromValue;

use super::fault::Fault;
use crate::base::exit::{Failure, Reason};

/// A statement. Its text begins with a comment that names it, as `/* dblock renew */`, so that whoever reads the server's process
/// list knows it.
pub trait Statement {
    /// What the server's answer says.
    type Answer;

    /// The text.
    fn sql(&self) -> String;

    /// Reads the rows of the answer.
    ///
    /// # Errors
    /// [`Fault::Final`] for a value of a type that is not expected: it is never read as NULL.
    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault>;
}

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
}
