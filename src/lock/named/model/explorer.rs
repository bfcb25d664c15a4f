//! The model for the explorer, and the exploration of the queue alone.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use rapidhash::quality::SeedableState;

use super::state::{Budget, Setting, World};
use super::world::Event;
use crate::lock::explorer::{self, Model, hash};

/// A state, with the fixed setting.
#[derive(Clone)]
struct Explored(Setting, World);

impl Hash for Explored {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.1.hash(hasher);
    }
}

impl Model for Explored {
    type Event = Event;

    fn events(&self) -> Vec<Event> {
        self.1.events()
    }

    fn apply(&mut self, event: Event) {
        self.1.apply(self.0, event);
    }

    fn check(&self) {
        self.1.check();
    }

    fn settles_by(&self, event: Event) -> bool {
        self.1.settles_by(event)
    }

    fn is_at_rest(&self) -> bool {
        self.1.is_at_rest(self.0)
    }

    fn check_rest(&self) {
        self.1.check_rest();
    }
}

/// Explores every state that these events can lead to, in any order. Returns how many there are.
pub fn explore(setting: Setting, budget: Budget) -> usize {
    let start = World::new(setting, budget);
    let mut seen = HashSet::with_hasher(SeedableState::fixed());
    seen.insert(hash(&start));
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

/// As [`explore`], for events after which there may be several states of rest. From every state one must be reachable without another
/// disturbance, another caller, or the end of another command.
pub fn explore_to_rest(setting: Setting, budget: Budget) -> usize {
    explorer::explore_to_rest(Explored(setting, World::new(setting, budget)))
}

/// Applies random events until none is possible. Returns how many there were.
pub fn explore_at_random(setting: Setting, budget: Budget, random: &mut fastrand::Rng) -> usize {
    explorer::explore_at_random(Explored(setting, World::new(setting, budget)), random)
}
