//! What the rows cost without anything around them: sessions that claim jobs and delete them by the statements of a worker, in one
//! packet and one transaction a turn, and start nothing.

use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;

use super::work::{Done, Queue};
use crate::Result;
use crate::setup::Server;

/// A deadlock, and a lock that was waited for too long: the transaction may be repeated.
const CONFLICTS: [u16; 2] = [1213, 1205];

/// Numbers that no worker gets.
const WORKERS: usize = 4_000_000_000;

/// So many sessions, each of which claims so many jobs at once until the time is over or nothing is due.
pub fn work(
    queue: &Queue,
    sessions: usize,
    at_once: usize,
    shards: usize,
    limit: Duration,
) -> Result<Done> {
    let before = queue.jobs()?;
    let mut session = queue.server.session()?;
    let id: Option<u32> = session.query_first(format!(
        "SELECT id FROM dblock.dblock_queues WHERE name = '{}' AND deleted_at IS NULL",
        queue.name
    ))?;
    let id = id.ok_or("no such queue")?;
    let begun = Instant::now();
    let all: Vec<_> = (0..sessions)
        .map(|number| {
            let server = queue.server.clone();
            thread::spawn(move || {
                let mut looper = Loop {
                    session: connect(&server)?,
                    queue: id,
                    worker: WORKERS + number,
                    at_once,
                    shards,
                };
                looper.run(begun + limit).map_err(|error| error.to_string())
            })
        })
        .collect();
    let mut jobs = 0;
    for each in all {
        jobs += each.join().map_err(|_| "a session failed")??;
    }
    let took = begun.elapsed();
    let gone = before - queue.jobs()?;
    if gone != jobs {
        return Err(format!("{jobs} jobs were claimed, and {gone} are gone").into());
    }
    Ok(Done { jobs, took })
}

fn connect(server: &Server) -> std::result::Result<Conn, String> {
    let mut session = server.session().map_err(|error| error.to_string())?;
    for statement in [
        "USE dblock",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ] {
        session
            .query_drop(statement)
            .map_err(|error| error.to_string())?;
    }
    Ok(session)
}

struct Loop {
    session: Conn,
    queue: u32,
    worker: usize,
    at_once: usize,
    shards: usize,
}

impl Loop {
    fn run(&mut self, until: Instant) -> mysql::Result<usize> {
        let mut shard = fastrand::usize(..self.shards);
        let (mut done, mut missed, mut turn) = (0, 0, 0_u64);
        let mut claimed: Vec<u64> = Vec::new();
        loop {
            let is_last = missed >= self.shards || Instant::now() >= until;
            done += claimed.len();
            turn += 1;
            let packet = self.packet(&claimed, turn, (!is_last).then_some(shard));
            claimed = loop {
                match self.turn(&packet) {
                    Err(mysql::Error::MySqlError(error)) if CONFLICTS.contains(&error.code) => {
                        self.session.query_drop("ROLLBACK")?;
                    }
                    result => break result?,
                }
            };
            if is_last {
                return Ok(done);
            }
            missed = if claimed.is_empty() { missed + 1 } else { 0 };
            shard = (shard + 1) % self.shards;
        }
    }

    fn turn(&mut self, packet: &str) -> mysql::Result<Vec<u64>> {
        let mut result = self.session.query_iter(packet)?;
        let mut claimed = Vec::new();
        while let Some(rows) = result.iter() {
            for row in rows {
                let (job, _payload): (u64, Option<Vec<u8>>) = mysql::from_row(row?);
                claimed.push(job);
            }
        }
        Ok(claimed)
    }

    /// Deletes what was claimed, and claims in a shard.
    fn packet(&self, claimed: &[u64], turn: u64, shard: Option<usize>) -> String {
        let (queue, worker, at_once) = (self.queue, self.worker, self.at_once);
        let mut statements = vec!["BEGIN".to_owned()];
        if !claimed.is_empty() {
            let claimed: Vec<_> = claimed.iter().map(u64::to_string).collect();
            statements.push(format!(
                "DELETE r, j FROM dblock.dblock_running r FORCE INDEX (PRIMARY) STRAIGHT_JOIN dblock.dblock_jobs j ON j.id = r.job \
                 WHERE r.worker = {worker} AND r.job IN ({})",
                claimed.join(",")
            ));
        }
        if let Some(shard) = shard {
            statements.push(format!(
                "INSERT INTO dblock.dblock_running (queue, shard, priority, job, last_job, block, jobs, fence, attempt, every_us, \
                 due_at, worker, turn, claimed_at) SELECT d.queue, d.shard, d.priority, d.job, d.last_job, d.block, d.jobs, \
                 d.fence + 1, d.attempt + 1, d.every_us, d.due_at, {worker}, {turn}, UTC_TIMESTAMP(6) FROM dblock.dblock_due d FORCE INDEX (PRIMARY) \
                 WHERE d.queue = {queue} AND d.shard = {shard} ORDER BY d.priority, d.job LIMIT {at_once} FOR UPDATE SKIP LOCKED"
            ));
            statements.push(format!(
                "DELETE d FROM dblock.dblock_running r FORCE INDEX (PRIMARY) STRAIGHT_JOIN dblock.dblock_due d FORCE INDEX (PRIMARY) ON d.queue = r.queue AND d.shard = r.shard \
                 AND d.priority = r.priority AND d.job = r.job WHERE r.worker = {worker} AND r.turn = {turn}"
            ));
        }
        statements.push("COMMIT".to_owned());
        if shard.is_some() {
            statements.push(format!(
                "SELECT r.job, j.payload FROM dblock.dblock_running r LEFT JOIN dblock.dblock_jobs j ON j.id = r.job \
                 WHERE r.worker = {worker} AND r.turn = {turn}"
            ));
        }
        statements.join(";")
    }
}
