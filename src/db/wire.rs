//! What a session needs of a connection, whatever kind of server is at its other end.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::ask::Reply;
use super::fault::Fault;
use super::row::Row;
use super::target::Target;
use super::{mysql, postgres};
use crate::base::clock::{Moment, micros};

/// The shortest limit on an answer of a login.
const SHORTEST_LIMIT: Duration = Duration::from_millis(50);

/// How long a login may take.
#[derive(Debug, Clone, Copy)]
pub struct LoginLimit {
    /// For connecting, and for each answer.
    pub each: Duration,
    /// Until when the last answer must be there; `None`: another process sees to that.
    pub until: Option<Moment>,
}

impl LoginLimit {
    /// For the next attempt, and for the first question after the login: an answer that is under way may still arrive.
    pub fn left(self) -> Duration {
        let left = |until: Moment| until.since(Moment::now()).max(SHORTEST_LIMIT);
        self.until
            .map_or(self.each, |until| self.each.min(left(until)))
    }
}

/// The account on servers of one kind.
pub trait LogIn {
    /// Connects to the server at this address, which is shown so, and logs in. Each step is told.
    ///
    /// # Errors
    /// Any fault of connecting.
    fn log_in(
        &self,
        target: &Target,
        address: (&Address, &str),
        limit: LoginLimit,
        tell: &dyn Fn(&str),
    ) -> Result<Box<dyn Wire>, Fault>;

    /// Whether it is to be proved that the first answers are those of the server that has proved who it is: an answer may have come in
    /// clear text before TLS.
    fn doubts_answers(&self) -> bool {
        false
    }
}

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
        statements: &[&str],
        most_rows: usize,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Failed>;

    /// Sends two statements in one packet, and returns the last row of the second one's answer. That comes soon after the first one's; if
    /// not, the session has ended.
    ///
    /// # Errors
    /// As [`Wire::send`].
    fn send_both(&mut self, statements: &str) -> Result<Option<Row>, Failed>;

    /// The number of the session, from the login. Behind a proxy it is the proxy's.
    fn id(&self) -> u64;

    /// Waits until another session notifies this one, at most so long. Whether that was so. Only PostgreSQL has notifications.
    ///
    /// # Errors
    /// The session has ended.
    fn await_notification(&mut self, _limit: Duration) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Why the server has ended the session, between statements; `None`: it has not. For a descriptor that is readable.
    fn last_words(&mut self) -> Option<String> {
        Some("the server ended the session".to_owned())
    }

    /// What the server says of a setting by itself, at the login and whenever it changes; `None`: nothing. Only PostgreSQL does.
    fn parameter(&self, _name: &str) -> Option<&str> {
        None
    }

    /// The encryption, such as `TLSv1.3, TLS_AES_256_GCM_SHA384`; `None`: not encrypted.
    fn encryption(&self) -> Option<&str>;
}

/// Why a statement was not carried out.
pub struct Failed {
    /// What happened.
    pub fault: Fault,
    /// The error of a server that has refused it; `None`: the session has ended.
    pub code: Option<Code>,
}

/// The error of a server, as its manual lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Code {
    /// Of MySQL and MariaDB.
    Number(u16),
    /// The SQLSTATE of PostgreSQL, five characters.
    State([u8; 5]),
}

impl Code {
    /// Whether the server has no such table, or no place for it.
    pub fn is_no_table(self) -> bool {
        match self {
            Self::Number(number) => mysql::NO_TABLE.contains(&number),
            Self::State(state) => postgres::NO_TABLE.contains(&&state),
        }
    }

    /// Whether the account lacks a privilege for that.
    pub fn is_no_privilege(self) -> bool {
        match self {
            Self::Number(number) => mysql::NO_PRIVILEGE.contains(&number),
            Self::State(state) => state == *postgres::NO_PRIVILEGE,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::State(state) => f.write_str(&String::from_utf8_lossy(state)),
        }
    }
}

/// The limit that was set last, as [`limit_reading`] takes it.
pub fn reading_limit(socket: BorrowedFd) -> io::Result<Duration> {
    let limit = getsockopt(&socket, sockopt::ReceiveTimeout)?;
    Ok(Duration::from_micros(
        u64::try_from(limit.num_microseconds()).unwrap_or_default(),
    ))
}

/// Limits the wait for each answer; zero: no limit. A shorter limit than the kernel can count to is the shortest, and not none.
pub fn limit_reading(socket: BorrowedFd, limit: Duration) -> io::Result<()> {
    Ok(setsockopt(
        &socket,
        sockopt::ReceiveTimeout,
        &time_limit(limit),
    )?)
}

/// A limit as the kernel takes it.
pub fn time_limit(limit: Duration) -> TimeVal {
    let limit = if limit.is_zero() {
        limit
    } else {
        limit.max(Duration::from_micros(1))
    };
    TimeVal::microseconds(micros(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(9);

    #[test]
    fn what_is_left_of_a_login_limits_each_attempt() {
        let left = |until| LoginLimit { each: LONG, until }.left();
        assert_eq!(left(None), LONG);
        assert_eq!(left(Some(Moment::now() + LONG * 2)), LONG);
        let soon = left(Some(Moment::now() + LONG / 2));
        assert!(soon <= LONG / 2 && !soon.is_zero());
        assert!(!left(Some(Moment::START)).is_zero());
    }
}
