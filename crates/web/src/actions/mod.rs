//! What may be done, with the page in between: GET says what will be done to what, and POST does it. Each is a dblock command as a person
//! would type it.

mod act;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Form, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use crate::cli::kill;
use crate::fleet::Fleet;
use crate::fleet::dblock::Ended;
use crate::pages::{View, forms, layout};

use act::{Act, Asked, KILL_WAIT};

/// How the command's line in the table of what was done says that it came from here.
const VIA: &str = "web";

/// The longest that a command may take: longer than each gives itself, as one that is killed before its end records nothing. `dblock kill`
/// takes longest; others take three times as long as they may take to connect. Only a retry or a cancel of very many jobs has no limit of
/// its own.
fn limit(connect_timeout: Duration) -> Duration {
    kill::longest(connect_timeout, KILL_WAIT).saturating_add(connect_timeout)
}

/// How many are under way at once.
const AT_ONCE: usize = 2;

/// What the pages need.
#[derive(Clone)]
pub struct Actions {
    /// What is known, and what runs commands.
    fleet: Arc<Fleet>,
    /// Whether anything may be done, and how the pages look.
    view: View,
    turns: Arc<Semaphore>,
}

/// The page in between.
pub async fn question(
    State(actions): State<Actions>,
    Path(kind): Path<String>,
    Query(asked): Query<Asked>,
) -> Response {
    let act = match actions.act(&kind, asked) {
        Ok(act) => act,
        Err(refusal) => return *refusal,
    };
    let seen = actions.fleet.look().await;
    if let Some((title, words)) = plan::nothing(&act, &seen, Timestamp::now()) {
        return actions.message(StatusCode::NOT_FOUND, &title, words);
    }
    let plan = match plan::of(&act, &seen, &actions.fleet).await {
        Ok(plan) => plan,
        Err(why) => return actions.message(StatusCode::CONFLICT, "This cannot be done", &why),
    };
    let question = forms::Question {
        title: &format!("{}?", plan.title),
        facts: &plan.facts,
        consequence: plan.consequence,
        command: &plan.words.line(),
        url: &format!("/actions/{kind}"),
        fields: &plan.fields,
        verb: act.verb(),
        back: &act.back(),
    };
    Html(forms::question(&actions.view, &question).into_string()).into_response()
}

/// Does it, and says how that ended. People read the page; a script goes by the status, which is 200 only if it was done.
pub async fn answer(
    State(actions): State<Actions>,
    Path(kind): Path<String>,
    Form(asked): Form<Asked>,
) -> Response {
    let act = match actions.act(&kind, asked) {
        Ok(act) => act,
        Err(refusal) => return *refusal,
    };
    // What is looked at after the others is as it is now.
    let turn = actions.turns.clone().acquire_owned().await;
    let seen = actions.fleet.look().await;
    // The command finds out by itself whether it is there. If it fails, this is why, as far as is known.
    let is_missing = plan::nothing(&act, &seen, Timestamp::now()).is_some();
    let failed = if is_missing {
        StatusCode::NOT_FOUND
    } else {
        StatusCode::CONFLICT
    };
    let plan = match plan::of(&act, &seen, &actions.fleet).await {
        Ok(plan) => plan,
        Err(why) => return actions.message(failed, "This cannot be done", &why),
    };
    // Who sends this form was asked about these very jobs, or this very holder.
    if let Some(objection) = plan.objection {
        let why = format!("{objection} Go back and look again.");
        return actions.message(StatusCode::CONFLICT, "Nothing was done", &why);
    }
    let fleet = actions.fleet.clone();
    let words = plan.words.clone();
    let limit = limit(fleet.dblock.connect_timeout);
    // It goes on when who asked for it closes the connection.
    let done = tokio::spawn(async move {
        let ended = fleet.dblock.act(&words, VIA, limit).await;
        fleet.is_changed();
        drop(turn);
        ended
    });
    let Ok(ended) = done.await else {
        return actions.message(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Nobody knows how this ended",
            &plan.words.line(),
        );
    };
    let answer = forms::Answer {
        title: &plan.title,
        is_done: ended.is_success(),
        command: &plan.words.line(),
        line: &shown(&ended),
        back: &act.back(),
    };
    let status = if ended.is_success() {
        StatusCode::OK
    } else {
        failed
    };
    let page = forms::answer(&actions.view, &answer);
    (status, Html(page.into_string())).into_response()
}

/// What the command said, also what it warned of, and its exit code.
fn shown(ended: &Ended) -> String {
    let said = String::from_utf8_lossy(&ended.answer);
    let code = ended.code.map(|code| format!("exit code {code}"));
    let code = code.unwrap_or_default();
    let all = [said.trim(), ended.line.as_str(), code.as_str()];
    let all = all.into_iter().filter(|lines| !lines.is_empty());
    all.collect::<Vec<_>>().join("\n")
}

impl Actions {
    /// None is under way.
    pub fn new(fleet: Arc<Fleet>, view: View) -> Self {
        Self {
            fleet,
            view,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    fn act(&self, kind: &str, asked: Asked) -> Result<Act, Box<Response>> {
        if !self.view.may_act {
            let words = "This page was started without --allow-actions.";
            return Err(Box::new(self.message(
                StatusCode::FORBIDDEN,
                "Nothing can be changed here",
                words,
            )));
        }
        Act::of(kind, asked).ok_or_else(|| {
            let words = "There is no such action, or it does not say what it is about.";
            Box::new(self.message(StatusCode::BAD_REQUEST, "Which action?", words))
        })
    }

    fn message(&self, status: StatusCode, title: &str, words: &str) -> Response {
        let page = layout::message(&self.view, title, words);
        (status, Html(page.into_string())).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_by_its_own_limit_before_it_is_killed() {
        for seconds in [1, 10, 120] {
            let connect = Duration::from_secs(seconds);
            let of_kill = 2 * connect + Duration::from_secs(30 + 20);
            assert!(limit(connect) > of_kill.max(3 * connect), "{connect:?}");
        }
    }
}
