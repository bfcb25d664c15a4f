//! Releasing a slot, and waking who waits for it. Decisions only, as in `queue`.

/// What to do next on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Release the slot, and ask who is the head of the queue.
    Release,
    /// Wake the head of the queue. If that is refused, the head checks again by itself.
    Wake,
    /// Nothing: whether the session held the slot.
    Over(bool),
}

/// The server's answer to an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The statement was interrupted, but the server may have run it.
    Interrupted,
    /// Whether the session held the slot, and the head of the queue.
    Released {
        was_held: bool,
        queue_head: Option<u64>,
    },
    /// The head is awake, or was not to be woken.
    Woken,
}

/// The release of a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Releasing {
    /// Whether the session held the slot. After an interruption that is taken for true: the statement may have released the slot, and then
    /// the second answer says no.
    was_held: bool,
}

impl Releasing {
    /// What follows from an answer. It begins with [`Ask::Release`].
    pub fn next(&mut self, answer: Answer) -> Ask {
        match answer {
            Answer::Interrupted => {
                self.was_held = true;
                Ask::Release
            }
            Answer::Released {
                was_held,
                queue_head,
            } => {
                self.was_held |= was_held;
                queue_head.map_or(Ask::Over(self.was_held), |_| Ask::Wake)
            }
            Answer::Woken => Ask::Over(self.was_held),
        }
    }
}
