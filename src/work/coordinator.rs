//! The process of a worker that a user sees. It starts commands for the jobs that its claimer has claimed, supervises them, and reports the
//! outcome of each job. It never waits for a server.

mod deadlines;
mod events;
mod jobs;
mod turns;

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{self, shutdown};
use nix::unistd::getpid;

use deadlines::DEREGISTER_LIMIT;
use jobs::OpenUnit;

use super::Spec;
use super::ahead::Pace;
use super::claimer;
use super::command::{JobCommand, Task};
use super::message::{FromClaimer, ToClaimer, Trouble};
use super::payload::Gathered;
use crate::base::clock::{Alarm, Moment};
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure};
use crate::base::log::Log;
use crate::base::user::local_user;
use crate::isolated::peer::Peer;
use crate::lock::{Lease, own_host, run_id_lock};
use crate::queue::{Ended, JobEnd, Queue, WorkerFacts};
use crate::supervise::{
    Board, Outlet, Output, Shutdown, Signals, check_program, signals_and_alarm,
};

/// Descriptors for each command: its stderr, its leash, and the file with its payload. The second number is for everything else.
const DESCRIPTORS: u64 = 4;
const OWN_DESCRIPTORS: u64 = 128;

/// Runs a worker to its end, and returns dblock's own exit.
///
/// # Errors
/// Why it could not continue.
pub fn work(mut spec: Spec, log: Log) -> anyhow::Result<Ending> {
    // Fail now, not only when the first job comes.
    if let Some(program) = spec.command.first() {
        check_program(program)?;
    }
    let (signals, alarm) = signals_and_alarm()?;
    spec.jobs = descriptors::allow(spec.jobs, [DESCRIPTORS, OWN_DESCRIPTORS], log);
    let spec = &spec;
    let board = Board::new(spec.jobs).map_err(|error| Failure::refused("share memory", &error))?;
    let facts = WorkerFacts {
        run: run_id_lock()?.trim_start_matches('#').to_owned(),
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        program: spec.program(),
        slots: spec.jobs,
    };
    let claimer = claimer::fork_off(spec, &facts, board, log.shown, None)?;
    let coordinator = Coordinator {
        spec,
        facts,
        log,
        signals,
        alarm,
        board,
        claimer: Peer::new("the claimer", claimer),
        registered: None,
        lease: None,
        grace: None,
        buffer: VecDeque::new(),
        gathered: None,
        units: HashMap::new(),
        commands: Vec::new(),
        outlets: Outlet::both(),
        lingering: Vec::new(),
        ended: Vec::new(),
        handed: Vec::new(),
        counts: (0, 0),
        claimer_state: ClaimerState::Ready,
        turn_at: Moment::START,
        nothing_due: false,
        pace: Pace::default(),
        shutdown: Shutdown::default(),
        shutdown_step_since: None,
        wait_limit: DEREGISTER_LIMIT,
        begun: Some(Moment::now()),
        is_silent: false,
        only_read_only: None,
        last_note: "connecting".to_owned(),
        fault: None,
        failure_grace: Duration::ZERO,
        started_any: false,
    };
    coordinator.run()
}

/// The claimer's current request from the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimerState {
    /// It is ready for a turn.
    Ready,
    /// It takes a turn; with whether it waits until something is due.
    TakingTurn(bool),
    /// It deregisters the worker.
    Deregistering,
}

struct Coordinator<'a> {
    spec: &'a Spec,
    facts: WorkerFacts,
    log: Log,
    signals: Signals,
    alarm: Alarm,
    board: Board,
    claimer: Peer<ToClaimer, FromClaimer>,
    /// The queue, and the worker's number.
    registered: Option<(Queue, u64)>,
    lease: Option<Lease>,
    /// After a pause of this process the lease may look over although it is not. Until then a renewal may still arrive.
    grace: Option<Moment>,
    /// Jobs that wait for a command.
    buffer: VecDeque<Task>,
    /// The shared file for payloads that came in many messages.
    gathered: Option<Gathered>,
    units: HashMap<u64, OpenUnit>,
    commands: Vec<JobCommand>,
    /// dblock's stdout and stderr.
    outlets: [Outlet; 2],
    /// The output of ended commands, while processes that they left behind have it open.
    lingering: Vec<Output>,
    /// Outcomes for the next turn.
    ended: Vec<Ended>,
    /// Outcomes in the current turn.
    handed: Vec<Ended>,
    /// Jobs done and attempts failed since the last turn.
    counts: (u64, u64),
    claimer_state: ClaimerState,
    /// When to take the next turn although nothing was due.
    turn_at: Moment,
    nothing_due: bool,
    pace: Pace,
    /// Once it has begun, no more commands start.
    shutdown: Shutdown,
    /// Since when only the claimer has something to do; each of its steps starts this anew. `None`: commands run, or may start.
    shutdown_step_since: Option<Moment>,
    /// How long an interrupted idle turn may take.
    wait_limit: Duration,
    /// Since when it looks for a first server; `None`: it has been registered.
    begun: Option<Moment>,
    /// Whether it has logged that no server answers.
    is_silent: bool,
    /// Set if every server was read-only in the latest round.
    only_read_only: Option<String>,
    /// The last step that was logged.
    last_note: String,
    /// Why nothing is recorded; `None`: recording works, or there was no session yet.
    fault: Option<Trouble>,
    /// How long commands may continue if the claimer cannot.
    failure_grace: Duration,
    started_any: bool,
}

impl Coordinator<'_> {
    fn run(mut self) -> anyhow::Result<Ending> {
        loop {
            self.reap();
            self.check_deadlines();
            self.restart_claimer();
            self.start_commands();
            if let Some(conclusion) = self.take_turn() {
                self.claimer.end();
                return conclusion;
            }
            if let Err(error) = self.wait() {
                for command in &self.commands {
                    command.running.child.signal(libc::SIGKILL);
                }
                self.claimer.end();
                return Err(error.into());
            }
        }
    }

    /// Starts no more commands, and notes dblock's exit.
    fn stop(&mut self, grace: Duration, conclusion: anyhow::Result<Ending>) {
        self.shutdown.begin(grace, conclusion);
        for task in std::mem::take(&mut self.buffer) {
            self.note_outcome(&task, JobEnd::Returned);
        }
        let ClaimerState::TakingTurn(waits) = self.claimer_state else {
            return;
        };
        self.claimer.send(ToClaimer::Stop);
        // Interrupt an idle worker's wait on the server.
        if waits && let Some(session) = self.claimer.session.as_ref().map(AsRawFd::as_raw_fd) {
            // If the server answers, the worker may just have claimed something.
            let answers = self.fault.is_none() && !self.is_silent;
            self.wait_limit = if answers {
                self.spec.connection.connect_timeout
            } else {
                DEREGISTER_LIMIT
            };
            let _ = shutdown(session, socket::Shutdown::Both);
        }
    }
}
