//! TLS: what a server must prove before it gets a password, in the modes of the `mysql` client, with rustls. A given CA is the only one
//! that is trusted. The verified name is the one that the user gave, whichever of its addresses is tried.

mod files;
mod verifier;

use std::env;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::SingleCertAndKey;
use rustls::{CipherSuite, ClientConfig, ProtocolVersion, RootCertStore};
use rustls_native_certs::{load_certs_from_paths, load_native_certs};

use super::fault::Fault;
use super::target::{SslMode, Target, TlsOptions};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Listener;
pub use files::check_public_key;
use files::{File, identity};
use verifier::Verifier;
pub use verifier::is_readable;

/// The variables that replace the system's CAs, as with OpenSSL: a file, and folders.
pub const SYSTEM_CAS: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The encryption of connections.
pub struct Tls {
    mode: SslMode,
    /// `None`: no TLS.
    config: Option<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads the files. Files that make no difference for these targets are not read. `binds_logins`: whether a login may be bound to the
    /// server's certificate.
    ///
    /// # Errors
    /// [`Reason::Configuration`] when a file cannot be used.
    pub fn new(
        settings: &TlsOptions,
        targets: &[Target],
        binds_logins: bool,
        listener: &Listener,
    ) -> Result<Self, Failure> {
        let mode = settings.mode;
        let config = if mode == SslMode::Disabled || !targets.iter().any(Target::is_remote) {
            None
        } else {
            Some(Arc::new(config(settings, binds_logins, listener)?))
        };
        Ok(Self { mode, config })
    }

    /// What rustls is to do for a connection to this address of the host with this name, and the name to verify; `None`: no TLS.
    ///
    /// # Errors
    /// [`Fault::Untrusted`] if no certificate can be for that host.
    pub fn prepare(
        &self,
        host: &str,
        address: IpAddr,
    ) -> Result<Option<(Arc<ClientConfig>, ServerName<'static>)>, Fault> {
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
        Ok(Some((Arc::clone(config), name)))
    }

    /// Whether any connection is encrypted.
    pub fn is_used(&self) -> bool {
        self.config.is_some()
    }

    /// Whether to connect without TLS if the server does not offer it.
    pub fn is_optional(&self) -> bool {
        self.mode == SslMode::Preferred
    }

    /// Whether servers prove who they are.
    pub fn is_verified(&self) -> bool {
        self.mode >= SslMode::VerifyCa && self.config.is_some()
    }
}

/// The configuration of rustls.
fn config(
    settings: &TlsOptions,
    binds_logins: bool,
    listener: &Listener,
) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(ring::default_provider());
    let asks_who = settings.mode >= SslMode::VerifyCa;
    let roots = asks_who
        .then(|| roots(settings.ca.as_deref(), settings.names.ca))
        .transpose()?;
    let (roots, unusable) = roots.unzip();
    let verifier = Verifier {
        roots,
        unusable: unusable.flatten(),
        binds_logins,
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
    // Each connection must prove anew who the server is: it may be another one, or have another certificate.
    config.resumption = Resumption::disabled();
    config.enable_sni = settings.sends_name;
    Ok(config)
}

/// The CAs to trust: only those of the file, which the user calls so, or else those of the system, and what of these cannot be used.
fn roots(
    file: Option<&Path>,
    name: &'static str,
) -> Result<(RootCertStore, Option<Failure>), Failure> {
    let mut roots = RootCertStore::empty();
    let Some(path) = file else {
        // System certificates that cannot be read do not matter, as long as one of the others has signed the server's.
        let (certificates, unusable) = of_system();
        roots.add_parsable_certificates(certificates);
        if roots.is_empty() {
            let why = unusable.map_or_else(String::new, |failure| format!(": {failure}"));
            return Err(refusal(format!(
                "the system names no CA that it trusts{why}; name yours with --ssl-ca"
            )));
        }
        return Ok((roots, unusable));
    };
    let file = File::read(name, path)?;
    let (usable, _) = roots.add_parsable_certificates(file.certificates()?);
    if usable == 0 {
        return Err(file.refused("its certificates cannot be read"));
    }
    Ok((roots, None))
}

/// The certificates of the CAs that the system trusts, or that [`SYSTEM_CAS`] name instead; and why there are none of that file.
fn of_system() -> (Vec<CertificateDer<'static>>, Option<Failure>) {
    let [of_file, of_folders] = SYSTEM_CAS;
    let given = |variable| env::var_os(variable).filter(|value| !value.is_empty());
    let (file, folders) = (given(of_file), given(of_folders));
    if file.is_none() && folders.is_none() {
        // The crate takes an empty one for the name of a file.
        // SAFETY: this process has one thread.
        unsafe { env::remove_var(of_file) };
        return (load_native_certs().certs, None);
    }
    let mut certificates = Vec::new();
    let mut unusable = None;
    if let Some(path) = file.as_deref().map(Path::new) {
        match File::read(of_file, path) {
            Ok(file) => {
                certificates = file.readable_certificates();
                if certificates.is_empty() {
                    unusable = file.certificates().err();
                }
            }
            Err(failure) => unusable = Some(failure),
        }
    }
    for folder in folders.iter().flat_map(env::split_paths) {
        certificates.extend(load_certs_from_paths(None, Some(&folder)).certs);
    }
    (certificates, unusable)
}

fn refusal(line: String) -> Failure {
    Failure::new(Reason::Configuration, line)
}

/// The agreed version and cipher, in the servers' notation: `TLSv1.3, TLS_AES_256_GCM_SHA384`.
pub fn in_use(version: ProtocolVersion, suite: CipherSuite) -> String {
    let version = format!("{version:?}").replace('_', ".");
    let suite = format!("{suite:?}").replace("TLS13_", "TLS_");
    format!("{version}, {suite}")
}
