//! A host of its own: a network namespace behind a cable that can be pulled out.

use super::namespace::Host;
use super::{Dblock, Proxy, Server};

/// A host that reaches one server over a cable. Where the tests may not make network namespaces, a proxy stands for the
/// cable.
#[derive(Debug)]
pub struct Island {
    proxy: Proxy,
    host: Option<Host>,
}

impl Island {
    pub fn new(server: &Server) -> Self {
        let Some(host) = Host::new() else {
            eprintln!("no network namespaces here: a proxy stands for the cable");
            return Self {
                proxy: Proxy::to(server),
                host: None,
            };
        };
        Self {
            proxy: Proxy::at(host.outer_address(), (server.address, server.port)),
            host: Some(host),
        }
    }

    /// `dblock run --name NAME` on this host.
    pub fn run(&self, name: &str) -> Dblock {
        let dblock = Dblock::run_at(&self.proxy.url(), name);
        match &self.host {
            Some(host) => dblock.under(host.namespace.enter()),
            None => dblock,
        }
    }

    /// Pulls the cable out.
    pub fn cut(&self) {
        match &self.host {
            Some(host) => host.set_cable("down"),
            None => self.proxy.freeze(),
        }
    }

    /// Puts it back.
    pub fn heal(&self) {
        match &self.host {
            Some(host) => host.set_cable("up"),
            None => self.proxy.thaw(),
        }
    }
}
