//! The process that holds the lock: it acquires, renews, reacquires and releases it. When the supervisor dies, it ends the command
//! first and releases the lock afterwards.

mod caller;
mod event_loop;
mod lock;
pub mod message;
mod recorder;

use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::unistd::Pid;

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::{Level, Listener};
use crate::base::processes::Processes;
use crate::cron::{Claim, Once};
use crate::db::server_facts::{READ_ONLY, is_read_only};
use crate::db::{ConnectOptions, Connector, Fault};
use crate::history::Outcome;
use crate::isolated::link::{Link, cut};
use crate::isolated::process::{detach, fork_isolated, harden};
use crate::lock::named::{NamedLock, Verbosity};
use crate::lock::rows::{RowLock, RowSpec, Token};
use crate::lock::{Backend, Grant, HolderKind, Introduction, Lease, LockSpec};
use crate::schema::{self, Tables};
use event_loop::Guard;
use lock::{Lock, State};
use message::FromKeeper;
use recorder::Recorder;

/// Before the first attempt to take the place of a keeper that died.
const PAUSE: Duration = Duration::from_millis(100);

/// A lock for a keeper to take.
pub struct Task<'a> {
    /// The lock.
    pub lock: &'a LockSpec,
    /// The servers that have it.
    pub connection: &'a ConnectOptions,
    /// The server's name of a lock that all sessions of this run take, and no other.
    pub run_id: &'a str,
    /// From SIGTERM to SIGKILL when the supervisor ends the command.
    pub kill_after: Duration,
    /// What the sessions say of themselves.
    pub introduction: Introduction,
    /// Whether somebody wants to know who has the lock when it was not acquired in time.
    pub names_holders: bool,
    /// The least important level that is shown.
    pub shown: Level,
    /// What it does with dblock's tables; `None`: it needs none.
    pub tables: Option<&'a TableUse>,
    /// The tick that the run is for, as text, where a keeper before has found it.
    pub tick: Option<&'a str>,
}

/// What a run does with dblock's tables. It is recorded there.
#[derive(Debug, Clone)]
pub struct TableUse {
    /// Whether the lock is a row besides.
    pub durable: bool,
    /// The grant of a script that the run goes on with.
    pub token: Option<Token>,
    /// For how long that is held from now on; `None`: as it was acquired.
    pub token_ttl: Option<Duration>,
    /// When it is not to run.
    pub once: Option<Once>,
    /// The tick of the fleet's crontab that it is for.
    pub claim: Option<Claim>,
    /// The names of the slots, in their order; empty where they have none.
    pub slot_names: Vec<String>,
}

impl TableUse {
    /// Whether the lock is kept as a row.
    pub fn is_row(&self) -> bool {
        self.durable || self.token.is_some()
    }
}

/// What a keeper is to do.
pub enum Work<'a> {
    /// Acquire a lock, then guard it and the command.
    Acquire(Task<'a>),
    /// Go on for a keeper that has died, for the command if it still runs: reacquire its lock, or hold it on with this lease if it
    /// does not end with its session.
    Resume(Task<'a>, Grant, Option<Lease>, Option<Processes>),
    /// Record that a signal ended the wait for the lock, and why; it was requested then.
    RecordInterruption(Task<'a>, String, Moment),
    /// Guard the command: no server can be reached, and it runs without a lock.
    GuardOnly,
}

/// Forks the keeper: its process, and the link to it. The process must not have threads. The keeper itself does not return
/// from here: it must not run the supervisor's destructors.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_off(work: Work) -> Result<(Pid, Link), Failure> {
    fork_isolated(
        |link, supervisor| keep(work, &link, supervisor),
        FromKeeper::Failed,
    )
}

/// The keeper's life.
fn keep(work: Work, link: &Rc<Link>, supervisor: Pid) -> Result<(), Failure> {
    let (task, lost) = match work {
        Work::Acquire(task) => (task, None),
        Work::Resume(task, grant, lease, command) => (task, Some((grant, lease, command))),
        Work::RecordInterruption(task, why, requested) => {
            return record_interruption(&task, &why, requested, link, supervisor);
        }
        Work::GuardOnly => {
            detach(link, c"dblock-keeper")?;
            return Guard::new(link, supervisor, None).run();
        }
    };
    let connector = connector(&task, link, supervisor)?;
    let verbosity = Verbosity {
        when_waiting: Level::Info <= task.shown,
        when_taken: task.names_holders,
    };
    let grant = lost.map(|(grant, ..)| grant);
    let recorder = task.tables.map(|tables| Recorder::new(&task, tables));
    let backend = backend(&task, connector, verbosity, grant, recorder.as_ref());
    let Some((_, lease, command)) = lost else {
        let lock = Lock::new(&task, backend, recorder, State::Acquiring);
        return Guard::new(link, supervisor, Some(lock)).run();
    };
    let lives_on = lease.filter(|_| backend.outlives_session());
    let state = lives_on.map_or(State::Lost, State::Held);
    let mut guard = Guard::new(
        link,
        supervisor,
        Some(Lock::new(&task, backend, recorder, state)),
    );
    guard.command = command;
    guard.command_has_ended = command.is_none();
    guard.renews_now = lives_on.is_some();
    if lives_on.is_none() {
        // The supervisor has the session of the keeper before: nobody takes the slot meanwhile.
        sleep(PAUSE);
    }
    guard.run()
}

/// Knows the servers of a task, and leaves everything that is the supervisor's.
fn connector(task: &Task, link: &Rc<Link>, supervisor: Pid) -> Result<Connector, Failure> {
    let (notes, shown) = (Rc::clone(link), task.shown);
    let listener: Listener = Rc::new(move |level, text| {
        // The supervisor remembers what is done, shown or not; statements are only for showing.
        if level < Level::Statement || shown == Level::Statement {
            notes.send_if_heard(&FromKeeper::Note(level, cut(text)));
        }
    });
    harden(supervisor)?;
    // Before the descriptors are closed, for a password's file may be named by one that dblock inherited.
    let attributes = task.introduction.attributes();
    let connector = Connector::new(task.connection, attributes, task.lock.ttl, listener)?;
    detach(link, c"dblock-keeper")?;
    Ok(connector)
}

/// Records that a signal ended the wait for the lock. The keeper that waited cannot: the server had not answered it.
fn record_interruption(
    task: &Task,
    why: &str,
    requested: Moment,
    link: &Rc<Link>,
    supervisor: Pid,
) -> Result<(), Failure> {
    let connector = connector(task, link, supervisor)?;
    let Some(tables) = task.tables else {
        return Ok(());
    };
    let mut recorder = Recorder::new(task, tables).requested_at(requested);
    // Until the supervisor ends this process.
    loop {
        let done = connector.connect(|session| {
            schema::prepare(session)?;
            if is_read_only(session)? {
                return Err(Fault::ReadOnly(READ_ONLY.to_owned()));
            }
            recorder.record_skip(why, Outcome::Interrupted, session)
        });
        match done {
            Ok(_) => break,
            Err(Fault::Final(failure)) => return Err(failure),
            Err(_) => sleep(connector.pause()),
        }
    }
    let _ = link.send(&FromKeeper::Released);
    Ok(())
}

/// How the lock of a task is kept; with a `grant` it goes on with that.
fn backend(
    task: &Task,
    connector: Connector,
    verbosity: Verbosity,
    grant: Option<Grant>,
    recorder: Option<&Recorder>,
) -> Box<dyn Backend> {
    let tables = task.tables.filter(|tables| tables.is_row());
    let (Some(tables), Some(recorder)) = (tables, recorder) else {
        let named = NamedLock::new(connector, task.lock, task.run_id, verbosity);
        return Box::new(match grant {
            Some(grant) => named.lost(grant),
            None => named,
        });
    };
    let token = tables.token.as_ref();
    let owner = token.map_or_else(
        || task.run_id.trim_start_matches('#').to_owned(),
        Token::owner,
    );
    let spec = RowSpec {
        tables: Tables::new(&task.connection.database),
        kind: if token.is_some() {
            HolderKind::TokenRun
        } else {
            HolderKind::Run
        },
        owner_name: None,
        token: token.map(|token| (token.slot, token.fence)),
        ttl: if token.is_some() {
            tables.token_ttl
        } else {
            Some(task.lock.ttl)
        },
        on_grant: Box::new(recorder.on_grant(&owner)),
        command_run: token.map(|_| recorder.run().to_owned()),
        on_token_end: recorder.on_token_end(),
        on_withdrawal: vec![recorder.withdrawal()],
        owner,
    };
    let row = RowLock::new(connector, task.lock, task.run_id, verbosity, spec);
    Box::new(match grant {
        Some(grant) => row.resumed(grant),
        None => row,
    })
}
