//! What is asked of the crontab's tables, and what their rows are.

use std::time::Duration;

use super::super::rules::taken::TickFacts;
use super::super::rules::{AttemptEnd, JobFacts, LARGEST_LAG, Settlement};
use super::super::spread::hash;
use crate::base::clock::micros;
use crate::history::Outcome;
use crate::schema::Tables;

/// Each minute a daemon notes the jobs in its file. A job that was not noted for this long is in no file.
const UNSEEN: Duration = Duration::from_secs(180);

/// A job that is in no file is deleted after this many days.
pub const FORGOTTEN_AFTER: u32 = 30;

/// The facts that a daemon registers.
#[derive(Debug, Clone)]
pub struct DaemonFacts {
    /// An id of 32 hex digits, which no other daemon has.
    pub id: String,
    /// Its host.
    pub host: String,
    /// Its process there.
    pub pid: i32,
    /// The user of the operating system.
    pub user: String,
    /// How many commands it runs at once.
    pub slots: u32,
}

/// Registers a daemon, or updates its row. Returns the server's time.
pub struct Register<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon.
    pub facts: &'a DaemonFacts,
    /// The number of jobs in its file, and a hash of them.
    pub jobs: (usize, &'a str),
    /// The jobs with another schedule than the one in force, and those with other differences. One name in each line.
    pub disagrees: &'a str,
    pub differs: &'a str,
    /// How long it counts as alive, in seconds.
    pub lease: u64,
}

/// A job's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// As in [`JobFacts`].
    pub next: Option<i64>,
    /// The last settled tick.
    pub settled: Option<i64>,
    pub triggered: Option<i64>,
    pub is_paused: bool,
    /// The schedule in force.
    pub schedule: String,
    pub zone: String,
    pub definition: String,
    /// When it was last seen in a daemon's file.
    pub seen: i64,
}

impl JobRow {
    /// The part that the rules need.
    pub fn facts(&self) -> JobFacts {
        JobFacts {
            next: self.next,
            is_paused: self.is_paused,
            triggered: self.triggered,
        }
    }

    /// Whether it was last written while the server's clock was ahead. Otherwise a next tick that seems too late is that of another host,
    /// with newer rules for the time zone, or older ones.
    pub fn is_ahead(&self, now: i64) -> bool {
        self.settled.max(Some(self.seen)) > Some(settled_until(now))
    }

    /// Whether it was seen in a file while the server's clock was ahead.
    pub fn is_seen_ahead(&self, now: i64) -> bool {
        self.seen > settled_until(now)
    }
}

/// Whether a job that was last seen then is in no file now. One that was seen later than now is in a file: the server's clock was ahead.
pub fn is_unseen(seen: i64, now: i64) -> bool {
    now.saturating_sub(seen) > micros(UNSEEN)
}

/// A job as defined in a file.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// The five fields, or the nickname, and the zone.
    pub schedule: String,
    pub zone: String,
    /// A hash of the whole definition.
    pub hash: String,
    /// The longest delay of a tick in seconds, rounded up.
    pub jitter: u64,
}

/// Up to which moment ticks may count as settled, seen from now, so that no tick is taken twice: see [`LARGEST_LAG`]. Beyond it only the
/// current clock counts, as otherwise the job would not run until then.
pub fn settled_until(now: i64) -> i64 {
    now.saturating_add(micros(LARGEST_LAG))
}

/// A job with its next tick, and the latest plausible one.
pub type NewJob<'a> = (&'a Definition, [Option<i64>; 2]);

/// Publishes new and changed jobs, each with its next tick. It can be repeated.
///
/// If that tick was settled meanwhile, the job stays unchanged: [`Publish::is_overtaken`].
pub struct Publish<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The host of the daemon.
    pub host: &'a str,
    /// The jobs in the order of their names, because several daemons may publish at the same time.
    pub jobs: Vec<NewJob<'a>>,
    /// When these ticks were computed.
    pub now: i64,
}

impl Publish<'_> {
    /// Whether a job with this next tick, computed at this moment, was left unchanged.
    pub fn is_overtaken(next: Option<i64>, now: i64, settled: Option<i64>) -> bool {
        let settled = settled.filter(|settled| *settled <= settled_until(now));
        settled.is_some_and(|settled| next.is_some_and(|next| settled >= next))
    }
}

/// A tick's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TickRow {
    /// The job.
    pub name: String,
    /// The tick.
    pub tick: i64,
    /// The run of the latest attempt.
    pub run: String,
    /// The number of attempts, and how many of them count as failures.
    pub attempt: u32,
    pub failures: u32,
    /// The daemon that has it; `None`: none.
    pub daemon: Option<String>,
    /// When to try it again. If a daemon has it: when that was, or will be, silent for the TTL, or the lock expired, whichever is later.
    pub start_at: Option<i64>,
    /// When its command was about to start, if it was.
    pub started_at: Option<i64>,
    /// Since when no attempt before the latest could start its command; `None`: the one before did, or there was none.
    pub unstarted_at: Option<i64>,
    /// Whether the tick may be taken over: the run does not hold its lock, and its daemon has been silent for the TTL, or has not recorded
    /// the run's end for a while.
    pub is_orphan: bool,
}

impl TickRow {
    /// What the rules need of it.
    pub fn facts(&self) -> TickFacts {
        TickFacts {
            tick: self.tick,
            failures: self.failures,
            start_at: self.start_at,
            started_at: self.started_at,
            unstarted_at: self.unstarted_at,
        }
    }

    /// Whether it waits for an earlier tick of its job.
    pub fn is_waiting(&self) -> bool {
        self.daemon.is_none() && self.start_at.is_none()
    }
}

/// Looks at the tables.
pub struct Look<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon that asks.
    pub daemon: &'a str,
    /// Only reads jobs that are due or have changed since this moment; `None`: all.
    pub since: Option<i64>,
}

/// A run's keeper records its end. Within this many seconds its daemon should then record what happens to the tick.
pub(super) const UNRECORDED: u32 = 5;

/// The kinds of rows in the answer, each with columns of its own; the others are NULL.
pub(super) const CLOCK: u8 = 0;
pub(super) const JOB: u8 = 1;
pub(super) const TICK: u8 = 2;
pub(super) const DAEMON: u8 = 3;

/// The settlement of one job's ticks.
pub struct SettleStep<'a> {
    /// The job.
    pub job: &'a Definition,
    /// Shows a tick as text, in the job's zone.
    pub shown: Box<dyn Fn(i64) -> String + 'a>,
    /// The settlement.
    pub settlement: &'a Settlement,
    /// A new id, which is also that of the run, if a tick runs.
    pub id: &'a str,
    /// The program that will start.
    pub program: String,
    /// How long a daemon must be silent before another one takes over, in seconds.
    pub ttl: u64,
}

impl SettleStep<'_> {
    /// The skipped ticks: an id, the tick, and the reason, for each row of the history. The id is not that of the run, and the same each
    /// time.
    pub(super) fn skips(&self) -> impl Iterator<Item = (String, i64, String)> {
        let skips = self.settlement.skips.iter().enumerate();
        skips.map(|(number, skip)| {
            let message = skip.why.words(skip, &*self.shown);
            (
                hash(&[self.id, &number.to_string()]),
                skip.ticks.1,
                format!("{}: {message}", self.job.name),
            )
        })
    }
}

/// The next attempt of a tick with a row: a daemon takes it, or gives it up.
pub struct NextAttempt<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The daemon.
    pub daemon: &'a DaemonFacts,
    /// The tick as it was read.
    pub seen: &'a TickRow,
    /// The id of the new run.
    pub run: &'a str,
    /// The program that will start, or does not.
    pub program: &'a str,
    /// Why the previous attempt failed, if its own processes have not recorded that.
    pub why: Option<&'a str>,
}

/// Ends an attempt: the tick is over, or will be tried again after a delay. It can be repeated.
pub struct Finish<'a> {
    /// dblock's tables.
    pub tables: &'a Tables,
    /// The tick.
    pub name: &'a str,
    pub tick: i64,
    /// The run of the attempt.
    pub run: &'a str,
    /// The delay before the next attempt; `None`: the tick is over.
    pub retry: Option<Duration>,
    /// How the attempt ended.
    pub end: AttemptEnd,
    /// The number of failures so far.
    pub failures: u32,
    /// The reason, if the run's own processes have not recorded one.
    pub why: Option<&'a str>,
    /// Statements that record how its command ended, if nobody else has.
    pub records: &'a [String],
}

impl Finish<'_> {
    /// How the run has ended.
    pub(super) fn outcome(&self) -> Outcome {
        match self.end {
            AttemptEnd::Returned => Outcome::Interrupted,
            _ => Outcome::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::cron::rules::{Count, Fate, Skip, Why};

    #[test]
    fn no_skip_has_the_id_of_the_run_of_its_step() {
        let job = Definition {
            name: "job".to_owned(),
            schedule: String::new(),
            zone: String::new(),
            hash: String::new(),
            jitter: 0,
        };
        let skip = |why| Skip {
            ticks: (1, 1),
            count: Count::ONE,
            why,
        };
        let settlement = Settlement {
            from: 1,
            is_trigger: false,
            settled: 2,
            next: None,
            skips: vec![skip(Why::Missed), skip(Why::Overlap)],
            fate: Some(Fate::Run(2)),
            is_alone: true,
        };
        for end in ["00", "01"] {
            let id = "a".repeat(30) + end;
            let step = SettleStep {
                job: &job,
                shown: Box::new(|tick: i64| tick.to_string()),
                settlement: &settlement,
                id: &id,
                program: "true".to_owned(),
                ttl: 300,
            };
            let mut ids: HashSet<String> = step.skips().map(|(id, ..)| id).collect();
            assert!(ids.iter().all(|id| id.len() == 32), "{ids:?}");
            ids.insert(id.clone());
            assert_eq!(ids.len(), 3, "{ids:?}");
        }
    }

    #[test]
    fn a_job_that_was_seen_by_a_clock_that_was_ahead_is_in_a_file() {
        let (now, limit) = (10 * micros(UNSEEN), micros(UNSEEN));
        assert!(is_unseen(now - limit - 1, now));
        assert!(!is_unseen(now - limit, now));
        assert!(!is_unseen(now + 10 * limit, now));
    }
}
