//! The process with a daemon's session. It takes ticks, and holds the lock of each that runs. It starts no commands, but kills them if the
//! coordinator cannot. Losing a session loses no tick: it connects again, looks, and continues. Ticks that it took without an answer have
//! its id in their rows.

mod acting;
mod holding;
mod outliving;
mod publishing;
mod session;
mod taking;

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use nix::unistd::Pid;

use holding::Mine;

use super::message::{Attempt, Ended, FromScheduler, ToScheduler};
use super::{Spec, definition};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::{Level, Listener};
use crate::base::processes::Processes;
use crate::cron::{DaemonFacts, Definition, Job, JobRow, LARGEST_LAG, TickRow, hash, latest_next};
use crate::db::{Connector, Session};
use crate::isolated::link::{Link, Next, cut, next};
use crate::isolated::process::{detach, fork_isolated, harden};
use crate::lock::rows::SharedServer;
use crate::lock::{Grant, Introduction, Lease};
use crate::schema::Tables;
use crate::supervise::Board;

/// The interval of looks.
const LOOK: Duration = Duration::from_secs(1);

/// The pause between a step without effect and the next look. It doubles up to [`LOOK`] while steps have no effect.
const LOOK_AGAIN: Duration = Duration::from_millis(30);

/// A coordinator that does not answer for this long starts nothing. Then no ticks are taken for it, and finally the other daemons count
/// it as gone.
const DEAF: Duration = Duration::from_secs(5);

/// How long the server keeps an idle session at most, and with it the named locks of what runs.
const SESSION_LIMIT: Duration = Duration::from_secs(60);

/// The longest interval of renewals of all leases. That of the daemon lasts three times as long.
const RENEWAL: Duration = Duration::from_secs(10);

/// How many ended runs are remembered, so that old data from a lagging cluster node does not start them again.
const REMEMBERED: usize = 1000;

/// Which schedules of a file are put in force, besides those of jobs that no other daemon has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publishes {
    /// None: all are in force, or others' are.
    Nothing,
    /// All, unless this host last had the same file: others may have put newer schedules in force since.
    IfChanged,
    /// All: the file was just read again.
    All,
}

/// The state that a new scheduler starts with.
#[derive(Debug, Clone)]
pub struct Resumed {
    /// Which schedules of the file to put in force.
    pub publishes: Publishes,
    /// What the scheduler before has held.
    pub kept: Vec<Kept>,
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
    /// Its end, which may not be recorded yet; `None`: it runs.
    pub ended: Option<Ended>,
}

impl Resumed {
    /// The state of a daemon that begins.
    pub fn nothing() -> Self {
        Self {
            publishes: Publishes::IfChanged,
            kept: Vec::new(),
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
    fork_isolated(
        |link, parent| schedule(spec, (jobs, facts, board), shown, resumed, &link, parent),
        FromScheduler::Failed,
    )
}

fn schedule(
    spec: &Spec,
    (jobs, facts, board): (&[Rc<Job>], &DaemonFacts, Board),
    shown: Level,
    resumed: Resumed,
    link: &Rc<Link>,
    parent: Pid,
) -> Result<(), Failure> {
    harden(parent)?;
    let notes = Rc::clone(link);
    let listener: Listener = Rc::new(move |level, text| {
        if level < Level::Statement || shown == Level::Statement {
            notes.send_if_heard(&FromScheduler::Note(level, cut(text)));
        }
    });
    let kept = resumed.kept.iter().map(|kept| &kept.job);
    let ttls = jobs.iter().chain(kept).map(|job| job.options.ttl);
    let session_limit = ttls.fold(SESSION_LIMIT, Duration::min);
    let attributes =
        Introduction::of_command("dblock cron run", parent, session_limit).attributes();
    let connector = Connector::new(&spec.connection, attributes, session_limit, listener)?;
    detach(link, c"dblock-cron")?;
    let known: Vec<Known> = jobs
        .iter()
        .map(|job| Known {
            definition: definition(job),
            job: Rc::clone(job),
            row: None,
            stale: false,
        })
        .collect();
    let hashes: Vec<&str> = known.iter().map(|one| &*one.definition.hash).collect();
    let mut scheduler = Scheduler {
        file_hash: hash(&hashes),
        by_name: known
            .iter()
            .enumerate()
            .map(|(at, one)| (one.definition.name.clone(), at))
            .collect(),
        facts,
        spec,
        board,
        coordinator: Processes {
            pid: parent.as_raw(),
            own_group: false,
        },
        is_outliving: false,
        link,
        connector: Rc::new(connector),
        answer_limit: None,
        server: None,
        is_new_session: false,
        tables: Tables::new(&spec.connection.database),
        session: None,
        session_limit,
        jobs: known,
        ticks: Vec::new(),
        daemons: Vec::new(),
        clock: None,
        looked: None,
        look_at: Moment::START,
        last_look: Moment::START,
        renew_at: Moment::START,
        renewed: Moment::START,
        maintain_at: Moment::START,
        prune_at: Moment::START,
        retire_at: Moment::START,
        record_at: Moment::START,
        record_pause: LOOK_AGAIN,
        made_up_since: 0,
        spread: None,
        last_seen: None,
        mine: HashMap::new(),
        over: VecDeque::with_capacity(REMEMBERED),
        orphans: HashMap::new(),
        contended: HashMap::new(),
        fruitless: 0,
        met_lock: false,
        unanswered: None,
        worked: Moment::START,
        ended: Vec::new(),
        publishes: resumed.publishes,
        has_retired: false,
        has_touched: false,
        is_ready: false,
        is_stopped: resumed.is_stopped,
        has_told_stop: false,
        leaves: false,
        disagrees: None,
        differs: String::new(),
    };
    for kept in resumed.kept {
        scheduler.resume(kept);
    }
    scheduler.run()
}

/// A job of the file.
struct Known {
    job: Rc<Job>,
    definition: Definition,
    /// Its row in the last look; `None`: there is none.
    row: Option<JobRow>,
    /// A step had no effect, so the row must be read first.
    stale: bool,
}

impl Known {
    /// Whether the schedule of the file is in force.
    fn agrees(&self) -> bool {
        let is_same = |row: &JobRow| {
            row.schedule == self.definition.schedule && row.zone == self.definition.zone
        };
        self.row.as_ref().is_some_and(is_same)
    }

    /// Whether its schedule is in force, but its command, options or variables differ from the file that was read last.
    fn differs(&self) -> bool {
        let is_other = |row: &JobRow| row.definition != self.definition.hash;
        self.agrees() && self.row.as_ref().is_some_and(is_other)
    }

    /// Whether its next tick is missing or too late: the job was in no file for a while, or the server's clock was ahead.
    fn rests(&self, now: i64) -> bool {
        let Some(row) = self.row.as_ref().filter(|_| self.agrees()) else {
            return false;
        };
        let latest = latest_next(&self.job.schedule, now);
        let is_too_late = |next| row.is_ahead(now) && latest.is_some_and(|latest| next > latest);
        row.next.map_or(latest.is_some(), is_too_late)
    }
}

#[expect(clippy::struct_excessive_bools, reason = "each stands for itself")]
struct Scheduler<'a> {
    spec: &'a Spec,
    facts: &'a DaemonFacts,
    /// The running commands, and the process that ends them.
    board: Board,
    coordinator: Processes,
    /// Whether this process outlives that one, as long as commands may run.
    is_outliving: bool,
    link: &'a Link,
    connector: Rc<Connector>,
    tables: Tables,
    session: Option<Session>,
    /// How long the server keeps it when this process is silent: no longer than the shortest TTL.
    session_limit: Duration,
    /// How long the session waits for an answer, as it was set last.
    answer_limit: Option<Duration>,
    /// What the session's server is to locks; `None`: there was no session yet.
    server: Option<SharedServer>,
    /// Whether no lock was renewed on the session yet.
    is_new_session: bool,
    jobs: Vec<Known>,
    by_name: HashMap<String, usize>,
    file_hash: String,
    /// All ticks that have a row, as of the last look.
    ticks: Vec<TickRow>,
    /// Daemons that are alive and take ticks, as of the last look.
    daemons: Vec<String>,
    /// The server's time, and when it was received. The server's clock then showed this time or a little later.
    clock: Option<(i64, Moment)>,
    /// The server's time of the last look.
    looked: Option<i64>,
    look_at: Moment,
    /// When it last looked, or tried to.
    last_look: Moment,
    renew_at: Moment,
    /// When the latest renewal of the daemon's own lease was sent that has succeeded.
    renewed: Moment,
    maintain_at: Moment,
    prune_at: Moment,
    retire_at: Moment,
    /// When unrecorded ends are retried, and how long the next pause is.
    record_at: Moment,
    record_pause: Duration,
    /// Since when, by the server's clock, missed ticks are being started.
    made_up_since: i64,
    /// The time over which those starts are spread; `None`: not decided yet.
    spread: Option<Duration>,
    /// When the server last answered.
    last_seen: Option<Moment>,
    /// The ticks of this daemon, by run id, until their ends are recorded.
    mine: HashMap<String, Mine>,
    /// The last ended runs.
    over: VecDeque<[u8; 32]>,
    ended: Vec<Ended>,
    /// Whether there is a job that no daemon has had in its file for a while, and whether this daemon has marked its own jobs.
    has_retired: bool,
    has_touched: bool,
    /// Since when a tick of a silent daemon has been seen, by its run id.
    orphans: HashMap<String, Moment>,
    /// Jobs with locked rows: when they are retried, and how long the pause was.
    contended: HashMap<String, (Moment, Duration)>,
    /// How many steps in a row had no effect.
    fruitless: u32,
    /// Whether the last statement waited for another's lock in vain.
    met_lock: bool,
    /// Since when an acknowledgement of the coordinator is pending, and whether the request was sent.
    unanswered: Option<(Moment, bool)>,
    /// When it last reported that the server answers.
    worked: Moment,
    publishes: Publishes,
    is_ready: bool,
    is_stopped: bool,
    /// Whether the other daemons know that.
    has_told_stop: bool,
    leaves: bool,
    /// Jobs for which another schedule is in force, as in the daemon's row.
    disagrees: Option<String>,
    /// Jobs whose other settings differ, as in the daemon's row.
    differs: String,
}

impl Scheduler<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let until = self.step()?;
            if self.leaves && self.ended.is_empty() && self.mine.is_empty() {
                self.take_leave()?;
                // The coordinator kills this process on the last message, so log out first.
                self.session = None;
                self.say(&FromScheduler::Left);
                return Ok(());
            }
            if !self.wait(until) {
                self.outlive_coordinator();
                return Ok(());
            }
        }
    }

    /// Does what is due. Returns when the next step is due.
    fn step(&mut self) -> Result<Moment, Failure> {
        let before = self.fruitless;
        if self.mine.is_empty() {
            self.die_with_coordinator()?;
        }
        self.end_commands_of_the_stopped();
        if !self.ensure_registered()? {
            self.say(&FromScheduler::Seeking);
            return Ok(Moment::now() + self.connector.pause());
        }
        if self.is_stopped && !self.has_told_stop {
            self.stop_taking()?;
        }
        if !self.ended.is_empty() && self.record_at <= Moment::now() {
            self.record_ends()?;
        }
        if self.renew_at <= Moment::now() || self.is_new_session {
            self.renew()?;
        }
        if self.maintain_at <= Moment::now() && self.looked.is_some() {
            self.maintain()?;
        }
        if self.look_at <= Moment::now() {
            self.look()?;
        }
        if self.has_retired && self.has_touched && self.retire_at <= Moment::now() {
            self.retire()?;
        }
        let acts = self.act()?;
        let seeks = self.seek_locks()?;
        if self.fruitless == before {
            self.fruitless = 0;
        }
        let record_at = (!self.ended.is_empty()).then_some(self.record_at);
        let until = acts.into_iter().chain(seeks).chain(record_at);
        Ok(until.fold(self.look_at.min(self.renew_at), Moment::min))
    }

    /// Waits until this moment, and handles the coordinator's messages. `false`: the coordinator is gone.
    fn wait(&mut self, until: Moment) -> bool {
        let mut until = Some(until);
        loop {
            match next::<ToScheduler>(self.link, until) {
                Next::Gone => return false,
                Next::Late => return true,
                Next::Message(ToScheduler::Ended(ended)) => self.take_in(ended),
                Next::Message(ToScheduler::Check) => self.renew_at = Moment::START,
                Next::Message(ToScheduler::Alive) => {
                    if self.awaits_acknowledgement() {
                        // The other daemons may count this one as gone.
                        (self.look_at, self.renew_at) = (Moment::START, Moment::START);
                    }
                    self.unanswered = None;
                }
                Next::Message(ToScheduler::Stop) => self.is_stopped = true,
                Next::Message(ToScheduler::Leave) => {
                    (self.is_stopped, self.leaves) = (true, true);
                }
            }
            // Then only the messages that are already there.
            until = Some(Moment::START);
        }
    }

    /// Whether the coordinator has not acknowledged for too long.
    fn awaits_acknowledgement(&self) -> bool {
        self.unanswered
            .is_some_and(|(since, _)| since.elapsed() > DEAF)
    }

    /// Requests an acknowledgement unless one is pending.
    fn request_acknowledgement(&mut self) {
        let (since, is_asked) = self.unanswered.unwrap_or((Moment::now(), false));
        let is_asked = is_asked
            || self
                .link
                .try_send(&FromScheduler::Answered, None)
                .unwrap_or(true);
        self.unanswered = Some((since, is_asked));
    }

    /// Reports that the server answers, at most once a second: a step may have many statements, or slow ones.
    fn report_working(&mut self) {
        if self.worked.elapsed() >= LOOK {
            self.worked = Moment::now();
            self.link.send_if_heard(&FromScheduler::Working);
        }
    }

    /// The pause between a step without effect and the next look.
    fn pause(&self) -> Duration {
        let doubled = LOOK_AGAIN.saturating_mul(1 << self.fruitless.min(10));
        doubled.min(LOOK)
    }

    /// Schedules a look soon after a step without effect; later if there were many.
    fn look_again(&mut self) {
        self.look_at = Moment::now() + self.pause();
        self.fruitless += 1;
    }

    /// The end of an attempt is to be recorded.
    fn take_in(&mut self, ended: Ended) {
        // So that the next attempt is seen.
        if ended.retry.is_some() {
            self.look_at = Moment::now();
        }
        self.record_at = Moment::START;
        self.ended.push(ended);
    }

    /// How many commands run, or are about to.
    fn busy(&self) -> usize {
        self.mine.len().saturating_sub(self.ended.len())
    }

    /// The end of a run is recorded.
    fn forget(&mut self, run: &str) {
        self.mine.remove(run);
        if self.over.len() == REMEMBERED {
            self.over.pop_front();
        }
        self.over.extend(<[u8; 32]>::try_from(run.as_bytes()));
    }

    /// Whether a run is under way here, or has ended.
    fn knows(&self, run: &str) -> bool {
        self.mine.contains_key(run) || self.over.iter().any(|over| over[..] == *run.as_bytes())
    }

    fn say(&self, message: &FromScheduler) {
        let _ = self.link.send(message);
    }

    fn note(&self, level: Level, line: &str) {
        self.say(&FromScheduler::Note(level, cut(line)));
    }

    /// The server's time, or a little less; 0: unknown.
    fn now(&self) -> i64 {
        self.clock
            .map_or(0, |(at, told)| at + micros(told.elapsed()))
    }

    /// The moment at which the server's clock shows this time.
    fn moment_of(&self, at: i64) -> Moment {
        let left = u64::try_from(at - self.now()).unwrap_or_default();
        Moment::now() + Duration::from_micros(left)
    }

    fn set_clock(&mut self, now: i64) {
        // The clock was ahead: others must not take this daemon's lease for one of that clock, and jobs need their right next ticks.
        if self.now().saturating_sub(now) > micros(LARGEST_LAG) {
            (self.renew_at, self.maintain_at) = (Moment::START, Moment::START);
        }
        if now < self.made_up_since {
            (self.made_up_since, self.spread) = (now, None);
        }
        self.clock = Some((now, Moment::now()));
    }

    /// For how long no attempt of a tick could be started.
    fn unstarted_for(&self, tick: &TickRow) -> Duration {
        let lasting = tick.unstarted_at.map(|since| self.now() - since);
        Duration::from_micros(u64::try_from(lasting.unwrap_or_default()).unwrap_or_default())
    }

    /// Whether the session has ended: only then it becomes readable between statements.
    fn has_lost_session(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        self.session.as_ref().is_some_and(|session| {
            let mut ready = [PollFd::new(session.as_fd(), PollFlags::POLLIN)];
            matches!(poll(&mut ready, PollTimeout::ZERO), Ok(1..))
        })
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A tick in the zone of its job.
fn shown(job: &Job, tick: i64) -> String {
    let at = jiff::Timestamp::from_microsecond(tick).unwrap_or(jiff::Timestamp::MIN);
    job.schedule.tick(at).to_string()
}
