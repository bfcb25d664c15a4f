//! Which parts of dblock work on which kind of server. A command is refused right after its settings are read, before it connects.

use crate::base::exit::{Failure, Reason};
use crate::db::Kind;

/// Refuses `dblock queue` on servers of a kind on which it does not work.
///
/// # Errors
/// [`Reason::Configuration`].
pub fn check_queues(kind: Kind) -> Result<(), Failure> {
    match kind {
        Kind::MySql => Ok(()),
        Kind::Postgres => {
            let line = "dblock queue works on MySQL and MariaDB, and not yet on PostgreSQL";
            Err(Failure::new(Reason::Configuration, line))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_refused_on_postgresql() {
        assert!(check_queues(Kind::MySql).is_ok());
        let failure = check_queues(Kind::Postgres).unwrap_err();
        assert_eq!(failure.reason.code(), 78);
        assert_eq!(
            failure.line,
            "dblock queue works on MySQL and MariaDB, and not yet on PostgreSQL"
        );
    }
}
