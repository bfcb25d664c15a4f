//! What is wrong, in the order in which somebody has to look at it.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{layout, links, words};
use crate::charts::strip::strip;
use crate::fleet::Seen;
use crate::fleet::data::{CronList, Ended, Ending, Job, Kind, LastRun, Queue};

/// What happened longer ago is no trouble of today.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Of one sort no more than these are shown.
const MOST: usize = 12;

/// Things of one sort that are wrong.
pub struct Trouble {
    /// The sign of how bad it is, and its class.
    pub sign: (&'static str, &'static str),
    /// What it is, with its number: `2 jobs failed`.
    pub what: String,
    /// Each of them in a sentence.
    pub each: Vec<Markup>,
    /// Where all of them are, when there are more than are shown.
    pub all: String,
}

const FAILED: (&str, &str) = ("f", "✗");
const WARNING: (&str, &str) = ("l", "!");

impl Trouble {
    fn new(
        sign: (&'static str, &'static str),
        what: String,
        all: &str,
        each: impl Iterator<Item = Markup>,
    ) -> Option<Trouble> {
        let each: Vec<Markup> = each.collect();
        (!each.is_empty()).then(|| Trouble {
            sign,
            what,
            each,
            all: all.to_owned(),
        })
    }

    /// As an item of the list of what is wrong.
    pub fn item(&self) -> Markup {
        let more = self.each.len().saturating_sub(MOST);
        html! {
            li {
                h3 { (layout::sign(self.sign.0, self.sign.1)) " " (self.what) }
                ul { @for one in self.each.iter().take(MOST) { li { (one) } } }
                @if more > 0 { p { a href=(self.all) { (more) " more" } } }
            }
        }
    }
}

fn job_link(name: &str) -> Markup {
    html! { a href=(links::job(name)) { (name) } }
}

fn host(name: Option<&str>) -> Markup {
    html! { @if let Some(name) = name { " on " (name) } }
}

/// All that is wrong now; `now` is the server's.
pub fn troubles(seen: &Seen, now: Timestamp) -> Vec<Trouble> {
    let mut found = Vec::new();
    if let Some(cron) = &seen.cron.value {
        found.extend(no_daemon(cron, now));
        found.extend(late(cron));
        found.extend(failed(cron, seen, now));
    }
    found.extend(failed_elsewhere(seen, now));
    if let Some(queues) = &seen.queues.value {
        found.extend(dead(&queues.queues));
        found.extend(no_worker(&queues.queues));
    }
    if let Some(cron) = &seen.cron.value {
        found.extend(gone(cron, now));
        found.extend(differing(cron));
        found.extend(in_no_file(cron));
    }
    found.extend(expired(seen));
    found
}

fn no_daemon(cron: &CronList, now: Timestamp) -> Option<Trouble> {
    let is_served = cron.daemons.iter().any(|daemon| daemon.alive);
    let last = cron
        .daemons
        .iter()
        .filter_map(|daemon| daemon.renewed)
        .max();
    let says = html! {
        "No " code { "dblock cron run" } " is alive, so none of " (words::counted(cron.jobs.len(), "job")) " runs."
        @if let Some(last) = last { " The last one was there " (words::brief(last, now)) "." }
    };
    let says = Some(says).filter(|_| !cron.jobs.is_empty() && !is_served);
    Trouble::new(FAILED, "No cron daemon".to_owned(), "/", says.into_iter())
}

fn late(cron: &CronList) -> Option<Trouble> {
    let late = cron.jobs.iter().filter(|job| job.late_seconds.is_some());
    let what = format!("{} late", are(late.clone().count(), "job"));
    Trouble::new(
        FAILED,
        what,
        "/timeline?by=job",
        late.map(|job| {
            html! {
                (job_link(&job.name)) " has been due for " (words::span(job.late_seconds.unwrap_or_default()))
                @if let Some(next) = job.next { ", since " (words::exact(next)) }
                ", and no daemon has started it."
            }
        }),
    )
}

/// `1 job is`, `2 jobs are`.
fn are(number: usize, one: &str) -> String {
    format!(
        "{} {}",
        words::counted(number, one),
        if number == 1 { "is" } else { "are" }
    )
}

fn failed(cron: &CronList, seen: &Seen, now: Timestamp) -> Option<Trouble> {
    let failed = cron
        .jobs
        .iter()
        .filter_map(|job| Some((job, last_failure(job, seen)?)));
    let what = format!("{} failed", words::counted(failed.clone().count(), "job"));
    Trouble::new(
        FAILED,
        what,
        "/history?result=any_failure",
        failed.map(|(job, last)| failed_job(job, &last, seen, now)),
    )
}

/// A run that failed.
struct Failure<'a> {
    run: &'a str,
    ending: &'a Ending,
    host: Option<&'a str>,
    at: Option<Timestamp>,
    ran_seconds: Option<f64>,
}

impl<'a> From<&'a LastRun> for Failure<'a> {
    fn from(run: &'a LastRun) -> Self {
        Failure {
            run: &run.run,
            ending: &run.ending,
            host: run.host.as_deref(),
            at: run.at(),
            ran_seconds: run.ran_seconds,
        }
    }
}

impl<'a> From<&'a Ended> for Failure<'a> {
    fn from(run: &'a Ended) -> Self {
        Failure {
            run: &run.run,
            ending: &run.ending,
            host: run.host.as_deref(),
            at: Some(run.at),
            ran_seconds: run.ran_seconds.map(f64::from),
        }
    }
}

/// The last run of a job that says how it does, if that failed. One that runs now says nothing yet: the one before it counts, once it is known
/// which that is.
fn last_failure<'a>(job: &'a Job, seen: &'a Seen) -> Option<Failure<'a>> {
    let last = job.last.as_ref()?;
    let last = if last.ending.kind().is_verdict() {
        last.into()
    } else {
        let runs = runs_of(seen, &job.name);
        let before = runs.iter().rposition(|run| run.run == last.run)?;
        latest_verdict(&runs[..before])?.into()
    };
    Some(last).filter(|last: &Failure| last.ending.kind().is_bad())
}

/// The latest of these runs that says how the job does. Where a job stands on several hosts, the others' skips come after it.
fn latest_verdict(runs: &[Ended]) -> Option<&Ended> {
    runs.iter().rfind(|run| run.ending.kind().is_verdict())
}

fn failed_job(job: &Job, last: &Failure, seen: &Seen, now: Timestamp) -> Markup {
    let again = job.under_way.iter().find_map(|tick| tick.retry);
    let is_running = job.last.as_ref();
    let is_running = is_running.is_some_and(|run| run.ending.kind() == Kind::Running);
    html! {
        span {
        (job_link(&job.name)) ": "
        a href=(links::run(last.run)) { (last.ending.words()) }
        (host(last.host))
        @if let Some(at) = last.at { ", " (words::brief(at, now)) }
        @if let Some(seconds) = last.ran_seconds { ", after " (words::span(seconds)) }
        @if is_running { "; it runs again now" }
        @else if let Some(again) = again { "; it is tried again " (words::brief(again, now)) }
        @else if let Some(next) = job.next { "; next " (words::brief(next, now)) }
        "."
        }
        (strip(runs_of(seen, &job.name)))
    }
}

/// The runs of a job that are known.
pub fn runs_of<'a>(seen: &'a Seen, name: &str) -> &'a [Ended] {
    let runs = seen.runs.value.as_ref().and_then(|runs| runs.get(name));
    runs.map_or(&[], Vec::as_slice)
}

/// Names that have runs, and are no job of the crontab: of `dblock run`.
pub fn other_names(seen: &Seen) -> Vec<&str> {
    let jobs = seen.cron.value.as_ref().map_or(&[][..], |cron| &cron.jobs);
    let runs = seen.runs.value.iter().flatten();
    let mut names: Vec<&str> = runs
        .map(|(name, _)| &**name)
        .filter(|name| !jobs.iter().any(|job| &*job.name == *name))
        .collect();
    names.sort_unstable();
    names
}

fn failed_elsewhere(seen: &Seen, now: Timestamp) -> Option<Trouble> {
    let names = other_names(seen);
    let failed: Vec<(&str, &Ended)> = names
        .iter()
        .filter_map(|name| Some((*name, latest_verdict(runs_of(seen, name))?)))
        .filter(|(_, last)| last.ending.kind().is_bad() && now.duration_since(last.at) < DAY)
        .collect();
    let what = format!(
        "{} of dblock run failed",
        words::counted(failed.len(), "command")
    );
    let each = failed.iter().map(|(name, last)| {
        html! {
            span { (job_link(name)) ": " a href=(links::run(&last.run)) { (last.ending.words()) }
            (host(last.host.as_deref())) ", " (words::brief(last.at, now)) "." } (strip(runs_of(seen, name)))
        }
    });
    Trouble::new(FAILED, what, "/timeline#failures", each)
}

fn dead(queues: &[Queue]) -> Option<Trouble> {
    let dead = queues.iter().filter(|queue| queue.dead > 0);
    let what = format!(
        "Dead jobs in {}",
        words::counted(dead.clone().count(), "queue")
    );
    Trouble::new(
        FAILED,
        what,
        "/#queues",
        dead.map(|queue| {
            html! {
                a href=(links::queue(&queue.name)) { (queue.name) } ": " (queue.counted("dead")) " failed for good, and "
                @if queue.dead == 1 { "stays" } @else { "stay" } " until somebody retries or cancels "
                @if queue.dead == 1 { "it." } @else { "them." }
            }
        }),
    )
}

fn no_worker(queues: &[Queue]) -> Option<Trouble> {
    let stuck = queues.iter().filter(|queue| {
        queue.due > 0
            && queue.living_workers() == 0
            && queue.paused_since.is_none()
            && queue.deleting_since.is_none()
    });
    let what = format!(
        "{} without a worker",
        words::counted(stuck.clone().count(), "queue")
    );
    Trouble::new(
        FAILED,
        what,
        "/#queues",
        stuck.map(|queue| {
            html! {
                a href=(links::queue(&queue.name)) { (queue.name) } ": " (queue.counted("due")) " due, and no worker is alive."
                @if let Some(seconds) = queue.oldest_due_seconds { " The oldest has been due for " (words::span(seconds)) "." }
            }
        }),
    )
}

/// Daemons that died while others live, unless there is another on their host.
fn gone(cron: &CronList, now: Timestamp) -> Option<Trouble> {
    let has_another = |host: &Option<Box<str>>| {
        cron.daemons
            .iter()
            .any(|other| other.alive && other.host == *host)
    };
    let gone = cron
        .daemons
        .iter()
        .filter(|daemon| !daemon.alive && !daemon.leaving && !has_another(&daemon.host));
    let what = format!("{} gone", are(gone.clone().count(), "cron daemon"));
    let is_served = cron.daemons.iter().any(|daemon| daemon.alive);
    Trouble::new(
        WARNING,
        what,
        "/",
        gone.filter(|_| is_served).map(|daemon| {
            html! {
                (daemon.host.as_deref().unwrap_or("a host without a name"))
                @if let Some(pid) = daemon.pid { ", pid " (pid) }
                @if let Some(renewed) = daemon.renewed { ", was last there " (words::brief(renewed, now)) }
                "."
            }
        }),
    )
}

/// Files that differ: one sentence for each job, however many daemons have another file.
fn differing(cron: &CronList) -> Option<Trouble> {
    let living = || cron.daemons.iter().filter(|daemon| daemon.alive);
    let of = |job: &Job, jobs: fn(&crate::fleet::data::Daemon) -> &[Box<str>]| -> Vec<&str> {
        let has = living().filter(move |daemon| jobs(daemon).contains(&job.name));
        has.map(|daemon| daemon.host.as_deref().unwrap_or("?"))
            .collect()
    };
    let mut each = Vec::new();
    for job in &cron.jobs {
        let disagree = of(job, |daemon| &daemon.disagrees);
        if !disagree.is_empty() {
            each.push(html! {
                (job_link(&job.name)) ": another schedule on " (words::listed(disagree.iter().copied()))
                ", which " (if disagree.len() == 1 { "does" } else { "do" }) " not run it."
            });
        }
        let differ = of(job, |daemon| &daemon.differs);
        if !differ.is_empty() {
            each.push(html! {
                (job_link(&job.name)) ": another command, other options or variables on " (words::listed(differ.iter().copied()))
                ", which " (if differ.len() == 1 { "runs" } else { "run" }) " it by its own file."
            });
        }
    }
    Trouble::new(
        WARNING,
        "Crontab files differ".to_owned(),
        "/",
        each.into_iter(),
    )
}

fn in_no_file(cron: &CronList) -> Option<Trouble> {
    let lost = cron.jobs.iter().filter(|job| job.in_no_file);
    let what = format!("{} in no crontab", are(lost.clone().count(), "job"));
    Trouble::new(
        WARNING,
        what,
        "/",
        lost.map(|job| {
            html! {
                (job_link(&job.name)) " is in no daemon's file"
                @if let Some(seen) = job.seen { ", since about " (words::exact(seen)) }
                ", and does not run."
            }
        }),
    )
}

fn expired(seen: &Seen) -> Option<Trouble> {
    let locks = seen
        .locks
        .value
        .as_ref()
        .map_or(&[][..], |status| &status.locks);
    let expired = locks
        .iter()
        .filter(|lock| lock.holders.iter().any(|holder| holder.expired));
    let what = format!(
        "{} expired",
        words::counted(expired.clone().count(), "lock")
    );
    Trouble::new(
        WARNING,
        what,
        "/locks",
        expired.map(|lock| html! { a href="/locks" { (lock.name) } " has expired, and nobody has released it." }),
    )
}

/// Jobs that failed in the last day, and have succeeded since, as far as their last runs are known: their names, how many runs failed of how
/// many, and the latest of these.
pub fn recovered(seen: &Seen, now: Timestamp) -> Vec<(&str, usize, usize, &Ended)> {
    let all = seen.runs.value.iter().flatten();
    let mut found: Vec<_> = all
        .filter_map(|(name, runs)| {
            let today = || runs.iter().filter(|run| now.duration_since(run.at) < DAY);
            let bad = || today().filter(|run| run.ending.kind().is_bad());
            let is_bad_now = latest_verdict(runs)?.ending.kind().is_bad();
            let latest = bad().next_back().filter(|_| !is_bad_now)?;
            Some((&**name, bad().count(), today().count(), latest))
        })
        .collect();
    found.sort_by_key(|(name, _, _, latest)| (std::cmp::Reverse(latest.at), *name));
    found
}
