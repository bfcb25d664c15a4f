//! `dblock config`: every setting in force and where it comes from. For when a job works in a shell, but not in cron.

use std::fmt::Write;

use serde_json::json;

use super::{in_columns, print};
use crate::base::exit::Ending;
use crate::base::text::printable;
use crate::settings::cli::CommandLine;
use crate::settings::{self, Config};

/// Prints the settings, as far as they could be read and whatever is wrong, and returns how dblock is to end.
///
/// # Errors
/// What is wrong with them.
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

fn as_json(config: &Config) -> String {
    let settings = config.settings.iter().map(
        |setting| json!({"setting": setting.name, "value": setting.value, "from": setting.from}),
    );
    let files = config.files.iter().map(|(file, status)| {
        let file = printable(&file.display().to_string());
        json!({"file": file, "status": printable(&status.to_string())})
    });
    let whole = json!({
        "settings": settings.collect::<Vec<_>>(),
        "option_files": files.collect::<Vec<_>>(),
    });
    format!("{whole:#}\n")
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
