//! Reaching a server: hosts in order, every address of a name, until one lets us in.

mod address;
mod login;
mod password;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::time::Duration;

use mysql::{LocalInfileHandler, OptsBuilder};

use super::fault::Fault;
use super::session::Session;
use super::target::{ConnectOptions, Target};
use super::tls::{Tls, check_public_key};
use crate::base::clock::by_chance;
use crate::base::exit::Failure;
use crate::base::log::{Level, Listener};
use crate::base::user::os_user;
use address::Address;

/// TCP keep-alive: a session that is gone, or a load balancer's forgotten flow, turns into an error within a minute, or a
/// quarter of the TTL where that is less, so that there is time to find another server; and a NAT's entry does not age. Idle
/// time and interval are a third of that.
const USER_TIMEOUT: Duration = Duration::from_secs(60);
const SHORTEST_USER_TIMEOUT: Duration = Duration::from_secs(3);
const KEEPALIVE_PROBES: u32 = 2;

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
    /// The server that fell silent or refused in a session: it comes last until a server has been reached.
    failed: RefCell<Option<String>>,
}

/// A server that another was taken for.
#[derive(Debug, Clone)]
pub struct PassedOver {
    /// Which, as it was named.
    pub target: String,
    /// Which, and why.
    pub line: String,
    /// Whether it was reached and is read-only, as a replica should be.
    pub read_only: bool,
}

impl Connector {
    /// Reads what is still to be read: the password's file, those of TLS, the OS user's name. Each session has these connection
    /// `attributes`, and ends when it sends no statement for the `idle_limit`; the listener gets each step.
    ///
    /// # Errors
    /// [`Reason::Configuration`](crate::base::exit::Reason) when a file cannot be used.
    pub fn new(
        settings: &ConnectOptions,
        attributes: HashMap<&'static str, String>,
        idle_limit: Duration,
        listener: Listener,
    ) -> Result<Self, Failure> {
        let password = password::read(&settings.password, &listener)?;
        let user = match &settings.user {
            Some(user) => user.clone(),
            None => os_user()?,
        };
        if let Some(key) = &settings.tls.server_public_key {
            check_public_key(key)?;
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
            // A little less than its share, so that the cause of a failure can still be reported.
            attempt_limit: Cell::new(settings.connect_timeout.mul_f64(0.95) / servers),
            full_rounds: Cell::new(0),
            said: RefCell::default(),
            passed_over: RefCell::default(),
            failed: RefCell::default(),
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
        let failed = self.failed.borrow().clone();
        let has_failed = |target: &&Target| failed.as_ref() == Some(&target.to_string());
        let (last, first): (Vec<_>, Vec<_>) = self.targets.iter().partition(has_failed);
        for target in first.into_iter().chain(last) {
            let fault = match self.try_target(target, &mut open) {
                Ok(opened) => {
                    self.failed.take();
                    self.said.borrow_mut().clear();
                    return Ok(opened);
                }
                Err(Fault::Final(failure) | Fault::NoNamedLocks(failure)) => {
                    return Err(Fault::Final(failure));
                }
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
            let target = target.to_string();
            self.passed_over.borrow_mut().push(PassedOver {
                target,
                line,
                read_only,
            });
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

    /// The server of this session fell silent, or refused what was asked: the others are tried before it.
    pub fn try_last(&self, session: &Session) {
        self.failed.replace(Some(session.target().to_owned()));
    }

    /// What each server but that of the session answers, in a session that is opened for it and may take so long to come about and to
    /// answer. Those that do not are left out.
    pub fn survey<T>(
        &self,
        limit: Duration,
        but: &Session,
        mut ask: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Vec<(String, T)> {
        let others = self
            .targets
            .iter()
            .filter(|target| target.to_string() != but.target());
        let answered = others.filter_map(|target| self.ask(target, limit, &mut ask).ok());
        answered.collect()
    }

    /// What one server answers, as with [`Connector::survey`], and how a session shows its name.
    ///
    /// # Errors
    /// What kept it from that.
    pub fn ask<T>(
        &self,
        target: &Target,
        limit: Duration,
        mut ask: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<(String, T), Fault> {
        let before = self.attempt_limit.replace(limit);
        let asked = self.try_target(target, &mut |session| {
            session
                .answer_within(limit)
                .map_err(|error| Fault::Gone(error.to_string()))?;
            ask(session)
        });
        self.attempt_limit.set(before);
        asked.map(|(session, answer)| (session.to_string(), answer))
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
        by_chance(pause.min(longest.max(PAUSE)))
    }

    /// How long each server gets for an answer.
    pub fn attempt_limit(&self) -> Duration {
        self.attempt_limit.get()
    }

    /// From now on no server gets more than this for an answer.
    pub fn cap_attempts(&self, limit: Duration) {
        self.attempt_limit.set(self.attempt_limit.get().min(limit));
    }

    /// All servers, in order.
    pub fn targets(&self) -> &[Target] {
        &self.targets
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
        let addresses = Address::all_of(target, &|line| self.tell_once(Level::Info, line))?;
        let limit =
            self.attempt_limit.get() / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut outcome: Option<Fault> = None;
        for address in addresses {
            let opened = self
                .try_address(target, &address, limit)
                .and_then(|mut session| Ok((open(&mut session)?, session)));
            match (opened, outcome.take()) {
                (Ok((opened, session)), _) => return Ok((session, opened)),
                (Err(fault @ (Fault::Final(_) | Fault::NoNamedLocks(_))), _) => return Err(fault),
                // They are one server's, as a rule: one that is not the right one decides.
                (Err(_), Some(fault @ Fault::Untrusted(_)))
                | (Err(fault @ Fault::Untrusted(_)), _)
                | (Err(fault), None) => outcome = Some(fault),
                (Err(fault), Some(before)) => outcome = Some(before.decided_by(fault)),
            }
        }
        Err(outcome.unwrap_or_else(|| Fault::Gone("the name has no address".to_owned())))
    }
}
