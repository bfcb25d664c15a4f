//! What people did: who paused, resumed, triggered, retried, canceled or killed what. Tables of an older version have no place for it, and
//! nothing is written there.

use std::env;

use serde::{Deserialize, Serialize};

use super::entry::PAGE;
use super::kept::{BATCH, delete_rows};
use super::prune::ask_keep;
use crate::base::log::Level;
use crate::base::text::ServerTime;
use crate::base::user::local_user;
use crate::db::{Ask, Fault, Kind, Session, ask, ask_values, command, named};
use crate::lock::own_host;
use crate::schema::{AUDIT, Tables};

/// By what something was done, if not by a command that somebody typed: `dblock web` sets this variable to [`WEB`] for what it runs.
pub const VIA: &str = "DBLOCK_VIA";

/// The only value of [`VIA`] that counts.
const WEB: &str = "web";

/// Something that somebody does.
#[derive(Debug, Clone)]
pub struct Deed {
    /// The subcommand, as it is typed after `dblock`.
    pub action: &'static str,
    /// The job of the crontab, the queue, or the lock.
    pub object: String,
    /// Which jobs, or which holder; `None`: there is nothing to say.
    pub detail: Option<String>,
}

impl Deed {
    /// What somebody does to this job or queue, or to some of its jobs.
    pub fn to(object: &str, action: &'static str, detail: Option<String>) -> Self {
        Self {
            action,
            object: object.to_owned(),
            detail,
        }
    }

    /// Records it, in the name of this process. A server that refuses the record, as to an account that may not write to the table, keeps
    /// nobody from what is recorded: the session tells of it.
    ///
    /// # Errors
    /// Those of a statement that may succeed when it is sent again, and of a session that has ended.
    pub fn record(&self, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
        self.record_then(tables, session, |_| Ok(()))
    }

    /// As [`Deed::record`], within a transaction, and only if that is committed. After a refusal the transaction goes on.
    ///
    /// # Errors
    /// As [`Deed::record`].
    pub fn record_with(&self, tables: &Tables, session: &mut Session) -> Result<(), Fault> {
        // PostgreSQL ends a transaction at the first error in it, unless that can be undone.
        let is_undone = tables.kind() == Kind::Postgres && tables.has_audit();
        if is_undone {
            session.run(&command("audit", "SAVEPOINT audit"))?;
        }
        self.record_then(tables, session, |session| {
            if is_undone {
                session.run(&command("audit", "ROLLBACK TO SAVEPOINT audit"))?;
            }
            Ok(())
        })
    }

    fn record_then(
        &self,
        tables: &Tables,
        session: &mut Session,
        on_refusal: impl FnOnce(&mut Session) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if !tables.has_audit() {
            return Ok(());
        }
        match session.run(&self.insertion(tables)) {
            Err(
                fault @ (Fault::Final(_)
                | Fault::Untrusted(_)
                | Fault::NoSuchTable(_)
                | Fault::NoRoom(_)),
            ) => {
                on_refusal(session)?;
                let line = format!(
                    "dblock audit will not show this, as it cannot be recorded: {fault}; dblock init makes the table and says the GRANT"
                );
                session.tell(Level::Warning, &line);
                Ok(())
            }
            recorded => recorded,
        }
    }

    fn insertion(&self, tables: &Tables) -> Ask<'static, ()> {
        let kind = tables.kind();
        let value = |column, text: Option<&str>| AUDIT.literal(kind, column, text);
        let via = env::var(VIA).ok().filter(|via| via == WEB);
        let values = [
            kind.now().to_owned(),
            value("action", Some(self.action)),
            value("object", Some(&self.object)),
            value("detail", self.detail.as_deref()),
            value("by_user", Some(&format!("{}@{}", local_user(), own_host()))),
            value("via", via.as_deref()),
        ];
        command(
            "audit",
            format!(
                "INSERT INTO {} (at, action, object, detail, by_user, via) VALUES ({})",
                tables.of(&AUDIT),
                values.join(", ")
            ),
        )
    }
}

/// Deletes some deeds that are older than the history is kept, at least as many as were `added`. Whoever adds some calls it afterwards, so
/// that the table does not grow without end.
///
/// # Errors
/// Those of a statement. Nothing is lost by them.
pub fn prune_deeds(tables: &Tables, session: &mut Session, added: usize) -> Result<(), Fault> {
    if !tables.has_audit() {
        return Ok(());
    }
    let Some(keep) = session.run(&ask_keep(tables))? else {
        return Ok(());
    };
    let kind = tables.kind();
    let limit = kind.once(kind.seconds_ago(keep.seconds));
    let table = tables.of(&AUDIT);
    let old = format!("SELECT id FROM {table} WHERE at < {limit} ORDER BY at LIMIT {BATCH}");
    let old = ask_values("old deeds", old).up_to(BATCH);
    for _ in 0..=added / BATCH {
        let old: Vec<u64> = session.run(&old)?;
        let delete = old
            .iter()
            .map(|id| named("prune", format!("DELETE FROM {table} WHERE id = {id}")));
        delete_rows(delete.collect(), session)?;
        if old.len() < BATCH {
            break;
        }
    }
    Ok(())
}

/// What somebody did, as it is recorded, also for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDeed {
    /// When, by the server's clock.
    pub at: ServerTime,
    /// As in [`Deed`].
    pub action: String,
    pub object: String,
    pub detail: Option<String>,
    /// The user of the operating system, and the host.
    pub by: Option<String>,
    /// By what; `None`: by a command.
    pub via: Option<String>,
}

/// Reports the latest deeds, the newest first; without a limit all of them.
///
/// # Errors
/// Those of a statement.
pub fn list_deeds(
    tables: &Tables,
    limit: Option<usize>,
    session: &mut Session,
    mut report: impl FnMut(RecordedDeed),
) -> Result<(), Fault> {
    let mut left = limit.unwrap_or(usize::MAX);
    let mut before = None;
    while left > 0 {
        let page = PAGE.min(left);
        let found = session.run(&ask_deeds(tables, before, page));
        let found = found.map_err(|fault| tables.explain(fault))?;
        left = if found.len() < page { 0 } else { left - page };
        for (id, deed) in found {
            before = Some(id);
            report(deed);
        }
    }
    Ok(())
}

/// Asks for the latest deeds with a smaller id than this, the newest first, each with its id.
fn ask_deeds(
    tables: &Tables,
    before: Option<u64>,
    limit: usize,
) -> Ask<'static, Vec<(u64, RecordedDeed)>> {
    let at = tables.kind().micros("at");
    let older = before.map_or_else(String::new, |id| format!("WHERE id < {id} "));
    let sql = format!(
        "SELECT id, {at} AS at_us, action, object, detail, by_user, via FROM {} {older}ORDER BY id DESC LIMIT {limit}",
        tables.of(&AUDIT)
    );
    let deeds = ask("audit", sql, |rows| {
        rows.all(|row| {
            let text = |column| AUDIT.text(column, row);
            let deed = RecordedDeed {
                at: row.get("at_us")?,
                action: text("action")?.unwrap_or_default(),
                object: text("object")?.unwrap_or_default(),
                detail: text("detail")?,
                by: text("by_user")?,
                via: text("via")?,
            };
            Ok((row.get("id")?, deed))
        })
    });
    deeds.up_to(limit)
}
