//! Databases with dblock's tables that are used again. To make and drop one takes a server as much processor as a whole test.
//!
//! A database that a test has left is emptied when nothing uses it any more. Whoever is about to take one looks whether it is as it was
//! when `dblock init` had made it; if not, it is dropped.

use std::collections::VecDeque;
use std::fs;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, Row, from_value};

/// A server looks once a second whether the client of a statement is there. Twice that after a test its statements are over.
const REST: Duration = Duration::from_secs(2);

/// A table with more rows than this is not emptied: what the server believes of its size would be wrong.
const FEW: u64 = 1000;

/// The databases of one server that no test uses now.
#[derive(Debug, Default)]
pub struct Spares {
    /// What all of them are like; `None`: not known yet.
    shape: Option<Vec<String>>,
    /// As tests left them, and since when.
    left: VecDeque<(String, Instant)>,
    /// Empty ones.
    empty: VecDeque<String>,
}

impl Spares {
    /// Learns from the first database what an unused one is like.
    pub fn learn(&mut self, admin: &mut Conn, database: &str) {
        if self.shape.is_none() {
            self.shape = shape(admin, database).ok();
        }
    }

    /// One that is as new, if there is one.
    pub fn take(&mut self, admin: &mut Conn) -> Option<String> {
        while let Some(database) = self.empty.pop_front() {
            if let Ok(true) = is_as_new(admin, &database, self.shape.as_ref()) {
                return Some(database);
            }
            drop_database(admin, &database);
        }
        None
    }

    /// Takes one back, and empties those that nothing uses any more.
    pub fn give_back(&mut self, admin: &mut Conn, database: String) {
        self.left.push_back((database, Instant::now()));
        let rested = |(_, since): &&(String, Instant)| since.elapsed() > REST;
        let names: Vec<String> = self
            .left
            .iter()
            .take_while(rested)
            .map(|(name, _)| name.clone())
            .collect();
        for database in in_no_environment(names) {
            self.left.retain(|(left, _)| *left != database);
            match empty(admin, &database) {
                Ok(true) => self.empty.push_back(database),
                Ok(false) | Err(_) => drop_database(admin, &database),
            }
        }
        // The end of this session may come later than the next test.
        let _ = admin.query_drop("USE mysql");
    }
}

fn drop_database(admin: &mut Conn, database: &str) {
    let _ = admin.query_drop(format!("DROP DATABASE IF EXISTS `{database}`"));
}

/// Those of these databases, or ports of servers, that no process knows: each dblock that a test starts has them in its environment or among
/// its arguments, and so have its keeper and its commands.
pub fn in_no_environment(mut databases: Vec<String>) -> Vec<String> {
    if databases.is_empty() {
        return databases;
    }
    let all = fs::read_dir("/proc").expect("a /proc").flatten();
    for process in all.filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit()) {
        for file in ["environ", "cmdline"] {
            match fs::read(process.path().join(file)) {
                Ok(text) => {
                    let text = String::from_utf8_lossy(&text);
                    databases.retain(|database| !text.contains(database.as_str()));
                }
                // It may be anybody's.
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                    if name.starts_with("dblock") {
                        return Vec::new();
                    }
                }
                Err(_) => {}
            }
        }
    }
    databases
}

/// All that a test could find in the database but its rows: tables, views, triggers, who may do what, and what `dblock init` was told.
fn shape(admin: &mut Conn, database: &str) -> mysql::Result<Vec<String>> {
    admin.query_drop(format!("USE `{database}`"))?;
    let mut shape = Vec::new();
    let tables: Vec<String> = admin.query("SHOW TABLES")?;
    for table in tables {
        shape.push(definition(admin, &table)?);
    }
    let more = [
        "SELECT CONCAT_WS(' ', @@character_set_database, @@collation_database)".to_owned(),
        "SELECT CONCAT_WS(' ', id, version, usable_from, keep_seconds, keep_runs, fence_floor) FROM dblock_meta".to_owned(),
        format!("SELECT CONCAT_WS(' ', user, host, select_priv, insert_priv, update_priv, delete_priv, create_priv, alter_priv, \
                 index_priv, drop_priv, trigger_priv, references_priv) FROM mysql.db WHERE db = '{database}' ORDER BY user"),
        format!("SELECT CONCAT_WS(' ', user, table_name) FROM mysql.tables_priv WHERE db = '{database}'"),
        format!("SELECT CONCAT_WS(' ', user, table_name) FROM mysql.columns_priv WHERE db = '{database}'"),
    ];
    for query in more {
        shape.extend(admin.query::<String, _>(query)?);
    }
    let triggers: Vec<Row> = admin.query("SHOW TRIGGERS")?;
    shape.extend(
        triggers
            .into_iter()
            .map(|row| from_value::<String>(row[0].clone())),
    );
    Ok(shape)
}

/// The statement that makes a table, with the number of its next row if it has had some.
fn definition(admin: &mut Conn, table: &str) -> mysql::Result<String> {
    let row: Option<Row> = admin.query_first(format!("SHOW CREATE TABLE `{table}`"))?;
    Ok(row
        .map(|row| from_value(row[1].clone()))
        .unwrap_or_default())
}

/// The tables that have rows, and how many, up to one more than a few.
fn filled(admin: &mut Conn) -> mysql::Result<Vec<(String, u64)>> {
    let tables: Vec<String> = admin.query("SHOW TABLES")?;
    let counts: Vec<String> = tables
        .iter()
        .filter(|table| *table != "dblock_meta")
        .map(|table| {
            format!(
                "SELECT '{table}', COUNT(*) FROM (SELECT 1 FROM `{table}` LIMIT {}) few",
                FEW + 1
            )
        })
        .collect();
    let counts: Vec<(String, u64)> = admin.query(counts.join(" UNION ALL "))?;
    Ok(counts.into_iter().filter(|(_, rows)| *rows > 0).collect())
}

/// Empties the database; `false`: it would not be as new.
fn empty(admin: &mut Conn, database: &str) -> mysql::Result<bool> {
    admin.query_drop(format!("USE `{database}`"))?;
    admin.query_drop("SET lock_wait_timeout = 1, innodb_lock_wait_timeout = 1")?;
    let filled = filled(admin)?;
    if filled.iter().any(|(_, rows)| *rows > FEW) {
        return Ok(false);
    }
    let tables: Vec<String> = admin.query("SHOW TABLES")?;
    for table in tables {
        let has_rows = filled.iter().any(|(filled, _)| *filled == table);
        let create = definition(admin, &table)?;
        // The numbers begin anew, also where the rows that had some are gone.
        if create.contains(" AUTO_INCREMENT=") || has_rows && create.contains("AUTO_INCREMENT") {
            admin.query_drop(format!("TRUNCATE TABLE `{table}`"))?;
        } else if has_rows {
            admin.query_drop(format!("DELETE FROM `{table}`"))?;
        }
    }
    admin.query_drop("UPDATE dblock_meta SET fence_floor = 0, created_at = UTC_TIMESTAMP(6)")?;
    Ok(true)
}

/// Whether no test could tell the database from a new one.
fn is_as_new(admin: &mut Conn, database: &str, new: Option<&Vec<String>>) -> mysql::Result<bool> {
    let found = shape(admin, database)?;
    let users = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    let large = format!(
        "SELECT COUNT(*) FROM mysql.innodb_table_stats WHERE database_name = '{database}' AND n_rows > {FEW}"
    );
    for query in [users, &large] {
        if admin.query_first(query)? != Some(0) {
            return Ok(false);
        }
    }
    Ok(new == Some(&found) && filled(admin)?.is_empty())
}

super::both_servers! {
    fn a_test_finds_nothing_of_an_earlier_one(shared) {
        use crate::harness::{Jobs, SOON, Server, Tables, eventually, within};
        let server = Server::private(shared.kind).with_spares();
        let names = || -> Vec<String> {
            let names: Vec<String> = server.admin().query("SHOW DATABASES").unwrap();
            names.into_iter().filter(|name| name.starts_with("tables-")).collect()
        };
        // Whatever a test does, it does to its own.
        let used = Jobs::new(&server, &[]);
        let first = used.put(&["true"]);
        let name = used.tables.database.clone();
        let spoils: [&dyn Fn(&Tables); 8] = [
            &|tables| tables.sql("ALTER TABLE dblock_runs ADD COLUMN more INT NULL"),
            &|tables| tables.sql("DROP TABLE dblock_dead"),
            &|tables| tables.sql("CREATE VIEW seen AS SELECT 1 AS one"),
            &|tables| tables.sql("CREATE TRIGGER early BEFORE INSERT ON dblock_runs FOR EACH ROW SET NEW.pid = 1"),
            &|tables| tables.sql("UPDATE dblock_meta SET version = 99"),
            &|tables| tables.sql("UPDATE dblock_meta SET keep_runs = 7"),
            &|tables| tables.grant("CREATE", "dblock"),
            &|tables| tables.sql(&format!(
                "INSERT INTO dblock_job_keys SELECT 1, seq, seq FROM (WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < {FEW}) SELECT seq FROM n UNION ALL SELECT 0) all_of_them"
            )),
        ];
        let spoiled: Vec<Tables> = spoils.iter().map(|_| Tables::new(&server)).collect();
        for (spoil, tables) in spoils.iter().zip(&spoiled) {
            spoil(tables);
        }
        let others: Vec<String> = spoiled.iter().map(|tables| tables.database.clone()).collect();
        drop(used);
        drop(spoiled);

        // What has rested is emptied when the next one is given back.
        let rests = || within(REST + REST / 10, || false);
        rests();
        let mut again = None;
        eventually("the first one is used again", SOON, || {
            let tables = Tables::new(&server);
            assert!(!others.contains(&tables.database), "{}", tables.database);
            again = (tables.database == name).then_some(tables);
            again.is_some()
        });
        let jobs = Jobs { tables: again.unwrap() };
        jobs.assert_empty();
        jobs.does("create", &[]);
        assert_eq!(jobs.put(&["true"]), first);
        drop(jobs);
        // Also with a dblock that is there still, and with one row that came late.
        let late = Tables::new(&server);
        let late_name = late.database.clone();
        let mut running = late.at("run").args(["--name", "late", "--durable"]).sh("echo ran; exec sleep 600").spawn();
        running.wait_line("ran", SOON);
        drop(late);
        rests();
        drop(Tables::new(&server));
        let taken: Vec<Tables> = (0..5).map(|_| Tables::new(&server)).collect();
        assert!(taken.iter().all(|tables| tables.database != late_name));
        assert!(names().contains(&late_name), "it is dropped");
        drop(taken);
        drop(running);
        eventually("the others are dropped", SOON, || {
            drop(Tables::new(&server));
            !names().iter().any(|name| others.contains(name))
        });
    }
}
