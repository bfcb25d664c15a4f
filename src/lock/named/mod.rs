//! A lock kept by `GET_LOCK`: as long as its session lives.

mod acquire;
mod backend;
mod census;
mod fitness;
mod hold;
mod inspect;
mod kill;
#[cfg(test)]
mod model;
mod queue;
mod reacquire;
mod request;
mod retaking;
mod statements;

pub use acquire::Opening;
pub use backend::NamedLock;
pub use census::{Census, Found, Holding, Waiter};
pub use fitness::{READ_ONLY, Unfit};
pub use inspect::{Inspector, reach};
pub use kill::{Done, Killing};
pub use request::{Request, Verbosity};
