//! TLS as libpq's users set it. `sslmode` has libpq's meaning, with these differences: `allow` is `prefer`; a CA's file that is named but
//! does not exist is an error in each mode that demands TLS; and dblock's own `--ssl-ca` demands `verify-ca` by itself, as for MySQL.

use std::path::{Path, PathBuf};

use super::files;
use crate::base::exit::{Failure, Reason};
use crate::db::{Identity, SslMode, TlsFiles, TlsOptions};
use crate::settings::server_url::parameters::mode;
use crate::settings::sources::{Given, Sources};
use crate::settings::value;

/// The file that stands for the CAs of the system.
const SYSTEM: &str = "system";

/// The mode by libpq's word or by dblock's.
fn any_mode(text: &str) -> Result<SslMode, String> {
    value::ssl_mode(text).or_else(|_| mode(text))
}

/// Reads how connections are encrypted. `is_used`: some server is reached by TCP; the local socket has no TLS in any mode.
///
/// # Errors
/// [`Reason::Usage`] or [`Reason::Configuration`].
pub fn read(sources: &mut Sources, is_used: bool) -> Result<TlsOptions, Failure> {
    let ca = sources.given("ssl-ca").cloned();
    let is_system = ca
        .as_ref()
        .is_some_and(|ca| *ca.value == *SYSTEM.as_bytes());
    let default = if is_system { "verify-full" } else { "prefer" };
    let mut mode = sources.value_or("ssl-mode", any_mode, default)?;
    if is_system && mode != SslMode::VerifyIdentity && mode != SslMode::Disabled {
        let name = names(sources).ca;
        let place = ca.as_ref().map(Given::place).unwrap_or_default();
        let place = if place == name {
            String::new()
        } else {
            format!("{place}: ")
        };
        sources.stop_unless_lenient(refusal(&format!(
            "{place}{name} trusts every CA of the system, and so is only possible with verify-full"
        )))?;
    }
    let root = files::existing_at_home(".postgresql/root.crt");
    if let Some(place) = verifies_with(sources, mode, ca.as_ref(), root.as_deref()) {
        mode = SslMode::VerifyCa;
        sources.correct_from("ssl-mode", "verify-ca", &place);
    }
    let verifies = mode >= SslMode::VerifyCa;
    let given = sources.path("ssl-ca");
    if is_system {
        sources.record_system_cas();
    }
    let ca = match given {
        _ if is_system => None,
        Some(path) => Some(path),
        None => root.filter(|_| verifies),
    };
    if is_used && verifies {
        if ca.is_none() && !is_system {
            sources.stop_unless_lenient(refusal(
                "the CA that the server's certificate must come from is not named; name its file with --ssl-ca or sslrootcert, or \
                 put it into ~/.postgresql/root.crt; sslrootcert=system names those of the system",
            ))?;
        }
        if let Some(path) = files::existing_at_home(".postgresql/root.crl") {
            sources.stop_unless_lenient(refusal(&format!(
                "dblock checks no list of revoked certificates, and there is one, {}",
                path.display()
            )))?;
        }
    }
    if is_used && ca.is_some() && matches!(mode, SslMode::Preferred) {
        sources.warn(
            "sslrootcert has no effect with sslmode prefer, which verifies no server; use verify-ca or verify-full",
        );
    }
    let identity = identity(sources, is_used && mode != SslMode::Disabled)?;
    Ok(TlsOptions {
        mode,
        ca,
        identity,
        server_public_key: None,
        sends_name: sources.given_only("sslsni", sni)?.unwrap_or(true),
        names: names(sources),
    })
}

/// What the user calls the files: by dblock's option, or else by libpq's parameter.
fn names(sources: &Sources) -> TlsFiles {
    let own = TlsFiles::OPTIONS;
    let is_own = |setting: &str| {
        let given = sources.given(setting);
        given.is_some_and(|given| given.name == setting)
    };
    let name = |setting: &str, option: &'static str, parameter: &'static str| {
        if is_own(setting) { option } else { parameter }
    };
    TlsFiles {
        ca: name("ssl-ca", own.ca, "sslrootcert"),
        cert: name("ssl-cert", own.cert, "sslcert"),
        key: name("ssl-key", own.key, "sslkey"),
    }
}

/// Whether the host's name is sent, by libpq's number.
fn sni(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("sslsni can only be 0 or 1".to_owned()),
    }
}

/// The place of what makes a mode verify the CA; `None`: nothing does. As in libpq, `require` does so if there is a CA's file.
fn verifies_with(
    sources: &Sources,
    mode: SslMode,
    ca: Option<&Given>,
    root: Option<&Path>,
) -> Option<String> {
    if mode >= SslMode::VerifyCa {
        return None;
    }
    let is_own = ca.is_some_and(|ca| ca.name == "ssl-ca")
        && sources.precedence("ssl-ca") > sources.precedence("ssl-mode");
    if is_own || mode == SslMode::Required && ca.is_some() {
        return ca.map(Given::place);
    }
    let root = root.filter(|_| mode == SslMode::Required)?;
    Some(root.display().to_string())
}

/// dblock's own certificate, from the usual files if they are there.
fn identity(sources: &mut Sources, is_used: bool) -> Result<Option<Identity>, Failure> {
    let given = |sources: &mut Sources, name: &str, usual: &str| -> Option<PathBuf> {
        let given = sources.path(name);
        given.or_else(|| files::existing_at_home(usual))
    };
    let cert = given(sources, "ssl-cert", ".postgresql/postgresql.crt");
    let key = given(sources, "ssl-key", ".postgresql/postgresql.key");
    let mode = sources.given("sslcertmode");
    let is_disabled = mode.is_some_and(|mode| *mode.value == *b"disable");
    match (cert, key) {
        _ if is_disabled || !is_used => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(Identity { cert, key })),
        (Some(cert), None) => {
            let line = format!(
                "the certificate {} needs its private key; name it with --ssl-key or sslkey",
                cert.display()
            );
            sources.stop_unless_lenient(refusal(&line))?;
            Ok(None)
        }
        // As in libpq.
        (None, _) => Ok(None),
    }
}

fn refusal(line: &str) -> Failure {
    Failure::new(Reason::Configuration, line)
}
