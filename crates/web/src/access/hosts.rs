//! Under which names the page is opened. A name of somebody else's that is made to lead here (DNS rebinding) would make this server a
//! part of their site, so that their scripts could read it. Nobody can do that with an address, or with a name that is this host's own.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};
use nix::unistd::gethostname;

/// The names, in lower case.
#[derive(Debug)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// This host's own, and these.
    pub fn new(more: &[String]) -> Self {
        let mut names = vec!["localhost".to_owned()];
        if let Some(own) = gethostname().ok().and_then(|name| name.into_string().ok()) {
            names.push(own.to_lowercase());
        }
        names.extend(more.iter().cloned());
        Self(names)
    }

    /// Checks the name in a request.
    ///
    /// # Errors
    /// What is to be done about it, in words.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), String> {
        let mut given = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (given.next(), given.next()) else {
            return Err("The request must have one Host header.".to_owned());
        };
        let name = host.to_str().ok().and_then(name_of).unwrap_or_default();
        if is_address(&name) || self.0.contains(&name) {
            return Ok(());
        }
        Err(format!(
            "This server does not know that it is called {name:?}. If it is, start it with --host-name {name}."
        ))
    }
}

fn is_address(name: &str) -> bool {
    let name = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    name.parse::<IpAddr>().is_ok()
}

/// The name without the port, in lower case and without a dot at its end.
fn name_of(host: &str) -> Option<String> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.[]:".contains(letter);
    let name = name.trim_end_matches('.').to_lowercase();
    (!name.is_empty() && name.chars().all(is_of_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_known_whatever_the_port() {
        let hosts = Hosts::new(&["fleet.example".to_owned()]);
        let check = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            hosts.check(&headers).is_ok()
        };
        for known in [
            "127.0.0.1:8080",
            "127.0.0.1",
            "localhost:9",
            "LOCALHOST.",
            "[::1]:8080",
            "[::1]",
            "10.1.2.3",
            "Fleet.example:443",
        ] {
            assert!(check(known), "{known}");
        }
        for unknown in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "",
            ":80",
            "fleet.example.evil",
            "a/b",
        ] {
            assert!(!check(unknown), "{unknown}");
        }
    }
}
