//! What ran, 50 runs a page.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Here, Page, how, took};
use super::why::why;
use super::{View, answers, links, words};
use crate::fleet::data::Run;
use crate::fleet::{Part, Seen, data};

/// A result that is any of those that are failures: the option `--failed`.
pub const ANY_FAILURE: &str = "any_failure";

/// What `--result` knows, and what it is called here. Elsewhere on the page a run that failed may have exited with 1, and of those the
/// history says `ran`.
const RESULTS: [(&str, &str); 9] = [
    ("ran", "ran, whatever the exit code"),
    ("failed", "could not be run, or another error"),
    ("timed_out", "timed out"),
    ("lost", "lost"),
    ("skipped", "skipped"),
    ("interrupted", "interrupted"),
    ("released", "released"),
    ("running", "running"),
    ("unknown", "unknown"),
];

/// What the URL asks for: the options of `dblock history`. Empty: not given.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// The name of a lock.
    pub name: String,
    /// How the runs ended.
    pub result: String,
    /// The host.
    pub on: String,
    /// Since when.
    pub since: String,
    /// Until when.
    pub until: String,
    /// The page.
    pub after: String,
}

impl Asked {
    /// The same page with another cursor.
    fn url(&self, after: &str) -> String {
        let parameters = [
            ("name", &*self.name),
            ("result", &*self.result),
            ("on", &*self.on),
            ("since", &*self.since),
            ("until", &*self.until),
            ("after", after),
        ];
        links::with("/history", &parameters)
    }
}

/// The page.
pub fn page(view: &View, seen: &Seen, asked: &Asked, runs: &Part<data::History>) -> Markup {
    let now = seen.server_now(view.now);
    let found = runs.value.as_ref();
    let is_first = asked.after.is_empty();
    let contents = html! {
        h1 #headline { "History" }
        (form(asked))
        section #away aria-label="Answers" { (answers::problem(runs, "runs", view.now)) }
        @if let Some(history) = found {
            section #runs aria-label="Runs" {
                @if history.runs.is_empty() { p.note { "No such run is recorded." } } @else { (table(view, &history.runs, now)) }
            }
        }
        p.pages {
            @if !is_first { a href=(asked.url("")) { "The newest" } " " }
            @if let Some(history) = found {
                @if let Some(cursor) = &history.cursor { a rel="next" href=(asked.url(cursor)) { "Older runs" } " " }
                @else if !history.runs.is_empty() { "These are the oldest. " }
            }
            @if asked.url("") != "/history" { a href="/history" { "All runs" } }
        }
    };
    let page = Page {
        here: Here::History,
        is_itself: true,
        title: "History",
        server: found.map_or("", |history| &history.server),
        refreshes: is_first,
    };
    page.around(view, &contents)
}

fn form(asked: &Asked) -> Markup {
    let fields = [
        ("name", "Name", &asked.name, "the whole name"),
        ("on", "Host", &asked.on, ""),
        ("since", "Since", &asked.since, "12h or 2026-11-22 08:30"),
        ("until", "Until", &asked.until, "2h or 2026-11-22"),
    ];
    let (first, others) = fields.split_at(1);
    let field = |(name, label, value, hint): &(&str, &str, &String, &str)| {
        html! {
            div {
                label for=[Some(id(name))] { (label) }
                input id=(id(name)) name=(name) value=(value) placeholder=[Some(hint).filter(|hint| !hint.is_empty())] autocomplete="off";
            }
        }
    };
    html! {
        form.filters role="search" action="/history" {
            @for one in first { (field(one)) }
            div {
                label for="result" { "Result" }
                select #result name="result" {
                    option value="" { "any" }
                    option value=(ANY_FAILURE) selected[asked.result == ANY_FAILURE] { "any failure, also by its exit code" }
                    @for (word, label) in RESULTS { option value=(word) selected[word == asked.result] { (label) } }
                }
            }
            @for one in others { (field(one)) }
            button { "Show" }
        }
    }
}

/// The script goes to the first filter of a page by `/`.
fn id(name: &str) -> &str {
    if name == "name" { "filter" } else { name }
}

fn table(view: &View, runs: &[Run], now: Timestamp) -> Markup {
    html! {
        table.runs {
            caption.unseen { "Runs, the newest first" }
            thead { tr {
                th scope="col" { "Run" } th scope="col" { "Name" } th scope="col" { "Result" } th.n scope="col" { "Took" } th scope="col" { "Host" } th scope="col" { "Why" }
            } }
            tbody { @for run in runs.iter().rev() { (row(view, run, now)) } }
        }
    }
}

fn row(view: &View, run: &Run, now: Timestamp) -> Markup {
    html! {
        tr {
            th scope="row" { (words::brief_link(&links::run(&run.run), run.at(), now)) }
            td { a href=(links::job(&run.name)) { (run.name) } }
            td { (how(&run.ending)) }
            td.n { (took(run.times.ran_seconds)) }
            td { (run.place.host.as_deref().unwrap_or("–")) }
            td.why { @if let Some(why) = why(view, run) { (why) } }
        }
    }
}
