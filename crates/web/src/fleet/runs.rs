//! The last runs of each job: what to ask the history for, so that they are known in small pieces, and what follows from an answer.

use std::collections::{HashMap, HashSet};

use jiff::{SignedDuration, Timestamp};

use super::ask::{Ended as Answer, Words};
use super::data::{CronList, Ended, History, Run};

/// How many runs of a name are kept, and of how many names.
pub const OF_A_NAME: usize = 50;
const NAMES: usize = 1000;

/// How many runs an answer has at most: what is new, and further back.
const NEW: &str = "1000";
const OLD: &str = "4000";

/// How many answers are read, from the newest run backwards. What jobs lack then is asked for job by job.
const ANSWERS_BACK: u32 = 6;

/// Two dblocks may have written their runs in another order than they began.
const OVERLAP: SignedDuration = SignedDuration::from_secs(30);

/// A run that has not ended is asked for again for so long. The crontab's list has the end of one that takes longer.
const LONGEST_RUN: SignedDuration = SignedDuration::from_mins(15);

/// The runs of each name, the oldest first.
pub type ByName = HashMap<String, Vec<Ended>>;

/// What was asked for.
#[derive(Debug, Default)]
pub struct Runs {
    /// When the newest run that is known was requested; None: nothing was answered yet.
    newest: Option<Timestamp>,
    /// When those that had not ended were requested.
    running: HashMap<Box<str>, Timestamp>,
    /// How far back was read.
    back: Back,
    /// The jobs that were asked for by name.
    named: HashSet<String>,
}

#[derive(Debug, Default)]
enum Back {
    /// Not at all.
    #[default]
    Nothing,
    /// That many answers, the last of which ended here.
    Until(u32, String),
    /// As far as it is of use.
    All,
}

/// A question to the history.
#[derive(Debug)]
pub enum Question {
    /// The runs since a moment.
    New(Words),
    /// Those before all that are known.
    Old(Words),
    /// The last ones of a job.
    Named(Words, String),
}

impl Question {
    /// What is asked.
    pub fn words(&self) -> &Words {
        match self {
            Self::New(words) | Self::Old(words) | Self::Named(words, _) => words,
        }
    }
}

impl Runs {
    /// What is to be asked in this round.
    pub fn questions(&self, jobs: Option<&CronList>, known: Option<&ByName>) -> Vec<Question> {
        let history = Words::of(["history", "--json"]);
        let Some(newest) = self.newest else {
            return vec![Question::Old(history.with("--limit", OLD))];
        };
        let oldest_running = self.running.values().min().copied().unwrap_or(newest);
        let since = oldest_running.max(newest - LONGEST_RUN).min(newest) - OVERLAP;
        let since = history.clone().with("--since", &since.to_string());
        let mut questions = vec![Question::New(since.with("--limit", NEW))];
        match &self.back {
            Back::Until(_, cursor) => {
                let old = history.with("--after", cursor).with("--limit", OLD);
                questions.push(Question::Old(old));
            }
            Back::Nothing | Back::All => {
                let has_all = |name: &str| {
                    known
                        .and_then(|known| known.get(name))
                        .is_some_and(|runs| runs.len() >= OF_A_NAME)
                };
                let mut names = jobs
                    .into_iter()
                    .flat_map(|jobs| &jobs.jobs)
                    .map(|job| &*job.name);
                if let Some(name) = names.find(|name| !self.named.contains(*name) && !has_all(name))
                {
                    questions.push(Question::Named(of_a_name(name), name.to_owned()));
                }
            }
        }
        questions
    }

    /// What follows from an answer.
    ///
    /// # Errors
    /// The line of the dblock that failed.
    pub fn learn(
        &mut self,
        question: Question,
        answer: &Answer,
        known: &mut ByName,
    ) -> Result<(), String> {
        if !answer.is_success() {
            return Err(answer.line.clone());
        }
        let history: History = serde_json::from_slice(&answer.answer)
            .map_err(|error| format!("dblock's answer is not understood: {error}"))?;
        for run in &history.runs {
            self.note(run);
        }
        insert_all(known, &history);
        match question {
            // Nothing ran, and nothing is to be asked for but what is new.
            _ if self.newest.is_none() => self.newest = Some(Timestamp::now() - LONGEST_RUN),
            Question::New(_) => {}
            Question::Old(_) => self.back = self.further_back(history.cursor),
            Question::Named(_, name) => {
                self.named.insert(name);
            }
        }
        forget_the_oldest(known);
        Ok(())
    }

    fn note(&mut self, run: &Run) {
        let requested = run.times.requested;
        self.newest = self.newest.max(Some(requested));
        if run.times.ended.is_none()
            && self
                .newest
                .is_none_or(|newest| newest - LONGEST_RUN < requested)
        {
            self.running.insert(run.run.clone(), requested);
        } else {
            self.running.remove(&run.run);
        }
        let oldest = self.newest.unwrap_or(requested) - LONGEST_RUN;
        self.running.retain(|_, requested| *requested > oldest);
    }

    fn further_back(&self, cursor: Option<String>) -> Back {
        let answers = match &self.back {
            Back::Until(answers, _) => *answers,
            Back::Nothing | Back::All => 0,
        };
        match cursor {
            Some(cursor) if answers + 1 < ANSWERS_BACK => Back::Until(answers + 1, cursor),
            _ => Back::All,
        }
    }
}

/// The question for the last runs of a name.
pub fn of_a_name(name: &str) -> Words {
    Words::of(["history", "--json"])
        .with("--limit", &OF_A_NAME.to_string())
        .about(name)
}

/// What is answered to it.
pub fn insert_all(known: &mut ByName, history: &History) {
    for run in &history.runs {
        insert(known, run);
    }
}

fn insert(known: &mut ByName, run: &Run) {
    let runs = known.entry(run.name.to_string()).or_default();
    let new = Ended::from(run);
    if let Some(old) = runs.iter_mut().find(|old| old.run == new.run) {
        *old = new;
    } else {
        runs.push(new);
    }
    runs.sort_by_key(|run| run.at);
    if runs.len() > OF_A_NAME {
        runs.remove(0);
    }
}

/// Names that nobody uses any more go.
fn forget_the_oldest(known: &mut ByName) {
    if known.len() <= NAMES {
        return;
    }
    let mut last: Vec<_> = known
        .values()
        .filter_map(|runs| runs.last())
        .map(|run| run.at)
        .collect();
    last.sort_unstable();
    let oldest = last[last.len() - NAMES];
    known.retain(|_, runs| runs.last().is_some_and(|run| run.at >= oldest));
}
