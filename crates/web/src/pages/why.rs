//! Why a run did not run, or what went wrong.

use maud::{Markup, html};

use super::View;
use super::layout::hidden;
use crate::fleet::data::{Kind, Run};

/// What is recorded of it: how it ended stands beside it. The line of an error may have a word of the command line, and needs
/// `--show-data`. None: there is nothing.
pub fn why(view: &View, run: &Run) -> Option<Markup> {
    let message = run.message.as_ref()?;
    let is_error = !matches!(run.ending.kind(), Kind::Skipped | Kind::Lost);
    Some(if is_error && !view.show_data {
        hidden("Error")
    } else {
        html! { (message) }
    })
}
