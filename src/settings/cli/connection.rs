//! The settings of the connection with a server, which all subcommands have. There is no `--password`: a command line is public.

use super::setting::{Files, SETTING, Setting, Takes};

/// What the rows here have in common.
const CONNECTION: Setting = Setting {
    heading: Some("Connection"),
    ..SETTING
};

/// How a server is reached.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "url",
        takes: Takes::Value("URL"),
        variable: Some("DBLOCK_URL"),
        help: "All in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock",
        ..CONNECTION
    },
    Setting {
        name: "host",
        takes: Takes::Value("HOST"),
        variable: Some("DBLOCK_HOST"),
        files: Files::All,
        help: "The server's name or address; localhost means its local socket",
        ..CONNECTION
    },
    Setting {
        name: "port",
        takes: Takes::Value("PORT"),
        variable: Some("DBLOCK_PORT"),
        files: Files::All,
        default: Some("3306"),
        help: "The server's TCP port",
        ..CONNECTION
    },
    Setting {
        name: "user",
        takes: Takes::Value("USER"),
        variable: Some("DBLOCK_USER"),
        files: Files::All,
        default: Some("the name of the OS user"),
        help: "The account",
        ..CONNECTION
    },
    Setting {
        name: "socket",
        takes: Takes::Value("PATH"),
        variable: Some("DBLOCK_SOCKET"),
        files: Files::All,
        help: "The server's local socket",
        ..CONNECTION
    },
    Setting {
        name: "protocol",
        takes: Takes::Value("tcp|socket"),
        variable: Some("DBLOCK_PROTOCOL"),
        files: Files::All,
        help: "How localhost is reached; by its socket if not given",
        ..CONNECTION
    },
    Setting {
        name: "password-file",
        takes: Takes::Value("FILE"),
        help: "A file whose first line is the password [env, the password itself: DBLOCK_PASSWORD, MYSQL_PWD]",
        ..CONNECTION
    },
    Setting {
        name: "database",
        takes: Takes::Value("NAME"),
        variable: Some("DBLOCK_DATABASE"),
        default: Some("dblock"),
        help: "The database with dblock's tables, for what needs them; also the path of the URL",
        ..CONNECTION
    },
    Setting {
        name: "defaults-file",
        takes: Takes::Value("FILE"),
        files: Files::No,
        help: "Read only this MySQL option file",
        ..CONNECTION
    },
    Setting {
        name: "defaults-extra-file",
        takes: Takes::Value("FILE"),
        files: Files::No,
        help: "Also read this option file, before ~/.my.cnf",
        ..CONNECTION
    },
    Setting {
        name: "defaults-group-suffix",
        takes: Takes::Value("TEXT"),
        variable: Some("MYSQL_GROUP_SUFFIX"),
        files: Files::No,
        help: "Also read the groups [client…] and [dblock…] whose names end in this",
        ..CONNECTION
    },
    Setting {
        name: "no-defaults",
        files: Files::No,
        help: "Read no option file",
        conflicts: &["defaults-file", "defaults-extra-file"],
        ..CONNECTION
    },
    Setting {
        name: "ssl-mode",
        takes: Takes::Value("disabled|preferred|required|verify-ca|verify-identity"),
        variable: Some("DBLOCK_SSL_MODE"),
        files: Files::All,
        default: Some("preferred"),
        help: "Whether the connection is encrypted, as in the mysql client: if the server can; always; and only to a \
               server whose certificate is signed by a trusted CA; and only if it is also for the host's name or \
               address. Without it --ssl-ca means verify-ca",
        ..CONNECTION
    },
    Setting {
        name: "ssl-ca",
        takes: Takes::Value("FILE"),
        variable: Some("DBLOCK_SSL_CA"),
        files: Files::All,
        help: "A file with the certificates of the CAs to trust, in PEM, in place of the system's",
        ..CONNECTION
    },
    Setting {
        name: "ssl-cert",
        takes: Takes::Value("FILE"),
        variable: Some("DBLOCK_SSL_CERT"),
        files: Files::All,
        help: "A file with dblock's own certificate, and those between it and its CA, in PEM",
        ..CONNECTION
    },
    Setting {
        name: "ssl-key",
        takes: Takes::Value("FILE"),
        variable: Some("DBLOCK_SSL_KEY"),
        files: Files::All,
        help: "A file with the private key of that certificate, in PEM",
        ..CONNECTION
    },
    Setting {
        name: "server-public-key-path",
        takes: Takes::Value("FILE"),
        variable: Some("DBLOCK_SERVER_PUBLIC_KEY_PATH"),
        files: Files::All,
        help: "A file with the server's public key, in PEM, for a password that travels without TLS; without it the key that the server sends is trusted",
        ..CONNECTION
    },
    Setting {
        name: "connect-timeout",
        takes: Takes::Value("DURATION"),
        variable: Some("DBLOCK_CONNECT_TIMEOUT"),
        files: Files::All,
        default: Some("10s"),
        help: "How long to try to reach a server: resolve names, try hosts, log in",
        ..CONNECTION
    },
    Setting {
        name: "password",
        takes: Takes::Secret,
        variable: Some("DBLOCK_PASSWORD"),
        files: Files::All,
        ..CONNECTION
    },
];
