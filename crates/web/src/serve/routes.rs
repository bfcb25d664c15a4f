//! Which URL is which page. A name is one segment, percent-encoded; one that cannot be is a parameter.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use jiff::Timestamp;
use maud::Markup;
use serde::Deserialize;

use super::{body, gzip};
use crate::access::{self, Access};
use crate::actions::{self, Actions};
use crate::assets;
use crate::cron;
use crate::fleet::dblock::Words;
use crate::fleet::questions;
use crate::fleet::{Fleet, Part};
use crate::options::Options;
use crate::pages::history::ANY_FAILURE;
use crate::pages::layout::{self, Found};
use crate::pages::{self, MAIN_ONLY, View};

/// How many of a job's next ticks are shown.
const TICKS: usize = 5;

/// What pages are made from.
#[derive(Clone)]
struct App {
    fleet: Arc<Fleet>,
    view: View,
}

/// All that is answered.
pub fn router(options: &Options, fleet: Arc<Fleet>, access: Arc<Access>) -> Router {
    let view = View {
        may_act: options.allow_actions,
        show_data: options.show_data,
        log_out: access.logout(),
        refresh: options.refresh,
        now: Timestamp::now(),
        main_only: false,
    };
    let actions = Router::new().route(
        "/actions/{kind}",
        get(actions::question).post(actions::answer),
    );
    let actions = actions.with_state(Actions::new(fleet.clone(), view.clone()));
    let app = App {
        fleet,
        view: view.clone(),
    };
    let pages = Router::new()
        .route("/", get(overview))
        .route("/timeline", get(timeline))
        .route("/jobs/{name}", get(job))
        .route("/jobs", get(|app, view, name| job(app, view, of(name))))
        .route("/runs/{id}", get(run))
        .route("/queues/{name}", get(queue))
        .route("/queues", get(|app, view, name| queue(app, view, of(name))))
        .route("/locks", get(locks))
        .route("/history", get(history))
        .route("/assets/{name}", get(asset))
        .fallback(nothing)
        .with_state(app)
        .merge(actions);
    access::guarded(pages, access, &view)
        .layer(middleware::from_fn(body::read))
        .layer(middleware::from_fn(gzip::pack))
}

/// How this very request is looked at.
struct Looked(View);

impl FromRequestParts<App> for Looked {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        Ok(Self(View {
            now: Timestamp::now(),
            main_only: parts.headers.contains_key(MAIN_ONLY),
            ..app.view.clone()
        }))
    }
}

/// The name of a job or a queue that is a parameter.
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

fn of(Query(named): Query<Named>) -> Path<String> {
    Path(named.name)
}

fn html(markup: Markup) -> Html<String> {
    Html(markup.into_string())
}

/// A page, or with 404 the one that says that there is nothing.
type Answer = Result<Html<String>, (StatusCode, [(&'static str, &'static str); 1], Html<String>)>;

fn answer(page: Found) -> Answer {
    // By the header the page's script knows that it was not a proxy that answered.
    page.map(html)
        .map_err(|nothing| (StatusCode::NOT_FOUND, [(MAIN_ONLY, "1")], html(nothing)))
}

async fn overview(
    State(app): State<App>,
    Looked(view): Looked,
    Query(asked): Query<pages::overview::Asked>,
) -> Html<String> {
    let seen = app.fleet.look().await;
    html(pages::overview::page(&view, &seen, &asked))
}

async fn timeline(
    State(app): State<App>,
    Looked(view): Looked,
    Query(asked): Query<pages::timeline::Asked>,
) -> Html<String> {
    let seen = app.fleet.look().await;
    let all = questions::of_a_day(&asked.until);
    let failed = questions::failed_of_a_day(&asked.until);
    let (runs, failed) = tokio::join!(app.fleet.answer(&all), app.fleet.answer(&failed));
    html(pages::timeline::page(&view, &seen, &asked, &runs, &failed))
}

async fn job(State(app): State<App>, Looked(view): Looked, Path(name): Path<String>) -> Answer {
    let seen = app.fleet.look_at(&name).await;
    let job = seen.job(&name).and_then(|job| Some((job, job.next?)));
    let ticks =
        job.map(|(job, next)| cron::next_ticks(&name, &job.schedule, &job.time_zone, next, TICKS));
    let ticks = ticks.unwrap_or_default();
    answer(pages::job::page(&view, &seen, &name, &ticks))
}

async fn run(State(app): State<App>, Looked(view): Looked, Path(id): Path<String>) -> Answer {
    let seen = app.fleet.look().await;
    let run = questions::run(&app.fleet, &id).await;
    // Where a run has none, dblock output takes its number for a name, which somebody may have given to another run.
    let has_output = matches!(&run.value, Some(Some(run)) if run.has_output);
    let output = if view.show_data && has_output {
        questions::output(&app.fleet, &id).await
    } else {
        Part::default()
    };
    answer(pages::run::page(&view, &seen, &id, &run, &output))
}

async fn queue(State(app): State<App>, Looked(view): Looked, Path(name): Path<String>) -> Answer {
    let seen = app.fleet.look().await;
    let dead = app.fleet.answer(&questions::dead_of_queue(&name)).await;
    answer(pages::queue::page(&view, &seen, &name, &dead))
}

async fn locks(State(app): State<App>, Looked(view): Looked) -> Html<String> {
    let seen = app.fleet.look().await;
    html(pages::locks::page(&view, &seen))
}

async fn history(
    State(app): State<App>,
    Looked(view): Looked,
    Query(asked): Query<pages::history::Asked>,
) -> Html<String> {
    let seen = app.fleet.look().await;
    let runs = app.fleet.answer(&of_a_page(&asked)).await;
    html(pages::history::page(&view, &seen, &asked, &runs))
}

/// The question of a page of the history: its URL has the options of `dblock history`.
fn of_a_page(asked: &pages::history::Asked) -> Words {
    let mut words = Words::of(["history", "--json", "--limit=50"]);
    if asked.result == ANY_FAILURE {
        words.options.push("--failed".to_owned());
    } else if !asked.result.is_empty() {
        words = words.with("--result", &asked.result);
    }
    let options = [
        ("--on", &asked.on),
        ("--since", &asked.since),
        ("--until", &asked.until),
        ("--after", &asked.after),
    ];
    for (option, value) in options.into_iter().filter(|(_, value)| !value.is_empty()) {
        words = words.with(option, value);
    }
    if asked.name.is_empty() {
        words
    } else {
        words.about(&asked.name)
    }
}

async fn asset(Path(name): Path<String>, State(app): State<App>) -> Response {
    match assets::find(&name) {
        Some(asset) => ([(header::CONTENT_TYPE, asset.mime)], asset.content).into_response(),
        None => nothing(State(app)).await,
    }
}

async fn nothing(State(app): State<App>) -> Response {
    let page = layout::message(&app.view, "Not found", "There is no such page.");
    answer(Err(page)).into_response()
}
