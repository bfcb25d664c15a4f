//! What TLS must prove before a server gets a password: the modes of the `mysql` client, done by rustls. A given CA is
//! trusted alone, and the name that is verified is the one that the user gave, whichever of its addresses is tried.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use mysql::SslOpts;
use native_tls::Agreed;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    Resumption, verify_server_cert_signed_by_trust_anchor as verify_chain, verify_server_name,
};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use zeroize::Zeroizing;

use super::fault::Fault;
use super::session::Listener;
use super::target::{SslMode, Target, TlsOptions};
use crate::base::exit::{Failure, Reason};
use crate::base::file;
use crate::base::log::Level;
use crate::base::text::in_words;

/// How connections are to be encrypted.
pub struct Tls {
    mode: SslMode,
    /// `None` where nothing is to be encrypted.
    config: Option<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads the files. What makes no difference to these targets is not looked at.
    ///
    /// # Errors
    /// [`Reason::Configuration`] when a file cannot be used.
    pub fn new(
        settings: &TlsOptions,
        targets: &[Target],
        listener: &Listener,
    ) -> Result<Self, Failure> {
        let mode = settings.mode;
        let is_socket = |target: &&Target| !matches!(target, Target::Tcp(..));
        let config = if mode == SslMode::Disabled || targets.iter().all(|target| is_socket(&target))
        {
            None
        } else {
            Some(Arc::new(config(settings, listener)?))
        };
        Ok(Self { mode, config })
    }

    /// For the next connection, which goes to this address of the host that was named so: what to give to the `mysql` crate.
    /// `None` is no TLS.
    ///
    /// # Errors
    /// [`Fault::Untrusted`] when no certificate can be for that host.
    pub fn lay_down(&self, host: &str, address: IpAddr) -> Result<Option<SslOpts>, Fault> {
        let Some(config) = &self.config else {
            return Ok(None);
        };
        let named = ServerName::try_from(host.strip_suffix('.').unwrap_or(host).to_owned());
        let name = match named {
            Ok(name) => name,
            Err(_) if self.mode == SslMode::VerifyIdentity => {
                let line = format!(
                    "no certificate can be for the host {host}; use its name, or --ssl-mode verify-ca"
                );
                return Err(Fault::Untrusted(refusal(line)));
            }
            Err(_) => ServerName::IpAddress(address.into()),
        };
        native_tls::lay_down(Arc::clone(config), name);
        Ok(Some(SslOpts::default()))
    }

    /// Whether any connection is to be encrypted.
    pub fn is_used(&self) -> bool {
        self.config.is_some()
    }

    /// Whether it may be done without, where the server does not offer it.
    pub fn is_optional(&self) -> bool {
        self.mode == SslMode::Preferred
    }

    /// Whether servers prove who they are.
    pub fn is_verified(&self) -> bool {
        self.mode >= SslMode::VerifyCa && self.config.is_some()
    }
}

/// What rustls is to do.
fn config(settings: &TlsOptions, listener: &Listener) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(ring::default_provider());
    let asks_who = settings.mode >= SslMode::VerifyCa;
    let roots = asks_who
        .then(|| roots(settings.ca.as_deref()))
        .transpose()?;
    let verifier = Verifier {
        roots,
        verifies_name: settings.mode == SslMode::VerifyIdentity,
        algorithms: provider.signature_verification_algorithms,
    };
    let identity = identity(settings, &provider, listener)?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::new(Reason::Internal, format!("cannot set up TLS: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match identity {
        Some(identity) => {
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
        None => config.with_no_client_auth(),
    };
    // Each connection proves anew who is there: the server may be another one, or have another certificate.
    config.resumption = Resumption::disabled();
    // The name is nobody's business where it proves nothing; as with the `mysql` client, to which it is an option.
    config.enable_sni = settings.mode == SslMode::VerifyIdentity;
    Ok(config)
}

/// The CAs to trust: those of the file, and no other, or else those of the system.
fn roots(file: Option<&Path>) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    let Some(path) = file else {
        // What the system has besides, and cannot be read, is of no matter as long as there are some.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(refusal(
                "the system names no CA that it trusts; name yours with --ssl-ca".to_owned(),
            ));
        }
        return Ok(roots);
    };
    let file = File::read("--ssl-ca", path)?;
    let (usable, _) = roots.add_parsable_certificates(file.certificates()?);
    if usable == 0 {
        return Err(file.refused("its certificates cannot be read"));
    }
    Ok(roots)
}

/// Looks at the file with the public key of a server, which the crate reads where it needs it, and trusts to be one.
///
/// # Errors
/// [`Reason::Configuration`] when it cannot be used.
pub fn check_public_key(path: &Path) -> Result<(), Failure> {
    let file = File::read("--server-public-key-path", path)?;
    let key = SubjectPublicKeyInfoDer::from_pem_slice(&file.bytes);
    let is_rsa = |key: &[u8]| key.windows(RSA.len()).any(|place| place == RSA);
    match key {
        Ok(key) if is_rsa(&key) => Ok(()),
        _ => Err(file.refused("it has no RSA key in PEM (-----BEGIN PUBLIC KEY-----)")),
    }
}

/// The number by which a key says that it is one of RSA, 1.2.840.113549.1.1.1.
const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";

/// dblock's own certificate and key, if it is to show one.
fn identity(
    settings: &TlsOptions,
    provider: &CryptoProvider,
    listener: &Listener,
) -> Result<Option<CertifiedKey>, Failure> {
    let Some(identity) = &settings.identity else {
        return Ok(None);
    };
    let cert = File::read("--ssl-cert", &identity.cert)?;
    let chain = cert.certificates()?;
    let key = File::read("--ssl-key", &identity.key)?;
    let signing = provider
        .key_provider
        .load_private_key(key.private_key()?)
        .map_err(|_| {
            key.refused("dblock has no use for this kind of key; RSA of 2048 to 4096 bits, P-256, P-384 and Ed25519 work")
        })?;
    // Sought in its bytes: a certificate of version 1, which rustls would not read, has it there like any other.
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

/// A file that an option names, in PEM.
struct File<'a> {
    option: &'static str,
    path: &'a Path,
    bytes: Zeroizing<Vec<u8>>,
    is_public: bool,
}

impl<'a> File<'a> {
    fn read(option: &'static str, path: &'a Path) -> Result<Self, Failure> {
        let mut file = Self {
            option,
            path,
            bytes: Zeroizing::default(),
            is_public: false,
        };
        let read = file::read(path).map_err(|error| file.refused(&in_words(&error)))?;
        file.bytes = read.0;
        file.is_public = read.1.mode() & 0o006 != 0;
        Ok(file)
    }

    /// At least one.
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Failure> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.bytes).collect();
        match certificates {
            Ok(certificates) if certificates.is_empty() => {
                Err(self.refused("it has no certificate in PEM (-----BEGIN CERTIFICATE-----)"))
            }
            Ok(certificates) => Ok(certificates),
            // The error may quote the file.
            Err(_) => Err(self.refused("its PEM is damaged")),
        }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, Failure> {
        use rustls::pki_types::pem::Error::NoItemsFound;
        // Both ways to write it.
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

    fn refused(&self, why: &str) -> Failure {
        refusal(format!(
            "cannot use the file of {}, {}: {why}",
            self.option,
            self.path.display()
        ))
    }
}

fn refusal(line: String) -> Failure {
    Failure::new(Reason::Configuration, line)
}

/// Decides whether a server is the right one.
#[derive(Debug)]
struct Verifier {
    /// `None`: whoever it is.
    roots: Option<RootCertStore>,
    verifies_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let all = self.algorithms.all;
            verify_chain(&certificate, roots, intermediates, now, all)?;
            if self.verifies_name {
                verify_server_name(&certificate, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    // Where anybody may be there, it is of no use to prove that they have the key of the certificate that they show; and the
    // proof could not be read where that is one of version 1, such as many servers have.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if self.roots.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if self.roots.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// What is used, in the words of the servers: `TLSv1.3, TLS_AES_256_GCM_SHA384`.
pub fn in_use(agreed: Agreed) -> String {
    let version = format!("{:?}", agreed.version).replace('_', ".");
    let suite = format!("{:?}", agreed.suite).replace("TLS13_", "TLS_");
    format!("{version}, {suite}")
}
