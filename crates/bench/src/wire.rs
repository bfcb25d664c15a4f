//! What goes over the wire before a command starts, counted by a proxy in between.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::Result;
use super::processes::{Records, expect_success, now};
use super::setup::{Server, Setup, Transport};
use super::table::{Row, Table, Unit};

const PART: &str = "wire";

/// Connecting, the server's greeting, logging in, and one statement.
const ROUND_TRIPS: f64 = 4.0;
/// The first two of them, at which the client has sent nothing yet.
const BEFORE_FIRST_WORD: usize = 2;
/// What TLS may cost besides.
const OF_TLS: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    FromServer,
}

type Seen = Arc<Mutex<Vec<(Duration, Direction, usize)>>>;

pub fn measure(setup: &Setup, table: &mut Table) -> Result<()> {
    for server in setup.servers() {
        for (transport, suffix, limit) in [
            (Transport::Tcp, "", ROUND_TRIPS),
            (Transport::Tls, ", with TLS", ROUND_TRIPS + OF_TLS),
        ] {
            // At the first login after its start a MySQL server does not know the password's hash yet: two round trips more.
            count(setup, server, transport)?;
            let [round_trips, sent, received] = count(setup, server, transport)?;
            let what =
                |what: &str| format!("{what} before the command starts, {}{suffix}", server.name);
            table.add(Row::one(PART, what("round trips"), Unit::Count, round_trips).at_most(limit));
            table.add(Row::one(PART, what("bytes sent"), Unit::Bytes, sent));
            table.add(Row::one(
                PART,
                what("bytes received"),
                Unit::Bytes,
                received,
            ));
        }
    }
    Ok(())
}

/// Round trips; bytes each way.
#[allow(clippy::cast_precision_loss, reason = "some thousands")]
fn count(setup: &Setup, server: &Server, transport: Transport) -> Result<[f64; 3]> {
    let seen = Seen::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let between = Server {
        port: listener.local_addr()?.port(),
        ..server.clone()
    };
    let port = server.port;
    let pass = thread::spawn({
        let seen = seen.clone();
        move || -> std::io::Result<()> {
            let (client, _) = listener.accept()?;
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            let (from, to) = (client.try_clone()?, server.try_clone()?);
            let to_server = thread::spawn({
                let seen = seen.clone();
                move || pass_on(from, to, Direction::ToServer, &seen)
            });
            pass_on(server, client, Direction::FromServer, &seen);
            let _ = to_server.join();
            Ok(())
        }
    });
    let file = format!("{}/wire", setup.folder);
    let _ = fs::remove_file(&file);
    let mut dblock = setup.dblock(&between, transport, "wire", &[]);
    dblock.args(setup.job(&file)).arg("0");
    expect_success(&mut dblock)?;
    let started = Records::read(&file, 1)?.starts[0];
    pass.join().map_err(|_| "the proxy broke")??;

    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let before: Vec<_> = seen.iter().filter(|(at, ..)| *at < started).collect();
    let turns = before
        .windows(2)
        .filter(|pair| (pair[0].1, pair[1].1) == (Direction::ToServer, Direction::FromServer))
        .count();
    let bytes = |direction| -> usize {
        let of = before.iter().filter(|(_, other, _)| *other == direction);
        of.map(|(_, _, bytes)| bytes).sum()
    };
    Ok([
        (turns + BEFORE_FIRST_WORD) as f64,
        bytes(Direction::ToServer) as f64,
        bytes(Direction::FromServer) as f64,
    ])
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, direction: Direction, seen: &Seen) {
    let mut buffer = [0; 16384];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        if let Ok(at) = now() {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.push((at, direction, bytes));
        }
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
