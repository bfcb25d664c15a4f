//! Finds out what became of a worker's turn. This code only decides, without a server or clock. The claimer acts on it, and the model tests
//! it in every order of events.

/// A turn whose outcome is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exchange {
    number: u64,
    /// Whether an answer was lost, so that the turn may have been carried out.
    in_doubt: bool,
}

/// What to ask the server next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnAsk {
    /// Carry out the turn, if the last turn was the one before it.
    CarryOut,
    /// Look up whether the turn was carried out.
    LookUp,
}

/// The conclusion from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The turn was carried out: its outcomes are recorded, and the rows with its number are its claims.
    Done,
    /// The worker is gone, and has no jobs any more.
    Lost,
    /// The server has lost turns that it had confirmed, or has turns that this claimer never took. It was killed with commits only in
    /// memory, or took over without them.
    Forgotten,
    /// Ask again.
    Again,
}

impl Exchange {
    /// The turn after this one.
    pub fn after(last: u64) -> Self {
        Self {
            number: last + 1,
            in_doubt: false,
        }
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.number
    }

    /// What to ask next.
    pub fn step(self) -> TurnAsk {
        if self.in_doubt {
            TurnAsk::LookUp
        } else {
            TurnAsk::CarryOut
        }
    }

    /// Handles an answer with the number of the worker's last turn; `None`: the worker is gone.
    pub fn on_answer(&mut self, last: Option<u64>) -> Verdict {
        match last {
            None => Verdict::Lost,
            Some(last) if last == self.number => Verdict::Done,
            // The turn was not carried out. If the lost session still carries it out, the condition prevents a second time.
            Some(last) if last == self.number - 1 => {
                self.in_doubt = false;
                Verdict::Again
            }
            Some(_) => Verdict::Forgotten,
        }
    }

    /// Handles a lost or unclear answer.
    pub fn on_silence(&mut self) {
        self.in_doubt = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_has_all_turns_before_this_one_and_none_after_it_is_asked_again() {
        for (last, verdict) in [
            (None, Verdict::Lost),
            (Some(6), Verdict::Forgotten),
            (Some(7), Verdict::Again),
            (Some(8), Verdict::Done),
            (Some(9), Verdict::Forgotten),
        ] {
            let mut exchange = Exchange::after(7);
            exchange.on_silence();
            assert_eq!(exchange.on_answer(last), verdict, "{last:?}");
        }
    }
}
