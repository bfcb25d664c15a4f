//! `dblock init`: creates dblock's tables, or upgrades them.

use super::output::{print, print_done};
use super::question::{Question, Reaching};
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::Level;
use crate::schema::{Installed, Installer, Keep, Tables};
use crate::settings::cli::CommandLine;
use crate::settings::{self, Common, Init};

/// How a change begins that brings a table, for which each account may need a grant.
const NEW_TABLE: &str = "table ";

/// Creates the tables, prints what was done, and returns dblock's exit.
///
/// # Errors
/// Why it failed; with `--check`: the tables are not current.
pub fn init(command_line: CommandLine) -> anyhow::Result<Ending> {
    match settings::init(command_line)? {
        Init::Print { tables, user, keep } => {
            let installer = Installer {
                tables,
                keep,
                only_checks: true,
            };
            print(&installer.script(&installer.account(&user)))?;
        }
        Init::Install {
            common,
            keep,
            only_checks,
        } => install(&common, keep, only_checks)?,
    }
    Ok(Ending::Code(0))
}

fn install(common: &Common, keep: Option<Keep>, only_checks: bool) -> anyhow::Result<()> {
    let (connection, log) = (&common.connection, common.log);
    let installer = Installer {
        tables: Tables::of_connection(connection),
        keep,
        only_checks,
    };
    let question = Question::new(
        "dblock init",
        common,
        |connector, _, Reaching { patience, .. }| installer.reach(connector, patience),
    );
    // It may have to wait for another init.
    let whole = question
        .whole
        .map(|whole| whole.saturating_add(Installer::LONGEST_TURN));
    let question = Question {
        last: "the tables",
        whole,
        ..question
    };
    let Installed {
        server,
        version,
        changes,
    } = question.ask_one(|asker| installer.install(&mut asker.inspector.session))?;
    let place = format!("the tables in the {} of {server}", installer.tables.place());
    let changes_in_words = changes.join(", ");
    if only_checks && !changes.is_empty() {
        let line = format!("{place} are not current: no {changes_in_words}; run dblock init");
        return Err(Failure::new(Reason::Configuration, line).into());
    }
    if only_checks {
        if log.shown > Level::Error {
            print(&format!("{place} are current (version {version})\n"))?;
        }
        return Ok(());
    }
    let new = if changes.is_empty() {
        String::new()
    } else {
        format!("; new: {changes_in_words}")
    };
    print_done(
        log,
        format_args!("{place} are current (version {version}){new}"),
    );
    // The names of those accounts are not known here.
    if changes.iter().any(|change| change.starts_with(NEW_TABLE)) {
        let grant = installer.tables.grant("...");
        print_done(
            log,
            format_args!("for each other account that uses them: {grant}"),
        );
    }
    Ok(())
}
