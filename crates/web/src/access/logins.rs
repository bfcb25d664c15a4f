//! Who has logged in: each login has a secret of its own, which is good for some hours, and no longer than until its owner logs out.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::secret::Secret;
use crate::base::exit::Failure;

/// How long a login is good: a long working day.
const LONGEST: Duration = Duration::from_secs(12 * 3600);

/// How many there are at once; whoever logs in then ends the oldest.
const MOST: usize = 1000;

/// The logins, by hashes of their secrets: how long one is looked for says nothing of these.
#[derive(Debug, Default)]
pub struct Logins(HashMap<[u8; 32], Until>);

/// Until when one is good. By two clocks of this host: the first stands still while it sleeps, and the other may be set back.
#[derive(Debug)]
struct Until(Instant, Timestamp);

impl Until {
    fn is_good(&self) -> bool {
        self.0 > Instant::now() && self.1 > Timestamp::now()
    }
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

impl Logins {
    /// One more.
    ///
    /// # Errors
    /// The system has no random bits.
    pub fn begin(&mut self) -> Result<Secret, Failure> {
        let secret = Secret::new()?;
        self.0.retain(|_, until| until.is_good());
        if self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, until)| until.0);
            if let Some((&oldest, _)) = oldest {
                self.0.remove(&oldest);
            }
        }
        let until = Until(Instant::now() + LONGEST, Timestamp::now() + LONGEST);
        self.0.insert(hash(secret.text()), until);
        Ok(secret)
    }

    /// Whether this is the secret of one that is good.
    pub fn has(&self, secret: &str) -> bool {
        let until = self.0.get(&hash(secret));
        until.is_some_and(Until::is_good)
    }

    /// Ends the one that has this secret.
    pub fn end(&mut self, secret: &str) {
        self.0.remove(&hash(secret));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_ends_when_its_time_is_over_by_either_clock_and_when_its_owner_leaves() {
        let mut logins = Logins::default();
        let [first, second, third, fourth] = [(); 4].map(|()| logins.begin().unwrap());
        let is_good =
            |logins: &Logins| [&first, &second, &third, &fourth].map(|one| logins.has(one.text()));
        assert_eq!(is_good(&logins), [true; 4]);
        assert!(!logins.has("") && !logins.has(&first.text()[1..]));
        logins.end(first.text());
        logins.0.get_mut(&hash(second.text())).unwrap().0 = Instant::now();
        logins.0.get_mut(&hash(third.text())).unwrap().1 = Timestamp::now();
        assert_eq!(is_good(&logins), [false, false, false, true]);
        logins.begin().unwrap();
        assert_eq!(logins.0.len(), 2, "what is over is forgotten");
    }

    #[test]
    fn of_very_many_logins_the_oldest_ends() {
        let mut logins = Logins::default();
        let mut begin = || logins.begin().unwrap();
        let (first, second) = (begin(), begin());
        for _ in 1..MOST {
            begin();
        }
        assert_eq!(logins.0.len(), MOST);
        assert!(!logins.has(first.text()) && logins.has(second.text()));
    }
}
