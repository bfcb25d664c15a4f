//! Waiting in line without a statement. On PostgreSQL a statement that waits for a lock holds a snapshot: VACUUM removes nothing meanwhile, and
//! CREATE INDEX CONCURRENTLY waits for its end. So those that wait are idle, and are notified.
//!
//! They share one lock, the room, by which a holder learns in one statement whether anybody waits. Each holds another one, its number, which is
//! larger than all others when it is taken. Who has the smallest is the head of the line. Whoever frees a slot notifies the head, and so does the
//! head when it leaves. In case nobody could, the head tries again from time to time, and the others look whether the one before them is gone.
//!
//! Decisions only: this is told the server's answers, and says what to ask next.

/// What to do next on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Have what others send to this session notified, and share the room.
    Enter,
    /// Read the numbers that are held.
    ReadNumbers,
    /// Take this number, if nobody has it.
    Take(u32),
    /// Take a free slot.
    TrySlots,
    /// Find out whether nobody has this number any more.
    Probe(u32),
    /// Wait idle for a notification: as the head, or behind others.
    Idle { is_head: bool },
    /// Give back the number, and leave the room.
    Leave,
    /// Notify the head of the line, if there is one.
    WakeHead,
    /// Nothing: this slot is held.
    Over(u32),
}

/// The server's answer to an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// Whether that was free.
    Free(bool),
    /// The numbers that are held.
    Numbers {
        /// The smallest; `None`: there is none.
        smallest: Option<u32>,
        /// The largest that is smaller than this caller's.
        before: Option<u32>,
        /// The largest.
        largest: Option<u32>,
    },
    /// The slot that was taken; `None`: none was free.
    Slot(Option<u32>),
    /// The wait has ended, by a notification or not.
    Awake { is_notified: bool },
}

/// A caller's place in the line, for as long as its session lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Place {
    number: Option<u32>,
    /// The number before it, when it looked last.
    before: u32,
    slot: u32,
}

impl Place {
    /// What follows from the answer to what was `asked`. It begins with [`Ask::Enter`].
    pub fn next(&mut self, asked: Ask, answer: Answer) -> Ask {
        match (asked, answer) {
            // A caller that does not wait has the room to itself for a moment.
            (Ask::Enter, Answer::Free(false)) => Ask::Enter,
            (
                Ask::ReadNumbers,
                Answer::Numbers {
                    smallest,
                    before,
                    largest,
                },
            ) => {
                let Some(number) = self.number else {
                    return Ask::Take(largest.map_or(1, |largest| largest + 1));
                };
                if smallest.is_none_or(|smallest| smallest >= number) {
                    return Ask::TrySlots;
                }
                self.before = before.unwrap_or_default();
                Ask::Idle { is_head: false }
            }
            (Ask::Take(number), Answer::Free(is_mine)) => {
                self.number = is_mine.then_some(number);
                Ask::ReadNumbers
            }
            (Ask::TrySlots, Answer::Slot(Some(slot))) => {
                self.slot = slot;
                Ask::Leave
            }
            (Ask::TrySlots, _) => Ask::Idle { is_head: true },
            (Ask::Idle { is_head: true }, _) => Ask::TrySlots,
            (Ask::Idle { is_head: false }, Answer::Awake { is_notified: false }) => {
                Ask::Probe(self.before)
            }
            (Ask::Probe(_), Answer::Free(false)) => Ask::Idle { is_head: false },
            (Ask::Leave, _) => {
                self.number = None;
                Ask::WakeHead
            }
            (Ask::WakeHead, _) => Ask::Over(self.slot),
            _ => Ask::ReadNumbers,
        }
    }
}

/// What a holder does to free its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FreeAsk {
    /// Free the slot.
    Free,
    /// Find out whether nobody is in the room.
    TryRoom,
    /// Notify the head of the line, if there is one.
    WakeHead,
    /// Nothing.
    Over,
}

impl FreeAsk {
    /// What follows. `is_empty`: the room is.
    pub fn next(self, is_empty: bool) -> Self {
        match self {
            Self::Free => Self::TryRoom,
            Self::TryRoom if !is_empty => Self::WakeHead,
            Self::TryRoom | Self::WakeHead | Self::Over => Self::Over,
        }
    }
}
