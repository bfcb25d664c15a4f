//! A host of its own: a network namespace behind a cable that can be pulled out.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Dblock, Proxy, Server};

/// How a host in a namespace of its own sees its end of the cable.
const INNER: &str = "eth0";

/// A host that reaches one server over a cable. Where the tests may not make network namespaces, a proxy stands for the
/// cable.
#[derive(Debug)]
pub struct Island {
    proxy: Proxy,
    namespace: Option<Namespace>,
}

impl Island {
    pub fn new(server: &Server) -> Self {
        let Some((namespace, address)) = Namespace::new() else {
            eprintln!("no network namespaces here: a proxy stands for the cable");
            return Self {
                proxy: Proxy::to(server),
                namespace: None,
            };
        };
        Self {
            proxy: Proxy::at(address, server.port),
            namespace: Some(namespace),
        }
    }

    /// `dblock run --name NAME` on this host.
    pub fn run(&self, name: &str) -> Dblock {
        let dblock = Dblock::run_at(&self.proxy.url(), name);
        match &self.namespace {
            Some(namespace) => dblock.under(namespace.enter()),
            None => dblock,
        }
    }

    /// Pulls the cable out.
    pub fn cut(&self) {
        match &self.namespace {
            Some(namespace) => namespace.set("down"),
            None => self.proxy.freeze(),
        }
    }

    /// Puts it back.
    pub fn heal(&self) {
        match &self.namespace {
            Some(namespace) => namespace.set("up"),
            None => self.proxy.thaw(),
        }
    }
}

/// A network namespace and its cable. Both live as long as a process in it, and that reads a pipe which only this process
/// holds open: they are gone also if this process is killed.
#[derive(Debug)]
struct Namespace {
    anchor: Child,
    /// Our end of the cable.
    outer: String,
}

impl Namespace {
    /// A new one, and the address of our end of the cable. `None`: that takes more rights than this process has.
    fn new() -> Option<(Self, Ipv4Addr)> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Four addresses each, of the range that is set aside for tests of networks.
        let base = u32::from(Ipv4Addr::new(198, 18, 0, 0));
        let base = base + 4 * (process % 1024 * 32 + count % 32);
        let [ours, theirs] = [1, 2].map(|host| Ipv4Addr::from(base + host));
        let mut anchor = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let stdout = anchor.stdout.take().expect("a pipe was asked for");
        let namespace = Self {
            anchor,
            outer: format!("db{process}-{count}"),
        };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).ok()?;
        let (outer, pid) = (&namespace.outer, namespace.anchor.id());
        let inside = namespace.enter().join(" ");
        let script = format!(
            "ip link add {outer} type veth peer name {INNER} netns {pid} &&
            ip address add {ours}/30 dev {outer} && ip link set {outer} up &&
            {inside} ip address add {theirs}/30 dev {INNER} && {inside} ip link set {INNER} up"
        );
        let made = Command::new("sh")
            .args(["-c", &script])
            .stderr(Stdio::null())
            .status();
        (line == "ready\n" && made.is_ok_and(|status| status.success()))
            .then_some((namespace, ours))
    }

    /// What runs a program in it, as the same process.
    fn enter(&self) -> [String; 2] {
        let net = format!("--net=/proc/{}/ns/net", self.anchor.id());
        ["nsenter".into(), net]
    }

    fn set(&self, state: &str) {
        let status = Command::new("ip")
            .args(["link", "set", &self.outer, state])
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "the cable {state}"
        );
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The cable first: programs that still run in the namespace would keep it.
        let _ = Command::new("ip")
            .args(["link", "delete", &self.outer])
            .stderr(Stdio::null())
            .status();
        let _ = self.anchor.kill();
        let _ = self.anchor.wait();
    }
}
