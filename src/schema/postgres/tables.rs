//! The definitions of dblock's tables on PostgreSQL: the columns of those on MySQL, in PostgreSQL's types. The queue's are not among them
//! yet. A later version adds columns, indexes and tables here, too.
//!
//! Names are compared byte by byte, so that the order of an index does not depend on the system's locales.

use crate::schema::tables::{self as mysql, Table};

/// Types that several columns share.
const NAME: &str = "varchar(200) COLLATE \"C\" NOT NULL";
const ID: &str = "varchar(32) COLLATE \"C\" NULL";
const ID_REQUIRED: &str = "varchar(32) COLLATE \"C\" NOT NULL";
const MOMENT: &str = "timestamptz NULL";
const MOMENT_REQUIRED: &str = "timestamptz NOT NULL";
const NUMBER: &str = "bigint NULL";

/// The version of the tables, and what all hosts have in common: one row.
const META: Table = Table {
    name: mysql::META.name,
    columns: &[
        ("id", "smallint NOT NULL"),
        ("version", "integer NOT NULL"),
        ("usable_from", "integer NOT NULL"),
        ("keep_seconds", "bigint NOT NULL DEFAULT 2592000"),
        ("keep_runs", "integer NOT NULL DEFAULT 100"),
        ("fence_floor", "bigint NOT NULL DEFAULT 0"),
        ("created_at", MOMENT_REQUIRED),
        ("upgraded_at", MOMENT),
    ],
    primary_key: mysql::META.primary_key,
    keys: &[],
};

/// Durable locks.
pub const LOCKS: Table = Table {
    name: mysql::LOCKS.name,
    columns: &[
        ("name", NAME),
        ("slot", "smallint NOT NULL"),
        ("fence", "bigint NOT NULL DEFAULT 1099511627776"),
        ("owner", ID),
        ("write_id", "bigint NOT NULL DEFAULT 0"),
        ("kind", "varchar(16) NULL"),
        ("command_run", ID),
        ("command_until", MOMENT),
        ("owner_name", "varchar(200) NULL"),
        ("ttl_seconds", NUMBER),
        ("acquired_at", MOMENT),
        ("renewed_at", MOMENT),
        ("expires_at", MOMENT),
        ("kill_requested_at", MOMENT),
        ("kill_requested_by", "varchar(400) NULL"),
    ],
    primary_key: mysql::LOCKS.primary_key,
    keys: &[],
};

/// The history.
const RUNS: Table = Table {
    name: mysql::RUNS.name,
    columns: &[
        ("run", ID_REQUIRED),
        ("name", NAME),
        ("slot", "smallint NULL"),
        ("slot_name", "varchar(200) NULL"),
        ("fence", NUMBER),
        ("tick", MOMENT),
        ("attempt", "bigint NOT NULL DEFAULT 1"),
        ("host", "varchar(64) NULL"),
        ("pid", NUMBER),
        // A word of the language, if it is not quoted.
        ("\"user\"", "varchar(32) NULL"),
        ("program", "varchar(100) NULL"),
        ("connection", NUMBER),
        ("requested_at", MOMENT_REQUIRED),
        ("acquired_at", MOMENT),
        ("started_at", MOMENT),
        ("ended_at", MOMENT),
        ("outcome", "varchar(16) NULL"),
        ("exit_code", "smallint NULL"),
        ("signal_name", "varchar(16) NULL"),
        ("message", "varchar(400) NULL"),
    ],
    primary_key: mysql::RUNS.primary_key,
    keys: mysql::RUNS.keys,
};

/// The last successful run of each name.
const SUCCESSES: Table = Table {
    name: mysql::SUCCESSES.name,
    columns: &[
        ("name", NAME),
        ("tick", MOMENT),
        ("run", ID),
        ("host", "varchar(64) NULL"),
        ("pid", NUMBER),
        ("program", "varchar(100) NULL"),
        ("started_at", MOMENT_REQUIRED),
        ("ended_at", MOMENT_REQUIRED),
        ("needed_seconds", "bigint NOT NULL DEFAULT 31622400"),
    ],
    primary_key: mysql::SUCCESSES.primary_key,
    keys: &[],
};

/// Jobs of the fleet's crontab.
const CRON_JOBS: Table = Table {
    name: mysql::CRON_JOBS.name,
    columns: &[
        ("name", NAME),
        ("schedule", "varchar(1000) NOT NULL"),
        ("zone", "varchar(64) NOT NULL"),
        ("definition", "varchar(32) NOT NULL"),
        ("jitter_seconds", "bigint NOT NULL DEFAULT 0"),
        ("next_at", MOMENT),
        ("settled_at", MOMENT),
        ("change_id", ID),
        ("paused_at", MOMENT),
        ("triggered_at", MOMENT),
        ("changed_at", MOMENT_REQUIRED),
        ("changed_by", "varchar(64) NULL"),
        ("seen_at", MOMENT_REQUIRED),
    ],
    primary_key: mysql::CRON_JOBS.primary_key,
    keys: mysql::CRON_JOBS.keys,
};

/// Ticks that run, that will be retried, or that wait.
const CRON_TICKS: Table = Table {
    name: mysql::CRON_TICKS.name,
    columns: &[
        ("name", NAME),
        ("tick", MOMENT_REQUIRED),
        ("run", ID_REQUIRED),
        ("attempt", "bigint NOT NULL"),
        ("failures", "bigint NOT NULL DEFAULT 0"),
        ("daemon", ID),
        ("start_at", MOMENT),
        ("started_at", MOMENT),
        ("unstarted_at", MOMENT),
        ("ttl_seconds", "bigint NOT NULL"),
    ],
    primary_key: mysql::CRON_TICKS.primary_key,
    keys: &[],
};

/// The daemons that run the fleet's crontab.
const CRON_DAEMONS: Table = Table {
    name: mysql::CRON_DAEMONS.name,
    columns: &[
        ("daemon", ID_REQUIRED),
        ("host", "varchar(64) NULL"),
        ("pid", NUMBER),
        ("\"user\"", "varchar(32) NULL"),
        ("slots", "bigint NOT NULL"),
        ("jobs", "bigint NOT NULL"),
        ("definition", "varchar(32) NOT NULL"),
        ("disagrees", "text NULL"),
        ("differs", "text NULL"),
        ("started_at", MOMENT_REQUIRED),
        ("renewed_at", MOMENT_REQUIRED),
        ("expires_at", MOMENT_REQUIRED),
        ("alive_since", MOMENT_REQUIRED),
        ("leaving_at", MOMENT),
        ("gone_at", MOMENT),
    ],
    primary_key: mysql::CRON_DAEMONS.primary_key,
    keys: &[("by_expiry", "expires_at"), ("by_host", "host, \"user\"")],
};

/// The output of runs.
const OUTPUTS: Table = Table {
    name: mysql::OUTPUTS.name,
    columns: &[
        ("run", ID_REQUIRED),
        ("name", NAME),
        ("job", NUMBER),
        ("kept_at", MOMENT_REQUIRED),
        ("head", "bytea NOT NULL"),
        ("omitted", "bigint NOT NULL"),
        ("tail", "bytea NOT NULL"),
    ],
    primary_key: mysql::OUTPUTS.primary_key,
    keys: mysql::OUTPUTS.keys,
};

/// What people did.
const AUDIT: Table = Table {
    name: mysql::AUDIT.name,
    columns: &[
        // In small letters: this is no default that an older table may lack.
        ("id", "bigint NOT NULL generated by default as identity"),
        ("at", MOMENT_REQUIRED),
        ("action", "varchar(16) NOT NULL"),
        ("object", "varchar(220) NOT NULL"),
        ("detail", "varchar(200) NULL"),
        ("by_user", "varchar(100) NULL"),
        ("via", "varchar(16) NULL"),
    ],
    primary_key: mysql::AUDIT.primary_key,
    keys: mysql::AUDIT.keys,
};

/// All tables. The one with the version comes last: its existence shows that the others exist.
pub const TABLES: [Table; 9] = [
    LOCKS,
    RUNS,
    SUCCESSES,
    CRON_JOBS,
    CRON_TICKS,
    CRON_DAEMONS,
    OUTPUTS,
    AUDIT,
    META,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A column's name, and its width in characters.
    fn column(table: &Table, at: usize) -> (String, Option<String>) {
        let (name, kind) = table.columns[at];
        let is_text = kind.to_lowercase().contains("char(");
        let width = is_text.then(|| kind.split(['(', ')']).nth(1).unwrap().to_owned());
        (name.replace('"', ""), width)
    }

    #[test]
    fn the_tables_have_the_columns_of_those_on_mysql() {
        for table in &TABLES {
            let mut all = mysql::TABLES.iter();
            let same = all.find(|mysql| mysql.name == table.name).unwrap();
            assert_eq!(table.columns.len(), same.columns.len(), "{}", table.name);
            for at in 0..table.columns.len() {
                assert_eq!(column(table, at), column(same, at), "{}", table.name);
            }
            let (kinds, defaults) = (same.defaults(), table.defaults());
            let values = |pairs: Vec<(&str, &str)>| -> Vec<String> {
                pairs.iter().map(|(_, value)| (*value).to_owned()).collect()
            };
            assert_eq!(values(defaults.collect()), values(kinds.collect()));
        }
    }
}
