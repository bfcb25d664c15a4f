//! A job of the crontab.

use maud::{Markup, html};

use super::View;
use crate::fleet::Seen;

/// The page.
pub fn page(_view: &View, _seen: &Seen, _name: &str) -> Markup {
    html! {}
}
