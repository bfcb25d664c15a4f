//! What the page in between says: what an action is about, where that is, and how many are concerned.

use crate::fleet::ask::Words;
use crate::fleet::data::{Holder, QueueList, Status};
use crate::fleet::{Fleet, Seen};

use super::act::{Act, MOST, Switch};

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
    /// Whether the form names all that the action is about, and that is still so.
    pub was_asked: bool,
}

/// That of an action.
///
/// # Errors
/// Why it cannot be done, in a sentence.
pub async fn of(act: &Act, fleet: &Fleet) -> Result<Plan, String> {
    let seen = fleet.look().await;
    let server = || ("server", server(&seen));
    Ok(match act {
        Act::Job(switch, name) => Plan {
            title: match switch {
                Switch::Pause => format!("Pause the job {name}"),
                Switch::Resume => format!("Resume the job {name}"),
                Switch::Trigger => format!("Run the job {name} now"),
            },
            facts: vec![
                ("job", name.clone()),
                ("host", host_of_job(&seen, name)),
                server(),
            ],
            consequence: match switch {
                Switch::Pause => {
                    "Its ticks are skipped until it is resumed. A run that has started goes on."
                }
                Switch::Resume => {
                    "It runs at its ticks again. Those that were skipped are not run later."
                }
                Switch::Trigger => {
                    "A daemon of the crontab starts it within about a second, in addition to its ticks."
                }
            },
            words: act.words(),
            fields: vec![("job", name.clone())],
            was_asked: true,
        },
        Act::Queue(switch, name) => Plan {
            title: match switch {
                Switch::Pause => format!("Pause the queue {name}"),
                Switch::Resume | Switch::Trigger => format!("Resume the queue {name}"),
            },
            facts: vec![
                ("queue", name.clone()),
                ("jobs", jobs_of_queue(&seen, name)),
                ("workers", workers(&seen, name)),
                server(),
            ],
            consequence: match switch {
                Switch::Pause => "Workers claim no more jobs. Those that run go on to their end.",
                Switch::Resume | Switch::Trigger => "Workers claim its jobs again.",
            },
            words: act.words(),
            fields: vec![("queue", name.clone())],
            was_asked: true,
        },
        Act::Retry(queue, ids) if ids.is_empty() => Plan {
            title: format!(
                "Retry all {} dead jobs of the queue {queue}",
                dead(&seen, queue)?
            ),
            facts: vec![
                ("queue", queue.clone()),
                ("workers", workers(&seen, queue)),
                server(),
            ],
            consequence: "Each becomes due again, and its attempts are counted from 0.",
            words: act.words(),
            fields: vec![("queue", queue.clone())],
            was_asked: true,
        },
        Act::Retry(queue, ids) => Plan {
            title: format!("Retry {} of the queue {queue}", counted(ids)),
            facts: vec![
                ("queue", queue.clone()),
                ("workers", workers(&seen, queue)),
                server(),
            ],
            consequence: "A dead job becomes due again, and its attempts are counted from 0. A delayed job becomes due now.",
            words: act.words(),
            fields: vec![("queue", queue.clone()), ("id", joined(ids))],
            was_asked: true,
        },
        Act::Cancel(queue, ids) => {
            let named = if ids.is_empty() {
                latest_dead(fleet, queue).await?
            } else {
                ids.clone()
            };
            let all = if ids.is_empty() {
                format!(" dead {} of {}", jobs(named.len()), dead(&seen, queue)?)
            } else {
                String::new()
            };
            let what = if ids.is_empty() {
                format!("the {}{all}", named.len())
            } else {
                counted(&named)
            };
            Plan {
                title: format!("Cancel {what} of the queue {queue}"),
                facts: vec![
                    ("queue", queue.clone()),
                    ("workers", workers(&seen, queue)),
                    server(),
                ],
                consequence: "Each is deleted, and cannot be brought back. If one runs, its command goes on to its end, and is not run again.",
                words: Act::Cancel(queue.clone(), named.clone()).words(),
                fields: vec![("queue", queue.clone()), ("id", joined(&named))],
                was_asked: !ids.is_empty(),
            }
        }
        Act::Kill(lock, slot, asked) => {
            let holder = holder(fleet, lock, *slot).await?;
            let shown = shown(&holder);
            Plan {
                title: format!("Kill the holder of the lock {lock}"),
                was_asked: *asked == shown,
                fields: vec![
                    ("lock", lock.clone()),
                    ("slot", holder.slot.to_string()),
                    ("holder", shown.clone()),
                ],
                facts: vec![
                    ("lock", lock.clone()),
                    ("slot", holder.slot.to_string()),
                    ("holder", shown),
                    server(),
                ],
                consequence: "The holder's command is ended by SIGTERM, then by SIGKILL, and the lock is free after that.",
                words: Act::Kill(lock.clone(), Some(holder.slot), String::new()).words(),
            }
        }
    })
}

const UNKNOWN: &str = "not known";

fn server(seen: &Seen) -> String {
    let servers = [
        seen.locks.value.as_ref().map(|locks| &locks.server),
        seen.cron.value.as_ref().map(|cron| &cron.server),
    ];
    servers
        .into_iter()
        .flatten()
        .next()
        .map_or_else(|| UNKNOWN.to_owned(), Clone::clone)
}

/// Where a job runs, or ran last.
fn host_of_job(seen: &Seen, name: &str) -> String {
    let jobs = seen.cron.value.iter().flat_map(|cron| &cron.jobs);
    let Some(job) = jobs.into_iter().find(|job| *job.name == *name) else {
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

fn queue<'a>(seen: &'a Seen, name: &str) -> Option<&'a crate::fleet::data::Queue> {
    let queues = seen.queues.value.as_ref()?;
    queues.queues.iter().find(|queue| *queue.name == *name)
}

fn jobs_of_queue(seen: &Seen, name: &str) -> String {
    let states = ["due", "delayed", "running", "dead"];
    let counted = queue(seen, name).map(|queue| {
        states
            .map(|state| format!("{} {state}", queue.counted(state)))
            .join(", ")
    });
    counted.unwrap_or_else(|| UNKNOWN.to_owned())
}

fn dead(seen: &Seen, name: &str) -> Result<String, String> {
    let queue = queue(seen, name)
        .ok_or("It is not known how many jobs are dead: the server did not say.")?;
    Ok(queue.counted("dead"))
}

/// Where its workers are.
fn workers(seen: &Seen, name: &str) -> String {
    let Some(queue) = queue(seen, name) else {
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
    let list = fleet.answer::<QueueList>(&words.about(queue)).await;
    if let Some(error) = list.error {
        return Err(error);
    }
    let ids: Vec<_> = list
        .value
        .iter()
        .flat_map(|list| &list.jobs)
        .map(|job| job.id)
        .collect();
    if ids.is_empty() {
        Err("None of its jobs is dead.".to_owned())
    } else {
        Ok(ids)
    }
}

/// Who holds a slot, or the only one, now.
async fn holder(fleet: &Fleet, lock: &str, slot: Option<u32>) -> Result<Holder, String> {
    let status = fleet
        .answer::<Status>(&Words::of(["status", "--json"]).about(lock))
        .await;
    if let Some(error) = status.error {
        return Err(error);
    }
    let holders = status
        .value
        .into_iter()
        .flat_map(|status| status.locks)
        .flat_map(|lock| lock.holders);
    let mut holders = holders.filter(|holder| slot.is_none_or(|slot| holder.slot == slot));
    match (holders.next(), holders.next()) {
        (Some(holder), None) => Ok(holder),
        (None, _) => Err("Nobody holds it now.".to_owned()),
        (Some(_), Some(_)) => Err("Several hold it: it must be said which slot.".to_owned()),
    }
}

/// Who it is: another holder is another text.
fn shown(holder: &Holder) -> String {
    let process = &holder.process;
    let mut all = Vec::new();
    all.extend(
        process
            .program
            .as_ref()
            .map(|program| format!("program {program}")),
    );
    all.extend(process.host.as_ref().map(|host| format!("on host {host}")));
    all.extend(process.pid.map(|pid| format!("pid {pid}")));
    all.extend(process.user.as_ref().map(|user| format!("user {user}")));
    all.extend(
        process
            .address
            .as_ref()
            .map(|address| format!("session of {address}")),
    );
    all.extend(holder.fence.map(|fence| format!("fence {fence}")));
    if all.is_empty() {
        "not visible to this account".to_owned()
    } else {
        all.join(", ")
    }
}

fn joined(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
}

fn jobs(number: usize) -> &'static str {
    if number == 1 { "job" } else { "jobs" }
}

fn counted(ids: &[u64]) -> String {
    match ids {
        [id] => format!("job {id}"),
        several => format!("{} jobs", several.len()),
    }
}
