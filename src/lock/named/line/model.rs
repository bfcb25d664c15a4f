//! Callers in line, stepped through every order of what they ask the server, of deaths, and of holders that free their slots.

use super::{Answer, Ask, Place};
use crate::lock::explorer::{Model, explore_to_rest};

/// What a caller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Doing {
    /// It asks this next.
    Waits(Place, Ask),
    /// It has released its number, and is to notify the head.
    Leaves(Place, Ask),
    /// It does not wait, and is about to see whether somebody does, and then to try the slots: one statement, in this order.
    Passes {
        has_looked: bool,
    },
    Holds,
    /// It has freed its slot, and is to notify the head: one statement, in this order.
    Frees,
    Gone,
}

/// Whether a caller may try the slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Tries {
    Not,
    /// It was notified.
    Once,
    /// It has found out that it is the head.
    AsHead,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Caller {
    doing: Doing,
    /// The lock that it asks for. Those of all are in one line.
    lock: u32,
    listens: bool,
    is_notified: bool,
    tries: Tries,
    number: Option<u32>,
    slot: Option<u32>,
}

impl Caller {
    fn new(doing: Doing) -> Self {
        Self {
            doing,
            lock: 0,
            listens: false,
            is_notified: false,
            tries: Tries::Not,
            number: None,
            slot: None,
        }
    }
}

#[derive(Clone, Hash)]
struct World {
    callers: Vec<Caller>,
    /// Of each lock.
    slots: u32,
    /// How many numbers a caller tries at once, and the largest number.
    at_once: u32,
    largest: u32,
    /// How many may still die.
    deaths: u32,
    /// How many may still find that the time to wait is over.
    lates: u32,
    /// How many notifications may still come to somebody from others than these.
    strays: u32,
    /// Whether nobody needs to look from time to time: all who free a slot live to notify the head.
    only_notified: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Step(usize),
    /// An idle caller looks, although nobody has notified it.
    Look(usize),
    /// The time of a caller is over.
    Late(usize),
    /// Another program notifies a session, or it was notified for a number that it does not have any more.
    Stray(usize),
    Free(usize),
    Die(usize),
}

impl World {
    fn new(waiting: usize, passing: usize, slots: u32, deaths: u32, lates: u32) -> Self {
        let waits = Doing::Waits(Place::default(), Ask::Listen);
        let passes = Doing::Passes { has_looked: false };
        let waiting = (0..waiting).map(|_| Caller::new(waits));
        Self {
            callers: waiting
                .chain((0..passing).map(|_| Caller::new(passes)))
                .collect(),
            slots,
            at_once: 2,
            largest: u32::MAX,
            deaths,
            lates,
            strays: 0,
            only_notified: deaths == 0,
        }
    }

    fn with_strays(self, strays: u32) -> Self {
        Self { strays, ..self }
    }

    /// Every second caller asks for another lock, and the keys of both lines are equal by chance.
    fn with_another_lock(mut self) -> Self {
        for caller in self.callers.iter_mut().skip(1).step_by(2) {
            caller.lock = 1;
        }
        self
    }

    fn with_numbers(self, at_once: u32, largest: u32) -> Self {
        Self {
            at_once,
            largest,
            ..self
        }
    }

    fn numbers(&self) -> Vec<u32> {
        let numbers = self.callers.iter().filter_map(|caller| caller.number);
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    /// Of the lock that this caller asks for. No slot of one lock has the number of one of another.
    fn free_slot(&self, at: usize) -> Option<u32> {
        let first = self.callers[at].lock * self.slots;
        let mut slots = first..first + self.slots;
        slots.find(|slot| self.callers.iter().all(|caller| caller.slot != Some(*slot)))
    }

    /// Whether nobody does anything by itself: all who have not gone hold a slot, or are idle without a notification.
    fn is_quiet(&self) -> bool {
        self.callers.iter().all(|caller| match caller.doing {
            Doing::Holds | Doing::Gone => true,
            Doing::Waits(_, Ask::Idle { .. }) => !caller.is_notified,
            _ => false,
        })
    }

    fn wake_head(&mut self) {
        let head = self.numbers().first().copied();
        for caller in &mut self.callers {
            caller.is_notified |= head.is_some() && caller.number == head && caller.listens;
        }
    }

    fn answer(&mut self, at: usize, ask: Ask) -> Answer {
        match ask {
            Ask::Listen => {
                self.callers[at].listens = true;
                self.callers[at].is_notified = false;
                Answer::Done
            }
            Ask::Stand => {
                let (numbers, own) = (self.numbers(), self.callers[at].number);
                let ahead = numbers.iter().filter(|number| Some(**number) < own).count();
                if own.is_some() && ahead == 0 {
                    self.callers[at].tries = Tries::AsHead;
                }
                Answer::Standing {
                    largest: numbers.last().copied(),
                    ahead: ahead as u64,
                }
            }
            Ask::Take(largest) => {
                let numbers = self.numbers();
                let mut few = largest + 1..=(largest + self.at_once).min(self.largest);
                let number = few.find(|number| !numbers.contains(number));
                if number.is_some() {
                    self.callers[at].number = number;
                }
                Answer::Number(number)
            }
            Ask::TrySlots => {
                let slot = self.free_slot(at);
                let caller = &mut self.callers[at];
                match caller.tries {
                    Tries::Not => panic!("it tries, is not the head, and was not notified"),
                    Tries::Once => caller.tries = Tries::Not,
                    Tries::AsHead => {}
                }
                caller.slot = slot;
                Answer::Slot(slot)
            }
            Ask::Idle { .. } => {
                let is_notified = std::mem::take(&mut self.callers[at].is_notified);
                if is_notified && self.callers[at].tries == Tries::Not {
                    self.callers[at].tries = Tries::Once;
                }
                Answer::Awake { is_notified }
            }
            Ask::Leave(number) => {
                assert_eq!(self.callers[at].number, Some(number));
                self.callers[at].number = None;
                Answer::Done
            }
            Ask::Over(_) => Answer::Done,
        }
    }

    fn proceed(&mut self, at: usize, mut place: Place, ask: Ask, late: bool) -> Doing {
        let answer = self.answer(at, ask);
        let next = place.next(ask, answer, late);
        assert_eq!(self.callers[at].number.unwrap_or(0), place.number());
        if let Ask::Leave(_) = ask {
            return Doing::Leaves(place, next);
        }
        self.go_on(at, place, next)
    }

    fn go_on(&mut self, at: usize, place: Place, next: Ask) -> Doing {
        match next {
            Ask::Over(slot) => {
                assert_eq!(self.callers[at].slot, slot);
                slot.map_or(Doing::Gone, |_| Doing::Holds)
            }
            next => Doing::Waits(place, next),
        }
    }

    fn step(&mut self, at: usize) -> Doing {
        match self.callers[at].doing {
            Doing::Waits(place, ask) => self.proceed(at, place, ask, false),
            Doing::Leaves(place, next) => {
                self.wake_head();
                self.callers[at].listens = false;
                self.go_on(at, place, next)
            }
            Doing::Passes { has_looked: false } if self.numbers().is_empty() => {
                Doing::Passes { has_looked: true }
            }
            Doing::Passes { has_looked: false } => Doing::Gone,
            Doing::Passes { has_looked: true } => {
                self.callers[at].slot = self.free_slot(at);
                self.callers[at].slot.map_or(Doing::Gone, |_| Doing::Holds)
            }
            Doing::Frees => {
                self.wake_head();
                Doing::Gone
            }
            other => other,
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
                Doing::Waits(..) | Doing::Leaves(..) | Doing::Passes { .. } | Doing::Frees => {
                    events.push(Event::Step(at));
                }
                Doing::Holds => events.push(Event::Free(at)),
                Doing::Gone => continue,
            }
            if self.lates > 0 && matches!(caller.doing, Doing::Waits(..)) {
                events.push(Event::Late(at));
            }
            if self.deaths > 0 {
                events.push(Event::Die(at));
            }
            // A session is notified also before it listens again: what was sent is read late.
            if self.strays > 0 && matches!(caller.doing, Doing::Waits(..)) && !caller.is_notified {
                events.push(Event::Stray(at));
            }
        }
        events
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Step(at) | Event::Look(at) => self.callers[at].doing = self.step(at),
            Event::Late(at) => {
                self.lates -= 1;
                if let Doing::Waits(place, ask) = self.callers[at].doing {
                    self.callers[at].doing = self.proceed(at, place, ask, true);
                }
            }
            Event::Stray(at) => {
                self.strays -= 1;
                self.callers[at].is_notified = true;
            }
            Event::Free(at) => {
                self.callers[at].slot = None;
                self.callers[at].doing = Doing::Frees;
            }
            Event::Die(at) => {
                self.deaths -= 1;
                self.callers[at] = Caller::new(Doing::Gone);
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
        // Not even until a holder of another lock in this line frees that.
        if self.only_notified && self.is_quiet() {
            let in_line = |at: &usize| self.callers[*at].number.is_some();
            let line = (0..self.callers.len()).filter(in_line);
            let head = line.min_by_key(|at| self.callers[*at].number);
            let is_free = head.is_some_and(|head| self.free_slot(head).is_some());
            assert!(!is_free, "the head waits, and a slot of its lock is free");
        }
    }

    fn settles_by(&self, event: Event) -> bool {
        !matches!(event, Event::Die(_) | Event::Late(_) | Event::Stray(_))
    }

    fn is_at_rest(&self) -> bool {
        self.callers
            .iter()
            .all(|caller| caller.doing == Doing::Gone)
    }

    fn check_rest(&self) {
        assert!(self.numbers().is_empty());
    }
}

#[test]
fn everybody_is_notified_in_time_where_nobody_dies() {
    for (waiting, passing, slots, lates) in [
        (2, 0, 1, 0),
        (3, 0, 1, 0),
        (3, 0, 2, 0),
        (2, 1, 1, 0),
        (2, 2, 1, 0),
        (3, 0, 1, 1),
    ] {
        let states = explore_to_rest(World::new(waiting, passing, slots, 0, lates));
        println!("{waiting} waiting, {passing} passing, {slots} slots: {states} states");
    }
}

#[test]
fn whoever_dies_holds_up_nobody_for_ever() {
    for (waiting, passing, slots, deaths) in
        [(3, 0, 1, 1), (3, 0, 2, 1), (2, 1, 1, 1), (3, 0, 1, 2)]
    {
        let states = explore_to_rest(World::new(waiting, passing, slots, deaths, 0));
        println!(
            "{waiting} waiting, {passing} passing, {slots} slots, {deaths} deaths: {states} states"
        );
    }
}

#[test]
fn whoever_is_notified_without_being_the_head_tries_once_and_goes_back_to_its_place() {
    for (waiting, passing, slots, deaths, strays) in [
        (2, 0, 1, 0, 1),
        (3, 0, 1, 0, 1),
        (3, 0, 1, 0, 2),
        (3, 0, 2, 0, 1),
        (2, 1, 1, 0, 1),
        (3, 0, 1, 1, 1),
    ] {
        let world = World::new(waiting, passing, slots, deaths, 0).with_strays(strays);
        let states = explore_to_rest(world);
        println!(
            "{waiting} waiting, {passing} passing, {slots} slots, {deaths} deaths, {strays} strays: {states} states"
        );
    }
}

#[test]
fn of_two_locks_in_one_line_none_keeps_a_caller_of_the_other_waiting_for_ever() {
    for (waiting, passing, slots, deaths, lates) in [
        (2, 0, 1, 0, 0),
        (3, 0, 1, 0, 0),
        (3, 0, 2, 0, 0),
        (2, 1, 1, 0, 0),
        (3, 0, 1, 0, 1),
        (3, 0, 1, 1, 0),
    ] {
        let world = World::new(waiting, passing, slots, deaths, lates).with_another_lock();
        let states = explore_to_rest(world);
        println!(
            "{waiting} waiting, {passing} passing, {slots} slots, {deaths} deaths, {lates} late: {states} states"
        );
    }
}

#[test]
fn where_the_numbers_are_used_up_or_taken_by_others_they_come_in_turn_all_the_same() {
    for (waiting, slots, deaths, at_once, largest) in [
        (3, 1, 0, 1, u32::MAX),
        (3, 1, 1, 1, u32::MAX),
        (3, 1, 0, 2, 2),
        (3, 1, 1, 2, 2),
        (2, 1, 1, 1, 1),
    ] {
        let world = World::new(waiting, 0, slots, deaths, 0).with_numbers(at_once, largest);
        let states = explore_to_rest(world);
        println!(
            "{waiting} waiting, {slots} slots, {deaths} deaths, {largest} numbers: {states} states"
        );
    }
}
