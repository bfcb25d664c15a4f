//! A server's host, as settings name it.

use super::sources::{Given, Precedence};

/// A host, with the port if the URL has one.
#[derive(Debug, Clone)]
pub struct Host {
    /// The name or address; an IPv6 address has no brackets.
    pub name: String,
    /// The port, never 0.
    pub port: Option<u16>,
}

/// Hosts as in a URL.
pub fn shown(hosts: &[Host]) -> String {
    let shown = hosts.iter().map(|host| {
        let name = if host.name.contains(':') {
            format!("[{}]", host.name)
        } else {
            host.name.clone()
        };
        host.port
            .map_or(name.clone(), |port| format!("{name}:{port}"))
    });
    shown.collect::<Vec<_>>().join(",")
}

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
