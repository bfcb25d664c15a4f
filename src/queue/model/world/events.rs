//! The events of the model, their effects, and the checks of every state.

use super::{Broken, OnTheWay, Place, WORKERS, Worker, World};
use crate::lock::explorer::Model;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A worker begins or continues a turn.
    Send(usize),
    /// The server carries out the packet on its way.
    CarryOut(usize),
    /// The answer arrives.
    Answer(usize),
    LoseSession(usize),
    CarryOutStray(usize),
    DropStray(usize),
    StartCommand(usize),
    EndCommand(usize, bool),
    /// By the worker's own clock.
    LeaseEnds(usize),
    /// By the server's clock.
    Expire(usize),
    Rescue(usize),
    KillClaimer(usize),
    Kill(usize),
}

impl Model for World {
    type Event = Event;

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for at in 0..WORKERS {
            let worker = &self.workers[at];
            let row = &self.rows[at];
            if row.is_there && (row.has_expired || self.is_broken(Broken::RescuesTheLiving)) {
                events.push(Event::Rescue(at));
            }
            let runs_on = self.is_broken(Broken::RunsOn);
            let lets_expire = worker.is_dead || !worker.is_fresh && (!worker.runs || runs_on);
            if row.is_there
                && !row.has_expired
                && lets_expire
                && (worker.is_dead || self.budget.expiries > 0)
            {
                events.push(Event::Expire(at));
            }
            if worker.is_dead {
                continue;
            }
            let has_need = worker.exchange.is_some()
                || worker.is_unsure
                || worker.ended.is_some()
                || worker.again.is_some()
                // A worker that finds nothing due changes nothing.
                || worker.job.is_none()
                    && self.place == Place::Due
                    && !(worker.is_past && self.is_broken(Broken::NeverLooksBelow))
                // A renewal, which makes the lease valid again.
                || !worker.is_fresh;
            match worker.on_the_way {
                OnTheWay::Nothing if has_need => events.push(Event::Send(at)),
                OnTheWay::Nothing => {}
                OnTheWay::Packet(_) => events.push(Event::CarryOut(at)),
                OnTheWay::Answer(..) => events.push(Event::Answer(at)),
            }
            if worker.on_the_way != OnTheWay::Nothing && self.budget.losses > 0 {
                events.push(Event::LoseSession(at));
            }
            if worker.job.is_some() && !worker.runs && worker.ended.is_none() && worker.is_fresh {
                events.push(Event::StartCommand(at));
            }
            if worker.runs {
                events.push(Event::EndCommand(at, true));
                if self.budget.failures > 0 {
                    events.push(Event::EndCommand(at, false));
                }
            }
            if worker.is_fresh && self.budget.lease_ends > 0 {
                events.push(Event::LeaseEnds(at));
            }
            if self.budget.claimer_deaths > 0 && !worker.is_unsure {
                events.push(Event::KillClaimer(at));
            }
            if self.budget.deaths > 0 {
                events.push(Event::Kill(at));
            }
        }
        for at in 0..self.strays.len() {
            events.extend([Event::CarryOutStray(at), Event::DropStray(at)]);
        }
        events
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Send(at) => self.send(at),
            Event::CarryOut(at) => {
                if let OnTheWay::Packet(packet) = self.workers[at].on_the_way {
                    let (last, claimed) = self.carry_out(packet);
                    self.workers[at].on_the_way = OnTheWay::Answer(packet, last, claimed);
                }
            }
            Event::Answer(at) => self.answer(at),
            Event::LoseSession(at) => {
                self.budget.losses -= 1;
                self.lose_session(at);
            }
            Event::CarryOutStray(at) => {
                let packet = self.strays.remove(at);
                self.carry_out(packet);
            }
            Event::DropStray(at) => {
                self.strays.remove(at);
            }
            Event::StartCommand(at) => self.workers[at].runs = true,
            Event::EndCommand(at, well) => {
                self.workers[at].runs = false;
                self.workers[at].ended = Some(well);
                self.was_done |= well;
                self.budget.failures -= u8::from(!well);
            }
            Event::LeaseEnds(at) => {
                self.budget.lease_ends -= 1;
                self.workers[at].is_fresh = false;
                self.workers[at].ends += 1;
                if !self.is_broken(Broken::RunsOn) {
                    self.end_commands(at);
                }
            }
            Event::Expire(at) => {
                self.budget.expiries = self
                    .budget
                    .expiries
                    .saturating_sub(u8::from(!self.workers[at].is_dead));
                self.rows[at].has_expired = true;
                // An answer to an earlier packet no longer proves the lease.
                self.workers[at].ends += 1;
            }
            Event::Rescue(at) => {
                if matches!(self.place, Place::Running(worker, _) if worker == at) {
                    self.place = Place::Due;
                }
                self.rows[at].is_there = self.is_broken(Broken::LeavesTheRescued);
                self.rows[at].has_expired = false;
            }
            Event::KillClaimer(at) => {
                self.budget.claimer_deaths -= 1;
                self.lose_session(at);
                let worker = &mut self.workers[at];
                worker.exchange = None;
                worker.again = worker.handed.take().or(worker.again);
                worker.is_unsure = true;
            }
            Event::Kill(at) => {
                self.budget.deaths -= 1;
                self.lose_session(at);
                let worker = &mut self.workers[at];
                worker.is_dead = true;
                worker.runs = false;
                worker.is_fresh = false;
            }
        }
    }

    fn check(&self) {
        let running = self.workers.iter().filter(|worker| worker.runs).count();
        assert!(running < 2, "two commands have one job");
        for (at, worker) in self.workers.iter().enumerate() {
            if worker.runs {
                let has_it = matches!(self.place, Place::Running(of, _) if of == at);
                assert!(has_it, "a command runs without its job");
                assert_eq!(
                    worker.job,
                    Some(self.fence),
                    "another has claimed the job since"
                );
            }
        }
        assert!(self.place != Place::Done || self.was_done, "a job is lost");
    }

    fn settles_by(&self, event: Event) -> bool {
        match event {
            Event::LoseSession(_)
            | Event::LeaseEnds(_)
            | Event::KillClaimer(_)
            | Event::Kill(_) => false,
            Event::EndCommand(_, well) => well,
            // Only dead workers never renew again.
            Event::Expire(at) => self.workers[at].is_dead,
            _ => true,
        }
    }

    fn is_at_rest(&self) -> bool {
        let all_dead = self.workers.iter().all(|worker| worker.is_dead);
        let is_idle = |worker: &Worker| {
            worker.is_dead || worker.job.is_none() && worker.exchange.is_none() && !worker.is_unsure
        };
        self.strays.is_empty()
            && self.workers.iter().all(is_idle)
            && (self.place == Place::Done || all_dead)
    }

    fn check_rest(&self) {}
}
