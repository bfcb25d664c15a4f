//! Puts the schedules of the file in force, and those of jobs whose daemons are gone.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::super::message::FromScheduler;
use super::view::Known;
use super::{Publishes, RETIRED_AFTER, Scheduler};
use crate::base::clock::{Moment, micros};
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{
    Definition, Publish, ask_file_before, ask_jobs, goes_on_after, latest_next, next_after, prune,
    retire, touch,
};

/// The number of jobs in one transaction.
const JOBS_AT_ONCE: usize = 100;

/// After so many waits for locked rows, the rest is left for later: each takes as long as the server waits.
const WAITS_AT_ONCE: usize = 4;

/// The pause before that is tried again.
const LOCKED_PAUSE: Duration = Duration::from_secs(5);

/// A job with its next tick, and the latest plausible one.
type WithNext = (Definition, [Option<i64>; 2]);

/// The interval at which the jobs are marked as being in a file.
const MAINTENANCE: Duration = Duration::from_secs(60);

/// The interval at which old rows are deleted.
const PRUNING: Duration = Duration::from_secs(3600);

/// The least interval at which jobs in no file are handled.
const RETIRE_INTERVAL: Duration = Duration::from_secs(10);

impl Scheduler<'_> {
    /// Puts the file in force as is requested, except jobs whose rows are locked: those follow later. Returns whether the server has
    /// answered.
    pub(super) fn publish_as_requested(&mut self) -> Result<bool, Failure> {
        let is_due = self.timetable.publish_at <= Moment::now();
        if self.registration.publishes == Publishes::Nothing || !is_due {
            return Ok(true);
        }
        let Some(is_known) = self.is_known_file()? else {
            return Ok(false);
        };
        let before = self.registration.locked.clone();
        let Some(locked) = self.publish(is_known, &before)? else {
            return Ok(false);
        };
        (self.view.looked, self.timetable.look_at) = (None, Moment::START);
        if locked.is_empty() {
            self.end_publishing();
        } else {
            self.publish_later(locked);
        }
        Ok(true)
    }

    /// The file is in force.
    fn end_publishing(&mut self) {
        self.registration.publishes = Publishes::Nothing;
        self.registration.locked.clear();
        self.coordinator.say(FromScheduler::Published);
        let others = self.view.list_of(Known::disagrees).replace('\n', ", ");
        if !others.is_empty() {
            self.coordinator.note(
                Level::Warning,
                &format!("{others}: another schedule is in force, and this host had its file before; SIGHUP puts this one in force"),
            );
        }
    }

    /// These jobs are put in force later, as rows are locked.
    fn publish_later(&mut self, locked: Vec<String>) {
        self.registration.locked = locked;
        self.timetable.publish_at = Moment::now() + LOCKED_PAUSE;
    }

    /// The row of this job is locked, which is said once.
    fn say_locked(&mut self, name: &String) {
        let is_requested = self.registration.publishes != Publishes::Nothing;
        if is_requested && !self.registration.locked.contains(name) {
            self.coordinator.note(
                Level::Warning,
                &format!("{name}: another session keeps the row locked; the schedule of the file is put in force after that"),
            );
        }
    }

    /// Whether this host last had the same file, where that matters; `None`: unknown for now.
    fn is_known_file(&mut self) -> Result<Option<bool>, Failure> {
        if self.registration.publishes != Publishes::IfChanged {
            return Ok(Some(false));
        }
        let ask = ask_file_before(self.tables, self.facts, &self.registration.file_hash);
        self.ask(|session| session.run(&ask))
    }

    /// Puts the schedules of the file in force, or only those of jobs whose own daemons are gone. If jobs were `left` for later, it is
    /// about these alone, one by one. Returns the jobs that are left as rows are locked; `None`: the server has not answered.
    fn publish(
        &mut self,
        only_retired: bool,
        left: &[String],
    ) -> Result<Option<Vec<String>>, Failure> {
        let (mut names, mut locked): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let at_once = if left.is_empty() { JOBS_AT_ONCE } else { 1 };
        // The next ticks that jobs were given, and when.
        let mut given: Option<(HashMap<String, Option<i64>>, i64)> = None;
        loop {
            let Some(rows) = self.ask(|session| session.run(&ask_jobs(self.tables)))? else {
                return Ok(None);
            };
            let now = self.view.now();
            for known in &mut self.view.jobs {
                known.row = rows.get(&known.definition.name).cloned();
            }
            let is_wanted = |known: &&Known| match &known.row {
                None => true,
                Some(_) if known.rests(now) => true,
                Some(row) if only_retired => {
                    !known.agrees() && now - row.seen > micros(RETIRED_AFTER)
                }
                Some(row) => !known.agrees() || row.definition != known.definition.hash,
            };
            // Another daemon has taken that tick meanwhile, so the new schedule has another next tick.
            let is_overtaken = |known: &&Known| match (&given, &known.row) {
                (None, _) => true,
                (Some((given, at)), Some(row)) => given
                    .get(&known.definition.name)
                    .is_some_and(|next| Publish::is_overtaken(*next, *at, row.settled)),
                (Some(_), None) => false,
            };
            let place = |name: &String| left.iter().position(|other| other == name);
            let is_left =
                |known: &&Known| left.is_empty() || place(&known.definition.name).is_some();
            let mut wanted: Vec<WithNext> = self
                .view
                .jobs
                .iter()
                .filter(is_wanted)
                .filter(is_overtaken)
                .filter(is_left)
                .map(|known| {
                    let settled = known.row.as_ref().and_then(|row| row.settled);
                    let next = next_after(&known.job.schedule, goes_on_after(now, settled));
                    let latest = latest_next(&known.job.schedule, now);
                    (known.definition.clone(), [next, latest])
                })
                .collect();
            if wanted.is_empty() {
                break;
            }
            wanted.sort_by_cached_key(|(job, _)| (place(&job.name), job.name.clone()));
            let Some(rest) = self.publish_all(&wanted, at_once, now)? else {
                return Ok(None);
            };
            wanted.retain(|(job, _)| !rest.contains(&job.name));
            locked.extend(rest);
            if given.is_none() {
                names = wanted.iter().map(|(job, _)| job.name.clone()).collect();
            }
            let next = wanted.into_iter().map(|(job, [next, _])| (job.name, next));
            given = Some((next.collect(), now));
        }
        if !names.is_empty() {
            self.coordinator
                .note(Level::Info, &format!("put in force: {}", names.join(", ")));
        }
        Ok(Some(locked))
    }

    /// Publishes these jobs, so many in one transaction, and those of one that meets a locked row one by one. Returns the jobs that are
    /// left for later; `None`: the server has not answered.
    fn publish_all(
        &mut self,
        wanted: &[WithNext],
        at_once: usize,
        now: i64,
    ) -> Result<Option<Vec<String>>, Failure> {
        let mut parts: VecDeque<&[WithNext]> = wanted.chunks(at_once).collect();
        let (mut locked, mut waits) = (Vec::new(), 0);
        while waits < WAITS_AT_ONCE
            && let Some(part) = parts.pop_front()
        {
            if !self.publish_part(part, now)? {
                if !self.locked_rows.was_met {
                    return Ok(None);
                }
                waits += 1;
                if let [(job, _)] = part {
                    self.say_locked(&job.name);
                    locked.push(job.name.clone());
                } else {
                    parts.extend(part.chunks(1));
                }
            }
            self.renew_if_due()?;
        }
        // What was not tried comes first the next time.
        let untried = parts.into_iter().flatten();
        let untried = untried.map(|(job, _)| job.name.clone());
        Ok(Some(untried.chain(locked).collect()))
    }

    /// Publishes these jobs in one transaction. Returns whether that is done.
    fn publish_part(&mut self, part: &[WithNext], now: i64) -> Result<bool, Failure> {
        let publish = Publish {
            tables: self.tables,
            host: &self.facts.host,
            jobs: part.iter().map(|(job, next)| (job, *next)).collect(),
            now,
        };
        let published = self.ask(|session| session.run_batch(&publish.batch()))?;
        Ok(published.is_some())
    }

    /// Marks the jobs as being in a file, deletes old rows, and puts schedules in force whose daemons are gone.
    pub(super) fn maintain(&mut self) -> Result<(), Failure> {
        self.timetable.maintain_at = Moment::now() + MAINTENANCE;
        let now = self.view.now();
        let is_wanting =
            |known: &Known| !known.agrees() || known.rests(now) || known.is_seen_ahead(now);
        let (mut is_said, mut checked) = (true, None);
        if self.view.jobs.iter().any(is_wanting) {
            let left = self.publish(true, &[])?;
            is_said = left.is_some_and(|left| left.is_empty());
            // Then the next ticks of a clock that was ahead are found again.
            checked = is_said.then_some(now);
        }
        let agreed = self.view.jobs.iter().filter(|known| known.agrees());
        let agreed: Vec<&Definition> = agreed.map(|known| &known.definition).collect();
        let touches = agreed.chunks(JOBS_AT_ONCE);
        let touches = touches.map(|part| touch(self.tables, part, MAINTENANCE, checked));
        for touch in touches.collect::<Vec<_>>() {
            is_said &= self.ask(|session| session.run(&touch))?.is_some();
            self.renew_if_due()?;
        }
        self.registration.has_touched = is_said;
        // The next look reads everything, including changes by slow transactions.
        (self.view.looked, self.timetable.look_at) = (None, Moment::START);
        if self.timetable.prune_at <= Moment::now() {
            self.timetable.prune_at = Moment::now() + PRUNING;
            let old = prune(self.tables);
            self.ask(|session| old.iter().try_for_each(|delete| session.run(delete)))?;
        }
        Ok(())
    }

    /// Handles jobs that are in no file any more.
    pub(super) fn retire(&mut self) -> Result<(), Failure> {
        self.timetable.retire_at = Moment::now() + RETIRE_INTERVAL;
        self.registration.has_retired = false;
        let retire = retire(self.tables, self.facts, RETIRED_AFTER.as_secs());
        self.ask(|session| session.run_batch(&retire))?;
        Ok(())
    }
}
