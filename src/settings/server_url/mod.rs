//! The URL of a server. No error quotes a part that may be a password.

pub mod hosts;
mod mysql;
pub mod parameters;
mod part;
mod postgres;

use zeroize::Zeroizing;

use super::host::Host;
use crate::db::Kind;
use part::quoted;

/// A URL's parts.
pub struct Parts {
    /// The kind of server that the scheme names.
    pub kind: Kind,
    /// The hosts, in order; `None`: none is named.
    pub hosts: Option<Vec<Host>>,
    /// The settings in it, including user and password.
    pub settings: Vec<(&'static str, Zeroizing<String>)>,
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
        Some(Kind::MySql) => mysql::parse(rest, text),
        Some(Kind::Postgres) => postgres::parse(rest, text),
        None => Err(format!(
            "the scheme{} is unknown; a URL begins with mysql:// or postgres://",
            quoted(scheme, text)
        )),
    }
}

/// The password in a URL.
pub fn password_in(text: &str) -> Option<Zeroizing<String>> {
    let mut options = parse(text).ok()?.settings.into_iter();
    options
        .find(|(option, _)| *option == "password")
        .map(|(_, password)| password)
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
