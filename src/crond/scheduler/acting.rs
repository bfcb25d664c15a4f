//! Takes ticks that are due, settles them, or leaves them to other daemons.

use super::super::program;
use super::taking::Wanted;
use super::{LOOK, Scheduler, micros, shown};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::cron::{
    Decision, Fate, HEAD_START, LONGEST_SPREAD, Now, Settle, Step, UnderWay, decide, fraction,
    preferred,
};
use crate::lock::new_id;
use std::time::Duration;

/// The number of steps in one transaction.
const STEPS_AT_ONCE: usize = 16;

/// The pause before a job with a locked row is settled again. It doubles each time.
const FIRST_LOCKED_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_LOCKED_PAUSE: Duration = Duration::from_secs(10);

/// After an outage, few missed ticks are started within less than the longest spread: this much for each.
const SPREAD_OF_EACH: Duration = Duration::from_millis(200);

/// When this many skipped ticks were counted, the decided settlements are carried out, and the rest follows in the next turn: counting the
/// ticks that many jobs have missed for months takes long, and the daemon must show that it is alive.
const MOST_COUNTED_IN_TURN: usize = 1_000_000;

impl Scheduler<'_> {
    /// Does what is due. Returns when something may be due next.
    pub(super) fn act(&mut self) -> Result<Option<Moment>, Failure> {
        if self.is_stopped || self.looked.is_none() || self.awaits_acknowledgement() {
            return Ok(None);
        }
        let again = self.take_again()?;
        let now = self.now();
        let room = (self.facts.slots as usize).saturating_sub(self.busy());
        let (mut wanted, mut needs_look, mut wake) = (Vec::new(), false, None);
        let mut left = room;
        let spread = self.spread.unwrap_or_else(|| self.spread_of_missed(now));
        // The spread is fixed until all missed ticks are started.
        self.spread = Some(spread);
        let mut unlocked: Option<Moment> = None;
        let mut counted = 0;
        for (at, known) in self.jobs.iter().enumerate() {
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
            if let Some((from, _)) = self
                .contended
                .get(name)
                .filter(|(at, _)| *at > Moment::now())
            {
                unlocked = unlocked.into_iter().chain([*from]).min();
                continue;
            }
            let key = row.triggered.or(row.next).unwrap_or_default();
            let here = Now {
                at: now,
                is_preferred: self.is_for_me(name, key),
                has_room: left > 0,
                back_at: self.made_up_since,
                made_up_from: self.made_up_since
                    + micros(spread.mul_f64(fraction(&["spread", name]))),
            };
            let job = &known.job;
            match decide(
                (name, &job.schedule, &job.options),
                &row.facts(),
                self.under_way(name),
                here,
            ) {
                Decision::Rest(until) => wake = earlier(wake, until),
                Decision::Settle(settlement) => {
                    // After a fail-over the trigger's time may be later than the server's clock.
                    let due = if settlement.settled > now {
                        now - micros(LOOK)
                    } else {
                        settlement.settled
                    };
                    if settlement.depends_on_ticks() && self.looked < Some(due) {
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
            let name = |wanted: &Wanted| &self.jobs[wanted.at].definition.name;
            name(one).cmp(name(other))
        });
        self.settle_all(wanted)?;
        if needs_look {
            let soonest = match self.fruitless {
                0 => Moment::START,
                _ => self.last_look + self.pause(),
            };
            self.look_at = self.look_at.min(soonest);
            return Ok(Some(self.look_at));
        }
        if has_more {
            return Ok(Some(Moment::now()));
        }
        let wake = wake.map(|at| {
            self.moment_of(at)
                .max(Moment::now() + Duration::from_millis(1))
        });
        Ok(wake.into_iter().chain(again).chain(unlocked).min())
    }

    /// Settles ticks, several in one transaction. A job with a locked row does not delay the others for long: from then on it is settled
    /// by itself, after the others and with growing pauses.
    fn settle_all(&mut self, wanted: Vec<Wanted>) -> Result<(), Failure> {
        let name = |this: &Self, one: &Wanted| this.jobs[one.at].definition.name.clone();
        let (alone, together): (Vec<Wanted>, Vec<Wanted>) = wanted
            .into_iter()
            .partition(|one| self.contended.contains_key(&name(self, one)));
        let mut single = Vec::new();
        for part in together.chunks(STEPS_AT_ONCE) {
            if !self.settle(part)? && self.met_lock {
                single.extend(part);
            }
        }
        for one in single.into_iter().chain(&alone) {
            let name = name(self, one);
            if self.settle(std::slice::from_ref(one))? {
                self.contended.remove(&name);
            } else if self.met_lock {
                let before = self.contended.get(&name).map(|(_, pause)| *pause * 2);
                let pause = before
                    .unwrap_or(FIRST_LOCKED_PAUSE)
                    .min(LONGEST_LOCKED_PAUSE);
                self.contended.insert(name, (Moment::now() + pause, pause));
            }
        }
        Ok(())
    }

    /// Whether this daemon is the first choice for a tick.
    pub(super) fn is_for_me(&self, name: &str, tick: i64) -> bool {
        let all = self.daemons.iter().map(String::as_str);
        preferred(name, tick, all).is_none_or(|daemon| daemon == self.facts.id)
    }

    /// The time over which missed ticks are spread.
    fn spread_of_missed(&self, now: i64) -> Duration {
        let is_missed = |next: i64| now - next > micros(crate::cron::FRESH);
        let rows = self
            .jobs
            .iter()
            .filter_map(|known| known.row.as_ref()?.next);
        let missed = rows.filter(|next| is_missed(*next)).count();
        let missed = u32::try_from(missed).unwrap_or(u32::MAX);
        SPREAD_OF_EACH.saturating_mul(missed).min(LONGEST_SPREAD)
    }

    /// The ticks of a job that are under way.
    fn under_way(&self, name: &str) -> UnderWay {
        let mut found = UnderWay::default();
        for tick in self.ticks.iter().filter(|tick| tick.name == name) {
            if tick.is_waiting() {
                found.has_waiting = true;
            } else {
                found.running += 1;
            }
        }
        found
    }

    /// Settles ticks, and starts those of this daemon. Returns whether the server has answered.
    fn settle(&mut self, wanted: &[Wanted]) -> Result<bool, Failure> {
        let tables = self.tables.clone();
        let facts = self.facts;
        let jobs: Vec<_> = wanted
            .iter()
            .map(|one| self.jobs[one.at].job.clone())
            .collect();
        let programs: Vec<String> = jobs.iter().map(|job| program(job)).collect();
        let names: Vec<Box<dyn Fn(i64) -> String>> = jobs
            .iter()
            .map(|job| {
                let job = job.clone();
                Box::new(move |tick| shown(&job, tick)) as Box<dyn Fn(i64) -> String>
            })
            .collect();
        let definitions: Vec<_> = wanted
            .iter()
            .map(|one| self.jobs[one.at].definition.clone())
            .collect();
        let steps = wanted.iter().enumerate().map(|(number, one)| Step {
            job: &definitions[number],
            shown: &*names[number],
            settlement: one.settlement.clone(),
            id: one.id.clone(),
            program: &programs[number],
            ttl: jobs[number].options.ttl.as_secs(),
        });
        let settle = Settle {
            tables: &tables,
            daemon: facts,
            steps: steps.collect(),
        };
        let answer = self.ask(|session| session.run_batch(&settle.batch()))?;
        let Some((now, settled)) = answer else {
            // The next look shows the result.
            for one in wanted {
                self.jobs[one.at].stale = true;
            }
            self.look_again();
            return Ok(false);
        };
        self.set_clock(now);
        for one in wanted {
            let name = &self.jobs[one.at].definition.name;
            let found = settled.iter().find(|settled| settled.name == *name);
            let Some(found) = found else {
                self.jobs[one.at].row = None;
                continue;
            };
            let (row, is_done) = (found.row.clone(), found.is_done);
            let is_unchanged = self.jobs[one.at]
                .row
                .as_ref()
                .is_some_and(|before| before.next == row.next && before.triggered == row.triggered);
            self.jobs[one.at].row = Some(row);
            self.jobs[one.at].stale = false;
            match one.settlement.fate {
                Some(Fate::Run(tick)) if is_done => {
                    self.start_taken(one, tick);
                }
                Some(Fate::Wait(_)) if is_done => self.look_at = Moment::START,
                _ if !is_done && is_unchanged => {
                    self.jobs[one.at].stale = true;
                    self.look_again();
                }
                _ => {}
            }
        }
        Ok(true)
    }

    /// How long after its start time this daemon leaves a tick to the first choice, in microseconds.
    pub(super) fn patience(&self, name: &str, tick: i64) -> i64 {
        if self.is_for_me(name, tick) {
            0
        } else {
            micros(HEAD_START)
        }
    }
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}
