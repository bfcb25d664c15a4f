//! A durable lock for a keeper: the `Backend` of this folder. If a session is lost the lock stays: another session renews the row.

use std::rc::Rc;
use std::thread::sleep;
use std::time::Duration;

use super::attempts::Attempts;
use super::claim::Claim;
use super::clock::{Clock, disagreement};
use super::holding::Hold;
use super::prepare::{fit_for_lock, prepare};
use super::state::SlotState;
use super::statements::{Prepared, Statements, Terms, Write};
use super::step::Written;
use super::token_end::RecordTokenEnd;
use crate::base::clock::{Moment, by_chance};
use crate::base::exit::{Failure, Reason};
use crate::base::log::Level;
use crate::base::text::shown;
use crate::db::{
    Client, Connector, Fault, LatestTimeline, READ_ONLY, REFUSED_PAUSE, Session, roll_back,
};
use crate::lock::named::{Request, Verbosity, follow, unpooled_number};
use crate::lock::{
    Attempt, Backend, Caller, Grant, Holder, HolderKind, Holders, Lease, LockSpec, MOST_NAMED,
    Reattempt, Refusal, Release, Renewal,
};
use crate::schema::Tables;

/// The pause after a write that was in conflict with another one.
pub(super) const CONFLICT_PAUSE: Duration = Duration::from_millis(10);

/// While the row is renewed, a server gets this part of the TTL to connect, but no less than the second limit.
const SHARE_OF_TTL: u32 = 8;
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);

/// A server gets at least this for the answer to a claim. One that only waits for a locked row has said so by then; with less time it
/// would look out of reach, and each caller might run without the lock.
pub const CLAIM_LIMIT: Duration = Duration::from_millis(2500);

/// For how much longer than the TTL a release is retried.
const RELEASE_BEYOND_TTL: Duration = Duration::from_secs(60);

/// How long to try to record the end of a run whose supervisor has died. Its lock is held until then.
const DEAD_LIMIT: Duration = Duration::from_secs(1);

/// What makes a lock durable.
pub struct RowSpec {
    /// The tables.
    pub tables: Tables,
    /// The owner of the row: 32 hex digits that nobody else has.
    pub owner: String,
    /// The kind of the holder.
    pub kind: HolderKind,
    /// The run whose command is under a script's grant.
    pub command_run: Option<String>,
    /// What `acquire --owner` says.
    pub owner_name: Option<String>,
    /// The slot and the fence of a script's grant; `None`: a new grant is requested.
    pub token: Option<(u32, u64)>,
    /// For how long each renewal extends it; `None`: as long as its row says.
    pub ttl: Option<Duration>,
    /// The statements in the transaction of a grant, from the slot and the connection id.
    pub on_grant: Box<dyn Fn(u32, u64) -> Vec<String>>,
    /// Records that a script has lost its grant to this caller, or together with its command.
    pub on_token_end: RecordTokenEnd,
    /// The statements in the release of an unused grant.
    pub on_withdrawal: Vec<String>,
}

/// Whether the server's named locks serve as the queue.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    /// They exclude: each slot's named lock is held with its row.
    Excludes,
    /// Each server of a cluster has its own.
    OfThisServer,
    /// There are none.
    #[default]
    None,
}

/// What the session's server is to the lock.
#[derive(Default)]
pub(super) struct OnServer {
    pub queue: Queue,
    /// The slot whose named lock the session holds.
    pub named_slot: Option<u32>,
    /// Whether the session may have announced there that it takes the slot again, or ends its command.
    pub has_announced: bool,
    /// Whether it has announced that it ends its command. A lock that is acquired twice is released twice.
    pub announces_end: bool,
    pub clock: Option<Clock>,
    /// The session of a killer that does not see the tables, which waits for the command's end.
    pub named_killer: Option<u64>,
    /// Whether its binary log has statements.
    pub logs_statements: bool,
}

/// What was read last of a script's grant.
#[derive(Default)]
pub(super) struct OfToken {
    /// The other command under it.
    pub other_command: Option<Holders>,
    /// The killer of the command under it, which ends the grant, too.
    pub killed_by: Option<String>,
}

/// The renewal that is under way, or the latest one.
#[derive(Default)]
pub(super) struct CurrentRenewal {
    /// When to stop waiting for its answer at the latest, or for that to a release; `None`: none is under way, or it has no such limit.
    pub until: Option<Moment>,
    /// Whether it was refused on a new session, which was dropped.
    is_refused: bool,
}

/// One caller's durable lock.
pub struct RowLock {
    pub(super) connector: Rc<Connector>,
    pub(super) request: Request,
    pub(super) statements: Statements,
    pub(super) spec: RowSpec,
    /// Its name, slots and TTL. That of a script's grant is what its row says.
    pub(super) wanted: LockSpec,
    /// The grant that is held or was lost. Meaningless before the first one.
    pub(super) grant: Grant,
    pub(super) session: Option<Session>,
    pub(super) server: OnServer,
    /// The number of the latest write.
    pub(super) write_id: u64,
    pub(super) attempts: Attempts,
    pub(super) claim: Claim,
    pub(super) hold: Hold,
    pub(super) renewal: CurrentRenewal,
    pub(super) of_token: OfToken,
    /// Whether the session has other uses, too.
    pub(super) shares_session: bool,
}

impl RowLock {
    /// A lock on the servers of `connector`. All of its sessions acquire the run id lock.
    pub fn new(
        connector: Rc<Connector>,
        spec: &LockSpec,
        run_id: &str,
        verbosity: Verbosity,
        row: RowSpec,
    ) -> Self {
        Self {
            request: Request::new(connector.kind(), spec, run_id, verbosity).serving_as_queue(),
            connector,
            statements: Statements::new(&row.tables, &spec.name, spec.slots, &row.owner),
            hold: Hold::new(row.token.is_some()),
            attempts: Attempts::default(),
            claim: Claim::default(),
            renewal: CurrentRenewal::default(),
            spec: row,
            wanted: spec.clone(),
            grant: Grant::default(),
            session: None,
            server: OnServer::default(),
            // A random start, so that a process that replaces this one after its death uses other numbers.
            write_id: getrandom::u32().map_or(1, u64::from) << 16,
            of_token: OfToken::default(),
            shares_session: false,
        }
    }

    /// With the latest timeline that other processes know, too.
    pub fn following(mut self, timeline: LatestTimeline) -> Self {
        self.request.timeline = timeline;
        self
    }

    /// For a slot that another process held, which has died.
    pub fn resumed(mut self, grant: Grant) -> Self {
        self.grant = grant;
        self.hold.may_be_released = true;
        self
    }

    /// For a request of another process, which has died. `may_hold`: it may have been granted a slot.
    pub fn requested_before(mut self, may_hold: bool) -> Self {
        self.request = self.request.made_before();
        self.claim.may_hold = may_hold;
        self
    }

    /// How long a server may take for an answer. No longer than its share of the time to connect: a node that is cut off accepts logins,
    /// but no writes.
    pub(super) fn limit(&self) -> Duration {
        let limit = self.longest_limit();
        match self.renewal.until {
            Some(until) => limit.min(Lease::time_until(until)),
            None => limit,
        }
    }

    fn longest_limit(&self) -> Duration {
        let limit = Lease::answer_limit(self.wanted.ttl);
        limit.min(self.connector.attempt_limit().max(SHORTEST_LIMIT))
    }

    /// How long a server may take for an answer to a claim. Nobody holds anything yet that has to be renewed elsewhere meanwhile.
    pub(super) fn claim_limit(&self) -> Duration {
        self.longest_limit().max(CLAIM_LIMIT)
    }

    /// Limits the wait for each answer to that. A renewal may take several statements, one after the other.
    pub(super) fn limit_answers(&self, session: &Session) -> Result<(), Fault> {
        let Some(until) = self.renewal.until else {
            return session.answer_within(self.limit());
        };
        let most = self.longest_limit();
        session.answer_each_within(move || most.min(Lease::time_until(until)));
        Ok(())
    }

    /// Does this until then at the latest, also on a new session; `None`: however long it takes.
    fn within<T>(&mut self, until: Option<Moment>, act: impl FnOnce(&mut Self) -> T) -> T {
        let set = |lock: &mut Self, limit: Option<Moment>| {
            lock.renewal.until = limit;
            // If this fails, the session has ended, and its next statement fails.
            if let (true, Some(session)) = (until.is_some(), &lock.session) {
                let _ = lock.limit_answers(session);
            }
        };
        set(self, until);
        let done = act(self);
        set(self, None);
        done
    }

    pub(super) fn next_write_id(&mut self) -> u64 {
        self.write_id += 1;
        self.write_id
    }

    /// Prepares a new session for the tables, and notes what its server is. The server must take writes.
    pub(super) fn prepare(&mut self, session: &mut Session) -> Result<(), Fault> {
        self.limit_preparing(session)?;
        let (asked, prepared) = (
            Moment::now(),
            prepare(&self.spec.tables, self.limit(), session),
        );
        self.note_prepared(asked, prepared, session)
    }

    pub(super) fn limit_preparing(&self, session: &Session) -> Result<(), Fault> {
        let limit = self.limit().min(self.connector.attempt_limit());
        session.answer_within(limit)
    }

    /// Notes what a new session's server is. The server must take writes.
    pub(super) fn note_prepared(
        &mut self,
        asked: Moment,
        prepared: Result<Prepared, Fault>,
        session: &mut Session,
    ) -> Result<(), Fault> {
        let prepared = fit_for_lock(&self.spec.tables, prepared, session)?;
        self.server.queue = if prepared.is_cluster {
            Queue::OfThisServer
        } else {
            Queue::Excludes
        };
        self.server.logs_statements = prepared.logs_statements;
        let clock = Clock::new(prepared.clock, asked, Moment::now());
        if let Some(before) = self.server.clock.replace(clock)
            && let Some(off) = disagreement(before, clock, self.wanted.ttl)
        {
            let line = format!(
                "the clock of {session} is {} off that of the server before, more than a tenth of the TTL",
                shown(off)
            );
            session.tell(Level::Warning, &line);
        }
        session.answer_within(Duration::ZERO)
    }

    pub(super) fn terms<'a>(&'a self, also: &'a [String]) -> Terms<'a> {
        Terms {
            kind: self.spec.kind,
            command_run: self.spec.command_run.as_deref(),
            owner_name: self.spec.owner_name.as_deref(),
            ttl: self.spec.ttl,
            also,
            proof: None,
            // A replica would carry the statement out with its own `read_only`, and the row would expire there.
            unless_read_only: !self.server.logs_statements,
        }
    }

    /// Runs a write, which does not count on a server that takes no writes. After a fault that does not end the session, rolls the
    /// transaction back.
    pub(super) fn write(&self, write: &Write, session: &mut Session) -> Result<Written, Fault> {
        let write = write.batch().if_it_takes_writes(session.kind());
        let fault = match session.run_batch(&write) {
            Ok(rows) => return Ok(rows),
            Err(fault @ Fault::Gone(_)) => return Err(fault),
            Err(fault) => fault,
        };
        session.run(&roll_back())?;
        Err(self.spec.tables.explain(fault))
    }

    /// As [`RowLock::write`]. `None`: it was in conflict with another write, and `patience` since it had `begun` is not over. Then it has
    /// paused.
    pub(super) fn try_write(
        &self,
        write: &Write,
        begun: Moment,
        patience: Duration,
        session: &mut Session,
    ) -> Result<Option<Written>, Fault> {
        match self.write(write, session) {
            Ok(written) => Ok(Some(written)),
            Err(Fault::Conflict(_) | Fault::Interrupted(_)) if begun.elapsed() < patience => {
                sleep(by_chance(CONFLICT_PAUSE));
                Ok(None)
            }
            Err(fault) => {
                self.connector.try_last(session);
                Err(fault)
            }
        }
    }

    /// The holder of a row. The row is of this lock alone, so it says since when that is held.
    fn holder(&self, row: &SlotState) -> Client {
        let mut client = row.client.clone();
        if let Some(claims) = &mut client.claims {
            claims.lock = Some(self.wanted.name.to_string());
        }
        client
    }

    /// The holders of the rows.
    pub(super) fn holders(&self, rows: &[SlotState]) -> Holders {
        let mut held: Vec<&SlotState> = rows.iter().filter(|row| row.is_owned()).collect();
        held.sort_by_key(|row| row.slot);
        let named = held
            .iter()
            .take(MOST_NAMED as usize)
            .map(|row| match row.killer() {
                Some(killer) => Holder::Killer(Box::new(killer)),
                None => Holder::Session(Box::new(self.holder(row))),
            });
        Holders {
            named: named.collect(),
            slots: self.wanted.slots,
        }
    }

    /// The current session, or a new one that holds the run id lock.
    pub(super) fn reach(&mut self) -> Result<Session, Fault> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        let connector = Rc::clone(&self.connector);
        (self.server.named_slot, self.server.has_announced) = (None, false);
        self.server.announces_end = false;
        // On another server the number is another's.
        self.server.named_killer = None;
        let until = self.renewal.until;
        let timeline = self.request.timeline;
        let open = |session: &mut Session| {
            self.limit_preparing(session)?;
            unpooled_number(session)?;
            follow(timeline, session)?;
            self.prepare(session)?;
            // It takes writes, and may have been a standby when it told its timeline first.
            follow(timeline, session)?;
            self.limit_answers(session)
        };
        let opened = match until.map(Lease::time_until) {
            Some(limit) => connector.connect_within(limit, open),
            None => connector.connect(open),
        };
        Ok(opened?.0)
    }
}

/// Turns a refusal of the account into a fault that may pass, like a server that is away. It pauses first, because the server may count
/// refusals.
fn refused_for_now(fault: Fault) -> Fault {
    match fault {
        Fault::Final(failure) if failure.reason == Reason::AccountRefused => {
            sleep(REFUSED_PAUSE);
            Fault::Gone(failure.line)
        }
        fault => fault,
    }
}

impl Backend for RowLock {
    fn try_acquire(&mut self, caller: &dyn Caller) -> Result<Attempt, Failure> {
        let attempt = self.attempt(caller);
        if attempt.is_err() && self.claim.may_hold {
            // No further attempt would find this grant.
            let _ = self.release_row(&[]);
        }
        attempt
    }

    fn renew(&mut self, until: Option<Moment>) -> Renewal {
        let renewed = self.within(until, Self::renew_row);
        self.renewal.is_refused = self.session.is_none() && matches!(renewed, Err(Fault::Final(_)));
        match renewed {
            Ok(renewal) => renewal,
            // A fault of all servers in a round; it names one of them. That of a session does not.
            Err(Fault::ReadOnly(line))
                if line != READ_ONLY && !line.starts_with("takes no writes") =>
            {
                Renewal::Unanswered(line)
            }
            Err(fault) => Renewal::Unanswered(fault.to_string()),
        }
    }

    fn outlives_session(&self) -> bool {
        true
    }

    fn on_session_end(&mut self) -> Option<String> {
        self.session = None;
        None
    }

    /// The row has another owner, or none, so others may have held the lock since.
    fn try_reacquire(&mut self, _take: bool, _until: Option<Moment>) -> Reattempt {
        let line = "its row is no longer this run's".to_owned();
        Reattempt::Refused(Refusal::Failed(Failure::new(Reason::LockLost, line)))
    }

    fn find_kill(&mut self, _until: Option<Moment>) -> Option<Client> {
        None
    }

    /// The release of the row acknowledges the kill. The rest is done when the supervisor, which is stopped, continues.
    fn ack_kill(&mut self, until: Option<Moment>) -> bool {
        let released = self.within(until, |lock| {
            lock.reach_to_release()?;
            lock.release_row(&[])
        });
        // Another attempt is made on another session.
        self.session = None;
        let is_released = released.is_ok();
        self.hold.may_be_released |= is_released;
        is_released
    }

    fn release(&mut self, also: &dyn Fn() -> Vec<String>, patience: Duration) -> Release {
        let mut unrecorded: Option<String> = None;
        let begun = Moment::now();
        let was_held = loop {
            if self.hold.stays_the_scripts(&self.own_grant()) {
                break Ok(true);
            }
            let also = unrecorded.as_ref().map_or_else(also, |_| Vec::new());
            // Also where a resolver hangs, the next server is tried before the supervisor stops waiting.
            let is_lost = self.session.is_none();
            let until = is_lost.then(|| Moment::now() + self.wanted.ttl / 2);
            let reached = self.within(until, Self::reach_to_release);
            let reached = reached.map_err(refused_for_now);
            match reached.and_then(|()| self.release_row(&also)) {
                Ok(was_held) => break Ok(was_held),
                Err(fault)
                    if !also.is_empty()
                        && begun.elapsed() < patience
                        && fault.refuses_for_now() =>
                {
                    sleep(REFUSED_PAUSE);
                }
                // To free the lock matters more than to record the run.
                Err(Fault::Final(failure)) if !also.is_empty() => {
                    unrecorded = Some(format!("cannot record the run: {}", failure.line));
                }
                Err(Fault::NoRoom(cause)) if !also.is_empty() => {
                    unrecorded = Some(format!("cannot record the run: no room: {cause}"));
                }
                Err(Fault::Final(failure)) => break Err(Some(failure.line)),
                // The row has expired long ago, and nobody waits for this release any more.
                Err(fault) if begun.elapsed() > self.wanted.ttl + RELEASE_BEYOND_TTL => {
                    if !also.is_empty() {
                        unrecorded = Some(format!("cannot record the run: {fault}"));
                    }
                    break Err(Some(fault.to_string()));
                }
                Err(_) => sleep(self.connector.pause()),
            }
        };
        if let Some(line) = &unrecorded {
            self.connector.tell(Level::Warning, line);
        }
        Release {
            also_done: unrecorded.is_none() && was_held.is_ok(),
            was_held,
        }
    }

    /// Nobody waits for this process any more, so nobody ends it if a resolver or a server hangs. Whoever waits for the row gets it when it
    /// has expired.
    fn release_for_the_dead(&mut self, also: &[String]) {
        let until = Moment::now() + self.wanted.ttl / 2;
        self.within(Some(until), |lock| {
            // To free the lock matters more than to record the run.
            let mut released = lock.release_row_within(also, DEAD_LIMIT);
            if released.is_err() && !also.is_empty() {
                released = lock.release_row(&[]);
            }
            if matches!(released, Err(Fault::Gone(_) | Fault::ReadOnly(_))) {
                let _ = lock.release_row(&[]);
            }
        });
    }

    fn write_anew(
        &mut self,
        write: &dyn Fn(&mut Session) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.session = None;
        let mut session = self.reach()?;
        let written = write(&mut session);
        self.session = Some(session);
        written
    }

    fn drop_held(&mut self) {
        self.session = None;
    }

    fn session(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    fn current_session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    fn answer_within(&mut self, limit: Duration) -> Result<(), Fault> {
        self.connector
            .cap_attempts((limit / SHARE_OF_TTL).max(SHORTEST_LIMIT));
        Ok(())
    }

    fn pause(&self) -> Duration {
        self.connector.pause()
    }

    fn is_refused(&self) -> bool {
        self.renewal.is_refused
    }
}
