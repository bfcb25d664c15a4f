//! Goes through every state that can come of some events, in any order.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::state::{Budget, Setting, World};
use super::world::Event;

fn hash(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Every state that can come of these events, in any order; how many there are.
pub fn explore(setting: Setting, budget: Budget) -> usize {
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

/// The states that were found, and how: shown where something is wrong.
struct Found {
    /// From which state each came, and by what.
    origins: Vec<(u32, Option<Event>)>,
    /// What is being tried.
    tried: (u32, Option<Event>),
}

impl Drop for Found {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (mut state, mut event) = self.tried;
            let mut events = Vec::new();
            while let Some(last) = event {
                events.push(last);
                (state, event) = self.origins[state as usize];
            }
            events.reverse();
            println!("it came about by {events:?}");
        }
    }
}

/// As [`explore`], for events after which there is more than one way to rest: from every state there must be one, without
/// another disturbance, another caller or the end of another command.
pub fn explore_to_rest(setting: Setting, budget: Budget) -> usize {
    let start = World::new(setting, budget);
    let mut seen = HashMap::from([(hash(&start), 0)]);
    let mut found = Found {
        origins: vec![(0, None)],
        tried: (0, None),
    };
    // For each state, those that settle into it.
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let mut at_rest = vec![0];
    let mut to_do = vec![(start, 0)];
    while let Some((world, from)) = to_do.pop() {
        for event in world.events() {
            found.tried = (from, Some(event));
            let mut next = world.clone();
            next.apply(setting, event);
            let count = u32::try_from(before.len()).unwrap();
            let to = *seen.entry(hash(&next)).or_insert(count);
            if to == count {
                before.push(Vec::new());
                found.origins.push(found.tried);
                next.check();
                if next.is_at_rest(setting) {
                    next.check_rest();
                    at_rest.push(to);
                }
                to_do.push((next, to));
            }
            if world.settles_by(event) {
                before[to as usize].push(from);
            }
        }
    }
    let mut rests = vec![false; before.len()];
    while let Some(state) = at_rest.pop() {
        if !std::mem::replace(&mut rests[state as usize], true) {
            at_rest.append(&mut before[state as usize]);
        }
    }
    if let Some(stuck) = rests.iter().position(|rests| !rests) {
        found.tried = found.origins[stuck];
        panic!("somebody waits, and a slot is free");
    }
    rests.len()
}

/// One order of these events, until nothing more can happen; how many there were.
pub fn explore_at_random(setting: Setting, budget: Budget, random: &mut fastrand::Rng) -> usize {
    let mut world = World::new(setting, budget);
    let mut found = Found {
        origins: vec![(0, None)],
        tried: (0, None),
    };
    while let Some(&event) = random.choice(&world.events()) {
        let state = u32::try_from(found.origins.len()).unwrap() - 1;
        found.tried = (state, Some(event));
        world.apply(setting, event);
        world.check();
        found.origins.push(found.tried);
        assert!(state < 100_000, "no end");
    }
    assert!(world.is_at_rest(setting), "somebody is stuck");
    world.check_rest();
    found.origins.len()
}
