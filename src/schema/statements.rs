//! Prepares a session for the tables, and has the statements of `dblock init`.

use super::tables::Table;
use crate::db::cluster::is_wsrep;
use crate::db::{
    Ask, Batch, Fault, Kind, LIST, Row, ask, ask_value, ask_values, command, named, no_answer,
    text_literal,
};

/// Prepares a session for the tables, whatever the server's or account's settings: texts are UTF-8, each statement is a transaction, no
/// limit guards against statements that read or change much, and none waits long for a locked row or a table that is being altered. MariaDB
/// ends the session of a host that vanishes within a transaction. A node of a cluster answers only after it has caught up, otherwise a row
/// that has changed elsewhere looks as before. This asks MariaDB for that (`wsrep_sync_wait`); others get [`CATCH_UP`] or
/// [`CATCH_UP_IN_GROUP`]. `catches_up`: `false` for a MariaDB that refuses that.
pub fn prepare(catches_up: bool) -> String {
    let catch_up = if catches_up {
        " /*M!100100 , SESSION wsrep_sync_wait=7 */"
    } else {
        ""
    };
    let sql = format!(
        "SET NAMES utf8mb4, SESSION autocommit=1, SESSION completion_type='NO_CHAIN' /*M!100300 , SESSION idle_transaction_timeout=10 */, \
         SESSION sql_mode='STRICT_ALL_TABLES', SESSION sql_safe_updates=0, SESSION sql_big_selects=1, \
         SESSION sql_select_limit=18446744073709551615, SESSION innodb_lock_wait_timeout={LONGEST_ROW_WAIT}, \
         SESSION lock_wait_timeout={LONGEST_LOCK_WAIT}{catch_up}"
    );
    named("prepare", sql)
}

/// How long a statement waits for a locked table, in seconds.
pub const LONGEST_LOCK_WAIT: u64 = 5;

/// How long a statement waits for a locked row, in seconds. MySQL looks once a second, so it may be one more.
pub const LONGEST_ROW_WAIT: u64 = 2;

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

/// Runs [`prepare`], and asks for the server's role. `ends_when_idle`: the server soon ends the idle session.
pub fn prepare_and_ask_node(catches_up: bool, ends_when_idle: bool) -> Batch<'static, Node> {
    let mut prepare = prepare(catches_up);
    if ends_when_idle {
        prepare += END_WHEN_IDLE;
    }
    let all = [&prepare, WHICH_NODE, CATCH_UP_IN_GROUP];
    Batch::written(all.map(str::to_owned).to_vec()).read(|replies, fault| {
        match fault {
            // A MariaDB without Galera, or a MySQL without the group plugin.
            None | Some(Fault::NoSuchVariable(_)) if !replies.is_empty() => {}
            fault => return Err(fault.unwrap_or_else(no_answer)),
        }
        let node = replies
            .get(1)
            .map(|reply| reply.rows().optional(Row::columns));
        let node: Option<(Option<String>, Option<u64>)> = node.transpose()?.flatten();
        Ok(node.map_or(Node::Single, |(comment, wsrep_on)| {
            Node::of(comment.as_deref(), wsrep_on == Some(1))
        }))
    })
}

/// A statement of `init`.
pub fn execute(sql: &str) -> Ask<'static, ()> {
    command("init", sql)
}

/// Whether a database with this name exists.
pub fn ask_database(name: &str) -> Ask<'static, bool> {
    let name = text_literal(name);
    let sql = format!("SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = {name}");
    ask("database", sql, |rows| Ok(!rows.is_empty()))
}

/// The columns that there are of these tables in a database, as `table` and `column`. An index is listed as `key ` and its name in place
/// of the column, and the default of a column as `default `, its name and the default.
pub fn ask_columns(database: &str, tables: &[Table]) -> Ask<'static, Vec<(String, String)>> {
    let of = format!(
        "WHERE TABLE_SCHEMA = {} AND TABLE_NAME IN ({})",
        text_literal(database),
        Kind::MySql.literals(tables.iter().map(|table| table.name))
    );
    let sql = format!(
        "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS {of} \
         UNION SELECT TABLE_NAME, CONCAT('key ', INDEX_NAME) FROM information_schema.STATISTICS {of} \
         UNION SELECT TABLE_NAME, CONCAT('default ', COLUMN_NAME, ' ', COLUMN_DEFAULT) FROM information_schema.COLUMNS {of} \
         AND COLUMN_DEFAULT IS NOT NULL"
    );
    let columns = ask("columns", sql, |rows| {
        rows.all(|row| {
            let (table, column): (String, String) = row.columns()?;
            Ok((table, column.to_lowercase()))
        })
    });
    columns.up_to(LIST)
}

/// Those of these tables in a database that have no transactions, because their engine is not `InnoDB`.
pub fn ask_other_engines(database: &str, tables: &[Table]) -> Ask<'static, Vec<String>> {
    let sql = format!(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = {} \
         AND TABLE_NAME IN ({}) AND ENGINE <> 'InnoDB'",
        text_literal(database),
        Kind::MySql.literals(tables.iter().map(|table| table.name))
    );
    ask_values("engines", sql).up_to(LIST)
}

/// The member of a multi-primary group through which tables must be created: the first one. `None`: there is no such group, or this
/// server is that member.
pub fn ask_first_member() -> Ask<'static, Option<String>> {
    let sql = "SELECT CONCAT(first.MEMBER_HOST, ':', first.MEMBER_PORT) FROM \
         (SELECT * FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE' AND MEMBER_ROLE = 'PRIMARY' \
         ORDER BY MEMBER_ID LIMIT 1) first WHERE first.MEMBER_ID <> @@server_uuid";
    ask_value("first member", sql)
}

/// Waits for the named lock of `dblock init` on this database, up to so many seconds. Returns whether it was acquired.
pub fn take_turn(database: &str, limit: u64) -> Ask<'static, bool> {
    // A lock's name has 64 characters at most.
    let name = text_literal(&format!("dblock-init {database}"));
    let sql = format!("SELECT GET_LOCK(LEFT({name}, 60), {limit})");
    ask("init turn", sql, |rows| Ok(rows.value::<u8>()? == Some(1)))
}
