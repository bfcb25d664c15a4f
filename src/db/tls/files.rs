//! The files of TLS: certificates and keys in PEM.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use super::refusal;
use crate::base::exit::Failure;
use crate::base::file;
use crate::base::log::{Level, Listener};
use crate::base::text::in_words;
use crate::db::target::TlsOptions;

/// Checks the file with a server's public key. The crate reads it only when it needs it, and does not check it.
///
/// # Errors
/// [`Reason::Configuration`](crate::base::exit::Reason) when it cannot be used.
pub fn check_public_key(path: &Path) -> Result<(), Failure> {
    let file = File::read("--server-public-key-path", path)?;
    let key = SubjectPublicKeyInfoDer::from_pem_slice(&file.bytes);
    let is_rsa = |key: &[u8]| key.windows(RSA.len()).any(|place| place == RSA);
    match key {
        Ok(key) if is_rsa(&key) => Ok(()),
        _ => Err(file.refused("it has no RSA key in PEM (-----BEGIN PUBLIC KEY-----)")),
    }
}

/// The object identifier of RSA keys, 1.2.840.113549.1.1.1.
const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";

/// dblock's own certificate and key, if it should show one.
pub fn identity(
    settings: &TlsOptions,
    provider: &CryptoProvider,
    listener: &Listener,
) -> Result<Option<CertifiedKey>, Failure> {
    let Some(identity) = &settings.identity else {
        return Ok(None);
    };
    let cert = File::read(settings.names.cert, &identity.cert)?;
    let chain = cert.certificates()?;
    let key = File::read(settings.names.key, &identity.key)?;
    let signing = provider
        .key_provider
        .load_private_key(key.private_key()?)
        .map_err(|_| {
            key.refused("dblock has no use for this kind of key; RSA of 2048 to 4096 bits, P-256, P-384 and Ed25519 work")
        })?;
    // Searches in the bytes: rustls would not read a certificate of version 1, but the key is in there, too.
    let own = signing.public_key();
    let matches = own.is_none_or(|own| {
        let mut places = chain[0].windows(own.as_ref().len());
        places.any(|place| place == own.as_ref())
    });
    if !matches {
        return Err(key.refused(&format!(
            "it is not the key of the certificate in {}",
            cert.path.display()
        )));
    }
    if key.is_public {
        let path = key.path.display();
        let line = format!("the key file {path} can be read by others; chmod 600 it");
        listener(Level::Warning, &line);
    }
    Ok(Some(CertifiedKey::new(chain, signing)))
}

/// A PEM file that the user names.
pub struct File<'a> {
    /// What the user calls it.
    name: &'static str,
    path: &'a Path,
    bytes: Zeroizing<Vec<u8>>,
    is_public: bool,
}

impl<'a> File<'a> {
    /// Reads it.
    pub fn read(name: &'static str, path: &'a Path) -> Result<Self, Failure> {
        let mut file = Self {
            name,
            path,
            bytes: Zeroizing::default(),
            is_public: false,
        };
        let read = file::read(path).map_err(|error| file.refused(&in_words(&error)))?;
        file.bytes = read.0;
        file.is_public = read.1.mode() & 0o006 != 0;
        Ok(file)
    }

    /// All certificates in it, at least one.
    pub fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Failure> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match certificates {
            Ok(certificates) if certificates.is_empty() => {
                Err(self.refused("it has no certificate in PEM (-----BEGIN CERTIFICATE-----)"))
            }
            Ok(certificates) => Ok(certificates),
            // Not shown, as the error may quote the file.
            Err(_) => Err(self.refused("its PEM is damaged")),
        }
    }

    /// Those of them that can be read, perhaps none.
    pub fn readable_certificates(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(&self.bytes)
            .flatten()
            .collect()
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, Failure> {
        use rustls::pki_types::pem::Error::NoItemsFound;
        // The two forms of an encrypted key.
        let encrypted: [&[u8]; 2] = [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];
        let has = |words: &[u8]| self.bytes.windows(words.len()).any(|place| place == words);
        if encrypted.into_iter().any(has) {
            return Err(self.refused(
                "the key is encrypted, and dblock asks for no passphrase; `openssl pkey` writes it without one",
            ));
        }
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|error| match error {
            NoItemsFound => {
                self.refused("it has no private key in PEM (-----BEGIN PRIVATE KEY-----)")
            }
            _ => self.refused("its PEM is damaged"),
        })
    }

    /// The failure that the file cannot be used, and why.
    pub fn refused(&self, why: &str) -> Failure {
        refusal(format!(
            "cannot use the file of {}, {}: {why}",
            self.name,
            self.path.display()
        ))
    }
}
