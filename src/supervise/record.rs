//! What happened to a run and its lock, for the report at its end.

use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use crate::base::clock::Moment;
use crate::base::exit::Ending;
use crate::keeper::message::FromKeeper;
use crate::lock::Grant;

/// Events that are kept. A server that restarts all night has more.
const MOST_EVENTS: usize = 10;

/// How a run came out, as far as it is no error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Outcome {
    /// The command ended by itself.
    #[default]
    Ran,
    /// Its time was over, and it was ended.
    TimedOut,
    /// The lock was not had in time.
    Skipped,
    /// A signal ended the waiting.
    Stopped,
}

/// What happened to the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The session was lost, and with it the lock.
    Lost,
    /// It was had again.
    HadAgain,
    /// It was not to be had again.
    GivenUp,
    /// Somebody ended its holder (`dblock kill`).
    Killed,
}

/// Something that happened to the lock.
#[derive(Debug, Clone)]
pub struct Event {
    /// When, by this host's clock.
    pub at: SystemTime,
    pub what: What,
    /// Why, by whom, or after how long.
    pub detail: String,
}

/// What happened so far.
#[derive(Debug)]
pub struct History {
    asked: Moment,
    /// The server that was reached last.
    pub server: Option<String>,
    /// The slot that was had, and on which session at first.
    pub grant: Option<Grant>,
    /// When it was had.
    pub had: Option<SystemTime>,
    /// How long that took, or until it was not had.
    pub waited: Duration,
    /// When the command was started.
    pub started: Option<SystemTime>,
    /// When it had ended, and how; its processes in the background may run on.
    pub ended: Option<(SystemTime, Ending)>,
    /// How long it ran.
    pub ran: Option<Duration>,
    pub outcome: Outcome,
    /// The line of a skip.
    pub message: Option<String>,
    pub events: Vec<Event>,
    /// How many events there were beyond those.
    pub left_out: u32,
    /// Where the report goes, where that is to stay open when stdout is let go of.
    pub kept: Option<OwnedFd>,
    lost: Option<Moment>,
}

impl History {
    /// That of a run that begins now.
    pub fn begin() -> Self {
        Self {
            asked: Moment::now(),
            server: None,
            grant: None,
            had: None,
            waited: Duration::ZERO,
            started: None,
            ended: None,
            ran: None,
            outcome: Outcome::default(),
            message: None,
            events: Vec::new(),
            left_out: 0,
            kept: None,
            lost: None,
        }
    }

    /// The waiting for the lock is over.
    pub fn decided(&mut self) {
        self.waited = self.asked.elapsed();
    }

    /// Notes what the keeper tells.
    pub fn hear(&mut self, message: &FromKeeper) {
        match message {
            FromKeeper::Reached(server) => self.server = Some(server.clone()),
            FromKeeper::Held(grant, _) if self.grant.is_none() => {
                self.grant = Some(*grant);
                self.had = Some(SystemTime::now());
            }
            FromKeeper::Held(grant, _) => {
                let span = self.lost.take().map(Moment::elapsed).unwrap_or_default();
                let detail = format!(
                    "after {}, on connection {}",
                    crate::base::text::shown(span),
                    grant.connection_id
                );
                self.note(What::HadAgain, &detail);
            }
            FromKeeper::Lost(cause) => self.lose(cause),
            FromKeeper::Abandoned(why) => self.note(What::GivenUp, &why.to_string()),
            FromKeeper::Killed(who) => self.note(What::Killed, &format!("by {who}")),
            _ => {}
        }
    }

    /// The lock was lost.
    pub fn lose(&mut self, cause: &str) {
        self.lost.get_or_insert_with(Moment::now);
        self.note(What::Lost, cause);
    }

    /// Notes something that happened to the lock.
    pub fn note(&mut self, what: What, detail: &str) {
        if self.events.len() == MOST_EVENTS {
            self.left_out += 1;
            return;
        }
        self.events.push(Event {
            at: SystemTime::now(),
            what,
            detail: detail.to_owned(),
        });
    }
}
