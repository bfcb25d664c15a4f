//! Carries out what a place in the line asks.

use std::thread::sleep;
use std::time::Duration;

use super::{Answer, Ask, Place};
use crate::base::clock::Moment;
use crate::db::{Fault, Session, no_answer};
use crate::lock::named::acquire::{Decision, Opening, Turns};
use crate::lock::named::fitness::Unfit;
use crate::lock::named::queue::Step;
use crate::lock::named::request::{PAUSE, Request, carry_out};
use crate::lock::named::statements::{Line, RECHECK};
use crate::lock::{Caller, Grant, Lease};

/// With no more than so many ahead a caller looks more often.
const FEW: u64 = 3;

/// How often a caller looks, near the head of the line and far from it. A hundred that wait cost the server a dozen statements a second.
const LOOKS: [Duration; 2] = [Duration::from_millis(2500), Duration::from_secs(10)];

/// How long the server keeps the session of such a caller. One that has vanished holds up the others for so long, if it gets to the head.
const KEPT: [Duration; 2] = [Duration::from_secs(4), Duration::from_secs(12)];

/// How many notifications a caller heeds at once, and how long it then takes until it heeds one more, at the head of the line and behind:
/// those in line notify only the head. Whoever can connect to the database can notify anybody, without end.
const HEEDED_AT_ONCE: u32 = 10;
const HEEDED_EACH: [Duration; 2] = [Duration::from_millis(100), RECHECK];

/// How long the server may take for an answer to a caller that does nothing else: one that hangs is left for another, or for the same one
/// as soon as it is well. A caller loses its place so.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(12);

/// The notifications that a caller has heeded of late at the head of the line, or behind.
#[derive(Debug, Clone, Copy, Default)]
struct Heeded {
    /// When they count no more.
    until: Moment,
}

impl Heeded {
    /// When one more may be heeded. It may be over.
    fn next(self, each: Duration) -> Moment {
        self.until - each * (HEEDED_AT_ONCE - 1)
    }

    /// One more is heeded at this moment.
    fn add(&mut self, each: Duration, at: Moment) {
        self.until = self.until.max(at) + each;
    }
}

impl Request {
    /// Waits in this line until a slot is held, or the time to wait is over; then the session is no longer in line. With a slot,
    /// [`Request::wake_next`] is to follow.
    ///
    /// # Errors
    /// As [`Request::take`].
    pub(in crate::lock::named) fn wait_in_line(
        &mut self,
        line: Line,
        session: &mut Session,
        opening: &Opening,
        caller: &dyn Caller,
        mut turns: Option<Turns>,
    ) -> Result<Decision, Fault> {
        if turns.is_none() {
            session.answer_within(ANSWER_LIMIT)?;
        }
        let wanted = self.verbosity.when_waiting;
        caller.on_wait(&self.tell_and_name_holders(wanted, session, caller)?);
        self.has_waited = true;
        let (own, ttl) = (opening.connection_id(), opening.ttl);
        let (mut place, mut ask) = (Place::default(), Ask::Listen);
        let (mut asked, mut turn_begun) = (Moment::now(), Moment::now());
        let (mut heeded, mut pause) = ([Heeded::default(); 2], PAUSE);
        loop {
            let answer = match ask {
                Ask::Listen => {
                    carry_out(session, &Line::listen(own))?;
                    session.await_notification(Duration::ZERO)?;
                    Answer::Done
                }
                Ask::Stand => {
                    let stand = line.stand(place.number(), FEW, KEPT);
                    carry_out(session, &stand)?
                }
                Ask::Take(largest) => {
                    let (answered, number) = match session.run(&line.take(largest, own)) {
                        // It may have taken one that nobody knows, and would stand in its own way: it goes with the session.
                        Err(Fault::Interrupted(cause) | Fault::Conflict(cause)) => {
                            return Err(Fault::Gone(cause));
                        }
                        number => number?,
                    };
                    self.check_own(answered, own, session)?;
                    // Others have come in between, or somebody has the last number for as long as they like.
                    if number.is_none() {
                        sleep(self.left().map_or(pause, |left| pause.min(left)));
                        pause = RECHECK.min(pause * 2);
                    }
                    Answer::Number(number)
                }
                Ask::TrySlots => {
                    asked = Moment::now();
                    let slot = self.try_slots_as_head(session, own)?;
                    if slot.is_some() {
                        // A caller that is stopped could not start its command. Then the server ends this session soon.
                        caller.ask_alive();
                        caller.await_alive();
                    }
                    Answer::Slot(slot)
                }
                Ask::Idle { ahead } => {
                    let look = match ahead {
                        0 => RECHECK,
                        _ => LOOKS[usize::from(ahead > FEW)],
                    };
                    let left = self.left().unwrap_or(look);
                    let longest = turns.as_ref().map_or(look, |turns| turns.longest);
                    let until = Moment::now() + look.min(left).min(longest);
                    let is_notified = Self::await_wake(ahead, until, &mut heeded, session)?;
                    if let Some(turns) = &mut turns
                        && turn_begun.elapsed() >= turns.longest
                    {
                        (turns.after)(session)?;
                        turn_begun = Moment::now();
                    }
                    Answer::Awake { is_notified }
                }
                Ask::Leave(number) => {
                    // It also proves that the session is still there.
                    carry_out(session, &line.leave(number, ttl))?;
                    self.waking = Some(line.wake_after());
                    Answer::Done
                }
                Ask::Over(Some(slot)) => {
                    let grant = Grant {
                        slot,
                        connection_id: own,
                        fence: None,
                    };
                    return Ok(Decision::Held(grant, Lease { ttl, proved: asked }));
                }
                Ask::Over(None) => {
                    self.wake_next(session)?;
                    return Ok(Decision::Taken(self.taken(session, caller)?));
                }
            };
            ask = place.next(ask, answer, self.is_late());
        }
    }

    /// Waits idle, with so many ahead, until this moment at most. Whether a notification is heeded. After many of them that is late, and
    /// where the caller looks by itself before that, never.
    fn await_wake(
        ahead: u64,
        until: Moment,
        heeded: &mut [Heeded; 2],
        session: &mut Session,
    ) -> Result<bool, Fault> {
        if !session.await_notification(until.since(Moment::now()))? {
            return Ok(false);
        }
        // What came behind does not count at the head.
        let place = usize::from(ahead > 0);
        let (each, heeded) = (HEEDED_EACH[place], &mut heeded[place]);
        let next = heeded.next(each);
        sleep(next.min(until).since(Moment::now()));
        let is_heeded = next <= until;
        if is_heeded {
            heeded.add(each, Moment::now());
        }
        Ok(is_heeded)
    }

    /// Notifies the next one in line, if this one has left the line and that is not done yet. If the server refuses that, the next one finds
    /// out by itself.
    ///
    /// # Errors
    /// [`Fault::Gone`]: the session must be dropped.
    pub fn wake_next(&mut self, session: &mut Session) -> Result<(), Fault> {
        let Some(wake) = self.waking.take() else {
            return Ok(());
        };
        let woken = match session.run(&wake) {
            // It was to end the listening, too.
            Err(fault) if !matches!(fault, Fault::Gone(_)) => session.run(&Line::unlisten()),
            woken => woken,
        };
        match woken {
            Err(fault @ Fault::Gone(_)) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Takes a free slot, as the head of the line; `None`: none is free. `own`: the session that answered first.
    fn try_slots_as_head(&self, session: &mut Session, own: u64) -> Result<Option<u32>, Fault> {
        let mut step = Step::Head;
        loop {
            let reply = session.run(&self.statements.step(step, self.left(), Some(own)));
            let asked = match reply {
                // It may have taken one.
                Err(Fault::Interrupted(_) | Fault::Conflict(_)) => {
                    sleep(PAUSE);
                    step = Step::Settle;
                    continue;
                }
                reply => reply?.ok_or_else(no_answer)?,
            };
            self.check_writes(asked.is_read_only, session)?;
            let answer = asked.answer.ok_or_else(no_answer)?;
            self.check_own(answer.connection_id, own, session)?;
            return Ok(answer.slot);
        }
    }

    /// Refuses a pooler that shares sessions: the one that `answered` is not this caller's own. It may be the holder's, so the statement has
    /// taken nothing there.
    fn check_own(&self, answered: u64, own: u64, session: &Session) -> Result<(), Fault> {
        if answered != own && self.wants_fit() {
            return Err(self.unfit(session, Unfit::SessionsShared));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are heeded in this time of a caller that is notified without end.
    fn heeded_in(span: Duration, each: Duration, heeded: &mut Heeded, begun: Moment) -> u32 {
        let mut number = 0;
        loop {
            let at = heeded.next(each).max(begun);
            if at >= begun + span {
                return number;
            }
            heeded.add(each, at);
            number += 1;
        }
    }

    #[test]
    fn notifications_without_end_are_heeded_now_and_then_and_a_few_at_once() {
        for each in HEEDED_EACH {
            let (mut heeded, begun) = (Heeded::default(), Moment::now());
            let (moment, span) = (each / 2, each * 100);
            let mut heeded_from = |begun, span| heeded_in(span, each, &mut heeded, begun);
            assert_eq!(heeded_from(begun, moment), HEEDED_AT_ONCE);
            assert_eq!(heeded_from(begun, span), 99);
            // After a rest a few are heeded at once again.
            let rested = begun + span + each * HEEDED_AT_ONCE;
            assert_eq!(heeded_from(rested, moment), HEEDED_AT_ONCE);
        }
    }
}
