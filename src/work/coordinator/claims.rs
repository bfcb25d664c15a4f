//! The jobs that a worker has claimed, and the outcomes that are not recorded yet.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::rc::Rc;

use super::super::command::Task;
use super::super::message::Claimed;
use super::super::payload::{Gathered, Payload};
use crate::queue::{EndedUnit, JobEnd, Unit};

/// A claimed job or block.
struct OpenUnit {
    unit: Unit,
    /// How many jobs it has, and how many of them have ended.
    jobs: u32,
    ended: u32,
    /// The jobs with an outcome of their own, neither done nor returned. Once the block ends and is returned, also those that are done.
    others: Vec<(u64, JobEnd)>,
    /// Those that were already sent for recording.
    handed: Vec<(u64, JobEnd)>,
    done: Vec<u64>,
    /// Whether any job of it was returned.
    is_returned: bool,
}

/// By what a claim is known: its first job and its fence.
fn claim_of(unit: &Unit) -> (u64, u64) {
    (unit.job, unit.fence)
}

/// Once this many jobs of a running block have another outcome than the rest, they are recorded.
const MOST_OTHERS: usize = 16;

impl OpenUnit {
    /// The outcomes sent so far, for another time: the server may have lost them. There may be a thousand, so they come in pieces.
    fn outcomes_to_repeat(&self) -> impl Iterator<Item = EndedUnit> {
        self.handed.chunks(MOST_OTHERS).map(|others| EndedUnit {
            unit: self.unit.clone(),
            outcome: JobEnd::Running,
            others: others.to_vec(),
        })
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Claims {
    /// Jobs that wait for a command.
    pub(super) buffer: VecDeque<Task>,
    /// The shared file for payloads that came in many messages.
    gathered: Option<Gathered>,
    units: HashMap<u64, OpenUnit>,
    /// Outcomes for the next turn.
    pub(super) ended: Vec<EndedUnit>,
    /// Outcomes in the current turn.
    pub(super) handed: Vec<EndedUnit>,
    /// Of each block that has ended without a confirmed record: how many of its jobs were not sent for recording before. By its first job
    /// and its fence.
    sizes: HashMap<(u64, u64), usize>,
    /// Jobs done and attempts failed since the last turn, and before that.
    counts: (u64, u64),
    counts_before: (u64, u64),
}

impl Claims {
    /// Whether any job has ended without a confirmed record.
    pub(super) fn has_unrecorded(&self) -> bool {
        self.unrecorded().next().is_some()
    }

    /// How many jobs have ended without a confirmed record. Of a block that is not over, those that were not sent yet do not count.
    pub(super) fn unrecorded_jobs(&self) -> usize {
        let (parts, units): (Vec<_>, Vec<_>) = self
            .unrecorded()
            .partition(|ended| ended.outcome == JobEnd::Running);
        // What another claimer may not have recorded is there twice.
        let others = parts.iter().flat_map(|part| &part.others);
        let of_parts: HashSet<u64> = others.map(|(job, _)| *job).collect();
        let size = |ended: &&EndedUnit| self.sizes.get(&claim_of(&ended.unit)).copied();
        let of_units: usize = units.iter().map(|ended| size(ended).unwrap_or(1)).sum();
        of_parts.len() + of_units
    }

    fn unrecorded(&self) -> impl Iterator<Item = &EndedUnit> {
        self.ended.iter().chain(&self.handed)
    }

    /// The outcomes in the current turn are recorded.
    pub(super) fn note_recorded(&mut self) {
        for ended in self.handed.drain(..) {
            if ended.outcome != JobEnd::Running {
                self.sizes.remove(&claim_of(&ended.unit));
            }
        }
    }

    /// Jobs done and attempts failed since this was asked last.
    pub(super) fn take_counts(&mut self) -> (u64, u64) {
        self.counts_before = self.totals();
        std::mem::take(&mut self.counts)
    }

    /// All jobs done and attempts failed.
    pub(super) fn totals(&self) -> (u64, u64) {
        let (done, failed) = self.counts_before;
        (done + self.counts.0, failed + self.counts.1)
    }

    /// Others have all of the jobs.
    pub(super) fn clear(&mut self) {
        *self = Self {
            counts: self.counts,
            counts_before: self.counts_before,
            ..Self::default()
        };
    }

    /// Drops those that are not in the tables any more, each known by its first job and its fence. Returns whether a job was of one.
    pub(super) fn remove(&mut self, gone: &[(u64, u64)]) -> impl Fn(&Task) -> bool + use<> {
        let is_gone = |unit: &Unit| gone.contains(&claim_of(unit));
        let units = self.units.extract_if(|_, open| is_gone(&open.unit));
        let units: Vec<u64> = units.map(|(unit, _)| unit).collect();
        let is_of = move |task: &Task| units.contains(&task.unit);
        self.buffer.retain(|task| !is_of(task));
        // If the job is claimed again, the claim may have the same fence.
        self.ended.retain(|ended| !is_gone(&ended.unit));
        self.sizes.retain(|claim, _| !gone.contains(claim));
        is_of
    }

    /// All claims that this worker knows of, as in [`Self::remove`].
    pub(super) fn known(&self) -> Vec<(u64, u64)> {
        let open = self.units.values().map(|open| &open.unit);
        let all = open.chain(self.unrecorded().map(|ended| &ended.unit));
        all.map(claim_of).collect()
    }

    /// The next turn has all outcomes that an earlier claimer got, and may not have recorded.
    pub(super) fn repeat(&mut self) {
        let handed = std::mem::take(&mut self.handed);
        let again = self.units.values().flat_map(OpenUnit::outcomes_to_repeat);
        let again: Vec<EndedUnit> = again.chain(handed).collect();
        self.ended.splice(0..0, again);
    }

    /// Returns the jobs that wait for a command.
    pub(super) fn return_waiting(&mut self) {
        for task in std::mem::take(&mut self.buffer) {
            self.note_outcome(&task, JobEnd::Returned);
        }
    }

    /// Takes out the waiting jobs that others could start sooner. The rest of a block can only be returned with the whole block.
    pub(super) fn take_singles(&mut self) -> VecDeque<Task> {
        let buffer = std::mem::take(&mut self.buffer);
        let (singles, rest) = buffer.into_iter().partition(|task| self.is_single(task));
        self.buffer = rest;
        singles
    }

    /// Notes the outcome of a job, to be recorded with the next turn.
    pub(super) fn note_outcome(&mut self, task: &Task, outcome: JobEnd) {
        let Some(open) = self.units.get_mut(&task.unit) else {
            return;
        };
        open.ended += 1;
        match &outcome {
            JobEnd::Done => self.counts.0 += 1,
            JobEnd::Retry(..) | JobEnd::Dead(_) => self.counts.1 += 1,
            JobEnd::Later(_) | JobEnd::Returned | JobEnd::Running => {}
        }
        let is_single = open.unit.block == 0;
        if is_single {
            let ended = EndedUnit::of(open.unit.clone(), outcome);
            self.units.remove(&task.unit);
            self.ended.push(ended);
            return;
        }
        match outcome {
            JobEnd::Done => open.done.push(task.id),
            JobEnd::Returned => open.is_returned = true,
            outcome => open.others.push((task.id, outcome)),
        }
        // Spread the work over several turns. But a block is known by its first job, which must stay in it until its end.
        if open.others.len() >= MOST_OTHERS && open.ended < open.jobs {
            let first = open.unit.job;
            let others = std::mem::take(&mut open.others);
            let (kept, others): (Vec<_>, Vec<_>) =
                others.into_iter().partition(|(job, _)| *job == first);
            open.others = kept;
            open.handed.extend(others.iter().cloned());
            self.ended.push(EndedUnit {
                unit: open.unit.clone(),
                outcome: JobEnd::Running,
                others,
            });
        }
        if open.ended == open.jobs
            && let Some(mut open) = self.units.remove(&task.unit)
        {
            let size = (open.jobs as usize).saturating_sub(open.handed.len());
            self.sizes.insert(claim_of(&open.unit), size);
            let mut outcome = JobEnd::Done;
            if open.is_returned {
                outcome = JobEnd::Returned;
                let done = open.done.into_iter().map(|job| (job, JobEnd::Done));
                open.others.extend(done);
            }
            self.ended.push(EndedUnit {
                unit: open.unit,
                outcome,
                others: open.others,
            });
        }
    }

    /// Whether it is a repeating job, which never becomes dead.
    pub(super) fn repeats(&self, task: &Task) -> bool {
        let open = self.units.get(&task.unit);
        open.is_some_and(|open| open.unit.repeats)
    }

    /// Whether single jobs wait for a command.
    pub(super) fn has_singles_ahead(&self) -> bool {
        self.buffer.iter().any(|task| self.is_single(task))
    }

    /// Whether it is a single job, and of no block.
    pub(super) fn is_single(&self, task: &Task) -> bool {
        let open = self.units.get(&task.unit);
        open.is_some_and(|open| open.unit.block == 0)
    }

    /// Takes in what was claimed, with the payloads in this file.
    pub(super) fn take_in(&mut self, mut claimed: Vec<Claimed>, file: File) {
        let mut file = Rc::new(file);
        if self.buffer.is_empty() {
            self.gathered = None;
        } else {
            file = self.gather(&mut claimed, file);
        }
        for Claimed { unit, jobs } in claimed {
            for job in &jobs {
                self.buffer.push_back(Task {
                    unit: unit.job,
                    id: job.id,
                    attempt: unit.attempt,
                    fence: unit.fence,
                    payload: Payload {
                        file: Rc::clone(&file),
                        offset: job.offset,
                        length: job.length,
                    },
                    is_whole: job.is_whole,
                });
            }
            self.units.entry(unit.job).or_insert_with(|| OpenUnit {
                unit,
                jobs: u32::try_from(jobs.len()).unwrap_or(u32::MAX),
                ended: 0,
                others: Vec::new(),
                handed: Vec::new(),
                done: Vec::new(),
                is_returned: false,
            });
        }
    }

    /// Copies payloads into the shared file of waiting jobs, as blocks of one job would otherwise have an open file each. Returns their
    /// file.
    fn gather(&mut self, claimed: &mut [Claimed], file: Rc<File>) -> Rc<File> {
        let jobs = || claimed.iter().flat_map(|unit| &unit.jobs);
        let first = jobs().map(|job| job.offset).min().unwrap_or_default();
        let end = jobs().map(|job| job.offset + job.length).max();
        let all = Payload {
            file: Rc::clone(&file),
            offset: first,
            length: end.unwrap_or_default().saturating_sub(first),
        };
        let Some(gathered) = Gathered::add(&mut self.gathered, &all) else {
            return file;
        };
        for job in claimed.iter_mut().flat_map(|unit| &mut unit.jobs) {
            job.offset = job.offset - first + gathered.offset;
        }
        gathered.file
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::message::ClaimedJob;
    use super::super::super::payload;
    use super::*;

    /// A worker that has claimed a block with this many jobs, and the jobs.
    fn with_block(jobs: u64) -> (Claims, VecDeque<Task>) {
        let unit = Unit {
            job: 1,
            last_job: jobs,
            block: 7,
            attempt: 1,
            fence: 1,
            repeats: false,
            has_key: false,
            has_parts: false,
            bytes: 0,
        };
        let job = |id| ClaimedJob {
            id,
            offset: 0,
            length: 0,
            is_whole: true,
        };
        let jobs = (1..=jobs).map(job).collect();
        let mut claims = Claims::default();
        claims.take_in(vec![Claimed { unit, jobs }], payload::file().unwrap());
        let tasks = std::mem::take(&mut claims.buffer);
        (claims, tasks)
    }

    #[test]
    fn each_job_of_a_block_counts_once_until_its_end_is_recorded() {
        let (mut claims, mut tasks) = with_block(40);
        for task in tasks.drain(..20) {
            let failed = JobEnd::Retry(Duration::ZERO, "exit 1".to_owned());
            claims.note_outcome(&task, failed);
        }
        // They are sent ahead, but for the block's first one.
        let ahead = MOST_OTHERS - 1;
        assert_eq!(claims.unrecorded_jobs(), ahead);
        claims.handed = std::mem::take(&mut claims.ended);
        // Another claimer gets them, too.
        claims.repeat();
        assert_eq!(claims.unrecorded_jobs(), ahead);
        for task in tasks {
            claims.note_outcome(&task, JobEnd::Done);
        }
        assert_eq!(claims.unrecorded_jobs(), 40);
        claims.handed = std::mem::take(&mut claims.ended);
        assert_eq!(claims.unrecorded_jobs(), 40);
        claims.note_recorded();
        assert!(!claims.has_unrecorded() && claims.sizes.is_empty());
    }
}
