//! A day, by host or by job.

use maud::{Markup, html};
use serde::Deserialize;

use super::View;
use crate::fleet::{Part, Seen, data};

/// What the URL asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// `host` or `job`.
    pub by: String,
    /// The end of the day; empty: now.
    pub until: String,
}

/// The page. The runs are those of the day.
pub fn page(_view: &View, _seen: &Seen, _asked: &Asked, _runs: &Part<data::History>) -> Markup {
    html! {}
}
