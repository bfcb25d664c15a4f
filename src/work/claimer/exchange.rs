//! Turns: each records outcomes and claims due jobs exactly once, even if the session is lost.

use std::time::Duration;

use super::super::Until;
use super::super::message::FromClaimer;
use super::idle::Timeout;
use super::{Claimer, Stop};
use crate::base::clock::{Moment, chance_below};
use crate::base::log::Level;
use crate::db::Ask;
use crate::keeper::{SHORTEST_PAUSE, sleep_longer};
use crate::queue::{
    Claim, EndedUnit, Exchange, JobEnd, Marks, Turn, TurnAnswer, TurnAsk, Verdict, Want,
    ask_candidates, ask_due, ask_shards,
};

/// Without `SKIP LOCKED`, a claim picks from this many times as many candidates as it wants.
pub(super) const CANDIDATES: u32 = 4;

/// Most jobs to claim in one turn: their payloads come in one answer.
pub(super) const CLAIMED: u32 = 500;

/// Most consecutive turns in one shard before newer outcomes are recorded.
const TURNS: u32 = 8;

/// Where and how a worker claims.
pub(super) struct Claiming {
    /// The shard of the next turn.
    pub shard: u16,
    /// Whether more may be due in the shard of the last turn.
    pub has_more: bool,
    /// Where claims start in the index.
    pub marks: Marks,
    /// The next pause after a look that found something due, but nothing could be claimed: others have it locked.
    pub fruitless_pause: Duration,
    /// Whether there was no room for payloads. Then nothing more is claimed.
    pub is_stuck: bool,
}

impl Claiming {
    /// Nothing was claimed yet.
    pub fn new() -> Self {
        Self {
            shard: 0,
            has_more: false,
            marks: Marks::default(),
            fruitless_pause: SHORTEST_PAUSE,
            is_stuck: false,
        }
    }
}

impl Claimer<'_> {
    /// Records outcomes and claims due jobs. If it `waits`, it returns only once something was claimed or a message has come.
    /// If it `is_last`, a worker that drains the queue ends after it, unless something was due.
    pub(super) fn take_turn_of(
        &mut self,
        want: u32,
        waits: bool,
        is_last: bool,
    ) -> Result<(), Stop> {
        if !waits && self.looks.is_due() {
            self.look()?;
        }
        if waits {
            let process = self.coordinator.process;
            process.die_with().map_err(Stop::Failed)?;
        }
        let mut claimed = self.exchange_all(want)?;
        // Before a worker that drains the queue ends, it looks once more: a claim skips what others have locked.
        if !waits && claimed == 0 && want > 0 && self.spec.until != Until::Stopped && self.look()? {
            self.claiming.fruitless_pause = sleep_longer(self.claiming.fruitless_pause);
            return self.send_in_time(&FromClaimer::TurnEnded { nothing_due: false }, None);
        }
        while waits && claimed == 0 && !self.claiming.is_stuck {
            if self.coordinator.has_message() {
                break;
            }
            if self.await_work()? {
                self.leave_head()?;
                claimed = self.exchange_all(want)?;
                if claimed == 0 {
                    self.claiming.fruitless_pause = sleep_longer(self.claiming.fruitless_pause);
                }
            } else {
                self.claiming.fruitless_pause = SHORTEST_PAUSE;
            }
        }
        self.leave_head()?;
        if claimed > 0 {
            self.claiming.fruitless_pause = SHORTEST_PAUSE;
        }
        self.count_due()?;
        let nothing_due = claimed < want && !self.claiming.has_more;
        if is_last && nothing_due && claimed == 0 && self.spec.until == Until::Drained {
            self.pay_debt()?;
        }
        self.send_in_time(&FromClaimer::TurnEnded { nothing_due }, None)?;
        self.keep_pace()
    }

    /// Says how many jobs are due, if somebody wants to know.
    fn count_due(&mut self) -> Result<(), Stop> {
        if !self.looks.begins_count() {
            return Ok(());
        }
        let ask = ask_due(self.tables, &self.worker()?.queue);
        if let Some(count) = self.ask(|session| session.run(&ask))? {
            self.coordinator.say(FromClaimer::Left(count));
        }
        Ok(())
    }

    /// As [`Self::exchange`], but records a block whose jobs were canceled or could not be read now, not only when something is due.
    fn exchange_all(&mut self, want: u32) -> Result<u32, Stop> {
        let claimed = self.exchange(want)?;
        if claimed == 0 && !self.outcomes.ended.is_empty() {
            self.exchange_in(0, self.claiming.shard)?;
        }
        Ok(claimed)
    }

    /// Takes turns in one shard, and then in others with due jobs, until enough is claimed. Returns how many jobs.
    fn exchange(&mut self, want: u32) -> Result<u32, Stop> {
        let shard = self.claiming.shard;
        self.claiming.has_more = false;
        let mut claimed = self.claim_in(want, shard)?;
        let shards = self.worker()?.queue.shards;
        self.claiming.shard = (shard + 1) % shards;
        if claimed >= want || shards == 1 || self.claiming.has_more {
            return Ok(claimed);
        }
        let queue = self.worker()?.queue.clone();
        let ask = ask_shards(self.tables, &queue);
        let mut shards = self.ask(|session| session.run(&ask))?.unwrap_or_default();
        let offset = usize::from(shard) % shards.len().max(1);
        shards.rotate_left(offset);
        for shard in shards {
            if claimed >= want || self.claiming.has_more {
                break;
            }
            claimed += self.claim_in(want - claimed, shard)?;
        }
        Ok(claimed)
    }

    /// Takes turns in a shard until enough is claimed or nothing is left, [`TURNS`] at most. Returns how many jobs. Of single jobs it
    /// claims enough for one command: the next turn claims ahead, and records newer outcomes first.
    fn claim_in(&mut self, want: u32, shard: u16) -> Result<u32, Stop> {
        let is_block = self.worker()?.queue.claim == Claim::Blocks;
        let enough = if is_block {
            want
        } else {
            want.min(self.spec.jobs_of_command())
        };
        let mut total = 0;
        for _ in 0..TURNS {
            let left = want - total;
            let claimed = self.exchange_in(left, shard)?;
            total = want.min(total.saturating_add(claimed));
            // If all jobs of a block were canceled, the next turn deletes it, and there may be more.
            let is_all = if is_block {
                claimed == 0 && self.outcomes.ended.is_empty()
            } else {
                claimed < left.min(CLAIMED)
            };
            if is_all || total >= enough {
                self.claiming.has_more = !is_all && total < want;
                return Ok(total);
            }
        }
        self.claiming.has_more = true;
        Ok(total)
    }

    pub(super) fn exchange_in(&mut self, want: u32, shard: u16) -> Result<u32, Stop> {
        let want = self.what_to_want(want, shard)?;
        if want.is_none() && self.outcomes.ended.is_empty() {
            return Ok(0);
        }
        let returns = |ended: &EndedUnit| ended.outcome == JobEnd::Returned;
        if self.outcomes.ended.iter().any(returns) {
            self.claiming.marks.forget();
        }
        let begun = Moment::now();
        let over = self.carry_out(want.as_ref())?;
        let ended = std::mem::take(&mut self.outcomes.ended);
        if let Some(want) = want.filter(|want| want.among.is_none()) {
            let claimed = over.places.iter().copied();
            self.claiming
                .marks
                .note(shard, &want.above, claimed, begun.elapsed());
        }
        if !over.claimed.is_empty() {
            self.pruning.early = self.pruning.early.once_claimed();
        }
        let claimed = self.pass_on(&over)?;
        self.keep_outputs(&ended)?;
        if self.claiming.is_stuck && !self.outcomes.ended.is_empty() {
            // Return them now, so that others need not wait for a command of this worker.
            self.exchange_in(0, shard)?;
        }
        self.check_queue(over.standing.has_queue)?;
        Ok(claimed)
    }

    /// Keeps the outputs of jobs whose outcomes were just recorded, if they were to be kept. After the first that cannot be, the others
    /// are lost, too: the lease, and the next turn, must not wait for all of them.
    pub(super) fn keep_outputs(&mut self, ended: &[EndedUnit]) -> Result<(), Stop> {
        let jobs = ended.iter().flat_map(|ended| {
            let others = ended.others.iter().map(|(job, _)| *job);
            std::iter::once(ended.unit.job).chain(others)
        });
        let pending = &mut self.outcomes.outputs;
        let outputs = jobs.filter_map(|job| Some((job, pending.take(&job)?)));
        let outputs: Vec<_> = outputs.collect();
        let mut why = pending.why_dropped();
        for (job, output) in outputs {
            if !self.tables.has_outputs() {
                why = Some(self.tables.no_outputs());
                break;
            }
            self.keep_lease()?;
            let statement = Ask::written(output.of_job(self.tables, job));
            match self.ask(|session| session.try_run(&statement))? {
                Some(Ok(())) => {}
                Some(Err(code)) => {
                    why = Some(format!("the server refuses it with error {code}"));
                    break;
                }
                None => {
                    why = Some("the server did not answer".to_owned());
                    break;
                }
            }
        }
        if let Some(why) = why
            && self.outcomes.outputs.says_why()
        {
            let line = format!("the output of jobs is not kept: {why}");
            self.coordinator.note(Level::Warning, &line);
        }
        Ok(())
    }

    pub(super) fn what_to_want(&mut self, want: u32, shard: u16) -> Result<Option<Want>, Stop> {
        if want == 0 || self.claiming.is_stuck {
            return Ok(None);
        }
        let queue = self.worker()?.queue.clone();
        let limit = match queue.claim {
            Claim::Rows => want.min(CLAIMED),
            Claim::Blocks => 1,
        };
        // Opening the session finds out whether the server can skip locked rows.
        self.ensure_session()?;
        if self.skips_locked() {
            return Ok(Some(Want {
                limit,
                shard,
                among: None,
                above: self
                    .claiming
                    .marks
                    .begin(shard, self.spec.until != Until::Stopped),
            }));
        }
        let candidates = limit.saturating_mul(CANDIDATES);
        let ask = ask_candidates(self.tables, &queue, shard, candidates);
        let mut among = self.ask(|session| session.run(&ask))?.unwrap_or_default();
        while among.len() > limit as usize {
            let at = usize::from(chance_below(u16::try_from(among.len()).unwrap_or(u16::MAX)));
            among.swap_remove(at);
        }
        let is_any = !among.is_empty();
        Ok(is_any.then_some(Want {
            limit,
            shard,
            among: Some(among),
            above: Vec::new(),
        }))
    }

    /// Carries out a turn exactly once. If its outcome is in doubt, it looks that up.
    pub(super) fn carry_out(&mut self, want: Option<&Want>) -> Result<TurnAnswer, Stop> {
        let ended = std::mem::take(&mut self.outcomes.ended);
        let run = &self.facts.run;
        let worker = self.worker()?;
        let (number, queue, last) = (worker.number, worker.queue.clone(), worker.turn);
        let last = last.unwrap_or_default();
        let counts = self.outcomes.due_counts();
        let mut exchange = Exchange::after(last);
        let mut pause = SHORTEST_PAUSE;
        // The lease counts from the first packet: looking up an outcome renews nothing.
        let sent = Moment::now();
        let outcome = loop {
            let turn = Turn {
                tables: self.tables,
                queue: &queue,
                worker: number,
                run,
                number: exchange.number(),
                ended: &ended,
                counts,
                want: want.cloned(),
                was_idle: self.head.timeout != Timeout::OfLease,
            };
            let asked = self.ask(|session| match exchange.step() {
                TurnAsk::CarryOut => session.run_batch(&turn.batch()),
                TurnAsk::LookUp => session.run_batch(&turn.look_up()),
            });
            let asked = asked.and_then(|over| match over {
                // Without an answer to the turn, only this renews the lease.
                None => self.keep_lease().map(|()| None),
                over => Ok(over),
            });
            match asked {
                Ok(Some(over)) => match exchange.on_answer(over.standing.turn) {
                    Verdict::Done => break Ok(over),
                    Verdict::Lost => break Err(Stop::Lost),
                    Verdict::Forgotten => break Err(Stop::Forgotten),
                    Verdict::Again => {}
                },
                Ok(None) => exchange.on_silence(),
                Err(stop) => break Err(stop),
            }
            pause = sleep_longer(pause);
        };
        self.outcomes.ended = ended;
        if outcome.is_ok() {
            // If the outcome was looked up, the server may still have the short idle timeout. The next turn sets it again.
            if exchange.step() == TurnAsk::CarryOut {
                self.head.timeout = Timeout::OfLease;
                self.refusals.note_none();
            }
            self.worker()?.turn = Some(exchange.number());
            self.confirm(sent);
            self.set_fault(None);
            self.refusals.note_room();
            self.outcomes.note_counted(counts);
        }
        outcome
    }
}
