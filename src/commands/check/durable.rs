//! dblock's tables on a server, in words: whether durable locks work there, and what they cost.

use std::time::Duration;

use super::finding::{Finding, SLOW};
use crate::base::exit::Reason;
use crate::db::{Fault, SessionInfo, quoted_identifier};
use crate::lock::rows::TablesFound;

/// What became of a durable lock of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// It was committed.
    Work,
    /// There are no tables.
    NotSetUp,
    /// There are tables, and nothing was written to them.
    Unknown,
    /// The tables cannot be used.
    Unusable,
}

impl Rows {
    /// What is known from a look at the tables.
    pub fn before_a_try(tables: &TablesFound) -> Self {
        match tables {
            TablesFound::Usable(_) => Self::Unknown,
            // Whoever may not read them is not told whether they are there.
            TablesFound::Missing | TablesFound::Hidden => Self::NotSetUp,
            TablesFound::Unusable(_) | TablesFound::Refused(_) => Self::Unusable,
        }
    }
}

/// dblock's tables.
pub struct TablesHere<'a> {
    /// Their database.
    pub database: &'a str,
    /// What the server says of itself.
    pub info: &'a SessionInfo,
    /// What was read of them.
    pub found: &'a TablesFound,
    /// Why no row could be written.
    pub fault: Option<&'a Fault>,
}

impl TablesHere<'_> {
    /// Which tables are there, and what is to be done about them. Who uses named locks alone needs none.
    pub fn finding(&self) -> Finding {
        let database = quoted_identifier(self.database);
        let grant = format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO {}",
            self.info.quoted_account()
        );
        let unusable =
            |why: &str| Finding::ok("tables", &format!("not usable, in {database}")).warning(why);
        let found = match (self.found, self.fault) {
            (TablesFound::Usable(found), None) => {
                let value = format!("version {}, in {database}", found.version);
                Finding::ok("tables", &value).with("version", found.version)
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
            (TablesFound::Missing, _) => Finding::ok("tables", &format!("none in {database}"))
                .note("dblock init creates them, for durable locks and the history; named locks need none"),
            (TablesFound::Hidden, _) => {
                let value = format!("none in {database} that this account may read");
                Finding::ok("tables", &value).note(&format!(
                    "dblock init creates them, for durable locks and the history, and {grant}; named locks need none"
                ))
            }
            (TablesFound::Unusable(why), _) => unusable(why),
            (TablesFound::Refused(code), _) => {
                unusable(&format!("the server does not read them: error {code}"))
            }
        };
        found.with("database", self.database)
    }
}

/// How long it takes to acquire a durable lock.
pub fn commit(span: Duration) -> Finding {
    let advice = "each durable lock takes two such commits, and each renewal one; look at the server's disk, and at the network \
                  between the nodes of a cluster";
    Finding::time("durable_lock", span, SLOW, advice)
}
