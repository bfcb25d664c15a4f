//! The killer of a holder, as in `dblock kill`.

use super::locks::{KILLER, caller_of, release, take};
use super::state::{Killer, World};

impl World {
    pub fn can_killer_step(&self) -> bool {
        match self.killer {
            Killer::NotYet | Killer::Gone => false,
            Killer::Waits(..) => self.markers.ack.is_some(),
            _ => true,
        }
    }

    pub fn killer_begins(&mut self, slot: usize) {
        self.budget.killers -= 1;
        let holder = self.slots[slot].owner.expect("it is held");
        self.killer = if self.markers.terminations[slot].is_some() {
            Killer::Gone
        } else {
            Killer::Marks(slot, holder)
        };
    }

    pub fn killer_steps(&mut self) {
        self.killer = match self.killer {
            Killer::Marks(slot, victim) => {
                take(&mut self.markers.kills[slot], KILLER);
                Killer::Requests(slot, victim)
            }
            Killer::Requests(slot, victim) => {
                self.markers.victim = Some(victim);
                Killer::Looks(slot, victim)
            }
            Killer::Looks(slot, victim) if self.slots[slot].owner == Some(victim) => {
                Killer::Kills(slot, victim)
            }
            Killer::Looks(slot, victim) => Killer::Unmarks(slot, victim),
            Killer::Kills(slot, victim) => {
                self.end_on_server(victim);
                Killer::Waits(slot, victim)
            }
            Killer::Waits(slot, victim) => {
                assert!(
                    !self.has_command(caller_of(victim), slot),
                    "the killer learns of the end of a command that runs"
                );
                Killer::Unmarks(slot, victim)
            }
            Killer::Unmarks(slot, victim) => {
                release(&mut self.markers.kills[slot], KILLER);
                Killer::Unrequests(victim)
            }
            Killer::Unrequests(_) => {
                self.markers.victim = None;
                Killer::Gone
            }
            Killer::NotYet | Killer::Gone => unreachable!("it does nothing"),
        };
    }

    /// The killer's wait is over.
    pub fn killer_gives_up(&mut self) {
        if let Killer::Waits(slot, victim) = self.killer {
            self.killer = Killer::Unmarks(slot, victim);
        }
    }

    pub fn killer_dies(&mut self) {
        self.budget.killer_deaths -= 1;
        self.killer = Killer::Gone;
        if self.locks_of(KILLER) > 0 {
            self.ending.push(KILLER);
        }
    }

    /// Whether it has killed this caller's session for this slot, and waits for the acknowledgement.
    pub fn is_killing(&self, number: usize, slot: usize) -> bool {
        matches!(self.killer, Killer::Waits(of, victim) if of == slot && caller_of(victim) == number)
    }

    /// Nobody may start a command in a slot while a killed holder's command still runs there.
    pub fn check_start(&self, number: usize, slot: usize) {
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
