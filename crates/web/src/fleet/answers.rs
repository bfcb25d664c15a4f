//! The answers to what single pages ask for: each is kept for a refresh, and asked for once at a time, however many look.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::time::Instant;

use super::ask::{Dblock, Ended, LIMIT, Words};

/// How many different answers are kept.
const MOST: usize = 32;

/// The longest answer that is kept, in bytes.
const LARGEST: usize = 256 * 1024;

/// How many dblocks are run for pages at once.
const AT_ONCE: usize = 2;

/// What was answered, and when.
#[derive(Debug)]
pub struct Answers {
    kept: Mutex<HashMap<Words, Slot>>,
    turns: Semaphore,
}

/// Who asks for it holds it: others wait, and find the answer.
type Slot = Arc<AsyncMutex<Option<(Instant, Arc<Ended>)>>>;

impl Default for Answers {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            turns: Semaphore::new(AT_ONCE),
        }
    }
}

impl Answers {
    /// All of them are old.
    pub fn forget(&self) {
        self.kept().clear();
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Words, Slot>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a question's command ended, no longer ago than `oldest`.
    pub async fn ended(&self, dblock: &Dblock, words: &Words, oldest: Duration) -> Arc<Ended> {
        let slot = self.slot(words);
        let mut kept = slot.lock().await;
        if let Some((at, ended)) = &*kept
            && at.elapsed() < oldest
        {
            return ended.clone();
        }
        let ended = Arc::new(self.ended_now(dblock, words).await);
        *kept = (ended.answer.len() <= LARGEST).then(|| (Instant::now(), ended.clone()));
        ended
    }

    /// The same from now on.
    pub async fn ended_now(&self, dblock: &Dblock, words: &Words) -> Ended {
        let _turn = self.turns.acquire().await;
        dblock.run(words, None, LIMIT).await
    }

    fn slot(&self, words: &Words) -> Slot {
        let mut kept = self.kept();
        if kept.len() >= MOST && !kept.contains_key(words) {
            // Those that nobody waits for.
            kept.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        kept.entry(words.clone()).or_default().clone()
    }
}
