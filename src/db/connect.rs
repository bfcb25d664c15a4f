//! Reaching a server: hosts in order, every address of a name, until one lets us in.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mysql::{Conn, DriverError, LocalInfileHandler, Opts, OptsBuilder};
use native_tls::Agreed;
use zeroize::Zeroizing;

use super::fault::Fault;
use super::fault::is_about_the_account;
use super::session::{Listener, Session};
use super::target::{ConnectOptions, Password, Target};
use super::tls::{self, Tls};
use crate::base::exit::{Failure, Reason};
use crate::base::file;
use crate::base::log::Level;
use crate::base::text::{in_words, shown};
use crate::base::user::os_user;

/// Where distributions and MySQL's own builds put the local socket.
const USUAL_SOCKETS: [&str; 4] = [
    "/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/tmp/mysql.sock",
    "/run/mysql/mysql.sock",
];

/// TCP keep-alive: a session that is gone, or a load balancer's forgotten flow, turns into an error within a minute, or a
/// quarter of the TTL where that is less, so that there is time to seek another server; and a NAT's entry does not age. Idle
/// time and interval are a third of that.
const USER_TIMEOUT: Duration = Duration::from_secs(60);
const SHORTEST_USER_TIMEOUT: Duration = Duration::from_secs(3);
const KEEPALIVE_PROBES: u32 = 2;

/// The error of a server that knows the account by another password, or not at all.
const WRONG_PASSWORD: u16 = 1045;

/// What a packet may hold. Said, so that the crate does not ask the server; dblock's own statements are far shorter.
const PACKET_LIMIT: usize = 1024 * 1024;

/// From one round to the next. Where a server is full the pause doubles each time, up to the longest or a part of the time that
/// a server gets for an answer, and half of it is by chance: those that it refused at the same time do not come back at the
/// same time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const PART_OF_LIMIT: u32 = 8;

/// Knows the servers and the account.
pub struct Connector {
    targets: Vec<Target>,
    user: String,
    account: OptsBuilder,
    has_password: bool,
    tls: Tls,
    listener: Listener,
    attempt_limit: Cell<Duration>,
    /// How many rounds in a row have met a full server.
    full_rounds: Cell<u32>,
    /// What fails ten times a second in the same way is said once.
    said: RefCell<Vec<String>>,
    /// What the servers failed of that came before the one that was reached, in the latest round.
    passed_over: RefCell<Vec<PassedOver>>,
}

/// A server that another was taken for.
#[derive(Debug, Clone)]
pub struct PassedOver {
    /// Which, and why.
    pub line: String,
    /// Whether it was reached and is read-only, as a replica should be.
    pub read_only: bool,
}

/// One address to try.
enum Address {
    Tcp(IpAddr, u16),
    Socket(PathBuf),
}

impl Connector {
    /// Reads what is still to be read: the password's file, those of TLS, the OS user's name. Each session has these connection
    /// `attributes`, and lives for the `idle_limit` when it keeps silent; the listener is told of each step.
    ///
    /// # Errors
    /// [`Reason::Configuration`] when a file cannot be used.
    pub fn new(
        settings: &ConnectOptions,
        attributes: HashMap<&'static str, String>,
        idle_limit: Duration,
        listener: Listener,
    ) -> Result<Self, Failure> {
        let password = password(&settings.password, &listener)?;
        let user = match &settings.user {
            Some(user) => user.clone(),
            None => os_user()?,
        };
        if let Some(key) = &settings.tls.server_public_key {
            tls::check_public_key(key)?;
        }
        let millis = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
        let user_timeout = (idle_limit / 4).clamp(SHORTEST_USER_TIMEOUT, USER_TIMEOUT);
        let keepalive = user_timeout / 3;
        let has_password = password
            .as_deref()
            .is_some_and(|password| !password.is_empty());
        let account = OptsBuilder::new()
            .user(Some(user.clone()))
            .pass(password.as_deref())
            // The crate would go from a loopback address to the socket that the server names; through a tunnel that is
            // another server's.
            .prefer_socket(false)
            .connect_attrs(Some(attributes))
            .server_key_path(settings.tls.server_public_key.clone())
            .max_allowed_packet(Some(PACKET_LIMIT))
            .stmt_cache_size(0)
            // A server may answer any statement with the demand for a file. Refused, it is no server to go on with.
            .local_infile_handler(Some(LocalInfileHandler::new(|_, _| {
                Err(io::Error::other("it asks for a file of this host's"))
            })))
            .tcp_keepalive_time_ms(Some(millis(keepalive)))
            .tcp_keepalive_probe_interval_secs(u32::try_from(keepalive.as_secs()).ok())
            .tcp_keepalive_probe_count(Some(KEEPALIVE_PROBES))
            .tcp_user_timeout_ms(Some(millis(user_timeout)));
        let servers = u32::try_from(settings.targets.len()).unwrap_or(u32::MAX);
        Ok(Self {
            targets: settings.targets.clone(),
            user,
            account,
            has_password,
            tls: Tls::new(&settings.tls, &settings.targets, &listener)?,
            listener,
            // A little less than its share, so that what it failed of can still be told.
            attempt_limit: Cell::new(settings.connect_timeout.mul_f64(0.95) / servers),
            full_rounds: Cell::new(0),
            said: RefCell::default(),
            passed_over: RefCell::default(),
        })
    }

    /// Tries each server once, until one has a session for us that `open` is content with; the session, and what `open`
    /// returned. It is the supervisor that sets the limit. Each server gets its share of that for every answer, so that a
    /// silent one does not keep the next from its turn; one that trickles, and a resolver that hangs, can.
    ///
    /// # Errors
    /// [`Fault::Final`] is what no further attempt can mend; [`Fault::ReadOnly`] that all servers are; anything else that
    /// another attempt may succeed.
    pub fn connect<T>(
        &self,
        mut open: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<(Session, T), Fault> {
        let mut outcome: Option<Fault> = None;
        let full_rounds = self.full_rounds.take();
        self.passed_over.borrow_mut().clear();
        for target in &self.targets {
            let fault = match self.try_target(target, &mut open) {
                Ok(opened) => {
                    self.said.borrow_mut().clear();
                    return Ok(opened);
                }
                Err(fault @ Fault::Final(_)) => return Err(fault),
                Err(fault) => fault,
            };
            let line = match &fault {
                Fault::ReadOnly(cause) => format!("{target} {cause}"),
                Fault::Untrusted(failure) => failure.line.clone(),
                fault => format!("cannot connect to {target}: {fault}"),
            };
            // That a server is not the right one is known to nobody else while another takes its place.
            let warns = matches!(fault, Fault::Untrusted(_)) && self.targets.len() > 1;
            self.tell_once(if warns { Level::Warning } else { Level::Info }, &line);
            if matches!(fault, Fault::Full(_)) {
                self.full_rounds.set(full_rounds.saturating_add(1));
            }
            let read_only = matches!(fault, Fault::ReadOnly(_));
            let fault = if read_only {
                Fault::ReadOnly(line.clone())
            } else {
                fault
            };
            self.passed_over
                .borrow_mut()
                .push(PassedOver { line, read_only });
            outcome = Some(match outcome {
                Some(outcome) => outcome.decided_by(fault),
                None => fault,
            });
        }
        Err(match outcome {
            Some(Fault::Untrusted(failure)) => Fault::Final(failure),
            Some(fault) => fault,
            None => Fault::Gone("no server is named".to_owned()),
        })
    }

    /// Says what fails ten times a second in the same way once.
    fn tell_once(&self, level: Level, line: &str) {
        // How long it took differs each time.
        let what = line.split(" in ").next().unwrap_or(line).to_owned();
        if !self.said.borrow().contains(&what) {
            (self.listener)(level, line);
            self.said.borrow_mut().push(what);
        }
    }

    /// How long to wait before the next round.
    pub fn pause(&self) -> Duration {
        if self.full_rounds.get() == 0 {
            return PAUSE;
        }
        let doubled = 1u32.checked_shl(self.full_rounds.get());
        let pause = PAUSE.saturating_mul(doubled.unwrap_or(u32::MAX));
        let longest = LONGEST_PAUSE.min(self.attempt_limit.get() / PART_OF_LIMIT);
        let pause = pause.min(longest.max(PAUSE));
        let chance = getrandom::u32().unwrap_or(u32::MAX);
        pause.mul_f64(0.5 + 0.5 * f64::from(chance) / f64::from(u32::MAX))
    }

    /// From now on no server gets more than this for an answer.
    pub fn hurry(&self, limit: Duration) {
        self.attempt_limit.set(self.attempt_limit.get().min(limit));
    }

    /// The servers that the latest round passed over, in order.
    pub fn passed_over(&self) -> Vec<PassedOver> {
        self.passed_over.borrow().clone()
    }

    fn try_target<T>(
        &self,
        target: &Target,
        open: &mut impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<(Session, T), Fault> {
        let addresses = self.addresses(target)?;
        let limit =
            self.attempt_limit.get() / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut outcome: Option<Fault> = None;
        for address in addresses {
            let opened = self
                .try_address(target, &address, limit)
                .and_then(|mut session| Ok((open(&mut session)?, session)));
            match (opened, outcome.take()) {
                (Ok((opened, session)), _) => return Ok((session, opened)),
                (Err(fault @ Fault::Final(_)), _) => return Err(fault),
                // They are one server's, as a rule: one that is not the right one decides.
                (Err(_), Some(fault @ Fault::Untrusted(_)))
                | (Err(fault @ Fault::Untrusted(_)), _)
                | (Err(fault), None) => outcome = Some(fault),
                (Err(fault), Some(before)) => outcome = Some(before.decided_by(fault)),
            }
        }
        Err(outcome.unwrap_or_else(|| Fault::Gone("the name has no address".to_owned())))
    }

    fn try_address(
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
        let mut session = Session::new(conn, server, opened_in, agreed, Rc::clone(&self.listener))?;
        if agreed.is_some() && self.tls.is_verified() {
            session.prove_where_answers_come_from(limit)?;
        }
        Ok(session)
    }

    /// Connects with TLS, or without where that is allowed and the server has none. One that fails of TLS is never tried
    /// without: whoever stands in between can make it fail.
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
                        let line = format!("{server} was reached without TLS, against all orders");
                        Fault::Final(Failure::new(Reason::Internal, line))
                    })?;
                    return Ok((conn, Some(agreed)));
                }
            }
        }
        Ok((self.log_in(options, None)?.map_err(failed)?, None))
    }

    /// Logs in, and once more where the crate may have spoilt it: it takes a zero at the end of a server's random number for
    /// its terminator, which it is not where MariaDB asks for ed25519 or PARSEC. So one of 256 logins with the right password
    /// is refused there, by the server or (twice at most is tried again then) by a panic. After a refusal nothing tells which
    /// server it was, so a password that is wrong is sent twice to any.
    ///
    /// It also panics where a server asks for PARSEC and there is no password. HMAC fills up a short key with zeros, so that
    /// there the password of one zero is the same as none: the server says what it makes of it.
    fn log_in(
        &self,
        options: &OptsBuilder,
        with_tls_at: Option<(&String, IpAddr)>,
    ) -> Result<mysql::Result<Conn>, Fault> {
        let attempt = |options: OptsBuilder| {
            let options = match with_tls_at {
                Some((host, ip)) => options.ssl_opts(self.tls.lay_down(host, ip)?),
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
            // By now the server may have blocked the account for too many wrong passwords: the first answer says why.
            Ok(Err(mysql::Error::MySqlError(error))) if is_about_the_account(&error) => {
                Err(mysql::Error::MySqlError(refused))
            }
            Ok(connected) => connected,
            Err(_) => Err(mysql::Error::MySqlError(refused)),
        })
    }

    /// The addresses of a target: every one of a name, in the resolver's order.
    fn addresses(&self, target: &Target) -> Result<Vec<Address>, Fault> {
        match target {
            Target::Tcp(host, port) => {
                if let Ok(ip) = host.parse() {
                    return Ok(vec![Address::Tcp(ip, *port)]);
                }
                // The resolver keeps its own time; the supervisor ends us if that is too long.
                self.tell_once(Level::Info, &format!("resolving the name {host}"));
                let found = (host.as_str(), *port).to_socket_addrs();
                let found = found.map_err(|error| {
                    Fault::Gone(format!("cannot resolve the name: {}", resolver(&error)))
                })?;
                let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                addresses.dedup();
                Ok(addresses
                    .into_iter()
                    .map(|ip| Address::Tcp(ip, *port))
                    .collect())
            }
            Target::Socket(path) => Ok(vec![Address::Socket(path.clone())]),
            Target::UsualSocket => {
                let usual = USUAL_SOCKETS
                    .iter()
                    .map(PathBuf::from)
                    .find(|path| path.exists());
                let path = usual.ok_or_else(|| {
                    Fault::Gone(
                        "no local socket at the usual places; name it with --socket".to_owned(),
                    )
                })?;
                Ok(vec![Address::Socket(path)])
            }
        }
    }
}

/// The resolver's words without the standard library's preface.
fn resolver(error: &io::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to lookup address information: ")
        .unwrap_or(&text)
        .to_owned()
}

/// The password, read where it stands.
fn password(
    settings: &Password,
    listener: &Listener,
) -> Result<Option<Zeroizing<String>>, Failure> {
    let (text, place) = match settings {
        Password::None => return Ok(None),
        Password::Given(password) => return Ok(Some(password.clone())),
        Password::File(path) => {
            let place = format!("the password file {}", path.display());
            (password_in(path, &place, listener), place)
        }
        Password::Deferred(deferred) => match (deferred.read)() {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => (Ok(bytes), deferred.place.clone()),
            Err(why) => (Err(why), deferred.place.clone()),
        },
    };
    let refused = |why: &str| {
        let line = format!("cannot read {place}: {why}");
        Failure::new(Reason::Configuration, line)
    };
    let mut bytes = text.map_err(|why| refused(&why))?;
    let text = String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new);
    let text = text.map_err(|_| refused("it is not UTF-8"))?;
    Ok(Some(text))
}

/// The first line of a password's file, without its line break.
fn password_in(
    path: &Path,
    place: &str,
    listener: &Listener,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let (mut bytes, metadata) = file::read(path).map_err(|error| in_words(&error))?;
    if metadata.mode() & 0o006 != 0 {
        let line = format!("{place} can be read by others; chmod 600 it");
        listener(Level::Warning, &line);
    }
    if let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
        bytes.truncate(end);
    }
    while bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err("it begins with a byte order mark; save it as UTF-8 without one".to_owned());
    }
    if bytes.contains(&0) {
        return Err("the password has a byte 0".to_owned());
    }
    Ok(bytes)
}
