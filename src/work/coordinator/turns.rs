//! When the claimer takes a turn, and which messages it gets.

use super::super::Until;
use super::super::message::ToClaimer;
use super::{ClaimerState, Coordinator};
use crate::base::exit::{CONFLICT, Ending};
use crate::queue::{Ended, JobEnd};
use crate::supervise::is_over;
use std::time::Duration;

/// The approximate size of an outcome in a message, in bytes at most.
fn weight_of(ended: &Ended) -> usize {
    300 + 6 * error_of(&ended.outcome).len() + ended.others.iter().map(weight).sum::<usize>()
}

fn weight((_, outcome): &(u64, JobEnd)) -> usize {
    64 + 6 * error_of(outcome).len()
}

fn error_of(outcome: &JobEnd) -> &str {
    match outcome {
        JobEnd::Retry(_, error) | JobEnd::Dead(error) => error,
        _ => "",
    }
}

/// Longest message with outcomes, in bytes.
const LONGEST_MESSAGE: usize = 12 * 1024;

/// Approximate limit for all outcomes of one turn in bytes, so that their statements fit into one packet. The outcomes of a single block
/// may exceed it.
const LONGEST_TURN: usize = 64 * 1024;

/// Approximate limit for the payloads of all jobs in one turn, in bytes: a turn may delete them, and a cluster takes no transaction of any
/// size. A single block may exceed it.
const LARGEST_TURN: u64 = 16 * 1024 * 1024;

impl Coordinator<'_> {
    pub(super) fn is_idle(&self) -> bool {
        self.runner.commands.is_empty()
            && self.claims.buffer.is_empty()
            && self.claims.ended.is_empty()
    }

    /// Requests a turn from the claimer if one is needed. Returns dblock's exit once the worker has ended.
    pub(super) fn take_turn(&mut self) -> Option<anyhow::Result<Ending>> {
        if !self.runner.peer.is_there() {
            if !self.runner.commands.is_empty() || self.runner.peer.is_expected() {
                return None;
            }
            return self.runner.shutdown.take_conclusion();
        }
        if self.turns.claimer == ClaimerState::Deregistering {
            return None;
        }
        let is_ending = self.runner.shutdown.has_begun();
        if is_ending && self.registered.is_none() {
            let is_over = self.runner.commands.is_empty();
            let conclusion = is_over.then(|| self.runner.shutdown.take_conclusion());
            return conclusion.flatten();
        }
        if self.turns.claimer != ClaimerState::Ready {
            return None;
        }
        let worker = self.registered.as_ref().map(|(_, worker)| *worker)?;
        if is_ending && self.runner.commands.is_empty() {
            self.send_ended(worker);
            if !self.claims.ended.is_empty() {
                self.request_turn(worker, 0, false);
                return None;
            }
            let counts = self.claims.take_counts();
            let deregister = ToClaimer::Deregister { worker, counts };
            self.runner.peer.send(deregister);
            self.turns.claimer = ClaimerState::Deregistering;
            return None;
        }
        let want = self.want();
        let is_idle = self.is_idle();
        let looks =
            want > 0 && (is_idle || is_over(Some(self.turns.next_at)) || !self.turns.nothing_due);
        if self.claims.ended.is_empty() && !looks {
            return None;
        }
        if is_idle && self.turns.nothing_due && self.spec.until != Until::Stopped {
            let is_once = self.spec.until == Until::Once;
            let code = if is_once { CONFLICT } else { 0 };
            self.stop(Duration::ZERO, Ok(Ending::Code(code)));
            return self.take_turn();
        }
        self.send_ended(worker);
        self.request_turn(worker, want, is_idle && self.turns.nothing_due);
        None
    }

    fn request_turn(&mut self, worker: u64, want: u32, waits: bool) {
        let (is_last, counts) = (self.is_idle(), self.claims.take_counts());
        self.runner.peer.send(ToClaimer::Turn {
            worker,
            want,
            waits,
            is_last,
            counts,
        });
        self.turns.claimer = ClaimerState::TakingTurn(waits);
    }

    /// Sends the outcomes for one turn, in messages that are short enough.
    fn send_ended(&mut self, worker: u64) {
        let mut ended = std::mem::take(&mut self.claims.ended);
        let (mut whole, mut bytes) = (0, 0u64);
        let fits = ended.iter().take_while(|one| {
            let is_first = whole == 0;
            whole += weight_of(one);
            bytes = bytes.saturating_add(one.unit.bytes);
            is_first || whole <= LONGEST_TURN && bytes <= LARGEST_TURN
        });
        let fits = fits.count();
        self.claims.ended = ended.split_off(fits);
        let mut message: Vec<Ended> = Vec::new();
        let mut size = 0;
        for one in &ended {
            let mut others = one.others.as_slice();
            loop {
                let mut room = LONGEST_MESSAGE;
                let count = others
                    .iter()
                    .take_while(|other| {
                        room = room.saturating_sub(weight(other));
                        room > 0
                    })
                    .count()
                    .max(1)
                    .min(others.len());
                let (now, rest) = others.split_at(count);
                let own =
                    300 + 6 * error_of(&one.outcome).len() + now.iter().map(weight).sum::<usize>();
                if size + own > LONGEST_MESSAGE && !message.is_empty() {
                    self.runner
                        .peer
                        .send(ToClaimer::Ended(worker, std::mem::take(&mut message)));
                    size = 0;
                }
                size += own;
                message.push(Ended {
                    unit: one.unit.clone(),
                    outcome: one.outcome.clone(),
                    others: now.to_vec(),
                });
                others = rest;
                if others.is_empty() {
                    break;
                }
            }
        }
        if !message.is_empty() {
            self.runner.peer.send(ToClaimer::Ended(worker, message));
        }
        self.claims.handed = ended;
    }
}
