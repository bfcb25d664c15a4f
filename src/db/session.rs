//! A session with a server: statements go out, rows and faults come back.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use nix::sys::socket::{SockaddrStorage, getpeername};

use super::ask::{Ask, Batch, Reply, ask};
use super::fault::Fault;
use super::row::{Row, Rows};
use super::target::Kind;
use super::wire::{Code, Failed, Wire, limit_reading};
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Listener};
use crate::base::random;
use crate::base::text::in_words;

/// How long the wait for the next answer may be.
type LimitOfEach = Box<dyn Fn() -> Duration>;

/// A session. Its locks live as long as it does. Dropping it logs out from the server.
pub struct Session {
    kind: Kind,
    wire: Box<dyn Wire>,
    target: String,
    server: String,
    opened_in: Duration,
    listener: Listener,
    /// Whether each statement of a batch is sent in its own packet.
    is_one_by_one: bool,
    /// How long the wait for an answer may be, asked before each statement; `None`: as it was set last.
    limit_of_each: RefCell<Option<LimitOfEach>>,
    /// Why it has ended. Afterwards the connection may be out of step: a late answer to one statement would be read as that to the next.
    ended: Option<String>,
}

impl Session {
    /// Wraps a connection that is ready for statements, with the server's name as given and as shown. Removes the handshake's limit on
    /// reading, as a statement that waits for a lock may take hours. Keeps the limit on writing.
    pub(super) fn new(
        kind: Kind,
        wire: Box<dyn Wire>,
        (target, server): (String, String),
        opened_in: Duration,
        listener: Listener,
    ) -> Result<Self, Fault> {
        let session = Self {
            kind,
            wire,
            target,
            server,
            opened_in,
            listener,
            is_one_by_one: false,
            limit_of_each: RefCell::default(),
            ended: None,
        };
        session.answer_within(Duration::ZERO)?;
        Ok(session)
    }

    /// Sends a statement, and reads its answer.
    ///
    /// # Errors
    /// After a [`Fault::Gone`] of the connection the session fails every statement with the same fault.
    pub fn run<T>(&mut self, ask: &Ask<T>) -> Result<T, Fault> {
        let reply = self.reply_to(ask.sql(), ask.most_rows())?;
        ask.read(reply.rows())
    }

    /// The answer to a statement, of at most so many rows.
    fn reply_to(&mut self, sql: &str, most_rows: usize) -> Result<Reply, Fault> {
        self.send(sql, most_rows)?.map_err(|(fault, _)| fault)
    }

    /// Sends a statement. `Err`: the server has refused it.
    fn send(&mut self, sql: &str, most_rows: usize) -> Result<Result<Reply, (Fault, Code)>, Fault> {
        self.begin(sql)?;
        let mut replies = Vec::new();
        let sent = self.wire.send(&[sql], most_rows, &mut replies);
        if let Err(failed) = sent {
            return self.refused(failed).map(Err);
        }
        Ok(Ok(replies.into_iter().next().unwrap_or_default()))
    }

    /// Notes that a statement is sent, unless the session has ended.
    fn begin(&self, sql: &str) -> Result<(), Fault> {
        if let Some(cause) = &self.ended {
            return Err(Fault::Gone(cause.clone()));
        }
        let limit = self.limit_of_each.borrow().as_ref().map(|limit| limit());
        limit.map_or(Ok(()), |limit| self.limit_next(limit))?;
        (self.listener)(Level::Statement, sql);
        Ok(())
    }

    /// A statement has failed: the fault and the error of a server that has refused it. Otherwise the session has ended.
    fn refused(&mut self, failed: Failed) -> Result<(Fault, Code), Fault> {
        match failed {
            Failed {
                fault,
                code: Some(code),
            } if !matches!(fault, Fault::Gone(_)) => Ok((fault, code)),
            Failed { fault, .. } => {
                self.ended.get_or_insert_with(|| fault.to_string());
                Err(fault)
            }
        }
    }

    /// Whether the session goes on after this fault of a statement: it has not ended, and its server takes writes. Its locks are held on.
    pub fn survives(&self, fault: &Fault) -> bool {
        self.ended.is_none() && !matches!(fault, Fault::Gone(_) | Fault::ReadOnly(_))
    }

    /// Sends a statement that changes rows. Returns how many it has changed.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn change(&mut self, command: &Ask<()>) -> Result<u64, Fault> {
        let reply = self.reply_to(command.sql(), command.most_rows())?;
        Ok(reply.changed)
    }

    /// As [`Session::run`], but a refusal of the server is returned as its error.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn try_run<T>(&mut self, ask: &Ask<T>) -> Result<Result<T, Code>, Fault> {
        match self.send(ask.sql(), ask.most_rows())? {
            Ok(reply) => ask.read(reply.rows()).map(Ok),
            Err((_, code)) => Ok(Err(code)),
        }
    }

    /// Sends two statements in one packet: one that changes the session, and one that does not wait. Returns the answer to the second.
    ///
    /// If that does not follow soon after the first, the session is given up.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_both<T>(&mut self, first: &Ask<()>, second: &Ask<T>) -> Result<T, Fault> {
        let row = self.send_both(first.sql(), second.sql())?;
        second.read(Rows(row.as_slice()))
    }

    fn send_both(&mut self, first: &str, second: &str) -> Result<Option<Row>, Fault> {
        let statements = format!("{first}; {second}");
        self.begin(&statements)?;
        match self.wire.send_both(&statements) {
            Ok(row) => Ok(row),
            Err(failed) => Err(self.refused(failed)?.0),
        }
    }

    /// Sends several statements in one packet, or [one by one](Session::send_one_by_one), and reads their answers. The only limit between
    /// two answers is that of [`Session::answer_within`], so nobody must interrupt a statement of the session.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_batch<T>(&mut self, batch: &Batch<T>) -> Result<T, Fault> {
        let (replies, fault) = self.send_all(batch.statements());
        batch.answer(&replies, fault)
    }

    /// The answers to statements as far as they succeed, and the fault of the next one.
    fn send_all(&mut self, statements: &[String]) -> (Vec<Reply>, Option<Fault>) {
        let all: Vec<&str> = statements.iter().map(String::as_str).collect();
        let in_packet = if self.is_one_by_one {
            1
        } else {
            all.len().max(1)
        };
        let mut replies = Vec::new();
        let mut fault = None;
        for packet in all.chunks(in_packet) {
            let sent = self.begin(&packet.join("; ")).and_then(|()| {
                let sent = self.wire.send(packet, usize::MAX, &mut replies);
                sent.or_else(|failed| Err(self.refused(failed)?.0))
            });
            if let Err(failed) = sent {
                fault = Some(failed);
                break;
            }
        }
        (replies, fault)
    }

    /// Sends each statement of a batch in its own packet from now on, until one fails. A node of a Galera cluster rolls back a
    /// transaction that conflicts with another node's, but reports that only in answer to the next packet. To the rest of the same
    /// packet, including the commit, it answers that all is well (seen with MariaDB 10.11).
    pub fn send_one_by_one(&mut self) {
        self.is_one_by_one = true;
    }

    /// Limits the wait for each answer from now on. For sessions whose statements no longer wait for a lock.
    ///
    /// # Errors
    /// [`Fault::Gone`] with the error of `setsockopt(2)`.
    pub fn answer_within(&self, limit: Duration) -> Result<(), Fault> {
        self.limit_of_each.take();
        self.limit_next(limit)
    }

    /// As [`Session::answer_within`], but the limit is asked for before each statement: for several whose answers must all be there by the
    /// same moment.
    pub fn answer_each_within(&self, limit: impl Fn() -> Duration + 'static) {
        self.limit_of_each.replace(Some(Box::new(limit)));
    }

    fn limit_next(&self, limit: Duration) -> Result<(), Fault> {
        limit_reading(self.as_fd(), limit).map_err(|error| Fault::Gone(in_words(&error)))
    }

    /// Has the server repeat a random number. A driver may still hold what arrived in clear text before TLS, right after the server's
    /// greeting, and would read it as the first answers: an attacker in between could grant a lock that way. `limit` is for the answer.
    ///
    /// # Errors
    /// [`Fault::Final`] if something else comes back.
    pub(super) fn prove_where_answers_come_from(&mut self, limit: Duration) -> Result<(), Fault> {
        self.answer_within(limit)?;
        let secret = random::number().map_err(Fault::Final)?;
        if self.run(&ask_echo(secret))? == Some(secret) {
            return self.answer_within(Duration::ZERO);
        }
        let line =
            format!("somebody stands between dblock and {self}: the answers are not its own");
        Err(Fault::Final(Failure::new(Reason::Internal, line)))
    }

    /// The kind of the server.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Waits without a statement until another session notifies this one, at most so long. Whether that was so. Only PostgreSQL has
    /// notifications.
    ///
    /// # Errors
    /// [`Fault::Gone`].
    pub fn await_notification(&mut self, limit: Duration) -> Result<bool, Fault> {
        if let Some(cause) = &self.ended {
            return Err(Fault::Gone(cause.clone()));
        }
        let notified = self.wire.await_notification(limit);
        if let Err(fault) = &notified {
            self.ended = Some(fault.to_string());
        }
        notified
    }

    /// Why the server has ended the session, whose descriptor is readable between statements; `None`: it has not.
    pub fn last_words(&mut self) -> Option<String> {
        self.wire.last_words()
    }

    /// What the server says of a setting by itself, at the login and whenever it changes; `None`: nothing. Only PostgreSQL does.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.wire.parameter(name)
    }

    /// The encryption of the session, such as `TLSv1.3, TLS_AES_256_GCM_SHA384`; `None`: not encrypted.
    pub fn encryption(&self) -> Option<&str> {
        self.wire.encryption()
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
        self.wire.id()
    }

    /// How long connecting and logging in took, without resolving the name.
    pub fn opened_in(&self) -> Duration {
        self.opened_in
    }

    /// The shortest round trip that the kernel has measured; `None` on a local socket. Connecting takes one.
    pub fn network_round_trip(&self) -> Option<Duration> {
        network_round_trip(self.as_fd().as_raw_fd())
    }

    /// Whether the connection is TCP, not a local socket.
    pub fn is_tcp(&self) -> bool {
        let peer = getpeername::<SockaddrStorage>(self.as_fd().as_raw_fd());
        peer.is_ok_and(|peer| peer.as_sockaddr_in().is_some() || peer.as_sockaddr_in6().is_some())
    }

    /// Whether the server is on this host: by its socket, or the loopback.
    pub fn is_local(&self) -> bool {
        let Ok(peer) = getpeername::<SockaddrStorage>(self.as_fd().as_raw_fd()) else {
            return false;
        };
        let v4 = peer.as_sockaddr_in().map(|peer| peer.ip().is_loopback());
        let v6 = peer.as_sockaddr_in6().map(|peer| peer.ip().is_loopback());
        v4.or(v6).unwrap_or(true)
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

impl AsFd for Session {
    /// Between statements it becomes readable only when the server has ended the session.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

impl fmt::Display for Session {
    /// Which server this is.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.server)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

    use super::*;
    use crate::db::wire::reading_limit;
    use crate::db::{Row, batch, command};

    /// A connection that is over, and counts how often it is asked.
    struct Over {
        socket: UnixStream,
        asked: Rc<Cell<u32>>,
        /// The error with which the server has said so; `None`: it has said nothing.
        code: Option<Code>,
    }

    impl Over {
        fn fail(&self) -> Failed {
            self.asked.set(self.asked.get() + 1);
            Failed {
                fault: Fault::Gone("it is over".to_owned()),
                code: self.code,
            }
        }
    }

    impl AsFd for Over {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.socket.as_fd()
        }
    }

    impl Wire for Over {
        fn send(&mut self, _: &[&str], _: usize, _: &mut Vec<Reply>) -> Result<(), Failed> {
            Err(self.fail())
        }

        fn send_both(&mut self, _: &str) -> Result<Option<Row>, Failed> {
            Err(self.fail())
        }

        fn id(&self) -> u64 {
            7
        }

        fn await_notification(&mut self, _: Duration) -> Result<bool, Fault> {
            Err(self.fail().fault)
        }

        fn encryption(&self) -> Option<&str> {
            None
        }
    }

    /// A session on such a connection, and how often that was asked.
    fn session(code: Option<Code>) -> (Session, Rc<Cell<u32>>) {
        let (socket, _) = UnixStream::pair().unwrap();
        let asked = Rc::new(Cell::new(0));
        let wire = Box::new(Over {
            socket,
            asked: Rc::clone(&asked),
            code,
        });
        let names = ("db1".to_owned(), "db1:3306".to_owned());
        let silent = Rc::new(|_, _: &str| {});
        let session = Session::new(Kind::MySql, wire, names, Duration::ZERO, silent);
        (session.unwrap(), asked)
    }

    fn one() -> Ask<'static, ()> {
        command("one", "SELECT 1")
    }

    fn two() -> Batch<'static, ()> {
        batch("two", vec!["SELECT 1".to_owned(); 2])
    }

    type Way = fn(&mut Session) -> Result<(), Fault>;

    /// Every way to ask.
    const WAYS: [Way; 7] = [
        |session| session.run(&one()),
        |session| session.change(&one()).map(drop),
        |session| session.try_run(&one()).map(drop),
        |session| session.run_both(&one(), &one()),
        |session| session.run_batch(&two()),
        |session| {
            session.send_one_by_one();
            session.run_batch(&two())
        },
        |session| session.await_notification(Duration::ZERO).map(drop),
    ];

    fn is_gone(answer: &Result<(), Fault>) -> bool {
        matches!(answer, Err(Fault::Gone(cause)) if cause == "it is over")
    }

    #[test]
    fn a_limit_of_each_answer_is_asked_for_before_each_statement_until_another_is_set() {
        for way in &WAYS[..4] {
            let (mut session, asked) = (session(None).0, Rc::new(Cell::new(0)));
            let limits = Rc::clone(&asked);
            session.answer_each_within(move || {
                limits.set(limits.get() + 1);
                Duration::from_secs(limits.get())
            });
            let limit = |session: &Session| reading_limit(session.as_fd()).unwrap();
            let _ = way(&mut session);
            assert_eq!((asked.get(), limit(&session)), (1, Duration::from_secs(1)));
            session.ended = None;
            let _ = way(&mut session);
            assert_eq!((asked.get(), limit(&session)), (2, Duration::from_secs(2)));
            session.ended = None;
            session.answer_within(Duration::from_secs(9)).unwrap();
            let _ = way(&mut session);
            assert_eq!((asked.get(), limit(&session)), (2, Duration::from_secs(9)));
        }
    }

    #[test]
    fn nothing_is_sent_on_a_session_that_has_ended() {
        for code in [None, Some(Code::Number(1053))] {
            for (first, end) in WAYS.into_iter().enumerate() {
                let (mut session, asked) = session(code);
                assert!(is_gone(&end(&mut session)), "{first}");
                for (then, ask) in WAYS.into_iter().enumerate() {
                    assert!(is_gone(&ask(&mut session)), "{first}, {then}");
                }
                assert_eq!(asked.get(), 1, "{first}");
            }
        }
    }
}
