//! Acknowledging a kill (`dblock kill`): the killer learns that there is no command any more. Decisions only, as in `queue`.

/// What to do next on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Ask who has killed the session that a waiter has lost.
    Killer,
    /// Tell this killer that there is no command any more. A holder withdraws what it has announced, too.
    Ack(u64),
    /// Ask whether this killer still waits: it holds its marker until it has read the acknowledgement.
    Await(u64),
    /// Nothing: this one was the killer, and knows by now, or has taken too long. `None`: there is no killer.
    Over(Option<u64>),
}

/// The server's answer to an [`Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The statement was interrupted.
    Unclear,
    /// The session that holds the killer's marker.
    Killer(Option<u64>),
}

/// The acknowledgement of one kill, on one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Acknowledging {
    asked: Ask,
}

impl Acknowledging {
    /// For a holder, whose killer is known, and whose command has ended.
    pub fn of_holder(killer: u64) -> Self {
        Self {
            asked: Ask::Ack(killer),
        }
    }

    /// For a waiter that has lost its session.
    pub fn of_waiter() -> Self {
        Self { asked: Ask::Killer }
    }

    /// What to do first, and what was asked last.
    pub fn asked(self) -> Ask {
        self.asked
    }

    /// What follows from the answer to what was asked last. `patience_over`: the killer had enough time.
    pub fn next(&mut self, answer: Answer, patience_over: bool) -> Ask {
        self.asked = match (self.asked, answer) {
            (Ask::Killer, Answer::Killer(Some(killer))) => Ask::Ack(killer),
            (Ask::Killer, Answer::Killer(None)) => Ask::Over(None),
            (Ask::Ack(killer), Answer::Done) => Ask::Await(killer),
            (Ask::Await(killer), Answer::Killer(now)) if now != Some(killer) => {
                Ask::Over(Some(killer))
            }
            (Ask::Await(killer), _) if patience_over => Ask::Over(Some(killer)),
            (asked, _) => asked,
        };
        self.asked
    }
}

/// The sessions that a waiter has lost. Somebody may have killed any of them: the server may have granted it the slot just before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LostSessions(pub(super) Vec<(String, u64)>);

impl LostSessions {
    /// The lock was requested on this session of a server, which may be lost from now on.
    pub fn add(&mut self, server: &str, session: u64) {
        self.0.push((server.to_owned(), session));
    }

    /// The next lost session to ask about on its server, where `own` is the current one. Another server has other sessions of the same
    /// numbers.
    pub fn next(&self, server: &str, own: u64) -> Option<u64> {
        let mut lost = self.0.iter().filter(|(on, _)| on == server);
        lost.find_map(|(_, lost)| (*lost != own).then_some(*lost))
    }

    /// Nobody has killed this session, or its killer knows.
    pub fn settle(&mut self, server: &str, session: u64) {
        self.0.retain(|(on, lost)| on != server || *lost != session);
    }
}
