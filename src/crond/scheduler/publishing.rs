//! Puts the schedules of the file in force, and those of jobs whose daemons are gone.

use std::collections::HashMap;
use std::time::Duration;

use super::view::{Known, micros};
use super::{Publishes, RETIRED_AFTER, Scheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{
    Definition, Publish, ask_file_before, ask_jobs, goes_on_after, latest_next, next_after, prune,
    retire, touch,
};

/// The number of jobs in one transaction.
const JOBS_AT_ONCE: usize = 100;

/// The interval at which the jobs are marked as being in a file.
const MAINTENANCE: Duration = Duration::from_secs(60);

/// The interval at which old rows are deleted.
const PRUNING: Duration = Duration::from_secs(3600);

/// The least interval at which jobs in no file are handled.
const RETIRE_INTERVAL: Duration = Duration::from_secs(10);

impl Scheduler<'_> {
    /// Puts the file in force as is requested. Returns whether that is done.
    pub(super) fn publish_as_requested(&mut self) -> Result<bool, Failure> {
        if self.registration.publishes == Publishes::Nothing {
            return Ok(true);
        }
        let Some(is_known) = self.is_known_file()? else {
            return Ok(false);
        };
        if !self.publish(is_known)? {
            return Ok(false);
        }
        self.registration.publishes = Publishes::Nothing;
        let others = self.view.list_of(Known::disagrees).replace('\n', ", ");
        if !others.is_empty() {
            self.coordinator.note(
                Level::Warning,
                &format!("{others}: another schedule is in force, and this host had its file before; SIGHUP puts this one in force"),
            );
        }
        self.view.looked = None;
        self.timetable.look_at = Moment::START;
        Ok(true)
    }

    /// Whether this host last had the same file, where that matters; `None`: unknown for now.
    fn is_known_file(&mut self) -> Result<Option<bool>, Failure> {
        if self.registration.publishes != Publishes::IfChanged {
            return Ok(Some(false));
        }
        let ask = ask_file_before(self.tables, self.facts, &self.registration.file_hash);
        self.ask(|session| session.run(&ask))
    }

    /// Puts the schedules of the file in force, or only those of jobs whose own daemons are gone. Returns whether that is done.
    fn publish(&mut self, only_retired: bool) -> Result<bool, Failure> {
        let mut names: Vec<String> = Vec::new();
        // The next ticks that jobs were given, and when.
        let mut given: Option<(HashMap<String, Option<i64>>, i64)> = None;
        loop {
            let Some(rows) = self.ask(|session| session.run(&ask_jobs(self.tables)))? else {
                return Ok(false);
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
            let mut wanted: Vec<(Definition, [Option<i64>; 2])> = self
                .view
                .jobs
                .iter()
                .filter(is_wanted)
                .filter(is_overtaken)
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
            wanted.sort_by(|one, other| one.0.name.cmp(&other.0.name));
            for part in wanted.chunks(JOBS_AT_ONCE) {
                let jobs = part.iter().map(|(job, next)| (job, *next)).collect();
                let publish = Publish {
                    tables: self.tables,
                    host: &self.facts.host,
                    jobs,
                    now,
                };
                if self
                    .ask(|session| session.run_batch(&publish.batch()))?
                    .is_none()
                {
                    return Ok(false);
                }
            }
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
        Ok(true)
    }

    /// Marks the jobs as being in a file, deletes old rows, and puts schedules in force whose daemons are gone.
    pub(super) fn maintain(&mut self) -> Result<(), Failure> {
        self.timetable.maintain_at = Moment::now() + MAINTENANCE;
        let agreed = self.view.jobs.iter().filter(|known| known.agrees());
        let agreed: Vec<&Definition> = agreed.map(|known| &known.definition).collect();
        let touches = agreed.chunks(JOBS_AT_ONCE);
        let touches = touches.map(|part| touch(self.tables, part, MAINTENANCE));
        let mut is_said = true;
        for touch in touches.collect::<Vec<_>>() {
            is_said &= self.ask(|session| session.run(&touch))?.is_some();
        }
        let now = self.view.now();
        let is_wanting = |known: &Known| !known.agrees() || known.rests(now);
        if self.view.jobs.iter().any(is_wanting) {
            is_said &= self.publish(true)?;
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
