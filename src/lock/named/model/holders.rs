//! Holders with a lost session, which reacquire the slot or end their command.

use super::locks::{KILLER, MOST_CALLERS, SERVER, SessionId, caller_of, owns, release, take};
use super::state::{KillerPhase, OnLoss, Phase, Retake, Setting, World};
use crate::lock::named::acknowledging::{Acknowledging, Answer as Acked, Ask as Ack};
use crate::lock::named::queue;
use crate::lock::named::retaking::{Answer, Ask, Look, Outcome, Retaking};

impl World {
    /// A new session of a caller, with the first number that is not used or referred to.
    pub fn open_session(&mut self, number: usize) {
        let step = u8::try_from(MOST_CALLERS).unwrap();
        let mut session = u8::try_from(number).unwrap();
        while self.ghosts.contains(&session)
            || self.ending.contains(&session)
            || self.killer.victim() == Some(session)
            || self.markers.victim == Some(session)
            || self.callers[number]
                .lost
                .0
                .contains(&(SERVER.to_owned(), session.into()))
            || self.callers[number].held_on == Some(session)
        {
            session += step;
        }
        self.callers[number].session = session;
    }

    /// The server ends a session, and frees its locks a moment later. Returns whether the session was still there.
    pub fn end_on_server(&mut self, session: SessionId) -> bool {
        let number = caller_of(session);
        if let Some(at) = self.ghosts.iter().position(|&ghost| ghost == session) {
            self.ghosts.remove(at);
        } else if self.callers[number].session == session && self.has_session(number) {
            self.leave_queues(number);
            self.lose(number);
        } else {
            return false;
        }
        if self.locks_of(session) > 0 {
            self.ending.push(session);
            self.ending.sort_unstable();
        }
        true
    }

    pub fn has_session(&self, number: usize) -> bool {
        !matches!(
            self.callers[number].phase,
            Phase::NotYet | Phase::Reopens | Phase::Lost(_) | Phase::Stops(_) | Phase::Gone
        )
    }

    /// The network is cut: the server keeps the session, and its dblock loses it.
    pub fn cut_off(&mut self, number: usize) {
        self.ghosts.push(self.callers[number].session);
        self.ghosts.sort_unstable();
        self.lose(number);
    }

    pub fn lose(&mut self, number: usize) {
        self.forget_take_over(number);
        let caller = &mut self.callers[number];
        let acquires = matches!(caller.acquiring.asked, queue::Ask::Release(..));
        if let Phase::Runs(_) = caller.phase {
            caller.held_on = Some(caller.session);
        }
        caller.phase = match caller.phase {
            Phase::Runs(slot) | Phase::Retakes(slot, ..) => Phase::Lost(slot),
            Phase::Asks(..)
            | Phase::Answered(..)
            | Phase::Begins(_)
            | Phase::Opens
            | Phase::Opened(..)
            | Phase::Recalls(..) => Phase::Reopens,
            Phase::Releases(..) if acquires => Phase::Reopens,
            // Its command has ended.
            _ => Phase::Gone,
        };
        caller.forget_session();
    }

    /// How many locks a session holds.
    pub fn locks_of(&self, session: SessionId) -> usize {
        let mut markers = self.markers;
        let slots = self.slots.iter().filter(|slot| slot.owner == Some(session));
        let count = slots.count() + usize::from(self.head.owner == Some(session));
        let request = session == KILLER && markers.victim.is_some();
        count + usize::from(request) + markers.all().filter(|lock| owns(**lock, session)).count()
    }

    /// Frees one of the locks of a session that is ending.
    pub fn free_one(&mut self, session: SessionId, which: usize) {
        let own = Some(session);
        let slots = (0..self.slots.len()).filter(|&slot| self.slots[slot].owner == own);
        let slots: Vec<usize> = slots.collect();
        let head = usize::from(self.head.owner == own);
        if let Some(&slot) = slots.get(which) {
            self.free_slot(slot);
        } else if which - slots.len() < head {
            self.free_head();
        } else {
            let which = which - slots.len() - head;
            let mut markers = self.markers.all().filter(|lock| owns(**lock, session));
            if let Some(lock) = markers.nth(which) {
                *lock = None;
            } else {
                drop(markers);
                self.markers.victim = None;
            }
        }
        if self.locks_of(session) == 0 {
            self.ending.retain(|&ending| ending != session);
        }
    }

    /// Whether the caller has a command that runs in this slot.
    pub fn has_command(&self, number: usize, slot: usize) -> bool {
        match self.callers[number].phase {
            Phase::Runs(own)
            | Phase::Lost(own)
            | Phase::Retakes(own, ..)
            | Phase::Ends(own, _)
            | Phase::Stops(own) => usize::from(own) == slot,
            _ => false,
        }
    }

    /// Whether it is ending for a killer, and nobody else held the slot at the announcement.
    pub fn is_ending(&self, number: usize, slot: usize) -> bool {
        matches!(self.callers[number].phase, Phase::Ends(own, true) if usize::from(own) == slot)
    }

    /// Whether the session that holds the slot has had enough time to release it.
    pub fn can_lose_patience(&self, number: usize) -> bool {
        let Phase::Retakes(_, _, Retake::Looked(look)) = self.callers[number].phase else {
            return false;
        };
        let stranger = look.stranger().and_then(|holder| u8::try_from(holder).ok());
        stranger.is_some_and(|holder| caller_of(holder) != number)
    }

    /// The next step to reacquire its slot.
    pub fn retake(&mut self, number: usize, patience_over: bool) {
        let Phase::Retakes(own_slot, mut retaking, at) = self.callers[number].phase else {
            panic!("it has its slot");
        };
        let (slot, own) = (usize::from(own_slot), self.callers[number].session);
        let answer = match (retaking.asked(), at) {
            (Ask::Look, Retake::Looked(look)) => Answer::Look {
                look,
                patience_over,
            },
            (Ask::Look, at) => {
                let next = self.look(number, slot, at);
                self.callers[number].phase = Phase::Retakes(own_slot, retaking, next);
                return;
            }
            (Ask::Open, _) => {
                take(&mut self.markers.run_ids[number], own);
                Answer::Done
            }
            (Ask::Killer, _) => {
                Answer::Killer(self.is_meant(number, slot).then_some(KILLER.into()))
            }
            (Ask::AnnounceTermination(_), _) => {
                take(&mut self.markers.terminations[slot], own);
                Answer::Done
            }
            (Ask::AnnounceReacquire(_), _) => {
                take(&mut self.markers.reacquires[slot], own);
                Answer::Done
            }
            (Ask::EndGhost(ghost), _) => {
                let ghost = u8::try_from(ghost).unwrap();
                let has_announced = owns(self.markers.reacquires[slot], own);
                if has_announced && owns(self.slots[slot].owner, ghost) {
                    self.takes_over[slot] = Some(own);
                }
                self.end_on_server(ghost);
                Answer::Done
            }
            (Ask::FinishReacquire, _) => {
                release(&mut self.markers.reacquires[slot], own);
                Answer::Done
            }
            (Ask::Over(_), _) => unreachable!("it is decided"),
        };
        match retaking.next(answer) {
            Ask::Over(Outcome::Held) => self.hold_again(number, own_slot),
            Ask::Over(Outcome::Taken | Outcome::NotRequested) => {
                self.end_on_server(own);
                self.callers[number].phase = Phase::Stops(own_slot);
            }
            Ask::Over(Outcome::Killed(_)) => {
                // After any other loss another caller may have acquired the slot.
                let is_another = |owner| caller_of(owner) != number;
                let is_guarded = self.is_killing(number, slot)
                    || !self.slots[slot].owner.is_some_and(is_another);
                self.callers[number].phase = Phase::Ends(own_slot, is_guarded);
            }
            _ => {
                self.callers[number].phase = Phase::Retakes(own_slot, retaking, Retake::Start);
            }
        }
    }

    /// One step of a look, as in `statements`.
    #[expect(clippy::match_same_arms, reason = "in the order of the statement")]
    fn look(&mut self, number: usize, slot: usize, at: Retake) -> Retake {
        let own = self.callers[number].session;
        match at {
            Retake::Start => {
                take(&mut self.markers.run_ids[number], own);
                Retake::Marker
            }
            Retake::Marker if self.markers.kills[slot].is_some() => Retake::Holder(false, true),
            Retake::Marker => Retake::RunId,
            Retake::RunId if owns(self.markers.run_ids[number], own) => Retake::Slot,
            Retake::RunId => Retake::Holder(false, false),
            Retake::Slot if self.take(slot, number) => Retake::SlotMarker,
            Retake::Slot => Retake::Holder(false, false),
            Retake::SlotMarker if self.markers.kills[slot].is_some() => Retake::SlotRelease,
            Retake::SlotMarker => Retake::SlotEnd,
            Retake::SlotEnd if self.markers.terminations[slot].is_some() => Retake::SlotRelease,
            Retake::SlotEnd => Retake::Holder(true, false),
            Retake::SlotRelease => {
                self.free_slot(slot);
                Retake::Holder(false, false)
            }
            Retake::Holder(acquired, killed) => {
                Retake::Owner(acquired, killed, self.slots[slot].owner)
            }
            Retake::Owner(acquired, killed, holder) => Retake::Looked(Look {
                own: own.into(),
                acquired,
                killed,
                run_id_owner: self.markers.run_ids[number].map(u64::from),
                holder: holder.map(u64::from),
            }),
            Retake::Looked(_) => unreachable!("it has looked"),
        }
    }

    fn forget_take_over(&mut self, number: usize) {
        for session in &mut self.takes_over {
            session.take_if(|session| caller_of(*session) == number);
        }
    }

    fn hold_again(&mut self, number: usize, slot: u8) {
        self.forget_take_over(number);
        let own = self.callers[number].session;
        self.callers[number].phase = Phase::Runs(slot);
        self.callers[number].held_on = None;
        let markers = &mut self.markers;
        let of_slots = [markers.reacquires, markers.kills, markers.terminations];
        assert!(
            !of_slots.iter().flatten().any(|lock| owns(*lock, own)),
            "a marker is left over"
        );
    }

    /// Whether somebody kills the slot's holder, and means this caller's session that held the slot.
    fn is_meant(&self, number: usize, slot: usize) -> bool {
        let victim = self.markers.victim;
        self.markers.kills[slot].is_some()
            && victim.is_some()
            && victim == self.callers[number].held_on
    }

    /// The session that holds the marker of the killer of this session.
    pub fn killer_of_session(&self, session: u64) -> Option<u64> {
        let victim = self.markers.victim.map(u64::from);
        (victim == Some(session)).then_some(KILLER.into())
    }

    pub fn begin_retake(&mut self, setting: Setting, number: usize, slot: u8) {
        self.open_session(number);
        let own = self.callers[number].session;
        let (retaking, at) = match setting.on_loss {
            OnLoss::Stops => (Retaking::search_for_killer(), Retake::Start),
            on_loss => {
                take(&mut self.markers.run_ids[number], own);
                let announces = on_loss == OnLoss::Announces;
                if announces {
                    take(&mut self.markers.reacquires[usize::from(slot)], own);
                }
                (Retaking::begin(announces), Retake::Marker)
            }
        };
        self.callers[number].phase = Phase::Retakes(slot, retaking, at);
    }

    /// The session that holds the marker of a caller's killer, if it has killed the holder of this slot, or a waiter.
    fn killer_of(&self, number: usize, slot: Option<u8>) -> Option<u64> {
        if let Some(slot) = slot {
            return self.markers.kills[usize::from(slot)].map(u64::from);
        }
        let caller = &self.callers[number];
        let lost = caller.lost.next(SERVER, caller.session.into());
        lost.and_then(|lost| self.killer_of_session(lost))
    }

    /// Whether something follows from its next question.
    pub fn can_ack(&self, number: usize, slot: Option<u8>, acknowledging: Acknowledging) -> bool {
        match acknowledging.asked() {
            Ack::Await(killer) => self.killer_of(number, slot) != Some(killer),
            _ => true,
        }
    }

    /// The next step of an acknowledgement. `gives_up`: the killer takes too long.
    pub fn ack_kill(&mut self, number: usize, gives_up: bool) {
        let Phase::Acks(slot, mut acknowledging) = self.callers[number].phase else {
            panic!("it acknowledges nothing");
        };
        let own = self.callers[number].session;
        let answer = match acknowledging.asked() {
            Ack::Ack(_) => {
                if let Some(slot) = slot {
                    release(&mut self.markers.terminations[usize::from(slot)], own);
                }
                if !matches!(self.killer, KillerPhase::Gone | KillerPhase::NotYet) {
                    take(&mut self.markers.ack, own);
                }
                Acked::Done
            }
            _ => Acked::Killer(self.killer_of(number, slot)),
        };
        match acknowledging.next(answer, gives_up) {
            Ack::Over(_) => {
                let waits = self.killer_of(number, slot).is_some();
                assert!(gives_up || !waits, "it ends before its killer knows");
                self.end_session(number);
            }
            _ => self.callers[number].phase = Phase::Acks(slot, acknowledging),
        }
    }
}
