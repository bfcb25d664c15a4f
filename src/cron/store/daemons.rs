//! A daemon's row: whether it is alive, how many commands it runs at once, and which of its jobs differ from those in force.

use super::entry::{DaemonFacts, Register};
use super::statements::text;
use crate::db::{Ask, Batch, ask, batch, command, named, no_answer};
use crate::schema::Tables;

impl Register<'_> {
    /// The server's time.
    pub fn batch(&self) -> Batch<'static, i64> {
        let text = text(self.tables);
        let statements = vec![text.register(self), text.clock()];
        batch("cron register", statements).read_last(|rows| rows.value()?.ok_or_else(no_answer))
    }
}

/// Asks whether an earlier daemon of this host and user had the same file, by the hash of its jobs. Several daemons may run there, each
/// with its own file, so the last file of each counts.
pub fn ask_file_before(
    tables: &Tables,
    facts: &DaemonFacts,
    definition: &str,
) -> Ask<'static, bool> {
    let sql = text(tables).file_before(facts, definition);
    ask("cron before", sql, |rows| {
        Ok(rows.value::<u64>()?.is_some_and(|count| count > 0))
    })
}

/// Renews a daemon's lease, for this many seconds.
pub fn renew(tables: &Tables, id: &str, lease: u64) -> Ask<'static, ()> {
    command("cron renew", text(tables).renew(id, lease))
}

/// Notes that a daemon takes no more ticks. Other daemons take them.
pub fn stop_taking(tables: &Tables, id: &str) -> Ask<'static, ()> {
    command("cron stop", text(tables).stop_taking(id))
}

/// Notes that a daemon is gone, and runs nothing any more.
pub fn leave(tables: &Tables, id: &str) -> Ask<'static, ()> {
    command("cron leave", text(tables).leave(id))
}

/// Deletes the next tick of jobs that have been in no file for a while, in seconds. Gives up their ticks in progress that no daemon or only
/// a silent one has. If such a job is in a file again, it starts as a new one. The daemon that does it must have been alive for the same
/// time. So after an outage all daemons have time to note their jobs.
pub fn retire(tables: &Tables, daemon: &DaemonFacts, after: u64) -> Batch<'static, ()> {
    let retire = text(tables).retire(daemon, after);
    let all = ["BEGIN".to_owned()].into_iter().chain(retire);
    let all = all.chain(["COMMIT".to_owned()]);
    Batch::written(all.map(|sql| named("cron retire", sql)).collect())
}

/// Deletes old rows: daemons that are gone, and jobs that were in no file for [`FORGOTTEN_AFTER`](super::entry::FORGOTTEN_AFTER) days, with
/// their ticks. A daemon without a successor on its host and for its user is kept for a week, for [`ask_file_before`].
pub fn prune(tables: &Tables) -> [Ask<'static, ()>; 3] {
    text(tables).prune().map(|sql| command("cron prune", sql))
}
