//! What dblock's tables look like. A later version adds columns, keys and tables here, and raises [`VERSION`]: `dblock init` brings what
//! is there up to it, while older dblocks go on.
//!
//! Every table has a primary key, for Galera and group replication want one. Times are the server's, in UTC, with microseconds.
//! Names are compared byte by byte.

use std::fmt::Write;

/// The version of the tables that this dblock makes.
pub const VERSION: u32 = 1;

/// The oldest version that this dblock can use.
pub const OLDEST_USABLE: u32 = 1;

/// The version that a dblock must know, at least, to use the tables that this one makes.
pub const USABLE_FROM: u32 = 1;

/// A table.
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns and their types.
    pub columns: &'static [(&'static str, &'static str)],
    /// The columns of its primary key.
    pub primary_key: &'static str,
    /// Its other keys: name and columns.
    pub keys: &'static [(&'static str, &'static str)],
}

/// Types that several columns have.
const NAME: &str = "VARCHAR(200) NOT NULL";
const ID: &str = "CHAR(32) CHARACTER SET ascii COLLATE ascii_bin";
const OPTIONAL_ID: &str = "CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL";
const MOMENT: &str = "DATETIME(6) NULL";
const NUMBER: &str = "BIGINT UNSIGNED NULL";

/// The version of the tables, and what all dblocks have in common: one row.
pub const META: Table = Table {
    name: "dblock_meta",
    columns: &[
        ("id", "TINYINT UNSIGNED NOT NULL"),
        ("version", "INT UNSIGNED NOT NULL"),
        // What a dblock must know to use these tables.
        ("usable_from", "INT UNSIGNED NOT NULL"),
        // How long the history is kept, and how many runs of each name at least.
        ("keep_seconds", "BIGINT UNSIGNED NOT NULL DEFAULT 2592000"),
        ("keep_runs", "INT UNSIGNED NOT NULL DEFAULT 100"),
        ("created_at", "DATETIME(6) NOT NULL"),
        ("upgraded_at", MOMENT),
    ],
    primary_key: "id",
    keys: &[],
};

/// Durable locks: a row for each slot that was ever acquired.
pub const LOCKS: Table = Table {
    name: "dblock_locks",
    columns: &[
        ("name", NAME),
        ("slot", "SMALLINT UNSIGNED NOT NULL"),
        // Grows with each grant of the slot.
        ("fence", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
        // The run or the token that holds it; NULL: nobody.
        ("owner", OPTIONAL_ID),
        // A number that the owner's latest write has chosen: by it a write whose answer was lost is known again.
        ("write_id", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
        // What holds it: the name of a `HolderKind`.
        ("kind", "VARCHAR(16) NULL"),
        // The run whose command is under a script's grant, and until when that may go on without another renewal.
        ("command_run", OPTIONAL_ID),
        ("command_until", MOMENT),
        // What `acquire --owner` says.
        ("owner_name", "VARCHAR(200) NULL"),
        ("ttl_seconds", "INT UNSIGNED NULL"),
        ("acquired_at", MOMENT),
        ("renewed_at", MOMENT),
        ("expires_at", MOMENT),
        // Who asked for the end of the holder, and when.
        ("kill_requested_at", MOMENT),
        ("kill_requested_by", "VARCHAR(400) NULL"),
    ],
    primary_key: "name, slot",
    keys: &[],
};

/// The history: a row for each run, skips included.
pub const RUNS: Table = Table {
    name: "dblock_runs",
    columns: &[
        (
            "run",
            "CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
        ),
        ("name", NAME),
        ("slot", "SMALLINT UNSIGNED NULL"),
        ("slot_name", "VARCHAR(200) NULL"),
        ("fence", NUMBER),
        // The tick that it was for, with `--once-at`.
        ("tick", MOMENT),
        ("attempt", "INT UNSIGNED NOT NULL DEFAULT 1"),
        ("host", "VARCHAR(64) NULL"),
        ("pid", NUMBER),
        ("user", "VARCHAR(32) NULL"),
        ("program", "VARCHAR(100) NULL"),
        ("connection", NUMBER),
        ("requested_at", "DATETIME(6) NOT NULL"),
        ("acquired_at", MOMENT),
        ("started_at", MOMENT),
        ("ended_at", MOMENT),
        // As in `--report`; NULL while it runs, or if nobody knows how it ended.
        ("outcome", "VARCHAR(16) NULL"),
        ("exit_code", "SMALLINT UNSIGNED NULL"),
        ("signal_name", "VARCHAR(16) NULL"),
        // The line of a skip or an error.
        ("message", "VARCHAR(400) NULL"),
    ],
    primary_key: "run",
    keys: &[
        ("by_name", "name, requested_at"),
        ("by_time", "requested_at"),
    ],
};

/// The last run of each name that succeeded, for `--once-at` and `--once-per`.
pub const SUCCESSES: Table = Table {
    name: "dblock_successes",
    columns: &[
        ("name", NAME),
        ("tick", MOMENT),
        ("run", ID),
        ("host", "VARCHAR(64) NULL"),
        ("pid", NUMBER),
        ("program", "VARCHAR(100) NULL"),
        ("started_at", "DATETIME(6) NOT NULL"),
        ("ended_at", "DATETIME(6) NOT NULL"),
    ],
    primary_key: "name",
    keys: &[],
};

/// All of them. The one with the version comes last: it says that the others are there.
pub const TABLES: [Table; 4] = [LOCKS, RUNS, SUCCESSES, META];

impl Table {
    /// The statement that creates it in this database, which is quoted.
    pub fn create(&self, database: &str) -> String {
        let mut sql = format!("CREATE TABLE IF NOT EXISTS {database}.{} (\n", self.name);
        for (column, kind) in self.columns {
            let _ = writeln!(sql, "  {column} {kind},");
        }
        let _ = write!(sql, "  PRIMARY KEY ({})", self.primary_key);
        for (key, columns) in self.keys {
            let _ = write!(sql, ",\n  KEY {key} ({columns})");
        }
        sql + "\n) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock'"
    }

    /// How many characters a column of text takes.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn width(&self, column: &str) -> usize {
        let kind = self.columns.iter().find(|(name, _)| *name == column);
        let width = kind.and_then(|(_, kind)| kind.split(['(', ')']).nth(1));
        let width = width.and_then(|width| width.parse().ok());
        width.unwrap_or_else(|| panic!("{}.{column} has no width", self.name))
    }
}
