//! A session with a server: statements go out, rows and faults come back.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use native_tls::Agreed;
use nix::sys::socket::{SockaddrStorage, getpeername, setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::fault::Fault;
use super::statement::{self, Batch, Echo, Reply, Statement};
use super::tls;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Listener};

/// How long after the answer to the first statement of a packet that of the second may come.
const PROMISED: Duration = Duration::from_secs(2);

/// A session: as long as it lives, so do its locks. Dropping it says good-bye to the server.
pub struct Session {
    conn: Conn,
    target: String,
    server: String,
    opened_in: Duration,
    agreed: Option<Agreed>,
    listener: Listener,
    /// Whether the statements of a batch are sent in packets of their own.
    is_one_by_one: bool,
}

impl Session {
    /// Wraps a connection to a server, as it was named and as it is shown, that is ready for statements, with the TLS that was `agreed` on. Its time limit on reading was for the
    /// handshake: a statement that waits for a lock may take hours. The limit on writing stays.
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
        };
        limit_reading(session.as_fd(), Duration::ZERO)
            .map_err(|error| Fault::Gone(error.to_string()))?;
        Ok(session)
    }

    /// Sends a statement, and reads its answer.
    ///
    /// # Errors
    /// After [`Fault::Gone`] the session must be dropped: the connection may be out of step.
    pub fn run<S: Statement>(&mut self, statement: &S) -> Result<S::Answer, Fault> {
        let sql = statement.sql();
        (self.listener)(Level::Statement, &sql);
        let rows = self.rows(&sql, S::MOST_ROWS).map_err(Fault::of_statement)?;
        statement.decode(&rows)
    }

    /// Sends a statement that changes rows; how many it has changed.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn change<S: Statement<Answer = ()>>(&mut self, statement: &S) -> Result<u64, Fault> {
        self.run(statement)?;
        Ok(self.conn.affected_rows())
    }

    /// As [`Session::run`], for a statement that the server may refuse: then its error number.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn try_run<S: Statement>(
        &mut self,
        statement: &S,
    ) -> Result<Result<S::Answer, u16>, Fault> {
        let sql = statement.sql();
        match self.refusable(&sql, |session| session.rows(&sql, S::MOST_ROWS))? {
            Ok(rows) => statement.decode(&rows).map(Ok),
            Err(code) => Ok(Err(code)),
        }
    }

    /// Sends a statement that changes the session, and behind it, in the same packet, one that does not wait, and reads the
    /// answer of the second.
    ///
    /// A `KILL QUERY` during the first makes both servers pass over the second, after they have promised its result: when
    /// that does not come soon after the first, the session is given up.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_both<S: Statement>(
        &mut self,
        first: &impl Statement,
        second: &S,
    ) -> Result<S::Answer, Fault> {
        let statements = format!("{}; {}", first.sql(), second.sql());
        (self.listener)(Level::Statement, &statements);
        let row = self.second_row(&statements).map_err(Fault::of_statement)?;
        let rows: Vec<statement::Row> = row.map(statement::Row).into_iter().collect();
        second.decode(&rows)
    }

    /// Sends several statements in one packet, or [one by one](Session::send_one_by_one), and reads their answers. There is no limit on
    /// the time from one answer to the next but that of [`Session::answer_within`]: it is for sessions of which nobody interrupts a statement.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_batch<B: Batch>(&mut self, batch: &B) -> Result<B::Answer, Fault> {
        let mut packets = batch.statements();
        if !self.is_one_by_one {
            packets = vec![packets.join("; ")];
        }
        let mut replies = Vec::new();
        let mut fault = None;
        for packet in packets {
            (self.listener)(Level::Statement, &packet);
            if let Err(error) = self.read_replies(&packet, &mut replies) {
                fault = Some(Fault::of_statement(error));
                break;
            }
        }
        batch.decode(&replies, fault)
    }

    /// Has each statement of a batch sent in a packet of its own from now on, until one fails. A node of a Galera cluster rolls back
    /// a transaction that meets another node's, and says so in answer to the next packet alone: to what follows in the same one, the
    /// commit too, it says that all is well (seen with MariaDB 10.11).
    pub fn send_one_by_one(&mut self) {
        self.is_one_by_one = true;
    }

    fn read_replies(&mut self, statements: &str, replies: &mut Vec<Reply>) -> mysql::Result<()> {
        let mut all = self.conn.query_iter(statements)?;
        while let Some(one) = all.iter() {
            let changed = one.affected_rows();
            let insert_id = one.last_insert_id().filter(|id| *id > 0);
            let rows = one.map(|row| row.map(statement::Row));
            replies.push(Reply {
                rows: rows.collect::<mysql::Result<_>>()?,
                changed,
                insert_id,
            });
        }
        Ok(())
    }

    fn rows(&mut self, sql: &str, most: usize) -> mysql::Result<Vec<statement::Row>> {
        let result = self.conn.query_iter(sql)?;
        let rows = result.take(most);
        rows.map(|row| row.map(statement::Row)).collect()
    }

    fn refusable<T>(
        &mut self,
        statement: &str,
        ask: impl FnOnce(&mut Self) -> mysql::Result<T>,
    ) -> Result<Result<T, u16>, Fault> {
        (self.listener)(Level::Statement, statement);
        let error = match ask(self) {
            Ok(answer) => return Ok(Ok(answer)),
            Err(error) => error,
        };
        let refused = match &error {
            mysql::Error::MySqlError(error) => Some(error.code),
            _ => None,
        };
        match (Fault::of_statement(error), refused) {
            (fault @ Fault::Gone(_), _) | (fault, None) => Err(fault),
            (_, Some(code)) => Ok(Err(code)),
        }
    }

    /// From now on no answer is waited for longer than so: no statement waits for a lock any more.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn answer_within(&self, limit: Duration) -> io::Result<()> {
        limit_reading(self.as_fd(), limit)
    }

    /// Has the server repeat what nobody else can know. What came in clear before TLS, right behind the server's greeting,
    /// the crate still holds, and would take for the first answers: whoever stands in between could grant a lock with it.
    /// The answer may take as long as the `limit`.
    ///
    /// # Errors
    /// [`Fault::Final`] when something else comes back.
    pub(super) fn prove_where_answers_come_from(&mut self, limit: Duration) -> Result<(), Fault> {
        let limited = |error: io::Error| Fault::Gone(error.to_string());
        self.answer_within(limit).map_err(limited)?;
        let secret = getrandom::u64().map_err(|error| {
            let line = format!("cannot get random bits: {error}");
            Fault::Final(Failure::new(Reason::OsRefused, line))
        })?;
        if self.run(&Echo(secret))? == Some(secret) {
            return self.answer_within(Duration::ZERO).map_err(limited);
        }
        let line =
            format!("somebody stands between dblock and {self}: the answers are not its own");
        Err(Fault::Final(Failure::new(Reason::Internal, line)))
    }

    /// What encrypts the session, such as `TLSv1.3, TLS_AES_256_GCM_SHA384`; `None`: nothing does.
    pub fn encryption(&self) -> Option<String> {
        self.agreed.map(tls::in_use)
    }

    /// Tells whoever listens to this session.
    pub fn tell(&self, level: Level, line: &str) {
        (self.listener)(level, line);
    }

    /// The server as the user named it; shown is also which address that was.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The number of the session as the handshake gave it. Behind a proxy it is the proxy's.
    pub fn handshake_id(&self) -> u64 {
        u64::from(self.conn.connection_id())
    }

    /// How long it took to connect and to log in, the resolving of the name apart.
    pub fn opened_in(&self) -> Duration {
        self.opened_in
    }

    /// A round trip of the network as the kernel measured it, the shortest; `None` on a local socket. Connecting takes one.
    pub fn network_round_trip(&self) -> Option<Duration> {
        network_round_trip(self.conn.as_raw_fd())
    }

    /// Whether the server is reached by TCP, and not by a local socket.
    pub fn is_tcp(&self) -> bool {
        let peer = getpeername::<SockaddrStorage>(self.conn.as_raw_fd());
        peer.is_ok_and(|peer| peer.as_sockaddr_in().is_some() || peer.as_sockaddr_in6().is_some())
    }

    /// Whether the server is reached without a network: by its socket, or the loopback.
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
        let mut results = self.conn.query_iter(statements)?;
        limit_reading(socket, PROMISED)?;
        let mut row = Ok(None);
        while let (Ok(_), Some(result)) = (&row, results.iter()) {
            row = result.last().transpose();
        }
        drop(results);
        // After any other error the session is of no use, and nothing may wait for it.
        if matches!(row, Ok(_) | Err(mysql::Error::MySqlError(_))) {
            limit_reading(socket, Duration::ZERO)?;
        }
        row
    }
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
    // A kernel that knows no such number leaves it zero.
    (status == 0 && info.tcpi_min_rtt > 0).then(|| Duration::from_micros(info.tcpi_min_rtt.into()))
}

/// Limits the wait for each answer; zero is without limit.
fn limit_reading(socket: BorrowedFd, limit: Duration) -> io::Result<()> {
    let limit = TimeVal::milliseconds(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX));
    Ok(setsockopt(&socket, sockopt::ReceiveTimeout, &limit)?)
}

impl AsFd for Session {
    /// Between statements it turns readable only when the server has ended the session.
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
