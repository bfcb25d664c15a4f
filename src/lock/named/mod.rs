//! A lock kept by `GET_LOCK`: as long as its session lives.

mod census;
mod fitness;
mod inspect;
mod kill;
#[cfg(test)]
mod model;
mod probe;
mod queue;
mod request;
mod statements;

pub use census::{Census, Found, Holding, Waiter};
pub use fitness::{READ_ONLY, Unfit};
pub use inspect::{Inspector, reach};
pub use kill::{KillOutcome, Killed, Killing, Victim};
pub use probe::{Exclusion, Probe, Reached, await_waiter, end_session, exclusion};
pub use request::{Again, Killer, Opening, Outcome, Request, Tells};
