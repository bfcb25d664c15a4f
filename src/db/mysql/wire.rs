//! A connection of the `mysql` crate.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use mysql::prelude::{Protocol, Queryable};
use mysql::{Conn, DriverError, ResultSet};

use super::fault::of_statement;
use crate::db::ask::Reply;
use crate::db::row::Row;
use crate::db::wire::{Code, Failed, Wire, limit_reading, reading_limit};

/// How long after the answer to the first statement of a packet that to the second one may come, at most.
const PROMISED: Duration = Duration::from_secs(2);

/// A connection that is logged in.
pub struct MySqlWire {
    /// The crate's.
    pub conn: Conn,
    /// The server, for the lines of its faults.
    pub server: String,
    /// How it is encrypted.
    pub encryption: Option<String>,
}

impl Wire for MySqlWire {
    fn send(
        &mut self,
        statements: &[&str],
        most_rows: usize,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Failed> {
        self.answer(|wire| wire.read_replies(&statements.join("; "), most_rows, replies))
    }

    /// A `KILL QUERY` during the first statement makes both servers skip the second after they have announced its result.
    fn send_both(&mut self, statements: &str) -> Result<Option<Row>, Failed> {
        self.answer(|wire| wire.second_row(statements))
    }

    fn id(&self) -> u64 {
        u64::from(self.conn.connection_id())
    }

    fn encryption(&self) -> Option<&str> {
        self.encryption.as_deref()
    }
}

impl MySqlWire {
    /// Reads an answer. A panic of the crate, as at a row without bytes, is an unexpected packet like those that it reports.
    fn answer<T>(&mut self, read: impl FnOnce(&mut Self) -> mysql::Result<T>) -> Result<T, Failed> {
        let answer = catch_unwind(AssertUnwindSafe(|| read(self)));
        let answer = answer.unwrap_or_else(|_| Err(DriverError::UnexpectedPacket.into()));
        answer.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: mysql::Error) -> Failed {
        let code = match &error {
            mysql::Error::MySqlError(error) => Some(Code::Number(error.code)),
            _ => None,
        };
        let fault = of_statement(error, &self.server);
        Failed { fault, code }
    }

    fn read_replies(
        &mut self,
        statements: &str,
        most_rows: usize,
        replies: &mut Vec<Reply>,
    ) -> mysql::Result<()> {
        let mut all = self.conn.query_iter(statements)?;
        while let Some(one) = all.iter() {
            let changed = one.affected_rows();
            let insert_id = one.last_insert_id().filter(|id| *id > 0);
            replies.push(Reply {
                rows: rows(one, most_rows)?,
                changed,
                insert_id,
            });
        }
        Ok(())
    }

    fn second_row(&mut self, statements: &str) -> mysql::Result<Option<Row>> {
        let descriptor = self.conn.as_raw_fd();
        // SAFETY: the connection is not closed before the end of this function.
        let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let limit = reading_limit(socket)?;
        let mut results = self.conn.query_iter(statements)?;
        // Zero is no limit.
        let shortest = [limit, PROMISED]
            .into_iter()
            .filter(|limit| !limit.is_zero());
        limit_reading(socket, shortest.min().unwrap_or(PROMISED))?;
        let mut row = Ok(None);
        while let (Ok(_), Some(result)) = (&row, results.iter()) {
            row = last_row(result);
        }
        drop(results);
        // After any other error the session cannot be used, and nothing may wait for it.
        if matches!(row, Ok(_) | Err(mysql::Error::MySqlError(_))) {
            limit_reading(socket, limit)?;
        }
        row
    }
}

/// The first rows of an answer, at most so many.
fn rows<P: Protocol>(result: ResultSet<P>, most_rows: usize) -> mysql::Result<Vec<Row>> {
    let columns = names(&result);
    let rows = result.take(most_rows);
    rows.map(|row| read(&columns, row?)).collect()
}

fn last_row<P: Protocol>(mut result: ResultSet<P>) -> mysql::Result<Option<Row>> {
    let columns = names(&result);
    let last = result.try_fold(None, |_, row| row.map(Some))?;
    last.map(|row| read(&columns, row)).transpose()
}

/// The names of an answer's columns.
fn names<P: Protocol>(result: &ResultSet<P>) -> Rc<[String]> {
    let columns = result.columns();
    let columns = columns.as_ref().iter();
    columns
        .map(|column| column.name_str().into_owned())
        .collect()
}

/// Statements without parameters are answered in texts.
fn read(columns: &Rc<[String]>, row: mysql::Row) -> mysql::Result<Row> {
    let text = |value| match value {
        mysql::Value::NULL => Ok(None),
        mysql::Value::Bytes(text) => Ok(Some(text)),
        _ => Err(mysql::Error::from(DriverError::UnexpectedPacket)),
    };
    Ok(Row {
        columns: Rc::clone(columns),
        values: row
            .unwrap()
            .into_iter()
            .map(text)
            .collect::<mysql::Result<_>>()?,
    })
}

impl AsFd for MySqlWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the connection owns the descriptor for as long as it is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.conn.as_raw_fd()) }
    }
}
