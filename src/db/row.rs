//! Rows of an answer, and how their values are read: by name and type. A value of an unexpected type is an error, and so is NULL where
//! none is expected.

use std::ops::Deref;
use std::rc::Rc;

use super::fault::Fault;
use super::sql::time;
use crate::base::exit::{Failure, Reason};
use crate::base::text::ServerTime;

/// A row of an answer.
#[derive(Debug)]
pub struct Row {
    /// The names of the columns, which all rows of an answer share.
    pub(super) columns: Rc<[String]>,
    /// The values, as text; `None`: NULL.
    pub(super) values: Vec<Sent>,
}

/// A value as a server sent it: its text; `None`: NULL.
pub(super) type Sent = Option<Vec<u8>>;

/// What a column is read as. A number must fit, and a flag is 0 or 1. In a text, which others may have written, invalid UTF-8 is replaced.
/// An `Option` is for a column that may be NULL.
pub trait Value: Sized {
    /// Reads the text of a value; `None`: it is of another type.
    fn read(text: &[u8]) -> Option<Self>;

    /// Reads NULL; `None`: it must not be NULL.
    fn null() -> Option<Self> {
        None
    }
}

impl<T: Value> Value for Option<T> {
    fn read(text: &[u8]) -> Option<Self> {
        T::read(text).map(Some)
    }

    fn null() -> Option<Self> {
        Some(None)
    }
}

impl Value for Vec<u8> {
    fn read(text: &[u8]) -> Option<Self> {
        Some(text.to_vec())
    }
}

impl Value for String {
    fn read(text: &[u8]) -> Option<Self> {
        Some(Self::from_utf8_lossy(text).into_owned())
    }
}

impl Value for bool {
    fn read(text: &[u8]) -> Option<Self> {
        match text {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => None,
        }
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {
        $(impl Value for $type {
            fn read(text: &[u8]) -> Option<Self> {
                std::str::from_utf8(text).ok()?.parse().ok()
            }
        })*
    };
}

numbers!(u8, u16, u32, u64, i32, i64, usize, f64);

/// A moment is read from a number of microseconds since the start of 1970.
impl Value for ServerTime {
    fn read(text: &[u8]) -> Option<Self> {
        <i64 as Value>::read(text).map(|micros| Self(time(micros)))
    }
}

/// The columns of a row from the first on, read by their place: for an answer whose columns have no names, as that to `SHOW`. A
/// column that the row does not have is NULL, as one in a version comment that the server ignores.
pub trait Columns: Sized {
    /// Reads the row.
    ///
    /// # Errors
    /// As [`Row::get`].
    fn read(row: &Row) -> Result<Self, Fault>;
}

macro_rules! columns {
    ($($type:ident $place:tt),*) => {
        impl<$($type: Value),*> Columns for ($($type,)*) {
            fn read(row: &Row) -> Result<Self, Fault> {
                Ok(($(row.at::<$type>($place)?,)*))
            }
        }
    };
}

columns!(A 0, B 1);
columns!(A 0, B 1, C 2);
columns!(A 0, B 1, C 2, D 3);

impl Row {
    /// The value of the column with this name.
    ///
    /// # Errors
    /// [`Fault::Final`] for a value of another type, for NULL unless an `Option` is read, and for a column that is not there.
    pub fn get<T: Value>(&self, column: &str) -> Result<T, Fault> {
        let at = self.columns.iter().position(|one| one == column);
        let sent = at.and_then(|at| self.values.get(at));
        let value = sent.and_then(read);
        value.ok_or_else(|| unexpected(column))
    }

    /// As [`Row::get`], where NULL stands for nothing: 0, an empty text, or the start of 1970.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn get_or_default<T: Value + Default>(&self, column: &str) -> Result<T, Fault> {
        let value: Option<T> = self.get(column)?;
        Ok(value.unwrap_or_default())
    }

    /// The values of all columns, by their place.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn columns<T: Columns>(&self) -> Result<T, Fault> {
        T::read(self)
    }

    /// The value of a column by its place, from 0.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn at<T: Value>(&self, place: usize) -> Result<T, Fault> {
        let sent = self.values.get(place).unwrap_or(&None);
        read(sent).ok_or_else(|| unexpected(&format!("column {}", place + 1)))
    }
}

fn read<T: Value>(sent: &Sent) -> Option<T> {
    sent.as_deref().map_or_else(T::null, T::read)
}

fn unexpected(column: &str) -> Fault {
    let line = format!("the server's answer has a value of an unexpected type: {column}");
    Fault::Final(Failure::new(Reason::Internal, line))
}

/// The fault that a server has not answered a statement.
pub fn no_answer() -> Fault {
    Fault::Gone("no answer".to_owned())
}

/// The rows of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a>(pub(super) &'a [Row]);

impl<'a> Rows<'a> {
    /// The first row.
    ///
    /// # Errors
    /// [`no_answer`] if there is none.
    pub fn one(self) -> Result<&'a Row, Fault> {
        self.0.first().ok_or_else(no_answer)
    }

    /// Reads the first row; `None`: there is none.
    ///
    /// # Errors
    /// As `read`.
    pub fn optional<T>(
        self,
        read: impl FnOnce(&'a Row) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        self.0.first().map(read).transpose()
    }

    /// Reads all rows.
    ///
    /// # Errors
    /// As `read`.
    pub fn all<T, C: FromIterator<T>>(
        self,
        read: impl FnMut(&'a Row) -> Result<T, Fault>,
    ) -> Result<C, Fault> {
        self.0.iter().map(read).collect()
    }

    /// The only column of the first row; `None` for NULL, and if there is no row.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn value<T: Value>(self) -> Result<Option<T>, Fault> {
        self.0.first().map_or(Ok(None), |row| row.at(0))
    }

    /// The only column of all rows, without NULL.
    ///
    /// # Errors
    /// As [`Row::get`].
    pub fn values<T: Value>(self) -> Result<Vec<T>, Fault> {
        let values = self.0.iter().map(|row| row.at(0));
        values.filter_map(Result::transpose).collect()
    }
}

impl Deref for Rows<'_> {
    type Target = [Row];

    fn deref(&self) -> &[Row] {
        self.0
    }
}
