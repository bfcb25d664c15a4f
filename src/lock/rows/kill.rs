//! Ending whoever holds a durable lock, for `dblock kill`. The row says who is to end, and whether it has: its release, which follows
//! the end of the command, is the answer. The markers of named locks keep callers without rows out meanwhile, and the end of its session
//! only has the holder look at its row at once.

mod outcome;

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use super::inspect::Rows;
use super::statements::Only;
use super::token_end::{RecordTokenEnd, TokenEnd};
use crate::base::clock::Moment;
use crate::db::{Client, Fault};
use crate::lock::named::{Inspector, KillOutcome, Killed, Killing};
use crate::lock::{HeldRow, HolderKind, MOST_SLOTS, kill_request_lock, run_lock_of};
use crate::schema::Tables;
pub use outcome::{Ended, Freed, RowOutcome, RowVictim};

/// From one look at the row to the next: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How long a killed session may take to end.
const LONGEST_END: Duration = Duration::from_secs(2);

/// How often a row may become another's, or another kind's, before this gives up.
const MOST_CHANGES: u32 = 10;

/// Characters of whoever asks for the end, as the table has room.
const LONGEST_KILLER: usize = 400;

/// Ends a holder, be it of a row or of a named lock.
pub struct RowKilling<'a> {
    /// What is to be done about a named lock, and in which way.
    pub named: Killing<'a>,
    /// The tables, which may not be there.
    pub tables: Tables,
    /// Whether a row is taken from its owner at once.
    pub force: bool,
    /// Who asks for it.
    pub killer: String,
    /// What records that a script has lost its grant by it.
    pub on_token_end: RecordTokenEnd,
}

/// What was heard of a holder that was asked to end.
enum Report {
    /// It has released the row.
    Ended,
    /// The row is no longer its own, for another reason.
    Taken,
    /// Its time is over.
    Expired,
    /// It knows, and its command did not end in time.
    Ending,
    /// It has not looked.
    Nothing(Box<HeldRow>),
}

impl RowKilling<'_> {
    /// Ends the holder, or with a dry run finds it.
    ///
    /// # Errors
    /// The session must be dropped.
    pub fn end(&mut self) -> Result<Ended, Fault> {
        let ended = self.end_any()?;
        let Ended::Named(Killed::Slot { outcome, .. }) = &ended else {
            return Ok(ended);
        };
        if matches!(**outcome, KillOutcome::Free { .. }) {
            self.inspector().refuse_read_only()?;
            // Whoever is to be ended by force has a row, wherever that is.
            if self.force {
                let tables = self.tables.clone();
                tables.check(&mut self.inspector().session)?;
            }
        } else {
            self.inspector().warn_of_read_only();
        }
        Ok(ended)
    }

    fn end_any(&mut self) -> Result<Ended, Fault> {
        let Some(rows) = Rows::open(self.tables.clone(), self.inspector())? else {
            self.inspector().warn_of_node();
            return self.named.end().map(Ended::Named);
        };
        let name = self.named.name;
        let mut meant: Option<HeldRow> = None;
        for _ in 0..MOST_CHANGES {
            if let Some(meant) = &meant {
                let slot = meant.slot;
                let seen = rows.slot(name, slot, self.inspector())?;
                if !seen.as_ref().is_some_and(|seen| seen.is_same_grant(meant)) {
                    let (holder, now) = (self.victim(meant)?, self.now(&rows, slot)?);
                    let outcome = if seen.is_some_and(|seen| meant.was_released(&seen)) {
                        RowOutcome::ReleasedMeanwhile { holder, now }
                    } else {
                        RowOutcome::TakenMeanwhile { holder, now }
                    };
                    let outcome = Box::new(outcome);
                    return Ok(Ended::Row { slot, outcome });
                }
                self.named.slot = Some(slot);
            }
            let held = rows.held(std::slice::from_ref(name), self.inspector())?;
            let slot = match self.slot(&rows, &held)? {
                Some(Ok(slot)) => slot,
                Some(Err(several)) => return Ok(Ended::Named(Killed::SeveralHolders(several))),
                // There may be one that is being ended.
                None => return self.named.end().map(Ended::Named),
            };
            let Some(row) = held.into_iter().find(|row| row.slot == slot) else {
                self.inspector().warn_of_node();
                self.named.slot = Some(slot);
                return self.named.end().map(Ended::Named);
            };
            if let Some(outcome) = self.end_row(&rows, &row)? {
                let outcome = Box::new(outcome);
                return Ok(Ended::Row { slot, outcome });
            }
            meant = Some(row);
        }
        let line = "the row of the lock changes again and again".to_owned();
        Err(Fault::Interrupted(line))
    }

    fn inspector(&mut self) -> &mut Inspector {
        self.named.inspector
    }

    /// The slot to free: the one that was named, else the one that is held. `Err`: the slots, where several are held. Whoever has the
    /// named lock of a slot whose row is another's only waits for that, and the named lock of an owner is not another holder's.
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
            let owners = self.inspector().try_owners(locks.collect())?;
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

    /// `None`: the row is no longer what it was.
    fn end_row(&mut self, rows: &Rows, row: &HeldRow) -> Result<Option<RowOutcome>, Fault> {
        let holder = self.victim(row)?;
        if self.named.dry_run {
            self.inspector().warn_of_read_only();
            return Ok(Some(match &row.killer {
                Some(killer) if !row.has_expired() => RowOutcome::BeingEnded {
                    killer: killer.clone(),
                },
                _ => RowOutcome::Held(holder),
            }));
        }
        self.inspector().refuse_read_only()?;
        self.named.keep_markers_for_a_moment()?;
        let why = if row.has_expired() {
            Freed::Expired
        } else if row.durable.kind == HolderKind::Token {
            Freed::Token
        } else if self.force {
            Freed::Forced
        } else {
            return self.ask_to_end(rows, row, holder);
        };
        self.free(rows, row, holder, why)
    }

    /// Takes the row from its owner; and ends its session, which has the named lock.
    fn free(
        &mut self,
        rows: &Rows,
        row: &HeldRow,
        holder: RowVictim,
        why: Freed,
    ) -> Result<Option<RowOutcome>, Fault> {
        let name = self.named.name;
        let only = match why {
            Freed::Expired => Only::Expired,
            Freed::Token => Only::Token,
            Freed::Forced => Only::Always,
        };
        let write_id = u64::from(getrandom::u32().unwrap_or_default());
        let fence = row.durable.fence;
        let record = self.end_of_token(row, why);
        let write = rows
            .statements_of(row, name)
            .free(row.slot, fence, write_id, only, record);
        let after = rows.write(&write, self.inspector())?;
        if after.is_none_or(|after| after.write_id != write_id) {
            return Ok(None);
        }
        let keeps_session = match self.session_of(row)? {
            None => false,
            Some(id) => {
                let killed = self.named.kill_session(id)?.is_ok();
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
        Ok(Some(RowOutcome::Freed {
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
        holder: RowVictim,
    ) -> Result<Option<RowOutcome>, Fault> {
        let name = self.named.name;
        let begun = Moment::now();
        let mut markers = vec![name.kill_on_server(row.slot)];
        markers.extend(row.session.map(kill_request_lock));
        match self.named.mark(&markers) {
            // Where another has the marker, that keeps others out.
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
            // It is not the one that was meant any more; or freed as any whose time is over.
            None | Some(Report::Expired) => return Ok(None),
            Some(Report::Ended) => {
                let now = self.now(rows, row.slot)?;
                RowOutcome::CommandEnded { holder, after, now }
            }
            Some(Report::Taken) => {
                let now = self.now(rows, row.slot)?;
                RowOutcome::TakenMeanwhile { holder, now }
            }
            Some(Report::Ending) => RowOutcome::CommandEnding { holder, after },
            Some(Report::Nothing(row)) => RowOutcome::Unanswered {
                holder: RowVictim {
                    durable: row.durable,
                    ..holder
                },
                after,
                renewal_in: row.renewal_in,
            },
        }))
    }

    /// Waits until the row is another's or nobody's. The markers stay until the holder knows, also where the caller does not wait: its
    /// session was ended for it, and with that its named lock.
    fn wait_for_end(&mut self, rows: &Rows, row: &HeldRow, begun: Moment) -> Result<Report, Fault> {
        let name = self.named.name;
        let mut pause = FIRST_PAUSE;
        let mut tried = Vec::new();
        let mut lost_session = false;
        let mut last = (row.clone(), begun);
        // Each renewal after the request finds it, be the clocks of the servers as they may.
        let mut write_id = None;
        loop {
            let looked = Moment::now();
            let Some(seen) = rows.slot(name, row.slot, self.inspector())? else {
                return Ok(Report::Taken);
            };
            if !seen.is_same_grant(row) {
                let (last, looked) = last;
                let was_released = last.was_released(&seen)
                    || !seen.owner.is_empty() && last.was_released_within(looked.elapsed());
                return Ok(if was_released {
                    Report::Ended
                } else {
                    Report::Taken
                });
            }
            if seen.has_expired() {
                return Ok(Report::Expired);
            }
            if seen.durable.kind == HolderKind::Token {
                // Its command has ended just now, and the script goes on with it.
                self.free_token(rows, &seen)?;
                return Ok(Report::Ended);
            }
            let knows =
                seen.knows_killer || *write_id.get_or_insert(seen.write_id) != seen.write_id;
            if !knows
                && let Some(id) = self.session_of(row)?
                && !tried.contains(&id)
            {
                // One of another account, which may not be ended, learns of it with its next renewal.
                lost_session |= self.named.kill_session(id)?.is_ok();
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
        let statements = rows.statements_of(row, self.named.name);
        let record = self.end_of_token(row, Freed::Token);
        let fence = row.durable.fence;
        let free = statements.free(row.slot, fence, write_id, Only::Token, record);
        rows.write(&free, self.inspector()).map(drop)
    }

    /// What the history is to say of the script whose grant is ended.
    fn end_of_token(&self, row: &HeldRow, why: Freed) -> Option<String> {
        let end = match why {
            Freed::Expired => TokenEnd::Expired,
            Freed::Token | Freed::Forced => TokenEnd::Killed(&self.killer),
        };
        let is_token = row.durable.kind != HolderKind::Run;
        is_token.then(|| (self.on_token_end)(&row.owner, end))
    }

    fn unmark(&mut self, markers: &[String]) -> Result<(), Fault> {
        let owners = self.inspector().try_owners(markers.to_vec())?;
        if owners.is_some_and(|owners| owners.iter().any(Option::is_some)) {
            self.named.unmark(markers)?;
        }
        Ok(())
    }

    /// The session of the row's run on this server.
    fn session_of(&mut self, row: &HeldRow) -> Result<Option<u64>, Fault> {
        let lock = vec![run_lock_of(&row.owner)];
        let owners = self.inspector().try_owners(lock)?;
        Ok(owners.and_then(|owners| owners[0]))
    }

    fn victim(&mut self, row: &HeldRow) -> Result<RowVictim, Fault> {
        let client = match (&row.client, row.session) {
            (Some(client), session) => Some(Client {
                connection: session.unwrap_or_default(),
                ..client.clone()
            }),
            (None, Some(session)) => Some(self.named.client(session)?),
            (None, None) => None,
        };
        Ok(RowVictim {
            client,
            durable: row.durable.clone(),
        })
    }

    /// Who holds the slot now, by its row or its named lock.
    fn now(&mut self, rows: &Rows, slot: u32) -> Result<Option<Client>, Fault> {
        let name = self.named.name;
        let held = rows.held(std::slice::from_ref(name), self.inspector())?;
        if let Some(row) = held.into_iter().find(|row| row.slot == slot) {
            return Ok(Some(self.victim(&row)?.client.unwrap_or_default()));
        }
        let owner = self
            .inspector()
            .try_owners(vec![name.slot_on_server(slot)])?;
        let owner = owner.and_then(|owners| owners[0]);
        owner.map(|id| self.named.client(id)).transpose()
    }
}
