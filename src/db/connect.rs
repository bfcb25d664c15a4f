//! Connecting to a server: the hosts in order, and every address of a name, until one accepts the login.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::vec;

use super::address::Address;
use super::fault::Fault;
use super::resolver::{Resolved, Resolvers, resolve};
use super::session::Session;
use super::target::{ConnectOptions, Kind, Target};
use super::wire::{LogIn, LoginLimit};
use super::{mysql, postgres};
use crate::base::clock::{Moment, by_chance, doubled};
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Listener};
use crate::base::text::shown;

/// The pause between rounds. After a full server the pause doubles each time, up to the longest one or a part of the answer limit. Half
/// of it is random, so that clients which were refused at the same time do not return at the same time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const PART_OF_LIMIT: u32 = 8;

/// The servers and the account to connect with.
pub struct Connector {
    kind: Kind,
    targets: Vec<Target>,
    account: Box<dyn LogIn>,
    listener: Listener,
    attempt_limit: Cell<Duration>,
    /// Whether this process must not hang, as it may have to end a command: then others resolve the names, and a login is limited in all.
    must_not_hang: Cell<bool>,
    resolvers: RefCell<Resolvers>,
    /// Whether a server has been reached.
    has_connected: Cell<bool>,
    /// How many rounds in a row have found a full server.
    full_rounds: Cell<u32>,
    /// The lines that were reported already. A failure that repeats ten times a second is reported once.
    said: RefCell<Vec<String>>,
    /// The faults of the servers that were tried before the one that was reached, in the latest round.
    passed_over: RefCell<Vec<PassedOver>>,
    /// The server whose session stopped answering, or that refused a statement. It is tried last until a server has been reached.
    failed: RefCell<Option<String>>,
}

/// A server that was passed over for another one.
#[derive(Debug, Clone)]
pub struct PassedOver {
    /// The server, as the user named it.
    pub target: String,
    /// The server, and why.
    pub line: String,
    /// Whether it was reached and is read-only, as a replica should be.
    pub read_only: bool,
}

/// A round of all servers.
struct Round<'a> {
    /// The servers that are left, in order.
    targets: vec::IntoIter<&'a Target>,
    /// How many rounds in a row before this one have found a full server.
    full_rounds: u32,
    /// The fault that decides so far.
    outcome: Option<Fault>,
    /// Reported if another server is used instead; otherwise the last one is the error.
    refusals: Vec<String>,
    /// What the last server lacks. That is the error, unless another server's fault decides.
    unsaid: Option<String>,
}

impl Connector {
    /// Reads what is still missing: the files of the password and of TLS, and the OS user's name. Each session has these connection
    /// `attributes`, and ends after the `idle_limit` without a statement. The listener gets each step.
    ///
    /// # Errors
    /// [`Reason::Configuration`](crate::base::exit::Reason) when a file cannot be used.
    pub fn new(
        settings: &ConnectOptions,
        attributes: HashMap<&'static str, String>,
        idle_limit: Duration,
        listener: Listener,
    ) -> Result<Self, Failure> {
        let servers = u32::try_from(settings.targets.len()).unwrap_or(u32::MAX);
        let account: Box<dyn LogIn> = match settings.kind {
            Kind::MySql => {
                let account = mysql::Account::new(settings, attributes, idle_limit, &listener)?;
                Box::new(account)
            }
            Kind::Postgres => {
                let account = postgres::Account::new(settings, &attributes, idle_limit, &listener)?;
                Box::new(account)
            }
        };
        Ok(Self {
            kind: settings.kind,
            targets: settings.targets.clone(),
            account,
            listener,
            // A little less than its share, so that there is time to report the cause of a failure.
            attempt_limit: Cell::new(settings.connect_timeout.mul_f64(0.95) / servers),
            must_not_hang: Cell::new(false),
            resolvers: RefCell::default(),
            has_connected: Cell::new(false),
            full_rounds: Cell::new(0),
            said: RefCell::default(),
            passed_over: RefCell::default(),
            failed: RefCell::default(),
        })
    }

    /// Tries each server once, until one has a session that `open` accepts. Returns the session, and what `open` returned. The caller
    /// sets the total limit. Each server gets its share for every answer, so a silent one does not use up the time of the next; one that
    /// trickles, or a resolver that hangs, can. The login as a whole has no limit of its own here: a busy server may need one answer's time
    /// for each of several.
    ///
    /// # Errors
    /// [`Fault::Final`]: no further attempt can succeed, or not soon. [`Fault::ReadOnly`]: all servers are read-only. Anything else:
    /// another attempt may succeed.
    pub fn connect<T>(
        &self,
        mut open: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<(Session, T), Fault> {
        let mut round = self.begin_round();
        while let Some(target) = round.targets.next() {
            match self.try_target(target, &mut open) {
                Ok(opened) => {
                    self.note_connected(round);
                    return Ok(opened);
                }
                Err(fault) => self.pass_over(&mut round, target, fault)?,
            }
        }
        Err(self.why_none(round))
    }

    fn begin_round(&self) -> Round<'_> {
        self.passed_over.borrow_mut().clear();
        let failed = self.failed.borrow().clone();
        let has_failed = |target: &&Target| failed.as_ref() == Some(&target.to_string());
        let (last, mut targets): (Vec<_>, Vec<_>) = self.targets.iter().partition(has_failed);
        targets.extend(last);
        Round {
            targets: targets.into_iter(),
            full_rounds: self.full_rounds.take(),
            outcome: None,
            refusals: Vec::new(),
            unsaid: None,
        }
    }

    fn note_connected(&self, round: Round) {
        for line in round.refusals {
            self.tell_once(Level::Warning, &line);
        }
        self.has_connected.set(true);
        self.failed.take();
        self.resolvers.borrow_mut().end();
        self.said.borrow_mut().clear();
    }

    /// Notes why a server has no session, before the next one is tried.
    ///
    /// # Errors
    /// The fault, if it ends the round.
    fn pass_over(&self, round: &mut Round, target: &Target, fault: Fault) -> Result<(), Fault> {
        let fault = match fault {
            Fault::NoNamedLocks(failure) => return Err(Fault::Final(failure)),
            fault if fault.ends_round() => return Err(fault),
            fault => fault,
        };
        let line = match &fault {
            Fault::ReadOnly(cause) => format!("{target} {cause}"),
            Fault::Untrusted(failure) | Fault::Final(failure) => failure.line.clone(),
            fault => format!("cannot connect to {target}: {fault}"),
        };
        let is_last = round.targets.as_slice().is_empty();
        match &fault {
            Fault::Final(_) => round.refusals.push(line.clone()),
            Fault::Untrusted(_) if is_last => round.unsaid = Some(line.clone()),
            // Only this warning shows that a server is not the right one while another takes its place.
            Fault::Untrusted(_) => self.tell_once(Level::Warning, &line),
            _ => self.tell_once(Level::Info, &line),
        }
        if matches!(fault, Fault::Full(_)) {
            self.full_rounds.set(round.full_rounds.saturating_add(1));
        }
        let read_only = matches!(fault, Fault::ReadOnly(_));
        let fault = if read_only {
            Fault::ReadOnly(line.clone())
        } else {
            fault
        };
        self.passed_over.borrow_mut().push(PassedOver {
            target: target.to_string(),
            line,
            read_only,
        });
        round.outcome = Some(match round.outcome.take() {
            None | Some(Fault::Untrusted(_)) => fault,
            Some(outcome) => outcome.decided_by(fault),
        });
        Ok(())
    }

    /// Why no server has a session.
    fn why_none(&self, round: Round) -> Fault {
        if let Some(Fault::Untrusted(failure)) = round.outcome {
            return Fault::Final(failure);
        }
        if let Some(line) = round.unsaid {
            self.tell_once(Level::Warning, &line);
        }
        let none = || Fault::Gone("no server is named".to_owned());
        round.outcome.unwrap_or_else(none)
    }

    /// Tries all servers again and again, however long it takes, until one has a session that `open` accepts.
    ///
    /// # Errors
    /// No further attempt can succeed.
    pub fn reach<T>(
        &self,
        open: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<(Session, T), Failure> {
        self.reach_unless(open, |_| Ok(self.pause()))
    }

    /// As [`Connector::reach`]. After a round without a server `on_fault` says how long to pause, or why to try no more.
    ///
    /// # Errors
    /// As [`Connector::reach`], and those of `on_fault`.
    pub fn reach_unless<T>(
        &self,
        mut open: impl FnMut(&mut Session) -> Result<T, Fault>,
        mut on_fault: impl FnMut(Fault) -> Result<Duration, Failure>,
    ) -> Result<(Session, T), Failure> {
        loop {
            match self.connect(&mut open) {
                Ok(reached) => return Ok(reached),
                Err(Fault::Final(failure)) => return Err(failure),
                Err(fault) => sleep(on_fault(fault)?),
            }
        }
    }

    /// As [`Connector::connect`], with a limit on a round of all servers, also where the resolver hangs, or a PostgreSQL trickles at the
    /// login. A name that was not found by then is waited for again in the next round.
    ///
    /// # Errors
    /// Likewise.
    pub fn connect_within<T>(
        &self,
        limit: Duration,
        open: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<(Session, T), Fault> {
        let servers = u32::try_from(self.targets.len()).unwrap_or(u32::MAX);
        let before = self.attempt_limit.get();
        self.cap_attempts(limit / servers.max(1));
        self.must_not_hang.set(true);
        let connected = self.connect(open);
        self.must_not_hang.set(false);
        self.attempt_limit.set(before);
        connected
    }

    /// This session's server stopped answering, or refused a statement: try the others before it.
    pub fn try_last(&self, session: &Session) {
        self.failed.replace(Some(session.target().to_owned()));
    }

    /// The answers of all servers except the session's, each in a new session with this `limit` for connecting and answering. Servers
    /// without an answer are left out.
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

    /// The answer of one server, as with [`Connector::survey`], and the session's name of the server.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn ask<T>(
        &self,
        target: &Target,
        limit: Duration,
        mut ask: impl FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<(String, T), Fault> {
        let before = self.attempt_limit.replace(limit);
        let asked = self.try_target(target, &mut |session| {
            session.answer_within(limit)?;
            ask(session)
        });
        self.attempt_limit.set(before);
        asked.map(|(session, answer)| (session.to_string(), answer))
    }

    /// Passes a line on to the listener.
    pub fn tell(&self, level: Level, line: &str) {
        (self.listener)(level, line);
    }

    /// Reports a failure that repeats ten times a second only once.
    fn tell_once(&self, level: Level, line: &str) {
        // The time in the line differs each time.
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
        let pause = doubled(PAUSE, self.full_rounds.get());
        let longest = LONGEST_PAUSE.min(self.attempt_limit.get() / PART_OF_LIMIT);
        by_chance(pause.min(longest.max(PAUSE)))
    }

    /// The answer limit for each server.
    pub fn attempt_limit(&self) -> Duration {
        self.attempt_limit.get()
    }

    /// The limit on the first answer of a session, of the time that is left for all servers: where there are others, they are to be tried
    /// in time.
    pub fn answer_limit(&self, left: Duration) -> Duration {
        if self.targets.len() > 1 {
            left.min(self.attempt_limit())
        } else {
            left
        }
    }

    /// Limits each answer to this from now on.
    pub fn cap_attempts(&self, limit: Duration) {
        self.attempt_limit.set(self.attempt_limit.get().min(limit));
    }

    /// The kind of all servers.
    pub fn kind(&self) -> Kind {
        self.kind
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
        open: &mut dyn FnMut(&mut Session) -> Result<T, Fault>,
    ) -> Result<(Session, T), Fault> {
        let (share, begun) = (self.attempt_limit.get(), Moment::now());
        let addresses = Address::all_of(target, |host| self.resolve_in(share / 2, host))?;
        let left = share.saturating_sub(begun.elapsed()).max(share / 2);
        let limit = left / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut outcome: Option<Fault> = None;
        for address in addresses {
            let opened = self
                .try_address(target, &address, limit)
                .and_then(|mut session| Ok((open(&mut session)?, session)));
            match (opened, outcome.take()) {
                (Ok((opened, session)), _) => return Ok((session, opened)),
                (Err(fault), _) if fault.ends_round() => return Err(fault),
                // They usually belong to the same server. If one is not the right one, that decides.
                (Err(_), Some(fault @ Fault::Untrusted(_)))
                | (Err(fault @ Fault::Untrusted(_)), _)
                | (Err(fault), None) => outcome = Some(fault),
                (Err(fault), Some(before)) => outcome = Some(before.decided_by(fault)),
            }
        }
        Err(outcome.unwrap_or_else(|| Fault::Gone("the name has no address".to_owned())))
    }

    /// The addresses of a name, within this limit if the round has one. If not, the resolver has its own, and if that is too long, the
    /// supervisor ends this process.
    fn resolve_in(&self, limit: Duration, host: &str) -> Resolved {
        self.tell_once(Level::Info, &format!("resolving the name {host}"));
        let mut resolvers = self.resolvers.borrow_mut();
        if self.must_not_hang.get() {
            return resolvers.resolve_within(host, limit);
        }
        resolvers.end();
        resolve(host)
    }

    /// Opens a session with the server at this address, with this limit for each answer, and for the login if this process must not hang.
    fn try_address(
        &self,
        target: &Target,
        address: &Address,
        limit: Duration,
    ) -> Result<Session, Fault> {
        let server = address.shown(target);
        let tell = |line: &str| self.tell_once(Level::Info, line);
        tell(&format!("connecting to {server}"));
        let begun = Instant::now();
        let is_limited = self.must_not_hang.get();
        let login_limit = LoginLimit {
            each: limit,
            until: is_limited.then(|| Moment::now() + limit),
        };
        let logged_in = self
            .account
            .log_in(target, (address, &server), login_limit, &tell);
        let wire = logged_in.map_err(|fault| match fault {
            // It was right before, as with a database that is renamed, or closed, for a moment. A held lock must not end for that.
            Fault::Final(failure)
                if self.has_connected.get() && failure.reason == Reason::Configuration =>
            {
                self.tell_once(Level::Warning, &failure.line);
                Fault::Gone(failure.line)
            }
            fault => fault,
        })?;
        let opened_in = begun.elapsed();
        let how = wire
            .encryption()
            .map(|encryption| format!(" ({encryption})"));
        let how = how.unwrap_or_default();
        tell(&format!(
            "connected to {server}{how} in {}",
            shown(opened_in)
        ));
        let awaited = format!("waiting for an answer from {server}");
        self.tell_once(Level::Step, &awaited);
        let names = (target.to_string(), server);
        let (kind, listener) = (self.kind(), Rc::clone(&self.listener));
        let mut session = Session::new(kind, wire, names, opened_in, listener)?;
        if session.encryption().is_some() && self.account.doubts_answers() {
            session.prove_where_answers_come_from(login_limit.left())?;
        }
        Ok(session)
    }
}
