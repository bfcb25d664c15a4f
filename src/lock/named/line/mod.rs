//! Waiting in line without a statement, on servers that have no queue which harms nobody. On PostgreSQL a statement that waits for a lock
//! holds a snapshot: VACUUM removes nothing meanwhile, and CREATE INDEX CONCURRENTLY waits for its end. So those that wait are idle, and
//! are notified.
//!
//! Each of them holds a lock that stands for its number, which is larger than all others when it asks for it. Who has the smallest is the
//! head of the line. Whoever frees a slot notifies the head, and so does the head when it leaves. In case nobody could, the head tries
//! again from time to time, and the others look whether they are the head by now. A caller that does not wait takes a free slot only if
//! nobody is in line.
//!
//! Decisions only: this is told the server's answers, and says what to ask next. `waiting` carries it out.

#[cfg(test)]
mod model;
mod waiting;

pub use waiting::ANSWER_LIMIT;

/// What to do next on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Have what others send to this session notified from here on. What was sent before was for another number.
    Listen,
    /// Find out the largest number, and how many are ahead.
    Stand,
    /// Take the first number after this one that is free, of a few.
    Take(u32),
    /// Take a free slot.
    TrySlots,
    /// Wait idle for a notification, with so many ahead.
    Idle { ahead: u64 },
    /// Release the number, and then notify the head of the line, if there is one.
    Leave(u32),
    /// Nothing: this slot is held; `None`: the wait is over without one.
    Over(Option<u32>),
}

/// The server's answer to an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The wait has ended, by a notification or not.
    Awake { is_notified: bool },
    /// The number that was taken; `None`: none was free.
    Number(Option<u32>),
    /// The largest number, and how many numbers are smaller than this caller's.
    Standing { largest: Option<u32>, ahead: u64 },
    /// The slot that was taken; `None`: none was free.
    Slot(Option<u32>),
}

/// A caller's place in the line, for as long as its session lives. It begins with [`Ask::Listen`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its number; zero: it has none.
    number: u32,
    /// Whether it is known to be the head. One that has asked for the largest number before others have left may get a smaller one yet;
    /// then both try.
    is_head: bool,
    slot: Option<u32>,
}

impl Place {
    /// Its number; zero: it has none.
    pub fn number(self) -> u32 {
        self.number
    }

    /// What follows from the answer to what was `asked`. `late`: the time to wait is over.
    pub fn next(&mut self, asked: Ask, answer: Answer, late: bool) -> Ask {
        match (asked, answer) {
            (Ask::Take(_), Answer::Number(Some(number))) => self.number = number,
            (Ask::TrySlots, Answer::Slot(slot)) => self.slot = slot,
            (Ask::Leave(_), _) => self.number = 0,
            (Ask::Stand, Answer::Standing { ahead: 0, .. }) => self.is_head = self.number > 0,
            _ => {}
        }
        match (asked, answer) {
            (Ask::Leave(_), _) => Ask::Over(self.slot),
            _ if self.slot.is_some() || late => self.leave(),
            (Ask::Stand, Answer::Standing { largest, .. }) if self.number == 0 => {
                Ask::Take(largest.unwrap_or(0))
            }
            // Only the head is notified, but anybody may notify any session: so one that has tried for it then finds out where it stands.
            (Ask::Stand, Answer::Standing { ahead: 0, .. })
            | (Ask::Idle { ahead: 0 }, _)
            | (Ask::Idle { .. }, Answer::Awake { is_notified: true }) => Ask::TrySlots,
            (Ask::Stand, Answer::Standing { ahead, .. }) => Ask::Idle { ahead },
            (Ask::TrySlots, _) if self.is_head => Ask::Idle { ahead: 0 },
            _ => Ask::Stand,
        }
    }

    fn leave(self) -> Ask {
        if self.number == 0 {
            Ask::Over(self.slot)
        } else {
            Ask::Leave(self.number)
        }
    }
}
