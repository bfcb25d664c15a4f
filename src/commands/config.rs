//! `dblock config`: every setting in force, and its source. For a job that works in a shell, but not in cron.

use std::fmt::Write;

use serde::Serialize;

use super::output::print_answer;
use super::table::Table;
use crate::base::exit::Ending;
use crate::base::text::printable;
use crate::settings::cli::CommandLine;
use crate::settings::{self, Config, InForce};

/// Prints the settings, even if some are wrong, and returns dblock's exit.
///
/// # Errors
/// What is wrong with the settings.
pub fn config(command_line: CommandLine) -> anyhow::Result<Ending> {
    let config = settings::config(command_line);
    print_answer(config.json, || for_programs(&config), || as_table(&config))?;
    match config.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(Ending::Code(0)),
    }
}

/// What `--json` prints, as `docs/config.schema.json` says.
#[derive(Serialize)]
struct ConfigJson<'a> {
    settings: &'a [InForce],
    option_files: Vec<OptionFileJson>,
}

/// An option file, for programs.
#[derive(Serialize)]
struct OptionFileJson {
    file: String,
    status: String,
}

fn for_programs(config: &Config) -> ConfigJson<'_> {
    let files = config.files.iter().map(|(file, status)| OptionFileJson {
        file: printable(&file.display().to_string()),
        status: printable(&status.to_string()),
    });
    ConfigJson {
        settings: &config.settings,
        option_files: files.collect(),
    }
}

fn as_table(config: &Config) -> String {
    let mut settings = Table::new(&["SETTING", "VALUE", "FROM"], &["VALUE", "FROM"]);
    for setting in &config.settings {
        let (name, from) = (setting.name.clone(), setting.from.clone());
        settings.row([Some(name), setting.value.clone(), Some(from)]);
    }
    let mut table = settings.for_stdout();
    let _ = writeln!(table, "\nOPTION FILES");
    for (file, status) in &config.files {
        let (file, status) = (file.display().to_string(), status.to_string());
        let _ = writeln!(table, "{}  {}", printable(&file), printable(&status));
    }
    if config.files.is_empty() {
        let _ = writeln!(table, "none: --no-defaults is given");
    }
    table
}
