//! Tries the decisions of `queue` in every order of events, against a model of the servers: statements that other sessions
//! come between at every step, `KILL QUERY` at every moment, crashes, cut networks, waits that are over.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::queue::{Answer, Next, Step, Way};

const MOST_CALLERS: usize = 8;
const MOST_SLOTS: usize = 3;

/// Both servers have the same locks; they differ in what `KILL QUERY` does to a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// The call that waits is NULL, and the statement goes on.
    MariaDb,
    /// The statement ends with an error, and what it took it keeps.
    MySql,
}

/// What does not change during an exploration.
#[derive(Debug, Clone, Copy)]
struct Setting {
    server: Server,
    slots: usize,
    callers: usize,
    /// The last so many callers do not wait.
    impatient: usize,
    /// The first so many callers want the lock alone, which is slot 0.
    alone: usize,
    /// Whether holders may wake the head.
    wakes: bool,
}

impl Setting {
    /// How many slots a caller is content with.
    fn slots_of(self, number: usize) -> usize {
        if number < self.alone { 1 } else { self.slots }
    }
}

/// Events from outside that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Budget {
    kills: u8,
    crashes: u8,
    cuts: u8,
    late: u8,
}

/// Where a caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    NotYet,
    /// The server executes a statement of its and has come so far.
    Asks(Step, At),
    /// The server has answered, and the session is idle.
    Answered(Step, Option<Answer>),
    Runs(u8),
    /// Gives its slot back and has come so far.
    Releases(u8, Release),
    Gone,
}

/// How far a statement has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    /// Before it has done anything.
    Start,
    /// Before it asks for this slot without waiting.
    Slot(u8),
    /// Before it asks for what it will wait for.
    Wait,
    /// In the server's queue for it.
    Queued,
    /// Before its last column is evaluated; what the first one said.
    Place(Slot),
    /// Before the answer is sent.
    Reply(Answer),
}

/// The first column of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Slot {
    Had(u8),
    Refused,
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Release {
    Slot,
    AskForHead,
    Wake(u8),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Caller {
    way: Way,
    phase: Phase,
    /// `KILL QUERY` came while its statement did not wait.
    killed: bool,
    /// Its network is cut: the server goes on with its statement, and nobody reads the answer.
    cut: bool,
    /// Its time is over.
    late: bool,
}

/// A named lock: who has it, and who waits for it in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lock {
    owner: Option<u8>,
    queue: [Option<u8>; MOST_CALLERS],
}

impl Lock {
    const FREE: Self = Self {
        owner: None,
        queue: [None; MOST_CALLERS],
    };

    fn enqueue(&mut self, caller: u8) {
        let end = self.queue.iter_mut().find(|place| place.is_none());
        *end.expect("room for all") = Some(caller);
    }

    fn leave_queue(&mut self, caller: u8) {
        if let Some(at) = self.queue.iter().position(|&one| one == Some(caller)) {
            self.queue[at..].rotate_left(1);
            self.queue[MOST_CALLERS - 1] = None;
        }
    }

    /// Frees it; who has it now.
    fn pass_on(&mut self) -> Option<u8> {
        self.owner = self.queue[0];
        self.queue.rotate_left(1);
        self.queue[MOST_CALLERS - 1] = None;
        self.owner
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    callers: Vec<Caller>,
    slots: [Lock; MOST_SLOTS],
    place: Lock,
    budget: Budget,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// The caller's next step: its statement's, or its own.
    Step(usize),
    /// The time-out of the call that waits.
    TimeOut(usize),
    Kill(usize),
    Crash(usize),
    Cut(usize),
    /// The server ends the session of a waiter that has been silent for too long.
    Expire(usize),
    Late(usize),
}

impl World {
    fn new(setting: Setting, budget: Budget) -> Self {
        let caller = |number| {
            let waits = number < setting.callers - setting.impatient;
            Caller {
                way: Way::new(u32::try_from(setting.slots_of(number)).unwrap(), waits),
                phase: Phase::NotYet,
                killed: false,
                cut: false,
                late: !waits,
            }
        };
        Self {
            callers: (0..setting.callers).map(caller).collect(),
            slots: [Lock::FREE; MOST_SLOTS],
            place: Lock::FREE,
            budget,
        }
    }

    /// Everything that may happen next.
    fn events(&self) -> Vec<Event> {
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
        }
        events
    }

    fn can_step(&self, number: usize) -> bool {
        let caller = &self.callers[number];
        match caller.phase {
            Phase::Asks(_, at) => at != At::Queued,
            Phase::Answered(..) => !caller.cut,
            Phase::Gone => false,
            Phase::NotYet | Phase::Runs(_) | Phase::Releases(..) => true,
        }
    }

    /// Only a waiter's session has a short life; that of one that has not waited yet is kept as a holder's is.
    fn can_expire(&self, number: usize) -> bool {
        let caller = &self.callers[number];
        caller.cut
            && matches!(
                caller.phase,
                Phase::Answered(
                    Step::Queue | Step::Head | Step::Settle | Step::Confirm(_),
                    _
                )
            )
    }

    fn apply(&mut self, setting: Setting, event: Event) {
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
                // What it reads when the network heals must not start a command.
                let caller = &self.callers[number];
                // After a proof the session is made fit to keep its lock first, which fails now.
                if let Phase::Answered(step, answer) = caller.phase
                    && !matches!(step, Step::Confirm(_))
                {
                    let next = caller.way.next(step, answer, caller.late);
                    assert!(!matches!(next, Next::Held(_)), "a late grant is believed");
                }
                self.end_session(number);
            }
            Event::Late(number) => {
                self.budget.late -= 1;
                self.callers[number].late = true;
            }
        }
    }

    fn step(&mut self, setting: Setting, number: usize) {
        match self.callers[number].phase {
            Phase::NotYet => self.ask(number, self.callers[number].way.first()),
            Phase::Asks(step, at) => self.execute(setting, number, step, at),
            Phase::Answered(step, answer) => {
                let caller = &mut self.callers[number];
                match caller.way.next(step, answer, caller.late) {
                    Next::Ask(step) | Next::Doubt(step) => self.ask(number, step),
                    Next::Held(grant) => {
                        let slot = u8::try_from(grant.slot).unwrap();
                        self.callers[number].phase = Phase::Runs(slot);
                    }
                    Next::Taken => {
                        assert!(caller.late, "a waiter gives up too early");
                        self.end_session(number);
                    }
                }
            }
            Phase::Runs(slot) => {
                self.callers[number].phase = Phase::Releases(slot, Release::Slot);
            }
            Phase::Releases(slot, Release::Slot) => {
                // Asked once more after an interruption, it may be another's by now.
                if self.slots[usize::from(slot)].owner == u8::try_from(number).ok() {
                    self.free_slot(usize::from(slot));
                }
                self.callers[number].phase = Phase::Releases(slot, Release::AskForHead);
            }
            Phase::Releases(slot, Release::AskForHead) => match self.place.owner {
                Some(head) if setting.wakes => {
                    self.callers[number].phase = Phase::Releases(slot, Release::Wake(head));
                }
                _ => self.end_session(number),
            },
            Phase::Releases(_, Release::Wake(head)) => {
                self.kill(setting, usize::from(head));
                self.end_session(number);
            }
            Phase::Gone => unreachable!("it does nothing more"),
        }
    }

    fn ask(&mut self, number: usize, step: Step) {
        self.callers[number].killed = false;
        self.callers[number].phase = Phase::Asks(step, At::Start);
    }

    /// One step of a statement, as `statements` has it.
    fn execute(&mut self, setting: Setting, number: usize, step: Step, at: At) {
        let slots = setting.slots_of(number);
        let number_of = u8::try_from(number).unwrap();
        let own = Some(number_of);
        let go_to = |world: &mut Self, at| world.callers[number].phase = Phase::Asks(step, at);
        match (step, at) {
            (Step::TryUnlessQueued, At::Start) if self.place.owner.is_some() => {
                go_to(self, At::Place(Slot::Refused));
            }
            (Step::Try | Step::TryUnlessQueued, At::Start) => go_to(self, At::Slot(0)),
            (Step::Head, At::Start) => {
                let held = (0u8..).zip(&self.slots).find(|(_, slot)| slot.owner == own);
                go_to(
                    self,
                    held.map_or(At::Slot(0), |(slot, _)| At::Place(Slot::Had(slot))),
                );
            }
            (Step::Queue, At::Start) => go_to(self, At::Wait),
            (Step::Settle, At::Start) => {
                let held = (0u8..).zip(&self.slots).find(|(_, slot)| slot.owner == own);
                go_to(
                    self,
                    At::Place(held.map_or(Slot::Null, |(slot, _)| Slot::Had(slot))),
                );
            }
            (Step::Confirm(slot), At::Start) => {
                let held = self.slots[slot as usize].owner == own;
                let slot = u8::try_from(slot).unwrap();
                go_to(
                    self,
                    At::Place(if held { Slot::Had(slot) } else { Slot::Null }),
                );
            }
            (_, At::Slot(slot)) => {
                if self.take(usize::from(slot), number) {
                    go_to(self, At::Place(Slot::Had(slot)));
                } else if usize::from(slot) + 1 < slots {
                    go_to(self, At::Slot(slot + 1));
                } else if matches!(step, Step::Head) && !self.callers[number].late {
                    go_to(self, At::Wait);
                } else {
                    go_to(self, At::Place(Slot::Refused));
                }
            }
            (_, At::Wait) => {
                let lock = match step {
                    Step::Head => &mut self.slots[slots - 1],
                    _ if slots == 1 => &mut self.slots[0],
                    _ => &mut self.place,
                };
                assert_ne!(lock.owner, own, "a lock is taken twice");
                if lock.owner.is_none() {
                    lock.owner = own;
                    self.waited(number, Slot::Null);
                } else if self.callers[number].killed {
                    go_to(self, At::Place(Slot::Null));
                } else {
                    lock.enqueue(number_of);
                    go_to(self, At::Queued);
                }
            }
            (_, At::Place(slot)) => self.answer(slots, number, step, slot),
            (_, At::Reply(answer)) => {
                self.callers[number].phase = Phase::Answered(step, Some(answer));
            }
            (_, At::Queued) => unreachable!("nothing is executed"),
        }
    }

    /// The last column, and with it the answer.
    fn answer(&mut self, slots: usize, number: usize, step: Step, slot: Slot) {
        let own = Some(u8::try_from(number).unwrap());
        let had = matches!(slot, Slot::Had(_));
        if self.place.owner == own && matches!(step, Step::Confirm(_)) && had {
            self.free_place();
        }
        let answer = Answer {
            refused: slot == Slot::Refused,
            slot: match slot {
                Slot::Had(slot) => Some(slot.into()),
                _ => None,
            },
            kills: false,
            place: slots > 1 && self.place.owner == own,
            connection_id: number as u64,
        };
        self.callers[number].phase = Phase::Asks(step, At::Reply(answer));
    }

    /// Asks for a slot without waiting.
    fn take(&mut self, slot: usize, number: usize) -> bool {
        let own = Some(u8::try_from(number).unwrap());
        let lock = &mut self.slots[slot];
        assert_ne!(lock.owner, own, "a slot is taken twice");
        if lock.owner.is_none() {
            lock.owner = own;
        }
        lock.owner == own
    }

    /// The call that waited has returned; `slot` counts unless it has got what it waited for.
    fn waited(&mut self, number: usize, slot: Slot) {
        let Phase::Asks(step, _) = self.callers[number].phase else {
            panic!("it waited for nothing");
        };
        let own = Some(u8::try_from(number).unwrap());
        let had = (0u8..).zip(&self.slots).find(|(_, slot)| slot.owner == own);
        let slot = had.map_or(slot, |(had, _)| Slot::Had(had));
        self.callers[number].phase = Phase::Asks(step, At::Place(slot));
    }

    fn kill(&mut self, setting: Setting, number: usize) {
        let (step, at) = match self.callers[number].phase {
            Phase::Asks(step, at) => (step, at),
            Phase::Releases(slot, Release::AskForHead) if setting.server == Server::MySql => {
                self.callers[number].phase = Phase::Releases(slot, Release::Slot);
                return;
            }
            _ => return,
        };
        match setting.server {
            Server::MySql => {
                self.leave_queues(number);
                self.callers[number].phase = Phase::Answered(step, None);
            }
            Server::MariaDb if at == At::Queued => {
                self.leave_queues(number);
                self.waited(number, Slot::Null);
            }
            Server::MariaDb => self.callers[number].killed = true,
        }
    }

    fn leave_queues(&mut self, number: usize) {
        let own = u8::try_from(number).unwrap();
        self.place.leave_queue(own);
        self.slots.iter_mut().for_each(|slot| slot.leave_queue(own));
    }

    fn free_slot(&mut self, slot: usize) {
        if let Some(next) = self.slots[slot].pass_on() {
            self.waited(next.into(), Slot::Null);
        }
    }

    fn free_place(&mut self) {
        if let Some(next) = self.place.pass_on() {
            self.waited(next.into(), Slot::Null);
        }
    }

    fn end_session(&mut self, number: usize) {
        let own = Some(u8::try_from(number).unwrap());
        self.leave_queues(number);
        self.callers[number].phase = Phase::Gone;
        for slot in 0..self.slots.len() {
            if self.slots[slot].owner == own {
                self.free_slot(slot);
            }
        }
        if self.place.owner == own {
            self.free_place();
        }
    }

    /// What holds in every state.
    fn check(&self) {
        for (own, caller) in (0u8..).zip(&self.callers) {
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
                    assert_ne!(
                        self.place.owner,
                        Some(own),
                        "a holder keeps the head's place"
                    );
                }
                // The place is given up only with a slot.
                Phase::Answered(Step::Head, Some(_)) => {
                    assert_eq!(
                        self.place.owner,
                        Some(own),
                        "the head's place is given away"
                    );
                }
                _ => {}
            }
        }
    }

    /// From here on nobody comes, ends or is disturbed: whoever waits must have a free slot after one look at all of them
    /// by each that may be the head, and after the end of each session that was cut off.
    fn check_that_nobody_is_left_waiting(&self, setting: Setting) {
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
}

fn hash(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Every state that can come of these events, in any order; how many there are.
fn explore(setting: Setting, budget: Budget) -> usize {
    let start = World::new(setting, budget);
    let mut seen = HashSet::from([hash(&start)]);
    let mut to_do = vec![start];
    while let Some(world) = to_do.pop() {
        for event in world.events() {
            let mut next = world.clone();
            next.apply(setting, event);
            if seen.insert(hash(&next)) {
                next.check();
                next.check_that_nobody_is_left_waiting(setting);
                to_do.push(next);
            }
        }
    }
    seen.len()
}

fn every_order_of_events(server: Server) {
    let none = Budget {
        kills: 0,
        crashes: 0,
        cuts: 0,
        late: 0,
    };
    let disturbed = [
        none,
        Budget { kills: 2, ..none },
        Budget {
            crashes: 1,
            late: 1,
            ..none
        },
        Budget {
            cuts: 1,
            late: 1,
            ..none
        },
        Budget {
            kills: 1,
            crashes: 1,
            ..none
        },
    ];
    for (slots, impatient, alone) in [(1, 1, 0), (2, 0, 0), (2, 1, 0), (2, 0, 1)] {
        let setting = Setting {
            server,
            slots,
            callers: 3,
            impatient,
            alone,
            wakes: true,
        };
        for budget in disturbed {
            explore(setting, budget);
        }
        let nobody_wakes = Setting {
            wakes: false,
            ..setting
        };
        assert!(
            explore(nobody_wakes, none) > 500,
            "the model has stopped moving"
        );
    }
}

#[test]
fn every_order_of_events_for_small_numbers_on_mariadb() {
    every_order_of_events(Server::MariaDb);
}

#[test]
fn every_order_of_events_for_small_numbers_on_mysql() {
    every_order_of_events(Server::MySql);
}

#[test]
fn random_orders_of_events_for_larger_numbers() {
    for seed in 0..3000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let setting = Setting {
            server: *random.choice(&[Server::MariaDb, Server::MySql]).unwrap(),
            slots: random.usize(1..=MOST_SLOTS),
            callers: random.usize(4..=MOST_CALLERS),
            impatient: random.usize(0..3),
            alone: random.usize(0..3),
            wakes: random.bool(),
        };
        let budget = Budget {
            kills: random.u8(0..6),
            crashes: random.u8(0..3),
            cuts: random.u8(0..3),
            late: random.u8(0..3),
        };
        let mut world = World::new(setting, budget);
        for _ in 0..1000 {
            let Some(&event) = random.choice(&world.events()) else {
                break;
            };
            world.apply(setting, event);
            world.check();
            world.check_that_nobody_is_left_waiting(setting);
        }
        // The server keeps the session of one that was cut off when it had a slot, and with it the slot: whoever can have
        // no other waits on.
        let lost = |slot: &Lock| {
            slot.owner
                .is_some_and(|by| world.callers[usize::from(by)].cut)
        };
        for (number, caller) in world.callers.iter().enumerate() {
            let all_lost = world.slots[..setting.slots_of(number)].iter().all(lost);
            let done = caller.phase == Phase::Gone || caller.cut || all_lost;
            assert!(done, "caller {number} is stuck; seed {seed}");
        }
    }
}
