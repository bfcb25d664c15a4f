//! The settings of PostgreSQL's users: read as `psql` reads them, and what dblock makes of them. `psql` connects to closed ports, which it
//! names, or to a server of these tests that only asks who is there.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use tempfile::TempDir;

use crate::harness::{Dblock, Output};

const USAGE: i32 = 64;
const CONFIGURATION: i32 = 78;

/// The codes of the first message: a request for TLS or GSSAPI, which is refused.
const REQUESTS: [u32; 2] = [80_877_103, 80_877_104];
const TLS: u32 = REQUESTS[0];

/// A home with these files, which only their owner can read. `FOLDER` in them is the home.
fn home(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a scratch folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("in the folder")).unwrap();
        fs::write(&path, in_home(text, folder.path())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    folder
}

fn in_home(text: &str, home: &Path) -> String {
    text.replace("FOLDER", &home.display().to_string())
}

/// `dblock config --json` with this URL, where there is one, and these variables.
fn config(home: &Path, url: &str, variables: &[(&str, &str)]) -> Dblock {
    let bare = Dblock::bare()
        .args(["config", "--json"])
        .env_remove("DBLOCK_SSL_MODE")
        .env("HOME", home)
        .env("PGSYSCONFDIR", home.join("etc"));
    let with_url = match url {
        "" => bare,
        url => bare.env("DBLOCK_URL", in_home(url, home)),
    };
    let variables = variables.iter();
    variables.fold(with_url, |dblock, (name, value)| {
        dblock.env(name, in_home(value, home))
    })
}

/// The value of a setting and where it comes from.
#[track_caller]
fn setting(output: &Output, option: &str) -> (Option<String>, String) {
    let settings = output.json()["settings"]
        .as_array()
        .expect("settings")
        .clone();
    let setting = settings.iter().find(|setting| setting["setting"] == option);
    let setting = setting.unwrap_or_else(|| panic!("no {option}: {output:#?}"));
    let text = |what: &str| setting[what].as_str().map(str::to_owned);
    (text("value"), text("from").expect("a place"))
}

#[track_caller]
fn value(output: &Output, option: &str) -> Option<String> {
    setting(output, option).0
}

/// `psql` itself, without what Debian puts around it. `FOLDER` in the URL and in the variables is the home.
pub fn psql(home: &Path, url: &str, variables: &[(&str, &str)]) -> Command {
    let installed = fs::read_dir("/usr/lib/postgresql").ok();
    let mut installed = installed.into_iter().flatten().flatten();
    let own = installed.find_map(|entry| {
        let path = entry.path().join("bin/psql");
        path.exists().then_some(path)
    });
    let mut command = Command::new(own.unwrap_or_else(|| "psql".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command
        .args(["--no-psqlrc", "--no-password", "--command="])
        .env("HOME", home)
        .env("PGSYSCONFDIR", home.join("etc"))
        .env("LC_ALL", "C")
        .env("PGGSSENCMODE", "disable");
    if !url.is_empty() {
        command.arg(in_home(url, home));
    }
    for (name, value) in variables {
        command.env(name, in_home(value, home));
    }
    command
}

/// The servers that `psql` tries, as dblock shows them, in their order. All of them are closed.
fn tried_by_psql(home: &Path, url: &str, variables: &[(&str, &str)]) -> Result<String, String> {
    let output = psql(home, url, variables).output().expect("psql");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut servers = Vec::new();
    for line in text.lines() {
        let quoted = |after: &str| Some(line.split_once(after)?.1.split('"').next()?.to_owned());
        if let Some(path) = quoted("connection to server on socket \"") {
            servers.push(path);
        } else if let Some(host) = quoted("connection to server at \"") {
            let port = line.split_once(", port ").expect("a port").1;
            let port = port.split(' ').next().expect("a number");
            servers.push(if host.contains(':') {
                format!("[{host}]:{port}")
            } else {
                format!("{host}:{port}")
            });
        }
    }
    // It names the server also where it does not like how to connect.
    if servers.is_empty() || text.contains("invalid ") {
        return Err(text);
    }
    Ok(servers.join(", "))
}

/// `psql` and dblock mean the same servers, or both mean none.
#[track_caller]
fn both_mean_the_same_servers(home: &Path, url: &str, variables: &[(&str, &str)]) {
    let theirs = tried_by_psql(home, url, variables);
    let ours = config(home, url, variables).output();
    match theirs {
        Ok(servers) => {
            assert_eq!(
                value(&ours, "servers"),
                Some(servers),
                "{url} {variables:?}"
            );
        }
        Err(theirs) => assert!(
            matches!(ours.code, Some(USAGE | CONFIGURATION)),
            "{url} {variables:?}: psql says {theirs}: {ours:#?}"
        ),
    }
}

#[test]
fn a_url_means_the_servers_that_it_means_to_psql() {
    let home = home(&[]);
    for url in [
        "postgres://127.0.0.2:1/d",
        "postgresql://127.0.0.2:1/d",
        "postgres://u@127.0.0.2/d",
        "postgres://u:p@127.0.0.2:1,127.0.0.3:2,[::1]:3/d",
        "postgres://127.0.0.2:1,127.0.0.3/d",
        "postgres://127.0.0.2,127.0.0.3/d?port=1",
        "postgres://127.0.0.2,127.0.0.3/d?port=1,2",
        "postgres://127.0.0.2,127.0.0.3/d?port=1,2,3",
        "postgres://127.0.0.2:9/d?host=127.0.0.3",
        "postgres://127.0.0.2:9/d?host=127.0.0.3&port=4",
        "postgres://127.0.0.2:9/d?port=4&port=5",
        "postgres:///d?host=FOLDER",
        "postgres:///d?host=FOLDER,127.0.0.2&port=7",
        "postgres://u:p@%2Fnowhere%2Fsocket:8/d",
        "postgres://%2Fnowhere%2Fsocket,127.0.0.4:8/d",
        "postgres://:8/d?host=/nowhere",
        "postgres:///d?hostaddr=127.0.0.9&port=1",
        "postgres://localhost:1/d",
        "postgres://u:p%40x@127.0.0.2:1/d",
        "postgres://u:p?x#y@127.0.0.2:1/d",
        "postgres://127.0.0.2:0/d",
        "postgres://127.0.0.2:x/d",
        "postgres://127.0.0.2:65536/d",
        "postgres://[127.0.0.2/d",
        "postgres://[::1]x/d",
        "postgres://127.0.0.2:1/d?nonsense=1",
        "postgres://127.0.0.2:1/d?host",
        "postgres://127.0.0.2:1/d?port=1=2",
        "postgres://127.0.0.2:1/%zz",
        "postgres://127.0.0.2:1/d?sslmode=sometimes",
        "postgres://127.0.0.2:1/d?connect_timeout=soon",
        "postgres://127.0.0.2:1/d?channel_binding=perhaps",
        "postgres://127.0.0.2:1/d?target_session_attrs=any&application_name=x&keepalives=1&client_encoding=utf8",
    ] {
        // psql and dblock each say which they try, also where TLS would be used.
        if url.contains("localhost") {
            let ours = config(home.path(), url, &[]).output();
            assert_eq!(value(&ours, "servers").as_deref(), Some("localhost:1"));
            let theirs = tried_by_psql(home.path(), url, &[]).unwrap();
            assert!(theirs.contains("localhost:1"), "{theirs}");
            continue;
        }
        both_mean_the_same_servers(home.path(), url, &[]);
    }
}

#[test]
fn variables_and_services_mean_the_servers_that_they_mean_to_psql() {
    let services = "[other]\nhost=127.0.0.66\n[a]\nhost=127.0.0.5\nport=4\ndbname=d\n# comment\n[b]\nhost=127.0.0.6,/nowhere\ndbname=d\n\
        [b]\nhost=127.0.0.7\n[c]\n  port=3  \ndbname=d\n[bad]\nhost = 127.0.0.1\n[bare]\nhost\n[nested]\nservice=a\n[x]\nnonsense=1\n";
    let home = home(&[
        (".pg_service.conf", services),
        (
            "etc/pg_service.conf",
            "[system]\nhost=127.0.0.8\ndbname=d\n",
        ),
        ("other.conf", "[a]\nhost=127.0.0.9\ndbname=d\n"),
    ]);
    let d = ("PGDATABASE", "d");
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("", &[d, ("PGHOST", "127.0.0.2")]),
        ("", &[d, ("PGHOST", "127.0.0.2"), ("PGPORT", "1")]),
        (
            "",
            &[
                d,
                ("PGHOST", "127.0.0.2,127.0.0.3,/nowhere"),
                ("PGPORT", "1,2,3"),
            ],
        ),
        (
            "",
            &[d, ("PGHOST", "127.0.0.2,127.0.0.3"), ("PGPORT", "1,")],
        ),
        (
            "",
            &[d, ("PGHOST", "127.0.0.2,127.0.0.3"), ("PGPORT", "1,2,3")],
        ),
        ("", &[d, ("PGHOST", "FOLDER"), ("PGPORT", "7")]),
        ("", &[d, ("PGHOSTADDR", "127.0.0.2"), ("PGPORT", "7")]),
        ("", &[("PGSERVICE", "a")]),
        (
            "",
            &[("PGSERVICE", "a"), ("PGHOST", "127.0.0.2"), ("PGPORT", "1")],
        ),
        ("", &[("PGSERVICE", "b"), ("PGPORT", "1")]),
        ("", &[("PGSERVICE", "c"), ("PGHOST", "127.0.0.2")]),
        ("", &[("PGSERVICE", "system")]),
        // A home that nobody can look into, as it is no folder.
        (
            "",
            &[("PGSERVICE", "system"), ("HOME", "FOLDER/other.conf")],
        ),
        (
            "",
            &[("PGSERVICE", "a"), ("PGSERVICEFILE", "FOLDER/other.conf")],
        ),
        (
            "",
            &[
                ("PGSERVICE", "system"),
                ("PGSERVICEFILE", "FOLDER/other.conf"),
            ],
        ),
        (
            "",
            &[("PGSERVICE", "a"), ("PGSERVICEFILE", "FOLDER/none.conf")],
        ),
        (
            "",
            &[("PGSERVICE", "system"), ("PGSERVICEFILE", "none.conf")],
        ),
        ("", &[("PGSERVICE", "none")]),
        ("", &[("PGSERVICE", "bad")]),
        ("", &[("PGSERVICE", "bare")]),
        ("", &[("PGSERVICE", "nested")]),
        ("", &[("PGSERVICE", "x")]),
        (
            "postgres:///?service=a",
            &[("PGHOST", "127.0.0.2"), ("PGPORT", "1")],
        ),
        ("postgres:///?service=a", &[("PGSERVICE", "b")]),
        ("postgres://127.0.0.3/?service=a", &[]),
        ("postgres://127.0.0.3:9/?service=a", &[]),
        ("postgres://127.0.0.3/?service=c", &[("PGPORT", "1")]),
        (
            "postgres://127.0.0.3/d",
            &[("PGPORT", "1"), ("PGHOST", "127.0.0.2")],
        ),
        ("postgres://127.0.0.3,127.0.0.4:7/d", &[("PGPORT", "1")]),
        ("postgres:///d", &[("PGPORT", "1"), ("PGHOST", "127.0.0.2")]),
        (
            "postgres://:6/d",
            &[("PGPORT", "1"), ("PGHOST", "127.0.0.2")],
        ),
    ];
    for (url, variables) in cases {
        both_mean_the_same_servers(home.path(), url, variables);
    }
}

/// Who logs in, as a server sees it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Client {
    user: String,
    database: String,
    password: Option<String>,
    asked_for_tls: bool,
}

/// What a client named `last` sends first.
const LAST: &[u8] = b"\0\0\0\x13\0\x03\0\0user\0last\0\0";

/// A server that asks for a password and then hangs up.
struct Doorman {
    port: u16,
    socket: PathBuf,
    clients: Receiver<Client>,
}

impl Doorman {
    /// At a port of 127.0.0.1, and at the socket of that port in this folder.
    fn start(folder: &Path) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let socket = folder.join(format!(".s.PGSQL.{port}"));
        let unix = UnixListener::bind(&socket).unwrap();
        let (seen, clients) = channel();
        let also_seen = seen.clone();
        thread::spawn(move || {
            for peer in tcp.incoming().flatten() {
                greet(peer, &seen);
            }
        });
        thread::spawn(move || {
            for peer in unix.incoming().flatten() {
                greet(peer, &also_seen);
            }
        });
        Self {
            port,
            socket,
            clients,
        }
    }

    /// Whom `psql` logs in as; `None`: it does not log in.
    fn client(&self, home: &Path, url: &str, variables: &[(&str, &str)]) -> Option<Client> {
        let output = psql(home, url, variables).output().expect("psql");
        assert!(!output.status.success());
        // Each listener serves one after another: whoever comes now comes after psql.
        let mut tcp = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        tcp.write_all(LAST).unwrap();
        drop(tcp);
        let mut unix = UnixStream::connect(&self.socket).unwrap();
        unix.write_all(LAST).unwrap();
        drop(unix);
        let (mut found, mut open) = (None, 2);
        while open > 0 {
            match self.clients.recv().unwrap() {
                client if client.user == "last" => open -= 1,
                // The last one: psql asks for TLS on a connection of its own.
                client => found = Some(client),
            }
        }
        found
    }
}

impl Drop for Doorman {
    /// The folder may stay.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

/// Reads who is there, and reports it once the client has answered or hung up.
fn greet(mut peer: impl Read + Write, seen: &Sender<Client>) {
    let mut client = Client::default();
    let startup = loop {
        let Some(message) = message(&mut peer) else {
            return;
        };
        let code = u32::from_be_bytes(message[..4].try_into().unwrap());
        if !REQUESTS.contains(&code) {
            break message;
        }
        client.asked_for_tls |= code == TLS;
        if peer.write_all(b"N").is_err() {
            return;
        }
    };
    let words: Vec<_> = startup[4..].split(|&byte| byte == 0).collect();
    for pair in words.chunks_exact(2) {
        let value = String::from_utf8_lossy(pair[1]).into_owned();
        match pair[0] {
            b"user" => client.user = value,
            b"database" => client.database = value,
            _ => {}
        }
    }
    // The password, in clear text.
    let asked = peer.write_all(b"R\0\0\0\x08\0\0\0\x03");
    let mut kind = [0];
    if asked.is_ok() && peer.read_exact(&mut kind).is_ok() && kind == *b"p" {
        let password = message(&mut peer).map(|text| text[..text.len() - 1].to_vec());
        client.password = password.map(|text| String::from_utf8_lossy(&text).into_owned());
    }
    let _ = seen.send(client);
}

/// A message without its length.
fn message(peer: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    peer.read_exact(&mut length).ok()?;
    let mut message = vec![0; (u32::from_be_bytes(length) as usize).checked_sub(4)?];
    peer.read_exact(&mut message).ok()?;
    Some(message)
}

/// `psql` and dblock log in with the same names and the same password. Each password is the place that dblock shows, without the home.
#[track_caller]
fn both_log_in_alike(
    doorman: &Doorman,
    home: &Path,
    url: &str,
    variables: &[(&str, &str)],
) -> Option<String> {
    let theirs = doorman.client(home, url, variables);
    let ours = config(home, url, variables).output();
    let theirs = theirs.unwrap_or_else(|| panic!("psql does not log in with {url} {variables:?}"));
    let context = format!("{url} {variables:?}: {ours:#?}");
    ours.expect_code(0);
    assert_eq!(value(&ours, "user"), Some(theirs.user), "{context}");
    assert_eq!(value(&ours, "database"), Some(theirs.database), "{context}");
    let (password, place) = setting(&ours, "password");
    let place = password.map(|_| {
        let home = format!("{}/", home.display());
        place.strip_prefix(&home).unwrap_or(&place).to_owned()
    });
    assert_eq!(place, theirs.password, "{context}");
    place
}

#[test]
fn an_account_is_the_one_that_psql_logs_in_with() {
    let home = home(&[
        (
            ".pg_service.conf",
            "[s]\nuser=of-service\ndbname=in-service\npassword=.pg_service.conf:4\n[n]\ndbname=in-service\n[p]\npassfile=FOLDER/other\n",
        ),
        (
            ".pgpass",
            "# comment\n127.0.0.1:*:d:bob:.pgpass\\:2\nlocalhost:*:d:*:.pgpass\\:3\n*:*:d:jim:.pgpass\\:4\n*:*:*:a\\:b:.pgpass\\:5\n\
             *:1:*:*:no\n*:*:in-service:*:.pgpass\\:7\nFOLDER:*:*:*:.pgpass\\:8\n*:*:last:*:.pgpass\\:9:rest\n",
        ),
        ("other", "*:*:*:*:other\\:1\n"),
    ]);
    let doorman = Doorman::start(home.path());
    let port = doorman.port.to_string();
    let port = port.as_str();
    let tcp = format!("127.0.0.1:{port}");
    let cases: &[(String, &[(&str, &str)])] = &[
        (format!("postgres://u:DBLOCK_URL@{tcp}/d"), &[]),
        (
            format!("postgres://{tcp}/d?user=u&password=DBLOCK_URL"),
            &[],
        ),
        (
            format!("postgres://u:DBLOCK_URL@{tcp}/d"),
            &[("PGPASSWORD", "x"), ("PGUSER", "x"), ("PGDATABASE", "x")],
        ),
        (
            format!("postgres://{tcp}"),
            &[
                ("PGPASSWORD", "PGPASSWORD"),
                ("PGUSER", "a b"),
                ("PGDATABASE", "c=d"),
            ],
        ),
        (format!("postgres://bob@{tcp}/d"), &[]),
        (format!("postgres://jim@{tcp}/d"), &[]),
        (format!("postgres://jim@{tcp}/e"), &[]),
        (format!("postgres://{tcp}/d"), &[]),
        (format!("postgres://a%3Ab@{tcp}/x"), &[]),
        (format!("postgres://u@{tcp}/last"), &[]),
        (format!("postgres://u@{tcp}/x?passfile=FOLDER/other"), &[]),
        (
            format!("postgres://u@{tcp}/x"),
            &[("PGPASSFILE", "FOLDER/other")],
        ),
        (
            format!("postgres://u@{tcp}/x"),
            &[("PGPASSFILE", "FOLDER/none")],
        ),
        (
            format!("postgres://{tcp}/?service=s"),
            &[("PGPASSWORD", "x")],
        ),
        (
            format!("postgres://u:DBLOCK_URL@{tcp}/x"),
            &[("PGSERVICE", "s")],
        ),
        (
            format!("postgres://{tcp}/?service=n"),
            &[("PGPASSWORD", "PGPASSWORD")],
        ),
        (format!("postgres://{tcp}/?service=n"), &[]),
        (format!("postgres://u@{tcp}/x?service=p"), &[]),
        (format!("postgres://u@:{port}/x?host=FOLDER"), &[]),
        (format!("postgres://bob@:{port}/d?host=FOLDER"), &[]),
        (
            String::new(),
            &[
                ("PGHOST", "127.0.0.1"),
                ("PGPORT", port),
                ("PGDATABASE", "d"),
                ("PGUSER", "bob"),
            ],
        ),
    ];
    let mut found = 0;
    for (url, variables) in cases {
        found += usize::from(both_log_in_alike(&doorman, home.path(), url, variables).is_some());
    }
    assert!(found > cases.len() / 2, "{found}");
    // psql and dblock ignore a file that others can read, and say so.
    fs::set_permissions(
        home.path().join(".pgpass"),
        fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    let url = format!("postgres://bob@{tcp}/d");
    assert_eq!(both_log_in_alike(&doorman, home.path(), &url, &[]), None);
    config(home.path(), &url, &[])
        .output()
        .expect_one_line(".pgpass is ignored");
}

/// The folder that libpq is built with is `localhost` in the file. By its other name the same folder is not.
#[test]
fn the_usual_folder_of_sockets_has_the_password_that_it_has_to_psql() {
    let lines = "/run/postgresql:*:d:*:.pgpass\\:1\n/var/run/postgresql:*:d:*:.pgpass\\:2\nlocalhost:*:d:*:.pgpass\\:3\n";
    let home = home(&[(".pgpass", lines)]);
    for folder in ["/var/run/postgresql", "/run/postgresql"] {
        let doorman = Doorman::start(Path::new(folder));
        let url = format!("postgres://u@:{}/d?host={folder}", doorman.port);
        let found = both_log_in_alike(&doorman, home.path(), &url, &[]);
        assert!(found.is_some(), "{folder}");
    }
}

/// Lines of pieces that mean something somewhere, in any order.
#[test]
fn a_random_password_file_means_what_it_means_to_psql() {
    let pieces = [
        "127.0.0.1",
        "*",
        ":",
        ":",
        ":*:",
        "\\:",
        "\\",
        "\\\\",
        "d",
        "u",
        ":d:u:",
        "#",
        " ",
        "PORT",
        "x",
        "*:*:*:*:LINE",
        "127.0.0.1:PORT:d:u:LINE",
        "\r",
        "é",
    ];
    let home = home(&[]);
    let doorman = Doorman::start(home.path());
    let url = format!("postgres://u@127.0.0.1:{}/d", doorman.port);
    let path = home.path().join(".pgpass");
    let mut random = fastrand::Rng::with_seed(7);
    let mut found = 0;
    for _ in 0..30 {
        let mut text = String::new();
        for line in ["A", "B", "C", "D"] {
            for _ in 0..random.usize(1..7) {
                let piece = pieces[random.usize(..pieces.len())];
                text.push_str(&piece.replace("LINE", line));
            }
            text.push('\n');
        }
        let text = text.replace("PORT", &doorman.port.to_string());
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let theirs = doorman
            .client(home.path(), &url, &[])
            .expect("a client")
            .password;
        let ours = config(home.path(), &url, &[]).output();
        let (_, place) = setting(&ours, "password");
        let line = place.rsplit_once(':').map(|(_, line)| line.to_owned());
        // An empty password is found, too, but psql does not send it.
        match theirs
            .as_deref()
            .and_then(|password| password.bytes().next())
        {
            Some(first @ b'A'..=b'D') => {
                assert_eq!(line, Some((first - b'A' + 1).to_string()), "{text:?}");
                found += 1;
            }
            Some(_) => assert!(line.is_some(), "{text:?}"),
            None => {}
        }
        if line.is_none() {
            assert_eq!(theirs, None, "{text:?}");
        }
    }
    assert!(found > 3, "{found}");
}

#[test]
fn an_sslmode_means_what_it_means_to_psql() {
    let home = home(&[(
        ".pg_service.conf",
        "[s]\nsslmode=disable\n[r]\nsslmode=require\n",
    )]);
    let doorman = Doorman::start(home.path());
    let at = |query: &str| format!("postgres://u:p@127.0.0.1:{}/d{query}", doorman.port);
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("", &[]),
        ("?sslmode=disable", &[]),
        ("?sslmode=prefer", &[]),
        ("?sslmode=require", &[]),
        ("?sslmode=verify-ca", &[]),
        ("?sslmode=verify-full", &[]),
        ("?ssl=true", &[]),
        ("?requiressl=1", &[]),
        ("?sslmode=disable", &[("PGSSLMODE", "require")]),
        ("", &[("PGSSLMODE", "disable")]),
        ("", &[("PGSSLMODE", "require")]),
        ("", &[("PGREQUIRESSL", "1")]),
        ("", &[("PGREQUIRESSL", "1"), ("PGSSLMODE", "disable")]),
        ("?service=s", &[("PGSSLMODE", "require")]),
        ("?service=r", &[]),
    ];
    for (query, variables) in cases {
        let theirs = doorman.client(home.path(), &at(query), variables);
        let ours = config(home.path(), &at(query), variables).output();
        let mode = value(&ours, "ssl-mode").unwrap();
        let demands = !matches!(mode.as_str(), "disable" | "prefer");
        assert_eq!(theirs.is_none(), demands, "{query} {variables:?}: {mode}");
        if let Some(client) = theirs {
            assert_eq!(
                client.asked_for_tls,
                mode != "disable",
                "{query} {variables:?}"
            );
        }
    }
    // The local socket has no TLS, whatever is demanded.
    let url = format!(
        "postgres://u:DBLOCK_URL@:{}/d?host=FOLDER&sslmode=verify-full",
        doorman.port
    );
    both_log_in_alike(&doorman, home.path(), &url, &[]);
}

#[test]
fn a_ca_is_verified_as_libpq_does() {
    let with = home(&[
        (".postgresql/root.crt", "x"),
        (".postgresql/postgresql.crt", "x"),
        (".postgresql/postgresql.key", "x"),
    ]);
    let without = home(&[("ca.pem", "x")]);
    let mode =
        |home: &TempDir, url: &str| value(&config(home.path(), url, &[]).output(), "ssl-mode");
    let url = "postgres://h/d?sslmode=require";
    assert_eq!(mode(&with, url).as_deref(), Some("verify-ca"));
    assert_eq!(mode(&without, url).as_deref(), Some("require"));
    let named = "postgres://h/d?sslmode=require&sslrootcert=FOLDER/ca.pem";
    assert_eq!(mode(&without, named).as_deref(), Some("verify-ca"));
    assert_eq!(mode(&with, "postgres://h/d").as_deref(), Some("prefer"));
    let own = config(
        without.path(),
        "postgres://h/d",
        &[("DBLOCK_SSL_CA", "FOLDER/ca.pem")],
    );
    assert_eq!(
        value(&own.output(), "ssl-mode").as_deref(),
        Some("verify-ca")
    );
    let system = "postgres://h/d?sslrootcert=system";
    assert_eq!(mode(&without, system).as_deref(), Some("verify-full"));
    let others = config(without.path(), system, &[("SSL_CERT_FILE", "/x")]).output();
    assert_eq!(value(&others, "SSL_CERT_FILE").as_deref(), Some("/x"));
    for word in ["verify-full", "verify-identity", "VERIFY_IDENTITY"] {
        let config = config(with.path(), "postgres://h/d", &[("DBLOCK_SSL_MODE", word)]);
        config.output().expect_code(0).expect_silence();
    }
    for (url, said) in [
        ("postgres://h/d?sslmode=verify-full", "root.crt"),
        ("postgres://h/d?sslmode=verify-ca", "root.crt"),
        (
            "postgres://h/d?sslmode=require&sslrootcert=system",
            "DBLOCK_URL: sslrootcert trusts every CA of the system",
        ),
        (
            "postgres://h/d?sslmode=verify-ca&sslrootcert=FOLDER/none",
            "cannot read the file of sslrootcert, ",
        ),
        (
            "postgres://h/d?sslcert=FOLDER/none&sslkey=FOLDER/ca.pem",
            "cannot read the file of sslcert, ",
        ),
    ] {
        let output = config(without.path(), url, &[]).output();
        output.expect_code(CONFIGURATION).expect_one_line(said);
    }
    // It is called as the user has it.
    for (variable, said) in [
        ("PGSSLROOTCERT", "the file of sslrootcert, "),
        ("DBLOCK_SSL_CA", "the file of --ssl-ca, "),
    ] {
        for command in ["config", "check"] {
            let dblock = Dblock::bare()
                .arg(command)
                .env_remove("DBLOCK_SSL_MODE")
                .env("HOME", without.path())
                .env("DBLOCK_URL", "postgres://127.0.0.1:1/d?sslmode=verify-ca")
                .env(variable, without.path().join("none"));
            let output = dblock.output();
            output.expect_code(CONFIGURATION).expect_one_line(said);
        }
    }
    let output = config(
        without.path(),
        "postgres:///d?host=/x&sslmode=verify-full",
        &[],
    )
    .output();
    output.expect_code(0).expect_silence();
    let revoked = home(&[(".postgresql/root.crt", "x"), (".postgresql/root.crl", "x")]);
    let output = config(revoked.path(), "postgres://h/d?sslmode=verify-full", &[]).output();
    output
        .expect_code(CONFIGURATION)
        .expect_one_line("root.crl");
}

#[test]
fn what_would_make_a_connection_less_safe_is_refused() {
    let home = home(&[]);
    for (parameter, variable, value) in [
        ("sslcrl", "PGSSLCRL", "/x"),
        ("sslcrldir", "PGSSLCRLDIR", "/x"),
        ("sslpassword", "", "secret"),
        ("sslcertmode", "PGSSLCERTMODE", "require"),
        ("sslnegotiation", "PGSSLNEGOTIATION", "direct"),
        (
            "ssl_min_protocol_version",
            "PGSSLMINPROTOCOLVERSION",
            "TLSv1.3",
        ),
        (
            "ssl_max_protocol_version",
            "PGSSLMAXPROTOCOLVERSION",
            "TLSv1.1",
        ),
        ("requirepeer", "PGREQUIREPEER", "postgres"),
        ("require_auth", "PGREQUIREAUTH", "scram-sha-256"),
        ("gssencmode", "PGGSSENCMODE", "require"),
        ("replication", "", "database"),
        ("load_balance_hosts", "PGLOADBALANCEHOSTS", "random"),
        ("target_session_attrs", "PGTARGETSESSIONATTRS", "standby"),
        (
            "target_session_attrs",
            "PGTARGETSESSIONATTRS",
            "prefer-standby",
        ),
        ("target_session_attrs", "PGTARGETSESSIONATTRS", "read-only"),
    ] {
        let url = format!("postgres://h/d?{parameter}={value}");
        let output = config(home.path(), &url, &[]).output();
        output
            .expect_code(CONFIGURATION)
            .expect_one_line(&format!("DBLOCK_URL: {parameter} "));
        assert!(!output.stderr.contains("secret"), "{output:#?}");
        if !variable.is_empty() {
            let output = config(home.path(), "postgres://h/d", &[(variable, value)]).output();
            output
                .expect_code(CONFIGURATION)
                .expect_one_line(&format!("{variable}: {parameter} "));
        }
        if parameter.starts_with("ssl") {
            let url = format!("{url}&sslmode=disable");
            config(home.path(), &url, &[])
                .output()
                .expect_code(0)
                .expect_silence();
        }
    }
    for query in [
        "target_session_attrs=read-write",
        "target_session_attrs=primary",
        "ssl_min_protocol_version=TLSv1.2&ssl_max_protocol_version=TLSv1.3",
        "gssencmode=prefer&replication=false&load_balance_hosts=disable&sslcrl=&pooler=session&channel_binding=prefer",
        "options=-c%20geqo%3Doff&sslsni=0&sslcompression=1&tcp_user_timeout=3&krbsrvname=x&fallback_application_name=x",
    ] {
        let url = format!("postgres://h/d?{query}");
        config(home.path(), &url, &[])
            .output()
            .expect_code(0)
            .expect_silence();
    }
    for (url, said) in [
        ("postgres://h/d?pooler=transaction", "pooler"),
        ("postgres://h/d?nonsense=1", "nonsense"),
        ("postgres://h/d?socket=/x", "socket"),
        ("postgres://h/d?sslmode=required", "sslmode"),
        ("postgres://h/d?sslsni=yes", "sslsni"),
    ] {
        let output = config(home.path(), url, &[]).output();
        output.expect_code(USAGE).expect_one_line(said);
    }
    for (url, said) in [
        ("postgres://h/d?hostaddr=127.0.0.1", "hostaddr"),
        ("postgres://h/d?channel_binding=require", "channel_binding"),
        ("postgres://h", "no database is named"),
        ("postgres:///d", "no server is named"),
    ] {
        let output = config(home.path(), url, &[]).output();
        output.expect_code(CONFIGURATION).expect_one_line(said);
    }
    // Also where there is no server all else is told.
    let url = "postgres:///d?sslmode=require&password=x";
    let output = config(home.path(), url, &[]).output();
    assert_eq!(value(&output, "ssl-mode").as_deref(), Some("require"));
    assert_eq!(value(&output, "password").as_deref(), Some("***"));
    let address = config(
        home.path(),
        "postgres://h/d",
        &[("PGHOSTADDR", "127.0.0.1")],
    );
    address
        .output()
        .expect_code(CONFIGURATION)
        .expect_one_line("PGHOSTADDR");
}

#[test]
fn a_variable_that_asks_for_a_server_that_takes_writes_is_accepted_as_by_psql() {
    let home = home(&[]);
    let url = "postgres://127.0.0.2:1,127.0.0.3:2/d";
    for word in ["any", "read-write", "primary"] {
        let variables = [("PGTARGETSESSIONATTRS", word)];
        both_mean_the_same_servers(home.path(), url, &variables);
        let output = config(home.path(), url, &variables).output();
        output.expect_code(0).expect_silence();
        let (value, from) = setting(&output, "target_session_attrs");
        assert_eq!(value.as_deref(), Some(word));
        assert_eq!(from, "PGTARGETSESSIONATTRS");
    }
    both_mean_the_same_servers(home.path(), url, &[("PGTARGETSESSIONATTRS", "writable")]);
}

#[test]
fn config_shows_the_port_in_force() {
    let home = home(&[]);
    let with = |value: &str, from: &str| (Some(value.to_owned()), from.to_owned());
    for (url, variables, port, from) in [
        ("postgres://h/d", &[][..], "5432", "default"),
        ("postgres://h:7/d", &[], "7", "DBLOCK_URL"),
        (
            "postgres://a:7,b/d",
            &[("PGPORT", "8")],
            "7,5432",
            "DBLOCK_URL",
        ),
        ("postgres://h/d", &[("PGPORT", "8")], "8", "PGPORT"),
        (
            "postgres://h:7/d",
            &[("DBLOCK_PORT", "9")],
            "9",
            "DBLOCK_PORT",
        ),
        (
            "",
            &[("PGHOST", "h"), ("PGDATABASE", "d"), ("PGPORT", "8")],
            "8",
            "PGPORT",
        ),
    ] {
        let output = config(home.path(), url, variables).output();
        output.expect_code(0);
        assert_eq!(
            setting(&output, "port"),
            with(port, from),
            "{url} {variables:?}"
        );
    }
}

/// A URL, variables, arguments, and the servers that they mean.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str], &'a str);

#[test]
fn dblocks_own_options_override_a_url_as_for_mysql() {
    let home = home(&[(
        ".my.cnf",
        "[client]\nhost=h-client\nport=1\nuser=u-client\npassword=x\nssl-mode=REQUIRED\n[dblock]\nuser=u-own\nport=2\n",
    )]);
    let cases: &[Case] = &[
        ("postgres://h/d", &[], &[], "h:5432"),
        ("postgres://h:7/d", &[], &["--port=8"], "h:8"),
        ("postgres://h:7/d", &[], &["--host=g"], "g:2"),
        (
            "postgres:///d",
            &[],
            &["--host=f,g", "--port=6,7"],
            "f:6, g:7",
        ),
        (
            "postgres://h,i:7/d",
            &[("DBLOCK_PORT", "8")],
            &[],
            "h:8, i:8",
        ),
        (
            "postgres://h/d",
            &[],
            &["--host=/run/x"],
            "/run/x/.s.PGSQL.2",
        ),
        ("postgres://h/d", &[], &["--url=postgres://g/d"], "g:5432"),
        (
            "postgres://h/d",
            &[],
            &["--url=postgres://g:9,i/d"],
            "g:9, i:5432",
        ),
        (
            "postgres:///d",
            &[],
            &["--socket=/run/x"],
            "/run/x/.s.PGSQL.2",
        ),
        (
            "postgres:///d",
            &[],
            &["--socket=/run/x", "--port=6"],
            "/run/x/.s.PGSQL.6",
        ),
        (
            "postgres:///d",
            &[],
            &["--socket=/run/x/.s.PGSQL.4"],
            "/run/x/.s.PGSQL.4",
        ),
        ("postgres://localhost/d", &[], &[], "localhost:5432"),
        (
            "postgres:///d",
            &[("PGHOST", "p"), ("PGPORT", "4")],
            &[],
            "p:2",
        ),
    ];
    for (url, variables, args, servers) in cases {
        let output = config(home.path(), url, variables).args(*args).output();
        output.expect_code(0).expect_silence();
        assert_eq!(
            value(&output, "servers").as_deref(),
            Some(*servers),
            "{url} {args:?}"
        );
        // What [client] says is for MySQL.
        assert_eq!(value(&output, "user").as_deref(), Some("u-own"));
        assert_eq!(value(&output, "password"), None);
        assert_eq!(value(&output, "ssl-mode").as_deref(), Some("prefer"));
    }
    let at = |variables: &[(&str, &str)], args: &[&str]| {
        config(home.path(), "postgres://h/d", variables)
            .args(args)
            .output()
    };
    let output = at(
        &[("DBLOCK_PASSWORD", "x"), ("PGPASSWORD", "y")],
        &["--database=e"],
    );
    assert_eq!(setting(&output, "password").1, "DBLOCK_PASSWORD");
    assert_eq!(value(&output, "database").as_deref(), Some("e"));
    let output = at(&[("MYSQL_PWD", "x")], &[]);
    assert_eq!(value(&output, "password"), None);
    for args in [["--protocol=tcp"], ["--server-public-key-path=/x"]] {
        let output = at(&[], &args);
        output
            .expect_code(CONFIGURATION)
            .expect_one_line("is not for PostgreSQL");
    }
    at(&[("DBLOCK_PROTOCOL", "tcp")], &[])
        .expect_code(0)
        .expect_silence();
    at(&[], &["--url=postgres://u:S3CRET@h/d"])
        .expect_code(0)
        .expect_one_line("can be read by every user");
    let output = at(&[], &["--socket=/x"]);
    output.expect_code(0).expect_silence();
}

#[test]
fn the_kind_of_server_is_said_or_refused() {
    let client = home(&[(".my.cnf", "[client]\nhost=h\n")]);
    let own = home(&[(".my.cnf", "[dblock]\nhost=h\n")]);
    let socket = home(&[(".my.cnf", "[client]\nsocket=/run/x.sock\n")]);
    let none = home(&[]);
    let postgres = [("PGHOST", "p"), ("PGDATABASE", "d")];
    let servers = |home: &TempDir, url: &str, variables: &[(&str, &str)]| {
        let output = config(home.path(), url, variables).output();
        output.expect_code(0).expect_silence();
        value(&output, "servers").unwrap()
    };
    assert_eq!(servers(&none, "", &postgres), "p:5432");
    assert_eq!(servers(&socket, "", &postgres), "p:5432");
    assert_eq!(servers(&own, "", &postgres), "h:3306");
    assert_eq!(servers(&client, "mysql://", &postgres), "h:3306");
    assert_eq!(servers(&client, "mysql://m", &postgres), "m:3306");
    assert_eq!(servers(&client, "postgres://", &postgres), "p:5432");
    assert_eq!(servers(&own, "postgres://q/d", &[]), "q:5432");
    assert_eq!(
        servers(&none, "", &[("DBLOCK_HOST", "h"), ("PGHOST", "p")]),
        "h:3306"
    );
    for (name, value) in [
        ("PGHOST", "p"),
        ("PGHOSTADDR", "127.0.0.1"),
        ("PGSERVICE", "s"),
    ] {
        let output = config(client.path(), "", &[(name, value)]).output();
        output
            .expect_code(CONFIGURATION)
            .expect_one_line("two servers are named");
        output.expect_said([name, ".my.cnf:2", "--url mysql://", "--url postgres://"]);
    }
    // A port or a database alone names no server.
    assert_eq!(
        servers(&client, "", &[("PGPORT", "1"), ("PGDATABASE", "d")]),
        "h:3306"
    );
    config(none.path(), "", &[("PGPORT", "1"), ("PGDATABASE", "d")])
        .output()
        .expect_code(CONFIGURATION)
        .expect_one_line("no server is named")
        .expect_said(["; PGPORT is for PostgreSQL, where PGHOST, a service or --url postgres:// names the server"]);
    // The strongest URL decides.
    let flag = config(none.path(), "mysql://u:p@m/x", &[])
        .arg("--url=postgres://q/d")
        .output();
    flag.expect_code(0).expect_silence();
    assert_eq!(value(&flag, "servers").as_deref(), Some("q:5432"));
    assert_eq!(value(&flag, "password"), None);
    let flag = config(none.path(), "postgres://u:p@q/x", &postgres)
        .arg("--url=mysql://m")
        .output();
    flag.expect_code(0).expect_silence();
    assert_eq!(value(&flag, "servers").as_deref(), Some("m:3306"));
    assert_eq!(value(&flag, "database").as_deref(), Some("dblock"));
    // What is wrong in MySQL's own groups is nothing to PostgreSQL.
    let wrong = home(&[(".my.cnf", "[client]\npassword\nssl-crl=/x\n")]);
    assert_eq!(servers(&wrong, "postgres://q/d", &[]), "q:5432");
}
