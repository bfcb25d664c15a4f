//! The pages around what is done: in between, where it is said what will be done to what, and after it, where it is said what was done.
//! And the page that asks who somebody is.

use maud::{Markup, html};

use super::View;
use super::layout::{Page, sign};
use crate::fleet::data::Kind;

/// What is about to be done.
pub struct Question<'a> {
    /// What a person would say: `Pause the job backup?`
    pub title: &'a str,
    /// What it is done to: the object, its host, how many. Names and values.
    pub facts: &'a [(&'static str, String)],
    /// What follows from it, in a sentence or two; empty: the title says all.
    pub consequence: &'a str,
    /// The command that is run, as one would type it.
    pub command: &'a str,
    /// Where the form goes: `/actions/KIND`.
    pub url: &'a str,
    /// The fields of the form, which nobody sees.
    pub fields: &'a [(&'static str, String)],
    /// On the button: `Pause`.
    pub verb: &'a str,
    /// Where one came from.
    pub back: &'a str,
}

/// What was done.
pub struct Answer<'a> {
    /// What a person would say: `Paused the job backup`.
    pub title: &'a str,
    /// Whether it was.
    pub is_done: bool,
    /// The command that was run.
    pub command: &'a str,
    /// Its line, or lines.
    pub line: &'a str,
    /// Where one came from.
    pub back: &'a str,
}

/// The page in between.
pub fn question(view: &View, asked: &Question) -> Markup {
    let contents = html! {
        h1 { (asked.title) }
        dl.facts { @for (name, value) in asked.facts { div { dt { (name) } dd { (value) } } } }
        @if !asked.consequence.is_empty() { p { (asked.consequence) } }
        p { "This runs " code { (asked.command) } }
        form.ask method="post" action=(asked.url) {
            @for (name, value) in asked.fields { input type="hidden" name=(name) value=(value); }
            button type="submit" { (asked.verb) } " " a href=(asked.back) { "Do nothing, and go back" }
        }
    };
    Page::of_its_own(asked.title).around(view, &contents)
}

/// The page after it.
pub fn answer(view: &View, done: &Answer) -> Markup {
    let (kind, word) = if done.is_done {
        (Kind::Good, "Done.")
    } else {
        (Kind::Failed, "It failed.")
    };
    let contents = html! {
        h1 { (done.title) }
        p role="status" { (sign(kind)) " " strong { (word) } " This was run: " code { (done.command) } }
        @if !done.line.is_empty() { pre tabindex="0" { (done.line) } }
        p { a href=(done.back) { "Back" } }
    };
    Page::of_its_own(done.title).around(view, &contents)
}

/// The page that asks for the password. The words say why it is asked again; empty: it is asked for the first time.
pub fn login(view: &View, url: &str, problem: &str) -> Markup {
    let contents = html! {
        h1 { "Log in" }
        @if !problem.is_empty() { p.alert role="alert" { (sign(Kind::Failed)) " " (problem) } }
        form.ask method="post" action=(url) {
            label for="password" { "Password" }
            input #password type="password" name="password" autocomplete="current-password" required autofocus;
            button type="submit" { "Log in" }
        }
    };
    Page::of_its_own("Log in").around(view, &contents)
}
