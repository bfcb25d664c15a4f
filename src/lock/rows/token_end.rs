//! How a script's grant ends without a release by the script.

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenEnd<'a> {
    /// Another caller gave the same owner name.
    TakenOver,
    /// It expired, and another caller acquired the slot.
    Expired,
    /// This client killed it, or the command under it.
    Killed(&'a str),
}

/// Makes the statement that records how the grant of this owner has ended. The statement ends with a condition, so more conditions can
/// follow.
pub type RecordTokenEnd = Box<dyn Fn(&str, TokenEnd) -> String>;
