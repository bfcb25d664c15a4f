//! The coordinator as the scheduler sees it: whether it listens, and what runs there.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::message::FromScheduler;
use super::LOOK;
use crate::base::clock::Moment;
use crate::base::log::Level;
use crate::isolated::link::{Link, cut};
use crate::keeper::{Board, Parent};

/// A coordinator that does not answer for this long starts nothing. Then no ticks are taken for it, and finally the other daemons count
/// it as gone.
const DEAF: Duration = Duration::from_secs(5);

pub(super) struct Coordinator<'a> {
    pub link: &'a Link,
    pub process: Parent,
    /// The commands that it runs.
    pub board: Board,
    /// Messages that the link has no room for: a coordinator that is stopped reads none.
    outbox: VecDeque<FromScheduler>,
    /// Since when an acknowledgement is pending, and whether the request was sent.
    unanswered: Option<(Moment, bool)>,
    /// When it was last told that the server answers.
    worked: Moment,
}

impl<'a> Coordinator<'a> {
    pub fn new(link: &'a Link, process: Parent, board: Board) -> Self {
        Self {
            link,
            process,
            board,
            outbox: VecDeque::new(),
            unanswered: None,
            worked: Moment::START,
        }
    }

    /// Sends a message that must arrive, as soon as there is room: nothing may wait for a coordinator that is stopped.
    pub fn say(&mut self, message: FromScheduler) {
        self.outbox.push_back(message);
        self.send_rest();
    }

    /// Sends what there was no room for.
    pub fn send_rest(&mut self) {
        while let Some(message) = self.outbox.front() {
            if !self.link.try_send(message, None).unwrap_or(true) {
                return;
            }
            self.outbox.pop_front();
        }
    }

    /// Logs a line. One that only informs is left out where the coordinator does not read.
    pub fn note(&mut self, level: Level, line: &str) {
        let note = FromScheduler::Note(level, cut(line));
        if level == Level::Info {
            self.link.send_if_heard(&note);
        } else {
            self.say(note);
        }
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
