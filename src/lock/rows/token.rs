//! The token of a lock that a script holds: one word, with no character that is special to a shell. Whoever reads the tables, the history
//! or the names of locks on the server cannot make it: they contain only a hash of its secret.

use std::fmt::{self, Write};

use sha2::{Digest, Sha256};

use crate::lock::{MOST_SLOTS, Name};

/// The number of hex digits of a secret, and of an owner.
const DIGITS: usize = 32;

/// What `dblock acquire` prints: `deploy.0.17.9f86d081884c7d659a2feaa0c55ad015`. Letters, digits, `_`, and `-` that is not in front stay
/// as they are in the name. Any other byte becomes `+` and two hex digits. So a token is never an option, or special to a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The lock.
    pub name: Name,
    /// Its slot, from 0.
    pub slot: u32,
    /// The fence.
    pub fence: u64,
    /// 32 hex digits that nobody can guess.
    pub secret: String,
}

impl Token {
    /// The owner of the row: 32 hex digits.
    pub fn owner(&self) -> String {
        owner_of(&self.secret)
    }

    /// Reads a token. The error ends a sentence about the token, and does not show it.
    ///
    /// # Errors
    /// The text is not a token.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const NONE: &str = "is not what dblock acquire has printed";
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(NONE);
        let (name, slot, fence, secret) = (part()?, part()?, part()?, part()?);
        let name = Name::parse(&decoded(name).ok_or(NONE)?).map_err(|_| NONE)?;
        let slot = slot.parse().ok().filter(|slot| *slot < MOST_SLOTS);
        let slot = slot.ok_or(NONE)?;
        let fence = fence.parse().map_err(|_| NONE)?;
        let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if secret.len() != DIGITS || !secret.chars().all(is_digit) || parts.next().is_some() {
            return Err(NONE);
        }
        let secret = secret.to_owned();
        let token = Self {
            name,
            slot,
            fence,
            secret,
        };
        // A token has only one form.
        (token.to_string() == text).then_some(token).ok_or(NONE)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (place, byte) in self.name.to_string().bytes().enumerate() {
            if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' && place > 0 {
                f.write_char(byte.into())?;
            } else {
                write!(f, "+{byte:02x}")?;
            }
        }
        write!(f, ".{}.{}.{}", self.slot, self.fence, self.secret)
    }
}

/// The owner of the rows of a token with this secret.
pub fn owner_of(secret: &str) -> String {
    let mut hash = format!("{:x}", Sha256::digest(secret));
    hash.truncate(DIGITS);
    hash
}

fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'+' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "9f86d081884c7d659a2feaa0c55ad015";

    proptest! {
        #[test]
        fn a_token_is_one_word_and_read_again(name in "\\PC{1,50}", slot in 0..MOST_SLOTS, fence: u64) {
            let Ok(name) = Name::parse(&name) else { return Ok(()) };
            let token = Token { name, slot, fence, secret: SECRET.to_owned() };
            let text = token.to_string();
            prop_assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || "-_+.".contains(c)), "{}", text);
            prop_assert!(!text.starts_with('-'), "{}", text);
            prop_assert_eq!(Token::parse(&text), Ok(token));
        }

        #[test]
        fn any_other_word_is_refused(name in "[a-c0-9+.-]{1,6}", numbers in "\\.[0-9+]{1,2}\\.[0-9+]{1,2}\\.") {
            let text = format!("{name}{numbers}{SECRET}");
            if let Ok(token) = Token::parse(&text) {
                prop_assert_eq!(token.to_string(), text);
            }
        }
    }

    #[test]
    fn the_owner_of_a_row_is_a_hash_of_the_secret() {
        // As printf 9f86d081884c7d659a2feaa0c55ad015 | sha256sum has it.
        assert_eq!(owner_of(SECRET), "67212462231402852f818d095bb0c2bf");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in [
            "",
            "deploy",
            "deploy.0.1",
            &format!("deploy.0.1.{}", &SECRET[1..]),
            &format!("deploy.1000.1.{SECRET}"),
            &format!("deploy.0.+1.{SECRET}"),
            &format!("deploy.0.1.{SECRET}.x"),
            &format!("deploy.00.1.{SECRET}"),
            &format!("-deploy.0.1.{SECRET}"),
            &format!("deplo+79.0.1.{SECRET}"),
            &format!("+zz.0.1.{SECRET}"),
            &format!("a+23b.0.1.{SECRET}"),
            &format!("a+2.0.1.{SECRET}"),
            &format!(".0.1.{SECRET}"),
        ] {
            assert!(Token::parse(text).is_err(), "{text}");
        }
    }
}
