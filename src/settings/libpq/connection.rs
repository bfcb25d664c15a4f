//! The meaning of the connection options for PostgreSQL.

use super::hosts;
use super::password_file;
use super::service::Service;
use super::tls;
use crate::base::exit::{Failure, Reason};
use crate::base::value::one_of;
use crate::db::{
    ChannelBinding, ConnectOptions, Kind, PostgresOptions, SslMode, Target, TlsOptions,
};
use crate::settings::password::password;
use crate::settings::server_url::parameters::{Meaning, PARAMETERS, Parameter, When};
use crate::settings::sources::{Given, Precedence, Source, Sources};
use crate::settings::value;

/// The options that only MySQL's connections have.
const OF_MYSQL: [&str; 2] = ["protocol", "server-public-key-path"];

/// The longest name of a database, in bytes: servers cut longer ones.
const LONGEST_NAME: usize = 63;

/// Reads how to connect to the server.
///
/// # Errors
/// [`Reason::Usage`] or [`Reason::Configuration`].
pub fn read(sources: &mut Sources) -> Result<ConnectOptions, Failure> {
    if let Err(failure) = complete(sources) {
        sources.stop_unless_lenient(failure)?;
    }
    sources.check_each(check_source)?;
    for name in OF_MYSQL {
        if sources.is_from_command_line(name) {
            sources.refuse(name, "is not for PostgreSQL")?;
        }
    }
    let connect_timeout = sources.value("connect-timeout", value::longer_than_nothing)?;
    let user = sources.optional("user", value::any)?;
    let database = database(sources)?;
    let schema = sources.value("schema", value::schema)?;
    record_service(sources);
    let postgres = PostgresOptions {
        channel_binding: sources
            .given_only("channel_binding", channel_binding)?
            .unwrap_or_default(),
        options: sources.given_only("options", value::any)?,
        has_pooler: sources.given_only("pooler", pooler)?.is_some(),
    };
    let targets = match hosts::targets(sources) {
        Ok(targets) => targets,
        Err(failure) => {
            sources.stop_unless_lenient(failure)?;
            Vec::new()
        }
    };
    let is_used = targets.iter().any(Target::is_remote);
    let tls = tls::read(sources, is_used)?;
    refuse_parameters(sources, is_used, &tls)?;
    let password = match password(sources)? {
        Some(password) => password,
        None => password_file::password(sources, &targets, user.as_deref(), &database),
    };
    if postgres.channel_binding == ChannelBinding::Require {
        refuse_unbound(sources, &tls, &targets)?;
    }
    if !targets.is_empty() {
        sources.record_servers(&targets);
    }
    Ok(ConnectOptions {
        kind: Kind::Postgres,
        postgres,
        targets,
        user,
        password,
        tls,
        connect_timeout,
        database,
        schema,
    })
}

/// Adds what other programs on PostgreSQL are told: a service and libpq's variables. The variables take the place of what MySQL's option
/// files say to all clients. A service is as strong as what names it, but weaker than each setting that is given there.
///
/// # Errors
/// The service or a variable is malformed.
fn complete(sources: &mut Sources) -> Result<(), Failure> {
    *sources.source_mut(Precedence::OtherClients) = Source::default();
    let mut outcome = Ok(());
    for name in ["service", "servicefile"] {
        outcome = outcome.and(add_variables(sources, |parameter| parameter.name == name));
    }
    if let Some(service) = sources.given("service").cloned() {
        outcome = outcome.and(add_service(sources, &service));
    }
    outcome.and(add_variables(sources, |_| true))
}

/// Adds the variables of these parameters where no value is known yet.
fn add_variables(
    sources: &mut Sources,
    is_wanted: impl Fn(&Parameter) -> bool,
) -> Result<(), Failure> {
    let mut outcome = Ok(());
    for parameter in PARAMETERS.iter().filter(|parameter| is_wanted(parameter)) {
        let variable = parameter.variable;
        let given = variable.and_then(|variable| Given::from_variable(parameter.name, variable));
        let (Some(given), Some(setting)) = (given, parameter.setting()) else {
            continue;
        };
        match parameter.value(&given.value) {
            Ok(Some(value)) => {
                let given = given.with(&value);
                let weakest = sources.source_mut(Precedence::OtherClients);
                weakest.insert_if_absent(setting, given);
            }
            Ok(None) => {}
            Err(why) => outcome = outcome.and(Err(given.wrong(&why))),
        }
    }
    outcome
}

fn add_service(sources: &mut Sources, name: &Given) -> Result<(), Failure> {
    let precedence = sources
        .precedence("service")
        .unwrap_or(Precedence::OtherClients);
    let file = sources.given("servicefile").map(Given::path);
    let mut service = Service::default();
    let found = service.find(name.text()?, file.as_deref());
    sources.files.extend(service.files);
    for warning in service.warnings {
        sources.warn(warning);
    }
    let source = sources.source_mut(precedence);
    let url_hosts = source.hosts.as_ref().map(|(hosts, _)| hosts.as_slice());
    let names_host = url_hosts.is_some() || source.get("socket").is_some();
    let has_port = |hosts: &[_]| hosts.iter().any(hosts::has_port);
    let names_port = url_hosts.is_some_and(has_port);
    let has_password = source.get("password-file").is_some();
    for (setting, given) in service.settings {
        let is_given = match setting {
            "host" => names_host,
            "port" => names_port,
            "password" => has_password,
            _ => false,
        };
        if !is_given {
            source.insert_if_absent(setting, given);
        }
    }
    found
}

/// Checks a source for errors, even if a stronger one overrides it.
fn check_source(source: &Source) -> Result<(), Failure> {
    hosts::check(source)?;
    source.check("user", value::any)?;
    source.check("password", value::any)
}

/// The database. It has no default, as its advisory locks are its own: two roles would lock in two databases.
fn database(sources: &mut Sources) -> Result<String, Failure> {
    let reader = |text: &str| match text.len() {
        1..=LONGEST_NAME if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(format!(
            "a database's name has 1 to {LONGEST_NAME} bytes on PostgreSQL"
        )),
    };
    if sources.given("database").is_some() {
        let database = sources.given_only("database", reader)?;
        return Ok(database.unwrap_or_default());
    }
    sources.record("database", None, "default");
    sources.stop_unless_lenient(Failure::new(
        Reason::Configuration,
        "no database is named, and PostgreSQL's locks are those of one database; its usual default, the name of the role, would let \
         two roles run at once; name it in the URL (postgres://host/database), with --database, or in PGDATABASE",
    ))?;
    Ok(String::new())
}

/// Records which service was read.
fn record_service(sources: &mut Sources) {
    if let Some(service) = sources.given("service").cloned() {
        sources.record("service", service.text().ok(), &service.place());
    }
}

fn channel_binding(text: &str) -> Result<ChannelBinding, String> {
    let words = [
        ("disable", ChannelBinding::Disable),
        ("prefer", ChannelBinding::Prefer),
        ("require", ChannelBinding::Require),
    ];
    one_of(&words, text)
}

fn pooler(text: &str) -> Result<(), String> {
    match text {
        "session" => Ok(()),
        _ => Err("pooler can only be session: a pooler between must keep one server's session for each client's".to_owned()),
    }
}

/// Refuses parameters without which the connection would be less safe than the user thinks.
fn refuse_parameters(
    sources: &mut Sources,
    is_remote: bool,
    tls: &TlsOptions,
) -> Result<(), Failure> {
    let has_tls = is_remote && tls.mode != SslMode::Disabled;
    for parameter in PARAMETERS {
        let Meaning::Only(possible, when, why) = parameter.meaning else {
            continue;
        };
        let Some(given) = sources.given(parameter.name).cloned() else {
            continue;
        };
        let matters = when == When::Always || has_tls;
        let is_possible = possible
            .iter()
            .any(|word| word.as_bytes().eq_ignore_ascii_case(&given.value));
        if matters && !is_possible {
            let place = given.place();
            let line = format!("{place}: {} {why}", parameter.name);
            sources.stop_unless_lenient(Failure::new(Reason::Configuration, line))?;
        }
        if is_possible {
            let text = String::from_utf8_lossy(&given.value);
            sources.record(parameter.name, Some(&text), &given.place());
        }
    }
    Ok(())
}

/// A login can be bound to TLS only where there is TLS.
fn refuse_unbound(
    sources: &mut Sources,
    tls: &TlsOptions,
    targets: &[Target],
) -> Result<(), Failure> {
    if tls.mode >= SslMode::Required && targets.iter().all(Target::is_remote) {
        return Ok(());
    }
    sources.refuse(
        "channel_binding",
        "require needs TLS to each server; use a host and sslmode require or stronger",
    )
}
