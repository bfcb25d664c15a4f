//! The process that holds the lock: it acquires, renews, reacquires and releases it. When the supervisor dies, it ends the command
//! first and releases the lock afterwards. What it shares with the other processes that have a session is here, too: the parent that they
//! watch, the board of its commands, and a connection.

mod board;
mod caller;
mod connection;
mod duty;
mod event_loop;
mod lock;
pub mod message;
mod parent;
mod pause;
mod recorder;

use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::unistd::Pid;

use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::{Level, Log};
use crate::base::processes::Processes;
use crate::cron::Once;
use crate::db::server_facts::{READ_ONLY, is_read_only};
use crate::db::{ConnectOptions, Connector, Fault};
use crate::history::{Outcome, RunEnd};
use crate::isolated::client;
use crate::isolated::link::{Link, Next, next};
use crate::isolated::process::{fork_isolated, kill_and_reap};
use crate::lock::named::{NamedLock, Verbosity};
use crate::lock::rows::{RowLock, RowSpec, Token};
use crate::lock::{Backend, Grant, HolderKind, Introduction, Lease, LockSpec};
use crate::schema;
pub use board::{Board, Place};
pub use connection::{Connection, NoAnswer, capped};
pub use duty::{Duty, Lost};
use event_loop::Guard;
use lock::{Lock, State};
use message::FromKeeper;
pub use parent::{Parent, ParentProcess};
pub use pause::{LONGEST_PAUSE, SHORTEST_PAUSE, sleep_longer};
use recorder::Recorder;

/// Before the first attempt to replace a keeper that died.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a server may take to record that a signal ended the wait for the lock.
const INTERRUPTION_LIMIT: Duration = Duration::from_millis(500);

/// What a keeper needs to acquire a lock.
pub struct Task<'a> {
    /// The lock.
    pub lock: &'a LockSpec,
    /// The servers that keep it.
    pub connection: &'a ConnectOptions,
    /// The name of a lock on the server that all sessions of this run hold, and no others.
    pub run_id: &'a str,
    /// The time between SIGTERM and SIGKILL when the supervisor ends the command.
    pub kill_after: Duration,
    /// What the sessions say of themselves.
    pub introduction: Introduction,
    /// Whether to find out who holds the lock when it was not acquired in time.
    pub names_holders: bool,
    /// The least important level that is shown.
    pub shown: Level,
    /// How the run uses dblock's tables; `None`: not at all.
    pub tables: Option<&'a TableUse>,
    /// The names of the slots, in their order; empty where they have none.
    pub slot_names: &'a [String],
    /// The tick that the run is for, as text, if a former keeper has found it.
    pub tick: Option<&'a str>,
}

/// How a run uses dblock's tables. It is recorded there in any case.
#[derive(Debug, Clone)]
pub struct TableUse {
    /// Whether the lock is a row, too.
    pub durable: bool,
    /// A script's grant that the run takes over.
    pub token: Option<Token>,
    /// The new TTL of that grant; `None`: unchanged.
    pub token_ttl: Option<Duration>,
    /// When the run is to be skipped.
    pub once: Option<Once>,
}

impl TableUse {
    /// Whether the lock is kept as a row.
    pub fn is_row(&self) -> bool {
        self.durable || self.token.is_some()
    }

    /// Whether this end, once it is recorded, keeps the job from being run again.
    pub fn counts(&self, end: &RunEnd) -> bool {
        end.succeeded && self.once.is_some()
    }
}

/// The task of a keeper.
pub enum Work<'a> {
    /// Acquire a lock, then guard it and the command.
    Acquire(Task<'a>),
    /// The same after a keeper has died: when the lock was requested, and whether that keeper may have been granted it.
    AcquireAgain(Task<'a>, Moment, bool),
    /// Continue for a keeper that has died, with the command if it still runs: reacquire the lock, or hold a lock that outlives its
    /// session on with this lease.
    Resume(Task<'a>, Grant, Option<Lease>, Option<Processes>),
}

/// Forks the keeper; its process and the link to it. This process must not have threads. In the keeper this function never returns: it
/// must not run the supervisor's destructors.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_off(work: Work) -> Result<(Pid, Link), Failure> {
    fork_isolated(
        |link, supervisor| keep(work, &link, ParentProcess::new(supervisor)),
        FromKeeper::Failed,
    )
}

/// The keeper's process, from its start to its end.
fn keep(work: Work, link: &Rc<Link>, supervisor: ParentProcess) -> Result<(), Failure> {
    let mut before = None;
    let (task, lost) = match work {
        Work::Acquire(task) => (task, None),
        Work::AcquireAgain(task, requested, may_hold) => {
            before = Some((requested, may_hold));
            (task, None)
        }
        Work::Resume(task, grant, lease, command) => (task, Some((grant, lease, command))),
    };
    let connector = connector(&task, link)?;
    let verbosity = Verbosity {
        when_waiting: Level::Info <= task.shown,
        when_taken: task.names_holders,
    };
    let grant = lost.map(|(grant, ..)| grant);
    let requested = before.map_or_else(Moment::now, |(requested, _)| requested);
    let recorder = |tables| Recorder::new(&task, tables).requested_at(requested);
    let recorder = task.tables.map(recorder);
    let may_hold = before.map(|(_, may_hold)| may_hold);
    let backend = backend(
        &task,
        connector,
        verbosity,
        grant,
        may_hold,
        recorder.as_ref(),
    );
    let Some((_, lease, command)) = lost else {
        if before.is_some() {
            // The server needs a moment to notice that the session of the keeper before has ended. That session may have been granted the
            // slot.
            sleep(PAUSE);
        }
        let lock = Lock::new(&task, backend, recorder, State::Acquiring, None);
        return Guard::new(link, supervisor, lock).run();
    };
    let lives_on = lease.filter(|_| backend.outlives_session());
    let state = lives_on.map_or(State::Lost, State::Held);
    let mut guard = Guard::new(
        link,
        supervisor,
        Lock::new(&task, backend, recorder, state, lease),
    );
    guard.command = command;
    guard.command_has_ended = command.is_none();
    guard.renews_now = lives_on.is_some();
    if lives_on.is_none() {
        // The supervisor keeps the former keeper's session open, so nobody takes the slot meanwhile.
        sleep(PAUSE);
    }
    guard.run()
}

/// Begins the process of a task. It closes everything that belongs to the supervisor.
fn connector(task: &Task, link: &Rc<Link>) -> Result<Connector, Failure> {
    let listener = client::notes(link, task.shown, |link, level, text| {
        link.send_if_heard(&FromKeeper::Note(level, text));
    });
    client::begin(
        &task.introduction,
        task.connection,
        listener,
        c"dblock-keeper",
        link,
    )
}

/// Records why the wait for the lock ended, in a process of its own, if a server does that in time. The keeper that waited cannot do it: its
/// request still occupies the session.
pub fn record_interruption(task: &Task, why: &str, requested: Moment, log: Log) {
    let Some(tables) = task.tables else { return };
    let record = |link: Rc<Link>, _| {
        let connector = connector(task, &link)?;
        let mut recorder = Recorder::new(task, tables).requested_at(requested);
        let done = connector.connect(|session| {
            schema::prepare(session)?;
            if is_read_only(session)? {
                return Err(Fault::ReadOnly(READ_ONLY.to_owned()));
            }
            recorder.record_skip(why, Outcome::Interrupted, session)
        });
        match done {
            Err(Fault::Final(failure)) => Err(failure),
            _ => Ok(()),
        }
    };
    let Ok((keeper, link)) = fork_isolated(record, FromKeeper::Failed) else {
        return;
    };
    let deadline = Moment::now() + INTERRUPTION_LIMIT;
    while let Next::Message(message) = next(&link, Some(deadline)) {
        match message {
            FromKeeper::Note(level, text) => log.say(level, text),
            FromKeeper::Failed(failure) => log.warning(failure),
            _ => {}
        }
    }
    kill_and_reap(keeper);
}

/// The backend for a task's lock; with a `grant` it continues that. `may_hold`: whether a former keeper may have been granted the lock;
/// `None`: there was none.
fn backend(
    task: &Task,
    connector: Connector,
    verbosity: Verbosity,
    grant: Option<Grant>,
    may_hold: Option<bool>,
    recorder: Option<&Recorder>,
) -> Box<dyn Backend> {
    let tables = task.tables.filter(|tables| tables.is_row());
    let (Some(tables), Some(recorder)) = (tables, recorder) else {
        let named = NamedLock::new(connector, task.lock, task.run_id, verbosity);
        return Box::new(match (grant, may_hold) {
            (Some(grant), _) => named.lost(grant),
            (None, Some(_)) => named.requested_before(),
            (None, None) => named,
        });
    };
    let token = tables.token.as_ref();
    let owner = token.map_or_else(
        || task.run_id.trim_start_matches('#').to_owned(),
        Token::owner,
    );
    let spec = RowSpec {
        tables: recorder.tables(),
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
    let row = RowLock::new(Rc::new(connector), task.lock, task.run_id, verbosity, spec);
    Box::new(match (grant, may_hold) {
        (Some(grant), _) => row.resumed(grant),
        (None, Some(may_hold)) => row.requested_before(may_hold),
        (None, None) => row,
    })
}
