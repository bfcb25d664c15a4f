//! What all pages have in common: head, navigation, how old what is shown is, and the pages that are a few words.

use maud::{DOCTYPE, Markup, html};

use super::visible::visible;
use super::{View, links, words};
use crate::assets;
use crate::fleet::data::{Ending, Kind};

/// Without the script a page is fetched again no more often than this, in seconds: it goes back to its top.
const SLOWEST_READER: u64 = 30;

/// Which page of the navigation a page is, or belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// The overview.
    Overview,
    /// A day.
    Timeline,
    /// Locks.
    Locks,
    /// What ran.
    History,
    /// None of them.
    Elsewhere,
}

const NAVIGATION: [(Here, &str, &str); 4] = [
    (Here::Overview, "/", "Overview"),
    (Here::Timeline, "/timeline", "Timeline"),
    (Here::Locks, "/locks", "Locks"),
    (Here::History, "/history", "History"),
];

/// The page of something; as an error, the page that says that it is not there.
pub type Found = Result<Markup, Markup>;

/// What a page is, besides its contents.
pub struct Page<'a> {
    /// Where it is.
    pub here: Here,
    /// The whole path and query is the page itself, not one that belongs to it.
    pub is_itself: bool,
    /// In the title of the window.
    pub title: &'a str,
    /// The server that was asked; empty: not known.
    pub server: &'a str,
    /// Whether it is fetched again by itself.
    pub refreshes: bool,
}

impl<'a> Page<'a> {
    /// One of no page of the navigation, which shows nothing of the server.
    pub fn of_its_own(title: &'a str) -> Self {
        Self {
            here: Here::Elsewhere,
            is_itself: false,
            title,
            server: "",
            refreshes: false,
        }
    }

    /// The page around its contents, or these alone where no more is wanted.
    pub fn around(&self, view: &View, contents: &Markup) -> Markup {
        visible(self.whole(view, contents))
    }

    fn whole(&self, view: &View, contents: &Markup) -> Markup {
        if view.main_only {
            return html! { title { (self.title) " – dblock" } (contents) };
        }
        let seconds = view.refresh.as_secs().max(1);
        html! {
            (DOCTYPE)
            html lang="en" {
                (self.head(self.refreshes.then(|| seconds.max(SLOWEST_READER))))
                body {
                    a.skip href="#main" { "Skip to the contents" }
                    header {
                        a.brand href="/" { (assets::logo()) "dblock" }
                        nav aria-label="Pages" {
                            @for (place, url, name) in NAVIGATION {
                                @let current = match (place == self.here, self.is_itself) {
                                    (true, true) => Some("page"),
                                    (true, false) => Some("true"),
                                    _ => None,
                                };
                                a href=(url) aria-current=[current] { (name) }
                            }
                        }
                        @if !self.server.is_empty() { p.server { span.label { "server " } (self.server) } }
                    }
                    p #stale role="status" {}
                    main #main tabindex="-1" data-refresh=[self.refreshes.then_some(seconds)] { (contents) }
                    footer {
                        p {
                            "Times are UTC, by the server's clock. "
                            @if view.may_act { "Actions are allowed." } @else { "Read only: " code { "--allow-actions" } " allows actions." }
                        }
                        @if let Some(url) = view.log_out { form method="post" action=(url) { button type="submit" { "Log out" } } }
                    }
                    @if self.refreshes { script src=(assets::SCRIPT.url()) defer {} }
                }
            }
        }
    }

    fn head(&self, without_script: Option<u64>) -> Markup {
        html! {
            head {
                meta charset="utf-8";
                title { (self.title) " – dblock" }
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                link rel="stylesheet" href=(assets::STYLE.url());
                link rel="icon" type="image/svg+xml" href=(assets::ICON.url());
                @if let Some(seconds) = without_script {
                    noscript { meta http-equiv="refresh" content=(seconds); }
                }
            }
        }
    }
}

/// The sign of how well something is, in its color. The word beside it says the same.
pub fn sign(kind: Kind) -> Markup {
    html! { b.sign.(kind.class()) aria-hidden="true" { (kind.sign()) } }
}

/// How a run ended, with its sign.
pub fn how(ending: &Ending) -> Markup {
    html! { (sign(ending.kind())) (ending.words()) }
}

/// How long something took, in seconds, or that this is not known.
pub fn took(seconds: Option<f64>) -> Markup {
    html! { @match seconds { Some(seconds) => (words::span(seconds)), None => "–" } }
}

/// What is not shown without `--show-data`.
pub fn hidden(what: &str) -> Markup {
    html! { span.hidden { (what) " hidden: start with " code { "--show-data" } } }
}

/// A table that scrolls sideways in itself where it is too wide.
pub fn scrolling(label: &str, table: &Markup) -> Markup {
    html! { div.scroll role="group" tabindex="0" aria-label=(label) { (table) } }
}

/// The button of an action, which is a link to its page in between. Nothing where there are no actions.
pub fn button(view: &View, url: &str, words: &str, object: &str) -> Markup {
    html! {
        @if view.may_act { " " a.button href=(url) aria-label={ (words) " " (object) } { (words) } }
    }
}

/// The button that pauses a job or a queue, or resumes it; the object is which of them, and its name.
pub fn switch(view: &View, object: (&str, &str), is_paused: bool) -> Markup {
    let kind = if is_paused { "resume" } else { "pause" };
    let url = links::action(kind, &[object]);
    button(view, &url, &words::capital(kind), object.1)
}

/// A page that leads to this path and query at once, and needs no script for that.
pub fn detour(to: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                meta http-equiv="refresh" content={ "0;url=" (to) };
                title { "dblock" }
            }
            body { p { a href=(to) { "Go on" } } }
        }
    }
}

/// A page of a few words: something that does not exist, or is not allowed.
pub fn message(view: &View, title: &str, words: &str) -> Markup {
    let contents = html! { h1 { (title) } p { (words) } p { a href="/" { "To the overview" } } };
    Page::of_its_own(title).around(view, &contents)
}
