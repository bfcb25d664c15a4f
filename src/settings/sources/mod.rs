//! The sources of a setting, and which wins: an option overrides the environment, which overrides `[dblock]` in an option file, which
//! overrides the groups of other clients, which override the default.

mod given;
mod kind;
mod named;
mod source;

use std::env;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use given::{Given, Origin};
pub use named::Named;
use serde::Serialize;
pub use source::Source;

use super::cli;
use super::option_file::{Entry, FileStatus, FoundOptions, Places};
use super::value::without_password;
use crate::base::exit::{Failure, Reason};
use crate::base::log::Log;
use crate::base::text::printable;
use crate::base::user::os_user;
use crate::crond::SENDMAIL_VARIABLE;
use crate::db::{Kind, SYSTEM_CAS, Target};
use crate::history::VIA;

/// dblock's own group.
const OWN_GROUP: &str = "dblock";

/// The other groups that are read: MySQL's clients read the first, MariaDB's all of them.
const CLIENT_GROUPS: [&str; 3] = ["client", "client-server", "client-mariadb"];

/// The name of the source for defaults.
const DEFAULT: &str = "default";

/// The variables that dblock sets for its command, and for what is run at the end.
const OF_THE_COMMAND: [&str; 13] = [
    "DBLOCK_NAME",
    "DBLOCK_SLOT",
    "DBLOCK_SLOT_NAME",
    "DBLOCK_CONNECTION_ID",
    "DBLOCK_FENCE",
    "DBLOCK_TICK",
    "DBLOCK_QUEUE",
    "DBLOCK_JOB_ID",
    "DBLOCK_ATTEMPT",
    "DBLOCK_WILL_RETRY",
    "DBLOCK_RESULT",
    "DBLOCK_EXIT_CODE",
    "DBLOCK_SIGNAL",
];

/// The variable with the token of a lock that a script holds. It is read if no argument gives a token.
pub const TOKEN: &str = "DBLOCK_TOKEN";

/// The strength of a source: the greater one wins. `None` is the weakest: no source gives the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// The groups of other clients in option files.
    OtherClients,
    /// `[dblock]` in option files.
    OwnGroup,
    /// The environment.
    Environment,
    /// The command line.
    CommandLine,
}

impl Precedence {
    /// All sources, the strongest first.
    pub const STRONGEST_FIRST: [Self; 4] = [
        Self::CommandLine,
        Self::Environment,
        Self::OwnGroup,
        Self::OtherClients,
    ];
}

/// A setting in force.
#[derive(Debug, Serialize)]
pub struct InForce {
    /// The setting.
    #[serde(rename = "setting")]
    pub name: String,
    /// The value, `***` for a secret; `None`: it has no value.
    pub value: Option<String>,
    /// The place where the value was given.
    pub from: String,
}

/// All sources, and what was read from them.
#[derive(Debug, Default)]
pub struct Sources {
    /// In the order of [`Precedence`].
    by_precedence: [Source; 4],
    /// All settings that were read so far.
    pub in_force: Vec<InForce>,
    /// The option files.
    pub files: Vec<(Rc<Path>, FileStatus)>,
    warnings: Vec<String>,
    /// The kind of server that is meant; `None` before that is known.
    kind: Option<Result<Kind, Failure>>,
    /// Whether to continue after a wrong value: it is kept in `failure`, and the default is used.
    pub is_lenient: bool,
    /// The first wrong value, if reading continued.
    pub failure: Option<Failure>,
}

impl Sources {
    /// Takes the command line, and reads the environment and the option files. After an error it returns what could be read.
    ///
    /// # Errors
    /// [`Reason::Configuration`] for option files, [`Reason::Usage`] for a malformed URL.
    pub fn read(given: cli::Values) -> (Self, Result<(), Failure>) {
        let mut sources = Self::default();
        for (name, value) in given {
            let given = Given::new(name, value, Origin::Flag);
            sources.source_mut(Precedence::CommandLine).insert(given);
        }
        for (name, variable) in cli::variables() {
            if let Some(given) = Given::from_variable(name, variable) {
                sources.source_mut(Precedence::Environment).insert(given);
            }
        }
        let suffix = sources.given("defaults-group-suffix");
        let suffix = suffix.map_or_else(String::new, |given| {
            String::from_utf8_lossy(&given.value).to_ascii_lowercase()
        });
        let groups: Vec<String> = CLIENT_GROUPS
            .into_iter()
            .chain([OWN_GROUP])
            .flat_map(|group| [group.to_owned(), format!("{group}{suffix}")])
            .collect();
        let path = |name| sources.given(name).map(Given::path);
        let places = Places {
            only: path("defaults-file"),
            extra: path("defaults-extra-file"),
            none: sources.is_on("no-defaults"),
        };
        let mut found = FoundOptions::default();
        let read = found.read(&places, &groups);
        sources.warnings = found.warnings;
        sources.files = found.files;
        // Options before a malformed line count, too.
        let taken = sources.take(&found.entries, &suffix);
        (sources, read.and(taken))
    }

    /// Adds the options of the files, and then splits the URL of each source.
    fn take(&mut self, entries: &[Entry], suffix: &str) -> Result<(), Failure> {
        // What is wrong in the groups of other clients does not matter for PostgreSQL.
        let (mut of_all, mut of_own) = (Ok(()), Ok(()));
        for entry in entries {
            let group = &*entry.place.group;
            let is_own = group == OWN_GROUP || group.strip_suffix(suffix) == Some(OWN_GROUP);
            let taken = if is_own {
                let taken = self.source_mut(Precedence::OwnGroup).add_own(entry);
                let taken = taken.map(|warning| self.warnings.extend(warning));
                of_own = of_own.and(taken.clone());
                taken
            } else {
                let clients = self.source_mut(Precedence::OtherClients);
                clients.add_of_clients(entry)
            };
            of_all = of_all.and(taken);
        }
        self.source_mut(Precedence::OtherClients).choose_ssl_mode();
        let kind = kind::decide(self);
        let meant = *kind.as_ref().unwrap_or(&Kind::MySql);
        self.kind = Some(kind);
        let mut outcome = match meant {
            Kind::MySql => of_all,
            Kind::Postgres => of_own,
        };
        for source in self.by_precedence.iter_mut().rev() {
            outcome = outcome.and(source.split_url(meant));
        }
        if meant == Kind::Postgres {
            return outcome;
        }
        // The other clients' variables: the password is the weakest of the environment, the socket is weaker than all files.
        for (precedence, name, variable) in [
            (Precedence::Environment, "password", "MYSQL_PWD"),
            (Precedence::OtherClients, "socket", "MYSQL_UNIX_PORT"),
        ] {
            if let Some(given) = Given::from_variable(name, variable) {
                self.source_mut(precedence).insert_if_absent(name, given);
            }
        }
        outcome
    }

    /// The kind of server that is meant.
    ///
    /// # Errors
    /// [`Reason::Configuration`]: servers of both kinds are named, and nothing says which is meant.
    pub fn kind(&self) -> Result<Kind, Failure> {
        self.kind.clone().unwrap_or(Ok(Kind::MySql))
    }

    /// One source.
    pub fn source(&self, precedence: Precedence) -> &Source {
        &self.by_precedence[precedence as usize]
    }

    /// One source, to add to.
    pub fn source_mut(&mut self, precedence: Precedence) -> &mut Source {
        &mut self.by_precedence[precedence as usize]
    }

    /// All sources, the strongest first.
    pub fn strongest_first(&self) -> impl Iterator<Item = (Precedence, &Source)> {
        let order = Precedence::STRONGEST_FIRST.into_iter();
        order.map(|precedence| (precedence, self.source(precedence)))
    }

    /// Checks each source.
    ///
    /// # Errors
    /// The first failure, unless reading continues after errors.
    pub fn check_each(
        &mut self,
        check: impl Fn(&Source) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let checked = self.strongest_first().map(|(_, source)| check(source));
        let malformed: Vec<_> = checked.filter_map(Result::err).collect();
        let mut malformed = malformed.into_iter();
        malformed.try_for_each(|failure| self.stop_unless_lenient(failure))
    }

    /// The value of a setting from the strongest source that has it.
    pub fn given(&self, name: &str) -> Option<&Given> {
        let mut sources = self.strongest_first();
        sources.find_map(|(_, source)| source.get(name))
    }

    /// The strongest source that gives a setting.
    pub fn precedence(&self, name: &str) -> Option<Precedence> {
        let mut sources = self.strongest_first();
        let found = sources.find(|(_, source)| source.get(name).is_some());
        found.map(|(precedence, _)| precedence)
    }

    /// Whether the command line gives a setting.
    pub fn is_from_command_line(&self, name: &str) -> bool {
        self.precedence(name) == Some(Precedence::CommandLine)
    }

    /// The value of a setting, or its default.
    ///
    /// # Errors
    /// The value is wrong, unless reading continues after errors.
    pub fn value<T>(
        &mut self,
        name: &str,
        reader: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        self.value_or(name, reader, cli::default_of(name))
    }

    /// The value of a setting, or this default.
    ///
    /// # Errors
    /// As [`Sources::value`].
    pub fn value_or<T>(
        &mut self,
        name: &str,
        reader: impl Fn(&str) -> Result<T, String>,
        default: &str,
    ) -> Result<T, Failure> {
        let value = self.read_and_record(name, &reader, Some(default))?;
        Ok(value.unwrap_or_else(|| reader(default).expect("a default is well-formed")))
    }

    /// The value of a setting; `None`: no source gives it. Its default may be computed later.
    ///
    /// # Errors
    /// As [`Sources::value`].
    pub fn optional<T>(
        &mut self,
        name: &str,
        reader: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        let default = cli::setting(name).and_then(|setting| setting.default);
        self.read_and_record(name, &reader, default)
    }

    /// As [`Sources::optional`], but a setting that no source gives is not recorded.
    ///
    /// # Errors
    /// As [`Sources::value`].
    pub fn given_only<T>(
        &mut self,
        name: &str,
        reader: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Failure> {
        if self.given(name).is_none() {
            return Ok(None);
        }
        self.optional(name, reader)
    }

    fn read_and_record<T>(
        &mut self,
        name: &str,
        reader: &dyn Fn(&str) -> Result<T, String>,
        default: Option<&str>,
    ) -> Result<Option<T>, Failure> {
        let Some(given) = self.given(name).cloned() else {
            self.record(name, default, DEFAULT);
            return Ok(None);
        };
        match given.read(reader) {
            Ok(value) => {
                let text = String::from_utf8_lossy(&given.value);
                self.record(name, Some(&text), &given.place());
                Ok(Some(value))
            }
            Err(failure) => {
                self.stop_unless_lenient(failure)?;
                // It may be a URL in the wrong place.
                self.record(name, Some("(malformed)"), &given.place());
                Ok(None)
            }
        }
    }

    /// The file that a setting names.
    pub fn path(&mut self, name: &str) -> Option<PathBuf> {
        let given = self.given(name);
        let path = given.map(Given::path);
        let place = given.map_or(DEFAULT.to_owned(), Given::place);
        let text = path.as_ref().map(|path| path.to_string_lossy());
        self.record(name, text.as_deref(), &place);
        path
    }

    /// Whether a switch is on. It is not recorded as in force.
    pub fn is_on(&self, name: &str) -> bool {
        self.given(name).is_some_and(|given| *given.value == *b"1")
    }

    /// Whether a switch is on, and no stronger source gives `other`, which cannot be combined with it.
    pub fn is_on_rather_than(&self, name: &str, other: &str) -> bool {
        self.is_on(name) && self.precedence(name) >= self.precedence(other)
    }

    /// Whether a switch is on.
    pub fn switch(&mut self, name: &str) -> bool {
        let is_on = self.is_on(name);
        let place = self.given(name).map_or(DEFAULT.to_owned(), Given::place);
        self.record(name, Some(if is_on { "on" } else { "off" }), &place);
        is_on
    }

    /// Records that a setting is in force.
    pub fn record(&mut self, name: &str, value: Option<&str>, from: &str) {
        self.in_force.push(InForce {
            name: name.to_owned(),
            value: value.map(|value| without_password(printable(value))),
            from: from.to_owned(),
        });
    }

    /// Corrects the recorded value of a setting, because of the value of `other`.
    pub fn correct(&mut self, name: &str, value: &str, other: &str) {
        let place = self.given(other).map(Given::place).unwrap_or_default();
        self.correct_from(name, value, &place);
    }

    /// Corrects the recorded value of a setting, because of what is at this `place`.
    pub fn correct_from(&mut self, name: &str, value: &str, place: &str) {
        let mut recorded = self.in_force.iter_mut();
        if let Some(setting) = recorded.find(|setting| setting.name == name) {
            (setting.value, setting.from) = (Some(value.to_owned()), place.to_owned());
        }
    }

    /// Records the servers that are meant.
    pub fn record_servers(&mut self, targets: &[Target]) {
        let shown: Vec<_> = targets.iter().map(Target::to_string).collect();
        self.record("servers", Some(&shown.join(", ")), "host, port, socket");
    }

    /// Corrects the recorded port: the servers have others, which are given at this `place`, or are the default.
    pub fn correct_port(&mut self, targets: &[Target], place: Option<&str>) {
        let port = |target: &Target| match target {
            Target::Tcp(_, port) => Some(port.to_string()),
            Target::Socket(_) | Target::UsualSocket => None,
        };
        let mut ports: Vec<_> = targets.iter().filter_map(port).collect();
        if ports.windows(2).all(|pair| pair[0] == pair[1]) {
            ports.truncate(1);
        }
        if !ports.is_empty() {
            self.correct_from("port", &ports.join(","), place.unwrap_or(DEFAULT));
        }
    }

    /// Refuses a setting that cannot be combined with another one.
    ///
    /// # Errors
    /// [`Reason::Configuration`], unless reading continues after errors.
    pub fn refuse(&mut self, name: &str, why: &str) -> Result<(), Failure> {
        let place = self
            .given(name)
            .map_or_else(String::new, |given| match given.origin {
                Origin::Flag if given.name == name => given.place(),
                _ => format!("{}: {name}", given.place()),
            });
        let failure = Failure::new(Reason::Configuration, format!("{place} {why}"));
        self.stop_unless_lenient(failure)
    }

    /// Refuses a setting that the same source gives besides another one.
    ///
    /// # Errors
    /// As [`Sources::refuse`].
    pub fn refuse_both(&mut self, name: &str, other: &str) -> Result<(), Failure> {
        let precedence = self.precedence(name);
        if precedence.is_none() || precedence != self.precedence(other) {
            return Ok(());
        }
        let why = format!("cannot be combined with {other}; give one of them");
        self.refuse(name, &why)
    }

    /// Fails, or keeps the failure if reading continues after errors.
    ///
    /// # Errors
    /// The failure.
    pub fn stop_unless_lenient(&mut self, failure: Failure) -> Result<(), Failure> {
        if !self.is_lenient {
            return Err(failure);
        }
        self.failure.get_or_insert(failure);
        Ok(())
    }

    /// Records the OS user's name if it is the default.
    pub fn record_os_user(&mut self) {
        let mut recorded = self.in_force.iter_mut();
        let user = recorded.find(|setting| setting.name == "user" && setting.from == DEFAULT);
        let Some(user) = user else {
            return;
        };
        match os_user() {
            Ok(name) => user.value = Some(name),
            Err(failure) => {
                user.value = None;
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// Records the variables that replace the system's CAs.
    pub fn record_system_cas(&mut self) {
        for name in SYSTEM_CAS {
            if let Some(given) = Given::from_variable(name, name) {
                self.record(name, given.text().ok(), "environment");
            }
        }
    }

    /// Records the sendmail of `dblock cron run` if a variable names it.
    pub fn record_sendmail(&mut self) {
        if let Some(sendmail) = env::var_os(SENDMAIL_VARIABLE) {
            self.record(
                SENDMAIL_VARIABLE,
                Some(&sendmail.to_string_lossy()),
                "environment",
            );
        }
    }

    /// Records variables that look like dblock's, but are not.
    pub fn record_unknown_variables(&mut self) {
        for (variable, _) in env::vars_os() {
            let variable = variable.to_string_lossy();
            let is_known = cli::variables().any(|(_, known)| *known == variable)
                || OF_THE_COMMAND.contains(&&*variable)
                || variable == TOKEN
                || variable == VIA
                || variable == SENDMAIL_VARIABLE;
            if variable.starts_with("DBLOCK_") && !is_known {
                self.record(
                    &printable(&variable),
                    None,
                    "environment; dblock has no such variable",
                );
            }
        }
    }

    /// Adds a warning for the user.
    pub fn warn(&mut self, line: impl Into<String>) {
        self.warnings.push(line.into());
    }

    /// Logs the warnings.
    pub fn log_warnings(&self, log: Log) {
        for warning in &self.warnings {
            log.warning(warning);
        }
    }
}
