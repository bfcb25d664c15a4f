//! Would a lock here exclude? What a server says of itself in the answer that takes the lock, and what follows from it.

use std::time::Duration;

use mysql::Row;

use super::cell;

/// The shortest time for which a session must be kept: whole seconds, room for a heartbeat and for the command's end.
const SHORTEST_IDLE_LIMIT: Duration = Duration::from_secs(4);

/// What was read of a server.
#[derive(Debug, PartialEq, Eq)]
pub struct Fitness {
    /// How long the server keeps the session when it says nothing.
    pub idle_limit: Duration,
    /// Why a lock here would not exclude, and what to do about it; `None` if it would.
    pub unfit: Option<String>,
}

impl Fitness {
    /// Reads the columns from the `first` one on: who has the mark of `session`, and the variables `wait_timeout`,
    /// `version_comment` and, on MariaDB, `wsrep_on`. The time that was `asked` for is that of `wait_timeout`. What the
    /// server does not tell is not held against it.
    pub fn read(row: &Row, first: usize, session: u64, asked: Duration) -> Self {
        let mark: Option<u64> = cell(row, first);
        let idle_limit = cell(row, first + 1).map_or(asked, Duration::from_secs);
        let comment: String = cell(row, first + 2).unwrap_or_default();
        let comment = comment.to_lowercase();
        let is_galera = is_on(row, first + 3)
            || ["wsrep", "galera", "xtradb cluster"]
                .iter()
                .any(|word| comment.contains(word));
        let unfit = if is_galera {
            Some(
                "is a Galera node: named locks are its own, and another node gives the same lock to another host; use a \
                 server outside the cluster"
                    .to_owned(),
            )
        } else if idle_limit > asked {
            Some(format!(
                "does not keep what is set for a session (wait_timeout is {} and not {}): something in between seems to share \
                 sessions, and no lock would stay; connect to the server itself",
                idle_limit.as_secs(),
                asked.as_secs()
            ))
        } else if mark.is_none() {
            Some(
                "keeps one named lock only for each session, as MySQL before 5.7.5 and MariaDB before 10.0.2 do; use a newer \
                 server"
                    .to_owned(),
            )
        } else if mark != Some(session) {
            Some(NOT_KEPT.to_owned())
        } else if idle_limit < SHORTEST_IDLE_LIMIT {
            Some(format!(
                "ends a session after {} s without a statement; no less than 4 s will do, see its wait_timeout",
                idle_limit.as_secs()
            ))
        } else {
            None
        };
        Self { idle_limit, unfit }
    }
}

/// Why a server is unfit where two statements of one connection meet different sessions.
pub const NOT_KEPT: &str = "answers two statements from different sessions: something in between shares them, and no lock \
                            would stay; connect to the server itself";

/// Why one is that takes no writes.
pub const READ_ONLY: &str =
    "is read-only, as a replica is: a lock there meets nobody; name the server that takes writes";

/// Whether one of the columns that tell so says that the server takes no writes.
pub fn is_read_only(row: &Row, columns: [usize; 2]) -> bool {
    columns.into_iter().any(|column| is_on(row, column))
}

/// A variable that is a number on most servers and a word on some.
fn is_on(row: &Row, column: usize) -> bool {
    let value: Option<String> = cell(row, column);
    value.is_some_and(|value| !matches!(&*value.to_ascii_uppercase(), "" | "0" | "OFF"))
}
