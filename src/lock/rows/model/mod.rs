//! Steps the machines of `claim` and `holding` through every order of events, against a model of the rows: writes that are carried out
//! before or after their session is lost, and much later; late or lost answers; conflicting writes; hosts that sleep, vanish or give up;
//! `dblock kill`; grants that expire. If a keeper dies while its command runs, that is a lost session: the next keeper continues with the
//! same grant.
//!
//! Proved, as long as the clocks are right: no two commands run in one slot. A command runs only while its row is its own; if an operator
//! or a script has given its slot away, it may run until its next renewal. Each command's fence is greater than those before. What was
//! only read never counts as held, and nothing free as taken. A held grant never counts as lost, nor does an own release, and an ended
//! grant is never renewed. A renewal notices a kill. A caller that has released, given up or waits holds nothing, except by a write that
//! was carried out after its session was lost. From every state all can end, with all rows free or expired. Not included: the queue of
//! named locks, apart from its grants.

mod callers;
mod server;
mod state;
mod world;

use std::panic::catch_unwind;

use crate::lock::explorer::{explore_at_random, explore_to_rest};
use state::{Broken, Budget, MOST_CALLERS, MOST_SLOTS, Setting, World};

const NONE: Budget = Budget {
    slow: 0,
    losses: 0,
    conflicts: 0,
    misses: 0,
    crashes: 0,
    give_ups: 0,
    sleeps: 0,
    kills: 0,
    forced: 0,
    shortened: 0,
};

const ONE_SLOT: Setting = Setting {
    slots: 1,
    callers: 2,
    impatient: 0,
    scripts: 0,
    named: false,
    queued: false,
    broken: None,
};

const QUEUED: Setting = Setting {
    queued: true,
    ..ONE_SLOT
};

const TWO_SLOTS: Setting = Setting {
    slots: 2,
    ..ONE_SLOT
};

const SCRIPT: Setting = Setting {
    scripts: 1,
    ..ONE_SLOT
};

/// Two scripts with the same owner name.
const SAME_OWNER: Setting = Setting {
    impatient: 2,
    scripts: 2,
    named: true,
    ..ONE_SLOT
};

const THREE: Setting = Setting {
    callers: 3,
    ..ONE_SLOT
};

fn explore(settings: &[Setting], budget: Budget) {
    for &setting in settings {
        let count = explore_to_rest(World::new(setting, budget));
        assert!(count > 2_000, "the model has stopped moving: {count}");
    }
}

#[test]
fn every_order_of_lost_answers() {
    let lost = Budget { losses: 2, ..NONE };
    explore(&[ONE_SLOT, SCRIPT], lost);
    let late = Budget {
        losses: 1,
        slow: 1,
        ..NONE
    };
    explore(&[ONE_SLOT, SCRIPT, TWO_SLOTS], late);
}

#[test]
fn every_order_of_scripts_of_one_owner() {
    explore(&[SAME_OWNER], Budget { losses: 1, ..NONE });
    explore(&[SAME_OWNER], Budget { slow: 1, ..NONE });
    let killed = Budget {
        kills: 1,
        forced: 1,
        ..NONE
    };
    explore(&[SAME_OWNER], killed);
}

#[test]
fn every_order_of_writes_that_meet_others() {
    let cluster = Budget {
        losses: 1,
        conflicts: 1,
        misses: 1,
        ..NONE
    };
    explore(&[ONE_SLOT, SCRIPT], cluster);
    let given_up = Budget {
        losses: 1,
        misses: 1,
        give_ups: 1,
        ..NONE
    };
    explore(&[ONE_SLOT], given_up);
}

/// A grant of the queue excludes others, but may be one that the server had already ended.
#[test]
fn every_order_of_grants_of_a_queue() {
    let gone = Budget {
        losses: 1,
        conflicts: 1,
        give_ups: 1,
        ..NONE
    };
    explore(&[QUEUED], gone);
}

#[test]
fn every_order_of_sleep() {
    let sleeps = Budget {
        losses: 1,
        sleeps: 1,
        ..NONE
    };
    explore(&[ONE_SLOT, SCRIPT], sleeps);
    let slowly = Budget {
        slow: 1,
        sleeps: 1,
        ..NONE
    };
    explore(&[ONE_SLOT], slowly);
}

#[test]
fn every_order_of_ends() {
    let gone = Budget {
        losses: 1,
        crashes: 1,
        give_ups: 1,
        conflicts: 1,
        ..NONE
    };
    explore(&[ONE_SLOT], gone);
    let killed = Budget {
        losses: 1,
        kills: 1,
        forced: 1,
        ..NONE
    };
    explore(&[ONE_SLOT], killed);
    let script = Budget {
        slow: 1,
        kills: 1,
        forced: 1,
        shortened: 1,
        ..NONE
    };
    explore(&[SCRIPT], script);
}

#[test]
fn every_order_of_three_callers() {
    explore(&[THREE], NONE);
    explore(&[THREE], Budget { losses: 1, ..NONE });
}

#[test]
fn random_orders_for_larger_numbers() {
    let mut steps = 0;
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let callers = random.usize(2..=MOST_CALLERS);
        let named = random.bool();
        let setting = Setting {
            slots: random.usize(1..=MOST_SLOTS),
            callers,
            impatient: if named {
                callers
            } else {
                random.usize(0..callers)
            },
            scripts: random.usize(0..=callers),
            named,
            queued: false,
            broken: None,
        };
        let mut few = || random.u8(0..4);
        let budget = Budget {
            slow: few(),
            losses: few(),
            conflicts: few(),
            misses: few(),
            crashes: few(),
            give_ups: few(),
            sleeps: few(),
            kills: few(),
            forced: few(),
            shortened: few(),
        };
        steps += explore_at_random(World::new(setting, budget), &mut random);
    }
    assert!(steps > 600_000, "the model has stopped moving: {steps}");
}

/// The rules, each with what goes wrong without it.
fn rules() -> [(Broken, Setting, Budget, &'static str); 13] {
    let slow = Budget { slow: 1, ..NONE };
    let lost = Budget { losses: 1, ..NONE };
    let forced = Budget { forced: 1, ..lost };
    let unheld = "a command runs without its slot";
    [
        (
            Broken::TakesUnexpired,
            ONE_SLOT,
            Budget { sleeps: 1, ..NONE },
            unheld,
        ),
        (
            Broken::TakesExpiredWithoutFence,
            ONE_SLOT,
            Budget {
                crashes: 1,
                sleeps: 1,
                ..lost
            },
            "a slot is granted to its holder",
        ),
        (
            Broken::TakesOverByName,
            SAME_OWNER,
            lost,
            "a slot is granted to its holder",
        ),
        (
            Broken::RenewsByOwner,
            ONE_SLOT,
            forced,
            "another grant is renewed",
        ),
        (
            Broken::ReleasesByOwner,
            ONE_SLOT,
            forced,
            "a release ends another grant",
        ),
        (
            Broken::LooksAfterRelease,
            ONE_SLOT,
            slow,
            "a release is not believed",
        ),
        (
            Broken::BelievesUnchanged,
            ONE_SLOT,
            Budget { misses: 1, ..NONE },
            "a slot is held for nobody",
        ),
        (
            Broken::ShortensUnderCommand,
            SCRIPT,
            Budget {
                shortened: 1,
                ..NONE
            },
            unheld,
        ),
        (
            Broken::ReadsThePast,
            ONE_SLOT,
            Budget { misses: 1, ..NONE },
            "is held",
        ),
        (Broken::CountsFromAnswer, ONE_SLOT, slow, unheld),
        (
            Broken::BelievesLostAsUndone,
            ONE_SLOT,
            Budget {
                give_ups: 1,
                ..lost
            },
            "a slot is held for nobody",
        ),
        (
            Broken::BelievesLostAsDone,
            ONE_SLOT,
            lost,
            "a slot is held for nobody",
        ),
        (
            Broken::WaitsWithAClaim,
            ONE_SLOT,
            Budget {
                conflicts: 1,
                ..NONE
            },
            "who waits cannot be ended at once",
        ),
    ]
}

/// Without any one of the rules something goes wrong, and the model shows it.
#[test]
fn every_rule_is_needed() {
    for (broken, setting, budget, what) in rules() {
        let broken = Some(broken);
        let world = World::new(Setting { broken, ..setting }, budget);
        let found = catch_unwind(|| explore_to_rest(world)).expect_err("nothing went wrong");
        let text = found.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| found.downcast_ref::<&str>().copied());
        assert!(
            text.is_some_and(|text| text.contains(what)),
            "{broken:?}: {text:?}"
        );
    }
}
