//! The connection settings, which all subcommands have. There is no `--password`, because everybody can read a command line.

use super::setting::{Files, SETTING, Setting, Takes};

/// The common fields of the rows below.
const CONNECTION: Setting = Setting {
    heading: Some("Connection"),
    ..SETTING
};

/// How to connect to a server.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "url",
        takes: Takes::Value("URL"),
        variable: Some("DBLOCK_URL"),
        help: "Everything in one: mysql://user@host1,host2:3307/ or mysql://user@localhost?socket=/run/x.sock; for PostgreSQL \
               postgres://user@host1,host2:5433/database?sslmode=verify-full, with the parameters of libpq",
        ..CONNECTION
    },
    Setting {
        name: "host",
        takes: Takes::Value("HOST"),
        variable: Some("DBLOCK_HOST"),
        files: Files::All,
        help: "The server's name or address; localhost means its local socket. PostgreSQL: also several, or the folder of a local \
               socket; localhost means TCP",
        ..CONNECTION
    },
    Setting {
        name: "port",
        takes: Takes::Value("PORT"),
        variable: Some("DBLOCK_PORT"),
        files: Files::All,
        default: Some("3306"),
        help: "The server's TCP port; PostgreSQL's default is 5432",
        ..CONNECTION
    },
    Setting {
        name: "user",
        takes: Takes::Value("USER"),
        variable: Some("DBLOCK_USER"),
        files: Files::All,
        default: Some("the name of the OS user"),
        help: "The account on the server",
        ..CONNECTION
    },
    Setting {
        name: "socket",
        takes: Takes::Value("PATH"),
        variable: Some("DBLOCK_SOCKET"),
        files: Files::All,
        help: "The server's local socket; PostgreSQL: or its folder",
        ..CONNECTION
    },
    Setting {
        name: "protocol",
        takes: Takes::Value("tcp|socket"),
        variable: Some("DBLOCK_PROTOCOL"),
        files: Files::All,
        help: "How to reach localhost; by its socket if not given",
        ..CONNECTION
    },
    Setting {
        name: "password-file",
        takes: Takes::Value("FILE"),
        help: "A file whose first line is the password [env, with the password itself: DBLOCK_PASSWORD, \
               MYSQL_PWD; PostgreSQL: PGPASSWORD, and then the file ~/.pgpass]",
        ..CONNECTION
    },
    Setting {
        name: "database",
        takes: Takes::Value("NAME"),
        variable: Some("DBLOCK_DATABASE"),
        default: Some("dblock"),
        help: "The database with dblock's tables; the path of the URL names it, too. PostgreSQL: the database whose locks dblock uses, \
               without a default",
        ..CONNECTION
    },
    Setting {
        name: "schema",
        takes: Takes::Value("NAME"),
        variable: Some("DBLOCK_SCHEMA"),
        default: Some("dblock"),
        help: "On PostgreSQL: the schema with dblock's tables, in the database that is connected to",
        ..CONNECTION
    },
    Setting {
        name: "defaults-file",
        takes: Takes::Value("FILE"),
        files: Files::Never,
        help: "Read only this MySQL option file",
        ..CONNECTION
    },
    Setting {
        name: "defaults-extra-file",
        takes: Takes::Value("FILE"),
        files: Files::Never,
        help: "Also read this option file, before ~/.my.cnf",
        ..CONNECTION
    },
    Setting {
        name: "defaults-group-suffix",
        takes: Takes::Value("TEXT"),
        variable: Some("MYSQL_GROUP_SUFFIX"),
        files: Files::Never,
        help: "Also read the groups [client…] and [dblock…] whose names end in this",
        ..CONNECTION
    },
    Setting {
        name: "no-defaults",
        files: Files::Never,
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
        help: "As in the mysql client. preferred: TLS if the server offers it. required: always TLS. verify-ca: also check \
               that a trusted CA signed the server's certificate. verify-identity: also check that the certificate is for \
               the host's name or address. With --ssl-ca the default is verify-ca. PostgreSQL: also libpq's \
               words, with libpq's meaning",
        ..CONNECTION
    },
    Setting {
        name: "ssl-ca",
        takes: Takes::Value("FILE"),
        variable: Some("DBLOCK_SSL_CA"),
        files: Files::All,
        help: "A PEM file with the certificates of the CAs to trust instead of the system's",
        ..CONNECTION
    },
    Setting {
        name: "ssl-cert",
        takes: Takes::Value("FILE"),
        variable: Some("DBLOCK_SSL_CERT"),
        files: Files::All,
        help: "A PEM file with dblock's own certificate, followed by the intermediate ones",
        ..CONNECTION
    },
    Setting {
        name: "ssl-key",
        takes: Takes::Value("FILE"),
        variable: Some("DBLOCK_SSL_KEY"),
        files: Files::All,
        help: "A PEM file with the private key of that certificate",
        ..CONNECTION
    },
    Setting {
        name: "server-public-key-path",
        takes: Takes::Value("FILE"),
        variable: Some("DBLOCK_SERVER_PUBLIC_KEY_PATH"),
        files: Files::All,
        help: "A PEM file with the server's public key, which encrypts the password when there is no TLS. Without it dblock trusts the key that the server sends",
        ..CONNECTION
    },
    Setting {
        name: "connect-timeout",
        takes: Takes::Value("DURATION"),
        variable: Some("DBLOCK_CONNECT_TIMEOUT"),
        files: Files::All,
        default: Some("10s"),
        help: "How long to try to reach a server. It covers resolving names, trying hosts and logging in",
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
