//! Commands that are run when a run has ended.

/// Commands for `/bin/sh -c`. Each gets the report of the run on its stdin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// After each run that failed, was lost or timed out; `None`: nothing.
    pub on_failure: Option<String>,
    /// After each run that was not skipped; `None`: nothing.
    pub on_end: Option<String>,
}

impl Hooks {
    /// These, and those of `others` in the place of what is missing. An empty command is none, and is replaced by none.
    pub fn or(&self, others: &Self) -> Self {
        let either = |own: &Option<String>, other: &Option<String>| {
            let found = own.clone().or_else(|| other.clone());
            found.filter(|command| !command.is_empty())
        };
        Self {
            on_failure: either(&self.on_failure, &others.on_failure),
            on_end: either(&self.on_end, &others.on_end),
        }
    }
}
