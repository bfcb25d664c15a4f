//! The sessions of a database, as its server shows them.

use std::time::Duration;

use super::introduction;
use crate::db::ask::{Ask, LIST, ask};
use crate::db::peer::{Client, short_address};

/// The bytes of a session's statement that are read: its introduction is there, and a server may keep a megabyte of each.
const BEGINNING: u32 = 1024;

/// What a server shows in place of the statement of another role.
const HIDDEN: &str = "<insufficient privilege>";

/// The comment in front of a statement of dblock's, as a regular expression.
const COMMENT: &str = "^/[*] dblock [ -~]*? [*]/";

/// A session, as far as this role may see it.
#[derive(Debug, Default, Clone)]
pub struct Seen {
    /// Its client.
    pub client: Client,
    /// How long it has been without a statement; `None`: it runs one, or that cannot be seen.
    pub idle: Option<Duration>,
    /// Whether this role sees all of it.
    pub is_whole: bool,
}

/// The sessions with this database; `only`: this one. Of a session of another role the server does not say what kind it is. Of a statement
/// only the comment of dblock's is read: a database without an encoding (`SQL_ASCII`) takes any bytes, and fails to send what is no UTF-8.
pub fn ask_sessions(only: Option<u64>) -> Ask<'static, Vec<Seen>> {
    let which = only.map_or_else(String::new, |pid| format!(" AND pid = {pid}"));
    let sql = format!(
        "SELECT pid, usename, host(client_addr) AS address, client_port, application_name, \
         CASE WHEN query = '{HIDDEN}' THEN query ELSE substring(left(query, {BEGINNING}) FROM '{COMMENT}') END AS query, \
         CASE WHEN state = 'idle' THEN extract(epoch FROM clock_timestamp() - state_change) * 1000000 END::bigint AS idle \
         FROM pg_stat_activity WHERE datname = current_database() AND (backend_type = 'client backend' OR backend_type IS NULL){which}"
    );
    let sessions = ask("sessions", sql, |rows| {
        let sessions = rows.iter().map(|row| {
            let query: Option<String> = row.get("query")?;
            let is_whole = query.as_deref() != Some(HIDDEN);
            let name: Option<String> = row.get("application_name")?;
            let said = introduction::claims(
                &name.unwrap_or_default(),
                query.as_deref().unwrap_or_default(),
            );
            let user: Option<String> = row.get("usename")?;
            let host: Option<String> = row.get("address")?;
            let port: Option<i64> = row.get("client_port")?;
            let place = match (host, port) {
                (Some(host), Some(port)) if host.contains(':') => format!("@[{host}]:{port}"),
                (Some(host), Some(port)) => format!("@{host}:{port}"),
                // -1: a local socket. Other roles see neither.
                (None, Some(_)) => "@[local]".to_owned(),
                _ => String::new(),
            };
            let idle: Option<i64> = row.get("idle")?;
            let idle = idle.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
            Ok(Seen {
                client: Client {
                    connection: row.get("pid")?,
                    address: user.map(|user| short_address(user + &place)),
                    claims: said,
                },
                idle,
                is_whole,
            })
        });
        sessions.collect()
    });
    sessions.up_to(LIST)
}
