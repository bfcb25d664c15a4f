//! The key of a lock on PostgreSQL, whose advisory locks have numbers.

use sha2::{Digest, Sha256};

/// The key of an advisory lock. Keys of one number and of two are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A `bigint`.
    One(i64),
    /// Two `int4`.
    Two(i32, i32),
}

impl Key {
    /// The key of the lock with this name on the server: the first 64 bits of its SHA-256, big-endian, signed.
    pub fn of(name: &str) -> Self {
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
                let [a, b, c, d, e, f, g, h] = key.to_be_bytes();
                let (high, low) = ([a, b, c, d], [e, f, g, h]);
                (u32::from_be_bytes(high), u32::from_be_bytes(low), 1)
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

#[cfg(test)]
mod tests {
    use super::*;

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
