//! The servers, and what the login needs: account, password, TLS.

use std::fmt;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use zeroize::Zeroizing;

/// The kind of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// MySQL, or MariaDB.
    MySql,
    /// PostgreSQL.
    Postgres,
}

/// What only PostgreSQL's users set.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// Whether the login by SCRAM is bound to the TLS channel.
    pub channel_binding: ChannelBinding,
    /// What the server is told of its settings at the login, as `-c name=value`; `None`: nothing.
    pub options: Option<String>,
    /// Whether a pooler is in between that is known to keep one server's session for each client's (`pooler=session`).
    pub has_pooler: bool,
}

/// Whether a login by SCRAM is bound to the TLS channel, so that nobody in between can pass it on. With the meaning of libpq's
/// `channel_binding`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChannelBinding {
    /// It is not.
    Disable,
    /// It is where server and connection can.
    #[default]
    Prefer,
    /// It must be.
    Require,
}

/// How to reach a server.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// The kind of all the servers.
    pub kind: Kind,
    /// What only servers of that kind have.
    pub postgres: PostgresOptions,
    /// The servers, in the order in which they are tried; never empty.
    pub targets: Vec<Target>,
    /// The account; `None` is the OS user's name.
    pub user: Option<String>,
    /// Where the password comes from.
    pub password: Password,
    /// How the connection is encrypted.
    pub tls: TlsOptions,
    /// The limit for everything: resolving names, trying hosts, handshakes.
    pub connect_timeout: Duration,
    /// MySQL: the database of dblock's tables, which need not exist. PostgreSQL: the database to connect to; its advisory locks are its
    /// own.
    pub database: String,
    /// PostgreSQL: the schema of dblock's tables in that database, which need not exist.
    pub schema: String,
}

/// One place where a server may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A host name or address (without brackets) and a port.
    Tcp(String, u16),
    /// The path of a local socket.
    Socket(PathBuf),
    /// `localhost` without a path: the local socket in one of the usual places.
    UsualSocket,
}

impl Target {
    /// Whether it is reached by TCP. A local socket has no TLS.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Tcp(..))
    }
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
    /// Whether to encrypt, and what the server must prove.
    pub mode: SslMode,
    /// The CA certificates to trust, in PEM; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// dblock's own certificate; `None`: dblock shows none.
    pub identity: Option<Identity>,
    /// The server's public key, which encrypts a password that is sent without TLS, in PEM; `None`: the key that the server sends.
    pub server_public_key: Option<PathBuf>,
    /// Whether the host's name is sent in clear before TLS begins (SNI), so that a proxy can route by it. libpq does so by default, the
    /// `mysql` client only with an option.
    pub sends_name: bool,
    /// What the user calls these files.
    pub names: TlsFiles,
}

/// What the user calls the files of TLS.
#[derive(Debug, Clone, Copy)]
pub struct TlsFiles {
    /// That of the CAs.
    pub ca: &'static str,
    /// That of dblock's own certificate.
    pub cert: &'static str,
    /// That of its private key.
    pub key: &'static str,
}

impl TlsFiles {
    /// By dblock's options.
    pub const OPTIONS: Self = Self {
        ca: "--ssl-ca",
        cert: "--ssl-cert",
        key: "--ssl-key",
    };
}

/// A certificate of dblock's own.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate, and those between it and its CA, in PEM.
    pub cert: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// The encryption mode, with the meaning of the `mysql` client's option of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// No TLS.
    Disabled,
    /// TLS if the server has it. A failed handshake is an error.
    Preferred,
    /// TLS, without a check of the server.
    Required,
    /// TLS. A trusted CA must have signed the server's certificate.
    VerifyCa,
    /// As `VerifyCa`, and the certificate must be for the host's name or address as the user gave it.
    VerifyIdentity,
}

impl fmt::Display for SslMode {
    /// The word for it in options.
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

/// A password, or where to read it. `Debug` shows neither.
#[derive(Clone)]
pub enum Password {
    /// No password is sent.
    None,
    /// This one.
    Given(Zeroizing<String>),
    /// The first line of this file.
    File(PathBuf),
    /// Read only when it is needed.
    Deferred(DeferredPassword),
}

impl Password {
    /// The descriptor above stderr by which its file is named, as in `/dev/fd/3`; `None`: it has another name.
    pub fn descriptor(&self) -> Option<RawFd> {
        let Self::File(path) = self else {
            return None;
        };
        let mut folders = ["/dev/fd", "/proc/self/fd"].iter();
        let number = folders.find_map(|folder| path.strip_prefix(folder).ok())?;
        let number: RawFd = number.to_str()?.parse().ok()?;
        (number > libc::STDERR_FILENO).then_some(number)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("***")
    }
}

/// Reads the password for a server; `None`: there is none. The error ends a sentence.
type ReadPassword = dyn Fn(&Target) -> Result<Option<Zeroizing<Vec<u8>>>, String>;

/// A password that is read by the process that logs in, and only there.
#[derive(Clone)]
pub struct DeferredPassword {
    /// The place, as an error names it: `the password in FILE:LINE`.
    pub place: String,
    /// Reads it. A password file of PostgreSQL has one for each server.
    pub read: Rc<ReadPassword>,
}

/// How to connect to a server on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// By TCP, even if its name is localhost.
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
