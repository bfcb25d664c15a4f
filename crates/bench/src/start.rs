//! Whole processes, from start to end: what a crontab line costs with each wrapper when the lock is free.

use std::process::{Command, Stdio};
use std::time::Instant;

use super::Result;
use super::setup::{Setup, Transport};
use super::table::{Row, Table, Unit};

/// Runs before those that count.
const WARM_UP: usize = 5;

pub const PART: &str = "start";

/// What others are measured against.
pub const FLOCK: &str = "`flock -n FILE true`";
pub const DBLOCK: &str = "`dblock run --name b -- true`, MariaDB";
/// With nothing but a URL, at a server as Debian configures it. A connection that asks for TLS comes first, in vain.
pub const DEFAULT: &str = "`dblock run --name b -- true`, default settings, server without TLS";

/// Most that dblock should take of `flock`'s time, and of that of `etcdctl lock`.
const FLOCKS: f64 = 2.5;
const ETCDS: f64 = 0.25;

struct Contender {
    /// In the table.
    place: usize,
    name: String,
    command: Command,
    times: Vec<f64>,
}

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let mut contenders = contenders(setup);
    for round in 0..WARM_UP + setup.sizes.runs {
        // Nobody always comes after the same one.
        fastrand::shuffle(&mut contenders);
        for contender in &mut contenders {
            let begun = Instant::now();
            let status = contender.command.status()?;
            let took = begun.elapsed();
            if !status.success() {
                return Err(format!("{} failed: {status}", contender.name).into());
            }
            if round >= WARM_UP {
                contender.times.push(took.as_secs_f64());
            }
        }
    }
    contenders.sort_by_key(|contender| contender.place);
    let rows: Vec<Row> = contenders
        .into_iter()
        .map(|contender| Row::new(PART, contender.name, Unit::Seconds, contender.times))
        .collect();
    let flock = rows[0].clone();
    let named = |name: &str| rows.iter().find(|row| row.what.starts_with(name)).cloned();
    let etcd = named("`etcdctl");
    for row in rows.clone() {
        let is_dblock = row.what.starts_with("`dblock")
            && !row.what.ends_with("with TLS")
            && !row.what.ends_with("socket");
        let row = if row.what == FLOCK {
            row
        } else {
            row.against(&flock, "flock")
        };
        table.add(if is_dblock {
            row.ratio_at_most(FLOCKS)
        } else {
            row
        });
    }
    if let (Some(dblock), Some(etcd)) = (named(DBLOCK), etcd) {
        let row = Row {
            what: "that of MariaDB against `etcdctl lock`".to_owned(),
            ..dblock
        };
        table.add(row.against(&etcd, "etcdctl").ratio_at_most(ETCDS));
    }
    Ok(())
}

fn contenders(setup: &Setup) -> Vec<Contender> {
    let folder = &setup.folder;
    let other = |name: &str, line: &str| {
        let mut words = line.split(' ');
        let mut command = setup.other(words.next().unwrap_or_default());
        command.args(words);
        (name.to_owned(), command)
    };
    let mut contenders = vec![
        other(FLOCK, &format!("flock -n {folder}/f true")),
        other(
            "the same exchange by a static C program, MariaDB",
            &format!("{folder}/floor {} floor true", setup.mariadb.port),
        ),
    ];
    let mut command = setup.dblock(&setup.without_tls, Transport::Default, "b", &[]);
    command.arg("true");
    contenders.push((DEFAULT.to_owned(), command));
    for server in setup.servers() {
        for (transport, suffix) in [
            (Transport::Tcp, ""),
            (Transport::Socket, ", by its socket"),
            (Transport::Tls, ", with TLS"),
        ] {
            let name = format!("`dblock run --name b -- true`, {}{suffix}", server.name);
            let mut command = setup.dblock(server, transport, "b", &[]);
            command.arg("true");
            contenders.push((name, command));
        }
    }
    if let Some(binary) = &setup.linked_statically {
        let url = format!("mysql://dblock@127.0.0.1:{}/", setup.mariadb.port);
        let mut command = setup.program(binary, &url);
        command.args(["run", "--name", "b", "--", "true"]);
        contenders.push((format!("{DBLOCK}, the static binary"), command));
    }
    contenders.extend([
        other(
            "`redis-cli` in a shell script, `SET NX` and `DEL`",
            &format!("{folder}/redis-lock {} b true", setup.redis),
        ),
        other(
            "`etcdctl lock b true`",
            &format!("etcdctl --endpoints {} lock b true", setup.etcd),
        ),
        other(
            "`sem --fg --id b true` (GNU parallel)",
            "sem --fg --id b true",
        ),
    ]);
    contenders
        .into_iter()
        .enumerate()
        .map(|(place, (name, mut command))| {
            command.stdout(Stdio::null());
            let times = Vec::new();
            Contender {
                place,
                name,
                command,
                times,
            }
        })
        .collect()
}
