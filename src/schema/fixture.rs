//! For tests: empty tables on a real server.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

use super::{Installer, Tables, prepare};
use crate::db::{
    ConnectOptions, Connector, Kind, Password, Session, SslMode, Target, TlsFiles, TlsOptions,
};

/// A server for these tests alone, which ends with this process.
struct Server {
    socket: PathBuf,
    _script: Child,
}

fn server(kind: &str) -> &'static Server {
    static MARIADB: LazyLock<Server> = LazyLock::new(|| start("mariadb"));
    static MYSQL: LazyLock<Server> = LazyLock::new(|| start("mysql"));
    if kind == "mariadb" { &MARIADB } else { &MYSQL }
}

fn start(kind: &str) -> Server {
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/script/server"))
        .arg(kind)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script/server starts");
    let stdout = BufReader::new(script.stdout.take().unwrap());
    let lines: Vec<String> = stdout
        .lines()
        .map_while(Result::ok)
        .take_while(|line| line != "ready")
        .collect();
    let socket = lines.iter().find_map(|line| line.strip_prefix("socket="));
    let socket = socket
        .unwrap_or_else(|| panic!("no server: {lines:?}"))
        .into();
    Server {
        socket,
        _script: script,
    }
}

/// Empty tables.
pub struct Fixture {
    /// A session that is prepared for the tables.
    pub session: Session,
    /// Another client.
    pub client: Conn,
    /// The tables.
    pub tables: Tables,
}

impl Fixture {
    /// New tables in a database of this name, on a server of this kind, `mariadb` or `mysql`.
    pub fn new(kind: &str, database: &str) -> Self {
        let socket = &server(kind).socket;
        let options = OptsBuilder::new()
            .socket(Some(socket.display().to_string()))
            .user(Some("root"));
        let mut client = Conn::new(options).unwrap();
        let drop = format!("DROP DATABASE IF EXISTS {database}");
        client.query_drop(drop).unwrap();
        let installer = Installer {
            tables: Tables::new(Kind::MySql, database),
            keep: None,
            only_checks: false,
        };
        for statement in installer.script("''").split(";\n") {
            if !statement.contains("GRANT") && !statement.trim().is_empty() {
                client.query_drop(statement).unwrap();
            }
        }
        let options = ConnectOptions {
            kind: Kind::MySql,
            postgres: crate::db::PostgresOptions::default(),
            targets: vec![Target::Socket(socket.clone())],
            user: Some("root".to_owned()),
            password: Password::None,
            tls: TlsOptions {
                mode: SslMode::Disabled,
                ca: None,
                identity: None,
                server_public_key: None,
                sends_name: false,
                names: TlsFiles::OPTIONS,
            },
            connect_timeout: Duration::from_secs(10),
            database: database.to_owned(),
            schema: String::new(),
        };
        let connector = Connector::new(
            &options,
            [].into(),
            Duration::from_secs(300),
            Rc::new(|_, _| {}),
        );
        let (session, _) = connector.unwrap().connect(prepare).unwrap();
        client.query_drop(format!("USE {database}")).unwrap();
        Self {
            session,
            client,
            tables: Tables::new(Kind::MySql, database),
        }
    }
}
