//! Where the servers are.

use std::path::{Path, PathBuf};

use super::files::is_socket;
use crate::base::exit::{Failure, Reason};
use crate::db::Target;
use crate::settings::host::{Host, shown};
use crate::settings::server_url::hosts::{PORT, addresses, names, ports, with_ports};
use crate::settings::sources::{Named, Precedence, Source, Sources};
use crate::settings::value;

/// What the name of a socket begins with; its port follows.
const SOCKET: &str = ".s.PGSQL.";

/// Whether a port was given for this host.
pub fn has_port(host: &Host) -> bool {
    host.port.is_some()
}

/// The servers, in order.
///
/// # Errors
/// No server is named, or what is named does not go together.
pub fn targets(sources: &mut Sources) -> Result<Vec<Target>, Failure> {
    let port = sources.value_or("port", ports, &PORT.to_string())?;
    let socket = sources.optional("socket", value::socket_path)?;
    let Some(named) = named(sources)? else {
        let path = socket.unwrap_or_default();
        return Ok(vec![Target::Socket(whole_path(path, port[0]))]);
    };
    if sources.source(named.precedence).get("socket").is_some() {
        sources.warn("the socket is not used, as a host is named");
    }
    refuse_address(sources, &named)?;
    // As for MySQL: a separate port overrides one in a URL, unless the URL comes from a stronger source, and a weaker source's port
    // does not apply to a URL. Except, as in libpq, the port of a service or of PGPORT: it takes the place of the default.
    let of_port = sources.precedence("port");
    let libpq = sources.source(Precedence::OtherClients).get("port");
    let has_port = named.hosts.iter().any(has_port);
    let is_of_url = of_port < Some(named.precedence) && (named.is_url || has_port);
    let (ports, place) = match libpq {
        _ if !is_of_url => (Some(port), None),
        _ if has_port => (None, Some(named.place)),
        Some(given) => (Some(given.read(ports)?), Some(given.place())),
        None => (None, None),
    };
    let hosts = match ports {
        Some(ports) => with_ports(named.hosts, &ports)
            .map_err(|why| Failure::new(Reason::Configuration, why))?,
        None => named.hosts,
    };
    let targets = hosts
        .into_iter()
        .map(target)
        .collect::<Result<Vec<_>, _>>()?;
    if is_of_url {
        sources.correct_port(&targets, place.as_deref());
    }
    Ok(targets)
}

/// The strongest source that names a host; `None`: it names a socket.
fn named(sources: &mut Sources) -> Result<Option<Named>, Failure> {
    for precedence in Precedence::STRONGEST_FIRST {
        let source = sources.source(precedence);
        let hosts = match (source.get("host"), &source.hosts, source.get("hostaddr")) {
            (Some(given), _, _) => Some((given.read(names)?, given)),
            (None, Some((hosts, given)), _) => Some((hosts.clone(), given)),
            (None, None, Some(given)) => Some((given.read(addresses)?, given)),
            (None, None, None) => None,
        };
        if let Some((hosts, given)) = hosts {
            let named = Named::new(precedence, hosts, given);
            sources.record("host", Some(&shown(&named.hosts)), &named.place);
            return Ok(Some(named));
        }
        if source.get("socket").is_some() {
            return Ok(None);
        }
    }
    Err(Failure::new(
        Reason::Configuration,
        "no server is named; name a host in --url or DBLOCK_URL, with --host, or in PGHOST or a service; the folder of a local \
         socket is a host, too, as in postgres:///database?host=/var/run/postgresql",
    ))
}

/// libpq connects to the address and uses the host only as a name. dblock cannot, and must not connect to another server than `psql`.
fn refuse_address(sources: &mut Sources, named: &Named) -> Result<(), Failure> {
    for precedence in [named.precedence, Precedence::OtherClients] {
        let source = sources.source(precedence);
        let names_hosts = source.get("host").is_none() && source.hosts.is_none();
        let is_named = precedence == named.precedence && names_hosts;
        if let Some(given) = source.get("hostaddr").filter(|_| !is_named) {
            let place = given.place();
            let line = format!(
                "{place}: an address (hostaddr) beside a host is not possible; give the address as the host, or no address"
            );
            return sources.stop_unless_lenient(Failure::new(Reason::Configuration, line));
        }
    }
    Ok(())
}

fn target(host: Host) -> Result<Target, Failure> {
    let port = host.port.unwrap_or(PORT);
    if !host.name.starts_with('/') {
        return Ok(Target::Tcp(host.name, port));
    }
    let path = Path::new(&host.name).join(format!("{SOCKET}{port}"));
    let path = value::socket_path(&path.to_string_lossy())
        .map_err(|why| Failure::new(Reason::Configuration, why))?;
    Ok(Target::Socket(path))
}

/// The whole path of a socket, of which the folder may be given.
fn whole_path(path: PathBuf, port: u16) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(SOCKET) || is_socket(&path) {
        path
    } else {
        path.join(format!("{SOCKET}{port}"))
    }
}

/// The host and the port of a server, as libpq calls them.
pub fn host_and_port(target: &Target) -> (String, u16) {
    match target {
        Target::Tcp(host, port) => (host.clone(), *port),
        Target::Socket(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let port = name.strip_prefix(SOCKET).and_then(|port| port.parse().ok());
            let folder = path.parent().unwrap_or(path).display().to_string();
            (folder, port.unwrap_or(PORT))
        }
        Target::UsualSocket => ("localhost".to_owned(), PORT),
    }
}

/// Checks that a source has no wrong host or port, even if a stronger one overrides it.
///
/// # Errors
/// The first one that is wrong.
pub fn check(source: &Source) -> Result<(), Failure> {
    source.check("host", names)?;
    source.check("hostaddr", addresses)?;
    source.check("port", ports)?;
    source.check("socket", value::socket_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_a_folder_or_a_whole_path() {
        let path = |text: &str| whole_path(text.into(), 7).display().to_string();
        assert_eq!(path("/run/pg"), "/run/pg/.s.PGSQL.7");
        assert_eq!(path("/run/pg/.s.PGSQL.9"), "/run/pg/.s.PGSQL.9");
        let target = Target::Socket("/run/pg/.s.PGSQL.9".into());
        assert_eq!(host_and_port(&target), ("/run/pg".to_owned(), 9));
    }
}
