//! The servers: what each write does, as in the SQL of `statements`.

use super::state::{At, Broken, Caller, Phase, Rows, TTL, TableRow, World, seen};
use crate::lock::rows::change::Change;
use crate::lock::rows::step::{Answer, RowStep, Written};

impl World {
    /// Runs a write, and returns whether it has changed a row. `is_late`: nobody waits for the answer any more.
    pub fn write(&mut self, number: u8, step: RowStep, write_id: u8, is_late: bool) -> bool {
        if let RowStep::RenewUnlessKilled { slot, .. } = step
            && self.rows[slot as usize].kill_requested
        {
            return false;
        }
        let change = step.change().expect("it is a write");
        let ttl = self.ttl_of(number);
        self.carry_out(number, change, write_id, is_late, ttl)
    }

    /// Carries out a change. `ttl`: what a script requests.
    pub fn carry_out(
        &mut self,
        number: u8,
        change: Change,
        write_id: u8,
        is_late: bool,
        ttl: Option<u8>,
    ) -> bool {
        match change {
            Change::Create { slot } => {
                !std::mem::replace(&mut self.rows[slot as usize].exists, true)
            }
            Change::Take { slot } => {
                let row = self.rows[slot as usize];
                let by_name = self.is_broken(Broken::TakesOverByName);
                let is_same = by_name && row.is_named && self.gives_name(number);
                let is_free = row.owner.is_none() || is_same;
                row.exists && is_free && self.grant(number, slot, write_id, is_late)
            }
            Change::TakeExpired { slot, fence } => {
                let row = self.rows[slot as usize];
                let is_same = row.is(fence) || self.is_broken(Broken::TakesExpiredWithoutFence);
                let is_over = row.left == 0 || self.is_broken(Broken::TakesUnexpired);
                is_same && is_over && self.grant(number, slot, write_id, is_late)
            }
            Change::TakeOver { slot, fence } => {
                self.rows[slot as usize].is(fence) && self.grant(number, slot, write_id, is_late)
            }
            Change::Renew { slot, fence } => self.renew(number, slot, fence, |row, is_token| {
                // The command relies on the TTL that it was given.
                let asked = ttl.unwrap_or(row.ttl);
                let is_kept = is_token && row.under_command;
                row.ttl = if is_kept { row.ttl.max(asked) } else { asked };
                row.under_command |= is_token && ttl.is_none();
                row.write_id = write_id;
            }),
            Change::HandBack { slot, fence } => self.renew(number, slot, fence, |row, _| {
                row.under_command = false;
                row.write_id = write_id;
            }),
            Change::Release { slot, fence } => {
                let any_fence = self.is_broken(Broken::ReleasesByOwner);
                let row = &mut self.rows[slot as usize];
                let is_own = row.owner == Some(number) && (row.is(fence) || any_fence);
                assert!(!is_own || row.is(fence), "a release ends another grant");
                self.callers[usize::from(number)].has_released |= is_own;
                is_own && row.free(write_id)
            }
            Change::ReleaseAny => {
                let own = self.rows.iter_mut().filter(|row| row.owner == Some(number));
                own.map(|row| row.free(write_id)).count() > 0
            }
        }
    }

    pub fn gives_name(&self, number: u8) -> bool {
        self.is_script(number) && self.setting.named
    }

    fn grant(&mut self, number: u8, slot: u32, write_id: u8, is_late: bool) -> bool {
        let is_named = self.gives_name(number);
        let row = &mut self.rows[slot as usize];
        assert_ne!(row.owner, Some(number), "a slot is granted to its holder");
        if let Some(holder) = row.owner {
            let holder = &mut self.callers[usize::from(holder)];
            holder.is_ousted |= row.left > 0 && row.is_named && is_named;
        }
        *row = TableRow {
            exists: true,
            fence: row.fence + 1,
            owner: Some(number),
            is_named,
            write_id,
            ttl: TTL,
            left: TTL,
            under_command: false,
            kill_requested: false,
        };
        self.callers[usize::from(number)].is_haunted |= is_late;
        true
    }

    fn renew(
        &mut self,
        number: u8,
        slot: u32,
        fence: u64,
        change: impl FnOnce(&mut TableRow, bool),
    ) -> bool {
        let any_fence = self.is_broken(Broken::RenewsByOwner);
        let shortens = self.is_broken(Broken::ShortensUnderCommand);
        let is_token = self.is_script(number);
        let caller = self.callers[usize::from(number)];
        let row = &mut self.rows[slot as usize];
        if row.owner != Some(number) || !row.is(fence) && !any_fence {
            return false;
        }
        assert!(row.is(fence), "another grant is renewed");
        assert!(
            !caller.knows_end,
            "a lock is renewed that is known to be lost or released"
        );
        change(row, is_token && !shortens);
        row.left = row.ttl;
        true
    }

    /// Somebody takes the slot by force.
    pub fn force(&mut self, slot: usize) {
        let row = &mut self.rows[slot];
        if let Some(holder) = row.owner.take() {
            self.callers[usize::from(holder)].is_ousted = true;
        }
        row.left = 0;
    }

    /// Runs the next statement of a caller's session.
    pub fn execute(&mut self, number: u8) {
        let mut flight = self.callers[usize::from(number)].flight.expect("it asks");
        flight.at = match (flight.at, flight.step) {
            (At::Sent, RowStep::Look | RowStep::LookAt(_)) | (At::Done, _) => At::Looked(self.rows),
            (At::Sent, step) => {
                flight.has_changed = self.write(number, step, flight.write_id, false);
                self.after_write(step)
            }
            (At::Looked(_), _) => unreachable!("it is done"),
        };
        self.caller(number).flight = Some(flight);
    }

    /// A write was carried out. Others may come before the look in its packet, except inside a transaction.
    fn after_write(&self, step: RowStep) -> At {
        match step {
            RowStep::Write(Change::ReleaseAny) => At::Looked(self.rows),
            RowStep::Write(_) => At::Done,
            step if step.granted().is_some() => At::Looked(self.rows),
            _ => At::Looked(Rows::default()),
        }
    }

    /// The server's answer to what a caller has asked.
    pub fn answer_to(&self, number: u8) -> Answer {
        let flight = self.callers[usize::from(number)].flight.expect("it asks");
        let rows = flight.rows();
        if !flight.step.is_write() {
            return Answer::Rows(seen(&rows));
        }
        let withholds = self.is_broken(Broken::LooksAfterRelease) && flight.step.releases();
        let has_changed = flight.has_changed && !withholds;
        let granted = flight.step.granted().filter(|_| has_changed);
        let written = Written {
            rows: match flight.step {
                RowStep::Write(_) => seen(&rows),
                _ => Vec::new(),
            },
            has_changed,
            fence: granted.map(|slot| rows[slot as usize].fence.into()),
            released: None,
        };
        Answer::Written(flight.write_id.into(), written)
    }

    /// A node runs a write on the rows as they were at the question, and changes nothing.
    pub fn miss(&mut self, number: u8) {
        let step = self.caller(number).flight.expect("it asks").step;
        let at = self.after_write(step);
        self.caller(number).flight.as_mut().expect("it asks").at = at;
    }

    /// The TTL that a caller's write requests; `None`: the one in the row.
    fn ttl_of(&self, number: u8) -> Option<u8> {
        let is_claim = self.callers[usize::from(number)].phase == Phase::Claims;
        (is_claim || !self.is_script(number)).then_some(TTL)
    }

    /// Whether the row says that the running command is this caller's.
    pub fn is_backed(&self, number: u8, caller: &Caller) -> bool {
        let row = self.rows[caller.slot as usize];
        row.owner == Some(number) && caller.fence.is_some_and(|fence| row.is(fence))
    }

    /// Copies all rows to a lagging node.
    pub fn replicate(&mut self) {
        self.past = self.rows;
    }

    pub fn tick_rows(&mut self) {
        let age = |rows: &mut Rows| {
            for row in rows {
                row.left = row.left.saturating_sub(1);
            }
        };
        age(&mut self.rows);
        age(&mut self.past);
    }
}

impl TableRow {
    /// Whether the slot was not granted again since this fence.
    pub fn is(&self, fence: u64) -> bool {
        u64::from(self.fence) == fence
    }

    fn free(&mut self, write_id: u8) -> bool {
        *self = Self {
            exists: true,
            fence: self.fence,
            write_id,
            ..Self::default()
        };
        true
    }
}
