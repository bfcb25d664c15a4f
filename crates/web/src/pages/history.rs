//! What ran, 50 runs a page.

use maud::{Markup, html};
use serde::Deserialize;

use super::View;
use crate::fleet::{Part, data};

/// What the URL asks for: the options of `dblock history`. Empty: not given.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// The name of a lock.
    pub name: String,
    /// How the runs ended.
    pub result: String,
    /// The host.
    pub on: String,
    /// Since when.
    pub since: String,
    /// Until when.
    pub until: String,
    /// The page.
    pub after: String,
}

/// The page.
pub fn page(_view: &View, _asked: &Asked, _runs: &Part<data::History>) -> Markup {
    html! {}
}
