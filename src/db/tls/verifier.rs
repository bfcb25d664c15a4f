//! Decides whether a server is the right one.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    verify_server_cert_signed_by_trust_anchor as verify_chain, verify_server_name,
};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};

use crate::base::exit::Failure;

/// Decides whether a server is the right one.
#[derive(Debug)]
pub struct Verifier {
    /// The CAs to trust; `None`: any server is accepted.
    pub roots: Option<RootCertStore>,
    /// Why there are no more CAs; `None`: there are all that were named.
    pub unusable: Option<Failure>,
    /// Whether any server must prove that it has the key of its certificate, if that [can be read](is_readable): a login may be bound to
    /// it.
    pub binds_logins: bool,
    /// Whether the certificate must be for the name that the user gave.
    pub verifies_name: bool,
    /// The accepted signature algorithms.
    pub algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Whether a server must prove that it has the key of this certificate. If any server is accepted, that proves nothing by itself; and
    /// rustls cannot read a certificate of version 1, which many servers have.
    fn verifies_key(&self, certificate: &CertificateDer) -> bool {
        self.roots.is_some() || self.binds_logins && is_readable(certificate)
    }

    /// The error of a chain. That of a missing CA has why there are no more, for its message.
    fn explained(&self, error: rustls::Error) -> rustls::Error {
        let lacks_ca = error == rustls::Error::from(CertificateError::UnknownIssuer);
        match &self.unusable {
            Some(failure) if lacks_ca => {
                CertificateError::Other(OtherError(Arc::new(failure.clone()))).into()
            }
            _ => error,
        }
    }
}

/// Whether rustls can read a certificate, and so can verify that the server has its key.
pub fn is_readable(certificate: &CertificateDer) -> bool {
    ParsedCertificate::try_from(certificate).is_ok()
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
            verify_chain(&certificate, roots, intermediates, now, all)
                .map_err(|error| self.explained(error))?;
            if self.verifies_name {
                verify_server_name(&certificate, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        if !self.verifies_key(cert) {
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
        if !self.verifies_key(cert) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
