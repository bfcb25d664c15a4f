//! What is found about a PostgreSQL, in words.

use std::time::Duration;

use super::finding::Finding;
use super::words::{connections, encrypted, takes_writes};
use crate::base::exit::Failure;
use crate::base::text::in_seconds;
use crate::db::postgres_sql::quoted_identifier;
use crate::db::server_facts::Product;
use crate::db::{Facts, Fault, Kind, Session, SessionInfo, SslMode, ask_facts};
use crate::lock::named::{Opening, Unfit};

/// A snapshot that is older than this is a warning.
const OLD: Duration = Duration::from_secs(3600);

/// The databases that every server has: other programs' locks may be there.
const OF_EVERY_SERVER: [&str; 2] = ["postgres", "template1"];

/// The server's product and version.
pub fn server(product: Product, info: &SessionInfo, session: &Session) -> Finding {
    let version = session.parameter("server_version");
    let version = version.unwrap_or(&info.version).to_owned();
    let name = product.name();
    Finding::ok("server", &format!("{name} {version}"))
        .with("product", name)
        .with("version", version)
        .with("comment", &*info.version)
}

/// The database, to which advisory locks belong.
pub fn database(name: &str) -> Finding {
    let found = Finding::ok("database", name);
    if OF_EVERY_SERVER.contains(&name) {
        found.warning(
            "locks belong to a database, and every program may use this one: name one of its own, the same for all hosts",
        )
    } else {
        found.note("locks belong to it: name the same one on all hosts")
    }
}

/// How the connection is encrypted.
pub fn tls(session: &Session, mode: SslMode) -> Finding {
    let is_local = session.is_local();
    let Some(how) = session.encryption() else {
        let found = |value| Finding::ok("TLS", value).with("encrypted", false);
        return if is_local {
            found("no; the connection is local")
        } else {
            found("no").warning(
                "statements are sent in clear: set up TLS there, and sslmode=verify-full here",
            )
        };
    };
    let unchecked = "the server's certificate is not checked; sslmode=verify-full checks it";
    encrypted(how, mode, is_local, unchecked)
}

/// Whether locks would exclude on the server of this session.
pub fn exclusion(opening: &Result<Opening, Failure>, session: &Session) -> Vec<Finding> {
    let opening = match opening {
        Ok(opening) => opening,
        Err(failure) => {
            // The line begins with the server, and the finding is about that.
            let server = format!("{session} ");
            let why = failure.line.strip_prefix(&*server);
            let why = why.unwrap_or(&failure.line);
            return vec![Finding::ok("locks", "none").unfit(&why)];
        }
    };
    let pooler = match session.handshake_id() {
        0 => Finding::ok("pooler", "in session mode, as the settings say"),
        login if login == opening.connection_id() => Finding::ok("pooler", "none seen"),
        _ => Finding::ok("pooler", "seen").unfit(&Unfit::Pooler),
    };
    let others = opening.fitness.unfit.iter();
    let others = others.filter(|why| **why != Unfit::Pooler);
    let unfit = others.map(|why| Finding::ok("advisory_locks", "do not exclude").unfit(why));
    let first = [takes_writes(opening, session), pooler];
    first.into_iter().chain(unfit).collect()
}

/// What the server says of its connections, its settings and its sessions.
///
/// # Errors
/// The session must be dropped.
pub fn facts(session: &mut Session, info: &SessionInfo) -> Result<Vec<Finding>, Fault> {
    let asked = session.try_run(&ask_facts())?;
    let Ok(facts) = asked else {
        return Ok(vec![Finding::ok("connections", "not visible")]);
    };
    Ok(findings(&facts, info))
}

/// What they mean for locks.
fn findings(facts: &Facts, info: &SessionInfo) -> Vec<Finding> {
    let fsync = if facts.fsync {
        Finding::ok("fsync", "on")
    } else {
        Finding::ok("fsync", "off")
            .warning("after a power cut the server may have lost its data; set fsync = on")
    };
    let standbys = match (facts.standbys, facts.synchronous) {
            (0, _) => Finding::ok("standbys", "none seen"),
            (number, true) => Finding::ok("standbys", &format!("{number}, some synchronous")),
            (number, false) => Finding::ok("standbys", &format!("{number}, none synchronous")).note(
                "after a fail-over the new server may lack the last commits; locks are taken again there",
            ),
        };
    let blocked = match facts.blocked {
        0 => Finding::ok("blocked_in_locks", "no session"),
        number => Finding::ok("blocked_in_locks", &format!("sessions: {number}")).note(
            "they are of other programs, which wait in pg_advisory_lock, and each holds a snapshot",
        ),
    };
    vec![
        connections(
            Kind::Postgres,
            Some(facts.server),
            facts.account,
            facts.database,
        ),
        fsync,
        standbys,
        oldest_snapshot(facts, info),
        blocked,
    ]
}

/// How far back VACUUM has to leave rows.
fn oldest_snapshot(facts: &Facts, info: &SessionInfo) -> Finding {
    let value = match (facts.snapshot, facts.hidden_snapshots) {
        (None, false) => "none seen".to_owned(),
        (None, true) => "not visible to this account".to_owned(),
        (Some(age), false) => in_seconds(age).to_string(),
        (Some(age), true) => format!(
            "{}; that of other sessions is not visible to this account",
            in_seconds(age)
        ),
    };
    let found = Finding::ok("oldest_snapshot", &value);
    if facts.snapshot.is_some_and(|age| age > OLD) {
        found
            .warning("VACUUM removes nothing that is newer; dblock's own sessions hold no snapshot")
    } else if facts.hidden_snapshots {
        let role = quoted_identifier(&info.account);
        found.note(&format!(
            "GRANT pg_read_all_stats TO {role} would show it; a lock does not need that"
        ))
    } else {
        found
    }
}
