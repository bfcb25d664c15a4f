//! Why a run did not run, or what went wrong.

use maud::{Markup, html};

use super::View;
use super::layout::hidden;
use crate::fleet::data::{Ending, Kind, Run};

/// What is recorded of it; where nothing is, how its command failed. None: nothing went wrong.
pub fn why(view: &View, run: &Run) -> Option<Markup> {
    recorded(view, run).or_else(|| failure(&run.ending).map(|how| html! { (how) }))
}

/// What is recorded of it. The line of an error may have a word of the command line, and needs `--show-data`. None: there is nothing.
pub fn recorded(view: &View, run: &Run) -> Option<Markup> {
    let message = run.message.as_ref()?;
    let is_error = !matches!(run.ending.kind(), Kind::Skipped | Kind::Lost);
    Some(if is_error && !view.show_data {
        hidden("Error")
    } else {
        html! { (message) }
    })
}

/// How a command failed, of which nothing else is recorded. None: it did not.
fn failure(ending: &Ending) -> Option<String> {
    match (&*ending.outcome, &ending.signal, ending.exit_code) {
        ("ran", Some(signal), _) => Some(format!("It died of {signal}.")),
        ("ran", None, Some(code @ 1..)) => Some(format!("It exited with {code}.")),
        ("timed_out", _, _) => Some("It ran into --timeout.".to_owned()),
        _ => None,
    }
}
