//! Explores the turns of a worker in every order of events, with one job and another worker: answers that are lost before or after the
//! turn was carried out, turns that reach the server much later, a claimer that dies at any moment, a lease that ends while the claimer
//! is silent, a rescue, and a completion that comes too late.
//!
//! Proved: a command runs only as long as its worker has the job, under the fence of its claim, so that no two run at once; a job is done
//! only by the outcome of its latest claim, and once; from everywhere there is a way on which the job is done, and nothing is left claimed
//! of which no coordinator knows.

mod server;
mod world;

use std::panic::catch_unwind;

use crate::lock::explorer::explore_to_rest;
use world::{Broken, Budget, World};

const NONE: Budget = Budget {
    losses: 0,
    late: 0,
    crashes: 0,
    silences: 0,
    later: 0,
};

fn explore(budget: Budget) -> usize {
    explore_to_rest(World::new(budget, None))
}

#[test]
fn every_order_of_lost_answers() {
    let lost = Budget {
        losses: 3,
        later: 2,
        ..NONE
    };
    assert!(explore(lost) > 200);
}

#[test]
fn every_order_of_turns_that_come_late() {
    let late = Budget {
        late: 2,
        losses: 1,
        later: 2,
        ..NONE
    };
    assert!(explore(late) > 1_000);
}

#[test]
fn every_order_of_claimers_that_die() {
    let crashes = Budget {
        crashes: 2,
        losses: 1,
        late: 1,
        later: 1,
        ..NONE
    };
    assert!(explore(crashes) > 1_000);
}

#[test]
fn every_order_of_leases_that_end() {
    let silences = Budget {
        silences: 2,
        crashes: 1,
        losses: 1,
        late: 1,
        later: 2,
    };
    assert!(explore(silences) > 5_000);
}

#[test]
fn what_is_broken_is_found() {
    let budget = Budget {
        silences: 1,
        crashes: 1,
        losses: 1,
        late: 1,
        later: 2,
    };
    for broken in [
        Broken::LateTurnsCount,
        Broken::LostIsNotAsked,
        Broken::UnknownIsKept,
        Broken::NotTakenOver,
        Broken::AskedIsRenewed,
        Broken::RescuedTooSoon,
        Broken::LateCompletionCounts,
    ] {
        let found = catch_unwind(|| explore_to_rest(World::new(budget, Some(broken))));
        assert!(found.is_err(), "{broken:?} is not found");
    }
}
