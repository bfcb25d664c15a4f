//! Callers: carries what the program's machines ask to the model's server, and their results to a command. What a keeper, its supervisor
//! and a script do with these results is the model's own.

use super::state::{At, Broken, Caller, Flight, Ghost, OWNER_NAME, Phase, TableRow, World, owner};
use crate::lock::rows::change::Change;
use crate::lock::rows::claim::{Claim, ClaimEnd, Claimant};
use crate::lock::rows::holding::{Hold, OwnGrant, Released, Renewed};
use crate::lock::rows::step::{Answer, Next, RowStep};

/// The slots to claim.
const SLOTS: [u32; 2] = [0, 1];

impl World {
    pub fn caller(&mut self, number: u8) -> &mut Caller {
        &mut self.callers[usize::from(number)]
    }

    /// Sends a statement, maybe one that looks up the result of a write. A write's number is only compared with the caller's latest one, so
    /// the same number is used each time.
    fn send(&mut self, number: u8, step: RowStep, before: Option<Flight>) {
        let is_again = |before: &Flight| before.step == step;
        let age = before.filter(is_again).map_or(0, |before| before.age);
        let written = before.filter(|before| before.at != At::Sent);
        let (write_id, has_changed) = if step.is_write() {
            let takes_over = matches!(step.change(), Some(Change::TakeOver { .. }));
            let is_first = written.is_none_or(|before| before.write_id == 0);
            assert!(
                !takes_over || is_first,
                "two callers take a slot from each other"
            );
            for row in self.rows.iter_mut().chain(&mut self.past) {
                if row.write_id == number + 1 {
                    row.write_id = 0;
                }
            }
            (number + 1, false)
        } else {
            written.map_or((0, false), |write| (write.write_id, write.has_changed))
        };
        self.caller(number).flight = Some(Flight {
            step,
            write_id,
            has_changed,
            at: At::Sent,
            age,
        });
    }

    /// Begins a caller's claim, or takes it a step further.
    pub fn claim(
        &mut self,
        number: u8,
        step: impl FnOnce(&mut Claim, &Claimant) -> Next<ClaimEnd>,
    ) {
        let by_name = self.gives_name(number) && !self.is_broken(Broken::TakesOverByName);
        let claimant = Claimant {
            owner: owner(number),
            owner_name: by_name.then_some(OWNER_NAME),
            slots: &SLOTS[..self.setting.slots],
            is_only_slot: self.setting.slots == 1,
        };
        let caller = self.caller(number);
        caller.phase = Phase::Claims;
        let before = caller.flight.take();
        let may_have_held = caller.claim.may_hold;
        let next = step(&mut caller.claim, &claimant);
        let has_looked = before.is_some_and(|before| before.step == RowStep::Look);
        if has_looked && self.is_broken(Broken::WaitsWithAClaim) {
            self.caller(number).claim.may_hold = may_have_held;
        }
        let quits = self.caller(number).quits;
        match next {
            Next::Ask(step) => self.send(number, step, before),
            Next::Over(ClaimEnd::Queue) => self.claim(number, Claim::take),
            Next::Over(ClaimEnd::Taken) => {
                let seen = before.expect("it asked").rows();
                let is_held = |row: &TableRow| row.owner.is_some() && row.left > 0;
                let are_held = seen[..self.setting.slots].iter().all(is_held);
                assert!(are_held, "a free slot counts as taken");
                if quits || !self.waits(number) {
                    self.end(number, true);
                } else {
                    self.caller(number).phase = Phase::Waits;
                }
            }
            Next::Over(ClaimEnd::Held { slot, fence }) => {
                let write = before.expect("it asked");
                assert!(write.has_changed, "what is only read counts as held");
                self.hold(number, slot, fence, write);
            }
        }
    }

    /// The lock is held.
    fn hold(&mut self, number: u8, slot: u32, fence: u64, flight: Flight) {
        let is_script = self.is_script(number);
        let caller = self.caller(number);
        caller.slot = slot;
        caller.fence = Some(fence);
        caller.has_session = true;
        if caller.quits {
            return self.release(number);
        }
        if is_script {
            caller.phase = Phase::HasToken(false);
        } else {
            self.start_command(number, flight);
        }
    }

    fn start_command(&mut self, number: u8, flight: Flight) {
        let late = self.is_broken(Broken::CountsFromAnswer);
        let caller = self.caller(number);
        caller.phase = Phase::Holds;
        caller.lease = if late { 0 } else { flight.age };
        // If the lease is no longer fresh, it is proved before the command starts.
        caller.in_doubt = 2 * caller.lease > caller.ttl;
        self.count_start(number);
    }

    /// The command starts, unless the lease must be proved first.
    fn count_start(&mut self, number: u8) {
        let caller = self.caller(number);
        if caller.in_doubt || std::mem::replace(&mut caller.has_started, true) {
            return;
        }
        let Caller {
            slot,
            fence,
            is_ousted,
            ..
        } = *caller;
        let last = &mut self.fences[slot as usize];
        let fence = fence.expect("it is held");
        assert!(fence > *last || is_ousted, "a fence has not grown");
        *last = fence.max(*last);
    }

    /// Takes the decisions about a caller's grant a step further.
    fn step_hold<T>(&mut self, number: u8, step: impl FnOnce(&mut Hold, &OwnGrant) -> T) -> T {
        let caller = self.caller(number);
        let grant = OwnGrant {
            owner: owner(number),
            slot: caller.slot,
            fence: caller.fence,
            command_run: None,
        };
        step(&mut caller.hold, &grant)
    }

    /// A renewal is due.
    pub fn renew_now(&mut self, number: u8) {
        let is_new = !self.caller(number).has_session;
        self.caller(number).has_session = true;
        let next = self.step_hold(number, |hold, grant| hold.renew(grant, is_new));
        self.go_on_renewing(number, next, None);
    }

    fn go_on_renewing(&mut self, number: u8, next: Next<Renewed>, before: Option<Flight>) {
        match next {
            Next::Ask(step) => self.send(number, step, before),
            Next::Over(renewed) => {
                self.renewed(number, renewed, before.expect("it asked"));
            }
        }
    }

    fn renewed(&mut self, number: u8, renewed: Renewed, flight: Flight) {
        let caller = *self.caller(number);
        match renewed {
            Renewed::Confirmed => {
                assert!(flight.has_changed, "what is only read counts as held");
                let row = flight.rows()[caller.slot as usize];
                assert!(!row.kill_requested, "a kill is not noticed");
            }
            Renewed::Unknown => self.caller(number).has_session = false,
            Renewed::Killed => self.caller(number).is_killed = true,
            Renewed::Lost => {
                assert!(
                    !self.is_backed(number, &caller),
                    "a lock that is held is believed to be lost"
                );
                self.caller(number).knows_end = true;
            }
        }
        match (caller.phase, renewed) {
            (Phase::Releases, _) | (_, Renewed::Killed | Renewed::Lost) => self.release(number),
            (Phase::Adopts, Renewed::Unknown) => self.renew_now(number),
            (Phase::Adopts, Renewed::Confirmed) => {
                self.caller(number).ttl = flight.rows()[caller.slot as usize].ttl;
                self.start_command(number, flight);
            }
            // The next renewal follows soon.
            (_, Renewed::Unknown) => {}
            (_, Renewed::Confirmed) => {
                let late = self.is_broken(Broken::CountsFromAnswer);
                let caller = self.caller(number);
                caller.lease = if late { 0 } else { flight.age };
                caller.in_doubt &= caller.is_over_in(0);
                self.count_start(number);
            }
        }
    }

    /// The command has ended: releases the lock as soon as the session is free.
    pub fn end_command(&mut self, number: u8) {
        self.caller(number).phase = Phase::Releases;
        if self.caller(number).flight.is_none() {
            self.release(number);
        }
    }

    fn release(&mut self, number: u8) {
        self.caller(number).phase = Phase::Releases;
        let next = self.step_hold(number, Hold::release);
        self.go_on_releasing(number, next, None);
    }

    fn go_on_releasing(&mut self, number: u8, next: Next<Released>, before: Option<Flight>) {
        let released = match next {
            Next::Ask(RowStep::LookAt(_)) if self.is_broken(Broken::BelievesUnchanged) => {
                Released::NotHeld
            }
            Next::Ask(step) => return self.send(number, step, before),
            Next::Over(released) => released,
        };
        let has_changed = before.is_some_and(|before| before.has_changed);
        let is_believed = released == Released::Done || !has_changed;
        assert!(is_believed, "a release is not believed");
        let caller = self.caller(number);
        match released {
            Released::Unknown => self.release(number),
            Released::Done if caller.hold.is_the_scripts => {
                assert!(!caller.is_killed, "a killed holder gets its lock back");
                caller.phase = Phase::HasToken(true);
            }
            Released::Done | Released::NotHeld => {
                let is_own_end = released == Released::NotHeld && caller.has_released;
                assert!(!is_own_end, "an own release counts as a loss");
                caller.knows_end = true;
                self.end(number, true);
            }
        }
    }

    /// The script continues: runs a command under its token, or releases it.
    pub fn use_token(&mut self, number: u8, was_used: bool) {
        let caller = self.caller(number);
        caller.has_session = false;
        caller.hold = Hold::new(!was_used);
        if was_used {
            self.release(number);
        } else {
            caller.phase = Phase::Adopts;
            self.renew_now(number);
        }
    }

    /// The supervisor gives up. It asks a keeper that may hold a slot to release it, and only then ends it.
    pub fn give_up(&mut self, number: u8) {
        let caller = self.caller(number);
        if caller.claim.may_hold {
            caller.quits = true;
        } else {
            self.end(number, true);
        }
    }

    pub fn end(&mut self, number: u8, is_clean: bool) {
        self.drop_flight(number);
        let caller = self.caller(number);
        caller.phase = Phase::Gone;
        caller.is_clean = is_clean;
        caller.asleep = false;
    }

    /// The session is lost. A statement on its way may still be carried out.
    fn drop_flight(&mut self, number: u8) {
        let Some(flight) = self.caller(number).flight.take() else {
            return;
        };
        if flight.at == At::Sent && flight.step.is_write() {
            let step = flight.step;
            self.ghosts.push(Ghost { number, step });
            self.ghosts.sort_unstable();
        }
    }

    /// No answer comes. Continues on the next session.
    pub fn lose(&mut self, number: u8) {
        let undone = self.is_broken(Broken::BelievesLostAsUndone);
        let done = self.is_broken(Broken::BelievesLostAsDone);
        let age = self.caller(number).flight.expect("it asks").age;
        self.drop_flight(number);
        let caller = self.caller(number);
        caller.has_session = false;
        caller.claim.may_hold &= !undone;
        caller.hold.on_silence();
        match caller.phase {
            Phase::Claims if caller.quits && caller.claim.may_hold => self.release(number),
            Phase::Claims if caller.quits => self.end(number, true),
            Phase::Claims => self.claim(number, Claim::begin),
            // The caller tries again soon, by the keeper's own clock.
            Phase::Holds if done => caller.lease = age,
            Phase::Holds => {}
            Phase::Adopts => self.renew_now(number),
            Phase::Releases if done && caller.hold.may_be_released => self.end(number, true),
            Phase::Releases => self.release(number),
            phase => unreachable!("{phase:?} asks nothing"),
        }
    }

    /// The answer arrives.
    pub fn answer(&mut self, number: u8, answer: &Answer) {
        let caller = self.caller(number);
        if caller.phase == Phase::Claims {
            return self.claim(number, |claim, claimant| claim.next(claimant, answer));
        }
        let flight = caller.flight.take();
        if flight.is_some_and(|flight| flight.step.renews()) {
            let next = self.step_hold(number, |hold, grant| hold.after_renewal(grant, answer));
            self.go_on_renewing(number, next, flight);
        } else {
            let next = self.step_hold(number, |hold, grant| hold.after_release(grant, answer));
            self.go_on_releasing(number, next, flight);
        }
    }
}
