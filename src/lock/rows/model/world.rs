//! The events that may happen next, and the checks of every state.

use super::state::{
    At, Broken, Caller, Flight, Ghost, MOST_SLOTS, Phase, SHORT_TTL, TableRow, World,
};
use crate::lock::explorer::Model;
use crate::lock::rows::change::Change;
use crate::lock::rows::claim::Claim;
use crate::lock::rows::step::Answer;

#[derive(Debug, Clone, Copy)]
pub enum Event {
    Tick,
    Begin(u8),
    /// The caller's statement proceeds, or its answer arrives.
    Step(u8),
    /// As [`Event::Step`], with old rows.
    LookAtThePast(u8),
    Replicate,
    /// A waiter looks again.
    LookAgain(u8),
    /// A waiter is granted the slot by the queue.
    BeGranted(u8),
    Renew(u8),
    EndCommand(u8),
    /// The script continues.
    UseToken(u8),
    Wake(u8),
    /// A write that was given up is carried out, or never will be.
    GhostRuns(usize),
    GhostVanishes(usize),
    Lose(u8),
    Conflict(u8),
    Miss(u8),
    Crash(u8),
    GiveUp(u8),
    Sleep(u8),
    Kill(usize),
    Force(usize),
    Shorten(u8),
}

impl World {
    fn events_of(&self, number: u8, events: &mut Vec<Event>) {
        let caller = &self.callers[usize::from(number)];
        let (budget, phase) = (&self.budget, caller.phase);
        let mut add = |is_possible: bool, event| events.extend(is_possible.then_some(event));
        if caller.asleep {
            let is_done = matches!(
                caller.flight.map(|flight| flight.at),
                None | Some(At::Looked(..))
            );
            add(!is_done, Event::Step(number));
            return add(true, Event::Wake(number));
        }
        let claims = phase == Phase::Claims;
        if let Some(flight) = caller.flight {
            let is_write = flight.step.is_write();
            let is_sent = flight.at == At::Sent;
            add(true, Event::Step(number));
            let lags = self.is_broken(Broken::ReadsThePast);
            add(
                lags && (!is_write || flight.at == At::Done && !flight.has_changed),
                Event::LookAtThePast(number),
            );
            add(budget.losses > 0, Event::Lose(number));
            add(
                is_sent && is_write && budget.conflicts > 0,
                Event::Conflict(number),
            );
            add(
                is_sent && is_write && budget.misses > 0,
                Event::Miss(number),
            );
        }
        let is_idle = caller.flight.is_none();
        add(phase == Phase::NotYet, Event::Begin(number));
        add(phase == Phase::Waits, Event::LookAgain(number));
        let is_queued = phase == Phase::Waits && self.setting.queued;
        add(is_queued, Event::BeGranted(number));
        add(phase == Phase::Holds && is_idle, Event::Renew(number));
        add(phase == Phase::Holds, Event::EndCommand(number));
        add(matches!(phase, Phase::HasToken(_)), Event::UseToken(number));
        add(
            !matches!(phase, Phase::NotYet | Phase::Gone) && budget.crashes > 0,
            Event::Crash(number),
        );
        let may_give_up = (claims || phase == Phase::Waits) && !caller.quits;
        add(may_give_up && budget.give_ups > 0, Event::GiveUp(number));
        add(
            phase == Phase::Holds && budget.sleeps > 0,
            Event::Sleep(number),
        );
        let is_adopted = phase == Phase::Holds && self.is_script(number);
        add(is_adopted && budget.shortened > 0, Event::Shorten(number));
    }

    fn run_ghost(&mut self, which: usize) {
        let Ghost { number, step } = self.ghosts.remove(which);
        self.write(number, step, 0, true);
    }

    fn forget(&mut self) {
        self.callers.iter_mut().for_each(Caller::forget);
        let awaited = |id: u8| {
            let flights = self.callers.iter().filter_map(|caller| caller.flight);
            let is_open =
                |flight: &Flight| !matches!(flight.at, At::Looked(..)) || flight.step.releases();
            let mut open = flights.filter(is_open);
            open.any(|flight| flight.write_id == id)
        };
        let known = [0, 1, 2, 3, 4].map(awaited);
        for row in self.rows.iter_mut().chain(&mut self.past) {
            row.write_id = if known[usize::from(row.write_id)] {
                row.write_id
            } else {
                0
            };
        }
    }

    /// Whether time may pass. By then a supervisor that is awake has ended its command if its lease is over.
    fn can_tick(&self) -> bool {
        let is_overrun = |caller: &Caller| caller.runs() && caller.is_over_in(1);
        !self.callers.iter().any(is_overrun) && (self.budget.slow > 0 || !self.is_slow())
    }

    /// Whether the time that passes now is that of an answer.
    fn is_slow(&self) -> bool {
        let waits = |caller: &Caller| caller.flight.is_some() && !caller.asleep;
        self.callers.iter().any(waits)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick => {
                self.budget.slow -= u8::from(self.is_slow());
                self.tick_rows();
                self.callers.iter_mut().for_each(Caller::tick);
            }
            Event::Begin(number) => self.claim(number, Claim::begin),
            Event::Step(number) => {
                let flight = self.caller(number).flight.expect("it asks");
                if let At::Looked(..) = flight.at {
                    let answer = self.answer_to(number);
                    return self.answer(number, &answer);
                }
                self.execute(number);
            }
            Event::LookAtThePast(number) => {
                let past = self.past;
                self.caller(number).flight.as_mut().expect("it asks").at = At::Looked(past);
            }
            Event::Replicate => self.replicate(),
            Event::LookAgain(number) => self.claim(number, |claim, _| claim.look()),
            Event::BeGranted(number) => self.claim(number, |claim, _| claim.take_granted(0)),
            Event::Renew(number) => self.renew_now(number),
            Event::EndCommand(number) => self.end_command(number),
            Event::UseToken(number) => {
                let used = self.caller(number).phase == Phase::HasToken(true);
                self.use_token(number, used);
            }
            Event::Wake(number) => {
                let caller = self.caller(number);
                caller.asleep = false;
                caller.in_doubt |= caller.is_over_in(0);
            }
            Event::GhostRuns(which) => self.run_ghost(which),
            Event::GhostVanishes(which) => drop(self.ghosts.remove(which)),
            Event::Lose(number) => {
                self.budget.losses -= 1;
                self.lose(number);
            }
            Event::Conflict(number) => {
                self.budget.conflicts -= 1;
                self.answer(number, &Answer::Refused);
            }
            Event::Miss(number) => {
                self.budget.misses -= 1;
                self.miss(number);
            }
            Event::Crash(number) => {
                self.budget.crashes -= 1;
                self.end(number, false);
            }
            Event::GiveUp(number) => {
                self.budget.give_ups -= 1;
                self.give_up(number);
            }
            Event::Sleep(number) => {
                self.budget.sleeps -= 1;
                self.caller(number).asleep = true;
            }
            Event::Kill(slot) => {
                self.budget.kills -= 1;
                self.rows[slot].kill_requested = true;
            }
            Event::Force(slot) => {
                self.budget.forced -= 1;
                self.force(slot);
            }
            Event::Shorten(number) => {
                self.budget.shortened -= 1;
                let caller = *self.caller(number);
                let (slot, fence) = (caller.slot, caller.fence.expect("it is held"));
                let change = Change::Renew { slot, fence };
                let write_id = self.rows[slot as usize].write_id;
                self.carry_out(number, change, write_id, false, Some(SHORT_TTL));
            }
        }
    }
}

impl Model for World {
    type Event = Event;

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for number in 0..self.callers.len() {
            self.events_of(u8::try_from(number).unwrap(), &mut events);
        }
        for which in 0..self.ghosts.len() {
            events.extend([Event::GhostRuns(which), Event::GhostVanishes(which)]);
        }
        let owned = |slot: &usize| self.rows[*slot].owner.is_some();
        for slot in (0..self.setting.slots).filter(owned) {
            let is_new = self.budget.kills > 0 && !self.rows[slot].kill_requested;
            events.extend(is_new.then_some(Event::Kill(slot)));
            events.extend((self.budget.forced > 0).then_some(Event::Force(slot)));
        }
        let goes_on = self.can_tick() && !self.is_at_rest();
        events.extend(goes_on.then_some(Event::Tick));
        let lags = self.is_broken(Broken::ReadsThePast) && self.past != self.rows;
        events.extend(lags.then_some(Event::Replicate));
        events
    }

    fn apply(&mut self, event: Event) {
        self.happen(event);
        self.forget();
    }

    fn check(&self) {
        let mut runs = [false; MOST_SLOTS];
        for (number, caller) in (0..).zip(&self.callers) {
            if caller.runs() && !caller.is_ousted {
                let slot = &mut runs[caller.slot as usize];
                assert!(!std::mem::replace(slot, true), "two commands run at once");
                assert!(
                    self.is_backed(number, caller),
                    "a command runs without its slot"
                );
            }
            assert!(
                caller.phase != Phase::Waits || !caller.claim.may_hold,
                "who waits cannot be ended at once"
            );
            let has_ghost = self.ghosts.iter().any(|ghost| ghost.number == number);
            if caller.is_clean && !caller.is_haunted && !has_ghost {
                let owns = self.rows.iter().any(|row| row.owner == Some(number));
                assert!(!owns, "a slot is held for nobody");
            }
        }
    }

    fn settles_by(&self, event: Event) -> bool {
        match event {
            Event::Tick
            | Event::Begin(_)
            | Event::Step(_)
            | Event::Replicate
            | Event::LookAgain(_)
            | Event::BeGranted(_)
            | Event::Renew(_)
            | Event::EndCommand(_)
            | Event::UseToken(_)
            | Event::Wake(_)
            | Event::GhostRuns(_)
            | Event::GhostVanishes(_) => true,
            Event::LookAtThePast(_)
            | Event::Lose(_)
            | Event::Conflict(_)
            | Event::Miss(_)
            | Event::Crash(_)
            | Event::GiveUp(_)
            | Event::Sleep(_)
            | Event::Kill(_)
            | Event::Force(_)
            | Event::Shorten(_) => false,
        }
    }

    fn is_at_rest(&self) -> bool {
        let is_over = |row: &TableRow| row.owner.is_none() || row.left == 0;
        self.callers
            .iter()
            .all(|caller| caller.phase == Phase::Gone)
            && self.ghosts.is_empty()
            && self.rows.iter().all(is_over)
    }

    /// Nothing to check: being at rest means that no slot is held.
    fn check_rest(&self) {}
}
