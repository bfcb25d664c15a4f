//! Tries a lock of its own on a server, for `dblock check`: whether it excludes others, and whether a second session sees it.

use std::thread::sleep;
use std::time::Duration;

use super::acquire::{Decision, Opening};
use super::fitness::Unfit;
use super::request::{Request, Verbosity};
use super::statements::{
    Line, ask_owners, kill_session, release_once, take_lock_now, wait_for_lock,
};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::db::cluster::ask_multi_primary;
use crate::db::server_facts::{Shown, median};
use crate::db::{Ask, Connector, Fault, Kind, Session, ask};
use crate::lock::{DEFAULT_TTL, LockSpec, Name, Nobody, OnLockLost, Wait, run_id_lock};

/// The pause between two checks of another session.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The prefix of all such locks.
pub const CHECKED: &str = "dblock-check-";

/// A lock under a random name.
pub struct Probe {
    name: Name,
    /// The run id lock of the first session.
    marker: String,
}

/// The server that `dblock run` would lock on. If all are read-only, one of those.
pub struct Reached {
    /// The session.
    pub session: Session,
    /// The server's answer to the request for the lock, or why it has no named locks.
    pub opening: Result<Opening, Failure>,
    /// Whether every server is read-only.
    pub read_only: bool,
}

/// Whether a lock on a server excludes others.
pub struct Exclusion {
    /// Why it does not, the most important reason first; empty if it does.
    pub unfit: Vec<Unfit>,
    /// Whether the server is in a replication group.
    pub in_group: bool,
    /// The strict mode of a Percona cluster; `None` for all other servers.
    pub pxc_strict_mode: Option<String>,
}

impl Probe {
    /// Chooses a name.
    ///
    /// # Errors
    /// [`Reason::OsRefused`] when the system has no random bits.
    pub fn new() -> Result<Self, Failure> {
        let marker = run_id_lock()?;
        let name = format!("{CHECKED}{}", marker.trim_start_matches('#'));
        let name = Name::parse(&name)
            .map_err(|wrong| Failure::new(Reason::Internal, format!("the name {wrong}")))?;
        Ok(Self { name, marker })
    }

    /// The lock's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Reaches a server, and acquires the lock there as `dblock run` does. On each that is tried it has another name.
    ///
    /// # Errors
    /// [`Fault::Final`] where no further attempt can succeed; [`Fault::Gone`] where no server could be reached.
    pub fn reach(&mut self, connector: &Connector) -> Result<Reached, Fault> {
        let mut outcome = Err(Fault::Gone(String::new()));
        for read_only in [false, true] {
            let reached = connector.connect(|session| {
                // A server that was passed over may still keep its session, with the locks.
                *self = Self::new().map_err(Fault::Final)?;
                self.open(&self.marker, read_only, session)
            });
            outcome = reached.map(|(session, opening)| Reached {
                session,
                opening,
                read_only,
            });
            if !matches!(outcome, Err(Fault::ReadOnly(_))) {
                break;
            }
        }
        outcome
    }

    /// Opens a second session, which asks for the lock.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub fn open_second(
        &self,
        connector: &Connector,
        read_only: bool,
    ) -> Result<(Session, Opening), Fault> {
        let marker = run_id_lock().map_err(Fault::Final)?;
        let mut request = self.request(connector.kind(), &marker, read_only, Duration::ZERO);
        connector.connect(|session| request.open(session))
    }

    /// Asks a server for the lock as `dblock run` does: its answer, or why it has no named locks.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn ask(&self, session: &mut Session) -> Result<Result<Opening, Failure>, Fault> {
        let marker = run_id_lock().map_err(Fault::Final)?;
        self.open(&marker, true, session)
    }

    fn open(
        &self,
        marker: &str,
        read_only: bool,
        session: &mut Session,
    ) -> Result<Result<Opening, Failure>, Fault> {
        let mut request = self.request(session.kind(), marker, read_only, Duration::ZERO);
        match request.open(session) {
            Err(Fault::Final(failure)) if failure.reason == Reason::Configuration => {
                Ok(Err(failure))
            }
            opened => opened.map(Ok),
        }
    }

    /// Whether this server knows the run id lock of the first session, which is held. Then it is the same server, or one that shares
    /// its locks.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn sees_marker(&self, session: &mut Session) -> Result<bool, Fault> {
        let owners = ask_owners(session.kind(), std::slice::from_ref(&self.marker));
        let owners = session.try_run(&owners)?;
        Ok(owners.is_ok_and(|owners| owners[0].is_some()))
    }

    /// A request that waits so long, and accepts an unfit server.
    fn request(&self, kind: Kind, marker: &str, read_only: bool, wait: Duration) -> Request {
        let spec = LockSpec {
            name: self.name.clone(),
            slots: 1,
            wait: Wait::For(wait),
            ttl: DEFAULT_TTL,
            on_lost: OnLockLost::Reacquire,
            allow_unfit_server: true,
        };
        let mut request = Request::new(kind, &spec, marker, Verbosity::default());
        if read_only {
            request.accept_read_only();
        }
        request
    }

    /// Acquires the lock on a session on which it was not free, and waits up to this many whole seconds. Returns whether it was acquired.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn take(
        &self,
        session: &mut Session,
        opening: &Opening,
        wait: Duration,
    ) -> Result<bool, Fault> {
        if session.kind() == Kind::Postgres {
            let mut request = self.request(Kind::Postgres, &self.marker, true, wait);
            let decision = request.take(session, opening, &Nobody, None)?;
            return Ok(matches!(decision, Decision::Held(..)));
        }
        let taken = session.run(&wait_for_lock(&self.name.on_server(), wait))?;
        Ok(taken == Some(true))
    }

    /// Releases the lock.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn release(&self, session: &mut Session) -> Result<(), Fault> {
        if session.kind() == Kind::Postgres {
            // Whoever waits there is to be woken.
            let request = self.request(Kind::Postgres, &self.marker, true, Duration::ZERO);
            return request.release(0, session).map(drop);
        }
        let released = session.try_run(&release_once(
            session.kind(),
            "release lock",
            &self.name.on_server(),
        ));
        released.map(|_| ())
    }

    /// Releases the run id lock of the first session.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn release_marker(&self, session: &mut Session) -> Result<(), Fault> {
        session
            .try_run(&release_once(session.kind(), "release lock", &self.marker))
            .map(|_| ())
    }

    /// How long it takes to acquire the lock, which must be free.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn time_to_take(&self, session: &mut Session) -> Result<Duration, Fault> {
        let lock = self.name.on_server();
        let take = |session: &mut Session| {
            let taken = session.try_run(&take_lock_now(session.kind(), &lock));
            taken.map(|_| ())
        };
        median(session, take, |session| self.release(session))
    }

    /// Waits until nobody holds the lock, up to a `limit`: the server frees it a moment after it has closed a session.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn await_free(&self, session: &mut Session, limit: Duration) -> Result<(), Fault> {
        let until = Moment::now() + limit;
        let owners = ask_owners(session.kind(), &[self.name.on_server()]);
        let is_held = |owners: Vec<Option<u64>>| owners[0].is_some();
        while session.try_run(&owners)?.is_ok_and(is_held) && Moment::now() < until {
            sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

/// Waits until another session waits for a lock, as far as the server shows that, up to a `limit`.
///
/// # Errors
/// The session must be dropped.
pub fn await_waiter(
    session: &mut Session,
    (name, waiter): (&Name, u64),
    limit: Duration,
) -> Result<(), Fault> {
    let until = Moment::now() + limit;
    let waits = match session.kind() {
        Kind::MySql => ask_waits(waiter),
        Kind::Postgres => Line::ask_waiters(name).map(move |waiters| waiters.contains(&waiter)),
    };
    while session.try_run(&waits)? != Ok(true) && Moment::now() < until {
        sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Whether a session can wait in line for a lock. On a standby of PostgreSQL it cannot: that takes no LISTEN, by which those in line are
/// notified.
///
/// # Errors
/// Any fault of a statement.
pub fn can_wait(session: &mut Session, opening: &Opening) -> Result<bool, Fault> {
    if session.kind() != Kind::Postgres {
        return Ok(true);
    }
    match session.run(&Line::listen(opening.connection_id())) {
        Ok(()) => Ok(true),
        Err(Fault::ReadOnly(_)) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Has the server kill a session that holds this lock. Returns whether the server accepts that.
///
/// # Errors
/// The session must be dropped.
pub fn end_session(session: &mut Session, other: u64, lock: &str) -> Result<bool, Fault> {
    let kill = kill_session(session.kind(), other, lock);
    Ok(session.try_run(&kill)?.is_ok())
}

/// Whether a lock excludes others, including what only `dblock check` asks.
///
/// # Errors
/// The session must be dropped.
pub fn exclusion(session: &mut Session, opening: &Opening) -> Result<Exclusion, Fault> {
    let mut unfit = opening.fitness.unfit.clone();
    if Shown::Variable("wsrep_on").is_on(session)? && !unfit.contains(&Unfit::Galera) {
        unfit.push(Unfit::Galera);
    }
    let group = Shown::Variable("group_replication_group_name").value(session)?;
    let in_group = group.is_some_and(|group| !group.is_empty());
    if session.try_run(&ask_multi_primary())? == Ok(true) {
        unfit.push(Unfit::MultiPrimary);
    }
    Ok(Exclusion {
        unfit,
        in_group,
        pxc_strict_mode: Shown::Variable("pxc_strict_mode").value(session)?,
    })
}

/// Whether a session waits for a named lock.
fn ask_waits(session: u64) -> Ask<'static, bool> {
    let sql = format!(
        "SELECT 1 FROM information_schema.processlist WHERE ID = {session} AND STATE = 'User lock'"
    );
    ask("check waiter", sql, |rows| Ok(!rows.is_empty()))
}
