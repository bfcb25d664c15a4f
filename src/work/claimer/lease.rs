//! The registration of a worker and its lease.

use std::time::Duration;

use super::super::message::FromClaimer;
use super::{Claimer, Resumed, Stop};
use crate::base::clock::{Moment, chance_below, is_over};
use crate::base::exit::{Failure, Reason};
use crate::keeper::{Lateness, SHORTEST_PAUSE, Vigil, sleep_longer};
use crate::lock::Lease;
use crate::queue::{
    self, EndedUnit, JobEnd, Queue, Unit, ask_running, find_registration, register,
};

/// Most claims in one message.
const NAMED_AT_ONCE: usize = 200;

/// A registered worker.
pub(super) struct Worker {
    pub number: u64,
    pub queue: Queue,
    /// The number of the last turn; `None`: unknown until the worker's row is read.
    pub turn: Option<u64>,
    /// `None`: must be renewed before anything else.
    pub lease: Option<Lease>,
    /// When its commands must have ended if no further renewal is confirmed.
    pub held_until: Moment,
    /// After a takeover: the claims that the coordinator knows. `None`: there is nothing to compare.
    pub known: Option<Vec<(u64, u64)>>,
}

impl Worker {
    /// The worker of a claimer that has died.
    pub fn resumed(resumed: Resumed) -> Self {
        Self {
            number: resumed.worker,
            queue: resumed.queue,
            turn: None,
            lease: None,
            held_until: resumed.lease.map_or(Moment::START, Lease::over),
            known: Some(resumed.known),
        }
    }
}

/// The workers that this process has registered, one after the other: the current one, and those that were lost, whose commands must go.
pub(super) struct Workers {
    /// `None`: the next one is not registered yet.
    pub current: Option<Worker>,
    /// Watches the end of its lease.
    vigil: Vigil,
    /// By when the coordinator must have killed the commands of those that were lost.
    lost_until: Moment,
}

impl Workers {
    /// None was lost yet. With `resumed`, the current one is taken over.
    pub fn new(resumed: Option<Resumed>) -> Self {
        Self {
            current: resumed.map(Worker::resumed),
            vigil: Vigil::default(),
            lost_until: Moment::START,
        }
    }

    /// The current one's number; 0: there is none.
    pub fn number(&self) -> u64 {
        self.current.as_ref().map_or(0, |worker| worker.number)
    }

    /// The TTL of the current one's lease.
    pub fn ttl(&self) -> Option<Duration> {
        self.current.as_ref().map(|worker| worker.queue.ttl)
    }

    /// The current one's lease; `None`: there is none, or it must be renewed before anything else.
    pub fn lease(&self) -> Option<Lease> {
        self.current.as_ref().and_then(|worker| worker.lease)
    }

    /// When the current one's lease is renewed next.
    pub fn renewal_due(&self) -> Option<Moment> {
        self.lease().map(Lease::next_renewal)
    }

    /// Notes that the packet sent at this moment has renewed the lease. Returns whether it is the latest that has.
    fn confirm(&mut self, sent: Moment) -> bool {
        let Some(worker) = &mut self.current else {
            return false;
        };
        if worker.lease.is_some_and(|lease| lease.proved > sent) {
            return false;
        }
        let lease = Lease {
            ttl: worker.queue.ttl,
            proved: sent,
        };
        worker.lease = Some(lease);
        worker.held_until = lease.over();
        true
    }

    /// The current one's lease was over, and others have its jobs.
    fn lose(&mut self) {
        if let Some(lost) = self.current.take() {
            self.lost_until = Lease::last_answer(Moment::now(), lost.queue.ttl);
        }
    }

    /// How late a command is, by the number of its worker.
    pub fn lateness(&mut self) -> impl Fn(u64) -> Lateness + use<> {
        let own = self.current.as_ref();
        let own = own.map(|worker| (worker.number, worker.held_until, worker.queue.ttl));
        let own = own.map(|(own, until, ttl)| (own, self.vigil.lateness(Some(until), ttl)));
        let lost_until = self.lost_until;
        move |worker| match own {
            Some((own, lateness)) if own == worker => lateness,
            // That worker was lost.
            _ if is_over(Some(lost_until)) => Lateness::LongOver,
            _ => Lateness::Over,
        }
    }

    /// When to look whether the current one's commands must be killed, as far as that is still to come.
    pub fn looks(&self) -> impl Iterator<Item = Moment> {
        let own = self.current.as_ref();
        let looks = own.map(|worker| self.vigil.looks(worker.held_until, worker.queue.ttl));
        looks.into_iter().flatten()
    }

    /// When to look next whether the commands of lost workers must be killed, if that is still to come.
    pub fn look_at_lost(&self) -> Option<Moment> {
        Some(self.lost_until).filter(|until| !is_over(Some(*until)))
    }
}

impl Claimer<'_> {
    pub(super) fn lose(&mut self) {
        self.workers.lose();
        self.outcomes.forget_jobs();
        self.coordinator.say(FromClaimer::Lost(
            "its lease was over, and its jobs are others'".to_owned(),
        ));
    }

    /// Registers the worker. After a takeover it renews the lease, and returns unknown claims.
    pub(super) fn ensure_lease(&mut self) -> Result<(), Stop> {
        if self.workers.current.is_none() {
            self.ensure_session()?;
            let Some(opened) = self.opened.clone() else {
                return Err(Stop::Lost);
            };
            let (facts, queue) = (self.facts, opened.queue);
            let register = register(self.tables, &queue, facts);
            let mut pause = SHORTEST_PAUSE;
            let (number, sent) = loop {
                let sent = Moment::now();
                let mut number = self.ask(|session| session.run_batch(&register))?;
                if number.is_none() {
                    let find = find_registration(self.tables, &queue, facts);
                    number = self.ask_until_answered(|session| session.run(&find))?;
                }
                if let Some(number) = number {
                    break (number, sent);
                }
                pause = sleep_longer(pause);
            };
            let lease = Lease {
                ttl: queue.ttl,
                proved: sent,
            };
            self.set_fault(None);
            self.claiming.shard = chance_below(queue.shards);
            self.coordinator.say(FromClaimer::Registered(
                Box::new(queue.clone()),
                number,
                lease,
            ));
            self.workers.current = Some(Worker {
                number,
                queue,
                turn: Some(0),
                lease: Some(lease),
                held_until: lease.over(),
                known: None,
            });
        }
        if self.workers.lease().is_none() {
            self.renew()?;
        }
        if let Some(known) = self.worker()?.known.take() {
            self.return_unknown(&known)?;
        }
        Ok(())
    }

    /// Compares the worker's rows with the claims that the coordinator knows. It returns unknown rows: the dead claimer had not reported
    /// these claims, or the server lost the commit that recorded their outcomes. It reports known claims without a row: they are not the
    /// worker's any more.
    pub(super) fn return_unknown(&mut self, known: &[(u64, u64)]) -> Result<(), Stop> {
        let ask = ask_running(self.tables, self.worker()?.number);
        let units = self.ask_until_answered(|session| session.run(&ask))?;
        let is_gone = |(job, fence): &&(u64, u64)| {
            let mut units = units.iter();
            !units.any(|unit| (unit.job, unit.fence) == (*job, *fence))
        };
        let gone: Vec<(u64, u64)> = known.iter().filter(is_gone).copied().collect();
        for gone in gone.chunks(NAMED_AT_ONCE) {
            self.send_in_time(&FromClaimer::Gone(gone.to_vec()), None)?;
        }
        let is_unknown = |unit: &Unit| !known.contains(&(unit.job, unit.fence));
        let unknown = units.into_iter().filter(is_unknown);
        let returned = unknown.map(|unit| EndedUnit::of(unit, JobEnd::Returned));
        self.outcomes.ended.extend(returned);
        if !self.outcomes.ended.is_empty() {
            self.exchange_in(0, 0)?;
        }
        Ok(())
    }

    /// Renews the lease if that is due, in a single attempt. It does not change the number of the last turn.
    pub(super) fn keep_lease(&mut self) -> Result<(), Stop> {
        let Some(worker) = &self.workers.current else {
            return Ok(());
        };
        if worker
            .lease
            .is_none_or(|lease| lease.next_renewal() > Moment::now())
        {
            return Ok(());
        }
        let renew = queue::renew(self.tables, worker.number, &self.facts.run, false);
        let sent = Moment::now();
        match self.ask(|session| session.run_batch(&renew))? {
            Some(standing) if standing.turn.is_none() => return Err(Stop::Lost),
            Some(_) => self.confirm(sent),
            None => {}
        }
        Ok(())
    }

    /// Notes that the packet sent at this moment has renewed the lease.
    pub(super) fn confirm(&mut self, sent: Moment) {
        if self.workers.confirm(sent) {
            self.coordinator.say_if_heard(&FromClaimer::Confirmed(sent));
        }
    }

    pub(super) fn renew(&mut self) -> Result<(), Stop> {
        let worker = self.worker()?;
        let (number, takes_over) = (worker.number, worker.lease.is_none());
        let renew = queue::renew(self.tables, number, &self.facts.run, takes_over);
        let mut pause = SHORTEST_PAUSE;
        loop {
            let sent = Moment::now();
            let Some(standing) = self.ask(|session| session.run_batch(&renew))? else {
                pause = sleep_longer(self.capped(pause));
                continue;
            };
            let Some(turn) = standing.turn else {
                return Err(Stop::Lost);
            };
            let last = self.worker()?.turn.replace(turn);
            if last.is_some_and(|last| turn != last) {
                return Err(Stop::Forgotten);
            }
            self.confirm(sent);
            self.set_fault(None);
            return self.check_queue(standing.has_queue);
        }
    }

    pub(super) fn check_queue(&mut self, is_there: bool) -> Result<(), Stop> {
        if is_there {
            return Ok(());
        }
        // Only the worker's row and its claims are left of the queue. Delete them.
        let number = self.worker()?.number;
        let _ = self.ask(|session| queue::delete_worker(number, self.tables, session));
        self.coordinator.say(FromClaimer::QueueDeleted);
        let line = format!("the queue {} was deleted", self.spec.queue);
        Err(Stop::Failed(Failure::new(Reason::Configuration, line)))
    }
}
