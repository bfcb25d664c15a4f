//! How a run ended, or that it has not.

use serde::Deserialize;

/// The three fields by which a run's end is told.
#[derive(Debug, Clone, Deserialize)]
pub struct Ending {
    /// A word of the history: `ran`, `timed_out`, `lost`, …, `running`, `unknown`, or one of a newer dblock.
    pub outcome: Box<str>,
    /// The command's, as a shell sees it.
    pub exit_code: Option<u32>,
    /// The signal that the command died of.
    pub signal: Option<Box<str>>,
}

/// What an ending means to somebody who looks for what is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The command succeeded.
    Good,
    /// The command failed, died of a signal, ran too long, or could not be run.
    Failed,
    /// The lock was lost, or nobody knows how the run ended.
    Lost,
    /// It was interrupted, or it is not known whether it still runs.
    Doubtful,
    /// There was nothing to do, or a script released its lock.
    Skipped,
    /// It runs.
    Running,
}

impl Kind {
    /// In the order in which they are counted in words.
    pub const ALL: [Kind; 6] = [
        Kind::Good,
        Kind::Failed,
        Kind::Lost,
        Kind::Doubtful,
        Kind::Skipped,
        Kind::Running,
    ];

    /// Whether somebody has to look at it.
    pub fn is_bad(self) -> bool {
        matches!(self, Kind::Failed | Kind::Lost)
    }

    /// Whether it says how the command does. One that was skipped, runs still, or is in doubt says nothing.
    pub fn is_verdict(self) -> bool {
        self == Kind::Good || self.is_bad()
    }

    /// Its word, as counted: `2 failed`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Good => "good",
            Kind::Failed => "failed",
            Kind::Lost => "lost",
            Kind::Doubtful => "in doubt",
            Kind::Skipped => "skipped",
            Kind::Running => "running",
        }
    }

    /// Its sign, which says the same without a color.
    pub fn sign(self) -> &'static str {
        match self {
            Kind::Good => "✓",
            Kind::Failed => "✗",
            Kind::Lost => "!",
            Kind::Doubtful => "?",
            Kind::Skipped => "–",
            Kind::Running => "▸",
        }
    }

    /// Its class in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Kind::Good => "g",
            Kind::Failed => "f",
            Kind::Lost => "l",
            Kind::Doubtful => "d",
            Kind::Skipped => "s",
            Kind::Running => "r",
        }
    }
}

impl Ending {
    /// As `dblock history` shows it: `exit 1`, `SIGKILL`, `timed out`, …
    pub fn words(&self) -> String {
        match (&*self.outcome, &self.signal, self.exit_code) {
            ("ran", Some(signal), _) => signal.to_string(),
            ("ran", None, Some(code)) => format!("exit {code}"),
            (word, _, _) => word.replace('_', " "),
        }
    }

    /// Whether the run may go on.
    pub fn is_open(&self) -> bool {
        matches!(&*self.outcome, "running" | "unknown")
    }

    /// What it means. A word of a newer dblock is in doubt.
    pub fn kind(&self) -> Kind {
        match (&*self.outcome, &self.signal, self.exit_code) {
            ("ran", None, Some(0)) => Kind::Good,
            ("ran" | "timed_out" | "failed", _, _) => Kind::Failed,
            ("lost", _, _) => Kind::Lost,
            ("skipped" | "released", _, _) => Kind::Skipped,
            ("running", _, _) => Kind::Running,
            _ => Kind::Doubtful,
        }
    }
}
