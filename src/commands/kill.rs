//! `dblock kill`: ends the holder of a lock, with its command, so that its slot becomes free. The protocols are in `lock/named/kill.rs` and
//! `lock/rows/kill.rs`; this file has the texts.

use std::fmt::Write;
use std::time::Duration;

use nix::unistd::getpid;

use super::output::print_done;
use super::question::{Asker, Question};
use crate::base::exit::{CONFLICT, Ending, Reason};
use crate::base::text::{for_shell, in_seconds, shown};
use crate::db::{Client, Fault};
use crate::history::{Deed, recorder_of_token_ends};
use crate::lock::named::Killing;
use crate::lock::rows::RowKilling;
use crate::lock::{Freed, HolderKind, KillOutcome, Killed, Victim, Wait, own_host};
use crate::settings::cli::CommandLine;
use crate::settings::cli::kill::longest;
use crate::settings::{self, Kill};

/// What a dry run says of what would be done.
const WITHOUT_DRY_RUN: &str = "; without --dry-run";
const DBLOCK_ENDED: &str = "it would be ended, with its command";
const SESSION_ENDED: &str = "its session would be ended, and nothing else";
const LOCK_TAKEN: &str = "the lock would be taken from it";
const WAITED_FOR: &str = "that would be waited for";

/// Ends a holder, prints what was done, and returns dblock's exit.
///
/// # Errors
/// Why it failed.
pub fn kill(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (kill, common) = settings::kill(command_line)?;
    let (connect, log) = (common.connection.connect_timeout, common.log);
    let question = Question {
        whole: match kill.wait {
            Wait::For(wait) => Some(longest(connect, wait)),
            Wait::Forever => None,
        },
        ..Question::about_locks("dblock kill", "the kill", &common)
    };
    let by = format!("{}, pid {}", own_host(), getpid());
    let killed = question.ask_one(|asker| end_holder(&kill, connect, by, asker))?;
    let (code, line) = in_words(&kill, &killed);
    if code != 0 {
        log.error(line);
    } else {
        print_done(log, line);
    }
    Ok(Ending::Code(code))
}

fn end_holder(
    kill: &Kill,
    connect_timeout: Duration,
    killer: String,
    asker: &mut Asker<Killed>,
) -> Result<Killed, Fault> {
    let tables = asker.tables.clone();
    let named = Killing {
        inspector: &mut asker.inspector,
        name: &kill.name,
        slot: kill.slot,
        wait: kill.wait,
        dry_run: kill.dry_run,
        connect_timeout,
    };
    let mut killing = RowKilling {
        named,
        force: kill.force,
        on_token_end: recorder_of_token_ends(&tables, killer.clone()),
        tables,
        killer,
    };
    let result = killing.end()?;
    if let Killed::Slot { slot, outcome } = &result
        && let Some(holder) = outcome.ended()
    {
        let object = match (slot, kill.slot) {
            (0, None) => kill.name.to_string(),
            (slot, _) => format!("{}#{slot}", kill.name),
        };
        asker.record_later(Deed {
            action: if kill.force { "kill --force" } else { "kill" },
            object,
            detail: Some(identity(holder)),
        });
    }
    Ok(result)
}

/// The exit code, and the line that is printed.
fn in_words(kill: &Kill, killed: &Killed) -> (u8, String) {
    match killed {
        Killed::SeveralHolders(slots) => {
            let name = for_shell(&kill.name.to_string());
            let slots = slots.iter().map(|slot| format!("{name}#{slot}"));
            let slots = slots.collect::<Vec<_>>().join(", ");
            let line = format!("{} has several holders; say which one: {slots}", kill.name);
            (Reason::Usage.code(), line)
        }
        Killed::Slot { slot, outcome } => (code_of(outcome), line_of(kill, *slot, outcome)),
    }
}

fn code_of(outcome: &KillOutcome) -> u8 {
    match outcome {
        KillOutcome::NotAllowed { .. } => Reason::AccountRefused.code(),
        KillOutcome::Refused { .. } => Reason::Internal.code(),
        KillOutcome::OfRow(_) => Reason::Configuration.code(),
        KillOutcome::TakenMeanwhile { .. }
        | KillOutcome::CommandEnding { .. }
        | KillOutcome::NoReport { .. }
        | KillOutcome::Unanswered { .. }
        | KillOutcome::EndedByAnother {
            is_known: false, ..
        }
        | KillOutcome::BeingEnded { dry_run: false, .. } => CONFLICT,
        KillOutcome::Free { .. }
        | KillOutcome::Held { .. }
        | KillOutcome::ReleasedMeanwhile { .. }
        | KillOutcome::Freed { .. }
        | KillOutcome::CommandEnded { .. }
        | KillOutcome::SessionEnded { .. }
        | KillOutcome::EndedByAnother { is_known: true, .. }
        | KillOutcome::BeingEnded { dry_run: true, .. } => 0,
    }
}

#[expect(clippy::too_many_lines, reason = "one text for each outcome")]
fn line_of(kill: &Kill, slot: u32, outcome: &KillOutcome) -> String {
    let name = &kill.name;
    let what = format!("slot {slot} of {name}");
    match outcome {
        KillOutcome::Free { server_started } => {
            let what = kill.slot.map_or_else(|| name.to_string(), |_| what);
            let started = server_started.map_or_else(String::new, |span| {
                format!(
                    "; but the server was started {} ago, and a holder from before may come back",
                    in_seconds(span)
                )
            });
            format!("{what} is free: nobody was ended{started}")
        }
        KillOutcome::Held {
            holder,
            needs_right,
        } => {
            let who = identity(holder);
            let row = holder.durable.as_ref();
            let is_over = row.is_some_and(|row| row.expires_in.is_none());
            let over = if is_over { ", but has expired" } else { "" };
            let ended = match row {
                Some(_) if kill.force || is_over || is_of_script(holder) => LOCK_TAKEN,
                None if !is_dblock(holder) => SESSION_ENDED,
                _ => DBLOCK_ENDED,
            };
            let right = needs_right.as_ref().map_or_else(String::new, |account| {
                format!(", if {account} may end sessions of others")
            });
            format!("{what} is held by {who}{over}{WITHOUT_DRY_RUN} {ended}{right}")
        }
        KillOutcome::OfRow(holder) => {
            let who = identity(holder);
            format!(
                "{what} is held by {who}, in a session with other locks, so it can only be ended by its row, which is not in \
                 these tables. If they are the right ones, it was freed just now; else name the others with --database, or on PostgreSQL \
                 with --schema"
            )
        }
        KillOutcome::ReleasedMeanwhile { holder, now } => {
            let (who, now) = (identity(holder), now_held(now.as_ref()));
            format!("{what} was released meanwhile by {who}; {now}")
        }
        KillOutcome::TakenMeanwhile { holder, now } => {
            let (who, now) = (identity(holder), now_held(now.as_ref()));
            format!(
                "{what} was taken from {who} meanwhile: it is not known whether its command has ended; {now}"
            )
        }
        KillOutcome::NotAllowed { holder, grant } => {
            let who = identity(holder);
            match grant {
                Some(grant) => format!(
                    "{what} is held by {who}, of another account, which this one may not end; {grant} would do, \
                     or use the account of the holder"
                ),
                None => format!(
                    "{what} is held by {who}, of a superuser, whose sessions only a superuser may end"
                ),
            }
        }
        KillOutcome::Refused { holder, code } => {
            let who = identity(holder);
            format!("{what} is held by {who}; the server does not end it (error {code})")
        }
        KillOutcome::Freed {
            holder,
            why,
            renewal_in,
            keeps_session,
            now,
        } => {
            let (who, now) = (identity(holder), now_held(now.as_ref()));
            let why = match (why, expires_in(holder)) {
                (Freed::Token, _) => "its token is void".to_owned(),
                (Freed::Forced, Some(left)) if !is_of_script(holder) => format!(
                    "if that host lives, its command may run until its dblock renews the lock, within {}, and until {} \
                     from now if it reaches no server",
                    upwards(*renewal_in),
                    upwards(left)
                ),
                _ if is_of_script(holder) => {
                    "it had expired: it was neither renewed nor released in time".to_owned()
                }
                _ => "it had expired: its host died or lost the server".to_owned(),
            };
            let keeps = if *keeps_session {
                "; its session, which is not ended by that, keeps others out until then"
            } else {
                ""
            };
            format!("{what}: taken from {who}: {why}{keeps}; {now}")
        }
        KillOutcome::CommandEnded { holder, after, now } => {
            let (who, after, now) = (identity(holder), shown(*after), now_held(now.as_ref()));
            format!("{what}: ended {who}; its command has ended, after {after}; {now}")
        }
        KillOutcome::SessionEnded { holder, now } => {
            let (who, now) = (identity(holder), now_held(now.as_ref()));
            format!(
                "{what}: ended the session of {who}: it is not known whether it still works; {now}"
            )
        }
        KillOutcome::CommandEnding { holder, after } => {
            let (who, after) = (identity(holder), shown(*after));
            format!(
                "{what}: ended {who}, but its command has not ended within {after}; nobody gets the slot before it has"
            )
        }
        KillOutcome::NoReport { holder, after, now } => {
            let (who, after, now) = (identity(holder), shown(*after), now_held(now.as_ref()));
            let rest = if is_acquire(holder) {
                "it is a dblock acquire, which runs no command"
            } else {
                "its command may still run, look there"
            };
            format!(
                "{what}: ended the session of {who}, but it did not answer within {after}: {rest}; {now}"
            )
        }
        KillOutcome::Unanswered {
            holder,
            after,
            renewal_in,
        } => {
            let (who, after) = (identity(holder), shown(*after));
            let left = upwards(expires_in(holder).unwrap_or_default());
            format!(
                "{what}: asked {who} to end; no answer after {after}; it sees the request when it next renews the lock, \
                 within {}; without that the lock expires in {left}; if that host is dead, use --force",
                upwards(*renewal_in)
            )
        }
        KillOutcome::EndedByAnother {
            killer,
            is_known,
            now,
        } => {
            let now = now_held(now.as_ref());
            let what = format!("the holder of {what} was being ended by {killer}");
            if *is_known {
                format!("{what}; that is done; {now}")
            } else {
                format!("{what}, and nothing is known of its command; {now}")
            }
        }
        KillOutcome::BeingEnded { killer, dry_run } => {
            let what = format!("the holder of {what} is being ended by {killer}");
            if *dry_run {
                format!("{what}{WITHOUT_DRY_RUN} {WAITED_FOR}")
            } else {
                format!("{what}; nothing was done")
            }
        }
    }
}

/// A span in whole seconds, rounded up.
fn upwards(span: Duration) -> impl std::fmt::Display {
    in_seconds(span + Duration::from_millis(999))
}

/// Describes a holder, with everything that helps to find it.
fn identity(holder: &Victim) -> String {
    let is_token = is_of_script(holder);
    let mut who = match &holder.client {
        Some(client) if client.dblock().is_some() => {
            let claims = client.claims.as_ref();
            let user = claims.and_then(|claims| claims.os_user.as_ref());
            let user = user.map_or_else(String::new, |user| format!(", user {user}"));
            let connection = match client.connection {
                0 => String::new(),
                connection => format!(", connection {connection}"),
            };
            format!("{client}{user}{connection}")
        }
        _ if is_token => "a script".to_owned(),
        Some(client) if holder.is_dblock => format!("a dblock, {client}"),
        Some(client) => format!("{client}, which is no dblock"),
        None => "a dblock".to_owned(),
    };
    let row = holder.durable.as_ref();
    if let Some(owner) = row.and_then(|row| row.owner_name.as_ref()) {
        let _ = write!(who, ", owner {owner}");
    }
    who
}

/// Whether a holder is dblock's, as it says or as its session shows.
fn is_dblock(holder: &Victim) -> bool {
    let client = holder.client.as_ref();
    holder.is_dblock || client.is_some_and(|client| client.dblock().is_some())
}

/// Whether a script holds it, without a command under its grant.
fn is_of_script(holder: &Victim) -> bool {
    let row = holder.durable.as_ref();
    row.is_some_and(|row| row.kind == HolderKind::Token)
}

/// Whether it says that it only acquires a lock for a script.
fn is_acquire(holder: &Victim) -> bool {
    let client = holder.client.as_ref().and_then(Client::dblock);
    client.is_some_and(|(_, claims)| claims.command.as_deref() == Some("dblock acquire"))
}

/// The time until the holder's row expires.
fn expires_in(holder: &Victim) -> Option<Duration> {
    holder.durable.as_ref()?.expires_in
}

fn now_held(now: Option<&Client>) -> String {
    now.map_or_else(
        || "now it is free".to_owned(),
        |holder| match (holder.dblock(), holder.connection) {
            // Neither the history nor a session says who it is.
            (None, 0) => "now it is held by another".to_owned(),
            _ => format!("now it is held by {holder}"),
        },
    )
}
