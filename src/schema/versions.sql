-- The tables that each version of dblock created, and its changes to those of older versions, in order. No dblock runs this: dblock init
-- compares the tables that exist with their definitions. Tests run it, to have the tables of each version. A new version adds its
-- changes at the end. What a dblock has done to its users' tables stays as it is.

-- version 1
CREATE TABLE dblock_locks (
  name VARCHAR(200) NOT NULL,
  slot SMALLINT UNSIGNED NOT NULL,
  fence BIGINT UNSIGNED NOT NULL DEFAULT 0,
  owner CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  write_id BIGINT UNSIGNED NOT NULL DEFAULT 0,
  kind VARCHAR(16) NULL,
  owner_name VARCHAR(200) NULL,
  ttl_seconds INT UNSIGNED NULL,
  acquired_at DATETIME(6) NULL,
  renewed_at DATETIME(6) NULL,
  expires_at DATETIME(6) NULL,
  kill_requested_at DATETIME(6) NULL,
  kill_requested_by VARCHAR(400) NULL,
  PRIMARY KEY (name, slot)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_runs (
  run CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARCHAR(200) NOT NULL,
  slot SMALLINT UNSIGNED NULL,
  slot_name VARCHAR(200) NULL,
  fence BIGINT UNSIGNED NULL,
  tick DATETIME(6) NULL,
  attempt INT UNSIGNED NOT NULL DEFAULT 1,
  host VARCHAR(64) NULL,
  pid BIGINT UNSIGNED NULL,
  user VARCHAR(32) NULL,
  program VARCHAR(100) NULL,
  connection BIGINT UNSIGNED NULL,
  requested_at DATETIME(6) NOT NULL,
  acquired_at DATETIME(6) NULL,
  started_at DATETIME(6) NULL,
  ended_at DATETIME(6) NULL,
  outcome VARCHAR(16) NULL,
  exit_code SMALLINT UNSIGNED NULL,
  signal_name VARCHAR(16) NULL,
  message VARCHAR(400) NULL,
  PRIMARY KEY (run),
  KEY by_name (name, requested_at),
  KEY by_time (requested_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_successes (
  name VARCHAR(200) NOT NULL,
  tick DATETIME(6) NULL,
  run CHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  host VARCHAR(64) NULL,
  pid BIGINT UNSIGNED NULL,
  program VARCHAR(100) NULL,
  started_at DATETIME(6) NOT NULL,
  ended_at DATETIME(6) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_meta (
  id TINYINT UNSIGNED NOT NULL,
  version INT UNSIGNED NOT NULL,
  usable_from INT UNSIGNED NOT NULL,
  keep_seconds BIGINT UNSIGNED NOT NULL DEFAULT 2592000,
  keep_runs INT UNSIGNED NOT NULL DEFAULT 100,
  created_at DATETIME(6) NOT NULL,
  upgraded_at DATETIME(6) NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';

-- version 1, later
ALTER TABLE dblock_locks ADD COLUMN command_run CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL;
ALTER TABLE dblock_locks ADD COLUMN command_until DATETIME(6) NULL;

-- version 2
CREATE TABLE dblock_queues (
  name VARCHAR(200) NOT NULL,
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  claim VARCHAR(8) NOT NULL,
  shards SMALLINT UNSIGNED NOT NULL,
  max_attempts INT UNSIGNED NOT NULL,
  retry_delay_us BIGINT UNSIGNED NOT NULL,
  ttl_seconds INT UNSIGNED NOT NULL,
  keep_seconds BIGINT UNSIGNED NOT NULL,
  paused_at DATETIME(6) NULL,
  deleted_at DATETIME(6) NULL,
  created_at DATETIME(6) NOT NULL,
  PRIMARY KEY (name),
  KEY by_id (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_jobs (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  queue INT UNSIGNED NOT NULL,
  shard SMALLINT UNSIGNED NOT NULL,
  priority INT NOT NULL,
  block BIGINT UNSIGNED NOT NULL,
  payload MEDIUMBLOB NULL,
  parts INT UNSIGNED NOT NULL DEFAULT 0,
  job_key VARCHAR(200) NULL,
  put_at DATETIME(6) NOT NULL,
  canceled_at DATETIME(6) NULL,
  failed_at DATETIME(6) NULL,
  last_error VARCHAR(1000) NULL,
  PRIMARY KEY (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_job_parts (
  job BIGINT UNSIGNED NOT NULL,
  part INT UNSIGNED NOT NULL,
  data MEDIUMBLOB NOT NULL,
  PRIMARY KEY (job, part)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_due (
  queue INT UNSIGNED NOT NULL,
  shard SMALLINT UNSIGNED NOT NULL,
  priority INT NOT NULL,
  job BIGINT UNSIGNED NOT NULL,
  last_job BIGINT UNSIGNED NOT NULL DEFAULT 0,
  block BIGINT UNSIGNED NOT NULL DEFAULT 0,
  jobs INT UNSIGNED NOT NULL DEFAULT 1,
  attempt INT UNSIGNED NOT NULL DEFAULT 0,
  fence BIGINT UNSIGNED NOT NULL DEFAULT 0,
  every_us BIGINT UNSIGNED NULL,
  due_at DATETIME(6) NOT NULL,
  PRIMARY KEY (queue, shard, priority, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_delayed (
  queue INT UNSIGNED NOT NULL,
  shard SMALLINT UNSIGNED NOT NULL,
  priority INT NOT NULL,
  job BIGINT UNSIGNED NOT NULL,
  last_job BIGINT UNSIGNED NOT NULL DEFAULT 0,
  block BIGINT UNSIGNED NOT NULL DEFAULT 0,
  jobs INT UNSIGNED NOT NULL DEFAULT 1,
  attempt INT UNSIGNED NOT NULL DEFAULT 0,
  fence BIGINT UNSIGNED NOT NULL DEFAULT 0,
  every_us BIGINT UNSIGNED NULL,
  due_at DATETIME(6) NOT NULL,
  PRIMARY KEY (queue, due_at, job),
  KEY by_job (job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_running (
  queue INT UNSIGNED NOT NULL,
  shard SMALLINT UNSIGNED NOT NULL,
  priority INT NOT NULL,
  job BIGINT UNSIGNED NOT NULL,
  last_job BIGINT UNSIGNED NOT NULL DEFAULT 0,
  block BIGINT UNSIGNED NOT NULL DEFAULT 0,
  jobs INT UNSIGNED NOT NULL DEFAULT 1,
  attempt INT UNSIGNED NOT NULL DEFAULT 0,
  fence BIGINT UNSIGNED NOT NULL DEFAULT 0,
  every_us BIGINT UNSIGNED NULL,
  due_at DATETIME(6) NOT NULL,
  worker BIGINT UNSIGNED NOT NULL,
  turn BIGINT UNSIGNED NOT NULL,
  claimed_at DATETIME(6) NOT NULL,
  PRIMARY KEY (worker, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_dead (
  queue INT UNSIGNED NOT NULL,
  shard SMALLINT UNSIGNED NOT NULL,
  priority INT NOT NULL,
  job BIGINT UNSIGNED NOT NULL,
  last_job BIGINT UNSIGNED NOT NULL DEFAULT 0,
  block BIGINT UNSIGNED NOT NULL DEFAULT 0,
  jobs INT UNSIGNED NOT NULL DEFAULT 1,
  attempt INT UNSIGNED NOT NULL DEFAULT 0,
  fence BIGINT UNSIGNED NOT NULL DEFAULT 0,
  every_us BIGINT UNSIGNED NULL,
  due_at DATETIME(6) NOT NULL,
  died_at DATETIME(6) NOT NULL,
  PRIMARY KEY (queue, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_done (
  queue INT UNSIGNED NOT NULL,
  shard SMALLINT UNSIGNED NOT NULL,
  priority INT NOT NULL,
  job BIGINT UNSIGNED NOT NULL,
  last_job BIGINT UNSIGNED NOT NULL DEFAULT 0,
  block BIGINT UNSIGNED NOT NULL DEFAULT 0,
  jobs INT UNSIGNED NOT NULL DEFAULT 1,
  attempt INT UNSIGNED NOT NULL DEFAULT 0,
  fence BIGINT UNSIGNED NOT NULL DEFAULT 0,
  every_us BIGINT UNSIGNED NULL,
  due_at DATETIME(6) NOT NULL,
  done_at DATETIME(6) NOT NULL,
  PRIMARY KEY (queue, done_at, job)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_job_keys (
  queue INT UNSIGNED NOT NULL,
  job_key VARCHAR(200) NOT NULL,
  job BIGINT UNSIGNED NOT NULL,
  PRIMARY KEY (queue, job_key)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_workers (
  worker BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  run CHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  queue INT UNSIGNED NOT NULL,
  host VARCHAR(64) NULL,
  pid BIGINT UNSIGNED NULL,
  user VARCHAR(32) NULL,
  program VARCHAR(100) NULL,
  slots INT UNSIGNED NOT NULL,
  turn BIGINT UNSIGNED NOT NULL DEFAULT 0,
  ttl_seconds INT UNSIGNED NOT NULL,
  started_at DATETIME(6) NOT NULL,
  renewed_at DATETIME(6) NOT NULL,
  expires_at DATETIME(6) NULL,
  gone_at DATETIME(6) NULL,
  died TINYINT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (worker),
  KEY by_queue (queue, expires_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_queue_minutes (
  queue INT UNSIGNED NOT NULL,
  minute DATETIME NOT NULL,
  worker BIGINT UNSIGNED NOT NULL,
  done INT UNSIGNED NOT NULL DEFAULT 0,
  failed INT UNSIGNED NOT NULL DEFAULT 0,
  PRIMARY KEY (queue, minute, worker)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_puts (
  put CHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
  turn BIGINT UNSIGNED NOT NULL,
  jobs BIGINT UNSIGNED NOT NULL,
  first_job BIGINT UNSIGNED NOT NULL,
  step INT UNSIGNED NOT NULL,
  put_at DATETIME(6) NOT NULL,
  PRIMARY KEY (put),
  KEY by_time (put_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';

-- version 3
CREATE TABLE dblock_cron_jobs (
  name VARCHAR(200) NOT NULL,
  schedule VARCHAR(1000) NOT NULL,
  zone VARCHAR(64) NOT NULL,
  definition VARCHAR(32) NOT NULL,
  jitter_seconds INT UNSIGNED NOT NULL DEFAULT 0,
  next_at DATETIME(6) NULL,
  settled_at DATETIME(6) NULL,
  change_id CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  paused_at DATETIME(6) NULL,
  triggered_at DATETIME(6) NULL,
  changed_at DATETIME(6) NOT NULL,
  changed_by VARCHAR(64) NULL,
  seen_at DATETIME(6) NOT NULL,
  PRIMARY KEY (name),
  KEY by_next (next_at),
  KEY by_change (changed_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_cron_ticks (
  name VARCHAR(200) NOT NULL,
  tick DATETIME(6) NOT NULL,
  run CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  attempt INT UNSIGNED NOT NULL,
  failures INT UNSIGNED NOT NULL DEFAULT 0,
  daemon CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  start_at DATETIME(6) NULL,
  started_at DATETIME(6) NULL,
  unstarted_at DATETIME(6) NULL,
  ttl_seconds INT UNSIGNED NOT NULL,
  PRIMARY KEY (name, tick)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_cron_daemons (
  daemon CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  host VARCHAR(64) NULL,
  pid BIGINT UNSIGNED NULL,
  user VARCHAR(32) NULL,
  slots INT UNSIGNED NOT NULL,
  jobs INT UNSIGNED NOT NULL,
  definition VARCHAR(32) NOT NULL,
  disagrees TEXT NULL,
  differs TEXT NULL,
  started_at DATETIME(6) NOT NULL,
  renewed_at DATETIME(6) NOT NULL,
  expires_at DATETIME(6) NOT NULL,
  alive_since DATETIME(6) NOT NULL,
  leaving_at DATETIME(6) NULL,
  gone_at DATETIME(6) NULL,
  PRIMARY KEY (daemon),
  KEY by_expiry (expires_at),
  KEY by_host (host, user)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';

-- version 4
ALTER TABLE dblock_locks ALTER COLUMN fence SET DEFAULT 1099511627776;
ALTER TABLE dblock_successes ADD COLUMN needed_seconds INT UNSIGNED NOT NULL DEFAULT 31622400;
ALTER TABLE dblock_running ADD KEY by_turn (worker, turn);
ALTER TABLE dblock_meta ADD COLUMN fence_floor BIGINT UNSIGNED NOT NULL DEFAULT 0;

-- version 5
ALTER TABLE dblock_runs ADD KEY by_host (host, requested_at);
ALTER TABLE dblock_runs ADD KEY by_outcome (outcome, requested_at, run, exit_code, signal_name);

-- version 6
CREATE TABLE dblock_outputs (
  run CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name VARCHAR(200) NOT NULL,
  job BIGINT UNSIGNED NULL,
  kept_at DATETIME(6) NOT NULL,
  head MEDIUMBLOB NOT NULL,
  omitted BIGINT UNSIGNED NOT NULL,
  tail MEDIUMBLOB NOT NULL,
  PRIMARY KEY (run),
  KEY by_name (name, kept_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
CREATE TABLE dblock_audit (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  at DATETIME(6) NOT NULL,
  action VARCHAR(16) NOT NULL,
  object VARCHAR(220) NOT NULL,
  detail VARCHAR(200) NULL,
  by_user VARCHAR(100) NULL,
  via VARCHAR(16) NULL,
  PRIMARY KEY (id),
  KEY by_time (at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin COMMENT='dblock';
