//! How many jobs are put so far, and how to continue without putting any twice.

use std::fmt::Write as _;

use crate::base::text::argument_for_shell;
use crate::commands::queue;
use crate::settings::queue::{QueuePut, Source};

/// The jobs that are put so far, as the other process says.
pub(super) struct Tally<'a> {
    put: &'a QueuePut,
    /// How many jobs are put, and how many more are in doubt.
    pub jobs: u64,
    pub in_doubt: u64,
    /// Whether there is nothing more to put.
    pub is_complete: bool,
    /// Whether the server has lost commits.
    pub is_forgotten: bool,
}

impl<'a> Tally<'a> {
    /// Nothing is put yet.
    pub fn new(put: &'a QueuePut) -> Self {
        Self {
            put,
            jobs: 0,
            in_doubt: 0,
            is_complete: false,
            is_forgotten: false,
        }
    }

    /// Adds jobs that are put. None are in doubt any more.
    pub fn add(&mut self, jobs: u64) {
        self.jobs += jobs;
        self.in_doubt = 0;
    }

    /// Whether all is put.
    pub fn is_whole(&self) -> bool {
        self.is_complete || self.payloads() == Some(self.jobs)
    }

    /// As [`Tally::what_is_put`], also if nothing is put.
    pub fn what_is_put_if_any(&self) -> String {
        let put = self.what_is_put();
        if put.is_empty() {
            "; nothing is put".to_owned()
        } else {
            put
        }
    }

    /// The number of payloads, if it is known beforehand.
    fn payloads(&self) -> Option<u64> {
        let payloads = match &self.put.source {
            Source::Arguments(payloads) => payloads.len(),
            Source::Files(files) => files.len(),
            Source::Stdin => 1,
            Source::Records(_) => return None,
        };
        Some(payloads as u64)
    }

    /// How to continue behind so many payloads. `None`: there are no more.
    fn behind(&self, jobs: u64) -> Option<String> {
        let next = jobs + 1;
        match self.put.source {
            _ if self.payloads() == Some(jobs) => None,
            Source::Records(b'\n') => Some(format!("tail -n +{next}")),
            Source::Records(_) => Some(format!("tail -z -n +{next}")),
            Source::Arguments(_) | Source::Files(_) => Some(format!("PAYLOAD number {next}")),
            Source::Stdin => None,
        }
    }

    /// How many jobs are put, and how to continue without putting any twice.
    pub fn what_is_put(&self) -> String {
        if self.is_forgotten {
            return String::new();
        }
        let (jobs, in_doubt) = (self.jobs, self.in_doubt);
        let queue = argument_for_shell(&self.put.queue);
        let mut text = match jobs {
            0 => String::new(),
            1 => "; 1 job is put".to_owned(),
            number => format!("; {} are put", queue::jobs(number)),
        };
        if in_doubt > 0 {
            let _ = write!(
                text,
                "; it is not known whether the {} of {in_doubt} is put: see dblock queue status {queue}",
                if jobs == 0 {
                    "first batch"
                } else {
                    "next batch"
                }
            );
            if let (Some(now), Some(then)) = (self.behind(jobs), self.behind(jobs + in_doubt)) {
                let _ = write!(text, "; if it is not, go on with {now}, else with {then}");
            }
            return text;
        }
        if jobs > 0
            && let Some(next) = self.behind(jobs)
        {
            let _ = write!(text, "; go on with {next}");
        }
        text
    }
}
