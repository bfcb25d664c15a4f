//! The key of a lock on PostgreSQL, whose advisory locks have numbers.

use std::fmt;

use sha2::{Digest, Sha256};

/// In front of the name of a lock on the server that is known by its key. No name begins with it.
const BY_KEY: char = '\u{1}';

/// The key of an advisory lock. Keys of one number and of two are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// A `bigint`.
    One(i64),
    /// Two `int4`.
    Two(i32, i32),
}

impl Key {
    /// Reads `N` or `A,B`. The error says what a key is.
    ///
    /// # Errors
    /// It is neither, or too large.
    pub fn parse(text: &str) -> Result<Self, String> {
        let key = match text.split_once(',') {
            None => text.parse().ok().map(Self::One),
            Some((one, two)) => one
                .parse()
                .ok()
                .zip(two.parse().ok())
                .map(|(one, two)| Self::Two(one, two)),
        };
        key.ok_or_else(|| "a key is a whole number of 64 bits, or two of 32 bits: A,B".to_owned())
    }

    /// The name on the server of the lock with this key.
    pub fn on_server(self) -> String {
        format!("{BY_KEY}{self}")
    }

    /// The key of the lock with this name on the server: the first 64 bits of its SHA-256, big-endian, signed.
    pub fn of(name: &str) -> Self {
        if let Some(Ok(key)) = name.strip_prefix(BY_KEY).map(Self::parse) {
            return key;
        }
        let hash = Sha256::digest(name);
        let first = hash.first_chunk().copied().unwrap_or_default();
        Self::One(i64::from_be_bytes(first))
    }

    /// As the arguments of `pg_try_advisory_lock`.
    pub fn arguments(self) -> String {
        match self {
            Self::One(key) => format!("({key})::bigint"),
            Self::Two(one, two) => format!("({one})::int, ({two})::int"),
        }
    }

    /// The columns `classid`, `objid` and `objsubid` of its row in `pg_locks`.
    pub fn columns(self) -> (u32, u32, u8) {
        let bits = |number: i32| u32::from_ne_bytes(number.to_ne_bytes());
        match self {
            Self::One(key) => {
                let half = |shift: u32| (key.cast_unsigned() >> shift) & u64::from(u32::MAX);
                let half = |shift| u32::try_from(half(shift)).unwrap_or_default();
                (half(32), half(0), 1)
            }
            Self::Two(one, two) => (bits(one), bits(two), 2),
        }
    }

    /// Whether a row of `pg_locks` is about it.
    pub fn condition(self) -> String {
        let (class, object, sub) = self.columns();
        format!("classid = {class}::oid AND objid = {object}::oid AND objsubid = {sub}")
    }
}

impl fmt::Display for Key {
    /// As it is given.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::One(key) => write!(f, "{key}"),
            Self::Two(one, two) => write!(f, "{one},{two}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_given_is_the_locks_own_and_its_marks_have_others() {
        for text in ["0", "-9223372036854775808", "17", "-1,2147483647"] {
            let key = Key::parse(text).unwrap();
            assert_eq!(key.to_string(), text);
            assert_eq!(Key::of(&key.on_server()), key);
            assert_ne!(Key::of(&format!("{}#kill0", key.on_server())), key);
        }
        for wrong in [
            "",
            "x",
            "1,",
            ",1",
            "1,2,3",
            "9223372036854775808",
            "1,2147483648",
        ] {
            assert!(Key::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// As `('x'||left(encode(sha256('backup'),'hex'),16))::bit(64)::bigint` of PostgreSQL 15 says.
    #[test]
    fn the_key_of_a_name_is_that_of_the_documented_expression() {
        assert_eq!(Key::of("backup"), Key::One(6_111_399_565_520_850_680));
    }

    #[test]
    fn a_row_of_pg_locks_has_the_key_in_two_columns() {
        assert_eq!(Key::One(-1).columns(), (u32::MAX, u32::MAX, 1));
        assert_eq!(Key::One(1 << 32).columns(), (1, 0, 1));
        assert_eq!(Key::Two(-1, 7).columns(), (u32::MAX, 7, 2));
    }
}
