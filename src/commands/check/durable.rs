//! The findings about dblock's tables: whether durable locks work on the server, and how long they take.

use std::time::Duration;

use super::finding::{Finding, SLOW};
use crate::base::exit::Reason;
use crate::db::{Fault, SessionInfo};
use crate::lock::rows::TablesFound;
use crate::schema::{Tables, VERSION};

/// What is known about durable locks on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// A durable lock was committed.
    Work,
    /// The tables do not exist.
    NotSetUp,
    /// The tables exist, but nothing was written to them.
    Unknown,
    /// The tables cannot be used.
    Unusable,
}

impl Rows {
    /// What the tables alone show, before a durable lock is tried.
    pub fn before_a_try(tables: &TablesFound) -> Self {
        match tables {
            TablesFound::Usable(_) => Self::Unknown,
            // The server does not tell an account that may not read them whether they exist.
            TablesFound::Missing | TablesFound::Hidden => Self::NotSetUp,
            TablesFound::Unusable(_) | TablesFound::Refused(_) => Self::Unusable,
        }
    }
}

/// Which of dblock's tables exist on a server, as a session of this account finds them, and what to do about them. Named locks need none.
/// `fault`: why a row could not be written.
pub fn tables(
    tables: &Tables,
    info: &SessionInfo,
    found: &TablesFound,
    fault: Option<&Fault>,
) -> Finding {
    let (place, grant) = (tables.quoted_name(), tables.grant_to(info));
    let unusable =
        |why: &str| Finding::ok("tables", &format!("not usable, in {place}")).warning(why);
    let found = match (found, fault) {
        (TablesFound::Usable(found), None) => {
            let value = format!("version {}, in {place}", found.version);
            let finding = Finding::ok("tables", &value);
            let finding = if found.version < VERSION {
                finding.note("of an older dblock; dblock init upgrades them, and what is newer works then, as to keep output")
            } else {
                finding
            };
            finding.with("tables_version", found.version)
        }
        (TablesFound::Usable(_), Some(Fault::Final(failure)))
            if failure.reason == Reason::AccountRefused =>
        {
            unusable(&format!(
                "the account may read them and not write; {grant}"
            ))
        }
        (TablesFound::Usable(_), Some(fault)) => {
            unusable(&format!("a row could not be written: {fault}"))
        }
        (TablesFound::Missing, _) => Finding::ok("tables", &format!("none in {place}"))
            .note(
                "dblock init creates them, for durable locks and the history, by an account that may CREATE; named locks need \
                 none",
            ),
        (TablesFound::Hidden, _) => {
            let value = format!("none in {place} that this account may read");
            Finding::ok("tables", &value).note(&format!(
                "for durable locks and the history, an account that may CREATE has to run dblock init if there are none, and to {grant}; \
                 named locks need none"
            ))
        }
        (TablesFound::Unusable(why), _) => unusable(why),
        (TablesFound::Refused(code), _) => {
            unusable(&format!("the server does not read them: error {code}"))
        }
    };
    found.with(tables.word(), tables.name())
}

/// How long it takes to acquire a durable lock.
pub fn commit(span: Duration) -> Finding {
    let advice = "each durable lock takes two such commits, and each renewal one; look at the server's disk, and at the network \
                  between the nodes of a cluster";
    Finding::time("durable_lock", span, SLOW, advice)
}
