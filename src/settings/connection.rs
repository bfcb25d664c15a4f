//! The meaning of the connection options: the hosts, the account, the encryption.

use super::host::{Host, shown};
use super::libpq;
use super::password::password;
use super::server_url::parameters::PARAMETERS;
use super::sources::{Given, Named, Precedence, Source, Sources};
use super::{cli, value};
use crate::base::exit::{Failure, Reason};
use crate::base::file;
use crate::base::text::in_words;
use crate::db::{
    ConnectOptions, Identity, Kind, Password, PostgresOptions, Protocol, SslMode, Target, TlsFiles,
    TlsOptions,
};

/// Reads how to connect to the server.
///
/// # Errors
/// [`Reason::Usage`] or [`Reason::Configuration`].
pub fn read(sources: &mut Sources) -> Result<ConnectOptions, Failure> {
    match sources.kind() {
        Ok(Kind::MySql) => {}
        Ok(Kind::Postgres) => return libpq::read(sources),
        Err(failure) => sources.stop_unless_lenient(failure)?,
    }
    sources.check_each(check_source)?;
    let connect_timeout = sources.value("connect-timeout", value::longer_than_nothing)?;
    let user = sources.optional("user", value::any)?;
    let password = password(sources)?;
    if password.is_none() {
        sources.record("password", None, "default");
    }
    let database = sources.value("database", value::database)?;
    let schema = sources.value("schema", value::schema)?;
    let tls = tls(sources)?;
    let targets = targets(sources)?;
    if tls.mode != SslMode::Disabled && targets.iter().any(Target::is_remote) {
        let refused = refuse_unknown_tls_options(sources);
        refused.or_else(|failure| sources.stop_unless_lenient(failure))?;
    }
    if tls.mode >= SslMode::Required
        && let Some(socket) = targets.iter().find(|target| !target.is_remote())
    {
        let line = format!(
            "--ssl-mode {} is not possible over the local socket ({socket}): dblock has no TLS there; name a host, or use \
             --ssl-mode preferred",
            tls.mode
        );
        sources.stop_unless_lenient(Failure::new(Reason::Configuration, line))?;
    }
    sources.record_servers(&targets);
    Ok(ConnectOptions {
        kind: Kind::MySql,
        postgres: PostgresOptions::default(),
        targets,
        user,
        password: password.unwrap_or(Password::None),
        tls,
        connect_timeout,
        database,
        schema,
    })
}

/// Checks a source for errors, even if a stronger one overrides it.
fn check_source(source: &Source) -> Result<(), Failure> {
    source.check("host", value::host)?;
    source.check("port", value::port_number)?;
    source.check("socket", value::socket_path)?;
    source.check("user", value::any)?;
    source.check("password", value::any)
}

/// The servers, in order.
fn targets(sources: &mut Sources) -> Result<Vec<Target>, Failure> {
    let protocol = sources.optional("protocol", value::protocol)?;
    let port = sources.value("port", value::port_number)?;
    let socket = sources.optional("socket", value::socket_path)?;
    let Some(Named {
        precedence,
        hosts,
        place,
        is_url,
    }) = named(sources, protocol)?
    else {
        return Ok(socket.map(Target::Socket).into_iter().collect());
    };
    let is_local = |host: &Host| protocol != Some(Protocol::Tcp) && host.name == "localhost";
    if protocol == Some(Protocol::Socket)
        && let Some(host) = hosts.iter().find(|host| !is_local(host))
    {
        let line = format!("the protocol is socket, but {} is not localhost", host.name);
        return Err(Failure::new(Reason::Configuration, line));
    }
    // A separate port overrides one in a URL, unless the URL comes from a stronger source.
    let is_strong = sources.precedence("port") >= Some(precedence);
    // The other clients accept a socket beside a host, and a port beside localhost.
    if precedence > Precedence::OtherClients {
        let has_port = |host: &Host| is_strong || host.port.is_some();
        if sources.source(precedence).get("socket").is_some() && !hosts.iter().any(is_local) {
            sources
                .warn("the socket is not used: it belongs to localhost, and another host is named");
        }
        if hosts.iter().any(|host| is_local(host) && has_port(host)) {
            sources.warn("localhost means the local socket, not a port; for TCP write 127.0.0.1");
        }
    }
    // A weaker source's port does not apply to a URL, as it belongs to another host.
    let is_of_url = is_url && !is_strong;
    let port = if is_of_url {
        value::port_number(cli::default_of("port")).expect("a port")
    } else {
        port
    };
    let target = |host: &Host| match &socket {
        Some(path) if is_local(host) => Target::Socket(path.clone()),
        None if is_local(host) => Target::UsualSocket,
        _ => {
            let port = host.port.filter(|_| !is_strong).unwrap_or(port);
            Target::Tcp(host.name.clone(), port)
        }
    };
    let targets: Vec<_> = hosts.iter().map(target).collect();
    if is_of_url {
        let has_port = hosts.iter().any(|host| host.port.is_some());
        sources.correct_port(&targets, has_port.then_some(&*place));
    }
    Ok(targets)
}

/// The strongest source that names a host; `None`: it names a socket. A socket in the groups of other clients alone does not count:
/// distributions put one there.
fn named(sources: &mut Sources, protocol: Option<Protocol>) -> Result<Option<Named>, Failure> {
    for precedence in Precedence::STRONGEST_FIRST {
        let source = sources.source(precedence);
        let (hosts, given) = match (source.get("host"), &source.hosts) {
            (Some(given), _) => (vec![given.read(value::host)?], given),
            (None, Some((hosts, given))) => (hosts.clone(), given),
            (None, None) => {
                let takes_socket =
                    precedence > Precedence::OtherClients && protocol != Some(Protocol::Tcp);
                if takes_socket && source.get("socket").is_some() {
                    return Ok(None);
                }
                continue;
            }
        };
        let named = Named::new(precedence, hosts, given);
        sources.record("host", Some(&shown(&named.hosts)), &named.place);
        return Ok(Some(named));
    }
    let of_socket = sources.given("socket").map(|given| {
        let place = given.place();
        if protocol == Some(Protocol::Tcp) {
            format!("; the protocol is tcp, so the socket of {place} is not used")
        } else {
            format!(
                "; the socket of {place} may be a default, and is used if the host is localhost"
            )
        }
    });
    let of_postgres = variable_of_libpq().map(|variable| {
        format!("; {variable} is for PostgreSQL, where PGHOST, a service or --url postgres:// names the server")
    });
    let hints: String = of_socket.into_iter().chain(of_postgres).collect();
    Err(Failure::new(
        Reason::Configuration,
        format!(
            "no server is named; use --url, --host or --socket, DBLOCK_URL in the environment, or an option file{hints}"
        ),
    ))
}

/// A variable of libpq's that is set; `None`: none is.
fn variable_of_libpq() -> Option<&'static str> {
    let mut variables = PARAMETERS.iter().filter_map(|parameter| parameter.variable);
    variables.find(|&variable| Given::from_variable(variable, variable).is_some())
}

fn tls(sources: &mut Sources) -> Result<TlsOptions, Failure> {
    let (of_ca, of_mode) = (sources.precedence("ssl-ca"), sources.precedence("ssl-mode"));
    let mut mode = sources.value("ssl-mode", value::ssl_mode)?;
    // A CA alone means verify-ca. A weaker mode from a weaker source does not override that.
    if of_ca > of_mode && mode < SslMode::VerifyCa {
        mode = SslMode::VerifyCa;
        sources.correct("ssl-mode", "verify-ca", "ssl-ca");
    }
    sources.record_system_cas();
    let ca = sources.path("ssl-ca");
    if ca.is_some() && matches!(mode, SslMode::Preferred | SslMode::Required) {
        sources.warn(format!(
            "--ssl-ca has no effect with --ssl-mode {mode}, which verifies no server; use verify-ca or verify-identity"
        ));
    }
    let identity = match (sources.path("ssl-cert"), sources.path("ssl-key")) {
        (Some(cert), Some(key)) => Some(Identity { cert, key }),
        (None, None) => None,
        (Some(_), None) => {
            sources.refuse("ssl-cert", "needs --ssl-key")?;
            None
        }
        (None, Some(_)) => {
            sources.refuse("ssl-key", "needs --ssl-cert")?;
            None
        }
    };
    Ok(TlsOptions {
        mode,
        ca,
        identity,
        server_public_key: sources.path("server-public-key-path"),
        // The name is not told where it is not verified. The `mysql` client tells it only with an option.
        sends_name: mode == SslMode::VerifyIdentity,
        names: TlsFiles::OPTIONS,
    })
}

/// Checks that the files in the settings can be read. Does not check their contents.
///
/// # Errors
/// [`Reason::Configuration`] for the first one that cannot be read.
pub fn check_files(connection: &ConnectOptions) -> Result<(), Failure> {
    let tls = &connection.tls;
    let is_used = connection.targets.iter().any(Target::is_remote);
    let password_file = match &connection.password {
        Password::File(path) => Some(path),
        _ => None,
    };
    let identity = tls
        .identity
        .as_ref()
        .filter(|_| is_used && tls.mode > SslMode::Disabled);
    for (name, path) in [
        ("--password-file", password_file),
        (
            tls.names.ca,
            tls.ca
                .as_ref()
                .filter(|_| is_used && tls.mode >= SslMode::VerifyCa),
        ),
        (tls.names.cert, identity.map(|identity| &identity.cert)),
        (tls.names.key, identity.map(|identity| &identity.key)),
        ("--server-public-key-path", tls.server_public_key.as_ref()),
    ] {
        let readable = path.map_or(Ok(()), |path| file::can_be_read(path));
        readable.map_err(|error| {
            let path = path.map(|path| path.display().to_string());
            let path = value::without_password(path.unwrap_or_default());
            let line = format!(
                "cannot read the file of {name}, {path}: {}",
                in_words(&error)
            );
            Failure::new(Reason::Configuration, line)
        })?;
    }
    Ok(())
}

/// Refuses TLS options of other clients that dblock does not know and that add security.
fn refuse_unknown_tls_options(sources: &Sources) -> Result<(), Failure> {
    for given in sources
        .source(Precedence::OtherClients)
        .unknown_tls_options()
    {
        let value = String::from_utf8_lossy(&given.value).to_ascii_lowercase();
        let is_kept = match given.name.as_str() {
            // The certificates in that folder are trusted in addition.
            "ssl-capath" => sources.given("ssl-ca").is_some(),
            "ssl-fips-mode" => matches!(&*value, "off" | "0"),
            "tls-version" => ["tlsv1.2", "tlsv1.3"]
                .iter()
                .all(|version| value.contains(version)),
            _ => false,
        };
        if !is_kept {
            return Err(given.wrong(
                "dblock has no such option, and without it the connection would be less secure; give dblock a file of \
                 its own with --defaults-file, or --no-defaults",
            ));
        }
    }
    Ok(())
}
