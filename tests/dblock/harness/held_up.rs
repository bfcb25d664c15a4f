//! What the machine itself holds up. While it gets nothing done a lease may run out between two renewals, or a command be ended late,
//! though nothing was done to its host.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, SystemTime};

use mysql::prelude::Queryable;

use super::postgres::{DATABASE, Postgres};
use super::{ADMIN, Client, Dblock, Kind, Proxy, Server, within};

/// Nanoseconds since 1970, by the clock that commands read, too.
pub type Time = u64;

/// A pause, a statement through a proxy and the start of a process take so long only on a machine that is held up. It is a tenth of a
/// lease of 4 s: so long before another may have the lock its command has to be gone.
const HELD_UP: Duration = Duration::from_millis(400);

/// The pause.
const PAUSE: Duration = Duration::from_millis(100);

pub fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    nanos(since.expect("a clock after 1970"))
}

pub fn nanos(duration: Duration) -> Time {
    duration.as_nanos().try_into().expect("some centuries")
}

/// When the machine was held up.
#[derive(Debug)]
pub struct HeldUp(pub Vec<Range<Time>>);

impl HeldUp {
    /// Measures from now on, on the way that dblock's own statements go.
    pub fn watch(server: &Server) -> Watch {
        let proxy = Proxy::to(server);
        let (kind, port) = (server.kind, proxy.port);
        let account = server.as_account(ADMIN.0, ADMIN.1).tcp_port(port);
        let connect = move || match kind {
            Kind::Postgres => {
                let session = Postgres::connect(("127.0.0.1", port), ADMIN, DATABASE);
                session.map(Client::Postgres).ok()
            }
            Kind::MariaDb | Kind::MySql => {
                mysql::Conn::new(account.clone()).map(Client::MySql).ok()
            }
        };
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let measure = move || {
            let _proxy = proxy;
            let (mut session, mut spans, mut since) = (None, Vec::new(), now());
            while !within(PAUSE, || is_over.load(Ordering::Relaxed)) {
                let mut used: Option<Client> = session.take().or_else(&connect);
                let answered = used.as_mut().is_some_and(|session| match session {
                    Client::MySql(session) => session.query_drop("DO 1").is_ok(),
                    Client::Postgres(session) => session.try_query("SELECT 1").is_ok(),
                });
                session = used.filter(|_| answered);
                Dblock::bare().arg("--version").output();
                let until = now();
                if until - since > nanos(HELD_UP) {
                    spans.push(since..until);
                }
                since = until;
            }
            Self(spans)
        };
        Watch {
            over,
            thread: Some(spawn(measure)),
        }
    }

    /// For how long, of this time.
    pub fn of(&self, time: &Range<Time>) -> Time {
        let part = |span: &Range<Time>| {
            let end = span.end.min(time.end);
            end.saturating_sub(span.start.max(time.start))
        };
        self.0.iter().map(part).sum()
    }

    /// Whether two commands may meet then that no deed may let meet: the one that has lost its lease was to be gone a tenth of the lease
    /// before, and less than [`HELD_UP`] does not make it so late. Their fences tell them apart. The record of it may be late, too.
    pub fn lets_meet(&self, meeting: &Range<Time>) -> bool {
        self.of(&(meeting.start - nanos(2 * HELD_UP)..meeting.end)) > 0
    }
}

/// A measurement that goes on until it is ended.
pub struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<HeldUp>>,
}

impl Watch {
    pub fn end(mut self) -> HeldUp {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it ends once");
        thread.join().expect("nothing there panics")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
