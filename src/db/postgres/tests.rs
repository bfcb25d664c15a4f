//! Logging in to a real server, and what it answers.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::Account;
use crate::base::log::Listener;
use crate::db::address::Address;
use crate::db::target::{
    ConnectOptions, Kind, Password, PostgresOptions, SslMode, Target, TlsOptions,
};
use crate::db::wire::Wire;

const LIMIT: Duration = Duration::from_secs(10);

struct Server {
    process: Child,
    folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let bin = Path::new("/usr/lib/postgresql/15/bin");
        let folder = tempfile::tempdir().unwrap();
        let run = |program: &Path| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
            command.arg(program).current_dir(folder.path());
            command
        };
        assert!(
            Command::new("chown")
                .arg("postgres")
                .arg(folder.path())
                .status()
                .unwrap()
                .success()
        );
        fs::write(folder.path().join("password"), "secret").unwrap();
        let made = run(&bin.join("initdb"))
            .args([
                "-D",
                "data",
                "-U",
                "app",
                "-A",
                "scram-sha-256",
                "--pwfile=password",
            ])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let cert = Command::new("openssl")
            .args("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout data/server.key -out data/server.crt".split(' '))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(cert.status.success());
        Command::new("chown")
            .args(["postgres", "data/server.key"])
            .current_dir(folder.path())
            .status()
            .unwrap();
        let process = run(&bin.join("postgres"))
            .args([
                "-D",
                "data",
                "-k",
                &folder.path().display().to_string(),
                "-c",
                "port=54329",
                "-c",
                "ssl=on",
                "-c",
                "fsync=off",
            ])
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let server = Self { process, folder };
        let begun = Instant::now();
        while !server.socket().exists()
            || server.log_in("secret", SslMode::Disabled, false).is_err()
        {
            assert!(
                begun.elapsed() < LIMIT,
                "{:?}",
                server.log_in("secret", SslMode::Disabled, false).err()
            );
            sleep(Duration::from_millis(50));
        }
        server
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join(".s.PGSQL.54329")
    }

    fn log_in(&self, password: &str, mode: SslMode, tcp: bool) -> Result<Box<dyn Wire>, String> {
        let target = if tcp {
            Target::Tcp("127.0.0.1".to_owned(), 54329)
        } else {
            Target::Socket(self.socket())
        };
        let options = ConnectOptions {
            kind: Kind::Postgres,
            postgres: PostgresOptions::default(),
            targets: vec![target.clone()],
            user: Some("app".to_owned()),
            password: Password::Given(Zeroizing::new(password.to_owned())),
            tls: TlsOptions {
                mode,
                ca: None,
                identity: None,
                server_public_key: None,
            },
            connect_timeout: LIMIT,
            database: "postgres".to_owned(),
            schema: "dblock".to_owned(),
        };
        let listener: Listener = Rc::new(|_, _| {});
        let account = Account::new(&options, &HashMap::new(), LIMIT, &listener)
            .map_err(|failure| failure.line)?;
        let address = Address::all_of(&target, &|_| {})
            .map_err(|fault| fault.to_string())?
            .remove(0);
        account
            .log_in(&target, (&address, "here"), LIMIT, &|_| {})
            .map_err(|fault| fault.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(self.process.id().cast_signed()),
            nix::sys::signal::Signal::SIGINT,
        );
        let _ = self.process.wait();
    }
}

#[test]
fn a_session_logs_in_asks_and_is_refused() {
    let server = Server::start();
    for (mode, tcp) in [
        (SslMode::Disabled, false),
        (SslMode::Disabled, true),
        (SslMode::Required, true),
    ] {
        let mut wire = server.log_in("secret", mode, tcp).unwrap();
        assert_eq!(wire.encryption().is_some(), mode == SslMode::Required);
        let mut replies = Vec::new();
        wire.send("SELECT pg_backend_pid() AS pid, NULL AS nothing; SELECT 1 UNION SELECT 2; CREATE TEMP TABLE t (x int); INSERT INTO t VALUES (1), (2)", 1, &mut replies)
            .map_err(|failed| failed.fault.to_string())
            .unwrap();
        assert_eq!(replies.len(), 4);
        let row = &replies[0].rows[0];
        assert_eq!(row.get::<u64>("pid").unwrap(), wire.id());
        assert_eq!(row.get::<Option<String>>("nothing").unwrap(), None);
        assert_eq!(replies[1].rows.len(), 1);
        assert_eq!(replies[3].changed, 2);
        let refused = wire
            .send("SELECT * FROM nothing_there", 1, &mut Vec::new())
            .err()
            .unwrap();
        assert!(
            refused.code.is_some() && matches!(refused.fault, crate::db::Fault::NoSuchTable(_)),
            "{:?}",
            refused.fault
        );
        replies.clear();
        wire.send("SELECT 7 AS x", 1, &mut replies)
            .map_err(|failed| failed.fault.to_string())
            .unwrap();
        assert_eq!(replies[0].rows[0].get::<u32>("x").unwrap(), 7);
        let ended = wire
            .send(
                "SELECT pg_terminate_backend(pg_backend_pid())",
                1,
                &mut Vec::new(),
            )
            .err()
            .unwrap();
        assert!(
            ended.code.is_none() && matches!(ended.fault, crate::db::Fault::Gone(_)),
            "{:?}",
            ended.fault
        );
    }
    let refused = server
        .log_in("wrong", SslMode::Required, true)
        .err()
        .unwrap();
    assert!(
        refused.contains("password authentication failed"),
        "{refused}"
    );
}
