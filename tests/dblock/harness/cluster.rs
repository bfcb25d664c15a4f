//! Several servers that replicate: a primary with its replica, the nodes of a Galera cluster, the members of a group.

use std::net::TcpListener;
use std::process::Command;
use std::sync::LazyLock;
use std::thread;

use mysql::prelude::Queryable;

use super::{Kind, SOON, Server, eventually};

/// A primary and a server that replicates it and is read-only.
#[derive(Debug)]
pub struct Pair {
    pub primary: Server,
    pub replica: Server,
}

impl Pair {
    /// The pair that all tests of this process share. Whoever changes one of its servers needs a private one.
    pub fn shared(kind: Kind) -> &'static Self {
        static MARIADB: LazyLock<Pair> = LazyLock::new(|| Pair::private(Kind::MariaDb));
        static MYSQL: LazyLock<Pair> = LazyLock::new(|| Pair::private(Kind::MySql));
        match kind {
            Kind::MariaDb => &MARIADB,
            Kind::MySql => &MYSQL,
        }
    }

    /// A pair for one test.
    pub fn private(kind: Kind) -> Self {
        let start = |id| {
            let id = format!("--server-id={id}");
            let mut options = vec![&*id, "--log-bin=binlog"];
            if kind == Kind::MySql {
                options.extend(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]);
            }
            Server::private_with(kind, &options)
        };
        let (primary, replica) = both(|| start(1), || start(2));
        let pair = Self { primary, replica };
        pair.replicate();
        pair
    }

    /// Has the replica follow the primary, from the primary's first event on, and sees that it does.
    fn replicate(&self) {
        let port = self.primary.port;
        let follow = match self.primary.kind {
            Kind::MariaDb => format!(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'admin',
                 MASTER_PASSWORD = 'admin-secret', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos"
            ),
            Kind::MySql => format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'admin',
                 SOURCE_PASSWORD = 'admin-secret', SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 1,
                 GET_SOURCE_PUBLIC_KEY = 1"
            ),
        };
        let mut replica = self.replica.admin();
        replica.query_drop(follow).expect("a primary is accepted");
        let start = match self.primary.kind {
            Kind::MariaDb => "START SLAVE",
            Kind::MySql => "START REPLICA",
        };
        replica.query_drop(start).expect("replication starts");
        self.replica.set_read_only(true);
        let mut primary = self.primary.admin();
        primary
            .query_drop("CREATE DATABASE replicated")
            .expect("a primary can be written to");
        eventually("the replica has what the primary has", SOON, || {
            let found = replica.query_first::<String, _>("SHOW DATABASES LIKE 'replicated'");
            found.expect("an answer").is_some()
        });
    }
}

impl Server {
    /// Makes it a server that takes writes, or one that does not.
    pub fn set_read_only(&self, read_only: bool) {
        let value = u8::from(read_only);
        self.admin()
            .query_drop(format!("SET GLOBAL read_only = {value}"))
            .expect("the admin may set it");
    }
}

/// A MariaDB Galera cluster of two nodes, shared by all tests of this process.
pub fn galera() -> &'static [Server; 2] {
    static NODES: LazyLock<[Server; 2]> = LazyLock::new(start_galera);
    &NODES
}

fn start_galera() -> [Server; 2] {
    let provider = format!("--wsrep-provider={}", galera_library());
    let ports: [u16; 2] = [(); 2].map(|()| free_port());
    let node = |address: &str, port: u16, more: &[&str]| {
        let address = format!("--wsrep-cluster-address=gcomm://{address}");
        let listen = format!(
            "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{port};ist.recv_addr=127.0.0.1:{};\
             gcache.size=1M",
            free_port()
        );
        let mut options = vec!["--wsrep-on=ON", &*provider, &*address, &*listen];
        options.extend(["--wsrep-node-address=127.0.0.1", "--binlog-format=ROW"]);
        options.extend(["--innodb-autoinc-lock-mode=2", "--wsrep-sst-method=copy"]);
        options.extend(more);
        Server::private_with(Kind::MariaDb, &options)
    };
    let first = node("", ports[0], &["--wsrep-new-cluster"]);
    let second = node(&format!("127.0.0.1:{}", ports[0]), ports[1], &[]);
    for server in [&first, &second] {
        let mut admin = server.admin();
        eventually("the node has joined the cluster", SOON, || {
            let status = "SELECT GROUP_CONCAT(VARIABLE_VALUE ORDER BY VARIABLE_NAME) FROM information_schema.GLOBAL_STATUS
                          WHERE VARIABLE_NAME IN ('wsrep_cluster_size', 'wsrep_ready')";
            let status: Option<String> = admin.query_first(status).expect("an answer");
            status.as_deref() == Some("2,ON")
        });
    }
    [first, second]
}

/// The library that script/bootstrap has put somewhere.
fn galera_library() -> String {
    let found = Command::new("bash")
        .args(["-c", ". script/lib/servers.sh; find_galera"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("bash starts");
    let path = String::from_utf8(found.stdout).expect("a path of text");
    assert!(
        found.status.success(),
        "Galera is missing: script/bootstrap test gets it"
    );
    path.trim_end().to_owned()
}

/// Three MySQL servers in a group that has one primary, the first of them.
#[allow(dead_code, reason = "only script/failover needs it")]
pub fn group() -> [Server; 3] {
    group_with(&[])
}

/// Two MySQL servers in a group in which both take writes.
#[allow(dead_code, reason = "script/failover does not need it")]
pub fn multi_primary_group() -> [Server; 2] {
    group_with(&[
        "--loose-group-replication-single-primary-mode=OFF",
        "--loose-group-replication-enforce-update-everywhere-checks=ON",
    ])
}

fn group_with<const N: usize>(more: &[&str]) -> [Server; N] {
    let ports: [u16; N] = [(); N].map(|()| free_port());
    let seeds = ports.map(|port| format!("127.0.0.1:{port}")).join(",");
    let member = |index: usize| {
        let options = [
            format!("--server-id={}", index + 1),
            "--log-bin=binlog".into(),
            "--gtid-mode=ON".into(),
            "--enforce-gtid-consistency=ON".into(),
            "--report-host=127.0.0.1".into(),
            "--plugin-load-add=group_replication.so".into(),
            "--loose-group-replication-group-name=6a1c0f5e-3d0b-4a55-9f0e-2b7d8c9e1f00".into(),
            format!(
                "--loose-group-replication-local-address=127.0.0.1:{}",
                ports[index]
            ),
            format!("--loose-group-replication-group-seeds={seeds}"),
            "--loose-group-replication-start-on-boot=OFF".into(),
            "--loose-group-replication-recovery-get-public-key=ON".into(),
        ];
        let options = options.iter().map(|option| &**option);
        let options: Vec<&str> = options.chain(more.iter().copied()).collect();
        Server::private_with(Kind::MySql, &options)
    };
    let members = thread::scope(|scope| {
        let member = &member;
        let starting = std::array::from_fn(|index| scope.spawn(move || member(index)));
        let starting: [_; N] = starting;
        starting.map(|thread| thread.join().expect("a member starts"))
    });
    for (index, server) in members.iter().enumerate() {
        let mut admin = server.admin();
        let mut run = |statement: &str| admin.query_drop(statement).expect("the member joins");
        if index == 0 {
            run("SET GLOBAL group_replication_bootstrap_group = ON");
        }
        run("START GROUP_REPLICATION USER = 'admin', PASSWORD = 'admin-secret'");
        if index == 0 {
            run("SET GLOBAL group_replication_bootstrap_group = OFF");
        }
    }
    let mut first = members[0].admin();
    eventually("all members are there", SOON, || {
        let online = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'";
        first.query_first(online).expect("an answer") == Some(N)
    });
    members
}

/// What a user gives as `--url` for several hosts, in this order.
pub fn url_of<'a>(servers: impl IntoIterator<Item = &'a Server>) -> String {
    let hosts = servers
        .into_iter()
        .map(|server| format!("127.0.0.1:{}", server.port));
    format!("mysql://dblock@{}/", hosts.collect::<Vec<_>>().join(","))
}

/// Does two things at once.
fn both<T: Send>(one: impl FnOnce() -> T + Send, other: impl FnOnce() -> T + Send) -> (T, T) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().expect("as the other"), other)
    })
}

/// A port that nobody listens on, below the range from which the system takes ports for outgoing connections.
fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
