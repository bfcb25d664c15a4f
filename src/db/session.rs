//! A session with a server: statements go out, rows and faults come back.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use native_tls::Agreed;
use nix::sys::socket::{SockaddrStorage, getpeername, getsockopt, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::ask::{Ask, Batch, Reply, ask};
use super::fault::Fault;
use super::row::{Row, Rows};
use super::tls;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Listener};

/// How long the answer to the second statement of a packet may come after that to the first.
const PROMISED: Duration = Duration::from_secs(2);

/// A session. Its locks live as long as it does. Dropping it logs out from the server.
pub struct Session {
    conn: Conn,
    target: String,
    server: String,
    opened_in: Duration,
    agreed: Option<Agreed>,
    listener: Listener,
    /// Whether each statement of a batch is sent in its own packet.
    is_one_by_one: bool,
    /// Why it has ended. Afterwards the connection may be out of step: a late answer to one statement would be read as that to the next.
    ended: Option<String>,
}

impl Session {
    /// Wraps a connection that is ready for statements, with the server's name as given and as shown, and the `agreed` TLS. Removes the
    /// handshake's limit on reading, as a statement that waits for a lock may take hours. Keeps the limit on writing.
    pub(super) fn new(
        conn: Conn,
        (target, server): (String, String),
        opened_in: Duration,
        agreed: Option<Agreed>,
        listener: Listener,
    ) -> Result<Self, Fault> {
        let session = Self {
            conn,
            target,
            server,
            opened_in,
            agreed,
            listener,
            is_one_by_one: false,
            ended: None,
        };
        limit_reading(session.as_fd(), Duration::ZERO)
            .map_err(|error| Fault::Gone(error.to_string()))?;
        Ok(session)
    }

    /// Sends a statement, and reads its answer.
    ///
    /// # Errors
    /// After a [`Fault::Gone`] of the connection the session fails every statement with the same fault.
    pub fn run<T>(&mut self, ask: &Ask<T>) -> Result<T, Fault> {
        self.begin(ask.sql())?;
        let rows = self.rows(ask);
        let rows = rows.map_err(|error| self.failed(error))?;
        ask.read(Rows(&rows))
    }

    /// Notes that a statement is sent, unless the session has ended.
    fn begin(&self, sql: &str) -> Result<(), Fault> {
        if let Some(cause) = &self.ended {
            return Err(Fault::Gone(cause.clone()));
        }
        (self.listener)(Level::Statement, sql);
        Ok(())
    }

    /// The fault of a statement. Unless the server answered, the session has ended.
    fn failed(&mut self, error: mysql::Error) -> Fault {
        let is_answer = matches!(error, mysql::Error::MySqlError(_));
        let fault = Fault::of_statement(error);
        if !is_answer || matches!(fault, Fault::Gone(_)) {
            self.ended.get_or_insert_with(|| fault.to_string());
        }
        fault
    }

    /// Sends a statement that changes rows. Returns how many it has changed.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn change(&mut self, command: &Ask<()>) -> Result<u64, Fault> {
        self.run(command)?;
        Ok(self.conn.affected_rows())
    }

    /// As [`Session::run`], but a refusal of the server is returned as its error number.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn try_run<T>(&mut self, ask: &Ask<T>) -> Result<Result<T, u16>, Fault> {
        self.begin(ask.sql())?;
        let error = match self.rows(ask) {
            Ok(rows) => return ask.read(Rows(&rows)).map(Ok),
            Err(error) => error,
        };
        let refused = match &error {
            mysql::Error::MySqlError(error) => Some(error.code),
            _ => None,
        };
        match (self.failed(error), refused) {
            (fault @ Fault::Gone(_), _) | (fault, None) => Err(fault),
            (_, Some(code)) => Ok(Err(code)),
        }
    }

    /// Sends two statements in one packet: one that changes the session, and one that does not wait. Returns the answer to the second.
    ///
    /// A `KILL QUERY` during the first makes both servers skip the second after they have announced its result. If the result does not
    /// follow soon, the session is given up.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_both<T>(&mut self, first: &Ask<()>, second: &Ask<T>) -> Result<T, Fault> {
        let statements = format!("{}; {}", first.sql(), second.sql());
        self.begin(&statements)?;
        let row = self.second_row(&statements);
        let row = row.map_err(|error| self.failed(error))?;
        let rows: Vec<Row> = row.into_iter().collect();
        second.read(Rows(&rows))
    }

    /// Sends several statements in one packet, or [one by one](Session::send_one_by_one), and reads their answers. The only limit between
    /// two answers is that of [`Session::answer_within`], so nobody must interrupt a statement of the session.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_batch<T>(&mut self, batch: &Batch<T>) -> Result<T, Fault> {
        let packets = if self.is_one_by_one {
            batch.statements().to_vec()
        } else {
            vec![batch.statements().join("; ")]
        };
        let mut replies = Vec::new();
        let mut fault = None;
        for packet in packets {
            let sent = self.begin(&packet).and_then(|()| {
                let read = self.read_replies(&packet, &mut replies);
                read.map_err(|error| self.failed(error))
            });
            if let Err(failed) = sent {
                fault = Some(failed);
                break;
            }
        }
        batch.answer(&replies, fault)
    }

    /// Sends each statement of a batch in its own packet from now on, until one fails. A node of a Galera cluster rolls back a
    /// transaction that conflicts with another node's, but reports that only in answer to the next packet. To the rest of the same
    /// packet, including the commit, it answers that all is well (seen with MariaDB 10.11).
    pub fn send_one_by_one(&mut self) {
        self.is_one_by_one = true;
    }

    fn read_replies(&mut self, statements: &str, replies: &mut Vec<Reply>) -> mysql::Result<()> {
        let mut all = self.conn.query_iter(statements)?;
        while let Some(one) = all.iter() {
            let changed = one.affected_rows();
            let insert_id = one.last_insert_id().filter(|id| *id > 0);
            let rows = one.map(|row| row.map(Row));
            replies.push(Reply {
                rows: rows.collect::<mysql::Result<_>>()?,
                changed,
                insert_id,
            });
        }
        Ok(())
    }

    fn rows<T>(&mut self, ask: &Ask<T>) -> mysql::Result<Vec<Row>> {
        let result = self.conn.query_iter(ask.sql())?;
        let rows = result.take(ask.most_rows());
        rows.map(|row| row.map(Row)).collect()
    }

    /// Limits the wait for each answer from now on. For sessions whose statements no longer wait for a lock.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn answer_within(&self, limit: Duration) -> io::Result<()> {
        limit_reading(self.as_fd(), limit)
    }

    /// Has the server repeat a random number. The crate still holds what arrived in clear text before TLS, right after the server's
    /// greeting, and would read it as the first answers: an attacker in between could grant a lock that way. `limit` is for the answer.
    ///
    /// # Errors
    /// [`Fault::Final`] if something else comes back.
    pub(super) fn prove_where_answers_come_from(&mut self, limit: Duration) -> Result<(), Fault> {
        let limited = |error: io::Error| Fault::Gone(error.to_string());
        self.answer_within(limit).map_err(limited)?;
        let secret = getrandom::u64().map_err(|error| {
            let line = format!("cannot get random bits: {error}");
            Fault::Final(Failure::new(Reason::OsRefused, line))
        })?;
        if self.run(&ask_echo(secret))? == Some(secret) {
            return self.answer_within(Duration::ZERO).map_err(limited);
        }
        let line =
            format!("somebody stands between dblock and {self}: the answers are not its own");
        Err(Fault::Final(Failure::new(Reason::Internal, line)))
    }

    /// The encryption of the session, such as `TLSv1.3, TLS_AES_256_GCM_SHA384`; `None`: not encrypted.
    pub fn encryption(&self) -> Option<String> {
        self.agreed.map(tls::in_use)
    }

    /// Passes a line on to the session's listener.
    pub fn tell(&self, level: Level, line: &str) {
        (self.listener)(level, line);
    }

    /// The server, as the user named it. The shown name has the address, too.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The connection id from the handshake. Behind a proxy it is the proxy's.
    pub fn handshake_id(&self) -> u64 {
        u64::from(self.conn.connection_id())
    }

    /// How long connecting and logging in took, without resolving the name.
    pub fn opened_in(&self) -> Duration {
        self.opened_in
    }

    /// The shortest round trip that the kernel has measured; `None` on a local socket. Connecting takes one.
    pub fn network_round_trip(&self) -> Option<Duration> {
        network_round_trip(self.conn.as_raw_fd())
    }

    /// Whether the connection is TCP, not a local socket.
    pub fn is_tcp(&self) -> bool {
        let peer = getpeername::<SockaddrStorage>(self.conn.as_raw_fd());
        peer.is_ok_and(|peer| peer.as_sockaddr_in().is_some() || peer.as_sockaddr_in6().is_some())
    }

    /// Whether the server is on this host: by its socket, or the loopback.
    pub fn is_local(&self) -> bool {
        let Ok(peer) = getpeername::<SockaddrStorage>(self.conn.as_raw_fd()) else {
            return false;
        };
        let v4 = peer.as_sockaddr_in().map(|peer| peer.ip().is_loopback());
        let v6 = peer.as_sockaddr_in6().map(|peer| peer.ip().is_loopback());
        v4.or(v6).unwrap_or(true)
    }

    fn second_row(&mut self, statements: &str) -> mysql::Result<Option<Row>> {
        let descriptor = self.conn.as_raw_fd();
        // SAFETY: the connection is not closed before the end of this function.
        let socket = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let limit = getsockopt(&socket, sockopt::ReceiveTimeout).map_err(io::Error::from)?;
        let mut results = self.conn.query_iter(statements)?;
        limit_reading(socket, PROMISED)?;
        let mut row = Ok(None);
        while let (Ok(_), Some(result)) = (&row, results.iter()) {
            row = result.last().map(|row| row.map(Row)).transpose();
        }
        drop(results);
        // After any other error the session cannot be used, and nothing may wait for it.
        if matches!(row, Ok(_) | Err(mysql::Error::MySqlError(_))) {
            setsockopt(&socket, sockopt::ReceiveTimeout, &limit).map_err(io::Error::from)?;
        }
        row
    }
}

/// Has the server repeat a number. It may not be the server that answers: a value of any other type is just not the number.
fn ask_echo(number: u64) -> Ask<'static, Option<u64>> {
    ask("echo", format!("SELECT {number}"), |rows| {
        Ok(rows.value().unwrap_or_default())
    })
}

fn network_round_trip(descriptor: RawFd) -> Option<Duration> {
    // SAFETY: a structure of plain numbers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).ok()?;
    // SAFETY: the kernel writes at most `length` bytes into the structure, and fails on what is no TCP socket.
    let status = unsafe {
        libc::getsockopt(
            descriptor,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    // Zero: this kernel does not have the number.
    (status == 0 && info.tcpi_min_rtt > 0).then(|| Duration::from_micros(info.tcpi_min_rtt.into()))
}

/// Limits the wait for each answer; zero: no limit. A shorter limit than the kernel can count to is the shortest, and not none.
fn limit_reading(socket: BorrowedFd, limit: Duration) -> io::Result<()> {
    let limit = if limit.is_zero() {
        limit
    } else {
        limit.max(Duration::from_micros(1))
    };
    let limit = TimeVal::microseconds(i64::try_from(limit.as_micros()).unwrap_or(i64::MAX));
    Ok(setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?)
}

impl AsFd for Session {
    /// Between statements it becomes readable only when the server has ended the session.
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the connection owns the descriptor for as long as the session is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.conn.as_raw_fd()) }
    }
}

impl fmt::Display for Session {
    /// Which server this is.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.server)
    }
}
