//! The end of a run that somebody else ends: a script that has lost its lock, or a run whose lock `dblock kill --force` takes.

use super::Outcome;
use crate::lock::rows::{RecordTokenEnd, TokenEnd};
use crate::schema::{RUNS, Tables};

/// The message of a script that lost its expired lock.
pub const EXPIRED: &str = "expired: it was neither renewed nor released in time";

/// The message of a run whose lock `dblock kill` freed without asking. The killer's name follows.
pub const KILLED: &str = "ended by dblock kill on ";

/// Records that a script has lost its lock to the one called `by`.
pub fn recorder_of_token_ends(tables: &Tables, by: String) -> RecordTokenEnd {
    let tables = tables.clone();
    Box::new(move |owner, end| {
        let message = match end {
            TokenEnd::TakenOver => format!("taken over for the same owner by {by}"),
            TokenEnd::Expired => EXPIRED.to_owned(),
            TokenEnd::Killed(killer) => format!("{KILLED}{killer}"),
        };
        let kind = tables.kind();
        format!(
            "/* dblock record token end */ UPDATE {} SET outcome = {}, message = {}, ended_at = {} \
             WHERE run = {} AND ended_at IS NULL",
            tables.runs(),
            kind.literal(Outcome::Lost.word()),
            RUNS.literal(kind, "message", Some(&message)),
            kind.now(),
            kind.literal(owner)
        )
    })
}
