//! Callers: what each does after an answer, and without one. The program's own code decides what follows from the rows.

use super::state::{Ask, At, Broken, Caller, Flight, Ghost, OWNER_NAME, Phase, Rows, World};
use super::state::{owner, seen};
use crate::lock::rows::change::Change;
use crate::lock::rows::claim::{Claimant, Next};
use crate::lock::rows::holding::{Holding, Released, Renewed, after_release_of_any};

impl World {
    pub fn caller(&mut self, number: u8) -> &mut Caller {
        &mut self.callers[usize::from(number)]
    }

    /// Sends a statement. A write's number is only compared with the caller's latest one, so the same number is used each time.
    pub fn send(&mut self, number: u8, ask: Ask) {
        for row in self.rows.iter_mut().chain(&mut self.past) {
            if row.write_id == number + 1 {
                row.write_id = 0;
            }
        }
        self.caller(number).flight = Some(Flight {
            ask,
            write_id: number + 1,
            at: At::Sent,
            age: 0,
        });
    }

    /// Begins to claim a slot, or begins again on another session.
    pub fn begin_claim(&mut self, number: u8) {
        let may_hold = self.caller(number).may_hold;
        let by_name = self.gives_name(number) && !self.is_broken(Broken::TakesOverByName);
        if may_hold || by_name {
            return self.look(number, false);
        }
        self.claim_any(number);
    }

    fn claim_any(&mut self, number: u8) {
        self.caller(number).phase = Phase::Claims { any: true };
        self.caller(number).may_hold = true;
        self.send(number, Ask::Write(Change::Take { slot: 0 }));
    }

    pub fn look(&mut self, number: u8, any: bool) {
        self.caller(number).phase = Phase::Claims { any };
        self.send(number, Ask::Look);
    }

    fn send_renewal(&mut self, number: u8) {
        let Caller { slot, fence, .. } = *self.caller(number);
        let fence = fence.expect("it is held");
        self.send(number, Ask::Write(Change::Renew { slot, fence }));
    }

    /// A renewal is due.
    pub fn renew_now(&mut self, number: u8) {
        self.send_renewal(number);
    }

    /// The command has ended: releases the lock as soon as the session is free.
    pub fn end_command(&mut self, number: u8) {
        self.caller(number).phase = Phase::Releases;
        if self.caller(number).flight.is_none() {
            self.send_release(number);
        }
    }

    fn send_release(&mut self, number: u8) {
        let is_script = self.is_script(number);
        let Caller {
            slot, fence, phase, ..
        } = *self.caller(number);
        let ends_token = matches!(phase, Phase::HasToken(_));
        self.caller(number).phase = Phase::Releases;
        let is_of_a_script = is_script && !ends_token && !self.caller(number).quits;
        let change = Change::giving_back(slot, fence, is_of_a_script);
        self.send(number, Ask::Write(change));
    }

    /// The script continues: runs a command under its token, or releases it.
    pub fn use_token(&mut self, number: u8, was_used: bool) {
        if was_used {
            self.send_release(number);
        } else {
            self.caller(number).phase = Phase::Adopts;
            self.send_renewal(number);
        }
    }

    /// The supervisor gives up. It asks a keeper that may hold a slot to release it, and only then ends it.
    pub fn give_up(&mut self, number: u8) {
        let caller = self.caller(number);
        if caller.may_hold {
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
        if let (At::Sent, Ask::Write(change)) = (flight.at, flight.ask) {
            self.ghosts.push(Ghost { number, change });
            self.ghosts.sort_unstable();
        }
    }

    /// No answer comes. Continues on the next session.
    pub fn lose(&mut self, number: u8) {
        let undone = self.is_broken(Broken::BelievesLostAsUndone);
        let done = self.is_broken(Broken::BelievesLostAsDone);
        let flight = self.caller(number).flight.expect("it asks");
        self.drop_flight(number);
        let Caller { phase, quits, .. } = *self.caller(number);
        match phase {
            Phase::Claims { .. } if quits && undone => self.end(number, true),
            Phase::Claims { .. } if quits => self.send_release(number),
            Phase::Claims { .. } => self.begin_claim(number),
            // The caller tries again soon, by the keeper's own clock.
            Phase::Holds if done => self.caller(number).lease = flight.age,
            Phase::Holds => {}
            Phase::Adopts => self.send_renewal(number),
            Phase::Releases => {
                let Ask::Write(change) = flight.ask else {
                    unreachable!("a look is no release")
                };
                let is_release = !matches!(change, Change::Renew { .. });
                self.caller(number).may_be_released |= is_release;
                if done && is_release {
                    return self.end(number, true);
                }
                self.resend_release(number, change);
            }
            phase => unreachable!("{phase:?} asks nothing"),
        }
    }

    fn resend_release(&mut self, number: u8, before: Change) {
        // A script's own release is sent again unchanged.
        if let Change::Release { .. } = before {
            self.send(number, Ask::Write(before));
        } else {
            self.send_release(number);
        }
    }

    /// The write was in conflict with another one, and did nothing.
    pub fn conflict(&mut self, number: u8) {
        let is_claim = matches!(self.caller(number).phase, Phase::Claims { .. });
        if is_claim {
            let Phase::Claims { any } = self.caller(number).phase else {
                return;
            };
            self.look(number, any);
        }
        // Any other write is sent again unchanged.
    }

    /// The answer arrives.
    pub fn deliver(&mut self, number: u8) {
        let flight = self.caller(number).flight.take().expect("it asks");
        let At::Looked(changed, rows) = flight.at else {
            unreachable!("it has no answer");
        };
        match self.caller(number).phase {
            Phase::Claims { any } => self.claimed(number, any, flight, changed, &rows),
            Phase::Holds | Phase::Adopts => self.renewed(number, flight, changed, &rows),
            Phase::Releases => match flight.ask {
                Ask::Write(Change::Renew { .. }) | Ask::Look => self.send_release(number),
                Ask::Write(change) => self.released(number, change, flight, changed, &rows),
            },
            phase => unreachable!("{phase:?} asks nothing"),
        }
    }

    fn claimed(&mut self, number: u8, any: bool, flight: Flight, changed: bool, rows: &Rows) {
        let slots: Vec<u32> = (0..).take(self.setting.slots).collect();
        let by_name = self.gives_name(number) && !self.is_broken(Broken::TakesOverByName);
        let claimant = Claimant {
            owner: owner(number),
            owner_name: by_name.then_some(OWNER_NAME),
            slots: if any { &slots } else { &[] },
        };
        let write_id = matches!(flight.ask, Ask::Write(_)).then_some(flight.write_id.into());
        let next = claimant.next(&seen(rows)[..], write_id);
        if !(flight.ask == Ask::Look && self.is_broken(Broken::WaitsWithAClaim)) {
            self.caller(number).may_hold = next.may_hold();
        }
        match next {
            Next::Write(change) => self.send(number, Ask::Write(change)),
            // No earlier claim has got a slot, so the claim begins anew.
            Next::Taken if !any => self.claim_any(number),
            Next::Taken if self.caller(number).quits || !self.waits(number) => {
                self.end(number, true);
            }
            Next::Taken => self.caller(number).phase = Phase::Waits,
            Next::Held { slot, fence } => {
                assert!(changed, "what is only read counts as held");
                self.hold(number, slot, fence, flight);
            }
        }
    }

    /// The lock is held.
    fn hold(&mut self, number: u8, slot: u32, fence: u64, flight: Flight) {
        let is_script = self.is_script(number);
        let caller = self.caller(number);
        caller.slot = slot;
        caller.fence = Some(fence);
        caller.may_hold = false;
        if caller.quits {
            return self.send_release(number);
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

    fn holding(&mut self, number: u8) -> Holding<'static> {
        let Caller { slot, fence, .. } = *self.caller(number);
        Holding {
            owner: owner(number),
            slot,
            fence: fence.expect("it is held"),
            command_run: None,
        }
    }

    fn renewed(&mut self, number: u8, flight: Flight, changed: bool, rows: &Rows) {
        let holding = self.holding(number);
        let seen = seen(rows);
        let renewed = holding.after_renewal(&seen, flight.write_id.into());
        let adopts = self.caller(number).phase == Phase::Adopts;
        match renewed {
            Renewed::Confirmed => {
                assert!(changed, "what is only read counts as held");
                let ttl = rows[holding.slot as usize].ttl;
                if adopts {
                    self.caller(number).ttl = ttl;
                    return self.start_command(number, flight);
                }
                let late = self.is_broken(Broken::CountsFromAnswer);
                let caller = self.caller(number);
                caller.lease = if late { 0 } else { flight.age };
                caller.in_doubt &= caller.is_over_in(0);
                self.count_start(number);
            }
            // The next renewal follows soon.
            Renewed::Unknown if adopts => self.send_renewal(number),
            Renewed::Unknown => {}
            // `dblock kill` ends the run: the script does not get its lock back.
            Renewed::Killed => {
                self.caller(number).quits = true;
                self.send_release(number);
            }
            Renewed::Lost(_) => {
                let caller = *self.caller(number);
                assert!(
                    !self.is_backed(number, &caller),
                    "a lock that is held is believed to be lost"
                );
                self.caller(number).knows_end = true;
                self.caller(number).quits = true;
                self.send_release(number);
            }
        }
    }

    fn released(&mut self, number: u8, change: Change, flight: Flight, changed: bool, rows: &Rows) {
        let rows = seen(rows);
        let may_be_released = self.caller(number).may_be_released;
        let believes = self.is_broken(Broken::BelievesUnchanged);
        let released = if believes && !changed && change != Change::ReleaseAny {
            Released::NotHeld
        } else if change == Change::ReleaseAny {
            after_release_of_any(&rows, owner(number))
        } else {
            let holding = self.holding(number);
            holding.after_release(&rows, flight.write_id.into(), may_be_released)
        };
        match released {
            Released::Unknown => {
                assert!(!changed, "a release is not believed");
                self.resend_release(number, change);
            }
            Released::Done if matches!(change, Change::HandBack { .. }) => {
                self.caller(number).may_be_released = false;
                self.caller(number).phase = Phase::HasToken(true);
            }
            Released::Done => {
                self.caller(number).knows_end = true;
                self.end(number, true);
            }
            Released::NotHeld => {
                assert!(!changed, "a release is not believed");
                self.caller(number).knows_end = true;
                self.end(number, true);
            }
        }
    }
}
