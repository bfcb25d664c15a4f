//! A day, by host or by job.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp, ToSpan};
use maud::{Markup, html};
use serde::Deserialize;

use super::history::ANY_FAILURE;
use super::layout::{Here, Page, scrolling, sign};
use super::why::why;
use super::{View, answers, links, words};
use crate::charts::day::{self, Bar};
use crate::fleet::data::{Ended, Kind, Run};
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
    let since = day.map_or(
        now - SignedDuration::from_hours(day::HOURS),
        |[since, _]| since,
    );
    // The answer may be of a moment ago, and its day began earlier.
    let answers = || {
        [runs, failed]
            .into_iter()
            .filter_map(|part| part.value.as_ref())
    };
    let is_answered = |id: &str| {
        answers()
            .flat_map(|answer| &answer.runs)
            .any(|run| *run.run == *id)
    };
    let mut earlier = earlier(seen, [since, until], now);
    earlier.retain(|(_, run)| !is_answered(&run.run));
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
            section #day aria-label="The day" { (rows(&drawn(history, failed), &earlier, asked, until, now)) }
            @if history.cursor.is_some() { p.note { "There are more runs: the newest " (history.runs.len()) " are drawn and counted, and what failed, as far as it is counted below." } }
        }
        (failures(view, (found, failed), &earlier, asked, until, now))
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

/// Runs that were requested before this day, and ended in it or later, with their names: dblock history selects by the time of the request.
/// Of each name, its last runs are known.
fn earlier(seen: &Seen, [since, until]: [Timestamp; 2], now: Timestamp) -> Vec<(&str, &Ended)> {
    let all = seen.runs.value.iter().flatten();
    let all = all.flat_map(|(name, runs)| runs.iter().map(move |run| (name.as_str(), run)));
    let mut found: Vec<_> = all
        .filter(|(_, run)| run.requested < since && run.at < until && end(run, now) >= since)
        .collect();
    found.sort_by_key(|(name, run)| (run.at, *name));
    found
}

/// When a run ended; one that runs: now.
fn end(run: &Ended, now: Timestamp) -> Timestamp {
    if run.until.is_none() && run.ending.kind() == Kind::Running {
        now
    } else {
        run.latest()
    }
}

/// The newest runs, and those that failed before them.
fn drawn<'a>(newest: &'a data::History, failed: &'a Part<data::History>) -> Vec<&'a Run> {
    let known: HashSet<&str> = newest.runs.iter().map(|run| &*run.run).collect();
    let failed = failed.value.iter().flat_map(|failed| &failed.runs);
    let before = failed.filter(|run| run.ending.kind().is_bad() && !known.contains(&*run.run));
    newest.runs.iter().chain(before).collect()
}

fn rows(
    runs: &[&Run],
    earlier: &[(&str, &Ended)],
    asked: &Asked,
    until: Timestamp,
    now: Timestamp,
) -> Markup {
    let by_job = asked.by == "job";
    let mut rows: BTreeMap<&str, Vec<Bar>> = BTreeMap::new();
    let runs: Vec<(&str, Ended)> = runs.iter().map(|&run| (&*run.name, run.into())).collect();
    let of_the_day = runs.iter().map(|(name, run)| (*name, run));
    for (name, run) in earlier.iter().copied().chain(of_the_day) {
        let host = run.host.as_deref().unwrap_or("no host");
        let (row, whose) = if by_job { (name, host) } else { (host, name) };
        rows.entry(row).or_default().push(bar(run, whose, now));
    }
    let hidden = rows.len().saturating_sub(MOST);
    let mut shown: Vec<(&str, Vec<Bar>)> = rows.into_iter().collect();
    if hidden > 0 {
        // What is wrong is shown in any case; the sort keeps the order of names.
        shown.sort_by_key(|(_, bars)| !bars.iter().any(|bar| bar.kind.is_bad()));
        shown.truncate(MOST);
    }
    let is_empty = shown.is_empty();
    let table = html! {
        table.timeline {
            caption.unseen { "The runs of 24 hours, and how many of each kind" }
            thead { tr { th scope="col" { @if by_job { "Job" } @else { "Host" } } th scope="col" { (day::axis(until)) } th scope="col" { "Runs" } } }
            tbody {
                @for (name, bars) in shown {
                    @let counts = counts(&bars);
                    tr {
                        th scope="row" {
                            @if by_job { a href=(links::job(name)) { (name) } }
                            @else { a href=(in_history(asked, ("on", name))) { (name) } }
                        }
                        td { (day::row(bars, until)) }
                        td.counts { (counts) }
                    }
                }
            }
        }
    };
    html! {
        @if is_empty { p.note { "Nothing ran." } } @else { (scrolling("The day", &table)) }
        @if hidden > 0 { p.note { (hidden) " more rows are not shown: those with failures come first." } }
        p.legend { @for kind in Kind::ALL { span { (sign(kind)) " " (kind.word()) } " " } }
    }
}

fn bar(run: &Ended, whose: &str, now: Timestamp) -> Bar {
    let took = run
        .ran_seconds
        .map(|seconds| format!(", {}", words::span(seconds.into())))
        .unwrap_or_default();
    Bar {
        from: run.at,
        to: end(run, now),
        kind: run.ending.kind(),
        says: format!(
            "{whose}, {}: {}{took}",
            words::clock(run.at, now),
            run.ending.words()
        ),
    }
}

/// How many of each kind, in words; what is wrong first.
fn counts(bars: &[Bar]) -> Markup {
    let order = [
        Kind::Failed,
        Kind::Lost,
        Kind::Doubtful,
        Kind::Running,
        Kind::Skipped,
        Kind::Good,
    ];
    let counts = order.map(|kind| (kind, bars.iter().filter(|bar| bar.kind == kind).count()));
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
    earlier: &[(&str, &Ended)],
    asked: &Asked,
    until: Timestamp,
    now: Timestamp,
) -> Markup {
    let bad = earlier.iter().filter(|(_, run)| run.ending.kind().is_bad());
    let mut long: Vec<_> = bad.filter(|(_, run)| run.latest() < until).collect();
    long.sort_by_key(|(_, run)| std::cmp::Reverse(run.latest()));
    // Nobody knows it of now where the answer is an old one.
    let has_run = all.is_some_and(|all| !all.runs.is_empty()) && found.error.is_none();
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
            h2 #failures-title { "Failed " @if found.value.is_some() { span.count { (failed.len() + long.len()) @if has_more { "+" } } } }
            (answers::problem(found, "runs that failed", view.now))
            @if failed.is_empty() && long.is_empty() && found.value.is_some() && !has_more && has_run { p.note { (sign(Kind::Good)) " Nothing failed." } }
            ul.plain {
                @for (name, run) in long.iter().take(FAILURES) {
                    li {
                        (words::brief(run.latest(), now)) " " (sign(run.ending.kind())) " "
                        a href=(links::run(&run.run)) { (name) ": " (run.ending.words()) }
                        @if let Some(host) = &run.host { " on " (host) }
                        ", since " (words::exact(run.at))
                    }
                }
                @for run in failed.iter().take(FAILURES) {
                    li {
                        (words::brief(run.at(), now)) " " (sign(run.ending.kind())) " "
                        a href=(links::run(&run.run)) { (run.name) ": " (run.ending.words()) }
                        @if let Some(host) = &run.place.host { " on " (host) }
                        @if let Some(why) = why(view, run) { ": " (why) }
                    }
                }
                @if long.len() > FAILURES { li { "and " (long.len() - FAILURES) " more that began before this day" } }
                @if has_more || failed.len() > FAILURES { li { a href=(in_history) { "All that failed" } } }
            }
        }
    }
}
