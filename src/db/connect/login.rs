//! One attempt at one address: TLS, and the login.

use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mysql::{Conn, DriverError, Opts, OptsBuilder};
use native_tls::Agreed;

use super::Connector;
use super::address::Address;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::shown;
use crate::db::fault::{Fault, is_about_the_account};
use crate::db::session::Session;
use crate::db::target::Target;
use crate::db::tls;

/// The server's error for a wrong password, or an unknown account.
const WRONG_PASSWORD: u16 = 1045;

impl Connector {
    /// Opens a session with the server at this address, with this limit for each answer.
    pub(super) fn try_address(
        &self,
        target: &Target,
        address: &Address,
        limit: Duration,
    ) -> Result<Session, Fault> {
        let options = self
            .account
            .clone()
            .read_timeout(Some(limit))
            .write_timeout(Some(limit));
        let (options, server) = match address {
            Address::Tcp(ip, port) => {
                let host = if ip.is_ipv6() {
                    format!("[{ip}]")
                } else {
                    ip.to_string()
                };
                let server = match target {
                    Target::Tcp(name, _) if *name != ip.to_string() => format!("{target} ({ip})"),
                    _ => target.to_string(),
                };
                (
                    options
                        .ip_or_hostname(Some(host))
                        .tcp_port(*port)
                        .tcp_connect_timeout(Some(limit)),
                    server,
                )
            }
            Address::Socket(path) => {
                let path = path.display().to_string();
                (options.socket(Some(path.clone())), path)
            }
        };
        self.tell_once(Level::Info, &format!("connecting to {server}"));
        let begun = Instant::now();
        let (conn, agreed) = self.open(target, address, &options, &server)?;
        let opened_in = begun.elapsed();
        let how = agreed.map_or_else(String::new, |agreed| format!(" ({})", tls::in_use(agreed)));
        self.tell_once(
            Level::Info,
            &format!("connected to {server}{how} in {}", shown(opened_in)),
        );
        let mut session = Session::new(
            conn,
            (target.to_string(), server),
            opened_in,
            agreed,
            Rc::clone(&self.listener),
        )?;
        if agreed.is_some() && self.tls.is_verified() {
            session.prove_where_answers_come_from(limit)?;
        }
        Ok(session)
    }

    /// Connects with TLS, or without it if that is allowed and the server has none. After a TLS failure it never connects without: an
    /// attacker in between could cause the failure.
    fn open(
        &self,
        target: &Target,
        address: &Address,
        options: &OptsBuilder,
        server: &str,
    ) -> Result<(Conn, Option<Agreed>), Fault> {
        let failed = |error| Fault::of_connecting(error, server, &self.user);
        let host = match (target, address) {
            (Target::Tcp(host, _), Address::Tcp(ip, _)) if self.tls.is_used() => Some((host, *ip)),
            _ => None,
        };
        if host.is_some() {
            match self.log_in(options, host)? {
                Err(mysql::Error::DriverError(DriverError::TlsNotSupported))
                    if self.tls.is_optional() =>
                {
                    let line = format!("{server} offers no TLS; connecting without");
                    self.tell_once(Level::Info, &line);
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
        Ok((self.log_in(options, None)?.map_err(failed)?, None))
    }

    /// Logs in, and retries if the crate may have spoilt the login: the crate drops a zero at the end of the server's random number as if
    /// it were the terminator. With MariaDB's ed25519 and PARSEC it is not. So one of 256 logins with the right password fails there, by
    /// a refusal of the server, or by a panic, after which it is retried at most twice. A refusal does not show which server it was, so a
    /// wrong password is sent twice to any server.
    ///
    /// The crate also panics if a server asks for PARSEC and there is no password. HMAC fills up a short key with zeros, so a password of
    /// one zero byte is the same as none there: send that, and let the server decide.
    fn log_in(
        &self,
        options: &OptsBuilder,
        with_tls_at: Option<(&String, IpAddr)>,
    ) -> Result<mysql::Result<Conn>, Fault> {
        let attempt = |options: OptsBuilder| {
            let options = match with_tls_at {
                Some((host, ip)) => options.ssl_opts(self.tls.prepare_tls(host, ip)?),
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
}
