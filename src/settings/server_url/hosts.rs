//! Lists of hosts and ports, as libpq has them.

use std::net::IpAddr;

use crate::settings::host::Host;
use crate::settings::value;

/// libpq's default port.
pub const PORT: u16 = 5432;

/// One or more hosts, separated by commas: names, addresses, or folders with a local socket.
///
/// # Errors
/// The end of a sentence about the value, which is not quoted: it may be a URL with a password by mistake.
pub fn names(text: &str) -> Result<Vec<Host>, String> {
    text.split(',').map(name).collect()
}

fn name(text: &str) -> Result<Host, String> {
    if text.is_empty() {
        return Err(
            "a host is empty; name the folder of the local socket, as /var/run/postgresql"
                .to_owned(),
        );
    }
    if text.starts_with('/') {
        let name = value::socket_path(text)?;
        return Ok(Host {
            name: name.to_string_lossy().into_owned(),
            port: None,
        });
    }
    value::host(text)
}

/// One or more addresses, separated by commas.
///
/// # Errors
/// As [`names`].
pub fn addresses(text: &str) -> Result<Vec<Host>, String> {
    let all = text.split(',').map(|text| match text.parse::<IpAddr>() {
        Ok(_) => value::host(text),
        Err(_) => Err("hostaddr takes addresses of IP alone; a name goes into host".to_owned()),
    });
    all.collect()
}

/// One or more ports, separated by commas. An empty one is the default.
///
/// # Errors
/// The end of a sentence about the value.
pub fn ports(text: &str) -> Result<Vec<u16>, String> {
    let all = text.split(',').map(|text| match text.trim() {
        "" => Ok(PORT),
        // Not quoted: it may be a part of a password.
        text => value::port_number(text).map_err(|_| "a port is a number from 1 to 65535".into()),
    });
    all.collect()
}

/// Gives each host its port: one for all, or as many as hosts.
///
/// # Errors
/// There are more or fewer.
pub fn with_ports(mut hosts: Vec<Host>, ports: &[u16]) -> Result<Vec<Host>, String> {
    if ports.len() != 1 && ports.len() != hosts.len() {
        return Err(format!(
            "could not match {} port numbers to {} hosts",
            ports.len(),
            hosts.len()
        ));
    }
    for (host, port) in hosts.iter_mut().zip(ports.iter().cycle()) {
        host.port = Some(*port);
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_port_for_all_or_one_for_each() {
        let hosts = || names("a,b").unwrap();
        let ports_of = |text: &str| with_ports(hosts(), &ports(text).unwrap());
        let given = |text: &str| {
            ports_of(text)
                .unwrap()
                .iter()
                .map(|host| host.port)
                .collect::<Vec<_>>()
        };
        assert_eq!(given("7"), [Some(7), Some(7)]);
        assert_eq!(given("7,8"), [Some(7), Some(8)]);
        assert_eq!(given(",8"), [Some(5432), Some(8)]);
        assert!(ports_of("1,2,3").is_err());
    }
}
