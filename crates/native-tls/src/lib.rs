//! Takes the place of the crate `native-tls` under the `mysql` crate: of that crate's types and functions it has those that
//! `mysql` calls, and no more. Behind them is rustls, with what was prepared for the connection.
//!
//! `mysql` says by its own options only *that* it wants TLS. What the server must prove, and under which name, is prepared
//! by [`prepare_tls`] just before `mysql` connects, on the same thread. So the address to connect to and the name to verify are
//! two things, and no root is trusted that was not asked for.

mod stream;

use std::cell::RefCell;
use std::error;
use std::fmt;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ClientConnection, ProtocolVersion};

pub use stream::TlsStream;

thread_local! {
    static PREPARED: RefCell<Option<(Arc<ClientConfig>, ServerName<'static>)>> = const { RefCell::new(None) };
    static AGREED: RefCell<Option<Agreed>> = const { RefCell::new(None) };
}

/// For the next connection of this thread: what rustls is to do, and the name under which the server is known.
pub fn prepare_tls(config: Arc<ClientConfig>, name: ServerName<'static>) {
    AGREED.take();
    PREPARED.replace(Some((config, name)));
}

/// What the latest handshake of this thread has come to, told once; `None` where there was none since the latest
/// [`prepare_tls`].
#[must_use]
pub fn agreed() -> Option<Agreed> {
    AGREED.take()
}

/// What two sides use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// The protocol's version.
    pub version: ProtocolVersion,
    /// The ciphers.
    pub suite: CipherSuite,
}

/// Why there is no TLS.
#[derive(Debug)]
pub enum Error {
    /// The connection broke, or an answer did not come in time.
    Io(io::Error),
    /// One side does not want the other, or does not understand it.
    Tls(rustls::Error),
    /// Nothing was prepared for this connection, or something was asked for that can only be prepared.
    NotPrepared,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Tls(error) => error.fmt(f),
            Self::NotPrepared => f.write_str("nothing was prepared for this connection"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::NotPrepared => None,
        }
    }
}

impl From<io::Error> for Error {
    /// rustls wraps its own errors in those of the system.
    fn from(error: io::Error) -> Self {
        match error.downcast() {
            Ok(error) => Self::Tls(error),
            Err(error) => Self::Io(error),
        }
    }
}

/// A handshake that came to nothing.
#[derive(Debug)]
pub struct HandshakeError<S> {
    /// Why.
    pub cause: Error,
    stream: PhantomData<fn() -> S>,
}

impl<S> From<Error> for HandshakeError<S> {
    fn from(cause: Error) -> Self {
        let stream = PhantomData;
        Self { cause, stream }
    }
}

impl<S> fmt::Display for HandshakeError<S> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl<S: fmt::Debug> error::Error for HandshakeError<S> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// A root certificate. There is none: roots are prepared.
#[derive(Debug)]
pub enum Certificate {}

impl Certificate {
    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn from_der(_: &[u8]) -> Result<Self, Error> {
        Err(Error::NotPrepared)
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn from_pem(_: &[u8]) -> Result<Self, Error> {
        Err(Error::NotPrepared)
    }
}

/// A client's certificate and key. There is none: they are prepared.
#[derive(Debug)]
pub enum Identity {}

impl Identity {
    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn from_pkcs12(_: &[u8], _: &str) -> Result<Self, Error> {
        Err(Error::NotPrepared)
    }
}

/// Does the handshake as it was prepared.
#[derive(Debug)]
pub struct TlsConnector(());

impl TlsConnector {
    /// To be asked for a connector.
    #[must_use]
    pub fn builder() -> TlsConnectorBuilder {
        TlsConnectorBuilder(())
    }

    /// Shakes hands over `stream`, to the end, so that whatever is wrong is known before a password is sent. The name that
    /// `mysql` gives is the address that it has connected to; the name that counts was prepared.
    ///
    /// # Errors
    /// Nothing was prepared since the connection before, or the handshake came to nothing.
    pub fn connect<S: Read + Write>(
        &self,
        _: &str,
        mut stream: S,
    ) -> Result<TlsStream<S>, HandshakeError<S>> {
        let (config, name) = PREPARED.take().ok_or(Error::NotPrepared)?;
        let mut tls = ClientConnection::new(config, name).map_err(Error::Tls)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).map_err(Error::from)?;
        }
        if let (Some(version), Some(suite)) =
            (tls.protocol_version(), tls.negotiated_cipher_suite())
        {
            let suite = suite.suite();
            AGREED.replace(Some(Agreed { version, suite }));
        }
        Ok(TlsStream::new(tls, stream))
    }
}

/// What `mysql` sets here is what it takes for granted; what was prepared decides.
#[derive(Debug)]
pub struct TlsConnectorBuilder(());

impl TlsConnectorBuilder {
    /// Not called: there is no [`Certificate`].
    #[expect(clippy::needless_pass_by_value, reason = "so `mysql` calls it")]
    pub fn add_root_certificate(&mut self, certificate: Certificate) -> &mut Self {
        match certificate {}
    }

    /// Not called: there is no [`Identity`].
    #[expect(clippy::needless_pass_by_value, reason = "so `mysql` calls it")]
    pub fn identity(&mut self, identity: Identity) -> &mut Self {
        match identity {}
    }

    /// Changes nothing.
    pub fn danger_accept_invalid_hostnames(&mut self, _: bool) -> &mut Self {
        self
    }

    /// Changes nothing.
    pub fn danger_accept_invalid_certs(&mut self, _: bool) -> &mut Self {
        self
    }

    /// The connector.
    ///
    /// # Errors
    /// None.
    pub fn build(&self) -> Result<TlsConnector, Error> {
        Ok(TlsConnector(()))
    }
}
