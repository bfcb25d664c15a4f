//! The addresses of a target.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;

use crate::db::fault::Fault;
use crate::db::target::Target;

/// The local socket's usual places, in distributions and in MySQL's own builds.
const USUAL_SOCKETS: [&str; 4] = [
    "/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/tmp/mysql.sock",
    "/run/mysql/mysql.sock",
];

/// One address to try.
pub enum Address {
    Tcp(IpAddr, u16),
    Socket(PathBuf),
}

impl Address {
    /// The server, as the user named it, with the address of a name.
    pub fn shown(&self, target: &Target) -> String {
        match (self, target) {
            (Self::Tcp(ip, _), Target::Tcp(name, _)) if *name != ip.to_string() => {
                format!("{target} ({ip})")
            }
            (Self::Tcp(..), _) => target.to_string(),
            (Self::Socket(path), _) => path.display().to_string(),
        }
    }

    /// The addresses of a target: all those of a name, in the resolver's order.
    ///
    /// # Errors
    /// [`Fault::Gone`] where there is none.
    pub fn all_of(target: &Target, log: &dyn Fn(&str)) -> Result<Vec<Self>, Fault> {
        match target {
            Target::Tcp(host, port) => {
                if let Ok(ip) = host.parse() {
                    return Ok(vec![Self::Tcp(ip, *port)]);
                }
                // The resolver has its own time limit. If that is too long, the supervisor ends this process.
                log(&format!("resolving the name {host}"));
                let found = (host.as_str(), *port).to_socket_addrs();
                let found = found.map_err(|error| {
                    Fault::Gone(format!("cannot resolve the name: {}", resolver(&error)))
                })?;
                let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
                addresses.dedup();
                Ok(addresses
                    .into_iter()
                    .map(|ip| Self::Tcp(ip, *port))
                    .collect())
            }
            Target::Socket(path) => Ok(vec![Self::Socket(path.clone())]),
            Target::UsualSocket => {
                let usual = USUAL_SOCKETS
                    .iter()
                    .map(PathBuf::from)
                    .find(|path| path.exists());
                let path = usual.ok_or_else(|| {
                    Fault::Gone(
                        "no local socket at the usual places; name it with --socket".to_owned(),
                    )
                })?;
                Ok(vec![Self::Socket(path)])
            }
        }
    }
}

/// The resolver's message, without the standard library's prefix.
fn resolver(error: &io::Error) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to lookup address information: ")
        .unwrap_or(&text)
        .to_owned()
}
