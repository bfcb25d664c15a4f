//! Kills a holder, for `dblock kill`. It acquires marker locks first: they keep other callers from the slot, and the holder's dblock from
//! reacquiring it.

mod statements;

use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::inspect::Inspector;
use super::request::LOOK_AGAIN_AT_KILLER;
use super::statements::{
    NO_SUCH_SESSION, NOT_YOURS, kill_session, release_once, set_idle_timeout, take_lock_now,
};
use crate::base::clock::Moment;
use crate::db::{Client, Fault, ask_session_info, client};
use crate::lock::{
    LONGEST_TTL, MOST_SLOTS, Name, Wait, kill_ack_lock, kill_request_lock, session_marker_lock,
};
use statements::ask_uptime;

/// How long the server keeps the markers of a killer whose host has vanished.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Holders that lost their sessions when a server restarted usually reacquire the lock within this time.
const JUST_STARTED: Duration = Duration::from_secs(30);

/// How long the server may take to free the locks of a killed session.
const LONGEST_END: Duration = Duration::from_secs(10);

/// The result of an attempt to kill a holder.
#[derive(Debug, Serialize, Deserialize)]
pub enum Killed {
    /// The caller named no slot, and these slots are held.
    SeveralHolders(Vec<u32>),
    /// The result for one slot.
    Slot {
        /// Which, from 0.
        slot: u32,
        /// The result for its holder.
        outcome: Box<KillOutcome>,
    },
}

/// The result for the holder of a slot. `now` is who holds the slot afterwards; `None`: nobody.
#[derive(Debug, Serialize, Deserialize)]
pub enum KillOutcome {
    /// Nobody holds the slot. If the server started this recently, an earlier holder may reacquire the slot.
    Free {
        /// `None`: longer ago, or unknown.
        server_started: Option<Duration>,
    },
    /// A dry run: the slot is held.
    Held(Victim),
    /// The holder released the slot before it could be killed.
    ReleasedMeanwhile {
        /// The holder that released it.
        holder: Client,
        now: Option<Client>,
    },
    /// The server does not let this account kill sessions of another account.
    NotAllowed {
        holder: Victim,
        /// This account, as a GRANT statement names it.
        account: String,
        /// The privilege that it lacks.
        privilege: String,
    },
    /// The server refused to kill the session, with this error.
    Refused { holder: Victim, code: u16 },
    /// The holder's command has ended.
    CommandEnded {
        holder: Victim,
        after: Duration,
        now: Option<Client>,
    },
    /// The session of a holder that is not dblock has ended. Whether its program still runs is unknown.
    SessionEnded { holder: Victim, now: Option<Client> },
    /// The holder is ending its command, which did not end in time.
    CommandEnding { holder: Victim, after: Duration },
    /// The session was killed, and its dblock reported nothing in time.
    NoReport {
        holder: Victim,
        after: Duration,
        now: Option<Client>,
    },
    /// Another client killed the holder.
    EndedByAnother {
        killer: Client,
        /// Whether it is known that the holder's command has ended.
        is_known: bool,
        now: Option<Client>,
    },
    /// Another client is killing the holder, and did not finish in time.
    BeingEnded {
        killer: Client,
        /// Whether this was a dry run.
        dry_run: bool,
    },
}

/// The holder to kill.
#[derive(Debug, Serialize, Deserialize)]
pub struct Victim {
    /// The session.
    pub client: Client,
    /// Whether the session is dblock's: those hold their session marker lock.
    pub is_dblock: bool,
}

/// What the holder's dblock reported about its command.
enum Report {
    /// It has ended.
    Ended,
    /// It is ending, and did not end in time.
    Ending,
    /// No report in time.
    Nothing,
}

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
        let name = self.name;
        // One statement for all three: while the slot has a kill marker, its holder is only a waiter for the end of the holder before.
        let [killer, ending, holder] = self.inspector.owners(&[
            name.kill_on_server(slot),
            name.termination_on_server(slot),
            name.slot_on_server(slot),
        ])?;
        if let Some(other) = killer.or(ending) {
            return self.leave_it_to(other, slot);
        }
        let Some(id) = holder else {
            let uptime = self.inspector.run(&ask_uptime())?;
            let server_started = uptime.filter(|span| *span < JUST_STARTED);
            return Ok(KillOutcome::Free { server_started });
        };
        let client = self.client(id)?;
        let is_dblock = self.inspector.owner(&session_marker_lock(id))? == Some(id);
        let holder = Victim { client, is_dblock };
        if self.dry_run {
            return Ok(KillOutcome::Held(holder));
        }
        let begun = Moment::now();
        self.keep_markers_for_a_moment()?;
        // The second marker says which session is meant, as a later holder of the slot may find the first. A waiter finds only the
        // second.
        let markers = [name.kill_on_server(slot), kill_request_lock(id)];
        if !self.mark(&markers)? {
            let killer = self.inspector.owner(&markers[0])?.unwrap_or_default();
            return self.leave_it_to(killer, slot);
        }
        // The holder may have released the slot meanwhile, or another killer was faster.
        if self.inspector.owner(&name.slot_on_server(slot))? != Some(id) {
            self.unmark(&markers)?;
            let (holder, now) = (holder.client, self.now(slot)?);
            return Ok(KillOutcome::ReleasedMeanwhile { holder, now });
        }
        match self.inspector.session.try_run(&kill_session(id))? {
            // The session ended just now. If it was lost, its dblock finds the markers on a new session.
            Ok(()) | Err(NO_SUCH_SESSION) => {}
            Err(code) if NOT_YOURS.contains(&code) => {
                let info = self.inspector.run(&ask_session_info())?;
                let privilege = if info.is_mariadb() {
                    "CONNECTION ADMIN"
                } else {
                    "CONNECTION_ADMIN"
                };
                return Ok(KillOutcome::NotAllowed {
                    holder,
                    account: info.quoted_account(),
                    privilege: privilege.to_owned(),
                });
            }
            Err(code) => return Ok(KillOutcome::Refused { holder, code }),
        }
        let report = if is_dblock {
            let ttl = holder.client.claims.as_ref().and_then(|claims| claims.ttl);
            let report = self.wait_for_end(slot, ttl.unwrap_or(LONGEST_TTL), begun)?;
            if matches!(report, Report::Ended) {
                // The holder's dblock learns of the session's end before the server frees the slot.
                self.wait_for_session(slot, id)?;
            }
            report
        } else {
            self.wait_for_session(slot, id)?
        };
        self.unmark(&markers)?;
        let now = self.now(slot)?;
        let after = begun.elapsed();
        Ok(match report {
            Report::Ended if is_dblock => KillOutcome::CommandEnded { holder, after, now },
            Report::Ended => KillOutcome::SessionEnded { holder, now },
            Report::Ending => KillOutcome::CommandEnding { holder, after },
            Report::Nothing => KillOutcome::NoReport { holder, after, now },
        })
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
                let ending = self
                    .inspector
                    .owned_slots(MOST_SLOTS, |slot| name.termination_on_server(slot))?;
                Ok(ending.first().map_or(0, |(slot, _)| *slot))
            }
            [(slot, _)] => Ok(*slot),
            several => Err(several.iter().map(|(slot, _)| *slot).collect()),
        })
    }

    /// Waits until another killer has finished, or until the holder that it killed has ended its command.
    fn leave_it_to(&mut self, other: u64, slot: u32) -> Result<KillOutcome, Fault> {
        let (begun, name, dry_run) = (Moment::now(), self.name, self.dry_run);
        let killer = self.client(other)?;
        let locks = [
            name.kill_on_server(slot),
            name.termination_on_server(slot),
            kill_ack_lock(other),
        ];
        let mut is_known = false;
        loop {
            let [marker, ending, answer] = self.inspector.owners(&locks)?;
            is_known |= ending.is_some() || answer.is_some();
            if dry_run {
                return Ok(KillOutcome::BeingEnded { killer, dry_run });
            }
            if marker != Some(other) && ending.is_none() {
                let now = self.now(slot)?;
                return Ok(KillOutcome::EndedByAnother {
                    killer,
                    is_known,
                    now,
                });
            }
            if self.is_over(begun, LONGEST_TTL) {
                return Ok(KillOutcome::BeingEnded { killer, dry_run });
            }
            sleep(LOOK_AGAIN_AT_KILLER);
        }
    }

    /// Whose session this is.
    pub(in crate::lock) fn client(&mut self, id: u64) -> Result<Client, Fault> {
        client(id, &mut self.inspector.session)
    }

    /// Limits how long the server keeps the markers of this session when it is idle.
    pub(in crate::lock) fn keep_markers_for_a_moment(&mut self) -> Result<(), Fault> {
        self.inspector.run(&set_idle_timeout(IDLE_LIMIT))
    }

    /// Kills a session. `Err`: the error number of a server that refuses.
    pub(in crate::lock) fn kill_session(&mut self, id: u64) -> Result<Result<(), u16>, Fault> {
        self.inspector.session.try_run(&kill_session(id))
    }

    /// Acquires the markers; `false`: another killer holds the first one. Another may hold the second, for another slot of the same
    /// session.
    pub(in crate::lock) fn mark(&mut self, markers: &[String]) -> Result<bool, Fault> {
        for marker in markers {
            let acquired = loop {
                if let Some(acquired) = self.inspector.run(&take_lock_now(marker))? {
                    break acquired;
                }
                sleep(LOOK_AGAIN_AT_KILLER);
            };
            if !acquired && *marker == markers[0] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Releases the markers, however often they were acquired: the server may have run an interrupted statement.
    pub(in crate::lock) fn unmark(&mut self, markers: &[String]) -> Result<(), Fault> {
        let own = self.own_id()?;
        for marker in markers {
            while self.inspector.owner(marker)? == Some(own) {
                self.inspector.run(&release_once(marker))?;
            }
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

    /// Waits until the holder's dblock reports that its command has ended. The markers stay until it reports anything, even if the caller
    /// does not wait: without them the holder would reacquire the lock.
    fn wait_for_end(&mut self, slot: u32, ttl: Duration, begun: Moment) -> Result<Report, Fault> {
        let locks = [
            self.name.termination_on_server(slot),
            kill_ack_lock(self.own_id()?),
        ];
        let mut has_begun = false;
        loop {
            let [ending, answer] = self.inspector.owners(&locks)?;
            has_begun |= ending.is_some();
            if answer.is_some() {
                return Ok(Report::Ended);
            }
            let may_come = begun.elapsed() < self.connect_timeout;
            if self.is_over(begun, ttl) && (has_begun || !may_come) {
                return Ok(if has_begun {
                    Report::Ending
                } else {
                    Report::Nothing
                });
            }
            sleep(LOOK_AGAIN_AT_KILLER);
        }
    }

    /// Waits until a killed session no longer holds the slot.
    fn wait_for_session(&mut self, slot: u32, victim: u64) -> Result<Report, Fault> {
        let (begun, slot) = (Moment::now(), self.name.slot_on_server(slot));
        while self.inspector.owner(&slot)? == Some(victim) {
            if begun.elapsed() >= LONGEST_END {
                return Ok(Report::Nothing);
            }
            sleep(LOOK_AGAIN_AT_KILLER);
        }
        Ok(Report::Ended)
    }

    /// This session's connection id on the server, also behind a proxy.
    fn own_id(&mut self) -> Result<u64, Fault> {
        Ok(self.inspector.run(&ask_session_info())?.connection)
    }

    /// Who holds the slot's named lock now.
    pub(in crate::lock) fn now(&mut self, slot: u32) -> Result<Option<Client>, Fault> {
        let owner = self.inspector.owner(&self.name.slot_on_server(slot))?;
        owner.map(|owner| self.client(owner)).transpose()
    }
}
