//! The page that asks for the password. Who does not know it is slowed: there is no more than a handful of attempts a second, and one client
//! alone cannot take all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::base::say;
use crate::pages::{View, gate, links};

use super::secret::Digest;
use super::{Access, Gate, LOGIN, Peer, local, network};

/// How many attempts are under way at once, how many of them are of one peer, and how long each lasts that fails.
const AT_ONCE: usize = 4;
const OF_A_PEER: usize = 2;
const OF_A_FAILURE: Duration = Duration::from_secs(1);

/// How long an attempt waits for the others.
const PATIENCE: Duration = Duration::from_secs(5);

/// The attempts that are under way, and those that wait.
#[derive(Debug, Clone)]
pub struct Attempts {
    turns: Arc<Semaphore>,
    of_peers: Arc<Mutex<HashMap<Option<IpAddr>, usize>>>,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            of_peers: Arc::default(),
        }
    }
}

impl Attempts {
    /// One more of this peer; None: there are too many.
    async fn begin(&self, peer: Peer) -> Option<Attempt> {
        let of_peer = self.of_peer(peer)?;
        let turn = timeout(PATIENCE, self.turns.clone().acquire_owned());
        Some(Attempt {
            _of_peer: of_peer,
            _turn: turn.await.ok()?.ok()?,
        })
    }

    fn of_peer(&self, peer: Peer) -> Option<OfPeer> {
        let network = peer.0.map(network);
        let mut table = self.of_peers();
        let under_way = table.entry(network).or_default();
        if *under_way >= OF_A_PEER {
            return None;
        }
        *under_way += 1;
        Some(OfPeer {
            all: self.clone(),
            network,
        })
    }

    fn of_peers(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, usize>> {
        self.of_peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt that is under way, until it is dropped.
struct Attempt {
    _of_peer: OfPeer,
    _turn: OwnedSemaphorePermit,
}

/// One of those of a peer, until it is dropped.
struct OfPeer {
    all: Attempts,
    network: Option<IpAddr>,
}

impl Drop for OfPeer {
    fn drop(&mut self) {
        let mut table = self.all.of_peers();
        if let Some(under_way) = table.get_mut(&self.network) {
            *under_way -= 1;
            if *under_way == 0 {
                table.remove(&self.network);
            }
        }
    }
}

/// What the page needs.
#[derive(Clone)]
pub struct Login {
    /// Who may look.
    pub access: Arc<Access>,
    /// How the page looks.
    pub view: View,
}

/// Where one wanted to go; empty: nowhere else than to the first page.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    to: String,
}

/// What is typed.
#[derive(Deserialize)]
pub struct Typed {
    password: String,
}

/// The page.
pub async fn ask(State(login): State<Login>, Query(asked): Query<Asked>) -> Response {
    match *login.access.gate() {
        Gate::Password { .. } => login.page(StatusCode::OK, &asked, ""),
        // There is no password.
        Gate::Socket | Gate::Token { .. } => super::see_other("/"),
    }
}

/// Whether the password is right.
pub async fn check(
    State(login): State<Login>,
    Extension(peer): Extension<Peer>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
    Form(typed): Form<Typed>,
) -> Response {
    let Some(attempt) = login.access.attempts.begin(peer).await else {
        return login.page(
            StatusCode::TOO_MANY_REQUESTS,
            &asked,
            "Too many attempts. Try again in a few seconds.",
        );
    };
    let digest = Digest::of(typed.password.as_bytes());
    let is_right =
        matches!(&*login.access.gate(), Gate::Password { password, .. } if *password == digest);
    if is_right {
        return login.access.let_in(&headers, local(&asked.to));
    }
    say(&format!("a wrong password for the page was typed {peer}"));
    // It lasts as long for a client that closes the connection at once.
    let over = tokio::spawn(async move {
        sleep(OF_A_FAILURE).await;
        drop(attempt);
    });
    let _ = over.await;
    login.page(StatusCode::FORBIDDEN, &asked, "This is not the password.")
}

impl Login {
    fn page(&self, status: StatusCode, asked: &Asked, problem: &str) -> Response {
        let url = links::with(LOGIN, &[("to", &asked.to)]);
        (
            status,
            Html(gate::login(&self.view, &url, problem).into_string()),
        )
            .into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_two_attempts_at_once_and_others_have_theirs() {
        let attempts = Attempts::default();
        let begin = |address: &str| attempts.of_peer(Peer(address.parse().ok()));
        let first = begin("192.0.2.1").unwrap();
        let _second = begin("192.0.2.1").unwrap();
        assert!(begin("192.0.2.1").is_none());
        let _others = ["192.0.2.2", "2001:db8::1", "this host"].map(|peer| begin(peer).unwrap());
        let _same_network = begin("2001:db8::ffff:1").unwrap();
        assert!(begin("2001:db8::2").is_none());
        assert!(begin("2001:db8:0:1::1").is_some());
        drop(first);
        assert!(begin("192.0.2.1").is_some());
        assert_eq!(attempts.of_peers().len(), 4);
    }
}
