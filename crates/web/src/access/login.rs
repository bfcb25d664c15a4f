//! The page that asks for the password. Who does not know it is slowed: there is no more than a handful of attempts a second, and one client
//! alone cannot take all of them. Nobody waits for a turn: who comes too early is told so at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use tokio::time::sleep;

use crate::base::{locked, say};
use crate::pages::{View, forms, layout, links};

use super::secret::Digest;
use super::{ACTIONS, Access, Gate, LOGIN, Peer, local, network};

/// How many attempts are under way at once, how many of them are of one peer, and how long each lasts that fails.
const AT_ONCE: usize = 4;
const OF_A_PEER: usize = 2;
const OF_A_FAILURE: Duration = Duration::from_secs(1);

/// The attempts that are under way, of each peer.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<HashMap<Option<IpAddr>, usize>>>);

impl Attempts {
    /// One more of this peer; None: there are too many.
    fn begin(&self, peer: Peer) -> Option<Attempt> {
        let network = peer.0.map(network);
        let mut under_way = locked(&self.0);
        let of_peer = under_way.get(&network).copied().unwrap_or_default();
        if of_peer >= OF_A_PEER || under_way.values().sum::<usize>() >= AT_ONCE {
            return None;
        }
        under_way.insert(network, of_peer + 1);
        Some(Attempt {
            all: self.clone(),
            network,
        })
    }
}

/// An attempt that is under way, until it is dropped.
struct Attempt {
    all: Attempts,
    network: Option<IpAddr>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut under_way = locked(&self.all.0);
        if let Some(of_peer) = under_way.get_mut(&self.network) {
            *of_peer -= 1;
        }
        under_way.retain(|_, of_peer| *of_peer > 0);
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
    if login.access.has_password() {
        login.page(StatusCode::OK, &asked, "")
    } else {
        super::see_other("/")
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
    if !login.access.has_password() {
        return login.nothing();
    }
    let Some(attempt) = login.access.attempts.begin(peer) else {
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
        // A link leads to the login, too, and a page with a button that changes something may not be linked.
        let to = local(&asked.to);
        // Anywhere in it: a browser resolves `/./` and `/../` itself.
        let to = if to.contains(ACTIONS) { "/" } else { to };
        return login.access.let_in(&headers, to);
    }
    let by = if login.access.is_behind_proxy {
        "by a client of the proxy "
    } else {
        ""
    };
    say(&format!(
        "a wrong password for the page was typed {by}{peer}"
    ));
    // It lasts as long for a client that closes the connection at once.
    let over = tokio::spawn(async move {
        sleep(OF_A_FAILURE).await;
        drop(attempt);
    });
    let _ = over.await;
    login.page(StatusCode::FORBIDDEN, &asked, "This is not the password.")
}

impl Login {
    /// Where there is no password.
    fn nothing(&self) -> Response {
        let page = layout::message(&self.view, "Not found", "There is no such page.");
        (StatusCode::NOT_FOUND, Html(page.into_string())).into_response()
    }

    fn page(&self, status: StatusCode, asked: &Asked, problem: &str) -> Response {
        let url = links::with(LOGIN, &[("to", &asked.to)]);
        (
            status,
            Html(forms::login(&self.view, &url, problem).into_string()),
        )
            .into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_while_four_attempts_are_under_way_is_refused() {
        let attempts = Attempts::default();
        let begin = |host: u8| attempts.begin(Peer(Some([192, 0, 2, host].into())));
        let mut under_way: Vec<_> = (0..4).map(|host| begin(host).unwrap()).collect();
        assert!(begin(4).is_none());
        under_way.pop();
        assert!(begin(4).is_some());
    }

    #[test]
    fn a_peer_has_two_attempts_at_once_and_others_have_theirs() {
        let attempts = Attempts::default();
        let begin = |address: &str| attempts.begin(Peer(address.parse().ok()));
        for (one, same, other) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"),
            ("this host", "this host", "192.0.2.1"),
        ] {
            let first = begin(one).unwrap();
            let _second = begin(same).unwrap();
            assert!(begin(one).is_none() && begin(same).is_none(), "{one}");
            assert!(begin(other).is_some(), "{other}");
            drop(first);
            assert!(begin(one).is_some(), "{one}");
        }
        assert!(locked(&attempts.0).is_empty());
    }
}
