//! The answers to what single pages ask for: each is asked for once at a time, however many look, and kept for some refreshes, or for as long
//! as all of them together would cost the server more than they may. If there is no answer any more, the last one stays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::Instant;

use super::dblock::{Dblock, Ended, LIMIT, Words};
use super::pace::Allowance;
use super::seen::Part;
use crate::base::locked;

/// How many different answers are kept.
const MOST: usize = 32;

/// How long all of them are together, in bytes; a longer one is kept alone. A day of a large fleet has half a megabyte, and more where many
/// runs have a long message.
const ALL: usize = 4 * 1024 * 1024;

/// How many dblocks are run for pages at once.
const AT_ONCE: usize = 2;

/// What was answered, and when.
#[derive(Debug)]
pub struct Answers {
    kept: Mutex<HashMap<Words, Kept>>,
    allowance: Mutex<Allowance>,
    turns: Semaphore,
}

/// One of them, and how long it is, in bytes.
#[derive(Debug, Clone, Default)]
struct Kept {
    slot: Slot,
    length: usize,
}

/// Who asks for it holds it: others wait, and find the answer.
type Slot = Arc<AsyncMutex<Option<(Instant, Answered)>>>;

/// How a question's command ended.
#[derive(Debug, Clone)]
pub struct Answered {
    /// The last time.
    pub latest: Arc<Ended>,
    /// The last time before that it was answered, if the last time it was not.
    before: Option<Arc<Ended>>,
}

impl Answered {
    /// What is known after one more time.
    fn after(known: Option<Self>, latest: Arc<Ended>) -> Self {
        let answered = known.and_then(|known| {
            if known.latest.is_success() {
                Some(known.latest)
            } else {
                known.before
            }
        });
        Self {
            before: answered.filter(|_| !latest.is_success()),
            latest,
        }
    }

    /// The answer, and why there is no newer one.
    pub fn part<T: DeserializeOwned>(&self) -> Part<T> {
        let mut part = Part::default();
        for ended in self.before.iter().chain([&self.latest]) {
            part.learn(ended);
        }
        part
    }

    /// In bytes.
    fn length(&self) -> usize {
        let all = self.before.iter().chain([&self.latest]);
        all.map(|ended| ended.answer.len()).sum()
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            allowance: Mutex::default(),
            turns: Semaphore::new(AT_ONCE),
        }
    }
}

impl Answers {
    /// All of them are old.
    pub fn forget(&self) {
        locked(&self.kept).clear();
    }

    /// How a question's command ended, no longer ago than `oldest` unless too much is asked already.
    pub async fn answered(&self, dblock: &Dblock, words: &Words, oldest: Duration) -> Answered {
        let slot = self.slot(words);
        let mut kept = slot.lock().await;
        if let Some((at, answered)) = &*kept
            && (at.elapsed() < oldest || !locked(&self.allowance).allows_one())
        {
            return answered.clone();
        }
        let latest = Arc::new(self.ended_now(dblock, words).await);
        let known = kept.take().map(|(_, answered)| answered);
        let answered = Answered::after(known, latest);
        *kept = Some((Instant::now(), answered.clone()));
        drop(kept);
        self.make_room(words, answered.length());
        answered
    }

    /// The same from now on.
    pub async fn ended_now(&self, dblock: &Dblock, words: &Words) -> Ended {
        let _turn = self.turns.acquire().await;
        locked(&self.allowance).take();
        dblock.ask(words, LIMIT).await
    }

    fn slot(&self, words: &Words) -> Slot {
        let mut kept = locked(&self.kept);
        if kept.len() >= MOST && !kept.contains_key(words) {
            forget_all_but(&mut kept, words);
        }
        kept.entry(words.clone()).or_default().slot.clone()
    }

    /// An answer is so long now: where all of them are too long, only this one is kept.
    fn make_room(&self, words: &Words, length: usize) {
        let mut kept = locked(&self.kept);
        if let Some(own) = kept.get_mut(words) {
            own.length = length;
        }
        if kept.values().map(|one| one.length).sum::<usize>() > ALL {
            forget_all_but(&mut kept, words);
        }
    }
}

/// Keeps those that somebody waits for, too.
fn forget_all_but(kept: &mut HashMap<Words, Kept>, words: &Words) {
    kept.retain(|own, one| own == words || Arc::strong_count(&one.slot) > 1);
}
