//! The page that asks for the password. Who does not know it is slowed, all together: there is no more than a handful of attempts a second.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Form, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::base::say;
use crate::pages::{View, gate, links};

use super::secret::Digest;
use super::{Access, Gate, LOGIN, Peer, local};

/// How many attempts are under way at once, and how long each lasts that fails.
const AT_ONCE: usize = 4;
const OF_A_FAILURE: Duration = Duration::from_secs(1);

/// How long an attempt waits for the others.
const PATIENCE: Duration = Duration::from_secs(5);

/// The attempts that are under way.
#[derive(Debug)]
pub struct Attempts(Arc<Semaphore>);

impl Default for Attempts {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
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
    Form(typed): Form<Typed>,
) -> Response {
    let turns = login.access.attempts.0.clone();
    let Ok(Ok(attempt)) = timeout(PATIENCE, turns.acquire_owned()).await else {
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
        return login.access.let_in(local(&asked.to));
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
