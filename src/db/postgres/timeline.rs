//! Where a server stands in the history of its cluster: it and its standbys are one cluster.

use super::sql::TIMELINE;
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
