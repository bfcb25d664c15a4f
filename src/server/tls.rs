//! What TLS must prove before a server gets a password: the modes of the `mysql` client, done by rustls. A given CA is
//! trusted alone, and the name that is verified is the one that the user gave, whichever of its addresses is tried.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

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
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    SignatureScheme,
};

use zeroize::Zeroizing;

use super::{Fault, Listener};
use crate::exit::{Failure, Reason};
use crate::regular_file;
use crate::report::{Level, in_words};
use crate::settings::{self, SslMode, Target};

/// Of so many names in a server's certificate is told at most.
const NAMES_TOLD: usize = 5;

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
        settings: &settings::Tls,
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
fn config(settings: &settings::Tls, listener: &Listener) -> Result<ClientConfig, Failure> {
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
    settings: &settings::Tls,
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
        let read = regular_file::read(path).map_err(|error| file.refused(&in_words(&error)))?;
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

/// A fault of rustls's while shaking hands with `server`, or when the server's last word on it came later.
pub fn fault(error: &rustls::Error, server: &str) -> Fault {
    use rustls::Error::{AlertReceived, InvalidCertificate, PeerIncompatible};
    let (reason, line) = match error {
        InvalidCertificate(error) => {
            let wrong = wrong_with_certificate(error);
            (
                Reason::Configuration,
                format!("{server} is not trusted: {wrong}"),
            )
        }
        // What is wrong is on its side, and may pass.
        AlertReceived(AlertDescription::InternalError) => {
            return Fault::Gone("the server failed in the TLS handshake".to_owned());
        }
        AlertReceived(alert) => {
            let why = meaning(*alert);
            (
                Reason::Configuration,
                format!("{server} refused the TLS handshake: {why}"),
            )
        }
        PeerIncompatible(why) => (
            Reason::Configuration,
            format!(
                "{server} has no TLS that dblock has, which is 1.2 and 1.3 with today's ciphers ({why:?}); renew the server"
            ),
        ),
        other => (
            Reason::Internal,
            format!("{server} does not speak TLS as dblock knows it: {other}"),
        ),
    };
    let failure = Failure::new(reason, line);
    match reason {
        Reason::Configuration => Fault::Untrusted(failure),
        _ => Fault::Final(failure),
    }
}

/// What an alert of the server's says.
fn meaning(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "it wants a certificate; give one with --ssl-cert and --ssl-key".to_owned()
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => {
            format!("it does not accept the certificate of --ssl-cert ({alert:?})")
        }
        AlertDescription::ProtocolVersion => {
            "it has neither TLS 1.2 nor TLS 1.3; set its tls_version".to_owned()
        }
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => format!(
            "it has no cipher that dblock has, or no certificate to show, or wants one ({alert:?})"
        ),
        other => format!("it sent the alert {other:?}"),
    }
}

/// What is wrong with a server's certificate, and what to do.
fn wrong_with_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "no CA that is trusted here has signed its certificate; name the one that has with --ssl-ca".to_owned()
        }
        CertificateError::ExpiredContext { not_after, .. } => format!(
            "its certificate, or that of its CA, has expired on {}; renew it, or set this host's clock",
            date(*not_after)
        ),
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "its certificate, or that of its CA, is not valid before {}; is this host's clock right?",
            date(*not_before)
        ),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => wrong_name(&expected.to_str(), presented),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not for a server (extendedKeyUsage); make it one with serverAuth".to_owned()
        }
        CertificateError::BadSignature
        | CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "a signature of its certificate or its key is wrong, or of a kind that is not trusted any more: RSA below 2048 bits, \
             SHA-1"
                .to_owned()
        }
        // They have no kinds of their own; what they are called is all that there is.
        other => match format!("{other:?}") {
            what if what.contains("UnsupportedCertVersion") => {
                "its certificate is of X.509 version 1, which cannot be verified; make one of version 3".to_owned()
            }
            what if what.contains("CaUsedAsEndEntity") => {
                "its certificate is that of a CA; have the CA sign one for the server".to_owned()
            }
            what => format!("its certificate is of no use ({what})"),
        },
    }
}

/// The names that a certificate is for come as `DnsName("x")` and `IpAddress(x)`.
fn wrong_name(expected: &str, presented: &[String]) -> String {
    if presented.is_empty() {
        return format!(
            "its certificate is for no host (it has no subjectAltName), so not for {expected}; make one with that, or use \
             --ssl-mode verify-ca"
        );
    }
    let bare = |name: &String| {
        let inner = name.split_once('(').map_or(&**name, |(_, inner)| inner);
        inner.trim_matches(['"', ')']).to_owned()
    };
    let mut names: Vec<String> = presented.iter().take(NAMES_TOLD).map(bare).collect();
    if presented.len() > NAMES_TOLD {
        names.push("…".to_owned());
    }
    format!(
        "its certificate is for {}, not for {expected}; name the server so, or use --ssl-mode verify-ca",
        names.join(", ")
    )
}

fn date(time: UnixTime) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(time.as_secs()));
    time.map_or_else(String::new, |time| {
        humantime::format_rfc3339_seconds(time).to_string()
    })
}
