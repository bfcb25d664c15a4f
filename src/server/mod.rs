//! A session with a server: statements go out, rows and faults come back.

mod connect;
mod fault;

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

pub use connect::Connector;
pub use fault::Fault;

use crate::report::Level;

/// Told of each step and statement: the level and the line.
pub type Listener<'a> = dyn Fn(Level, &str) + 'a;

/// A session: as long as it lives, so do its locks. Dropping it says good-bye to the server.
pub struct Session {
    conn: Conn,
    server: String,
}

impl Session {
    /// Wraps a connection that is ready for statements. Its time limit on reading was for the handshake: a statement
    /// that waits for a lock may take hours. The limit on writing stays; a statement fits into the socket's buffer.
    fn new(conn: Conn, server: String) -> Result<Self, Fault> {
        let session = Self { conn, server };
        let never = TimeVal::seconds(0);
        setsockopt(&session, sockopt::ReceiveTimeout, &never)
            .map_err(|error| Fault::Gone(error.to_string()))?;
        Ok(session)
    }

    /// Sends `statements` in one packet and returns the first row of the last result, `None` when it has no row.
    ///
    /// # Errors
    /// After [`Fault::Gone`] the session must be dropped: the connection may be out of step.
    pub fn ask(&mut self, statements: &str, listener: &Listener) -> Result<Option<Row>, Fault> {
        listener(Level::Statement, statements);
        self.first_row(statements).map_err(Fault::of_statement)
    }

    fn first_row(&mut self, statements: &str) -> mysql::Result<Option<Row>> {
        let mut row = None;
        let mut results = self.conn.query_iter(statements)?;
        while let Some(result) = results.iter() {
            row = result.last().transpose()?;
        }
        Ok(row)
    }
}

impl AsFd for Session {
    /// Between statements it turns readable only when the server has ended the session.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the connection owns the descriptor for as long as the session is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.conn.as_raw_fd()) }
    }
}

impl fmt::Display for Session {
    /// Which server this is.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.server)
    }
}

/// A cell of a row as a whole number; `None` for NULL and for what is no number.
pub fn number(row: &Row, column: usize) -> Option<u64> {
    row.get_opt(column)?.ok()
}

/// A cell of a row as text; `None` for NULL and for what is no text.
pub fn text(row: &Row, column: usize) -> Option<String> {
    row.get_opt(column)?.ok()
}
