//! The process with a daemon's session. It takes ticks, and holds the lock of each that runs. It starts no commands, but kills them if the
//! coordinator cannot. Losing a session loses no tick: it connects again, looks, and continues. Ticks that it took without an answer have
//! its id in their rows.

mod acting;
mod beginning;
mod coordinator;
mod locked_rows;
mod looking;
mod outage;
mod outliving;
mod own;
mod pruning;
mod publishing;
mod recording;
mod registering;
mod renewing;
mod seeking;
mod session;
mod taking;
mod timetable;
mod view;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;

use coordinator::Told;
use locked_rows::LockedRows;
use outage::Outage;
use own::{OwnTicks, TickLock};
use registering::Registration;
use session::SharedSession;
use taking::UnreportedDeath;
use timetable::Timetable;
use view::View;

use super::Spec;
use super::message::{Attempt, EndedAttempt, FromScheduler, ToScheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{AttemptEnd, DaemonFacts, Job, hash};
use crate::history::{Outcome, PendingOutputs};
use crate::isolated::client;
use crate::isolated::link::Link;
use crate::isolated::process::fork_isolated;
use crate::keeper::{Board, Connection, Duty, Lateness, Lost, Over, Parent};
use crate::lock::{Grant, Introduction, Lease};
use crate::schema::Tables;

/// The interval of looks.
const LOOK: Duration = Duration::from_secs(1);

/// The pause between a step without effect and the next look. It doubles up to [`LOOK`] while steps have no effect.
const LOOK_AGAIN: Duration = Duration::from_millis(30);

/// How many locks of ticks are acquired, or released, in one transaction at most. Where a server takes its time for each, no transaction
/// may keep the leases waiting, nor the coordinator, which expects progress.
const LOCKS_AT_ONCE: usize = 4;

/// How long the server keeps an idle session at most, and with it the named locks of what runs.
const SESSION_LIMIT: Duration = Duration::from_secs(60);

/// After this time without a daemon whose file has the schedule in force, another schedule is put in force.
const RETIRED_AFTER: Duration = Duration::from_secs(300);

/// Which schedules of a file are put in force, besides those of jobs that no other daemon has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Publishes {
    /// None: all are in force, or others' are.
    #[default]
    Nothing,
    /// All, unless this host last had the same file: others may have put newer schedules in force since.
    IfChanged,
    /// All: the file was just read again.
    All,
}

/// Whether a daemon is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stopping {
    /// It is not: it takes ticks.
    No,
    /// It takes no more ticks.
    TakesNone,
    /// It also ends as soon as none of its own is left.
    Leaves,
}

impl Stopping {
    /// Whether it takes no more ticks.
    fn has_begun(self) -> bool {
        self >= Self::TakesNone
    }
}

/// The state that a new scheduler starts with.
#[derive(Debug, Clone)]
pub struct Resumed {
    /// Which schedules of the file to put in force.
    pub publishes: Publishes,
    /// What the scheduler before has held.
    pub kept: Vec<Kept>,
    /// What is to be kept of the outputs of the attempts among these that have ended.
    pub outputs: PendingOutputs<String>,
    /// Whether to take no more ticks.
    pub is_stopped: bool,
}

/// An attempt that another scheduler has started.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Its job, which need not be in the file any more.
    pub job: Rc<Job>,
    /// The attempt.
    pub attempt: Attempt,
    /// Its lock.
    pub grant: Grant,
    /// How long that is held, as far as it is proved; `None`: it is lost, or the attempt has ended.
    pub lease: Option<Lease>,
    /// When its command was started; `None`: it has ended, or was not started.
    pub started: Option<Moment>,
    /// Its end, which may not be recorded yet; `None`: it runs.
    pub ended: Option<EndedAttempt>,
}

impl Resumed {
    /// The state of a daemon that begins.
    pub fn nothing() -> Self {
        Self {
            publishes: Publishes::IfChanged,
            kept: Vec::new(),
            outputs: PendingOutputs::new(),
            is_stopped: false,
        }
    }
}

/// Forks the scheduler: its process, and the link to it.
///
/// # Errors
/// The system refused.
pub fn fork_off(
    spec: &Spec,
    jobs: &[Rc<Job>],
    facts: &DaemonFacts,
    board: Board,
    shown: Level,
    resumed: Resumed,
) -> Result<(Pid, Link), Failure> {
    let work = |link: Rc<Link>, parent| {
        let kept = resumed.kept.iter().map(|kept| &kept.job);
        let ttls = jobs.iter().chain(kept).map(|job| job.options.ttl);
        let session_limit = ttls.fold(SESSION_LIMIT, Duration::min);
        let introduction = Introduction::of_command("dblock cron run", parent, session_limit);
        let listener = client::notes(&link, shown, |link, level, text| {
            link.send_if_heard(&FromScheduler::Note(level, text));
        });
        let options = &spec.connection;
        let connector = client::begin(&introduction, options, listener, c"dblock-cron", &link)?;
        let tables = Tables::of_connection(&spec.connection);
        let view = View::new(jobs);
        let hashes: Vec<&str> = view.jobs.iter().map(|one| &*one.definition.hash).collect();
        let mut scheduler = Scheduler {
            spec,
            facts,
            tables: &tables,
            coordinator: Parent::new(&link, parent, board, FromScheduler::Note)?,
            told: Told::default(),
            connection: Connection::new(connector, &tables),
            shared: SharedSession {
                limit: session_limit,
                ..Default::default()
            },
            registration: Registration::new(hash(&hashes), resumed.publishes),
            view,
            timetable: Timetable::default(),
            own: OwnTicks::new(resumed.outputs),
            outage: Outage::default(),
            unreported: Vec::new(),
            locked_rows: LockedRows::default(),
            stopping: if resumed.is_stopped {
                Stopping::TakesNone
            } else {
                Stopping::No
            },
        };
        for kept in resumed.kept {
            scheduler.resume(kept);
        }
        scheduler.run()
    };
    fork_isolated(work, FromScheduler::Failed)
}

struct Scheduler<'a> {
    spec: &'a Spec,
    facts: &'a DaemonFacts,
    tables: &'a Tables,
    coordinator: Parent<'a, FromScheduler, ToScheduler>,
    told: Told,
    connection: Connection<'a>,
    shared: SharedSession,
    registration: Registration,
    view: View,
    timetable: Timetable,
    own: OwnTicks,
    outage: Outage,
    /// The deaths that it may have been the first to record: the answers were lost.
    unreported: Vec<UnreportedDeath>,
    locked_rows: LockedRows,
    stopping: Stopping,
}

impl<'a> Duty<'a> for Scheduler<'a> {
    type Sent = FromScheduler;
    type Received = ToScheduler;

    fn parent_and_session(
        &mut self,
    ) -> (
        &mut Parent<'a, FromScheduler, ToScheduler>,
        Option<BorrowedFd<'_>>,
    ) {
        (&mut self.coordinator, self.connection.descriptor())
    }

    fn take_turn(&mut self) -> Result<Option<Moment>, Over> {
        let until = match self.step() {
            Err(failure) if self.needs_session() => self.stay(&failure),
            until => until?,
        };
        let has_none = self.own.ended.is_empty() && self.own.by_run.is_empty();
        if self.stopping == Stopping::Leaves && has_none {
            self.take_leave()?;
            // The coordinator kills this process on the last message, so log out first.
            self.connection.close();
            self.coordinator.say(FromScheduler::Left);
            return Err(Over::Done);
        }
        Ok(Some(self.own.looks().fold(until, Moment::min)))
    }

    fn on_message(&mut self, message: ToScheduler) -> Result<(), Over> {
        match message {
            ToScheduler::Output(run, part) => self.own.outputs.take_in(run, &part),
            ToScheduler::Ended(ended) => self.take_in(ended),
            ToScheduler::Check => self.timetable.renew_at = Moment::START,
            ToScheduler::Alive => {
                if self.awaits_acknowledgement() {
                    // The other daemons may count this one as gone.
                    (self.timetable.look_at, self.timetable.renew_at) =
                        (Moment::START, Moment::START);
                }
                self.told.unanswered = None;
            }
            ToScheduler::Stop => self.stopping = self.stopping.max(Stopping::TakesNone),
            ToScheduler::Leave => self.stopping = Stopping::Leaves,
        }
        Ok(())
    }

    /// The next turn opens another one.
    fn on_session_end(&mut self) {}

    /// Kills the commands that must be gone by now, if the coordinator is stopped or hangs. When a command is gone that somebody has ended,
    /// so is its tick.
    fn end_late_commands(&mut self) {
        let all = self.own.by_run.values_mut();
        let all = all.map(|mine| (mine.attempt.lease_number(), mine.lateness()));
        let late: HashMap<u64, Lateness> = all
            .filter(|(_, lateness)| *lateness > Lateness::InTime)
            .collect();
        let lateness = |lease: u64| late.get(&lease).copied().unwrap_or(Lateness::InTime);
        let (process, board) = (self.coordinator.process, self.coordinator.board);
        let Some(least) = process.kill_late(board, lateness) else {
            return;
        };
        let killed = self
            .own
            .by_run
            .values()
            .filter_map(|mine| match &mine.state {
                TickLock::Killed(who, _) if lateness(mine.attempt.lease_number()) >= least => {
                    let own = mine.attempt.lease_number();
                    let is_gone = !board.is_alive(|other| other == own);
                    let line = format!(
                        "{} was lost, and the command was ended for it: ended by {who}",
                        mine.job.name
                    );
                    is_gone.then(|| mine.ended(AttemptEnd::Over, "", Some((Outcome::Lost, line))))
                }
                _ => None,
            });
        for ended in killed.collect::<Vec<_>>() {
            if !self.own.has_ended(&ended.run) {
                self.take_in(ended);
            }
        }
    }

    /// Whatever a server answers, the commands must go.
    fn hold_on(&mut self) -> Result<(), Lost> {
        if self.timetable.renew_at <= Moment::now() {
            let _ = self.connect().and_then(|_| self.renew());
        }
        Ok(())
    }

    fn return_all(&mut self) {
        self.return_ticks();
    }
}

impl Scheduler<'_> {
    /// Does what is due. Returns when the next step is due.
    fn step(&mut self) -> Result<Moment, Failure> {
        let before = self.timetable.fruitless;
        if self.own.by_run.is_empty() {
            self.coordinator.process.die_with()?;
        }
        self.end_late_commands();
        self.coordinator.send_rest();
        let is_connected = self.connect()?;
        if is_connected {
            self.renew_if_due()?;
        }
        if !is_connected || !self.ensure_registered()? {
            let link = self.coordinator.link;
            link.send_if_heard(&FromScheduler::Seeking(self.shared.only_read_only.clone()));
            return Ok(Moment::now() + self.connection.connector.pause());
        }
        if self.stopping.has_begun() && !self.registration.has_told_stop {
            self.stop_taking()?;
        }
        let record_at = self.own.record_at();
        if record_at.is_some_and(|at| at <= Moment::now()) {
            self.record_ends()?;
        }
        self.renew_if_due()?;
        if self.timetable.maintain_at <= Moment::now() && self.view.looked.is_some() {
            self.maintain()?;
        }
        if self.timetable.look_at <= Moment::now() {
            self.look()?;
        }
        if self.registration.has_retired
            && self.registration.has_touched
            && self.timetable.retire_at <= Moment::now()
        {
            self.retire()?;
        }
        let acts = self.act()?;
        let seeks = self.seek_locks()?;
        if self.timetable.fruitless == before {
            self.timetable.fruitless = 0;
        }
        let until = acts.into_iter().chain(seeks).chain(self.own.record_at());
        let until = until.fold(
            self.timetable.look_at.min(self.timetable.renew_at),
            Moment::min,
        );
        self.prune_if_quiet(until);
        Ok(until)
    }

    /// The end of an attempt is to be recorded.
    fn take_in(&mut self, ended: EndedAttempt) {
        // So that the next attempt is seen.
        if ended.retry.is_some() {
            self.timetable.look_at = Moment::now();
        }
        self.own.take_in(ended);
    }
}
