//! `postgres://[user[:password]@][host[:port][,host[:port]]…][/[database]][?parameter=value&…]`, taken apart as libpq does it
//! (`conninfo_uri_parse_options`): the first `@` ends the account, a `+` is a `+`, the later of two parameters counts, and parameters
//! override what stands before the `?`. No error quotes a part that may be a password.

use std::borrow::Cow;
use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::parameters::Parameter;
use super::part::{decoded, quoted};
use super::{Parts, hosts};
use crate::db::Kind;

/// The settings of a URL so far.
#[derive(Default)]
struct UrlSettings(BTreeMap<&'static str, Zeroizing<String>>);

impl UrlSettings {
    /// Adds a part that has a place of its own.
    fn add(&mut self, name: &'static str, what: &str, text: &str) -> Result<(), String> {
        if !text.is_empty() {
            self.0.insert(name, decoded(text, what)?);
        }
        Ok(())
    }

    /// Adds a parameter behind the `?`.
    fn add_parameter(&mut self, text: &str, url: &str) -> Result<(), String> {
        let (key, value) = text
            .split_once('=')
            .ok_or("a parameter in the URL has no =")?;
        if value.contains('=') {
            return Err("a = in a value in the URL must be written as %3D".to_owned());
        }
        let (key, value) = (
            decoded(key, "parameter's name")?,
            decoded(value, "parameter")?,
        );
        // As the JDBC driver has it.
        let (key, value) = match (key.as_str(), value.as_str()) {
            ("ssl", "true") => ("sslmode", "require"),
            (key, value) => (key, value),
        };
        let parameter = Parameter::find(key)
            .ok_or_else(|| format!("the URL parameter{} is unknown", quoted(key, url)))?;
        let Some(setting) = parameter.setting() else {
            return Ok(());
        };
        match parameter.value(value.as_bytes())? {
            Some(value) => {
                let value = match value {
                    Cow::Borrowed(value) => str::from_utf8(value).map(str::to_owned),
                    Cow::Owned(value) => String::from_utf8(value).map_err(|e| e.utf8_error()),
                };
                let value = value.expect("it was text");
                self.0.insert(setting, Zeroizing::new(value));
            }
            None => {
                self.0.remove(setting);
            }
        }
        Ok(())
    }
}

/// Splits a URL into its parts. `rest` is what follows the scheme of the whole `url`.
///
/// # Errors
/// What is wrong with it, without quoting it.
pub fn parse(rest: &str, url: &str) -> Result<Parts, String> {
    // A password that contains an unencoded / does not end at an @ before it. Then it would be taken for a host and a port.
    let end = rest
        .find(['@', '/'])
        .filter(|&at| rest[at..].starts_with('@'));
    let (account, rest) = match end {
        Some(end) => (&rest[..end], &rest[end + 1..]),
        None => ("", rest),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (servers, tail) = rest.split_at(end);
    if tail.contains('@') && (account.contains(':') || servers.contains(':')) {
        return Err(
            "an @ that does not end the account in the URL must be written as %40".to_owned(),
        );
    }
    let mut found = UrlSettings::default();
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    found.add("user", "user", user)?;
    found.add("password", "password", password)?;
    add_servers(&mut found, servers)?;
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let database = path.strip_prefix('/').unwrap_or_default();
    if database.contains('/') {
        return Err("one name of a database may follow the / in the URL".to_owned());
    }
    found.add("database", "database", database)?;
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        found.add_parameter(parameter, url)?;
    }

    let UrlSettings(mut settings) = found;
    let hosts = match settings.remove("host") {
        Some(names) => Some(hosts::names(&names)?),
        None => settings
            .remove("hostaddr")
            .map(|addresses| hosts::addresses(&addresses))
            .transpose()?,
    };
    let hosts = match (hosts, settings.get("port")) {
        (Some(hosts), Some(ports)) => {
            let hosts = hosts::with_ports(hosts, &hosts::ports(ports)?)?;
            settings.remove("port");
            Some(hosts)
        }
        (hosts, ports) => {
            ports.map(|ports| hosts::ports(ports)).transpose()?;
            hosts
        }
    };
    Ok(Parts {
        kind: Kind::Postgres,
        hosts,
        settings: settings.into_iter().collect(),
    })
}

/// The hosts before the `/`, and their ports.
fn add_servers(found: &mut UrlSettings, servers: &str) -> Result<(), String> {
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for server in servers.split(',') {
        let (name, port) = match server.strip_prefix('[') {
            Some(rest) => {
                let (name, port) = rest
                    .split_once(']')
                    .ok_or("a host in the URL cannot be read: a ] is missing")?;
                (name, port)
            }
            None => server.split_at(server.find(':').unwrap_or(server.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port,
            None if port.is_empty() => "",
            None => {
                return Err(
                    "a host in the URL cannot be read: only a port may follow the ]".to_owned(),
                );
            }
        };
        // Also where it is written as %40: no host has one, but a password may.
        if name.contains('@') {
            return Err("a host in the URL cannot be read: it has an @".to_owned());
        }
        names.push(name);
        ports.push(port);
    }
    let is_empty = |texts: &[&str]| texts.iter().all(|text| text.is_empty());
    if !is_empty(&names) {
        found.add("host", "host", &names.join(","))?;
    }
    if !is_empty(&ports) {
        found.add("port", "port", &ports.join(","))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::server_url;

    type Hosts = Vec<(String, Option<u16>)>;
    type Settings = Vec<(&'static str, String)>;

    fn parts(url: &str) -> (Hosts, Settings) {
        let parts = server_url::parse(url).unwrap();
        assert_eq!(parts.kind, Kind::Postgres);
        let hosts = parts.hosts.unwrap_or_default().into_iter();
        let settings = parts.settings.into_iter();
        (
            hosts.map(|host| (host.name, host.port)).collect(),
            settings
                .map(|(name, value)| (name, value.to_string()))
                .collect(),
        )
    }

    fn hosts(url: &str) -> Hosts {
        parts(url).0
    }

    fn settings(url: &str) -> Settings {
        parts(url).1
    }

    #[test]
    fn hosts_have_their_ports() {
        let host = |name: &str, port| (name.to_owned(), port);
        assert_eq!(hosts("postgres://a/d"), [host("a", None)]);
        assert_eq!(
            hosts("postgresql://u@a,[::1]:7,%2Frun%2Fpg:8/d"),
            [
                // As in libpq, PGPORT is not for a host beside one that has a port.
                host("a", Some(5432)),
                host("::1", Some(7)),
                host("/run/pg", Some(8))
            ]
        );
        assert_eq!(
            hosts("postgres:///d?host=a,/b&port=7"),
            [host("a", Some(7)), host("/b", Some(7))]
        );
        assert_eq!(
            hosts("postgres://x:1,y:2/d?host=a,b"),
            [host("a", Some(1)), host("b", Some(2))]
        );
        assert_eq!(
            hosts("postgres:///d?hostaddr=::1,10.0.0.1"),
            [host("::1", None), host("10.0.0.1", None)]
        );
        assert_eq!(hosts("postgres://:7/d"), []);
        assert_eq!(settings("postgres://:7"), [("port", "7".to_owned())]);
        for wrong in [
            "postgres://a,,b/d",
            "postgres://a:0/d",
            "postgres://a:x/d",
            "postgres://a:65536/d",
            "postgres:///d?host=a,b,c&port=1,2",
            "postgres://[::1/d",
            "postgres://[::1]x/d",
            "postgres://::1/d",
            "postgres:///d?hostaddr=name",
        ] {
            assert!(server_url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_a_host_is_a_setting() {
        assert_eq!(
            settings(
                "postgres://us%40er:p%3aw+x#y@h/da%2Fta?sslmode=verify-full&connect_timeout=5&application_name=x&keepalives=0\
                 &sslrootcert=system&options=-c%20x%3Dy&passfile=/p&service=s&pooler=session"
            ),
            [
                ("connect-timeout", "5"),
                ("database", "da/ta"),
                ("options", "-c x=y"),
                ("passfile", "/p"),
                ("password", "p:w+x#y"),
                ("pooler", "session"),
                ("service", "s"),
                ("ssl-ca", "system"),
                ("ssl-mode", "verify-full"),
                ("user", "us@er"),
            ]
            .map(|(name, value)| (name, value.to_owned()))
        );
        let database = |name: &str| vec![("database", name.to_owned())];
        assert_eq!(settings("postgres://h/a?dbname=b&dbname=c"), database("c"));
        assert_eq!(settings("postgres://h/a?connect_timeout=0"), database("a"));
        assert_eq!(
            settings("postgres://h?ssl=true"),
            [("ssl-mode", "require".to_owned())]
        );
        assert_eq!(
            settings("postgres://h?requiressl=1"),
            [("ssl-mode", "require".to_owned())]
        );
        for wrong in [
            "postgres://h/d?x=1",
            "postgres://h/d?ssl=false",
            "postgres://h/d?socket=/x",
            "postgres://h/d?sslmode=required",
            "postgres://h/d?sslmode=a=b",
            "postgres://h/d?sslmode",
            "postgres://h/d?connect_timeout=1.5",
            "postgres://h/%00",
            "postgres://h/%4",
            "postgres://h/a/b",
        ] {
            assert!(server_url::parse(wrong).is_err(), "{wrong}");
        }
    }
}
