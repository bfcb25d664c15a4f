//! `dblock config`: every setting in force, and its source. For a job that works in a shell, but not in cron.

use std::fmt::Write;

use serde::Serialize;

use super::{in_columns, in_json, print};
use crate::base::exit::Ending;
use crate::base::text::printable;
use crate::settings::cli::CommandLine;
use crate::settings::{self, Config};

/// Prints the settings, even if some are wrong, and returns dblock's exit.
///
/// # Errors
/// What is wrong with the settings.
pub fn config(command_line: CommandLine) -> anyhow::Result<Ending> {
    let config = settings::config(command_line);
    print(&if config.json {
        as_json(&config)
    } else {
        as_table(&config)
    })?;
    match config.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(Ending::Code(0)),
    }
}

/// What `--json` prints, as `docs/config.schema.json` says.
#[derive(Serialize)]
struct ConfigJson<'a> {
    settings: Vec<SettingJson<'a>>,
    option_files: Vec<OptionFileJson>,
}

/// A setting, for programs.
#[derive(Serialize)]
struct SettingJson<'a> {
    setting: &'a str,
    value: Option<&'a str>,
    from: &'a str,
}

/// An option file, for programs.
#[derive(Serialize)]
struct OptionFileJson {
    file: String,
    status: String,
}

fn as_json(config: &Config) -> String {
    let settings = config.settings.iter().map(|setting| SettingJson {
        setting: &setting.name,
        value: setting.value.as_deref(),
        from: &setting.from,
    });
    let files = config.files.iter().map(|(file, status)| OptionFileJson {
        file: printable(&file.display().to_string()),
        status: printable(&status.to_string()),
    });
    in_json(&ConfigJson {
        settings: settings.collect(),
        option_files: files.collect(),
    })
}

fn as_table(config: &Config) -> String {
    let settings = config.settings.iter().map(|setting| {
        let value = setting.value.clone().unwrap_or_else(|| "-".to_owned());
        vec![setting.name.clone(), value, printable(&setting.from)]
    });
    let head = ["SETTING", "VALUE", "FROM"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(settings).collect();
    let mut table = in_columns(&rows);
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
