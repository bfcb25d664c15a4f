//! Callers in line, stepped through every order of what they ask the server, of deaths, and of holders that free their slots.

use super::line::{Answer, Ask, FreeAsk, Place};
use crate::lock::explorer::{Model, explore_to_rest};

/// What a caller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Doing {
    /// It asks this next.
    Waits(Place, Ask),
    /// It does not wait, and is at this point: it has the room to itself, or has read the numbers.
    Passes(Passing),
    Holds,
    Frees(FreeAsk),
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Passing {
    TryRoom,
    ReadNumbers,
    TrySlots,
    LeaveRoom,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Caller {
    doing: Doing,
    listens: bool,
    is_notified: bool,
    in_room: bool,
    /// Whether it has the room to itself.
    has_room: bool,
    number: Option<u32>,
    slot: Option<u32>,
}

#[derive(Clone, Hash)]
struct World {
    callers: Vec<Caller>,
    slots: u32,
    /// How many may still die.
    deaths: u32,
    /// Whether nobody needs to look from time to time: all who free a slot live to notify the head.
    only_notified: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Step(usize),
    /// An idle caller looks, although nobody has notified it.
    Look(usize),
    Free(usize),
    Die(usize),
}

impl World {
    fn new(waiting: usize, passing: usize, slots: u32, deaths: u32) -> Self {
        let caller = |doing| Caller {
            doing,
            listens: false,
            is_notified: false,
            in_room: false,
            has_room: false,
            number: None,
            slot: None,
        };
        let waits = Doing::Waits(Place::default(), Ask::Enter);
        let passes = Doing::Passes(Passing::TryRoom);
        let waiting = (0..waiting).map(|_| caller(waits));
        Self {
            callers: waiting
                .chain((0..passing).map(|_| caller(passes)))
                .collect(),
            slots,
            deaths,
            only_notified: deaths == 0,
        }
    }

    fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self
            .callers
            .iter()
            .filter_map(|caller| caller.number)
            .collect();
        numbers.sort_unstable();
        numbers
    }

    fn free_slot(&self) -> Option<u32> {
        (0..self.slots).find(|slot| self.callers.iter().all(|caller| caller.slot != Some(*slot)))
    }

    fn wake_head(&mut self) {
        let head = self.numbers().first().copied();
        for caller in &mut self.callers {
            caller.is_notified |= head.is_some() && caller.number == head && caller.listens;
        }
    }

    /// Whether somebody is in the room, but for this caller.
    fn is_room_taken(&self, but: usize) -> bool {
        let others = self.callers.iter().enumerate().filter(|(at, _)| *at != but);
        others
            .into_iter()
            .any(|(_, caller)| caller.in_room || caller.has_room)
    }

    fn answer(&mut self, at: usize, ask: Ask) -> Answer {
        match ask {
            Ask::Enter => {
                let is_free = self.callers.iter().all(|caller| !caller.has_room);
                self.callers[at].listens = true;
                self.callers[at].in_room |= is_free;
                Answer::Free(is_free)
            }
            Ask::ReadNumbers => {
                let (numbers, own) = (self.numbers(), self.callers[at].number);
                Answer::Numbers {
                    smallest: numbers.first().copied(),
                    before: numbers
                        .iter()
                        .rev()
                        .find(|number| Some(**number) < own)
                        .copied(),
                    largest: numbers.last().copied(),
                }
            }
            Ask::Take(number) => {
                let is_free = !self.numbers().contains(&number);
                if is_free {
                    self.callers[at].number = Some(number);
                }
                Answer::Free(is_free)
            }
            Ask::TrySlots => {
                let slot = self.free_slot();
                self.callers[at].slot = slot;
                Answer::Slot(slot)
            }
            Ask::Probe(number) => Answer::Free(!self.numbers().contains(&number)),
            Ask::Idle { .. } => {
                let is_notified = std::mem::take(&mut self.callers[at].is_notified);
                Answer::Awake { is_notified }
            }
            Ask::Leave => {
                let caller = &mut self.callers[at];
                (caller.number, caller.in_room, caller.listens) = (None, false, false);
                Answer::Done
            }
            Ask::WakeHead => {
                self.wake_head();
                Answer::Done
            }
            Ask::Over(_) => Answer::Done,
        }
    }

    fn pass(&mut self, at: usize, passing: Passing) -> Doing {
        match passing {
            Passing::TryRoom if self.is_room_taken(at) => Doing::Passes(Passing::ReadNumbers),
            Passing::TryRoom => {
                self.callers[at].has_room = true;
                Doing::Passes(Passing::TrySlots)
            }
            Passing::ReadNumbers if self.numbers().is_empty() => Doing::Passes(Passing::TrySlots),
            Passing::ReadNumbers => Doing::Gone,
            Passing::TrySlots => {
                self.callers[at].slot = self.free_slot();
                Doing::Passes(Passing::LeaveRoom)
            }
            Passing::LeaveRoom => {
                self.callers[at].has_room = false;
                if self.callers[at].slot.is_some() {
                    Doing::Holds
                } else {
                    Doing::Gone
                }
            }
        }
    }

    fn free(&mut self, at: usize, ask: FreeAsk) -> Doing {
        let mut is_empty = false;
        match ask {
            FreeAsk::Free => self.callers[at].slot = None,
            FreeAsk::TryRoom => is_empty = !self.is_room_taken(at),
            FreeAsk::WakeHead => self.wake_head(),
            FreeAsk::Over => {}
        }
        match ask.next(is_empty) {
            FreeAsk::Over => Doing::Gone,
            next => Doing::Frees(next),
        }
    }
}

impl Model for World {
    type Event = Event;

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, caller) in self.callers.iter().enumerate() {
            match caller.doing {
                Doing::Waits(_, Ask::Idle { .. }) if !caller.is_notified => {
                    if !self.only_notified {
                        events.push(Event::Look(at));
                    }
                }
                Doing::Waits(..) | Doing::Passes(_) | Doing::Frees(_) => {
                    events.push(Event::Step(at))
                }
                Doing::Holds => events.push(Event::Free(at)),
                Doing::Gone => continue,
            }
            if self.deaths > 0 {
                events.push(Event::Die(at));
            }
        }
        events
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Step(at) | Event::Look(at) => {
                self.callers[at].doing = match self.callers[at].doing {
                    Doing::Waits(mut place, ask) => {
                        let answer = self.answer(at, ask);
                        match place.next(ask, answer) {
                            Ask::Over(slot) => {
                                assert_eq!(self.callers[at].slot, Some(slot));
                                Doing::Holds
                            }
                            next => Doing::Waits(place, next),
                        }
                    }
                    Doing::Passes(passing) => self.pass(at, passing),
                    Doing::Frees(ask) => self.free(at, ask),
                    other => other,
                };
            }
            Event::Free(at) => self.callers[at].doing = Doing::Frees(FreeAsk::Free),
            Event::Die(at) => {
                self.deaths -= 1;
                self.callers[at] = Caller {
                    doing: Doing::Gone,
                    listens: false,
                    is_notified: false,
                    in_room: false,
                    has_room: false,
                    number: None,
                    slot: None,
                };
            }
        }
    }

    fn check(&self) {
        let mut slots: Vec<u32> = self
            .callers
            .iter()
            .filter_map(|caller| caller.slot)
            .collect();
        let number = slots.len();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), number, "two hold one slot");
    }

    fn settles_by(&self, event: Event) -> bool {
        !matches!(event, Event::Die(_))
    }

    fn is_at_rest(&self) -> bool {
        self.callers
            .iter()
            .all(|caller| caller.doing == Doing::Gone)
    }

    fn check_rest(&self) {
        assert!(
            self.numbers().is_empty()
                && self
                    .callers
                    .iter()
                    .all(|caller| !caller.in_room && !caller.has_room)
        );
    }
}

#[test]
fn everybody_is_notified_in_time_where_nobody_dies() {
    for (waiting, passing, slots) in [(2, 0, 1), (3, 0, 1), (3, 0, 2), (2, 1, 1), (2, 2, 1)] {
        let states = explore_to_rest(World::new(waiting, passing, slots, 0));
        println!("{waiting} waiting, {passing} passing, {slots} slots: {states} states");
    }
}

#[test]
fn whoever_dies_holds_up_nobody_for_ever() {
    for (waiting, passing, slots, deaths) in
        [(3, 0, 1, 1), (3, 0, 2, 1), (2, 1, 1, 1), (3, 0, 1, 2)]
    {
        let states = explore_to_rest(World::new(waiting, passing, slots, deaths));
        println!(
            "{waiting} waiting, {passing} passing, {slots} slots, {deaths} deaths: {states} states"
        );
    }
}
