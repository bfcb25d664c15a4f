//! Prepares a session for the tables, and finds out what its server is.

use std::time::Duration;

use super::statements::{BINLOG_FORMAT, Prepare, Prepared};
use crate::base::exit::Reason;
use crate::db::server_facts::{is_read_only, why_read_only};
use crate::db::{Fault, Session};
use crate::lock::named::{First, FirstAnswer};
use crate::schema::{Node, Tables, catch_up, or_without};

/// Prepares a session for the tables, and reads what must be known of the server. A node of a cluster has caught up with the others by
/// then. `limit`: how long the server may take for an answer to a later statement.
///
/// # Errors
/// Those of a statement.
pub fn prepare(tables: &Tables, limit: Duration, session: &mut Session) -> Result<Prepared, Fault> {
    let prepared = ask(tables, limit, session)?;
    ask_again_if_behind(prepared, tables, limit, session)
}

/// As [`prepare`], and asks for the named lock in the same packet. Returns the answers of both.
pub fn prepare_and_ask(
    tables: &Tables,
    limit: Duration,
    first: &First,
    session: &mut Session,
) -> (Result<Prepared, Fault>, Result<FirstAnswer, Fault>) {
    let both = or_with_less(tables, limit, |prepare| {
        session.run_batch(&prepare.batch_with(first))
    });
    match both {
        Ok(Ok((prepared, answer))) => (
            ask_again_if_behind(prepared, tables, limit, session),
            Ok(answer),
        ),
        // The packet ended there.
        Ok(Err(fault)) => (prepare(tables, limit, session), Err(fault)),
        Err(fault) => (Err(fault), Err(Fault::Gone(String::new()))),
    }
}

fn ask(tables: &Tables, limit: Duration, session: &mut Session) -> Result<Prepared, Fault> {
    or_with_less(tables, limit, |prepare| session.run_batch(&prepare.batch()))
}

/// As [`or_without`], also for a server without [`BINLOG_FORMAT`].
fn or_with_less<T>(
    tables: &Tables,
    limit: Duration,
    mut run: impl FnMut(&Prepare) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut attempt = |has_binlog_format| {
        or_without(|catches_up| {
            run(&Prepare {
                tables,
                catches_up,
                has_binlog_format,
                limit,
            })
        })
    };
    match attempt(true) {
        Err(Fault::NoSuchVariable(name)) if name == BINLOG_FORMAT => attempt(false),
        prepared => prepared,
    }
}

/// A node that only now began to catch up may have answered with old data.
fn ask_again_if_behind(
    prepared: Prepared,
    tables: &Tables,
    limit: Duration,
    session: &mut Session,
) -> Result<Prepared, Fault> {
    if prepared.node != Node::Single {
        session.send_one_by_one();
    }
    if prepared.node == Node::Other && catch_up(session)? {
        return ask(tables, limit, session);
    }
    Ok(prepared)
}

/// Checks that the server and its tables are fit for a lock. A read-only server is reported before a fault of its tables: a replica may
/// not have them yet.
///
/// # Errors
/// [`Fault::ReadOnly`]; [`Reason::Configuration`] and [`Reason::AccountRefused`], with what to do; any other fault of a statement.
pub fn fit_for_lock(
    tables: &Tables,
    prepared: Result<Prepared, Fault>,
    session: &mut Session,
) -> Result<Prepared, Fault> {
    let is_about_tables = match &prepared {
        Ok(prepared) => prepared.version.is_none(),
        Err(Fault::NoSuchTable(_)) => true,
        Err(Fault::Final(failure)) => failure.reason == Reason::AccountRefused,
        Err(_) => false,
    };
    let refusal = match &prepared {
        _ if is_about_tables => is_read_only(session)?.then(|| why_read_only(session)),
        Ok(prepared) => prepared.refusal,
        Err(_) => None,
    };
    if let Some(why) = refusal {
        return Err(Fault::ReadOnly(why.to_owned()));
    }
    match prepared {
        Ok(prepared) => {
            tables.judge(Ok(prepared.version), session)?;
            Ok(prepared)
        }
        Err(fault) => {
            tables.judge(Err(fault), session)?;
            Err(Fault::Gone("no answer".to_owned()))
        }
    }
}
