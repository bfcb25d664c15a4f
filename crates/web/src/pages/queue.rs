//! A queue.

use std::collections::HashMap;

use jiff::Timestamp;
use maud::{Markup, html};

use super::layout::{Found, Here, Page, button, hidden, message, scrolling, sign, switch};
use super::{View, answers, links, words};
use crate::base::text::argument_for_shell;
use crate::charts::depth::{self, depth};
use crate::fleet::data::{DeadJob, Kind, Queue, QueueList};
use crate::fleet::{Part, Seen};

/// Jobs of an error that are named.
const NAMED: usize = 10;

/// The page. The dead jobs are the latest.
pub fn page(view: &View, seen: &Seen, name: &str, dead: &Part<QueueList>) -> Found {
    let now = seen.server_now(view.now);
    let queue = seen.queue(name);
    if queue.is_none() && seen.says_what_is(&seen.queues, view.now) {
        return Err(message(
            view,
            &format!("No queue {name}"),
            "It is not there, or not any more.",
        ));
    }
    let contents = html! {
        p.kind { "Queue" }
        h1 #headline { (name) }
        section #away aria-label="Answers" { (answers::problems(seen, view.now)) }
        @if let Some(queue) = queue {
            (state(queue, now))
            (buttons(view, queue))
            (numbers(queue))
            (workers(queue, now))
            @if queue.dead > 0 { (dead_jobs(view, queue, dead, now)) }
        }
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

fn state(queue: &Queue, now: Timestamp) -> Markup {
    let is_stuck = queue.due > 0 && queue.living_workers() == 0;
    html! {
        p #state.state {
            @if let Some(since) = queue.paused_since { strong { "Paused" } " since " (words::time(since, now)) ": workers claim no more jobs. " }
            @if let Some(since) = queue.deleting_since { strong { "It is being deleted" } " since " (words::time(since, now)) ". " }
            @if is_stuck { (sign(Kind::Failed)) " " strong { "No worker is alive." } " " }
            @if queue.dead > 0 { (sign(Kind::Failed)) " " strong { (queue.counted("dead")) " dead." } " " }
            @if let Some(seconds) = queue.oldest_due_seconds { "The oldest job that is due has been due for " (words::span(seconds)) "." }
            @else if queue.dead == 0 { (sign(Kind::Good)) " No job is due." }
        }
    }
}

fn buttons(view: &View, queue: &Queue) -> Markup {
    let object = ("queue", &*queue.name);
    html! {
        @if view.may_act {
            p.buttons {
                (switch(view, object, queue.paused_since.is_some()))
                @if queue.dead > 0 { (button(view, &links::action("retry", &[object]), "Retry all dead", &queue.name)) }
            }
        }
    }
}

fn numbers(queue: &Queue) -> Markup {
    html! {
        section #numbers aria-labelledby="numbers-title" {
            h2 #numbers-title { "Jobs" }
            (depth(queue))
            p.legend { (depth::words(queue)) }
            dl.figures {
                @for state in ["due", "delayed", "running", "dead"] { div { dt { @if state != "dead" { span.swatch.(state) {} } (words::capital(state)) } dd { (queue.counted(state)) } } }
                div { dt { "Done a minute" } dd { (queue.done_per_minute) } }
                div { dt { "Failed a minute" } dd { (queue.failed_per_minute) } }
            }
            p.note { "Rates are of the last five whole minutes." @if !queue.incomplete.is_empty() { " + means that there are more: " code { "dblock queue status --exact" } " counts them." } }
        }
    }
}

fn workers(queue: &Queue, now: Timestamp) -> Markup {
    let table = html! {
        table {
            caption.unseen { "Workers, and those that died in the last day" }
            thead { tr {
                th scope="col" { "Host" } th.n scope="col" { "Pid" } th scope="col" { "User" } th scope="col" { "Program" }
                th.n scope="col" { "Running" } th scope="col" { "Started" } th scope="col" { "Last there" }
            } }
            tbody {
                @for worker in &queue.workers {
                    tr {
                        th scope="row" { @if worker.alive { (sign(Kind::Good)) } @else { (sign(Kind::Lost)) } (worker.host.as_deref().unwrap_or("?")) @if !worker.alive { " (gone)" } }
                        td.n { @if let Some(pid) = worker.pid { (pid) } }
                        td { (worker.user.as_deref().unwrap_or("–")) }
                        td { (worker.program.as_deref().unwrap_or("–")) }
                        td.n { (worker.running) " of " (worker.max_commands) }
                        td { (words::brief(worker.started, now)) }
                        td { (words::brief(worker.renewed, now)) }
                    }
                }
            }
        }
    };
    html! {
        section #workers aria-labelledby="workers-title" {
            h2 #workers-title { "Workers " span.count { (queue.living_workers()) } }
            @if queue.workers.is_empty() { p.note { "None is alive, and none died in the last day." } } @else { (scrolling("Workers", &table)) }
        }
    }
}

/// An error with its numbers left out: by it, errors are alike.
fn pattern(error: &str) -> String {
    let mut pattern = String::with_capacity(error.len());
    for character in error.chars() {
        match character {
            digit if digit.is_ascii_digit() => {
                if !pattern.ends_with('#') {
                    pattern.push('#');
                }
            }
            other => pattern.push(other),
        }
    }
    pattern
}

/// Jobs whose errors are alike, those of which there are most first. In each the latest stays first.
fn groups(jobs: &[DeadJob]) -> Vec<Vec<&DeadJob>> {
    let mut groups: HashMap<String, Vec<&DeadJob>> = HashMap::new();
    for job in jobs {
        let error = job.last_error.as_deref().unwrap_or_default();
        groups.entry(pattern(error)).or_default().push(job);
    }
    let mut groups: Vec<Vec<&DeadJob>> = groups.into_values().collect();
    groups.sort_by_key(|group| {
        (
            std::cmp::Reverse(group.len()),
            std::cmp::Reverse(group[0].id),
        )
    });
    groups
}

fn dead_jobs(view: &View, queue: &Queue, dead: &Part<QueueList>, now: Timestamp) -> Markup {
    let jobs = dead.value.as_ref().map_or(&[][..], |list| &list.jobs);
    let groups = if view.show_data {
        groups(jobs)
    } else {
        vec![jobs.iter().collect()]
    };
    html! {
        section #dead aria-labelledby="dead-title" {
            h2 #dead-title { "Dead jobs " span.count { (queue.counted("dead")) } }
            (answers::problem(dead, "dead jobs", view.now))
            @if !view.show_data { p.note { (hidden("Errors and keys")) } }
            @if jobs.len() as u64 != queue.dead && !jobs.is_empty() { p.note { "The latest " (jobs.len()) " of them:" } }
            @for group in groups.iter().filter(|group| !group.is_empty()) { (group_of(view, queue, group, now)) }
            (commands(&queue.name))
        }
    }
}

/// What a page does not have of a job.
fn commands(queue: &str) -> Markup {
    let show = format!("dblock queue show {} JOB", argument_for_shell(queue));
    let output = argument_for_shell(&format!("{queue}#JOB"));
    html! {
        p.note { "What a job was given, with its payload: " code { (show) } ". What it wrote: " code { "dblock output " (output) } "." }
    }
}

fn group_of(view: &View, queue: &Queue, group: &[&DeadJob], now: Timestamp) -> Markup {
    let error = group[0].last_error.as_deref().filter(|_| view.show_data);
    html! {
        div.group {
            h3 {
                (sign(Kind::Failed)) " " (words::counted(group.len(), "job"))
                @match error {
                    Some(error) => { @if group.len() > 1 { ", the latest" } ": " (error) },
                    None => @if view.show_data { ": no error was recorded" },
                }
            }
            ul.plain {
                @for job in group.iter().take(NAMED) {
                    li {
                        "Job " (job.id) ", " (words::counted(job.attempt as usize, "attempt"))
                        @if let Some(at) = job.state_since { ", died " (words::brief(at, now)) }
                        @if view.show_data { @if let Some(key) = &job.key { ", key " code { (key) } } }
                        @let id = job.id.to_string();
                        @let object = [("queue", &*queue.name), ("id", id.as_str())];
                        (button(view, &links::action("retry", &object), "Retry", &format!("job {id}")))
                        (button(view, &links::action("cancel", &object), "Cancel", &format!("job {id}")))
                    }
                }
                @if group.len() > NAMED { li { "and " (group.len() - NAMED) " more: " code { "dblock queue list --state dead --limit 0 " (argument_for_shell(&queue.name)) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn errors_that_differ_in_numbers_are_alike() {
        assert_eq!(
            pattern("exit 1: smtp: 550 no such user 17"),
            "exit #: smtp: # no such user #"
        );
    }
}
