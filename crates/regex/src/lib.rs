//! Takes the place of the crate `regex` under `mysql_common`: of that crate's types and functions it has those that are used there, made of
//! `regex-lite`.
//!
//! `mysql_common` reads the version of a server with two expressions, which it compiles for the first connection of each process. With
//! `regex` that took longer than all else that a keeper does until it has its lock, and its tables of Unicode are a seventh of the binary.
//! `\d` stands for ASCII's digits here. In `regex` it is any of Unicode's, with which a server's version made `mysql_common` panic.

/// Expressions on bytes.
pub mod bytes {
    use std::ops::Range;

    /// What is wrong with an expression.
    pub type Error = regex_lite::Error;

    /// An expression.
    #[derive(Debug)]
    pub struct Regex {
        expression: regex_lite::Regex,
        /// Whether it matches to the end only.
        is_to_the_end: bool,
    }

    /// The parts that an expression has matched.
    #[derive(Debug)]
    pub struct Captures<'h> {
        bytes: &'h [u8],
        parts: Vec<Option<Range<usize>>>,
    }

    /// A part that was matched.
    #[derive(Debug)]
    pub struct Match<'h>(&'h [u8]);

    impl Regex {
        /// Compiles an expression.
        ///
        /// # Errors
        /// It is none.
        pub fn new(expression: &str) -> Result<Self, Error> {
            Ok(Self {
                expression: regex_lite::Regex::new(expression)?,
                is_to_the_end: expression.ends_with('$'),
            })
        }

        /// Whether it matches somewhere.
        pub fn is_match(&self, bytes: &[u8]) -> bool {
            let text = self.text(bytes);
            text.is_some_and(|text| self.expression.is_match(text))
        }

        /// The parts of the first match.
        pub fn captures<'h>(&self, bytes: &'h [u8]) -> Option<Captures<'h>> {
            let found = self.expression.captures(self.text(bytes)?)?;
            let parts = found.iter().map(|part| part.map(|part| part.range()));
            let parts = parts.collect();
            Some(Captures { bytes, parts })
        }

        /// What it may match: the text before the first byte that belongs to no character. `None`: nothing.
        fn text<'h>(&self, bytes: &'h [u8]) -> Option<&'h str> {
            let text = bytes.utf8_chunks().next()?.valid();
            (text.len() == bytes.len() || !self.is_to_the_end).then_some(text)
        }
    }

    impl<'h> Captures<'h> {
        /// The part with this number, from 1; 0 is all that was matched. `None`: there is no such part.
        pub fn get(&self, number: usize) -> Option<Match<'h>> {
            let part = self.parts.get(number)?.clone()?;
            self.bytes.get(part).map(Match)
        }
    }

    impl<'h> Match<'h> {
        /// Its bytes.
        #[must_use]
        pub fn as_bytes(&self) -> &'h [u8] {
            self.0
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// The expression of `mysql_common` for the version of a server.
        const VERSION: &str = r"^(\d{1,2})\.(\d{1,2})\.(\d{1,3})(.*)";

        fn parts<'h>(expression: &str, bytes: &'h [u8]) -> Option<Vec<&'h [u8]>> {
            let found = Regex::new(expression).unwrap().captures(bytes)?;
            let parts = (1..).map_while(|number| found.get(number));
            Some(parts.map(|part| part.as_bytes()).collect())
        }

        #[test]
        fn versions_are_read_whatever_follows() {
            let version = parts(VERSION, b"10.11.14-MariaDB");
            assert_eq!(version.unwrap()[..3], [&b"10"[..], b"11", b"14"]);
            let strange = parts(VERSION, b"8.0.1\xff");
            assert_eq!(strange.unwrap()[..3], [&b"8"[..], b"0", b"1"]);
            for none in [&b""[..], b"8.0", b"\xff8.0.1", "٨.٠.١".as_bytes()] {
                assert!(parts(VERSION, none).is_none(), "{none:?}");
            }
        }

        #[test]
        fn what_matches_to_the_end_has_nothing_behind_it() {
            let date = Regex::new(r"^\d{4}-\d{2}-\d{2}$").unwrap();
            assert!(date.is_match(b"2026-11-25"));
            for other in [&b"2026-11-25 "[..], b"2026-11-25\xff", b"", b"\xff"] {
                assert!(!date.is_match(other), "{other:?}");
            }
        }

        #[test]
        fn a_key_is_found_in_what_stands_around_it() {
            let key = "-----BEGIN PUBLIC KEY-----([^-]*)-----END PUBLIC KEY-----";
            let found = parts(
                key,
                b"x\n-----BEGIN PUBLIC KEY-----\nMII\n-----END PUBLIC KEY-----\n\xff",
            );
            assert_eq!(found.unwrap(), [&b"\nMII\n"[..]]);
        }
    }
}
