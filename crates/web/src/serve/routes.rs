//! Which URL is which page. Names are percent-encoded, as one segment.

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::Html;
use axum::routing::get;
use maud::Markup;

use crate::fleet::{Part, Seen};
use crate::options::Options;
use crate::pages::{self, View};

/// All that is answered.
pub fn router(options: &Options) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/timeline", get(timeline))
        .route("/jobs/{name}", get(job))
        .route("/runs/{id}", get(run))
        .route("/queues/{name}", get(queue))
        .route("/locks", get(locks))
        .route("/history", get(history))
        .with_state(options.clone())
}

fn html(markup: Markup) -> Html<String> {
    Html(markup.into_string())
}

fn view(options: &Options) -> View {
    View {
        may_act: options.allow_actions,
        show_data: options.show_data,
        refresh: options.refresh,
        now: jiff::Timestamp::now(),
        main_only: false,
    }
}

async fn overview(State(options): State<Options>) -> Html<String> {
    html(pages::overview::page(
        &view(&options),
        &Seen::default(),
        &pages::overview::Asked::default(),
    ))
}

async fn timeline(
    State(options): State<Options>,
    Query(asked): Query<pages::timeline::Asked>,
) -> Html<String> {
    html(pages::timeline::page(
        &view(&options),
        &Seen::default(),
        &asked,
        &Part::default(),
    ))
}

async fn job(State(options): State<Options>, Path(name): Path<String>) -> Html<String> {
    html(pages::job::page(
        &view(&options),
        &Seen::default(),
        &name,
        &[],
    ))
}

async fn run(State(options): State<Options>, Path(id): Path<String>) -> Html<String> {
    html(pages::run::page(
        &view(&options),
        &id,
        &Part::default(),
        &Part::default(),
    ))
}

async fn queue(State(options): State<Options>, Path(name): Path<String>) -> Html<String> {
    html(pages::queue::page(
        &view(&options),
        &Seen::default(),
        &name,
        &Part::default(),
    ))
}

async fn locks(State(options): State<Options>) -> Html<String> {
    html(pages::locks::page(&view(&options), &Seen::default()))
}

async fn history(
    State(options): State<Options>,
    Query(asked): Query<pages::history::Asked>,
) -> Html<String> {
    html(pages::history::page(
        &view(&options),
        &asked,
        &Part::default(),
    ))
}
