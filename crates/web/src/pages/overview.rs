//! What is wrong, and then all there is.

use maud::{Markup, html};

use super::View;
use crate::fleet::Seen;

/// The page.
pub fn page(_view: &View, _seen: &Seen) -> Markup {
    html! {}
}
