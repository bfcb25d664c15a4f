//! Deletes expired jobs, puts, counts and workers, a batch at a time.

use super::entries::{MOST_DELETED, MOST_ENTRIES, ask_ids};
use super::jobs::MOST_JOBS;
use super::narrow::{block_of, by_key, jobs_in, rows};
use super::payloads::{MOST_PARTS, PIECE};
use super::queues::Queue;
use crate::db::sql::{NOW, id_literal, micros, moment, numbers, seconds_ago};
use crate::db::{Ask, Batch, Fault, LIST, Row, Session, ask_values, batch, command, no_answer};
use crate::history::{delete_outputs_of_jobs, prune_outputs};
use crate::schema::{DONE, JOB_PARTS, JOBS, PUTS, QUEUE_MINUTES, Tables, WORKERS};

/// How long puts, counts and departed workers are kept.
const KEPT: &str = "INTERVAL 1 DAY";

/// Without `SKIP LOCKED`: how many candidates are read for each row that is deleted.
const CANDIDATES: usize = 4;

/// What was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// The number of jobs.
    pub jobs: u64,
    /// The number of puts.
    pub puts: u64,
    /// Where the next call starts: earlier jobs are deleted, or others are deleting them. In microseconds since 1970, UTC.
    pub reached: Option<i64>,
    /// Whether there may be more.
    pub has_more: bool,
}

/// Deletes some of the queue's expired jobs, from a moment on, and some puts that are older than a day. Skips rows that others are
/// deleting, if the server can. There must be no transaction under way.
///
/// # Errors
/// Those of a statement. Nothing is lost: a later call deletes the same.
pub fn prune(
    tables: &Tables,
    queue: &Queue,
    skips_locked: bool,
    from: Option<i64>,
    session: &mut Session,
) -> Result<Pruned, Fault> {
    let (mut found, mut puts) = session.run_batch(&lock_old(tables, queue, skips_locked, from))?;
    let is_full = found.len() >= MOST_ENTRIES || puts.len() >= MOST_ENTRIES;
    leave_some_to_others(&mut found);
    leave_some_to_others(&mut puts);
    let taken = at_once(&found);
    let has_rest = taken < found.len();
    found.truncate(taken);
    let ids = match found.first() {
        // A block is alone.
        Some(done) if done.block != 0 => {
            let range = (done.job, done.last_job);
            session.run(&ask_ids(tables, done.block, range, MOST_JOBS))?
        }
        _ => found.iter().map(|done| done.job).collect(),
    };
    session.run_batch(&delete_old(tables, queue, &found, &puts))?;
    delete_outputs_of_jobs(tables, ids.into_iter(), session)?;
    Ok(Pruned {
        jobs: found.iter().map(|done| u64::from(done.jobs)).sum(),
        puts: puts.len() as u64,
        reached: found.last().map(|done| done.at).filter(|_| skips_locked),
        has_more: is_full || has_rest,
    })
}

/// Keeps a random run of candidates, if there are more than are deleted at once.
fn leave_some_to_others<T>(found: &mut Vec<T>) {
    if found.len() > MOST_ENTRIES {
        let chance = usize::try_from(getrandom::u32().unwrap_or_default()).unwrap_or_default();
        found.drain(..chance % (found.len() - MOST_ENTRIES + 1));
        found.truncate(MOST_ENTRIES);
    }
}

/// Deletes some of the queue's counts for each minute, and of its departed workers, that are older than a day.
///
/// # Errors
/// Those of a statement. Nothing is lost: a later call deletes the same.
pub fn prune_records(tables: &Tables, queue: &Queue, session: &mut Session) -> Result<(), Fault> {
    let id = queue.id;
    session.run(&command(
        "queue prune",
        format!(
            "DELETE FROM {} WHERE queue = {id} AND minute < UTC_TIMESTAMP() - {KEPT} \
         ORDER BY queue, minute, worker LIMIT {MOST_DELETED}",
            tables.of(&QUEUE_MINUTES)
        ),
    ))?;
    prune_outputs(tables, session)?;
    let gone = session.run(&ask_gone(tables, queue))?;
    if gone.is_empty() {
        return Ok(());
    }
    session.run(&command("queue prune", format!("DELETE w FROM {} w FORCE INDEX (by_queue) WHERE w.queue = {id} AND w.expires_at IS NULL AND w.worker IN ({})",
        tables.of(&WORKERS),
        numbers(gone)
    )))
}

/// Asks for workers that departed more than a day ago.
fn ask_gone(tables: &Tables, queue: &Queue) -> Ask<'static, Vec<u64>> {
    let sql = format!(
        "SELECT worker FROM {} FORCE INDEX (by_queue) WHERE queue = {} AND expires_at IS NULL \
         AND gone_at < {NOW} - {KEPT} LIMIT {MOST_ENTRIES}",
        tables.of(&WORKERS),
        queue.id
    );
    ask_values("queue prune", sql).up_to(LIST)
}

/// A job or a block that is done.
struct Done {
    /// When it was done, in microseconds since 1970.
    at: i64,
    job: u64,
    /// The last of the block; 0: there is no block.
    last_job: u64,
    block: u64,
    jobs: u32,
    /// Parts of its payload, or what they would be; of a block those of its first job.
    parts: u64,
}

impl Done {
    fn read(row: &Row) -> Result<Self, Fault> {
        let (last_job, block) = block_of(row)?;
        Ok(Self {
            // An application may have written a date that is none.
            at: row.get_or_default("done")?,
            job: row.get("job")?,
            last_job,
            block,
            jobs: jobs_in(row)?,
            parts: row.get_or_default("parts")?,
        })
    }
}

/// How many of these fit into one transaction: one block, which has up to a thousand jobs, or jobs with up to [`MOST_PARTS`] parts.
fn at_once(found: &[Done]) -> usize {
    let mut parts: u64 = 0;
    let fit = found.iter().take_while(|done| {
        // An application may have written any number there.
        parts = parts.saturating_add(done.parts);
        done.block == 0 && parts <= MOST_PARTS
    });
    fit.count().max(usize::from(!found.is_empty()))
}

/// Locks jobs that were kept for long enough, and notes of puts that are old enough, in a transaction that stays open. Where those that
/// others have locked cannot be skipped, it only looks.
fn lock_old(
    tables: &Tables,
    queue: &Queue,
    skips_locked: bool,
    from: Option<i64>,
) -> Batch<'static, (Vec<Done>, Vec<String>)> {
    let (limit, lock) = if skips_locked {
        (MOST_ENTRIES, " FOR UPDATE SKIP LOCKED")
    } else {
        (CANDIDATES * MOST_ENTRIES, "")
    };
    let from = from.map_or(String::new(), |from| {
        format!(" AND n.done_at >= {}", moment(from))
    });
    let jobs = format!(
        "SELECT {} AS done, n.job, n.last_job, n.block, n.jobs, (SELECT j.parts + IFNULL(LENGTH(j.payload), 0) DIV {PIECE} FROM {} j WHERE j.id = n.job) AS parts FROM {} \
         WHERE n.queue = {} AND n.done_at < {}{from} ORDER BY n.queue, n.done_at, n.job \
         LIMIT {limit}{lock}",
        micros("n.done_at"),
        tables.of(&JOBS),
        by_key(tables, &DONE, "n"),
        queue.id,
        seconds_ago(queue.keep.as_secs())
    );
    let statements = vec!["BEGIN".to_owned(), jobs, old_puts(tables, skips_locked)];
    batch("queue prune", statements).read_all(|replies| match replies {
        [_, done, puts] => Ok((done.rows().all(Done::read)?, puts.rows().values()?)),
        _ => Err(no_answer()),
    })
}

/// Each worker locks by the primary key alone, as it deletes: whoever also locks the key by time may wait for another in a circle.
fn old_puts(tables: &Tables, skips_locked: bool) -> String {
    let candidates = CANDIDATES * MOST_ENTRIES;
    let oldest = format!(
        "SELECT put FROM {} FORCE INDEX (by_time) WHERE put_at < {NOW} - {KEPT} ORDER BY put_at LIMIT {candidates}",
        tables.of(&PUTS)
    );
    if !skips_locked {
        return oldest;
    }
    format!(
        "SELECT p.put FROM ({oldest}) old STRAIGHT_JOIN {} ON p.put = old.put LIMIT {MOST_ENTRIES} FOR UPDATE SKIP LOCKED",
        by_key(tables, &PUTS, "p")
    )
}

/// Deletes jobs with all that belongs to them, and notes of puts, and ends the transaction.
fn delete_old(
    tables: &Tables,
    queue: &Queue,
    done: &[Done],
    puts: &[String],
) -> Batch<'static, ()> {
    let mut statements = delete_jobs(tables, queue, done);
    statements.extend(delete_puts(tables, puts));
    statements.push("COMMIT".to_owned());
    batch("queue pruned", statements)
}

fn delete_puts(tables: &Tables, puts: &[String]) -> Option<String> {
    let mut puts = puts.iter().map(|put| id_literal(put));
    let first = format!("{} AS put", puts.next()?);
    Some(format!(
        "DELETE p FROM {} STRAIGHT_JOIN {} ON p.put = old.put",
        rows(first, puts),
        by_key(tables, &PUTS, "p")
    ))
}

fn delete_jobs(tables: &Tables, queue: &Queue, done: &[Done]) -> Vec<String> {
    let Some(first) = done.first() else {
        return Vec::new();
    };
    let (job, last, block) = (first.job, first.last_job, first.block);
    let own = format!("{} AS done_at, {job} AS job", moment(first.at));
    let others = done[1..]
        .iter()
        .map(|done| format!("{}, {}", moment(done.at), done.job));
    let by_key = |table, alias| by_key(tables, table, alias);
    let (j, p) = (by_key(&JOBS, "j"), by_key(&JOB_PARTS, "p"));
    let n = format!(
        "{} STRAIGHT_JOIN {} ON n.queue = {} AND n.done_at = old.done_at AND n.job = old.job",
        rows(own, others),
        by_key(&DONE, "n"),
        queue.id
    );
    let mut statements = if block == 0 {
        vec![
            format!("DELETE p FROM {n} STRAIGHT_JOIN {p} ON p.job = n.job"),
            format!("DELETE j FROM {n} STRAIGHT_JOIN {j} ON j.id = n.job"),
        ]
    } else {
        let of = format!("j.id BETWEEN {job} AND {last} AND j.block = {block}");
        vec![
            format!(
                "DELETE p FROM {n} STRAIGHT_JOIN {j} ON {of} STRAIGHT_JOIN {p} ON p.job = j.id"
            ),
            format!("DELETE j FROM {n} STRAIGHT_JOIN {j} ON {of}"),
        ]
    };
    statements.push(format!("DELETE n FROM {n}"));
    statements
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mysql::prelude::Queryable;

    use super::*;
    use crate::queue::{Claim, Properties, create, find_queue};
    use crate::schema::Fixture;

    const NARROW: &str = "queue, shard, priority, job, last_job, block, jobs, due_at";

    impl Fixture {
        fn queue(&mut self, name: &str) -> Queue {
            let properties = Properties {
                claim: Claim::Rows,
                shards: 1,
                max_attempts: 1,
                retry_delay: Duration::ZERO,
                ttl: Duration::from_secs(60),
                keep: Duration::from_secs(3600),
            };
            create(name, &properties, &self.tables, &mut self.session).unwrap();
            let find = find_queue(&self.tables, name);
            self.session.run(&find).unwrap().unwrap()
        }

        #[track_caller]
        fn sql(&mut self, statement: &str) {
            let done = self.client.query_drop(statement);
            done.unwrap_or_else(|error| panic!("{statement}: {error}"));
        }

        fn count(&mut self, what: &str) -> u64 {
            let query = format!("SELECT COUNT(*) FROM {what}");
            self.client.query_first(query).unwrap().unwrap()
        }

        /// Jobs that were done so many minutes ago: each by itself, or as one block.
        fn done(&mut self, queue: u32, first: u64, jobs: u64, minutes: u32, is_block: bool) {
            let block = if is_block { first } else { 0 };
            for id in first..first + jobs {
                self.sql(&format!(
                    "INSERT INTO dblock_jobs (id, queue, shard, priority, block, put_at, parts) VALUES ({id}, {queue}, 0, 0, {block}, NOW(6), 1)"
                ));
                self.sql(&format!(
                    "INSERT INTO dblock_job_parts VALUES ({id}, 0, 'x')"
                ));
                self.sql(&format!(
                    "INSERT INTO dblock_outputs VALUES ('{id}', 'q', {id}, NOW(6), 'x', 0, '')"
                ));
            }
            let rows = if is_block { 1 } else { jobs };
            let (last, each) = if is_block {
                (first + jobs - 1, jobs)
            } else {
                (0, 1)
            };
            for id in first..first + rows {
                self.sql(&format!(
                    "INSERT INTO dblock_done ({NARROW}, done_at) VALUES ({queue}, 0, 0, {id}, {last}, {block}, {each}, NOW(6), \
                     UTC_TIMESTAMP(6) - INTERVAL {minutes} MINUTE)"
                ));
            }
        }
    }

    fn what_is_old_is_deleted_a_little_at_a_time(kind: &str, skips_locked: bool) {
        let mut fixture = Fixture::new(kind, "dblock_queue_prune");
        let using = Ask::written("USE dblock_queue_prune");
        fixture.session.run(&using).unwrap();
        let (queue, other) = (fixture.queue("q"), fixture.queue("other"));
        fixture.done(queue.id, 1, 450, 61, false);
        fixture.done(queue.id, 1001, 3, 59, false);
        fixture.done(queue.id, 2001, 300, 70, true);
        fixture.done(other.id, 3001, 2, 99, false);
        for (minutes, worker) in [(1441, 1), (1439, 2)] {
            fixture.sql(&format!(
                "INSERT INTO dblock_queue_minutes VALUES ({}, UTC_TIMESTAMP() - INTERVAL {minutes} MINUTE, {worker}, 1, 1)",
                queue.id
            ));
            fixture.sql(&format!(
                "INSERT INTO dblock_puts VALUES ('{worker}', 1, 1, 1, 1, UTC_TIMESTAMP(6) - INTERVAL {minutes} MINUTE)"
            ));
            for expires in ["NULL", "UTC_TIMESTAMP(6) - INTERVAL 2 DAY"] {
                fixture.sql(&format!(
                    "INSERT INTO dblock_workers (run, queue, slots, ttl_seconds, started_at, renewed_at, expires_at, gone_at) VALUES \
                     ('{worker}', {}, 1, 60, NOW(6), NOW(6), {expires}, UTC_TIMESTAMP(6) - INTERVAL {minutes} MINUTE)",
                    queue.id
                ));
            }
        }
        prune_records(&fixture.tables, &queue, &mut fixture.session).unwrap();
        fixture.tables.check(&mut fixture.session).unwrap();
        let (mut left, mut from) = (Vec::new(), None);
        loop {
            let pruned = prune(
                &fixture.tables,
                &queue,
                skips_locked,
                from,
                &mut fixture.session,
            )
            .unwrap();
            from = pruned.reached;
            left.push((fixture.count("dblock_done"), fixture.count("dblock_jobs")));
            if !pruned.has_more {
                break;
            }
        }
        if skips_locked {
            // First the block, which is the oldest, and then as many as have 64 parts.
            let all = [455, 391, 327, 263, 199, 135, 71, 7, 5].map(|left| (left, left));
            assert_eq!(left, all, "{kind}");
        }
        assert_eq!(left.last(), Some(&(5, 5)), "{kind}");
        for table in ["queue_minutes", "puts"] {
            assert_eq!(
                fixture.count(&format!("dblock_{table}")),
                1,
                "{kind} {table}"
            );
        }
        // What belongs to a job goes with it.
        for table in ["outputs", "job_parts"] {
            let kept = fixture.count(&format!("dblock_{table}"));
            assert_eq!(kept, 5, "{kind} {table}");
        }
        // One that is not gone yet is for another worker to find.
        assert_eq!(fixture.count("dblock_workers"), 3);
        // Nothing is left half.
        let orphans = "dblock_jobs j LEFT JOIN dblock_done d ON d.job = j.id WHERE d.job IS NULL";
        assert_eq!(fixture.count(orphans), 0);
    }

    #[test]
    fn what_is_old_is_deleted_a_little_at_a_time_on_mariadb() {
        what_is_old_is_deleted_a_little_at_a_time("mariadb", true);
        what_is_old_is_deleted_a_little_at_a_time("mariadb", false);
    }

    #[test]
    fn what_is_old_is_deleted_a_little_at_a_time_on_mysql() {
        what_is_old_is_deleted_a_little_at_a_time("mysql", true);
    }
}
