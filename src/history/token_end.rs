//! How the run of a script ends that has lost its lock.

use super::Outcome;
use super::journal::text;
use crate::db::text_literal;
use crate::lock::rows::{RecordTokenEnd, TokenEnd};
use crate::schema::Tables;

/// Why a script has lost its lock whose time was over.
pub const EXPIRED: &str = "expired: it was neither renewed nor released in time";

/// What records that a script has lost its lock, for whoever takes it from that: `by`.
pub fn recorder_of_token_ends(tables: &Tables, by: String) -> RecordTokenEnd {
    let runs = tables.runs();
    Box::new(move |owner, end| {
        let message = match end {
            TokenEnd::TakenOver => format!("taken over for the same owner by {by}"),
            TokenEnd::Expired => EXPIRED.to_owned(),
            TokenEnd::Killed(killer) => format!("ended by dblock kill on {killer}"),
        };
        format!(
            "/* dblock record token end */ UPDATE {runs} SET outcome = {}, message = {}, ended_at = UTC_TIMESTAMP(6) \
             WHERE run = {} AND ended_at IS NULL",
            text_literal(Outcome::Lost.word()),
            text("message", Some(&message)),
            text_literal(owner)
        )
    })
}
