//! A lock held by `GET_LOCK`, for as long as its session lives.

mod acknowledging;
mod acquire;
mod census;
mod fitness;
mod hold;
mod inspect;
mod kill;
mod killer;
mod line;
#[cfg(test)]
mod model;
mod named_lock;
mod own_killers;
mod probe;
mod queue;
mod reacquire;
mod releasing;
mod request;
mod retaking;
mod starting;
mod statements;

pub use acquire::{Decision, First, FirstAnswer, Opening, Turns, Waited};
pub use census::{Census, CensusItem, Holding, Reported, Waiter};
pub use fitness::{Unfit, follow, number_of_shared, unpooled_number};
pub use inspect::{Inspector, reach};
pub use kill::Killing;
pub use named_lock::{HOLD_BACK, NamedLock};
pub use own_killers::OwnKillers;
pub use probe::{
    CHECKED, Exclusion, Probe, Reached, await_waiter, can_wait, end_session, exclusion,
};
pub use reacquire::Retake;
pub use request::{Request, Verbosity};
pub use statements::{postgres_held_keys, take_locks_now, try_slots};
