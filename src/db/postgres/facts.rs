//! Facts about a PostgreSQL, for `dblock check`.

use std::time::Duration;

use crate::db::ask::{Ask, ask};
use crate::db::fault::Fault;
use crate::db::server_facts::Usage;

/// Facts about a server, for `dblock check`.
#[derive(Debug)]
pub struct Facts {
    /// The connections of all, and how many there may be before this role gets no more.
    pub server: Usage,
    /// Those of this role in any database; `None`: the role has no limit.
    pub account: Option<Usage>,
    /// Those of all roles in this database; `None`: the database has no limit.
    pub database: Option<Usage>,
    /// Whether commits reach the disk.
    pub fsync: bool,
    /// How many standbys are connected, as far as this role sees.
    pub standbys: u64,
    /// Whether some of them are waited for at each commit.
    pub synchronous: bool,
    /// The oldest snapshot that keeps VACUUM from removing rows, of those whose age this role may see.
    pub snapshot: Option<Duration>,
    /// Whether there are some whose age it would see with `pg_read_all_stats`.
    pub hidden_snapshots: bool,
    /// Sessions that wait in a statement for an advisory lock. Every role sees all of them.
    pub blocked: u64,
}

/// Asks for the [`Facts`].
pub fn ask_facts() -> Ask<'static, Facts> {
    // Of the sessions of other roles this one may not see the type, but the database and the role: those with both are clients, or
    // workers in the background, which it cannot tell from them: the number may be too high. It sees which of them have a snapshot, but not
    // since when; of a standby's nobody sees that.
    // Before PostgreSQL 16 nothing is reserved but for superusers: there is neither that setting nor that role, and both are NULL.
    let sql = "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
         OR backend_type IS NULL AND datid IS NOT NULL AND usesysid IS NOT NULL \
         AND pid NOT IN (SELECT pid FROM pg_stat_replication)) AS in_use, \
         current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int \
         - CASE WHEN (SELECT pg_has_role(oid, 'USAGE') FROM pg_roles WHERE rolname = 'pg_use_reserved_connections') THEN 0 \
         ELSE coalesce(current_setting('reserved_connections', true)::int, 0) END AS most, \
         (SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND backend_type = 'client backend') AS own, \
         (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user AND rolconnlimit >= 0) AS most_own, \
         (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND (backend_type = 'client backend' \
         OR backend_type IS NULL AND usesysid IS NOT NULL \
         AND pid NOT IN (SELECT pid FROM pg_stat_replication))) AS in_database, \
         (SELECT datconnlimit FROM pg_database WHERE datname = current_database() AND datconnlimit >= 0) AS most_in_database, \
         (current_setting('fsync') = 'on')::int AS fsync, \
         (SELECT count(*) FROM pg_stat_replication) AS standbys, \
         (current_setting('synchronous_standby_names') <> '')::int AS synchronous, \
         (SELECT extract(epoch FROM max(clock_timestamp() - xact_start))::bigint FROM pg_stat_activity \
         WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()) AS snapshot, \
         (EXISTS (SELECT FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND backend_type IS NULL \
         AND pid NOT IN (SELECT pid FROM pg_stat_replication)))::int AS hidden, \
         (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted) AS blocked";
    ask("check facts", sql, |rows| {
        let row = rows.one()?;
        let limited = |in_use: &str, max: &str| -> Result<Option<Usage>, Fault> {
            let (in_use, max): (u64, Option<u64>) = (row.get(in_use)?, row.get(max)?);
            Ok(max.map(|max| Usage { in_use, max }))
        };
        let snapshot: Option<i64> = row.get("snapshot")?;
        Ok(Facts {
            server: Usage {
                in_use: row.get("in_use")?,
                max: row.get("most")?,
            },
            account: limited("own", "most_own")?,
            database: limited("in_database", "most_in_database")?,
            fsync: row.get("fsync")?,
            standbys: row.get("standbys")?,
            synchronous: row.get("synchronous")?,
            snapshot: snapshot
                .and_then(|seconds| Some(Duration::from_secs(seconds.try_into().ok()?))),
            hidden_snapshots: row.get("hidden")?,
            blocked: row.get("blocked")?,
        })
    })
}
