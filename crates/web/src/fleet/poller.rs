//! Asks the fleet, for all who look together: one dblock after another, each so often as is said, and none while nobody looks.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::answers::{Answered, Answers};
use super::data::History;
use super::dblock::{Dblock, Ended, LIMIT, Words};
use super::pace::{Pace, Topic};
use super::runs::{self, Runs};
use super::seen::{Part, Seen};
use crate::base::locked;

/// For how many refreshes the fleet is asked for after somebody has looked.
const REFRESHES_AFTER_A_LOOK: u32 = 3;

/// For how many refreshes an answer to a single page is good.
const REFRESHES_OF_AN_ANSWER: u32 = 3;

/// How long after something was done all is asked for once more: by then a daemon has started what it was asked to run.
const SECOND_LOOK: Duration = Duration::from_secs(3);

/// The longest that who looks first waits for the first answers.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of the fleet, and who finds it out.
#[derive(Debug)]
pub struct Fleet {
    /// What is run.
    pub dblock: Dblock,
    refresh: Duration,
    known: watch::Sender<Arc<Seen>>,
    last_look: Mutex<Option<Instant>>,
    is_looked: Notify,
    is_changed: Notify,
    answers: Answers,
    /// The subcommands that took too long since one was answered.
    late: Mutex<HashSet<String>>,
}

impl Fleet {
    /// One of which nothing is known.
    pub fn new(dblock: Dblock, refresh: Duration) -> Self {
        Self {
            dblock,
            refresh,
            known: watch::Sender::default(),
            last_look: Mutex::default(),
            is_looked: Notify::new(),
            is_changed: Notify::new(),
            answers: Answers::default(),
            late: Mutex::default(),
        }
    }

    /// What is known now. If nobody has looked for a while, waits a moment for what is new.
    pub async fn look(&self) -> Arc<Seen> {
        *locked(&self.last_look) = Some(Instant::now());
        self.is_looked.notify_one();
        let mut known = self.known.subscribe();
        let _ = timeout(PATIENCE, known.wait_for(|seen| seen.is_new())).await;
        let seen = known.borrow();
        seen.clone()
    }

    /// As [`Self::look`], with the last runs of this name. That these cannot be asked for is no fault of the others: it is said here alone.
    pub async fn look_at(&self, name: &str) -> Arc<Seen> {
        let seen = self.look().await;
        let known = seen.runs_of(name);
        let has_all = known.len() >= runs::OF_A_NAME;
        let is_settled = has_all && !known.iter().any(|run| run.ending.is_open());
        // No name is empty, and no argument has a NUL.
        if is_settled || name.is_empty() || name.contains('\0') {
            return seen;
        }
        drop(seen);
        let ended = self.ended(&runs::of_a_name(name)).await;
        if ended.refuses("NAME") {
            return self.known.borrow().clone();
        }
        let answer = ended.read::<History>();
        if let Ok(history) = &answer {
            self.change(|seen| {
                // What was asked for before the latest answer came may be older than that.
                let is_latest = Some(ended.asked) >= seen.runs.at;
                let known = seen.runs.value.get_or_insert_default();
                runs::insert_all(known, history, is_latest);
            });
        }
        let mut seen = self.known.borrow().clone();
        if let Err(line) = answer {
            Arc::make_mut(&mut seen).runs.error = Some(line);
        }
        seen
    }

    /// An answer to what the poller does not ask for; asked once in a few refreshes, for all who look. If it fails, the last one stays.
    pub async fn answer<T: DeserializeOwned>(&self, words: &Words) -> Part<T> {
        self.answered(words).await.part()
    }

    /// An answer of now: for what is about to be done, or was changed.
    pub async fn answer_now<T: DeserializeOwned>(&self, words: &Words) -> Part<T> {
        let mut part = Part::default();
        part.learn(&self.answers.ended_now(&self.dblock, words).await);
        part
    }

    /// The same as the command ended.
    pub async fn ended(&self, words: &Words) -> Arc<Ended> {
        self.answered(words).await.latest
    }

    /// The same, and as it ended before.
    pub async fn answered(&self, words: &Words) -> Answered {
        self.answers
            .answered(&self.dblock, words, REFRESHES_OF_AN_ANSWER * self.refresh)
            .await
    }

    /// Somebody has done something: what is known is old.
    pub fn is_changed(&self) {
        self.answers.forget();
        self.change(|seen| seen.new_until = None);
        self.is_changed.notify_one();
    }

    /// Asks for ever.
    pub async fn poll(&self) {
        let mut runs = Runs::default();
        let mut pace = Pace::new(self.refresh);
        let mut second_look = None;
        loop {
            while !self.is_looked_at() {
                self.is_looked.notified().await;
            }
            let (topic, due) = pace.next();
            tokio::select! {
                biased;
                () = self.is_changed.notified() => {
                    pace.hurry();
                    second_look = Some(Instant::now() + SECOND_LOOK);
                }
                () = sleep_until(second_look.unwrap_or(due)), if second_look.is_some() => {
                    pace.hurry();
                    second_look = None;
                }
                () = sleep_until(due) => self.ask_about(topic, &mut pace, &mut runs).await,
            }
        }
    }

    fn is_looked_at(&self) -> bool {
        let last_look = *locked(&self.last_look);
        last_look.is_some_and(|look| look.elapsed() < REFRESHES_AFTER_A_LOOK * self.refresh)
    }

    /// Asks about one of them. What is answered is seen at once.
    async fn ask_about(&self, topic: Topic, pace: &mut Pace, runs: &mut Runs) {
        let (then, began) = (Instant::now(), Timestamp::now());
        let is_away = match topic {
            Topic::Locks => self.ask(["status"], |seen| &mut seen.locks).await,
            Topic::Cron => self.ask(["cron", "list"], |seen| &mut seen.cron).await,
            Topic::Queues => self.ask(["queue", "status"], |seen| &mut seen.queues).await,
            Topic::Runs => self.ask_for_runs(runs).await,
        };
        pace.is_asked(topic, then, self.known.borrow().all_queues().len());
        if is_away {
            pace.postpone(Instant::now() + self.refresh);
        }
        // Not before all of them were asked for.
        let is_whole = pace.next().1 > then;
        let longest = self.refresh + pace.longest();
        let until = (then + longest, began + longest);
        if is_whole || is_away {
            self.change(|seen| seen.new_until = Some(until));
        }
    }

    /// Returns whether no server answers.
    async fn ask<T: DeserializeOwned, const N: usize>(
        &self,
        words: [&str; N],
        part: impl Fn(&mut Seen) -> &mut Part<T>,
    ) -> bool {
        let mut words = Words::of(words);
        words.options.push("--json".to_owned());
        let ended = self.run(&words).await;
        self.change(|seen| part(seen).learn(&ended));
        ended.is_away
    }

    async fn ask_for_runs(&self, runs: &mut Runs) -> bool {
        let seen = self.known.borrow().clone();
        let now = seen.server_now(Timestamp::now());
        let questions = runs.questions(seen.cron.value.as_ref(), seen.runs.value.as_ref(), now);
        let mut questions = questions.into_iter();
        // What is changed below is copied as long as somebody has it.
        drop(seen);
        let mut has_failed = false;
        while let Some(question) = questions.next().or_else(|| runs.about_failures(now)) {
            let history = self.run(question.words()).await;
            self.change(|seen| {
                let part = &mut seen.runs;
                let runs_of_all = part.value.get_or_insert_default();
                part.error = runs.learn(&question, &history, runs_of_all, now).err();
                let lacks_failures = runs.lacks_failures(runs_of_all);
                part.is_away = history.is_away;
                if part.error.is_none() {
                    part.at = Some(history.at);
                }
                // Where nothing was ever answered, the error says why.
                seen.lacks_failures = lacks_failures && part.at.is_some();
                has_failed = part.error.is_some();
            });
            if has_failed {
                return history.is_away;
            }
        }
        false
    }

    /// Runs a dblock. One that no server answers is of all parts.
    async fn run(&self, words: &Words) -> Ended {
        let mut ended = self.dblock.ask(words, LIMIT).await;
        ended.is_away |= self.is_late_again(words, ended.is_late);
        if ended.is_away {
            self.change(|seen| seen.is_away(&ended.line));
        }
        ended
    }

    /// Whether two different commands took too long with no answer between them: then it is the server, not the question.
    fn is_late_again(&self, words: &Words, is_late: bool) -> bool {
        let mut late = locked(&self.late);
        if is_late {
            late.extend(words.options.first().cloned());
        } else {
            late.clear();
        }
        late.len() > 1
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        self.known.send_modify(|seen| change(Arc::make_mut(seen)));
    }
}

impl<T: DeserializeOwned> Part<T> {
    /// Takes over what a dblock answered; where it failed, what was known stays.
    pub fn learn(&mut self, ended: &Ended) {
        self.is_away = ended.is_away;
        match ended.read() {
            Ok(value) => *self = Self::new(value, ended.at),
            Err(line) => self.error = Some(line),
        }
    }
}

impl Seen {
    /// No server answers: what is known of it stays.
    pub fn is_away(&mut self, line: &str) {
        fn note<T>(part: &mut Part<T>, line: &str) {
            (part.error, part.is_away) = (Some(line.to_owned()), true);
        }
        note(&mut self.locks, line);
        note(&mut self.cron, line);
        note(&mut self.queues, line);
        note(&mut self.runs, line);
    }
}
