//! `mysql://[user[:password]@]host[:port][,host[:port]]…[/[database]][?option=value&…]`, with percent-encoding. No error quotes a part
//! that may be a password.

use std::fmt;

use url::Url;

use super::Parts;
use super::part::{decoded, quoted};
use crate::db::Kind;
use crate::settings::host::Host;

/// The options after the `?`.
const OPTIONS: [&str; 6] = [
    "socket", "protocol", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key",
];

/// Splits a URL into its parts. `rest` is what follows the scheme of the whole `url`.
///
/// # Errors
/// What is wrong with it, without quoting it.
pub fn parse(rest: &str, url: &str) -> Result<Parts, String> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let (account, hosts) = match authority.rsplit_once('@') {
        Some((account, hosts)) => (account, hosts),
        None => ("", authority),
    };
    let hosts = match hosts {
        "" => None,
        hosts => Some(hosts.split(',').map(host).collect::<Result<Vec<_>, _>>()?),
    };
    let mut options = Vec::new();
    let (user, password) = match account.split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (account, None),
    };
    if !user.is_empty() {
        options.push(("user", decoded(user, "user")?));
    }
    if let Some(password) = password {
        options.push(("password", decoded(password, "password")?));
    }

    let tail = Url::parse(&format!("mysql://host{tail}")).map_err(|wrong| wrong.to_string())?;
    if let Some(path) = tail
        .path()
        .strip_prefix('/')
        .filter(|path| !path.is_empty())
    {
        // Usually this is the @ after a password that contains a /.
        if path.contains(['/', '@']) {
            return Err("one name of a database may follow the / in the URL".to_owned());
        }
        options.push(("database", decoded(path, "database")?));
    }
    if tail.fragment().is_some() {
        return Err("a # in the URL must be written as %23".to_owned());
    }
    for (key, value) in tail.query_pairs() {
        let option = OPTIONS
            .into_iter()
            .find(|option| *option == key)
            .ok_or_else(|| format!("the URL parameter{} is unknown", quoted(&key, url)))?;
        if options.iter().any(|(given, _)| *given == option) {
            return Err(format!("the URL parameter {option} is given twice"));
        }
        options.push((option, value.into_owned().into()));
    }
    Ok(Parts {
        kind: Kind::MySql,
        hosts,
        settings: options,
    })
}

/// One `host[:port]` of a URL.
fn host(text: &str) -> Result<Host, String> {
    let wrong = |why: &dyn fmt::Display| format!("a host in the URL cannot be read: {why}");
    if text.matches(':').count() > 1 && !text.starts_with('[') {
        return Err(wrong(
            &"an IPv6 address is written in brackets, as in [::1]",
        ));
    }
    let url = Url::parse(&format!("mysql://{text}/")).map_err(|why| wrong(&why))?;
    let name = url
        .host_str()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| wrong(&"is empty"))?;
    if url.port() == Some(0) {
        return Err(wrong(&"a port is a number from 1 to 65535"));
    }
    let name = decoded(name.trim_start_matches('[').trim_end_matches(']'), "host")?;
    Ok(Host {
        name: name.to_string(),
        port: url.port(),
    })
}
