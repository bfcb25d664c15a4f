//! The process that talks to the server. It connects as `dblock run` does, asks the server about itself, and acquires and releases a lock
//! of its own, first in one session and then between two.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use nix::poll::PollFlags;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::durable;
use super::finding::Finding;
use super::postgres;
use super::servers::{self, Assessment, Other};
use super::survey::{Survey, assessment, judge, who};
use super::words::{self, NotSeen};
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::{Level, Listener};
use crate::base::poll::is_ready_within;
use crate::commands::question::{begin, listener_of};
use crate::db::server_facts::{ask_login, is_mariadb, is_replica, median, ping};
use crate::db::{ConnectOptions, Connector, Fault, Kind, Session};
use crate::isolated::link::{Arrival, Link, cut, next};
use crate::isolated::process::{detach, die_with, end, fork_isolated};
use crate::isolated::query::{Message, send_item};
use crate::lock::named::{Opening, Probe, Reached, await_waiter, can_wait, end_session};
use crate::lock::rows::{RowProbe, clock_of};
use crate::lock::{DEFAULT_TTL, Introduction};
use crate::schema::Tables;

/// Longest wait of the second session for the lock, and for each message between the two.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(2);

/// A message from the process with the second session.
#[derive(Debug, Serialize, Deserialize)]
enum FromSecond {
    /// It sees that the lock is held, and requests it; with its connection id.
    Asking(u64),
    /// It sees that the lock is held, on a server that tells nobody when it is free.
    CannotWait,
    /// It does not see that the lock is held on the server that the user named so.
    Stranger(String),
    /// The lock was granted at this moment.
    Granted(Moment),
    /// Its session has ended.
    Ended,
    /// It failed.
    Failed(Failure),
}

/// Examines a server, and reports all findings over the link.
///
/// # Errors
/// Why the server could not be examined.
pub fn examine(
    connection: &ConnectOptions,
    shown: Level,
    link: &Rc<Link>,
    parent: Pid,
) -> Result<(), Failure> {
    let verbosity = Rc::new(Cell::new(Verbosity::All));
    let (report, verbosity_now) = (listener_of(link, shown), Rc::clone(&verbosity));
    let listener: Listener = Rc::new(move |level, text| match verbosity_now.get() {
        Verbosity::All => report(level, text),
        Verbosity::NoWarnings if level != Level::Warning => report(level, text),
        Verbosity::NoWarnings | Verbosity::Nothing => {}
    });
    let introduction = Introduction::of_command("dblock check", parent, DEFAULT_TTL);
    let connector = begin(&introduction, connection, listener, link)?;
    // From here on warnings would repeat the findings.
    verbosity.set(Verbosity::NoWarnings);
    let mut probe = Probe::new()?;
    let Reached {
        session,
        opening,
        read_only,
    } = probe.reach(&connector).map_err(|fault| {
        if let Fault::Final(failure) = fault {
            return failure;
        }
        let servers = connector.passed_over().into_iter();
        let causes: Vec<_> = servers.map(|server| server.line).collect();
        let what = format!("no server could be reached: {}", causes.join("; "));
        Failure::new(Reason::Unreachable, what)
    })?;
    let rows = RowProbe::new(&Tables::of_connection(connection), probe.name())?;
    let server = session.to_string();
    let _ = link.send(&Message::Reached(cut(&server)));
    let mut examiner = Examiner {
        session,
        link,
        connection,
        survey: Survey {
            connector: &connector,
            connect_timeout: connection.connect_timeout,
            // It is the first server that was not passed over.
            place: connector.passed_over().len(),
            probe: &probe,
            rows: &rows,
        },
        read_only,
        verbosity,
    };
    let done = examiner.examine(&opening);
    done.and_then(|()| probe.release_marker(&mut examiner.session))
        .map_err(|fault| fault.into_failure(&server))?;
    // Say goodbye to the server before the last message.
    drop(examiner);
    let _ = link.send(&Message::Done);
    Ok(())
}

/// Which messages are sent to the process that prints.
#[derive(Clone, Copy)]
enum Verbosity {
    All,
    NoWarnings,
    /// For the process with the second session.
    Nothing,
}

/// The session that examines the server.
struct Examiner<'a> {
    session: Session,
    link: &'a Link,
    connection: &'a ConnectOptions,
    survey: Survey<'a>,
    /// Whether a read-only server is acceptable.
    read_only: bool,
    verbosity: Rc<Cell<Verbosity>>,
}

impl Examiner<'_> {
    /// # Errors
    /// The session was lost.
    fn examine(&mut self, opening: &Result<Opening, Failure>) -> Result<(), Fault> {
        let kind = self.session.kind();
        let (info, product, comment) = who(&mut self.session)?;
        let is_mariadb = is_mariadb(&info.version, &comment);
        self.report(match kind {
            Kind::MySql => words::server(product, info.version.clone(), &comment),
            Kind::Postgres => postgres::server(product, &info, &self.session),
        });
        let server = self.session.to_string();
        self.report(Finding::ok("reached", &server));
        let passed_over = self.survey.connector.passed_over();
        self.report_all(passed_over.iter().map(words::passed_over));
        let account = Some(&*info.account).filter(|account| !account.is_empty());
        self.report(Finding::ok("account", account.unwrap_or("not visible")));
        let mode = self.connection.tls.mode;
        match kind {
            Kind::MySql => {
                self.report(words::tls(&self.session, mode));
                let login = self.session.try_run(&ask_login())?.unwrap_or_default();
                self.report(words::authentication(&login, is_mariadb));
            }
            Kind::Postgres => {
                self.report(postgres::database(&self.connection.database));
                self.report(postgres::tls(&self.session, mode));
            }
        }
        let exclusion = judge(opening, &mut self.session)?;
        let replica = match kind {
            Kind::MySql => is_replica(&mut self.session)?,
            Kind::Postgres => None,
        };
        let mut assessment = assessment(opening, exclusion.as_ref(), product);
        let tables = self.survey.rows.find_tables(&mut self.session)?;
        let is_replica = replica == Some(true);
        let tried = self.survey.try_rows(&tables, &mut assessment, is_replica);
        self.report_all(match (opening, &exclusion) {
            _ if kind == Kind::Postgres => postgres::exclusion(opening, &self.session),
            (Ok(opening), Some(exclusion)) => {
                words::exclusion(opening, exclusion, &self.session, &assessment.rows)
            }
            (Err(failure), _) => vec![words::no_locks(failure, &assessment.rows)],
            (Ok(_), None) => Vec::new(),
        });
        if kind == Kind::MySql {
            self.report(words::replica(replica, is_mariadb));
        }
        let has_locks = opening.as_ref().is_ok_and(Opening::has_slot);
        let hand_over = if has_locks {
            self.two_sessions(assessment.is_clustered() && assessment.durable())?
        } else {
            None
        };
        let facts = match kind {
            Kind::MySql => words::facts(&mut self.session)?,
            Kind::Postgres => postgres::facts(&mut self.session, &info)?,
        };
        self.report_all(facts);
        let whose = Tables::of_connection(self.connection);
        let fault = tried.fault.as_ref();
        self.report(durable::tables(&whose, &info, &tables, fault));
        self.servers(&server, &assessment, &tried.others)?;
        self.times(has_locks)?;
        self.report_all(tried.span.map(durable::commit));
        self.report_all(hand_over.map(words::hand_over));
        Ok(())
    }

    /// Reports which locks exclude on each server, and compares the clocks.
    fn servers(
        &mut self,
        examined: &str,
        assessment: &Assessment,
        others: &[Other],
    ) -> Result<(), Fault> {
        self.report(assessment.finding(examined));
        for other in others {
            self.report(other.finding(examined, assessment));
        }
        let Some(clock) = clock_of(&mut self.session)? else {
            return Ok(());
        };
        let theirs = others.iter().filter_map(|other| {
            let seen = other.found.as_ref().ok()?;
            Some((&*other.server, seen.clock.filter(|_| !seen.shares_locks)?))
        });
        let clocks: Vec<_> = [(examined, clock)].into_iter().chain(theirs).collect();
        self.report_all(servers::clocks(&clocks));
        self.report(servers::host_clock(clock));
        Ok(())
    }

    fn report(&self, finding: Finding) {
        let _ = send_item(self.link, finding);
    }

    fn report_all(&self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            self.report(finding);
        }
    }

    /// Measures how long things take. The lock is free before and after.
    fn times(&mut self, has_locks: bool) -> Result<(), Fault> {
        let limit = self.connection.connect_timeout / 4;
        let opened = self.session.opened_in();
        let network = self.session.network_round_trip();
        self.report_all(network.map(|network| words::connecting("connect", network, limit)));
        let handshake = opened.saturating_sub(network.unwrap_or_default());
        self.report(words::connecting("handshake", handshake, limit));
        let ping = |session: &mut Session| session.try_run(&ping()).map(|_| ());
        let round_trip = median(&mut self.session, ping, |_| Ok(()))?;
        self.report(words::statement("round_trip", round_trip));
        if has_locks {
            let span = self.survey.probe.time_to_take(&mut self.session)?;
            self.report(words::statement("lock", span));
        }
        Ok(())
    }

    /// Has a second session wait for the held lock, hands it over, and ends that session. The lock is free afterwards. `durable`: durable
    /// locks exclude here, so a second session that does not see the lock is only a warning. Returns the time of the hand-over, if it
    /// succeeded.
    fn two_sessions(&mut self, durable: bool) -> Result<Option<Duration>, Fault> {
        let (pid, link) = fork_isolated(
            |link, first| {
                self.verbosity.set(Verbosity::Nothing);
                wait_in_line(
                    self.survey.connector,
                    self.survey.probe,
                    self.read_only,
                    &link,
                    first,
                )
            },
            FromSecond::Failed,
        )
        .map_err(Fault::Final)?;
        let seen = self.hand_over(&link);
        end(pid);
        Ok(match seen? {
            Ok(Some((span, killed))) => {
                self.report_all(words::second_session(self.session.kind(), killed));
                Some(span)
            }
            Ok(None) => {
                self.report(words::second_session_of_standby());
                None
            }
            Err(why) => {
                self.report(words::no_second_session(&why, durable));
                None
            }
        })
    }

    /// Returns the time from the release in the first session until the second one knows that it holds the lock, and whether the first
    /// could end the second; `None`: the second one sees the lock, and cannot wait for it.
    fn hand_over(
        &mut self,
        link: &Link,
    ) -> Result<Result<Option<(Duration, bool)>, NotSeen>, Fault> {
        let begun = Moment::now();
        let (probe, session) = (self.survey.probe, &mut self.session);
        // If none takes writes, both sessions were to accept one that does not.
        let first = (!self.read_only).then(|| session.target().to_owned());
        let why = |next| not_seen(next, first.as_deref());
        let id = match next(link, Some(begun + self.connection.connect_timeout)) {
            Arrival::Message(FromSecond::Asking(id)) => id,
            Arrival::Message(FromSecond::CannotWait) => {
                probe.release(session)?;
                return Ok(Ok(None));
            }
            other => {
                probe.release(session)?;
                return Ok(Err(why(other)));
            }
        };
        // Wait until its statement has arrived.
        await_waiter(session, (probe.name(), id), HAND_OVER_LIMIT / 2)?;
        let released = Moment::now();
        probe.release(session)?;
        let span = match next(link, Some(released + HAND_OVER_LIMIT)) {
            Arrival::Message(FromSecond::Granted(granted)) => granted.since(released),
            other => return Ok(Err(why(other))),
        };
        let killed = end_session(session, id, &probe.name().on_server())?
            && matches!(
                next(link, Some(Moment::now() + HAND_OVER_LIMIT)),
                Arrival::Message(FromSecond::Ended)
            );
        if killed {
            probe.await_free(session, HAND_OVER_LIMIT)?;
        }
        Ok(Ok(Some((span, killed))))
    }
}

/// The meaning of an unexpected message from the second session. `first`: the server of the first one, if that takes writes.
fn not_seen(next: Arrival<FromSecond>, first: Option<&str>) -> NotSeen {
    match next {
        Arrival::Message(FromSecond::Stranger(second))
            if first.is_some_and(|first| first != second) =>
        {
            NotSeen::OtherServer(second)
        }
        Arrival::Message(FromSecond::Stranger(_)) => NotSeen::Stranger,
        Arrival::Message(FromSecond::Failed(failure)) => NotSeen::Failed(failure.line),
        _ => NotSeen::Failed("a second session got no answer in time".to_owned()),
    }
}

/// The main function of the process with the second session.
fn wait_in_line(
    connector: &Connector,
    probe: &Probe,
    read_only: bool,
    link: &Link,
    first: Pid,
) -> Result<(), Failure> {
    detach(link, c"dblock-check")?;
    die_with(first)?;
    let failed = |why: &dyn std::fmt::Display| {
        let what = format!("a second session failed: {why}");
        Failure::new(Reason::Unreachable, what)
    };
    let opened = probe.open_second(connector, read_only);
    let (mut session, opening) = opened.map_err(|fault| failed(&fault))?;
    let send = |message| {
        let _ = link.send(&message);
    };
    if opening.has_slot() {
        send(FromSecond::Stranger(cut(session.target())));
        return Ok(());
    }
    if !can_wait(&mut session, &opening).map_err(|fault| failed(&fault))? {
        send(FromSecond::CannotWait);
        return Ok(());
    }
    send(FromSecond::Asking(opening.connection_id()));
    let granted = probe.take(&mut session, &opening, HAND_OVER_LIMIT);
    let now = Moment::now();
    if !granted.map_err(|fault| failed(&fault))? {
        return Err(failed(&"it did not get the lock"));
    }
    send(FromSecond::Granted(now));
    if is_ready_within(session.as_fd(), PollFlags::POLLIN, HAND_OVER_LIMIT) {
        send(FromSecond::Ended);
    }
    Ok(())
}
