//! TLS against real servers: what each mode lets pass and what it refuses, whose certificate counts, that nothing is ever
//! said in clear instead, and that a lock is held, lost and handed over as without.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    AlertDescription, ClientConfig, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use serde_json::Value;

use crate::harness::certificates::{Certificates, HOST, put_in_place};
use crate::harness::{
    Dblock, Kind, Output, PASSWORD, Proxy, SOON, Server, eventually, framed, greeting, has_session,
    processes_with, slack, unique, url_of_port, works,
};

const UNREACHABLE: i32 = 69;
const INTERNAL: i32 = 70;
const ACCOUNT_REFUSED: i32 = 77;
const CONFIGURATION: i32 = 78;

/// Longer than any test: what is refused is refused without another attempt.
const PATIENCE: &str = "50";

/// A server with TLS, whose certificate can be exchanged.
pub struct Secured {
    server: Server,
    folder: PathBuf,
    showing: Mutex<()>,
}

/// It shows one certificate for as long as this lives.
pub struct Showing<'a> {
    secured: &'a Secured,
    _alone: MutexGuard<'a, ()>,
}

impl Deref for Showing<'_> {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.secured.server
    }
}

impl Secured {
    pub fn shared(kind: Kind) -> &'static Self {
        static MARIADB: LazyLock<Secured> = LazyLock::new(|| Secured::start(Kind::MariaDb, &[]));
        static MYSQL: LazyLock<Secured> = LazyLock::new(|| Secured::start(Kind::MySql, &[]));
        match kind {
            Kind::MariaDb => &MARIADB,
            Kind::Postgres => unreachable!("a test of MySQL"),
            Kind::MySql => &MYSQL,
        }
    }

    fn start(kind: Kind, more: &[&str]) -> Self {
        let folder = Certificates::shared().folder(&unique(&kind.to_string()));
        put_certificate("right", &folder);
        for file in ["ca.pem", "server-key.pem"] {
            put_in_place(&Certificates::shared().path(file), &folder.join(file));
        }
        let file = |name: &str| folder.join(name).display().to_string();
        let options = [
            format!("--ssl-ca={}", file("ca.pem")),
            format!("--ssl-cert={}", file("server.pem")),
            format!("--ssl-key={}", file("server-key.pem")),
        ];
        let options: Vec<&str> = options
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        Self {
            server: Server::private_with(kind, &options),
            folder,
            showing: Mutex::default(),
        }
    }

    /// Has it show this certificate, to one test at a time.
    pub fn showing(&self, certificate: &str) -> Showing<'_> {
        let showing = Showing {
            _alone: self.showing.lock().unwrap_or_else(PoisonError::into_inner),
            secured: self,
        };
        showing.change(certificate);
        showing
    }
}

impl Showing<'_> {
    fn change(&self, certificate: &str) {
        put_certificate(certificate, &self.secured.folder);
        let (statement, refused) = match self.kind {
            Kind::MariaDb => ("FLUSH SSL", 0),
            Kind::Postgres => unreachable!("a test of MySQL"),
            Kind::MySql => ("ALTER INSTANCE RELOAD TLS", 3888),
        };
        match self.admin().query_drop(statement) {
            Ok(()) => {}
            // A running MySQL takes no certificate that its own CA does not verify; one that starts does.
            Err(mysql::Error::MySqlError(error)) if error.code == refused => {
                self.stop();
                self.start();
            }
            Err(error) => panic!("it reads its files: {error}"),
        }
    }
}

fn put_certificate(name: &str, folder: &Path) {
    let file = Certificates::shared().path(&format!("{name}.pem"));
    put_in_place(&file, &folder.join("server.pem"));
}

/// Makes two tests of each function, on the two servers with TLS.
macro_rules! both_secured {
    ($(fn $name:ident($secured:ident) $body:block)*) => {$(
        mod $name {
            use super::*;

            fn check($secured: &'static Secured) $body

            #[test]
            fn mariadb() {
                check(Secured::shared(Kind::MariaDb));
            }

            #[test]
            fn mysql() {
                check(Secured::shared(Kind::MySql));
            }
        }
    )*};
}

/// `--ssl-ca FILE`, or another option with one of the files.
fn file(option: &str, name: &str) -> [PathBuf; 2] {
    [option.into(), Certificates::shared().path(name)]
}

/// `--ssl-cert` and `--ssl-key`
fn shows(certificate: &str, key: &str) -> [PathBuf; 4] {
    let [cert, cert_file] = file("--ssl-cert", certificate);
    let [key, key_file] = file("--ssl-key", key);
    [cert, cert_file, key, key_file]
}

/// dblock without any setting of TLS.
fn at(url: &str) -> Dblock {
    Dblock::run_at(url, &unique("tls")).env_remove("DBLOCK_SSL_MODE")
}

fn to(server: &Server) -> Dblock {
    at(&server.url())
}

fn to_with(server: &Server, mode: &str) -> Dblock {
    to(server).args(["--ssl-mode", mode])
}

/// Runs dblock with another /etc/hosts.
pub fn with_hosts(dblock: Dblock, lines: &str) -> (Dblock, tempfile::NamedTempFile) {
    let mut hosts = tempfile::NamedTempFile::new().expect("a scratch file");
    hosts.write_all(lines.as_bytes()).expect("a scratch file");
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let wrapper = ["unshare", "--map-root-user", "--mount", "sh", "-c", script];
    let wrapper = wrapper.map(OsStr::new);
    let wrapper: Vec<_> = wrapper
        .into_iter()
        .chain([hosts.path().as_os_str()])
        .collect();
    (dblock.under(wrapper), hosts)
}

/// Is refused for its settings or the server's, at once, in one line that has all of `parts`, and does not run the command.
#[track_caller]
fn is_refused<const N: usize>(dblock: Dblock, code: i32, parts: [&str; N]) -> Output {
    let output = dblock
        .args(["--connect-timeout", PATIENCE, "--if-unreachable", "run"])
        .sh("echo ran")
        .output();
    output
        .expect_code(code)
        .expect_stdout("")
        .expect_one_line("")
        .expect_said(parts);
    output.expect_took(Duration::ZERO, Duration::from_secs(25));
    output
}

/// A new account with the usual password; the URL with which it reaches the server.
fn account(server: &Server, rest: &str) -> String {
    let name = unique("u");
    let statement = format!("CREATE USER '{name}'@'%' IDENTIFIED BY '{PASSWORD}' {rest}");
    server.admin().query_drop(statement).unwrap();
    server.url().replace("dblock@", &format!("{name}@"))
}

/// The finding of `dblock check` on TLS.
#[track_caller]
fn finding(dblock: Dblock) -> Value {
    let output = dblock.arg("--json").output();
    output.expect_code(0).expect_silence();
    let found = output.json();
    let mut all = found["findings"].as_array().expect("a list").iter();
    let finding = all.find(|finding| finding["check"] == "TLS");
    finding.expect("it tells of TLS").clone()
}

fn dblock_check(url: &str) -> Dblock {
    Dblock::bare()
        .arg("check")
        .env("DBLOCK_URL", url)
        .env("DBLOCK_PASSWORD", PASSWORD)
        .env_remove("DBLOCK_SSL_MODE")
}

both_secured! {
    fn every_mode_but_disabled_encrypts(secured) {
        let server = secured.showing("right");
        // Its own server says so: it lets this account in over TLS alone.
        let url = account(&server, "REQUIRE SSL");
        works(at(&url));
        for mode in ["preferred", "required"] {
            works(at(&url).args(["--ssl-mode", mode]));
            works(at(&url).env("DBLOCK_SSL_MODE", mode));
        }
        for mode in ["verify-ca", "verify-identity"] {
            works(at(&url).args(["--ssl-mode", mode]).args(file("--ssl-ca", "ca.pem")));
        }
        works(at(&url).args(file("--ssl-ca", "ca.pem")));
        is_refused(at(&url).args(["--ssl-mode", "disabled"]), ACCOUNT_REFUSED, []);
        works(to_with(&server, "disabled"));
    }

    fn nothing_can_be_read_on_the_way(secured) {
        let server = secured.showing("right");
        let listen = |mode: &str| {
            let tap = Tap::to(server.port, Vec::new());
            works(at(&tap.url()).env("DBLOCK_SSL_MODE", mode));
            let heard = tap.heard();
            [&b"dblock\0"[..], b"GET_LOCK", b"RELEASE_LOCK"].map(|word| contains(&heard, word))
        };
        assert_eq!(listen("disabled"), [true; 3]);
        for mode in ["preferred", "required"] {
            assert_eq!(listen(mode), [false; 3], "{mode}");
        }
    }

    fn check_tells_how_it_is_encrypted_and_what_was_proved(secured) {
        let server = secured.showing("right");
        let check = || dblock_check(&server.url());
        for (mode, verified) in [("preferred", "no"), ("required", "no"), ("verify-ca", "ca"), ("verify-identity", "identity")] {
            let ca = (verified != "no").then(|| file("--ssl-ca", "ca.pem"));
            let found = finding(check().args(["--ssl-mode", mode]).args(ca.into_iter().flatten()));
            assert_eq!(found["verdict"], "ok", "{found:#}");
            assert_eq!(found["encrypted"], true, "{found:#}");
            assert_eq!(found["verified"], verified, "{found:#}");
            assert!(found["value"].as_str().unwrap().starts_with("TLSv1.3, TLS_"), "{found:#}");
        }
        let found = finding(check().args(["--ssl-mode", "disabled"]));
        assert_eq!(found["encrypted"], false, "{found:#}");
    }

    fn a_certificate_counts_for_what_the_mode_asks(secured) {
        let server = secured.showing("right");
        let (v4, v6) = (server.url(), format!("mysql://dblock@[::1]:{}/", server.port));
        let name = format!("mysql://dblock@{HOST}:{}/", server.port);
        let hosts = format!("127.0.0.1 {HOST}\n");
        let ca = || file("--ssl-ca", "ca.pem");
        for (certificate, by_ca, by_identity) in [
            ("right", "", ""),
            ("right-chain", "", ""),
            ("other-name", "", "is for *.elsewhere.test, 192.0.2.7, not for"),
            ("no-name", "", "no subjectAltName"),
            ("expired", "expired on 2021-01-01", "expired on 2021-01-01"),
            ("not-yet", "not valid before 2088-01-01", "not valid before 2088-01-01"),
            ("by-other-ca", "--ssl-ca", "--ssl-ca"),
            ("self-signed", "--ssl-ca", "--ssl-ca"),
            ("a-ca", "that of a CA", "that of a CA"),
            ("not-for-servers", "extendedKeyUsage", "extendedKeyUsage"),
            ("version-1", "version 1", "version 1"),
        ] {
            server.change(certificate);
            works(at(&v4).args(["--ssl-mode", "required"]));
            works(at(&v4));
            if certificate == "self-signed" {
                // It is its own CA.
                works(at(&v4).args(["--ssl-mode", "verify-identity"]).args(file("--ssl-ca", "self-signed.pem")));
            }
            for url in [&v4, &v6, &name] {
                for (mode, wrong) in [("verify-ca", by_ca), ("verify-identity", by_identity)] {
                    let (dblock, _hosts) = with_hosts(at(url).args(["--ssl-mode", mode]).args(ca()), &hosts);
                    if wrong.is_empty() {
                        works(dblock);
                    } else {
                        is_refused(dblock, CONFIGURATION, [&server.port.to_string(), "is not trusted: ", wrong]);
                    }
                }
            }
        }
    }

    fn the_name_that_the_user_gave_is_the_one_that_counts(secured) {
        let server = secured.showing("right");
        // Nobody listens at the first address.
        let hosts = format!("127.0.0.77 {HOST} other.example.test\n127.0.0.1 {HOST} other.example.test\n");
        let url = |host: &str| format!("mysql://dblock@{host}:{}/", server.port);
        let identity = |host: &str| {
            let dblock = at(&url(host)).args(["--ssl-mode", "verify-identity"]).args(file("--ssl-ca", "ca.pem"));
            with_hosts(dblock, &hosts)
        };
        for host in [HOST, "DB.Example.TEST"] {
            let (dblock, _hosts) = identity(host);
            works(dblock);
        }
        let (dblock, _hosts) = identity("other.example.test");
        is_refused(dblock, CONFIGURATION, [HOST, "not for other.example.test"]);
        let dblock = at(&url("other.example.test")).args(["--ssl-mode", "verify-ca"]).args(file("--ssl-ca", "ca.pem"));
        let (dblock, _hosts) = with_hosts(dblock, &hosts);
        works(dblock);
    }

    fn a_given_ca_is_trusted_alone_and_without_one_those_of_the_system(secured) {
        let server = secured.showing("right");
        let ca = |name: &str| Certificates::shared().path(name);
        let system = |name: &str| to(&server).env("SSL_CERT_FILE", ca(name)).env("SSL_CERT_DIR", "/nonexistent");
        for mode in ["verify-ca", "verify-identity"] {
            works(system("ca.pem").args(["--ssl-mode", mode]));
            is_refused(system("other-ca.pem").args(["--ssl-mode", mode]), CONFIGURATION, ["is not trusted", "--ssl-ca"]);
            let both = system("ca.pem").args(["--ssl-mode", mode]).args(file("--ssl-ca", "other-ca.pem"));
            is_refused(both, CONFIGURATION, ["is not trusted", "--ssl-ca"]);
        }
        // A CA alone means verify-ca.
        is_refused(to(&server).args(file("--ssl-ca", "other-ca.pem")), CONFIGURATION, ["is not trusted"]);
        works(to(&server).args(file("--ssl-ca", "ca.pem")));
        works(to(&server).env("DBLOCK_SSL_CA", ca("ca.pem")));
        let none = to(&server).env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/nonexistent");
        is_refused(none.args(["--ssl-mode", "verify-ca"]), CONFIGURATION, ["--ssl-ca"]);
    }

    fn a_file_of_cas_that_cannot_be_used_is_named_where_a_folder_of_others_lacks_the_right_one(secured) {
        let server = secured.showing("right");
        let folder = tempfile::tempdir().unwrap();
        let run = |file: &str| {
            let run = to(&server).env("SSL_CERT_FILE", file).env("SSL_CERT_DIR", folder.path());
            run.args(["--ssl-mode", "verify-ca"])
        };
        fs::copy(Certificates::shared().path("other-ca.pem"), folder.path().join("other-ca.pem")).unwrap();
        for (file, why) in [("/nonexistent/ca.pem", "No such file"), ("/etc/passwd", "no certificate in PEM")] {
            let named = format!("SSL_CERT_FILE, {file}: ");
            is_refused(run(file), CONFIGURATION, ["is not trusted", &named, why]);
        }
        // Where the folder has it, the file does not matter.
        fs::copy(Certificates::shared().path("ca.pem"), folder.path().join("ca.pem")).unwrap();
        works(run("/nonexistent/ca.pem"));
    }

    fn a_ca_that_is_not_used_is_a_warning(secured) {
        let server = secured.showing("right");
        for mode in ["preferred", "required"] {
            let run = || to_with(&server, mode).args(file("--ssl-ca", "other-ca.pem"));
            let output = run().sh("echo ran").output();
            output.expect_code(0).expect_stdout("ran\n").expect_one_line("verify-ca");
            works(run().arg("--quiet"));
        }
    }

    fn a_client_certificate_is_shown_where_the_account_wants_one(secured) {
        let server = secured.showing("right");
        let url = account(&server, "REQUIRE X509");
        is_refused(at(&url), ACCOUNT_REFUSED, []);
        for (certificate, key) in [
            ("client.pem", "client-key.pem"),
            ("client.pem", "client-sec1-key.pem"),
            ("client-rsa.pem", "client-rsa-key.pem"),
            ("client-rsa.pem", "client-rsa-pkcs1-key.pem"),
            ("client-chain.pem", "client-chain-key.pem"),
            ("client-version-1.pem", "client-version-1-key.pem"),
        ] {
            works(at(&url).args(shows(certificate, key)));
            works(at(&url).args(shows(certificate, key)).args(file("--ssl-ca", "ca.pem")));
        }
        let in_variables = at(&url)
            .env("DBLOCK_SSL_CERT", Certificates::shared().path("client.pem"))
            .env("DBLOCK_SSL_KEY", Certificates::shared().path("client-key.pem"));
        works(in_variables);
        let wrong = || shows("client-by-other-ca.pem", "client-by-other-ca-key.pem");
        is_refused(at(&url).args(wrong()), CONFIGURATION, ["refused the TLS handshake", "--ssl-cert"]);
        is_refused(to(&server).args(wrong()), CONFIGURATION, ["refused the TLS handshake", "--ssl-cert"]);
    }

    fn a_key_that_others_can_read_is_warned_of(secured) {
        let server = secured.showing("right");
        let folder = tempfile::tempdir().expect("a scratch folder");
        let key = folder.path().join("key.pem");
        fs::copy(Certificates::shared().path("client-key.pem"), &key).expect("a scratch file");
        let run = |mode| {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("a file of ours");
            let dblock = to_with(&server, "required").args(file("--ssl-cert", "client.pem"));
            dblock.arg("--ssl-key").arg(&key).command(["true"]).output()
        };
        run(0o604).expect_code(0).expect_one_line(key.to_str().unwrap()).expect_said(["chmod 600"]);
        run(0o640).expect_code(0).expect_silence();
    }

    fn a_password_of_the_servers_usual_kind(secured) {
        let server = secured.showing("right");
        // On MySQL the first login of a new account takes the long way, by which the password itself is sent through TLS.
        let url = account(&server, "");
        let tap = Tap::to(server.port, Vec::new());
        for _ in 0..2 {
            works(at(&url.replace(&server.port.to_string(), &tap.port.to_string())));
        }
        assert!(!contains(&tap.heard(), PASSWORD.as_bytes()));
        is_refused(at(&url).env("DBLOCK_PASSWORD", "wr0ng"), ACCOUNT_REFUSED, []);
    }

    fn neither_a_password_nor_a_key_is_shown(secured) {
        let server = secured.showing("right");
        let key = fs::read_to_string(Certificates::shared().path("client-key.pem")).unwrap();
        let key = key.lines().nth(1).expect("a line of the key");
        let run = |password: &str| {
            let dblock = to(&server).arg("-vv").args(shows("client.pem", "client-key.pem"));
            let output = dblock.args(file("--ssl-ca", "ca.pem")).env("DBLOCK_PASSWORD", password).command(["true"]).output();
            assert!(!output.stderr.contains(password) && !output.stderr.contains(key), "{output:#?}");
            output
        };
        run(PASSWORD).expect_code(0).expect_said(["(TLSv1.", "GET_LOCK"]);
        run("wr0ng").expect_code(ACCOUNT_REFUSED);
    }

    fn a_lock_is_held_at_rest_and_its_loss_is_noticed_at_once(secured) {
        let server = secured.showing("right");
        let name = unique("held");
        let mut running = Dblock::run(&server, &name)
            .env_remove("DBLOCK_SSL_MODE")
            .args(["-vv", "--ttl", "16s"])
            .args(file("--ssl-ca", "ca.pem"))
            .sh("echo ready; read line; exit 7")
            .stdin(std::process::Stdio::piped())
            .spawn();
        running.wait_line("ready", SOON);
        let first = server.holder(&name).expect("it is held");
        let said = |running: &crate::harness::Running, word: &str| running.stderr().matches(word).count();
        // At rest: what the server sends unasked after the handshake is no end of the session.
        let before = said(&running, "IS_USED_LOCK");
        eventually("it proves three times that it has the lock", SOON, || said(&running, "IS_USED_LOCK") >= before + 3);
        assert_eq!(said(&running, "connected to"), 1, "{}", running.stderr());
        assert_eq!(server.holder(&name), Some(first));

        server.admin().query_drop(format!("KILL {first}")).unwrap();
        // Long before the next proof.
        running.wait_stderr("reacquired after", SOON);
        let second = server.holder(&name).expect("it is held again");
        assert_ne!(first, second);
        drop(running.take_stdin());
        running.wait_within(SOON).expect_code(7);
        assert_eq!(server.holder(&name), None);
        eventually("its session is gone", SOON, || !has_session(&mut server.admin(), second));
    }

    fn a_waiter_gets_the_lock_when_it_is_free(secured) {
        let server = secured.showing("right");
        let name = unique("waits");
        let other = server.hold(&name);
        let at_once = || Dblock::run(&server, &name).env_remove("DBLOCK_SSL_MODE").args(file("--ssl-ca", "ca.pem"));
        at_once().command(["true"]).output().expect_code(75);
        let run = || at_once().args(["--wait", "forever"]);
        let waiting = [run().sh("exit 3").spawn(), run().sh("exit 3").spawn()];
        eventually("both wait", SOON, || server.waiters(&name).len() == 2);
        drop(other);
        for one in waiting {
            one.wait().expect_code(3).expect_silence();
        }
        assert_eq!(server.holder(&name), None);
        // And one that is killed leaves no place in the queue.
        let other = server.hold(&name);
        let waiting = run().command(["true"]).spawn();
        eventually("it waits", SOON, || server.waiters(&name).len() == 1);
        drop(waiting);
        eventually("it waits no more", SOON, || server.waiters(&name).is_empty());
        drop(other);
    }

    fn a_connection_that_is_cut_is_sought_again(secured) {
        let server = secured.showing("right");
        let proxy = Proxy::to(&server);
        let name = unique("cut");
        let mut running = Dblock::run_at(&proxy.url(), &name)
            .env_remove("DBLOCK_SSL_MODE")
            .args(file("--ssl-ca", "ca.pem"))
            .args(["--ssl-mode", "verify-identity"])
            .sh("echo ready; exec cat")
            .stdin(std::process::Stdio::piped())
            .spawn();
        running.wait_line("ready", SOON);
        proxy.cut();
        running.wait_stderr("reacquired after", SOON);
        // The other server that it finds there must be the right one as well.
        server.change("other-name");
        proxy.cut();
        let output = running.wait_within(SOON);
        assert!(matches!(output.code, Some(74 | CONFIGURATION)), "{output:#?}");
        output.expect_said(["is not trusted"]);
        proxy.refuse(true);
    }

    fn the_name_of_the_server_is_said_only_where_it_is_verified(secured) {
        let server = secured.showing("right");
        let says = |mode: &str| {
            let tap = Tap::to(server.port, Vec::new());
            let url = tap.url().replace("127.0.0.1", HOST);
            let dblock = at(&url).args(["--ssl-mode", mode]).args(file("--ssl-ca", "ca.pem")).arg("-q");
            let (dblock, _hosts) = with_hosts(dblock, &format!("127.0.0.1 {HOST}\n"));
            works(dblock);
            contains(&tap.heard(), HOST.as_bytes())
        };
        assert_eq!(["preferred", "verify-ca", "verify-identity"].map(says), [false, false, true]);
    }

    fn a_server_that_is_not_trusted_is_passed_over_where_there_is_another(secured) {
        let server = secured.showing("right");
        let other = Server::shared(server.kind);
        // The first has no certificate of that CA, or no TLS.
        let url = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:{}/", other.port, server.port);
        let run = || at(&url).args(["--ssl-mode", "verify-ca"]).args(file("--ssl-ca", "ca.pem"));
        let output = run().sh("echo ran").output();
        output.expect_code(0).expect_stdout("ran\n").expect_one_line(&other.port.to_string());
        // Where no other is left it is the reason.
        let alone = format!("mysql://dblock@127.0.0.1:{0},127.0.0.1:{0}/", other.port);
        let alone = at(&alone).args(["--ssl-mode", "verify-ca"]).args(file("--ssl-ca", "ca.pem"));
        let output = alone.args(["--connect-timeout", PATIENCE]).sh("echo ran").output();
        output.expect_code(CONFIGURATION).expect_stdout("");
        assert!(output.took < SOON, "{output:#?}");
        // One that cannot be reached may come back.
        let gone = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:1/", other.port);
        let gone = at(&gone).args(["--ssl-mode", "verify-ca", "--connect-timeout", "1"]).args(file("--ssl-ca", "ca.pem"));
        gone.command(["true"]).output().expect_code(UNREACHABLE);
    }

    fn a_server_that_is_read_only_is_waited_for_beside_one_that_is_not_trusted(secured) {
        let other = Server::shared(secured.server.kind);
        let replica = Secured::start(secured.server.kind, &[]);
        replica.server.set_read_only(true);
        let url = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:{}/", other.port, replica.server.port);
        let dblock = at(&url).args(["--ssl-mode", "verify-ca", "--connect-timeout", PATIENCE, "-v"]).args(file("--ssl-ca", "ca.pem"));
        let mut run = dblock.sh("echo ran").spawn();
        run.wait_stderr("is read-only", SOON);
        replica.server.set_read_only(false);
        run.wait_within(SOON).expect_code(0).expect_stdout("ran\n");
    }

    fn a_network_that_falls_silent_in_the_handshake_is_given_up(secured) {
        let server = secured.showing("right");
        // It carries the server's greeting and then nothing: what the client says next is never answered.
        let tap = Tap::deaf(server.port);
        let output = at(&tap.url()).args(["--connect-timeout", "1"]).sh("echo ran").output();
        // On a busy machine its own time is over before it hears that the server has not answered in time.
        output.expect_code(UNREACHABLE).expect_stdout("").expect_one_line("no server could be reached within 1s: ");
        output.expect_took(Duration::ZERO, Duration::from_secs(1) + slack());
    }
}

#[test]
fn a_server_without_tls() {
    for (kind, option) in [
        (Kind::MariaDb, "--skip-ssl"),
        (Kind::MySql, "--tls-version="),
    ] {
        let server = Server::private_with(kind, &[option]);
        works(to(&server));
        works(to_with(&server, "disabled"));
        let output = to_with(&server, "preferred")
            .arg("-v")
            .sh("echo ran")
            .output();
        output
            .expect_code(0)
            .expect_stdout("ran\n")
            .expect_said(["offers no TLS"]);
        for mode in ["required", "verify-ca", "verify-identity"] {
            let dblock = to_with(&server, mode);
            let ca = (mode != "required").then(|| file("--ssl-ca", "ca.pem"));
            is_refused(
                dblock.args(ca.into_iter().flatten()),
                CONFIGURATION,
                ["offers no TLS"],
            );
        }
        let found = finding(dblock_check(&server.url()));
        assert_eq!(found["encrypted"], false, "{found:#}");
        let advice = found["advice"].as_str().expect("an advice");
        assert!(advice.contains("connects twice"), "{found:#}");
        assert!(
            advice.contains("ssl-mode = disabled in [dblock]"),
            "{found:#}"
        );
        let found = finding(dblock_check(&server.url()).args(["--ssl-mode", "disabled"]));
        assert_eq!(found["advice"], Value::Null, "{found:#}");
        if kind == Kind::MariaDb {
            // What the advice is about, and that it helps.
            let log = server.socket.parent().unwrap().join("error.log");
            let aborted = || {
                let log = fs::read_to_string(&log).unwrap();
                log.matches("closed normally without authentication")
                    .count()
            };
            // A connection is logged when the server ends it.
            let left = "SELECT COUNT(*) FROM information_schema.processlist WHERE user IN ('dblock', 'unauthenticated user')";
            let mut admin = server.admin();
            eventually("those before are logged", SOON, || {
                admin.query_first(left).unwrap() == Some(0)
            });
            let before = aborted();
            works(to_with(&server, "disabled"));
            assert_eq!(aborted(), before);
            works(to_with(&server, "preferred"));
            eventually("it is logged", SOON, || aborted() > before);
        }
        // The second connection follows at once, and the first leaves nothing.
        let proxy = Proxy::to(&server);
        works(at(&proxy.url()));
        assert_eq!(proxy.connections(), 2);
    }
}

#[test]
fn each_version_of_tls_does_all_that_the_other_does() {
    for (kind, version) in [
        (Kind::MariaDb, "TLSv1.2"),
        (Kind::MySql, "TLSv1.2"),
        (Kind::MariaDb, "TLSv1.3"),
        (Kind::MySql, "TLSv1.3"),
    ] {
        let secured = Secured::start(kind, &[&format!("--tls-version={version}")]);
        let server = secured.showing("right");
        let identity = || {
            let dblock = to_with(&server, "verify-identity");
            dblock.args(file("--ssl-ca", "ca.pem"))
        };
        works(identity());
        let found = finding(dblock_check(&server.url()));
        let expected = format!("{version}, TLS_");
        assert!(
            found["value"].as_str().unwrap().starts_with(&expected),
            "{found:#}"
        );
        let url = account(&server, "REQUIRE X509");
        works(at(&url).args(shows("client.pem", "client-key.pem")));
        works(at(&url).args(shows("client-version-1.pem", "client-version-1-key.pem")));
        is_refused(at(&url), ACCOUNT_REFUSED, []);
        // More than once: with TLS 1.3 the refusal races with the login.
        for _ in 0..5 {
            let wrong = shows("client-by-other-ca.pem", "client-by-other-ca-key.pem");
            is_refused(to(&server).args(wrong), CONFIGURATION, ["--ssl-cert"]);
        }
        server.change("other-name");
        is_refused(identity(), CONFIGURATION, ["elsewhere.test"]);
        server.change("version-1");
        works(to_with(&server, "required"));
    }
}

#[test]
fn a_local_socket_has_no_tls() {
    let secured = Secured::shared(Kind::MySql);
    let server = secured.showing("right");
    let socket = server.socket.to_str().expect("an ASCII path");
    let run = || {
        let run = Dblock::bare().env_remove("DBLOCK_SSL_MODE");
        run.args(["run", "--name", &unique("socket"), "--user", "dblock"])
            .env("DBLOCK_PASSWORD", PASSWORD)
    };
    works(run().args(["--socket", socket]));
    works(run().args(["--socket", socket, "--ssl-mode", "preferred"]));
    for mode in ["required", "verify-ca", "verify-identity"] {
        for named in [["--socket", socket], ["--host", "localhost"]] {
            let dblock = run().args(named).args(["--ssl-mode", mode]);
            is_refused(dblock, CONFIGURATION, ["socket", "--ssl-mode", mode]);
        }
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named_and_not_quoted() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let scratch = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a scratch file");
        path
    };
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let pem = |name: &str| fs::read(Certificates::shared().path(name)).expect("it was made");
    let secret = "c2VjcmV0";
    let damaged = format!(
        "-----BEGIN CERTIFICATE-----\n{secret}!\n-----END CERTIFICATE-----\n\
         -----BEGIN PRIVATE KEY-----\n{secret}!\n-----END PRIVATE KEY-----\n"
    );
    let no_der = damaged.replace('!', "");
    let bad = [
        folder.path().join("missing"),
        folder.path().to_owned(),
        pipe,
        "/dev/zero".into(),
        scratch("empty", b""),
        scratch("words", secret.as_bytes()),
        scratch("bytes", &[0xff; 4096]),
        scratch("endless", &vec![b'\n'; 2 * 1024 * 1024]),
        scratch("damaged", damaged.as_bytes()),
        scratch("no-der", no_der.as_bytes()),
        scratch("half", &pem("ca.pem")[..200]),
    ];
    let (certificate, key) = (
        Certificates::shared().path("client.pem"),
        Certificates::shared().path("client-key.pem"),
    );
    let run = || at(&url_of_port(1));
    let refused = |dblock: Dblock, option: &str, path: &Path| {
        let output = is_refused(dblock, CONFIGURATION, [option, path.to_str().unwrap()]);
        assert!(!output.stderr.contains(secret), "{output:#?}");
    };
    for path in &bad {
        refused(run().arg("--ssl-ca").arg(path), "--ssl-ca", path);
        let with_key = run().arg("--ssl-key").arg(&key).arg("--ssl-cert").arg(path);
        // Without a look at it a certificate of version 1 would not do; that it does not fit its key is told all the same.
        refused(
            with_key,
            "",
            if path.ends_with("no-der") { &key } else { path },
        );
        let with_certificate = run().arg("--ssl-cert").arg(&certificate);
        refused(
            with_certificate.arg("--ssl-key").arg(path),
            "--ssl-key",
            path,
        );
    }
    for (name, why) in [
        ("encrypted-key.pem", "encrypted"),
        ("encrypted-pkcs1-key.pem", "encrypted"),
        ("client-rsa-key.pem", "not the key of the certificate"),
        ("client-version-1-key.pem", "not the key of the certificate"),
        ("p521-key.pem", "kind of key"),
        ("client.pem", "no private key"),
    ] {
        let path = Certificates::shared().path(name);
        is_refused(
            run().args(shows("client.pem", name)),
            CONFIGURATION,
            ["--ssl-key", path.to_str().unwrap(), why],
        );
    }
    is_refused(
        run().args(shows("client-version-1.pem", "client-rsa-key.pem")),
        CONFIGURATION,
        ["not the key of the certificate"],
    );
    is_refused(
        run().args(file("--ssl-cert", "client.pem")),
        CONFIGURATION,
        ["--ssl-key"],
    );
    is_refused(
        run().args(file("--ssl-key", "client-key.pem")),
        CONFIGURATION,
        ["--ssl-cert"],
    );
    // Where there is no TLS, no file is looked at.
    let disabled = at(&url_of_port(1)).args(["--ssl-mode", "disabled", "--connect-timeout", "0.1"]);
    let output = disabled
        .arg("--ssl-ca")
        .arg(&bad[0])
        .command(["true"])
        .output();
    output.expect_code(UNREACHABLE);
}

/// A greeting that offers TLS.
fn greeting_with_tls() -> Vec<u8> {
    let mut greeting = greeting(Kind::MySql, 7);
    let salt = b"saltsalt\0";
    let at = greeting.windows(salt.len()).position(|part| part == salt);
    // The lower half of the capabilities, of which CLIENT_SSL is 0x0800.
    greeting[at.expect("a salt") + salt.len() + 1] |= 0x08;
    framed(0, &greeting)
}

#[test]
fn a_handshake_that_fails_is_never_followed_by_a_login_in_clear() {
    type Talk = fn(&mut TcpStream);
    let cases: [(&str, i32, Talk); 5] = [
        ("garbage", INTERNAL, |stream| {
            let _ = stream.write_all(&[0x55; 512]);
            until_closed(stream);
        }),
        ("a greeting in clear", INTERNAL, |stream| {
            let _ = stream.write_all(&greeting_with_tls());
            until_closed(stream);
        }),
        ("an alert", CONFIGURATION, |stream| {
            // A fatal handshake_failure.
            let _ = stream.write_all(&[0x15, 3, 3, 0, 2, 2, 40]);
            until_closed(stream);
        }),
        ("the end", UNREACHABLE, |_| {}),
        ("silence", UNREACHABLE, until_closed),
    ];
    let check = |case: &str, code: i32, talk: Talk, mode: &str| {
        let heard = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let notes = Arc::clone(&heard);
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.write_all(&greeting_with_tls());
                let mut bytes = vec![0; 4096];
                // The request for TLS, and what follows it; a login comes in one piece as well.
                let mut length = 0;
                while length <= 36 {
                    match stream.read(&mut bytes[length..]) {
                        Ok(more @ 1..) => length += more,
                        _ => break,
                    }
                }
                bytes.truncate(length);
                // One that says nothing has no time left.
                if length > 0 {
                    notes.lock().unwrap().push(bytes);
                }
                talk(&mut stream);
            }
        });
        let name = unique("tls");
        // That time is over before a server is out of reach; all else is said at once.
        let limit: u64 = if code == UNREACHABLE { 4 } else { 20 };
        let output = Dblock::run_at(&url_of_port(port), &name)
            .args(["--ssl-mode", mode, "--connect-timeout", &limit.to_string()])
            .args(
                (mode == "verify-identity")
                    .then(|| file("--ssl-ca", "ca.pem"))
                    .into_iter()
                    .flatten(),
            )
            .sh("echo ran")
            .output();
        output
            .expect_code(code)
            .expect_stdout("")
            .expect_one_line("");
        output.expect_took(Duration::ZERO, Duration::from_secs(limit) + slack());
        eventually("no process is left", SOON, || {
            processes_with(&name).is_empty()
        });
        let heard = heard.lock().unwrap();
        assert!(heard.iter().any(|bytes| bytes.len() > 36), "{case}");
        for bytes in &*heard {
            // The packet's header, 32 bytes of which the first four are capabilities, and then a record of TLS, if there is time left.
            assert!(
                bytes.len() >= 36 && bytes[..4] == [32, 0, 0, 1],
                "{case}, {mode}: {bytes:?}"
            );
            assert_eq!(bytes[5] & 0x08, 0x08, "{case}, {mode}: {bytes:?}");
            assert!(
                bytes[36..].starts_with(&[0x16, 3]) || bytes.len() == 36 && code == UNREACHABLE,
                "{case}, {mode}: {bytes:?}"
            );
            assert!(!contains(bytes, b"dblock"), "{case}, {mode}: {bytes:?}");
        }
    };
    for (case, code, talk) in cases {
        thread::scope(|scope| {
            for mode in ["preferred", "required", "verify-identity"] {
                scope.spawn(move || check(case, code, talk, mode));
            }
        });
    }
}

#[test]
fn what_came_in_clear_before_tls_is_no_answer() {
    // Behind the server's greeting somebody in between writes: logged in, the lock is had, and so on for ever.
    let ok = |sequence| framed(sequence, &[0, 0, 0, 2, 0, 0, 0]);
    let number = b"\x03def\0\0\0\x01c\0\x0c\x2d\0\xff\0\0\0\xfd\0\0\0\0\0";
    let row = [
        framed(1, &[1]),
        framed(2, number),
        framed(3, &[0xfe, 0, 0, 2, 0]),
        framed(4, b"\x011"),
        framed(5, &[0xfe, 0, 0, 2, 0]),
    ];
    let forged = [ok(3), row.concat().repeat(50)].concat();
    for kind in [Kind::MariaDb, Kind::MySql] {
        let secured = Secured::shared(kind);
        let server = secured.showing("right");
        for mode in ["verify-ca", "verify-identity"] {
            let tap = Tap::to(server.port, forged.clone());
            let dblock = at(&tap.url()).args(["--ssl-mode", mode, "--connect-timeout", "20"]);
            let output = dblock
                .args(file("--ssl-ca", "ca.pem"))
                .sh("echo ran")
                .output();
            output
                .expect_code(INTERNAL)
                .expect_stdout("")
                .expect_one_line("stands between");
        }
    }
}

/// Runs dblock against a server that shakes hands well, reads the login and does `talk` in place of an answer.
#[track_caller]
fn against(talk: impl Fn(&mut Accepted) + Send + 'static) -> Output {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let config = server_config(false);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let tls = ServerConnection::new(Arc::clone(&config)).expect("a good configuration");
            let mut tls = StreamOwned::new(tls, stream);
            let greeted = tls.sock.write_all(&greeting_with_tls());
            if greeted
                .and_then(|()| tls.sock.read_exact(&mut [0; 36]))
                .is_ok()
            {
                let _ = tls.read(&mut [0; 4096]);
                talk(&mut tls);
            }
        }
    });
    let dblock =
        at(&url_of_port(port)).args(["--ssl-mode", "verify-identity", "--connect-timeout", "12"]);
    let output = dblock
        .args(file("--ssl-ca", "ca.pem"))
        .sh("echo ran")
        .output();
    output.expect_stdout("").expect_one_line("");
    output.expect_took(Duration::ZERO, Duration::from_secs(12) + slack());
    output
}

type Accepted = StreamOwned<ServerConnection, TcpStream>;

/// A server's end of TLS, with the right certificate.
fn server_config(wants_certificate: bool) -> Arc<ServerConfig> {
    let file = |name: &str| Certificates::shared().path(name);
    let certificate = CertificateDer::from_pem_file(file("right.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(file("server-key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("TLS 1.2 and 1.3");
    let config = if wants_certificate {
        let clients = WebPkiClientVerifier::builder_with_provider(roots(), provider);
        config.with_client_cert_verifier(clients.build().expect("a CA"))
    } else {
        config.with_no_client_auth()
    };
    Arc::new(
        config
            .with_single_cert(vec![certificate], key)
            .expect("they fit"),
    )
}

fn roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(Certificates::shared().path("ca.pem"));
    roots.add(ca.expect("a certificate")).expect("a CA");
    Arc::new(roots)
}

#[test]
fn a_server_that_hangs_up_in_the_login_without_a_good_bye_is_unreachable() {
    against(|tls| drop(tls.sock.shutdown(Shutdown::Both)))
        .expect_code(UNREACHABLE)
        .expect_said(["closed the connection"]);
    against(|tls| while let Ok(1..) = tls.read(&mut [0; 4096]) {}).expect_code(UNREACHABLE);
}

#[test]
fn garbage_inside_tls_is_told() {
    against(|tls| drop(tls.write_all(&framed(3, &[0x20; 200])))).expect_code(INTERNAL);
    // And in place of a record of TLS.
    against(|tls| drop(tls.sock.write_all(&[0x17, 3, 3, 0, 20, 0x55].repeat(8))))
        .expect_code(INTERNAL);
}

#[test]
fn a_server_does_not_get_the_password_itself_by_asking_for_it() {
    let (tell, told) = std::sync::mpsc::channel();
    against(move |tls| {
        let _ = tls.write_all(&framed(3, b"\xfemysql_clear_password\0"));
        let mut reply = [0; 4096];
        let length = tls.read(&mut reply).unwrap_or(0);
        let _ = tell.send(reply[..length].to_vec());
    })
    .expect_code(ACCOUNT_REFUSED);
    for reply in told.try_iter() {
        assert!(!contains(&reply, PASSWORD.as_bytes()), "{reply:?}");
    }
}

/// A stream to a server in this process, which closes it when the handshake displeases it.
#[derive(Debug)]
struct ToServer {
    server: ServerConnection,
    pleased: bool,
}

impl Read for ToServer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.server.write_tls(&mut io::Cursor::new(buffer))
    }
}

impl Write for ToServer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.pleased {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let length = self.server.read_tls(&mut &*bytes)?;
        self.pleased = self.server.process_new_packets().is_ok();
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn why_a_server_has_hung_up_is_heard_also_by_one_that_is_about_to_write() {
    let config =
        ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .expect("TLS 1.2 and 1.3")
            .with_root_certificates(roots())
            .with_no_client_auth();
    let connector = native_tls::TlsConnector::builder()
        .build()
        .expect("it is always there");
    let stream = || ToServer {
        server: ServerConnection::new(server_config(true)).expect("a good configuration"),
        pleased: true,
    };
    let name = ServerName::try_from(HOST).expect("a name");
    native_tls::prepare_tls(Arc::new(config), name);
    let mut tls = connector
        .connect("", stream())
        .expect("the client's part of it is done");
    let written = tls.write_all(b"the login").and_then(|()| tls.flush());
    let error = native_tls::Error::from(written.expect_err("it has hung up"));
    let certificate_required = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
    assert!(
        matches!(&error, native_tls::Error::Tls(why) if *why == certificate_required),
        "{error:?}"
    );
    // What was prepared was for one connection.
    let again = connector
        .connect("", stream())
        .expect_err("nothing was prepared");
    assert!(
        matches!(again.cause, native_tls::Error::NotPrepared),
        "{again:?}"
    );
}

fn until_closed(stream: &mut TcpStream) {
    while let Ok(1..) = stream.read(&mut [0; 4096]) {}
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|part| part == word)
}

/// What stands between dblock and a server, and hears what either says.
struct Tap {
    port: u16,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Tap {
    /// Writes `forged` behind the server's first words.
    fn to(target: u16, forged: Vec<u8>) -> Self {
        Self::start(target, forged, false)
    }

    /// Carries only what the server says.
    fn deaf(target: u16) -> Self {
        Self::start(target, Vec::new(), true)
    }

    fn start(target: u16, forged: Vec<u8>, deaf: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let heard = Arc::<Mutex<Vec<u8>>>::default();
        let notes = Arc::clone(&heard);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", target)).expect("the server listens");
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let carry = |from: &TcpStream, to: &TcpStream, forged: Vec<u8>, deaf: bool| {
                    let (from, to) = (from.try_clone(), to.try_clone());
                    let notes = Arc::clone(&notes);
                    thread::spawn(move || carry(from?, to?, forged, deaf, &notes));
                };
                carry(&client, &server, Vec::new(), deaf);
                carry(&server, &client, forged.clone(), false);
            }
        });
        Self { port, heard }
    }

    fn url(&self) -> String {
        url_of_port(self.port)
    }

    fn heard(&self) -> Vec<u8> {
        self.heard.lock().unwrap().clone()
    }
}

fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    mut forged: Vec<u8>,
    deaf: bool,
    notes: &Mutex<Vec<u8>>,
) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        notes.lock().unwrap().extend_from_slice(&buffer[..length]);
        if !deaf {
            // In one piece.
            let bytes = [&buffer[..length], &std::mem::take(&mut forged)].concat();
            to.write_all(&bytes)?;
        }
    }
    to.shutdown(Shutdown::Write)
}
