//! What the page in between says: what an action is about, where that is, and how many are concerned.

use jiff::Timestamp;

use crate::base::text::printable;
use crate::fleet::data::{Holder, QueueList, QueueStatus, Status};
use crate::fleet::dblock::Words;
use crate::fleet::{Fleet, Seen};

use super::act::{Act, Held, MOST, Switch};

/// What will be done.
#[derive(Debug)]
pub struct Plan {
    /// What a person would say, without a mark at its end.
    pub title: String,
    /// Names and values.
    pub facts: Vec<(&'static str, String)>,
    /// What follows from it.
    pub consequence: &'static str,
    /// The command.
    pub words: Words,
    /// The fields of the form.
    pub fields: Vec<(&'static str, String)>,
    /// Why it is not what the form says, in a sentence; None: the form names all that it is about, and that is still so.
    pub objection: Option<String>,
}

/// The job or the queue that an action is about, and where it was looked for in vain; None: it is there, or that is not known now. Then the
/// command finds it out. Who holds a lock is asked for in any case.
pub fn nothing(act: &Act, seen: &Seen, now: Timestamp) -> Option<(String, &'static str)> {
    match act {
        Act::Job(_, name) if seen.job(name).is_none() => seen
            .says_what_is(&seen.cron, now)
            .then(|| (format!("No job {name}"), "No crontab has it.")),
        Act::Queue(_, name) | Act::Retry(name, ..) | Act::Cancel(name, _)
            if seen.queue(name).is_none() =>
        {
            let words = "It is not there, or not any more.";
            seen.says_what_is(&seen.queues, now)
                .then(|| (format!("No queue {name}"), words))
        }
        _ => None,
    }
}

/// That of an action.
///
/// # Errors
/// Why it cannot be done, in a sentence.
pub async fn of(act: &Act, seen: &Seen, fleet: &Fleet) -> Result<Plan, String> {
    let mut plan = match act {
        Act::Job(switch, name) => of_job(act, *switch, name, seen),
        Act::Queue(switch, name) => of_queue(act, *switch, name, seen),
        Act::Retry(queue, ids, asked) => of_retry(act, queue, (ids, asked), seen, fleet).await?,
        Act::Cancel(queue, ids) => of_cancel(queue, ids, seen, fleet).await?,
        Act::Kill(held, asked) => of_kill(held, asked, fleet).await?,
    };
    let server = match seen.server() {
        "" => UNKNOWN,
        server => server,
    };
    plan.facts.push(("server", server.to_owned()));
    Ok(plan)
}

fn of_job(act: &Act, switch: Switch, name: &str, seen: &Seen) -> Plan {
    let (title, consequence) = match switch {
        Switch::Pause => (
            format!("Pause the job {name}"),
            "Its ticks are skipped until it is resumed. A run that has started goes on.",
        ),
        Switch::Resume => (
            format!("Resume the job {name}"),
            "It runs at its ticks again. Those that were skipped are not run later.",
        ),
        Switch::Trigger => (
            format!("Run the job {name} now"),
            what_a_trigger_does(name, seen),
        ),
    };
    Plan {
        title,
        facts: vec![("job", name.to_owned()), ("host", host_of_job(seen, name))],
        consequence,
        words: act.words(),
        fields: vec![("job", name.to_owned())],
        objection: None,
    }
}

/// When a job runs that is triggered, as far as is known.
fn what_a_trigger_does(name: &str, seen: &Seen) -> &'static str {
    let Some(job) = seen.job(name) else {
        return "A daemon of the crontab starts it, in addition to its ticks.";
    };
    if seen.living_daemons().all(|daemon| daemon.leaving) {
        "No dblock cron run is alive: it runs when one is."
    } else if job.in_no_file {
        "No daemon has it in its file: it does not run before one has."
    } else if !job.under_way.is_empty() {
        "It is under way. Another run meanwhile is skipped, unless its option --overlap says otherwise."
    } else {
        "A daemon of the crontab starts it within about a second, in addition to its ticks."
    }
}

fn of_queue(act: &Act, switch: Switch, name: &str, seen: &Seen) -> Plan {
    let (title, consequence) = match switch {
        Switch::Pause => (
            format!("Pause the queue {name}"),
            "Workers claim no more jobs. Those that run go on to their end.",
        ),
        Switch::Resume | Switch::Trigger => (
            format!("Resume the queue {name}"),
            "Workers claim its jobs again.",
        ),
    };
    let mut facts = of_jobs(name, seen);
    facts.insert(1, ("jobs", jobs_of_queue(seen, name)));
    Plan {
        title,
        facts,
        consequence,
        words: act.words(),
        fields: vec![("queue", name.to_owned())],
        objection: None,
    }
}

async fn of_retry(
    act: &Act,
    queue: &str,
    (ids, asked): (&[u64], &str),
    seen: &Seen,
    fleet: &Fleet,
) -> Result<Plan, String> {
    let mut fields = vec![("queue", queue.to_owned())];
    let mut objection = None;
    let (title, consequence) = if ids.is_empty() {
        let dead = dead(fleet, queue).await?;
        objection = differs(
            asked,
            &dead,
            "The form says not how many jobs are dead.",
            |dead| format!("When this was asked {asked} jobs were dead, and now {dead} are."),
        );
        let title = format!("Retry all {dead} dead jobs of the queue {queue}");
        fields.push(("count", dead));
        (
            title,
            "Each becomes due again, and its attempts are counted from 0.",
        )
    } else {
        fields.push(("id", joined(ids)));
        (
            format!("Retry {} of the queue {queue}", counted(ids)),
            "A dead job becomes due again, and its attempts are counted from 0. A delayed job becomes due now.",
        )
    };
    Ok(Plan {
        title,
        facts: of_jobs(queue, seen),
        consequence,
        words: act.words(),
        fields,
        objection,
    })
}

async fn of_cancel(queue: &str, ids: &[u64], seen: &Seen, fleet: &Fleet) -> Result<Plan, String> {
    let (what, named) = if ids.is_empty() {
        let named = latest_dead(fleet, queue).await?;
        let dead = dead(fleet, queue).await?;
        let what = format!("the {} dead jobs of {dead}", named.len());
        (what, named)
    } else {
        (counted(ids), ids.to_vec())
    };
    Ok(Plan {
        title: format!("Cancel {what} of the queue {queue}"),
        facts: of_jobs(queue, seen),
        consequence: "Each is deleted, and cannot be brought back. If one runs, its command goes on to its end, and is not run again.",
        fields: vec![("queue", queue.to_owned()), ("id", joined(&named))],
        words: Act::Cancel(queue.to_owned(), named).words(),
        objection: ids
            .is_empty()
            .then(|| "The form says not which jobs.".to_owned()),
    })
}

async fn of_kill(held: &Held, asked: &str, fleet: &Fleet) -> Result<Plan, String> {
    let holder = holder(fleet, held).await?;
    let shown = shown(&holder).ok_or("This account does not see who holds it.")?;
    let lock = &held.lock;
    let key = Some(&held.key).filter(|key| !key.is_empty());
    let key = key.map(|key| ("key", key.clone()));
    let mut named = vec![("lock", lock.clone())];
    named.extend(key);
    named.push(("slot", holder.slot.to_string()));
    Ok(Plan {
        title: format!("Kill the holder of the lock {lock}"),
        objection: differs(asked, &shown, "The form says not who holds it.", |shown| {
            format!("Another one holds it now: {shown}.")
        }),
        fields: named
            .iter()
            .cloned()
            .chain([("holder", shown.clone())])
            .collect(),
        facts: named.into_iter().chain([("holder", shown)]).collect(),
        consequence: what_a_kill_ends(&holder),
        words: Act::Kill(
            Held {
                slot: Some(holder.slot),
                ..held.clone()
            },
            String::new(),
        )
        .words(),
    })
}

/// What `dblock kill` does to this holder.
fn what_a_kill_ends(holder: &Holder) -> &'static str {
    if holder.expired {
        "The lock has expired. It is taken from the holder, and is free after that. What the holder may still do is not waited for."
    } else if holder.is_of_script() {
        "The lock is taken from the script, whose token is void then, and is free after that. The script itself goes on."
    } else if holder.is_dblock() {
        "The holder's command is ended by SIGTERM, then by SIGKILL, and the lock is free after that."
    } else {
        "As far as is seen it is no dblock: its session with the server is ended, with its transaction and its other locks, and nothing \
         else. The lock is free after that."
    }
}

/// What is to be said where the form says something else than is so now, or nothing.
fn differs(
    asked: &str,
    now: &str,
    unsaid: &str,
    changed: impl Fn(&str) -> String,
) -> Option<String> {
    match asked {
        "" => Some(unsaid.to_owned()),
        _ => (asked != now).then(|| changed(now)),
    }
}

fn of_jobs(queue: &str, seen: &Seen) -> Vec<(&'static str, String)> {
    vec![
        ("queue", queue.to_owned()),
        ("workers", workers(seen, queue)),
    ]
}

const UNKNOWN: &str = "not known";

/// Where a job runs, or ran last.
fn host_of_job(seen: &Seen, name: &str) -> String {
    let Some(job) = seen.job(name) else {
        return UNKNOWN.to_owned();
    };
    let running: Vec<_> = job
        .under_way
        .iter()
        .filter_map(|tick| tick.host.as_deref())
        .collect();
    if !running.is_empty() {
        return format!("{}, where it runs now", running.join(", "));
    }
    let last = job.last.as_ref().and_then(|last| last.host.as_deref());
    last.map_or_else(
        || UNKNOWN.to_owned(),
        |host| format!("{host}, where it ran last"),
    )
}

fn jobs_of_queue(seen: &Seen, name: &str) -> String {
    let states = ["due", "delayed", "running", "dead"];
    let counted = seen.queue(name).map(|queue| {
        states
            .map(|state| format!("{} {state}", queue.counted(state)))
            .join(", ")
    });
    counted.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// How many jobs of a queue are dead now, all of them counted.
async fn dead(fleet: &Fleet, name: &str) -> Result<String, String> {
    let words = Words::of(["queue", "status", "--json", "--exact"]).about(name);
    let status = fleet.answer_now::<QueueStatus>(&words).await.into_value()?;
    let queues = status.into_iter().flat_map(|status| status.queues);
    let queue = queues.into_iter().next().ok_or("There is no such queue.")?;
    Ok(queue.counted("dead"))
}

/// Where its workers are.
fn workers(seen: &Seen, name: &str) -> String {
    let Some(queue) = seen.queue(name) else {
        return UNKNOWN.to_owned();
    };
    let mut hosts: Vec<_> = queue
        .workers
        .iter()
        .filter(|worker| worker.alive)
        .filter_map(|worker| worker.host.as_deref())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    if hosts.is_empty() {
        "none".to_owned()
    } else {
        format!("on {}", hosts.join(", "))
    }
}

/// The numbers of the dead jobs that died last.
async fn latest_dead(fleet: &Fleet, queue: &str) -> Result<Vec<u64>, String> {
    let words =
        Words::of(["queue", "list", "--json", "--state=dead"]).with("--limit", &MOST.to_string());
    let list = fleet.answer_now::<QueueList>(&words.about(queue)).await;
    let jobs = list.into_value()?.into_iter().flat_map(|list| list.jobs);
    let ids: Vec<_> = jobs.map(|job| job.id).collect();
    if ids.is_empty() {
        Err("None of its jobs is dead.".to_owned())
    } else {
        Ok(ids)
    }
}

/// Who holds a slot, or the only one, now.
async fn holder(fleet: &Fleet, held: &Held) -> Result<Holder, String> {
    let words = held.asked_by(["status", "--json"]).about(&held.lock);
    let status = fleet.answer_now::<Status>(&words).await.into_value()?;
    let locks = status.into_iter().flat_map(|status| status.locks);
    let holders = locks.flat_map(|lock| lock.holders);
    let mut holders = holders.filter(|holder| held.slot.is_none_or(|slot| holder.slot == slot));
    match (holders.next(), holders.next()) {
        (Some(holder), None) => Ok(holder),
        (None, _) => Err("Nobody holds it now.".to_owned()),
        (Some(_), Some(_)) => Err("Several hold it: it must be said which slot.".to_owned()),
    }
}

/// Who it is: another holder is another text. None: this account does not see it.
fn shown(holder: &Holder) -> Option<String> {
    let process = &holder.process;
    let text = |before: &str, text: &Option<Box<str>>| Some(format!("{before} {}", text.as_ref()?));
    let number = |before: &str, number: Option<u64>| Some(format!("{before} {}", number?));
    let who = [
        text("program", &process.program),
        text("on host", &process.host),
        number("pid", process.pid),
        text("user", &process.user),
        text("session of", &process.address),
        number("fence", holder.fence),
    ];
    let mut all: Vec<String> = who.into_iter().flatten().collect();
    if all.is_empty() {
        return None;
    }
    // Another process may have the number of one that has ended.
    let which = [
        text("owner", &holder.owner),
        text("started at", &process.started),
        number("connection", process.connection),
    ];
    all.extend(which.into_iter().flatten());
    // What a browser sends back is the same: it would change line breaks.
    Some(printable(&all.join(", ")))
}

fn joined(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn counted(ids: &[u64]) -> String {
    match ids {
        [id] => format!("job {id}"),
        several => format!("{} jobs", several.len()),
    }
}
