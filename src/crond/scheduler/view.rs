//! What a scheduler has seen in the tables: its jobs, their ticks, the other daemons, and the server's clock.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use super::super::definition;
use crate::base::clock::{Moment, micros};
use crate::cron::{Definition, Job, JobRow, TickRow, UnderWay, latest_next};

/// The most bytes of the list of jobs in a daemon's row.
const LONGEST_LIST: usize = 4000;

/// A job of the file.
pub(super) struct Known {
    pub job: Rc<Job>,
    pub definition: Definition,
    /// Its row in the last look; `None`: there is none.
    pub row: Option<JobRow>,
    /// A step had no effect, so the row must be read first.
    pub stale: bool,
    /// Over which span it has had ticks under way, as far as this scheduler has looked.
    span: Option<(i64, i64)>,
}

impl Known {
    fn new(job: &Rc<Job>) -> Self {
        Self {
            definition: definition(job),
            job: Rc::clone(job),
            row: None,
            stale: false,
            span: None,
        }
    }

    /// Whether the schedule of the file is in force.
    pub fn agrees(&self) -> bool {
        let is_same = |row: &JobRow| {
            row.schedule == self.definition.schedule && row.zone == self.definition.zone
        };
        self.row.as_ref().is_some_and(is_same)
    }

    /// Whether another schedule is in force.
    pub fn disagrees(&self) -> bool {
        self.row.is_some() && !self.agrees()
    }

    /// Whether its schedule is in force, but its command, options or variables differ from the file that was read last.
    pub fn differs(&self) -> bool {
        let is_other = |row: &JobRow| row.definition != self.definition.hash;
        self.agrees() && self.row.as_ref().is_some_and(is_other)
    }

    /// Whether its next tick is missing or too late: the job was in no file for a while, or the server's clock was ahead.
    pub fn rests(&self, now: i64) -> bool {
        let Some(row) = self.row.as_ref().filter(|_| self.agrees()) else {
            return false;
        };
        let latest = latest_next(&self.job.schedule, now);
        let is_too_late = |next| row.is_ahead(now) && latest.is_some_and(|latest| next > latest);
        row.next.map_or(latest.is_some(), is_too_late)
    }

    /// Whether it was noted as being in a file while the server's clock was ahead.
    pub fn is_seen_ahead(&self, now: i64) -> bool {
        let is_ahead = |row: &JobRow| row.is_seen_ahead(now);
        self.agrees() && self.row.as_ref().is_some_and(is_ahead)
    }
}

#[derive(Default)]
pub(super) struct View {
    pub jobs: Vec<Known>,
    pub by_name: HashMap<String, usize>,
    /// All ticks that have a row, as of the last look.
    pub ticks: Vec<TickRow>,
    /// Daemons that are alive and take ticks, as of the last look.
    pub daemons: Vec<String>,
    /// Since when a tick of a silent daemon has been seen, by its run id.
    pub orphans: HashMap<String, Moment>,
    /// The server's time, and when it was received. The server's clock then showed this time or a little later.
    pub clock: Option<(i64, Moment)>,
    /// The server's time of the last look.
    pub looked: Option<i64>,
}

impl View {
    /// Nothing was seen of these jobs yet.
    pub fn new(jobs: &[Rc<Job>]) -> Self {
        let jobs: Vec<Known> = jobs.iter().map(Known::new).collect();
        let names = jobs.iter().map(|known| known.definition.name.clone());
        Self {
            by_name: names.zip(0..).collect(),
            jobs,
            ..Self::default()
        }
    }

    /// The server's time, or a little less; 0: unknown.
    pub fn now(&self) -> i64 {
        self.clock
            .map_or(0, |(at, told)| at + micros(told.elapsed()))
    }

    /// The moment at which the server's clock shows this time.
    pub fn moment_of(&self, at: i64) -> Moment {
        let left = u64::try_from(at - self.now()).unwrap_or_default();
        Moment::now() + Duration::from_micros(left)
    }

    /// The ticks of a job that are under way.
    pub fn under_way(&self, name: &str) -> UnderWay {
        let ticks = self.ticks.iter().filter(|tick| tick.name == name);
        let known = self.by_name.get(name).map(|at| &self.jobs[*at]);
        UnderWay {
            span: known.and_then(|known| known.span),
            ..UnderWay::of(ticks.map(TickRow::is_waiting))
        }
    }

    /// Takes in all ticks that have a row at this moment, by the server's clock.
    pub fn set_ticks(&mut self, ticks: Vec<TickRow>, now: i64) {
        for tick in &ticks {
            if let Some(&at) = self.by_name.get(&tick.name) {
                let span = &mut self.jobs[at].span;
                *span = Some(UnderWay::extended(*span, now));
            }
        }
        self.ticks = ticks;
    }

    /// For how long no attempt of a tick could be started.
    pub fn unstarted_for(&self, tick: &TickRow) -> Duration {
        tick.facts().unstarted_for(self.now())
    }

    /// The names of these jobs, one on each line.
    pub fn list_of(&self, is_wanted: impl Fn(&Known) -> bool) -> String {
        let mut list = String::new();
        for known in self.jobs.iter().filter(|known| is_wanted(known)) {
            if list.len() + known.definition.name.len() > LONGEST_LIST {
                list.push_str("\n…");
                break;
            }
            if !list.is_empty() {
                list.push('\n');
            }
            list.push_str(&known.definition.name);
        }
        list
    }
}

/// A tick in the zone of its job.
pub(super) fn shown(job: &Job, tick: i64) -> String {
    let at = jiff::Timestamp::from_microsecond(tick).unwrap_or(jiff::Timestamp::MIN);
    job.schedule.tick(at).to_string()
}
