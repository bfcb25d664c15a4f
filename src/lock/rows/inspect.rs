//! Reads the table of durable locks, for the commands that look at locks from outside. Acquires and changes nothing.

use std::time::Duration;

use super::prepare::prepare;
use super::state::SlotState;
use super::statements::{Statements, Which, Write, ask_rows};
use crate::db::sql::span;
use crate::db::{Client, Code, Fault, Row};
use crate::lock::named::Inspector;
use crate::lock::{Durable, HeldRow, Lease, MOST_SLOTS, Name, run_lock_of};
use crate::schema::{LOCKS, Tables, ask_version};

/// The table of durable locks on a server that has it.
pub struct Rows {
    tables: Tables,
    /// Whether several servers take writes, each with its own named locks.
    pub is_multi_primary: bool,
}

/// The error of PostgreSQL where an account may not read a table.
const NOT_ALLOWED: Code = Code::State(*b"42501");

impl Rows {
    /// Prepares a session for the tables. `None`: they do not exist, or this account may not see them. That costs one statement.
    ///
    /// # Errors
    /// [`Fault::Final`] for tables that this dblock cannot use; any other fault of a statement.
    pub fn open(tables: Tables, inspector: &mut Inspector) -> Result<Option<Self>, Fault> {
        let ask = ask_version(&tables);
        let version = match inspector.session.try_run(&ask)? {
            // Who holds a lock there is not known.
            Err(NOT_ALLOWED) => return Err(Fault::Final(tables.hidden())),
            Err(code) if code.is_no_table() || code.is_no_privilege() => None,
            Ok(version) => version,
            // Any other error says nothing of the tables, and may pass.
            Err(_) => match inspector.run(&ask) {
                Err(Fault::NoSuchTable(_)) => None,
                asked => asked.map_err(|fault| tables.explain(fault))?,
            },
        };
        let Some(version) = version else {
            return Ok(None);
        };
        let session = &mut inspector.session;
        tables.judge(Ok(Some(version)), session)?;
        let prepared = prepare(&tables, Duration::MAX, session);
        let is_multi_primary = prepared.map_err(|fault| tables.explain(fault))?.is_cluster;
        Ok(Some(Self {
            tables,
            is_multi_primary,
        }))
    }

    /// The rows with an owner: those of these locks, or all if none is named.
    ///
    /// # Errors
    /// Any fault of a statement.
    pub fn held(&self, names: &[Name], inspector: &mut Inspector) -> Result<Vec<HeldRow>, Fault> {
        let mut rows = self.ask(Which::Held(names), inspector)?;
        find_sessions(&mut rows, inspector)?;
        Ok(rows)
    }

    /// The row of one slot. Its owner is empty if it has none. The session is not read.
    ///
    /// # Errors
    /// As [`Rows::held`].
    pub fn slot(
        &self,
        name: &Name,
        slot: u32,
        inspector: &mut Inspector,
    ) -> Result<Option<HeldRow>, Fault> {
        Ok(self.ask(Which::Slot(name, slot), inspector)?.pop())
    }

    fn ask(&self, which: Which, inspector: &mut Inspector) -> Result<Vec<HeldRow>, Fault> {
        let asked = inspector.run(&ask_rows(&self.tables, which, held_row));
        asked.map_err(|fault| self.tables.explain(fault))
    }

    /// The statements on a row, in its owner's name.
    pub(super) fn statements_of(&self, row: &HeldRow, name: &Name) -> Statements {
        Statements::new(&self.tables, name, MOST_SLOTS, &row.owner)
    }

    /// Runs a write, which does not count on a server that takes no writes. Returns the slot's row after it.
    pub(super) fn write(
        &self,
        write: &Write,
        inspector: &mut Inspector,
    ) -> Result<Option<SlotState>, Fault> {
        let write = write.batch().if_it_takes_writes(inspector.session.kind());
        let written = inspector.run_batch(&write);
        let rows = written.map_err(|fault| self.tables.explain(fault))?;
        Ok(rows.rows.into_iter().next())
    }
}

/// Finds the sessions of runs on this server, if it has named locks.
fn find_sessions(rows: &mut [HeldRow], inspector: &mut Inspector) -> Result<(), Fault> {
    for some in rows.chunks_mut(MOST_SLOTS as usize) {
        let locks: Vec<_> = some.iter().map(|row| run_lock_of(&row.owner)).collect();
        let Some(owners) = inspector.try_owners(&locks)? else {
            break;
        };
        for (row, owner) in some.iter_mut().zip(owners) {
            row.session = owner;
        }
    }
    Ok(())
}

fn held_row(row: &Row) -> Result<HeldRow, Fault> {
    let state = SlotState::read(row)?;
    let killer = state.killer();
    let expires_in = u64::try_from(state.expires_in).ok();
    let age = span(state.age);
    let started = state.client.claims.as_ref().and_then(|said| said.started);
    Ok(HeldRow {
        name: LOCKS.text("name", row)?.unwrap_or_default(),
        slot: state.slot,
        owner: state.owner.unwrap_or_default(),
        write_id: state.write_id,
        durable: Durable {
            fence: state.fence,
            kind: state.kind,
            owner_name: state.owner_name,
            expires_in: expires_in
                .filter(|left| *left > 0)
                .map(Duration::from_micros),
        },
        // The connection id in the history may belong to another server, or to a lost session.
        client: row.get::<bool>("in_history")?.then_some(Client {
            connection: 0,
            ..state.client
        }),
        session: None,
        held_for: started
            .and_then(|since| since.elapsed().ok())
            .unwrap_or_default(),
        renewal_in: Lease::interval(state.ttl).saturating_sub(age),
        killer,
        knows_killer: row.get("knows_killer")?,
    })
}
