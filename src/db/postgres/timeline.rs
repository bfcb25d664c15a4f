//! Where a server stands in the history of its cluster: it and its standbys are one cluster.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::SeqCst};

use super::sql::TIMELINE;
use crate::base::shared_memory::share;
use crate::db::ask::{Ask, ask_value};
use crate::db::row::Value;

/// The timeline of a server, which grows with each fail-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// The system identifier of the cluster: the same on a primary and its standbys.
    cluster: i64,
    number: u32,
}

impl Timeline {
    /// Whether a server with this timeline is one from before a fail-over that a server of the same cluster has seen.
    pub fn is_older_than(self, other: Self) -> bool {
        self.cluster == other.cluster && self.number < other.number
    }
}

/// The latest timeline that dblock has seen. A session with an older one is with a server from before a fail-over.
#[derive(Debug, Clone, Copy)]
pub struct LatestTimeline(&'static Latest);

/// Cluster and number; a number of 0: none is known.
#[derive(Debug)]
struct Latest {
    cluster: AtomicI64,
    number: AtomicU32,
}

impl Default for LatestTimeline {
    /// For this process alone, and all that it asks for. None is known at first.
    fn default() -> Self {
        static OWN: Latest = Latest {
            cluster: AtomicI64::new(0),
            number: AtomicU32::new(0),
        };
        Self(&OWN)
    }
}

impl LatestTimeline {
    /// For this process and those that it forks: one that replaces another does not go back, either. None is known.
    ///
    /// # Errors
    /// As `mmap(2)`.
    pub fn shared() -> io::Result<Self> {
        // SAFETY: it is all atomics, and zero is none.
        let memory = unsafe { share(1)? };
        Ok(Self(&memory[0]))
    }

    /// `None`: none is known.
    pub fn get(self) -> Option<Timeline> {
        let number = self.0.number.load(SeqCst);
        (number > 0).then(|| Timeline {
            cluster: self.0.cluster.load(SeqCst),
            number,
        })
    }

    /// From now on it is this one.
    pub fn set(self, timeline: Timeline) {
        if self.get() == Some(timeline) {
            return;
        }
        // A process that is killed in between leaves none.
        self.0.number.store(0, SeqCst);
        self.0.cluster.store(timeline.cluster, SeqCst);
        self.0.number.store(timeline.number, SeqCst);
    }
}

impl Value for Timeline {
    fn read(text: &[u8]) -> Option<Self> {
        let (cluster, number) = std::str::from_utf8(text).ok()?.split_once('/')?;
        Some(Self {
            cluster: cluster.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

/// A server's timeline.
pub fn ask_timeline() -> Ask<'static, Option<Timeline>> {
    ask_value("timeline", format!("SELECT {TIMELINE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_is_what_was_set_last() {
        let latest = LatestTimeline::shared().unwrap();
        assert_eq!(latest.get(), None);
        for text in ["-7/1", "7/2"] {
            let timeline = Timeline::read(text.as_bytes()).unwrap();
            latest.set(timeline);
            assert_eq!(latest.get(), Some(timeline));
        }
    }

    #[test]
    fn timelines_of_two_clusters_have_no_order() {
        let timeline = |text: &str| Timeline::read(text.as_bytes()).unwrap();
        let (older, newer) = (timeline("-7/1"), timeline("-7/2"));
        assert!(older.is_older_than(newer) && !newer.is_older_than(older));
        assert!(!newer.is_older_than(newer));
        assert!(!timeline("8/1").is_older_than(newer));
        for text in ["1", "/1", "7/", "7/x", "9223372036854775808/1"] {
            assert_eq!(Timeline::read(text.as_bytes()), None, "{text}");
        }
    }
}
