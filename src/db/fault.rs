//! Faults between dblock and a server, as data: whether to try again, to try the next host, or to give up, and the exit code and the line
//! for that.

use std::fmt;
use std::io;
use std::time::Duration;

use super::tls_error;
use crate::base::exit::{Failure, Reason};
use crate::base::text::in_words;

/// Why a read-only server is passed over.
pub const READ_ONLY: &str = "is read-only, as a replica is; name the server that takes writes";

/// Why a PostgreSQL is passed over that is no replica, and takes no writes either.
pub const READ_ONLY_BY_DEFAULT: &str = "is read-only, though it is no replica: default_transaction_read_only is on; set it off, or name \
     the server that takes writes";

/// What to do about one of them.
const NAME_ANOTHER: &str = "name the server that takes writes";

/// The pause after a server has refused what it may accept later, such as the account: it may count failed logins.
pub const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Something that went wrong with a server.
#[derive(Debug)]
pub enum Fault {
    /// There is no session, or it has ended: another attempt may succeed. The text is the cause.
    Gone(String),
    /// The server, or the account, has no connection left. Not all clients should retry at once.
    Full(String),
    /// The server has no room for a write, as on a full disk. The statement did nothing, the session is fine, and there may be room
    /// later.
    NoRoom(String),
    /// The statement was interrupted, or its answer is unclear. The session is fine; what the statement did is unknown.
    Interrupted(String),
    /// A deadlock, or a timeout on another's lock. The statement did nothing, and the session is fine. It may succeed when it is sent
    /// again; after a deadlock the whole transaction must be.
    Conflict(String),
    /// The server is read-only, so a lock there excludes nobody. Another server may be the right one, or this one later.
    ReadOnly(String),
    /// The server lacks the requested TLS, or dblock's tables. Another server may be the right one; if there is none, this is final.
    Untrusted(Failure),
    /// The server does not know this variable. The statement did nothing.
    NoSuchVariable(String),
    /// There is no such database, table or column. The statement did nothing.
    NoSuchTable(String),
    /// The database, column, key or row exists already. The statement did nothing.
    Exists(String),
    /// The statement's condition is not true. The statement did nothing.
    Unmet(String),
    /// The server has no named locks.
    NoNamedLocks(Failure),
    /// No further attempt will help.
    Final(Failure),
}

impl fmt::Display for Fault {
    /// What happened.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Gone(cause)
            | Self::Full(cause)
            | Self::NoRoom(cause)
            | Self::Interrupted(cause)
            | Self::Conflict(cause)
            | Self::NoSuchTable(cause)
            | Self::Exists(cause)
            | Self::Unmet(cause) => f.write_str(cause),
            Self::ReadOnly(cause) => write!(f, "it {cause}"),
            Self::NoSuchVariable(name) => write!(f, "it has no variable {name}"),
            Self::Untrusted(failure) | Self::NoNamedLocks(failure) | Self::Final(failure) => {
                f.write_str(&failure.line)
            }
        }
    }
}

impl Fault {
    /// Of the faults of two servers, the one that decides whether another attempt may succeed.
    #[must_use]
    pub fn decided_by(self, next: Self) -> Self {
        let weight = |fault: &Self| match fault {
            Self::Untrusted(_) => 0,
            Self::ReadOnly(_) => 1,
            // The message says which limit was reached, and the server must not be asked too often.
            Self::Full(_) => 3,
            // Another round would be refused, too.
            Self::Final(_) | Self::NoNamedLocks(_) => 4,
            _ => 2,
        };
        if weight(&next) > weight(&self) {
            next
        } else {
            self
        }
    }

    /// The same of a server whose tables cannot be used: another one may have others.
    #[must_use]
    pub fn of_tables(self) -> Self {
        match self {
            Self::Final(failure) if failure.reason == Reason::Configuration => {
                Self::Untrusted(failure)
            }
            fault => fault,
        }
    }

    /// Whether to try no other server after this fault, because it is the same on all.
    pub fn ends_round(&self) -> bool {
        match self {
            Self::NoNamedLocks(_) => true,
            Self::Final(failure) => !may_pass(failure),
            _ => false,
        }
    }

    /// Why the server takes no writes, if that is the fault.
    pub fn read_only(&self) -> Option<&str> {
        match self {
            Self::ReadOnly(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether the server may accept the same statement soon.
    pub fn refuses_for_now(&self) -> bool {
        match self {
            Self::NoRoom(_) | Self::ReadOnly(_) => true,
            Self::Final(failure) => may_pass(failure),
            _ => false,
        }
    }

    /// The failure that ends dblock after such a fault of a session with `server`.
    pub fn into_failure(self, server: &str) -> Failure {
        match self {
            Self::Untrusted(failure) | Self::NoNamedLocks(failure) | Self::Final(failure) => {
                failure
            }
            Self::NoRoom(cause) => {
                let line = format!("{server} has no room: {cause}");
                Failure::new(Reason::Unreachable, line)
            }
            fault => {
                let line = format!("lost the session with {server}: {fault}");
                Failure::new(Reason::Unreachable, line)
            }
        }
    }

    /// An error of rustls in the handshake with `server`, or in the server's later verdict.
    pub(super) fn of_tls(error: &rustls::Error, server: &str) -> Self {
        let (reason, line) = tls_error::explain(error, server);
        match reason {
            // The problem is the server's, and may pass.
            Reason::Unreachable => Self::Gone(line),
            Reason::Configuration => Self::Untrusted(Failure::new(reason, line)),
            _ => Self::Final(Failure::new(reason, line)),
        }
    }
}

/// Whether a failure belongs to one server and may pass soon. A server that is just starting may refuse the account or this host. One may
/// also send an answer that dblock does not know.
pub fn may_pass(failure: &Failure) -> bool {
    matches!(failure.reason, Reason::AccountRefused | Reason::Internal)
}

/// The failure where no server takes writes. `line` names one of them and says why not, perhaps with what to do.
pub fn none_takes_writes(mut line: String) -> Failure {
    if !line.ends_with(NAME_ANOTHER) {
        line = format!("{line}; {NAME_ANOTHER}");
    }
    Failure::new(Reason::Configuration, line)
}

/// The cause of a fault without an answer.
pub const NO_ANSWER: &str = "no answer in time";

/// The cause, if the error is the network's, and not one of the data.
pub fn broken_off(error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Some(NO_ANSWER.to_owned()),
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted => Some("the server closed the connection".to_owned()),
        _ if error.raw_os_error().is_some() => Some(in_words(error)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Fault, READ_ONLY, READ_ONLY_BY_DEFAULT, Reason, none_takes_writes};

    #[test]
    fn another_server_is_tried_unless_what_one_says_is_true_of_all() {
        let fault = |reason| Fault::Final(Failure::new(reason, "no"));
        for reason in [Reason::AccountRefused, Reason::Internal] {
            assert!(!fault(reason).ends_round(), "{reason:?}");
        }
        for reason in [Reason::Configuration, Reason::Usage] {
            assert!(fault(reason).ends_round(), "{reason:?}");
        }
        let gone = || Fault::Gone("refused".to_owned());
        for fault in [
            gone().decided_by(fault(Reason::AccountRefused)),
            fault(Reason::AccountRefused).decided_by(gone()),
        ] {
            assert!(matches!(fault, Fault::Final(_)), "{fault:?}");
        }
    }

    #[test]
    fn what_to_do_about_servers_that_take_no_writes_is_said_once() {
        for cause in [READ_ONLY, READ_ONLY_BY_DEFAULT, "takes no writes: it is"] {
            let line = none_takes_writes(format!("db1 {cause}")).line;
            let what = "name the server that takes writes";
            assert!(line.starts_with("db1 ") && line.ends_with(what), "{line}");
            assert_eq!(line.matches(what).count(), 1, "{line}");
        }
    }

    #[test]
    fn of_the_addresses_of_a_name_the_one_that_is_full_decides() {
        let (full, gone) = (
            || Fault::Full("full".to_owned()),
            || Fault::Gone("refused".to_owned()),
        );
        for fault in [full().decided_by(gone()), gone().decided_by(full())] {
            assert!(matches!(fault, Fault::Full(_)), "{fault:?}");
        }
    }
}
