//! The addresses of a target.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::db::fault::Fault;
use crate::db::resolver::Resolved;
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

    /// The addresses of a target: all those of a name, as `resolve` finds them.
    ///
    /// # Errors
    /// [`Fault::Gone`] where there is none.
    pub fn all_of(
        target: &Target,
        resolve: impl FnOnce(&str) -> Resolved,
    ) -> Result<Vec<Self>, Fault> {
        match target {
            Target::Tcp(host, port) => {
                if let Ok(ip) = host.parse() {
                    return Ok(vec![Self::Tcp(ip, *port)]);
                }
                let found = resolve(host)
                    .map_err(|cause| Fault::Gone(format!("cannot resolve the name: {cause}")))?;
                Ok(found.into_iter().map(|ip| Self::Tcp(ip, *port)).collect())
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
