//! The process of a worker that a user sees. It starts commands for the jobs that its claimer has claimed, supervises them, and reports the
//! outcome of each job. It never waits for a server.

mod claims;
mod deadlines;
mod events;
mod jobs;
mod progress;
mod turns;

use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{self, shutdown};
use nix::unistd::getpid;

use claims::Claims;
use deadlines::SILENT_LIMIT;
use progress::Progress;

use super::ahead::Pace;
use super::claimer;
use super::message::{ToClaimer, Trouble};
use super::{Spec, Until};
use crate::base::clock::Moment;
use crate::base::descriptors;
use crate::base::exit::Ending;
use crate::base::log::Log;
use crate::base::progress::ProgressLine;
use crate::base::user::local_user;
use crate::keeper::Board;
use crate::lock::{Lease, own_host, run_id_lock};
use crate::queue::{Queue, WorkerFacts};
use crate::supervise::{Plan, Poller, Runner, RunnerOf, check_program, program_of};

/// Descriptors for each command: its stdout and stderr, its leash, and the file with its payload. The second number is for everything else.
const DESCRIPTORS: u64 = 5;
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
    let poller = Poller::for_many()?;
    spec.jobs = descriptors::allow(spec.jobs, [DESCRIPTORS, OWN_DESCRIPTORS], log);
    let spec = &spec;
    let board = Board::new(spec.jobs)?;
    let facts = WorkerFacts {
        run: run_id_lock()?.trim_start_matches('#').to_owned(),
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        program: program_of(&spec.command),
        slots: spec.jobs,
    };
    let claimer = claimer::fork_off(spec, &facts, board, log.shown, None)?;
    let coordinator = Coordinator {
        spec,
        facts,
        runner: Runner::new(log, poller, board, "the claimer", claimer),
        registered: None,
        lease: None,
        claims: Claims::default(),
        turns: Turns {
            claimer: ClaimerState::Ready,
            next_at: Moment::START,
            nothing_due: false,
        },
        pace: Pace::default(),
        ending: WorkerEnd {
            step_since: None,
            wait_limit: SILENT_LIMIT,
            failure_grace: Duration::ZERO,
            conclusion: None,
            output_until: None,
        },
        only_read_only: None,
        fault: None,
        started_any: false,
        tries_again: false,
        progress: Progress::new(ProgressLine::new(spec.until == Until::Drained, log)),
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

/// The turns that the claimer takes.
struct Turns {
    claimer: ClaimerState,
    /// When to take the next one although nothing was due.
    next_at: Moment,
    nothing_due: bool,
}

/// The limits on the end of a worker.
struct WorkerEnd {
    /// Since when only the claimer has something to do; each of its steps starts this anew. `None`: commands run, or may start.
    step_since: Option<Moment>,
    /// How long an interrupted idle turn may take.
    wait_limit: Duration,
    /// How long commands may continue if the claimer cannot.
    failure_grace: Duration,
    /// How dblock ends, when all output is passed on.
    conclusion: Option<anyhow::Result<Ending>>,
    /// Until when it may be passed on then; `None`: for as long as that takes.
    output_until: Option<Moment>,
}

struct Coordinator<'a> {
    spec: &'a Spec,
    facts: WorkerFacts,
    /// Its commands, and its claimer.
    runner: RunnerOf<Self>,
    /// The queue, and the worker's number.
    registered: Option<(Queue, u64)>,
    lease: Option<Lease>,
    claims: Claims,
    turns: Turns,
    pace: Pace,
    ending: WorkerEnd,
    /// Set if every server was read-only in the latest round.
    only_read_only: Option<String>,
    /// Why nothing is recorded; `None`: recording works, or there was no session yet.
    fault: Option<Trouble>,
    started_any: bool,
    /// Whether the latest command got a job that was tried before.
    tries_again: bool,
    progress: Progress,
}

impl Coordinator<'_> {
    /// Starts no more commands, and notes dblock's exit.
    fn stop(&mut self, grace: Duration, conclusion: anyhow::Result<Ending>) {
        self.runner.shutdown.begin(grace, conclusion);
        self.claims.return_waiting();
        let ClaimerState::TakingTurn(waits) = self.turns.claimer else {
            return;
        };
        self.runner.peer.send(ToClaimer::Stop);
        // Interrupt an idle worker's wait on the server.
        if waits && let Some(session) = self.runner.peer.session.as_ref().map(AsRawFd::as_raw_fd) {
            // If the server answers, the worker may just have claimed something.
            self.ending.wait_limit = if self.is_in_touch() {
                self.spec.connection.connect_timeout
            } else {
                SILENT_LIMIT
            };
            let _ = shutdown(session, socket::Shutdown::Both);
        }
    }
}
