//! Lists that are cut.

/// Cuts a list to at most so many items, if there is a limit. Returns how many are left out.
pub fn omit<T>(list: &mut Vec<T>, limit: Option<usize>) -> usize {
    let whole = list.len();
    list.truncate(limit.unwrap_or(whole));
    whole - list.len()
}
