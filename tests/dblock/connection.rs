//! How the server is found: what beats what, what is tried in turn and again, and what the connection is like.

use std::ffi::OsStr;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::Duration;

use mysql::Conn;
use mysql::prelude::Queryable;
use nix::unistd::geteuid;

use crate::harness::{
    Answer, Dblock, Fake, Kind, PASSWORD, Proxy, SOON, Server, both_servers, eventually, framed,
    slack, unique, url_of_port, works,
};

/// `dblock run --name NAME` with the right password and no server named.
fn run_somewhere(what: &str) -> Dblock {
    run_within("20", what)
}

/// The same with such a limit on the search for a server.
fn run_within(limit: &str, what: &str) -> Dblock {
    Dblock::bare()
        .args(["run", "--name", &unique(what), "--connect-timeout", limit])
        .env("DBLOCK_PASSWORD", PASSWORD)
}

/// A port where nobody listens. One that was free just now may be another test's by now.
fn closed_port() -> u16 {
    1
}

/// A port where a connection is accepted and nothing said, until the listener is dropped.
fn silent_port() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

/// Runs dblock with another /etc/hosts.
fn with_hosts(dblock: Dblock, hosts: &Path) -> Dblock {
    let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let wrapper = ["unshare", "--map-root-user", "--mount", "sh", "-c", script];
    dblock.under(wrapper.iter().map(OsStr::new).chain([hosts.as_os_str()]))
}

/// `HOST` of the process list: where the session of the running command comes from.
fn came_from(server: &Server, dblock: Dblock) -> String {
    let mut running = dblock
        .sh("echo $DBLOCK_CONNECTION_ID; exec sleep 60")
        .spawn();
    let connection = running.wait_line("", SOON);
    let query = "SELECT HOST FROM information_schema.processlist WHERE ID = ?";
    server
        .admin()
        .exec_first(query, (connection,))
        .unwrap()
        .expect("the session is there")
}

both_servers! {
    fn each_option_alone_and_each_variable_alone_are_enough(server on mariadb) {
        let (port, socket) = (server.port.to_string(), server.socket.to_str().unwrap());
        works(run_somewhere("url").args(["--url", &server.url()]));
        works(run_somewhere("url").env("DBLOCK_URL", server.url()));
        works(run_somewhere("host").args(["--host", "127.0.0.1", "--port", &port, "--user", "dblock"]));
        works(run_somewhere("host").env("DBLOCK_HOST", "127.0.0.1").env("DBLOCK_PORT", &port).env("DBLOCK_USER", "dblock"));
        works(run_somewhere("socket").args(["--socket", socket, "--user", "dblock"]));
        works(run_somewhere("socket").env("DBLOCK_SOCKET", socket).env("DBLOCK_USER", "dblock"));
    }

    fn a_flag_beats_the_environment(server on mysql) {
        let (port, socket) = (server.port.to_string(), server.socket.to_str().unwrap());
        let wrong = closed_port().to_string();
        works(run_somewhere("url").args(["--url", &server.url()]).env("DBLOCK_URL", "mysql://nobody@127.0.0.1:1/"));
        let run = || run_somewhere("flag").env("DBLOCK_URL", server.url());
        works(run().env("DBLOCK_HOST", "127.0.0.250").args(["--host", "127.0.0.1"]).env("DBLOCK_PORT", &port));
        works(run().env("DBLOCK_PORT", &wrong).args(["--port", &port]));
        works(run().env("DBLOCK_USER", "nobody").args(["--user", "dblock"]));
        works(run_somewhere("flag").env("DBLOCK_SOCKET", "/no/such").args(["--socket", socket, "--user", "dblock"]));
        // A server on the command line, be it a host or a socket, beats any in the environment.
        works(run_somewhere("flag").env("DBLOCK_SOCKET", "/no/such").args(["--url", &server.url()]));
        works(run_somewhere("flag").env("DBLOCK_URL", url_of_port(1)).args(["--socket", socket]));
        works(run_somewhere("flag").env("DBLOCK_PORT", &wrong).args(["--url", &server.url()]));
    }

    fn a_single_option_beats_a_part_of_the_url(server on mariadb) {
        let port = server.port.to_string();
        let wrong = format!("mysql://nobody:wrong@127.0.0.250:{}/", closed_port());
        let password = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&password, PASSWORD).unwrap();
        let file = password.path().to_str().unwrap();
        works(run_somewhere("part").args(["--url", &wrong, "--host", "127.0.0.1", "--port", &port, "--user", "dblock", "--password-file", file]));
        works(run_somewhere("part").env("DBLOCK_URL", &wrong).env("DBLOCK_HOST", "127.0.0.1").env("DBLOCK_PORT", &port).env("DBLOCK_USER", "dblock"));
        // What the single options do not say, the URL does.
        works(run_somewhere("part").args(["--url", &format!("mysql://nobody@127.0.0.1:{port}"), "--user", "dblock"]));
        works(run_somewhere("part").args(["--host", "127.0.0.1", "--port", &port]).env("DBLOCK_URL", "mysql://dblock@127.0.0.250:1"));
    }

    fn an_empty_variable_counts_as_not_set(server on mysql) {
        let mut dblock = run_somewhere("empty").args(["--url", &server.url()]);
        for variable in ["URL", "HOST", "PORT", "USER", "SOCKET", "CONNECT_TIMEOUT"] {
            dblock = dblock.env(format!("DBLOCK_{variable}"), "");
        }
        works(dblock);
    }

    fn hosts_of_a_url_are_tried_in_order(server on mariadb) {
        let (refusing, port) = (closed_port(), server.port);
        let (_listener, silent) = silent_port();
        for first in [refusing, silent] {
            // Half of the time is the first one's.
            works(run_within("12", "hosts").args(["--url", &format!("mysql://dblock@127.0.0.1:{first},127.0.0.1:{port}/")]));
        }
        // The first that takes us is the one: the proxy behind it is not asked.
        let proxy = Proxy::to(server);
        works(run_somewhere("hosts").args(["--url", &format!("mysql://dblock@127.0.0.1:{port},127.0.0.1:{}/", proxy.port)]));
        assert_eq!(proxy.connections(), 0);
    }

    fn a_host_that_says_nothing_after_the_login_leaves_time_for_the_next(server on mysql) {
        let fake = Fake::start(server.kind, |_| Answer::Silence);
        let url = format!("mysql://dblock@127.0.0.1:{},127.0.0.1:{}/", fake.port, server.port);
        works(run_within("12", "says-nothing").args(["--url", &url]));
        assert!(!fake.statements().is_empty(), "it was asked");
    }

    fn every_address_of_a_name_is_tried(server on mysql) {
        let hosts = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&hosts, "::1 several\n127.0.0.250 several\n127.0.0.1 several\n").unwrap();
        // Nobody listens at the other addresses: the proxy's port is on 127.0.0.1 alone.
        let proxy = Proxy::to(server);
        let url = format!("mysql://dblock@several:{}/", proxy.port);
        works(with_hosts(run_somewhere("several").args(["--url", &url]), hosts.path()));
        assert_eq!(proxy.connections(), 1);
    }

    fn localhost_means_the_socket(server) {
        let socket = server.socket.to_str().unwrap();
        let run = || run_somewhere("socket").args(["--user", "dblock"]);
        assert_eq!(came_from(server, run().args(["--host", "localhost", "--socket", socket])), "localhost");
        assert_eq!(came_from(server, run().args(["--url", &format!("mysql://localhost?socket={socket}")])), "localhost");
        assert_eq!(came_from(server, run().env("DBLOCK_URL", format!("mysql://localhost/?socket={}", socket.replace('/', "%2F")))), "localhost");
        assert_ne!(came_from(server, run().args(["--url", &server.url()])), "localhost");
        // Never TCP, even where a server listens on that port.
        let tcp = run_within("10", "socket").args(["--user", "dblock"]);
        let tcp = tcp.args(["--host", "localhost", "--port", &server.port.to_string(), "--socket", "/no/such"]);
        tcp.sh("echo ran").output().expect_code(69).expect_stdout("").expect_said(["/no/such"]);
    }

    fn the_connection_goes_where_it_is_told(server) {
        let proxy = Proxy::to(server);
        let output = Dblock::run_at(&proxy.url(), &unique("proxy")).sh("exit 7").output();
        output.expect_code(7).expect_silence();
        assert!(!proxy.packets().is_empty(), "the lock was not taken through the proxy");
    }

    fn an_idle_connection_is_kept_alive(server) {
        let proxy = Proxy::to(server);
        let mut dblock = Dblock::run_at(&proxy.url(), &unique("alive")).sh("echo ran; exec sleep 60").spawn();
        dblock.wait_line("ran", SOON);
        let mut due = None;
        // While an answer is on its way, the kernel has another timer there.
        eventually("a keep-alive timer", SOON, || {
            due = keepalive_due(proxy.port);
            due.is_some_and(|seconds| seconds > 15.0)
        });
        assert!(due.is_some_and(|seconds| seconds <= 20.0), "due in {due:?} s");
    }

    fn a_connection_that_is_gone_is_noticed(server) {
        assert!(geteuid().is_root(), "another process's socket is shown to root alone: run the tests as root");
        let proxy = Proxy::to(server);
        let mut dblock = Dblock::run_at(&proxy.url(), &unique("gone")).sh("echo ran; exec sleep 60").spawn();
        dblock.wait_line("ran", SOON);
        let sockets: Vec<_> = dblock.children().into_iter().flat_map(|pid| sockets_of(pid, proxy.port)).collect();
        let [socket] = &sockets[..] else { panic!("one connection to the server, not {sockets:?}") };
        let options = [libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT, libc::TCP_USER_TIMEOUT];
        assert_eq!(options.map(|option| tcp_option(socket, option)), [20, 20, 2, 60_000]);
    }

    fn a_server_that_comes_up_meanwhile_is_reached(server) {
        let server = &Server::private(server.kind);
        server.stop();
        let mut dblock = Dblock::run(server, &unique("up")).args(["-v", "--connect-timeout", "40"]).sh("echo ran").spawn();
        dblock.wait_stderr("refused", SOON);
        server.start();
        dblock.wait_line("ran", SOON);
        dblock.wait().expect_code(0);
    }

    fn a_full_server_is_tried_again(server) {
        let server = &Server::private(server.kind);
        // It stays: the server may notice late that a session is gone, and have room for another then.
        let mut admin = server.admin();
        admin.query_drop("SET GLOBAL max_connections = 10").unwrap();
        let mut crowd: Vec<Conn> = Vec::new();
        eventually("the server is full", SOON, || match server.connect("dblock", PASSWORD) {
            Ok(client) => {
                crowd.push(client);
                false
            }
            Err(error) => error.to_string().contains("1040"),
        });
        let skipped = Dblock::run(server, &unique("full")).args(["--connect-timeout", "12"]).sh("echo ran");
        skipped.output().expect_code(69).expect_stdout("").expect_one_line("1040");
        let mut dblock = Dblock::run(server, &unique("full")).args(["-v", "--connect-timeout", "40"]).sh("echo ran").spawn();
        dblock.wait_stderr("1040", SOON);
        drop(crowd);
        dblock.wait().expect_code(0).expect_stdout("ran\n");
    }

    fn with_a_server_if_unreachable_run_changes_nothing(server on mariadb) {
        let name = unique("reachable");
        let dblock = || Dblock::run(server, &name).args(["--if-unreachable", "run"]);
        dblock().sh("echo $DBLOCK_SLOT; exit 3").output().expect_code(3).expect_stdout("0\n").expect_silence();
        let _held = server.hold(&name);
        dblock().sh("echo ran").output().expect_code(75).expect_stdout("");
    }
}

/// Copies of a process's sockets that are connected to this port of 127.0.0.1.
fn sockets_of(pid: i32, port: u16) -> Vec<TcpStream> {
    let own = |fd: i64| {
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
        // SAFETY: the calls below return descriptors that are new, and nobody else's.
        Some(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    // SAFETY: a plain system call.
    let process = own(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }).expect("a process");
    let all = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("root may look")
        .flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // A command that is just starting closes some before they can be copied.
    // SAFETY: as above.
    let copy =
        |fd: i32| own(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) });
    let leads_there = |socket: &TcpStream| socket.peer_addr().is_ok_and(|peer| peer.port() == port);
    numbers
        .filter_map(copy)
        .map(TcpStream::from)
        .filter(leads_there)
        .collect()
}

/// A number that is set on a TCP socket.
fn tcp_option(socket: &TcpStream, option: i32) -> i32 {
    let mut value = 0;
    let mut length = 4;
    // SAFETY: the value has the room that the length says.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    assert_eq!(done, 0, "getsockopt: {}", std::io::Error::last_os_error());
    value
}

/// In how many seconds the kernel will probe the idle connection to this port of 127.0.0.1, from /proc/net/tcp.
fn keepalive_due(port: u16) -> Option<f64> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a /proc");
    let peer = format!("0100007F:{port:04X}");
    let mut rows = table
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>());
    // One that is established: those of another test that had this port are still listed after their end.
    let row = rows.find(|row| row.get(2) == Some(&&*peer) && row.get(3) == Some(&"01"))?;
    let (kind, jiffies) = row.get(5)?.split_once(':')?;
    let due = u32::from_str_radix(jiffies, 16).ok()?;
    (kind == "02").then(|| f64::from(due) / 100.0)
}

#[test]
fn without_a_server_nothing_is_run() {
    for dblock in [
        run_somewhere("none"),
        run_somewhere("none").env("HOME", "/no/such/home"),
        run_somewhere("none").env("HOME", ""),
        run_somewhere("none").env_remove("HOME"),
        run_somewhere("none")
            .env("DBLOCK_URL", "")
            .env("DBLOCK_HOST", ""),
        run_somewhere("none")
            .env("DBLOCK_PORT", "3306")
            .env("DBLOCK_USER", "u"),
        run_somewhere("none").args(["--port", "3306", "--user", "u"]),
        run_somewhere("none").args(["--url", "mysql://u@"]),
        run_somewhere("none").args(["--if-unreachable", "run"]),
    ] {
        dblock
            .sh("echo ran")
            .output()
            .expect_code(78)
            .expect_stdout("")
            .expect_one_line("--url");
    }
}

#[test]
fn the_port_is_3306_where_none_is_named() {
    let output = run_within("10", "port")
        .args(["--host", "127.0.0.250"])
        .env("MYSQL_TCP_PORT", "1")
        .command(["true"])
        .output();
    output.expect_code(69).expect_one_line("127.0.0.250:3306");
}

#[test]
fn the_connect_timeout_counts_for_all_servers_together() {
    let (_listener, port) = silent_port();
    let url = format!("mysql://u@127.0.0.1:{port},127.0.0.1:{port},127.0.0.1:{port}/");
    let run = || Dblock::run_at(&url, "x").sh("echo ran");
    let second = Duration::from_secs(1);
    for dblock in [
        run().args(["--connect-timeout", "1"]),
        run().env("DBLOCK_CONNECT_TIMEOUT", "1s"),
        run()
            .env("DBLOCK_CONNECT_TIMEOUT", "30s")
            .args(["--connect-timeout", "1"]),
        run().args(["--connect-timeout", "1", "--wait", "30"]),
    ] {
        let output = dblock.output();
        output.expect_code(69).expect_stdout("").expect_one_line("");
        output.expect_took(second, second + slack());
    }
}

#[test]
fn a_server_that_is_shutting_down_is_tried_again() {
    for kind in [Kind::MariaDb, Kind::MySql] {
        let mut first = true;
        let fake = Fake::start(kind, move |statement| match statement {
            _ if std::mem::take(&mut first) => Answer::error(1053, "Server shutdown in progress"),
            release if release.contains("SELECT RELEASE_LOCK") => {
                Answer::Row(vec![Some("1".into()), None])
            }
            // Slot 0, no place in a queue, on connection 7, which has the mark.
            select if select.starts_with("SELECT") => {
                let cells = [Some("0"), None, Some("7"), None, None, Some("7")];
                Answer::Row(cells.map(|cell| cell.map(str::to_owned)).to_vec())
            }
            _ => Answer::Ok,
        });
        Dblock::run_at(&fake.url(), "x")
            .sh("exit 7")
            .output()
            .expect_code(7)
            .expect_silence();
    }
}

#[test]
fn without_a_lock_a_command_is_run_if_that_is_asked_for() {
    let run = |limit: &str| {
        let dblock =
            Dblock::run_at(&url_of_port(closed_port()), "x").args(["--connect-timeout", limit]);
        dblock.sh("echo $DBLOCK_NAME ${DBLOCK_SLOT-no} ${DBLOCK_CONNECTION_ID-no}; exit 3")
    };
    run("10")
        .output()
        .expect_code(69)
        .expect_stdout("")
        .expect_one_line("refused");
    let output = run("0.3").args(["--if-unreachable", "run"]).output();
    output
        .expect_code(3)
        .expect_stdout("x no no\n")
        .expect_one_line("without the lock");
    run("0.3")
        .args(["--if-unreachable", "fail"])
        .output()
        .expect_code(69)
        .expect_stdout("");
}

#[test]
fn what_is_no_server_is_not_an_unreachable_one() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(&framed(0, b"I am something else"));
        }
    });
    let dblock = Dblock::run_at(&url_of_port(port), "x").args([
        "--if-unreachable",
        "run",
        "--connect-timeout",
        "20",
    ]);
    dblock
        .sh("echo ran")
        .output()
        .expect_code(70)
        .expect_stdout("")
        .expect_one_line("");
}
