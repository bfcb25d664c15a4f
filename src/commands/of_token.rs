//! The shared part of `renew` and `release`: a process that acts for a script's token.

use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use nix::unistd::Pid;

use super::question::{begin, listener_of};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::history::{Journal, RunFacts};
use crate::isolated::link::{Link, cut};
use crate::isolated::query::{self, Limits, Message};
use crate::lock::named::Verbosity;
use crate::lock::rows::{RowLock, RowSpec};
use crate::lock::{
    Caller, DEFAULT_TTL, HolderKind, Introduction, LockSpec, OnLockLost, Wait, run_lock_of,
};
use crate::schema::Tables;
use crate::settings::{Common, OfToken};

/// One attempt at something with a lock. Returns the pause before the next attempt, if it was in vain.
type Work = fn(&mut RowLock, &dyn Caller, &Journal) -> Result<Option<Duration>, Failure>;

/// Does `work` with the lock of a token.
///
/// # Errors
/// [`Reason::LockLost`](crate::base::exit::Reason) if the token does not hold the lock any more.
pub fn act_on(
    of_token: &OfToken,
    command: &str,
    common: &Common,
    work: Work,
) -> Result<(), Failure> {
    let connect = common.connection.connect_timeout;
    // It takes one or two statements, so one limit covers connecting and all of it.
    let limits = Limits {
        connect,
        whole: Some(connect),
    };
    query::ask(
        command,
        |link, parent| act(of_token, command, common, &link, parent, work),
        limits,
        common.log,
        |()| {},
        |()| command.to_owned(),
    )?;
    Ok(())
}

/// A caller that never waits.
struct Alone(Rc<Link>);

impl Caller for Alone {
    fn on_server(&self, server: &str) {
        let _ = self.0.send(&Message::Reached(cut(server)));
    }

    fn on_read_only(&self, server: Option<&str>) {
        let _ = self.0.send(&Message::OnlyReadOnly(server.map(cut)));
    }
}

fn act(
    of_token: &OfToken,
    command: &str,
    common: &Common,
    link: &Rc<Link>,
    parent: Pid,
    work: Work,
) -> Result<(), Failure> {
    let introduction = Introduction::of_command(command, parent, DEFAULT_TTL);
    let listener = listener_of(link, common.log.shown);
    let connector = begin(&introduction, &common.connection, listener, link)?;
    let (token, owner) = (&of_token.token, of_token.token.owner());
    let spec = LockSpec {
        name: token.name.clone(),
        slots: token.slot + 1,
        wait: Wait::For(Duration::ZERO),
        ttl: DEFAULT_TTL,
        on_lost: OnLockLost::Terminate,
        allow_unfit_server: false,
    };
    let journal = Journal {
        tables: Tables::of_connection(&common.connection),
        facts: RunFacts {
            slot: Some(token.slot),
            ..RunFacts::here(&owner, &token.name, parent, command)
        },
        requested: Moment::now(),
        needed: Some(Duration::ZERO),
    };
    let row = RowSpec {
        tables: journal.tables.clone(),
        owner: owner.clone(),
        kind: HolderKind::Token,
        owner_name: None,
        token: Some((token.slot, token.fence)),
        ttl: of_token.ttl,
        on_grant: Box::new(|_, _| Vec::new()),
        command_run: None,
        on_token_end: journal.on_token_end(),
        on_withdrawal: Vec::new(),
    };
    let mut lock = RowLock::new(
        Rc::new(connector),
        &spec,
        &run_lock_of(&owner),
        Verbosity::default(),
        row,
    );
    let caller = Alone(Rc::clone(link));
    while let Some(pause) = work(&mut lock, &caller, &journal)? {
        sleep(pause);
    }
    // End the session before the parent ends this process.
    drop(lock);
    let _ = link.send(&Message::Done);
    Ok(())
}
