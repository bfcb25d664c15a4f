//! Jobs a second: put, and claimed and completed without any work.

use std::time::Duration;

use super::peers::Peer;
use super::work::{Done, Queue, Until};
use super::{PART, floor};
use crate::Result;
use crate::setup::{Server, Setup};
use crate::table::{Row, Table, Unit};
use crate::turns::in_turns;

/// Jobs a second that are to be put in bulk.
const PUT: f64 = 50_000.0;

/// What is claimed by rows is to reach this part of what the same statements reach alone.
const OF_FLOOR: f64 = 0.7;

/// And what is claimed by blocks this many times what beanstalkd reaches.
const TIMES_BEANSTALKD: f64 = 1.5;

/// Workers that claim some hundred jobs at once, and jobs of a batch.
const WORKERS: usize = 8;
const BATCH: usize = 200;

/// Workers that claim one job at a time.
const ONE_BY_ONE: usize = 10;

/// The shards of what has several.
const SHARDS: usize = 16;

/// Who works jobs off in turns with the others.
enum Contender<'a> {
    Batches(Queue<'a>),
    Singles(Queue<'a>),
    /// The statements alone: so many sessions, jobs at once, and shards.
    Floor(Queue<'a>, usize, usize, usize),
    Peer(Peer, bool),
}

impl Contender<'_> {
    fn work(&self, limit: Duration) -> Result<Done> {
        match self {
            Self::Batches(queue) => {
                let options = ["--batch", &BATCH.to_string()];
                queue.work(WORKERS, &options, Until::Over(limit))
            }
            Self::Singles(queue) => queue.work(ONE_BY_ONE, &["--batch", "1"], Until::Over(limit)),
            Self::Floor(queue, sessions, at_once, shards) => {
                floor::work(queue, *sessions, *at_once, *shards, limit)
            }
            Self::Peer(peer, one_by_one) => peer.work(limit, *one_by_one),
        }
    }
}

pub fn measure(setup: &Setup, servers: &[Server], table: &mut Table) -> Result<()> {
    let peers = Peer::all(servers);
    let shards = SHARDS.to_string();
    let mut queues = Vec::new();
    for server in servers {
        let create = |name, options: &[&str]| Queue::create(setup, server, name, options);
        queues.push([
            create("sharded", &["--shards", &shards])?,
            create("strict", &[])?,
            create("blocks", &["--claim", "blocks", "--shards", &shards])?,
        ]);
    }
    put(setup, &queues, &peers, table)?;
    work(setup, &queues, &peers, table)
}

fn row(what: &str, samples: Vec<f64>) -> Row {
    Row::new(PART, what, Unit::Count, samples)
}

/// One after the other, and in bulk: the latter are those that the other lines claim.
fn put(setup: &Setup, queues: &[[Queue; 3]], peers: &[Peer], table: &mut Table) -> Result<()> {
    let sizes = setup.sizes.queue;
    let mut slow = vec![Vec::new(); queues.len()];
    let mut slow_peers = vec![Vec::new(); peers.len()];
    for _ in 0..sizes.rounds {
        for ([queue, ..], rates) in queues.iter().zip(&mut slow) {
            let took = queue.put_one_by_one(sizes.singles)?;
            let jobs = sizes.singles;
            rates.push(Done { jobs, took }.a_second());
        }
        for (peer, rates) in peers.iter().zip(&mut slow_peers) {
            rates.push(peer.put(sizes.singles, true)?.a_second());
        }
    }
    let what = "jobs put a second, one after the other";
    for ([queue, ..], rates) in queues.iter().zip(slow) {
        table.add(row(&queue.server.line(what), rates));
    }
    for (peer, rates) in peers.iter().zip(slow_peers) {
        table.add(row(&format!("{what}: {}", peer.name()), rates));
    }
    let what = "jobs put a second in bulk";
    for of_server in queues {
        for (queue, how) in of_server.iter().zip(["16 shards", "1 shard", "blocks"]) {
            let done = queue.fill_to(sizes.jobs)?;
            let what = format!("{what}, `put --lines`, {how}, {}", queue.server.name);
            table.add(row(&what, vec![done.a_second()]).at_least(PUT));
        }
    }
    for peer in peers {
        let done = peer.put(peer.most_due(sizes.jobs), false)?;
        table.add(row(
            &format!("{what}: {}", peer.name()),
            vec![done.a_second()],
        ));
    }
    Ok(())
}

#[allow(clippy::too_many_lines, reason = "lists of contenders and of lines")]
fn work(setup: &Setup, queues: &[[Queue; 3]], peers: &[Peer], table: &mut Table) -> Result<()> {
    let sizes = setup.sizes.queue;
    let mut contenders = Vec::new();
    for [sharded, strict, blocks] in queues {
        contenders.extend([
            Contender::Floor(sharded.clone(), WORKERS, BATCH, SHARDS),
            Contender::Batches(sharded.clone()),
            Contender::Floor(strict.clone(), WORKERS, BATCH, 1),
            Contender::Batches(strict.clone()),
            Contender::Batches(blocks.clone()),
            Contender::Floor(sharded.clone(), ONE_BY_ONE, 1, SHARDS),
            Contender::Singles(sharded.clone()),
        ]);
    }
    let of_server = contenders.len() / queues.len().max(1);
    for peer in peers {
        contenders.extend([false, true].map(|one_by_one| Contender::Peer(*peer, one_by_one)));
    }
    // What others have left to do is as much for each of their turns.
    let most_due = |peer: &Peer| peer.most_due(sizes.jobs);
    let mut left: Vec<usize> = peers.iter().map(most_due).collect();
    let rates = in_turns(contenders.len(), sizes.rounds, |at| {
        let contender = &contenders[at];
        let done = match contender {
            Contender::Batches(queue) | Contender::Singles(queue) | Contender::Floor(queue, ..) => {
                queue.fill_to(sizes.jobs)?;
                contender.work(sizes.work)?
            }
            Contender::Peer(peer, _) => {
                let left = &mut left[peers.iter().position(|p| p == peer).unwrap_or_default()];
                let jobs = peer.most_due(sizes.jobs);
                if *left < jobs {
                    peer.put(jobs - *left, false)?;
                    *left = jobs;
                }
                let done = contender.work(sizes.work)?;
                *left = left.saturating_sub(done.jobs);
                done
            }
        };
        Ok(done.a_second())
    })?;
    let (ours, theirs) = rates.split_at(of_server * queues.len());
    let of_peers: Vec<[Row; 2]> = peers
        .iter()
        .zip(theirs.chunks(2))
        .map(|(peer, rates)| {
            let what = format!("jobs a second, claimed and completed: {}", peer.name());
            let how = match peer {
                Peer::Graphile => [", local queues of 500", ", 10 at once, no local queue"],
                Peer::Apalis(_) => [", 8 workers, 200 at once", ", 10 workers as by default"],
                _ => [", 8 clients, 200 at once", ", 10 clients, one at a time"],
            };
            let line = |at: usize| row(&format!("{what}{}", how[at]), rates[at].clone());
            [line(0), line(1)]
        })
        .collect();
    let of = |peer| {
        peers
            .iter()
            .position(|p| *p == peer)
            .map(|at| &of_peers[at])
    };
    for ([queue, ..], rates) in queues.iter().zip(ours.chunks(of_server)) {
        let name = queue.server.name;
        let line = |what: &str, at: usize| {
            row(
                &format!("jobs a second, claimed and completed, {what}, {name}"),
                rates[at].clone(),
            )
        };
        for (at, how) in [(0, "16 shards"), (2, "1 shard")] {
            let floor = line(
                &format!("{how}: the statements alone, 8 sessions, 200 at once"),
                at,
            );
            table.add(floor.clone());
            let batches = line(&format!("{how}, 8 × `work --batch 200 -- cat`"), at + 1);
            table.add(
                batches
                    .clone()
                    .against(&floor, "the statements")
                    .ratio_at_least(OF_FLOOR),
            );
            if let Some([graphile, _]) = of(Peer::Graphile) {
                let mut again = batches.against(graphile, "graphile-worker");
                again.what = format!("{}: and again", again.what);
                table.add(again.ratio_at_least(1.0));
            }
        }
        let blocks = line("blocks, 8 × `work --batch 200 -- cat`", 4);
        table.add(match of(Peer::Beanstalkd) {
            Some([beanstalkd, _]) => blocks
                .against(beanstalkd, "beanstalkd")
                .ratio_at_least(TIMES_BEANSTALKD),
            None => blocks,
        });
        let singles = [
            line(
                "16 shards: the statements alone, 10 sessions, one at a time",
                5,
            ),
            line(
                "16 shards, 10 × `work --batch 1 -- cat`, a process for each job",
                6,
            ),
        ];
        for line in singles {
            table.add(match of(Peer::Graphile) {
                Some([_, graphile]) => line.against(graphile, "graphile-worker"),
                None => line,
            });
        }
    }
    for lines in of_peers {
        for line in lines {
            table.add(line);
        }
    }
    Ok(())
}
