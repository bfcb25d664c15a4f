//! The last runs of each job: what to ask the history for, so that they are known in small pieces, and what follows from an answer.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;

use jiff::{SignedDuration, Timestamp};

use super::data::{CronList, Ended, History, Run};
use super::dblock::{Ended as Answer, Words};

/// How many runs of a name are kept, and of how many names.
pub const OF_A_NAME: usize = 50;
const NAMES: usize = 1000;

/// How many runs an answer has at most: what is new, or failed, and further back.
const NEW: u32 = 1000;
const OLD: u32 = 2000;

/// How many answers are read, from the newest run backwards. What jobs lack then is asked for job by job.
const ANSWERS_BACK: u32 = 12;

/// Two dblocks may have written their runs in another order than they began.
const OVERLAP: SignedDuration = SignedDuration::from_secs(30);

/// The answer to what is new has a run that has not ended for so long. One that takes longer is asked for by its number.
const OF_NEW: SignedDuration = SignedDuration::from_mins(15);

/// How many of those are remembered.
const MOST_LONG: usize = 200;

/// How many names are remembered that were asked for. If there are more, each may be asked for once more: a name may be of a single run.
const MOST_NAMED: usize = 10_000;

/// How often all that failed is asked for: a run is recorded when it acquires its lock, which may be long after it was requested.
const OF_FAILED: SignedDuration = SignedDuration::from_mins(15);

/// Since when that is asked.
const A_DAY: &str = "24h";

/// The runs of each name, the oldest first.
pub type ByName = HashMap<String, Vec<Ended>>;

/// When runs were requested, by their numbers.
type ByRun = HashMap<Box<str>, Timestamp>;

/// What was asked for.
#[derive(Debug, Default)]
pub struct Runs {
    /// When the newest run that is known was requested; None: nothing was answered yet.
    newest: Option<Timestamp>,
    /// When those that had not ended were requested.
    running: ByRun,
    /// Those of them that take long. The one that was asked for last is the last.
    long: VecDeque<Box<str>>,
    /// Whether one of them is to be asked for before the next job.
    is_turn_of_long: bool,
    /// How far back was read.
    back: Back,
    /// The jobs that were asked for by name.
    named: HashSet<String>,
    /// When all that failed was asked for; None: it is to be asked for now.
    failed_at: Option<Timestamp>,
    /// Whether more failed than was answered.
    has_more_failed: bool,
    /// How often an answer was too long to be read: since then each has half as many runs. They may have long names and messages.
    halvings: u32,
    /// What failed, by name, until that is asked for. It is if the run is not known: the name may have succeeded since.
    unknown: Vec<(String, Ended)>,
}

#[derive(Debug, Default)]
enum Back {
    /// Not at all.
    #[default]
    Nothing,
    /// That many answers, the last of which ended here.
    Until {
        answers: u32,
        cursor: String,
        /// What is older is known; None: nothing is.
        since: Option<Timestamp>,
    },
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
    /// One that takes long.
    Long(Words, Box<str>),
    /// Those of a day that failed.
    Failed(Words),
}

impl Question {
    /// What is asked.
    pub fn words(&self) -> &Words {
        match self {
            Self::New(words)
            | Self::Old(words)
            | Self::Named(words, _)
            | Self::Long(words, _)
            | Self::Failed(words) => words,
        }
    }
}

impl Runs {
    /// What is to be asked in this round, at this time of the server.
    pub fn questions(
        &self,
        jobs: Option<&CronList>,
        known: Option<&ByName>,
        now: Timestamp,
    ) -> Vec<Question> {
        let history = Words::of(["history", "--json"]);
        let Some(newest) = self.newest else {
            return vec![Question::Old(self.at_most(OLD, history))];
        };
        // The server's clock may have been set back.
        let newest = newest.min(now);
        let oldest_running = self.running.values().min().copied().unwrap_or(newest);
        let since = oldest_running.max(newest - OF_NEW).min(newest) - OVERLAP;
        let since = history.clone().with("--since", &since.to_string());
        let mut questions = vec![Question::New(self.at_most(NEW, since))];
        match &self.back {
            Back::Until { cursor, since, .. } => {
                let old = self.at_most(OLD, history.with("--after", cursor));
                let old = match since {
                    Some(since) => old.with("--since", &since.to_string()),
                    None => old,
                };
                questions.push(Question::Old(old));
            }
            Back::Nothing | Back::All => questions.extend(self.about_one(jobs, known)),
        }
        questions
    }

    /// The question for so many runs, or for fewer where these are too long.
    fn at_most(&self, runs: u32, words: Words) -> Words {
        let runs = runs.checked_shr(self.halvings).unwrap_or_default().max(1);
        words.with("--limit", &runs.to_string())
    }

    /// What the answers to the others lack: the runs of a job, and the end of a long run, by turns.
    fn about_one(&self, jobs: Option<&CronList>, known: Option<&ByName>) -> Option<Question> {
        let lacks_some = |name: &str| {
            let runs = known.and_then(|known| known.get(name));
            !self.named.contains(name) && runs.is_none_or(|runs| runs.len() < OF_A_NAME)
        };
        let jobs = jobs.into_iter().flat_map(|jobs| &jobs.jobs);
        let job = jobs.map(|job| &*job.name).find(|name| lacks_some(name));
        let name = self.unknown_name(known).or(job);
        let named = name.map(|name| Question::Named(of_a_name(name), name.to_owned()));
        let long = self.long.front();
        let long = long.map(|run| Question::Long(of_a_run(run), run.clone()));
        if self.is_turn_of_long {
            long.or(named)
        } else {
            named.or(long)
        }
    }

    /// A name of which a run failed that is not known.
    fn unknown_name(&self, known: Option<&ByName>) -> Option<&str> {
        let mut unknown = self.unknown.iter();
        let found = unknown.find(|(name, failed)| {
            let runs = known.and_then(|known| known.get(name));
            runs.is_none_or(|runs| is_missing(runs, failed))
        });
        found.map(|(name, _)| name.as_str())
    }

    /// The question for all that failed, behind those of a round; None: that was asked lately.
    pub fn about_failures(&self, now: Timestamp) -> Option<Question> {
        // The server's clock may have been set back.
        let is_known =
            |at: Timestamp| (SignedDuration::ZERO..OF_FAILED).contains(&now.duration_since(at));
        if self.failed_at.is_some_and(is_known) {
            return None;
        }
        let words = Words::of(["history", "--json", "--failed"]);
        let words = words.with("--since", A_DAY);
        Some(Question::Failed(self.at_most(NEW, words)))
    }

    /// Whether something may have failed that is not among these.
    pub fn lacks_failures(&self, known: &ByName) -> bool {
        self.failed_at.is_none() || self.has_more_failed || self.unknown_name(Some(known)).is_some()
    }

    /// What follows from an answer, at this time of the server.
    ///
    /// # Errors
    /// The line of the dblock that failed. What is refused about a single job or run is no error of all.
    pub fn learn(
        &mut self,
        question: &Question,
        answer: &Answer,
        known: &mut ByName,
        now: Timestamp,
    ) -> Result<(), String> {
        let is_about_one = matches!(question, Question::Named(..) | Question::Long(..));
        if answer.is_too_long && !is_about_one {
            self.halvings = self.halvings.saturating_add(1);
            return Err(answer.line.clone());
        }
        let history = answer.read::<History>();
        if matches!(question, Question::Failed(_)) && !answer.is_away {
            self.note_failures(history.as_ref().ok(), now);
            return Ok(());
        }
        let newest_before = self.newest;
        if let Ok(history) = &history {
            for run in &history.runs {
                self.note(run, now);
            }
            insert_all(known, history, true);
            forget_the_oldest(known);
        }
        self.note_asked(question);
        if let Question::Named(_, name) = question
            && !answer.is_away
        {
            // What is not answered now is said to be unknown until all that failed is asked for again.
            // So is what is not among the newest of its name.
            let runs = known.get(&**name).map_or(&[][..], |runs| runs);
            let is_answered = history.is_ok();
            let is_still_unknown = |(unknown, run): &(String, Ended)| {
                unknown == name && (!is_answered || is_missing(runs, run))
            };
            self.has_more_failed |= self.unknown.iter().any(is_still_unknown);
            self.unknown.retain(|(unknown, _)| unknown != name);
        }
        let history = match history {
            Ok(history) => history,
            // It would be refused again, and the others would wait for it.
            Err(_) if is_about_one && !answer.is_away && !answer.is_late => return Ok(()),
            Err(line) => return Err(line),
        };
        if self.newest.is_none() {
            // Nothing ran, and nothing is to be asked for but what is new.
            self.newest = Some(now - OF_NEW);
        } else if matches!(question, Question::Old(_)) {
            self.back = self.further_back(history.cursor);
        } else if matches!(question, Question::New(_)) {
            self.note_gap(newest_before, history);
        }
        self.sort_out(now);
        Ok(())
    }

    /// Remembers which single job or run was asked for, whatever was answered.
    fn note_asked(&mut self, question: &Question) {
        match question {
            Question::New(_) | Question::Old(_) | Question::Failed(_) => return,
            Question::Named(_, name) => {
                if self.named.len() >= MOST_NAMED {
                    self.named.clear();
                }
                self.named.insert(name.clone());
            }
            Question::Long(_, run) => {
                if let Some(place) = self.long.iter().position(|long| long == run) {
                    self.long.remove(place);
                    self.long.push_back(run.clone());
                }
            }
        }
        self.is_turn_of_long = matches!(question, Question::Named(..));
    }

    fn note(&mut self, run: &Run, now: Timestamp) {
        let requested = run.times.requested;
        self.newest = self.newest.max(Some(requested.min(now)));
        let is_long = self.long.contains(&run.run);
        let is_open = run.ending.is_open();
        if run.times.ended.is_some() {
            self.running.remove(&run.run);
        } else if !is_long && (is_open || requested > now - OF_NEW) {
            self.running.insert(run.run.clone(), requested);
        }
        if is_long && !is_open {
            self.long.retain(|long| *long != run.run);
        }
    }

    /// Remembers what failed; None: that cannot be asked, and would be refused again.
    fn note_failures(&mut self, history: Option<&History>, now: Timestamp) {
        self.failed_at = Some(now);
        self.has_more_failed = history.is_none_or(|history| history.cursor.is_some());
        let runs = history.into_iter().flat_map(|history| &history.runs);
        let failed = runs.filter(|run| run.ending.kind().is_bad());
        self.unknown = failed
            .map(|run| (run.name.to_string(), run.into()))
            .collect();
    }

    /// More may have run since the newest that was known than an answer has, as when nobody has looked for long: what lies between is read
    /// from its newer end, and what failed of it is asked for at once.
    fn note_gap(&mut self, newest_before: Option<Timestamp>, history: History) {
        let oldest = history.runs.first().map(|run| run.times.requested);
        let Some(cursor) = history.cursor.filter(|_| oldest > newest_before) else {
            return;
        };
        self.failed_at = None;
        let since = match self.back {
            // It goes on from here, and then further back.
            Back::Until { since, .. } => since,
            Back::Nothing | Back::All => newest_before.map(|at| at - OVERLAP),
        };
        self.back = Back::Until {
            answers: 0,
            cursor,
            since,
        };
    }

    /// What has not ended for long is asked for by its number from now on.
    fn sort_out(&mut self, now: Timestamp) {
        let oldest = self.newest.unwrap_or(now).min(now) - OF_NEW;
        let all = mem::take(&mut self.running).into_iter();
        let (long, running): (ByRun, ByRun) = all.partition(|(_, requested)| *requested <= oldest);
        self.running = running;
        self.long.extend(long.into_keys());
        while self.long.len() > MOST_LONG {
            self.long.pop_front();
        }
    }

    fn further_back(&self, cursor: Option<String>) -> Back {
        let (answers, since) = match self.back {
            Back::Until { answers, since, .. } => (answers + 1, since),
            Back::Nothing | Back::All => (1, None),
        };
        match cursor {
            Some(cursor) if answers < ANSWERS_BACK => Back::Until {
                answers,
                cursor,
                since,
            },
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

/// The question for a run.
pub fn of_a_run(id: &str) -> Words {
    Words::of(["history", "--json"]).with("--run", id)
}

/// Takes over what was answered. If it is not the latest answer, what is known of a run stays.
pub fn insert_all(known: &mut ByName, history: &History, is_latest: bool) {
    for run in &history.runs {
        insert(known, run, is_latest);
    }
}

fn insert(known: &mut ByName, run: &Run, is_latest: bool) {
    let runs = known.entry(run.name.to_string()).or_default();
    let new = Ended::from(run);
    if let Some(old) = runs.iter_mut().find(|old| old.run == new.run) {
        if is_latest {
            *old = new;
        }
    } else {
        runs.push(new);
    }
    runs.sort_by_key(|run| run.at);
    if runs.len() > OF_A_NAME {
        runs.remove(0);
    }
}

/// Whether a run of a name would be among its last runs, and is not.
fn is_missing(runs: &[Ended], run: &Ended) -> bool {
    let is_late_enough = runs.len() < OF_A_NAME || runs[0].at < run.at;
    is_late_enough && !runs.iter().any(|known| known.run == run.run)
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-11-26T12:00:00Z";

    fn minutes(minutes: i64) -> Timestamp {
        NOW.parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
    }

    /// A run of the job x that was requested so many minutes after noon. The outcome of one that has ended is `ran`.
    fn run(id: &str, requested: i64, outcome: &str) -> Value {
        let requested = minutes(requested);
        let ended = (outcome == "ran").then_some(requested);
        json!({"run": id, "name": "x", "requested": requested, "ended": ended, "outcome": outcome, "exit_code": ended.map(|_| 0)})
    }

    fn answer(runs: &[Value]) -> Answer {
        let history = json!({"server": "db1", "cursor": null, "runs": runs});
        Answer::of_test(0, &history.to_string())
    }

    fn jobs(names: &[&str]) -> CronList {
        let job = |name: &&str| json!({"name": name, "schedule": "@daily", "time_zone": "UTC", "in_no_file": false, "under_way": []});
        let jobs: Vec<_> = names.iter().map(job).collect();
        serde_json::from_value(json!({"server": "db1", "now": NOW, "jobs": jobs, "daemons": []}))
            .unwrap()
    }

    /// What is known after this answer to the first question, at noon.
    fn first(runs: &[Value]) -> (Runs, ByName) {
        let (mut all, mut known) = (Runs::default(), ByName::new());
        let question = all.questions(None, None, minutes(0)).remove(0);
        all.learn(&question, &answer(runs), &mut known, minutes(0))
            .unwrap();
        (all, known)
    }

    fn since(runs: &Runs, now: Timestamp) -> String {
        runs.questions(None, None, now)[0].words().options[2].clone()
    }

    #[test]
    fn a_run_that_takes_long_is_asked_for_until_it_has_ended() {
        let runs = [
            run("a", -60, "running"),
            run("b", -1, "ran"),
            run("c", -90, "unknown"),
        ];
        let (mut runs, mut known) = first(&runs);
        let mut asked = Vec::new();
        for _ in 0..4 {
            let question = runs.questions(None, None, minutes(0)).remove(1);
            let Question::Long(words, id) = &question else {
                panic!("{question:?}");
            };
            assert_eq!(words.options[2], format!("--run={id}"));
            asked.push(id.clone());
            let still = answer(&[run(id, -60, "running")]);
            runs.learn(&question, &still, &mut known, minutes(0))
                .unwrap();
        }
        assert!(
            asked[0] != asked[1] && asked[..2] == asked[2..],
            "{asked:?}"
        );
        for left in [1, 0] {
            let question = runs.questions(None, None, minutes(0)).remove(1);
            let Question::Long(_, id) = &question else {
                panic!("{question:?}");
            };
            let ended = answer(&[run(id, -60, "ran")]);
            runs.learn(&question, &ended, &mut known, minutes(0))
                .unwrap();
            assert_eq!(
                known["x"].iter().filter(|run| run.ending.is_open()).count(),
                left
            );
        }
        assert_eq!(runs.questions(None, None, minutes(0)).len(), 1);
    }

    #[test]
    fn a_run_becomes_one_that_takes_long_and_many_of_them_are_bounded() {
        let (mut runs, mut known) = first(&[run("a", -1, "running")]);
        assert_eq!(runs.questions(None, None, minutes(0)).len(), 1);
        let question = runs.questions(None, None, minutes(20)).remove(0);
        let new = answer(&[run("b", 19, "ran")]);
        runs.learn(&question, &new, &mut known, minutes(20))
            .unwrap();
        let question = runs.questions(None, None, minutes(20)).remove(1);
        assert!(
            matches!(&question, Question::Long(_, id) if &**id == "a"),
            "{question:?}"
        );
        let many: Vec<_> = (0..1000)
            .map(|id| run(&id.to_string(), -60, "running"))
            .collect();
        runs.learn(&question, &answer(&many), &mut known, minutes(20))
            .unwrap();
        assert_eq!((runs.long.len(), runs.running.len()), (MOST_LONG, 0));
    }

    /// The same of another name, which failed.
    fn failed(name: &str, id: &str, requested: i64) -> Value {
        let mut failed = run(id, requested, "ran");
        (failed["name"], failed["exit_code"]) = (name.into(), 1.into());
        failed
    }

    /// An answer behind which there are more runs.
    fn cut(runs: &[Value]) -> Answer {
        let history = json!({"server": "db1", "cursor": "1-x", "runs": runs});
        Answer::of_test(0, &history.to_string())
    }

    #[test]
    fn where_more_ran_than_an_answer_has_the_gap_is_read_and_what_failed_is_asked_for() {
        let (mut all, mut known) = first(&[run("a", -1, "ran")]);
        let mut learn = |all: &mut Runs, question: &Question, answer: &Answer| {
            all.learn(question, answer, &mut known, minutes(60))
                .unwrap();
            all.lacks_failures(&known)
        };
        let question = all.about_failures(minutes(0)).unwrap();
        assert_eq!(question.words().options[2], "--failed");
        assert!(!learn(&mut all, &question, &answer(&[])));
        // What it has goes no further back than to what was known: nothing lies between.
        let question = all.questions(None, None, minutes(60)).remove(0);
        assert!(!learn(&mut all, &question, &cut(&[run("a", -1, "ran")])));
        assert_eq!(all.questions(None, None, minutes(60)).len(), 1);
        assert!(learn(&mut all, &question, &cut(&[run("c", 59, "ran")])));
        let old = all.questions(None, None, minutes(60)).remove(1);
        let asked = ["--after=1-x", "--since=2026-11-26T11:58:30Z"];
        for word in asked {
            assert!(old.words().options.contains(&word.to_owned()), "{old:?}");
        }
        assert!(learn(&mut all, &old, &answer(&[run("b", 30, "ran")])));
        assert_eq!(all.questions(None, None, minutes(60)).len(), 1);
        let question = all.about_failures(minutes(60)).unwrap();
        let bad = [failed("y", "d", 20), failed("x", "e", 10)];
        assert!(learn(&mut all, &question, &answer(&bad)));
        assert!(all.about_failures(minutes(60)).is_none());
        for (name, lacks) in [("y", true), ("x", false)] {
            let named = all.about_one(None, None).unwrap();
            assert_eq!(named.words().names, [name]);
            let of_name = bad.iter().filter(|run| run["name"] == name).cloned();
            let of_name: Vec<_> = of_name.collect();
            assert_eq!(learn(&mut all, &named, &answer(&of_name)), lacks, "{name}");
        }
        assert!(known["y"][0].ending.kind().is_bad());
    }

    #[test]
    fn more_failures_than_an_answer_has_and_those_that_cannot_be_asked_for_are_lacking() {
        let (mut all, mut known) = first(&[failed("x", "a", -1)]);
        let question = all.about_failures(minutes(0)).unwrap();
        let one = [failed("x", "a", -1)];
        for (answer, lacks) in [
            (cut(&one), true),
            (answer(&one), false),
            (Answer::of_test(70, ""), true),
        ] {
            all.learn(&question, &answer, &mut known, minutes(0))
                .unwrap();
            assert_eq!(all.lacks_failures(&known), lacks, "{answer:?}");
        }
        // It is not asked again at once.
        assert!(all.about_failures(minutes(1)).is_none());
        assert!(all.about_failures(minutes(16)).is_some());
        let away = Answer::of_test(69, "");
        all.learn(&question, &away, &mut known, minutes(0))
            .unwrap_err();
    }

    #[test]
    fn what_failed_is_asked_for_once_also_at_the_last_moment_that_there_is() {
        let (mut all, mut known) = first(&[run("a", -1, "ran")]);
        let now = Timestamp::MAX;
        let question = all.about_failures(now).unwrap();
        all.learn(&question, &answer(&[]), &mut known, now).unwrap();
        assert!(all.about_failures(now).is_none());
    }

    #[test]
    fn of_very_many_names_those_that_were_asked_for_are_forgotten() {
        let (mut runs, mut known) = first(&[run("a", -1, "ran")]);
        let nothing = answer(&[]);
        for number in 0..=MOST_NAMED {
            assert_eq!(runs.named.len(), number);
            let name = format!("build-{number}");
            let question = Question::Named(of_a_name(&name), name);
            runs.learn(&question, &nothing, &mut known, minutes(0))
                .unwrap();
        }
        assert_eq!(runs.named.len(), 1);
    }

    #[test]
    fn after_an_answer_that_is_too_long_half_as_many_runs_are_asked_for() {
        let (mut all, mut known) = (Runs::default(), ByName::new());
        let too_long = Answer {
            is_too_long: true,
            ..Answer::of_test(70, "")
        };
        let now = minutes(0);
        let mut limits = Vec::new();
        for _ in 0..40 {
            let question = all.questions(None, None, now).remove(0);
            limits.extend(question.words().options.last().cloned());
            all.learn(&question, &too_long, &mut known, now)
                .unwrap_err();
        }
        assert_eq!(limits[..2], ["--limit=2000", "--limit=1000"]);
        assert_eq!(limits[39], "--limit=1");
        let question = all.about_failures(now).unwrap();
        assert_eq!(question.words().options.last().unwrap(), "--limit=1");
    }

    #[test]
    fn a_run_of_the_future_hides_none_of_now() {
        let (runs, _) = first(&[run("a", 600, "ran"), run("b", -1, "ran")]);
        assert_eq!(since(&runs, minutes(0)), "--since=2026-11-26T11:59:30Z");
        // The server's clock is set back.
        assert_eq!(since(&runs, minutes(-60)), "--since=2026-11-26T10:59:30Z");
    }

    #[test]
    fn where_nothing_ran_it_is_asked_since_a_moment_of_the_server() {
        let (runs, _) = first(&[]);
        assert_eq!(since(&runs, minutes(1)), "--since=2026-11-26T11:44:30Z");
    }

    #[test]
    fn a_name_that_is_refused_keeps_no_other_from_being_asked_for() {
        let (mut runs, mut known) = first(&[run("a", -1, "ran"), run("b", -60, "running")]);
        let jobs = jobs(&["bad", "good"]);
        let refused = Answer::of_test(65, "");
        let mut asked = Vec::new();
        while let Some(question) = runs
            .questions(Some(&jobs), None, minutes(0))
            .into_iter()
            .nth(1)
        {
            asked.extend(question.words().names.clone());
            if asked.len() == 2 {
                break;
            }
            runs.learn(&question, &refused, &mut known, minutes(0))
                .unwrap();
        }
        assert_eq!(asked, ["bad", "good"]);
        for code in [65, 69] {
            let question = runs
                .questions(Some(&jobs), None, minutes(0))
                .remove(usize::from(code == 69));
            let away = Answer::of_test(code, "");
            runs.learn(&question, &away, &mut known, minutes(0))
                .unwrap_err();
        }
    }
}
