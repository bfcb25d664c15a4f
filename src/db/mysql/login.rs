//! One attempt at one address: TLS, and the login.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mysql::{Conn, DriverError, Opts, OptsBuilder, SslOpts};
use native_tls::Agreed;

use super::account::Account;
use super::fault::{is_about_the_account, of_connecting};
use super::wire::MySqlWire;
use crate::base::exit::{Failure, Reason};
use crate::db::address::Address;
use crate::db::fault::{Fault, NO_ANSWER};
use crate::db::target::Target;
use crate::db::tls;
use crate::db::wire::{LogIn, LoginLimit, Wire};

/// The server's error for a wrong password, or an unknown account.
const WRONG_PASSWORD: u16 = 1045;

/// Where a PostgreSQL listens.
const POSTGRES_PORT: u16 = 5432;

impl LogIn for Account {
    fn log_in(
        &self,
        target: &Target,
        (address, server): (&Address, &str),
        limit: LoginLimit,
        tell: &dyn Fn(&str),
    ) -> Result<Box<dyn Wire>, Fault> {
        let options = self.options.clone();
        let options = match address {
            Address::Tcp(ip, port) => {
                let host = if ip.is_ipv6() {
                    format!("[{ip}]")
                } else {
                    ip.to_string()
                };
                options.ip_or_hostname(Some(host)).tcp_port(*port)
            }
            Address::Socket(path) => options.socket(Some(path.display().to_string())),
        };
        let opened = self.open(target, (address, server), &options, limit, tell);
        let (conn, agreed) = opened.map_err(|fault| perhaps_postgres(fault, target))?;
        Ok(Box::new(MySqlWire {
            conn,
            server: server.to_owned(),
            encryption: agreed.map(|agreed| tls::in_use(agreed.version, agreed.suite)),
        }))
    }

    /// The crate does not see to it.
    fn doubts_answers(&self) -> bool {
        self.tls.is_verified()
    }
}

impl Account {
    /// Connects with TLS, or without it if that is allowed and the server has none. After a TLS failure it never connects without: an
    /// attacker in between could cause the failure.
    fn open(
        &self,
        target: &Target,
        (address, server): (&Address, &str),
        options: &OptsBuilder,
        limit: LoginLimit,
        tell: &dyn Fn(&str),
    ) -> Result<(Conn, Option<Agreed>), Fault> {
        let failed = |error| of_connecting(error, server, &self.user);
        let host = match (target, address) {
            (Target::Tcp(host, _), Address::Tcp(ip, _)) if self.tls.is_used() => Some((host, *ip)),
            _ => None,
        };
        if host.is_some() {
            match self.attempt(options, limit, host)? {
                Err(mysql::Error::DriverError(DriverError::TlsNotSupported))
                    if self.tls.is_optional() =>
                {
                    tell(&format!("{server} offers no TLS; connecting without"));
                }
                opened => {
                    let conn = opened.map_err(failed)?;
                    let agreed = native_tls::agreed().ok_or_else(|| {
                        let line =
                            format!("{server} was reached without TLS, although it is required");
                        Fault::Final(Failure::new(Reason::Internal, line))
                    })?;
                    return Ok((conn, Some(agreed)));
                }
            }
        }
        let opened = self.attempt(options, limit, None)?;
        Ok((opened.map_err(failed)?, None))
    }

    /// Logs in, and retries if the crate may have spoilt the login: the crate drops a zero at the end of the server's random number as if
    /// it were the terminator. With MariaDB's ed25519 and PARSEC it is not. So one of 256 logins with the right password fails there, by
    /// a refusal of the server, or by a panic, after which it is retried at most twice. A refusal does not show which server it was, so a
    /// wrong password is sent twice to any server.
    ///
    /// The crate also panics if a server asks for PARSEC and there is no password. HMAC fills up a short key with zeros, so a password of
    /// one zero byte is the same as none there: send that, and let the server decide.
    fn attempt(
        &self,
        options: &OptsBuilder,
        limit: LoginLimit,
        with_tls_at: Option<(&String, IpAddr)>,
    ) -> Result<mysql::Result<Conn>, Fault> {
        let attempt = |options: OptsBuilder| {
            // The crate limits each read. In all only the attempts can be limited. What is sent hardly waits for room, and that limit is
            // the session's, too.
            let left = Some(limit.left());
            let options = options
                .tcp_connect_timeout(left)
                .read_timeout(left)
                .write_timeout(Some(limit.each));
            let options = match with_tls_at {
                Some((host, ip)) => options.ssl_opts(self.prepare_tls(host, ip)?),
                None => options,
            };
            let connect = || Conn::new(Opts::from(options));
            Ok::<_, Fault>(catch_unwind(AssertUnwindSafe(connect)))
        };
        let again = if self.has_password {
            options.clone()
        } else {
            options.clone().pass(Some("\0"))
        };
        let refused = match attempt(options.clone())? {
            Ok(Err(mysql::Error::MySqlError(error)))
                if self.has_password && error.code == WRONG_PASSWORD =>
            {
                error
            }
            Ok(connected) => return Ok(connected),
            Err(_) => {
                if let Ok(connected) = attempt(again.clone())? {
                    return Ok(connected);
                }
                return attempt(again)?.map_err(|panic| resume_unwind(panic));
            }
        };
        Ok(match attempt(again)? {
            // The server may have blocked the account by now for too many wrong passwords, so report the first answer.
            Ok(Err(mysql::Error::MySqlError(error))) if is_about_the_account(&error) => {
                Err(mysql::Error::MySqlError(refused))
            }
            Ok(connected) => connected,
            Err(_) => Err(mysql::Error::MySqlError(refused)),
        })
    }

    /// The TLS options of the crate for the next connection, to this address of the host with this name; `None`: no TLS.
    fn prepare_tls(&self, host: &str, address: IpAddr) -> Result<Option<SslOpts>, Fault> {
        let prepared = self.tls.prepare(host, address)?;
        Ok(prepared.map(|(config, name)| {
            native_tls::prepare_tls(config, name);
            SslOpts::default()
        }))
    }
}

/// Adds to silence at the port of PostgreSQL what may be the reason: that waits for its client to speak first, where MySQL greets.
fn perhaps_postgres(fault: Fault, target: &Target) -> Fault {
    match (fault, target) {
        (Fault::Gone(cause), Target::Tcp(_, POSTGRES_PORT)) if cause == NO_ANSWER => {
            let line = format!("{cause}; if it is a PostgreSQL, name it with --url postgres://");
            Fault::Gone(line)
        }
        (fault, _) => fault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_where_a_postgresql_listens_names_the_url_for_one() {
        let said = |cause: &str, port: u16| {
            let target = Target::Tcp("db1".to_owned(), port);
            perhaps_postgres(Fault::Gone(cause.to_owned()), &target).to_string()
        };
        assert!(said(NO_ANSWER, 5432).ends_with("name it with --url postgres://"));
        assert_eq!(said(NO_ANSWER, 3306), NO_ANSWER);
        assert_eq!(said("Connection refused", 5432), "Connection refused");
    }
}
