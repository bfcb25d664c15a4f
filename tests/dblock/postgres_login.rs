//! Logging in to PostgreSQL: by every kind of password that dblock has, with TLS as strictly as asked for, and refused in words that help.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::harness::certificates::{Certificates, HOST};
use crate::harness::fake_postgres::{authentication, message, read_message, read_startup, scram};
use crate::harness::{
    Dblock, Kind, PASSWORD, SOON, Server, Setup, eventually, slack, unique, url_of_kind, within,
    works,
};
use crate::libpq_settings::psql;

/// Who may log in, and how. The first line that fits decides.
const HBA: &str = "
host all admin all scram-sha-256
host all rejected all reject
host all by_md5 all md5
host all by_scram_or_md5 all md5
host all in_clear all password
hostssl all client all cert
hostssl all with_certificate all scram-sha-256 clientcert=verify-ca
hostssl all only_tls all scram-sha-256
host all trusted all trust
host all other_way all gss
host all dblock all scram-sha-256
";

/// A server with TLS and all these accounts.
struct Secured {
    server: Server,
    showing: Mutex<()>,
}

/// It shows one certificate for as long as this lives.
struct Showing<'a> {
    secured: &'a Secured,
    _alone: MutexGuard<'a, ()>,
}

impl Deref for Showing<'_> {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.secured.server
    }
}

fn certificate(name: &str) -> PathBuf {
    Certificates::shared().path(&format!("{name}.pem"))
}

impl Secured {
    fn shared() -> &'static Self {
        static SECURED: LazyLock<Secured> = LazyLock::new(Secured::start);
        &SECURED
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let hba = folder.path().join("hba");
        std::fs::write(&hba, HBA).expect("a scratch file");
        let files = [
            ("hba_file", hba),
            ("ssl_cert_file", certificate("right")),
            ("ssl_key_file", certificate("server-key")),
            ("ssl_ca_file", certificate("ca")),
        ];
        let setup = Setup {
            files: files
                .map(|(setting, path)| format!("{setting}={}", path.display()))
                .to_vec(),
            options: ["-c", "ssl=on"].map(str::to_owned).to_vec(),
            ..Setup::default()
        };
        let server = Server::private_as(Kind::Postgres, setup);
        let mut admin = server.postgres();
        for account in [
            "rejected",
            "by_scram_or_md5",
            "in_clear",
            "client",
            "with_certificate",
            "only_tls",
            "trusted",
            "other_way",
            "unlisted",
        ] {
            admin.run(&format!(
                "CREATE ROLE {account} LOGIN PASSWORD '{PASSWORD}'"
            ));
        }
        admin.run("CREATE ROLE no_login PASSWORD 'x'");
        admin.run("SET password_encryption = md5");
        admin.run(&format!("CREATE ROLE by_md5 LOGIN PASSWORD '{PASSWORD}'"));
        Self {
            server,
            showing: Mutex::default(),
        }
    }

    /// Has it show this certificate, to one test at a time.
    fn showing(&'static self, name: &str) -> Showing<'static> {
        let showing = Showing {
            _alone: self.showing.lock().unwrap_or_else(PoisonError::into_inner),
            secured: self,
        };
        showing.show(name);
        showing
    }
}

impl Showing<'_> {
    fn show(&self, name: &str) {
        // In place: the file stays the server's own.
        let bytes = std::fs::read(certificate(name)).expect("it was made");
        std::fs::write(self.dir.join("ssl_cert_file"), bytes).expect("root or the server's user");
        // A session tells when it has read them itself; a new one, when the server has.
        let loaded = || {
            let mut new = self.new_admin().unwrap();
            let loaded = new.value::<String>("SELECT pg_conf_load_time()");
            loaded.expect("a time")
        };
        let before = loaded();
        self.postgres().run("SELECT pg_reload_conf()");
        eventually("it has read its files", SOON, || loaded() != before);
    }
}

/// With TLS in this mode; else a test has none.
fn with_tls(server: &Server, mode: &str) -> Dblock {
    Dblock::run(server, &unique("login")).env("DBLOCK_SSL_MODE", mode)
}

/// It is refused with this code, in one line with these words.
#[track_caller]
fn refused(dblock: Dblock, code: i32, words: &[&str]) {
    let output = dblock
        .args(["--connect-timeout", "20"])
        .sh("echo ran")
        .output();
    output
        .expect_code(code)
        .expect_stdout("")
        .expect_one_line("");
    output.expect_said(words);
    assert!(
        !output.stderr.contains(PASSWORD) && !output.stderr.contains("wrong-secret"),
        "{output:#?}"
    );
}

#[test]
fn each_kind_of_password_that_dblock_has_works() {
    let server = &Secured::shared().server;
    for (account, mode) in [
        ("dblock", "disabled"),
        ("dblock", "preferred"),
        ("dblock", "required"),
        ("by_md5", "disabled"),
        ("by_md5", "required"),
        ("by_scram_or_md5", "disabled"),
        ("in_clear", "required"),
        ("only_tls", "required"),
        ("only_tls", "preferred"),
        ("trusted", "disabled"),
    ] {
        works(with_tls(server, mode).user(account));
    }
}

#[test]
fn a_password_is_never_sent_in_clear_without_tls() {
    let server = &Secured::shared().server;
    refused(
        with_tls(server, "disabled").user("in_clear"),
        77,
        &["in clear", "in_clear"],
    );
}

#[test]
fn an_account_that_is_refused_is_named_with_the_servers_reason() {
    let server = &Secured::shared().server;
    let wrong = |account: &str| {
        let dblock = with_tls(server, "disabled").user(account);
        dblock.env("DBLOCK_PASSWORD", "wrong-secret")
    };
    for account in ["dblock", "by_md5", "by_scram_or_md5"] {
        refused(
            wrong(account),
            77,
            &["refused the account", account, "28P01"],
        );
    }
    let plain = |account: &str| with_tls(server, "disabled").user(account);
    refused(
        plain("rejected"),
        77,
        &["refused the account", "pg_hba.conf", "28000"],
    );
    refused(
        plain("unlisted"),
        77,
        &["refused the account", "pg_hba.conf"],
    );
    refused(
        plain("only_tls"),
        77,
        &["refused the account", "pg_hba.conf"],
    );
    refused(plain("nobody_at_all"), 77, &["nobody_at_all"]);
    refused(plain("other_way"), 77, &["other_way"]);
    refused(
        plain("dblock").env_remove("DBLOCK_PASSWORD"),
        77,
        &["password"],
    );
    // Nobody else's server is asked for what no server will give.
    let other = Server::shared(Kind::Postgres);
    let both = format!(
        "postgres://rejected@127.0.0.1:{},127.0.0.1:{}/app",
        server.port, other.port
    );
    let output = Dblock::run_at(&both, &unique("both"))
        .args(["--connect-timeout", "20"])
        .command(["true"])
        .output();
    output.expect_code(77);
}

#[test]
fn a_database_that_is_not_there_or_not_open_to_the_account_is_told() {
    let server = Server::shared(Kind::Postgres);
    let at = |database: &str| {
        let url = server.url().replace("/app", &format!("/{database}"));
        Dblock::run_at(&url, &unique("database"))
    };
    refused(at("no_such_database"), 78, &["no_such_database", "3D000"]);
    let closed = unique("closed").replace('-', "_");
    let mut admin = server.postgres();
    admin.run(&format!("CREATE DATABASE {closed}"));
    admin.run(&format!("REVOKE CONNECT ON DATABASE {closed} FROM PUBLIC"));
    refused(at(&closed), 77, &[&closed, "42501"]);
    admin.run(&format!("GRANT CONNECT ON DATABASE {closed} TO dblock"));
    works(at(&closed));
}

#[test]
fn an_account_that_may_only_connect_is_enough_for_all_that_run_does() {
    let server = Server::shared(Kind::Postgres);
    let (account, database) = (server.account(), unique("least").replace('-', "_"));
    let mut admin = server.postgres();
    admin.run(&format!("CREATE DATABASE {database}"));
    admin.run(&format!("REVOKE ALL ON DATABASE {database} FROM PUBLIC"));
    admin.run(&format!(
        "GRANT CONNECT ON DATABASE {database} TO \"{account}\""
    ));
    let url = server.url().replace("/app", &format!("/{database}"));
    let mut inside = crate::harness::postgres::Postgres::connect(
        ("127.0.0.1", server.port),
        ("admin", "admin-secret"),
        &database,
    )
    .unwrap();
    inside.run("REVOKE ALL ON SCHEMA public FROM PUBLIC");
    let name = unique("least");
    let run = || Dblock::run_at(&url, &name).user(&account);
    let mut first = run()
        .stdin(Stdio::piped())
        .sh("echo held; read x; exit 4")
        .spawn();
    first.wait_line("held", SOON);
    run()
        .command(["true"])
        .output()
        .expect_code(75)
        .expect_one_line("; not run");
    let waits = run().args(["--wait", "30", "-v"]).sh("echo ran").spawn();
    eventually("it waits", SOON, || waits.stderr().contains("waiting"));
    let status = Dblock::bare()
        .args(["status", &name])
        .env("DBLOCK_URL", &url)
        .user(&account);
    status
        .env("DBLOCK_PASSWORD", PASSWORD)
        .output()
        .expect_code(0);
    drop(first.take_stdin());
    first.wait().expect_code(4).expect_silence();
    waits.wait().expect_code(0).expect_stdout("ran\n");
}

#[test]
fn a_server_that_is_full_is_waited_for_and_then_unreachable() {
    let server = Server::shared(Kind::Postgres);
    let (account, name) = (server.account(), unique("full"));
    let mut admin = server.postgres();
    admin.run(&format!("ALTER ROLE \"{account}\" CONNECTION LIMIT 1"));
    let taken = server.postgres_as(&account, PASSWORD).unwrap();
    let run = |timeout: &str| {
        Dblock::run(server, &name)
            .user(&account)
            .args(["--connect-timeout", timeout])
    };
    let output = run("4").sh("echo ran").output();
    output
        .expect_code(69)
        .expect_stdout("")
        .expect_one_line("53300");
    output.expect_took(
        Duration::from_millis(3900),
        Duration::from_secs(4) + slack(),
    );
    let mut patient = run("30").sh("echo ran").spawn();
    assert!(!within(Duration::from_millis(600), || !patient.is_running()));
    drop(taken);
    patient.wait_line("ran", SOON);
    patient.wait().expect_code(0);
}

#[test]
fn a_server_that_is_starting_or_stopping_is_waited_for() {
    let server = &Server::private(Kind::Postgres);
    let name = unique("starting");
    server.stop();
    let mut run = Dblock::run(server, &name)
        .args(["--connect-timeout", "30"])
        .sh("echo ran")
        .spawn();
    assert!(!within(Duration::from_millis(500), || !run.is_running()));
    server.start();
    run.wait_line("ran", SOON);
    run.wait().expect_code(0);
    // 57P03: it takes no connection while somebody still uses it.
    server.stop();
    let output = Dblock::run(server, &name)
        .args(["--connect-timeout", "4"])
        .sh("echo ran")
        .output();
    output
        .expect_code(69)
        .expect_stdout("")
        .expect_one_line(&server.port.to_string());
    server.start();
}

#[test]
fn a_certificate_is_trusted_as_strictly_as_asked_for() {
    let secured = Secured::shared();
    let ca = certificate("ca");
    let run = |server: &Server, mode: &str| with_tls(server, mode).env("DBLOCK_SSL_CA", &ca);
    let server = secured.showing("right");
    for mode in ["required", "verify-ca", "verify-identity"] {
        works(run(&server, mode));
    }
    // The right one, and nobody who has signed it is known.
    let other = certificate("other-ca");
    let unknown = with_tls(&server, "verify-ca").env("DBLOCK_SSL_CA", other);
    refused(unknown, 78, &["certificate"]);
    for (bad, is_trusted) in [
        ("other-name", true),
        ("no-name", true),
        ("expired", false),
        ("by-other-ca", false),
        ("self-signed", false),
    ] {
        server.show(bad);
        works(with_tls(&server, "required"));
        if is_trusted {
            works(run(&server, "verify-ca"));
        } else {
            refused(run(&server, "verify-ca"), 78, &["certificate"]);
        }
        refused(run(&server, "verify-identity"), 78, &["certificate"]);
    }
    server.show("right-chain");
    works(run(&server, "verify-identity"));
    server.show("right");
    let _ = HOST;
}

#[test]
fn a_server_without_tls_is_refused_where_tls_is_demanded_and_taken_where_it_is_preferred() {
    let server = Server::shared(Kind::Postgres);
    works(with_tls(server, "preferred"));
    for mode in ["required", "verify-ca", "verify-identity"] {
        let dblock = with_tls(server, mode).env("DBLOCK_SSL_CA", certificate("ca"));
        refused(dblock, 78, &["offers no TLS"]);
    }
}

#[test]
fn a_certificate_of_dblocks_own_is_shown() {
    let server = &Secured::shared().server;
    let with = |account: &str, name: &str| {
        let dblock = with_tls(server, "required").user(account);
        let dblock = dblock.env("DBLOCK_SSL_CERT", certificate(name));
        dblock.env("DBLOCK_SSL_KEY", certificate(&format!("{name}-key")))
    };
    works(with("client", "client").env_remove("DBLOCK_PASSWORD"));
    works(with("with_certificate", "client"));
    // With TLS 1.3 the server judges it after the handshake, and the refusal races with the login.
    for _ in 0..5 {
        let dblock = with("client", "client-by-other-ca");
        refused(dblock, 78, &["refused the TLS handshake", "--ssl-cert"]);
    }
    refused(
        with_tls(server, "required").user("with_certificate"),
        77,
        &["certificate"],
    );
}

/// Whether `psql` logs in with these settings.
fn psql_logs_in(home: &Path, url: &str, variables: &[(&str, &str)]) -> bool {
    let output = psql(home, url, variables).output().expect("psql");
    output.status.success()
}

#[test]
fn the_certificate_of_libpqs_variables_is_shown_as_by_psql() {
    let server = &Secured::shared().server;
    let home = tempfile::tempdir().expect("a scratch folder");
    let [cert, key] = ["cert", "key"].map(|name| home.path().join(name));
    std::fs::copy(certificate("client"), &cert).expect("a scratch file");
    std::fs::copy(certificate("client-key"), &key).expect("a scratch file");
    // libpq takes no key that others can read.
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&key, own).expect("its own file");
    let url = server.url().replace("dblock@", "client@");
    let mode = ("PGSSLMODE", "require");
    let shown = [
        mode,
        ("PGSSLCERT", "FOLDER/cert"),
        ("PGSSLKEY", "FOLDER/key"),
    ];
    assert!(psql_logs_in(home.path(), &url, &shown));
    assert!(!psql_logs_in(home.path(), &url, &[mode]));
    let run = || {
        let run = Dblock::run_at(&url, &unique("certificate")).env(mode.0, mode.1);
        run.env_remove("DBLOCK_SSL_MODE")
            .env_remove("DBLOCK_PASSWORD")
    };
    works(run().env("PGSSLCERT", &cert).env("PGSSLKEY", &key));
    refused(run(), 77, &["certificate"]);
}

#[test]
fn sslmode_allow_lets_in_whom_it_lets_in_with_psql_and_has_tls_where_the_server_has() {
    let (secured, plain) = (&Secured::shared().server, Server::shared(Kind::Postgres));
    let home = tempfile::tempdir().expect("a scratch folder");
    for (server, account, has_tls) in [
        (secured, "only_tls", true),
        (secured, "dblock", true),
        (plain, "dblock", false),
    ] {
        let url = server.url().replace("dblock@", &format!("{account}@"));
        let variables = [("PGSSLMODE", "allow"), ("PGPASSWORD", PASSWORD)];
        assert!(psql_logs_in(home.path(), &url, &variables), "{url}");
        let run = Dblock::run_at(&url, &unique("allow")).env("PGSSLMODE", "allow");
        let run = run.env_remove("DBLOCK_SSL_MODE").stdin(Stdio::piped());
        let run = run.sh("echo held $DBLOCK_CONNECTION_ID; read x; exit 3");
        let mut run = run.spawn();
        let line = run.wait_line("held ", SOON);
        let is_encrypted = format!(
            "(SELECT ssl FROM pg_stat_ssl WHERE pid = {})",
            &line["held ".len()..]
        );
        assert_eq!(server.postgres().is(&is_encrypted), has_tls, "{url}");
        drop(run.take_stdin());
        run.wait().expect_code(3).expect_silence();
    }
}

#[test]
fn the_connection_is_encrypted_and_the_login_bound_to_it() {
    let server = &Secured::shared().server;
    let name = unique("bound");
    let url = format!("{}?channel_binding=require", server.url());
    let run = |mode: &str| Dblock::run_at(&url, &name).env("DBLOCK_SSL_MODE", mode);
    let mut held = run("required")
        .sh("echo held $DBLOCK_CONNECTION_ID; exec sleep 60")
        .spawn();
    let line = held.wait_line("held ", SOON);
    let encrypted = format!(
        "(SELECT ssl FROM pg_stat_ssl WHERE pid = {})",
        &line["held ".len()..]
    );
    assert!(server.postgres().is(&encrypted));
    drop(held);
    // What cannot be bound is refused: without TLS, and by MD5.
    refused(run("disabled"), 78, &["channel_binding"]);
    refused(run("required").user("by_md5"), 77, &["channel"]);
}

#[test]
fn a_login_is_bound_also_to_a_certificate_whose_signature_is_of_rsa_pss() {
    let server = Secured::shared().showing("pss-sha384");
    let url = format!("{}?channel_binding=require", server.url());
    for name in ["pss-sha384", "pss-sha256"] {
        server.show(name);
        works(Dblock::run_at(&url, &unique("pss")).env("DBLOCK_SSL_MODE", "required"));
    }
}

/// Somebody with TLS who shows this certificate, and has this key.
fn showing(certificate: PathBuf, key: PathBuf) -> Arc<ServerConfig> {
    #[derive(Debug)]
    struct Shown(Arc<CertifiedKey>);
    impl ResolvesServerCert for Shown {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            Some(Arc::clone(&self.0))
        }
    }
    let chain = CertificateDer::from_pem_file(certificate).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let provider = rustls::crypto::ring::default_provider();
    let key = provider
        .key_provider
        .load_private_key(key)
        .expect("a good key");
    let shown = Shown(Arc::new(CertifiedKey::new(vec![chain], key)));
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    Arc::new(config)
}

/// Somebody in between, with TLS: it shows the server's certificate, which anybody can have, and has another key. Whether that does for a
/// client that says who it is.
fn shows_a_certificate_of_another_key() -> (u16, Receiver<bool>) {
    let config = showing(certificate("right"), certificate("client-key"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let (tell, told) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let tls = ServerConnection::new(Arc::clone(&config)).expect("a good configuration");
            let asked = stream.read_exact(&mut [0; 8]);
            if asked.and_then(|()| stream.write_all(b"S")).is_ok() {
                let mut tls = StreamOwned::new(tls, stream);
                let _ = tell.send(tls.read_exact(&mut [0; 8]).is_ok());
            }
        }
    });
    (port, told)
}

#[test]
fn whoever_shows_the_servers_certificate_must_have_its_key() {
    let (port, told) = shows_a_certificate_of_another_key();
    let url = url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), port);
    for binding in ["prefer", "require"] {
        let url = format!("{url}?channel_binding={binding}");
        let dblock = Dblock::run_at(&url, &unique("copied")).env("DBLOCK_SSL_MODE", "required");
        refused(dblock, 78, &["certificate"]);
        assert!(!told.recv_timeout(SOON).expect("it was asked"), "{binding}");
    }
}

#[test]
fn a_server_hears_its_name_before_tls_begins_unless_that_is_switched_off() {
    for (query, hears) in [("", true), ("?sslsni=1", true), ("?sslsni=0", false)] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let (tell, told) = channel();
        thread::spawn(move || -> io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            stream.read_exact(&mut [0; 8])?;
            stream.write_all(b"S")?;
            let mut hello = [0; 4096];
            let read = stream.read(&mut hello)?;
            let _ = tell.send(hello[..read].windows(9).any(|text| text == b"localhost"));
            Ok(())
        });
        let url = format!("postgres://app@localhost:{port}/app{query}");
        let dblock = Dblock::run_at(&url, &unique("name")).env("DBLOCK_SSL_MODE", "required");
        let run = dblock.command(["true"]).spawn();
        assert_eq!(told.recv_timeout(SOON), Ok(hears), "{query}");
        drop(run);
    }
}

#[test]
fn a_server_that_offers_no_binding_is_told_that_dblock_could_whatever_certificate_it_shows() {
    let config = showing(certificate("version-1"), certificate("server-key"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let (tell, told) = channel();
    thread::spawn(move || -> io::Result<()> {
        for mut stream in listener.incoming().flatten() {
            stream.read_exact(&mut [0; 8])?;
            stream.write_all(b"S")?;
            let tls = ServerConnection::new(Arc::clone(&config)).expect("a good configuration");
            let mut tls = StreamOwned::new(tls, stream);
            let mut length = [0; 4];
            tls.read_exact(&mut length)?;
            let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
            tls.read_exact(&mut startup)?;
            tls.write_all(&scram())?;
            tls.flush()?;
            let mut first = [0; 64];
            let read = tls.read(&mut first)?;
            let _ = tell.send(String::from_utf8_lossy(&first[..read]).into_owned());
        }
        Ok(())
    });
    let url = url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), port);
    let dblock = Dblock::run_at(&url, &unique("unbound")).env("DBLOCK_SSL_MODE", "required");
    let run = dblock.command(["true"]).spawn();
    let first = told.recv_timeout(SOON).expect("it was asked");
    assert!(first.contains("y,,n=,r="), "{first:?}");
    drop(run);
}

/// Somebody in between, without TLS, who asks for the password in yet another way once the server is satisfied. What the client sends then.
fn asks_twice(server: &Server) -> (u16, Receiver<Option<u8>>) {
    const FINAL: [u8; 4] = 12u32.to_be_bytes();
    let (to, listener) = (
        (server.address, server.port),
        TcpListener::bind(("127.0.0.1", 0)).expect("a free port"),
    );
    let port = listener.local_addr().expect("bound").port();
    let (tell, told) = channel();
    thread::spawn(move || -> io::Result<()> {
        for mut client in listener.incoming().flatten() {
            let startup = read_startup(&mut client)?;
            let mut server = TcpStream::connect(to)?;
            let length = u32::try_from(startup.len() + 4)
                .expect("short")
                .to_be_bytes();
            server.write_all(&[&length[..], &startup].concat())?;
            loop {
                let (kind, payload) = read_message(&mut server)?;
                client.write_all(&message(kind, &payload))?;
                if payload.starts_with(&FINAL) {
                    break;
                }
                let (kind, payload) = read_message(&mut client)?;
                server.write_all(&message(kind, &payload))?;
            }
            client.write_all(&authentication(5, b"salt"))?;
            let sent = read_message(&mut client).ok().map(|(kind, _)| kind);
            let _ = tell.send(sent);
        }
        Ok(())
    });
    (port, told)
}

#[test]
fn a_server_that_asks_for_the_password_once_more_does_not_get_it() {
    let (port, told) = asks_twice(Server::shared(Kind::Postgres));
    let url = url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), port);
    let dblock = Dblock::run_at(&url, &unique("twice")).env("DBLOCK_SSL_MODE", "disabled");
    refused(dblock, 70, &["a second request for a password"]);
    assert_ne!(told.recv_timeout(SOON).expect("it was asked"), Some(b'p'));
}

#[test]
fn more_rounds_of_scram_than_dblock_computes_are_told() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || -> io::Result<()> {
        for mut client in listener.incoming().flatten() {
            read_startup(&mut client)?;
            client.write_all(&scram())?;
            let (_, first) = read_message(&mut client)?;
            let first = String::from_utf8_lossy(&first);
            let (_, nonce) = first.split_once("r=").expect("a nonce");
            let answer = format!("r={nonce}more,s=c2FsdA==,i=600000");
            client.write_all(&authentication(11, answer.as_bytes()))?;
        }
        Ok(())
    });
    let url = url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), port);
    let dblock = Dblock::run_at(&url, &unique("rounds"));
    refused(dblock, 77, &["600000 rounds", "scram_iterations"]);
}
