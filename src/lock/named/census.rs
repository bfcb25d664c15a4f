//! Who holds a lock, who waits for it, and what of that the server does not let this
//! account see. It takes no lock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, SystemTime};

use mysql::Row;
use serde::{Deserialize, Serialize};

use super::inspect::{Inspector, quoted};
use crate::base::text::cut_to_bytes;
use crate::db::{ALL_ATTRIBUTES, Claims, Client, Fault, OWN_ATTRIBUTES, cell, claims};
use crate::lock::{MOST_SLOTS, Name, sign};

/// Bytes of an account and an address at most.
const LONGEST_ACCOUNT: usize = 1024;

/// Of a statement so much is read as names its lock.
const BEGINNING: u32 = 700;

/// Waiters of a lock that are told at most.
const MOST_WAITERS: usize = 10_000;

/// One thing that was found.
#[derive(Debug, Serialize, Deserialize)]
pub enum Found {
    /// The holders and waiters that follow are this lock's.
    Lock(String),
    /// A slot that is held.
    Holding(Box<Holding>),
    /// A slot whose holder is being ended (`dblock kill`), and by whom. Whoever has the slot may be the next one, who waits for
    /// that end.
    Ending(u32, Box<Client>),
    /// One that waits; they come in their order.
    Waiter(Box<Waiter>),
    /// What could not be seen, and what would show it.
    Unseen(String),
}

/// Who has a slot.
#[derive(Debug, Serialize, Deserialize)]
pub struct Holding {
    /// Which slot, from 0.
    pub slot: u32,
    /// Who.
    pub client: Client,
    /// Whether it is a dblock's session, which it proves by a lock of its own.
    pub is_dblock: bool,
    /// For how long the lock is held; `None` if that is not known.
    pub held_for: Option<Duration>,
    /// How long ago the server heard of it; `None` if that cannot be seen, or a statement of it is under way.
    pub heard: Option<Duration>,
}

/// Who waits for a lock.
#[derive(Debug, Serialize, Deserialize)]
pub struct Waiter {
    /// Who.
    pub client: Client,
    /// `None` if that is not known.
    pub waits_for: Option<Duration>,
}

/// A session in the process list.
struct Process {
    seen: String,
    /// How long ago its last statement came to its end, if none is under way.
    heard: Option<Duration>,
    /// For how long a statement of it has waited for a lock, and the lock.
    waits: Option<(Duration, LockOf)>,
}

/// Where the server lists all named locks.
enum Registry {
    /// MySQL's performance schema, which has those who wait as well.
    Whole,
    /// MariaDB's plugin, which has the holders, and for how long.
    Holders,
    /// Nowhere that this account may look.
    None,
}

/// Everything that the server lets this account see.
pub struct Census {
    own: u64,
    is_mariadb: bool,
    /// What sessions say of themselves, by their numbers.
    claims: HashMap<u64, Claims>,
    /// Whether that is those of all accounts.
    claims_of_all: bool,
    processes: HashMap<u64, Process>,
    /// Whether those are the ones of all accounts.
    processes_of_all: bool,
    registry: Registry,
    /// The names of the locks there, with the sessions that have them, and for how long.
    locks: Vec<(u64, String, Option<Duration>)>,
    /// The same of those who wait.
    waits: Vec<(u64, String)>,
}

/// All rows of a statement, `None` where the server refuses it.
fn rows(inspector: &mut Inspector, statement: &str) -> Result<Option<Vec<Row>>, Fault> {
    Ok(inspector.session.inquire_all(statement)?.ok())
}

impl Census {
    /// Reads it.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn read(inspector: &mut Inspector) -> Result<Self, Fault> {
        let about = rows(inspector, "SELECT CONNECTION_ID(), VERSION()")?.unwrap_or_default();
        let about = about.first();
        let own = about.and_then(|row| cell(row, 0)).unwrap_or_default();
        let version: String = about.and_then(|row| cell(row, 1)).unwrap_or_default();
        let all = claims(&mut inspector.session, ALL_ATTRIBUTES, None)?;
        let claims_of_all = all.is_ok();
        let claims = match all {
            Ok(all) => all,
            Err(_) => claims(&mut inspector.session, OWN_ATTRIBUTES, None)?.unwrap_or_default(),
        };
        let mut census = Self {
            own,
            is_mariadb: version.contains("MariaDB"),
            claims,
            claims_of_all,
            processes: processes(inspector)?,
            // Nobody without PROCESS may read that table, on either server.
            processes_of_all: rows(
                inspector,
                "SELECT COUNT(*) FROM information_schema.INNODB_TRX",
            )?
            .is_some(),
            registry: Registry::None,
            locks: Vec::new(),
            waits: Vec::new(),
        };
        census.read_registry(inspector)?;
        Ok(census)
    }

    fn read_registry(&mut self, inspector: &mut Inspector) -> Result<(), Fault> {
        let plugin = "SELECT THREAD_ID, TABLE_SCHEMA, LOCK_TIME_MS FROM information_schema.METADATA_LOCK_INFO \
                      WHERE LOCK_TYPE = 'User lock'";
        if self.is_mariadb
            && let Some(rows) = rows(inspector, plugin)?
        {
            self.registry = Registry::Holders;
            self.locks = rows
                .iter()
                .filter_map(|row| {
                    let age = cell(row, 2).map(Duration::from_millis);
                    Some((cell(row, 0)?, cell(row, 1)?, age))
                })
                .collect();
            return Ok(());
        }
        let schema = "SELECT PROCESSLIST_ID, OBJECT_NAME, LOCK_STATUS FROM performance_schema.metadata_locks \
                      JOIN performance_schema.threads ON THREAD_ID = OWNER_THREAD_ID \
                      WHERE OBJECT_TYPE = 'USER LEVEL LOCK'";
        let is_counted = "SELECT ENABLED FROM performance_schema.setup_instruments \
                          WHERE NAME = 'wait/lock/metadata/sql/mdl'";
        // MariaDB has the table, but counts nothing where it is not told to.
        let is_counted = rows(inspector, is_counted)?.unwrap_or_default();
        let is_counted = is_counted.first().and_then(|row| cell(row, 0));
        if is_counted == Some("YES".to_owned())
            && let Some(rows) = rows(inspector, schema)?
        {
            self.registry = Registry::Whole;
            for row in rows {
                let (Some(id), Some(name)) = (cell(&row, 0), cell(&row, 1)) else {
                    continue;
                };
                match cell::<String>(&row, 2).as_deref() {
                    Some("GRANTED") => self.locks.push((id, name, None)),
                    Some("PENDING") => self.waits.push((id, name)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// The names of dblock's locks, as far as they can be seen: what its sessions say, and what they have and wait for.
    pub fn names(&self) -> Vec<Name> {
        let said = self.claims.values().filter(|claims| claims.is_dblock());
        let said = said.filter_map(|claims| claims.lock.clone());
        let signs: HashSet<u64> = self
            .locks
            .iter()
            .filter(|(id, name, _)| *name == sign(*id))
            .map(|(id, ..)| *id)
            .collect();
        let had = self.locks.iter().filter(|(id, ..)| signs.contains(id));
        let had = had.map(|(_, name, _)| base(name).to_owned());
        let waits = self
            .processes
            .values()
            .filter_map(|process| process.waits.as_ref());
        let waits = waits.filter(|(_, lock)| lock.is_dblocks);
        let waits = waits.map(|(_, lock)| base(&lock.name).to_owned());
        let waits = waits.filter(|_| matches!(self.registry, Registry::None));
        let names: BTreeSet<String> = said.chain(had).chain(waits).collect();
        let mut known = BTreeMap::new();
        for name in names.iter().filter_map(|name| Name::parse(name).ok()) {
            // What is said comes before what is on the server, where a long name is cut.
            let on_server = self.folded(&name.on_server());
            let better = known
                .get(&on_server)
                .is_none_or(|other: &Name| other.to_string().len() < name.to_string().len());
            if better {
                known.insert(on_server, name);
            }
        }
        let mut names: Vec<Name> = known.into_values().collect();
        names.sort_by_key(Name::to_string);
        names
    }

    /// A lock's name as the server compares it: to MySQL capitals are small letters.
    fn folded(&self, name: &str) -> String {
        if self.is_mariadb {
            name.to_owned()
        } else {
            name.to_lowercase()
        }
    }

    /// Whether a lock is one of those of this name: a slot of it, its place at the head, or another of dblock's.
    fn belongs(&self, lock: &str, name: &Name) -> bool {
        self.folded(base(lock)) == self.folded(&name.on_server())
    }

    /// Whether a client says that it was started for a lock.
    fn is_for(&self, claims: &Claims, name: &Name) -> bool {
        let lock = claims.lock.as_ref().map(|lock| self.folded(lock));
        lock.is_some_and(|lock| {
            [name.to_string(), name.on_server()]
                .iter()
                .any(|name| lock == self.folded(name))
        })
    }

    /// Tells who has a lock and who waits for it; the sessions. One that nobody has and nobody waits for is told only if that
    /// was `named`.
    pub fn tell_of(
        &self,
        name: &Name,
        named: bool,
        inspector: &mut Inspector,
        tell: &mut dyn FnMut(Found),
    ) -> Result<Vec<u64>, Fault> {
        let number = self.slots_of(name, named);
        let slots = inspector.owners(number, |slot| name.slot_on_server(slot))?;
        let mut ending = inspector.owners(number, |slot| name.kill_on_server(slot))?;
        for (slot, id) in inspector.owners(number, |slot| name.end_on_server(slot))? {
            if !ending.iter().any(|(marked, _)| *marked == slot) {
                ending.push((slot, id));
            }
        }
        let holders: HashSet<u64> = slots.iter().chain(&ending).map(|(_, id)| *id).collect();
        let head = inspector.owner(&name.place_on_server())?;
        let mut waiters = self.waiters(name, &holders, head);
        waiters.truncate(MOST_WAITERS);
        if slots.is_empty() && ending.is_empty() && waiters.is_empty() && !named {
            return Ok(Vec::new());
        }
        tell(Found::Lock(name.to_string()));
        let mut whose = Vec::new();
        for (slot, id) in slots {
            let client = self.client(id);
            let is_dblock = inspector.owner(&sign(id))? == Some(id);
            let on_server = name.slot_on_server(slot);
            let counted = self
                .locks
                .iter()
                .find(|lock| lock.0 == id && self.folded(&lock.1) == self.folded(&on_server));
            let said = client
                .claims
                .as_ref()
                .filter(|claims| claims.is_dblock() && !claims.waits);
            let held_for = counted
                .and_then(|(.., age)| *age)
                .or_else(|| said.and_then(|claims| Some(age(claims.started?))));
            tell(Found::Holding(Box::new(Holding {
                slot,
                client,
                is_dblock,
                held_for,
                heard: self.processes.get(&id).and_then(|process| process.heard),
            })));
            whose.push(id);
        }
        for (slot, id) in ending {
            tell(Found::Ending(slot, Box::new(self.client(id))));
        }
        for waiter in waiters {
            whose.push(waiter.client.connection);
            tell(Found::Waiter(Box::new(waiter)));
        }
        Ok(whose)
    }

    /// How many slots of a lock are looked at: all that may be, where the lock was `named`; in a list those that its holders and
    /// waiters speak of, and the server's own list has.
    fn slots_of(&self, name: &Name, named: bool) -> u32 {
        if named {
            return MOST_SLOTS;
        }
        let said = self
            .claims
            .values()
            .filter(|claims| self.is_for(claims, name));
        let said = said.map(|claims| claims.slots.unwrap_or(MOST_SLOTS));
        let listed = self
            .locks
            .iter()
            .filter(|(_, lock, _)| self.belongs(lock, name));
        let listed = listed.filter_map(|(_, lock, _)| lock.rsplit_once('#')?.1.parse::<u32>().ok());
        let most = said.chain(listed.map(|slot| slot.saturating_add(1))).max();
        most.unwrap_or(MOST_SLOTS).clamp(1, MOST_SLOTS)
    }

    /// Who waits for a lock, in their order: whoever is at the head of the queue, then who has waited longest.
    fn waiters(&self, name: &Name, holders: &HashSet<u64>, head: Option<u64>) -> Vec<Waiter> {
        let in_list = self.processes.iter().filter_map(|(id, process)| {
            let (span, lock) = process.waits.as_ref()?;
            self.belongs(&lock.name, name).then_some((*id, Some(*span)))
        });
        let counted = self
            .waits
            .iter()
            .filter(|(_, lock)| self.belongs(lock, name));
        let counted = counted.map(|(id, _)| (*id, None));
        // One that is between two statements waits all the same.
        let said = self.claims.iter();
        let said = said
            .filter(|(_, claims)| claims.is_dblock() && claims.waits && self.is_for(claims, name));
        let said = said.map(|(id, _)| (*id, None));
        let mut waits: HashMap<u64, Option<Duration>> = HashMap::new();
        for (id, span) in in_list.chain(counted).chain(said) {
            if !holders.contains(&id) && id != self.own {
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
                // The head begins anew each second.
                let waits_for = started.or(span.filter(|_| head != Some(id)));
                (head != Some(id), span, id, Waiter { client, waits_for })
            })
            .collect();
        waits.sort_by(|one, other| {
            let key = |wait: &(bool, Option<Duration>, u64, Waiter)| {
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
            seen: self.processes.get(&id).map(|process| process.seen.clone()),
            claims: self.claims.get(&id).cloned(),
        }
    }

    /// What could not be seen of the sessions that were told, or of others, and what would show it.
    pub fn unseen(
        &self,
        told: &[u64],
        lists: bool,
        inspector: &mut Inspector,
    ) -> Result<Vec<String>, Fault> {
        let account = rows(inspector, "SELECT CURRENT_USER()")?.unwrap_or_default();
        let account: String = account
            .first()
            .and_then(|row| cell(row, 0))
            .unwrap_or_default();
        let account = quoted(&account);
        // A session says something wherever it can be read: ours does.
        let are_kept = self.claims.contains_key(&self.own);
        let silent = told.iter().filter(|id| !self.claims.contains_key(id));
        let mut unseen = Vec::new();
        if !are_kept && silent.clone().next().is_some() {
            unseen.push(
                "hosts, processes, programs and times: the server keeps no connection attributes; performance_schema=ON in \
                 its configuration shows them"
                    .to_owned(),
            );
        } else if !self.claims_of_all && silent.clone().next().is_some() {
            unseen.push(format!(
                "what sessions of other accounts say of themselves: GRANT SELECT ON \
                 performance_schema.session_connect_attrs TO {account} shows it"
            ));
        }
        if !self.processes_of_all {
            unseen.push(format!(
                "addresses and waiters of other accounts: GRANT PROCESS ON *.* TO {account} shows them"
            ));
        }
        if lists && matches!(self.registry, Registry::None) {
            let how = if self.is_mariadb {
                "INSTALL SONAME 'metadata_lock_info' shows them".to_owned()
            } else {
                format!("GRANT SELECT ON performance_schema.* TO {account} shows them")
            };
            let which = if are_kept {
                "locks of other accounts"
            } else {
                "locks that nobody waits for"
            };
            unseen.push(format!("{which}: {how}; or name them"));
        }
        // Where a process says nothing of itself its address leads to it.
        let address = silent
            .filter_map(|id| self.processes.get(id))
            .find_map(|process| {
                let (_, address) = process.seen.rsplit_once('@')?;
                let (host, port) = address.rsplit_once(':')?;
                let port: u16 = port.parse().ok()?;
                Some((host.to_owned(), port))
            });
        if let Some((host, port)) = address {
            unseen.push(format!(
                "the process of a session: as root on {host}, ss -tnp 'sport = :{port}' shows that of the first"
            ));
        }
        Ok(unseen)
    }
}

/// The process list, as far as this account may see it.
fn processes(inspector: &mut Inspector) -> Result<HashMap<u64, Process>, Fault> {
    let statement = format!(
        "SELECT ID, CONCAT(USER, '@', HOST), COMMAND, STATE, TIME, LEFT(INFO, {BEGINNING}) /*M!100000 , TIME_MS */ \
         FROM information_schema.processlist"
    );
    let all = rows(inspector, &statement)?.unwrap_or_default();
    let process = |row: &Row| {
        let text = |column| cell::<String>(row, column);
        let precise = cell::<f64>(row, 6)
            .and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok());
        let coarse = || cell::<i64>(row, 4).and_then(|time| u64::try_from(time).ok());
        let time = precise.or_else(|| coarse().map(Duration::from_secs));
        let is_idle = text(2).as_deref() == Some("Sleep");
        let waits = text(3).as_deref() == Some("User lock");
        let lock = text(5).and_then(|statement| lock_of(&statement));
        Some((
            cell(row, 0)?,
            Process {
                seen: cut_to_bytes(&text(1)?, LONGEST_ACCOUNT).to_owned(),
                heard: time.filter(|_| is_idle),
                waits: lock
                    .filter(|_| waits)
                    .map(|lock| (time.unwrap_or_default(), lock)),
            },
        ))
    };
    Ok(all.iter().filter_map(process).collect())
}

/// A lock that a statement waits for.
#[derive(Debug, PartialEq)]
struct LockOf {
    /// Its name on the server.
    name: String,
    /// Whether it is written as dblock writes it.
    is_dblocks: bool,
}

/// The first lock in a statement.
fn lock_of(statement: &str) -> Option<LockOf> {
    if let Some((_, literal)) = statement.split_once("_utf8mb4 x'") {
        let digits: Vec<u8> = literal.bytes().take_while(u8::is_ascii_hexdigit).collect();
        let digit = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let bytes = digits
            .chunks_exact(2)
            .map(|pair| Some(16 * digit(pair[0])? + digit(pair[1])?));
        let name = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
        return Some(LockOf {
            name,
            is_dblocks: true,
        });
    }
    let at = statement.to_ascii_lowercase().find("get_lock")?;
    let arguments = statement.get(at + "get_lock".len()..)?.trim_start();
    let argument = arguments.strip_prefix('(')?.trim_start();
    let quote = argument
        .chars()
        .next()
        .filter(|quote| matches!(quote, '\'' | '"'))?;
    let name = argument[1..].split(quote).next()?.to_owned();
    Some(LockOf {
        name,
        is_dblocks: false,
    })
}

/// The name of a lock without the number of a slot or another suffix of dblock's.
fn base(on_server: &str) -> &str {
    on_server.split('#').next().unwrap_or_default()
}

/// How long ago a moment of a client's own clock was; one that is to come was just now.
fn age(moment: SystemTime) -> Duration {
    moment.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{base, lock_of};

    #[test]
    fn the_lock_of_a_statement_is_read_as_dblock_and_as_people_write_it() {
        let read = |statement: &str| lock_of(statement).map(|lock| (lock.name, lock.is_dblocks));
        let dblock = "SELECT CASE GET_LOCK(_utf8mb4 x'6a6f622377616974', 9.000) WHEN 0 THEN -1 END";
        assert_eq!(read(dblock), Some(("job#wait".to_owned(), true)));
        assert_eq!(
            read("select get_lock ( 'job', 5)"),
            Some(("job".to_owned(), false))
        );
        assert_eq!(
            read("DO GET_LOCK(\"a b\", 1)"),
            Some(("a b".to_owned(), false))
        );
        for other in [
            "SELECT 1",
            "SELECT GET_LOCK(@x, 1)",
            "SELECT GET_LOCK",
            "x'zz",
            "_utf8mb4 x'ff",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(base("job#12"), "job");
    }
}
