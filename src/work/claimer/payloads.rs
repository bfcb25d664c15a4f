//! Reads payloads from the tables, and passes them on in files.

use super::super::message::{Claimed, ClaimedJob, FromClaimer};
use super::super::payload;
use super::{Claimer, Stop};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::in_words;
use crate::queue::{
    EndedUnit, JobEnd, MOST_JOBS, Stored, TurnAnswer, Unit, read_block, read_piece,
};
use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsFd;

pub(super) fn payloads() -> Result<File, Stop> {
    payload::file().map_err(|error| refused(&error))
}

pub(super) fn refused(error: &std::io::Error) -> Stop {
    let line = format!("cannot keep a payload: {}", in_words(error));
    Stop::NoPayloads(Failure::new(Reason::OsRefused, line))
}

/// Most units in one message: a packet has 32 KB.
pub(super) const UNITS_OF_MESSAGE: usize = 80;

/// How many jobs of a block are read at once.
pub(super) const JOBS_READ: usize = 500;

impl Claimer<'_> {
    /// Reads the payloads of the claimed units, and sends all to the coordinator. Returns how many jobs. If there is no room for payloads,
    /// it returns the rest, and the worker ends.
    pub(super) fn pass_on(&mut self, answer: &TurnAnswer) -> Result<u32, Stop> {
        let (mut jobs, mut units) = (0, 0);
        if answer.claimed.is_empty() {
            return Ok(0);
        }
        match self.pass_on_each(answer, &mut jobs, &mut units) {
            Err(Stop::NoPayloads(failure)) => {
                self.claiming.is_stuck = true;
                for (unit, ..) in &answer.claimed[units..] {
                    if !self.outcomes.ended.iter().any(|ended| ended.unit == *unit) {
                        self.note_end(unit, JobEnd::Returned);
                    }
                }
                self.send_in_time(&FromClaimer::Stuck(failure), None)?;
            }
            passed => passed?,
        }
        Ok(jobs)
    }

    /// Counts the sent jobs and units. A queue's units are either all blocks or all single jobs.
    fn pass_on_each(
        &mut self,
        answer: &TurnAnswer,
        jobs: &mut u32,
        units: &mut usize,
    ) -> Result<(), Stop> {
        let mut pending: Vec<Claimed> = Vec::new();
        let mut file = payloads()?;
        for (at, (unit, payload)) in answer.claimed.iter().enumerate() {
            if unit.block == 0 {
                let job = self.write_payload(&mut file, unit.job, payload.as_ref())?;
                pending.push(Claimed {
                    unit: unit.clone(),
                    jobs: vec![job],
                });
                *jobs += 1;
            } else {
                *jobs += self.pass_on_block(unit)?;
                *units = at + 1;
            }
            if pending.len() >= UNITS_OF_MESSAGE {
                self.send_claimed(std::mem::take(&mut pending), &file)?;
                *units = at + 1;
                file = payloads()?;
            }
        }
        if !pending.is_empty() {
            self.send_claimed(pending, &file)?;
        }
        Ok(())
    }

    fn send_claimed(&mut self, claimed: Vec<Claimed>, file: &File) -> Result<(), Stop> {
        self.coordinator.process.outlive();
        self.send_in_time(&FromClaimer::Claimed(claimed), Some(file.as_fd()))
    }

    /// Appends a job's payload to the file. `None`: there is no such job.
    pub(super) fn write_payload(
        &mut self,
        file: &mut File,
        job: u64,
        payload: Option<&Stored>,
    ) -> Result<ClaimedJob, Stop> {
        let offset = file.stream_position().map_err(|error| refused(&error))?;
        let mut length = 0;
        let mut write = |bytes: &[u8]| {
            length += bytes.len() as u64;
            file.write_all(bytes).map_err(|error| refused(&error))
        };
        if let Some(Stored::Read(bytes)) = payload {
            write(bytes)?;
        }
        let mut is_whole = payload.is_some();
        for piece in payload.iter().flat_map(|payload| payload.pieces()) {
            let read = read_piece(self.tables, job, piece);
            let bytes = self.ask_until_answered(|session| session.run(&read))?;
            let Some(bytes) = bytes else {
                is_whole = false;
                break;
            };
            write(&bytes)?;
        }
        if !is_whole {
            // The queue may be deleted, or the worker lost. A renewal finds out.
            self.renew()?;
        }
        Ok(ClaimedJob {
            id: job,
            offset,
            length,
            is_whole,
        })
    }

    /// The next turn records how a unit has ended that the coordinator does not get.
    fn note_end(&mut self, unit: &Unit, outcome: JobEnd) {
        let ended = EndedUnit::of(unit.clone(), outcome);
        self.outcomes.ended.push(ended);
    }

    /// Returns a block that could not be read, unless the queue was deleted or the worker lost.
    fn return_unread(&mut self, unit: &Unit) -> Result<(), Stop> {
        self.renew()?;
        self.note_end(unit, JobEnd::Returned);
        Ok(())
    }

    /// Buries what is no block: an application may have given many jobs the same number.
    fn bury_block(&mut self, unit: &Unit) {
        let why = format!("it is the first of a block of more than {MOST_JOBS} jobs");
        let line = format!("job {} is dead, attempt {}: {why}", unit.job, unit.attempt);
        self.coordinator.note(Level::Warning, &line);
        self.note_end(unit, JobEnd::Dead(why));
    }

    pub(super) fn pass_on_block(&mut self, unit: &Unit) -> Result<u32, Stop> {
        let queue = self.worker()?.queue.id;
        let mut jobs = Vec::new();
        let mut file = payloads()?;
        let (mut in_parts, mut bytes) = (false, 0u64);
        let mut from = unit.job;
        loop {
            let range = (from, unit.last_job);
            let read = read_block(self.tables, queue, unit.block, range, JOBS_READ);
            let found = self.ask_until_answered(|session| session.run(&read))?;
            for job in &found {
                if !job.has_queue {
                    return self.return_unread(unit).map(|()| 0);
                }
                in_parts |= matches!(job.payload, Stored::InParts(_));
                bytes = bytes.saturating_add(job.payload.bytes());
                jobs.push(self.write_payload(&mut file, job.id, Some(&job.payload))?);
            }
            if jobs.len() > MOST_JOBS {
                self.bury_block(unit);
                return Ok(0);
            }
            match found.last() {
                Some(last) if found.len() == JOBS_READ && last.id < unit.last_job => {
                    from = last.id + 1;
                }
                _ => break,
            }
        }
        // The claim does not know whether a block has payloads in parts. Now it is known.
        let unit = &Unit {
            has_parts: in_parts,
            bytes,
            ..unit.clone()
        };
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        if jobs.is_empty() {
            // All jobs were canceled, or the queue was deleted.
            self.renew()?;
            self.note_end(unit, JobEnd::Done);
        } else {
            let unit = unit.clone();
            self.send_claimed(vec![Claimed { unit, jobs }], &file)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated::link::Link;

    #[test]
    fn a_whole_block_fits_into_a_packet_and_so_do_the_most_units() {
        let job = ClaimedJob {
            id: u64::MAX,
            offset: u64::MAX,
            length: u64::MAX,
            is_whole: true,
        };
        let claimed = |jobs| Claimed {
            unit: Unit {
                job: u64::MAX,
                last_job: u64::MAX,
                block: u64::MAX,
                attempt: u32::MAX,
                fence: u64::MAX,
                repeats: true,
                has_key: true,
                has_parts: true,
                bytes: u64::MAX,
            },
            jobs: vec![job; jobs],
        };
        let units = (0..UNITS_OF_MESSAGE).map(|_| claimed(1)).collect();
        let (one, other) = Link::pair().unwrap();
        for message in [vec![claimed(MOST_JOBS)], units] {
            let jobs = message.iter().map(|unit| unit.jobs.len()).sum::<usize>();
            one.send(&FromClaimer::Claimed(message)).unwrap();
            let Some((FromClaimer::Claimed(received), None)) = other.receive().unwrap() else {
                panic!("another message");
            };
            let received = received.iter().map(|unit| &unit.jobs);
            assert_eq!(received.flatten().filter(|one| **one == job).count(), jobs);
        }
    }
}
