//! Pseudorandom numbers that are the same on every host. They decide which daemon a tick is for, and the delay of its start.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// A number from 0 to below 1, derived from these texts.
pub fn fraction(texts: &[&str]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are enough")]
    let high = (number(texts) >> 11) as f64;
    high / 9_007_199_254_740_992.0
}

/// The living daemon that a tick is for. Each daemon gets about the same number of ticks. When a daemon leaves, only its own ticks move to
/// others.
pub fn preferred<'a>(
    name: &str,
    tick: i64,
    daemons: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let tick = tick.to_string();
    daemons.max_by_key(|daemon| number(&[name, &tick, daemon]))
}

/// A hash of texts, as hex digits.
pub fn hash(texts: &[&str]) -> String {
    let mut hex = String::new();
    for byte in &digest(texts)[..16] {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn number(texts: &[&str]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&digest(texts)[..8]);
    u64::from_be_bytes(first)
}

fn digest(texts: &[&str]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.len().to_be_bytes());
        digest.update(text.as_bytes());
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_daemon_is_preferred_for_about_as_many_ticks() {
        let daemons = ["a", "b", "c", "d"];
        let mut counts = [0; 4];
        for tick in 0..4000 {
            let found = preferred("job", tick, daemons.into_iter()).unwrap();
            counts[daemons.iter().position(|one| *one == found).unwrap()] += 1;
            // When another daemon leaves, this choice stays.
            if found != "d" {
                assert_eq!(
                    preferred("job", tick, daemons[..3].iter().copied()),
                    Some(found)
                );
            }
        }
        assert!(
            counts.iter().all(|count| (850..1150).contains(count)),
            "{counts:?}"
        );
        assert_eq!(preferred("job", 1, [].into_iter()), None);
    }

    #[test]
    fn fractions_are_spread_and_depend_on_each_text() {
        let all: Vec<f64> = (0..1000)
            .map(|n: u32| fraction(&["job", &n.to_string()]))
            .collect();
        assert!(all.iter().all(|one| (0.0..1.0).contains(one)));
        assert!((0.45..0.55).contains(&(all.iter().sum::<f64>() / 1000.0)));
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }
}
