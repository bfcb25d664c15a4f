//! A daemon's row: whether it is alive, how many commands it runs at once, and which of its jobs differ from those in force.

use super::entry::{DaemonFacts, Register};
use super::statements::{Names, text};
use crate::db::{Ask, Batch, Kind, ask, batch, command, named, no_answer};
use crate::schema::{CRON_DAEMONS, Tables};

impl Register<'_> {
    /// The server's time.
    pub fn batch(&self) -> Batch<'static, i64> {
        let words = self.tables.kind();
        let clock = format!("SELECT {}", words.micros(words.now()));
        let statements = vec![self.statement(), clock];
        batch("cron register", statements).read_last(|rows| rows.value()?.ok_or_else(no_answer))
    }

    /// Writes the row. The daemon is alive since this moment if its lease has run out.
    fn statement(&self) -> String {
        let (words, facts) = (self.tables.kind(), self.facts);
        let now = words.now();
        let cut = |column, text: &str| words.literal(&CRON_DAEMONS.cut(column, text));
        let list = |names: &str| match names {
            "" => "NULL".to_owned(),
            names => words.literal(names),
        };
        let (count, definition) = (self.jobs.0, words.literal(self.jobs.1));
        let [disagrees, differs] = [self.disagrees, self.differs].map(list);
        format!(
            "INSERT INTO {} (daemon, host, pid, {}, slots, jobs, definition, disagrees, differs, started_at, renewed_at, expires_at, alive_since) \
             VALUES ({}, {}, {}, {}, {}, {count}, {definition}, {disagrees}, {differs}, {now}, {now}, {expires}, {now}) \
             {} alive_since = {}, jobs = {count}, definition = {definition}, disagrees = {disagrees}, differs = {differs}, renewed_at = {now}, \
             expires_at = {expires}",
            self.tables.of(&CRON_DAEMONS),
            words.user(),
            words.literal(&facts.id),
            cut("host", &facts.host),
            facts.pid,
            cut("user", &facts.user),
            facts.slots,
            words.if_there("daemon"),
            // Before `expires_at` is assigned.
            alive_since(words, &format!("{}.", CRON_DAEMONS.name)),
            expires = words.after_seconds(self.lease)
        )
    }
}

/// The start of a daemon's current life, from its row, which begins anew after its lease has run out.
fn alive_since(words: Kind, row: &str) -> String {
    let now = words.now();
    format!("CASE WHEN {row}expires_at < {now} THEN {now} ELSE {row}alive_since END")
}

/// Asks whether an earlier daemon of this host and user had the same file, by the hash of its jobs. Several daemons may run there, each
/// with its own file, so the last file of each counts. A daemon's file is the last one unless a later daemon has started after it was gone.
/// A living daemon that has just started does not count as a successor: it started together with this one, as at a boot.
pub fn ask_file_before(
    tables: &Tables,
    facts: &DaemonFacts,
    definition: &str,
) -> Ask<'static, bool> {
    let names = Names::of(tables);
    let (words, daemons, id) = (names.words, &names.daemons, names.words.literal(&facts.id));
    let sql = format!(
        "SELECT COUNT(*) FROM {daemons} o WHERE o.daemon <> {id} AND o.host = {} AND o.{} = {} \
         AND o.definition = {} AND NOT EXISTS (SELECT 1 FROM {daemons} n WHERE {} AND n.daemon <> {id} \
         AND NOT (n.gone_at IS NULL AND n.expires_at > {} AND n.started_at > {}))",
        words.literal(&facts.host),
        words.user(),
        words.literal(&facts.user),
        words.literal(definition),
        names.has_succeeded(),
        words.now(),
        words.seconds_ago(60)
    );
    ask("cron before", sql, |rows| {
        Ok(rows.value::<u64>()?.is_some_and(|count| count > 0))
    })
}

/// Renews a daemon's lease, for this many seconds. If it has run out, the daemon is alive since this moment.
pub fn renew(tables: &Tables, id: &str, lease: u64) -> Ask<'static, ()> {
    let words = tables.kind();
    let sql = format!(
        "UPDATE {} SET alive_since = {}, renewed_at = {}, expires_at = {} WHERE daemon = {}",
        tables.of(&CRON_DAEMONS),
        alive_since(words, ""),
        words.now(),
        words.after_seconds(lease),
        words.literal(id)
    );
    command("cron renew", sql)
}

/// Notes that a daemon takes no more ticks. Other daemons take them.
pub fn stop_taking(tables: &Tables, id: &str) -> Ask<'static, ()> {
    let sql = format!(
        "UPDATE {} SET leaving_at = COALESCE(leaving_at, {}) WHERE daemon = {}",
        tables.of(&CRON_DAEMONS),
        tables.kind().now(),
        tables.kind().literal(id)
    );
    command("cron stop", sql)
}

/// Notes that a daemon is gone, and runs nothing any more.
pub fn leave(tables: &Tables, id: &str) -> Ask<'static, ()> {
    let sql = format!(
        "UPDATE {} SET leaving_at = COALESCE(leaving_at, {now}), gone_at = {now}, expires_at = {now} WHERE daemon = {}",
        tables.of(&CRON_DAEMONS),
        tables.kind().literal(id),
        now = tables.kind().now()
    );
    command("cron leave", sql)
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
