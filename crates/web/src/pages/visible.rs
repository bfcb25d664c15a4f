//! Characters that nobody sees, or that turn the direction of others, are shown as their numbers: a name must not look like another one.

use maud::{Markup, PreEscaped};

use crate::base::text::is_unseen;

/// A page whose texts show all that is in them. What stands in its tags stays: forms send it, and links lead by it.
pub fn visible(page: Markup) -> Markup {
    let is_meant = |c: char, before| is_unseen(c, before) || c.is_control() && !c.is_whitespace();
    if !page.0.contains(|c: char| is_meant(c, None)) {
        return page;
    }
    let mut shown = String::with_capacity(page.0.len());
    let mut is_in_tag = false;
    for c in page.0.chars() {
        match c {
            '<' => is_in_tag = true,
            '>' => is_in_tag = false,
            _ => {}
        }
        if !is_in_tag && is_meant(c, shown.chars().next_back()) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    PreEscaped(shown)
}
