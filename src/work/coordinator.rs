//! The process of a worker that a user sees: it starts commands for the jobs that its claimer has claimed, watches over them, and says
//! what became of each. It never waits for a server.

mod deadlines;
mod events;
mod jobs;
mod turns;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{Shutdown, shutdown};
use nix::unistd::{Pid, getpid};

use deadlines::DEREGISTER_LIMIT;
use jobs::OpenUnit;

use super::Spec;
use super::ahead::Pace;
use super::claimer;
use super::command::{Command, Task};
use super::message::{ToClaimer, Trouble};
use crate::base::clock::{Alarm, Moment};
use crate::base::descriptors;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Log;
use crate::base::text::in_words;
use crate::base::user::local_user;
use crate::isolated::link::Link;
use crate::isolated::process::end_within;
use crate::lock::{Lease, own_host, run_id_lock};
use crate::queue::{Ended, JobEnd, Queue, WorkerFacts};
use crate::supervise::{Signals, check_program};

/// How long the coordinator waits for the end of a claimer that it has killed.
const END_LIMIT: Duration = Duration::from_millis(200);

/// Descriptors that a command needs here: its stderr, its leash, the file with its payload. And those of everything else.
const DESCRIPTORS: u64 = 4;
const OWN_DESCRIPTORS: u64 = 128;

/// Runs a worker to its end, and returns how dblock is to end.
///
/// # Errors
/// What kept it from going on.
pub fn work(mut spec: Spec, log: Log) -> anyhow::Result<Ending> {
    // Not only when the first job is there.
    if let Some(program) = spec.command.first() {
        check_program(program)?;
    }
    let signals = Signals::collect().map_err(|error| refused("collect signals", &error))?;
    // A limit on the size of files (`ulimit -f`) is to be an error. The commands have the mask that was inherited.
    let limit = SigSet::from_iter([Signal::SIGXFSZ]).thread_block();
    limit.map_err(|error| refused("collect signals", &error.into()))?;
    let alarm = Alarm::new().map_err(|error| refused("make a timer", &error))?;
    spec.jobs = descriptors::allow(spec.jobs, [DESCRIPTORS, OWN_DESCRIPTORS], log);
    let spec = &spec;
    let facts = WorkerFacts {
        run: run_id_lock()?.trim_start_matches('#').to_owned(),
        host: own_host(),
        pid: getpid().as_raw(),
        user: local_user(),
        program: spec.program(),
        slots: spec.jobs,
    };
    let claimer = claimer::fork_off(spec, &facts, log.shown, None)?;
    let coordinator = Coordinator {
        spec,
        facts,
        log,
        signals,
        alarm,
        claimer: Some(claimer),
        restart_at: None,
        claimer_since: Moment::now(),
        session: None,
        registered: None,
        lease: None,
        grace: None,
        buffer: VecDeque::new(),
        units: HashMap::new(),
        commands: Vec::new(),
        lingering: Vec::new(),
        ended: Vec::new(),
        handed: Vec::new(),
        counts: (0, 0),
        claimer_state: ClaimerState::Ready,
        turn_at: Moment::START,
        nothing_due: false,
        pace: Pace::default(),
        mode: Mode::Working,
        ends_since: None,
        wait_limit: DEREGISTER_LIMIT,
        begun: Some(Moment::now()),
        is_silent: false,
        deaths: 0,
        only_read_only: None,
        last_note: "connecting".to_owned(),
        fault: None,
        failure_grace: Duration::ZERO,
        started_any: false,
        conclusion: None,
    };
    coordinator.run()
}

fn refused(what: &str, error: &io::Error) -> Failure {
    let line = format!("cannot {what}: {}", in_words(error));
    Failure::new(Reason::OsRefused, line)
}

/// What the claimer does, as far as the coordinator has asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimerState {
    /// It is ready for a turn.
    Ready,
    /// It takes a turn; whether it waits until something is due.
    TakingTurn(bool),
    /// It deregisters the worker.
    Deregistering,
}

/// Whether commands are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Working,
    /// No more; those that run may go on until then.
    Ending(Moment),
}

struct Coordinator<'a> {
    spec: &'a Spec,
    facts: WorkerFacts,
    log: Log,
    signals: Signals,
    alarm: Alarm,
    /// Its process, until it is reaped, and the link to it.
    claimer: Option<(Pid, Link)>,
    /// When another one is started in the place of one that died.
    restart_at: Option<Moment>,
    /// When the claimer was started.
    claimer_since: Moment,
    /// A copy of the claimer's session, to interrupt what is asked on it.
    session: Option<OwnedFd>,
    /// The queue, and the worker's number.
    registered: Option<(Queue, u64)>,
    lease: Option<Lease>,
    /// Until when a lease that was found over on waking may turn out not to be.
    grace: Option<Moment>,
    /// Jobs that are to be started.
    buffer: VecDeque<Task>,
    units: HashMap<u64, OpenUnit>,
    commands: Vec<Command>,
    /// What commands that have ended left open, for processes that they have left behind.
    lingering: Vec<File>,
    /// What is to be handed in.
    ended: Vec<Ended>,
    /// What is being handed in.
    handed: Vec<Ended>,
    /// How many jobs are done and how many attempts have failed since the last turn.
    counts: (u64, u64),
    claimer_state: ClaimerState,
    /// When to take a turn although nothing was due.
    turn_at: Moment,
    nothing_due: bool,
    pace: Pace,
    mode: Mode,
    /// Since when the claimer alone has something to do, or the next thing; `None`: something runs, or more is to be run.
    ends_since: Option<Moment>,
    /// How long a turn that waits may take once it is interrupted.
    wait_limit: Duration,
    /// When it began to seek a server; `None`: it was registered since.
    begun: Option<Moment>,
    /// Whether it was said that no server answers.
    is_silent: bool,
    /// How many claimers have died since the last turn was over, each soon after its start.
    deaths: u32,
    /// That every server is read-only, as the latest round has shown.
    only_read_only: Option<String>,
    /// What was under way last.
    last_note: String,
    /// Why nothing is recorded; `None`: it is, or the first session is sought.
    fault: Option<Trouble>,
    /// How long commands may go on when the claimer cannot.
    failure_grace: Duration,
    started_any: bool,
    /// How dblock ends, once that is known.
    conclusion: Option<anyhow::Result<Ending>>,
}

impl Coordinator<'_> {
    fn run(mut self) -> anyhow::Result<Ending> {
        loop {
            self.reap();
            self.check_deadlines();
            self.restart_claimer();
            self.start_commands();
            if let Some(conclusion) = self.take_turn() {
                self.end_claimer();
                return conclusion;
            }
            if let Err(error) = self.wait() {
                for command in &self.commands {
                    command.child.processes.signal(libc::SIGKILL);
                }
                self.end_claimer();
                return Err(error.into());
            }
        }
    }

    /// Stops to start commands. How dblock ends, unless that is known already; what has failed is not hidden by what went well.
    fn stop(&mut self, grace: Duration, conclusion: anyhow::Result<Ending>) {
        let until = Moment::now() + grace;
        self.mode = match self.mode {
            Mode::Working => Mode::Ending(until),
            Mode::Ending(before) => Mode::Ending(before.min(until)),
        };
        if !matches!(self.conclusion, Some(Err(_)))
            && (conclusion.is_err() || self.conclusion.is_none())
        {
            self.conclusion = Some(conclusion);
        }
        for task in std::mem::take(&mut self.buffer) {
            self.note_outcome(&task, JobEnd::GivenBack);
        }
        // An idle worker waits for the server.
        if self.claimer_state == ClaimerState::TakingTurn(true)
            && let Some(session) = &self.session
        {
            // Where the server answers, it may have just claimed something.
            let answers = self.fault.is_none() && !self.is_silent;
            self.wait_limit = if answers {
                self.spec.connection.connect_timeout
            } else {
                DEREGISTER_LIMIT
            };
            self.send(&ToClaimer::Stop);
            let _ = shutdown(session.as_raw_fd(), Shutdown::Both);
        }
    }

    /// Ends the claimer's process; how it ended.
    fn end_claimer(&mut self) -> String {
        self.session = None;
        match self.claimer.take() {
            Some((pid, _)) => end_within(pid, END_LIMIT),
            None => "is gone".to_owned(),
        }
    }
}
