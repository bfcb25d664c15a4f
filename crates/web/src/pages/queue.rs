//! A queue.

use maud::{Markup, html};

use super::View;
use crate::fleet::{Part, Seen, data};

/// The page. The dead jobs are the latest.
pub fn page(_view: &View, _seen: &Seen, _name: &str, _dead: &Part<data::QueueList>) -> Markup {
    html! {}
}
