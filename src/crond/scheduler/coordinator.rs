//! The coordinator as the scheduler sees it: whether it listens.

use std::time::Duration;

use super::super::message::FromScheduler;
use super::{LOOK, Scheduler};
use crate::base::clock::Moment;

/// A coordinator that does not answer for this long starts nothing. Then no ticks are taken for it, and finally the other daemons count
/// it as gone.
const DEAF: Duration = Duration::from_secs(5);

/// What the coordinator was told of the server's answers. As it begins, nothing.
#[derive(Default)]
pub(super) struct Told {
    /// Since when an acknowledgement is pending, and whether the request was sent.
    pub unanswered: Option<(Moment, bool)>,
    /// When it was last told that the server answers.
    worked: Moment,
}

impl Scheduler<'_> {
    /// Whether the coordinator has not acknowledged for too long.
    pub(super) fn awaits_acknowledgement(&self) -> bool {
        let unanswered = self.told.unanswered;
        unanswered.is_some_and(|(since, _)| since.elapsed() > DEAF)
    }

    /// The server has answered: requests an acknowledgement unless one is pending, and reports that the server works. This at most once a
    /// second: a step may have many statements, or slow ones.
    pub(super) fn report_answer(&mut self) {
        let (link, told) = (self.coordinator.link, &mut self.told);
        let (since, is_asked) = told.unanswered.unwrap_or((Moment::now(), false));
        let asks = || link.try_send(&FromScheduler::Answered, None);
        told.unanswered = Some((since, is_asked || asks().unwrap_or(true)));
        if told.worked.elapsed() >= LOOK {
            told.worked = Moment::now();
            link.send_if_heard(&FromScheduler::Working);
        }
    }
}
