//! The connections that are open, of which there are never too many: whoever comes is served, and who has been idle for longest goes.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::access::{network, site};
use crate::base::locked;

/// The most connections, and the most of one address or network of another host, and of a site, which may have very many of them. This
/// host's own may be a proxy, or the end of an ssh -L.
const MOST: usize = 256;
const MOST_OF_A_PEER: usize = 32;
const MOST_OF_A_SITE: usize = 64;

/// All of them.
#[derive(Debug, Clone, Default)]
pub struct Connections(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    /// Of another host; None: it is of this one.
    network: Option<IpAddr>,
    /// The site of that.
    site: Option<IpAddr>,
    /// How many requests are being answered.
    answering: usize,
    /// Since when it is idle.
    since: Instant,
    /// None: it is only just being opened.
    task: Option<AbortHandle>,
}

impl Table {
    /// Closes one of these, if there are so many.
    fn make_room(&mut self, most: usize, is_of_them: impl Fn(&Open) -> bool) {
        let them = self.open.iter().filter(|(_, open)| is_of_them(open));
        if them.clone().count() < most {
            return;
        }
        let oldest = them
            .min_by_key(|(_, open)| (open.answering, open.since))
            .map(|(&number, _)| number);
        let oldest = oldest.and_then(|number| self.open.remove(&number));
        if let Some(task) = oldest.and_then(|open| open.task) {
            task.abort();
        }
    }
}

impl Connections {
    /// Serves one more, and closes another where there are too many.
    pub fn add<F: Future<Output = ()> + Send + 'static>(
        &self,
        peer: Option<IpAddr>,
        serve: impl FnOnce(Connection) -> F,
    ) {
        let mut table = locked(&self.0);
        let (network, site) = (peer.map(network), peer.map(site));
        if network.is_some() {
            table.make_room(MOST_OF_A_PEER, |open| open.network == network);
            table.make_room(MOST_OF_A_SITE, |open| open.site == site);
        }
        table.make_room(MOST, |_| true);
        let number = table.next;
        table.next += 1;
        let open = Open {
            network,
            site,
            answering: 0,
            since: Instant::now(),
            task: None,
        };
        table.open.insert(number, open);
        let connection = Connection {
            peer,
            all: self.clone(),
            number,
        };
        let served = serve(connection.clone());
        let task = tokio::spawn(async move {
            served.await;
            locked(&connection.all.0).open.remove(&number);
        });
        if let Some(open) = table.open.get_mut(&number) {
            open.task = Some(task.abort_handle());
        }
    }
}

/// One of them.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The address of another host; None: it is of this one.
    pub peer: Option<IpAddr>,
    all: Connections,
    number: u64,
}

impl Connection {
    /// It is not idle until what is returned is dropped.
    pub fn answers(&self) -> Answering {
        self.change(|open| open.answering += 1);
        Answering(self.clone())
    }

    fn change(&self, change: impl FnOnce(&mut Open)) {
        if let Some(open) = locked(&self.all.0).open.get_mut(&self.number) {
            change(open);
        }
    }
}

/// A request that is being answered.
pub struct Answering(Connection);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.change(|open| {
            open.answering -= 1;
            open.since = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::runtime;

    use super::*;

    #[test]
    fn a_client_of_very_many_networks_leaves_room_for_others() {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        let _entered = runtime.enter();
        let connections = Connections::default();
        let open = |address: &str| connections.add(address.parse().ok(), |_| pending());
        open("2001:db8:2::1");
        open("192.0.2.1");
        for number in 0..1000 {
            open(&format!("2001:db8:1:{number:x}::1"));
        }
        let table = locked(&connections.0);
        let of = |site: &str| {
            let site = site.parse().ok();
            table.open.values().filter(|open| open.site == site).count()
        };
        let number = ["2001:db8:1::", "2001:db8:2::", "192.0.2.1"].map(of);
        assert_eq!(number, [MOST_OF_A_SITE, 1, 1]);
    }
}
