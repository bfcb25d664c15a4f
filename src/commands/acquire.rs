//! `dblock acquire`: a lock that spans several commands of a script. A separate process acquires the row. It releases the row again unless
//! it learns that the token was printed.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::output::{in_json, print_to_reader};
use super::question::{begin, listener_of, unanswered};
use crate::base::clock::Moment;
use crate::base::exit::{CONFLICT, Ending, Failure, Reason};
use crate::base::log::Level;
use crate::base::random;
use crate::base::text::seconds;
use crate::db::Ask;
use crate::history::{Journal, Outcome, RunEnd, RunFacts, SKIP_LIMIT};
use crate::isolated::link::{Link, cut};
use crate::isolated::process::die_with;
use crate::isolated::query::{self, Limits, Message, send_item};
use crate::lock::named::Verbosity;
use crate::lock::rows::{RowLock, RowSpec, Token, owner_of};
use crate::lock::{
    Attempt, Backend, Caller, Grant, HolderKind, Holders, Introduction, Lease, Name, Wait,
    run_lock_of,
};
use crate::schema::Tables;
use crate::settings::cli::CommandLine;
use crate::settings::{self, Acquire, Common};

/// Time limit for everything but connecting and waiting.
const BESIDES: Duration = Duration::from_secs(5);

/// A message from the process that acquires the row.
#[derive(Debug, Serialize, Deserialize)]
enum Acquisition {
    /// The lock is held; with the token as text.
    Acquired {
        token: String,
        slot: u32,
        fence: u64,
        lease: Lease,
    },
    /// Others hold the lock, and the wait is over.
    Taken(Holders),
    /// Asks whether the process that prints is running. Nothing is claimed before its answer, which it cannot give while it is stopped.
    AreYouThere,
}

/// A message from the process that prints.
#[derive(Serialize, Deserialize)]
enum Answer {
    /// To [`Acquisition::AreYouThere`].
    Here,
    /// The token has reached stdout.
    Printed,
}

/// Acquires a lock, prints its token, and returns dblock's exit.
///
/// # Errors
/// Why the lock was not acquired or the token not printed.
pub fn acquire(command_line: CommandLine) -> anyhow::Result<Ending> {
    let (acquire, common) = settings::acquire(command_line)?;
    let (connect, log) = (common.connection.connect_timeout, common.log);
    let whole = match acquire.lock.wait {
        Wait::For(wait) => Some(connect.saturating_add(wait).saturating_add(BESIDES)),
        Wait::Forever => None,
    };
    let name = &acquire.lock.name;
    let secret = random::id()?;
    let mut ending = None;
    let asked = query::ask_and_answer(
        "the acquisition",
        |link, parent| hold_row(&acquire, &secret, &common, &link, parent),
        Limits { connect, whole },
        log,
        |outcome: Acquisition, link| match outcome {
            Acquisition::AreYouThere => {
                let _ = link.send(&Answer::Here);
            }
            // This process was stopped, or the machine slept.
            Acquisition::Acquired { lease, .. } if lease.proved.elapsed() > lease.ttl / 2 => {
                link.close_for_sending();
                let line = format!("{name} was lost before its token was printed");
                ending = Some(Err(Failure::new(Reason::LockLost, line)));
            }
            Acquisition::Acquired {
                token, slot, fence, ..
            } => {
                log.info(format_args!("acquired {name} (slot {slot}), fence {fence}"));
                match print_to_reader(&shown(&acquire, common.json, &token, slot, fence)) {
                    Ok(()) => {
                        ending = Some(Ok(Ending::Code(0)));
                        // From here on the lock is held. A signal must not end dblock as if it were not.
                        let _ = SigSet::all().thread_block();
                        let _ = link.send(&Answer::Printed);
                    }
                    Err(failure) => {
                        link.close_for_sending();
                        ending = Some(Err(failure));
                    }
                }
            }
            Acquisition::Taken(holders) => {
                log.warning(format_args!("{name} is {holders}"));
                ending = Some(Ok(Ending::Code(CONFLICT)));
            }
        },
        |_| "the grant".to_owned(),
    );
    // Whatever becomes of that process afterwards: whoever has the token has the lock, and nobody else releases it.
    let decided = ending.unwrap_or_else(|| Err(unanswered(asked)));
    Ok(decided?)
}

/// What `--json` prints, as `docs/acquire.schema.json` says.
#[derive(Serialize)]
struct AcquiredJson<'a> {
    name: String,
    slot: u32,
    slot_name: Option<&'a str>,
    fence: u64,
    token: &'a str,
    owner: Option<&'a str>,
    ttl_seconds: f64,
}

fn shown(acquire: &Acquire, json: bool, token: &str, slot: u32, fence: u64) -> String {
    if !json {
        return format!("{token}\n");
    }
    in_json(&AcquiredJson {
        name: acquire.lock.name.to_string(),
        slot,
        slot_name: acquire.slot_names.get(slot as usize).map(String::as_str),
        fence,
        token,
        owner: acquire.owner.as_deref(),
        ttl_seconds: seconds(acquire.lock.ttl),
    })
}

/// The waiting process, in its role for the lock.
struct Waiting {
    name: Name,
    link: Rc<Link>,
    parent: Pid,
    /// Whether the row may be held without a confirmed answer.
    may_be_held: Cell<bool>,
}

impl Caller for Waiting {
    fn on_server(&self, server: &str) {
        let _ = self.link.send(&Message::Reached(cut(server)));
    }

    fn on_read_only(&self, server: Option<&str>) {
        let line = server.map(cut);
        let _ = self.link.send(&Message::OnlyReadOnly(line));
    }

    fn on_wait(&self, holders: &Holders) {
        let line = format!("{} is {holders}; waiting", self.name);
        let _ = self.link.send(&Message::Note(Level::Info, cut(&line)));
    }

    fn on_claim(&self, may_be_held: bool) -> bool {
        self.may_be_held.set(may_be_held);
        if may_be_held {
            let _ = prctl::set_pdeathsig(None);
        } else if die_with(self.parent).is_err() {
            let _ = raise(Signal::SIGKILL);
        }
        let _ = self.link.send(&Message::MustFinish(may_be_held));
        if may_be_held {
            self.ask_alive();
            return self.is_answered();
        }
        true
    }

    fn ask_alive(&self) {
        let _ = send_item(&self.link, Acquisition::AreYouThere);
        let step = format!("acquiring {}", self.name);
        let _ = self.link.send(&Message::Note(Level::Step, cut(&step)));
    }

    /// Waits while the process that prints is stopped. Meanwhile the server ends the silent session, and its place goes to the next waiter.
    fn await_alive(&self) {
        self.is_answered();
    }
}

impl Waiting {
    fn is_answered(&self) -> bool {
        matches!(self.link.receive::<Answer>(), Ok(Some(_)))
    }
}

/// The main function of the process that acquires the row.
fn hold_row(
    acquire: &Acquire,
    secret: &str,
    common: &Common,
    link: &Rc<Link>,
    parent: Pid,
) -> Result<(), Failure> {
    let introduction = Introduction {
        pid: parent,
        lock: Some(acquire.lock.name.clone()),
        command: "dblock acquire".to_owned(),
        started: SystemTime::now(),
        waits: acquire.lock.wait != Wait::For(Duration::ZERO),
        slots: acquire.lock.slots,
        ttl: acquire.lock.ttl,
    };
    let listener = listener_of(link, common.log.shown);
    let connector = begin(&introduction, &common.connection, listener, link)?;
    let owner = owner_of(secret);
    let journal = Journal {
        tables: Tables::of_connection(&common.connection),
        facts: RunFacts::here(&owner, &acquire.lock.name, parent, "dblock acquire"),
        requested: Moment::now(),
        needed: Some(Duration::ZERO),
    };
    let spec = RowSpec {
        tables: journal.tables.clone(),
        owner: owner.clone(),
        kind: HolderKind::Token,
        owner_name: acquire.owner.clone(),
        token: None,
        ttl: Some(acquire.lock.ttl),
        command_run: None,
        on_token_end: journal.on_token_end(),
        on_withdrawal: vec![journal.withdrawal()],
        on_grant: Box::new(journal.on_grant(&journal.facts.run, &acquire.slot_names)),
    };
    let verbosity = Verbosity {
        when_waiting: Level::Info <= common.log.shown,
        when_taken: true,
    };
    let mut lock = RowLock::new(
        Rc::new(connector),
        &acquire.lock,
        &run_lock_of(&owner),
        verbosity,
        spec,
    );
    let waiting = Waiting {
        name: acquire.lock.name.clone(),
        link: Rc::clone(link),
        parent,
        may_be_held: Cell::new(false),
    };
    let attempt = wait_for_row(&mut lock, &waiting);
    let outcome = match attempt? {
        Ok((grant, lease)) => {
            let token = Token {
                name: acquire.lock.name.clone(),
                slot: grant.slot,
                fence: grant.fence.unwrap_or_default(),
                secret: secret.to_owned(),
            };
            let sent = pass_on(&mut lock, &token, lease, &journal, link);
            if let Some(session) = lock.session() {
                journal.prune_now_and_then(session);
            }
            sent
        }
        Err(holders) => {
            record_skip(&mut lock, &holders, &acquire.lock.name, &journal);
            send_item(link, Acquisition::Taken(holders))
        }
    };
    // End the session before the parent ends this process.
    drop(lock);
    if outcome.is_ok() {
        let _ = link.send(&Message::Done);
    }
    Ok(())
}

/// Acquires the row, or finds out who holds it. After a failure it releases a row that may be held.
fn wait_for_row(
    lock: &mut RowLock,
    waiting: &Waiting,
) -> Result<Result<(Grant, Lease), Holders>, Failure> {
    loop {
        let pause = match lock.try_acquire(waiting) {
            Ok(Attempt::Acquired(grant, lease)) => return Ok(Ok((grant, lease))),
            Ok(Attempt::Taken(holders)) => return Ok(Err(holders)),
            Ok(Attempt::Retry(pause)) => pause,
            Err(failure) => {
                if waiting.may_be_held.get() {
                    lock.withdraw(&[]);
                }
                return Err(failure);
            }
        };
        sleep(pause);
        while waiting.may_be_held.get() {
            if lock.withdraw(&[]) {
                waiting.on_claim(false);
            } else if waiting.link.is_readable() {
                // The parent is gone, and no server can be reached.
                return Err(Failure::new(Reason::Unreachable, "abandoned"));
            } else {
                sleep(pause);
            }
        }
    }
}

/// Records that the lock was taken. If this fails, the answer stays the same.
fn record_skip(lock: &mut RowLock, holders: &Holders, name: &Name, journal: &Journal) {
    let Some(session) = lock.session() else {
        return;
    };
    let line = format!("{name} is {holders}; not acquired");
    let skip = Ask::written(journal.skip(&line, Outcome::Skipped));
    let done = session.answer_within(SKIP_LIMIT);
    match done.and_then(|()| session.run(&skip)) {
        Ok(()) => journal.prune_now_and_then(session),
        Err(fault) => session.tell(Level::Warning, &format!("cannot record the skip: {fault}")),
    }
}

/// Sends the token to the parent, and releases the row unless the token was printed.
fn pass_on(
    lock: &mut RowLock,
    token: &Token,
    lease: Lease,
    journal: &Journal,
    link: &Link,
) -> io::Result<()> {
    lock.hand_over();
    let acquired = Acquisition::Acquired {
        token: token.to_string(),
        slot: token.slot,
        fence: token.fence,
        lease,
    };
    let sent = send_item(link, acquired);
    let is_printed = sent.is_ok() && matches!(link.receive(), Ok(Some((Answer::Printed, _))));
    if !is_printed {
        let end = journal.end(&RunEnd::of(Outcome::Failed, "the token was not printed"));
        if !lock.withdraw(&end) {
            // The session was over, or its server takes no writes any more. Another one may.
            lock.withdraw(&end);
        }
    }
    sent
}
