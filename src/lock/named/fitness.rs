//! Does a lock on this server exclude others? The answer that acquires the lock also says what kind of server it is.

use std::time::Duration;

use crate::base::exit::{Failure, Reason};
use crate::db::cluster::is_wsrep;
use crate::db::{
    Fault, Kind, LatestTimeline, Session, Timeline, ask_session_info, ask_timeline, server_facts,
};

/// A server must keep an idle session at least this long: whole seconds, with room for a renewal and for the command's end.
const SHORTEST_IDLE_LIMIT: Duration = Duration::from_secs(4);

/// The fitness of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitness {
    /// How long the server keeps an idle session.
    pub idle_limit: Duration,
    /// Why a lock here would not exclude, the most important first; empty if it would.
    pub unfit: Vec<Unfit>,
}

/// Why a lock on a server would not exclude. Displayed, it continues a sentence that begins with the server, and says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A node of a Galera cluster.
    #[error(
        "is a Galera node: named locks are its own, and another node gives the same lock to another host; use a \
         server outside the cluster"
    )]
    Galera,
    /// A member of a replication group in which each member takes writes.
    #[error(
        "is a member of a multi-primary group: named locks are its own, and another member gives the same lock to \
         another host; use single-primary mode"
    )]
    MultiPrimary,
    /// A session variable reads back with another value than was set.
    #[error(
        "does not keep what is set for a session (wait_timeout is {found} and not {asked}): something in between seems to \
         share sessions, and no lock would stay; connect to the server itself"
    )]
    TimeoutNotKept {
        /// Seconds.
        found: u64,
        /// Seconds.
        asked: u64,
    },
    /// Acquiring a second lock releases the first.
    #[error(
        "keeps one named lock only for each session, as MySQL before 5.7.5 and MariaDB before 10.0.2 do; use a newer \
         server"
    )]
    OneLock,
    /// Statements of one connection reach different sessions.
    #[error(
        "answers two statements from different sessions: something in between shares them, and no lock would stay; \
         connect to the server itself"
    )]
    SessionsShared,
    /// A session expires before a renewal and the command's end fit in.
    #[error(
        "ends a session after {0} s without a statement; no less than 4 s will do, see its wait_timeout"
    )]
    ShortLived(u64),
    /// A pooler in front of PostgreSQL that may share a server's sessions.
    #[error(
        "answers from another session than the one that logged in: a pooler is in between, which may share sessions, and \
         no lock would stay; connect to the server itself, or, if the pooler is in session mode, add pooler=session to the \
         URL"
    )]
    Pooler,
    /// An advisory lock that was granted is not held.
    #[error(
        "grants advisory locks, and does not keep them: two hosts would get the same lock; use a PostgreSQL server"
    )]
    NotKept,
    /// A database of PostgreSQL's protocol whose advisory locks do nothing.
    #[error(
        "is a CockroachDB: its advisory locks do nothing, and two hosts would get the same lock; use a PostgreSQL server"
    )]
    Cockroach,
    /// A server beside which others take writes, each with its own locks.
    #[error(
        "is one of several nodes that take writes (citus, spock, bdr or pgactive is installed): advisory locks are its own, and \
         another node gives the same lock to another host; name one node alone, and use --allow-unfit-server"
    )]
    SeveralNodes,
}

/// The oldest PostgreSQL on which a lock frees itself when its host has vanished: it has `idle_session_timeout`.
pub const OLDEST_POSTGRES: u32 = 14;

/// Refuses a PostgreSQL by what it said of itself at the login, before it is asked anything.
///
/// # Errors
/// [`Reason::Configuration`] for one that is too old, or only looks like one.
pub fn refuse_postgres(session: &Session) -> Result<(), Fault> {
    let wrong = |line| Err(Fault::Final(Failure::new(Reason::Configuration, line)));
    if session.parameter("crdb_version").is_some() {
        return wrong(format!("{session} {}", Unfit::Cockroach));
    }
    let version = session.parameter("server_version").unwrap_or_default();
    let major = version.split(|c: char| !c.is_ascii_digit()).next();
    let major: Option<u32> = major.and_then(|major| major.parse().ok());
    if major.is_some_and(|major| major < OLDEST_POSTGRES) {
        return wrong(format!(
            "{session} is PostgreSQL {version}: dblock needs {OLDEST_POSTGRES} or newer, where a lock frees itself when \
             its host has vanished"
        ));
    }
    Ok(())
}

/// Why a server is passed over on which less has happened than on the one before.
const OLDER_TIMELINE: &str = "it is the server from before a fail-over: its timeline is older";

/// The number of a session that has several locks and other uses, as its server knows it. On PostgreSQL this comes before anything is set
/// or locked there: it shows a pooler that may share sessions, and a server from before a fail-over. `timeline` is that of the server
/// before, and then this one's.
///
/// # Errors
/// As [`refuse_postgres`], and for such a pooler or server; any fault of a statement.
pub fn number_of_shared(timeline: LatestTimeline, session: &mut Session) -> Result<u64, Fault> {
    if session.kind() == Kind::Postgres {
        refuse_postgres(session)?;
    }
    let number = unpooled_number(session)?;
    follow(timeline, session)?;
    Ok(number)
}

/// The number of a session, as its server knows it. On PostgreSQL this comes before anything is set or locked there: it shows a pooler that
/// may share sessions, and that is not said to be there.
///
/// # Errors
/// [`Reason::Configuration`] for such a pooler; any fault of a statement.
pub fn unpooled_number(session: &mut Session) -> Result<u64, Fault> {
    let login = session.handshake_id();
    if session.kind() != Kind::Postgres {
        return Ok(login);
    }
    let number = session.run(&ask_session_info(Kind::Postgres))?.connection;
    if login != 0 && login != number {
        let line = format!("{session} {}", Unfit::Pooler);
        return Err(Fault::Final(Failure::new(Reason::Configuration, line)));
    }
    Ok(number)
}

/// Goes from the `latest` timeline to that of this session's PostgreSQL. This comes before anything is written there.
///
/// # Errors
/// As [`advance`]; any fault of a statement.
pub fn follow(latest: LatestTimeline, session: &mut Session) -> Result<(), Fault> {
    if session.kind() != Kind::Postgres {
        return Ok(());
    }
    let found = match session.run(&ask_timeline()) {
        // Not every server tells it.
        Err(Fault::NoSuchVariable(_)) => None,
        found => found?,
    };
    advance(latest, found)
}

/// Goes from the `latest` timeline to the one that was `found`.
///
/// # Errors
/// [`Fault::Gone`]: that is of a server from before a fail-over.
pub fn advance(latest: LatestTimeline, found: Option<Timeline>) -> Result<(), Fault> {
    // A server that does not tell it makes no older one right.
    let Some(found) = found else { return Ok(()) };
    if latest
        .get()
        .is_some_and(|latest| found.is_older_than(latest))
    {
        return Err(Fault::Gone(OLDER_TIMELINE.to_owned()));
    }
    latest.set(found);
    Ok(())
}

/// The server's traits, from the answer to a session's first step. A missing value counts as fit.
pub struct ServerTraits {
    /// Its `wait_timeout` in this session: how long it keeps a session without a statement.
    idle_limit: Option<Duration>,
    /// Its `version_comment`.
    comment: String,
    /// Its `wsrep_on`, on MariaDB.
    wsrep_on: bool,
    /// Whether it is one node of several, on PostgreSQL.
    pub is_one_of_several: bool,
    /// Its timeline, on PostgreSQL: it grows with each fail-over.
    pub timeline: Option<Timeline>,
}

/// Whether a variable is on, as far as the server says.
pub fn is_on(value: Option<String>) -> bool {
    value.is_some_and(|value| server_facts::is_on(&value))
}

impl ServerTraits {
    /// The traits that these variables show: `wait_timeout` in seconds, `version_comment` and, on MariaDB, `wsrep_on`. On PostgreSQL:
    /// the idle timeout, its version, whether it may be [one of several](ServerTraits::may_be_one_of_several), and its timeline.
    pub fn new(
        wait_timeout: Option<u64>,
        version_comment: Option<String>,
        wsrep_on: Option<String>,
        timeline: Option<Timeline>,
    ) -> Self {
        Self {
            idle_limit: wait_timeout.map(Duration::from_secs),
            comment: version_comment.unwrap_or_default(),
            is_one_of_several: false,
            wsrep_on: is_on(wsrep_on),
            timeline,
        }
    }
}

impl ServerTraits {
    /// Whether a PostgreSQL has loaded what can make it one node of several.
    pub fn may_be_one_of_several(&self) -> bool {
        self.wsrep_on
    }
}

impl Fitness {
    /// Judges a server by the idle limit that the session `asked` for, and by the `owner` of the run id lock. `login` is the session's id
    /// from the login; zero: unknown.
    pub fn judge(
        (kind, login): (Kind, u64),
        traits: &ServerTraits,
        owner: Option<u64>,
        session: u64,
        asked: Duration,
    ) -> Self {
        let is_anothers = owner.is_some_and(|owner| owner != session);
        let idle_limit = match kind {
            Kind::MySql => traits.idle_limit.unwrap_or(asked),
            Kind::Postgres => asked,
        };
        let possible = match kind {
            Kind::MySql => vec![
                (traits.wsrep_on || is_wsrep(&traits.comment), Unfit::Galera),
                (
                    idle_limit > asked,
                    Unfit::TimeoutNotKept {
                        found: idle_limit.as_secs(),
                        asked: asked.as_secs(),
                    },
                ),
                (owner.is_none(), Unfit::OneLock),
                (is_anothers, Unfit::SessionsShared),
                (
                    idle_limit < SHORTEST_IDLE_LIMIT,
                    Unfit::ShortLived(idle_limit.as_secs()),
                ),
            ],
            Kind::Postgres => vec![
                (login != 0 && login != session, Unfit::Pooler),
                (traits.comment.contains("CockroachDB"), Unfit::Cockroach),
                // The session had locks of others.
                (login == 0 && owner.is_none(), Unfit::SessionsShared),
                (owner.is_none(), Unfit::NotKept),
                (
                    is_anothers || traits.idle_limit != Some(asked),
                    Unfit::SessionsShared,
                ),
                (traits.is_one_of_several, Unfit::SeveralNodes),
            ],
        };
        let unfit = possible.into_iter().filter(|(is_so, _)| *is_so);
        Self {
            idle_limit,
            unfit: unfit.map(|(_, why)| why).collect(),
        }
    }
}
