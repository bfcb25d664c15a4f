//! What a process with a session keeps for the one that runs commands: the jobs of a worker, or the ticks of a daemon.

use serde::Serialize;

use super::parent::Parent;
use crate::base::exit::Failure;

/// What is special to a worker or a daemon. The last two methods are how every such process ends.
pub trait Duty<'a> {
    /// What the other process is told.
    type Message: Serialize;

    /// The other process.
    fn parent(&mut self) -> &mut Parent<'a, Self::Message>;

    /// Works until the other process ends this one or has died.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn work(&mut self) -> Result<(), Failure>;

    /// Ends the commands that must be gone by now, if the other process is stopped.
    fn end_late_commands(&mut self);

    /// Renews what is kept, if that is due, while the commands of the dead are being killed.
    ///
    /// # Errors
    /// It is lost.
    fn hold_on(&mut self) -> Result<(), Lost>;

    /// Gives back what the dead had: its commands are gone.
    fn give_back(&mut self);

    /// Works to the end.
    ///
    /// # Errors
    /// As [`Self::work`].
    fn run(&mut self) -> Result<(), Failure> {
        let ended = self.work();
        let (process, board) = (self.parent().process, self.parent().board);
        process.guard_while_stopped(board, || self.end_late_commands());
        self.parent().send_all();
        ended
    }

    /// The other process has died: kills its commands, keeps what they work on until they are gone, and then gives it back at once.
    fn outlive_parent(&mut self) {
        let (process, board) = (self.parent().process, self.parent().board);
        if process.kill_all(board, || self.hold_on()).is_ok() {
            self.give_back();
        }
    }
}

/// Others have what was kept.
pub struct Lost;
