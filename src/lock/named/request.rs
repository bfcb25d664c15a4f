//! A caller's request for a named lock, and what all of its steps share. NULL, an error or a lost connection never counts as "held by
//! another", and never as "held by this session".

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::fitness::{Fitness, ServerTraits, Unfit, advance, refuse_postgres};
use super::queue::{Answer, Plan};
use super::statements::{
    Statements, ask_is_one_of_several, ask_owners, release_once, set_idle_timeout,
    shorten_idle_timeout, statements, take_lock, take_lock_now, try_slots,
};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::shown;
use crate::db::server_facts::why_read_only;
use crate::db::{
    Ask, Client, Fault, Kind, LatestTimeline, OWN_ATTRIBUTES, Session, claims, client,
};
use crate::lock::{Caller, Holder, Holders, Lease, LockSpec, MOST_NAMED, Name, Wait};

/// The pause before the next attempt, after an unclear answer, an interrupted statement or a lost session.
pub const PAUSE: Duration = Duration::from_millis(100);

/// How long a killed session may take to end, and the pause between two checks.
pub const LONGEST_END: Duration = Duration::from_secs(2);
pub const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The pause between two checks on a killer.
pub const LOOK_AGAIN_AT_KILLER: Duration = Duration::from_millis(20);

/// When to ask who holds the lock; by default never. The question makes the server search all of its sessions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verbosity {
    /// When the wait begins.
    pub when_waiting: bool,
    /// When it was not acquired in time.
    pub when_taken: bool,
}

/// A lock, and how long to wait for it.
pub struct Request {
    kind: Kind,
    pub(super) name: Name,
    pub(super) statements: Box<dyn Statements>,
    /// The name of the run id lock on the server.
    pub(super) run_id: String,
    pub(super) slots: u32,
    wait: Wait,
    /// The `wait_timeout` that is set on the server.
    pub(super) ttl: Duration,
    accepts: Accepts,
    /// When the lock was first requested; `None`: not yet. A new session continues the same wait.
    pub(super) since: Option<Instant>,
    /// Whether the caller has waited for the lock, so others may be waiting, too.
    pub(in crate::lock) has_waited: bool,
    /// Notifies the next one in line, which this one has left; `None`: that is done.
    pub(super) waking: Option<Ask<'static, ()>>,
    /// The latest timeline of a PostgreSQL that it was on.
    pub timeline: LatestTimeline,
    /// Whether an earlier session may hold the run id lock.
    pub(super) may_have_ghost: bool,
    /// What was warned of. A caller that loses its session again and again while it waits says it once.
    warned: Vec<String>,
    pub(super) verbosity: Verbosity,
}

/// The servers that a request accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepts {
    /// Those on which a lock excludes others.
    Fit,
    /// Any that takes writes and keeps its sessions: the lock only serves as a queue.
    Queue,
    /// Any that takes writes.
    Unfit,
    /// Any: no server takes writes.
    ReadOnly,
}

impl Accepts {
    /// What else may be done about a server that is unfit for this reason, as the end of a line.
    fn besides(self, why: Unfit) -> &'static str {
        match (self, why) {
            // `dblock acquire` and `dblock cron run` have no such option. That reason names it already.
            (Self::Queue, _) | (_, Unfit::SeveralNodes) => "",
            _ => ", or use --allow-unfit-server",
        }
    }
}

impl Request {
    /// A request for a lock on servers of this kind. Each of its sessions acquires the run id lock.
    pub fn new(kind: Kind, spec: &LockSpec, run_id: &str, verbosity: Verbosity) -> Self {
        Self {
            kind,
            name: spec.name.clone(),
            statements: statements(kind, spec, run_id),
            run_id: run_id.to_owned(),
            slots: spec.slots,
            wait: spec.wait,
            ttl: spec.ttl,
            accepts: if spec.allow_unfit_server {
                Accepts::Unfit
            } else {
                Accepts::Fit
            },
            since: None,
            timeline: LatestTimeline::default(),
            has_waited: false,
            waking: None,
            may_have_ghost: false,
            warned: Vec::new(),
            verbosity,
        }
    }

    /// For a lock that only serves as a queue: it need not exclude callers on other nodes of a cluster.
    pub fn serving_as_queue(mut self) -> Self {
        if self.accepts == Accepts::Fit {
            self.accepts = Accepts::Queue;
        }
        self
    }

    /// For a request of another process, which has died. The server may still keep the session of that one.
    pub fn made_before(mut self) -> Self {
        self.may_have_ghost = true;
        self
    }

    /// Whether the lock only serves as a queue.
    pub(super) fn is_queue(&self) -> bool {
        self.accepts == Accepts::Queue
    }

    /// Whether it may lock on a read-only server if all are read-only.
    pub fn accepts_read_only(&self) -> bool {
        !self.wants_fit()
    }

    /// All servers are read-only: accepts such a server from now on.
    pub fn accept_read_only(&mut self) {
        self.accepts = Accepts::ReadOnly;
    }

    /// Whether it accepts only servers on which a lock excludes others.
    pub(super) fn wants_fit(&self) -> bool {
        matches!(self.accepts, Accepts::Fit | Accepts::Queue)
    }

    /// A server on which this request would exclude nobody, or may not: why, and what may be done.
    pub(super) fn unfit(&self, session: &Session, why: Unfit) -> Fault {
        let line = format!("{session} {why}{}", self.accepts.besides(why));
        Fault::Final(Failure::new(Reason::Configuration, line))
    }

    /// Whether the request refuses a server that is unfit for this reason.
    fn minds(&self, why: Unfit) -> bool {
        self.accepts != Accepts::Queue || !matches!(why, Unfit::Galera | Unfit::MultiPrimary)
    }

    /// Shortens the idle timeout of a session that holds a slot's lock while it waits for something else. If its client dies, the lock is
    /// soon free.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn begin_wait(&mut self, session: &mut Session) -> Result<(), Fault> {
        self.has_waited = true;
        carry_out(session, &shorten_idle_timeout(session.kind()))
    }

    /// Ends such a wait: sets the idle timeout of a holder again.
    ///
    /// # Errors
    /// As [`Request::begin_wait`].
    pub fn end_wait(ttl: Duration, session: &mut Session) -> Result<(), Fault> {
        carry_out(session, &set_idle_timeout(session.kind(), ttl))
    }

    /// Takes the lock of one slot, if it is free, and with it the lock `mark`.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn try_slot(
        &self,
        slot: u32,
        mark: Option<&str>,
        session: &mut Session,
    ) -> Result<bool, Fault> {
        let taken = session.run(&try_slots(&[self.taking_slot(slot, mark)]))?;
        Ok(taken == [true])
    }

    /// The expression that takes the lock of one slot, if it is free, and with it the lock `mark`: for [`try_slots`].
    pub fn taking_slot(&self, slot: u32, mark: Option<&str>) -> String {
        self.statements.taking_slot(slot, mark)
    }

    /// Announces that the killed holder of a slot ends its command. Until this session ends, or withdraws the announcement, nobody else
    /// acquires the slot. Returns whether this has acquired the lock that says so.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn announce_termination(&self, slot: u32, session: &mut Session) -> Result<bool, Fault> {
        let lock = self.name.termination_on_server(slot);
        self.announce("announce termination", &lock, session)
    }

    /// Withdraws that.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn finish_termination(&self, slot: u32, session: &mut Session) -> Result<(), Fault> {
        let lock = self.name.termination_on_server(slot);
        carry_out(
            session,
            &release_once(self.kind, "finish termination", &lock),
        )
    }

    /// The statement that withdraws [`Request::announce_termination`], for callers that send it after a commit. It is answered as
    /// [`Request::release_statement`] is, and nobody is to be woken.
    pub fn finish_termination_statement(&self, slot: u32) -> String {
        let lock = self.name.termination_on_server(slot);
        let release = release_once(self.kind, "release", &lock);
        format!("{}, NULL", release.sql())
    }

    /// Announces to those that wait that the holder of a slot is reacquiring it. One that is granted the slot meanwhile releases it.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub(super) fn announce_reacquire(&self, slot: u32, session: &mut Session) -> Result<(), Fault> {
        let lock = self.name.reacquire_on_server(slot);
        self.announce("announce reacquire", &lock, session)
            .map(drop)
    }

    /// Withdraws that.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub(super) fn finish_reacquire(&self, slot: u32, session: &mut Session) -> Result<(), Fault> {
        let lock = self.name.reacquire_on_server(slot);
        carry_out(session, &release_once(self.kind, "finish reacquire", &lock))
    }

    fn announce(&self, named: &str, lock: &str, session: &mut Session) -> Result<bool, Fault> {
        let taken = carry_out(session, &take_lock(self.kind, named, lock))?;
        Ok(taken == Some(true))
    }

    /// Withdraws what was announced of a slot.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn withdraw_announcements(&self, slot: u32, session: &mut Session) -> Result<(), Fault> {
        for lock in [
            self.name.reacquire_on_server(slot),
            self.name.termination_on_server(slot),
        ] {
            carry_out(session, &release_once(self.kind, "release lock", &lock))?;
        }
        Ok(())
    }

    /// Has a session acquire another lock, by its name on the server, if that lock is free.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn mark(lock: &str, session: &mut Session) -> Result<(), Fault> {
        session.run(&take_lock_now(session.kind(), lock)).map(drop)
    }

    /// Prepares a session to hold a lock, and acquires the run id lock.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub(super) fn prepare(&self, session: &mut Session) -> Result<(), Fault> {
        let open = self
            .statements
            .open_session(self.ttl, session.handshake_id());
        carry_out(session, &open)
    }

    /// Refuses a server by what it said of itself at the login, before it is asked anything.
    ///
    /// # Errors
    /// [`Fault::ReadOnly`], and [`Reason::Configuration`] for a server that is too old.
    pub(in crate::lock) fn refuse(&self, session: &Session) -> Result<(), Fault> {
        if self.kind != Kind::Postgres {
            return Ok(());
        }
        refuse_postgres(session)?;
        let is_on = |name| session.parameter(name) == Some("on");
        let is_read_only = is_on("in_hot_standby") || is_on("default_transaction_read_only");
        self.check_writes(is_read_only, session)
    }

    pub(super) fn plan(&self) -> Plan {
        let waits = self.wait != Wait::For(Duration::ZERO);
        Plan::new(self.slots, waits, self.statements.checks_kills())
    }

    /// Whether the wait is over.
    pub(super) fn is_late(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// The time that is left to wait; `None` without limit.
    pub fn left(&self) -> Option<Duration> {
        let Wait::For(limit) = self.wait else {
            return None;
        };
        let waited = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        Some(limit.saturating_sub(waited))
    }

    /// Refuses a read-only server, unless all are read-only.
    ///
    /// # Errors
    /// [`Fault::ReadOnly`].
    pub(super) fn check_writes(&self, is_read_only: bool, session: &Session) -> Result<(), Fault> {
        if is_read_only && self.accepts != Accepts::ReadOnly {
            return Err(Fault::ReadOnly(why_read_only(session).to_owned()));
        }
        Ok(())
    }

    /// Judges the server by the first answer on a session.
    ///
    /// # Errors
    /// [`Fault::ReadOnly`], and [`Reason::Configuration`] for any other server that it does not accept.
    pub(super) fn judge(
        &mut self,
        traits: &mut ServerTraits,
        (answer, run_id_owner, is_read_only): (Answer, Option<u64>, bool),
        session: &mut Session,
    ) -> Result<Fitness, Fault> {
        self.check_writes(is_read_only, session)?;
        advance(self.timeline, traits.timeline)?;
        if self.kind == Kind::Postgres && traits.may_be_one_of_several() {
            traits.is_one_of_several = session.run(&ask_is_one_of_several())?;
        }
        let of = (self.kind, session.handshake_id());
        let mut fitness = Fitness::judge(of, traits, run_id_owner, answer.connection_id, self.ttl);
        // Behind a proxy the next statement may reach another session. One more statement shows that.
        if let (true, Some(slot), true) = (
            fitness.unfit.is_empty(),
            answer.slot,
            session.handshake_id() != answer.connection_id,
        ) && !self.renew(slot, session)?
        {
            fitness.unfit.push(Unfit::SessionsShared);
        }
        let idle_limit = fitness.idle_limit;
        match fitness.unfit.iter().find(|why| self.minds(**why)) {
            // There it has not even taken the lock.
            Some(why @ Unfit::Pooler) => {
                let line = format!("{session} {why}");
                return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
            }
            Some(why) if self.wants_fit() => return Err(self.unfit(session, *why)),
            Some(why) => {
                let line = format!("{session} {why}; locking there anyway");
                self.warn_once(line, session);
            }
            None => {
                if is_read_only {
                    let why = why_read_only(session);
                    let line = format!("{session} {why}; locking there anyway");
                    self.warn_once(line, session);
                }
                if idle_limit < self.ttl {
                    let [short, asked] = [idle_limit, self.ttl].map(shown);
                    let line = format!(
                        "{session} keeps a session for {short} without a statement, not for {asked}: that is the TTL there"
                    );
                    self.warn_once(line, session);
                }
            }
        }
        Ok(fitness)
    }

    fn warn_once(&mut self, line: String, session: &Session) {
        if !self.warned.contains(&line) {
            session.tell(Level::Warning, &line);
            self.warned.push(line);
        }
    }

    /// Tells the caller that others hold the lock, and then asks who they are, if that is `wanted`. The server may be slow to say that, or
    /// may fall silent: it has answered what matters.
    ///
    /// # Errors
    /// [`Fault::Gone`].
    pub(super) fn tell_and_name_holders(
        &self,
        wanted: bool,
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Holders, Fault> {
        let unnamed = self.unnamed_holders();
        caller.on_taken(&unnamed);
        if wanted {
            return self.holders(session);
        }
        Ok(unnamed)
    }

    /// What the caller learns when it was not acquired in time. Leaves out the names if the server takes too long to say them.
    ///
    /// # Errors
    /// [`Fault::Gone`].
    pub(super) fn taken(
        &self,
        session: &mut Session,
        caller: &dyn Caller,
    ) -> Result<Holders, Fault> {
        let (asked, limit) = (Moment::now(), Lease::answer_limit(self.ttl));
        session.answer_within(limit)?;
        let wanted = self.verbosity.when_taken;
        match self.tell_and_name_holders(wanted, session, caller) {
            Err(Fault::Gone(_)) if asked.elapsed() >= limit => Ok(self.unnamed_holders()),
            holders => holders,
        }
    }

    /// The holders, while nobody has asked who they are.
    pub fn unnamed_holders(&self) -> Holders {
        Holders {
            named: Vec::new(),
            slots: self.slots,
        }
    }

    /// Asks who holds the lock.
    ///
    /// # Errors
    /// [`Fault::Gone`].
    pub fn holders(&self, session: &mut Session) -> Result<Holders, Fault> {
        let mut named = Vec::new();
        for slot in 0..self.slots.min(MOST_NAMED) {
            let holder = match session.run(&self.statements.holder(slot)) {
                Ok((Some(connection), _)) if self.kind == Kind::Postgres => {
                    Holder::Session(Box::new(named_client(connection, session)?))
                }
                Ok((Some(connection), address)) => {
                    let claims = match claims(session, OWN_ATTRIBUTES, Some(connection)) {
                        Err(fault @ Fault::Gone(_)) => return Err(fault),
                        claims => claims.ok().and_then(Result::ok),
                    };
                    Holder::Session(Box::new(Client {
                        connection,
                        address,
                        claims: claims.and_then(|mut all| all.remove(&connection)),
                    }))
                }
                Ok((None, _)) => {
                    let markers = [
                        self.name.kill_on_server(slot),
                        self.name.termination_on_server(slot),
                    ];
                    let owners = session.try_run(&ask_owners(self.kind, &markers))?;
                    match owners.into_iter().flatten().flatten().next() {
                        Some(killer) => Holder::Killer(Box::new(named_client(killer, session)?)),
                        None => Holder::Nobody,
                    }
                }
                Err(fault @ Fault::Gone(_)) => return Err(fault),
                // That the lock is held is all that matters.
                Err(_) => Holder::Unknown,
            };
            // A client other than dblock may hold several slots.
            if !named.contains(&holder) {
                named.push(holder);
            }
        }
        Ok(Holders {
            named,
            slots: self.slots,
        })
    }
}

/// The client of a session, as far as it can be read. Only a lost connection is an error.
///
/// # Errors
/// [`Fault::Gone`].
pub fn named_client(id: u64, session: &mut Session) -> Result<Client, Fault> {
    match client(id, session) {
        Ok(client) => Ok(client),
        Err(fault @ Fault::Gone(_)) => Err(fault),
        Err(_) => Ok(unnamed(id)),
    }
}

/// A client of which only the session is known.
pub fn unnamed(connection: u64) -> Client {
    Client {
        connection,
        ..Client::default()
    }
}

/// Runs a statement, however often it is interrupted.
///
/// # Errors
/// Any other fault of a statement.
pub fn carry_out<T>(session: &mut Session, ask: &Ask<T>) -> Result<T, Fault> {
    loop {
        match session.run(ask) {
            Err(Fault::Interrupted(_) | Fault::Conflict(_)) => sleep(PAUSE),
            answer => return answer,
        }
    }
}

/// Fails if an older session should have ended by now. Its end began at `begun`.
pub fn may_end(begun: Moment) -> Result<(), Fault> {
    if begun.elapsed() > LONGEST_END {
        return Err(Fault::Interrupted(
            "an older session does not end".to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_named_once_and_only_to_who_has_it() {
        let besides = Accepts::Fit.besides(Unfit::SessionsShared);
        assert_eq!(besides, ", or use --allow-unfit-server");
        let several = Unfit::SeveralNodes.to_string();
        assert!(several.ends_with("use --allow-unfit-server"));
        for (accepts, why) in [
            (Accepts::Fit, Unfit::SeveralNodes),
            (Accepts::Queue, Unfit::SessionsShared),
        ] {
            assert_eq!(accepts.besides(why), "", "{why}");
        }
    }
}
