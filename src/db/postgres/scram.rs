//! The client's side of SCRAM-SHA-256, RFC 5802 and 7677: it proves that the password is known, and demands the same of the server.
//!
//! `postgres-protocol` has it, too, and needs twice the time of all else that a login computes: it prepares the key in each of
//! some thousand rounds.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use stringprep::tables::{change_display_properties_or_deprecated, unassigned_code_point};
use zeroize::Zeroizing;

/// The most rounds that are computed: a server could demand to compute for ever. PostgreSQL's default is 4,096. There is no least, as in
/// libpq: `scram_iterations` may be 1.
pub const MOST_ROUNDS: u32 = 100_000;

/// The password cannot be proven to this server.
#[derive(Debug, PartialEq, Eq)]
pub enum Unproven {
    /// The server demands so many rounds: more than [`MOST_ROUNDS`].
    TooManyRounds(u64),
    /// What the server said is not SCRAM's.
    Garbled(&'static str),
}

/// What a login is bound to, as the first part of the client's messages says it (`gs2-header`).
pub enum Binding {
    /// The server could not bind it, as it says: it is told that the client could, so that nobody in between can make it so.
    NotOffered,
    /// The client cannot, or is not to.
    None,
    /// The hash of the server's certificate.
    Certificate(Vec<u8>),
}

impl Binding {
    fn header(&self) -> &'static str {
        match self {
            Self::NotOffered => "y,,",
            Self::None => "n,,",
            Self::Certificate(_) => "p=tls-server-end-point,,",
        }
    }
}

/// A login that has begun: the client's first message is made.
pub struct Begun {
    binding: Binding,
    nonce: String,
}

/// A login whose proof is made; the server's is due.
pub struct Proven {
    server_key: hmac::Key,
    conversation: String,
}

impl Begun {
    /// `nonce`: of printable characters without a comma, never used before.
    pub fn new(binding: Binding, nonce: String) -> Self {
        Self { binding, nonce }
    }

    /// The client's first message.
    pub fn message(&self) -> String {
        format!("{}{}", self.binding.header(), self.bare())
    }

    /// The part of it that is signed. The role's name is that of the session's start: PostgreSQL reads none here.
    fn bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    /// Answers the server's first message: the client's last one, with its proof.
    ///
    /// # Errors
    /// The message is not SCRAM's, or demands too many rounds.
    pub fn prove(self, password: &[u8], first: &[u8]) -> Result<(String, Proven), Unproven> {
        let first = std::str::from_utf8(first).map_err(|_| Unproven::Garbled("no UTF-8"))?;
        // What may follow are extensions that nobody has to know. Those that one has to know come first.
        let mut parts = first.split(',');
        let mut part = |name, what| {
            let part = parts.next().and_then(|part| part.strip_prefix(name));
            part.ok_or(Unproven::Garbled(what))
        };
        let nonce = part("r=", "no nonce")?;
        let salt = part("s=", "no salt")?;
        let rounds = part("i=", "no rounds")?;
        if !nonce.starts_with(&self.nonce) {
            return Err(Unproven::Garbled("another nonce"));
        }
        let salt = STANDARD.decode(salt);
        let salt = salt.map_err(|_| Unproven::Garbled("no salt"))?;
        let demanded: u64 = rounds.parse().map_err(|_| Unproven::Garbled("no rounds"))?;
        let rounds = u32::try_from(demanded).ok().filter(|r| *r <= MOST_ROUNDS);
        let rounds = rounds.ok_or(Unproven::TooManyRounds(demanded))?;
        let rounds = NonZeroU32::new(rounds).ok_or(Unproven::Garbled("no rounds"))?;

        let password = prepared(password);
        let mut salted = Zeroizing::new([0; digest::SHA256_OUTPUT_LEN]);
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, rounds, &salt, &password, salted.as_mut());
        let salted = key(salted.as_ref());

        let mut bound_to = self.binding.header().as_bytes().to_vec();
        if let Binding::Certificate(hash) = &self.binding {
            bound_to.extend(hash);
        }
        let last = format!("c={},r={nonce}", STANDARD.encode(bound_to));
        let conversation = format!("{},{first},{last}", self.bare());

        let client_key = hmac::sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = hmac::sign(&key(stored_key.as_ref()), conversation.as_bytes());
        let both = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = both.map(|(key, signature)| key ^ signature).collect();
        let server_key = key(hmac::sign(&salted, b"Server Key").as_ref());
        Ok((
            format!("{last},p={}", STANDARD.encode(proof)),
            Proven {
                server_key,
                conversation,
            },
        ))
    }
}

impl Proven {
    /// Whether the server's last message proves that it knows the password.
    pub fn is_proven_by(&self, last: &[u8]) -> bool {
        let last = std::str::from_utf8(last).unwrap_or_default();
        let signature = last.split(',').next().and_then(|v| v.strip_prefix("v="));
        let signature = signature.and_then(|signature| STANDARD.decode(signature).ok());
        signature.is_some_and(|signature| {
            let said = self.conversation.as_bytes();
            hmac::verify(&self.server_key, said, &signature).is_ok()
        })
    }
}

fn key(bytes: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, bytes)
}

/// A password as RFC 4013 spells it. As in PostgreSQL, one that has no such spelling, or an empty one, is taken as it is.
fn prepared(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let text = std::str::from_utf8(password).ok();
    let text = text.filter(|text| !text.contains(is_prohibited));
    let text = text.and_then(|text| stringprep::saslprep(text).ok());
    let text = text.filter(|text| !text.is_empty());
    Zeroizing::new(text.map_or_else(|| password.to_vec(), |text| text.into_owned().into_bytes()))
}

/// Whether a password with this character has no such spelling for PostgreSQL, which looks for what is prohibited in the password itself.
/// The crate looks in the spelling, where other characters, which are allowed, may stand for this one.
fn is_prohibited(character: char) -> bool {
    unassigned_code_point(character) || change_display_properties_or_deprecated(character)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of RFC 7677, but for the role's name, which is empty here; its proofs come from Python's `hashlib` and `hmac`.
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn prove(password: &[u8], first: &str) -> Result<(String, Proven), Unproven> {
        Begun::new(Binding::None, NONCE.to_owned()).prove(password, first.as_bytes())
    }

    #[test]
    fn the_proof_is_that_of_the_standard() {
        let (proof, proven) = prove(b"pencil", FIRST).unwrap();
        assert_eq!(
            proof,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=qvT2SWdEH5Q06albL+hjSYuUhCG7VndFyzIb7CK4n9k="
        );
        assert!(proven.is_proven_by(b"v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg="));
        assert!(proven.is_proven_by(b"v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=,x=more"));
        assert!(!proven.is_proven_by(b"v="));
        assert!(!proven.is_proven_by(b"e=other-error"));
        assert!(!proven.is_proven_by(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    #[test]
    fn the_binding_is_part_of_both_messages() {
        let bound = Begun::new(Binding::Certificate(vec![1, 2]), NONCE.to_owned());
        assert_eq!(
            bound.message(),
            format!("p=tls-server-end-point,,n=,r={NONCE}")
        );
        let (proof, _) = bound.prove(b"pencil", FIRST.as_bytes()).unwrap();
        let header = STANDARD.encode(b"p=tls-server-end-point,,\x01\x02");
        assert!(proof.starts_with(&format!("c={header},r=")));
        let offered = Begun::new(Binding::NotOffered, NONCE.to_owned());
        assert_eq!(offered.message(), format!("y,,n=,r={NONCE}"));
    }

    #[test]
    fn a_password_is_spelled_as_the_standard_says() {
        // Roman nine is IX, and a soft hyphen is nothing: the example of RFC 4013.
        assert_eq!(*prepared("I\u{ad}X".as_bytes()), b"IX");
        assert_eq!(*prepared("\u{2168}".as_bytes()), b"IX");
        assert_eq!(*prepared(b"\xff\x01"), b"\xff\x01");
        assert_eq!(*prepared(b"a\x07"), b"a\x07");
        assert_eq!(*prepared("\u{2153}".as_bytes()), "1\u{2044}3".as_bytes());
    }

    #[test]
    fn a_password_that_postgresql_takes_as_it_is_is_taken_so() {
        // A seventh and a squared A are newer than the RFC and would be spelled 1⁄7 and A, a tone mark is deprecated, and of a soft hyphen
        // nothing would be left.
        for password in ["\u{2150}", "a\u{1f130}", "e\u{340}", "\u{ad}"] {
            assert_eq!(*prepared(password.as_bytes()), password.as_bytes());
        }
    }

    #[test]
    fn rounds_without_end_are_not_computed() {
        let first = FIRST.replace("i=4096", "i=100001");
        let refused = prove(b"pencil", &first).err();
        assert_eq!(refused, Some(Unproven::TooManyRounds(100_001)));
        let first = FIRST.replace("i=4096", "i=99999999999999");
        let refused = prove(b"pencil", &first).err();
        assert_eq!(refused, Some(Unproven::TooManyRounds(99_999_999_999_999)));
    }

    #[test]
    fn what_is_not_scram_is_refused() {
        for first in [
            "",
            "r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=!,i=4096",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1",
            "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==",
            "m=must-be-known,r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        ] {
            let refused = prove(b"pencil", first).err();
            assert!(matches!(refused, Some(Unproven::Garbled(_))), "{first}");
        }
    }

    proptest! {
        // A few bytes of what is right are others: behind the nonce, and behind the name of the signature.
        #[test]
        fn nothing_that_a_server_says_is_a_panic(
            first in proptest::collection::vec((NONCE.len() + 2..60, any::<u8>()), 1..4),
            last in proptest::collection::vec((2usize..40, any::<u8>()), 0..4),
        ) {
            let right = "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2,x=more";
            let changed = |text: &str, bytes: &[(usize, u8)]| {
                let mut text = text.as_bytes().to_vec();
                for &(place, byte) in bytes {
                    if let Some(at) = text.get_mut(place) {
                        *at = byte;
                    }
                }
                text
            };
            let begun = Begun::new(Binding::None, NONCE.to_owned());
            let _ = begun.prove(b"pencil", &changed(right, &first));
            let (_, proven) = prove(b"pencil", FIRST).unwrap();
            let signature = "v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=";
            let said = changed(signature, &last);
            prop_assert_eq!(proven.is_proven_by(&said), said == signature.as_bytes());
        }
    }
}
