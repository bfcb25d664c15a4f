//! The texts of the findings: what was found, and what to do about it.

use std::fmt::Write;
use std::time::Duration;

use super::durable::Rows;
use super::finding::{Finding, SLOW};
use crate::base::exit::Failure;
use crate::db::server_facts::{
    Login, Product, Usage, ask_keeps_attributes, ask_sees_all, usage_of_account, usage_of_server,
    why_read_only,
};
use crate::db::{Fault, Kind, PassedOver, Session, SslMode};
use crate::lock::DEFAULT_TTL;
use crate::lock::named::{Exclusion, Opening, Unfit};

/// With fewer free connections there is a warning: each holder and each waiter needs one.
const FEW_FREE: u64 = 20;

/// The server's product and version.
pub fn server(product: Product, version: String, comment: &str) -> Finding {
    let advice = match product {
        Product::TiDb => {
            "a lock lapses there after max-txn-ttl, one hour by default: set that to more than the longest run takes"
        }
        Product::Vitess => {
            "a lock is lost there without a word when its shard gets another primary; lock on a server of its own"
        }
        Product::ProxySql => {
            "it may send a lock to a replica or share a session; connect to the server itself"
        }
        Product::MaxScale => "it may send a lock to a replica; connect to the server itself",
        _ => "",
    };
    let name = product.name();
    let value = format!("{name} {version} ({})", comment.trim_matches(['(', ')']));
    let found = Finding::ok("server", &value)
        .with("product", name)
        .with("version", version)
        .with("comment", comment);
    if advice.is_empty() {
        found
    } else {
        found.warning(advice)
    }
}

/// A server that was passed over for the examined one.
pub fn passed_over(server: &PassedOver) -> Finding {
    let found = Finding::ok("passed_over", &server.line);
    if server.read_only {
        found
    } else {
        found.warning("repair it, or remove it from the list: each start tries it first")
    }
}

/// TLS as dblock sees it. The server would describe a proxy's own connection.
pub fn tls(session: &Session, mode: SslMode) -> Finding {
    let is_local = session.is_local();
    let Some(how) = session.encryption() else {
        let found = |value| Finding::ok("TLS", value).with("encrypted", false);
        // In this mode TLS is tried first, on a separate connection.
        let is_tried = mode == SslMode::Preferred && session.is_tcp();
        return match mode {
            _ if is_local && is_tried => found("no; the connection is local").note(
                "each run connects twice, and the server logs or counts the first connection as aborted: ssl-mode = disabled in \
                 [dblock] avoids that",
            ),
            _ if is_local => found("no; the connection is local"),
            SslMode::Disabled => found("no").warning(
                "the password is never sent in clear, but statements are: leave out --ssl-mode disabled",
            ),
            _ => found("no").warning(
                "the password is never sent in clear, but statements are; and each run connects twice, and the server logs or counts \
                 the first connection as aborted: set up TLS there, and --ssl-mode verify-identity here; where the network is \
                 trusted, ssl-mode = disabled in [dblock] avoids the second connection",
            ),
        };
    };
    let unchecked = "the server's identity is not checked; --ssl-mode verify-identity checks it";
    encrypted(how, mode, is_local, unchecked)
}

/// A connection with TLS, and how far the server is verified. `unchecked` is what to say if it is not, and is on another host.
pub fn encrypted(how: &str, mode: SslMode, is_local: bool, unchecked: &str) -> Finding {
    let found = Finding::ok("TLS", how).with("encrypted", true);
    match mode {
        SslMode::VerifyIdentity => found.with("verified", "identity"),
        SslMode::VerifyCa => found.with("verified", "ca"),
        _ if is_local => found.with("verified", "no"),
        _ => found.with("verified", "no").note(unchecked),
    }
}

/// How the account authenticates.
pub fn authentication(login: &Login, is_mariadb: bool) -> Finding {
    let plugin = login.plugin.as_deref();
    let found = Finding::ok("authentication", plugin.unwrap_or("not visible"));
    match plugin {
        Some(_) if !login.has_password => {
            found.warning("the account has no password; set one with ALTER USER")
        }
        Some("mysql_native_password") if !is_mariadb => found.warning(
            "MySQL 9 no longer has it; ALTER USER … IDENTIFIED WITH caching_sha2_password BY …",
        ),
        _ => found,
    }
}

/// The server refuses named locks.
pub fn no_locks(failure: &Failure, rows: &Rows) -> Finding {
    let why = format!("has no named locks: {}; use another server", failure.line);
    without_named_locks(Finding::ok("locks", "none"), &why, rows)
}

/// Named locks do not exclude on a server on which durable locks do, if it has the tables.
fn without_named_locks(found: Finding, why: &impl ToString, rows: &Rows) -> Finding {
    let why = why.to_string();
    match rows {
        Rows::Work => found.warning(&format!("it {why}, or run --durable, which excludes here")),
        Rows::NotSetUp => found.unfit(&format!(
            "{why}, or run --durable, which excludes here once dblock init has created its tables"
        )),
        Rows::Unknown | Rows::Unusable => found.unfit(&format!(
            "{why}, or run --durable, which excludes here once its tables can be used"
        )),
    }
}

/// Whether locks would exclude on the server of this session.
pub fn exclusion(
    opening: &Opening,
    exclusion: &Exclusion,
    session: &Session,
    rows: &Rows,
) -> Vec<Finding> {
    let unfit = &exclusion.unfit;
    let mut all = vec![takes_writes(opening, session)];
    let finding = |check, value: &str, wrong: fn(&Unfit) -> bool, otherwise: &str| match unfit
        .iter()
        .find(|why| wrong(why))
    {
        Some(why @ (Unfit::Galera | Unfit::MultiPrimary)) => {
            without_named_locks(Finding::ok(check, value), why, rows)
        }
        Some(why) => Finding::ok(check, value).unfit(why),
        None => Finding::ok(check, otherwise),
    };
    all.push(finding("galera", "yes", |why| *why == Unfit::Galera, "no"));
    if let Some(mode) = &exclusion.pxc_strict_mode {
        all.push(Finding::ok("pxc_strict_mode", mode));
    }
    let group = if exclusion.in_group {
        "single primary"
    } else {
        "no"
    };
    all.push(finding(
        "group_replication",
        "multi-primary",
        |why| *why == Unfit::MultiPrimary,
        group,
    ));
    all.push(proxy(opening, unfit, session.handshake_id()));
    all.push(finding(
        "locks_per_session",
        "one",
        |why| *why == Unfit::OneLock,
        "several",
    ));
    let (kept, asked) = (opening.fitness.idle_limit.as_secs(), DEFAULT_TTL.as_secs());
    let value = format!("{kept} s of {asked} s");
    let timeout = if unfit.is_empty() && kept < asked {
        Finding::ok("wait_timeout", &value)
            .warning("that is the longest --ttl there; something limits wait_timeout")
    } else {
        finding(
            "wait_timeout",
            &value,
            |why| matches!(why, Unfit::TimeoutNotKept { .. } | Unfit::ShortLived(_)),
            "kept",
        )
    };
    all.push(timeout.with("seconds", kept));
    if !opening.has_slot() {
        let found = Finding::ok("locks", "none");
        all.push(found.unfit(&"does not give a lock that nobody has; use another server"));
    }
    all
}

/// Whether the server takes writes.
pub fn takes_writes(opening: &Opening, session: &Session) -> Finding {
    if opening.read_only {
        Finding::ok("takes_writes", "no").unfit(&why_read_only(session))
    } else {
        Finding::ok("takes_writes", "yes")
    }
}

fn proxy(opening: &Opening, unfit: &[Unfit], handshake: u64) -> Finding {
    // The handshake only has the lower 32 bits.
    let own = opening.connection_id() & u64::from(u32::MAX);
    let seen = format!("suspected: the handshake says connection {handshake}, the server {own}");
    if unfit.contains(&Unfit::SessionsShared) {
        Finding::ok("proxy", &seen).unfit(&Unfit::SessionsShared)
    } else if handshake == own {
        Finding::ok("proxy", "none seen")
    } else {
        Finding::ok("proxy", &seen).warning(
            "a lock stays only while it keeps the session to one client; connect to the server itself",
        )
    }
}

/// Whether this server, which takes writes, is a replica of another one.
pub fn replica(is_replica: Option<bool>, is_mariadb: bool) -> Finding {
    let grant = if is_mariadb {
        "SLAVE MONITOR"
    } else {
        "REPLICATION CLIENT"
    };
    match is_replica {
        Some(false) => Finding::ok("replica", "no"),
        Some(true) => Finding::ok("replica", "yes").warning(
            "name the server that takes all writes; a replica has read_only set, so that dblock passes it over",
        ),
        None => Finding::ok("replica", "not visible to this account").note(&format!(
            "GRANT {grant} ON *.* would show it; a lock does not need that"
        )),
    }
}

/// What two sessions saw of each other. `killed`: whether the first could end the second.
pub fn second_session(kind: Kind, killed: bool) -> [Finding; 2] {
    let otherwise = match kind {
        Kind::MySql => {
            "a lost session keeps the lock until its wait_timeout, and a queue moves more slowly; connect to the server itself"
        }
        Kind::Postgres => {
            "a lost session keeps the lock until its idle_session_timeout, and dblock kill ends holders of durable locks alone; see that \
             the role may execute pg_terminate_backend()"
        }
    };
    let kill = if killed {
        Finding::ok("kill", "ends a session of this account")
    } else {
        Finding::ok("kill", "does not end a session of this account").warning(otherwise)
    };
    [Finding::ok("second_session", "sees the lock"), kill]
}

/// What the second session saw on a standby of PostgreSQL.
pub fn second_session_of_standby() -> Finding {
    Finding::ok("second_session", "sees the lock")
        .note("it was not handed over: a standby takes no LISTEN, so nobody there is told that it is free")
}

/// Why the test with two sessions failed.
#[derive(Debug, thiserror::Error)]
pub enum NotSeen {
    /// The second session does not see the first one's lock.
    #[error(
        "gives a lock to two sessions at once: something in between leads them to different servers; name the server itself"
    )]
    Stranger,
    /// The second session is with this server, which the user named, too, and which does not know the first one's lock.
    #[error(
        "is not the only one that takes writes: {0}, which is named, too, does as well, and the two do not know each other's locks; \
         leave one of them out"
    )]
    OtherServer(String),
    /// There was no second session, or it did not answer.
    #[error("{0}; locks were not tried between two sessions")]
    Failed(String),
}

/// Reports why the test with two sessions failed.
pub fn no_second_session(why: &NotSeen, durable: bool) -> Finding {
    match why {
        NotSeen::Failed(_) => {
            Finding::ok("second_session", "did not come about").warning(&why.to_string())
        }
        NotSeen::Stranger | NotSeen::OtherServer(_) => {
            let found = Finding::ok("second_session", "does not see the lock");
            // One address may lead to several nodes of a cluster.
            if durable {
                found.warning(&format!("it {why}, or run --durable, which excludes here"))
            } else {
                found.unfit(why)
            }
        }
    }
}

/// What the server says of its sessions.
///
/// # Errors
/// The session must be dropped.
pub fn facts(session: &mut Session) -> Result<Vec<Finding>, Fault> {
    let keeps_attributes = session.try_run(&ask_keeps_attributes())? == Ok(true);
    let sees_all = session.try_run(&ask_sees_all())? == Ok(true);
    let usage = usage_of_server(session)?;
    let of_account = match usage {
        Some(_) => usage_of_account(session)?,
        None => None,
    };
    Ok(vec![
        holders(keeps_attributes, sees_all),
        connections(Kind::MySql, usage, of_account, None),
    ])
}

/// What a waiter can learn about a holder.
fn holders(keeps_attributes: bool, sees_all: bool) -> Finding {
    let whose = if sees_all {
        "of every account"
    } else {
        "of this account"
    };
    let found = if keeps_attributes {
        let value = format!("number, address and program of a holder {whose}");
        Finding::ok("holders", &value)
    } else {
        let value = format!("number and address of a holder {whose}");
        Finding::ok("holders", &value)
            .note("performance_schema=ON in the server's configuration would show its program, too")
    };
    found
        .with("tells_program", keeps_attributes)
        .with("every_account", sees_all)
}

/// Whether the server, the account and the database allow more connections. `None` for one of the last two: it has no limit of its own.
pub fn connections(
    kind: Kind,
    server: Option<Usage>,
    account: Option<Usage>,
    database: Option<Usage>,
) -> Finding {
    let of_account = match kind {
        Kind::MySql => "max_user_connections",
        Kind::Postgres => "the role's CONNECTION LIMIT",
    };
    let Some(server) = server else {
        return Finding::ok("connections", "not visible");
    };
    let mut value = format!("{} of {} in use", server.in_use, server.max);
    if let Some(Usage { in_use, max }) = account {
        let _ = write!(value, ", {in_use} of {max} by this account");
    }
    if let Some(Usage { in_use, max }) = database {
        let _ = write!(value, ", {in_use} of {max} in this database");
    }
    let limits = [
        Some((server, "max_connections")),
        account.map(|account| (account, of_account)),
        database.map(|database| (database, "the database's CONNECTION LIMIT")),
    ];
    let short = limits.into_iter().flatten().filter_map(|(usage, what)| {
        let free = usage.max.saturating_sub(usage.in_use);
        (free < FEW_FREE.max(usage.max / 5)).then_some((free, what))
    });
    let mut found = Finding::ok("connections", &value)
        .with("in_use", server.in_use)
        .with("max", server.max);
    if let Some(account) = account {
        found = found
            .with("in_use_by_account", account.in_use)
            .with("max_of_account", account.max);
    }
    if let Some(database) = database {
        found = found
            .with("in_use_in_database", database.in_use)
            .with("max_of_database", database.max);
    }
    match short.min() {
        Some((free, what)) => found.warning(&format!(
            "{free} are free, and each job that runs or waits, on any host, needs one; raise {what}"
        )),
        None => found,
    }
}

/// How long a step of connecting took.
pub fn connecting(check: &str, span: Duration, limit: Duration) -> Finding {
    let advice = "a good part of --connect-timeout; raise that, or look at the network and the server's load";
    Finding::time(check, span, limit, advice)
}

/// How long a statement took.
pub fn statement(check: &str, span: Duration) -> Finding {
    let advice =
        "each lock and each renewal takes as long; look at the network and the server's load";
    Finding::time(check, span, SLOW, advice)
}

/// The time from the release of a lock until the next session knows that it holds it.
pub fn hand_over(span: Duration) -> Finding {
    let advice = "look at the network and the server's load";
    Finding::time("hand_over", span, SLOW, advice)
}
