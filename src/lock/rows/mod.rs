//! A lock kept as a row with owner, fence and expiry, by the server's clock. The row decides who holds the lock. It survives its session,
//! the server's restart and a fail-over, and counts on every server that commits rows for all. The named lock of the same name is only
//! the queue for the row, and keeps callers without rows out.

mod acquire;
mod attempts;
mod change;
mod claim;
mod clock;
mod hold;
mod holding;
mod inspect;
mod kill;
#[cfg(test)]
mod model;
mod prepare;
mod probe;
mod row_lock;
mod sharing;
mod state;
mod statements;
mod step;
mod together;
mod token;
mod token_end;

pub use clock::{Clock, disagreement};
pub use inspect::Rows;
pub use kill::RowKilling;
pub use probe::{RowProbe, TablesFound, clock_of};
pub use row_lock::{CLAIM_LIMIT, RowLock, RowSpec};
pub use sharing::{SharedServer, Tried, announce_all, ask_kills, renew_all};
pub use together::{acquire_together, release_together};
pub use token::{Token, owner_of};
pub use token_end::{RecordTokenEnd, TokenEnd};
