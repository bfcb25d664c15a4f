//! The daemon's own row: that it is alive, and for which jobs another schedule is in force.

use super::{Publishes, Scheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::cron::{Register, leave, renew, stop_taking};

/// What a daemon has said of itself and its file.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for itself")]
pub(super) struct Registration {
    /// The hash of the file.
    pub file_hash: String,
    /// Which schedules of the file are to be put in force.
    pub publishes: Publishes,
    /// The jobs of which that is still to be done, as rows were locked; none: it is to be done of all.
    pub locked: Vec<String>,
    /// When the latest renewal of the daemon's own lease was sent that has succeeded.
    pub renewed: Moment,
    /// Jobs for which another schedule is in force, as in the daemon's row; `None`: it has none yet.
    pub disagrees: Option<String>,
    /// Jobs whose other settings differ, as in the daemon's row.
    pub differs: String,
    /// Whether the coordinator knows that the daemon is registered.
    pub is_ready: bool,
    /// Whether the other daemons know that it takes no more ticks.
    pub has_told_stop: bool,
    /// Whether there is a job that no daemon has had in its file for a while, and whether this daemon has marked its own jobs.
    pub has_retired: bool,
    pub has_touched: bool,
}

impl Registration {
    /// Nothing was said yet.
    pub fn new(file_hash: String, publishes: Publishes) -> Self {
        Self {
            file_hash,
            publishes,
            ..Self::default()
        }
    }
}

impl Scheduler<'_> {
    /// Puts the file in force, and registers, as needed. Returns whether the server has answered.
    pub(super) fn ensure_registered(&mut self) -> Result<bool, Failure> {
        if self.registration.disagrees.is_none() && !self.register("", "")? {
            return Ok(false);
        }
        if self.outage.take_end() {
            self.outage.make_up_since(self.view.now());
        }
        self.publish_as_requested()
    }

    pub(super) fn register(&mut self, disagrees: &str, differs: &str) -> Result<bool, Failure> {
        let register = Register {
            tables: self.tables,
            facts: self.facts,
            jobs: (self.view.jobs.len(), &self.registration.file_hash),
            disagrees,
            differs,
            lease: self.lease(),
        };
        let (register, sent) = (register.batch(), Moment::now());
        let Some(now) = self.ask(|session| session.run_batch(&register))? else {
            return Ok(false);
        };
        self.registration.renewed = sent;
        self.set_clock(now);
        self.registration.disagrees = Some(disagrees.to_owned());
        differs.clone_into(&mut self.registration.differs);
        Ok(true)
    }

    /// How long the daemon counts as alive, in seconds.
    fn lease(&self) -> u64 {
        (self.renewal() * 3).as_secs().max(2)
    }

    /// Renews the daemon's own lease. Returns whether that is done.
    pub(super) fn renew_own(&mut self) -> Result<bool, Failure> {
        let renew = renew(self.tables, &self.facts.id, self.lease());
        let sent = Moment::now();
        let changed = self.ask(|session| session.change(&renew))?;
        if changed == Some(1) {
            self.registration.renewed = sent;
        }
        Ok(changed.is_some())
    }

    pub(super) fn stop_taking(&mut self) -> Result<(), Failure> {
        let stop = stop_taking(self.tables, &self.facts.id);
        self.registration.has_told_stop = self.ask(|session| session.run(&stop))?.is_some();
        Ok(())
    }

    pub(super) fn take_leave(&mut self) -> Result<(), Failure> {
        let leave = leave(self.tables, &self.facts.id);
        self.ask(|session| session.run(&leave))?;
        Ok(())
    }
}
