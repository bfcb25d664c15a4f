//! Several locks of one slot that share a session, acquired or released in one transaction, so that the server waits for its disk once.
//! What is not decided that way, each lock finds out by itself: its row is not there, or another's, or a write was in conflict.

use super::claim::{Claim, ClaimEnd};
use super::holding::{Hold, Released};
use super::row_lock::{Queue, RowLock};
use super::sharing::SharedServer;
use super::statements::Write;
use super::step::{Answer, Next, RowStep, Written};
use crate::base::clock::Moment;
use crate::base::log::Level;
use crate::db::{Fault, Session, roll_back};
use crate::lock::named::try_slots;
use crate::lock::{Grant, Lease, Nobody};

/// The slot of a lock that has one only.
const ONLY_SLOT: u32 = 0;

/// Acquires those locks that nobody else holds; `None`: that one was not acquired, or it is unknown. Then [`RowLock::try_at_once`] says
/// more.
///
/// # Errors
/// The session has ended, or its server takes no writes. What was asked may have been done.
pub fn acquire_together(
    locks: &mut [&mut RowLock],
    server: SharedServer,
    session: &mut Session,
) -> Result<Vec<Option<(Grant, Lease)>>, Fault> {
    for lock in locks.iter_mut() {
        lock.use_server(server);
        lock.forget_grant();
    }
    let mut granted = vec![None; locks.len()];
    let Some(has_named) = take_named_locks(locks, session)? else {
        return Ok(granted);
    };
    let (mut writes, mut asked) = (Vec::new(), Vec::new());
    for (at, lock) in locks
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| has_named[*at])
    {
        let next = lock.advance(&[ONLY_SLOT], &Nobody, Claim::take)?;
        if let Next::Ask(RowStep::WriteOnly(change)) = next {
            let write_id = lock.next_write_id();
            writes.push(
                lock.claiming(change, &[], None, write_id, session)
                    .without_look(),
            );
            asked.push((at, write_id));
        }
    }
    let proved = Moment::now();
    let Some(written) = write_together(&writes, session)? else {
        return Ok(granted);
    };
    for ((at, write_id), written) in asked.into_iter().zip(written) {
        let (lock, answer) = (&mut locks[at], Answer::Written(write_id, written));
        let next = lock.advance(&[ONLY_SLOT], &Nobody, |claim, claimant| {
            claim.next(claimant, &answer)
        })?;
        if let Next::Over(ClaimEnd::Held { slot, fence }) = next {
            lock.grant = Grant {
                slot,
                connection_id: session.handshake_id(),
                fence: Some(fence),
            };
            granted[at] = Some((
                lock.grant,
                Lease {
                    ttl: lock.wanted.ttl,
                    proved,
                },
            ));
        }
    }
    Ok(granted)
}

/// Acquires the named locks that are free. Returns which; `None`: that is unknown.
fn take_named_locks(
    locks: &mut [&mut RowLock],
    session: &mut Session,
) -> Result<Option<Vec<bool>>, Fault> {
    let excludes = |lock: &&mut RowLock| lock.server.queue == Queue::Excludes;
    if !locks.iter().all(excludes) {
        return Ok(Some(vec![true; locks.len()]));
    }
    let conditions = locks.iter().map(|lock| {
        let mark = lock.mark();
        lock.request.taking_slot(ONLY_SLOT, mark.as_deref())
    });
    let taken = match session.run(&try_slots(&conditions.collect::<Vec<_>>())) {
        Ok(taken) => Some(taken),
        Err(fault @ Fault::Gone(_)) => return Err(fault),
        Err(Fault::NoNamedLocks(_)) => {
            for lock in locks.iter_mut() {
                lock.server.queue = Queue::None;
            }
            return Ok(Some(vec![true; locks.len()]));
        }
        Err(_) => None,
    };
    // What is not needed after all, the lock releases by itself.
    for (at, lock) in locks.iter_mut().enumerate() {
        let may_have = taken.as_ref().is_none_or(|taken| taken[at]);
        lock.server.named_slot = may_have.then_some(ONLY_SLOT);
    }
    Ok(taken)
}

/// Releases those locks that are held, each with its statements of others; `false`: that is not done. Then [`RowLock::release_with`] does
/// it, or says more.
///
/// # Errors
/// The session has ended, or its server takes no writes. What was asked may have been done.
pub fn release_together(
    locks: &mut [&mut RowLock],
    also: &[Vec<String>],
    server: SharedServer,
    session: &mut Session,
) -> Result<Vec<bool>, Fault> {
    let mut released = vec![false; locks.len()];
    let (mut writes, mut asked) = (Vec::new(), Vec::new());
    for (at, (lock, also)) in locks.iter_mut().zip(also).enumerate() {
        lock.use_server(server);
        let Next::Ask(RowStep::WriteOnly(change)) = lock.step(Hold::release) else {
            continue;
        };
        let write_id = lock.next_write_id();
        writes.push(lock.releasing(change, also));
        asked.push((at, write_id));
    }
    let written = write_together(&writes, session);
    if !matches!(written, Ok(Some(_))) {
        for (at, _) in &asked {
            locks[*at].hold.on_silence();
        }
    }
    for ((at, write_id), written) in asked.into_iter().zip(written?.into_iter().flatten()) {
        let (lock, named) = (&mut *locks[at], written.released);
        let answer = Answer::Written(write_id, written);
        let next = lock.step(|hold, grant| hold.after_release(grant, &answer));
        // No killer waits on a shared session.
        let _ = lock.after_release(named, session);
        released[at] = next == Next::Over(Released::Done);
    }
    Ok(released)
}

/// Carries out these writes in one transaction; `None`: the server has refused one, and has carried out none of them, or it has refused the
/// release of a named lock after the commit.
fn write_together(writes: &[Write], session: &mut Session) -> Result<Option<Vec<Written>>, Fault> {
    if writes.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let together = Write::together(writes).if_it_takes_writes(session.kind());
    match session.run_batch(&together) {
        Ok(written) => Ok(Some(written)),
        Err(fault @ (Fault::Gone(_) | Fault::ReadOnly(_))) => Err(fault),
        Err(fault) => {
            session.tell(Level::Info, &format!("{session}: {fault}"));
            session.run(&roll_back())?;
            Ok(None)
        }
    }
}
