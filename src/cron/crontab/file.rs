//! Reads a crontab from a file or stdin.

use std::path::Path;

use super::{Crontab, Mistake};
use crate::base::file;
use crate::base::text::in_words;
use crate::cron::Zone;

/// The name of stdin.
const STDIN: &str = "-";

/// Reads the crontab at this path; `-` is stdin. Jobs without `CRON_TZ` are in the host's zone.
///
/// # Errors
/// Each mistake, as a line that begins with the file and the line number.
pub fn load(path: &Path) -> Result<Crontab, Vec<String>> {
    let is_stdin = path.as_os_str() == STDIN;
    let shown = if is_stdin {
        "stdin".to_owned()
    } else {
        path.display().to_string()
    };
    let bytes = if is_stdin {
        file::read_stdin()
    } else {
        file::read(path).map(|(bytes, _)| bytes)
    };
    let bytes = bytes.map_err(|error| {
        let why = in_words(&error);
        vec![format!("cannot read the crontab {shown}: {why}")]
    })?;
    let crontab = Crontab::parse(&bytes, Zone::of_host().as_ref());
    crontab.map_err(|mistakes| {
        let with_place = |Mistake { line, why }| match line {
            Some(line) => format!("{shown}:{line}: {why}"),
            None => format!("{shown}: {why}"),
        };
        mistakes.into_iter().map(with_place).collect()
    })
}
