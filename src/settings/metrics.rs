//! The settings of `dblock metrics`.

use std::path::PathBuf;

use super::cli::{self, CommandLine};
use super::sources::Given;
use super::support::check_queues;
use super::{Common, own, value, with_common};
use crate::base::exit::Failure;

/// The settings of `dblock metrics`.
#[derive(Debug)]
pub struct Metrics {
    /// The file to replace; `None`: stdout.
    pub output: Option<PathBuf>,
    /// The most locks, jobs and queues, of each; `None`: no limit.
    pub limit: Option<usize>,
    /// Whether there may be queues on servers of this kind.
    pub has_queues: bool,
}

/// Reads them.
///
/// # Errors
/// As [`run()`](super::run()).
pub fn read(command_line: CommandLine) -> Result<(Metrics, Common), Failure> {
    let read = |sources: &mut super::Sources| {
        let output = sources.given("output");
        if let Some(given) = output.filter(|given| given.value.is_empty()) {
            return Err(given.wrong("name a file, or - for stdout"));
        }
        let output = output
            .map(Given::path)
            .filter(|path| path.as_os_str() != "-");
        Ok((
            output,
            own(sources, &cli::metrics::LIMIT, value::limit_of_entries)?,
        ))
    };
    let ((output, limit), common) = with_common(command_line.settings, read)?;
    let metrics = Metrics {
        output,
        limit,
        has_queues: check_queues(common.connection.kind).is_ok(),
    };
    Ok((metrics, common))
}
