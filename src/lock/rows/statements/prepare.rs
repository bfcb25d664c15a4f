//! How a session is prepared for the tables of durable locks, with what must be known of its server.

use std::time::Duration;

use crate::db::cluster::{HAS_NOT_JOINED, IS_MULTI_PRIMARY, NOT_JOINED};
use crate::db::{
    Batch, Fault, Kind, READ_ONLY, READ_ONLY_BY_DEFAULT, Reply, Row, named, no_answer, sql,
};
use crate::lock::named::{First, FirstAnswer};
use crate::schema::{
    self, CATCH_UP_IN_GROUP, LONGEST_LOCK_WAIT, LONGEST_ROW_WAIT, Node, Tables, Version,
    prepare_sql,
};

/// Why a PostgreSQL with one of these extensions is passed over.
const MERGES_WRITES: &str = "replicates what several servers write (bdr, spock, pgactive): a row that one of them grants, another one grants, too";

/// How a server writes its binary log. It is deprecated on MySQL; a server without it has no statements there.
pub const BINLOG_FORMAT: &str = "binlog_format";

/// Prepares a session for the tables.
pub struct Prepare<'a> {
    /// The tables.
    pub tables: &'a Tables,
    /// As with [`prepare_sql`].
    pub catches_up: bool,
    /// Whether the server may know [`BINLOG_FORMAT`].
    pub has_binlog_format: bool,
    /// How long the server may take for an answer to a later statement.
    pub limit: Duration,
}

/// What must be known of a server with the tables.
#[derive(Debug, Clone, Copy)]
pub struct Prepared {
    /// The version of the tables.
    pub version: Option<Version>,
    /// The server's time, in microseconds since 1970.
    pub clock: i64,
    /// Why to pass it over; `None`: it takes writes, and for all servers.
    pub refusal: Option<&'static str>,
    /// Whether several servers take writes, each with its own named locks.
    pub is_cluster: bool,
    /// Its role in a Galera cluster.
    pub node: Node,
    /// Whether its binary log has statements, which its replicas carry out with variables of their own.
    pub logs_statements: bool,
}

impl Prepare<'_> {
    /// The statements that every server answers. Extensions of PostgreSQL that replicate between several servers that all take writes merge
    /// what those have written, so that a row excludes nobody.
    fn of_all(&self) -> [String; 2] {
        let kind = self.tables.kind();
        let (prepare, is_read_only, what, logs_statements) = match kind {
            Kind::MySql => (
                prepare_sql(self.catches_up) + &self.limit_lock_waits(),
                sql::is_read_only(),
                "@@global.version_comment",
                if self.has_binlog_format {
                    format!("COALESCE(@@log_bin AND @@{BINLOG_FORMAT} = 'STATEMENT', 0)")
                } else {
                    "0".to_owned()
                },
            ),
            Kind::Postgres => (
                schema::postgres_prepare(self.lock_waits()).sql().to_owned(),
                "CASE WHEN pg_is_in_recovery() THEN 1 WHEN current_setting('default_transaction_read_only') = 'on' THEN 2 END"
                    .to_owned(),
                "(SELECT min(extname) FROM pg_extension WHERE extname IN ('bdr', 'spock', 'pgactive'))",
                "0".to_owned(),
            ),
        };
        let version = format!(
            "SELECT version, usable_from, {}, {is_read_only}, {what}, {logs_statements} FROM {} WHERE id = 1",
            kind.micros(kind.now()),
            self.tables.meta()
        );
        [prepare, named("version", version)]
    }

    /// How long a statement waits for a locked row or table, at most.
    fn lock_waits(&self) -> Duration {
        (self.limit / 2).max(Duration::from_secs(1))
    }

    /// A server that only waits for a locked row or table must say so before dblock gives up on its answer. Otherwise it looks like one
    /// that is out of reach.
    fn limit_lock_waits(&self) -> String {
        let seconds = self.lock_waits().as_secs();
        if seconds < LONGEST_LOCK_WAIT {
            let for_row = seconds.min(LONGEST_ROW_WAIT);
            format!(
                ", SESSION lock_wait_timeout={seconds}, SESSION innodb_lock_wait_timeout={for_row}"
            )
        } else {
            String::new()
        }
    }

    /// The statements for members of a cluster. A server that cannot be a member does not know the variables. A member that is cut off
    /// from the others does not answer the second one.
    fn of_clusters(&self) -> Vec<String> {
        if self.tables.kind() == Kind::Postgres {
            return Vec::new();
        }
        let group = format!(
            "SELECT 0 /*M!100100 + @@global.wsrep_on */, 0 /*!80014 + ({IS_MULTI_PRIMARY}) FROM {} WHERE id = 1 */",
            self.tables.meta()
        );
        let joined = format!("SELECT 0 /*!80014 + {HAS_NOT_JOINED} */");
        vec![
            CATCH_UP_IN_GROUP.to_owned(),
            named("group", group),
            named("group", joined),
        ]
    }

    /// The statements, and the reader of their answers.
    pub fn batch(&self) -> Batch<'static, Prepared> {
        let all = self.of_all().into_iter().chain(self.of_clusters());
        let kind = self.tables.kind();
        Batch::written(all.collect()).read(move |replies, fault| match replies {
            [_, all, of_clusters @ ..] => Prepared::read(kind, all, of_clusters, fault),
            _ => Err(fault.unwrap_or_else(no_answer)),
        })
    }

    /// As [`Prepare::batch`], with the first statements for the named lock in the same packet. Returns the answers of both, or the fault of
    /// the named lock's statements: the session is prepared only if they were answered.
    pub fn batch_with<'a>(&self, first: &'a First) -> Batch<'a, PreparedAndOpened> {
        let all = self.of_all().into_iter().chain(first.statements());
        let all = all.chain(self.of_clusters());
        let kind = self.tables.kind();
        Batch::written(all.collect()).read(move |replies, fault| match (replies, fault) {
            ([_, _] | [_, _, _], Some(fault)) => Ok(Err(fault)),
            ([_, all, _, opened, of_clusters @ ..], fault) => {
                let prepared = Prepared::read(kind, all, of_clusters, fault)?;
                Ok(Ok((prepared, first.read(opened.rows())?)))
            }
            (_, fault) => Err(fault.unwrap_or_else(no_answer)),
        })
    }
}

/// The answers to [`Prepare::batch_with`].
pub type PreparedAndOpened = Result<(Prepared, FirstAnswer), Fault>;

impl Prepared {
    /// Reads the answer to the second statement of [`Prepare::of_all`], and those to [`Prepare::of_clusters`], with the fault that ended
    /// the packet.
    fn read(
        kind: Kind,
        of_all: &Reply,
        of_clusters: &[Reply],
        fault: Option<Fault>,
    ) -> Result<Self, Fault> {
        match fault {
            // The server cannot be a member of a cluster.
            Some(Fault::NoSuchVariable(_)) => {}
            // After two answers it does not matter whether it has joined.
            Some(fault) if of_clusters.len() < 2 || matches!(fault, Fault::Gone(_)) => {
                return Err(fault);
            }
            _ => {}
        }
        let version = of_all.rows().optional(Version::read)?;
        let (clock, is_read_only, what, logs_statements): (
            Option<i64>,
            Option<i64>,
            Option<String>,
            Option<i64>,
        ) = match of_all.rows().first() {
            Some(row) => (row.at(2)?, row.at(3)?, row.at(4)?, row.at(5)?),
            // The version says that there is no row.
            None => (None, None, None, None),
        };
        let group = of_clusters
            .get(1)
            .map(|reply| reply.rows().optional(Row::columns));
        let (wsrep_on, is_multi_primary): (Option<i64>, Option<i64>) =
            group.transpose()?.flatten().unwrap_or_default();
        let joined = of_clusters.get(2).map(|reply| reply.rows().value::<i64>());
        let has_not_joined = joined.transpose()?.flatten();
        let (node, merges) = match kind {
            Kind::MySql => (Node::of(what.as_deref(), wsrep_on == Some(1)), false),
            Kind::Postgres => (Node::Single, what.is_some()),
        };
        let refusal = match (is_read_only, has_not_joined) {
            (Some(1), _) => Some(READ_ONLY),
            (Some(2), _) => Some(READ_ONLY_BY_DEFAULT),
            (_, Some(1)) => Some(NOT_JOINED),
            _ => merges.then_some(MERGES_WRITES),
        };
        Ok(Self {
            version,
            clock: clock.unwrap_or_default(),
            refusal,
            is_cluster: node != Node::Single || is_multi_primary == Some(1),
            node,
            logs_statements: logs_statements == Some(1),
        })
    }
}
