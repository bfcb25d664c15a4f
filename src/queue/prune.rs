//! Deleting what nobody needs any more, a little at a time.

use super::entries::{AskEntries, MOST_DELETED, MOST_ENTRIES, delete_entries};
use super::jobs::State;
use super::queues::Queue;
use crate::db::{Fault, Plain, Session};
use crate::schema::{PUTS, QUEUE_MINUTES, Tables, WORKERS};

/// How long is kept what is only looked up.
const KEPT: &str = "INTERVAL 1 DAY";

/// Deletes, a few hundred rows each: jobs of the queue that are done and were kept for as long as it says, its counts of minutes and its
/// workers that are gone for more than a day, and the notes of all puts that are older than a day. Each statement is a transaction of
/// its own: there must be none under way. Whether there may be more.
///
/// # Errors
/// Those of a statement; nothing depends on it.
pub fn prune(tables: &Tables, queue: &Queue, session: &mut Session) -> Result<bool, Fault> {
    let id = queue.id;
    let which = format!(
        "WHERE n.queue = {id} AND n.done_at < UTC_TIMESTAMP(6) - INTERVAL {} SECOND ORDER BY n.queue, n.done_at, n.job \
         LIMIT {MOST_ENTRIES}",
        queue.keep.as_secs()
    );
    let mut done = session.run(&AskEntries {
        tables,
        state: State::Done,
        which,
    })?;
    let is_full = done.len() == MOST_ENTRIES;
    // A block has a thousand jobs.
    if done.iter().any(super::entries::Entry::is_block) {
        done.truncate(1);
    }
    let has_more = is_full || done.iter().any(super::entries::Entry::is_block);
    delete_entries(&done, tables, session)?;
    for statement in [
        format!(
            "DELETE FROM {} WHERE queue = {id} AND minute < UTC_TIMESTAMP() - {KEPT} ORDER BY queue, minute, worker",
            tables.of(&QUEUE_MINUTES)
        ),
        format!(
            "DELETE FROM {} WHERE put_at < UTC_TIMESTAMP(6) - {KEPT} ORDER BY put_at",
            tables.of(&PUTS)
        ),
        format!(
            "DELETE FROM {} WHERE queue = {id} AND expires_at IS NULL AND gone_at < UTC_TIMESTAMP(6) - {KEPT}",
            tables.of(&WORKERS)
        ),
    ] {
        session.run(&Plain(format!(
            "/* dblock queue prune */ {statement} LIMIT {MOST_DELETED}"
        )))?;
    }
    Ok(has_more)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mysql::prelude::Queryable;

    use super::*;
    use crate::queue::{Claim, FindQueue, Properties, create};
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
            let find = FindQueue {
                tables: &self.tables,
                name,
            };
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

    fn what_is_old_is_deleted_a_little_at_a_time(kind: &str) {
        let mut fixture = Fixture::new(kind, "dblock_queue_prune");
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
        let mut left = Vec::new();
        for _ in 0..6 {
            prune(&fixture.tables, &queue, &mut fixture.session).unwrap();
            left.push((fixture.count("dblock_done"), fixture.count("dblock_jobs")));
        }
        // First the block, which is the oldest, and then the others.
        let all = [(455, 455), (255, 255), (55, 55), (5, 5), (5, 5), (5, 5)];
        assert_eq!(left, all, "{kind}");
        assert_eq!(fixture.count("dblock_job_parts"), 5);
        for table in ["queue_minutes", "puts"] {
            assert_eq!(
                fixture.count(&format!("dblock_{table}")),
                1,
                "{kind} {table}"
            );
        }
        // One that is not gone yet is for another worker to find.
        assert_eq!(fixture.count("dblock_workers"), 3);
        // Nothing is left half.
        let orphans = "dblock_jobs j LEFT JOIN dblock_done d ON d.job = j.id WHERE d.job IS NULL";
        assert_eq!(fixture.count(orphans), 0);
    }

    #[test]
    fn what_is_old_is_deleted_a_little_at_a_time_on_mariadb() {
        what_is_old_is_deleted_a_little_at_a_time("mariadb");
    }

    #[test]
    fn what_is_old_is_deleted_a_little_at_a_time_on_mysql() {
        what_is_old_is_deleted_a_little_at_a_time("mysql");
    }
}
