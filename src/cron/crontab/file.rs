//! Reads a crontab from a file or stdin.

use std::path::Path;

use super::{Crontab, Mistake};
use crate::base::file;
use crate::base::text::in_words;
use crate::cron::Zone;

/// What stands for stdin.
const STDIN: &str = "-";

/// Reads the crontab of this path; `-` is stdin. Its jobs are in the host's zone where no `CRON_TZ` is set.
///
/// # Errors
/// Each thing that is wrong, as a line with the file in front, and with the number of its line.
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
