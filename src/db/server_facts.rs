//! Facts about a server, a session, and the account's privileges, for `dblock check`.

use std::time::Duration;

use super::ask::{Ask, LIST, ask, ask_value, command};
use super::fault::{Fault, READ_ONLY, READ_ONLY_BY_DEFAULT};
use super::peer::Client;
use super::postgres_sql;
use super::session::Session;
use super::target::Kind;
use super::wire::Code;
use crate::base::clock::Moment;
use crate::base::text::ServerTime;

/// The number of round trips, of which the median counts.
pub const TRIES: usize = 5;

/// Facts about the server and this session.
#[derive(Debug, Clone, Default)]
pub struct SessionInfo {
    /// The connection id, as the server knows it, also behind a proxy.
    pub connection: u64,
    /// The account, as `user@host`.
    pub account: String,
    /// The server's version.
    pub version: String,
}

impl SessionInfo {
    /// Whether it is a MariaDB.
    pub fn is_mariadb(&self) -> bool {
        is_mariadb(&self.version, "")
    }

    /// The statement that lets this account end sessions of others.
    pub fn grant_to_kill(&self, kind: Kind) -> String {
        let account = self.quoted_account();
        match kind {
            Kind::Postgres => {
                let role = postgres_sql::quoted_identifier(&self.account);
                format!("GRANT pg_signal_backend TO {role}")
            }
            Kind::MySql if self.is_mariadb() => {
                format!("GRANT CONNECTION ADMIN ON *.* TO {account}")
            }
            Kind::MySql => format!("GRANT CONNECTION_ADMIN ON *.* TO {account}"),
        }
    }

    /// Whether a client is seen to have the same account.
    pub fn is_of_account_of(&self, client: &Client, kind: Kind) -> bool {
        let user = |account: &str| account.rsplit_once('@').map(|(user, _)| user.to_owned());
        let own = match kind {
            Kind::MySql => user(&self.account),
            // A role is the same from any host.
            Kind::Postgres => Some(self.account.clone()),
        };
        let other = client.address.as_deref().and_then(user);
        own.is_some() && own == other
    }

    /// The account, as a GRANT statement names it.
    pub fn quoted_account(&self) -> String {
        match self.account.rsplit_once('@') {
            Some((user, host)) => format!("'{user}'@'{host}'"),
            None => format!("'{}'", self.account),
        }
    }
}

/// Asks for the [`SessionInfo`].
pub fn ask_session_info(kind: Kind) -> Ask<'static, SessionInfo> {
    let sql = match kind {
        Kind::MySql => "SELECT CONNECTION_ID(), CURRENT_USER(), VERSION()",
        Kind::Postgres => "SELECT pg_backend_pid(), current_user, version()",
    };
    ask("session", sql, |rows| {
        let (connection, account, version) = rows.one()?.columns()?;
        Ok(SessionInfo {
            connection,
            account,
            version,
        })
    })
}

/// Asks for the server's time.
pub fn ask_time(kind: Kind) -> Ask<'static, ServerTime> {
    let now = kind.micros(kind.now());
    ask("now", format!("SELECT {now}"), |rows| {
        Ok(rows.value()?.unwrap_or_default())
    })
}

/// The server's product, or that of a proxy in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    TiDb,
    Vitess,
    ProxySql,
    MaxScale,
    XtraDbCluster,
    Percona,
    MariaDb,
    MySql,
    Postgres,
    CockroachDb,
    YugabyteDb,
}

/// Whether a server is MariaDB, even behind a proxy.
pub fn is_mariadb(version: &str, comment: &str) -> bool {
    [version, comment]
        .iter()
        .any(|text| text.to_ascii_lowercase().contains("mariadb"))
}

impl Product {
    /// The product that a server's version and version comment name.
    pub fn of(version: &str, comment: &str) -> Self {
        let both = format!("{version} {comment}").to_lowercase();
        let words = [
            ("tidb", Self::TiDb),
            ("vitess", Self::Vitess),
            ("proxysql", Self::ProxySql),
            ("maxscale", Self::MaxScale),
            ("xtradb cluster", Self::XtraDbCluster),
            ("percona", Self::Percona),
            ("mariadb", Self::MariaDb),
            ("cockroachdb", Self::CockroachDb),
            ("-yb-", Self::YugabyteDb),
            ("postgresql", Self::Postgres),
        ];
        let named = words.into_iter().find(|(word, _)| both.contains(word));
        named.map_or(Self::MySql, |(_, product)| product)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::TiDb => "TiDB",
            Self::Vitess => "Vitess",
            Self::ProxySql => "ProxySQL",
            Self::MaxScale => "MaxScale",
            Self::XtraDbCluster => "Percona XtraDB Cluster",
            Self::Percona => "Percona Server",
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
            Self::Postgres => "PostgreSQL",
            Self::CockroachDb => "CockroachDB",
            Self::YugabyteDb => "YugabyteDB",
        }
    }
}

/// A value that `SHOW` shows to every account; `None`: the server has no such variable or status.
pub enum Shown {
    /// A global variable.
    Variable(&'static str),
    /// A global status.
    Status(&'static str),
}

impl Shown {
    /// The value; `None` also if the server refuses it.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn value(&self, session: &mut Session) -> Result<Option<String>, Fault> {
        Ok(session.try_run(&self.ask())?.ok().flatten())
    }

    fn ask(&self) -> Ask<'static, Option<String>> {
        let (kind, name) = match self {
            Self::Variable(name) => ("VARIABLES", name),
            Self::Status(name) => ("STATUS", name),
        };
        let sql = format!("SHOW GLOBAL {kind} LIKE '{name}'");
        ask("check value", sql, |rows| {
            Ok(rows.optional(|row| row.at(1))?.flatten())
        })
    }

    /// Whether it is on.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn is_on(&self, session: &mut Session) -> Result<bool, Fault> {
        let value = self.value(session)?;
        Ok(value.as_deref().is_some_and(is_on))
    }
}

/// Why this server, which is read-only, is passed over.
pub fn why_read_only(session: &Session) -> &'static str {
    match session.parameter("in_hot_standby") {
        Some("off") => READ_ONLY_BY_DEFAULT,
        _ => READ_ONLY,
    }
}

/// Whether a server takes no writes.
///
/// # Errors
/// The session must be dropped.
pub fn is_read_only(session: &mut Session) -> Result<bool, Fault> {
    Ok(role(session)?.is_read_only)
}

/// A server's part among others.
#[derive(Debug, Clone, Copy, Default)]
pub struct Role {
    /// Whether it takes no writes, as a replica does not.
    pub is_read_only: bool,
    /// Whether it is a node of a Galera cluster.
    pub is_node: bool,
}

/// What a server says of its part; nothing in particular if it refuses to say.
///
/// # Errors
/// The session must be dropped.
pub fn role(session: &mut Session) -> Result<Role, Fault> {
    Ok(session
        .try_run(&ask_role(session.kind()))?
        .unwrap_or_default())
}

/// Asks by `SHOW`, which omits variables that a server does not have; reading their values would be an error.
fn ask_role(kind: Kind) -> Ask<'static, Role> {
    if kind == Kind::Postgres {
        return ask_is_in_recovery().map(|is_read_only| Role {
            is_read_only,
            is_node: false,
        });
    }
    let sql = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'innodb_read_only', 'wsrep_on')";
    let role = ask("role", sql, |rows| {
        let mut role = Role::default();
        for row in rows.iter() {
            let (name, value): (Option<String>, Option<String>) = row.columns()?;
            if value.as_deref().is_some_and(is_on) {
                if name.unwrap_or_default().ends_with("read_only") {
                    role.is_read_only = true;
                } else {
                    role.is_node = true;
                }
            }
        }
        Ok(role)
    });
    role.up_to(LIST)
}

/// Whether the value of a switch is that it is on. It is a number or a word; `read_only` on MariaDB from 12 on has several for that.
pub fn is_on(value: &str) -> bool {
    !matches!(&*value.to_ascii_uppercase(), "" | "0" | "OFF")
}

/// Whether a PostgreSQL takes no writes.
pub fn ask_is_in_recovery() -> Ask<'static, bool> {
    let sql = "SELECT (pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on')::int";
    ask("read-only", sql, |rows| rows.one()?.at(0))
}

/// How the account logs in.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// The authentication plugin; `None` if the server does not say.
    pub plugin: Option<String>,
    /// Whether it has a password, if its plugin needs one.
    pub has_password: bool,
}

impl Login {
    /// Reads a server's `CREATE USER` statement. Nothing of it but the plugin is ever shown.
    fn parse(statement: &str) -> Self {
        let native = || Some("mysql_native_password".to_owned());
        let (plugin, has_password) = match statement.split_once(" IDENTIFIED ") {
            // MariaDB writes nothing for an empty password.
            None => (
                statement.starts_with("CREATE USER").then(native).flatten(),
                false,
            ),
            Some((_, identified)) => {
                let mut words = identified.split_whitespace();
                let kind = words.next();
                let name = words.next().unwrap_or_default().trim_matches(['\'', '`']);
                let follows = words.next();
                let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                match kind {
                    Some("BY") => (native(), true),
                    Some("WITH" | "VIA") if is_name => {
                        let by_system =
                            ["auth_socket", "unix_socket", "gssapi", "pam", "named_pipe"];
                        let has_password =
                            by_system.contains(&name) || matches!(follows, Some("AS" | "USING"));
                        (Some(name.to_owned()), has_password)
                    }
                    _ => (None, true),
                }
            }
        };
        Self {
            plugin,
            has_password,
        }
    }
}

/// Asks for the [`Login`].
pub fn ask_login() -> Ask<'static, Login> {
    // A hash of MySQL's is not valid text.
    ask("check login", "SHOW CREATE USER CURRENT_USER()", |rows| {
        let statement: Option<String> = rows.value()?;
        Ok(Login::parse(&statement.unwrap_or_default()))
    })
}

/// Whether this server is a replica; old servers have another word for it.
fn ask_replica(word: &str) -> Ask<'static, bool> {
    let sql = format!("SHOW {word} STATUS");
    ask("check replica", sql, |rows| Ok(!rows.is_empty()))
}

/// Whether another server writes to this one; `None`: this account may not know.
///
/// # Errors
/// The session must be dropped.
pub fn is_replica(session: &mut Session) -> Result<Option<bool>, Fault> {
    let mut answer = session.try_run(&ask_replica("REPLICA"))?;
    // A syntax error: the server is older than the word.
    if matches!(answer, Err(Code::Number(1064))) {
        answer = session.try_run(&ask_replica("SLAVE"))?;
    }
    Ok(answer.ok())
}

/// Whether the server keeps connection attributes.
pub fn ask_keeps_attributes() -> Ask<'static, bool> {
    let sql = "SELECT COUNT(*) FROM performance_schema.session_account_connect_attrs \
         WHERE PROCESSLIST_ID = CONNECTION_ID()";
    ask("check attributes", sql, |rows| {
        Ok(rows.value::<u64>()?.is_some_and(|count| count > 0))
    })
}

/// Whether this account may see the sessions of all accounts.
pub fn ask_sees_all() -> Ask<'static, bool> {
    ask("check grants", "SHOW GRANTS", |rows| {
        let grants: Option<String> = rows.value()?;
        let grants = grants.unwrap_or_default();
        let global = grants.split(" ON ").next().unwrap_or_default();
        Ok(global.contains("PROCESS") || global.contains("ALL PRIVILEGES"))
    })
}

/// The connections in use, and the most there may be.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub in_use: u64,
    pub max: u64,
}

/// How many connections the account may have; 0: no limit.
fn ask_account_limit() -> Ask<'static, u64> {
    let sql = "SELECT @@session.max_user_connections";
    ask("check account limit", sql, |rows| {
        Ok(rows.value()?.unwrap_or_default())
    })
}

/// How many connections the account has. It may see its own sessions.
fn ask_account_sessions() -> Ask<'static, Option<u64>> {
    let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = \
         LEFT(USER(), LENGTH(USER()) - LOCATE('@', REVERSE(USER())))";
    ask_value("check account sessions", sql)
}

/// The connections of the whole server; `None`: the server does not say.
///
/// # Errors
/// The session must be dropped.
pub fn usage_of_server(session: &mut Session) -> Result<Option<Usage>, Fault> {
    let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
    let in_use = number(Shown::Status("Threads_connected").value(session)?);
    let max = number(Shown::Variable("max_connections").value(session)?);
    Ok(in_use.zip(max).map(|(in_use, max)| Usage { in_use, max }))
}

/// The connections of this account; `None`: it may have as many as the server.
///
/// # Errors
/// The session must be dropped.
pub fn usage_of_account(session: &mut Session) -> Result<Option<Usage>, Fault> {
    let Ok(max @ 1..) = session.try_run(&ask_account_limit())? else {
        return Ok(None);
    };
    let in_use = session.try_run(&ask_account_sessions())?.ok().flatten();
    Ok(in_use.map(|in_use| Usage { in_use, max }))
}

/// An empty question, for measuring round trips.
pub fn ping() -> Ask<'static, ()> {
    command("check ping", "SELECT 1")
}

/// The median duration of an action that runs [`TRIES`] times. The `undo` after each does not count.
///
/// # Errors
/// As the action.
pub fn median(
    session: &mut Session,
    action: impl Fn(&mut Session) -> Result<(), Fault>,
    undo: impl Fn(&mut Session) -> Result<(), Fault>,
) -> Result<Duration, Fault> {
    let mut spans = [Duration::ZERO; TRIES];
    for span in &mut spans {
        let begun = Moment::now();
        action(session)?;
        *span = begun.elapsed();
        undo(session)?;
    }
    spans.sort_unstable();
    Ok(spans[TRIES / 2])
}

#[cfg(test)]
mod tests {
    use super::{Login, is_on};

    #[test]
    fn a_switch_is_on_whatever_the_word_for_that_is() {
        for on in ["1", "ON", "on", "NO_LOCK", "NO_LOCK_NO_ADMIN"] {
            assert!(is_on(on), "{on}");
        }
        for off in ["0", "OFF", "off", ""] {
            assert!(!is_on(off), "{off}");
        }
    }

    #[test]
    fn a_plugin_is_told_apart_from_the_hash_beside_it() {
        for (statement, name, has_password) in [
            (
                "CREATE USER `a`@`%` IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$\u{fffd} x' REQUIRE NONE",
                "caching_sha2_password",
                true,
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED WITH 'caching_sha2_password' REQUIRE NONE",
                "caching_sha2_password",
                false,
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED WITH 'auth_socket' REQUIRE NONE",
                "auth_socket",
                true,
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED BY PASSWORD '*0123'",
                "mysql_native_password",
                true,
            ),
            (
                "CREATE USER `a`@`%` IDENTIFIED VIA ed25519 USING 'abc' OR unix_socket",
                "ed25519",
                true,
            ),
            ("CREATE USER `a`@`%`", "mysql_native_password", false),
        ] {
            let login = Login::parse(statement);
            assert_eq!(login.plugin.as_deref(), Some(name), "{statement}");
            assert_eq!(login.has_password, has_password, "{statement}");
        }
        assert_eq!(Login::parse("").plugin, None);
        assert_eq!(Login::parse("x IDENTIFIED WITH '*0 1' AS").plugin, None);
    }
}
