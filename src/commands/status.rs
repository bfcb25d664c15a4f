//! `dblock status`: who holds a lock, who waits for it, and for how long.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::output::print_answer;
use super::question::{Asker, Question};
use super::table::{Table, Tone};
use super::watch::{Watched, watch};
use crate::base::exit::Ending;
use crate::base::list::omit;
use crate::base::text::{in_seconds, moment, printable, seconds};
use crate::db::{Claims, Client, Fault};
use crate::history;
use crate::isolated::link::cut;
use crate::lock::named::{Census, CensusItem, Holding, Inspector, Reported, Waiter};
use crate::lock::rows::Rows;
use crate::lock::{Durable, HolderKind, Name};
use crate::schema::Tables;
use crate::settings::cli::CommandLine;
use crate::settings::{self, Color};

/// The findings about a lock.
pub struct Lock {
    pub name: String,
    /// That of `run --key`; `None`: the name says it.
    pub key: Option<String>,
    pub holders: Vec<Holding>,
    /// The slots with a holder that is being killed, and the killers.
    ending: Vec<(u32, Client)>,
    pub waiters: Vec<Waiter>,
}

/// The findings about all locks.
#[derive(Default)]
pub struct Locks {
    pub locks: Vec<Lock>,
    unseen: Vec<String>,
}

impl Watched for Locks {
    type Item = CensusItem;

    fn add(&mut self, found: CensusItem) {
        match (found, self.locks.last_mut()) {
            (CensusItem::Lock { name, key }, _) => self.locks.push(Lock {
                name,
                key,
                holders: Vec::new(),
                ending: Vec::new(),
                waiters: Vec::new(),
            }),
            (CensusItem::Holding(holder), Some(lock)) => lock.holders.push(*holder),
            (CensusItem::Ending(slot, client), Some(lock)) => lock.ending.push((slot, *client)),
            (CensusItem::Waiter(waiter), Some(lock)) => lock.waiters.push(*waiter),
            (CensusItem::Unseen(line), _) => self.unseen.push(line),
            (_, None) => {}
        }
    }

    fn as_table(&self, color: Color) -> String {
        as_table(&self.locks, &self.unseen, color)
    }
}

/// Asks the server, prints the answer, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked.
pub fn status(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (names, common) = settings::status(command_line)?;
    let question = Question::about_locks("dblock status", "the status", &common);
    let work = |asker: &mut Asker<CensusItem>| {
        let (tables, inspector) = (&asker.tables, &mut asker.inspector);
        let report = &mut |found| asker.answers.send(found);
        take_census(names.clone(), None, tables, inspector, report).map(|_| ())
    };
    if let Some(every) = common.watch {
        return Ok(watch::<Locks>(&question, every, work)?);
    }
    let mut found = Locks::default();
    let server = question.ask(work, |one| found.add(one))?;
    print_answer(
        common.json,
        || StatusJson {
            server: &server,
            locks: found.locks.iter().map(lock_json).collect(),
            not_visible: &found.unseen,
        },
        || found.as_table(common.color),
    )?;
    Ok(Ending::Code(0))
}

/// Reports these locks, or at most `limit` of all that are visible. Returns how many of these are left out.
///
/// # Errors
/// Those of a statement.
pub fn take_census(
    names: Vec<Name>,
    limit: Option<usize>,
    tables: &Tables,
    inspector: &mut Inspector,
    report: &mut dyn FnMut(CensusItem),
) -> Result<usize, Fault> {
    inspector.warn_of_read_only();
    // If the tables cannot be used, named locks are still shown.
    let (rows, unusable) = match Rows::open(tables.clone(), inspector) {
        Ok(rows) => (rows, None),
        Err(Fault::Final(failure)) => (None, Some(failure.line)),
        Err(fault) => return Err(fault),
    };
    let excludes = !inspector.is_node && rows.as_ref().is_none_or(|rows| !rows.is_multi_primary);
    let held = rows.as_ref().map(|rows| rows.held(&names, inspector));
    let (rows, held, unusable) = match held {
        Some(Err(Fault::Final(failure))) => (None, Vec::new(), Some(failure.line)),
        held => (rows, held.transpose()?.unwrap_or_default(), unusable),
    };
    if rows.is_none() {
        inspector.warn_of_node();
    }
    let census = Census::read(inspector)?;
    let lists = names.is_empty();
    let mut names = if lists { census.names(&held) } else { names };
    let omitted = omit(&mut names, limit);
    let mut whose = Reported::default();
    for name in names {
        let rows = (&held[..], excludes);
        let one = census.report_on(&name, !lists, rows, inspector, report)?;
        whose.sessions.extend(one.sessions);
        whose.has_named |= one.has_named;
    }
    if rows.is_some() && whose.has_named {
        inspector.warn_of_node();
    }
    let unusable = unusable.map(|line| format!("durable locks: {line}"));
    let unseen = census.unseen(&whose.sessions, lists, rows.is_some());
    for line in unusable.into_iter().chain(unseen) {
        report(CensusItem::Unseen(cut(&line)));
    }
    Ok(omitted)
}

/// The titles of the columns for durable locks.
const OF_ROWS: [&str; 4] = ["DURABLE", "FENCE", "EXPIRES IN", "OWNER"];

fn as_table(locks: &[Lock], unseen: &[String], color: Color) -> String {
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
    let mut rows = Table::new(
        &titles,
        &["STATE", "HOST", "PROGRAM", "ACCOUNT AND ADDRESS", "OWNER"],
    );
    for lock in locks {
        let name = || Some(lock.name.clone());
        if lock.holders.is_empty() && lock.ending.is_empty() {
            rows.row([name(), None, Some("free".to_owned())]);
        }
        for holder in &lock.holders {
            let slot = Some(holder.slot.to_string());
            let state = Some(state_of(holder).to_owned());
            let program = match program(&holder.client, holder.is_dblock) {
                _ if is_of_script(holder) => Some("(a script)".to_owned()),
                None if holder.client.claims.is_none() => Some("(not dblock)".to_owned()),
                program => program,
            };
            let what = [name(), slot, state, span_of(holder)];
            let cells = cells(what, &holder.client, program, holder.idle);
            let of_row = holder.durable.iter().flat_map(cells_of_row);
            rows.row(cells.into_iter().chain(of_row));
            let is_expired = holder.durable.as_ref().is_some_and(has_expired);
            rows.tone("STATE", is_expired.then_some(Tone::Bad));
        }
        for (slot, killer) in &lock.ending {
            let state = format!("its holder is being ended by {killer}");
            rows.row([name(), Some(slot.to_string()), Some(state)]);
        }
        for (place, waiter) in (1..).zip(&lock.waiters) {
            let span = waiter.waits_for.map(|span| in_seconds(span).to_string());
            let what = [name(), None, Some(format!("waits {place}")), span];
            let program = program(&waiter.client, waiter.client.dblock().is_some());
            rows.row(cells(what, &waiter.client, program, None));
        }
    }
    let mut table = if locks.is_empty() {
        let nothing = "no lock of dblock's is held or waited for, as far as this account can see";
        format!("{nothing}\n")
    } else {
        rows.in_color(color)
    };
    if holders().next().is_some() {
        let _ = writeln!(table);
        let _ = writeln!(
            table,
            "To end a holder and its command: dblock kill LOCK#SLOT"
        );
        for lock in locks.iter().filter(|lock| !lock.holders.is_empty()) {
            if let Some(key) = &lock.key {
                let name = printable(&lock.name);
                let _ = writeln!(
                    table,
                    "For {name}, which has the key {key}: dblock kill --key={key} LOCK"
                );
            }
        }
    }
    if !unseen.is_empty() {
        let _ = writeln!(table, "\nNOT VISIBLE");
    }
    for line in unseen {
        let _ = writeln!(table, "{}", printable(line));
    }
    table
}

/// Whether a script holds it, without any known details.
fn is_of_script(holder: &Holding) -> bool {
    let is_token = |row: &Durable| row.kind == HolderKind::Token;
    holder.durable.as_ref().is_some_and(is_token) && holder.client.claims.is_none()
}

/// The state of a row that has expired without a release.
const EXPIRED: &str = "expired: its host died or lost the server";

fn state_of(holder: &Holding) -> &'static str {
    let expired = holder.durable.as_ref().filter(|row| has_expired(row));
    match expired.map(|row| row.kind) {
        None => "held",
        Some(HolderKind::Token) => history::EXPIRED,
        Some(_) => EXPIRED,
    }
}

/// Whether a row has expired without a release.
pub fn has_expired(durable: &Durable) -> bool {
    durable.expires_in.is_none()
}

/// The cells of [`OF_ROWS`].
fn cells_of_row(durable: &Durable) -> [Option<String>; 4] {
    [
        Some(durable.kind.name().to_owned()),
        Some(durable.fence.to_string()),
        durable.expires_in.map(|span| in_seconds(span).to_string()),
        durable.owner_name.clone(),
    ]
}

/// How long a slot has been held. If the holder may have waited before, this is an upper bound.
fn span_of(holder: &Holding) -> Option<String> {
    if let Some(span) = holder.held_for {
        return Some(in_seconds(span).to_string());
    }
    let (_, claims) = holder.client.dblock()?;
    let most = claims.started?.elapsed().unwrap_or_default();
    Some(format!("at most {}", in_seconds(most)))
}

/// The program of a session, as it says; `None`: it does not say.
fn program(client: &Client, is_dblock: bool) -> Option<String> {
    match (&client.claims, is_dblock) {
        (Some(claims), true) if claims.is_dblock() => claims.command.clone(),
        (Some(claims), false) if claims.is_dblock() => {
            let command = claims.command.as_deref().unwrap_or_default();
            Some(format!("{command} (dblock, unproved)"))
        }
        (Some(claims), _) => {
            let program = claims.program.as_ref();
            program.map(|program| format!("{program} (not dblock)"))
        }
        (None, true) => Some("(a dblock)".to_owned()),
        (None, false) => None,
    }
}

/// A row: lock, slot, state and span, and then what is known of the session.
fn cells(
    [lock, slot, state, span]: [Option<String>; 4],
    client: &Client,
    program: Option<String>,
    idle: Option<Duration>,
) -> [Option<String>; 11] {
    let claims = client.claims.as_ref();
    let said =
        |field: fn(&Claims) -> &Option<String>| claims.and_then(|claims| field(claims).clone());
    [
        lock,
        slot,
        state,
        span,
        said(|claims| &claims.host),
        said(|claims| &claims.pid),
        program,
        said(|claims| &claims.os_user),
        idle.map(|span| in_seconds(span).to_string()),
        connection(client).map(|number| number.to_string()),
        client.address.clone(),
    ]
}

/// The connection id of a session; `None`: it is not on this server.
fn connection(client: &Client) -> Option<u64> {
    Some(client.connection).filter(|number| *number > 0)
}

/// What `--json` prints, as `docs/status.schema.json` says.
#[derive(Serialize)]
struct StatusJson<'a> {
    server: &'a str,
    locks: Vec<LockJson<'a>>,
    not_visible: &'a [String],
}

/// A lock, for programs.
#[derive(Serialize)]
struct LockJson<'a> {
    name: &'a str,
    key: Option<&'a str>,
    killed_by: Vec<KillerJson<'a>>,
    holders: Vec<HolderJson<'a>>,
    waiters: Vec<WaiterJson<'a>>,
}

/// Who kills the holder of a slot.
#[derive(Serialize)]
struct KillerJson<'a> {
    #[serde(flatten)]
    client: ClientJson<'a>,
    slot: u32,
}

#[derive(Serialize)]
struct HolderJson<'a> {
    #[serde(flatten)]
    client: ClientJson<'a>,
    slot: u32,
    dblock: bool,
    since: Option<String>,
    held_seconds: Option<f64>,
    idle_seconds: Option<f64>,
    durable: bool,
    kind: Option<&'static str>,
    fence: Option<u64>,
    owner: Option<&'a str>,
    expires_in_seconds: Option<f64>,
    expired: bool,
}

#[derive(Serialize)]
struct WaiterJson<'a> {
    #[serde(flatten)]
    client: ClientJson<'a>,
    waited_seconds: Option<f64>,
}

/// What is known of a session.
#[derive(Default, Serialize)]
struct ClientJson<'a> {
    connection: Option<u64>,
    address: Option<&'a str>,
    client: Option<&'a str>,
    host: Option<&'a str>,
    pid: Option<u64>,
    program: Option<&'a str>,
    user: Option<&'a str>,
    started: Option<String>,
}

fn lock_json(lock: &Lock) -> LockJson<'_> {
    let ending = lock.ending.iter().map(|(slot, killer)| KillerJson {
        client: client_json(killer),
        slot: *slot,
    });
    let waiters = lock.waiters.iter().map(|waiter| WaiterJson {
        client: client_json(&waiter.client),
        waited_seconds: waiter.waits_for.map(seconds),
    });
    LockJson {
        name: &lock.name,
        key: lock.key.as_deref(),
        killed_by: ending.collect(),
        holders: lock.holders.iter().map(holder_json).collect(),
        waiters: waiters.collect(),
    }
}

fn holder_json(holder: &Holding) -> HolderJson<'_> {
    let since = holder
        .held_for
        .and_then(|span| SystemTime::now().checked_sub(span));
    let durable = holder.durable.as_ref();
    HolderJson {
        client: client_json(&holder.client),
        slot: holder.slot,
        dblock: holder.is_dblock,
        since: since.map(moment),
        held_seconds: holder.held_for.map(seconds),
        idle_seconds: holder.idle.map(seconds),
        durable: durable.is_some(),
        kind: durable.map(|row| row.kind.name()),
        fence: durable.map(|row| row.fence),
        owner: durable.and_then(|row| row.owner_name.as_deref()),
        expires_in_seconds: durable.and_then(|row| row.expires_in).map(seconds),
        expired: durable.is_some_and(has_expired),
    }
}

fn client_json(client: &Client) -> ClientJson<'_> {
    let seen = ClientJson {
        connection: connection(client),
        address: client.address.as_deref(),
        ..ClientJson::default()
    };
    let Some(claims) = &client.claims else {
        return seen;
    };
    ClientJson {
        client: claims.program.as_deref(),
        host: claims.host.as_deref(),
        pid: claims.pid.as_ref().and_then(|pid| pid.parse().ok()),
        program: claims.command.as_deref(),
        user: claims.os_user.as_deref(),
        started: claims.started.map(moment),
        ..seen
    }
}
