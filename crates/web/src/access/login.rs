//! The page that asks for the password. Who does not know it is slowed: a wrong one takes a second, and there is no more than a handful of
//! attempts at once of one client, and of all together who were wrong lately. So who guesses keeps out nobody who does not. Nobody waits
//! for a turn: who comes too early is told so at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::base::{locked, say};
use crate::pages::{View, forms, layout, links};

use super::secret::Digest;
use super::{ACTIONS, Access, Gate, LOGIN, Peer, local, network, site};

/// How many attempts of one peer are under way at once, and how long each lasts that fails: to look whether a password is right takes no
/// time.
const OF_A_PEER: usize = 2;
const OF_A_FAILURE: Duration = Duration::from_secs(1);

/// How many are under way before those have to wait who were wrong lately, and how long ago that is.
const AT_ONCE: usize = 4;
const LATELY: Duration = Duration::from_secs(10 * 60);

/// Of how many sites it is remembered that they were wrong. If there are more, nobody is exempt: otherwise who has very many addresses
/// could guess once from each, as often as is forgotten.
const MOST_WRONG: usize = 4000;

/// What is known of the attempts; an address that is None is this host.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// How many are under way, of each network.
    under_way: HashMap<Option<IpAddr>, usize>,
    /// When a wrong password came last, of each site.
    wrong: HashMap<Option<IpAddr>, Instant>,
}

impl Attempts {
    /// One more of this peer; None: there are too many.
    fn begin(&self, peer: Peer) -> Option<Attempt> {
        let (network, site) = (peer.0.map(network), peer.0.map(site));
        let mut counts = locked(&self.0);
        let now = Instant::now();
        counts
            .wrong
            .retain(|_, at| now.duration_since(*at) < LATELY);
        let was_wrong = counts.wrong.contains_key(&site) || counts.wrong.len() >= MOST_WRONG;
        let of_peer = counts.under_way.get(&network).copied().unwrap_or_default();
        let of_all: usize = counts.under_way.values().sum();
        if of_peer >= OF_A_PEER || was_wrong && of_all >= AT_ONCE {
            return None;
        }
        counts.under_way.insert(network, of_peer + 1);
        Some(Attempt {
            all: self.clone(),
            network,
            site,
        })
    }
}

/// An attempt that is under way, until it is dropped.
struct Attempt {
    all: Attempts,
    network: Option<IpAddr>,
    site: Option<IpAddr>,
}

impl Attempt {
    /// The password was wrong.
    fn fail(&self) {
        let wrong = &mut locked(&self.all.0).wrong;
        if wrong.len() < MOST_WRONG || wrong.contains_key(&self.site) {
            wrong.insert(self.site, Instant::now());
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let under_way = &mut locked(&self.all.0).under_way;
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
    attempt.fail();
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

/// Nobody logs out by a link.
pub async fn stay() -> Response {
    super::see_other("/")
}

/// Logs out.
pub async fn leave(State(login): State<Login>, headers: HeaderMap) -> Response {
    if login.access.has_password() {
        login.access.log_out(&headers)
    } else {
        login.nothing()
    }
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
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn those_who_were_wrong_have_four_attempts_together_and_keep_nobody_else_out() {
        let attempts = Attempts::default();
        let begin = |address: &str| attempts.begin(Peer(address.parse().ok()));
        let guess = |address: &str| {
            let attempt = begin(address)?;
            attempt.fail();
            Some(attempt)
        };
        let two = ["192.0.2.1", "2001:db8:1::1"];
        let all = two.into_iter().chain(two);
        let mut under_way: Vec<_> = all.map(|address| guess(address).unwrap()).collect();
        assert!(
            begin("2001:db8:1:2::1").is_none(),
            "another network of that site"
        );
        for other in ["192.0.2.2", "2001:db8:2::1", "this host"] {
            let _first = guess(other).unwrap();
            assert!(begin(other).is_none(), "{other} was wrong, too");
        }
        under_way.pop();
        assert!(begin("192.0.2.2").is_some());
    }

    #[test]
    fn who_was_wrong_is_as_others_ten_minutes_later_and_if_very_many_were_nobody_is_exempt() {
        let attempts = Attempts::default();
        let begin = |address: &str| attempts.begin(Peer(address.parse().ok()));
        let four = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"];
        let _under_way = four.map(|address| begin(address).unwrap());
        let old = Instant::now().checked_sub(LATELY).unwrap();
        let number = u32::try_from(MOST_WRONG).unwrap();
        for (at, may_begin) in [(Instant::now(), false), (old, true)] {
            locked(&attempts.0).wrong = [("192.0.2.9".parse().ok(), at)].into();
            assert_eq!(begin("192.0.2.9").is_some(), may_begin, "it was wrong");
            assert!(begin("192.0.2.10").is_some(), "it was not");
            for site in 0..number {
                let site = IpAddr::from(Ipv4Addr::from(site));
                locked(&attempts.0).wrong.insert(Some(site), at);
            }
            assert_eq!(begin("192.0.2.10").is_some(), may_begin, "very many were");
        }
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
        assert!(locked(&attempts.0).under_way.is_empty());
    }
}
