//! Asks every named server what kind of server it is for locks. Meanwhile a durable lock is held, if there are tables for one.

use std::time::Duration;

use super::durable::Rows;
use super::servers::{Assessment, Other, Seen};
use crate::base::exit::Failure;
use crate::db::server_facts::{Product, Shown};
use crate::db::{Connector, Fault, Kind, Session, SessionInfo, ask_session_info};
use crate::lock::named::{Exclusion, Opening, Probe, exclusion};
use crate::lock::rows::{RowProbe, TablesFound, clock_of};

/// All servers together have this fraction of the connect timeout for each answer.
const PART: u32 = 3;

/// Everything needed to ask the servers.
#[derive(Clone, Copy)]
pub struct Survey<'a> {
    /// Knows the servers.
    pub connector: &'a Connector,
    /// How long they may take.
    pub connect_timeout: Duration,
    /// The position of the examined server in the list.
    pub place: usize,
    /// The named lock to look for.
    pub probe: &'a Probe,
    /// The durable lock to look for.
    pub rows: &'a RowProbe,
}

impl Survey<'_> {
    /// The time limit for each answer of a single server.
    fn share(&self) -> Duration {
        let servers = u32::try_from(self.connector.targets().len()).unwrap_or(u32::MAX);
        self.connect_timeout / PART / servers
    }

    /// Acquires a durable lock if there are tables for it, has the other servers look at it, and deletes it. This uses a separate session,
    /// so that a hanging commit does not end the main one.
    pub fn try_rows(
        &self,
        tables: &TablesFound,
        assessment: &mut Assessment,
        is_replica: bool,
    ) -> Tried {
        assessment.rows = Rows::before_a_try(tables);
        // A write to a replica would make it differ from its primary.
        let writes = assessment.rows == Rows::Unknown
            && !assessment.read_only
            && assessment.promises_rows()
            && (!is_replica || assessment.in_group || assessment.is_clustered());
        let Some(target) = self.connector.targets().get(self.place).filter(|_| writes) else {
            return Tried::without_row(self.others(false));
        };
        let tried = self.connector.ask(target, self.share(), |session| {
            if self.rows.prepare(session)?.refusal.is_some() {
                return Ok(None);
            }
            let span = self.rows.time_to_take(session)?;
            let others = self.others(true);
            self.rows.delete(session)?;
            Ok(Some((span, others)))
        });
        match tried {
            Ok((_, Some((span, others)))) => {
                assessment.rows = Rows::Work;
                Tried {
                    span: Some(span),
                    fault: None,
                    others,
                }
            }
            Ok((_, None)) => {
                assessment.read_only = true;
                Tried::without_row(self.others(false))
            }
            Err(fault) => {
                assessment.rows = Rows::Unusable;
                Tried {
                    fault: Some(fault),
                    ..Tried::without_row(self.others(false))
                }
            }
        }
    }

    /// Asks the other servers, without those that failed to answer before. `has_row`: there is a durable lock to see.
    fn others(&self, has_row: bool) -> Vec<Other> {
        let failed = self.connector.passed_over();
        let failed = |server: &str| {
            let mut failed = failed.iter().filter(|other| !other.read_only);
            failed.any(|other| other.target == server)
        };
        let others = self.connector.targets().iter().enumerate();
        let others = others.filter(|(place, target)| {
            *place != self.place && !(*place < self.place && failed(&target.to_string()))
        });
        let asked = others.map(|(_, target)| {
            let look = |session: &mut Session| self.look(session, has_row);
            let asked = self.connector.ask(target, self.share(), look);
            match asked {
                Ok((server, seen)) => Other {
                    server,
                    found: Ok(seen),
                },
                Err(fault) => Other {
                    server: target.to_string(),
                    found: Err(fault.to_string()),
                },
            }
        });
        asked.collect()
    }

    /// Examines another server.
    fn look(&self, session: &mut Session, has_row: bool) -> Result<Seen, Fault> {
        let opening = self.probe.ask(session)?;
        let shares_locks = self.probe.sees_marker(session)?;
        let clock = clock_of(session)?;
        let (_, product, _) = who(session)?;
        let exclusion = judge(&opening, session)?;
        let mut assessment = assessment(&opening, exclusion.as_ref(), product);
        let tables = self.rows.find_tables(session)?;
        let usable = matches!(tables, TablesFound::Usable(_));
        let sees_row = if !has_row || assessment.read_only {
            None
        } else if usable {
            self.rows.prepare(session)?;
            Some(self.rows.sees(session)?)
        } else {
            Some(false)
        };
        assessment.rows = if sees_row == Some(true) {
            Rows::Work
        } else {
            Rows::before_a_try(&tables)
        };
        Ok(Seen {
            assessment,
            shares_locks,
            sees_row,
            clock,
        })
    }
}

/// The result of trying a durable lock.
pub struct Tried {
    /// How long the acquisition took; `None`: it was not tried.
    pub span: Option<Duration>,
    /// Why it failed.
    pub fault: Option<Fault>,
    /// The findings about the other servers, while it was held.
    pub others: Vec<Other>,
}

impl Tried {
    fn without_row(others: Vec<Other>) -> Self {
        Self {
            span: None,
            fault: None,
            others,
        }
    }
}

/// The account, the product, and the server's own description. A server that refuses to answer is examined all the same.
///
/// # Errors
/// The session must be dropped.
pub fn who(session: &mut Session) -> Result<(SessionInfo, Product, String), Fault> {
    let info = session
        .try_run(&ask_session_info(session.kind()))?
        .unwrap_or_default();
    let comment = match session.kind() {
        Kind::MySql => Shown::Variable("version_comment").value(session)?,
        Kind::Postgres => None,
    };
    let comment = comment.unwrap_or_default();
    let product = Product::of(&info.version, &comment);
    Ok((info, product, comment))
}

/// Whether named locks exclude; `None`: the server has none.
///
/// # Errors
/// The session must be dropped.
pub fn judge(
    opening: &Result<Opening, Failure>,
    session: &mut Session,
) -> Result<Option<Exclusion>, Fault> {
    let Ok(opening) = opening else {
        return Ok(None);
    };
    let found = match session.kind() {
        Kind::MySql => exclusion(session, opening)?,
        Kind::Postgres => Exclusion {
            unfit: opening.fitness.unfit.clone(),
            in_group: false,
            pxc_strict_mode: None,
        },
    };
    Ok(Some(found))
}

/// What kind of server it is, before a durable lock is tried.
pub fn assessment(
    opening: &Result<Opening, Failure>,
    exclusion: Option<&Exclusion>,
    product: Product,
) -> Assessment {
    Assessment {
        unfit: exclusion
            .map(|found| found.unfit.clone())
            .unwrap_or_default(),
        refuses: opening.is_err(),
        read_only: opening.as_ref().is_ok_and(|opening| opening.read_only),
        in_group: exclusion.is_some_and(|found| found.in_group),
        product,
        rows: Rows::Unknown,
    }
}
