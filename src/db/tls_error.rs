//! Explains why TLS with a server has failed, and what to do about it.

use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, OtherError};

use crate::base::exit::{Failure, Reason};

/// The most names of a certificate that a message lists.
const NAMES_TOLD: usize = 5;

/// Explains an error of the handshake with `server`, or of its later verdict on our certificate: the reason, and the line.
/// [`Reason::Unreachable`] may pass; with [`Reason::Configuration`] the server must not be trusted.
pub fn explain(error: &rustls::Error, server: &str) -> (Reason, String) {
    use rustls::Error::{AlertReceived, InvalidCertificate, PeerIncompatible};
    match error {
        InvalidCertificate(error) => {
            let wrong = wrong_with_certificate(error);
            (
                Reason::Configuration,
                format!("{server} is not trusted: {wrong}"),
            )
        }
        AlertReceived(AlertDescription::InternalError) => (
            Reason::Unreachable,
            "the server failed in the TLS handshake".to_owned(),
        ),
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
    }
}

/// What an alert from the server means.
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

/// Why a file cannot be used that may have the CA that is missing, as the verifier puts it in; `None`: the error is another one.
fn unusable(error: &CertificateError) -> Option<&Failure> {
    match error {
        CertificateError::Other(OtherError(error)) => error.downcast_ref(),
        _ => None,
    }
}

/// What is wrong with a server's certificate, and what to do about it.
fn wrong_with_certificate(error: &CertificateError) -> String {
    if let Some(failure) = unusable(error) {
        return format!(
            "no CA that is trusted here has signed its certificate ({failure}); name the one that has with --ssl-ca"
        );
    }
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
        // These have no error kinds of their own, so their names must do.
        other => match format!("{other:?}") {
            what if what.contains("UnsupportedCertVersion") => {
                "its certificate is of X.509 version 1, which cannot be verified; make one of version 3".to_owned()
            }
            what if what.contains("CaUsedAsEndEntity") => {
                "its certificate is that of a CA; have the CA sign one for the server".to_owned()
            }
            what => format!("its certificate cannot be used ({what})"),
        },
    }
}

/// The names in a certificate have the forms `DnsName("x")` and `IpAddress(x)`.
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
