//! `dblock status`: who holds a lock, who waits for it, and for how long.

use std::fmt::Write;
use std::rc::Rc;
use std::time::SystemTime;

use nix::unistd::Pid;
use serde_json::{Value, json};

use super::inquiry::ask_server;
use super::{in_columns, print};
use crate::base::exit::{Ending, Failure};
use crate::base::log::Level;
use crate::base::text::{in_seconds, json_printable, moment, printable, seconds};
use crate::db::{Client, Fault};
use crate::history;
use crate::isolated::link::{Link, cut};
use crate::isolated::query::{self, Limits};
use crate::lock::named::{Census, Found, Holding, Reported, Waiter};
use crate::lock::rows::Rows;
use crate::lock::{Durable, HolderKind};
use crate::schema::Tables;
use crate::settings::cli::CommandLine;
use crate::settings::{self, Status};

/// All of it takes at most so many connect time-outs.
const WHOLE: u32 = 3;

/// A lock, and what was found of it.
struct Lock {
    name: String,
    holders: Vec<Holding>,
    /// The slots whose holder is being ended, and by whom.
    ending: Vec<(u32, Client)>,
    waiters: Vec<Waiter>,
}

/// Asks the server, prints the answer, and returns how dblock is to end.
///
/// # Errors
/// What kept the server from being asked.
pub fn status(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (status, log) = settings::status(command_line)?;
    let connect = status.connection.connect_timeout;
    let limits = Limits {
        connect,
        whole: Some(connect.saturating_mul(WHOLE)),
    };
    let mut found = Vec::new();
    let server = query::ask(
        "the status",
        |link, parent| take_census(&status, log.shown, &link, parent),
        limits,
        log,
        |one: Found| found.push(one),
        |_| "what was found last".to_owned(),
    )?;
    let mut locks: Vec<Lock> = Vec::new();
    let mut unseen = Vec::new();
    for one in found {
        match (one, locks.last_mut()) {
            (Found::Lock(name), _) => locks.push(Lock {
                name,
                holders: Vec::new(),
                ending: Vec::new(),
                waiters: Vec::new(),
            }),
            (Found::Holding(holder), Some(lock)) => lock.holders.push(*holder),
            (Found::Ending(slot, client), Some(lock)) => lock.ending.push((slot, *client)),
            (Found::Waiter(waiter), Some(lock)) => lock.waiters.push(*waiter),
            (Found::Unseen(line), _) => unseen.push(line),
            (_, None) => {}
        }
    }
    print(&if status.json {
        as_json(&server, &locks, &unseen)
    } else {
        as_table(&locks, &unseen)
    })?;
    Ok(Ending::Code(0))
}

fn take_census(status: &Status, shown: Level, link: &Rc<Link>, parent: Pid) -> Result<(), Failure> {
    ask_server::<Found>(
        ("dblock status", c"dblock-status"),
        &status.connection,
        shown,
        (Rc::clone(link), parent),
        |asker| {
            let inspector = &mut asker.inspector;
            inspector.warn_of_read_only();
            let tables = Tables::new(&status.connection.database);
            // Tables that cannot be used hide no named lock.
            let (rows, unusable) = match Rows::open(tables, inspector) {
                Ok(rows) => (rows, None),
                Err(Fault::Final(failure)) => (None, Some(failure.line)),
                Err(fault) => return Err(fault),
            };
            let excludes =
                !inspector.is_node && rows.as_ref().is_none_or(|rows| !rows.is_multi_primary);
            let held = rows
                .as_ref()
                .map(|rows| rows.held(&status.names, inspector));
            let (rows, held, unusable) = match held {
                Some(Err(Fault::Final(failure))) => (None, Vec::new(), Some(failure.line)),
                held => (rows, held.transpose()?.unwrap_or_default(), unusable),
            };
            if rows.is_none() {
                inspector.warn_of_node();
            }
            let census = Census::read(inspector)?;
            let lists = status.names.is_empty();
            let names = if lists {
                census.names(&held)
            } else {
                status.names.clone()
            };
            let mut whose = Reported::default();
            let mut report = |found| {
                let _ = link.send(&query::Message::Item(found));
            };
            for name in names {
                let rows = (&held[..], excludes);
                let one = census.report_on(&name, !lists, rows, inspector, &mut report)?;
                whose.sessions.extend(one.sessions);
                whose.has_named |= one.has_named;
            }
            if rows.is_some() && whose.has_named {
                inspector.warn_of_node();
            }
            let unusable = unusable.map(|line| format!("durable locks: {line}"));
            let unseen = census.unseen(&whose.sessions, lists, rows.is_some());
            for line in unusable.into_iter().chain(unseen) {
                report(Found::Unseen(cut(&line)));
            }
            Ok(())
        },
    )
}

/// The titles of the columns that only durable locks have.
const OF_ROWS: [&str; 4] = ["DURABLE", "FENCE", "EXPIRES IN", "OWNER"];

fn as_table(locks: &[Lock], unseen: &[String]) -> String {
    let mut titles = vec![
        "LOCK",
        "SLOT",
        "STATE",
        "FOR",
        "HOST",
        "PID",
        "PROGRAM",
        "USER",
        "IDLE",
        "CONNECTION",
        "ACCOUNT AND ADDRESS",
    ];
    let holders = || locks.iter().flat_map(|lock| &lock.holders);
    if holders().any(|holder| holder.durable.is_some()) {
        titles.extend(OF_ROWS);
    }
    let mut rows = vec![titles.iter().map(|&title| title.to_owned()).collect()];
    for lock in locks {
        if lock.holders.is_empty() && lock.ending.is_empty() {
            let mut free = vec![printable(&lock.name), "-".to_owned(), "free".to_owned()];
            free.resize(titles.len(), "-".to_owned());
            rows.push(free);
        }
        for holder in &lock.holders {
            let expired = holder.durable.as_ref().filter(|row| has_expired(row));
            let state = match expired.map(|row| row.kind) {
                None => "held",
                Some(HolderKind::Token) => history::EXPIRED,
                Some(_) => EXPIRED,
            };
            let idle = holder.idle.map(|span| in_seconds(span).to_string());
            let mut row = row(
                &lock.name,
                holder.slot.to_string(),
                state.to_owned(),
                span_of(holder),
                &holder.client,
                holder.is_dblock,
                idle,
            );
            if is_of_script(holder) {
                "(a script)".clone_into(&mut row[PROGRAM]);
            }
            row.extend(holder.durable.iter().flat_map(cells_of_row));
            row.resize(titles.len(), "-".to_owned());
            rows.push(row);
        }
        for (slot, killer) in &lock.ending {
            let state = format!("its holder is being ended by {killer}");
            let mut row = vec![printable(&lock.name), slot.to_string(), printable(&state)];
            row.resize(titles.len(), "-".to_owned());
            rows.push(row);
        }
        for (place, waiter) in (1..).zip(&lock.waiters) {
            let span = waiter.waits_for.map(|span| in_seconds(span).to_string());
            let is_dblock = waiter.client.dblock().is_some();
            let mut row = row(
                &lock.name,
                "-".to_owned(),
                format!("waits {place}"),
                span,
                &waiter.client,
                is_dblock,
                None,
            );
            row.resize(titles.len(), "-".to_owned());
            rows.push(row);
        }
    }
    let mut table = if locks.is_empty() {
        let nothing = "no lock of dblock's is held or waited for, as far as this account can see";
        format!("{nothing}\n")
    } else {
        in_columns(&rows)
    };
    if holders().next().is_some() {
        let _ = writeln!(table);
        let _ = writeln!(
            table,
            "To end a holder and its command: dblock kill LOCK#SLOT"
        );
    }
    if !unseen.is_empty() {
        let _ = writeln!(table, "\nNOT VISIBLE");
    }
    for line in unseen {
        let _ = writeln!(table, "{}", printable(line));
    }
    table
}

/// The column of the program.
const PROGRAM: usize = 6;

/// Whether a script holds it, of which nothing is known.
fn is_of_script(holder: &Holding) -> bool {
    let is_token = |row: &Durable| row.kind == HolderKind::Token;
    holder.durable.as_ref().is_some_and(is_token) && holder.client.claims.is_none()
}

/// The state of a row whose time is over, and which nobody has released.
const EXPIRED: &str = "expired: its host died or lost the server";

fn has_expired(durable: &Durable) -> bool {
    durable.expires_in.is_none()
}

/// The cells of [`OF_ROWS`].
fn cells_of_row(durable: &Durable) -> [String; 4] {
    let expires_in = durable.expires_in.map(|span| in_seconds(span).to_string());
    let owner = durable.owner_name.as_ref().map(|owner| printable(owner));
    [
        durable.kind.name().to_owned(),
        durable.fence.to_string(),
        expires_in.unwrap_or_else(|| "-".to_owned()),
        owner.unwrap_or_else(|| "-".to_owned()),
    ]
}

/// For how long a slot is held: at most so long where its holder may have waited for it before.
fn span_of(holder: &Holding) -> Option<String> {
    if let Some(span) = holder.held_for {
        return Some(in_seconds(span).to_string());
    }
    let (_, claims) = holder.client.dblock()?;
    let most = claims.started?.elapsed().unwrap_or_default();
    Some(format!("at most {}", in_seconds(most)))
}

fn row(
    lock: &str,
    slot: String,
    state: String,
    span: Option<String>,
    client: &Client,
    is_dblock: bool,
    idle: Option<String>,
) -> Vec<String> {
    let claims = client.claims.as_ref();
    let program = match (claims, is_dblock) {
        (Some(claims), true) if claims.is_dblock() => claims.command.clone(),
        (Some(claims), false) if claims.is_dblock() => {
            let command = claims.command.as_deref().unwrap_or_default();
            Some(format!("{command} (dblock, unproved)"))
        }
        (Some(claims), _) => claims
            .program
            .as_ref()
            .map(|program| format!("{program} (not dblock)")),
        (None, true) => Some("(a dblock)".to_owned()),
        (None, false) if slot == "-" => None,
        (None, false) => Some("(not dblock)".to_owned()),
    };
    let said = |field: fn(&crate::db::Claims) -> Option<String>| claims.and_then(field);
    let cells = [
        Some(lock.to_owned()),
        Some(slot),
        Some(state),
        span,
        said(|claims| claims.host.clone()),
        said(|claims| claims.pid.clone()),
        program,
        said(|claims| claims.os_user.clone()),
        idle,
        connection(client).map(|number| number.to_string()),
        client.address.clone(),
    ];
    cells
        .into_iter()
        .map(|cell| cell.map_or_else(|| "-".to_owned(), |text| printable(&text)))
        .collect()
}

/// The number of a session; `None`: it is not on this server.
fn connection(client: &Client) -> Option<u64> {
    Some(client.connection).filter(|number| *number > 0)
}

fn as_json(server: &str, locks: &[Lock], unseen: &[String]) -> String {
    let locks = locks.iter().map(|lock| {
        let holders = lock.holders.iter().map(|holder| {
            let mut one = client(&holder.client);
            one["slot"] = json!(holder.slot);
            one["dblock"] = json!(holder.is_dblock);
            let since = holder
                .held_for
                .and_then(|span| SystemTime::now().checked_sub(span));
            one["since"] = json!(since.map(moment));
            one["held_seconds"] = json!(holder.held_for.map(seconds));
            one["idle_seconds"] = json!(holder.idle.map(seconds));
            let durable = holder.durable.as_ref();
            one["durable"] = json!(durable.is_some());
            one["kind"] = json!(durable.map(|row| row.kind.name()));
            one["fence"] = json!(durable.map(|row| row.fence));
            one["owner"] = json!(durable.and_then(|row| row.owner_name.as_ref()));
            one["expires_in_seconds"] = json!(durable.and_then(|row| row.expires_in).map(seconds));
            one["expired"] = json!(durable.is_some_and(has_expired));
            one
        });
        let waiters = lock.waiters.iter().map(|waiter| {
            let mut one = client(&waiter.client);
            one["waited_seconds"] = json!(waiter.waits_for.map(seconds));
            one
        });
        let ending = lock.ending.iter().map(|(slot, who)| {
            let mut one = client(who);
            one["slot"] = json!(slot);
            one
        });
        json!({
            "name": lock.name,
            "killed_by": ending.collect::<Vec<_>>(),
            "holders": holders.collect::<Vec<_>>(),
            "waiters": waiters.collect::<Vec<_>>(),
        })
    });
    let whole = json!({
        "server": server,
        "locks": locks.collect::<Vec<_>>(),
        "not_visible": unseen,
    });
    format!("{}\n", json_printable(&format!("{whole:#}")))
}

fn client(client: &Client) -> Value {
    let claims = client.claims.clone().unwrap_or_default();
    json!({
        "connection": connection(client),
        "address": client.address,
        "client": claims.program,
        "host": claims.host,
        "pid": claims.pid.as_ref().and_then(|pid| pid.parse::<u64>().ok()),
        "program": claims.command,
        "user": claims.os_user,
        "started": claims.started.map(moment),
    })
}
