//! Prepares a session for the tables, and has the statements of `dblock init`.

use super::tables::Table;
use crate::db::cluster::is_wsrep;
use crate::db::{Fault, LIST, OldBatch, Reply, Row, Statement, first_value, text_literal};

/// Prepares a session for the tables, whatever the server's or account's settings: texts are UTF-8, each statement is a transaction, no
/// limit guards against statements that read or change much, and none waits long for a locked row or a table that is being altered. MariaDB ends the session of a host that vanishes within a
/// transaction. A node of a cluster answers only after it has caught up, otherwise a row that has changed elsewhere looks as before. This
/// asks MariaDB for that (`wsrep_sync_wait`); others get [`CATCH_UP`] or [`CATCH_UP_IN_GROUP`]. `catches_up`: `false` for a MariaDB that
/// refuses that.
pub fn prepare(catches_up: bool) -> String {
    let catch_up = if catches_up {
        " /*M!100100 , SESSION wsrep_sync_wait=7 */"
    } else {
        ""
    };
    format!(
        "/* dblock prepare */ SET NAMES utf8mb4, SESSION autocommit=1 /*M!100300 , SESSION idle_transaction_timeout=10 */, \
         SESSION sql_mode='STRICT_ALL_TABLES', SESSION sql_safe_updates=0, SESSION sql_big_selects=1, \
         SESSION sql_select_limit=18446744073709551615, SESSION innodb_lock_wait_timeout=2, \
         SESSION lock_wait_timeout={LONGEST_LOCK_WAIT}{catch_up}"
    )
}

/// How long a statement waits for a locked table, in seconds.
pub const LONGEST_LOCK_WAIT: u64 = 5;

/// Added to [`prepare`] if the session holds no lock. MySQL has no timeout for idle transactions, so it ends the whole idle session when
/// the host vanishes within one. Otherwise it would keep the rows locked until TCP gives up.
const END_WHEN_IDLE: &str = " /*!50700 , SESSION wait_timeout=10 */";

/// Has a node of a Galera cluster that is not MariaDB answer only after it has caught up.
pub const CATCH_UP: &str = "/* dblock catch up */ SET SESSION wsrep_sync_wait=7";

/// Has a member of a group answer only after it has caught up. A server without the plugin does not know the variable.
pub const CATCH_UP_IN_GROUP: &str = "/* dblock catch up */ SET @dblock = 1 /*!80014 , SESSION group_replication_consistency = 'BEFORE' */";

/// Asks what identifies a node of a Galera cluster: the server's version comment, or MariaDB's variable.
const WHICH_NODE: &str =
    "/* dblock which node */ SELECT @@global.version_comment, 0 /*M!100100 + @@global.wsrep_on */";

/// Whether a server is a node of a Galera cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// It is not a node.
    Single,
    /// It is a node, and MariaDB.
    MariaDb,
    /// It is a node, and not MariaDB: [`CATCH_UP`] must follow.
    Other,
}

impl Node {
    /// The node that the server's version comment and MariaDB's `@@wsrep_on` show.
    pub fn of(comment: Option<&str>, has_wsrep_on: bool) -> Self {
        if comment.is_some_and(is_wsrep) {
            Self::Other
        } else if has_wsrep_on {
            Self::MariaDb
        } else {
            Self::Single
        }
    }
}

/// Runs [`prepare`].
pub struct Prepare {
    /// As for [`prepare`].
    pub catches_up: bool,
    /// Whether the server soon ends the idle session.
    pub ends_when_idle: bool,
}

impl OldBatch for Prepare {
    type Answer = Node;

    fn statements(&self) -> Vec<String> {
        let mut prepare = prepare(self.catches_up);
        if self.ends_when_idle {
            prepare += END_WHEN_IDLE;
        }
        let all = [&prepare, WHICH_NODE, CATCH_UP_IN_GROUP];
        all.map(str::to_owned).to_vec()
    }

    fn decode(&self, replies: &[Reply], fault: Option<Fault>) -> Result<Node, Fault> {
        match fault {
            // A MariaDB without Galera, or a MySQL without the group plugin.
            None | Some(Fault::NoSuchVariable(_)) if !replies.is_empty() => {}
            fault => return Err(fault.unwrap_or_else(|| Fault::Gone("no answer".to_owned()))),
        }
        let Some(row) = replies.get(1).and_then(|reply| reply.rows.first()) else {
            return Ok(Node::Single);
        };
        Ok(Node::of(row.text(0)?.as_deref(), row.old(1)? == Some(1)))
    }
}

/// Runs a statement of `init`.
pub struct Execute(pub String);

impl Statement for Execute {
    type Answer = ();

    fn sql(&self) -> String {
        format!("/* dblock init */ {}", self.0)
    }

    fn decode(&self, _: &[Row]) -> Result<(), Fault> {
        Ok(())
    }
}

/// Whether a database with this name exists.
pub struct AskDatabase<'a>(pub &'a str);

impl Statement for AskDatabase<'_> {
    type Answer = bool;

    fn sql(&self) -> String {
        let name = text_literal(self.0);
        format!(
            "/* dblock database */ SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {name}"
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<bool, Fault> {
        Ok(!rows.is_empty())
    }
}

/// The columns of dblock's tables in a database, as `table` and `column`. An index is listed as `key ` and its name in place of the
/// column, and the default of a column as `default `, its name and the default.
pub struct AskColumns<'a> {
    /// The database.
    pub database: &'a str,
    /// The tables to look for.
    pub tables: &'a [Table],
}

impl Statement for AskColumns<'_> {
    type Answer = Vec<(String, String)>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        let database = text_literal(self.database);
        let names = self.tables.iter().map(|table| text_literal(table.name));
        let names = names.collect::<Vec<_>>().join(", ");
        let of = format!("WHERE TABLE_SCHEMA = {database} AND TABLE_NAME IN ({names})");
        format!(
            "/* dblock columns */ SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS {of} \
             UNION SELECT TABLE_NAME, CONCAT('key ', INDEX_NAME) FROM information_schema.STATISTICS {of} \
             UNION SELECT TABLE_NAME, CONCAT('default ', COLUMN_NAME, ' ', COLUMN_DEFAULT) FROM information_schema.COLUMNS {of} \
             AND COLUMN_DEFAULT IS NOT NULL"
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let mut columns = Vec::new();
        for row in rows {
            if let (Some(table), Some(column)) = (row.text(0)?, row.text(1)?) {
                columns.push((table, column.to_lowercase()));
            }
        }
        Ok(columns)
    }
}

/// Those of dblock's tables in a database that have no transactions, because their engine is not `InnoDB`.
pub struct AskOtherEngines<'a> {
    /// The database.
    pub database: &'a str,
    /// The tables to look for.
    pub tables: &'a [Table],
}

impl Statement for AskOtherEngines<'_> {
    type Answer = Vec<String>;

    const MOST_ROWS: usize = LIST;

    fn sql(&self) -> String {
        let database = text_literal(self.database);
        let names = self.tables.iter().map(|table| text_literal(table.name));
        let names = names.collect::<Vec<_>>().join(", ");
        format!(
            "/* dblock engines */ SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {database} \
             AND TABLE_NAME IN ({names}) AND ENGINE <> 'InnoDB'"
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        let names = rows.iter().map(|row| row.text(0));
        names.filter_map(Result::transpose).collect()
    }
}

/// The member of a multi-primary group through which tables must be created: the first one. `None`: there is no such group, or this
/// server is that member.
pub struct AskFirstMember;

impl Statement for AskFirstMember {
    type Answer = Option<String>;

    fn sql(&self) -> String {
        "/* dblock first member */ SELECT CONCAT(first.MEMBER_HOST, ':', first.MEMBER_PORT) FROM \
         (SELECT * FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE' AND MEMBER_ROLE = 'PRIMARY' \
         ORDER BY MEMBER_ID LIMIT 1) first WHERE first.MEMBER_ID <> @@server_uuid"
            .to_owned()
    }

    fn decode(&self, rows: &[Row]) -> Result<Self::Answer, Fault> {
        rows.first().map_or(Ok(None), |row| row.text(0))
    }
}

/// Waits for the named lock of `dblock init`.
pub struct TakeTurn<'a> {
    /// The database whose tables are created.
    pub database: &'a str,
    /// For this many seconds.
    pub limit: u32,
}

impl Statement for TakeTurn<'_> {
    type Answer = bool;

    fn sql(&self) -> String {
        // A lock's name has 64 characters at most.
        let name = text_literal(&format!("dblock-init {}", self.database));
        format!(
            "/* dblock init turn */ SELECT GET_LOCK(LEFT({name}, 60), {})",
            self.limit
        )
    }

    fn decode(&self, rows: &[Row]) -> Result<bool, Fault> {
        Ok(first_value::<u8>(rows)? == Some(1))
    }
}
