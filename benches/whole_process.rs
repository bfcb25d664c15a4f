//! Whole processes, side by side: dblock, flock, etcdctl, and the smallest C program with dblock's exchange on the wire.
//!
//! `script/bench` starts the servers and tells this program where they are. Runs alternate, so that a machine that is
//! busy for a while is busy for all of them; what counts are the ratios.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Times each program is run.
const RUNS: usize = 100;
/// Runs before that, which are not counted.
const WARM_UP: usize = 5;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Contender {
    name: &'static str,
    command: Vec<String>,
    times: Vec<Duration>,
}

fn main() -> Result<()> {
    let dblock = env!("CARGO_BIN_EXE_dblock");
    let given = |variable| {
        env::var(variable).map_err(|_| format!("{variable} is not set: run script/bench"))
    };
    let contender = |name, command: &str| Contender {
        name,
        command: command.split(' ').map(str::to_owned).collect(),
        times: Vec::with_capacity(RUNS),
    };
    let folder = given("BENCH_FOLDER")?;
    let mut contenders = vec![
        contender("flock -n f true", &format!("flock -n {folder}/f true")),
        contender(
            "smallest C program",
            &format!("{folder}/floor {} floor true", given("BENCH_PORT")?),
        ),
        contender(
            "dblock run --name b -- true",
            &format!("{dblock} run --name b -- true"),
        ),
        contender(
            "etcdctl lock b true",
            &format!("etcdctl --endpoints {} lock b true", given("BENCH_ETCD")?),
        ),
    ];
    for round in 0..WARM_UP + RUNS {
        for contender in &mut contenders {
            let begun = Instant::now();
            let status = Command::new(&contender.command[0])
                .args(&contender.command[1..])
                .stdout(Stdio::null())
                .status()?;
            let took = begun.elapsed();
            if !status.success() {
                return Err(format!("{} failed: {status}", contender.name).into());
            }
            if round >= WARM_UP {
                contender.times.push(took);
            }
        }
    }
    let mut flock = None;
    println!(
        "{:<30} {:>10} {:>10} {:>8}",
        "", "median", "fastest", "flocks"
    );
    for contender in &mut contenders {
        contender.times.sort();
        let median = contender.times[RUNS / 2];
        let ratio = median.as_secs_f64() / flock.get_or_insert(median).as_secs_f64();
        let fastest = contender.times[0];
        println!(
            "{:<30} {median:>10.2?} {fastest:>10.2?} {ratio:>8.2}",
            contender.name
        );
    }
    memory_of_a_holder(dblock)?;
    println!("binary: {} bytes", fs::metadata(dblock)?.len());
    Ok(())
}

/// What the two processes of a holder occupy while its command runs. The keeper's are told to root alone.
fn memory_of_a_holder(dblock: &str) -> Result<()> {
    let mut holder = Command::new(dblock)
        .args([
            "run",
            "--name",
            "memory",
            "--",
            "sh",
            "-c",
            "echo held; read _",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(holder.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    let supervisor = holder.id();
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"))?;
    let keeper = children.split_whitespace().next().ok_or("no keeper")?;
    let mut private_of_both = 0;
    for (name, pid) in [
        ("supervisor", supervisor.to_string()),
        ("keeper", keeper.to_owned()),
    ] {
        let pages = fs::read_to_string(Path::new("/proc").join(pid).join("smaps"))?;
        let (resident, private) = kilobytes(&pages);
        private_of_both += private;
        println!("{name}: {resident} kB resident, {private} kB private");
    }
    println!("both: {private_of_both} kB private");
    drop(holder.stdin.take());
    holder.wait()?;
    Ok(())
}

/// Resident pages, and those that no other process shares. The program's own pages count as shared: every dblock of the
/// host maps the same file.
fn kilobytes(smaps: &str) -> (u64, u64) {
    let (mut resident, mut private, mut anonymous, mut total) = (0, 0, 0, 0);
    for line in smaps.lines() {
        let mut words = line.split_whitespace();
        let field = words.next().unwrap_or_default();
        let value: u64 = words
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or_default();
        match field {
            "Rss:" => resident += value,
            "Private_Clean:" => private = value,
            "Private_Dirty:" => private += value,
            "Anonymous:" => anonymous = value,
            // The last field of each mapping.
            "VmFlags:" => total += private.min(anonymous),
            _ => {}
        }
    }
    (resident, total)
}
