//! A host as the documents have it: its own /etc, /usr/local/bin, home and network, in which db.example.com is a server of the
//! tests. Programs that the documents name and that nobody has are stubs, which write down how they were called.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, Shutdown, TcpListener};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use mysql::prelude::Queryable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use super::certificates::Certificates;
use super::{Dblock, Kind, Proxy, Server, link_program, write_program};

/// The password that the documents choose.
pub const CHOSEN: &str = "choose-a-password";

/// The home of the user app.
pub const HOME: &str = "/home/app";

/// The user app, who is none of this machine's.
const APP: u32 = 54321;

/// The names in the documents that mean the server.
const NAMES: &str = "db.example.com db1.example.com db2.example.com db3.example.com proxysql.example.com \
                     mydb.abc123.eu-west-1.rds.amazonaws.com";

/// The ports in the documents that mean it.
const PORTS: [u16; 2] = [3306, 6033];

/// Makes the host; the first argument is the server's socket. What it mounts is seen by nobody else, and gone with the last
/// process in it. Its /etc is in memory: so many small files take a disk ten times as long. Its devices are its own for the sake of
/// /dev/log; the socket may be in /dev/shm.
const SET_UP: &str = r#"
    hostname web1
    ip link set lo up
    mkdir etc
    mount -t tmpfs none etc
    cp -a /etc/. etc
    cp hosts etc/hosts
    sed -i /^app:/d etc/passwd etc/group etc/shadow
    echo app:x:54321:54321::/home/app:/bin/sh >>etc/passwd
    echo app:x:54321: >>etc/group
    echo 'app:*:20000:0:99999:7:::' >>etc/shadow
    rm -rf etc/my.cnf etc/mysql
    mkdir etc/mysql
    cp ca.pem etc/mysql/ca.pem
    mount -t tmpfs none /run
    mkdir /run/mysqld
    touch /run/mysqld/mysqld.sock
    mount --bind "$1" /run/mysqld/mysqld.sock
    mkdir dev
    mount -t tmpfs none dev
    for device in null zero full random urandom tty; do
        touch dev/$device
        mount --bind /dev/$device dev/$device
    done
    ln -s /proc/self/fd dev/fd
    for file in etc:/etc bin:/usr/local/bin; do mount --bind ${file%%:*} ${file#*:}; done
    mount --rbind dev /dev
    for folder in /var/log /var/lib /srv /home; do mount -t tmpfs none $folder; done
    mkdir -p /home/app /srv/app /var/lib/prometheus/node-exporter
    chown app:app /home/app
    touch /run/calls
    chmod 666 /run/calls
    echo ready
    exec cat
"#;

/// Writes down how it was called, and under which lock.
const STUB: &str = "#!/bin/sh\necho \"${0##*/}[${DBLOCK_NAME-}] $*\" >>/run/calls\n";

/// Besides, it makes the file that it was to fetch, which is a bundle of CAs, and says that all went well.
const CURL: &str = "while [ $# -gt 1 ]; do\n\
                    [ \"$1\" != --write-out ] || printf 200\n\
                    [ \"$1\" != -o ] || [ \"$2\" = /dev/null ] || cp /etc/mysql/ca.pem \"$2\"\n\
                    shift\ndone\n";

/// Programs that nobody has here, or that must not do anything here.
const STUBS: [&str; 7] = [
    "encode",
    "git",
    "systemctl",
    "cloud-sql-proxy",
    "curl",
    "figures",
    "sendmail",
];

/// Tells what must be installed when a program is missing.
#[track_caller]
pub fn needs(program: &str, package: &str) {
    let found = Command::new("sh")
        .args(["-c", "command -v \"$0\"", program])
        .stdout(Stdio::null())
        .status();
    assert!(
        found.is_ok_and(|status| status.success()),
        "{program} is missing: apt-get install {package}, or script/bootstrap, which does that"
    );
}

/// A host, and a server for it alone.
#[derive(Debug)]
pub struct Host {
    pub server: &'static Server,
    anchor: Child,
    log: UnixDatagram,
    logged: Arc<Mutex<String>>,
    _proxies: Vec<Proxy>,
    _folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

/// A server with TLS for the documents' hosts, one at a time, which all use the same names.
fn server(kind: Kind) -> (&'static Server, MutexGuard<'static, ()>) {
    static MARIADB: LazyLock<Server> = LazyLock::new(|| start(Kind::MariaDb));
    static MYSQL: LazyLock<Server> = LazyLock::new(|| start(Kind::MySql));
    static ALONE: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
    let (server, alone): (&'static Server, _) = match kind {
        Kind::MariaDb => (&MARIADB, &ALONE[0]),
        Kind::Postgres => unreachable!("a test of MySQL"),
        Kind::MySql => (&MYSQL, &ALONE[1]),
    };
    (server, alone.lock().unwrap_or_else(PoisonError::into_inner))
}

fn start(kind: Kind) -> Server {
    let file = |option: &str, name: &str| {
        let path = Certificates::shared().path(name);
        format!("--ssl-{option}={}", path.display())
    };
    let options = [
        file("ca", "ca.pem"),
        file("cert", "documents.pem"),
        file("key", "server-key.pem"),
    ];
    Server::private_with(kind, &options.each_ref().map(String::as_str))
}

/// Makes the documents' account anew, and removes dblock's tables, whatever they have made of them.
pub fn make_account(server: &Server) {
    let mut admin = server.admin();
    for statement in [
        "DROP USER IF EXISTS 'dblock'@'%'",
        "DROP USER IF EXISTS 'app'@'localhost'",
        "DROP DATABASE IF EXISTS dblock",
        &format!("CREATE USER 'dblock'@'%' IDENTIFIED BY '{CHOSEN}'"),
    ] {
        admin.query_drop(statement).expect("a clean server");
    }
}

impl Host {
    /// A new host, whose server has the account that the documents make, and an empty database `app`.
    pub fn new(kind: Kind) -> Self {
        let (server, alone) = server(kind);
        make_account(server);
        let mut admin = server.admin();
        for statement in ["DROP DATABASE IF EXISTS app", "CREATE DATABASE app"] {
            admin.query_drop(statement).expect("a clean server");
        }
        let folder = tempfile::tempdir().expect("a scratch folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("bin")).expect("a new folder");
        fs::write(path("hosts"), format!("127.0.0.1 localhost {NAMES}\n")).expect("a file");
        fs::copy(Certificates::shared().path("ca.pem"), path("ca.pem")).expect("a copy");
        link_program(env!("CARGO_BIN_EXE_dblock"), &path("bin/dblock"));
        for stub in STUBS {
            let more = if stub == "curl" { CURL } else { "" };
            let script = format!("{STUB}{more}");
            write_program(&path("bin").join(stub), script.as_bytes());
        }
        // Where the documents name the server and its administrator, nobody is there to type the password.
        let mysql = "#!/bin/sh\n[ \"$*\" != '--host db.example.com --user root -p' ] || set --\n\
                     exec mariadb --no-defaults --host=db.example.com --user=admin --password=admin-secret app \"$@\"\n";
        write_program(&path("bin/mysql"), mysql.as_bytes());
        let mut anchor = Command::new("unshare")
            .args(["--mount", "--net", "--uts", "sh", "-euc", SET_UP, "sh"])
            .arg(&server.socket)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let mut line = String::new();
        let stdout = anchor.stdout.take().expect("a pipe was asked for");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n", "a host of its own wants root");
        let pid = anchor.id();
        let proxies = PORTS.map(|port| {
            let listener = listen_in(pid, port);
            Proxy::of(listener, Ipv4Addr::LOCALHOST, (server.address, server.port))
        });
        let log = UnixDatagram::bind(format!("/proc/{pid}/root/dev/log")).expect("a log");
        let logged = Arc::<Mutex<String>>::default();
        // A socket holds ten messages; who sends more waits for a reader.
        let (reader, heard) = (log.try_clone().expect("a descriptor"), Arc::clone(&logged));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..length]) + "\n";
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.push_str(&text);
            }
        });
        let host = Self {
            server,
            anchor,
            log,
            logged,
            _proxies: proxies.into(),
            _folder: folder,
            _alone: alone,
        };
        host.name_the_server(true);
        host
    }

    /// Whether `~/.my.cnf` names the server and the account.
    pub fn name_the_server(&self, does: bool) {
        let path = format!("{HOME}/.my.cnf");
        if does {
            let text =
                format!("[client]\nhost = db.example.com\nuser = dblock\npassword = {CHOSEN}\n");
            self.write(&path, text.as_bytes(), 0o600);
        } else {
            let _ = fs::remove_file(self.path(&path));
        }
    }

    /// A path of this host as others see it.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.anchor.id()))
    }

    /// Writes a file there, which the user app owns.
    pub fn write(&self, path: &str, bytes: &[u8], mode: u32) {
        let file = self.path(path);
        fs::create_dir_all(file.parent().expect("an absolute path")).expect("a folder");
        // Another process does the writing, as `write_program` tells.
        write_program(&file, bytes);
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
        chown(&file, Some(APP), Some(APP)).expect("an owner");
    }

    /// Makes a stub of this program, unless there is one.
    pub fn stub(&self, program: &str) {
        if !self.path(program).exists() {
            self.write(program, STUB.as_bytes(), 0o755);
        }
    }

    /// A line of shell in the home of the user app, without a terminal, and with no other environment than this.
    pub fn sh(&self, line: &str, env: &[(String, String)]) -> Dblock {
        self.shell(&["sh", "-c", line], env)
    }

    /// The same as the user app, not as root.
    pub fn sh_as_app(&self, line: &str, env: &[(String, String)]) -> Dblock {
        let id = APP.to_string();
        let user = [
            "setpriv",
            "--reuid",
            &id,
            "--regid",
            &id,
            "--clear-groups",
            "sh",
            "-c",
            line,
        ];
        self.shell(&user, env)
    }

    /// A shell that reads from stdin.
    pub fn reading_sh(&self, env: &[(String, String)]) -> Dblock {
        self.shell(&["sh", "-es"], env).stdin(Stdio::piped())
    }

    fn shell(&self, words: &[&str], env: &[(String, String)]) -> Dblock {
        let pid = self.anchor.id();
        let [mount, net, uts] = [("mount", "mnt"), ("net", "net"), ("uts", "uts")]
            .map(|(option, file)| format!("--{option}=/proc/{pid}/ns/{file}"));
        let enter = ["nsenter".to_owned(), mount, net, uts];
        let clean = ["env", "-i", "-C", HOME].map(str::to_owned);
        let given = [
            ("HOME", HOME),
            ("LOGNAME", "app"),
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
            // Somebody has set up mail there.
            ("DBLOCK_SENDMAIL", "/bin/true"),
        ];
        let given = given.iter().map(|(name, value)| format!("{name}={value}"));
        let env = env.iter().map(|(name, value)| format!("{name}={value}"));
        let words = words.iter().map(|&word| word.to_owned());
        let all = enter.into_iter().chain(clean).chain(given).chain(env);
        Dblock::bare()
            .without_terminal()
            .under(all.chain(words).collect::<Vec<_>>())
    }

    /// How the stubs were called so far, a line each: `program[lock] arguments`.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("/run/calls")).expect("the stubs' record");
        text.lines().map(str::to_owned).collect()
    }

    /// What came for the system's log so far.
    pub fn logged(&self) -> String {
        let logged = self.logged.lock();
        logged.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The processes on it, but for the one that keeps it.
    pub fn processes(&self) -> Vec<i32> {
        let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let ours = space(&self.anchor.id().to_string());
        let all = fs::read_dir("/proc").expect("a /proc").flatten();
        let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
        let pids = pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()));
        let inside = pids.filter(|pid| space(pid) == ours);
        let pids = inside.filter_map(|pid| pid.parse().ok());
        pids.filter(|&pid| pid != self.anchor.id().cast_signed())
            .collect()
    }

    /// Sends a signal to each `dblock` on it, and to none of their keepers.
    pub fn signal_dblock(&self, signal: Signal) {
        for pid in self.processes() {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name == "dblock\n" {
                let _ = kill(Pid::from_raw(pid), signal);
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        for pid in self.processes() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.log.shutdown(Shutdown::Both);
        let _ = self.anchor.kill();
        let _ = self.anchor.wait();
    }
}

/// Listens on a port of the network that this process is in: a socket stays in the one that it was made in.
fn listen_in(pid: u32, port: u16) -> TcpListener {
    let listen = move || {
        let space = fs::File::open(Path::new("/proc").join(pid.to_string()).join("ns/net"))?;
        // SAFETY: a plain system call on an open descriptor; it concerns this thread alone, which ends soon.
        if unsafe { libc::setns(space.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
    };
    let listening = thread::spawn(listen).join().expect("no panic");
    listening.expect("a port of its own")
}
