//! `dblock metrics`: locks, jobs of the crontab, queues and the server, in the format that Prometheus and its like collect. It asks what
//! `status`, `cron list` and `queue status` ask.

mod exposition;
mod families;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cron::CronStatus;
use super::output::print;
use super::question::{Asker, Question};
use super::queue::{OfQueue, add};
use super::status::{Locks, take_census};
use super::watch::Watched;
use crate::base::clock::Moment;
use crate::base::exit::{Ending, Failure, Reason};
use crate::base::file;
use crate::base::log::Level;
use crate::base::text::ServerTime;
use crate::cron::{self, Listed};
use crate::db::server_facts::Product;
use crate::db::{Fault, Session, ask_session_info, ask_time};
use crate::history::latest_successes;
use crate::lock::named::CensusItem;
use crate::queue::{Scope, StatusItem, status};
use crate::schema::Tables;
use crate::settings::cli::CommandLine;
use crate::settings::metrics::{self, Metrics};
use exposition::exposition;
use families::families;

/// An item of the server's answer.
#[derive(Serialize, Deserialize)]
enum Item {
    Server(Server),
    Lock(CensusItem),
    /// dblock's tables can be used.
    HasTables,
    Cron(Listed),
    /// The end of the latest success of a job whose last run is none.
    Success(String, ServerTime),
    Queue(StatusItem),
    /// Of these things so many are left out because of the limit.
    Omitted(Thing, usize),
}

/// What the limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Thing {
    Lock,
    Job,
    Queue,
}

/// The server that answered.
#[derive(Serialize, Deserialize)]
struct Server {
    product: String,
    version: String,
    /// Its time.
    now: ServerTime,
}

/// The server's whole answer.
#[derive(Default)]
struct Answer {
    /// `None`: no server has answered.
    server: Option<Server>,
    locks: Locks,
    has_tables: bool,
    cron: CronStatus,
    /// The latest successes of jobs whose last run is none.
    successes: Vec<(String, ServerTime)>,
    queues: Vec<OfQueue>,
    omitted: Vec<(Thing, usize)>,
    /// How long it took to connect and to ask.
    took: Duration,
}

impl Answer {
    fn add(&mut self, item: Item) {
        match item {
            Item::Server(server) => self.server = Some(server),
            Item::Lock(found) => self.locks.add(found),
            Item::HasTables => self.has_tables = true,
            Item::Cron(item) => self.cron.add(item),
            Item::Success(job, ended) => self.successes.push((job, ended)),
            Item::Queue(item) => drop(add(item, &mut self.queues)),
            Item::Omitted(thing, number) => self.omitted.push((thing, number)),
        }
    }
}

/// Asks the server, prints the answer or writes it to the file, and returns dblock's exit.
///
/// # Errors
/// Why the server could not be asked, or the file not be written.
pub fn metrics(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (metrics, common) = metrics::read(command_line)?;
    let question = Question::about_locks("dblock metrics", "the metrics", &common);
    let mut answer = Answer::default();
    let begun = Moment::now();
    let asked = question.ask(|asker| gather(&metrics, asker), |item| answer.add(item));
    answer.took = begun.elapsed();
    if asked.is_err() {
        // Half an answer would look as if the rest were not there.
        answer = Answer::default();
    }
    let Some(path) = &metrics.output else {
        asked?;
        print(&exposition(families(&answer)))?;
        return Ok(Ending::Code(0));
    };
    // Also without an answer: an old one in the file would look like a new one.
    let written = file::replace(path, exposition(families(&answer)).as_bytes());
    let written =
        written.map_err(|error| Failure::refused(&format!("write {}", path.display()), &error));
    if asked.is_err()
        && let Err(failure) = &written
    {
        common.log.warning(failure);
    }
    asked?;
    written?;
    Ok(Ending::Code(0))
}

/// Asks for everything that the server has.
fn gather(metrics: &Metrics, asker: &mut Asker<Item>) -> Result<(), Fault> {
    let Asker {
        inspector,
        tables,
        answers,
        ..
    } = asker;
    let kind = inspector.session.kind();
    let info = inspector.session.run(&ask_session_info(kind))?;
    let now = inspector.session.run(&ask_time(kind))?;
    let version = inspector.session.parameter("server_version");
    answers.send(Item::Server(Server {
        product: Product::of(&info.version, "").name().to_owned(),
        version: version.unwrap_or(&info.version).to_owned(),
        now,
    }));
    let mut unseen = Vec::new();
    let report = &mut |found: CensusItem| {
        if let CensusItem::Unseen(line) = &found {
            unseen.push(line.clone());
        }
        answers.send(Item::Lock(found));
    };
    let omitted = take_census(Vec::new(), metrics.limit, tables, inspector, report)?;
    answers.send(Item::Omitted(Thing::Lock, omitted));
    let session = &mut inspector.session;
    for line in unseen {
        session.tell(Level::Info, &format!("not visible: {line}"));
    }
    let checked = tables.check(session);
    if !has(checked, session)? {
        return Ok(());
    }
    answers.send(Item::HasTables);
    let mut report = |item| answers.send(item);
    let crontab = ask_cron(metrics, tables, session, &mut report);
    has(crontab, session)?;
    if metrics.has_queues {
        let queues = ask_queues(metrics, tables, session, &mut report);
        has(queues, session)?;
    }
    Ok(())
}

/// Whether the server has what was asked for, and this account may read it.
fn has(asked: Result<(), Fault>, session: &Session) -> Result<bool, Fault> {
    match asked {
        Ok(()) => Ok(true),
        Err(Fault::Final(Failure {
            reason: Reason::Configuration | Reason::AccountRefused,
            line,
        })) => {
            session.tell(Level::Info, &format!("left out: {line}"));
            Ok(false)
        }
        Err(fault) => Err(fault),
    }
}

fn ask_cron(
    metrics: &Metrics,
    tables: &Tables,
    session: &mut Session,
    report: &mut impl FnMut(Item),
) -> Result<(), Fault> {
    tables.check_cron(session)?;
    let (mut jobs, mut unsuccessful) = (0, Vec::new());
    let most = metrics.limit.unwrap_or(usize::MAX);
    let listed = cron::list(tables, session, |item| {
        if let Listed::Job(job) = &item {
            jobs += 1;
            if jobs > most {
                return;
            }
            if job.last.is_some() && !job.has_succeeded() {
                unsuccessful.push(job.name.clone());
            }
        }
        report(Item::Cron(item));
    });
    listed.map_err(|fault| tables.explain(fault))?;
    report(Item::Omitted(Thing::Job, jobs.saturating_sub(most)));
    let found = latest_successes(&unsuccessful, tables, session);
    for (job, ended) in found.map_err(|fault| tables.explain(fault))? {
        report(Item::Success(job, ended));
    }
    Ok(())
}

fn ask_queues(
    metrics: &Metrics,
    tables: &Tables,
    session: &mut Session,
    report: &mut impl FnMut(Item),
) -> Result<(), Fault> {
    tables.check_queues(session)?;
    let scope = Scope {
        limit: metrics.limit,
        ..Scope::default()
    };
    let omitted = status(&scope, tables, session, |item| report(Item::Queue(item)));
    let omitted = omitted.map_err(|fault| tables.explain(fault))?;
    report(Item::Omitted(Thing::Queue, omitted));
    Ok(())
}
