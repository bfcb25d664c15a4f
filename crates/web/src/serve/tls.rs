//! The certificate of the page, and its key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::access::secret::{open, refuse_public};
use crate::base::exit::{Failure, Reason};
use crate::base::text::in_words;

/// TLS 1.2 and 1.3, with this certificate and its key.
///
/// # Errors
/// They cannot be read, are no regular files, or do not belong together, or others can read the key.
pub fn acceptor((certificate, key): &(PathBuf, PathBuf)) -> Result<TlsAcceptor, Failure> {
    let opened = open(certificate).map_err(|error| refused(certificate, &in_words(&error)));
    let (file, _) = opened?;
    let certificates = CertificateDer::pem_reader_iter(file).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| refused(certificate, &in_pem(&error)))?;
    if certificates.is_empty() {
        return Err(refused(certificate, "there is no certificate in it"));
    }
    let private = private_key(key)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions();
    let builder =
        builder.map_err(|error| Failure::new(Reason::Internal, format!("no TLS: {error}")))?;
    let config = builder
        .with_no_client_auth()
        .with_single_cert(certificates, private);
    let mut config = config.map_err(|error| refused(key, &error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Failure> {
    let opened = open(path).and_then(|(file, metadata)| {
        refuse_public(&metadata)?;
        Ok(file)
    });
    let file = opened.map_err(|error| refused(path, &in_words(&error)))?;
    PrivateKeyDer::from_pem_reader(file).map_err(|error| refused(path, &in_pem(&error)))
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::new(
        Reason::Configuration,
        format!("cannot use {}: {why}", path.display()),
    )
}

fn in_pem(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => in_words(error),
        // A file of certificates is read as a list, which is empty then.
        pem::Error::NoItemsFound => "there is no private key in it".to_owned(),
        other => format!("{other:?}"),
    }
}
