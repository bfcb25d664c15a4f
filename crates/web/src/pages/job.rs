//! A job of the crontab, or another name that has runs.

use jiff::Timestamp;
use maud::{Markup, html};

use super::layout::{Found, Here, Page, button, how, message, scrolling, sign, switch, took};
use super::{View, answers, links, words};
use crate::charts::durations::durations;
use crate::charts::strip;
use crate::fleet::Seen;
use crate::fleet::data::{Daemon, Ended, Job, Kind};

/// The page. The ticks are the next ones as far as they are known; none: the next one alone is.
pub fn page(view: &View, seen: &Seen, name: &str, ticks: &[Timestamp]) -> Found {
    let now = seen.server_now(view.now);
    let (job, runs) = (seen.job(name), seen.runs_of(name));
    let is_known =
        seen.says_what_is(&seen.cron, view.now) && seen.says_what_is(&seen.runs, view.now);
    if job.is_none() && runs.is_empty() && is_known {
        return Err(message(
            view,
            &format!("No job {name}"),
            "No crontab has it, and no run of it is recorded.",
        ));
    }
    let contents = html! {
        p.kind {
            @match (job, runs.last().map(Ended::origin)) {
                (Some(_), _) => "Job of the crontab",
                (None, Some((what, command))) => { (words::capital(what)) " of " code { (command) } },
                (None, None) => "Nothing is known of it yet",
            }
        }
        h1 #headline { (name) }
        section #away aria-label="Answers" { (answers::problems(seen, view.now)) }
        p #state.state { (state(seen, job, runs, now)) }
        @if let Some(job) = job { (buttons(view, job)) (facts(job, ticks, now)) }
        (chart(runs))
        (table(runs, now))
        p.pages { a href=(links::with("/history", &[("name", name)])) { "Its whole history" } }
    };
    let page = Page {
        here: Here::Overview,
        is_itself: false,
        title: name,
        server: seen.server(),
        refreshes: true,
    };
    Ok(page.around(view, &contents))
}

fn buttons(view: &View, job: &Job) -> Markup {
    let object = ("job", &*job.name);
    html! {
        @if view.may_act {
            p.buttons {
                (button(view, &links::action("trigger", &[object]), "Run now", &job.name))
                (switch(view, object, job.paused_since.is_some()))
            }
        }
    }
}

/// What is to be said of it now, in sentences.
fn state(seen: &Seen, job: Option<&Job>, runs: &[Ended], now: Timestamp) -> Markup {
    let last = job.and_then(|job| job.last.as_ref());
    let last = last.map(|last| (&last.run, &last.ending, last.host.as_deref(), last.at()));
    let last = last.or_else(|| {
        runs.last()
            .map(|run| (&run.run, &run.ending, run.host.as_deref(), Some(run.at)))
    });
    html! {
        @match last {
            Some((run, ending, host, at)) => {
                (sign(ending.kind())) " The last run: " a href=(links::run(run)) { (ending.words()) }
                @if let Some(host) = host { " on " (host) }
                @if let Some(at) = at { ", " (words::time(at, now)) }
                ". "
            },
            None => @if job.is_some() { "It has not run yet. " },
        }
        @if let Some(job) = job {
            @if let Some(late) = job.late_seconds { (sign(Kind::Failed)) " " strong { "Late: due for " (words::span(late)) ", and no daemon has started it." } " " }
            @if let Some(since) = job.paused_since { strong { "Paused" } " since " (words::time(since, now)) ": its ticks are skipped. " }
            @if let Some(at) = job.triggered { "Somebody wants it to run, since " (words::time(at, now)) ". " }
            @if job.in_no_file { (sign(Kind::Lost)) " " strong { "No daemon has it in its file." } " " }
            @for tick in &job.under_way {
                "The tick of " (words::exact(tick.tick))
                @match (&tick.host, tick.retry) {
                    (Some(host), _) => { " runs on " (host) ", attempt " (tick.attempt) ". " },
                    (None, Some(retry)) => { " is tried again " (words::time(retry, now)) ". " },
                    (None, None) => " waits for an earlier one. ",
                }
            }
            @for daemon in seen.living_daemons() {
                @if daemon.disagrees.contains(&job.name) { (sign(Kind::Lost)) " " (host(daemon)) " has another schedule for it, and does not run it. " }
                @if daemon.differs.contains(&job.name) { (sign(Kind::Lost)) " " (host(daemon)) " has another command, other options or variables for it. " }
            }
        }
    }
}

fn host(daemon: &Daemon) -> &str {
    daemon.host.as_deref().unwrap_or("A host without a name")
}

fn facts(job: &Job, ticks: &[Timestamp], now: Timestamp) -> Markup {
    let next: Vec<Timestamp> = if ticks.is_empty() {
        job.next.into_iter().collect()
    } else {
        ticks.to_vec()
    };
    html! {
        dl.facts {
            div { dt { "Schedule" } dd { code { (job.schedule) } " " span.rel { (job.time_zone) } } }
            div {
                dt { @if next.len() > 1 { "Next ticks" } @else { "Next tick" } }
                dd {
                    @if next.is_empty() { "none" }
                    ul.plain { @for at in next { li { (words::time(at, now)) } } }
                }
            }
            @if let Some(host) = &job.changed_by { div { dt { "Changed last by" } dd { "the file on " (host) } } }
            @if let Some(seen) = job.seen { div { dt { "Seen in a file" } dd { (words::time(seen, now)) } } }
        }
    }
}

fn chart(runs: &[Ended]) -> Markup {
    let longest = runs
        .iter()
        .filter_map(|run| run.ran_seconds)
        .fold(0.0, f32::max);
    let words = words::span(longest.into());
    html! {
        @if !runs.is_empty() {
            section #durations aria-labelledby="durations-title" {
                h2 #durations-title { "How long it took" }
                (durations(runs, &words))
                p.note { (strip::words(runs)) ". The longest took " (words) ". The latest is at the right." }
            }
        }
    }
}

fn table(runs: &[Ended], now: Timestamp) -> Markup {
    let table = html! {
        table {
            caption.unseen { "Its last runs, the latest first" }
            thead { tr { th scope="col" { "Run" } th scope="col" { "Result" } th.n scope="col" { "Took" } th scope="col" { "Host" } } }
            tbody {
                @for run in runs.iter().rev().take(strip::MOST) {
                    tr {
                        th scope="row" { (words::brief_link(&links::run(&run.run), run.at, now)) }
                        td { (how(&run.ending)) }
                        td.n { (took(run.ran_seconds.map(f64::from))) }
                        td { (run.host.as_deref().unwrap_or("–")) }
                    }
                }
            }
        }
    };
    html! {
        @if !runs.is_empty() {
            section #runs aria-labelledby="runs-title" { h2 #runs-title { "Runs" } (scrolling("Runs", &table)) }
        }
    }
}
