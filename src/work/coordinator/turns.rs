//! When the claimer takes a turn, and which messages it gets.

use super::super::Until;
use super::super::message::ToClaimer;
use super::{ClaimerState, Coordinator};
use crate::base::clock::is_over;
use crate::base::exit::{CONFLICT, Ending};
use crate::queue::{EndedUnit, JobEnd};
use std::time::Duration;

/// The approximate size of outcomes in the statements of a turn, in bytes: an error is there in hex digits. In a message they are smaller.
fn weight_of(ended: &EndedUnit) -> usize {
    let others = ended.others.iter().map(|(_, outcome)| outcome);
    let errors = others.chain([&ended.outcome]).map(|outcome| match outcome {
        JobEnd::Retry(_, error) | JobEnd::Dead(error) => 2 * error.len(),
        _ => 0,
    });
    150 + 32 * ended.others.len() + errors.sum::<usize>()
}

/// The most outcomes in a piece besides the block's own. Their errors take at most half a packet.
const OTHERS_OF_PIECE: usize = 3;

/// The outcomes in pieces.
fn pieces(ended: &EndedUnit) -> impl Iterator<Item = EndedUnit> {
    let count = ended.others.len().div_ceil(OTHERS_OF_PIECE).max(1);
    let others = |at| ended.others.iter().skip(at * OTHERS_OF_PIECE);
    (0..count).map(move |at| EndedUnit {
        unit: ended.unit.clone(),
        outcome: ended.outcome.clone(),
        others: others(at).take(OTHERS_OF_PIECE).cloned().collect(),
    })
}

/// A message that is larger gets no further piece. The last one may exceed this by half a packet.
const FULL_MESSAGE: usize = 12 * 1024;

/// The outcomes in messages that fit into a packet.
fn messages(ended: &[EndedUnit]) -> Vec<Vec<EndedUnit>> {
    let mut messages: Vec<Vec<EndedUnit>> = Vec::new();
    let mut size = 0;
    for piece in ended.iter().flat_map(pieces) {
        let weight = weight_of(&piece);
        match messages.last_mut() {
            Some(message) if size <= FULL_MESSAGE => message.push(piece),
            _ => {
                messages.push(vec![piece]);
                size = 0;
            }
        }
        size += weight;
    }
    messages
}

/// Approximate limit for all outcomes of one turn in bytes, so that their statements fit into one packet. The outcomes of a single block
/// may exceed it.
const LONGEST_TURN: usize = 32 * 1024;

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
        for message in messages(&ended) {
            self.runner.peer.send(ToClaimer::Ended(worker, message));
        }
        self.claims.handed = ended;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated::link::Link;
    use crate::queue::{LONGEST_ERROR, Unit};

    #[test]
    fn outcomes_with_the_longest_errors_fit_into_packets_and_arrive_whole() {
        let unit = Unit {
            job: u64::MAX,
            last_job: u64::MAX,
            block: u64::MAX,
            attempt: u32::MAX,
            fence: u64::MAX,
            repeats: false,
            has_key: true,
            has_parts: true,
            bytes: u64::MAX,
        };
        let dead = JobEnd::Dead("\u{1f512}".repeat(LONGEST_ERROR));
        let ended = |count: u64, outcome: &JobEnd| EndedUnit {
            unit: unit.clone(),
            outcome: outcome.clone(),
            others: (0..count).map(|job| (job, outcome.clone())).collect(),
        };
        let (one, other) = Link::pair().unwrap();
        let crossed = |ended: &[EndedUnit]| {
            let messages = messages(ended).into_iter();
            messages
                .map(|message| {
                    one.send(&ToClaimer::Ended(1, message)).unwrap();
                    match other.receive().unwrap() {
                        Some((ToClaimer::Ended(1, received), None)) => received,
                        other => panic!("{other:?}"),
                    }
                })
                .collect::<Vec<_>>()
        };
        for (count, outcome) in [(0, &dead), (10, &dead), (10, &JobEnd::Done)] {
            let sent = ended(count, outcome);
            let pieces: Vec<_> = crossed(std::slice::from_ref(&sent)).concat();
            let others: Vec<_> = pieces
                .iter()
                .flat_map(|piece| piece.others.clone())
                .collect();
            assert_eq!(others, sent.others);
            let same = |piece: &EndedUnit| piece.unit == sent.unit && piece.outcome == sent.outcome;
            assert!(!pieces.is_empty() && pieces.iter().all(same));
        }
        let many = vec![ended(0, &JobEnd::Done); 200];
        assert!(crossed(&many).len() < 10 && crossed(&many).concat() == many);
    }
}
