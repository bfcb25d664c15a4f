//! What dblock's tables look like. A later version adds columns, keys and tables here, and raises [`VERSION`]: `dblock init` brings what
//! is there up to it, while older dblocks go on.
//!
//! Every table has a primary key, for Galera and group replication want one. Times are the server's, in UTC, with microseconds.
//! Names are compared byte by byte.

use std::fmt::Write;

/// The version of the tables that this dblock makes.
pub const VERSION: u32 = 3;

/// The oldest version that this dblock can use.
pub const OLDEST_USABLE: u32 = 1;

/// The version that brought the tables of the queues.
pub const WITH_QUEUES: u32 = 2;

/// The version that brought the tables of the crontab.
pub const WITH_CRON: u32 = 3;

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
const ID_REQUIRED: &str = "CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL";
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

/// Queues.
pub const QUEUES: Table = Table {
    name: "dblock_queues",
    columns: &[
        ("name", NAME),
        ("id", "INT UNSIGNED NOT NULL AUTO_INCREMENT"),
        // rows: each job is claimed on its own; blocks: together with those that were put with it.
        ("claim", "VARCHAR(8) NOT NULL"),
        ("shards", "SMALLINT UNSIGNED NOT NULL"),
        ("max_attempts", "INT UNSIGNED NOT NULL"),
        ("retry_delay_us", "BIGINT UNSIGNED NOT NULL"),
        ("ttl_seconds", "INT UNSIGNED NOT NULL"),
        // How long jobs are kept that are done.
        ("keep_seconds", "BIGINT UNSIGNED NOT NULL"),
        ("paused_at", MOMENT),
        // It is being deleted: nothing is put and nothing is claimed any more.
        ("deleted_at", MOMENT),
        ("created_at", "DATETIME(6) NOT NULL"),
    ],
    primary_key: "name",
    keys: &[("by_id", "id")],
};

/// Jobs, whatever their state. What is due, delayed, running, dead or done has a row in the narrow table of that name besides.
pub const JOBS: Table = Table {
    name: "dblock_jobs",
    columns: &[
        ("id", "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"),
        ("queue", "INT UNSIGNED NOT NULL"),
        ("shard", "SMALLINT UNSIGNED NOT NULL"),
        ("priority", "INT NOT NULL"),
        // A number that all jobs have which were put by one statement; 0: a job that was taken out of its block.
        ("block", "BIGINT UNSIGNED NOT NULL"),
        // NULL: it stands in `parts` rows of the table of parts.
        ("payload", "MEDIUMBLOB NULL"),
        ("parts", "INT UNSIGNED NOT NULL DEFAULT 0"),
        ("job_key", "VARCHAR(200) NULL"),
        ("put_at", "DATETIME(6) NOT NULL"),
        // It is not to run again.
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

/// What a row of the narrow tables says: of one job, or of a block of jobs that are claimed together.
macro_rules! narrow {
    ($($column:expr),* $(,)?) => {
        &[
            ("queue", "INT UNSIGNED NOT NULL"),
            ("shard", "SMALLINT UNSIGNED NOT NULL"),
            ("priority", "INT NOT NULL"),
            // The job, or the first of the block.
            ("job", "BIGINT UNSIGNED NOT NULL"),
            // The last of the block: it has the jobs from the first to this one that have its number. 0: there is no block.
            ("last_job", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
            ("block", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
            ("jobs", "INT UNSIGNED NOT NULL DEFAULT 1"),
            // How often it was started.
            ("attempt", "INT UNSIGNED NOT NULL DEFAULT 0"),
            // Grows with every claim.
            ("fence", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
            // It is due again so long after it was due; NULL: never.
            ("every_us", "BIGINT UNSIGNED NULL"),
            ("due_at", "DATETIME(6) NOT NULL"),
            $($column),*
        ]
    };
}

/// What is due.
pub const DUE: Table = Table {
    name: "dblock_due",
    columns: narrow!(),
    primary_key: "queue, shard, priority, job",
    keys: &[],
};

/// What will be due.
pub const DELAYED: Table = Table {
    name: "dblock_delayed",
    columns: narrow!(),
    primary_key: "queue, due_at, job",
    keys: &[("by_job", "job")],
};

/// What workers have claimed.
pub const RUNNING: Table = Table {
    name: "dblock_running",
    columns: narrow!(
        ("worker", "BIGINT UNSIGNED NOT NULL"),
        // The turn of the worker in which it was claimed.
        ("turn", "BIGINT UNSIGNED NOT NULL"),
        ("claimed_at", "DATETIME(6) NOT NULL"),
    ),
    primary_key: "worker, job",
    keys: &[],
};

/// What is not tried any more.
pub const DEAD: Table = Table {
    name: "dblock_dead",
    columns: narrow!(("died_at", "DATETIME(6) NOT NULL")),
    primary_key: "queue, job",
    keys: &[],
};

/// What is done, where that is kept.
pub const DONE: Table = Table {
    name: "dblock_done",
    columns: narrow!(("done_at", "DATETIME(6) NOT NULL")),
    primary_key: "queue, done_at, job",
    keys: &[],
};

/// Keys of jobs that are not done.
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

/// Workers, each with one lease for all that it has claimed.
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
        // How many commands it runs at once.
        ("slots", "INT UNSIGNED NOT NULL"),
        // Grows by one with each exchange of what has ended for what is due: by it one whose answer was lost is known again.
        ("turn", "BIGINT UNSIGNED NOT NULL DEFAULT 0"),
        ("ttl_seconds", "INT UNSIGNED NOT NULL"),
        ("started_at", "DATETIME(6) NOT NULL"),
        ("renewed_at", "DATETIME(6) NOT NULL"),
        // NULL: it is gone, and has nothing any more.
        ("expires_at", MOMENT),
        ("gone_at", MOMENT),
        // Whether it went without a word.
        ("died", "TINYINT UNSIGNED NOT NULL DEFAULT 0"),
    ],
    primary_key: "worker",
    keys: &[("by_queue", "queue, expires_at")],
};

/// How many jobs each worker has done in each minute, and how many failed.
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

/// What each `queue put` has put so far: by it one whose answer was lost is known again.
pub const PUTS: Table = Table {
    name: "dblock_puts",
    columns: &[
        ("put", ID),
        // How many statements were carried out, and how many jobs they have put.
        ("turn", "BIGINT UNSIGNED NOT NULL"),
        ("jobs", "BIGINT UNSIGNED NOT NULL"),
        // Of the last statement: its first job, and how far the number of the next one is.
        ("first_job", "BIGINT UNSIGNED NOT NULL"),
        ("step", "INT UNSIGNED NOT NULL"),
        ("put_at", "DATETIME(6) NOT NULL"),
    ],
    primary_key: "put",
    keys: &[("by_time", "put_at")],
};

/// Jobs of the fleet's crontab: a row each, which moves forward with each tick that is settled. Its command is in no table.
pub const CRON_JOBS: Table = Table {
    name: "dblock_cron_jobs",
    columns: &[
        ("name", NAME),
        // The five fields, or the nickname, and the zone, of the file that was read last.
        ("schedule", "VARCHAR(1000) NOT NULL"),
        ("zone", "VARCHAR(64) NOT NULL"),
        // A hash of all that the file says of the job, and by how much a tick may be put off.
        ("definition", "VARCHAR(32) NOT NULL"),
        ("jitter_seconds", "INT UNSIGNED NOT NULL DEFAULT 0"),
        // The next tick to settle; NULL: there is none.
        ("next_at", MOMENT),
        // The last tick that was settled, be it taken or skipped.
        ("settled_at", MOMENT),
        // A number that the latest write has chosen: what goes with it is conditional on it.
        ("change_id", OPTIONAL_ID),
        ("paused_at", MOMENT),
        // Somebody wants it to run once, besides.
        ("triggered_at", MOMENT),
        // When the file of a daemon, or somebody, last changed it; and the host of that daemon.
        ("changed_at", "DATETIME(6) NOT NULL"),
        ("changed_by", "VARCHAR(64) NULL"),
        // When a daemon last had it in its file.
        ("seen_at", "DATETIME(6) NOT NULL"),
    ],
    primary_key: "name",
    keys: &[("by_next", "next_at"), ("by_change", "changed_at")],
};

/// Ticks that run, that are to be tried again, or that wait for an earlier one of their job. What is over has no row.
pub const CRON_TICKS: Table = Table {
    name: "dblock_cron_ticks",
    columns: &[
        ("name", NAME),
        ("tick", "DATETIME(6) NOT NULL"),
        // The run of the latest attempt; before the first one a number that no run has.
        ("run", ID_REQUIRED),
        // How often it was started, and how many of these attempts count as failed.
        ("attempt", "INT UNSIGNED NOT NULL"),
        ("failures", "INT UNSIGNED NOT NULL DEFAULT 0"),
        // Who has it; NULL: nobody.
        ("daemon", OPTIONAL_ID),
        // While nobody has it: when it is to be tried again; NULL: when no other tick of its job has a row.
        ("start_at", MOMENT),
        // When the command of this attempt was about to start; NULL: it was not yet.
        ("started_at", MOMENT),
        // Since when no attempt could be started; NULL: the latest was, or there was none.
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
        // How many commands it runs at once.
        ("slots", "INT UNSIGNED NOT NULL"),
        // How many jobs its file has, a hash of all of them, those of which another schedule is in force, and those of which the rest
        // is another than was read last.
        ("jobs", "INT UNSIGNED NOT NULL"),
        ("definition", "VARCHAR(32) NOT NULL"),
        ("disagrees", "TEXT NULL"),
        ("differs", "TEXT NULL"),
        ("started_at", "DATETIME(6) NOT NULL"),
        ("renewed_at", "DATETIME(6) NOT NULL"),
        // As long as it is taken for alive, and since when it is so without a break.
        ("expires_at", "DATETIME(6) NOT NULL"),
        ("alive_since", "DATETIME(6) NOT NULL"),
        // It takes no more ticks; it is gone.
        ("leaving_at", MOMENT),
        ("gone_at", MOMENT),
    ],
    primary_key: "daemon",
    // Each daemon looks once a second which ones are alive; those that are gone stay for a while.
    keys: &[("by_expiry", "expires_at"), ("by_host", "host, user")],
};

/// All of them. The one with the version comes last: it says that the others are there.
pub const TABLES: [Table; 19] = [
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
    META,
];

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
