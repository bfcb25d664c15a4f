//! The hosts that count, and where they are given.

use super::{Given, Precedence};
use crate::settings::host::Host;

/// The hosts of the strongest source that names some.
pub struct Named {
    /// The source.
    pub precedence: Precedence,
    /// Its hosts.
    pub hosts: Vec<Host>,
    /// Where they are given.
    pub place: String,
    /// Whether a URL names them.
    pub is_url: bool,
}

impl Named {
    /// These hosts, which are `given` there.
    pub fn new(precedence: Precedence, hosts: Vec<Host>, given: &Given) -> Self {
        Self {
            precedence,
            hosts,
            place: given.place(),
            is_url: given.name == "url",
        }
    }
}
