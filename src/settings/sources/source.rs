//! The settings from one source, and how the lines of option files become settings.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::given::{Given, Origin};
use crate::base::exit::Failure;
use crate::db::Kind;
use crate::settings::cli::{self, Files, Takes};
use crate::settings::host::Host;
use crate::settings::option_file::{Entry, Value, error_at};
use crate::settings::server_url;

/// MariaDB's switches for TLS, instead of an `ssl-mode`.
const SSL: &str = "ssl";
const SSL_VERIFY: &str = "ssl-verify-server-cert";

/// TLS options in the groups of other clients that can be ignored without a loss of security. Any other unknown one is refused: without
/// it a connection could be less secure than intended.
const HARMLESS: [&str; 3] = [
    "tls-sni-servername",
    "ssl-session-data",
    "ssl-session-data-continue-on-failed-reuse",
];

/// How similar a name must be to be suggested.
const NEAR: f64 = 0.8;

/// The settings from one source. A separate setting overrides its part of the URL.
#[derive(Debug, Default)]
pub struct Source {
    settings: BTreeMap<String, Given>,
    /// The hosts in its URL, and that URL.
    pub hosts: Option<(Vec<Host>, Given)>,
}

impl Source {
    /// The value that the source gives for a setting.
    pub fn get(&self, name: &str) -> Option<&Given> {
        self.settings.get(name)
    }

    /// Checks the value that the source gives for a setting, even if a stronger source overrides it.
    ///
    /// # Errors
    /// It is wrong.
    pub fn check<T>(
        &self,
        name: &str,
        reader: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<(), Failure> {
        let given = self.get(name);
        given.map_or(Ok(()), |given| given.read(reader).map(drop))
    }

    /// Sets a value, in place of an earlier one.
    pub fn insert(&mut self, given: Given) {
        // If a password is given in two ways, the later one counts.
        match given.name.as_str() {
            "password" => self.settings.remove("password-file"),
            "password-file" => self.settings.remove("password"),
            // As in MariaDB's clients, these turn TLS on again.
            "ssl-ca" | "ssl-cert" | "ssl-key" => self.settings.remove(SSL),
            _ => None,
        };
        self.settings.insert(given.name.clone(), given);
    }

    /// Sets the value of a setting if the source has none yet.
    pub fn insert_if_absent(&mut self, name: &str, given: Given) {
        self.settings.entry(name.to_owned()).or_insert(given);
    }

    /// Takes the parts of the URL for settings that are not given separately. A URL of another kind of server has no effect.
    ///
    /// # Errors
    /// The URL is malformed.
    pub fn split_url(&mut self, kind: Kind) -> Result<(), Failure> {
        let Some(url) = self.settings.remove("url") else {
            return Ok(());
        };
        let parts = url.read(server_url::parse)?;
        if parts.kind != kind {
            return Ok(());
        }
        for (name, value) in parts.settings {
            let has_password = name == "password" && self.settings.contains_key("password-file");
            if !has_password {
                let part = url.with(value.as_bytes());
                self.settings.entry(name.to_owned()).or_insert(part);
            }
        }
        self.hosts = parts.hosts.map(|hosts| (hosts, url));
        Ok(())
    }

    /// MariaDB's clients have two switches instead of MySQL's mode. The stricter of both counts.
    pub fn choose_ssl_mode(&mut self) {
        let given = |name: &str, value: &[u8]| {
            let given = self.get(name).filter(|given| *given.value == *value)?;
            Some(given.clone())
        };
        let (verified, none) = (given(SSL_VERIFY, b"1"), given(SSL, b"0"));
        if let Some(given) = verified {
            let mode = given.with(b"verify-identity");
            self.settings.insert("ssl-mode".to_owned(), mode);
        } else if let Some(given) = none {
            let mode = given.with(b"disabled");
            self.settings.entry("ssl-mode".to_owned()).or_insert(mode);
        }
    }

    /// The TLS options in the groups of other clients that dblock does not know.
    pub fn unknown_tls_options(&self) -> impl Iterator<Item = &Given> {
        let settings = self.settings.iter();
        let unknown = settings.filter(|(name, _)| is_unknown_tls_option(name));
        unknown.map(|(_, given)| given)
    }

    /// Adds an option of the group `[dblock]`. Returns a warning if the option is ignored.
    ///
    /// # Errors
    /// dblock has no such option, or its value is wrong.
    pub fn add_own(&mut self, entry: &Entry) -> Result<Option<String>, Failure> {
        let (name, place) = (entry.key.as_str(), &entry.place);
        let known = |name: &str| {
            let of_name = || cli::settings().filter(move |setting| setting.name == name);
            let used = of_name().find(|setting| matches!(setting.files, Files::Own | Files::All));
            used.or_else(|| of_name().next())
        };
        match known(name) {
            Some(setting) if setting.files == Files::Never => {
                let why = format!("{name} is not allowed in an option file");
                return Err(error_at(place, &why));
            }
            Some(setting) if setting.files == Files::No => return Ok(None),
            Some(setting) => return self.add(name, setting.takes, entry).map(|()| None),
            None => {}
        }
        match prefixed(name) {
            Some(("password", false)) => {
                self.settings.remove("password");
                return Ok(None);
            }
            Some((name, turns_on))
                if known(name).is_some_and(|setting| setting.takes == Takes::Switch) =>
            {
                return self.add_switch(name, turns_on, entry).map(|()| None);
            }
            _ => {}
        }
        // Only the first word: the rest may be a password whose `=` is missing.
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let why = match words.next().unwrap_or_default() {
            word if word != name && known(word).is_some() => {
                format!("an = is missing after {word}")
            }
            word => match similar(word) {
                Some(meant) => format!("[dblock] has no option {word:?}; did you mean {meant}?"),
                None => format!("[dblock] has no option {word:?}"),
            },
        };
        if entry.is_loose {
            return Ok(Some(format!("{place}: {why}")));
        }
        Err(error_at(place, &why))
    }

    /// Adds an option from a group of other clients, if dblock has it.
    ///
    /// # Errors
    /// Its value is wrong.
    pub fn add_of_clients(&mut self, entry: &Entry) -> Result<(), Failure> {
        let name = entry.key.as_str();
        // In the clients 0 means the default, or no limit.
        let is_zero = matches!(&entry.value, Value::Text(value) if **value == *b"0");
        match prefixed(name) {
            Some((switch @ (SSL | SSL_VERIFY), turns_on)) => {
                self.add_switch(switch, turns_on, entry)
            }
            Some(("password", false)) => {
                self.settings.remove("password");
                Ok(())
            }
            _ if matches!(name, SSL | SSL_VERIFY) => self.add_switch(name, true, entry),
            _ if is_zero && matches!(name, "connect-timeout" | "port") => Ok(()),
            _ if is_read_from_clients(name) || is_unknown_tls_option(name) => {
                self.add(name, Takes::Value(""), entry)
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, name: &str, takes: Takes, entry: &Entry) -> Result<(), Failure> {
        let place = &entry.place;
        let value = match (&entry.value, takes) {
            (_, Takes::Switch) => return self.add_switch(name, true, entry),
            // Like an empty variable: it removes an earlier value.
            (Value::Text(value), _) if value.is_empty() => {
                self.settings.remove(name);
                return Ok(());
            }
            (Value::Text(value), _) => value.clone(),
            (Value::Withheld, _) => Zeroizing::default(),
            (Value::None, Takes::Count) => Zeroizing::new(b"1".to_vec()),
            (Value::None, Takes::Optional(_, missing)) => {
                Zeroizing::new(missing.as_bytes().to_vec())
            }
            (Value::None, _) if name == "password" => {
                let why = "a password without a value would be asked for, and dblock cannot ask";
                return Err(error_at(place, why));
            }
            (Value::None, _) => return Err(error_at(place, &format!("{name} needs a value"))),
        };
        self.insert(Given {
            name: name.to_owned(),
            value,
            origin: Origin::File(place.clone()),
        });
        Ok(())
    }

    /// Adds a switch. Its name turns it on or off, and the value 0 reverses that.
    fn add_switch(&mut self, name: &str, turns_on: bool, entry: &Entry) -> Result<(), Failure> {
        let as_named = match &entry.value {
            Value::Text(value) if value.is_empty() => {
                self.settings.remove(name);
                return Ok(());
            }
            Value::None | Value::Withheld => true,
            Value::Text(value) => match value.to_ascii_lowercase().as_slice() {
                b"1" | b"on" | b"true" => true,
                b"0" | b"off" | b"false" => false,
                _ => {
                    let why = format!("{name} is neither on nor off");
                    return Err(error_at(&entry.place, &why));
                }
            },
        };
        let value = if turns_on == as_named { "1" } else { "0" };
        self.insert(Given::new(
            name,
            value.into(),
            Origin::File(entry.place.clone()),
        ));
        Ok(())
    }
}

/// The option that is most similar to a wrong name.
fn similar(wrong: &str) -> Option<&'static str> {
    cli::settings()
        .filter(|setting| setting.files != Files::Never)
        .map(|setting| (strsim::jaro_winkler(wrong, setting.name), setting.name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

/// Whether dblock reads this option from the groups of other clients. Other options are for other programs.
fn is_read_from_clients(name: &str) -> bool {
    matches!(name, SSL | SSL_VERIFY)
        || cli::setting(name).is_some_and(|setting| setting.files == Files::All)
}

fn is_unknown_tls_option(name: &str) -> bool {
    let concerns_tls = name.starts_with("ssl") || name.starts_with("tls-");
    concerns_tls && !is_read_from_clients(name) && !HARMLESS.contains(&name)
}

/// Splits a switch into a prefix and its name, and returns whether the prefix turns it on.
fn prefixed(name: &str) -> Option<(&str, bool)> {
    let words = [("skip-", false), ("disable-", false), ("enable-", true)];
    words
        .into_iter()
        .find_map(|(word, turns_on)| Some((name.strip_prefix(word)?, turns_on)))
}
