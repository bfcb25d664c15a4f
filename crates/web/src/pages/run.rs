//! A run of the history.

use maud::{Markup, html};

use super::View;
use crate::fleet::{Part, data};

/// The page. The output is None without --show-data, or when none is kept.
pub fn page(
    _view: &View,
    _id: &str,
    _run: &Part<Option<data::Run>>,
    _output: &Part<Option<Vec<u8>>>,
) -> Markup {
    html! {}
}
