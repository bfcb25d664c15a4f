//! An action and what it is about, as a URL and a form have it.

use std::time::Duration;

use serde::Deserialize;

use crate::fleet::dblock::Words;
use crate::pages::links;

/// The most jobs that are named at once: their numbers are in a form.
pub const MOST: usize = 500;

/// How long `dblock kill` waits for the end of a command.
pub const KILL_WAIT: Duration = Duration::from_secs(30);

/// What a URL or a form says. Empty: it says nothing of that.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    job: String,
    queue: String,
    /// Numbers, separated by commas.
    id: String,
    lock: String,
    /// The lock's on PostgreSQL, if its name does not say it.
    key: String,
    slot: String,
    /// Who held the lock when it was asked.
    holder: String,
    /// How many jobs were dead then.
    count: String,
}

/// What is done to a job of the crontab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    Pause,
    Resume,
    Trigger,
}

impl Switch {
    fn word(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Trigger => "trigger",
        }
    }
}

/// An action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Of a job of the crontab.
    Job(Switch, String),
    /// Of a queue: pause or resume.
    Queue(Switch, String),
    /// Of these jobs of a queue; of none: of all that are dead. And how many these are, as it was shown; empty: it was not.
    Retry(String, Vec<u64>, String),
    /// Of these jobs of a queue; of none: of those that died last.
    Cancel(String, Vec<u64>),
    /// Of the holder of a lock. And who that is, as it was shown; empty: it was not.
    Kill(Held, String),
}

/// What somebody holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The lock.
    pub lock: String,
    /// The key that it has on PostgreSQL; empty: its name says it.
    pub key: String,
    /// None: the only slot that is held.
    pub slot: Option<u32>,
}

impl Held {
    /// A command about its lock.
    pub fn asked_by<const N: usize>(&self, options: [&str; N]) -> Words {
        match &*self.key {
            "" => Words::of(options),
            key => Words::of(options).with("--key", key),
        }
    }
}

impl Act {
    /// None: it says not what is to be done to what.
    pub fn of(kind: &str, asked: Asked) -> Option<Self> {
        let is_given = |text: &String| !text.is_empty();
        let job = Some(asked.job).filter(is_given);
        let queue = Some(asked.queue).filter(is_given);
        let lock = Some(asked.lock).filter(is_given);
        let act = match (kind, job, queue, lock) {
            ("pause", Some(job), None, None) => Self::Job(Switch::Pause, job),
            ("resume", Some(job), None, None) => Self::Job(Switch::Resume, job),
            ("trigger", Some(job), None, None) => Self::Job(Switch::Trigger, job),
            ("pause", None, Some(queue), None) => Self::Queue(Switch::Pause, queue),
            ("resume", None, Some(queue), None) => Self::Queue(Switch::Resume, queue),
            ("retry", None, Some(queue), None) => {
                Self::Retry(queue, numbers(&asked.id)?, asked.count)
            }
            ("cancel", None, Some(queue), None) => Self::Cancel(queue, numbers(&asked.id)?),
            ("kill", None, None, Some(lock)) => {
                let slot = if asked.slot.is_empty() {
                    None
                } else {
                    Some(asked.slot.parse().ok()?)
                };
                let key = asked.key;
                Self::Kill(Held { lock, key, slot }, asked.holder)
            }
            _ => return None,
        };
        Some(act)
    }

    /// On the button.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Job(Switch::Pause, _) | Self::Queue(Switch::Pause, _) => "Pause",
            Self::Job(Switch::Resume, _) | Self::Queue(Switch::Resume, _) => "Resume",
            Self::Job(Switch::Trigger, _) | Self::Queue(Switch::Trigger, _) => "Run now",
            Self::Retry(..) => "Retry",
            Self::Cancel(..) => "Cancel",
            Self::Kill(..) => "Kill",
        }
    }

    /// The page of what it is about.
    pub fn back(&self) -> String {
        match self {
            Self::Job(_, job) => links::job(job),
            Self::Queue(_, queue) | Self::Retry(queue, ..) | Self::Cancel(queue, _) => {
                links::queue(queue)
            }
            Self::Kill(..) => "/locks".to_owned(),
        }
    }

    /// The command.
    pub fn words(&self) -> Words {
        match self {
            Self::Job(switch, job) => Words::of(["cron", switch.word()]).about(job),
            Self::Queue(switch, queue) => Words::of(["queue", switch.word()]).about(queue),
            Self::Retry(queue, ids, _) if ids.is_empty() => {
                Words::of(["queue", "retry", "--dead"]).about(queue)
            }
            Self::Retry(queue, ids, _) => of_jobs(Words::of(["queue", "retry"]).about(queue), ids),
            Self::Cancel(queue, ids) => of_jobs(Words::of(["queue", "cancel"]).about(queue), ids),
            Self::Kill(held, _) => {
                let lock = &held.lock;
                let holder = held
                    .slot
                    .map_or_else(|| lock.clone(), |slot| format!("{lock}#{slot}"));
                let wait = format!("{}s", KILL_WAIT.as_secs());
                held.asked_by(["kill"]).with("--wait", &wait).about(holder)
            }
        }
    }
}

fn of_jobs(words: Words, ids: &[u64]) -> Words {
    ids.iter()
        .fold(words, |words, id| words.about(id.to_string()))
}

fn numbers(text: &str) -> Option<Vec<u64>> {
    let numbers = text
        .split(',')
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().ok());
    let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
    (numbers.len() <= MOST).then_some(numbers)
}
