//! What a session needs of a connection, whatever kind of server is at its other end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::ask::Reply;
use super::fault::Fault;
use super::row::Row;

/// A connection to a server, after the login. Dropping it logs out. Between statements its descriptor becomes readable only when the server
/// has ended the session.
pub trait Wire: AsFd {
    /// Sends statements in one packet, and adds the answer to each, in order, as far as they succeed. Each answer has at most so many rows;
    /// the others are dropped.
    ///
    /// # Errors
    /// The first statement that failed.
    fn send(
        &mut self,
        statements: &str,
        most_rows: usize,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Failed>;

    /// Sends two statements in one packet, and returns the last row of the second one's answer. That comes soon after the first one's; if not,
    /// the session has ended.
    ///
    /// # Errors
    /// As [`Wire::send`].
    fn send_both(&mut self, statements: &str) -> Result<Option<Row>, Failed>;

    /// The number of the session, from the login. Behind a proxy it is the proxy's.
    fn id(&self) -> u64;

    /// The encryption, such as `TLSv1.3, TLS_AES_256_GCM_SHA384`; `None`: not encrypted.
    fn encryption(&self) -> Option<&str>;
}

/// Why a statement was not carried out.
pub struct Failed {
    /// What happened.
    pub fault: Fault,
    /// The error number of a server that has refused it; `None`: the session has ended.
    pub number: Option<u16>,
}

/// Limits the wait for each answer; zero: no limit. A shorter limit than the kernel can count to is the shortest, and not none.
pub fn limit_reading(socket: BorrowedFd, limit: Duration) -> io::Result<()> {
    let limit = if limit.is_zero() {
        limit
    } else {
        limit.max(Duration::from_micros(1))
    };
    let limit = TimeVal::microseconds(i64::try_from(limit.as_micros()).unwrap_or(i64::MAX));
    Ok(setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?)
}
