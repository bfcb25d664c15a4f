//! The locks of a daemon's ticks, all on its session: each is acquired when its tick is taken, renewed with the others, and released when
//! the end of the attempt is recorded.

use std::rc::Rc;
use std::time::Duration;

use super::super::message::{Attempt, Ended, FromScheduler};
use super::super::program;
use super::{Kept, LOOK, RENEWAL, Scheduler, shown};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::base::log::Level;
use crate::cron::{AttemptEnd, Claim, Job, Overlap, TickRow, retry};
use crate::db::{Ask, Client, Fault};
use crate::history::{Journal, Outcome, RunEnd, RunFacts};
use crate::isolated::link::cut;
use crate::lock::rows::{RowLock, RowSpec, Tried, ask_kills, renew_all};
use crate::lock::{HolderKind, Lease, LockSpec, OnLockLost, Renewal, Wait, run_lock_of};

/// How many runs of a job may overlap, if overlaps are allowed.
const OVERLAPPING: u32 = 100;

/// A dead host's lock is free when its TTL is over. The server may take this much longer to grant it.
const MARGIN: Duration = Duration::from_secs(5);

/// The pauses between two attempts to acquire a lock: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A tick of this daemon, from when it is taken until the end of the attempt is recorded.
pub(super) struct Mine {
    pub job: Rc<Job>,
    pub attempt: Attempt,
    pub lock: RowLock,
    pub journal: Journal,
    pub state: State,
}

/// The lock of a tick.
pub(super) enum State {
    /// It is sought.
    Sought(Search),
    /// It is held, as far as this lease says.
    Held(Lease),
    /// It is held, and this client ends the run. The command must be gone by this moment.
    Killed(Box<Client>, Moment),
    /// It is lost. The command must be gone by this moment.
    Lost(Moment),
    /// It is released, and the end of the attempt is not recorded yet.
    Released,
}

/// A search for a lock.
pub(super) struct Search {
    begun: Moment,
    /// Until when others may hold it; `None`: for as long as they do.
    until: Option<Moment>,
    next: Moment,
    pause: Duration,
}

impl Mine {
    /// By when its command must be gone, unless the lock is confirmed before; `None`: it has none, or it is over.
    pub fn command_until(&self) -> Option<Moment> {
        match &self.state {
            State::Held(lease) => Some(lease.over()),
            State::Killed(_, until) | State::Lost(until) => Some(*until),
            State::Sought(_) | State::Released => None,
        }
    }

    /// Whether the row of its lock may be this run's, so that it must be released.
    pub fn may_have_row(&self) -> bool {
        !matches!(self.state, State::Released)
    }

    /// Whether the row of its lock is this run's, as far as is known.
    pub fn has_row(&self) -> bool {
        matches!(self.state, State::Held(_) | State::Killed(..))
    }

    /// How the attempt has ended, as the coordinator does not say it. `why` is for the history, if that gets nothing else.
    pub fn ended(&self, end: AttemptEnd, why: &str, run_end: Option<RunEnd>) -> Ended {
        let Attempt {
            failures,
            unstarted_for,
            ..
        } = self.attempt;
        let (delay, failures) = retry(&self.job.options, end, failures, unstarted_for);
        Ended {
            name: self.job.name.to_string(),
            tick: self.attempt.tick,
            run: self.attempt.run.clone(),
            retry: delay,
            end,
            unstarted_for,
            failures,
            why: (!why.is_empty()).then(|| format!("{}: {why}", self.job.name)),
            run_end: run_end.map(Box::new),
            at: Moment::now(),
        }
    }
}

/// The tick of an attempt.
fn claim(attempt: &Attempt) -> Claim {
    Claim {
        tick: attempt.tick,
        shown: attempt.shown.clone(),
        attempt: attempt.number,
    }
}

/// The end of a run whose command was not started.
fn not_run(line: String) -> RunEnd {
    RunEnd {
        outcome: Outcome::Skipped,
        exit_code: None,
        signal: None,
        ran: None,
        ended_ago: Duration::ZERO,
        message: Some(line),
        succeeded: false,
    }
}

impl Scheduler<'_> {
    /// The interval of renewals.
    pub(super) fn renewal(&self) -> Duration {
        let jobs = self.jobs.iter().map(|known| &known.job);
        let jobs = jobs.chain(self.mine.values().map(|mine| &mine.job));
        let shortest = jobs.map(|job| job.options.ttl).min();
        shortest.map_or(RENEWAL, |ttl| RENEWAL.min(ttl / 4))
    }

    /// Begins an attempt of a tick of this daemon: seeks the job's lock.
    pub(super) fn begin(&mut self, at: usize, tick: &TickRow) {
        let job = Rc::clone(&self.jobs[at].job);
        let attempt = Attempt {
            job: at,
            tick: tick.tick,
            shown: shown(&job, tick.tick),
            run: tick.run.clone(),
            number: tick.attempt,
            failures: tick.failures,
            unstarted_for: self.unstarted_for(tick),
        };
        let now = Moment::now();
        let until = match job.options.overlap {
            Overlap::Wait => None,
            _ if attempt.number > 1 => Some(now + job.options.ttl + MARGIN),
            Overlap::Skip | Overlap::Allow => Some(now),
        };
        let search = Search {
            begun: now,
            until,
            next: now,
            pause: FIRST_PAUSE,
        };
        self.add(job, attempt, State::Sought(search), |lock| lock);
    }

    /// Goes on with an attempt that another scheduler has started.
    pub(super) fn resume(&mut self, kept: Kept) {
        let state = kept
            .lease
            .map_or_else(|| State::Lost(Moment::now()), State::Held);
        // Whether the row is still held, its release says.
        let state = match &kept.ended {
            Some(_) => State::Held(Lease {
                ttl: kept.job.options.ttl,
                proved: Moment::now(),
            }),
            None => state,
        };
        self.add(kept.job, kept.attempt, state, |lock| {
            lock.resumed(kept.grant)
        });
        if let Some(ended) = kept.ended {
            self.take_in(ended);
        }
    }

    fn add(
        &mut self,
        job: Rc<Job>,
        attempt: Attempt,
        state: State,
        prepare: impl FnOnce(RowLock) -> RowLock,
    ) {
        let journal = Journal {
            tables: self.tables.clone(),
            facts: RunFacts {
                run: attempt.run.clone(),
                name: job.name.to_string(),
                slot: None,
                slot_name: None,
                tick: Some(attempt.tick),
                attempt: attempt.number,
                host: self.facts.host.clone(),
                pid: self.facts.pid.unsigned_abs(),
                user: self.facts.user.clone(),
                program: program(&job),
                connection: None,
            },
            requested: Moment::now(),
            needed: Some(Duration::ZERO),
        };
        let spec = LockSpec {
            name: job.name.clone(),
            slots: match job.options.overlap {
                Overlap::Allow => OVERLAPPING,
                Overlap::Skip | Overlap::Wait => 1,
            },
            wait: Wait::For(Duration::ZERO),
            ttl: job.options.ttl,
            on_lost: OnLockLost::Reacquire,
            allow_unfit_server: false,
        };
        let record = journal.on_grant(&attempt.run, &[]);
        let confirm = claim(&attempt).confirm(&self.tables, &journal.facts.name, &attempt.run);
        let row = RowSpec {
            tables: self.tables.clone(),
            owner: attempt.run.clone(),
            kind: HolderKind::Run,
            command_run: None,
            owner_name: None,
            token: None,
            ttl: Some(job.options.ttl),
            on_grant: Box::new(move |slot, connection| {
                let mut statements = record(slot, connection);
                statements.push(confirm.clone());
                statements
            }),
            on_token_end: journal.on_token_end(),
            on_withdrawal: Vec::new(),
        };
        let (connector, marker) = (Rc::clone(&self.connector), self.marker());
        let lock = RowLock::sharing(connector, &spec, &marker, self.session_limit, row);
        let run = attempt.run.clone();
        let mine = Mine {
            job,
            attempt,
            lock: prepare(lock),
            journal,
            state,
        };
        self.mine.insert(run, mine);
        self.outlive();
    }

    /// The lock on the server by which this daemon knows its own sessions.
    pub(super) fn marker(&self) -> String {
        run_lock_of(&self.facts.id)
    }

    /// Lends the session to the lock of a run. `None`: there is no session, or no such run.
    pub(super) fn on_lock<T>(
        &mut self,
        run: &str,
        work: impl FnOnce(&mut RowLock) -> T,
    ) -> Option<T> {
        let server = self.server?;
        let mine = self.mine.get_mut(run)?;
        let session = self.session.take()?;
        let described = session.to_string();
        let (done, session) = mine.lock.on(session, server, work);
        // The lock has set limits of its own.
        (self.session, self.answer_limit) = (session, None);
        if self.session.is_none() {
            self.note(Level::Info, &format!("lost the session with {described}"));
        }
        Some(done)
    }

    /// Seeks the locks that are sought. Returns when that is due again.
    pub(super) fn seek_locks(&mut self) -> Result<Option<Moment>, Failure> {
        let sought = self
            .mine
            .iter()
            .filter_map(|(run, mine)| match &mine.state {
                State::Sought(search) => Some((search.next, mine.attempt.tick, run.clone())),
                _ => None,
            });
        let mut sought: Vec<_> = sought.collect();
        // First come, first served.
        sought.sort();
        for (next, _, run) in sought {
            if next > Moment::now() {
                continue;
            }
            if self.is_stopped {
                self.give_back(&run);
            } else if !self.awaits_acknowledgement() {
                self.seek(&run)?;
            }
        }
        let nexts = self.mine.values().filter_map(|mine| match &mine.state {
            State::Sought(search) => Some(search.next),
            _ => None,
        });
        Ok(nexts.min().map(|next| next.max(Moment::now())))
    }

    /// Hands a tick whose lock is sought to other daemons.
    fn give_back(&mut self, run: &str) {
        if let Some(mine) = self.mine.get_mut(run) {
            let ended = mine.ended(AttemptEnd::Returned, "its host takes no more ticks", None);
            // It may have been granted without an answer.
            mine.state = State::Held(Lease {
                ttl: mine.job.options.ttl,
                proved: Moment::now(),
            });
            self.take_in(ended);
        }
    }

    /// Makes one attempt to acquire a lock, and has the coordinator start the command.
    fn seek(&mut self, run: &str) -> Result<(), Failure> {
        let Some(tried) = self.on_lock(run, RowLock::try_at_once) else {
            self.seek_later(run, None);
            return Ok(());
        };
        match tried {
            Ok(None) => self.seek_later(run, None),
            Ok(Some(Tried::Held(grant, lease))) => {
                self.note_answer();
                let confirmed = self.is_still_mine(run, lease.ttl)?;
                let Some(mine) = self.mine.get_mut(run) else {
                    return Ok(());
                };
                match confirmed {
                    None => self.seek_later(run, None),
                    Some(false) => {
                        mine.state = State::Held(lease);
                        let shown = &mine.attempt.shown;
                        let why = format!("was given to another host for {shown}");
                        let line = format!("{} {why}; not run", mine.job.name);
                        let ended = mine.ended(AttemptEnd::Over, &why, Some(not_run(line)));
                        self.take_in(ended);
                    }
                    Some(true) => {
                        mine.state = State::Held(lease);
                        let attempt = mine.attempt.clone();
                        self.renew_at = self.renew_at.min(lease.next_renewal());
                        self.say(&FromScheduler::Start(attempt, grant, lease));
                    }
                }
            }
            Ok(Some(Tried::Taken(holders))) => {
                self.note_answer();
                let Some(mine) = self.mine.get_mut(run) else {
                    return Ok(());
                };
                let State::Sought(search) = &mine.state else {
                    return Ok(());
                };
                if search.until.is_none_or(|until| until > Moment::now()) {
                    self.seek_later(run, None);
                    return Ok(());
                }
                mine.state = State::Released;
                let line = format!("{} is {holders}; not run", mine.job.name);
                let run_end = not_run(cut(&line));
                let ended = mine.ended(AttemptEnd::Over, &format!("is {holders}"), Some(run_end));
                self.note(Level::Warning, &line);
                self.take_in(ended);
            }
            Err(Fault::Final(failure)) => self.end_search(run, &failure.line),
            Err(fault) => {
                self.note(Level::Info, &fault.to_string());
                self.seek_later(run, Some(&fault.to_string()));
            }
        }
        Ok(())
    }

    /// Whether a tick still belonged to this daemon when its lock was granted; `None`: that is not known. It did if that was granted right
    /// after the tick was taken: others take the ticks of a daemon only when it has been silent for their TTL.
    fn is_still_mine(&mut self, run: &str, ttl: Duration) -> Result<Option<bool>, Failure> {
        let Some(mine) = self.mine.get(run) else {
            return Ok(None);
        };
        let is_first = matches!(&mine.state, State::Sought(search) if search.pause == FIRST_PAUSE);
        if is_first && self.renewed.elapsed() < ttl / 2 {
            return Ok(Some(true));
        }
        let name = mine.job.name.to_string();
        let confirm = claim(&mine.attempt).confirm(&self.tables, &name, run);
        let confirmed = self.ask(|session| session.change(&Ask::written(&confirm)))?;
        Ok(confirmed.map(|changed| changed > 0))
    }

    /// The next attempt follows after a pause. After a `fault` not for ever: another host may have more luck.
    fn seek_later(&mut self, run: &str, fault: Option<&str>) {
        let limit = self.spec.connection.connect_timeout;
        let Some(State::Sought(search)) = self.mine.get_mut(run).map(|mine| &mut mine.state) else {
            return;
        };
        search.next = Moment::now() + search.pause;
        search.pause = (search.pause * 2).min(LOOK);
        if let Some(fault) = fault.filter(|_| search.begun.elapsed() > limit) {
            self.end_search(run, fault);
        }
    }

    /// Gives up a search: the attempt is not started.
    fn end_search(&mut self, run: &str, why: &str) {
        if let Some(mine) = self.mine.get_mut(run) {
            let ended = mine.ended(AttemptEnd::Unstarted, why, None);
            // It may have been granted without an answer.
            mine.state = State::Held(Lease {
                ttl: mine.job.options.ttl,
                proved: Moment::now(),
            });
            let again = ended.retry.map_or_else(String::new, |delay| {
                format!("; again in {}", crate::base::text::shown(delay))
            });
            let line = format!(
                "{}: the tick {}, attempt {}, is not started: {why}{again}",
                mine.job.name, mine.attempt.shown, mine.attempt.number
            );
            self.note(Level::Warning, &line);
            self.take_in(ended);
        }
    }

    /// Renews all leases: the daemon's own, and those of its ticks.
    pub(super) fn renew(&mut self) -> Result<(), Failure> {
        let is_new = std::mem::take(&mut self.is_new_session);
        let mut is_done = self.renew_locks(is_new)?;
        self.leave_queues();
        // The other daemons are to know that this one starts nothing.
        if !self.awaits_acknowledgement() {
            is_done &= self.renew_own()?;
        }
        let pause = if is_done { self.renewal() } else { LOOK };
        self.renew_at = Moment::now() + pause;
        Ok(())
    }

    /// The runs whose locks are to be renewed.
    fn renewable(&self) -> Vec<String> {
        let held = self.mine.iter().filter(|(_, mine)| mine.has_row());
        let held = held.filter(|(_, mine)| !self.is_without_use(mine));
        held.map(|(run, _)| run.clone()).collect()
    }

    /// Whether nobody needs the lock of a tick: its coordinator does not answer, and has not started its command. Of one that was started
    /// only the coordinator knows how it ends.
    fn is_without_use(&self, mine: &Mine) -> bool {
        let number = mine.attempt.lease_number();
        self.awaits_acknowledgement() && !self.board.has(|lease| lease == number)
    }

    /// Lets others have the locks that are not held any more, where no command needs them and no end is told of.
    fn leave_queues(&mut self) {
        let is_left = |mine: &Mine| match mine.state {
            State::Held(lease) => {
                lease.proved + lease.ttl <= Moment::now() && self.is_without_use(mine)
            }
            State::Lost(_) => {
                let number = mine.attempt.lease_number();
                self.awaits_acknowledgement() && !self.board.is_alive(|lease| lease == number)
            }
            State::Sought(_) | State::Killed(..) | State::Released => false,
        };
        let left = self.mine.iter().filter(|(_, mine)| is_left(mine));
        for run in left.map(|(run, _)| run.clone()).collect::<Vec<_>>() {
            let _ = self.on_lock(&run, RowLock::leave_queue);
            if let Some(mine) = self.mine.get_mut(&run) {
                mine.state = State::Lost(Moment::now());
            }
        }
    }

    /// Renews the locks of ticks. Returns whether the server has answered.
    pub(super) fn renew_locks(&mut self, is_new: bool) -> Result<bool, Failure> {
        let runs = self.renewable();
        if runs.is_empty() {
            return Ok(true);
        }
        if !is_new {
            let sent = Moment::now();
            let mut locks = Vec::new();
            for (run, mine) in &mut self.mine {
                if runs.contains(run) {
                    locks.push(&mut mine.lock);
                }
            }
            let renew = renew_all(&self.tables, locks);
            match self.ask(|session| session.change(&renew))? {
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
        self.renew_each(runs, is_new)
    }

    /// The lock of a run was held when this renewal was sent.
    fn confirm(&mut self, run: &str, sent: Moment) {
        let state = self.mine.get_mut(run).map(|mine| &mut mine.state);
        if let Some(State::Held(lease)) = state {
            lease.proved = sent;
            let confirmed = FromScheduler::Confirmed(run.to_owned(), sent);
            self.link.send_if_heard(&confirmed);
        }
    }

    /// Renews each lock by itself, and finds out which are lost.
    fn renew_each(&mut self, runs: Vec<String>, is_new: bool) -> Result<bool, Failure> {
        for run in runs {
            self.end_commands_of_the_stopped();
            let Some(renewal) = self.on_lock(&run, |lock| lock.renew_on(is_new)) else {
                self.is_new_session |= is_new;
                return Ok(false);
            };
            let Some(mine) = self.mine.get_mut(&run) else {
                continue;
            };
            match (renewal, &mut mine.state) {
                (Renewal::Confirmed(sent), _) => self.confirm(&run, sent),
                (Renewal::Killed(who), State::Held(lease)) => {
                    let until = Moment::now() + mine.job.options.kill_after;
                    mine.state = State::Killed(who.clone(), until.min(lease.over()));
                    self.say(&FromScheduler::Killed(run, who));
                }
                (Renewal::Lost(cause), State::Held(lease)) => {
                    let until = Moment::now() + mine.job.options.kill_after;
                    mine.state = State::Lost(until.min(lease.over()));
                    self.say(&FromScheduler::Lost(run, cut(&cause)));
                }
                (Renewal::Unanswered(cause), _) => {
                    self.note(Level::Info, &cause);
                    if self.session.is_none() {
                        self.is_new_session |= is_new;
                        return Ok(false);
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    }

    /// Looks whether somebody ends a run of this daemon.
    pub(super) fn look_for_kills(&mut self) -> Result<(), Failure> {
        let held = self.mine.values();
        let held = held.filter(|mine| matches!(mine.state, State::Held(_)));
        let held: Vec<&RowLock> = held.map(|mine| &mine.lock).collect();
        if held.is_empty() {
            return Ok(());
        }
        let kills = ask_kills(&self.tables, held);
        if self.ask(|session| session.run(&kills))? == Some(true) {
            self.renew_each(self.renewable(), false)?;
        }
        Ok(())
    }
}
