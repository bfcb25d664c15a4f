//! When a name last succeeded, by its runs: also where no `--once-at` and no `--once-per` has that recorded.

use super::Outcome;
use crate::base::text::ServerTime;
use crate::db::{Ask, Fault, Session, ask};
use crate::schema::Tables;

/// How many of a name's latest runs are looked at: ten times those that are kept of each name, however old they are.
const LOOKED_AT: usize = 1000;

/// How many names are asked for at once.
const TOGETHER: usize = 50;

/// The end of the latest run of each of these names that exited with 0. A name without one among its latest [`LOOKED_AT`] runs is left out.
///
/// # Errors
/// Those of a statement.
pub fn latest_successes(
    names: &[String],
    tables: &Tables,
    session: &mut Session,
) -> Result<Vec<(String, ServerTime)>, Fault> {
    let mut found = Vec::new();
    for names in names.chunks(TOGETHER) {
        for (number, ended) in session.run(&ask_latest(names, tables))? {
            let name = names.get(number).cloned();
            found.extend(name.zip(ended));
        }
    }
    Ok(found)
}

/// For each name its place in the list, and the end of its latest success.
fn ask_latest(names: &[String], tables: &Tables) -> Ask<'static, Vec<(usize, Option<ServerTime>)>> {
    let kind = tables.kind();
    let (ran, ended) = (kind.literal(Outcome::Ran.word()), kind.micros("ended_at"));
    let of_each = names.iter().enumerate().map(|(number, name)| {
        format!(
            "SELECT {number} AS number, MAX({ended}) AS ended FROM (SELECT ended_at, outcome, exit_code, signal_name FROM {} WHERE name = {} \
             ORDER BY requested_at DESC LIMIT {LOOKED_AT}) latest WHERE outcome = {ran} AND exit_code = 0 AND signal_name IS NULL",
            tables.runs(),
            kind.literal(name)
        )
    });
    let sql = of_each.collect::<Vec<_>>().join(" UNION ALL ");
    let latest = ask("latest successes", sql, |rows| {
        rows.all(|row| Ok((row.get("number")?, row.get("ended")?)))
    });
    latest.up_to(TOGETHER)
}
