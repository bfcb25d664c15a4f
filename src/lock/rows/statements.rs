//! The statements on the table of durable locks. Each write is followed, in the same packet, by a look at the rows: what that shows
//! counts, and not how many rows the write says that it changed. Rows are found by their primary key alone.

use std::time::Duration;

use super::change::Change;
use super::state::{COLUMNS, HOLDER, SlotState};
use crate::db::{Batch, Fault, Plain, Row, Statement, first_value, text_literal};
use crate::lock::{HolderKind, Name};
use crate::schema::{AskVersion, PREPARE, Tables, Version};

/// Writes the statements of one owner of one lock.
pub struct Statements {
    tables: Tables,
    /// Literals.
    name: String,
    owner: String,
    slots: u32,
}

/// What a write says of the grant that it is about.
pub struct Terms<'a> {
    /// What is to hold it.
    pub kind: HolderKind,
    /// The run whose command is to be under a script's grant, of [`HolderKind::TokenRun`].
    pub command_run: Option<&'a str>,
    /// What `acquire --owner` says: whoever says the same takes the lock over.
    pub owner_name: Option<&'a str>,
    /// For how long it is held from now on; `None`: for as long as its row says, and a grant not at all.
    pub ttl: Option<Duration>,
    /// Other statements, which are carried out in the same transaction.
    pub also: &'a [String],
}

/// Which row is taken from its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// One whose time is over.
    Expired,
    /// One that a script holds, without a command under it.
    Token,
    /// Any.
    Always,
}

impl Statements {
    /// For the first so many slots of the lock `name`, and this owner, 32 hex digits.
    pub fn new(tables: &Tables, name: &Name, slots: u32, owner: &str) -> Self {
        Self {
            tables: tables.clone(),
            name: text_literal(&name.to_string()),
            owner: text_literal(owner),
            slots,
        }
    }

    fn place(&self, slot: u32) -> String {
        format!("name = {} AND slot = {slot}", self.name)
    }

    fn look_sql(&self, what: &str, slots: &str) -> String {
        format!(
            "/* dblock {what} */ SELECT {COLUMNS} FROM {} l LEFT JOIN {} r ON {HOLDER} WHERE l.name = {} AND {slots}",
            self.tables.locks(),
            self.tables.runs(),
            self.name
        )
    }

    /// Looks at all slots.
    pub fn look(&self) -> Look {
        Look(self.look_sql("look at rows", &format!("l.slot < {}", self.slots)))
    }

    /// A write, and a look at what it has done: at the row of a grant, and at all slots where a grant is sought.
    pub fn write(&self, change: Change, write_id: u64, terms: &Terms) -> Write {
        match change {
            Change::Create { slot } => {
                let insert = format!(
                    "/* dblock create row */ INSERT IGNORE INTO {} (name, slot) VALUES ({}, {slot})",
                    self.tables.locks(),
                    self.name
                );
                Write::before_look(vec![insert], self.look())
            }
            Change::Take { slot } => self.take(slot, "owner IS NULL", write_id, terms),
            Change::TakeOver { slot, fence } => {
                self.take(slot, &format!("fence = {fence}"), write_id, terms)
            }
            Change::TakeExpired { slot, fence } => {
                let has_expired = format!(
                    "fence = {fence} AND IFNULL(expires_at, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)"
                );
                self.take(slot, &has_expired, write_id, terms)
            }
            Change::Renew { slot, fence } => {
                let update = self.renewal(change, slot, fence, write_id, terms);
                let look = self.look_at(slot);
                Write::before_look(vec![format!("/* dblock renew row */ {update}")], Look(look))
            }
            Change::HandBack { slot, fence } => {
                let update = self.renewal(change, slot, fence, write_id, terms);
                let look = Look(self.look_at(slot));
                Self::transaction("hand back row", terms.also, &update, look)
            }
            Change::Release { slot, fence } => {
                let free = self.freeing(write_id);
                let update = format!("{free} WHERE {}", self.is_own(slot, fence));
                let look = Look(self.look_at(slot));
                Self::transaction("release row", terms.also, &update, look)
            }
            Change::ReleaseAny => {
                let free = format!(
                    "{} WHERE name = {} AND owner = {}",
                    self.freeing(write_id),
                    self.name,
                    self.owner
                );
                Self::transaction("release rows", terms.also, &free, self.look())
            }
        }
    }

    /// A renewal that changes the row unless it is another's or somebody wants its holder to end: one statement, for that is nearly
    /// always so.
    pub fn quick_renewal(&self, slot: u32, fence: u64, write_id: u64, terms: &Terms) -> Plain {
        let renew = Change::Renew { slot, fence };
        let update = self.renewal(renew, slot, fence, write_id, terms);
        Plain(format!(
            "/* dblock renew row */ {update} AND kill_requested_by IS NULL"
        ))
    }

    fn take(&self, slot: u32, condition: &str, write_id: u64, terms: &Terms) -> Write {
        let owner_name = terms.owner_name.map_or("NULL".to_owned(), text_literal);
        let ttl = terms.ttl.unwrap_or_default().as_secs().to_string();
        let update = format!(
            "UPDATE {} SET fence = fence + 1, owner = {}, write_id = {write_id}, kind = '{}', owner_name = {owner_name}, \
             acquired_at = UTC_TIMESTAMP(6), {}, command_run = NULL, command_until = NULL, kill_requested_at = NULL, \
             kill_requested_by = NULL WHERE {} AND {condition}",
            self.tables.locks(),
            self.owner,
            terms.kind.name(),
            lasting(&ttl),
            self.place(slot),
        );
        if terms.also.is_empty() {
            let take = format!("/* dblock take row */ {update}");
            return Write::before_look(vec![take], self.look());
        }
        let named = |sql: &str| format!("/* dblock take row */ {sql}");
        let also = terms.also.iter().cloned();
        let statements = [named("START TRANSACTION"), named(&update)];
        let statements = statements.into_iter().chain(also);
        let statements = statements.chain([named("COMMIT")]).collect();
        Write::before_look(statements, self.look())
    }

    /// A command that runs under a token goes by the time that it was told: nobody else makes that shorter. What follows from the
    /// old values stands first, for SET goes from left to right, or not.
    fn renewal(
        &self,
        change: Change,
        slot: u32,
        fence: u64,
        write_id: u64,
        terms: &Terms,
    ) -> String {
        let kept = "IFNULL(ttl_seconds, 0)";
        let ttl = match terms.ttl.map(|ttl| ttl.as_secs()) {
            None => kept.to_owned(),
            Some(ttl) if terms.kind == HolderKind::Run => ttl.to_string(),
            Some(ttl) => {
                format!("IF(command_until > UTC_TIMESTAMP(6), GREATEST({kept}, {ttl}), {ttl})")
            }
        };
        let (command, is_own_command) = match (change, terms.command_run.map(text_literal)) {
            (_, None) => (String::new(), String::new()),
            (Change::HandBack { .. }, Some(run)) => (
                format!(
                    ", kind = '{}', command_run = NULL, command_until = NULL",
                    HolderKind::Token.name()
                ),
                format!(" AND IFNULL(command_run, {run}) = {run}"),
            ),
            // One command at a time; that of a host which is dead has been ended when its time is over.
            (_, Some(run)) => (
                format!(
                    ", kind = '{}', command_run = {run}, command_until = UTC_TIMESTAMP(6) + INTERVAL {ttl} SECOND",
                    HolderKind::TokenRun.name()
                ),
                format!(
                    " AND (IFNULL(command_run, {run}) = {run} OR command_until <= UTC_TIMESTAMP(6))"
                ),
            ),
        };
        format!(
            "UPDATE {} SET write_id = {write_id}, {}{command} WHERE {}{is_own_command}",
            self.tables.locks(),
            lasting(&ttl),
            self.is_own(slot, fence)
        )
    }

    /// The look comes before the commit: after it another may be granted the slot at once.
    fn transaction(what: &str, also: &[String], update: &str, look: Look) -> Write {
        let named = |sql: &str| format!("/* dblock {what} */ {sql}");
        let end = [named(update), look.0, named("COMMIT")];
        let statements = [named("START TRANSACTION")]
            .into_iter()
            .chain(also.iter().cloned())
            .chain(end);
        let statements: Vec<String> = statements.collect();
        Write {
            look: statements.len() - 2,
            statements,
            releases: false,
        }
    }

    fn look_at(&self, slot: u32) -> String {
        self.look_sql("look at row", &format!("l.slot = {slot}"))
    }

    /// Asks the owner of a slot that was granted with this fence to end. When it was first asked stays: it may know since then.
    pub fn request_kill(&self, slot: u32, fence: u64, killer: &str) -> Write {
        let request = format!(
            "/* dblock request kill */ UPDATE {} SET kill_requested_at = IFNULL(kill_requested_at, UTC_TIMESTAMP(6)), kill_requested_by = {} WHERE {}",
            self.tables.locks(),
            text_literal(killer),
            self.is_own(slot, fence)
        );
        Write::before_look(vec![request], Look(self.look_at(slot)))
    }

    /// Takes a slot that was granted with this fence from its owner, who is not asked, if this still holds of the row, and has the
    /// history say so, if there is something to `record`.
    pub fn free(
        &self,
        slot: u32,
        fence: u64,
        write_id: u64,
        only: Only,
        record: Option<String>,
    ) -> Write {
        let condition = match only {
            Only::Expired => {
                " AND IFNULL(expires_at, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)".to_owned()
            }
            Only::Token => format!(
                " AND kind <> '{}' AND IFNULL(command_until, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)",
                HolderKind::Run.name()
            ),
            Only::Always => String::new(),
        };
        let named = |sql: &str| format!("/* dblock free row */ {sql}");
        let free = named(&format!(
            "{} WHERE {}{condition}",
            self.freeing(write_id),
            self.is_own(slot, fence)
        ));
        let is_freed = format!("owner IS NULL AND fence = {fence} AND write_id = {write_id}");
        let statements = match record {
            None => vec![free],
            Some(record) => vec![
                named("START TRANSACTION"),
                free,
                self.if_row(&record, slot, &is_freed),
                named("COMMIT"),
            ],
        };
        Write::before_look(statements, Look(self.look_at(slot)))
    }

    /// A statement that ends with a condition, with another one: that this holds of the row of a slot.
    fn if_row(&self, statement: &str, slot: u32, condition: &str) -> String {
        format!(
            "{statement} AND EXISTS (SELECT 1 FROM {} WHERE {} AND {condition})",
            self.tables.locks(),
            self.place(slot)
        )
    }

    /// The same: that the row is this owner's, by the grant with this fence.
    pub fn if_own(&self, statement: &str, slot: u32, fence: u64) -> String {
        let is_own = format!("owner = {} AND fence = {fence}", self.owner);
        self.if_row(statement, slot, &is_own)
    }

    fn freeing(&self, write_id: u64) -> String {
        format!(
            "UPDATE {} SET owner = NULL, owner_name = NULL, write_id = {write_id}, expires_at = NULL, command_run = NULL, \
             command_until = NULL, kill_requested_at = NULL, kill_requested_by = NULL",
            self.tables.locks()
        )
    }

    fn is_own(&self, slot: u32, fence: u64) -> String {
        let place = self.place(slot);
        format!("{place} AND owner = {} AND fence = {fence}", self.owner)
    }

    /// Makes a session fit for the tables, and asks what must be known of the server.
    pub fn prepare(&self) -> Prepare<'_> {
        Self::prepare_for(&self.tables)
    }

    /// The same, whatever the lock.
    pub fn prepare_for(tables: &Tables) -> Prepare<'_> {
        Prepare(tables)
    }
}

/// What has a grant last for so many seconds from now on.
fn lasting(ttl: &str) -> String {
    format!(
        "renewed_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL {ttl} SECOND, ttl_seconds = {ttl}"
    )
}

/// A look at rows.
pub struct Look(String);

impl Statement for Look {
    type Answer = Vec<SlotState>;

    const MOST_ROWS: usize = crate::lock::MOST_SLOTS as usize;

    fn sql(&self) -> String {
        self.0.clone()
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.iter().map(SlotState::read).collect()
    }
}

/// A write, and a look at what it has done.
pub struct Write {
    statements: Vec<String>,
    /// Which of them is the look.
    look: usize,
    /// Whether the last one releases a named lock.
    releases: bool,
}

impl Write {
    fn before_look(mut statements: Vec<String>, look: Look) -> Self {
        statements.push(look.0);
        Self {
            look: statements.len() - 1,
            statements,
            releases: false,
        }
    }

    /// The same, and behind it a statement that releases a named lock, which is carried out only if the write was.
    pub fn and_release(mut self, release: Option<String>) -> Self {
        self.releases = release.is_some();
        self.statements.extend(release);
        self
    }
}

/// What was seen after a write.
pub struct Written {
    /// The rows that it looked at.
    pub rows: Vec<SlotState>,
    /// The session at the head of the queue, where the statement behind the write released a named lock.
    pub queue_head: Option<u64>,
}

impl Batch for Write {
    type Answer = Written;

    fn statements(&self) -> Vec<String> {
        self.statements.clone()
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<Self::Answer, Fault> {
        // What comes of the named lock does not concern the row, which is committed by then.
        let is_carried_out = results.len() >= self.statements.len() - usize::from(self.releases);
        match (fault, results.get(self.look)) {
            (fault, Some(rows)) if is_carried_out && (fault.is_none() || self.releases) => {
                let released = results.get(self.statements.len() - 1);
                let released = released.and_then(|rows| rows.first());
                let released = released.filter(|_| self.releases);
                Ok(Written {
                    rows: rows.iter().map(SlotState::read).collect::<Result<_, _>>()?,
                    queue_head: released.map_or(Ok(None), |row| row.get(1))?,
                })
            }
            (Some(fault), _) => Err(fault),
            (None, _) => Err(Fault::Gone("no answer".to_owned())),
        }
    }
}

/// Undoes what is left of a transaction.
pub struct RollBack;

impl Statement for RollBack {
    type Answer = ();

    fn sql(&self) -> String {
        "/* dblock roll back */ ROLLBACK".to_owned()
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

/// Makes a session fit for the tables.
pub struct Prepare<'a>(&'a Tables);

/// What must be known of a server with tables.
#[derive(Debug, Clone, Copy)]
pub struct Prepared {
    /// The version of the tables.
    pub version: Option<Version>,
    /// The server's time, in microseconds since 1970.
    pub clock: i64,
    /// Whether it takes no writes.
    pub is_read_only: bool,
    /// Whether it is one of several that all take writes, so that each has named locks of its own.
    pub is_cluster: bool,
}

impl Batch for Prepare<'_> {
    type Answer = Prepared;

    /// The last three are for members of a group: a server without the plugin does not know their variables. A member that is cut off
    /// from the others does not answer the last one.
    fn statements(&self) -> Vec<String> {
        vec![
            PREPARE.to_owned(),
            AskVersion(self.0).sql(),
            AskClock.sql(),
            "/* dblock read only */ SELECT @@global.read_only OR @@global.innodb_read_only".to_owned(),
            "/* dblock group */ SET @dblock = 1 /*!80014 , SESSION group_replication_consistency = 'BEFORE' */"
                .to_owned(),
            "/* dblock group */ SELECT 0 /*!80014 + (IFNULL(@@global.group_replication_group_name, '') <> '' \
             AND NOT @@global.group_replication_single_primary_mode) */ /*M!100100 + @@global.wsrep_on */"
                .to_owned(),
            format!(
                "/* dblock group */ SELECT 1 /*!80014 FROM {} WHERE id = 1 */",
                self.0.meta()
            ),
        ]
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<Prepared, Fault> {
        match fault {
            Some(Fault::NoSuchVariable(_)) if results.len() >= 3 => {}
            Some(fault) => return Err(fault),
            None => {}
        }
        let number = |result: usize| {
            let row = results.get(result).and_then(|rows| rows.first());
            row.map_or(Ok(None), |row| row.get::<i64>(0))
        };
        let version = results.get(1).map_or(&[][..], Vec::as_slice);
        Ok(Prepared {
            version: AskVersion(self.0).decode(version)?,
            clock: number(2)?.ok_or_else(|| Fault::Gone("no answer".to_owned()))?,
            is_read_only: number(3)? == Some(1),
            is_cluster: number(5)? == Some(1),
        })
    }
}

/// Asks for the server's time, in microseconds since 1970.
pub struct AskClock;

impl Statement for AskClock {
    type Answer = i64;

    fn sql(&self) -> String {
        format!("/* dblock clock */ {CLOCK}")
    }

    fn decode(&self, rows: &[Row]) -> Result<i64, Fault> {
        first_value(rows)?.ok_or_else(|| Fault::Gone("no answer".to_owned()))
    }
}

/// The server's time, in microseconds since 1970.
const CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
