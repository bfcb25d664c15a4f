//! libpq's connection parameters, and what each of them means to dblock.

use std::borrow::Cow;

use crate::base::value::one_of;
use crate::db::SslMode;

/// A connection parameter of libpq.
#[derive(Debug)]
pub struct Parameter {
    /// Its name in a URL and in a service file.
    pub name: &'static str,
    /// The variable that gives it, too.
    pub variable: Option<&'static str>,
    /// What it means to dblock.
    pub meaning: Meaning,
}

/// What a connection parameter means to dblock.
#[derive(Debug)]
pub enum Meaning {
    /// This setting.
    Setting(&'static str),
    /// This setting, with another value: the function translates it. `None`: as if the parameter was not given.
    Translated(&'static str, Translate),
    /// Only these values are possible. Without any other one the connection would be less safe than the user thinks, or another one.
    Only(&'static [&'static str], When, &'static str),
    /// Nothing. A connection without it is as safe, and goes to the same server.
    Nothing,
}

/// Translates a value of libpq's. The error ends a sentence about the value.
type Translate = fn(&str) -> Result<Option<&str>, String>;

/// When a parameter of [`Meaning::Only`] matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Always,
    /// If a connection may be encrypted.
    WithTls,
}

use Meaning::{Nothing, Only, Setting, Translated};
use When::{Always, WithTls};

/// libpq's parameters, and dblock's own one. Of two with the same meaning, the variable of the first is stronger.
pub const PARAMETERS: &[Parameter] = &[
    with("host", "PGHOST", Setting("host")),
    with("hostaddr", "PGHOSTADDR", Setting("hostaddr")),
    with("port", "PGPORT", Setting("port")),
    with("dbname", "PGDATABASE", Setting("database")),
    with("user", "PGUSER", Setting("user")),
    with("password", "PGPASSWORD", Setting("password")),
    with("passfile", "PGPASSFILE", Setting("passfile")),
    with("service", "PGSERVICE", Setting("service")),
    with("servicefile", "PGSERVICEFILE", Setting("servicefile")),
    with("sslmode", "PGSSLMODE", Translated("ssl-mode", ssl_mode)),
    with(
        "requiressl",
        "PGREQUIRESSL",
        Translated("ssl-mode", requires_ssl),
    ),
    with("sslrootcert", "PGSSLROOTCERT", Setting("ssl-ca")),
    with("sslcert", "PGSSLCERT", Setting("ssl-cert")),
    with("sslkey", "PGSSLKEY", Setting("ssl-key")),
    with(
        "connect_timeout",
        "PGCONNECT_TIMEOUT",
        Translated("connect-timeout", seconds),
    ),
    with(
        "channel_binding",
        "PGCHANNELBINDING",
        Setting("channel_binding"),
    ),
    with("options", "PGOPTIONS", Setting("options")),
    with("sslsni", "PGSSLSNI", Setting("sslsni")),
    // dblock's own, which psql does not know.
    without("pooler", Setting("pooler")),
    only(
        "target_session_attrs",
        Some("PGTARGETSESSIONATTRS"),
        &["any", "read-write", "primary"],
        Always,
        "can be any, read-write or primary: dblock locks on a server that takes writes, and passes over all others",
    ),
    only(
        "load_balance_hosts",
        Some("PGLOADBALANCEHOSTS"),
        &["disable"],
        Always,
        "can only be disable: all hosts must use the same server, so dblock tries them in order",
    ),
    only(
        "require_auth",
        Some("PGREQUIREAUTH"),
        &[],
        Always,
        "is not possible: dblock cannot demand a way to log in; it never sends a password in clear text without TLS",
    ),
    only(
        "requirepeer",
        Some("PGREQUIREPEER"),
        &[],
        Always,
        "is not possible: dblock does not check which OS user runs the server",
    ),
    only(
        "gssencmode",
        Some("PGGSSENCMODE"),
        &["disable", "prefer"],
        Always,
        "can be disable or prefer: dblock encrypts with TLS, not with GSSAPI",
    ),
    only(
        "replication",
        None,
        &["false", "off", "no", "0"],
        Always,
        "is not possible: dblock needs an ordinary session",
    ),
    only(
        "sslcrl",
        Some("PGSSLCRL"),
        &[],
        WithTls,
        "is not possible: dblock checks no list of revoked certificates",
    ),
    only(
        "sslcrldir",
        Some("PGSSLCRLDIR"),
        &[],
        WithTls,
        "is not possible: dblock checks no list of revoked certificates",
    ),
    only(
        "sslpassword",
        None,
        &[],
        WithTls,
        "is not possible: dblock reads only keys without a passphrase; `openssl pkey` writes them",
    ),
    only(
        "sslcertmode",
        Some("PGSSLCERTMODE"),
        &["allow", "disable"],
        WithTls,
        "can be allow or disable: dblock cannot demand that the server asks for its certificate",
    ),
    only(
        "sslnegotiation",
        Some("PGSSLNEGOTIATION"),
        &["postgres"],
        WithTls,
        "can only be postgres: dblock asks the server for TLS first",
    ),
    only(
        "ssl_min_protocol_version",
        Some("PGSSLMINPROTOCOLVERSION"),
        &["TLSv1", "TLSv1.1", "TLSv1.2"],
        WithTls,
        "can be at most TLSv1.2: dblock speaks TLS 1.2 and 1.3",
    ),
    only(
        "ssl_max_protocol_version",
        Some("PGSSLMAXPROTOCOLVERSION"),
        &["TLSv1.2", "TLSv1.3"],
        WithTls,
        "can be TLSv1.2 or TLSv1.3: dblock speaks no older TLS",
    ),
    without("application_name", Nothing),
    without("authtype", Nothing),
    without("client_encoding", Nothing),
    without("fallback_application_name", Nothing),
    without("gssdelegation", Nothing),
    without("gsslib", Nothing),
    without("keepalives", Nothing),
    without("keepalives_count", Nothing),
    without("keepalives_idle", Nothing),
    without("keepalives_interval", Nothing),
    without("krbsrvname", Nothing),
    without("max_protocol_version", Nothing),
    without("min_protocol_version", Nothing),
    without("sslcompression", Nothing),
    without("tcp_user_timeout", Nothing),
    without("tty", Nothing),
];

const fn with(name: &'static str, variable: &'static str, meaning: Meaning) -> Parameter {
    Parameter {
        name,
        variable: Some(variable),
        meaning,
    }
}

const fn only(
    name: &'static str,
    variable: Option<&'static str>,
    possible: &'static [&'static str],
    when: When,
    why: &'static str,
) -> Parameter {
    Parameter {
        name,
        variable,
        meaning: Only(possible, when, why),
    }
}

const fn without(name: &'static str, meaning: Meaning) -> Parameter {
    Parameter {
        name,
        variable: None,
        meaning,
    }
}

impl Parameter {
    /// The parameter of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PARAMETERS.iter().find(|parameter| parameter.name == name)
    }

    /// The setting that the parameter gives; `None`: none.
    pub fn setting(&self) -> Option<&'static str> {
        match self.meaning {
            Setting(setting) | Translated(setting, _) => Some(setting),
            Only(..) => Some(self.name),
            Nothing => None,
        }
    }

    /// The value of that setting; `None`: as if the parameter was not given. An empty value counts as not given.
    ///
    /// # Errors
    /// The end of a sentence about the value.
    pub fn value<'a>(&self, value: &'a [u8]) -> Result<Option<Cow<'a, [u8]>>, String> {
        if value.is_empty() {
            return Ok(None);
        }
        let Translated(_, translate) = self.meaning else {
            return Ok(Some(value.into()));
        };
        let text = str::from_utf8(value).map_err(|_| "the value is not UTF-8")?;
        Ok(translate(text)?.map(|text| text.as_bytes().to_vec().into()))
    }
}

/// The mode by libpq's word.
///
/// # Errors
/// The end of a sentence about the value.
pub fn mode(text: &str) -> Result<SslMode, String> {
    let words = [
        ("disable", SslMode::Disabled),
        // Without TLS first and then with it is never safer than the other way round.
        ("allow", SslMode::Preferred),
        ("prefer", SslMode::Preferred),
        ("require", SslMode::Required),
        ("verify-ca", SslMode::VerifyCa),
        ("verify-full", SslMode::VerifyIdentity),
    ];
    one_of(&words, text).map_err(|why| format!("sslmode: {why}"))
}

/// In a URL, a variable and a service file `sslmode` has libpq's words.
fn ssl_mode(text: &str) -> Result<Option<&str>, String> {
    mode(text).map(|_| Some(text))
}

/// `requiressl` is the `sslmode` of old.
#[expect(clippy::unnecessary_wraps, reason = "a translation of values")]
fn requires_ssl(text: &str) -> Result<Option<&str>, String> {
    let mode = if text.starts_with('1') {
        "require"
    } else {
        "prefer"
    };
    Ok(Some(mode))
}

/// 0 and less mean no limit, and are as not given: dblock always has one.
fn seconds(text: &str) -> Result<Option<&str>, String> {
    let text = text.trim();
    match text.parse::<i32>() {
        Ok(seconds) if seconds > 0 => Ok(Some(text)),
        Ok(_) => Ok(None),
        Err(_) => Err("connect_timeout is not a whole number of seconds".to_owned()),
    }
}
