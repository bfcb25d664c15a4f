//! A server's host, as settings name it.

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
