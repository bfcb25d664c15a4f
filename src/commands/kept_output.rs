//! `dblock output`: prints what a command wrote, as far as it is kept.

use super::output::print_bytes;
use super::question::Question;
use crate::base::exit::{CONFLICT, Ending};
use crate::base::text::{counted, printable};
use crate::history::{KeptOutput, WhoseOutput, ask_output};
use crate::settings;
use crate::settings::cli::CommandLine;

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked.
pub fn kept_output(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (whose, common) = settings::kept_output(command_line)?;
    let question = Question {
        last: "the last part of it",
        ..Question::about_history("dblock output", "the output", &common)
    };
    let mut output = KeptOutput::new(0);
    question.ask(
        |asker| {
            let tables = &asker.tables;
            let session = &mut asker.inspector.session;
            tables.check_outputs(session)?;
            let mut find = |whose: &WhoseOutput| {
                let found = session.run(&ask_output(tables, whose));
                found.map_err(|fault| tables.explain(fault))
            };
            let found = match (find(&whose)?, &whose) {
                // A name may look like the number of a run.
                (None, WhoseOutput::Run(run)) => find(&WhoseOutput::Name(run.clone()))?,
                (found, _) => found,
            };
            for part in found.iter().flat_map(KeptOutput::parts) {
                asker.answers.send(part);
            }
            Ok(())
        },
        |part| output.take_in(&part),
    )?;
    if output.is_empty() {
        let whose = match &whose {
            WhoseOutput::Run(run) => format!("the run or the name {run}"),
            WhoseOutput::Name(name) => name.clone(),
            WhoseOutput::Job(queue, job) => format!("{queue}#{job}"),
        };
        common
            .log
            .warning(format_args!("no output of {} is kept", printable(&whose)));
        return Ok(Ending::Code(CONFLICT));
    }
    let (head, omitted, tail) = output.pieces();
    print_bytes(head)?;
    if omitted > 0 {
        let left_out = counted(usize::try_from(omitted).unwrap_or(usize::MAX), "byte");
        common.log.warning(format_args!("{left_out} left out here"));
    }
    print_bytes(tail)?;
    Ok(Ending::Code(0))
}
