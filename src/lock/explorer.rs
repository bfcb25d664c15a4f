//! Explores every state that a model's events can lead to, in any order.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};

use rapidhash::quality::SeedableState;

/// A model: one of its states.
pub trait Model: Clone + Hash {
    /// Something that may happen.
    type Event: Copy + Debug;

    /// All events that are possible next.
    fn events(&self) -> Vec<Self::Event>;

    /// Applies an event.
    fn apply(&mut self, event: Self::Event);

    /// Panics unless everything holds that must hold in every state.
    fn check(&self);

    /// Whether the event is not a disturbance. With such events alone everybody must come to rest.
    fn settles_by(&self, event: Self::Event) -> bool;

    /// Whether everybody has what it asked for, as far as possible.
    fn is_at_rest(&self) -> bool;

    /// Panics unless everything holds that must hold at rest.
    fn check_rest(&self);
}

/// The hash of a state, by which it is known again. Most of an exploration is this: that of the standard library would double its time.
pub fn hash(model: &impl Hash) -> u64 {
    SeedableState::fixed().hash_one(model)
}

/// The states that were found, and how they were reached. Shown if a check fails.
struct Exploration<E: Copy + Debug> {
    /// The state and the event that each state came from.
    origins: Vec<(u32, Option<E>)>,
    /// The step that is being tried.
    tried: (u32, Option<E>),
}

impl<E: Copy + Debug> Exploration<E> {
    fn new() -> Self {
        Self {
            origins: vec![(0, None)],
            tried: (0, None),
        }
    }
}

impl<E: Copy + Debug> Drop for Exploration<E> {
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

/// Explores every state, in any order of events. Returns how many there are. From each state the model must be able to come to rest
/// without another disturbance.
pub fn explore_to_rest<M: Model>(start: M) -> usize {
    let mut seen = HashMap::with_hasher(SeedableState::fixed());
    seen.insert(hash(&start), 0);
    let mut found = Exploration::new();
    // For each state, the states that settle into it.
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let mut at_rest = vec![0; usize::from(start.is_at_rest())];
    let mut to_do = vec![(start, 0)];
    while let Some((model, from)) = to_do.pop() {
        for event in model.events() {
            found.tried = (from, Some(event));
            let mut next = model.clone();
            next.apply(event);
            let count = u32::try_from(before.len()).unwrap();
            let to = *seen.entry(hash(&next)).or_insert(count);
            if to == count {
                before.push(Vec::new());
                found.origins.push(found.tried);
                next.check();
                if next.is_at_rest() {
                    next.check_rest();
                    at_rest.push(to);
                }
                to_do.push((next, to));
            }
            if model.settles_by(event) {
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

/// Applies random events until none is possible, or all is at rest. Returns how many there were.
pub fn explore_at_random<M: Model>(mut model: M, random: &mut fastrand::Rng) -> usize {
    let mut found = Exploration::new();
    while let Some(&event) = random.choice(&model.events()) {
        let state = u32::try_from(found.origins.len()).unwrap() - 1;
        found.tried = (state, Some(event));
        model.apply(event);
        model.check();
        found.origins.push(found.tried);
        assert!(state < 100_000, "no end");
    }
    assert!(model.is_at_rest(), "somebody is stuck");
    model.check_rest();
    found.origins.len()
}
