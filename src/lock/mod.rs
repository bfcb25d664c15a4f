//! Locks: their names, how long to wait for one, how long it is held, and by whom. Another kind of lock, also on another kind of server,
//! is a folder beside `named` that implements `Backend`, and a session in `db`.

mod backend;
#[cfg(test)]
pub mod explorer;
mod grace;
mod held_row;
mod holder;
mod introduction;
mod key;
mod killed;
mod lease;
pub mod limits;
mod name;
pub mod named;
pub mod rows;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use backend::{Attempt, Backend, Caller, Nobody, Reattempt, Refusal, Release, Renewal};
pub use grace::Grace;
pub use held_row::{Durable, HeldRow, HolderKind};
pub use holder::{Holder, Holders, MOST_NAMED};
pub use introduction::{Introduction, own_host};
pub use key::Key;
pub use killed::{Freed, KillOutcome, Killed, Victim};
pub use lease::Lease;
pub use name::{
    KILL_ACK, Name, kill_ack_lock, kill_request_lock, new_id, run_id_lock, run_lock_of,
    session_marker_lock, shared_session_lock, wrong_with_name,
};

/// The most slots of a lock.
pub const MOST_SLOTS: u32 = 1000;

/// How long a server keeps the lock of a host that has vanished, by default.
pub const DEFAULT_TTL: Duration = Duration::from_secs(300);
/// The longest TTL that may be set.
pub const LONGEST_TTL: Duration = Duration::from_secs(24 * 3600);

/// How long to wait for a lock, from the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// This long; zero tries once.
    For(Duration),
    /// Without limit.
    Forever,
}

/// What to do when the session, and with it the lock, is lost while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLockLost {
    /// Reacquire it; end the command when that fails.
    Reacquire,
    /// End the command.
    Terminate,
    /// Only log it.
    Ignore,
}

/// A lock to acquire.
#[derive(Debug, Clone)]
pub struct LockSpec {
    /// Its name.
    pub name: Name,
    /// How many may hold it at once: 1 to [`MOST_SLOTS`].
    pub slots: u32,
    /// How long to wait for it.
    pub wait: Wait,
    /// The longest that the server keeps the lock of a host that has vanished, in whole seconds.
    pub ttl: Duration,
    /// What to do when it is lost while the command runs.
    pub on_lost: OnLockLost,
    /// Whether to lock also on a server where the lock may not exclude others.
    pub allow_unfit_server: bool,
}

/// A slot of a lock, held on a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// Which slot, from 0.
    pub slot: u32,
    /// The session's connection id, as the server knows it. Behind a proxy it differs from that of the handshake.
    pub connection_id: u64,
    /// The fence: it grows with each grant of the slot; `None` for a lock that has none.
    pub fence: Option<u64>,
}
