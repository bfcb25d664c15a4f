//! Where a setting may come from, and which source wins: a flag beats the environment, which beats `[dblock]` in an option
//! file, which beats the groups that other clients read too, which beat the default.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zeroize::Zeroizing;

use super::cli::{self, Kind};
use super::option_file::{Entry, Found, Outcome, Place, Value, expanded, wrong};
use super::server_url::{self, Host};
use super::value::without_password;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::printable;
use crate::base::user::os_user;

/// The options that a variable can give, and the variable.
pub const VARIABLES: [(&str, &str); 13] = [
    ("url", "DBLOCK_URL"),
    ("host", "DBLOCK_HOST"),
    ("port", "DBLOCK_PORT"),
    ("user", "DBLOCK_USER"),
    ("password", "DBLOCK_PASSWORD"),
    ("socket", "DBLOCK_SOCKET"),
    ("protocol", "DBLOCK_PROTOCOL"),
    ("ssl-mode", "DBLOCK_SSL_MODE"),
    ("ssl-ca", "DBLOCK_SSL_CA"),
    ("ssl-cert", "DBLOCK_SSL_CERT"),
    ("ssl-key", "DBLOCK_SSL_KEY"),
    ("server-public-key-path", "DBLOCK_SERVER_PUBLIC_KEY_PATH"),
    ("connect-timeout", "DBLOCK_CONNECT_TIMEOUT"),
];

/// The group of dblock's own.
const OWN_GROUP: &str = "dblock";

/// The groups that are read besides it: MySQL's clients read the first, MariaDB's all of them.
const CLIENT_GROUPS: [&str; 3] = ["client", "client-server", "client-mariadb"];

/// What dblock takes from those groups. All else there is for other programs.
const OF_CLIENTS: [&str; 14] = [
    "host",
    "port",
    "user",
    "password",
    "socket",
    "protocol",
    "connect-timeout",
    "ssl-mode",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "server-public-key-path",
    SSL,
    SSL_VERIFY,
];

/// What concerns TLS there and takes no security away when it is passed over. Every other option of TLS that dblock does not
/// know is refused: without it a connection could be less secure than its owner wanted.
const HARMLESS: [&str; 3] = [
    "tls-sni-servername",
    "ssl-session-data",
    "ssl-session-data-continue-on-failed-reuse",
];

/// MariaDB's switches, in the place of an `ssl-mode`.
const SSL: &str = "ssl";
const SSL_VERIFY: &str = "ssl-verify-server-cert";

/// The places of the sources among all.
const FLAGS: usize = 0;
const ENVIRONMENT: usize = 1;
const OWN: usize = 2;
pub const OF_ALL_CLIENTS: usize = 3;

/// The place of what nothing says.
const DEFAULT: &str = "default";

/// What stands in no option file.
const NOT_IN_FILES: [&str; 4] = [
    "defaults-file",
    "defaults-extra-file",
    "defaults-group-suffix",
    "no-defaults",
];

/// A value as it was given.
#[derive(Debug, Clone)]
pub struct Given {
    /// The option that it was given by, which for a part of a URL is `url`.
    pub option: String,
    /// Its text, which may be a password or have one; of a password in a file, nothing.
    pub value: Zeroizing<Vec<u8>>,
    /// Where it was given.
    pub origin: Origin,
}

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// On the command line.
    Flag,
    /// On the command line, without an option of the sources: the name is its own.
    Argument,
    /// In a variable of the environment.
    Variable(&'static str),
    /// In an option file.
    File(Place),
}

impl Given {
    fn new(option: &str, value: OsString, origin: Origin) -> Self {
        Self {
            option: option.to_owned(),
            value: Zeroizing::new(value.into_vec()),
            origin,
        }
    }

    /// The place as an error or a table names it.
    pub fn place(&self) -> String {
        match &self.origin {
            Origin::Flag => format!("--{}", self.option),
            Origin::Argument => self.option.clone(),
            Origin::Variable(name) => (*name).to_owned(),
            Origin::File(place) => place.to_string(),
        }
    }

    /// That the value is wrong: bad usage, or in a file bad configuration.
    pub fn wrong(&self, why: &str) -> Failure {
        match &self.origin {
            Origin::File(place) => wrong(place, &format!("{}: {why}", self.option)),
            _ => Failure::new(Reason::Usage, format!("{}: {why}", self.place())),
        }
    }

    /// The value, if it is UTF-8.
    pub fn text(&self) -> Result<&str, Failure> {
        str::from_utf8(&self.value).map_err(|_| self.wrong("the value is not UTF-8"))
    }

    /// The value as a path.
    pub fn path(&self) -> PathBuf {
        expanded(OsString::from_vec(self.value.to_vec()))
    }

    /// Another value from the same place.
    fn with(&self, value: &[u8]) -> Self {
        Self {
            value: Zeroizing::new(value.to_vec()),
            ..self.clone()
        }
    }

    /// The value as `reader` reads it; the reader's error says what is wrong with it.
    pub fn read<T>(&self, reader: impl FnOnce(&str) -> Result<T, String>) -> Result<T, Failure> {
        reader(self.text()?).map_err(|why| self.wrong(&why))
    }
}

/// What stands on the command line and nowhere else, under the name that an error has for it.
pub fn argument(name: &str, value: OsString) -> Given {
    Given::new(name, value, Origin::Argument)
}

/// A variable; one that is set to nothing counts as not set, as crontabs and unit files cannot unset.
pub fn variable(option: &str, name: &'static str) -> Option<Given> {
    let value = env::var_os(name).filter(|value| !value.is_empty())?;
    Some(Given::new(option, value, Origin::Variable(name)))
}

/// What one source says. A single option in it beats its part of the URL.
#[derive(Debug, Default)]
pub struct Source {
    options: BTreeMap<String, Given>,
    /// The hosts that its URL names, and that URL.
    pub hosts: Option<(Vec<Host>, Given)>,
}

impl Source {
    /// What it says of an option.
    pub fn get(&self, option: &str) -> Option<&Given> {
        self.options.get(option)
    }

    fn insert(&mut self, given: Given) {
        // Of two ways to give a password the later one counts.
        match given.option.as_str() {
            "password" => self.options.remove("password-file"),
            "password-file" => self.options.remove("password"),
            // To MariaDB's clients a later one of these turns TLS on again.
            "ssl-ca" | "ssl-cert" | "ssl-key" => self.options.remove(SSL),
            _ => None,
        };
        self.options.insert(given.option.clone(), given);
    }

    /// Puts the parts of the URL into the places of what is not given one by one.
    fn take_url_apart(&mut self) -> Result<(), Failure> {
        let Some(url) = self.options.remove("url") else {
            return Ok(());
        };
        let parts = url.read(server_url::parse)?;
        for (option, value) in parts.options {
            let has_password = option == "password" && self.options.contains_key("password-file");
            if !has_password {
                let part = url.with(value.as_bytes());
                self.options.entry(option.to_owned()).or_insert(part);
            }
        }
        self.hosts = parts.hosts.map(|hosts| (hosts, url));
        Ok(())
    }
}

/// A setting that is in force.
#[derive(Debug)]
pub struct InForce {
    /// The option.
    pub option: String,
    /// Its value, of a secret `***`; `None` where it has none.
    pub value: Option<String>,
    /// Where that comes from.
    pub from: String,
}

/// All sources, and what was taken from them.
#[derive(Debug, Default)]
pub struct Sources {
    /// The strongest first.
    pub all: [Source; 4],
    /// Everything that has been read of them so far.
    pub in_force: Vec<InForce>,
    /// The option files.
    pub files: Vec<(Rc<Path>, Outcome)>,
    /// What the user should know.
    pub notes: Vec<(Level, String)>,
    /// Whether a value that is wrong is noted with the rest, and the default taken for it.
    pub is_lenient: bool,
    /// The first value that was wrong, where that is no reason to stop.
    pub failure: Option<Failure>,
}

impl Sources {
    /// Takes the flags, and reads the environment and the option files. With what is wrong comes what could be read.
    ///
    /// # Errors
    /// [`Reason::Configuration`] for option files, [`Reason::Usage`] for a malformed URL.
    pub fn read(given: cli::Given) -> (Self, Result<(), Failure>) {
        let mut sources = Self::default();
        for (option, value) in given.options {
            if let Some(value) = value {
                sources.all[FLAGS].insert(Given::new(option, value, Origin::Flag));
            }
        }
        for (option, name) in VARIABLES {
            if let Some(given) = variable(option, name) {
                sources.all[ENVIRONMENT].insert(given);
            }
        }
        let suffix = given
            .group_suffix
            .or_else(|| env::var_os("MYSQL_GROUP_SUFFIX"))
            .unwrap_or_default()
            .to_string_lossy()
            .to_ascii_lowercase();
        let mut found = Found::default();
        let groups: Vec<String> = CLIENT_GROUPS
            .into_iter()
            .chain([OWN_GROUP])
            .flat_map(|group| [group.to_owned(), format!("{group}{suffix}")])
            .collect();
        let read = found.read(&given.places, &groups);
        // What was found before a line that is wrong is taken, too.
        let taken = sources.take(&found.entries, &suffix);
        let read = read.and(taken);
        sources.files = found.files;
        sources.notes.extend(found.notes);
        (sources, read)
    }

    /// Takes what stands in the option files, and what is the same in all sources.
    fn take(&mut self, entries: &[Entry], suffix: &str) -> Result<(), Failure> {
        let mut known = Vec::new();
        let mut outcome = Ok(());
        for entry in entries {
            let group = &*entry.place.group;
            let taken = if group == OWN_GROUP || group.strip_suffix(suffix) == Some(OWN_GROUP) {
                if known.is_empty() {
                    known = cli::long_options();
                }
                self.add_own(entry, &known)
            } else {
                self.add_of_clients(entry)
            };
            outcome = outcome.and(taken);
        }
        self.all[OF_ALL_CLIENTS].choose_ssl_mode();
        for source in &mut self.all {
            outcome = outcome.and(source.take_url_apart());
        }
        // What other clients read of the environment: the weakest that it has, and weaker than all files.
        for (source, option, name) in [
            (ENVIRONMENT, "password", "MYSQL_PWD"),
            (OF_ALL_CLIENTS, "socket", "MYSQL_UNIX_PORT"),
        ] {
            if let Some(given) = variable(option, name) {
                let options = &mut self.all[source].options;
                options.entry(option.to_owned()).or_insert(given);
            }
        }
        outcome
    }

    /// An option that stands in `[dblock]`.
    fn add_own(&mut self, entry: &Entry, known: &[(String, Kind)]) -> Result<(), Failure> {
        let (name, place) = (entry.key.as_str(), &entry.place);
        if NOT_IN_FILES.contains(&name) {
            let told = format!("{name} cannot stand in an option file");
            return Err(wrong(place, &told));
        }
        let kind = |name: &str| match name {
            "password" => Some(Kind::Value),
            _ => known
                .iter()
                .find(|known| known.0 == name)
                .map(|known| known.1),
        };
        if let Some(kind) = kind(name) {
            return add(&mut self.all[OWN], name, kind, entry);
        }
        match prefixed(name) {
            Some(("password", false)) => {
                self.all[OWN].options.remove("password");
                return Ok(());
            }
            Some((name, turns)) if kind(name) == Some(Kind::Switch) => {
                return add_switch(&mut self.all[OWN], name, turns, entry);
            }
            _ => {}
        }
        // Its first word alone: what follows may be a password that lacks its `=`.
        let word = name
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .next();
        let told = match word.unwrap_or_default() {
            word if word != name && kind(word).is_some() => format!("an = is missing after {word}"),
            word => format!("[dblock] has no option {word:?}"),
        };
        if entry.is_loose {
            self.notes
                .push((Level::Warning, format!("{place}: {told}")));
            return Ok(());
        }
        Err(wrong(place, &told))
    }

    /// An option of a group that other clients read too.
    fn add_of_clients(&mut self, entry: &Entry) -> Result<(), Failure> {
        let source = &mut self.all[OF_ALL_CLIENTS];
        let name = entry.key.as_str();
        // To the clients 0 is the default, or no limit.
        let is_zero = matches!(&entry.value, Value::Text(value) if **value == *b"0");
        match prefixed(name) {
            Some((switch @ (SSL | SSL_VERIFY), turns)) => add_switch(source, switch, turns, entry),
            Some(("password", false)) => {
                source.options.remove("password");
                Ok(())
            }
            _ if matches!(name, SSL | SSL_VERIFY) => add_switch(source, name, true, entry),
            _ if is_zero && matches!(name, "connect-timeout" | "port") => Ok(()),
            _ if OF_CLIENTS.contains(&name) || is_unknown_of_tls(name) => {
                add(source, name, Kind::Value, entry)
            }
            _ => Ok(()),
        }
    }

    /// What the strongest source says of an option.
    pub fn given(&self, option: &str) -> Option<&Given> {
        self.all.iter().find_map(|source| source.get(option))
    }

    /// The place in order of the strongest source that says something of an option.
    pub fn strength(&self, option: &str) -> Option<usize> {
        self.all
            .iter()
            .position(|source| source.get(option).is_some())
    }

    /// What an option is set to, and the default as `reader` reads it where nothing says it.
    pub fn value<T>(
        &mut self,
        option: &str,
        reader: impl Fn(&str) -> Result<T, String>,
        default: &str,
    ) -> Result<T, Failure> {
        let value = self.read_and_note(option, &reader, Some(default))?;
        Ok(value.unwrap_or_else(|| reader(default).expect("a default is well-formed")))
    }

    /// What an option is set to that has no default.
    pub fn optional<T>(
        &mut self,
        option: &str,
        reader: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        self.read_and_note(option, reader, None)
    }

    /// The same, where a default that is found out later is told as so.
    pub fn optional_or<T>(
        &mut self,
        option: &str,
        reader: impl Fn(&str) -> Result<T, String>,
        default: &str,
    ) -> Result<Option<T>, Failure> {
        self.read_and_note(option, reader, Some(default))
    }

    fn read_and_note<T>(
        &mut self,
        option: &str,
        reader: impl Fn(&str) -> Result<T, String>,
        default: Option<&str>,
    ) -> Result<Option<T>, Failure> {
        let Some(given) = self.given(option).cloned() else {
            self.note(option, default, DEFAULT);
            return Ok(None);
        };
        let shown = String::from_utf8_lossy(&given.value);
        match given.read(reader) {
            Ok(value) => {
                self.note(option, Some(&shown), &given.place());
                Ok(Some(value))
            }
            Err(failure) if self.is_lenient => {
                // It may be a URL that landed in the wrong place.
                self.note(option, Some("(malformed)"), &given.place());
                self.failure.get_or_insert(failure);
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// The file that an option names.
    pub fn path(&mut self, option: &str) -> Option<PathBuf> {
        let Some(given) = self.given(option).cloned() else {
            self.note(option, None, DEFAULT);
            return None;
        };
        let place = given.place();
        let path = given.path();
        self.note(option, Some(&path.to_string_lossy()), &place);
        Some(path)
    }

    /// Whether a switch is on.
    pub fn is_on(&self, option: &str) -> bool {
        self.given(option)
            .is_some_and(|given| *given.value == *b"1")
    }

    /// The same, as a setting that is told.
    pub fn switch(&mut self, option: &str) -> bool {
        let is_on = self.is_on(option);
        let place = self.given(option).map_or(DEFAULT.to_owned(), Given::place);
        self.note(option, Some(if is_on { "on" } else { "off" }), &place);
        is_on
    }

    /// Tells another value of an option than the one that was read, because of what `other` says.
    pub fn correct(&mut self, option: &str, value: &str, other: &str) {
        let place = self.given(other).map(Given::place).unwrap_or_default();
        let setting = self
            .in_force
            .iter_mut()
            .find(|setting| setting.option == option);
        if let Some(setting) = setting {
            (setting.value, setting.from) = (Some(value.to_owned()), place);
        }
    }

    /// Refuses an option that does not fit to another one.
    ///
    /// # Errors
    /// [`Reason::Configuration`], unless what is wrong is no reason to stop.
    pub fn refuse(&mut self, option: &str, why: &str) -> Result<(), Failure> {
        let place = self
            .given(option)
            .map_or_else(String::new, |given| match given.origin {
                Origin::Flag if given.option == option => given.place(),
                _ => format!("{}: {option}", given.place()),
            });
        let failure = Failure::new(Reason::Configuration, format!("{place} {why}"));
        if !self.is_lenient {
            return Err(failure);
        }
        self.failure.get_or_insert(failure);
        Ok(())
    }

    /// Tells the OS user's name in the place of the words for it.
    pub fn tell_os_user(&mut self) {
        let default = |setting: &&mut InForce| setting.option == "user" && setting.from == DEFAULT;
        let Some(setting) = self.in_force.iter_mut().find(default) else {
            return;
        };
        match os_user() {
            Ok(name) => setting.value = Some(name),
            Err(failure) => {
                setting.value = None;
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// Tells of variables that look like dblock's, and are not.
    pub fn tell_unknown_variables(&mut self) {
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            let is_known = VARIABLES.iter().any(|(_, known)| *known == name)
                || [
                    "DBLOCK_NAME",
                    "DBLOCK_SLOT",
                    "DBLOCK_SLOT_NAME",
                    "DBLOCK_CONNECTION_ID",
                ]
                .contains(&&*name);
            if name.starts_with("DBLOCK_") && !is_known {
                self.note(
                    &printable(&name),
                    None,
                    "environment; dblock has no such variable",
                );
            }
        }
    }

    /// Something that the user should know.
    pub fn warn(&mut self, line: &str) {
        self.notes.push((Level::Warning, line.to_owned()));
    }

    /// Notes what an option is set to.
    pub fn note(&mut self, option: &str, value: Option<&str>, from: &str) {
        self.in_force.push(InForce {
            option: option.to_owned(),
            value: value.map(|value| without_password(printable(value))),
            from: from.to_owned(),
        });
    }
}

impl Source {
    /// MariaDB's clients have two switches where MySQL's have a mode. Of both the one that asks for more counts.
    fn choose_ssl_mode(&mut self) {
        let is = |option: &str, value: &[u8]| {
            let given = self.get(option).filter(|given| *given.value == *value)?;
            Some(given.clone())
        };
        let (verified, none) = (is(SSL_VERIFY, b"1"), is(SSL, b"0"));
        if let Some(given) = verified {
            let mode = given.with(b"verify-identity");
            self.options.insert("ssl-mode".to_owned(), mode);
        } else if let Some(given) = none {
            let mode = given.with(b"disabled");
            self.options.entry("ssl-mode".to_owned()).or_insert(mode);
        }
    }

    /// What this source says of TLS that dblock does not know.
    pub fn unknown_of_tls(&self) -> impl Iterator<Item = &Given> {
        self.options
            .iter()
            .filter(|(name, _)| is_unknown_of_tls(name))
            .map(|(_, given)| given)
    }
}

fn is_unknown_of_tls(name: &str) -> bool {
    let concerns_tls = name.starts_with("ssl") || name.starts_with("tls-");
    concerns_tls && !OF_CLIENTS.contains(&name) && !HARMLESS.contains(&name)
}

/// A switch with a word in front of its name, and whether that word turns it on.
fn prefixed(name: &str) -> Option<(&str, bool)> {
    let words = [("skip-", false), ("disable-", false), ("enable-", true)];
    words
        .into_iter()
        .find_map(|(word, turns_on)| Some((name.strip_prefix(word)?, turns_on)))
}

fn add(source: &mut Source, name: &str, kind: Kind, entry: &Entry) -> Result<(), Failure> {
    let place = &entry.place;
    let value = match (&entry.value, kind) {
        (_, Kind::Switch) => return add_switch(source, name, true, entry),
        // As a variable that is set to nothing; it takes back what was said before it.
        (Value::Text(value), _) if value.is_empty() => {
            source.options.remove(name);
            return Ok(());
        }
        (Value::Text(value), _) => value.clone(),
        (Value::Withheld, _) => Zeroizing::default(),
        (Value::None, Kind::Count) => Zeroizing::new(b"1".to_vec()),
        (Value::None, Kind::Value) if name == "password" => {
            let why = "a password without a value would be asked for, and dblock cannot ask";
            return Err(wrong(place, why));
        }
        (Value::None, Kind::Value) => return Err(wrong(place, &format!("{name} needs a value"))),
    };
    source.insert(Given {
        option: name.to_owned(),
        value,
        origin: Origin::File(place.clone()),
    });
    Ok(())
}

/// A switch, which its name `turns` on or off, and the value 0 the other way.
fn add_switch(source: &mut Source, name: &str, turns: bool, entry: &Entry) -> Result<(), Failure> {
    let as_named = match &entry.value {
        Value::Text(value) if value.is_empty() => {
            source.options.remove(name);
            return Ok(());
        }
        Value::None | Value::Withheld => true,
        Value::Text(value) => match value.to_ascii_lowercase().as_slice() {
            b"1" | b"on" | b"true" => true,
            b"0" | b"off" | b"false" => false,
            _ => {
                return Err(wrong(
                    &entry.place,
                    &format!("{name} is neither on nor off"),
                ));
            }
        },
    };
    let value = if turns == as_named { b"1" } else { b"0" };
    source.insert(Given {
        option: name.to_owned(),
        value: Zeroizing::new(value.to_vec()),
        origin: Origin::File(entry.place.clone()),
    });
    Ok(())
}
