//! Making a session fit for the tables, and getting to know its server.

use super::statements::{Prepare, Prepared};
use crate::base::exit::Reason;
use crate::db::server_facts::{READ_ONLY, is_read_only};
use crate::db::{Fault, Session};
use crate::schema::{Tables, catch_up, or_without};

/// Makes a session fit for the tables, and asks what must be known of the server. A node of a cluster has caught up by then.
///
/// # Errors
/// Those of a statement.
pub fn prepare(tables: &Tables, session: &mut Session) -> Result<Prepared, Fault> {
    let ask = |session: &mut Session| {
        or_without(|catches_up| session.run_batch(&Prepare { tables, catches_up }))
    };
    let prepared = ask(session)?;
    if prepared.is_other_node && catch_up(session)? {
        return ask(session);
    }
    Ok(prepared)
}

/// The same for a lock, of which the tables must be fit. A server that takes no writes of the others' comes before what its tables
/// are: a replica may not have them yet.
///
/// # Errors
/// [`Fault::ReadOnly`]; [`Reason::Configuration`] and [`Reason::AccountRefused`], with what to do; any other fault of a statement.
pub fn prepare_for_lock(tables: &Tables, session: &mut Session) -> Result<Prepared, Fault> {
    let refused = |why: &str| Fault::ReadOnly(why.to_owned());
    match prepare(tables, session) {
        Ok(prepared) => {
            if let Some(why) = prepared.refusal {
                return Err(refused(why));
            }
            tables.judge(Ok(prepared.version), session)?;
            Ok(prepared)
        }
        Err(fault) => {
            let is_about_tables = match &fault {
                Fault::NoSuchTable(_) => true,
                Fault::Final(failure) => failure.reason == Reason::AccountRefused,
                _ => false,
            };
            if is_about_tables && is_read_only(session)? {
                return Err(refused(READ_ONLY));
            }
            tables.judge(Err(fault), session)?;
            Err(Fault::Gone("no answer".to_owned()))
        }
    }
}
