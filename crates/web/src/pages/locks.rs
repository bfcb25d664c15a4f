//! Who holds which lock, and who waits for it.

use maud::{Markup, html};

use super::layout::{Here, Page, button, scrolling, sign};
use super::{View, answers, links, words};
use crate::fleet::Seen;
use crate::fleet::data::{Holder, Kind, Lock, Process};

/// Locks on the page, and waiters of each.
const MOST: usize = 100;
const WAITERS: usize = 10;

/// The page.
pub fn page(view: &View, seen: &Seen) -> Markup {
    let status = seen.locks.value.as_ref();
    let locks = seen.all_locks().iter();
    let (idle, locks): (Vec<&Lock>, Vec<&Lock>) = locks.partition(|lock| lock.is_idle_queue());
    let waiting: usize = locks.iter().map(|lock| lock.waiters.len()).sum();
    let contents = html! {
        h1 #headline { (words::counted(locks.len(), "lock")) @if waiting > 0 { ", " (waiting) " waiting" } }
        section #away aria-label="Answers" { (answers::problems(seen, view.now)) }
        @if let (Some(at), None) = (seen.locks.at, &seen.locks.error) { p.note { "As of " (words::relative(at, view.now)) "." } }
        @if locks.is_empty() && status.is_some() { p.note { "None is held, or waited for, that this account can see." } }
        @if !locks.is_empty() { section #locks aria-label="Locks" { (scrolling("Locks", &table(view, &locks))) } }
        @if locks.len() > MOST { p.note { (locks.len() - MOST) " more: " code { "dblock status" } } }
        @if !idle.is_empty() { p.note { "Idle workers wait for jobs of: " (words::listed(idle.iter().map(|lock| &*lock.name))) "." } }
        @for line in status.iter().flat_map(|status| &status.not_visible) { p.note { "Not visible: " (line) } }
    };
    let page = Page {
        here: Here::Locks,
        is_itself: true,
        title: "Locks",
        server: seen.server(),
        refreshes: true,
    };
    page.around(view, &contents)
}

fn table(view: &View, locks: &[&Lock]) -> Markup {
    html! {
        table.locks {
            caption.unseen { "Locks, their holders and who waits for them" }
            thead { tr { th scope="col" { "Lock" } th scope="col" { "Holders" } th scope="col" { "Waiting, the next one first" } } }
            tbody {
                @for lock in locks.iter().take(MOST) {
                    tr {
                        th scope="row" { (lock.name) @if let Some(key) = &lock.key { ", key " (key) } }
                        td {
                            @if lock.holders.is_empty() { "nobody" }
                            ul.plain { @for holder in &lock.holders { li { (of_holder(view, lock, holder)) } } }
                            @for killer in &lock.killed_by { p { (sign(Kind::Lost)) " " (who(&killer.process)) " ends the holder of slot " (killer.slot) } }
                        }
                        td {
                            @if lock.waiters.is_empty() { "nobody" }
                            ol {
                                @for waiter in lock.waiters.iter().take(WAITERS) {
                                    li { (who(&waiter.process)) @if let Some(seconds) = waiter.waited_seconds { ", for " (words::span(seconds)) } }
                                }
                            }
                            @if lock.waiters.len() > WAITERS { "and " (lock.waiters.len() - WAITERS) " more" }
                        }
                    }
                }
            }
        }
    }
}

fn of_holder(view: &View, lock: &Lock, holder: &Holder) -> Markup {
    let slot = holder.slot.to_string();
    let key = lock.key.as_deref().unwrap_or_default();
    let object = [("lock", &*lock.name), ("key", key), ("slot", &slot)];
    html! {
        (who(&holder.process))
        @if let Some(owner) = &holder.owner { ", owner " (owner) }
        @if let Some(seconds) = holder.held_seconds { ", for " (words::span(seconds)) }
        @if holder.slot > 0 || lock.holders.len() > 1 { ", slot " (holder.slot) }
        @if holder.durable { ", durable" @if let Some(fence) = holder.fence { ", fence " (fence) } }
        @if let Some(seconds) = holder.expires_in_seconds { ", expires in " (words::span(seconds)) " unless renewed" }
        @if holder.expired { ", " (sign(Kind::Lost)) strong { "expired" } }
        (button(view, &links::action("kill", &object), "Kill", &format!("the holder of {}", lock.name)))
    }
}

/// A program, as people know it: its name, host and process.
pub fn who(process: &Process) -> Markup {
    html! {
        @match (&process.program, &process.client) {
            (Some(program), _) => (program),
            (None, Some(client)) => (client),
            (None, None) => "a program",
        }
        @match (&process.host, &process.address) {
            (Some(host), _) => { " on " strong { (host) } },
            (None, Some(address)) => { " as " (address) },
            (None, None) => {},
        }
        @if let Some(pid) = process.pid { ", pid " (pid) }
        @if let Some(user) = &process.user { " (" (user) ")" }
    }
}
