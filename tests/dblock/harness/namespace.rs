//! Network namespaces, and the cables between them and the tests. All are gone when the test process ends, however it ends.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// How a namespace sees its own end of a cable.
const INNER: &str = "eth0";

/// What every network's middle is called by its neighbours.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);

/// A network namespace. It lives as long as a process in it, and that reads a pipe which only this process holds open.
#[derive(Debug)]
pub struct Namespace(Child);

impl Namespace {
    /// `None`: that takes more rights than this process has.
    fn new() -> Option<Self> {
        let mut anchor = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let stdout = anchor.stdout.take().expect("a pipe was asked for");
        let namespace = Self(anchor);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).ok()?;
        (line == "ready\n").then_some(namespace)
    }

    /// What runs a program in it, as the same process.
    pub fn enter(&self) -> [String; 2] {
        let net = format!("--net=/proc/{}/ns/net", self.0.id());
        ["nsenter".into(), net]
    }

    /// A program that will run in it.
    pub fn command(&self, program: &str) -> Command {
        let [nsenter, net] = self.enter();
        let mut command = Command::new(nsenter);
        command.args([&*net, program]);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A namespace and the cable to it.
#[derive(Debug)]
pub struct Host {
    cable: Cable,
    pub namespace: Namespace,
}

impl Host {
    /// `None`: that takes more rights than this process has.
    pub fn new() -> Option<Self> {
        let (namespace, cable) = (Namespace::new()?, Cable::new());
        let [ours, theirs] = [1, 2].map(|place| cable.address(place));
        let outer = cable.name();
        let script = format!(
            "ip link add {outer} type veth peer name {INNER} netns {pid} &&
            ip address add {ours}/30 dev {outer} && ip link set {outer} up &&
            {inside} ip address add {theirs}/30 dev {INNER} && {inside} ip link set {INNER} up",
            pid = namespace.0.id(),
            inside = namespace.enter().join(" "),
        );
        runs(&script).then_some(Self { cable, namespace })
    }

    /// The address of our end of the cable.
    pub fn outer_address(&self) -> Ipv4Addr {
        self.cable.address(1)
    }

    pub fn set_cable(&self, state: &str) {
        let script = format!("ip link set {} {state}", self.cable.name());
        assert!(runs(&script), "the cable {state}");
    }
}

/// Three hosts that reach each other, and that the tests reach, through a router. The router can part one host from the
/// others, while the tests go on to reach all.
#[derive(Debug)]
pub struct Network {
    cable: Cable,
    router: Namespace,
}

impl Network {
    /// The network and its hosts with their addresses. `None`: that takes more rights than this process has.
    pub fn new() -> Option<(Self, [(Namespace, Ipv4Addr); 3])> {
        let (router, cable) = (Namespace::new()?, Cable::new());
        let hosts = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        let (outer, ours) = (cable.name(), cable.address(0));
        let inside = router.enter().join(" ");
        // Nothing is sent before it can arrive: no answer has to be waited for.
        let mut script = format!(
            "set -e
            ip link add {outer} type veth peer name tests netns {pid}
            ip address add {ours}/32 dev {outer}
            ip link set {outer} up
            {inside} sh -ec '
                echo 1 >/proc/sys/net/ipv4/ip_forward
                ip address add {GATEWAY}/32 dev tests
                ip link set tests up
                ip route add {ours} dev tests
            '\n",
            pid = router.0.id(),
        );
        for (index, host) in hosts.iter().enumerate() {
            let address = cable.address(index + 1);
            let _ = writeln!(
                script,
                "{inside} sh -ec '
                    ip link add host{index} type veth peer name {INNER} netns {pid}
                    ip address add {GATEWAY}/32 dev host{index}
                    ip link set host{index} up
                    ip route add {address} dev host{index}
                '
                {inner} sh -ec '
                    ip link set lo up
                    ip address add {address}/32 dev {INNER}
                    ip link set {INNER} up
                    ip route add default via {GATEWAY} dev {INNER} onlink
                '
                ip route add {address} via {GATEWAY} dev {outer} onlink src {ours}",
                pid = host.0.id(),
                inner = host.enter().join(" "),
            );
        }
        let mut place = 0;
        let hosts = hosts.map(|host| {
            place += 1;
            (host, cable.address(place))
        });
        runs(&script).then_some((Self { cable, router }, hosts))
    }

    /// Has the router drop, without a word, all that this host and the others send to each other.
    pub fn part(&self, host: usize) {
        self.rules("add", host);
    }

    /// Undoes that.
    pub fn join(&self, host: usize) {
        self.rules("delete", host);
    }

    fn rules(&self, verb: &str, host: usize) {
        let mut script = String::from("set -e\n");
        for other in (0..3).filter(|&other| other != host) {
            for (from, to) in [(host, other), (other, host)] {
                let [from, to] = [from, to].map(|host| self.cable.address(host + 1));
                let _ = writeln!(script, "ip rule {verb} from {from} to {to} blackhole");
            }
        }
        let status = self.router.command("sh").args(["-c", &script]).status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the router takes a rule"
        );
    }
}

/// The cable between us and a namespace, and four addresses that nobody else uses.
#[derive(Debug)]
struct Cable(u32);

/// Which cables of this process are in use, a bit each.
static CABLES: Mutex<u32> = Mutex::new(0);

impl Cable {
    fn new() -> Self {
        let mut cables = CABLES.lock().unwrap_or_else(PoisonError::into_inner);
        let free = cables.trailing_ones();
        assert!(free < u32::BITS, "fewer than 32 cables at a time");
        *cables |= 1 << free;
        Self(free)
    }

    /// The name of our end.
    fn name(&self) -> String {
        format!("db{}-{}", std::process::id(), self.0)
    }

    /// One of the four, of the range that is set aside for tests of networks.
    fn address(&self, place: usize) -> Ipv4Addr {
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0));
        let base = base + 4 * (std::process::id() % 1024 * 32 + self.0);
        let place = u32::try_from(place).expect("one of four");
        Ipv4Addr::from(base + place)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Programs that still run in the namespace would keep it.
        runs(&format!("ip link delete {}", self.name()));
        *CABLES.lock().unwrap_or_else(PoisonError::into_inner) &= !(1 << self.0);
    }
}

/// Whether a shell script succeeds.
fn runs(script: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", script])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
