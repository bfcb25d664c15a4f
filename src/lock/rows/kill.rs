//! Kills the holder of a durable lock, for `dblock kill`. The row carries the request, and its release, which follows the end of the
//! command, is the answer. Meanwhile the markers of named locks keep callers without rows out. The end of its session only makes the
//! holder read its row at once. A killer that does not see the row kills as for a named lock: the holder finds the markers when it takes
//! the named lock again.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use super::inspect::Rows;
use super::state::SlotState;
use super::statements::Only;
use super::token_end::{RecordTokenEnd, TokenEnd};
use crate::base::clock::Moment;
use crate::base::exit::Reason;
use crate::base::log::Level;
use crate::db::{Client, Fault, roll_back};
use crate::lock::named::{Inspector, Killing, unpooled_number};
use crate::lock::{
    Freed, HeldRow, HolderKind, KillOutcome, Killed, MOST_SLOTS, Victim, kill_request_lock,
    run_lock_of, shared_session_lock,
};
use crate::schema::Tables;

/// The pauses between two looks at the row: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How long a killed session may take to end.
const LONGEST_END: Duration = Duration::from_secs(2);

/// After this many changes of the row's owner or kind, this gives up.
const MOST_CHANGES: u32 = 10;

/// How often a row is looked for that its holder may be about to write, and the pause before that.
const MOST_LOOKS: u32 = 5;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The most characters of the killer's name, as in the table.
const LONGEST_KILLER: usize = 400;

/// A kill of the holder of a row or a named lock.
pub struct RowKilling<'a> {
    /// The kill, as for a named lock.
    pub named: Killing<'a>,
    /// The tables, which may not exist.
    pub tables: Tables,
    /// Whether to take a row from its owner at once.
    pub force: bool,
    /// The killer's name.
    pub killer: String,
    /// Records that a script has lost its grant, or that a run was killed by force.
    pub on_token_end: RecordTokenEnd,
}

/// What is known of a holder that was asked to end.
enum Report {
    /// It has released the row.
    Ended,
    /// It has released the row, and did not know of the request.
    EndedByItself,
    /// The row has another owner, for another reason.
    Taken,
    /// The row has expired.
    Expired,
    /// It knows of the request, and its command did not end in time.
    Ending,
    /// It has not read its row.
    Nothing(Box<HeldRow>),
}

impl RowKilling<'_> {
    /// Kills the holder. A dry run only finds it.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn end(&mut self) -> Result<Killed, Fault> {
        unpooled_number(&mut self.inspector().session)?;
        let rows = match Rows::open(self.tables.clone(), self.inspector()) {
            // A named lock needs no table. If none is held, a row may be.
            Err(Fault::Final(failure)) if failure.reason == Reason::AccountRefused => {
                let killed = self.named.end()?;
                return if is_free(&killed) || is_of_row(&killed) {
                    Err(Fault::Final(failure))
                } else {
                    self.checked(killed)
                };
            }
            rows => rows?,
        };
        let Some(rows) = rows else {
            self.inspector().warn_of_node();
            return self.end_named();
        };
        let name = self.named.name;
        let mut meant: Option<HeldRow> = None;
        let mut looks = 0;
        for _ in 0..MOST_CHANGES {
            if let Some(meant) = &meant {
                let slot = meant.slot;
                let seen = rows.slot(name, slot, self.inspector())?;
                if !seen.as_ref().is_some_and(|seen| seen.is_same_grant(meant)) {
                    let (holder, now) = (self.victim(meant)?, self.now(&rows, slot)?);
                    let outcome = if seen.is_some_and(|seen| meant.was_released(&seen)) {
                        KillOutcome::ReleasedMeanwhile { holder, now }
                    } else {
                        KillOutcome::TakenMeanwhile { holder, now }
                    };
                    let outcome = Box::new(outcome);
                    return Ok(Killed::Slot { slot, outcome });
                }
                self.named.slot = Some(slot);
            }
            let held = self.held(&rows)?;
            let slot = match self.slot(&rows, &held)? {
                Some(Ok(slot)) => Some(slot),
                Some(Err(several)) => return Ok(Killed::SeveralHolders(several)),
                // A holder may be in the middle of its end.
                None => self.named.slot,
            };
            let row = slot.and_then(|slot| held.into_iter().find(|row| row.slot == slot));
            let Some(row) = row else {
                if slot.is_some() && looks == 0 {
                    self.inspector().warn_of_node();
                }
                let named = std::mem::replace(&mut self.named.slot, slot);
                let killed = self.end_named()?;
                looks += 1;
                // Its holder may be about to write the row, or to release both.
                if is_of_row(&killed) && looks < MOST_LOOKS {
                    self.named.slot = named;
                    sleep(LOOK_AGAIN);
                    continue;
                }
                return Ok(killed);
            };
            if let Some(outcome) = self.end_row(&rows, &row)? {
                let (slot, outcome) = (row.slot, Box::new(outcome));
                return Ok(Killed::Slot { slot, outcome });
            }
            meant = Some(row);
        }
        let line = "the row of the lock changes again and again".to_owned();
        Err(Fault::Interrupted(line))
    }

    /// Kills the holder of a lock without a row.
    fn end_named(&mut self) -> Result<Killed, Fault> {
        let killed = self.named.end()?;
        self.checked(killed)
    }

    /// A read-only server, or one without the tables, says little of a holder that was not found there.
    fn checked(&mut self, killed: Killed) -> Result<Killed, Fault> {
        if is_free(&killed) {
            self.inspector().refuse_read_only()?;
            // A holder that is killed by force has a row on any server.
            if self.force {
                let tables = self.tables.clone();
                tables.check(&mut self.inspector().session)?;
            }
        } else if is_of_row(&killed) {
            // If there are none, that says more.
            let tables = self.tables.clone();
            tables.check(&mut self.inspector().session)?;
        } else if matches!(killed, Killed::Slot { .. }) {
            self.inspector().warn_of_read_only();
        }
        Ok(killed)
    }

    fn inspector(&mut self) -> &mut Inspector {
        self.named.inspector
    }

    /// The slot to free: the named one, else the one that is held. `Err`: the slots, if several are held. A session that holds the named
    /// lock of a slot whose row belongs to another owner only waits. A named lock of a row's owner is not another holder.
    fn slot(
        &mut self,
        rows: &Rows,
        held: &[HeldRow],
    ) -> Result<Option<Result<u32, Vec<u32>>>, Fault> {
        if let Some(slot) = self.named.slot {
            return Ok(Some(Ok(slot)));
        }
        let name = self.named.name;
        let mut slots: BTreeSet<u32> = held.iter().map(|row| row.slot).collect();
        let excludes = !self.inspector().is_node && !rows.is_multi_primary;
        if excludes || held.is_empty() {
            let locks = (0..MOST_SLOTS).map(|slot| name.slot_on_server(slot));
            let owners = self.inspector().try_owners(&locks.collect::<Vec<_>>())?;
            let owned = (0..).zip(owners.unwrap_or_default());
            let owned = owned.filter_map(|(slot, owner)| Some((slot, owner?)));
            let is_rows = |id| held.iter().any(|row| row.session == Some(id));
            slots.extend(owned.filter(|(_, id)| !is_rows(*id)).map(|(slot, _)| slot));
        }
        let slots: Vec<u32> = slots.into_iter().collect();
        Ok(match slots[..] {
            [] => None,
            [slot] => Some(Ok(slot)),
            _ => Some(Err(slots)),
        })
    }

    /// Ends the holder of a row; `None`: the row has changed since it was read.
    fn end_row(&mut self, rows: &Rows, row: &HeldRow) -> Result<Option<KillOutcome>, Fault> {
        let holder = self.victim(row)?;
        let why = if row.has_expired() {
            Some(Freed::Expired)
        } else if row.durable.kind == HolderKind::Token {
            Some(Freed::Token)
        } else {
            self.force.then_some(Freed::Forced)
        };
        if self.named.dry_run {
            self.inspector().warn_of_read_only();
            return Ok(Some(match (&row.killer, why) {
                (Some(killer), None) => KillOutcome::BeingEnded {
                    killer: killer.clone(),
                    dry_run: true,
                },
                _ => KillOutcome::Held {
                    holder,
                    needs_right: None,
                },
            }));
        }
        self.inspector().refuse_read_only()?;
        self.named.keep_markers_for_a_moment()?;
        match why {
            Some(why) => self.free(rows, row, holder, why),
            None => self.ask_to_end(rows, row, holder),
        }
    }

    /// Takes the row from its owner, and kills its session, which has the named lock.
    fn free(
        &mut self,
        rows: &Rows,
        row: &HeldRow,
        holder: Victim,
        why: Freed,
    ) -> Result<Option<KillOutcome>, Fault> {
        let only = match why {
            Freed::Expired => Only::Expired,
            Freed::Token => Only::Token,
            Freed::Forced => Only::Always,
        };
        let write_id = u64::from(getrandom::u32().unwrap_or_default());
        let after = self.write_free(rows, row, write_id, only, why)?;
        if after.is_none_or(|after| after.write_id != write_id) {
            return Ok(None);
        }
        let keeps_session = match self.session_of(row)? {
            None => false,
            // Other runs need it. Its owner finds out that this row is gone.
            Some(id) if self.is_shared(id)? => true,
            Some(id) => {
                let lock = run_lock_of(&row.owner);
                let killed = self.named.kill_session(id, &lock)? == Ok(true);
                let begun = Moment::now();
                let mut is_there = self.session_of(row)? == Some(id);
                while killed && is_there && begun.elapsed() < LONGEST_END {
                    sleep(FIRST_PAUSE);
                    is_there = self.session_of(row)? == Some(id);
                }
                is_there
            }
        };
        let now = self.now(rows, row.slot)?;
        Ok(Some(KillOutcome::Freed {
            holder,
            why,
            renewal_in: row.renewal_in,
            keeps_session,
            now,
        }))
    }

    /// Asks the owner to end its command, and waits for that.
    fn ask_to_end(
        &mut self,
        rows: &Rows,
        row: &HeldRow,
        holder: Victim,
    ) -> Result<Option<KillOutcome>, Fault> {
        let name = self.named.name;
        let begun = Moment::now();
        let mut markers = vec![name.kill_on_server(row.slot)];
        markers.extend(row.session.map(kill_request_lock));
        match self.named.mark(&markers) {
            // Another killer has the marker, and that keeps others out, too.
            Ok(_) | Err(Fault::NoNamedLocks(_)) => {}
            Err(fault) => return Err(fault),
        }
        let killer: String = self.killer.chars().take(LONGEST_KILLER).collect();
        let request =
            rows.statements_of(row, name)
                .request_kill(row.slot, row.durable.fence, &killer);
        let after = rows.write(&request, self.inspector())?;
        let was_asked = after.is_some_and(|after| {
            after.owner.as_ref() == Some(&row.owner) && after.fence == row.durable.fence
        });
        let report = if was_asked {
            Some(self.wait_for_end(rows, row, begun)?)
        } else {
            None
        };
        self.unmark(&markers)?;
        let after = begun.elapsed();
        Ok(Some(match report {
            // The row has another owner now, or is freed as every expired row.
            None | Some(Report::Expired) => return Ok(None),
            Some(Report::Ended) => {
                let now = self.now_without(rows, row)?;
                KillOutcome::CommandEnded { holder, after, now }
            }
            Some(Report::EndedByItself) => {
                let now = self.now(rows, row.slot)?;
                KillOutcome::ReleasedMeanwhile { holder, now }
            }
            Some(Report::Taken) => {
                let now = self.now(rows, row.slot)?;
                KillOutcome::TakenMeanwhile { holder, now }
            }
            Some(Report::Ending) => KillOutcome::CommandEnding { holder, after },
            Some(Report::Nothing(row)) => KillOutcome::Unanswered {
                holder: Victim {
                    durable: Some(row.durable),
                    ..holder
                },
                after,
                renewal_in: row.renewal_in,
            },
        }))
    }

    /// Waits until the row is free or has another owner. The markers stay until the holder knows of the request, even if the caller does
    /// not wait: the holder has lost its session, and with it the named lock.
    fn wait_for_end(&mut self, rows: &Rows, row: &HeldRow, begun: Moment) -> Result<Report, Fault> {
        let name = self.named.name;
        let mut pause = FIRST_PAUSE;
        let mut tried = Vec::new();
        let mut lost_session = false;
        let mut last = (row.clone(), begun);
        // Each renewal after the request discovers it, whatever the servers' clocks say.
        let (mut write_id, mut is_known) = (None, false);
        loop {
            let looked = Moment::now();
            let Some(seen) = rows.slot(name, row.slot, self.inspector())? else {
                return Ok(Report::Taken);
            };
            if !seen.is_same_grant(row) {
                let (last, looked) = last;
                let was_released = last.was_released(&seen)
                    || !seen.owner.is_empty() && last.was_released_within(looked.elapsed());
                let knew = lost_session || is_known || !last.is_released_next(&seen);
                return Ok(match (was_released, knew) {
                    (true, true) => Report::Ended,
                    (true, false) => Report::EndedByItself,
                    (false, _) => Report::Taken,
                });
            }
            if seen.has_expired() {
                return Ok(Report::Expired);
            }
            if seen.durable.kind == HolderKind::Token {
                // The command has ended just now, and the script has the lock again.
                self.free_token(rows, &seen)?;
                return Ok(Report::Ended);
            }
            let knows =
                seen.knows_killer || *write_id.get_or_insert(seen.write_id) != seen.write_id;
            is_known |= knows;
            // A session that holds other locks, too, is not ended: its owner looks for requests often.
            if !knows
                && let Some(id) = self.session_of(row)?
                && !tried.contains(&id)
                && !self.is_shared(id)?
            {
                // A session of another account may not be killed. It learns of the request with its next renewal.
                let lock = run_lock_of(&row.owner);
                lost_session |= self.named.kill_session(id, &lock)? == Ok(true);
                tried.push(id);
            }
            let may_come = lost_session && begun.elapsed() < self.named.connect_timeout;
            if self.named.is_over(begun, Duration::MAX) && (knows || !may_come) {
                return Ok(if knows {
                    Report::Ending
                } else {
                    Report::Nothing(Box::new(seen))
                });
            }
            last = (seen, looked);
            sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn free_token(&mut self, rows: &Rows, row: &HeldRow) -> Result<(), Fault> {
        let write_id = u64::from(getrandom::u32().unwrap_or_default());
        self.write_free(rows, row, write_id, Only::Token, Freed::Token)
            .map(drop)
    }

    /// Frees the row, and records that in the history where the account may write it.
    fn write_free(
        &mut self,
        rows: &Rows,
        row: &HeldRow,
        write_id: u64,
        only: Only,
        why: Freed,
    ) -> Result<Option<SlotState>, Fault> {
        let statements = rows.statements_of(row, self.named.name);
        let free = |record| statements.free(row.slot, row.durable.fence, write_id, only, record);
        let record = self.record_of_end(row, why);
        let has_record = record.is_some();
        match rows.write(&free(record), self.inspector()) {
            Err(Fault::Final(failure))
                if has_record && failure.reason == Reason::AccountRefused =>
            {
                self.inspector().run(&roll_back())?;
                let after = rows.write(&free(None), self.inspector())?;
                if after.as_ref().is_some_and(|row| row.write_id == write_id) {
                    let mut line = "the kill is not in the history".to_owned();
                    if row.durable.kind == HolderKind::Run {
                        line.push_str(", and a tick of the crontab may be tried again");
                    }
                    line = format!("{line}: {}", failure.line);
                    self.inspector().session.tell(Level::Warning, &line);
                }
                Ok(after)
            }
            written => written,
        }
    }

    /// The statement that records the end of a script's grant, or of a run that is not asked, or that was asked and has not answered until
    /// its lease was over. That ends a run's tick of the crontab, too.
    fn record_of_end(&self, row: &HeldRow, why: Freed) -> Option<String> {
        let is_token = row.durable.kind != HolderKind::Run;
        let ends_run = self.force || row.killer.is_some();
        let end = match why {
            Freed::Expired if is_token || !ends_run => TokenEnd::Expired,
            Freed::Expired | Freed::Token | Freed::Forced => TokenEnd::Killed(&self.killer),
        };
        (is_token || ends_run).then(|| (self.on_token_end)(&row.owner, end))
    }

    fn unmark(&mut self, markers: &[String]) -> Result<(), Fault> {
        let owners = self.inspector().try_owners(markers)?;
        if owners.is_some_and(|owners| owners.iter().any(Option::is_some)) {
            self.named.unmark(markers)?;
        }
        Ok(())
    }

    /// The session of the row's run on this server.
    fn session_of(&mut self, row: &HeldRow) -> Result<Option<u64>, Fault> {
        let lock = run_lock_of(&row.owner);
        let owners = self.inspector().try_owners(&[lock])?;
        Ok(owners.and_then(|owners| owners[0]))
    }

    fn is_shared(&mut self, id: u64) -> Result<bool, Fault> {
        let lock = shared_session_lock(id);
        let owners = self.inspector().try_owners(&[lock])?;
        Ok(owners.is_some_and(|owners| owners[0] == Some(id)))
    }

    fn victim(&mut self, row: &HeldRow) -> Result<Victim, Fault> {
        let client = match (&row.client, row.session) {
            (Some(client), session) => Some(Client {
                connection: session.unwrap_or_default(),
                ..client.clone()
            }),
            (None, Some(session)) => Some(self.named.client(session)?),
            (None, None) => None,
        };
        Ok(Victim {
            client,
            is_dblock: true,
            durable: Some(row.durable.clone()),
        })
    }

    /// The rows of this lock.
    fn held(&mut self, rows: &Rows) -> Result<Vec<HeldRow>, Fault> {
        let name = self.named.name;
        let mut held = Vec::new();
        for row in rows.held(std::slice::from_ref(name), self.inspector())? {
            let session = row.session.filter(|_| name.key().is_some());
            let client = session.map(|id| self.named.client(id)).transpose()?;
            let said = client.as_ref().and_then(|client| client.claims.as_ref());
            if row.is_of(name, said) {
                held.push(row);
            }
        }
        Ok(held)
    }

    /// Who holds the slot now that this owner of the row has freed it. The server ends the owner's session, with the named lock, a moment
    /// later.
    fn now_without(&mut self, rows: &Rows, ended: &HeldRow) -> Result<Option<Client>, Fault> {
        let since = Moment::now();
        loop {
            let now = self.now(rows, ended.slot)?;
            let connection = now.as_ref().map(|now| now.connection);
            let is_left = ended.session.is_some() && connection == ended.session;
            if !is_left || since.elapsed() >= LONGEST_END {
                return Ok(now);
            }
            sleep(FIRST_PAUSE);
        }
    }

    /// Who holds the slot now, by its row or its named lock.
    fn now(&mut self, rows: &Rows, slot: u32) -> Result<Option<Client>, Fault> {
        let name = self.named.name;
        let held = self.held(rows)?;
        if let Some(row) = held.into_iter().find(|row| row.slot == slot) {
            return Ok(Some(self.victim(&row)?.client.unwrap_or_default()));
        }
        let owner = self.inspector().try_owners(&[name.slot_on_server(slot)])?;
        let owner = owner.and_then(|owners| owners[0]);
        owner.map(|id| self.named.client(id)).transpose()
    }
}

/// Whether the holder was found, and can only be killed by its row.
fn is_of_row(killed: &Killed) -> bool {
    let Killed::Slot { outcome, .. } = killed else {
        return false;
    };
    matches!(**outcome, KillOutcome::OfRow(_))
}

/// Whether nobody was found to hold the slot.
fn is_free(killed: &Killed) -> bool {
    let Killed::Slot { outcome, .. } = killed else {
        return false;
    };
    matches!(**outcome, KillOutcome::Free { .. })
}
