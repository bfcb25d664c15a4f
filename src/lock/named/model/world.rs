//! The events that may happen next, and the checks of every state.

use super::locks::{Lock, MOST_CALLERS, SessionId, caller_of};
use super::state::{At, KillerPhase, Phase, Setting, Slot, World};
use crate::lock::named::acknowledging;
use crate::lock::named::queue::{Ask, Outcome, Step};

#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The next step of the caller, or of its statement.
    Step(usize),
    /// The waiting call times out.
    TimeOut(usize),
    Kill(usize),
    Crash(usize),
    Cut(usize),
    /// The server ends the session of a silent waiter.
    Expire(usize),
    Late(usize),
    /// The caller's session ends, or only the server keeps it.
    Lose(usize),
    CutOff(usize),
    /// The server notices that a session is lost, and ends it.
    Miss(SessionId),
    /// The server frees one of the locks of a session that is ending.
    Free(SessionId, usize),
    /// A caller that reacquires its slot stops waiting for the session that holds the slot.
    LosePatience(usize),
    /// A caller stops waiting for its killer to read the acknowledgement.
    StopAck(usize),
    /// A killer begins to kill the holder of this slot.
    KillerBegins(usize),
    KillerSteps,
    KillerGivesUp,
    KillerDies,
}

impl World {
    /// All events that are possible next.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (number, caller) in self.callers.iter().enumerate() {
            let asks = matches!(caller.phase, Phase::Asks(..));
            let queued = matches!(caller.phase, Phase::Asks(_, At::Queued));
            let waits = asks || matches!(caller.phase, Phase::Answered(..));
            if self.can_step(number) {
                events.push(Event::Step(number));
            }
            if queued && (caller.late || matches!(caller.phase, Phase::Asks(Step::Head, _))) {
                events.push(Event::TimeOut(number));
            }
            if self.can_expire(number) {
                events.push(Event::Expire(number));
            }
            if (asks || matches!(caller.phase, Phase::Releases(..))) && self.budget.kills > 0 {
                events.push(Event::Kill(number));
            }
            if !matches!(caller.phase, Phase::NotYet | Phase::Gone) && self.budget.crashes > 0 {
                events.push(Event::Crash(number));
            }
            if waits && !caller.cut && self.budget.cuts > 0 {
                events.push(Event::Cut(number));
            }
            if waits && !caller.late && self.budget.late > 0 {
                events.push(Event::Late(number));
            }
            let is_idle = matches!(
                caller.phase,
                Phase::Begins(_)
                    | Phase::Runs(_)
                    | Phase::Answered(..)
                    | Phase::Opened(..)
                    | Phase::Recalls(..)
                    | Phase::Retakes(..)
            );
            if (is_idle || asks) && self.budget.losses > 0 {
                events.push(Event::Lose(number));
            }
            if is_idle && self.budget.ghosts > 0 {
                events.push(Event::CutOff(number));
            }
            if self.can_lose_patience(number) {
                events.push(Event::LosePatience(number));
            }
            if let Phase::Acks(_, acknowledging) = caller.phase
                && matches!(acknowledging.asked(), acknowledging::Ask::Await(_))
            {
                events.push(Event::StopAck(number));
            }
        }
        events.extend(self.ghosts.iter().map(|&ghost| Event::Miss(ghost)));
        for &session in &self.ending {
            let count = self.locks_of(session);
            events.extend((0..count).map(|which| Event::Free(session, which)));
        }
        if self.budget.killers > 0 {
            let held = (0..self.slots.len()).filter(|&slot| self.slots[slot].owner.is_some());
            events.extend(held.map(Event::KillerBegins));
        }
        if self.can_killer_step() {
            events.push(Event::KillerSteps);
        }
        if self.can_killer_give_up() {
            events.push(Event::KillerGivesUp);
        }
        if self.killer.victim().is_some() && self.budget.killer_deaths > 0 {
            events.push(Event::KillerDies);
        }
        events
    }

    pub fn apply(&mut self, setting: Setting, event: Event) {
        match event {
            Event::Step(number) => self.step(setting, number),
            Event::TimeOut(number) => {
                self.leave_queues(number);
                self.waited(number, Slot::Refused);
            }
            Event::Kill(number) => {
                self.budget.kills -= 1;
                self.kill(setting, number);
            }
            Event::Crash(number) => {
                self.budget.crashes -= 1;
                self.end_session(number);
            }
            Event::Cut(number) => {
                self.budget.cuts -= 1;
                self.callers[number].cut = true;
            }
            Event::Expire(number) => {
                // What it reads when the network is back must not start a command.
                let mut caller = self.callers[number].clone();
                if let Phase::Answered(_, answer) = caller.phase {
                    let ask = caller.acquiring.next(answer, caller.late);
                    let is_believed = matches!(ask, Ask::Over(Outcome::Held(_)));
                    assert!(!is_believed, "a late grant is believed");
                }
                self.end_session(number);
            }
            Event::Late(number) => {
                self.budget.late -= 1;
                self.callers[number].late = true;
            }
            Event::Lose(number) => {
                self.budget.losses -= 1;
                self.end_on_server(self.callers[number].session);
            }
            Event::CutOff(number) => {
                self.budget.ghosts -= 1;
                self.cut_off(number);
            }
            Event::Miss(session) => {
                self.end_on_server(session);
            }
            Event::Free(session, which) => self.free_one(session, which),
            Event::LosePatience(number) => self.retake(number, true),
            Event::KillerBegins(slot) => self.killer_begins(slot),
            Event::StopAck(number) => self.ack_kill(number, true),
            Event::KillerSteps => self.killer_steps(false),
            Event::KillerGivesUp => self.killer_steps(true),
            Event::KillerDies => self.killer_dies(),
        }
    }

    /// Checks what must hold in every state.
    pub fn check(&self) {
        for caller in &self.callers {
            let own = caller.session;
            let slots = self
                .slots
                .iter()
                .filter(|slot| slot.owner == Some(own))
                .count();
            assert!(slots <= 1, "two slots are held by one");
            match caller.phase {
                Phase::Runs(slot) => {
                    assert_eq!(
                        self.slots[usize::from(slot)].owner,
                        Some(own),
                        "a command runs without its slot"
                    );
                    assert_ne!(self.head.owner, Some(own), "a holder stays the head");
                }
                // It stays the queue's head until it has a slot.
                Phase::Answered(Step::Head, Some(_)) => {
                    assert_eq!(
                        self.head.owner,
                        Some(own),
                        "the head is not the head any more"
                    );
                }
                _ => {}
            }
        }
    }

    /// From here on nobody comes, ends or is disturbed. Each waiter must get a free slot after one look at all slots by each possible
    /// head, and after the end of each session that was cut off.
    pub fn check_that_nobody_is_left_waiting(&self, setting: Setting) {
        let mut world = self.clone();
        let mut looked = [false; MOST_CALLERS];
        for _ in 0..1000 {
            let acts = |number: &usize| {
                let phase = world.callers[*number].phase;
                matches!(
                    phase,
                    Phase::Asks(..) | Phase::Answered(..) | Phase::Releases(..)
                ) && world.can_step(*number)
            };
            if let Some(number) = (0..setting.callers).find(acts) {
                world.step(setting, number);
                continue;
            }
            let waits = |number: usize| {
                let caller = &world.callers[number];
                !caller.cut && matches!(caller.phase, Phase::Asks(..) | Phase::Answered(..))
            };
            let free = |slot: &Lock| slot.owner.is_none();
            let in_vain = |number: &usize| {
                waits(*number) && world.slots[..setting.slots_of(*number)].iter().any(free)
            };
            if !(0..setting.callers).any(|number| in_vain(&number)) {
                return;
            }
            let looks = |number: &usize| {
                !looked[*number]
                    && matches!(
                        world.callers[*number].phase,
                        Phase::Asks(Step::Head, At::Queued)
                    )
            };
            if let Some(number) = (0..setting.callers).find(|&number| world.can_expire(number)) {
                world.end_session(number);
            } else if let Some(number) = (0..setting.callers).find(looks) {
                looked[number] = true;
                world.apply(setting, Event::TimeOut(number));
            } else {
                panic!("somebody waits, and a slot is free");
            }
        }
        panic!("no end");
    }

    /// Whether the event is not a disturbance, a new caller, or the end of another command. A killer need not give up on a holder that has
    /// noticed the loss of its session while its command runs.
    pub fn settles_by(&self, event: Event) -> bool {
        match event {
            Event::Step(number) => {
                !matches!(self.callers[number].phase, Phase::NotYet | Phase::Runs(_))
            }
            Event::TimeOut(_)
            | Event::Miss(_)
            | Event::Free(..)
            | Event::LosePatience(_)
            | Event::StopAck(_)
            | Event::KillerSteps => true,
            Event::KillerGivesUp => !self.must_report_to_killer(),
            _ => false,
        }
    }

    /// Whether all callers hold a slot, or wait because none is free for them.
    pub fn is_at_rest(&self, setting: Setting) -> bool {
        let rests = |number: usize| match self.callers[number].phase {
            Phase::NotYet | Phase::Runs(_) | Phase::Gone => true,
            Phase::Asks(_, At::Queued) => {
                let mut slots = self.slots[..setting.slots_of(number)].iter();
                slots.all(|slot| slot.owner.is_some())
            }
            _ => false,
        };
        let is_killer_done = matches!(self.killer, KillerPhase::NotYet | KillerPhase::Gone);
        is_killer_done
            && self.ghosts.is_empty()
            && self.ending.is_empty()
            && (0..setting.callers).all(rests)
    }

    /// At rest no marker may be left, and no slot may be held without a command.
    pub fn check_rest(&self) {
        let markers = &self.markers;
        let mut of_slots = markers
            .reacquires
            .iter()
            .chain(&markers.kills)
            .chain(&markers.terminations);
        assert!(
            of_slots.all(Option::is_none) && markers.ack.is_none() && markers.victim.is_none(),
            "a marker is left over"
        );
        for (slot, lock) in (0u8..).zip(&self.slots) {
            let Some(owner) = lock.owner else { continue };
            assert_eq!(
                self.callers[caller_of(owner)].phase,
                Phase::Runs(slot),
                "a slot is held for no command"
            );
        }
    }

    /// The server keeps the session of a holder that was cut off, and with it the slot. A caller that can use no other slot goes on
    /// waiting. All others must finish.
    pub fn check_that_all_are_done(&self, setting: Setting, seed: u64) {
        let lost = |slot: &Lock| slot.owner.is_some_and(|by| self.callers[caller_of(by)].cut);
        for (number, caller) in self.callers.iter().enumerate() {
            let all_lost = self.slots[..setting.slots_of(number)].iter().all(lost);
            let done = caller.phase == Phase::Gone || caller.cut || all_lost;
            assert!(done, "caller {number} is stuck; seed {seed}");
        }
    }
}
