//! The definitions of dblock's tables. A later version adds columns, keys and tables here, and raises [`VERSION`]: `dblock init` upgrades
//! existing tables to it, while older dblocks continue to work: a column that is added has a default, or may be NULL. `versions.sql`
//! records what each version added, for tests.
//!
//! Every table has a primary key, as Galera and group replication require. Times are the server's, in UTC, with microseconds. Names are
//! compared byte by byte.

use std::fmt::Write;

use crate::db::{Fault, Kind, Row};

/// The version of the tables that this dblock creates.
pub const VERSION: u32 = 6;

/// The oldest version that this dblock can use.
pub const OLDEST_USABLE: u32 = 1;

/// The version that brought the tables of the queues.
pub const WITH_QUEUES: u32 = 2;

/// The version that brought the tables of the crontab.
pub const WITH_CRON: u32 = 3;

/// The version since which rows of unused names are deleted.
pub const WITH_FLOOR: u32 = 4;

/// The version with which running jobs have a key by the turn in which they were claimed.
pub const WITH_TURNS: u32 = 4;

/// The version with which runs have keys by their host and by their outcome.
pub const WITH_RUN_KEYS: u32 = 5;

/// The version that added the table of what people did.
pub const WITH_AUDIT: u32 = 6;

/// The version that brought the table of outputs that are kept.
pub const WITH_OUTPUTS: u32 = 6;

/// The fence of a row that an older dblock creates, which does not know [`META`]'s floor. Rows below this never reach it by grants. Rows
/// at or above it are never deleted. So a slot's fence never goes back, whoever creates its row again.
pub const OLDER_FENCE: u64 = 1 << 40;

/// The version that a dblock must at least know to use the tables that this one creates.
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

/// Types that several columns share.
const NAME: &str = "VARCHAR(200) NOT NULL";
const ID: &str = "CHAR(32) CHARACTER SET ascii COLLATE ascii_bin";
const ID_REQUIRED: &str = "CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL";
const OPTIONAL_ID: &str = "CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL";
const MOMENT: &str = "DATETIME(6) NULL";
const NUMBER: &str = "BIGINT UNSIGNED NULL";

/// The version of the tables, and what all hosts have in common: one row.
pub const META: Table = Table {
    name: "dblock_meta",
    columns: &[
        ("id", "TINYINT UNSIGNED NOT NULL"),
        ("version", "INT UNSIGNED NOT NULL"),
        // The version that a dblock must at least know.
        ("usable_from", "INT UNSIGNED NOT NULL"),
        // How long the history is kept, and the least number of runs of each name.
        ("keep_seconds", "BIGINT UNSIGNED NOT NULL DEFAULT 2592000"),
        ("keep_runs", "INT UNSIGNED NOT NULL DEFAULT 100"),
        // At least the fence of any deleted row, so that a slot whose row is created again continues above its last fence.
        ("fence_floor", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
        ("created_at", "DATETIME(6) NOT NULL"),
        ("upgraded_at", MOMENT),
    ],
    primary_key: "id",
    keys: &[],
};

/// Durable locks: a row for each slot that was acquired, until nobody has used it for as long as the history is kept.
pub const LOCKS: Table = Table {
    name: "dblock_locks",
    columns: &[
        ("name", NAME),
        ("slot", "SMALLINT UNSIGNED NOT NULL"),
        // Grows with each grant of the slot. The default is `OLDER_FENCE`.
        ("fence", "BIGINT UNSIGNED NOT NULL DEFAULT 1099511627776"),
        // The run or the token that holds it; NULL: nobody.
        ("owner", OPTIONAL_ID),
        // The number of the owner's latest write. It identifies a write whose answer was lost.
        ("write_id", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
        // The kind of the holder: the name of a `HolderKind`.
        ("kind", "VARCHAR(16) NULL"),
        // The run whose command is under a script's grant, and until when it may run without another renewal.
        ("command_run", OPTIONAL_ID),
        ("command_until", MOMENT),
        // The owner's `acquire --owner`.
        ("owner_name", "VARCHAR(200) NULL"),
        ("ttl_seconds", "INT UNSIGNED NULL"),
        ("acquired_at", MOMENT),
        ("renewed_at", MOMENT),
        ("expires_at", MOMENT),
        // Who kills the holder, and since when.
        ("kill_requested_at", MOMENT),
        ("kill_requested_by", "VARCHAR(400) NULL"),
    ],
    primary_key: "name, slot",
    keys: &[],
};

/// The history: a row for each run, including skipped ones.
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
        // The tick that the run was for, with `--once-at`.
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
        // As in `--report`; NULL while it runs, or if its end is unknown.
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
        // For whoever looks for the runs of a host, or for those that ended in one way. What tells a failure is in the key, too.
        ("by_host", "host, requested_at"),
        (
            "by_outcome",
            "outcome, requested_at, run, exit_code, signal_name",
        ),
    ],
};

/// The last successful run of each name, for `--once-at` and `--once-per`.
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
        // For how long after its start a run may ask for this success. A year in the records of an older dblock.
        ("needed_seconds", "INT UNSIGNED NOT NULL DEFAULT 31622400"),
    ],
    primary_key: "name",
    keys: &[],
};

/// Queues.
pub const QUEUES: Table = Table {
    name: "dblock_queues",
    columns: &[
        ("name", NAME),
        ("id", "INT UNSIGNED NOT NULL AUTO_INCREMENT"),
        // rows: each job is claimed on its own; blocks: jobs are claimed together with those that were put with them.
        ("claim", "VARCHAR(8) NOT NULL"),
        ("shards", "SMALLINT UNSIGNED NOT NULL"),
        ("max_attempts", "INT UNSIGNED NOT NULL"),
        ("retry_delay_us", "BIGINT UNSIGNED NOT NULL"),
        ("ttl_seconds", "INT UNSIGNED NOT NULL"),
        // How long finished jobs are kept.
        ("keep_seconds", "BIGINT UNSIGNED NOT NULL"),
        ("paused_at", MOMENT),
        // Being deleted: no job is put or claimed any more.
        ("deleted_at", MOMENT),
        ("created_at", "DATETIME(6) NOT NULL"),
    ],
    primary_key: "name",
    keys: &[("by_id", "id")],
};

/// Jobs in any state. A job that is due, delayed, running, dead or done also has a row in the narrow table of that name.
pub const JOBS: Table = Table {
    name: "dblock_jobs",
    columns: &[
        ("id", "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"),
        ("queue", "INT UNSIGNED NOT NULL"),
        ("shard", "SMALLINT UNSIGNED NOT NULL"),
        ("priority", "INT NOT NULL"),
        // A number that all jobs of one statement share; 0: the job was taken out of its block.
        ("block", "BIGINT UNSIGNED NOT NULL"),
        // NULL: the payload is in `parts` rows of the table of parts.
        ("payload", "MEDIUMBLOB NULL"),
        ("parts", "INT UNSIGNED NOT NULL DEFAULT 0"),
        ("job_key", "VARCHAR(200) NULL"),
        ("put_at", "DATETIME(6) NOT NULL"),
        // Canceled: must not run again.
        ("canceled_at", MOMENT),
        ("failed_at", MOMENT),
        ("last_error", "VARCHAR(1000) NULL"),
    ],
    primary_key: "id",
    keys: &[],
};

/// Payloads that are too long for one statement.
pub const JOB_PARTS: Table = Table {
    name: "dblock_job_parts",
    columns: &[
        ("job", "BIGINT UNSIGNED NOT NULL"),
        ("part", "INT UNSIGNED NOT NULL"),
        ("data", "MEDIUMBLOB NOT NULL"),
    ],
    primary_key: "job, part",
    keys: &[],
};

/// The columns of the narrow tables. A row is one job, or a block of jobs that are claimed together.
macro_rules! narrow {
    ($($column:expr),* $(,)?) => {
        &[
            ("queue", "INT UNSIGNED NOT NULL"),
            ("shard", "SMALLINT UNSIGNED NOT NULL"),
            ("priority", "INT NOT NULL"),
            // The job, or the first of the block.
            ("job", "BIGINT UNSIGNED NOT NULL"),
            // The last job of the block. The block has the jobs from the first to this one that have its number. 0: no block.
            ("last_job", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
            ("block", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
            ("jobs", "INT UNSIGNED NOT NULL DEFAULT 1"),
            // The number of starts.
            ("attempt", "INT UNSIGNED NOT NULL DEFAULT 0"),
            // Grows with every claim.
            ("fence", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
            // The job repeats this long after it was due; NULL: never.
            ("every_us", "BIGINT UNSIGNED NULL"),
            ("due_at", "DATETIME(6) NOT NULL"),
            $($column),*
        ]
    };
}

/// Due jobs.
pub const DUE: Table = Table {
    name: "dblock_due",
    columns: narrow!(),
    primary_key: "queue, shard, priority, job",
    keys: &[],
};

/// Jobs that will be due later.
pub const DELAYED: Table = Table {
    name: "dblock_delayed",
    columns: narrow!(),
    primary_key: "queue, due_at, job",
    keys: &[("by_job", "job")],
};

/// Jobs that workers have claimed.
pub const RUNNING: Table = Table {
    name: "dblock_running",
    columns: narrow!(
        ("worker", "BIGINT UNSIGNED NOT NULL"),
        // The worker's exchange in which it was claimed.
        ("turn", "BIGINT UNSIGNED NOT NULL"),
        ("claimed_at", "DATETIME(6) NOT NULL"),
    ),
    primary_key: "worker, job",
    keys: &[("by_turn", "worker, turn")],
};

/// Jobs that are not tried any more.
pub const DEAD: Table = Table {
    name: "dblock_dead",
    columns: narrow!(("died_at", "DATETIME(6) NOT NULL")),
    primary_key: "queue, job",
    keys: &[],
};

/// Finished jobs, if they are kept.
pub const DONE: Table = Table {
    name: "dblock_done",
    columns: narrow!(("done_at", "DATETIME(6) NOT NULL")),
    primary_key: "queue, done_at, job",
    keys: &[],
};

/// The keys of unfinished jobs.
pub const JOB_KEYS: Table = Table {
    name: "dblock_job_keys",
    columns: &[
        ("queue", "INT UNSIGNED NOT NULL"),
        ("job_key", "VARCHAR(200) NOT NULL"),
        ("job", "BIGINT UNSIGNED NOT NULL"),
    ],
    primary_key: "queue, job_key",
    keys: &[],
};

/// Workers, each with one lease for all of its claims.
pub const WORKERS: Table = Table {
    name: "dblock_workers",
    columns: &[
        ("worker", "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"),
        ("run", ID),
        ("queue", "INT UNSIGNED NOT NULL"),
        ("host", "VARCHAR(64) NULL"),
        ("pid", NUMBER),
        ("user", "VARCHAR(32) NULL"),
        ("program", "VARCHAR(100) NULL"),
        // The most commands that it runs at once.
        ("slots", "INT UNSIGNED NOT NULL"),
        // Grows by one with each exchange of finished jobs for due ones. It identifies an exchange whose answer was lost.
        ("turn", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
        ("ttl_seconds", "INT UNSIGNED NOT NULL"),
        ("started_at", "DATETIME(6) NOT NULL"),
        ("renewed_at", "DATETIME(6) NOT NULL"),
        // NULL: it has left, and has no claims.
        ("expires_at", MOMENT),
        ("gone_at", MOMENT),
        // Whether it vanished without deregistering.
        ("died", "TINYINT UNSIGNED NOT NULL DEFAULT 0"),
    ],
    primary_key: "worker",
    keys: &[("by_queue", "queue, expires_at")],
};

/// The numbers of finished and failed jobs of each worker in each minute.
pub const QUEUE_MINUTES: Table = Table {
    name: "dblock_queue_minutes",
    columns: &[
        ("queue", "INT UNSIGNED NOT NULL"),
        ("minute", "DATETIME NOT NULL"),
        ("worker", "BIGINT UNSIGNED NOT NULL"),
        ("done", "INT UNSIGNED NOT NULL DEFAULT 0"),
        ("failed", "INT UNSIGNED NOT NULL DEFAULT 0"),
    ],
    primary_key: "queue, minute, worker",
    keys: &[],
};

/// The progress of each `queue put`. It identifies a statement whose answer was lost.
pub const PUTS: Table = Table {
    name: "dblock_puts",
    columns: &[
        ("put", ID),
        // The numbers of statements and jobs so far.
        ("turn", "BIGINT UNSIGNED NOT NULL"),
        ("jobs", "BIGINT UNSIGNED NOT NULL"),
        // Of the last statement: its first job, and the step between the numbers of its jobs.
        ("first_job", "BIGINT UNSIGNED NOT NULL"),
        ("step", "INT UNSIGNED NOT NULL"),
        ("put_at", "DATETIME(6) NOT NULL"),
    ],
    primary_key: "put",
    keys: &[("by_time", "put_at")],
};

/// Jobs of the fleet's crontab. Each row moves on with each tick that is settled. The command is in no table.
pub const CRON_JOBS: Table = Table {
    name: "dblock_cron_jobs",
    columns: &[
        ("name", NAME),
        // The five fields or the nickname, and the zone, from the file that was read last.
        ("schedule", "VARCHAR(1000) NOT NULL"),
        ("zone", "VARCHAR(64) NOT NULL"),
        // A hash of all that the file says of the job, and the longest delay of a tick by staggering.
        ("definition", "VARCHAR(32) NOT NULL"),
        ("jitter_seconds", "INT UNSIGNED NOT NULL DEFAULT 0"),
        // The next tick to settle; NULL: none.
        ("next_at", MOMENT),
        // The last settled tick, taken or skipped.
        ("settled_at", MOMENT),
        // The number of the latest write. Writes that depend on it check it.
        ("change_id", OPTIONAL_ID),
        ("paused_at", MOMENT),
        // Somebody wants one extra run.
        ("triggered_at", MOMENT),
        // When a daemon's file, or a user, last changed the job; and the daemon's host.
        ("changed_at", "DATETIME(6) NOT NULL"),
        ("changed_by", "VARCHAR(64) NULL"),
        // When it was last in a daemon's file.
        ("seen_at", "DATETIME(6) NOT NULL"),
    ],
    primary_key: "name",
    keys: &[("by_next", "next_at"), ("by_change", "changed_at")],
};

/// Ticks that run, that will be retried, or that wait for an earlier tick of their job. Finished ticks have no row.
pub const CRON_TICKS: Table = Table {
    name: "dblock_cron_ticks",
    columns: &[
        ("name", NAME),
        ("tick", "DATETIME(6) NOT NULL"),
        // The run of the latest attempt; before the first one an id that no run has.
        ("run", ID_REQUIRED),
        // The numbers of started and of failed attempts.
        ("attempt", "INT UNSIGNED NOT NULL"),
        ("failures", "INT UNSIGNED NOT NULL DEFAULT 0"),
        // The daemon that has the tick; NULL: none.
        ("daemon", OPTIONAL_ID),
        // For a tick without a daemon: when it is retried; NULL: when no other tick of its job has a row.
        ("start_at", MOMENT),
        // When the command of this attempt was about to start; NULL: not yet.
        ("started_at", MOMENT),
        // Since when no attempt could be started; NULL: the latest was started, or there was none.
        ("unstarted_at", MOMENT),
        ("ttl_seconds", "INT UNSIGNED NOT NULL"),
    ],
    primary_key: "name, tick",
    keys: &[],
};

/// The daemons that run the fleet's crontab.
pub const CRON_DAEMONS: Table = Table {
    name: "dblock_cron_daemons",
    columns: &[
        ("daemon", ID_REQUIRED),
        ("host", "VARCHAR(64) NULL"),
        ("pid", NUMBER),
        ("user", "VARCHAR(32) NULL"),
        // The most commands that it runs at once.
        ("slots", "INT UNSIGNED NOT NULL"),
        // The number of jobs in its file, a hash of all of them, those whose schedule in force differs, and those whose other settings
        // differ from what was read last.
        ("jobs", "INT UNSIGNED NOT NULL"),
        ("definition", "VARCHAR(32) NOT NULL"),
        ("disagrees", "TEXT NULL"),
        ("differs", "TEXT NULL"),
        ("started_at", "DATETIME(6) NOT NULL"),
        ("renewed_at", "DATETIME(6) NOT NULL"),
        // Until when it counts as alive, and since when it has been alive without a break.
        ("expires_at", "DATETIME(6) NOT NULL"),
        ("alive_since", "DATETIME(6) NOT NULL"),
        // When it stopped taking ticks, and when it ended.
        ("leaving_at", MOMENT),
        ("gone_at", MOMENT),
    ],
    primary_key: "daemon",
    // Each daemon checks once a second which daemons are alive; rows of ended ones stay for a while.
    keys: &[("by_expiry", "expires_at"), ("by_host", "host, user")],
};

/// The output of runs and of jobs, as far as it was asked to be kept. A row goes with its run or its job.
pub const OUTPUTS: Table = Table {
    name: "dblock_outputs",
    columns: &[
        // The run; of a job of a queue its number.
        ("run", ID_REQUIRED),
        // The name of the run, or the queue.
        ("name", NAME),
        // The job of a queue; NULL: it is of a run.
        ("job", NUMBER),
        ("kept_at", "DATETIME(6) NOT NULL"),
        // The first bytes, the number of those that are left out, and the last ones.
        ("head", "MEDIUMBLOB NOT NULL"),
        ("omitted", "BIGINT UNSIGNED NOT NULL"),
        ("tail", "MEDIUMBLOB NOT NULL"),
    ],
    primary_key: "run",
    keys: &[("by_name", "name, kept_at")],
};

/// What people did: who paused, resumed, triggered, retried, canceled or killed what.
pub const AUDIT: Table = Table {
    name: "dblock_audit",
    columns: &[
        ("id", "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"),
        ("at", "DATETIME(6) NOT NULL"),
        ("action", "VARCHAR(16) NOT NULL"),
        // The name of the job, the queue or the lock.
        ("object", "VARCHAR(220) NOT NULL"),
        // How many jobs, which one, or which run.
        ("detail", "VARCHAR(200) NULL"),
        // The user of the operating system, and the host.
        ("by_user", "VARCHAR(100) NULL"),
        // By what it was done; NULL: by a command.
        ("via", "VARCHAR(16) NULL"),
    ],
    primary_key: "id",
    keys: &[("by_time", "at")],
};

/// All tables. The one with the version comes last: its existence shows that the others exist.
pub const TABLES: [Table; 21] = [
    LOCKS,
    RUNS,
    SUCCESSES,
    QUEUES,
    JOBS,
    JOB_PARTS,
    DUE,
    DELAYED,
    RUNNING,
    DEAD,
    DONE,
    JOB_KEYS,
    WORKERS,
    QUEUE_MINUTES,
    PUTS,
    CRON_JOBS,
    CRON_TICKS,
    CRON_DAEMONS,
    OUTPUTS,
    AUDIT,
    META,
];

impl Table {
    /// The statement that creates the table in this database, whose name is quoted.
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

    /// The columns that have a number as their default, with that number.
    pub fn defaults(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let columns = self.columns.iter();
        columns.filter_map(|(column, kind)| Some((*column, kind.split_once(" DEFAULT ")?.1)))
    }

    /// The width of a text column in characters.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn width(&self, column: &str) -> usize {
        let kind = self.columns.iter().find(|(name, _)| *name == column);
        let width = kind.and_then(|(_, kind)| kind.split(['(', ')']).nth(1));
        let width = width.and_then(|width| width.parse().ok());
        width.unwrap_or_else(|| panic!("{}.{column} has no width", self.name))
    }

    /// A text, cut to the width of a column.
    ///
    /// # Panics
    /// As [`Table::width`].
    pub fn cut(&self, column: &str, text: &str) -> String {
        text.chars().take(self.width(column)).collect()
    }

    /// The same as a literal for this kind of server; `None`: NULL.
    ///
    /// # Panics
    /// As [`Table::width`].
    pub fn literal(&self, kind: Kind, column: &str, text: Option<&str>) -> String {
        let cut = text.map(|text| self.cut(column, text));
        kind.optional_literal(cut.as_deref())
    }

    /// The text in a column of a row, cut to the column's width: somebody may have widened it, and a message has no room for more.
    ///
    /// # Errors
    /// As [`Row::get`].
    ///
    /// # Panics
    /// As [`Table::width`].
    pub fn text(&self, column: &str, row: &Row) -> Result<Option<String>, Fault> {
        let text: Option<String> = row.get(column)?;
        Ok(text.map(|text| self.cut(column, &text)))
    }
}
