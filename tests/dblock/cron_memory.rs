//! The memory of a daemon over a million ticks. The clock is simulated: the jobs' next ticks go back by five days again and again, which is
//! to a daemon as if five days had gone by.

use std::fs;

use crate::harness::crontab::scheduler_of;
use crate::harness::{Crontab, SOON, both_servers, eventually};

const JOBS: u64 = 10;
const DAYS: u64 = 5;
const MINUTES: u64 = DAYS * 24 * 60;

/// Rounds until it has taken what memory it wants, and with those that come then.
const WARM_UP: u64 = 4;
const ROUNDS: u64 = 14;

/// Bytes that may come besides, for pages that are in use by chance.
const MARGIN: u64 = 128 * 1024;

/// The driver reads and writes through two buffers of this size for each session. What was never used of them takes no memory, and so
/// each byte of an answer takes one more until all of it was used.
const BUFFER: u64 = 4 * 1024 * 1024;

/// Bytes of a process's own memory, with the whole of the driver's buffers.
fn memory(pid: i32) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let bytes = |line: &str, what: &str| {
        let kilobytes = line.strip_prefix(what)?.trim().strip_suffix(" kB")?;
        kilobytes.parse::<u64>().ok().map(|number| number * 1024)
    };
    let (mut all, mut size) = (0, 0);
    for line in maps.lines() {
        size = bytes(line, "Size:").unwrap_or(size);
        if let Some(used) = bytes(line, "Anonymous:") {
            let is_buffer = used > 0 && (BUFFER..3 * BUFFER).contains(&size);
            all += if is_buffer { size } else { used };
        }
    }
    all
}

/// So many days go by: each job has one run, of its latest tick, and a row with the number of the others.
fn days_go_by(crontab: &Crontab, round: u64) {
    crontab.tables.sql(&format!(
        "UPDATE dblock_cron_jobs SET next_at = next_at - INTERVAL {DAYS} DAY, changed_at = UTC_TIMESTAMP(6)"
    ));
    eventually("all ticks are settled", SOON * 2, || {
        crontab.count("dblock_cron_jobs WHERE next_at <= UTC_TIMESTAMP(6)") == 0
            && crontab.count("dblock_cron_ticks") == 0
            && crontab.count("dblock_runs WHERE outcome = 'skipped'") >= round * JOBS
    });
}

both_servers! {
    fn a_million_ticks_leave_nothing_behind(server) {
        let lines = (0..JOBS).fold(String::new(), |lines, job| lines + &format!("#: job{job}\n* * * * * true\n"));
        let crontab = Crontab::new(server, &lines);
        let host = crontab.start(&[]);
        let both = [host.pid(), scheduler_of(host.pid()).unwrap()];
        for round in 1..=WARM_UP {
            days_go_by(&crontab, round);
        }
        let before = both.map(memory);
        for round in WARM_UP + 1..=WARM_UP + ROUNDS {
            days_go_by(&crontab, round);
        }
        let after = both.map(memory);
        assert_eq!(scheduler_of(host.pid()), Some(both[1]), "it is still the same");
        let counts: Vec<String> = crontab.rows("SELECT message FROM dblock_runs WHERE outcome = 'skipped' AND message LIKE '% ticks, %'");
        let count = |message: &String| message.split(' ').find_map(|word| word.parse::<u64>().ok()).unwrap();
        let all: u64 = counts.iter().map(count).sum();
        assert!(all >= (WARM_UP + ROUNDS) * JOBS * (MINUTES - 2), "{all} ticks");
        for (before, after) in before.into_iter().zip(after) {
            assert!(after <= before + MARGIN, "{before} bytes became {after}");
        }
    }
}
