//! Puts the file in force, and registers the daemon: that it is alive, and for which jobs another schedule is in force.

use super::super::message::FromScheduler;
use super::{Known, Publishes, Scheduler, micros};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{
    Definition, JobRow, Look, Publish, Register, ask_file_before, ask_jobs, goes_on_after,
    latest_next, leave, next_after, prune, renew, retire, stop_taking, touch,
};
use std::collections::HashMap;
use std::time::Duration;

/// The number of jobs in one transaction.
const JOBS_AT_ONCE: usize = 100;

/// The interval at which the jobs are marked as being in a file.
const MAINTENANCE: Duration = Duration::from_secs(60);

/// The interval at which old rows are deleted.
const PRUNING: Duration = Duration::from_secs(3600);

/// The least interval at which jobs in no file are handled.
const RETIRE_INTERVAL: Duration = Duration::from_secs(10);

/// After this time without a daemon whose file has the schedule in force, another schedule is put in force.
const RETIRED_AFTER: Duration = Duration::from_secs(300);

/// A server that was silent for this long had an outage.
const OUTAGE: Duration = Duration::from_secs(5);

/// Rows that changed this long before the last look are read again: their transactions may have been under way.
const LOOK_BACK: Duration = Duration::from_secs(5);

/// The most bytes of the list of jobs in a daemon's row.
const LONGEST_LIST: usize = 4000;

impl Scheduler<'_> {
    /// Connects, puts the file in force, and registers, as needed. Returns whether all of it is done.
    pub(super) fn ensure_registered(&mut self) -> Result<bool, Failure> {
        let was_out = self.last_seen.is_none_or(|seen| seen.elapsed() > OUTAGE);
        if !self.connect()? {
            return Ok(false);
        }
        if self.disagrees.is_none() && !self.register("", "")? {
            return Ok(false);
        }
        if was_out {
            (self.made_up_since, self.spread) = (self.now(), None);
        }
        if self.publishes != Publishes::Nothing {
            let Some(is_known) = self.is_known_file()? else {
                return Ok(false);
            };
            if !self.publish(is_known)? {
                return Ok(false);
            }
            self.publishes = Publishes::Nothing;
            let others = self
                .list_of(|known| known.row.is_some() && !known.agrees())
                .replace('\n', ", ");
            if !others.is_empty() {
                self.note(
                    Level::Warning,
                    &format!("{others}: another schedule is in force, and this host had its file before; SIGHUP puts this one in force"),
                );
            }
            self.looked = None;
            self.look_at = Moment::START;
        }
        Ok(true)
    }

    pub(super) fn register(&mut self, disagrees: &str, differs: &str) -> Result<bool, Failure> {
        let lease = self.lease();
        let (tables, facts) = (self.tables.clone(), self.facts);
        let (count, hash) = (self.jobs.len(), self.file_hash.clone());
        let register = Register {
            tables: &tables,
            facts,
            jobs: (count, &hash),
            disagrees,
            differs,
            lease,
        };
        let sent = Moment::now();
        let Some(now) = self.ask(|session| session.run_batch(&register.batch()))? else {
            return Ok(false);
        };
        self.renewed = sent;
        self.set_clock(now);
        self.disagrees = Some(disagrees.to_owned());
        differs.clone_into(&mut self.differs);
        Ok(true)
    }

    /// Whether this host last had the same file, where that matters; `None`: unknown for now.
    fn is_known_file(&mut self) -> Result<Option<bool>, Failure> {
        if self.publishes != Publishes::IfChanged {
            return Ok(Some(false));
        }
        let (tables, definition) = (self.tables.clone(), self.file_hash.clone());
        let ask = ask_file_before(&tables, self.facts, &definition);
        self.ask(|session| session.run(&ask))
    }

    fn lease(&self) -> u64 {
        (self.renewal() * 3).as_secs().max(2)
    }

    /// Puts the schedules of the file in force, or only those of jobs whose own daemons are gone. Returns whether that is done.
    fn publish(&mut self, only_retired: bool) -> Result<bool, Failure> {
        let (tables, host) = (self.tables.clone(), self.facts.host.clone());
        let mut names: Vec<String> = Vec::new();
        // The next ticks that jobs were given, and when.
        let mut given: Option<(HashMap<String, Option<i64>>, i64)> = None;
        loop {
            let Some(rows) = self.ask(|session| session.run(&ask_jobs(&tables)))? else {
                return Ok(false);
            };
            let now = self.now();
            for known in &mut self.jobs {
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
                    tables: &tables,
                    host: &host,
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
            self.note(Level::Info, &format!("put in force: {}", names.join(", ")));
        }
        Ok(true)
    }

    /// Marks the jobs as being in a file, deletes old rows, and puts schedules in force whose daemons are gone.
    pub(super) fn maintain(&mut self) -> Result<(), Failure> {
        self.maintain_at = Moment::now() + MAINTENANCE;
        let tables = self.tables.clone();
        let agreed: Vec<Definition> = self
            .jobs
            .iter()
            .filter(|known| known.agrees())
            .map(|known| known.definition.clone())
            .collect();
        let mut is_said = true;
        for part in agreed.chunks(JOBS_AT_ONCE) {
            let part: Vec<&Definition> = part.iter().collect();
            let touch = touch(&tables, &part, MAINTENANCE);
            is_said &= self.ask(|session| session.run(&touch))?.is_some();
        }
        let now = self.now();
        let is_wanting = |known: &Known| !known.agrees() || known.rests(now);
        if self.jobs.iter().any(is_wanting) {
            is_said &= self.publish(true)?;
        }
        self.has_touched = is_said;
        // The next look reads everything, including changes by slow transactions.
        (self.looked, self.look_at) = (None, Moment::START);
        if self.prune_at <= Moment::now() {
            self.prune_at = Moment::now() + PRUNING;
            let old = prune(&tables);
            self.ask(|session| old.iter().try_for_each(|delete| session.run(delete)))?;
        }
        Ok(())
    }

    /// Handles jobs that are in no file any more.
    pub(super) fn retire(&mut self) -> Result<(), Failure> {
        self.retire_at = Moment::now() + RETIRE_INTERVAL;
        self.has_retired = false;
        let tables = self.tables.clone();
        let retire = retire(&tables, self.facts, RETIRED_AFTER.as_secs());
        self.ask(|session| session.run_batch(&retire))?;
        Ok(())
    }

    /// Renews the daemon's own lease. Returns whether that is done.
    pub(super) fn renew_own(&mut self) -> Result<bool, Failure> {
        let renew = renew(&self.tables, &self.facts.id, self.lease());
        let sent = Moment::now();
        let is_done = self.ask(|session| session.run(&renew))?.is_some();
        if is_done {
            self.renewed = sent;
        }
        Ok(is_done)
    }

    pub(super) fn stop_taking(&mut self) -> Result<(), Failure> {
        let stop = stop_taking(&self.tables, &self.facts.id);
        self.has_told_stop = self.ask(|session| session.run(&stop))?.is_some();
        Ok(())
    }

    pub(super) fn take_leave(&mut self) -> Result<(), Failure> {
        let leave = leave(&self.tables, &self.facts.id);
        self.ask(|session| session.run(&leave))?;
        Ok(())
    }

    /// Reads what has changed.
    pub(super) fn look(&mut self) -> Result<(), Failure> {
        let tables = self.tables.clone();
        let look = Look {
            tables: &tables,
            daemon: &self.facts.id,
            since: self.looked.map(|looked| looked - micros(LOOK_BACK)),
        };
        let is_whole = look.since.is_none();
        self.last_look = Moment::now();
        let Some(seen) = self.ask(|session| session.run(&look.ask()))? else {
            self.look_again();
            return Ok(());
        };
        // That all tables exist is known now.
        if !std::mem::replace(&mut self.is_ready, true) {
            self.say(&FromScheduler::Ready);
        }
        self.set_clock(seen.now);
        self.looked = Some(seen.now);
        self.look_at = Moment::now() + super::LOOK;
        if is_whole {
            for known in &mut self.jobs {
                known.row = None;
            }
        }
        let is_retired = |(name, row): (&String, &JobRow)| {
            let is_old = seen.now - row.seen > micros(RETIRED_AFTER);
            let has_tick = || seen.ticks.iter().any(|tick| tick.name == *name);
            is_old && (row.next.or(row.triggered).is_some() || has_tick())
        };
        self.has_retired |= seen.jobs.iter().any(is_retired);
        for (name, row) in seen.jobs {
            if let Some(known) = self.by_name.get(&name).map(|at| &mut self.jobs[*at]) {
                known.row = Some(row);
            }
        }
        for known in &mut self.jobs {
            known.stale = false;
            // A tick that this daemon computes as due, but the look does not show, was settled by another daemon.
            let agrees = known.agrees();
            if let Some(row) = known.row.as_mut().filter(|_| agrees) {
                while let Some(next) = row.next.filter(|next| *next <= seen.now && !is_whole)
                    && !seen.due.contains(&known.definition.name)
                {
                    row.next = next_after(&known.job.schedule, next);
                }
            }
        }
        self.ticks = seen.ticks;
        let is_orphan = |run: &String| {
            let mut ticks = self.ticks.iter();
            ticks.any(|tick| tick.is_orphan && tick.run == *run)
        };
        self.orphans.retain(|run, _| is_orphan(run));
        self.daemons = seen.daemons;
        self.look_for_kills()?;
        let disagrees = self.list_of(|known| known.row.is_some() && !known.agrees());
        let differs = self.list_of(Known::differs);
        let is_told = self.disagrees.as_ref() == Some(&disagrees) && self.differs == differs;
        if !seen.is_registered || !is_told {
            self.register(&disagrees, &differs)?;
        }
        Ok(())
    }

    /// The names of these jobs, one on each line.
    fn list_of(&self, is_wanted: impl Fn(&Known) -> bool) -> String {
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
