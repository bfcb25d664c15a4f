//! Killing a holder (`dblock kill`): what the killer does next. Decisions only, as in `queue`. It acquires marker locks first: they keep
//! other callers from the slot, and the holder's dblock from reacquiring it.

/// A marker of the killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    /// The kill lock of the slot.
    Slot,
    /// The kill request lock of the holder's session: it says which session is meant, as a later holder of the slot may find the first
    /// marker. A waiter finds only this one. Another killer may hold it, for another slot of the same session.
    Session,
}

/// What to do next on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Ask at one moment who kills the slot's holder, who announces the end of its command, and who holds the slot.
    Owners,
    /// Ask what this session is: the holder's.
    Holder(u64),
    /// Limit how long the server keeps the markers of this session when it is idle.
    LimitIdle,
    /// Acquire a marker, unless another session holds it.
    Mark(Marker),
    /// Ask who holds the first marker.
    Marked,
    /// Ask who holds the slot.
    Slot,
    /// Kill this session.
    Kill(u64),
    /// Ask what the holder's dblock has reported about its command.
    AwaitEnd,
    /// Ask whether this session, which was killed, still holds the slot.
    AwaitSession(u64),
    /// Ask whether another killer, this session, has finished.
    AwaitOther(u64),
    /// Release a marker.
    Unmark(Marker),
    /// Nothing: it is decided.
    Over(Outcome),
}

/// What the holder's dblock reported about its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Report {
    /// It has ended.
    Ended,
    /// It is ending, and did not end in time.
    Ending,
    /// No report in time.
    Nothing,
}

/// The result of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nobody holds the slot.
    Free,
    /// A dry run: the slot is held.
    Held,
    /// The holder released the slot before it could be killed.
    ReleasedMeanwhile,
    /// The session has the locks of other commands, too, which its end would harm. Nothing was done.
    Shared,
    /// The server refused to kill the session.
    Refused,
    /// The holder's session was killed.
    Killed(Report),
    /// Another session killed the holder. Whether it is known that the command has ended.
    EndedByAnother(u64, bool),
    /// Another session is killing the holder, and did not finish in time.
    BeingEnded(u64),
}

/// The server's answer to an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The sessions that hold the kill lock, the termination lock, and the slot.
    Owners {
        killer: Option<u64>,
        ending: Option<u64>,
        holder: Option<u64>,
    },
    /// Whether the session is dblock's.
    IsDblock(bool),
    /// The session holds the locks of several commands.
    IsShared,
    /// Whether this session holds the marker.
    Marked(bool),
    /// The session that holds the lock.
    Owner(Option<u64>),
    /// Whether the server has killed the session.
    Killed(bool),
    /// The session had ended, or released the slot, by itself. If it was lost, its dblock finds the markers on a new one.
    HadLeft,
    /// What was reported about the command: the session that holds the kill lock, whether its end was announced, and whether its end was
    /// acknowledged.
    Reported {
        killer: Option<u64>,
        ending: bool,
        acked: bool,
    },
}

/// The time that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// The wait is over.
    pub is_over: bool,
    /// The holder's dblock had enough time to open a new session.
    pub has_reconnected: bool,
}

/// A kill of the holder of one slot, on one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Killer {
    dry_run: bool,
    /// The holder's session. Meaningless before it is known.
    victim: u64,
    is_dblock: bool,
    /// Whether the holder's dblock has reported: to this killer that it ends its command, or to another one that the command has ended.
    was_reported: bool,
    /// The result, while the markers are released.
    outcome: Outcome,
    asked: Ask,
}

impl Killer {
    /// It begins. A dry run only finds the holder.
    pub fn new(dry_run: bool) -> Self {
        Self {
            dry_run,
            victim: 0,
            is_dblock: false,
            was_reported: false,
            outcome: Outcome::Free,
            asked: Ask::Owners,
        }
    }

    /// What to do first, and what was asked last.
    pub fn asked(self) -> Ask {
        self.asked
    }

    /// What follows from the answer to what was asked last.
    pub fn next(&mut self, answer: Answer, patience: Patience) -> Ask {
        self.asked = match answer {
            Answer::Done => self.after_change(),
            Answer::Owners {
                killer,
                ending,
                holder,
            } => {
                self.victim = holder.unwrap_or_default();
                // While the slot has a kill marker, its holder is only a waiter for the end of the holder before.
                match (killer.or(ending), holder) {
                    (Some(other), _) => Ask::AwaitOther(other),
                    (None, Some(holder)) => Ask::Holder(holder),
                    (None, None) => Ask::Over(Outcome::Free),
                }
            }
            Answer::IsDblock(is_dblock) => {
                self.is_dblock = is_dblock;
                if self.dry_run {
                    Ask::Over(Outcome::Held)
                } else {
                    Ask::LimitIdle
                }
            }
            Answer::IsShared => Ask::Over(Outcome::Shared),
            Answer::Marked(acquired) => match self.asked {
                Ask::Mark(Marker::Slot) if acquired => Ask::Mark(Marker::Session),
                Ask::Mark(Marker::Slot) => Ask::Marked,
                _ => Ask::Slot,
            },
            Answer::Owner(owner) => self.after_owner(owner, patience),
            Answer::Killed(false) => self.finish(Outcome::Refused),
            Answer::Killed(true) | Answer::HadLeft if self.is_dblock => Ask::AwaitEnd,
            Answer::HadLeft => self.finish(Outcome::ReleasedMeanwhile),
            Answer::Killed(true) => Ask::AwaitSession(self.victim),
            Answer::Reported {
                killer,
                ending,
                acked,
            } => self.after_report(killer, ending, acked, patience),
        };
        self.asked
    }

    fn after_change(self) -> Ask {
        match self.asked {
            Ask::LimitIdle => Ask::Mark(Marker::Slot),
            Ask::Unmark(Marker::Slot) => Ask::Unmark(Marker::Session),
            Ask::Unmark(Marker::Session) => Ask::Over(self.outcome),
            // These have another answer.
            asked => asked,
        }
    }

    fn after_owner(&mut self, owner: Option<u64>, patience: Patience) -> Ask {
        match self.asked {
            // Another killer had the marker just before, and has left the holder alone.
            Ask::Marked => owner.map_or(Ask::Mark(Marker::Slot), Ask::AwaitOther),
            Ask::Slot if owner == Some(self.victim) => Ask::Kill(self.victim),
            // The holder has released the slot meanwhile, or another killer was faster.
            Ask::Slot => self.finish(Outcome::ReleasedMeanwhile),
            Ask::AwaitSession(victim) if owner == Some(victim) && !patience.is_over => self.asked,
            Ask::AwaitSession(victim) if owner == Some(victim) && !self.is_dblock => {
                self.finish(Outcome::Killed(Report::Nothing))
            }
            _ => self.finish(Outcome::Killed(Report::Ended)),
        }
    }

    fn after_report(
        &mut self,
        killer: Option<u64>,
        ending: bool,
        acked: bool,
        patience: Patience,
    ) -> Ask {
        // An announcement ends with its session, too, and then the command may run on: of another's kill it says nothing.
        let is_others = matches!(self.asked, Ask::AwaitOther(_));
        self.was_reported |= if is_others { acked } else { ending };
        match self.asked {
            Ask::AwaitOther(other) => {
                if !self.dry_run && killer != Some(other) && !ending {
                    Ask::Over(Outcome::EndedByAnother(other, self.was_reported))
                } else if self.dry_run || patience.is_over {
                    Ask::Over(Outcome::BeingEnded(other))
                } else {
                    self.asked
                }
            }
            // The holder's dblock learns of the session's end before the server frees the slot.
            _ if acked => Ask::AwaitSession(self.victim),
            _ if patience.is_over && self.was_reported => {
                self.finish(Outcome::Killed(Report::Ending))
            }
            // The markers stay until it reports anything, even if the caller does not wait: without them the holder would reacquire the
            // lock.
            _ if patience.is_over && patience.has_reconnected => {
                self.finish(Outcome::Killed(Report::Nothing))
            }
            _ => self.asked,
        }
    }

    fn finish(&mut self, outcome: Outcome) -> Ask {
        self.outcome = outcome;
        Ask::Unmark(Marker::Slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_with_the_locks_of_others_is_left_alone() {
        let mut killer = Killer::new(false);
        let patience = Patience {
            is_over: false,
            has_reconnected: false,
        };
        let owners = Answer::Owners {
            killer: None,
            ending: None,
            holder: Some(7),
        };
        assert_eq!(killer.next(owners, patience), Ask::Holder(7));
        let next = killer.next(Answer::IsShared, patience);
        assert_eq!(next, Ask::Over(Outcome::Shared));
    }

    #[test]
    fn of_an_end_that_was_only_announced_nothing_is_known() {
        let patience = Patience {
            is_over: false,
            has_reconnected: false,
        };
        for acked in [false, true] {
            let mut killer = Killer::new(false);
            let owners = Answer::Owners {
                killer: None,
                ending: Some(7),
                holder: None,
            };
            assert_eq!(killer.next(owners, patience), Ask::AwaitOther(7));
            let reported = |ending, acked| Answer::Reported {
                killer: None,
                ending,
                acked,
            };
            let next = killer.next(reported(true, false), patience);
            assert_eq!(next, Ask::AwaitOther(7));
            let next = killer.next(reported(false, acked), patience);
            assert_eq!(next, Ask::Over(Outcome::EndedByAnother(7, acked)));
        }
    }
}
