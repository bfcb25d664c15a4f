//! The token of a lock that a script holds: one word without a character that a shell reads.

use std::fmt::{self, Write};

use crate::lock::{MOST_SLOTS, Name};

/// Hex digits of an owner.
const OWNER_DIGITS: usize = 32;

/// What `dblock acquire` prints: `deploy.0.17.9f86d081884c7d659a2feaa0c55ad015`. Everything in the name but letters, digits, `-` and
/// `_` stands as `=` and two hex digits for each byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The lock.
    pub name: Name,
    /// Its slot, from 0.
    pub slot: u32,
    /// The number of the grant.
    pub fence: u64,
    /// Whom the row belongs to: 32 hex digits that nobody can guess.
    pub owner: String,
}

impl Token {
    /// Reads a token. The error is the end of a sentence about it, and does not show it.
    ///
    /// # Errors
    /// That it is none.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const NONE: &str = "is not what dblock acquire has printed";
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(NONE);
        let (name, slot, fence, owner) = (part()?, part()?, part()?, part()?);
        let name = Name::parse(&decoded(name).ok_or(NONE)?).map_err(|_| NONE)?;
        let slot = number(slot).filter(|slot| *slot < MOST_SLOTS.into());
        let slot = slot.and_then(|slot| u32::try_from(slot).ok()).ok_or(NONE)?;
        let fence = number(fence).ok_or(NONE)?;
        let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if owner.len() != OWNER_DIGITS || !owner.chars().all(is_digit) || parts.next().is_some() {
            return Err(NONE);
        }
        let owner = owner.to_owned();
        Ok(Self {
            name,
            slot,
            fence,
            owner,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for byte in self.name.to_string().bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
                f.write_char(byte.into())?;
            } else {
                write!(f, "={byte:02x}")?;
            }
        }
        write!(f, ".{}.{}.{}", self.slot, self.fence, self.owner)
    }
}

/// Digits alone: no sign and no zero in front.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'=' {
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

    const OWNER: &str = "9f86d081884c7d659a2feaa0c55ad015";

    proptest! {
        #[test]
        fn a_token_is_one_word_and_read_again(name in "\\PC{1,50}", slot in 0..MOST_SLOTS, fence: u64) {
            let Ok(name) = Name::parse(&name) else { return Ok(()) };
            let token = Token { name, slot, fence, owner: OWNER.to_owned() };
            let text = token.to_string();
            prop_assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || "-_=.".contains(c)), "{}", text);
            prop_assert_eq!(Token::parse(&text), Ok(token));
        }

        #[test]
        fn any_other_word_is_refused(text in "[a-z0-9=.+-]{0,60}") {
            if let Ok(token) = Token::parse(&text) {
                prop_assert_eq!(token.to_string(), text);
            }
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in [
            "",
            "deploy",
            "deploy.0.1",
            &format!("deploy.0.1.{}", &OWNER[1..]),
            &format!("deploy.1000.1.{OWNER}"),
            &format!("deploy.0.+1.{OWNER}"),
            &format!("deploy.0.1.{OWNER}.x"),
            &format!("=zz.0.1.{OWNER}"),
            &format!("a=23b.0.1.{OWNER}"),
            &format!(".0.1.{OWNER}"),
        ] {
            assert!(Token::parse(text).is_err(), "{text}");
        }
    }
}
