//! Waking an idle worker.

/// The named lock that the idle worker holds which is woken next.
pub fn wake_lock(database: &str, queue: &str) -> String {
    format!("{queue}#idle~{database}")
}
