//! `dblock init`: creates dblock's tables, or upgrades them.

use super::inquiry::ask_server_reached_by;
use super::{print, print_done};
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::log::{Level, Log};
use crate::db::ConnectOptions;
use crate::isolated::query::{self, Limits};
use crate::schema::{Installed, Installer, Keep};
use crate::settings::cli::CommandLine;
use crate::settings::{self, Init};

/// Limit for everything, as a multiple of the connect timeout. Waiting for another init comes on top of it.
const WHOLE: u32 = 3;

/// This change only appears if there were no tables before.
const FIRST_TABLE: &str = "table dblock_locks";

/// Creates the tables, prints what was done, and returns dblock's exit.
///
/// # Errors
/// Why it failed; with `--check`: the tables are not current.
pub fn init(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (init, log) = settings::init(command_line)?;
    match init {
        Init::Print {
            database,
            user,
            keep,
        } => {
            let installer = Installer {
                database: &database,
                keep,
                only_checks: true,
            };
            let user = user.replace('\\', "\\\\").replace('\'', "''");
            print(&installer.script(&format!("'{user}'@'%'")))?;
        }
        Init::Install {
            connection,
            keep,
            only_checks,
        } => install(&connection, keep, only_checks, log)?,
    }
    Ok(Ending::Code(0))
}

fn install(
    connection: &ConnectOptions,
    keep: Option<Keep>,
    only_checks: bool,
    log: Log,
) -> anyhow::Result<()> {
    let installer = Installer {
        database: &connection.database,
        keep,
        only_checks,
    };
    let connect = connection.connect_timeout;
    let whole = connect
        .saturating_mul(WHOLE)
        .saturating_add(Installer::LONGEST_TURN);
    let limits = Limits {
        connect,
        whole: Some(whole),
    };
    let mut done = None;
    query::ask(
        "dblock init",
        |link, parent| {
            ask_server_reached_by::<Installed>(
                ("dblock init", c"dblock-init"),
                connection,
                log.shown,
                (link, parent),
                |connector, patience| installer.reach(connector, patience).map(Into::into),
                |asker| {
                    let answer = installer.install(&mut asker.inspector.session)?;
                    asker.report(answer);
                    Ok(())
                },
            )
        },
        limits,
        log,
        |answer: Installed| done = Some(answer),
        |_| "the tables".to_owned(),
    )?;
    let Some(Installed {
        server,
        version,
        changes,
    }) = done
    else {
        return Ok(());
    };
    let place = format!(
        "the tables in the database {} of {server}",
        connection.database
    );
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
    if changes.iter().any(|change| change == FIRST_TABLE) {
        let grant = installer.grant("...");
        print_done(
            log,
            format_args!("for each other account that uses them: {grant}"),
        );
    }
    Ok(())
}
