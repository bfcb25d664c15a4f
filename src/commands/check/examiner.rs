//! The process that talks to the server: it reaches one as `dblock run` does, asks it about itself, and takes and frees a
//! lock of its own, once on this session and once against a second one.

use std::cell::Cell;
use std::fmt::Write;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use mysql::Row;
use nix::poll::{PollFd, PollFlags, poll};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::finding::Finding;
use crate::base::clock::Moment;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::commands::inquiry::{listener_of, lost};
use crate::db::{ConnectOptions, Connector, Fault, Listener, Session, SslMode, cell};
use crate::isolated::link::{Link, Next, cut, next};
use crate::isolated::process::{detach, die_with, end, fork_isolated, harden};
use crate::isolated::query::Word;
use crate::lock::named::{Opening, READ_ONLY, Request, Unfit, Verbosity};
use crate::lock::{DEFAULT_TTL, Introduction, LockSpec, Name, OnLockLost, Wait, mark};

/// Of so many tries the middle one counts.
const TRIES: usize = 5;

/// A statement should not take longer.
const SLOW: Duration = Duration::from_millis(500);

/// How long the second session waits for the lock at most, and a message or an end is waited for: with a second to spare.
const HAND_OVER_LIMIT: Duration = Duration::from_secs(2);

/// From one look at the second session to the next.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Connections that should be free at least: each holder and each waiter is one.
const FEW_FREE: u64 = 20;

/// From the process that talks to the server.
type FromExaminer = Word<Finding>;

/// From the process with the second session.
#[derive(Debug, Serialize, Deserialize)]
enum FromSecond {
    /// It sees that the lock is taken, and asks for it; its session's number.
    Asking(u64),
    /// It does not see that the lock is taken.
    Stranger,
    /// The lock was had then.
    Had(Moment),
    /// Its session was ended.
    Ended,
    /// It came to nothing.
    Failed(Failure),
}

/// Finds out all there is to know about a server, and tells it over the link.
///
/// # Errors
/// What kept the server from being examined.
pub fn examine(
    connection: &ConnectOptions,
    shown: Level,
    link: &Rc<Link>,
    parent: Pid,
) -> Result<(), Failure> {
    let hears = Rc::new(Cell::new(Hears::All));
    let (told, hears_now) = (listener_of::<Finding>(link, shown), Rc::clone(&hears));
    let listener: Listener = Rc::new(move |level, text| match hears_now.get() {
        Hears::All => told(level, text),
        Hears::NoWarnings if level != Level::Warning => told(level, text),
        Hears::NoWarnings | Hears::Nothing => {}
    });
    harden(parent)?;
    // Before the descriptors are let go, for a password's file may be named by a descriptor that dblock inherited.
    let attributes = Introduction::of_command("dblock check", parent, DEFAULT_TTL).attributes();
    let connector = Connector::new(connection, attributes, DEFAULT_TTL, listener)?;
    detach(link, c"dblock-check")?;
    // Of what is wrong with a server the findings tell.
    hears.set(Hears::NoWarnings);
    let own_mark = mark()?;
    let name = format!("dblock-check-{}", own_mark.trim_start_matches('#'));
    let lock = Lock {
        server_name: format!("'{name}'"),
        name: Name::parse(&name)
            .map_err(|wrong| Failure::new(Reason::Internal, format!("the lock's name {wrong}")))?,
    };
    let (session, opening, accept_read_only) = reach(&connector, &lock.name, &own_mark)?;
    let _ = link.send(&FromExaminer::Reached(cut(&session.to_string())));
    let server = session.to_string();
    let mut examiner = Examiner {
        session,
        link,
        connection,
        hears,
        is_mariadb: false,
    };
    let done = examiner.examine(&connector, &lock, &opening, accept_read_only);
    let freed = done.and_then(|()| examiner.ask(&format!("DO RELEASE_LOCK('{own_mark}')")));
    freed.map_err(|fault| lost(&server, fault))?;
    // The good-bye to the server comes before the last word.
    drop(examiner);
    let _ = link.send(&FromExaminer::Done);
    Ok(())
}

/// What the process that prints is told of each step.
#[derive(Clone, Copy)]
enum Hears {
    All,
    NoWarnings,
    /// In the process with the second session, which has no link to it.
    Nothing,
}

/// The lock that is taken, and its name as a literal: plain letters.
struct Lock {
    name: Name,
    server_name: String,
}

/// Reaches the server that `dblock run` would lock on, or one that is read-only if there is no other, and takes the lock
/// there as it would. Whether it is such a one. In place of an opening: why the server has no such locks.
fn reach(
    connector: &Connector,
    name: &Name,
    mark: &str,
) -> Result<(Session, Result<Opening, Failure>, bool), Failure> {
    for accept_read_only in [false, true] {
        let mut request = request(name, mark, accept_read_only);
        let reached = connector.connect(|session| match request.open(session) {
            Err(Fault::Final(failure)) if failure.reason == Reason::Configuration => {
                Ok(Err(failure))
            }
            opened => opened.map(Ok),
        });
        match reached {
            Ok((session, opening)) => return Ok((session, opening, accept_read_only)),
            Err(Fault::ReadOnly(_)) => {}
            Err(Fault::Final(failure)) => return Err(failure),
            Err(_) => break,
        }
    }
    let causes = connector
        .passed_over()
        .into_iter()
        .map(|server| server.line);
    let causes = causes.collect::<Vec<_>>().join("; ");
    let line = format!("no server could be reached: {causes}");
    Err(Failure::new(Reason::Unreachable, line))
}

/// A request that does not wait, and judges nothing.
fn request(name: &Name, mark: &str, accept_read_only: bool) -> Request {
    let spec = LockSpec {
        name: name.clone(),
        slots: 1,
        wait: Wait::For(Duration::ZERO),
        ttl: DEFAULT_TTL,
        on_lost: OnLockLost::Reacquire,
        allow_unfit_server: true,
    };
    let verbosity = Verbosity {
        when_waiting: false,
        when_taken: false,
    };
    let mut request = Request::new(&spec, mark, verbosity);
    if accept_read_only {
        request.accept_read_only();
    }
    request
}

/// Has a session, and asks.
struct Examiner<'a> {
    session: Session,
    link: &'a Link,
    connection: &'a ConnectOptions,
    hears: Rc<Cell<Hears>>,
    is_mariadb: bool,
}

impl Examiner<'_> {
    /// # Errors
    /// The session is lost.
    fn examine(
        &mut self,
        connector: &Connector,
        lock: &Lock,
        opening: &Result<Opening, Failure>,
        accept_read_only: bool,
    ) -> Result<(), Fault> {
        self.server()?;
        self.route(connector);
        self.account()?;
        self.authentication()?;
        let has_locks = self.exclusion(opening)?;
        self.replica()?;
        let second = if has_locks {
            self.two_sessions(connector, lock, accept_read_only)?
        } else {
            Vec::new()
        };
        self.holders()?;
        self.connections()?;
        self.times(has_locks.then_some(lock))?;
        for finding in second {
            self.tell(finding);
        }
        Ok(())
    }

    fn tell(&self, finding: Finding) {
        let _ = self.link.send(&FromExaminer::Item(finding));
    }

    /// A statement's row, `None` also where the server refuses it.
    fn ask(&mut self, statement: &str) -> Result<Option<Row>, Fault> {
        Ok(self.session.inquire(statement)?.ok().flatten())
    }

    /// The value of a variable or of a status, which `SHOW` tells every account; `None` where there is no such.
    fn shown(&mut self, kind: &str, name: &str) -> Result<Option<String>, Fault> {
        let row = self.ask(&format!("SHOW {kind} LIKE '{name}'"))?;
        Ok(row.and_then(|row| cell(&row, 1)))
    }

    fn is_on(&mut self, variable: &str) -> Result<bool, Fault> {
        let value = self.shown("GLOBAL VARIABLES", variable)?;
        Ok(value.is_some_and(|value| matches!(&*value.to_ascii_uppercase(), "ON" | "1")))
    }

    /// Which server this is, and whether it is one at all.
    fn server(&mut self) -> Result<(), Fault> {
        let version = self.ask("SELECT VERSION()")?;
        let version: String = version.and_then(|row| cell(&row, 0)).unwrap_or_default();
        let comment = self.shown("GLOBAL VARIABLES", "version_comment")?;
        let comment = comment.unwrap_or_default();
        let both = format!("{version} {comment}").to_lowercase();
        self.is_mariadb = both.contains("mariadb");
        // What it calls itself, its name, and what to know of it.
        let kinds = [
            (
                "tidb",
                "TiDB",
                Some(
                    "a lock lapses there after max-txn-ttl, one hour by default: set that to more than the longest run takes",
                ),
            ),
            (
                "vitess",
                "Vitess",
                Some(
                    "a lock is lost there without a word when its shard gets another primary; lock on a server of its own",
                ),
            ),
            (
                "proxysql",
                "ProxySQL",
                Some(
                    "it may send a lock to a replica or share a session; connect to the server itself",
                ),
            ),
            (
                "maxscale",
                "MaxScale",
                Some("it may send a lock to a replica; connect to the server itself"),
            ),
            ("xtradb cluster", "Percona XtraDB Cluster", None),
            ("percona", "Percona Server", None),
            ("mariadb", "MariaDB", None),
            ("", "MySQL", None),
        ];
        let (_, kind, advice) = kinds
            .into_iter()
            .find(|(word, ..)| both.contains(word))
            .unwrap_or_default();
        let found = Finding::ok(
            "server",
            &format!("{kind} {version} ({})", comment.trim_matches(['(', ')'])),
        )
        .with("kind", kind)
        .with("version", version)
        .with("comment", comment);
        self.tell(match advice {
            Some(advice) => found.warning(advice),
            None => found,
        });
        Ok(())
    }

    /// What was reached, and what was not.
    fn route(&self, connector: &Connector) {
        self.tell(Finding::ok("reached", &self.session.to_string()));
        for server in connector.passed_over() {
            let found = Finding::ok("passed_over", &server.line);
            self.tell(if server.read_only {
                found
            } else {
                found.warning("mend it, or take it out of the list: each start tries it first")
            });
        }
    }

    fn account(&mut self) -> Result<(), Fault> {
        let account = self.ask("SELECT CURRENT_USER()")?;
        let account: Option<String> = account.and_then(|row| cell(&row, 0));
        let account = account.unwrap_or_else(|| "not told".to_owned());
        self.tell(Finding::ok("account", &account));
        self.tell(self.tls());
        Ok(())
    }

    /// As dblock sees it: behind a proxy the server would tell of the proxy's own connection.
    fn tls(&self) -> Finding {
        let mode = self.connection.tls.mode;
        let local = self.session.is_local();
        let Some(how) = self.session.encryption() else {
            let found = |value| Finding::ok("TLS", value).with("encrypted", false);
            return match mode {
                _ if local => found("no, and no network either"),
                SslMode::Disabled => found("no").warning(
                    "the password is never sent in clear, but statements are: leave out --ssl-mode disabled",
                ),
                _ => found("no").warning(
                    "the password is never sent in clear, but statements are: the server offers no TLS; set it up there, and \
                     --ssl-mode verify-identity here",
                ),
            };
        };
        let found = Finding::ok("TLS", &how).with("encrypted", true);
        match mode {
            SslMode::VerifyIdentity => found.with("verified", "identity"),
            SslMode::VerifyCa => found.with("verified", "ca"),
            _ if local => found.with("verified", "no"),
            _ => found
                .with("verified", "no")
                .note("whoever the server is; --ssl-mode verify-identity has it prove that"),
        }
    }

    /// How the account logs in. What stands beside that in the server's answer is never told.
    fn authentication(&mut self) -> Result<(), Fault> {
        let row = self.ask("SHOW CREATE USER CURRENT_USER()")?;
        // Bytes, for a hash of MySQL's is not text.
        let told = row
            .and_then(|row| cell::<Vec<u8>>(&row, 0))
            .unwrap_or_default();
        let told = String::from_utf8_lossy(&told);
        let (plugin, has_password) = plugin(&told);
        let found = Finding::ok("authentication", plugin.as_deref().unwrap_or("not told"));
        self.tell(match &plugin {
            Some(_) if !has_password => {
                found.warning("the account has no password; set one with ALTER USER")
            }
            Some(plugin) if plugin == "mysql_native_password" && !self.is_mariadb => found.warning(
                "MySQL 9 has it no more; ALTER USER … IDENTIFIED WITH caching_sha2_password BY …",
            ),
            _ => found,
        });
        Ok(())
    }

    /// Whether a lock would exclude. `false` if there is none to be had.
    fn exclusion(&mut self, opening: &Result<Opening, Failure>) -> Result<bool, Fault> {
        let opening = match opening {
            Ok(opening) => opening,
            Err(failure) => {
                let found = Finding::ok("locks", "none");
                self.tell(found.unfit(&format!("cannot be locked on: {}", failure.line)));
                return Ok(false);
            }
        };
        let read_only = Finding::ok("takes_writes", if opening.read_only { "no" } else { "yes" });
        self.tell(if opening.read_only {
            read_only.unfit(&READ_ONLY)
        } else {
            read_only
        });

        let mut unfit = opening.fitness.unfit.clone();
        if self.is_on("wsrep_on")? && !unfit.contains(&Unfit::Galera) {
            unfit.push(Unfit::Galera);
        }
        let group = self.shown("GLOBAL VARIABLES", "group_replication_group_name")?;
        let in_group = group.is_some_and(|group| !group.is_empty());
        if in_group && !self.is_on("group_replication_single_primary_mode")? {
            unfit.push(Unfit::MultiPrimary);
        }
        let finding = |check, value: &str, wrong: fn(&Unfit) -> bool, otherwise: &str| match unfit
            .iter()
            .find(|why| wrong(why))
        {
            Some(why) => Finding::ok(check, value).unfit(why),
            None => Finding::ok(check, otherwise),
        };
        self.tell(finding("galera", "yes", |why| *why == Unfit::Galera, "no"));
        if let Some(mode) = self.shown("GLOBAL VARIABLES", "pxc_strict_mode")? {
            self.tell(Finding::ok("pxc_strict_mode", &mode));
        }
        let group = if in_group { "single primary" } else { "no" };
        self.tell(finding(
            "group_replication",
            "multi-primary",
            |why| *why == Unfit::MultiPrimary,
            group,
        ));

        // A number of more than 32 bits does not fit into a handshake.
        let (handshake, own) = (
            self.session.handshake_id(),
            opening.connection_id() & u64::from(u32::MAX),
        );
        let seen =
            format!("suspected: the handshake says connection {handshake}, the server {own}");
        let proxy = finding(
            "proxy",
            &seen,
            |why| *why == Unfit::SessionsShared,
            "none seen",
        );
        self.tell(if handshake == own || unfit.contains(&Unfit::SessionsShared) {
            proxy
        } else {
            Finding::ok("proxy", &seen)
                .warning("a lock stays only while it keeps the session to one client; connect to the server itself")
        });
        self.tell(finding(
            "locks_per_session",
            "one",
            |why| *why == Unfit::OneLock,
            "several",
        ));

        let (kept, asked) = (opening.fitness.idle_limit.as_secs(), DEFAULT_TTL.as_secs());
        let value = format!("{kept} s of {asked} s");
        let timeout = finding(
            "wait_timeout",
            &value,
            |why| matches!(why, Unfit::TimeoutNotKept { .. } | Unfit::ShortLived(_)),
            "kept",
        );
        self.tell(
            if unfit.is_empty() && kept < asked {
                Finding::ok("wait_timeout", &value)
                    .warning("that is the longest --ttl there; something limits wait_timeout")
            } else {
                timeout
            }
            .with("seconds", kept),
        );
        if !opening.has_slot() {
            let found = Finding::ok("locks", "none");
            self.tell(found.unfit(&"does not give a lock that nobody has; use another server"));
        }
        Ok(opening.has_slot())
    }

    /// Whether another server writes to this one, which takes writes itself.
    fn replica(&mut self) -> Result<(), Fault> {
        let mut told = Err(0);
        for statement in ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"] {
            told = self.session.inquire(statement)?;
            // A server that is older than the word, or younger.
            if !matches!(told, Err(1064)) {
                break;
            }
        }
        let grant = if self.is_mariadb {
            "SLAVE MONITOR"
        } else {
            "REPLICATION CLIENT"
        };
        self.tell(match told {
            Ok(None) => Finding::ok("replica", "no"),
            Ok(Some(_)) => Finding::ok("replica", "yes").warning(
                "name the server that takes all writes; a replica has read_only set, so that dblock passes it over",
            ),
            Err(_) => Finding::ok("replica", "not visible to this account")
                .note(&format!("GRANT {grant} ON *.* would show it; a lock does not need that")),
        });
        Ok(())
    }

    /// What a waiter would be told of a holder.
    fn holders(&mut self) -> Result<(), Fault> {
        let attributes = "SELECT COUNT(*) FROM performance_schema.session_account_connect_attrs \
                          WHERE PROCESSLIST_ID = CONNECTION_ID()";
        let row = self.ask(attributes)?;
        let has_attributes = row.and_then(|row| cell::<u64>(&row, 0)).unwrap_or_default() > 0;
        let grants = self.ask("SHOW GRANTS")?;
        let grants: String = grants.and_then(|row| cell(&row, 0)).unwrap_or_default();
        let global = grants.split(" ON ").next().unwrap_or_default();
        let of_all = global.contains("PROCESS") || global.contains("ALL PRIVILEGES");
        let whose = if of_all {
            "of every account"
        } else {
            "of this account"
        };
        let found = if has_attributes {
            Finding::ok(
                "holders",
                &format!("number, address and program of a holder {whose}"),
            )
        } else {
            Finding::ok(
                "holders",
                &format!("number and address of a holder {whose}"),
            )
            .note("performance_schema=ON in the server's configuration would show its program, too")
        };
        self.tell(
            found
                .with("program", has_attributes)
                .with("every_account", of_all),
        );
        Ok(())
    }

    /// Whether the server, and the account, may have more connections.
    fn connections(&mut self) -> Result<(), Fault> {
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
        let in_use = number(self.shown("GLOBAL STATUS", "Threads_connected")?);
        let most = number(self.shown("GLOBAL VARIABLES", "max_connections")?);
        let (Some(in_use), Some(most)) = (in_use, most) else {
            self.tell(Finding::ok("connections", "not told"));
            return Ok(());
        };
        let mut value = format!("{in_use} of {most} in use");
        let of_account = self.of_account()?;
        if let Some((in_use, most)) = of_account {
            let _ = write!(value, ", {in_use} of {most} by this account");
        }
        let limits = [
            Some((in_use, most, "max_connections")),
            of_account.map(|(in_use, most)| (in_use, most, "max_user_connections")),
        ];
        let short = limits
            .into_iter()
            .flatten()
            .filter_map(|(in_use, most, what)| {
                let free = most.saturating_sub(in_use);
                (free < FEW_FREE.max(most / 5)).then_some((free, what))
            })
            .min();
        let mut found = Finding::ok("connections", &value)
            .with("in_use", in_use)
            .with("max", most);
        if let Some((in_use, most)) = of_account {
            found = found
                .with("in_use_by_account", in_use)
                .with("max_of_account", most);
        }
        self.tell(match short {
            Some((free, what)) => found.warning(&format!(
                "{free} are free, and each job that runs or waits, on any host, needs one; raise {what}"
            )),
            None => found,
        });
        Ok(())
    }

    /// The connections of this account, where it may have so many only.
    fn of_account(&mut self) -> Result<Option<(u64, u64)>, Fault> {
        let most = self.ask("SELECT @@session.max_user_connections")?;
        let Some(most @ 1..) = most.and_then(|row| cell(&row, 0)) else {
            return Ok(None);
        };
        // An account is told of its own sessions.
        let own = self.ask(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE user = \
             LEFT(USER(), LENGTH(USER()) - LOCATE('@', REVERSE(USER())))",
        )?;
        Ok(own.and_then(|row| cell(&row, 0)).map(|own| (own, most)))
    }

    /// How long things take. The lock is free before and after.
    fn times(&mut self, lock: Option<&Lock>) -> Result<(), Fault> {
        let limit = self.connection.connect_timeout / 4;
        let opened = self.session.opened_in();
        let network = self.session.network_round_trip();
        let advice = "a good part of --connect-timeout; raise that, or look at the network and the server's load";
        if let Some(network) = network {
            self.tell(Finding::time("connect", network, limit, advice));
        }
        let handshake = opened.saturating_sub(network.unwrap_or_default());
        self.tell(Finding::time("handshake", handshake, limit, advice));
        let round_trip = self.middle("SELECT 1", None)?;
        let advice =
            "each lock and each heartbeat takes as long; look at the network and the server's load";
        self.tell(Finding::time("round_trip", round_trip, SLOW, advice));
        if let Some(Lock { server_name, .. }) = lock {
            let [take, free] = [
                format!("SELECT GET_LOCK({server_name}, 0)"),
                format!("SELECT RELEASE_LOCK({server_name})"),
            ];
            let span = self.middle(&take, Some(&free))?;
            self.tell(Finding::time("lock", span, SLOW, advice));
        }
        Ok(())
    }

    /// How long a statement takes; what undoes it does not count.
    fn middle(&mut self, statement: &str, undo: Option<&str>) -> Result<Duration, Fault> {
        let mut spans = [Duration::ZERO; TRIES];
        for span in &mut spans {
            let begun = Moment::now();
            self.ask(statement)?;
            *span = begun.elapsed();
            if let Some(undo) = undo {
                self.ask(undo)?;
            }
        }
        spans.sort_unstable();
        Ok(spans[TRIES / 2])
    }

    /// Has a second session wait for the lock, which is held, hands it over, and ends that session. The lock is free then.
    /// What is to be told last.
    fn two_sessions(
        &mut self,
        connector: &Connector,
        lock: &Lock,
        accept_read_only: bool,
    ) -> Result<Vec<Finding>, Fault> {
        let (pid, link) = fork_isolated(
            |link, first| {
                self.hears.set(Hears::Nothing);
                wait_in_line(connector, lock, accept_read_only, &link, first)
            },
            FromSecond::Failed,
        )
        .map_err(Fault::Final)?;
        let seen = self.hand_over(&link, lock);
        end(pid);
        let mut last = Vec::new();
        match seen? {
            Ok(HandOver { span, killed }) => {
                self.tell(Finding::ok("second_session", "sees the lock"));
                self.tell(if killed {
                    Finding::ok("kill", "ends a session of this account")
                } else {
                    Finding::ok("kill", "does not end a session of this account").warning(
                        "a lost session keeps the lock until its wait_timeout, and a queue moves more slowly; connect to the server itself",
                    )
                });
                last.push(Finding::time(
                    "hand_over",
                    span,
                    SLOW,
                    "look at the network and the server's load",
                ));
            }
            Err(why @ NotSeen::Stranger) => {
                self.tell(Finding::ok("second_session", "does not see the lock").unfit(&why));
            }
            Err(why) => {
                self.tell(
                    Finding::ok("second_session", "did not come about").warning(&why.to_string()),
                );
            }
        }
        Ok(last)
    }

    fn hand_over(&mut self, link: &Link, lock: &Lock) -> Result<Result<HandOver, NotSeen>, Fault> {
        let begun = Moment::now();
        let free = format!("SELECT RELEASE_LOCK({})", lock.server_name);
        let asking = next(link, Some(begun + self.connection.connect_timeout));
        let id = match asking {
            Next::Message(FromSecond::Asking(id)) => id,
            other => {
                self.ask(&free)?;
                return Ok(Err(NotSeen::of(other)));
            }
        };
        // It waits as soon as its statement has arrived.
        let waits = format!(
            "SELECT 1 FROM information_schema.processlist WHERE ID = {id} AND STATE = 'User lock'"
        );
        let arrived = Moment::now() + HAND_OVER_LIMIT / 2;
        while self.ask(&waits)?.is_none() && Moment::now() < arrived {
            sleep(LOOK_AGAIN);
        }
        let freed = Moment::now();
        self.ask(&free)?;
        let span = match next(link, Some(freed + HAND_OVER_LIMIT)) {
            Next::Message(FromSecond::Had(had)) => had.since(freed),
            other => return Ok(Err(NotSeen::of(other))),
        };
        let accepted = self.session.inquire(&format!("KILL {id}"))?.is_ok();
        let killed = accepted
            && matches!(
                next(link, Some(Moment::now() + HAND_OVER_LIMIT)),
                Next::Message(FromSecond::Ended)
            );
        // The server frees the lock a moment after it has closed the session.
        let gone = Moment::now() + HAND_OVER_LIMIT;
        let used = format!(
            "SELECT 1 FROM DUAL WHERE IS_USED_LOCK({}) IS NOT NULL",
            lock.server_name
        );
        while killed && self.ask(&used)?.is_some() && Moment::now() < gone {
            sleep(LOOK_AGAIN);
        }
        Ok(Ok(HandOver { span, killed }))
    }
}

/// What two sessions showed.
struct HandOver {
    /// From the moment when one frees the lock to the moment when the other knows that it has it.
    span: Duration,
    /// Whether the one could end the other.
    killed: bool,
}

/// Why two sessions showed nothing.
#[derive(Debug, thiserror::Error)]
enum NotSeen {
    #[error(
        "gives a lock to two sessions at once: something in between leads them to different servers; name the server itself"
    )]
    Stranger,
    #[error("{0}; locks were not tried between two sessions")]
    Failed(String),
}

impl NotSeen {
    fn of(next: Next<FromSecond>) -> Self {
        match next {
            Next::Message(FromSecond::Stranger) => Self::Stranger,
            Next::Message(FromSecond::Failed(failure)) => Self::Failed(failure.line),
            _ => Self::Failed("a second session got no answer in time".to_owned()),
        }
    }
}

/// The process with the second session.
fn wait_in_line(
    connector: &Connector,
    lock: &Lock,
    accept_read_only: bool,
    link: &Link,
    first: Pid,
) -> Result<(), Failure> {
    detach(link, c"dblock-check")?;
    die_with(first)?;
    let failed = |fault: Fault| {
        Failure::new(
            Reason::Unreachable,
            format!("a second session failed: {fault}"),
        )
    };
    let mut request = request(&lock.name, &mark()?, accept_read_only);
    let opened = connector.connect(|session| request.open(session));
    let (mut session, opening) = opened.map_err(failed)?;
    let tell = |message| {
        let _ = link.send(&message);
    };
    if opening.has_slot() {
        tell(FromSecond::Stranger);
        return Ok(());
    }
    tell(FromSecond::Asking(opening.connection_id()));
    let wait = HAND_OVER_LIMIT.as_secs();
    let statement = format!("SELECT GET_LOCK({}, {wait})", lock.server_name);
    let row = session.ask(&statement).map_err(failed)?;
    let had = Moment::now();
    if row.and_then(|row| cell(&row, 0)) != Some(1u8) {
        return Err(failed(Fault::Unclear("it did not get the lock".to_owned())));
    }
    tell(FromSecond::Had(had));
    let mut ended = [PollFd::new(session.as_fd(), PollFlags::POLLIN)];
    let limit = u16::try_from(HAND_OVER_LIMIT.as_millis()).unwrap_or(u16::MAX);
    if let Ok(1..) = poll(&mut ended, limit) {
        tell(FromSecond::Ended);
    }
    Ok(())
}

/// The plugin by which an account logs in, from the server's `CREATE USER` statement, and whether it has a password where
/// it should.
fn plugin(statement: &str) -> (Option<String>, bool) {
    let Some((_, identified)) = statement.split_once(" IDENTIFIED ") else {
        // MariaDB writes nothing for an empty password.
        let known = statement.starts_with("CREATE USER");
        return (known.then(|| "mysql_native_password".to_owned()), false);
    };
    let mut words = identified.split_whitespace();
    let kind = words.next();
    let name = words.next().unwrap_or_default().trim_matches(['\'', '`']);
    let follows = words.next();
    match kind {
        Some("BY") => (Some("mysql_native_password".to_owned()), true),
        Some("WITH" | "VIA") if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
            let by_system =
                ["auth_socket", "unix_socket", "gssapi", "pam", "named_pipe"].contains(&name);
            (
                Some(name.to_owned()),
                by_system || matches!(follows, Some("AS" | "USING")),
            )
        }
        _ => (None, true),
    }
}

#[cfg(test)]
mod tests {
    use super::plugin;

    #[test]
    fn a_plugin_is_told_apart_from_the_hash_beside_it() {
        for (statement, name, has_password) in [
            (
                "CREATE USER `a`@`%` IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$\u{fffd} x' REQUIRE NONE",
                "caching_sha2_password",
                true,
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE",
                "caching_sha2_password",
                false,
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED WITH 'auth_socket' REQUIRE NONE",
                "auth_socket",
                true,
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED BY PASSWORD '*0123'",
                "mysql_native_password",
                true,
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED VIA ed25519 USING 'abc' OR unix_socket",
                "ed25519",
                true,
            ),
            ("CREATE USER `a`@`%`", "mysql_native_password", false),
        ] {
            assert_eq!(
                plugin(statement),
                (Some(name.to_owned()), has_password),
                "{statement}"
            );
        }
        assert_eq!(plugin("").0, None);
        assert_eq!(plugin("x IDENTIFIED WITH '*0 1' AS").0, None);
    }
}
