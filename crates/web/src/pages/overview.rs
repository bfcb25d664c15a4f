//! What is wrong, and then all there is.

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Here, Page, how, scrolling, sign, took};
use super::trouble;
use super::{View, answers, links, words};
use crate::charts::depth::depth;
use crate::charts::strip::strip;
use crate::fleet::Seen;
use crate::fleet::data::{Job, Kind, Lock, Queue};

/// Jobs on a page. Those in trouble stand above them in any case.
pub const JOBS: usize = 50;
/// Queues, and locks, on the page.
const MOST: usize = 25;

/// What the URL asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// Only jobs that have this in their names.
    pub find: String,
    /// Only jobs after this one, by name.
    pub after: String,
}

/// The page.
pub fn page(view: &View, seen: &Seen, asked: &Asked) -> Markup {
    let now = seen.server_now(view.now);
    let troubles = trouble::troubles(seen, now);
    let (headline, kind) = headline(seen, troubles.len(), view.now);
    let contents = html! {
        h1 #headline { (sign(kind)) " " (headline) }
        section #away aria-label="Answers" {
            (answers::problems(seen, view.now))
            @if seen.lacks_failures && seen.runs.value.is_some() {
                p.note { "Not all that failed in the last 24 hours is known here: " a href="/timeline#failures" { "the timeline" } " has it." }
            }
        }
        @if !troubles.is_empty() {
            section #wrong aria-labelledby="wrong-title" { h2.unseen #wrong-title { "What is wrong" } ul.troubles { @for trouble in &troubles { (trouble.item()) } } }
        }
        (recovered(seen, now))
        (jobs(seen, asked, now))
        (queues(seen))
        (locks(seen))
        (daemons(seen, now))
    };
    let page = Page {
        here: Here::Overview,
        is_itself: true,
        title: &headline,
        server: seen.server(),
        refreshes: true,
    };
    page.around(view, &contents)
}

/// Something is not known, which may be wrong.
const IN_WHAT_IS_KNOWN: &str = "Nothing is wrong in what is known";

/// What a person wants to know first, and how well that is; now by this host's clock.
fn headline(seen: &Seen, troubles: usize, now: Timestamp) -> (String, Kind) {
    let (words, kind) = if answers::is_away(seen) {
        ("The server does not answer", Kind::Failed)
    } else if answers::is_unknown(seen) && answers::cannot_be_asked(seen) {
        ("The server cannot be asked", Kind::Failed)
    } else if answers::is_unknown(seen) {
        ("Nothing is known yet", Kind::Doubtful)
    } else {
        match troubles {
            0 if !answers::is_whole(seen, now) => (IN_WHAT_IS_KNOWN, Kind::Doubtful),
            0 if answers::lacks_tables(seen) => (IN_WHAT_IS_KNOWN, Kind::Skipped),
            0 => ("Nothing is wrong", Kind::Good),
            1 => ("Something is wrong", Kind::Failed),
            more => return (format!("{more} things are wrong"), Kind::Failed),
        }
    };
    (words.to_owned(), kind)
}

/// What was wrong in the last day, and is not now.
fn recovered(seen: &Seen, now: Timestamp) -> Markup {
    let found = trouble::recovered(seen, now);
    html! {
        @if !found.is_empty() {
            section #recovered aria-labelledby="recovered-title" {
                h2 #recovered-title { "Failed lately, succeeded since" }
                ul.plain {
                    @for (name, bad, all, latest) in found.iter().take(MOST) {
                        li {
                            a href=(links::job(name)) { (name) } ": " (bad) " of the last " (words::counted(*all, "run")) " failed, the last one "
                            (words::brief(latest.at, now)) ": " a href=(links::run(&latest.run)) { (latest.ending.words()) } ". "
                        }
                    }
                }
                p.pages { a href="/timeline#failures" { @if found.len() > MOST { (found.len() - MOST) " more jobs: all" } @else { "All" } " that failed in the last 24 hours" } }
            }
        }
    }
}

/// The jobs of the crontab and the other names with runs that are asked for, by name, and how many there are.
fn jobs(seen: &Seen, asked: &Asked, now: Timestamp) -> Markup {
    let of_crontab = seen.jobs().iter().map(|job| (&*job.name, Some(job)));
    let others = trouble::other_names(seen).map(|name| (name, None));
    let mut all: Vec<(&str, Option<&Job>)> = of_crontab.chain(others).collect();
    all.sort_by_key(|(name, _)| *name);
    let count = all.len();
    let is_known = seen.cron.value.is_some();
    let wanted = asked.find.to_lowercase();
    all.retain(|(name, _)| name.to_lowercase().contains(&wanted));
    let found = all.len();
    all.retain(|(name, _)| asked.after.is_empty() || *name > asked.after.as_str());
    let more = all.len().saturating_sub(JOBS);
    let last = all
        .get(JOBS - 1)
        .map(|(name, _)| *name)
        .filter(|_| more > 0);
    html! {
        section #jobs aria-labelledby="jobs-title" {
            div.bar {
                h2 #jobs-title { "Jobs " @if is_known { span.count { (count) } } }
                form role="search" action="/" {
                    label for="filter" { "Find a job" }
                    input #filter type="search" name="find" value=(asked.find);
                    button { "Find" }
                }
            }
            @if all.is_empty() {
                p.note {
                    @if count > 0 { "No job has this in its name." }
                    @else if is_known { "There are none: " code { "dblock cron run" } " brings those of a crontab." }
                    @else { "The crontab is not known." }
                }
            } @else {
                table.jobs {
                    caption.unseen { "Jobs, with their last 50 runs; the latest at the right" }
                    thead { tr { th scope="col" { "Job" } th scope="col" { "Schedule" } th scope="col" { "Result" } th scope="col" { "Last run" } th scope="col" { "Last 50 runs" } th scope="col" { "Next" } } }
                    tbody { @for (name, job) in all.iter().take(JOBS) { (job_row(seen, name, *job, now)) } }
                }
            }
            @if found < count || more > 0 || !asked.after.is_empty() {
                p.pages {
                    (words::counted(found, "job")) @if found < count { " of " (count) }
                    @if found < count || !asked.after.is_empty() { " · " a href="/#jobs" { "all from the start" } }
                    @if let Some(last) = last { " · " a href={ (links::with("/", &[("find", &asked.find), ("after", last)])) "#jobs" } { "the next " (more.min(JOBS)) } }
                }
            }
        }
    }
}

fn job_row(seen: &Seen, name: &str, job: Option<&Job>, now: Timestamp) -> Markup {
    let runs = seen.runs_of(name);
    let latest = runs.last().map(|run| (&run.ending, Some(run.at)));
    let last = job.and_then(|job| job.last.as_ref());
    let last = last.map(|last| (&last.ending, last.at())).or(latest);
    html! {
        tr {
            th scope="row" { a href=(links::job(name)) { (name) } }
            td { @match job { Some(job) => (job.schedule), None => i { (runs.last().map_or("", |run| run.origin().1)) } } }
            td { @if let Some((ending, _)) = last { (how(ending)) } }
            td { @if let Some(at) = last.and_then(|(_, at)| at) { (words::brief(at, now)) } }
            td { (strip(runs)) }
            td { @if let Some(job) = job { (next(job, now)) } }
        }
    }
}

/// What comes next of a job.
fn next(job: &Job, now: Timestamp) -> Markup {
    html! {
        @if job.paused_since.is_some() { "paused" }
        @else if job.late_seconds.is_some() { (sign(Kind::Failed)) "late" }
        @else if job.triggered.is_some() { "triggered" }
        @else if let Some(next) = job.next { (words::brief(next, now)) }
        @else { "never" }
    }
}

fn queues(seen: &Seen) -> Markup {
    let queues = seen.all_queues();
    let table = html! {
        table {
            caption.unseen { "Queues, with their jobs and workers" }
            thead { tr {
                th scope="col" { "Queue" } th scope="col" { "Jobs" }
                th.n scope="col" { "Due" } th.n scope="col" { "Delayed" } th.n scope="col" { "Running" } th.n scope="col" { "Dead" }
                th.n scope="col" { "Oldest due" } th.n scope="col" { "Done/min" } th.n scope="col" { "Failed/min" } th.n scope="col" { "Workers" }
            } }
            tbody { @for queue in queues.iter().take(MOST) { (queue_row(queue)) } }
        }
    };
    html! {
        @if !queues.is_empty() {
            section #queues aria-labelledby="queues-title" {
                h2 #queues-title { "Queues " span.count { (queues.len()) } }
                (scrolling("Queues", &table))
                @if queues.len() > MOST { p.note { (queues.len() - MOST) " more: " code { "dblock queue status" } } }
            }
        }
    }
}

fn queue_row(queue: &Queue) -> Markup {
    html! {
        tr {
            th scope="row" {
                a href=(links::queue(&queue.name)) { (queue.name) }
                @if queue.paused_since.is_some() { " " span.tag { "paused" } }
                @if queue.deleting_since.is_some() { " " span.tag { "is being deleted" } }
            }
            td { (depth(queue)) }
            td.n { (queue.counted("due")) } td.n { (queue.counted("delayed")) } td.n { (queue.counted("running")) }
            td.n { @if queue.dead > 0 { (sign(Kind::Failed)) } (queue.counted("dead")) }
            td.n { (took(queue.oldest_due_seconds)) }
            td.n { (queue.done_per_minute) } td.n { (queue.failed_per_minute) }
            td.n { @if queue.living_workers() == 0 && queue.due > 0 && queue.paused_since.is_none() { (sign(Kind::Failed)) } (queue.living_workers()) }
        }
    }
}

fn locks(seen: &Seen) -> Markup {
    let locks = seen.all_locks().iter();
    let locks: Vec<&Lock> = locks.filter(|lock| !lock.is_idle_queue()).collect();
    let table = html! {
        table {
            caption.unseen { "Locks that are held, and how many wait for them" }
            thead { tr { th scope="col" { "Lock" } th scope="col" { "Held by" } th scope="col" { "For" } th.n scope="col" { "Waiting" } } }
            tbody { @for lock in locks.iter().take(MOST) { (lock_row(lock)) } }
        }
    };
    html! {
        @if seen.locks.value.is_some() {
            section #locks aria-labelledby="locks-title" {
                h2 #locks-title { "Locks " span.count { (locks.len()) } }
                @if locks.is_empty() { p.note { "None is held that this account can see." } } @else { (scrolling("Locks", &table)) }
                p.pages { a href="/locks" { "Holders and waiters" } }
            }
        }
    }
}

fn lock_row(lock: &Lock) -> Markup {
    let first = lock.holders.first();
    html! {
        tr {
            th scope="row" { (lock.name) }
            td {
                @match first {
                    Some(holder) => (super::locks::who(&holder.process)),
                    None => "nobody",
                }
                @if lock.holders.len() > 1 { " and " (lock.holders.len() - 1) " more" }
            }
            td { (took(first.and_then(|holder| holder.held_seconds))) }
            td.n { (lock.waiters.len()) }
        }
    }
}

/// The daemons that are alive, in a line.
fn daemons(seen: &Seen, now: Timestamp) -> Markup {
    let daemons = seen.daemons();
    html! {
        @if !daemons.is_empty() {
            section #daemons aria-labelledby="daemons-title" {
                h2 #daemons-title { "Cron daemons " span.count { (seen.living_daemons().count()) } }
                ul.plain {
                    @for daemon in daemons.iter().take(MOST) {
                        li {
                            @if daemon.alive { (sign(Kind::Good)) } @else { (sign(Kind::Doubtful)) }
                            (daemon.host.as_deref().unwrap_or("?")) @if let Some(pid) = daemon.pid { ", pid " (pid) }
                            @if daemon.leaving { ", is stopping" }
                            @if !daemon.alive { ", is gone" @if let Some(at) = daemon.renewed { ", last there " (words::brief(at, now)) } }
                        }
                    }
                    @if daemons.len() > MOST { li { (daemons.len() - MOST) " more: " code { "dblock cron list" } } }
                }
            }
        }
    }
}
