//! Explores the turns of workers in every order of events, against a model of the tables. Packets are carried out before or long after
//! their session is lost, or never. Answers are lost or late, leases end, and jobs are rescued. Claimers die between a claim and its
//! report, and workers die with their commands.
//!
//! Proved, as long as the clocks are right: no two commands run for one job at the same time. A job is done only by a command of the worker
//! that holds it, and only if that has succeeded. No job is lost, or stays unseen below a worker's mark. Its fence grows with each claim.
//! From every state all jobs can become done, with no worker holding one.

mod world;

use std::panic::catch_unwind;

use crate::lock::explorer::{explore_at_random, explore_to_rest};
use world::{Broken, Budget, World};

const NONE: Budget = Budget {
    losses: 0,
    lease_ends: 0,
    expiries: 0,
    claimer_deaths: 0,
    deaths: 0,
    failures: 0,
};

fn explore(budget: Budget) {
    let count = explore_to_rest(World::new(None, budget));
    assert!(count > 200, "the model has stopped moving: {count}");
}

#[test]
fn every_order_of_lost_answers() {
    explore(Budget { losses: 2, ..NONE });
    explore(Budget {
        losses: 1,
        failures: 1,
        ..NONE
    });
}

#[test]
fn every_order_of_leases_that_end() {
    explore(Budget {
        lease_ends: 2,
        expiries: 2,
        ..NONE
    });
    explore(Budget {
        losses: 1,
        lease_ends: 1,
        expiries: 1,
        ..NONE
    });
}

#[test]
fn every_order_of_deaths() {
    explore(Budget {
        claimer_deaths: 1,
        losses: 1,
        ..NONE
    });
    explore(Budget {
        deaths: 1,
        losses: 1,
        ..NONE
    });
    explore(Budget {
        claimer_deaths: 1,
        lease_ends: 1,
        expiries: 1,
        ..NONE
    });
}

#[test]
fn random_orders_of_everything() {
    let mut steps = 0;
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut few = || random.u8(0..4);
        let budget = Budget {
            losses: few(),
            lease_ends: few(),
            expiries: few(),
            claimer_deaths: few(),
            deaths: few() / 3,
            failures: few(),
        };
        steps += explore_at_random(World::new(None, budget), &mut random);
    }
    assert!(steps > 200_000, "the model has stopped moving: {steps}");
}

/// Without any one of these rules something goes wrong, and the model shows it.
#[test]
fn every_rule_is_needed() {
    let lost = Budget { losses: 1, ..NONE };
    let expires = Budget {
        lease_ends: 2,
        expiries: 2,
        losses: 1,
        ..NONE
    };
    let dies = Budget {
        claimer_deaths: 1,
        ..NONE
    };
    for (broken, budget) in [
        (
            Broken::TurnsWithoutCondition,
            Budget {
                losses: 2,
                failures: 1,
                ..NONE
            },
        ),
        (Broken::BelievesLostAsDone, lost),
        (Broken::CountsFromAnswer, expires),
        (Broken::CountsLooks, expires),
        (Broken::HandsInByJobAlone, expires),
        (
            Broken::HandsInByJobAlone,
            Budget {
                claimer_deaths: 1,
                failures: 1,
                ..NONE
            },
        ),
        (Broken::RescuesTheLiving, NONE),
        (Broken::LeavesTheRescued, expires),
        (Broken::ForgetsUnknownClaims, dies),
        (Broken::KeepsTheNumber, dies),
        (Broken::RunsOn, expires),
        (
            Broken::NeverLooksBelow,
            Budget {
                failures: 2,
                ..NONE
            },
        ),
    ] {
        let found = catch_unwind(|| explore_to_rest(World::new(Some(broken), budget)));
        assert!(found.is_err(), "{broken:?}: nothing went wrong");
    }
}
