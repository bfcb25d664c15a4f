//! The process with a worker's session. It registers the worker, claims jobs, renews the lease on all of them, and records the outcomes. It
//! knows nothing of commands, but kills them if the coordinator cannot. If it loses the session, it connects again, and no job is lost.

mod coordinator;
mod exchange;
mod idle;
mod lease;
mod outcomes;
mod payloads;
mod pruning;
mod session;

use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;

use exchange::Claiming;
use idle::{Head, Looks};
use lease::{Worker, Workers};
use outcomes::Outcomes;
use pruning::{EarlyPrune, Pruning};
use session::Refusals;

use super::message::{FromClaimer, ToClaimer, Trouble};
use super::{SESSION_LIMIT, Spec, Until};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::base::progress::ProgressLine;
use crate::isolated::client;
use crate::isolated::link::Link;
use crate::isolated::process::fork_isolated;
use crate::keeper::{Board, Connection, Duty, Lost, Over, Parent};
use crate::lock::{Introduction, Lease};
use crate::queue::{self, Opened, Queue, WorkerFacts, wake_lock};
use crate::schema::Tables;

/// The interval between looks for delayed jobs and dead workers, and between records of the counts.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often to count the jobs that are due, where the progress is shown.
const COUNT_INTERVAL: Duration = Duration::from_secs(2);

/// How long an idle worker waits for the head's place at most.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Forks the claimer. Returns its process and the link to it. With `resumed`, it takes over a worker from a claimer that has died.
///
/// # Errors
/// [`Reason::OsRefused`].
pub fn fork_off(
    spec: &Spec,
    facts: &WorkerFacts,
    board: Board,
    shown: Level,
    resumed: Option<Resumed>,
) -> Result<(Pid, Link), Failure> {
    let counts_due = spec.until == Until::Drained && ProgressLine::is_wanted(shown);
    let work = |link: Rc<Link>, parent| {
        let introduction = Introduction::of_command("dblock queue work", parent, SESSION_LIMIT);
        let listener = client::notes(&link, shown, |link, level, text| {
            link.send_if_heard(&FromClaimer::Note(level, text));
        });
        let options = &spec.connection;
        let connector = client::begin(&introduction, options, listener, c"dblock-claimer", &link)?;
        let tables = Tables::of_connection(&spec.connection);
        let mut claimer = Claimer {
            spec,
            facts,
            tables: &tables,
            coordinator: Parent::new(&link, parent, board, FromClaimer::Note)?,
            fault: None,
            asks_until: None,
            head: Head::new(wake_lock(tables.name(), &spec.queue)),
            connection: Connection::new(connector, &tables),
            opened: None,
            refusals: Refusals::new(resumed.is_some()),
            workers: Workers::new(resumed),
            outcomes: Outcomes::new(),
            claiming: Claiming::new(),
            looks: Looks::new(counts_due),
            pruning: Pruning::new(EarlyPrune::of(spec.until)),
        };
        claimer.run()
    };
    fork_isolated(work, FromClaimer::Failed)
}

/// What a claimer that died has left behind.
#[derive(Debug, Clone)]
pub struct Resumed {
    /// The queue.
    pub queue: Queue,
    /// The worker's number.
    pub worker: u64,
    /// The lease, as the coordinator knows it.
    pub lease: Option<Lease>,
    /// The claims that the coordinator knows, each by its first job and its fence. All other claims are returned.
    pub known: Vec<(u64, u64)>,
}

struct Claimer<'a> {
    spec: &'a Spec,
    facts: &'a WorkerFacts,
    tables: &'a Tables,
    coordinator: Parent<'a, FromClaimer, ToClaimer>,
    /// Why nothing was recorded, as the coordinator knows it.
    fault: Option<Trouble>,
    /// After the coordinator's death: until when the server may be told of that; `None`: it is not known to have died.
    asks_until: Option<Moment>,
    connection: Connection<'a>,
    /// What the session's server can do.
    opened: Option<Opened>,
    refusals: Refusals,
    workers: Workers,
    outcomes: Outcomes,
    claiming: Claiming,
    head: Head,
    looks: Looks,
    /// The deletion of old jobs.
    pruning: Pruning,
}

/// Why a turn failed.
enum Stop {
    /// The lease was over, and others have the jobs.
    Lost,
    /// The server has lost turns that it had confirmed. The next claimer continues with the claims that the coordinator knows.
    Forgotten,
    /// There is no room for the payloads of what was claimed.
    NoPayloads(Failure),
    /// The coordinator has died.
    Orphaned,
    /// The claimer cannot go on.
    Failed(Failure),
}

impl<'a> Duty<'a> for Claimer<'a> {
    type Sent = FromClaimer;
    type Received = ToClaimer;

    fn parent_and_session(
        &mut self,
    ) -> (
        &mut Parent<'a, FromClaimer, ToClaimer>,
        Option<BorrowedFd<'_>>,
    ) {
        (&mut self.coordinator, self.connection.descriptor())
    }

    /// Renews the lease. What a message asks for is done as it comes.
    fn take_turn(&mut self) -> Result<Option<Moment>, Over> {
        self.end_late_commands();
        let mut kept = self.ensure_lease();
        let due = self.workers.renewal_due();
        let is_due = due.is_some_and(|due| due <= Moment::now());
        if kept.is_ok() && (is_due || self.connection.session().is_none()) {
            kept = self.renew();
        }
        self.settle(kept)?;
        // A worker that was lost registers again at once.
        let due = self.workers.renewal_due().unwrap_or(Moment::START);
        let look = self.workers.look_at_lost();
        Ok(look.into_iter().chain([due]).min())
    }

    fn on_message(&mut self, message: ToClaimer) -> Result<(), Over> {
        if !message.is_for(self.workers.number()) {
            return Ok(());
        }
        match message {
            ToClaimer::Output(_, job, part) => self.outcomes.outputs.take_in(job, &part),
            ToClaimer::Ended(_, ended) => self.outcomes.take_in(ended),
            ToClaimer::Turn {
                want,
                waits,
                is_last,
                counts,
                ..
            } => {
                self.count(counts);
                let turned = self.take_turn_of(want, waits, is_last);
                self.settle(turned)?;
            }
            ToClaimer::Stop => {}
            ToClaimer::Deregister { counts, .. } => {
                self.count(counts);
                let deregistered = self.deregister();
                if deregistered.is_ok() {
                    // The coordinator ends this process at once, so close the session first.
                    self.connection.close();
                    self.coordinator.say(FromClaimer::Deregistered);
                }
                self.settle(deregistered)?;
                return Err(Over::Done);
            }
        }
        Ok(())
    }

    fn on_session_end(&mut self) {
        if let Some(session) = self.connection.session() {
            let fault = format!("{session} has ended the session");
            session.tell(Level::Info, &fault);
            self.connection.close();
            self.say_fault(&fault);
        }
    }

    /// Kills the commands whose jobs others may have, if the coordinator is stopped or hangs.
    fn end_late_commands(&mut self) {
        let lateness = self.workers.lateness();
        let (process, board) = (self.coordinator.process, self.coordinator.board);
        process.kill_late(board, lateness);
    }

    /// A lease that is not renewed in time is not lost for that. First the commands must go.
    fn hold_on(&mut self) -> Result<(), Lost> {
        self.asks_until = Some(Moment::now() + LONGEST_WAIT);
        match self.keep_lease() {
            Ok(()) | Err(Stop::Orphaned) => Ok(()),
            Err(_) => Err(Lost),
        }
    }

    /// If the server cannot be told, the others find out when the lease is over.
    fn return_all(&mut self) {
        self.asks_until = Some(Moment::now() + LONGEST_WAIT);
        let _ = self.deregister();
    }
}

impl Claimer<'_> {
    /// Acts on what has stopped a turn.
    ///
    /// # Errors
    /// It does not go on.
    fn settle(&mut self, turned: Result<(), Stop>) -> Result<(), Over> {
        match turned {
            Ok(()) => {}
            Err(Stop::Lost) => self.lose(),
            Err(Stop::Forgotten) => {
                let line = "the server has lost what it had confirmed";
                self.coordinator.note(Level::Warning, line);
                return Err(Over::Done);
            }
            Err(Stop::Orphaned) => return Err(Over::Orphaned),
            Err(Stop::Failed(failure) | Stop::NoPayloads(failure)) => return Err(failure.into()),
        }
        Ok(())
    }

    fn count(&mut self, (done, failed): (u64, u64)) {
        self.outcomes.count((done, failed));
        self.pruning.count(done);
    }

    fn worker(&mut self) -> Result<&mut Worker, Stop> {
        self.workers.current.as_mut().ok_or(Stop::Lost)
    }

    /// Records the last outcomes and counts, and deregisters the worker.
    fn deregister(&mut self) -> Result<(), Stop> {
        if !self.outcomes.ended.is_empty() || self.outcomes.counts != (0, 0) {
            self.outcomes.counted = Moment::START;
            match self.carry_out(None) {
                Ok(over) => {
                    let ended = std::mem::take(&mut self.outcomes.ended);
                    self.keep_outputs(&ended)?;
                    self.check_queue(over.standing.has_queue)?;
                }
                // Deregistering hands its remaining jobs to others at once.
                Err(Stop::Forgotten) => {}
                Err(stop) => return Err(stop),
            }
        }
        let worker = self.worker()?.number;
        let deregister = queue::deregister(self.tables, worker, &self.facts.run);
        let mut was_tried = false;
        let deregistered = self.ask_until_answered(|session| {
            was_tried = true;
            session.run(&deregister)
        });
        match deregistered {
            // An earlier attempt deregistered it, and its answer was lost.
            Err(Stop::Lost) if was_tried => Ok(()),
            other => other,
        }
    }
}
