//! The statements on the table of durable locks. Each write is followed, in the same packet, by a look at the rows: what that shows
//! counts, and not how many rows the write says that it changed. Rows are found by their primary key alone.

use std::time::Duration;

use super::state::{COLUMNS, SlotState};
use crate::db::{Batch, Fault, Row, Statement, first_value, text_literal};
use crate::lock::Name;
use crate::schema::{AskVersion, PREPARE, Tables, Version};

/// Writes the statements of one owner of one lock.
pub struct Statements {
    tables: Tables,
    /// Literals.
    name: String,
    owner: String,
    slots: u32,
}

/// Who a grant is for, and for how long.
pub struct Grantee<'a> {
    /// `run`, `token` or `token_run`.
    pub kind: &'static str,
    /// What `acquire --owner` says: whoever says the same takes the lock over.
    pub owner_name: Option<&'a str>,
    /// For how long.
    pub ttl: Duration,
    /// Another statement, which is carried out in the same transaction.
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
            "/* dblock {what} */ SELECT {COLUMNS} FROM {} l LEFT JOIN {} r ON r.run = l.owner WHERE l.name = {} AND {slots}",
            self.tables.locks(),
            self.tables.runs(),
            self.name
        )
    }

    /// Looks at all slots.
    pub fn look(&self) -> Look {
        Look(self.look_sql("look at rows", &format!("l.slot < {}", self.slots)))
    }

    /// Creates the row of a slot, unless it is there.
    pub fn create(&self, slot: u32) -> Write {
        let insert = format!(
            "/* dblock create row */ INSERT IGNORE INTO {} (name, slot) VALUES ({}, {slot})",
            self.tables.locks(),
            self.name
        );
        Write(vec![insert, self.look().0])
    }

    /// Takes a slot if it is free, or, with a `fence`, if its time is over and it was not granted again since.
    pub fn take(&self, slot: u32, expired: Option<u64>, write_id: u64, grantee: &Grantee) -> Write {
        let by_name = grantee
            .owner_name
            .map(|name| format!(" OR owner_name = {}", text_literal(name)));
        let condition = match expired {
            Some(fence) => {
                format!(
                    "fence = {fence} AND IFNULL(expires_at, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)"
                )
            }
            None => format!("(owner IS NULL{})", by_name.unwrap_or_default()),
        };
        let owner_name = grantee.owner_name.map_or("NULL".to_owned(), text_literal);
        let update = format!(
            "UPDATE {} SET fence = fence + 1, owner = {}, write_id = {write_id}, kind = '{}', owner_name = {owner_name}, \
             acquired_at = UTC_TIMESTAMP(6), {}, kill_requested_at = NULL, kill_requested_by = NULL WHERE {} AND {condition}",
            self.tables.locks(),
            self.owner,
            grantee.kind,
            renewal(Some(grantee.ttl)),
            self.place(slot),
        );
        let look = self.look().0;
        if grantee.also.is_empty() {
            return Write(vec![format!("/* dblock take row */ {update}"), look]);
        }
        let begin = "/* dblock take row */ START TRANSACTION".to_owned();
        let also = grantee.also.iter().cloned();
        let end = ["COMMIT".to_owned(), look];
        Write([begin, update].into_iter().chain(also).chain(end).collect())
    }

    /// Renews a slot that was granted with this fence, be its time over or not: nobody has had it since.
    pub fn renew(
        &self,
        slot: u32,
        fence: u64,
        write_id: u64,
        ttl: Option<Duration>,
        kind: &str,
    ) -> Write {
        let update = self.renewal(slot, fence, write_id, ttl, kind);
        let look = self.look_sql("look at row", &format!("l.slot = {slot}"));
        Write(vec![format!("/* dblock renew row */ {update}"), look])
    }

    /// Renews a slot for the script that has it, in one transaction with other statements.
    pub fn hand_back(
        &self,
        slot: u32,
        fence: u64,
        write_id: u64,
        ttl: Option<Duration>,
        also: &[String],
    ) -> Write {
        let update = self.renewal(slot, fence, write_id, ttl, "token");
        self.transaction("hand back row", slot, also, update)
    }

    fn renewal(
        &self,
        slot: u32,
        fence: u64,
        write_id: u64,
        ttl: Option<Duration>,
        kind: &str,
    ) -> String {
        format!(
            "UPDATE {} SET write_id = {write_id}, kind = '{kind}', {} WHERE {} AND {}",
            self.tables.locks(),
            renewal(ttl),
            self.place(slot),
            self.is_own(fence)
        )
    }

    /// Releases a slot that was granted with this fence, in one transaction with other statements.
    pub fn release(&self, slot: u32, fence: u64, write_id: u64, also: &[String]) -> Write {
        let update = format!(
            "{} WHERE {} AND {}",
            self.freeing(write_id),
            self.place(slot),
            self.is_own(fence)
        );
        self.transaction("release row", slot, also, update)
    }

    fn transaction(&self, what: &str, slot: u32, also: &[String], update: String) -> Write {
        let look = self.look_sql("look at row", &format!("l.slot = {slot}"));
        if also.is_empty() {
            return Write(vec![format!("/* dblock {what} */ {update}"), look]);
        }
        let begin = format!("/* dblock {what} */ START TRANSACTION");
        let end = [update, "COMMIT".to_owned(), look];
        let also = also.iter().cloned();
        Write([begin].into_iter().chain(also).chain(end).collect())
    }

    /// Releases whatever slot the owner has.
    pub fn release_any(&self, write_id: u64) -> Write {
        let free = format!(
            "/* dblock release rows */ {} WHERE name = {} AND owner = {}",
            self.freeing(write_id),
            self.name,
            self.owner
        );
        Write(vec![free, self.look().0])
    }

    /// Asks the owner of a slot that was granted with this fence to end. When it was first asked stays: it may know since then.
    pub fn request_kill(&self, slot: u32, fence: u64, killer: &str) -> Write {
        let request = format!(
            "/* dblock request kill */ UPDATE {} SET kill_requested_at = IFNULL(kill_requested_at, UTC_TIMESTAMP(6)), kill_requested_by = {} WHERE {} AND {}",
            self.tables.locks(),
            text_literal(killer),
            self.place(slot),
            self.is_own(fence)
        );
        Write(vec![
            request,
            self.look_sql("look at row", &format!("l.slot = {slot}")),
        ])
    }

    /// Takes a slot that was granted with this fence from its owner, who is not asked, if this still holds of the row.
    pub fn free(&self, slot: u32, fence: u64, write_id: u64, only: Only) -> Write {
        let condition = match only {
            Only::Expired => " AND IFNULL(expires_at, UTC_TIMESTAMP(6)) <= UTC_TIMESTAMP(6)",
            Only::Token => " AND kind = 'token'",
            Only::Always => "",
        };
        let free = format!(
            "/* dblock free row */ {} WHERE {} AND {}{condition}",
            self.freeing(write_id),
            self.place(slot),
            self.is_own(fence)
        );
        Write(vec![
            free,
            self.look_sql("look at row", &format!("l.slot = {slot}")),
        ])
    }

    fn freeing(&self, write_id: u64) -> String {
        format!(
            "UPDATE {} SET owner = NULL, owner_name = NULL, write_id = {write_id}, expires_at = NULL, kill_requested_at = NULL, \
             kill_requested_by = NULL",
            self.tables.locks()
        )
    }

    fn is_own(&self, fence: u64) -> String {
        format!("owner = {} AND fence = {fence}", self.owner)
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

/// What changes with a renewal for so long; `None`: for as long as the row says.
fn renewal(ttl: Option<Duration>) -> String {
    let ttl = ttl.map_or("IFNULL(ttl_seconds, 0)".to_owned(), |ttl| {
        ttl.as_secs().to_string()
    });
    format!(
        "ttl_seconds = {ttl}, renewed_at = UTC_TIMESTAMP(6), expires_at = UTC_TIMESTAMP(6) + INTERVAL {ttl} SECOND"
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

/// A write, and a look at rows after it.
pub struct Write(Vec<String>);

impl Batch for Write {
    type Answer = Vec<SlotState>;

    fn statements(&self) -> Vec<String> {
        self.0.clone()
    }

    fn decode(&self, results: &[Vec<Row>], fault: Option<Fault>) -> Result<Self::Answer, Fault> {
        match (fault, results.get(self.0.len() - 1)) {
            (Some(fault), _) => Err(fault),
            (None, Some(rows)) => rows.iter().map(SlotState::read).collect(),
            (None, None) => Err(Fault::Gone("no answer".to_owned())),
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
    /// Whether it is a member of a group in which all members take writes.
    pub is_multi_primary: bool,
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
             AND NOT @@global.group_replication_single_primary_mode) */"
                .to_owned(),
            AskVersion(self.0).sql(),
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
            is_multi_primary: number(5)? == Some(1),
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
