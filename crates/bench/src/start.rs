//! Whole processes, from start to end: what a crontab line costs with each wrapper when the lock is free.

use std::process::Stdio;

use super::Result;
use super::setup::{ACCOUNT, Setup, Transport};
use super::table::{Row, Table, Unit};
use super::turns::{Step, times};

pub const PART: &str = "start";

/// What others are measured against.
pub const FLOCK: &str = "`flock -n FILE true`";
pub const DBLOCK: &str = "`dblock run --name b -- true`, MariaDB";
/// With nothing but a URL, at a server as Debian configures it. A connection that asks for TLS comes first, in vain.
pub const DEFAULT: &str = "`dblock run --name b -- true`, default settings, server without TLS";

/// Most that dblock should take of `flock`'s time, and of that of `etcdctl lock`.
const FLOCKS: f64 = 2.5;
const ETCDS: f64 = 0.25;

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    let (what, mut steps): (Vec<String>, Vec<Step>) = contenders(setup).into_iter().unzip();
    let times = times(&mut steps, setup.sizes.runs)?;
    let rows: Vec<Row> = what
        .into_iter()
        .zip(times)
        .map(|(what, times)| Row::new(PART, what, Unit::Seconds, times))
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

fn contenders(setup: &Setup) -> Vec<(String, Step)> {
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
        let mut command = setup.program(binary, &setup.mariadb.url(ACCOUNT));
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
        .map(|(name, mut command)| {
            command.stdout(Stdio::null());
            (name, Step::Program(command))
        })
        .collect()
}
