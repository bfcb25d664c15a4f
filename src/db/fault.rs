//! Faults between dblock and a server, as data: whether to try again, to try the next host, or to give up, and the exit code and the line
//! for that.

use std::fmt;
use std::io;

use super::tls_error;
use crate::base::exit::{Failure, Reason};
use crate::base::text::in_words;

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

    /// Whether to try no other server after this fault, because it is the same on all.
    pub fn ends_round(&self) -> bool {
        match self {
            Self::NoNamedLocks(_) => true,
            Self::Final(failure) => !may_pass(failure),
            _ => false,
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

    /// A fault while connecting and logging in to `server` as `user`.
    pub fn of_connecting(error: mysql::Error, server: &str, user: &str) -> Self {
        let refused = |line| Self::Final(Failure::new(Reason::AccountRefused, line));
        match error {
            mysql::Error::MySqlError(error) if is_about_the_account(&error) => refused(format!(
                "{server} refused the account {user}: {}",
                message_of(&error)
            )),
            mysql::Error::MySqlError(error) if FULL.contains(&error.code) => {
                Self::Full(message_of(&error))
            }
            // Shutting down (1053), still starting, or a proxy without a server: all of them pass.
            mysql::Error::MySqlError(error) => Self::Gone(message_of(&error)),
            // After a wrong password MariaDB asks for the account's next plugin; the crate supports only one.
            mysql::Error::DriverError(mysql::DriverError::UnexpectedPacket) => {
                Self::Final(Failure::new(
                    Reason::Internal,
                    format!(
                        "{server} sent an unexpected packet at the login of {user}: is it a MySQL server? \
                         If that account has several plugins, the password must be that of the first that wants one"
                    ),
                ))
            }
            mysql::Error::DriverError(mysql::DriverError::TlsNotSupported) => {
                let line =
                    format!("{server} offers no TLS, which --ssl-mode demands; set it up there");
                Self::Untrusted(Failure::new(Reason::Configuration, line))
            }
            mysql::Error::DriverError(error) => match plugin_without_support(&error) {
                Some(plugin) => refused(no_plugin(server, user, &plugin)),
                None => Self::of_transport(mysql::Error::DriverError(error), server),
            },
            mysql::Error::TlsError(error) => Self::of_handshake(&error, server),
            // With TLS 1.3 the server's verdict on a client's certificate comes only after the handshake.
            other => match of_rustls(&other) {
                Some(error) => Self::of_tls(error, server),
                None => Self::of_transport(other, server),
            },
        }
    }

    /// An error of rustls in the handshake with `server`, or in the server's later verdict.
    fn of_tls(error: &rustls::Error, server: &str) -> Self {
        let (reason, line) = tls_error::explain(error, server);
        match reason {
            // The problem is the server's, and may pass.
            Reason::Unreachable => Self::Gone(line),
            Reason::Configuration => Self::Untrusted(Failure::new(reason, line)),
            _ => Self::Final(Failure::new(reason, line)),
        }
    }

    /// A failed TLS handshake.
    fn of_handshake(error: &(dyn std::error::Error + 'static), server: &str) -> Self {
        let door = std::iter::successors(Some(error), |error| error.source())
            .find_map(|error| error.downcast_ref::<native_tls::Error>());
        match door {
            Some(native_tls::Error::Tls(error)) => Self::of_tls(error, server),
            Some(native_tls::Error::Io(error)) => Self::Gone(
                broken_off(error)
                    .unwrap_or_else(|| "the server broke off the TLS handshake".to_owned()),
            ),
            _ => {
                let line = format!("cannot set up TLS with {server}: {error}");
                Self::Final(Failure::new(Reason::Internal, line))
            }
        }
    }

    /// A fault of a statement in a session.
    pub fn of_statement(error: mysql::Error) -> Self {
        if let Some(error) = of_rustls(&error) {
            return Self::Gone(format!("TLS broke off: {error}"));
        }
        let error = match error {
            mysql::Error::MySqlError(error) => error,
            // MySQL closes an idle session with an unasked message. The next packet is then no answer to the statement.
            mysql::Error::CodecError(error) => {
                let cause = std::error::Error::source(&error)
                    .and_then(|cause| cause.downcast_ref())
                    .and_then(broken_off);
                return Self::Gone(cause.unwrap_or_else(|| in_words(&error)));
            }
            other => return Self::of_transport(other, "the server"),
        };
        match error.code {
            // Query interrupted, statement time limit (MySQL, MariaDB).
            1317 | 3024 | 1969 => Self::Interrupted(message_of(&error)),
            // Deadlock of rows, of named locks, lock wait timeout; a change since the snapshot (MariaDB); a rollback by the group.
            1213 | 3058 | 1205 | 1020 | 3101 => Self::Conflict(message_of(&error)),
            // A commit that failed in a cluster may be carried out all the same.
            1180 | 3100
            // The server cannot write, or has no memory, which may be mended.
            | 1026 | 1041
            // Session killed (MariaDB, MySQL), idle for too long, shutting down, and every connection exception of SQLSTATE.
            | 1053 | 1927 | 3169 | 4031
            // A proxy has lost its server, or reaches none: the client error numbers, and ProxySQL's own.
            | 2002..=2013 | 2026 | 2055 | 9000..=9999
            // The server has no thread or memory at the moment, or a proxy's server has too many connections.
            | 1037 | 1040 | 1135 | 1203 | 3168
            // The server admits only administrators, as after it was expelled from its group; or it is cut off from its cluster.
            | 3032 | 6400 | 1047 | 3781..=3783 | 3796..=3799 => Self::Gone(message_of(&error)),
            1021 | 1114 => Self::NoRoom(message_of(&error)),
            1290 | 1836 => {
                Self::ReadOnly(format!("takes no writes: {}", message_of(&error)))
            }
            1007 | 1050 | 1060..=1062 => Self::Exists(message_of(&error)),
            // A subquery returned two rows where one is allowed: that is how a conditional statement fails.
            1242 => Self::Unmet(message_of(&error)),
            1054 | 1932 => Self::NoSuchTable(message_of(&error)),
            code if NO_TABLE.contains(&code) => Self::NoSuchTable(message_of(&error)),
            _ if error.state.starts_with("08") => Self::Gone(message_of(&error)),
            // Some releases of Galera; Percona XtraDB Cluster in its strict mode, with the number of any unknown error.
            1235 | 1105 if error.message.contains("GET_LOCK") => Self::NoNamedLocks(Failure::new(
                Reason::Configuration,
                format!(
                    "this server does not support GET_LOCK: {}",
                    message_of(&error)
                ),
            )),
            // The name is empty, too long, or has a character outside the server's character set for names.
            1059 | 3057 | 4163 => Self::Final(Failure::new(
                Reason::Usage,
                format!(
                    "--name: the server does not take this name: {}",
                    message_of(&error)
                ),
            )),
            // With READ COMMITTED it writes only rows to its binary log.
            1665 => Self::Final(Failure::new(
                Reason::Configuration,
                "the server has binlog_format=STATEMENT, with which neither a queue nor a crontab works; set it to ROW or MIXED",
            )),
            1193 => match error.message.split('\'').nth(1) {
                Some(name) => Self::NoSuchVariable(name.to_owned()),
                None => Self::Gone(message_of(&error)),
            },
            _ if is_about_the_account(&error) => {
                let line = format!("the server refused the account: {}", message_of(&error));
                Self::Final(Failure::new(Reason::AccountRefused, line))
            }
            _ => {
                let line = format!("the server refused a statement: {}", message_of(&error));
                Self::Final(Failure::new(Reason::Internal, line))
            }
        }
    }

    fn of_transport(error: mysql::Error, server: &str) -> Self {
        let cause = match error {
            mysql::Error::DriverError(mysql::DriverError::CouldNotConnect(cause)) => {
                let cause =
                    cause.map_or_else(|| "cannot connect".to_owned(), |(_, cause, _)| cause);
                return Self::Gone(in_words(&cause));
            }
            mysql::Error::DriverError(mysql::DriverError::ConnectTimeout) => {
                return Self::Gone(NO_ANSWER.to_owned());
            }
            mysql::Error::IoError(error) => match broken_off(&error) {
                Some(cause) => return Self::Gone(cause),
                None => error.to_string(),
            },
            mysql::Error::CodecError(error) => {
                let cause =
                    std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
                match cause.and_then(broken_off) {
                    Some(cause) => return Self::Gone(cause),
                    None => "it sends no MySQL packets".to_owned(),
                }
            }
            mysql::Error::DriverError(error) => error.to_string(),
            other => other.to_string(),
        };
        Self::Final(Failure::new(
            Reason::Internal,
            format!("{server} does not speak the MySQL protocol as dblock knows it: {cause}"),
        ))
    }
}

/// Whether a failure belongs to one server and may pass soon. A server that is just starting may refuse the account or this host. One may
/// also send an answer that dblock does not know.
pub fn may_pass(failure: &Failure) -> bool {
    matches!(failure.reason, Reason::AccountRefused | Reason::Internal)
}

/// There is no such database or table.
pub const NO_TABLE: [u16; 2] = [1049, 1146];

/// The account may not do this to a database, a table or a column, whether that exists or not.
pub const NO_PRIVILEGE: [u16; 3] = [1044, 1142, 1143];

/// Too many connections: of the server, of an account by `max_user_connections`, or by an account's own limit, also one for each hour.
const FULL: [u16; 3] = [1040, 1203, 1226];

/// The authentication plugin that the server asked for, and that is not supported.
fn plugin_without_support(error: &mysql::DriverError) -> Option<String> {
    match error {
        mysql::DriverError::UnknownAuthPlugin(name) => {
            Some(name.chars().take(LONGEST_PLUGIN).collect())
        }
        mysql::DriverError::CleartextPluginDisabled => Some("mysql_clear_password".to_owned()),
        mysql::DriverError::OldMysqlPasswordDisabled => Some("mysql_old_password".to_owned()),
        _ => None,
    }
}

/// The most characters of a plugin's name on a server.
const LONGEST_PLUGIN: usize = 64;

fn no_plugin(server: &str, user: &str, plugin: &str) -> String {
    let why = match plugin {
        "mysql_clear_password" | "dialog" => "and dblock sends no password in clear",
        "mysql_old_password" => "which is not safe",
        _ => "which dblock does not have",
    };
    // For an unknown account MySQL may name any plugin.
    format!(
        "{server} has no account {user}, or it logs in by the plugin '{plugin}', {why}; \
         give dblock an account with caching_sha2_password, or with parsec or ed25519 on MariaDB"
    )
}

const NO_ANSWER: &str = "no answer in time";

/// The cause, if the error is the network's, and not one of the data.
fn broken_off(error: &io::Error) -> Option<String> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Some(NO_ANSWER.to_owned()),
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted => Some("the server closed the connection".to_owned()),
        _ if error.raw_os_error().is_some() => Some(in_words(error)),
        // The crate's message for an end in the middle of a packet.
        _ if error.to_string() == "bytes remaining on stream" => {
            Some("the server closed the connection".to_owned())
        }
        _ => None,
    }
}

/// The TLS fault inside an error of an open connection.
fn of_rustls(error: &mysql::Error) -> Option<&rustls::Error> {
    let system: &io::Error = match error {
        mysql::Error::IoError(error) => error,
        mysql::Error::CodecError(error) => std::error::Error::source(error)?.downcast_ref()?,
        _ => return None,
    };
    system.get_ref()?.downcast_ref()
}

/// Whether the server refuses this account or this host, so that another attempt is useless.
pub fn is_about_the_account(error: &mysql::MySqlError) -> bool {
    // SQLSTATE class 28 is "invalid authorization". Besides: no privilege, host not allowed or blocked, an old or unknown plugin,
    // password expired, account locked (by MySQL, for too many wrong passwords, by MariaDB), TLS required.
    error.state.starts_with("28")
        || NO_PRIVILEGE.contains(&error.code)
        || matches!(
            error.code,
            1045 | 1129
                | 1130
                | 1227
                | 1251
                | 1370
                | 1524
                | 1698
                | 1820
                | 1862
                | 3118
                | 3159
                | 3955
                | 4150
                | 4151
        )
}

/// The server's message, with the error number.
fn message_of(error: &mysql::MySqlError) -> String {
    format!("{} (error {})", error.message, error.code)
}

#[cfg(test)]
mod tests {
    use super::{Failure, Fault, Reason};

    #[test]
    fn an_error_says_what_may_follow() {
        let fault = |code| {
            let (state, message) = ("HY000".to_owned(), String::new());
            let error = mysql::MySqlError {
                state,
                message,
                code,
            };
            Fault::of_statement(mysql::Error::MySqlError(error))
        };
        for code in [1317, 3024, 1969] {
            assert!(matches!(fault(code), Fault::Interrupted(_)), "{code}");
        }
        for code in [1213, 3058, 1205, 3101, 1020] {
            assert!(matches!(fault(code), Fault::Conflict(_)), "{code}");
        }
        // What may be committed all the same is not known until it is looked up.
        for code in [
            1180, 3100, 1053, 1047, 3032, 6400, 3796, 3797, 2006, 2013, 9001, 9008,
        ] {
            assert!(matches!(fault(code), Fault::Gone(_)), "{code}");
        }
        for code in [1021, 1114] {
            assert!(matches!(fault(code), Fault::NoRoom(_)), "{code}");
        }
        for code in [1290, 1836] {
            assert!(matches!(fault(code), Fault::ReadOnly(_)), "{code}");
        }
    }

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
