//! How old what is shown is, and what is not known.

use jiff::Timestamp;
use maud::{Markup, html};

use super::layout::sign;
use super::words;
use crate::fleet::{self, Part, Seen};

/// The server that was asked; empty: none has answered.
pub fn server(seen: &Seen) -> &str {
    let locks = seen.locks.value.as_ref().map(|status| &status.server);
    let cron = seen.cron.value.as_ref().map(|cron| &cron.server);
    locks.or(cron).map_or("", String::as_str)
}

/// Whether nothing is known at all.
pub fn is_unknown(seen: &Seen) -> bool {
    seen.locks.value.is_none() && seen.cron.value.is_none() && seen.queues.value.is_none()
}

/// Whether the server does not answer.
pub fn is_away(seen: &Seen) -> bool {
    seen.locks.is_away
}

/// Whether all is known that there is.
pub fn is_whole(seen: &Seen) -> bool {
    is_told(&seen.locks) && is_told(&seen.cron) && is_told(&seen.queues) && is_told(&seen.runs)
}

/// Whether the latest is known, or that there is nothing: no tables, or no queues on such a server.
fn is_told<T>(part: &Part<T>) -> bool {
    let lacks = |line: &str| NOTHING_THERE.iter().any(|words| line.contains(words));
    match &part.error {
        None => part.value.is_some(),
        Some(line) => part.at.is_none() && lacks(line),
    }
}

/// What dblock says where there is nothing to be known.
pub const NOTHING_THERE: [&str; 3] = [
    "has no tables of dblock's",
    "not yet on PostgreSQL",
    "tables need one with ENCODING 'UTF8'",
];

/// Whether the server cannot be asked, though it may be there: it refuses this account, or dblock cannot be run.
pub fn cannot_be_asked(seen: &Seen) -> bool {
    seen.locks.error.is_some()
}

/// What became of a question.
struct Missing<'a> {
    about: &'static str,
    error: &'a str,
    /// When it was answered last; None: never.
    last: Option<Timestamp>,
}

fn missing<'a, T>(part: &'a Part<T>, about: &'static str) -> Option<Missing<'a>> {
    Some(Missing {
        about,
        error: part.error.as_deref()?,
        last: part.at.filter(|_| part.value.is_some()),
    })
}

/// What the server does not answer, each reason once, and how old what is shown instead is.
pub fn problems(seen: &Seen, now: Timestamp) -> Markup {
    let found: Vec<Missing> = [
        missing(&seen.locks, "locks"),
        missing(&seen.cron, "crontab"),
        missing(&seen.queues, "queues"),
        missing(&seen.runs, "runs"),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Where the tables are missing there are locks, and nothing is wrong.
    let (lacking, failed): (Vec<_>, Vec<_>) = found
        .iter()
        .partition(|one| one.last.is_none() && !cannot_be_asked(seen));
    html! {
        @for alike in failed.chunk_by(|one, next| one.error == next.error) {
            p.alert {
                (sign("f", "✗")) " "
                @match alike.iter().filter_map(|one| one.last).min() {
                    Some(last) => {
                        strong { "No answer since " (words::relative(last, now)) ": " (about(alike)) "." }
                        " What is shown is the state of " (words::exact(last)) ". "
                    },
                    None => { strong { "No answer: " (about(alike)) "." } " " },
                }
                code { (alike[0].error) }
            }
        }
        @for alike in lacking.chunk_by(|one, next| one.error == next.error) {
            p.note { "Not shown: " (about(alike)) ". " code { (alike[0].error) } }
        }
        (old(seen, now))
    }
}

fn about(parts: &[&Missing]) -> String {
    words::listed(parts.iter().map(|one| one.about))
}

/// Answers that are old though none has failed: the fleet is asked one thing after another, and not while nobody looks.
fn old(seen: &Seen, now: Timestamp) -> Markup {
    let answers = [
        (seen.locks.at, seen.locks.error.is_some(), "locks"),
        (seen.cron.at, seen.cron.error.is_some(), "crontab"),
        (seen.queues.at, seen.queues.error.is_some(), "queues"),
        (seen.runs.at, seen.runs.error.is_some(), "runs"),
    ];
    let old = answers.into_iter().filter_map(|(at, has_failed, about)| {
        let at = at.filter(|at| !has_failed && now.duration_since(*at).as_secs() > fleet::FRESH)?;
        Some((at, about))
    });
    let old: Vec<(Timestamp, &str)> = old.collect();
    html! {
        @if let Some((oldest, _)) = old.iter().min() {
            p.note { "What is shown of " (words::listed(old.iter().map(|(_, about)| *about))) " is from up to " (words::relative(*oldest, now)) "." }
        }
    }
}

/// How old an answer to what one page asks for is before its age is shown, in seconds.
const FRESH: i64 = 30;

/// What became of the one answer that a page is made of, and how old it is. Nothing if it is of now.
pub fn problem<T>(part: &Part<T>, about: &'static str, now: Timestamp) -> Markup {
    html! {
        @match missing(part, about) {
            Some(missing) => {
                p.alert {
                    (sign("f", "✗")) " "
                    strong { "No answer about the " (missing.about) "." }
                    @if let Some(last) = missing.last { " What is shown is the state of " (words::time(last, now)) "." }
                    " " code { (missing.error) }
                }
            },
            None => @match part.at.filter(|_| part.value.is_some()) {
                None => { p.note { "No answer about the " (about) " yet." } },
                Some(at) => @if now.duration_since(at).as_secs() > FRESH {
                    p.note { "The answer about the " (about) " is from " (words::relative(at, now)) "." }
                },
            },
        }
    }
}
