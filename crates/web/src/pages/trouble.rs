//! What is wrong, in the order in which somebody has to look at it.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::layout::sign;
use super::links;
use super::words::{self, counted};
use crate::charts::strip::strip;
use crate::fleet::Seen;
use crate::fleet::data::{Daemon, Ended, Ending, Job, Kind, LastRun};

/// What happened longer ago is no trouble of today.
const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Of one sort no more than these are shown.
const MOST: usize = 12;

/// Things of one sort that are wrong.
pub struct Trouble {
    /// The kind of the sign.
    kind: Kind,
    /// What it is, with its number: `2 jobs failed`.
    what: String,
    /// Each of them in a sentence.
    each: Vec<Markup>,
    /// Where all of them are, when there are more than are shown.
    all: &'static str,
}

const FAILED: Kind = Kind::Failed;
const WARNING: Kind = Kind::Lost;

impl Trouble {
    /// None: there are none of them. `what` gets their number.
    fn new(
        kind: Kind,
        what: impl Fn(usize) -> String,
        all: &'static str,
        each: impl Iterator<Item = Markup>,
    ) -> Option<Trouble> {
        let each: Vec<Markup> = each.collect();
        (!each.is_empty()).then(|| Trouble {
            kind,
            what: what(each.len()),
            each,
            all,
        })
    }

    /// As an item of the list of what is wrong.
    pub fn item(&self) -> Markup {
        let more = self.each.len().saturating_sub(MOST);
        html! {
            li {
                h3 { (sign(self.kind)) " " (self.what) }
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
    let all = [
        no_daemon(seen, now),
        late(seen),
        failed(seen, now),
        failed_elsewhere(seen, false, now),
        failed_elsewhere(seen, true, now),
        dead(seen),
        no_worker(seen),
        gone(seen, now),
        differing(seen),
        in_no_file(seen),
        expired(seen),
    ];
    all.into_iter().flatten().collect()
}

fn no_daemon(seen: &Seen, now: Timestamp) -> Option<Trouble> {
    let jobs = seen.jobs().len();
    let daemons = seen.daemons().iter();
    let last = daemons.filter_map(|daemon| daemon.renewed).max();
    let says = html! {
        "No " code { "dblock cron run" } " is alive, so none of " (counted(jobs, "job")) " runs."
        @if let Some(last) = last { " The last one was there " (words::brief(last, now)) "." }
    };
    let is_served = seen.living_daemons().next().is_some();
    let says = Some(says).filter(|_| jobs > 0 && !is_served);
    Trouble::new(
        FAILED,
        |_| "No cron daemon".to_owned(),
        "/",
        says.into_iter(),
    )
}

fn late(seen: &Seen) -> Option<Trouble> {
    let late = seen
        .jobs()
        .iter()
        .filter_map(|job| Some((job, job.late_seconds?)));
    let each = late.map(|(job, seconds)| {
        html! {
            (job_link(&job.name)) " has been due for " (words::span(seconds))
            @if let Some(next) = job.next { ", since " (words::exact(next)) }
            ", and no daemon has started it."
        }
    });
    let what = |jobs| format!("{} late", are(jobs, "job"));
    Trouble::new(FAILED, what, "/timeline?by=job", each)
}

/// `1 job is`, `2 jobs are`.
fn are(number: usize, one: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(number, one))
}

fn failed(seen: &Seen, now: Timestamp) -> Option<Trouble> {
    let jobs = seen.jobs().iter();
    let failed = jobs.filter_map(|job| Some((job, last_failure(job, seen)?)));
    let each = failed.map(|(job, last)| failed_job(job, &last, seen, now));
    let what = |jobs| format!("{} failed", counted(jobs, "job"));
    Trouble::new(FAILED, what, "/history?result=any_failure", each)
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
        let runs = seen.runs_of(&job.name);
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
        (strip(seen.runs_of(&job.name)))
    }
}

/// Names that have runs, and are no job of the crontab: of `dblock run` and `dblock acquire`.
pub fn other_names(seen: &Seen) -> impl Iterator<Item = &str> {
    let names = seen.runs.value.iter().flat_map(HashMap::keys);
    names
        .map(String::as_str)
        .filter(|name| seen.job(name).is_none())
}

/// The other names whose last run failed; `are_acquired`: those of `dblock acquire`, and not those of `dblock run`.
fn failed_elsewhere(seen: &Seen, are_acquired: bool, now: Timestamp) -> Option<Trouble> {
    let mut names: Vec<&str> = other_names(seen).collect();
    names.sort_unstable();
    let last = names
        .iter()
        .filter_map(|name| Some((*name, latest_verdict(seen.runs_of(name))?)));
    let last = last.filter(|(_, last)| last.is_acquired == are_acquired);
    let failed: Vec<(&str, &Ended)> = last
        .filter(|(_, last)| last.ending.kind().is_bad() && now.duration_since(last.latest()) < DAY)
        .collect();
    let (one, command) = failed.first()?.1.origin();
    let each = failed.into_iter().map(|(name, last)| {
        html! {
            span { (job_link(name)) ": " a href=(links::run(&last.run)) { (last.ending.words()) }
            (host(last.host.as_deref())) ", " (words::brief(last.at, now))
            @if let Some(seconds) = last.ran_seconds { ", after " (words::span(seconds.into())) }
            "." } (strip(seen.runs_of(name)))
        }
    });
    let what = |number| format!("{} of {command} failed", counted(number, one));
    Trouble::new(FAILED, what, "/timeline#failures", each)
}

fn dead(seen: &Seen) -> Option<Trouble> {
    let dead = seen.all_queues().iter().filter(|queue| queue.dead > 0);
    let each = dead.map(|queue| {
        let (stay, them) = if queue.dead == 1 {
            ("stays", "it")
        } else {
            ("stay", "them")
        };
        html! {
            a href=(links::queue(&queue.name)) { (queue.name) } ": " (queue.counted("dead")) " failed for good, and "
            (stay) " until somebody retries or cancels " (them) "."
        }
    });
    let what = |queues| format!("Dead jobs in {}", counted(queues, "queue"));
    Trouble::new(FAILED, what, "/#queues", each)
}

fn no_worker(seen: &Seen) -> Option<Trouble> {
    let stuck = seen.all_queues().iter().filter(|queue| {
        queue.due > 0
            && queue.living_workers() == 0
            && queue.paused_since.is_none()
            && queue.deleting_since.is_none()
    });
    let each = stuck.map(|queue| {
        html! {
            a href=(links::queue(&queue.name)) { (queue.name) } ": " (queue.counted("due")) " due, and no worker is alive."
            @if let Some(seconds) = queue.oldest_due_seconds { " The oldest has been due for " (words::span(seconds)) "." }
        }
    });
    let what = |queues| format!("{} without a worker", counted(queues, "queue"));
    Trouble::new(FAILED, what, "/#queues", each)
}

/// Daemons that died while others live, unless there is another on their host.
fn gone(seen: &Seen, now: Timestamp) -> Option<Trouble> {
    let living = seen.living_daemons();
    let is_served = living.clone().next().is_some();
    let has_another = |gone: &Daemon| living.clone().any(|other| other.host == gone.host);
    let gone = seen
        .daemons()
        .iter()
        .filter(|daemon| is_served && !daemon.alive && !daemon.leaving && !has_another(daemon));
    let each = gone.map(|daemon| {
        html! {
            (daemon.host.as_deref().unwrap_or("a host without a name"))
            @if let Some(pid) = daemon.pid { ", pid " (pid) }
            @if let Some(renewed) = daemon.renewed { ", was last there " (words::brief(renewed, now)) }
            "."
        }
    });
    let what = |daemons| format!("{} gone", are(daemons, "cron daemon"));
    Trouble::new(WARNING, what, "/", each)
}

/// Files that differ: one sentence for each job, however many daemons have another file.
fn differing(seen: &Seen) -> Option<Trouble> {
    let of = |job: &Job, jobs: fn(&Daemon) -> &[Box<str>]| -> Vec<&str> {
        let has = seen.living_daemons();
        let has = has.filter(|daemon| jobs(daemon).contains(&job.name));
        has.map(|daemon| daemon.host.as_deref().unwrap_or("?"))
            .collect()
    };
    let says = |job: &Job, what: &str, hosts: &[&str], [one, several]: [&str; 2]| {
        let hosts_do = if hosts.len() == 1 { one } else { several };
        let hosts = words::listed(hosts.iter().copied());
        html! { (job_link(&job.name)) ": another " (what) " on " (hosts) ", which " (hosts_do) "." }
    };
    let mut each = Vec::new();
    for job in seen.jobs() {
        let disagree = of(job, |daemon| &daemon.disagrees);
        if !disagree.is_empty() {
            let do_not = ["does not run it", "do not run it"];
            each.push(says(job, "schedule", &disagree, do_not));
        }
        let differ = of(job, |daemon| &daemon.differs);
        if !differ.is_empty() {
            let run = ["runs it by its own file", "run it by its own file"];
            let what = "command, other options or variables";
            each.push(says(job, what, &differ, run));
        }
    }
    let what = |_| "Crontab files differ".to_owned();
    Trouble::new(WARNING, what, "/", each.into_iter())
}

fn in_no_file(seen: &Seen) -> Option<Trouble> {
    let lost = seen.jobs().iter().filter(|job| job.in_no_file);
    let each = lost.map(|job| {
        html! {
            (job_link(&job.name)) " is in no daemon's file"
            @if let Some(seen) = job.seen { ", since about " (words::exact(seen)) }
            ", and does not run."
        }
    });
    let what = |jobs| format!("{} in no crontab", are(jobs, "job"));
    Trouble::new(WARNING, what, "/", each)
}

fn expired(seen: &Seen) -> Option<Trouble> {
    let locks = seen.all_locks().iter();
    let expired = locks.filter(|lock| lock.holders.iter().any(|holder| holder.expired));
    let each = expired.map(
        |lock| html! { a href="/locks" { (lock.name) } " has expired, and nobody has released it." },
    );
    let what = |locks| format!("{} expired", counted(locks, "lock"));
    Trouble::new(WARNING, what, "/locks", each)
}

/// Jobs that failed in the last day, and have succeeded since, as far as their last runs are known: their names, how many runs failed of how
/// many, and the latest of these.
pub fn recovered(seen: &Seen, now: Timestamp) -> Vec<(&str, usize, usize, &Ended)> {
    let all = seen.runs.value.iter().flatten();
    let mut found: Vec<_> = all
        .filter_map(|(name, runs)| {
            let today = || {
                let all = runs.iter();
                all.filter(|run| now.duration_since(run.latest()) < DAY)
            };
            let bad = || today().filter(|run| run.ending.kind().is_bad());
            let is_bad_now = latest_verdict(runs)?.ending.kind().is_bad();
            let latest = bad().next_back().filter(|_| !is_bad_now)?;
            Some((&**name, bad().count(), today().count(), latest))
        })
        .collect();
    found.sort_by_key(|(name, _, _, latest)| (std::cmp::Reverse(latest.at), *name));
    found
}
