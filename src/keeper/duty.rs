//! What a process with a session keeps on the server for the one that runs commands: the lock of a run, the jobs of a worker, or the ticks
//! of a daemon. This is the loop of all three.

use std::os::fd::BorrowedFd;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::parent::{Event, Parent};
use super::pause::{SHORTEST_PAUSE, sleep_longer};
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::isolated::link::with_cut_line;

/// What is special to a run, a worker or a daemon. The last methods are the same for all.
pub trait Duty<'a> {
    /// What the other process is told.
    type Sent: Serialize + From<Failure>;
    /// What the other process says.
    type Received: DeserializeOwned;

    /// The other process, and the session, which becomes readable when the server has ended it; `None`: there is no session.
    fn parent_and_session(
        &mut self,
    ) -> (
        &mut Parent<'a, Self::Sent, Self::Received>,
        Option<BorrowedFd<'_>>,
    );

    /// Does what is due, which may wait for a server. Returns when the next turn is due; `None`: not before something happens.
    ///
    /// # Errors
    /// It does not go on.
    fn take_turn(&mut self) -> Result<Option<Moment>, Over>;

    /// The other process has said this.
    ///
    /// # Errors
    /// It does not go on.
    fn on_message(&mut self, message: Self::Received) -> Result<(), Over>;

    /// The server has ended the session.
    fn on_session_end(&mut self);

    /// It does not go on: nothing is renewed any more.
    fn on_over(&mut self) {}

    /// Ends the commands that must be gone by now, if the other process is stopped or hangs.
    fn end_late_commands(&mut self);

    /// Renews what is kept, if that is due, while the commands of the dead are being killed.
    ///
    /// # Errors
    /// It is lost.
    fn hold_on(&mut self) -> Result<(), Lost>;

    /// Returns what the dead had: its commands are gone.
    fn return_all(&mut self);

    /// The other process.
    fn parent(&mut self) -> &mut Parent<'a, Self::Sent, Self::Received> {
        self.parent_and_session().0
    }

    /// Works until the other process ends this one, or has died.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn run(&mut self) -> Result<(), Failure> {
        let (process, board) = (self.parent().process, self.parent().board);
        if board.has(|_| true) {
            process.outlive();
        }
        let over = loop {
            if let Err(over) = self.take_turn().and_then(|until| self.wait(until)) {
                break over;
            }
        };
        let ended = match over {
            Over::Done => Ok(()),
            Over::Failed(failure) => {
                let told = with_cut_line(&failure);
                self.parent().say(told.into());
                Err(failure)
            }
            Over::Orphaned => {
                self.outlive_parent();
                Ok(())
            }
        };
        self.on_over();
        self.guard();
        ended
    }

    /// This process ends, which the end of the link says. A process that runs ends this one at once for that. One that is stopped or hangs
    /// does not see it, and while its commands run somebody must be there to end them in time.
    fn guard(&mut self) {
        let (process, board) = (self.parent().process, self.parent().board);
        let mut pause = SHORTEST_PAUSE;
        while !process.is_dead() {
            if self.parent().send_last() && !board.has(|_| true) {
                return;
            }
            self.end_late_commands();
            pause = sleep_longer(pause);
        }
        // Nobody reads what is said to the dead, though others may keep its end of the link open.
        self.parent().link.close_for_sending();
        let _ = process.kill_all(board, || Ok::<_, Failure>(()));
    }

    /// Waits until the next turn is due, and acts on all messages that are there.
    ///
    /// # Errors
    /// It does not go on.
    fn wait(&mut self, mut until: Option<Moment>) -> Result<(), Over> {
        loop {
            let (parent, session) = self.parent_and_session();
            match parent.wait(session, until) {
                Ok(Event::Message(message)) => self.on_message(message)?,
                Ok(Event::Orphaned) => return Err(Over::Orphaned),
                Ok(Event::SessionEnded) => {
                    self.on_session_end();
                    return Ok(());
                }
                Ok(Event::Due) => return Ok(()),
                Err(error) => return Err(Failure::refused("wait", &error).into()),
            }
            // Then only for the messages that are already there.
            until = Some(Moment::START);
        }
    }

    /// The other process has died: kills its commands, keeps what they work on until they are gone, and then returns it at once. If it
    /// lives on after all, so do its commands, and the process that replaces this one keeps what this one has kept.
    fn outlive_parent(&mut self) {
        let (process, board) = (self.parent().process, self.parent().board);
        let are_gone = process.kill_all(board, || self.hold_on()).is_ok();
        if are_gone && process.is_dead() {
            self.return_all();
        }
    }
}

/// Why a duty does not go on.
pub enum Over {
    /// It is done.
    Done,
    /// The other process has died.
    Orphaned,
    /// It cannot go on.
    Failed(Failure),
}

impl From<Failure> for Over {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Others have what was kept.
pub struct Lost;
