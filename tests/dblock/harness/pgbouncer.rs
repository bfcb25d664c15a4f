//! `PgBouncer` in front of a server, until it is dropped.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use super::cluster::free_port;
use super::postgres::DATABASE;
use super::{Kind, PASSWORD, SOON, Server, eventually, url_of_kind};

/// A pooler that keeps a session of the server's for each client's session, or for each of its transactions.
#[derive(Debug)]
pub struct PgBouncer {
    pub port: u16,
    process: Child,
    _folder: tempfile::TempDir,
}

impl PgBouncer {
    /// With `pool_mode` as this says.
    pub fn start(server: &Server, pool_mode: &str) -> Self {
        Self::start_with(server, pool_mode, "")
    }

    /// One that takes these settings of a session, and drops them.
    pub fn start_with(server: &Server, pool_mode: &str, dropped: &str) -> Self {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = |name: &str| folder.path().join(name);
        let settings = format!(
            "[databases]
{DATABASE} = host=127.0.0.1 port={} dbname={DATABASE}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {}
pool_mode = {pool_mode}
ignore_startup_parameters = {dropped}
admin_users = admin
logfile =
",
            server.port,
            path("users").display()
        );
        fs::write(path("settings.ini"), settings).expect("a scratch file");
        fs::write(path("users"), format!("\"dblock\" \"{PASSWORD}\"\n")).expect("a scratch file");
        // It refuses to run as root, as PostgreSQL does; whoever it runs as, it reads its settings.
        // The cache it is in may be its owner's alone.
        let script = r#". script/lib/servers.sh
            pgbouncer=$(find_pgbouncer) || die 'PgBouncer is missing: script/bootstrap installs it'
            cp "$pgbouncer" "$1/pgbouncer"
            become=()
            if [[ $EUID -eq 0 ]]; then
                chown -R postgres "$1"
                become=(--reuid postgres --regid postgres --clear-groups)
            fi
            exec setpriv --pdeathsig KILL "${become[@]}" "$1/pgbouncer" --quiet "$1/settings.ini""#;
        let process = Command::new("bash")
            .args(["-c", script, "script/pgbouncer"])
            .arg(folder.path())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("bash starts");
        let mut pooler = Self {
            port,
            process,
            _folder: folder,
        };
        eventually("PgBouncer is ready", SOON, || {
            let ended = pooler.process.try_wait().expect("our child");
            assert!(ended.is_none(), "PgBouncer has ended: {ended:?}");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        pooler
    }

    /// What a user gives as `--url`.
    pub fn url(&self) -> String {
        url_of_kind(Kind::Postgres, [127, 0, 0, 1].into(), self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
