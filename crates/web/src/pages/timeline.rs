//! A day, by host or by job.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan};
use maud::{Markup, html};
use serde::Deserialize;

use super::history::ANY_FAILURE;
use super::layout::{Here, Page, scrolling, sign};
use super::why::why;
use super::{View, answers, links, words};
use crate::charts::day::{self, Bar};
use crate::fleet::data::{Kind, Run};
use crate::fleet::questions::day_until;
use crate::fleet::{Part, Seen, data};

/// Rows of the day, and failures in words below it.
const MOST: usize = 60;
const FAILURES: usize = 40;

/// What the URL asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// `host` or `job`.
    pub by: String,
    /// The end of the day; empty: now.
    pub until: String,
}

/// The page. The runs are those of the day, and those of them that failed.
pub fn page(
    view: &View,
    seen: &Seen,
    asked: &Asked,
    runs: &Part<data::History>,
    failed: &Part<data::History>,
) -> Markup {
    let now = seen.server_now(view.now);
    let day = day_until(&asked.until);
    let until = day.map_or(now, |[_, until]| until);
    let is_no_moment = !asked.until.is_empty() && day.is_none();
    let by_job = asked.by == "job";
    let found = runs.value.as_ref();
    let contents = html! {
        h1 #headline { "24 hours " @if by_job { "by job" } @else { "by host" } }
        (choices(asked, until, now))
        section #away aria-label="Answers" {
            @if is_no_moment { p.alert { (sign(Kind::Failed)) " " code { (asked.until) } " is no moment between 1970 and 9999, such as 2026-11-22 or 2026-11-22T08:30:00Z: this is the day until now." } }
            (answers::problem(runs, "runs", view.now))
        }
        @if let Some(history) = found {
            section #day aria-label="The day" { (rows(&history.runs, asked, until, now)) }
            @if history.cursor.is_some() { p.note { "There are more runs: the newest " (history.runs.len()) " are drawn and counted. What failed stands below in any case." } }
        }
        (failures(view, (found, failed), asked, now))
    };
    let page = Page {
        here: Here::Timeline,
        is_itself: true,
        title: if by_job {
            "24 hours by job"
        } else {
            "24 hours by host"
        },
        server: seen.server(),
        refreshes: asked.until.is_empty(),
    };
    page.around(view, &contents)
}

/// The other view, and the days before and after.
fn choices(asked: &Asked, until: Timestamp, now: Timestamp) -> Markup {
    let day = day::HOURS.hours();
    let before = until.checked_sub(day).ok().map(words::machine);
    let after = until.checked_add(day).ok().filter(|after| *after < now);
    let after = after.map(words::machine).unwrap_or_default();
    let at = |by: &str, until: &str| links::with("/timeline", &[("by", by), ("until", until)]);
    let by = if asked.by == "job" { "job" } else { "host" };
    html! {
        nav.choices aria-label="Timeline" {
            @for one in ["host", "job"] { a href=(at(one, &asked.until)) aria-current=[(one == by).then_some("page")] { "By " (one) } }
            @if let Some(before) = before { a href=(at(by, &before)) { "← A day earlier" } }
            @if !asked.until.is_empty() { a href=(at(by, &after)) { @if after.is_empty() { "Now →" } @else { "A day later →" } } }
            span.rel { "until " (words::exact(until)) }
        }
    }
}

fn rows(runs: &[Run], asked: &Asked, until: Timestamp, now: Timestamp) -> Markup {
    let by_job = asked.by == "job";
    let mut rows: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let name = if by_job {
            &*run.name
        } else {
            run.place.host.as_deref().unwrap_or("no host")
        };
        rows.entry(name).or_default().push(run);
    }
    let hidden = rows.len().saturating_sub(MOST);
    let mut shown: Vec<(&str, Vec<&Run>)> = rows.into_iter().collect();
    if hidden > 0 {
        // What is wrong is shown in any case; the sort keeps the order of names.
        shown.sort_by_key(|(_, runs)| !runs.iter().any(|run| run.ending.kind().is_bad()));
        shown.truncate(MOST);
    }
    let table = html! {
        table.timeline {
            caption.unseen { "The runs of 24 hours, and how many of each kind" }
            thead { tr { th scope="col" { @if by_job { "Job" } @else { "Host" } } th scope="col" { (day::axis(until)) } th scope="col" { "Runs" } } }
            tbody {
                @for (name, runs) in &shown {
                    tr {
                        th scope="row" {
                            @if by_job { a href=(links::job(name)) { (name) } }
                            @else { a href=(in_history(asked, ("on", name))) { (name) } }
                        }
                        td { (day::row(runs.iter().map(|run| bar(run, by_job, now)).collect(), until)) }
                        td.counts { (counts(runs)) }
                    }
                }
            }
        }
    };
    html! {
        @if shown.is_empty() { p.note { "Nothing ran." } } @else { (scrolling("The day", &table)) }
        @if hidden > 0 { p.note { (hidden) " more rows are not shown: those with failures stand above in any case." } }
        p.legend { @for kind in Kind::ALL { span { (sign(kind)) " " (kind.word()) } " " } }
    }
}

fn bar(run: &Run, by_job: bool, now: Timestamp) -> Bar {
    let times = &run.times;
    let kind = run.ending.kind();
    let from = run.at();
    let to = match (times.ended, kind) {
        (Some(ended), _) => ended,
        (None, Kind::Running) => now,
        (None, _) => from,
    };
    let whose = if by_job {
        run.place.host.as_deref().unwrap_or("no host")
    } else {
        &run.name
    };
    let took = times
        .ran_seconds
        .map(|seconds| format!(", {}", words::span(seconds)))
        .unwrap_or_default();
    Bar {
        from,
        to,
        kind,
        says: format!(
            "{whose}, {}: {}{took}",
            words::clock(from, now),
            run.ending.words()
        ),
    }
}

/// How many of each kind, in words; what is wrong first.
fn counts(runs: &[&Run]) -> Markup {
    let order = [
        Kind::Failed,
        Kind::Lost,
        Kind::Doubtful,
        Kind::Running,
        Kind::Skipped,
        Kind::Good,
    ];
    let counts = order.map(|kind| {
        (
            kind,
            runs.iter().filter(|run| run.ending.kind() == kind).count(),
        )
    });
    html! { @for (kind, count) in counts { @if count > 0 { span { (sign(kind)) (count) " " (kind.word()) } " " } } }
}

/// The history of this day, with another parameter.
fn in_history(asked: &Asked, (name, value): (&str, &str)) -> String {
    let (since, until) = match day_until(&asked.until) {
        Some([since, until]) => (words::machine(since), words::machine(until)),
        None => ("24h".to_owned(), String::new()),
    };
    let parameters = [(name, value), ("since", &since), ("until", &until)];
    links::with("/history", &parameters)
}

/// What failed, in words.
fn failures(
    view: &View,
    (all, found): (Option<&data::History>, &Part<data::History>),
    asked: &Asked,
    now: Timestamp,
) -> Markup {
    let has_run = all.is_some_and(|all| !all.runs.is_empty());
    let runs = found.value.as_ref().map_or(&[][..], |found| &found.runs);
    let failed: Vec<&Run> = runs
        .iter()
        .rev()
        .filter(|run| run.ending.kind().is_bad())
        .collect();
    let has_more = found
        .value
        .as_ref()
        .is_some_and(|found| found.cursor.is_some());
    let in_history = in_history(asked, ("result", ANY_FAILURE));
    html! {
        section #failures aria-labelledby="failures-title" {
            h2 #failures-title { "Failed " @if found.value.is_some() { span.count { (failed.len()) @if has_more { "+" } } } }
            (answers::problem(found, "runs that failed", view.now))
            @if failed.is_empty() && found.value.is_some() && !has_more && has_run { p.note { (sign(Kind::Good)) " Nothing failed." } }
            ul.plain {
                @for run in failed.iter().take(FAILURES) {
                    li {
                        (words::brief(run.at(), now)) " " (sign(run.ending.kind())) " "
                        a href=(links::run(&run.run)) { (run.name) ": " (run.ending.words()) }
                        @if let Some(host) = &run.place.host { " on " (host) }
                        @if let Some(why) = why(view, run) { ": " (why) }
                    }
                }
                @if has_more || failed.len() > FAILURES { li { a href=(in_history) { "All that failed" } } }
            }
        }
    }
}
