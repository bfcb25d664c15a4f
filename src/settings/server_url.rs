//! `mysql://[user[:password]@]host[:port][,host[:port]]…[/[database]][?option=value&…]`, with percent-encoding. No error quotes a part
//! that may be a password. URLs of PostgreSQL are libpq's: `libpq::url` takes them apart.

use std::fmt;

use percent_encoding::percent_decode_str;
use url::Url;
use zeroize::Zeroizing;

use super::libpq;
use crate::db::Kind;

/// The options after the `?`.
const OPTIONS: [&str; 6] = [
    "socket", "protocol", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key",
];

/// A URL's parts.
pub struct Parts {
    /// The kind of server that the scheme names.
    pub kind: Kind,
    /// The hosts, in order; `None`: none is named.
    pub hosts: Option<Vec<Host>>,
    /// The settings in it, including user and password.
    pub settings: Vec<(&'static str, Zeroizing<String>)>,
}

/// A host, with the port if the URL has one.
#[derive(Debug, Clone)]
pub struct Host {
    /// The name or address; an IPv6 address has no brackets.
    pub name: String,
    /// The port, never 0.
    pub port: Option<u16>,
}

/// Hosts as in a URL.
pub fn shown(hosts: &[Host]) -> String {
    let shown = hosts.iter().map(|host| {
        let name = if host.name.contains(':') {
            format!("[{}]", host.name)
        } else {
            host.name.clone()
        };
        host.port
            .map_or(name.clone(), |port| format!("{name}:{port}"))
    });
    shown.collect::<Vec<_>>().join(",")
}

/// The kind of server that the scheme of a URL names; `None`: the scheme is unknown.
pub fn kind(url: &[u8]) -> Option<Kind> {
    let schemes: [(&[u8], Kind); 3] = [
        (b"mysql://", Kind::MySql),
        (b"postgres://", Kind::Postgres),
        (b"postgresql://", Kind::Postgres),
    ];
    let found = schemes
        .into_iter()
        .find(|(scheme, _)| url.starts_with(scheme));
    found.map(|(_, kind)| kind)
}

/// Splits a URL into its parts.
///
/// # Errors
/// What is wrong with it, without quoting it.
pub fn parse(text: &str) -> Result<Parts, String> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("a URL begins with mysql:// or postgres://")?;
    match kind(text.as_bytes()) {
        Some(Kind::MySql) => {}
        Some(Kind::Postgres) => return libpq::url::parse(rest, text),
        None => {
            return Err(format!(
                "the scheme{} is unknown; a URL begins with mysql:// or postgres://",
                quoted(scheme, text)
            ));
        }
    }
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
            .ok_or_else(|| format!("the URL parameter{} is unknown", quoted(&key, text)))?;
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

/// The password in a URL.
pub fn password_in(text: &str) -> Option<Zeroizing<String>> {
    let mut options = parse(text).ok()?.settings.into_iter();
    options
        .find(|(option, _)| *option == "password")
        .map(|(_, password)| password)
}

/// A part of a URL without its percent-encoding.
pub fn decoded(text: &str, what: &str) -> Result<Zeroizing<String>, String> {
    let is_encoded = |code: &str| {
        let code = code.as_bytes().get(..2);
        code.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_encoded) {
        return Err(format!(
            "a % in the {what} of the URL must be written as %25"
        ));
    }
    let text = percent_decode_str(text).decode_utf8();
    match text {
        Ok(text) if text.contains('\0') => Err(format!("the {what} in the URL has a byte 0")),
        Ok(text) => Ok(Zeroizing::new(text.into_owned())),
        Err(_) => Err(format!("the {what} in the URL is not UTF-8")),
    }
}

/// ` "word"`, or nothing if the word may be part of a password. If a password contains an unencoded `/`, `?` or `#`, the rest of it
/// follows there, with its `@`.
pub fn quoted(word: &str, url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let tail = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
    let harmless = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if harmless && !tail.contains('@') {
        format!(" {word:?}")
    } else {
        String::new()
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A password, encoded for a URL.
    fn encoded(text: &str) -> String {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    }

    proptest! {
        #[test]
        fn no_error_shows_the_password(
            before in "(mysql|postgres|postgresql|pg|)(://|:|)[a-z%@/?#,\\[\\]]{0,6}",
            after in "[a-z0-9@:%/?#,&=.\\[\\]]{0,20}|[@/?]?(port|sslmode|host|hostaddr|connect_timeout|x)=[a-z0-9@:%/?#,&=]{0,9}",
        ) {
            for url in [
                format!("{before}:S3CRET@{after}"),
                format!("mysql://u:S3CRET{after}@h{before}"),
                format!("postgres://u:S3CRET{after}@h{before}"),
                format!("postgres://u:{after}S3CRET@h{before}"),
                format!("postgres://u@h/d?{after}password=S3CRET"),
                format!("postgres://u@h/d?password=S3CRET&{after}"),
            ] {
                if let Err(error) = parse(&url) {
                    prop_assert!(!error.contains("S3CRET"), "{}: {}", url, error);
                }
            }
        }

        #[test]
        fn any_text_is_taken_apart_or_refused(text in "\\PC{0,60}|(mysql|postgres)://.{0,60}") {
            if let Ok(parts) = parse(&text) {
                for host in parts.hosts.into_iter().flatten() {
                    prop_assert!(!host.name.is_empty() && host.port != Some(0));
                }
            }
        }

        #[test]
        fn what_is_encoded_survives_the_round_trip(user in "[^\\x00\\n]{1,20}", password in "[^\\x00]{0,20}", port in 1u16..) {
            let url = format!("mysql://{}:{}@db-1.example.com:{port}/", encoded(&user), encoded(&password));
            let parts = parse(&url).unwrap();
            prop_assert_eq!(parts.settings, [("user", user.into()), ("password", password.clone().into())]);
            prop_assert_eq!(password_in(&url).map(|found| found.to_string()), Some(password));
            let host = &parts.hosts.unwrap()[0];
            prop_assert_eq!((host.name.as_str(), host.port), ("db-1.example.com", Some(port)));
        }
    }

    #[test]
    fn a_url_is_taken_apart() {
        let parts = parse(
            "mysql://us%40er:p%3aw@db1,[::1]:3307,db3:1/?socket=/run/x.sock&ssl-mode=required",
        )
        .unwrap();
        let hosts: Vec<_> = parts
            .hosts
            .unwrap()
            .into_iter()
            .map(|host| (host.name, host.port))
            .collect();
        assert_eq!(
            hosts,
            [
                ("db1".to_owned(), None),
                ("::1".to_owned(), Some(3307)),
                ("db3".to_owned(), Some(1))
            ]
        );
        let options = [
            ("user", "us@er"),
            ("password", "p:w"),
            ("socket", "/run/x.sock"),
            ("ssl-mode", "required"),
        ];
        assert_eq!(
            parts.settings,
            options.map(|(option, value)| (option, value.to_owned().into()))
        );
    }

    #[test]
    fn an_error_in_a_url_does_not_show_its_password() {
        for wrong in [
            "mysql://u:secret@h:70000/",
            "mysql://u:secret@h/a/b",
            "mysql://u:secret@h?x=1",
            "pg://u:secret@h",
            "u:secret@h",
            "mysql://u:secret@h:0",
            "mysql://u:secret@a,,b",
            "mysql://u:secret@h#f",
            "mysql://u:/secret@h",
            "mysql://u:1?secret@h",
            "mysql://u:1#secret@h",
            "u:secret://h",
            "mysql://u:1?secret&x@h",
            "postgres://u:secret@h:70000/",
            "postgres://u:secret@h?x=1",
            "postgres://u:/secret@h",
            "postgres://u:1/secret@h",
            "postgres://u:1/d?secret@h",
            "postgres://u:1/d?sslmode=secret&user=x@h",
            "postgres://u:secret/@h",
            "postgres://u:1@secret@h",
            "postgres://u:1@secret/d@h",
            "postgres://u@h/d?password=secret&x=1",
            "postgres://u@h/d?password=secret&port=x",
        ] {
            let error = parse(wrong).err().expect(wrong);
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
