//! Steps the machines of a named lock (`queue`, `starting`, `retaking`, `releasing`, `acknowledging`, `killer`) in every order of events,
//! against a model of the servers: other sessions' steps
//! between any two steps of a statement, `KILL QUERY` at every moment, crashes, cut networks, waits that end, lost sessions, and killers
//! of holders.

mod callers;
mod explorer;
mod holders;
mod killer;
mod locks;
mod state;
mod world;

use explorer::{explore, explore_at_random, explore_to_rest};
use locks::{MOST_CALLERS, MOST_SLOTS};
use state::{Budget, OnLoss, Server, Setting, World};

fn every_order_of_events(server: Server) {
    let none = Budget::default();
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
            reopens: false,
            checks_kills: true,
            on_loss: OnLoss::Reacquires,
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

fn every_order_of_losses(server: Server) {
    let none = Budget::default();
    let lost = Budget { losses: 1, ..none };
    let cut_off = Budget { ghosts: 1, ..none };
    let killed = Budget {
        killers: 1,
        killer_deaths: 1,
        ..none
    };
    let reacquires = OnLoss::Reacquires;
    for (slots, callers, impatient, checks_kills, on_loss, budget) in [
        (1, 2, 0, true, reacquires, lost),
        (1, 2, 0, true, reacquires, cut_off),
        (1, 2, 0, true, reacquires, killed),
        (1, 2, 1, true, reacquires, cut_off),
        (1, 2, 1, true, reacquires, killed),
        (1, 2, 1, false, reacquires, killed),
        (2, 2, 0, true, reacquires, cut_off),
        (2, 2, 1, true, reacquires, killed),
        (2, 2, 1, false, reacquires, killed),
        (1, 2, 0, true, OnLoss::Announces, cut_off),
        (1, 2, 1, true, OnLoss::Announces, killed),
        (1, 2, 1, true, OnLoss::Stops, killed),
    ] {
        let setting = Setting {
            server,
            slots,
            callers,
            impatient,
            alone: 0,
            wakes: true,
            reopens: true,
            checks_kills,
            on_loss,
        };
        let count = explore_to_rest(setting, budget);
        assert!(count > 10_000, "the model has stopped moving");
    }
}

#[test]
fn every_order_of_losses_on_mariadb() {
    every_order_of_losses(Server::MariaDb);
}

#[test]
fn every_order_of_losses_on_mysql() {
    every_order_of_losses(Server::MySql);
}

/// The killer may mean a later holder than the one that lost its session.
#[test]
fn every_order_of_a_loss_and_a_kill() {
    let setting = Setting {
        // Nobody is woken, so the servers do not differ.
        server: Server::MySql,
        slots: 1,
        callers: 2,
        impatient: 1,
        alone: 0,
        wakes: false,
        reopens: true,
        checks_kills: true,
        on_loss: OnLoss::Reacquires,
    };
    let budget = Budget {
        losses: 1,
        killers: 1,
        ..Budget::default()
    };
    let count = explore_to_rest(setting, budget);
    assert!(count > 10_000, "the model has stopped moving");
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
            reopens: false,
            checks_kills: true,
            on_loss: OnLoss::Reacquires,
        };
        let budget = Budget {
            kills: random.u8(0..6),
            crashes: random.u8(0..3),
            cuts: random.u8(0..3),
            late: random.u8(0..3),
            ..Budget::default()
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
        world.check_that_all_are_done(setting, seed);
    }
}

#[test]
fn random_orders_of_losses_for_larger_numbers() {
    let mut steps = 0;
    for seed in 0..60_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let callers = random.usize(2..=4);
        let setting = Setting {
            server: *random.choice(&[Server::MariaDb, Server::MySql]).unwrap(),
            slots: random.usize(1..=2),
            callers,
            impatient: random.usize(0..callers),
            alone: random.usize(0..2),
            wakes: random.bool(),
            reopens: true,
            checks_kills: random.bool(),
            on_loss: *random
                .choice(&[OnLoss::Reacquires, OnLoss::Announces, OnLoss::Stops])
                .unwrap(),
        };
        let budget = Budget {
            kills: random.u8(0..3),
            late: random.u8(0..3),
            losses: random.u8(0..3),
            ghosts: random.u8(0..3),
            killers: random.u8(0..2),
            killer_deaths: random.u8(0..2),
            ..Budget::default()
        };
        steps += explore_at_random(setting, budget, &mut random);
    }
    assert!(steps > 3_000_000, "the model has stopped moving: {steps}");
}
