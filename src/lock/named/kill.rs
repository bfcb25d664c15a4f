//! Kills a holder, for `dblock kill`: carries out what `killer` asks.

mod statements;

use std::thread::sleep;
use std::time::Duration;

use super::inspect::Inspector;
use super::killer::{Answer, Ask, Killer, Marker, Outcome, Patience, Report};
use super::request::LOOK_AGAIN_AT_KILLER;
use super::statements::{
    Line, NO_SUCH_SESSION, NOT_YOURS, kill_session, release_once, set_idle_timeout, take_lock_now,
};
use crate::base::clock::Moment;
use crate::db::{Client, Code, Fault, Kind, ask_session_info, client};
use crate::lock::{
    KillOutcome, Killed, LONGEST_TTL, MOST_SLOTS, Name, Victim, Wait, kill_ack_lock,
    kill_request_lock, session_marker_lock, shared_session_lock,
};
use statements::{ask_account, ask_is_superusers, ask_uptime};

/// How long the server keeps the markers of a killer whose host has vanished.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Holders that lost their sessions when a server restarted usually reacquire the lock within this time.
const JUST_STARTED: Duration = Duration::from_secs(30);

/// How long the server may take to free the locks of a killed session.
const LONGEST_END: Duration = Duration::from_secs(10);

/// A kill of one holder.
pub struct Killing<'a> {
    /// The session that runs the kill.
    pub inspector: &'a mut Inspector,
    /// The lock.
    pub name: &'a Name,
    /// The slot to free; `None`: the one that is held.
    pub slot: Option<u32>,
    /// How long to wait for the end of the command.
    pub wait: Wait,
    /// Whether to kill nobody.
    pub dry_run: bool,
    /// How long the holder's dblock may take to open a new session.
    pub connect_timeout: Duration,
}

/// What is known during a kill.
struct Run {
    slot: u32,
    /// The markers' names on the server. The second is known with the holder.
    markers: [String; 2],
    /// The holder. Unknown until the server has answered who it is.
    holder: Victim,
    /// Its account; `None`: this one may not see that, it was gone before it was asked for, or this is a dry run.
    account: Option<String>,
    /// Another killer, which this one waits for.
    other: Option<Client>,
    /// This session's connection id, once it was asked for.
    own: Option<u64>,
    /// Why the server has refused to kill the session: its error number.
    refused: Option<Code>,
    /// When the kill began.
    begun: Moment,
    /// When the latest question was asked first.
    asked_since: Moment,
    /// When the holder was last seen to announce that it ends its command; at first, when the kill began.
    heard_at: Moment,
}

impl Run {
    fn new(name: &Name, slot: u32) -> Self {
        Self {
            slot,
            markers: [name.kill_on_server(slot), String::new()],
            holder: Victim::default(),
            account: None,
            other: None,
            own: None,
            refused: None,
            begun: Moment::now(),
            asked_since: Moment::now(),
            heard_at: Moment::now(),
        }
    }

    fn marker(&self, marker: Marker) -> &str {
        &self.markers[usize::from(marker == Marker::Session)]
    }
}

impl Killing<'_> {
    /// Kills the holder. A dry run only finds it.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn end(&mut self) -> Result<Killed, Fault> {
        let slot = match self.slot()? {
            Ok(slot) => slot,
            Err(several) => return Ok(Killed::SeveralHolders(several)),
        };
        let outcome = Box::new(self.end_slot(slot)?);
        Ok(Killed::Slot { slot, outcome })
    }

    fn end_slot(&mut self, slot: u32) -> Result<KillOutcome, Fault> {
        let mut killer = Killer::new(self.dry_run);
        let mut run = Run::new(self.name, slot);
        loop {
            let asked = killer.asked();
            if let Ask::Over(outcome) = asked {
                self.wake_who_waits()?;
                return self.outcome(outcome, run);
            }
            let answer = self.carry_out(asked, &mut run)?;
            let next = killer.next(answer, self.patience(asked, &run));
            if next == asked {
                sleep(LOOK_AGAIN_AT_KILLER);
            } else {
                run.asked_since = Moment::now();
            }
        }
    }

    /// The slot to free: the named one, else the one that is held, else one whose holder is being killed. `Err`: the slots, if several
    /// are held.
    fn slot(&mut self) -> Result<Result<u32, Vec<u32>>, Fault> {
        let name = self.name;
        if let Some(slot) = self.slot {
            return Ok(Ok(slot));
        }
        let held = self
            .inspector
            .owned_slots(MOST_SLOTS, |slot| name.slot_on_server(slot))?;
        Ok(match &held[..] {
            [] => {
                let mut killed = self
                    .inspector
                    .owned_slots(MOST_SLOTS, |slot| name.termination_on_server(slot))?;
                if killed.is_empty() {
                    // It has not answered its killer.
                    killed = self
                        .inspector
                        .owned_slots(MOST_SLOTS, |slot| name.kill_on_server(slot))?;
                }
                Ok(killed.first().map_or(0, |(slot, _)| *slot))
            }
            [(slot, _)] => Ok(*slot),
            several => Err(several.iter().map(|(slot, _)| *slot).collect()),
        })
    }

    /// Carries out what the killer asks, and returns the server's answer.
    fn carry_out(&mut self, ask: Ask, run: &mut Run) -> Result<Answer, Fault> {
        let (slot, name) = (run.slot, self.name);
        let slot_lock = name.slot_on_server(slot);
        let locks = [
            name.kill_on_server(slot),
            name.termination_on_server(slot),
            slot_lock.clone(),
        ];
        Ok(match ask {
            Ask::Owners => {
                // One statement for all three.
                let [killer, ending, holder] = self.inspector.owners(&locks)?;
                Answer::Owners {
                    killer,
                    ending,
                    holder,
                }
            }
            Ask::Holder(id) => {
                let client = self.client(id)?;
                // A dry run awaits no report, so it need not know whose to believe.
                if !self.dry_run {
                    run.account = self.account(id)?;
                }
                let marks = [session_marker_lock(id), shared_session_lock(id)];
                let [is_dblock, is_shared] = self
                    .inspector
                    .owners(&marks)?
                    .map(|owner| owner == Some(id));
                run.markers[1] = kill_request_lock(id);
                run.holder = Victim {
                    client: Some(client),
                    is_dblock,
                    durable: None,
                };
                if is_shared {
                    Answer::IsShared
                } else {
                    Answer::IsDblock(is_dblock)
                }
            }
            Ask::LimitIdle => {
                run.begun = Moment::now();
                run.heard_at = run.begun;
                self.keep_markers_for_a_moment()?;
                Answer::Done
            }
            Ask::Mark(marker) => Answer::Marked(self.mark_one(run.marker(marker))?),
            Ask::Marked => Answer::Owner(self.inspector.owner(&run.markers[0])?),
            Ask::Slot | Ask::AwaitSession(_) => Answer::Owner(self.inspector.owner(&slot_lock)?),
            Ask::Kill(id) => {
                let killed = self.kill_session(id, &slot_lock)?;
                run.refused = killed.err();
                if killed == Ok(false) {
                    Answer::HadLeft
                } else {
                    Answer::Killed(killed.is_ok())
                }
            }
            Ask::AwaitEnd => {
                let own = match run.own {
                    Some(own) => own,
                    None => *run.own.insert(self.own_id()?),
                };
                let [_, ending, _] = locks;
                let [ending, acked] = self.inspector.owners(&[ending, kill_ack_lock(own)])?;
                if ending.is_some() {
                    run.heard_at = Moment::now();
                }
                Answer::Reported {
                    killer: Some(own),
                    ending: ending.is_some(),
                    acked: self.is_of_holder(acked, run)?,
                }
            }
            Ask::AwaitOther(other) => {
                if run.other.is_none() {
                    run.other = Some(self.client(other)?);
                }
                let [kill, ending, _] = locks;
                let [killer, ending, acked] =
                    self.inspector
                        .owners(&[kill, ending, kill_ack_lock(other)])?;
                Answer::Reported {
                    killer,
                    ending: ending.is_some(),
                    acked: acked.is_some(),
                }
            }
            Ask::Unmark(marker) => {
                let own = match run.own {
                    Some(own) if marker == Marker::Session => own,
                    _ => *run.own.insert(self.own_id()?),
                };
                self.unmark_one(run.marker(marker), own)?;
                Answer::Done
            }
            Ask::Over(_) => Answer::Done,
        })
    }

    /// Whether there was enough time for the answer to what was asked.
    fn patience(&self, asked: Ask, run: &Run) -> Patience {
        let holder = run.holder.client.as_ref();
        let claims = holder.and_then(|client| client.claims.as_ref());
        let ttl = claims.and_then(|claims| claims.ttl).unwrap_or(LONGEST_TTL);
        // Who waits for ever waits for one that announces its end for as long as it does: it lives.
        let since = match self.wait {
            Wait::For(_) => run.begun,
            Wait::Forever => run.heard_at,
        };
        Patience {
            is_over: match asked {
                Ask::AwaitSession(_) => run.asked_since.elapsed() >= LONGEST_END,
                Ask::AwaitOther(_) => self.is_over(run.asked_since, Duration::MAX),
                _ => self.is_over(since, ttl),
            },
            has_reconnected: run.begun.elapsed() >= self.connect_timeout,
        }
    }

    /// What people learn of an outcome.
    fn outcome(&mut self, outcome: Outcome, run: Run) -> Result<KillOutcome, Fault> {
        let (slot, holder, dry_run) = (run.slot, run.holder, self.dry_run);
        let killer = run.other.unwrap_or_default();
        Ok(match outcome {
            Outcome::Free => {
                let uptime = self
                    .inspector
                    .run(&ask_uptime(self.inspector.session.kind()))?;
                let server_started = uptime.filter(|span| *span < JUST_STARTED);
                KillOutcome::Free { server_started }
            }
            Outcome::Held => {
                let kind = self.inspector.session.kind();
                let asking = self.inspector.run(&ask_session_info(kind))?;
                let client = holder.client.as_ref();
                let is_own = client.is_some_and(|client| asking.is_of_account_of(client, kind));
                KillOutcome::Held {
                    holder,
                    needs_right: (!is_own).then_some(asking.account),
                }
            }
            Outcome::ReleasedMeanwhile => {
                let now = self.now(slot)?;
                KillOutcome::ReleasedMeanwhile { holder, now }
            }
            Outcome::Shared => KillOutcome::OfRow(holder),
            Outcome::Refused => {
                let code = run.refused.unwrap_or(NO_SUCH_SESSION);
                if !NOT_YOURS.contains(&code) {
                    return Ok(KillOutcome::Refused { holder, code });
                }
                let (kind, client) = (self.inspector.session.kind(), holder.client.as_ref());
                let session = client.map_or(0, |client| client.connection);
                let is_superusers =
                    kind == Kind::Postgres && self.inspector.run(&ask_is_superusers(session))?;
                let info = self.inspector.run(&ask_session_info(kind))?;
                let grant = (!is_superusers).then(|| info.grant_to_kill(kind));
                KillOutcome::NotAllowed { holder, grant }
            }
            Outcome::Killed(report) => {
                let now = self.now(slot)?;
                let after = run.begun.elapsed();
                match report {
                    Report::Ended if holder.is_dblock => {
                        KillOutcome::CommandEnded { holder, after, now }
                    }
                    Report::Ended => KillOutcome::SessionEnded { holder, now },
                    Report::Ending => KillOutcome::CommandEnding { holder, after },
                    Report::Nothing => KillOutcome::NoReport { holder, after, now },
                }
            }
            Outcome::EndedByAnother(_, is_known) => {
                let now = self.now(slot)?;
                KillOutcome::EndedByAnother {
                    killer,
                    is_known,
                    now,
                }
            }
            Outcome::BeingEnded(_) => KillOutcome::BeingEnded { killer, dry_run },
        })
    }

    /// Whose session this is.
    pub(in crate::lock) fn client(&mut self, id: u64) -> Result<Client, Fault> {
        client(id, &mut self.inspector.session)
    }

    /// The account of a session, as far as this one may see that.
    fn account(&mut self, id: u64) -> Result<Option<String>, Fault> {
        let session = &mut self.inspector.session;
        let account = session.try_run(&ask_account(session.kind(), id))?;
        Ok(account.ok().flatten())
    }

    /// Whether the session that reports the end of the command, if there is one, has the holder's account, as far as that is known: anybody
    /// may take that lock.
    fn is_of_holder(&mut self, reporter: Option<u64>, run: &Run) -> Result<bool, Fault> {
        match reporter {
            Some(reporter) if run.account.is_some() => Ok(self.account(reporter)? == run.account),
            reporter => Ok(reporter.is_some()),
        }
    }

    /// A session that was killed notifies nobody of its end. If the server refuses that, whoever is next finds out by itself.
    fn wake_who_waits(&mut self) -> Result<(), Fault> {
        let session = &mut self.inspector.session;
        if !self.dry_run && session.kind() == Kind::Postgres {
            session.try_run(&Line::wake_heads(self.name))?.ok();
        }
        Ok(())
    }

    /// Limits how long the server keeps the markers of this session when it is idle.
    pub(in crate::lock) fn keep_markers_for_a_moment(&mut self) -> Result<(), Fault> {
        self.inspector
            .run(&set_idle_timeout(self.inspector.session.kind(), IDLE_LIMIT))
    }

    /// Kills a session, which was found to hold this lock; `false`: it had ended, or released the lock, by itself. `Err`: the error of a
    /// server that refuses.
    pub(in crate::lock) fn kill_session(
        &mut self,
        id: u64,
        lock: &str,
    ) -> Result<Result<bool, Code>, Fault> {
        let session = &mut self.inspector.session;
        Ok(
            match session.try_run(&kill_session(session.kind(), id, lock))? {
                Err(NO_SUCH_SESSION) => Ok(false),
                killed => killed,
            },
        )
    }

    /// Acquires the markers; `false`: another killer holds the first one. Another may hold the second, for another slot of the same
    /// session.
    pub(in crate::lock) fn mark(&mut self, markers: &[String]) -> Result<bool, Fault> {
        for marker in markers {
            if !self.mark_one(marker)? && *marker == markers[0] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Acquires a marker; `false`: another session holds it.
    fn mark_one(&mut self, marker: &str) -> Result<bool, Fault> {
        loop {
            if let Some(acquired) = self
                .inspector
                .run(&take_lock_now(self.inspector.session.kind(), marker))?
            {
                return Ok(acquired);
            }
            sleep(LOOK_AGAIN_AT_KILLER);
        }
    }

    /// Releases the markers.
    pub(in crate::lock) fn unmark(&mut self, markers: &[String]) -> Result<(), Fault> {
        let own = self.own_id()?;
        markers
            .iter()
            .try_for_each(|marker| self.unmark_one(marker, own))
    }

    /// Releases a marker of this session, however often it was acquired: the server may have run an interrupted statement.
    fn unmark_one(&mut self, marker: &str, own: u64) -> Result<(), Fault> {
        while self.inspector.owner(marker)? == Some(own) {
            self.inspector.run(&release_once(
                self.inspector.session.kind(),
                "release lock",
                marker,
            ))?;
        }
        Ok(())
    }

    /// Whether the time to wait is over. A caller that waits forever has this `limit`.
    pub(in crate::lock) fn is_over(&self, begun: Moment, limit: Duration) -> bool {
        let limit = match self.wait {
            Wait::For(wait) => wait,
            Wait::Forever => limit,
        };
        begun.elapsed() >= limit
    }

    /// This session's connection id on the server, also behind a proxy.
    fn own_id(&mut self) -> Result<u64, Fault> {
        Ok(self
            .inspector
            .run(&ask_session_info(self.inspector.session.kind()))?
            .connection)
    }

    /// Who holds the slot's named lock now.
    pub(in crate::lock) fn now(&mut self, slot: u32) -> Result<Option<Client>, Fault> {
        let owner = self.inspector.owner(&self.name.slot_on_server(slot))?;
        owner.map(|owner| self.client(owner)).transpose()
    }
}
