//! `dblock audit`: who paused, resumed, triggered, retried, canceled or killed what.

use serde::Serialize;

use super::output::print_answer;
use super::question::Question;
use super::table::{Table, to_the_second};
use crate::base::exit::Ending;
use crate::history::{RecordedDeed, list_deeds};
use crate::settings;
use crate::settings::cli::CommandLine;

const NOTHING: &str = "nothing is recorded that somebody did";

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked.
pub fn audit(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (limit, common) = settings::audit(command_line)?;
    let question = Question::about_history("dblock audit", "the audit", &common);
    let mut deeds: Vec<RecordedDeed> = Vec::new();
    let server = question.ask(
        |asker| {
            let session = &mut asker.inspector.session;
            asker.tables.check_audit(session)?;
            list_deeds(&asker.tables, limit, session, |deed| {
                asker.answers.send(deed);
            })
        },
        |deed| deeds.push(deed),
    )?;
    deeds.reverse();
    print_answer(
        common.json,
        || AuditJson {
            server: &server,
            actions: &deeds,
        },
        || as_table(&deeds),
    )?;
    Ok(Ending::Code(0))
}

fn as_table(deeds: &[RecordedDeed]) -> String {
    if deeds.is_empty() {
        return format!("{NOTHING}\n");
    }
    let titles = ["TIME (UTC)", "ACTION", "OBJECT", "DETAIL", "BY", "VIA"];
    let mut table = Table::new(&titles, &["DETAIL", "BY"]);
    for deed in deeds {
        table.row([
            Some(to_the_second(deed.at.0)),
            Some(deed.action.clone()),
            Some(deed.object.clone()),
            deed.detail.clone(),
            deed.by.clone(),
            deed.via.clone(),
        ]);
    }
    table.for_stdout()
}

/// What `--json` prints, as `docs/audit.schema.json` says.
#[derive(Serialize)]
struct AuditJson<'a> {
    server: &'a str,
    actions: &'a [RecordedDeed],
}
