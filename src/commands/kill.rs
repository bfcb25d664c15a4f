//! `dblock kill`: ends the holder of a lock, with its command, so that its slot becomes free. The protocols are in `lock/named/kill.rs` and
//! `lock/rows/kill.rs`; this file has the texts.

use std::fmt::Write;
use std::time::Duration;

use nix::unistd::getpid;

use super::output::print_done;
use super::question::{Asker, Question};
use crate::base::exit::{CONFLICT, Ending, Reason};
use crate::base::text::{in_seconds, shown};
use crate::db::{Client, Fault};
use crate::history::{Deed, recorder_of_token_ends};
use crate::lock::named::{KillOutcome, Killed, Killing, Victim};
use crate::lock::rows::{Ended, Freed, RowKilling, RowOutcome, RowVictim};
use crate::lock::{HolderKind, Wait, own_host};
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
    let (code, line) = match question.ask_one(|asker| end_holder(&kill, connect, by, asker))? {
        Ended::Named(killed) => in_words(&kill, &killed),
        Ended::Row { slot, outcome } => row_in_words(&kill, slot, &outcome),
    };
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
    asker: &mut Asker<Ended>,
) -> Result<Ended, Fault> {
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
    let ended = killing.end()?;
    if let Some((slot, holder)) = ended_holder(&ended) {
        let object = match (slot, kill.slot) {
            (0, None) => kill.name.to_string(),
            (slot, _) => format!("{}#{slot}", kill.name),
        };
        asker.record_later(Deed {
            action: if kill.force { "kill --force" } else { "kill" },
            object,
            detail: Some(holder),
        });
    }
    Ok(ended)
}

/// The holder that was ended, or asked to end, and its slot; `None`: nobody was.
fn ended_holder(ended: &Ended) -> Option<(u32, String)> {
    match ended {
        Ended::Named(Killed::Slot { slot, outcome }) => match &**outcome {
            KillOutcome::CommandEnded { holder, .. }
            | KillOutcome::SessionEnded { holder, .. }
            | KillOutcome::CommandEnding { holder, .. }
            | KillOutcome::NoReport { holder, .. } => Some((*slot, identity(holder))),
            _ => None,
        },
        Ended::Row { slot, outcome } => match &**outcome {
            RowOutcome::Freed { holder, .. }
            | RowOutcome::CommandEnded { holder, .. }
            | RowOutcome::CommandEnding { holder, .. }
            | RowOutcome::Unanswered { holder, .. } => Some((*slot, row_identity(holder))),
            _ => None,
        },
        Ended::Named(Killed::SeveralHolders(_)) => None,
    }
}

/// The exit code, and the line that is printed.
fn in_words(kill: &Kill, killed: &Killed) -> (u8, String) {
    match killed {
        Killed::SeveralHolders(slots) => {
            let slots = slots.iter().map(|slot| format!("{}#{slot}", kill.name));
            let slots = slots.collect::<Vec<_>>().join(", ");
            let line = format!("{} has several holders; say which one: {slots}", kill.name);
            (Reason::Usage.code(), line)
        }
        Killed::Slot { slot, outcome } => outcome_in_words(kill, *slot, outcome),
    }
}

fn outcome_in_words(kill: &Kill, slot: u32, outcome: &KillOutcome) -> (u8, String) {
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
            (0, format!("{what} is free: nobody was ended{started}"))
        }
        KillOutcome::Held(holder) => {
            let (who, is_dblock) = (identity(holder), is_dblock(holder));
            let ended = if is_dblock {
                DBLOCK_ENDED
            } else {
                SESSION_ENDED
            };
            (
                0,
                format!("{what} is held by {who}{WITHOUT_DRY_RUN} {ended}"),
            )
        }
        KillOutcome::ReleasedMeanwhile { holder, now } => {
            let now = now_held(now.as_ref());
            (
                0,
                format!("{what} was released meanwhile by {holder}; {now}"),
            )
        }
        KillOutcome::NotAllowed { holder, grant } => {
            let who = identity(holder);
            let line = match grant {
                Some(grant) => format!(
                    "{what} is held by {who}, of another account, which this one may not end; {grant} would do, \
                     or use the account of the holder"
                ),
                None => format!(
                    "{what} is held by {who}, of a superuser, whose sessions only a superuser may end"
                ),
            };
            (Reason::AccountRefused.code(), line)
        }
        KillOutcome::Refused { holder, code } => {
            let who = identity(holder);
            let line =
                format!("{what} is held by {who}; the server does not end it (error {code})");
            (Reason::Internal.code(), line)
        }
        KillOutcome::CommandEnded { holder, after, now } => {
            let (who, after, now) = (identity(holder), shown(*after), now_held(now.as_ref()));
            let line = format!("{what}: ended {who}; its command has ended, after {after}; {now}");
            (0, line)
        }
        KillOutcome::SessionEnded { holder, now } => {
            let (who, now) = (identity(holder), now_held(now.as_ref()));
            let line = format!(
                "{what}: ended the session of {who}: it is not known whether it still works; {now}"
            );
            (0, line)
        }
        KillOutcome::CommandEnding { holder, after } => {
            let (who, after) = (identity(holder), shown(*after));
            let line = format!(
                "{what}: ended {who}, but its command has not ended within {after}; nobody gets the slot before it has"
            );
            (CONFLICT, line)
        }
        KillOutcome::NoReport { holder, after, now } => {
            let (who, after, now) = (identity(holder), shown(*after), now_held(now.as_ref()));
            let line = format!(
                "{what}: ended the session of {who}, but it did not answer within {after}: its command may still run, \
                 look there; {now}"
            );
            (CONFLICT, line)
        }
        KillOutcome::EndedByAnother {
            killer,
            is_known,
            now,
        } => {
            let now = now_held(now.as_ref());
            let what = format!("the holder of {what} was being ended by {killer}");
            if *is_known {
                (0, format!("{what}; that is done; {now}"))
            } else {
                let line = format!("{what}, and nothing is known of its command; {now}");
                (CONFLICT, line)
            }
        }
        KillOutcome::BeingEnded { killer, dry_run } => {
            let what = format!("the holder of {what} is being ended by {killer}");
            if *dry_run {
                (0, format!("{what}{WITHOUT_DRY_RUN} {WAITED_FOR}"))
            } else {
                (CONFLICT, format!("{what}; nothing was done"))
            }
        }
    }
}

fn row_in_words(kill: &Kill, slot: u32, outcome: &RowOutcome) -> (u8, String) {
    let what = format!("slot {slot} of {}", kill.name);
    match outcome {
        RowOutcome::Held(holder) => {
            let who = row_identity(holder);
            let is_over = holder.durable.expires_in.is_none();
            let over = if is_over { ", but has expired" } else { "" };
            let is_token = holder.durable.kind == HolderKind::Token;
            let ended = if kill.force || is_over || is_token {
                LOCK_TAKEN
            } else {
                DBLOCK_ENDED
            };
            let line = format!("{what} is held by {who}{over}{WITHOUT_DRY_RUN} {ended}");
            (0, line)
        }
        RowOutcome::BeingEnded { killer } => {
            let what = format!("the holder of {what} is being ended by {killer}");
            (0, format!("{what}{WITHOUT_DRY_RUN} {WAITED_FOR}"))
        }
        RowOutcome::ReleasedMeanwhile { holder, now } => {
            let (who, now) = (row_identity(holder), now_held(now.as_ref()));
            (0, format!("{what} was released meanwhile by {who}; {now}"))
        }
        RowOutcome::TakenMeanwhile { holder, now } => {
            let (who, now) = (row_identity(holder), now_held(now.as_ref()));
            let line = format!(
                "{what} was taken from {who} meanwhile: it is not known whether its command has ended; {now}"
            );
            (CONFLICT, line)
        }
        RowOutcome::Freed {
            holder,
            why,
            renewal_in,
            keeps_session,
            now,
        } => {
            let (who, now) = (row_identity(holder), now_held(now.as_ref()));
            let why = match (why, holder.durable.expires_in) {
                (Freed::Token, _) => "its token is void".to_owned(),
                (Freed::Forced, Some(left)) if holder.durable.kind != HolderKind::Token => format!(
                    "if that host lives, its command may run until its dblock renews the lock, within {}, and until {} \
                     from now if it reaches no server",
                    upwards(*renewal_in),
                    upwards(left)
                ),
                _ if holder.durable.kind == HolderKind::Token => {
                    "it had expired: it was neither renewed nor released in time".to_owned()
                }
                _ => "it had expired: its host died or lost the server".to_owned(),
            };
            let keeps = if *keeps_session {
                "; its session, which this account may not end, keeps others out until then"
            } else {
                ""
            };
            (0, format!("{what}: taken from {who}: {why}{keeps}; {now}"))
        }
        RowOutcome::CommandEnded { holder, after, now } => {
            let (who, after, now) = (row_identity(holder), shown(*after), now_held(now.as_ref()));
            let line = format!("{what}: ended {who}; its command has ended, after {after}; {now}");
            (0, line)
        }
        RowOutcome::CommandEnding { holder, after } => {
            let (who, after) = (row_identity(holder), shown(*after));
            let line = format!(
                "{what}: ended {who}, but its command has not ended within {after}; nobody gets the slot before it has"
            );
            (CONFLICT, line)
        }
        RowOutcome::Unanswered {
            holder,
            after,
            renewal_in,
        } => {
            let (who, after) = (row_identity(holder), shown(*after));
            let left = upwards(holder.durable.expires_in.unwrap_or_default());
            let line = format!(
                "{what}: asked {who} to end; no answer after {after}; it sees the request when it next renews the lock, \
                 within {}; without that the lock expires in {left}; if that host is dead, use --force",
                upwards(*renewal_in)
            );
            (CONFLICT, line)
        }
    }
}

/// A span in whole seconds, rounded up.
fn upwards(span: Duration) -> impl std::fmt::Display {
    in_seconds(span + Duration::from_millis(999))
}

/// Describes the holder of a row, with everything that helps to find it.
fn row_identity(holder: &RowVictim) -> String {
    let is_token = holder.durable.kind == HolderKind::Token;
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
        Some(client) if !is_token => format!("a dblock, {client}"),
        _ if is_token => "a script".to_owned(),
        _ => "a dblock".to_owned(),
    };
    if let Some(owner) = &holder.durable.owner_name {
        let _ = write!(who, ", owner {owner}");
    }
    who
}

/// Describes a holder, with everything that helps to find it.
fn identity(holder: &Victim) -> String {
    let client = &holder.client;
    match (client.dblock(), holder.is_dblock) {
        (Some((_, claims)), _) => {
            let user = claims.os_user.as_ref();
            let user = user.map_or_else(String::new, |user| format!(", user {user}"));
            format!("{client}{user}, connection {}", client.connection)
        }
        (None, true) => format!("a dblock, {client}"),
        (None, false) => format!("{client}, which is no dblock"),
    }
}

/// Whether a holder is dblock's, as it says or as its session shows.
fn is_dblock(holder: &Victim) -> bool {
    holder.is_dblock || holder.client.dblock().is_some()
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
