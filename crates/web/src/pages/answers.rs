//! How old what is shown is, and what is not known.

use jiff::Timestamp;
use maud::{Markup, html};

use super::layout::sign;
use super::words;
use crate::fleet::data::Kind;
use crate::fleet::{self, Part, Seen};

/// Whether nothing is known at all.
pub fn is_unknown(seen: &Seen) -> bool {
    seen.locks.value.is_none() && seen.cron.value.is_none() && seen.queues.value.is_none()
}

/// Whether the server does not answer.
pub fn is_away(seen: &Seen) -> bool {
    seen.locks.is_away
}

/// One of the answers that pages are made from.
struct Answer<'a> {
    about: &'static str,
    is_known: bool,
    /// When it came; None: never.
    at: Option<Timestamp>,
    /// Why there is none since.
    error: Option<&'a str>,
}

impl<'a> Answer<'a> {
    fn of<T>(part: &'a Part<T>, about: &'static str) -> Self {
        Self {
            about,
            is_known: part.value.is_some(),
            at: part.at.filter(|_| part.value.is_some()),
            error: part.error.as_deref(),
        }
    }

    /// Those that all pages have in common.
    fn all(seen: &'a Seen) -> [Self; 4] {
        [
            Self::of(&seen.locks, "locks"),
            Self::of(&seen.cron, "crontab"),
            Self::of(&seen.queues, "queues"),
            Self::of(&seen.runs, "runs"),
        ]
    }

    /// Whether the latest is known, or that there is nothing: no tables, or no queues on such a server.
    fn is_told(&self) -> bool {
        let lacks = |line: &str| NOTHING_THERE.iter().any(|words| line.contains(words));
        match self.error {
            None => self.is_known,
            Some(line) => self.at.is_none() && lacks(line),
        }
    }

    /// Whether there are no tables for it.
    fn lacks_tables(&self) -> bool {
        self.is_told() && self.error.is_some_and(|line| !line.contains(CANNOT_BE))
    }

    /// When it came, if it is no answer of now. None also where it failed since, which is said.
    fn old(&self, oldest: i64, now: Timestamp) -> Option<Timestamp> {
        let is_old = |at: &Timestamp| now.duration_since(*at).as_secs() > oldest;
        self.at.filter(is_old).filter(|_| self.error.is_none())
    }
}

/// Whether all is known that there is, and is of now, which is by this host's clock.
pub fn is_whole(seen: &Seen, now: Timestamp) -> bool {
    // With a long --refresh, older answers are of now, too.
    let is_of_now = |one: &Answer| seen.is_new() || one.old(fleet::FRESH, now).is_none();
    let is_known = |one: &Answer| one.is_told() && is_of_now(one);
    !seen.lacks_failures && Answer::all(seen).iter().all(is_known)
}

/// Whether there are no tables, as where only named locks are used: that is no fault, and nothing is known of jobs and runs.
pub fn lacks_tables(seen: &Seen) -> bool {
    Answer::all(seen).iter().any(Answer::lacks_tables)
}

/// What dblock says of what a server cannot have, with tables or without.
const CANNOT_BE: &str = "not yet on PostgreSQL";

/// What dblock says where there is nothing to be known.
pub const NOTHING_THERE: [&str; 3] = [
    "has no tables of dblock's",
    CANNOT_BE,
    "tables need one with ENCODING 'UTF8'",
];

/// Whether the server cannot be asked, though it may be there: it refuses this account, or dblock cannot be run.
pub fn cannot_be_asked(seen: &Seen) -> bool {
    seen.locks.error.is_some()
}

/// What the server does not answer, each reason once, and how old what is shown instead is; now by this host's clock. Answers may be old
/// though none has failed: the fleet is asked one thing after another, and not while nobody looks.
pub fn problems(seen: &Seen, now: Timestamp) -> Markup {
    let all = Answer::all(seen);
    // Where the tables are missing there are locks, and nothing is wrong.
    let (lacking, failed): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|one| one.error.is_some())
        .partition(|one| one.at.is_none() && !cannot_be_asked(seen));
    let old = all.iter();
    let old = old.filter_map(|one| Some((one.old(fleet::FRESH, now)?, one.about)));
    let old: Vec<(Timestamp, &str)> = old.collect();
    html! {
        @for alike in failed.chunk_by(|one, next| one.error == next.error) {
            p.alert {
                (sign(Kind::Failed)) " "
                strong { "No answer: " (about(alike)) "." } " "
                @let known = alike.iter().filter_map(|one| one.at).collect::<Vec<_>>();
                @if let Some(oldest) = known.iter().min() {
                    @if known.len() > 1 { "What is shown are the last answers, the oldest of " } @else { "What is shown is the last answer, of " }
                    (words::time(seen.server_now(*oldest), seen.server_now(now))) ". "
                }
                code { (alike[0].error.unwrap_or_default()) }
            }
        }
        @for alike in lacking.chunk_by(|one, next| one.error == next.error) {
            p.note { "Not shown: " (about(alike)) ". " code { (alike[0].error.unwrap_or_default()) } }
        }
        @if let Some((oldest, _)) = old.iter().min() {
            p.note { "What is shown of " (words::listed(old.iter().map(|(_, about)| *about))) " is from up to " (words::relative(*oldest, now)) "." }
        }
    }
}

fn about(answers: &[&Answer]) -> String {
    words::listed(answers.iter().map(|one| one.about))
}

/// How old an answer to what one page asks for is before its age is shown, in seconds.
const FRESH: i64 = 30;

/// What became of the one answer that a page is made of, and how old it is; now by this host's clock. Nothing if it is of now.
pub fn problem<T>(part: &Part<T>, about: &'static str, now: Timestamp) -> Markup {
    let answer = Answer::of(part, about);
    html! {
        @if let Some(error) = answer.error {
            p.alert {
                (sign(Kind::Failed)) " "
                strong { "No answer about the " (about) "." }
                @if let Some(last) = answer.at { " What is shown is from " (words::relative(last, now)) "." }
                " " code { (error) }
            }
        } @else if answer.at.is_none() {
            p.note { "No answer about the " (about) " yet." }
        } @else if let Some(old) = answer.old(FRESH, now) {
            p.note { "The answer about the " (about) " is from " (words::relative(old, now)) "." }
        }
    }
}
