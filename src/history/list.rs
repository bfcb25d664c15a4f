//! Reading the history.

use super::RunCursor;
use super::entry::{Filter, ListedRun, PAGE};
use super::page::Page;
use crate::base::exit::{Failure, Reason};
use crate::db::cluster::ask_multi_primary;
use crate::db::server_facts::role;
use crate::db::{Connector, Fault, Kind, Session};
use crate::schema::{self, Tables};

/// Connects to a server with the tables, however long that takes. It may be a replica.
///
/// # Errors
/// No further attempt can succeed, or no server has the tables.
pub fn reach(connector: &Connector, tables: &Tables) -> Result<Session, Failure> {
    let passed_over = |fault: Fault| match fault.of_tables() {
        Fault::Final(failure) if failure.reason == Reason::AccountRefused => {
            Fault::Untrusted(failure)
        }
        fault => fault,
    };
    let (session, ()) = connector.reach(|session| {
        schema::prepare(session)?;
        tables.check(session).map_err(passed_over)
    })?;
    Ok(session)
}

/// Reports the selected runs, the newest first.
///
/// # Errors
/// Those of a statement.
pub fn list(
    tables: &Tables,
    filter: &Filter,
    session: &mut Session,
    mut report: impl FnMut(ListedRun),
) -> Result<(), Fault> {
    let sees_sessions = sees_sessions(session)?;
    let mut sees_outputs = tables.has_outputs();
    let mut left = filter.limit.unwrap_or(usize::MAX);
    let mut before = filter.after.clone();
    while left > 0 {
        // Not every run on a page is meant, so read whole pages.
        let limit = if filter.picks() { PAGE } else { PAGE.min(left) };
        let mut page = Page {
            tables,
            filter,
            before,
            limit,
            sees_sessions,
            sees_outputs,
        };
        let mut found = session.run(&page.ask());
        // The table of outputs is newer than the others, and the account may lack a right on it alone.
        if let Err(Fault::Final(Failure {
            reason: Reason::AccountRefused,
            ..
        })) = found
            && sees_outputs
        {
            (sees_outputs, page.sees_outputs) = (false, false);
            found = session.run(&page.ask());
        }
        let found = found.map_err(|fault| tables.explain(fault))?;
        let is_last = found.len() < limit;
        before = found
            .last()
            .map(|(run, _)| RunCursor::of(run.requested, &run.run));
        for run in found {
            if left > 0 && filter.has(&run.0) {
                report(run);
                left -= 1;
            }
        }
        if is_last {
            break;
        }
    }
    Ok(())
}

/// Whether this server has the sessions of all runs, so that a missing session means a dead run.
fn sees_sessions(session: &mut Session) -> Result<bool, Fault> {
    let role = role(session)?;
    if role.is_read_only || role.is_node {
        return Ok(false);
    }
    Ok(session.kind() == Kind::Postgres
        || !matches!(session.try_run(&ask_multi_primary())?, Ok(true)))
}
