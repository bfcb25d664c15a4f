//! dblock's tables on PostgreSQL: how a session is prepared for them, and the statements of `dblock init`.

mod tables;

use std::fmt::Write;
use std::time::Duration;

use super::tables::{LOCKS, Table};
use crate::db::postgres_sql::{idle_timeout, quoted_identifier, tcp_patience, text_literal};
use crate::db::{Ask, Kind, LIST, ask, ask_value, command};
use tables::of_key;
pub use tables::{TABLES, definition};

/// The columns that prepare a session for the tables, whatever the settings of the server, the database or the role. A conditional write
/// waits for another one of the same row, and then decides by what that has left, which only READ COMMITTED does. A write that was
/// confirmed is not lost if the server crashes: otherwise the slot would be granted twice, with the same fence. The server sends
/// its warning that a fail-over may lose it. No transaction of a host that has vanished keeps one locked.
const PREPARED: &str = "set_config('default_transaction_isolation', 'read committed', false), \
     set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' \
     ELSE current_setting('synchronous_commit') END, false), \
     set_config('client_min_messages', 'warning', false), set_config('statement_timeout', '0', false), \
     set_config('idle_in_transaction_session_timeout', '10s', false)";

/// How long a statement waits for a locked row or table.
pub const LOCK_LIMIT: Duration = Duration::from_secs(2);

/// Prepares a session for the tables. No statement waits longer than this for a locked row or table, nor than [`LOCK_LIMIT`].
pub fn prepare(lock_limit: Duration) -> Ask<'static, ()> {
    let limit = lock_limit.min(LOCK_LIMIT).as_millis();
    command(
        "prepare",
        format!("SELECT {PREPARED}, set_config('lock_timeout', '{limit}ms', false)"),
    )
}

/// Ends the session after so many seconds without a statement, and no sooner where its host is silent.
pub fn end_when_idle(name: &str, seconds: u64) -> Ask<'static, ()> {
    let limit = Duration::from_secs(seconds);
    let sql = format!("SELECT {}, {}", idle_timeout(limit), tcp_patience(limit));
    command(name, sql)
}

/// Takes the lock of `dblock init` on this schema, if it is free. Returns whether it was.
pub fn try_turn(schema: &str) -> Ask<'static, bool> {
    let name = text_literal(&format!("dblock-init {schema}"));
    let sql = format!("SELECT pg_try_advisory_lock(hashtextextended({name}, 0))::int");
    ask("init turn", sql, |rows| rows.one()?.at(0))
}

/// Whether a schema with this name exists.
pub fn ask_schema(name: &str) -> Ask<'static, bool> {
    let name = text_literal(name);
    let sql = format!("SELECT 1 FROM pg_namespace WHERE nspname = {name}");
    ask("schema", sql, |rows| Ok(!rows.is_empty()))
}

/// Whether this role may create tables in the schema; `None`: it does not exist.
pub fn ask_may_create(schema: &str) -> Ask<'static, Option<bool>> {
    let sql = format!(
        "SELECT (has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE'))::int FROM pg_namespace \
         WHERE nspname = {}",
        text_literal(schema)
    );
    ask_value("schema privileges", sql).map(|may: Option<u8>| may.map(|may| may == 1))
}

/// The columns that there are of these tables in a schema, as `table` and `column`. An index is listed as `key ` and its name in place of
/// the column, and the default of a column as `default `, its name and the default.
pub fn ask_columns(schema: &str, tables: &[Table]) -> Ask<'static, Vec<(String, String)>> {
    let of = format!(
        "t.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = {}) AND t.relname IN ({})",
        text_literal(schema),
        Kind::Postgres.literals(tables.iter().map(|table| table.name))
    );
    let columns = "a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped";
    // A default is shown as 0, or as '1099511627776'::bigint.
    let sql = format!(
        "SELECT t.relname, a.attname FROM pg_class t JOIN pg_attribute a ON {columns} WHERE {of} AND t.relkind <> 'i' \
         UNION ALL SELECT t.relname, 'key ' || substr(i.relname, length(t.relname) + 2) FROM pg_class t \
         JOIN pg_index x ON x.indrelid = t.oid JOIN pg_class i ON i.oid = x.indexrelid WHERE {of} \
         UNION ALL SELECT t.relname, 'default ' || a.attname || ' ' || \
         split_part(ltrim(pg_get_expr(d.adbin, d.adrelid), ''''), '''', 1) FROM pg_class t JOIN pg_attribute a ON {columns} \
         JOIN pg_attrdef d ON d.adrelid = t.oid AND d.adnum = a.attnum WHERE {of}"
    );
    let columns = ask("columns", sql, |rows| {
        rows.all(|row| Ok((row.at(0)?, row.at(1)?)))
    });
    columns.up_to(LIST)
}

/// The statements that create a table and its indexes in this schema, whose name is quoted.
pub fn create(table: &Table, schema: &str) -> String {
    let mut sql = format!("CREATE TABLE IF NOT EXISTS {schema}.{} (\n", table.name);
    for column in table.columns {
        let _ = writeln!(sql, "  {},", definition(table, *column));
    }
    let _ = write!(sql, "  PRIMARY KEY ({})\n)", table.primary_key);
    if table.name == LOCKS.name {
        // A row is updated again and again: its next version has room in the same page, and the index stays as it is.
        sql += " WITH (fillfactor = 50)";
    }
    for (key, columns) in table.keys {
        sql += ";\n";
        sql += &create_index(table, (key, columns), schema);
    }
    sql
}

/// The statement that creates an index of a table.
pub fn create_index(table: &Table, (key, columns): (&str, &str), schema: &str) -> String {
    format!(
        "CREATE INDEX IF NOT EXISTS {0}_{key} ON {schema}.{0} ({1})",
        table.name,
        of_key(columns)
    )
}

/// The statements that use every table in each way that dblock does, without an effect.
pub fn uses(schema: &str) -> Vec<String> {
    let each = TABLES.iter().flat_map(|table| {
        let (column, _) = table.columns[0];
        let table = format!("{schema}.{}", table.name);
        [
            format!("SELECT 1 FROM {table} WHERE false"),
            format!("INSERT INTO {table} SELECT * FROM {table} WHERE false"),
            format!("UPDATE {table} SET {column} = {column} WHERE false"),
            format!("DELETE FROM {table} WHERE false"),
        ]
    });
    each.collect()
}

/// The statements that grant a role the privileges on the tables, also on those that a later `dblock init` of the same role creates. The
/// role is named as in a GRANT statement.
pub fn grants(schema: &str, role: &str) -> [String; 3] {
    let schema = quoted_identifier(schema);
    [
        format!("GRANT USAGE ON SCHEMA {schema} TO {role}"),
        format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"),
        format!(
            "ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}"
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_these() {
        let tables = TABLES
            .each_ref()
            .map(|table| create(table, "\"dblock\"") + ";\n");
        assert_eq!(tables.concat(), include_str!("tables.sql"));
    }
}
