//! How the grant of a script ends that the script does not release.

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenEnd<'a> {
    /// Another one gave the same owner name.
    TakenOver,
    /// Its time was over, and somebody has acquired the slot.
    Expired,
    /// This one has ended it, or its command.
    Killed(&'a str),
}

/// The statement that records how the grant of this owner has ended. It ends with a condition, so that others may follow.
pub type RecordTokenEnd = Box<dyn Fn(&str, TokenEnd) -> String>;
