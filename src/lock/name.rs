//! Lock names: which ones dblock accepts, and what they are called on the server.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};
use uuid::Builder;

use super::key::Key;
use crate::base::exit::Failure;
use crate::base::random;

/// The most bytes of a name.
const LONGEST_NAME: usize = 200;

/// The most bytes of a name that is used on the server as it is. The server allows 64 characters; eight are left for suffixes.
const LONGEST_PLAIN_NAME: usize = 56;

/// The bytes of a longer name that are kept on the server, before `~` and the digits of its hash.
const LONGEST_HEAD: usize = 31;

/// The hex digits of the SHA-256 of a longer name.
const HASH_DIGITS: usize = 24;

/// A lock's name: 1 to 200 bytes of UTF-8, without control characters, `#`, or white space at either end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    text: String,
    /// The key that the lock has on PostgreSQL instead of one that is made of the name.
    key: Option<Key>,
}

impl Name {
    /// Checks a name. The error ends a sentence that begins with the name.
    pub fn parse(name: &str) -> Result<Self, &'static str> {
        if name.len() <= LONGEST_NAME && name.contains('#') {
            return Err("contains #, which is kept for slots");
        }
        match wrong_with_name(name) {
            Some(wrong) => Err(wrong),
            None => Ok(Self {
                text: name.to_owned(),
                key: None,
            }),
        }
    }

    /// The same name for the lock with this key.
    pub fn with_key(self, key: Option<Key>) -> Self {
        Self { key, ..self }
    }

    /// The key of the lock on PostgreSQL; `None`: it is made of the name.
    pub fn key(&self) -> Option<Key> {
        self.key
    }

    /// The name of the lock on the server. Up to 56 bytes it is the name itself, so any program's `GET_LOCK('name', …)` asks for the same
    /// lock. A longer one is cut at a character, and ends in a hash of the whole.
    pub fn on_server(&self) -> String {
        if let Some(key) = self.key {
            return key.on_server();
        }
        let name = &self.text;
        if name.len() <= LONGEST_PLAIN_NAME {
            return name.clone();
        }
        let cut = (0..=LONGEST_HEAD)
            .rfind(|&at| name.is_char_boundary(at))
            .unwrap_or(0);
        let head = &name[..cut];
        let hash = format!("{:x}", Sha256::digest(name));
        format!("{head}~{}", &hash[..HASH_DIGITS])
    }

    /// The name of a slot's lock on the server, from 0. Slot 0 has the lock's own name.
    pub fn slot_on_server(&self, slot: u32) -> String {
        match slot {
            0 => self.on_server(),
            _ => format!("{}#{slot}", self.on_server()),
        }
    }

    /// The name on the server of the lock that the head of the queue for the slots holds.
    pub fn queue_head_on_server(&self) -> String {
        format!("{}#wait", self.on_server())
    }

    /// The name on the server of the lock that the killer of a slot's holder holds (`dblock kill`).
    pub fn kill_on_server(&self, slot: u32) -> String {
        format!("{}#kill{slot}", self.on_server())
    }

    /// The name on the server of the lock that a killed holder of a slot holds while it ends its command.
    pub fn termination_on_server(&self, slot: u32) -> String {
        format!("{}#end{slot}", self.on_server())
    }

    /// The name on the server of the lock that the holder of a lost slot holds while it reacquires the slot.
    pub fn reacquire_on_server(&self, slot: u32) -> String {
        format!("{}#back{slot}", self.on_server())
    }
}

/// The name on the server of the lock by which a session with this connection id shows that it is dblock's.
pub fn session_marker_lock(connection: u64) -> String {
    format!("#{connection}")
}

/// The name on the server of the lock by which a session with this connection id shows that it holds the locks of several commands. Whoever
/// ends one of them must not end that session.
pub fn shared_session_lock(connection: u64) -> String {
    format!("#shared{connection}")
}

/// The name on the server of the lock that the killer of this session holds. It says which holder of a slot is meant; and a waiter, which
/// has no slot, finds it, too.
pub fn kill_request_lock(connection: u64) -> String {
    format!("#kill{connection}")
}

/// What the name of a [`kill_ack_lock`] begins with.
pub const KILL_ACK: &str = "#gone";

/// The name on the server of the lock by which a killed holder tells its killer, the session with this id, that its command has ended. One
/// with the id of its own session tells that to whoever came when its killer was gone.
pub fn kill_ack_lock(connection: u64) -> String {
    format!("{KILL_ACK}{connection}")
}

/// The name on the server of a lock that only the sessions of one run hold, one after the other: `#` and a [`new_id`]. No name of a
/// user's lock has a `#`.
///
/// # Errors
/// As [`random::fill`].
pub fn run_id_lock() -> Result<String, Failure> {
    Ok(run_lock_of(&new_id()?))
}

/// 32 hex digits that nobody has chosen before: a UUID of version 7 (RFC 9562). It begins with the time by this host's clock, so new rows
/// of a table with this key are beside each other.
///
/// # Errors
/// As [`run_id_lock`].
pub fn new_id() -> Result<String, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.unwrap_or_default().as_millis().try_into();
    let mut bits = [0; 10];
    random::fill(&mut bits)?;
    let id = Builder::from_unix_timestamp_millis(millis.unwrap_or_default(), &bits).into_uuid();
    Ok(id.simple().to_string())
}

/// The name on the server of the lock that the sessions of this run hold. The id is 32 hex digits, and is the owner in the run's rows,
/// too.
pub fn run_lock_of(id: &str) -> String {
    format!("#{id}")
}

/// What is wrong with a name, also one that is no lock's; `None`: nothing. Ends a sentence that begins with the name.
pub fn wrong_with_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("is empty"),
        _ if name.len() > LONGEST_NAME => Some("is longer than 200 bytes"),
        _ if name.contains(char::is_control) => Some("contains a control character"),
        _ if name.trim() != name => Some("begins or ends with white space"),
        _ => None,
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LONGEST_NAME, LONGEST_PLAIN_NAME, Name, new_id};

    proptest! {
        #[test]
        fn any_name_has_its_own_short_name_on_the_server(one in ".{1,210}", other in ".{1,210}") {
            let names = [&one, &other].map(|name| Name::parse(name));
            for (text, name) in [&one, &other].into_iter().zip(&names) {
                let Ok(name) = name else { continue };
                prop_assert!(text.len() <= LONGEST_NAME && !text.contains('#'));
                let on_server = name.on_server();
                prop_assert!(on_server.len() <= LONGEST_PLAIN_NAME && !on_server.contains('#'));
                prop_assert_eq!(&on_server == text, text.len() <= LONGEST_PLAIN_NAME);
                prop_assert!(name.reacquire_on_server(999).len() <= 64 && name.kill_on_server(999).len() <= 64);
            }
            if let [Ok(one), Ok(other)] = names {
                prop_assert_eq!(one == other, one.on_server() == other.on_server());
            }
        }
    }

    #[test]
    fn a_newer_id_sorts_behind_and_is_not_to_be_guessed() {
        let [one, other] = [new_id().unwrap(), new_id().unwrap()];
        let is_id = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(is_id(&one) && is_id(&other) && one[..12] <= other[..12]);
        assert_ne!(one[13..], other[13..]);
    }

    fn on_server(name: &str) -> String {
        Name::parse(name).unwrap().on_server()
    }

    #[test]
    fn a_name_of_56_bytes_stands_as_it_is_and_one_of_57_is_hashed() {
        let plain = "n".repeat(56);
        assert_eq!(on_server(&plain), plain);
        // The digits are those of: printf 'n%.0s' $(seq 57) | sha256sum
        let hashed = on_server(&"n".repeat(57));
        assert_eq!(
            hashed,
            format!("{}~804de3e938085bdf19666277", "n".repeat(31))
        );
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        // 30 bytes, then a character of two: it would end at byte 32.
        let name = format!("{}é{}", "n".repeat(30), "x".repeat(40));
        assert!(on_server(&name).starts_with(&format!("{}~", "n".repeat(30))));
        assert!(on_server(&name).len() <= 56);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for wrong in [
            "",
            " a",
            "a ",
            "a#1",
            "a\nb",
            "a\u{9b}b",
            "\u{3000}a",
            &"x".repeat(201),
        ] {
            assert!(Name::parse(wrong).is_err(), "{wrong:?}");
        }
        for right in ["a", "a b", "é", "-x", "a'b\\c", &"x".repeat(200)] {
            assert!(Name::parse(right).is_ok(), "{right:?}");
        }
    }
}
