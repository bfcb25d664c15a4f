//! Which servers there are, and what logging in to them takes: account, password, TLS.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use zeroize::Zeroizing;

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// The servers, in the order in which they are tried; never empty.
    pub targets: Vec<Target>,
    /// The account; `None` is the OS user's name.
    pub user: Option<String>,
    /// Where the password comes from.
    pub password: Password,
    /// How the connection is encrypted.
    pub tls: TlsOptions,
    /// Limit for all of it: names resolved, hosts tried, hands shaken.
    pub connect_timeout: Duration,
    /// The database with dblock's tables, which need not exist.
    pub database: String,
}

/// One place where a server may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host name or address (without brackets) and a port.
    Tcp(String, u16),
    /// The path of a local socket.
    Socket(PathBuf),
    /// `localhost` without a path: the local socket at one of the usual places.
    UsualSocket,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::UsualSocket => write!(f, "localhost"),
        }
    }
}

/// How a connection to a server is encrypted.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// Whether it is, and what the server must prove.
    pub mode: SslMode,
    /// The certificates of the CAs to trust, in PEM; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// How dblock proves who it is; `None`: not by a certificate.
    pub identity: Option<Identity>,
    /// The server's public key for a password that travels without TLS, in PEM; `None`: the one that the server shows.
    pub server_public_key: Option<PathBuf>,
}

/// A certificate of dblock's own.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate, and those between it and its CA, in PEM.
    pub cert: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// What is asked of the encryption of a connection, as by the `mysql` client's option of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// None.
    Disabled,
    /// TLS if the server has it. A handshake that fails is an error.
    Preferred,
    /// TLS, whoever the server is.
    Required,
    /// TLS, with a server whose certificate a trusted CA has signed.
    VerifyCa,
    /// The same, and the certificate is for the host as it was named, by name or address.
    VerifyIdentity,
}

impl fmt::Display for SslMode {
    /// As a user gives it.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Preferred => "preferred",
            Self::Required => "required",
            Self::VerifyCa => "verify-ca",
            Self::VerifyIdentity => "verify-identity",
        })
    }
}

/// A password, or where it stands. `Debug` shows neither.
#[derive(Clone)]
pub enum Password {
    /// None is sent.
    None,
    /// This one.
    Given(Zeroizing<String>),
    /// The first line of this file.
    File(PathBuf),
    /// What this reads when it is needed: it is left where it is until then.
    Deferred(DeferredPassword),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("***")
    }
}

/// Reads a password; `None` where there is none. The error is the end of a sentence.
type ReadPassword = dyn Fn() -> Result<Option<Zeroizing<Vec<u8>>>, String>;

/// A password that is read where it is needed, by the process that logs in.
#[derive(Clone)]
pub struct DeferredPassword {
    /// Where it is, as an error names it: `the password in FILE:LINE`.
    pub place: String,
    /// Reads it.
    pub read: Rc<ReadPassword>,
}

/// How a server on this host is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// By TCP, also where it is called localhost.
    Tcp,
    /// By its local socket.
    Socket,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown_by_debug() {
        let password = Password::Given(Zeroizing::new("secret".to_owned()));
        assert_eq!(format!("{password:?}"), "***");
    }
}
