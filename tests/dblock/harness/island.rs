//! A host of its own: a network namespace behind a cable that can be pulled out.

use super::namespace::Host;
use super::{Dblock, Proxy, Server, url_of_kind};

/// A host that reaches one server over a cable. Where the tests may not make network namespaces, a proxy stands for the
/// cable.
#[derive(Debug)]
pub struct Island {
    url: String,
    proxy: Option<Proxy>,
    host: Option<Host>,
}

impl Island {
    pub fn new(server: &Server) -> Self {
        let Some(host) = Host::new() else {
            eprintln!("no network namespaces here: a proxy stands for the cable");
            return Self::behind(Proxy::to(server), None);
        };
        Self::behind(Proxy::at(host.outer_address(), server), Some(host))
    }

    fn behind(proxy: Proxy, host: Option<Host>) -> Self {
        Self {
            url: proxy.url(),
            proxy: Some(proxy),
            host,
        }
    }

    /// One whose cable leads to the server itself, which listens on every address: the server does not hear of the host either.
    pub fn beside(server: &Server) -> Self {
        match Host::new() {
            None => Self::new(server),
            Some(host) => Self {
                url: url_of_kind(server.kind, host.outer_address(), server.port),
                proxy: None,
                host: Some(host),
            },
        }
    }

    /// `dblock run --name NAME` on this host.
    pub fn run(&self, name: &str) -> Dblock {
        let dblock = Dblock::run_at(&self.url, name);
        match &self.host {
            Some(host) => dblock.under(host.namespace.enter()),
            None => dblock,
        }
    }

    /// Pulls the cable out.
    pub fn cut(&self) {
        match (&self.host, &self.proxy) {
            (Some(host), _) => host.set_cable("down"),
            (None, proxy) => proxy.iter().for_each(Proxy::freeze),
        }
    }

    /// Puts it back.
    pub fn heal(&self) {
        match (&self.host, &self.proxy) {
            (Some(host), _) => host.set_cable("up"),
            (None, proxy) => proxy.iter().for_each(Proxy::thaw),
        }
    }
}
