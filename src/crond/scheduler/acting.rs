//! Takes ticks that are due, settles them, or leaves them to other daemons.

use std::time::Duration;

use super::super::program;
use super::Scheduler;
use super::taking::Wanted;
use super::view::{Known, shown};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::cron::{Decision, Fate, Now, Settle, SettleStep, decide, is_for};
use crate::lock::new_id;

/// The number of steps in one transaction.
const STEPS_AT_ONCE: usize = 16;

/// When this many skipped ticks were counted, the decided settlements are carried out, and the rest follows in the next turn: counting the
/// ticks that many jobs have missed for months takes long, and the daemon must show that it is alive.
const MOST_COUNTED_IN_TURN: usize = 1_000_000;

impl Scheduler<'_> {
    /// Does what is due. Returns when something may be due next.
    pub(super) fn act(&mut self) -> Result<Option<Moment>, Failure> {
        if self.stopping.has_begun() || self.view.looked.is_none() || self.awaits_acknowledgement()
        {
            return Ok(None);
        }
        let again = self.take_again()?;
        let now = self.view.now();
        let room = (self.facts.slots as usize).saturating_sub(self.own.busy());
        let (mut wanted, mut needs_look, mut wake) = (Vec::new(), false, None);
        let mut left = room;
        self.outage.count_missed(&self.view.jobs, now);
        let mut unlocked: Option<Moment> = None;
        let mut counted = 0;
        for (at, known) in self.view.jobs.iter().enumerate() {
            let Some(row) = known
                .row
                .as_ref()
                .filter(|_| !known.stale && known.agrees())
            else {
                continue;
            };
            // The usual case: nothing is due.
            if row.triggered.is_none() && row.next.is_none_or(|next| next > now) {
                wake = earlier(wake, row.next.filter(|_| !row.is_paused));
                continue;
            }
            let name = &known.definition.name;
            if let Some(from) = self.locked_rows.until(name) {
                unlocked = unlocked.into_iter().chain([from]).min();
                continue;
            }
            let key = row.triggered.or(row.next).unwrap_or_default();
            let here = self.here(name, key, left > 0);
            let job = &known.job;
            match decide(
                (name, &job.schedule, &job.options),
                &row.facts(),
                self.view.under_way(name),
                here,
            ) {
                Decision::Rest(until) => wake = earlier(wake, until),
                Decision::Settle(settlement) => {
                    let looked = self.view.looked;
                    if looked.is_none_or(|looked| settlement.needs_look(looked, now)) {
                        needs_look = true;
                        continue;
                    }
                    left -= usize::from(matches!(settlement.fate, Some(Fate::Run(_))));
                    let skips = settlement.skips.iter();
                    counted += skips.map(|skip| skip.count.number).sum::<usize>();
                    wanted.push(Wanted {
                        at,
                        settlement,
                        id: new_id()?,
                    });
                    if counted >= MOST_COUNTED_IN_TURN {
                        break;
                    }
                }
            }
        }
        let has_more = !wanted.is_empty();
        wanted.sort_by(|one, other| {
            let name = |wanted: &Wanted| &self.view.jobs[wanted.at].definition.name;
            name(one).cmp(name(other))
        });
        self.settle_all(wanted)?;
        if needs_look {
            let soonest = match self.timetable.fruitless {
                0 => Moment::START,
                _ => self.timetable.last_look + self.timetable.pause(),
            };
            self.timetable.look_at = self.timetable.look_at.min(soonest);
            return Ok(Some(self.timetable.look_at));
        }
        if has_more {
            return Ok(Some(Moment::now()));
        }
        let wake = wake.map(|at| {
            self.view
                .moment_of(at)
                .max(Moment::now() + Duration::from_millis(1))
        });
        Ok(wake.into_iter().chain(again).chain(unlocked).min())
    }

    /// Settles ticks, several in one transaction. A job with a locked row does not delay the others for long: from then on it is settled
    /// by itself, after the others and with growing pauses.
    fn settle_all(&mut self, wanted: Vec<Wanted>) -> Result<(), Failure> {
        let name = |this: &Self, one: &Wanted| this.view.jobs[one.at].definition.name.clone();
        let (alone, together): (Vec<Wanted>, Vec<Wanted>) = wanted
            .into_iter()
            .partition(|one| self.locked_rows.has(&name(self, one)));
        let mut single = Vec::new();
        for part in together.chunks(STEPS_AT_ONCE) {
            if !self.settle(part)? && self.locked_rows.was_met {
                single.extend(part);
            }
            self.renew_if_due()?;
            // Their commands need not wait for the rest.
            self.seek_locks()?;
        }
        for one in single.into_iter().chain(&alone) {
            self.renew_if_due()?;
            let name = name(self, one);
            if self.settle(std::slice::from_ref(one))? {
                self.locked_rows.forget(&name);
            } else if self.locked_rows.was_met {
                self.locked_rows.put_off(name);
            }
        }
        Ok(())
    }

    /// What a rule about a tick needs to know of this daemon.
    pub(super) fn here(&self, name: &str, tick: i64, has_room: bool) -> Now {
        let all = self.view.daemons.iter().map(String::as_str);
        Now {
            at: self.view.now(),
            is_preferred: is_for(&self.facts.id, name, tick, all),
            could_not_start: false,
            has_room,
            back_at: self.outage.made_up_since,
            made_up_from: self.outage.made_up_from(name),
        }
    }

    /// Settles ticks, and starts those of this daemon. Returns whether the server has answered.
    fn settle(&mut self, wanted: &[Wanted]) -> Result<bool, Failure> {
        let steps = wanted.iter().map(|one| {
            let Known {
                job, definition, ..
            } = &self.view.jobs[one.at];
            SettleStep {
                job: definition,
                shown: Box::new(|tick| shown(job, tick)),
                settlement: &one.settlement,
                id: &one.id,
                program: program(job),
                ttl: job.options.ttl.as_secs(),
            }
        });
        let settle = Settle {
            tables: self.tables,
            daemon: self.facts,
            steps: steps.collect(),
        }
        .batch();
        let answer = self.ask(|session| session.run_batch(&settle))?;
        let Some((now, settled)) = answer else {
            // The next look shows the result.
            for one in wanted {
                self.view.jobs[one.at].stale = true;
            }
            self.timetable.look_again();
            return Ok(false);
        };
        self.set_clock(now);
        for one in wanted {
            let known = &mut self.view.jobs[one.at];
            let mut found = settled.iter();
            let found = found.find(|settled| settled.name == known.definition.name);
            let before = std::mem::replace(&mut known.row, found.map(|found| found.row.clone()));
            let Some(found) = found else {
                continue;
            };
            let is_done = found.changed_by.as_ref() == Some(&one.id);
            let is_unchanged = before.is_some_and(|before| {
                before.next == found.row.next && before.triggered == found.row.triggered
            });
            known.stale = !is_done && is_unchanged;
            match one.settlement.fate {
                Some(Fate::Run(tick)) if is_done => {
                    self.start_taken(one, tick);
                }
                Some(Fate::Wait(_)) if is_done => self.timetable.look_at = Moment::START,
                _ if known.stale => self.timetable.look_again(),
                _ => {}
            }
            // Each is recorded.
            for _ in one.settlement.skips.iter().filter(|_| is_done) {
                self.prune_now_and_then(&found.name);
            }
        }
        Ok(true)
    }
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}
