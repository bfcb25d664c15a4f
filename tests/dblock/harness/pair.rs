//! A primary and its replica.

use std::thread;

use mysql::prelude::Queryable;

use super::{Kind, SOON, Server, eventually, unique};

/// A primary and a server that replicates it and is read-only.
#[derive(Debug)]
pub struct Pair {
    pub primary: Server,
    pub replica: Server,
}

impl Pair {
    /// A pair for one test.
    pub fn private(kind: Kind) -> Self {
        let start = |id| {
            let id = format!("--server-id={id}");
            let mut options = vec![&*id, "--log-bin=binlog"];
            if kind == Kind::MySql {
                options.extend(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]);
            }
            Server::private_with(kind, &options)
        };
        let (primary, replica) = both(|| start(1), || start(2));
        let pair = Self { primary, replica };
        pair.replicate();
        pair
    }

    /// Has the replica follow the primary, from the primary's first event on, and sees that it does.
    fn replicate(&self) {
        let port = self.primary.port;
        let follow = match self.primary.kind {
            Kind::MariaDb => format!(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'admin',
                 MASTER_PASSWORD = 'admin-secret', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos"
            ),
            Kind::Postgres => unreachable!("a test of MySQL"),
            Kind::MySql => format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'admin',
                 SOURCE_PASSWORD = 'admin-secret', SOURCE_CONNECT_RETRY = 1, SOURCE_AUTO_POSITION = 1,
                 GET_SOURCE_PUBLIC_KEY = 1"
            ),
        };
        let mut replica = self.replica.admin();
        replica.query_drop(follow).expect("a primary is accepted");
        let start = match self.primary.kind {
            Kind::MariaDb => "START SLAVE",
            Kind::Postgres => unreachable!("a test of MySQL"),
            Kind::MySql => "START REPLICA",
        };
        replica.query_drop(start).expect("replication starts");
        self.replica.set_read_only(true);
        self.catch_up();
    }

    /// Waits until the replica has what the primary has by now.
    #[track_caller]
    fn catch_up(&self) {
        let mark = unique("replicated");
        self.primary
            .admin()
            .query_drop(format!("CREATE DATABASE `{mark}`"))
            .expect("a primary can be written to");
        let mut replica = self.replica.admin();
        eventually("the replica has what the primary has", SOON, || {
            let found = replica.query_first::<String, _>(format!("SHOW DATABASES LIKE '{mark}'"));
            found.expect("an answer").is_some()
        });
    }

    /// The replica takes the place of the primary, with what that has by now. What is written to the old primary from then on is lost.
    #[track_caller]
    pub fn part(&self) {
        self.catch_up();
        let stop = match self.primary.kind {
            Kind::MariaDb => "STOP SLAVE",
            Kind::Postgres => unreachable!("a test of MySQL"),
            Kind::MySql => "STOP REPLICA",
        };
        let mut replica = self.replica.admin();
        replica.query_drop(stop).expect("replication stops");
        self.primary.set_read_only(true);
        self.replica.set_read_only(false);
    }
}

impl Server {
    /// Makes it a server that takes writes, or one that does not.
    pub fn set_read_only(&self, read_only: bool) {
        let value = u8::from(read_only);
        if self.kind == Kind::Postgres {
            let mut admin = self.postgres();
            admin.run(&format!(
                "ALTER SYSTEM SET default_transaction_read_only = {read_only}"
            ));
            admin.run("SELECT pg_reload_conf()");
            let is_read_only = "current_setting('default_transaction_read_only')::boolean";
            return eventually("new sessions know it", SOON, || {
                let mut new = self.new_admin().unwrap();
                new.is(is_read_only) == read_only
            });
        }
        self.admin()
            .query_drop(format!("SET GLOBAL read_only = {value}"))
            .expect("the admin may set it");
    }

    /// A new account that may write there also while the server is read-only.
    pub fn account_above_read_only(&self) -> String {
        let account = self.account();
        self.let_write_above_read_only(&account);
        account
    }

    /// Lets an account write there also while the server is read-only.
    pub fn let_write_above_read_only(&self, account: &str) {
        let privilege = match self.kind {
            Kind::MariaDb => "READ_ONLY ADMIN",
            Kind::MySql => "CONNECTION_ADMIN",
            Kind::Postgres => unreachable!("a test of MySQL"),
        };
        self.admin()
            .query_drop(format!("GRANT {privilege} ON *.* TO '{account}'@'%'"))
            .expect("the admin may do that");
    }
}

/// Does two things at once.
fn both<T: Send>(one: impl FnOnce() -> T + Send, other: impl FnOnce() -> T + Send) -> (T, T) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().expect("as the other"), other)
    })
}
