//! Callers: the phase of each, and the progress of its statement.

use super::locks::{KILLER, SERVER, SessionId, caller_of, take};
use super::state::{At, Phase, Release, Server, Setting, Slot, World};
use crate::lock::named::acknowledging::{self, Acknowledging, LostSessions};
use crate::lock::named::queue::{Acquiring, Answer, Ask, Outcome, Step};
use crate::lock::named::releasing::{self, Releasing};
use crate::lock::named::starting::{self, Reply, Starting};

impl World {
    pub fn can_step(&self, number: usize) -> bool {
        let caller = &self.callers[number];
        match caller.phase {
            Phase::Asks(_, at) => at != At::Queued,
            Phase::Answered(..) => !caller.cut,
            Phase::Acks(slot, acknowledging) => self.can_ack(number, slot, acknowledging),
            Phase::Gone => false,
            _ => true,
        }
    }

    /// Only a waiter's session expires soon; before the wait the server keeps it as long as a holder's.
    pub fn can_expire(&self, number: usize) -> bool {
        let caller = &self.callers[number];
        caller.cut && caller.is_short && matches!(caller.phase, Phase::Answered(..))
    }

    pub fn step(&mut self, setting: Setting, number: usize) {
        match self.callers[number].phase {
            Phase::NotYet => {
                if setting.reopens {
                    self.markers.run_ids[number] = self.own(number);
                    self.request_on_own(number);
                }
                self.ask(number, self.callers[number].acquiring.plan.first());
            }
            Phase::Asks(step, at) => self.execute(setting, number, step, at),
            Phase::Reopens => {
                self.open_session(number);
                let first = self.callers[number].acquiring.plan.first();
                self.callers[number].starting = Some(Starting::new(first, true));
                self.open(number);
            }
            Phase::Opens => self.open(number),
            Phase::Opened(_, answer, owner) => {
                self.start(number, Reply::First(answer, owner.map(u64::from)));
            }
            Phase::Recalls(step, answer) => self.recall(number, step, answer),
            Phase::Answered(_, None) if self.callers[number].starting.is_some() => {
                self.start(number, Reply::Unclear);
            }
            Phase::Answered(_, answer) => self.acquire(number, answer),
            Phase::Lost(slot) => self.begin_retake(setting, number, slot),
            Phase::Retakes(..) => self.retake(number, false),
            Phase::Stops(_) => self.callers[number].phase = Phase::Gone,
            Phase::Ends(slot, _) => {
                let acknowledging = Acknowledging::of_holder(KILLER.into());
                self.callers[number].phase = Phase::Acks(Some(slot), acknowledging);
            }
            Phase::Acks(..) => self.ack_kill(number, false),
            Phase::Begins(slot) => self.start_command(number, slot),
            Phase::Runs(slot) => self.begin_release(number, slot),
            Phase::Releases(slot, releasing, at) => {
                self.release(setting, number, (slot, releasing), at);
            }
            Phase::Gone => unreachable!("it does nothing more"),
        }
    }

    /// On a new session: what follows from a reply to its first questions.
    fn start(&mut self, number: usize, reply: Reply) {
        let starting = self.callers[number].starting.as_mut();
        match starting.expect("its session is new").next(reply) {
            starting::Ask::First => self.callers[number].phase = Phase::Opens,
            starting::Ask::EndGhost(ghost) => {
                self.end_on_server(u8::try_from(ghost).unwrap());
                self.start(number, Reply::Killed);
            }
            starting::Ask::Over(step, answer) => {
                let Reply::First(_, marked) = reply else {
                    unreachable!("nothing else decides");
                };
                let own = self.own(number).map(u64::from);
                assert_eq!(marked, own, "it goes on with a session that has no mark");
                self.callers[number].starting = None;
                self.request_on_own(number);
                self.callers[number].phase = Phase::Recalls(step, answer);
            }
        }
    }

    fn request_on_own(&mut self, number: usize) {
        let caller = &mut self.callers[number];
        caller.lost.add(SERVER, caller.session.into());
    }

    /// It asks who has killed one of the sessions that it has lost.
    fn recall(&mut self, number: usize, step: Step, answer: Answer) {
        let caller = &self.callers[number];
        let lost = caller.lost.next(SERVER, caller.session.into());
        let killer = lost.and_then(|lost| self.killer_of_session(lost));
        let caller = &mut self.callers[number];
        let Some(lost) = lost else {
            caller.acquiring = Acquiring::after(step, caller.acquiring.plan, false, false);
            caller.phase = Phase::Answered(step, Some(answer));
            return;
        };
        let mut acknowledging = Acknowledging::of_waiter();
        match acknowledging.next(acknowledging::Answer::Killer(killer), false) {
            acknowledging::Ask::Over(None) => caller.lost.settle(SERVER, lost),
            _ => caller.phase = Phase::Acks(None, acknowledging),
        }
    }

    /// What follows from the answer to what it asked last. The server's timeouts change nothing that others see.
    fn acquire(&mut self, number: usize, answer: Option<Answer>) {
        let caller = &mut self.callers[number];
        match caller.acquiring.next(answer, caller.late) {
            Ask::Step(step, _) => self.ask(number, step),
            Ask::BeginWait => {
                caller.is_short = true;
                self.acquire(number, answer);
            }
            Ask::EndWait(_) => {
                caller.is_short = false;
                self.acquire(number, answer);
            }
            Ask::Release(slot, _) => self.begin_release(number, u8::try_from(slot).unwrap()),
            Ask::Over(Outcome::Held(grant)) => {
                assert!(
                    !answer.is_some_and(|answer| answer.reacquired),
                    "a waiter does not give way"
                );
                assert!(
                    !caller.is_short,
                    "the server keeps a holder's session for a moment only"
                );
                caller.forget_session();
                let slot = u8::try_from(grant.slot).unwrap();
                caller.phase = Phase::Begins(slot);
                self.check_start(number, usize::from(slot));
                // Without a killer, a session that is lost then is as one that was lost before the grant.
                if self.budget.killers == 0 && self.killer.victim().is_none() {
                    self.start_command(number, slot);
                }
            }
            Ask::Over(Outcome::Taken) => {
                assert!(caller.late, "a waiter gives up too early");
                self.end_session(number);
            }
            Ask::Over(Outcome::GiveWay) => {
                let session = caller.session;
                self.end_on_server(session);
            }
            Ask::Over(Outcome::Unproved(_)) => unreachable!("it leaves no proof"),
        }
    }

    fn start_command(&mut self, number: usize, slot: u8) {
        let was_killed = self
            .killed
            .is_some_and(|killed| caller_of(killed) == number);
        assert!(!was_killed, "a caller that was killed starts its command");
        let caller = &mut self.callers[number];
        caller.lost = LostSessions::default();
        caller.phase = Phase::Runs(slot);
    }

    fn begin_release(&mut self, number: usize, slot: u8) {
        let at = Release::Asks(releasing::Ask::Release);
        self.callers[number].phase = Phase::Releases(slot, Releasing::default(), at);
    }

    /// One step of a release.
    fn release(&mut self, setting: Setting, number: usize, of: (u8, Releasing), at: Release) {
        let slot = usize::from(of.0);
        let answer = match at {
            Release::Asks(releasing::Ask::Release) => {
                // After an interruption it asks again, and another caller may hold the slot by then.
                let was_held = self.slots[slot].owner == self.own(number);
                if was_held {
                    self.free_slot(slot);
                }
                let at = Release::AskForHead(was_held);
                self.callers[number].phase = Phase::Releases(of.0, of.1, at);
                return;
            }
            Release::AskForHead(was_held) => releasing::Answer::Released {
                was_held,
                queue_head: self.head.owner.map(u64::from),
            },
            Release::Asks(releasing::Ask::Wake) => {
                // Who was the head when it was asked for may hold a slot by now.
                if let Some(head) = self.head.owner.filter(|_| setting.wakes) {
                    self.kill(setting, caller_of(head));
                }
                releasing::Answer::Woken
            }
            Release::Asks(releasing::Ask::Over(_)) => unreachable!("it has released the slot"),
        };
        self.released(number, of, answer);
    }

    /// What follows from the answer to a release.
    fn released(
        &mut self,
        number: usize,
        (slot, mut releasing): (u8, Releasing),
        answer: releasing::Answer,
    ) {
        let ask = releasing.next(answer);
        let releasing::Ask::Over(was_held) = ask else {
            let at = Release::Asks(ask);
            self.callers[number].phase = Phase::Releases(slot, releasing, at);
            return;
        };
        assert!(was_held, "it released what it did not hold");
        if let Ask::Release(..) = self.callers[number].acquiring.asked {
            self.acquire(number, None);
        } else {
            self.end_session(number);
        }
    }

    /// Its session, as a lock's owner.
    #[expect(clippy::unnecessary_wraps, reason = "compared with owners")]
    pub fn own(&self, number: usize) -> Option<SessionId> {
        Some(self.callers[number].session)
    }

    fn open(&mut self, number: usize) {
        let own = self.callers[number].session;
        take(&mut self.markers.run_ids[number], own);
        let starting = self.callers[number].starting;
        self.ask(number, starting.expect("its session is new").step());
    }

    pub fn ask(&mut self, number: usize, step: Step) {
        self.callers[number].killed = false;
        self.callers[number].phase = Phase::Asks(step, At::Start);
    }

    /// One step of a statement, as in `statements`.
    #[expect(
        clippy::too_many_lines,
        reason = "one line for each step of each statement"
    )]
    pub fn execute(&mut self, setting: Setting, number: usize, step: Step, at: At) {
        let slots = setting.slots_of(number);
        let number_of = self.callers[number].session;
        let own = Some(number_of);
        let go_to = |world: &mut Self, at| world.callers[number].phase = Phase::Asks(step, at);
        match (step, at) {
            (Step::TryUnlessQueued, At::Start) if self.head.owner.is_some() => {
                go_to(self, At::Head(Slot::Refused));
            }
            (Step::Try | Step::TryUnlessQueued, At::Start) => go_to(self, At::Slot(0)),
            (Step::Head, At::Start) => {
                let held = (0u8..).zip(&self.slots).find(|(_, slot)| slot.owner == own);
                go_to(
                    self,
                    held.map_or(At::Slot(0), |(slot, _)| At::Head(Slot::Held(slot))),
                );
            }
            (Step::Queue, At::Start) => go_to(self, At::Wait),
            (Step::Settle, At::Start) => {
                let held = (0u8..).zip(&self.slots).find(|(_, slot)| slot.owner == own);
                go_to(
                    self,
                    At::Head(held.map_or(Slot::Null, |(slot, _)| Slot::Held(slot))),
                );
            }
            (Step::Confirm(slot), At::Start) => {
                let held = self.slots[slot as usize].owner == own;
                let slot = u8::try_from(slot).unwrap();
                go_to(
                    self,
                    At::Head(if held { Slot::Held(slot) } else { Slot::Null }),
                );
            }
            (_, At::Slot(slot)) => {
                if self.take(usize::from(slot), number) {
                    let checks =
                        setting.reopens && self.callers[number].acquiring.plan.checks_kills;
                    go_to(
                        self,
                        if checks {
                            At::Marker(slot)
                        } else {
                            At::Head(Slot::Held(slot))
                        },
                    );
                } else {
                    self.pass_over(slots, number, step, slot);
                }
            }
            (_, At::Marker(slot)) => {
                let is_free = self.markers.kills[usize::from(slot)].is_none();
                go_to(
                    self,
                    if is_free {
                        At::End(slot)
                    } else {
                        At::Release(slot)
                    },
                );
            }
            (_, At::End(slot)) if self.markers.terminations[usize::from(slot)].is_none() => {
                go_to(self, At::Reacquire(slot));
            }
            (_, At::Reacquire(slot)) if self.markers.reacquires[usize::from(slot)].is_none() => {
                go_to(self, At::Head(Slot::Held(slot)));
            }
            (_, At::End(slot) | At::Reacquire(slot)) => go_to(self, At::Release(slot)),
            (_, At::Release(slot)) => {
                self.free_slot(usize::from(slot));
                self.pass_over(slots, number, step, slot);
            }
            (_, At::ProofReacquire(answer)) => {
                let slot = answer.slot.expect("it is held") as usize;
                let reacquired = self.markers.reacquires[slot].is_some();
                go_to(
                    self,
                    At::ProofMarker(Answer {
                        reacquired,
                        ..answer
                    }),
                );
            }
            (_, At::ProofMarker(answer)) => {
                let slot = answer.slot.expect("it is held") as usize;
                if self.markers.kills[slot].is_none() {
                    return go_to(self, At::ProofEnd(answer));
                }
                let answer = Answer {
                    killed: true,
                    ..answer
                };
                self.callers[number].phase = Phase::Answered(step, Some(answer));
            }
            (_, At::ProofEnd(answer)) => {
                let slot = answer.slot.expect("it is held") as usize;
                let killed = self.markers.terminations[slot].is_some();
                let answer = Answer { killed, ..answer };
                self.callers[number].phase = Phase::Answered(step, Some(answer));
            }
            (_, At::Owner(answer)) => {
                let owner = self.markers.run_ids[number];
                self.callers[number].phase = Phase::Opened(step, answer, owner);
            }
            (_, At::Wait) => {
                let lock = match step {
                    Step::Head => &mut self.slots[slots - 1],
                    _ if slots == 1 => &mut self.slots[0],
                    _ => &mut self.head,
                };
                assert_ne!(lock.owner, own, "a lock is acquired twice");
                if lock.owner.is_none() {
                    lock.owner = own;
                    self.waited(number, Slot::Null);
                } else if self.callers[number].killed {
                    go_to(self, At::Head(Slot::Null));
                } else {
                    lock.enqueue(number_of);
                    go_to(self, At::Queued);
                }
            }
            (_, At::Head(slot)) => self.answer(setting, number, step, slot),
            (_, At::Reply(answer)) => {
                self.callers[number].phase = Phase::Answered(step, Some(answer));
            }
            (_, At::Queued) => unreachable!("nothing is executed"),
        }
    }

    /// It may not take this slot: tries the next one, or waits.
    fn pass_over(&mut self, slots: usize, number: usize, step: Step, slot: u8) {
        let at = if usize::from(slot) + 1 < slots {
            At::Slot(slot + 1)
        } else if matches!(step, Step::Head) && !self.callers[number].late {
            At::Wait
        } else {
            At::Head(Slot::Refused)
        };
        self.callers[number].phase = Phase::Asks(step, at);
    }

    /// The last column completes the answer.
    pub fn answer(&mut self, setting: Setting, number: usize, step: Step, slot: Slot) {
        let slots = setting.slots_of(number);
        let own = self.own(number);
        let held = matches!(slot, Slot::Held(_));
        if self.head.owner == own && matches!(step, Step::Confirm(_)) && held {
            self.free_head();
        }
        let answer = Answer {
            refused: slot == Slot::Refused,
            slot: match slot {
                Slot::Held(slot) => Some(slot.into()),
                _ => None,
            },
            killed: false,
            reacquired: false,
            is_head: slots > 1 && self.head.owner == own,
            connection_id: self.callers[number].session.into(),
        };
        let at = match step {
            Step::Confirm(_) if setting.reopens && held => At::ProofReacquire(answer),
            _ if self.callers[number].starting.is_some() => At::Owner(answer),
            _ if setting.reopens => {
                self.callers[number].phase = Phase::Answered(step, Some(answer));
                return;
            }
            _ => At::Reply(answer),
        };
        self.callers[number].phase = Phase::Asks(step, at);
    }

    /// Acquires a slot without waiting. Returns whether it did.
    pub fn take(&mut self, slot: usize, number: usize) -> bool {
        let own = self.own(number);
        let lock = &mut self.slots[slot];
        assert_ne!(lock.owner, own, "a slot is acquired twice");
        if lock.owner.is_none() {
            lock.owner = own;
        }
        lock.owner == own
    }

    /// The waiting call has returned. `slot` counts unless the call acquired its lock.
    pub fn waited(&mut self, number: usize, slot: Slot) {
        let Phase::Asks(step, _) = self.callers[number].phase else {
            panic!("it waited for nothing");
        };
        let own = self.own(number);
        let held = (0u8..).zip(&self.slots).find(|(_, slot)| slot.owner == own);
        let slot = held.map_or(slot, |(held, _)| Slot::Held(held));
        self.callers[number].phase = Phase::Asks(step, At::Head(slot));
    }

    pub fn kill(&mut self, setting: Setting, number: usize) {
        let (step, at) = match self.callers[number].phase {
            Phase::Asks(step, at) => (step, at),
            Phase::Releases(slot, releasing, Release::AskForHead(_))
                if setting.server == Server::MySql =>
            {
                let interrupted = releasing::Answer::Interrupted;
                return self.released(number, (slot, releasing), interrupted);
            }
            _ => return,
        };
        match setting.server {
            Server::MySql => {
                self.leave_queues(number);
                self.callers[number].phase = Phase::Answered(step, None);
            }
            Server::MariaDb if at == At::Queued => {
                self.leave_queues(number);
                self.waited(number, Slot::Null);
            }
            Server::MariaDb => self.callers[number].killed = true,
        }
    }

    pub fn leave_queues(&mut self, number: usize) {
        let own = self.callers[number].session;
        self.head.leave_queue(own);
        self.slots.iter_mut().for_each(|slot| slot.leave_queue(own));
    }

    pub fn free_slot(&mut self, slot: usize) {
        if let Some(next) = self.slots[slot].pass_on() {
            self.waited(caller_of(next), Slot::Null);
        }
    }

    pub fn free_head(&mut self) {
        if let Some(next) = self.head.pass_on() {
            self.waited(caller_of(next), Slot::Null);
        }
    }

    pub fn end_session(&mut self, number: usize) {
        let own = self.own(number);
        self.leave_queues(number);
        self.callers[number].phase = Phase::Gone;
        self.callers[number].forget_session();
        for slot in 0..self.slots.len() {
            if self.slots[slot].owner == own {
                self.free_slot(slot);
            }
        }
        if self.head.owner == own {
            self.free_head();
        }
        self.markers
            .all()
            .filter(|lock| **lock == own)
            .for_each(|lock| *lock = None);
    }
}
