//! Wakes an idle worker: it holds a named lock of its queue, and the statement in which it sleeps is interrupted.

use sha2::{Digest, Sha256};

use crate::base::text::cut_to_bytes;
use crate::db::{Ask, Fault, Session, text_literal};
use crate::lock::Name;
use crate::schema::Tables;

/// Follows the queue's name in the lock's name, before the digits for the database.
const SUFFIX: &str = "#idle~";

/// How many hex digits of the SHA-256 stand for the database.
const DATABASE_DIGITS: usize = 8;

/// Most characters in a lock's name.
const LONGEST_LOCK_NAME: usize = 64;

/// How many hex digits of the SHA-256 stand for a queue whose name cannot be used directly.
const NAME_DIGITS: usize = 24;

/// The server's name of the lock that the head of the idle workers holds, with at most 64 bytes. The queue's tables are in this database;
/// all databases of a server share its named locks.
pub fn wake_lock(tables_database: &str, queue: &str) -> String {
    let room = LONGEST_LOCK_NAME - SUFFIX.len() - DATABASE_DIGITS;
    let on_server = Name::parse(queue).map(|name| name.on_server());
    // MySQL refuses characters above U+FFFF in lock names.
    let is_wide = |c: char| c.len_utf16() > 1;
    let name = match on_server {
        Ok(name) if name.len() <= room && !name.contains(is_wide) => name,
        _ => {
            let narrow: String = queue.chars().filter(|c| !is_wide(*c)).collect();
            let head = cut_to_bytes(&narrow, room - 1 - NAME_DIGITS);
            format!("{head}~{}", digits(queue, NAME_DIGITS))
        }
    };
    format!("{name}{SUFFIX}{}", digits(tables_database, DATABASE_DIGITS))
}

fn digits(text: &str, number: usize) -> String {
    let mut hash = format!("{:x}", Sha256::digest(text));
    hash.truncate(number);
    hash
}

/// The statement that wakes one idle worker. It fails if nobody is idle, or if the account may not interrupt others. So it must be the last
/// of its packet, and its failure is ignored.
pub fn wake(tables_database: &str, queue: &str) -> String {
    let lock = text_literal(&wake_lock(tables_database, queue));
    format!("/* dblock queue wake */ KILL QUERY IS_USED_LOCK({lock})")
}

/// Wakes an idle worker, if there is one.
///
/// # Errors
/// The session must be dropped.
pub(super) fn wake_one(name: &str, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
    let woken = session.try_run(&Ask::written(wake(tables.name(), name)))?;
    // The server refuses this if nobody is idle, or if the account may not wake the worker.
    let _ = woken;
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_lock_of_any_queue_has_a_short_name_of_its_own(one in ".{1,70}", other in ".{1,70}") {
            let locks = [&one, &other].map(|queue| wake_lock("dblock", queue));
            for lock in &locks {
                prop_assert!(lock.len() <= LONGEST_LOCK_NAME && lock.contains(SUFFIX));
                prop_assert!(lock.chars().all(|c| c.len_utf16() == 1));
            }
            prop_assert_eq!(one == other, locks[0] == locks[1]);
        }
    }

    #[test]
    fn the_name_stands_in_it_where_there_is_room() {
        // To compute the digits: printf dblock | sha256sum
        assert_eq!(wake_lock("dblock", "mails"), "mails#idle~859b97c7");
        assert_ne!(wake_lock("dblock", "mails"), wake_lock("other", "mails"));
        let long = wake_lock("dblock", &"n".repeat(51));
        assert!(
            long.starts_with(&format!("{}~", "n".repeat(25))) && long.len() == LONGEST_LOCK_NAME,
            "{long}"
        );
    }
}
