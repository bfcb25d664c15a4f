//! Three servers that replicate to each other: a Galera cluster, or a MySQL group with one primary or with three. Each can be
//! killed, frozen or cut off from the others, and comes back.

use std::fmt;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, OptsBuilder};
use nix::sys::signal::Signal;

use super::namespace::Network;
use super::postgres::DATABASE;
use super::server::Setup;
use super::{Kind, Server, eventually, in_time, send};

/// How servers replicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// MariaDB servers, all of which take writes.
    Galera,
    /// A MySQL group of which one member, at first the first, takes writes.
    OnePrimary,
    /// A MySQL group, all of which take writes.
    AllPrimaries,
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Galera => "galera",
            Self::OnePrimary => "group of one primary",
            Self::AllPrimaries => "group of primaries",
        })
    }
}

/// How soon nodes give each other up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// After two seconds or so, where the server lets that be set.
    Short,
    /// As the servers come.
    Default,
}

/// Three servers that replicate to each other. All ends when this is dropped or the test process ends, however it ends.
#[derive(Debug)]
pub struct Cluster {
    pub replication: Replication,
    pub nodes: [Server; 3],
    /// `None` where the tests may not make network namespaces: the nodes are then beside each other and cannot be parted.
    network: Option<Network>,
    /// Which nodes are to be expected in the cluster.
    present: Mutex<[bool; 3]>,
    /// The shared one has none.
    _turn: Option<Turn>,
}

/// What a node makes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    Committed,
    /// With this error. It may be committed all the same (1180, 3100).
    Refused(u16),
    /// There is no answer within a second, or no connection. It may be committed, now or later.
    Unanswered,
}

/// Longer than anything a cluster does by itself takes on a busy machine.
const SETTLED: Duration = Duration::from_secs(60);

/// A write that takes longer waits for nodes that are not there.
const WRITE: Duration = Duration::from_secs(1);

/// How often the nodes of a cluster are started until all of them stay.
const ATTEMPTS: usize = 3;

impl Cluster {
    /// The Galera cluster that all tests of this process share. Whoever harms a node needs a private one. A group is never shared: even an
    /// idle one takes a twentieth of a processor.
    pub fn shared_galera() -> &'static Self {
        static SHARED: LazyLock<Cluster> = LazyLock::new(|| {
            Cluster::start_all(Replication::Galera, [0; 3], Patience::Short, None)
        });
        &SHARED
    }

    /// A cluster for one test. There is one at a time: this waits for its turn.
    pub fn private(replication: Replication) -> Self {
        Self::private_with_clocks(replication, [0; 3])
    }

    /// A cluster for one test, whose nodes' clocks are this many seconds ahead of the machine's, or behind it.
    pub fn private_with_clocks(replication: Replication, clocks: [i32; 3]) -> Self {
        Self::start_all(replication, clocks, Patience::Short, Some(Turn::wait()))
    }

    /// A cluster for one test, whose nodes give each other up no sooner than the servers do by default.
    #[allow(dead_code, reason = "script/failover alone needs it")]
    pub fn private_and_patient(replication: Replication) -> Self {
        let turn = Some(Turn::wait());
        Self::start_all(replication, [0; 3], Patience::Default, turn)
    }

    fn start_all(
        replication: Replication,
        clocks: [i32; 3],
        patience: Patience,
        turn: Option<Turn>,
    ) -> Self {
        let start = || start_nodes(replication, clocks, patience);
        // On a busy machine a node of Galera now and then gives up the others while it joins them, and aborts.
        let (network, nodes) = (0..ATTEMPTS)
            .find_map(|_| start())
            .expect("the nodes start");
        let cluster = Self {
            replication,
            nodes,
            network,
            present: Mutex::new([true; 3]),
            _turn: turn,
        };
        if replication != Replication::Galera {
            let [first, others @ ..] = [0, 1, 2];
            cluster.join_group(first, true);
            thread::scope(|scope| {
                for index in others {
                    let cluster = &cluster;
                    scope.spawn(move || cluster.join_group(index, false));
                }
            });
        }
        cluster.eventually_settled();
        let table = "CREATE DATABASE IF NOT EXISTS harness;
            CREATE TABLE IF NOT EXISTS harness.writes (id INT AUTO_INCREMENT PRIMARY KEY)";
        eventually("the first node takes writes", SETTLED, || {
            cluster.admin(0).query_drop(table).is_ok()
        });
        cluster
    }

    /// What a user gives as `--url`, with all nodes in their order.
    #[allow(dead_code, reason = "script/failover alone needs it")]
    pub fn url(&self) -> String {
        self.url_from(0)
    }

    /// What a user gives as `--url`, with all nodes, this one first and those behind it next.
    pub fn url_from(&self, index: usize) -> String {
        url_of((0..3).map(|place| &self.nodes[(index + place) % 3]))
    }

    /// A plain client of this node with every privilege. A node lets nobody in while the nodes give up one of them.
    #[track_caller]
    pub fn admin(&self, index: usize) -> Conn {
        let mut client = None;
        eventually("the admin can connect", SETTLED, || {
            client = self.nodes[index].connect("admin", "admin-secret").ok();
            client.is_some()
        });
        client.expect("it has connected")
    }

    /// What a node answers to the admin. `None`: it does not within a second, as while the nodes give up one of them; or there is
    /// no row.
    pub fn answer<T: FromRow>(&self, index: usize, query: &str) -> Option<T> {
        self.impatient(index).ok()?.query_first(query).ok()?
    }

    /// Kills a node with SIGKILL.
    pub fn kill(&self, index: usize) {
        self.set_present(index, false);
        self.nodes[index].kill();
    }

    /// Starts a killed node again. Once [settled](Self::eventually_settled) it is in the cluster and has what the others have.
    pub fn start(&self, index: usize) {
        self.nodes[index].start();
        self.set_present(index, true);
    }

    /// Stops the process of a node, which keeps all of its connections.
    pub fn freeze(&self, index: usize) {
        self.set_present(index, false);
        send(self.nodes[index].pid(), Signal::SIGSTOP);
    }

    /// Has it go on. It does not know yet what it has missed.
    pub fn thaw(&self, index: usize) {
        send(self.nodes[index].pid(), Signal::SIGCONT);
        self.set_present(index, true);
    }

    /// Cuts a node off from the others, without a word to either side. Clients go on to reach all.
    pub fn cut_off(&self, index: usize) {
        self.set_present(index, false);
        self.network().part(index);
    }

    /// Undoes that. Neither side knows it yet.
    pub fn heal(&self, index: usize) {
        self.network().join(index);
        self.set_present(index, true);
    }

    /// Waits until all nodes that are neither killed, frozen nor cut off agree that they, and they alone, are the cluster,
    /// and what is to take writes among them does.
    /// What is no member of a group, and knows it, is told to join.
    #[track_caller]
    pub fn eventually_settled(&self) {
        let present = *self.present();
        let expected = present.iter().filter(|&&present| present).count();
        let writers = match self.replication {
            Replication::OnePrimary => 1,
            _ => expected,
        };
        let mut views = Vec::new();
        let settled = in_time(SETTLED, || {
            let nodes = (0..3).filter(|&index| present[index]);
            if self.replication != Replication::Galera {
                for index in nodes.clone() {
                    // It ends sessions when it finds out that it was expelled; then it is asked again.
                    let _ = self.join_if_outside(index);
                }
            }
            views = nodes.map(|index| self.view(index)).collect();
            let seen = views.iter().flatten();
            seen.clone().filter(|view| view.size == expected).count() == expected
                && seen.filter(|view| view.writes).count() == writers
        });
        assert!(settled, "the nodes agree who is there: {views:?}");
    }

    /// Whether a write on this node is committed, and soon.
    pub fn takes_writes(&self, index: usize) -> bool {
        self.write(index) == Write::Committed
    }

    /// Writes on this node.
    pub fn write(&self, index: usize) -> Write {
        let written = self
            .impatient(index)
            .and_then(|mut client| client.query_drop("INSERT INTO harness.writes VALUES ()"));
        match written {
            Ok(()) => Write::Committed,
            Err(mysql::Error::MySqlError(error)) => Write::Refused(error.code),
            Err(_) => Write::Unanswered,
        }
    }

    /// How many writes this node has.
    pub fn writes(&self, index: usize) -> usize {
        let count = "SELECT COUNT(*) FROM harness.writes";
        let count = self.admin(index).query_first(count).expect("an answer");
        count.expect("a row")
    }

    /// A client with every privilege that does not wait for an answer for long.
    fn impatient(&self, index: usize) -> mysql::Result<Conn> {
        let options = self.nodes[index].as_account("admin", "admin-secret");
        let options: OptsBuilder = options
            .tcp_connect_timeout(Some(WRITE))
            .read_timeout(Some(WRITE))
            .write_timeout(Some(WRITE));
        Conn::new(options)
    }

    fn network(&self) -> &Network {
        let network = self.network.as_ref();
        network.expect("a node is cut off by root alone, who may make network namespaces")
    }

    fn present(&self) -> std::sync::MutexGuard<'_, [bool; 3]> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_present(&self, index: usize, present: bool) {
        self.present()[index] = present;
    }

    /// How a node sees the cluster. `None`: it is no part of it.
    fn view(&self, index: usize) -> Option<View> {
        let query = match self.replication {
            // Galera: the component's size, and whether it is the primary one, of which this node has all writes.
            Replication::Galera => {
                "SELECT MAX(IF(VARIABLE_NAME = 'wsrep_cluster_size', VARIABLE_VALUE, 0)),
                 SUM((VARIABLE_NAME, VARIABLE_VALUE) IN (('wsrep_cluster_status', 'Primary'),
                 ('wsrep_local_state_comment', 'Synced'), ('wsrep_ready', 'ON'))) = 3
                 FROM information_schema.GLOBAL_STATUS
                 WHERE VARIABLE_NAME IN ('wsrep_cluster_size', 'wsrep_cluster_status', 'wsrep_local_state_comment',
                 'wsrep_ready')"
            }
            _ => {
                "SELECT IF(SUM(MEMBER_STATE = 'ONLINE') = COUNT(*), COUNT(*), 0), @@super_read_only = 0
                 FROM performance_schema.replication_group_members"
            }
        };
        let row: Option<(usize, bool)> = self.answer(index, query);
        row.map(|(size, writes)| View { size, writes })
    }

    fn join_if_outside(&self, index: usize) -> mysql::Result<()> {
        let mut admin = self.nodes[index].connect("admin", "admin-secret")?;
        let query = "SELECT MEMBER_STATE FROM performance_schema.replication_group_members
                     WHERE MEMBER_ID = @@server_uuid";
        let state: Option<String> = admin.query_first(query)?;
        if matches!(state.as_deref(), None | Some("ERROR" | "OFFLINE")) {
            admin.query_drop("STOP GROUP_REPLICATION")?;
            // What an expelled member does to itself, and does not undo.
            admin.query_drop("SET GLOBAL offline_mode = OFF")?;
            admin.query_drop(JOIN)?;
        }
        Ok(())
    }

    fn join_group(&self, index: usize, first: bool) {
        let mut admin = self.admin(index);
        if !first {
            // A member that has not joined now joins before all is settled.
            let _ = admin.query_drop(JOIN);
            return;
        }
        let mut run = |statement: &str| admin.query_drop(statement).expect("the member joins");
        run("SET GLOBAL group_replication_bootstrap_group = ON");
        run(JOIN);
        run("SET GLOBAL group_replication_bootstrap_group = OFF");
    }
}

const JOIN: &str = "START GROUP_REPLICATION USER = 'admin', PASSWORD = 'admin-secret'";

/// A node's view of its cluster: how many there are, and whether this one takes writes.
#[derive(Debug)]
struct View {
    size: usize,
    writes: bool,
}

fn galera_node(index: usize, links: &[String; 3], patience: Patience) -> Setup {
    let (link, all) = (&links[index], links.join(","));
    let (address, _) = link.split_once(':').expect("an address with its port");
    let mut provider = format!(
        "gmcast.listen_addr=tcp://{link};ist.recv_addr={address}:{};gcache.size=4M",
        free_port()
    );
    if patience == Patience::Short {
        provider += ";gmcast.peer_timeout=PT1S;gmcast.time_wait=PT1S;evs.keepalive_period=PT0.5S;evs.inactive_check_period=PT0.5S;evs.suspect_timeout=PT2S\
                     ;evs.inactive_timeout=PT4S;evs.install_timeout=PT4S";
    }
    let options = vec![
        "--wsrep-on=ON".into(),
        format!("--wsrep-provider={}", galera_library()),
        format!("--wsrep-cluster-address=gcomm://{all}"),
        format!("--wsrep-provider-options={provider}"),
        format!("--wsrep-node-address={address}"),
        "--binlog-format=ROW".into(),
        "--innodb-autoinc-lock-mode=2".into(),
        "--wsrep-sst-method=copy".into(),
    ];
    let first = if index == 0 {
        vec!["--wsrep-new-cluster".into()]
    } else {
        Vec::new()
    };
    Setup {
        options,
        first,
        ..Setup::default()
    }
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

fn group_member(
    index: usize,
    links: &[String; 3],
    patience: Patience,
    replication: Replication,
) -> Setup {
    let (link, seeds) = (&links[index], links.join(","));
    let (address, _) = link.split_once(':').expect("an address with its port");
    let mut options = vec![
        format!("--server-id={}", index + 1),
        "--log-bin=binlog".into(),
        "--gtid-mode=ON".into(),
        "--enforce-gtid-consistency=ON".into(),
        format!("--report-host={address}"),
        "--plugin-load-add=group_replication.so".into(),
        "--loose-group-replication-group-name=6a1c0f5e-3d0b-4a55-9f0e-2b7d8c9e1f00".into(),
        format!("--loose-group-replication-local-address={link}"),
        format!("--loose-group-replication-group-seeds={seeds}"),
        "--loose-group-replication-ip-allowlist=127.0.0.1,198.18.0.0/15".into(),
        "--loose-group-replication-start-on-boot=OFF".into(),
        "--loose-group-replication-message-cache-size=134217728".into(),
        "--loose-group-replication-recovery-get-public-key=ON".into(),
    ];
    if patience == Patience::Short {
        options.extend([
            "--loose-group-replication-member-expel-timeout=0".into(),
            "--loose-group-replication-unreachable-majority-timeout=2".into(),
            // The next try would come five minutes later.
            "--loose-group-replication-autorejoin-tries=0".into(),
        ]);
    }
    if replication == Replication::AllPrimaries {
        options.extend([
            "--loose-group-replication-single-primary-mode=OFF".into(),
            "--loose-group-replication-enforce-update-everywhere-checks=ON".into(),
        ]);
    }
    Setup {
        options,
        ..Setup::default()
    }
}

/// What a user gives as `--url` for several hosts, in this order.
pub fn url_of<'a>(servers: impl IntoIterator<Item = &'a Server>) -> String {
    let servers: Vec<&Server> = servers.into_iter().collect();
    let host = |server: &&Server| format!("{}:{}", server.address, server.port);
    let hosts = servers.iter().map(host).collect::<Vec<_>>().join(",");
    match servers.first().map(|server| server.kind) {
        Some(Kind::Postgres) => format!("postgres://dblock@{hosts}/{DATABASE}"),
        _ => format!("mysql://dblock@{hosts}/"),
    }
}

/// A port that nobody listens on, below the range from which the system takes ports for outgoing connections.
pub fn free_port() -> u16 {
    loop {
        let port = fastrand::u16(10_000..32_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// The right to a private cluster: they need much memory, and disturb each other.
#[derive(Debug)]
struct Turn;

static TAKEN: Mutex<bool> = Mutex::new(false);
static GIVEN_BACK: Condvar = Condvar::new();

impl Turn {
    fn wait() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = GIVEN_BACK.wait_while(taken, |taken| *taken);
        *taken.unwrap_or_else(PoisonError::into_inner) = true;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = false;
        GIVEN_BACK.notify_one();
    }
}

/// Starts the servers of a cluster, and the network between them; `None`: one of them has ended.
fn start_nodes(
    replication: Replication,
    clocks: [i32; 3],
    patience: Patience,
) -> Option<(Option<Network>, [Server; 3])> {
    let (network, hosts) = match Network::new() {
        Some((network, hosts)) => (Some(network), hosts.map(Some)),
        None => (None, [None, None, None]),
    };
    let addresses = hosts
        .each_ref()
        .map(|host| host.as_ref().map_or(Ipv4Addr::LOCALHOST, |host| host.1));
    let links = addresses.map(|address| format!("{address}:{}", free_port()));
    let mut setups = Vec::new();
    for ((index, host), clock) in hosts.into_iter().enumerate().zip(clocks) {
        let mut setup = match replication {
            Replication::Galera => galera_node(index, &links, patience),
            _ => group_member(index, &links, patience, replication),
        };
        (setup.host, setup.clock) = (host, clock);
        setups.push(setup);
    }
    let kind = match replication {
        Replication::Galera => Kind::MariaDb,
        _ => Kind::MySql,
    };
    let nodes = thread::scope(|scope| {
        let setups = <[Setup; 3]>::try_from(setups).expect("three were made");
        setups
            .map(|setup| scope.spawn(move || Server::private_as(kind, setup)))
            .map(|thread| thread.join().ok())
    });
    let nodes: Vec<Server> = nodes.into_iter().flatten().collect();
    Some((network, nodes.try_into().ok()?))
}
