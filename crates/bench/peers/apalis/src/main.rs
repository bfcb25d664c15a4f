//! apalis on MySQL: its own tables in the database that BENCH_APALIS_URL names.
//!
//!   apalis-peer fill JOBS      puts them, a thousand a statement; prints seconds
//!   apalis-peer put JOBS       puts them, one after the other; prints seconds
//!   apalis-peer work SECONDS WORKERS BUFFER
//!       does jobs that do nothing until the time is over or there are none; prints how many, and seconds

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_mysql::{Config, MySqlPool, MySqlStorage};

type Result<T> = std::result::Result<T, BoxDynError>;

/// How long without a job, in seconds, means that there are none: it looks for them ten times a second at most.
const NONE_FOR: f64 = 3.0;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("BENCH_APALIS_URL")?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let pool = MySqlPool::connect(&url).await?;
    MySqlStorage::setup(&pool).await?;
    match arguments[..] {
        ["fill", jobs] => put(&pool, jobs.parse()?, 1000).await,
        ["put", jobs] => put(&pool, jobs.parse()?, 1).await,
        ["work", seconds, workers, buffer] => {
            let limit = Duration::from_secs_f64(seconds.parse()?);
            work(&pool, limit, workers.parse()?, buffer.parse()?).await
        }
        _ => Err("fill JOBS, put JOBS or work SECONDS WORKERS BUFFER".into()),
    }
}

async fn put(pool: &MySqlPool, jobs: usize, each: usize) -> Result<()> {
    let config = Config::new("nothing").set_buffer_size(each);
    let mut storage = MySqlStorage::<u64, _, _>::new_with_config(pool, &config);
    let begun = Instant::now();
    let mut done = 0;
    while done < jobs {
        let count = each.min(jobs - done);
        if each == 1 {
            storage.push(done as u64).await?;
        } else {
            let batch: Vec<u64> = (done as u64..(done + count) as u64).collect();
            storage.push_bulk(batch).await?;
        }
        done += count;
    }
    println!("{}", begun.elapsed().as_secs_f64());
    Ok(())
}

/// What all workers have in common.
struct Counts {
    begun: Instant,
    done: AtomicUsize,
    /// When the last job was done, in microseconds.
    last: AtomicU64,
}

async fn work(pool: &MySqlPool, limit: Duration, workers: usize, buffer: usize) -> Result<()> {
    let counts = Arc::new(Counts {
        begun: Instant::now(),
        done: AtomicUsize::new(0),
        last: AtomicU64::new(0),
    });
    for number in 0..workers {
        let config = Config::new("nothing").set_buffer_size(buffer);
        let storage = MySqlStorage::<u64, _, _>::new_with_config(pool, &config);
        let name = format!("worker-{}-{number}", std::process::id());
        let worker = WorkerBuilder::new(name)
            .backend(storage)
            .data(Arc::clone(&counts));
        let worker = worker.build(nothing);
        tokio::spawn(worker.run());
    }
    let last = || counts.last.load(Ordering::Relaxed) as f64 / 1e6;
    while counts.begun.elapsed() < limit && counts.begun.elapsed().as_secs_f64() - last() < NONE_FOR
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!(
        "{} {}",
        counts.done.load(Ordering::Relaxed),
        last().max(0.001)
    );
    std::process::exit(0);
}

async fn nothing(_job: u64, counts: Data<Arc<Counts>>) {
    counts.done.fetch_add(1, Ordering::Relaxed);
    counts
        .last
        .store(counts.begun.elapsed().as_micros() as u64, Ordering::Relaxed);
}
