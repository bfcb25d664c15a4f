//! What this account may not see, and how to see it.

use super::{Census, Registry};
use crate::db::Kind;
use crate::db::postgres_sql::quoted_identifier;

impl Census {
    /// What could not be seen of the reported sessions, or of others, and how to see it. All rows can be seen.
    pub fn unseen(&self, reported: &[u64], lists: bool, has_rows: bool) -> Vec<String> {
        if self.kind == Kind::Postgres {
            return self.unseen_sessions(lists);
        }
        let account = self.info.quoted_account();
        // Our own session has claims. If they are missing, the server keeps none.
        let are_kept = self.claims.contains_key(&self.info.connection);
        let silent = reported.iter().filter(|id| !self.claims.contains_key(id));
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
            let how = if self.info.is_mariadb() {
                "INSTALL SONAME 'metadata_lock_info' shows them".to_owned()
            } else {
                format!("GRANT SELECT ON performance_schema.* TO {account} shows them")
            };
            let which = match (are_kept, has_rows) {
                (true, false) => "locks of other accounts",
                (false, false) => "locks that nobody waits for",
                (true, true) => "locks of other accounts that are not durable",
                (false, true) => "locks that are not durable and that nobody waits for",
            };
            unseen.push(format!("{which}: {how}; or name them"));
        }
        // Without claims, the address helps to find the process.
        let address = silent
            .filter_map(|id| self.processes.get(id))
            .find_map(|process| {
                let (_, address) = process.address.rsplit_once('@')?;
                let (host, port) = address.rsplit_once(':')?;
                let port: u16 = port.parse().ok()?;
                Some((host.to_owned(), port))
            });
        if let Some((host, port)) = address {
            unseen.push(format!(
                "the process of a session: as root on {host}, ss -tnp 'sport = :{port}' shows that of the first"
            ));
        }
        unseen
    }

    /// As [`Census::unseen`], on PostgreSQL.
    fn unseen_sessions(&self, lists: bool) -> Vec<String> {
        let role = quoted_identifier(&self.info.account);
        let mut unseen = Vec::new();
        if !self.claims_of_all {
            unseen.push(format!(
                "addresses, times, and what does not fit into application_name, of other roles: \
                 GRANT pg_read_all_stats TO {role} shows them"
            ));
        }
        if lists {
            unseen.push(
                "locks that other programs hold: the server knows them by their keys; name them"
                    .to_owned(),
            );
        }
        unseen
    }
}
