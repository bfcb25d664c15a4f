//! The coordinator as the scheduler sees it: whether it listens, and what runs there.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use nix::unistd::Pid;

use super::super::message::{FromScheduler, ToScheduler};
use super::LOOK;
use crate::base::clock::Moment;
use crate::base::exit::Failure;
use crate::isolated::link::Link;
use crate::keeper::{Board, Parent};

/// A coordinator that does not answer for this long starts nothing. Then no ticks are taken for it, and finally the other daemons count
/// it as gone.
const DEAF: Duration = Duration::from_secs(5);

pub(super) struct Coordinator<'a> {
    parent: Parent<'a, FromScheduler, ToScheduler>,
    /// Since when an acknowledgement is pending, and whether the request was sent.
    unanswered: Option<(Moment, bool)>,
    /// When it was last told that the server answers.
    worked: Moment,
}

impl<'a> Coordinator<'a> {
    pub fn new(link: &'a Link, pid: Pid, board: Board) -> Result<Self, Failure> {
        Ok(Self {
            parent: Parent::new(link, pid, board, FromScheduler::Note)?,
            unanswered: None,
            worked: Moment::START,
        })
    }

    /// Whether it has not acknowledged for too long.
    pub fn awaits_acknowledgement(&self) -> bool {
        self.unanswered
            .is_some_and(|(since, _)| since.elapsed() > DEAF)
    }

    /// It has acknowledged.
    pub fn note_alive(&mut self) {
        self.unanswered = None;
    }

    /// The server has answered: requests an acknowledgement unless one is pending, and reports that the server works. This at most once a
    /// second: a step may have many statements, or slow ones.
    pub fn report_answer(&mut self) {
        let (since, is_asked) = self.unanswered.unwrap_or((Moment::now(), false));
        let is_asked = is_asked
            || self
                .link
                .try_send(&FromScheduler::Answered, None)
                .unwrap_or(true);
        self.unanswered = Some((since, is_asked));
        if self.worked.elapsed() >= LOOK {
            self.worked = Moment::now();
            self.link.send_if_heard(&FromScheduler::Working);
        }
    }
}

impl<'a> Deref for Coordinator<'a> {
    type Target = Parent<'a, FromScheduler, ToScheduler>;

    fn deref(&self) -> &Self::Target {
        &self.parent
    }
}

impl DerefMut for Coordinator<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.parent
    }
}
