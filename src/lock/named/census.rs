//! Who holds a lock, who waits for it, and what this account may not see, for `dblock status`. Acquires no lock.

mod items;
mod statements;
mod unseen;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, SystemTime};

use super::inspect::Inspector;
use crate::db::{
    ALL_ATTRIBUTES, Claims, Client, Fault, Kind, OWN_ATTRIBUTES, Session, SessionInfo,
    ask_session_info, ask_sessions, claims,
};
use crate::lock::{HeldRow, Key, MOST_SLOTS, Name, session_marker_lock};
pub use items::{CensusItem, Holding, Reported, Waiter};
use statements::{
    ListedLock, Process, ask_instrument, ask_performance_schema, ask_plugin, ask_process_privilege,
    ask_processes,
};

/// The most waiters of a lock that are reported.
const MOST_WAITERS: usize = 10_000;

/// By how much a session may seem to be idle for longer than it is: MySQL counts whole seconds. The time for which a lock is held may be
/// by another clock, and differ by more.
const COARSE: Duration = Duration::from_secs(1);

/// The server's list of all named locks.
enum Registry {
    /// MySQL's performance schema, with holders and waiters.
    Whole,
    /// MariaDB's plugin, with the holders and the times.
    Holders,
    /// None that this account may read.
    None,
}

/// Everything that the server lets this account see.
pub struct Census {
    kind: Kind,
    info: SessionInfo,
    /// The claims of sessions, by connection id.
    claims: HashMap<u64, Claims>,
    /// Whether these are the claims of all accounts.
    claims_of_all: bool,
    processes: HashMap<u64, Process>,
    /// Whether these are the processes of all accounts.
    processes_of_all: bool,
    registry: Registry,
    /// The locks in the registry, held and waited for.
    locks: Vec<ListedLock>,
}

impl Census {
    /// Reads all of it.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn read(inspector: &mut Inspector) -> Result<Self, Fault> {
        let kind = inspector.session.kind();
        let info = inspector.run(&ask_session_info(kind))?;
        if kind == Kind::Postgres {
            return Self::read_sessions(info, inspector);
        }
        let session = &mut inspector.session;
        let all = claims(session, ALL_ATTRIBUTES, None)?;
        let claims_of_all = all.is_ok();
        let claims = match all {
            Ok(all) => all,
            Err(_) => claims(session, OWN_ATTRIBUTES, None)?.unwrap_or_default(),
        };
        let processes = session.try_run(&ask_processes())?.unwrap_or_default();
        let processes_of_all = session.try_run(&ask_process_privilege())?.is_ok();
        let (registry, locks) = read_registry(session, info.is_mariadb())?;
        Ok(Self {
            kind,
            info,
            claims,
            claims_of_all,
            processes,
            processes_of_all,
            registry,
            locks,
        })
    }

    /// As [`Census::read`], on a server that lists all sessions with what they say of themselves, and all locks by their keys.
    fn read_sessions(info: SessionInfo, inspector: &mut Inspector) -> Result<Self, Fault> {
        let sessions = inspector.run(&ask_sessions(None))?;
        let sees_all = sessions.iter().all(|session| session.is_whole);
        let (mut claims, mut processes) = (HashMap::new(), HashMap::new());
        for session in sessions {
            let Client {
                connection,
                address,
                claims: said,
            } = session.client;
            claims.extend(said.map(|said| (connection, said)));
            let process = Process {
                address: address.unwrap_or_default(),
                idle: session.idle,
                waits: None,
            };
            processes.insert(connection, process);
        }
        Ok(Self {
            kind: Kind::Postgres,
            info,
            claims,
            claims_of_all: sees_all,
            processes,
            processes_of_all: sees_all,
            registry: Registry::Whole,
            locks: Vec::new(),
        })
    }

    /// The names of all visible dblock locks: those of the `rows`, and those that sessions claim, hold or wait for.
    pub fn names(&self, rows: &[HeldRow]) -> Vec<Name> {
        let said = self.claims.values().filter(|claims| claims.is_dblock());
        let said = said.filter_map(claimed);
        let is_marker = |lock: &&ListedLock| lock.name == session_marker_lock(lock.connection);
        let markers = self.listed(true).filter(is_marker);
        let markers: HashSet<u64> = markers.map(|lock| lock.connection).collect();
        let held = self.listed(true);
        let held = held.filter(|lock| markers.contains(&lock.connection));
        let held = held.map(|lock| base(&lock.name));
        let waits = self
            .processes
            .values()
            .filter_map(|process| process.waits.as_ref());
        let waits = waits.filter(|(_, lock)| lock.is_dblocks);
        let waits = waits.map(|(_, lock)| base(&lock.name));
        let waits = waits.filter(|_| matches!(self.registry, Registry::None));
        let listed = held.chain(waits);
        let listed = listed.filter_map(|name| Name::parse(name).ok());
        let mut names: Vec<Name> = said.chain(listed).collect();
        names.sort_by_cached_key(Name::to_string);
        let mut known = BTreeMap::new();
        for name in names {
            // The claimed name is complete; a long name is cut on the server.
            let on_server = self.folded(&name.on_server());
            let better = known
                .get(&on_server)
                .is_none_or(|other: &Name| other.to_string().len() < name.to_string().len());
            if better {
                known.insert(on_server, name);
            }
        }
        // The names of rows differ if any byte differs. A run under a lock that is known by its key is listed there.
        let has_key = |row: &&HeldRow| known.values().any(|name| self.has_key_of(name, row));
        let rows: Vec<&HeldRow> = rows.iter().filter(|row| !has_key(row)).collect();
        let mut names: Vec<Name> = Vec::new();
        for name in rows.iter().filter_map(|row| Name::parse(&row.name).ok()) {
            known.remove(&self.folded(&name.on_server()));
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        names.extend(known.into_values());
        names.sort_by_key(Name::to_string);
        names
    }

    /// What the session of a row's run says of itself.
    fn said(&self, row: &HeldRow) -> Option<&Claims> {
        self.claims.get(&row.session?)
    }

    /// Whether a row's run is under this lock, which is known by its key.
    fn has_key_of(&self, name: &Name, row: &HeldRow) -> bool {
        let said = self.said(row);
        name.key().is_some() && said.is_some() && row.is_of(name, said)
    }

    /// The locks in the registry that are held, or those that are waited for.
    fn listed(&self, held: bool) -> impl Iterator<Item = &ListedLock> {
        self.locks.iter().filter(move |lock| lock.is_held == held)
    }

    /// A lock's name as the server compares it: MySQL ignores the case.
    fn folded(&self, name: &str) -> String {
        if self.kind == Kind::Postgres || self.info.is_mariadb() {
            name.to_owned()
        } else {
            name.to_lowercase()
        }
    }

    /// Whether a lock on the server belongs to this name: as a slot, as the queue's head, or as another lock of dblock's.
    fn belongs(&self, lock: &str, name: &Name) -> bool {
        self.folded(base(lock)) == self.folded(&name.on_server())
    }

    /// Whether a client claims that it was started for a lock.
    fn is_for(&self, claims: &Claims, name: &Name) -> bool {
        if claims.key != name.key().map(|key| key.to_string()) {
            return false;
        }
        let lock = claims.lock.as_ref().map(|lock| self.folded(lock));
        lock.is_some_and(|lock| {
            [name.to_string(), name.on_server()]
                .iter()
                .any(|name| lock == self.folded(name))
        })
    }

    /// Whether a session claims to be a dblock that was started for another lock. What it says may be cut behind the lock's name, so one
    /// that says no key may be for any key.
    fn is_for_another(&self, id: u64, name: &Name) -> bool {
        let claims = self.claims.get(&id).filter(|claims| claims.is_dblock());
        let said = claims.and_then(claimed);
        let said = said.filter(|said| name.key().is_none() || said.key().is_some());
        said.is_some_and(|said| said.on_server() != name.on_server())
    }

    /// Reports who holds a lock and who waits for it. A lock without holder and waiter is reported only if it was `named`. Each of the
    /// `rows` has a holder; then the session that holds the named lock of that slot only waits. If the server's named locks do not
    /// `exclude`, every session that holds one only waits.
    pub fn report_on(
        &self,
        name: &Name,
        named: bool,
        (rows, exclude): (&[HeldRow], bool),
        inspector: &mut Inspector,
        report: &mut dyn FnMut(CensusItem),
    ) -> Result<Reported, Fault> {
        // In a list each row is under one lock. Whoever names a lock sees all that may hold it.
        let is_of = |row: &&HeldRow| {
            let said = self.said(row);
            let is_listed_here = || match name.key() {
                Some(_) => said.is_some(),
                None => said.is_none_or(|said| said.key.is_none()),
            };
            row.is_of(name, said) && (named || is_listed_here())
        };
        let rows: Vec<&HeldRow> = rows.iter().filter(is_of).collect();
        let of_rows = rows.iter().map(|row| row.slot.saturating_add(1)).max();
        let number = self.slots_of(name, named, of_rows);
        let mut slots = inspector.owned_slots(number, |slot| name.slot_on_server(slot))?;
        let mut ending = inspector.owned_slots(number, |slot| name.kill_on_server(slot))?;
        for (slot, id) in inspector.owned_slots(number, |slot| name.termination_on_server(slot))? {
            if !ending.iter().any(|(marked, _)| *marked == slot) {
                ending.push((slot, id));
            }
        }
        let mut holders: HashSet<u64> = rows.iter().filter_map(|row| row.session).collect();
        slots.retain(|(_, id)| !holders.contains(id));
        let is_queue =
            |slot: u32| rows.iter().any(|row| row.slot == slot) || !exclude && !rows.is_empty();
        let (queue, slots): (Vec<_>, Vec<_>) =
            slots.into_iter().partition(|(slot, _)| is_queue(*slot));
        let mut queue: Vec<_> = queue.into_iter().map(|(_, id)| (id, None)).collect();
        queue.extend(inspector.line(name, number, |id| self.is_for_another(id, name))?);
        // The row names the killer; the marker may belong to the same one.
        let is_told = |slot: u32| {
            rows.iter()
                .any(|row| row.slot == slot && row.killer.is_some())
        };
        ending.retain(|(slot, _)| !is_told(*slot));
        holders.extend(slots.iter().chain(&ending).map(|(_, id)| *id));
        let head = inspector.owner(&name.queue_head_on_server())?;
        let mut waiters = self.waiters(name, &holders, (head, &queue));
        waiters.truncate(MOST_WAITERS);
        let mut reported = Reported {
            sessions: Vec::new(),
            has_named: !slots.is_empty() || !ending.is_empty(),
        };
        let is_free = rows.is_empty() && slots.is_empty() && ending.is_empty();
        if is_free && waiters.is_empty() && !named {
            return Ok(reported);
        }
        report(CensusItem::Lock {
            name: name.to_string(),
            key: name.key().map(|key| key.to_string()),
        });
        let mut holdings = Vec::new();
        for row in &rows {
            if row.client.is_none() {
                reported.sessions.extend(row.session);
            }
            holdings.push(self.holding_of_row(row));
        }
        for (slot, id) in slots {
            holdings.push(self.holding(name, slot, id, inspector)?);
            reported.sessions.push(id);
        }
        holdings.sort_by_key(|holding| holding.slot);
        for holding in holdings {
            report(CensusItem::Holding(Box::new(holding)));
        }
        for row in &rows {
            if let Some(killer) = &row.killer {
                report(CensusItem::Ending(row.slot, Box::new(killer.clone())));
            }
        }
        for (slot, id) in ending {
            report(CensusItem::Ending(slot, Box::new(self.client(id))));
        }
        for waiter in waiters {
            reported.sessions.push(waiter.client.connection);
            report(CensusItem::Waiter(Box::new(waiter)));
        }
        Ok(reported)
    }

    /// The holder of a slot's named lock.
    fn holding(
        &self,
        name: &Name,
        slot: u32,
        id: u64,
        inspector: &mut Inspector,
    ) -> Result<Holding, Fault> {
        let client = self.client(id);
        let is_dblock = inspector.owner(&session_marker_lock(id))? == Some(id);
        let on_server = name.slot_on_server(slot);
        let listed = self.listed(true).find(|lock| {
            lock.connection == id && self.folded(&lock.name) == self.folded(&on_server)
        });
        let said = client
            .claims
            .as_ref()
            .filter(|claims| claims.is_dblock() && !claims.waits);
        let held_for = listed
            .and_then(|lock| lock.age)
            .or_else(|| said.and_then(|claims| Some(age(claims.started?))));
        Ok(Holding {
            slot,
            client,
            is_dblock,
            held_for,
            idle: self.idle(id, held_for),
            durable: None,
        })
    }

    /// The holder of a row: the client comes from the history, else from the session.
    fn holding_of_row(&self, row: &HeldRow) -> Holding {
        let seen = row.session.map(|id| self.client(id)).unwrap_or_default();
        let claims = row.client.as_ref().and_then(|client| client.claims.clone());
        let held_for = Some(row.held_for);
        Holding {
            slot: row.slot,
            client: Client {
                claims: claims.or(seen.claims),
                ..seen
            },
            is_dblock: true,
            held_for,
            idle: row.session.and_then(|id| self.idle(id, held_for)),
            durable: Some(row.durable.clone()),
        }
    }

    /// How long this session of a holder has been idle: no longer than the lock is held, which it acquired by a statement.
    fn idle(&self, id: u64, held_for: Option<Duration>) -> Option<Duration> {
        let idle = self.processes.get(&id)?.idle?;
        let held_for = held_for.filter(|held_for| idle.saturating_sub(*held_for) <= COARSE);
        Some(held_for.map_or(idle, |held_for| held_for.min(idle)))
    }

    /// How many slots of a lock to look at. For a `named` lock: the most possible. In a list: as many as its rows, holders and waiters
    /// claim, or the server lists.
    fn slots_of(&self, name: &Name, named: bool, of_rows: Option<u32>) -> u32 {
        if named {
            return MOST_SLOTS;
        }
        let said = self
            .claims
            .values()
            .filter(|claims| self.is_for(claims, name));
        let said = said.map(|claims| claims.slots.unwrap_or(MOST_SLOTS));
        let listed = self.listed(true);
        let listed = listed.filter(|lock| self.belongs(&lock.name, name));
        let listed = listed.filter_map(|lock| lock.name.rsplit_once('#')?.1.parse::<u32>().ok());
        let listed = listed.map(|slot| slot.saturating_add(1));
        let most = said.chain(listed).chain(of_rows).max();
        most.unwrap_or(MOST_SLOTS).clamp(1, MOST_SLOTS)
    }

    /// The waiters of a lock in order: the head of the queue, then those that have waited longest. Those in `queue` are in line, or have left
    /// the server's own queue for the row, and come first.
    fn waiters(
        &self,
        name: &Name,
        holders: &HashSet<u64>,
        (head, queue): (Option<u64>, &[(u64, Option<Duration>)]),
    ) -> Vec<Waiter> {
        let in_list = self.processes.iter().filter_map(|(id, process)| {
            let (span, lock) = process.waits.as_ref()?;
            self.belongs(&lock.name, name).then_some((*id, Some(*span)))
        });
        let listed = self.listed(false);
        let listed = listed.filter(|lock| self.belongs(&lock.name, name));
        let listed = listed.map(|lock| (lock.connection, None));
        // A waiter may be between two statements, so the claims count, too.
        let said = self.claims.iter();
        let said = said
            .filter(|(_, claims)| claims.is_dblock() && claims.waits && self.is_for(claims, name));
        let said = said.map(|(id, _)| (*id, None));
        let mut waits: HashMap<u64, Option<Duration>> = HashMap::new();
        for (id, span) in in_list
            .chain(listed)
            .chain(said)
            .chain(queue.iter().copied())
        {
            if !holders.contains(&id) && id != self.info.connection {
                let known = waits.entry(id).or_default();
                *known = known.or(span);
            }
        }
        let mut waits: Vec<_> = waits
            .into_iter()
            .map(|(id, span)| {
                let client = self.client(id);
                let started = client.claims.as_ref().filter(|claims| claims.is_dblock());
                let started = started.and_then(|claims| claims.started).map(age);
                // The head of the queue starts a new statement each second, so the statement's time is not its wait.
                let waits_for = started.or(span.filter(|_| head != Some(id)));
                let in_line = queue.iter().position(|(other, _)| *other == id);
                let place = match in_line {
                    // A line is in order.
                    Some(place) if self.kind == Kind::Postgres => (0, place),
                    Some(_) => (0, 0),
                    None if head == Some(id) => (1, 0),
                    None => (2, 0),
                };
                (place, span, id, Waiter { client, waits_for })
            })
            .collect();
        waits.sort_by(|one, other| {
            let key = |wait: &((u8, usize), Option<Duration>, u64, Waiter)| {
                (
                    wait.0,
                    std::cmp::Reverse(wait.1.or(wait.3.waits_for)),
                    wait.2,
                )
            };
            key(one).cmp(&key(other))
        });
        waits.into_iter().map(|(.., waiter)| waiter).collect()
    }

    fn client(&self, id: u64) -> Client {
        Client {
            connection: id,
            address: self
                .processes
                .get(&id)
                .map(|process| process.address.clone()),
            claims: self.claims.get(&id).cloned(),
        }
    }
}

/// Reads the server's list of locks, held and waited for.
fn read_registry(
    session: &mut Session,
    is_mariadb: bool,
) -> Result<(Registry, Vec<ListedLock>), Fault> {
    if is_mariadb && let Ok(locks) = session.try_run(&ask_plugin())? {
        return Ok((Registry::Holders, locks));
    }
    if session.try_run(&ask_instrument())? == Ok(true)
        && let Ok(locks) = session.try_run(&ask_performance_schema())?
    {
        return Ok((Registry::Whole, locks));
    }
    Ok((Registry::None, Vec::new()))
}

/// The lock that a client claims that it was started for.
fn claimed(claims: &Claims) -> Option<Name> {
    let name = Name::parse(claims.lock.as_deref()?).ok()?;
    let key = claims.key.as_deref();
    Some(name.with_key(key.and_then(|key| Key::parse(key).ok())))
}

/// The name of a lock without a slot's number or another of dblock's suffixes.
fn base(on_server: &str) -> &str {
    on_server.split('#').next().unwrap_or_default()
}

/// The time since a moment of a client's clock; zero if that clock is ahead of this one.
fn age(moment: SystemTime) -> Duration {
    moment.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::base;

    #[test]
    fn a_lock_belongs_to_the_name_before_its_suffix() {
        assert_eq!(base("job#12"), "job");
    }
}
