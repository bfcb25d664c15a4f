//! Renews the leases: the daemon's own, and the locks of its ticks, all in one statement. Finds out which locks are lost, and who ends a
//! run.

use std::cmp::Reverse;
use std::time::Duration;

use super::super::message::FromScheduler;
use super::own::{OwnTick, TickLock};
use super::session::without_named_locks;
use super::{LOOK, Scheduler};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{AttemptEnd, CommandState, Overlap, RunState, TickRow, ask_run, is_renewed};
use crate::isolated::link::cut;
use crate::lock::Renewal;
use crate::lock::rows::{RowLock, announce_all, ask_kills, renew_all};

/// The longest interval of renewals of all leases. That of the daemon lasts three times as long.
const RENEWAL: Duration = Duration::from_secs(10);

/// The most time for the answer to who has ended a run whose lock is lost: its command must end, and somebody else may run.
const WHO_ENDED: Duration = Duration::from_secs(2);

impl Scheduler<'_> {
    /// The interval of renewals.
    pub(super) fn renewal(&self) -> Duration {
        let jobs = self.view.jobs.iter().map(|known| &known.job);
        let jobs = jobs.chain(self.own.by_run.values().map(|mine| &mine.job));
        let shortest = jobs.map(|job| job.options.ttl).min();
        shortest.map_or(RENEWAL, |ttl| RENEWAL.min(ttl / 4))
    }

    /// Renews all leases: the daemon's own, and those of its ticks.
    pub(super) fn renew(&mut self) -> Result<(), Failure> {
        let is_new = std::mem::take(&mut self.shared.is_new);
        let renewed = self.renew_locks(is_new);
        self.shared.is_new |= is_new && renewed.is_err();
        let mut is_done = renewed?;
        self.leave_queues();
        // Only now the session has the named locks of what runs.
        if is_new && !self.shared.is_new {
            let link = self.coordinator.link;
            self.connection.pass_on(link, &FromScheduler::Session);
        }
        if !self.shared.is_new && !self.shared.is_only {
            self.be_the_only_session()?;
        }
        self.seek_named_locks();
        // The other daemons are to know that this one starts nothing.
        if self.registration.disagrees.is_some() && !self.awaits_acknowledgement() {
            is_done &= self.renew_own()?;
        }
        let pause = if is_done { self.renewal() } else { LOOK };
        self.timetable.renew_at = Moment::now() + pause;
        Ok(())
    }

    /// As [`Self::renew`], if that is due: what takes many statements must not keep the leases waiting.
    pub(super) fn renew_if_due(&mut self) -> Result<(), Failure> {
        if self.timetable.renew_at <= Moment::now() || self.shared.is_new {
            self.renew()?;
        }
        Ok(())
    }

    /// The runs whose locks are to be renewed.
    fn renewable(&self) -> Vec<String> {
        let held = self.own.by_run.iter().filter(|(_, mine)| mine.has_row());
        let held = held.filter(|(_, mine)| !self.is_without_use(mine));
        held.map(|(run, _)| run.clone()).collect()
    }

    /// Whether nobody needs the lock of a tick any more, so that it is not renewed.
    fn is_without_use(&self, mine: &OwnTick) -> bool {
        let (board, number) = (self.coordinator.board, mine.attempt.lease_number());
        let is_own = |lease: u64| lease == number;
        let command = if board.are_killed_and_gone(is_own) {
            CommandState::Killed
        } else if board.has(is_own) {
            CommandState::Started
        } else {
            CommandState::Unstarted
        };
        !is_renewed(command, self.awaits_acknowledgement())
    }

    /// Takes the named locks that others had when this session was new.
    fn seek_named_locks(&mut self) {
        let lacks = |mine: &OwnTick| {
            matches!(mine.state, TickLock::Held(_)) && mine.lock.lacks_named_lock()
        };
        let lacking = self.own.by_run.iter().filter(|(_, mine)| lacks(mine));
        for run in lacking.map(|(run, _)| run.clone()).collect::<Vec<_>>() {
            let _ = self.on_lock(&run, RowLock::try_named_lock);
        }
    }

    /// Lets others have the locks that are not held any more, where no command needs them and no end is told of.
    fn leave_queues(&mut self) {
        let is_left = |mine: &OwnTick| match mine.state {
            TickLock::Held(lease) => {
                lease.proved + lease.ttl <= Moment::now() && self.is_without_use(mine)
            }
            TickLock::Lost(_) => {
                let number = mine.attempt.lease_number();
                self.awaits_acknowledgement()
                    && !self.coordinator.board.is_alive(|lease| lease == number)
            }
            TickLock::Sought(_) | TickLock::Killed(..) | TickLock::Released => false,
        };
        let left = self.own.by_run.iter().filter(|(_, mine)| is_left(mine));
        for run in left.map(|(run, _)| run.clone()).collect::<Vec<_>>() {
            let _ = self.on_lock(&run, RowLock::leave_queue);
            if let Some(mine) = self.own.by_run.get_mut(&run) {
                mine.state = TickLock::Lost(Moment::now());
            }
        }
    }

    /// Renews the locks of ticks. Returns whether the server has answered.
    pub(super) fn renew_locks(&mut self, is_new: bool) -> Result<bool, Failure> {
        let mut runs = self.renewable();
        if runs.is_empty() {
            return Ok(true);
        }
        // A row that was locked the last time comes last: each such row takes as long as the server waits for it.
        runs.sort_by_key(|run| Reverse(self.own.by_run.get(run).and_then(OwnTick::proved)));
        if is_new {
            self.announce(&runs)?;
        } else {
            let sent = Moment::now();
            let held = self.own.by_run.iter_mut();
            let held = held.filter(|(run, _)| runs.contains(*run));
            let renew = renew_all(self.tables, held.map(|(_, mine)| &mut mine.lock));
            match self.ask(|session| session.change(&renew))? {
                // A row is locked. It must not keep the others from being renewed.
                None if self.locked_rows.was_met => {}
                None => return Ok(false),
                Some(changed) if changed == runs.len() as u64 => {
                    for run in runs {
                        self.confirm(&run, sent);
                    }
                    return Ok(true);
                }
                Some(_) => {}
            }
        }
        Ok(self.renew_each(runs, is_new))
    }

    /// Announces that this session takes the named locks of these runs again. An older one may end with the first of them.
    fn announce(&mut self, runs: &[String]) -> Result<(), Failure> {
        let Some(server) = self.shared.server else {
            return Ok(());
        };
        let kind = self.connection.connector.kind();
        let held = self.own.by_run.iter_mut();
        let held = held.filter(|(run, _)| runs.contains(*run));
        if let Some(announce) = announce_all(kind, server, held.map(|(_, mine)| &mut mine.lock)) {
            self.ask(|session| without_named_locks(session.run(&announce)))?;
        }
        Ok(())
    }

    /// The lock of a run was held when this renewal was sent.
    fn confirm(&mut self, run: &str, sent: Moment) {
        let state = self.own.by_run.get_mut(run).map(|mine| &mut mine.state);
        if let Some(TickLock::Held(lease)) = state {
            lease.proved = sent;
            let confirmed = FromScheduler::Confirmed(run.to_owned(), sent);
            self.coordinator.link.send_if_heard(&confirmed);
        }
    }

    /// Renews each lock by itself, and finds out which are lost. Returns whether the server has answered.
    fn renew_each(&mut self, runs: Vec<String>, is_new: bool) -> bool {
        for run in runs {
            let Some(renewal) = self.on_lock(&run, |lock| lock.renew_on(is_new)) else {
                self.shared.is_new |= is_new;
                return false;
            };
            let Some(mine) = self.own.by_run.get_mut(&run) else {
                continue;
            };
            match (renewal, &mut mine.state) {
                (Renewal::Confirmed(sent), _) => self.confirm(&run, sent),
                (Renewal::Killed(who), TickLock::Held(lease)) => {
                    let until = Moment::now() + mine.job.options.kill_after;
                    mine.state = TickLock::Killed(who.clone(), until.min(lease.over()));
                    self.coordinator.say(FromScheduler::Killed(run, who));
                }
                (Renewal::Lost(cause), _) => self.lose(run, &cause),
                (Renewal::Unanswered(cause), _) => {
                    self.coordinator.note(Level::Info, &cause);
                    if self.connection.session().is_none() {
                        self.shared.is_new |= is_new;
                        return false;
                    }
                }
                _ => {}
            }
        }
        true
    }

    /// The lock of a run that was held is lost. What somebody has ended by force is not tried again, which is told when the command ends.
    fn lose(&mut self, run: String, cause: &str) {
        let Some(mine) = self.own.by_run.get_mut(&run) else {
            return;
        };
        let TickLock::Held(lease) = &mine.state else {
            return;
        };
        let until = Moment::now() + mine.job.options.kill_after;
        mine.state = TickLock::Lost(until.min(lease.over()));
        let ask = ask_run(self.tables, &mine.job.name.to_string(), &run);
        let limit = WHO_ENDED.min(self.answer_limit());
        let state = self.ask(|session| {
            session.answer_within(limit)?;
            session.run(&ask)
        });
        self.connection.forget_limit();
        let is_killed = matches!(state, Ok(Some(RunState::Ended(AttemptEnd::Over))));
        let lost = FromScheduler::Lost(run, cut(cause), is_killed);
        self.coordinator.say(lost);
    }

    /// Ends the runs whose ticks were given to other attempts, as this host was asleep. Where runs may overlap, the next attempt may have
    /// another slot, and then the lock of this one is free for it again. Where they may not, the lock says who goes on.
    pub(super) fn lose_given_ticks(&mut self) {
        let own = self.own.by_run.iter();
        let may_overlap = own.filter(|(_, mine)| mine.job.options.overlap == Overlap::Allow);
        let lost = may_overlap.filter(|(run, mine)| {
            let (name, attempt) = (mine.job.name.to_string(), &mine.attempt);
            let is_same = |tick: &TickRow| tick.tick == attempt.tick && tick.name == name;
            let is_handed_on = |tick: &TickRow| tick.run == **run && tick.daemon.is_none();
            let is_with_another = |tick: &TickRow| {
                is_same(tick) && (tick.attempt > attempt.number || is_handed_on(tick))
            };
            !self.own.has_ended(run) && self.view.ticks.iter().any(is_with_another)
        });
        for run in lost.map(|(run, _)| run.clone()).collect::<Vec<_>>() {
            self.lose(run, "its tick was given to another attempt");
        }
    }

    /// Looks whether somebody ends a run of this daemon.
    pub(super) fn look_for_kills(&mut self) -> Result<(), Failure> {
        let held = self.own.by_run.values();
        let held = held.filter(|mine| matches!(mine.state, TickLock::Held(_)));
        let held: Vec<&RowLock> = held.map(|mine| &mine.lock).collect();
        if held.is_empty() {
            return Ok(());
        }
        let kills = ask_kills(self.tables, held);
        if self.ask(|session| session.run(&kills))? == Some(true) {
            self.renew_each(self.renewable(), false);
        }
        Ok(())
    }
}
