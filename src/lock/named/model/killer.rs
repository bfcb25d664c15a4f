//! The killer of a holder, as in `dblock kill`.

use super::locks::{KILLER, SERVER, SessionId, caller_of, release, take};
use super::state::{KillerPhase, Phase, World};
use crate::lock::named::killer::{Answer, Ask, Killer, Marker, Patience};

/// There was not enough time yet.
const PATIENT: Patience = Patience {
    is_over: false,
    has_reconnected: false,
};

/// The wait is over.
const OVER: Patience = Patience {
    is_over: true,
    has_reconnected: true,
};

impl World {
    /// Whether something follows from the answer to its next question.
    pub fn can_killer_step(&self) -> bool {
        let KillerPhase::Kills(slot, victim, killer) = self.killer else {
            return false;
        };
        let Some(answer) = self.answer_to_killer(slot, victim, killer.asked()) else {
            return true;
        };
        let mut next = killer;
        next.next(answer, PATIENT);
        next != killer
    }

    /// Whether it waits for somebody.
    pub fn can_killer_give_up(&self) -> bool {
        let KillerPhase::Kills(_, _, killer) = self.killer else {
            return false;
        };
        matches!(
            killer.asked(),
            Ask::AwaitEnd | Ask::AwaitSession(_) | Ask::AwaitOther(_)
        )
    }

    pub fn killer_begins(&mut self, slot: usize) {
        self.budget.killers -= 1;
        let victim = self.slots[slot].owner.expect("it is held");
        self.killer = KillerPhase::Kills(slot, victim, Killer::new(false));
        self.killer_steps(false);
        // These change nothing that others see.
        while let KillerPhase::Kills(_, _, killer) = self.killer
            && matches!(killer.asked(), Ask::Holder(_) | Ask::LimitIdle)
        {
            self.killer_steps(false);
        }
    }

    /// Its next step. `gives_up`: its wait is over.
    pub fn killer_steps(&mut self, gives_up: bool) {
        let KillerPhase::Kills(slot, victim, mut killer) = self.killer else {
            unreachable!("it does nothing");
        };
        let asked = killer.asked();
        let answer = self
            .answer_to_killer(slot, victim, asked)
            .unwrap_or_else(|| self.change_for_killer(slot, victim, asked));
        let next = killer.next(answer, if gives_up { OVER } else { PATIENT });
        let was_killed = matches!(asked, Ask::Kill(_) | Ask::AwaitEnd | Ask::AwaitSession(_));
        if was_killed && next == Ask::Unmark(Marker::Slot) && !gives_up {
            let is_free = self.slots[slot].owner != Some(victim);
            assert!(is_free, "the killer has ended a holder that still holds");
            let has_command = self.has_command(caller_of(victim), slot);
            assert!(!has_command, "the killer has ended a command that runs");
        }
        match next {
            Ask::Over(_) => self.killer = KillerPhase::Gone,
            _ => self.killer = KillerPhase::Kills(slot, victim, killer),
        }
    }

    /// The answer to a question; `None`: it is a change.
    fn answer_to_killer(&self, slot: usize, victim: SessionId, ask: Ask) -> Option<Answer> {
        let markers = &self.markers;
        let owners = [
            markers.kills[slot],
            markers.terminations[slot],
            self.slots[slot].owner,
        ];
        let [killer, ending, holder] = owners.map(|owner| owner.map(u64::from));
        Some(match ask {
            Ask::Owners => Answer::Owners {
                killer,
                ending,
                holder,
            },
            Ask::Holder(_) => Answer::IsDblock(true),
            Ask::LimitIdle => Answer::Done,
            Ask::Marked => Answer::Owner(killer),
            Ask::Slot | Ask::AwaitSession(_) => Answer::Owner(holder),
            Ask::AwaitEnd => {
                let acked = markers.ack.is_some();
                assert!(
                    !acked || !self.has_command(caller_of(victim), slot),
                    "the killer learns of the end of a command that runs"
                );
                Answer::Reported {
                    killer,
                    ending: ending.is_some(),
                    acked,
                }
            }
            Ask::AwaitOther(_) => Answer::Reported {
                killer,
                ending: ending.is_some(),
                acked: false,
            },
            Ask::Mark(_) | Ask::Kill(_) | Ask::Unmark(_) => return None,
            Ask::Over(_) => unreachable!("it does nothing"),
        })
    }

    fn change_for_killer(&mut self, slot: usize, victim: SessionId, ask: Ask) -> Answer {
        match ask {
            Ask::Mark(Marker::Slot) => {
                take(&mut self.markers.kills[slot], KILLER);
                Answer::Marked(true)
            }
            Ask::Mark(Marker::Session) => {
                self.markers.victim = Some(victim);
                Answer::Marked(true)
            }
            Ask::Kill(session) => {
                let session = u8::try_from(session).unwrap();
                let caller = &self.callers[caller_of(session)];
                let requested = &caller.lost.0;
                let is_asked_about = requested.contains(&(SERVER.to_owned(), session.into()))
                    || matches!(caller.phase, Phase::Begins(_));
                let was_there = self.end_on_server(session);
                self.killed = (was_there && is_asked_about).then_some(session);
                Answer::Killed(true)
            }
            Ask::Unmark(Marker::Slot) => {
                release(&mut self.markers.kills[slot], KILLER);
                Answer::Done
            }
            Ask::Unmark(Marker::Session) => {
                self.markers.victim = None;
                // It waits for no report any more, and says so.
                self.killed = None;
                Answer::Done
            }
            _ => unreachable!("it changes nothing"),
        }
    }

    pub fn killer_dies(&mut self) {
        self.budget.killer_deaths -= 1;
        (self.killer, self.killed) = (KillerPhase::Gone, None);
        if self.locks_of(KILLER) > 0 {
            self.ending.push(KILLER);
        }
    }

    /// Whether it has killed this caller's session for this slot, and waits for the acknowledgement.
    pub fn is_killing(&self, number: usize, slot: usize) -> bool {
        matches!(self.killer, KillerPhase::Kills(of, victim, killer)
            if of == slot && caller_of(victim) == number && killer.asked() == Ask::AwaitEnd)
    }

    /// Whether the killer waits for a report of a caller that reacquires its slot or ends its command.
    pub fn must_report_to_killer(&self) -> bool {
        let KillerPhase::Kills(_, victim, killer) = self.killer else {
            return false;
        };
        let caller = &self.callers[caller_of(victim)];
        let reports = matches!(
            caller.phase,
            Phase::Lost(_) | Phase::Retakes(..) | Phase::Ends(..) | Phase::Acks(..)
        );
        killer.asked() == Ask::AwaitEnd && caller.held_on == Some(victim) && reports
    }

    /// Nobody may start a command in a slot while a killed holder's command still runs there.
    pub fn check_start(&self, number: usize, slot: usize) {
        let is_taken_over = self.takes_over[slot].is_some_and(|session| {
            let caller = &self.callers[caller_of(session)];
            caller.session == session && matches!(caller.phase, Phase::Retakes(..))
        });
        assert!(
            !is_taken_over,
            "a command starts while its slot is taken over from an older session"
        );
        for other in 0..self.callers.len() {
            if other == number {
                continue;
            }
            assert!(
                !self.is_ending(other, slot),
                "a command starts before the killed one has ended"
            );
            if self.is_killing(other, slot) {
                assert!(
                    !self.has_command(other, slot),
                    "a command starts while its slot is marked"
                );
            }
        }
    }
}
