//! The errors of the `mysql` crate, and of MySQL and MariaDB by their numbers, as faults.

use std::io;

use crate::base::exit::{Failure, Reason};
use crate::base::text::in_words;
use crate::db::fault::{self, Fault, NO_ANSWER};

/// A fault while connecting and logging in to `server` as `user`.
pub fn of_connecting(error: mysql::Error, server: &str, user: &str) -> Fault {
    let refused = |line| Fault::Final(Failure::new(Reason::AccountRefused, line));
    match error {
        mysql::Error::MySqlError(error) if is_about_the_account(&error) => refused(format!(
            "{server} refused the account {user}: {}",
            message_of(&error)
        )),
        mysql::Error::MySqlError(error) if FULL.contains(&error.code) => {
            Fault::Full(message_of(&error))
        }
        // Shutting down (1053), still starting, or a proxy without a server: all of them pass.
        mysql::Error::MySqlError(error) => Fault::Gone(message_of(&error)),
        // After a wrong password MariaDB asks for the account's next plugin; the crate supports only one.
        mysql::Error::DriverError(mysql::DriverError::UnexpectedPacket) => {
            Fault::Final(Failure::new(
                Reason::Internal,
                format!(
                    "{server} sent an unexpected packet at the login of {user}: is it a MySQL server? \
                     If that account has several plugins, the password must be that of the first that wants one"
                ),
            ))
        }
        mysql::Error::DriverError(mysql::DriverError::TlsNotSupported) => {
            let line = format!("{server} offers no TLS, which --ssl-mode demands; set it up there");
            Fault::Untrusted(Failure::new(Reason::Configuration, line))
        }
        mysql::Error::DriverError(error) => match plugin_without_support(&error) {
            Some(plugin) => refused(no_plugin(server, user, &plugin)),
            None => of_transport(mysql::Error::DriverError(error), server),
        },
        mysql::Error::TlsError(error) => of_handshake(&error, server),
        // With TLS 1.3 the server's verdict on a client's certificate comes only after the handshake.
        other => match of_rustls(&other) {
            Some(error) => Fault::of_tls(error, server),
            None => of_transport(other, server),
        },
    }
}

/// A failed TLS handshake.
fn of_handshake(error: &(dyn std::error::Error + 'static), server: &str) -> Fault {
    let door = std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<native_tls::Error>());
    match door {
        Some(native_tls::Error::Tls(error)) => Fault::of_tls(error, server),
        Some(native_tls::Error::Io(error)) => Fault::Gone(
            broken_off(error)
                .unwrap_or_else(|| "the server broke off the TLS handshake".to_owned()),
        ),
        _ => {
            let line = format!("cannot set up TLS with {server}: {error}");
            Fault::Final(Failure::new(Reason::Internal, line))
        }
    }
}

/// A fault of a statement in a session with `server`.
pub fn of_statement(error: mysql::Error, server: &str) -> Fault {
    if let Some(error) = of_rustls(&error) {
        return Fault::Gone(format!("TLS broke off: {error}"));
    }
    let error = match error {
        mysql::Error::MySqlError(error) => error,
        // MySQL closes an idle session with an unasked message. The next packet is then no answer to the statement.
        mysql::Error::CodecError(error) => {
            let cause = std::error::Error::source(&error)
                .and_then(|cause| cause.downcast_ref())
                .and_then(broken_off);
            return Fault::Gone(cause.unwrap_or_else(|| in_words(&error)));
        }
        other => return of_transport(other, server),
    };
    match error.code {
        // Query interrupted, statement time limit (MySQL, MariaDB).
        1317 | 3024 | 1969 => Fault::Interrupted(message_of(&error)),
        // Deadlock of rows, of named locks, lock wait timeout; a change since the snapshot (MariaDB); a rollback by the group.
        1213 | 3058 | 1205 | 1020 | 3101 => Fault::Conflict(message_of(&error)),
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
        | 3032 | 6400 | 1047 | 3781..=3783 | 3796..=3799 => Fault::Gone(message_of(&error)),
        1021 | 1114 => Fault::NoRoom(message_of(&error)),
        // It is read-only, or only the transactions of its new sessions are (1792).
        1290 | 1792 | 1836 => {
            Fault::ReadOnly(format!("takes no writes: {}", message_of(&error)))
        }
        1007 | 1050 | 1060..=1062 => Fault::Exists(message_of(&error)),
        // A subquery returned two rows where one is allowed: that is how a conditional statement fails.
        1242 => Fault::Unmet(message_of(&error)),
        1054 | 1932 => Fault::NoSuchTable(message_of(&error)),
        code if NO_TABLE.contains(&code) => Fault::NoSuchTable(message_of(&error)),
        _ if error.state.starts_with("08") => Fault::Gone(message_of(&error)),
        // Some releases of Galera; Percona XtraDB Cluster in its strict mode, with the number of any unknown error.
        1235 | 1105 if error.message.contains("GET_LOCK") => Fault::NoNamedLocks(Failure::new(
            Reason::Configuration,
            format!(
                "{server} does not support GET_LOCK: {}",
                message_of(&error)
            ),
        )),
        // The name is empty, too long, or has a character outside the server's character set for names.
        1059 | 3057 | 4163 => Fault::Final(Failure::new(
            Reason::Usage,
            format!(
                "--name: {server} does not take this name: {}",
                message_of(&error)
            ),
        )),
        // With READ COMMITTED it writes only rows to its binary log.
        1665 => Fault::Final(Failure::new(
            Reason::Configuration,
            format!(
                "{server} has binlog_format=STATEMENT, with which neither a queue nor a crontab works; set it to ROW or MIXED"
            ),
        )),
        1193 => match error.message.split('\'').nth(1) {
            Some(name) => Fault::NoSuchVariable(name.to_owned()),
            None => Fault::Gone(message_of(&error)),
        },
        _ if is_about_the_account(&error) => {
            let line = format!("{server} refused the account: {}", message_of(&error));
            Fault::Final(Failure::new(Reason::AccountRefused, line))
        }
        _ => {
            let line = format!("{server} refused a statement: {}", message_of(&error));
            Fault::Final(Failure::new(Reason::Internal, line))
        }
    }
}

fn of_transport(error: mysql::Error, server: &str) -> Fault {
    let cause = match error {
        mysql::Error::DriverError(mysql::DriverError::CouldNotConnect(cause)) => {
            let cause = cause.map_or_else(|| "cannot connect".to_owned(), |(_, cause, _)| cause);
            return Fault::Gone(in_words(&cause));
        }
        mysql::Error::DriverError(mysql::DriverError::ConnectTimeout) => {
            return Fault::Gone(NO_ANSWER.to_owned());
        }
        mysql::Error::IoError(error) => match broken_off(&error) {
            Some(cause) => return Fault::Gone(cause),
            None => error.to_string(),
        },
        mysql::Error::CodecError(error) => {
            let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
            match cause.and_then(broken_off) {
                Some(cause) => return Fault::Gone(cause),
                None => "it sends no MySQL packets".to_owned(),
            }
        }
        mysql::Error::DriverError(error) => error.to_string(),
        other => other.to_string(),
    };
    Fault::Final(Failure::new(
        Reason::Internal,
        format!("{server} does not speak the MySQL protocol as dblock knows it: {cause}"),
    ))
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

/// The cause, if the error is the network's, and not one of the data.
fn broken_off(error: &io::Error) -> Option<String> {
    // The crate's message for an end in the middle of a packet.
    if error.to_string() == "bytes remaining on stream" {
        return Some("the server closed the connection".to_owned());
    }
    fault::broken_off(error)
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
    use super::{Fault, of_connecting, of_statement};

    #[test]
    fn an_error_says_what_may_follow() {
        let error = |code| {
            let (state, message) = ("HY000".to_owned(), String::new());
            mysql::Error::MySqlError(mysql::MySqlError {
                state,
                message,
                code,
            })
        };
        let fault = |code| of_statement(error(code), "db1:3306");
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
        for code in [1290, 1792, 1836] {
            assert!(matches!(fault(code), Fault::ReadOnly(_)), "{code}");
        }
        // Whoever holds something tries again: the account is changed, or the host is blocked, for a moment perhaps.
        for code in [1045, 1129, 1130] {
            let at_login = of_connecting(error(code), "db1:3306", "dblock");
            for fault in [at_login, fault(code)] {
                let is_final = matches!(fault, Fault::Final(_));
                assert!(is_final && fault.refuses_for_now(), "{code}");
            }
        }
    }
}
